"""Work on another thread, which Ctrl-C on the main thread stops."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")

_PATIENCE = 0.1  # seconds between two looks


class Background(Generic[Item]):
    """The items of an iterator, made on another thread while earlier ones are used.

    Signals reach the main thread alone, and engines do not look at them. So the main thread waits here, where Ctrl-C
    ends the wait, and leaving the context stops the other thread. It is a daemon: an executor's thread would keep the
    process alive where Ctrl-C comes before the context is entered.

    Parameters
    ----------
    items : iterator
        Advanced, and closed, on the other thread alone.
    interrupt : callable
        Called from the main thread to cut short what the other thread waits for.
    waiting : int
        How many items may be made before they are asked for: they take memory.
    """

    def __init__(self, items: Iterator[Item], interrupt: Callable[[], None] = lambda: None, waiting: int = 1) -> None:
        self._items = items
        self._interrupt = interrupt
        self._stopped = threading.Event()
        self._made: queue.Queue[tuple[Item | None, BaseException | None]] = queue.Queue(waiting)
        self._thread = threading.Thread(target=self._work, name="calibrant-reader", daemon=True)

    def __enter__(self) -> Background[Item]:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        while self._thread.is_alive():
            self._interrupt()
            self._thread.join(_PATIENCE)

    def __iter__(self) -> Iterator[Item]:
        while True:
            try:
                item, error = self._made.get(timeout=_PATIENCE)  # without a timeout, some systems hold signals back
            except queue.Empty:
                continue
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            yield item  # type: ignore[misc]  # an item may itself be None

    def _work(self) -> None:
        try:
            for item in self._items:
                if not self._put(item, None):
                    break
            else:
                self._put(None, StopIteration())
        except BaseException as error:  # raised again where the items are used
            self._put(None, error)
        finally:
            close: Any = getattr(self._items, "close", None)
            if close is not None:
                close()

    def _put(self, item: Item | None, error: BaseException | None) -> bool:
        """Hand on an item as soon as there is room; return whether it is still wanted."""
        while not self._stopped.is_set():
            try:
                self._made.put((item, error), timeout=_PATIENCE)
            except queue.Full:
                continue
            return True
        return False
