"""The rows of decision logs: answers in the forms of several services, and labels.

A row has one or more answers to typed questions. Answers are a list with names (OpenAI), or a map from the question
(Jev, Clef, Laya), also within wrappers of batches, with dots in the names of columns, or one answer a row (jev-eval's
cache).
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import CalibrantError, nearest, quoted
from calibrant.inputs.decision_log import DecisionLog, Kind, Question
from calibrant.inputs.predictions import sum_tolerance
from calibrant.runtime.arrays import Float64s

if TYPE_CHECKING:
    from calibrant.files.decision_columns import AnswerColumns

#: How an error is made: from the number of the row or None, what is wrong, and what to do.
Fail = Callable[[int | None, str, str], CalibrantError]
#: The keys of the map of labels, and of the id of a row.
LABELS: Final = ("labels", "gold", "expected")
IDS: Final = ("custom_id", "id", "row_id", "input_id")
#: Where a service's response is in a row of a batch.
WRAPPERS: Final = ("response", "body", "result", "decision")
#: The keys of a row of jev-eval's cache, which has one answer.
CACHE: Final = frozenset({"answer", "gold", "question", "id"})
_ANSWER_KEYS: Final = ("noul", "probability", "choice", "score", "confidence", "type")
_NUMERIC: Final = ("noul", "probability", "score", "confidence", "probabilities")
_FLAT: Final = re.compile(rf"answers\.(.+?)\.(probabilities|legend|{'|'.join(_ANSWER_KEYS)})(?:\.(.+))?", re.DOTALL)
_FLAT_LABEL: Final = re.compile(rf"(?:{'|'.join(LABELS)})\.(.+)", re.DOTALL)
_KINDS: Final[Mapping[str, Kind]] = {
    "predicate": "predicate",
    "noul": "predicate",
    "choice": "choice",
    "score": "score",
}
_NUMBERS: Final = frozenset({float, int})
_LARGEST: Final = 1e300  # of numbers that are checked later
_MOST_UNMATCHED: Final = 0.5  # of the questions
_NAMED: Final = 3  # questions that an error names

#: An option: a text, or a truth value, which differs from its text.
Option = str | bool


class Cell(str):
    """A cell of a CSV, which has no type: it may stand for a number or for a truth value."""

    __slots__ = ()


_TRUTHS: Final = {"true": True, "false": False, "1": True, "0": False}


class Answer(NamedTuple):
    """One answer: its kind, the options and their probabilities, and the stated confidence.

    A predicate has no options and the probability of yes. ``places`` has the place of each label among the options, by
    `_key`: of an option itself, and of a level also by its number and its text.
    """

    kind: Kind
    options: tuple[Option, ...]
    probs: Sequence[Any]
    confidence: Any = None
    places: Mapping[tuple[bool, Any], int] = MappingProxyType({})


# ---------------------------------------------------------------- forms


def is_decisions(row: Mapping[str, Any]) -> bool:
    """Whether a row is one of a decision log: it has answers that are typed, or have probabilities."""
    if row.keys() >= CACHE and isinstance(row["question"], dict) and _is_answer(row["answer"]):
        return True
    answers = _response(row).get("answers")
    if isinstance(answers, dict):
        return any(map(_is_answer, answers.values()))
    if isinstance(answers, list):
        return any(isinstance(each, dict) and each.get("type") in (*_KINDS, "refusal") for each in answers)
    return any(_FLAT.fullmatch(key) for key in row)


def _is_answer(value: object) -> bool:
    """Whether a value is an answer of a map: another log may have answers of another kind."""
    if not isinstance(value, dict):
        return False
    return "noul" in value or isinstance(value.get("probabilities"), dict | list) or value.get("type") == "refusal"


def _response(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the response of a service, which may be within wrappers."""
    for _ in WRAPPERS:
        if "answers" in row:
            return row
        row = next((row[key] for key in WRAPPERS if isinstance(row.get(key), dict)), row)
    return row


@lru_cache(65_536)
def _flat_key(name: str) -> tuple[str, str, str] | None:
    """Return the question, the key and the option of a column such as ``answers.urgent.noul``; None of another."""
    found = _FLAT.fullmatch(name)
    return None if found is None else (found[1], found[2], found[3] or "")


