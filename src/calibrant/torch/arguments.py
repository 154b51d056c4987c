"""The arguments of metrics and of their updates: checked, and known by two names."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import lru_cache
from itertools import takewhile
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from calibrant.errors import InputError, check_choice
from calibrant.measures.binned import binned

_ON_CUDA: Final = (2, 10)  # DLPack's numbers for CUDA and ROCm; torch calls both cuda


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


def check_keywords(made: type, given: Mapping[str, Any]) -> None:
    """Reject arguments that only the bases of a metric have, and the number of bins by another library's name.

    A caller's own class may take what it likes. torchmetrics refuses all other names.
    """
    taken, known = _keywords(made)
    for one, other in (("n_bins", "num_bins"), ("num_bins", "n_bins")):
        if given.get(one) is not None and one not in taken and other in taken:
            raise InputError(one, f"{other}, its name here", one, f"rename it to {other}")
    name = next((name for name in given if name in known and name not in taken), None)
    if name is not None:
        remedy = "leave it out" + ", the shape of preds says it" * (name == "num_classes")
        raise InputError(name, f"arguments that {made.__name__} has", f"{name}={given[name]!r}", remedy)


@lru_cache(128)
def _keywords(made: type) -> tuple[frozenset[str], frozenset[str]]:
    """Return the arguments that a class of calibrant takes, and those of its bases too.

    Its own are its parameters and the keywords of its bases, up to the classes with ``make``, which it fills in.
    """
    bases = [inspect.signature(base.__init__).parameters for base in made.__mro__ if _is_own(base)]  # type: ignore[misc]
    if not _is_own(made):
        return frozenset(), frozenset()
    taken = set(bases[0])
    for parameters in takewhile(lambda parameters: "make" not in parameters, bases[1:]):
        taken |= {name for name, parameter in parameters.items() if parameter.kind is parameter.KEYWORD_ONLY}
    return frozenset(taken), frozenset().union(*bases) - {"self", "args", "kwargs", "options"}


def _is_own(kind: type) -> bool:
    return (getattr(kind.__init__, "__module__", None) or "").startswith("calibrant.")  # type: ignore[misc]


def from_cuda(x: Any) -> Any:
    """Return an array of another library on a CUDA (or ROCm) device as a tensor, and anything else as it is.

    The tensor shares the array's memory. The array (from CuPy, JAX, Numba, ...) comes through DLPack, which orders the
    work of the two libraries' streams, or else through ``__cuda_array_interface__``.
    """
    if isinstance(x, Tensor):
        return x
    if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
        return from_dlpack(x) if x.__dlpack_device__()[0] in _ON_CUDA else x
    return torch.as_tensor(x, device="cuda") if hasattr(x, "__cuda_array_interface__") else x


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
        raise InputError(
            "num_classes", "an integer from 2", repr(num_classes), 'for one event use CalibrationError("binary")'
        )


def check_notion(notion: object, choices: tuple[str, ...], num_classes: int | None = None) -> None:
    """Reject a notion that the metric does not judge."""
    if notion is not None:
        check_choice("notion", notion, choices)
    if notion == "positive" and num_classes not in (None, 1, 2):
        remedy = "pass one class's column, or another notion"
        raise InputError("notion", f"'top-label' or 'classwise' for {num_classes} classes", "'positive'", remedy)


def check_bins(num_bins: object, norm: object = "l1", closed: object = "left") -> None:
    """Reject invalid options of uniform bins."""
    try:
        binned.check_bins(num_bins, "uniform", norm, closed)
    except InputError as error:
        raise error.renamed({"n_bins": "num_bins"}) from None
