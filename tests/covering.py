"""Which cases of a product of parameters are quick: a few that cover it. The others are slow, and run with them.

A test may have parameters of several axes: several `parametrize`, or fixtures with parameters. In its quick cases each
pair of values of two axes occurs, or each value where there are two axes: the fewest cases that a greedy choice finds,
the values in turn. The mark ``covering`` selects whole products, for ``-m covering``.
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
        axes = getattr(item, "callspec", None)
        if axes is not None and len(axes._idlist) > 1 and not item.get_closest_marker("slow"):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in tests.values():
        # pytest has no public name for the values' names of each axis by itself.
        values = [tuple(case.callspec._idlist) for case in cases]
        chosen = covering(values)
        for k, case in enumerate(cases):
            if k not in chosen:
                case.add_marker("slow")


def covering(cases: Sequence[tuple[str, ...]]) -> set[int]:
    """Return the positions of cases that have every pair of values which any case has, or every value of two axes.

    A case names a value of each axis.
    """
    axes = [k for k in range(len(cases[0]) if cases else 0) if len({case[k] for case in cases}) > 1]
    held = [
        set(combinations([(k, case[k]) for k in axes], 2 if len(axes) > 2 else min(1, len(axes)))) for case in cases
    ]
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
