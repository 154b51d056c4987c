"""What the measures have in common: their arguments, validated, and the events they judge."""

from __future__ import annotations

from typing import Any, Final

from calibrant.errors import InputError
from calibrant.estimators import binned
from calibrant.estimators.binned import Binning, Bins, Closed
from calibrant.inputs import Notion, Predictions, as_predictions
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


def bins_of(events: Events, n_bins: int, binning: Binning, closed: Closed) -> Bins:
    """Count events into bins of either kind."""
    if binning == "quantile":
        return binned.quantile_bins(ReliabilityTable.pool(events), n_bins)
    return binned.bin_events(events, n_bins, closed)
