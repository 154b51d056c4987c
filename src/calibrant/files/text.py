"""CSV and JSON lines: every cell that is read is checked, none is guessed.

DuckDB reads them, and pyarrow a CSV if only its numbers are used, as long as it meets nothing else: it is faster, but
takes texts that DuckDB refuses, and has no casts of dates and lists, and none that gives null instead of an error.

Two habits of DuckDB 1.5 and 2.0 shape the SQL. A CSV column declared as an integer rounds ``0.5`` to ``1`` without a
word, so cells arrive as text and are cast to doubles here. And the scan takes over a cast of a bare column, in 2.0
``TRY_CAST`` too, which then fails instead of giving null: the casts are of ``trim(column)``.
"""

from __future__ import annotations

import csv
import json
import os
import re
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from calibrant.errors import CalibrantError, FileError, quoted
from calibrant.files.column_options import ColumnSelection
from calibrant.files.encodings import LONGEST_LINE, not_utf8
from calibrant.files.engine import Engines, EngineTable
from calibrant.files.header_lines import REMEDY, check_header, fields_of_header, separator
from calibrant.files.local import load, located, reading
from calibrant.files.paths import (
    LONGEST_OBJECT,
    bounded_lines,
    check_text,
    in_words_of,
    open_bytes,
    open_text,
    utf8_path,
)
from calibrant.files.sql import engine_path, identifier, literal, number_of, sql_name, with_paths
from calibrant.kernels.row_blocks import n_threads

SAMPLE = 20_000
MOST_COLUMNS = 100_000
MOST_KEYS = 20_000
MOST_INNER = 2_000  # keys within objects: the engine's time for a row grows with their square
_PATIENCE = 2.0  # seconds to wait for the types of keys, and one more for each ...
_BYTES_A_SECOND = 20_000_000  # ... so many bytes
_NUMBERED = re.compile(r"(.+)_[0-9]+")
WHOLE = "BIGINT"
NUMBER = "DOUBLE"
NUMBERS = "DOUBLE[]"
TRUTH = "BOOLEAN"
TEXT = "VARCHAR"
MIXED = "MIXED"
TIMES = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMPTZ")
KINDS = (TRUTH, WHOLE, NUMBER, NUMBERS, *TIMES)
_TEXT_OF = "calibrant text of "
_AS_LISTS = "write the probabilities as one column of lists, in a Parquet file, or as an array"


