"""Cut rows of any layout into blocks, and run work over blocks on threads, in the order of the rows.

The size of the input alone decides the blocks. Each block is summed separately, and the sums of the blocks are added in
their order, so results do not depend on the number of threads. Threads live for one call: no thread is left
for a fork to break.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import copy_context
from dataclasses import field
from queue import SimpleQueue
from threading import Thread
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError
from calibrant.runtime.arrays import Floats
from calibrant.runtime.dataclass import dataclass

_BLOCK = 1 << 20  # most entries of a block: 4 MB of float32 outweigh the microseconds that a block costs
_LEAST = 1 << 17  # fewest entries of a block: with fewer, threads cost more than they gain
_COPIED = 1 << 16  # entries converted at a time: the copy stays in the cache
_LANES = 16  # most ranges of rows that have their own histogram

Result = TypeVar("Result")


#: A value so many units in the last place outside [0, 1] is 0 or 1; a unit is that of the numbers from 1 on.
ROUNDING: Final = 4


class BadRow(Exception):
    """A reading pass met an invalid row; `notions.explain` makes the message."""

    def __init__(self, row: int) -> None:
        super().__init__(row)
        self.row = row


def n_threads(most: int | None = None) -> int:
    """Return how many threads a pass may use, at most so many if a number is given.

    They are ``CALIBRANT_NUM_THREADS``, or the processors this process may run on. Results never depend on them.
    """
    wish = os.environ.get("CALIBRANT_NUM_THREADS")
    if wish is not None:
        if not wish.isdecimal() or int(wish) < 1:
            raise InputError(
                "CALIBRANT_NUM_THREADS", "a positive integer", repr(wish), "correct or unset this environment variable"
            )
        threads = int(wish)
    elif most is not None and most <= 1:  # asking the system takes longer than a small block
        threads = 1
    elif hasattr(os, "sched_getaffinity"):
        threads = len(os.sched_getaffinity(0))
    else:
        threads = os.cpu_count() or 1
    return threads if most is None else min(threads, most)


def in_order(work: Callable[[int], Result], n: int) -> Iterator[Result]:
    """Yield ``work(0)``, ``work(1)``, ... in order while this thread and others compute later ones."""
    helpers = n_threads(n) - 1
    if helpers <= 0:
        yield from map(work, range(n))
        return
    waiting, done = deque(range(n)), SimpleQueue[_Outcome[Result]]()
    threads = [Thread(target=copy_context().run, args=(_work_off, work, waiting, done)) for _ in range(helpers)]
    ready: dict[int, _Outcome[Result]] = {}
    try:
        for thread in threads:
            thread.start()
        for block in range(n):
            while block not in ready:
                outcome = (_next(work, waiting) if done.empty() else None) or done.get()
                ready[outcome.block] = outcome
            outcome = ready.pop(block)
            if outcome.error is not None:
                raise outcome.error
            yield cast("Result", outcome.result)
    finally:
        waiting.clear()
        for thread in threads:
            if thread.ident is not None:
                thread.join()


class _Outcome(NamedTuple, Generic[Result]):
    """What the work on a block returned, or the error that it raised."""

    block: int
    result: Result | None = None
    error: BaseException | None = None


def _next(work: Callable[[int], Result], waiting: deque[int]) -> _Outcome[Result] | None:
    """Work on the next block; return None if no block waits."""
    try:
        block = waiting.popleft()
    except IndexError:
        return None
    try:
        return _Outcome(block, work(block))
    except BaseException as error:
        return _Outcome(block, error=error)


def _work_off(work: Callable[[int], Result], waiting: deque[int], done: SimpleQueue[_Outcome[Result]]) -> None:
    """Work on blocks until none waits."""
    while (outcome := _next(work, waiting)) is not None:
        done.put(outcome)


@dataclass(frozen=True)
class Rows:
    """Rows of predictions in any layout, handed out as contiguous blocks of float32 or float64.

    ``values`` has shape (B, C, D): row ``b * D + d`` is ``values[b, :, d]``. Half types are widened to float32;
    ``bfloat16`` says that the values are bfloat16 bits in an unsigned integer array. There are ``n`` rows of ``width``
    entries; blocks have the type ``dtype``.
    """

    values: NDArray[Any]
    bfloat16: bool = False
    n: int = field(init=False)
    width: int = field(init=False)
    dtype: np.dtype[Any] = field(init=False)

    #: Whether the values are on a device other than the host; see `device_rows`.
    on_device: ClassVar[bool] = False

    def __post_init__(self) -> None:
        sheets, width, depth = self.values.shape
        wide = not self.bfloat16 and (self.values.dtype.itemsize > 4 or self.values.dtype.kind != "f")
        object.__setattr__(self, "n", sheets * depth)
        object.__setattr__(self, "width", width)
        object.__setattr__(self, "dtype", np.dtype(np.float64 if wide else np.float32))

    @property
    def depth(self) -> int:
        """D: consecutive rows that come from one entry of the first axis."""
        return int(self.values.shape[2])

    @property
    def integers(self) -> bool:
        """Whether the values are integers."""
        return self.values.dtype.kind in "iu" and not self.bfloat16

    @property
    def direct(self) -> NDArray[Any] | None:
        """The rows themselves, (n, C); None if they cannot be read without a copy."""
        flat = self.values.shape[2] == 1 and self.values.dtype == self.dtype and self.values.dtype.isnative
        view = self.values[:, :, 0] if flat else None
        return view if view is not None and view.flags.c_contiguous else None

    def blocks(self, start: int, stop: int) -> Iterator[tuple[int, Floats]]:
        """Yield (index of the first row, rows) from ``start`` to ``stop``."""
        direct = self.direct
        if direct is not None:
            yield start, direct[start:stop]
            return
        step = max(1, _COPIED // self.width)
        for first in range(start, stop, step):
            block = np.empty((min(step, stop - first), self.width), dtype=self.dtype)  # its own: the caller may keep it
            self._copy(first, block)
            yield first, block

    def _copy(self, first: int, block: Floats) -> None:
        depth = self.values.shape[2]
        at, stop = first, first + len(block)
        while at < stop:
            b, d = divmod(at, depth)
            if d == 0 and stop - at >= depth:  # complete sheets at once
                sheets = (stop - at) // depth
                n = sheets * depth
                part = self.values[b : b + sheets].transpose(0, 2, 1)
                target = block[at - first : at - first + n].reshape(sheets, depth, self.width)
            else:
                n = min(depth - d, stop - at)
                part = self.values[b, :, d : d + n].T
                target = block[at - first : at - first + n]
            if self.bfloat16:  # bfloat16 is the upper half of a float32
                np.left_shift(part, 16, out=target.view(np.uint32), dtype=np.uint32)
            else:
                np.copyto(target, part, casting="unsafe")  # widening only: `inputs` rejects longdouble
            at += n

    def raw(self, k: int, rows: NDArray[np.intp]) -> NDArray[Any]:
        """Return the numbers of one class in these rows as they were passed, bfloat16 as its bits."""
        sheets, places = np.divmod(rows, self.depth)
        return np.asarray(self.values[sheets, k, places])

    def pick(self, row: int) -> Floats:
        """Return one row, for an error message."""
        _, block = next(self.blocks(row, row + 1))
        return np.array(block[0])


def bounds_of(n: int, width: int) -> list[tuple[int, int]]:
    """Return the ranges of the blocks of n rows."""
    if 0 < n * width <= _LEAST:
        return [(0, n)]
    size = min(_BLOCK, max(_LEAST, n * width // 64))
    step = max(1, size // max(width, 1))
    return [(a, min(a + step, n)) for a in range(0, n, step)]


def lanes_of(n: int, width: int, cost: int, parts: int = _LANES) -> list[tuple[int, int]]:
    """Return at most ``parts`` ranges of n rows, fewer if an accumulator of ``cost`` entries outweighs a range."""
    worth = n * width // max(16 * cost, _LEAST)
    step = max(1, -(-n // max(1, min(parts, worth))))
    return [(a, min(a + step, n)) for a in range(0, n, step)]
