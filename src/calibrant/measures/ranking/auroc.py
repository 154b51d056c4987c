"""The area under the ROC curve (AUROC)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from calibrant.inputs.predictions import Notion
from calibrant.measures.arguments import event_table
from calibrant.measures.context import Inference
from calibrant.measures.event import Event, Unavailable, certified
from calibrant.measures.measure import Measure
from calibrant.measures.ranking.area import area_influence, compare_areas
from calibrant.measures.ranking.ranking import Placements, area_bound
from calibrant.sketch import Arguments
from calibrant.statistics.design import Influence
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


AUROC = Measure(
    name="auroc",
    label="AUROC",
    meaning="The area under the ROC curve: the chance that a row with the event has a higher score than one without.",
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
    compare_groups=compare_areas,
    functions=(auroc,),
)