class CsvTable(EngineTable):
    """A CSV or TSV: a header, then rows with exactly its number of fields."""

    has_types = False

    def __init__(self, path: str, where: str | None, engines: Engines | None = None) -> None:
        super().__init__(path, where, engines)
        self._types: dict[str, str] = {}
        self._any = True
        self._is_plain = check_text(path, self._engines.check, LONGEST_LINE)
        self.columns = header(path)
        repeated = self.repeated
        #: What the engine calls the columns of the file: one whose name stands twice has another name there.
        self._names = tuple(
            f"calibrant column {k}" if name in repeated else name for k, name in enumerate(self.columns)
        )
        self.add_partitions()

    def sql_of(self, text: str | None) -> str:
        """Return the SQL of a value in the path: text, as that of a cell."""
        return "CAST(NULL AS VARCHAR)" if text is None else literal(text)

    @property
    def header(self) -> tuple[str, ...]:
        """The fields of the first line, with their spaces, also where they are empty."""
        return tuple(fields_of_header(self.path))

    def relation(self) -> str:
        """Return the SQL of the table: all text, but for the columns that a condition uses."""
        columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in self._names)
        # Whatever the engine would otherwise detect from a sample is stated.
        table = with_paths(
            f"read_csv({engine_path(self.path)}, auto_detect=false, header=true, "
            f"delim={literal(separator(self.path))}, columns={{{columns}}}, "
            "quote='\"', escape='\"', comment='', nullstr='', skip=0, "
            "strict_mode=true, null_padding=false, ignore_errors=false, hive_partitioning=false)",
            self._paths,
        )
        if not self._types:
            return table
        casts = ", ".join(f"{self._cast(identifier(n), kind)} AS {identifier(n)}" for n, kind in self._types.items())
        texts = ", ".join(f"{identifier(n)} AS {identifier(_TEXT_OF + n)}" for n in self._types)
        return f"(SELECT * REPLACE ({casts}), {texts} FROM {table})"

    def head(self, rows: int, columns: tuple[str, ...] | None = None) -> dict[str, list[Any]]:
        """Return the cells of the first rows at most, by column, as text; the engine would take long to start."""
        width = len(self._names)
        with reading(self.path), open_text(self.path) as stream:
            lines = filter(None, csv.reader(bounded_lines(stream), delimiter=separator(self.path), strict=True))
            cells = [line if any(line[width:]) else line[:width] for line in islice(lines, 1, rows + 1)]
            found = dict(zip(self._names, zip(*cells, strict=True), strict=True)) if cells else {}
        found |= {name: (text,) * len(cells) for name, text in self.partitions.items()}
        return {name: [cell or None for cell in found[name]] for name in columns or self.readable if cells}

    def text_of(self, column: str) -> str:
        """Return the SQL of the text of a cell."""
        return identifier(_TEXT_OF + column if column in self._types else column) if column in self.columns else "NULL"

    def _cast(self, text: str, kind: str) -> str:
        """Return the SQL of what a text holds, null where it is nothing of this kind."""
        return number_of(text, kind, comma=self.comma and kind == NUMBER)

    def batches(self, selection: ColumnSelection) -> Iterator[Any]:
        """Yield the used columns as Arrow record batches; pyarrow reads numbers in plain text six times faster.

        At the first cell or line that it does not take, DuckDB reads the file again, and says what is wrong.
        """
        read = 0
        self.check_names(selection.used)
        if self._is_plain and self._are_numbers(selection):
            with suppress(load("pyarrow", f"to read {os.path.basename(self.path)}").ArrowInvalid):
                for batch in self._plain_batches(selection):
                    yield batch
                    read += batch.num_rows
                return
        for batch in super().batches(selection):
            yield batch.slice(read)
            read = max(read - batch.num_rows, 0)

    def _are_numbers(self, selection: ColumnSelection) -> bool:
        """Whether columns alone are used, all of them as numbers."""
        is_text = self.comma or selection.percent or selection.labels or bool(self.used_names(selection))
        return not (is_text or self.own_sql(selection) or self.partitions.keys() & {*selection.used})

    def _plain_batches(self, selection: ColumnSelection) -> Iterator[Any]:
        """Yield record batches by pyarrow, which raises `ArrowInvalid` where the text holds something else."""
        arrow, reader = load("pyarrow", "to read CSV"), load("pyarrow.csv", "to read CSV")
        numbers = dict.fromkeys(self.used_numbers(selection), arrow.float64())
        with reader.open_csv(
            utf8_path(self.path),
            reader.ReadOptions(column_names=self._names, skip_rows=1, use_threads=n_threads() > 1),
            reader.ParseOptions(delimiter=separator(self.path), quote_char=False),
            reader.ConvertOptions(
                include_columns=selection.used,
                column_types=numbers,
                null_values=[""],
                true_values=["true", "True", "TRUE"],
                false_values=["false", "False", "FALSE"],
            ),
        ) as batches:
            if not {"int64", "double", "bool"}.issuperset(map(str, batches.schema.types)):
                msg = "the targets are not numbers"
                raise arrow.ArrowInvalid(msg)
            for batch in batches:
                self._engines.check()
                yield batch

    def learn(self, selection: ColumnSelection) -> bool:
        """Type the columns of the condition by all their cells, and the targets by the first ones."""
        self._types, self.casts = {}, {}
        sql = self.own_sql(selection)
        names = self.used_names(selection)
        kinds = self._used_kinds(selection, names, sql)
        plain_numbers = self._plain_numbers([name for name in selection.groups if kinds.get(name) == NUMBER])
        if sql:
            # A column with a single bad cell stays text: the condition may be there to leave that row out.
            self._types = {name: kind for name, kind in kinds.items() if kind not in (TEXT, MIXED, NUMBERS)}
        for name in self.used_numbers(selection):
            self._cast_numbers(name, kinds.get(name), is_percent=selection.percent and name in selection.probs)
        if len(selection.targets) == 1 and (name := selection.targets[0]) in kinds:
            self._cast_target(name, kinds[name], is_label=selection.labels)
        for name in names:
            is_truth = kinds[name] == TRUTH and name in selection.groups
            if is_truth or name in plain_numbers or kinds[name] in (WHOLE, *TIMES):  # alike in every kind of file
                self.casts[name] = self._cast(self.text_of(name), kinds[name])
            else:
                self.casts.setdefault(name, self.text_of(name))
        return self._any

    def _used_kinds(self, selection: ColumnSelection, names: list[str], sql: Collection[str]) -> dict[str, str]:
        """Return the kinds of the columns whose cells are not simply numbers."""
        asked = [*selection.targets[:1], *selection.probs[:1], *(columns[0] for _, columns in selection.models)]
        asked = [name for name in asked if name in self.columns]
        if sql:
            return self._sure_kinds([*asked, *names, *self.mentioned(*sql)])
        kinds = self._kinds(asked, f" LIMIT {SAMPLE}")
        return kinds | self._sure_kinds(names) if names else kinds

    def _cast_numbers(self, name: str, kind: str | None, *, is_percent: bool) -> None:
        """Cast a column of numbers, or of lists of them; per cents are read where all kinds of files are."""
        text, are_lists = self.text_of(name), kind == NUMBERS
        if not is_percent:
            self.casts[name] = self._cast(text, NUMBERS if are_lists else NUMBER)
        elif are_lists:
            self.casts[name] = f"TRY_CAST(trim({text}) AS {TEXT}[])"
        else:
            self.casts[name] = f"replace(trim({text}), ',', '.')" if self.comma else text

    def _cast_target(self, name: str, kind: str, *, is_label: bool) -> None:
        """Cast a single column of targets: to text where it holds labels, to integers where all cells are."""
        if is_label or kind in (TEXT, *TIMES):
            self.casts[name] = self.text_of(name)
            return
        self.casts[name] = self._cast(self.text_of(name), NUMBER if kind in (WHOLE, MIXED) else kind)
        self.integers = frozenset([name]) if kind == WHOLE else frozenset()
        if kind == TRUTH:
            self.expected[name] = "true or false"

    def _kinds(self, names: Iterable[str], limit: str) -> dict[str, str]:
        names = list(dict.fromkeys(names)) or list(self._names[:1])
        counts = [f"[count({identifier(name)}), {', '.join(self._counted(name).values())}]" for name in names]
        table = f"(SELECT {', '.join(map(identifier, names))} FROM {self.relation()}{limit})"
        # An empty table has no types that a condition could be held against.
        self._any, *row = self.ask(f"SELECT count(*) > 0, {', '.join(counts)} FROM {table}")[0]
        kinds: dict[str, str] = {}
        for name, (cells, *counts) in zip(names, row, strict=True):
            other = MIXED if counts[KINDS.index(NUMBER)] else TEXT
            kinds[name] = next((kind for kind, count in zip(KINDS, counts, strict=True) if count == cells > 0), other)
        return kinds

    def _counted(self, name: str) -> dict[str, str]:
        """Return the SQL that counts a column's cells of each kind."""
        return _counts(name, number_of(identifier(name), comma=self.comma))

    def _sure_kinds(self, names: Iterable[str]) -> dict[str, str]:
        """Find the kinds that all cells have: what the first ones suggest is confirmed, or looked for again."""
        kinds = self._kinds(names, f" LIMIT {SAMPLE}")
        checks = {
            name: f"count({identifier(name)}) = {self._counted(name)[kind]}"
            for name, kind in kinds.items()
            if kind in KINDS
        }
        if checks:
            row = self.ask(f"SELECT {', '.join(checks.values())} FROM {self.relation()}")[0]
            unsure = [name for name, sure in zip(checks, row, strict=True) if not sure]
            kinds |= self._kinds(unsure, "") if unsure else {}
        return kinds

    def _plain_numbers(self, names: Sequence[str]) -> frozenset[str]:
        """Return the columns whose texts are no more than numbers: one text for each number, as programs write them.

        Codes have zeros at the start (02134), versions zeros at the end (1.10 next to 1.9), and long codes more digits
        than a double tells apart.
        """
        if not names:
            return frozenset()
        checks = []
        for cell in (f"trim({identifier(name)})" for name in names):
            number, decimals = f"TRY_CAST({cell} AS DOUBLE)", f"length(regexp_extract({cell}, '[.]([0-9]*)', 1))"
            plain = f"regexp_full_match({cell}, '-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][-+]?[0-9]+)?')"
            short = f"length(regexp_replace({cell}, '[eE].*|[^0-9]', '', 'g')) <= 15"
            sure = f"NOT isfinite({number}) OR ({plain} AND ({short} OR CAST({number} AS VARCHAR) = {cell}))"
            ends = f"count(*) FILTER (regexp_matches({cell}, '[.][0-9]+0$'))"
            checks.append(f"bool_and({sure}) AND ({ends} = 0 OR min({decimals}) = max({decimals}))")
        row = self.ask(f"SELECT {', '.join(checks)} FROM {self.relation()}")[0]
        return frozenset(name for name, sure in zip(names, row, strict=True) if sure)


