"""Run Triton's kernels on a batch: read it once, and add it to the states of a metric.

`tensors` does the same by torch operations, if Triton is missing. Only `tensors` imports this module, when a tensor
on a GPU has come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field
from functools import cache
from threading import get_ident
from typing import Any, Final, NamedTuple

import torch
import triton
from torch import Tensor

from calibrant.kernels import triton_rows
from calibrant.kernels.triton_rows import N_COUNTED
from calibrant.runtime.dataclass import dataclass

#: The most bins of one event that a program keeps in registers.
MOST_BINS: Final = 64

_ENTRIES: Final = 256  # of a row of many classes that a warp reads at once, 8 each thread
_TILE: Final = 128  # entries that are added to bins of their classes at once, 4 each thread
_THREADS: Final = 32  # rows of few classes that a program reads at once
_NARROW: Final = 400  # up to so many classes a thread reads a row
_MANY_CLASSES: Final = 1 << 13  # from so many on four warps read a row
_WARPS: Final = 32  # that read, for each multiprocessor
_COPIES: Final = 32  # of the slots of a grid, for many rows with many ties
_MANY_ROWS: Final = 1 << 20
_KEPT: Final = 1 << 20  # integers of a workspace that is kept for the next batch
_MOST_PLANS: Final = 1024  # of a metric, for batches of different shapes


class DeviceBatch(NamedTuple):
    """A batch on a device, as the kernels address it.

    ``address`` is the number of rows, of classes, the depth d, and the steps of sheets, classes and rows: row i is in
    sheet i // d at i % d. ``flags`` are what kernels are compiled for: whether there is one score a row, whether d is
    1, whether targets are floats, and whether some rows are not evaluated.
    """

    values: Tensor
    targets: Tensor
    address: tuple[int, ...]
    ignored: int
    flags: tuple[bool, bool, bool, bool]

    @classmethod
    def of(cls, values: Tensor, targets: Tensor, ignore_index: int | None) -> DeviceBatch:
        """Return a batch of scores (n,), or of classes (N, C) or (N, C, ...)."""
        if values.ndim > 3:
            values = values.flatten(2)
        sheets, n_classes, depth = (*values.shape, 1, 1)[:3]
        steps = (*values.stride(), 1, 1)[:3]
        flat = (targets if targets.ndim == 1 else targets.reshape(-1)).contiguous()
        flat = flat.view(torch.uint8) if flat.dtype == torch.bool else flat
        flags = (values.ndim == 1, depth == 1, flat.dtype.is_floating_point, ignore_index is not None)
        return cls(values, flat, (sheets * depth, n_classes, depth, *steps), ignore_index or 0, flags)

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


@cache
def _multiprocessors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 4


def _blocks(number: int, size: int) -> int:
    """Return how many blocks of a size hold a number of items."""
    return -(-number // size)


def _power(number: int) -> int:
    """Return the least power of 2 that is not below a number."""
    return 1 << (number - 1).bit_length()


def _register(n_bins: int) -> int:
    """Return how many bins a program keeps in registers: 1 for none."""
    return max(2, _power(n_bins)) if n_bins else 1


_workspaces: dict[tuple[Any, ...], Tensor] = {}


def _workspace(kind: str, size: int, device: torch.device) -> Tensor:
    """Return integers that are 0: kernels that a thread launches on a stream share them in turn, and clear them.

    A CUDA graph that is captured has its own.
    """
    on_gpu = device.type == "cuda"
    if size > _KEPT or (on_gpu and torch.cuda.is_current_stream_capturing()):
        return torch.zeros(size, dtype=torch.int64, device=device)
    stream = torch.cuda.current_stream(device).cuda_stream if on_gpu else 0
    key = (kind, size, device, stream, get_ident())
    if key not in _workspaces:
        _workspaces[key] = torch.zeros(size, dtype=torch.int64, device=device)
    return _workspaces[key]


# ---------------------------------------------------------------- launching

_REMEMBERS: Final = tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 3)  # which takes all parameters again


class _Launch:
    """A kernel with its grid and all its parameters except tensors.

    Triton compiles a kernel for its arguments and returns it. It takes long to find it there again for so many
    arguments, so it is remembered by what Triton also compiles for: how the addresses of tensors are aligned.
    """

    def __init__(self, kernel: Any, grid: tuple[int, int, int], numbers: tuple[Any, ...], *, warps: int = 4) -> None:
        self.kernel, self.grid, self.numbers, self.warps = kernel, grid, numbers, warps
        self._compiled: dict[tuple[int, ...], Any] = {}

    def __call__(self, *tensors: Tensor) -> None:
        """Launch with these tensors, which have the types of all calls before."""
        aligned = tuple([x.data_ptr() & 15 for x in tensors])
        compiled = self._compiled.get(aligned)
        if compiled is not None:
            compiled[self.grid](*tensors, *self.numbers)
            return
        compiled = self.kernel[self.grid](*tensors, *self.numbers, num_warps=self.warps)
        if compiled is not None and _REMEMBERS:  # None if Triton interprets
            self._compiled[aligned] = compiled


def _on(device: torch.device) -> AbstractContextManager[Any]:
    """Return a context in which Triton launches on a device, which it takes from torch."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def try_out(device: torch.device) -> None:
    """Run a small kernel twice, and read a row; a compiler, or a driver, that does not work raises its own error."""
    integers, sums = torch.zeros(8, dtype=torch.int64, device=device), torch.zeros(1, device=device).double()
    launch = _Launch(triton_rows.class_bins_kernel, (1, 1, 1), (1, 1.0, 8))
    with _on(device):
        for _ in range(2):  # compiled, and remembered
            launch(integers, integers[2:], integers[3:], sums)
    rows = torch.zeros(1, 2, device=device)  # Triton may not take all of the language of this kernel
    read_rows(rows, integers[:1], logits=True, ignore_index=None, tolerance=0.0, slack=0.0)


