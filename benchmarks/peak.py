"""Print, as JSON, the extra memory at the peak of one `evaluate` in this process.

Usage: peak.py LAYOUT CLASSWISE. The kernels run first on few rows, so the memory of the compiler is not counted.

There are two meters, because each misses something. `tracemalloc` sees the allocations of NumPy, not those of compiled
code. The resident memory of the process counts everything, but only touched pages, and only on Linux, where the
high-water mark can be reset. Both must first measure an array of known size correctly.
"""

from __future__ import annotations

import json
import os
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

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
    """Return how far the resident memory rises during a call; None if it cannot be measured."""
    try:
        (_PROCESS / "clear_refs").write_text("5")  # resets the high-water mark
    except OSError:
        return None
    before = _status("VmRSS")
    call()
    return _status("VmHWM") - before


def traced_peak(call: Callable[[], Any]) -> int:
    """Return how far the memory allocated by NumPy and Python rises during a call."""
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def check_meters() -> None:
    """Reject a meter that misses an array of known size."""
    for meter in (resident_peak, traced_peak):
        measured = meter(lambda: np.ones(KNOWN // 8))
        if measured is not None and not 0.95 * KNOWN < measured < 1.05 * KNOWN:
            sys.exit(f"{meter.__name__} says {measured} bytes for an array of {KNOWN}")


def main(layout: str, classwise: bool) -> None:
    dtype, logits = np.float16 if layout == "float16" else np.float32, layout == "logits"
    values = np.empty((ROWS, CLASSES), dtype, order="F" if layout == "fortran" else "C")
    targets = class_logits(ROWS, CLASSES, values)
    if not logits:
        softmax(values, out=values)

    few = np.asarray(values[:64], order="F" if layout == "fortran" else "C")
    with mock.patch.dict(os.environ, CALIBRANT_KERNELS="numba"):  # the kernels of large inputs, compiled before
        calibrant.evaluate(few, targets[:64], logits=logits, classwise=classwise, level=None)
    check_meters()

    def call() -> calibrant.Report:
        return calibrant.evaluate(values, targets, logits=logits, classwise=classwise, level=None)

    resident, traced, report = resident_peak(call), traced_peak(call), call()
    expected = top_label(softmax(values) if logits else values, targets, 15).ece
    result = {
        "rows": ROWS,
        "input": values.nbytes,
        "resident": resident,
        "traced": traced,
        "ece": report["ece"].value,
        "expected": expected,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] == "1")
