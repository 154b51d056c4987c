"""The arguments of metrics and of their updates: checked, and known by two names."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from calibrant.errors import InputError, check_choice


def batch_of(
    method: str, preds: Any = None, target: Any = None, *, probs: Any = None, targets: Any = None
) -> tuple[Any, Any]:
    """Return the two arguments of a method; each has two names."""
    given = []
    for names, values in ((("preds", "probs"), (preds, probs)), (("target", "targets"), (target, targets))):
        known = [value for value in values if value is not None]
        if not known:
            message = f"{method}() missing 1 required positional argument: {names[0]!r}"
            raise TypeError(message)
        if len(known) > 1:
            raise InputError(names[0], f"a tensor, as {names[0]} or {names[1]}", "both", "pass one of the two")
        given += known
    return given[0], given[1]


def check_tensor(name: str, value: object, device: torch.device) -> None:
    """Reject what is no tensor, or on another device than the metric."""
    if not isinstance(value, Tensor):
        remedy = "convert it, or use the functions of calibrant itself"
        raise InputError(name, "a tensor", f"a {type(value).__name__}", remedy)
    if value.device != device:
        expected, remedy = f"a tensor on {device}, the metric's device", "move one of them with .to(device)"
        raise InputError(name, expected, f"a tensor on {value.device}", remedy)


def check_columns(num_classes: object) -> None:
    """Reject a number of columns that is not an integer."""
    if isinstance(num_classes, bool) or not isinstance(num_classes, int):
        message = f"num_classes: expected an integer, got {num_classes!r}; pass the number of columns of preds"
        raise TypeError(message)


def check_classes(num_classes: Any) -> None:
    """Reject a number of classes that is not an integer from 2."""
    check_columns(num_classes)
    if num_classes < 2:
        raise InputError("num_classes", "an integer from 2", repr(num_classes), "for one event use task='binary'")


def check_notion(notion: object, choices: tuple[str, ...], num_classes: int | None = None) -> None:
    """Reject a notion that the metric does not judge."""
    if notion is not None:
        check_choice("notion", notion, choices)
    if notion == "positive" and num_classes not in (None, 1, 2):
        remedy = "pass one class's column, or another notion"
        raise InputError("notion", f"'top-label' or 'classwise' for {num_classes} classes", "'positive'", remedy)
