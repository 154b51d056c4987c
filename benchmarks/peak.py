"""Prints, as JSON, the extra memory at the peak of one `evaluate` in this process of its own.

Usage: peak.py LAYOUT CLASSWISE. The kernels have run before, on few rows: what the compiler takes is not counted.

Two meters, since each is blind to something: `tracemalloc` sees what NumPy asks for, not what compiled code does; the
process's resident memory is everything, but only pages that were touched, and on Linux only, where the high-water mark
can be reset. Both must see an array of a known size before they are believed.
"""

from __future__ import annotations

import json
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from naive import top_label
from samples import class_logits, softmax

import calibrant

ROWS, CLASSES = 50_000, 1_000
KNOWN = 16_000_000
_PROCESS = Path("/proc/self")


def _status(name: str) -> int:
    """Return a line of the process's status, in bytes."""
    lines = (_PROCESS / "status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def resident_peak(call: Callable[[], Any]) -> int | None:
    """Return how far the resident memory rises during a call; None where it cannot be told."""
    try:
        (_PROCESS / "clear_refs").write_text("5")  # resets the high-water mark
    except OSError:
        return None
    before = _status("VmRSS")
    call()
    return _status("VmHWM") - before


def traced_peak(call: Callable[[], Any]) -> int:
    """Return how far the memory that NumPy and Python asked for rises during a call."""
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def check_meters() -> None:
    """Measure something known."""
    for meter in (resident_peak, traced_peak):
        found = meter(lambda: np.ones(KNOWN // 8))
        if found is not None and not 0.95 * KNOWN < found < 1.05 * KNOWN:
            sys.exit(f"{meter.__name__} says {found} bytes for an array of {KNOWN}")


def main(layout: str, classwise: bool) -> None:
    dtype, logits = np.float16 if layout == "float16" else np.float32, layout == "logits"
    values = np.empty((ROWS, CLASSES), dtype, order="F" if layout == "fortran" else "C")
    targets = class_logits(ROWS, CLASSES, values)
    if not logits:
        softmax(values, out=values)

    few = np.asarray(values[:64], order="F" if layout == "fortran" else "C")
    calibrant.evaluate(few, targets[:64], logits=logits, classwise=classwise, level=None)
    check_meters()

    def call() -> calibrant.Report:
        return calibrant.evaluate(values, targets, logits=logits, classwise=classwise, level=None)

    resident, traced, report = resident_peak(call), traced_peak(call), call()
    expected = top_label(softmax(values) if logits else values, targets, 15).ece
    found = {
        "rows": ROWS,
        "input": values.nbytes,
        "resident": resident,
        "traced": traced,
        "ece": report["ece"].value,
        "expected": expected,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] == "1")
