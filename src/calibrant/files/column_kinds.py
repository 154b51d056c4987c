"""What the values of a column look like: scores, outcomes, labels, or the probabilities of classes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations, product
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import CalibrantError
from calibrant.errors.mistakes import RANKS
from calibrant.files.class_names import order_of
from calibrant.files.column_values import is_missing, is_missing_cell, number_in
from calibrant.files.column_words import LIKE_LOGS, LIKE_SCORES, P_VALUES, has_word, role_of
from calibrant.files.odds import FORMS, implied

#: The rows that a proposal is made from, and those that a question is asked after.
ROWS: Final = 20_000
FEW: Final = 1_000
_CELLS: Final = 1_000_000
ROUNDING: Final = 2e-3  #: of the sum of a row, which is 1
_CLASSES: Final = 1000
_MOST_ODDS: Final = 30  # classes
_MOST_WHOLE: Final = 30  # columns whose pairs may be events and trials
_SURE: Final = 10  # rows that show that a column follows the scores
_SPACES: Final = " \t\u00a0\u2007\u2009\u202f"
_TIES: Final = frozenset((0.0, 0.5, 1.0))
_NUMBER: Final = re.compile(r"%?\s*[-+]?(?:[0-9]+(?:[.,][0-9]*)?|[.,][0-9]+)(?:[eE][-+]?[0-9]+)?\s*%?")
_OVERROUND: Final = (0.95, 1.5)  # the sums of 1 / odds over the classes of a row
_BEYOND: Final = 3  # standard errors of a difference that is not chance
_FEW_CELLS: Final = 0.1  # of a column, which are not fractions next to many that are
_ZEROS: Final = 0.05  # of the rows, where numbers are amounts and not ids
_UNLIKELY: Final = 2  # standard errors of a mean that contradict an order of classes
_MISMATCH: Final = 0.25  # of scores and the shares of trials, on average
#: From a number of rows to the first cells of every column, so many at most.
FirstCells = Callable[[int], Mapping[str, Sequence[Any]]]


class Candidates:
    """Columns by what their first cells look like; with ``percent``, numbers up to 100 may be per cents."""

    def __init__(self, cells: Mapping[str, Sequence[Any]], *, percent: bool = False) -> None:
        rows = max(map(len, cells.values()), default=0)
        #: The first cells of every column. Arrays with fewer rows than others are left out.
        self.cells = {name: values for name, values in cells.items() if len(values) == rows}
        self._labels: dict[str, tuple[str, ...]] = {}
        self._numbers: dict[str, NDArray[np.float64]] = {}
        #: The options that say how the numbers of a column are written, where they are not plain fractions.
        self.flags: dict[str, tuple[str, ...]] = {}
        self.logs: list[str] = []  #: those of the scores that are logarithms of probabilities
        kinds: dict[str, str] = {}
        for name, values in list(self.cells.items()):
            values = self.cells[name] = _with_lists(values)
            self._numbers[name], self.flags[name] = _numbers_in(values, percent=percent and _may_be_percent(name))
            if LIKE_LOGS.search(name) and _are_logs(self._numbers[name]):
                self._numbers[name] = np.exp(self._numbers[name])
                self.logs.append(name)
            values, self._numbers[name] = _without_few(name, values, self._numbers[name])
            kinds[name] = "" if P_VALUES.search(name) else _kind(values, self._numbers[name])

        def of(*wanted: str) -> tuple[str, ...]:
            return tuple(name for kind in wanted for name in kinds if kinds[name] == kind)

        self.scores = of("score")  #: numbers from 0 to 1, and not only these two
        self.lists = of("lists")  #: lists, or rows of an array, that add up to 1
        #: 0 and 1, but for a few cells, or true and false; then two words; then a single value.
        self.outcomes = of("outcome", "words", "constant")
        #: Those of the outcomes that are 0, 0.5 and 1.
        self.ties = tuple(name for name in self.outcomes if _TIES.issubset(self.numbers(name)))
        #: Neighbours among the scores that add up to 1 in every row, the longest first.
        self.tables = _tables(self.scores, [self.numbers(name) for name in self.scores])
        self.odds = _odds(self._numbers)  #: neighbours that are odds of all classes, and their form
        of_tables = (name for name in of("text") if any(order_of(table, self.labels(name)) for table in self.tables))
        numbered = (name for name in of("") if role_of(name) in ("true", "label") and self._are_indices(name))
        #: Whole numbers or words, each more often than once, or named like the columns of a table.
        self.classes = tuple(sorted({*of("label"), *of_tables, *numbered}, key=list(kinds).index))

    def _are_indices(self, name: str) -> bool:
        """Whether a column holds the numbers of the classes of a table, most of them once."""
        numbers, width = self.numbers(name), max(map(len, self.tables), default=0)
        return len(numbers) > 0 and bool(np.all((numbers >= 0) & (numbers < width) & (numbers == np.floor(numbers))))

    def labels(self, name: str) -> tuple[str, ...]:
        """Return the labels of a column, sorted, numbers by their size."""
        if name not in self._labels:
            self._labels[name] = tuple(sorted({*map(_label, self.cells[name])} - {""}, key=_by_size))
        return self._labels[name]

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Return the cells of a column as numbers, of per cents the fractions; NaN where it has none."""
        return self._numbers[name]

    def by_scores(self, score: str, name: str) -> tuple[tuple[str, ...], bool]:
        """Return two labels, that of the larger scores second, and whether the difference is beyond chance."""
        texts, numbers = np.array([_label(cell) for cell in self.cells[name]], dtype=object), self.numbers(score)
        parts = [numbers[(texts == label) & ~np.isnan(numbers)] for label in self.labels(name)]
        if min(map(len, parts)) < _SURE // 2:
            return self.labels(name), False
        difference = float(parts[1].mean() - parts[0].mean())
        error = math.sqrt(sum(float(part.var()) / len(part) for part in parts))
        return self.labels(name)[:: 1 if difference > 0 else -1], abs(difference) > _BEYOND * error

    @property
    def one_hot(self) -> tuple[str, ...]:
        """The columns of lists that have a single 1 among zeros in every row."""
        return tuple(
            name
            for name in self.lists
            if all(is_missing_cell(row) or {*map(float, row)} == {0.0, 1.0} for row in self.cells[name])
        )

    def width(self, name: str) -> int:
        """Return how many values the lists of a column have."""
        return next((len(row) for row in self.cells.get(name, ()) if not is_missing_cell(row)), 0)

    @property
    def marks(self) -> tuple[str, ...]:
        """The columns with one word in some rows, and nothing in the others."""
        return tuple(
            name
            for name, cells in self.cells.items()
            if len(self.labels(name)) == 1
            and np.isnan(self.numbers(name)).all()
            and np.mean([is_missing_cell(cell) for cell in cells]) >= _ZEROS
        )

    def are_in_order(self, name: str, truth: str) -> bool:
        """Whether nothing contradicts that the lists of a column have the order of the sorted labels of another one."""
        places = {label: place for place, label in enumerate(self.labels(truth))}
        rows = [
            ([number_in(cell) for cell in row], places[label])
            for row, label in zip(self.cells[name], map(_label, self.cells[truth]), strict=True)
            if label and not is_missing_cell(row)
        ]
        table, codes = np.array([row for row, _ in rows]), np.array([code for _, code in rows])
        return not contradict(table, codes)

    @property
    def amounts(self) -> tuple[str, ...]:
        """The columns of numbers that are 0 in some rows and more in others, such as millimetres of rain."""
        return tuple(
            name
            for name, numbers in self._numbers.items()
            if np.all(numbers >= 0)
            and np.sum(numbers == 0) >= max(2, _ZEROS * len(numbers))
            and len(np.unique(numbers)) > 2
        )

    def counts_beside(self, score: str) -> list[tuple[str, str]]:
        """Return the columns of events and of trials whose shares are like a score, in every row of a table."""
        wholes = {
            name: numbers
            for name, numbers in self._numbers.items()
            if name != score and len(numbers) and np.all(numbers >= 0) and np.all(numbers == np.floor(numbers))
        }
        found = []
        for events, trials in permutations(wholes if len(wholes) <= _MOST_WHOLE else (), 2):
            k, n = wholes[events], wholes[trials]
            if np.all(k <= n) and np.any(k < n) and n.sum() >= 2 * len(n):
                off = np.abs(k - n * self.numbers(score)).sum() / n.sum()
                found += [(events, trials)] * bool(off <= _MISMATCH)
        return found

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
        return bool(np.all(np.isnan(chosen) | (chosen >= table.max(axis=0) - ROUNDING)))

    def may_be_of(self, score: str, label: str) -> bool:
        """Whether a score may be that of a predicted label: the probability of the likeliest of C is 1 / C or more."""
        count = len(self.labels(label))
        return count > 1 and bool(np.fmin.reduce(self.numbers(score)) >= 1 / count - ROUNDING)

    def are_complements(self, one: str, other: str) -> bool:
        """Whether two columns add up to 1."""
        sums = self.numbers(one) + self.numbers(other)
        return not np.isnan(sums).all() and bool(np.nanmax(np.abs(sums - 1)) <= ROUNDING)


