"""Record the results of everything public, and compare them with those of another version, bit for bit.

    python tools/same_numbers record before.json     # in a checkout of the version before
    python tools/same_numbers compare before.json    # in this one: exit status 1 if a result differs

A case calls public names alone, so that modules may move. Its results are numbers, errors, warnings and texts, without
the version. A difference is by rounding if it is at most 1e-12, relative. These are counted separately; ``--exact``
counts them as all others. ``--list`` shows every difference, not the first ones of each case. ``--only WORD`` runs the
cases whose names hold the word. A run without it fails if no case uses a public function, parameter, method or torch
metric, or an option of the command.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Before NumPy and the engines are imported: sums in one order on any machine.
for name in ("CALIBRANT", "OMP", "OPENBLAS", "MKL", "NUMBA"):
    os.environ[f"{name}_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from same_numbers import command, decisions, functions, metrics, public, reports, tables, values  # noqa: E402

_SHOWN = 5  # differences of a case that are listed

CASES = (reports.cases, functions.cases, tables.cases, metrics.cases, decisions.cases, command.cases)


def recorded(only: str, times: bool) -> dict[str, Any]:
    """Return the results of all cases whose names hold a word."""
    results: dict[str, Any] = {}
    for name, make, deep in _cases():
        if only not in name:
            continue
        if name in results:
            msg = f"two cases are named {name!r}"
            raise ValueError(msg)
        started = time.process_time()
        try:
            results[name] = values.attempt(make, deep=deep)
        except Exception as error:  # the package or the case is broken
            results[name] = {"broken": f"{type(error).__name__}: {error}"}
        if times:
            print(f"{time.process_time() - started:8.3f} s {name}")
    return results


def _cases() -> Iterator[tuple[str, Any, bool]]:
    for cases in CASES:
        yield from ((*case, False) for case in cases())
    yield from ((*case, True) for case in reports.texts())


def main() -> int:
    """Record or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("record", "compare"))
    parser.add_argument("path", type=Path)
    parser.add_argument("--exact", action="store_true", help="differences by rounding are differences")
    parser.add_argument("--list", action="store_true", help="list every difference")
    parser.add_argument("--only", default="", metavar="WORD", help="run the cases whose names hold this word")
    parser.add_argument("--times", action="store_true", help="print how long each case takes")
    args = parser.parse_args()
    gc.disable()  # it would look at the millions of numbers again and again
    started = time.process_time()
    now = recorded(args.only, args.times)
    left = [] if args.only else [*public.uncovered(), *command.uncovered()]
    for name in left:
        print(f"not covered: {name}")
    size = f"{len(now)} results of {_count(now)}, in {time.process_time() - started:.0f} s of one core"
    if args.command == "record":
        broken = [name for name, result in now.items() if isinstance(result, dict) and "broken" in result]
        for name in broken:
            print(f"broken: {name}: {now[name]['broken']}")
        args.path.write_text(json.dumps(now), encoding="utf-8")
        print(size)
        return int(bool(left or broken))
    before = json.loads(args.path.read_text(encoding="utf-8"))
    before = {name: result for name, result in before.items() if args.only in name}
    changed, rounded = compared(before, now, args.list)
    gone, new = before.keys() - now.keys(), now.keys() - before.keys()
    for word, names in (("gone", gone), ("new, not compared", new)):
        for name in sorted(names):
            print(f"{word}: {name}")
    print(f"{size}: {changed} differ, {rounded} by rounding, {len(gone)} cases gone, {len(new)} new")
    return int(bool(left or changed or gone or (args.exact and rounded)))


def compared(before: dict[str, Any], now: dict[str, Any], every: bool) -> tuple[int, int]:
    """Print how the results of each case differ; return how many differ, and how many by rounding alone."""
    changed = rounded = 0
    for name in (name for name in before if name in now):
        found = values.differences(before[name], json.loads(json.dumps(now[name])))
        if not found:
            continue
        by_rounding = sum(one.rounding for one in found)
        changed, rounded = changed + len(found) - by_rounding, rounded + by_rounding
        print(f"{name}: {len(found) - by_rounding} differ, {by_rounding} by rounding")
        for one in found if every else found[:_SHOWN]:
            print(f"    {one.path}{' (rounding)' if one.rounding else ''}: {one.words}")
    return changed, rounded


def _count(results: dict[str, Any]) -> str:
    """Return how many numbers and texts there are."""
    found = list(values.leaves(results))
    texts = sum(isinstance(leaf, str) for leaf in found)
    return f"{len(found) - texts:,} numbers and {texts:,} texts"


if __name__ == "__main__":
    sys.exit(main())