def _flat_answers(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answers of a row whose columns have dots in their names."""
    answers: dict[str, Any] = {}
    for name, value in row.items():
        if value is None or not name.startswith("answers.") or (key := _flat_key(name)) is None:
            continue
        answer = answers.setdefault(key[0], {})
        inner = answer.setdefault(key[1], {}) if key[2] else answer
        if not isinstance(inner, dict) or isinstance(inner.get(key[2] or key[1]), dict):
            return {**answers, key[0]: "two columns for one key"}
        inner[key[2] or key[1]] = _number_of(value) if key[1] in _NUMERIC else value
    return answers


def _number_of(value: Any) -> Any:
    """Return a cell as a number, if it is one."""
    try:
        return float(value) if isinstance(value, Cell) else value
    except ValueError:
        return value


def _is_missing(label: Any) -> bool:
    return label is None or label != label  # NaN, as frames write it


def labels_of(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the labels in a row, by question; None if it has none."""
    for key in LABELS:
        if isinstance(row.get(key), dict):
            labels: Mapping[str, Any] = row[key]
            return labels
    flat = {found[1]: value for name, value in row.items() if (found := _FLAT_LABEL.fullmatch(name))}
    return flat or None


def group_of(row: Mapping[str, Any], by: str) -> str | None:
    """Return the value of a column, or of a key within others such as ``meta.language``; None if it is missing."""
    value: Any = row.get(by)
    if value is None:
        value = row
        for key in by.split("."):
            value = value.get(key) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int | float) and value == value else None


# ---------------------------------------------------------------- one answer


def answer_of(value: Any) -> Answer | str | None:
    """Return an answer, None for a refusal, or what is wrong with it."""
    if not isinstance(value, dict):
        return "is not an object"
    stated = value.get("type")
    if stated == "refusal":
        return None
    if stated is not None and (not isinstance(stated, str) or stated not in _KINDS):
        return f"has the unknown type {quoted(str(stated))}"
    return _answer(value, _found_kind(value) if stated is None else _KINDS[stated])


def _found_kind(value: Mapping[str, Any]) -> Kind:
    """Return the kind of an answer that does not state it."""
    if value.get("noul") is not None:
        return "predicate"
    return "score" if "score" in value or "legend" in value else "choice"


def _answer(value: Mapping[str, Any], kind: Kind) -> Answer | str:
    """Return an answer of a kind, or what is wrong with it."""
    probs, p = value.get("probabilities"), _of_yes(value)
    if probs is None or kind == "predicate":
        return "has no probabilities" if p is None else Answer("predicate", (), (p,), value.get("confidence"))
    confidence = value.get("confidence")
    if isinstance(probs, dict):
        given = {key: each for key, each in probs.items() if each is not None}
        return _of_map(kind, given, value.get("legend"), confidence)
    return _of_list(kind, probs, confidence) if isinstance(probs, list) else "has no probabilities"


def _of_yes(value: Mapping[str, Any]) -> Any:
    """Return the probability of yes of a predicate; None if it is missing."""
    return value.get("probability") if value.get("noul") is None else value["noul"]


def _of_map(kind: Kind, probs: dict[str, Any], legend: Any, confidence: Any) -> Answer | str:
    """Return an answer whose probabilities are a map from the option."""
    options = tuple(probs)
    if kind != "score":
        return Answer(kind, options, tuple(probs.values()), confidence, _places(options))
    named = legend.items() if isinstance(legend, dict) else ()
    levels, places = _levels(options, tuple([each for each in named if type(each[1]) in (*_NUMBERS, str)]))
    if not levels:
        return "has a legend that gives two levels the same number or text"
    return Answer(kind, levels, tuple(map(probs.__getitem__, levels)), confidence, places)


def _of_list(kind: Kind, probs: list[Any], confidence: Any) -> Answer | str:
    """Return an answer whose probabilities are a list of options with their values."""
    try:
        options = tuple([each["value"] for each in probs])
        numbers = tuple([each["probability"] for each in probs])
        hash(options)
    except (KeyError, TypeError):
        return "has a list of probabilities in which an entry lacks 'value' or 'probability'"
    types = {*map(type, options)}
    if kind != "score":
        if not types <= {str, bool}:
            return "has an option that is neither text nor true or false"
        return Answer(kind, options, numbers, confidence, _places(options))
    if not types <= {*_NUMBERS, str}:
        return "has a level whose value is not a number"
    order, levels, places = _listed_levels(options, tuple(map(_level_name, probs)))
    return Answer(kind, levels, [numbers[k] for k in order], confidence, places)


