"""Two models judged on the same rows: differences, first minus second, of their measures, with intervals.

A row has gaps r = p - y of both models; a bin of one model has n rows, S = sum r, the gap D = S / n, the share
o = n / N and the variance u of one residual. What the rows have in common cancels in the differences of what each row
adds to the two measures, so the intervals are those of the mean of such differences.

A calibration error is a sum of squares or of sizes of gaps, which is not normal where gaps are near zero: there the
variance of the square includes the noise of its own estimate, and the size is bounded from both sides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.weights import deciding_rows, effective_n, integer_weights, rate_rows, tidy_weight
from calibrant.measures.binned.binned import absolute_error, debiased_square, largest_members, uniform_edges
from calibrant.measures.binned.intervals import bin_diagram
from calibrant.measures.means.means import PredictionMeans, heavy, rare, rarer_of
from calibrant.results import Estimate, ReliabilityDiagram
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import cached_property
from calibrant.statistics.intervals import FEWEST, blend, thinned, unbiased_end
from calibrant.statistics.resampling import two_sided

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
    def shrunk(self) -> Float64s:
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
    def _thinned(self) -> tuple[Float64s, Float64s]:
        return thinned(self.gap_sums / np.sqrt(self._variances))

    @cached_property
    def below(self) -> float:
        """G, an estimate of the l1 error that is biased downwards everywhere: sum sqrt(v) g(S / sqrt v) / N."""
        return float(np.sum(np.sqrt(self._variances) * self._thinned[0])) / self.weighting.total

    @cached_property
    def above(self) -> float:
        """G with its largest bias, an estimate of the l1 error that is biased upwards; infinite with few bins."""
        roots = float(np.sum(np.sqrt(self._variances)))
        several = roots**2 >= FEWEST * float(self._variances.sum())
        return unbiased_end(self.below, roots / self.weighting.total, 0.0, several=several)

    def slopes(self, *, below: bool) -> tuple[Float64s, float]:
        """Return what each row adds to G (``below``) or to the l1 error, and what to add to the sum of its squares.

        That is g'(S / sqrt v) r or sign(S) r; where calibration implies more variance than was seen, the rest.
        """
        of_bin = self._thinned[1] if below else np.sign(self.gap_sums)
        unseen = np.maximum(self._variances - self.squared_residuals, 0.0)
        return of_bin[self.index] * self.row_gaps, float(np.sum(unseen * of_bin**2))


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


def square_difference(first_model: Model, second_model: Model, level: float) -> Estimate:
    """Return the difference of the squared l2 errors, which decides.

    Its variance is the larger of two: the variance of the differences of the influences 2 D r - D^2, which is right if
    gaps are large; and their variance without the noise of D plus the variance of the estimates' noise, which is right
    near zero, where the estimates are far from normal.
    """
    first, second, z = first_model.judged, second_model.judged, quantile(level)
    value, weighting = first.square - second.square, first.weighting
    plain = weighting.variance(first.influence(first.gaps) - second.influence(second.gaps))
    noise = max(first.noise + second.noise - 2 * shared_noise(first, second), 0.0)
    steady = weighting.variance(first.influence(first.shrunk) - second.influence(second.shrunk)) + noise
    error = math.sqrt(max(plain, steady))
    details = {"standard_error": error}
    ends = value - z * error, value + z * error
    return Estimate(
        value, *ends, p_value=two_sided(value, error), method="paired U-statistics, normal", details=details
    )


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


def absolute_difference(first: Model, second: Model, level: float) -> Estimate:
    """Return the difference of the l1 errors, between two bounds that hold wherever the gaps are.

    low = G_A - U_B - z sd, high = U_A - G_B + z sd: the thinned G is biased downwards. U is biased upwards: the
    reported error, or G with its largest bias, whichever gives the nearer end. Each sd is that of the row differences
    of what is subtracted.
    """
    z, a, b = quantile(level), first.judged, second.judged

    def most(above: BinnedRows, below: BinnedRows) -> float:
        lower, unseen = below.slopes(below=True)

        def end(value: float, *, thinned_slopes: bool) -> float:
            upper, unseen_above = above.slopes(below=thinned_slopes)
            return value - below.below + z * math.sqrt(below.weighting.variance(lower - upper, unseen + unseen_above))

        plain = end(above.absolute, thinned_slopes=False)
        return plain if math.isinf(above.above) else min(plain, end(above.above, thinned_slopes=True))

    low, high = -most(b, a), most(a, b)
    return Estimate(a.absolute - b.absolute, low, high, method="Gaussian thinning of both: safe, and wide")


def brier_difference(first: Model, second: Model, level: float) -> Estimate:
    """Return the difference of the Brier scores."""
    return mean_difference(first.brier, second.brier, first.judged.weighting, level)


def loss_difference(first: Model, second: Model, level: float) -> Estimate:
    """Return the difference of the log losses; infinite, or not a number where both are infinite, with the reason."""
    weighting = first.judged.weighting
    lost = {model.name: tidy_weight(float(np.sum(weighting.mass[np.isinf(model.nll)]))) for model in (first, second)}
    if not any(lost.values()):
        return mean_difference(first.nll, second.nll, weighting, level)
    return infinite_difference(lost)


def mean_difference(first: Float64s, second: Float64s, weighting: Weighting, level: float) -> Estimate:
    """Return the mean of the differences of rows: mean -+ z sd / sqrt(n), the variance that of n - 1."""
    rows, z = first - second, quantile(level)
    value = weighting.mean(rows)
    error = math.sqrt(weighting.variance(rows))
    return Estimate(value, value - z * error, value + z * error, method="paired central limit theorem")


def infinite_difference(lost: Mapping[str, float]) -> Estimate:
    """Return the difference of two log losses that are not both finite, from the weight of each model's lost rows."""
    first, second = lost.values()
    value = math.nan if first and second else math.inf if first else -math.inf
    sentences = [
        f"{count:,} outcome{'s' * (count != 1)} happened that {name} gave probability 0"
        for name, count in lost.items()
        if count
    ]
    reason = f"infinite: {'; '.join(sentences)}"
    return Estimate(value, method=f"not available: {reason}", details={"infinite_rows": dict(lost), "reason": reason})


