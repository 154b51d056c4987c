"""The O:E ratio, the calibration intercept and slope, the Brier skill and Kuiper's error: oracles and laws."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

import calibrant
from calibrant import CalibrationSketch, ReliabilityTable
from calibrant.measures.cumulative.cumulative import RANGE, brownian_range_sf
from tests.examples_of import at_most
from tests.samples import draw, sketch_of

CLOSE = 1e-12
KEYS = ("oe_ratio", "calibration_intercept", "calibration_slope", "brier_skill", "kuiper")
FUNCTIONS = {
    "oe_ratio": calibrant.observed_expected_ratio,
    "calibration_intercept": calibrant.calibration_intercept,
    "calibration_slope": calibrant.calibration_slope,
    "brier_skill": calibrant.brier_skill_score,
    "kuiper": calibrant.kuiper_calibration_error,
}


def recorded() -> tuple[Any, Any]:
    """The rows behind the recorded numbers."""
    rng = np.random.default_rng(11)
    scores = np.clip(rng.beta(1.5, 3, 400).round(3), 0.001, 0.999)
    return scores, (rng.random(400) < scores**1.3).astype(int)


def rows(seed: int, n: int = 300) -> tuple[Any, Any]:
    return draw(seed, n, lambda p: p**1.4, decimals=2)


# ---------------------------------------------------------------- oracles


def test_the_log_odds_line_is_that_of_statsmodels() -> None:
    """statsmodels 0.15.0: GLM(Binomial) on the log-odds, with an offset for slope 1; standard errors HC0."""
    report = calibrant.evaluate(*recorded(), profile="clinical", n_resamples=0)
    slope, large = report["calibration_slope"], report["calibration_intercept"]
    z = norm.ppf(0.975)
    assert slope.value == pytest.approx(1.2356760725527827, rel=1e-9)
    assert (slope.high - slope.low) / (2 * z) == pytest.approx(0.15330841082374944, rel=1e-7)
    assert large.value == pytest.approx(-0.34303603411284467, rel=1e-9)
    assert (large.high - large.low) / (2 * z) == pytest.approx(0.11796962298835309, rel=1e-7)
    assert slope.low + slope.high == pytest.approx(2 * slope.value)


def test_the_skill_is_that_of_scikit_learn() -> None:
    """scikit-learn 1.9.1: d2_brier_score."""
    assert calibrant.brier_skill_score(*recorded()) == pytest.approx(0.2146152631741235, rel=CLOSE)


def test_the_ratio_and_its_interval_by_hand() -> None:
    scores, outcomes = recorded()
    estimate = calibrant.evaluate(scores, outcomes, measures=["oe_ratio"], n_resamples=0)["oe_ratio"]
    ratio = outcomes.sum() / scores.sum()
    error = math.sqrt(float(np.sum((outcomes - ratio * scores) ** 2))) / outcomes.sum()
    z = norm.ppf(0.975)
    assert estimate.value == pytest.approx(ratio, rel=CLOSE)
    assert estimate.low == pytest.approx(ratio * math.exp(-z * error), rel=1e-9)
    assert estimate.high == pytest.approx(ratio * math.exp(z * error), rel=1e-9)
    assert estimate.details["observed"] == outcomes.sum()
    assert estimate.details["expected"] == pytest.approx(scores.sum())
    gap = calibrant.evaluate(scores, outcomes, measures=["mean_gap"], n_resamples=0)["mean_gap"]
    assert estimate.p_value == gap.p_value
    assert estimate.floor is not None
    assert gap.floor is not None
    assert estimate.floor.upper == pytest.approx(gap.floor.upper / scores.mean())


@at_most(60)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 40))
def test_kuipers_error_is_the_largest_sum_over_an_interval_of_scores(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    scores, outcomes = rng.integers(0, 9, n) / 8, rng.integers(0, 2, n)
    distinct = np.unique(scores)
    naive = max(
        abs(float(np.sum((outcomes - scores)[(scores >= low) & (scores <= high)]))) / n
        for low in distinct
        for high in distinct
        if low <= high
    )
    assert calibrant.kuiper_calibration_error(scores, outcomes) == pytest.approx(naive, abs=CLOSE)
    assert calibrant.cutoff_calibration_error(scores, outcomes) == calibrant.kuiper_calibration_error(scores, outcomes)


def test_kuipers_law_is_that_of_the_range_of_brownian_motion() -> None:
    scores, outcomes = recorded()
    estimate = calibrant.evaluate(scores, outcomes, measures=["kuiper"], n_resamples=0)["kuiper"]
    deviation = math.sqrt(float(np.sum(scores * (1 - scores)))) / len(scores)
    assert estimate.details["standardised"] == pytest.approx(estimate.value / deviation)
    assert estimate.p_value == pytest.approx(brownian_range_sf(estimate.value / deviation))
    assert estimate.floor is not None
    assert estimate.floor.mean == pytest.approx(RANGE.mean * deviation)
    assert brownian_range_sf(RANGE.quantile(0.95)) == pytest.approx(0.05, abs=1e-8)
    x = np.linspace(0, 12, 12_001)
    tail = [brownian_range_sf(float(value)) for value in x]
    assert np.trapezoid(tail, x) == pytest.approx(RANGE.mean, rel=1e-4)  # the mean is the integral of the tail


@pytest.mark.slow
def test_kuipers_error_rejects_calibrated_scores_as_often_as_its_level() -> None:
    rng = np.random.default_rng(5)
    p_values = []
    for _ in range(600):
        scores = rng.random(2_000)
        report = calibrant.evaluate(scores, rng.random(2_000) < scores, measures=["kuiper"], n_resamples=0)
        p_values.append(report["kuiper"].p_value)
    rejected = float(np.mean(np.array(p_values) <= 0.05))
    assert rejected <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 600)
    assert rejected >= 0.02  # the law is close, not merely safe


# ---------------------------------------------------------------- laws


@pytest.mark.parametrize("key", KEYS)
def test_the_order_of_rows_repeats_and_batches_play_no_part(key: str) -> None:
    scores, outcomes = rows(3)
    value = FUNCTIONS[key](scores, outcomes)
    order = np.random.default_rng(0).permutation(len(scores))
    assert FUNCTIONS[key](scores[order], outcomes[order]) == pytest.approx(value, abs=1e-9)
    weights = np.random.default_rng(1).integers(1, 4, len(scores))
    repeated = FUNCTIONS[key](np.repeat(scores, weights), np.repeat(outcomes, weights))
    assert FUNCTIONS[key](scores, outcomes, weights=weights) == pytest.approx(repeated, abs=1e-9)
    table = ReliabilityTable.from_scores(scores[:100], outcomes[:100]) + ReliabilityTable.from_scores(
        scores[100:], outcomes[100:]
    )
    if key != "brier_skill":  # it is about whole predictions
        assert FUNCTIONS[key](table) == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize("key", KEYS)
def test_the_function_is_the_report_and_a_sketch_is_close(key: str) -> None:
    scores, outcomes = rows(4, 2_000)
    scores = np.random.default_rng(9).permutation(scores) * 0.98 + 0.01
    report = calibrant.evaluate(scores, outcomes, measures=[key], level=None)
    assert FUNCTIONS[key](scores, outcomes) == pytest.approx(report[key].value, abs=1e-9)
    sketch = sketch_of(scores, outcomes)
    assert FUNCTIONS[key](sketch) == pytest.approx(report[key].value, abs=2e-4)


def test_a_sketch_gives_the_ratio_and_its_interval_exactly() -> None:
    scores, outcomes = recorded()
    sketch = sketch_of(scores, outcomes)
    exact, found = (
        calibrant.evaluate(data, labels, measures=["oe_ratio"], n_resamples=0)["oe_ratio"]
        for data, labels in ((scores, outcomes), (sketch, None))
    )
    assert found.error_bound == 0
    assert [found.value, found.low, found.high] == pytest.approx([exact.value, exact.low, exact.high], rel=1e-12)


@at_most(60)
@given(seed=st.integers(0, 2**32 - 1), n=st.sampled_from([1, 3, 50, 700]), weighted=st.booleans())
def test_kuipers_error_of_a_sketch_is_within_its_bound(seed: int, n: int, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.beta(0.5, 2, n)
    outcomes, weights = (
        (rng.random(n) < scores ** (0.5 + seed % 3)).astype(int),
        rng.integers(1, 9, n) / 8 if weighted else None,
    )
    sketch = sketch_of(scores, outcomes, weights=weights)
    estimate = calibrant.evaluate(sketch, measures=["kuiper"], level=None)["kuiper"]
    exact = calibrant.kuiper_calibration_error(scores, outcomes, weights=weights)
    assert abs(estimate.value - exact) <= estimate.error_bound + 1e-12


@at_most(60)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.sampled_from([1, 5, 50, 400]),
    n_bins=st.sampled_from([3, 7, 11, 64, 1000]),
    weighted=st.booleans(),
)
def test_murphys_parts_of_a_sketch_are_within_their_bounds(seed: int, n: int, n_bins: int, weighted: bool) -> None:
    """Half of the scores crowd at the edges of the bins, where a cell may be cut."""
    rng = np.random.default_rng(seed)
    near = rng.integers(0, n_bins + 1, n) / n_bins + rng.normal(0, 1e-3, n)
    scores = np.where(rng.random(n) < 0.5, np.clip(near, 0, 1), rng.random(n))
    outcomes = np.where(seed % 2, (scores * n_bins) % 1 > 0.5, rng.random(n) < scores).astype(int)
    weights = rng.integers(1, 9, n) / 8 if weighted else None
    sketch = sketch_of(scores, outcomes, weights=weights)
    asked: Any = {"measures": ["murphy_resolution", "murphy_reliability"], "level": None, "n_bins": n_bins}
    found, exact = calibrant.evaluate(sketch, **asked), calibrant.evaluate(scores, outcomes, weights=weights, **asked)
    for key in found:
        assert abs(found[key].value - exact[key].value) <= found[key].error_bound + 1e-11, key
    parts = calibrant.score_decomposition(scores, outcomes, method="murphy", n_bins=n_bins, weights=weights)
    assert exact["murphy_reliability"].value == pytest.approx(parts.miscalibration, abs=1e-12)
    assert exact["murphy_resolution"].value == pytest.approx(parts.discrimination, abs=1e-12)


def test_rows_in_clusters_widen_the_intervals() -> None:
    """Ten copies of each row: the intervals are those of one copy, up to Student's quantile and H / (H - 1)."""
    scores, outcomes = rows(6, 400)
    copies = [np.repeat(x, 10) for x in (scores, outcomes)]
    once = calibrant.evaluate(scores, outcomes, profile="clinical", n_resamples=0)
    clustered = calibrant.evaluate(*copies, profile="clinical", n_resamples=0, clusters=np.repeat(np.arange(400), 10))
    for key in ("oe_ratio", "calibration_intercept", "calibration_slope"):
        widths = [report[key].high - report[key].low for report in (once, clustered)]
        assert widths[1] == pytest.approx(widths[0], rel=0.02), key
        assert clustered[key].method.endswith("by cluster")
    assert math.isnan(calibrant.evaluate(*copies, measures=["kuiper"], n_resamples=20)["kuiper"].low)


