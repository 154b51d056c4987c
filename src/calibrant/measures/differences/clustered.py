"""Two models on rows in the same clusters: differences, first minus second, of their measures, with intervals.

Clusters with the same label are the same units in both, so the sums of buckets tell how the two models vary together,
whether all their rows are the same, some or none. Each model adds psi_h / N to a measure, psi_h its sum over bucket h;
the variance of a difference is that of psi^A_h / N_A - psi^B_h / N_B. Quantiles are Student's. Rows are not
known, so the degrees of freedom assume a correlation of rows of .2: they matter where sizes differ much.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.clusters import BucketSums, aligned
from calibrant.inputs.weights import tidy_weight
from calibrant.measures.binned.clustered import ClusterBins, Directions
from calibrant.measures.binned.intervals import SteadyGaps
from calibrant.measures.differences.paired import Weighting, infinite_difference
from calibrant.measures.means.clustered import BY_CLUSTER, flag_of
from calibrant.measures.means.means import PredictionMeans
from calibrant.results import Estimate
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import cached_property
from calibrant.statistics.cells import Cells
from calibrant.statistics.cluster_sums import Clustered, degrees_of_freedom, variance_of
from calibrant.statistics.intervals import FEWEST, thinned, unbiased_end
from calibrant.statistics.resampling import normal_quantile, t_quantile, two_sided

#: The correlation of rows in a cluster at which degrees of freedom are taken where rows are not known.
CORRELATION: Final = 0.2

_LEAST_DEFF: Final = 0.01  # of a share
_ROUNDING: Final = 1e-12  # relative to the sums that are subtracted: smaller differences are rounding


class Answers(NamedTuple):
    """Whether each row is predicted right, (n,), and the weighting of the rows."""

    right: NDArray[np.bool_]
    weighting: Weighting


@dataclass(frozen=True, eq=False, kw_only=True)
class ClusterModel:
    """What a comparison by clusters needs to know about one model; two of them have the same buckets.

    Attributes
    ----------
    name : str
        Its name.
    rows : Clustered
        Its judged rows; the buckets must be scored.
    bins : ClusterBins
        Their equal-width bins.
    means : PredictionMeans
        The means over its predictions.
    answers : Answers or None
        Which rows it predicts right; None if only sums are known.
    """

    name: str
    rows: Clustered
    bins: ClusterBins
    means: PredictionMeans
    answers: Answers | None = None

    @cached_property
    def thin(self) -> tuple[float, Float64s]:
        """The estimate G of the l1 error, biased downwards everywhere, and the slopes g' of the bins."""
        roots = np.sqrt(self.bins.variances)
        g, slope = thinned(self.bins.moments.gap_sums / roots)
        return float(np.sum(roots * g)) / self.rows.total, slope

    @cached_property
    def above(self) -> float:
        """G with its largest bias, an estimate of the l1 error that is biased upwards; infinite with few bins."""
        roots = float(np.sum(np.sqrt(self.bins.variances)))
        several = roots**2 >= FEWEST * self.bins.linear([np.sign(self.bins.moments.gap_sums)])[0].value
        return unbiased_end(self.thin[0], roots / self.rows.total, 0.0, several=several)

    @property
    def absolute(self) -> float:
        """The l1 error."""
        return float(np.sum(np.abs(self.bins.moments.gap_sums))) / self.rows.total

    def part(self, sums: Float64s) -> Float64s:
        """Return what buckets add to a mean over rows, (H,): their sums around their share of the total, over N."""
        return self.rows.centred(sums) / self.rows.total

    def unseen(self, slopes: Float64s) -> float:
        """Return the variance of sum f S over N^2 that calibration implies beyond what was seen, f slopes of bins."""
        excess = np.maximum(self.bins.variances - self.bins.moments.squared_residuals * self.bins.deff, 0.0)
        return float(np.sum(excess * slopes**2)) / self.rows.total**2


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


