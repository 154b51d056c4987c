"""Murphy's parts of the Brier score over bins: reliability and resolution."""

from __future__ import annotations

from typing import Final

import numpy as np

from calibrant.measures.binned import rmsce
from calibrant.measures.binned.certified import resolution_bound
from calibrant.measures.binned.parts import uniform_bins
from calibrant.measures.binned.rmsce import RMSCE
from calibrant.measures.context import Null
from calibrant.measures.event import Event, Unavailable, certified
from calibrant.measures.measure import Measure

_FORECAST: Final = frozenset({"forecast"})


def _reliability_bound(event: Event) -> float:
    """Return the certified error of a square: abs(a^2 - b^2) <= d (2 a + d) for abs(a - b) <= d."""
    bound = event.bound(RMSCE)
    return bound * (2 * event.value(RMSCE) + bound)


def _resolution(event: Event) -> float:
    """Return how far the rates of the bins are from the base rate: the sum of o_b (Y_b - base rate)^2."""
    bins = event.of(uniform_bins)
    filled = bins.counts > 0
    rates = bins.positives[filled] / bins.counts[filled]
    return float(bins.counts[filled] @ (rates - event.outcome_rate) ** 2) / event.table.total


MURPHY_RELIABILITY = Measure(
    name="murphy_reliability",
    label="Murphy reliability",
    meaning="Reliability component of the Brier score over bins: the square of the RMSCE. 0 for a calibrated model.",
    misleads="As for the RMSCE, whose square it is.",
    computed="The Murphy reliability is the mean squared difference between mean predicted probability and observed "
    "frequency over {bins}",
    sources=("Murphy 1973",),
    value=lambda event: event.value(RMSCE) ** 2,
    scale="score",
    binning="uniform",
    profiles=_FORECAST,
    bound=_reliability_bound,
    interval=Unavailable("no interval: it is the square of the RMSCE, which has one"),
    null=Null(replicate=lambda replicates: np.square(rmsce.replicate(replicates))),
)

MURPHY_RESOLUTION = Measure(
    name="murphy_resolution",
    label="Murphy resolution",
    meaning="Resolution component of the Brier score: the variance of the observed frequencies of the bins. Higher is "
    "better.",
    misleads="It is positive by chance and depends on the bins.",
    computed="The Murphy resolution is the variance of the observed frequencies of {bins} around the base rate",
    sources=("Murphy 1973",),
    value=_resolution,
    scale="score",
    better="higher",
    range=(0.0, 0.25),
    profiles=_FORECAST,
    bound=certified(lambda cells, event: resolution_bound(cells, event.n_bins)),
    interval=Unavailable("no interval: chance variation in the bins biases it upwards"),
    null=Unavailable("no noise floor: it is not an error"),
)