def header(path: str) -> tuple[str, ...]:
    """Return the names of the columns, which the first line of a file holds."""
    with reading(path, REMEDY, "has no readable header"):
        fields = fields_of_header(path)
    if len(fields) > MOST_COLUMNS:
        raise FileError(path, f"has {len(fields):,} columns, but calibrant reads at most {MOST_COLUMNS:,}", _AS_LISTS)
    if any("\udc80" <= character <= "\udcff" for field in fields for character in field):
        raise not_utf8(path, located(path))
    check_header(path, fields)
    if not any(field.strip() for field in fields):
        raise FileError(path, "has an empty first line", REMEDY)
    # A nameless first column is what pandas writes for its index.
    return tuple(field.strip() or f"column{number}" for number, field in enumerate(fields))


def _counts(name: str, number: str) -> dict[str, str]:
    """Return the SQL that counts a column's cells of each kind; ``number`` is that of a cell as a number."""
    cell = f"trim({identifier(name)})"
    other = f"CASE WHEN isfinite({number}) THEN NULL ELSE {cell} END"  # numbers are not times, and casts take long
    zoned = f"regexp_matches({other}, ':.*[-+A-Za-z]')"
    return {
        TRUTH: f"count(*) FILTER (lower({cell}) IN ('true', 'false'))",
        # Written back as it stood: nothing was rounded.
        WHOLE: f"count(*) FILTER (CAST(TRY_CAST({cell} AS BIGINT) AS VARCHAR) = {cell})",
        NUMBER: f"count({number})",
        NUMBERS: f"count(*) FILTER (starts_with({cell}, '['))",
        # A cast to a date drops the time, and one to a time without a zone drops the zone.
        "DATE": f"count(TRY_CAST({other} AS DATE)) FILTER (NOT contains({other}, ':'))",
        "TIME": f"count(TRY_CAST({other} AS TIME)) FILTER (regexp_matches({other}, '^[0-9]+:[^-+A-Za-z]*$'))",
        "TIMESTAMP": f"count(TRY_CAST({other} AS TIMESTAMP)) FILTER (NOT {zoned})",
        "TIMESTAMPTZ": f"count(TRY_CAST({other} AS TIMESTAMPTZ)) FILTER ({zoned})",
    }


