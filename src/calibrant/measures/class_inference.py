"""The interval and the noise floor of the classwise error, from the histograms of the classes.

The l1 formulas over classes x bins. The bins of several classes share their rows; the covariance of the classes'
outcomes (multinomial) is below twice its diagonal. Where rows are at hand they tell how much sums over classes vary,
else variances are doubled. Within a bin scores are taken to be equal: V0 = n P (1 - P) is then not below the sum of
p (1 - p).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from calibrant.clusters import BucketSums, aligned
from calibrant.errors import InputError
from calibrant.inputs.weights import effective_n, rate_rows
from calibrant.measures.binned.clustered import ClusterBins
from calibrant.measures.binned.intervals import absolute_interval, rate_intervals
from calibrant.measures.binned.null import absolute_law
from calibrant.measures.binned.sums import BinMoments, RowBins
from calibrant.measures.simulated import ClusterNull
from calibrant.measures.verdict import Verdict, closed_form, count_p_value, of_classes
from calibrant.results import ClasswiseCalibration, Estimate, Floor
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import cached_property
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.cells import Cells
from calibrant.statistics.class_rows import ClassRows
from calibrant.statistics.cluster_sums import by_content
from calibrant.statistics.design import Clustered, Independent
from calibrant.statistics.groups import LEAST_VARIANCE, GroupTest, holm
from calibrant.statistics.intervals import clopper_pearson
from calibrant.statistics.null import Interval, Law, floor_of, p_value
from calibrant.statistics.outcomes import Outcomes
from calibrant.statistics.resampling import Resampling, Stream, in_blocks
from calibrant.statistics.variance import Variance
from calibrant.table import ReliabilityTable

DEPENDENCE: Final = 2.0
_MOST_DRAWN: Final = 4_000  # bins: the sum over more is normal


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassSums(RowBins):
    """The bins of all classes, whose rows are the same.

    ``n_bins`` counts the bins of all classes, empty ones too. ``rows`` tell how much sums over classes vary, if they
    are at hand; ``null_dependence`` is `dependence` under calibration.
    """

    n_bins: int
    null_dependence: float
    rows: ClassRows | None

    def linear(self, slopes: Sequence[Float64s]) -> list[Variance]:
        """Return the variance of sum f S for each f: by rows, and what calibration implies beyond them."""
        bins, rows = self.moments, self.rows
        if rows is None:
            return super().linear(slopes)
        every = np.zeros((len(slopes), self.n_bins))
        every[:, bins.index] = slopes
        unseen = np.maximum(self.variances - bins.squared_residuals, 0.0)
        seen = rows.variances(every).tolist()
        return [Variance(own + float(np.sum(f**2 * unseen))) for own, f in zip(seen, slopes, strict=True)]

    def squares(self, x: Float64s) -> float:
        """Return the sum of squares, times the dependence under calibration."""
        return self.null_dependence * float(np.sum(x**2))


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassBins:
    """The bins of every class, for the law and the interval of the mean of the classes' l1 errors.

    Attributes
    ----------
    histograms : (3, bins, classes)
        The counts, sums of scores and outcomes in each bin of each class.
    squares : (3, bins, classes) or None
        The same sums with squared weights; None if weights are whole.
    effective_n : float
        The effective sample size of the judged rows.
    dependence : float
        How many times the variance of a sum over classes may exceed the variance if classes were independent.
    rows : ClassRows or None
        The rows themselves, if they are at hand: they tell how classes depend on each other.
    """

    histograms: Float64s
    effective_n: float
    squares: Float64s | None = None
    dependence: float = DEPENDENCE
    rows: ClassRows | None = None

    @property
    def noise(self) -> float:
        """How many times the variance under calibration exceeds the variance if classes were independent, at most."""
        return self.dependence if self.rows is None else self.rows.dependence

    def interval(self, value: float, resampling: Resampling, *, rejected: bool) -> Interval:
        """Return the interval of the mean of the classes' errors."""
        ends = absolute_interval(self.sums, value, resampling.level, rejected=rejected)
        doubled = f", variances times {self.dependence:g}" if self.rows is None else ""
        return Interval(*ends, f"Gaussian thinning over classes and bins{doubled}")

    @cached_property
    def sums(self) -> RowBins:
        """The sums over the filled bins of all classes, and how they vary."""
        return ClassSums(
            moments=self.moments,
            n_bins=self.histograms[0].size,
            dependence=self.dependence,
            null_dependence=self.noise,
            rows=self.rows,
        )

    def law(self, value: float, resampling: Resampling) -> Law:
        """Return floor and p-value, deviations from the mean widened for the classes' common rows."""
        bins, closed_form = self.moments, self._closed_form(value, resampling.level)
        if not resampling.n_resamples or len(bins.rows) > _MOST_DRAWN:
            return closed_form
        rates = np.clip(bins.score_sums / bins.counts, 0.0, 1.0)
        calibrated = Outcomes(bins.counts, bins.square_weights, rates)

        def block(rng: np.random.Generator, size: int) -> Float64s:
            return self.sums.absolute(bins.score_sums - calibrated.draw(rng, size))

        n_resamples, seed, size = resampling.n_resamples, resampling.seed, len(bins.rows)
        drawn = np.concatenate(list(in_blocks(n_resamples, seed, Stream.CLASSES, block, cells=size)))
        widened = drawn.mean() + math.sqrt(self.noise) * (drawn - drawn.mean())
        floor = floor_of(np.maximum(widened, 0.0), resampling.level)
        limits = resampling.limits(closed_form.p_value)
        return Law(floor, p_value(widened, value), resampling.source, limits)

    def tested(self, estimate: Estimate, resampling: Resampling) -> GroupTest:
        """Return the test by the mean of the classes' errors, and a way to a finer p-value."""
        variance = float(self.moments.null_variances.sum())

        def redrawn(n_resamples: int) -> float:
            return self.law(estimate.value, replace(resampling, n_resamples=n_resamples)).p_value

        return GroupTest(test=of_classes(estimate), variance=variance, redrawn=redrawn, exact=lambda: math.nan)

    @cached_property
    def moments(self) -> BinMoments:
        """The sums over the filled bins of all classes."""
        masses = self.histograms[0].sum(axis=0)
        weight = float(masses.max())
        # The error of a class is over its own rows: if a label is judged on fewer rows, each of its rows weighs more.
        shares = np.divide(weight, masses, out=np.zeros_like(masses), where=masses > 0)
        index = np.flatnonzero(self.histograms[0].T.reshape(-1) > 0)
        share = np.repeat(shares, self.histograms.shape[1])[index]
        counts, scores, positives = (part.T.reshape(-1)[index] * share for part in self.histograms)
        squares = self.histograms if self.squares is None else self.squares
        square_weights, square_scores, square_positives = (part.T.reshape(-1)[index] * share**2 for part in squares)
        means = np.clip(scores / counts, 0.0, 1.0)
        return BinMoments(
            index=index,
            first=np.arange(len(index)),
            rows=effective_n(counts, square_weights),
            counts=counts,
            score_sums=scores,
            gap_sums=scores - positives,
            squared_residuals=square_weights * means**2 + square_positives * (1 - 2 * means),
            null_variances=square_weights * means * (1 - means),
            square_weights=square_weights,
            squared_gaps=square_scores - square_positives,
            squared_positives=square_positives,
            total=int(np.count_nonzero(masses)) * weight,
            weight=weight,
            effective_n=self.effective_n,
        )

    def _closed_form(self, value: float, level: float) -> Law:
        bins = self.moments
        trials = np.maximum(np.rint(bins.rows), 1)
        rates, units = np.clip(bins.score_sums / bins.counts, 0.0, 1.0), np.sqrt(bins.square_weights / trials)
        return exact_absolute_law(trials, rates, units, bins.total, value, level, dependence=self.noise)


