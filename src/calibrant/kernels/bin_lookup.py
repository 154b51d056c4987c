"""Find the bin or the cell of a score, and count it: helpers that several kernels share."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.kernels.bits import bits_of
from calibrant.kernels.compiled import inlined
from calibrant.kernels.reference_lookup import LOWERED

#: Entries that a kernel handles together: part of the work on them runs in vector lanes. The kernel takes a view of
#: them first. Numba cannot rule out that ``first + j`` is negative, and such an index keeps a loop out of the lanes.
CHUNK = 64

#: Sums of a cell that have room next to each other in one line of the processor's cache: 64 bytes.
LINE = 8


@inlined()
def bin_of(p: Any, uppers: Any) -> Any:
    """Return the first bin whose largest member is not below p, without a branch; p is in [0, 1].

    The largest members are j / M, rounded to the scores' type, or the number before. See `LOWERED`.
    """
    b = np.uint64(np.int64(p * uppers.dtype.type(uppers.shape[0] * LOWERED)))
    return b + np.uint64(p > uppers[b])


@inlined()
def start_of(p: Any, one: Any, shift: Any, first: Any) -> Any:
    """Return the place in a grid's lookup from where a score starts; for an invalid score, any place.

    ``one`` has the score's type. This runs in vector lanes.
    """
    bucket = np.int32(bits_of(min(p, one - p)) >> shift) - np.int32(first)
    return np.uint32(2 * (bucket if bucket > 0 else np.int32(0)) + np.int32(p > 0.5))


@inlined()
def cell_of(p: Any, start: Any, edges: Any) -> Any:
    """Return the cell of a score, at most two edges above ``start``, without a branch.

    No processor can predict the side of an edge where a score lies.
    Indices are unsigned: Numba need not test for negative ones.
    """
    cell = np.uint64(start)
    cell += np.uint64(p > edges[cell])
    cell += np.uint64(p > edges[cell])
    return np.uint64(edges.shape[0]) if p == 1 else cell  # in float32 an edge before the last may be 1


@inlined()
def tallies_of(n_bins: Any) -> Any:
    """Return room for the count and the sum of scores of each bin and outcome: two sets, so that no addition waits.

    Rows take the sets in turn. A place is twice the bin plus the outcome: that is faster than a third sum.
    """
    return np.zeros((4 * n_bins, 2))


@inlined()
def add_tally(p: Any, y: Any, turn: Any, uppers: Any, tallies: Any) -> Any:
    """Add a score and its outcome to the first or the second set of tallies."""
    b = bin_of(p, uppers) + np.uint64(uppers.shape[0] * turn)
    place = b + b + np.uint64(y)
    tallies[place, 0] += 1.0
    tallies[place, 1] += np.float64(p)


@inlined()
def add_tallies(tallies: Any, sums: Any) -> Any:
    """Add them to the sums (3, M) of the bins: count, sum of scores, number of outcomes 1."""
    for b in range(sums.shape[1]):
        for no in (2 * b, 2 * (b + sums.shape[1])):
            sums[0, b] += tallies[no, 0] + tallies[no + 1, 0]
            sums[1, b] += tallies[no, 1] + tallies[no + 1, 1]
            sums[2, b] += tallies[no + 1, 0]
