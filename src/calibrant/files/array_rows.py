"""The rows of files as arrays: record batches of tables, ``.npz`` archives, and a ``.npy`` with its targets in another.

Widths are kept; nulls and bad cells are named by file, row and column.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import CalibrantError, FileError, FileFault, quoted
from calibrant.files.column_kinds import is_like_scores
from calibrant.files.column_options import ColumnSelection, Options
from calibrant.files.column_values import (
    PERCENT_REMEDY,
    BadTarget,
    Column,
    Percents,
    Piece,
    ValueWords,
    check_per_cents,
    combined,
    cut,
    is_missing,
    is_short,
    is_signed,
    joined,
    number_in,
    shown,
)
from calibrant.files.engine import FileTable
from calibrant.files.local import is_workbook, load, located, reading
from calibrant.files.odds import probabilities
from calibrant.files.paths import kind_of
from calibrant.files.roles import find
from calibrant.files.sql import literal, sql_option, where_option
from calibrant.inputs.group_rows import group_name, without_zeros
from calibrant.inputs.memory import bytes_in_words, max_memory

# ---------------------------------------------------------------- tables


def table_pieces(table: FileTable, selection: ColumnSelection) -> Generator[Piece, None, None]:
    """Yield the columns of a table by argument, some rows at a time."""
    reader = _TableColumns(table, selection)
    with reading(table.path):
        for batch in table.batches(selection):
            columns = {name: batch.column(batch.schema.get_field_index(name)) for name in selection.used}
            piece = {
                argument: reader.column(argument, {name: columns[name] for name in names})
                for argument, names in selection.names().items()
            }
            yield piece if selection.odds is None else reader.of_odds(piece, selection.odds)
            reader.start += batch.num_rows
        reader.check_per_cents()


def rows_of_counts(
    pieces: Generator[Piece, None, None], selection: ColumnSelection, path: str, row_of: Callable[[int], int]
) -> Generator[Piece, None, None]:
    """Yield two rows for each one: the event with its number as the weight, then its absence with the other number."""
    start = 0
    with closing(pieces):
        for piece in pieces:
            if "targets" not in piece:  # a look at the groups alone
                yield piece
                continue
            events, trials = (np.asarray(piece[name]).astype(np.float64) for name in ("targets", "weights"))
            is_bad = ~((events >= 0) & (events <= trials) & (events == np.floor(events)) & (trials == np.floor(trials)))
            if is_bad.any():
                row = int(np.argmax(is_bad))
                names = quoted(selection.targets[0]), quoted(str(selection.weights))
                problem = f"row {row_of(start + row):,}: expected whole numbers, {names[0]} between 0 and {names[1]}"
                problem = f"{problem}, got {events[row]:g} of {trials[row]:g}"
                raise FileError(path, problem, "correct the row", fault=FileFault.VALUE)
            start += len(events)
            doubled = {name: _twice(column) for name, column in piece.items()}
            doubled["targets"] = np.tile(np.array([1, 0]), len(events))
            doubled["weights"] = np.stack([events, trials - events], axis=1).reshape(-1)
            yield doubled


def _twice(column: Column) -> Column:
    """Return each row twice."""
    if isinstance(column, ValueWords):
        return ValueWords(column.names, np.repeat(column.codes, 2))
    return np.repeat(column, 2, axis=0)


class _TableColumns:
    """Columns of one table as arrays; ``start`` is the position of the batch's first row."""

    def __init__(self, table: FileTable, selection: ColumnSelection) -> None:
        self.start = 0
        self._table = table
        self._selection = selection
        self._percents: dict[str, Percents] = {}
        self._error = partial(FileError, table.path, fault=FileFault.VALUE)
        purpose = f"to read {os.path.basename(table.path)}"
        self._arrow = load("pyarrow", purpose)
        self._types = self._arrow.types
        self._compute = load("pyarrow.compute", purpose)

    def column(self, argument: str, columns: dict[str, Any]) -> Column:
        """Return the columns of an argument as one array, or as words."""
        if argument in ("clusters", "keys"):
            return combined([self._clusters(name, column) for name, column in columns.items()])
        if argument == "groups":
            return joined([self._group(name, column) for name, column in columns.items()])
        percent = self._selection.percent and argument.startswith("probs")
        ((name, column), *others) = columns.items()
        if argument == "targets" and not others and self._are_labels(column):
            return self._words(name, column)
        arrays = {name: self._numbers(name, column, percent) for name, column in columns.items()}
        if not others:
            return arrays[name]
        for name, array in arrays.items():
            if array.ndim > 1:
                problem = f"column {quoted(name)} holds lists, but {argument} also names other columns"
                raise self._error(problem, "name only the column of lists", column=name)
        return np.stack(list(arrays.values()), axis=1)

    def of_odds(self, piece: Piece, form: str) -> Piece:
        """Return rows with the probabilities that odds imply."""
        names, start = self._selection.names(), self.start
        shares = {
            argument: probabilities(
                np.asarray(column), form, self._table.path, names[argument], lambda row: self._table.row_of(start + row)
            )
            for argument, column in piece.items()
            if argument.startswith("probs")
        }
        return {**piece, **shares}

    def _are_labels(self, column: Any) -> bool:
        """Whether a column of targets holds labels: words or times, or single values where labels are asked for."""
        types, kind = self._types, column.type.value_type if self._is_coded(column) else column.type
        asked = self._selection.labels and not types.is_nested(kind)
        return bool(asked or _is_text(types, kind) or types.is_temporal(kind))

    def _group(self, name: str, column: Any) -> ValueWords:
        """Return the names of groups; numbers may be cut, and times are named as `group_name` does."""
        kind = self._check_flat(name, column)
        words = self._times(name, column) if self._types.is_timestamp(kind) else self._words(name, column)
        if self._types.is_time(kind):
            words = ValueWords(np.array([without_zeros(text) for text in words.names], object), words.codes)
        return cut(words, self._selection.cuts.get(name))

    def _times(self, name: str, column: Any) -> ValueWords:
        """Return the names of times: of those with a zone, which Arrow has in UTC, in the zone that is asked for."""
        column, zone = self._decoded(name, column), self._selection.timezone
        if column.type.tz is not None and zone != "UTC":
            column = self._compute.local_timestamp(column.cast(self._arrow.timestamp(column.type.unit, zone)))
        words = ValueWords.of(column.to_numpy(zero_copy_only=False))
        return ValueWords(np.array([group_name(time) for time in words.names], object), words.codes)

    def _check_flat(self, name: str, column: Any) -> Any:
        """Return the type of a column of single values."""
        kind = column.type.value_type if self._is_coded(column) else column.type
        if self._types.is_nested(kind):
            problem = f"column {quoted(name)} holds lists, not single values"
            raise self._error(problem, "name a column with one value for each row", column=name)
        return kind

    def _clusters(self, name: str, column: Any) -> Column:
        """Return the labels of clusters: words, times or numbers."""
        types, kind = self._types, self._check_flat(name, column)
        if types.is_timestamp(kind) or types.is_date(kind):
            times: NDArray[Any] = self._decoded(name, column).to_numpy(zero_copy_only=False)
            return times
        named = _is_text(types, kind) or types.is_temporal(kind)
        return self._words(name, column) if named else self._numbers(name, column)

    def _words(self, name: str, column: Any) -> ValueWords:
        """Return names or labels; Arrow finds the distinct ones."""
        if self._is_coded(column) and not (
            column.dictionary.null_count or self._types.is_temporal(column.dictionary.type)
        ):
            self._check_nulls(name, column)
        else:
            column = self._decoded(name, column)
            if self._types.is_temporal(column.type) or self._types.is_string_view(column.type):
                column = column.cast(self._arrow.large_string())
            elif not _is_text(self._types, column.type):
                # Arrow makes no dictionaries of 16-bit floats; each of them is a 32-bit float too.
                array = self._numbers(name, column)
                column = self._arrow.array(array.astype(np.float32) if array.dtype == np.float16 else array)
            column = column.dictionary_encode()
        text = _is_text(self._types, column.dictionary.type)
        names = _texts(column.dictionary) if text else self._array(column.dictionary)
        if self._table.is_narrow(name):
            names = names.astype(np.float16)
        words = ValueWords(names, self._array(column.indices))
        return words.spelled(self._selection.spellings) if name in self._selection.targets else words

    def _numbers(self, name: str, column: Any, percent: bool = False) -> NDArray[Any]:
        """Return a column of numbers, or of lists of as many numbers each."""
        types = self._types
        if self._is_coded(column):  # short codes may stand for long lists or texts
            coded, kind = column, column.type.value_type
            if types.is_nested(kind):
                problem = f"column {quoted(name)} holds categories of lists"
                raise self._error(problem, "write lists, or a column for each class", column=name)
            if _is_text(types, kind):
                self._check_nulls(name, coded)
                return self._of_text(name, coded, percent, 1)
        column = self._decoded(name, column)
        kind = column.type
        if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
            return self._lists(name, column, percent)
        return self._flat(name, column, percent)

    def _flat(self, name: str, column: Any, percent: bool, width: int = 1) -> NDArray[Any]:
        """Return a column of numbers, or ``width`` entries of a list in each row."""
        types, kind = self._types, column.type
        if types.is_decimal(kind):
            # Through text: Arrow's own cast reads 0.35 as 0.35000000000000003.
            column = column.cast(self._arrow.string()).cast(self._arrow.float64())
        elif _is_text(types, kind):
            return self._of_text(name, column.cast(self._arrow.large_string()).dictionary_encode(), percent, width)
        elif not (types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind)):
            problem = f"column {quoted(name)} holds values of type {kind}, not numbers"
            raise self._error(problem, "name a column of numbers", column=name)
        array = self._array(column)
        array = array.astype(np.float16, copy=False) if self._table.is_narrow(name) else array
        if name in self._table.integers:
            # NaN compares unequal; beyond 2^53 a double no longer tells neighbours apart.
            are_whole = np.all((np.trunc(array) == array) & (np.abs(array) < 2.0**53))
            array = array.astype(np.int64) if are_whole else array
        return self._fractions(name, array, width) if percent else array

    def _of_text(self, name: str, coded: Any, percent: bool, width: int) -> NDArray[Any]:
        """Return texts such as ``85%`` as fractions, where per cents are asked for."""
        names, codes = _texts(coded.dictionary), self._array(coded.indices)
        if percent:
            return self._fractions(name, ValueWords(names, codes), width)
        signed = name in self._selection.probs and len(codes) and is_signed(names[codes[0]])
        remedy = PERCENT_REMEDY if signed else "name a column of numbers"
        problem = f"column {quoted(name)} holds text, not numbers"
        raise self._error(problem, remedy, column=name)

    def _fractions(self, name: str, values: Column, width: int) -> NDArray[Any]:
        def place(row: int) -> str:
            return f"row {self._table.row_of(row)}, column {quoted(name)}"

        def remedy(text: str) -> str:
            return "correct the cell" if width > 1 else self._without(name, text)

        percents = self._percents.setdefault(name, Percents(self._table.path, place, remedy, name))
        return percents.fractions(values, self.start, width)

    def check_per_cents(self) -> None:
        """Reject a model whose numbers were read as per cents and may be fractions."""
        for argument, names in self._selection.names().items():
            if argument.startswith("probs"):
                read = [self._percents[name].largest for name in names if name in self._percents]
                check_per_cents(self._table.path, names, max(read, default=0))

    def _lists(self, name: str, column: Any, percent: bool) -> NDArray[Any]:
        lengths = self._array(self._compute.list_value_length(column))
        if len(lengths) == 0:
            return np.empty((0, 0))
        if not lengths.any():
            problem = f"column {quoted(name)} holds empty lists"
            raise self._error(problem, "write one value for each class", column=name)
        odd, width, values = np.flatnonzero(lengths != lengths[0]), int(lengths[0]), column.flatten()
        if values.null_count:
            null = self._compute.index(values.is_null(), True).as_py()
            row = int(np.searchsorted(np.cumsum(lengths), null, side="right"))
            if not len(odd) or row <= odd[0]:
                raise self._bad_cell(name, row, inside=True)
        if len(odd):
            row, first = self._table.row_of(self.start + int(odd[0])), self._table.row_of(self.start)
            problem = (
                f"row {row}, column {quoted(name)} has a list of {lengths[odd[0]]} values, but row {first} has {width}"
            )
            raise self._error(problem, "give every row a value for each class", column=name)
        values = self._decoded(name, values)
        if self._types.is_nested(values.type):
            problem = f"column {quoted(name)} holds lists of lists"
            raise self._error(problem, "write one list of numbers for each row", column=name)
        return self._flat(name, values, percent, width).reshape(len(lengths), width)

    def _array(self, column: Any) -> NDArray[Any]:
        """Return numbers without nulls. Arrow's own conversion imports pandas, where it is installed."""
        if self._types.is_boolean(column.type):
            return np.from_dlpack(column.cast(self._arrow.uint8())).view(np.bool_)
        return np.from_dlpack(column)

    # ------------------------------------------------------------ nulls and bad cells

    def _is_coded(self, column: Any) -> bool:
        return bool(self._types.is_dictionary(column.type))

    def _decoded(self, name: str, column: Any) -> Any:
        """Return a column without a dictionary, an extension type or a null."""
        if isinstance(column, self._arrow.ExtensionArray):
            column = column.storage
        if self._is_coded(column):
            column = column.dictionary_decode()
        self._check_nulls(name, column)
        return column

    def _check_nulls(self, name: str, column: Any) -> None:
        if column.null_count:
            raise self._bad_cell(name, self._compute.index(column.is_null(), True).as_py())

    def _bad_cell(self, name: str, row: int, inside: bool = False) -> FileError:
        """Say what is wrong with a cell that came as a null: nothing in it, or something that is not a number."""
        table, index = self._table, self.start + row
        text = table.cell(name, index)
        place = f"row {table.row_of(index)}, column {quoted(name)}"
        if inside and (text is None or "null" in text.lower()):
            return self._error(
                f"{place} has a list that contains a null", "give every class a value in every row", column=name
            )
        if text is None:
            option = where_option(f"{table.spoken(name)} IS NOT NULL", table.where)
            fill = "fill the cell" + " (a formula has no value before Excel saves the file)" * is_workbook(table.path)
            return self._bad(name, f"{place} is empty (null)", f"{fill}, or leave such rows out with {option}")
        if re.fullmatch(r"[-+]?\d*,\d+", text.strip()):
            problem, remedy = f"{place}: {shown(text)} is not a number", "if the file writes decimals with a comma, add"
            if any("." in str(cell) for cell in table.head(_CELLS, (name,)).get(name, ())):
                problem = f"{problem}, and other cells have a decimal point"
                return self._error(problem, "write all numbers with a point, or all with a comma", column=name)
            return FileError(table.path, problem, remedy, ("--decimal-comma",), FileFault.VALUE, name)
        if table.comma and not math.isnan(number_in(text)):
            problem = f"{place}: {shown(text)} is not a number with a decimal comma"
            remedy = "leave --decimal-comma out, or write all numbers with a decimal comma"
            return self._error(problem, remedy, column=name)
        if text.startswith("[") and re.fullmatch(r"\[[\s\d.eE+-]+\]", text.strip()):
            problem = f"{place}: {shown(text)} has no commas between its numbers"
            return self._error(problem, "write lists with commas, such as with array.tolist() in NumPy", column=name)
        wanted = "a list of numbers" if inside or text.startswith("[") else table.expected.get(name, "a number")
        problem = f"{place}: {shown(text)} is not {wanted}"
        if name in self._selection.probs and (is_signed(text) or (text.startswith("[") and "%" in text)):
            return self._error(problem, PERCENT_REMEDY, column=name)
        if "%" in text:
            return self._error(problem, "write percentages as fractions, such as 0.85 instead of 85%", column=name)
        if not text.startswith("[") and name not in self._selection.targets and table.holds_text(name):
            problem = f"column {quoted(name)} holds text such as {shown(text)}, not numbers"
            return self._error(problem, self._for_text(name, text), column=name)
        return self._bad(name, problem, self._without(name, text))

    def _for_text(self, name: str, text: str) -> str:
        """Say what to do about a column of texts: a number in each text, or words such as "likely"."""
        numbers = re.findall(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", text)
        if len(numbers) == 1 and is_short(text):
            return f"write the number alone, such as {numbers[0]}, or name a column of numbers"
        is_score = self._selection.probs == (name,) and is_like_scores(name)
        if not is_score or not is_short(text) or len(text.split()) > _WORDS:
            return "name a column of numbers"
        example = sql_option("--score", f"CASE {self._table.spoken(name)} WHEN {literal(text)} THEN 0.8 ... END")
        return f"name a column of numbers, or give each text a probability, such as {example}"

    def _bad(self, name: str, problem: str, remedy: str) -> FileError:
        """Return the error of a cell; that of a single column of targets says which it is."""
        models = [names for argument, names in self._selection.names().items() if argument.startswith("probs")]
        if (name,) == self._selection.targets and len(models[0]) == 1:
            return BadTarget(self._table.path, problem, remedy, name, self._selection.probs[0])
        return self._error(problem, remedy, column=name)

    def _without(self, name: str, text: str) -> str:
        """Say how to mend a cell, or do without its row."""
        if not is_short(text):
            return "correct the cell"
        option = where_option(f"{self._table.spoken(name)} <> {literal(text)}", self._table.where)
        verb = "leave such rows out" if is_missing(text) else "correct the cell, or leave the row out"
        return f"{verb} with {option}"


def _is_text(types: Any, kind: Any) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _texts(column: Any) -> NDArray[np.object_]:
    return np.array(column.to_pylist(), dtype=object)


# ---------------------------------------------------------------- NumPy's own files

_STEP = 1 << 20  # bytes
_BATCH = 32_000_000  # bytes that are read of an array at a time, where a row is shorter
_WORDS = 3  # of a text that may stand for a probability
_CELLS = 10_000  # that show how a column writes decimals
_ROWS = 65_536  # the same in rows, at most
_MOST_ROW = 80_000_000  # bytes of a row

Open = Callable[[], contextlib.AbstractContextManager[IO[bytes]]]


class StoredArray:
    """An array in a file, read some rows at a time.

    All bytes of the member of an archive are read, in their order, so that the archive's checksum is compared.
    """

    def __init__(self, path: str, what: str, start: Open, *, zipped: bool) -> None:
        self.what = what  #: the array in words
        self._path = path
        self._start = start  # opens the array's bytes, from its header on
        self._zipped = zipped  # whether it is the member of an archive
        with start() as stream:
            self.shape, self._by_columns, self.dtype = _read_header(stream)
        problem = None
        if self.dtype.hasobject:
            problem, remedy = "holds Python objects", "save the array as numbers or strings"
        elif not self.shape:
            problem, remedy = "is a single value", "save an array with one row for each prediction"
        elif self.dtype.kind not in "fiubUS":
            problem, remedy = f"is of type {self.dtype}", "save numbers or strings"
            remedy = "save the array as float32, because numpy has no bfloat16" if self.dtype.kind == "V" else remedy
        elif min(self.shape) < 0 or not self.width:
            problem, remedy = f"has the shape {self.shape}", "save an array with one row for each prediction"
        elif self.row_bytes > _MOST_ROW:
            problem = f"has rows of {self.row_bytes:,} bytes"
            remedy = f"save rows of at most {_MOST_ROW:,} bytes"
        if problem is not None:
            raise FileError(path, f"{what} {problem}", remedy)

    @property
    def width(self) -> int:
        """How many values a row has."""
        return math.prod(self.shape[1:])

    @property
    def row_bytes(self) -> int:
        return self.width * self.dtype.itemsize

    def __len__(self) -> int:
        return int(self.shape[0])

    def head(self, rows: int) -> NDArray[Any]:
        """Return the first rows at most."""
        with closing(self.parts(rows)) as parts:
            return next(parts, np.empty(0, self.dtype))

    def parts(self, rows: int, first: int = 0, stop: int | None = None) -> Generator[NDArray[Any], None, None]:
        """Yield the rows in their order, so many at a time; of a member always all rows.

        An array that is stored column after column is read as a whole.
        """
        stop = len(self) if stop is None else stop
        with self._start() as stream:
            _read_header(stream)
            whole = self._whole(stream) if self._by_columns else None
            if whole is None and not self._zipped:
                stream.seek(first * self.row_bytes, os.SEEK_CUR)
            for at in range(first, stop, rows):
                count = min(rows, stop - at)
                if whole is not None:
                    yield whole[at : at + count]
                else:
                    yield self._take(stream, count * self.width).reshape(count, *self.shape[1:])
            while self._zipped and stream.read(_STEP):
                pass

    def _whole(self, stream: IO[bytes]) -> NDArray[Any]:
        size = len(self) * self.row_bytes
        if size > max_memory():
            problem = f"{self.what} takes {bytes_in_words(size)} and is stored column after column"
            remedy = "save numpy.ascontiguousarray of it, or raise CALIBRANT_MAX_MEMORY"
            raise FileError(self._path, problem, remedy)
        return self._take(stream, len(self) * self.width).reshape(self.shape, order="F")

    def _take(self, stream: IO[bytes], count: int) -> NDArray[Any]:
        size = count * self.dtype.itemsize
        data = stream.read(size)
        if len(data) < size:
            msg = f"{size - len(data):,} bytes are missing"
            raise EOFError(msg)
        return np.frombuffer(data, self.dtype)


def _read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return the shape of an array, whether it is stored column after column, and its type."""
    version = np.lib.format.read_magic(stream)
    # The third version is of structured arrays, which hold no probabilities.
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, by_columns, dtype = read(stream)
    return shape, by_columns and len(shape) > 1 and math.prod(shape[1:]) > 1, dtype


def array_pieces(
    path: str, stored: Mapping[str, StoredArray], selection: ColumnSelection, firsts: Mapping[str, int], stop: int
) -> Generator[Piece, None, None]:
    """Yield arrays, given by their names, by argument and some rows at a time.

    They are read from row 0 on, or from the row in ``firsts``, as many rows as ``stop``.
    """
    columns = _ArrayColumns(path, selection, stored)
    rows = max(1, min(_ROWS, _BATCH // sum(array.row_bytes for array in stored.values())))
    used = {name: stored[name] for name in selection.used}
    with reading(path):
        for arrays in _parts(used, rows, firsts, stop):
            yield {
                argument: columns.column(argument, {name: arrays[name] for name in names})
                for argument, names in selection.names().items()
            }
            columns.start += len(next(iter(arrays.values())))
        columns.check_per_cents()


def _parts(
    stored: Mapping[str, StoredArray], rows: int, firsts: Mapping[str, int], stop: int | None
) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield so many rows of several arrays at a time, by the arrays' names."""
    with ExitStack() as stack:
        parts = []
        for name, array in stored.items():
            first = firsts.get(name, 0)
            last = None if stop is None else first + stop
            parts.append(stack.enter_context(closing(array.parts(rows, first, last))))
        for together in zip(*parts, strict=True):
            yield dict(zip(stored, together, strict=True))


class _ArrayColumns:
    """Columns of arrays, some rows after the other; ``start`` is the position of the next row."""

    def __init__(self, path: str, selection: ColumnSelection, stored: Mapping[str, StoredArray]) -> None:
        self.start = 0
        self._path = path
        self._selection = selection
        self._stored = stored
        self._percents: dict[str, Percents] = {}

    def column(self, argument: str, arrays: dict[str, NDArray[Any]]) -> Column:
        """Return the next rows of an argument: names as words, per cents as fractions, other arrays unchanged."""
        selection = self._selection
        if argument in ("clusters", "keys"):
            return combined(list(arrays.values()))
        if argument == "groups":
            return joined([cut(ValueWords.of(array), selection.cuts.get(name)) for name, array in arrays.items()])
        ((name, array),) = arrays.items()
        is_text = array.dtype.kind in "US"
        if argument == "targets":
            are_words = array.ndim == 1 and (is_text or selection.spellings)
            return ValueWords.of(array).spelled(selection.spellings) if are_words else array
        is_probs = argument.startswith("probs")
        if is_probs and selection.percent:
            return self._fractions(name, ValueWords.of(array.reshape(-1)) if is_text else array, array.shape)
        if is_text:
            signed = is_probs and array.size > 0 and is_signed(str(array.astype(str).flat[0]))
            remedy = PERCENT_REMEDY if signed else "name an array of numbers"
            raise FileError(self._path, f"{self._stored[name].what} holds text, not numbers", remedy)
        return array

    def _fractions(self, name: str, values: Column, shape: tuple[int, ...]) -> NDArray[Any]:
        def place(row: int) -> str:
            return f"row {row + 1}, {self._stored[name].what}"

        percents = Percents(self._path, place, lambda _: "correct the value before you save the array")
        percents = self._percents.setdefault(name, percents)
        return percents.fractions(values, self.start, math.prod(shape[1:])).reshape(shape)

    def check_per_cents(self) -> None:
        """Reject an array that was read as per cents and may hold fractions."""
        for name, percents in self._percents.items():
            check_per_cents(self._path, (self._stored[name].what,), percents.largest)


def open_npy(path: str) -> StoredArray:
    """Look at the array of a ``.npy``; nothing is read yet."""
    if kind_of(path) != "npy":
        raise FileError(path, "is not a .npy file", "save the targets with numpy.save")
    with reading(path, remedy="save the array again with numpy.save"):
        if zipfile.is_zipfile(located(path)):
            raise FileError(path, "is an archive, not a single array", "rename the file to .npz")
        return StoredArray(path, "the array", lambda: open(located(path), "rb"), zipped=False)


def open_npz(path: str, options: Options) -> tuple[dict[str, StoredArray], ColumnSelection]:
    """Look at the arrays of an archive that are asked for, by their names; nothing but their heads is read yet."""
    with reading(path):
        columns = array_names(path)
        selection = find(path, columns, options, lambda rows: first_rows(path, rows, columns), noun="array")
        for argument, names in selection.names().items():
            if len(names) > 1 and argument not in ("clusters", "groups", "keys"):
                raise FileError(path, f"{argument} must be one array, got {', '.join(names)}", "name one array")
        stored = {name: _member(path, name) for name in selection.used}
        name = selection.probs[0]
        probs = stored[name]
        for other, array in stored.items():
            if len(array) == len(probs):
                continue
            remedy = "save arrays of the same length"
            if other in selection.targets and array.shape == probs.shape[:0:-1] + probs.shape[:1]:
                remedy = f"{quoted(other)} looks transposed; save {other}.T"
            elif len(probs.shape) == 2 and len(array) == probs.shape[1]:
                remedy = f"{quoted(name)} looks transposed; save {name}.T, with one row for each prediction"
            problem = f"array {quoted(other)} has {len(array):,} rows and {quoted(name)} has {len(probs):,}"
            raise FileError(path, problem, remedy)
    return stored, selection


def rows_of(
    paths: Sequence[str], targets_file: str | None, name: str, ignored: tuple[str, int] | None
) -> Iterator[NDArray[Any]]:
    """Yield an array of several archives some rows at a time, without the rows where another has a value.

    With a file of targets the paths are arrays, whose name is "probs", and the file's is "targets".
    """
    first = 0
    for path in paths:
        with reading(path):
            names = dict.fromkeys((name, name if ignored is None else ignored[0]))
            if targets_file is None:
                n_rows, stored = None, {each: _member(path, each) for each in names}
            else:
                n_rows = len(open_npy(path))
                stored = {each: open_npy(targets_file if each == "targets" else path) for each in names}
            for arrays in _parts(stored, _ROWS, {"targets": first} if targets_file else {}, n_rows):
                yield arrays[name] if ignored is None else arrays[name][arrays[ignored[0]] != ignored[1]]
            first += n_rows or 0


def first_rows(path: str, rows: int, names: Sequence[str]) -> dict[str, list[Any]]:
    """Return the first rows at most of those of an archive's arrays that can be read."""
    cells = {}
    with reading(path):
        for name in names:
            with contextlib.suppress(CalibrantError):
                cells[name] = _member(path, name).head(rows).tolist()
    return cells


def array_names(path: str) -> list[str]:
    """Return the names of an archive's arrays."""
    if not zipfile.is_zipfile(located(path)):
        with open(located(path), "rb") as stream:
            np.load(stream, allow_pickle=False)  # raises an error that says what is wrong, if it is not an array either
        raise FileError(
            path, "holds a single array, not an archive", "rename the file to .npy, and pass --targets FILE"
        )
    with zipfile.ZipFile(located(path)) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
    for name, count in Counter(names).items():
        if count > 1:
            raise FileError(
                path, f"has {count} arrays named {quoted(name)}", "save the file again with only one of these arrays"
            )
    return names


def _member(path: str, name: str) -> StoredArray:
    @contextmanager
    def start() -> Iterator[IO[bytes]]:
        with zipfile.ZipFile(located(path)) as archive:
            member = f"{name}.npy" if f"{name}.npy" in archive.namelist() else name
            with archive.open(member) as stream:
                yield stream

    with reading(path, "save the file again", f"array {quoted(name)} is damaged"):
        return StoredArray(path, f"array {quoted(name)}", start, zipped=True)
