"""How far a long computation is, for whoever shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Timer
from typing import Final, TypeAlias, TypeVar

#: Called with the work in words, how much of it is done, and how much there is; 0 and 0 if that is not known.
Listener: TypeAlias = Callable[[str, int, int], object]

#: Seconds after which a work of unknown length is announced.
_PATIENCE: Final = 0.3

_listeners: list[Listener] = []  # for all threads: workers compile kernels, too

Item = TypeVar("Item")


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Tell a listener how far computations are."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def tell(work: str, done: int = 0, total: int = 0) -> None:
    """Tell all listeners; an empty text ends a work."""
    for listener in tuple(_listeners):
        listener(work, done, total)


def counted(work: str, items: Sequence[Item]) -> Iterator[Item]:
    """Yield the items, and tell how many are done."""
    for done, item in enumerate(items):
        tell(work, done, len(items))
        yield item
    if items:
        tell("")


@contextmanager
def announced(work: str) -> Iterator[None]:
    """Tell that a work of unknown length is being done, if it takes some time."""
    timer = Timer(_PATIENCE, tell, (work,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        tell("")
