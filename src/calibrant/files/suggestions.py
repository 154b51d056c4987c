"""Which columns may be meant, where none has a usual name: looked for in the first rows, and only to word an error.

Nothing is read as what it looks like: the error proposes options, and the user types them or others.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from calibrant.column_options import Options
from calibrant.errors import CalibrantError
from calibrant.files.columns import Unnamed
from calibrant.files.engine import Table
from calibrant.files.values import is_missing

ROWS = 20_000
CELLS = 1_000_000
NAMED = 6  # columns of a kind that an error names
CLASSES = 1000

_SCORE = re.compile(r"prob|score|pred|risk|chance|conf|forecast|^p(_|$)|_p$", re.IGNORECASE)
_OUTCOME = re.compile(
    r"outcome|label|target|true|truth|actual|obs|result|won|win|event|hit|correct|^y(_|$)", re.IGNORECASE
)
#: What has several rows, by the words of a column's name; and the last word of any id.
_THINGS = re.compile(
    r"patient|subject|participant|person|respondent|user|customer|client|member|student|pupil|player|candidate|question"
    r"|prompt|image|img|picture|photo|video|document|doc|article|game|match|race|election|session|conversation"
    r"|household|family|hospital|clinic|school|u?u?id"
)
#: What is named by several columns together, such as a game by its season and teams: those of things, and when.
_SIDES = re.compile(r"team|club|home|away|opponent|side|fighter|station|store|site|product|symbol")
_WHEN = re.compile(r"season|year|month|week|day|date|round|leg")
_PARTS = 7  # columns whose combinations are tried
_TOGETHER = 3  # columns that together name a thing, at most
_OF_THINGS = frozenset(("date", "time", "day", "type", "kind", "status", "result", "score", "prob", "count", "age"))
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_REPEATED = 1.5  # rows of a value, on average


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
        Whole numbers or words, each more often than once.
    rows : tuple of str
        Lists, or rows of an array, that add up to 1.
    classes : tuple of str
        Three of the scores or more that add up to 1 in every row: all of the scores, or none.
    words : mapping of str to frozenset of str
        What the cells of `outcomes` and `labels` say.
    """

    scores: tuple[str, ...]
    outcomes: tuple[str, ...]
    labels: tuple[str, ...]
    rows: tuple[str, ...]
    classes: tuple[str, ...]
    words: Mapping[str, frozenset[str]]


def look(cells: Mapping[str, Sequence[Any]]) -> Likely:
    """Sort columns by what their first cells look like."""
    kinds = {name: _kind(values) for name, values in cells.items()}
    named = {kind: tuple(name for name in cells if kinds[name] == kind) for kind in set(kinds.values())}
    scores = named.get("score", ())
    classes: tuple[str, ...] = ()
    if len(scores) > 2:
        table = np.array([[_number(cell) for cell in cells[name]] for name in scores], dtype=np.float64)
        classes = scores if np.allclose(table.sum(axis=0), 1, atol=2e-3, equal_nan=True) else ()
    outcomes = tuple(name for kind in ("outcome", "words", "constant") for name in named.get(kind, ()))
    labels = named.get("label", ())
    words = {
        name: frozenset(str(cell).strip() for cell in cells[name] if not _is_missing(cell))
        for name in (*outcomes, *labels)
    }
    rows = named.get("rows", ())
    return Likely(scores=scores, outcomes=outcomes, labels=labels, rows=rows, classes=classes, words=words)


