"""The interval and the noise floor of the classwise error, from the histograms of the classes.

The l1 formulas over classes x bins. The bins of several classes share their rows; the covariance of the classes'
outcomes (multinomial) is below twice its diagonal, so variances are doubled. Within a bin scores are taken to be equal:
V0 = n P (1 - P) is then not below the sum of p (1 - p).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.results import ClasswiseCalibration, Estimate, Floor
from calibrant.sampling import null_closed_form
from calibrant.sampling.binned import BinMoments, BinStatistics, absolute_interval, clopper_pearson
from calibrant.sampling.means import NOT_ASKED
from calibrant.sampling.null import floor_of, p_value
from calibrant.sampling.resampling import Resampling, Stream, in_blocks

Float64s = NDArray[np.float64]

DEPENDENCE: Final = 2.0
_MOST_DRAWN: Final = 4_000  # bins: of more, the sum is normal


def class_estimate(
    value: float,
    histograms: Float64s,
    rows: float,
    n: int,
    resampling: Resampling | None,
    details: Mapping[str, Any],
    *,
    dependence: float = DEPENDENCE,
) -> Estimate:
    """Return the estimate of the mean of the classes' l1 errors.

    Parameters
    ----------
    value
        The mean error.
    histograms : (3, bins, classes)
        Counts, sums of scores and outcomes in each bin of each class.
    rows
        The number of rows that weigh as much as the judged ones.
    dependence
        How many times the variance of a sum over classes may exceed that of independent ones.
    """
    if resampling is None:
        return Estimate(value, method=NOT_ASKED, n=n, details=details)
    bins = _moments(histograms, rows)
    floor, chance = _law(bins, value, resampling, dependence)
    rejected = chance <= resampling.tail
    ends = absolute_interval(bins, value, resampling.z, rejected=rejected, dependence=dependence)
    source = "closed form"
    if _is_drawn(bins, resampling):
        source, closed_form = resampling.source, _closed_law(bins, value, resampling, dependence)[1]
        limits = {"closed_form_p_value": closed_form, "least_p_value": 1 / (resampling.n_resamples + 1)}
        details = {**details, **limits}
    how = f"Gaussian thinning over classes and bins, variances times {dependence:g}; floor: {source}"
    return Estimate(value, *ends, resampling.level, floor, chance, how, n, details)


def with_intervals(result: ClasswiseCalibration, rows: float, resampling: Resampling | None) -> ClasswiseCalibration:
    """Return the same with Clopper-Pearson intervals of the bins' rates; ``rows`` weigh as much as the judged ones."""
    if resampling is None:
        return result
    filled = result.counts > 0
    trials = result.counts[filled] * (rows / result.counts.sum(axis=1).max())
    low, high = np.full((2, *filled.shape), math.nan)
    low[filled], high[filled] = clopper_pearson(result.accuracies[filled] * trials, trials, resampling.tail)
    return replace(result, lows=low, highs=high, level=resampling.level)


def _moments(histograms: Float64s, rows: float) -> BinMoments:
    """Return the moments of all classes' bins; ``rows`` weigh as much as the judged rows."""
    masses = histograms[0].sum(axis=0)
    weight = float(masses.max())
    # The error of a class is over its own rows: where labels are judged on fewer rows, a row of theirs weighs more.
    shares = np.divide(weight, masses, out=np.zeros_like(masses), where=masses > 0)
    counts, scores, positives = (part.T.reshape(-1) for part in histograms)
    index = np.flatnonzero(counts > 0)
    share = np.repeat(shares, histograms.shape[1])[index]
    unit = weight / rows
    n = counts[index] / unit
    counts, scores, positives = (part[index] * share for part in (counts, scores, positives))
    means = np.clip(scores / counts, 0.0, 1.0)
    squares = counts * means**2 + positives * (1 - 2 * means)
    return BinMoments(
        index,
        np.arange(len(index)),
        n,
        counts,
        scores,
        scores - positives,
        unit * share * squares,
        unit * share * counts * means * (1 - means),
        int(np.count_nonzero(masses)) * weight,
        rows,
    )


def _is_drawn(bins: BinMoments, resampling: Resampling) -> bool:
    return resampling.n_resamples > 0 and len(bins.rows) <= _MOST_DRAWN


def _closed_law(bins: BinMoments, value: float, resampling: Resampling, dependence: float) -> tuple[Floor, float]:
    rates, trials = np.clip(bins.score_sums / bins.counts, 0.0, 1.0), np.maximum(np.rint(bins.rows), 1)
    return null_closed_form.exact_absolute_law(
        trials, rates, bins.counts / trials, bins.total, value, resampling.level, dependence=dependence
    )


def _law(bins: BinMoments, value: float, resampling: Resampling, dependence: float) -> tuple[Floor, float]:
    """Return floor and p-value, deviations from the mean widened for the classes' common rows."""
    rates = np.clip(bins.score_sums / bins.counts, 0.0, 1.0)
    trials = np.maximum(np.rint(bins.rows), 1)
    if not _is_drawn(bins, resampling):
        return _closed_law(bins, value, resampling, dependence)
    statistic, units = BinStatistics(bins), bins.counts / trials

    def block(rng: np.random.Generator, size: int) -> Float64s:
        drawn = rng.binomial(trials.astype(np.int64)[:, None], rates[:, None], (len(trials), size)).T
        return statistic.absolute(bins.score_sums - drawn * units)

    drawn = np.concatenate(list(in_blocks(resampling.n_resamples, resampling.seed, Stream.CLASSES, block)))
    widened = drawn.mean() + math.sqrt(dependence) * (drawn - drawn.mean())
    return floor_of(np.maximum(widened, 0.0), resampling.level), p_value(widened, value)
