"""The area under the ROC curve (AUROC), and the curve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from calibrant.inputs.predictions import Notion
from calibrant.inputs.weights import effective_n
from calibrant.measures.context import Inference
from calibrant.measures.event import Event, certified
from calibrant.measures.measure import Details, Measure, Unavailable
from calibrant.measures.read_arguments import event_table
from calibrant.results.values import RocCurve
from calibrant.runtime.arrays import ArrayLike, Float64s
from calibrant.runtime.dataclass import dataclass
from calibrant.sketch import Arguments, Predicted
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import CLUSTERS, Influence
from calibrant.statistics.group_tests import Deviations, steadied
from calibrant.statistics.intervals import link_slope
from calibrant.statistics.null import Interval
from calibrant.table import GridCells, ReliabilityTable

#: The most points of a curve.
MOST_POINTS: Final = 1_001


def auroc(
    probs: Predicted,
    targets: ArrayLike | None = None,
    *,
    notion: Notion | None = None,
    weights: ArrayLike | None = None,
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
    for one evaluated event.

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
    arguments = Arguments(probs, targets, notion, weights, ignore_index, logits)
    return Placements.of(event_table(arguments, "the AUROC")).area


@dataclass(frozen=True)
class Placements:
    """Where the scores of either outcome lie among those of the other one (DeLong)."""

    #: The area under the ROC curve: the mean of either placement over its rows; NaN if all outcomes are equal.
    area: float
    of_positives: Float64s  # (K,): the share of the rows without the event whose score is lower; a tie counts half
    of_negatives: Float64s  # (K,): the share of the rows with the event whose score is higher; a tie counts half

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

    Ties are one step. If a table has more scores than points, the scores at equal steps of the rows are kept: every
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
    pairs = float(cells.n0.sum()) * float(cells.n1.sum())
    tied = float((cells.n0 * cells.n1.astype(np.float64))[cells.several].sum())
    return tied / (2 * pairs) + cells.rounding if pairs > 0 else 0.0


def _details(event: Event) -> Details:
    return {"reason": "all outcomes are equal"} if math.isnan(event.value(AUROC)) else {}


def _interval(inference: Inference) -> Interval:
    area = inference.event.value(AUROC)
    if area in (0, 1):
        reason = "no interval: a threshold on the score perfectly separates events from non-events"
        return Interval(math.nan, math.nan, reason)
    sample = inference.design.sample
    if sample.rarer < 2:
        few = "fewer than 2 rows with the less frequent outcome"
        if sample.unit == CLUSTERS:
            few = "one outcome occurs in fewer than 2 clusters"
        return Interval(math.nan, math.nan, f"no interval: {few}")
    return inference.interval_by_variance(AUROC)._replace(method="DeLong, on log-odds")


def influences(cells: Cells) -> Float64s:
    """Return by how much a unit of weight moves the area, (2, K): rows without the event, rows with it.

    (V01 - A) / N0 and (V10 - A) / N1 with the placements V, A the area, N0 and N1 the weights of the rows without and
    with the event. Over all rows they add up to 0.
    """
    placed, (negatives, positives) = Placements.of(cells.table), cells.masses.sum(axis=1)
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
    n = _rows_of_outcomes(cells)
    if np.any(n <= 1):
        return np.full(2, np.nan)
    return np.asarray(np.sum(cells.table.own_weights * moved**2, axis=1) * n / (n - 1))


def _rows_of_outcomes(cells: Cells) -> Float64s:
    """Return the effective sample size of the rows without and with the event, (2,)."""
    return effective_n(cells.masses.sum(axis=1), cells.table.own_weights.sum(axis=1))


def compare_areas(groups: Sequence[Cells]) -> Deviations:
    """Return how far the areas of groups are from their mean, with variances that do not follow a group's own area.

    The variance of the placements of each outcome blends the group's own with that of all groups, by its rows.
    """
    moved = [influences(cells) for cells in groups]
    n = np.array([_rows_of_outcomes(cells) for cells in groups])  # (G, 2)
    placements = n * np.array([_parts(cells, changes) for cells, changes in zip(groups, moved, strict=True)])
    together = np.sum(np.maximum(n - 1, 0) * placements, axis=0) / np.sum(np.maximum(n - 1, 0), axis=0)
    each = [steadied(placements[:, kind], float(together[kind]), n[:, kind]) for kind in (0, 1)]
    variances = each[0] / n[:, 0] + each[1] / n[:, 1]
    areas = np.array([Placements.of(cells.table).area for cells in groups])
    scores = areas - np.average(areas, weights=n.prod(axis=1) / n.sum(axis=1))
    return Deviations(
        scores=scores,
        variances=variances,
        sensitivities=np.ones(len(groups)),
        influences=[changes + score / cells.total for changes, score, cells in zip(moved, scores, groups, strict=True)],
    )


AUROC: Measure = Measure(
    name="auroc",
    label="AUROC",
    meaning="The area under the ROC curve: the probability that a row with the event has a higher score than a row "
    "without it.",
    misleads="It does not depend on calibration.",
    computed="The AUROC is the share of pairs in which the row with the event has a higher score than the row without "
    "the event, and ties count half",
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
    influence=lambda event: area_influence(event.design.fine, event.value(AUROC)),
    null=Unavailable("no noise floor: the measure does not depend on calibration"),
    origin=0.5,
    compare_groups=compare_areas,
    functions=(auroc,),
)
