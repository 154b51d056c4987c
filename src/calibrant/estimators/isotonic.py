"""Isotonic recalibration and the decompositions of a proper score: CORP, and Murphy's with its within-bin terms."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.estimators.binned import Bins
from calibrant.results import ScoreDecomposition
from calibrant.scores import Score, mean_score
from calibrant.table import ReliabilityTable


def isotonic_fit(table: ReliabilityTable) -> NDArray[np.float64]:
    """Return the nondecreasing fit of the outcomes to the scores, one value per row of the table.

    Pool-adjacent-violators on the rows' outcome rates; scores that are equal are one row, so their order plays no part.
    """
    from scipy.optimize import isotonic_regression

    rates = table.positives / table.counts
    fit: NDArray[np.float64] = isotonic_regression(rates, weights=table.counts).x
    return np.clip(fit, 0.0, 1.0)  # pooled rates can leave [0, 1] by a rounding


def corp(table: ReliabilityTable, score: Score, issued: float | None = None) -> ScoreDecomposition:
    """Decompose a mean score with the isotonic fit x: MCB = S(p) - S(x), DSC = S(rate) - S(x), UNC = S(rate).

    ``issued``, the mean score S(p), is computed from the table unless the caller has it.
    """
    fit = isotonic_fit(table)
    total = table.total
    if issued is None:
        issued = table_score(table, score)
    recalibrated = mean_score(score, fit, table.counts, table.positives, total)
    base = base_score(table, score)
    return ScoreDecomposition(issued, issued - recalibrated, base - recalibrated, base)


def table_score(table: ReliabilityTable, score: Score) -> float:
    """Return the mean score of the table's own scores; the Brier score is exact on a grid too."""
    if score == "brier":
        return float(table.square_residuals.sum() / table.total)
    return mean_score(score, table.scores, table.counts, table.positives, table.total)


def base_score(table: ReliabilityTable, score: Score) -> float:
    """Return the mean score of always issuing the base rate: the uncertainty."""
    total = table.total
    positives: Any = table.positives.sum()
    return mean_score(score, positives / total, total, positives, total)


def murphy(table: ReliabilityTable, bins: Bins, score: Score) -> ScoreDecomposition:
    """Decompose a mean score by bins: reliability, resolution, uncertainty and what the bins hide.

    Brier: REL = sum o_b (P_b - Y_b)^2, RES = sum o_b (Y_b - rate)^2. Log: the same with the Kullback-Leibler divergence
    of P_b (of the rate) from Y_b in the place of the square. The within-bin term is score - (REL - RES + UNC); for the
    Brier score it is WBV - WBC of Stephenson, Coelho and Jolliffe (2008).
    """
    filled = bins.counts > 0
    n, k = bins.counts[filled], bins.positives[filled]
    means, rates = bins.score_sums[filled] / n, k / n
    total = table.total

    def mean(forecasts: Any) -> float:
        return mean_score(score, forecasts, n, k, total)

    own = mean(rates)
    binned, base, issued = mean(means), base_score(table, score), table_score(table, score)
    reliability, resolution = binned - own, base - own
    return ScoreDecomposition(issued, reliability, resolution, base, issued - binned)
