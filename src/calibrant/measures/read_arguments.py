"""Read the arguments of the measures' functions into bins of one event or of every class, into events or a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from calibrant.errors import InputError
from calibrant.inputs.notions import PER_CLASS, Events, class_events, read
from calibrant.inputs.predictions import Notion, Predictions
from calibrant.inputs.weights import integer_weights
from calibrant.kernels import dispatch
from calibrant.measures.binned import binned
from calibrant.measures.binned.binned import Binning, Bins, Closed, Norm
from calibrant.results import ClasswiseCalibration
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.dataclass import dataclass
from calibrant.sketch import Arguments, CalibrationSketch
from calibrant.table import ReliabilityTable


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassHistograms:
    """The bins of every class."""

    sums: Float64s  # (3, bins, classes): the count, the sum of scores and the sum of outcomes of each bin
    totals: float | Float64s  # a number, or (classes,): the weight of the evaluated rows
    edges: Float64s | None = None  # (classes, bins + 1): the ends of each class's bins; None for equal-width bins
    rows: Float64s | None = None  # (bins, classes): the effective sample size of each bin; None if it is the count
    squares: Float64s | None = None  # (3, bins, classes): ``sums`` with squared weights; None if weights are whole

    def errors(self, norm: Norm, least_rows: int = 1) -> ClasswiseCalibration:
        """Return each class's error and their combination; the norm "max" takes only bins with ``least_rows`` rows."""
        rows = self.sums[0] if self.rows is None else self.rows
        held = binned.enough_rows(rows, least_rows) if norm == "max" else None
        return binned.classwise_errors(self.sums, self.totals, norm, self.edges, held)


def read_histograms(
    predictions: Predictions,
    notion: Notion,
    n_bins: int,
    *,
    binning: Binning = "uniform",
    closed: Closed = "right",
    threshold: float = 0.0,
    least_rows: int = 1,
) -> ClassHistograms:
    """Read predictions into the bins of every class: in one read if bins are of equal width."""
    by_rows = least_rows > 1 and not integer_weights(predictions.weights)
    if binning == "uniform" and predictions.layout == "multiclass" and not by_rows:
        uppers = binned.largest_members(binned.uniform_edges(n_bins), closed, predictions.rows.dtype)
        reading = read(predictions, "top-label", scoring=False, uppers=uppers, threshold=threshold)
        return ClassHistograms(sums=reading.histograms, totals=reading.total)
    read(predictions, "multilabel" if notion == "multilabel" else "top-label", scoring=False)
    rows_on_device = predictions.device_rows
    if rows_on_device is not None and binning == "quantile" and predictions.weights is None:
        least = float(predictions.rows.dtype.type(threshold))
        sums, uppers = rows_on_device.quantile_histograms(predictions.evaluated, n_bins, least)
        uppers[:, -1] = np.where(np.isnan(uppers[:, -1]), np.nan, 1.0)
        edges = np.concatenate([np.where(np.isnan(uppers[:, :1]), np.nan, 0.0), uppers], axis=1)
        return ClassHistograms(sums=sums, totals=float(np.count_nonzero(predictions.evaluated)), edges=edges)
    totals: list[float] = []

    def each_class() -> Iterator[Bins | None]:
        for events, total in class_events(predictions, threshold):
            totals.append(total)
            yield event_bins(events, n_bins, binning, closed, pooled=by_rows) if len(events.scores) else None

    sums, edges, rows = stacked(each_class(), n_bins, predictions.n_classes)
    return ClassHistograms(
        sums=sums,
        totals=np.array(totals),
        edges=edges if binning == "quantile" else None,
        rows=rows if by_rows else None,
    )


def table_histograms(
    tables: Sequence[ReliabilityTable], n_bins: int, *, binning: Binning = "uniform", closed: Closed = "right"
) -> ClassHistograms:
    """Return the bins of every class from its table."""
    bins = [table_bins(table, n_bins, binning, closed) if len(table) else None for table in tables]
    sums, edges, rows = stacked(bins, n_bins, len(tables))
    totals = np.array([table.total if len(table) else 0.0 for table in tables])
    squares = None
    if not all(table.whole for table in tables):
        squares, _, _ = stacked((each and each.squared for each in bins), n_bins, len(tables))
    return ClassHistograms(
        sums=sums, totals=totals, edges=edges if binning == "quantile" else None, rows=rows, squares=squares
    )


