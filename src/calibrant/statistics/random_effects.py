"""The pooled value of groups by a model of random effects, with its interval and the prediction interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import numpy as np

from calibrant.runtime.arrays import Float64s
from calibrant.statistics.intervals import Link, Variance, root


class Pooled(NamedTuple):
    """What groups show together, by a model in which their true values vary: the mean and the range of true values.

    ``low`` and ``high`` are the confidence interval of the mean, ``prediction`` the interval of the true value of
    another group. ``weights`` are the shares of the groups in the mean, (G,), and ``variance`` is that of the true
    values, on the scale of the link.
    """

    value: float
    low: float
    high: float
    prediction: tuple[float, float]
    weights: Float64s
    variance: float


def random_effects(values: Float64s, lows: Float64s, highs: Float64s, level: float, link: Link) -> Pooled:
    """Return the pooled value of independent groups from their values and intervals at ``level``, (G,) each.

    On the scale of the link, with standard errors s from the widths of the intervals: the variance between groups tau^2
    has the largest restricted likelihood, weights are 1 / (s^2 + tau^2), and the interval of the mean is that of
    Hartung and Knapp (2001, doi 10.1002/sim.1009) with G - 1 degrees of freedom, never narrower than that of the
    weights (Röver et al. 2015, doi 10.1186/s12874-015-0091-1). The prediction interval is that of Nagashima et al.
    (2019, doi 10.1177/0962280218773520): it covers with few groups, because tau^2 has its confidence distribution.
    """
    on_link, back = _LINKS[link]
    y = on_link(values)
    v = ((on_link(highs) - on_link(lows)) / 2 / Variance(1.0).half_width(level)) ** 2
    variance = _between(y, v)
    (mean,), (square,) = _mean(y, v, np.array([variance]))
    half = Variance(float(square), df=len(y) - 1).half_width(level)
    middle, low, high = back(mean + np.array([0.0, -half, half])).tolist()
    least, most = back(_prediction(y, v, level)).tolist()
    weights = 1 / (v + variance)
    return Pooled(middle, low, high, (least, most), weights / weights.sum(), variance)


def _between(y: Float64s, v: Float64s) -> float:
    """Return the variance between groups: where the restricted likelihood has slope 0, or 0 if it only falls."""

    def slope(variance: float) -> float:
        w = 1 / (v + variance)
        residuals = y - w @ y / w.sum()
        return float(np.sum(w**2 * residuals**2) - np.sum(w) + np.sum(w**2) / np.sum(w))

    if slope(0.0) <= 0:
        return 0.0
    high = float(np.ptp(y)) ** 2
    while slope(high) > 0:
        high *= 2
    return root(slope, 0.0, high, xtol=1e-12 * high)


def _mean(y: Float64s, v: Float64s, variances: Float64s) -> tuple[Float64s, Float64s]:
    """Return the weighted mean for each variance between groups, (T,), and the square of its standard error."""
    weights = 1 / (v + variances[:, None])
    total = weights.sum(axis=1)
    means = weights @ y / total
    spread = np.sum(weights * (y - means[:, None]) ** 2, axis=1)
    return means, np.maximum(spread / (len(y) - 1), 1.0) / total


def _prediction(y: Float64s, v: Float64s, level: float) -> Float64s:
    """Return the ends of the interval of the true value of another group, (2,), on the scale of the link.

    tau^2 is as large as makes Q(tau^2) = sum w (y - mean)^2 a quantile of chi-square with G - 1 degrees of freedom, or
    0; for each, the value is mean + t SE + tau Z with Student's t. The ends are quantiles of this mixture.
    """
    from scipy.special import chdtri, ndtr, stdtrit

    free = len(y) - 1
    shares = (np.arange(_DRAWS) + 0.5) / _DRAWS
    scale = float(np.ptp(y)) ** 2 + float(v.max())
    grid = np.append(0.0, scale * np.geomspace(1e-6, 1e6, 2 * _DRAWS))
    weights = 1 / (v + grid[:, None])
    residuals = y - (weights @ y / weights.sum(axis=1))[:, None]
    falling = np.sum(weights * residuals**2, axis=1)
    variances = np.interp(chdtri(free, shares), falling[::-1], grid[::-1])
    means, squares = _mean(y, v, variances)
    centres = means[:, None] + np.sqrt(squares)[:, None] * stdtrit(free, shares)
    widths = np.sqrt(np.maximum(variances, 1e-12 * scale))[:, None]

    def end(tail: float) -> float:
        low, high = (float(f(centres)) for f in (np.min, np.max))
        return root(
            lambda x: float(np.mean(ndtr((x - centres) / widths))) - tail,
            low - 1e3 * float(widths.max()),
            high + 1e3 * float(widths.max()),
            xtol=1e-9 * math.sqrt(scale),
        )

    return np.array([end((1 - level) / 2), end((1 + level) / 2)])


_DRAWS: Final = 100  # quantiles of tau^2, and of t

#: The scales of `Link`, and the way back.
_LINKS: Final[Mapping[Link, tuple[Callable[[Float64s], Float64s], Callable[[Float64s], Float64s]]]] = {
    "identity": (np.asarray, np.asarray),
    "log": (np.log, np.exp),
    "logit": (lambda p: np.log(p / (1 - p)), lambda x: 1 / (1 + np.exp(-x))),
}