def pair_sizes(first: ClusterModel, second: ClusterModel) -> Float64s:
    """Return the rows of each bucket, (H,): the mean of those of both models."""
    return (first.rows.sizes + second.rows.sizes) / 2


def square_difference(first: ClusterModel, second: ClusterModel, level: float) -> Estimate:
    """Return the difference of the squared l2 errors, which decides.

    Its variance is the larger of two: that of the differences of the influences 2 D r - D^2, which is right if gaps are
    large; and that without the noise of D plus the variance of the noise of both estimates, 2 sum k_b k_c Sigma'_bc^2
    over the bins of both, k what a pair adds to the first and minus what it adds to the second.
    """
    models = (first, second)
    value = first.bins.square - second.bins.square
    error, df = square_error(models)
    half = t_quantile(level, df) * error
    size = sum(math.sqrt(model.bins.pair_noise) for model in models)
    return Estimate(
        value,
        value - half,
        value + half,
        p_value=_two_sided(value, error, df, size),
        method=f"U-statistics of pairs of clusters, Student's t{BY_CLUSTER}",
        details={"standard_error": error, "degrees_of_freedom": df},
    )


def square_error(models: Sequence[ClusterModel]) -> tuple[float, float]:
    """Return the standard error of the first squared l2 error minus the second, if any, and its degrees of freedom."""
    signs, sizes = (1, -1)[: len(models)], np.mean([model.rows.sizes for model in models], axis=0)
    seen = [model.bins.moments.gap_sums / model.bins.moments.counts for model in models]
    steady = [SteadyGaps.of(model.bins).values for model in models]

    def variance(gaps: list[Float64s]) -> tuple[float, float]:
        parts = (
            sign * model.part(model.bins.influence_sums(x)) for sign, model, x in zip(signs, models, gaps, strict=True)
        )
        return _variance(np.sum(list(parts), axis=0), sizes)

    within = np.concatenate([model.bins.within for model in models], axis=1)
    pairs = np.concatenate(
        [sign * model.bins.per_pair * model.bins.gap_variances for sign, model in zip(signs, models, strict=True)]
    )
    noise = 2 * Directions.of(within).squares(pairs)
    plain, df = variance(seen)
    return math.sqrt(max(plain, variance(steady)[0] + max(noise, 0.0))), df


def absolute_difference(first: ClusterModel, second: ClusterModel, level: float) -> Estimate:
    """Return the difference of the l1 errors, between two bounds that hold wherever the gaps are.

    They are those of `differences.paired.absolute_difference`, with the spread of differences of sums over buckets.
    """
    sizes = pair_sizes(first, second)

    def most(above: ClusterModel, below: ClusterModel) -> float:
        value, slopes = below.thin
        lower = below.part(below.bins.gaps @ slopes)

        def end(upper: float, directions: Float64s) -> float:
            own = above.part(above.bins.gaps @ directions)
            variance, df = _variance(lower - own, sizes)
            variance += below.unseen(slopes) + above.unseen(directions)
            return upper - value + t_quantile(level, df) * math.sqrt(variance)

        plain = end(above.absolute, np.sign(above.bins.moments.gap_sums))
        return plain if math.isinf(above.above) else min(plain, end(above.above, above.thin[1]))

    low, high = -most(second, first), most(first, second)
    value = first.absolute - second.absolute
    return Estimate(value, low, high, method=f"Gaussian thinning of both: safe, and wide{BY_CLUSTER}")


def brier_difference(first: ClusterModel, second: ClusterModel, level: float) -> Estimate:
    """Return the difference of the Brier scores."""
    return _mean_difference(first, second, "brier", first.means.brier - second.means.brier, level)


def loss_difference(first: ClusterModel, second: ClusterModel, level: float) -> Estimate:
    """Return the difference of the log losses; infinite, or not a number where both are infinite, with the reason."""
    lost = {model.name: tidy_weight(model.means.infinite) for model in (first, second)}
    if any(lost.values()):
        return infinite_difference(lost)
    return _mean_difference(first, second, "nll", first.means.nll - second.means.nll, level)


