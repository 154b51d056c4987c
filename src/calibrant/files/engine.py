"""Files as tables of DuckDB: for text files, and wherever a condition leaves rows out."""

from __future__ import annotations

import itertools
import os
import re
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any

import numpy as np

from calibrant.errors import CalibrantError, FileError, meant, quoted
from calibrant.files.column_options import ColumnSelection, listed
from calibrant.files.encodings import not_utf8
from calibrant.files.local import first_line, load, located
from calibrant.files.paths import partitions_of, utf8_path
from calibrant.files.sql import (
    NUMBERS,
    bracketed,
    columns_of,
    dates_in,
    engine_path,
    entries,
    identifier,
    label_fields,
    literal,
    makes_several,
    number_of,
    number_of_label,
    parse_expression,
    period,
    refusal,
    sql_name,
    sql_option,
    struct_paths,
    where_option,
)
from calibrant.inputs.memory import max_memory
from calibrant.kernels.row_blocks import n_threads

ROW = '"calibrant row"'

#: Values in one record batch: 32 MB of doubles.
CELLS = 4_000_000

#: Bytes of a text that names a class, a group or a cluster, and how many such rows are read at a time.
_LONGEST_TEXT = 50_000
_ROWS_OF_TEXT = 8_192
_TOO_LONG = f"contains a text of more than {_LONGEST_TEXT:,} bytes"

#: How a column of objects of probabilities is named.
_OF_PROBS = re.compile(r"prob|pred|score|conf|class|softmax|logit|output", re.IGNORECASE)

#: So many labels of a list of objects become columns, at most.
_MOST_LABELS = 1000

#: So many cells show how a column of texts writes dates, at most.
_DATES = 1000

#: What DuckDB needs for each thread that reads text.
_BYTES_OF_A_THREAD = 100_000_000

#: Nothing is fetched from the network.
SETTINGS = dict.fromkeys(("autoinstall_known_extensions", "autoload_known_extensions"), "false")

#: What has pyarrow filter batches (until DuckDB 2.0), although only DuckDB sorts NaN above all numbers, and what reads
#: the least and the largest value of a column, where writers leave NaN out.
_BY_STATISTICS = ("compressed_materialization", "filter_pushdown", "join_filter_pushdown", "statistics_propagation")

#: What a column of a type of the engine holds, in words.
_HELD = {
    **dict.fromkeys(("VARCHAR", "JSON", "ENUM"), "texts"),
    **dict.fromkeys(("FLOAT", "DOUBLE", "DECIMAL"), "numbers"),
    **{f"{sign}{size}INT": "numbers" for sign in ("", "U") for size in ("TINY", "SMALL", "BIG", "HUGE")},
    **{"INTEGER": "numbers", "UINTEGER": "numbers", "DATE": "dates", "TIMESTAMP": "times"},
}


