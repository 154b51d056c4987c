"""Run the benchmarks, each file in a separate process, and write the table in README.md.

python benchmarks/run.py                 all of them, and rewrites the table
python benchmarks/run.py --quick         few rounds: prints the table and leaves README.md alone
python benchmarks/run.py --only ece corp only bench_ece.py and bench_corp.py: prints their rows likewise
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
README = HERE / "README.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
#: In the order of the table.
NAMES = (
    "evaluate",
    "ece",
    "smooth",
    "corp",
    "small",
    "start",
    "classwise",
    "updates",
    "measures",
    "inference",
    "stream",
    "frames",
    "spark",
    "leaderboard",
    "recalibrate",
)
PACKAGES = (
    "numpy",
    "numba",
    "torch",
    "torchmetrics",
    "torch-uncertainty",
    "scikit-learn",
    "relplot",
    "model-diagnostics",
    "probmetrics",
    "probcal",
    "dcurves",
    "pyarrow",
    "duckdb",
    "polars",
    "pandas",
    "pyspark",
)
COLUMNS = ("work", "ours", "floor", "peer", "ratio to floor", "ratio to peer", "goal", "met")
MEMORY_COLUMNS = ("input of `evaluate`", "size", "peak, process", "peak, NumPy", "allowed", "met")


def measure(name: str, *, quick: bool) -> tuple[int, list[dict[str, Any]]]:
    """Run one file; return pytest's exit status and the notes of each benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        command = [
            sys.executable,
            "-m",
            "pytest",
            str(HERE / f"bench_{name}.py"),
            "-q",
            "-n0",  # nothing else runs while it is timed
            "-p",
            "no:cacheprovider",
            "--benchmark-disable-gc",
            "--benchmark-columns=median,iqr,rounds",
            f"--benchmark-json={out}",
            *(["--quick"] if quick else []),
        ]
        status = subprocess.run(command, cwd=HERE.parent, check=False).returncode
        noted = json.loads(out.read_text()) if out.exists() and out.stat().st_size else {"benchmarks": []}
    return status, [benchmark["extra_info"] for benchmark in noted["benchmarks"] if benchmark["extra_info"]]


def seconds(value: float | None) -> str:
    if value is None:
        return "–"
    for unit, scale in (("s", 1), ("ms", 1e3)):
        if value * scale >= 1:
            return f"{value * scale:.3g} {unit}"
    return f"{value * 1e6:.3g} µs"


def ratio(value: float) -> str:
    return f"{value:.0f} ×" if value >= 99.5 else f"{value:.2g} ×" if value >= 10 else f"{value:.2f} ×"


def megabytes(value: float | None) -> str:
    return "–" if value is None else f"{value / 1e6:.1f} MB"


def cells(info: dict[str, Any]) -> list[str]:
    """Return one row of the table of times."""
    ours, floor, peers, goals = info["ours"], info["floor"], info["peers"], info["goals"]
    return [
        info["work"],
        seconds(ours),
        seconds(floor),
        "<br>".join(f"{name} {seconds(time)}" for name, time in peers.items()) or "–",
        ratio(ours / floor) if floor else "–",
        "<br>".join(f"{ratio(time / ours)} faster" if time >= ours else ratio(time / ours) for time in peers.values())
        or "–",
        "<br>".join(text for text, _ in goals) or "–",
        "<br>".join("yes" if met else "**no**" for _, met in goals) or "–",
    ]


def memory_cells(info: dict[str, Any]) -> list[str]:
    """Return one row of the table of memory."""
    met = max(info["resident"] or 0, info["traced"]) <= info["allowed"]
    return [
        f"{info['rows']:,} × 1,000, {info['layout']}" + (", classwise" if info["classwise"] else ""),
        *(megabytes(info[key]) for key in ("input", "resident", "traced", "allowed")),
        "yes" if met else "**no**",
    ]


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def machine() -> str:
    """Describe the machine and the versions, without anything that identifies its owner."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    return (
        f"Measured on {datetime.datetime.now(datetime.UTC).date()}: {processors} processors ({platform.machine()}), "
        f"{platform.system()}, Python {platform.python_version()}, {versions}."
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few rounds; README.md is left alone")
    parser.add_argument("--only", nargs="+", choices=NAMES, metavar="NAME", help=f"of {', '.join(NAMES)}")
    options = parser.parse_args()
    failed, noted = [], []
    for name in options.only or NAMES:
        status, infos = measure(name, quick=options.quick)
        noted += infos
        if status:
            failed.append(name)
    rows = [cells(info) for info in noted if "work" in info]
    memory = [memory_cells(info) for info in noted if "resident" in info]
    text = "\n\n".join(
        [machine(), *([table(COLUMNS, rows)] if rows else []), *([table(MEMORY_COLUMNS, memory)] if memory else [])]
    )
    print(text)
    if failed:
        print(f"failed: {', '.join(failed)}; {README.name} is left as it was", file=sys.stderr)
        return 1
    if not (options.quick or options.only):
        before, _, rest = README.read_text("utf-8").partition(BEGIN)
        _, _, after = rest.partition(END)
        README.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
