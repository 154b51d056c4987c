"""Bins of rows in clusters.

A bin has n rows, n_h of them in bucket h, S = sum (p - y) with the part S_h in bucket h, Q = sum (p - y)^2 and V0 =
sum p (1 - p). The variance of S is the one for independent rows times a design effect, v = (K Q + 5 V0) / (K + 5) deff,
K = n^2 / sum n_h^2 the effective number of clusters in the bin: five rows of prior become five clusters. Student's
distribution takes the place of the normal one, and the buckets show the correlations of bins.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.weights import effective_n
from calibrant.measures.binned.bin_sums import BinMoments, BinSums, Correlations
from calibrant.measures.binned.binned import Bins, bin_table, quantile_bin_of, uniform_bin_of
from calibrant.measures.event import Event
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import cached_property
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.buckets import (
    NOTHING,
    around_mean,
    centred,
    common_signs,
    degrees_of_freedom,
    upper_quantile,
    variance_of,
)
from calibrant.statistics.design import Clustered, SamplingDesign
from calibrant.statistics.intervals import PRIOR_ROWS, Variance, blend, centred_blend
from calibrant.statistics.null import GammaMoments, absolute_moments

_LEAST_DEFF: Final = 0.05  # of a bin, by the correlation of rows alone
_CORRELATION: Final = (-0.5, 1.0)  # the range of the correlation of rows
_FEW: Final = 1.5  # effective clusters of a bin below which it says nothing about its own design effect
_PAIRS: Final = 1e-9  # relative: fewer pairs of rows in a cluster, or of different clusters, are rounding
_ROUNDING: Final = 1e-12  # relative: smaller sums of squares around a mean are rounding
_SMALLEST: Final = 1e-3  # design effect of a rate
_FAINT: Final = 1e-140  # of a variance: its square is hardly a float
_ROWS: Final = 512  # of the matrix of correlations of bins, at a time
_MOST: Final = 4_000  # bins: with more, not all pairs are computed
_MOST_SKEWNESS: Final = absolute_moments(np.ones(1)).skewness  # that of one folded normal


def null_scales(squares: Float64s, null_variances: Float64s) -> Float64s:
    """Return c = sqrt(V0 / Q); 0 where every score is 0 or 1 and right."""
    return np.sqrt(np.divide(null_variances, squares, out=np.zeros_like(squares), where=squares > 0))


@dataclass(frozen=True, eq=False, kw_only=True)
class ClusterBins(BinSums):
    """The filled bins of rows in clusters, (M,), and their parts in the buckets, (H, M).

    ``moments.first`` is the first coarse cell of each bin.
    """

    n: Float64s  # (H, M): the weight of each bucket in each bin
    gaps: Float64s  # (H, M): the sum of p - y
    score_sums: Float64s  # (H, M): the sum of p
    weights: Float64s  # (H,): the weight of the rows of each bucket
    sizes: Float64s  # (H,): their number as equal rows
    shared: bool = False  # whether a row is in several bins, as for bins of several classes

    @classmethod
    def of(cls, rows: Clustered, bins: NDArray[np.intp]) -> ClusterBins:
        """Return the bins; ``bins`` is the bin of each cell of `Clustered.fine`, in increasing order.

        A coarse cell is in the bin of the cell in its middle: this is exact for uniform bins whose number divides 300.
        """
        moments = BinMoments.of(rows.cells, bins[rows.cells.middle])
        n, y, gaps = (np.add.reduceat(sums, moments.first, axis=1) for sums in (rows.n, rows.y, rows.gaps))
        return cls(moments=moments, n=n, gaps=gaps, score_sums=gaps + y, weights=rows.weights, sizes=rows.sizes)

    # ------------------------------------------------------------ measures

    @cached_property
    def pair_weights(self) -> Float64s:
        """What a pair of rows of different buckets adds to the squared error, o / (n^2 - sum n_h^2), o = n / N.

        0 in a bin of one bucket, which has no such pair.
        """
        n = self.moments.counts
        pairs = n**2 - np.sum(self.n**2, axis=0)
        several = pairs > _PAIRS * n**2
        return np.where(several, n / self.moments.total / np.where(several, pairs, 1.0), 0.0)

    def debiased_square(self, gap_sums: Float64s, own_squares: Float64s) -> Float64s:
        """Return sum o (S^2 - sum_h S_h^2) / (n^2 - sum_h n_h^2), from S of each bin and from sum_h S_h^2.

        Only pairs of rows of different buckets count: two of one cluster would add their covariance.
        """
        return np.asarray((gap_sums**2 - own_squares) @ self.pair_weights)

    @cached_property
    def own_squares(self) -> Float64s:
        """The sum of S_h^2 over buckets."""
        return np.asarray(np.sum(self.gaps**2, axis=0))

    # ------------------------------------------------------------ under calibration

    @cached_property
    def scales(self) -> Float64s:
        """The factor c = sqrt(V0 / Q) of each bin."""
        return null_scales(self.moments.squared_residuals, self.moments.null_variances)

    @property
    def null_gaps(self) -> Float64s:
        """The sums c S_h, (H, M): their products are the covariance of the bins' S under calibration."""
        return self.gaps * self.scales

    @cached_property
    def null_variances(self) -> Float64s:
        """The variance of each S under calibration."""
        return np.asarray(np.sum(self.null_gaps**2, axis=0))

    @cached_property
    def varied(self) -> NDArray[np.bool_]:
        """The bins whose S varies under calibration: not those where clusters have the outcomes of their scores."""
        return np.asarray(
            (self.own_squares > NOTHING * self.moments.squared_residuals) & (self.null_variances > _FAINT)
        )

    @cached_property
    def null_absolute(self) -> GammaMoments | None:
        """The gamma distribution of sum |S| under calibration; None where nothing varies.

        With s and r the standard deviations and correlations of S: mean sqrt(2 / pi) sum s, variance s' F s with F =
        2 / pi (sqrt(1 - r^2) + r asin r - 1), the covariance of folded normals. The skewness is that of independent
        bins times the root of (variance / variance of independent bins), at most that of one folded normal.
        """
        sums = self.null_gaps[:, self.varied]
        if not sums.size:
            return None
        s = np.sqrt(np.sum(sums**2, axis=0))
        plain = absolute_moments(s**2)
        sd = math.sqrt(_folded_variance(s, sums / s))
        return GammaMoments(plain.mean, sd, min(plain.skewness * sd / plain.sd, _MOST_SKEWNESS))

    @property
    def null_rounding(self) -> float:
        """The most that sum |S| is where no S varies: S^2 <= H A and A <= 1e-10 Q. Bins of certain scores add 0."""
        squares = np.where(self.moments.null_variances > 0, self.moments.squared_residuals, 0.0)
        return math.sqrt(NOTHING * len(self.sizes)) * float(np.sqrt(squares).sum())

    def null_square(self, weights: Float64s) -> tuple[float, float]:
        """Return tr M, and tr(M)^2 / sum M^2, M = Sigma0_bc sqrt(a_b a_c) with the covariance Sigma0 of S."""
        sums = (self.null_gaps * np.sqrt(weights))[:, self.varied]
        squares = np.sum(sums**2, axis=0)
        mean = float(squares.sum())
        return mean, mean**2 / Correlations.of(sums).squares(squares) if mean else 0.0

    # ------------------------------------------------------------ design effects

    @cached_property
    def units(self) -> Float64s:
        """K, the effective number of clusters in each bin."""
        return np.asarray(self.moments.counts**2 / np.sum(self.n**2, axis=0))

    @cached_property
    def pairs(self) -> Float64s:
        """For each row of a bin, how many others of its cluster are in the bin: sum n_h^2 / n - 1."""
        return np.asarray(np.sum(self.n**2, axis=0) / self.moments.square_weights - 1)

    @cached_property
    def within(self) -> Float64s:
        """u', the sums S_h around the gap of their bin, (H, M)."""
        return np.asarray(self.gaps - self.n * (self.moments.gap_sums / self.moments.counts))

    @cached_property
    def _raw(self) -> Float64s:
        """The design effect that the buckets show: H / (H - 1) sum u^2 over its mean for independent rows.

        The sums u are S_h less the share of S that the weight of the bucket suggests. NaN in bins whose rows do not
        vary around their share of S.
        """
        bins, buckets = self.moments, len(self.sizes)
        share = bins.gap_sums / bins.weight
        square_total = bins.weight**2 / bins.effective_n
        squares = bins.squared_residuals - share * (2 * bins.squared_gaps - share * square_total)
        by_bucket = np.sum(centred(self.gaps, self.weights) ** 2, axis=0) * buckets / (buckets - 1)
        varied = squares > _ROUNDING * bins.squared_residuals
        return np.asarray(np.divide(by_bucket, squares, out=np.full_like(by_bucket, np.nan), where=varied))

    @cached_property
    def rho(self) -> float:
        """The correlation of two rows of a bin and a cluster, over all bins; 1 where no rows vary, as for copies."""
        bins = self.moments
        varied = ~np.isnan(self._raw) & (self.pairs > _PAIRS)
        expected = float(np.sum((self.pairs * bins.null_variances)[varied]))
        excess = float(np.sum(((self._raw - 1) * bins.null_variances)[varied]))
        return min(max(excess / expected, _CORRELATION[0]), _CORRELATION[1]) if expected > 0 else 1.0

    @cached_property
    def prior(self) -> Float64s:
        """The design effect of each bin by the correlation of rows, 1 + rho (sum n_h^2 / n - 1)."""
        return np.maximum(1 + self.rho * self.pairs, _LEAST_DEFF)

    @cached_property
    def deff(self) -> Float64s:
        """The design effect of each S, that of the buckets blended with five clusters of the prior."""
        return np.where(np.isnan(self._raw), self.prior, self._blended(self._raw))

    @cached_property
    def gap_deff(self) -> Float64s:
        """The design effect of each S around the gap of the bin.

        That is K / (K - 1) sum u'^2 over the variance for independent rows. A bin with less than one and a half
        effective clusters shows nothing of it.
        """
        bins, k, n = self.moments, self.units, self.moments.rows
        several = (k > _FEW) & (bins.within > _ROUNDING * bins.squared_residuals) & (n > 1)
        independent = bins.within * n / np.where(several, n - 1, 1.0)
        raw = k / np.where(several, k - 1, 1.0) * np.sum(self.within**2, axis=0)
        return np.where(several, self._blended(raw / np.where(several, independent, 1.0)), self.prior)

    def _blended(self, raw: Float64s) -> Float64s:
        return np.asarray((self.units * raw + PRIOR_ROWS * self.prior) / (self.units + PRIOR_ROWS))

    # ------------------------------------------------------------ variances

    @cached_property
    def common(self) -> Sequence[Float64s]:
        """The signs of the bins' gaps where clusters move them together, (M,) each.

        They move all bins alike, or those above the mean score against those below it, as the mean and the slope of the
        log-odds do. None where a row is in several bins, as in those of classes: over classes its gaps add up to 0.
        """
        if self.shared:
            return ()
        bins = self.moments
        return common_signs(bins.score_sums / bins.counts, float(bins.score_sums.sum()) / bins.weight)

    @cached_property
    def correlations(self) -> Correlations:
        """The correlations of the buckets' sums."""
        return Correlations.of(centred(self.gaps, self.weights))

    @cached_property
    def gap_correlations(self) -> Correlations:
        """The correlations of the buckets' sums around the gaps of the bins."""
        return Correlations.of(self.within)

    def linear(self, slopes: Sequence[Float64s]) -> list[Variance]:
        """Return the variance of sum f S for each f: the blended variance times the design effect.

        Where a row is in several bins only the buckets know its variance; what calibration implies beyond it is added.
        """
        return [self._of_shared(f) if self.shared else self._linear(f) for f in slopes]

    def _linear(self, slopes: Float64s) -> Variance:
        bins, sums = self.moments, self.gaps @ slopes
        mean = float(np.sum(slopes * bins.gap_sums)) / bins.weight
        linear, total = float(np.sum(slopes * bins.squared_gaps)), bins.weight**2 / bins.effective_n
        seen = around_mean(float(np.sum(slopes**2 * bins.squared_residuals)), mean, linear, total)
        blended = blend(self.units, bins.squared_residuals, bins.null_variances)
        by_bucket = variance_of(centred(sums, self.weights), seen, self.sizes)
        variance = around_mean(float(np.sum(slopes**2 * blended)), mean, linear, total)
        units = effective_n(float(self.weights.sum()), float(np.sum(self.weights**2)))
        variance = centred_blend(units, seen, float(np.sum(slopes**2 * bins.null_variances)), variance)
        return Variance(variance * by_bucket.deff, by_bucket.deff, by_bucket.df)

    def _of_shared(self, slopes: Float64s) -> Variance:
        df, share = degrees_of_freedom(self.sizes, max(self.rho, 0.0))
        unseen = np.maximum(self.variances - self.moments.squared_residuals * self.deff, 0.0)
        around = centred(self.gaps @ slopes, self.weights)
        return Variance(float(np.sum(around**2)) / share + float(np.sum(slopes**2 * unseen)), math.nan, df)

    # ------------------------------------------------------------ around the gaps of the bins

    @cached_property
    def pair_noise(self) -> float:
        """2 sum_bc a_b a_c Sigma'_bc^2, a what a pair adds and Sigma' the covariance around the gaps of the bins."""
        return 2 * self.gap_correlations.squares(self.pair_weights * self.gap_variances)

    def influence_sums(self, gaps: Float64s) -> Float64s:
        """Return the sums over buckets of 2 D (r - D_b) + D^2, (H,): D these gaps, D_b those seen."""
        return np.asarray(self.within @ (2 * gaps) + self.n @ gaps**2)

    def influence(self, gaps: Float64s) -> Variance:
        """Return the variance of the sum of 2 D r - D^2 over rows: the blended variance times the design effect.

        That is [sum 4 D^2 (K Q' + 5 V0) / (K + 5) + sum n (D^2 - m)^2] deff, m the mean of D^2 and Q' = sum (r - D)^2.
        """
        moments, squares, between = self.moments, gaps**2, super().between(gaps**2)
        mean = float(np.sum(moments.counts * squares)) / moments.total
        seen = 4 * float(np.sum(squares * moments.within)) + between
        blended = 4 * float(np.sum(squares * blend(self.units, moments.within, moments.null_variances))) + between
        by_bucket = variance_of(self.influence_sums(gaps) - mean * self.weights, seen, self.sizes)
        df = by_bucket.df if seen > 0 else degrees_of_freedom(self.sizes, 0.0)[0]
        return Variance(blended * by_bucket.deff, by_bucket.deff, df)

    def between(self, squares: Float64s) -> float:
        """Return the sum over buckets of (sum n_h (D^2 - m))^2, m the mean of D^2."""
        moments = self.moments
        mean = float(np.sum(moments.counts * squares)) / moments.total
        return float(np.sum((self.n @ squares - mean * self.weights) ** 2))

    # ------------------------------------------------------------ rates

    def outcomes(self, slopes: Float64s, rate: float) -> Variance:
        """Return the variance of sum f (y - r) by its sums over buckets."""
        bucket_sums = (self.score_sums - self.gaps - rate * self.n) @ slopes
        square = float(np.sum(self.moments.square_weights * slopes**2)) * rate * (1 - rate)
        return variance_of(centred(bucket_sums, self.weights), square, self.sizes)

    def rate_rows(self, tail: float) -> Float64s:
        """Return in how many independent rows each rate would be as uncertain, for a bound at ``tail``.

        n / deff (z / t)^2 (Korn and Graubard 1998), t with K - 1 degrees of freedom.
        """
        from scipy.special import ndtri

        z, t = float(ndtri(1 - tail)), upper_quantile(tail, self._df)
        return np.asarray(self.moments.rate_rows / np.maximum(self.gap_deff, _SMALLEST) * (z / t) ** 2)

    @property
    def mean_variances(self) -> Float64s:
        """The variance of each mean score: by its buckets, but not below that of independent rows."""
        moments, k = self.moments, self.units
        around = self.score_sums - self.n * (moments.score_sums / moments.counts)
        several = k > _FEW
        by_bucket = np.where(several, k / np.where(several, k - 1, 1.0), 0.0) * np.sum(around**2, axis=0)
        return np.asarray(np.maximum(moments.mean_variances, by_bucket / moments.counts**2))

    def mean_score_margins(self, tail: float) -> Float64s:
        """Return t^2 times the variance of each mean score."""
        return np.asarray(upper_quantile(tail, self._df) ** 2 * self.mean_variances)

    @property
    def _df(self) -> Float64s:
        """The degrees of freedom of what a single bin shows."""
        return np.maximum(self.units - 1, 1.0)


