"""Recalibration by logistic regression on the log-odds of the scores (Cox 1958): the fit, and how it varies.

The model: an outcome occurs with log-odds a + b logit(p). Calibrated scores have a = 0 and b = 1. With b < 1 the
scores are too extreme, with b > 1 not extreme enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.predictions import Notion
from calibrant.measures.binned.bin_sums import BinSums
from calibrant.measures.context import Inference
from calibrant.measures.event import Event
from calibrant.measures.measure import NOT_AN_ERROR, Details, Measure, Unavailable
from calibrant.measures.read_arguments import event_table
from calibrant.runtime.arrays import ArrayLike, Float64s
from calibrant.runtime.dataclass import dataclass
from calibrant.sketch import Arguments, Predicted
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import Clustered, Influence, rarer_rows
from calibrant.statistics.group_tests import Deviations, steadied
from calibrant.statistics.intervals import Variance, root
from calibrant.statistics.null import Interval
from calibrant.table import ReliabilityTable

_MOST_STEPS: Final = 200  # ordinary tables need 6; the worst of 12,000 contrived tables, with slopes of 1e15, needed 61
_HALVINGS: Final = 60  # after that, a step is below double precision
_FREE: Final = 10.0  # the log-odds that a step may add if the present ones are smaller
_CLOSE: Final = 1e-10
_NEAR: Final = 1e-4  # of their mean: log-odds that spread by less hardly vary
_ROUNDING: Final = 2.0**-52
_TINY: Final = 2.0**-1022
_LARGEST_STEP: Final = 4.0  # of the log-odds of groups
_STILL: Final = 1e-14  # of a squared step, in squared standard errors
_LEAST: Final = 1e-9  # share of the information that the other buckets have

#: Scores are moved in from 0 and 1 by this, because their log-odds are infinite.
CERTAIN: Final = 1e-6

#: How many standard errors the observed frequency falls as scores rise, for a finding.
FALLING: Final = 4.0


@dataclass(frozen=True, kw_only=True)
class CoxFit:
    """The fit of a + b logit(p) to the log-odds of the outcomes."""

    #: intercept, slope: a and b. If no finite pair is most likely (`separated`), the slope is the infinity it tends to
    #: and the intercept is NaN. With one distinct score, or outcomes of one kind only, both are undetermined and NaN.
    intercept: float
    slope: float
    log_likelihood: float  # the largest log likelihood of any a and b; its supremum if it is not attained
    calibrated_log_likelihood: float  # the log likelihood of a = 0 and b = 1, the unchanged scores
    free: int  # the number of parameters that the scores determine: 2, or 1 for one distinct score
    separated: bool  # whether a threshold on the score separates the outcomes: then the likelihood has no maximum
    #: origin, level: log-odds x0 of the scores and those of the outcomes there, a + b x0: 0 and the intercept; where
    #: the log-odds of the scores hardly vary, their mean, as there a and b x are large and cancel.
    origin: float = 0.0
    level: float = math.nan


def log_odds(scores: Float64s, eps: float | None = None) -> Float64s:
    """Return log(p / (1 - p)) of scores strictly between 0 and 1, or of scores that are moved into [eps, 1 - eps]."""
    p = scores if eps is None else np.clip(scores, eps, 1 - eps)
    return np.asarray(np.log(p) - np.log1p(-p))


def cox_fit(table: ReliabilityTable, eps: float | None = None) -> CoxFit:
    """Return the fit of outcomes to the log-odds of the scores; ``eps`` clips the scores to [eps, 1 - eps].

    Without ``eps`` the scores must lie strictly between 0 and 1. The code first decides whether a finite optimum exists
    (Albert and Anderson 1984). It does not exactly when the largest score of one outcome is at most the smallest
    score of the other.
    """
    x, positives, negatives = _columns(table, eps)
    issued = _log_likelihood(x, _small(x), positives, negatives)
    free = 1 if x[0] == x[-1] else 2
    fit = partial(CoxFit, calibrated_log_likelihood=issued, free=free)
    if not (positives.any() and negatives.any()):
        return fit(intercept=math.nan, slope=math.nan, log_likelihood=0.0, separated=True)
    if free == 1:
        likelihood = _entropy(positives.sum(), negatives.sum())
        return fit(intercept=math.nan, slope=math.nan, log_likelihood=likelihood, separated=False)
    x_positive, x_negative = x[positives > 0], x[negatives > 0]
    for slope, below, above in ((math.inf, x_negative, x_positive), (-math.inf, x_positive, x_negative)):
        if below[-1] <= above[0]:
            tied = (x == below[-1]) & (below[-1] == above[0])  # only these outcomes remain uncertain
            supremum = _entropy(positives[tied].sum(), negatives[tied].sum())
            return fit(intercept=math.nan, slope=slope, log_likelihood=supremum, separated=True)
    (a, b), (centre, scale), likelihood = _fit(x, positives, negatives, issued)
    intercept = float(a - b * centre / scale)
    near = scale < _NEAR * abs(centre)
    return fit(
        intercept=intercept,
        slope=float(b / scale),
        log_likelihood=likelihood,
        separated=False,
        origin=centre if near else 0.0,
        level=a if near else intercept,
    )


def in_the_large(table: ReliabilityTable, eps: float | None = None) -> float:
    """Return the intercept if the slope is fixed at 1; -inf or inf for outcomes of one kind only."""
    x, positives, negatives = _columns(table, eps)
    if not (positives.any() and negatives.any()):
        return math.inf if positives.any() else -math.inf
    return _intercept(x, positives, negatives)


def _columns(table: ReliabilityTable, eps: float | None) -> tuple[Float64s, Float64s, Float64s]:
    """Return the log-odds of the scores, the outcomes and the rows without outcome."""
    scores = table.scores.astype(np.float64)
    positives = table.positives.astype(np.float64)
    negatives = table.counts.astype(np.float64) - positives
    return log_odds(scores, eps), positives, negatives


def _small(log_odds: Float64s) -> Float64s:
    """Return exp(-|t|), which never overflows."""
    return np.exp(-np.abs(log_odds))


def _log_likelihood(log_odds: Float64s, small: Float64s, positives: Float64s, negatives: Float64s) -> float:
    """Return sum positives log s(t) + negatives log s(-t), s(t) = 1 / (1 + exp(-t)), with `_small` of t."""
    # log(1 + exp(t)) = max(t, 0) + log(1 + exp(-|t|)), and log(1 + exp(-t)) = max(-t, 0) + the same
    shared = np.log1p(small)
    larger = np.maximum(log_odds, 0.0)
    return -float(positives @ (larger - log_odds) + negatives @ larger + (positives + negatives) @ shared)


def _entropy(positives: float, negatives: float) -> float:
    """Return the log likelihood of outcomes with their rate as the score."""
    total = positives + negatives
    return float(sum(k * math.log(k / total) for k in (positives, negatives) if k > 0))


def _intercept(x: Float64s, positives: Float64s, negatives: Float64s) -> float:
    """Return a with sum s(a + x) = sum of outcomes: then the mean score equals the observed frequency.

    The left side increases in a. The root lies between the a for all scores equal to the largest and the a for all
    equal to the smallest; the bracket is wider by 1 because its ends are rounded.
    """

    def residual(a: float) -> float:
        up, down = _rates(a + x, _small(a + x))
        return float(np.sum(positives * down - negatives * up))

    middle = math.log(float(positives.sum() / negatives.sum()))
    return root(residual, middle - float(x[-1]) - 1, middle - float(x[0]) + 1, xtol=1e-15)


def _rates(log_odds: Float64s, small: Float64s) -> tuple[Float64s, Float64s]:
    """Return s(t) and 1 - s(t), both to full relative precision, with `_small` of t."""
    more = 1 / (1 + small)
    less = small * more
    above = log_odds >= 0
    return np.where(above, more, less), np.where(above, less, more)


def _fit(
    x: Float64s, positives: Float64s, negatives: Float64s, issued: float
) -> tuple[tuple[float, float], tuple[float, float], float]:
    """Return a and b of the standardised x, its mean and deviation, and the log likelihood, if the optimum is finite.

    By Newton's method. x is standardised to mean 0 and variance 1. The start is the observed frequency with slope 0,
    where the curvature is largest, or the unchanged scores if these are more likely (``issued``). The expected gain of
    a step is half the squared Newton decrement. A step at most doubles the log-odds: farther out the curvature may
    vanish. It is halved until the likelihood grows, unless its gain is below 1e-10 of the likelihood: then steps square
    the error, and rounding could hide the growth. When the gain is below the rounding of the likelihood, one last step
    makes the coefficients exact to rounding.
    """
    counts = positives + negatives
    total, positive = float(counts.sum()), float(positives.sum())
    centre = float(counts @ x) / total
    z = x - centre
    scale = math.sqrt(float(counts @ (z * z)) / total)
    z /= scale
    a, b, value = math.log(positive / float(negatives.sum())), 0.0, _entropy(positive, total - positive)
    if issued > value:
        a, b, value = centre, scale, issued
    t = a + b * z
    small = _small(t)
    for _ in range(_MOST_STEPS):
        up, down = _rates(t, small)
        residuals, weight = positives * down - negatives * up, counts * up * down
        mass, gradient = float(weight.sum()), float(residuals.sum())
        mean = float(weight @ z) / mass
        around = z - mean
        slope_gradient = float(residuals @ around)
        step_b = slope_gradient / float((weight * around) @ around)
        step = gradient / mass + step_b * around
        gain = (gradient * gradient / mass + slope_gradient * step_b) / 2
        farthest, part = float(np.abs(step).max(initial=_TINY)), 1.0
        if farthest > _FREE:
            part = min(1.0, max(_FREE, float(np.abs(t).max())) / farthest)
        for _ in range(_HALVINGS):
            moved = a + part * (gradient / mass - step_b * mean), b + part * step_b
            there = moved[0] + moved[1] * z
            small = _small(there)
            reached = _log_likelihood(there, small, positives, negatives)
            if reached > value or gain <= _CLOSE * abs(value):
                break
            part /= 2
        else:
            break
        (a, b), t, value = moved, there, reached
        if gain <= _ROUNDING * abs(value):
            break
    return (a, b), (centre, scale), value


class Line(NamedTuple):
    """The slope b of the log-odds line: 1 if the scores are calibrated, below 1 if they are too extreme.

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

    ``line`` is the line of all rows. If its interval is wider than for independent rows, the interval of the inner rows
    is wider by the same factor.
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
    """Return whether the observed frequency clearly falls as the mean scores of bins rise.

    The sum of w c (y - r), c the mean score of the bin around that of all rows and r the base rate, is then below -4
    standard errors, or Student's quantile with the same tail. Its variance is that of r (1 - r), as if scores told
    nothing of the outcomes.
    """
    from scipy.special import ndtr

    bins = sums.moments
    mean, rate = (float(np.sum(x)) / bins.total for x in (bins.score_sums, bins.counts * bins.rates))
    centred = bins.score_sums / bins.counts - mean
    together = float(np.sum(centred * (bins.counts * (bins.rates - rate))))
    variance = sums.outcomes(centred, rate)
    return together < -variance.half_width(1 - 2 * float(ndtr(-FALLING)))


