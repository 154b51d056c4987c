"""Files of any kind as sources of arrays, some rows at a time: opened, their columns chosen and compared."""

from __future__ import annotations

import csv
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import FileError
from calibrant.files.arrays import Checked, StoredArray, array_names, first_rows, open_npy, open_npz
from calibrant.files.cells import pieces
from calibrant.files.columns import Options, Selection, Unnamed, check_same, select
from calibrant.files.engine import Engines, Table, batch_rows
from calibrant.files.paths import check_bytes, expand, kind_of, open_text, reading
from calibrant.files.predictions import Omitted
from calibrant.files.stored import ArrowTable, FilteredTable, ParquetTable
from calibrant.files.suggestions import ROWS, best_outcome, best_score, look, look_at, proposed
from calibrant.files.text import CsvTable, JsonTable
from calibrant.files.values import Column, Piece, Words


class Source(ABC):
    """A file of predictions, read some rows at a time.

    Attributes
    ----------
    path : str
        The file.
    selection : Selection
        What is read of it.
    rows : int or None
        Its rows, where the file says so itself.
    dtype : dtype
        What the probabilities are read as.
    where : str or None
        The condition that rows meet.
    """

    def __init__(
        self, path: str, selection: Selection, rows: int | None, dtype: np.dtype[Any], where: str | None = None
    ) -> None:
        self.path = path
        self.selection = selection
        self.rows = rows
        self.dtype = dtype
        self.where = where

    @abstractmethod
    def pieces(self) -> Iterator[Piece]:
        """Yield the columns by argument, some rows at a time, in the order of the file."""

    @property
    def whole(self) -> bool:
        """Whether the targets are to be integers, if all of them can be: known once they are read."""
        return False

    def row_of(self, index: int) -> int:
        """Return the 1-based data row of a row that was yielded; it may read the file again."""
        return index + 1

    def guess_rows(self) -> int:
        """Return about how many rows there are, for the progress: by the length of the first lines, if need be."""
        if self.rows is not None or not self.path.lower().endswith((".csv", ".tsv", ".jsonl", ".ndjson")):
            return self.rows or 1 << 62
        with open(self.path, "rb") as stream:
            head = stream.read(65_536)
        return int(os.path.getsize(self.path) / len(head) * head.count(b"\n")) + 1


class TableSource(Source):
    """A file with columns."""

    def __init__(self, table: Table, selection: Selection) -> None:
        self.table = table
        wide = np.dtype(np.float64)
        dtypes = [table.dtypes.get(name, wide) for name in selection.probs]
        kinds = [wide if selection.percent and dtype.kind != "f" else dtype for dtype in dtypes]
        super().__init__(table.path, selection, table.rows, np.result_type(*kinds), table.where)

    def pieces(self) -> Iterator[Piece]:
        """Yield the columns by argument, some rows at a time, in the order of the file."""
        return pieces(self.table, self.selection)

    @property
    def whole(self) -> bool:
        """Whether the targets are to be integers, if all of them can be: known once they are read."""
        return self.table.whole == frozenset(self.selection.targets)

    def row_of(self, index: int) -> int:
        """Return the 1-based data row of a row that was yielded; it may read the file again."""
        return self.table.row_of(index)


