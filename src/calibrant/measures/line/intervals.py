"""The log-odds line: outcomes happen with log-odds a + b logit(p), fitted with its uncertainty (Cox 1958)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.measures.binned.sums import BinMoments, BinSums
from calibrant.measures.line.line import cox_fit, in_the_large, log_odds
from calibrant.runtime.arrays import Float64s
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import Clustered, Influence, rarer_rows
from calibrant.statistics.groups import Deviations, steadied
from calibrant.statistics.intervals import Variance
from calibrant.table import ReliabilityTable

#: Scores are moved in from 0 and 1 by this, because their log-odds are infinite.
CERTAIN: Final = 1e-6

_MOST_STEPS: Final = 200
_LARGEST_STEP: Final = 4.0  # of log-odds
_CLOSE: Final = 1e-14  # of a squared step, in squared standard errors


#: Standard errors by which the outcome rate falls as scores rise, for a finding.
FALLING: Final = 4.0


class Line(NamedTuple):
    """The slope b of the log-odds line: 1 if the scores are spread rightly, below 1 if they are too extreme.

    NaN with one distinct score or outcomes of one kind, infinite where a threshold separates the outcomes. ``low`` and
    ``high`` are the ends of its interval, NaN without an interval; ``p_value`` is that of the slope 1, with the same
    standard error.
    """

    slope: float
    low: float
    high: float
    p_value: float = math.nan

    @classmethod
    def of(cls, slope: float, variance: Variance | None, level: float) -> Line:
        """Return the line of a slope with this variance; None where the slope has none."""
        if variance is None:
            return cls(slope, math.nan, math.nan)
        half = variance.half_width(level)
        return cls(slope, slope - half, slope + half, variance.p_value(slope - 1))


def log_odds_line(cells: Cells) -> tuple[float, Variance | None]:
    """Return the slope with its variance, by the sandwich formula: I^-1 (sum u u') I^-1."""
    influence = slope_influence(cells)
    return cox_fit(cells.table, CERTAIN).slope, None if influence is None else Variance(influence.square)


def slope_influence(cells: Cells) -> Influence | None:
    """Return the influence on the slope, I^-1 (1, logit p) (y - rate), I the information; None for no finite slope."""
    fit = cox_fit(cells.table, CERTAIN)
    if not math.isfinite(fit.slope):
        return None
    x = _log_odds_of(cells.table) - fit.origin
    rates = rates_at(fit.level, fit.slope * x)
    design = np.stack([np.ones_like(x), x])
    information = (design * cells.counts * rates * (1 - rates)) @ design.T
    try:
        inverse = np.linalg.inv(information)
    except np.linalg.LinAlgError:
        return None
    values = np.stack([-rates, 1 - rates]) * (inverse @ design)[1]
    return Influence.of_cells(cells, values, float(np.sum(cells.table.own_weights * values**2)))


class WithoutEnds(NamedTuple):
    """The weight of the rows whose scores are moved in from 0 and 1, and the line without them."""

    rows: float
    inner: Line


def without_ends(cells: Cells, line: Line, level: float) -> WithoutEnds | None:
    """Return the line of the rows that are not moved; None if no row is.

    ``line`` is that of all rows. Where its interval is wider than for independent rows, that of the inner rows is wider
    by the same factor.
    """
    table = cells.table
    moved = (table.scores < CERTAIN) | (table.scores > 1 - CERTAIN)
    if not moved.any():
        return None
    rows = float(table.counts[moved].sum())
    if moved.all():
        return WithoutEnds(rows, Line(math.nan, math.nan, math.nan))
    inner, plain = (Line.of(*log_odds_line(each), level) for each in (cells.take(~moved), cells))
    wider = (line.high - line.low) / (plain.high - plain.low) if plain.high > plain.low else 1.0
    half = (inner.high - inner.low) / 2 * wider
    return WithoutEnds(rows, inner._replace(low=inner.slope - half, high=inner.slope + half))


def falls(sums: BinSums) -> bool:
    """Return whether the outcome rate clearly falls as the mean scores of bins rise.

    The sum of w c (y - r), c the mean score of the bin around that of all rows and r the base rate, is then below -4
    standard errors, or Student's quantile with the same tail. Its variance is that of r (1 - r), as if scores told
    nothing of the outcomes.
    """
    from scipy.special import ndtr

    centred, rate = centred_scores(sums.moments)
    together = float(np.sum(centred * (sums.moments.counts * (sums.moments.rates - rate))))
    variance = sums.outcomes(centred, rate)
    return together < -variance.half_width(1 - 2 * float(ndtr(-FALLING)))


def centred_scores(bins: BinMoments) -> tuple[Float64s, float]:
    """Return the mean score of each bin less that of all rows, and the base rate."""
    mean, rate = (float(np.sum(x)) / bins.total for x in (bins.score_sums, bins.counts * bins.rates))
    return bins.score_sums / bins.counts - mean, rate


def intercept_influence(cells: Cells) -> Influence | None:
    """Return the influence on the intercept at slope 1, (y - rate) / I, I the information; None for no finite one."""
    rates, intercept = at_slope_one(cells.table)
    information = float(cells.counts @ (rates * (1 - rates)))
    if not (math.isfinite(intercept) and information > 0):
        return None
    squares = cells.table.own_weights
    square = float(squares[0] @ rates**2 + squares[1] @ (1 - rates) ** 2) / information**2

    def by_bucket(rows: Clustered) -> Float64s:
        coarse = rates_at(intercept, log_odds(np.clip(rows.cells.scores, CERTAIN, 1 - CERTAIN)))
        return np.asarray((rows.y - rows.n * coarse).sum(axis=1) / information)

    values = np.stack([-rates, 1 - rates]) / information
    return Influence(square=square, by_bucket=by_bucket, cells=cells, values=values)


def at_slope_one(table: ReliabilityTable) -> tuple[Float64s, float]:
    """Return the rates s(a + logit p), and a."""
    intercept = in_the_large(table, CERTAIN)
    return rates_at(intercept, _log_odds_of(table)), intercept


def rates_at(intercept: float | Float64s, x: Float64s) -> Float64s:
    """Return the rates whose log-odds are the intercept and x."""
    return np.asarray(1 / (1 + np.exp(-np.clip(intercept + x, -700, 700))))


def compare_slopes(groups: Sequence[Cells]) -> Deviations:
    """Return the scores of the groups' slopes at one slope for all, each group with an intercept of its own.

    U = sum (x - m) (y - q) with x = logit p, the fitted rates q and m the mean of x by weights q (1 - q), so that the
    intercepts play no part. Its variance under the model is J = sum (x - m)^2 q (1 - q). It is multiplied by the ratio
    of sum (x - m)^2 (y - q)^2 to J, where the line does not fit: that of all groups, and of the group as far as it has
    events to tell.
    """
    first = np.cumsum([0, *(len(cells) for cells in groups)])[:-1]
    sizes = np.diff(first, append=sum(len(cells) for cells in groups))
    x, counts, positives = (
        np.concatenate([part(cells) for cells in groups])
        for part in (lambda cells: _log_odds_of(cells.table), lambda cells: cells.counts, lambda cells: cells.positives)
    )
    squares = np.concatenate([cells.table.own_weights for cells in groups], axis=1)

    def over(values: Float64s) -> Float64s:
        return np.asarray(np.add.reduceat(values, first, axis=-1))

    rates, around, converged = _common_slope(x, counts, positives, over, sizes)
    influences = around * np.stack([-rates, 1 - rates])
    variances = over(squares.sum(axis=0) * around**2 * rates * (1 - rates))
    seen, information = over(np.sum(squares * influences**2, axis=0)), over(counts * around**2 * rates * (1 - rates))
    with np.errstate(invalid="ignore", divide="ignore"):
        misfit = steadied(
            seen / variances, float(seen.sum() / variances.sum()), np.array([rarer_rows(cells) for cells in groups])
        )
    return Deviations(
        scores=over(around * (positives - counts * rates)),
        variances=variances * misfit if converged else np.full(len(groups), math.nan),
        sensitivities=information,
        influences=np.split(influences, first[1:], axis=1),
    )


def _log_odds_of(table: ReliabilityTable) -> Float64s:
    return log_odds(np.clip(table.scores.astype(np.float64), CERTAIN, 1 - CERTAIN))


def _common_slope(
    x: Float64s, counts: Float64s, positives: Float64s, over: Callable[[Float64s], Float64s], sizes: NDArray[np.intp]
) -> tuple[Float64s, Float64s, bool]:
    """Return the fitted rates, x less the mean of its group, and whether Newton's method found the largest likelihood.

    The model has one slope and an intercept for each group; ``over`` sums over the cells of each group.
    """
    intercepts, slope = np.zeros(len(sizes)), 1.0
    for _ in range(_MOST_STEPS):
        rates = rates_at(np.repeat(intercepts, sizes), slope * x)
        weights, residuals = counts * rates * (1 - rates), positives - counts * rates
        masses = np.maximum(over(weights), np.finfo(float).tiny)
        means = over(weights * x) / masses
        around = x - np.repeat(means, sizes)
        information = float(np.sum(weights * around**2))
        if not information > 0:
            return rates, around, False
        step = float(np.clip(residuals @ around / information, -1.0, 1.0))
        moves = np.clip(over(residuals) / masses - step * means, -_LARGEST_STEP, _LARGEST_STEP)
        if max(step**2 * information, float(np.max(moves**2 * masses))) < _CLOSE:
            return rates, around, True
        intercepts, slope = intercepts + moves, slope + step
    return rates, around, False


_LEAST: Final = 1e-9  # share of the information that the other buckets have


def line_by_cluster(rows: Clustered) -> tuple[float, Variance | None]:
    """Return the slope with the variance of the sandwich I^-1 (sum_h u_h u_h') I^-1, corrected for few clusters.

    u_h are the sums of the scores of the likelihood, (1, logit p) times fitted rate - y, over the coarse cells of
    bucket h, and J_h its share of the information I, in the axes in which I is 1. Bell and McCaffrey (2002) multiply
    u_h by (1 - J_h)^(-1/2), because the fit follows a bucket of large J_h. What the slope then sums are g_h. Their
    expected squares, these as a share of the variance of the slope, and Satterthwaite's degrees of freedom follow from
    the covariance of g where the variance of u_h is (1 - rho) J_h + rho m_h m_h', m_h the sum of the roots of the
    information of rows: rows of a cluster are correlated by rho, which the squares of g_h show. Where that would steady
    the slope, rho is 0.
    """
    fit = cox_fit(rows.fine.table, CERTAIN)
    if not (math.isfinite(fit.slope) and math.isfinite(fit.intercept)):
        return fit.slope, None
    x = log_odds(np.clip(rows.cells.scores, CERTAIN, 1 - CERTAIN))
    rates = rates_at(fit.intercept, fit.slope * x)
    design, spread = np.stack([np.ones_like(x), x]), rates * (1 - rates)
    try:
        root = np.linalg.cholesky(np.linalg.inv((design * rows.cells.counts * spread) @ design.T))
    except np.linalg.LinAlgError:
        return fit.slope, None
    turned = root.T @ design
    shares = np.einsum("hk,ik,jk->hij", rows.n * spread, turned, turned)
    scores, roots = (rows.n * rates - rows.y) @ turned.T, (rows.n * np.sqrt(spread)) @ turned.T
    values, axes = np.linalg.eigh(np.eye(2) - shares)
    slopes = np.einsum("hij,hj,hkj,k->hi", axes, np.maximum(values, _LEAST) ** -0.5, axes, root[1])
    moved = np.einsum("hij,hj->hi", shares, slopes)
    own = float(np.sum((np.sum(slopes * scores, axis=1) - moved @ scores.sum(axis=0)) ** 2))

    def covariance(variances: Float64s) -> tuple[Float64s, float]:
        """Return the covariance of g and the variance of the slope, from the variances of the buckets' u."""
        whole = variances.sum(axis=0)
        seen = np.einsum("hi,hij->hj", slopes, variances)
        across = seen @ moved.T
        of_sums = np.diag(np.sum(seen * slopes, axis=1)) - across - across.T + moved @ whole @ moved.T
        return of_sums, float(root[1] @ whole @ root[1])

    alone, own_variance = covariance(rows.unit * shares)
    together, common_variance = covariance(np.einsum("hi,hj->hij", roots, roots))
    least, most = float(np.trace(alone)), float(np.trace(together))
    rho = min(max((own - least) / (most - least), 0.0), 1.0) if most > least else 0.0
    of_sums, variance = (1 - rho) * alone + rho * together, (1 - rho) * own_variance + rho * common_variance
    mean, square = float(np.trace(of_sums)), float(np.sum(of_sums**2))
    if not (mean > 0 and square > 0):
        return fit.slope, None
    return fit.slope, Variance(own * variance / mean, df=max(mean**2 / square, 1.0))
