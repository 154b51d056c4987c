"""What a report finds, as facts: each finding by data that were made to show it, and its words."""

from __future__ import annotations

import ast
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant import evaluate
from calibrant.render import words
from calibrant.results import Code, Finding

SOURCE = Path(calibrant.__file__).parent


def found(report: calibrant.Report) -> dict[Code, dict[str, Any]]:
    return {finding.code: dict(finding.facts) for finding in report.findings}


def event(power: float, n: int = 4_000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return scores, and outcomes whose log-odds are ``power`` times those of the scores."""
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    q = p**power / (p**power + (1 - p) ** power)
    return p, (rng.random(n) < q).astype(int)


def test_calibrated_scores() -> None:
    report = evaluate(*event(1.0), n_resamples=200)
    assert list(found(report)) == [
        Code.NO_EVIDENCE,
        Code.RIGHT_ON_AVERAGE,
        Code.RIGHTLY_CONFIDENT,
        Code.RECALIBRATION_GAIN,
    ]
    facts = found(report)
    assert facts[Code.NO_EVIDENCE]["p_value"] == report["ece"].p_value > 0.05
    assert facts[Code.NO_EVIDENCE]["upper"] == report["ece"].floor.upper  # type: ignore[union-attr]


@pytest.mark.parametrize(("power", "code"), [(0.5, Code.OVER_CONFIDENT), (2.0, Code.UNDER_CONFIDENT)])
def test_confidence_is_the_distance_from_one_half(power: float, code: Code) -> None:
    p, y = event(power)
    facts = found(evaluate(p, y, n_resamples=100))
    assert Code.MISCALIBRATED in facts
    bins = np.ceil(p * 15).astype(int) - 1
    side = np.sign([p[bins == b].mean() - 0.5 for b in range(15)])
    side[7] = np.sign(p[bins == 7].mean() - 0.5)
    excess = np.mean(side[bins] * (p - y))  # of bins: the sum over a bin has one sign
    assert facts[code]["value"] == pytest.approx(excess, abs=1e-12)
    assert (facts[code]["low"] > 0) == (code is Code.OVER_CONFIDENT)


@pytest.mark.parametrize(("shift", "code"), [(0.1, Code.TOO_HIGH), (-0.1, Code.TOO_LOW)])
def test_the_mean_gap_and_its_interval(shift: float, code: Code) -> None:
    p, y = event(1.0)
    scores = np.clip(p + shift, 0, 1)
    report = evaluate(scores, y, n_resamples=100)
    facts = found(report)[code]
    gap = report["mean_gap"]
    half = (gap.high - gap.low) / 2
    assert facts["value"] == gap.value == pytest.approx(scores.mean() - y.mean())
    assert (facts["low"], facts["high"]) == (gap.value - half, gap.value + half)
    assert (facts["mean_score"], facts["event_rate"]) == pytest.approx((scores.mean(), y.mean()))


def test_what_recalibration_could_gain_is_corp() -> None:
    p, y = event(2.0)
    parts = calibrant.score_decomposition(p, y)
    facts = found(evaluate(p, y, level=None))[Code.RECALIBRATION_GAIN]
    assert facts["gain"] == parts.miscalibration
    assert facts["score"] == pytest.approx(np.mean((p - y) ** 2))


def test_a_falling_curve() -> None:
    p, y = event(1.0, 500)
    assert Code.FALLING_CURVE in found(evaluate(1 - p, y, n_resamples=0))
    assert Code.FALLING_CURVE not in found(evaluate(p, y, n_resamples=0))
    assert Code.FALLING_CURVE not in found(evaluate(1 - p, y, level=None)), "without a level nothing is beyond doubt"


@pytest.mark.parametrize(("hits", "rare"), [(0, True), (14, True), (15, False)])
def test_a_rare_outcome(hits: int, rare: bool) -> None:
    y = np.zeros(200, int)
    y[:hits] = 1
    report = evaluate(np.full(200, 0.07), y, n_resamples=0)
    assert (Code.RARE_OUTCOME in found(report)) == rare
    if rare:
        assert found(report)[Code.RARE_OUTCOME] == {"rows": pytest.approx(hits), "enough": 15}


def test_the_top_label_is_over_confident_on_average() -> None:
    rng = np.random.default_rng(3)
    probs = rng.dirichlet([0.2] * 4, 1_000)
    report = evaluate(probs, rng.integers(4, size=1_000), n_resamples=50)
    assert Code.TOO_HIGH in found(report)
    assert Code.OVER_CONFIDENT not in found(report), "for a right answer, too high is over-confident"
    assert any(sentence.startswith("Over-confident by ") for sentence in report.verdict())


def test_every_class_by_itself_has_evidence_and_a_gain() -> None:
    rng = np.random.default_rng(4)
    probs = rng.dirichlet([1.0] * 3, 400)
    report = evaluate(probs, rng.integers(3, size=400), notion="classwise", n_resamples=50)
    assert list(found(report)) == [Code.MISCALIBRATED, Code.RECALIBRATION_GAIN]


@pytest.mark.parametrize("n_resamples", [0, 50])
@pytest.mark.parametrize("notion", ["positive", "top-label"])
def test_there_is_a_finding_wherever_there_is_a_level(notion: Any, n_resamples: int) -> None:
    for n in (1, 2, 40):
        p, y = event(1.0, n)
        report = evaluate(p, y, notion=notion, n_resamples=n_resamples)
        assert report.findings[0].code in (Code.NO_EVIDENCE, Code.MISCALIBRATED)
        assert len(report.verdict()) == len(report.findings)


def test_findings_are_in_the_json_with_their_codes() -> None:
    report = evaluate(*event(2.0), n_resamples=50)
    listed = json.loads(report.to_json())["findings"]
    assert [finding["code"] for finding in listed] == [str(finding.code) for finding in report.findings]
    for finding, facts in zip(report.findings, listed, strict=True):
        assert {key: value for key, value in facts.items() if key != "code"} == dict(finding.facts)


def test_every_code_has_a_sentence() -> None:
    assert set(words._SENTENCES) == set(Code)


def test_the_verdict_does_not_depend_on_the_measures_shown() -> None:
    p, y = event(0.6)
    assert evaluate(p, y, measures=["accuracy"], n_resamples=50).verdict() == evaluate(p, y, n_resamples=50).verdict()


def test_a_finding_is_a_value() -> None:
    assert Finding(Code.FALLING_CURVE) == Finding(Code.FALLING_CURVE)
    with pytest.raises(AttributeError):
        Finding(Code.FALLING_CURVE).code = Code.TOO_LOW  # type: ignore[misc]
    assert math.isfinite(Finding(Code.RARE_OUTCOME, {"rows": 3.0}).facts["rows"])


def test_what_draws_computes_nothing() -> None:
    """`render` words and draws findings: no statistics, no random numbers, no distributions there."""
    for path in sorted((SOURCE / "render").glob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            names = (
                [module or ""] + [alias.name for alias in node.names]
                if isinstance(node, (ast.Import, ast.ImportFrom))
                else []
            )
            assert not any(name.split(".")[0] in ("numpy", "scipy", "statistics", "random") for name in names), (
                path.name
            )
