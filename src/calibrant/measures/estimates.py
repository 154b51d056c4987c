"""Estimates of measures, of one event and over classes: value, interval, noise floor and p-value.

Over classes the l1 formulas are those of the bins of all classes, from their histograms. The bins of several classes
share their rows; the covariance of the classes' outcomes (multinomial) is below twice its diagonal. Where rows are at
hand they tell how much sums over classes vary, else variances are doubled. Within a bin scores are taken to be equal:
V0 = n P (1 - P) is then not below the sum of p (1 - p).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError
from calibrant.inputs.weights import rate_rows
from calibrant.measures.binned import binned
from calibrant.measures.binned.bin_inference import absolute_interval, absolute_law, rate_intervals
from calibrant.measures.binned.bin_sums import BinMoments, BinSums
from calibrant.measures.binned.binned import Binning, absolute_error
from calibrant.measures.binned.cluster_bins import ClusterBins
from calibrant.measures.context import Inference
from calibrant.measures.event import Event
from calibrant.measures.measure import NOT_ASKED, Measure, OverClasses, Unavailable
from calibrant.measures.read_arguments import ClassHistograms, table_histograms
from calibrant.measures.simulated import ClusterNull
from calibrant.measures.unseen import UNSEEN, is_uniform, unseen_share
from calibrant.measures.verdict import Verdict, closed_form, count_p_value, of_estimate, refuted
from calibrant.results import ClasswiseCalibration, Estimate, Floor
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import Memo, cached_property
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.buckets import by_content
from calibrant.statistics.cells import Cells, Outcomes
from calibrant.statistics.class_rows import ClassRows
from calibrant.statistics.design import Clustered, SamplingDesign
from calibrant.statistics.group_tests import LEAST_VARIANCE, GroupTest, holm
from calibrant.statistics.impossible import ImpossibleOutcomes, of_classes
from calibrant.statistics.intervals import Variance, clopper_pearson
from calibrant.statistics.null import Interval, Law, floor_of, p_value
from calibrant.statistics.resampling import Resampling, Stream
from calibrant.table import ReliabilityTable
from calibrant.table.cluster_sums import BucketSums, ClusterSums, aligned

NO_BUCKETS: Final = (
    "no interval for rows in clusters: equal-frequency bins differ between classes; evaluate one class at a time"
)
NO_MEAN: Final = (
    "no interval: no method is known for the mean of this measure over classes; evaluate one class at a time"
)


def estimate(measure: Measure, event: Event, inference: Inference | None = None) -> Estimate:
    """Return the estimate of a measure: with an interval, a noise floor and a p-value if there is an inference."""
    value, details = event.value(measure), dict(measure.details(event))
    n = event.predictions.n if measure.judges == "predictions" else event.table.n
    method = NOT_ASKED if inference is None else ""
    if not math.isfinite(value):
        reason = details.get("reason", "the measure has no value for these data")
        method = f"{'not available' if math.isnan(value) else 'no interval'}: {reason}"
    plain = Estimate(value, method=method, n=n, details=details, error_bound=event.bound(measure))
    if inference is None or method:
        return plain
    law = measure.law_in_range(inference.law(measure))
    low, high, method = inference.interval(measure)
    impossible = event.impossible
    if measure.judges == "classes" and event.classes is not None and event.classes.impossible:
        impossible = ImpossibleOutcomes(math.nan, math.nan, 0.0, 0.0)
    inferred = _with_law(plain, (low, high), inference.resampling.level, law, method, impossible)
    return inference.finish(measure, inferred)


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassEvents(Memo):
    """Every class as an event of its own: measures are combined over them."""

    tables: Sequence[ReliabilityTable]  # the table of each class; without a row for a class that is not evaluated
    n_bins: int  # the number of bins of the binned measures
    #: n, effective_n: the evaluated rows, and their effective sample size.
    n: int
    effective_n: float
    #: Whether the labels of a row may depend on one another in any way, as in multilabel predictions. Otherwise a row
    #: has one class, which excludes the others.
    dependent: bool
    #: The rows of exclusive classes, if they are at hand; or their sums over buckets of clusters.
    rows: ClassRows | ClusterSums | None = None
    logits: bool = False  # whether the scores were computed from logits

    @cached_property
    def events(self) -> list[Event | None]:
        """Each class as an event; None for a class without rows."""
        return [
            Event(table=table, n_bins=self.n_bins, logits=self.logits) if len(table) else None for table in self.tables
        ]

    @cached_property
    def held(self) -> list[Event]:
        """The classes with rows."""
        return [event for event in self.events if event is not None]

    @cached_property
    def impossible(self) -> ImpossibleOutcomes | None:
        """The outcomes of classes that their scores exclude; None without any."""
        return of_classes((event.table for event in self.held), logits=self.logits)

    @cached_property
    def histograms(self) -> ClassHistograms:
        """The equal-width bins of every class."""
        return table_histograms(self.tables, self.n_bins)

    @property
    def outcome_rate(self) -> float:
        """The share of outcomes 1 of all classes together."""
        return float(self.histograms.sums[2].sum() / np.sum(self.histograms.totals))

    def bins(self, binning: Binning) -> ClassBins:
        """Return the bins of every class, for the interval of the mean of the classes' errors.

        The rows tell how much sums over bins of equal width vary; those of equal frequency differ from class to class.
        """
        return self.of(ClassEvents._bins, binning)

    def _bins(self, binning: Binning) -> ClassBins:
        uniform = binning == "uniform"
        histograms = self.histograms if uniform else table_histograms(self.tables, self.n_bins, binning=binning)
        bins = ClassBins(
            histograms=histograms.sums,
            squares=histograms.squares,
            effective_n=self.effective_n,
            dependence=float(len(self.tables)) if self.dependent else DEPENDENCE,
            rows=self.rows if uniform and isinstance(self.rows, ClassRows) else None,
        )
        if isinstance(self.rows, ClusterSums):
            return ClusterClassBins(**vars(bins), buckets=self.rows.classes)
        return bins

    def estimate(self, measure: Measure, resampling: Resampling | None) -> Estimate:
        """Return the estimate of a measure combined over classes."""
        rule = measure.over_classes
        if isinstance(rule, Unavailable):
            details = {"reason": rule.reason}
            return Estimate(math.nan, method=f"not available: {rule.reason}", n=self.n, details=details)
        values = np.array([math.nan if event is None else event.value(measure) for event in self.events])
        value, details = binned.combine(values, rule.norm), {"per_class": values.tolist()}
        plain = Estimate(value, n=self.n, details=details, error_bound=self._bound(measure, rule))
        if math.isnan(value):
            reasons = [measure.details(event).get("reason") for event in self.held]
            reason = next((reason for reason in reasons if reason), "no class has a value")
            return replace(plain, method=f"not available: {reason}", details={**details, "reason": reason})
        if rule.binning is None:
            return replace(plain, method=NO_MEAN)
        if resampling is None:
            return replace(plain, method=NOT_ASKED)
        if isinstance(self.rows, ClusterSums) and rule.binning != "uniform":
            return replace(plain, method=NO_BUCKETS)
        bins = self.bins(rule.binning)
        law = bins.law(value, resampling)
        low, high, method = bins.interval(value, resampling, rejected=law.p_value <= resampling.tail)
        if all(is_uniform(event.table) for event in self.held):  # the mean of the l1 errors moves by the rate at most
            rows, units = self.rows, self.effective_n
            if isinstance(rows, ClusterSums):
                units = float(np.count_nonzero(rows.event.rows))
            share = unseen_share(units, resampling.level)
            low, high, method = min(low, value - share), max(high, value + share), f"{method}; {UNSEEN}"
        ends = measure.in_range(value, low, high)
        return _with_law(plain, ends, resampling.level, law, method, self.impossible)

    def tested(self, ece: Estimate, resampling: Resampling) -> GroupTest:
        """Return the test by the mean of the classes' errors, and a way to a finer p-value."""
        bins = self.bins("uniform")

        def redrawn(n_resamples: int) -> float:
            return bins.law(ece.value, replace(resampling, n_resamples=n_resamples)).p_value

        variance = float(bins.moments.null_variances.sum())
        test = refuted(of_estimate(ece), self.impossible)
        return GroupTest(test=test, variance=variance, redrawn=redrawn, exact=lambda: math.nan)

    def _bound(self, measure: Measure, rule: OverClasses) -> float:
        """Return the certified error: by the triangle inequality, the same norm of the classes' bounds."""
        bounds = np.array([event.bound(measure) for event in self.held])
        if np.isnan(bounds).any():
            return math.nan
        with_value = ~np.isnan([event.value(measure) for event in self.held])
        return binned.combine(bounds[with_value], rule.norm) if with_value.any() else 0.0


