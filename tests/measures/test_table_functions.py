"""Functions of a table that reports do not show: truthful, kernel, Lipschitz, monotone sweep, Gaussian-debiased errors.

Each is held against an independent oracle: all pairs, quadrature, a linear programme, the rule row by row, the output
of another package. The laws are common to all.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant import (
    CalibrationSketch,
    ReliabilityTable,
    expected_calibration_error,
    gaussian_debiased_calibration_error,
    kernel_calibration_error,
    kuiper_calibration_error,
    lipschitz_calibration_error,
    monotone_sweep_calibration_error,
    root_mean_square_calibration_error,
    squared_kernel_calibration_error,
    truthful_calibration_error,
)
from calibrant.errors import InputError
from calibrant.kernels import compiling
from calibrant.measures.binned import sweep as sweep
from calibrant.measures.smooth.without_bins import lipschitz_error
from tests.samples import draw

#: Sums of at most some thousand numbers up to 1 in another order, divided by their number.
CLOSE = 1e-13

GAUSSIAN = partial(kernel_calibration_error, kernel="gaussian", width=0.1)
BIASED = partial(kernel_calibration_error, unbiased=False)
WITHOUT_BINS: list[Callable[..., float]] = [
    truthful_calibration_error,
    kernel_calibration_error,
    BIASED,
    GAUSSIAN,
    lipschitz_calibration_error,
]
ALL: list[Callable[..., float]] = [
    *WITHOUT_BINS,
    monotone_sweep_calibration_error,
    gaussian_debiased_calibration_error,
    partial(gaussian_debiased_calibration_error, binning="quantile"),
]

#: The ten rows of the tests of the other measures.
TEN = [0, 0.05, 0.1, 0.2, 0.2, 0.35, 0.5, 0.75, 0.9, 1], [0, 0, 1, 0, 1, 0, 1, 1, 1, 0]


def drawn(seed: int, n: int = 200, decimals: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Return tied scores, some of them 0 and 1, and outcomes of rates that are off."""
    rng = np.random.default_rng(seed)
    scores = np.round(rng.beta(0.7, 0.7, n), decimals)
    return scores, (rng.random(n) < scores ** rng.choice([0.5, 1.0, 2.0])).astype(int)


def of_pairs(scores: Any, outcomes: Any, kernel: Callable[[np.ndarray], np.ndarray], unbiased: bool) -> float:
    """Return the mean of r_i r_j k(|p_i - p_j|) over all pairs, or those of different rows."""
    scores, residuals = np.asarray(scores), np.asarray(outcomes) - np.asarray(scores)
    terms = np.outer(residuals, residuals) * kernel(np.abs(scores[:, None] - scores))
    n = len(scores)
    return float((terms.sum() - np.trace(terms)) / (n * (n - 1))) if unbiased else float(terms.mean())


# ---------------------------------------------------------------- truthful


def test_truthful_error_of_ten_rows() -> None:
    assert truthful_calibration_error(*TEN) == pytest.approx(0.02567, abs=CLOSE)
    assert truthful_calibration_error([0.5] * 3, [1] * 3) == pytest.approx(0.25, abs=CLOSE)
    assert truthful_calibration_error([0, 1, 1], [0, 1, 1]) == 0


@pytest.mark.parametrize("seed", range(5))
def test_truthful_error_is_its_kernel_form_and_its_integral(seed: int) -> None:
    scores, outcomes = drawn(seed)
    value = truthful_calibration_error(scores, outcomes)
    assert value == pytest.approx(of_pairs(scores, outcomes, lambda d: 1 - d, unbiased=False), abs=CLOSE)
    # The scores have two decimals, so the integrand is constant between hundredths: midpoints are exact.
    below = (np.arange(100) + 0.5)[:, None] / 100 > scores
    residuals = outcomes - scores
    squares = (below @ residuals) ** 2 + (~below @ residuals) ** 2
    assert value == pytest.approx(squares.mean() / len(scores) ** 2, abs=CLOSE)


