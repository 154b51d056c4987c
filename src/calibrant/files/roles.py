"""What the columns of a file hold: by options, by usual names, and by rules for names and values that word a question.

A column with a usual name is read. Nothing else is read as what it looks like: the error proposes options, and the user
types them or others. Tables say what a name means (`USUAL`, `WORDS`) and what values are (`_kind`). Each pair of
columns that they allow is a `ColumnReading`. These exclude one:

- a column whose name says that it is predicted, or whether a prediction was right, is not the outcome;
- a column that is the predicted class of the scores in every row is not, if another one may be;
- a name that says it is true comes before one that is alike, that before one of an outcome, that before values alone;
- two columns that add up to 1 are one event, and the score is that of the event's label;
- a score below 1 / C in some row is not the probability of a predicted class of C;
- where scores below and above a threshold are of different predicted labels, the score may be that of the event; if
  no threshold does, and the scores may be those of the predicted labels, it is not.

One reading that is left is proposed, and several are listed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import CalibrantError, quoted
from calibrant.files.class_names import ends_of, event_of, order_of, ordered, words_of
from calibrant.files.column_options import (
    ColumnReading,
    ColumnSelection,
    NamedColumns,
    Options,
    Unnamed,
    are_logits,
    check_selection,
    in_words,
)
from calibrant.files.column_values import fraction, is_missing_cell, number_in
from calibrant.files.sql import literal, sql_name

# ---------------------------------------------------------------- rules for names


class _Usual(NamedTuple):
    """Names that are read without a question, and how an error asks for others: for columns, and for arrays."""

    names: tuple[str, ...]
    prefixes: tuple[str, ...]
    what: str
    wanted: Mapping[str, str]
    examples: Mapping[str, str]


def _all_of(words: str) -> tuple[str, ...]:
    return tuple(words.split())


USUAL: Final = {
    "probs": _Usual(
        _all_of("""
            probs prob probability probabilities proba predictions predicted_probability pred_prob y_prob y_proba
            y_score score scores confidence confidences softmax p logits logit
        """),
        ("p_", "prob_", "probs_", "proba_", "probability_", "logit_", "logits_"),
        "the probabilities",
        {"column": "--score (one event) or --probs (many classes)", "array": "--probs"},
        {"column": "probs, p_*, probability, score", "array": "probs, predictions, logits"},
    ),
    "targets": _Usual(
        _all_of("""
            target targets label labels true_label true_labels y y_true outcome outcomes ground_truth groundtruth truth
            gt correct is_correct event obs observed class
        """),
        (),
        "the targets",
        {"column": "--outcome (one event) or --target (many classes)", "array": "--target"},
        dict.fromkeys(("column", "array"), "target, label, y, outcome"),
    ),
}

#: What a word of a name, or its plural, says that the column holds.
WORDS: Final = {
    "right": _all_of("correct correctness"),
    "predicted": _all_of("""
        pred predict predicted predicting prediction ypred yhat hat scored classified assigned inferred guess
        guessed estimate estimated forecast forecasted argmax
    """),
    "wrong": _all_of("incorrect wrong misclassified"),
    "true": _all_of("""
        true truth ytrue gold golden gt ground groundtruth actual actually observed obs real reference target
        outcome resolution resolved annotated annotation human
    """),
    "label": _all_of("label class category categories"),
    "confidence": _all_of("conf confidence certainty chosen top max msp"),
    # Things that have several rows, and what of them is something else; then what names one with other columns.
    "thing": _all_of("""
        patient subject participant person respondent user customer client member student pupil player candidate
        question prompt image img picture photo video document doc article game match race election session
        conversation household family hospital clinic school id uid uuid
    """),
    "of a thing": _all_of("date time day type kind status result score prob count age"),
    "side": _all_of("team club home away opponent side fighter station store site product symbol"),
    "when": _all_of("season year month week day date round leg"),
}
#: Whole names, as words, that say the same; some words of `right` do only alone or after another one.
_PHRASES: Final = {
    "right": re.compile(
        r"(?:.+ )?(?:exact match|acc)"
        r"|(?:(?:is|was|exact|pred|prediction|answer|model) )?(?:right|accurate|match|matched)"
        r"|(?:is|was|exact|pred|prediction|answer|model) hit"
    ),
    "true": re.compile("y"),
}
#: The roles of a column next to scores. A name has the first that it says; the first three are of a prediction.
_ROLES: Final = ("right", "predicted", "wrong", "true", "label")
_OF_A_PREDICTION: Final = _ROLES[:3]
#: Names that are preferred, where the values allow several columns.
_LIKE_SCORES: Final = re.compile(r"prob|score|pred|risk|chance|conf|forecast|^p(_|$)|_p$", re.IGNORECASE)
_LIKE_OUTCOMES: Final = re.compile(
    r"outcome|label|target|true|truth|actual|obs|result|won|win|event|hit|class|^y(_|$)", re.IGNORECASE
)


def has_word(name: str, what: str) -> bool:
    """Whether a word of a name, or its singular, says what the column holds."""
    return any(form in WORDS[what] for word in words_of(name) for form in (word, word.removesuffix("s")))


@lru_cache(4096)
def role_of(name: str) -> str:
    """Return the role that a name says, such as ``"right"`` or ``"true"``; empty if it says none."""
    phrase = " ".join(words_of(name))
    said = (role for role in _ROLES if has_word(name, role) or (role in _PHRASES and _PHRASES[role].fullmatch(phrase)))
    return next(said, "")


# ---------------------------------------------------------------- rules for values

#: The rows that a proposal is made from, and those that a question is asked after.
ROWS: Final = 20_000
_FEW: Final = 1_000
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


# ---------------------------------------------------------------- things with several rows, for a hint about clusters

_PARTS: Final = 7  # columns whose combinations are tried
_TOGETHER: Final = 3  # columns that together name a thing, at most
_REPEATED: Final = 1.5  # rows of a value, on average


def named_as_ids(columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns whose names are those of things that have several rows, such as ``patient_id``."""
    return tuple(name for name in columns if has_word(name, "thing") and not has_word(name, "of a thing"))