def _level_name(level: Mapping[str, Any]) -> str:
    """Return the name of a level in a list: its label, or else its value."""
    return str(level.get("label") or level["value"])


def _key(label: Any) -> tuple[bool, Any]:
    """Return what tells a truth value from a number, which are equal in Python."""
    return isinstance(label, bool), label


@lru_cache(4096)
def _places(options: tuple[Option, ...]) -> dict[tuple[bool, Any], int]:
    return {_key(option): place for place, option in enumerate(options)}


@lru_cache(4096)
def _levels(
    keys: tuple[str, ...], legend: tuple[tuple[str, Any], ...]
) -> tuple[tuple[str, ...], dict[tuple[bool, Any], int]]:
    """Return levels in their order, and the place of each by its key, its number and its text.

    A legend gives the number of each level, or the text of each number. Without one, numbers are in their order, and
    other levels in the order of the answer. Levels are empty if two have the same name.
    """
    texts, numbers = dict[str, str](), {key: n for key in keys if (n := _number_in(key)) is not None}
    for key, value in legend:
        if key in keys and type(value) in _NUMBERS:
            numbers[key] = value
        elif key in keys and isinstance(value, str):
            texts[key] = value
    levels = tuple(sorted(keys, key=numbers.__getitem__)) if len(numbers) == len(keys) else keys
    if any(len({*names.values()}) < len(names) for names in (texts, numbers)):
        return (), {}
    names = [(names.get(level), place) for names in (texts, numbers) for place, level in enumerate(levels)]
    return levels, {_key(name): place for name, place in names if name is not None} | _places(levels)


@lru_cache(4096)
def _listed_levels(
    values: tuple[float | str, ...], labels: tuple[str, ...]
) -> tuple[tuple[int, ...], tuple[str, ...], dict[tuple[bool, Any], int]]:
    """Return the order of levels by their values, their labels, and the place of each by its value and its label.

    In a table, values are texts if the options of other questions are. Texts without a number keep their order.
    """
    numbers = [_number_in(value) for value in values]
    order = tuple(range(len(values)))
    known = [number for number in numbers if number is not None]
    if len(known) == len(values):
        order = tuple(sorted(order, key=known.__getitem__))
    names = [(name, place) for place, k in enumerate(order) for name in (values[k], numbers[k]) if name is not None]
    levels = tuple([labels[k] for k in order])
    return order, levels, {(False, name): place for name, place in names} | _places(levels)


def _number_in(value: float | str) -> float | None:
    """Return the number of a level; None if it is a text without one."""
    if isinstance(value, str):
        return int(value) if re.fullmatch(r"-?[0-9]{1,9}", value) else None
    return value


def places_of_labels(first: Answer, labels: Sequence[Any]) -> list[int] | None:
    """Return the places of labels among the options of the first answer; None if one needs a closer look."""
    types = {*map(type, labels)}
    if first.kind == "predicate":
        return list(map(int, labels)) if types == {bool} else None
    if not types <= {str, int}:
        return None
    places = {name: place for (is_truth_value, name), place in first.places.items() if not is_truth_value}
    found = [places.get(label) for label in labels]
    return None if None in found else [place for place in found if place is not None]


# ---------------------------------------------------------------- all answers to a question


