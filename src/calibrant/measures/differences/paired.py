"""Two models evaluated on the same rows, or on rows in the same clusters: how the differences of their measures vary.

A row has gaps r = p - y of both models; a bin of one model has n rows, S = sum r, the gap D = S / n, the share
o = n / N and the variance u of one residual. The intervals of differences are those of means of differences of rows.

Clusters with the same label are the same units in both, so the sums of buckets tell how the two models vary together,
whether all their rows are the same, some or none. Each model adds psi_h / N to a measure, psi_h its sum over bucket h;
the variance of a difference is that of psi^A_h / N_A - psi^B_h / N_B. Quantiles are Student's. Rows are not
known, so the degrees of freedom assume a correlation of rows of 0.2: they matter where sizes differ much.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.notions import Events, ScoreMeans
from calibrant.inputs.predictions import Layout
from calibrant.inputs.scores import RowScores
from calibrant.inputs.weights import deciding_rows, effective_n, integer_weights
from calibrant.measures.binned.bin_sums import BinMoments, BinSums, Correlations
from calibrant.measures.binned.binned import largest_members, uniform_edges
from calibrant.measures.binned.cluster_bins import ClusterBins
from calibrant.measures.differences.pair import Caution, Flips, Mean, OnlyRight, UnitModel, UnitPair, loss_changes
from calibrant.measures.event import Event
from calibrant.measures.means.means import PredictionMeans, heavy
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import cached_property
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.buckets import centred, degrees_of_freedom, variance_of
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import BY_CLUSTER, Clustered, Influence, rare, rarer_of
from calibrant.statistics.intervals import Variance
from calibrant.statistics.null import Interval
from calibrant.statistics.resampling import normal_quantile
from calibrant.table import ReliabilityTable
from calibrant.table.cluster_sums import BucketSums, aligned

_DENSE: Final = 1 << 20  # pairs of bins that are counted in an array of all pairs, however few the rows


@dataclass(frozen=True, eq=False)
class Weighting:
    """The weights w of rows, and what q a row adds to the variance of a weighted sum.

    q = w for whole numbers, since a row of weight 2 is two rows, and q = w^2 otherwise.
    """

    mass: Float64s
    squares: Float64s
    integer_weights: bool

    @classmethod
    def of(cls, weights: Float64s | None, n: int) -> Weighting:
        """Return the weighting of n rows, which all count once without weights."""
        if weights is None:
            ones = np.broadcast_to(np.float64(1), n)
            return cls(ones, ones, True)
        integers = integer_weights(weights)
        return cls(weights, weights if integers else weights**2, integers)

    @cached_property
    def total(self) -> float:
        """The weight of all rows."""
        return float(self.mass.sum())

    @cached_property
    def effective_n(self) -> float:
        """The number of rows that weigh as much as these: (sum w)^2 / sum q."""
        return effective_n(self.total, float(self.squares.sum()))

    @property
    def deciding_rows(self) -> float:
        """How many equal rows would tell as much about the variance of a weighted mean; infinite with whole weights."""
        return math.inf if self.integer_weights else deciding_rows(*(float(np.sum(self.squares**k)) for k in (1, 2)))

    def mean(self, values: NDArray[Any]) -> float:
        """Return the weighted mean of a value of each row."""
        return float(np.sum(self.mass * values)) / self.total

    def only_right(self, first: NDArray[np.bool_], second: NDArray[np.bool_]) -> OnlyRight:
        """Return the shares of rows that only one model predicts right, from whether each row is right."""
        return OnlyRight(self.mean(first & ~second), self.mean(second & ~first), self.total)

    def variance(self, values: Float64s, extra: float = 0.0) -> float:
        """Return the variance of that mean, with the divisor of n - 1; ``extra`` is added to the sum of squares."""
        if self.effective_n <= 1:
            return math.inf
        square = float(np.sum(self.squares * (values - self.mean(values)) ** 2)) + extra
        return square / self.total**2 * self.effective_n / (self.effective_n - 1)


class ModelRows(NamedTuple):
    """The evaluated rows of one model, (N,), and the means over its predictions."""

    events: Events  # the scores, outcomes and weights
    scores: RowScores  # the Brier score and the log loss of each row, and whether the predicted class is right
    weighting: Weighting  # the weights
    means: PredictionMeans  # the means over predictions
    classes: int = 0  # the number of classes; 0 for one event
    own: bool = False  # whether the outcomes are whether the model's own answers are right

    @classmethod
    def of(cls, events: Events, scores: RowScores, layout: Layout, classes: int, *, own: bool) -> ModelRows:
        """Return rows with their means."""
        n = len(events.scores)
        weighting = Weighting.of(events.weights, n)
        plain = ScoreMeans.of_rows(scores, weighting.mass)
        means = PredictionMeans.of_scores(
            plain,
            plain if weighting.integer_weights else ScoreMeans.of_rows(scores, weighting.squares),
            effective_n=weighting.effective_n,
            n=n,
            layout=layout,
        )
        if own:
            kinds = (np.bincount(scores[2], each, 2) for each in (weighting.mass, weighting.squares))
            means = means.of_answers(*(kind.astype(np.float64) for kind in kinds))
        return cls(events, scores, weighting, means, classes, own)

    def flips(self, mean: Mean) -> Flips:
        """Return how the losses of independent rows change with the other outcome."""
        events, weighting = self.events, self.weighting
        scores = events.scores.astype(np.float64)
        single = np.broadcast_to(np.float64(1), len(scores)) if weighting.integer_weights else weighting.squares
        changes = loss_changes(scores, events.outcomes, mean, self.classes)
        own = events.outcomes if self.own else None
        return Flips(changes, scores, weighting.squares, single, weighting.total, own)


@dataclass(frozen=True, eq=False, kw_only=True)
class Model(UnitModel):
    """One model and its evaluated rows, (N,)."""

    bins: BinSums
    rows: ModelRows  # the rows
    index: NDArray[np.intp]  # (N,): the place of each row among the filled bins
    row_gaps: Float64s  # (N,): p - y
    rarer: float  # the effective sample size of the less frequent outcome

    @classmethod
    def of(cls, name: str, rows: ModelRows, n_bins: int) -> Model:
        """Put rows into equal-width bins, and leave empty bins out."""
        events, weighting = rows.events, rows.weighting
        scores, outcomes = events.scores, events.outcomes
        bins = np.searchsorted(largest_members(uniform_edges(n_bins), "right", scores.dtype), scores)
        filled = np.bincount(bins, minlength=n_bins) > 0
        index = (np.cumsum(filled) - 1)[bins]
        p, w, q = scores.astype(np.float64), weighting.mass, weighting.squares
        r = p - outcomes

        columns = {
            "counts": w,
            "score_sums": w * p,
            "gap_sums": w * r,
            "squared_residuals": q * r * r,
            "null_variances": q * p * (1 - p),
            "square_weights": q,
            "squared_gaps": q * r,
            "squared_positives": q * outcomes,
        }
        sums = {name: np.bincount(index, column).astype(np.float64, copy=False) for name, column in columns.items()}
        kinds = (np.bincount(outcomes, each, 2).astype(np.float64) for each in (w, q))
        moments = BinMoments(
            index=np.flatnonzero(filled),
            first=np.empty(0, np.intp),  # rows are not in cells
            total=weighting.total,
            weight=weighting.total,
            effective_n=weighting.effective_n,
            **sums,
        )
        return cls(
            name=name,
            bins=BinSums(moments=moments),
            means=rows.means,
            rows=rows,
            index=index,
            row_gaps=r,
            event=Event(table=ReliabilityTable.pool(events), n_bins=n_bins, means=rows.means),
            rarer=rarer_of(*kinds),
        )

    @property
    def sign_variance(self) -> float:
        return float(self.bins.variances.sum())

    def scores(self, mean: Mean) -> Float64s:
        brier, nll, right = self.rows.scores
        return right.astype(np.float64) if mean == "accuracy" else brier if mean == "brier" else nll

    def flips(self, mean: Mean) -> Flips | None:
        return self.rows.flips(mean)

    def added(self, influence: Influence) -> Float64s | None:
        if influence.cells is None or influence.values is None:
            return None
        events = self.rows.events
        places = influence.cells.places(events.scores)
        return influence.values[events.outcomes.astype(np.intp), places] * self.rows.weighting.total

    def influence(self, gaps: Float64s) -> Float64s:
        gap = gaps[self.index]
        return gap * (2 * self.row_gaps - gap)

    def sloped(self, slopes: Float64s) -> Float64s:
        return slopes[self.index] * self.row_gaps

    @cached_property
    def around(self) -> Float64s:
        """Each row's r - D, times the root of what a pair of its bin adds: 1 / (N (n - 1)), 0 in a bin of one row."""
        n, counts = self.bins.moments.rows, self.bins.moments.counts
        several = n > 1
        pairs = np.where(several, counts**2 * (1 - 1 / n), 1.0)
        pair_weights = np.where(several, counts / pairs, 0.0) / self.rows.weighting.total
        return (self.row_gaps - self.gaps[self.index]) * np.sqrt(pair_weights)[self.index]