def parts_of_ids(columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that may name a thing with several rows, by themselves or together with others."""
    ids = named_as_ids(columns)
    return tuple(name for name in columns if name in ids or has_word(name, "side") or has_word(name, "when"))


def cluster_hint(cells: Mapping[str, Sequence[Any]]) -> tuple[tuple[str, ...], ...]:
    """Return which columns name things with several rows each: those that do alone, else the finest combination.

    A combination has at most three columns. At least one of them identifies the thing, not only its time.
    """
    repeated = [name for name, values in cells.items() if is_repeated(values)]
    alone = tuple((name,) for name in named_as_ids(repeated))
    parts = parts_of_ids(repeated)[:_PARTS]
    if alone or not parts:
        return alone
    present = np.array([[not is_missing_cell(cell) for cell in cells[name]] for name in parts]).all(axis=0)
    if not present.any():
        return ()
    texts = {name: [str(cell).strip() for cell in cells[name]] for name in parts}
    finest = _finest({name: np.unique(column, return_inverse=True)[1][present] for name, column in texts.items()})
    return (finest,) if finest else ()


def _finest(codes: Mapping[str, NDArray[np.intp]]) -> tuple[str, ...]:
    """Return the columns that together have most values, in several rows each; of these, those with fewest times."""
    best: tuple[int, int, tuple[str, ...]] = (1, 0, ())
    for names in (some for k in range(2, _TOGETHER + 1) for some in combinations(codes, k)):
        together = np.ravel_multi_index([codes[name] for name in names], [codes[name].max() + 1 for name in names])
        candidate = len(np.unique(together)), sum(not has_word(name, "when") for name in names), names
        if candidate[1] and candidate[:2] > best[:2] and candidate[0] <= len(together) / _REPEATED:
            best = candidate
    return best[2]


def is_repeated(cells: Sequence[Any]) -> bool:
    """Whether whole numbers, words or dates come in several rows each."""
    present = [str(cell).strip() for cell in cells if not is_missing_cell(cell)]
    if any(re.fullmatch(r"[-+]?\d*\.\d*[1-9]\d*", cell) for cell in present):
        return False
    return 1 < len(set(present)) <= len(present) / _REPEATED


# ---------------------------------------------------------------- columns by options and usual names


def select(path: str, columns: Sequence[str], options: Options, noun: str = "column") -> ColumnSelection:
    """Decide which columns (or arrays) of a file to read, by their names.

    It raises `FileError` where a named column is missing, or none or several have a usual name.
    """
    finder = NamedColumns(path, tuple(columns), noun)
    finder.check(options)
    weights = None if options.weight is None else finder.one("--weight", options.weight)
    targets = finder.targets(options)
    groups = tuple(finder.column_or_sql("--by", value) for value in options.by)
    clusters = tuple(finder.column_or_sql("--cluster", value) for value in options.clusters)
    keys = tuple(finder.one("--on", value) for value in options.on)
    others = {weights, *groups, *clusters, *keys}
    models, suffixes = finder.models(options.models)
    probs = tuple(dict.fromkeys(column for _, names in models for column in names))
    if not models:
        probs, suffixes = select_probs(finder, options, {*(targets or ()), *others})
    if targets is None:
        targets = _usual_targets(finder, {*probs, *others}, len(probs) == max(len(models), 1), groups)
    class_names, labels = _class_names(finder, options, suffixes)
    selection = ColumnSelection(
        probs=probs,
        targets=targets,
        weights=weights,
        groups=groups,
        clusters=clusters,
        keys=keys,
        logits=are_logits(probs) and set(probs) <= set(columns),  # the text of an expression is not a name
        percent=options.percent,
        timezone=options.timezone,
        class_names=class_names,
        labels=labels,
        noun=noun,
        models=models,
    )
    check_selection(path, columns, selection)
    return selection


def _class_names(
    finder: NamedColumns, options: Options, suffixes: tuple[str, ...] | None
) -> tuple[tuple[str, ...] | None, bool]:
    """Return the names of the classes, and whether targets are matched by them."""
    class_names = options.labels or options.class_names
    if class_names is not None or suffixes is None:
        return class_names, options.labels is not None
    # Numbers that are listed with words are not indices: targets are matched by name then.
    are_listed = options.probs is not None and not finder.is_pattern(options.probs)
    return suffixes, not are_listed or any(name.isdecimal() for name in suffixes)


def select_probs(
    finder: NamedColumns, options: Options, taken: set[str | None]
) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Return the columns of probabilities, and the names of the classes where the columns say them."""
    if options.score is not None:
        return (finder.column_or_sql("--score", options.score),), None
    if options.probs is None:
        return ordered(*_usual_probs(finder, taken))
    names = finder.named("--probs", options.probs)
    is_pattern = finder.is_pattern(options.probs)
    return ordered(names, options.probs) if is_pattern else (names, ends_of(names, USUAL["probs"].names))


def _usual_probs(finder: NamedColumns, taken: set[str | None]) -> tuple[tuple[str, ...], str]:
    """Return the columns of probabilities, and their name or their pattern."""
    free, usual = [name for name in finder.columns if name not in taken], USUAL["probs"]
    option = "--score" if finder.noun == "column" else "--probs"
    found: list[tuple[tuple[str, ...], str, str]] = [
        ((name,), option, name) for name in free if name.lower() in usual.names
    ]
    for prefix in usual.prefixes if finder.noun == "column" else ():
        # Matched without regard to case; the pattern keeps the spelling of the file.
        group = tuple(name for name in free if name.lower().startswith(prefix) and len(name) > len(prefix))
        if len(group) > 1 and len({name[: len(prefix)] for name in group}) == 1:
            found.append((group, "--probs", group[0][: len(prefix)] + "*"))
    _check_single(finder, {in_words(names, finder.noun): options for names, *options in found}, usual)
    names, _, value = found[0]
    return names, value


def _usual_targets(
    finder: NamedColumns, taken: set[str | None], one_event: bool, groups: Sequence[str]
) -> tuple[str, ...]:
    usual, noun = USUAL["targets"], finder.noun
    found = [name for name in finder.columns if name not in taken and name.lower() in usual.names]
    option = "--outcome" if one_event and noun == "column" else "--target"
    named = next((name for name in groups if name.lower() in usual.names), None)
    if not found and named is not None:
        problem = f"no other {noun} has a usual name for the targets, because --by uses {quoted(named)}"
        raise Unnamed(finder.path, problem, f"if {quoted(named)} also holds the targets, type", (option, named))
    _check_single(finder, {name: (option, name) for name in found}, usual)
    return (found[0],)


def _check_single(finder: NamedColumns, rivals: Mapping[str, Sequence[str]], usual: _Usual) -> None:
    """Reject none and several columns, which come with the options that name them."""
    noun = finder.noun
    remedy = f"name the right {noun} with {usual.wanted[noun]}"
    if not rivals:
        problem = f"no {noun} has a usual name for {usual.what} ({usual.examples[noun]}, ...)"
        raise Unnamed(finder.path, problem, f"{remedy}; {finder.listing}")
    if len(rivals) > 1:
        readings = tuple(ColumnReading(tuple(options), f"if {quoted(name)}") for name, options in rivals.items())
        problem = f"several {noun}s could be {usual.what}: {', '.join(rivals)}"
        raise Unnamed(finder.path, problem, remedy, readings=readings)


# ---------------------------------------------------------------- columns, or the question which ones

_NAMED: Final = 6  # columns of a kind that an error names
_LISTED: Final = 4  # readings that an error lists
_PAIRS: Final = 10_000  # of a score and an outcome that are compared
_CHOOSE: Final = "choose the meaning of the columns"


def find(
    path: str, columns: Sequence[str], options: Options, first_cells: FirstCells, noun: str = "column"
) -> ColumnSelection:
    """Decide which columns (or arrays) of a file to read; ``first_cells`` returns the first rows at most, by column.

    It raises `FileError` as `select`, with the options that the first rows propose, and where names and values allow
    several readings.
    """
    try:
        selection = select(path, columns, options, noun)
    except Unnamed as error:
        if error.options:
            raise
        found = _Readings(first_look(columns, first_cells), options)
        if readings := found.readings():
            raise _asking(path, error.problem, found.in_words(readings), readings, noun) from None
        remedy = found.unmatched()
        raise Unnamed(path, error.problem, remedy) if remedy else error from None
    if _is_doubtful(selection, columns, options):
        _check_meaning(path, selection, first_look(columns, first_cells, _FEW), options)
    return selection


def _is_doubtful(selection: ColumnSelection, columns: Sequence[str], options: Options) -> bool:
    """Whether the names alone allow another reading of columns that no option names."""
    target, single = selection.targets[0], len(selection.probs) == 1
    if options.models or len(selection.targets) > 1:
        return False
    if single and options.score is None and options.probs is None and role_of(selection.probs[0]) == "predicted":
        return True
    if options.outcome is not None or options.target is not None:
        return False
    others = (role_of(name) for name in columns if name not in selection.used)
    return role_of(target) in ("right", "label") or (single and "predicted" in others)


class _Question(NamedTuple):
    """A question about columns with usual names: what is in doubt, what to do, and the readings that are allowed."""

    problem: str
    remedy: str
    readings: list[ColumnReading]


def _check_meaning(path: str, selection: ColumnSelection, seen: Candidates, options: Options) -> None:
    """Raise the question that a file needs though its columns have usual names, unless one reading is left."""
    target, score, one_event = selection.targets[0], selection.probs[0], len(selection.probs) == 1
    if options.percent:
        fractions = {
            name: [fraction(str(cell)) for cell in seen.cells[name]] for name in selection.probs if name in seen.cells
        }
        seen = Candidates({**seen.cells, **fractions})
    if one_event and role_of(score) == "predicted" and score in seen.outcomes and len(seen.labels(score)) > 1:
        problem = f"{quoted(score)} has only two values, like a predicted label"
        reading = ColumnReading(("--score", score), f"if {quoted(score)} holds probabilities", always=True)
        raise _asking(path, problem, "name the column of probabilities", [reading], selection.noun)
    if options.outcome is not None or options.target is not None:
        return
    if one_event and score not in seen.lists:
        usual = ColumnReading(("--outcome", target), f"if {quoted(target)} holds the true outcome")
        question = _question_of_event(score, usual, _Readings(seen, options), selection.noun)
    else:
        usual = ColumnReading(("--target", target), f"if {quoted(target)} holds the true class")
        question = _question_of_classes(selection.probs, usual, seen, options)
    if [(each.options[-2:], each.always) for each in question.readings] != [(usual.options, False)]:
        raise _asking(path, *question, selection.noun)


def _question_of_classes(probs: Sequence[str], usual: ColumnReading, seen: Candidates, options: Options) -> _Question:
    """Return the question about the target of columns of classes; ``usual`` reads it as the true class."""
    target, problem, readings = usual.options[1], "", [usual]
    allowed = _Readings(seen, replace(options, probs=",".join(probs))).readings()
    if role_of(target) == "right":
        problem = f"{quoted(target)} shows whether a prediction was correct, not the true class"
        readings = allowed or [replace(usual, always=True)]
    elif seen.follows(probs, target):
        problem = f"{quoted(target)} has the largest probability in every row, so it may be the predicted class"
        readings = allowed or [usual]
    return _Question(problem, _CHOOSE, readings)


def _question_of_event(score: str, usual: ColumnReading, found: _Readings, noun: str) -> _Question:
    """Return the question about the target of a score; ``usual`` reads it as the true outcome."""
    target, seen = usual.options[1], found.seen
    role = role_of(target)
    if role == "right":
        below = f"{quoted(score)} is below 0.5 in some rows"
        problem = f"{below}, but {quoted(target)} shows whether a prediction was correct"
        return _Question(problem, _CHOOSE, found.of_right(score, target))
    if score not in seen.scores:
        return _Question("", _CHOOSE, [usual])
    readings = found.of_scores([score], found.truths if role == "label" else [target]) or [usual]
    is_only = [each.options[-2:] for each in readings] == [usual.options]
    if is_only and role == "label" and seen.may_be_of(score, target):
        problem = f"{quoted(score)} may be the probability of the predicted label {quoted(target)}"
        problem = f"{problem}, but no {noun} looks like the true values"
        remedy = f"add a {noun} with the true values, and name this {noun}"
        return _Question(problem, remedy, [replace(usual, always=True)])
    return _Question(f"{quoted(score)} may be the probability of a predicted label", _CHOOSE, readings)


def _asking(path: str, problem: str, remedy: str, readings: Sequence[ColumnReading], noun: str) -> Unnamed:
    """Return an error that proposes the only reading, or lists several.

    Arrays have one option for the probabilities of events and classes, another for their truths, and no SQL.
    """
    if noun != "column":
        names = {"--score": "--probs", "--outcome": "--target"}
        plain = [each for each in readings if not each.sql]
        readings = [replace(each, options=tuple(names.get(word, word) for word in each.options)) for each in plain]
    if not readings:
        return Unnamed(path, problem, "save an array of outcomes, 1 for a correct prediction and 0 otherwise")
    if len(readings) == 1 and not readings[0].always:
        return Unnamed(path, problem, f"{remedy}; name the right columns, such as", readings[0].options)
    if len(readings) > _LISTED:
        options = [word for word in readings[0].options[::2] if word in ("--score", "--probs", "--outcome", "--target")]
        return Unnamed(path, problem, f"{remedy}; name the right columns with {' and '.join(options)}")
    return Unnamed(path, problem, remedy, readings=tuple(readings))


# ---------------------------------------------------------------- the readings that the rules allow


class _Readings:
    """The readings of columns by their names and values, next to what options name."""

    def __init__(self, seen: Candidates, options: Options) -> None:
        self.seen = seen
        self.options = options
        named = (options.score, options.outcome, options.target, options.weight)
        self.taken = {*named, *options.by, *options.models, *options.clusters, *options.on}
        #: The columns that may hold the truth.
        self.truths = [
            name
            for name in (*seen.classes, *seen.outcomes)
            if name not in self.taken and role_of(name) not in _OF_A_PREDICTION
        ]

    def readings(self) -> list[ColumnReading]:
        """Return the readings that names and values allow, each as the options that are not yet there."""
        options, truth = self.options, self.options.outcome or self.options.target
        stated = {("--score", options.score), ("--probs", options.probs), ("--outcome", truth), ("--target", truth)}
        stated |= {("--score", name) for name in options.models}
        readings: dict[tuple[str, ...], ColumnReading] = {}
        for reading in self._all():
            pairs = zip(reading.options[::2], reading.options[1::2], strict=True)
            left = tuple(word for pair in pairs if pair not in stated for word in pair)
            readings.setdefault(left, replace(reading, options=left))
        return [reading for left, reading in readings.items() if left]

    def _all(self) -> list[ColumnReading]:
        """Return the readings of the columns that options name, else of free ones."""
        seen, options, truth = self.seen, self.options, self.options.outcome or self.options.target
        truths = self.truths if truth is None else [truth] * (truth in seen.cells)
        if options.score is not None:  # of an expression, the values are not known here
            return self.of_scores([options.score], truths) if options.score in seen.cells else []
        if options.models:
            return self.of_scores(list(options.models), truths)
        if options.probs is not None:
            return self._of_classes([name.strip() for name in options.probs.split(",")], truths)
        return (self._multilabel() if truth is None else []) or self._of_free(truths)

    def _of_free(self, truths: Sequence[str]) -> list[ColumnReading]:
        """Return the readings of free columns: classes, else an event and its complement, else scores."""
        free = [name for name in self.seen.scores if name not in self.taken]
        tables = [table for table in self.seen.tables if set(table) <= set(free)]
        wide = [table for table in tables if len(table) > 2]
        candidates = list(zip(self.seen.lists, strict=True)) or wide
        readings = [each for columns in candidates for each in self._of_classes(columns, truths)]
        if readings or wide:
            return readings
        readings = [each for pair in tables for each in self._of_complements(pair, truths)]
        named = [name for name in free if _LIKE_SCORES.search(name) or _alike(name, truths)]
        return readings or self.of_scores(named or free, truths)

    def of_scores(self, scores: Sequence[str], truths: Sequence[str]) -> list[ColumnReading]:
        """Return the readings of scores of one event, or of the label that was predicted, or whether it was right."""
        seen = self.seen
        predicted = [name for name in (*seen.classes, *seen.outcomes) if role_of(name) == "predicted"]
        if len(scores) == 1:
            guesses = self._guesses(scores, truths)
            truths, predicted = [name for name in truths if name not in guesses], [*predicted, *guesses]
        pairs = _best_pairs(seen, scores, self._fitting(scores, truths, predicted))[: 2 * _LISTED]
        readings = [each for score, truth in pairs for each in self._of_pair(score, truth, truths, predicted)]
        if self.options.models or self.options.percent:  # models are columns, and the expressions are of fractions
            readings = [each for each in readings if each.options[1] in scores]
        return self._with_right(scores[0], [truth for _, truth in pairs], readings) if len(scores) == 1 else readings

    def _with_right(self, score: str, truths: Sequence[str], readings: list[ColumnReading]) -> list[ColumnReading]:
        """Return the readings of a score, with those of columns that say whether a prediction was right."""
        seen = self.seen
        right = [name for name in seen.outcomes if role_of(name) == "right" and name not in self.taken]
        of_right = [each for name in right for each in self.of_right(score, name)]
        labels = [name for name in truths if role_of(name) == "label"]
        if of_right and any(seen.follows([score], name) for name in labels):
            return of_right
        sure = (_is_named_so(score, name) and not (name in labels and seen.may_be_of(score, name)) for name in truths)
        return readings if any(sure) else [*of_right, *readings]

    def _fitting(self, scores: Sequence[str], truths: Sequence[str], predicted: Sequence[str]) -> list[str]:
        """Return the truths that scores may be about: outcomes, two labels, or more labels and the predicted one.

        Whether two other numbers than 0 and 1 are labels, the name of their column decides.
        """
        of, outcomes = self.seen.labels, self.seen.outcomes
        several = {label for name in predicted if len(of(name)) > 2 for label in of(name)}
        return [
            name
            for name in truths
            if name in outcomes
            or (len(of(name)) <= 2 and any(_is_named_so(score, name) for score in scores))
            or (len(scores) == 1 and several.intersection(of(name)))
        ]

    def _of_pair(self, score: str, truth: str, truths: Sequence[str], predicted: Sequence[str]) -> list[ColumnReading]:
        """Return the readings of a score next to a true label: its probability, or that of the predicted label.

        Of columns that do not say that they are predicted, those named as labels may be, and where the truth does not
        say that it is one, those that are as likely the truth.
        """
        seen, is_named, labels = self.seen, _is_named_so(score, truth), self.seen.labels(truth)
        case = f"if {quoted(score)} is the probability of {quoted(truth)}"
        event = ColumnReading(("--score", score, "--outcome", truth), case, is_named=is_named)
        may_be_event = truth in seen.outcomes or len(labels) <= 2
        others = [name for name in truths if name != truth and seen.may_be_of(score, name)]
        named = [name for name in others if role_of(name) == "label"]
        rivals = [] if role_of(truth) == "true" or named else _best(seen, others, [score])
        readings = []
        for guess in dict.fromkeys((*predicted, *named, *rivals)):
            if not self._share_labels(truth, guess, predicted) or (may_be_event and not seen.may_be_of(score, guess)):
                continue
            may_be_event = may_be_event and (guess in rivals or seen.follows([score], guess))
            readings += self._of_guess(score, truth, guess, is_rival=guess in rivals)
        return [event, *readings] if may_be_event else readings

    def _share_labels(self, truth: str, guess: str, predicted: Sequence[str]) -> bool:
        """Whether columns share labels; if the names leave open that one is predicted, both of two labels."""
        labels, others = set(self.seen.labels(truth)), set(self.seen.labels(guess))
        return not labels.isdisjoint(others) and (guess in predicted or len(labels) > 2 or labels == others)

    def _of_guess(self, score: str, truth: str, guess: str, *, is_rival: bool) -> list[ColumnReading]:
        """Return the readings of a score as that of a predicted label; of rivals, either may be the truth."""
        is_label, labels, is_named = role_of(truth) == "label", self.seen.labels(truth), _is_named_so(score, truth)
        one, other = (truth, guess) if is_label and is_rival else (guess, truth)
        doubt = f" or {quoted(other)}" if is_rival and not is_label else ""
        case = f"if {quoted(score)} is the probability of the predicted label {quoted(one)}{doubt}"
        right = f"{sql_name(one)} = {sql_name(other)}"
        readings = [ColumnReading(("--score", score, "--outcome", right), case, is_named=is_named, sql=True)]
        if not doubt and len(labels) == 2 and set(labels) == set(self.seen.labels(guess)):
            readings += [
                ColumnReading(options, f"{case}, as the probability of the event", is_named=is_named, sql=True)
                for options in self._as_event(score, other, one)
            ]
        return readings

    def _as_event(self, score: str, truth: str, predicted: str) -> list[tuple[str, ...]]:
        """Return the options that read a score of a predicted label as that of the event; of each label if unknown."""
        labels, name = self.seen.labels(truth), sql_name(score)
        return [
            (
                *("--score", f"CASE WHEN {_equals(predicted, event)} THEN {name} ELSE 1 - {name} END"),
                *("--outcome", truth, *_spelled(other, event)),
            )
            for other, event in (labels, labels[::-1])
            if event_of(labels) in (None, event)
        ]

    def of_right(self, score: str, right: str) -> list[ColumnReading]:
        """Return the readings of a score next to a column with whether a prediction was correct."""
        case = f"if {quoted(score)} is the probability that {quoted(right)} is true"
        answer = ColumnReading(("--score", score, "--outcome", right), case)
        yes, numbers = event_of(self.seen.labels(right)), self.seen.numbers(score)
        may_be_below = score in self.seen.scores and not has_word(score, "confidence")
        if yes is None or not (may_be_below and (numbers < 0.5).any()):
            return [answer]
        if self.options.percent:  # the expressions compare fractions
            return [replace(answer, always=True)]
        event = ("--score", score, "--outcome", f"({sql_name(score)} >= 0.5) = ({_equals(right, yes)})")
        case = f"if {quoted(score)} is the probability of an event that was predicted at 0.5 or more"
        larger = f"{case}, to evaluate the larger of this probability and its complement"
        top = ColumnReading((*event, "--notion", "top-label"), larger, sql=True)
        return [ColumnReading(event, case, sql=True), top, answer]

    def _of_complements(self, columns: Sequence[str], truths: Sequence[str]) -> list[ColumnReading]:
        """Return the readings of two columns that add up to 1, as the score of the event."""
        guesses = self._guesses(columns, truths)
        fitting = [name for name in truths if name not in guesses and len(self.seen.labels(name)) == 2]
        readings = []
        for truth in _best(self.seen, fitting, columns):
            labels = self.seen.labels(truth)
            order, event = order_of(columns, labels) or (), event_of(labels)
            for label in [each for each in order if event in (None, each)]:
                score, (other,) = columns[order.index(label)], [each for each in order if each != label]
                options = ("--score", score, "--outcome", truth, *_spelled(other, label))
                is_named = any(_is_named_so(name, truth) for name in columns)
                case = f"if {quoted(label)} of {quoted(truth)} is the event"
                readings.append(ColumnReading(options, case, is_named=is_named))
        return readings

    def _of_classes(self, columns: Sequence[str], truths: Sequence[str]) -> list[ColumnReading]:
        """Return the readings of columns of classes, or of one column of lists."""
        options, guesses = self.options, self._guesses(columns, truths)
        fitting = [name for name in truths if name not in guesses]
        if len(columns) > 1 and options.probs is None and options.target is None:
            fitting = [name for name in fitting if self._fits(columns, name)]
        readings = []
        for truth in _best(self.seen, fitting, columns):
            labels, names, is_named = self.seen.labels(truth), ",".join(columns), self._fits(columns, truth)
            case = f"if {quoted(truth)} holds the true class"
            reading = ColumnReading(("--probs", names, "--target", truth), case, is_named=is_named)
            if len(columns) > 1 and options.labels is None and options.class_names is None:
                order, numbers = order_of(columns, labels), tuple(map(str, range(len(columns))))
                if order is None and not {*labels} <= {*numbers}:
                    continue
                if order is None:
                    case = f"if value 0 in {quoted(truth)} is the class of column {quoted(columns[0])}, and so on"
                    reading = replace(reading, case=case, always=True)
                elif order != numbers:
                    reading = replace(reading, options=(*reading.options, "--labels", ",".join(order)))
            readings.append(reading)
        return readings

    def _multilabel(self) -> list[ColumnReading]:
        """Return the reading of several scores, each with its outcome: ``prob_toxic`` and ``toxic``, and so on."""
        of_words: dict[str, list[tuple[str, str]]] = {}
        for score in self.seen.scores:
            for outcome in self.seen.outcomes:
                if outcome != score and outcome in score:
                    of_words.setdefault(score.replace(outcome, "*", 1), []).append((score, outcome))
        pairs = max(of_words.values(), key=len, default=[])
        if len(pairs) < 2:
            return []
        scores, targets = zip(*pairs, strict=True)
        notion = () if scores in self.seen.tables and len(scores) > 2 else ("--notion", "multilabel")  # else one-hot
        return [ColumnReading(("--probs", ",".join(scores), "--target", ",".join(targets), *notion))]

    def _guesses(self, columns: Sequence[str], truths: Sequence[str]) -> list[str]:
        """Return the columns that follow the scores in every row, so are predicted, where another may be the truth."""
        of = self.seen.labels
        follow = [name for name in truths if role_of(name) != "true" and self.seen.follows(columns, name)]
        labels = {label for name in truths if name not in follow for label in of(name)}
        return [name for name in follow if labels.intersection(of(name))]

    def _fits(self, columns: Sequence[str], target: str) -> bool:
        """Whether a column may be the true class of columns of probabilities: by its name, or because it names them."""
        return _may_be_true(target) or order_of(columns, self.seen.labels(target)) is not None

    def in_words(self, readings: Sequence[ColumnReading]) -> str:
        """Return which columns may hold what."""
        values = dict(zip(readings[0].options[::2], readings[0].options[1::2], strict=True))
        kinds: list[tuple[str, Sequence[str]]] = []
        if "--probs" in values:
            kinds.append(("probabilities of classes", self.seen.lists or values["--probs"].split(",")))
        elif "--score" in values:
            kinds.append(("probabilities", self.seen.scores))
        if "--outcome" in values and not readings[0].sql:
            outcomes = [name for name in self.truths if name in self.seen.outcomes]
            kinds.append(("outcomes", outcomes or [values["--outcome"]]))
        elif "--target" in values:
            target = values["--target"]
            kinds.append(("labels", target.split(",") if "," in target else self.truths))
        words = [f"{what} in {_some(names)}" for what, names in kinds]
        if kinds and kinds[-1][0] in ("outcomes", "labels") and not all(each.is_named for each in readings):
            words[-1] += " (a guess from the values)"
        return "; ".join(words).replace(" in ", " may be in ", 1) or "the columns can be read in several ways"

    def unmatched(self) -> str:
        """Return what to do about columns of classes without a true class, or that do not name its labels."""
        columns = next((table for table in self.seen.tables if len(table) > 2), ())
        if not columns or self.taken - {None} or self.options.probs is not None:
            return ""
        probs = f"probabilities of classes may be in {_some(columns)} (--probs {','.join(columns)})"
        target = next((name for name in self.truths if self._fits(columns, name)), None)
        if target is None:
            remedy = "add a column of true classes, and name it with --target"
            return f"{probs}, but no column looks like the true class; {remedy}"
        labels = f"write {_some(self.seen.labels(target))} in the order of the columns"
        order = f"the names do not show the order of the labels; with --labels, {labels}"
        return f"{probs}, labels in {target} (--target {target}); {order}"


# ---------------------------------------------------------------- evidence


def best_pair(seen: Candidates, scores: Sequence[str], outcomes: Sequence[str]) -> tuple[str, str] | None:
    """Return the score and the outcome that belong together most likely; None where no pair does, or several do."""
    pairs = _best_pairs(seen, scores, [name for name in outcomes if role_of(name) != "predicted"])
    return pairs[0] if len(pairs) == 1 else None


def predicted_beside(seen: Candidates, truth: str) -> str | None:
    """Return the column with the predicted labels next to the true ones: its name says so, and its labels recur."""
    true = set(seen.labels(truth)) if truth in seen.cells else set()
    others = {name: seen.labels(name) for name in seen.cells if role_of(name) == "predicted" and name != truth}
    return next((name for name, labels in others.items() if 2 * len(true.intersection(labels)) > len(labels)), None)


def _best_pairs(seen: Candidates, scores: Sequence[str], outcomes: Sequence[str]) -> list[tuple[str, str]]:
    """Return the pairs of a score and an outcome that belong together most likely, each event once.

    They are not a pair if only one of them is named like a third column: ``prob_insult`` and ``toxic``
    where there is ``insult``.
    """
    if len(scores) * len(outcomes) > _PAIRS:  # no name is likely to decide
        return []
    events = [name for name in seen.outcomes if role_of(name) not in _OF_A_PREDICTION]
    outcomes_of = {score: _alike(score, events) for score in scores}
    scores_of = {name: _alike(name, seen.scores) for name in outcomes}
    pairs = [
        (score, name)
        for score in scores
        for name in outcomes
        if score != name and (_are_alike(score, name) or not (outcomes_of[score] - {name} or scores_of[name] - {score}))
    ]
    ranks = {pair: (*_rank(seen, *pair), not _LIKE_SCORES.search(pair[0])) for pair in pairs}
    first = min(ranks.values(), default=None)
    best = [pair for pair in pairs if ranks[pair] == first][: 4 * _LISTED]  # more than an error lists
    return [pair for k, pair in enumerate(best) if not any(all(map(seen.are_complements, pair, b)) for b in best[:k])]


def _best(seen: Candidates, truths: Sequence[str], scores: Sequence[str]) -> list[str]:
    """Return those of the columns that are the truth most likely, by their names."""
    ranks = {}
    for name in truths:
        is_not_true, *others = min(_rank(seen, score, name) for score in scores)
        is_no_class = len(scores) > 1 and order_of(scores, seen.labels(name)) is None  # which names the columns
        ranks[name] = (is_not_true, is_no_class, *others)
    first = min(ranks.values(), default=None)
    return [name for name in truths if ranks[name] == first]


def _rank(seen: Candidates, score: str, truth: str) -> tuple[bool, ...]:
    """Order columns by how likely they are the truth of a score."""
    is_true, is_like_outcomes = role_of(truth) == "true", bool(_LIKE_OUTCOMES.search(truth))
    return not is_true, not _are_alike(score, truth), not is_like_outcomes, len(seen.labels(truth)) < 2


def _alike(name: str, others: Sequence[str]) -> set[str]:
    """Return the other columns that are named like one."""
    return {other for other in others if other != name and _are_alike(name, other)}


def _are_alike(score: str, outcome: str) -> bool:
    """Whether one of two names holds the other: ``prob_toxic`` and ``toxic``."""
    short, long = sorted((score.lower(), outcome.lower()), key=len)
    return short in long and len(short) >= 3 and not _LIKE_SCORES.fullmatch(short)


def _is_named_so(score: str, truth: str) -> bool:
    """Whether the name of a truth says that it is one, and not its values alone."""
    return _may_be_true(truth) or _are_alike(score, truth)


def _may_be_true(name: str) -> bool:
    return role_of(name) == "true" or bool(_LIKE_OUTCOMES.search(name))


def _equals(name: str, label: str) -> str:
    """Return the SQL that a column holds a label."""
    column = sql_name(name)
    return {"1": f"{column} = 1", "true": column}.get(label, f"{column} = {literal(label)}")


def _spelled(other: str, event: str) -> tuple[str, ...]:
    """Return the option that names two labels, the event second; none where it has a name of its own."""
    return () if event in ("1", "true") else ("--labels", f"{other},{event}")


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
