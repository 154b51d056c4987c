"""Run the reading passes as torch operations, for tensors on any device; `tensor_rows` does so block by block.

Nothing here waits for the device: the host reads no value, and faults of the input are counted in tensors, not raised.
This module imports torch, so only `calibrant.torch` imports it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from calibrant.kernels import tensor_rows
from calibrant.kernels.blocks import ROUNDING
from calibrant.kernels.tensor_rows import FAULTS as FAULTS  # the faults of a batch, in the order of their counts
from calibrant.kernels.tensor_rows import RowReading
from calibrant.kernels.tensor_rows import has_float64 as has_float64

#: What batches have shown, by index into a tensor: probabilities, logits, double precision, number of columns.
PROBABILITIES, LOGITS, DOUBLE, WIDTH = range(4)

#: A value this far outside [0, 1] is not a rounded probability.
SLACK: Final = 1e-3

IGNORED_KEY: Final = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """A batch after reading: rows of probabilities and their targets, all on one device.

    ``probs`` is (n, C), with C = 1 for one event. ``targets`` and ``judged`` are (n,), for multilabel (n, C).
    ``log_p_target`` is the log probability of each target, in the shape of the targets. ``faults`` counts rows by
    `FAULTS`. ``seen`` describes the batch by `PROBABILITIES`, `LOGITS`, `DOUBLE` and `WIDTH`. ``predicted``, for
    classes, is the first class with the largest value; after rounding, another class may have the same probability.
    `read_rows` sets ``rows``, and ``probs`` is then (n, 0).
    """

    probs: Tensor
    targets: Tensor
    judged: Tensor
    log_p_target: Tensor
    faults: Tensor
    seen: Tensor
    predicted: Tensor | None = None
    rows: RowReading | None = None


def wide(device: torch.device) -> torch.dtype:
    """Return the widest floating-point type of a device."""
    return torch.float64 if has_float64(device) else torch.float32


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
) -> Reading:
    """Read a batch: decide whether it holds logits, turn it into probabilities, count its faults.

    Parameters
    ----------
    values : (n, C) floating-point tensor
    targets : (n,) or, for multilabel, (n, C) tensor
    layout : {"binary", "multiclass", "multilabel"}
    ignore_index : int or None
        The target of rows that are not judged.
    logits : bool or None
        Whether the values are logits. None: the first batch decides, or has decided (see ``seen``).
    seen : (4,) int64 tensor
        What earlier batches have shown.
    tolerance : float
        How far the sum of a row may be from 1.
    checked : bool
        Whether to count faults. If not, invalid input gives wrong numbers, but does no other harm.
    """
    device = values.device
    x = values if values.dtype == torch.float64 else values.float()
    classes = targets.long()
    judged = torch.ones_like(classes, dtype=torch.bool) if ignore_index is None else targets != ignore_index
    several = layout == "multilabel"
    rows = judged if several else judged[:, None]
    x = torch.where(rows, x, torch.zeros_like(x))
    top = x.shape[1] if layout == "multiclass" else 2
    good = (classes >= 0) & (classes < top) & (classes == targets)
    y = torch.where(judged, classes, torch.zeros_like(classes)).clamp(0, top - 1)

    within = x.clamp(0, 1)
    inside = (x - within).abs() <= ROUNDING * torch.finfo(values.dtype if values.is_floating_point() else x.dtype).eps
    rounded = torch.where(inside, within, x)  # 0 or 1 where rounding alone has moved a value out of [0, 1]
    if logits is None:
        low, high = (x.amin(), x.amax()) if x.numel() else (x.new_zeros(()), x.new_zeros(()))
        far = (low < -SLACK) | (high > 1 + SLACK)
        decided = seen[:2].sum() > 0
        as_logits = torch.where(decided, seen[LOGITS] > 0, far)
        probs_of_logits, log_of_logits = _activated(x, y, layout)
        log_of_probs = _own(rounded, y, layout).log()
        probs = torch.where(as_logits, probs_of_logits, rounded)
        log_p_target = torch.where(as_logits, log_of_logits, log_of_probs)
    else:
        decided = torch.ones((), dtype=torch.bool, device=device)
        as_logits = torch.full((), logits, device=device)
        probs, log_p_target = _activated(x, y, layout) if logits else (rounded, _own(rounded, y, layout).log())

    faults = torch.zeros(len(FAULTS), dtype=torch.int64, device=device)
    if checked:
        outside = ~inside & x.isfinite() & ~as_logits
        off = (x.sum(1, dtype=wide(device)) - 1).abs() > tolerance if layout == "multiclass" else None
        sums = (off & judged & ~as_logits).sum() if off is not None else faults[2]
        scale = faults[4]
        if logits is None and off is not None:  # probabilities after logits
            scale = (as_logits & decided & judged.any() & (inside.all() & ~(off & judged).any())).long()
        infinite = (~x.isfinite()).any(1)
        if layout == "multiclass":  # of logits, -inf is a class of probability 0
            masks = (x < torch.inf).all(1) & (x > -torch.inf).any(1)
            infinite = torch.where(as_logits, ~masks, infinite)
        faults = torch.stack([infinite.sum(), outside.any(1).sum(), sums, (judged & ~good).sum(), scale])
    predicted = x.argmax(1) if layout == "multiclass" else None
    return Reading(
        probs=probs,
        targets=y,
        judged=judged,
        log_p_target=log_p_target,
        faults=faults,
        seen=_shown(as_logits, values, x.shape[1]),
        predicted=predicted,
    )


def read_rows(
    values: Tensor,
    targets: Tensor,
    *,
    ignore_index: int | None,
    logits: bool | None,
    seen: Tensor,
    tolerance: float,
    checked: bool,
) -> Reading:
    """Read a batch of classes as `read` does, if only the top label and the target are needed.

    The values, (N, C) or (N, C, ...), are read once, block by block, and a second time, by a shorter pass, if the
    scale is not declared. ``targets`` is (N,) or (N, ...).
    """
    flat = targets.reshape(-1)
    judged = torch.ones_like(flat, dtype=torch.bool) if ignore_index is None else flat != ignore_index
    if logits is None:
        decided = seen[:2].sum() > 0
        far = tensor_rows.beyond(values, flat, ignore_index=ignore_index, low=-SLACK, high=1 + SLACK)
        as_logits = torch.where(decided, seen[LOGITS] > 0, far)
    else:
        decided, as_logits = judged.new_ones(()), torch.full((), logits, device=values.device)
    scale = as_logits if logits is None else logits
    rows = tensor_rows.read(values, flat, logits=scale, ignore_index=ignore_index, tolerance=tolerance)
    faults = rows.faults
    if logits is None:  # probabilities after logits
        number = judged.sum()
        faults = faults.clone()
        faults[-1] = as_logits & decided & (rows.normalised == number) & (number > 0)
    if not checked:
        faults = torch.zeros_like(faults)
    classes = torch.where(judged, flat.long(), 0).clamp(0, values.shape[1] - 1)
    return Reading(
        probs=rows.top.new_empty((len(flat), 0)),
        targets=classes,
        judged=judged,
        log_p_target=rows.log_p_target,
        faults=faults,
        seen=_shown(as_logits, values, values.shape[1]),
        rows=rows,
    )


def _shown(as_logits: Tensor, values: Tensor, width: int) -> Tensor:
    properties = torch.full((2,), width, device=values.device)  # filled on the device: a copy from the host could wait
    properties[0] = values.dtype == torch.float64
    return torch.cat([torch.stack([~as_logits, as_logits]).long(), properties])


def _activated(x: Tensor, y: Tensor, layout: str) -> tuple[Tensor, Tensor]:
    """Return the probabilities of logits and the log probability of each target, without overflow."""
    if layout == "multiclass":
        logs = x.log_softmax(1)
        return logs.exp(), logs.gather(1, y[:, None])[:, 0]
    margin = x if layout == "multilabel" else x[:, 0]
    return x.sigmoid(), torch.nn.functional.logsigmoid(torch.where(y == 1, margin, -margin))


def _own(probs: Tensor, y: Tensor, layout: str) -> Tensor:
    """Return the probability of each target."""
    if layout == "multiclass":
        return probs.gather(1, y[:, None])[:, 0]
    p = probs if layout == "multilabel" else probs[:, 0]
    return torch.where(y == 1, p, 1 - p)


def event(reading: Reading, *, layout: str, notion: str, half: int = 1) -> tuple[Tensor, Tensor]:
    """Return scores and outcomes (0 or 1) of the judged event, (n,); for multilabel of all labels, (n, C)."""
    probs, y, rows, predicted = reading.probs, reading.targets, reading.rows, reading.predicted
    if rows is not None:  # the top label: `read_rows` serves no other event
        return rows.top, (rows.correct == 1).long()
    if predicted is not None and notion != "positive":
        return probs.gather(1, predicted[:, None])[:, 0], (predicted == y).long()
    if layout == "multiclass":
        return probs[:, 1].contiguous(), y
    scores = probs if layout == "multilabel" else probs[:, 0].contiguous()
    if notion != "top-label":
        return scores, y
    predicts = scores >= 0.5 if half else scores > 0.5
    return torch.maximum(scores, 1 - scores), (predicts == (y == 1)).long()


def each_class(reading: Reading, *, layout: str) -> tuple[Tensor, Tensor, Tensor]:
    """Return the scores, the outcomes and which are judged, for every class: (n, C) each."""
    probs, y, judged = reading.probs, reading.targets, reading.judged
    if layout == "multilabel":
        return probs, y, judged
    outcomes = torch.nn.functional.one_hot(y, probs.shape[1])
    return probs, outcomes, judged[:, None].expand_as(probs)


def bin_rows(scores: Tensor, outcomes: Tensor, judged: Tensor, uppers: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return counts, counts of outcomes 1 (int64) and sums of scores of each bin: (M,), or (M, C) for (n, C) scores.

    ``uppers`` holds the largest score of each bin, in the scores' type. Scores are added as integers, multiples of a
    power of 2 so small that n of them fit into 62 bits. So the order in which the device adds does not matter.
    """
    n_bins, columns = len(uppers), scores.shape[1] if scores.ndim == 2 else 1
    bins = torch.searchsorted(uppers, scores.contiguous()).clamp(max=n_bins - 1)
    bins = torch.where(judged, bins, n_bins)  # entries that are not judged go into an extra bin, which is cut off
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


