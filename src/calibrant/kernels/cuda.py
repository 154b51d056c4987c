"""Rows of class probabilities or logits on a device: everything that is needed of them, in one read.

`read` launches the Triton kernel where the device runs Triton, and otherwise uses plain torch operations on blocks of
rows, so that nothing of the size of the input is made; `usable` is where this is chosen. Both return the same numbers
(`ROUNDINGS` says how near) and neither waits for the device. What is called a device here may be any of torch's.

Validation is left to the caller: types and shapes are taken as said, and what is wrong with values is counted.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from calibrant.errors import InputError
from calibrant.kernels.reference import IGNORED

#: Of float32 (2^-24 each) in a sum of the kernel's over any number of terms of one sign, the rounding of the terms and
#: of the result included: 7 from tile to tile, 22 from lane to lane; from panel to panel it adds in float64.
ROUNDINGS: Final = 32

#: The kinds of faults, in the order of the tensor that counts them; the last is counted by `tensors.read` alone.
FAULTS: Final = ("infinite", "outside", "sum", "target", "scale")

_BLOCK: Final = 1 << 22  # entries of a block of plain operations: 16 MB of float32
_TILES: Final = 8  # of a panel
_SCORES: Final = 1024  # of a program that adds to cells
_NO_CLASS: Final = -(1 << 63)
_TRITON_TYPES: Final = (torch.float32, torch.bfloat16, torch.float16)
_ON_CUDA: Final = (2, 10)  # DLPack's numbers of CUDA and of ROCm, which torch calls cuda as well


class RowReading(NamedTuple):
    """What `read` finds in each of n rows; all tensors are where the values are.

    Floats are float32, of float64 values float64. Of a row that is not judged they are 0, of a faulty row NaN.

    Attributes
    ----------
    top : (n,)
        The largest probability.
    correct : (n,) uint8
        1 where it is the target's and no lower class has the same, else 0; `IGNORED` for a row that is not judged or
        is faulty.
    own, log_own : (n,)
        The probability that the target was given, and its logarithm, which does not underflow with logits.
    squares : (n,)
        The sum of the squared probabilities.
    total : (n,)
        The sum of a row of probabilities; of logits the logarithm of the sum of their exponentials.
    faults : (5,) int64
        The faulty rows by `FAULTS`. A row is counted once, by the first of: a value that is not finite; a probability
        outside [0, 1]; a sum that is not 1; a target that is no class. "scale" is left 0.
    normalised : () int64
        Where ``logits`` was a tensor that said yes, the judged rows that could be probabilities; otherwise 0.
    """

    top: Tensor
    correct: Tensor
    own: Tensor
    log_own: Tensor
    squares: Tensor
    total: Tensor
    faults: Tensor
    normalised: Tensor


def has_float64(device: torch.device) -> bool:
    """Whether the device computes in double precision: Apple's does not."""
    return device.type != "mps"


@cache
def usable(device: torch.device) -> bool:
    """Whether Triton kernels run on a device; what keeps them from it where they should is told in a warning."""
    if device.type != "cuda" or find_spec("triton") is None:
        return False
    try:
        row, target = torch.full((1, 2), 0.5, device=device), torch.zeros(1, dtype=torch.int64, device=device)
        _launch(row, target, False, None, 1.0)
    except Exception as error:  # whatever a compiler or a driver may raise: plain operations do as well
        reason = f"{type(error).__name__}: {error}"
        message = f"Triton does not work on {device} ({reason}); plain torch operations are used, which are slower"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
        return False
    return True


def read(
    values: Tensor, targets: Tensor, *, logits: bool | Tensor, ignore_index: int | None, tolerance: float
) -> RowReading:
    """Read rows of class probabilities or logits once.

    Parameters
    ----------
    values : (N, C) or (N, C, ...) floating-point tensor
        Of any strides, 2 classes or more. The rows are numbered as the targets are.
    targets : (N,) or (N, ...) tensor
        The true class of each row: integers, booleans or whole floats.
    logits : bool, or a tensor of one boolean on the device
        Whether the values are logits. A tensor decides without being looked at on the host.
    ignore_index : int or None
        The target of rows that are not judged; their values are not looked at.
    tolerance : float
        How far the sum of a row of probabilities may be from 1.

    Notes
    -----
    The kernel reads the values where they lie, in their own type, float32, bfloat16 or float16, and multiplies strides
    in 64 bits; only of more than one trailing axis that do not lie one within the other a copy is made. float64 is read
    by plain operations.
    """
    targets = _as_classes(targets)
    if values.dtype in _TRITON_TYPES and usable(values.device):
        return _launch(values, targets, logits, ignore_index, tolerance)
    return _read_plainly(values, targets, logits, ignore_index, tolerance)


