"""Scores of class probabilities that need rows: ranked probability score, spherical score, squared kernel error."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calibrant
from calibrant import (
    CalibrationSketch,
    ReliabilityTable,
    SquaredKernelError,
    ranked_probability_score,
    spherical_score,
    squared_kernel_calibration_error,
)
from calibrant.errors import InputError
from calibrant.measures.smooth.without_bins import pair_terms

#: Sums of at most 1,000 numbers of at most 4 in another order, divided by their number.
CLOSE = 1e-12

SCORES: list[Callable[..., float]] = [ranked_probability_score, spherical_score]
ALL: list[Callable[..., Any]] = [*SCORES, squared_kernel_calibration_error]


def drawn(seed: int, n: int = 300, classes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities, some of them 0 or 1, and classes that are drawn from others."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(classes, 0.5), n)
    probs[: n // 10] = np.eye(classes)[rng.integers(0, classes, n // 10)]
    sharper = probs**1.5 / (probs**1.5).sum(axis=1, keepdims=True)
    return probs, (sharper.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, classes - 1)


def naive_rps(probs: Any, targets: Any) -> float:
    total = 0.0
    for p, y in zip(probs, targets, strict=True):
        total += sum((sum(p[: j + 1]) - (y <= j)) ** 2 for j in range(len(p) - 1))
    return total / len(targets)


def naive_spherical(probs: Any, targets: Any) -> float:
    return sum(p[y] / math.sqrt(sum(x * x for x in p)) for p, y in zip(probs, targets, strict=True)) / len(targets)


def naive_kernel(probs: Any, targets: Any, width: float) -> float:
    """Return the mean over all pairs of different rows of k <e - p, e' - p'>."""
    n, classes = probs.shape
    total = 0.0
    for i, j in itertools.permutations(range(n), 2):
        distance = sum(abs(probs[i, k] - probs[j, k]) for k in range(classes)) / 2
        product = sum(((targets[i] == k) - probs[i, k]) * ((targets[j] == k) - probs[j, k]) for k in range(classes))
        total += math.exp(-distance / width) * product
    return total / (n * (n - 1))


# ---------------------------------------------------------------- values of the scores


def test_the_numbers_of_scoringrules() -> None:
    """scoringrules 0.10.0, ``rps_score(y + 1, p)`` row by row: its labels begin with 1."""
    probs = [
        *([0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1], [0, 0, 1, 0]),
        *([0.25, 0.25, 0.25, 0.25], [0.4, 0.3, 0.2, 0.1], [0, 0.5, 0.5, 0]),
    ]
    expected = [0.46000000000000013, 0.14000000000000007, 2.0, 0.375, 0.26000000000000006, 0.25]
    targets = [3, 0, 0, 2, 1, 1]
    for p, y, score in zip(probs, targets, expected, strict=True):
        assert ranked_probability_score([p], [y]) == pytest.approx(score, abs=CLOSE)
    assert ranked_probability_score(probs, targets) == pytest.approx(sum(expected) / 6, abs=CLOSE)


@pytest.mark.parametrize("classes", [2, 3, 10, 100])
def test_equal_probabilities(classes: int) -> None:
    probs, targets = np.full((classes, classes), 1 / classes), np.arange(classes)
    assert spherical_score(probs, targets) == pytest.approx(1 / math.sqrt(classes), abs=CLOSE)
    # The mean over y and the sum over j of ((j + 1) / C - [y <= j])^2: sum of F (1 - F).
    cumulative = np.arange(1, classes) / classes
    assert ranked_probability_score(probs, targets) == pytest.approx((cumulative * (1 - cumulative)).sum(), abs=1e-10)


def test_certain_predictions() -> None:
    probs = np.eye(5)
    assert ranked_probability_score(probs, np.arange(5)) == 0
    assert spherical_score(probs, np.arange(5)) == 1
    assert ranked_probability_score(probs[:1], [4]) == 4  # the most: C - 1
    assert spherical_score(probs[:1], [4]) == 0  # never infinite


@pytest.mark.parametrize("seed", range(3))
def test_naive_loops_agree(seed: int) -> None:
    probs, targets = drawn(seed)
    assert ranked_probability_score(probs, targets) == pytest.approx(naive_rps(probs, targets), abs=CLOSE)
    assert spherical_score(probs, targets) == pytest.approx(naive_spherical(probs, targets), abs=CLOSE)


def test_one_event_is_two_classes() -> None:
    scores, outcomes = np.array([0.1, 0.4, 0.9, 1.0]), np.array([0, 1, 1, 0])
    both = np.stack([1 - scores, scores], axis=1)
    assert ranked_probability_score(scores, outcomes) == pytest.approx(calibrant.brier_score(scores, outcomes))
    for function in ALL:
        assert float(function(scores, outcomes)) == pytest.approx(float(function(both, outcomes)), abs=CLOSE)


@pytest.mark.parametrize("function", ALL)
def test_logits_are_their_softmax(function: Callable[..., Any]) -> None:
    rng = np.random.default_rng(0)
    logits, targets = rng.normal(0, 3, (200, 4)), rng.integers(0, 4, 200)
    logits[:20, 1] = -np.inf  # a masked class
    logits[0] = [900.0, 899.0, -900.0, 0.0]
    exps = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs = exps / exps.sum(axis=1, keepdims=True)
    expected = float(function(probs, targets))
    assert float(function(logits, targets, logits=True)) == pytest.approx(expected, abs=CLOSE)
    odds = rng.normal(0, 3, 200)
    expected = float(function(1 / (1 + np.exp(-odds)), targets % 2))
    assert float(function(odds, targets % 2, logits=True)) == pytest.approx(expected, abs=CLOSE)


# ---------------------------------------------------------------- laws


@pytest.mark.parametrize("function", SCORES)
@given(seed=st.integers(0, 10_000))
def test_laws_of_the_scores(function: Callable[..., float], seed: int) -> None:
    """Permutation, weight 2 = row twice, batches = whole, ignored rows, equal weights."""
    rng = np.random.default_rng(seed)
    probs, targets = drawn(seed, 60, 3)
    value, order, weights = function(probs, targets), rng.permutation(60), rng.integers(0, 4, 60)
    weights[0] = 1
    assert function(probs[order], targets[order]) == pytest.approx(value, abs=CLOSE)
    assert function(probs, targets, weights=np.full(60, 0.7)) == pytest.approx(value, abs=CLOSE)
    repeated = function(np.repeat(probs, weights, axis=0), np.repeat(targets, weights))
    assert function(probs, targets, weights=weights) == pytest.approx(repeated, abs=CLOSE)
    parts = [function(probs[cut], targets[cut]) for cut in (slice(20), slice(20, None))]
    assert (parts[0] * 20 + parts[1] * 40) / 60 == pytest.approx(value, abs=CLOSE)
    missing = np.where(np.arange(60) < 20, -1, targets)
    foul = np.where(missing[:, None] == -1, np.nan, probs)  # rows that are left out may hold anything
    assert function(foul, missing, ignore_index=-1) == pytest.approx(parts[1], abs=CLOSE)


@pytest.mark.parametrize("function", ALL)
def test_blocks_of_many_rows_are_read_in_order(function: Callable[..., Any]) -> None:
    """More rows than are read at a time, in other types and layouts."""
    probs, targets = drawn(0, 30_000, 3)
    expected = float(function(probs, targets))
    assert float(function(np.asfortranarray(probs), targets)) == pytest.approx(expected, abs=CLOSE)
    sheets, labels = probs.reshape(300, 100, 3).transpose(0, 2, 1), targets.reshape(300, 100)
    assert float(function(sheets, labels)) == pytest.approx(expected, abs=CLOSE)
    assert float(function(probs.astype(np.float32), targets)) == pytest.approx(expected, abs=1e-6)  # 2^-24 an entry
    if function is ranked_probability_score:
        whole = ((probs.cumsum(axis=1)[:, :-1] - (targets[:, None] <= np.arange(2))) ** 2).sum(axis=1).mean()
        assert expected == pytest.approx(whole, abs=CLOSE)


# ---------------------------------------------------------------- the squared kernel error


@pytest.mark.parametrize(
    ("targets", "unbiased", "biased"),
    [([0, 1], 0.0, 0.0), ([0, 0], 0.0, 0.5), ([1, 0], -2 / math.e, 1 - 1 / math.e), ([1, 1], 0.0, 0.5)],
)
def test_the_published_cases_of_julia(targets: list[int], unbiased: float, biased: float) -> None:
    """The tests of CalibrationErrors.jl: certain predictions of two classes, kernel exp(-total variation)."""
    probs = np.eye(2)
    result = squared_kernel_calibration_error(probs, targets, width=1)
    assert result.value == pytest.approx(unbiased, abs=1e-15)
    pairs = pair_terms(probs, np.array(targets), 1.0).sum()
    alone = ((np.eye(2)[targets] - probs) ** 2).sum()  # each row with itself
    assert (2 * pairs + alone) / 4 == pytest.approx(biased, abs=1e-15)


@pytest.mark.parametrize(("n", "sizes"), [(99, [99]), (100, [50, 50]), (119, [59, 60]), (250, [50] * 5)])
def test_it_is_the_mean_over_blocks_of_the_mean_over_pairs(n: int, sizes: list[int]) -> None:
    probs, targets = drawn(1, n)
    result = squared_kernel_calibration_error(probs, targets, width=0.3)
    cuts = np.cumsum([0, *sizes])
    values = [naive_kernel(probs[a:b], targets[a:b], 0.3) for a, b in itertools.pairwise(cuts)]
    assert result.value == pytest.approx(np.mean(values), abs=CLOSE)
    assert (result.n_blocks, result.n) == (len(sizes), n)
    if len(sizes) == 1:
        assert math.isnan(result.standard_error)
        assert math.isnan(result.p_value)
        assert result.method.startswith("no standard error: there is one block")
        return
    error = np.std(values, ddof=1) / math.sqrt(len(sizes))
    assert result.standard_error == pytest.approx(error, abs=CLOSE)
    from scipy.stats import ttest_1samp

    expected = ttest_1samp(values, 0, alternative="greater").pvalue
    assert result.p_value == pytest.approx(expected, abs=1e-9)


def test_it_is_twice_the_error_of_one_event() -> None:
    """For two classes <e - p, e' - p'> is 2 r r', and the total variation distance |p - p'|."""
    scores, outcomes = np.linspace(0.1, 0.9, 40), np.arange(40) % 3 == 0
    gaps = outcomes - scores
    kernel = np.exp(-np.abs(scores[:, None] - scores) / 0.4) * np.outer(gaps, gaps)
    expected = 2 * (kernel.sum() - np.trace(kernel)) / (40 * 39)
    assert squared_kernel_calibration_error(scores, outcomes).value == pytest.approx(expected, abs=CLOSE)


@given(st.integers(0, 10_000))
def test_laws_of_the_squared_kernel_error(seed: int) -> None:
    """Weight 2 = row twice in its place; rows that are left out; the order within a block; another order differs."""
    rng = np.random.default_rng(seed)
    probs, targets = drawn(seed, 90, 3)
    weights = rng.integers(0, 4, 90)
    weights[:2] = 1
    options: dict[str, Any] = {"block": 10}
    value = squared_kernel_calibration_error(probs, targets, **options)
    repeated = squared_kernel_calibration_error(
        np.repeat(probs, weights, axis=0), np.repeat(targets, weights), **options
    )
    assert squared_kernel_calibration_error(probs, targets, weights=weights, **options) == repeated
    keep = weights > 0
    missing = np.where(keep, targets, -1)
    left = squared_kernel_calibration_error(probs, missing, ignore_index=-1, **options)
    assert left == squared_kernel_calibration_error(probs[keep], targets[keep], **options)
    within = np.concatenate([rng.permutation(10) + 10 * i for i in range(9)])
    shuffled = squared_kernel_calibration_error(probs[within], targets[within], **options)
    assert shuffled.value == pytest.approx(value.value, abs=CLOSE)
    assert shuffled.p_value == pytest.approx(value.p_value, abs=1e-9)


def test_blocks_without_spread_have_no_p_value() -> None:
    result = squared_kernel_calibration_error(np.tile(np.eye(2), (50, 1)), np.tile([0, 1], 50))
    assert (result.value, result.standard_error) == (0, 0)
    assert math.isnan(result.p_value)
    assert result.method == "no p-value: all blocks of rows have the same value"
    assert isinstance(result, SquaredKernelError)
    assert float(result) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("n", "classes", "power"), [(100, 3, 0.15), (500, 3, 0.95), (2_000, 10, 0.86)])
def test_the_test_holds_its_level_and_sees_errors(n: int, classes: int, power: float) -> None:
    """500 samples each: at most 7 % of calibrated ones have p < .05, two standard errors above 5 %.

    ``power`` was simulated with the same draws; it may be lower by three standard errors, .05.
    """
    rng = np.random.default_rng(0)
    false, seen = 0, 0
    for _ in range(500):
        probs = rng.dirichlet(np.full(classes, 0.5), n)
        for exponent in (1.0, 0.4):
            rates = probs**exponent / (probs**exponent).sum(axis=1, keepdims=True)
            targets = (rates.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, classes - 1)
            small = squared_kernel_calibration_error(probs, targets).p_value < 0.05
            false, seen = false + (small and exponent == 1), seen + (small and exponent != 1)
    assert false <= 35
    assert seen / 500 >= power - 0.05


# ---------------------------------------------------------------- messages


@pytest.mark.parametrize("function", ALL)
@pytest.mark.parametrize(
    ("probs", "targets", "options", "message"),
    [
        ([[0.5, 0.5], [0.7, 0.7]], [0, 1], {}, r"probs: expected rows that sum to 1.* at row 1"),
        ([[0.5, 0.5], [0.5, math.nan]], [0, 1], {}, "probs: .*nan at row 1"),
        ([[0.5, 0.5], [1.5, -0.5]], [0, 1], {}, "at row 1"),
        ([0.5, 1.5], [0, 1], {}, r"1\.5 at row 1"),
        ([0.5, math.nan], [0, 1], {}, "nan at row 1"),
        ([0.5, math.inf], [0, 1], {"logits": True}, "inf at row 1"),
        ([[0.5, 0.1], [-math.inf, -math.inf]], [0, 1], {"logits": True}, "at row 1"),
        ([[0.5, 0.1], [math.inf, 0]], [0, 1], {"logits": True}, "at row 1"),
        ([[0.5, 0.5], [0.5, 0.5]], [0, 2], {}, "targets: .*2 at row 1"),
    ],
)
def test_bad_rows_are_named(
    function: Callable[..., Any], probs: Any, targets: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        function(probs, targets, **options)


@pytest.mark.parametrize("function", ALL)
def test_rows_are_needed(function: Callable[..., Any]) -> None:
    sketch = CalibrationSketch()
    sketch.update([0.5, 0.7], [0, 1])
    for held in (sketch, ReliabilityTable.from_scores([0.5, 0.7], [0, 1])):
        name = type(held).__name__
        with pytest.raises(InputError, match=f"probs: expected rows of predictions for the .*, got a {name}; pass"):
            function(held)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0}, "width: expected a positive number, got 0"),
        ({"width": math.nan}, "width: expected a positive number, got nan"),
        ({"width": math.inf}, "width: expected a positive number"),
        ({"width": "wide"}, "width: expected a positive number"),
        ({"width": True}, "width: expected a positive number"),
        ({"block": 1}, "block: expected an integer from 2, got 1"),
        ({"block": 2.5}, "block: expected an integer from 2"),
        ({"block": True}, "block: expected an integer from 2"),
        (
            {"weights": [0.5, 1.5]},
            "weights: expected whole numbers, because each row is repeated",
        ),
        ({"weights": [1, 0]}, "probs: expected two rows or more, got one row"),
    ],
)
def test_the_arguments_of_the_squared_kernel_error_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        squared_kernel_calibration_error([[0.5, 0.5], [0.4, 0.6]], [0, 1], **options)