def test_mean_of_the_truthful_error_under_calibration() -> None:
    """E ATB = sum p (1 - p) / N^2, exactly: over all outcomes of six scores."""
    scores = np.array([0.0, 0.2, 0.2, 0.5, 0.9, 1.0])
    mean = 0.0
    for bits in range(64):
        outcomes = bits >> np.arange(6) & 1
        probability = np.where(outcomes == 1, scores, 1 - scores).prod()
        mean += probability * truthful_calibration_error(scores, outcomes)
    assert mean == pytest.approx((scores * (1 - scores)).sum() / 36, abs=CLOSE)


def test_the_truth_minimises_the_truthful_error() -> None:
    """In expectation over the outcomes of 30 rows: no other scores on a line of distortions do as well."""
    rates = np.linspace(0.05, 0.95, 30)

    def expected(scores: np.ndarray) -> float:
        """E mean r_i r_j (1 - d) over independent outcomes: bias products, and variances on the diagonal."""
        bias = rates - scores
        pairs = np.outer(bias, bias) * (1 - np.abs(scores[:, None] - scores))
        return float(pairs.sum() + (rates * (1 - rates)).sum()) / 900

    truth = expected(rates)
    for power in (0.5, 0.8, 1.25, 2.0):
        assert expected(rates**power) > truth
    rng = np.random.default_rng(0)
    values = [truthful_calibration_error(rates, rng.random(30) < rates) for _ in range(2_000)]
    assert np.mean(values) == pytest.approx(truth, abs=4 * np.std(values) / math.sqrt(2_000))


# ---------------------------------------------------------------- kernels


@pytest.mark.covering
@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("width", [0.001, 0.01, 0.1, 0.4, 3, 1000])
@pytest.mark.parametrize("decimals", [2, 15])
def test_kernel_errors_are_means_over_pairs(width: float, unbiased: bool, decimals: int) -> None:
    scores, outcomes = drawn(3, 300, decimals)
    kernels = {"laplace": lambda d: np.exp(-d / width), "gaussian": lambda d: np.exp(-(d**2) / (2 * width**2))}
    for name, kernel in kernels.items():
        value = kernel_calibration_error(scores, outcomes, kernel=name, width=width, unbiased=unbiased)  # type: ignore[arg-type]
        assert value == pytest.approx(of_pairs(scores, outcomes, kernel, unbiased), abs=CLOSE)


@pytest.mark.parametrize(("name", "width"), [("laplace", 0.4), ("gaussian", 0.1)])
def test_kernel_errors_of_weights_that_are_not_whole(name: Any, width: float) -> None:
    """The mean over pairs of different rows, with weight w w'."""
    scores, outcomes = drawn(4, 80)
    weights = np.random.default_rng(4).random(80)
    distance, residuals = np.abs(scores[:, None] - scores), outcomes - scores
    kernel = np.exp(-distance / width) if name == "laplace" else np.exp(-(distance**2) / (2 * width**2))
    pairs = np.outer(weights, weights) * (1 - np.eye(80))
    expected = (pairs * kernel * np.outer(residuals, residuals)).sum() / pairs.sum()
    value = kernel_calibration_error(scores, outcomes, kernel=name, width=width, weights=weights)
    assert value == pytest.approx(expected, abs=CLOSE)


def test_kernel_error_of_ten_rows() -> None:
    scores, outcomes = np.array(TEN[0]), np.array(TEN[1])
    expected = of_pairs(scores, outcomes, lambda d: np.exp(-d / 0.4), unbiased=True)
    assert kernel_calibration_error(*TEN) == pytest.approx(expected, abs=CLOSE)
    assert BIASED([0.5], [1]) == 0.25


@pytest.mark.parametrize("seed", range(3))
def test_the_error_of_two_classes_is_twice_that_of_one_event(seed: int) -> None:
    """One block of all rows is the U-statistic over all pairs."""
    scores, outcomes = drawn(seed, 60)
    both = squared_kernel_calibration_error(scores, outcomes, block=60, width=0.4)
    assert both.value == pytest.approx(2 * kernel_calibration_error(scores, outcomes), abs=CLOSE)


def test_the_unbiased_error_is_unbiased() -> None:
    """Its mean under calibration is 0, exactly: over all outcomes of six scores."""
    scores = np.array([0.0, 0.2, 0.2, 0.5, 0.9, 1.0])
    for function in (kernel_calibration_error, GAUSSIAN):
        mean = 0.0
        for bits in range(64):
            outcomes = bits >> np.arange(6) & 1
            mean += np.where(outcomes == 1, scores, 1 - scores).prod() * function(scores, outcomes)
        assert mean == pytest.approx(0, abs=CLOSE)


