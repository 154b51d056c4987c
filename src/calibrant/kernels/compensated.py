"""Sums whose rounded value does not depend on the order of their terms.

A sum is a pair along the first axis of an array, (2, ...): the rounded sum, and what rounding has lost so far. Both are
added up at the end (Neumaier's compensated summation, with Knuth's exact remainder of an addition). Their sum is off by
some 2^-100 of the sum of the terms' sizes, so its nearest float64 is the same in every order.

NumPy adds many terms at a time. They are cut into parts that float64 adds without rounding.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.runtime.arrays import Float64s

_TOGETHER: Final = 1 << 15  # terms that are cut together: their parts stay in the cache
_LARGEST: Final = 900  # the largest exponent of 2 of terms that are cut
_FAR: Final = 2.0**20  # the first parts of a bin are at least so many times its second parts


def largest_of(terms: Float64s) -> float:
    """Return the size of the largest term, (n,)."""
    return max(float(terms.max(initial=0.0)), -float(terms.min(initial=0.0)))


def shift_of(largest: float, n: int) -> float:
    """Return a number that rounds n terms of at most this size, so that their sums are exact.

    A term plus and minus the shift is a multiple of 2^-52 shift, and n such are below the shift (Rump's extraction).
    The shift of terms near the largest float64 is 0.
    """
    exponent = math.frexp(largest)[1] + n.bit_length()
    return math.ldexp(1.5, exponent) if exponent < _LARGEST else 0.0


def _cut(terms: Float64s) -> tuple[Float64s, Float64s]:
    """Cut terms into two parts which add up to them: sums of the first are exact, the second is small."""
    shift = shift_of(largest_of(terms), len(terms))
    high = terms + shift
    high -= shift
    return high, terms - high


def add(pairs: Float64s, terms: Float64s) -> None:
    """Add terms, (k, n), to pairs, (2, k)."""
    for first in range(0, terms.shape[1], _TOGETHER):
        parts = [_cut(row) for row in terms[:, first : first + _TOGETHER]]
        merge(pairs, [[np.add.reduce(part[k]) for part in parts] for k in range(2)])


def add_binned(pairs: Float64s, places: NDArray[np.intp], terms: NDArray[Any]) -> None:
    """Add terms, (n,), to the pairs (2, ...) at their places, which count the pairs in the order of memory."""
    if terms.dtype.kind != "f":
        pairs[0] += _binned(places, terms, pairs)  # whole numbers
        return
    columns = terms.astype(np.float64, copy=False)
    for first in range(0, len(terms), _TOGETHER):
        at = places[first : first + _TOGETHER]
        high, rest = _cut(columns[first : first + _TOGETHER])
        sums = [_binned(at, part, pairs) for part in (high, rest)]
        if (np.abs(sums[0]) < _FAR * np.abs(sums[1])).any():  # all terms of a bin are far below the largest
            middle, rest = _cut(rest)
            merge(pairs, (_binned(at, middle, pairs), 0.0))
            sums[1] = _binned(at, rest, pairs)
        merge(pairs, sums)


def _binned(places: NDArray[np.intp], terms: NDArray[Any], pairs: Float64s) -> NDArray[Any]:
    return np.bincount(places, terms, pairs[0].size).reshape(pairs.shape[1:])


def total_of(terms: NDArray[Any]) -> float:
    """Return the sum of terms, (n,)."""
    return float(joined(sums_of(terms[None])).item())


def binned(places: NDArray[np.intp], terms: NDArray[Any] | None, size: int) -> Float64s:
    """Return the sum of the terms at each place, (size,); without terms, the number of entries at each place."""
    pairs = np.zeros((2, size))
    add_binned(pairs, places, np.ones(len(places), np.uint8) if terms is None else terms)
    return joined(pairs)


def sums_of(terms: NDArray[Any]) -> Float64s:
    """Return the sums of the rows of terms, (k, n), as pairs, (2, k)."""
    pairs = np.zeros((2, len(terms)))
    add(pairs, terms.astype(np.float64, copy=False))
    return pairs


def merge(pairs: Float64s, others: Any) -> None:
    """Add other sums, (2, ...), to pairs."""
    total = pairs[0] + others[0]
    back = total - pairs[0]
    pairs[1] += (pairs[0] - (total - back)) + (others[0] - back) + others[1]
    pairs[0] = total


def joined(pairs: Float64s) -> Float64s:
    """Return the sums as float64."""
    sums = pairs[0] + pairs[1]
    return np.asarray(sums if np.isfinite(sums).all() else np.where(np.isfinite(pairs[0]), sums, pairs[0]))
