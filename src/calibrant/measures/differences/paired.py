"""Two models judged on the same rows: the intervals of differences are those of means of differences of rows.

A row has gaps r = p - y of both models; a bin of one model has n rows, S = sum r, the gap D = S / n, the share
o = n / N and the variance u of one residual.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.weights import deciding_rows, effective_n, integer_weights, rate_rows
from calibrant.measures.binned.binned import absolute_error, debiased_square, largest_members, uniform_edges
from calibrant.measures.binned.intervals import bin_diagram
from calibrant.measures.differences.pair import Mean, OnlyRight, UnitPair
from calibrant.measures.means.means import PredictionMeans, heavy, rare, rarer_of
from calibrant.results import ReliabilityDiagram
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import cached_property
from calibrant.statistics.intervals import FEWEST, blend, thinned, unbiased_end
from calibrant.statistics.null import Interval
from calibrant.statistics.resampling import normal_quantile
from calibrant.statistics.variance import Variance

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


@dataclass(frozen=True, eq=False, kw_only=True)
class BinnedRows:
    """One model's judged rows: ``index`` is each row's place among the filled bins, ``row_gaps`` its p - y, both (N,).

    ``places`` are the filled ones of the ``n_bins`` bins; ``counts`` is the weight of each, ``rows`` the number of rows
    that weigh as much, ``rate_rows`` that in which the outcome rate is as uncertain, ``score_sums`` the sum of p and
    ``gap_sums`` S; ``square_weights``, ``squared_gaps``, ``squared_residuals`` and ``null_variances`` are the sums of
    q, q r, q r^2 and q p (1 - p), each (M,).
    """

    weighting: Weighting
    n_bins: int
    places: NDArray[np.intp]
    index: NDArray[np.intp]
    row_gaps: Float64s
    counts: Float64s
    rows: Float64s
    rate_rows: Float64s
    square_weights: Float64s
    squared_gaps: Float64s
    score_sums: Float64s
    gap_sums: Float64s
    squared_residuals: Float64s
    null_variances: Float64s
    rarer: float

    @classmethod
    def of(
        cls, scores: NDArray[np.floating[Any]], outcomes: NDArray[np.uint8], weighting: Weighting, n_bins: int
    ) -> BinnedRows:
        """Put rows into equal-width bins, and leave empty bins out."""
        bins = np.searchsorted(largest_members(uniform_edges(n_bins), "right", scores.dtype), scores)
        filled = np.bincount(bins, minlength=n_bins) > 0
        index = (np.cumsum(filled) - 1)[bins]
        p, w, q = scores.astype(np.float64), weighting.mass, weighting.squares
        r = p - outcomes

        def cut(values: Float64s) -> Float64s:
            return np.bincount(index, values).astype(np.float64, copy=False)

        counts = cut(w)
        kinds = (np.bincount(outcomes, each, 2).astype(np.float64) for each in (w, q))
        squares, hits, squared_hits = cut(q), cut(w * outcomes), cut(q * outcomes)
        return cls(
            weighting=weighting,
            n_bins=n_bins,
            places=np.flatnonzero(filled),
            index=index,
            row_gaps=r,
            counts=counts,
            rows=effective_n(counts, squares),
            rate_rows=rate_rows(hits / counts, counts, np.stack([squares - squared_hits, squared_hits])),
            square_weights=squares,
            squared_gaps=cut(q * r),
            score_sums=cut(w * p),
            gap_sums=cut(w * r),
            squared_residuals=cut(q * r * r),
            null_variances=cut(q * p * (1 - p)),
            rarer=rarer_of(*kinds),
        )

    def diagram(self, level: float) -> ReliabilityDiagram:
        """Return the bins with Clopper-Pearson intervals of their rates and the band of calibration."""
        return bin_diagram(
            self.n_bins,
            places=self.places,
            counts=self.counts,
            rows=self.rows,
            rate_rows=self.rate_rows,
            score_sums=self.score_sums,
            gap_sums=self.gap_sums,
            level=level,
            integer_weights=self.weighting.integer_weights,
        )

    @cached_property
    def absolute(self) -> float:
        """The l1 calibration error."""
        return float(absolute_error(self.gap_sums, self.weighting.total))

    @cached_property
    def _per_pair(self) -> Float64s:
        """What each pair of rows of a bin adds to the squared error, 1 / (N (n - 1)); 0 in a bin of one row."""
        several = self.rows > 1
        pairs = np.where(several, self.counts**2 * (1 - 1 / self.rows), 1.0)
        return np.where(several, self.counts / pairs, 0.0) / self.weighting.total

    @cached_property
    def square(self) -> float:
        """The unbiased estimate of the squared l2 error."""
        total = self.weighting.total
        return float(debiased_square(self.gap_sums, self.squared_residuals, self.counts, self.rows, total))

    @cached_property
    def gaps(self) -> Float64s:
        """The gap D of each bin."""
        return self.gap_sums / self.counts

    @cached_property
    def _within(self) -> Float64s:
        """The variance u of one residual around its bin's mean, blended with what calibration implies."""
        centre = self.gaps * (2 * self.squared_gaps - self.gaps * self.square_weights)
        around = np.maximum(self.squared_residuals - centre, 0.0)
        return self.rows * blend(self.rows, around, self.null_variances) / self.counts**2

    @cached_property
    def steady(self) -> Float64s:
        """D without its noise: the root of D^2 - u / n, or 0."""
        return np.sign(self.gaps) * np.sqrt(np.maximum(self.gaps**2 - self._within / self.rows, 0.0))

    @cached_property
    def noise(self) -> float:
        """The variance of the estimate of the squared error where all gaps are 0: 2 sum o^2 u^2 / (n (n - 1))."""
        several, share = self.rows > 1, self.counts / self.weighting.total
        n = self.rows[several]
        return 2 * float(np.sum((share * self._within)[several] ** 2 / (n * (n - 1))))

    @cached_property
    def around(self) -> Float64s:
        """Each row's r - D, times the root of what a pair of its bin adds."""
        return (self.row_gaps - self.gaps[self.index]) * np.sqrt(self._per_pair)[self.index]

    def influence(self, gaps: Float64s) -> Float64s:
        """Return 2 D r - D^2, what each row adds to the squared error, for these gaps of the bins."""
        gap = gaps[self.index]
        return gap * (2 * self.row_gaps - gap)

    @cached_property
    def _variances(self) -> Float64s:
        """The blended estimates of the variance of S."""
        return np.maximum(blend(self.rows, self.squared_residuals, self.null_variances), np.finfo(float).tiny)

    @cached_property
    def thin(self) -> tuple[float, Float64s]:
        """G = sum sqrt(v) g(S / sqrt v) / N, which estimates the l1 error with a bias downwards, and the slopes g'."""
        roots = np.sqrt(self._variances)
        g, slopes = thinned(self.gap_sums / roots)
        return float(np.sum(roots * g)) / self.weighting.total, slopes

    @cached_property
    def above(self) -> float:
        """G with its largest bias, an estimate of the l1 error that is biased upwards; infinite with few bins."""
        roots = float(np.sum(np.sqrt(self._variances)))
        several = roots**2 >= FEWEST * float(self._variances.sum())
        return unbiased_end(self.thin[0], roots / self.weighting.total, 0.0, several=several)

    def sloped(self, slopes: Float64s) -> tuple[Float64s, float]:
        """Return f r of each row, f a slope of each bin, and the sum of squares that calibration implies beyond it."""
        unseen = np.maximum(self._variances - self.squared_residuals, 0.0)
        return slopes[self.index] * self.row_gaps, float(np.sum(unseen * slopes**2))


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Model:
    """What a comparison needs to know about one model.

    Attributes
    ----------
    name : str
        Its name.
    judged : BinnedRows
        Its judged rows.
    means : PredictionMeans
        The means over its predictions.
    brier, nll : (N,)
        The Brier score and the log loss of each row.
    right : (N,) bool
        Whether the predicted class is right.
    """

    name: str
    judged: BinnedRows
    means: PredictionMeans
    brier: Float64s
    nll: Float64s
    right: NDArray[np.bool_]

    @property
    def square(self) -> float:
        """The unbiased estimate of the squared l2 error."""
        return self.judged.square

    @property
    def absolute(self) -> float:
        """The l1 calibration error."""
        return self.judged.absolute

    def scores(self, mean: Mean) -> Float64s:
        """Return what each row adds to a mean, (N,)."""
        return {"brier": self.brier, "nll": self.nll}.get(mean, self.right.astype(np.float64))


