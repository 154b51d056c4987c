"""What the names of columns say: a truth, a predicted label, whether an answer was right; and which class is whose."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

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
#: Pairs of labels of which the second is the event, whoever writes them.
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
    words = words_of(score)
    found = [label for label in labels if label and not label.isdecimal() and _is_within(words_of(label), words)]
    longest = max(found, key=len, default=None)  # "no_disease", not the "disease" in it
    return longest


def _is_within(inner: Sequence[str], outer: Sequence[str]) -> bool:
    width = len(inner)
    return width > 0 and any(tuple(outer[k : k + width]) == tuple(inner) for k in range(len(outer) - width + 1))


def order_of(columns: Sequence[str], labels: Sequence[str]) -> tuple[str, ...] | None:
    """Return the labels in the order of the columns that are named like them; None where the names leave a doubt.

    What the names of all columns begin and end with is left out. The rest names a label if the two are equal, else if
    one begins or ends with the other, or both say that an event happened, or did not. Each rule holds for all labels
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
    found = exact or alike
    return found.pop() if len(found) == 1 else None


def _same_side(one: str, other: str) -> bool:
    """Whether both words say that the event happened, or both that it did not."""
    return any({one, other} <= {pair[side] for pair in _EVENTS} for side in (0, 1))


def _matched(
    rests: Sequence[str], labels: Sequence[str], places: Sequence[Sequence[int]], *, may_lack: bool
) -> set[tuple[str, ...]]:
    """Return the labels in the order of the columns, if each label has one place, and each place one label."""
    of_place = {of_label[0]: label for label, of_label in zip(labels, places, strict=True) if len(of_label) == 1}
    whole = len(of_place) == len(rests) or (may_lack and len(of_place) > 1)
    order = tuple(of_place.get(place, rest) for place, rest in enumerate(rests))
    plain = len(set(order)) == len(order) and all(label and "," not in label for label in order)
    return {order} if len(of_place) == len(labels) and whole and plain else set()


def _rests(columns: Sequence[str]) -> list[tuple[str, ...]]:
    """Return what may name the classes: the columns' names, and those without what all begin and end with.

    What they begin with is left out up to the last sign that separates words, and whole: ``prob_no`` and ``PH``.
    """
    names = list(columns)
    start = os.path.commonprefix(names)  # noqa: RUF071 - these are no paths
    found = [tuple(names)]
    for beginning in {re.sub(r"[A-Za-z0-9]*$", "", start), re.sub(r"[0-9]*$", "", start)}:
        rests = [name[len(beginning) :] for name in names]
        end = os.path.commonprefix([rest[::-1] for rest in rests])[::-1]  # noqa: RUF071
        ending = re.sub(r"^[A-Za-z0-9]*", "", end)
        found.append(tuple(rest[: len(rest) - len(ending)] for rest in rests))
    return list(dict.fromkeys(found))


def _plain(name: str) -> str:
    """Return a name in lower case, with nothing but letters, digits and the sign of a number."""
    return name if re.fullmatch(r"-[0-9]+", name) else re.sub(r"[\W_]+", "", name).casefold()
