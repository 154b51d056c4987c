"""The mean score, and the mean gap between scores and outcomes."""

from __future__ import annotations

from calibrant.measures.context import Inference, OwnLaw
from calibrant.measures.event import Event, Unavailable
from calibrant.measures.means.means import NORMAL
from calibrant.measures.measure import Measure, exact
from calibrant.statistics.null import Interval, Law


def _mean_score(event: Event) -> float:
    return event.table.sums.scores / event.table.total


def _mean_score_interval(inference: Inference) -> Interval:
    value = inference.event.value(MEAN_CONFIDENCE)
    return Interval(*inference.rows.mean_score_interval(value, inference.resampling), NORMAL)


def _interval(inference: Inference) -> Interval:
    return Interval(*inference.rows.gap_interval(inference.event.value(MEAN_GAP), inference.resampling), NORMAL)


def largest_gap(inference: Inference) -> float:
    """Return the largest size of the mean gap within its interval: errors that add up sizes of gaps are not below it.

    The size of a sum is at most the sum of the sizes. So it holds for mean gaps over bins of any edges, for the gap
    after smoothing, which keeps the sum, and for the largest cumulative sum, the last of which is the sum.
    """
    low, high, _ = inference.interval(MEAN_GAP)
    return max(-low, high)


def _law(inference: Inference) -> Law:
    """Return the floor of the gap's absolute value, and the two-sided p-value of the gap."""
    return inference.rows.gap_law(inference.event.value(MEAN_GAP), inference.level)


MEAN_CONFIDENCE = Measure(
    name="mean_confidence",
    label="mean confidence",
    meaning="The mean score of the judged event: what was claimed, on average.",
    computed="The mean confidence is the mean score of the judged event",
    value=_mean_score,
    better="neither",
    range=(0.0, 1.0),
    bound=exact,
    interval=_mean_score_interval,
    spread=lambda inference: inference.event.in_clusters.score_spread(_mean_score(inference.event)),
    null=Unavailable("no noise floor: it is not an error"),
)

MEAN_GAP = Measure(
    name="mean_gap",
    label="mean gap",
    meaning="Mean score minus outcome rate. 0 is right; above 0, too much was claimed.",
    computed="The mean gap is the mean score minus the outcome rate",
    profiles=frozenset({"standard", "clinical"}),
    value=lambda event: _mean_score(event) - event.outcome_rate,
    better="neither",
    signed=True,
    range=(-1.0, 1.0),
    bound=exact,
    interval=_interval,
    spread=lambda inference: inference.event.in_clusters.gap_spread(),
    null=OwnLaw(_law),
)