def pack(scores: Tensor, outcomes: Tensor, judged: Tensor) -> Tensor:
    """Return events packed as in `dispatch.pack`, int32 or int64; `IGNORED_KEY` if not judged."""
    bits = scores.contiguous().view(torch.int64 if scores.dtype == torch.float64 else torch.int32)
    keys = (bits << 1) | outcomes.to(bits.dtype)
    return torch.where(judged, keys, torch.full_like(keys, IGNORED_KEY))


def score_sums(scores: Tensor, outcomes: Tensor, judged: Tensor) -> tuple[Tensor, Tensor]:
    """Return the squared error of each event and the log probability of its outcome, 0 if not judged."""
    p = scores.to(wide(scores.device))
    y = outcomes.to(p.dtype)
    zeros = torch.zeros_like(p)
    p_outcome = torch.where(outcomes == 1, p, 1 - p)
    return torch.where(judged, (p - y) ** 2, zeros), torch.where(judged, p_outcome.log(), zeros)


def class_square_errors(reading: Reading) -> Tensor:
    """Return each row's sum over classes of squared errors, 0 if the row is not judged."""
    if reading.rows is not None:
        squares, p_target = (part.to(wide(part.device)) for part in (reading.rows.squares, reading.rows.p_target))
        return torch.where(reading.judged, squares - 2 * p_target + 1, torch.zeros_like(p_target))
    p = reading.probs.to(wide(reading.probs.device))
    p_target = p.gather(1, reading.targets[:, None])[:, 0]
    squares = p.square().sum(1) - 2 * p_target + 1
    return torch.where(reading.judged, squares, torch.zeros_like(squares))
