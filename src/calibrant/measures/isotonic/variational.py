"""The variational calibration error: a lower bound of the error without bins."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from calibrant.inputs.predictions import Notion
from calibrant.measures.isotonic.isotonic import out_of_fold
from calibrant.measures.read_arguments import event_table
from calibrant.runtime.arrays import ArrayLike, Float64s
from calibrant.runtime.dataclass import dataclass
from calibrant.sketch import Arguments, Predicted
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import SamplingDesign
from calibrant.statistics.resampling import Rng, check_level, normal_quantile, seed_of

_METHOD: Final = "5-fold isotonic fits; normal approximation, variance doubled because the fits share rows"


@dataclass(frozen=True, kw_only=True)
class VariationalError:
    """An estimate of the l1 calibration error without bins, with a lower bound.

    Attributes
    ----------
    value : float
        The estimate, the sum of ``over`` and ``under``. On average it is at most the true error; it may be negative.
    low : float
        The lower end of the interval of the true error, at least 0. The upper end is unknown.
    over : float
        The part of ``value`` that comes from the rows whose scores are too high.
    under : float
        The part of ``value`` that comes from the rows whose scores are too low.
    level : float
        The confidence: the true error is below ``low`` in about a share (1 - level) / 2 of samples or fewer.
    method : str
        How the bound was computed.
    n : int
        The number of predictions.
    """

    value: float
    low: float
    over: float
    under: float
    level: float
    method: str
    n: int

    def __float__(self) -> float:
        return self.value


def variational_calibration_error(
    probs: Predicted,
    targets: ArrayLike | None = None,
    *,
    level: float = 0.95,
    rng: Rng = 0,
    notion: Notion | None = None,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> VariationalError:
    r"""Return a bin-free calibration error: the estimate, its lower bound, and its parts of over- and underestimation.

    .. math:: \frac1N \sum_i \operatorname{sign}(g(p_i) - p_i)\,(y_i - p_i) \quad\text{estimates}\quad
              \mathbb E \operatorname{sign}(g(p) - p)\,(q(p) - p) \;\le\; \mathbb E\,|q(p) - p|

    with q(p) the true observed frequency at the score p. For any map g that is fitted to other rows, the estimate is on
    average at most the true error, and equal to it if g(p) - p and q(p) - p have the same sign everywhere. No bins bias
    it upwards, as they do the ECE. It is in [-1, 1], in units of probability; lower is better.

    Here g is the isotonic regression of the outcomes on the scores, fitted without the row's own fold, of five. Equal
    scores fall into the folds at random. Scores with more distinct values than the standard grid has cells (4,396) are
    pooled into its cells first. An isotonic map cannot follow rates that fall as scores rise: an error of that kind
    is seen in part only.

    Parameters
    ----------
    probs, targets, notion, weights, ignore_index, logits
        As in `expected_calibration_error`, for one evaluated event; ``probs`` may be a `ReliabilityTable` or a
        `CalibrationSketch`.
    level : float, default 0.95
        The bound is the lower end of an interval at this level, nominally false in at most 2.5 % of samples.
    rng : int, numpy.random.Generator or numpy.random.SeedSequence, default 0
        Decides the folds. The same seed gives the same numbers.

    Returns
    -------
    VariationalError
        The estimate, its lower bound, and its two parts. The order of the rows plays no part.

    Raises
    ------
    calibrant.errors.InputError
        As `expected_calibration_error`; also for a level outside [0.5, 1), an unusable seed, and a classwise or
        multilabel notion.

    Notes
    -----
    The bound is the estimate minus z standard errors. The standard error allows for what folds have in common and for
    outcomes too rare to be in the sample; with it, up to 3 % of bounds were false in 30 settings of 10 to 1,000 rows.
    With weights that are not integers, variances are sums of squared weights.

    Cost: one read, one sort of N integers, and five fits of at most 4,396 cells.

    References
    ----------
    Berta, Braun, Holzmüller, Bach, Jordan (2026), arXiv 2602.24230.

    Examples
    --------
    >>> import calibrant
    >>> result = calibrant.variational_calibration_error([0.2] * 500 + [0.9] * 500, [0, 1] * 500)
    >>> round(result.value, 12), round(result.over, 12), round(result.under, 12), round(result.low, 3)
    (0.35, 0.2, 0.15, 0.306)
    """
    check_level(level)
    seed = seed_of(rng)
    arguments = Arguments(probs, targets, notion, weights, ignore_index, logits)
    table = event_table(arguments, "the variational calibration error")
    gaps = cross_fitted_gaps(Cells.from_table(table), seed)
    return VariationalError(
        value=gaps.mean,
        low=max(gaps.mean - normal_quantile(level) * gaps.error, 0.0),
        over=gaps.over,
        under=gaps.under,
        level=float(level),
        method=_METHOD,
        n=table.n,
    )


@dataclass(frozen=True)
class SignedGaps:
    """The mean over rows of sign(g - p) (y - p), g a recalibrated score, and its standard error.

    ``over`` is the part of the rows with g < p, whose scores are too high, ``under`` that of the rows with g > p.

    The standard error is safe in two ways. A fold's directions are fitted to rows that are terms of other folds, so the
    terms of folds are correlated: at calibration the variance of the mean is up to 1.96 times that of independent
    terms, with five folds. So it is doubled. And it is at least what calibration implies, sum p (1 - p), as a sample
    may hold none of the rare outcomes.
    """

    over: float
    under: float
    error: float

    @property
    def mean(self) -> float:
        """The sum of both parts."""
        return self.over + self.under

    @classmethod
    def of(cls, cells: Cells, counts: Float64s, positives: Float64s, fits: Float64s) -> SignedGaps:
        """Return them for weights, outcomes and recalibrated scores (F, K) of folds; NaN for none, which adds 0."""
        p, total = cells.scores, cells.total
        signs = np.sign(np.nan_to_num(fits - p))
        gaps = signs * (positives - counts * p)
        over, under = float(gaps[signs < 0].sum()) / total, float(gaps[signs > 0].sum()) / total
        mean, each = over + under, cells.squares_per_weight
        square = each[0] * (counts - positives) * (-signs * p - mean) ** 2
        square += each[1] * positives * (signs * (1 - p) - mean) ** 2
        most = max(float(square.sum()), float(cells.null_variances.sum()))
        return cls(over, under, math.sqrt(2 * most) / total)


def cross_fitted_gaps(cells: Cells, seed: np.random.SeedSequence) -> SignedGaps:
    """Return the signed gaps by isotonic fits of five folds, each without its own rows."""
    forecasts = out_of_fold(SamplingDesign(cells), seed)
    counts = forecasts.masses.sum(axis=0)
    alone = counts.sum(axis=1) == counts.sum()  # all rows are in this fold: no others show a direction
    fits = np.where(alone[:, np.newaxis], np.nan, forecasts.fit)
    return SignedGaps.of(cells, counts, forecasts.masses[1], fits)