def exact_absolute_law(
    counts: Float64s,
    rates: Float64s,
    units: Float64s,
    total: float,
    value: float,
    level: float,
    *,
    dependence: float = 1.0,
) -> Law:
    """Return floor and p-value of the l1 error of many bins, each a binomial count of rows of some weight.

    E |k - n p| = 2 (m + 1) C(n, m + 1) p^(m + 1) (1 - p)^(n - m) with m = floor(n p) (de Moivre).
    """
    from scipy.special import gammaln, xlog1py, xlogy

    n, p = np.rint(counts), np.clip(rates, 0.0, 1.0)
    m = np.minimum(np.floor(n * p), np.maximum(n - 1, 0))
    logs = gammaln(n + 1) - gammaln(m + 1) - gammaln(n - m) + xlogy(m + 1, p) + xlog1py(n - m, -p)
    deviations = np.where(n > 0, 2 * np.exp(logs), 0.0)
    squares = np.maximum(n * p * (1 - p) - deviations**2, 0.0)
    sd = math.sqrt(dependence * float(np.sum(units**2 * squares))) / total
    return _normal_law(float(np.sum(units * deviations)) / total, sd, value, level)


def _normal_law(mean: float, sd: float, value: float, level: float) -> Law:
    from scipy.special import ndtr, ndtri

    if sd == 0:
        return Law(Floor(mean, mean), float(value <= mean))
    return Law(Floor(mean, mean + float(ndtri(level)) * sd), float(ndtr((mean - value) / sd)))