def test_many_scores_in_many_segments_and_blocks() -> None:
    """Scores that fill segments of one width, leave some out, and more than are transformed together."""
    rng = np.random.default_rng(0)
    scores = np.concatenate([rng.uniform(0, 0.3, 60_000), rng.uniform(0.9, 1, 60_000)])
    outcomes = (rng.random(120_000) < scores).astype(int)
    residuals = outcomes - scores
    order = np.argsort(scores)
    total, carried, last = 0.0, 0.0, 0.0
    for p, r in zip(scores[order], residuals[order], strict=True):
        carried *= math.exp(-(p - last) / 0.02)
        total, carried, last = total + 2 * carried * r + r * r, carried + r, p
    value = kernel_calibration_error(scores, outcomes, width=0.02, unbiased=False)
    assert value == pytest.approx(total / 120_000**2, abs=CLOSE)
    # The Gaussian kernel by a convolution of the residuals on a fine grid.
    grid = np.arange(100_001) / 100_000
    at = np.rint(scores * 100_000).astype(int)
    coarse, mass = grid[at], np.bincount(at, outcomes - grid[at], 100_001)
    from scipy.signal import fftconvolve

    steps = np.arange(-100_000, 100_001) / 100_000
    smooth = fftconvolve(mass, np.exp(-(steps**2) / (2 * 0.02**2)))[100_000:200_001]
    value = kernel_calibration_error(coarse, outcomes, kernel="gaussian", width=0.02, unbiased=False)
    assert value == pytest.approx(mass @ smooth / 120_000**2, rel=1e-6)


# ---------------------------------------------------------------- Lipschitz


def programme(table: ReliabilityTable) -> float:
    """Return the largest mean of h r over h in [-1, 1] with slopes in [-1, 1], by linear programming."""
    from scipy.optimize import linprog

    size = len(table)
    steps = np.diff(np.eye(size), axis=0)
    gaps = np.diff(table.scores)
    result = linprog(
        -table.residuals / table.total,
        A_ub=np.concatenate([steps, -steps]) if size > 1 else None,
        b_ub=np.concatenate([gaps, gaps]) if size > 1 else None,
        bounds=[(-1, 1)] * size,
    )
    return -float(result.fun)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_lipschitz_error_is_the_linear_programme(monkeypatch: Any, seed: int, weighted: bool) -> None:
    """At most 60 scores, with ties, 0 and 1. The solver's tolerance is 1e-7 of a constraint; it does far better."""
    rng = np.random.default_rng([seed, weighted])
    n = int(rng.integers(1, 120))
    scores, outcomes = drawn(seed, n, int(rng.integers(1, 3)))
    weights = rng.random(n) + 0.01 if weighted else None
    table = ReliabilityTable.from_scores(scores, outcomes, weights=weights)
    for kernels in ("numpy", "numba"):
        monkeypatch.setenv("CALIBRANT_KERNELS", kernels)
        assert lipschitz_error(table) == pytest.approx(programme(table), abs=1e-12)


def test_lipschitz_error_of_ten_rows_and_the_lower_distance() -> None:
    """The lower distance to calibration of the ten rows is .136789, by a transport programme on 401 points."""
    value = lipschitz_calibration_error(*TEN)
    assert value == pytest.approx(0.14475, abs=CLOSE)
    assert 0.136789 / 2 <= value <= 2 * 0.136789
    # y = 1 and p = 1/2 throughout: the lower distance is 1/2 too.
    assert lipschitz_calibration_error([0.5] * 4, [1] * 4) == 0.5
    assert lipschitz_calibration_error([0, 1], [1, 0]) == 0.5  # h moves by 1 at most from 0 to 1
    assert lipschitz_calibration_error([0, 0], [1, 1]) == 1


