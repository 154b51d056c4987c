"""Print the seconds and the peak memory of the command for files of 2 million, 20 million and 200 million rows.

    python benchmarks/stream_memory.py                    # needs a gigabyte in the temporary folder
    python benchmarks/stream_memory.py --write            # writes them into docs/large-data.md as well
    python benchmarks/stream_memory.py 2e6 2e7 --types f8,i8 --kind arrow
    python benchmarks/stream_memory.py 2e6 2e7 2e8 --groups 10

Each file has row groups of a million rows. ``calibrant report`` reports on it in a separate process, with intervals and
noise floors. The peak is the resident memory of that process, which only Linux reports.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq

GROUP = 1_000_000

#: The command, which prints its peak in kilobytes at its end. (getrusage includes the peak of the parent.)
COMMAND = """
import atexit, sys
from pathlib import Path
from calibrant.cli import main

def peak():
    status = Path("/proc/self/status").read_text()
    sys.stderr.write(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))

atexit.register(peak)
main()
"""


def write(path: Path, n: int, types: tuple[str, str], groups: int) -> int:
    """Write n rows; return the number of events."""
    rng, positives, writer = np.random.default_rng(20_261_122), 0, None
    for start in range(0, n, GROUP):
        size = min(GROUP, n - start)
        logits = rng.normal(-0.5, 1.8, size).astype("f4")
        outcomes = rng.random(size, dtype="f4") < 1 / (1 + np.exp(-0.8 * logits))
        columns = {"score": (1 / (1 + np.exp(-logits))).astype(types[0]), "outcome": outcomes.astype(types[1])}
        if groups:
            columns["model"] = np.array([f"model {k}" for k in range(groups)])[rng.integers(0, groups, size)]
        table = pa.table(columns)
        if writer is None and path.suffix == ".parquet":
            writer = pq.ParquetWriter(path, table.schema)
        elif writer is None:
            writer = ipc.new_file(str(path), table.schema)
        writer.write_table(table)
        positives += int(np.count_nonzero(outcomes))
    if writer is not None:
        writer.close()
    return positives


def report(path: Path, options: list[str]) -> tuple[dict[str, object], float, float]:
    """Run the command; return its JSON, the seconds it took and its peak memory in megabytes."""
    started = time.perf_counter()
    line = [sys.executable, "-c", COMMAND, "report", str(path), "--json", "-", *options]
    done = subprocess.run(line, capture_output=True, text=True)
    seconds = time.perf_counter() - started
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout), seconds, int(done.stderr) / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", type=float, default=[2e6, 2e7, 2e8])
    parser.add_argument("--types", default="f4,i1", help="of the scores and of the outcomes")
    parser.add_argument("--groups", type=int, default=0, help="report on so many groups as well")
    parser.add_argument("--kind", choices=("parquet", "arrow"), default="parquet")
    parser.add_argument("--write", action="store_true", help="write the table for the documentation")
    asked = parser.parse_args()
    score, outcome = asked.types.split(",")
    head = ("rows", "file", "table", "seconds", "rows a second", "peak memory")
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    print("\n".join(lines))
    with tempfile.TemporaryDirectory() as folder:
        report_on = ["--by", "model"] if asked.groups else []
        for n in map(int, asked.rows):
            path = Path(folder) / f"events.{asked.kind}"
            positives = write(path, n, (score, outcome), asked.groups)
            summary, seconds, peak = report(path, report_on)
            assert summary["n"] == n
            assert abs(summary["outcome_rate"] * n - positives) < 0.5
            kind = "sketch" if "table" in summary["estimates"]["ece"]["details"] else "exact"
            size = os.path.getsize(path) / 1e6
            lines.append(f"| {n:,} | {size:,.0f} MB | {kind} | {seconds:.1f} | {n / seconds:,.0f} | {peak:,.0f} MB |")
            print(lines[-1], flush=True)
            path.unlink()
    if asked.write:
        sys.path.insert(0, str(Path(__file__).parent.parent / "docs"))
        import shown

        shown.write({"large-files-figures.md": "\n".join(lines)})


if __name__ == "__main__":
    main()
