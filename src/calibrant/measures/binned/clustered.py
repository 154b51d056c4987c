"""Intervals of binned calibration errors of rows in clusters.

A bin has n rows, n_h of them in bucket h, S = sum (p - y) with the part S_h in bucket h, Q = sum (p - y)^2 and V0 =
sum p (1 - p). The variance of S is the one for independent rows times a design effect, v = (K Q + 5 V0) / (K + 5) deff,
K = n^2 / sum n_h^2 the effective number of clusters in the bin: five rows of prior become five clusters. Student's
quantile t takes the place of z. Otherwise these are the intervals of `binned.intervals`, with the correlations of bins
that the buckets show.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrant.measures.binned.binned import LEAST_ROWS, enough_rows, quantile_bin_of, uniform_bin_of
from calibrant.measures.binned.intervals import BinMoments
from calibrant.runtime.cached import cached_property
from calibrant.statistics.cluster_sums import (
    Clustered,
    Spread,
    around_mean,
    centred,
    common_signs,
    freedom,
    spread_of,
    upper_quantile,
    widest,
)
from calibrant.statistics.intervals import FEWEST, PRIOR_ROWS, blend, clopper_pearson, score_end, thinned, unbiased_end
from calibrant.statistics.resampling import alpha_of, t_quantile

Float64s = NDArray[np.float64]

#: The fewest effective clusters of a bin that takes part in the maximum.
LEAST_CLUSTERS: Final = 10

_TINY: Final = float(np.finfo(float).tiny)
_LEAST_DEFF: Final = 0.05  # of a bin, by the correlation of rows alone
_CORRELATION: Final = (-0.5, 1.0)  # the range of the correlation of rows
_FEW: Final = 1.5  # effective clusters of a bin below which it says nothing about its own design effect
_PAIRS: Final = 1e-9  # relative: fewer pairs of rows in a cluster, or of different clusters, are rounding
_ROUNDING: Final = 1e-12  # relative: smaller sums of squares around a mean are rounding
_SMALLEST: Final = 1e-3  # design effect of a rate


def uniform_bins(rows: Clustered, n_bins: int) -> NDArray[np.intp]:
    """Return the equal-width bin of each coarse cell: exact for a number of bins that divides 300."""
    return uniform_bin_of(rows.fine.table, n_bins)[rows.cells.middle]


def quantile_bins(rows: Clustered, n_bins: int) -> NDArray[np.intp]:
    """Return the equal-mass bin of each coarse cell, which is that of the cell in its middle."""
    return quantile_bin_of(rows.fine.table, n_bins)[rows.cells.middle]


@dataclass(frozen=True, eq=False, kw_only=True)
class ClusterBins:
    """The filled bins of rows in clusters, (M,), and their parts in the buckets, (H, M).

    Attributes
    ----------
    moments : BinMoments
        The sums over each bin; ``moments.first`` is its first coarse cell.
    n, gaps : (H, M)
        The weight, and the sum of p - y, of each bucket in each bin.
    score_sums : (H, M)
        The sum of p.
    weights, sizes : (H,)
        The weight of the rows of each bucket, and their number as equal rows.
    shared : bool
        Whether a row is in several bins, as for bins of several classes.
    """

    moments: BinMoments
    n: Float64s
    gaps: Float64s
    score_sums: Float64s
    weights: Float64s
    sizes: Float64s
    shared: bool = False

    @classmethod
    def of(cls, rows: Clustered, bins: NDArray[np.intp]) -> ClusterBins:
        """Return the bins; ``bins`` is the bin of each coarse cell, in increasing order."""
        moments = BinMoments.of(rows.cells, bins)
        n, y, gaps = (np.add.reduceat(sums, moments.first, axis=1) for sums in (rows.n, rows.y, rows.gaps))
        return cls(moments=moments, n=n, gaps=gaps, score_sums=gaps + y, weights=rows.weights, sizes=rows.sizes)

    # ------------------------------------------------------------ design effects

    @cached_property
    def clusters(self) -> Float64s:
        """K, the effective number of clusters in each bin."""
        return np.asarray(self.moments.counts**2 / np.sum(self.n**2, axis=0))

    @cached_property
    def pairs(self) -> Float64s:
        """For each row of a bin, how many others of its cluster are in the bin: sum n_h^2 / n - 1."""
        return np.asarray(np.sum(self.n**2, axis=0) / self.moments.square_weights - 1)

    @cached_property
    def around(self) -> Float64s:
        """u, the sums S_h less the share of S that the weight of the bucket suggests, (H, M)."""
        return centred(self.gaps, self.weights)

    @cached_property
    def within(self) -> Float64s:
        """u', the sums S_h around the gap of their bin, (H, M)."""
        return np.asarray(self.gaps - self.n * (self.moments.gap_sums / self.moments.counts))

    @cached_property
    def _raw(self) -> Float64s:
        """The design effect that the buckets show: H / (H - 1) sum u^2 over its mean for independent rows.

        NaN in bins whose rows do not vary around their share of S.
        """
        bins, buckets = self.moments, len(self.sizes)
        share = bins.gap_sums / bins.weight
        square_total = bins.weight**2 / bins.effective_n
        squares = bins.squared_residuals - share * (2 * bins.squared_gaps - share * square_total)
        own = np.sum(self.around**2, axis=0) * buckets / (buckets - 1)
        varied = squares > _ROUNDING * bins.squared_residuals
        return np.asarray(np.divide(own, squares, out=np.full_like(own, np.nan), where=varied))

    @cached_property
    def rho(self) -> float:
        """The correlation of two rows of a bin and a cluster, over all bins; 1 where no rows vary, as for copies."""
        bins = self.moments
        varied = ~np.isnan(self._raw) & (self.pairs > _PAIRS)
        whole = float(np.sum((self.pairs * bins.null_variances)[varied]))
        excess = float(np.sum(((self._raw - 1) * bins.null_variances)[varied]))
        return min(max(excess / whole, _CORRELATION[0]), _CORRELATION[1]) if whole > 0 else 1.0

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
        bins, k, n = self.moments, self.clusters, self.moments.rows
        several = (k > _FEW) & (bins.within > _ROUNDING * bins.squared_residuals) & (n > 1)
        independent = bins.within * n / np.where(several, n - 1, 1.0)
        raw = k / np.where(several, k - 1, 1.0) * np.sum(self.within**2, axis=0)
        return np.where(several, self._blended(raw / np.where(several, independent, 1.0)), self.prior)

    def _blended(self, raw: Float64s) -> Float64s:
        return np.asarray((self.clusters * raw + PRIOR_ROWS * self.prior) / (self.clusters + PRIOR_ROWS))

    # ------------------------------------------------------------ variances

    @cached_property
    def variances(self) -> Float64s:
        """The variance v of each S."""
        bins = self.moments
        blended = blend(self.clusters, bins.squared_residuals, bins.null_variances)
        return np.maximum(blended * self.deff, _TINY)

    @cached_property
    def gap_variances(self) -> Float64s:
        """The variance v' of each S around the gap of the bin."""
        return blend(self.clusters, self.moments.within, self.moments.null_variances) * self.gap_deff

    @cached_property
    def common(self) -> list[Float64s]:
        """The signs of the bins' gaps where clusters move them together, (M,) each.

        They move all bins alike, or those above the mean score against those below it, as the mean and the slope of the
        log-odds do. None where a row is in several bins, as in those of classes: over classes its gaps add up to 0.
        """
        if self.shared:
            return []
        bins = self.moments
        return common_signs(bins.score_sums / bins.counts, float(bins.score_sums.sum()) / bins.weight)

    @cached_property
    def directions(self) -> Directions:
        """The correlations of the bins' S."""
        return Directions.of(self.around)

    @cached_property
    def gap_directions(self) -> Directions:
        """The correlations of the bins' S around their gaps."""
        return Directions.of(self.within)

    def spread(self, slopes: Float64s) -> Spread:
        """Return the spread of sum f S, f a slope of each bin, of the blended variance times the design effect.

        Where a row is in several bins only the buckets know its variance; what calibration implies beyond it is added.
        """
        bins = self.moments
        sums = self.gaps @ slopes
        mean = float(np.sum(slopes * bins.gap_sums)) / bins.weight
        own = centred(sums, self.weights)
        if self.shared:
            df, share = freedom(self.sizes, max(self.rho, 0.0))
            unseen = np.maximum(self.variances - bins.squared_residuals * self.deff, 0.0)
            return Spread(float(np.sum(own**2)) / share + float(np.sum(slopes**2 * unseen)), math.nan, df)
        linear, total = float(np.sum(slopes * bins.squared_gaps)), bins.weight**2 / bins.effective_n
        seen = around_mean(float(np.sum(slopes**2 * bins.squared_residuals)), mean, linear, total)
        blended = blend(self.clusters, bins.squared_residuals, bins.null_variances)
        found = spread_of(own, seen, self.sizes)
        variance = around_mean(float(np.sum(slopes**2 * blended)), mean, linear, total)
        return Spread(max(variance, 0.0) * found.deff, found.deff, found.freedom)