def look_at(table: Table) -> Likely:
    """Sort a file's columns by what they look like; a file that cannot be read has none."""
    try:
        return look(table.head(min(ROWS, CELLS // max(len(table.columns), 1))))
    except CalibrantError:  # the file has another fault as well, which its first reading will name
        return look({})


def named_as_ids(columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns whose names are those of things that have several rows, such as ``patient_id``."""
    words = {name: [word.lower().removesuffix("s") for word in _WORD.findall(name)] for name in columns}
    named = {name: any(map(_THINGS.fullmatch, words[name])) for name in columns}
    return tuple(name for name in columns if named[name] and not _OF_THINGS.intersection(words[name]))


def parts_of_ids(columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that may name a thing with several rows, by themselves or together with others."""
    ids = named_as_ids(columns)
    return tuple(name for name in columns if name in ids or _has_word(name, _SIDES) or _has_word(name, _WHEN))


def _has_word(name: str, words: re.Pattern[str]) -> bool:
    return any(words.fullmatch(word.lower().removesuffix("s")) for word in _WORD.findall(name))


def cluster_hint(cells: Mapping[str, Sequence[Any]]) -> tuple[tuple[str, ...], ...]:
    """Return which columns name things with several rows each: those that do alone, else the finest combination.

    A combination has at most three columns, one of which or more says what the thing is and not only when it was.

    Parameters
    ----------
    cells : mapping of str to sequence
        The first cells of columns, in rows.
    """
    alone = tuple((name,) for name in named_as_ids(tuple(cells)) if is_repeated(cells[name]))
    parts = [name for name in parts_of_ids(tuple(cells)) if is_repeated(cells[name])][:_PARTS]
    if alone or not parts:
        return alone
    present = np.array([[not _is_missing(cell) for cell in cells[name]] for name in parts]).all(axis=0)
    codes = [np.unique([str(cell).strip() for cell in cells[name]], return_inverse=True)[1][present] for name in parts]
    finest: tuple[int, int, tuple[str, ...]] = (1, 0, ())
    for chosen in (some for k in range(2, _TOGETHER + 1) for some in combinations(range(len(parts)), k)):
        names = tuple(parts[place] for place in chosen)
        distinct = np.unique(np.stack([codes[place] for place in chosen]), axis=1).shape[1]
        found = distinct, sum(not _has_word(name, _WHEN) for name in names), names
        if found[1] and found[:2] > finest[:2] and distinct <= present.sum() / _REPEATED:
            finest = found
    return (finest[2],) if finest[2] else ()


def is_repeated(cells: Sequence[Any]) -> bool:
    """Whether whole numbers, words or dates come in several rows each."""
    present = [str(cell).strip() for cell in cells if not _is_missing(cell)]
    if any(re.fullmatch(r"[-+]?\d*\.\d*[1-9]\d*", cell) for cell in present):
        return False
    return 1 < len(set(present)) <= len(present) / _REPEATED


def proposed(error: Unnamed, likely: Likely, options: Options, noun: str = "column") -> Unnamed:
    """Return the error with the options that name likely columns, if there are any; else the same error."""
    choice = () if error.options else _choice(likely, options)
    if not choice and not error.options and likely.classes and options == Options():
        classes = f"probabilities of classes may be in {_some(likely.classes)} (--probs {','.join(likely.classes)})"
        remedy = f"{classes}, and no column looks like the true class: add one, and name it with --target"
        return Unnamed(error.path, error.problem, remedy)
    if not choice:
        return error
    kinds = []
    if choice[0] == "--score":
        kinds.append(("probabilities", likely.scores))
    elif choice[0] == "--probs":
        kinds.append(("probabilities of classes", likely.rows or likely.classes or likely.scores))
    if "--outcome" in choice:
        kinds.append(("outcomes", tuple(name for name in likely.outcomes if name not in _taken(options))))
    elif "--target" in choice:
        kinds.append(("labels", (*likely.labels, *likely.outcomes)))
    words = [f"{what} in {_some(names)}" for what, names in kinds]
    if {"--outcome", "--target"}.intersection(choice) and not _is_named_so(likely, choice, options):
        words[-1] += f" (a guess from {'its' if len(kinds[-1][1]) == 1 else 'their'} values)"
    proposal = "; ".join(words).replace(" in ", " may be in ", 1)
    if noun == "array":  # which are named alike, however many classes there are
        choice = tuple({"--score": "--probs", "--outcome": "--target"}.get(word, word) for word in choice)
    return Unnamed(error.path, error.problem, f"{proposal}; name yours, such as", choice)


def best_pair(scores: Sequence[str], outcomes: Sequence[str], likely: Likely) -> tuple[str, str] | None:
    """Return the score and the outcome that belong together most likely; None where there is no pair.

    A score and an outcome are no pair if only one of them is named like a third column: ``prob_insult`` and ``toxic``
    where there is ``insult``.
    """
    pairs = [(score, outcome) for score in scores for outcome in outcomes if score != outcome]
    pairs = [pair for pair in pairs if _are_alike(*pair) or not _has_another(*pair, likely)]
    return min(pairs, key=_unlikeliness, default=None)


def _taken(options: Options) -> set[str | None]:
    """Return the columns that the options name."""
    names = (options.score, options.outcome, options.target, options.weight)
    return {*names, *options.by, *options.models, *options.clusters, *options.on}


def _choice(likely: Likely, options: Options) -> tuple[str, ...]:
    taken = _taken(options)
    outcomes = [name for name in likely.outcomes if name not in taken]
    labels = sorted((name for name in likely.labels if name not in taken), key=_not_outcome)
    truth_name = options.outcome or options.target
    if options.score is not None or options.models:
        pair = best_pair([options.score] if options.score else options.models, outcomes, likely)
        return ("--outcome", pair[1]) if pair else ()
    if options.probs is not None:
        truth = [*labels, *outcomes][:1]
        return ("--target", truth[0], *_named_alike(likely, options.probs, truth[0], options)) if truth else ()
    truth = [truth_name] if truth_name else [*labels, *outcomes]
    several = _multilabel(likely)
    if several and truth_name is None:
        scores, targets = zip(*several, strict=True)
        notion = () if likely.classes else ("--notion", "multilabel")  # else they are one-hot
        return ("--probs", ",".join(scores), "--target", ",".join(targets), *notion)
    many = likely.rows[:1] or ((",".join(likely.classes),) if likely.classes else ())
    if likely.classes and not likely.rows and truth_name is None:
        truth = [name for name in truth if _fits(likely, name)]
        if not truth:
            return ()
    if many and truth:
        target = () if truth_name else ("--target", truth[0])
        return ("--probs", many[0], *target, *_named_alike(likely, many[0], truth[0], options))
    free = [name for name in likely.scores if name not in taken]
    pair = best_pair(free, [truth_name] if truth_name else outcomes, likely)
    if pair is None:
        return ()
    return ("--score", pair[0]) if truth_name else ("--score", pair[0], "--outcome", pair[1])


def _multilabel(likely: Likely) -> list[tuple[str, str]]:
    """Return the scores of several labels, each with its outcome: ``prob_toxic`` and ``toxic``, and so the others."""
    of_words: dict[str, list[tuple[str, str]]] = {}
    for score in likely.scores:
        for outcome in likely.outcomes:
            if outcome != score and outcome in score:
                of_words.setdefault(score.replace(outcome, "*", 1), []).append((score, outcome))
    pairs = max(of_words.values(), key=len, default=[])
    return pairs if len(pairs) > 1 else []


def _fits(likely: Likely, target: str) -> bool:
    """Whether a column may be the true class of columns of probabilities: by its name, or because it names them."""
    words = likely.words.get(target, frozenset())
    return bool(_OUTCOME.search(target)) or all(any(name.endswith(word) for name in likely.classes) for word in words)


def _named_alike(likely: Likely, probs: str, target: str, options: Options) -> tuple[str, ...]:
    """Return the option ``--labels`` where the columns are named like the labels."""
    names = [name.strip() for name in probs.split(",")]
    labels = likely.words.get(target, frozenset())
    free = options.labels is None and options.class_names is None
    return ("--labels", ",".join(names)) if free and len(names) > 1 and labels and labels <= set(names) else ()


def _unlikeliness(pair: tuple[str, str]) -> tuple[bool, bool, bool]:
    """Order pairs of a score and an outcome by their names; of equals, those that come first in the file are best."""
    score, outcome = pair
    return (not _are_alike(score, outcome), _not_outcome(outcome), not _SCORE.search(score))


def _are_alike(score: str, outcome: str) -> bool:
    """Whether one of two names holds the other: ``prob_toxic`` and ``toxic``."""
    short, long = sorted((score.lower(), outcome.lower()), key=len)
    return short in long and len(short) >= 3


def _has_another(score: str, outcome: str, likely: Likely) -> bool:
    """Whether a score has another outcome of its name, or an outcome another score."""
    outcomes = [name for name in likely.outcomes if name not in (score, outcome)]
    scores = [name for name in likely.scores if name not in (score, outcome)]
    return any(_are_alike(score, name) for name in outcomes) or any(_are_alike(name, outcome) for name in scores)


def _is_named_so(likely: Likely, choice: Sequence[str], options: Options) -> bool:
    """Whether the name of the proposed truth says that it is one, and not its values alone."""
    words = dict(zip(choice[::2], choice[1::2], strict=True))
    if "--outcome" in words:
        scores = [name for name in (words.get("--score"), options.score, *options.models) if name]
        outcome = words["--outcome"]
        return bool(_OUTCOME.search(outcome)) or any(_are_alike(score, outcome) for score in scores)
    return "," in words["--target"] or _fits(likely, words["--target"])


def _not_outcome(name: str) -> bool:
    return not _OUTCOME.search(name)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")


def _kind(cells: Sequence[Any]) -> str:
    present = [cell for cell in cells if not _is_missing(cell)]
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
        return "label" if distinct <= min(CLASSES, len(present) // 2) else ""
    values = set(numbers)
    if min(values) >= 0 and max(values) <= 1:
        ends = sum(number in (0, 1) for number in numbers)
        if len(values) == 1 and ends:
            return "constant"
        return "outcome" if ends >= 0.95 * len(numbers) and len(values) <= 3 else "score"
    integers = all(number.is_integer() for number in values)
    return "label" if integers and len(values) <= min(CLASSES, len(present) // 2) else ""


def _are_rows(lists: Sequence[list[Any]]) -> bool:
    width = len(lists[0])
    if width < 2 or any(not isinstance(row, list) or len(row) != width for row in lists):
        return False
    numbers = np.array([[_number(cell) for cell in row] for row in lists], dtype=np.float64)
    return bool(np.all((numbers >= 0) & (numbers <= 1)) and np.allclose(numbers.sum(axis=1), 1, atol=2e-3))


def _is_missing(cell: Any) -> bool:
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
