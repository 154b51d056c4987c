"""The ratio of observed to expected outcomes (O:E)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from calibrant.inputs.predictions import Notion
from calibrant.measures.arguments import event_table
from calibrant.measures.context import Inference, OwnLaw
from calibrant.measures.event import Event, Unavailable
from calibrant.measures.gap import MEAN_GAP
from calibrant.measures.means.ratio import compare_ratios, ratio_influence
from calibrant.measures.measure import Measure, exact
from calibrant.results import Floor
from calibrant.sketch import Arguments
from calibrant.statistics.design import Influence
from calibrant.statistics.null import Interval, Law
from calibrant.table import ReliabilityTable

_NOTHING_EXPECTED: Final = "no outcome is expected: every score is 0"
_NOTHING_OBSERVED: Final = "no interval: no outcome happened"


def observed_expected_ratio(
    probs: Any,
    targets: Any = None,
    *,
    notion: Notion | None = None,
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the ratio of observed to expected outcomes, O:E.

    .. math:: \frac{O}{E} = \frac{\sum_i y_i}{\sum_i p_i}

    It is at least 0, and 1 if events happen as often as the scores say on average. Above 1 they happen more often: the
    scores are too low. NaN if every score is 0: no outcome is then expected. Ties and the order of the rows play no
    part; weights are frequencies. From a sketch it is exact. Parameters, errors and cost are those of
    `expected_calibration_error`, for one judged event.

    References
    ----------
    Debray et al. (2017), doi 10.1136/bmj.i6460.

    Examples
    --------
    >>> import calibrant
    >>> calibrant.observed_expected_ratio([0.25, 0.25, 0.5, 1.0], [0, 1, 0, 1])
    1.0
    """
    arguments = Arguments(
        probs=probs, targets=targets, notion=notion, weights=weights, ignore_index=ignore_index, logits=logits
    )
    return _ratio(event_table(arguments, "the O:E ratio"))


def _ratio(table: ReliabilityTable) -> float:
    expected = table.sums.scores
    return float(table.sums.positives / expected) if expected > 0 else math.nan


def _details(event: Event) -> Mapping[str, Any]:
    sums = event.table.sums
    facts = {"observed": float(sums.positives), "expected": float(sums.scores)}
    return facts if sums.scores > 0 else {**facts, "reason": _NOTHING_EXPECTED}


def _interval(inference: Inference) -> Interval:
    ratio = inference.event.value(OE_RATIO)
    if ratio == 0:
        return Interval(math.nan, math.nan, _NOTHING_OBSERVED)
    return inference.interval_by_variance(OE_RATIO)


def _law(inference: Inference) -> Law | None:
    """Return the law of the mean gap, in units of the mean score: that of O / E - 1."""
    law, sums = inference.law(MEAN_GAP), inference.event.table.sums
    if law is None or not sums.scores > 0:
        return None
    mean_score = sums.scores / inference.event.table.total
    return Law(Floor(law.floor.mean / mean_score, law.floor.upper / mean_score), law.p_value, law.source)


def _influence(event: Event) -> Influence | None:
    return ratio_influence(event.design.fine, event.value(OE_RATIO))


OE_RATIO = Measure(
    name="oe_ratio",
    label="O:E ratio",
    meaning="Observed over expected outcomes. 1 is right; above 1, events happen more often than the scores say.",
    computed="The O:E ratio is the number of outcomes over the sum of the scores",
    sources=("Debray et al. 2017",),
    value=lambda event: _ratio(event.table),
    scale="ratio",
    range=(0.0, math.inf),
    better="neither",
    link="log",
    profiles=frozenset({"standard", "clinical"}),
    details=_details,
    bound=exact,
    interval=_interval,
    influence=_influence,
    null=OwnLaw(_law),
    over_classes=Unavailable("a mean of ratios over classes says nothing; judge one class at a time"),
    compare_groups=compare_ratios,
    functions=(observed_expected_ratio,),
)
