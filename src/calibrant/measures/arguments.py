"""Read the arguments of the measures' functions into bins, events or a table."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.errors import InputError
from calibrant.inputs.notions import PER_CLASS, Events, read
from calibrant.inputs.predictions import Notion, Predictions
from calibrant.kernels import dispatch
from calibrant.measures.binned import binned
from calibrant.measures.binned.binned import Binning, Bins, Closed, Norm
from calibrant.measures.binned.histograms import event_bins, histograms_of, read_histograms, table_bins
from calibrant.measures.binned.intervals import with_intervals
from calibrant.results import ReliabilityDiagram
from calibrant.sketch import Arguments, CalibrationSketch
from calibrant.statistics.resampling import check_level
from calibrant.table import ReliabilityTable


def judged_event(predictions: Predictions, notion: Notion, measure: str) -> Events:
    """Read the predictions for a measure of one event."""
    if notion in PER_CLASS:
        raise InputError(
            "notion", f"'positive' or 'top-label' for {measure}", repr(notion), "pass one class's column at a time"
        )
    return read(predictions, notion, scoring=False).events


def event_table(arguments: Arguments, measure: str) -> ReliabilityTable:
    """Return the table of one judged event."""
    table = arguments.ready_table()
    if table is not None:
        return table
    return ReliabilityTable.pool(judged_event(*arguments.predictions(), measure))


def class_predictions(arguments: Arguments, measure: str) -> Predictions:
    """Return the predictions for a measure of whole predictions that needs their rows."""
    if isinstance(arguments.probs, (ReliabilityTable, CalibrationSketch)):
        got = f"a {type(arguments.probs).__name__}"
        raise InputError("probs", f"rows of predictions for {measure}", got, "pass the predictions themselves")
    return arguments.predictions()[0]


def is_number(value: Any) -> bool:
    """Return whether an option is a number, and not True or False."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def bins_with_rows(arguments: Arguments, n_bins: int, binning: Binning, closed: Closed, measure: str) -> Bins:
    """Return the bins of one event with all that weights need: effective numbers of rows, squared weights."""
    table = arguments.ready_table()
    if table is not None:
        return table_bins(table, n_bins, binning, closed)
    events = judged_event(*arguments.predictions(), measure)
    return event_bins(events, n_bins, binning, closed, pooled=events.weights is not None)


def binned_error(
    arguments: Arguments, n_bins: int, *, binning: Binning, norm: Norm, closed: Closed, least_rows: int = 1
) -> float:
    """Return a calibration error over bins, of one event or combined over classes."""
    binned.check_bins(n_bins, binning, norm, closed)
    sketch = arguments.sketch()
    if sketch is not None and (arguments.notion or sketch.notion) in PER_CLASS:
        return histograms_of(arguments, n_bins, binning=binning, closed=closed).errors(norm, least_rows).value
    table = arguments.ready_table()
    if table is not None:
        return binned.calibration_error(table_bins(table, n_bins, binning, closed), norm, least_rows)
    predictions, notion = arguments.predictions()
    if notion in PER_CLASS:
        classes = read_histograms(predictions, notion, n_bins, binning=binning, closed=closed, least_rows=least_rows)
        return classes.errors(norm, least_rows).value
    if least_rows > 1:
        events = judged_event(predictions, notion, "the maximum")
        bins = event_bins(events, n_bins, binning, closed, pooled=True)
    else:
        bins = _fast_bins(predictions, notion, n_bins, binning, closed)
    return binned.calibration_error(bins, norm, least_rows)


def diagram_of(
    arguments: Arguments, n_bins: int, binning: Binning, closed: Closed, level: float | None = None
) -> ReliabilityDiagram:
    """Return the bins of one event as a diagram; with a level, with intervals and band."""
    binned.check_bins(n_bins, binning, "l1", closed)
    measure, table = "a reliability diagram", arguments.ready_table()
    if level is not None:
        check_level(level)
        table = event_table(arguments, measure) if table is None else table
    if table is None:
        events = judged_event(*arguments.predictions(), measure)
        return binned.diagram(event_bins(events, n_bins, binning, closed), weighted=events.weights is not None)
    bins = table_bins(table, n_bins, binning, closed)
    diagram = binned.diagram(bins, weighted=table.counts.dtype.kind == "f")
    return diagram if level is None else with_intervals(diagram, bins.rows, bins.rate_rows, level)


def _fast_bins(predictions: Predictions, notion: Notion, n_bins: int, binning: Binning, closed: Closed) -> Bins:
    """Return the bins of one event, in a single pass over the predictions if possible.

    The sums of squared residuals may be missing (NaN).
    """
    rows, single = predictions.rows.direct, predictions.layout == "binary"
    plain = predictions.weights is None and not predictions.logits and (single or notion == "top-label")
    if rows is not None and plain and binning == "uniform":
        edges = binned.uniform_edges(n_bins)
        sums = dispatch.tally(
            rows[:, 0] if single else rows,
            predictions.targets,
            uppers=binned.largest_members(edges, closed, rows.dtype),
            tolerance=predictions.tolerance,
            fold=single and notion == "top-label",
            half=True,
        )
        if sums is not None:  # None: something is unusual, and the general way below finds out what
            return Bins(edges, sums[0], sums[1], sums[2], np.full(n_bins, np.nan))
    return event_bins(read(predictions, notion, scoring=False).events, n_bins, binning, closed)
