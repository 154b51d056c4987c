"""Run the reading passes on tensors of any device: by Triton's kernels where there are any, or by torch operations.

Rows of classes are read in blocks, so no copy of the input is made. Nothing here waits for the device: the host reads
no value, and faults of the input are counted in tensors, not raised. The caller validates types and shapes. This module
imports torch, so it is imported when a tensor has come.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from calibrant.kernels.reference import IGNORED
from calibrant.kernels.row_blocks import ROUNDING
from calibrant.runtime.dataclass import dataclass

#: The kinds of faults, in the order of the tensor that counts them; `read_blocks` does not count the last.
FAULTS: Final = ("infinite", "outside", "sum", "target", "scale")

#: What batches have shown, by index into a tensor: probabilities, logits, the widest type, number of columns.
PROBABILITIES, LOGITS, PRECISION, WIDTH = range(4)

#: The type of a value by `PRECISION`, which is 0 before the first batch.
PRECISIONS: Final = (torch.float32, torch.float16, torch.bfloat16, torch.float32, torch.float64)

#: A value this far outside [0, 1] is not a rounded probability.
SLACK: Final = 1e-3

IGNORED_KEY: Final = -1

_BLOCK: Final = 1 << 22  # entries of a block, at least
_ENTRY_BYTES: Final = 64  # that the operations on a block take for each entry, at most
_NO_CLASS: Final = -(1 << 63)


class RowReading(NamedTuple):
    """What `read_blocks` returns for each of n rows, on the device of the values.

    Floats are float32, or float64 for float64 values. They are 0 for a row that is not evaluated, NaN for a faulty row.

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
        is not evaluated or is faulty.
    faults : (5,) int64
        The faulty rows by `FAULTS`. A row counts once, under the first fault it has: a value that is not finite; a
        probability outside [0, 1]; a sum that is not 1; a target that is not a class. "scale" stays 0.
    normalised : () int64
        If ``logits`` was a true tensor, the number of evaluated rows that could be probabilities; otherwise 0.
    largest : (n,)
        The largest value.
    """

    top: Tensor
    p_target: Tensor
    log_p_target: Tensor
    squares: Tensor
    correct: Tensor
    faults: Tensor
    normalised: Tensor
    largest: Tensor


@dataclass(frozen=True, kw_only=True)
class TensorReading:
    """A batch after reading, on its device: scores of one event, or labels, as ``probs``; or rows of classes.

    ``targets`` and ``evaluated`` are (n,), for multilabel (n, C) as ``probs``, which is (n, 1) for one event.
    ``log_p_target`` is the log probability of each target, in the shape of the targets. ``faults`` counts rows by
    `FAULTS`. ``seen`` describes the batch by `PROBABILITIES`, `LOGITS`, `PRECISION` and `WIDTH`. Classes have
    ``rows``, the ``values`` (N, C, ...), and whether these are logits.
    """

    targets: Tensor
    evaluated: Tensor
    log_p_target: Tensor
    faults: Tensor
    seen: Tensor
    as_logits: Tensor
    values: Tensor
    probs: Tensor | None = None
    rows: RowReading | None = None

    @property
    def double(self) -> bool:
        """Whether the scores have double precision."""
        return self.values.dtype == torch.float64

    def of_class(self, k: int | None = None) -> Tensor:
        """Return the probability of class k in each row of classes, or of every class, (n, C)."""
        assert self.rows is not None
        deep = self.values.movedim(1, -1).reshape(-1, self.values.shape[1])
        x = (deep if k is None else deep[:, k : k + 1]).to(self.rows.top.dtype)
        probs = torch.where(
            self.as_logits, (x - self.rows.largest[:, None]).exp() * self.rows.top[:, None], x.clamp(0, 1)
        )
        return probs if k is None else probs[:, 0]


def has_float64(device: torch.device) -> bool:
    """Return whether the device computes in double precision; Apple's does not."""
    return device.type != "mps"


