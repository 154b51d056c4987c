"""Two models known by sums alone: differences, first minus second, with intervals.

What the rows have in common cannot cancel, since nothing tells which rows these are. The standard deviation of a
difference is at most the sum of the two, whatever the models have in common (Cauchy and Schwarz), so that the intervals
and the test are safe, for the same rows and for others, and wide. Where no normal distribution holds, each model's own
interval is taken at half the error, and the ends are subtracted (Bonferroni).

The variances of independent rows add up: errors and half widths are combined by the root of the sum of their squares,
and so are the distances to the ends of intervals that are not symmetric (Newcombe 1998; Zou and Donner 2008).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from calibrant.measures.binned.bin_inference import SteadyGaps, absolute_interval, absolute_law, larger
from calibrant.measures.binned.binned import uniform_bin_of
from calibrant.measures.binned.cluster_bins import ClusterBins, uniform_sums
from calibrant.measures.binned.ece import ECE
from calibrant.measures.binned.rmsce import DEBIASED_SQUARE
from calibrant.measures.differences.pair import (
    Caution,
    ComparedModel,
    Flips,
    Mean,
    ModelPair,
    loss_changes,
    with_unseen,
)
from calibrant.measures.differences.paired import ClusterModel, ClusterPair, ModelRows, paired_rows, variance
from calibrant.measures.event import Event
from calibrant.measures.means.means import PredictionMeans, RowShare, heavy, score_influence
from calibrant.measures.measure import Measure
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.design import Clustered, SamplingDesign, rare
from calibrant.statistics.intervals import Variance, link_slope
from calibrant.statistics.null import Interval
from calibrant.statistics.resampling import alpha_of
from calibrant.table.cluster_sums import BucketSums

_LEAST: Final = 1e-300
_SQUARES: Final = "independent rows, variances added"
_SUBTRACTED: Final = "intervals of both models, opposite limits subtracted, which is conservative"


@dataclass(frozen=True, eq=False, kw_only=True)
class Summed:
    """A model known by sums: the table of its evaluated event on a grid, and the means over its predictions.

    The weights of ``deciding`` rows decide variances.
    """

    name: str
    event: Event
    design: SamplingDesign
    deciding: float = math.inf

    @property
    def means(self) -> PredictionMeans:
        """The means over its predictions."""
        return self.event.predictions

    @property
    def flag(self) -> str:
        """A warning where intervals are not to be trusted, or nothing."""
        return rare(self.design.sample.rarer, f" for {self.name}")

    @property
    def square(self) -> float:
        """The unbiased estimate of the squared l2 error."""
        return self.event.value(DEBIASED_SQUARE)

    @property
    def absolute(self) -> float:
        """The l1 calibration error."""
        return self.event.value(ECE)

    def square_variance(self) -> Variance:
        """Return the variance of the squared l2 error of independent rows, `larger`."""
        sums = self.event.of(uniform_sums)
        moments = sums.moments
        plain, steady = (
            Variance(sums.influence(gaps).value / moments.total**2)
            for gaps in (moments.gap_sums / moments.counts, SteadyGaps.of(sums).values)
        )
        return larger(plain, steady, sums.pair_noise)

    def influence_variance(self, measure: Measure) -> Variance | None:
        """Return the variance of a measure, by its influence; None where that is not known."""
        influence = self.event.influence(measure)
        if influence is None:
            return None
        variance, slope = self.design.variance(influence), link_slope(self.event.value(measure), measure.link)
        return variance._replace(value=variance.value / slope**2)

    def absolute_ends(self, level: float) -> tuple[float, float]:
        """Return the interval of the l1 error."""
        sums = self.event.of(uniform_sums)
        rejected = absolute_law(sums, level).p_value <= alpha_of(level) / 2
        return absolute_interval(sums, self.absolute, level, rejected=rejected)

    def half_width(self, mean: Mean, level: float) -> float:
        """Return half the width of the interval of the mean Brier score or log loss."""
        influence = score_influence(self.design, "brier" if mean == "brier" else "log", self.means)
        if not isinstance(self.design, Clustered):
            influence = replace(influence, steadied=None)
        spread = self.design.variance(influence)
        return self.unseen(spread, mean, alpha_of(level) / 2).half_width(level)

    def unseen(self, spread: Variance, mean: Mean, tail: float) -> Variance:
        """Return the variance of a mean loss with what was not seen, `with_unseen`."""
        if not self.means.event:
            return spread
        table = self.event.table
        scores, squares = table.scores.astype(np.float64), table.own_weights.sum(axis=0)
        single = np.ones(len(scores)) if table.whole else (squares / table.counts) ** 2
        changes = loss_changes(scores, np.ones(len(scores)), mean)
        flips = Flips(changes, scores, squares, single, float(table.counts.sum()))
        return spread._replace(value=with_unseen(spread.value, [flips], tail))


@dataclass(frozen=True, eq=False)
class SummedPair(ModelPair):
    """Two models known by sums alone; ``independent`` says that their rows are independent of each other."""

    first: Summed
    second: Summed
    independent: bool = False

    @property
    def cautions(self) -> list[Caution]:
        """The warnings of both models, and one where few rows weigh too much."""
        first, second = self.first, self.second
        return [Caution(first.flag), Caution(second.flag), Caution(heavy(min(first.deciding, second.deciding)))]

    @property
    def mean_method(self) -> str:
        """How the errors of both models are combined."""
        return f"unpaired, {_SQUARES if self.independent else 'standard errors added, conservative'}"

    def _together(self, errors: Sequence[float]) -> float:
        """Return the error of a difference from those of both models."""
        return math.hypot(*errors) if self.independent else sum(errors)

    def half_width(self, mean: Mean, level: float) -> float:
        """Return the half widths of both intervals together."""
        return self._together([model.half_width(mean, level) for model in (self.first, self.second)])

    def square_variance(self) -> Variance:
        """Return the variances of both together."""
        return self._combined([self.first.square_variance(), self.second.square_variance()])

    def influence_variance(self, measure: Measure) -> Variance | None:
        """Return the variances of the measure of both together."""
        first, second = (model.influence_variance(measure) for model in (self.first, self.second))
        return None if first is None or second is None else self._combined([first, second])

    def _combined(self, variances: Sequence[Variance]) -> Variance:
        """Return the errors of both together, of independent rows with the df of Welch and Satterthwaite."""
        error, df = self._together([each.error for each in variances]), min(each.df for each in variances)
        if self.independent and error > 0:
            df = error**4 / max(sum(each.error**4 / each.df for each in variances), _LEAST)
        return Variance(error**2, df=df)

    def absolute_interval(self, level: float) -> Interval:
        """Return the differences of the ends of each model's own interval, at half the error."""
        (low, high), (least, most) = (model.absolute_ends((1 + level) / 2) for model in (self.first, self.second))
        return Interval(low - most, high - least, f"Gaussian thinning {_SUBTRACTED}")

    def accuracy_interval(self, value: float, level: float) -> Interval:
        """Return the interval from the ends of Wilson's intervals of both: their distances together."""
        (low, high), (least, most) = (
            RowShare.right(model.means).interval(model.design, model.means, level)
            for model in (self.first, self.second)
        )
        if not self.independent:
            return Interval(low - most, high - least, f"Wilson {_SUBTRACTED}")
        one, other = self.first.means.accuracy, self.second.means.accuracy
        ends = value - math.hypot(one - low, most - other), value + math.hypot(high - one, other - least)
        return Interval(*ends, f"Wilson intervals of both models, {_SQUARES}")


