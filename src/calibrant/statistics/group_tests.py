"""Differences between groups: which stand out, how much a measure differs between them, and their pooled value.

They are by Holm's correction, by Cochran's Q and I^2 at a common value, which holds for few events, and by a model of
random effects with the prediction interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.results import TestResult
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.cells import Cells
from calibrant.statistics.intervals import Link, Variance, root

#: Rows below which a group is too small to say anything.
LEAST_GROUP: Final = 30

#: Why a group has no test.
SMALL_GROUP: Final = f"fewer than {LEAST_GROUP} rows, too few for a test"
ONE_CLUSTER: Final = "all rows are in one cluster, which does not show how clusters vary"

#: Below this variance of the number of outcomes a closed form is not to be trusted.
LEAST_VARIANCE: Final = 10.0

_FINER: Final = 4  # the smallest p-value is this often below what the correction asks for
_MOST_DRAWN: Final = 1_000_000


def draws_needed(family: int, alpha: float) -> int:
    """Return the number of resamples whose smallest p-value is fine enough for a correction for ``family`` groups."""
    return min(math.ceil(_FINER * family / alpha), _MOST_DRAWN)


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupTest:
    """A group's test, and a way to a finer p-value."""

    test: TestResult  # the test, with its closed form and the smallest p-value that its resamples resolve
    variance: float  # the variance of the sum of the group's residuals under calibration
    redrawn: Callable[[int], float]  # the p-value of a larger number of resamples
    exact: Callable[[], float]  # the p-value by an exact law; NaN without such a law

    def p_value(self, family: int, alpha: float) -> float:
        """Return the group's p-value among ``family`` groups; NaN if these data have no valid one.

        B resamples know no p-value below 1 / (B + 1), which a correction for many groups would make large. Where they
        are at this limit the closed form decides, or in sparse groups, where it is false, more resamples.
        """
        if "impossible_outcomes" in self.test.details:
            return self.test.p_value
        p_value, least = self.test.p_value, float(self.test.details.get("least_p_value", 0.0))
        sparse = self.variance < LEAST_VARIANCE
        if least == 0:  # no resamples
            return self.exact() if sparse else p_value
        if p_value > least * (1 + 1e-9):
            return p_value
        if not sparse:
            return min(p_value, float(self.test.details["closed_form_p_value"]))
        needed = draws_needed(family, alpha)
        return p_value if needed <= 1 / least else self.redrawn(needed)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted so that rejecting those below alpha errs in a share alpha of families at most.

    The k-th smallest of m is multiplied by m - k + 1 and made no smaller than the one before (Holm 1979).
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, before = [0.0] * len(p_values), 0.0
    for k, i in enumerate(order):
        before = max(before, min(1.0, (len(p_values) - k) * p_values[i]))
        adjusted[i] = before
    return adjusted


#: The weight, in rows, of what all groups show together in a figure of one.
PRIOR_ROWS: Final = 100.0

_ROUNDING: Final = 1e-9


@dataclass(frozen=True, eq=False, kw_only=True)
class Deviations:
    """How far groups are from a common value, (G,) each, in any unit: U, the score of a group."""

    scores: Float64s  # (G,): U, which has mean 0 if the groups have one value
    #: (G,): the variances of U at the common value, for independent rows; NaN or 0 for a group that tells nothing.
    variances: Float64s
    sensitivities: Float64s  # (G,): how much U grows with the value of the group
    influences: Sequence[Float64s]  # (2, K): what a unit of weight adds to U in each cell, without and with the event
    enough: NDArray[np.bool_] | None = None  # (G,): the groups that may be compared; by default all
    reason: str = "the rows of the group do not determine the measure"  # why the others are not compared


#: The deviations of groups, from the cells of each.
Compare = Callable[[Sequence[Cells]], Deviations]


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupRows:
    """The rows of a group."""

    cells: Cells  # its cells, (K,)
    #: (2, H, K): the weight without and with the event of each bucket of clusters in each cell; buckets are those of
    #: all groups. None for independent rows.
    buckets: Float64s | None = None


