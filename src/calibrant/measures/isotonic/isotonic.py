"""Isotonic recalibration, and two decompositions of a proper score: CORP, and Murphy's with its within-bin term."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.scores import Score, mean_score
from calibrant.kernels import dispatch
from calibrant.measures.binned.binned import Bins
from calibrant.measures.grid_cells import GridCells
from calibrant.results import ScoreDecomposition
from calibrant.runtime.dataclass import dataclass
from calibrant.table import ReliabilityTable


@dataclass(frozen=True, eq=False)
class IsotonicFit:
    """The nondecreasing fit of outcomes to scores, as blocks of equal value.

    ``starts`` is the first row of each block in the table; ``counts`` and ``positives`` are the sums over its rows.
    """

    starts: NDArray[np.int64]
    counts: NDArray[Any]
    positives: NDArray[Any]

    @property
    def values(self) -> NDArray[np.float64]:
        """The recalibrated probability of each block: its outcome rate."""
        return np.asarray(self.positives / self.counts, dtype=np.float64)


def isotonic_fit(table: ReliabilityTable) -> IsotonicFit:
    """Return the nondecreasing fit of the outcomes to the scores that minimises every proper score.

    Pool adjacent violators on the counts of the rows, in one pass and without a rate per row. Equal scores are one row,
    so their order does not matter.
    """
    return fit_of(table.counts, table.positives)


def fit_of(counts: NDArray[Any], positives: NDArray[Any]) -> IsotonicFit:
    """Return the nondecreasing fit for counts and positives in the order of the scores."""
    starts = dispatch.pool_violators(counts, positives)
    return IsotonicFit(starts, np.add.reduceat(counts, starts), np.add.reduceat(positives, starts))


def corp(table: ReliabilityTable, score: Score) -> ScoreDecomposition:
    """Decompose a mean score with the isotonic fit x: MCB = S(p) - S(x), DSC = S(rate) - S(x), UNC = S(rate)."""
    fit = isotonic_fit(table)
    issued, base = table_score(table, score), base_score(table, score)
    recalibrated = mean_score(score, fit.values, fit.counts, fit.positives, table.total)
    return ScoreDecomposition(issued, issued - recalibrated, base - recalibrated, base)


def table_score(table: ReliabilityTable, score: Score) -> float:
    """Return the mean score of the table's scores; the Brier score is exact on a grid too."""
    if score == "brier":
        return table.sums.square_residuals / table.total
    return mean_score(score, table.scores, table.counts, table.positives, table.total)


def base_score(table: ReliabilityTable, score: Score) -> float:
    """Return the mean score of always issuing the base rate: the uncertainty."""
    total, positives = table.total, table.sums.positives
    return mean_score(score, positives / total, total, positives, total)


def murphy(table: ReliabilityTable, bins: Bins, score: Score) -> ScoreDecomposition:
    """Decompose a mean score by bins: reliability, resolution, uncertainty and what the bins hide.

    Brier: REL = sum o_b (P_b - Y_b)^2, RES = sum o_b (Y_b - rate)^2. Log: the same with the Kullback-Leibler divergence
    of P_b (of the rate) from Y_b instead of the square. The within-bin term is score - (REL - RES + UNC); for the
    Brier score it is WBV - WBC of Stephenson, Coelho and Jolliffe (2008).
    """
    filled = bins.counts > 0
    n, k = bins.counts[filled], bins.positives[filled]
    mean_scores, event_rates = bins.score_sums[filled] / n, k / n
    total = table.total

    def mean(forecasts: Any) -> float:
        return mean_score(score, forecasts, n, k, total)

    recalibrated = mean(event_rates)
    binned, base, issued = mean(mean_scores), base_score(table, score), table_score(table, score)
    reliability, resolution = binned - recalibrated, base - recalibrated
    hidden = 0.0 if issued == binned else issued - binned  # both may be infinite
    return ScoreDecomposition(issued, reliability, resolution, base, hidden)


def recalibrated_bound(cells: GridCells) -> float:
    """Bound the error of the Brier score of the isotonic fit, and so of MCB and DSC.

    The fit to cells scores no better than the fit to distinct scores. The fit to cells with zeros before ones
    scores no worse.
    """
    table, several, n0, n1 = cells.table, cells.sums.several, cells.sums.n0, cells.sums.n1
    counts = np.stack([np.where(several, n0, n0 + n1), np.where(several, n1, 0.0)], axis=1).reshape(-1)
    positives = np.stack([np.where(several, 0.0, n1), np.where(several, n1, 0.0)], axis=1).reshape(-1)
    filled = counts > 0
    best = fit_of(counts[filled], positives[filled])
    fit = isotonic_fit(table)
    scores = [mean_score("brier", f.values, f.counts, f.positives, table.total) for f in (fit, best)]
    return max(scores[0] - scores[1], 0.0) + cells.rounding
