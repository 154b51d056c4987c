"""Results of reading: arrays with the way back to the rows of the files, or a sketch; and models side by side."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.clusters import SEPARATOR
from calibrant.errors import FileError, InputError, quoted
from calibrant.errors.faults import Fault, ModelFacts
from calibrant.errors.wording import reword
from calibrant.files.paths import ending_of
from calibrant.inputs.groups import group_name
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
    columns: Mapping[str, tuple[str, ...]]  #: the files' own names of the columns behind each argument
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
        if isinstance(error.facts, ModelFacts):
            expected = f"shape {error.facts.other_shape}, as column {quoted(self.column_name(error.facts.other))}"
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
    """

    models: Mapping[str, str]
    logits: Mapping[str, bool]

    def described(self) -> str:
        """Say which columns were read as what."""
        models = [self.sources[argument] for argument in self.models.values()]
        rest = [f"{name}: {source}" for name, source in self.columns_read.items() if name not in self.models.values()]
        return ", ".join([f"models: {', '.join(models)}", *rest])


@dataclass(frozen=True, eq=False, kw_only=True)
class FileSketch(FileRead):
    """The sketch of all rows of one or more files, with those of the groups where a column of groups was named."""

    sketch: CalibrationSketch


@dataclass(frozen=True, eq=False, kw_only=True)
class FileSketches(FileRead):
    """The sketches of several models, by their names, each from a path of its own."""

    sketches: Mapping[str, CalibrationSketch]

    def described(self) -> str:
        """Say which files the models are."""
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
            rule = f"is 1 in every row where {quoted(probs)} is {self.of_1:.4g} or more, and 0 in all other rows"
        option = "--outcome" if one_event else "--target"
        looks = "so this looks like the predicted label"
        return f"{quoted(target)} {rule}, {looks}; if so, name the column of true values with {option}"


# ---------------------------------------------------------------- models in files of their own: their rows side by side

#: What must be alike in the files of all models, and what a row's is called.
_ALIKE: Final = {"targets": "outcome", "weights": "weight", "groups": "group", "clusters": "cluster"}


def model_names(models: Sequence[str]) -> list[str]:
    """Return a name for each model: its file without folder and ending, or all of it where two would be alike."""
    names = []
    for path in models:
        name = os.path.basename(path)
        names.append(name[: len(name) - len(ending_of(name))] or path)
    return names if len(set(names)) == len(names) else list(models)


def matched(models: Mapping[str, FilePredictions]) -> FileModels:
    """Return models that were read from files of their own, their rows in the order of the first model's.

    Rows belong together by their keys if there are any, otherwise by their positions. What is not a prediction must be
    alike in all files: outcomes, weights, groups and clusters.

    Raises
    ------
    FileError
        For files of different numbers of rows, or whose rows, keys or classes do not match.
    """
    first, *others = models.values()
    shared = {name: first.arrays[name] for name in _ALIKE if name in first.arrays}
    probs = [first.probs]
    for other in others:
        order = _order(first, other)
        _check_clusters(first, other)
        for argument, values in shared.items():
            _check_alike(argument, first, values, other, other.arrays[argument], order)
        if other.probs.shape[1:] != first.probs.shape[1:]:
            problem = f"contains {_events(other)}, but {_title(first.paths)} contains {_events(first)}"
            raise FileError(other.paths[0], problem, "compare models of the same classes")
        if other.class_names != first.class_names:
            listed = [", ".join(each.class_names or ("numbered",)) for each in (other, first)]
            problem = f"has the classes {listed[0]}, but {first.paths[0]} has {listed[1]}"
            raise FileError(other.paths[0], problem, "name the columns in the same order with --probs a,b,c")
        probs.append(other.probs if order is None else other.probs[order])
    return _side_by_side(models, probs, shared)


def _side_by_side(
    models: Mapping[str, FilePredictions], probs: Sequence[NDArray[Any]], shared: Mapping[str, NDArray[Any]]
) -> FileModels:
    """Return models as one value, from their probabilities in the order of the first model's rows."""
    reads = list(models.values())
    first = reads[0]
    arguments = {name: f"probs[{name!r}]" for name in models}
    by_argument = dict(zip(arguments.values(), reads, strict=True))
    columns = {argument: read.columns["probs"] for argument, read in by_argument.items()}
    sources = {argument: _source(read) for argument, read in by_argument.items()}
    sources |= {name: source for name, source in first.sources.items() if name != "probs"}
    protocols = list(dict.fromkeys(read.protocol for read in reads if read.protocol))
    if protocols:
        sources["protocol"] = " | ".join(protocols)
    files = [(read, number) for read in reads for number in range(len(read.paths))]
    return FileModels(
        arrays={**dict(zip(arguments.values(), probs, strict=True)), **shared},
        class_names=first.class_names,
        columns=columns | {name: names for name, names in first.columns.items() if name != "probs"},
        sources=sources,
        paths=tuple(read.paths[number] for read, number in files),
        rows=tuple(read.rows[number] for read, number in files),
        find_row=lambda number, row: files[number][0].find_row(files[number][1], row),
        targets_from=first.targets_from,
        doubts=tuple(dict.fromkeys(f"{_title(read.paths)}: {doubt}" for read in reads for doubt in read.doubts)),
        repeated=first.repeated,
        models=arguments,
        logits={name: read.logits for name, read in models.items()},
    )


