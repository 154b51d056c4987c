"""The reading passes as plain torch operations, for tensors on any device, and by `cuda` where that is one read.

Nothing here waits for the device: no value is looked at on the host, and what is wrong with the input is counted in
tensors instead of raised. Only `calibrant.torch` imports this module, which imports torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from calibrant.kernels import cuda
from calibrant.kernels.cuda import FAULTS as FAULTS  # what can be wrong with a batch, in the order that it is counted
from calibrant.kernels.cuda import RowReading
from calibrant.kernels.cuda import has_float64 as has_float64

#: What a batch has shown, in the order of the tensor that says so: probabilities, logits, double precision, columns.
PROBABILITIES, LOGITS, DOUBLE, WIDTH = range(4)

#: A value this far outside [0, 1] is no rounding of a probability.
SLACK: Final = 1e-3

IGNORED_KEY: Final = -1


@dataclass(frozen=True, slots=True)
class Reading:
    """A batch as it was read: rows of probabilities and what belongs to them, all on one device.

    ``probs`` is (n, C), with C = 1 for one event; ``targets`` (n,) and ``judged`` (n,), for multilabel (n, C) both;
    ``log_own`` is the logarithm of what each target was given, in the shape of the targets; ``faults`` counts rows by
    `FAULTS`; ``seen`` says by `PROBABILITIES`, `LOGITS`, `DOUBLE` and `WIDTH` what the batch was; ``predicted``, of
    classes, is the first that has the largest value, whose probability may be rounded to another's. Where only the
    rows' own numbers were wanted, they are ``rows``, and ``probs`` is (n, 0).
    """

    probs: Tensor
    targets: Tensor
    judged: Tensor
    log_own: Tensor
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
    """Read a batch: decide whether it holds logits, turn it into probabilities, count what is wrong with it.

    Parameters
    ----------
    values : (n, C) floating-point tensor
    targets : (n,) or, for multilabel, (n, C) tensor
    layout : {"binary", "multiclass", "multilabel"}
    ignore_index : int or None
        The target of rows that are not judged.
    logits : bool or None
        Whether the values are logits; None where the first batch decides, as it did if ``seen`` says so.
    seen : (4,) int64 tensor
        What the batches before have shown.
    tolerance : float
        How far the sum of a row may be from 1.
    checked : bool
        Whether faults are counted. If not, nothing is: what is wrong then gives wrong numbers, but harms nothing.
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

    if logits is None:
        low, high = (x.amin(), x.amax()) if x.numel() else (x.new_zeros(()), x.new_zeros(()))
        far = (low < -SLACK) | (high > 1 + SLACK)
        decided = seen[:2].sum() > 0
        as_logits = torch.where(decided, seen[LOGITS] > 0, far)
        probs_of_logits, log_of_logits = _activated(x, y, layout)
        log_of_probs = _own(x, y, layout).log()
        probs = torch.where(as_logits, probs_of_logits, x)
        log_own = torch.where(as_logits, log_of_logits, log_of_probs)
    else:
        decided = torch.ones((), dtype=torch.bool, device=device)
        as_logits = torch.full((), logits, device=device)
        probs, log_own = _activated(x, y, layout) if logits else (x, _own(x, y, layout).log())

    faults = torch.zeros(len(FAULTS), dtype=torch.int64, device=device)
    if checked:
        inside = (x >= 0) & (x <= 1)
        outside = ~inside & x.isfinite() & ~as_logits
        off = (x.sum(1, dtype=wide(device)) - 1).abs() > tolerance if layout == "multiclass" else None
        sums = (off & judged & ~as_logits).sum() if off is not None else faults[2]
        scale = faults[4]
        if logits is None and off is not None:  # probabilities where logits came before
            scale = (as_logits & decided & judged.any() & (inside.all() & ~(off & judged).any())).long()
        infinite = (~x.isfinite()).any(1)
        faults = torch.stack([infinite.sum(), outside.any(1).sum(), sums, (judged & ~good).sum(), scale])
    predicted = x.argmax(1) if layout == "multiclass" else None
    return Reading(probs, y, judged, log_own, faults, _shown(as_logits, values, x.shape[1]), predicted)


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
    """Read a batch of classes as `read` does, for whoever needs no class but the top label and the target.

    The values, (N, C) or (N, C, ...), are read once and where they lie, except that a second, shorter pass looks at
    them while the scale is not declared and no batch has decided it. ``targets`` is (N,) or (N, ...).
    """
    flat = targets.reshape(-1)
    judged = torch.ones_like(flat, dtype=torch.bool) if ignore_index is None else flat != ignore_index
    scale: bool | Tensor
    if logits is None:
        decided = seen[:2].sum() > 0
        far = cuda.beyond(values, flat, ignore_index=ignore_index, low=-SLACK, high=1 + SLACK, skip=decided)
        as_logits = torch.where(decided, seen[LOGITS] > 0, far)
        scale = as_logits
    else:
        decided, as_logits = judged.new_ones(()), torch.full((), logits, device=values.device)
        scale = logits
    rows = cuda.read(values, flat, logits=scale, ignore_index=ignore_index, tolerance=tolerance)
    faults = rows.faults
    if logits is None:  # probabilities where logits came before
        number = judged.sum()
        faults = faults.clone()
        faults[-1] = as_logits & decided & (rows.normalised == number) & (number > 0)
    if not checked:
        faults = torch.zeros_like(faults)
    classes = torch.where(judged, flat.long(), 0).clamp(0, values.shape[1] - 1)
    probs = rows.top.new_empty((len(flat), 0))
    seen = _shown(as_logits, values, values.shape[1])
    return Reading(probs, classes, judged, rows.log_own, faults, seen, rows=rows)


