"""Names of classes: which of two labels is the event, and which column is the one of a label."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

#: Two labels of an outcome, the event second, whoever writes them.
EVENTS: Final = tuple(
    re.findall(
        r"(\S+)/(\S+)",
        """
        no/yes n/y false/true f/t 0/1 -1/1 loss/win lost/won lose/win l/w negative/positive neg/pos fail/pass
        failed/passed failure/success incorrect/correct wrong/right absent/present miss/hit
        nein/ja falsch/richtig falsch/wahr niederlage/sieg verloren/gewonnen non/oui faux/vrai perdu/gagné no/sí no/si
        falso/verdadero não/sim falso/verdadeiro falso/vero nee/ja nej/ja nei/ja ei/kyllä nie/tak ne/ano nem/igen
        hayır/evet нет/да ложь/истина 否/是 错/对 いいえ/はい 아니오/예 không/có tidak/ya नहीं/हाँ لا/نعم
        """,
    )
)
_NEGATIONS: Final = ("no", "not", "non")
_MANY: Final = 100  # columns whose names name their classes in full, or not at all


@lru_cache(4096)
def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name, in lower case: ``('pred', 'label')`` of ``predLabel`` and of ``.pred_label``."""
    return tuple(word.lower() for word in _WORD.findall(name))


def event_of(labels: Sequence[str], score: str = "") -> str | None:
    """Return which of two labels is the event of a score; None where the labels and the score's name do not agree."""
    usual = _usual_event(labels)
    words = {label: " ".join(words_of(label)) for label in labels if not label.isdecimal()}
    named = [label for label, text in words.items() if text and f" {text} " in f" {' '.join(words_of(score))} "]
    event = max(named, key=len, default=usual)  # "no_disease", not the "disease" in it
    return event if usual in (None, event) else None


def has_event(labels: Sequence[str]) -> bool:
    """Whether two among several labels say that an event occurred, or did not: yes, no and unresolved."""
    plain = {_plain(label) for label in labels}
    return any(plain.issuperset(pair) for pair in EVENTS if pair[1].isalpha())


def _usual_event(labels: Sequence[str]) -> str | None:
    if len(labels) != 2:
        return None
    for no, yes in (labels, labels[::-1]):
        plain = (_plain(no), _plain(yes))
        if plain in EVENTS or plain[0] in [word + plain[1] for word in _NEGATIONS]:
            return yes
    if all(re.fullmatch(r"[0-9]+", label) for label in labels) and "0" in labels:
        return max(labels, key=int)
    return None


def order_of(columns: Sequence[str], labels: Sequence[str]) -> tuple[str, ...] | None:
    """Return the labels in the order of the columns that are named like them; None where the names leave a doubt.

    What the names of all columns begin and end with is left out. The rest names a label if the two are equal, else if
    one begins or ends with the other, or both say that an event occurred, or did not. Each rule holds for all labels
    at once, one to one, and no two rules give two orders. A label that is in no row is spelled as its column, where the
    others are equal to theirs.
    """
    alike = (_same_side, str.startswith, str.endswith) if len(columns) <= _MANY else ()
    for rules in ((str.__eq__,), alike):
        of_rules = (_matched(rests, labels, rule) for rests in _rests(columns) for rule in rules)
        orders = {order for order in of_rules if order is not None}
        if orders:
            return orders.pop() if len(orders) == 1 else None
    return None


def ordered(names: tuple[str, ...], pattern: str) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Put the columns of a pattern in the order of the classes; return their suffixes unless these are 0 to C - 1."""
    prefix = re.split(r"[*?[]", pattern, maxsplit=1)[0]
    tail = pattern[len(prefix) + 1 :] if pattern.count("*") == 1 and not re.search(r"[?[]", pattern) else ""
    if "," in pattern or len(names) == 1:
        return names, None
    suffix = {name: name[len(prefix) : len(name) - len(tail)] for name in names}
    if all(re.fullmatch("[0-9]+", text) for text in suffix.values()):
        numbers = {name: int(text) for name, text in suffix.items()}
        if len(set(numbers.values())) == len(names):
            names = tuple(sorted(names, key=numbers.__getitem__))
            if sorted(numbers.values()) == list(range(len(names))):
                return names, None
    return names, tuple(suffix[name] for name in names)


def ends_of(names: tuple[str, ...], beginnings: Sequence[str]) -> tuple[str, ...] | None:
    """Return the names of classes by listed columns: what follows their common beginning, such as ``p_`` or ``prob``.

    ``beginnings`` are such words. None if they have different beginnings, or if 0 to C - 1 follow the common one.
    """
    common = os.path.commonprefix(names)  # noqa: RUF071 - these are not paths
    usual = (word for word in beginnings if len(word) > 3 and common.lower().startswith(word))
    words = [common[: len(word)] for word in usual]
    beginning = max(re.sub(r"[^_.\- ]*$", "", common), *words, "", key=len)
    ends = tuple(name[len(beginning) :] for name in names)
    numbered = ends == tuple(map(str, range(len(names))))
    return None if len(names) == 1 or not beginning or numbered or not all(ends) else ends


def _same_side(one: str, other: str) -> bool:
    """Whether both words say that the event occurred, or both that it did not."""
    return any({one, other} <= {pair[side] for pair in EVENTS} for side in (0, 1))


def _matched(rests: Sequence[str], labels: Sequence[str], rule: Callable[[str, str], bool]) -> tuple[str, ...] | None:
    """Return the labels in the order of the columns, if a rule gives each label one place, and each place one label.

    Equal names leave no doubt: then columns of more classes keep what may name them.
    """
    names = list(map(_plain, rests))
    of_place = {}
    for label in labels:
        word = _plain(label)
        places = [k for k, name in enumerate(names) if name and word and (rule(name, word) or rule(word, name))]
        if len(places) != 1:
            return None
        of_place[places[0]] = label
    order = tuple(of_place.get(place, rest) for place, rest in enumerate(rests))
    is_complete = len(of_place) == len(rests) or (rule is str.__eq__ and len(of_place) > 1)
    is_one_to_one = len(of_place) == len(labels) and len(set(order)) == len(order)
    return order if is_complete and is_one_to_one and all(label and "," not in label for label in order) else None


def _rests(columns: Sequence[str]) -> list[tuple[str, ...]]:
    """Return what may name the classes: the columns' names, and those without what all begin and end with.

    What they begin with is left out up to the last sign that separates words, and whole: ``prob_no`` and ``PH``.
    """
    start = os.path.commonprefix(columns)  # noqa: RUF071 - these are not paths
    candidates = [tuple(columns)]
    for beginning in {re.sub(r"[A-Za-z0-9]*$", "", start), re.sub(r"[0-9]*$", "", start)}:
        rests = [name[len(beginning) :] for name in columns]
        end = os.path.commonprefix([rest[::-1] for rest in rests])[::-1]  # noqa: RUF071
        ending = re.sub(r"^[A-Za-z0-9]*", "", end)
        candidates.append(tuple(rest[: len(rest) - len(ending)] for rest in rests))
    return list(dict.fromkeys(candidates))


def _plain(name: str) -> str:
    """Return a name in lower case, with nothing but letters, digits and the sign of a number."""
    return name if re.fullmatch(r"-[0-9]+", name) else re.sub(r"[\W_]+", "", name).casefold()