@dataclass(frozen=True, eq=False)
class RowPair(UnitPair[Model]):
    """Two models judged on the same rows, which are independent of each other."""

    mean_method = "paired central limit theorem"
    square_method = "paired U-statistics, normal"

    @property
    def weighting(self) -> Weighting:
        """The weighting of the rows."""
        return self.first.judged.weighting

    @property
    def flag(self) -> str:
        """A warning where one outcome is too rare, or few rows weigh too much, or nothing."""
        rarer, name = min((model.judged.rarer, model.name) for model in (self.first, self.second))
        return "; ".join(filter(None, (rare(rarer, f" for {name}"), heavy(self.weighting.deciding_rows))))

    @property
    def units(self) -> tuple[BinnedRows, BinnedRows]:
        """The rows of both models."""
        return self.first.judged, self.second.judged

    def changes(self, mean: Mean) -> Float64s:
        """Return the difference of each row."""
        return self.first.scores(mean) - self.second.scores(mean)

    def change(self, mean: Mean) -> float:
        """Return the mean of the differences of rows, in which no digits are lost."""
        return self.weighting.mean(self.changes(mean))

    def variance(self, changes: Float64s, unseen: float = 0.0) -> Variance:
        """Return the variance of the mean of differences; ``unseen`` is added to the sum of squares."""
        return Variance(self.weighting.variance(changes, unseen))

    def noise(self) -> float:
        """Return the variances of the noise of both estimates less twice their covariance."""
        one, other = self.units
        return one.noise + other.noise - 2 * shared_noise(one, other)

    @property
    def only_right(self) -> OnlyRight:
        """Which rows only one model predicts right."""
        return self.weighting.only_right(self.first.right, self.second.right)

    def accuracy_interval(self, value: float, level: float) -> Interval:
        """Return the interval of Bonett and Price, in the rows as equal ones."""
        only, weighting = self.only_right, self.weighting
        spread = float(np.sum(weighting.squares * (self.changes("accuracy") - value) ** 2))
        rows = only.variance * weighting.total**2 / spread if spread > 0 else weighting.effective_n
        return Interval(*only.interval(value, rows, normal_quantile(level)), "Bonett and Price")


def shared_noise(first: BinnedRows, second: BinnedRows) -> float:
    """Return the covariance of the noise of the two estimates of a squared error.

    2 sum over pairs i != j that share a bin in both models of a_i c_i c_j b_j, with c_i the covariance of the residuals
    of row i and a, b what a pair of the bin adds: by sums over each (bin of one, bin of the other). Below 0, where
    residuals move together in one part of a bin and apart in another, it is taken as 0.
    """
    cells = len(first.counts) * len(second.counts)
    joint = first.index * len(second.counts) + second.index
    if cells > max(len(joint), _DENSE):
        _, joint = np.unique(joint, return_inverse=True)
    q = first.weighting.squares
    together = q * first.around * second.around
    itself = together**2 / q if first.weighting.integer_weights else together**2
    return max(2 * float(np.sum(np.bincount(joint, together) ** 2) - np.sum(itself)), 0.0)
