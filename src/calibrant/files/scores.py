"""The scores in a file without outcomes: its rows in batches, and the numbers of some of its columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import FileError, FileFault, InputError, nearest, quoted
from calibrant.errors.wording import number
from calibrant.files.column_options import ColumnSelection, NamedColumns, Options, in_words, listed
from calibrant.files.column_words import USUAL
from calibrant.files.engine import Engines, EngineTable, FileTable, batch_rows
from calibrant.files.loaded import FileRead
from calibrant.files.local import first_line, load
from calibrant.files.paths import check_bytes, kind_of
from calibrant.files.roles import select_probs
from calibrant.files.sources import table_of
from calibrant.files.sql import identifier, number_of
from calibrant.runtime.dataclass import dataclass

#: From scores, (n,) or (n, C), to recalibrated ones; raises `InputError` at the first invalid one.
Map = Callable[[NDArray[np.float64]], NDArray[np.float64]]

_NUMBER: Final = "calibrant score"
_MISSING: Final = "give every row a score"
_OUTSIDE: Final = "give every row a probability in [0, 1], or pass --logits if the scores are log-odds"


@dataclass(frozen=True, eq=False, kw_only=True)
class FileScores(FileRead):
    """The scores in files without outcomes, (N,) or (N, C), the columns that they were read from, and their classes."""

    probs: NDArray[np.float64]
    columns: dict[str, tuple[str, ...]]
    class_names: tuple[str, ...] | None  #: by the caller, or by the names of the columns


@dataclass(frozen=True)
class ClassColumns:
    """The classes of a map: their number, their names, and the columns of their probabilities, as ``--probs`` names."""

    number: int
    names: Sequence[str] | None
    probs: str | None


def opened(
    path: str, score: str | None, classes: ClassColumns | None
) -> tuple[FileTable, list[str], tuple[str, ...] | None]:
    """Return a file as a table, the columns of its scores, and the names of their classes, if they have any.

    Raises
    ------
    FileError
        For a file that has no columns, or not these.
    """
    check_bytes(path)
    kind = kind_of(path)
    if kind not in ("csv", "json", "parquet", "arrow"):
        raise FileError(path, f"is a .{kind}, which has no columns", "save the scores as CSV or Parquet")
    probs = None if classes is None else classes.probs
    # Only a score within a struct needs the engine, which does not keep every type of the other columns.
    table = table_of(path, kind, None, Engines([path]), Options(score=score or "", probs=probs))
    if classes is None:
        return table, [_score_of(table, score)], None
    return table, *_columns_of(table, classes)


def read_scores(
    paths: Sequence[str],
    check: Callable[[NDArray[np.float64]], None],
    *,
    score: str | None = None,
    classes: ClassColumns | None = None,
    comma: bool = False,
) -> FileScores:
    """Return the scores in files, one after the other; ``check`` raises `InputError` at the first invalid one.

    Raises
    ------
    FileError
        For a file that cannot be read or has no rows, a missing column, and a value that is not a score: it names the
        row.
    """
    parts: list[NDArray[np.float64]] = []
    counts, names = [], list[str]()
    class_names: tuple[str, ...] | None = None
    for path in paths:
        table, names, found = opened(path, score, classes)
        if class_names is None and classes is not None and found is not None:
            class_names, classes = found, replace(classes, names=found)  # in other files they may be in another order
        first = 0
        for _, columns in batches_of(table, names, comma=comma):
            values = _values(table, names, columns, first)
            with _in_rows(table, names, values, first):
                check(values)
            parts.append(values)
            first += len(values)
        if not first:
            raise FileError(path, "has no rows", "name a file with scores", fault=FileFault.EMPTY)
        counts.append(first)
    return FileScores(
        sources={"probs": in_words(tuple(names), "column") if len(names) > 1 else names[0]},
        paths=tuple(paths),
        rows=tuple(counts),
        probs=np.concatenate(parts),
        columns={"probs": tuple(names)},
        class_names=class_names,
    )


def _score_of(table: FileTable, score: str | None) -> str:
    """Return the column of the scores."""
    if score is None:
        found = [name for name in USUAL["probs"].names if name in table.columns]
        if not found:
            problem = f"has no column with the usual name of a score; the columns are {listed(table.columns)}"
            raise FileError(table.path, problem, "name it with --score", fault=FileFault.NO_SUCH_COLUMN)
        return str(found[0])
    if score not in table.columns:
        problem = f"has no column {quoted(score)}"
        raise FileError(table.path, problem, nearest(score, table.columns), fault=FileFault.NO_SUCH_COLUMN)
    return score


def _columns_of(table: FileTable, classes: ClassColumns) -> tuple[list[str], tuple[str, ...] | None]:
    """Return the columns of the probabilities of classes, in their order, and the names of the classes."""
    named = NamedColumns(table.path, table.columns, "column")
    found, suffixes = select_probs(named, Options(probs=classes.probs), set())
    words, names = in_words(found, "column"), classes.names
    if len(found) != classes.number:
        problem = f"has {words}, but the map has {classes.number} classes"
        raise FileError(table.path, problem, "name the columns with --probs")
    own = None if suffixes is None else tuple(suffixes)
    if names is None or own is None or own == tuple(names):
        return list(found), own if names is None else tuple(names)
    if set(own) != set(names):
        problem = f"has {words} for the classes {listed(own)}, but the map has {listed(names)}"
        raise FileError(table.path, problem, "pass probabilities of the same classes")
    return [found[own.index(name)] for name in names], tuple(names)


def batches_of(table: FileTable, columns: Sequence[str], *, comma: bool) -> Iterator[tuple[Any, list[Any]]]:
    """Yield all columns as record batches, and the scores in some of them as columns of numbers."""
    if not isinstance(table, EngineTable):
        for batch in table.batches(ColumnSelection(probs=table.columns)):
            yield batch, [batch.column(column) for column in columns]
        return
    table.check_names(table.columns)
    own = [identifier(name) for name in table.columns[: len(table.header)]]  # paths within structs come after them
    names = map(identifier, columns)
    numbers = [name if table.has_types else number_of(name, comma=comma) for name in names]
    scores = [f"{number} AS {identifier(f'{_NUMBER} {i}')}" for i, number in enumerate(numbers)]
    query = f"SELECT {', '.join([*own, *scores])} FROM {table.relation()}"
    with table.connection() as connection:
        try:
            for batch in connection.sql(query).to_arrow_reader(batch_rows(len(table.columns) + len(columns))):
                if batch.num_rows:
                    width = batch.num_columns - len(columns)
                    yield batch.select(range(width)), batch.columns[width:]
        except Exception as error:
            raise table.explain(error, condition=False) from error


def mapped_columns(
    table: FileTable, columns: Sequence[str], scores: Sequence[Any], mapped: Map, first: int
) -> list[Any]:
    """Return the mapped scores of a batch that begins at row ``first``."""
    arrow = load("pyarrow", "to write files")
    values = _values(table, columns, scores, first)
    with _in_rows(table, columns, values, first):
        found = mapped(values)
    return [arrow.array(column) for column in found.reshape(len(values), -1).T]


@contextmanager
def _in_rows(table: FileTable, columns: Sequence[str], values: NDArray[np.float64], first: int) -> Iterator[None]:
    """Turn an error about the values of a batch that begins at row ``first`` into one about the row of the file."""
    try:
        yield
    except InputError as error:
        row = error.row or 0
        at, numbers = table.row_of(first + row), values.reshape(len(values), -1)
        if len(columns) > 1 and error.column is None:
            problem = f"columns {listed(columns)} have the sum {numbers[row].sum():.10g} in row {at:,}, not 1"
            raise FileError(table.path, problem, error.remedy) from None
        bad = numbers[row, error.column or 0]
        problem = f"column {quoted(columns[error.column or 0])} holds {number(bad)} in row {at:,}, not a score"
        raise FileError(table.path, problem, _MISSING if np.isnan(bad) else _OUTSIDE) from None


def _values(table: FileTable, columns: Sequence[str], scores: Sequence[Any], first: int) -> NDArray[np.float64]:
    """Return the scores of a batch, (n,) of one column and (n, C) of several."""
    pairs = zip(columns, scores, strict=True)
    values = np.column_stack([_numbers(table, column, column_of, first) for column, column_of in pairs])
    return values if len(columns) > 1 else values[:, 0]


def _numbers(table: FileTable, column: str, scores: Any, first: int) -> NDArray[np.float64]:
    """Return the scores of a column."""
    arrow = load("pyarrow", "to write files")
    try:
        if arrow.types.is_run_end_encoded(scores.type):  # Arrow does not cast these
            scores = load("pyarrow.compute", "to read runs").run_end_decode(scores)
        numbers = scores.cast(arrow.float64())
    except arrow.ArrowException as error:  # a text that is not a number, or a type that has none
        problem = f"column {quoted(column)} holds {scores.type}, not numbers ({first_line(error)})"
        raise FileError(table.path, problem, _MISSING) from None
    if numbers.null_count:
        row = table.row_of(first + int(np.flatnonzero(np.asarray(numbers.is_null()))[0]))
        raise FileError(table.path, f"column {quoted(column)} holds no number in row {row:,}, not a score", _MISSING)
    values: NDArray[np.float64] = numbers.to_numpy(zero_copy_only=False)
    return values
