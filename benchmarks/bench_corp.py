"""The CORP decomposition of the Brier score of 2,000,000 float32 scores of one event."""

from __future__ import annotations

import naive
import pytest
from contest import Contest, faster_than
from model_diagnostics.scoring import SquaredError, decompose
from samples import Sample

import calibrant


def test_brier(contest: Contest, long: Sample) -> None:
    answers = contest(
        "the same: CORP decomposition of the Brier score",
        lambda: calibrant.score_decomposition(long.probs, long.targets),
        floor=long.probs,
        peers={"model-diagnostics": lambda: decompose(long.targets, long.probs, scoring_function=SquaredError())},
        goals=[faster_than("model-diagnostics", 15)],
    )
    expected = naive.corp(long.probs, long.targets)
    parts = {part: getattr(answers.ours, part) for part in expected}
    assert parts == pytest.approx(expected, rel=1e-9, abs=1e-12)
    # The peer fits in the scores' float32 and treats scores closer than about 1e-7 as ties; 4e-7 off on these data.
    theirs = answers.peers["model-diagnostics"].row(0, named=True)
    assert parts == pytest.approx({part: theirs[part] for part in expected}, abs=1e-6)
