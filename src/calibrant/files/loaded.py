"""Results of reading: arrays with the way back to the rows of the files, or a sketch; of one model or of several."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError, quoted
from calibrant.errors.faults import Fault
from calibrant.errors.wording import reword
from calibrant.files.column_options import listed
from calibrant.inputs.decision_log import DecisionLog
from calibrant.runtime.dataclass import dataclass
from calibrant.sketch import CalibrationSketch

_LISTED = 20  # names of classes that an error lists


class Omitted(NamedTuple):
    """A file that was left out, and why."""

    path: str
    reason: str


@dataclass(frozen=True, eq=False, kw_only=True)
class FileRead:
    """What was read from one or more files; the base of the results."""

    #: What was read, for people: ``{"probs": "p_0 ... p_9 (10 columns)", "targets": "target"}``, of evaluation logs the
    #: ``"protocol"`` too; empty where sketches were read.
    sources: Mapping[str, str]
    paths: tuple[str, ...]  #: in the order of their rows
    rows: tuple[int, ...]  #: how many rows each file gave
    omitted: tuple[Omitted, ...] = ()  #: the files that were left out, where that was asked for
    doubts: tuple[str, ...] = ()  #: what was read as asked and looks like a mistake, in words
    #: Columns of the first file that name things with several rows each, alone or together: patients, games.
    repeated: tuple[tuple[str, ...], ...] = ()
    #: The files' own names of the columns behind each argument; empty where sketches or logs were read.
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def protocol(self) -> str:
        """How evaluation logs were made; empty for other files."""
        return self.sources.get("protocol", "")

    @property
    def columns_read(self) -> dict[str, str]:
        """What was read as what, without the protocol."""
        return {argument: source for argument, source in self.sources.items() if argument != "protocol"}

    def described(self) -> str:
        """Say which columns were read as what."""
        return ", ".join(f"{argument}: {source}" for argument, source in self.columns_read.items())


@dataclass(frozen=True, eq=False, kw_only=True)
class FileDecisions(FileRead):
    """The log of a decision model in one or more files."""

    log: DecisionLog


@dataclass(frozen=True, eq=False, kw_only=True)
class FileDecisionModels(FileRead):
    """The logs of several decision models, by their names; ``paths`` has the first file of each."""

    logs: Mapping[str, DecisionLog]


def _optional_array(argument: str) -> property:
    """Return a property: the array of an argument, None where no column was named for it."""
    return property(lambda rows: rows.arrays.get(argument))


@dataclass(frozen=True, eq=False, kw_only=True)
class FileRows(FileRead):
    """Arrays of the rows of one or more files, and the way back to the files."""

    #: By argument, each of N rows: ``probs`` (probabilities or logits; floats of 16, 32 and 64 bits keep their width)
    #: or ``probs['name']`` of each of several models, ``targets`` (integers, floats, booleans or strings, or one-hot
    #: rows), and ``weights``, ``groups`` and ``clusters`` where a column was named.
    arrays: Mapping[str, NDArray[Any]]
    class_names: tuple[str, ...] | None  #: of the C classes, where the caller or the columns' own names give them
    #: ``(file, row) -> int``: the 1-based data row of a kept row. It may read the file again.
    find_row: Callable[[int, int], int] = field(repr=False)
    #: The file of the targets and the position of the first of them in it, where it is a file of its own.
    targets_from: tuple[str, int] | None = None

    @property
    def targets(self) -> NDArray[Any]:
        return self.arrays["targets"]

    weights = _optional_array("weights")
    groups = _optional_array("groups")
    clusters = _optional_array("clusters")

    def locate(self, row: int) -> tuple[str, int]:
        """Return the file and the data row of a row of the arrays.

        Parameters
        ----------
        row : int
            Position in the arrays, from 0.

        Returns
        -------
        path : str
            The file.
        data_row : int
            The row in that file, from 1, the header not counted; also where a condition left rows out.
        """
        remaining = row
        for number, count in enumerate(self.rows):
            if 0 <= remaining < count:
                return self.paths[number], self.find_row(number, remaining)
            remaining -= count
        msg = f"row {row} of {sum(self.rows)}"
        raise IndexError(msg)

    def column_name(self, argument: str, column: int | None = None) -> str:
        """Return the file's own name for an argument, or for one of its columns."""
        names = self.columns[argument]
        if len(names) == 1:
            return names[0] if column is None else f"{names[0]}[{column}]"
        return self.sources[argument] if column is None else names[column]

    def place(self, error: InputError) -> tuple[str, str]:
        """Say in which file an error about the arrays is, and what is wrong there.

        Parameters
        ----------
        error : InputError
            About an argument whose columns are in `columns`.

        Returns
        -------
        path, problem : str
            The file, and the row, the column, what was expected there and what came.
        """
        expected, got, _ = reword(error)
        if error.fault is Fault.MODEL_SHAPES:
            expected = f"shape {error.facts.value}, as column {quoted(self.column_name(error.facts.names[0]))}"
        if error.fault is Fault.UNKNOWN_NAME and self.class_names:
            names, more = self.class_names[:_LISTED], len(self.class_names) > _LISTED
            expected = f"one of {', '.join(names)}{', ...' if more else ''}"
        place = error.column if self.arrays[error.argument].ndim > 1 else None
        path, where = self.paths[0], ""
        own_file = self.targets_from if error.argument == "targets" else None
        if own_file is not None:
            path = own_file[0]
        if error.row is not None:
            path, row = self.locate(error.row) if own_file is None else (path, own_file[1] + error.row + 1)
            where = f"row {row:,}, "
        return path, f"{where}column {quoted(self.column_name(error.argument, place))}: expected {expected}, got {got}"