@dataclass(frozen=True, eq=False)
class Directions:
    """The correlations C of bins, as C = U' U with columns U of length 1, (H, M); ``lone`` bins do not vary."""

    columns: Float64s
    lone: NDArray[np.bool_]

    @classmethod
    def of(cls, sums: Float64s) -> Directions:
        """Return the correlations of centred sums of buckets."""
        lengths = np.sqrt(np.sum(sums**2, axis=0))
        lone = lengths == 0
        return cls(sums / np.where(lone, 1.0, lengths), lone)

    def quadratic(self, x: Float64s) -> float:
        """Return x' C x."""
        return float(np.sum((self.columns @ x) ** 2)) + float(np.sum(x[self.lone] ** 2))

    def squares(self, x: Float64s) -> float:
        """Return sum x_b x_c C_bc^2 over all pairs of bins, by the H x H matrix U diag(x) U'."""
        return float(np.sum(((self.columns * x) @ self.columns.T) ** 2)) + float(np.sum(x[self.lone] ** 2))


# ------------------------------------------------------------ intervals


def absolute_interval(bins: ClusterBins, value: float, level: float, *, rejected: bool) -> tuple[float, float]:
    """Return the interval of the l1 error.

    low = [G - t sd[g']] / N with G = sum sqrt(v) g(S / sqrt v). The upper end is the smallest of T + t sd[sign] / N, G
    with its largest bias and t sd[g'] / N, and a bound by Cauchy and Schwarz, as in
    `binned.intervals.absolute_interval`. sd[f] is that of sum f r over rows, with the t of its own degrees of freedom;
    for the upper end it is not below that for gaps which clusters move together, `widest`.
    """
    v, s = bins.variances, bins.moments.gap_sums
    g, slope = thinned(s / np.sqrt(v))
    thin, sign = bins.spread(slope), bins.spread(np.sign(s))
    common = [bins.spread(signs) for signs in bins.common]
    middle, roots = float(np.sum(np.sqrt(v) * g)), float(np.sum(np.sqrt(v)))
    jensen = float(np.sum(np.abs(s))) + widest([sign, *common], level)
    several = all(roots**2 >= FEWEST * each.variance for each in (sign, *common))
    least_biased = unbiased_end(middle, roots, widest([thin, *common], level), several=several)
    high = min(jensen, least_biased, _cauchy_schwarz(bins, t_quantile(level, sign.freedom))) / bins.moments.total
    low = max((middle - widest([thin], level)) / bins.moments.total, 0.0) if rejected else 0.0
    return min(low, value), max(high, value)


