"""Run Triton's kernels on a batch: read it once, and add it to the states of a metric.

`tensors` does the same by torch operations, if Triton is missing. Only `tensors` imports this module, when a tensor
on a GPU has come.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from calibrant.kernels import triton_rows
from calibrant.kernels.triton_rows import FOLDED_0, FOLDED_1, N_COUNTED, POSITIVE, TOP

__all__ = [
    "FOLDED_0",
    "FOLDED_1",
    "MOST_BINS",
    "POSITIVE",
    "TOP",
    "Adding",
    "DeviceBatch",
    "add",
    "read_rows",
    "try_out",
]

#: The most bins of one event that a program keeps in registers.
MOST_BINS: Final = 64

_ENTRIES: Final = 2048  # of a block of rows of many classes: more do not fit into registers
_THREADS: Final = 128  # rows of a block of few classes
_NARROW: Final = 400  # up to so many classes a thread reads a row
_WAVES: Final = 16  # programs for each multiprocessor
_COPIES: Final = 32  # of the slots of a grid, for many rows with many ties
_MANY_ROWS: Final = 1 << 20
_KEPT: Final = 1 << 20  # integers of a workspace that is kept for the next batch


class DeviceBatch(NamedTuple):
    """A batch on a device, as the kernels address it.

    ``address`` is the number of rows, of classes, the depth d, and the steps of sheets, classes and rows: row i is in
    sheet i // d at i % d. ``flags`` are what kernels are compiled for.
    """

    values: Tensor
    targets: Tensor
    address: tuple[int, ...]
    ignored: int
    single: bool
    flags: dict[str, bool]

    @classmethod
    def of(cls, values: Tensor, targets: Tensor, ignore_index: int | None) -> DeviceBatch:
        """Return a batch of scores (n,), or of classes (N, C) or (N, C, ...)."""
        single = values.ndim == 1
        deep = values[:, None, None] if single else values[:, :, None] if values.ndim == 2 else values.flatten(2)
        sheets, n_classes, depth = deep.shape
        flat = targets.reshape(-1).contiguous()
        flat = flat.view(torch.uint8) if flat.dtype == torch.bool else flat
        flags = {"FLAT": depth == 1, "FLOATS": flat.is_floating_point(), "IGNORES": ignore_index is not None}
        return cls(deep, flat, (sheets * depth, n_classes, depth, *deep.stride()), ignore_index or 0, single, flags)

    @property
    def double(self) -> bool:
        """Whether scores have double precision."""
        return self.values.dtype == torch.float64

    @property
    def scale(self) -> float:
        """The power of 2 that turns scores into integers, so that n of them fit into 62 bits."""
        return float(2.0 ** (62 - self.address[0].bit_length()))

    def empty(self, *shape: int, double: Any = torch.float64, single: Any = torch.float32) -> Tensor:
        """Return a tensor on the batch's device for results."""
        return torch.empty(shape, dtype=double if self.double else single, device=self.values.device)

    def programs(self, rows: int, across: int = 1) -> int:
        """Return how many programs read blocks of so many rows."""
        most = int(triton.cdiv(_WAVES * _multiprocessors(self.values.device), across))
        return max(1, min(int(triton.cdiv(self.address[0], rows)), most))


@cache
def _multiprocessors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 4


_workspaces: dict[tuple[Any, ...], Tensor] = {}


def _workspace(kind: str, size: int, device: torch.device) -> Tensor:
    """Return integers that are 0: the kernels of a stream, which run one after the other, share them and clear them."""
    if size > _KEPT:
        return torch.zeros(size, dtype=torch.int64, device=device)
    stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
    key = (kind, size, device, stream)
    if key not in _workspaces:
        _workspaces[key] = torch.zeros(size, dtype=torch.int64, device=device)
    return _workspaces[key]


def try_out(device: torch.device) -> None:
    """Compile and run a small kernel; a compiler, or a driver, that does not work raises its own error."""
    integers = torch.zeros(8, dtype=torch.int64, device=device)
    triton_rows.class_bins_kernel[(1,)](integers, integers[2:], integers[3:], integers[4:].double(), 1, 1.0, BLOCK=8)


