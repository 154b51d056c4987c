"""Which cases of a test with parameters are quick: about four. The others are slow, and run with them.

A test may have parameters of several axes: several `parametrize`, or fixtures with parameters. In its quick cases each
value of each axis occurs, or four of an axis with more values. Tests of one list take different values of it. With the
mark ``every_value`` each value occurs in any case. The mark ``covering`` selects whole products, for ``-m covering``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from zlib import crc32

import pytest

FEW = 4


def mark_uncovered(items: Iterable[pytest.Item]) -> None:
    """Mark as slow the cases that the quick tests do without."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if hasattr(item, "callspec") and not any(map(item.get_closest_marker, ("slow", "examples", "spark"))):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for name, cases in tests.items():
        # pytest has no public name for the values' names of each axis by itself.
        few = len(cases) if cases[0].get_closest_marker("every_value") else FEW
        chosen = covering([tuple(case.callspec._idlist) for case in cases], few, crc32(name.encode()))
        for k, case in enumerate(cases):
            if k not in chosen:
                case.add_marker("slow")


def covering(cases: Sequence[tuple[str, ...]], few: int = FEW, start: int = 0) -> set[int]:
    """Return the positions of the fewest cases, by a greedy choice, that have a few values of each axis.

    A case names a value of each axis. The values are at equal distances, from a start on.
    """
    missing: set[tuple[int, str]] = set()
    for axis, column in enumerate(zip(*cases, strict=True)):
        values = list(dict.fromkeys(column))
        n = min(few, len(values))
        missing |= {(axis, values[(start + k * len(values) // n) % len(values)]) for k in range(n)}
    held = [set(enumerate(case)) & missing for case in cases]
    times: Counter[tuple[int, str]] = Counter()
    chosen: set[int] = set()
    while missing:
        # The case with the most that is missing; of several, the one whose values were chosen least.
        best = max(range(len(cases)), key=lambda k: (len(held[k] & missing), -sum(times[value] for value in held[k])))
        chosen.add(best)
        missing -= held[best]
        times.update(held[best])
    return chosen
