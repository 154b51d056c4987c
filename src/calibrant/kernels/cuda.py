"""Read rows of class probabilities or logits on a device once.

`read` uses plain torch operations on blocks of rows, so that no copy of the input is made. The Triton kernels do the
same in one launch. They are experimental: tests run them in Triton's interpreter, but nobody has measured them on a
GPU. So they run only if ``CALIBRANT_TRITON=1`` asks for them, and the device runs Triton. `usable` decides. Both return
the same numbers (`ROUNDINGS` says how close), and neither waits for the device. A device is any device of torch.

The caller validates types and shapes; invalid values are counted.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from calibrant.errors import InputError
from calibrant.kernels.blocks import ROUNDING
from calibrant.kernels.reference import IGNORED

#: How many float32 roundings (2^-24 each) a sum in the kernel may have, for any number of terms of one sign, with the
#: rounding of the terms and of the result: 7 between tiles, 22 between lanes. Panels are added in float64.
ROUNDINGS: Final = 32

#: The kinds of faults, in the order of the tensor that counts them; only `tensors.read` counts the last.
FAULTS: Final = ("infinite", "outside", "sum", "target", "scale")

_BLOCK: Final = 1 << 22  # entries per block of plain operations: 16 MB of float32
_TILES: Final = 8  # per panel
_SCORES: Final = 1024  # per program that adds to cells
_NO_CLASS: Final = -(1 << 63)
_TRITON_TYPES: Final = (torch.float32, torch.bfloat16, torch.float16)
_ON_CUDA: Final = (2, 10)  # DLPack's numbers for CUDA and ROCm; torch calls both cuda


class RowReading(NamedTuple):
    """What `read` returns for each of n rows, on the device of the values.

    Floats are float32, or float64 for float64 values. They are 0 for a row that is not judged, NaN for a faulty row.

    Attributes
    ----------
    top : (n,)
        The largest probability.
    correct : (n,) uint8
        1 if the target has the largest probability and no lower class has the same, else 0; `IGNORED` for a row that
        is not judged or is faulty.
    p_target, log_p_target : (n,)
        The probability of the target, and its logarithm. From logits the logarithm does not underflow.
    squares : (n,)
        The sum of the squared probabilities.
    total : (n,)
        The sum of a row of probabilities; for logits the log-sum-exp.
    faults : (5,) int64
        The faulty rows by `FAULTS`. A row counts once, under the first fault it has: a value that is not finite; a
        probability outside [0, 1]; a sum that is not 1; a target that is not a class. "scale" stays 0.
    normalised : () int64
        If ``logits`` was a true tensor, the number of judged rows that could be probabilities; otherwise 0.
    """

    top: Tensor
    correct: Tensor
    p_target: Tensor
    log_p_target: Tensor
    squares: Tensor
    total: Tensor
    faults: Tensor
    normalised: Tensor

    @classmethod
    def of(cls, floats: Iterable[Tensor], *, correct: Tensor, faults: Tensor, normalised: Tensor) -> RowReading:
        """Return the reading of five (n,) tensors of floats, in the order of the fields."""
        top, p_target, log_p_target, squares, total = floats
        return cls(
            top=top,
            correct=correct,
            p_target=p_target,
            log_p_target=log_p_target,
            squares=squares,
            total=total,
            faults=faults,
            normalised=normalised,
        )


def has_float64(device: torch.device) -> bool:
    """Return whether the device computes in double precision; Apple's does not."""
    return device.type != "mps"


def usable(device: torch.device) -> bool:
    """Return whether the Triton kernels run on a device: ``CALIBRANT_TRITON=1`` asks for them, and they work there.

    Raises
    ------
    InputError
        For another value of the environment variable than 0 and 1, where there is a CUDA device.
    """
    if device.type != "cuda":
        return False
    wish = os.environ.get("CALIBRANT_TRITON", "0")
    if wish not in ("0", "1"):
        remedy = "correct or unset this environment variable"
        raise InputError("CALIBRANT_TRITON", "1 for the Triton kernels, 0 for torch operations", repr(wish), remedy)
    return wish == "1" and _runs(device)


