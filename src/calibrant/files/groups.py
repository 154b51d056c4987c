"""The groups of rows by columns: many numbers are cut into groups of equal size, and several columns are joined."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.files.cuts import Cuts
from calibrant.files.values import Column, Words
from calibrant.inputs.groups import group_name

#: Numbers of more different values than this are cut, into so many groups.
MOST_VALUES: Final = 50
PARTS: Final = 5

#: What stands between the names of several columns.
BETWEEN: Final = " · "

#: Different values that are counted; of more, the last bits are dropped.
_COUNTED: Final = 1 << 20

#: A number as text. Codes such as 02134 and words such as inf are names.
_NUMBER: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")


class Values:
    """The different numbers of a column with their counts, some rows after the other, in any order.

    Up to 2^20 different numbers are counted one by one. Of more, the last bits are dropped, as few as are needed: the
    groups are then a little less equal in size.
    """

    def __init__(self) -> None:
        self._values: NDArray[np.float64] = np.empty(0)
        self._counts: NDArray[np.int64] = np.empty(0, np.int64)
        self._dropped = 0
        self._lows: NDArray[np.float64] = np.empty(0)
        self._highs: NDArray[np.float64] = np.empty(0)
        self._waiting: list[tuple[NDArray[np.float64], NDArray[np.int64]]] = []
        self.numbers = True

    def add(self, words: Words) -> None:
        """Count rows, while all are numbers."""
        names = words.names
        if names.dtype.kind in "OUS":
            self.numbers = self.numbers and all(_NUMBER.fullmatch(str(name)) for name in names)
        else:
            self.numbers = self.numbers and names.dtype.kind in "iuf"
        if not self.numbers:
            return
        numbers = names.astype(str).astype(np.float64) if names.dtype.kind in "OUS" else names.astype(np.float64)
        counts = np.bincount(words.codes, minlength=len(names))
        known = ~np.isnan(numbers) & (counts > 0)
        self._waiting.append((numbers[known] + 0.0, counts[known]))  # of -0.0 and 0.0 one value
        if sum(len(numbers) for numbers, _ in self._waiting) >= _COUNTED:
            self._merge()

    def cuts(self) -> Cuts | None:
        """Return the groups of equal size; None where the values are names, or few numbers."""
        self._merge()
        if not self.numbers or len(self._values) <= MOST_VALUES:
            return None
        ends = np.cumsum(self._counts)
        wanted = ends[-1] * np.arange(1, PARTS + 1) / PARTS
        lasts = np.unique(np.searchsorted(ends, wanted))
        firsts = np.concatenate([[0], lasts[:-1] + 1])
        return Cuts.of(self._lows[firsts].tolist(), self._highs[lasts].tolist())

    def _merge(self) -> None:
        """Count what is waiting."""
        numbers = np.concatenate([np.empty(0), *(numbers for numbers, _ in self._waiting)])
        values = np.concatenate([self._values, self._coarse(numbers)])
        lows, highs = np.concatenate([self._lows, numbers]), np.concatenate([self._highs, numbers])
        counts = np.concatenate([self._counts, *(counts for _, counts in self._waiting)])
        self._waiting.clear()
        while True:
            order = np.argsort(values, kind="stable")
            ordered = values[order]
            firsts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])
            self._values = ordered[firsts]
            self._counts = np.add.reduceat(counts[order], firsts)
            self._lows = np.minimum.reduceat(lows[order], firsts)
            self._highs = np.maximum.reduceat(highs[order], firsts)
            if len(self._values) <= _COUNTED:
                return
            self._dropped += 4
            values, counts, lows, highs = self._coarse(self._values), self._counts, self._lows, self._highs

    def _coarse(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return numbers without the bits that are dropped: the order stays."""
        bits = numbers.view(np.int64) & ~np.int64((1 << self._dropped) - 1)
        return bits.view(np.float64)


def cut(words: Words, cuts: Cuts) -> Words:
    """Return the group of each row; a number that is missing stays missing."""
    numbers = np.asarray(words.names if words.names.dtype.kind in "iuf" else words.names.astype(str), np.float64)
    places = np.minimum(np.searchsorted(cuts.uppers, numbers), len(cuts.uppers) - 1)
    names = np.array([*cuts.names, np.nan], object)
    return Words(names, np.where(np.isnan(numbers), len(cuts.names), places)[words.codes])


def joined(columns: Sequence[Column]) -> Words:
    """Return one name for each row of one or several columns."""
    first, *others = (column if isinstance(column, Words) else Words.of(column) for column in columns)
    if not others:
        return first
    names, codes = [_quoted(name) for name in first.names], first.codes.astype(np.intp)
    for words in others:
        found, codes = np.unique(codes * len(words.names) + words.codes, return_inverse=True)
        pairs = zip(*(side.tolist() for side in np.divmod(found, len(words.names))), strict=True)
        more = [_quoted(name) for name in words.names]
        names = [_join(names[a], more[b]) for a, b in pairs]
    return Words(np.array(names, object), codes)


def _join(name: Any, other: Any) -> Any:
    """Return two names as one; a missing name makes the whole missing."""
    return np.nan if name != name or other != other else f"{name}{BETWEEN}{other}"


def _quoted(name: Any) -> Any:
    """Return a name as text, in quotes where it looks like several."""
    text = name if isinstance(name, float) and np.isnan(name) else group_name(name)
    return repr(text) if isinstance(text, str) and BETWEEN in text else text
