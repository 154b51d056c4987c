"""The mean score, and the mean gap between scores and outcomes."""

from __future__ import annotations

import numpy as np

from calibrant.measures.context import Event, Inference, OwnLaw, Unavailable
from calibrant.measures.measure import Measure, exact
from calibrant.sampling import means, null_closed_form
from calibrant.sampling.null import Interval, Law


def _mean_score(event: Event) -> float:
    return event.table.sums.scores / event.table.total


def _mean_score_interval(inference: Inference) -> Interval:
    cells = inference.cells
    value = inference.event.value(MEAN_CONFIDENCE)
    variance = float(np.sum(cells.square_weights * (cells.scores - value) ** 2) / np.sum(cells.square_weights))
    low, high = means.normal_interval(value, variance, cells.effective_n, inference.resampling.z)
    return Interval(max(low, 0.0), min(high, 1.0), means.NORMAL)


def _interval(inference: Inference) -> Interval:
    gap, half = inference.event.value(MEAN_GAP), inference.resampling.z * means.gap_error(inference.cells)
    return Interval(max(gap - half, -1.0), min(gap + half, 1.0), means.NORMAL)


def _law(inference: Inference) -> Law:
    """Return the floor of the gap's absolute value, and the two-sided p-value of the gap."""
    gap, level = inference.event.value(MEAN_GAP), inference.resampling.level
    return null_closed_form.mean_gap_law(inference.cells, gap, level)


MEAN_CONFIDENCE = Measure(
    name="mean_confidence",
    label="mean confidence",
    meaning="The mean score of the judged event: what was claimed, on average.",
    value=_mean_score,
    better="neither",
    bound=exact,
    interval=_mean_score_interval,
    null=Unavailable("no noise floor: it is not an error"),
)

MEAN_GAP = Measure(
    name="mean_gap",
    label="mean gap",
    meaning="Mean score minus outcome rate. 0 is right; above 0, too much was claimed.",
    value=lambda event: _mean_score(event) - event.outcome_rate,
    better="neither",
    signed=True,
    bound=exact,
    interval=_interval,
    null=OwnLaw(_law),
)