def intercept_influence(cells: Cells) -> Influence | None:
    """Return the influence on the intercept at slope 1, (y - rate) / I, I the information; None for no finite one."""
    intercept = in_the_large(cells.table, CERTAIN)
    rates = rates_at(intercept, _log_odds_of(cells.table))
    information = float(cells.counts @ (rates * (1 - rates)))
    if not (math.isfinite(intercept) and information > 0):
        return None
    squares = cells.table.own_weights
    square = float(squares[0] @ rates**2 + squares[1] @ (1 - rates) ** 2) / information**2

    def by_bucket(rows: Clustered) -> Float64s:
        coarse = rates_at(intercept, log_odds(rows.cells.scores, CERTAIN))
        return np.asarray((rows.y - rows.n * coarse).sum(axis=1) / information)

    values = np.stack([-rates, 1 - rates]) / information
    return Influence(square=square, by_bucket=by_bucket, cells=cells, values=values)


def rates_at(intercept: float | Float64s, x: Float64s) -> Float64s:
    """Return the rates whose log-odds are the intercept and x."""
    return np.asarray(1 / (1 + np.exp(-np.clip(intercept + x, -700, 700))))


def compare_slopes(groups: Sequence[Cells]) -> Deviations:
    """Return the scores of the groups' slopes at one slope for all, each group with an intercept of its own.

    U = sum (x - m) (y - q) with x = logit p, the fitted rates q and m the mean of x by weights q (1 - q), so that the
    intercepts play no part. Its variance under the model is J = sum (x - m)^2 q (1 - q). It is multiplied by the ratio
    of sum (x - m)^2 (y - q)^2 to J, where the line does not fit. The ratio is a blend of the ratio of all groups and
    of the group, weighted by its events.
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
    observed, information = (
        over(np.sum(squares * influences**2, axis=0)),
        over(counts * around**2 * rates * (1 - rates)),
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        misfit = steadied(
            observed / variances,
            float(observed.sum() / variances.sum()),
            np.array([rarer_rows(cells) for cells in groups]),
        )
    return Deviations(
        scores=over(around * (positives - counts * rates)),
        variances=variances * misfit if converged else np.full(len(groups), math.nan),
        sensitivities=information,
        influences=np.split(influences, first[1:], axis=1),
    )


def _log_odds_of(table: ReliabilityTable) -> Float64s:
    return log_odds(table.scores.astype(np.float64), CERTAIN)


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
        if max(step**2 * information, float(np.max(moves**2 * masses))) < _STILL:
            return rates, around, True
        intercepts, slope = intercepts + moves, slope + step
    return rates, around, False


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
    x = log_odds(rows.cells.scores, CERTAIN)
    rates = rates_at(fit.intercept, fit.slope * x)
    design, spread = np.stack([np.ones_like(x), x]), rates * (1 - rates)
    try:
        factor = np.linalg.cholesky(np.linalg.inv((design * rows.cells.counts * spread) @ design.T))
    except np.linalg.LinAlgError:
        return fit.slope, None
    turned = factor.T @ design
    shares = np.einsum("hk,ik,jk->hij", rows.n * spread, turned, turned)
    scores, roots = (rows.n * rates - rows.y) @ turned.T, (rows.n * np.sqrt(spread)) @ turned.T
    values, axes = np.linalg.eigh(np.eye(2) - shares)
    slopes = np.einsum("hij,hj,hkj,k->hi", axes, np.maximum(values, _LEAST) ** -0.5, axes, factor[1])
    moved = np.einsum("hij,hj->hi", shares, slopes)
    observed = float(np.sum((np.sum(slopes * scores, axis=1) - moved @ scores.sum(axis=0)) ** 2))

    def covariance(variances: Float64s) -> tuple[Float64s, float]:
        """Return the covariance of g and the variance of the slope, from the variances of the buckets' u."""
        of_all = variances.sum(axis=0)
        each = np.einsum("hi,hij->hj", slopes, variances)
        across = each @ moved.T
        of_sums = np.diag(np.sum(each * slopes, axis=1)) - across - across.T + moved @ of_all @ moved.T
        return of_sums, float(factor[1] @ of_all @ factor[1])

    alone, alone_variance = covariance(rows.unit * shares)
    together, together_variance = covariance(np.einsum("hi,hj->hij", roots, roots))
    least, most = float(np.trace(alone)), float(np.trace(together))
    rho = min(max((observed - least) / (most - least), 0.0), 1.0) if most > least else 0.0
    of_sums, variance = (1 - rho) * alone + rho * together, (1 - rho) * alone_variance + rho * together_variance
    mean, square = float(np.trace(of_sums)), float(np.sum(of_sums**2))
    if not (mean > 0 and square > 0):
        return fit.slope, None
    return fit.slope, Variance(observed * variance / mean, df=max(mean**2 / square, 1.0))


