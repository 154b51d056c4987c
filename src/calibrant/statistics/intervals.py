"""Estimated variances, and the parts of intervals that measures share.

Variances are steadied by what calibration implies; gaps are thinned; binomial bounds are exact; an end that is inverted
at each value is a root.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from calibrant.runtime.arrays import Float64s
from calibrant.statistics.null import Interval
from calibrant.statistics.resampling import t_quantile

#: For a mean over rows that cannot vary: smaller deviations are the rounding of float32 scores.
DEVIATES: Final = 1e-6


class Variance(NamedTuple):
    """The variance of a sum over rows."""

    value: float  # the variance, in squared units of the sum
    deff: float = 1.0  # the design effect: the variance over that for independent rows
    #: The degrees of freedom of the estimated variance, for the quantile of Student's distribution; at least 1, and
    #: infinite where the distribution is taken as normal.
    df: float = math.inf

    @property
    def error(self) -> float:
        """The standard error of the sum."""
        return math.sqrt(self.value)

    def effective_rows(self, n: float) -> float:
        """Return how many independent rows would tell as much as these ``n``, at most ``n``.

        A design effect below 1 is no more information than rows have: rows of a cluster then repel each other, down to
        sums that cannot deviate.
        """
        return n / max(self.deff, 1.0)

    def half_width(self, level: float) -> float:
        """Return half the width of the interval of the sum."""
        return t_quantile(level, self.df) * self.error

    def p_value(self, deviation: float) -> float:
        """Return the two-sided p-value of a deviation of the sum.

        It is 1 where nothing varies and nothing deviates: a deviation up to `DEVIATES` is then rounding.
        """
        from scipy.special import ndtr, stdtr

        if self.error == 0:
            return float(abs(deviation) <= DEVIATES)
        z = -abs(deviation) / self.error
        return float(2 * (ndtr(z) if math.isinf(self.df) else stdtr(self.df, z)))


def widest(variances: Iterable[Variance], level: float) -> float:
    """Return the largest half width of several sums: with slopes that were seen, and for gaps that clusters move alike.

    The signs that were seen are those of noise where a common effect of the clusters has moved S close to 0: the sum
    over bins of |S| then varies with that effect, and the sum with those signs does not.
    """
    return max(each.half_width(level) for each in variances)


#: The weight, in rows, of the variance that calibration implies.
PRIOR_ROWS: Final = 5.0

#: By how much E g(m + Z) falls short of |m| at most: the maximum of 2 m Phi(-m / sqrt 2), at m = 1.0632.
THINNED_BIAS: Final = 0.480751173662022

#: With so many bins, (sum sd)^2 / variance of the sum, the distribution of their thinned sum is close enough to a
#: normal one.
FEWEST: Final = 4.0


#: The scale of an interval that is symmetric around its value.
Link = Literal["identity", "log", "logit"]

#: How the interval of a mean over rows is made.
NORMAL: Final = "central limit theorem"

#: How it is made where all outcomes are equal: from the bound of the rate of the other outcome.
RATE: Final = "Clopper-Pearson of the rate"

_METHODS: Final = {"identity": NORMAL, "log": "normal, of the logarithm", "logit": "normal, on log-odds"}
_LARGEST: Final = 700.0  # exp of more is not a float


def has_link(value: float, link: Link) -> bool:
    """Return whether the link of a value is finite."""
    return math.isfinite(value) and (link == "identity" or (value > 0 and (link == "log" or value < 1)))


def link_slope(value: float, link: Link) -> float:
    """Return how much the link of a value grows with it."""
    return 1.0 if link == "identity" else 1 / value if link == "log" else 1 / (value * (1 - value))


def linked_interval(value: float, variance: Variance, level: float, link: Link) -> Interval:
    """Return the interval of a value whose link has this variance: symmetric on the scale of the link."""
    half = variance.half_width(level)
    if link == "log":
        ends = value * math.exp(-half), value * math.exp(half) if half < _LARGEST else math.inf
    elif link == "logit":
        middle = math.log(value / (1 - value))
        low, high = (min(max(end, -_LARGEST), _LARGEST) for end in (middle - half, middle + half))
        ends = min(1 / (1 + math.exp(-low)), value), max(1 / (1 + math.exp(-high)), value)  # but for rounding
    else:
        ends = value - half, value + half
    return Interval(*ends, _METHODS[link])


def blend(rows: Float64s, squares: Float64s, null_variances: Float64s) -> Float64s:
    """Return (n Q + 5 V0) / (n + 5): the variance of a sum of residuals, steadied by what calibration implies."""
    return np.asarray((rows * squares + PRIOR_ROWS * null_variances) / (rows + PRIOR_ROWS))


def centred_blend(units: float, square: float, null_variance: float, blended: float) -> float:
    """Return a sum of squares around its mean that was ``blended`` before it was centred, or blended after it.

    Blended before, the square of the mean is taken off in full although the five prior rows do not hold it. Where the
    scores are far from the outcomes, little or nothing would be left: below half, the sum around the mean is blended.
    """
    after = (units * square + PRIOR_ROWS * null_variance) / (units + PRIOR_ROWS)
    return blended if blended >= after / 2 else after


def thinned(x: Float64s) -> tuple[Float64s, Float64s]:
    """Return g(x) = x (2 Phi(x) - 1) - 2 phi(x) and its derivative 2 Phi(x) - 1 + 4 x phi(x).

    E g(m + Z) = |m| (2 Phi(|m| / sqrt 2) - 1) <= |m| for a standard normal Z: an estimate of |m| that is biased
    downwards everywhere, by Gaussian thinning.
    """
    from scipy.special import ndtr

    sign = 2 * ndtr(x) - 1
    near = np.clip(x, -40.0, 40.0)  # beyond it the density is 0
    density = np.exp(-0.5 * near**2) / np.sqrt(2 * np.pi)
    return x * sign - 2 * density, sign + 4 * near * density


def unbiased_end(middle: float, roots: float, half: float, *, several: bool) -> float:
    """Return an upper end of sum |m|: G with its largest bias and a half width; infinite for few bins.

    With fewer than four bins the distribution of G is too far from a normal one.
    """
    return middle + THINNED_BIAS * roots + half if several else math.inf


def thinned_ends(
    gaps: Float64s,
    deviations: Float64s,
    *,
    total: Callable[[Float64s], float],
    variances: Callable[[Sequence[Float64s]], Sequence[Variance]],
    common: Sequence[Float64s],
    level: float,
) -> tuple[float, float, float]:
    """Return the ends of the interval of a total of |m|, from gaps S with mean m, and the degrees of freedom.

    With G the total of v g(S / v), v these standard deviations and sd(f) that of the total of f S: low = G - t sd(g').
    The upper end is the smaller of T + t sd(sign), T the total of |S| (Jensen), and G with its largest bias, 0.481
    times the total of v, and the same half width as G, if the gaps are as many as four equal ones. For the upper end no
    half width is below that for gaps that clusters move together, the signs ``common``: `widest`.
    """
    g, slopes = thinned(gaps / deviations)
    thin, sign, *shared = variances([slopes, np.sign(gaps), *common])
    middle, roots = total(deviations * g), total(deviations)
    jensen = total(np.abs(gaps)) + widest([sign, *shared], level)
    several = all(roots**2 >= FEWEST * each.value for each in (sign, *shared))
    least_biased = unbiased_end(middle, roots, widest([thin, *shared], level), several=several)
    return middle - thin.half_width(level), min(jensen, least_biased), sign.df


def score_end(value: float, growth: float, rest: float, z: float) -> float:
    """Return the m that solves m = T + z sqrt(4 r m + s): an upper end of a square, whose variance grows with it."""
    radicand = 4 * z**2 * growth * value + 4 * z**4 * growth**2 + z**2 * rest
    return value + 2 * z**2 * growth + math.sqrt(max(radicand, 0.0))


def consistency_band(means: Float64s, rows: Float64s, tail: float) -> tuple[Float64s, Float64s]:
    """Return what the observed frequencies of bins are within if the mean scores are right: binomial quantiles."""
    from scipy.special import bdtrik

    means = np.clip(means, 0.0, 1.0)
    certain = (means == 0) | (means == 1)
    usual = np.where(certain, 0.5, means)
    low, high = (np.clip(np.ceil(bdtrik(q, rows, usual)) / rows, 0, 1) for q in (tail, 1 - tail))
    return np.where(certain, means, low), np.where(certain, means, high)


def clopper_pearson(successes: Any, trials: Any, alpha: float) -> tuple[Float64s, Float64s]:
    """Return one-sided bounds, each at ``alpha``, of the probability of an event that occurred so often.

    Clopper and Pearson (1934). Neither number need be whole: with weights both are effective sample sizes.
    """
    from scipy.special import betaincinv

    k, n = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    k = np.clip(k, 0.0, n)
    with np.errstate(invalid="ignore"):
        low = np.where(k > 0, betaincinv(np.maximum(k, 1e-300), n - k + 1, alpha), 0.0)
        high = np.where(k < n, betaincinv(k + 1, np.maximum(n - k, 1e-300), 1 - alpha), 1.0)
    return low, high


_EPS: Final = 2.0**-52


def root(function: Callable[[float], float], low: float, high: float, *, xtol: float) -> float:
    """Return a root of a continuous function between two points where it has opposite signs, to ``xtol``.

    Chandrupatla's method (Advances in Engineering Software 28, 1997): inverse quadratic interpolation where it is
    safe, else bisection. So it ends for every function. The import of `scipy.optimize` would be felt at each start.
    """
    a, b = high, low
    at_a, at_b = function(a), function(b)
    if at_a == 0 or at_b == 0:
        return a if at_a == 0 else b
    if (at_a > 0) == (at_b > 0):
        msg = f"the function has the same sign at {low} and {high}"
        raise ValueError(msg)
    share = 0.5  # of the way from a to b
    while True:
        x = a + share * (b - a)
        at_x = function(x)
        if (at_x > 0) == (at_a > 0):
            c, at_c = a, at_a
        else:
            c, at_c, b, at_b = b, at_b, a, at_a
        a, at_a = x, at_x
        best = a if abs(at_a) < abs(at_b) else b
        least = (xtol + 2 * _EPS * abs(best)) / abs(b - a)
        if at_a == 0 or least > 0.5:
            return best
        xi, phi = (a - b) / (c - b), (at_a - at_b) / (at_c - at_b)
        share = 0.5
        if phi**2 < xi and (1 - phi) ** 2 < 1 - xi:
            quadratic = at_a / (at_b - at_a) * at_c / (at_b - at_c)
            share = quadratic + (c - a) / (b - a) * at_a / (at_c - at_a) * at_b / (at_c - at_b)
        share = min(max(share, least), 1 - least)
