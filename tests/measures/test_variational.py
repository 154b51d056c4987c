"""The variational calibration error: against probmetrics, by hand, and by simulation of its lower bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant import CalibrationSketch, ReliabilityTable, VariationalError, variational_calibration_error
from calibrant.errors import InputError
from calibrant.measures.isotonic.variational import SignedGaps
from calibrant.statistics.cells import Cells

#: Sums of at most 1,000 numbers of at most 1 in another order, divided by their number.
CLOSE = 1e-12


def drawn(seed: int, n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    scores = np.where(rng.random(n) < 0.4, np.round(rng.random(n), 1), rng.random(n))
    return scores, (rng.random(n) < scores**1.6).astype(int)


def test_the_number_of_probmetrics() -> None:
    """probmetrics 1.3.0, ``ProperLpLoss(p=1, binary_as_multiclass=True)`` of g around p: -0.15, minus twice ours."""
    i = np.arange(1, 41)
    scores, outcomes = np.round(i / 41, 3), (i * 29 % 41 < 18).astype(int)
    fits = np.clip(scores**1.5 + 0.08 * np.sin(i), 0, 1)
    cells = Cells.from_table(ReliabilityTable.from_scores(scores, outcomes))
    gaps = SignedGaps.of(cells, cells.counts[None], cells.positives[None], fits[None])
    assert -2 * gaps.mean == pytest.approx(-0.15, abs=CLOSE)


def test_parts_and_error_by_hand() -> None:
    """Directions are clear here: scores .2 are too low by .3, scores .9 too high by .4."""
    scores, outcomes = np.repeat([0.2, 0.9], 500), np.tile([0, 1], 500)
    result = variational_calibration_error(scores, outcomes)
    assert result.under == pytest.approx(0.15, abs=CLOSE)
    assert result.over == pytest.approx(0.2, abs=CLOSE)
    assert result.value == pytest.approx(0.35, abs=CLOSE)
    values = np.where(scores == 0.2, outcomes - scores, scores - outcomes)
    error = math.sqrt(2 * ((values - 0.35) ** 2).sum()) / 1000  # doubled, for the rows that folds share
    assert result.low == pytest.approx(0.35 - 1.959963984540054 * error, abs=CLOSE)
    assert (result.level, result.n, float(result)) == (0.95, 1000, result.value)
    assert variational_calibration_error(scores, outcomes, level=0.5).low > result.low


def test_the_error_is_at_least_what_calibration_implies() -> None:
    """No outcome in 50 rows of score .02 is no evidence: one is expected."""
    result = variational_calibration_error([0.02] * 50, [0] * 50)
    assert (result.value, result.low) == (pytest.approx(0.02), 0.0)
    many = variational_calibration_error([0.02] * 5_000, [0] * 5_000)
    error = math.sqrt(2 * 0.02 * 0.98 / 5_000)
    assert many.low == pytest.approx(0.02 - 1.959963984540054 * error, abs=CLOSE)


def test_weights_that_are_not_whole() -> None:
    """The same fractions of the scores' weight: variances are sums of squared weights."""
    scores, outcomes = np.repeat([0.2, 0.9], 500), np.tile([0, 1], 500)
    weights = np.tile([0.5, 0.5, 1.25, 1.25], 250)
    result = variational_calibration_error(scores, outcomes, weights=weights)
    assert result.value == pytest.approx(0.35, abs=1e-9)
    values = np.where(scores == 0.2, outcomes - scores, scores - outcomes)
    error = math.sqrt(2 * (weights**2 * (values - 0.35) ** 2).sum()) / weights.sum()
    assert result.low == pytest.approx(0.35 - 1.959963984540054 * error, abs=1e-9)


@given(st.integers(0, 10_000))
def test_laws(seed: int) -> None:
    """Permutation, weight 2 = row twice, tables add up; the same seed gives the same folds."""
    rng = np.random.default_rng(seed)
    scores, outcomes = drawn(seed, 80)
    value = variational_calibration_error(scores, outcomes, rng=seed)
    order, weights = rng.permutation(80), rng.integers(0, 4, 80)
    weights[0] = 1
    assert variational_calibration_error(scores[order], outcomes[order], rng=seed) == value
    parts = [ReliabilityTable.from_scores(scores[cut], outcomes[cut]) for cut in (slice(30), slice(30, None))]
    assert variational_calibration_error(parts[0] + parts[1], rng=seed) == value
    repeated = variational_calibration_error(np.repeat(scores, weights), np.repeat(outcomes, weights), rng=seed)
    weighted = variational_calibration_error(scores, outcomes, weights=weights, rng=seed)
    for name in ("value", "low", "over", "under"):
        assert getattr(weighted, name) == pytest.approx(getattr(repeated, name), abs=CLOSE)
    assert value.value == pytest.approx(value.over + value.under, abs=CLOSE)
    assert 0 <= value.low <= max(value.value, 0)


