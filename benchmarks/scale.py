"""Compute what a report on 1e12 rows costs, from measured figures, and print tables: python benchmarks/scale.py.

It measures the bytes of a row on disk, the time a core takes to read a row and to sum it up, the bytes of a sketch,
the time to read one back and add it, and the time of a report. The rest is multiplication.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ["CALIBRANT_NUM_THREADS"] = "1"  # figures per core; numbers do not depend on it

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import calibrant

ROWS = 4_000_000
TRILLION = 10**12
FILES = 10_000
CORES = 1_000


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """Return the median time of a call, after one to warm up."""
    work()
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def predictions(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return scores of every size, and their outcomes, without a pattern that compresses."""
    rng = np.random.default_rng(0)
    scores = rng.random(rows, dtype=np.float32)
    return scores, (rng.random(rows, dtype=np.float32) < scores).astype(np.int8)


def measured() -> dict[str, float]:
    """Return the figures of this machine, for one core."""
    pa.set_cpu_count(1)
    scores, outcomes = predictions(ROWS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "part.parquet"
        pq.write_table(pa.table({"score": scores, "outcome": outcomes}), path)
        size = path.stat().st_size

        def sketched() -> calibrant.CalibrationSketch:
            sketch = calibrant.CalibrationSketch()
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(1 << 20):
                    sketch.update(batch.column(0).to_numpy(), batch.column(1).to_numpy())
            return sketch

        read = seconds(lambda: pq.read_table(path, use_threads=False))
        summed = seconds(sketched)
        sketch = sketched()
    assert sketch.n == ROWS
    assert int(sketch.table.positives.sum()) == int(outcomes.sum())
    data, merged = sketch.to_bytes(), calibrant.CalibrationSketch()
    merge = seconds(lambda: merged.merge(calibrant.CalibrationSketch.from_bytes(data)), 50)
    return {
        "row_bytes": size / ROWS,
        "read": read / ROWS,
        "summed": summed / ROWS,
        "sketch_bytes": len(data),
        "memory": sketch.nbytes,
        "merge": merge,
        "report": seconds(lambda: calibrant.evaluate(merged), 3),
    }


def tables(figures: dict[str, float]) -> str:
    """Return the tables in Markdown."""
    per_row = figures["summed"]
    levels = -(-FILES // 100)
    lines = [
        "| measured, one core | figure |",
        "|---|---|",
        f"| a row on disk: float32 score and int8 outcome, Parquet | {figures['row_bytes']:.2f} bytes |",
        f"| reading a row with pyarrow alone | {figures['read'] * 1e9:.1f} ns |",
        f"| reading and summing up a row | {per_row * 1e9:.1f} ns |",
        f"| a sketch with every cell occupied, saved | {figures['sketch_bytes'] / 1e3:.0f} kB |",
        f"| the same in memory | {figures['memory'] / 1e3:.0f} kB |",
        f"| reading a saved sketch and adding it | {figures['merge'] * 1e3:.2f} ms |",
        f"| a report from a sketch, 1,000 resamples | {figures['report']:.2f} s |",
        "",
        f"| computed: 10¹² rows in {FILES:,} files, each summed up where it lies | |",
        "|---|---|",
        f"| bytes read from disk | {TRILLION * figures['row_bytes'] / 1e12:.1f} TB |",
        f"| time of processors, all files | {TRILLION * per_row / 3600:.1f} core hours |",
        f"| the same on {CORES:,} cores | {TRILLION * per_row / CORES:.0f} s |",
        f"| bytes moved to where they are added, one sketch a file | {FILES * figures['sketch_bytes'] / 1e9:.1f} GB |",
        f"| the same for one sketch a core | {CORES * figures['sketch_bytes'] / 1e6:.0f} MB |",
        f"| adding {FILES:,} sketches one by one | {FILES * figures['merge']:.0f} s |",
        f"| adding them a hundred at a time, then the {levels} | {(100 + levels) * figures['merge']:.2f} s |",
        f"| the report | {figures['report']:.2f} s |",
        f"| bytes moved if the rows were sent instead | {TRILLION * figures['row_bytes'] / 1e12:.1f} TB |",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(tables(measured()))
