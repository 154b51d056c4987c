"""Cox's recalibration: the calibration intercept and the calibration slope."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from calibrant.inputs.predictions import Notion
from calibrant.measures.arguments import event_table
from calibrant.measures.context import Inference
from calibrant.measures.event import Event
from calibrant.measures.line.line import (
    CERTAIN,
    Line,
    compare_slopes,
    cox_fit,
    in_the_large,
    intercept_influence,
    line_by_cluster,
    log_odds_line,
    slope_influence,
)
from calibrant.measures.measure import Measure, Unavailable
from calibrant.sketch import Arguments
from calibrant.statistics.design import Clustered
from calibrant.statistics.null import Interval
from calibrant.table import ReliabilityTable

_METHOD: Final = "normal, by the sandwich formula"
_NO_MEAN: Final = "a mean over classes does not describe any class; evaluate one class at a time"
_NO_FLOOR: Final = Unavailable("no noise floor: the measure is not an error")
_ONE_KIND: Final = "all outcomes are equal"


def calibration_intercept(
    probs: Any,
    targets: Any = None,
    *,
    notion: Notion | None = None,
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the calibration intercept, or calibration in the large: a at slope 1.

    .. math:: \operatorname{logit} P(y = 1) = a + \operatorname{logit} p

    a is 0 if events occur as often as the scores say, above 0 if more often. In log-odds; -inf or inf if all outcomes
    are equal. Scores within 1e-6 of 0 and 1 count as 1e-6 and 1 - 1e-6: the log-odds of 0 and 1 are infinite. Ties and
    the order of the rows play no part; weights are frequencies. A table on a grid is fitted at the cells' mean scores.
    Parameters, errors and cost are those of `expected_calibration_error`, for one evaluated event.

    References
    ----------
    Cox (1958), doi 10.1093/biomet/45.3-4.562. Van Calster et al. (2019), doi 10.1186/s12916-019-1466-7.

    Examples
    --------
    >>> import calibrant
    >>> probs, targets = [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9], [0, 1, 0, 1, 1, 0, 1, 1]
    >>> round(calibrant.calibration_intercept(probs, targets), 4)
    0.7245
    """
    arguments = Arguments(probs, targets, notion, weights, ignore_index, logits)
    return in_the_large(event_table(arguments, "the calibration intercept"), CERTAIN)


def calibration_slope(
    probs: Any,
    targets: Any = None,
    *,
    notion: Notion | None = None,
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the calibration slope: b of the logistic recalibration.

    .. math:: \operatorname{logit} P(y = 1) = a + b \operatorname{logit} p

    b is 1 if the scores are calibrated, below 1 if they are too extreme, as those of overfitted models are, and
    above 1 if they are not extreme enough. NaN with one distinct score or if all outcomes are equal; infinite if a
    threshold on the score separates the outcomes. Scores within 1e-6 of 0 and 1 count as 1e-6 and 1 - 1e-6. The rest
    is as in `calibration_intercept`.

    References
    ----------
    Cox (1958), doi 10.1093/biomet/45.3-4.562. Van Calster et al. (2019), doi 10.1186/s12916-019-1466-7.

    Examples
    --------
    >>> import calibrant
    >>> probs, targets = [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9], [0, 1, 0, 1, 1, 0, 1, 1]
    >>> round(calibrant.calibration_slope(probs, targets), 4)
    0.7002
    """
    arguments = Arguments(probs, targets, notion, weights, ignore_index, logits)
    return cox_fit(event_table(arguments, "the calibration slope"), CERTAIN).slope


def _fitted(event: Event) -> ReliabilityTable:
    """Return the cells that a report fits: all distinct scores, or those of the standard grid where these are fewer."""
    return event.cells.table


def _details(event: Event) -> dict[str, Any]:
    """Return how many scores count as 1e-6 or 1 - 1e-6, and the cells of the fit where scores were pooled."""
    table, facts = event.table, {}
    moved = float(table.counts[(table.scores < CERTAIN) | (table.scores > 1 - CERTAIN)].sum())
    if moved:
        facts["moved_from_the_ends"] = moved
    if _fitted(event) is not table:
        facts["fitted_cells"] = len(_fitted(event))
    return facts


def _intercept_details(event: Event) -> Mapping[str, Any]:
    finite = math.isfinite(event.value(CALIBRATION_INTERCEPT))
    return _details(event) if finite else {**_details(event), "reason": _ONE_KIND}


def _intercept_interval(inference: Inference) -> Interval:
    return inference.interval_by_variance(CALIBRATION_INTERCEPT)._replace(method=_METHOD)


def _slope_details(event: Event) -> Mapping[str, Any]:
    value = event.value(CALIBRATION_SLOPE)
    if math.isfinite(value):
        return _details(event)
    one_kind = event.outcome_rate in (0, 1)
    unspread = _ONE_KIND if one_kind else "there is one distinct score"
    reason = "a threshold on the score separates events from non-events" if math.isinf(value) else unspread
    return {**_details(event), "reason": reason}


def line_of(inference: Inference) -> Line:
    """Return the slope of the log-odds line with the ends of its interval."""
    design = inference.design
    fitted = line_by_cluster(design) if isinstance(design, Clustered) else log_odds_line(design.cells)
    return Line.of(*fitted, inference.level)


CALIBRATION_INTERCEPT = Measure(
    name="calibration_intercept",
    label="calibration intercept",
    meaning="Calibration in the large on the log-odds scale. The ideal value is 0. Above 0, the event is "
    "underestimated.",
    misleads="Positive and negative differences cancel.",
    computed="The calibration intercept is the intercept of a logistic regression of the outcomes with the log-odds of "
    "the scores as an offset",
    sources=("Cox 1958", "Van Calster et al. 2019"),
    value=lambda event: in_the_large(_fitted(event), CERTAIN),
    scale="ratio",
    better="neither",
    signed=True,
    profiles=frozenset({"clinical"}),
    details=_intercept_details,
    interval=_intercept_interval,
    influence=lambda event: intercept_influence(event.design.fine),
    null=_NO_FLOOR,
    over_classes=Unavailable(_NO_MEAN),
    functions=(calibration_intercept,),
)

CALIBRATION_SLOPE = Measure(
    name="calibration_slope",
    label="calibration slope",
    meaning="The slope of a logistic regression of the outcomes on the log-odds of the scores. The ideal "
    "value is 1. Below 1, predictions are too extreme.",
    misleads="A slope of 1 can hide a curved relationship.",
    computed="The calibration slope is the slope of a logistic regression of the outcomes on the log-odds of the "
    "scores",
    sources=("Cox 1958", "Van Calster et al. 2019"),
    value=lambda event: cox_fit(_fitted(event), CERTAIN).slope,
    scale="ratio",
    better="neither",
    profiles=frozenset({"standard", "clinical"}),
    details=_slope_details,
    interval=lambda inference: Interval(inference.of(line_of).low, inference.of(line_of).high, _METHOD),
    influence=lambda event: slope_influence(event.design.fine),
    null=_NO_FLOOR,
    over_classes=Unavailable(_NO_MEAN),
    origin=1.0,
    compare_groups=compare_slopes,
    functions=(calibration_slope,),
)
