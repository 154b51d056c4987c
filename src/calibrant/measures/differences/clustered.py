"""Two models on rows in the same clusters: how the differences of their measures vary.

Clusters with the same label are the same units in both, so the sums of buckets tell how the two models vary together,
whether all their rows are the same, some or none. Each model adds psi_h / N to a measure, psi_h its sum over bucket h;
the variance of a difference is that of psi^A_h / N_A - psi^B_h / N_B. Quantiles are Student's. Rows are not
known, so the degrees of freedom assume a correlation of rows of .2: they matter where sizes differ much.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.clusters import BucketSums, aligned
from calibrant.measures.binned.clustered import ClusterBins, Directions
from calibrant.measures.differences.pair import Mean, OnlyRight, UnitModel, UnitPair
from calibrant.measures.differences.paired import Weighting
from calibrant.measures.means.means import heavy
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import cached_property
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.cells import Cells
from calibrant.statistics.cluster_sums import degrees_of_freedom, variance_of
from calibrant.statistics.design import BY_CLUSTER, Clustered, Influence
from calibrant.statistics.null import Interval
from calibrant.statistics.resampling import normal_quantile
from calibrant.statistics.variance import Variance

#: The correlation of rows in a cluster at which degrees of freedom are taken where rows are not known.
CORRELATION: Final = 0.2

_ROUNDING: Final = 1e-12  # relative to the sums that are subtracted: smaller differences are rounding


class Answers(NamedTuple):
    """Whether each row is predicted right, (n,), and the weighting of the rows."""

    right: NDArray[np.bool_]
    weighting: Weighting


@dataclass(frozen=True, eq=False, kw_only=True)
class ClusterModel(UnitModel):
    """One model and its judged rows in buckets of clusters, (H,), which must be scored; two have the same buckets.

    ``answers`` tell which rows it predicts right; None if only sums are known.
    """

    bins: ClusterBins
    rows: Clustered
    answers: Answers | None = None

    @property
    def square(self) -> float:
        return self.bins.square

    @property
    def sign_variance(self) -> float:
        return self.bins.linear([np.sign(self.bins.moments.gap_sums)])[0].value

    def part(self, sums: Float64s) -> Float64s:
        """Return what buckets add to a mean over rows, (H,): their sums around their share of the total, over N."""
        return self.rows.centred(sums) / self.rows.total

    def scores(self, mean: Mean) -> Float64s:
        return self.part(self.rows.scalar("right" if mean == "accuracy" else mean))

    def added(self, influence: Influence) -> Float64s:
        return self.rows.centred(influence.by_bucket(self.rows))

    def influence(self, gaps: Float64s) -> Float64s:
        return self.part(self.bins.influence_sums(gaps))

    def sloped(self, slopes: Float64s) -> Float64s:
        return self.part(self.bins.gaps @ slopes)


def paired_rows(first: tuple[Cells, BucketSums], second: tuple[Cells, BucketSums]) -> tuple[Clustered, Clustered]:
    """Return the rows of two models with the same buckets: all in which either has rows.

    Raises
    ------
    calibrant.errors.InputError
        As `clusters.aligned` and `Clustered.of`.
    """
    buckets = aligned([first[1], second[1]])
    held = np.flatnonzero((buckets[0].rows > 0) | (buckets[1].rows > 0))
    one, other = (Clustered.of(cells, sums, held) for (cells, _), sums in zip((first, second), buckets, strict=True))
    return one, other


@dataclass(frozen=True, eq=False)
class ClusterPair(UnitPair[ClusterModel]):
    """Two models on rows of the same clusters. The weights of ``deciding`` rows decide variances."""

    deciding: float = math.inf

    mean_method = f"central limit theorem{BY_CLUSTER}"
    square_method = f"U-statistics of pairs of clusters, Student's t{BY_CLUSTER}"
    absolute_method = UnitPair.absolute_method + BY_CLUSTER

    @property
    def flag(self) -> str:
        """A warning where the clusters are few or large, or few rows weigh too much, or nothing."""
        one, other = self.first.rows.sample.flag, self.second.rows.sample.flag
        named = [f"{model.name}: {flag}" for model, flag in ((self.first, one), (self.second, other)) if flag]
        return "; ".join(filter(None, ([one] if one == other else named) + [heavy(self.deciding)]))

    @cached_property
    def sizes(self) -> Float64s:
        """The rows of each bucket, (H,): the mean of those of both models."""
        return (self.first.rows.sizes + self.second.rows.sizes) / 2

    def variance(self, changes: Float64s, unseen: float = 0.0) -> Variance:
        """Return the variance of the sum of what the buckets add, which is around 0, and what was not seen."""
        return variance(changes, self.sizes, unseen)

    def noise(self) -> float:
        """Return 2 sum k_b k_c Sigma'_bc^2 over the bins of both, k what a pair adds; to the second, minus that."""
        one, other = self.first.bins, self.second.bins
        pairs = [one.per_pair * one.gap_variances, -other.per_pair * other.gap_variances]
        return 2 * Directions.of(np.concatenate([one.within, other.within], axis=1)).squares(np.concatenate(pairs))

    @property
    def square_rounding(self) -> float:
        """A small part of what is subtracted."""
        return _ROUNDING * sum(math.sqrt(model.bins.pair_noise) for model in (self.first, self.second))

    def square_details(self, spread: Variance) -> dict[str, float]:
        """Return the standard error and its degrees of freedom."""
        return {**super().square_details(spread), "degrees_of_freedom": spread.df}

    @property
    def only_right(self) -> OnlyRight | None:
        """Which rows only one model predicts right; None if only sums are known."""
        if self.first.answers is None or self.second.answers is None:
            return None
        (one, weighting), (other, _) = self.first.answers, self.second.answers
        return weighting.only_right(one, other)

    def accuracy_interval(self, value: float, level: float) -> Interval:
        """Return the interval of Bonett and Price, in n / deff (z / t)^2 rows if it is known which rows are right.

        Sums alone do not tell: the interval is then value -+ t sd, and where no bucket differs that of as many rows as
        effective clusters.
        """
        only, rows, changes = self.only_right, self.first.rows, self.changes("accuracy")
        if only is None:
            size = sum(float(np.sum(model.scores("accuracy") ** 2)) for model in (self.first, self.second))
            if float(np.sum(changes**2)) > _ROUNDING * size:
                return self.mean_interval("accuracy", value, level)
            only = OnlyRight(max(value, 0.0), max(-value, 0.0), rows.total)
        n, found = rows.effective_n, Variance(math.nan)
        if only.variance > _ROUNDING:
            found = variance_of(changes * n, only.variance * n, self.sizes)
        trials = rows.trials(n, found, level, varied=only.variance > _ROUNDING)
        return Interval(*only.interval(value, trials, normal_quantile(level)), f"Bonett and Price{BY_CLUSTER}")


def variance(around: Float64s, sizes: Float64s, unseen: float = 0.0) -> Variance:
    """Return the variance of a measure or a difference from its centred parts in the buckets, and what was not seen."""
    df, share = degrees_of_freedom(sizes, CORRELATION)
    return Variance(float(np.sum(around**2)) / share + unseen, df=df)
