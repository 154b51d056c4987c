"""The exact smooth calibration error of 2,000,000 float32 scores of one event."""

from __future__ import annotations

import naive
import pytest
import relplot
from contest import Contest, faster_than
from samples import Sample

import calibrant


def test_exact(contest: Contest, long: Sample) -> None:
    answers = contest(
        "the same: smooth ECE, exact",
        lambda: calibrant.smooth_calibration_error(long.probs, long.targets),
        floor=long.probs,
        peers={"relplot": lambda: float(relplot.smECE(long.probs, long.targets))},
        goals=[faster_than("relplot", 60)],
    )
    assert answers.ours == pytest.approx(naive.smooth_error(long.probs, long.targets), abs=2e-7)
    # relplot resolves the bandwidth to 1/1024 and returns S(s) in place of s.
    assert answers.ours == pytest.approx(answers.peers["relplot"], abs=2e-3)