@dataclass(frozen=True, eq=False)
class RowPair(UnitPair):
    """Two models evaluated on the same rows, which are independent of each other."""

    first: Model
    second: Model

    mean_method = "paired central limit theorem"
    square_method = "paired U-statistics, normal"

    @property
    def weighting(self) -> Weighting:
        """The weighting of the rows."""
        return self.first.rows.weighting

    @property
    def cautions(self) -> list[Caution]:
        """Warnings where one outcome is too rare, or few rows weigh too much."""
        rarer, name = min((model.rarer, model.name) for model in (self.first, self.second))
        return [Caution(rare(rarer, f" for {name}")), Caution(heavy(self.weighting.deciding_rows))]

    def change(self, mean: Mean) -> float:
        """Return the mean of the differences of rows, in which no digits are lost."""
        return self.weighting.mean(self.changes(mean))

    def variance(self, changes: Float64s, unseen: float = 0.0) -> Variance:
        """Return the variance of the mean of differences; ``unseen`` is added to the sum of squares."""
        return Variance(self.weighting.variance(changes, unseen * self.weighting.total**2))

    def noise(self) -> float:
        """Return the variances of the noise of both estimates less twice their covariance."""
        return self.first.bins.pair_noise + self.second.bins.pair_noise - 2 * shared_noise(self.first, self.second)

    @property
    def only_right(self) -> OnlyRight:
        """Which rows only one model predicts right."""
        return self.weighting.only_right(self.first.rows.scores[2], self.second.rows.scores[2])

    def accuracy_interval(self, value: float, level: float) -> Interval:
        """Return the interval of Bonett and Price, in the rows as equal ones."""
        only, weighting = self.only_right, self.weighting
        spread = float(np.sum(weighting.squares * (self.changes("accuracy") - value) ** 2))
        rows = only.variance * weighting.total**2 / spread if spread > 0 else weighting.effective_n
        return Interval(*only.interval(value, rows, normal_quantile(level)), "Bonett and Price")


