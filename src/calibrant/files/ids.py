"""Columns that name what several rows belong to, by their names and first cells: for a hint about clusters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Final

import numpy as np

from calibrant.files.likely import is_missing_cell
from calibrant.files.roles import words_of

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
    present = np.array([[not is_missing_cell(cell) for cell in cells[name]] for name in parts]).all(axis=0)
    if not present.any():
        return ()
    codes = [np.unique([str(cell).strip() for cell in cells[name]], return_inverse=True)[1][present] for name in parts]
    finest: tuple[int, int, tuple[str, ...]] = (1, 0, ())
    for chosen in (some for k in range(2, _TOGETHER + 1) for some in combinations(range(len(parts)), k)):
        names = tuple(parts[place] for place in chosen)
        together = np.ravel_multi_index(
            [codes[place] for place in chosen], [codes[place].max() + 1 for place in chosen]
        )
        found = len(np.unique(together)), sum(not _has_word(name, _WHEN) for name in names), names
        if found[1] and found[:2] > finest[:2] and found[0] <= present.sum() / _REPEATED:
            finest = found
    return (finest[2],) if finest[2] else ()


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