def _with_law(
    plain: Estimate,
    ends: tuple[float, float],
    level: float,
    law: Law | None,
    method: str,
    impossible: ImpossibleOutcomes | None,
) -> Estimate:
    """Return the estimate with its interval, its floor and its p-value.

    Outcomes that the scores exclude decide the p-value.
    """
    inferred = replace(
        plain, low=ends[0], high=ends[1], level=math.nan if math.isnan(ends[1]) else level, method=method
    )
    if law is None:
        return inferred
    details, p_value = {**plain.details, **law.details}, law.p_value
    if impossible is not None and impossible.p_value < p_value:
        details |= {"p_value_of_floor": p_value}
        p_value = impossible.p_value
    method = f"{method}; floor: {law.source}"
    return replace(inferred, floor=law.floor, p_value=p_value, method=method, details=details)


#: The dependence of exclusive classes where nothing tells how classes depend on each other.
DEPENDENCE: Final = 2.0
_MOST_DRAWN: Final = 4_000  # bins: the sum over more is normal


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassSums(BinSums):
    """The bins of all classes, whose rows are the same.

    ``n_bins`` counts the bins of all classes, empty ones too. ``rows`` tell how much sums over classes vary, if they
    are at hand.
    """

    n_bins: int
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
        return [Variance(variance + float(np.sum(f**2 * unseen))) for variance, f in zip(seen, slopes, strict=True)]


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassBins:
    """The bins of every class, for the distribution and the interval of the mean of the classes' l1 errors."""

    histograms: Float64s  # (3, bins, classes): the counts, sums of scores and outcomes in each bin of each class
    effective_n: float  # the effective sample size of the evaluated rows
    squares: Float64s | None = None  # (3, bins, classes): the same sums with squared weights; None if weights are whole
    #: How many times the variance of a sum over classes may exceed the variance if classes were independent.
    dependence: float = DEPENDENCE
    #: The rows themselves, if they are at hand: they tell how classes depend on each other.
    rows: ClassRows | None = None

    @property
    def noise(self) -> float:
        """How many times the variance under calibration exceeds the variance if classes were independent, at most."""
        return self.dependence if self.rows is None else self.rows.dependence

    def interval(self, value: float, resampling: Resampling, *, rejected: bool) -> Interval:
        """Return the interval of the mean of the classes' errors."""
        ends = absolute_interval(self.sums, value, resampling.level, rejected=rejected)
        # Rows and clusters tell how classes depend on each other.
        dependence_known = self.rows is not None or isinstance(self.sums, ClusterBins)
        multiplied = "" if dependence_known else f", variances times {self.dependence:g}"
        return Interval(*ends, f"Gaussian thinning over classes and bins{multiplied}")

    @cached_property
    def sums(self) -> BinSums:
        """The sums over the filled bins of all classes, and how they vary."""
        return ClassSums(
            moments=self.moments,
            dependence=self.dependence,
            null_dependence=self.noise,
            n_bins=self.histograms[0].size,
            rows=self.rows,
        )

    def law(self, value: float, resampling: Resampling) -> Law:
        """Return floor and p-value of the mean of the classes' errors: in closed form, or by simulated data sets."""
        closed_form, drawn = self._closed_form(value, resampling.level), self._drawn(resampling)
        if drawn is None:
            return closed_form
        floor = floor_of(np.maximum(drawn, 0.0), resampling.level)
        # a correction for many groups needs the first if the resampled p-value is at the second
        limits = {"closed_form_p_value": closed_form.p_value, "least_p_value": 1 / (len(drawn) + 1)}
        return Law(floor, p_value(drawn, value), resampling.source, limits)

    def _drawn(self, resampling: Resampling) -> Float64s | None:
        """Return the errors of simulated data sets, (B,), deviations from the mean widened for the common rows."""
        bins = self.moments
        if not resampling.n_resamples or len(bins.rows) > _MOST_DRAWN:
            return None
        rates = np.clip(bins.score_sums / bins.counts, 0.0, 1.0)
        calibrated = Outcomes(bins.counts, bins.square_weights, rates)

        def block(rng: np.random.Generator, size: int) -> Float64s:
            return absolute_error(bins.score_sums - calibrated.draw(rng, size), bins.total)

        drawn = resampling.draws(Stream.CLASSES, block, cells=len(bins.rows))
        return np.asarray(drawn.mean() + math.sqrt(self.noise) * (drawn - drawn.mean()))

    @cached_property
    def moments(self) -> BinMoments:
        """The sums over the filled bins of all classes."""
        masses = self.histograms[0].sum(axis=0)
        weight = float(masses.max())
        # The error of a class is over its own rows: if a label is evaluated on fewer rows, each of its rows weighs
        # more.
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


