"""What the compiled loops over rows in clusters compute, in readable code.

Each function has a compiled version of the same name and signature in `host_clusters`; tests compare the two, as for
the functions of `reference`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.kernels.reference_lookup import Floats, Int64s, UInt8s, UInt16s, cells_of
from calibrant.runtime.arrays import Float64s

Words = NDArray[np.unsignedinteger[Any]]


def number_rows(words: Words, most: int, numbers: Int64s) -> Int64s:
    """Return where each distinct row of words (n, k) comes first, in increasing order.

    ``numbers`` (n,) receives the number of each row: its distinct row's index in that order. With more than ``most``
    distinct rows, return the first ``most`` + 1; then ``numbers`` has no meaning.
    """
    # Rows of equal width that differ still differ without their last zero bytes, which NumPy's bytes lose.
    keys = (
        words[:, 0]
        if words.shape[1] == 1
        else np.ascontiguousarray(words).view(f"S{words.itemsize * words.shape[1]}")[:, 0]
    )
    _, first, places = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    numbers[:] = np.argsort(order)[places]
    return first[order][: most + 1].astype(np.int64, copy=False)


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

    The cell in the grid comes from the `table.grid.Lookup` of the scores' type; ``coarse`` has the coarse cell of
    each cell of the grid.
    """
    w, y = weights if weighted else np.ones(len(scores)), outcomes.astype(np.float64)
    cells = buckets.astype(np.intp) * sums.shape[1] + coarse[cells_of(scores, edges, starts, shift, first)]
    size, shape = sums[..., 0].size, sums.shape[:2]
    for entry, values in enumerate((w, w * y, w * (scores.astype(np.float64) - y))):
        sums[..., entry] += np.bincount(cells, values, size).reshape(shape)