_METHOD: Final = "normal, by the sandwich formula"
_NO_MEAN: Final = "a mean over classes does not describe any class; evaluate one class at a time"
_ONE_KIND: Final = "all outcomes are equal"


def calibration_intercept(
    probs: Predicted,
    targets: ArrayLike | None = None,
    *,
    notion: Notion | None = None,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the calibration intercept a (calibration in the large) of logistic recalibration with slope 1.

    .. math:: \operatorname{logit} P(y = 1) = a + \operatorname{logit} p

    a is 0 if events occur as often as the scores say, above 0 if more often. In log-odds; -inf or inf if all outcomes
    are equal. Scores within 1e-6 of 0 and 1 count as 1e-6 and 1 - 1e-6: the log-odds of 0 and 1 are infinite. Ties and
    the order of the rows play no part; weights are frequencies. A table on a grid is fitted at the cells' mean scores.
    Parameters, errors and cost are those of `expected_calibration_error`, for one evaluated event.

    References
    ----------
    Cox (1958), doi 10.1093/biomet/45.3-4.562. Van Calster et al. (2019), doi 10.1186/s12916-019-1466-7.

    Examples
    --------
    >>> import calibrant
    >>> probs, targets = [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9], [0, 1, 0, 1, 1, 0, 1, 1]
    >>> round(calibrant.calibration_intercept(probs, targets), 4)
    0.7245
    """
    arguments = Arguments(probs, targets, notion, weights, ignore_index, logits)
    return in_the_large(event_table(arguments, "the calibration intercept"), CERTAIN)


def calibration_slope(
    probs: Predicted,
    targets: ArrayLike | None = None,
    *,
    notion: Notion | None = None,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the calibration slope b of logistic recalibration.

    .. math:: \operatorname{logit} P(y = 1) = a + b \operatorname{logit} p

    b is 1 if the scores are calibrated, below 1 if they are too extreme, as those of overfitted models are, and
    above 1 if they are not extreme enough. NaN with one distinct score or if all outcomes are equal; infinite if a
    threshold on the score separates the outcomes. Scores within 1e-6 of 0 and 1 count as 1e-6 and 1 - 1e-6. The rest
    is as in `calibration_intercept`.

    References
    ----------
    Cox (1958), doi 10.1093/biomet/45.3-4.562. Van Calster et al. (2019), doi 10.1186/s12916-019-1466-7.

    Examples
    --------
    >>> import calibrant
    >>> probs, targets = [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9], [0, 1, 0, 1, 1, 0, 1, 1]
    >>> round(calibrant.calibration_slope(probs, targets), 4)
    0.7002
    """
    arguments = Arguments(probs, targets, notion, weights, ignore_index, logits)
    return cox_fit(event_table(arguments, "the calibration slope"), CERTAIN).slope


def _fitted(event: Event) -> ReliabilityTable:
    """Return the cells that a report fits: all distinct scores, or those of the standard grid where these are fewer."""
    return event.cells.table


def _details(event: Event) -> dict[str, Any]:
    """Return how many scores count as 1e-6 or 1 - 1e-6, and the cells of the fit where scores were pooled."""
    table, facts = event.table, {}
    moved = float(table.counts[(table.scores < CERTAIN) | (table.scores > 1 - CERTAIN)].sum())
    if moved:
        facts["moved_from_the_ends"] = moved
    if _fitted(event) is not table:
        facts["fitted_cells"] = len(_fitted(event))
    return facts


def _intercept_details(event: Event) -> Details:
    finite = math.isfinite(event.value(CALIBRATION_INTERCEPT))
    return _details(event) if finite else {**_details(event), "reason": _ONE_KIND}


def _slope_details(event: Event) -> Details:
    value = event.value(CALIBRATION_SLOPE)
    if math.isfinite(value):
        return _details(event)
    one_kind = event.outcome_rate in (0, 1)
    unspread = _ONE_KIND if one_kind else "there is one distinct score"
    reason = "a threshold on the score perfectly separates events from non-events" if math.isinf(value) else unspread
    return {**_details(event), "reason": reason}


def line_of(inference: Inference) -> Line:
    """Return the slope of the log-odds line with the ends of its interval."""
    design = inference.design
    fitted = line_by_cluster(design) if isinstance(design, Clustered) else log_odds_line(design.cells)
    return Line.of(*fitted, inference.level)


CALIBRATION_INTERCEPT: Measure = Measure(
    name="calibration_intercept",
    label="calibration intercept",
    meaning="Calibration in the large on the log-odds scale. The ideal value is 0. Above 0, the event is "
    "underestimated.",
    misleads="Positive and negative differences cancel.",
    computed="The calibration intercept is the intercept of a logistic regression of the outcomes with the log-odds of "
    "the scores as an offset",
    sources=("Cox 1958", "Van Calster et al. 2019"),
    value=lambda event: in_the_large(_fitted(event), CERTAIN),
    scale="ratio",
    better="neither",
    signed=True,
    profiles=frozenset({"clinical"}),
    details=_intercept_details,
    interval=lambda inference: inference.interval_by_variance(CALIBRATION_INTERCEPT)._replace(method=_METHOD),
    influence=lambda event: intercept_influence(event.design.fine),
    null=NOT_AN_ERROR,
    over_classes=Unavailable(_NO_MEAN),
    functions=(calibration_intercept,),
)

CALIBRATION_SLOPE = Measure(
    name="calibration_slope",
    label="calibration slope",
    meaning="The slope of a logistic regression of the outcomes on the log-odds of the scores. The ideal "
    "value is 1. Below 1, predictions are too extreme.",
    misleads="A slope of 1 can hide a curved relationship.",
    computed="The calibration slope is the slope of a logistic regression of the outcomes on the log-odds of the "
    "scores",
    sources=("Cox 1958", "Van Calster et al. 2019"),
    value=lambda event: cox_fit(_fitted(event), CERTAIN).slope,
    scale="ratio",
    better="neither",
    profiles=frozenset({"standard", "clinical"}),
    details=_slope_details,
    interval=lambda inference: Interval(inference.of(line_of).low, inference.of(line_of).high, _METHOD),
    influence=lambda event: slope_influence(event.design.fine),
    null=NOT_AN_ERROR,
    over_classes=Unavailable(_NO_MEAN),
    origin=1.0,
    compare_groups=compare_slopes,
    functions=(calibration_slope,),
)
