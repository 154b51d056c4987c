"""The mean score, and the mean difference between scores and outcomes."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from calibrant.measures.context import Inference
from calibrant.measures.event import Event
from calibrant.measures.means.means import gap_influence, gap_variance, mean_score_influence
from calibrant.measures.measure import Measure, OwnLaw, Unavailable, exact
from calibrant.results import Floor
from calibrant.statistics.design import SamplingDesign
from calibrant.statistics.intervals import DEVIATES
from calibrant.statistics.null import Interval, Law

#: How a mean difference was made that cannot vary.
BALANCED: Final = "0 by construction: the outcomes of each cluster add up to its scores"


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


def _interval(inference: Inference) -> Interval:
    value = inference.event.value(MEAN_GAP)
    if is_balanced(inference.design, value):
        return Interval(min(value, 0.0), max(value, 0.0), BALANCED)
    return inference.interval_by_variance(MEAN_GAP)


def _law(inference: Inference) -> Law:
    return mean_gap_law(inference.design, inference.event.value(MEAN_GAP), inference.level)


MEAN_CONFIDENCE = Measure(
    name="mean_confidence",
    label="mean prediction",
    meaning="The mean predicted probability of the event, or the mean confidence for the top label.",
    misleads="Compare the mean prediction with the observed frequency.",
    computed="The mean prediction is the mean predicted probability of the event",
    value=_mean_score,
    better="neither",
    range=(0.0, 1.0),
    bound=exact,
    influence=lambda event: mean_score_influence(event.design.fine, _mean_score(event)),
    null=Unavailable("no noise floor: the measure is not an error"),
)

MEAN_GAP = Measure(
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
    interval=_interval,
    influence=lambda event: gap_influence(event.design),
    null=OwnLaw(_law),
)
