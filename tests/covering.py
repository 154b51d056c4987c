"""Which cases of a product of parameters are quick: a few that cover it. The others are slow, and run with them.

A test marked ``covering`` has parameters of several axes: several `parametrize`, or fixtures with parameters. In its
quick cases each pair of values of two axes occurs, or each value where there are two axes: the fewest cases that a
greedy choice finds, the values in turn. ``covering(k)`` asks for each combination of values of k axes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations

import pytest


def mark_uncovered(items: Iterable[pytest.Item]) -> None:
    """Mark as slow the cases that the quick tests do without."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("covering") and not item.get_closest_marker("slow"):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in tests.values():
        # pytest has no public name for the values' names of each axis by itself.
        values = [tuple(case.callspec._idlist) for case in cases]
        chosen = covering(values, *cases[0].get_closest_marker("covering").args)
        for k, case in enumerate(cases):
            if k not in chosen:
                case.add_marker("slow")


def covering(cases: Sequence[tuple[str, ...]], strength: int | None = None) -> set[int]:
    """Return the positions of cases that have all combinations of ``strength`` values which any case has.

    A case names a value of each axis. Without a strength it is 2, or 1 if there are just two axes.
    """
    axes = [k for k in range(len(cases[0]) if cases else 0) if len({case[k] for case in cases}) > 1]
    if strength is None:
        strength = 2 if len(axes) > 2 else 1
    held = [set(combinations([(k, case[k]) for k in axes], min(strength, len(axes)))) for case in cases]
    missing: set[tuple[tuple[int, str], ...]] = set().union(*held)
    times: Counter[tuple[int, str]] = Counter()
    chosen: set[int] = set()
    while missing:
        # The case with the most that is missing; of several, the one whose values were chosen least.
        best = max(
            range(len(cases)),
            key=lambda k: (len(held[k] & missing), -sum(times[axis, cases[k][axis]] for axis in axes)),
        )
        chosen.add(best)
        missing -= held[best]
        times.update((axis, cases[best][axis]) for axis in axes)
    return chosen
