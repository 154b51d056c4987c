"""A map of scores as a layer of a model."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import torch

from calibrant.recalibration import CalibrationMap
from calibrant.recalibration.pieces import Labels, Pieces
from calibrant.recalibration.softmax import Softmax


class RecalibrationLayer(torch.nn.Module):
    """A map of scores as a layer: the last one of a model, which moves and is saved with it.

    It has buffers and no parameters. Scores that are not numbers in [0, 1] become NaN, and so does a row of classes
    with such a number; no value is looked at, so that a device is never waited for.

    Parameters
    ----------
    fitted : calibrant.CalibrationMap
        The map, from `calibrant.recalibrate` or `calibrant.CalibrationMap.read`: of one event for scores of any shape,
        of classes for (..., C).
    logits : bool, default False
        Whether the input is log-odds, or logits of classes.

    Notes
    -----
    The result has the type of the input; half precision is computed in single. The result is between the smallest
    normal number of its type and the largest number below 1: 2^-126 and 1 - 2^-24 in single precision.

    Examples
    --------
    >>> import torch, calibrant
    >>> from calibrant.torch import RecalibrationLayer
    >>> fix = calibrant.recalibrate([0.2] * 50 + [0.8] * 50, [0] * 48 + [1] * 2 + [0] * 5 + [1] * 45)
    >>> layer = RecalibrationLayer(fix.map)
    >>> [round(p, 2) for p in layer(torch.tensor([0.2, 0.8])).tolist()]
    [0.1, 0.9]
    """

    def __init__(self, fitted: CalibrationMap, *, logits: bool = False) -> None:
        super().__init__()
        form, self.logits = fitted.form, logits
        self.labels = None
        if isinstance(form, Labels):
            self.labels = torch.nn.ModuleList([RecalibrationLayer(each, logits=logits) for each in fitted.of_labels()])
            return
        self.unchanged = form.unchanged
        if isinstance(form, Pieces):
            self.ends, self.ends_of_logits = form.ends, form.ends_of_logits
        else:
            self.floor, self.floor_of_logits = math.log(form.floor), form.floor_of_logits
        self.of_classes = isinstance(form, Softmax)
        names = _OF_CLASSES if self.of_classes else _OF_EVENT
        for name in names:
            self.register_buffer(name, torch.from_numpy(np.array(getattr(form, name))))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the recalibrated probabilities of scores of any shape, or of rows of classes (..., C)."""
        if self.labels is not None:
            return torch.stack([layer(x[..., k].contiguous()) for k, layer in enumerate(self.labels)], -1)
        wide = x.to(torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x
        mapped, valid = self._classes(wide) if self.of_classes else self._event(wide)
        mapped = mapped.to(x.dtype)
        if not self.unchanged:
            limits: Any = torch.finfo(x.dtype)
            mapped = mapped.clamp(limits.tiny, 1 - limits.eps / 2)
        return torch.where(valid, mapped, torch.nan)

    def _event(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the mapped scores, and which scores are valid."""
        if self.logits:
            z = x if self.unchanged else x.clamp(*self.ends_of_logits)
            log_p, log_q = torch.nn.functional.logsigmoid(z), torch.nn.functional.logsigmoid(-z)
            place, edges, valid = z, self.get_buffer("breaks"), ~x.isnan()
        else:
            # Single precision may not have the ends.
            p = x.to(torch.float64) if self.unchanged else x.to(torch.float64).clamp(*self.ends)
            log_p, log_q = p.log(), torch.log1p(-p)
            z = log_p - log_q
            place, edges, valid = x, self.get_buffer("edges"), (x >= 0) & (x <= 1)
        piece = torch.bucketize(place.to(edges.dtype), edges, right=True)
        c, a, b = (self.get_buffer(name).to(z.dtype)[piece] for name in ("constants", "positive", "negative"))
        moved = torch.where(a == b, a * z, a * log_p - b * log_q)
        return torch.sigmoid(c + moved), valid

    def _classes(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the mapped rows of classes, and which rows are valid."""
        if self.logits:
            log_p, valid = torch.log_softmax(x, -1), ~x.isnan().any(-1, keepdim=True)
            if self.unchanged:
                return log_p.exp(), valid
        else:
            log_p, valid = x.log(), ((x >= 0) & (x <= 1)).all(-1, keepdim=True)
            if self.unchanged:
                return x, valid
        log_p = log_p.clamp(min=self.floor_of_logits if self.logits else self.floor)
        factors, constants = (self.get_buffer(name).to(x.dtype) for name in _OF_CLASSES)
        t = log_p @ factors.T if factors.ndim == 2 else log_p * factors
        return torch.softmax(t + constants, -1), valid


_OF_CLASSES: Final = ("factors", "constants")
_OF_EVENT: Final = ("edges", "breaks", "constants", "positive", "negative")
