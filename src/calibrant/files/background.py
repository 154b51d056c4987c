"""Work on another thread, which Ctrl-C on the main thread stops."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, TypeVar

Item = TypeVar("Item")

_PATIENCE = 0.1  # seconds between two looks: a wait without end holds signals back on some systems
_DONE: Any = object()


@contextmanager
def in_background(
    items: Generator[Item, None, None], interrupt: Callable[[], None] = lambda: None
) -> Iterator[Iterator[Item]]:
    """Yield the items of a generator; another thread makes each while the one before is used.

    Signals reach the main thread alone, and engines do not look at them. So the main thread waits here, where Ctrl-C
    ends the wait, and leaving the context stops the other thread.

    Parameters
    ----------
    items : generator
        Advanced, and closed, on the other thread alone.
    interrupt : callable
        Called from the main thread to cut short what the other thread waits for.
    """
    thread = ThreadPoolExecutor(1, "calibrant-reader")
    made: Future[Item] = thread.submit(next, items, _DONE)

    def one_after_the_other() -> Iterator[Item]:
        nonlocal made
        while True:
            while not made.done():
                wait([made], _PATIENCE)
            item = made.result()
            if item is _DONE:
                return
            made = thread.submit(next, items, _DONE)
            yield item

    try:
        yield one_after_the_other()
    finally:
        while not made.done():
            interrupt()
            wait([made], _PATIENCE)
        thread.submit(items.close)
        thread.shutdown()
