"""All differences of several estimates at once, against closed forms and elementary versions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from calibrant.statistics.simultaneous import Ranking, Spread, joint_tail, ranking

LEVEL = 0.95


def spread(seed: int, k: int, df: float = math.inf, units: int = 60) -> Spread:
    rows = np.random.default_rng(seed).standard_normal((k, units)) * np.linspace(0.5, 2, k)[:, None]
    return Spread.of(np.cov(rows) / units, df)


@pytest.mark.parametrize("df", [math.inf, 12.0])
def test_two_estimates_have_the_usual_interval_and_p_value(df: float) -> None:
    varied = spread(1, 2, df)
    error = varied.errors[0, 1]
    found = ranking(np.array([0.3, 0.1]), varied, LEVEL)
    law = stats.norm() if math.isinf(df) else stats.t(df)
    half = law.ppf(0.975) * error
    assert found.critical == pytest.approx(law.ppf(0.975), rel=1e-12)
    assert found.p_values.tolist() == pytest.approx([2 * law.sf(0.2 / error), 1.0], rel=1e-9)
    assert found.low[0] == pytest.approx(max(0.2 - half, 0), abs=1e-15)
    assert found.high[0] == pytest.approx(0.2 + half, rel=1e-12)


@pytest.mark.parametrize("k", [3, 5, 20])
@pytest.mark.parametrize("df", [math.inf, 80.0])
def test_independent_estimates_have_the_quantile_of_the_studentized_range(k: int, df: float) -> None:
    """With few degrees of freedom, Student's quantile at the same probability."""
    found = ranking(np.zeros(k), Spread.of(np.eye(k), df), LEVEL)
    normal = stats.studentized_range.ppf(LEVEL, k, 1e6) / math.sqrt(2)
    expected = normal if math.isinf(df) else stats.t.isf(stats.norm.sf(normal), df)
    assert found.critical == pytest.approx(expected, rel=0.016)  # four standard errors of a simulated quantile
    value = np.zeros(k)
    value[0] = 3.2 * math.sqrt(2)
    p = ranking(value, Spread.of(np.eye(k)), LEVEL).p_values[0]
    exact = stats.studentized_range.sf(3.2 * math.sqrt(2), k, 1e6)
    assert p == pytest.approx(exact, abs=4 * math.sqrt(exact / 32_768) + 1e-4)


@pytest.mark.parametrize(
    ("n", "k"),
    [
        *((2, 10), (5, 5), (10, 20), (20, 20)),
        *(pytest.param(n, 20, marks=pytest.mark.slow) for n in (61, 100, 200)),
    ],
)
def test_few_units_do_not_make_models_worse(n: int, k: int) -> None:
    """The family-wise rate of false statements, for equal models: at most 5 %, and 7 % with five units or ten."""
    rng, false, runs = np.random.default_rng(n + k), 0, 200
    for _ in range(runs):
        losses = rng.standard_normal((k, n))
        found = ranking(losses.mean(axis=1), Spread.of(np.cov(losses) / n, n - 1), LEVEL)
        false += not found.among_best.all()
    most = 0.07 if n <= 10 else 0.05
    assert false / runs <= most + 3 * math.sqrt(most * (1 - most) / runs)


def test_the_critical_value_is_bonferronis_where_the_dependence_is_unknown() -> None:
    errors = 1.0 - np.eye(4)
    found = ranking(np.array([0.0, 1.0, 2.0, 4.0]), Spread(errors), LEVEL)
    assert found.critical == pytest.approx(stats.norm.isf(0.05 / 12), rel=1e-12)
    assert found.p_values[3] == pytest.approx(6 * 2 * stats.norm.sf(4.0), rel=1e-9)
    assert found.method.endswith("(Bonferroni)")


