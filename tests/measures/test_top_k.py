"""Top-k and top-r calibration errors, and the thresholded adaptive error of classes, against the rule row by row."""

from __future__ import annotations

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
    classwise_calibration_error,
    expected_calibration_error,
    thresholded_adaptive_calibration_error,
    top_k_calibration_error,
    top_r_calibration_error,
)
from calibrant.errors import InputError

#: Sums of at most 1,000 numbers up to 1 in another order, divided by their number.
CLOSE = 1e-13

RANKED: list[Callable[..., float]] = [
    partial(top_k_calibration_error, k=2),
    partial(top_r_calibration_error, r=2),
]
ALL: list[Callable[..., float]] = [*RANKED, thresholded_adaptive_calibration_error]


def drawn(seed: int, n: int = 300, classes: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities in hundredths, so many are equal, some rows certain, and classes of other rates."""
    rng = np.random.default_rng(seed)
    probs = rng.multinomial(100, rng.dirichlet(np.full(classes, 0.7), n)) / 100
    probs[: n // 10] = np.eye(classes)[rng.integers(0, classes, n // 10)]
    rates = (probs + 0.05) / (probs + 0.05).sum(axis=1, keepdims=True)
    return probs, (rates.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, classes - 1)


def by_rows(probs: Any, targets: Any, number: int, together: bool) -> tuple[list[float], list[int]]:
    """Return the score and the outcome of each row, by sorting its classes."""
    scores, outcomes = [], []
    for row, target in zip(probs, targets, strict=True):
        order = sorted(range(len(row)), key=lambda c: (-row[c], c))
        chosen = order[:number] if together else order[number - 1 : number]
        scores.append(min(sum(sorted(row[c] for c in chosen)), 1.0))
        outcomes.append(int(target in chosen))
    return scores, outcomes


@pytest.mark.covering
@pytest.mark.parametrize("binning", ["uniform", "quantile"])
@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
@pytest.mark.parametrize("number", [1, 2, 3, 5])
def test_the_rule_row_by_row(number: int, norm: Any, binning: Any) -> None:
    probs, targets = drawn(number)
    options: dict[str, Any] = {"n_bins": 10, "norm": norm, "binning": binning}
    for together, value in (
        (True, top_k_calibration_error(probs, targets, k=number, **options)),
        (False, top_r_calibration_error(probs, targets, r=number, **options)),
    ):
        scores, outcomes = by_rows(probs, targets, number, together)
        assert value == pytest.approx(expected_calibration_error(scores, outcomes, **options), abs=1e-12)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("binning", ["uniform", "quantile"])
def test_the_first_class_is_the_top_label(dtype: Any, binning: Any) -> None:
    """Of 80,000 rows, which are read in several blocks; hundredths are on the edges of ten bins."""
    probs, targets = drawn(0, 80_000)
    probs = probs.astype(dtype)
    options: dict[str, Any] = {"n_bins": 10, "binning": binning, "norm": "l2"}
    expected = expected_calibration_error(probs, targets, **options)
    assert top_k_calibration_error(probs, targets, k=1, **options) == pytest.approx(expected, abs=1e-9)
    assert top_r_calibration_error(probs, targets, r=1, **options) == pytest.approx(expected, abs=1e-9)


def test_all_classes_together_are_certain() -> None:
    probs, targets = drawn(1)
    assert top_k_calibration_error(probs, targets, k=5) == pytest.approx(0, abs=1e-12)
    over = np.array([[0.5003, 0.5003]])  # within the tolerance of a sum
    assert top_k_calibration_error(over, [0], k=2) == 0


def test_one_event_is_two_classes() -> None:
    scores, outcomes = np.array([0.1, 0.4, 0.9, 1.0]), np.array([0, 1, 1, 0])
    both = np.stack([1 - scores, scores], axis=1)
    for function in RANKED:
        assert function(scores, outcomes) == pytest.approx(function(both, outcomes), abs=CLOSE)
    least = expected_calibration_error(1 - np.maximum(scores, 1 - scores), [0, 1, 0, 1])
    assert top_r_calibration_error(scores, outcomes, r=2) == pytest.approx(least, abs=CLOSE)


def test_equal_probabilities_go_to_the_lower_class() -> None:
    probs = [[0.4, 0.3, 0.3]] * 3
    assert top_k_calibration_error(probs, [0, 1, 2], k=2) == pytest.approx(0.7 - 2 / 3, abs=CLOSE)
    assert top_k_calibration_error(probs, [2, 2, 2], k=2) == pytest.approx(0.7, abs=CLOSE)
    assert top_r_calibration_error(probs, [1, 1, 1], r=2) == pytest.approx(0.7, abs=CLOSE)
    assert top_r_calibration_error(probs, [1, 1, 1], r=3) == pytest.approx(0.3, abs=CLOSE)


def test_logits_are_their_softmax() -> None:
    rng = np.random.default_rng(0)
    logits, targets = rng.normal(0, 2, (200, 4)), rng.integers(0, 4, 200)
    logits[:20, 1] = -np.inf
    exps = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs = exps / exps.sum(axis=1, keepdims=True)
    for function in RANKED:
        assert function(logits, targets, logits=True) == pytest.approx(function(probs, targets), abs=1e-9)


@pytest.mark.parametrize("function", ALL)
@given(seed=st.integers(0, 10_000))
def test_laws(function: Callable[..., float], seed: int) -> None:
    """Permutation, weight 2 = row twice, equal weights, rows left out, rows in other layouts."""
    rng = np.random.default_rng(seed)
    probs, targets = drawn(seed, 60, 3)
    value, order, weights = function(probs, targets), rng.permutation(60), rng.integers(0, 4, 60)
    weights[0] = 1
    assert function(probs[order], targets[order]) == pytest.approx(value, abs=CLOSE)
    assert function(probs, targets, weights=np.full(60, 0.7)) == pytest.approx(value, abs=CLOSE)
    repeated = function(np.repeat(probs, weights, axis=0), np.repeat(targets, weights))
    assert function(probs, targets, weights=weights) == pytest.approx(repeated, abs=CLOSE)
    missing = np.where(np.arange(60) < 20, -1, targets)
    foul = np.where(missing[:, None] == -1, np.nan, probs)
    expected = function(probs[20:], targets[20:])
    assert function(foul, missing, ignore_index=-1) == pytest.approx(expected, abs=CLOSE)
    sheets, labels = probs.reshape(6, 10, 3).transpose(0, 2, 1), targets.reshape(6, 10)
    assert function(sheets, labels) == pytest.approx(value, abs=CLOSE)


# ---------------------------------------------------------------- thresholded


def thresholded(probs: Any, targets: Any, threshold: float, n_bins: int) -> float:
    """Return the mean over classes of the error over equal-mass bins of the scores from the threshold."""
    errors = []
    for k in range(probs.shape[1]):
        kept = probs[:, k] >= threshold
        if kept.any():
            p, y = probs[kept, k], targets[kept] == k
            ranks = np.array([(p < x).sum() + (p == x).sum() / 2 for x in p])
            bins = np.minimum(n_bins - 1, np.floor(n_bins * ranks / len(p) + 1e-12))
            errors.append(sum(abs((p - y)[bins == b].sum()) for b in np.unique(bins)) / len(p))
    return float(np.mean(errors))


@pytest.mark.parametrize("threshold", [0.0, 0.01, 0.3])
@pytest.mark.parametrize("n_bins", [1, 4, 15])
def test_thresholded_error_class_by_class(threshold: float, n_bins: int) -> None:
    probs, targets = drawn(2)
    value = thresholded_adaptive_calibration_error(probs, targets, n_bins, threshold=threshold)
    assert value == pytest.approx(thresholded(probs, targets, threshold, n_bins), abs=1e-12)


def test_thresholded_error_has_a_longer_name() -> None:
    probs, targets = drawn(3)
    for norm in ("l1", "l2", "max"):
        value = thresholded_adaptive_calibration_error(probs, targets, norm=norm)  # type: ignore[arg-type]
        assert value == classwise_calibration_error(probs, targets, threshold=0.01, binning="quantile", norm=norm)  # type: ignore[arg-type]
    many = (probs > 0.3).astype(int)
    value = thresholded_adaptive_calibration_error(probs, many, notion="multilabel")
    longer = classwise_calibration_error(probs, many, threshold=0.01, binning="quantile", notion="multilabel")
    assert value == longer
    assert math.isnan(thresholded_adaptive_calibration_error([[0.6, 0.4]], [0], threshold=0.9))


# ---------------------------------------------------------------- messages


@pytest.mark.parametrize("function", RANKED)
def test_the_classes_of_each_row_are_needed(function: Callable[..., float]) -> None:
    sketch = CalibrationSketch()
    sketch.update([0.5, 0.7], [0, 1])
    for held in (sketch, ReliabilityTable.from_scores([0.5, 0.7], [0, 1])):
        message = rf"probs: expected rows of predictions for the top-\w error, got a {type(held).__name__}; pass"
        with pytest.raises(InputError, match=message):
            function(held)


@pytest.mark.parametrize("function", ALL)
@pytest.mark.parametrize(
    ("probs", "targets", "message"),
    [
        ([[0.5, 0.5], [0.7, 0.7]], [0, 1], r"probs: expected rows that sum to 1.* at row 1"),
        ([[0.5, 0.5], [0.5, math.nan]], [0, 1], "probs: .*nan at row 1"),
        ([[0.5, 0.5], [0.5, 0.5]], [0, 2], "targets: .*2 at row 1"),
    ],
)
def test_bad_rows_are_named(function: Callable[..., float], probs: Any, targets: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        function(probs, targets)


@pytest.mark.parametrize("number", [0, 4, -1, 1.5, True, "2", None])
def test_the_number_of_classes_is_checked(number: Any) -> None:
    probs = [[0.5, 0.3, 0.2]]
    with pytest.raises(InputError, match="k: expected an integer from 1 to the number of classes, 3, got "):
        top_k_calibration_error(probs, [0], k=number)
    with pytest.raises(InputError, match="r: expected an integer from 1 to the number of classes, 3, got "):
        top_r_calibration_error(probs, [0], r=number)


def test_other_arguments_are_checked() -> None:
    with pytest.raises(InputError, match="n_bins: expected an integer from 1"):
        top_k_calibration_error([[0.5, 0.5]], [0], 0, k=1)
    with pytest.raises(InputError, match="threshold: expected a number in"):
        thresholded_adaptive_calibration_error([[0.5, 0.5]], [0], threshold=2)
    sketch = CalibrationSketch(classwise=True)
    sketch.update([[0.5, 0.5], [0.2, 0.8]], [0, 1])
    with pytest.raises(InputError, match=r"threshold: expected 0 for a CalibrationSketch, got 0\.01"):
        thresholded_adaptive_calibration_error(sketch)
