"""All differences of several estimates at once: which may be the least, by how much others exceed it, and their ranks.

The differences of K estimates have standard errors e_ij. All intervals d_ij -+ c e_ij hold together with the level if c
is the quantile of max |Z_i - Z_j| / e_ij (Tukey 1953). From them follow, all at once and whatever the truth:

- the ranks: i is above j if d_ij - c e_ij > 0 (Al Mohamad, van Zwet, Solari, Goeman 2021; Mogstad et al. 2024),
- the set that contains every least value: those that no other is shown to be below (Hsu 1981),
- the interval of how much i exceeds the least value.

The quantile is simulated with the estimated covariance: of the normal distribution, and with few degrees of freedom
that of Student's distribution at the same probability, since each e_ij is an estimate of its own. Where the dependence
of the estimates is unknown, or is estimated from too few units, the quantile is Bonferroni's, which holds for any.

A family may have fewer differences than all: those that are not in it have the standard error 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.runtime.arrays import Float64s
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.resampling import Stream, alpha_of

_MOST_DRAWS: Final = 32_768  # the quantile at 95 % then has a standard error of about 0.4 %
_FEWEST_DRAWS: Final = 10_000
_NUMBERS: Final = 1 << 21  # simulated values of all estimates
_LEAST_DF: Final = 50  # and three for each estimate: with fewer the estimated correlations are too large
_RIDGE: Final = 1e-12  # of the largest variance, so that a singular covariance has a root
_CANCELS: Final = 1e-6  # relative: a smaller variance of a difference has lost too many digits in the subtraction
_SINGLE: Final = 2.0**-23  # relative: a smaller difference is what rounding to single precision changes


class Spread(NamedTuple):
    """How several estimates vary together.

    ``errors`` are the standard errors of their differences, (K, K), ``covariance`` is theirs, (K, K), or None where the
    dependence is unknown. Quantiles are those of Student's distribution with ``df`` degrees of freedom, of all
    differences or of each, (K, K).
    """

    errors: Float64s
    covariance: Float64s | None = None
    df: float | Float64s = math.inf

    @classmethod
    def of(
        cls, covariance: Float64s, df: float = math.inf, between: Callable[[int, int], float] | None = None
    ) -> Spread:
        """Return the spread of estimates with this covariance.

        ``between`` returns the variance of the difference of two estimates that hardly differ, in which the covariance
        has lost its digits; 0 by default.
        """
        variances = np.diagonal(covariance)
        sums = variances[:, None] + variances
        squares = sums - 2 * covariance
        for i, j in np.argwhere(np.triu(squares <= _CANCELS * sums, 1)).tolist():
            squares[i, j] = squares[j, i] = between(i, j) if between else 0.0
        np.fill_diagonal(squares, 0.0)
        return cls(np.sqrt(squares), covariance, df)

    def take(self, places: NDArray[np.intp]) -> Spread:
        """Return the spread of some of the estimates, in this order."""
        grid = np.ix_(places, places)
        df = self.df if np.ndim(self.df) == 0 else np.asarray(self.df)[grid]
        return Spread(self.errors[grid], None if self.covariance is None else self.covariance[grid], df)


@dataclass(frozen=True, eq=False, kw_only=True)
class Ranking:
    """What is known about the order of K values, where less is better; all of it holds at once with the level."""

    #: excess, low, high: (K,): how much each exceeds the least, with the interval. No end is below 0.
    excess: Float64s
    low: Float64s
    high: Float64s
    p_values: Float64s  # (K,): the adjusted p-value of the hypothesis that no other is below
    among_best: NDArray[np.bool_]  # (K,): whether no other is shown to be below
    #: rank_low, rank_high: (K,): the range of the rank; 1 is the least. Values that are equal share the better rank.
    rank_low: NDArray[np.intp]
    rank_high: NDArray[np.intp]
    critical: Any  # how many standard errors each difference may be off: a number, or one for each, (K, K)
    method: str  # how it was found


def ranking(values: Float64s, spread: Spread, level: float) -> Ranking:
    """Return what is known about the order of several finite values.

    A difference that rounding to single precision may have made is 0, however little the values vary apart: a copy of
    a model in another type of number is as good as the model.
    The simulation takes them in the order of their values, so the result does not depend on the order given.
    """
    from scipy.special import ndtri, stdtrit

    order = np.argsort(values, kind="stable")
    maxima = _maxima(spread.take(order)) if is_known(spread, len(values)) else None
    tail = _tail(len(values) * (len(values) - 1) // 2, level, maxima)
    finite = np.where(np.isinf(spread.df), 1.0, spread.df)
    critical = -np.where(np.isinf(spread.df), ndtri(tail), stdtrit(finite, tail))[()]
    differences = np.subtract.outer(values, values)
    size = np.abs(values)
    differences[np.abs(differences) <= _SINGLE * np.maximum.outer(size, size)] = 0.0
    margins = critical * spread.errors
    below = differences > margins  # whether a column's value is shown to be below a row's
    among_best = np.asarray(~below.any(axis=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        standardised = np.where(differences <= 0, 0.0, differences / spread.errors)
    tails = np.min(_tails(standardised, spread.df), axis=1)
    return Ranking(
        excess=differences.max(axis=1),
        low=np.maximum((differences - margins).max(axis=1), 0.0),
        high=np.maximum((differences + margins)[:, among_best].max(axis=1), 0.0),
        p_values=np.array([_p_value(each, len(values), maxima) for each in tails.tolist()]),
        among_best=among_best,
        rank_low=1 + np.count_nonzero(below, axis=1),
        rank_high=len(values) - np.count_nonzero(below, axis=0),
        critical=critical,
        method=f"simultaneous for all pairs ({'Bonferroni' if maxima is None and len(values) > 2 else 'Tukey'})",
    )


def is_known(spread: Spread, k: int) -> bool:
    """Whether it is known well enough how k values vary together; these are some of them."""
    return spread.covariance is not None and float(np.min(spread.df)) >= max(_LEAST_DF, 3 * k)


def joint_tail(spread: Spread, level: float) -> float:
    """Return the one-sided error of each difference with a standard error above 0, whose intervals hold together."""
    maxima = _maxima(spread, 4 * _MOST_DRAWS) if is_known(spread, len(spread.errors)) else None
    return _tail(max(int(np.count_nonzero(np.triu(spread.errors))), 1), level, maxima)


def _maxima(spread: Spread, most: int = _MOST_DRAWS) -> Float64s | None:
    """Return simulated values of max |Z_i - Z_j| / e_ij in order; None where Bonferroni's bound is exact, or needed."""
    covariance, k = spread.covariance, len(spread.errors)
    if covariance is None or k == 2:
        return None
    scale = float(np.diagonal(covariance).max())
    if scale == 0:
        return None
    root = np.linalg.cholesky(covariance / scale + _RIDGE * np.eye(k))
    rng = np.random.default_rng([0, Stream.RANKS])
    size = max(_FEWEST_DRAWS, min(most, _NUMBERS // k))
    draws = np.ascontiguousarray((rng.standard_normal((size, k)) @ root.T).T)
    errors = np.where(spread.errors > 0, spread.errors, np.inf) / math.sqrt(scale)
    largest = np.zeros(size)
    for i in range(k - 1):
        others = i + 1 + np.flatnonzero(np.isfinite(errors[i, i + 1 :]))
        if len(others):
            distances = np.abs(draws[others] - draws[i]) / errors[i, others, None]
            np.maximum(largest, distances.max(axis=0), out=largest)
    return np.sort(largest)


def _tail(number: int, level: float, maxima: Float64s | None) -> float:
    """Return the one-sided error of each of several differences: the simulated one, or Bonferroni's if it is larger."""
    from scipy.special import ndtr

    tail = alpha_of(level) / (2 * number)
    if maxima is not None:
        place = math.ceil((len(maxima) + 1) * level - 1e-9) - 1
        tail = max(tail, float(ndtr(-maxima[place]))) if place < len(maxima) else tail
    return tail


def _tails(statistics: Float64s, df: float | Float64s) -> Float64s:
    """Return the probability of values above each statistic, in Student's distribution."""
    from scipy.special import ndtr, stdtr

    student = stdtr(np.where(np.isinf(df), 1.0, df), -statistics)
    return np.asarray(np.where(np.isinf(df), ndtr(-statistics), student))


def _p_value(tail: float, k: int, maxima: Float64s | None) -> float:
    """Return the probability of so large a maximum, or Bonferroni's bound of it, from the tail of one difference."""
    from scipy.special import ndtri

    if tail >= 0.5:
        return 1.0
    bound = min(k * (k - 1) * tail, 1.0)
    if maxima is None:
        return bound
    larger = len(maxima) - int(np.searchsorted(maxima, -ndtri(tail), side="left"))
    return min(bound, (larger + 1) / (len(maxima) + 1))
