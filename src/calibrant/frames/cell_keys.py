"""Which cell a score is in, by arithmetic that every engine has.

Engines share no way to look a score up among edges, and no arcsine. So each row gets a *key*, and the cell follows from
it here. With m the distance to the nearer end of [0, 1], the edges passed on the way from that end are counted by

    floor(2K / pi * asin(sqrt m)) + floor(M m),

the first of the sin(pi j / 2K)^2 and the second of the i / M (see `calibrant.grid`). The arcsine is a polynomial, good
to 9e-12 of itself, so the two arguments are off by less than 8e-8 (`tests/test_frames.py` measures it). A score whose
argument is not within `NEAR` of a whole number is in the cell that this says, whatever an engine does to the last bit.
Of the others, one in a million, the key is the score itself, and `cells_of` compares it with the edges.

Scores of float32 are compared with edges rounded to float32. No float32 lies between an edge and its rounding, so the
middle between a score and the next smaller float32 is on the same side of both: its edges are counted.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from calibrant import grid as grids

#: How near to a whole number an argument is undecided.
NEAR: Final = 2.0**-22

#: The keys of rows that are wrong, and of rows without weight; those of undecided scores are between -1 and 1.
WRONG, WEIGHTLESS = -3.0, -2.0

#: Added to the keys of decided scores: Arrow puts small whole numbers of float64 all in one place when it groups.
DECIDED: Final = 2.0**40

#: K and M of each grid.
_FAMILIES: Final = {"standard": (4096, 300), "fine": (16384, 3600)}
_DEGREE: Final = 11


#: Columns to be added to a frame, those of a step from those before.
Steps = list[dict[str, nw.Expr]]


class Cells(NamedTuple):
    """Of each key: the outcome, whether the score is a half or more, the cell."""

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


def key(grid: grids.Grid, *, single: bool, good: nw.Expr, fault: nw.Expr) -> tuple[Steps, nw.Expr]:
    """Return the key of a row, and step by step the columns behind it.

    It is that of ``p``, a score in [0, 1], and ``y``, an outcome 0 or 1, both Float64; ``single`` says that the scores
    are of float32. Rows that are not ``good``, whose score must be a half, have the key ``fault``.

    Choices between two values are sums of products with 0 and 1, which are exact, and quicker than a choice by
    row in an engine that works on columns.
    """
    p, y, upper, far, inside = (nw.col(name) for name in ("p", "y", "upper", "far", "inside"))
    first, second, low, high = (nw.col(name) for name in ("first", "second", "low", "high"))
    half = (p >= 0.5).cast(nw.Float64)
    steps: Steps = [{"upper": half, "far": (half - p).abs()}]  # far is p or 1 - p, the smaller: both are exact
    within = (far > 0.0).cast(nw.Float64)
    if single:
        below = (p * (1 - 2.0**-24)).cast(nw.Float32).cast(nw.Float64)  # the next smaller float32
        depth = upper * (far + within * 2.0**-25) + (1.0 - upper) * (p + below) * 0.5  # that of half a step below p
        steps.append({"depth": depth})
    depth = nw.col("depth") if single else far
    k, m = _FAMILIES[grid]
    coefficients = arcsine()
    series = depth * coefficients[-1] + coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        series = series * depth + coefficient
    steps.append({"inside": within, "first": depth.sqrt() * (2 * k / np.pi) * series, "second": depth * float(m)})
    steps.append(
        {
            "high": (first + NEAR).floor() + (second + NEAR).floor(),
            "low": (first - NEAR).abs().floor() + (second - NEAR).abs().floor(),  # below NEAR nothing has been passed
        }
    )
    # A half of float64 is undecided, so that of decided rows nobody need ask whether they are good.
    decided = good & (high == low) if single else high == low
    number = ((low + inside) * 2.0 + upper) * 2.0 + y + DECIDED
    itself = nw.when(good).then((1.0 - y * 2.0) * p).otherwise(fault)
    return steps, nw.when(decided).then(number).otherwise(itself)


def cells_of(keys: NDArray[np.float64], grid: grids.Grid, *, single: bool) -> Cells:
    """Return what the keys of scores say."""
    edges = grids.edges(grid)
    last = len(edges)
    itself = keys < DECIDED
    parts = np.where(itself, 0, keys - DECIDED).astype(np.int64)
    outcomes, upper, passed = parts & 1, (parts & 2).astype(bool), parts >> 2
    # A half itself has passed the edge there from above, where both families have one.
    cells = np.where(upper, np.maximum(last - passed, last // 2), passed)
    if itself.any():
        scores = np.abs(keys[itself])
        outcomes[itself], upper[itself] = keys[itself] < 0, scores >= 0.5
        cells[itself] = grids.cell_of(scores.astype(np.float32 if single else np.float64), grid)
    return Cells(outcomes, upper, cells)
