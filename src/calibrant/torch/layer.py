"""A map of scores as a layer of a model."""

from __future__ import annotations

import torch

from calibrant.recalibration import CalibrationMap, on_tensors
from calibrant.recalibration.pieces import Labels
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
        self.of_classes = isinstance(form, Softmax)
        self.limits = on_tensors.limits_of(form)
        for name, numbers in on_tensors.numbers_of(form).items():
            self.register_buffer(name, numbers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the recalibrated probabilities of scores of any shape, or of rows of classes (..., C)."""
        if self.labels is not None:
            return torch.stack([layer(x[..., k].contiguous()) for k, layer in enumerate(self.labels)], -1)
        wide = x.to(torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x
        mapping = on_tensors.of_classes if self.of_classes else on_tensors.of_event
        numbers = dict(self.named_buffers(recurse=False))
        mapped, valid = mapping(wide, numbers, logits=self.logits, unchanged=self.unchanged, limits=self.limits)
        return torch.where(valid, on_tensors.within(mapped, x.dtype, unchanged=self.unchanged), torch.nan)