def elementary(values: np.ndarray, errors: np.ndarray, critical: float) -> dict[str, list[float]]:
    """Return the same statements, a pair after the other."""
    k = len(values)
    below = [[values[i] - values[j] > critical * errors[i, j] for j in range(k)] for i in range(k)]
    best = [not any(row) for row in below]
    ends = [(values[i] - values[j], critical * errors[i, j]) for i in range(k) for j in range(k)]
    of = [ends[i * k : (i + 1) * k] for i in range(k)]
    return {
        "low": [max(0.0, *(d - e for d, e in row)) for row in of],
        "high": [max(d + e for (d, e), marked in zip(row, best, strict=True) if marked) for row in of],
        "rank_low": [1 + sum(row) for row in below],
        "rank_high": [k - sum(row[j] for row in below) for j in range(k)],
        "among_best": best,
    }


@given(st.integers(0, 10_000), st.integers(2, 7), st.floats(0, 2), st.sampled_from([math.inf, 5.0, 40.0]))
def test_all_statements_follow_from_one_critical_value(seed: int, k: int, scale: float, df: float) -> None:
    varied = spread(seed, k, df)
    values = np.random.default_rng(seed).standard_normal(k) * scale
    found = ranking(values, varied, LEVEL)
    for name, expected in elementary(values, varied.errors, found.critical).items():
        assert getattr(found, name).tolist() == pytest.approx(expected, abs=1e-12), name
    assert np.array_equal(found.p_values <= 1 - LEVEL + 1e-12, ~found.among_best)
    assert np.array_equal(found.low > 0, ~found.among_best)
    assert np.array_equal(found.rank_low > 1, ~found.among_best)
    assert (found.low <= found.excess).all()
    assert (found.excess <= found.high).all()
    assert found.among_best[np.argmin(values)]


def columns(found: Ranking, order: np.ndarray) -> list[list[float]]:
    names = ("excess", "low", "high", "p_values", "rank_low", "rank_high")
    return [getattr(found, name)[order].tolist() for name in names]


def test_the_order_of_the_estimates_plays_no_part() -> None:
    varied, values = spread(3, 6, 30.0), np.array([0.1, 0.5, 0.2, 0.9, 0.3, 0.05])
    order = np.array([4, 2, 0, 5, 1, 3])
    there = ranking(values[order], varied.take(order), LEVEL)
    assert columns(there, np.argsort(order)) == columns(ranking(values, varied, LEVEL), np.arange(6))


def test_estimates_that_do_not_differ_are_alike_and_those_that_do_not_vary_differ_surely() -> None:
    rows = np.random.default_rng(0).standard_normal((1, 50)).repeat(3, axis=0)
    same = Spread.of(np.cov(rows))
    assert (same.errors == 0).all()
    found = ranking(np.array([0.2, 0.2, 0.3]), same, LEVEL)
    assert found.among_best.tolist() == [True, True, False]
    assert found.p_values.tolist() == [1.0, 1.0, 0.0]
    assert found.rank_low.tolist() == [1, 1, 3]
    assert found.rank_high.tolist() == [2, 2, 3]


@pytest.mark.parametrize("k", [2, 8])
@pytest.mark.parametrize("df", [math.inf, 49.0])
def test_differences_of_independent_pairs_have_the_quantile_of_their_largest(k: int, df: float) -> None:
    """A family of some differences alone; with too few degrees of freedom to know the dependence, Bonferroni's."""
    varied = Spread.of(np.diag(np.linspace(0.5, 2, 2 * k)), df)
    family = np.kron(np.eye(k), np.ones((2, 2)))
    tail = joint_tail(varied._replace(errors=varied.errors * family), LEVEL)
    exact = (1 - LEVEL ** (1 / k)) / 2 if math.isinf(df) else (1 - LEVEL) / (2 * k)
    assert stats.norm.isf(tail) == pytest.approx(stats.norm.isf(exact), rel=0.008)  # four standard errors
    assert tail >= (1 - LEVEL) / (2 * k) * (1 - 1e-12)