def inferred(
    result: ClasswiseCalibration, squares: Float64s | None, resampling: Resampling | None
) -> ClasswiseCalibration:
    """Return the same with Clopper-Pearson intervals of the bins' outcome rates, and with a test of each class.

    ``squares`` are as in `ClassBins`. The tests are in closed form: the verdict on the bins of the class, their scores
    taken as equal; where few outcomes are expected, the exact law of their number.
    """
    if resampling is None:
        return result
    filled = result.counts > 0
    counts, rates = result.counts[filled], result.accuracies[filled]
    kinds = np.stack([counts * (1 - rates), counts * rates])
    if squares is not None:
        weights, positives = squares[0].T[filled], squares[2].T[filled]
        kinds = np.stack([weights - positives, positives])
    trials = rate_rows(rates, counts, kinds)
    low, high = np.full((2, *filled.shape), math.nan)
    low[filled], high[filled] = clopper_pearson(rates * trials, trials, resampling.tail)
    ends = np.cumsum(np.count_nonzero(filled, axis=1))[:-1]
    columns = (np.split(x, ends, axis=-1) for x in (result.confidences[filled], counts, rates, kinds))
    p_values = np.array([_class_p_value(*column, whole=squares is None) for column in zip(*columns, strict=True)])
    return with_tests(replace(result, lows=low, highs=high, level=resampling.level), p_values)


def with_tests(result: ClasswiseCalibration, p_values: Float64s) -> ClasswiseCalibration:
    """Return the same with the p-value of each class, and these after Holm's correction; NaN is no test."""
    known, adjusted = ~np.isnan(p_values), np.full(len(p_values), math.nan)
    adjusted[known] = holm(p_values[known].tolist())
    return replace(result, p_values=p_values, adjusted_p_values=adjusted)


def _class_p_value(means: Float64s, counts: Float64s, rates: Float64s, kinds: Float64s, *, whole: bool) -> float:
    """Return the p-value of one class from its filled bins; NaN for a class without rows or without a valid law."""
    if not len(counts):
        return math.nan
    squares = None if whole else kinds
    table = ReliabilityTable(means, counts, counts * rates, round(counts.sum()), square_weights=squares)
    cells = Cells(table)
    if 0 < float(cells.null_variances.sum()) < LEAST_VARIANCE:
        return count_p_value(Independent(cells))
    return closed_form(cells, RowBins.of(cells, np.arange(len(table)))).p_value


METHOD: Final = "Gaussian thinning over classes and bins"


@dataclass(frozen=True, eq=False, kw_only=True)
class ClusterClassBins(ClassBins):
    """The bins of every class of rows in clusters; ``buckets`` are the sums of each class over buckets of clusters."""

    buckets: Sequence[BucketSums]

    @cached_property
    def clusters(self) -> ClusterBins:
        """The bins with their parts in the buckets."""
        return class_bins(self, self.buckets)

    def interval(self, value: float, resampling: Resampling, *, rejected: bool) -> Interval:
        """Return the interval of the mean of the classes' errors."""
        return interval(self.clusters, value, resampling, rejected=rejected)

    def law(self, value: float, resampling: Resampling) -> Law:
        """Return floor and p-value of the mean of the classes' errors."""
        return law(self.clusters, value, resampling)


