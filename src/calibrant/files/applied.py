"""A map of scores applied to a file: the same rows and columns, and one more."""

from __future__ import annotations

import csv
import errno
import io
import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import CalibrantError, FileError, FileFault, InputError, nearest, quoted
from calibrant.errors.wording import number
from calibrant.files.column_options import ColumnSelection, NamedColumns, Options, in_words, listed
from calibrant.files.column_values import Percents, ValueWords, check_per_cents, shown
from calibrant.files.column_words import USUAL
from calibrant.files.engine import SETTINGS, EngineTable, FileTable, batch_rows, settle
from calibrant.files.local import first_line, load, reading
from calibrant.files.odds import probabilities
from calibrant.files.paths import KINDS, check_bytes, ending_of, expand, kind_of, utf8_path
from calibrant.files.roles import select_probs
from calibrant.files.sources import TABLES, check_options, table_of
from calibrant.files.sql import identifier, literal, number_of
from calibrant.results.writing import replacing
from calibrant.runtime.dataclass import dataclass

#: From scores, (n,) or (n, C), to recalibrated ones; raises `InputError` at the first invalid one.
Map = Callable[[NDArray[np.float64]], NDArray[np.float64]]

_NUMBER: Final = "calibrant score"
_MISSING: Final = "give every row a score"
_OUTSIDE: Final = (
    "give every row a probability in [0, 1], or pass --percent if the scores are percentages, or --logits if they are "
    "log-odds"
)


@dataclass(frozen=True)
class ClassColumns:
    """The classes of a map: their number and their names."""

    number: int
    names: Sequence[str] | None


def apply_to_file(
    path: str, output: str, mapped: Map, options: Options, *, classes: ClassColumns | None, name: str
) -> int:
    """Write a file with columns of mapped scores after the others, and return its number of rows.

    The output is CSV, Parquet or Arrow, by its ending, and is written as a whole or not at all. The options name the
    scores, by default the column with a usual name, and say how they are written. New columns are plain probabilities.
    ``name`` is the name of the new column; of classes, what stands before the names of the classes.
    """
    given, (path, *others) = path, expand([path])
    if others:
        problem = f"stands for {1 + len(others):,} files, but a map is applied to one file at a time"
        raise FileError(given, problem, f"name one file, such as {path}")
    check_bytes(path)
    kind = kind_of(path)
    if kind not in TABLES:
        raise FileError(path, f"is a .{kind}, which has no columns", "save the scores as CSV or Parquet")
    # Texts of percentages may have commas in any kind of file.
    check_options(path, kind, replace(options, decimal_comma=False))
    # Only a score within a struct needs the engine, which does not keep every type of the other columns.
    table = table_of(path, Options(score=options.score or "", probs=options.probs))
    columns, names = [_score_of(table, options.score)] if classes is None else [], [name]
    if classes is not None:
        columns = _columns_of(table, classes, options)
        names = [f"{name}_{each}" for each in classes.names or range(classes.number)]
    kind = KINDS[ending_of(output)]
    _check_names(table, names, kind)
    arrow, header = load("pyarrow", "to write files"), [*table.header, *names]
    rows, failures = 0, []
    scores = _Scores(table, columns, options)

    def longer() -> Iterator[Any]:
        nonlocal rows
        try:
            for batch, texts in _batches(table, columns, options):
                wider = [*batch.columns, *_mapped(table, columns, scores.read(texts, rows), mapped, rows)]
                yield arrow.RecordBatch.from_arrays(wider, schema=_schema(batch.schema, header))
                rows += batch.num_rows
            scores.check()
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
        free = next(name for k in itertools.count(2) if (name := f"calibrated_{k}") not in lower)
        remedy = f"name the new column with --name, such as --name {free}"
        raise FileError(table.path, f"has a column named {quoted(taken[0])}", remedy)
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


def _columns_of(table: FileTable, classes: ClassColumns, options: Options) -> list[str]:
    """Return the columns of the probabilities of classes, in their order."""
    named = NamedColumns(table.path, table.columns, "column")
    found, suffixes = select_probs(named, Options(probs=options.probs), set())
    words, names = in_words(found, "column"), classes.names
    if len(found) != classes.number:
        problem = f"has {words}, but the map has {classes.number} classes"
        raise FileError(table.path, problem, "name the columns with --probs")
    if names is None or suffixes is None or list(suffixes) == list(names):
        return list(found)
    if set(suffixes) != set(names):
        problem = f"has {words} for the classes {listed(suffixes)}, but the map has {listed(names)}"
        raise FileError(table.path, problem, "pass probabilities of the same classes")
    return [found[suffixes.index(name)] for name in names]


