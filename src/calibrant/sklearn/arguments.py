"""Which keyword arguments a function takes, found before it is called."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from calibrant.errors import InputError, nearest


def name_of(function: Any) -> str:
    """Return what a function is called, or of what class it is."""
    return getattr(function, "__name__", type(function).__name__)


def parameters_of(function: Any) -> Mapping[str, inspect.Parameter] | None:
    """Return what a function takes, None where it does not say."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None


def takes(function: Any, name: str) -> bool:
    """Whether a function takes a keyword argument, as far as it says what it takes."""
    parameters = parameters_of(function)
    if parameters is None or any(own.kind is own.VAR_KEYWORD for own in parameters.values()):
        return True
    return name in parameters and parameters[name].kind is not inspect.Parameter.POSITIONAL_ONLY


def check_arguments(function: Any, arguments: Iterable[str], others: Sequence[str]) -> None:
    """Raise for a keyword argument that a function does not take; ``others`` are those that it gets elsewhere."""
    for name in arguments:
        if name in others or not takes(function, name):
            hint = nearest(name, [own for own in parameters_of(function) or () if own not in others])
            raise InputError(name, f"an argument of {name_of(function)}", "one that it does not take", hint)
