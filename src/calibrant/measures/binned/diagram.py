"""The reliability diagram: the bins that several measures are computed over."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from calibrant.inputs.predictions import Notion
from calibrant.measures.binned import binned
from calibrant.measures.binned.bin_inference import rate_band, rate_intervals
from calibrant.measures.binned.bin_sums import BinMoments
from calibrant.measures.binned.binned import Binning, Closed, check_bins, uniform_edges
from calibrant.measures.binned.cluster_bins import uniform_bins, uniform_sums
from calibrant.measures.context import Inference, Replicates
from calibrant.measures.event import Event
from calibrant.measures.read_arguments import evaluated_event_of, event_bins, event_table, table_bins
from calibrant.results import ReliabilityDiagram
from calibrant.runtime.arrays import ArrayLike, Float64s
from calibrant.sketch import Arguments, Predicted
from calibrant.statistics.design import Clustered
from calibrant.statistics.intervals import clopper_pearson, consistency_band
from calibrant.statistics.resampling import check_level


def reliability_diagram(
    probs: Predicted,
    targets: ArrayLike | None = None,
    n_bins: int = 15,
    *,
    notion: Notion | None = None,
    binning: Binning = "uniform",
    closed: Closed = "right",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
    level: float | None = None,
) -> ReliabilityDiagram:
    """Return the bins of a reliability diagram: edges, counts, mean scores, observed frequencies and shares.

    Parameters, errors and cost are those of `expected_calibration_error`, for one evaluated event. An empty bin has
    count 0 and NaN for its mean score and observed frequency.

    With a ``level`` from 0.5 to below 1 each bin also has the Clopper-Pearson interval of its observed frequency and
    the consistency band: the binomial range of the rate if the mean score is right. Both hold for independent rows and
    for the edges that the bins have; bins of equal frequency take theirs from the scores, not from the outcomes. With
    weights that are not integers, effective sample sizes stand for rows.

    References
    ----------
    Murphy, Winkler (1977), doi 10.2307/2346866. DeGroot, Fienberg (1983), doi 10.2307/2987588. Intervals: Clopper,
    Pearson (1934), doi 10.1093/biomet/26.4.404. Band: Bröcker, Smith (2007), doi 10.1175/WAF993.1.

    Examples
    --------
    >>> import calibrant
    >>> p, y = [0.1, 0.2, 0.3, 0.4, 0.65, 0.7, 0.8, 0.9, 1], [0] * 4 + [1] * 5
    >>> diagram = calibrant.reliability_diagram(p, y, n_bins=3)
    >>> diagram.accuracies, diagram.confidences.round(3), diagram.counts
    (array([0. , 0.5, 1. ]), array([0.2  , 0.525, 0.85 ]), array([3, 2, 4]))
    >>> diagram = calibrant.reliability_diagram(p, y, n_bins=2, binning="quantile", level=0.95)
    >>> diagram.counts, diagram.lows.round(3), diagram.highs.round(3)
    (array([4, 5]), array([0.   , 0.478]), array([0.602, 1.   ]))
    """
    arguments = Arguments(probs, targets, notion, weights, ignore_index, logits)
    check_bins(n_bins, binning, "l1", closed)
    measure, table = "a reliability diagram", arguments.ready_table()
    if level is not None:
        check_level(level)
        table = event_table(arguments, measure) if table is None else table
    if table is None:
        events = evaluated_event_of(*arguments.predictions(), measure)
        return binned.diagram(event_bins(events, n_bins, binning, closed), weighted=events.weights is not None)
    bins = table_bins(table, n_bins, binning, closed)
    plain = binned.diagram(bins, weighted=table.counts.dtype.kind == "f")
    return plain if level is None else with_intervals(plain, bins.rows, bins.rate_rows, level)


def diagram_of(event: Event) -> ReliabilityDiagram:
    """Return the equal-width bins of an event as a diagram: ``event.of(diagram_of)``."""
    return binned.diagram(event.of(uniform_bins), weighted=event.table.counts.dtype.kind == "f")


def uniform_rates(replicates: Replicates) -> Float64s:
    """Return the observed frequency of each equal-width bin of simulated data sets, (B, M), cut to [0, 1]."""
    moments = replicates.inference.event.of(uniform_sums).moments
    return np.clip((moments.score_sums - replicates.uniform_gaps) / moments.counts, 0.0, 1.0)


def inferred_diagram(inference: Inference, *, band: bool = True) -> ReliabilityDiagram:
    """Return the equal-width bins, Clopper-Pearson intervals of their rates, and the band of calibrated scores."""
    event, resampling = inference.event, inference.resampling
    plain, bins, sums = event.of(diagram_of), event.of(uniform_bins), event.of(uniform_sums)
    low, high, least, most = (np.full(len(plain.accuracies), math.nan) for _ in range(4))
    filled = bins.counts > 0
    if isinstance(inference.design, Clustered):
        low[filled], high[filled] = rate_intervals(sums, inference.level)
    else:  # of all rows, which `sums` have by cells
        rows, tail = bins.rate_rows[filled], resampling.tail
        low[filled], high[filled] = clopper_pearson(plain.accuracies[filled] * rows, rows, tail)
    diagram = replace(plain, lows=low, highs=high, level=resampling.level)
    if not band:
        return diagram
    if resampling.n_resamples:
        ends = resampling.band(inference.replicates_of(uniform_rates))
    else:
        ends = rate_band(sums, inference.level)
    least[sums.moments.index], most[sums.moments.index] = ends
    return replace(diagram, band_lows=least, band_highs=most)


def bin_diagram(n_bins: int, bins: BinMoments, level: float, *, integer_weights: bool) -> ReliabilityDiagram:
    """Return filled bins as a diagram, with Clopper-Pearson intervals of their rates and the band of calibration."""
    everywhere = np.full((5, n_bins), math.nan)
    everywhere[:, bins.index] = bins.counts, bins.score_sums / bins.counts, bins.rates, bins.rows, bins.rate_rows
    held, mean_scores, event_rates, sizes, rate_sizes = everywhere
    held = np.nan_to_num(held)
    diagram = ReliabilityDiagram(
        edges=uniform_edges(n_bins),
        counts=np.rint(held).astype(np.int64) if integer_weights else held,
        confidences=mean_scores,
        accuracies=event_rates,
        proportions=held / held.sum(),
    )
    return with_intervals(diagram, sizes, rate_sizes, level)


def with_intervals(
    diagram: ReliabilityDiagram, rows: Float64s, rate_rows: Float64s, level: float
) -> ReliabilityDiagram:
    """Return a diagram with Clopper-Pearson intervals of the bins' rates and the band of calibration, in closed form.

    ``rows`` and ``rate_rows``, (M,), are the effective sample sizes of the mean score and of the rate of each bin.
    """
    filled, tail = diagram.counts > 0, (1 - level) / 2
    rates, sizes = diagram.accuracies[filled], rate_rows[filled]
    low, high, least, most = columns = np.full((4, len(filled)), math.nan)
    columns[:2, filled] = clopper_pearson(rates * sizes, sizes, tail)
    columns[2:, filled] = consistency_band(diagram.confidences[filled], rows[filled], tail)
    return replace(diagram, lows=low, highs=high, band_lows=least, band_highs=most, level=level)
