"""What the columns of a file look like, by their names and by their first rows: scores, outcomes, labels, ids."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from itertools import combinations
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import CalibrantError
from calibrant.files.engine import FileTable
from calibrant.files.values import is_missing
from calibrant.runtime.dataclass import dataclass

# ---------------------------------------------------------------- names

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

_TRUE: Final = frozenset(
    re.findall(
        r"\w+",
        """
        true truth truths ytrue gold golden gt ground groundtruth actual actuals actually observed obs real
        reference references target targets outcome outcomes resolution resolved annotated annotation human
        """,
    )
)
_PREDICTED: Final = frozenset(
    re.findall(
        r"\w+",
        """
        pred preds predict predicts predicted predicting prediction predictions ypred yhat hat scored classified
        assigned inferred guess guessed estimate estimated forecast forecasted forecasts argmax
        """,
    )
)
#: Whether a prediction was right; some words say so only alone or after another one: "is right", "exact match".
_RIGHT: Final = frozenset(("correct", "correctness"))
_WRONG: Final = frozenset(("incorrect", "wrong", "misclassified"))
_RIGHT_AFTER: Final = re.compile(r"(?:(?:is|was|exact|pred|prediction|answer|model) )?(?:right|accurate|acc|match|hit)")
#: The label of either: what was true or what was predicted.
_LABEL: Final = frozenset(("label", "labels", "class", "classes", "category", "categories"))
#: A probability of the class or answer that was predicted.
_CONFIDENCE: Final = frozenset(("conf", "confidence", "confidences", "certainty", "chosen", "top", "max", "msp"))
#: Pairs of labels whose second is the event, whoever writes them.
_EVENTS: Final = (
    ("0", "1"),
    ("-1", "1"),
    ("false", "true"),
    ("f", "t"),
    ("no", "yes"),
    ("n", "y"),
    ("neg", "pos"),
    ("negative", "positive"),
    ("lost", "won"),
    ("loss", "win"),
    ("lose", "win"),
    ("absent", "present"),
    ("failure", "success"),
    ("fail", "pass"),
)
_NEGATIONS: Final = ("no", "not", "non")
_MANY: Final = 100  # columns whose names name their classes in full, or not at all


@lru_cache(4096)
def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name, in lower case: ``('pred', 'label')`` of ``predLabel`` and of ``.pred_label``."""
    return tuple(word.lower() for word in _WORD.findall(name))


def says_right(name: str) -> bool:
    """Whether a name says that a column holds whether a prediction was right."""
    words = words_of(name)
    return not _RIGHT.isdisjoint(words) or (words != ("hit",) and bool(_RIGHT_AFTER.fullmatch(" ".join(words))))


def says_predicted(name: str) -> bool:
    """Whether a name says that a column holds predicted labels."""
    return not _PREDICTED.isdisjoint(words_of(name)) and not says_right(name)


def is_about_a_prediction(name: str) -> bool:
    """Whether a name says that a column holds predicted labels, or whether they were right or wrong."""
    return says_predicted(name) or says_right(name) or not _WRONG.isdisjoint(words_of(name))


def says_true(name: str) -> bool:
    """Whether a name says that a column holds what was true."""
    words = words_of(name)
    return not is_about_a_prediction(name) and (words == ("y",) or not _TRUE.isdisjoint(words))


def says_label(name: str) -> bool:
    """Whether a name says that a column holds labels, and not whether they are true or predicted."""
    return not _LABEL.isdisjoint(words_of(name)) and not says_predicted(name) and not says_true(name)


def says_confidence(name: str) -> bool:
    """Whether a name says that a column holds the probability of what was predicted."""
    return not _CONFIDENCE.isdisjoint(words_of(name))


# ---------------------------------------------------------------- events and classes


def event_of(labels: Sequence[str], score: str = "") -> str | None:
    """Return which of two labels is the event of a score; None where the labels and the score's name do not agree."""
    usual = _usual_event(labels)
    named = _named_event(labels, score)
    return named or usual if named is None or usual in (None, named) else None