class ArraySource(Source):
    """Arrays that belong together, by argument; the targets may be some rows of a longer array, from ``first`` on."""

    def __init__(self, path: str, selection: Selection, arrays: Mapping[str, StoredArray], first: int = 0) -> None:
        self._probs = [argument for argument in arrays if argument.startswith("probs")]
        self._arrays = arrays
        self._first = first
        dtypes = [arrays[argument].dtype for argument in self._probs]
        numbers = "f" if selection.percent else "fiub"
        kinds = [dtype if dtype.kind in numbers else np.dtype(np.float64) for dtype in dtypes]
        super().__init__(path, selection, len(arrays[self._probs[0]]), np.result_type(*kinds))

    def pieces(self) -> Iterator[Piece]:
        """Yield the columns by argument, some rows at a time, in the order of the file."""
        n, rows = self.rows or 0, batch_rows(sum(self._arrays[argument].width for argument in self._probs))
        percent = self.selection.percent
        checks = {argument: Checked(self.path, self._arrays[argument].what, percent) for argument in self._probs}
        with reading(self.path), ExitStack() as stack:
            parts = {}
            for argument, array in self._arrays.items():
                first = self._first if argument == "targets" else 0
                parts[argument] = stack.enter_context(closing(array.parts(rows, first, first + n)))
            for together in zip(*parts.values(), strict=True):
                piece: Piece = {}
                for argument, values in zip(parts, together, strict=True):
                    probs = argument in checks
                    piece[argument] = checks[argument].probs(values) if probs else self._column(argument, values)
                yield piece

    def _column(self, argument: str, array: NDArray[Any]) -> Column:
        """Return groups and labels as words, and other values as they are."""
        is_label = argument == "targets" and array.ndim == 1
        labels = self.selection.class_names if is_label and self.selection.labels else None
        if argument == "groups" or labels or (is_label and array.dtype.kind in "US"):
            words = Words.of(array)
            return words.spelled(labels) if labels else words
        return array


# ---------------------------------------------------------------- opening


@dataclass(frozen=True, eq=False)
class Opened:
    """Files of one kind with the same columns, and those that were left out.

    ``paths`` are all files, ``sources`` those that are read, in the order of their rows; ``first`` is what is read of
    each of them, ``described`` says it for people.
    """

    paths: list[str]
    sources: list[Source]
    first: Selection
    described: dict[str, str]
    omitted: list[Omitted]

    @property
    def rows(self) -> int | None:
        """The rows of all files, where all say how many they have."""
        counts = [source.rows for source in self.sources]
        return None if None in counts else sum(count for count in counts if count is not None)


def open_sources(
    patterns: Sequence[str],
    options: Options,
    targets_file: str | None = None,
    *,
    engines: Engines | None = None,
    keep_going: bool = False,
) -> Opened:
    """Open the files that names and patterns stand for, and choose their columns.

    With ``keep_going`` a file that cannot be opened, or has other columns than the first, is left out.
    """
    engines = engines or Engines()
    paths = expand(patterns)
    kind = kind_of(paths[0])
    if kind == "sketch":
        raise FileError(paths[0], "holds a sketch, no predictions", "pass it to: calibrant report")
    if targets_file is not None and kind != "npy":
        raise FileError(paths[0], "has its targets inside, and --targets names a file", "use --targets with .npy only")
    if options.where is not None and kind in ("npy", "npz"):
        problem = f"--where is not available for .{kind}"
        raise FileError(paths[0], problem, "filter the arrays before they are saved")
    if kind == "npy":
        return _open_arrays(paths, options, targets_file, keep_going)
    return _open(paths, lambda path: _source(path, kind, options, engines), keep_going, engines)


def _open(paths: Sequence[str], open_one: Callable[[str], Source], keep_going: bool, engines: Engines) -> Opened:
    sources: list[Source] = []
    errors: list[FileError] = []
    for path in paths:
        engines.check()
        try:
            check_bytes(path)
            source = open_one(path)
            if sources:
                check_same(path, source.selection, sources[0].path, sources[0].selection)
                source.selection = sources[0].selection  # whose order of columns is that of the classes
        except FileError as error:
            engines.check()
            if not keep_going:
                raise
            errors.append(error)
        else:
            sources.append(source)
    if not sources:
        raise errors[0]
    omitted = [Omitted(error.path, error.problem) for error in errors]
    return Opened(list(paths), sources, sources[0].selection, sources[0].selection.sources(), omitted)


