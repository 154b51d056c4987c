"""What a report finds, as facts: each finding by data that were made to show it, and its words."""

from __future__ import annotations

import ast
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant import evaluate
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
        Code.RIGHTLY_SPREAD,
        Code.RECALIBRATION_GAIN,
    ]
    facts = found(report)
    assert report.test is not None
    assert facts[Code.NO_EVIDENCE]["p_value"] == report.test.p_value > 0.05
    assert facts[Code.NO_EVIDENCE]["leading"] == report.test.details["leading"]
    assert facts[Code.NO_EVIDENCE]["ece"] == report["ece"].value
    assert facts[Code.NO_EVIDENCE]["upper"] == report["ece"].floor.upper  # type: ignore[union-attr]
    assert not report.miscalibrated


def logistic_line(p: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return the slope of y on the log-odds of p and its robust standard error, by Newton's method on rows."""
    x = np.stack([np.ones(len(p)), np.log(p / (1 - p))], axis=1)
    line = np.zeros(2)
    for _ in range(30):
        rate = 1 / (1 + np.exp(-x @ line))
        information = np.linalg.inv((x * (rate * (1 - rate))[:, None]).T @ x)
        line = line + information @ x.T @ (y - rate)
    scores = x * (y - rate)[:, None]
    return line[1], math.sqrt((information @ scores.T @ scores @ information)[1, 1])


@pytest.mark.parametrize(("power", "code"), [(0.5, Code.TOO_EXTREME), (2.0, Code.NOT_EXTREME_ENOUGH)])
def test_the_spread_is_the_slope_of_the_log_odds_line(power: float, code: Code) -> None:
    p, y = event(power)
    facts = found(evaluate(p, y, n_resamples=100))
    assert facts[Code.MISCALIBRATED]["leading"] == "spread"
    slope, error = logistic_line(p, y)
    half = 1.959963984540054 * error
    # Newton's method has converged to rounding; scores near 0 and 1 are moved in by 1e-6, of which there are none.
    assert facts[code]["value"] == pytest.approx(slope, rel=1e-9)
    assert (facts[code]["low"], facts[code]["high"]) == pytest.approx((slope - half, slope + half), rel=1e-6)
    assert (facts[code]["high"] < 1) == (code is Code.TOO_EXTREME)
    assert abs(slope - power) < 4 * error


def test_the_direction_of_the_spread_needs_no_side_of_one_half() -> None:
    """Scores far below 1/2: too extreme means too far from one another, wherever they lie."""
    rng = np.random.default_rng(7)
    log_odds = rng.normal(-3, 1, 20_000)
    y = rng.random(20_000) < 1 / (1 + np.exp(-log_odds))
    for factor, code in ((1.6, Code.TOO_EXTREME), (0.6, Code.NOT_EXTREME_ENOUGH)):
        scores = 1 / (1 + np.exp(-(-3 + factor * (log_odds + 3))))
        assert code in found(evaluate(scores, y, n_resamples=0))


def test_a_constant_score_is_too_low_and_has_no_spread() -> None:
    """A constant .2 where the event happens in .3 used to be called over-confident, too."""
    y = np.arange(1_000) % 10 < 3
    for n_resamples in (0, 200):
        report = evaluate(np.full(1_000, 0.2), y, n_resamples=n_resamples)
        assert report.test is not None
        assert set(report.test.details["parts"]) == {"mean", "ece"}
        assert list(found(report)) == [Code.MISCALIBRATED, Code.TOO_LOW, Code.RECALIBRATION_GAIN]
        assert not any("xtreme" in sentence or "slope" in sentence for sentence in report.verdict())


def test_a_forest_that_predicts_twice_the_deaths_is_too_high() -> None:
    """Its scores are nearer to 1/2 than the rates, so it used to be called under-confident."""
    rng = np.random.default_rng(8)
    q = rng.beta(2, 30, 5_000)
    report = evaluate(2 * q, rng.random(5_000) < q, n_resamples=200)
    facts = found(report)
    assert facts[Code.MISCALIBRATED]["leading"] == "mean"
    assert Code.TOO_HIGH in facts
    assert "by_itself" not in facts[Code.TOO_HIGH]
    assert Code.NOT_EXTREME_ENOUGH not in facts
    assert report.verdict()[1].startswith("Overestimates the event: ")


def test_a_direction_that_the_verdict_does_not_support_is_one_look_of_several() -> None:
    """As forecasts of football games: the mean gap alone has p = .024, the three parts together .079."""
    p = np.tile(np.linspace(0.2, 0.8, 61), 20)
    y = (np.random.default_rng(3).random(1_220) < p - 0.02).astype(int)
    report = evaluate(p, y, n_resamples=0)
    assert report.test is not None
    parts = report.test.details["parts"]
    assert parts["mean"] < 0.05 < report.test.p_value
    facts = found(report)[Code.TOO_HIGH]
    assert facts["looks"] == 3
    # One standard error for the p-value and the interval: the interval at level 1 - p ends at 0.
    ends = evaluate(p, y, n_resamples=0, level=1 - facts["by_itself"])["mean_gap"]
    assert ends.low == pytest.approx(0, abs=1e-12)
    assert report.verdict()[1].startswith("No clear over- or underestimation: ")
    alone = f"One component alone would be: mean difference, unadjusted p = {facts['by_itself']:.3f}."
    assert f"Not significant overall. {alone}" in report.verdict()


def test_the_part_that_decided_has_a_direction_even_where_its_interval_holds_zero() -> None:
    """41 events where 30 are claimed: p = .034, and the interval of the gap is wider than the test.

    Its variance is that of the outcomes, 300 q (1 - q) = 35.4, not that of calibrated ones, 27: 11 / 5.95 < 1.96.
    """
    y = np.arange(300) < 41
    report = evaluate(np.full(300, 0.1), y, n_resamples=0)
    assert report.miscalibrated
    assert found(report)[Code.MISCALIBRATED]["leading"] == "mean", "in one bin the ECE is the mean gap"
    facts = found(report)[Code.TOO_LOW]
    assert facts["low"] < facts["value"] < 0 < facts["high"]
    assert report.verdict()[1] == (
        "Underestimates the event: mean predicted probability 10.0 %, observed frequency 13.7 % "
        "(difference -3.7 percentage points, 95 % CI -7.6 to +0.2)."
    )


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
        assert found(report)[Code.RARE_OUTCOME] == {"rows": pytest.approx(hits), "enough": 15, "of_event": True}


def test_the_top_label_is_over_confident_on_average() -> None:
    rng = np.random.default_rng(3)
    probs = rng.dirichlet([0.2] * 4, 1_000)
    report = evaluate(probs, rng.integers(4, size=1_000), n_resamples=50)
    assert Code.TOO_HIGH in found(report)
    assert any(sentence.startswith("Over-confident: ") for sentence in report.verdict())


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
        unknown = [f for f in report.findings if f.code is Code.RIGHTLY_SPREAD and not math.isfinite(f.facts["low"])]
        alone = any("by_itself" in finding.facts for finding in report.findings)
        # Beside the findings: the size of the ECE, dependence, what would be significant alone.
        assert len(report.verdict()) == len(report.findings) - len(unknown) + 2 + alone


def test_findings_are_in_the_json_with_their_codes() -> None:
    report = evaluate(*event(2.0), n_resamples=50)
    listed = json.loads(report.to_json())["findings"]
    assert report.test is not None
    assert [finding["code"] for finding in listed] == [str(finding.code) for finding in report.findings]
    for finding, facts in zip(report.findings, listed, strict=True):
        assert {key: value for key, value in facts.items() if key != "code"} == dict(finding.facts)


def test_every_code_has_a_sentence() -> None:
    """Without a finding of that code, the verdict reads otherwise."""
    p, y = event(1.0)
    reports = [
        evaluate(p, y, n_resamples=50, tolerance=0.2),
        evaluate(p, y, n_resamples=50, tolerance=0.01),
        evaluate(p**2, y, n_resamples=50, tolerance=0.001),
        evaluate(np.sqrt(p), y, n_resamples=50),
        evaluate(1 - p, y, n_resamples=0),
        evaluate(np.full(200, 0.07), np.arange(200) < 5, n_resamples=0),
        evaluate(p, y, weights=1.0 + np.arange(len(y)) % 30, n_resamples=0),
        evaluate(*forest(50), n_resamples=0),
        evaluate(p, y, weights=np.where(np.arange(len(y)) < 20, 900.5, 0.5), n_resamples=0),
        evaluate(p, y, clusters=np.maximum(np.arange(len(y)), len(y) // 4), n_resamples=0),
        evaluate(np.stack([1 - p, p]).reshape(1, 2, -1), y.reshape(1, -1), n_resamples=0),
        *(evaluate(*event(power), n_resamples=50) for power in (0.5, 2.0)),
    ]
    said = set()
    for report in reports:
        for finding in report.findings:
            others = tuple(other for other in report.findings if other is not finding)
            if replace(report, findings=others).verdict() != report.verdict():
                said.add(finding.code)
    assert said == set(Code)


def test_the_verdict_does_not_depend_on_the_measures_shown() -> None:
    p, y = event(0.6)
    assert evaluate(p, y, measures=["accuracy"], n_resamples=50).verdict() == evaluate(p, y, n_resamples=50).verdict()


def test_a_finding_is_a_value() -> None:
    assert Finding(Code.FALLING_CURVE) == Finding(Code.FALLING_CURVE)
    with pytest.raises(AttributeError):
        Finding(Code.FALLING_CURVE).code = Code.TOO_LOW  # type: ignore[misc]
    assert math.isfinite(Finding(Code.RARE_OUTCOME, {"rows": 3.0}).facts["rows"])


def test_what_draws_computes_nothing() -> None:
    """Documents word and draw findings: no statistics, no random numbers, no distributions there."""
    for path in sorted([*SOURCE.glob("render/*.py"), *SOURCE.glob("*/*_document.py"), *SOURCE.glob("*/*_text.py")]):
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            names = (
                [module or ""] + [alias.name for alias in node.names]
                if isinstance(node, (ast.Import, ast.ImportFrom))
                else []
            )
            assert not any(name.split(".")[0] in ("scipy", "statistics", "random") for name in names), path.name


# ---------------------------------------------------------------- the slope, and what it needs


def forest(trees: int, n: int = 2_000) -> tuple[np.ndarray, np.ndarray]:
    """Return scores as shares of votes, many of them exactly 0 or 1, of outcomes with U-shaped chances."""
    rng = np.random.default_rng(5)
    t = rng.beta(0.5, 0.5, n)
    y = (rng.random(n) < t).astype(int)
    return rng.binomial(trees, t) / trees, y


def spread_sentence(report: calibrant.Report) -> str:
    """Return the sentence on the slope."""
    (sentence,) = (own for own in report.verdict() if "alibration slope" in own)
    return sentence


def test_no_direction_of_the_slope_where_scores_of_0_and_1_decide_it() -> None:
    """50 trees: the slope is 0.86 (0.73 to 0.98) or, without the rows at 0 and 1, 0.97 (0.88 to 1.06)."""
    p, y = forest(50)
    report = evaluate(p, y, n_resamples=0, profile="clinical")
    facts, ends = found(report)[Code.UNCLEAR_SPREAD], (p == 0) | (p == 1)
    inner = evaluate(p[~ends], y[~ends], n_resamples=0)["calibration_slope"]
    assert (facts["inner_value"], facts["inner_low"], facts["inner_high"]) == pytest.approx(
        (inner.value, inner.low, inner.high), rel=1e-9
    )
    slope = report["calibration_slope"]
    assert (facts["value"], facts["low"], facts["high"]) == (slope.value, slope.low, slope.high)
    assert facts["moved_from_the_ends"] == ends.sum()
    assert spread_sentence(report) == (
        "Whether predictions are too extreme depends on how scores of 0 and 1 are counted: calibration slope 0.86 "
        "(95 % CI 0.73 to 0.98; ideal 1) if the scores within 1e-6 of 0 or 1 (307 rows) are replaced by 1e-6 or "
        "1 - 1e-6, and 0.97 (95 % CI 0.88 to 1.06; ideal 1) without these rows."
    )
    assert not any("too extreme:" in sentence for sentence in report.verdict())
    for label in ("calibration slope", "calibration intercept"):
        assert f"{label}: in 307 rows, the score is within 1e-6 of 0 or 1" in " ".join(str(report).split())


def test_a_direction_that_holds_without_the_ends_names_both_slopes() -> None:
    """Ten trees: 0.31 and 0.82 are both below 1, but the size is not known."""
    sentence = spread_sentence(evaluate(*forest(10), n_resamples=0))
    assert sentence.startswith(
        "Predictions are too extreme: calibration slope 0.31 (95 % CI 0.25 to 0.38; ideal 1) if the scores "
        "within 1e-6 of 0 or 1 (704 rows) "
    )
    assert sentence.endswith("and 0.82 (95 % CI 0.72 to 0.92; ideal 1) without these rows.")
    assert "without these rows" not in spread_sentence(evaluate(*forest(500), n_resamples=0)), "97 rows change nothing"


@pytest.mark.parametrize("design", ["sketch", "weights", "clusters", "top label"])
def test_the_ends_count_on_every_door(design: str) -> None:
    """The same facts from a sketch, with weights, with a design effect, and for the top label."""
    p, y = forest(50)
    plain = found(evaluate(p, y, n_resamples=0))[Code.UNCLEAR_SPREAD]
    if design == "sketch":
        sketch = calibrant.CalibrationSketch()
        sketch.update(p, y)
        facts = found(evaluate(sketch, n_resamples=0))[Code.UNCLEAR_SPREAD]
        # The cells hold the mean scores of cells that are 4e-4 wide or less.
        assert facts["inner_value"] == pytest.approx(plain["inner_value"], abs=1e-3)
        assert facts["moved_from_the_ends"] == 307
    elif design == "weights":
        facts = found(evaluate(p, y, weights=np.full(len(p), 2), n_resamples=0))
        assert (facts.get(Code.UNCLEAR_SPREAD) or facts[Code.TOO_EXTREME])["moved_from_the_ends"] == 614
    elif design == "clusters":
        copies = [np.repeat(x, 4) for x in (p[:1_000], y[:1_000])]
        labels = np.repeat(np.arange(1_000), 4)
        whole = evaluate(*copies, clusters=labels, n_resamples=0)
        facts = found(whole)[next(c for c in (Code.UNCLEAR_SPREAD, Code.RIGHTLY_SPREAD) if c in found(whole))]
        alone = found(evaluate(p[:1_000], y[:1_000], n_resamples=0))
        once = alone[next(c for c in (Code.UNCLEAR_SPREAD, Code.RIGHTLY_SPREAD) if c in alone)]
        # Four copies of a row in one cluster are one row, but for Student's quantile and H / (H - 1).
        assert facts["inner_low"] == pytest.approx(once["inner_low"], abs=5e-3)
    else:
        facts = found(evaluate(np.stack([1 - p, p], axis=1), y, n_resamples=0))
        (code,) = {Code.TOO_EXTREME, Code.NOT_EXTREME_ENOUGH, Code.RIGHTLY_SPREAD, Code.UNCLEAR_SPREAD} & facts.keys()
        assert facts[code]["moved_from_the_ends"] == 307


def test_a_slope_that_nothing_but_the_ends_decides() -> None:
    """All other rows have one outcome, which has no slope."""
    y = np.array([0] * 60 + [1] * 20 + [0] * 20 + [1] * 60 + [1] * 40)
    report = evaluate(np.repeat([0.0, 1.0, 0.4, 0.6], [80, 80, 20, 20]), y, n_resamples=0)
    assert found(report)[Code.UNCLEAR_SPREAD]["moved_from_the_ends"] == 160
    assert spread_sentence(report).endswith("and no slope without these rows.")
    json.loads(report.to_json())


def test_an_infinite_log_loss_says_which_rows_are_why() -> None:
    p, y = forest(10)
    lost = int(np.sum((p == 0) & (y == 1)) + np.sum((p == 1) & (y == 0)))
    text = " ".join(str(evaluate(p, y, n_resamples=0)).split())
    assert f"log loss is infinite: {lost} observed outcomes had predicted probability 0" in text


def test_a_slope_below_0_needs_its_interval() -> None:
    """A point slope below 0 alone does not say that outcomes do not happen more often as scores rise."""
    rng = np.random.default_rng(1)
    p = np.repeat(np.linspace(0.05, 0.95, 20), 4)
    y = rng.integers(0, 2, len(p))
    report = evaluate(p, y, n_resamples=0)
    line = report["calibration_slope"]
    facts = found(report)[Code.TOO_EXTREME]
    assert (facts["low"], facts["high"]) == pytest.approx((line.low, line.high), rel=1e-12)
    said = "events are not more frequent at higher scores" in spread_sentence(report)
    assert said == (line.high <= 0)
    assert not said
    assert f"{line.value:.2f} (95 % CI {line.low:.2f} to {line.high:.2f}; ideal 1)" in spread_sentence(report)


@pytest.mark.parametrize("clustered", [False, True])
def test_the_p_value_of_one_look_is_that_of_its_interval(clustered: bool) -> None:
    """Of every part, a look has p <= 0.05 exactly where its interval is off, as both have one standard error."""
    seen = set()
    for seed in range(24):
        rng = np.random.default_rng(seed)
        p = rng.beta(1, 3, 160).clip(0.01, 0.99)
        y = (rng.random(160) < p**1.15).astype(int)
        clusters = np.arange(160) // 4 if clustered else None
        report = evaluate(p, y, clusters=clusters, n_resamples=0)
        for code, facts in found(report).items():
            if "by_itself" in facts:
                seen.add(code)
                assert facts["by_itself"] <= 0.05 + 1e-12, (seed, code)
                ends = evaluate(p, y, clusters=clusters, n_resamples=0, level=1 - facts["by_itself"])
                name, right = ("mean_gap", 0) if code in (Code.TOO_HIGH, Code.TOO_LOW) else ("calibration_slope", 1)
                assert min(abs(ends[name].low - right), abs(ends[name].high - right)) < 1e-9, (seed, code)
    assert seen


def test_the_gain_of_recalibration_is_bounded_by_its_interval() -> None:
    """In sample alone the bound is exceeded in one sample of five to ten."""
    p, y = event(0.7, 500)
    report = evaluate(p, y, n_resamples=200)
    gain, facts = report["miscalibration"], found(report)[Code.RECALIBRATION_GAIN]
    assert facts["high"] == gain.high > facts["gain"] == gain.value
    sentence = next(s for s in report.verdict() if "recalibration" in s)
    assert f" by {gain.value:.3f} (" in sentence
    assert sentence.endswith("; expect less on new data (see calibrant recalibrate).")
    for bare in (evaluate(p, y, level=None), evaluate(p, y, n_resamples=0)):
        sentence = next(s for s in bare.verdict() if "recalibration" in s)
        assert "at most" not in sentence
        assert f" by {gain.value:.3f} (" in sentence
        assert sentence.endswith("; expect less on new data (see calibrant recalibrate).")
