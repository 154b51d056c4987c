"""A map of scores applied to a file: the same rows and columns, and one more."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import CalibrantError, FileError, FileFault, InputError, nearest, quoted
from calibrant.files.columns import PROBS_NAMES, Selection, listed
from calibrant.files.engine import SETTINGS, Engines, EngineTable, Table, batch_rows
from calibrant.files.local import load
from calibrant.files.paths import check_bytes, expand, kind_of, utf8_path
from calibrant.files.sources import table_of
from calibrant.files.sql import identifier, number_of
from calibrant.results.writing import replacing

#: The kinds of files that are written, by their endings.
ENDINGS: Final = {".csv": "csv", ".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow"}

#: From scores to recalibrated scores; raises `InputError` at the first invalid one.
Map = Callable[[NDArray[np.float64]], NDArray[np.float64]]

_NUMBER: Final = "calibrant score"


def apply_to_file(
    path: str, output: str, mapped: Map, *, score: str | None = None, name: str = "calibrated", comma: bool = False
) -> int:
    """Write a file with a column of mapped scores after the others, and return its number of rows.

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
    name : str
        The name of the new column.
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
    column = _score_of(table, score)
    if name in table.columns:
        raise FileError(path, f"has a column named {quoted(name)}", "name the new column with --name")
    rows, failures = 0, []

    def longer() -> Iterator[Any]:
        nonlocal rows
        try:
            for batch, scores in _batches(table, column, comma=comma):
                yield batch.append_column(name, _mapped(table, column, scores, mapped, rows))
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


def _batches(table: Table, column: str, *, comma: bool) -> Iterator[tuple[Any, Any]]:
    """Yield all columns as record batches, and the scores in them as a column of numbers."""
    if not isinstance(table, EngineTable):
        for batch in table.batches(Selection(probs=table.columns)):
            yield batch, batch.column(column)
        return
    number = identifier(column) if table.has_types else number_of(identifier(column), comma=comma)
    query = f"SELECT *, {number} AS {identifier(_NUMBER)} FROM {table.relation()}"
    with table.connection() as connection:
        try:
            for batch in connection.sql(query).to_arrow_reader(batch_rows(len(table.columns) + 1)):
                if batch.num_rows:
                    place = batch.schema.get_field_index(_NUMBER)
                    yield batch.remove_column(place), batch.column(place)
        except Exception as error:
            raise table.explain(error, condition=False) from error


def _mapped(table: Table, column: str, scores: Any, mapped: Map, first: int) -> Any:
    """Return the mapped scores of a batch that begins at row ``first``."""
    arrow = load("pyarrow", "to write files")
    problem = f"column {quoted(column)} holds {{}} in row {{:,}}, not a score"
    remedy = "give every row a score"
    try:
        numbers = scores.cast(arrow.float64())
    except arrow.ArrowInvalid as error:
        raise FileError(table.path, f"column {quoted(column)} does not hold numbers ({error})", remedy) from None
    if numbers.null_count:
        row = int(np.flatnonzero(np.asarray(numbers.is_null()))[0])
        raise FileError(table.path, problem.format("no number", table.row_of(first + row)), remedy)
    values = numbers.to_numpy(zero_copy_only=False)
    try:
        return arrow.array(mapped(values))
    except InputError as error:
        row = error.row or 0
        at = table.row_of(first + row)
        if not np.isnan(values[row]):
            remedy = "give every row a probability in [0, 1], or pass --logits if the scores are log-odds"
        raise FileError(table.path, problem.format(f"{values[row]:g}", at), remedy) from None


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