class Heterogeneity(NamedTuple):
    """I^2, the p-value of Cochran's Q, which groups took part, (G,), and why the others did not.

    NaN with fewer than two groups.
    """

    share: float
    p_value: float
    compared: NDArray[np.bool_]
    reason: str


def heterogeneity(groups: Sequence[GroupRows], compare: Compare) -> Heterogeneity:
    """Return how much groups differ, by the score test of one common value.

    Q = sum U^2 / v - (sum c U / v)^2 / sum c^2 / v with the scores U of the groups, their variances v at the common
    value and their sensitivities c. With U / c for the value less the common one it is Cochran's Q (1954, doi
    10.2307/3001666), whose variances do not come from the groups' own values: with few events these go together, and Q
    is too large. Q is chi-square with G - 1 degrees of freedom if the groups have one value. I^2 = max(0, 1 - E Q / Q)
    (Higgins and Thompson 2002, doi 10.1002/sim.1186).

    Clusters multiply v by the design effect of U. If they lie in several groups the scores are correlated, R, and Q is
    nearly a scaled chi-square with mean tr M and variance 2 tr M^2, M = P R P, P the projection that Q makes.
    """
    from scipy.special import chdtrc

    deviating = compare([group.cells for group in groups])
    sums = [
        None if group.buckets is None else np.einsum("ohk,ok->h", group.buckets, influence)
        for group, influence in zip(groups, deviating.influences, strict=True)
    ]
    effects = np.ones(len(groups))
    for g, (group, influence, sum_of) in enumerate(zip(groups, deviating.influences, sums, strict=True)):
        if sum_of is not None:
            rows = float(np.sum(group.cells.table.own_weights * influence**2))
            effects[g] = float(sum_of @ sum_of) / rows if rows > 0 else math.nan
    variances = deviating.variances * effects
    with np.errstate(invalid="ignore"):
        held = np.isfinite(deviating.scores) & np.isfinite(variances) & (variances > 0)
    held &= True if deviating.enough is None else deviating.enough
    if np.count_nonzero(held) < 2:
        return Heterogeneity(math.nan, math.nan, held, deviating.reason)
    deviations = np.sqrt(variances[held])
    scaled, direction = deviating.scores[held] / deviations, deviating.sensitivities[held] / deviations
    direction = direction / np.abs(direction).max()  # whatever the unit of the value
    direction = direction / math.sqrt(float(direction @ direction))
    q = max(float(scaled @ scaled) - float(direction @ scaled) ** 2, 0.0)
    mean, square = _moments([influence for influence, kept in zip(sums, held, strict=True) if kept], direction)
    if mean <= _ROUNDING:  # the same clusters in every group: their differences do not vary
        return Heterogeneity(0.0, 1.0, held, deviating.reason)
    share = max(0.0, 1 - mean / q) if q > 0 else 0.0
    return Heterogeneity(share, float(chdtrc(mean**2 / square, q * mean / square)), held, deviating.reason)


def _moments(sums: Sequence[Float64s | None], direction: Float64s) -> tuple[float, float]:
    """Return tr M and tr M^2, M = P R P, from what buckets add to the score of each group."""
    clustered = [g for g, by_bucket in enumerate(sums) if by_bucket is not None]
    if not clustered:
        return float(len(sums) - 1), float(len(sums) - 1)
    rows = np.stack([by_bucket for by_bucket in sums if by_bucket is not None])
    rows = rows / np.sqrt(np.sum(rows**2, axis=1, keepdims=True))
    correlations = np.eye(len(sums))
    correlations[np.ix_(clustered, clustered)] = rows @ rows.T
    projection = np.eye(len(sums)) - np.outer(direction, direction)
    products = projection @ correlations @ projection
    return float(np.trace(products)), float(np.sum(products**2))


def steadied(own: Float64s, together: float, rows: Float64s) -> Float64s:
    """Return the figure of each group, steadied by that of all groups, which counts as 100 rows."""
    return np.asarray((rows * own + PRIOR_ROWS * together) / (rows + PRIOR_ROWS))


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
