"""The cells of a grid in the states of a metric: what a batch adds to them, and what they hold."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calibrant import grid as grids
from calibrant.errors import InputError
from calibrant.inputs import Predictions
from calibrant.kernels import cuda_cells, tensors
from calibrant.notions import Events, class_events
from calibrant.sketch.sums import Curves
from calibrant.table import cell_sums
from calibrant.torch.base import Increments

#: The cells that are kept.
GRID: Final[grids.Grid] = "standard"

_ROUNDED: Final = 1e-6  # relative: what a float32 score may lie outside its cell, and the rounding of sums


def n_cells() -> int:
    """Return the number of cells."""
    return len(grids.edges(GRID)) + 1


def cells_of_host(events: Events) -> Increments:
    """Return what a batch of judged events adds to the cells: counts (2, K) and sums (3, K)."""
    counts, sums = _split(cell_sums(events, GRID))
    return {"cell_counts": torch.from_numpy(counts), "cell_sums": torch.from_numpy(sums)}


def class_cells_of_host(predictions: Predictions) -> Increments:
    """Return the same for every class by itself, (C, 2, K) and (C, 3, K)."""
    found = [_split(cell_sums(events, GRID)) for events, _ in class_events(predictions)]
    counts, sums = (torch.from_numpy(np.stack(parts)) for parts in zip(*found, strict=True))
    return {"cell_counts": counts, "cell_sums": sums}


def _split(sums: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    return sums[:, :2].T.astype(np.int64, order="C"), np.ascontiguousarray(sums[:, 2:].T)


def cells_of_device(scores: Tensor, outcomes: Tensor, judged: Tensor) -> Increments:
    """Return what a batch adds to the cells, where it is: of (n,) scores, or of (n, C) every column by itself."""
    found = cuda_cells.cells(scores, outcomes, judged, _table_on(scores.dtype, scores.device))
    sums = torch.where(found.refused > 0, torch.nan, found.sums)  # unchecked, and no probability: `curves_of` says so
    return {"cell_counts": found.counts, "cell_sums": sums}


@lru_cache(16)
def _table_on(dtype: torch.dtype, device: torch.device) -> cuda_cells.CellTable:
    own = np.float64 if dtype == torch.float64 else np.float32
    return cuda_cells.cell_table(grids.edges(GRID).astype(own), device)


def curves_of(counts: Tensor, sums: Tensor) -> Curves:
    """Return what the states of cells hold, copied: one curve, or one for each class.

    Raises
    ------
    InputError
        Where sums are not those of scores in their cells: what was not checked was no probability.
    """
    held = counts.cpu().numpy().reshape(-1, 2, n_cells())
    added = tensors.joined(sums).numpy().reshape(-1, 3, n_cells())
    edges = grids.edges(GRID)
    low, high = np.concatenate([[0.0], edges[:-1], [1.0]]), np.concatenate([edges, [1.0]])
    least, most = low * held * (1 - _ROUNDED), high * held * (1 + _ROUNDED)
    if not ((added[:, :2] >= least) & (added[:, :2] <= most)).all():
        raise InputError("preds", "values in [0, 1]", "others, unchecked", "find them with validate_args=True")
    rows = held.sum(axis=(1, 2))
    counts_of, sums_of = (np.array(part.transpose(0, 2, 1), order="C") for part in (held, added))
    return Curves(counts_of, sums_of, None, rows)