def wide(device: torch.device) -> torch.dtype:
    """Return the widest floating-point type of a device."""
    return torch.float64 if has_float64(device) else torch.float32


@cache
def kernels_on(device: torch.device) -> ModuleType | None:
    """Return the module of Triton's kernels; None where they do not run; a warning then gives the reason once."""
    if device.type != "cuda":
        return None
    try:
        from calibrant.kernels import fused

        fused.try_out(device)
    except Exception as error:  # of a package, a compiler or a driver
        warnings.warn(
            f"the Triton kernels of calibrant cannot run on {device} ({type(error).__name__}: {error}), "
            "so calibrant uses torch operations, which take several times as long",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    return fused


def precision_of(dtype: torch.dtype) -> int:
    """Return the place of a floating-point type in `PRECISIONS`."""
    return PRECISIONS.index(dtype, 1)


def slack_of(dtype: torch.dtype) -> float:
    """Return how far rounding may move a probability out of [0, 1]."""
    return ROUNDING * torch.finfo(dtype).eps


def read(
    values: Tensor,
    targets: Tensor,
    *,
    layout: str,
    ignore_index: int | None,
    logits: bool | None,
    seen: Tensor,
    tolerance: float,
    checked: bool,
) -> TensorReading:
    """Read a batch: decide whether it holds logits, read its probabilities, count its faults.

    Parameters
    ----------
    values : floating-point tensor
        Scores (n, 1), labels (n, C), or classes (N, C) or (N, C, ...). Classes are read once, and a second time, by a
        shorter pass, if the scale is not declared.
    targets : tensor
        One for each row, for multilabel (n, C).
    layout : {"binary", "multiclass", "multilabel"}
    ignore_index : int or None
        The target of rows that are not evaluated.
    logits : bool or None
        Whether the values are logits. None: the first batch decides, or has decided (see ``seen``).
    seen : (4,) int64 tensor
        What earlier batches have shown.
    tolerance : float
        How far the sum of a row may be from 1.
    checked : bool
        Whether to count faults. If not, invalid input gives wrong numbers, but does no other harm.
    """
    several = layout == "multiclass"
    flat = targets.reshape(-1) if several else targets
    evaluated, classes = _evaluated(flat, ignore_index), flat.long()
    decided = seen[:2].sum() > 0
    if logits is not None:
        as_logits = torch.full((), logits, device=values.device)
    elif several:
        far = beyond(values, flat, ignore_index=ignore_index, low=-SLACK, high=1 + SLACK)
        as_logits = torch.where(decided, seen[LOGITS] > 0, far)
    else:
        judged = torch.where(evaluated if layout == "multilabel" else evaluated[:, None], values, 0)
        as_logits = torch.where(decided, seen[LOGITS] > 0, (judged < -SLACK).any() | (judged > 1 + SLACK).any())
    y = torch.where(evaluated, classes, 0).clamp(0, values.shape[1] - 1 if several else 1)
    shown = torch.full((2,), values.shape[1], device=values.device)  # filled there: a copy from the host could wait
    shown[0] = precision_of(values.dtype)
    common: dict[str, Any] = {
        "targets": y,
        "evaluated": evaluated,
        "seen": torch.cat([torch.stack([~as_logits, as_logits]).long(), shown]),
        "as_logits": as_logits,
        "values": values,
    }
    if several:
        scale = as_logits if logits is None else logits
        rows = read_blocks(values, flat, logits=scale, ignore_index=ignore_index, tolerance=tolerance)
        faults, number = rows.faults.clone(), evaluated.sum()
        if logits is None:  # probabilities after logits
            faults[-1] = as_logits & decided & (rows.normalised == number) & (number > 0)
        counted = faults if checked else torch.zeros_like(faults)
        return TensorReading(**common, rows=rows, log_p_target=rows.log_p_target, faults=counted)
    x = values if values.dtype == torch.float64 else values.float()
    x = torch.where(evaluated if layout == "multilabel" else evaluated[:, None], x, 0)
    within = x.clamp(0, 1)
    inside = (x - within).abs() <= slack_of(values.dtype)
    probs = torch.where(as_logits, x.sigmoid(), torch.where(inside, within, x))
    margin, p = (part if layout == "multilabel" else part[:, 0] for part in (x, probs))
    logs = torch.where(
        as_logits,
        torch.nn.functional.logsigmoid(torch.where(y == 1, margin, -margin)),
        torch.where(y == 1, p, 1 - p).log(),
    )
    faults = torch.zeros(len(FAULTS), dtype=torch.int64, device=values.device)
    if checked:
        infinite = ~x.isfinite()
        outside = ~inside & ~infinite & ~as_logits
        wrong = evaluated & ~((classes >= 0) & (classes < 2) & (classes == targets))
        none = faults[0]
        faults = torch.stack([infinite.any(1).sum(), outside.any(1).sum(), none, wrong.sum(), none])
    return TensorReading(**common, probs=probs, log_p_target=logs, faults=faults)


def read_blocks(
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
        The target of rows that are not evaluated; their values may be anything.
    tolerance : float
        How far the sum of a row of probabilities may be from 1.

    Notes
    -----
    Probabilities outside [0, 1] by at most `blocks.ROUNDING` units in the last place of their type are read as 0 and 1.
    """
    n, device = len(targets), values.device
    dtype = torch.float64 if values.dtype == torch.float64 else torch.float32
    slack, kernels = slack_of(values.dtype), kernels_on(device)
    if kernels is not None:
        options = {"logits": logits, "ignore_index": ignore_index, "tolerance": tolerance, "slack": slack}
        (top, largest, p_target, log_p_target, squares), correct, counted = kernels.read_rows(
            values, targets, **options
        )
        faults = torch.nn.functional.pad(counted[:4], (0, 1))
        return RowReading(top, p_target, log_p_target, squares, correct, faults, counted[5], largest)
    floats, largest = torch.empty((4, n), dtype=dtype, device=device), torch.empty(n, dtype=dtype, device=device)
    correct = torch.empty(n, dtype=torch.uint8, device=device)
    faults = torch.zeros(len(FAULTS), dtype=torch.int64, device=device)
    normalised = torch.zeros((), dtype=torch.int64, device=device)
    for rows, x, target, evaluated in _blocks(values, targets, ignore_index):
        aimed = evaluated & (target >= 0) & (target < x.shape[1])
        y = torch.where(aimed, target, 0)
        columns, fault, normal = _read_block(x, y, logits, tolerance, slack)
        fault = torch.where((fault == 0) & ~aimed, 4, fault)
        fault = torch.where(evaluated, fault, 0)
        good = evaluated & (fault == 0)
        void = torch.where(evaluated, torch.nan, 0.0).to(dtype)
        floats[:, rows] = torch.where(good, columns, void)
        largest[rows], best = x.max(1)
        right = (best == y).to(torch.uint8)  # the first if several are equal
        correct[rows] = torch.where(good, right, IGNORED)
        faults[:4] += torch.stack([(fault == kind).sum() for kind in range(1, 5)])
        normalised += (good & normal).sum()
    top, p_target, log_p_target, squares = floats
    return RowReading(top, p_target, log_p_target, squares, correct, faults, normalised, largest)


def beyond(values: Tensor, targets: Tensor, *, ignore_index: int | None, low: float, high: float) -> Tensor:
    """Return whether an evaluated value is below ``low`` or above ``high``, as one boolean on the device."""
    any_beyond = torch.zeros((), dtype=torch.bool, device=values.device)
    for _, x, _, _ in _blocks(values, targets, ignore_index):
        any_beyond = any_beyond | (x < low).any() | (x > high).any()
    return any_beyond


def _blocks(
    values: Tensor, targets: Tensor, ignore_index: int | None
) -> Iterator[tuple[slice, Tensor, Tensor, Tensor]]:
    """Yield blocks of rows: which, their values (k, C), their targets as int64, and which are evaluated.

    Half precision is widened. Values that are not evaluated are 0. A target with a fraction is a class that does not
    exist.
    """
    deep = values[:, :, None] if values.ndim == 2 else values.flatten(2)
    sheets, n_classes, depth = deep.shape
    most = max(_BLOCK, _free_bytes(values) // _ENTRY_BYTES)
    count = max(1, most // (n_classes * depth))
    part = depth if count > 1 else max(1, min(depth, most // n_classes))
    for sheet in range(0, sheets, count):
        for row in range(0, depth, part):
            x = deep[sheet : sheet + count, :, row : row + part].movedim(1, -1).reshape(-1, n_classes)
            x = x if x.dtype == torch.float64 else x.float()
            rows = slice(sheet * depth + row, sheet * depth + row + len(x))
            target = targets[rows].long()
            if targets.is_floating_point():
                target = torch.where(target == targets[rows], target, _NO_CLASS)
            evaluated = _evaluated(target, ignore_index)
            yield rows, torch.where(evaluated[:, None], x, 0), target, evaluated


def _free_bytes(values: Tensor) -> int:
    """Return half of the memory that is free on a GPU, which only large batches ask for; 0 elsewhere."""
    if values.device.type != "cuda" or values.numel() <= _BLOCK:
        return 0
    return torch.cuda.mem_get_info(values.device)[0] // 2


def _read_block(
    x: Tensor, y: Tensor, logits: bool | Tensor, tolerance: float, slack: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (4, k) top, p_target, log_p_target, squares; the kind of fault; which logits may be probabilities."""
    wide = torch.float64 if has_float64(x.device) else torch.float32
    no_logits = _no_logits(x)
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


def _evaluated(targets: Tensor, ignore_index: int | None) -> Tensor:
    """Return which targets are not the one to ignore."""
    return torch.ones_like(targets, dtype=torch.bool) if ignore_index is None else targets != ignore_index


def _no_logits(x: Tensor) -> Tensor:
    """Return which rows have NaN, inf, or -inf alone; else -inf is a class of probability 0."""
    return ~((x < torch.inf).all(1) & (x > -torch.inf).any(1))


def event(reading: TensorReading, *, layout: str, notion: str, half: int = 1) -> tuple[Tensor, Tensor]:
    """Return scores and outcomes (0 or 1) of the evaluated event, (n,); for multilabel of all labels, (n, C)."""
    y, rows, probs = reading.targets, reading.rows, reading.probs
    if rows is not None:
        return (reading.of_class(1), y) if notion == "positive" else (rows.top, (rows.correct == 1).long())
    assert probs is not None
    scores = probs if layout == "multilabel" else probs[:, 0].contiguous()
    if notion != "top-label":
        return scores, y
    predicts = scores >= 0.5 if half else scores > 0.5
    return torch.maximum(scores, 1 - scores), (predicts == (y == 1)).long()


def each_class(reading: TensorReading) -> tuple[Tensor, Tensor, Tensor]:
    """Return the scores, the outcomes and which are evaluated, for every class or label: (n, C) each."""
    y, evaluated = reading.targets, reading.evaluated
    if reading.probs is not None:
        return reading.probs, y, evaluated
    probs = reading.of_class()
    return probs, torch.nn.functional.one_hot(y, probs.shape[1]), evaluated[:, None].expand_as(probs)


def bin_rows(scores: Tensor, outcomes: Tensor, evaluated: Tensor, uppers: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return counts, counts of outcomes 1 (int64) and sums of scores of each bin: (M,), or (M, C) for (n, C) scores.

    ``uppers`` holds the largest score of each bin, in the scores' type. Scores are added as integers, multiples of a
    power of 2 so small that n of them fit into 62 bits. So the order in which the device adds does not matter.
    """
    n_bins, columns = len(uppers), scores.shape[1] if scores.ndim == 2 else 1
    bins = torch.searchsorted(uppers, scores.contiguous()).clamp(max=n_bins - 1)
    bins = torch.where(evaluated, bins, n_bins)  # entries that are not evaluated go into an extra bin, which is cut off
    if scores.ndim == 2:
        bins = bins * columns + torch.arange(columns, device=bins.device)
    bits = 62 - len(scores).bit_length()
    fixed = (scores.to(wide(scores.device)) * 2.0**bits).round().long()
    place = bins.reshape(-1)
    sums = torch.zeros(3, (n_bins + 1) * columns, dtype=torch.int64, device=scores.device)
    for row, column in zip(sums, (torch.ones_like(place), outcomes.reshape(-1), fixed.reshape(-1)), strict=True):
        row.scatter_add_(0, place, column)
    counts, positives, total = sums[:, : n_bins * columns].reshape(3, n_bins, *scores.shape[1:])
    return counts, positives, widened(total, bits)


def widened(integers: Tensor, bits: int) -> Tensor:
    """Return integers times 2^-bits in the form of stored sums: float64, or pairs of float32."""
    if has_float64(integers.device):
        return integers.double() * 2.0**-bits
    high = integers.float()
    return torch.stack([high, (integers - high.long()).float()]) * 2.0**-bits


def in_state_form(total: Tensor) -> Tensor:
    """Return a sum of the device's widest type in the form of stored sums."""
    return total if total.dtype == torch.float64 else torch.stack([total, torch.zeros_like(total)])


def paired(sums: Tensor) -> Tensor:
    """Return float64 sums as pairs of float32, (2, ...); the two parts add up to each sum."""
    high = sums.float()
    return torch.stack([high, (sums - high.double()).float()])


def joined(sums: Tensor) -> Tensor:
    """Return stored sums as float64 on the host: pairs of float32 added up, float64 unchanged."""
    sums = sums.cpu()
    return sums if sums.dtype == torch.float64 else sums[0].double() + sums[1].double()


def add_sums(parts: Tensor) -> Tensor:
    """Return sums added along the first axis; for pairs of float32 without losing the rounding of the high parts."""
    if parts.dtype == torch.float64:
        return parts.sum(0)
    high, low = parts[0]
    for other_high, other_low in parts[1:]:
        total = high + other_high
        back = total - high
        lost = (high - (total - back)) + (other_high - back)  # Knuth's exact remainder of an addition
        low = low + other_low + lost
        high = total + low
        low = low - (high - total)
    return torch.stack([high, low])


def pack(scores: Tensor, outcomes: Tensor, evaluated: Tensor) -> Tensor:
    """Return events packed as in `dispatch.pack`, int32 or int64; `IGNORED_KEY` if not evaluated."""
    bits = scores.contiguous().view(torch.int64 if scores.dtype == torch.float64 else torch.int32)
    keys = (bits << 1) | outcomes.to(bits.dtype)
    return torch.where(evaluated, keys, torch.full_like(keys, IGNORED_KEY))


def score_sums(scores: Tensor, outcomes: Tensor, evaluated: Tensor) -> tuple[Tensor, Tensor]:
    """Return the squared error of each event and the log probability of its outcome, 0 if not evaluated."""
    p = scores.to(wide(scores.device))
    y = outcomes.to(p.dtype)
    zeros = torch.zeros_like(p)
    p_outcome = torch.where(outcomes == 1, p, 1 - p)
    return torch.where(evaluated, (p - y) ** 2, zeros), torch.where(evaluated, p_outcome.log(), zeros)


def class_square_errors(reading: TensorReading) -> Tensor:
    """Return each row's sum over classes of squared errors, 0 if the row is not evaluated."""
    assert reading.rows is not None
    squares, p_target = (part.to(wide(part.device)) for part in (reading.rows.squares, reading.rows.p_target))
    return torch.where(reading.evaluated, squares - 2 * p_target + 1, 0)
