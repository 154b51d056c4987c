"""The Kolmogorov-Smirnov calibration error: the largest cumulative gap."""

from __future__ import annotations

import numpy as np

from calibrant.measures.context import Inference, Null, Replicates
from calibrant.measures.cumulative import cumulative
from calibrant.measures.gap import largest_gap
from calibrant.measures.measure import Measure
from calibrant.runtime.arrays import Float64s
from calibrant.statistics.null import Interval


def _replicate(replicates: Replicates) -> Float64s:
    largest = np.abs(np.cumsum(replicates.gap_sums, axis=-1)).max(axis=-1)
    return np.asarray(largest / replicates.inference.cells.total)


def _interval(inference: Inference) -> Interval:
    ends = inference.rows.cumulative_interval(inference.event.value(KS), inference.resampling)
    return Interval(*ends, "Brownian bounds")


KS = Measure(
    name="ks",
    label="KS error",
    meaning="The largest gap that adds up over a range of scores, as a share of all rows.",
    computed="The KS error is the largest absolute sum of score minus outcome along the scores, over the number of "
    "rows",
    sources=("Gupta et al. 2021",),
    value=lambda event: cumulative.ks_error(event.table),
    bound=lambda event: 0.0 if event.certified is None else event.certified.ks(),
    interval=_interval,
    implied=largest_gap,
    null=Null(replicate=_replicate, closed_form=lambda inference: inference.rows.cumulative_law(inference.level)),
)