class JsonTable(EngineTable):
    """JSON: an object a line, or an array of objects, with the same keys; ``meta.task`` is a key within ``meta``."""

    def __init__(self, path: str, where: str | None, engines: Engines | None = None) -> None:
        super().__init__(path, where, engines)
        check_text(path, self._engines.check)
        self._shape = shape_of(path)
        self._types = self._find_types()
        self.columns = tuple(self._types)

    # Many alike keys are columns, not one map; a rare key is a column too.
    _OPTIONS = (
        "records=true, ignore_errors=false, map_inference_threshold=-1, "
        "field_appearance_threshold=0, hive_partitioning=false"
    )

    def relation(self) -> str:
        """Return the SQL of the table, with the types that were found."""
        types = {name: kind for name, kind in self._types.items() if name not in self._paths}
        columns = ", ".join(f"{literal(name)}: {literal(kind)}" for name, kind in types.items())
        table = f"{self._read()}, auto_detect=false, columns={{{columns}}})"
        lengths = {name: length for name, length in self._engines.lengths.items() if types.get(name) == NUMBERS}
        full = [f"list_resize({identifier(n)}, {length}, 0.0) AS {identifier(n)}" for n, length in lengths.items()]
        return with_paths(f"(SELECT * REPLACE ({', '.join(full)}) FROM {table})" if full else table, self._paths)

    def _read(self) -> str:
        return f"read_json({engine_path(self.path)}, format={literal(self._shape)}, {self._OPTIONS}"

    def text_of(self, column: str) -> str:
        """Return the SQL of a cell's text, without the quotes that JSON puts around strings."""
        return f"({identifier(column)}->>'$')" if self._types.get(column) == "JSON" else super().text_of(column)

    def spoken(self, column: str) -> str:
        """Return the SQL of a column that a condition compares with a text; the path '' is the whole value."""
        return f"({sql_name(column)}->>'')" if self._types.get(column) == "JSON" else super().spoken(column)

    def learn(self, selection: ColumnSelection) -> bool:
        """Cast what is not numbers already."""
        for name in self.used_numbers(selection):
            self._cast_numbers(name, self._types[name], is_percent=selection.percent and name in selection.probs)
        if len(selection.targets) == 1 and (name := selection.targets[0]) in self.columns:
            self._cast_target(name, self._types[name], is_label=selection.labels)
        names = self.used_names(selection)
        for name in names:
            if self._types[name] == "JSON":
                self.casts.setdefault(name, self.text_of(name))
        self._find_times([*names, *self.mentioned(*self.own_sql(selection))])
        return True

    def _cast_numbers(self, name: str, kind: str, *, is_percent: bool) -> None:
        """Cast a column of numbers, or of lists of them; per cents are read where all kinds of files are."""
        if kind.startswith(("STRUCT", "MAP")) and not kind.endswith("[]"):
            remedy = f"write numbers or lists of numbers, or name the keys of the objects, such as {name}.*"
            raise FileError(self.path, f"column {quoted(name)} holds objects, not numbers", remedy)
        texts = f"CAST({identifier(name)} AS {TEXT})"
        match kind:
            case "JSON" | "VARCHAR":
                text = self.text_of(name)
                self.casts[name] = text if is_percent else number_of(text, comma=self.comma)
            case "JSON[]" if is_percent:
                self.casts[name] = f"CAST(to_json({identifier(name)}) AS {TEXT}[])"  # without the quotes of JSON
            case "JSON[]" | "VARCHAR[]" if not is_percent:
                numbers = f"TRY_CAST({identifier(name)} AS {NUMBERS})"
                self.casts[name] = f"CASE WHEN contains({texts}, '_') THEN NULL ELSE {numbers} END"

    def _cast_target(self, name: str, kind: str, *, is_label: bool) -> None:
        """Cast a single column of targets; a label that looks like a date is a label."""
        text = self.text_of(name)
        if kind == "JSON":
            self.casts[name] = text if is_label else number_of(text, comma=self.comma)
        elif kind in ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "UUID"):
            if name in self._paths:
                self.casts[name] = text
            else:
                self._types[name] = TEXT

    def _find_times(self, names: Iterable[str]) -> None:
        """Give texts the type of times where all of them are: the engine finds them in some spellings alone."""
        texts = [name for name in dict.fromkeys(names) if self._types[name] == TEXT and name not in self._paths]
        if not texts:
            return
        kinds = [(name, _counts(name, "CAST(NULL AS DOUBLE)")) for name in texts]
        counts = [f"[count({identifier(name)}), {', '.join(of[kind] for kind in TIMES)}]" for name, of in kinds]
        row = self.ask(f"SELECT {', '.join(counts)} FROM {self.relation()}")[0]
        for name, (cells, *times) in zip(texts, row, strict=True):
            if cells and cells in times:
                self._types[name] = TIMES[times.index(cells)]

    def explain(self, error: Exception, condition: bool = True) -> CalibrantError:
        """Turn an error of the engine into one line; a malformed line is looked for, as the engine miscounts them."""
        if "recursion depth" in str(error):
            return FileError(
                self.path, "has lists or objects nested deeper than 128 levels", "write the values without nesting"
            )
        if self._shape == ARRAY and re.search("Malformed JSON|non-record JSON|JSON transform error", str(error)):
            row = re.search(r"in record/value ([\d,]+)", str(error))
            place = f" near object {row[1]}" if row else ""
            problem = (
                f"does not contain a valid array of objects{place} ({str(error).rstrip('. ').rpartition(': ')[2]})"
            )
            if "Malformed" not in str(error):
                problem = "contains an array with values that are not objects"
            return FileError(self.path, problem, "write the array again, with one object for each row")
        if re.search("Malformed JSON|non-record JSON", str(error)) and (wrong := self._wrong_line()) is not None:
            return wrong
        if "maximum_object_size" in str(error):
            remedy = "leave out the key with the long value, or write a Parquet file"
            return FileError(self.path, "has a line of more than 16 MB", remedy)
        return super().explain(error, condition)

    def _wrong_line(self) -> FileError | None:
        """Return the error of the first line that is not an object, or has a key without a name."""
        with reading(self.path), open_text(self.path) as stream:
            for number, line in enumerate(bounded_lines(stream), 1):
                try:
                    row = json.loads(line if line.strip() else "{}")
                except json.JSONDecodeError as wrong:
                    problem = f"line {number} is not valid JSON ({wrong.msg.lower()})"
                    return FileError(self.path, problem, "write each object on one line")
                if not isinstance(row, dict):
                    return FileError(self.path, f"line {number} is not an object", "write each object on one line")
                if "" in row:
                    return FileError(self.path, f"line {number} has a key without a name", "give the key a name")
        return None

    def _find_types(self) -> dict[str, str]:
        """Return the type of each key in any row: a sample would miss a key that comes late.

        The engine's time grows with the square of the number of keys. Where it takes long, another thread counts them.
        """
        table = f"{self._read()}, sample_size=-1)"
        too_many = threading.Event()
        patience = _PATIENCE + os.path.getsize(located(self.path)) / _BYTES_A_SECOND
        with self.connection() as connection, self.connection() as counting:

            def count() -> None:
                with suppress(Exception):  # the thread that waits for the types meets the same error
                    if len(counting.execute(self._keys()).fetchall()) > MOST_KEYS:
                        too_many.set()
                        connection.interrupt()

            timer = threading.Timer(patience, count)
            timer.start()
            try:
                answer = connection.sql(f"SELECT * FROM {table}")
                kinds = dict(zip(answer.columns, answer.types, strict=True))
            except Exception as error:
                if too_many.is_set():
                    raise self._too_many_keys() from None
                raise self.explain(error, condition=False) from error
            finally:
                timer.cancel()
                counting.interrupt()
                timer.join()
        types = {name: str(kind) for name, kind in kinds.items()}
        if len(types) > MOST_KEYS:
            raise self._too_many_keys()
        numbered = (match[1].lower() for match in map(_NUMBERED.fullmatch, types) if match)
        if not {name.lower() for name in types}.isdisjoint(numbered):  # so DuckDB calls the second of two alike keys
            self.columns = tuple(sorted(key for (key,) in self.ask(self._keys())))
            self.check_names(self.columns)
        self._types = types
        inner = {name: each for name, each in self.paths_of(kinds).items() if name not in types}
        if len(inner) > MOST_INNER:
            problem = f"has more than {MOST_INNER:,} keys within objects"
            raise FileError(
                self.path, problem, "write each prediction under its own top-level key, or write a Parquet file"
            )
        self._paths = {name: sql for name, (sql, _) in inner.items()}
        types |= {name: str(kind) for name, (_, kind) in inner.items()}
        self.columns = tuple(types)
        self.add_partitions()
        with self.connection() as connection:
            return types | {n: str(connection.sql(f"SELECT {self._paths[n]}").types[0]) for n in self.partitions}

    def _keys(self) -> str:
        """Return the SQL of the keys of all rows, one more than are read at most."""
        objects = f"read_json_objects({engine_path(self.path)}, format={literal(self._shape)})"
        return f"SELECT DISTINCT unnest(json_keys(json)) FROM {objects} LIMIT {MOST_KEYS + 1}"

    def _too_many_keys(self) -> FileError:
        return FileError(self.path, f"has more than {MOST_KEYS:,} keys", _AS_LISTS)