def _cauchy_schwarz(bins: ClusterBins, t: float) -> float:
    """Return the bound sqrt(sum W m), W = sqrt V0 and m the upper end of sum S^2 / W, whose variance grows with it.

    A = sum (S^2 - Q deff) / W estimates m. Its variance is 4 rho m + B, B = 2 sum_bc Sigma_bc^2 / (W_b W_c) the one
    without gaps, rho the largest of those for gaps that are large in the direction of the signs, of what was seen, of a
    common effect of the clusters, or in each bin by itself.
    """
    moments, v = bins.moments, bins.variances
    uncertain = moments.null_variances > 0
    rest = float(np.sum((np.abs(moments.gap_sums) + t * np.sqrt(v))[~uncertain]))  # scores of 0 and 1 alone
    if not uncertain.any():
        return rest
    w = np.where(uncertain, np.sqrt(moments.null_variances), 1.0)
    own, s = moments.squared_residuals * bins.deff, moments.gap_sums

    def over(values: Float64s) -> float:
        return float(np.sum(values[uncertain]))

    def quadratic(direction: Float64s) -> float:
        return bins.directions.quadratic(np.where(uncertain, direction * np.sqrt(v), 0.0))

    with np.errstate(over="ignore", invalid="ignore"):  # where a bin's scores are nearly certain
        largest = np.maximum(v, w**2 * bins.deff)
        spread = 2 * bins.directions.squares(np.where(uncertain, largest / w, 0.0))
        signs, h = np.where(s >= 0, 1.0, -1.0), np.where(uncertain, np.maximum(s**2 - own, 0.0), 0.0)
        rho = max(over(v), *map(quadratic, (signs, *bins.common))) / over(w)
        if h.any():
            rho = max(rho, max(quadratic(signs * np.sqrt(h) / w), over(h * v / w**2)) / over(h / w))
        excess = over((s**2 - own) / w)
    if not math.isfinite(excess + spread + rho):
        return math.inf  # it bounds nothing
    end = score_end(excess, rho, spread, t)
    return math.sqrt(over(w) * max(0.0, end)) + rest


