"""A map of scores applied to a file: the same rows and columns, and one more."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import CalibrantError, FileError, FileFault, InputError, nearest, quoted
from calibrant.files.columns import PROBS_NAMES, Selection, class_columns, listed
from calibrant.files.engine import SETTINGS, Engines, EngineTable, Table, batch_rows
from calibrant.files.local import load
from calibrant.files.paths import check_bytes, expand, kind_of, utf8_path
from calibrant.files.sources import table_of
from calibrant.files.sql import identifier, number_of
from calibrant.results.writing import replacing
from calibrant.runtime.dataclass import dataclass

#: The kinds of files that are written, by their endings.
ENDINGS: Final = {".csv": "csv", ".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow"}

#: From scores, (n,) or (n, C), to recalibrated ones; raises `InputError` at the first invalid one.
Map = Callable[[NDArray[np.float64]], NDArray[np.float64]]

_NUMBER: Final = "calibrant score"
_MISSING: Final = "give every row a score"
_OUTSIDE: Final = "give every row a probability in [0, 1], or pass --logits if the scores are log-odds"


@dataclass(frozen=True)
class Classes:
    """The classes of a map: their number, their names, and the columns of their probabilities, as ``--probs`` names."""

    number: int
    names: Sequence[str] | None
    probs: str | None


def apply_to_file(
    path: str,
    output: str,
    mapped: Map,
    *,
    score: str | None = None,
    classes: Classes | None = None,
    name: str = "calibrated",
    comma: bool = False,
) -> int:
    """Write a file with columns of mapped scores after the others, and return its number of rows.

    Parameters
    ----------
    path : str
        The file to read: CSV, TSV, Excel, JSON, Parquet or Arrow.
    output : str
        The file to write: CSV, Parquet or Arrow, by its ending. It is written as a whole or not at all.
    mapped : callable
        The map.
    score : str, optional
        The column of the scores; by default the column with a usual name.
    classes : Classes, optional
        The classes, for a map of classes.
    name : str
        The name of the new column; of classes, what stands before the names of the classes.
    comma : bool
        Whether decimals in text have a comma.

    Raises
    ------
    FileError
        For a file that cannot be read or written, a missing column, a name that is taken, and for a value that is not
        a score: it names the row.
    """
    (path,) = expand([path])
    check_bytes(path)
    kind = kind_of(path)
    if kind not in ("csv", "json", "parquet", "arrow"):
        raise FileError(path, f"is a .{kind}, which has no columns", "save the scores as CSV or Parquet")
    engines = Engines([path])
    table = table_of(path, kind, None, engines)
    columns, names = [_score_of(table, score)] if classes is None else [], [name]
    if classes is not None:
        columns = class_columns(table.path, table.columns, classes.probs, classes.number, classes.names)
        names = [f"{name}_{each}" for each in classes.names or range(classes.number)]
    taken = [each for each in names if each in table.columns]
    if taken:
        raise FileError(path, f"has a column named {quoted(taken[0])}", "name the new column with --name")
    rows, failures = 0, []

    def longer() -> Iterator[Any]:
        nonlocal rows
        try:
            for batch, scores in _batches(table, columns, comma=comma):
                wider = batch
                for each, values in zip(names, _mapped(table, columns, scores, mapped, rows), strict=True):
                    wider = wider.append_column(each, values)
                yield wider
                rows += batch.num_rows
        except CalibrantError as error:
            failures.append(error)  # what writes the rows would raise another one
            raise

    batches = longer()
    first = next(batches, None)
    if first is None:
        raise FileError(path, "has no rows", "name a file with scores", fault=FileFault.EMPTY)
    with replacing(output) as part:
        try:
            _write(itertools.chain([first], batches), first.schema, part, ENDINGS[os.path.splitext(output)[1].lower()])
        except Exception:
            if failures:
                raise failures[0] from None
            raise
    return rows


def _score_of(table: Table, score: str | None) -> str:
    """Return the column of the scores."""
    if score is None:
        found = [name for name in PROBS_NAMES if name in table.columns]
        if not found:
            problem = f"has no column with the usual name of a score; the columns are {listed(table.columns)}"
            raise FileError(table.path, problem, "name it with --score", fault=FileFault.NO_SUCH_COLUMN)
        return str(found[0])
    if score not in table.columns:
        problem = f"has no column {quoted(score)}"
        raise FileError(table.path, problem, nearest(score, table.columns), fault=FileFault.NO_SUCH_COLUMN)
    return score


def _batches(table: Table, columns: Sequence[str], *, comma: bool) -> Iterator[tuple[Any, list[Any]]]:
    """Yield all columns as record batches, and the scores in some of them as columns of numbers."""
    if not isinstance(table, EngineTable):
        for batch in table.batches(Selection(probs=table.columns)):
            yield batch, [batch.column(column) for column in columns]
        return
    names = map(identifier, columns)
    numbers = [name if table.has_types else number_of(name, comma=comma) for name in names]
    scores = ", ".join(f"{number} AS {identifier(f'{_NUMBER} {i}')}" for i, number in enumerate(numbers))
    query = f"SELECT *, {scores} FROM {table.relation()}"
    with table.connection() as connection:
        try:
            for batch in connection.sql(query).to_arrow_reader(batch_rows(len(table.columns) + len(columns))):
                if batch.num_rows:
                    width = batch.num_columns - len(columns)
                    yield batch.select(range(width)), batch.columns[width:]
        except Exception as error:
            raise table.explain(error, condition=False) from error


def _mapped(table: Table, columns: Sequence[str], scores: Sequence[Any], mapped: Map, first: int) -> list[Any]:
    """Return the mapped scores of a batch that begins at row ``first``."""
    arrow = load("pyarrow", "to write files")
    pairs = zip(columns, scores, strict=True)
    values = np.column_stack([_numbers(table, column, column_of, first) for column, column_of in pairs])
    try:
        found = mapped(values if len(columns) > 1 else values[:, 0])
    except InputError as error:
        row = error.row or 0
        at, bad = table.row_of(first + row), values[row, error.column or 0]
        if len(columns) > 1 and error.column is None:
            problem = f"columns {listed(columns)} have the sum {values[row].sum():g} in row {at:,}, not 1"
            raise FileError(table.path, problem, error.remedy) from None
        problem = f"column {quoted(columns[error.column or 0])} holds {bad:g} in row {at:,}, not a score"
        raise FileError(table.path, problem, _MISSING if np.isnan(bad) else _OUTSIDE) from None
    return [arrow.array(column) for column in found.reshape(len(values), -1).T]


def _numbers(table: Table, column: str, scores: Any, first: int) -> NDArray[np.float64]:
    """Return the scores of a column."""
    arrow = load("pyarrow", "to write files")
    try:
        numbers = scores.cast(arrow.float64())
    except arrow.ArrowInvalid as error:
        raise FileError(table.path, f"column {quoted(column)} does not hold numbers ({error})", _MISSING) from None
    if numbers.null_count:
        row = table.row_of(first + int(np.flatnonzero(np.asarray(numbers.is_null()))[0]))
        raise FileError(table.path, f"column {quoted(column)} holds no number in row {row:,}, not a score", _MISSING)
    values: NDArray[np.float64] = numbers.to_numpy(zero_copy_only=False)
    return values


def _write(batches: Iterator[Any], schema: Any, part: str, kind: str) -> None:
    """Write record batches as a kind of file."""
    path = utf8_path(part)
    if kind == "csv":  # by DuckDB, which quotes texts only where they need it
        reader = load("pyarrow", "to write files").RecordBatchReader.from_batches(schema, batches)
        with load("duckdb", "to write CSV").connect(":memory:", config=SETTINGS) as connection:
            connection.from_arrow(reader).write_csv(path)
        return
    if kind == "parquet":
        writer = load("pyarrow.parquet", "to write Parquet").ParquetWriter(path, schema)
    else:
        writer = load("pyarrow", "to write Arrow").ipc.new_file(path, schema)
    with writer:
        for batch in batches:
            writer.write_batch(batch)