class _Answers:
    """The answers to one question so far."""

    def __init__(self, name: str, fail: Fail, yes: str | None) -> None:
        self.name, self.fail, self.yes = name, fail, yes
        self.kind: Kind | None = None
        self.options: tuple[Option, ...] = ()  # of the first row
        self.fixed = True
        self.orders: dict[tuple[Option, ...], tuple[int, ...]] = {}  # of the first row's options among others
        self.probs, self.widths, self.targets, self.rows = array("d"), array("q"), array("q"), array("q")
        self.confidence = array("d")
        self.inputs: set[int] = set()  # of a cache
        self.refused, self.without_label = array("q"), array("q")
        self.unanswered = 0

    def add(self, row: int, value: Any, label: Any) -> None:
        """Add an answer with its label, None without one."""
        answer = answer_of(value)
        if answer is None:
            self.refused.append(row)
            return
        if isinstance(answer, str):
            remedy = "write the probability of each option, or leave the answer out"
            raise self.fail(row, f"the answer to {quoted(self.name)} {answer}", remedy)
        if answer.kind != (self.kind or answer.kind):
            problem = (
                f"the answer to {quoted(self.name)} has type {answer.kind}, but answers in earlier rows have "
                f"type {self.kind}"
            )
            raise self.fail(row, problem, "give each type of question a name of its own")
        if label is None:
            self.without_label.append(row)
            return
        first, self.kind = self.kind is None, answer.kind
        if answer.kind == "predicate":
            self._append(row, answer.probs, self._truth(row, label), answer.confidence)
            return
        options, target = answer.options, self._place(row, answer, label)
        if first:
            self.options = options
        if options == self.options:
            self._append(row, answer.probs, target, answer.confidence)
        elif (order := self._order(options)) is not None:
            self._append(row, [answer.probs[k] for k in order], order.index(target), answer.confidence)
        else:  # the options differ, and remain in their own order
            self.fixed = False
            self._append(row, answer.probs, target, answer.confidence)

    def continues(self, part: AnswerColumns) -> bool:
        """Whether answers in columns are of the kind of those before, with the same options in the same order."""
        return self.kind is None or (part.kind in (None, self.kind) and part.options in ((), self.options))

    def extend(self, part: AnswerColumns, before: int) -> None:
        """Add the answers in columns, whose rows are behind so many others."""
        n = len(part.rows)
        if n:
            self.kind, self.options = part.kind, part.options
        self.probs.frombytes(np.ascontiguousarray(part.probs).tobytes())
        self.widths.extend([part.probs.shape[1]] * n)
        self.targets.frombytes(part.targets.tobytes())
        self.confidence.frombytes(np.ascontiguousarray(part.confidence).tobytes())
        for mine, rows in ((self.rows, part.rows), (self.refused, part.refused)):
            mine.frombytes((rows + before).tobytes())
        self.without_label.frombytes((part.without_label + before).tobytes())
        self.unanswered += part.unanswered

    def _append(self, row: int, probs: Sequence[Any], target: int, confidence: float) -> None:
        if not _NUMBERS.issuperset(map(type, probs)) or any(abs(p) > _LARGEST for p in probs):
            problem = f"the answer to {quoted(self.name)} has a probability that is not a number"
            raise self.fail(row, problem, "write probabilities as numbers")
        self.probs.extend(probs)
        self.widths.append(len(probs))
        self.targets.append(target)
        self.rows.append(row)
        is_stated = type(confidence) in _NUMBERS and abs(confidence) < _LARGEST
        self.confidence.append(confidence if is_stated else math.nan)

    def _order(self, options: tuple[Option, ...]) -> tuple[int, ...] | None:
        """Return the places of the first row's options among these; None if they are not the same."""
        if not self.fixed or len(options) != len(self.options):
            return None
        if options not in self.orders:
            places, keys = _places(options), [*map(_key, self.options)]
            if not places.keys() >= {*keys}:
                return None
            self.orders[options] = tuple([places[key] for key in keys])
        return self.orders[options]

    def _truth(self, row: int, label: Any) -> int:
        """Return the label of a predicate."""
        if isinstance(label, bool) or (type(label) in _NUMBERS and label in (0, 1)):
            return int(label)
        if isinstance(label, Cell) and self.yes is None and label.lower() in _TRUTHS:
            return int(_TRUTHS[label.lower()])
        if isinstance(label, str) and self.yes is not None:
            return int(label == self.yes)
        remedy = "write true or false"
        if isinstance(label, str):
            remedy += f", or pass yes={label!r} if this text means true and every other text means false"
        raise self.fail(row, f"the label of {quoted(self.name)} is {label!r}, not true or false", remedy)

    def _place(self, row: int, answer: Answer, label: Any) -> int:
        """Return the place of the right option."""
        options = answer.options
        if len(options) < 2 or len({*options}) < len(options):
            problem = f"the answer to {quoted(self.name)} has fewer than two options, or the same option twice"
            raise self.fail(row, problem, "write the probability of each option once")
        place = answer.places.get(_key(label)) if isinstance(label, str | int | float) else None
        if place is None and isinstance(label, Cell):
            number, truth = _number_of(label), _TRUTHS.get(label.lower()) if not label.isdecimal() else None
            place = answer.places.get((truth is not None, number if truth is None else truth))
        if place is not None:
            return place
        texts = [str(option) for option in options]
        remedy = nearest(str(label), texts)
        if str(label).lower() in map(str.lower, texts):
            remedy = (
                "write the label exactly like the option, with the same capital letters, and with quotes only if the "
                "option has quotes"
            )
        raise self.fail(row, f"the label of {quoted(self.name)} is {label!r}, which is not an option", remedy)

    def question(self) -> Question | None:
        """Return the question; None without a labelled answer."""
        if self.kind is None:
            return None
        rows, targets = np.array(self.rows, np.int64), np.array(self.targets, np.int64)
        stated = np.array(self.confidence, np.float64)
        return Question(
            name=self.name,
            kind=self.kind,
            probs=self._probs(rows),
            targets=targets,
            classes=self.options if self.fixed else (),
            rows=rows,
            confidence=None if np.isnan(stated).all() else stated,
            refused=np.array(self.refused, np.int64),
            without_label=np.array(self.without_label, np.int64),
            unanswered=self.unanswered,
        )

    def _probs(self, rows: NDArray[np.int64]) -> Float64s:
        """Return the probabilities, (N,) or (N, C), checked."""
        probs, widths = np.array(self.probs, np.float64), np.array(self.widths, np.int64)
        wrong = ~((probs >= 0) & (probs <= 1))  # NaN too
        if wrong.any():
            row = int(rows[np.searchsorted(np.cumsum(widths), np.flatnonzero(wrong)[0], side="right")])
            value = float(probs[wrong][0])
            problem = f"the answer to {quoted(self.name)} has the probability {value:g}"
            raise self.fail(row, problem, "write probabilities between 0 and 1")
        if self.kind == "predicate":
            return probs
        if (widths == widths[0]).all():
            table = probs.reshape(-1, int(widths[0]))
        else:
            table = np.zeros((len(widths), int(widths.max())))
            table[np.arange(table.shape[1]) < widths[:, None]] = probs
        sums = table.sum(axis=1)
        far = np.flatnonzero(np.abs(sums - 1) > sum_tolerance("float64"))
        if len(far):
            problem = f"the probabilities of {quoted(self.name)} add up to {sums[far[0]]:.4g}, not 1"
            raise self.fail(int(rows[far[0]]), problem, "write the probabilities of all options")
        return table