def test_a_sketch_has_the_number_of_a_table_on_its_grid() -> None:
    scores, outcomes = drawn(0, 20_000)
    sketch = CalibrationSketch()
    sketch.update(scores, outcomes)
    result = variational_calibration_error(sketch)
    exact = variational_calibration_error(scores, outcomes)  # more scores than cells: pooled into the same cells
    for name in ("value", "low", "over", "under"):
        assert getattr(result, name) == pytest.approx(getattr(exact, name), abs=1e-9)


@pytest.mark.parametrize(("scores", "outcomes"), [([0.5], [1]), ([0.0, 1.0], [0, 1]), ([0.3, 0.3], [0, 1])])
def test_few_rows_show_nothing(scores: list[float], outcomes: list[int]) -> None:
    """A row alone in its fold has a direction only from other rows: one row has none."""
    result = variational_calibration_error(scores, outcomes)
    assert result.low == 0
    if len(scores) == 1 or set(scores) == {0.0, 1.0}:
        assert result.value == 0


def truth_of(quantiles: np.ndarray, rate: Callable[[np.ndarray], np.ndarray]) -> float:
    return float(np.abs(rate(quantiles) - quantiles).mean())


RATES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "calibrated": lambda p: p,
    "too extreme": lambda p: p**0.7 / (p**0.7 + (1 - p) ** 0.7),
    "too high": lambda p: np.clip(p - 0.08, 0, 1),
    "waves": lambda p: np.clip(p + 0.08 * np.sin(10 * np.pi * p), 0, 1),
}

SCORES: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "uniform": lambda rng, n: rng.random(n),
    "tenths": lambda rng, n: np.round(rng.random(n), 1),
    "rare": lambda rng, n: rng.beta(0.5, 20, n),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("n", [30, 1_000])
def test_the_bound_is_seldom_false(name: str, rate: str, n: int) -> None:
    """300 samples each: at most 6 % of the bounds are above the true error; nominally 2.5 %."""
    rng = np.random.default_rng(1)
    truth = truth_of(SCORES[name](rng, 400_000), RATES[rate])
    false = 0
    for seed in range(300):
        scores = SCORES[name](rng, n)
        outcomes = rng.random(n) < RATES[rate](scores)
        # the truth is a mean over 400,000 drawn scores, each off by at most .1: within 2e-4
        false += variational_calibration_error(scores, outcomes, rng=seed).low > truth + 2e-4
    assert false <= 18


@pytest.mark.slow
def test_the_estimate_comes_close_from_below() -> None:
    """At 20,000 rows the estimate is within .004 of the true error .0518, on average, and not above it."""
    rng = np.random.default_rng(2)
    rate = RATES["too extreme"]
    truth = truth_of((np.arange(100_000) + 0.5) / 100_000, rate)
    values = []
    for seed in range(60):
        scores = rng.random(20_000)
        values.append(variational_calibration_error(scores, rng.random(20_000) < rate(scores), rng=seed).value)
    assert truth - 0.004 < np.mean(values) < truth + 3 * np.std(values) / math.sqrt(60)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 95}, r"level: expected a number from 0\.5 to below 1, got 95"),
        ({"rng": -1}, "rng: expected a non-negative integer"),
        ({"rng": "seed"}, "rng: expected a non-negative integer"),
    ],
)
def test_arguments_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        variational_calibration_error([0.5], [1], **options)


def test_one_event_is_judged() -> None:
    with pytest.raises(InputError, match="notion: expected 'positive' or 'top-label' for the variational"):
        variational_calibration_error([[0.5, 0.5]], [1], notion="classwise")
    top = variational_calibration_error([[0.2, 0.8]] * 40, [1] * 20 + [0] * 20)
    assert isinstance(top, VariationalError)
    assert top.over == pytest.approx(0.3, abs=CLOSE)
