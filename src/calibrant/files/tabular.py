"""Record batches into arrays: widths kept, nulls and bad cells named by file, row and column."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import FileError
from calibrant.files.codes import Coder
from calibrant.files.columns import Selection
from calibrant.files.engine import Table, load
from calibrant.files.growing import Growing
from calibrant.files.paths import reading
from calibrant.files.percent import ALIKE, REMEDY, WANTED, fraction, fractions, is_signed, is_unclear, unclear
from calibrant.files.sql import literal, sql_name, where_option

MISSING = {"", "na", "n/a", "null", "none", "-", "?", "missing"}
CELL = 40


#: Arrays of rows by argument; of targets that are numbers of names, the ``labels`` in the place of ``targets``.
Piece = dict[str, NDArray[Any]]


def rows_of(piece: Piece) -> int:
    """Return how many rows there are."""
    return len(next(iter(piece.values())))


class Alike:
    """What the rows of all files have in common: lists of one length, text or numbers."""

    def __init__(self) -> None:
        self._tails: dict[str, tuple[int, ...]] = {}
        self._texts: dict[str, bool] = {}
        self._origin: dict[str, str] = {}

    def check(
        self,
        argument: str,
        names: tuple[str, ...],
        tail: tuple[int, ...],
        text: bool,
        path: str,
        noun: str,
        row: Callable[[], int],
    ) -> None:
        """Raise for an argument whose values are of another length or kind than before.

        Parameters
        ----------
        argument, names
            What the columns (or arrays, says ``noun``) become, and their names.
        tail, text
            The shape of a row's values, and whether they are text.
        path, row
            The file, and the number of the first row there that they are of.
        """
        if argument in self._origin:
            first, before, what = self._origin[argument], self._tails[argument], f"{noun} {names[0]!r}"
            if before != tail and noun == "array":
                problem = f"{what} has rows of shape {tail}, in {first} of {before}"
                raise FileError(path, problem, "give files whose rows are alike")
            if before != tail:
                length, known = (t[0] if t else "no" for t in (tail, before))
                at = f"row {row()}, " if first == path else ""
                there = "row 1" if first == path else first
                problem = f"{at}{what} has lists of {length} values, {there} of {known}"
                raise FileError(path, problem, "give every row a value for each class")
            if self._texts[argument] != text:
                words = ("text" if each else "numbers" for each in (text, self._texts[argument]))
                problem = f"{what} holds {next(words)}, in {first} {next(words)}"
                raise FileError(path, problem, f"write the {argument} alike in all files")
        self._origin.setdefault(argument, path)
        self._tails.setdefault(argument, tail)
        self._texts.setdefault(argument, text)

    def forget(self, path: str) -> None:
        """Let other files decide what this one, which is left out, has decided."""
        for argument in [argument for argument, origin in self._origin.items() if origin == path]:
            del self._origin[argument], self._tails[argument], self._texts[argument]


def pieces(
    table: Table, selection: Selection, alike: Alike, coders: Mapping[str, Coder] | None = None
) -> Iterator[Piece]:
    """Yield the arrays of a table by argument, some rows at a time.

    ``coders`` may ask for the numbers of groups and of targets that are text or labels, in the place of names.

    Raises
    ------
    FileError
        At the first cell that is null or no number, or a column of another type than expected.
    """
    reader = _Reader(table, selection, {} if coders is None else coders)  # which may be filled later
    with reading(table.path):
        for batch in table.batches(selection):
            piece = {}
            for argument, names in selection.names().items():
                columns = [batch.column(batch.schema.get_field_index(name)) for name in names]
                array, text, coded = reader.array(argument, names, columns)
                alike.check(
                    argument,
                    names,
                    array.shape[1:],
                    text,
                    table.path,
                    selection.noun,
                    lambda: reader.table.row_of(reader.start),
                )
                piece["labels" if coded and argument == "targets" else argument] = array
            yield piece
            reader.start += batch.num_rows


class Collector:
    """The arrays of one or more files with the same columns.

    Parameters
    ----------
    reserve : int
        The number of rows, where it is known.
    """

    def __init__(self, reserve: int = 0) -> None:
        self._parts: dict[str, Growing] = {}
        self._reserve = reserve

    def add(self, piece: Piece) -> None:
        """Append rows."""
        for argument, array in piece.items():
            part = self._parts.setdefault(argument, Growing(self._reserve))
            part.extend(len(array), array.shape[1:], array.dtype)[...] = array

    def cut(self, rows: int) -> None:
        """Take back all but the first rows."""
        if not rows:
            self._parts.clear()  # with the shapes and types that they had
        for part in self._parts.values():
            part.cut(rows)

    def rows(self, start: int, stop: int) -> Piece:
        """Return some rows by argument, in the place where they are."""
        return {argument: part.rows(start, stop) for argument, part in self._parts.items()}

    def finish(self) -> Piece:
        """Return the arrays by argument."""
        return {argument: part.finish() for argument, part in self._parts.items()}


def check_names(path: str, name: str, array: NDArray[Any], row_of: Callable[[int], int], start: int) -> None:
    """Refuse groups without a name: NaN."""
    missing = np.flatnonzero(array != array)
    if len(missing):
        place = f"row {row_of(start + int(missing[0])):,}, column {name!r}"
        problem = f"{place}: expected a name in every row, got a missing value"
        raise FileError(path, problem, "name the row's group, such as 'unknown'")


def whole_targets(targets: NDArray[Any]) -> NDArray[Any]:
    """Return targets as integers, if all of them can be."""
    return targets.astype(np.int64) if targets.dtype.kind == "f" and _all_whole(targets) else targets


class _Reader:
    """Columns of one table as arrays; ``start`` is the position of the batch's first row."""

    def __init__(self, table: Table, selection: Selection, coders: Mapping[str, Coder]) -> None:
        self.table = table
        self.selection = selection
        self.start = 0
        self._coders = coders
        self._signed: set[str] = set()  # the columns with a per-cent sign somewhere
        self._unclear: dict[str, tuple[int, str]] = {}  # and where one has a cell that may be a fraction
        purpose = f"to read {os.path.basename(table.path)}"
        self._arrow = load("pyarrow", purpose)
        self._compute = load("pyarrow.compute", purpose)

    def array(self, argument: str, names: tuple[str, ...], columns: list[Any]) -> tuple[NDArray[Any], bool, bool]:
        """Return the columns of an argument as one array, whether they are text, and whether it has their numbers."""
        if len(columns) > 1:
            pairs = zip(names, columns, strict=True)
            arrays = [self.numbers(name, column, argument.startswith("probs")) for name, column in pairs]
            for name, array in zip(names, arrays, strict=True):
                if array.ndim > 1:
                    problem = f"column {name!r} holds lists beside other columns of {argument}"
                    raise FileError(self.table.path, problem, "name the list column alone")
            rows = np.empty((len(arrays[0]), len(arrays)), np.result_type(*arrays))
            for number, array in enumerate(arrays):
                rows[:, number] = array
            return rows, False, False
        if argument in ("targets", "groups"):
            return self._values(argument, names[0], columns[0])
        return self.numbers(names[0], columns[0], argument.startswith("probs")), False, False

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

    def _values(self, argument: str, name: str, column: Any) -> tuple[NDArray[Any], bool, bool]:
        """Return a column of targets or of groups as numbers, lists of numbers or strings, or numbers of strings."""
        types, coder = self._arrow.types, self._coders.get(argument)
        kind = column.type.value_type if types.is_dictionary(column.type) else column.type
        text = _is_text(types, kind) or types.is_temporal(kind)
        if types.is_temporal(kind):
            column = column.cast(self._arrow.string())
        if argument == "groups" and types.is_nested(kind):
            problem = f"column {name!r} holds lists, not names"
            raise FileError(self.table.path, problem, "name a column with one value a row")
        named = coder is not None and (argument == "groups" or self.selection.labels)
        if not text and (types.is_nested(kind) or not named):
            array = self.numbers(name, column)
            if argument == "groups":
                check_names(self.table.path, name, array, self.table.row_of, self.start)
            return array, False, False
        if not types.is_dictionary(column.type):
            column = self._coded(name, column, text)
        # A string a class, not a string a row.
        words = np.array([*column.dictionary.to_pylist(), None], dtype=object)
        if column.null_count or column.dictionary.null_count:
            self._no_null(name, column.dictionary_decode())
        places = column.indices.to_numpy(zero_copy_only=False)
        if coder is None:
            strings: NDArray[Any] = words[places]
            return strings, text, False
        names = words[:-1] if text else column.dictionary.to_numpy(zero_copy_only=False)
        if argument == "groups":
            own = names.astype(np.float16) if name in self.table.narrow else names
            return coder.codes(list(own), places), text, True
        if argument == "targets" and self.selection.labels and self.selection.class_names is not None:
            names = as_labels(names, self.selection.class_names)
        return coder.codes(names.tolist(), places), text, True

    def _coded(self, name: str, column: Any, text: bool) -> Any:
        """Return a column as the values there are and the place of each row's."""
        if text:
            self._no_null(name, column)
            return column.cast(self._arrow.large_string()).dictionary_encode()
        array = self.numbers(name, column)
        if name == self.selection.groups:
            check_names(self.table.path, name, array, self.table.row_of, self.start)
        wide = array.astype(np.float32) if array.dtype == np.float16 else array  # of which no dictionaries are made
        return self._arrow.array(wide).dictionary_encode()

    def _lists(self, name: str, column: Any, probs: bool) -> NDArray[Any]:
        lengths = self._compute.list_value_length(column).to_numpy(zero_copy_only=False)
        if len(lengths) == 0:
            return np.empty((0, 0))
        odd = np.flatnonzero(lengths != lengths[0])
        if not lengths.any():
            raise FileError(self.table.path, f"column {name!r} holds empty lists", "write a value for each class")
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
