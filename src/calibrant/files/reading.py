"""Read files into predictions: few rows are kept, many are added up in a sketch.

One thread reads, and cuts what it reads into chunks of a fixed number of rows. The main thread checks the chunks in
the order of the files, and keeps them or adds them to the sketch. So a file that cannot be used is left out as a whole,
and the bits of the sketch depend on the rows and their order alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import FileError, InputError
from calibrant.files.background import Background
from calibrant.files.chunks import Chunk, End, Judging, Plan, Progress, TooMany, chunks, kind_of_rows, width_of
from calibrant.files.columns import Options, Selection, are_logits, listed
from calibrant.files.engine import Engines
from calibrant.files.predictions import BadRows, FileModels, FilePredictions, FileRows, FileSketch, Omitted
from calibrant.files.sources import Opened, Source, open_sources
from calibrant.files.values import Column, Piece, Vocabulary, Words, class_indices, join_into_array, rows_of
from calibrant.inputs import SURE, as_predictions, check_logits, group_name
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
        What a sketch judges.
    targets_file : str or None
        The ``.npy`` of the targets, where the probabilities are in ``.npy``.
    keep : bool or None
        Whether all rows are kept, however many; by default up to `MOST_ROWS` rows of up to `MOST_NUMBERS`
        probabilities.
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
        For rows that cannot be judged: an `InputError`, with the way back to the file.
    MissingDependencyError
        Where the ``report`` extra is not installed and the file needs it.
    """
    read = _read(patterns, options, judging or Judging(), targets_file, keep, keep_going, progress)
    return cast("FilePredictions | FileSketch", read)


def read_models(patterns: Sequence[str], options: Options, *, progress: Progress | None = None) -> FileModels:
    """Read the predictions of several models on the same rows, and their targets once.

    As `read_predictions` with all rows kept; the options name the columns of each model, and no ``.npy`` holds several.
    """
    return cast("FileModels", _read(patterns, options, Judging(), None, True, False, progress))


def _read(
    patterns: Sequence[str],
    options: Options,
    judging: Judging,
    targets_file: str | None,
    keep: bool | None,
    keep_going: bool,
    progress: Progress | None,
) -> FileRows | FileSketch:
    engines, left_out = Engines(), set[Source]()

    def work() -> Iterator[Any]:
        opened = open_sources(patterns, options, targets_file, engines=engines, keep_going=keep_going)
        yield opened
        yield from chunks(opened, judging, left_out, keep_going, progress)

    with Background(work(), engines.interrupt) as background:
        items = iter(background)
        reader = _Reader(next(items), judging, left_out, keep, keep_going)
        for item in items:
            reader.use(item)
    return reader.finish()


