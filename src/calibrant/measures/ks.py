"""The Kolmogorov-Smirnov calibration error: the largest cumulative gap."""

from __future__ import annotations

import numpy as np

from calibrant.estimators import cumulative
from calibrant.measures.context import Inference, Null, Replicates
from calibrant.measures.measure import Measure
from calibrant.sampling import cumulative as sums
from calibrant.sampling import null_closed_form
from calibrant.sampling.null import Interval, Law
from calibrant.sampling.resampling import Float64s


def _replicate(replicates: Replicates) -> Float64s:
    largest = np.abs(np.cumsum(replicates.gap_sums, axis=-1)).max(axis=-1)
    return np.asarray(largest / replicates.inference.cells.total)


def _interval(inference: Inference) -> Interval:
    ends = sums.interval(inference.cells, inference.event.value(KS), inference.resampling.level)
    return Interval(*ends, "Brownian bounds")


def _closed_form(inference: Inference) -> Law:
    value = float(_replicate(inference.observed)[0])
    return null_closed_form.cumulative_law(inference.cells, value, inference.resampling.level)


KS = Measure(
    name="ks",
    label="KS error",
    meaning="The largest gap that adds up over a range of scores, as a share of all rows.",
    value=lambda event: cumulative.ks_error(event.table),
    bound=lambda event: 0.0 if event.certified is None else event.certified.ks(),
    interval=_interval,
    null=Null(replicate=_replicate, closed_form=_closed_form),
)
