"""Numba as this package uses it: compiled once, kept on disk where that is possible, never in the caller's way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

#: Sums may be reassociated into vector lanes; NaN and infinity keep their meaning.
REASSOCIATE = {"reassoc", "contract", "nsz"}


class Compiled:
    """A compiled function whose on-disk cache may fail without the call failing.

    Numba refuses to decorate where it finds no writable cache directory, and lets an ``OSError`` out of the first call
    where the directory stops being writable, is full, or is torn by another process. The function is then compiled in
    memory instead. Numba writes its cache files under temporary names and renames them, so processes that start
    together on a cold cache overwrite each other's equal files and nothing else.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self.python = function
        self.options = options
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        try:
            self.run = njit(cache=True, **options)(function)
        except RuntimeError:
            self.run = njit(**options)(function)

    def __call__(self, *args: Any) -> Any:
        try:
            return self.run(*args)
        except (OSError, EOFError):
            self.run = njit(**self.options)(self.python)
            return self.run(*args)


def kernel(*, reassociate: bool = False) -> Callable[[Callable[..., Any]], Compiled]:
    """Compile a loop that releases the interpreter lock; ``reassociate`` lets its sums use vector lanes."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    options["fastmath"] = REASSOCIATE if reassociate else {"contract"}
    return lambda function: Compiled(function, options)


def inlined(*, reassociate: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Compile a helper that kernels call; it is cached with them."""
    return njit(nogil=True, error_model="numpy", fastmath=REASSOCIATE if reassociate else {"contract"})  # type: ignore[no-any-return]