@cache
def _runs(device: torch.device) -> bool:
    """Return whether Triton kernels run on a CUDA device; warn with the reason if they do not."""
    try:
        row, target = torch.full((1, 2), 0.5, device=device), torch.zeros(1, dtype=torch.int64, device=device)
        _launch(row, target, False, None, 1.0)
    except Exception as error:  # a compiler or a driver may raise anything: plain operations work too
        reason = f"{type(error).__name__}: {error}"
        message = f"Triton does not work on {device} ({reason}); plain torch operations are used"
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
        Any strides, 2 classes or more. Row i belongs to target i.
    targets : (N,) or (N, ...) tensor
        The true class of each row: integers, booleans or floats with integer values.
    logits : bool, or a tensor of one boolean on the device
        Whether the values are logits. The host never reads the value of a tensor.
    ignore_index : int or None
        The target of rows that are not judged; their values may be anything.
    tolerance : float
        How far the sum of a row of probabilities may be from 1.

    Notes
    -----
    Probabilities outside [0, 1] by at most `blocks.ROUNDING` units in the last place of their type are read as 0 and 1.

    The kernel reads the values in place, in their own type, float32, bfloat16 or float16, and multiplies strides in 64
    bits. It copies them only if several trailing axes cannot be merged into one. Plain operations read float64.
    """
    targets = _as_classes(targets)
    if values.dtype in _TRITON_TYPES and usable(values.device):
        return _launch(values, targets, logits, ignore_index, tolerance)
    return _read_plainly(values, targets, logits, ignore_index, tolerance)


def beyond(
    values: Tensor, targets: Tensor, *, ignore_index: int | None, low: float, high: float, skip: Tensor
) -> Tensor:
    """Return whether a judged value is below ``low`` or above ``high``, as one boolean on the device.

    If ``skip``, a boolean on the device, is true, the answer is no and the kernel reads nothing.
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
    any_beyond = torch.zeros((), dtype=torch.bool, device=values.device)
    for first, x in _blocks(values):
        if ignore_index is not None:
            x = torch.where((targets[first : first + len(x)] != ignore_index)[:, None], x, torch.zeros_like(x))
        any_beyond = any_beyond | (x < low).any() | (x > high).any()
    return any_beyond & (skip.reshape(()) == 0)


def add_cells(
    scores: Tensor, outcomes: Tensor, *, columns: int, edges: Tensor, scales: Tensor, low_bits: int
) -> tuple[Tensor, Tensor]:
    """Launch the kernel of `cuda_cells.cells`; return sums (columns, 6, E + 1) and the number of refused scores."""
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
    """Return targets as (n,) contiguous integers; a fraction becomes a class that does not exist."""
    targets = targets.reshape(-1).contiguous()
    if targets.dtype == torch.bool:
        return targets.view(torch.uint8)
    if targets.is_floating_point():
        classes = targets.long()
        return torch.where(classes == targets, classes, torch.full_like(classes, _NO_CLASS))
    return targets


def _slack(values: Tensor) -> float:
    """Return how far rounding alone may move a probability out of [0, 1]."""
    return float(ROUNDING * torch.finfo(values.dtype).eps)


# ---------------------------------------------------------------- Triton


def _on(x: Tensor) -> AbstractContextManager[Any]:
    """Return a context that launches kernels on the GPU of a tensor."""
    return torch.cuda.device(x.device) if x.is_cuda else nullcontext()


class _Tile(NamedTuple):
    """How a program reads: its rows, the columns it reads at a time, and its warps."""

    rows: int
    columns: int
    warps: int


