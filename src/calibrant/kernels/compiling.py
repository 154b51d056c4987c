"""Import and compile the kernels under one lock, which a fork waits for.

A fork copies the locks that other threads hold, and nobody releases the copies: a child would wait for ever in an
import that another thread of its parent had begun. So a fork waits until no other thread compiles kernels, or imports
a module of this package or of those that it needs.
"""

from __future__ import annotations

import importlib
import logging  # noqa: F401 - its hook, see below
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from threading import RLock, get_ident
from types import ModuleType
from typing import Final

#: Held while kernels are imported or compiled, by one thread at a time, and during a fork.
LOADING: Final = RLock()

#: Up to so many numbers, NumPy runs the kernels: it needs no machine code, and takes milliseconds.
SMALL: Final = (1 << 20) - 1

#: For each family of kernels, its readable module and its compiled one.
VERSIONS: Final = {
    "rows": ("reference", "host"),
    "tables": ("reference_tables", "host_tables"),
}

#: The packages whose imports a fork waits for: this one, and those that it imports when they are needed.
_AWAITED: Final = ("calibrant", "narwhals", "numpy", "scipy")

_readable: dict[str, ModuleType] = {}
_compiled: dict[str, ModuleType] = {}
_before: Final = ContextVar("numbers read before", default=0)
_whole: Final = ContextVar("numbers of the whole input", default=0)


class following:  # noqa: N801 # a function to its callers; a generator takes a microsecond more for each batch
    """Take inputs as the next part of a stream after so many numbers.

    A stream of small batches is large in the end: from `SMALL` numbers on, its batches take compiled kernels.
    """

    def __init__(self, numbers: int) -> None:
        self.numbers = numbers

    def __enter__(self) -> None:
        self.token = _before.set(self.numbers)

    def __exit__(self, *_: object) -> None:
        _before.reset(self.token)


@contextmanager
def of_input(numbers: int) -> Iterator[None]:
    """Take all that is computed inside as parts of one input of so many numbers.

    50,000 rows of 1,000 classes are a large input, and so is their table of 50,000 scores.
    """
    token = _whole.set(numbers)
    try:
        yield
    finally:
        _whole.reset(token)


def kernels_for(family: str, size: int) -> ModuleType:
    """Return the kernels for an input of ``size`` numbers: compiled ones above `SMALL`, else NumPy's.

    The size alone decides: with what came before in a stream (`following`), or the size of the whole input
    (`of_input`). ``CALIBRANT_KERNELS`` can force one of the two, ``numpy`` or ``numba``. Without Numba all inputs take
    NumPy's, and the first large one warns.
    """
    readable, compiled = VERSIONS[family]
    forced = os.environ.get("CALIBRANT_KERNELS")
    if forced not in (None, "numpy", "numba"):
        from calibrant.errors import InputError

        raise InputError(
            "CALIBRANT_KERNELS", "numpy or numba", repr(forced), "correct or unset this environment variable"
        )
    decisive = max(size + _before.get(), _whole.get())
    if forced == "numpy" or (forced is None and (decisive <= SMALL or not numba_is_there())):
        if readable not in _readable:
            _readable[readable] = import_module(f"{__package__}.{readable}")
        return _readable[readable]
    if compiled not in _compiled:
        with LOADING:  # all of them, half a second: a fork may come before the next call
            _compiled.update({name: import_module(f"{__package__}.{name}") for _, name in VERSIONS.values()})
    return _compiled[compiled]


@cache
def numba_is_there() -> bool:
    """Return whether Numba is installed; warn if it is not."""
    if find_spec("numba") is not None:
        return True
    from calibrant.errors.exceptions import install_command

    msg = f"Numba is not installed, so large inputs take several times longer; {install_command('fast')}"
    warnings.warn(msg, stacklevel=2)
    return False


def _others_import() -> set[str]:
    """Return the modules of `_AWAITED` that another thread is importing, by the locks of importlib."""
    locks = getattr(importlib._bootstrap, "_module_locks", {})  # it has no public name
    held = [lock for lock in [reference() for reference in list(locks.values())] if lock is not None and lock.count]
    return {lock.name for lock in held if lock.owner != get_ident() and lock.name.partition(".")[0] in _AWAITED}


def _before_fork() -> None:
    LOADING.acquire()
    awaited: set[str] = set()
    while names := _others_import() - awaited:
        for name in names:
            with suppress(Exception):  # the other thread, and every child, meets the same error
                import_module(name)  # waits for that thread
        awaited |= names


# Hooks run backwards. A thread that holds LOADING may ask for the lock of logging, so ours must run before its hook.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=LOADING.release, after_in_child=LOADING.release)