def beyond(
    values: Tensor, targets: Tensor, *, ignore_index: int | None, low: float, high: float, skip: Tensor
) -> Tensor:
    """Return whether a judged value is below ``low`` or above ``high``, as one boolean on the device.

    With a true ``skip``, a boolean on the device, the answer is no, and the kernel reads nothing.
    """
    targets = _as_classes(targets)
    if values.dtype in _TRITON_TYPES and usable(values.device):
        from calibrant.kernels import cuda_kernels

        far = torch.zeros(1, dtype=torch.int32, device=values.device)
        values = values if values.ndim == 2 else values.flatten(2)
        grid, shape, tile = _geometry(values)
        if len(targets):
            with _on(values):
                cuda_kernels.look_beyond[grid](
                    values,
                    targets,
                    skip.reshape(1).to(torch.int8),
                    far,
                    *shape,
                    ignore_index or 0,
                    low,
                    high,
                    IGNORING=ignore_index is not None,
                    ROWS=tile.rows,
                    COLS=tile.columns,
                    num_warps=tile.warps,
                    enable_fp_fusion=True,
                )
        return far[0] > 0
    found = torch.zeros((), dtype=torch.bool, device=values.device)
    for first, x in _blocks(values):
        if ignore_index is not None:
            x = torch.where((targets[first : first + len(x)] != ignore_index)[:, None], x, torch.zeros_like(x))
        found = found | (x < low).any() | (x > high).any()
    return found & (skip.reshape(()) == 0)


