"""Compile functions with Numba once, and cache them on disk if possible; a broken cache never stops a call."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.resources import files
from types import FunctionType
from typing import Any, Final

import numba
import numpy as np
from llvmlite import binding  # type: ignore[import-untyped]
from numba import njit

from calibrant.kernels.compiling import LOADING
from calibrant.runtime.progress import announced

#: Sums may be reordered for vector lanes; NaN and infinity keep their meaning.
REASSOCIATE = {"reassoc", "contract", "nsz"}


class Compiled:
    """A compiled function, with one variant and separate cache files for each signature.

    Numba keeps the variants of a function in numbered files behind one index, and writes the index first. Two processes
    that start together on an empty cache with different types can then load each other's machine code. A process that
    is killed in between leaves an index that names old code. Here the name of a file contains everything that its
    machine code depends on (see `_variant_name`): all processes write the same bytes to it.

    A cache that cannot be used (unwritable, full, torn, vanished) never makes a call fail. Where Numba may not compile
    (``NUMBA_DISABLE_JIT=1``) the readable version runs.
    """

    def __init__(
        self, function: Callable[..., Any], *, readable: Callable[..., Any] | None = None, reassociate: bool
    ) -> None:
        self.function = function
        self.readable = readable or function
        self.reassociate = reassociate
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self._by_kinds: dict[tuple[object, ...], Callable[..., Any]] = {}
        self._by_signature: dict[tuple[object, ...], Callable[..., Any]] = {}

    def __call__(self, *args: Any) -> Any:
        # A cheap key for the types; several keys may share a signature.
        kinds = tuple([(a.dtype.char, a.ndim, a.flags.num) if isinstance(a, np.ndarray) else type(a) for a in args])
        run = self._by_kinds.get(kinds)
        return (self._variant(kinds, args) if run is None else run)(*args)

    def _variant(self, kinds: tuple[object, ...], args: tuple[Any, ...]) -> Callable[..., Any]:
        with LOADING:  # only one thread compiles, and no fork comes in between
            signature = tuple(map(numba.typeof, args))
            if signature not in self._by_signature:
                with announced("preparing kernels, once"):
                    self._by_signature[signature] = self._compile(signature)
            run = self._by_kinds[kinds] = self._by_signature[signature]
        return run

    def _compile(self, signature: tuple[Any, ...]) -> Callable[..., Any]:
        """Compile, or load from the cache: first as found, then emptied, then without a cache.

        A torn file can raise any exception when it is unpickled, so all are caught. An error in the function itself
        is raised by the last attempt.
        """
        if numba.config.DISABLE_JIT:
            return self.readable
        options = _options(self.reassociate)
        with suppress(Exception):  # Numba raises if it finds no directory to write to
            name = _variant_name(self.function.__name__, self.reassociate, signature)
            run = njit(cache=True, **options)(_renamed(self.function, name))
            for _ in range(2):
                with suppress(Exception):
                    run.compile(signature)
                if run.signatures:  # compiled, even if it could not be saved
                    return run  # type: ignore[no-any-return]
                run.recompile()  # nothing is compiled yet: this only empties the cache of this variant
        run = njit(**options)(self.function)
        run.compile(signature)
        return run  # type: ignore[no-any-return]


def kernel(
    readable: Callable[..., Any] | None = None, *, reassociate: bool = False
) -> Callable[[Callable[..., Any]], Compiled]:
    """Compile a loop that releases the interpreter lock; ``reassociate`` lets its sums use vector lanes.

    ``readable`` is the readable function of the same signature.
    """
    return lambda function: Compiled(function, readable=readable, reassociate=reassociate)


def inlined(*, reassociate: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Compile a helper that kernels call; it is cached with them."""
    return njit(**_options(reassociate))  # type: ignore[no-any-return]


def _options(reassociate: bool) -> dict[str, Any]:
    return {"nogil": True, "error_model": "numpy", "fastmath": REASSOCIATE if reassociate else {"contract"}}


#: Compile a helper without any change of its arithmetic. ``False`` is needed: without it, the helper inherits the
#: setting of the kernel that is compiled first.
exact: Final[Callable[[Callable[..., Any]], Any]] = njit(nogil=True, error_model="numpy", fastmath=False)

#: Compile a helper as a part of each kernel that calls it: vector lanes and rounding are those of the kernel.
pasted: Final[Callable[[Callable[..., Any]], Any]] = njit(inline="always", **_options(reassociate=False))


def _renamed(function: Any, name: str) -> FunctionType:
    """Return the same function under another name; Numba uses it as the name of its files."""
    copy = FunctionType(function.__code__, function.__globals__, name, function.__defaults__, function.__closure__)
    copy.__module__, copy.__qualname__ = function.__module__, name
    return copy


def _variant_name(name: str, reassociate: bool, signature: tuple[Any, ...]) -> str:
    """Return the name of a variant; it contains everything that the machine code depends on."""
    content = " ".join([_platform(), str(reassociate), *map(str, signature)])
    return f"{name}_{hashlib.sha256(content.encode()).hexdigest()[:16]}"


@cache
def _platform() -> str:
    """Return what the machine code of every kernel depends on: the sources of the kernels, Numba, the processor."""
    sources = [path.read_text("utf-8") for path in files(__package__).iterdir() if path.name.endswith(".py")]
    cpu = numba.config.CPU_NAME or binding.get_host_cpu_name()
    features = numba.config.CPU_FEATURES or binding.get_host_cpu_features().flatten()
    return " ".join([*sorted(sources), numba.__version__, cpu, features])