def _batches(table: FileTable, columns: Sequence[str], options: Options) -> Iterator[tuple[Any, list[Any]]]:
    """Yield all columns as record batches, and the scores in some of them as columns of numbers, or unchanged."""
    if not isinstance(table, EngineTable):
        for batch in table.batches(ColumnSelection(probs=table.columns)):
            yield batch, [batch.column(column) for column in columns]
        return
    table.check_names(table.columns)
    own = [identifier(name) for name in table.columns[: len(table.header)]]  # paths within structs come after them
    numbers = list(map(identifier, columns))
    if not (table.has_types or options.percent):
        numbers = [number_of(name, comma=options.decimal_comma) for name in numbers]
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


def _mapped(
    table: FileTable, columns: Sequence[str], values: NDArray[np.float64], mapped: Map, first: int
) -> list[Any]:
    """Return the mapped scores of a batch that begins at row ``first``."""
    arrow = load("pyarrow", "to write files")
    try:
        found = mapped(values if len(columns) > 1 else values[:, 0])
    except InputError as error:
        row = error.row or 0
        at, bad = table.row_of(first + row), values[row, error.column or 0]
        if len(columns) > 1 and error.column is None:
            problem = f"columns {listed(columns)} have the sum {values[row].sum():.10g} in row {at:,}, not 1"
            raise FileError(table.path, problem, error.remedy) from None
        problem = f"column {quoted(columns[error.column or 0])} holds {number(bad)} in row {at:,}, not a score"
        or_odds = ", or --odds if they are betting odds" * (len(columns) > 1)
        raise FileError(table.path, problem, _MISSING if np.isnan(bad) else _OUTSIDE + or_odds) from None
    return [arrow.array(column) for column in found.reshape(len(values), -1).T]


class _Scores:
    """The scores of a file as probabilities or logits, batch by batch."""

    def __init__(self, table: FileTable, columns: Sequence[str], options: Options) -> None:
        self.table, self.columns = table, columns
        self.comma, self.odds = options.decimal_comma, options.odds
        self.percents = {column: self._percents_of(column) for column in columns} if options.percent else {}

    def read(self, columns: Sequence[Any], first: int) -> NDArray[np.float64]:
        """Return the scores of a batch that begins at row ``first``, (n, k)."""
        read = self._fractions if self.percents else partial(_numbers, self.table)
        values = np.column_stack([read(*named, first) for named in zip(self.columns, columns, strict=True)])
        if self.odds is None:
            return values
        return probabilities(
            values, self.odds, self.table.path, self.columns, lambda row: self.table.row_of(first + row), "correct it"
        )

    def check(self) -> None:
        """Reject percentages that are fractions in all rows."""
        largest = max((each.largest for each in self.percents.values()), default=0.0)
        check_per_cents(self.table.path, self.columns, largest)

    def _percents_of(self, column: str) -> Percents:
        """Return what reads the scores of a column as percentages."""

        def place(row: int) -> str:
            return f"row {self.table.row_of(row)}, column {quoted(column)}"

        def remedy(text: str) -> str:
            has_comma = "," in text and not self.comma
            return "pass --decimal-comma if the comma is a decimal point" if has_comma else _MISSING

        return Percents(self.table.path, place, remedy, column)

    def _fractions(self, column: str, scores: Any, first: int) -> NDArray[np.float64]:
        """Return the scores of a column of percentages, numbers or texts, as fractions."""
        arrow, percents = load("pyarrow", "to write files"), self.percents[column]
        if not (arrow.types.is_string(scores.type) or arrow.types.is_large_string(scores.type)):
            return percents.fractions(_numbers(self.table, column, scores, first), first)
        texts = scores.to_pylist()
        empty = next((row for row, text in enumerate(texts) if text is None), None)
        if empty is not None:
            raise _without_number(self.table, column, first + empty)
        if self.comma:  # a point may stand between thousands, so a text with one is not a number
            point = next((row for row, text in enumerate(texts) if "." in text), None)
            if point is not None:
                place, text = percents.place(first + point), shown(texts[point])
                problem = f"{place}: {text} has a decimal point, but --decimal-comma is given"
                remedy = "leave --decimal-comma out, or write all numbers with a decimal comma"
                raise FileError(self.table.path, problem, remedy, column=column)
            texts = [text.replace(",", ".") for text in texts]
        return percents.fractions(ValueWords.of(np.array(texts, str)), first)


def _without_number(table: FileTable, column: str, row: int) -> FileError:
    at = table.row_of(row)
    return FileError(table.path, f"column {quoted(column)} holds no number in row {at:,}", _MISSING)


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
        raise _without_number(table, column, first + int(np.flatnonzero(np.asarray(numbers.is_null()))[0]))
    values: NDArray[np.float64] = numbers.to_numpy(zero_copy_only=False)
    return values


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
