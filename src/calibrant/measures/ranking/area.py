"""How the area under the ROC curve varies: DeLong's variance, and the interval on log-odds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calibrant.inputs.weights import effective_n
from calibrant.measures.ranking.ranking import Placements
from calibrant.runtime.arrays import Float64s
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import Influence
from calibrant.statistics.heterogeneity import Deviations, steadied
from calibrant.statistics.intervals import link_slope


def influences(cells: Cells) -> Float64s:
    """Return by how much a unit of weight moves the area, (2, K): rows without the event, rows with it.

    (V01 - A) / N0 and (V10 - A) / N1 with the placements V, A the area, N0 and N1 the weights of the rows without and
    with the event. Over all rows they add up to 0.
    """
    placed, (negatives, positives) = Placements.of(cells.table), _kinds(cells)
    return np.stack([(placed.of_negatives - placed.area) / negatives, (placed.of_positives - placed.area) / positives])


def area_influence(cells: Cells, area: float) -> Influence | None:
    """Return the influence on the log-odds of the area, which is given; None where these are infinite.

    Its variance is NaN with one row of an outcome.

    For independent rows the variance is the sum of squared influences, times n / (n - 1) for the n rows of each
    outcome; with weights n is the effective sample size. For clusters it is that of the sums over buckets (Obuchowski
    1997, doi 10.2307/2533958).
    """
    if not 0 < area < 1:
        return None
    values = influences(cells) * link_slope(area, "logit")
    return Influence.of_cells(cells, values, float(np.sum(_parts(cells, values))))


def _parts(cells: Cells, moved: Float64s) -> Float64s:
    """Return the part of either outcome in this variance, (2,)."""
    squares = cells.table.own_weights
    n = effective_n(_kinds(cells), squares.sum(axis=1))
    if np.any(n <= 1):
        return np.full(2, np.nan)
    return np.asarray(np.sum(squares * moved**2, axis=1) * n / (n - 1))


def compare_areas(groups: Sequence[Cells]) -> Deviations:
    """Return how far the areas of groups are from their mean, with variances that do not follow a group's own area.

    The variance of the placements of either outcome is that of all groups; of a group as far as it has rows to tell.
    """
    moved = [influences(cells) for cells in groups]
    n = np.array([effective_n(_kinds(cells), cells.table.own_weights.sum(axis=1)) for cells in groups])  # (G, 2)
    placements = n * np.array([_parts(cells, own) for cells, own in zip(groups, moved, strict=True)])
    together = np.sum(np.maximum(n - 1, 0) * placements, axis=0) / np.sum(np.maximum(n - 1, 0), axis=0)
    each = [steadied(placements[:, kind], float(together[kind]), n[:, kind]) for kind in (0, 1)]
    variances = each[0] / n[:, 0] + each[1] / n[:, 1]
    areas = np.array([Placements.of(cells.table).area for cells in groups])
    scores = areas - np.average(areas, weights=n.prod(axis=1) / n.sum(axis=1))
    return Deviations(
        scores=scores,
        variances=variances,
        sensitivities=np.ones(len(groups)),
        influences=[own + score / cells.total for own, score, cells in zip(moved, scores, groups, strict=True)],
    )


def _kinds(cells: Cells) -> Float64s:
    """Return the weights of the rows without and with the event, (2,)."""
    return np.asarray(np.stack([cells.counts - cells.positives, cells.positives]).sum(axis=1))
