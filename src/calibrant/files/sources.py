"""Files of any kind as sources of arrays, some rows at a time: opened, their columns chosen and compared."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import numpy as np

from calibrant.errors import CalibrantError, FileError, quoted
from calibrant.files.array_rows import (
    StoredArray,
    array_names,
    array_pieces,
    first_rows,
    open_npy,
    open_npz,
    rows_of_counts,
    table_pieces,
)
from calibrant.files.cluster_hints import Errors, cluster_hint, parts_of_ids
from calibrant.files.column_kinds import ROWS, first_look
from calibrant.files.column_options import ColumnSelection, Options, Unnamed, check_same
from calibrant.files.column_values import Piece, number_in
from calibrant.files.column_words import role_of
from calibrant.files.engine import Engines, FileTable
from calibrant.files.loaded import Omitted
from calibrant.files.local import are_fractions, convert, is_text, is_workbook, located, original
from calibrant.files.log_rows import dotted, first_object
from calibrant.files.logs import check, log_columns, protocol, read_logs, with_defaults
from calibrant.files.odds import implied
from calibrant.files.paths import check_bytes, expand, kind_of, partitions_of
from calibrant.files.roles import find, select
from calibrant.files.stored import FilteredTable, StoredTable, stored_table
from calibrant.files.text import CsvTable, JsonTable, header
from calibrant.runtime.dataclass import dataclass

_NO_OPTIONS = Options()

#: Characters of a column's name or expression: the engine's time grows with the square of the parts of a path.
_LONGEST_NAME = 5_000

_NOT_TEXT: Final = "is for text files, but the file is not one"
_NOT_A_WORKBOOK: Final = "is for workbooks (.xlsx), but the file is not one"
_HAS_NO_LINES: Final = "is for text tables and workbooks, but the file is .{}"
_HAS_NUMBERS: Final = "is for text files, but a .{} file contains numbers"
_FILTER_ARRAYS: Final = "filter the arrays before you save them"

#: The kinds of files with columns.
TABLES: Final = ("csv", "json", "parquet", "arrow")


@dataclass(frozen=True, eq=False, kw_only=True)
class FileSource:
    """A file of predictions, read some rows at a time."""

    path: str
    selection: ColumnSelection  #: the columns with predictions in it, in the order of this file
    dtype: np.dtype[Any]  #: what the probabilities are read as
    #: From a selection to columns by argument, some rows at a time, in the order of the file.
    pieces: Callable[[ColumnSelection], Generator[Piece, None, None]]
    rows: int | None = None  #: where the file says so itself
    #: From a row that was yielded to its 1-based data row; it may read the file again.
    row_of: Callable[[int], int] = lambda index: index + 1
    #: The file of the targets and the position of the first of them in it, where it is a file of its own.
    targets_from: tuple[str, int] | None = None
    table: FileTable | None = None  #: where it has columns

    def guess_rows(self) -> int:
        """Return about how many rows there are, for the progress: by the length of the first lines, if need be."""
        path = located(self.path)
        if self.rows is not None or not path.lower().endswith((".csv", ".tsv", ".jsonl", ".ndjson")):
            return self.rows or 1 << 62
        with open(path, "rb") as stream:
            head = stream.read(65_536)
        return int(os.path.getsize(path) / len(head) * head.count(b"\n")) + 1


def _from_table(table: FileTable, selection: ColumnSelection) -> FileSource:
    """Return a file with columns as a source."""
    wide = np.dtype(np.float64)
    dtypes = [table.dtype_of(name) for name in selection.probs]
    stored = [name for name in selection.probs if name in table.columns]
    fractions = selection.percent and are_fractions(table.path, table.columns, stored)

    def pieces(asked: ColumnSelection) -> Generator[Piece, None, None]:
        found = table_pieces(table, replace(asked, percent=False) if fractions else asked)
        return rows_of_counts(found, asked, table.path, table.row_of) if asked.counts else found

    return FileSource(
        path=table.path,
        selection=selection,
        dtype=np.result_type(*(wide if selection.percent and dtype.kind != "f" else dtype for dtype in dtypes)),
        pieces=pieces,
        rows=None if table.rows is None else table.rows * (1 + selection.counts),
        row_of=lambda index: table.row_of(index // (1 + selection.counts)),
        table=table,
    )


def _from_arrays(
    path: str, selection: ColumnSelection, stored: Mapping[str, StoredArray], first: int = 0
) -> FileSource:
    """Return arrays, by their names, as a source; the targets may be rows of a longer array, from ``first`` on."""
    probs = [stored[name] for name in selection.probs]
    numbers = "f" if selection.percent else "fiub"
    dtypes = (array.dtype if array.dtype.kind in numbers else np.dtype(np.float64) for array in probs)
    firsts, n = dict.fromkeys(selection.targets, first), len(probs[0])
    return FileSource(
        path=path,
        selection=selection,
        dtype=np.result_type(*dtypes),
        pieces=lambda asked: array_pieces(path, stored, asked, firsts, n),
        rows=n,
    )


# ---------------------------------------------------------------- opening


@dataclass(frozen=True, eq=False, kw_only=True)
class Opened:
    """Files of one kind with the same columns, and those that were left out.

    ``paths`` are all files, ``sources`` those that are read, in the order of their rows; ``first`` is what is read of
    each of them, with the classes in the order of the first file's columns; ``notes`` say more of it, by argument, and
    ``cautions`` what in it may be a mistake. ``repeated`` are columns of the first one that name things with several
    rows each, alone or together.
    """

    paths: list[str]
    sources: list[FileSource]
    first: ColumnSelection
    notes: Mapping[str, str]
    omitted: list[Omitted]
    where: str | None = None
    cautions: tuple[str, ...] = ()
    repeated: tuple[tuple[str, ...], ...] = ()

    @property
    def described(self) -> dict[str, str]:
        """What is read as what, in words."""
        return {**self.first.sources(), **self.notes}

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
    engines.paths = paths = expand(patterns)
    kind = kind_of(paths[0])
    check_options(paths[0], kind, options, targets_file)
    if kind == "npy":
        return _open_arrays(paths, options, targets_file, keep_going)
    if kind == "json":
        engines.lengths = read_logs(paths, engines.check)
        options = with_defaults(paths, options)
    sources: list[FileSource] = []
    errors: list[FileError] = []
    for path in paths:
        engines.check()
        try:
            check_bytes(path)
            check(path, options)
            source = _source(path, kind, options, engines)
            if sources:
                check_same(path, source.selection, sources[0].path, sources[0].selection)
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
    first = sources[0].selection
    made = protocol([source.path for source in sources], first)
    notes = {"protocol": made} if made else {}
    if first.odds is not None:
        notes |= _overround(sources[0], first.odds)
    return Opened(
        paths=paths,
        sources=sources,
        first=first,
        notes=notes,
        omitted=omitted,
        where=options.where,
        repeated=_repeated_columns(sources[0], options),
    )


def _overround(source: FileSource, form: str) -> dict[str, str]:
    """Return the columns of the odds in words, with how much the sum of 1 / odds exceeds 1 in the first rows."""
    said, notes = source.selection.sources(), {}
    for argument, names in source.selection.names().items():
        if argument.startswith("probs") and len(names) > 1 and source.table is not None:
            cells = source.table.head(ROWS, names)
            odds = np.array([[number_in(cell) for cell in cells[name]] for name in names])
            sums = implied(odds, form).sum(axis=0)
            percent = f"{100 * (sums.mean() - 1):.1f} %"
            notes[argument] = f"{said[argument]} (mean overround {percent} in the first {len(sums):,} rows)"
    return notes


def check_options(path: str, kind: str, options: Options, targets_file: str | None = None) -> None:
    """Reject names that are too long, and options that a kind of file does not have."""
    for name in options.columns:
        if len(name) > _LONGEST_NAME:
            problem = f"the name of a column has {len(name):,} characters"
            raise FileError(path, problem, f"pass a name or an expression of at most {_LONGEST_NAME:,} characters")
    if kind == "sketch":
        raise FileError(path, "contains a sketch, not predictions", "pass the file to the command calibrant report")
    if targets_file is not None and kind != "npy":
        raise FileError(
            path, "contains its own targets, but --targets names another file", "use --targets only with .npy files"
        )
    is_table, arrays = kind in TABLES, f"is for tables, but a .{kind} file has arrays"
    has_sheets = is_workbook(original(path))
    for option, value, fits, problem, remedy in (
        ("--encoding", options.encoding, is_text(located(path)) and not has_sheets, _NOT_TEXT, ""),
        ("--sheet", options.sheet, has_sheets, _NOT_A_WORKBOOK, ""),
        ("--header-line", options.header_line, kind == "csv", _HAS_NO_LINES.format(kind), ""),
        ("--decimal-comma", options.decimal_comma, kind in ("csv", "json"), _HAS_NUMBERS.format(kind), ""),
        ("--odds", options.odds, is_table, arrays, "save a table"),
        ("--events", options.events, is_table, arrays, "save a table"),
        ("--where", options.where, is_table, f"is not available for .{kind} files", _FILTER_ARRAYS),
    ):
        if value and not fits:
            raise FileError(path, f"{option} {problem}", remedy or f"leave {option} out")


def _check_array_options(path: str, options: Options) -> None:
    """Reject options that name columns: a single array has no names."""
    if options.models:
        raise FileError(
            path, "contains a single array", "save the arrays of all models and the targets in one .npz file"
        )
    for option, names in options.named.items():
        for name in names:
            problem = f"a .npy file has no column names, but {option} names {quoted(name)}"
            raise FileError(path, problem, "save a .npz file with named arrays")


def _open_arrays(paths: list[str], options: Options, targets_file: str | None, keep_going: bool) -> Opened:
    """Open arrays of probabilities, and the array of their targets."""
    _check_array_options(paths[0], options)
    if targets_file is None:
        problem, remedy = "a .npy file of probabilities contains no targets", "name the .npy file of the targets"
        folder = os.path.dirname(paths[0])
        others: list[str] = []
        with suppress(OSError):  # of the network, or one that nobody may list
            beside = [os.path.join(folder, name) for name in sorted(os.listdir(folder or ".")) if name.endswith(".npy")]
            others = [name for name in beside if name not in paths]
        if len(others) != 1:
            raise FileError(paths[0], problem, f"{remedy} with --targets FILE")
        raise FileError(paths[0], problem, f"{remedy}, such as", ("--targets", *others))
    logits = all("logits" in os.path.basename(path).lower() for path in paths)
    if options.percent and logits:
        raise FileError(paths[0], "--percent is given, but the name of the file suggests logits", "leave --percent out")
    if keep_going:
        problem = "--keep-going does not work with .npy files, because all targets are in one file"
        raise FileError(paths[0], problem, "save a .npz file with named arrays")
    (targets_path,) = expand([targets_file])
    for path in (*paths, targets_path):
        check_bytes(path)
    names = options.labels or options.class_names
    selection = ColumnSelection(
        probs=("probs",),
        targets=("targets",),
        logits=logits,
        percent=options.percent,
        class_names=names,
        labels=options.labels is not None,
        noun="array",
    )
    targets, first = open_npy(targets_path), 0
    sources: list[FileSource] = []
    for path in paths:
        source = _from_arrays(path, selection, {"probs": open_npy(path), "targets": targets}, first)
        sources.append(replace(source, targets_from=(targets_path, first)))
        first += sources[-1].rows or 0
    if first != len(targets):
        problem = f"has {len(targets):,} rows, but the probabilities have {first:,} rows"
        raise FileError(targets_path, problem, "pass the targets of exactly these rows")
    notes = {"probs": ", ".join(paths) + " in percent" * options.percent, "targets": targets_path}
    return Opened(paths=paths, sources=sources, first=selection, notes=notes, omitted=[])


def _source(path: str, kind: str, options: Options, engines: Engines) -> FileSource:
    """Open a file; where it has no columns with usual names, propose those that look right."""
    if kind == "npz":
        stored, selection = open_npz(path, options)
        return _from_arrays(path, selection, stored)
    table = table_of(path, options, engines)
    objects = table.objects
    if options.probs in objects:
        options = replace(options, probs=f"{options.probs}.*")
    options = replace(options, models=tuple(f"{name}.*" if name in objects else name for name in options.models))
    if objects and not options.name_scores:
        _check_objects(table, options)
    return _from_table(table, find(table.path, table.columns, options, table.head, in_path=table.partitions))


def _check_objects(table: FileTable, options: Options) -> None:
    """Reject a file without another column for the scores: name the keys of its objects, and the true class."""
    seen = first_look(table.columns, table.head)
    keys = [name for name in seen.cells if name.startswith(f"{table.objects[0]}.")]
    if any(not len(seen.numbers(name)) or np.isnan(seen.numbers(name)).any() for name in keys):
        return  # each row has only some of the keys
    try:
        selection = select(table.path, table.columns, options)
        if selection.probs != table.objects[:1]:
            return
        problem = f"column {quoted(table.objects[0])} contains objects"
    except Unnamed as error:
        problem = error.problem
    probs = f"{table.objects[0]}.*"
    try:
        select(table.path, table.columns, replace(options, probs=probs))
        target: tuple[str, ...] = ()
    except Unnamed:
        truths = [name for name in (*seen.classes, *seen.outcomes) if not name.startswith(table.objects)]
        classes = {name.removeprefix(f"{table.objects[0]}.") for name in table.columns}
        truths.sort(key=lambda name: (not classes.issuperset(seen.labels(name)), role_of(name) != "true"))
        target = ("--target", truths[0]) if truths else ()
    remedy = f"the keys of {table.objects[0]} are the classes; name the keys, such as"
    raise Unnamed(table.path, problem, remedy, ("--probs", probs, *target))


def table_of(path: str, options: Options = _NO_OPTIONS, engines: Engines | None = None) -> FileTable:
    """Open a file with columns; the engine reads it where the options name SQL, or columns within structs."""
    kind, where = kind_of(path), options.where
    if kind in ("csv", "json"):
        text = CsvTable(path, where, engines) if kind == "csv" else JsonTable(path, where, engines)
        text.comma = options.decimal_comma
        return text
    stored = stored_table(path, engines)
    return stored if where is None and _is_plain(stored, options) else FilteredTable(stored, where, engines)


def _is_plain(stored: StoredTable, options: Options) -> bool:
    """Whether options name columns of a file alone: no SQL, nothing within structs, and nothing in its path."""
    sql = filter(None, (*options.by, *options.clusters, options.outcome, options.score))
    plain = all(name in stored.columns or re.fullmatch(r"\w+", name) for name in sql)
    of_structs = any(name in asked for name in stored.structs for asked in options.columns)
    if partitions := partitions_of(stored.path):  # such a column, or a name that may be meant for one
        unknown = (name for name in options.columns if name not in stored.columns)
        plain = plain and not any(name in partitions or re.fullmatch(r"\w+", name) for name in unknown)
    return plain and not of_structs and (options.name_scores or not stored.structs)


# ---------------------------------------------------------------- looks at a file, for hints


def column_names(path: str) -> tuple[str, ...]:
    """Return the names of a file's columns or arrays, from its head alone: the completion of commands cannot wait.

    Raises
    ------
    Exception
        Whatever the reader of a damaged file raises.
    """
    kind, own = kind_of(path), tuple[str, ...]()
    convert(path)
    if kind == "npz":
        return tuple(array_names(path))
    if kind in ("parquet", "arrow"):
        own = table_of(path).columns
    elif kind == "csv":
        own = header(path)
    elif kind == "json":
        own = log_columns(path) or tuple(dotted(first_object(path)))
    return (*own, *(name for name in partitions_of(path) if name not in own))


def _repeated_columns(source: FileSource, options: Options) -> tuple[tuple[str, ...], ...]:
    """Return the columns of a file that name things with several rows each, for a hint: patients, questions, games.

    Columns that name them together are one entry. The errors of the rows count, except where several models answer a
    question. The file is looked at when it is opened: once it is read, it may be replaced.
    """
    selection, table = source.selection, source.table
    taken = {*selection.probs, *selection.targets, *selection.keys, *selection.groups, selection.weights}
    try:
        if isinstance(table, StoredTable) and table.structs:
            table = FilteredTable(table, None)  # which has the columns within structs too
        columns = array_names(source.path) if table is None else table.readable
        names = tuple(name for name in parts_of_ids(columns) if name not in taken)
        pair = (
            (*selection.probs[:1], *selection.targets)
            if _is_of_one_event(selection, columns) and not options.by_models
            else ()
        )
        asked = (*names, *pair)
        cells = {} if not names else first_rows(source.path, ROWS, asked) if table is None else table.head(ROWS, asked)
    except CalibrantError:  # reading the file says what is wrong
        return ()
    errors = _errors([cells.pop(name) for name in pair], selection) if pair and cells.keys() >= {*pair} else None
    return cluster_hint(cells, errors)


def _is_of_one_event(selection: ColumnSelection, columns: Sequence[str]) -> bool:
    """Whether a column of scores and one of outcomes are read, and neither is an expression."""
    widths = [len(names) for argument, names in selection.names().items() if argument.startswith("probs")]
    named = {*selection.probs, *selection.targets} <= {*columns}
    return widths[:1] == [1] and len(selection.targets) == 1 and named and not (selection.logits or selection.counts)


def _errors(pair: Sequence[Sequence[Any]], selection: ColumnSelection) -> Errors | None:
    """Return the scores minus the outcomes of rows; None if some are not numbers, or the outcomes not 0 and 1."""
    labels = selection.spellings or ()
    places = {label: float(place) for place, label in enumerate(labels)} if len(labels) == 2 else {}
    scores = np.array([number_in(cell) for cell in pair[0]])
    outcomes = np.array([places.get(str(cell), number_in(cell)) for cell in pair[1]])
    known = ~np.isnan(scores)
    if (
        not known.any()
        or not np.isin(outcomes[known], (0, 1)).all()
        or not ((scores >= 0) & (scores <= 1))[known].all()
    ):
        return None
    return Errors(scores - outcomes, outcomes)