# ---------------------------------------------------------------- all rows


class DecisionRows:
    """The rows of a log so far; `log` returns them as a value.

    ``labels`` has the labels of each row by its id, or those in the order of the rows; None if they are in the rows.
    """

    def __init__(
        self,
        fail: Fail,
        *,
        labels: Mapping[str, Mapping[str, Any]] | Sequence[Mapping[str, Any]] | None = None,
        yes: str | None = None,
        by: str | None = None,
    ) -> None:
        self._fail, self._labels, self._yes, self._by = fail, labels, yes, by
        self._groups: list[str] = []
        self._answers: dict[str, _Answers] = {}
        self._form = ""
        self._ids: dict[str, int] = {}
        self._with_id = self._n = self._labelled = 0
        self._models: dict[str, None] = {}
        self._inputs: dict[Any, int] = {}  # of a cache, whose rows are answers
        self._used: set[str] = set()

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a row; it raises what ``fail`` makes of a row that cannot be read."""
        if "answers" not in row and row.keys() >= CACHE:
            self._add_cached(row)
            return
        response, number = _response(row), self._n
        answers = self._answers_in(number, row, response)
        self._n += 1
        self._add_group(number, row)
        name = self._id_of(number, row)
        self._name_model(response.get("model"))
        labels = self._labels_of(number, name, row, response)
        for question, value in answers.items():
            if value is not None:
                label = labels.get(question)
                self._of(question).add(number, value, None if _is_missing(label) else label)
        for question, label in labels.items():
            if not _is_missing(label) and answers.get(question) is None:
                self._of(question).unanswered += 1

    @property
    def n(self) -> int:
        """The number of rows so far."""
        return self._n

    @property
    def takes_columns(self) -> bool:
        """Whether rows in the usual form can be added many at a time."""
        return self._labels is None and self._by is None and self._form in ("", "a map")

    def continues(self, part: AnswerColumns) -> bool:
        """Whether the answers in columns are like those before."""
        return part.name not in self._answers or self._answers[part.name].continues(part)

    def add_columns(
        self,
        n: int,
        ids: Sequence[str | int] | None,
        models: Sequence[str],
        labelled: int,
        parts: Sequence[AnswerColumns],
    ) -> bool:
        """Add n rows with these answers, and return whether that was possible: an id may stand twice."""
        named = dict(zip(map(str, ids or ()), range(self._n, self._n + n), strict=False))
        if ids is not None and (len(named) < n or not self._ids.keys().isdisjoint(named)):
            return False
        for part in parts:
            self._of(part.name).extend(part, self._n)
        self._ids |= named
        self._with_id += len(named)
        self._labelled += labelled
        self._models |= dict.fromkeys(models)
        self._form, self._n = "a map", self._n + n
        return True

    def _answers_in(self, number: int, row: Mapping[str, Any], response: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answers of a row by their names; none of a request that failed."""
        answers = response.get("answers")
        if answers is None and (row.get("error") or response.get("error")):
            return {}
        form = "a list" if isinstance(answers, list) else "a map" if isinstance(answers, dict) else "columns"
        in_columns = self._form == "columns" or any(key.startswith("answers.") for key in row)
        self._check_form(number, form, answers is not None or in_columns)
        if isinstance(answers, list):
            return self._named(number, answers)
        return answers if isinstance(answers, dict) else _flat_answers(row)

    def _id_of(self, number: int, row: Mapping[str, Any]) -> str | None:
        """Return the id of a row, which no row before has; None if it has none."""
        name = next((str(row[key]) for key in IDS if isinstance(row.get(key), str | int)), None)
        if name is not None:
            if name in self._ids:
                problem = f"row {self._ids[name] + 1:,} already has the id {quoted(name)}"
                raise self._fail(number, problem, "give each row an id of its own")
            self._ids[name] = number
            self._with_id += 1
        return name

    def _add_cached(self, row: Mapping[str, Any]) -> None:
        """Add one answer of a cache, whose rows of one input have the same number."""
        self._check_form(self._n, "one answer", True)
        key = row.get("row", row.get("state_hash", len(self._inputs)))
        if not isinstance(key, str | int):
            raise self._fail(self._n, "'row' is neither a number nor a text", "write the number of the input")
        if self._labels is not None:
            remedy = "leave the labels out"
            raise self._fail(
                None, "labels were passed, but the rows of the log already contain the right answers", remedy
            )
        number = self._inputs.setdefault(key, len(self._inputs))
        self._n = len(self._inputs)
        if number == len(self._groups):
            self._add_group(number, row)
        self._name_model(row.get("model"))
        answers = self._of(str(row["id"]))
        if number in answers.inputs:
            raise self._fail(number, f"the question {quoted(str(row['id']))} is answered twice", _ANSWERED_TWICE)
        answers.inputs.add(number)
        value, question = row["answer"], row["question"]
        if value is None:
            answers.unanswered += row["gold"] is not None
            return
        criteria = question.get("criteria") if isinstance(question, dict) else None
        if isinstance(value, dict) and isinstance(criteria, list) and "legend" not in value:
            value = {**value, "legend": {str(level): k for k, level in enumerate(criteria)}}
        if isinstance(value, dict) and "type" not in value and isinstance(row.get("type"), str):
            value = {**value, "type": row["type"]}
        self._labelled += row["gold"] is not None
        answers.add(number, value, row["gold"])

    def _check_form(self, number: int, form: str, there: bool) -> None:
        if not there:
            raise self._fail(number, "the row contains no answers", "write the answers of the service under 'answers'")
        self._form = self._form or form
        if form != self._form:
            problem = f"the answers are {form}, but the answers in earlier rows are {self._form}"
            raise self._fail(number, problem, "read the logs of one service at a time")

    def _add_group(self, number: int, row: Mapping[str, Any]) -> None:
        if self._by is not None:
            group = group_of(row, self._by)
            if group is None:
                remedy = "name a key that every row has; for a key inside an object, use dots, such as meta.language"
                raise self._fail(number, f"the row has no text or number under {quoted(self._by)}", remedy)
            self._groups.append(group)

    def _name_model(self, model: Any) -> None:
        if isinstance(model, str):
            self._models.setdefault(model)

    def _of(self, name: str) -> _Answers:
        if name not in self._answers:
            self._answers[name] = _Answers(name, self._fail, self._yes)
        return self._answers[name]

    def _named(self, number: int, answers: Sequence[Any]) -> dict[str, Any]:
        """Return the answers of a list by their names; those without a name by their place."""
        named: dict[str, Any] = {}
        for place, answer in enumerate(answers, 1):
            name = answer.get("name") if isinstance(answer, dict) else None
            name = f"question_{place}" if name is None else str(name)
            if name in named:
                raise self._fail(number, f"the question {quoted(name)} is answered twice", _ANSWERED_TWICE)
            named[name] = answer
        return named

    def _labels_of(
        self, number: int, name: str | None, row: Mapping[str, Any], response: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return the labels of a row."""
        labels: Any
        if isinstance(self._labels, Mapping):
            if name is None:
                raise self._fail(
                    number, "the row has no id, but the labels are given by id", f"write an id under '{IDS[0]}'"
                )
            labels = self._labels.get(name)
            self._used.add(name)
        elif self._labels is not None:
            labels = self._labels[number] if number < len(self._labels) else None
        else:
            labels = labels_of(row) or labels_of(response)
        self._labelled += labels is not None
        if labels is not None and not isinstance(labels, Mapping):
            problem = (
                f"the labels are of type {type(labels).__name__}, not a mapping from each question to the right answer"
            )
            raise self._fail(number, problem, 'write the labels of each row as a mapping, such as {"q1": true}')
        found: Mapping[str, Any] = {} if labels is None else labels
        return found

    def log(self) -> DecisionLog:
        """Return the log; it raises what ``fail`` makes of one without labels, or with those of other questions."""
        if not self._n:
            raise self._fail(None, "the log contains no rows", "pass a log with at least one row")
        self._check_labels()
        questions = {name: question for name, answers in self._answers.items() if (question := answers.question())}
        rest = {name: answers for name, answers in self._answers.items() if name not in questions}
        unlabelled = {name: len(answers.without_label) for name, answers in rest.items() if answers.without_label}
        unanswered = {name: answers.unanswered for name, answers in rest.items() if answers.unanswered}
        named = {"answered": unlabelled, "labelled": unanswered}
        for (what, those), other in zip(named.items(), ("labels", "answers"), strict=True):
            if len(those) > _MOST_UNMATCHED * (len(questions) + len(those)):
                names = ", ".join(map(quoted, list(those)[:_NAMED]))
                problem = f"{len(those):,} of {len(questions) + len(those):,} {what} questions have no {other}: {names}"
                raise self._fail(None, problem, "use the same names of questions in answers and labels")
        if not questions:
            raise self._fail(None, "no question has both an answer and a label", "pass a log with labelled answers")
        return DecisionLog(
            questions=questions,
            n=self._n,
            ids=tuple(self._ids) if self._with_id == self._n else (),
            groups=tuple(self._groups),
            models=tuple(self._models),
            unmatched=len(self._labels.keys() - self._used) if isinstance(self._labels, Mapping) else 0,
            refusals={name: len(answers.refused) for name, answers in self._answers.items() if answers.refused},
            unlabelled=unlabelled,
            unanswered=unanswered,
        )

    def _check_labels(self) -> None:
        if isinstance(self._labels, Sequence) and len(self._labels) != self._n:
            problem = f"there are labels for {len(self._labels):,} rows, but the log has {self._n:,} rows"
            raise self._fail(
                None,
                problem,
                "pass one mapping of labels for each row, or a mapping from the id of each row to its labels",
            )
        if not self._labelled:
            remedy = "write a mapping from each question to the right answer under 'labels' in each row, or pass labels"
            raise self._fail(None, "the log contains no labels", remedy)


_ANSWERED_TWICE: Final = "write only one answer to each question of an input"
