"""Sort packed events on threads, and count the distinct scores: many events are first moved into parts by their score.

A part fits into a processor's cache, where sorting is faster; and parts are sorted at the same time.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.kernels.blocks import in_order, lanes_of
from calibrant.kernels.loading import SMALL, kernels_for
from calibrant.kernels.reference_lookup import Floats, Int64s, Keys

_PART = 1 << 16  # keys, about
_OCTAVES = 32  # scores below 2^-32 share a place
_FINE = 9  # bits of a mantissa that separate places
_PLACES = (_OCTAVES << _FINE) + 1  # the last one for the score 1


def distinct_keys(keys: Keys) -> tuple[Floats, Int64s, Int64s]:
    """Return the distinct scores of packed events in order, their counts and their counts of outcomes 1, exactly.

    The keys may be overwritten.
    """
    kernels, floats = kernels_for("tables", len(keys)), np.dtype(f"f{keys.itemsize}")
    moved, ends = _parted(keys, floats) if len(keys) > SMALL else (keys.copy(), [len(keys)])
    parts, rooms = _cut(moved, ends), _cut(keys, ends)

    def count(part: int) -> int:
        kernels.sort_keys(parts[part], rooms[part])
        return int(kernels.count_runs(parts[part]))

    numbers = list(accumulate(in_order(count, len(parts))))
    n = numbers[-1]
    columns = np.empty(n, keys.dtype), np.empty(n, np.int64), np.empty(n, np.int64)
    runs = list(zip(*(_cut(column, numbers) for column in columns), strict=True))

    def fill(part: int) -> None:
        if len(parts[part]):
            kernels.fill_runs(parts[part], *runs[part])

    for _ in in_order(fill, len(parts)):
        pass
    bits, counts, positives = columns
    return bits.view(floats), counts, positives


def _cut(column: NDArray[Any], ends: list[int]) -> list[NDArray[Any]]:
    return [column[a:b] for a, b in pairwise([0, *ends])]


def _parted(keys: Keys, floats: np.dtype[Any]) -> tuple[Keys, list[int]]:
    """Return the keys moved into parts in the order of their scores, and where each part ends.

    The leading bits of a key are its place. Parts hold whole places, so that equal scores are together.
    """
    kernels, kind = kernels_for("tables", len(keys)), keys.dtype.type
    least = kind(np.array(2.0**-_OCTAVES, floats).view(keys.dtype) << kind(1))
    shift = kind(np.finfo(floats).nmant + 1 - _FINE)
    lanes = lanes_of(len(keys), 1, _PLACES)

    def count(lane: int) -> Int64s:
        a, b = lanes[lane]
        counts = np.zeros(_PLACES, np.int64)
        kernels.count_places(keys[a:b], least, shift, counts)
        return counts

    counts = np.stack(list(in_order(count, len(lanes))))
    fill = np.cumsum(counts.sum(axis=0)) // _PART
    change = np.diff(fill, prepend=fill[0]) > 0  # a part begins
    part_of = np.cumsum(change)
    sizes = np.add.reduceat(counts, np.append(0, np.flatnonzero(change)), axis=1).T  # (parts, lanes)
    stops = np.cumsum(sizes).reshape(sizes.shape)
    nexts, target = (stops - sizes).T.copy(), np.empty_like(keys)

    def move(lane: int) -> None:
        a, b = lanes[lane]
        kernels.move_keys(keys[a:b], least, shift, part_of, nexts[lane], target)

    for _ in in_order(move, len(lanes)):
        pass
    return target, stops[:, -1].tolist()
