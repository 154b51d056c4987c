"""Which bin or cell a score is in: what kernels of several passes share."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.kernels.bits import bits_of
from calibrant.kernels.compiled import inlined

#: Entries looked at together: a part of the work on them runs in vector lanes.
CHUNK = 64


@inlined()
def bounds_of(uppers: Any) -> Any:
    """Put a number below every score before the largest members of the bins."""
    bounds = np.empty(uppers.shape[0] + 1, uppers.dtype)
    bounds[0] = -1
    bounds[1:] = uppers
    return bounds


@inlined()
def bin_of(p: Any, bounds: Any) -> Any:
    """Index of the bin with bounds[b] < p <= bounds[b + 1]: floor(p M), off by at most one, corrected without a branch.

    The edges are j / M rounded to the scores' type: for M up to a million the product is in the right bin or beside.
    """
    last = bounds.shape[0] - 2
    b = min(int(np.float64(p) * (last + 1)), last)
    return b - (p <= bounds[b]) + (p > bounds[b + 1])


@inlined()
def start_of(p: Any, one: Any, shift: Any, first: Any) -> Any:
    """Return the place in a grid's lookup where a score starts from; any place for what is no score.

    ``one`` is of the score's type. It runs in vector lanes.
    """
    bucket = np.int32(bits_of(min(p, one - p)) >> shift) - np.int32(first)
    return np.uint32(2 * (bucket if bucket > 0 else np.int32(0)) + np.int32(p > 0.5))


@inlined()
def cell_of(p: Any, start: Any, edges: Any) -> Any:
    """Return the cell of a score from where to start, at most two edges away, without a branch.

    Whether scores are on one side or the other no processor can foresee.
    Indices are unsigned: Numba has no negative ones to look for.
    """
    cell = np.uint64(start)
    cell += np.uint64(p > edges[cell])
    cell += np.uint64(p > edges[cell])
    return np.uint64(edges.shape[0]) if p == 1 else cell  # edges of float32 may be 1 before the last
