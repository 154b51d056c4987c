"""What is computed once, without a lock: properties, parts of an object, and mappings that are computed at a look."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, Self, TypeVar, overload

Value = TypeVar("Value")

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
    """An object that keeps what is computed from it: ``thing.of(part)`` is ``part(thing)``, computed once.

    So a module adds parts to an object that does not know it. Copies and pickles compute them again.
    """

    def of(self, part: Callable[[Self], Value]) -> Value:
        """Return a part, computed at the first call."""
        parts: dict[Any, Any] = self.__dict__.setdefault("_parts", {})
        if part not in parts:
            parts.setdefault(part, part(self))  # of two threads, both return the same
        value: Value = parts[part]
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


__all__ = ["Late", "LazyMapping", "Memo", "cached_property"]
