"""Follow the probabilities through `evaluate`: which functions get them, in which order.

    python tools/stops.py    # prints every stop, and how many there are

A *stop* is a call of a function, method or property of the package that gets the caller's numbers: an argument is the
array itself, a NumPy view of it, or an object that leads to one of these in at most three steps from a value to its
attributes or items. `Rows.values` is one step away, `Predictions.rows.values` two, `ClassRows.predictions.rows.values`
three. A copy does not count, because it holds other numbers. An object that is more steps away does not count either: a
report keeps the rows, and its functions read its other parts. A generator stops again whenever it goes on.

The place of a stop is its module. A stop is a *return* if its module had a stop before, and the stop just before it is
in another module. A *visit* is a run of stops in one module.
"""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

import calibrant

SOURCE: Final = Path(calibrant.__file__).parent
STEPS: Final = 3
N: Final = 200


class Stop(NamedTuple):
    """A call that gets the numbers."""

    module: str
    function: str


def parts(value: object) -> Iterator[object]:
    """Yield the items of a collection, or the attributes of an object."""
    if isinstance(value, (list, tuple)):
        yield from value
    elif isinstance(value, dict):
        yield from value.values()
    elif not isinstance(value, type) and not inspect.ismodule(value):
        yield from getattr(value, "__dict__", {}).values()
        slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
        yield from (getattr(value, name) for name in slots if hasattr(value, name))


def leads_to(value: object, numbers: NDArray[Any], steps: int = STEPS) -> bool:
    """Whether a value is these numbers or a view of them, or leads to them in so many steps."""
    if isinstance(value, np.ndarray):
        return np.shares_memory(value, numbers)
    return steps > 0 and any(leads_to(part, numbers, steps - 1) for part in parts(value))


def stops_of(function: Callable[..., object], numbers: NDArray[Any], *others: object) -> list[Stop]:
    """Call a function with these numbers and others, and return its stops in order."""
    stops: list[Stop] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(f"{SOURCE}"):
            return
        names, rest, keywords, values = inspect.getargvalues(frame)
        arguments = [values[name] for name in (*names, rest, keywords) if name in values]
        if any(leads_to(argument, numbers) for argument in arguments):
            path = Path(frame.f_code.co_filename).relative_to(SOURCE).with_suffix("")
            stops.append(Stop(".".join(path.parts), frame.f_code.co_name))

    sys.setprofile(note)
    try:
        function(numbers, *others)
    finally:
        sys.setprofile(None)
    return stops


def visits_of(stops: list[Stop]) -> Counter[str]:
    """Count the visits of each module."""
    return Counter(module for module, _ in groupby(stops, key=lambda stop: stop.module))


def returns_of(stops: list[Stop]) -> int:
    """Count the stops in a module that was left before: all visits of a module but its first."""
    visits = visits_of(stops)
    return visits.total() - len(visits)


def examples() -> dict[str, tuple[NDArray[np.float64], NDArray[np.int64]]]:
    """Return probabilities and targets of three classes, and of one event."""
    rng = np.random.default_rng(0)
    probs, scores = rng.dirichlet(np.ones(3), N), rng.random(N)
    classes = (probs.cumsum(axis=1) < rng.random((N, 1))).sum(axis=1)
    return {"three classes": (probs, classes), "one event": (scores, (rng.random(N) < scores).astype(np.int64))}


if __name__ == "__main__":
    for name, (probs, targets) in examples().items():
        stops = stops_of(calibrant.evaluate, probs, targets)
        print(*(f"{stop.module}:{stop.function}" for stop in stops), sep="\n")
        print(f"\n{name}: {len(stops)} stops, {returns_of(stops)} returns; visits of modules:")
        print(*(f"  {count:2}  {module}" for module, count in visits_of(stops).most_common()), "", sep="\n")