def _open_arrays(paths: Sequence[str], options: Options, targets_file: str | None, keep_going: bool) -> Opened:
    """Open arrays of probabilities, and that of their targets."""
    for name in ("score", "outcome", "probs", "target", "weight", "by"):
        value = getattr(options, name)
        if value is not None:
            raise FileError(paths[0], f"a .npy has no names, got --{name} {value!r}", "save a .npz with named arrays")
    if options.models:
        raise FileError(paths[0], "holds a single array", "save the models' arrays and the targets in one .npz")
    if targets_file is None:
        raise FileError(paths[0], "a .npy holds no targets", "name the .npy of the targets with --targets FILE")
    logits = all("logits" in os.path.basename(path).lower() for path in paths)
    if options.percent and logits:
        raise FileError(paths[0], "--percent is given, and the file is named as logits are", "leave --percent out")
    if keep_going:
        problem = "--keep-going is not available for .npy: the targets of all files are in one"
        raise FileError(paths[0], problem, "save a .npz with named arrays")
    (targets_path,) = expand([targets_file])
    for path in (*paths, targets_path):
        check_bytes(path)
    names = options.labels or options.class_names
    selection = Selection(
        ("probs",), ("targets",), None, logits, names, options.labels is not None, "array", percent=options.percent
    )
    targets, first = open_npy(targets_path), 0
    sources: list[Source] = []
    for path in paths:
        sources.append(ArraySource(path, selection, {"probs": open_npy(path), "targets": targets}, first))
        first += sources[-1].rows or 0
    if first != len(targets):
        problem = f"has {len(targets):,} rows, the probabilities {first:,}"
        raise FileError(targets_path, problem, "give the targets of just these rows")
    described = {"probs": ", ".join(paths) + " in per cent" * options.percent, "targets": targets_path}
    return Opened(list(paths), sources, selection, described, [])


def _source(path: str, kind: str, options: Options, engines: Engines) -> Source:
    """Open a file; where it has no columns with usual names, propose those that look right."""
    if kind == "npz":
        try:
            arrays, selection = open_npz(path, options)
        except Unnamed as error:
            raise proposed(error, look(first_rows(path, ROWS)), options, "array") from None
        return ArraySource(path, selection, arrays)
    table = table_of(path, kind, options.where, engines)
    try:
        return TableSource(table, select(table.path, table.columns, options))
    except Unnamed as error:
        raise proposed(error, look_at(table), options) from None


def table_of(path: str, kind: str, where: str | None, engines: Engines | None = None) -> Table:
    """Open a file with columns."""
    if kind == "csv":
        return CsvTable(path, where, engines)
    if kind == "json":
        return JsonTable(path, where, engines)
    stored = ParquetTable(path) if kind == "parquet" else ArrowTable(path)
    return stored if where is None else FilteredTable(stored, where, engines)


# ---------------------------------------------------------------- looks at a file, for hints


def column_names(path: str) -> tuple[str, ...]:
    """Return the names of a file's columns or arrays, from its head alone: the completion of commands cannot wait.

    Raises
    ------
    Exception
        Whatever the reader of a damaged file raises.
    """
    kind = kind_of(path)
    if kind in ("parquet", "arrow"):
        return table_of(path, kind, None).columns
    if kind == "npz":
        return tuple(array_names(path))
    if kind not in ("csv", "json"):
        return ()
    with open_text(path, errors="replace") as stream:
        line = next((line for line in stream if line.strip()), "")
    if kind == "json":
        return tuple(json.loads(line))
    fields = next(csv.reader([line], delimiter="\t" if ".tsv" in path.lower() else ","), [])
    return tuple(field.strip() for field in fields if field.strip())


def likely_outcome(path: str, score: str) -> str | None:
    """Return the column of a table that says most likely what came of a score, for the words of an error."""
    try:
        return best_outcome(look_at(table_of(path, kind_of(path), None)), score)
    except FileError:
        return None


def likely_score(path: str, outcome: str) -> str | None:
    """Return the column of a table that holds most likely the probability of an outcome, for the words of an error."""
    try:
        return best_score(look_at(table_of(path, kind_of(path), None)), outcome)
    except FileError:
        return None
