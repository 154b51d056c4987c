"""The Kolmogorov-Smirnov and Kuiper calibration errors: sizes of cumulative residuals, without bins."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from calibrant.inputs.predictions import Notion
from calibrant.measures.context import Inference, Replicates
from calibrant.measures.event import Event, certified
from calibrant.measures.means.in_the_large import largest_gap
from calibrant.measures.measure import Details, Measure, Null, Unavailable
from calibrant.measures.read_arguments import event_table
from calibrant.results import Floor
from calibrant.runtime.arrays import ArrayLike, Float64s
from calibrant.sketch import Arguments, Predicted
from calibrant.statistics.buckets import centred, variance_of
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import Clustered
from calibrant.statistics.intervals import PRIOR_ROWS, root
from calibrant.statistics.null import Interval, Law
from calibrant.statistics.resampling import Resampling, Stream, normal_quantile, t_quantile
from calibrant.table import GridCells, ReliabilityTable

_ROUNDING: Final = 1e-12  # relative: smaller sums of squares around a mean are rounding


class CumulativeStatistic(NamedTuple):
    """A statistic of cumulative residuals, which approach a Brownian motion W on [0, 1] under calibration."""

    name: str
    limit: str  # the statistic of W, in words
    size: Callable[[Float64s], Float64s]  # the statistic of cumulative sums, along the last axis
    mean: float  # that of the statistic of W
    sf: Callable[[float], float]  # the probability that the statistic of W is above a number
    bracket: tuple[float, float]  # numbers between which the quantiles of the statistic of W are

    def quantile(self, p: float) -> float:
        """Return the x that the statistic of W is at most with probability p."""
        return root(lambda x: 1 - self.sf(x) - p, *self.bracket, xtol=1e-10)

    def error(self, table: ReliabilityTable) -> float:
        """Return the statistic of the residuals of a table, divided by N. The order of ties plays no part."""
        return float(self.size(np.cumsum(table.residuals) / table.total))

    def replicate(self, replicates: Replicates) -> Float64s:
        """Return the error on each simulated data set, (B,)."""
        return np.asarray(self.size(np.cumsum(replicates.gap_sums, axis=-1)) / replicates.inference.cells.total)

    def law(self, inference: Inference) -> Law | None:
        """Return the null distribution without resampling; clusters have none."""
        if isinstance(inference.design, Clustered):
            return None
        cells = inference.cells
        value = float(self.size(np.cumsum(cells.gap_sums))) / cells.total
        sd = math.sqrt(float(cells.null_variances.sum())) / cells.total
        if sd == 0:
            return Law(Floor(0.0, 0.0), float(value <= 0))
        return Law(Floor(self.mean * sd, self.quantile(inference.level) * sd), self.sf(value / sd))


def largest(cumulated: Float64s) -> Float64s:
    """Return the largest absolute value of cumulative sums along the last axis."""
    return np.asarray(np.abs(cumulated).max(axis=-1))


def ks_bound(cells: GridCells) -> float:
    """Bound the error of max |C|: within a cell C rises by at most n1 - S1 and falls by at most S0."""
    sums = np.cumsum(cells.table.residuals)
    before = sums - cells.table.residuals
    inside = np.maximum(np.abs(before + cells.n1 - cells.s1), np.abs(before - cells.s0))[cells.several]
    most = float(inside.max(initial=0.0)) / cells.table.total
    return max(most - LARGEST.error(cells.table), 0.0) + cells.rounding


def brownian_sf(x: float) -> float:
    """Return P(sup |W| > x) for a Brownian motion W on [0, 1].

    The distribution function is 4 / pi sum_k (-1)^k / (2 k + 1) exp(-(2 k + 1)^2 pi^2 / (8 x^2)); for large x the
    complement 2 sum_k (-1)^k 2 (1 - Phi((2 k + 1) x)), by reflections, keeps its digits.
    """
    from scipy.special import ndtr

    if x < 0.1:  # where the first term is 4 / pi exp(-123)
        return 1.0
    if x > 1:
        odd = 2 * np.arange(20) + 1
        return float(min(1.0, 4 * np.sum((-1.0) ** np.arange(20) * ndtr(-odd * x))))
    odd = 2 * np.arange(50) + 1
    terms = (-1.0) ** np.arange(50) / odd * np.exp(-((odd * math.pi / x) ** 2) / 8)
    return float(1 - 4 / math.pi * np.sum(terms))


#: max |C_k|, C_k the sum of outcome - score up to the k-th distinct score over N (Gupta et al. 2021).
LARGEST: Final = CumulativeStatistic(
    name="largest cumulative residual",
    limit="supremum of |Brownian motion|",
    size=largest,
    mean=math.sqrt(math.pi / 2),
    sf=brownian_sf,
    bracket=(1e-2, 12.0),
)


def interval(cells: Cells, value: float, level: float) -> tuple[float, float]:
    """Return the interval of max |C_k|, C_k the cumulative sums of residuals over N.

    high = max_k (|C_k| + z s_k), s_k^2 = (sum_{<= k} r^2 / N - C_k^2) / N. Where T is within the quantile q of max |W|,
    W Brownian partial sums with the residuals' variances, low = 0; else low = T - q', q' the quantile of the largest
    sign(C_k) W_k over the scores at which |C_k| >= T - q: by the reflection principle where all have one sign.
    """
    from scipy.special import ndtri

    tail = (1 - level) / 2
    z = float(ndtri(1 - tail))
    sums = -np.cumsum(cells.gap_sums) / cells.total
    squares = np.cumsum(cells.squared_residuals) / cells.total**2
    around = sums * (2 * np.cumsum(cells.squared_gaps) + sums * cells.square_weights.sum()) / cells.total**2
    spread = np.sqrt(np.maximum(squares + around, 0.0))
    high = float(np.max(np.abs(sums) + z * spread))
    quantile = math.sqrt(squares[-1]) * LARGEST.quantile(1 - tail)
    if value <= quantile:
        return 0.0, max(high, value)
    near = np.flatnonzero(np.abs(sums) >= value - quantile)
    if len({float(sign) for sign in np.sign(sums[near])}) == 1:
        quantile = math.sqrt(squares[near[-1]]) * float(ndtri(1 - tail / 2))
    return max(value - quantile, 0.0), max(high, value)


def interval_by_cluster(rows: Clustered, value: float, resampling: Resampling) -> tuple[float, float]:
    """Return the interval of max |C_k|, C_k the cumulative sums of residuals up to coarse cell k over N.

    u_hk are the cumulative sums of bucket h less N_h C_k. high = max_k (|C_k| + t s_k), s_k the standard deviation of
    C_k: that of independent rows, blended by clusters, times the root of the design effect that u_hk shows. With T
    within the quantile q of max |sum_h Z_h u_hk|, Z_h standard normal, low = 0; else low = T - q', q' the quantile of
    the largest sign(C_k) sum_h Z_h u_hk over the scores at which |C_k| >= T - q. The quantiles are widened by
    t / z sqrt(H / (H - 1)). Without resampling low is 0.
    """
    upto = np.cumsum(rows.gaps, axis=1)
    sums, around, buckets = upto.sum(axis=0), centred(upto, rows.weights), len(rows.sizes)
    independent, blended = _row_squares(rows)
    largest = int(np.argmax(np.abs(sums)))
    of_largest = variance_of(around[:, largest], float(independent[largest]), rows.sizes)
    t = t_quantile(resampling.level, of_largest.df)
    observed = np.sum(around**2, axis=0) * buckets / (buckets - 1)
    varied = independent > 0
    variances = np.where(varied, blended * observed / np.where(varied, independent, 1.0), 0.0)
    high = max(float(np.max(np.abs(sums) + t * np.sqrt(variances))) / rows.total, value)
    if not resampling.n_resamples:
        return 0.0, high
    factor = t / normal_quantile(resampling.level) * math.sqrt(buckets / (buckets - 1)) / rows.total
    return _low(around * factor, sums / rows.total, value, resampling), high


def _row_squares(rows: Clustered) -> tuple[Float64s, Float64s]:
    """Return the sums over rows up to each coarse cell of (r - C)^2, and the same with blended variances; not negative.

    The first is 0 where only rounding is left.
    """
    cells, k, total = rows.cells, rows.units, rows.unit * rows.total
    mean = np.cumsum(cells.gap_sums) / rows.total
    squares, null = np.cumsum(cells.squared_residuals), np.cumsum(cells.null_variances)
    centre = mean * (2 * np.cumsum(cells.squared_gaps) - mean * total)
    observed = np.where(squares - centre > _ROUNDING * squares, squares - centre, 0.0)
    return observed, np.maximum((k * squares + PRIOR_ROWS * null) / (k + PRIOR_ROWS) - centre, 0.0)


def _low(around: Float64s, sums: Float64s, value: float, resampling: Resampling) -> float:
    """Return the lower end from the deviations of the buckets, (H, K), and the cumulative sums, (K,)."""

    def quantile(columns: Float64s, *, both: bool) -> float:
        def block(rng: np.random.Generator, size: int) -> Float64s:
            drawn = rng.standard_normal((size, len(columns))) @ columns
            return np.asarray((np.abs(drawn) if both else drawn).max(axis=1))

        return float(np.quantile(resampling.draws(Stream.BOOTSTRAP, block), 1 - resampling.tail))

    most = quantile(around, both=True)
    if value <= most:
        return 0.0
    near = np.abs(sums) >= min(value - most, float(np.abs(sums).max()))
    return max(value - max(quantile(around[:, near] * np.sign(sums[near]), both=False), 0.0), 0.0)


def _interval(inference: Inference) -> Interval:
    design, value = inference.design, inference.event.value(KS)
    if isinstance(design, Clustered):
        ends = interval_by_cluster(design, value, inference.resampling)
    else:
        ends = interval(design.cells, value, inference.level)
    low = ends[0] if inference.rejects(KS) else 0.0  # outcomes that vary less than under calibration narrow the bounds
    return Interval(low, ends[1], "Brownian bounds")


KS = Measure(
    name="ks",
    label="KS error",
    meaning="The largest absolute cumulative sum of prediction minus outcome over rows sorted by score, divided by the "
    "number of rows.",
    misleads="Errors cancel if their signs alternate as the score increases.",
    computed="The KS error is the largest absolute cumulative sum of prediction minus outcome over rows sorted by "
    "score, divided by the number of rows",
    sources=("Gupta et al. 2021",),
    value=lambda event: LARGEST.error(event.table),
    bound=certified(lambda cells, _: ks_bound(cells)),
    interval=_interval,
    implied=largest_gap,
    null=Null(replicate=LARGEST.replicate, closed_form=LARGEST.law),
)


def kuiper_calibration_error(
    probs: Predicted,
    targets: ArrayLike | None = None,
    *,
    notion: Notion | None = None,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return Kuiper's calibration error: the range of the cumulative residuals, without bins.

    .. math:: \max_k C_k - \min_k C_k, \qquad C_k = \frac1N \sum_{p_i \le s_k} (y_i - p_i),\quad C_0 = 0

    It is the largest sum of outcome - score over any interval of scores, as a share of all rows: in [0, 1], lower is
    better, and never below the KS error. Ties are pooled, so that the order of the rows plays no part; weights are
    frequencies. Acting on the scores at a threshold t gives away at most this error / (1 - t) of net benefit.
    Parameters, errors and cost are those of `expected_calibration_error`, for one evaluated event. Its test is
    `calibrant.inference.kuiper_test`.

    References
    ----------
    Arrieta-Ibarra et al. (2022), arXiv 2205.09680 (there ECCE-R).

    Examples
    --------
    >>> import calibrant
    >>> probs, targets = [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9], [0, 1, 0, 1, 1, 1, 1, 1]
    >>> round(calibrant.kuiper_calibration_error(probs, targets), 4)
    0.2625
    """
    arguments = Arguments(probs, targets, notion, weights, ignore_index, logits)
    return RANGE.error(event_table(arguments, "Kuiper's error"))


