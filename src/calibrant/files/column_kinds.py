"""What the values of a column look like: scores, outcomes, labels, or the probabilities of classes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import CalibrantError
from calibrant.files.class_names import order_of
from calibrant.files.column_values import is_missing_cell, number_in

#: The rows that a proposal is made from, and those that a question is asked after.
ROWS: Final = 20_000
FEW: Final = 1_000
_CELLS: Final = 1_000_000
_ROUNDING: Final = 2e-3  # of the sum of a row, which is 1
_CLASSES: Final = 1000
_SURE: Final = 10  # rows that show that a column follows the scores
#: From a number of rows to the first cells of every column, so many at most.
FirstCells = Callable[[int], Mapping[str, Sequence[Any]]]


class Candidates:
    """Columns by what their first cells look like.

    Attributes
    ----------
    scores : tuple of str
        Numbers from 0 to 1, and not only these two.
    outcomes : tuple of str
        0 and 1, but for a few cells, or true and false; then two words; then a single value.
    classes : tuple of str
        Whole numbers or words, each more often than once, or named like the columns of a table.
    lists : tuple of str
        Lists, or rows of an array, that add up to 1.
    tables : tuple of tuple of str
        Neighbours among the scores that add up to 1 in every row, the longest first.
    cells : mapping of str to sequence
        The first cells of every column. Arrays with fewer rows than others are left out.
    """

    def __init__(self, cells: Mapping[str, Sequence[Any]]) -> None:
        rows = max(map(len, cells.values()), default=0)
        self.cells = {name: values for name, values in cells.items() if len(values) == rows}
        self._labels: dict[str, tuple[str, ...]] = {}
        self._numbers: dict[str, NDArray[np.float64]] = {}
        kinds = {name: _kind(values) for name, values in self.cells.items()}

        def of(*wanted: str) -> tuple[str, ...]:
            return tuple(name for kind in wanted for name in kinds if kinds[name] == kind)

        self.scores, self.lists, self.outcomes = of("score"), of("lists"), of("outcome", "words", "constant")
        self.tables = _tables(self.scores, [self.numbers(name) for name in self.scores])
        of_tables = (name for name in of("text") if any(order_of(table, self.labels(name)) for table in self.tables))
        self.classes = tuple(sorted({*of("label"), *of_tables}, key=list(kinds).index))

    def labels(self, name: str) -> tuple[str, ...]:
        """Return the labels of a column, sorted, numbers by their size."""
        if name not in self._labels:
            self._labels[name] = tuple(sorted({*map(_label, self.cells[name])} - {""}, key=_by_size))
        return self._labels[name]

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Return the cells of a column as numbers; NaN where it has none."""
        if name not in self._numbers:
            self._numbers[name] = np.array([number_in(cell) for cell in self.cells[name]], dtype=np.float64)
        return self._numbers[name]

    def follows(self, columns: Sequence[str], name: str) -> bool:
        """Whether a column is the class of the largest probability, or of a score beyond a threshold, in every row."""
        labels, texts = self.labels(name), np.array([_label(cell) for cell in self.cells[name]], dtype=object)
        if len(labels) < 2 or len(texts) < _SURE or not set(columns) <= set(self.scores):
            return False
        table = np.array([self.numbers(column) for column in columns])
        if len(columns) == 1:
            parts = [table[0][texts == label] for label in labels]
            return len(labels) == 2 and (parts[0].max() < parts[1].min() or parts[1].max() < parts[0].min())
        order = order_of(columns, labels)
        if order is None:
            return False
        chosen = [table[order.index(text), row] if text else np.nan for row, text in enumerate(texts)]
        return bool(np.all(np.isnan(chosen) | (chosen >= table.max(axis=0) - _ROUNDING)))

    def may_be_of(self, score: str, label: str) -> bool:
        """Whether a score may be that of a predicted label: the probability of the likeliest of C is 1 / C or more."""
        count = len(self.labels(label))
        return count > 1 and bool(np.fmin.reduce(self.numbers(score)) >= 1 / count - _ROUNDING)

    def are_complements(self, one: str, other: str) -> bool:
        """Whether two columns add up to 1."""
        sums = self.numbers(one) + self.numbers(other)
        return not np.isnan(sums).all() and bool(np.nanmax(np.abs(sums - 1)) <= _ROUNDING)