def _shown(as_logits: Tensor, values: Tensor, width: int) -> Tensor:
    known = torch.full((2,), width, device=values.device)  # filled on the device: a copy from the host could wait
    known[0] = values.dtype == torch.float64
    return torch.cat([torch.stack([~as_logits, as_logits]).long(), known])


def _activated(x: Tensor, y: Tensor, layout: str) -> tuple[Tensor, Tensor]:
    """Return the probabilities of logits and the logarithm of what each target was given, which does not overflow."""
    if layout == "multiclass":
        logs = x.log_softmax(1)
        return logs.exp(), logs.gather(1, y[:, None])[:, 0]
    margin = x if layout == "multilabel" else x[:, 0]
    return x.sigmoid(), torch.nn.functional.logsigmoid(torch.where(y == 1, margin, -margin))


def _own(probs: Tensor, y: Tensor, layout: str) -> Tensor:
    """Return the probability that each target was given."""
    if layout == "multiclass":
        return probs.gather(1, y[:, None])[:, 0]
    p = probs if layout == "multilabel" else probs[:, 0]
    return torch.where(y == 1, p, 1 - p)


def event(reading: Reading, *, layout: str, notion: str, half: int = 1) -> tuple[Tensor, Tensor]:
    """Return scores and outcomes (0 or 1) of the judged event, (n,); of all labels, (n, C), for multilabel."""
    probs, y, rows, predicted = reading.probs, reading.targets, reading.rows, reading.predicted
    if rows is not None:  # of the top label: nothing else is judged from rows alone
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
    """Return scores, outcomes and which are judged of every class by itself, (n, C) each."""
    probs, y, judged = reading.probs, reading.targets, reading.judged
    if layout == "multilabel":
        return probs, y, judged
    outcomes = torch.nn.functional.one_hot(y, probs.shape[1])
    return probs, outcomes, judged[:, None].expand_as(probs)


def bin_rows(scores: Tensor, outcomes: Tensor, judged: Tensor, uppers: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return counts, counts of outcomes 1 (int64) and sums of scores of each bin: (M,), or (M, C) of (n, C) scores.

    ``uppers`` holds the largest score of each bin, in the scores' type. Scores are added as integers, multiples of a
    power of 2 that leaves room for n of them in 62 bits, so the order in which the device adds plays no part.
    """
    n_bins, columns = len(uppers), scores.shape[1] if scores.ndim == 2 else 1
    bins = torch.searchsorted(uppers, scores.contiguous()).clamp(max=n_bins - 1)
    bins = torch.where(judged, bins, n_bins)  # what is not judged goes into a bin that is cut off
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


def widened(whole: Tensor, bits: int) -> Tensor:
    """Return integers times 2^-bits in the form in which sums are kept: float64, or pairs of float32."""
    if has_float64(whole.device):
        return whole.double() * 2.0**-bits
    high = whole.float()
    return torch.stack([high, (whole - high.long()).float()]) * 2.0**-bits


def in_state_form(total: Tensor) -> Tensor:
    """Return a sum of the device's widest type in the form in which sums are kept."""
    return total if total.dtype == torch.float64 else torch.stack([total, torch.zeros_like(total)])


def paired(sums: Tensor) -> Tensor:
    """Return float64 sums as pairs of float32, (2, ...), whose sum they are."""
    high = sums.float()
    return torch.stack([high, (sums - high.double()).float()])


def joined(sums: Tensor) -> Tensor:
    """Return the float64 sums of pairs of float32 (and float64 sums as they are), on the host."""
    sums = sums.cpu()
    return sums if sums.dtype == torch.float64 else sums[0].double() + sums[1].double()


def add_sums(parts: Tensor) -> Tensor:
    """Add sums along the first axis: float64 as they are, pairs of float32 without losing what the high parts drop."""
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
    """Return events as `dispatch.pack` does, int32 or int64; `IGNORED_KEY` for what is not judged."""
    bits = scores.contiguous().view(torch.int64 if scores.dtype == torch.float64 else torch.int32)
    keys = (bits << 1) | outcomes.to(bits.dtype)
    return torch.where(judged, keys, torch.full_like(keys, IGNORED_KEY))


def score_sums(scores: Tensor, outcomes: Tensor, judged: Tensor) -> tuple[Tensor, Tensor]:
    """Return the squared error of each event and the logarithm of what its outcome was given, 0 where not judged."""
    p = scores.to(wide(scores.device))
    y = outcomes.to(p.dtype)
    nothing = torch.zeros_like(p)
    own = torch.where(outcomes == 1, p, 1 - p)
    return torch.where(judged, (p - y) ** 2, nothing), torch.where(judged, own.log(), nothing)


def class_square_errors(reading: Reading) -> Tensor:
    """Return each row's sum over classes of squared errors, 0 where it is not judged."""
    if reading.rows is not None:
        squares, own = (part.to(wide(part.device)) for part in (reading.rows.squares, reading.rows.own))
        return torch.where(reading.judged, squares - 2 * own + 1, torch.zeros_like(own))
    p = reading.probs.to(wide(reading.probs.device))
    own = p.gather(1, reading.targets[:, None])[:, 0]
    squares = p.square().sum(1) - 2 * own + 1
    return torch.where(reading.judged, squares, torch.zeros_like(squares))
