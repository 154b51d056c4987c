"""The area under the ROC curve (AUROC)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calibrant.inputs.predictions import Notion
from calibrant.inputs.weights import effective_n
from calibrant.measures.arguments import event_table
from calibrant.measures.context import Inference
from calibrant.measures.event import Event, Unavailable, certified
from calibrant.measures.measure import Measure
from calibrant.measures.ranking.ranking import Placements, area_bound
from calibrant.runtime.arrays import Float64s
from calibrant.sketch import Arguments
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import Influence
from calibrant.statistics.groups import Deviations, steadied
from calibrant.statistics.intervals import link_slope
from calibrant.statistics.null import Interval


def auroc(
    probs: Any,
    targets: Any = None,
    *,
    notion: Notion | None = None,
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the area under the ROC curve, AUROC or c statistic: how well the scores tell the outcomes apart.

    .. math:: P(p_i > p_j) + \tfrac12 P(p_i = p_j), \qquad y_i = 1,\ y_j = 0

    It is the chance that a row with the event has a higher score than a row without it. In [0, 1], higher is better;
    scores without information have 1/2. It says nothing of calibration: an increasing map of the scores does not change
    it. For ``notion="top-label"`` it says how well the confidence tells right answers from wrong ones. NaN if all
    outcomes are equal. A tie counts half, so that the order of the rows plays no part; weights are frequencies. From a
    sketch two scores in one cell count as tied. Parameters, errors and cost are those of `expected_calibration_error`,
    for one judged event.

    References
    ----------
    Hanley, McNeil (1982), doi 10.1148/radiology.143.1.7063747. Its interval in a report: DeLong, DeLong,
    Clarke-Pearson (1988), doi 10.2307/2531595.

    Examples
    --------
    >>> import calibrant
    >>> calibrant.auroc([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
    0.75
    """
    arguments = Arguments(
        probs=probs, targets=targets, notion=notion, weights=weights, ignore_index=ignore_index, logits=logits
    )
    return Placements.of(event_table(arguments, "the AUROC")).area


def _details(event: Event) -> Mapping[str, Any]:
    return {"reason": "all outcomes are equal"} if math.isnan(event.value(AUROC)) else {}


def _interval(inference: Inference) -> Interval:
    area = inference.event.value(AUROC)
    if area in (0, 1):
        return Interval(math.nan, math.nan, "no interval: a threshold on the score separates the outcomes")
    sample = inference.design.sample
    if sample.rarer < 2:
        return Interval(math.nan, math.nan, f"no interval: fewer than 2 {sample.unit}s with the rarer outcome")
    return inference.interval_by_variance(AUROC)._replace(method="DeLong, on log-odds")


def _influence(event: Event) -> Influence | None:
    return area_influence(event.design.fine, event.value(AUROC))


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


AUROC = Measure(
    name="auroc",
    label="AUROC",
    meaning="The area under the ROC curve: the chance that a row with the event has a higher score than one without.",
    misleads="It says nothing of calibration, and with rare events can be high while most alarms are false.",
    computed="The AUROC is the share of pairs of a row with the event and one without in which the first has the "
    "higher score; a tie counts half",
    sources=("Hanley and McNeil 1982", "DeLong et al. 1988"),
    value=lambda event: Placements.of(event.table).area,
    scale="ratio",
    range=(0.0, 1.0),
    better="higher",
    link="logit",
    profiles=frozenset({"clinical", "forecast"}),
    details=_details,
    bound=certified(lambda cells, _: area_bound(cells)),
    interval=_interval,
    influence=_influence,
    null=Unavailable("no noise floor: calibration says nothing of it"),
    origin=0.5,
    compare_groups=compare_areas,
    functions=(auroc,),
)