def _tile(n_classes: int, *, across: bool) -> _Tile:
    """Choose a tile by the number of classes, and by whether columns (or else rows) are adjacent in memory.

    Nothing else may decide: the tile sets the order in which a row is summed, and so its last bits.
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
    """Return the compile-time constants of the reading kernel for a row length and a tile."""
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
    floats = [torch.empty(n, dtype=torch.float32, device=values.device) for _ in range(5)]  # each aligned separately
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
                _slack(values),
                SCALE=cuda_kernels.UNDECLARED if isinstance(logits, Tensor) else int(logits),
                IGNORING=ignore_index is not None,
                **_constants(n_classes, tile),
                num_warps=tile.warps,
                enable_fp_fusion=True,
            )
    return RowReading.of(floats, correct=correct, faults=counters[:-1], normalised=counters[-1])


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
        columns, fault, normal = _read_block(x, y, logits, tolerance, _slack(values))
        fault = torch.where((fault == 0) & ~aimed, torch.full_like(fault, 4), fault)
        fault = torch.where(judged, fault, torch.zeros_like(fault))
        good = judged & (fault == 0)
        void = torch.where(judged, torch.nan, 0.0).to(dtype)
        floats[:, rows] = torch.where(good, columns, void)
        right = (x.argmax(1) == y).to(torch.uint8)  # the first if several are equal
        correct[rows] = torch.where(good, right, torch.full_like(right, IGNORED))
        faults[:4] += torch.stack([(fault == kind).sum() for kind in range(1, 5)])
        normalised += (good & normal).sum()
    return RowReading.of(floats.unbind(), correct=correct, faults=faults, normalised=normalised)


def _read_block(
    x: Tensor, y: Tensor, logits: bool | Tensor, tolerance: float, slack: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (5, k) top, p_target, log_p_target, squares, total; the kind of fault; which rows may be probabilities."""
    wide = torch.float64 if has_float64(x.device) else torch.float32
    infinite = ~x.isfinite().all(1)
    no_logits = ~((x < torch.inf).all(1) & (x > -torch.inf).any(1))  # -inf is a class of probability 0
    total = x.sum(1, dtype=wide)
    within = x.clamp(0, 1)
    inside = ((x - within).abs() <= slack).all(1)
    off = (total - 1).abs() > tolerance
    no = torch.zeros_like(off)
    of_logits = of_probs = torch.empty(0)
    if logits is not False:
        of_logits = _softmax(x, y, wide)
    if logits is not True:
        p_target = within.gather(1, y[:, None])[:, 0]
        squares = within.to(wide).square().sum(1).to(x.dtype)
        of_probs = torch.stack([within.amax(1), p_target, p_target.log(), squares, total.to(x.dtype)])
        kind = torch.where(infinite, 1, torch.where(~inside, 2, torch.where(off, 3, 0)))
    if not isinstance(logits, Tensor):
        return (of_logits, no_logits.long(), no) if logits else (of_probs, kind, no)
    yes = logits.reshape(()) != 0
    return torch.where(yes, of_logits, of_probs), torch.where(yes, no_logits.long(), kind), yes & inside & ~off


def _softmax(x: Tensor, y: Tensor, wide: torch.dtype) -> Tensor:
    largest, best = x.max(1, keepdim=True)
    shifted = x - largest
    x_target = shifted.gather(1, y[:, None])[:, 0].to(wide)
    e = shifted.exp().scatter_(1, best, 0)  # the largest's term, 1, is left out: the sum of the others keeps its digits
    rest, second = e.sum(1, dtype=wide), e.square().sum(1, dtype=wide)
    loss = rest.log1p()
    squares = (second + 1) / (rest + 1).square()
    columns = (1 / (rest + 1), x_target.exp() / (rest + 1), x_target - loss, squares, largest[:, 0].to(wide) + loss)
    return torch.stack([column.to(x.dtype) for column in columns])


# ---------------------------------------------------------------- arrays of other libraries


def on_cuda(x: Any) -> bool:
    """Return whether an array of another library is on a CUDA (or ROCm) device, by its own protocol."""
    if isinstance(x, Tensor):
        return False
    if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
        return int(x.__dlpack_device__()[0]) in _ON_CUDA
    return hasattr(x, "__cuda_array_interface__")


def as_cuda_tensor(x: Any) -> Tensor:
    """Return an array on a CUDA device (from CuPy, JAX, Numba, ...) as a tensor that shares its memory.

    The array comes through DLPack, which orders the work of the two libraries' streams, or else through
    ``__cuda_array_interface__``. It is not copied and never written to.

    Raises
    ------
    calibrant.errors.InputError
        For anything that is not on a CUDA (or ROCm) device.
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