def _events(read: FilePredictions) -> str:
    shape = read.probs.shape[1:]
    return f"probabilities of {shape[0]:,} classes" if shape else "the probability of one event"


def _source(read: FilePredictions) -> str:
    """Say where the predictions of a model are; an .npy has no columns."""
    source = read.sources["probs"]
    return source if source in read.paths else f"{source} in {_title(read.paths)}"


def _title(paths: Sequence[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{paths[0]} … ({len(paths)} files)"


def _order(first: FilePredictions, other: FilePredictions) -> NDArray[np.intp] | None:
    """Return the place of each row of the first model in the other; None where the positions are alike."""
    if "keys" not in first.arrays:
        if len(first.probs) != len(other.probs):
            problem = f"has {len(other.probs):,} rows, but {_title(first.paths)} has {len(first.probs):,}"
            remedy = "name the column that identifies each row, such as --on id"
            raise FileError(other.paths[0], problem, remedy)
        return None
    keys, others = _comparable(first.arrays["keys"], other.arrays["keys"])
    places = []
    for read, values in ((first, keys), (other, others)):
        distinct, index, counts = np.unique(values, return_index=True, return_counts=True)
        if (counts > 1).any():
            twice = int(index[counts > 1].min())
            path, row = read.locate(twice)
            many = int(counts[np.searchsorted(distinct, values[twice])])
            problem = f"row {row:,}, {_in_words(read)} identifies {many} rows: {_shown(values[twice])}"
            raise FileError(
                path, problem, "name more columns that together identify one row, with --on for each column"
            )
        places.append((distinct, index))
    (mine, _), (theirs, index) = places
    for one, values, another, other_keys in ((first, keys, other, theirs), (other, others, first, mine)):
        missing = ~np.isin(values, other_keys)
        if missing.any():
            row, number = int(np.argmax(missing)), int(missing.sum())
            path, data_row = one.locate(row)
            more = f", and {number - 1:,} more of its rows are missing" * (number > 1)
            problem = (
                f"row {data_row:,}, {_in_words(one)}: {_shown(values[row])} is not in {_title(another.paths)}{more}"
            )
            raise FileError(path, problem, "compare files of the same rows, or leave the other rows out with --where")
    return index[np.searchsorted(theirs, keys)]


def _check_clusters(first: FilePredictions, other: FilePredictions) -> None:
    """Reject logs if one has several rows for a question and the other has not."""
    several, once = (first, other) if "clusters" in first.arrays else (other, first)
    if "clusters" in several.arrays and "clusters" not in once.arrays:
        problem = f"answers each question once, but {_title(several.paths)} answers questions several times"
        raise FileError(once.paths[0], problem, "compare logs of the same questions and epochs")


def _check_alike(
    argument: str,
    first: FilePredictions,
    values: NDArray[Any],
    other: FilePredictions,
    others: NDArray[Any],
    order: NDArray[np.intp] | None,
) -> None:
    """Reject a row whose outcome, weight, group or cluster differs between the files."""
    others = others if order is None else others[order]
    one, another = _comparable(values, others)
    differs = (
        np.ones(len(one), bool) if one.shape != another.shape else (one != another).reshape(len(one), -1).any(axis=1)
    )
    if not differs.any():
        return
    row = int(np.argmax(differs))
    path, data_row = other.locate(row if order is None else int(order[row]))
    first_path, first_row = first.locate(row)
    got = f"row {data_row:,}, column {quoted(other.column_name(argument))} contains {_shown(another[row])}"
    problem = f"{got}, but row {first_row:,} of {first_path} contains {_shown(one[row])}"
    if order is None:
        remedy = "if the rows are in a different order, name the column that identifies each row, such as --on id"
    else:
        remedy = f"correct the {_ALIKE[argument]} in one of the two files"
    raise FileError(path, problem, remedy)


def _comparable(one: NDArray[Any], other: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return two columns as numbers if both are numbers, otherwise both as text."""
    if all(each.dtype.kind in "fiub" for each in (one, other)) or one.dtype == other.dtype != np.dtype(object):
        return one, other
    texts = [np.array([group_name(value) for value in each.reshape(-1)], object) for each in (one, other)]
    return texts[0].reshape(one.shape), texts[1].reshape(other.shape)


def _in_words(read: FilePredictions) -> str:
    names = read.columns["keys"]
    return f"column {quoted(names[0])}" if len(names) == 1 else f"columns {', '.join(map(repr, names))}"


def _shown(value: Any) -> str:
    return repr(value.replace(SEPARATOR, ", ") if isinstance(value, str) else np.asarray(value).item())
