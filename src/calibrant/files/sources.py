"""Files of any kind as sources of arrays, some rows at a time: opened, their columns chosen and compared."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.errors import FileError
from calibrant.files.arrays import Checked, StoredArray, heads, open_npy, open_npz
from calibrant.files.codes import Coder
from calibrant.files.columns import Options, Selection, Unnamed, check_same, select
from calibrant.files.engine import Engines, Table
from calibrant.files.paths import check_bytes, expand, kind_of, reading
from calibrant.files.predictions import Omitted
from calibrant.files.sizes import batch_rows
from calibrant.files.stored import ArrowTable, FilteredTable, ParquetTable
from calibrant.files.suggestions import ROWS, look, look_at, proposed
from calibrant.files.tabular import Alike, Piece, as_labels, check_names, pieces, rows_of
from calibrant.files.text import CsvTable, JsonTable

Coders = Mapping[str, Coder]


class Source(ABC):
    """A file of predictions, of which some rows at a time are read.

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
    """

    #: Whether the targets are to be integers, if all of them can be.
    whole = False

    #: The condition that rows meet.
    where: str | None = None

    def __init__(self, path: str, selection: Selection, rows: int | None, dtype: np.dtype[Any]) -> None:
        self.path = path
        self.selection = selection
        self.rows = rows
        self.dtype = dtype

    @abstractmethod
    def pieces(self, alike: Alike, coders: Coders) -> Iterator[Piece]:
        """Yield the arrays by argument, some rows at a time, in the order of the file."""

    def row_of(self, index: int) -> int:
        """Return the 1-based data row of a row that was yielded."""
        return index + 1

    def guess_rows(self) -> int:
        """Return about how many rows there are, for the progress."""
        return self.rows or 1 << 62


class TableSource(Source):
    """A file with columns."""

    def __init__(self, table: Table, selection: Selection) -> None:
        self.table = table
        self.where = table.where
        wide = np.dtype(np.float64)
        dtypes = [table.dtypes.get(name, wide) for name in selection.probs]
        kinds = [wide if selection.percent and dtype.kind != "f" else dtype for dtype in dtypes]
        super().__init__(table.path, selection, table.rows, np.result_type(*kinds))

    def pieces(self, alike: Alike, coders: Coders) -> Iterator[Piece]:
        """Yield the arrays by argument, some rows at a time, in the order of the file."""
        return pieces(self.table, self.selection, alike, coders)

    @property
    def whole(self) -> bool:  # type: ignore[override]
        """Whether the targets are to be integers, if all of them can be: known once they are read."""
        return self.table.whole == frozenset(self.selection.targets)

    def row_of(self, index: int) -> int:
        """Return the 1-based data row of a row that was yielded; it may read the file again."""
        return self.table.row_of(index)

    def guess_rows(self) -> int:
        """Return about how many rows a file has, by the length of its first lines where it does not say so."""
        if self.rows is not None or not self.path.lower().endswith((".csv", ".tsv", ".jsonl", ".ndjson")):
            return super().guess_rows()
        with open(self.path, "rb") as stream:
            head = stream.read(65_536)
        return int(os.path.getsize(self.path) / len(head) * head.count(b"\n")) + 1


class NpzSource(Source):
    """An archive of arrays."""

    def __init__(self, path: str, options: Options) -> None:
        with open_npz(path, options) as (arrays, selection):
            probs = [array for argument, array in arrays.items() if argument.startswith("probs")]
            dtypes = [_dtype_of(array, selection.percent) for array in probs]
            super().__init__(path, selection, len(probs[0]), np.result_type(*dtypes))
        self._options = options

    def pieces(self, alike: Alike, coders: Coders) -> Iterator[Piece]:
        """Yield the arrays by argument, some rows at a time, in the order of the file."""
        with reading(self.path), open_npz(self.path, self._options) as (arrays, _):
            yield from _pieces(self, arrays, alike, coders)


class NpySource(Source):
    """An array of probabilities, whose targets are some rows of another file, from ``first`` on."""

    def __init__(self, path: str, selection: Selection, targets: StoredArray, first: int) -> None:
        self._probs = open_npy(path)
        self._targets = targets
        self._first = first
        super().__init__(path, selection, len(self._probs), _dtype_of(self._probs, selection.percent))

    def pieces(self, alike: Alike, coders: Coders) -> Iterator[Piece]:
        """Yield the arrays by argument, some rows at a time, in the order of the file."""
        with reading(self.path):
            arrays = {"probs": self._probs, "targets": self._targets}
            yield from _pieces(self, arrays, alike, coders, self._first)


def _dtype_of(probs: StoredArray, percent: bool) -> np.dtype[Any]:
    return probs.dtype if probs.dtype.kind == "f" or (probs.dtype.kind in "iub" and not percent) else np.dtype(float)


def _pieces(
    source: Source, arrays: Mapping[str, StoredArray], alike: Alike, coders: Coders, first: int = 0
) -> Iterator[Piece]:
    """Yield the rows of arrays that belong together, ``first`` those of the targets."""
    selection = source.selection
    checked = {
        argument: Checked(source.path, array.what, selection.percent)
        for argument, array in arrays.items()
        if argument.startswith("probs")
    }
    n = len(arrays[next(iter(checked))])
    rows = batch_rows(sum(math.prod(arrays[argument].shape[1:]) for argument in checked))
    with ExitStack() as stack:
        parts = {}
        for name, array in arrays.items():
            ends = (first, first + n) if name == "targets" else ()
            parts[name] = stack.enter_context(closing(array.parts(rows, *ends)))
        done = 0
        for together in zip(*parts.values(), strict=True):
            piece = dict(zip(parts, together, strict=True))
            piece |= {argument: checks.probs(piece[argument]) for argument, checks in checked.items()}
            for argument, own in piece.copy().items():
                text, names = own.dtype.kind in "UST", selection.names()[argument]
                alike.check(argument, names, own.shape[1:], text, source.path, selection.noun, lambda: 1)
                if argument == "groups":
                    check_names(source.path, names[0], own, source.row_of, done)
                coder = coders.get(argument)
                if coder is None or (argument == "targets" and (own.ndim > 1 or not (text or selection.labels))):
                    continue
                if argument == "groups":
                    piece[argument] = coder.codes_of(own.astype(str) if own.dtype.kind == "S" else own)
                    continue
                spelled = as_labels(own, selection.class_names) if selection.labels and selection.class_names else own
                piece["labels"] = coder.codes_of(spelled)
                del piece["targets"]
            done += rows_of(piece)
            yield piece


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
    if kind == "npz":
        return _open(paths, lambda path: _npz_source(path, options), keep_going, engines)
    return _open(paths, lambda path: _table_source(path, kind, options, engines), keep_going, engines)


def _open(paths: Sequence[str], open_one: Callable[[str], Source], keep_going: bool, engines: Engines) -> Opened:
    sources: list[Source] = []
    errors: list[FileError] = []
    omitted: list[Omitted] = []
    for path in paths:
        engines.check()
        try:
            check_bytes(path)
            source = open_one(path)
            if sources:
                check_same(path, source.selection, sources[0].path, sources[0].selection)
                source.selection = sources[0].selection  # of which the order is that of the classes
        except FileError as error:
            engines.check()
            if not keep_going:
                raise
            errors.append(error)
            omitted.append(Omitted(path, error.problem))
        else:
            sources.append(source)
    if not sources:
        raise errors[0]
    return Opened(list(paths), sources, sources[0].selection, sources[0].selection.sources(), omitted)


def _open_arrays(paths: Sequence[str], options: Options, targets_file: str | None, keep_going: bool) -> Opened:
    """Open arrays of probabilities, and that of their targets."""
    named = {
        "--score": options.score,
        "--outcome": options.outcome,
        "--probs": options.probs,
        "--target": options.target,
        "--weight": options.weight,
        "--by": options.by,
    }
    for option, value in named.items():
        if value is not None:
            raise FileError(paths[0], f"a .npy has no names, got {option} {value!r}", "save a .npz with named arrays")
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
        sources.append(NpySource(path, selection, targets, first))
        first += sources[-1].rows or 0
    if first != len(targets):
        problem = f"has {len(targets):,} rows, the probabilities {first:,}"
        raise FileError(targets_path, problem, "give the targets of just these rows")
    described = {"probs": ", ".join(paths) + " in per cent" * options.percent, "targets": targets_path}
    return Opened(list(paths), sources, selection, described, [])


def _table_source(path: str, kind: str, options: Options, engines: Engines | None) -> TableSource:
    table = table_of(path, kind, options.where, engines)
    try:
        return TableSource(table, select(table.path, table.columns, options))
    except Unnamed as error:
        raise proposed(error, look_at(table), options) from None


def _npz_source(path: str, options: Options) -> NpzSource:
    try:
        return NpzSource(path, options)
    except Unnamed as error:
        raise proposed(error, look(heads(path, ROWS)), options, "array") from None


def table_of(path: str, kind: str, where: str | None, engines: Engines | None = None) -> Table:
    """Open a file with columns."""
    if kind == "csv":
        return CsvTable(path, where, engines)
    if kind == "json":
        return JsonTable(path, where, engines)
    stored = ParquetTable(path) if kind == "parquet" else ArrowTable(path)
    return stored if where is None else FilteredTable(stored, where, engines)
