"""The public names of the package, as the pages of the API list them, and which of them the cases use."""

from __future__ import annotations

import inspect
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

#: Packages whose names the rest of the package shares: those are public that a page lists.
_SHARED = ("calibrant.errors", "calibrant.report", "calibrant.results")

_DIRECTIVE = re.compile(r"^\.\. auto(function|class|exception|data):: ([\w.]+)")
_MEMBERS = re.compile(r"^\s+:(?:special-)?members: (.+)")

_INTERNAL = "its functions take values that are not public; the differences and spreads of the package's own are tested"

#: What no case uses, and why.
EXEMPT = {
    "calibrant.results.Code": "the codes of findings: they are in every report as text",
    "calibrant.measures.Difference": _INTERNAL,
    "calibrant.measures.Measure(difference)": _INTERNAL,
    "calibrant.measures.Measure(spread)": _INTERNAL,
    "calibrant.measures.Measure(compare_groups)": _INTERNAL,
    "calibrant.measures.Measure(functions)": "it lists functions, and computes nothing",
}

#: The objects that cases have used, the parameters that they have passed, and the members that they have called.
_used: dict[int, Any] = {}
_passed: dict[int, set[str]] = {}
_members: set[tuple[int, str]] = set()


class Noted:
    """A public function or class; it notes its use, and the parameters that are passed to it."""

    def __init__(self, target: Any) -> None:
        self.target = target

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it."""
        note(self.target)
        bound = _signature(self.target).bind(*args, **kwargs).arguments
        extra = {name for value in bound.values() if isinstance(value, dict) for name in value if name in kwargs}
        _passed.setdefault(id(self.target), set()).update(bound, extra)
        return self.target(*args, **kwargs)

    def __getattr__(self, member: str) -> Any:
        _members.add((id(self.target), member))
        return getattr(self.target, member)


class Public:
    """The public names of a module of the package."""

    def __init__(self, module: str) -> None:
        self._module = import_module(module)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        return Noted(value) if callable(value) else value


def note(used: Any) -> None:
    """Note that a case has used a function, or met a value of a class."""
    _used[id(used)] = used


def call(value: Any, member: str, *args: Any, **kwargs: Any) -> Any:
    """Return a member of a public value; what is a method is called."""
    for cls in type(value).__mro__:
        _members.add((id(cls), member))
    got = getattr(value, member)
    return got(*args, **kwargs) if callable(got) else got


@cache
def documented() -> dict[str, tuple[str, ...]]:
    """Return the public names, each with the members that its page lists."""
    found: dict[str, tuple[str, ...]] = {}
    for page in sorted(ROOT.glob("docs/api-*.md")):
        name = ""
        for line in page.read_text(encoding="utf-8").splitlines():
            if match := _DIRECTIVE.match(line):
                name = match[2]
                found[name] = ()
            elif name and (match := _MEMBERS.match(line)):
                found[name] += tuple(match[1].split(", "))
    modules = {name.rpartition(".")[0] for name in found}.difference(_SHARED)
    for module in sorted(modules):
        try:
            loaded = import_module(module)
        except ModuleNotFoundError:  # the name before the point is a class
            continue
        for name in getattr(loaded, "__all__", ()) if not _inside(module, modules) else ():
            found.setdefault(f"{module}.{name}", ())
    return found


def members(cls: type) -> tuple[str, ...]:
    """Return the members that the pages list of a class."""
    return next((listed for name, listed in documented().items() if listed and resolve(name) is cls), ())


def resolve(name: str) -> Any:
    """Return the object of a public name."""
    module, _, last = name.rpartition(".")
    return getattr(import_module(module), last)


def uncovered() -> list[str]:
    """Return the public names, parameters and members that no case has used."""
    left = []
    for name, listed in documented().items():
        thing = resolve(name)
        if inspect.isclass(thing) and issubclass(thing, Exception):  # cases record errors with their type
            continue
        if id(thing) not in _used:
            left.append(name)
        elif inspect.isfunction(thing) or id(thing) in _passed:
            left += [f"{name}({parameter})" for parameter in sorted(_keywords(thing) - _passed.get(id(thing), set()))]
        left += [f"{name}.{member}" for member in listed if not _called(thing, member)]
    return [name for name in left if name not in EXEMPT]


def _called(thing: Any, member: str) -> bool:
    return any((id(cls), member) in _members for cls in inspect.getmro(thing))


def _keywords(thing: Any) -> set[str]:
    variable = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return {name for name, parameter in _signature(thing).parameters.items() if parameter.kind not in variable}


def _inside(module: str, modules: set[str]) -> bool:
    """Return whether a module is below a public package: its other names are not public."""
    packages = {"calibrant.compat"}
    return module.count(".") > 1 and module.rpartition(".")[0] not in packages and module in modules


@cache
def _signature(thing: Any) -> inspect.Signature:
    return inspect.signature(thing)
