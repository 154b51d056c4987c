"""Maps of scores as operations of torch, on any device. No value is looked at: each says which scores are valid.

``numbers`` are those of the map as tensors on the device of the scores, by the names in `OF_EVENT` and `OF_CLASSES`.
This module imports torch, so it is imported where a tensor has come.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from calibrant.recalibration.pieces import Labels, Pieces
from calibrant.recalibration.softmax import Softmax

OF_CLASSES: Final = ("factors", "constants")
OF_EVENT: Final = ("edges", "breaks", "constants", "positive", "negative")


def numbers_of(form: Pieces | Softmax, device: torch.device | str = "cpu") -> dict[str, Tensor]:
    """Return the numbers of a map as tensors in its own precision, or that of the device."""
    names = OF_CLASSES if isinstance(form, Softmax) else OF_EVENT
    return {name: _on(torch.from_numpy(np.array(getattr(form, name))), device) for name in names}


def _on(x: Tensor, device: torch.device | str) -> Tensor:
    return (x.float() if torch.device(device).type == "mps" else x).to(device)


def in_double(x: Tensor) -> Tensor:
    """Return scores in double precision, where the device has it."""
    return x.detach().to(torch.float32 if x.device.type == "mps" else torch.float64)


def limits_of(form: Pieces | Softmax) -> Any:
    """Return the limits of scores and of log-odds, or the least log-probabilities of both."""
    if isinstance(form, Softmax):
        return math.log(form.floor), form.floor_of_logits
    return form.ends, form.ends_of_logits


def mapped(form: Pieces | Softmax | Labels, x: Tensor, dtype: torch.dtype, *, logits: bool) -> Tensor:
    """Return the mapped scores of valid ones in double precision, in a type; of other numbers in that of torch."""
    if isinstance(form, Labels):
        return torch.stack([mapped(each, x[..., k], dtype, logits=logits) for k, each in enumerate(form.maps)], -1)
    mapping = of_classes if isinstance(form, Softmax) else of_event
    options: dict[str, Any] = {"logits": logits, "unchanged": form.unchanged, "limits": limits_of(form)}
    scores, _ = mapping(x.contiguous(), numbers_of(form, x.device), **options)
    return within(scores, dtype if dtype.is_floating_point else torch.get_default_dtype(), unchanged=form.unchanged)


def within(mapped: Tensor, dtype: torch.dtype, *, unchanged: bool) -> Tensor:
    """Return mapped scores in a type, if changed between its smallest normal number and its largest number below 1."""
    scores, limits = mapped.to(dtype), torch.finfo(dtype)
    return scores if unchanged else scores.clamp(limits.tiny, 1 - limits.eps / 2)


def of_event(
    x: Tensor,
    numbers: Mapping[str, Tensor],
    *,
    logits: bool,
    unchanged: bool,
    limits: tuple[tuple[float, float], tuple[float, float]],
) -> tuple[Tensor, Tensor]:
    """Return the mapped scores of one event, and which are valid; ``limits`` are those of scores and of log-odds."""
    ends, ends_of_logits = limits
    if logits:
        z = x if unchanged else x.clamp(*ends_of_logits)
        log_p, log_q = torch.nn.functional.logsigmoid(z), torch.nn.functional.logsigmoid(-z)
        place, edges, valid = z, numbers["breaks"], ~x.isnan()
    else:
        # Single precision may not have the ends.
        p = x.to(torch.float64) if unchanged else x.to(torch.float64).clamp(*ends)
        log_p, log_q = p.log(), torch.log1p(-p)
        z = log_p - log_q
        place, edges, valid = x, numbers["edges"], (x >= 0) & (x <= 1)
    # A search of no edges cannot be exported to ONNX.
    piece = torch.bucketize(place.to(edges.dtype), edges, right=True) if len(edges) else 0
    c, a, b = (numbers[name].to(z.dtype)[piece] for name in ("constants", "positive", "negative"))
    moved = torch.where(a == b, a * z, a * log_p - b * log_q)
    return torch.sigmoid(c + moved), valid


def of_classes(
    x: Tensor, numbers: Mapping[str, Tensor], *, logits: bool, unchanged: bool, limits: tuple[float, float]
) -> tuple[Tensor, Tensor]:
    """Return the mapped rows of classes (..., C), and which rows are valid.

    ``limits`` are the least log-probabilities, of probabilities and of logits.
    """
    if logits:
        log_p, valid = torch.log_softmax(x, -1), ~x.isnan().any(-1, keepdim=True)
        if unchanged:
            return log_p.exp(), valid
    else:
        log_p, valid = x.log(), ((x >= 0) & (x <= 1)).all(-1, keepdim=True)
        if unchanged:
            return x, valid
    log_p = log_p.clamp(min=limits[1] if logits else limits[0])
    factors, constants = (numbers[name].to(x.dtype) for name in OF_CLASSES)
    t = log_p @ factors.T if factors.ndim == 2 else log_p * factors
    return torch.softmax(t + constants, -1), valid