# ---------------------------------------------------------------- what has no value


def test_what_has_no_value_says_why() -> None:
    none = calibrant.evaluate([0.2, 0.6, 0.7], [0, 0, 0], profile="clinical", n_resamples=0)
    assert (none["oe_ratio"].value, none["oe_ratio"].low) == (0.0, 0.0)
    assert none["oe_ratio"].high == pytest.approx((1 - 0.025 ** (1 / 3)) / 0.5)  # 0 of 3 events, 0.5 expected in each
    assert none["oe_ratio"].method.startswith("Clopper-Pearson of the rate; ")
    assert none["calibration_intercept"].value == -math.inf
    assert none["calibration_intercept"].details["reason"] == "all outcomes are equal"
    assert none["calibration_slope"].details["reason"] == "all outcomes are equal"
    zero = calibrant.evaluate([0.0, 0.0], [0, 1], measures=["oe_ratio"], level=None)["oe_ratio"]
    assert math.isnan(zero.value)
    assert zero.method == "not available: no event is expected, because every score is 0"
    assert math.isnan(calibrant.observed_expected_ratio([0.0, 0.0], [0, 1]))
    parted = calibrant.evaluate([0.2, 0.3, 0.6, 0.7], [0, 0, 1, 1], measures=["calibration_slope"], n_resamples=0)
    assert parted["calibration_slope"].value == math.inf
    assert "a threshold on the score perfectly separates events from non-events" in parted["calibration_slope"].method
    one = calibrant.evaluate([0.4, 0.4, 0.4], [0, 0, 1], measures=["calibration_slope"], n_resamples=0)
    assert one["calibration_slope"].details["reason"] == "there is one distinct score"
    assert math.isnan(calibrant.brier_skill_score([0.2, 0.4], [1, 1]))