# ---------------------------------------------------------------- kernels that read


def _rows(
    batch: DeviceBatch,
    *,
    probs: bool,
    logits: bool,
    tolerance: float,
    slack: float,
    event: str = "top",
    columns: int = 0,
    keys: bool = False,
    n_bins: int = 0,
    n_edges: int = 0,
    copies: int = 1,
    totals: bool = False,
    far: bool = False,
) -> _Launch:
    """Return `rows_kernel` for batches like this one; ``probs`` and ``logits`` are what values can be."""
    (n, n_classes, *_), multiprocessors = batch.address, _multiprocessors(batch.values.device)
    wide = n_classes > _NARROW and batch.address[4] == 1
    warps, rows, chunk = 1, _THREADS, 4
    if wide:  # a row is read alike in any batch
        warps = 4 if n_classes >= _MANY_CLASSES else 1
        rows, chunk = 1, _ENTRIES * warps
    numbers: tuple[Any, ...] = (*batch.address, batch.ignored, tolerance, slack, batch.scale, n_bins, n_edges)
    numbers += (wide, *batch.flags, probs, logits, event, far, _register(n_bins), n_edges > 0, copies)
    numbers += (keys, totals, columns, max(n_bins, n_edges).bit_length(), rows, chunk, batch.double)
    programs = max(1, min(_blocks(n, rows), _WARPS // warps * multiprocessors))
    return _Launch(triton_rows.rows_kernel, (programs, 1, 1), numbers, warps=warps)


def _entries(batch: DeviceBatch, *, probs: bool, logits: bool, n_bins: int = 0, n_edges: int = 0) -> _Launch:
    """Return `entries_kernel` for batches like this one."""
    n, n_classes = batch.address[:2]
    chunk = min(_power(n_classes), _TILE)
    across, rows = _blocks(n_classes, chunk), _TILE // chunk
    most = _blocks(_WARPS * _multiprocessors(batch.values.device), across)
    numbers: tuple[Any, ...] = (*batch.address, batch.scale, n_bins, n_edges, batch.flags[1], probs, logits)
    numbers += (n_bins > 0, n_edges > 0, max(n_bins, n_edges).bit_length(), rows, chunk, batch.double)
    return _Launch(triton_rows.entries_kernel, (min(_blocks(n, rows), most), across, 1), numbers, warps=1)


def read_rows(
    values: Tensor, targets: Tensor, *, logits: bool | Tensor, ignore_index: int | None, tolerance: float, slack: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the columns (5, n) of `rows_kernel`, which rows of classes are right (n,), and what it counted (8,)."""
    logits = logits if isinstance(logits, Tensor) else bool(logits)
    batch = DeviceBatch.of(values, targets, ignore_index)
    n = batch.address[0]
    out, correct = batch.empty(5, n), torch.empty(n, dtype=torch.uint8, device=values.device)
    counted = torch.zeros(N_COUNTED, dtype=torch.int64, device=values.device)
    before = far = counted
    if isinstance(logits, Tensor):
        before, far = torch.zeros_like(counted), logits.reshape(1).long()
    if n:
        probs, scores = logits is not True, logits is not False
        launch = _rows(batch, probs=probs, logits=scores, tolerance=tolerance, slack=slack, columns=2)
        with _on(values.device):
            launch(
                batch.values, batch.targets, before, far, *[before] * 3, counted, *[before] * 2, out, correct, before
            )
    return out, correct, counted


# ---------------------------------------------------------------- states


class _Plan(NamedTuple):
    """The launches for batches like one, and the sizes of the integers that they add to.

    ``entries`` are for each class; ``moved`` moves their bins.
    """

    rows: _Launch
    far: _Launch
    entries: _Launch | None
    moved: _Launch | None
    cells: _Launch | None
    states: _Launch
    n_counted: int
    n_cells: int
    n_classwise: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Adding:
    """What the batches of a metric are added to.

    Attributes
    ----------
    event : {"top", "positive", "folded"}
        The evaluated event: that the row's top label is right, or the class predicted from one score; class 1; that the
        class predicted from one score is right, where 0.5 predicts class 0.
    logits : bool or None
        Whether values are logits. None: as earlier batches; of the first, if a value is farther than ``far`` from
        [0, 1].
    precision : int
        The type of the values, as in the state "seen".
    tolerance, slack : float
        How far the sum of a row may be from 1, and a probability from [0, 1].
    checked : bool
        Whether faults are counted.
    states : tuple of str
        "counts", "positives" and "score_sums" of bins of the event; "total" with "infinite", "brier_sum" and "nll_sum",
        and "correct" with the sums of squares.
    keys : bool
        Whether the keys of rows are returned.
    uppers : (M,) or None
        The largest score of each bin of the event, at most `MOST_BINS`.
    table : tensor_cells.CellTable or None
        The slots of the grid; ``class_cells`` says that they are for each class.
    class_uppers : (M,) or None
        The largest score of each bin of a class.
    plans : dict
        The launches for kinds of batches, which are made when one comes.
    """

    event: str
    logits: bool | None
    far: float
    precision: int
    tolerance: float
    slack: float
    checked: bool
    states: tuple[str, ...]
    keys: bool
    uppers: Tensor | None = None
    table: Any = None
    class_cells: bool = False
    class_uppers: Tensor | None = None
    plans: dict[Any, _Plan] = field(default_factory=dict)

    def plan(self, batch: DeviceBatch) -> _Plan:
        """Return the launches for a batch."""
        key = (batch.address, batch.flags, batch.ignored, batch.targets.dtype)
        plan = self.plans.get(key)
        if plan is None:
            if len(self.plans) >= _MOST_PLANS:
                self.plans.clear()
            plan = self.plans[key] = self._plan(batch)
        return plan

    def _plan(self, batch: DeviceBatch) -> _Plan:
        (n, n_classes), unit = batch.address[:2], 1 / batch.scale
        scale = {"probs": self.logits is not True, "logits": self.logits is not False}
        n_bins, n_class_bins = (0 if x is None else len(x) for x in (self.uppers, self.class_uppers))
        n_edges = 0 if self.table is None else len(self.table.edges)
        columns, copies = (n_classes, 1) if self.class_cells else (1, _COPIES if n_edges and n > _MANY_ROWS else 1)
        of_classes = n_class_bins > 0 or self.class_cells
        totals, slots, size = "total" in self.states, n_edges + 1, n_class_bins * n_classes
        how: dict[str, Any] = {**scale, "tolerance": self.tolerance, "slack": self.slack, "event": self.event}
        added: dict[str, Any] = {"keys": self.keys, "n_bins": n_bins, "copies": copies, "totals": totals}
        added |= {"columns": int(of_classes), "n_edges": 0 if self.class_cells else n_edges}
        rows = _rows(batch, **how, **added)
        entries = moved = cells = None
        if of_classes:
            entries = _entries(batch, **scale, n_bins=n_class_bins, n_edges=n_edges if self.class_cells else 0)
        if n_class_bins:
            moved = _Launch(triton_rows.class_bins_kernel, (_blocks(size, 256), 1, 1), (size, unit, 256))
        if n_edges:
            parts = self.table.parts
            numbers = (slots, parts, slots - parts + 1, self.checked, _power(parts), copies, 1024)
            cells = _Launch(triton_rows.cells_kernel, (_blocks(slots, 1024), columns, 1), numbers)
        programs, squares = rows.grid[0], "correct" in self.states
        moving = (programs, unit, n_bins, n_classes, *scale.values(), _register(n_bins), totals, squares)
        moving += (self.checked, _power(programs), self.precision)
        states = _Launch(triton_rows.states_kernel, (1, 1, 1), moving)
        far = _rows(batch, probs=True, logits=False, tolerance=self.tolerance, slack=self.far, far=True)
        counted = N_COUNTED + 2 * n_bins
        return _Plan(rows, far, entries, moved, cells, states, counted, copies * columns * 5 * slots, 2 * size)


_STATES: Final = (
    *("counts", "positives", "score_sums", "total", "infinite", "correct", "brier_sum", "nll_sum"),
    *("brier_squares", "nll_squares"),
)


def add(
    batch: DeviceBatch,
    states: Mapping[str, Any],
    to: Adding,
    before: Tensor,
    *,
    first: bool,
    class_bins: Sequence[Tensor] = (),
) -> Tensor | None:
    """Read a batch of one row at least once and add it to states, in place; return the keys of rows if asked for.

    ``states`` has those of ``to``, "faults" and "seen", and for a grid "cell_counts" and "cell_sums". ``before`` is the
    state "seen" as earlier batches left it, and ``first`` whether there were none. ``class_bins`` are what bins of
    classes are added to, (M, C): counts, counts of outcomes 1, and sums.
    """
    try:
        with _on(batch.values.device):
            return _add(batch, states, to, before, first, class_bins)
    except BaseException:
        _workspaces.clear()  # a kernel that did not run has left integers behind
        raise


def _add(
    batch: DeviceBatch,
    states: Mapping[str, Any],
    to: Adding,
    before: Tensor,
    first: bool,
    class_bins: Sequence[Tensor],
) -> Tensor | None:
    plan, (x, targets), table = to.plan(batch), batch[:2], to.table
    device, n = x.device, batch.address[0]
    keys = batch.empty(n, double=torch.int64, single=torch.int32) if to.keys else before
    out = before if plan.entries is None else batch.empty(2, n)
    sums = torch.empty((plan.rows.grid[0], 4), dtype=torch.float64, device=device) if "total" in to.states else before
    work, none, uppers = _workspace("rows", plan.n_counted, device), before, before if to.uppers is None else to.uppers
    edges = scales = cells = far = none
    if table is not None:
        edges, scales, cells = table.edges, table.scales, _workspace("cells", plan.n_cells, device)
    if to.logits is None and first:  # does the batch hold a value far outside [0, 1]?
        far = torch.zeros(1, dtype=torch.int64, device=device)
        plan.far(x, targets, before, far, *[none] * 9)
    plan.rows(x, targets, before, far, uppers, edges, scales, work, sums, cells, out, none, keys)
    if plan.entries is not None:
        integers = none
        if to.class_uppers is not None:
            uppers, integers = to.class_uppers, _workspace("classes", plan.n_classwise, device)
        plan.entries(x, targets, out[0], out[1], before, far, uppers, edges, scales, integers, cells)
        if plan.moved is not None:
            plan.moved(integers, *class_bins)
    if plan.cells is not None:
        plan.cells(cells, scales, work, states["cell_counts"], states["cell_sums"])
    added = [states[name] if name in to.states else none for name in _STATES]
    plan.states(before, far, work, sums, *added, states["faults"], states["seen"])
    return keys if to.keys else None