@dataclass(frozen=True, eq=False, kw_only=True)
class ClusterClassBins(ClassBins):
    """The bins of every class of rows in clusters; ``buckets`` are the sums of each class over buckets of clusters."""

    buckets: Sequence[BucketSums]

    @cached_property
    def sums(self) -> ClusterBins:
        """The sums over the filled bins of all classes, with their parts in the buckets."""
        n_bins, moments = self.histograms.shape[1], self.moments
        parts = aligned(self.buckets)
        weights = max((part.weight for part in parts), key=np.sum)  # other classes may leave rows out
        held = np.flatnonzero(weights > 0)
        held = held[by_content(np.stack([part.cell_sums.sum(axis=1) for part in parts], axis=1)[held])]
        if len(held) < 2:
            remedy = "pass rows of more clusters, because one cluster does not show how clusters vary"
            raise InputError("clusters", "at least 2 clusters", f"{len(held)}", remedy)
        n, y, gaps = (np.empty((len(held), len(moments.index))) for _ in range(3))
        of_class, of_bin = np.divmod(moments.index, n_bins)
        for place in np.unique(of_class):
            sums, columns = _over_bins(parts[place], n_bins)[:, held], of_class == place
            share = moments.weight / float(sums[0].sum())  # each class counts its rows as if it had all
            n[:, columns], y[:, columns], gaps[:, columns] = sums[:, :, of_bin[columns]] * share
        sizes = weights[held] * moments.effective_n / float(weights.sum())
        return ClusterBins(
            moments=moments, n=n, gaps=gaps, score_sums=gaps + y, weights=weights[held], sizes=sizes, shared=True
        )

    def _closed_form(self, value: float, level: float) -> Law:
        return absolute_law(self.sums, level, value)

    def _drawn(self, resampling: Resampling) -> Float64s | None:
        """Return the errors of simulated data sets, (B,), from c sum_h Z_h S_h of all bins."""
        if not resampling.n_resamples:
            return None
        gaps = self.sums.null_gaps

        def block(rng: np.random.Generator, size: int) -> Float64s:
            return absolute_error(rng.standard_normal((size, len(gaps))) @ gaps, self.moments.total)

        return resampling.draws(Stream.CLASSES, block)


