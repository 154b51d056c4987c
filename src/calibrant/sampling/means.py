"""Intervals of means over predictions: by the central limit theorem, Wilson's for a share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrant.results import Estimate, whole_number
from calibrant.sampling import null_closed_form
from calibrant.sampling.binned import blend
from calibrant.sampling.cells import Cells
from calibrant.sketch import CalibrationSketch

MINORITY: Final = 15  # rows of the rarer outcome below which every interval is flagged
NORMAL: Final = "central limit theorem"
NOT_ASKED: Final = "no interval asked for (level=None)"


@dataclass(frozen=True, slots=True)
class PredictionMeans:
    """Means over whole predictions, not over a judged event: accuracy, Brier score, log loss and their mean squares.

    ``infinite`` is the weight of the rows whose loss is infinite, ``n`` the rows, ``effective_n`` the effective
    number of rows. ``event`` says that the scores are those of the judged event itself.
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

    @classmethod
    def of(cls, sketch: CalibrationSketch) -> PredictionMeans:
        """Return the exact means of a sketch."""
        sums = sketch.totals
        return cls(
            sums.accuracy,
            sums.brier / sums.entries,
            sums.nll_mean,
            sums.brier_square / sums.entries,
            sums.nll_square / sums.entries,
            sums.infinite,
            sums.n,
            sums.effective_n,
            sketch.layout == "binary",
        )

    def plain_estimates(self) -> dict[str, Estimate]:
        """Return the values without intervals."""
        values = {"accuracy": self.accuracy, "brier": self.brier, "nll": self.nll}
        found = {name: Estimate(value, method=NOT_ASKED, n=self.n) for name, value in values.items()}
        return {**found, "nll": self._infinite()} if math.isinf(self.nll) else found

    def _infinite(self) -> Estimate:
        reason = "infinite: an outcome that happened had probability 0"
        details = {"infinite_rows": whole_number(self.infinite), "reason": reason}
        return Estimate(self.nll, method=f"no interval: {reason}", n=self.n, details=details)

    def estimates(self, level: float, z: float, cells: Cells | None) -> dict[str, Estimate]:
        """Return the estimates, with floors where the event's cells say what calibration would show."""
        laws = {}
        if self.event and cells is not None:
            laws = null_closed_form.proper_laws(cells, {"brier": self.brier, "nll": self.nll}, level)
        n = self.n
        share = wilson_interval(self.accuracy, self.effective_n, z)
        found = {"accuracy": Estimate(self.accuracy, *share, level, method="Wilson", n=n)}
        for name, mean, square in (("brier", self.brier, self.brier_square), ("nll", self.nll, self.nll_square)):
            if math.isinf(mean):
                found[name] = self._infinite()
                continue
            low, high = normal_interval(mean, square, self.effective_n, z)
            floor, p_value = laws.get(name, (None, math.nan))
            how = NORMAL if floor is None else f"{NORMAL}; floor: closed form"
            found[name] = Estimate(mean, max(low, 0.0), high, level, floor, p_value, how, n)
        return found


def effective_rows(weights: NDArray[np.float64] | None, n: int) -> float:
    """Return the number of rows that weigh as much: each unit a row where all weights are whole numbers."""
    if weights is None:
        return float(n)
    total = float(weights.sum())
    if np.array_equal(weights, np.rint(weights)):
        return total
    return total**2 / float(np.sum(weights**2))


def flag_of(cells: Cells) -> str:
    """Return a warning where one outcome is too rare for intervals to be trusted, or nothing."""
    share = float(cells.positives.sum()) / cells.total * cells.effective_n
    return rare(min(share, cells.effective_n - share))


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
    squares, null_variances = np.array([cells.squares.sum()]), np.array([cells.null_variances.sum()])
    if cells.effective_n <= 1:
        return math.inf
    square = float(blend(rows, squares, null_variances)[0]) - float(cells.gaps.sum()) ** 2 / cells.effective_n
    return math.sqrt(max(square, 0.0) * cells.effective_n / (cells.effective_n - 1)) / cells.total


def normal_interval(mean: float, square: float, n: float, z: float) -> tuple[float, float]:
    """Return mean -+ z sd / sqrt(n), of a mean and a mean square over n rows, with the variance of n - 1."""
    if n <= 1:
        return -math.inf, math.inf
    error = math.sqrt(max(square - mean**2, 0.0) / (n - 1))
    return mean - z * error, mean + z * error


def wilson_interval(share: float, n: float, z: float) -> tuple[float, float]:
    """Return Wilson's interval (1927) of a share seen in n rows."""
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    low = 0.0 if share <= 0 else max(middle - half, 0.0)
    return low, 1.0 if share >= 1 else min(middle + half, 1.0)
