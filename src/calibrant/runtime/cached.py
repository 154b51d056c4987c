"""What is computed or imported once, at its first use: properties, parts of an object, mappings, names of a package."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Generic, Self, TypeVar, TypeVarTuple, overload

Value = TypeVar("Value")
Arguments = TypeVarTuple("Arguments")

if sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property(Generic[Value]):  # noqa: N801 - the name in functools
        """A property that is computed once for each object.

        Before Python 3.12 that of functools holds a lock while it computes, one for all objects: threads wait for each
        other, and the child of a fork for a thread that it does not have.
        """

        def __init__(self, function: Callable[[Any], Value]) -> None:
            self._function = function
            self.__doc__ = function.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        @overload
        def __get__(self, instance: None, owner: type | None = None) -> cached_property[Value]: ...

        @overload
        def __get__(self, instance: object, owner: type | None = None) -> Value: ...

        def __get__(self, instance: object | None, owner: type | None = None) -> cached_property[Value] | Value:
            """Compute the value, and keep it in the object's dictionary, where Python looks first."""
            if instance is None:
                return self
            value: Value = self._function(instance)
            return instance.__dict__.setdefault(self._name, value)  # type: ignore[no-any-return]


class Memo:
    """An object that keeps what is computed from it: ``thing.of(part, ...)`` is ``part(thing, ...)``, computed once.

    So a module adds parts to an object that does not know it. Copies and pickles compute them again.
    """

    def of(self, part: Callable[[Self, *Arguments], Value], *arguments: *Arguments) -> Value:
        """Return a part, computed at the first call with these arguments."""
        parts: dict[Any, Any] = self.__dict__.setdefault("_parts", {})
        key = (part, *arguments)
        if key not in parts:
            parts.setdefault(key, part(self, *arguments))  # of two threads, both return the same
        value: Value = parts[key]
        return value

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_parts"}


class Late(Generic[Value]):
    """A value that ``make`` computes at the first look. Pickles and copies have it."""

    def __init__(self, make: Callable[[], Value]) -> None:
        self._make = make

    @cached_property
    def value(self) -> Value:
        """The value."""
        return self._make()

    def __getstate__(self) -> dict[str, Value]:
        return {"value": self.value}


class LazyMapping(Mapping[str, Value]):
    """A mapping that ``make`` computes at the first look. Pickles and copies are plain dictionaries."""

    def __init__(self, make: Callable[[], Mapping[str, Value]]) -> None:
        self._make = make

    @cached_property
    def _content(self) -> dict[str, Value]:
        return dict(self._make())

    def __getitem__(self, name: str) -> Value:
        return self._content[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._content)

    def __len__(self) -> int:
        return len(self._content)

    def __repr__(self) -> str:
        return repr(self._content)

    def __reduce__(self) -> tuple[type[dict[str, Value]], tuple[dict[str, Value]]]:
        return dict, (self._content,)


def names_of(package: str, homes: Mapping[str, Sequence[str]]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package, from its modules and the names that each defines.

    A package that imports its modules while it is imported itself waits for a thread that imports one of them first,
    and that thread waits for the package. Python ends this by handing out a module that is not complete. Packages that
    import nothing cannot wait.
    """
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


__all__ = ["Late", "LazyMapping", "Memo", "cached_property", "names_of"]