class _Alike:
    """The shape and kind of values that all files share: lists of one length, text or numbers."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._first: dict[str, tuple[str, tuple[tuple[int, ...], bool]]] = {}  # by argument: the file, and its kind

    def check(self, chunk: Chunk) -> None:
        """Raise for rows whose values are of another length or kind than those before."""
        source = chunk.source
        for argument, column in chunk.arrays.items():
            first, (tail, text) = self._first.setdefault(argument, (source.path, kind_of_rows(column)))
            if (tail, text) == kind_of_rows(column):
                continue
            what = f"{self._selection.noun} {self._selection.names()[argument][0]!r}"
            if column.shape[1:] == tail:
                words = ["text" if each else "numbers" for each in (not text, text)]
                problem, remedy = f"{what} holds {words[0]}, in {first} {words[1]}", f"write the {argument} alike"
                raise FileError(source.path, problem, f"{remedy} in all files")
            if self._selection.noun == "array":
                problem = f"{what} has rows of shape {column.shape[1:]}, in {first} of {tail}"
                raise FileError(source.path, problem, "give files whose rows are alike")
            length, before = (each[0] if each else "no" for each in (column.shape[1:], tail))
            at, there = (f"row {source.row_of(chunk.start)}, ", "row 1") if first == source.path else ("", first)
            problem = f"{at}{what} has lists of {length} values, {there} of {before}"
            raise FileError(source.path, problem, "give every row a value for each class")

    def forget(self, path: str) -> None:
        """Forget the shapes and kinds that a file has set: it is left out."""
        self._first = {argument: first for argument, first in self._first.items() if first[0] != path}


class _Sums:
    """The sketch of all rows, or one for each group."""

    def __init__(self, make: Callable[[], CalibrationSketch], judging: Judging) -> None:
        self._make = make
        self._judging = judging
        self._sketches: dict[int, CalibrationSketch] = {}  # one, under 0, where there are no groups

    def add(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Add rows; groups are numbers.

        Raises
        ------
        calibrant.errors.InputError
            As `CalibrationSketch.update`, at the first row that cannot be judged; the sums are then of no use.
        """
        groups = arrays.get("groups")
        if groups is None:
            self._update(self._sketch(0), arrays)
            return
        narrow = groups.astype(np.uint16)  # sorted by its digits; there are never more groups than that
        order = np.argsort(narrow, kind="stable")
        ordered = {name: array[order] for name, array in arrays.items() if name != "groups"}
        ends = np.concatenate([np.searchsorted(narrow[order], np.arange(int(narrow.max()) + 1)), [len(narrow)]])
        try:
            for group, (first, stop) in enumerate(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)):
                if stop > first:
                    rows = {name: array[first:stop] for name, array in ordered.items()}
                    self._update(self._sketch(group), rows)
        except InputError:
            self._update(self._make(), arrays)  # finds the first such row in the order of the file
            raise

    def _sketch(self, group: int) -> CalibrationSketch:
        if group not in self._sketches:
            self._sketches[group] = self._make()
        return self._sketches[group]

    def _update(self, sketch: CalibrationSketch, arrays: dict[str, NDArray[Any]]) -> None:
        sketch.update(
            arrays["probs"],
            arrays["targets"],
            weights=arrays.get("weights"),
            ignore_index=self._judging.ignore_index,
            logits=self._judging.logits,
        )

    def merge(self, other: _Sums) -> None:
        """Add, and take over, the sums of other rows."""
        for group, sketch in other._sketches.items():
            if group in self._sketches:
                self._sketches[group].merge(sketch)
            else:
                self._sketches[group] = sketch

    @property
    def judged(self) -> bool:
        """Whether a row was judged."""
        return any(sketch.n for sketch in self._sketches.values())

    def total(self, names: Sequence[str] | None) -> CalibrationSketch:
        """Return the sketch of all rows, with those of the groups, whose names are given."""
        if names is None:
            return self._sketches[0]
        return CalibrationSketch.of_groups({names[k]: sketch for k, sketch in self._sketches.items()})