def per_pair(bins: ClusterBins) -> Float64s:
    """Return what a pair of rows of different buckets adds to the squared error, o / (n^2 - sum n_h^2), (M,).

    0 in a bin of one bucket, which has no such pair.
    """
    n = bins.moments.counts
    pairs = n**2 - np.sum(bins.n**2, axis=0)
    several = pairs > _PAIRS * n**2
    return np.where(several, n / bins.moments.total / np.where(several, pairs, 1.0), 0.0)


def square_value(bins: ClusterBins) -> float:
    """Return the unbiased squared l2 error, sum o (S^2 - sum_h S_h^2) / (n^2 - sum_h n_h^2), o = n / N.

    Only pairs of rows of different buckets count: two of one cluster would add their covariance.
    """
    return float(np.sum(per_pair(bins) * (bins.moments.gap_sums**2 - np.sum(bins.gaps**2, axis=0))))


@dataclass(frozen=True, eq=False, kw_only=True)
class Influences:
    """What rows add to the squared error, 2 D r - D^2, and the noise of its estimate.

    ``gaps`` is the root of max(D^2 - v' / n^2, 0) with the sign of D, (M,); ``mean`` is m = sum o D^2 of these;
    ``noise`` is the variance of the estimate where all gaps are 0.
    """

    gaps: Float64s
    mean: float
    noise: float

    @classmethod
    def of(cls, bins: ClusterBins) -> Influences:
        moments = bins.moments
        gaps = moments.gap_sums / moments.counts
        steady = np.sign(gaps) * np.sqrt(np.maximum(gaps**2 - bins.gap_variances / moments.counts**2, 0.0))
        noise = 2 * bins.gap_directions.squares(per_pair(bins) * bins.gap_variances)
        return cls(gaps=steady, mean=float(np.sum(moments.counts * steady**2)) / moments.total, noise=noise)


def influence_sums(bins: ClusterBins, gaps: Float64s) -> Float64s:
    """Return the sums over buckets of 2 D (r - D_b) + D^2, (H,): D these gaps, D_b those seen."""
    return np.asarray(bins.within @ (2 * gaps) + bins.n @ gaps**2)


def square_interval(bins: ClusterBins, value: float, level: float, *, rejected: bool) -> tuple[float, float]:
    """Return the interval of the squared l2 error around its unbiased estimate T, `square_value`.

    low = T - t se, se^2 = [sum 4 D2 (K Q' + 5 V0) / (K + 5) + sum n (D2 - m)^2] deff / N^2 + nu, with D2 the squared
    gaps without their noise, m = sum o D2, Q' = sum (r - D)^2 and nu = 2 sum_bc a_b a_c Sigma'_bc^2, the noise of the
    pairs. The upper end solves the same for the true value, with the largest variance that value allows.
    """
    moments, parts = bins.moments, Influences.of(bins)
    total, d2 = moments.total, parts.gaps**2
    between = float(np.sum(moments.square_weights * (d2 - parts.mean) ** 2))
    own = bins.n @ d2 - parts.mean * bins.weights
    seen = 4 * float(np.sum(d2 * moments.within)) + between
    blended = 4 * float(np.sum(d2 * blend(bins.clusters, moments.within, moments.null_variances))) + between
    found = spread_of(influence_sums(bins, parts.gaps) - parts.mean * bins.weights, seen, bins.sizes)
    t = t_quantile(level, found.freedom if seen > 0 else freedom(bins.sizes, 0.0)[0])
    low = value - t * math.sqrt(blended * found.deff / total**2 + parts.noise)
    high = score_end(max(value, 0.0), _growth(bins, parts), parts.noise + float(np.sum(own**2)) / total**2, t)
    return (max(low, 0.0) if rejected else 0.0), max(high, value)


