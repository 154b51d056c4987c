"""The rows since an onset, as counts in the cells of the grid: whole slices one by one, older ones in larger blocks."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.predictions import Notion
from calibrant.monitoring.state import pack
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import cached_property
from calibrant.runtime.dataclass import dataclass
from calibrant.sketch import CalibrationSketch
from calibrant.table import ReliabilityTable
from calibrant.table import grid as grids

#: So many blocks of one size are kept; then the oldest two become one of twice the size.
_ALIKE: Final = 4

_MOST_ROWS: Final = 5_000_000  # that become rows of a sketch; more are counted by their weight

_CHANCE: Final = 1e-9  # that the counts of other rows are equal

#: The cells of the standard grid.
CELLS: Final = len(grids.edges("standard")) + 1


@dataclass(frozen=True, eq=False)
class Block:
    """The counts of some slices in a row.

    Attributes
    ----------
    first, slices : int
        The number of the first slice, and of how many slices.
    cells : (K,)
        The occupied cells of the standard grid, increasing.
    counts : (2, K)
        The weight of their rows without and with the event.
    """

    first: int
    slices: int
    cells: NDArray[np.int64]
    counts: Float64s

    @classmethod
    def of(cls, first: int, table: ReliabilityTable) -> Block:
        """Return the counts of one slice, from its table on the standard grid."""
        cells = np.asarray(table.cells, np.int64)
        positives = table.positives.astype(np.float64)
        return cls(first, 1, cells, np.stack([table.counts - positives, positives]))

    @property
    def digest(self) -> str:
        """What identifies the rows; empty where others may well be equal.

        Two slices with the same expected counts, which have Poisson distributions, are equal with the product of
        exp(-2 m) I_0(2 m) over the expected counts m.
        """
        from scipy.special import ive

        counts = self.counts[self.counts > 0]
        if float(np.log(ive(0, 2 * counts)).sum()) > math.log(_CHANCE):
            return ""
        content = self.cells.astype("<i8").tobytes() + self.counts.astype("<f8").tobytes()
        return hashlib.sha256(content).hexdigest()[:16]

    @cached_property
    def packed(self) -> dict[str, str]:
        """The cells and the counts as text."""
        return {"cells": pack(self.cells), "counts": pack(self.counts)}

    def __add__(self, other: Block) -> Block:
        """Return the counts of this block and of the next one."""
        cells = np.union1d(self.cells, other.cells)
        counts = np.zeros((2, len(cells)))
        for each in (self, other):
            counts[:, np.searchsorted(cells, each.cells)] += each.counts
        return Block(self.first, self.slices + other.slices, cells, counts)


def appended(blocks: Sequence[Block], block: Block) -> list[Block]:
    """Return the blocks with one more slice; at most four blocks of each size remain."""
    found, size = [*blocks, block], 1
    while True:
        alike = [i for i, each in enumerate(found) if each.slices == size]
        if len(alike) <= _ALIKE:
            return found
        one, other = alike[:2]
        found[one : other + 1] = [found[one] + found[other]]
        size *= 2


def since(blocks: Sequence[Block], first: int, notion: Notion, scores: Float64s) -> tuple[CalibrationSketch, int]:
    """Return a sketch of the rows since a slice, and the slice that it really begins with: at a block, not before.

    Each row has the mean score of its cell, ``scores`` (cells of the grid,).
    """
    kept = [block for block in blocks if block.first >= first] or [blocks[-1]]
    sketch = CalibrationSketch(notion=notion)
    for block in kept:
        values = np.tile(scores[block.cells], 2)
        outcomes = np.repeat([0, 1], len(block.cells))
        weights = block.counts.reshape(-1)
        if float(weights.sum()) <= _MOST_ROWS and np.array_equal(weights, np.floor(weights)):
            times = weights.astype(np.int64)
            sketch.update(np.repeat(values, times), np.repeat(outcomes, times))
        else:
            held = weights > 0
            sketch.update(values[held], outcomes[held], weights=weights[held], weights_are="frequency")
    return sketch, kept[0].first


def mean_scores(rows: Float64s, sums: Float64s) -> Float64s:
    """Return the mean score of each cell of the standard grid; of empty ones the upper end."""
    every = np.arange(len(rows))
    _, high = grids.ends_of(every, "standard")
    return np.asarray(np.divide(sums, rows, out=high.copy(), where=rows > 0))
