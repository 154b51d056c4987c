"""The ROC curve of a table, and the area under it."""

from __future__ import annotations

from typing import Final

import numpy as np

from calibrant.measures.grid_cells import GridCells
from calibrant.results.values import RocCurve
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.dataclass import dataclass
from calibrant.table import ReliabilityTable

#: The most points of a curve.
MOST_POINTS: Final = 1_001


@dataclass(frozen=True)
class Placements:
    """Where the scores of either outcome lie among those of the other one (DeLong).

    Attributes
    ----------
    area : float
        The area under the ROC curve: the mean of either placement over its rows; NaN if all outcomes are equal.
    of_positives : (K,) array
        The share of the rows without the event whose score is lower; a tie counts half.
    of_negatives : (K,) array
        The share of the rows with the event whose score is higher; a tie counts half.
    """

    area: float
    of_positives: Float64s
    of_negatives: Float64s

    @classmethod
    def of(cls, table: ReliabilityTable) -> Placements:
        """Return the placements of the scores of a table."""
        positives = table.positives.astype(np.float64)
        negatives = table.counts - positives
        lower, upto = np.cumsum(negatives), np.cumsum(positives)
        with np.errstate(invalid="ignore", divide="ignore"):
            of_positives = (lower - negatives / 2) / lower[-1]
            of_negatives = (upto[-1] - upto + positives / 2) / upto[-1]
            # Both sums round alike, so that the area of separated outcomes is 1 with any weights.
            area = np.divide(positives @ of_positives, positives @ np.ones(len(positives)))
        return cls(float(area), of_positives, of_negatives)


def roc_curve(table: ReliabilityTable) -> RocCurve | None:
    """Return the ROC curve; None if all outcomes are equal.

    Ties are one step. Of a table with more scores than points, the scores at equal steps of the rows are kept: every
    point is exact, and lies on the curve.
    """
    hits = np.concatenate([[0.0], np.cumsum(table.positives[::-1], dtype=np.float64)])
    calls = np.concatenate([[0.0], np.cumsum(table.counts[::-1], dtype=np.float64)])
    alarms = calls - hits
    if hits[-1] == 0 or alarms[-1] == 0:
        return None
    kept = np.arange(len(calls))
    if len(kept) > MOST_POINTS:
        steps = np.linspace(0, 1, MOST_POINTS // 2)
        kept = np.unique(np.concatenate([np.searchsorted(x, steps * x[-1]) for x in (hits, alarms)]))
    thresholds = np.concatenate([[np.inf], table.scores[::-1].astype(np.float64)])
    return RocCurve(
        thresholds=thresholds[kept],
        hits=hits[kept] / hits[-1],
        false_alarms=alarms[kept] / alarms[-1],
    )


def area_bound(cells: GridCells) -> float:
    """Bound the error of the area under the ROC curve: in a cell the pairs may all be right, or all wrong."""
    pairs = float(cells.sums.n0.sum()) * float(cells.sums.n1.sum())
    tied = float((cells.sums.n0 * cells.sums.n1.astype(np.float64))[cells.sums.several].sum())
    return tied / (2 * pairs) + cells.rounding if pairs > 0 else 0.0
