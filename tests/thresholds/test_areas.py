"""AURC, AUGRC and excess AURC: naive forms, other packages' numbers, laws, influences, coverage of the intervals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit

import calibrant
from calibrant.errors import InputError
from calibrant.table import ReliabilityTable
from calibrant.thresholds.areas import MOST_POINTS, areas, reciprocals
from calibrant.thresholds.ranked import Ranked
from tests.golden import record_thresholds as recorded

RECORDED = recorded.load()
KINDS = ("aurc", "augrc", "excess")


def naive(scores: Any, correct: Any) -> dict[str, float]:
    """Return the areas row by row; tied rows have the mean error of their tie."""
    scores, wrong = np.asarray(scores, float), 1 - np.asarray(correct, float)
    order = np.argsort(-scores, kind="stable")
    scores, wrong = scores[order], wrong[order]
    for score in np.unique(scores):
        wrong[scores == score] = wrong[scores == score].mean()
    n, errors, aurc, augrc = len(scores), 0.0, [], []
    for k, each in enumerate(wrong, 1):
        errors += each
        aurc.append(errors / k)
        augrc.append(errors / n)
    total = round(errors)
    best = [max(0, k - (n - total)) / k for k in range(1, n + 1)]
    return {
        "aurc": float(np.mean(aurc)),
        "augrc": float(np.mean(augrc)),
        "excess": float(np.mean(aurc) - np.mean(best)),
    }


def sample(n: int, seed: int = 0, *, places: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    p = rng.beta(4, 1, n)
    correct = (rng.random(n) < p).astype(np.int64)
    return (p if places is None else np.round(p, places)), correct


@pytest.mark.parametrize("places", [None, 2, 1])
@pytest.mark.parametrize("n", [5, 60, 700, 4_000])
def test_areas_equal_their_naive_form(n: int, places: int | None) -> None:
    scores, correct = sample(n, n, places=places)
    expected = naive(scores, correct)
    for kind in KINDS:
        found = calibrant.area_under_risk_coverage(scores, correct, kind=kind)
        assert found.value == pytest.approx(expected[kind], rel=1e-12, abs=1e-15)
        assert found.n == n


@pytest.mark.parametrize("name", RECORDED["cases"])
def test_areas_equal_those_of_other_packages(name: str) -> None:
    case, theirs = recorded.cases()[name], RECORDED["cases"][name]
    ours = areas(Ranked.of(ReliabilityTable.from_scores(case.probs, case.targets)), 0.95, len(case.probs))
    assert ours["aurc"].value == pytest.approx(theirs["kunko_aurc"], rel=1e-12, abs=1e-15)
    joint = recorded.augrc(theirs["kunko_failure_auroc"], theirs["errors"], theirs["rows"])
    assert ours["augrc"].value == pytest.approx(joint, rel=1e-12, abs=1e-15)
    if "torch_uncertainty" not in theirs:
        return
    # Trapezoids in single precision: half of the first and of the last value are left out.
    n, first = theirs["rows"], 1.0 - case.targets[np.argmax(case.probs)]
    rate = theirs["errors"] / n
    ends = {"aurc": (first, rate), "augrc": (first / n, rate)}
    for kind, area in zip(("aurc", "augrc"), theirs["torch_uncertainty"], strict=True):
        assert ours[kind].value == pytest.approx(recorded.from_trapezoids(area, *ends[kind], n), rel=2e-5, abs=1e-8)


@pytest.mark.parametrize("start", [0, 1, 5, 63, 64, 65, 1_000, 10**6])
@pytest.mark.parametrize("size", [1, 2, 70, 10_000])
def test_sums_of_reciprocals(start: int, size: int) -> None:
    found = reciprocals(np.array([float(start)]), np.array([float(size)]))[0][0]
    expected = math.fsum(1 / k for k in range(start + 1, start + size + 1))
    assert found == pytest.approx(expected, rel=2e-15 if start >= 64 or start + size <= 64 else 1e-15, abs=3e-16)
    between = reciprocals(np.array([start + 0.5]), np.array([float(size)]))[0][0]
    assert between == pytest.approx(math.fsum(1 / (k + 0.5) for k in range(start + 1, start + size + 1)), rel=1e-12)


def test_neither_order_nor_unit_of_the_scores_plays_a_part() -> None:
    scores, correct = sample(500, places=2)
    order = np.random.default_rng(1).permutation(500)
    for kind in KINDS:
        one = calibrant.area_under_risk_coverage(scores, correct, kind=kind)
        other = calibrant.area_under_risk_coverage(scores[order], correct[order], kind=kind)
        scaled = calibrant.area_under_risk_coverage(np.log(scores + 0.001) - 7, correct, kind=kind)
        assert one == other
        assert (scaled.value, scaled.low, scaled.high) == pytest.approx((one.value, one.low, one.high), rel=1e-12)


def test_a_weight_of_two_is_a_row_twice() -> None:
    scores, correct = sample(300, places=2)
    weights = np.random.default_rng(2).integers(1, 4, 300)
    for kind in KINDS:
        one = calibrant.area_under_risk_coverage(scores, correct, kind=kind, weights=weights)
        rows = calibrant.area_under_risk_coverage(np.repeat(scores, weights), np.repeat(correct, weights), kind=kind)
        assert (one.value, one.low, one.high) == pytest.approx((rows.value, rows.low, rows.high), rel=1e-12)


@pytest.mark.parametrize("downward", [False, True])
def test_means_of_weighted_rows_have_the_variance_of_their_rows(downward: bool) -> None:
    """Right and wrong rows have squared weights of their own."""
    scores, correct = sample(400, 8)
    weights = np.random.default_rng(0).random(400) * np.where(correct == 1, 1.0, 5.0) + 0.25
    ranked = Ranked.of(ReliabilityTable.from_scores(scores, correct, weights=weights), downward=downward)
    right, wrong = np.linspace(0, 1, len(ranked)), np.linspace(3, 1, len(ranked))
    places = np.searchsorted(ranked.scores if downward else ranked.scores[::-1], scores)
    places = places if downward else len(ranked) - 1 - places
    values = np.where((correct == 1) != downward, right[places], wrong[places])
    mean = np.average(values, weights=weights)
    n = weights.sum() ** 2 / np.sum(weights**2)
    variance = np.sum((weights * (values - mean)) ** 2) / weights.sum() ** 2 * n / (n - 1)
    found, error = ranked.mean(right, wrong)
    assert (found, error.value) == pytest.approx((mean, variance), rel=1e-12)


def test_a_sketch_has_the_areas_of_its_cells() -> None:
    scores, correct = sample(20_000)
    sketch = calibrant.CalibrationSketch()
    sketch.update(scores, correct)
    table = ReliabilityTable.from_scores(scores, correct, grid="standard")
    for kind in KINDS:
        one = calibrant.area_under_risk_coverage(sketch, kind=kind)
        assert one == calibrant.area_under_risk_coverage(table, kind=kind)
        assert one.value == pytest.approx(naive(scores, correct)[kind], abs=2e-4)


@pytest.mark.slow
def test_intervals_are_those_of_the_jackknife() -> None:
    """Leaving one row out gives the influence of the row, up to 1 / n."""
    scores, correct = sample(400, 5)
    wholes = naive(scores, correct)
    left = [naive(np.delete(scores, i), np.delete(correct, i)) for i in range(400)]
    for kind in KINDS:
        moved = np.array([each[kind] for each in left])
        error = np.sqrt(399 / 400 * np.sum((moved - moved.mean()) ** 2))
        found = calibrant.area_under_risk_coverage(scores, correct, kind=kind)
        assert np.log(found.high / wholes[kind]) / 1.959964 == pytest.approx(error / wholes[kind], rel=0.03)


def test_clusters_of_copies_count_once() -> None:
    scores, correct = sample(400, 6)
    clusters = np.arange(400)
    for kind in KINDS:
        one = calibrant.area_under_risk_coverage(scores, correct, kind=kind)
        alone = calibrant.area_under_risk_coverage(scores, correct, kind=kind, clusters=clusters)
        copies = calibrant.area_under_risk_coverage(
            np.repeat(scores, 5), np.repeat(correct, 5), kind=kind, clusters=np.repeat(clusters, 5)
        )
        assert alone == one
        assert np.log(copies.high / copies.low) == pytest.approx(np.log(one.high / one.low), rel=0.03)


def test_without_errors_or_without_right_rows_there_is_no_interval() -> None:
    for correct, said in ((np.ones(50, int), "predictions are correct"), (np.zeros(50, int), "predictions are wrong")):
        for kind in KINDS:
            found = calibrant.area_under_risk_coverage(np.linspace(0, 1, 50), correct, kind=kind)
            assert found.value == pytest.approx({"augrc": 0.51}.get(kind, float(kind == "aurc")) * (1 - correct[0]))
            assert np.isnan(found.low)
            assert said in found.method
    perfect = calibrant.area_under_risk_coverage(np.linspace(0, 1, 50), np.arange(50) >= 20, kind="excess")
    assert perfect.value == 0
    assert "every wrong prediction has a lower score" in perfect.method


def test_few_errors_are_flagged() -> None:
    scores, correct = np.linspace(0, 1, 100), np.arange(100) % 9 > 0
    assert calibrant.area_under_risk_coverage(scores, correct).details["flag"] == "12 errors, fewer than 15"
    scores, correct = np.linspace(0, 1, 100), np.arange(100) % 9 == 0
    flag = calibrant.area_under_risk_coverage(scores, correct).details["flag"]
    assert flag == "12 correct predictions, fewer than 15"
    assert not calibrant.area_under_risk_coverage(*sample(500)).details


@pytest.mark.parametrize(
    ("scores", "correct", "said"),
    [
        ([0.1, np.nan], [0, 1], "scores: expected finite numbers, got nan in row 1"),
        ([[0.1, 0.9]], [0], "scores: expected shape"),
        ([], [], "scores: expected shape"),
        ([0.1, 0.2], [0, 2], "correct: expected outcomes 0 or 1"),
        ([0.1, 0.2], [0], "correct"),
    ],
)
def test_bad_input_names_its_argument(scores: Any, correct: Any, said: str) -> None:
    for function in (calibrant.area_under_risk_coverage, calibrant.risk_coverage_curve):
        with pytest.raises(InputError, match=said.replace("(", r"\(")):
            function(scores, correct)
    with pytest.raises(InputError, match="kind"):
        calibrant.area_under_risk_coverage([0.1, 0.2], [0, 1], kind="area")


def test_the_curve_has_exact_points_and_binomial_bands() -> None:
    scores, correct = sample(3_000)
    curve = calibrant.risk_coverage_curve(scores, correct, level=0.9)
    assert len(curve.coverages) == MOST_POINTS - 1
    for threshold, coverage, risk, low, high in zip(
        curve.thresholds, curve.coverages, curve.risks, curve.lows, curve.highs, strict=True
    ):
        acted = scores >= threshold
        n, errors = acted.sum(), (1 - correct)[acted].sum()
        assert (coverage, risk) == (n / 3_000, errors / n)
        assert low <= risk <= high
    from scipy.stats import binomtest

    interval = binomtest(int(errors), int(n)).proportion_ci(0.9)
    assert (low, high) == pytest.approx((interval.low, interval.high), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["calibrated", "overconfident", "flat"])
@pytest.mark.parametrize("n", [300, 2_000])
def test_intervals_cover_the_true_areas(shape: str, n: int) -> None:
    """From 15 errors on, 0.93 to 0.97 of 95 % intervals cover: within three standard errors of 600 data sets."""
    true_rate = {
        "calibrated": lambda p: p,
        "overconfident": lambda p: expit(0.6 * logit(p)),
        "flat": lambda p: np.full(len(p), 0.9),
    }[shape]
    p = np.sort(np.random.default_rng(0).beta(4, 1, 1_000_000))[::-1]
    wrong = 1 - true_rate(p)
    risks, rate = np.cumsum(wrong) / np.arange(1, len(p) + 1), wrong.mean()
    truth = {"aurc": risks.mean(), "augrc": np.cumsum(wrong).sum() / len(p) ** 2}
    truth["excess"] = truth["aurc"] - (rate + (1 - rate) * np.log1p(-rate))
    covered = {kind: [] for kind in KINDS}
    for run in range(600):
        rng = np.random.default_rng([run, n])
        p = rng.beta(4, 1, n)
        table = ReliabilityTable.from_scores(p, rng.random(n) < true_rate(p))
        if table.total - table.sums.positives >= 15:
            for kind, area in areas(Ranked.of(table), 0.95, n).items():
                covered[kind].append(area.low <= truth[kind] <= area.high)
    error = 3 * np.sqrt(0.95 * 0.05 / 600)
    for kind in KINDS:
        assert 0.93 - error < np.mean(covered[kind]) < 0.97 + error, kind
