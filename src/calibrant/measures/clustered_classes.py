"""The classwise error of rows in clusters: its interval and its law, over the bins of all classes.

The buckets show the covariance of the bins of several classes, whose rows are the same: variances are not doubled, as
they are for independent rows. The sums of buckets are over i / 60, so the number of bins must divide 60.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from calibrant.clusters import BucketSums, aligned
from calibrant.errors import InputError
from calibrant.measures.binned.clustered import ClusterBins
from calibrant.measures.binned.intervals import absolute_interval, rate_intervals
from calibrant.measures.binned.null import absolute_law
from calibrant.measures.class_inference import ClassBins, with_tests
from calibrant.measures.simulated import ClusterNull
from calibrant.measures.verdict import Verdict
from calibrant.results import ClasswiseCalibration
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import cached_property
from calibrant.statistics.cells import Cells
from calibrant.statistics.cluster_sums import by_content
from calibrant.statistics.design import Clustered
from calibrant.statistics.groups import LEAST_VARIANCE
from calibrant.statistics.null import Interval, Law, floor_of, p_value
from calibrant.statistics.resampling import Resampling, Stream, in_blocks
from calibrant.table import ReliabilityTable

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


def inferred(
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