def cutoff_calibration_error(
    probs: Predicted,
    targets: ArrayLike | None = None,
    *,
    notion: Notion | None = None,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the cutoff calibration error, which is Kuiper's calibration error.

    .. math:: \sup_I \Bigl|\frac1N \sum_i (y_i - p_i)\,[p_i \in I]\Bigr| = \max_k C_k - \min_k C_k

    over all intervals I of scores, with the cumulative residuals C of `kuiper_calibration_error`: both are the same
    number. Parameters and errors are those of `kuiper_calibration_error`.

    References
    ----------
    Rossellini, Soloff, Barber, Ren, Willett (2025), arXiv 2502.19851.

    Examples
    --------
    >>> import calibrant
    >>> probs, targets = [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9], [0, 1, 0, 1, 1, 1, 1, 1]
    >>> round(calibrant.cutoff_calibration_error(probs, targets), 4)
    0.2625
    """
    return kuiper_calibration_error(
        probs, targets, notion=notion, weights=weights, ignore_index=ignore_index, logits=logits
    )


def cumulated_range(cumulated: Float64s) -> Float64s:
    """Return the range of cumulative sums along the last axis, from 0 at the start."""
    return np.asarray(np.maximum(cumulated.max(axis=-1), 0.0) - np.minimum(cumulated.min(axis=-1), 0.0))


def kuiper_bound(cells: GridCells) -> float:
    """Bound by how much the range of C is larger than that of the cells, which it is never below: as `ks_bound`."""
    sums = np.cumsum(cells.table.residuals)
    before = sums - cells.table.residuals
    most = np.where(cells.several, before + cells.n1 - cells.s1, sums)
    least = np.where(cells.several, before - cells.s0, sums)
    widest = max(float(sums.max()), float(most.max()), 0.0) - min(float(sums.min()), float(least.min()), 0.0)
    return max(widest / cells.table.total - RANGE.error(cells.table), 0.0) + cells.rounding


def brownian_range_sf(x: float) -> float:
    """Return P(max W - min W > x) for a Brownian motion W on [0, 1].

    Feller (1951): the density is 8 sum_k (-1)^(k + 1) k^2 phi(k x), so the tail is 8 sum_k (-1)^(k + 1) k Phi(-k x).
    This keeps its digits for large x. For small x, Poisson's summation gives the distribution function:
    8 sum_k (1 / x^2 + 1 / a_k^2) exp(-a_k^2 / (2 x^2)) with a_k = (2 k + 1) pi.
    """
    from scipy.special import ndtr

    if x < 0.1:  # the distribution function is below 1e-200
        return 1.0
    if x > 1.5:
        k = np.arange(1, 20)
        return float(8 * np.sum((-1.0) ** (k + 1) * k * ndtr(-k * x)))
    squares = (math.pi * (2 * np.arange(10) + 1)) ** 2
    return float(1 - 8 * np.sum((1 / x**2 + 1 / squares) * np.exp(-squares / (2 * x**2))))


#: The range of the cumulative residuals, from 0 at the start (Arrieta-Ibarra et al. 2022, ECCE-R).
RANGE: Final = CumulativeStatistic(
    name="range of the cumulative residuals",
    limit="range of Brownian motion",
    size=cumulated_range,
    mean=2 * math.sqrt(2 / math.pi),
    sf=brownian_range_sf,
    bracket=(0.1, 16.0),
)


def _details(event: Event) -> Details:
    """Return the error in standard deviations of the sum of all residuals under calibration."""
    deviation = math.sqrt(float(event.cells.null_variances.sum())) / event.table.total
    return {"standardised": event.value(KUIPER) / deviation} if deviation > 0 else {}


KUIPER = Measure(
    name="kuiper",
    label="Kuiper error",
    meaning="The range of the cumulative sum of prediction minus outcome over rows sorted by score, divided by the "
    "number of rows.",
    misleads="Errors cancel if their signs alternate as the score increases.",
    computed="The Kuiper error is the range of the cumulative sum of prediction minus outcome over rows sorted by "
    "score, divided by the number of rows",
    sources=("Arrieta-Ibarra et al. 2022",),
    value=lambda event: RANGE.error(event.table),
    profiles=frozenset({"forecast"}),
    details=_details,
    bound=certified(lambda cells, _: kuiper_bound(cells)),
    interval=Unavailable("no interval: no method is known for the range; the KS error has an interval"),
    null=Null(replicate=RANGE.replicate, closed_form=RANGE.law),
    functions=(kuiper_calibration_error, cutoff_calibration_error),
)