def first_look(columns: Sequence[str], first_cells: FirstCells, rows: int = ROWS) -> Candidates:
    """Sort columns by what their first rows look like; a file that cannot be read has none."""
    try:
        return Candidates(first_cells(min(rows, _CELLS // max(len(columns), 1))))
    except CalibrantError:  # the file has another fault as well, which its first reading will name
        return Candidates({})


def _kind(cells: Sequence[Any]) -> str:
    """Return the kind of a column's values, the first whose rule fits; empty where none does."""
    present = [cell for cell in cells if not is_missing_cell(cell)]
    if not present or isinstance(present[0], (dict, list)):
        return "lists" if present and _are_rows(present) else ""
    numbers = [number_in(cell) for cell in present]
    rules = _rules_of_texts(present) if any(map(math.isnan, numbers)) else _rules_of_numbers(numbers)
    return next((kind for kind, fits in rules.items() if fits), "")


def _rules_of_texts(cells: Sequence[Any]) -> dict[str, bool]:
    values = {str(cell).strip().lower() for cell in cells}
    return {"words": len(values) == 2, "label": _recur(values, cells), "text": len(values) <= _CLASSES}


def _rules_of_numbers(numbers: Sequence[float]) -> dict[str, bool]:
    values, n_ends = set(numbers), sum(number in (0, 1) for number in numbers)
    are_fractions = min(values) >= 0 and max(values) <= 1
    return {
        "label": _recur(values, numbers) and not are_fractions and all(map(float.is_integer, values)),
        "constant": len(values) == 1 and n_ends > 0,
        "outcome": are_fractions and len(values) <= 3 and n_ends >= 0.95 * len(numbers),
        "score": are_fractions,
    }


def _recur(values: set[Any], cells: Sequence[Any]) -> bool:
    return len(values) <= min(_CLASSES, len(cells) // 2)


def _are_rows(lists: Sequence[list[Any]]) -> bool:
    width = len(lists[0])
    if width < 2 or any(not isinstance(row, list) or len(row) != width for row in lists):
        return False
    numbers = np.array([[number_in(cell) for cell in row] for row in lists], dtype=np.float64)
    return bool(np.all((numbers >= 0) & (numbers <= 1)) and np.allclose(numbers.sum(axis=1), 1, atol=_ROUNDING))


def _tables(names: Sequence[str], numbers: Sequence[NDArray[np.float64]]) -> tuple[tuple[str, ...], ...]:
    """Return the neighbours among columns that add up to 1 in every row, the longest first, no column twice."""
    if not names:
        return ()
    table = np.array(numbers)
    table = table[:, ~np.isnan(table).any(axis=0)]
    sums = np.vstack([np.zeros(table.shape[1]), np.cumsum(table, axis=0)])
    ends = [
        (start, int(stop))
        for start in range(len(names) - 1 if table.size else 0)
        for stop in np.flatnonzero(np.abs(sums[:, 0] - sums[start, 0] - 1) < _ROUNDING)
        if stop > start + 1 and np.all(np.abs(sums[stop] - sums[start] - 1) < _ROUNDING)
    ]
    places: list[tuple[int, int]] = []
    for start, stop in sorted(ends, key=lambda each: each[0] - each[1]):
        if all(stop <= first or start >= last for first, last in places):
            places.append((start, stop))
    return tuple(tuple(names[start:stop]) for start, stop in places)


def _label(cell: Any) -> str:
    """Return a cell as a label: whole numbers without a point, truth values in lower case; empty if it is missing."""
    if is_missing_cell(cell) or isinstance(cell, list | dict):
        return ""
    text = str(cell).strip()
    return text.lower() if text.lower() in ("true", "false") else re.sub(r"^([-+]?[0-9]+)\.0+$", r"\1", text)


def _by_size(label: str) -> tuple[float, str]:
    return (float(label), "") if re.fullmatch(r"-?[0-9]+", label) else (math.inf, label)
