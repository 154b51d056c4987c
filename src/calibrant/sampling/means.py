"""Intervals of means over predictions: by the central limit theorem, Wilson's for a share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrant.estimators import isotonic
from calibrant.estimators.certified import Certified
from calibrant.notions import Reading
from calibrant.sampling.binned import blend
from calibrant.sampling.cells import Cells
from calibrant.sampling.null import Interval
from calibrant.sketch import CalibrationSketch
from calibrant.table import ReliabilityTable
from calibrant.weights import effective_rows

Float64s = NDArray[np.float64]

MINORITY: Final = 15  # rows of the rarer outcome below which every interval is flagged
NORMAL: Final = "central limit theorem"


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionMeans:
    """Means over whole predictions, not over a judged event: accuracy, Brier score, log loss and their mean squares.

    Attributes
    ----------
    accuracy, brier, nll : float
        The means.
    brier_square, nll_square : float
        The means of the squares of the rows' Brier scores and of their finite log losses.
    infinite : float
        The weight of the rows whose log loss is infinite.
    n : int
        The rows.
    effective_n : float
        Their effective sample size.
    event : bool
        Whether the scores are those of the judged event itself: then calibration says what they should be.
    accuracy_bound, nll_bound : float
        The certified errors of accuracy and log loss; 0 if they are exact.
    """

    accuracy: float
    brier: float
    nll: float
    brier_square: float
    nll_square: float
    infinite: float
    n: int
    effective_n: float
    event: bool
    accuracy_bound: float = 0.0
    nll_bound: float = 0.0

    @classmethod
    def of_reading(cls, reading: Reading, weights: Float64s | None, n: int, *, event: bool) -> PredictionMeans:
        """Return the means of one read of predictions; ``weights`` are those of the ``n`` judged rows."""
        return cls(
            accuracy=reading.correct,
            brier=reading.brier,
            nll=reading.nll,
            brier_square=reading.brier_square,
            nll_square=reading.nll_square,
            infinite=reading.infinite,
            n=n,
            effective_n=effective_rows(weights, n),
            event=event,
        )

    @classmethod
    def of_sketch(cls, sketch: CalibrationSketch) -> PredictionMeans:
        """Return the exact means of a sketch."""
        sums = sketch.totals
        return cls(
            accuracy=sums.accuracy,
            brier=sums.brier / sums.entries,
            nll=sums.nll_mean,
            brier_square=sums.brier_square / sums.entries,
            nll_square=sums.nll_square / sums.entries,
            infinite=sums.infinite,
            n=sums.n,
            effective_n=sums.effective_n,
            event=sketch.layout == "binary",
        )

    @classmethod
    def of_table(cls, table: ReliabilityTable, *, right: bool) -> PredictionMeans:
        """Return the means of a table of one event; ``right`` says that the event is a right answer."""
        hits = table.positives
        if not right:
            hits = np.where(table.scores >= 0.5, table.positives, table.counts - table.positives)
        accuracy, accuracy_bound = float(hits.sum() / table.total), 0.0
        nll, nll_bound = isotonic.table_score(table, "log"), 0.0
        certified = Certified.of(table)
        if certified is not None:
            nll, nll_bound = certified.log_loss()
            accuracy_bound = 0.0 if right else certified.accuracy(accuracy)
        return cls(
            accuracy=accuracy,
            brier=isotonic.table_score(table, "brier"),
            nll=nll,
            brier_square=isotonic.table_square(table, "brier"),
            nll_square=isotonic.table_square(table, "log"),
            infinite=table.impossible,
            n=table.n,
            effective_n=Cells.of(table).effective_n,
            event=True,
            accuracy_bound=accuracy_bound,
            nll_bound=nll_bound,
        )


def rarer_rows(cells: Cells) -> float:
    """Return the effective sample size of the rarer outcome."""
    share = float(cells.positives.sum()) / cells.total * cells.effective_n
    return min(share, cells.effective_n - share)


def flag_of(cells: Cells) -> str:
    """Return a warning if one outcome is too rare for intervals to be trusted, or nothing."""
    return rare(rarer_rows(cells))


def rare(rows: float, of: str = "") -> str:
    """Return a warning where there are too few rows of the rarer outcome, or nothing."""
    if rows >= MINORITY:
        return ""
    if rows == 0:
        return f"the outcome is the same in every row{of}: intervals may be too short"
    many = f"{rows:.4g} row{'s' * (rows != 1)} of the rarer outcome{of}"
    return f"{many}: fewer than {MINORITY}, intervals may be too short"


def gap_error(cells: Cells) -> float:
    """Return the standard error of the mean of score - outcome, of the blended variance of the residuals."""
    rows = np.array([cells.effective_n])
    squares, null_variances = np.array([cells.squared_residuals.sum()]), np.array([cells.null_variances.sum()])
    if cells.effective_n <= 1:
        return math.inf
    square = float(blend(rows, squares, null_variances)[0]) - float(cells.gap_sums.sum()) ** 2 / cells.effective_n
    return math.sqrt(max(square, 0.0) * cells.effective_n / (cells.effective_n - 1)) / cells.total


def normal_interval(mean: float, square: float, n: float, z: float) -> tuple[float, float]:
    """Return mean -+ z sd / sqrt(n), of a mean and a mean square over n rows, with the variance of n - 1."""
    if n <= 1:
        return -math.inf, math.inf
    error = math.sqrt(max(square - mean**2, 0.0) / (n - 1))
    return mean - z * error, mean + z * error


def mean_interval(mean: float, square: float, n: float, z: float) -> Interval:
    """Return the same interval of a mean of scores, which are never negative."""
    low, high = normal_interval(mean, square, n, z)
    return Interval(max(low, 0.0), high, NORMAL)


def wilson_interval(share: float, n: float, z: float) -> tuple[float, float]:
    """Return Wilson's interval (1927) of a share seen in n rows."""
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    low = 0.0 if share <= 0 else max(middle - half, 0.0)
    return low, 1.0 if share >= 1 else min(middle + half, 1.0)
