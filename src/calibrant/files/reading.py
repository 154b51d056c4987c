"""Read files into predictions: few rows are kept, many are added up in a sketch.

One thread reads, and cuts what it reads into chunks of a fixed number of rows. The main thread checks the chunks in
the order of the files, and keeps them or adds them to the sketch. So a file that cannot be used is left out as a whole,
and the bits of the sketch depend on the rows and their order alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy, deepcopy
from dataclasses import field, replace
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import FileError, InputError, quoted
from calibrant.files.chunks import (
    Background,
    Chunk,
    End,
    Judging,
    Plan,
    Progress,
    TooMany,
    chunks,
    kind_of_rows,
    width_of,
    with_cuts,
    with_questions,
    with_years,
)
from calibrant.files.column_options import Options, are_logits, listed
from calibrant.files.column_values import (
    Column,
    Piece,
    ValueWords,
    class_indices,
    group_numbers,
    join,
    join_into_array,
    labels_of_column,
    rows_of,
    truth_values,
)
from calibrant.files.engine import Engines
from calibrant.files.loaded import (
    Agreement,
    BadRows,
    FileModels,
    FilePredictions,
    FileRows,
    FileSketch,
    Omitted,
    doubt_about_logits,
)
from calibrant.files.sources import FileSource, Opened, open_sources
from calibrant.inputs.memory import bytes_in_words, max_memory
from calibrant.inputs.memory import is_set as memory_is_limited
from calibrant.inputs.predictions import SURE, as_predictions, check_logits, in_unit_interval
from calibrant.runtime.dataclass import dataclass
from calibrant.sketch import CalibrationSketch

#: The most rows and probabilities that are kept; more become a sketch. A report then stays below a gigabyte.
MOST_ROWS: Final = 2_000_000
MOST_NUMBERS: Final = 10_000_000


def read_predictions(
    patterns: Sequence[str],
    options: Options,
    judging: Judging | None = None,
    *,
    targets_file: str | None = None,
    keep: bool | None = None,
    sketch: bool = False,
    keep_going: bool = False,
    progress: Progress | None = None,
) -> FilePredictions | FileSketch:
    """Read predictions and targets from files.

    Files of one kind are read one after the other, in the order given (patterns: sorted), and their rows keep their
    order. A cell that cannot be read is an error; only a condition in the options leaves rows out. Numbers of rows that
    are kept are not checked here. A sketch has the counts of a `CalibrationSketch` that is updated with the arrays; its
    bits do not depend on the number of threads.

    Parameters
    ----------
    patterns : sequence of str
        Names of files, or patterns such as ``'logs/*.parquet'``.
    options : Options
        Which columns are read as what.
    judging : Judging, optional
        What a sketch evaluates.
    targets_file : str or None
        The ``.npy`` of the targets, where the probabilities are in ``.npy``.
    keep : bool or None
        Whether all rows are kept, however many; by default up to `MOST_ROWS` rows of up to `MOST_NUMBERS`
        probabilities.
    sketch : bool
        Whether rows that are kept are added up in a sketch too.
    keep_going : bool
        Whether a file with an error is left out as a whole.
    progress : callable or None
        Called with the bytes done, the bytes in all, and the rows done.

    Returns
    -------
    FilePredictions or FileSketch
        The rows, where they were kept, else their sketch.

    Raises
    ------
    FileError
        Naming the file, the row or column, and the remedy.
    BadRows
        For rows that cannot be evaluated: an `InputError`, with the way back to the file.
    MissingDependencyError
        Where the ``report`` extra is not installed and the file needs it.
    """
    judging = judging or Judging()
    engines, left_out = Engines(timezone=options.timezone), set[FileSource]()

    def work() -> Iterator[Any]:
        opened = open_sources(patterns, options, targets_file, engines=engines, keep_going=keep_going)
        opened = with_years(with_cuts(opened, options, engines.check, keep_going), engines)
        opened = with_questions(opened, options, engines.check, keep_going)
        yield opened
        yield from chunks(opened, judging, left_out, keep_going, progress)

    with Background(work(), engines.interrupt) as background:
        items = iter(background)
        reader = _Reader(next(items), judging, left_out, keep, keep_going)
        for item in items:
            reader.use(item)
    return cast("FilePredictions | FileSketch", reader.finish(sketch))


def read_models(
    patterns: Sequence[str], options: Options, *, logits: bool = False, progress: Progress | None = None
) -> FileModels:
    """Read the predictions of several models on the same rows, and their targets once.

    As `read_predictions` with all rows kept; the options name the columns of each model, and no ``.npy`` holds several.
    ``logits`` says that the caller calls all of them logits.
    """
    read: Any = read_predictions(patterns, options, Judging(logits=logits), keep=True, progress=progress)
    return cast("FileModels", read)


class _Sums:
    """The sketch of all rows, or one for each group."""

    def __init__(self, judging: Judging, plan: Plan, class_names: Sequence[str] | None) -> None:
        self._judging = judging
        self._empty = CalibrationSketch(
            notion=judging.notion, classwise=plan.classwise, class_names=class_names, grid=judging.grid
        )
        self._sketches: dict[int, CalibrationSketch] = {}  # without groups: one, under 0

    def add(self, arrays: dict[str, Any]) -> None:
        """Add rows; groups are numbers.

        It raises `InputError` as `CalibrationSketch.update`, at the first row that cannot be evaluated; the sums are
        then of no use.
        """
        groups = arrays.get("groups")
        if groups is None:
            self._update(0, arrays)
            return
        narrow = groups.astype(np.uint16)  # sorted by its digits; there are never more groups than that
        order = np.argsort(narrow, kind="stable")
        ordered = {name: array[order] for name, array in arrays.items() if name != "groups"}
        ends = np.concatenate([np.searchsorted(narrow[order], np.arange(int(narrow.max()) + 1)), [len(narrow)]])
        try:
            for group, (first, stop) in enumerate(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)):
                if stop > first:
                    rows = {name: array[first:stop] for name, array in ordered.items()}
                    self._update(group, rows)
        except InputError:
            self._update(-1, arrays)  # finds the first such row in the order of the file
            raise

    def _update(self, group: int, arrays: dict[str, Any]) -> None:
        if group not in self._sketches:
            self._sketches[group] = deepcopy(self._empty)
        self._sketches[group].update(
            arrays["probs"],
            arrays["targets"],
            weights=arrays.get("weights"),
            ignore_index=self._judging.ignore_index,
            logits=self._judging.logits,
            clusters=arrays.get("clusters"),
            weights_are=self._judging.weights_are,
        )

    @property
    def has_evaluated(self) -> bool:
        """Whether a row was evaluated."""
        return any(sketch.n for sketch in self._sketches.values())

    def total(self, names: Sequence[str]) -> CalibrationSketch:
        """Return the sketch of all rows, with those of the groups, if there are names of groups."""
        if not names:
            return self._sketches[0]
        return CalibrationSketch.of_groups({names[k]: sketch for k, sketch in self._sketches.items()})


@dataclass
class _State:
    """What the rows so far amount to, and what they decide for the rows that follow."""

    plan: Plan
    sums: _Sums
    kept: list[Chunk] | None  # None: the rows are added up
    rows_kept: int = 0
    bytes_kept: int = 0
    described: dict[str, str] = field(default_factory=dict)  # empty until the first rows
    #: By argument: the first file, and the shape and kind of its values, which all files share.
    kinds: dict[str, tuple[str, tuple[tuple[int, ...], bool]]] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)  # the groups' names, and their numbers
    unevaluated: Chunk | None = None  # the first rows, while none is evaluated
    not_logits: BadRows | None = None  # set while every row so far looks like probabilities
    surely_logits: bool = False
    unit_rows: int = 0  # logits of one event so far, while all lie in [0, 1]
    agreements: dict[str, Agreement] = field(default_factory=dict)  # by the argument of the probabilities

    def copy(self) -> _State:
        """Return a copy that later rows do not change."""
        copies = {name: copy(getattr(self, name)) for name in ("groups", "kept", "kinds", "agreements")}
        return replace(self, sums=deepcopy(self.sums), **copies)


class _Reader:
    """Keeps rows or makes a sketch of them. With ``keep_going`` the state before a file undoes one that is left out."""

    def __init__(
        self, opened: Opened, judging: Judging, left_out: set[FileSource], keep: bool | None, keep_going: bool
    ) -> None:
        self._opened = opened
        self._judging = replace(judging, logits=True) if opened.first.logits else judging
        self._keep = keep
        self._keep_going = keep_going
        few = keep if keep is not None else (opened.rows or 0) <= MOST_ROWS
        plan = Plan.of(1, judging, opened.first)
        self._state = _State(plan, _Sums(self._judging, plan, opened.first.class_names), [] if few else None)
        self._before: tuple[FileSource, _State] | None = None  # the file that is read, and the state before it
        self._counts: dict[FileSource, int] = {}
        self._left_out = left_out
        self._omitted = list(opened.omitted)
        self._failure: Exception | None = None  # the first, where files are left out

    def use(self, item: Chunk | End) -> None:
        """Take what has been read."""
        if item.source in self._left_out:
            return
        try:
            if isinstance(item, Chunk):
                self._take(item)
            elif item.error is not None:
                raise item.error
            else:
                self._counts[item.source] = item.rows
        except TooMany:
            raise
        except (FileError, BadRows) as error:
            if not self._keep_going:
                raise
            self._left_out.add(item.source)
            self._failure = self._failure or error
            self._omitted.append(Omitted(item.source.path, error.problem))
            if self._before is not None and self._before[0] is item.source:
                self._state = self._before[1]

    def _take(self, chunk: Chunk) -> None:
        """Check rows, and keep them or add them to the sketch."""
        if self._keep_going and chunk.start == 0:
            self._before = chunk.source, self._state.copy()
        state = self._state
        if not state.described:
            state.plan = Plan.of(width_of(chunk.arrays), self._judging, self._opened.first)
            state.described = self._describe(chunk.arrays)
            state.sums = _Sums(self._judging, state.plan, self._opened.first.class_names)
        self._check_alike(chunk)
        self._check_names(chunk)
        self._note_agreement(chunk)
        if state.kept is None:
            self._evaluate(chunk)
        else:
            self._keep_rows(chunk, state.kept)

    def _keep_rows(self, chunk: Chunk, kept: list[Chunk]) -> None:
        """Keep rows; once they are too many, add all of them to the sketch."""
        state = self._state
        if self._keep_going:  # evaluate them for the errors alone
            arrays = {name: column for name, column in chunk.arrays.items() if name != "groups"}
            self._add(chunk, _Sums(self._judging, state.plan, self._opened.first.class_names), arrays)
        kept.append(chunk)
        state.rows_kept += rows_of(chunk.arrays)
        state.bytes_kept += sum(column.nbytes for column in chunk.arrays.values())
        if memory_is_limited() and state.bytes_kept > max_memory() // 2:
            problem = f"its rows take more than half of the {bytes_in_words(max_memory())} of CALIBRANT_MAX_MEMORY"
            raise TooMany(
                chunk.source.path,
                problem,
                "leave --exact out, so that only a sketch of the rows is kept, or raise CALIBRANT_MAX_MEMORY",
            )
        rows = state.rows_kept
        if not self._keep and (rows > MOST_ROWS or rows * width_of(chunk.arrays) > MOST_NUMBERS):
            state.kept = None
            for each in kept:
                self._evaluate(each)

    def _evaluate(self, chunk: Chunk) -> None:
        """Add rows to the sketch."""
        state = self._state
        arrays: dict[str, Any] = {**chunk.arrays}
        if "groups" in arrays:
            arrays["groups"] = group_numbers(arrays["groups"], state.groups)
        state.plan.check(chunk.source, len(state.groups), kept=state.kept is not None)
        self._check_logits(chunk)
        self._add(chunk, state.sums, arrays)
        state.unevaluated = None if state.sums.has_evaluated else state.unevaluated or chunk

    def _add(self, chunk: Chunk, sums: _Sums, arrays: dict[str, Any]) -> None:
        try:
            if "clusters" in arrays:
                arrays = {**arrays, "clusters": labels_of_column(arrays["clusters"])}
            sums.add({**arrays, "targets": self._targets(arrays["targets"])})
        except InputError as error:
            raise BadRows(error, self._rows_of(chunk)) from None

    def _targets(self, targets: Column) -> NDArray[Any]:
        targets = truth_values(targets, self._opened.first)
        return (
            class_indices(targets, self._opened.first.class_names or ()) if isinstance(targets, ValueWords) else targets
        )

    def _check_alike(self, chunk: Chunk) -> None:
        """Reject rows whose values are of another length or kind than those before."""
        source, selection = chunk.source, self._opened.first
        for argument, column in chunk.arrays.items():
            first, (tail, text) = self._state.kinds.setdefault(argument, (source.path, kind_of_rows(column)))
            if (tail, text) == kind_of_rows(column):
                continue
            what = f"{selection.noun} {quoted(selection.names()[argument][0])}"
            if column.shape[1:] == tail:
                words = ["text" if each else "numbers" for each in (not text, text)]
                problem, remedy = (
                    f"{what} contains {words[0]}, but {first} contains {words[1]}",
                    f"write the {argument} in the same form",
                )
                raise FileError(source.path, problem, f"{remedy} in all files")
            if selection.noun == "array":
                problem = f"{what} has rows of shape {column.shape[1:]}, but {first} has rows of shape {tail}"
                raise FileError(source.path, problem, "pass files whose rows have the same shape")
            length, before = (each[0] if each else "no" for each in (column.shape[1:], tail))
            at, there = (f"row {source.row_of(chunk.start)}, ", "row 1") if first == source.path else ("", first)
            problem = f"{at}{what} has a list of {length} values, but {there} has {before}"
            raise FileError(source.path, problem, "give every row a value for each class")

    def _check_names(self, chunk: Chunk) -> None:
        """Reject groups without a name: NaN."""
        if not isinstance(groups := chunk.arrays.get("groups"), ValueWords):
            return
        missing = np.flatnonzero(np.isin(groups.codes, np.flatnonzero(groups.names != groups.names)))
        if len(missing):
            row, columns = chunk.source.row_of(chunk.start + int(missing[0])), ", ".join(self._opened.first.groups)
            problem = f"row {row:,}, column {quoted(columns)}: expected a name in every row, got a missing value"
            raise FileError(chunk.source.path, problem, "name the group of the row, such as 'unknown'")

    def _check_logits(self, chunk: Chunk) -> None:
        """Note rows that are called logits and look like probabilities; all rows together decide."""
        state = self._state
        if not self._judging.logits or state.surely_logits:
            return
        probs: Any = chunk.arrays["probs"]
        if probs.ndim == 1:
            state.surely_logits = not in_unit_interval(probs)
            state.unit_rows += len(probs)
            return
        try:
            check_logits(probs)
        except InputError as error:
            state.not_logits = state.not_logits or BadRows(error, self._rows_of(chunk))
        else:
            state.surely_logits = len(probs) >= SURE

    def _note_agreement(self, chunk: Chunk) -> None:
        """Note whether the outcomes follow from the probabilities, as predicted labels do."""
        agreements, targets = self._state.agreements, chunk.arrays["targets"]
        for argument, probs in chunk.arrays.items():
            if not argument.startswith("probs") or isinstance(probs, ValueWords):
                continue
            before = agreements.get(argument, Agreement(holds=not self._judging.logits))
            if before.holds:
                before = before.with_rows(probs, self._targets(targets), self._judging.ignore_index)
            agreements[argument] = before

    def _doubts(self, state: _State) -> tuple[str, ...]:
        """Return, in words, that the outcomes look like predicted labels."""
        first = self._opened.first
        described, (target, *_) = first.sources(), first.names()["targets"]
        doubts = (
            agreement.doubt(described[argument], target, one_event=len(state.kinds[argument][1][0]) == 0)
            for argument, agreement in state.agreements.items()
        )
        return tuple(doubt for doubt in doubts if doubt is not None)

    def _rows_of(self, chunk: Chunk) -> FileRows:
        """Return the rows of a chunk, with the way back to its file."""
        source = chunk.source
        return FileRows(
            arrays={name: join_into_array([column]) for name, column in chunk.arrays.items()},
            class_names=self._opened.first.class_names,
            sources=self._state.described,
            paths=(source.path,),
            columns=self._opened.first.names(),
            rows=(rows_of(chunk.arrays),),
            find_row=lambda _, row: source.row_of(chunk.start + row),
            targets_from=source.targets_from and (source.targets_from[0], source.targets_from[1] + chunk.start),
        )

    def _describe(self, arrays: Piece) -> dict[str, str]:
        """Return what was read as what, lists with their lengths."""
        described, first = self._opened.described, self._opened.first
        for argument, columns in first.names().items():
            shape = arrays[argument].shape
            if argument.startswith("probs") and first.noun == "column" and len(columns) == 1 and len(shape) > 1:
                described[argument] += f" (lists of {shape[1]})"
        return described

    # ------------------------------------------------------------ at the end

    def finish(self, sketch: bool) -> FileRows | FileSketch:
        """Return what was read, rows with their sketch if it is asked for."""
        if not sum(self._counts.values()) and self._failure is not None:
            raise self._failure
        paths = tuple(source.path for source in self._counts)
        self._check_some(paths)
        state, self._before = self._state, None  # which would hold the rows that are kept
        omitted = tuple(sorted(self._omitted, key=lambda each: self._opened.paths.index(each.path)))
        common: Any = {"paths": paths, "rows": tuple(self._counts.values()), "omitted": omitted}
        common |= {"sources": state.described, "columns": self._opened.first.names(), "repeated": self._opened.repeated}
        common["doubts"] = (*self._opened.cautions, *self._doubts(state))
        if state.kept is not None:
            sums = {"sketch": self._sketch(state.kept)} if sketch else {}
            return self._rows(state.kept, common | sums)
        total = self._sketch([])
        if state.unit_rows >= SURE and not state.surely_logits:
            common["doubts"] += (doubt_about_logits(self._opened.first.probs[0], self._opened.first.logits),)
        return FileSketch(sketch=total, groups=tuple(state.groups), **common)

    def _sketch(self, kept: list[Chunk]) -> CalibrationSketch:
        """Return the sketch of all rows, those that were kept among them."""
        state = self._state
        for chunk in kept:
            self._evaluate(chunk)
        if state.not_logits is not None and not state.surely_logits:
            raise state.not_logits
        if state.unevaluated is not None:
            self._explain(state.unevaluated)
        return state.sums.total(list(state.groups))

    def _check_some(self, paths: Sequence[str]) -> None:
        """Raise unless a row was read."""
        if sum(self._counts.values()):
            return
        paths, where = paths or self._opened.paths, self._opened.where
        if where is not None:
            problem = f"no row meets --where {quoted(where)}"
            raise FileError(paths[0], problem, f"loosen the condition; files: {listed(paths)}")
        raise FileError(paths[0], "holds no rows", "write the predictions again, or leave the file out")

    def _rows(self, kept: list[Chunk], common: dict[str, Any]) -> FileRows:
        first, sources = self._opened.first, list(self._counts)
        columns: dict[str, list[Column]] = {name: [chunk.arrays[name] for chunk in kept] for name in kept[0].arrays}
        kept.clear()
        if isinstance(columns["targets"][0], ValueWords):
            columns["targets"] = [truth_values(join(columns["targets"]), first)]
        arrays = {name: join_into_array(columns.pop(name)) for name in list(columns)}
        common |= {"arrays": arrays, "class_names": first.class_names}
        common["find_row"] = lambda number, row: sources[number].row_of(row)
        common["targets_from"] = sources[0].targets_from
        common["doubts"] += tuple(self._doubts_about_logits(arrays))
        if not first.models:
            return FilePredictions(**common, logits=first.logits)
        models = {model: f"probs[{model!r}]" for model, _ in first.models}
        return FileModels(**common, models=models, logits={model: are_logits(names) for model, names in first.models})

    def _doubts_about_logits(self, arrays: dict[str, NDArray[Any]]) -> Iterator[str]:
        """Yield, in words, which columns are read as logits and may hold probabilities."""
        first = self._opened.first
        for argument, names in first.names().items():
            if argument.startswith("probs"):
                probs, is_named_so = arrays[argument], are_logits(names) if first.models else first.logits
                are_read_so = self._judging.logits or is_named_so
                if are_read_so and len(probs) >= SURE and in_unit_interval(probs):
                    yield doubt_about_logits(names[0], is_named_so)

    def _explain(self, chunk: Chunk) -> None:
        """Raise the error of rows without an evaluated one."""
        arrays: dict[str, Any] = {**chunk.arrays, "targets": self._targets(chunk.arrays["targets"])}
        try:
            as_predictions(
                arrays["probs"],
                arrays["targets"],
                weights=arrays.get("weights"),
                ignore_index=self._judging.ignore_index,
                logits=self._judging.logits,
            )
        except InputError as error:
            raise BadRows(error, self._rows_of(chunk)) from None
