"""The log loss skill score of one event: how much better than always predicting its base rate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from calibrant.inputs.predictions import Notion
from calibrant.measures.arguments import event_table
from calibrant.measures.event import Event, certified
from calibrant.measures.grid_cells import GridCells
from calibrant.measures.isotonic.isotonic import base_score, table_score
from calibrant.measures.means.means import log_loss_of_cells, surprises
from calibrant.measures.measure import Measure, Unavailable
from calibrant.sketch import Arguments
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import Influence
from calibrant.table import ReliabilityTable

_ROUNDING: Final = 1e-6  # of the second-order variance: less than it is rounding


def log_loss_skill_score(
    probs: Any,
    targets: Any = None,
    *,
    notion: Notion | None = None,
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the log loss skill score: how much better the log loss is than that of always predicting the base rate.

    .. math:: 1 - \frac{L}{H}, \qquad H = -\bar y \log \bar y - (1 - \bar y) \log (1 - \bar y)

    L is the mean log loss of the evaluated event. It is 1 for perfect predictions, 0 for the base rate itself, below 0
    for what is worse, and -inf if an observed outcome had probability 0; higher is better. NaN if all outcomes are
    equal: then the base rate is right. It is McFadden's (1974) pseudo R² of a logistic regression that gave the scores.
    Ties and the order of the rows play no part. Parameters, errors and cost are those of `expected_calibration_error`,
    for one evaluated event.

    References
    ----------
    McFadden (1974), Frontiers in Econometrics. Benedetti (2010), doi 10.1175/2009MWR2945.1.

    Examples
    --------
    >>> import calibrant
    >>> round(calibrant.log_loss_skill_score([0.9, 0.2, 0.4, 0.6], [1, 0, 0, 1]), 12)
    0.513034405834
    """
    arguments = Arguments(probs, targets, notion, weights, ignore_index, logits)
    return _skill(event_table(arguments, "the log loss skill"))


def _skill(table: ReliabilityTable) -> float:
    """Return 1 - L / H; from cells with the least log loss that their sums allow."""
    base, cells = base_score(table, "log"), GridCells.of(table)
    loss = table_score(table, "log") if cells is None else log_loss_of_cells(cells)[0]
    return 1 - loss / base if base > 0 else math.nan


def _influence(event: Event) -> Influence | None:
    """Return ((L / H) h - l) / (N H), l the log loss of a row and h that of the base rate for its outcome.

    The error of the base rate lowers H by chi^2 / (2 n), chi^2 with one degree of freedom: of second order, and all
    that is left where every row has one score. The mean square of what it moves is added, 3/4 (L / H^2 / n)^2.
    """
    cells, value = Cells(event.table), event.value(LOG_LOSS_SKILL)
    if not math.isfinite(value):
        return None
    rate, p = event.outcome_rate, cells.scores
    with np.errstate(divide="ignore"):
        losses = -np.log(np.stack([1 - p, p]))
    empty = np.stack([cells.counts == cells.positives, cells.positives == 0])  # infinite where no row is
    base = -np.log([[1 - rate], [rate]])
    entropy = base_score(event.table, "log")
    values = ((1 - value) * base - np.where(empty, 0.0, losses)) / (event.table.total * entropy)
    influence, second = Influence.of_cells(cells, values), 0.75 * ((1 - value) / entropy / cells.effective_n) ** 2
    return replace(influence, steadied=influence.square + second, rounding=_ROUNDING * second)


def _details(event: Event) -> Mapping[str, Any]:
    value = event.value(LOG_LOSS_SKILL)
    if math.isinf(value):
        return {"reason": "infinite: an observed outcome had predicted probability 0"}
    return {"reason": "all outcomes are equal, so the base rate is a perfect prediction"} if math.isnan(value) else {}


def _bound(cells: GridCells, event: Event) -> float:
    base = base_score(event.table, "log")
    return log_loss_of_cells(cells)[1] / base if base > 0 else 0.0


LOG_LOSS_SKILL = Measure(
    name="log_loss_skill",
    label="log loss skill",
    meaning="1 minus the ratio of the log loss to the log loss of always predicting the base rate. The value 1 is "
    "perfect. The value 0 is no better than the base rate.",
    computed="The log loss skill is 1 minus the ratio of the log loss of the event to the log loss of always "
    "predicting the base rate of these rows",
    misleads="The skill depends on the base rate of these rows. One observed outcome with probability 0 makes the "
    "skill minus infinity.",
    sources=("McFadden 1974",),
    value=lambda event: _skill(event.table),
    scale="ratio",
    range=(-math.inf, 1.0),
    better="higher",
    profiles=frozenset(),
    details=_details,
    caution=lambda event: surprises(event.design.cells),
    bound=certified(_bound),
    influence=_influence,
    null=Unavailable("no noise floor: the measure is not an error"),
    over_classes=Unavailable("a mean of ratios over classes has no meaning; evaluate one class at a time"),
    functions=(log_loss_skill_score,),
)