def _mean_difference(first: ClusterModel, second: ClusterModel, name: str, value: float, level: float) -> Estimate:
    """Return a difference of means -+ t sqrt(sum u_h^2 / share)."""
    parts = [model.part(model.rows.scalar(name)) for model in (first, second)]
    variance, df = _variance(parts[0] - parts[1], pair_sizes(first, second))
    half = t_quantile(level, df) * math.sqrt(variance)
    return Estimate(value, value - half, value + half, method=f"central limit theorem{BY_CLUSTER}")


def accuracy_difference(first: ClusterModel, second: ClusterModel, level: float) -> Estimate:
    """Return the difference of the accuracies, with the interval of Bonett and Price (2012).

    If it is known which rows each model predicts right, the interval is that of
    `differences.paired.accuracy_difference` in n / deff (z / t)^2 rows. Sums alone do not tell: the interval is then
    value -+ t sd, and where no bucket differs that of as many rows as effective clusters.
    """
    only = _only(first, second)
    value, sizes = first.means.accuracy - second.means.accuracy, pair_sizes(first, second)
    parts = [model.part(model.rows.scalar("right")) for model in (first, second)]
    around, z, n = parts[0] - parts[1], normal_quantile(level), first.rows.effective_n
    same = float(np.sum(around**2)) <= _ROUNDING * sum(float(np.sum(part**2)) for part in parts)
    if only is None and not same:
        variance, df = _variance(around, sizes)
        half = t_quantile(level, df) * math.sqrt(variance)
        return Estimate(value, value - half, value + half, method=f"central limit theorem{BY_CLUSTER}")
    shares = (max(value, 0.0), max(-value, 0.0)) if only is None else only
    spread = sum(shares) - (shares[0] - shares[1]) ** 2
    if spread <= _ROUNDING:
        trials = first.rows.kish
    else:
        found = variance_of(around * n, spread * n, sizes)
        trials = n / max(found.deff, _LEAST_DEFF) * (z / t_quantile(level, found.df)) ** 2
    p, q = ((share * trials + 1) / (trials + 2) for share in shares)
    half = z * math.sqrt(max(p + q - (p - q) ** 2, 0.0) / (trials + 2))
    details: Mapping[str, Any] = {}
    if only is not None:
        names = ("only_first", "only_second")
        counts = (tidy_weight(share * first.rows.total) for share in only)
        details = dict(zip(names, counts, strict=True))
    ends = min(p - q - half, value), max(p - q + half, value)
    return Estimate(value, *ends, method=f"Bonett and Price{BY_CLUSTER}", details=details)


def _only(first: ClusterModel, second: ClusterModel) -> tuple[float, float] | None:
    """Return the shares of rows that only the first, only the second model predicts right; None if not known."""
    if first.answers is None or second.answers is None:
        return None
    (one, weighting), (other, _) = first.answers, second.answers
    return weighting.mean(one & ~other), weighting.mean(other & ~one)


def flags(first: ClusterModel, second: ClusterModel) -> dict[str, str]:
    """Return a warning where intervals are not to be trusted, or nothing."""
    found = {model.name: flag_of(model.rows) for model in (first, second)}
    if len(set(found.values())) == 1:
        flag = next(iter(found.values()))
        return {"flag": flag} if flag else {}
    return {"flag": "; ".join(f"{name}: {flag}" for name, flag in found.items() if flag)}


def _two_sided(value: float, error: float, df: float, size: float) -> float:
    """Return the chance of a deviation at least as large under Student's law; 1 where nothing differs or varies.

    ``size`` is that of what is subtracted: both numbers are rounding where they are far below it.
    """
    if error <= _ROUNDING * size:
        return float(abs(value) <= _ROUNDING * size)
    return two_sided(value, error, df)


def _variance(around: Float64s, sizes: Float64s) -> tuple[float, float]:
    """Return the variance of a difference from its centred parts in the buckets, and its degrees of freedom."""
    df, share = degrees_of_freedom(sizes, CORRELATION)
    return float(np.sum(around**2)) / share, df
