"""The interval and the noise floor of the classwise error, from the histograms of the classes.

The l1 formulas over classes x bins. The bins of several classes share their rows; the covariance of the classes'
outcomes (multinomial) is below twice its diagonal, so variances are doubled. Within a bin scores are taken to be equal:
V0 = n P (1 - P) is then not below the sum of p (1 - p).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.inference import closed
from calibrant.inference.binned import BinMoments, BinStatistics, absolute_interval
from calibrant.inference.laws import floor_of, p_value
from calibrant.inference.means import NOT_ASKED
from calibrant.inference.resampling import Resampling, in_blocks
from calibrant.results import Estimate, Floor

Float64s = NDArray[np.float64]

DEPENDENCE: Final = 2.0
_CLASSES: Final = 3  # the stream of draws of the classes' bins
_MOST_DRAWN: Final = 4_000  # bins: of more, the sum is normal


def class_estimate(
    value: float, histograms: Float64s, rows: float, n: int, resampling: Resampling | None, details: Mapping[str, Any],
    *, dependence: float = DEPENDENCE,
) -> Estimate:  # fmt: skip
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
    drawn = resampling.n_resamples and len(bins.rows) <= _MOST_DRAWN
    source = resampling.source if drawn else "closed form"
    how = f"Gaussian thinning over classes and bins, variances times {dependence:g}; floor: {source}"
    return Estimate(value, *ends, resampling.level, floor, chance, how, n, details)


def _moments(histograms: Float64s, rows: float) -> BinMoments:
    """Return the moments of all classes' bins; ``rows`` weigh as much as the judged rows."""
    counts, scores, positives = (part.T.reshape(-1) for part in histograms)
    index = np.flatnonzero(counts > 0)
    counts, scores, positives = counts[index], scores[index], positives[index]
    kept = int(np.count_nonzero(histograms[0].sum(axis=0)))
    weight = float(histograms[0].sum(axis=0).max())  # of the judged rows; each class has them all
    unit = weight / rows
    means = np.clip(scores / counts, 0.0, 1.0)
    squares = counts * means**2 + positives * (1 - 2 * means)
    return BinMoments(
        index, np.arange(len(index)), counts / unit, counts, scores, scores - positives, unit * squares,
        unit * counts * means * (1 - means), kept * weight, rows,
    )  # fmt: skip


def _law(bins: BinMoments, value: float, resampling: Resampling, dependence: float) -> tuple[Floor, float]:
    """Return floor and p-value, deviations from the mean widened for the classes' common rows."""
    rates = np.clip(bins.score_sums / bins.counts, 0.0, 1.0)
    trials = np.maximum(np.rint(bins.rows), 1)
    if not resampling.n_resamples or len(trials) > _MOST_DRAWN:
        rows = bins.total * float(trials.sum() / bins.counts.sum())
        return closed.exact_absolute_law(trials, rates, rows, value, resampling.level, dependence=dependence)
    statistic, units = BinStatistics(bins), bins.counts / trials

    def block(rng: np.random.Generator, size: int) -> Float64s:
        drawn = rng.binomial(trials.astype(np.int64)[:, None], rates[:, None], (len(trials), size)).T
        return statistic.absolute(bins.score_sums - drawn * units)

    drawn = np.concatenate(list(in_blocks(resampling.n_resamples, resampling.seed, _CLASSES, block)))
    widened = drawn.mean() + math.sqrt(dependence) * (drawn - drawn.mean())
    return floor_of(np.maximum(widened, 0.0), resampling.level), p_value(widened, value)
