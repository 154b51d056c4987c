"""The arguments that measures and tests share: predictions, or a table or a sketch instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from calibrant.errors import InputError
from calibrant.inputs.notions import PER_CLASS, resolve
from calibrant.inputs.predictions import Notion, Predictions, as_predictions
from calibrant.runtime.arrays import ArrayLike
from calibrant.runtime.dataclass import dataclass
from calibrant.sketch.sketch import CalibrationSketch
from calibrant.sketch.totals import Totals
from calibrant.table import ReliabilityTable
from calibrant.table.reliability_table import check_targets, table_in_units

#: What is evaluated: scores or probabilities of rows, or what was read before; and the same of groups.
Predicted: TypeAlias = ArrayLike | ReliabilityTable | CalibrationSketch
PredictedGroups: TypeAlias = Predicted | Mapping[str, CalibrationSketch]


def check_alone(sketch: CalibrationSketch, notion: str | None, **others: Any) -> None:
    """Reject an empty sketch, other arguments passed with a sketch, and another notion than its own."""
    for name, value in others.items():
        if value is not None and value is not False:
            raise InputError(
                name,
                "no value with a CalibrationSketch",
                "a value",
                "leave this argument out, because the sketch contains all data",
            )
    sketch.check_filled()
    if notion is not None and notion != sketch.notion:
        remedy = f"leave notion out, or make the sketch with notion={notion!r}"
        raise InputError("notion", f"{sketch.notion!r}, the notion of the sketch", repr(notion), remedy)


@dataclass(frozen=True, eq=False)
class Arguments:
    """The caller's raw arguments: ``probs`` may be predictions, a `ReliabilityTable` or a `CalibrationSketch`."""

    probs: Predicted
    targets: ArrayLike | None = None
    notion: Notion | None = None
    weights: ArrayLike | None = None
    ignore_index: int | None = None
    logits: bool = False

    def predictions(self, notion: Notion | None = None) -> tuple[Predictions, Notion]:
        """Return the validated predictions and their notion; ``notion`` overrides the caller's."""
        predictions = as_predictions(
            self.probs,
            self.targets,
            weights=self.weights,
            ignore_index=self.ignore_index,
            logits=self.logits,
            notion=self.notion,
        )
        return predictions, resolve(predictions, notion or self.notion)

    def sketch(self) -> CalibrationSketch | None:
        """Return the sketch that was passed; None if it is something else."""
        return self.probs.in_units() if isinstance(self.probs, CalibrationSketch) else None

    def table(self) -> ReliabilityTable:
        """Return the table of the evaluated event: from predictions, from a sketch, or the one that was passed."""
        sketch = self.sketch()
        if sketch is not None:
            self._check_alone(sketch, self.notion)
            return sketch.table
        if isinstance(self.probs, ReliabilityTable):
            self.probs.check_alone(**self._others, notion=self.notion)
            return table_in_units(self.probs)
        check_targets(self.targets)
        # Weights are divided by a common factor, which changes no result: such tables must not be added.
        return table_in_units(ReliabilityTable.of_predictions(*self.predictions()))

    def ready_table(self) -> ReliabilityTable | None:
        """Return the table that was passed, or the table of the sketch; None if predictions were passed."""
        ready = isinstance(self.probs, (ReliabilityTable, CalibrationSketch))
        return self.table() if ready else None

    def totals(self) -> Totals | None:
        """Return the exact sums of the sketch that was passed; None if predictions were passed."""
        sketch = self.sketch()
        if sketch is None:
            return None
        self._check_alone(sketch, None)
        return sketch.totals

    def class_tables(self) -> list[ReliabilityTable] | None:
        """Return the tables of the classes of the sketch that was passed; None if predictions were passed."""
        sketch = self.sketch()
        if sketch is None:
            return None
        both_kept = self.notion in PER_CLASS and sketch.notion not in PER_CLASS
        self._check_alone(sketch, None if both_kept else self.notion)
        return sketch.class_tables

    @property
    def _others(self) -> dict[str, Any]:
        """The arguments that go with predictions alone."""
        others = {"targets": self.targets, "weights": self.weights, "ignore_index": self.ignore_index}
        return {**others, "logits": self.logits or None}

    def _check_alone(self, sketch: CalibrationSketch, notion: Notion | None) -> None:
        check_alone(sketch, notion, **self._others)
