"""What can be wrong with an argument, as values: the fault, its facts, and the mistake that probably caused it.

The code that rejects an argument sets these, and words the error. A program reads the fault and the facts, never a
sentence.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from calibrant.runtime.dataclass import dataclass


class Fault(Enum):
    """What is wrong with an argument."""

    VALUE = "a value that the argument cannot take"
    NO_ARRAY = "an object that is not an array"
    TEXT = "text instead of numbers"
    MISSING = "a missing value"
    NOT_FINITE = "a score that is NaN or infinite"
    NO_LOGIT = "a row of logits that are all -inf"
    OUTSIDE_RANGE = "a probability outside [0, 1]"
    ROW_SUM = "a row whose probabilities do not sum to 1"
    PROBABILITIES_AS_LOGITS = "probabilities that are declared as logits"
    PREDICTED_CLASSES = "predicted classes instead of probabilities"
    SWAPPED = "probabilities and targets in the wrong order"
    LENGTHS = "targets whose shape does not match the probabilities"
    MODEL_SHAPES = "models whose probabilities have different shapes"
    OUTCOMES = "an outcome other than 0 and 1"
    CLASS_INDICES = "a class index outside the columns"
    LABEL_RANGE = "an outcome or a class index outside its range, in a row that a device counts but does not locate"
    LABEL_TYPE = "targets of a type that cannot be labels"
    LABEL_NAMES = "names of classes, without the order of the classes"
    UNKNOWN_NAME = "a label that is not among the names of the classes"
    ONE_HOT = "a row of targets that is not one-hot (exactly one 1 among 0s)"
    WEIGHT = "a weight that is negative or not finite"
    COLUMN_NAME = "a column name that the engine cannot find"
    COLUMN_TYPE = "a column of the wrong type"
    TOO_FINE = "values with more digits than can be fetched from an engine"
    FOREIGN = "content that calibrant did not write"


class Mistake(Enum):
    """What the caller may have done."""

    NOT_COLLECTED = "a lazy frame was not collected"
    FILE_NAME = "the name of a file was passed, not its content"
    PERCENT_TEXT = "numbers are written like '85%'"
    NUMBER_TEXT = "numbers are stored as text"
    PERCENT = "probabilities are in percent"
    PERCENT_OR_CLASSES = "probabilities are in percent, or are predicted classes"
    RANKS = "probabilities are whole numbers up to 10, such as deciles"
    ROUNDING = "probabilities exceed [0, 1] by rounding, or are logits"
    LOGITS = "logits are declared as probabilities"
    TARGET_COLUMN = "a column of the probabilities holds the targets"
    COUNT_COLUMN = "a column of the probabilities holds whole numbers"
    SINGLE_LABEL = "one label was passed for all rows"
    SINGLE_ROW = "the probabilities of one event are laid out as one row of many classes"
    TRANSPOSED_PROBS = "rows and columns of the probabilities are swapped"
    TRANSPOSED_TARGETS = "rows and columns of the one-hot targets are swapped"
    TRANSPOSED_BOTH = "rows and columns of both arguments are swapped"
    ONE_HOT_EVENT = "the outcomes of one event are one-hot"
    SEVERAL_LABELS = "rows have several labels each"
    ONE_BASED = "labels are counted from 1"
    TWO_LABELS = "two labels stand for the outcomes"
    IGNORED_LABEL = "a label marks rows to leave out"
    COLUMN_LACKING = "a class has no column"
    PROBABILITY_TARGETS = "targets are probabilities"
    FRACTION = "a target is rounded incorrectly"
    NESTED = "a column holds lists"


#: The mistakes that ``logits=True`` may correct.
MAY_BE_LOGITS: Final = frozenset({Mistake.LOGITS, Mistake.ROUNDING})


@dataclass(frozen=True)
class Suspicion:
    """A suspected mistake, with the labels or the column of ``probs`` that show it."""

    mistake: Mistake
    labels: tuple[int | str, ...] = ()
    column: int | None = None


@dataclass(frozen=True)
class Place:
    """The row and column of the first invalid value, counted from 0, in an array with ``width`` columns.

    The row is None if rows have no order, as in an engine.
    """

    row: int | None
    column: int | None = None
    width: int = 1

    def __str__(self) -> str:
        return f"row {self.row}" if self.width == 1 or self.column is None else f"row {self.row}, column {self.column}"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The facts of a fault.

    Attributes
    ----------
    suspicion : Suspicion or None
        The suspected mistake.
    place : Place or None
        Where the first invalid value is.
    n_rows : int
        The number of rows with the fault.
    value : Any
        What came: a number, a label, a shape or a type.
    n_classes : int or None
        The number of classes of a label; None means one event.
    names : tuple of str
        The names that were known, or the argument whose shape differs.
    found : str
        What came in words, without the place.
    of_surface : bool
        Whether the remedy differs between Python and other surfaces; see `calibrant.errors.wording.remedy_of`.
    """

    suspicion: Suspicion | None = None
    place: Place | None = None
    n_rows: int = 1
    value: Any = None
    n_classes: int | None = None
    names: tuple[str, ...] = ()
    found: str = ""
    of_surface: bool = False

    @property
    def mistake(self) -> Mistake | None:
        """The suspected mistake."""
        return None if self.suspicion is None else self.suspicion.mistake