@dataclass(frozen=True, eq=False, kw_only=True)
class FilePredictions(FileRows):
    """Predictions of one model; ``logits`` is true where they were found under this name.

    ``sketch`` is the sketch of all rows, with the sketches of groups, where it was asked for.
    """

    logits: bool
    sketch: CalibrationSketch | None = None

    @property
    def probs(self) -> NDArray[Any]:
        return self.arrays["probs"]


@dataclass(frozen=True, eq=False, kw_only=True)
class FileModels(FileRows):
    """Predictions of several models on the same rows.

    ``models`` are the arguments of `arrays` by the models' names, ``logits`` says which were found under this name.
    ``targets_of`` are the arguments of the targets of each model, where these have their own, which differ from those
    of the first model in up to ``differing`` rows. ``left_out`` counts the rows of a model that not all others have.
    """

    models: Mapping[str, str]
    logits: Mapping[str, bool]
    targets_of: Mapping[str, str] = field(default_factory=dict)
    differing: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)

    def described(self) -> str:
        models = [self.sources[argument] for argument in self.models.values() if argument in self.sources]
        rest = [f"{name}: {source}" for name, source in self.columns_read.items() if name not in self.models.values()]
        if self.targets_of:
            rows = f": they differ in {self.differing:,} row{'s' * (self.differing != 1)}" * (self.differing > 0)
            rest.append(f"each model has its own outcomes{rows}")
        left_out = [f"{number:,} of {name}" for name, number in self.left_out.items()]
        if left_out:
            rest.append(f"rows left out, because not all models have them: {listed(left_out)}")
        return ", ".join([f"models: {', '.join(models)}"] * bool(models) + rest)


@dataclass(frozen=True, eq=False, kw_only=True)
class FileSketch(FileRead):
    """The sketch of all rows of one or more files, with those of the groups where a column of groups was named.

    ``groups`` are the names of the groups of files with rows, in the order of their first rows.
    """

    sketch: CalibrationSketch
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class FileSketches(FileRead):
    """The sketches of several models, by their names: each from a path of its own, or all from one file."""

    sketches: Mapping[str, CalibrationSketch]

    def described(self) -> str:
        """Say which files the models are, or which columns of one file."""
        if self.sources:
            return super().described()
        return ", ".join(f"{name}: {path}" for name, path in zip(self.sketches, self.paths, strict=True))


