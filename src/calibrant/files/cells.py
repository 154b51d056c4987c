"""Record batches as arrays: widths kept, nulls and bad cells named by file, row and column."""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import FileError, FileFault, quoted
from calibrant.files.columns import Selection
from calibrant.files.engine import Table
from calibrant.files.local import load, reading
from calibrant.files.sql import literal, where_option
from calibrant.files.values import (
    PERCENT_REMEDY,
    BadTarget,
    Column,
    Percents,
    Piece,
    Words,
    check_per_cents,
    combined,
    cut,
    is_missing,
    is_short,
    is_signed,
    joined,
    shown,
)
from calibrant.inputs.groups import group_name, without_zeros


def pieces(table: Table, selection: Selection) -> Generator[Piece, None, None]:
    """Yield the columns of a table by argument, some rows at a time.

    Raises
    ------
    FileError
        At the first cell that is null or no number, or a column of another type than expected.
    """
    reader = _Reader(table, selection)
    with reading(table.path):
        for batch in table.batches(selection):
            columns = {name: batch.column(batch.schema.get_field_index(name)) for name in selection.used}
            yield {
                argument: reader.column(argument, {name: columns[name] for name in names})
                for argument, names in selection.names().items()
            }
            reader.start += batch.num_rows
        reader.check_per_cents()


class _Reader:
    """Columns of one table as arrays; ``start`` is the position of the batch's first row."""

    def __init__(self, table: Table, selection: Selection) -> None:
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
                problem = f"column {quoted(name)} holds lists, and {argument} have other columns too"
                raise self._error(problem, "name the list column alone", column=name)
        return np.stack(list(arrays.values()), axis=1)

    def _are_labels(self, column: Any) -> bool:
        """Whether a column of targets holds labels: words or times, or single values where labels are asked for."""
        types, kind = self._types, column.type.value_type if self._is_coded(column) else column.type
        asked = self._selection.labels and not types.is_nested(kind)
        return bool(asked or _is_text(types, kind) or types.is_temporal(kind))

    def _group(self, name: str, column: Any) -> Words:
        """Return the names of groups; numbers may be cut, and times are named as `group_name` does."""
        kind = self._check_flat(name, column)
        words = self._times(name, column) if self._types.is_timestamp(kind) else self._words(name, column)
        if self._types.is_time(kind):
            words = Words(np.array([without_zeros(text) for text in words.names], object), words.codes)
        return cut(words, self._selection.cuts.get(name))

    def _times(self, name: str, column: Any) -> Words:
        """Return the names of times: of those with a zone, which Arrow has in UTC, in the zone that is asked for."""
        column, zone = self._decoded(name, column), self._selection.timezone
        if column.type.tz is not None and zone != "UTC":
            column = self._compute.local_timestamp(column.cast(self._arrow.timestamp(column.type.unit, zone)))
        words = Words.of(column.to_numpy(zero_copy_only=False))
        return Words(np.array([group_name(time) for time in words.names], object), words.codes)

    def _check_flat(self, name: str, column: Any) -> Any:
        """Return the type of a column of single values."""
        kind = column.type.value_type if self._is_coded(column) else column.type
        if self._types.is_nested(kind):
            problem = f"column {quoted(name)} holds lists, not names"
            raise self._error(problem, "name a column with one value a row", column=name)
        return kind

    def _clusters(self, name: str, column: Any) -> Column:
        """Return the labels of clusters: words, times or numbers."""
        types, kind = self._types, self._check_flat(name, column)
        if types.is_timestamp(kind) or types.is_date(kind):
            times: NDArray[Any] = self._decoded(name, column).to_numpy(zero_copy_only=False)
            return times
        named = _is_text(types, kind) or types.is_temporal(kind)
        return self._words(name, column) if named else self._numbers(name, column)

    def _words(self, name: str, column: Any) -> Words:
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
        words = Words(names, self._array(column.indices))
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
            # Through text: Arrow's own cast reads .35 as .35000000000000003.
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
            return self._fractions(name, Words(names, codes), width)
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
            raise self._error(problem, "write a value for each class", column=name)
        odd, width, values = np.flatnonzero(lengths != lengths[0]), int(lengths[0]), column.flatten()
        if values.null_count:
            null = self._compute.index(values.is_null(), True).as_py()
            row = int(np.searchsorted(np.cumsum(lengths), null, side="right"))
            if not len(odd) or row <= odd[0]:
                raise self._bad_cell(name, row, inside=True)
        if len(odd):
            row, first = self._table.row_of(self.start + int(odd[0])), self._table.row_of(self.start)
            problem = f"row {row}, column {quoted(name)} has a list of {lengths[odd[0]]}, row {first} of {width}"
            raise self._error(problem, "give every row a value for each class", column=name)
        values = self._decoded(name, values)
        if self._types.is_nested(values.type):
            problem = f"column {quoted(name)} holds lists of lists"
            raise self._error(problem, "write one list of numbers a row", column=name)
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
        """Say what is wrong with a cell that came as a null: nothing in it, or something that is no number."""
        table, index = self._table, self.start + row
        text = table.cell(name, index)
        place = f"row {table.row_of(index)}, column {quoted(name)}"
        if inside and (text is None or "null" in text.lower()):
            return self._error(
                f"{place} has a list with a null in it", "give every class a value in every row", column=name
            )
        if text is None:
            option = where_option(f"{table.spoken(name)} IS NOT NULL", table.where)
            return self._bad(name, f"{place} is empty (null)", f"fill it, or leave such rows out with {option}")
        if re.fullmatch(r"[-+]?\d*,\d+", text.strip()):
            problem, remedy = f"{place}: {shown(text)} is not a number", "if decimals have a comma, add"
            return FileError(table.path, problem, remedy, ("--decimal-comma",), FileFault.VALUE, name)
        wanted = "a list of numbers" if inside or text.startswith("[") else table.expected.get(name, "a number")
        problem = f"{place}: {shown(text)} is not {wanted}"
        if name in self._selection.probs and (is_signed(text) or (text.startswith("[") and "%" in text)):
            return self._error(problem, PERCENT_REMEDY, column=name)
        if text.strip().endswith("%"):
            return self._error(problem, "write percentages as fractions, 85% as 0.85", column=name)
        if not text.startswith("[") and name not in self._selection.targets and table.holds_text(name):
            problem = f"column {quoted(name)} holds text such as {shown(text)}, not numbers"
            return self._error(problem, "name a column of numbers", column=name)
        return self._bad(name, problem, self._without(name, text))

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
        verb = "leave such rows out" if is_missing(text) else "correct it, or leave the row out"
        return f"{verb} with {option}"


def _is_text(types: Any, kind: Any) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _texts(column: Any) -> NDArray[np.object_]:
    return np.array(column.to_pylist(), dtype=object)
