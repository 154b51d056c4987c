"""``dataclass`` for frozen values, as that of ``dataclasses``, in a fifth of the time.

That of ``dataclasses`` writes and compiles six methods for each class. The package has 200 classes, and the command
imports most of them at each start. Here the methods of frozen values are the same functions for all classes, except
for ``__init__``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sized
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, eq=True, kw_only=False):
        """Make a dataclass. It has no slots."""

        def make(cls):
            if not frozen:
                return dataclasses.dataclass(eq=eq, kw_only=kw_only)(cls)
            cls = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
            methods = {"__setattr__": _assign, "__delattr__": _delete, "__repr__": _represent}
            if eq:
                methods |= {"__eq__": _equal, "__hash__": _hash}
            for name, method in methods.items():
                if name not in vars(cls):
                    setattr(cls, name, method)
            cls.__init__ = _init_of(cls)
            return cls

        return make if cls is None else make(cls)


_LONGEST: Final = 200  # characters of a value in `repr`


class _Made:
    """Stands for a default value that a function makes."""

    def __repr__(self) -> str:
        return "<factory>"


_MADE: Final = _Made()


def _init_of(cls: type[Any]) -> Any:
    """Return ``__init__`` of a dataclass: it writes to the dictionary of the new object."""
    fields = dataclasses.fields(cls)
    positional = [field.name for field in fields if field.init and not field.kw_only]
    keywords = [field.name for field in fields if field.init and field.kw_only]
    parameters = ["self", *positional, *(["*", *keywords] if keywords else [])]
    values = {name: name for name in (*positional, *keywords)}
    makers = {field.name: field.default_factory for field in fields if field.default_factory is not dataclasses.MISSING}
    for name in makers:
        made = f"makers[{name!r}]()"
        values[name] = f"{made} if {name} is MADE else {name}" if name in values else made
    source = (
        f"def __init__({', '.join(parameters)}):\n self.__dict__.update({', '.join(map('='.join, values.items()))})"
    )
    if hasattr(cls, "__post_init__"):
        source += "\n self.__post_init__()"
    names = {"makers": makers, "MADE": _MADE}
    exec(source, names)
    init: Any = names["__init__"]
    defaults = {field.name: field.default for field in fields if field.default is not dataclasses.MISSING}
    defaults |= dict.fromkeys(makers, _MADE)
    init.__defaults__ = tuple(defaults[name] for name in positional if name in defaults)
    init.__kwdefaults__ = {name: defaults[name] for name in keywords if name in defaults}
    init.__annotations__ = {field.name: field.type for field in fields if field.init} | {"return": None}
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _assign(_self: object, name: str, _value: object) -> NoReturn:
    msg = f"cannot assign to field {name!r}"
    raise dataclasses.FrozenInstanceError(msg)


def _delete(_self: object, name: str) -> NoReturn:
    msg = f"cannot delete field {name!r}"
    raise dataclasses.FrozenInstanceError(msg)


@recursive_repr()
def _represent(self: Any) -> str:
    values = (f"{field.name}={_brief(getattr(self, field.name))}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(values)})"


def _brief(value: Any) -> str:
    """Return the repr of a value, or its type and size if the repr is long: that of a result is one line."""
    name = type(value).__name__
    if isinstance(value, Mapping) and not isinstance(value, dict):  # its values may not be computed yet
        return f"<{name} of {len(value):,}>"
    text = repr(value)
    if isinstance(value, str) or (len(text) <= _LONGEST and "\n" not in text):
        return text
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"<{value.dtype} array of shape {tuple(value.shape)}>"
    return f"<{name} of {len(value):,}>" if isinstance(value, Sized) else f"<{name}>"


def _compared(value: Any) -> tuple[Any, ...]:
    return tuple(getattr(value, field.name) for field in dataclasses.fields(value) if field.compare)


def _equal(self: object, other: object) -> bool:
    return _compared(self) == _compared(other) if type(other) is type(self) else NotImplemented


def _hash(self: object) -> int:
    return hash(_compared(self))


__all__ = ["dataclass"]
