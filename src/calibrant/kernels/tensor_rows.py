"""Read rows of class probabilities or logits once, by torch operations on any device.

The operations go over blocks of rows, so no copy of the input is made. Nothing waits for the device.

The caller validates types and shapes; invalid values are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import torch
from torch import Tensor

from calibrant.kernels.blocks import ROUNDING
from calibrant.kernels.reference import IGNORED

#: The kinds of faults, in the order of the tensor that counts them; only `tensors.read` counts the last.
FAULTS: Final = ("infinite", "outside", "sum", "target", "scale")

_BLOCK: Final = 1 << 22  # entries per block: 16 MB of float32
_NO_CLASS: Final = -(1 << 63)


class RowReading(NamedTuple):
    """What `read` returns for each of n rows, on the device of the values.

    Floats are float32, or float64 for float64 values. They are 0 for a row that is not judged, NaN for a faulty row.

    Attributes
    ----------
    top : (n,)
        The largest probability.
    p_target, log_p_target : (n,)
        The probability of the target, and its logarithm. From logits the logarithm does not underflow.
    squares : (n,)
        The sum of the squared probabilities.
    correct : (n,) uint8
        1 if the target has the largest probability and no lower class has the same, else 0; `IGNORED` for a row that
        is not judged or is faulty.
    faults : (5,) int64
        The faulty rows by `FAULTS`. A row counts once, under the first fault it has: a value that is not finite; a
        probability outside [0, 1]; a sum that is not 1; a target that is not a class. "scale" stays 0.
    normalised : () int64
        If ``logits`` was a true tensor, the number of judged rows that could be probabilities; otherwise 0.
    """

    top: Tensor
    p_target: Tensor
    log_p_target: Tensor
    squares: Tensor
    correct: Tensor
    faults: Tensor
    normalised: Tensor


def has_float64(device: torch.device) -> bool:
    """Return whether the device computes in double precision; Apple's does not."""
    return device.type != "mps"


def read(
    values: Tensor, targets: Tensor, *, logits: bool | Tensor, ignore_index: int | None, tolerance: float
) -> RowReading:
    """Read rows of class probabilities or logits once.

    Parameters
    ----------
    values : (N, C) or (N, C, ...) floating-point tensor
        Any strides, 2 classes or more. Row i belongs to target i.
    targets : (n,) tensor
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
    """
    n, device = len(targets), values.device
    dtype = torch.float64 if values.dtype == torch.float64 else torch.float32
    slack = ROUNDING * torch.finfo(values.dtype).eps
    floats = torch.empty((4, n), dtype=dtype, device=device)
    correct = torch.empty(n, dtype=torch.uint8, device=device)
    faults = torch.zeros(len(FAULTS), dtype=torch.int64, device=device)
    normalised = torch.zeros((), dtype=torch.int64, device=device)
    for rows, x, target, judged in _blocks(values, targets, ignore_index):
        aimed = judged & (target >= 0) & (target < x.shape[1])
        y = torch.where(aimed, target, 0)
        columns, fault, normal = _read_block(x, y, logits, tolerance, slack)
        fault = torch.where((fault == 0) & ~aimed, 4, fault)
        fault = torch.where(judged, fault, 0)
        good = judged & (fault == 0)
        void = torch.where(judged, torch.nan, 0.0).to(dtype)
        floats[:, rows] = torch.where(good, columns, void)
        right = (x.argmax(1) == y).to(torch.uint8)  # the first if several are equal
        correct[rows] = torch.where(good, right, IGNORED)
        faults[:4] += torch.stack([(fault == kind).sum() for kind in range(1, 5)])
        normalised += (good & normal).sum()
    top, p_target, log_p_target, squares = floats
    return RowReading(top, p_target, log_p_target, squares, correct, faults, normalised)


def beyond(values: Tensor, targets: Tensor, *, ignore_index: int | None, low: float, high: float) -> Tensor:
    """Return whether a judged value is below ``low`` or above ``high``, as one boolean on the device."""
    any_beyond = torch.zeros((), dtype=torch.bool, device=values.device)
    for _, x, _, _ in _blocks(values, targets, ignore_index):
        any_beyond = any_beyond | (x < low).any() | (x > high).any()
    return any_beyond


def _blocks(
    values: Tensor, targets: Tensor, ignore_index: int | None
) -> Iterator[tuple[slice, Tensor, Tensor, Tensor]]:
    """Yield blocks of rows: which, their values (k, C), their targets as int64, and which are judged.

    Half precision is widened. Values that are not judged are 0. A target with a fraction is a class that does not
    exist.
    """
    deep = values[:, :, None] if values.ndim == 2 else values.flatten(2)
    sheets, n_classes, depth = deep.shape
    count = max(1, _BLOCK // (n_classes * depth))
    part = depth if count > 1 else max(1, min(depth, _BLOCK // n_classes))
    for sheet in range(0, sheets, count):
        for row in range(0, depth, part):
            x = deep[sheet : sheet + count, :, row : row + part].movedim(1, -1).reshape(-1, n_classes)
            x = x if x.dtype == torch.float64 else x.float()
            rows = slice(sheet * depth + row, sheet * depth + row + len(x))
            target = targets[rows].long()
            if targets.is_floating_point():
                target = torch.where(target == targets[rows], target, _NO_CLASS)
            judged = torch.ones_like(target, dtype=torch.bool) if ignore_index is None else target != ignore_index
            yield rows, torch.where(judged[:, None], x, 0), target, judged


def _read_block(
    x: Tensor, y: Tensor, logits: bool | Tensor, tolerance: float, slack: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (4, k) top, p_target, log_p_target, squares; the kind of fault; which logits may be probabilities."""
    wide = torch.float64 if has_float64(x.device) else torch.float32
    no_logits = ~((x < torch.inf).all(1) & (x > -torch.inf).any(1))  # -inf is a class of probability 0
    within = x.clamp(0, 1)
    inside = ((x - within).abs() <= slack).all(1)
    off = (x.sum(1, dtype=wide) - 1).abs() > tolerance
    no = torch.zeros_like(off)
    of_logits = of_probs = torch.empty(0)
    if logits is not False:
        of_logits = _softmax(x, y, wide)
    if logits is not True:
        p_target = within.gather(1, y[:, None])[:, 0]
        squares = within.to(wide).square().sum(1).to(x.dtype)
        of_probs = torch.stack([within.amax(1), p_target, p_target.log(), squares])
        infinite = ~x.isfinite().all(1)
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
    squares = (second + 1) / (rest + 1).square()
    columns = (1 / (rest + 1), x_target.exp() / (rest + 1), x_target - rest.log1p(), squares)
    return torch.stack([column.to(x.dtype) for column in columns])
