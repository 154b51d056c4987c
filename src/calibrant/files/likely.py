"""What the columns of a file look like, by their first rows: scores, outcomes, labels."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import CalibrantError
from calibrant.files.engine import Table
from calibrant.files.roles import order_of
from calibrant.files.values import is_missing

#: The rows that a proposal is made from, and those that a question is asked after.
ROWS: Final = 20_000
FEW: Final = 1_000
#: How far the sum of a row may be from 1.
ROUNDING: Final = 2e-3

_CELLS: Final = 1_000_000
_CLASSES: Final = 1000


@dataclass(frozen=True, kw_only=True)
class Likely:
    """Columns by what they look like.

    Parameters
    ----------
    scores : tuple of str
        Numbers from 0 to 1, and not only these two.
    outcomes : tuple of str
        0 and 1, but for a few cells, or true and false; then two words; then a single value.
    labels : tuple of str
        Whole numbers or words, each more often than once, or named like the columns of a table.
    rows : tuple of str
        Lists, or rows of an array, that add up to 1.
    tables : tuple of tuples of str
        Neighbours among the scores that add up to 1 in every row, the longest first.
    cells : mapping of str to sequence
        The first cells of every column.
    """

    scores: tuple[str, ...]
    outcomes: tuple[str, ...]
    labels: tuple[str, ...]
    rows: tuple[str, ...]
    tables: tuple[tuple[str, ...], ...]
    cells: Mapping[str, Sequence[Any]]
    _words: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    _numbers: dict[str, NDArray[np.float64]] = field(default_factory=dict, repr=False)

    def texts(self, name: str) -> list[str]:
        """Return the cells of a column as labels; those without one are empty."""
        return [_label(cell) for cell in self.cells[name]]

    def words(self, name: str) -> tuple[str, ...]:
        """Return the labels of a column, sorted, numbers by their size."""
        if name not in self._words:
            self._words[name] = tuple(sorted({text for text in self.texts(name) if text}, key=_by_size))
        return self._words[name]

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Return the cells of a column as numbers; NaN where it has none."""
        if name not in self._numbers:
            self._numbers[name] = np.array([_number(cell) for cell in self.cells[name]], dtype=np.float64)
        return self._numbers[name]


def look(cells: Mapping[str, Sequence[Any]]) -> Likely:
    """Sort columns by what their first cells look like."""
    kinds = {name: _kind(values) for name, values in cells.items()}
    named = {kind: tuple(name for name in cells if kinds[name] == kind) for kind in set(kinds.values())}
    scores = named.get("score", ())
    tables = _tables({name: np.array([_number(cell) for cell in cells[name]], np.float64) for name in scores})
    texts = {name: {_label(cell) for cell in cells[name]} - {""} for name in named.get("text", ())}
    classes = {name for name, words in texts.items() if any(order_of(table, sorted(words)) for table in tables)}
    return Likely(
        scores=scores,
        outcomes=tuple(name for kind in ("outcome", "words", "constant") for name in named.get(kind, ())),
        labels=tuple(name for name in cells if kinds[name] == "label" or name in classes),
        rows=named.get("rows", ()),
        tables=tables,
        cells=cells,
    )


def look_at(table: Table, rows: int = ROWS) -> Likely:
    """Sort a file's columns by what they look like; a file that cannot be read has none."""
    try:
        return look(table.head(min(rows, _CELLS // max(len(table.columns), 1))))
    except CalibrantError:  # the file has another fault as well, which its first reading will name
        return look({})


# ---------------------------------------------------------------- cells


def _kind(cells: Sequence[Any]) -> str:
    present = [cell for cell in cells if not is_missing_cell(cell)]
    if not present:
        return ""
    if isinstance(present[0], dict):
        return ""
    if isinstance(present[0], list):
        return "rows" if _are_rows(present) else ""
    numbers = [_number(cell) for cell in present]
    if any(math.isnan(number) for number in numbers):
        distinct = len({str(cell).strip().lower() for cell in present})
        if distinct == 2:
            return "words"
        return "label" if distinct <= min(_CLASSES, len(present) // 2) else "text" if distinct <= _CLASSES else ""
    values = set(numbers)
    if min(values) >= 0 and max(values) <= 1:
        ends = sum(number in (0, 1) for number in numbers)
        if len(values) == 1 and ends:
            return "constant"
        return "outcome" if ends >= 0.95 * len(numbers) and len(values) <= 3 else "score"
    integers = all(number.is_integer() for number in values)
    return "label" if integers and len(values) <= min(_CLASSES, len(present) // 2) else ""


def _are_rows(lists: Sequence[list[Any]]) -> bool:
    width = len(lists[0])
    if width < 2 or any(not isinstance(row, list) or len(row) != width for row in lists):
        return False
    numbers = np.array([[_number(cell) for cell in row] for row in lists], dtype=np.float64)
    return bool(np.all((numbers >= 0) & (numbers <= 1)) and np.allclose(numbers.sum(axis=1), 1, atol=ROUNDING))


def _tables(scores: Mapping[str, NDArray[np.float64]]) -> tuple[tuple[str, ...], ...]:
    """Return the neighbours among columns that add up to 1 in every row, the longest first, no column twice."""
    names = list(scores)
    if not names:
        return ()
    table = np.array([scores[name] for name in names])
    table = table[:, ~np.isnan(table).any(axis=0)]
    sums = np.vstack([np.zeros(table.shape[1]), np.cumsum(table, axis=0)])
    ends = [
        (start, int(stop))
        for start in range(len(names) - 1 if table.size else 0)
        for stop in np.flatnonzero(np.abs(sums[:, 0] - sums[start, 0] - 1) < ROUNDING)
        if stop > start + 1 and np.all(np.abs(sums[stop] - sums[start] - 1) < ROUNDING)
    ]
    found: list[tuple[int, int]] = []
    for start, stop in sorted(ends, key=lambda each: each[0] - each[1]):
        if all(stop <= first or start >= last for first, last in found):
            found.append((start, stop))
    return tuple(tuple(names[start:stop]) for start, stop in found)


def _label(cell: Any) -> str:
    """Return a cell as a label: whole numbers without a point, truth values in lower case; empty if it is missing."""
    if is_missing_cell(cell) or isinstance(cell, list | dict):
        return ""
    text = str(cell).strip()
    if text.lower() in ("true", "false"):
        return text.lower()
    return re.sub(r"^([-+]?[0-9]+)\.0+$", r"\1", text)


def _by_size(label: str) -> tuple[float, str]:
    return (float(label), "") if re.fullmatch(r"-?[0-9]+", label) else (math.inf, label)


def is_missing_cell(cell: Any) -> bool:
    """Whether a cell holds no value: null, NaN, or a text that stands for it."""
    if isinstance(cell, str):
        return is_missing(cell)
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


def _number(cell: Any) -> float:
    """Return a cell's number; NaN where it has none."""
    if isinstance(cell, str) and cell.strip().lower() in ("true", "false"):
        return float(cell.strip().lower() == "true")
    try:
        return float(cell)
    except (TypeError, ValueError):
        return math.nan


def fraction(cell: Any) -> float:
    """Return the fraction of a cell in per cent; NaN where it has no number."""
    return _number(cell.strip().removesuffix("%") if isinstance(cell, str) else cell) / 100
