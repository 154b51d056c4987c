"""Names of a package that are imported at their first use.

A package that imports its modules while it is imported itself waits for a thread that imports one of them first, and
that thread waits for the package. Python ends this by handing out a module that is not complete. Packages that import
nothing cannot wait.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def names_of(
    package: str, homes: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package, from its modules and the names that each defines."""
    home_of = {name: home for home, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name not in home_of:
            msg = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(msg)
        value = getattr(import_module(home_of[name]), name)
        return vars(sys.modules[package]).setdefault(name, value)  # of two threads, both return the same

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home_of})

    return get, names
