"""Calibration in the large: the mean score, the mean difference of scores and outcomes, and the O:E ratio."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from calibrant.inputs.predictions import Notion
from calibrant.measures.context import Inference
from calibrant.measures.event import Event
from calibrant.measures.means.means import gap_influence, gap_variance, mean_score_influence
from calibrant.measures.measure import NOT_AN_ERROR, Details, Measure, OwnLaw, Unavailable, exact
from calibrant.measures.read_arguments import event_table
from calibrant.results import Floor
from calibrant.runtime.arrays import ArrayLike, Float64s
from calibrant.sketch import Arguments, Predicted
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import MINORITY, Clustered, Influence, SamplingDesign
from calibrant.statistics.group_tests import Deviations
from calibrant.statistics.intervals import DEVIATES, RATE
from calibrant.statistics.null import Interval, Law
from calibrant.table import ReliabilityTable

#: How a mean difference was made that cannot vary.
BALANCED: Final = "0 by construction: the outcomes of each cluster add up to the sum of its scores"


def _mean_score(event: Event) -> float:
    return event.table.sums.scores / event.table.total


def largest_gap(inference: Inference) -> float:
    """Return the largest size of the mean difference within its interval.

    Errors that add up sizes of differences are not below it.

    The size of a sum is at most the sum of the sizes. So it holds for mean gaps over bins of any edges, for the gap
    after smoothing, which keeps the sum, and for the largest cumulative sum, whose last term is the sum.
    """
    low, high, _ = inference.interval(MEAN_GAP)
    return max(-low, high)


def mean_gap_law(design: SamplingDesign, value: float, level: float) -> Law:
    """Return the floor of the size of the mean difference, and the two-sided p-value of the mean difference.

    Where the scores are uncertain and nothing varies, clusters have the outcomes of their scores: p is then 1.
    """
    from scipy.special import ndtr, ndtri

    cells = design.cells
    sd = math.sqrt(design.null_variance(np.ones(len(cells)))) / cells.total
    if sd == 0:
        return Law(Floor(0.0, 0.0), float(abs(value) < 1e-15 or bool(cells.null_variances.any())))
    upper = float(ndtri(0.5 + level / 2)) * sd
    return Law(Floor(math.sqrt(2 / math.pi) * sd, upper), 2 * float(ndtr(-abs(value) / sd)))


def is_balanced(design: SamplingDesign, value: float) -> bool:
    """Return whether a mean difference is 0 by construction: each cluster's outcomes add up to its scores.

    One outcome of each race or question occurs, for example, and its probabilities sum to 1.
    """
    certain = not design.cells.null_variances.any()
    return not certain and abs(value) <= DEVIATES and gap_variance(design).value == 0


def _mean_gap_interval(inference: Inference) -> Interval:
    value = inference.event.value(MEAN_GAP)
    if is_balanced(inference.design, value):
        return Interval(min(value, 0.0), max(value, 0.0), BALANCED)
    return inference.interval_by_variance(MEAN_GAP)


MEAN_CONFIDENCE = Measure(
    name="mean_confidence",
    label="mean prediction",
    meaning="The mean predicted probability of the event, or the mean confidence for the top label.",
    misleads="Compare it with the observed frequency.",
    computed="The mean prediction is the mean predicted probability of the event",
    value=_mean_score,
    better="neither",
    range=(0.0, 1.0),
    bound=exact,
    influence=lambda event: mean_score_influence(event.design.fine, _mean_score(event)),
    null=NOT_AN_ERROR,
)

MEAN_GAP: Measure = Measure(
    name="mean_gap",
    label="mean difference",
    meaning="Calibration in the large: mean predicted probability minus observed frequency. The ideal value "
    "is 0. Above 0, the event is overestimated.",
    misleads="Positive and negative differences cancel.",
    computed="The mean difference is the mean predicted probability minus the observed frequency",
    profiles=frozenset({"standard", "clinical"}),
    value=lambda event: _mean_score(event) - event.outcome_rate,
    better="neither",
    signed=True,
    range=(-1.0, 1.0),
    bound=exact,
    interval=_mean_gap_interval,
    influence=lambda event: gap_influence(event.design),
    null=OwnLaw(lambda inference: mean_gap_law(inference.design, inference.event.value(MEAN_GAP), inference.level)),
)


_NOTHING_EXPECTED: Final = "no event is expected, because every score is 0"
_HUGE: Final = 1e6  # a ratio beyond which squares of the scores cancel


def observed_expected_ratio(
    probs: Predicted,
    targets: ArrayLike | None = None,
    *,
    notion: Notion | None = None,
    weights: ArrayLike | None = None,
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


def _ratio_details(event: Event) -> Details:
    sums = event.table.sums
    facts = {"observed": float(sums.positives), "expected": float(sums.scores)}
    return facts if sums.scores > 0 else {**facts, "reason": _NOTHING_EXPECTED}


def _ratio_interval(inference: Inference) -> Interval:
    ratio = inference.event.value(OE_RATIO)
    if ratio == 0:
        return Interval(0.0, 0.0, RATE)  # `Inference` widens it by the events that were not seen
    return inference.interval_by_variance(OE_RATIO)


def _ratio_law(inference: Inference) -> Law | None:
    """Return the distribution of the mean difference, in units of the mean score: that of O / E - 1."""
    law, sums = inference.law(MEAN_GAP), inference.event.table.sums
    if law is None or not sums.scores > 0:
        return None
    mean_score = sums.scores / inference.event.table.total
    return Law(Floor(law.floor.mean / mean_score, law.floor.upper / mean_score), law.p_value, law.source)


#: Why a group is not compared by the ratio.
FEW_EXPECTED: Final = f"fewer than {MINORITY} events or non-events expected in the group at the overall O:E ratio"


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


OE_RATIO: Measure = Measure(
    name="oe_ratio",
    label="O:E ratio",
    meaning="Observed events divided by expected events. The ideal value is 1. Above 1, the event is underestimated.",
    misleads="Positive and negative differences cancel. If the event is rare, one event changes the ratio strongly.",
    computed="The O:E ratio is the number of observed events divided by the sum of the predicted probabilities",
    sources=("Debray et al. 2017",),
    value=lambda event: _ratio(event.table),
    scale="ratio",
    range=(0.0, math.inf),
    better="neither",
    link="log",
    profiles=frozenset({"standard", "clinical"}),
    details=_ratio_details,
    bound=exact,
    interval=_ratio_interval,
    influence=lambda event: ratio_influence(event.design.fine, event.value(OE_RATIO)),
    null=OwnLaw(_ratio_law),
    over_classes=Unavailable("a mean of ratios over classes has no meaning; evaluate one class at a time"),
    origin=1.0,
    compare_groups=compare_ratios,
    functions=(observed_expected_ratio,),
)