def _usual_event(labels: Sequence[str]) -> str | None:
    if len(labels) != 2:
        return None
    for no, yes in (labels, labels[::-1]):
        plain = (_plain(no), _plain(yes))
        if plain in _EVENTS or plain[0] in [word + plain[1] for word in _NEGATIONS]:
            return yes
    if all(re.fullmatch(r"[0-9]+", label) for label in labels) and "0" in labels:
        return max(labels, key=int)
    return None


def _named_event(labels: Sequence[str], score: str) -> str | None:
    words = {label: " ".join(words_of(label)) for label in labels if not label.isdecimal()}
    named = [label for label, text in words.items() if text and f" {text} " in f" {' '.join(words_of(score))} "]
    return max(named, key=len, default=None)  # "no_disease", not the "disease" in it


def order_of(columns: Sequence[str], labels: Sequence[str]) -> tuple[str, ...] | None:
    """Return the labels in the order of the columns that are named like them; None where the names leave a doubt.

    What the names of all columns begin and end with is left out. The rest names a label if the two are equal, else if
    one begins or ends with the other, or both say that an event occurred, or did not. Each rule holds for all labels
    at once, one to one, and no two rules give two orders. A label that is in no row is spelled as its column, where the
    others are equal to theirs.
    """
    if len(labels) > len(columns):
        return None
    exact: set[tuple[str, ...]] = set()
    alike: set[tuple[str, ...]] = set()
    spelled = [_plain(label) for label in labels]
    for rests in _rests(columns):
        names = [_plain(rest) for rest in rests]
        exact |= _matched(
            rests, labels, [[k for k, name in enumerate(names) if name == word] for word in spelled], may_lack=True
        )
        for rule in (_same_side, str.startswith, str.endswith) if len(columns) <= _MANY else ():
            places = [
                [k for k, name in enumerate(names) if name and word and (rule(name, word) or rule(word, name))]
                for word in spelled
            ]
            alike |= _matched(rests, labels, places, may_lack=False)
    orders = exact or alike
    return orders.pop() if len(orders) == 1 else None


def _same_side(one: str, other: str) -> bool:
    """Whether both words say that the event occurred, or both that it did not."""
    return any({one, other} <= {pair[side] for pair in _EVENTS} for side in (0, 1))


def _matched(
    rests: Sequence[str], labels: Sequence[str], places: Sequence[Sequence[int]], *, may_lack: bool
) -> set[tuple[str, ...]]:
    """Return the labels in the order of the columns, if each label has one place, and each place one label."""
    of_place = {of_label[0]: label for label, of_label in zip(labels, places, strict=True) if len(of_label) == 1}
    is_complete = len(of_place) == len(rests) or (may_lack and len(of_place) > 1)
    order = tuple(of_place.get(place, rest) for place, rest in enumerate(rests))
    plain = len(set(order)) == len(order) and all(label and "," not in label for label in order)
    return {order} if len(of_place) == len(labels) and is_complete and plain else set()


def _rests(columns: Sequence[str]) -> list[tuple[str, ...]]:
    """Return what may name the classes: the columns' names, and those without what all begin and end with.

    What they begin with is left out up to the last sign that separates words, and whole: ``prob_no`` and ``PH``.
    """
    names = list(columns)
    start = os.path.commonprefix(names)  # noqa: RUF071 - these are not paths
    candidates = [tuple(names)]
    for beginning in {re.sub(r"[A-Za-z0-9]*$", "", start), re.sub(r"[0-9]*$", "", start)}:
        rests = [name[len(beginning) :] for name in names]
        end = os.path.commonprefix([rest[::-1] for rest in rests])[::-1]  # noqa: RUF071
        ending = re.sub(r"^[A-Za-z0-9]*", "", end)
        candidates.append(tuple(rest[: len(rest) - len(ending)] for rest in rests))
    return list(dict.fromkeys(candidates))


def _plain(name: str) -> str:
    """Return a name in lower case, with nothing but letters, digits and the sign of a number."""
    return name if re.fullmatch(r"-[0-9]+", name) else re.sub(r"[\W_]+", "", name).casefold()


