"""Add scores to the cells of a grid by torch operations on any device, with the same bits in any order of the rows.

If many threads add floating-point numbers to one place, the rounding differs from run to run. So everything here is
added as integers. For float32 scores this is exact: within a slot between neighbouring edges above 0, every score is a
multiple of the last place of the lower edge (`CellTable.scales`), and its square a multiple of that unit's square. The
slots are the grid's cells, except the first, (0, e]: it reaches down to 0, and is divided at powers of 2.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calibrant.errors import InputError
from calibrant.kernels import tensors

_LOWEST: Final = -101  # scores below 2^-101 are cut to multiples of its last place
_LOW_BITS: Final = 28  # a number is added in two parts, each at most 2^28
_LOW: Final = (1 << _LOW_BITS) - 1
_SHARE_BITS: Final = 2 * _LOW_BITS
_MOST_SCORES: Final = 1 << 34  # each at most 2^28, so the sum is below 2^63

#: Over the slots of each column: counts, and sums.
SlotSums = tuple[Tensor, Tensor]


class CellTable(NamedTuple):
    """The slots of a grid on a device, for scores of one type; made by `cell_table`.

    Attributes
    ----------
    edges : (E,)
        The edges of the slots. The slot of a score is the number of edges below it, except that 1 is in slot E.
    scales : (E + 1,)
        The inverse of the unit of each slot, a power of 2.
    bounds : (E + 1,)
        For each slot a power of 2 that no score exceeds. It is at most 8 times any score above 2^-101.
    parts : int
        How many slots, from slot 1 on, form the grid's first cell.
    """

    edges: Tensor
    scales: Tensor
    bounds: Tensor
    parts: int


class TensorCells(NamedTuple):
    """What evaluated scores add to the K cells of a grid; for (n, C) scores every shape begins with C.

    Attributes
    ----------
    counts : (2, K) int64
        The scores with outcome 0 and with outcome 1.
    sums : (3, K) float64
        The sums of the scores with outcome 0, of the scores with outcome 1, and of all squares. On a device without
        float64, pairs of float32: `tensors.joined`.
    refused : () int64
        The number of evaluated scores in no cell: NaN, or outside [0, 1].
    """

    counts: Tensor
    sums: Tensor
    refused: Tensor


def cell_table(edges: NDArray[np.floating[Any]], device: torch.device) -> CellTable:
    """Return the slots for the edges of a grid; the edges have the type of the scores, float32 or float64."""
    below = np.exp2(np.arange(_LOWEST + 1, np.ceil(np.log2(edges[1]))))
    slots = np.concatenate([edges[:1], below[below < edges[1]], edges[1:]]).astype(edges.dtype)
    lower = np.concatenate([[2.0**_LOWEST], slots[1:-1]])
    units = np.ldexp(1.0, np.frexp(lower)[1] - 1 - np.finfo(edges.dtype).nmant)
    scales = np.concatenate([[1.0], 1 / units, [1.0]]).astype(edges.dtype)
    bounds = np.concatenate([[1.0], np.exp2(np.ceil(np.log2(slots[1:]))), [1.0]]).astype(edges.dtype)
    columns = [torch.from_numpy(x).to(device) for x in (slots, scales, bounds)]
    return CellTable(columns[0], columns[1], columns[2], len(slots) - len(edges) + 1)


def cells(scores: Tensor, outcomes: Tensor, evaluated: Tensor, table: CellTable) -> TensorCells:
    """Return the sums of evaluated scores over the cells of a grid, without waiting for the device.

    Parameters
    ----------
    scores : (n,) or (n, C) tensor of float32 or float64
        Each column of (n, C) scores has its own cells.
    outcomes, evaluated : tensors of the shape of scores
        0 or 1; booleans.
    table : CellTable
        For the scores' type, on their device.

    Raises
    ------
    calibrant.errors.InputError
        For 2^34 scores or more at once: their sums might not fit into 64 bits.

    Notes
    -----
    The sums of float32 scores are exact integers. The conversion to float64 rounds the sum of each cell once (the slots
    of the first cell are added in float64). A score from 2^-101 to 1 is at most 2^26 units of its slot, its square
    2^52. Smaller scores are cut to multiples of 2^-124. Scores of float64 are exact too from 2^-104 on; their squares
    are cut to 50 bits or more.
    """
    if scores.numel() >= _MOST_SCORES:
        remedy = "add the scores in parts"
        raise InputError("scores", f"fewer than {_MOST_SCORES:,} scores at once", f"{scores.numel():,}", remedy)
    columns = scores.shape[1] if scores.ndim == 2 else 1
    x, y, rows = (part.reshape(-1) for part in (scores, outcomes, evaluated))
    good = rows & (x >= 0) & (x <= 1)
    yes = good & (y == 1)
    slot = torch.where(x == 1, len(table.edges), torch.searchsorted(table.edges, x))
    add = _in_units if x.dtype == torch.float32 else _in_shares
    counts, sums = (_joined(part, table.parts) for part in add(x, good, yes, slot, columns, table))
    if scores.ndim == 1:
        counts, sums = counts.squeeze(-3), sums.squeeze(-3)
    return TensorCells(counts, sums, (rows & ~good).sum())


def _in_units(x: Tensor, good: Tensor, yes: Tensor, slot: Tensor, columns: int, table: CellTable) -> SlotSums:
    """Return the sums of float32 scores, added as multiples of the units of their slots."""
    no = good & ~yes
    number = torch.where(good, x * table.scales[slot], 0).long()
    square = number * number
    values = [no, yes, no * number, yes * number, square & _LOW, square >> _LOW_BITS]
    integers = _added(slot, columns, table, values)
    units = 1 / table.scales
    sums = tensors.widened(integers[:, 2:4], 0) * units
    squares = _floats(integers[:, 4:5], integers[:, 5:]) * units * units
    return integers[:, :2], torch.cat([sums, squares], -2)


def _in_shares(x: Tensor, good: Tensor, yes: Tensor, slot: Tensor, columns: int, table: CellTable) -> SlotSums:
    """Return the sums of scores, added as shares of their largest possible value."""
    no = good & ~yes
    share = torch.where(good, x, 0).to(tensors.wide(x.device)) / table.bounds[slot]
    fixed = [(value * 2.0**_SHARE_BITS).long() for value in (no * share, yes * share, share * share)]
    low = _added(slot, columns, table, [number & _LOW for number in fixed])
    high = _added(slot, columns, table, [number >> _LOW_BITS for number in fixed])
    totals = _floats(low, high) * 2.0**-_SHARE_BITS
    sums, squares = totals[..., :2, :] * table.bounds, totals[..., 2:3, :] * table.bounds * table.bounds
    return _added(slot, columns, table, [no, yes]), torch.cat([sums, squares], -2)


def _added(slot: Tensor, columns: int, table: CellTable, values: list[Tensor]) -> Tensor:
    """Return the sums of integers over the slots of each column, (columns, len(values), slots)."""
    size = len(table.edges) + 1
    place = slot + size * (torch.arange(len(slot), device=slot.device) % columns)
    sums = torch.zeros((len(values), columns * size), dtype=torch.int64, device=slot.device)
    for total, value in zip(sums, values, strict=True):
        total.scatter_add_(0, place, value.long())
    return sums.reshape(len(values), columns, size).movedim(0, 1)


def _floats(low: Tensor, high: Tensor) -> Tensor:
    """Return integers, given as low and high bits, in the form of stored sums."""
    return tensors.add_sums(torch.stack([tensors.widened(high, -_LOW_BITS), tensors.widened(low, 0)]))


def _joined(sums: Tensor, parts: int) -> Tensor:
    """Return the sums of the cells, (..., K), from the sums of the slots."""
    first = sums[..., 1 : parts + 1]
    if sums.dtype == torch.float32:  # pairs of float32: add neighbours two by two
        while first.shape[-1] > 1:
            if first.shape[-1] % 2:
                first = torch.nn.functional.pad(first, (0, 1))
            first = tensors.add_sums(torch.stack([first[..., ::2], first[..., 1::2]]))
    else:
        first = first.sum(-1, keepdim=True)
    return torch.cat([sums[..., :1], first, sums[..., parts + 1 :]], -1)
