"""Find which keyword arguments a function takes, before the call."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from calibrant.errors import InputError, nearest


def name_of(function: Any) -> str:
    """Return the name of a function, or of its class."""
    return getattr(function, "__name__", type(function).__name__)


def parameters_of(function: Any) -> Mapping[str, inspect.Parameter] | None:
    """Return the parameters of a function; None if it has no signature."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None


def takes(function: Any, name: str) -> bool:
    """Return whether a function takes a keyword argument; True if it has no signature."""
    parameters = parameters_of(function)
    if parameters is None or any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return True
    return name in parameters and parameters[name].kind is not inspect.Parameter.POSITIONAL_ONLY


def check_arguments(function: Any, arguments: Iterable[str], others: Sequence[str]) -> None:
    """Reject a keyword argument that a function does not take, or gets elsewhere (``others``)."""
    for name in arguments:
        if name in others or not takes(function, name):
            hint = nearest(name, [parameter for parameter in parameters_of(function) or () if parameter not in others])
            raise InputError(name, f"an argument of {name_of(function)}", "one that it does not take", hint)
