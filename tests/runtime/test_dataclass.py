"""Frozen dataclasses behave as those of the standard library."""

import copy
import dataclasses
import inspect
import pickle
import re
from collections.abc import Callable
from dataclasses import KW_ONLY, field
from pathlib import Path
from typing import Any

import pytest

import calibrant
from calibrant.runtime.dataclass import dataclass

Decorator = Callable[..., Any]


def point(decorator: Decorator, **options: bool) -> Any:
    @decorator(frozen=True, **options)
    class Point:
        """A point."""

        x: float
        names: dict[str, int] = field(default_factory=dict)
        note: str = field(default="none", repr=False, compare=False)

    return Point


def segment(decorator: Decorator, **options: bool) -> Any:
    @decorator(frozen=True, **options)
    class Base:
        """A value that other classes extend."""

        first: int
        _: KW_ONLY
        second: int = 2

        def __repr__(self) -> str:
            return "a base"

    @decorator(frozen=True, **options)
    class Segment(Base):
        """A value with a field that is computed, and one that no caller can pass."""

        third: int = 3
        total: int = field(init=False)
        parts: list[int] = field(default_factory=list, init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "total", self.first + self.second + self.third)

    return Segment


@dataclass(frozen=True)
class Kept:
    """A value that is pickled."""

    a: int
    b: Any = None


def outcome(function: Callable[[], Any]) -> Any:
    """Return what a call returns or raises, in words."""
    try:
        return repr(function())
    except (TypeError, AttributeError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("options", [{}, {"eq": False}, {"kw_only": True}])
@pytest.mark.parametrize("make", [point, segment])
@pytest.mark.parametrize(
    "arguments",
    [((), {}), ((1,), {}), ((1, {"a": 2}), {}), ((), {"x": 1}), ((), {"first": 1}), ((1,), {"second": 5, "third": 6})],
)
def test_objects_are_made_and_shown_as_by_the_standard_library(make, options, arguments):
    ours, theirs = make(dataclass, **options), make(dataclasses.dataclass, **options)
    positional, named = arguments
    assert outcome(lambda: ours(*positional, **named)) == outcome(lambda: theirs(*positional, **named))
    assert str(inspect.signature(ours)) == str(inspect.signature(theirs))
    assert ours.__match_args__ == theirs.__match_args__
    names = [[(one.name, one.type, one.kw_only) for one in dataclasses.fields(kind)] for kind in (ours, theirs)]
    assert names[0] == names[1]


def test_defaults_that_a_function_makes_are_not_shared():
    ours = point(dataclass)
    assert ours(1).names is not ours(1).names
    assert segment(dataclass)(1).parts is not segment(dataclass)(1).parts


def test_values_are_compared_and_hashed_by_their_fields():
    ours, theirs = point(dataclass), point(dataclasses.dataclass)
    nan = float("nan")
    assert ours(1.0, note="a") == ours(1.0, note="b") != ours(2.0)
    assert ours(nan) == ours(nan), "like tuples; those of Python 3.13 are compared field by field"
    assert ours(1.0) != point(dataclass)(1.0), "another class"
    assert (ours(1.0) == (1.0, {})) is False
    assert hash(ours(1.0, ())) == hash(theirs(1.0, ())) == hash((1.0, ()))
    with pytest.raises(TypeError, match="unhashable"):
        hash(ours(1.0))
    by_identity = point(dataclass, eq=False)
    assert by_identity(1.0) != by_identity(1.0)
    assert {by_identity(1.0), by_identity(1.0)}


@pytest.mark.parametrize("name", ["x", "other"])
def test_values_are_frozen(name):
    value = point(dataclass)(1.0)
    with pytest.raises(dataclasses.FrozenInstanceError, match=f"^cannot assign to field '{name}'$"):
        setattr(value, name, 2.0)
    with pytest.raises(dataclasses.FrozenInstanceError, match=f"^cannot delete field '{name}'$"):
        delattr(value, name)
    assert value.x == 1.0


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_values_are_copied_pickled_and_replaced(protocol):
    value = Kept(1, b=[2])
    assert pickle.loads(pickle.dumps(value, protocol)) == copy.deepcopy(value) == copy.copy(value) == value
    assert dataclasses.replace(value, a=3) == Kept(3, [2])
    assert dataclasses.asdict(value) == {"a": 1, "b": [2]}
    assert dataclasses.is_dataclass(Kept)


def test_a_value_that_holds_itself_is_shown():
    value = Kept(1, b=[])
    value.b.append(value)
    assert repr(value) == "Kept(a=1, b=[...])"


def test_a_class_that_is_not_frozen_is_left_to_the_standard_library():
    @dataclass(eq=False)
    class Counter:
        """A counter."""

        n: int = 0

    counter = Counter()
    counter.n += 1
    assert counter.n == 1


def test_every_module_takes_the_faster_one():
    top = Path(calibrant.__file__).parent
    texts = {path.relative_to(top).as_posix(): path.read_text("utf-8") for path in top.rglob("*.py")}
    taken = re.compile(r"^from dataclasses import .*\bdataclass\b", re.MULTILINE)
    assert [name for name, text in texts.items() if taken.search(text)] == []
