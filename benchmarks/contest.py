"""Time one call of ours against a floor and peers, turn by turn, and compare the result with its goals.

A turn is: each peer (while it still has turns), the floor, ours. A change of the machine's speed affects all, and so
cancels in the ratios. The answers of the timed calls are returned, and the caller checks them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Seconds of pause before each timed call: then the threads of a peer, which OpenMP lets spin, are asleep.
SETTLE = 0.01


@dataclass(frozen=True)
class Medians:
    """Median seconds of ours, of the floor and of the peers."""

    ours: float
    floor: float | None
    peers: Mapping[str, float]


@dataclass(frozen=True)
class Goal:
    """A goal for the medians, in words and as a test."""

    text: str
    met: Callable[[Medians], bool]


def at_most_floors(number: float) -> Goal:
    return Goal(f"≤ {number:g} × floor", lambda m: m.floor is not None and m.ours <= number * m.floor)


def faster_than(peer: str, number: float) -> Goal:
    return Goal(f"≥ {number:g} × faster than {peer}", lambda m: m.ours * number <= m.peers[peer])


def within(seconds: float) -> Goal:
    return Goal(f"≤ {seconds * 1e3:g} ms" if seconds < 0.1 else f"≤ {seconds:g} s", lambda m: m.ours <= seconds)


def over_floor(seconds: float) -> Goal:
    return Goal(f"≤ {seconds:g} s over floor", lambda m: m.floor is not None and m.ours - m.floor <= seconds)


@dataclass
class Turns:
    """One contender: its remaining turns, its times, its last answer."""

    call: Callable[[], Any]
    left: int
    clock: Callable[[], float] = time.perf_counter
    seconds: list[float] = field(default_factory=list)
    answer: Any = None

    def take(self, settle: float) -> None:
        if not self.left:
            return
        self.left -= 1
        time.sleep(settle)
        start = self.clock()
        self.answer = self.call()
        self.seconds.append(self.clock() - start)


@dataclass(frozen=True)
class Answers:
    """The answers of the timed calls."""

    ours: Any
    peers: Mapping[str, Any]


class Contest:
    """The fixture: a pytest-benchmark fixture that lets others run between its rounds."""

    def __init__(self, benchmark: Any, *, quick: bool) -> None:
        self.benchmark = benchmark
        self.quick = quick

    def __call__(
        self,
        work: str,
        ours: Callable[[], Any],
        *,
        floor: NDArray[Any] | Callable[[], Any] | None,
        peers: Mapping[str, Callable[[], Any]] | None = None,
        goals: Sequence[Goal] = (),
        rounds: int = 25,
        peer_rounds: int = 5,
        settle: float = SETTLE,
        warm_up: bool = True,
        clock: Callable[[], float] | None = None,
    ) -> Answers:
        """Measure, note the row of the table, and return the answers.

        The floor is the sum of an array, or a call. Everything runs once before it is timed (our kernels compile, pages
        are touched), a peer of a single turn excepted. With a ``clock``, such as that of processor time, the statistics
        that pytest-benchmark prints have no meaning.
        """
        if self.quick:
            rounds, peer_rounds = max(3, rounds // 5), min(peer_rounds, 2)
        sum_up = floor if floor is None or callable(floor) else lambda: np.sum(floor)
        timer = clock or time.perf_counter
        others = {name: Turns(call, peer_rounds, timer) for name, call in (peers or {}).items()}
        lowest = Turns(sum_up, rounds, timer) if sum_up is not None else None
        mine = Turns(ours, rounds, timer)
        if warm_up:
            ours()
            for turns in [*others.values(), *([lowest] if lowest else [])]:
                if turns.left > 1:
                    turns.call()

        def before() -> None:
            for turns in others.values():
                turns.take(settle)
            if lowest:
                lowest.take(settle)
            time.sleep(settle)

        if clock is None:
            answer = self.benchmark.pedantic(ours, setup=before, rounds=rounds, iterations=1)
            median = self.benchmark.stats.stats.median
        else:
            for _ in range(rounds):
                before()
                mine.take(settle)
            answer, median = mine.answer, statistics.median(mine.seconds)
            self.benchmark.pedantic(lambda: answer, rounds=1, iterations=1)  # so that the notes below are kept
        medians = Medians(
            median,
            statistics.median(lowest.seconds) if lowest else None,
            {name: statistics.median(turns.seconds) for name, turns in others.items()},
        )
        self.benchmark.extra_info.update(
            work=work,
            ours=medians.ours,
            floor=medians.floor,
            peers=dict(medians.peers),
            goals=[[goal.text, bool(goal.met(medians))] for goal in goals],
        )
        return Answers(answer, {name: turns.answer for name, turns in others.items()})