def class_bins(classes: ClassBins, buckets: Sequence[BucketSums]) -> ClusterBins:
    """Return the filled bins of all classes, (M,), with their parts in the buckets, from the buckets of each class.

    Raises
    ------
    InputError
        For a number of bins that does not divide the coarse cells, and for rows in one bucket.
    """
    n_bins, moments = classes.histograms.shape[1], classes.moments
    parts = aligned(buckets)
    weights = _bucket_weights(parts)
    held = np.flatnonzero(weights > 0)
    held = held[by_content(np.stack([part.cell_sums.sum(axis=1) for part in parts], axis=1)[held])]
    if len(held) < 2:
        remedy = "pass rows of more clusters: these tell nothing of other clusters"
        raise InputError("clusters", "at least 2 clusters", f"{len(held)}", remedy)
    n, y, gaps = (np.empty((len(held), len(moments.index))) for _ in range(3))
    of_class, of_bin = np.divmod(moments.index, n_bins)
    for place in np.unique(of_class):
        sums, own = _over_bins(parts[place], n_bins)[:, held], of_class == place
        share = moments.weight / float(sums[0].sum())  # each class counts its rows as if it had all
        n[:, own], y[:, own], gaps[:, own] = sums[:, :, of_bin[own]] * share
    sizes = weights[held] * moments.effective_n / float(weights.sum())
    return ClusterBins(
        moments=moments, n=n, gaps=gaps, score_sums=gaps + y, weights=weights[held], sizes=sizes, shared=True
    )


def _bucket_weights(parts: Sequence[BucketSums]) -> Float64s:
    """Return the weight of each bucket, (B,), in the class with most rows: others may leave rows out."""
    weights = np.stack([part.weight for part in parts])
    return np.asarray(weights[weights.sum(axis=1).argmax()])


def _over_bins(part: BucketSums, n_bins: int) -> Float64s:
    """Return the sums of the weight, of outcomes and of p - y, (3, B, bins); bins are closed on the right."""
    n_parts = part.cells.n_cells - 1  # cell 0 is p = 0, which the first bin includes
    if n_parts % n_bins:
        remedy = f"choose one that does, such as {max(k for k in range(1, 21) if n_parts % k == 0)}"
        raise InputError("n_bins", f"a number that divides {n_parts}, with clusters and classes", f"{n_bins}", remedy)
    sums = np.moveaxis(part.cell_sums, 2, 0)
    whole = sums[:, :, 1:].reshape(3, part.n_buckets, n_bins, -1).sum(axis=3)
    whole[:, :, 0] += sums[:, :, 0]
    return np.asarray(whole)


def interval(bins: ClusterBins, value: float, resampling: Resampling, *, rejected: bool) -> Interval:
    """Return the interval of the mean of the classes' errors."""
    return Interval(*absolute_interval(bins, value, resampling.level, rejected=rejected), METHOD)


def law(bins: ClusterBins, value: float, resampling: Resampling) -> Law:
    """Return floor and p-value of the mean of the classes' errors: replicates c sum_h Z_h S_h of all bins at once."""
    plain = absolute_law(bins, resampling.level, value)
    if not resampling.n_resamples:
        return plain
    sums = bins.null_gaps

    def block(rng: np.random.Generator, size: int) -> Float64s:
        drawn = rng.standard_normal((size, len(sums))) @ sums
        return np.asarray(np.abs(drawn).sum(axis=1) / bins.moments.total)

    drawn = np.concatenate(list(in_blocks(resampling.n_resamples, resampling.seed, Stream.CLASSES, block)))
    limits = resampling.limits(plain.p_value)
    return Law(floor_of(drawn, resampling.level), p_value(drawn, value), resampling.source, limits)


def inferred_by_cluster(
    result: ClasswiseCalibration,
    tables: Sequence[ReliabilityTable],
    buckets: Sequence[BucketSums],
    resampling: Resampling | None,
) -> ClasswiseCalibration:
    """Return the same with intervals of the bins' outcome rates and a test of each class, by cluster.

    ``tables`` and ``buckets`` are of the same rows of each class. The tests are verdicts in closed form. A class of
    rows in one cluster has neither, and one where few outcomes are expected has no test.
    """
    if resampling is None:
        return result
    lows, highs = np.full((2, *result.counts.shape), math.nan)
    p_values = np.full(len(result.counts), math.nan)
    for k, (table, part) in enumerate(zip(tables, buckets, strict=True)):
        if np.count_nonzero(part.rows) < 2:
            continue
        null = ClusterNull.of(Clustered.of(Cells.from_table(table), part), result.counts.shape[1])
        filled = null.uniform.moments.index
        lows[k, filled], highs[k, filled] = rate_intervals(null.uniform, resampling.level)
        if not 0 < float(null.rows.cells.null_variances.sum()) < LEAST_VARIANCE:
            p_values[k] = Verdict.of(null.rows, null.uniform).result(null.observed, None).p_value
    return with_tests(replace(result, lows=lows, highs=highs, level=resampling.level), p_values)
