"""Fast loops for the host's processor over rows in clusters: number the labels, fill the cells of buckets.

Like the loops of `host`, they have readable versions, here in `reference_clusters`, and are imported inside functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.kernels import reference_clusters
from calibrant.kernels.bin_lookup import CHUNK, cell_of, start_of
from calibrant.kernels.compiled import inlined, kernel

_LEAST = 1024  # slots of the smallest table of labels
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, its bits well mixed: the golden ratio


@inlined()
def _slot_of(words: Any, i: Any, mask: Any) -> Any:
    """Return the slot from where the search for a row starts."""
    mixed = np.uint64(0)
    for j in range(words.shape[1]):
        mixed = (mixed ^ np.uint64(words[i, j])) * _FACTOR
        mixed ^= mixed >> np.uint64(32)
    return mixed & mask


@inlined()
def _equal(words: Any, i: Any, keys: Any, k: Any) -> Any:
    different = 0
    for j in range(words.shape[1]):
        different += words[i, j] != keys[k, j]
    return different == 0


@inlined()
def _enter(keys: Any, count: Any, slots: Any) -> None:
    """Enter the numbers of these distinct keys into an empty table."""
    mask = np.uint64(slots.shape[0] - 1)
    for number in range(count):
        slot = _slot_of(keys, number, mask)
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = number


@inlined()
def _number(words: Any, most: Any, numbers: Any, begin: Any, count: Any, slots: Any, firsts: Any, keys: Any) -> Any:
    """Return the first row without a number and the count of numbers, once the table is half full or no row is left."""
    n, width, mask = words.shape[0], words.shape[1], np.uint64(slots.shape[0] - 1)
    places, guesses, hits = np.empty(CHUNK, np.uint64), np.empty(CHUNK, np.int32), np.empty(CHUNK, np.bool_)
    while begin < n and count <= most and count + CHUNK <= firsts.shape[0]:
        stop = min(begin + CHUNK, n)
        for i in range(begin, stop):
            places[i - begin] = _slot_of(words, i, mask)
        for i in range(begin, stop):
            guesses[i - begin] = slots[places[i - begin]]
        for i in range(begin, stop):
            guess = guesses[i - begin]
            hits[i - begin] = guess >= 0 and _equal(words, i, keys, guess)
        for i in range(begin, stop):
            number = guesses[i - begin]
            if not hits[i - begin]:
                slot = places[i - begin]
                while slots[slot] >= 0 and not _equal(words, i, keys, slots[slot]):
                    slot = (slot + np.uint64(1)) & mask
                if slots[slot] < 0:
                    slots[slot] = count
                    firsts[count] = i
                    for j in range(width):
                        keys[count, j] = words[i, j]
                    count += 1
                number = slots[slot]
            numbers[i] = number
        begin = stop
    return begin, count


@kernel(reference_clusters.number_rows)
def number_rows(words: Any, most: Any, numbers: Any) -> Any:
    """See `reference_clusters.number_rows`: a hash table, at most half full, of the numbers given so far.

    The table outgrows the nearest cache. So the first slots of many rows are read together, then the keys with these
    numbers: the processor waits for all of them at once.
    """
    n, width = words.shape
    begin, count, size = 0, 0, _LEAST
    firsts, keys = np.empty(0, np.int64), np.empty((0, width), words.dtype)
    while True:
        slots, longer = np.full(size, -1, np.int32), np.empty(size // 2, np.int64)
        wider = np.empty((size // 2, width), words.dtype)
        longer[:count], wider[:count] = firsts[:count], keys[:count]
        firsts, keys = longer, wider
        _enter(keys, count, slots)
        begin, count = _number(words, most, numbers, begin, count, slots, firsts, keys)
        if begin >= n or count > most:
            return firsts[: min(count, most + 1)].copy()
        size *= 4


@kernel(reference_clusters.bucket_rows)
def bucket_rows(
    buckets: Any,
    scores: Any,
    outcomes: Any,
    weights: Any,
    weighted: Any,
    coarse: Any,
    edges: Any,
    starts: Any,
    shift: Any,
    first: Any,
    sums: Any,
) -> Any:
    """See `reference_clusters.bucket_rows`.

    The products are stored before they are added. Fused with the addition they would have other last bits than the
    reference's.
    """
    places, masses, gaps = np.empty(CHUNK, np.uint32), np.ones(CHUNK), np.empty(CHUNK)
    one, width, flat = scores.dtype.type(1), np.uint32(sums.shape[1]), sums.reshape(-1, 3)
    for begin in range(0, scores.shape[0], CHUNK):
        size = min(CHUNK, scores.shape[0] - begin)
        some, hits = scores[begin : begin + size], outcomes[begin : begin + size]
        for j in range(size):
            places[j] = start_of(some[j], one, shift, first)
            gaps[j] = np.float64(some[j]) - np.float64(hits[j])
        if weighted:
            own = weights[begin : begin + size]
            for j in range(size):
                masses[j] = own[j]
                gaps[j] *= own[j]
        for j in range(size):
            cell = coarse[cell_of(some[j], starts[places[j]], edges)]
            places[j] = np.uint32(buckets[begin + j]) * width + np.uint32(cell)
        for j in range(size):
            at = np.uint64(places[j])
            flat[at, np.uint64(0)] += masses[j]
            flat[at, np.uint64(1)] += masses[j] * np.float64(hits[j])
            flat[at, np.uint64(2)] += gaps[j]