def _folded_variance(s: Float64s, columns: Float64s) -> float:
    """Return s' F s, the variance of the sum of folded normals with correlations columns' columns.

    With thousands of bins F is taken as (1 - 2 / pi) r^2, which is equal for r = 0 and 1, and else larger.
    """
    if len(s) > _MOST:
        return (1 - 2 / math.pi) * Correlations.of(columns).squares(s)
    variance = 0.0
    for start in range(0, len(s), _ROWS):
        part = slice(start, start + _ROWS)
        r = np.clip(columns[:, part].T @ columns, -1.0, 1.0)
        variance += float(s[part] @ (np.sqrt(1 - r**2) + r * np.arcsin(r) - 1) @ s)
    return variance * 2 / math.pi


# ------------------------------------------------------------ the bins of an event, computed once: ``event.of(part)``


def uniform_bins(event: Event) -> Bins:
    """Return the equal-width bins of all rows."""
    return bin_table(event.table, event.n_bins)


def uniform_sums(event: Event) -> BinSums:
    """Return the sums over the equal-width bins of the cells."""
    return _sums(event.design, uniform_bin_of(event.design.fine.table, event.n_bins))


def quantile_sums(event: Event) -> BinSums:
    """Return the sums over the equal-mass bins of the cells."""
    return _sums(event.design, quantile_bin_of(event.design.fine.table, event.n_bins))


def _sums(design: SamplingDesign, bins: NDArray[np.intp]) -> BinSums:
    """Return the sums over bins; ``bins`` is the bin of each cell of `SamplingDesign.fine`."""
    return ClusterBins.of(design, bins) if isinstance(design, Clustered) else BinSums.of_cells(design.cells, bins)