def read_rows(
    values: Tensor, targets: Tensor, *, logits: bool | Tensor, ignore_index: int | None, tolerance: float, slack: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the columns (5, n) of `rows_kernel`, which rows of classes are right (n,), and what it counted (8,)."""
    batch = DeviceBatch.of(values, targets, ignore_index)
    n = batch.address[0]
    out, correct = batch.empty(5, n), torch.empty(n, dtype=torch.uint8, device=values.device)
    counted = torch.zeros(N_COUNTED, dtype=torch.int64, device=values.device)
    scale, flag, undecided = 2, counted, counted
    if isinstance(logits, Tensor):
        flag, undecided = logits.reshape(1).long(), torch.zeros_like(counted)
    else:
        scale = int(logits)
    if n:
        given = {"out": out, "correct": correct, "far": flag}
        _launch(batch, undecided, counted, given, {"SCALE": scale, "COLUMNS": 2}, tolerance, slack)
    return out, correct, counted


_POINTERS: Final = ("uppers", "edges", "scales", "work", "sums", "cells", "out", "correct", "keys")
_PLAN: Final = {
    **{"SCALE": 0, "EVENT": TOP, "FAR": False, "BINS": 1, "CELLS": False, "COPIES": 1},
    **{"KEYS": False, "TOTALS": False, "COLUMNS": 0},
}


def _launch(
    batch: DeviceBatch,
    before: Tensor,
    work: Tensor,
    given: Mapping[str, Tensor],
    plan: Mapping[str, Any],
    tolerance: float,
    slack: float,
) -> tuple[Tensor, int]:
    """Run `rows_kernel` on tensors by the names of their pointers; return the sums of scores and number of programs."""
    n_classes = batch.address[1]
    wide = not batch.single and n_classes > _NARROW and batch.address[4] == 1
    chunk = min(triton.next_power_of_2(n_classes), _ENTRIES) if wide else 4
    rows = _ENTRIES // chunk if wide else _THREADS
    programs = batch.programs(rows)
    flags = {**_PLAN, **plan}
    sums = torch.empty((programs, 4), dtype=torch.float64, device=work.device) if flags["TOTALS"] else work
    given = {**given, "work": work, "sums": sums}
    n_bins, n_edges = (len(given[name]) if name in given else 0 for name in ("uppers", "edges"))
    triton_rows.rows_kernel[(programs,)](
        batch.values, batch.targets, before, given.get("far", before),
        *(given.get(name, before) for name in _POINTERS), *batch.address, batch.ignored, tolerance, slack, batch.scale,
        n_bins, n_edges, WIDE=wide, SINGLE=batch.single, **batch.flags, **flags,
        STEPS=max(n_bins, n_edges).bit_length(), BLOCK_N=rows, BLOCK_C=chunk,
        W=tl.float64 if batch.double else tl.float32, KEY=tl.int64 if batch.double else tl.int32, num_warps=4,
    )  # fmt: skip
    return sums, programs


class Adding(NamedTuple):
    """What a batch is added to, in addition to the states by their names.

    Attributes
    ----------
    event : int
        The evaluated event, such as `TOP`.
    logits : bool or None
        Whether values are logits. None: as ``before`` says; of the ``first`` batch, if a value is farther than ``far``
        from [0, 1].
    before : (4,) int64
        The state "seen" as earlier batches left it.
    precision : int
        The type of the values, as in the state "seen".
    tolerance, slack : float
        How far the sum of a row may be from 1, and a probability from [0, 1].
    checked : bool
        Whether faults are counted.
    keys : bool
        Whether the keys of rows are returned.
    uppers : (M,) or None
        The largest score of each bin of the event, at most `MOST_BINS`.
    table : tensor_cells.CellTable or None
        The slots of the grid; ``class_cells`` says that they are for each class.
    class_bins : four tensors or None
        The largest score of each bin of a class, and what to add to, (M, C): counts, counts of outcomes 1, sums.
    """

    event: int
    logits: bool | None
    before: Tensor
    first: bool
    far: float
    precision: int
    tolerance: float
    slack: float
    checked: bool
    keys: bool = False
    uppers: Tensor | None = None
    table: Any = None
    class_cells: bool = False
    class_bins: tuple[Tensor, Tensor, Tensor, Tensor] | None = None


_STATES: Final = (
    *("counts", "positives", "score_sums", "total", "infinite", "correct", "brier_sum", "nll_sum"),
    *("brier_squares", "nll_squares", "faults", "seen"),
)


def add(batch: DeviceBatch, states: Mapping[str, Tensor], to: Adding) -> Tensor | None:
    """Read a batch of one row at least once and add it to states, in place; return the keys of rows if asked for.

    ``states`` has "faults" and "seen"; "counts", "positives" and "score_sums" of bins; "cell_counts" and "cell_sums";
    "total" with "infinite", "brier_sum" and "nll_sum", and "correct" with the sums of squares.
    """
    try:
        return _add(batch, states, to)
    except BaseException:
        _workspaces.clear()  # a kernel that did not run has left integers behind
        raise


def _add(batch: DeviceBatch, states: Mapping[str, Tensor], to: Adding) -> Tensor | None:
    device, (n, n_classes), before = batch.values.device, batch.address[:2], to.before
    given: dict[str, Tensor] = {"far": _far(batch, to)}
    plan: dict[str, Any] = {"SCALE": 2 if to.logits is None else int(to.logits), "TOTALS": "total" in states}
    size = N_COUNTED
    if to.uppers is not None:
        size += 2 * len(to.uppers)
        given["uppers"], plan["BINS"] = to.uppers, max(2, triton.next_power_of_2(len(to.uppers)))
    if to.keys:
        given["keys"], plan["KEYS"] = batch.empty(n, double=torch.int64, single=torch.int32), True
    if to.class_bins is not None or to.class_cells:
        given["out"], plan["COLUMNS"] = batch.empty(2, n), 1
    columns, copies = (n_classes, 1) if to.class_cells else (1, _COPIES if n > _MANY_ROWS else 1)
    if to.table is not None:
        cells = _workspace("cells", copies * columns * 5 * (len(to.table.edges) + 1), device)
        if not to.class_cells:
            given |= {"cells": cells, "edges": to.table.edges, "scales": to.table.scales}
            plan |= {"CELLS": True, "COPIES": copies}
    work = _workspace("rows", size, device)
    sums, programs = _launch(batch, before, work, given, {**plan, "EVENT": to.event}, to.tolerance, to.slack)
    if to.class_bins is not None:
        _add_class_bins(batch, before, given, plan["SCALE"], to.class_bins)
    if to.table is not None:
        if to.class_cells:
            grid = {"edges": to.table.edges, "scales": to.table.scales, "cells": cells}
            _add_entries(batch, before, given, plan["SCALE"], grid)
        _move_cells(cells, work, states, to, columns, copies)
    triton_rows.states_kernel[(1,)](
        before, given["far"], work, sums, *(states.get(name, before) for name in _STATES), programs, 1 / batch.scale,
        len(given.get("uppers", ())), 1 if batch.single else n_classes, SCALE=plan["SCALE"],
        BINS=plan.get("BINS", 1), TOTALS=plan["TOTALS"], SQUARES="correct" in states, CHECKED=to.checked,
        PROGRAMS=triton.next_power_of_2(programs), PRECISION=to.precision,
    )  # fmt: skip
    return given.get("keys")


def _far(batch: DeviceBatch, to: Adding) -> Tensor:
    """Return the number of values far outside [0, 1], which decides whether a first batch holds logits."""
    if to.logits is not None or not to.first:
        return to.before
    far = torch.zeros(1, dtype=torch.int64, device=batch.values.device)
    _launch(batch, to.before, far, {"far": far}, {"FAR": True}, to.tolerance, to.far)
    return far


def _add_class_bins(
    batch: DeviceBatch, before: Tensor, rows: Mapping[str, Tensor], scale: int, class_bins: tuple[Tensor, ...]
) -> None:
    """Add every entry of a batch of classes to the bins of its class."""
    uppers, *binned = class_bins
    size = len(uppers) * batch.address[1]
    bins = _workspace("classes", 2 * size, batch.values.device)
    _add_entries(batch, before, rows, scale, {"uppers": uppers, "bins": bins})
    triton_rows.class_bins_kernel[(triton.cdiv(size, 256),)](bins, *binned, size, 1 / batch.scale, BLOCK=256)


def _move_cells(
    cells: Tensor, work: Tensor, states: Mapping[str, Tensor], to: Adding, columns: int, copies: int
) -> None:
    """Add the cells of a batch to the states."""
    slots, parts = len(to.table.edges) + 1, to.table.parts
    triton_rows.cells_kernel[(triton.cdiv(slots, 1024), columns)](
        cells,
        to.table.scales,
        work,
        states["cell_counts"],
        states["cell_sums"],
        slots,
        parts,
        slots - parts + 1,
        CHECKED=to.checked,
        PARTS=triton.next_power_of_2(parts),
        COPIES=copies,
        BLOCK=1024,
    )


def _add_entries(
    batch: DeviceBatch, before: Tensor, rows: Mapping[str, Tensor], scale: int, into: Mapping[str, Tensor]
) -> None:
    """Add the classes of rows, with their columns, to the integers of bins, or of the slots of a grid."""
    chunk = min(triton.next_power_of_2(batch.address[1]), 128)
    across = triton.cdiv(batch.address[1], chunk)
    n_bins, n_edges = (len(into[name]) if name in into else 0 for name in ("uppers", "edges"))
    pointers = (into.get(name, before) for name in ("uppers", "edges", "scales", "bins", "cells"))
    triton_rows.entries_kernel[(batch.programs(1024 // chunk, across), across)](
        batch.values,
        batch.targets,
        *rows["out"][:2],
        before,
        rows["far"],
        *pointers,
        *batch.address,
        batch.scale,
        n_bins,
        n_edges,
        FLAT=batch.flags["FLAT"],
        SCALE=scale,
        BINS=n_bins > 0,
        CELLS=n_edges > 0,
        STEPS=max(n_bins, n_edges).bit_length(),
        BLOCK_N=1024 // chunk,
        BLOCK_C=chunk,
        W=tl.float64 if batch.double else tl.float32,
    )
