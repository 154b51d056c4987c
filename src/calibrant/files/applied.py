"""A map of scores applied to a file: the same rows and columns, and one more."""

from __future__ import annotations

import csv
import errno
import io
import itertools
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from calibrant.errors import CalibrantError, FileError, FileFault, quoted
from calibrant.files.engine import SETTINGS, EngineTable, FileTable, settle
from calibrant.files.local import load, reading
from calibrant.files.paths import expand, utf8_path
from calibrant.files.scores import ClassColumns, Map, batches_of, mapped_columns, opened
from calibrant.files.sql import literal
from calibrant.results.writing import replacing

#: The kinds of files that are written, by their endings.
ENDINGS: Final = {".csv": "csv", ".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow"}


def apply_to_file(
    path: str,
    output: str,
    mapped: Map,
    *,
    score: str | None = None,
    classes: ClassColumns | None = None,
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
    (path, *others) = expand([path])
    if others:
        raise FileError(path, f"is one of {1 + len(others)} files that the pattern matches", "name one file at a time")
    table, columns, _ = opened(path, score, classes)
    names = [name]
    if classes is not None:
        names = [f"{name}_{each}" for each in classes.names or range(classes.number)]
    kind = ENDINGS[os.path.splitext(output)[1].lower()]
    _check_names(table, names, kind)
    arrow, header = load("pyarrow", "to write files"), [*table.header, *names]
    rows, failures = 0, []

    def longer() -> Iterator[Any]:
        nonlocal rows
        try:
            for batch, scores in batches_of(table, columns, comma=comma):
                wider = [*batch.columns, *mapped_columns(table, columns, scores, mapped, rows)]
                yield arrow.RecordBatch.from_arrays(wider, schema=_schema(batch.schema, header))
                rows += batch.num_rows
        except CalibrantError as error:
            failures.append(error)  # what writes the rows would raise another one
            raise

    batches = longer()
    first = next(batches, None)
    if first is None:
        raise FileError(path, "has no rows", "name a file with scores", fault=FileFault.EMPTY)
    with replacing(output) as part, _writing(output, kind):
        try:
            _write(itertools.chain([first], batches), first.schema, part, kind)
        except Exception:
            if failures:
                raise failures[0] from None
            raise
    return rows


def _check_names(table: FileTable, names: Sequence[str], kind: str) -> None:
    """Reject names of new columns that are taken, and columns whose names would not be kept."""
    lower = {each.lower(): each for each in table.columns}
    taken = [lower[each.lower()] for each in names if each.lower() in lower]
    if taken:
        raise FileError(table.path, f"has a column named {quoted(taken[0])}", "name the new column with --name")
    twice = [each for each, count in Counter(table.header).items() if count > 1 and (each or kind != "csv")]
    if twice:
        raise FileError(table.path, f"has several columns named {quoted(twice[0])}", "give each column its own name")
    cut = [each for each in table.header if "\0" in each and (kind == "csv" or isinstance(table, EngineTable))]
    if cut:
        problem = f"has a column whose name contains the character NUL, {cut[0]!r}"
        raise FileError(table.path, problem, "rename the column")


def _schema(schema: Any, header: Sequence[str]) -> Any:
    """Return the schema of columns and new ones, with the names and the other metadata of a file's columns."""
    arrow = load("pyarrow", "to write files")
    fields = [field.with_name(name) for field, name in zip(schema, header, strict=False)]
    return arrow.schema(
        [*fields, *(arrow.field(name, arrow.float64()) for name in header[len(fields) :])], schema.metadata
    )


def _write(batches: Iterator[Any], schema: Any, part: str, kind: str) -> None:
    """Write record batches as a kind of file."""
    path = utf8_path(part)
    if kind == "csv":
        _write_csv(batches, schema, path)
        return
    if kind == "parquet":
        writer = load("pyarrow.parquet", "to write Parquet").ParquetWriter(path, schema)
    else:
        writer = load("pyarrow", "to write Arrow").ipc.new_file(path, schema)
    with writer:
        for batch in batches:
            writer.write_batch(batch)


def _write_csv(batches: Iterator[Any], schema: Any, path: str) -> None:
    """Write record batches as CSV by DuckDB, which quotes texts only where they need it.

    It would rename columns that are alike to it or that have no name, so it gets other names, and the header as text.
    """
    arrow = load("pyarrow", "to write files")
    head = io.StringIO()
    csv.writer(head, lineterminator="\n").writerow(schema.names)
    known = arrow.schema([(str(number), _known_type(field.type)) for number, field in enumerate(schema)])
    plain = (batch.rename_columns(known.names).cast(known) for batch in batches)
    with load("duckdb", "to write CSV").connect(":memory:", config=SETTINGS) as connection:
        settle(connection, "UTC")
        connection.register("rows", arrow.RecordBatchReader.from_batches(known, plain))
        header = f"HEADER false, PREFIX {literal(head.getvalue())}, SUFFIX '\n'"
        connection.execute(f"COPY rows TO {literal(path)} (FORMAT csv, {header}, USE_TMP_FILE false)")


def _known_type(kind: Any) -> Any:
    """Return the type in which DuckDB takes the values of a type without a loss; the cast raises where there is one."""
    arrow = load("pyarrow", "to write files")
    if arrow.types.is_float16(kind):
        return arrow.float32()
    if arrow.types.is_decimal256(kind) or (arrow.types.is_decimal(kind) and kind.scale < 0):
        return arrow.string()
    return arrow.duration("us") if kind == arrow.duration("ns") else kind


@contextmanager
def _writing(output: str, kind: str) -> Iterator[None]:
    """Turn what a writer raises into one line: errors of the disk, and of types that this kind of file lacks."""
    remedy = "leave the column of that type out, or write another kind of file"
    with reading(output, remedy, f"cannot be written as {kind}"):
        try:
            yield
        except Exception as error:
            if os.strerror(errno.ENOSPC) in str(error):  # errors of DuckDB have no number
                raise FileError(output, "cannot be written: the disk is full", "free some space") from None
            if isinstance(error, OSError) and error.errno is not None:
                raise FileError(output, f"cannot be written ({error.strerror or error})", "check the disk") from None
            raise