# ---------------------------------------------------------------- first rows

#: The rows that a proposal is made from, and those that a question is asked after.
ROWS: Final = 20_000
FEW: Final = 1_000
#: How far the sum of a row may be from 1.
ROUNDING: Final = 2e-3

_CELLS: Final = 1_000_000
_CLASSES: Final = 1000


@dataclass(frozen=True, kw_only=True)
class Likely:
    """Columns by what they look like."""

    scores: tuple[str, ...]  #: numbers from 0 to 1, and not only these two
    outcomes: tuple[str, ...]  #: 0 and 1, but for a few cells, or true and false; then two words; then a single value
    labels: tuple[str, ...]  #: whole numbers or words, each more often than once, or named like the columns of a table
    rows: tuple[str, ...]  #: lists, or rows of an array, that add up to 1
    tables: tuple[tuple[str, ...], ...]  #: neighbours among the scores that add up to 1 in every row, the longest first
    cells: Mapping[str, Sequence[Any]]  #: the first cells of every column
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
            self._numbers[name] = np.array([number_in(cell) for cell in self.cells[name]], dtype=np.float64)
        return self._numbers[name]


def look(cells: Mapping[str, Sequence[Any]]) -> Likely:
    """Sort columns by what their first cells look like."""
    kinds = {name: _kind(values) for name, values in cells.items()}
    named = {kind: tuple(name for name in cells if kinds[name] == kind) for kind in set(kinds.values())}
    scores = named.get("score", ())
    tables = _tables({name: np.array([number_in(cell) for cell in cells[name]], np.float64) for name in scores})
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