def first_look(
    columns: Sequence[str], first_cells: FirstCells, rows: int = ROWS, *, percent: bool = False
) -> Candidates:
    """Sort columns by what their first rows look like; a file that cannot be read has none."""
    try:
        return Candidates(first_cells(min(rows, _CELLS // max(len(columns), 1))), percent=percent)
    except CalibrantError:  # the file has another fault as well, which its first reading will name
        return Candidates({})


def _numbers_in(cells: Sequence[Any], *, percent: bool) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Return the numbers in cells, NaN for other cells, and the options that say how they are written."""
    texts = [cell.strip() for cell in cells if isinstance(cell, str) and not is_missing(cell)]
    signs = {sign for sign in "%,." if any(sign in text for text in texts)}
    others = sum(_NUMBER.fullmatch(text) is None for text in texts)  # such as '<1%'
    if {"%", ","}.isdisjoint(signs) or {",", "."} <= signs or others > _FEW_CELLS * len(texts):
        signs, plain = set(), cells
    else:
        plain = [cell.strip("%" + _SPACES).replace(",", ".") if isinstance(cell, str) else cell for cell in cells]
    numbers = np.array([number_in(cell) for cell in plain], dtype=np.float64)
    is_percent = "%" in signs or (percent and _look_percent(numbers[~np.isnan(numbers)]))
    flags = ("--percent",) * is_percent + ("--decimal-comma",) * ("," in signs)
    return numbers / 100 if is_percent else numbers, flags


def contradict(table: NDArray[np.float64], codes: NDArray[np.integer[Any]]) -> bool:
    """Whether the rows of a class have, beyond chance, smaller probabilities in the column of the class than others."""
    for code in range(table.shape[1] if len(codes) else 0):
        own, column = table[codes == code, code], table[:, code]
        if len(own) >= _SURE and own.mean() - column.mean() < -_UNLIKELY * column.std() / math.sqrt(len(own)):
            return True
    return False


def _with_lists(cells: Sequence[Any]) -> Sequence[Any]:
    """Return the cells of a column of lists that are written as texts, such as ``[0.2, 0.8]``, as lists."""
    texts = [cell for cell in cells if not is_missing_cell(cell)]
    if not texts or not all(isinstance(cell, str) and cell.lstrip().startswith("[") for cell in texts):
        return cells
    try:
        return [None if is_missing_cell(cell) else json.loads(cell) for cell in cells]
    except ValueError:
        return cells


def _are_logs(numbers: NDArray[np.float64]) -> bool:
    """Whether numbers may be logarithms of probabilities."""
    known = numbers[~np.isnan(numbers)]
    return len(known) > 0 and bool(known.max() <= 0) and bool(known.min() < 0)


def _without_few(
    name: str, cells: Sequence[Any], numbers: NDArray[np.float64]
) -> tuple[Sequence[Any], NDArray[np.float64]]:
    """Return a column that is named like scores without its few cells that are not fractions, such as ``-1``."""
    known = np.array([not is_missing_cell(cell) for cell in cells])
    is_fraction = (numbers >= 0) & (numbers <= 1)
    few, between = known & ~is_fraction, (numbers > 0) & (numbers < 1)
    most = _FEW_CELLS * known.sum() if is_like_scores(name) else 1 if 2 * between.sum() > known.sum() else 0
    if not 0 < few.sum() <= most or few.sum() == known.sum():
        return cells, numbers
    return [None if bad else cell for cell, bad in zip(cells, few, strict=True)], np.where(few, np.nan, numbers)


def is_like_scores(name: str) -> bool:
    """Whether a name says that a column may hold probabilities."""
    return bool(LIKE_SCORES.search(name)) or role_of(name) == "predicted"


def _look_percent(numbers: NDArray[np.float64]) -> bool:
    """Whether numbers lie from 0 to 100, and are more than ranks or deciles."""
    if not len(numbers) or not numbers.min() >= 0 or not RANKS < float(numbers.max()) <= 100:
        return False
    return len(numbers) == 1 or int(np.sum(numbers > 1)) > 1  # one may be a sum below the others


def _may_be_percent(name: str) -> bool:
    """Whether a name does not say that a column of numbers up to 100 is a rank, an age or a number of something."""
    others = ("rank", "thing", "of a thing", "when")
    is_score = bool(LIKE_SCORES.search(name)) or not any(has_word(name, what) for what in others)
    return is_score and not has_word(name, "odds")


def _odds(numbers: Mapping[str, NDArray[np.float64]]) -> dict[tuple[str, ...], str]:
    """Return the neighbours that are odds of all classes: the sum of 1 / odds is a little more than 1 in every row."""
    found: dict[tuple[str, ...], str] = {}
    names = list(numbers)
    for form, start in product(FORMS, range(len(names))):
        total: Any = 0.0
        for stop in range(start + 1, min(start + _MOST_ODDS, len(names)) + 1):
            total = total + implied(numbers[names[stop - 1]], form)
            some = tuple(names[start:stop])
            if not np.size(total) or not total.max() <= _OVERROUND[1]:  # also if a number is not odds
                break
            is_whole = all(np.all(numbers[name] == np.floor(numbers[name])) for name in some)
            if stop > start + 1 and total.min() >= _OVERROUND[0] and total.mean() >= 1:
                found |= {} if form == "decimal" and is_whole else {some: form}
    chosen: dict[tuple[str, ...], str] = {}
    for some in sorted(found, key=len, reverse=True):  # those of the next bookmaker may follow
        if not any(set(some) & set(other) for other in chosen):
            chosen[some] = found[some]
    return chosen


def _kind(cells: Sequence[Any], numbers: NDArray[np.float64]) -> str:
    """Return the kind of a column's values, the first whose rule fits; empty where none does."""
    present = [cell for cell in cells if not is_missing_cell(cell)]
    if not present or isinstance(present[0], (dict, list)):
        return "lists" if present and _are_rows(present) else ""
    known = numbers[~np.isnan(numbers)].tolist()
    if len(known) < len(present):
        values = {str(cell).strip().lower() for cell in present}
        rules = {"words": len(values) == 2, "label": _recur(values, present), "text": len(values) <= _CLASSES}
    else:
        rules = _rules_of_numbers(known)
    return next((kind for kind, fits in rules.items() if fits), "")


def _rules_of_numbers(numbers: Sequence[float]) -> dict[str, bool]:
    values, n_ends = set(numbers), sum(number in (0, 1) for number in numbers)
    are_fractions = min(values) >= 0 and max(values) <= 1
    return {
        "label": _recur(values, numbers) and not are_fractions and all(map(float.is_integer, values)),
        "constant": len(values) == 1 and n_ends > 0,
        "outcome": values == _TIES or (are_fractions and len(values) <= 3 and n_ends >= 0.95 * len(numbers)),
        "score": are_fractions,
    }


def _recur(values: set[Any], cells: Sequence[Any]) -> bool:
    return len(values) <= min(_CLASSES, len(cells) // 2)


def _are_rows(lists: Sequence[list[Any]]) -> bool:
    width = len(lists[0])
    if width < 2 or any(not isinstance(row, list) or len(row) != width for row in lists):
        return False
    numbers = np.array([[number_in(cell) for cell in row] for row in lists], dtype=np.float64)
    return bool(np.all((numbers >= 0) & (numbers <= 1)) and np.allclose(numbers.sum(axis=1), 1, atol=ROUNDING))


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
        for stop in np.flatnonzero(np.abs(sums[:, 0] - sums[start, 0] - 1) < ROUNDING)
        if stop > start + 1 and np.all(np.abs(sums[stop] - sums[start] - 1) < ROUNDING)
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