def doubt_about_logits(column: str, is_named_so: bool) -> str:
    """Say that logits of one event may be probabilities."""
    remedy = "rename the column" if is_named_so else "leave --logits out"
    problem = f"column {quoted(column)} is read as logits, but all its values lie in [0, 1]"
    return f"{problem}; if the values are probabilities, {remedy}"


class BadRows(Exception):
    """Rows of a file that cannot be evaluated: what is wrong with them, and the way back to the file."""

    def __init__(self, error: InputError, rows: FileRows) -> None:
        super().__init__(str(error))
        self.error = error
        self.rows = rows

    @property
    def problem(self) -> str:
        """What is wrong, in the words of the file."""
        if self.error.argument in self.rows.columns:
            return self.rows.place(self.error)[1]
        return f"{self.error.argument}: expected {self.error.expected}, got {self.error.got}"


# ---------------------------------------------------------------- outcomes that may be predicted labels

#: Calibrated predictions rarely have outcomes whose probability is smaller.
_CHANCE: Final = 0.05


@dataclass(frozen=True)
class Agreement:
    """How the outcomes of the rows so far follow from their probabilities."""

    #: Whether one threshold separates the scores of outcomes 1 from the scores of outcomes 0. For classes: whether the
    #: class of the largest probability is the target in every row.
    holds: bool = True
    of_0: float = -math.inf  #: the largest score of an outcome 0; unused for classes
    of_1: float = math.inf  #: the smallest score of an outcome 1; unused for classes
    log_chance: float = 0.0  #: the logarithm of the probability that calibrated predictions would have these outcomes

    def with_rows(self, probs: NDArray[Any], targets: NDArray[Any], ignore_index: int | None) -> Agreement:
        """Return the agreement of these rows too. Rows that cannot be evaluated agree with nothing."""
        if not self.holds or targets.ndim != 1 or targets.dtype.kind not in "fiub" or probs.dtype.kind not in "fiub":
            return replace(self, holds=False)
        if ignore_index is not None:
            probs, targets = probs[targets != ignore_index], targets[targets != ignore_index]
        if not len(targets):
            return self
        probs = probs if probs.dtype.kind == "f" else probs.astype(np.float64)
        inside = np.all((probs >= 0) & (probs <= 1))
        if probs.ndim == 1:
            observed = targets == 1
            of_0 = max(self.of_0, float(np.max(probs, where=~observed, initial=-math.inf)))
            of_1 = min(self.of_1, float(np.min(probs, where=observed, initial=math.inf)))
            holds = inside and np.all(observed | (targets == 0)) and of_0 < of_1
            seen = np.where(observed, probs, 1.0 - probs)
        else:
            are_classes = (targets >= 0) & (targets < probs.shape[1]) & (targets == np.floor(targets))
            if not (inside and np.all(are_classes)):
                return replace(self, holds=False)
            of_0, of_1 = self.of_0, self.of_1
            seen = np.take_along_axis(probs, targets.astype(np.intp)[:, None], axis=1)[:, 0]
            holds = np.all(seen == probs.max(axis=1))
        if not holds:
            return replace(self, holds=False)
        with np.errstate(divide="ignore"):
            chance = self.log_chance + float(np.log(seen, dtype=np.float64).sum())
        return Agreement(True, of_0, of_1, chance)

    def doubt(self, probs: str, target: str, *, one_event: bool) -> str | None:
        """Return, in words, that the outcomes look like predicted labels; None if they do not."""
        both = not one_event or (math.isfinite(self.of_0) and math.isfinite(self.of_1))
        if not self.holds or not both or self.log_chance > math.log(_CHANCE):
            return None
        rule = f"is the class of the largest probability in every row of {probs}"
        if one_event:
            rule = f"is 1 in every row in which {quoted(probs)} is {self.of_1:.4g} or more, and 0 in all other rows"
        option = "--outcome" if one_event else "--target"
        looks = "so this looks like the predicted label"
        return f"{quoted(target)} {rule}, {looks}; if so, name the column of true values with {option}"
