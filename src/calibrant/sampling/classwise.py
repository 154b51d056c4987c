"""The interval and the noise floor of the classwise error, from the histograms of the classes.

The l1 formulas over classes x bins. The bins of several classes share their rows; the covariance of the classes'
outcomes (multinomial) is below twice its diagonal, so variances are doubled. Within a bin scores are taken to be equal:
V0 = n P (1 - P) is then not below the sum of p (1 - p).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrant.results import ClasswiseCalibration
from calibrant.sampling import null_closed_form
from calibrant.sampling.binned import BinMoments, BinStatistics, absolute_interval, clopper_pearson
from calibrant.sampling.null import Interval, Law, floor_of, p_value
from calibrant.sampling.resampling import Resampling, Stream, in_blocks

Float64s = NDArray[np.float64]

DEPENDENCE: Final = 2.0
_MOST_DRAWN: Final = 4_000  # bins: the sum over more is normal


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassBins:
    """The bins of every class, for the law and the interval of the mean of the classes' l1 errors.

    Attributes
    ----------
    histograms : (3, bins, classes)
        The counts, sums of scores and outcomes in each bin of each class.
    effective_n : float
        The effective sample size of the judged rows.
    dependence : float
        How many times the variance of a sum over classes may exceed the variance if classes were independent.
    """

    histograms: Float64s
    effective_n: float
    dependence: float = DEPENDENCE

    def interval(self, value: float, resampling: Resampling, *, rejected: bool) -> Interval:
        """Return the interval of the mean of the classes' errors."""
        ends = absolute_interval(self.moments, value, resampling.z, rejected=rejected, dependence=self.dependence)
        return Interval(*ends, f"Gaussian thinning over classes and bins, variances times {self.dependence:g}")

    def law(self, value: float, resampling: Resampling) -> Law:
        """Return floor and p-value, deviations from the mean widened for the classes' common rows."""
        bins, closed_form = self.moments, self._closed_form(value, resampling.level)
        if not resampling.n_resamples or len(bins.rows) > _MOST_DRAWN:
            return closed_form
        statistic, units, trials = BinStatistics(bins), bins.counts / self._trials, self._trials.astype(np.int64)

        def block(rng: np.random.Generator, size: int) -> Float64s:
            drawn = rng.binomial(trials[:, None], self._rates[:, None], (len(trials), size)).T
            return statistic.absolute(bins.score_sums - drawn * units)

        drawn = np.concatenate(list(in_blocks(resampling.n_resamples, resampling.seed, Stream.CLASSES, block)))
        widened = drawn.mean() + math.sqrt(self.dependence) * (drawn - drawn.mean())
        floor = floor_of(np.maximum(widened, 0.0), resampling.level)
        limits = resampling.limits(closed_form.p_value)
        return Law(floor, p_value(widened, value), resampling.source, limits)

    @cached_property
    def moments(self) -> BinMoments:
        """The sums over the filled bins of all classes."""
        masses = self.histograms[0].sum(axis=0)
        weight = float(masses.max())
        # The error of a class is over its own rows: if a label is judged on fewer rows, each of its rows weighs more.
        shares = np.divide(weight, masses, out=np.zeros_like(masses), where=masses > 0)
        counts, scores, positives = (part.T.reshape(-1) for part in self.histograms)
        index = np.flatnonzero(counts > 0)
        share = np.repeat(shares, self.histograms.shape[1])[index]
        unit = weight / self.effective_n
        rows = counts[index] / unit
        counts, scores, positives = (part[index] * share for part in (counts, scores, positives))
        means = np.clip(scores / counts, 0.0, 1.0)
        squared_residuals = counts * means**2 + positives * (1 - 2 * means)
        return BinMoments(
            index=index,
            first=np.arange(len(index)),
            rows=rows,
            counts=counts,
            score_sums=scores,
            gap_sums=scores - positives,
            squared_residuals=unit * share * squared_residuals,
            null_variances=unit * share * counts * means * (1 - means),
            total=int(np.count_nonzero(masses)) * weight,
            effective_n=self.effective_n,
        )

    @cached_property
    def _rates(self) -> Float64s:
        return np.clip(self.moments.score_sums / self.moments.counts, 0.0, 1.0)

    @cached_property
    def _trials(self) -> Float64s:
        return np.maximum(np.rint(self.moments.rows), 1)

    def _closed_form(self, value: float, level: float) -> Law:
        bins, trials = self.moments, self._trials
        return null_closed_form.exact_absolute_law(
            trials, self._rates, bins.counts / trials, bins.total, value, level, dependence=self.dependence
        )


def with_intervals(
    result: ClasswiseCalibration, effective_n: float, resampling: Resampling | None
) -> ClasswiseCalibration:
    """Return the same with Clopper-Pearson intervals of the bins' outcome rates."""
    if resampling is None:
        return result
    filled = result.counts > 0
    trials = result.counts[filled] * (effective_n / result.counts.sum(axis=1).max())
    low, high = np.full((2, *filled.shape), math.nan)
    low[filled], high[filled] = clopper_pearson(result.accuracies[filled] * trials, trials, resampling.tail)
    return replace(result, lows=low, highs=high, level=resampling.level)
