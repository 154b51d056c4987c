"""Work on another thread, which Ctrl-C on the main thread stops."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, TypeVar

Item = TypeVar("Item")

_PATIENCE = 0.1  # seconds between two looks: a wait without end holds signals back on some systems
_AHEAD = 2  # items that are made before they are asked for: they take memory
_DONE: Any = object()


@contextmanager
def in_background(
    items: Generator[Item, None, None], interrupt: Callable[[], None] = lambda: None
) -> Iterator[Iterator[Item]]:
    """Yield the items of a generator; another thread makes them while earlier ones are used.

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
    made: deque[Future[Item]] = deque(thread.submit(next, items, _DONE) for _ in range(_AHEAD))

    def one_after_the_other() -> Iterator[Item]:
        while True:
            while not made[0].done():
                wait([made[0]], _PATIENCE)
            item = made[0].result()
            if item is _DONE:
                return
            made.popleft()
            made.append(thread.submit(next, items, _DONE))
            yield item

    try:
        yield one_after_the_other()
    finally:
        for future in made:
            future.cancel()
        while not all(future.done() for future in made):
            interrupt()
            wait(made, _PATIENCE)
        thread.submit(items.close)
        thread.shutdown()