class _Reader:
    """Keeps rows or makes a sketch of them. With ``keep_going`` each file has its own sketch until its end."""

    def __init__(
        self, opened: Opened, judging: Judging, left_out: set[Source], keep: bool | None, keep_going: bool
    ) -> None:
        self._opened = opened
        self._judging = replace(judging, logits=True) if opened.first.logits else judging
        self._keep = keep
        self._keep_going = keep_going
        few = keep if keep is not None else (opened.rows or 0) <= MOST_ROWS
        self._kept: list[Chunk] | None = [] if few else None
        self._rows_kept = 0
        self._plan = Plan.of(1, judging, opened.first)
        self._described: dict[str, str] = {}  # empty until the first rows
        self._alike = _Alike(opened.first)
        self._groups = Vocabulary(group_name)
        self._total = self._staged = self._sums()
        self._counts: dict[Source, int] = {}
        self._left_out = left_out
        self._omitted = list(opened.omitted)
        self._failure: Exception | None = None  # the first, where files are left out
        self._not_logits: BadRows | None = None  # set while every row so far looks like probabilities
        self._surely_logits = False
        self._unjudged: Chunk | None = None

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
                self._accept()
        except TooMany:
            raise
        except (FileError, BadRows) as error:
            if not self._keep_going:
                raise
            self._leave_out(item.source, error)

    def _take(self, chunk: Chunk) -> None:
        """Check rows, and keep them or add them to the sketch."""
        if not self._described:
            self._plan = Plan.of(width_of(chunk.arrays), self._judging, self._opened.first)
            self._described = self._describe(chunk.arrays)
            self._total = self._staged = self._sums()
        self._alike.check(chunk)
        self._check_names(chunk)
        if self._kept is None:
            self._judge(chunk)
        else:
            self._keep_rows(chunk, self._kept)

    def _keep_rows(self, chunk: Chunk, kept: list[Chunk]) -> None:
        """Keep rows; once they are too many, add all of them to the sketch."""
        if self._keep_going:  # judge them for the errors alone
            self._add(chunk, self._sums(), {name: column for name, column in chunk.arrays.items() if name != "groups"})
        kept.append(chunk)
        self._rows_kept += rows_of(chunk.arrays)
        rows = self._rows_kept
        if not self._keep and (rows > MOST_ROWS or rows * width_of(chunk.arrays) > MOST_NUMBERS):
            self._kept = None
            for source, earlier in groupby(kept, key=lambda each: each.source):
                for each in earlier:
                    self._judge(each)
                if source is not chunk.source:
                    self._accept()

    def _judge(self, chunk: Chunk) -> None:
        """Add rows to the sketch."""
        if self._keep_going and self._staged is self._total:
            self._staged = self._sums()
        arrays: dict[str, Any] = {**chunk.arrays}
        if "groups" in arrays:
            arrays["groups"] = self._groups.codes(arrays["groups"])
        self._plan.check(chunk.source, len(self._groups.names))
        self._check_logits(chunk)
        self._add(chunk, self._staged, arrays)
        self._unjudged = None if self._staged.judged or self._total.judged else self._unjudged or chunk

    def _add(self, chunk: Chunk, sums: _Sums, arrays: dict[str, Any]) -> None:
        try:
            sums.add({**arrays, "targets": self._targets(arrays["targets"])})
        except InputError as error:
            raise BadRows(error, self._rows_of(chunk)) from None

    def _targets(self, targets: Column) -> NDArray[Any]:
        names = self._opened.first.class_names or ()
        return class_indices(targets, names) if isinstance(targets, Words) else targets

    def _sums(self) -> _Sums:
        judging, classwise, names = self._judging, self._plan.classwise, self._opened.first.class_names
        return _Sums(
            lambda: CalibrationSketch(notion=judging.notion, classwise=classwise, class_names=names, grid=judging.grid),
            judging,
        )

    def _check_names(self, chunk: Chunk) -> None:
        """Reject groups without a name: NaN."""
        groups = chunk.arrays.get("groups")
        if not isinstance(groups, Words):
            return
        missing = np.flatnonzero(np.isin(groups.codes, np.flatnonzero(groups.names != groups.names)))
        if len(missing):
            row = chunk.source.row_of(chunk.start + int(missing[0]))
            problem = f"row {row:,}, column {self._opened.first.groups!r}: expected a name in every row, got a missing"
            raise FileError(chunk.source.path, f"{problem} value", "name the row's group, such as 'unknown'")

    def _check_logits(self, chunk: Chunk) -> None:
        """Note rows that are called logits and look like probabilities; all rows together decide."""
        if not self._judging.logits or self._surely_logits:
            return
        probs: Any = chunk.arrays["probs"]
        try:
            check_logits(probs)
        except InputError as error:
            self._not_logits = self._not_logits or BadRows(error, self._rows_of(chunk))
        else:
            self._surely_logits = len(probs) >= SURE or probs.ndim == 1

    def _accept(self) -> None:
        """Add the sketch of a file to the total."""
        if self._staged is not self._total:
            self._total.merge(self._staged)
            self._staged = self._total

    def _leave_out(self, source: Source, error: FileError | BadRows) -> None:
        self._left_out.add(source)
        self._failure = self._failure or error
        self._omitted.append(Omitted(source.path, error.problem))
        self._alike.forget(source.path)
        self._staged = self._total
        if self._kept is not None:
            self._kept = [chunk for chunk in self._kept if chunk.source is not source]
            self._rows_kept = sum(rows_of(chunk.arrays) for chunk in self._kept)
        if self._unjudged is not None and self._unjudged.source is source:
            self._unjudged = None
        if not sum(self._counts.values()):  # the next file decides
            self._described = {}

    def _rows_of(self, chunk: Chunk) -> FileRows:
        """Return the rows of a chunk, with the way back to its file."""
        source = chunk.source
        arrays = {
            name: column.array() if isinstance(column, Words) else column for name, column in chunk.arrays.items()
        }
        return FileRows(
            arrays=arrays,
            class_names=self._opened.first.class_names,
            sources=self._described,
            paths=(source.path,),
            columns=self._opened.first.names(),
            rows=(rows_of(chunk.arrays),),
            find_row=lambda _, row: source.row_of(chunk.start + row),
        )

    def _describe(self, arrays: Piece) -> dict[str, str]:
        """Return what was read as what, lists with their lengths."""
        described, first = dict(self._opened.described), self._opened.first
        for argument, columns in first.names().items():
            shape = arrays[argument].shape
            if argument.startswith("probs") and first.noun == "column" and len(columns) == 1 and len(shape) > 1:
                described[argument] += f" (lists of {shape[1]})"
        return described

    # ------------------------------------------------------------ at the end

    def finish(self) -> FileRows | FileSketch:
        """Return what was read.

        Raises
        ------
        FileError, BadRows
            Where all files were left out, or hold no rows, or no row was judged, or all logits are probabilities.
        """
        if not sum(self._counts.values()) and self._failure is not None:
            raise self._failure
        paths = tuple(source.path for source in self._counts)
        self._check_some(paths)
        omitted = tuple(sorted(self._omitted, key=lambda each: self._opened.paths.index(each.path)))
        common: Any = {"paths": paths, "rows": tuple(self._counts.values()), "omitted": omitted}
        if self._kept is not None:
            return self._rows(self._kept, common)
        if self._not_logits is not None and not self._surely_logits:
            raise self._not_logits
        if self._unjudged is not None:
            self._explain(self._unjudged)
        names = None if self._opened.first.groups is None else self._groups.names
        return FileSketch(sketch=self._total.total(names), sources=self._described, **common)

    def _check_some(self, paths: Sequence[str]) -> None:
        """Raise unless a row was read."""
        if sum(self._counts.values()):
            return
        paths, where = paths or self._opened.paths, self._opened.where
        if where is not None:
            problem = f"no row meets --where {where!r}"
            raise FileError(paths[0], problem, f"loosen the condition; files: {listed(paths)}")
        raise FileError(paths[0], "holds no rows", "write the predictions again, or leave the file out")

    def _rows(self, kept: list[Chunk], common: dict[str, Any]) -> FileRows:
        first, sources = self._opened.first, list(self._counts)
        columns: dict[str, list[Column]] = {name: [chunk.arrays[name] for chunk in kept] for name in kept[0].arrays}
        kept.clear()
        arrays = {name: join_into_array(columns.pop(name)) for name in list(columns)}
        if all(source.has_integers() or not count for source, count in self._counts.items()):
            arrays["targets"] = _as_integers(arrays["targets"])
        common |= {"arrays": arrays, "class_names": first.class_names, "sources": self._described}
        common |= {"columns": first.names(), "find_row": lambda number, row: sources[number].row_of(row)}
        if not first.models:
            return FilePredictions(**common, logits=first.logits)
        models = {model: f"probs[{model!r}]" for model, _ in first.models}
        return FileModels(**common, models=models, logits={model: are_logits(names) for model, names in first.models})

    def _explain(self, chunk: Chunk) -> None:
        """Raise the error of rows without a judged one."""
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


def _as_integers(values: NDArray[Any]) -> NDArray[Any]:
    """Return floats as integers if all of them are whole."""
    # NaN compares unequal; beyond 2^53 a double no longer tells neighbours apart.
    whole = values.dtype.kind == "f" and np.all((np.trunc(values) == values) & (np.abs(values) < 2.0**53))
    return values.astype(np.int64) if whole else values