# ---------------------------------------------------------------- the shapes of JSON files

LINES: Final = "newline_delimited"
ARRAY: Final = "array"
_AS_RECORDS: Final = "write an array of objects, such as with DataFrame.to_json(path, orient='records')"
_HEAD: Final = 65_536


def shape_of(path: str) -> str:
    """Return whether a file holds an object a line or, in a ``.json``, an array of objects."""
    with reading(path), open_text(path) as stream:
        head = stream.read(_HEAD).lstrip()
    if not head:
        raise FileError(path, "holds no rows", "write the predictions again, or leave the file out")
    is_lines = not located(path).lower().endswith((".json", ".json.gz"))
    if head.startswith("{"):
        _check_single(path, "write each object on one line" if is_lines else _AS_RECORDS)
        return LINES
    remedy = (
        "write each object on one line, or rename a file with an array of objects to .json" if is_lines else _AS_RECORDS
    )
    if is_lines or not head.startswith("["):
        raise FileError(path, f"starts with {quoted(head[:10])}, not with an object", remedy)
    first = head[1:].lstrip()
    if first.startswith("]"):
        raise FileError(path, "holds no rows", "write the predictions again, or leave the file out")
    if first.startswith("["):
        raise FileError(path, "contains an array of arrays (orient 'values'), without column names", _AS_RECORDS)
    if first and not first.startswith("{"):
        raise FileError(path, "contains an array whose values are not objects", _AS_RECORDS)
    if not _ends_with_bracket(path):
        raise FileError(
            path, "contains an array without a closing bracket", "write the file again, because it is damaged"
        )
    return ARRAY


