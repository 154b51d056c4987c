"""The Kolmogorov-Smirnov calibration error: the largest cumulative gap."""

from __future__ import annotations

import numpy as np

from calibrant.measures.context import Inference, Null, Replicates
from calibrant.measures.cumulative import cumulative
from calibrant.measures.cumulative.intervals import cumulative_law, interval
from calibrant.measures.cumulative.intervals import interval_by_cluster as interval_by_cluster
from calibrant.measures.event import certified
from calibrant.measures.gap import largest_gap
from calibrant.measures.measure import Measure
from calibrant.runtime.arrays import Float64s
from calibrant.statistics.design import Clustered
from calibrant.statistics.null import Interval, Law


def _replicate(replicates: Replicates) -> Float64s:
    largest = np.abs(np.cumsum(replicates.gap_sums, axis=-1)).max(axis=-1)
    return np.asarray(largest / replicates.inference.cells.total)


def _interval(inference: Inference) -> Interval:
    design, value = inference.design, inference.event.value(KS)
    if isinstance(design, Clustered):
        ends = interval_by_cluster(design, value, inference.resampling)
    else:
        ends = interval(design.cells, value, inference.level)
    return Interval(*ends, "Brownian bounds")


def _law(inference: Inference) -> Law | None:
    """Return the null distribution without resampling; clusters have none."""
    if isinstance(inference.design, Clustered):
        return None
    cells = inference.cells
    value = float(np.abs(np.cumsum(cells.gap_sums)).max()) / cells.total
    return cumulative_law(cells, value, inference.level)


KS = Measure(
    name="ks",
    label="KS error",
    meaning="The largest absolute cumulative difference between predicted and observed events along the scores, "
    "divided by the number of rows.",
    misleads="Errors with alternating signs cancel.",
    computed="The KS error is the largest absolute cumulative sum of predicted minus observed along the scores, "
    "divided by the number of rows",
    sources=("Gupta et al. 2021",),
    value=lambda event: cumulative.ks_error(event.table),
    bound=certified(lambda cells, _: cumulative.ks_bound(cells)),
    interval=_interval,
    implied=largest_gap,
    null=Null(replicate=_replicate, closed_form=_law),
)