def add_cells(
    scores: Tensor, outcomes: Tensor, columns: int, edges: Tensor, scales: Tensor, low_bits: int
) -> tuple[Tensor, Tensor]:
    """Launch the kernel of `cuda_cells.cells`: returns sums (columns, 6, E + 1) and the number of scores refused."""
    from calibrant.kernels import cuda_kernels

    n, n_edges = len(scores), len(edges)
    sums = torch.zeros((columns, 6, n_edges + 1), dtype=torch.int64, device=scores.device)
    refused = torch.zeros((), dtype=torch.int64, device=scores.device)
    if n:
        with _on(scores):
            cuda_kernels.add_cells[(-(-n // _SCORES),)](
                scores,
                outcomes,
                edges,
                scales,
                sums,
                refused,
                n,
                columns,
                n_edges,
                STEPS=n_edges.bit_length(),
                LOW_BITS=low_bits,
                BLOCK=_SCORES,
                num_warps=4,
                enable_fp_fusion=True,
            )
    return sums, refused


def _as_classes(targets: Tensor) -> Tensor:
    """Return targets as (n,) adjacent integers; what is no whole number becomes a class that nobody has."""
    targets = targets.reshape(-1).contiguous()
    if targets.dtype == torch.bool:
        return targets.view(torch.uint8)
    if targets.is_floating_point():
        classes = targets.long()
        return torch.where(classes == targets, classes, torch.full_like(classes, _NO_CLASS))
    return targets


# ---------------------------------------------------------------- Triton


def _on(x: Tensor) -> AbstractContextManager[Any]:
    """Have kernels launched on the device of a tensor, of several GPUs."""
    return torch.cuda.device(x.device) if x.is_cuda else nullcontext()


class _Tile(NamedTuple):
    """How a program reads: so many rows, and so many columns at a time, with so many warps."""

    rows: int
    columns: int
    warps: int


def _tile(n_classes: int, *, across: bool) -> _Tile:
    """Choose a tile by the number of classes, and by whether columns (or else rows) are neighbours in memory.

    By nothing else: the tile decides in what order a row is summed, and so its last bits.
    """
    size = 1024 if across and n_classes <= 1024 else 2048
    columns = min(1 << (n_classes - 1).bit_length(), size if across else 16)
    return _Tile(size // columns, columns, size // 256)


def _geometry(values: Tensor) -> tuple[tuple[int], tuple[int, ...], _Tile]:
    """Return the grid of a launch, shape and strides of (N, C) or (B, C, D) values for the kernels, and the tile."""
    if values.ndim == 2:
        (n, n_classes), (sheet, step), depth, row = values.shape, values.stride(), 1, 0
    else:
        (sheets, n_classes, depth), (sheet, step, row) = values.shape, values.stride()
        n = sheets * depth
    tile = _tile(n_classes, across=step <= (sheet if depth == 1 else row))
    return (-(-n // tile.rows),), (n, depth, sheet, row, step, n_classes), tile


def _constants(n_classes: int, tile: _Tile) -> dict[str, int | bool]:
    """Return what the reading kernel is compiled for, of a row's length and the tile."""
    single = n_classes <= tile.columns
    panel = tile.columns * (1 if single else _TILES)
    return {
        "SINGLE": single,
        "SEVERAL": n_classes > panel,
        "ROWS": tile.rows,
        "COLS": tile.columns,
        "PANEL": panel,
        "STAGES": 3,
    }


def _launch(
    values: Tensor, targets: Tensor, logits: bool | Tensor, ignore_index: int | None, tolerance: float
) -> RowReading:
    from calibrant.kernels import cuda_kernels

    values = values if values.ndim == 2 else values.flatten(2)
    grid, shape, tile = _geometry(values)
    n, n_classes = shape[0], shape[-1]
    floats = [torch.empty(n, dtype=torch.float32, device=values.device) for _ in range(5)]  # each aligned by itself
    correct = torch.empty(n, dtype=torch.uint8, device=values.device)
    counters = torch.zeros(len(FAULTS) + 1, dtype=torch.int64, device=values.device)
    scale = logits.reshape(1).to(torch.int8) if isinstance(logits, Tensor) else counters
    if n:
        with _on(values):
            cuda_kernels.read_rows[grid](
                values,
                targets,
                scale,
                floats[0],
                correct,
                *floats[1:],
                counters,
                *shape,
                ignore_index or 0,
                tolerance,
                SCALE=cuda_kernels.UNDECLARED if isinstance(logits, Tensor) else int(logits),
                IGNORING=ignore_index is not None,
                **_constants(n_classes, tile),
                num_warps=tile.warps,
                enable_fp_fusion=True,
            )
    top, own, log_own, squares, total = floats
    return RowReading(top, correct, own, log_own, squares, total, counters[:-1], counters[-1])


# ---------------------------------------------------------------- plain operations


def _blocks(values: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Yield (number of the first row, rows (k, C)) of (N, C) or (N, C, ...) values, widened from half precision."""
    deep = values[:, :, None] if values.ndim == 2 else values.flatten(2)
    sheets, n_classes, depth = deep.shape
    count = max(1, _BLOCK // (n_classes * depth))
    part = depth if count > 1 else max(1, min(depth, _BLOCK // n_classes))
    for sheet in range(0, sheets, count):
        for row in range(0, depth, part):
            x = deep[sheet : sheet + count, :, row : row + part].movedim(1, -1).reshape(-1, n_classes)
            yield sheet * depth + row, x if x.dtype == torch.float64 else x.float()


def _read_plainly(
    values: Tensor, targets: Tensor, logits: bool | Tensor, ignore_index: int | None, tolerance: float
) -> RowReading:
    n, device = len(targets), values.device
    dtype = torch.float64 if values.dtype == torch.float64 else torch.float32
    floats = torch.empty((5, n), dtype=dtype, device=device)
    correct = torch.empty(n, dtype=torch.uint8, device=device)
    faults = torch.zeros(len(FAULTS), dtype=torch.int64, device=device)
    normalised = torch.zeros((), dtype=torch.int64, device=device)
    for first, block in _blocks(values):
        rows = slice(first, first + len(block))
        target = targets[rows].long()
        judged = torch.ones_like(target, dtype=torch.bool) if ignore_index is None else target != ignore_index
        aimed = judged & (target >= 0) & (target < block.shape[1])
        x = torch.where(judged[:, None], block, torch.zeros_like(block))
        y = torch.where(aimed, target, torch.zeros_like(target))
        found, fault, normal = _read_block(x, y, logits, tolerance)
        fault = torch.where((fault == 0) & ~aimed, torch.full_like(fault, 4), fault)
        fault = torch.where(judged, fault, torch.zeros_like(fault))
        good = judged & (fault == 0)
        void = torch.where(judged, torch.nan, 0.0).to(dtype)
        floats[:, rows] = torch.where(good, found, void)
        right = (x.argmax(1) == y).to(torch.uint8)  # the first of equals
        correct[rows] = torch.where(good, right, torch.full_like(right, IGNORED))
        faults[:4] += torch.stack([(fault == kind).sum() for kind in range(1, 5)])
        normalised += (good & normal).sum()
    top, own, log_own, squares, total = floats.unbind()
    return RowReading(top, correct, own, log_own, squares, total, faults, normalised)


def _read_block(x: Tensor, y: Tensor, logits: bool | Tensor, tolerance: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return top, own, log_own, squares and total (5, k), the kind of fault, and which rows could be probabilities."""
    wide = torch.float64 if has_float64(x.device) else torch.float32
    infinite = ~x.isfinite().all(1)
    total = x.sum(1, dtype=wide)
    inside = ((x >= 0) & (x <= 1)).all(1)
    off = (total - 1).abs() > tolerance
    no = torch.zeros_like(off)
    of_logits = of_probs = torch.empty(0)
    if logits is not False:
        of_logits = _softmax(x, y, wide)
    if logits is not True:
        own = x.gather(1, y[:, None])[:, 0]
        of_probs = torch.stack([x.amax(1), own, own.log(), x.to(wide).square().sum(1).to(x.dtype), total.to(x.dtype)])
        kind = torch.where(infinite, 1, torch.where(~inside, 2, torch.where(off, 3, 0)))
    if not isinstance(logits, Tensor):
        return (of_logits, infinite.long(), no) if logits else (of_probs, kind, no)
    yes = logits.reshape(()) != 0
    return torch.where(yes, of_logits, of_probs), torch.where(yes, infinite.long(), kind), yes & inside & ~off


def _softmax(x: Tensor, y: Tensor, wide: torch.dtype) -> Tensor:
    largest, best = x.max(1, keepdim=True)
    shifted = x - largest
    given = shifted.gather(1, y[:, None])[:, 0].to(wide)
    e = shifted.exp().scatter_(1, best, 0)  # without the largest's own term, 1, the sum of the rest keeps its digits
    rest, second = e.sum(1, dtype=wide), e.square().sum(1, dtype=wide)
    loss = rest.log1p()
    squares = (second + 1) / (rest + 1).square()
    found = (1 / (rest + 1), given.exp() / (rest + 1), given - loss, squares, largest[:, 0].to(wide) + loss)
    return torch.stack([part.to(x.dtype) for part in found])


# ---------------------------------------------------------------- arrays of other libraries


def on_cuda(x: Any) -> bool:
    """Whether an array of another library says that it lies on a CUDA (or ROCm) device."""
    if isinstance(x, Tensor):
        return False
    if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
        return int(x.__dlpack_device__()[0]) in _ON_CUDA
    return hasattr(x, "__cuda_array_interface__")


def as_cuda_tensor(x: Any) -> Tensor:
    """Return an array that lies on a CUDA device (of CuPy, JAX, Numba, ...) as a tensor that shares its memory.

    Arrays are taken through DLPack, which orders the work of the two libraries' streams, or else through
    ``__cuda_array_interface__``. Nothing is copied, and nothing is written to.

    Raises
    ------
    calibrant.errors.InputError
        For anything that does not lie on a CUDA (or ROCm) device.
    """
    if isinstance(x, Tensor) and x.is_cuda:
        return x
    if on_cuda(x):
        return from_dlpack(x) if hasattr(x, "__dlpack__") else torch.as_tensor(x, device="cuda")
    if isinstance(x, Tensor):
        got, remedy = f"a tensor on {x.device}", "move it with .to('cuda')"
    else:
        got, remedy = f"a {type(x).__name__} elsewhere", "pass an array that lies on the GPU"
    raise InputError("x", "an array on a CUDA device", got, remedy)
