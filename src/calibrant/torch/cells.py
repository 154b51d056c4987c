"""The cells of a grid in the states of a metric: what a batch adds to them, and what they hold."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calibrant.errors import InputError
from calibrant.inputs.notions import Events, class_events
from calibrant.inputs.predictions import Predictions
from calibrant.kernels import tensor_cells, tensors
from calibrant.sketch.sums import Curves
from calibrant.table import cell_sums
from calibrant.table import grid as grids
from calibrant.torch.base import Increments

#: The grid of the cells.
GRID: Final[grids.Grid] = "standard"

_ROUNDED: Final = 1e-6  # relative: float32 scores may lie this far outside their cell; sums round


def n_cells() -> int:
    """Return the number of cells."""
    return len(grids.edges(GRID)) + 1


def cells_of_host(events: Events) -> Increments:
    """Return what a batch of judged events adds to the cells: counts (2, K) and sums (3, K)."""
    counts, sums = _split(cell_sums(events, GRID))
    return {"cell_counts": torch.from_numpy(counts), "cell_sums": torch.from_numpy(sums)}


def class_cells_of_host(predictions: Predictions) -> Increments:
    """Return the same for each class: counts (C, 2, K) and sums (C, 3, K)."""
    sums_by_class = [_split(cell_sums(events, GRID)) for events, _ in class_events(predictions)]
    counts, sums = (torch.from_numpy(np.stack(parts)) for parts in zip(*sums_by_class, strict=True))
    return {"cell_counts": counts, "cell_sums": sums}


def _split(sums: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    return sums[:, :2].T.astype(np.int64, order="C"), np.ascontiguousarray(sums[:, 2:].T)


def cells_of_device(scores: Tensor, outcomes: Tensor, judged: Tensor) -> Increments:
    """Return what a batch adds to the cells, computed on its device: scores (n,), or (n, C) column by column."""
    cells = tensor_cells.cells(scores, outcomes, judged, _table_on(scores.dtype, scores.device))
    sums = torch.where(
        cells.refused > 0, torch.nan, cells.sums
    )  # an unchecked value outside [0, 1]: `curves_of` raises
    return {"cell_counts": cells.counts, "cell_sums": sums}


@lru_cache(16)
def _table_on(dtype: torch.dtype, device: torch.device) -> tensor_cells.CellTable:
    precision = np.float64 if dtype == torch.float64 else np.float32
    return tensor_cells.cell_table(grids.edges(GRID).astype(precision), device)


def curves_of(counts: Tensor, sums: Tensor) -> Curves:
    """Return a copy of the cells as curves: one, or one for each class.

    Raises
    ------
    InputError
        If a sum does not fit its cell: a value that was not checked was outside [0, 1].
    """
    cell_counts = counts.cpu().numpy().reshape(-1, 2, n_cells())
    totals = tensors.joined(sums).numpy().reshape(-1, 3, n_cells())
    edges = grids.edges(GRID)
    low, high = np.concatenate([[0.0], edges[:-1], [1.0]]), np.concatenate([edges, [1.0]])
    least, most = low * cell_counts * (1 - _ROUNDED), high * cell_counts * (1 + _ROUNDED)
    if not ((totals[:, :2] >= least) & (totals[:, :2] <= most)).all():
        raise InputError("preds", "values in [0, 1]", "others, unchecked", "find them with validate_args=True")
    rows = cell_counts.sum(axis=(1, 2))
    class_counts, class_sums = (np.array(part.transpose(0, 2, 1), order="C") for part in (cell_counts, totals))
    return Curves(class_counts, class_sums, None, rows)
