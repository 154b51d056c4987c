"""How the ratio of observed to expected outcomes varies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from calibrant.runtime.arrays import Float64s
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import Clustered, Influence
from calibrant.statistics.heterogeneity import Deviations
from calibrant.statistics.sample import MINORITY

#: Why a group is not compared by the ratio.
FEW_EXPECTED: Final = f"fewer than {MINORITY} events or non-events expected at the common ratio"


def ratio_influence(cells: Cells, ratio: float) -> Influence | None:
    """Return the influence of rows, (y - t p) / O, on log t, t = O / E; None if no outcome happened.

    The sum of (y - t p)^2 in units of squared weight is sum y - 2 t sum p y + t^2 sum p^2, and sum p y = (sum p^2 +
    sum y - sum (p - y)^2) / 2: exact on a grid.
    """
    observed = float(cells.positives.sum())
    if not observed > 0:
        return None
    outcomes = float(cells.table.own_weights[1].sum())
    squares = float((cells.units * cells.score_sums - cells.null_variances).sum())
    residuals = float(cells.squared_residuals.sum())
    square = max(outcomes - ratio * (squares + outcomes - residuals) + ratio**2 * squares, 0.0)

    def by_bucket(rows: Clustered) -> Float64s:
        sums = rows.y.sum(axis=1) - ratio * (rows.gaps + rows.y).sum(axis=1)
        return np.asarray(sums / observed)

    values = np.stack([-ratio * cells.scores, 1 - ratio * cells.scores]) / observed
    return Influence(square=square / observed**2, by_bucket=by_bucket, cells=cells, values=values)


def compare_ratios(groups: Sequence[Cells]) -> Deviations:
    """Return how far the outcomes of groups are from a common ratio t: U = O - t E.

    The variance is the sum of (y - t p)^2 if the outcomes were as many as the common ratio says: with the mean of
    (1 - t p)^2 over the rows with the event for each of t E outcomes, and that of (t p)^2 over the others for the rest.
    Groups are chosen by what they have observed, which favours large ratios. So a group must also be expected to have
    15 outcomes of either kind.
    """
    observed, expected, totals = (
        np.array([float(values.sum()) for values in columns])
        for columns in (
            [cells.positives for cells in groups],
            [cells.score_sums for cells in groups],
            [cells.counts for cells in groups],
        )
    )
    ratio = float(observed.sum() / expected.sum()) if expected.sum() > 0 else math.nan
    likely = np.minimum(ratio * expected, totals)
    counts = np.stack([totals - observed, observed])
    influences = [np.stack([-ratio * cells.scores, 1 - ratio * cells.scores]) for cells in groups]
    squares = np.array(
        [np.sum(c.table.own_weights * own**2, axis=1) for c, own in zip(groups, influences, strict=True)]
    ).T
    units = np.array([float(cells.square_weights.sum()) for cells in groups]) / totals
    with np.errstate(invalid="ignore", divide="ignore"):
        variances = np.sum(squares / counts * np.stack([totals - likely, likely]), axis=0)
    return Deviations(
        scores=observed - ratio * expected,
        variances=variances,
        sensitivities=expected,
        influences=influences,
        enough=np.minimum(likely, totals - likely) / units >= MINORITY,
        reason=FEW_EXPECTED,
    )
