"""The ratio of observed to expected outcomes (O:E)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from calibrant.inputs.predictions import Notion
from calibrant.measures.context import Inference
from calibrant.measures.event import Event
from calibrant.measures.gap import MEAN_GAP
from calibrant.measures.measure import Details, Measure, OwnLaw, Unavailable, exact
from calibrant.measures.read_arguments import event_table
from calibrant.results import Floor
from calibrant.runtime.arrays import Float64s
from calibrant.sketch import Arguments
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import MINORITY, Clustered, Influence
from calibrant.statistics.group_tests import Deviations
from calibrant.statistics.intervals import RATE
from calibrant.statistics.null import Interval, Law
from calibrant.table import ReliabilityTable

_NOTHING_EXPECTED: Final = "no event is expected, because every score is 0"
_HUGE: Final = 1e6  # a ratio beyond which squares of the scores cancel


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

    It is at least 0, and 1 if events occur as often as the scores say on average. Above 1 they occur more often: the
    scores are too low. NaN if every score is 0: no outcome is then expected. Ties and the order of the rows play no
    part; weights are frequencies. From a sketch it is exact. Parameters, errors and cost are those of
    `expected_calibration_error`, for one evaluated event.

    References
    ----------
    Debray et al. (2017), doi 10.1136/bmj.i6460.

    Examples
    --------
    >>> import calibrant
    >>> calibrant.observed_expected_ratio([0.25, 0.25, 0.5, 1.0], [0, 1, 0, 1])
    1.0
    """
    arguments = Arguments(probs, targets, notion, weights, ignore_index, logits)
    return _ratio(event_table(arguments, "the O:E ratio"))


def _ratio(table: ReliabilityTable) -> float:
    expected = table.sums.scores
    return float(table.sums.positives / expected) if expected > 0 else math.nan


def _details(event: Event) -> Details:
    sums = event.table.sums
    facts = {"observed": float(sums.positives), "expected": float(sums.scores)}
    return facts if sums.scores > 0 else {**facts, "reason": _NOTHING_EXPECTED}


def _interval(inference: Inference) -> Interval:
    ratio = inference.event.value(OE_RATIO)
    if ratio == 0:
        return Interval(0.0, 0.0, RATE)  # `Inference` widens it by the events that were not seen
    return inference.interval_by_variance(OE_RATIO)


def _law(inference: Inference) -> Law | None:
    """Return the distribution of the mean difference, in units of the mean score: that of O / E - 1."""
    law, sums = inference.law(MEAN_GAP), inference.event.table.sums
    if law is None or not sums.scores > 0:
        return None
    mean_score = sums.scores / inference.event.table.total
    return Law(Floor(law.floor.mean / mean_score, law.floor.upper / mean_score), law.p_value, law.source)


def _influence(event: Event) -> Influence | None:
    return ratio_influence(event.design.fine, event.value(OE_RATIO))


#: Why a group is not compared by the ratio.
FEW_EXPECTED: Final = f"fewer than {MINORITY} events or non-events expected at the common ratio"


def ratio_influence(cells: Cells, ratio: float) -> Influence | None:
    """Return the influence of rows, (y - t p) / O, on log t, t = O / E; None if no outcome occurred.

    The sum of (y - t p)^2 in units of squared weight is sum y - 2 t sum p y + t^2 sum p^2, and sum p y = (sum p^2 +
    sum y - sum (p - y)^2) / 2: exact on a grid. Where scores are so small that the sum of p^2 is rounding, it is taken
    at the mean score of each cell.
    """
    observed = float(cells.positives.sum())
    if not observed > 0:
        return None
    outcomes = float(cells.table.own_weights[1].sum())
    squares = float((cells.units * cells.score_sums - cells.null_variances).sum())
    residuals = float(cells.squared_residuals.sum())
    values = np.stack([-ratio * cells.scores, 1 - ratio * cells.scores]) / observed
    if ratio < _HUGE:
        square = max(outcomes - ratio * (squares + outcomes - residuals) + ratio**2 * squares, 0.0) / observed**2
    else:
        square = float(np.sum(cells.table.own_weights * values**2))

    def by_bucket(rows: Clustered) -> Float64s:
        sums = rows.y.sum(axis=1) - ratio * (rows.gaps + rows.y).sum(axis=1)
        return np.asarray(sums / observed)

    return Influence(square=square, by_bucket=by_bucket, cells=cells, values=values)


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


OE_RATIO = Measure(
    name="oe_ratio",
    label="O:E ratio",
    meaning="Observed events divided by expected events. The ideal value is 1. Above 1, the event is underestimated.",
    misleads="Positive and negative differences cancel. With rare events, one or two events change the ratio strongly.",
    computed="The O:E ratio is the number of observed events divided by the sum of the predicted probabilities",
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
    over_classes=Unavailable("a mean of ratios over classes has no meaning; evaluate one class at a time"),
    origin=1.0,
    compare_groups=compare_ratios,
    functions=(observed_expected_ratio,),
)