def _growth(bins: ClusterBins, parts: Influences) -> float:
    """Return a quarter of the growth of the square's variance with its true value: in the worst direction."""
    roots = np.sqrt(bins.gap_variances) / bins.moments.total
    signs = np.where(bins.moments.gap_sums >= 0, 1.0, -1.0)
    directions = [bins.gap_directions.quadratic(x * roots) for x in (signs, *bins.common)]
    growth = max(float(np.sum(roots**2)), *directions)
    if parts.mean > 0:
        growth = max(growth, bins.gap_directions.quadratic(parts.gaps * roots) / parts.mean)
    return growth


def held_bins(bins: ClusterBins) -> NDArray[np.bool_]:
    """Return the bins that take part in the maximum: those with 30 rows and 10 effective clusters."""
    return enough_rows(bins.moments.rows, LEAST_ROWS) & enough_rows(bins.clusters, LEAST_CLUSTERS)


def rate_rows(bins: ClusterBins, tail: float) -> Float64s:
    """Return the number of independent rows in which each rate would be as uncertain, for a bound at ``tail``, (M,).

    n / deff (z / t)^2 (Korn and Graubard 1998), t with K - 1 degrees of freedom.
    """
    from scipy.special import ndtri

    t = upper_quantile(tail, np.maximum(bins.clusters - 1, 1.0))
    return np.asarray(bins.moments.rate_rows / np.maximum(bins.gap_deff, _SMALLEST) * (float(ndtri(1 - tail)) / t) ** 2)


def rate_intervals(bins: ClusterBins, level: float) -> tuple[Float64s, Float64s]:
    """Return Clopper and Pearson's interval of each bin's outcome rate, in that many rows."""
    tail = alpha_of(level) / 2
    rows = rate_rows(bins, tail)
    return clopper_pearson(bins.moments.rates * rows, rows, tail)


def maximum_interval(bins: ClusterBins, value: float, level: float, *, rejected: bool) -> tuple[float, float]:
    """Return the interval of the largest gap among `held_bins`; there must be one or more.

    The bounds are those of `binned.intervals.maximum_interval`, each with `rate_rows`; the spread of the mean score is
    that of its buckets.
    """
    held = held_bins(bins)
    gaps, rates = (bins.moments.gap_sums / bins.moments.counts)[held], bins.moments.rates[held]
    variances, df = _mean_variances(bins)[held], np.maximum(bins.clusters - 1, 1.0)[held]

    def bounds(alpha: float) -> tuple[Float64s, Float64s]:
        n = rate_rows(bins, alpha)[held]
        least, most = clopper_pearson(rates * n, n, alpha)
        scores = upper_quantile(alpha, df) ** 2 * variances
        below, above = gaps - np.sqrt((most - rates) ** 2 + scores), gaps + np.sqrt((rates - least) ** 2 + scores)
        return np.maximum(np.maximum(below, -above), 0.0), np.maximum(above, -below)

    lower, upper = bounds(0.005)
    contact = upper >= lower.max()
    tail = alpha_of(level) / 2
    low = float(bounds(tail / np.count_nonzero(contact))[0][contact].max())
    high = float(bounds(tail)[1].max())
    return (min(low, value) if rejected else 0.0), max(high, value)


def _mean_variances(bins: ClusterBins) -> Float64s:
    """Return the variance of the mean score of each bin: by its buckets, but not below that of independent rows."""
    moments, k = bins.moments, bins.clusters
    own = bins.score_sums - bins.n * (moments.score_sums / moments.counts)
    several = k > _FEW
    by_bucket = np.where(several, k / np.where(several, k - 1, 1.0), 0.0) * np.sum(own**2, axis=0)
    return np.asarray(np.maximum(moments.mean_variances, by_bucket / moments.counts**2))