def batch_rows(columns: int) -> int:
    """Return how many rows to read at a time."""
    return max(1024, min(65_536, CELLS // max(columns, 1)))


class Stopped(Exception):
    """Nobody waits for the work any more."""


def open_engine(purpose: str, paths: Collection[str], timezone: str) -> Any:
    """Open DuckDB in memory. It reads these files and nothing else, writes no file, and keeps its settings."""
    load("pyarrow", purpose)
    memory = max_memory() // 2
    threads = max(1, min(n_threads(), memory // _BYTES_OF_A_THREAD))
    limits = {"memory_limit": f"{memory}B", "threads": str(threads), "temp_directory": ""}
    engine = load("duckdb", purpose).connect(":memory:", config={**SETTINGS, **limits})
    settle(engine, timezone)
    names = {name for path in paths for name in (literal(utf8_path(os.path.abspath(located(path)))), engine_path(path))}
    engine.execute(f"SET allowed_paths=[{', '.join(sorted(names))}]")
    engine.execute("SET enable_external_access=false")  # which also hides the variables of this program
    engine.execute("SET lock_configuration=true")
    return engine


def settle(engine: Any, timezone: str) -> None:
    """Have every connection of an engine find the same rows, whoever wrote the file and wherever this machine is."""
    engine.execute(f"SET GLOBAL disabled_optimizers={literal(','.join(_BY_STATISTICS))}")
    engine.execute(f"SET GLOBAL TimeZone={literal(timezone)}")  # of one connection alone without GLOBAL


class Engines:
    """The engine of several tables, in memory. DuckDB ignores Ctrl-C, so another thread must interrupt it."""

    def __init__(self, paths: Sequence[str] = (), timezone: str = "UTC") -> None:
        self.paths = paths  #: the files that it may read; they are settled once it is open
        self.timezone = timezone  #: of times that have one
        self.lengths: Mapping[str, int] = {}  #: of columns of lists in JSON: zeros are added to shorter ones
        self._engine: Any = None
        self._running: list[Any] = []
        self._lock = threading.Lock()
        self._stopped = False

    @contextmanager
    def connection(self, purpose: str) -> Iterator[Any]:
        """Open a connection to the engine, which is among those that are stopped until it is closed at the end.

        Opening the engine itself takes as long as a small file.
        """
        if self._engine is None:
            self._engine = open_engine(purpose, self.paths, self.timezone)
        with self._engine.cursor() as connection:
            with self._lock:
                self._running.append(connection)
            try:
                yield connection
            finally:
                with self._lock:
                    self._running.remove(connection)  # before it is closed, and cannot be interrupted any more

    def check(self) -> None:
        """Raise where another thread has stopped the work."""
        if self._stopped:
            raise Stopped

    def interrupt(self) -> None:
        """End what is running with an error, and what asks whether it may go on."""
        with self._lock:
            self._stopped = True
            for connection in self._running:
                connection.interrupt()


class FileTable(ABC):
    """A file that yields record batches of chosen columns; the base of the readers."""

    has_types = True  #: whether the file says what its columns hold, other than text

    def __init__(self, path: str) -> None:
        self.path = path
        self.where: str | None = None
        self.comma = False  # whether decimals have a comma
        self.columns: tuple[str, ...] = ()  #: what can be read: the file's columns, and paths within structs
        self.rows: int | None = None  #: where the file says how many it has
        self.integers: frozenset[str] = frozenset()  #: columns of floats that become integers where they are whole
        #: What a column of numbers, or of lists of them, is read as; where it is not known, it is 64-bit floats.
        self.dtypes: dict[str, np.dtype[Any]] = {}
        self.objects: tuple[str, ...] = ()  #: columns of objects of numbers; their keys are columns too
        self.partitions: dict[str, str | None] = {}  #: the columns in the path, with their value
        self.expected: dict[str, str] = {}  #: what a column's cells should have been, where it is not numbers

    @property
    def header(self) -> tuple[str, ...]:
        """The names of the file's own columns, unchanged."""
        return self.columns

    @property
    def repeated(self) -> frozenset[str]:
        """The names that stand twice, which cannot be read."""
        return frozenset(name for name, count in Counter(self.columns).items() if count > 1)

    @property
    def readable(self) -> tuple[str, ...]:
        """The columns in the file that can be read."""
        repeated = self.repeated
        return tuple(name for name in self.columns if name not in repeated)

    @abstractmethod
    def batches(self, selection: ColumnSelection) -> Iterator[Any]:
        """Yield the used columns as Arrow record batches, in the order of the file's rows."""

    def dtype_of(self, column: str) -> np.dtype[Any]:
        """Return what a column, or an expression, is read as."""
        return self.dtypes.get(column, np.dtype(np.float64))

    def is_narrow(self, column: str) -> bool:
        """Whether a column has 16-bit floats, which the engine widens."""
        return self.dtypes.get(column) == np.float16

    def head(self, rows: int, columns: tuple[str, ...] | None = None) -> dict[str, list[Any]]:
        """Return the cells of the first rows at most, by column, whatever they hold; by default of all columns."""
        first = next(iter(self.batches(ColumnSelection(probs=columns or self.readable))), None)
        return {} if first is None else first.slice(0, rows).to_pydict()

    def row_of(self, index: int) -> int:
        """Return the 1-based data row of a row that was yielded."""
        return index + 1

    def holds_text(self, column: str) -> bool:  # noqa: ARG002
        """Whether no cell of a column is a number, where the file does not say so itself."""
        return False

    def cell(self, column: str, index: int) -> str | None:  # noqa: ARG002
        """Return the text of a cell that is not a number; None for a null."""
        return None

    def spoken(self, column: str) -> str:
        """Return the SQL of a column, or of an expression, that a condition compares with a text."""
        return sql_name(column) if column in self.columns else f"({column})"


class EngineTable(FileTable):
    """A file that DuckDB reads, under a condition over its columns; the subclasses say as what."""

    def __init__(self, path: str, where: str | None, engines: Engines | None = None) -> None:
        super().__init__(path)
        self.where = where
        self._engines = engines or Engines([path])
        self.casts: dict[str, str] = {}
        self._sql: dict[str, str] = {}  # of the user's own, with its options
        self._paths: dict[str, str] = {}  # the columns within structs, and in the path, with their SQL

    def add_partitions(self) -> None:
        """Add the columns in the path to those of the file; a column of the file comes first."""
        own = {name.lower() for name in self.columns}
        self.partitions = {name: text for name, text in partitions_of(self.path).items() if name.lower() not in own}
        self._paths |= {name: self.sql_of(text) for name, text in self.partitions.items()}
        self.columns = (*self.columns, *self.partitions)

    def sql_of(self, text: str | None) -> str:
        """Return the SQL of a value in the path, with the type that it is written in."""
        if text is None:
            return "NULL"
        if re.fullmatch(r"-?(0|[1-9][0-9]{0,17})", text):
            return text
        with suppress(ValueError):
            return f"DATE '{datetime.strptime(text, '%Y-%m-%d').date()}'"
        return literal(text)

    @property
    def repeated(self) -> frozenset[str]:
        """The names that stand twice in any case, which cannot be read: the engine would take one for the other."""
        counts = Counter(name.lower() for name in self.columns)
        return frozenset(name for name in self.columns if counts[name.lower()] > 1)

    @property
    def readable(self) -> tuple[str, ...]:
        return tuple(name for name in super().readable if name not in self.partitions)

    @property
    def header(self) -> tuple[str, ...]:
        return tuple(name for name in self.columns if name not in self._paths)

    @abstractmethod
    def relation(self) -> str:
        """Return the SQL of the table."""

    def learn(self, selection: ColumnSelection) -> bool:  # noqa: ARG002
        """Find the casts of the used columns, none where a file has types; return whether there may be rows."""
        return True

    def text_of(self, column: str) -> str:
        """Return the SQL of the text of a cell, or of an expression."""
        return f"CAST({identifier(column)} AS VARCHAR)" if column in self.columns else "NULL"

    @contextmanager
    def connection(self) -> Iterator[Any]:
        """Open a connection that knows the file as a table."""
        purpose = "for --where" if self.where is not None else f"to read {os.path.basename(self.path)}"
        with self._engines.connection(purpose) as connection:
            yield connection

    def batches(self, selection: ColumnSelection) -> Iterator[Any]:
        self.check_names(selection.used)
        self._check_sql(selection)
        if not self.learn(selection):
            return
        casts = {sql: bracketed(period(sql)) for sql in self.expressions(selection)} | self.casts
        what = ", ".join(f"{casts.get(name, identifier(name))} AS {identifier(name)}" for name in selection.used)
        with self.connection() as connection:
            self._check_expressions(connection, selection)
            try:
                query, rows = self._query(what), batch_rows(len(selection.used))
                answer = connection.sql(query)
                self._check_condition(connection)
                texts = [
                    name for name, kind in zip(selection.used, answer.types, strict=True) if str(kind) == "VARCHAR"
                ]
                if texts:  # a short file may repeat a long text often
                    rows = min(rows, _ROWS_OF_TEXT)
                    answer = connection.sql(f"SELECT * REPLACE ({', '.join(map(_no_long, texts))}) FROM ({query})")
                for batch in answer.to_arrow_reader(rows):
                    if batch.num_rows:
                        yield batch
            except Exception as error:
                raise self.explain(error) from error

    def paths_of(self, types: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
        """Return the columns within structs, maps and lists of objects, each with its SQL and its type.

        A list of objects such as ``{"label": "cat", "score": 0.9}`` has a column for each label in any row.
        """
        paths, objects = struct_paths(types), []
        for name, kind in types.items():
            numbers = [each.id in NUMBERS for _, each in kind.children] if kind.id == "struct" else []
            if len(numbers) > 1 and all(numbers) and _OF_PROBS.search(name):
                objects.append(name)
            fields = label_fields(kind)
            if fields is None:
                continue
            table, rows = self.relation(), entries(name, kind)
            query = f"SELECT DISTINCT CAST(unnest({rows}).{identifier(fields[0])} AS VARCHAR) AS label FROM {table}"
            query = f"SELECT label FROM ({query}) WHERE label IS NOT NULL"
            labels = self.ask(f"{query} ORDER BY label LIMIT {_MOST_LABELS + 1}")
            if 1 < len(labels) <= _MOST_LABELS:
                number = dict((kind if kind.id == "map" else kind.child).children)[fields[1]]
                paths |= {f"{name}.{each}": (number_of_label(rows, fields, each), number) for (each,) in labels}
                objects.append(name)
        self.objects = tuple(objects)
        return paths

    def head(self, rows: int, columns: tuple[str, ...] | None = None) -> dict[str, list[Any]]:
        """Return the cells of the first rows at most, by column, as text where the file has no types."""
        columns = columns or self.readable
        cells = self.ask(f"SELECT {', '.join(map(identifier, columns))} FROM {self.relation()} LIMIT {rows}")
        return dict(zip(columns, map(list, zip(*cells, strict=True)), strict=True)) if cells else {}

    def row_of(self, index: int) -> int:
        """Return the 1-based data row of a row that was yielded; reads again where a condition left rows out."""
        return index + 1 if self.where is None else int(self._lookup(ROW, index))

    def holds_text(self, column: str) -> bool:
        """Whether no cell of a column is a number."""
        numbers = self.ask(f"SELECT count({number_of(self.text_of(column), comma=self.comma)}) FROM {self.relation()}")
        return int(numbers[0][0]) == 0

    def cell(self, column: str, index: int) -> str | None:
        text = self._lookup(self.text_of(column), index)
        return None if text is None else str(text)

    def expressions(self, selection: ColumnSelection) -> dict[str, str]:
        """Return the expressions, which are not columns, with the options that they are given by."""
        asked = dict.fromkeys(selection.clusters, "--cluster") | dict.fromkeys(selection.groups, "--by")
        asked |= dict.fromkeys(selection.targets, "--outcome") | dict.fromkeys(selection.probs, "--score")
        return {name: option for name, option in asked.items() if name not in self.columns}

    def own_sql(self, selection: ColumnSelection) -> dict[str, str]:
        """Return the condition and the expressions, with the options that they are given by."""
        return ({} if self.where is None else {self.where: "--where"}) | self.expressions(selection)

    def used_names(self, selection: ColumnSelection) -> list[str]:
        """Return the used columns that hold names: of groups, clusters and rows."""
        return [name for name in (*selection.groups, *selection.clusters, *selection.keys) if name in self.columns]

    def used_numbers(self, selection: ColumnSelection) -> list[str]:
        """Return the used columns that must hold numbers: all but a single column of targets."""
        weights = (selection.weights,) if selection.weights else ()
        names = (*selection.probs, *weights, *(selection.targets if len(selection.targets) > 1 else ()))
        return [name for name in names if name in self.columns]

    def mentioned(self, *expressions: str) -> list[str]:
        """Return the columns that conditions or expressions may use."""
        texts = [sql.lower() for sql in expressions]
        return [name for sql in texts for name in self.columns if name.lower().replace('"', '""') in sql]

    def _check_sql(self, selection: ColumnSelection) -> None:
        """Reject SQL of the user's own that is not exactly one expression, or says what is not listed."""
        self._sql = self.own_sql(selection)
        errors: list[FileError] = []
        for sql, option in self._sql.items():
            try:
                self._check_one(option, sql)
            except FileError as error:
                errors.append(error)
        if len(errors) > 1:
            first = "; ".join(f"{each.problem}; {each.remedy}" for each in errors[:-1])
            last = errors[-1]
            raise FileError(self.path, f"{first}; {last.problem}", last.remedy, last.options, last.fault)
        if errors:
            raise errors[0]

    def _check_one(self, option: str, sql: str) -> None:
        """Reject what is not exactly one expression."""
        error = _syntax_error(sql, option)
        if error is not None and _syntax_error(f"[\n{sql}\n]", option) is not None:
            raise self._wrong_sql(option, sql, error) from error
        if error is not None and option == "--where":
            problem = f"{option} {quoted(sql)} consists of several expressions"
            raise FileError(self.path, problem, "join conditions with AND")
        if error is not None:
            raise self._not_one_value(option, sql)
        with self._engines.connection(f"for {option}") as connection:
            tree = parse_expression(connection, sql)
            if tree is None:
                problem = f"{option} {quoted(sql)} is nested too deeply"
                raise FileError(self.path, problem, "write it with fewer brackets")
            if option != "--where" and makes_several(tree):
                raise self._not_one_value(option, sql)
            refused = refusal(tree, self.columns, connection)
        if refused is not None:
            raise FileError(self.path, f"{option} {quoted(sql)}: {refused[0]}", refused[1])
        columns = {name.lower() for name in self.columns}
        self.check_names(columns_of(tree))
        for name in columns_of(tree):
            beginnings = itertools.accumulate(name.lower().split("."), "{}.{}".format)
            if columns.isdisjoint(beginnings):  # the engine would find more, such as rowid
                hint = _for_text(sql, name) if option == "--where" else ""
                hint += f"{meant(name, self.columns)} ".lstrip()
                problem = f"{option} {quoted(sql)}: there is no column {quoted(name)}"
                raise FileError(self.path, problem, f"{hint}the columns are {listed(self.columns)}")

    def _check_expressions(self, connection: Any, selection: ColumnSelection) -> None:
        """Reject an expression that does not give one value for each row."""
        for sql, option in self.expressions(selection).items():
            try:
                columns = len(connection.sql(f"SELECT * FROM {self.relation()}").types)
                kinds = connection.sql(f"SELECT {bracketed(period(sql))}, * FROM {self.relation()}").types
            except Exception as error:
                raise self._wrong_sql(option, sql, error) from error
            if len(kinds) != columns + 1 or re.search(r"STRUCT|TUPLE|MAP|UNION|\]$", str(kinds[0])):
                raise self._not_one_value(option, sql)

    def _not_one_value(self, option: str, sql: str) -> FileError:
        problem = f"{option} {quoted(sql)} does not give one value for each row"
        remedies = {
            "--outcome": "write one condition",
            "--score": "write an expression that gives one number for each row",
        }
        return FileError(
            self.path, problem, remedies.get(option, f"for several columns, pass {option} once for each column")
        )

    def check_names(self, names: Collection[str]) -> None:
        """Reject names that other columns have too, or that differ only in case."""
        repeated = {name.lower() for name in self.repeated}
        for name in map(str.lower, names):
            if name in repeated:
                alike = [column for column in self.columns if column.lower() == name]
                if len(set(alike)) == 1:
                    raise FileError(
                        self.path, f"has {len(alike)} columns named {quoted(alike[0])}", "rename all but one"
                    )
                problem = "has columns whose names differ only in upper and lower case"
                raise FileError(self.path, f"{problem}: {', '.join(map(repr, alike))}", "rename one of them")

    def _check_condition(self, connection: Any) -> None:
        """Reject a query that is not a condition: DuckDB would take a number other than 0 for true."""
        if self.where is None:
            return
        # DuckDB finds the types of the query and does not run it.
        query = f"SELECT {bracketed(self.where)} FROM {self.relation()}"
        kinds = {str(kind) for kind in connection.sql(query).types}
        if kinds <= {"BOOLEAN", '"NULL"', "NULL"}:
            return
        bare = self.where.strip().strip('"').replace('""', '"').lower()
        column = next((name for name in self.columns if name.lower() == bare), None)
        what = _HELD.get(re.split(r"\W", min(kinds - {"BOOLEAN"}))[0], f"values of type {min(kinds)}")
        problem = f"--where {quoted(self.where)} is not a condition but " + (f"a column of {what}" if column else what)
        example = ""
        if column is not None:
            name = sql_name(column)
            cells = f"SELECT {name} FROM {self.relation()} WHERE {name} IS NOT NULL LIMIT 1"
            first = connection.execute(cells).fetchone()
            if first is not None and what == "numbers":
                example = f", such as {where_option(f'{name} >= {first[0]}')}"
            elif first is not None and what in ("texts", "dates", "times"):
                example = f", such as {where_option(f'{name} = {literal(str(first[0]))}')}"
        remedy = f"write the condition in quotes{example}, because the shell interprets >"
        raise FileError(self.path, problem, remedy)

    def ask(self, query: str) -> list[Any]:
        """Run a query of the reader's own and return its rows."""
        with self.connection() as connection:
            try:
                rows: list[Any] = connection.execute(query).fetchall()
            except Exception as error:
                raise self.explain(error, condition=False) from error
            return rows

    def explain(self, error: Exception, condition: bool = True) -> CalibrantError:
        """Turn an error of the engine into one line; ``condition`` where the user's own SQL took part."""
        if isinstance(error, CalibrantError):
            return error
        text = str(error)  # DuckDB has one type of error for all of these, so its words decide, here alone
        line = re.search(r"CSV Error on Line: (\d+)", text)
        count = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", text)
        if line and count:
            problem = f"line {line[1]} has {count[2]} field{'s' * (count[2] != '1')} and the header {count[1]}"
            return FileError(
                self.path, problem, "give each row all its fields, and put a field with a separator in quotes"
            )
        if "nvalid unicode" in text or "not utf-8 encoded" in text:
            return not_utf8(self.path, located(self.path))
        if line:
            what = "an unclosed quotation mark" if "unterminated quote" in text else "a malformed row"
            return FileError(self.path, f"line {line[1]} holds {what}", "correct this line")
        if "state machine" in text:
            problem = "has a malformed row, with an unmatched quotation mark or mixed line endings"
            return FileError(self.path, problem, "write the file again as plain CSV")
        if long := re.search(rf"column .* {_TOO_LONG}", text):
            return FileError(self.path, long[0], "name another column, or shorten the texts of this column")
        if "Out of Memory" in text:
            problem = "takes more memory than CALIBRANT_MAX_MEMORY allows"
            return FileError(self.path, problem, "raise CALIBRANT_MAX_MEMORY, or write the file as Parquet")
        if condition and self._sql:
            sql, option = self._failing()
            return self._wrong_sql(option, sql, error)
        return FileError(self.path, f"cannot be read ({_short(error)})", "write the file again, because it is damaged")

    def _failing(self) -> tuple[str, str]:
        """Return the SQL of the user's own that fails, with its option; each is tried, the condition first."""
        for sql, option in self._sql.items():
            value = f"count({bracketed(period(sql))})"
            query = f"SELECT {value} FROM {self.relation()}" if option == "--where" else self._query(value)
            try:
                with self.connection() as connection:
                    connection.execute(query).fetchall()
            except Exception:
                return sql, option
        return next(iter(self._sql.items()))

    def _wrong_sql(self, option: str, sql: str, error: Exception) -> FileError:
        """Return an error about SQL of the user's own."""
        remedy = self._for_names(option, sql) or self._for_dates(option, sql) or self._for_commas(sql)
        remedy = remedy or f"the columns are {listed(self.columns)}"
        return FileError(self.path, f"{option} {quoted(sql)}: {_about_dates(error)}", remedy)

    def _for_dates(self, option: str, sql: str) -> str:
        """Return how to read the texts of a column as dates, where a function of dates gets the texts."""
        call = re.fullmatch(r"\s*(\w+)\((.+)\)\s*", sql, re.DOTALL)
        asked = call[2].strip() if call else ""
        name = next((name for name in self.columns if asked in (name, sql_name(name), identifier(name))), None)
        if call is None or name is None:
            return ""
        cells = [cell for cell in self.head(_DATES, (name,)).get(name, ()) if cell]
        ways = dates_in(name, cells)
        typed = " or ".join(sql_option(option, f"{call[1]}({way})") for way in ways)
        return f"to read the cells as dates, pass {typed}" if ways else ""

    def _for_names(self, option: str, sql: str) -> str:
        """Return how to write a column whose name is a word of SQL, such as ``when``; empty without one."""
        mended = sql
        for name in self.columns:
            if re.fullmatch(r"\w+", name) and sql_name(name) != name:
                mended = re.sub(rf"(?<![\w\"']){re.escape(name)}(?![\w\"'])", identifier(name), mended)
        same = mended == sql or _syntax_error(f"[\n{mended}\n]", option) is not None
        return "" if same else f"write the name of the column in double quotes: {sql_option(option, mended)}"

    def _for_commas(self, sql: str) -> str:
        """Return the option for decimal commas, if a column in SQL has them; else empty."""
        names = tuple(self.mentioned(sql))
        cells = [str(cell) for each in self.head(_DATES, names).values() for cell in each if cell]
        are_commas = (
            not self.comma
            and cells
            and any("," in cell for cell in cells)
            and all(re.fullmatch(r"\s*[-+]?\d*(,\d+)?\s*", cell) for cell in cells)
        )
        return "if the comma is the decimal point, pass --decimal-comma" if are_commas else ""

    def _query(self, what: str, numbered: bool = False) -> str:
        table = self.relation()
        if numbered:
            table = f"(SELECT *, row_number() OVER () AS {ROW} FROM {table})"
        return f"SELECT {what} FROM {table}" + ("" if self.where is None else f" WHERE {bracketed(self.where)}")

    def _lookup(self, what: str, index: int) -> Any:
        query = f"{self._query(what, numbered=True)} ORDER BY {ROW} LIMIT 1 OFFSET {index}"
        return self.ask(query)[0][0]


def _syntax_error(sql: str, option: str) -> Exception | None:
    """Return the error of the engine for what is not exactly one expression; None for one."""
    try:
        load("duckdb", f"for {option}").SQLExpression(sql)
    except Exception as error:
        return error
    return None


def _no_long(name: str) -> str:
    """Return the SQL of a column of texts that fails at a text that is too long."""
    column, words = identifier(name), literal(f"column {quoted(name)} {_TOO_LONG}")
    return f"CASE WHEN strlen({column}) > {_LONGEST_TEXT} THEN error({words}) ELSE {column} END AS {column}"


def _about_dates(error: Exception) -> str:
    """Return an error of SQL in one line; about dates, with how to write one."""
    if match := re.search(r'invalid (?:timestamp|date) field format: "(.*?)"', str(error)):
        return f"{quoted(match[1])} is not a date or a time, such as 2026-11-30"
    text = _short(error)
    if re.search(r"Cannot compare values of type (DATE|TIMESTAMP)\b.* and type (INTEGER|BIGINT)", text):
        return f"{text}; write dates in quotes, such as '2026-11-30'"
    return text


def _short(error: Exception) -> str:
    """Return the first line of an error of the engine, without the kind of the error."""
    return re.sub(r"^(\w+ )+Error: ", "", first_line(error))


def _for_text(where: str, name: str) -> str:
    """Say how to quote a text that was taken for a column: it follows a comparison."""
    word = rf'(?:"{re.escape(name)}"|\b{re.escape(name)}\b)'
    if not re.search(rf"(?:[=<>,(]|\blike|\bilike)\s*{word}", where, re.IGNORECASE):
        return ""
    mended = re.sub(word, lambda _: literal(name), where)
    return f"write texts in single quotes: {where_option(mended)}; "