def _over_bins(part: BucketSums, n_bins: int) -> Float64s:
    """Return the sums of the weight, of outcomes and of p - y, (3, B, bins); bins are closed on the right."""
    n_parts = part.cells.n_cells - 1  # cell 0 is p = 0, which the first bin includes
    if n_parts % n_bins:
        remedy = f"choose a divisor, such as {max(k for k in range(1, 21) if n_parts % k == 0)}"
        why = f"because classwise bins of clustered rows consist of whole cells of a grid with {n_parts} cells"
        expected = f"a divisor of {n_parts}, {why}"
        raise InputError("n_bins", expected, f"{n_bins}", remedy)
    sums = np.moveaxis(part.cell_sums, 2, 0)
    bin_sums = sums[:, :, 1:].reshape(3, part.n_buckets, n_bins, -1).sum(axis=3)
    bin_sums[:, :, 0] += sums[:, :, 0]
    return np.asarray(bin_sums)


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
    from scipy.special import gammaln, ndtr, ndtri, xlog1py, xlogy

    n, p = np.rint(counts), np.clip(rates, 0.0, 1.0)
    m = np.minimum(np.floor(n * p), np.maximum(n - 1, 0))
    logs = gammaln(n + 1) - gammaln(m + 1) - gammaln(n - m) + xlogy(m + 1, p) + xlog1py(n - m, -p)
    deviations = np.where(n > 0, 2 * np.exp(logs), 0.0)
    squares = np.maximum(n * p * (1 - p) - deviations**2, 0.0)
    sd = math.sqrt(dependence * float(np.sum(units**2 * squares))) / total
    mean = float(np.sum(units * deviations)) / total
    if sd == 0:
        return Law(Floor(mean, mean), float(value <= mean))
    return Law(Floor(mean, mean + float(ndtri(level)) * sd), float(ndtr((mean - value) / sd)))