def lower_distance(scores: np.ndarray, outcomes: np.ndarray, points: int) -> float:
    """Return the least mean distance of the scores to calibrated ones on a grid and the scores: a transport programme.

    Mass is moved from each row to the points; at each point the outcome rate of the mass is the point.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, vstack

    grid = np.unique(np.concatenate([np.linspace(0, 1, points), scores]))
    n, size = len(scores), len(grid)
    rows = np.repeat(np.arange(n), size)
    columns = np.arange(n * size)
    moved = coo_array((np.ones(n * size), (rows, columns)))
    balance = coo_array(((outcomes[:, None] - grid).ravel(), (np.tile(np.arange(size), n), columns)))
    sums = np.concatenate([np.full(n, 1 / n), np.zeros(size)])
    cost = np.abs(scores[:, None] - grid).ravel()
    return float(linprog(cost, A_eq=vstack([moved, balance]).tocsr(), b_eq=sums).fun)


def test_the_lower_distance_is_within_a_factor_of_two() -> None:
    scores, outcomes = np.array(TEN[0]), np.array(TEN[1])
    assert lower_distance(scores, outcomes, 101) == pytest.approx(0.136791, abs=1e-6)
    for seed in range(10):
        scores, outcomes = drawn(seed, 25)
        distance = lower_distance(scores, outcomes, 41)
        value = lipschitz_calibration_error(scores, outcomes)
        # The grid makes the distance too large by 1/80 at most.
        assert (distance - 1 / 80) / 2 - 1e-9 <= value <= 2 * distance + 1e-9


@given(st.integers(0, 10_000))
def test_bounds_of_the_lipschitz_error(seed: int) -> None:
    """At least |mean gap|; at most the ECE over distinct scores, and |mean gap| + Kuiper's error."""
    scores, outcomes = drawn(seed, 80)
    value = lipschitz_calibration_error(scores, outcomes)
    table = ReliabilityTable.from_scores(scores, outcomes)
    assert abs(table.residuals.sum()) / 80 - CLOSE <= value <= np.abs(table.residuals).sum() / 80 + CLOSE
    # Summation by parts: h at the last score times the mean gap, less cumulative gaps times changes of h, in all 1.
    assert value <= abs(table.residuals.sum()) / 80 + kuiper_calibration_error(scores, outcomes) + CLOSE
    assert lipschitz_calibration_error(1 - scores, 1 - outcomes) == pytest.approx(value, abs=CLOSE)


def test_large_tables_take_compiled_kernels(monkeypatch: Any) -> None:
    monkeypatch.delenv("CALIBRANT_KERNELS", raising=False)
    seen = []

    def watched(family: str, size: int, choose: Any = compiling.kernels_for) -> Any:
        seen.append(choose(family, size).__name__.rpartition(".")[2])
        return choose(family, size)

    monkeypatch.setattr("calibrant.measures.smooth.without_bins.kernels_for", watched)
    rng = np.random.default_rng(0)
    for n in (4_396, 20_000):
        scores = rng.random(n)
        table = ReliabilityTable.from_scores(scores, (rng.random(n) < scores).astype(int))
        assert 0 < lipschitz_error(table) < 0.05
    assert seen == ["reference_tables", "host_tables"]


# ---------------------------------------------------------------- monotone sweep


def swept(scores: Any, outcomes: Any) -> np.ndarray:
    """Return the bin of each row, sorted: caltrain's rule floor(b i / N), with the mean rank i of tied rows."""
    scores, n = np.sort(scores), len(scores)
    twice = np.array([2 * np.flatnonzero(scores == p)[0] + (scores == p).sum() - 1 for p in scores])
    best = np.zeros(n, dtype=int)
    for b in range(2, n + 1):
        bins = b * twice // (2 * n)
        rates = [outcomes[bins == j].mean() for j in np.unique(bins)]
        if any(late < early for early, late in itertools.pairwise(rates)):
            break
        best = bins
    return best


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
@given(seed=st.integers(0, 100_000))
def test_sweep_follows_the_rule_row_by_row(norm: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 70))
    scores, outcomes = drawn(seed, n, int(rng.integers(1, 5)))
    if seed % 4 == 0:  # all but separated
        outcomes = (scores > 0.5).astype(int)
        outcomes[rng.integers(n)] ^= 1
    order = np.argsort(scores, kind="stable")
    p, y = scores[order], outcomes[order]
    bins = swept(p, y)
    gaps = np.array([abs((p - y)[bins == j].mean()) for j in np.unique(bins)])
    shares = np.array([(bins == j).mean() for j in np.unique(bins)])
    expected = {"l1": shares @ gaps, "l2": math.sqrt(shares @ gaps**2), "max": gaps.max()}[norm]
    assert monotone_sweep_calibration_error(scores, outcomes, norm=norm) == pytest.approx(expected, abs=CLOSE)


