"""A map of scores as a layer of a model."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from calibrant.recalibration import CalibrationMap


class RecalibrationLayer(torch.nn.Module):
    """A map of the scores of one event as a layer: the last one of a model, which moves and is saved with it.

    It has buffers and no parameters. Scores that are not numbers in [0, 1] become NaN; no value is looked at, so that a
    device is never waited for.

    Parameters
    ----------
    fitted : calibrant.CalibrationMap
        The map, from `calibrant.recalibrate` or `calibrant.CalibrationMap.read`.
    logits : bool, default False
        Whether the input is log-odds. They are not moved into a range.

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
    [0.07, 0.88]
    """

    edges: torch.Tensor
    constants: torch.Tensor
    positive: torch.Tensor
    negative: torch.Tensor

    def __init__(self, fitted: CalibrationMap, *, logits: bool = False) -> None:
        super().__init__()
        pieces = fitted.pieces
        self.logits = logits
        self.clip = pieces.clip
        for name in ("edges", "constants", "positive", "negative"):
            self.register_buffer(name, torch.from_numpy(np.array(getattr(pieces, name))))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the recalibrated probabilities of scores of any shape."""
        wide = x.to(torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x
        if self.logits:
            log_p, log_q = torch.nn.functional.logsigmoid(wide), torch.nn.functional.logsigmoid(-wide)
            score, valid = log_p.exp(), ~wide.isnan()
        else:
            score, valid = wide, (wide >= 0) & (wide <= 1)
            p = wide.to(torch.float64).clamp(self.clip, 1 - self.clip)  # 1 - CLIP is 1 in single precision
            log_p, log_q = p.log(), torch.log1p(-p)
        piece = torch.bucketize(score.to(self.edges.dtype), self.edges, right=True)
        c, a, b = (values.to(log_p.dtype)[piece] for values in (self.constants, self.positive, self.negative))
        moved = torch.where(a == b, a * (log_p - log_q), a * log_p - b * log_q)
        mapped = torch.sigmoid(c + moved).to(x.dtype)
        if self.clip:
            limits: Any = torch.finfo(x.dtype)
            mapped = mapped.clamp(limits.tiny, 1 - limits.eps / 2)
        return torch.where(valid, mapped, torch.nan)