def _ends_with_bracket(path: str) -> bool:
    """Return whether an array is whole: DuckDB takes one that ends after a comma."""
    last = b""
    with reading(path), open_bytes(path) as stream:
        if not located(path).lower().endswith(".gz"):
            stream.seek(max(os.path.getsize(located(path)) - _HEAD, 0))
        while data := stream.read(1 << 20):
            last = data.rstrip()[-1:] or last
    return last == b"]"


def _check_single(path: str, remedy: str) -> None:
    """Reject a file that is one object with all the rows in it."""
    with reading(path), open_text(path) as stream:
        lines = (line for line in bounded_lines(stream) if line.strip())
        first = next(lines)
        try:
            content = json.loads(first)
            if next(lines, None) is not None:
                return
        except RecursionError:  # its reader says so
            return
        except json.JSONDecodeError:  # an object over several lines, or a malformed one, which its reader names
            stream.seek(0)
            try:
                content = json.loads(stream.read(LONGEST_OBJECT))
            except (json.JSONDecodeError, RecursionError):
                return
            problem = "contains a single object over several lines"
        else:
            problem = ""
    problem, call = _orient(content) or (problem, "")
    if call:
        remedy = in_words_of(f"in Python, use {call}.to_parquet({{parquet}})", path)
    if problem:
        raise FileError(path, problem, remedy)


