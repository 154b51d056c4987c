"""Import and compile the kernels under one lock, which a fork waits for.

A fork copies the locks that other threads hold, and nobody releases the copies: a child would wait for ever in an
import that another thread of its parent had begun. So a fork waits until no other thread imports or compiles kernels,
and itself imports what later calls need.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module
from threading import RLock
from types import ModuleType
from typing import Final

#: Held while kernels are imported or compiled, by one thread at a time, and during a fork.
LOADING: Final = RLock()

_KERNELS: Final = ("host", "host_tables", "host_clusters", "host_classes")

#: What estimators import when they are called, after the kernels.
_LATER: Final = ("scipy.special", "scipy.fft", "scipy.optimize")

_loaded: dict[str, ModuleType] = {}


def loaded(name: str) -> ModuleType:
    """Return a module of compiled kernels; the first call imports all of them, which takes half a second."""
    if name not in _loaded:
        with LOADING:
            modules = {each: import_module(f"{__package__}.{each}") for each in _KERNELS}
            _loaded.update(modules)
    return _loaded[name]


def _before_fork() -> None:
    LOADING.acquire()
    for name in [name for name in (*_LATER, "narwhals") if name in sys.modules or (_loaded and name in _LATER)]:
        with suppress(Exception):  # another thread, and every child, meets the same error
            import_module(name)  # waits for the thread that imports it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=LOADING.release, after_in_child=LOADING.release)