def accuracy_difference(first: Model, second: Model, level: float) -> Estimate:
    """Return the difference of the accuracies, with the interval of Bonett and Price (2012).

    With p and q the shares of rows that only the first, only the second model predicts right, each counted with one row
    more in n + 2: p - q -+ z sqrt((p + q - (p - q)^2) / (n + 2)). Unlike the normal interval it has a width if the
    models never differed.
    """
    weighting = first.judged.weighting
    only = [weighting.mean(first.right & ~second.right), weighting.mean(second.right & ~first.right)]
    value, change = only[0] - only[1], first.right.astype(np.float64) - second.right
    spread, equal = float(np.sum(weighting.squares * (change - value) ** 2)), sum(only) - value**2
    n = equal * weighting.total**2 / spread if spread > 0 else weighting.effective_n
    p, q = ((share * n + 1) / (n + 2) for share in only)
    half = quantile(level) * math.sqrt(max(p + q - (p - q) ** 2, 0.0) / (n + 2))
    counts = dict(
        zip(("only_first", "only_second"), (tidy_weight(share * weighting.total) for share in only), strict=True)
    )
    ends = min(p - q - half, value), max(p - q + half, value)
    return Estimate(value, *ends, method="Bonett and Price", details=counts)


def quantile(level: float) -> float:
    """Return the normal quantile of the ends of an interval."""
    from scipy.special import ndtri

    return float(ndtri((1 + level) / 2))


def flags(first: Model, second: Model) -> dict[str, str]:
    """Return a warning where one outcome is too rare, or few rows weigh too much, for intervals to be trusted."""
    rarer, name = min((model.judged.rarer, model.name) for model in (first, second))
    flag = "; ".join(filter(None, (rare(rarer, f" for {name}"), heavy(first.judged.weighting.deciding_rows))))
    return {"flag": flag} if flag else {}