def look_at(table: FileTable, rows: int = ROWS) -> Likely:
    """Sort a file's columns by what they look like; a file that cannot be read has none."""
    try:
        return look(table.head(min(rows, _CELLS // max(len(table.columns), 1))))
    except CalibrantError:  # the file has another fault as well, which its first reading will name
        return look({})


# ---------------------------------------------------------------- cells


def _kind(cells: Sequence[Any]) -> str:
    present = [cell for cell in cells if not is_missing_cell(cell)]
    if not present or isinstance(present[0], dict):
        return ""
    if isinstance(present[0], list):
        return "rows" if _are_rows(present) else ""
    most_labels = min(_CLASSES, len(present) // 2)
    numbers = [number_in(cell) for cell in present]
    if not any(map(math.isnan, numbers)):
        return _kind_of_numbers(numbers, most_labels)
    n_words = len({str(cell).strip().lower() for cell in present})
    if n_words == 2:
        return "words"
    return "label" if n_words <= most_labels else "text" if n_words <= _CLASSES else ""


def _kind_of_numbers(numbers: Sequence[float], most_labels: int) -> str:
    values = set(numbers)
    if min(values) < 0 or max(values) > 1:
        are_whole = all(number.is_integer() for number in values)
        return "label" if are_whole and len(values) <= most_labels else ""
    n_ends = sum(number in (0, 1) for number in numbers)
    if len(values) == 1 and n_ends:
        return "constant"
    return "outcome" if n_ends >= 0.95 * len(numbers) and len(values) <= 3 else "score"


def _are_rows(lists: Sequence[list[Any]]) -> bool:
    width = len(lists[0])
    if width < 2 or any(not isinstance(row, list) or len(row) != width for row in lists):
        return False
    numbers = np.array([[number_in(cell) for cell in row] for row in lists], dtype=np.float64)
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


def number_in(cell: Any) -> float:
    """Return the number of a cell, of a truth value 0 or 1; NaN where it has none."""
    word = cell.strip().lower() if isinstance(cell, str) else ""
    if word in ("true", "false"):
        return float(word == "true")
    try:
        return math.nan if "_" in word else float(cell)
    except (TypeError, ValueError):
        return math.nan


def fraction(cell: Any) -> float:
    """Return the fraction of a cell in percent; NaN where it has no number."""
    return number_in(cell.strip().removesuffix("%") if isinstance(cell, str) else cell) / 100


# ---------------------------------------------------------------- ids, for a hint about clusters

#: What has several rows, by the words of a column's name; and the last word of any id.
_THINGS: Final = re.compile(
    r"patient|subject|participant|person|respondent|user|customer|client|member|student|pupil|player|candidate|question"
    r"|prompt|image|img|picture|photo|video|document|doc|article|game|match|race|election|session|conversation"
    r"|household|family|hospital|clinic|school|u?u?id"
)
_OF_THINGS: Final = frozenset(
    ("date", "time", "day", "type", "kind", "status", "result", "score", "prob", "count", "age")
)
#: What is named by several columns together, such as a game by its season and teams: those of things, and when.
_SIDES: Final = re.compile(r"team|club|home|away|opponent|side|fighter|station|store|site|product|symbol")
_WHEN: Final = re.compile(r"season|year|month|week|day|date|round|leg")
_PARTS: Final = 7  # columns whose combinations are tried
_TOGETHER: Final = 3  # columns that together name a thing, at most
_REPEATED: Final = 1.5  # rows of a value, on average


def named_as_ids(columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns whose names are those of things that have several rows, such as ``patient_id``."""
    return tuple(name for name in columns if _has_word(name, _THINGS) and not _OF_THINGS.intersection(_words(name)))


def parts_of_ids(columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that may name a thing with several rows, by themselves or together with others."""
    ids = named_as_ids(columns)
    return tuple(name for name in columns if name in ids or _has_word(name, _SIDES) or _has_word(name, _WHEN))


def cluster_hint(cells: Mapping[str, Sequence[Any]]) -> tuple[tuple[str, ...], ...]:
    """Return which columns name things with several rows each: those that do alone, else the finest combination.

    A combination has at most three columns. At least one of them identifies the thing, not only its time.

    Parameters
    ----------
    cells : mapping of str to sequence
        The first cells of columns, in rows.
    """
    alone = tuple((name,) for name in named_as_ids(tuple(cells)) if is_repeated(cells[name]))
    parts = [name for name in parts_of_ids(tuple(cells)) if is_repeated(cells[name])][:_PARTS]
    if alone or not parts:
        return alone
    present = np.array([[not is_missing_cell(cell) for cell in cells[name]] for name in parts]).all(axis=0)
    if not present.any():
        return ()
    texts = {name: [str(cell).strip() for cell in cells[name]] for name in parts}
    codes = {name: np.unique(column, return_inverse=True)[1][present] for name, column in texts.items()}
    finest = _finest(codes, int(present.sum()))
    return (finest,) if finest else ()


def _finest(codes: Mapping[str, NDArray[np.intp]], rows: int) -> tuple[str, ...]:
    """Return the combination of columns with the most different values, if these are repeated; else none."""
    finest: tuple[int, int, tuple[str, ...]] = (1, 0, ())
    for names in (some for k in range(2, _TOGETHER + 1) for some in combinations(codes, k)):
        together = np.ravel_multi_index([codes[name] for name in names], [codes[name].max() + 1 for name in names])
        candidate = len(np.unique(together)), sum(not _has_word(name, _WHEN) for name in names), names
        if candidate[1] and candidate[:2] > finest[:2] and candidate[0] <= rows / _REPEATED:
            finest = candidate
    return finest[2]


def is_repeated(cells: Sequence[Any]) -> bool:
    """Whether whole numbers, words or dates come in several rows each."""
    present = [str(cell).strip() for cell in cells if not is_missing_cell(cell)]
    if any(re.fullmatch(r"[-+]?\d*\.\d*[1-9]\d*", cell) for cell in present):
        return False
    return 1 < len(set(present)) <= len(present) / _REPEATED


def _has_word(name: str, words: re.Pattern[str]) -> bool:
    return any(map(words.fullmatch, _words(name)))


def _words(name: str) -> list[str]:
    return [word.removesuffix("s") for word in words_of(name)]
