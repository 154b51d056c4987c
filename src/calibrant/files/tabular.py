"""Record batches into arrays: widths kept, nulls and bad cells named by file, row and column."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import FileError
from calibrant.files.columns import Selection
from calibrant.files.engine import Table, load
from calibrant.files.growing import Growing
from calibrant.files.paths import reading
from calibrant.files.percent import ALIKE, REMEDY, WANTED, fraction, fractions, is_signed, is_unclear, unclear
from calibrant.files.sql import literal, sql_name, where_option

MISSING = {"", "na", "n/a", "null", "none", "-", "?", "missing"}
CELL = 40


class Collector:
    """The arrays of one or more tables with the same columns.

    Parameters
    ----------
    reserve : int
        The number of rows, where it is known.
    """

    def __init__(self, reserve: int = 0) -> None:
        self._parts: dict[str, Growing] = {}
        self._reserve = reserve
        self._origin: dict[str, str] = {}

    def add(self, table: Table, selection: Selection, progress: Callable[[int], None]) -> int:
        """Append a table's rows and return their number.

        Raises
        ------
        FileError
            At the first cell that is null or no number, or a column of another type than expected.
        """
        done = 0
        reader = _Reader(table, selection)
        with reading(table.path):
            for batch in table.batches(selection):
                reader.start = done
                for argument, names in selection.names().items():
                    columns = [batch.column(batch.schema.get_field_index(name)) for name in names]
                    self._append(reader, argument, names, columns, batch.num_rows)
                done += batch.num_rows
                progress(done)
        return done

    def _append(self, reader: _Reader, argument: str, names: tuple[str, ...], columns: list[Any], rows: int) -> None:
        if len(columns) > 1:
            pairs = zip(names, columns, strict=True)
            arrays = [reader.numbers(name, column, argument.startswith("probs")) for name, column in pairs]
            for name, array in zip(names, arrays, strict=True):
                if array.ndim > 1:
                    problem = f"column {name!r} holds lists beside other columns of {argument}"
                    raise FileError(reader.table.path, problem, "name the list column alone")
            view = self._extend(reader, argument, names, rows, (len(arrays),), np.result_type(*arrays))
            for number, array in enumerate(arrays):
                view[:, number] = array
            return
        if argument in ("targets", "groups"):
            array = reader.values(names[0], columns[0])
        else:
            array = reader.numbers(names[0], columns[0], argument.startswith("probs"))
        self._extend(reader, argument, names, rows, array.shape[1:], array.dtype)[...] = array

    def _extend(
        self,
        reader: _Reader,
        argument: str,
        names: tuple[str, ...],
        rows: int,
        tail: tuple[int, ...],
        dtype: np.dtype[Any],
    ) -> NDArray[Any]:
        part, path = self._parts.setdefault(argument, Growing(self._reserve)), reader.table.path
        if part.dtype is not None:
            first = self._origin[argument]
            if part.tail != tail:
                length, before = (t[0] if t else "no" for t in (tail, part.tail))
                at = f"row {reader.table.row_of(reader.start)}, " if first == path else ""
                there = "row 1" if first == path else first
                problem = f"{at}column {names[0]!r} has lists of {length} values, {there} of {before}"
                raise FileError(path, problem, "give every row a value for each class")
            if (part.dtype.kind == "O") != (dtype.kind == "O"):
                problem = f"column {names[0]!r} holds {_words(dtype)}, in {first} {_words(part.dtype)}"
                raise FileError(path, problem, f"write the {argument} alike in all files")
        self._origin.setdefault(argument, path)
        return part.extend(rows, tail, dtype)

    def finish(self, selection: Selection, whole: bool) -> dict[str, NDArray[Any]]:
        """Return the arrays by argument; ``whole`` where the targets are integers if all of them can be."""
        arrays = {argument: part.finish() for argument, part in self._parts.items()}
        targets = arrays["targets"]
        if whole and targets.dtype.kind == "f" and _all_whole(targets):
            targets = targets.astype(np.int64)
        if selection.labels and targets.ndim == 1 and selection.class_names is not None:
            targets = as_labels(targets, selection.class_names)
        return arrays | {"targets": targets}


class _Reader:
    """Columns of one table as arrays; ``start`` is the position of the batch's first row."""

    def __init__(self, table: Table, selection: Selection) -> None:
        self.table = table
        self.selection = selection
        self.start = 0
        self._signed: set[str] = set()  # the columns with a per-cent sign somewhere
        self._unclear: dict[str, tuple[int, str]] = {}  # and where one has a cell that may be a fraction
        purpose = f"to read {os.path.basename(table.path)}"
        self._arrow = load("pyarrow", purpose)
        self._compute = load("pyarrow.compute", purpose)

    def numbers(self, name: str, column: Any, probs: bool = False) -> NDArray[Any]:
        """Return a column of numbers, or of lists of as many numbers each; ``probs`` may be in per cent."""
        column = self._whole_cells(name, column)
        types, kind = self._arrow.types, column.type
        if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
            return self._lists(name, column, probs)
        return self._fractions(name, column, 0) if probs and self.selection.percent else self._as_numbers(name, column)

    def _as_numbers(self, name: str, column: Any) -> NDArray[Any]:
        types, kind = self._arrow.types, column.type
        if types.is_decimal(kind):
            column = column.cast(self._arrow.float64())
        elif not (types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind)):
            text = _is_text(types, kind)
            problem = f"column {name!r} holds {'text' if text else f'values of type {kind}'}, not numbers"
            signed = name in self.selection.probs and text and len(column) > 0 and is_signed(column[0].as_py())
            raise FileError(self.table.path, problem, REMEDY if signed else "name a column of numbers")
        array: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return array.astype(np.float16, copy=False) if name in self.table.narrow else array

    def _fractions(self, name: str, column: Any, length: int) -> NDArray[Any]:
        """Return per cents, or lists of ``length`` of them in turn, as fractions."""
        if _is_text(self._arrow.types, column.type):
            coded = column.cast(self._arrow.large_string()).dictionary_encode()
            texts, codes = coded.dictionary.to_pylist(), coded.indices.to_numpy(zero_copy_only=False)
            shares: NDArray[Any] = np.array([fraction(text) for text in texts])[codes]
            self._check_signs(name, texts, codes, length)
        else:
            shares = fractions(self._as_numbers(name, column))
        bad = np.flatnonzero(np.isnan(shares))
        if len(bad):
            row, cell = int(bad[0]) // max(length, 1), column[int(bad[0])].as_py()
            place = f"row {self.table.row_of(self.start + row)}, column {name!r}"
            text = cell if isinstance(cell, str) else str(cell).removesuffix(".0")
            problem = f"{place}: {_shown(text) if isinstance(cell, str) else text} is not {WANTED}"
            raise FileError(self.table.path, problem, "correct the cell" if length else self._without(name, text))
        return shares

    def _check_signs(self, name: str, texts: list[str], codes: NDArray[Any], length: int) -> None:
        """Refuse 0.85 beside 85%: the one may be a fraction, or not."""
        if any(map(is_signed, texts)):
            self._signed.add(name)
        places = [int(np.argmax(codes == k)) for k, text in enumerate(texts) if is_unclear(text)]
        if places:
            place = min(places)
            self._unclear.setdefault(name, (self.start + place // max(length, 1), texts[codes[place]]))
        if name in self._signed and name in self._unclear:
            index, text = self._unclear[name]
            problem = f"row {self.table.row_of(index)}, column {name!r}: {unclear(_shown(text))}"
            raise FileError(self.table.path, problem, ALIKE)

    def values(self, name: str, column: Any) -> NDArray[Any]:
        """Return a column of targets or of groups: numbers, lists of numbers or strings."""
        types = self._arrow.types
        kind = column.type.value_type if types.is_dictionary(column.type) else column.type
        if types.is_temporal(kind):
            column = column.cast(self._arrow.string())
        elif not _is_text(types, kind):
            return self.numbers(name, column)
        if not types.is_dictionary(column.type):
            self._no_null(name, column)
            column = column.cast(self._arrow.large_string()).dictionary_encode()
        # A string a class, not a string a row.
        words = np.array([*column.dictionary.to_pylist(), None], dtype=object)
        if column.null_count or column.dictionary.null_count:
            self._no_null(name, column.dictionary_decode())
        strings: NDArray[Any] = words[column.indices.to_numpy(zero_copy_only=False)]
        return strings

    def _lists(self, name: str, column: Any, probs: bool) -> NDArray[Any]:
        lengths = self._compute.list_value_length(column).to_numpy(zero_copy_only=False)
        if len(lengths) == 0:
            return np.empty((0, 0))
        odd = np.flatnonzero(lengths != lengths[0])
        values = column.flatten()
        if values.null_count:
            # With a ragged row before the null the row is found from the ends of the lists.
            null = self._compute.index(values.is_null(), True).as_py()
            row = int(np.searchsorted(np.cumsum(lengths), null, side="right"))
            if not len(odd) or row <= odd[0]:
                raise self._bad_cell(name, row, inside=True)
        if len(odd):
            row, first = int(odd[0]), self.table.row_of(self.start)
            problem = (
                f"row {self.table.row_of(self.start + row)}, column {name!r} has a list of {lengths[row]}, "
                f"row {first} of {lengths[0]}"
            )
            raise FileError(self.table.path, problem, "give every row a value for each class")
        if probs and self.selection.percent:
            array = self._fractions(name, self._whole_cells(name, values), int(lengths[0]))
        else:
            array = self.numbers(name, values)
        if array.ndim > 1:
            raise FileError(self.table.path, f"column {name!r} holds lists of lists", "write one list of numbers a row")
        return array.reshape(len(lengths), int(lengths[0]))

    def _whole_cells(self, name: str, column: Any) -> Any:
        if isinstance(column, self._arrow.ExtensionArray):
            column = column.storage
        if self._arrow.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        self._no_null(name, column)
        return column

    def _no_null(self, name: str, column: Any) -> None:
        if column.null_count:
            raise self._bad_cell(name, self._compute.index(column.is_null(), True).as_py())

    def _bad_cell(self, name: str, row: int, inside: bool = False) -> FileError:
        """Say what is wrong with a cell that came as a null: nothing in it, or something that is no number."""
        table, index = self.table, self.start + row
        text = table.cell(name, index)
        place = f"row {table.row_of(index)}, column {name!r}"
        quoted = sql_name(name)
        if inside and (text is None or "null" in text.lower()):
            return FileError(
                table.path, f"{place} has a list with a null in it", "give every class a value in every row"
            )
        if text is None:
            option = where_option(f"{quoted} IS NOT NULL", table.where)
            return FileError(table.path, f"{place} is empty (null)", f"fill it, or leave such rows out with {option}")
        wanted = "a list of numbers" if inside or text.startswith("[") else table.expected.get(name, "a number")
        problem = f"{place}: {_shown(text)} is not {wanted}"
        if name in self.selection.probs and (is_signed(text) or (text.startswith("[") and "%" in text)):
            return FileError(table.path, problem, REMEDY)
        if text.strip().endswith("%"):
            return FileError(table.path, problem, "write percentages as fractions, 85% as 0.85")
        if not text.startswith("[") and name not in self.selection.targets and table.holds_text(name):
            problem = f"column {name!r} holds text such as {_shown(text)}, not numbers"
            return FileError(table.path, problem, "name a column of numbers")
        return FileError(table.path, problem, self._without(name, text))

    def _without(self, name: str, text: str) -> str:
        """Say how to mend a cell, or do without its row."""
        if len(text) > CELL or "\n" in text or text.startswith("["):
            return "correct the cell"
        option = where_option(f"{self.table.spoken(name)} <> {literal(text)}", self.table.where)
        verb = "leave such rows out" if text.strip().lower() in MISSING else "correct it, or leave the row out"
        return f"{verb} with {option}"


def as_labels(targets: NDArray[Any], names: tuple[str, ...]) -> NDArray[Any]:
    """Return targets as strings, and ``1.0`` as ``1`` where that is how the class is spelled."""
    known = set(names)

    def spell(value: Any) -> str:
        text = str(value)
        if text in known:
            return text
        if isinstance(value, (bool, np.bool_)) and text.lower() in known:
            return text.lower()
        try:
            number = float(text)
        except ValueError:
            return text
        short = str(int(number)) if number.is_integer() else text
        return short if short in known or targets.dtype.kind != "O" else text

    if targets.dtype.kind == "O":
        spelled = {value: spell(value) for value in set(targets.tolist())}
        if all(value == text for value, text in spelled.items()):
            return targets
        return np.array([spelled[value] for value in targets.tolist()], dtype=object)
    values, inverse = np.unique(targets, return_inverse=True)
    strings: NDArray[Any] = np.array([spell(value) for value in values], dtype=object)[inverse]
    return strings


def _all_whole(values: NDArray[Any]) -> bool:
    # NaN compares unequal; beyond 2^53 a double no longer tells neighbours apart.
    return bool(np.all((np.trunc(values) == values) & (np.abs(values) < 2.0**53)))


def _is_text(types: Any, kind: Any) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _shown(text: str) -> str:
    return repr(text if len(text) <= CELL else text[: CELL - 1] + "…")


def _words(dtype: np.dtype[Any]) -> str:
    return "text" if dtype.kind == "O" else "numbers"