def test_certain_scores_are_moved_in_and_counted() -> None:
    scores, outcomes = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0, 1, 0, 1, 0, 1]
    details = calibrant.evaluate(scores, outcomes, measures=["calibration_slope"], level=None)[
        "calibration_slope"
    ].details
    assert details["moved_from_the_ends"] == 2
    moved = calibrant.calibration_slope([1e-6, 0.2, 0.4, 0.6, 0.8, 1 - 1e-6], outcomes)
    assert calibrant.calibration_slope(scores, outcomes) == pytest.approx(moved, rel=1e-12)


def test_classes_have_no_mean_ratio_or_slope() -> None:
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(3), 200)
    report = calibrant.evaluate(probs, rng.integers(0, 3, 200), notion="classwise", profile="clinical", level=None)
    for key in ("oe_ratio", "calibration_intercept", "calibration_slope"):
        assert math.isnan(report[key].value)
        assert "evaluate one class at a time" in report[key].method


def test_the_skill_needs_to_know_how_often_each_class_is() -> None:
    rng = np.random.default_rng(0)
    sketch = CalibrationSketch(classwise=False)
    sketch.update(rng.dirichlet(np.ones(3), 50), rng.integers(0, 3, 50))
    with pytest.raises(calibrant.CalibrantError, match=r"frequency of each class.*classwise=True"):
        calibrant.brier_skill_score(sketch)
    probs, targets = rng.dirichlet(np.ones(3), 300), rng.integers(0, 3, 300)
    rates = np.bincount(targets) / 300
    worst = float(np.sum(rates * (1 - rates)))
    assert calibrant.brier_skill_score(probs, targets) == pytest.approx(
        1 - calibrant.brier_score(probs, targets) / worst, rel=CLOSE
    )
