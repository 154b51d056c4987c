"""A table or a sketch in the place of predictions."""

from __future__ import annotations

from typing import Any

from calibrant.errors import InputError
from calibrant.inputs import Notion
from calibrant.sketch.sketch import CalibrationSketch
from calibrant.sketch.sums import PER_CLASS, Totals
from calibrant.table import ReliabilityTable


def check_alone(sketch: CalibrationSketch, notion: str | None, **given: Any) -> None:
    """Raise for an argument beside a sketch that cannot change it any more, and for another notion than it judged."""
    for name, value in given.items():
        if value is not None and value is not False:
            raise InputError(name, "nothing beside a CalibrationSketch", "a value", "the sketch holds all there is")
    sketch.check_filled()
    if notion is not None and notion != sketch.notion:
        remedy = f"leave it out, or make the sketch with notion={notion!r}"
        raise InputError("notion", f"{sketch.notion!r}, which the sketch judged", repr(notion), remedy)


def given_table(
    probs: Any, targets: Any, notion: Notion | None, weights: Any, ignore_index: int | None, logits: bool
) -> ReliabilityTable | None:
    """Return the table, or that of the sketch, given in the place of predictions; None where predictions were given."""
    if isinstance(probs, CalibrationSketch):
        check_alone(probs, notion, targets=targets, weights=weights, ignore_index=ignore_index, logits=logits)
        return probs.table
    if not isinstance(probs, ReliabilityTable):
        return None
    return ReliabilityTable.from_predictions(
        probs, targets, notion=notion, weights=weights, ignore_index=ignore_index, logits=logits
    )


def given_totals(probs: Any, targets: Any, weights: Any, ignore_index: int | None, logits: bool) -> Totals | None:
    """Return the exact sums of the sketch given in the place of predictions, or None where predictions were given."""
    if not isinstance(probs, CalibrationSketch):
        return None
    check_alone(probs, None, targets=targets, weights=weights, ignore_index=ignore_index, logits=logits)
    return probs.totals


def given_classes(
    probs: Any, targets: Any, notion: str | None, weights: Any, ignore_index: int | None, logits: bool
) -> list[ReliabilityTable] | None:
    """Return the tables of the classes of a sketch, where one is given and its classes are asked for."""
    if not isinstance(probs, CalibrationSketch):
        return None
    kept = notion in PER_CLASS and probs.notion not in PER_CLASS  # beside the judged event
    given = {"targets": targets, "weights": weights, "ignore_index": ignore_index, "logits": logits}
    check_alone(probs, None if kept else notion, **given)
    return probs.class_tables


def table_of(
    probs: Any,
    targets: Any = None,
    *,
    notion: Notion | None = None,
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> ReliabilityTable:
    """Return the table of a judged event: of predictions, of a sketch, or the one that was given."""
    table = given_table(probs, targets, notion, weights, ignore_index, logits)
    if table is not None:
        return table
    return ReliabilityTable.from_predictions(
        probs, targets, notion=notion, weights=weights, ignore_index=ignore_index, logits=logits
    )