def shared_noise(first: Model, second: Model) -> float:
    """Return the covariance of the noise of the two estimates of a squared error.

    2 sum over pairs i != j that share a bin in both models of a_i c_i c_j b_j, with c_i the covariance of the residuals
    of row i and a, b what a pair of the bin adds: by sums over each (bin of one, bin of the other). Below 0, where
    residuals move together in one part of a bin and apart in another, it is taken as 0.
    """
    bins = len(second.gaps)
    joint = first.index * bins + second.index
    if len(first.gaps) * bins > max(len(joint), _DENSE):
        _, joint = np.unique(joint, return_inverse=True)
    weighting = first.rows.weighting
    q = weighting.squares
    together = q * first.around * second.around
    itself = together**2 / q if weighting.integer_weights else together**2
    return max(2 * float(np.sum(np.bincount(joint, together) ** 2) - np.sum(itself)), 0.0)


#: The correlation of rows in a cluster at which degrees of freedom are taken where rows are not known.
CORRELATION: Final = 0.2

_ROUNDING: Final = 1e-12  # relative to the sums that are subtracted: smaller differences are rounding


@dataclass(frozen=True, eq=False, kw_only=True)
class ClusterModel(UnitModel):
    """One model and its evaluated rows in buckets of clusters, (H,), which must be scored; two have the same buckets.

    ``answers`` are the rows, which tell which ones it predicts right; None if only sums are known.
    """

    bins: ClusterBins
    rows: Clustered
    answers: ModelRows | None = None

    @property
    def sign_variance(self) -> float:
        return self.bins.linear([np.sign(self.bins.moments.gap_sums)])[0].value

    def part(self, sums: Float64s) -> Float64s:
        """Return what buckets add to a mean over rows, (H,): their sums around their share of the total, over N."""
        return centred(sums, self.rows.weights) / self.rows.total

    def scores(self, mean: Mean) -> Float64s:
        return self.part(self.rows.scalar("right" if mean == "accuracy" else mean))

    def flips(self, mean: Mean) -> Flips | None:
        """Rows in a cluster correlate by 0.2."""
        if self.answers is None:
            return None
        sizes = self.rows.sizes
        together = 1 + CORRELATION * max(float(np.sum(sizes**2) / np.sum(sizes)) - 1, 0.0)
        return self.answers.flips(mean)._replace(together=together)

    def added(self, influence: Influence) -> Float64s:
        return centred(influence.by_bucket(self.rows), self.rows.weights)

    def influence(self, gaps: Float64s) -> Float64s:
        return self.part(self.bins.influence_sums(gaps))

    def sloped(self, slopes: Float64s) -> Float64s:
        return self.part(self.bins.gaps @ slopes)


