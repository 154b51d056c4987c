"""A confidence band of the outcome rate that holds at all scores at once, if the rate never falls with the score.

Take any run of neighbouring scores. If the rate q never falls, the number of outcomes in the run is at most binomial
with the rate at its right end, and at least binomial with the rate at its left end. So the Clopper-Pearson lower bound
of the run's rate bounds q from below at its right end and everywhere to the right; the upper bound bounds q from above
at its left end and everywhere to the left. G scores have G (G + 1) / 2 runs. Each bound is at alpha / (G (G + 1)), so
all of them hold together with probability 1 - alpha at least, at any number of rows. The band is the largest lower and
the smallest upper bound at each score (Dimitriadis, Dümbgen, Henzi, Puke and Ziegel 2023, doi 10.1093/biomet/asac068).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrant.runtime.arrays import Float64s
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.resampling import alpha_of
from calibrant.table import ReliabilityTable

_EVENLY: Final = 512  # scores between which rows are pooled: so many along the scores, and as many along the rows


@dataclass(frozen=True, eq=False)
class IsotonicBand:
    """The band as two step functions: each cell's smallest and largest score, and the bounds there, all (G,).

    ``lows`` hold from a cell's largest score on, ``highs`` up to its smallest score. Both never fall. A lower end may
    exceed an upper end: then no rate that never falls fits these outcomes.
    """

    firsts: Float64s
    lasts: Float64s
    lows: Float64s
    highs: Float64s

    @classmethod
    def of(cls, table: ReliabilityTable, level: float) -> IsotonicBand:
        """Return the band of a table at a confidence level.

        More than about 1,000 scores are pooled into so many cells, by the scores alone: pooled cells give fewer runs,
        and the band stays valid. The same holds for the cells of a grid. Cost: O(K) and G^2 incomplete beta functions.
        """
        firsts, lasts = _ends(table)
        starts = _starts(table)
        counts, positives = (np.add.reduceat(x.astype(np.float64), starts) for x in (table.counts, table.positives))
        alpha = alpha_of(level) / len(starts) / (len(starts) + 1)
        lows = _rising(counts, positives, alpha)
        highs = 1 - _rising(counts[::-1], (counts - positives)[::-1], alpha)[::-1]
        return cls(firsts[starts], lasts[np.append(starts[1:], len(table)) - 1], lows, highs)

    def at(self, scores: Float64s) -> tuple[Float64s, Float64s]:
        """Return the lower and the upper ends at these scores."""
        lows, highs = np.append(0.0, self.lows), np.append(self.highs, 1.0)
        return (
            lows[np.searchsorted(self.lasts, scores, side="right")],
            highs[np.searchsorted(self.firsts, scores, side="left")],
        )


def _rising(counts: Float64s, positives: Float64s, alpha: float) -> Float64s:
    """Return the largest Clopper-Pearson lower bound of the runs that end at each cell or before it, (G,).

    A bound exceeds b where the distribution function at b is below ``alpha``. So only runs that raise the largest bound
    so far need a quantile.
    """
    from scipy.special import betainc, betaincinv

    rows, hits = (np.append(0.0, np.cumsum(sums)) for sums in (counts, positives))
    lows, largest = np.zeros(len(counts)), 0.0
    for stop in range(1, len(rows)):
        run, hit = rows[stop] - rows[:stop], hits[stop] - hits[:stop]
        some = hit > 0
        run, hit = run[some], hit[some]
        higher = betainc(hit, run - hit + 1, largest) < alpha
        if higher.any():
            found = betaincinv(hit[higher], run[higher] - hit[higher] + 1, alpha)
            largest = max(largest, float(found.max()))
        lows[stop - 1] = largest
    return lows


def _ends(table: ReliabilityTable) -> tuple[Float64s, Float64s]:
    """Return between which scores the rows of a table lie: of a cell with several its ends, else the score twice."""
    scores, cells = table.scores.astype(np.float64), table.cell_sums
    if cells is None:
        return scores, scores
    return np.where(cells.several, cells.low, scores), np.where(cells.several, cells.high, scores)


def _starts(table: ReliabilityTable) -> NDArray[np.intp]:
    """Return the first row of each cell of the band: every row of a short table, else parts even in score and mass."""
    if len(table) <= 2 * _EVENLY:
        return np.arange(len(table))
    scores, mass = table.scores, np.cumsum(table.counts)
    along = np.searchsorted(scores, np.linspace(scores[0], scores[-1], _EVENLY, endpoint=False))
    among = np.searchsorted(mass, np.linspace(0, mass[-1], _EVENLY, endpoint=False), side="right")
    return np.unique(np.concatenate([along, among]))