def _orient(content: Any) -> tuple[str, str] | None:
    """Say in which way an object holds a table, and what reads it in Python; None for an object that may be a row."""
    keys = set(content)
    orient = "split" if {"columns", "data"} <= keys else "table" if {"schema", "data"} <= keys else ""
    if not orient and (key := _key_of_rows(content)) is not None:
        literal_key = json.dumps(key).replace("{", "{{").replace("}", "}}")  # what follows is a format
        read = f"pandas.DataFrame(json.load(open({{name}}))[{literal_key}])"
        return f"contains one object, with rows in {quoted(key)}", read
    if _holds_columns(list(content.values())):
        return "contains one object whose lists are columns", "pandas.DataFrame(json.load(open({name})))"
    orient = orient or _orient_of_objects(content)
    if not orient:
        return None
    words = f"contains a table of orient {quoted(orient)}, not one object for each row"
    return words, f"pandas.read_json({{name}}, orient={json.dumps(orient)}, precise_float=True)"


def _key_of_rows(content: Mapping[str, Any]) -> str | None:
    """Return the first key whose value is a list of objects."""
    for key, value in content.items():
        if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
            return key
    return None


def _holds_columns(values: Sequence[Any]) -> bool:
    """Whether values are several lists of one length, without lists or objects in them."""
    if len(values) < 2 or not all(isinstance(value, list) and len(value) > 1 for value in values):
        return False
    cells = (cell for value in values for cell in value)
    return len({len(value) for value in values}) == 1 and not any(isinstance(cell, list | dict) for cell in cells)


def _orient_of_objects(content: Mapping[str, Any]) -> str:
    """Return the orient of objects with equal keys, whose own keys or inner keys are numbers, else nothing."""
    inner = [set(value) for value in content.values() if isinstance(value, dict)]
    if not inner or len(inner) < len(content) or any(each != inner[0] for each in inner):
        return ""
    if all(key.isdigit() for key in content):
        return "index"
    return "columns" if all(key.isdigit() for key in inner[0]) else ""