def paired_rows(models: Sequence[tuple[Cells, BucketSums]]) -> list[Clustered]:
    """Return the rows of models with the same buckets: all in which one of them has rows."""
    buckets = aligned([sums for _, sums in models])
    held = np.flatnonzero(np.any([each.rows > 0 for each in buckets], axis=0))
    return [Clustered.of(cells, sums, held) for (cells, _), sums in zip(models, buckets, strict=True)]


@dataclass(frozen=True, eq=False)
class ClusterPair(UnitPair):
    """Two models on rows of the same clusters. The weights of ``deciding`` rows decide variances."""

    first: ClusterModel
    second: ClusterModel
    deciding: float = math.inf

    mean_method = f"central limit theorem{BY_CLUSTER}"
    square_method = f"U-statistics of pairs of clusters, Student's t{BY_CLUSTER}"
    absolute_method = UnitPair.absolute_method + BY_CLUSTER

    @property
    def cautions(self) -> list[Caution]:
        """Warnings where the clusters are few or large, or few rows weigh too much."""
        of_models = [Caution(model.rows.sample.flag, model.name) for model in (self.first, self.second)]
        return [*of_models, Caution(heavy(self.deciding))]

    @cached_property
    def sizes(self) -> Float64s:
        """The rows of each bucket, (H,): the mean of those of both models."""
        return (self.first.rows.sizes + self.second.rows.sizes) / 2

    def variance(self, changes: Float64s, unseen: float = 0.0) -> Variance:
        """Return the variance of the sum of what the buckets add, and of what was not seen."""
        return variance(changes, self.sizes, unseen)

    def noise(self) -> float:
        """Return 2 sum k_b k_c Sigma'_bc^2 over the bins of both, k what a pair adds; to the second, minus that."""
        one, other = self.first.bins, self.second.bins
        pairs = [one.pair_weights * one.gap_variances, -other.pair_weights * other.gap_variances]
        return 2 * Correlations.of(np.concatenate([one.within, other.within], axis=1)).squares(np.concatenate(pairs))

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
        one, other = self.first.answers, self.second.answers
        if one is None or other is None:
            return None
        return one.weighting.only_right(one.scores[2], other.scores[2])

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
        n, spread = rows.effective_n, Variance(math.nan)
        if only.variance > _ROUNDING:
            spread = variance_of(changes * n, only.variance * n, self.sizes)
        trials = rows.trials(n, spread, level, varied=only.variance > _ROUNDING)
        return Interval(*only.interval(value, trials, normal_quantile(level)), f"Bonett and Price{BY_CLUSTER}")


def variance(around: Float64s, sizes: Float64s, unseen: float = 0.0) -> Variance:
    """Return the variance of a measure or a difference from its centred parts in the buckets, and what was not seen."""
    df, share = degrees_of_freedom(sizes, CORRELATION)
    return Variance(float(np.sum(around**2)) / share + unseen, df=df)