def histograms_of(
    arguments: Arguments,
    n_bins: int,
    *,
    binning: Binning,
    closed: Closed,
    threshold: float = 0.0,
    default: Notion | None = None,
) -> ClassHistograms:
    """Return the bins of every class of predictions, or of the sketch that was passed."""
    tables = arguments.class_tables()
    if tables is None:
        predictions, notion = arguments.predictions(default)
        return read_histograms(predictions, notion, n_bins, binning=binning, closed=closed, threshold=threshold)
    if threshold > 0:
        remedy = "leave the threshold out, because a sketch does not contain single scores"
        raise InputError("threshold", "0 for a CalibrationSketch", repr(threshold), remedy)
    return table_histograms(tables, n_bins, binning=binning, closed=closed)


def table_bins(table: ReliabilityTable, n_bins: int, binning: Binning, closed: Closed = "right") -> Bins:
    """Count the rows of a table into bins of either kind."""
    return binned.quantile_bins(table, n_bins) if binning == "quantile" else binned.bin_table(table, n_bins, closed)


def event_bins(events: Events, n_bins: int, binning: Binning, closed: Closed, *, pooled: bool = False) -> Bins:
    """Count events into bins of either kind; ``pooled``: through a table, which has effective sample sizes."""
    if pooled or binning == "quantile":
        return table_bins(ReliabilityTable.pool(events), n_bins, binning, closed)
    return binned.bin_events(events, n_bins, closed)


def stacked(bins: Iterable[Bins | None], n_bins: int, n_classes: int) -> tuple[Float64s, Float64s, Float64s]:
    """Return sums (3, bins, classes), edges (classes, bins + 1) and rows (bins, classes); None is an empty class."""
    sums, rows = np.zeros((3, n_bins, n_classes)), np.zeros((n_bins, n_classes))
    edges = np.full((n_classes, n_bins + 1), np.nan)
    for k, one in enumerate(bins):
        if one is not None:
            sums[:, :, k] = one.counts, one.score_sums, one.positives
            edges[k], rows[:, k] = one.edges, one.rows
    return sums, edges, rows


def evaluated_event_of(predictions: Predictions, notion: Notion, measure: str) -> Events:
    """Read the predictions for a measure of one event."""
    if notion in PER_CLASS:
        raise InputError(
            "notion", f"'positive' or 'top-label' for {measure}", repr(notion), "pass one class's column at a time"
        )
    return read(predictions, notion, scoring=False).events


def event_table(arguments: Arguments, measure: str) -> ReliabilityTable:
    """Return the table of one evaluated event."""
    table = arguments.ready_table()
    if table is not None:
        return table
    return ReliabilityTable.pool(evaluated_event_of(*arguments.predictions(), measure))


def class_predictions(arguments: Arguments, measure: str) -> Predictions:
    """Return the predictions for a measure of whole predictions that needs their rows."""
    if isinstance(arguments.probs, (ReliabilityTable, CalibrationSketch)):
        got = f"a {type(arguments.probs).__name__}"
        raise InputError("probs", f"rows of predictions for {measure}", got, "pass the predictions themselves")
    return arguments.predictions()[0]


def is_number(value: Any) -> bool:
    """Return whether an option is a number, and not True or False."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def bins_with_rows(arguments: Arguments, n_bins: int, binning: Binning, closed: Closed) -> Bins:
    """Return the bins of one event with all that weights need: effective numbers of rows, squared weights."""
    table = arguments.ready_table()
    if table is not None:
        return table_bins(table, n_bins, binning, closed)
    events = evaluated_event_of(*arguments.predictions(), "the debiased error")
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
        events = evaluated_event_of(predictions, notion, "the maximum")
        bins = event_bins(events, n_bins, binning, closed, pooled=True)
    else:
        bins = _fast_bins(predictions, notion, n_bins, binning, closed)
    return binned.calibration_error(bins, norm, least_rows)


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
