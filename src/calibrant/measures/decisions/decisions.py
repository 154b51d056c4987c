"""What acting on scores at a threshold does: net benefit and mean elementary score, from one pair of prefix sums.

At a threshold t those whose score reaches t are treated. TP and FP are the treated with outcome 1 and with outcome 0.
Net benefit counts a score equal to t as treated (p >= t), the elementary score does not (p > t). Thresholds are rounded
to the type of the scores, as edges of bins are.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.runtime.arrays import Float64s
from calibrant.runtime.dataclass import dataclass
from calibrant.table import ReliabilityTable

_SINGLE: Final = 2.0**-23  # between neighbouring float32, relative: scores of float32 are counted by rounded edges
_ROUNDED: Final = 1e-12  # relative, of the mean of equal scores


@dataclass(frozen=True, eq=False)
class Treated:
    """Those treated at each threshold, fields of shape (T,).

    ``positives`` and ``negatives`` are their weight by outcome, ``square_positives`` and ``square_negatives`` the same
    of squared weights. ``unsure_positives`` and ``unsure_negatives`` are the weight of rows that may belong to either
    side: those in a cell of a grid that the threshold cuts.
    """

    table: ReliabilityTable
    thresholds: Float64s
    positives: Float64s
    negatives: Float64s
    square_positives: Float64s
    square_negatives: Float64s
    unsure_positives: Float64s
    unsure_negatives: Float64s

    @classmethod
    def of(cls, table: ReliabilityTable, thresholds: Float64s, *, closed: bool) -> Treated:
        """Return those treated at these thresholds; ``closed`` says whether a score equal to the threshold is.

        On a grid a cell is treated if its mean score is.
        """
        scores, cells = table.scores, table.cell_sums
        places = thresholds.astype(scores.dtype)
        if cells is not None and closed:
            places = places * (1 - _ROUNDED)
        first = np.searchsorted(scores, places, side="left" if closed else "right")
        masses = np.stack([table.positives, table.counts - table.positives]).astype(np.float64)
        unsure = np.zeros((2, len(thresholds)))
        if cells is not None:
            last = cells.high * (1 + _SINGLE) if closed else cells.high
            cut = np.searchsorted(last, thresholds, side="left" if closed else "right")
            for at in (cut, cut + 1):  # two cells may be that close
                held = np.minimum(at, len(scores) - 1)
                near = np.abs(scores[held] - thresholds) <= _SINGLE * thresholds
                doubt = (at < len(scores)) & (cells.low[held] < thresholds) & (cells.several[held] | near)
                unsure += np.where(doubt, masses[:, held], 0.0)
        sums = _above(masses, first)
        squares = sums if table.whole else _above(table.own_weights[::-1], first)
        return cls(table, thresholds, *sums, *squares, *unsure)

    @property
    def odds(self) -> Float64s:
        """The harm of treating an outcome 0 by the benefit of treating an outcome 1, t / (1 - t)."""
        return self.thresholds / (1 - self.thresholds)

    @property
    def net_benefit(self) -> Float64s:
        """(TP - FP t / (1 - t)) / N."""
        return np.asarray((self.positives - self.negatives * self.odds) / self.table.total)

    @property
    def net_benefit_bounds(self) -> Float64s:
        """The certified errors of the net benefit."""
        return np.maximum(self.unsure_positives, self.unsure_negatives * self.odds) / self.table.total

    @property
    def treat_all(self) -> Float64s:
        """The net benefit of treating everyone."""
        rate = self.table.sums.positives / self.table.total
        return np.asarray(rate - (1 - rate) * self.odds)

    @property
    def elementary_scores(self) -> Float64s:
        """(t FP + (1 - t) FN) / N, FN the outcomes 1 that are not treated."""
        missed = self.table.sums.positives - self.positives
        return np.asarray((self.thresholds * self.negatives + (1 - self.thresholds) * missed) / self.table.total)

    @property
    def elementary_bounds(self) -> Float64s:
        """The certified errors of the elementary scores."""
        most = np.maximum(self.thresholds * self.unsure_negatives, (1 - self.thresholds) * self.unsure_positives)
        return np.asarray(most / self.table.total)


def _above(masses: NDArray[Any], first: NDArray[np.intp]) -> Float64s:
    """Return the sums of (2, K) masses from the first treated row on, (2, T)."""
    sums = np.zeros((2, masses.shape[1] + 1))
    np.cumsum(masses[:, ::-1], axis=1, out=sums[:, 1:])
    return sums[:, masses.shape[1] - first]
