"""What the compiled loops over rows in clusters compute, in readable code.

Each function has a fast twin of the same name and signature in `host_clusters`; tests compare the two, as for the
functions of `reference`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.kernels.reference import Float64s, Floats, Int64s, UInt8s, UInt16s

Words = NDArray[np.unsignedinteger[Any]]


def number_rows(words: Words, most: int, numbers: Int64s) -> Int64s:
    """Return where each distinct row of words (n, k) comes first, in increasing order.

    ``numbers`` (n,) receives the number of each row: its distinct row's index in that order. With more than ``most``
    distinct rows, return the first ``most`` + 1; then ``numbers`` has no meaning.
    """
    seen: dict[bytes, int] = {}
    firsts: list[int] = []
    for i, row in enumerate(words):
        numbers[i] = seen.setdefault(row.tobytes(), len(firsts))
        if len(seen) > len(firsts):
            firsts.append(i)
        if len(firsts) > most:
            break
    return np.array(firsts, dtype=np.int64)


def bucket_rows(
    buckets: UInt16s,
    scores: Floats,
    outcomes: UInt8s,
    weights: Float64s,
    weighted: bool,
    coarse: UInt16s,
    edges: Floats,
    starts: UInt16s,
    shift: int,
    first: int,
    sums: Float64s,
) -> None:
    """Add judged rows to the coarse cells of their buckets: ``sums`` (buckets, cells, 3) of w, w y and w (p - y).

    The cell in the grid comes from the `calibrant.grid.Lookup` of the scores' type; ``coarse`` has the coarse cell of
    each cell of the grid.
    """
    del starts, shift, first  # they only say where the fast twin starts to search
    for i, p in enumerate(scores):
        w, y = weights[i] if weighted else 1.0, float(outcomes[i])
        cell = len(edges) if p == 1 else int(np.searchsorted(edges, p, side="left"))
        sums[buckets[i], coarse[cell]] += w, w * y, w * (float(p) - y)
