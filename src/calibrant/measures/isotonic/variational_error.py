"""A lower bound of the calibration error without bins: the gaps in the directions that other rows show."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calibrant.measures.isotonic.intervals import out_of_fold
from calibrant.runtime.arrays import Float64s
from calibrant.statistics.cells import Cells


@dataclass(frozen=True, slots=True)
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
    counts, positives, fits, _ = out_of_fold(cells, seed)
    alone = counts.sum(axis=1) == counts.sum()  # all rows are in this fold: no others show a direction
    fits[alone] = np.nan
    return SignedGaps.of(cells, counts, positives, fits)