def test_sweep_of_ties_does_not_depend_on_their_order() -> None:
    scores, outcomes = np.repeat([0.2, 0.4, 0.9], [5, 3, 3]), np.array([1, 0, 0, 0, 0, 1, 0, 1, 1, 1, 1])
    value = monotone_sweep_calibration_error(scores, outcomes)
    assert value == pytest.approx((0 * 5 + abs(0.4 - 2 / 3) * 3 + 0.1 * 3) / 11, abs=CLOSE)  # rates increase: no bins
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(11)
        assert monotone_sweep_calibration_error(scores[order], outcomes[order]) == value


def test_sweep_stops_at_the_first_decrease() -> None:
    scores, outcomes = [0.1, 0.2, 0.3, 0.6, 0.7, 0.9], [0, 0, 1, 0, 1, 1]
    assert monotone_sweep_calibration_error(scores, outcomes) == pytest.approx((0.3 + 0.1 + 0.4) / 6, abs=CLOSE)
    assert monotone_sweep_calibration_error([0.2, 0.8], [1, 0]) == pytest.approx(0, abs=CLOSE)  # one bin
    assert monotone_sweep_calibration_error([0.2, 0.8], [0, 1]) == pytest.approx(0.2, abs=CLOSE)  # two
    assert monotone_sweep_calibration_error([0.2], [1]) == pytest.approx(0.8, abs=CLOSE)