@dataclass(frozen=True, eq=False, kw_only=True)
class ClusterSummed(Summed):
    """A model known by the sums of its rows over buckets of clusters; ``answers`` as in `ClusterModel`."""

    design: Clustered
    answers: ModelRows | None = None

    def paired(self, rows: Clustered) -> ClusterModel:
        """Return the model with these of its rows in buckets."""
        bins = ClusterBins.of(rows, uniform_bin_of(rows.fine.table, self.event.n_bins))
        return ClusterModel(
            name=self.name, rows=rows, bins=bins, means=self.means, event=self.event, answers=self.answers
        )

    @property
    def flag(self) -> str:
        flag = self.design.sample.flag
        return f"{self.name}: {flag}" if flag else ""

    def square_variance(self) -> Variance:
        model = self.paired(self.design)
        plain, steady = (variance(model.influence(gaps), model.rows.sizes) for gaps in (model.gaps, model.steady))
        return larger(plain, steady, model.bins.pair_noise)


def in_common_buckets(models: Sequence[ClusterSummed]) -> list[ClusterModel]:
    """Return models of the same clusters, with the same buckets."""
    rows = paired_rows([(model.design.fine, model.design.buckets) for model in models])
    return [model.paired(each) for model, each in zip(models, rows, strict=True)]


def with_shared_buckets(models: Sequence[ComparedModel]) -> dict[str, ClusterModel]:
    """Return models by name with their buckets, if all have rows of the same clusters; else nothing."""
    clustered = [model for model in models if isinstance(model, ClusterSummed)]
    if len(clustered) < len(models) or len({_clusters_of(model.design.buckets) for model in clustered}) > 1:
        return {}
    return {model.name: model for model in in_common_buckets(clustered)}


def _clusters_of(buckets: BucketSums) -> tuple[bytes, bytes]:
    """Return which clusters have rows."""
    hashes = b"" if buckets.hashes is None else buckets.hashes.tobytes()
    return hashes, (buckets.rows > 0).tobytes()


def pair_of(first: ClusterSummed, second: ClusterSummed, known: Mapping[str, ClusterModel]) -> ClusterPair:
    """Return two models of the same clusters; ``known`` are those of `with_shared_buckets`."""
    facts, deciding = first.design.sample.facts, min(first.deciding, second.deciding)
    both = [known[model.name] for model in (first, second)] if known else in_common_buckets([first, second])
    return ClusterPair(both[0], both[1], facts, deciding)
