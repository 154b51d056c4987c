"""Find the cell of a score by arithmetic that every engine has.

Engines share no way to search edges, and no arcsine. So each row gets a *key*, and `cells_of` turns it into a cell.
With m the distance to the nearer end of [0, 1], the number of edges between that end and the score is

    floor(2K / pi * asin(sqrt m)) + floor(M m),

where the first term counts the edges sin(pi j / 2K)^2 and the second the edges i / M (see `table.grid`). The
arcsine is a polynomial with a relative error below 9e-12, so the two arguments are off by less than 8e-8
(`tests/frames/test_frames.py` measures it). If neither argument is within `NEAR` of an integer, the formula finds the
right cell, however an engine rounds the last bit. Otherwise (one score in a million) the key is the score itself, and
`cells_of` compares it with the edges.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from calibrant.clusters import CoarseCells
from calibrant.table import grid as grids

#: An argument this near to an integer is undecided.
NEAR: Final = 2.0**-22

#: The keys of invalid rows, and of rows with weight 0. Keys of undecided scores are between -1 and 1.
WRONG, WEIGHTLESS = -3.0, -2.0

#: Added to the keys of decided scores: Arrow hashes all small float64 integers to one place when it groups.
DECIDED: Final = 2.0**40

#: K and M of each grid.
_FAMILIES: Final = {"standard": (4096, 300), "fine": (16384, 3600)}
_DEGREE: Final = 11


#: Columns to add to a frame; each step uses the columns of the steps before.
Steps = list[dict[str, nw.Expr]]


class Cells(NamedTuple):
    """The outcome of each key, whether its score is 0.5 or more, and its cell."""

    outcomes: NDArray[np.int64]
    upper: NDArray[np.bool_]
    cells: NDArray[np.int64]


@cache
def arcsine() -> tuple[float, ...]:
    """Return the coefficients of asin(sqrt m) / sqrt m as a polynomial in m for 0 <= m <= 1/2, the constant first."""

    def ratio(m: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.arcsin(np.sqrt(m)) / np.sqrt(m))

    chebyshev = np.polynomial.Chebyshev.interpolate(ratio, _DEGREE, domain=[0, 0.5])
    powers = chebyshev.convert(kind=np.polynomial.Polynomial, domain=[-1, 1], window=[-1, 1])
    return tuple(float(c) for c in powers.coef)


def key(
    kind: grids.Grid | CoarseCells, *, single: bool, good: nw.Expr, fault: nw.Expr, outcomes: bool = True
) -> tuple[Steps, nw.Expr]:
    """Return the steps that compute the columns of a row's key, and the key.

    The key is for ``p``, a score in [0, 1], and ``y``, an outcome 0 or 1, both Float64; ``single`` means that the
    scores are float32, ``kind`` which cells they fall into. Without ``outcomes`` the key is that of the outcome 0. Rows
    that are not ``good`` must have the score 0.5; they get the key ``fault``.

    A choice between two values is a sum of products with 0 and 1: exact, and faster in a column engine than a choice
    for each row.
    """
    p, upper, far, inside = (nw.col(name) for name in ("p", "upper", "far", "inside"))
    y = nw.col("y") if outcomes else nw.lit(0.0)
    first, second, low, high = (nw.col(name) for name in ("first", "second", "low", "high"))
    half = (p >= 0.5).cast(nw.Float64)
    steps: Steps = [{"upper": half, "far": (half - p).abs()}]  # far is p or 1 - p, the smaller: both are exact
    within = (far > 0.0).cast(nw.Float64)
    if single:
        below = (p * (1 - 2.0**-24)).cast(nw.Float32).cast(nw.Float64)  # the next smaller float32
        depth = upper * (far + within * 2.0**-25) + (1.0 - upper) * (p + below) * 0.5  # for p minus half a step
        steps.append({"depth": depth})
    depth = nw.col("depth") if single else far
    k, m = _FAMILIES[kind] if isinstance(kind, str) else (kind.n_arcs, kind.n_parts)
    coefficients = arcsine()
    series = depth * coefficients[-1] + coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        series = series * depth + coefficient
    steps.append({"inside": within, "first": depth.sqrt() * (2 * k / np.pi) * series, "second": depth * float(m)})
    steps.append(
        {
            "high": (first + NEAR).floor() + (second + NEAR).floor(),
            "low": (first - NEAR).abs().floor() + (second - NEAR).abs().floor(),  # below NEAR no edge has been passed
        }
    )
    # In float64 the score 0.5 is undecided, so decided rows need no check of `good`.
    decided = good & (high == low) if single else high == low
    cell_key = ((low + inside) * 2.0 + upper) * 2.0 + y + DECIDED
    score_key = nw.when(good).then((1.0 - y * 2.0) * p).otherwise(fault)
    return steps, nw.when(decided).then(cell_key).otherwise(score_key)


def cells_of(keys: NDArray[np.float64], kind: grids.Grid | CoarseCells, *, single: bool) -> Cells:
    """Return outcomes and cells of keys."""
    edges = grids.edges(kind) if isinstance(kind, str) else kind.edges
    last = len(edges)
    is_score = keys < DECIDED
    parts = np.where(is_score, 0, keys - DECIDED).astype(np.int64)
    outcomes, upper, passed = parts & 1, (parts & 2).astype(bool), parts >> 2
    # Both families have an edge at 0.5: a score of 0.5 has passed it from above.
    cells = np.where(upper, np.maximum(last - passed, last // 2), passed)
    if is_score.any():
        scores = np.abs(keys[is_score])
        outcomes[is_score], upper[is_score] = keys[is_score] < 0, scores >= 0.5
        scores = scores.astype(np.float32 if single else np.float64)
        cells[is_score] = grids.cell_of(scores, kind) if isinstance(kind, str) else kind.of_scores(scores)
    if isinstance(kind, CoarseCells):
        cells = np.minimum(cells, kind.n_cells - 1)  # p = 1 may share the last cell
    return Cells(outcomes, upper, cells)
