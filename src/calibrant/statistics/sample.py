"""How much a sample tells: the rows, or the clusters, with the rarer outcome, and a caution where they are few."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np

from calibrant.inputs.weights import effective_n
from calibrant.runtime.arrays import Float64s
from calibrant.statistics.cells import Cells

#: Rows, or clusters, with the rarer outcome below which every interval is flagged.
MINORITY: Final = 15

#: What is counted of the rarer outcome: rows, or the clusters that hold it.
ROWS: Final = "row"
CLUSTERS: Final = "cluster"


class Sample(NamedTuple):
    """What a result says about the rows behind it.

    ``rarer`` is how many rows have the rarer outcome, as equal ones, or how many clusters hold it; ``unit`` says which.
    ``flag`` is a warning where intervals are not to be trusted, or nothing. ``suffix`` ends the method of each number,
    and ``facts`` are added to its details.
    """

    rarer: float
    unit: str
    flag: str
    suffix: str = ""
    facts: Mapping[str, Any] = MappingProxyType({})


#: Nothing is said.
UNKNOWN: Final = Sample(math.inf, ROWS, "")


def rarer_rows(cells: Cells) -> float:
    """Return the effective sample size of the rarer outcome."""
    kinds = np.stack([cells.counts - cells.positives, cells.positives])
    return rarer_of(kinds.sum(axis=1), cells.table.own_weights.sum(axis=1))


def rarer_of(weights: Float64s, squares: Float64s) -> float:
    """Return the same from the sums of weights and of squared weights by outcome, (2,) each.

    An outcome without squared weights has no rows: what differences of weights leave of it is rounding.
    """
    return min(effective_n(float(w), float(q)) if q > 0 else 0.0 for w, q in zip(weights, squares, strict=True))


def rare(number: float, of: str = "", unit: str = ROWS) -> str:
    """Return a warning where too few rows, or clusters, have the rarer outcome, or nothing."""
    if number >= MINORITY * (1 - 1e-9):
        return ""
    if number == 0:
        return f"every row{of} has the same outcome, so intervals may be too short"
    many = f"{number:.4g} {unit}{'s' * (number != 1)} {'of' if unit == ROWS else 'with'} the rarer outcome{of}"
    return f"{many}, fewer than {MINORITY}, so intervals may be too short"
