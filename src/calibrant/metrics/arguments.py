"""What the measures have in common: their arguments, validated, and the events they judge."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from calibrant.errors import InputError
from calibrant.estimators import binned
from calibrant.estimators.binned import Binning, Bins, Closed
from calibrant.inputs import Notion, Predictions, as_predictions
from calibrant.kernels import dispatch
from calibrant.notions import Events, read, resolve
from calibrant.table import ReliabilityTable

#: The notions that judge every class by itself.
PER_CLASS: Final[tuple[Notion, ...]] = ("classwise", "multilabel")


def prepare(
    probs: Any, targets: Any, notion: str | None, weights: Any, ignore_index: int | None, logits: bool
) -> tuple[Predictions, Notion]:
    """Return the validated predictions and the notion meant."""
    predictions = as_predictions(
        probs, targets, weights=weights, ignore_index=ignore_index, logits=logits, notion=notion
    )
    return predictions, resolve(predictions, notion)


def judged_event(predictions: Predictions, notion: Notion, measure: str) -> Events:
    """Read the predictions for a measure of one event."""
    if notion in PER_CLASS:
        raise InputError(
            "notion", f"'positive' or 'top-label' for {measure}", repr(notion), "pass one class's column at a time"
        )
    return read(predictions, notion, scoring=False).events


def bins_of(events: Events | ReliabilityTable, n_bins: int, binning: Binning, closed: Closed) -> Bins:
    """Count events, or the rows of a table, into bins of either kind."""
    if isinstance(events, ReliabilityTable):
        quantile = binning == "quantile"
        return binned.quantile_bins(events, n_bins) if quantile else binned.bin_table(events, n_bins, closed)
    if binning == "quantile":
        return binned.quantile_bins(ReliabilityTable.pool(events), n_bins)
    return binned.bin_events(events, n_bins, closed)


def event_bins(predictions: Predictions, notion: Notion, n_bins: int, binning: Binning, closed: Closed) -> Bins:
    """Read the predictions for a measure of one event and its bins alone: in one go where that is possible.

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
        if sums is not None:  # else something is unusual, which the general way finds out
            return Bins(edges, sums[0], sums[1], sums[2], np.full(n_bins, np.nan))
    return bins_of(read(predictions, notion, scoring=False).events, n_bins, binning, closed)
