"""Numbers from a sketch lie within their certified error of those from the predictions themselves.

The published bound is the assertion (statistics.md, section 5). What rounding adds is at most 1e-9: sums of a few
hundred terms of size 1, and for the smooth error its own numerical bound, which is part of the certified one on both
sides.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import calibrant
from calibrant import CalibrationSketch, ReliabilityTable
from calibrant.measures import Unavailable
from calibrant.measures.binned import binned
from calibrant.measures.binned.certified import ace_bound, ece_bound
from calibrant.measures.cumulative.cumulative import LARGEST, ks_bound
from calibrant.measures.isotonic import isotonic
from calibrant.measures.isotonic.isotonic import recalibrated_bound
from calibrant.measures.listed import BY_NAME
from calibrant.measures.smooth import smooth
from calibrant.measures.smooth.smooth import certified_error, kernel_bound
from calibrant.table import grid
from calibrant.table.reliability_table import GridCells
from tests.examples_of import at_most

ROUNDING = 1e-9
EDGES = grid.edges("standard")
#: On the grid, off it, coarser than cells and finer.
N_BINS = (1, 2, 7, 10, 11, 15, 64, 300, 1000, 4096, 20_000)


def near_edges(rng: np.random.Generator, n: int, dtype: type) -> np.ndarray:
    """Scores on, just below and just above edges of the grid, in their own type."""
    edges = EDGES.astype(dtype)[rng.integers(0, len(EDGES), n)]
    return np.clip(np.nextafter(edges, dtype(rng.choice([-1, 2]))), 0, 1) if rng.random() < 0.5 else edges


SCORES = {
    "spread": lambda rng, n, dtype: rng.random(n).astype(dtype),
    "sure": lambda rng, n, dtype: rng.beta(8, 0.3, n).astype(dtype),
    "rare": lambda rng, n, dtype: (rng.random(n) ** 6).astype(dtype),
    "few": lambda rng, n, dtype: rng.choice(rng.random(5), n).astype(dtype),
    "one cell": lambda rng, n, dtype: (0.5001 + 1e-4 * rng.random(n)).astype(dtype),
    "tenths": lambda rng, n, dtype: (rng.integers(0, 11, n) / 10).astype(dtype),
    "edges": near_edges,
    "ends": lambda rng, n, dtype: rng.choice([0.0, 1.0, 1e-9, 1 - 2.0**-24], n).astype(dtype),
}


def predictions(seed: int, kind: str, n: int, dtype: type, bend: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    scores = SCORES[kind](rng, n, dtype)
    outcomes = (rng.random(n) < scores.astype(float) ** bend).astype(np.int64)
    return scores, outcomes


def sketch_of(*args: object, **options: object) -> CalibrationSketch:
    made = CalibrationSketch(**{k: v for k, v in options.items() if k in ("notion", "classwise", "grid")})
    made.update(*args, **{k: v for k, v in options.items() if k in ("weights", "logits")})
    return made


def check(exact: calibrant.Report, sketched: calibrant.Report) -> None:
    assert exact.keys() == sketched.keys()
    for name, estimate in sketched.items():
        truth = exact[name]
        if math.isnan(estimate.error_bound):  # whether any bin holds 30 rows is in doubt
            assert name == "mce" or isinstance(BY_NAME[name].bound, Unavailable)
            continue
        assert estimate.error_bound >= 0
        if name == "brier_skill" and math.isnan(estimate.value) and not math.isnan(truth.value):
            assert exact.notion == "top-label"
            assert "not how often each class occurs" in estimate.method
            continue
        if not math.isfinite(estimate.value):
            assert str(estimate.value) == str(truth.value), name
            continue
        off = abs(estimate.value - truth.value)
        assert off <= estimate.error_bound + truth.error_bound + ROUNDING, (name, off, estimate.error_bound)


@at_most(300)
@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(sorted(SCORES)),
    n=st.sampled_from([1, 2, 3, 30, 200, 700]),
    dtype=st.sampled_from([np.float32, np.float64]),
    bend=st.sampled_from([0.5, 1.0, 3.0]),
    n_bins=st.sampled_from(N_BINS),
    weighting=st.sampled_from(["none", "whole", "fractional"]),
    notion=st.sampled_from(["positive", "top-label"]),
)
# Of the cells at the ends of a bin one can bring its mean further than both, and lower a gap as well as raise it.
@pytest.mark.slow
@example(161, "rare", 700, np.float32, 1.0, 4096, "none", "positive")
@example(80, "rare", 2000, np.float64, 3.0, 4096, "none", "positive")
@example(231, "sure", 200, np.float32, 0.5, 1000, "whole", "positive")
def test_no_number_of_a_sketch_is_beyond_its_bound(seed, kind, n, dtype, bend, n_bins, weighting, notion):
    scores, outcomes = predictions(seed, kind, n, dtype, bend)
    rng = np.random.default_rng(seed)
    weights = {"none": None, "whole": rng.integers(1, 4, n), "fractional": rng.integers(1, 9, n) / 8}[weighting]
    options = {"notion": notion, "weights": weights}
    exact = calibrant.evaluate(scores, outcomes, n_bins=n_bins, level=None, **options)
    check(exact, calibrant.evaluate(sketch_of(scores, outcomes, **options), n_bins=n_bins, level=None))


@at_most(300)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_bins=st.sampled_from([7, 11, 13]),
    split=st.sampled_from([3, 20, 200]),
    whole=st.sampled_from([0, 10, 300]),
    turned=st.booleans(),
    weighted=st.booleans(),
)
def test_outcomes_that_change_where_a_bin_ends_stay_within_the_bounds(seed, n_bins, split, whole, turned, weighted):
    """The worst that a cell can hide: all of one outcome up to the edge that runs through it, the other beyond."""
    rng = np.random.default_rng(seed)
    edges = rng.integers(1, n_bins, split) / n_bins if seed % 2 else np.full(split, rng.integers(1, n_bins) / n_bins)
    cells = np.searchsorted(EDGES, edges)
    scores = EDGES[cells - 1] + (EDGES[cells] - EDGES[cells - 1]) * rng.random(split)
    outcomes = (scores > edges) ^ turned
    more = rng.random(whole)
    scores = np.concatenate([scores, more])
    outcomes = np.concatenate([outcomes, rng.random(whole) < (more if seed % 3 else 1 - more)]).astype(int)
    weights = rng.integers(1, 9, len(scores)) / 8 if weighted else None
    exact = calibrant.evaluate(scores, outcomes, n_bins=n_bins, level=None, weights=weights)
    check(exact, calibrant.evaluate(sketch_of(scores, outcomes, weights=weights), n_bins=n_bins, level=None))


def test_the_squares_are_bounded_from_below_too():
    """Two predictions of one cell, on both sides of an edge of seven bins; the sketch puts both beyond it.

    The upper end of the bound is then reached: only the lower one has room for the truth.
    """
    cell = int(np.searchsorted(EDGES, 1 / 7))
    low, high = EDGES[cell - 1 : cell + 1]
    below, beyond = 1 / 7 - (1 / 7 - low) / 50, high - (high - 1 / 7) / 50
    assert (below + beyond) / 2 > 1 / 7
    scores, outcomes = np.concatenate([np.full(100, 0.05), [below, beyond]]), np.zeros(102, dtype=int)
    exact = calibrant.evaluate(scores, outcomes, n_bins=7, level=None)
    sketched = calibrant.evaluate(sketch_of(scores, outcomes), n_bins=7, level=None)
    check(exact, sketched)
    assert sketched["rmsce"].value > exact["rmsce"].value + 1e-5
    assert sketched["debiased_square"].value > exact["debiased_square"].value + 1e-6


@at_most(40)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.sampled_from([5, 60, 400]),
    size=st.sampled_from([2, 3, 5]),
    n_bins=st.sampled_from(N_BINS),
    notion=st.sampled_from(["top-label", "classwise", "multilabel"]),
    sharp=st.sampled_from([0.2, 1.0, 8.0]),
)
@example(215, 5, 2, 10, "top-label", 0.2)  # all five rows are of one class: neither table has a skill
def test_no_number_of_many_classes_is_beyond_its_bound(seed, n, size, n_bins, notion, sharp):
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(size, 1 / sharp), n)
    targets = np.array([rng.choice(size, p=row) for row in probs])
    if notion == "multilabel":
        probs, targets = rng.random((n, size)) ** sharp, rng.integers(0, 2, (n, size))
    exact = calibrant.evaluate(probs, targets, notion=notion, n_bins=n_bins, level=None)
    made = sketch_of(probs, targets, notion=notion, classwise=notion == "top-label")
    check(exact, calibrant.evaluate(made, n_bins=n_bins, level=None))


@pytest.mark.covering
@pytest.mark.parametrize("n_bins", [n for n in range(2, 301) if 300 % n == 0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bins_on_the_grid_are_exact(n_bins, dtype):
    rng = np.random.default_rng(n_bins)
    scores = np.concatenate([rng.random(500), np.arange(n_bins + 1) / n_bins, np.arange(301) / 300]).astype(dtype)
    outcomes = (rng.random(len(scores)) < scores**2).astype(int)
    exact = calibrant.evaluate(scores, outcomes, n_bins=n_bins, level=None)
    sketched = calibrant.evaluate(sketch_of(scores, outcomes), n_bins=n_bins, level=None)
    for name in ("ece", "rmsce", "debiased_square", "mce", "brier", "nll", "accuracy", "mean_gap", "uncertainty"):
        assert sketched[name].error_bound == 0
        np.testing.assert_allclose(sketched[name].value, exact[name].value, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(sketched.diagram.counts, exact.diagram.counts)


def test_bins_off_the_grid_are_not_called_exact():
    scores = (np.arange(4000) + 0.5) / 4000
    for n_bins in (7, 9, 11, 13, 64):
        found = calibrant.evaluate(sketch_of(scores, np.arange(4000) % 2), n_bins=n_bins, level=None)
        assert all(found[name].error_bound > 0 for name in ("ece", "rmsce", "debiased_square", "mce"))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("notion", [None, "top-label"])
def test_a_bare_table_on_a_grid_bounds_accuracy_and_log_loss_too(dtype, notion):
    rng = np.random.default_rng(3)
    scores = np.concatenate([rng.random(300), np.full(20, 0.5), np.full(9, 0.49999), [0.25, 1.0]]).astype(dtype)
    outcomes = (rng.random(len(scores)) < scores).astype(int)
    outcomes[300:320], outcomes[-1] = 1, 1
    exact = ReliabilityTable.from_scores(scores, outcomes)
    pooled = ReliabilityTable.from_scores(scores, outcomes, grid="standard")
    check(
        calibrant.evaluate(exact, notion=notion, level=None, n_bins=11),
        calibrant.evaluate(pooled, notion=notion, level=None, n_bins=11),
    )


def test_the_log_loss_of_a_table_is_bounded_by_infinity_where_its_cells_reach_the_ends():
    pooled = ReliabilityTable.from_scores([1e-9, 0.5], [1, 0], grid="standard")
    found = calibrant.evaluate(pooled, level=None)["nll"]
    assert math.isfinite(found.value)
    assert math.isinf(found.error_bound)
    exact = ReliabilityTable.from_scores([0.0, 0.5], [1, 0], grid="standard")
    assert math.isinf(calibrant.evaluate(exact, level=None)["nll"].value)


def test_the_bounds_are_those_of_the_formulas():
    """Each formula once more, written over the cells of a small table."""
    scores, outcomes = predictions(5, "spread", 3000, np.float64, 1.4)
    table = ReliabilityTable.from_scores(scores, outcomes, grid="standard")
    known, n = GridCells.of(table), len(scores)
    assert known is not None
    cells = grid.cell_of(scores, "standard")
    residual = np.abs(outcomes - scores)
    absolute = np.bincount(cells, residual, len(EDGES) + 1)
    several = np.bincount(cells, minlength=len(EDGES) + 1) > 1
    split = {np.searchsorted(EDGES, j / 7) for j in range(1, 7)}
    assert ece_bound(known, 7) == pytest.approx(2 / n * sum(absolute[c] for c in split), rel=1e-12)
    order = np.argsort(scores, kind="stable")
    cut = {cells[order][int(n * j / 15 + 1e-9)] for j in range(1, 15) if several[cells[order][int(n * j / 15 + 1e-9)]]}
    assert ace_bound(known, 15) <= 2 / n * sum(absolute[c] for c in cut) + 1e-12
    s = certified_error(known).value
    widths = np.diff(EDGES, prepend=0, append=1)
    second = np.where(several, absolute * (widths / s) ** 2, 0)[1:-1].sum() * 0.9678828980765735 / 8 / n
    assert kernel_bound(known, s) == pytest.approx(second, rel=1e-3)  # beside it the half units of float32
    assert recalibrated_bound(known) > 0
    assert ks_bound(known) > 0


def test_the_smooth_error_of_a_sketch_is_as_sharp_as_statistics_say():
    """Of 200,000 rows the certified error was seen at 1.6e-4 at most, the actual one at 6e-7."""
    scores, outcomes = predictions(1, "sure", 200_000, np.float64, 1.3)
    exact = smooth.smooth_error(scores, outcomes - scores, len(scores))
    found = calibrant.evaluate(sketch_of(scores, outcomes), level=None)["smece"]
    assert abs(found.value - exact.value) < 1e-6
    assert found.error_bound < 1.6e-4
    fine = calibrant.evaluate(sketch_of(scores, outcomes, grid="fine"), level=None)["smece"]
    assert fine.error_bound < found.error_bound / 8


def test_a_bandwidth_of_ones_own_is_bounded_too():
    scores, outcomes = predictions(2, "spread", 5000, np.float64, 1.3)
    known = GridCells.of(sketch_of(scores, outcomes).table)
    assert known is not None
    for bandwidth in (1.0, 0.05, 2e-3, 2e-4):
        exact = smooth.smooth_error(scores, outcomes - scores, len(scores), bandwidth)
        found = certified_error(known, bandwidth)
        assert abs(found.value - exact.value) <= found.error_bound + exact.error_bound


def test_an_exact_table_has_no_certified_error():
    scores, outcomes = predictions(2, "spread", 50, np.float64, 1.3)
    assert GridCells.of(ReliabilityTable.from_scores(scores, outcomes)) is None
    report = calibrant.evaluate(scores, outcomes, level=None)
    assert {name for name, estimate in report.items() if estimate.error_bound} == {"smece"}


def test_single_predictions_are_in_no_doubt():
    """A cell of one prediction holds one score: its place is known, so that few rows lose nothing."""
    scores = np.array([0.1003, 0.3001, 0.5502, 0.71, 0.9004])
    report = calibrant.evaluate(sketch_of(scores, [0, 1, 1, 0, 1]), level=None)
    assert {name for name, estimate in report.items() if estimate.error_bound > 1e-6} == set()
    exact = calibrant.evaluate(scores, [0, 1, 1, 0, 1], level=None)
    check(exact, report)


@pytest.mark.parametrize("closed", ["right", "left"])
def test_left_closed_bins_are_in_doubt_at_every_edge(closed):
    scores, outcomes = np.repeat((np.arange(10) + 1) / 10, 7), np.tile([0, 1, 1, 0, 1, 0, 0], 10)
    known = GridCells.of(ReliabilityTable.from_scores(scores, outcomes, grid="standard"))
    assert known is not None
    left = calibrant.expected_calibration_error(scores, outcomes, 10, closed=closed)
    pooled = binned.calibration_error(binned.bin_table(known.table, 10, closed), "l1")
    assert abs(left - pooled) <= ece_bound(known, 10, closed) + ROUNDING
    assert (ece_bound(known, 10, closed) > 0) == (closed == "left")


def test_ks_and_corp_reach_their_bounds():
    """One cell with its zeros below its ones, and the reverse: the two ends of what the cell allows."""
    low, high = EDGES[2000:2002]
    inside = low + (high - low) * np.array([0.2, 0.8])
    for first, second in ((0, 1), (1, 0)):
        scores, outcomes = np.repeat(inside, 10), np.repeat([first, second], 10)
        exact = ReliabilityTable.from_scores(scores, outcomes)
        known = GridCells.of(ReliabilityTable.from_scores(scores, outcomes, grid="standard"))
        assert known is not None
        off = LARGEST.error(exact) - LARGEST.error(known.table)
        assert off <= ks_bound(known) + ROUNDING
        gained = isotonic.corp(known.table, "brier").miscalibration - isotonic.corp(exact, "brier").miscalibration
        assert -recalibrated_bound(known) - ROUNDING <= gained <= ROUNDING
        if first == 0:
            assert -gained == pytest.approx(recalibrated_bound(known), rel=1e-9)
            assert recalibrated_bound(known) == pytest.approx(0.25, rel=1e-3)
        assert ks_bound(known) > 0.2