def test_sweep_of_separated_outcomes_is_quick(monkeypatch: Any) -> None:
    """Rates that increase need no sweep, and a single pair out of order only that of its own edges."""
    n = 20_000
    scores = (np.arange(n) + 0.5) / n
    outcomes = (scores > 0.5).astype(int)
    with monkeypatch.context() as without:
        without.setattr(sweep, "_Ranks", None)
        assert monotone_sweep_calibration_error(scores, outcomes) == pytest.approx(0.25, abs=CLOSE)
    outcomes[[n // 2 - 1, n // 2]] = 1, 0
    value = monotone_sweep_calibration_error(scores, outcomes)
    assert value == pytest.approx(0.25, abs=4 / n)  # bins of two rows


@pytest.mark.parametrize("seed", range(10))
def test_sweep_of_weights_that_are_not_whole(seed: int) -> None:
    """They count as many small equal ones: in tenths, as ten times as many rows, but for half a rank."""
    scores, outcomes = drawn(seed, 60, 1)
    tenths = np.random.default_rng(seed).integers(1, 30, 60)
    value = monotone_sweep_calibration_error(scores, outcomes, weights=tenths / 10)
    many = monotone_sweep_calibration_error(np.repeat(scores, tenths * 10), np.repeat(outcomes, tenths * 10))
    assert value == pytest.approx(many, abs=CLOSE)


# ---------------------------------------------------------------- Gaussian-debiased


def by_bins(scores: np.ndarray, outcomes: np.ndarray, n_bins: int) -> float:
    """Return the debiased error over equal-width bins, with E |X| by quadrature."""
    from scipy.integrate import quad
    from scipy.stats import norm

    bins = np.maximum(np.ceil(scores * n_bins), 1)
    total = 0.0
    for j in np.unique(bins):
        held = bins == j
        gap, rate, share = (scores - outcomes)[held].mean(), outcomes[held].mean(), held.mean()
        spread = math.sqrt(rate * (1 - rate) / held.sum())
        mean = abs(gap)
        if spread > 0:
            ends = {"a": gap - 9 * spread, "b": gap + 9 * spread, "points": [0.0, gap]}
            mean = quad(lambda x, m=gap, s=spread: abs(x) * norm.pdf(x, m, s), **ends)[0]
        total += share * (2 * abs(gap) - mean)
    return total


@pytest.mark.parametrize("seed", range(3))
def test_debiased_error_by_quadrature(seed: int) -> None:
    """The quadrature stops at 1e-8."""
    scores, outcomes = drawn(seed, 100, 15)
    value = gaussian_debiased_calibration_error(scores, outcomes, n_bins=7)
    assert value == pytest.approx(by_bins(scores, outcomes, 7), abs=1e-6)


def test_the_number_of_uncertainty_calibration() -> None:
    """Package uncertainty-calibration 0.1.4, ``normal_debiased_ce`` over ten equal-width bins, 400,000 draws, seed 0.

    The standard deviation of a draw is below .03, so that of their mean below 5e-5.
    """
    scores, outcomes = draw(7, 300, lambda p: p**1.3, decimals=3)
    value = gaussian_debiased_calibration_error(scores, outcomes, n_bins=10)
    assert value == pytest.approx(0.07962516619449789, abs=2e-4)
    assert expected_calibration_error(scores, outcomes, n_bins=10) == pytest.approx(0.09407, abs=CLOSE)


def test_debiased_error_without_noise_is_the_error() -> None:
    scores, outcomes = [0.1, 0.2, 0.8, 0.7], [0, 0, 1, 1]
    plain = expected_calibration_error(scores, outcomes, n_bins=2)
    assert gaussian_debiased_calibration_error(scores, outcomes, n_bins=2) == pytest.approx(plain, abs=CLOSE)


def test_debiased_error_of_weights_that_are_not_whole() -> None:
    """The variance of a weighted rate is sum w^2 (y - rate)^2 / W^2, at least that of Kish's number of rows."""
    scores, outcomes = drawn(6, 100, 15)
    weights = np.random.default_rng(6).gamma(1.0, 1.0, 100)
    rate, total = weights @ outcomes / weights.sum(), weights.sum()
    gap = abs(weights @ (scores - outcomes) / total)
    kish = rate * (1 - rate) * (weights**2).sum() / total**2
    spread = math.sqrt(max((weights**2 * (outcomes - rate) ** 2).sum() / total**2, kish))
    from scipy.stats import foldnorm

    expected = 2 * gap - foldnorm.mean(gap / spread, scale=spread)
    value = gaussian_debiased_calibration_error(scores, outcomes, n_bins=1, weights=weights)
    assert value == pytest.approx(expected, abs=1e-12)


def test_debiased_error_may_be_negative() -> None:
    value = gaussian_debiased_calibration_error([0.5] * 4, [0, 0, 1, 1])
    assert value == pytest.approx(-0.25 * math.sqrt(2 / math.pi), abs=CLOSE)


@pytest.mark.slow
def test_59_percent_of_the_bias_remain() -> None:
    """Of one bin with many rows, under calibration: E (2 |X| - E |N(X, s^2)|) / E |X| = 2 - sqrt(2) = .586."""
    rng = np.random.default_rng(0)
    n, draws = 2_000, 4_000
    positives = rng.binomial(n, 0.5, draws)
    values = [
        gaussian_debiased_calibration_error(ReliabilityTable.from_scores([0.5, 0.5], [0, 1], weights=[n - k, k]))
        for k in positives
    ]
    plain = np.abs(positives / n - 0.5)
    error = np.std(values) / math.sqrt(draws) / plain.mean()
    assert np.mean(values) / plain.mean() == pytest.approx(2 - math.sqrt(2), abs=4 * error)


def test_binned_errors_of_ten_rows() -> None:
    """The sweep takes three bins: their rates are 1/3, 1/2 and 2/3, and those of four decrease in the last."""
    by_hand = (abs(0.15 - 1) + abs(1.25 - 2) + abs(2.65 - 2)) / 10
    assert monotone_sweep_calibration_error(*TEN) == pytest.approx(by_hand, abs=CLOSE)
    expected = by_bins(np.array(TEN[0]), np.array(TEN[1]), 5)
    assert gaussian_debiased_calibration_error(*TEN, n_bins=5) == pytest.approx(expected, abs=1e-6)


# ---------------------------------------------------------------- laws


@pytest.mark.parametrize("function", ALL)
@given(seed=st.integers(0, 10_000))
def test_laws(function: Callable[..., float], seed: int) -> None:
    """Permutation, weight 2 = row twice, equal weights, the table, tables that are added, rows left out."""
    rng = np.random.default_rng(seed)
    scores, outcomes = drawn(seed, 60)
    value, order, weights = function(scores, outcomes), rng.permutation(60), rng.integers(0, 4, 60)
    weights[:2] = 1
    assert function(scores[order], outcomes[order]) == pytest.approx(value, abs=CLOSE)
    assert function(scores, outcomes, weights=np.full(60, 0.7)) == pytest.approx(value, abs=CLOSE)
    repeated = function(np.repeat(scores, weights), np.repeat(outcomes, weights))
    assert function(scores, outcomes, weights=weights) == pytest.approx(repeated, abs=CLOSE)
    parts = [ReliabilityTable.from_scores(scores[cut], outcomes[cut]) for cut in (slice(20), slice(20, None))]
    assert function(parts[0] + parts[1]) == pytest.approx(value, abs=CLOSE)
    missing = np.where(np.arange(60) < 20, -1, outcomes)
    foul = np.where(missing == -1, np.nan, scores)
    assert function(foul, missing, ignore_index=-1) == pytest.approx(function(parts[1]), abs=CLOSE)


@pytest.mark.parametrize("function", ALL)
def test_the_scale_of_the_weights_plays_no_part(function: Callable[..., float]) -> None:
    scores, outcomes = drawn(5)
    weights = np.random.default_rng(5).random(200)
    value = function(scores, outcomes, weights=weights)
    assert function(scores, outcomes, weights=weights * 1e-6) == pytest.approx(value, abs=1e-10)
    assert function(scores, outcomes, weights=weights * 1e6) == pytest.approx(value, abs=1e-10)
    assert value != function(scores, outcomes)


@pytest.mark.parametrize("function", ALL)
def test_sketches_add_up_and_are_near_the_rows(function: Callable[..., float]) -> None:
    """Merged sketches give the sketch of all rows. A cell's rows are at most its width from their mean score.

    The error of pairs: |r r'| times the change of the kernel, (w + w') times its slope: 1, 1 / .4, .61 / .1. That of
    the Lipschitz error: |r| w. The cells are at most 1/300 wide, and the mean of |r| is below 1/2 here. The two binned
    errors have edges that cells respect, or that fall between quantiles; a cell moves a bin's edge.
    """
    scores, outcomes = draw(0, 20_000, lambda p: p**1.5)
    whole, parts = CalibrationSketch(), [CalibrationSketch(), CalibrationSketch()]
    whole.update(scores, outcomes)
    for part, cut in zip(parts, (slice(7_000), slice(7_000, None)), strict=True):
        part.update(scores[cut], outcomes[cut])
    value = function(whole)
    assert function(parts[0] + parts[1]) == pytest.approx(value, abs=CLOSE)
    if function in WITHOUT_BINS:
        slope = {GAUSSIAN: 6.1, kernel_calibration_error: 2.5, BIASED: 2.5}.get(function, 1.0)
        size = np.abs(outcomes - scores).mean()
        bound = size / 300 if function is lipschitz_calibration_error else 2 * size**2 * slope / 300
    else:
        bound = 2e-3
    exact = function(scores, outcomes)
    assert value == pytest.approx(exact, abs=bound)
    if function in WITHOUT_BINS:  # in truth far nearer: docstrings say 1e-6 and 1e-5
        assert value == pytest.approx(exact, abs=1e-5 if function is lipschitz_calibration_error else 1e-6)


@pytest.mark.parametrize("function", ALL)
def test_other_types_and_notions(function: Callable[..., float]) -> None:
    scores, outcomes = drawn(7)
    assert function(scores.astype(np.float32), outcomes) == pytest.approx(function(scores, outcomes), abs=1e-6)
    classes = np.stack([1 - scores, scores], axis=1)
    assert function(classes, outcomes, notion="positive") == pytest.approx(function(scores, outcomes), abs=CLOSE)
    right = (np.where(scores >= 0.5, 1, 0) == outcomes).astype(int)
    folded = function(np.maximum(scores, 1 - scores), right)
    assert function(scores, outcomes, notion="top-label") == pytest.approx(folded, abs=CLOSE)
    inside = np.clip(scores, 0.01, 0.99)
    odds = np.log(inside / (1 - inside))
    expected = function(1 / (1 + np.exp(-odds)), outcomes)
    if function in WITHOUT_BINS:  # elsewhere rounding splits ties
        assert function(odds, outcomes, logits=True) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("function", ALL)
def test_certain_and_calibrated(function: Callable[..., float]) -> None:
    """Scores of 0 and 1 are scores like others: right ones have no error, wrong ones have all of it."""
    assert function([0, 0, 1, 1], [0, 0, 1, 1]) == 0
    assert function([1, 1, 1], [0, 0, 0]) == pytest.approx(1, abs=CLOSE)


# ---------------------------------------------------------------- messages


@pytest.mark.parametrize("function", ALL)
@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([0.5, 1.5], [0, 1]), {}, r"probs: .*1\.5 at row 1"),
        (([0.5, math.nan], [0, 1]), {}, "probs: .*nan at row 1"),
        (([0.5, 0.5], [0, 2]), {}, "targets: .*2"),
        (([], []), {}, "probs: "),
        (([[0.5, 0.5]], [0]), {"notion": "classwise"}, "notion: expected 'positive' or 'top-label' for "),
    ],
)
def test_bad_arguments(function: Callable[..., float], arguments: Any, options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        function(*arguments, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "box"}, "kernel: expected .*'laplace'"),
        ({"width": 0}, "width: expected a number from 0.001 to 1,000, got 0"),
        ({"width": 1e-4}, "width: expected a number from 0.001 to 1,000"),
        ({"width": math.inf}, "width: expected a number from 0.001 to 1,000, got inf"),
        ({"width": math.nan}, "width: expected a number from 0.001 to 1,000, got nan"),
        ({"width": True}, "width: expected a number from 0.001 to 1,000"),
        ({"width": "wide"}, "width: expected a number from 0.001 to 1,000"),
        ({"unbiased": "yes"}, "unbiased: expected True or False, got 'yes'"),
    ],
)
def test_the_arguments_of_the_kernel_error(options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        kernel_calibration_error([0.2, 0.6], [0, 1], **options)


def test_pairs_need_two_rows() -> None:
    message = "probs: expected two rows or more, got one row; pass more rows, or unbiased=False"
    for arguments in (([0.5], [1]), (ReliabilityTable.from_scores([0.5], [1]),)):
        with pytest.raises(InputError, match=message):
            kernel_calibration_error(*arguments)
    with pytest.raises(InputError, match=message):
        kernel_calibration_error([0.5, 0.7], [1, 0], weights=[0.3, 0])
    assert kernel_calibration_error([0.5], [1], weights=[2]) == 0.25  # two rows
    assert kernel_calibration_error([0.5, 0.5], [1, 1], weights=[0.2, 0.7]) == pytest.approx(0.25, abs=CLOSE)


def test_the_arguments_of_the_binned_errors() -> None:
    with pytest.raises(InputError, match="norm: expected "):
        monotone_sweep_calibration_error([0.2, 0.6], [0, 1], norm="l3")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="n_bins: expected an integer from 1"):
        gaussian_debiased_calibration_error([0.2, 0.6], [0, 1], n_bins=0)
    with pytest.raises(InputError, match="binning: expected "):
        gaussian_debiased_calibration_error([0.2, 0.6], [0, 1], binning="equal")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="closed: expected "):
        gaussian_debiased_calibration_error([0.2, 0.6], [0, 1], closed="both")  # type: ignore[arg-type]


def test_the_truthful_binned_error_has_a_name_already() -> None:
    """Without ties the truthful quantile-binned l2 error sum_b S_b^2 / N^2 is RMSCE^2 / B over equal-mass bins."""
    rng = np.random.default_rng(0)
    scores = np.sort(rng.random(150))
    outcomes = (rng.random(150) < scores).astype(int)
    sums = (outcomes - scores).reshape(15, 10).sum(axis=1)
    square = root_mean_square_calibration_error(scores, outcomes, binning="quantile") ** 2 / 15
    assert square == pytest.approx((sums**2).sum() / 150**2, abs=CLOSE)