def inferred(
    result: ClasswiseCalibration,
    squares: Float64s | None,
    resampling: Resampling | None,
    impossible: NDArray[np.bool_],
) -> ClasswiseCalibration:
    """Return the same with Clopper-Pearson intervals of the bins' observed frequencies, and with a test of each class.

    ``squares`` are as in `ClassBins`. The tests are in closed form: the verdict on the bins of the class, their scores
    taken as equal; where few outcomes are expected, the exact law of their number. The p-value is 0 for a class with an
    ``impossible`` outcome, (C,): one that its scores exclude.
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
    p_values[impossible & ~np.isnan(p_values)] = 0.0
    return with_tests(replace(result, lows=low, highs=high, level=resampling.level), p_values)


def with_tests(result: ClasswiseCalibration, p_values: Float64s) -> ClasswiseCalibration:
    """Return the same with the p-value of each class, and these after Holm's correction; NaN is not a test."""
    tested, adjusted = ~np.isnan(p_values), np.full(len(p_values), math.nan)
    adjusted[tested] = holm(p_values[tested].tolist())
    return replace(result, p_values=p_values, adjusted_p_values=adjusted)


def _class_p_value(means: Float64s, counts: Float64s, rates: Float64s, kinds: Float64s, *, whole: bool) -> float:
    """Return the p-value of one class from its filled bins; NaN for a class without rows or without a valid law."""
    if not len(counts):
        return math.nan
    squares = None if whole else kinds
    table = ReliabilityTable(means, counts, counts * rates, round(counts.sum()), square_weights=squares)
    cells = Cells(table)
    if 0 < float(cells.null_variances.sum()) < LEAST_VARIANCE:
        return count_p_value(SamplingDesign(cells))
    return closed_form(cells, BinSums.of_cells(cells, np.arange(len(table)))).p_value


def inferred_by_cluster(
    result: ClasswiseCalibration,
    tables: Sequence[ReliabilityTable],
    buckets: Sequence[BucketSums],
    resampling: Resampling | None,
) -> ClasswiseCalibration:
    """Return the same with intervals of the bins' observed frequencies and a test of each class, by cluster.

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
        if table.impossible:
            p_values[k] = 0.0
    return with_tests(replace(result, lows=lows, highs=highs, level=resampling.level), p_values)
