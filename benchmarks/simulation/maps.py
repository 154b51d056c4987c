"""Simulate maps of scores whose true gain is known: what each family gains, and whether the interval covers it.

    python benchmarks/simulation/maps.py            # an hour on one processor; writes docs/recalibration.csv
    python benchmarks/simulation/maps.py --quick    # a tenth of the data sets; prints only
    python benchmarks/simulation/maps.py --page     # no simulation: writes the tables of docs/recalibrate.md

Scores are drawn from three distributions, outcomes from a known rate of each score. The true gain of a map is the
difference of its expected log loss, over 100,000 scores, from that of the scores themselves.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

os.environ.setdefault("CALIBRANT_NUM_THREADS", "1")

import numpy as np
from scipy.special import expit, logit

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs" / "recalibration.csv"
sys.path.insert(0, str(ROOT / "docs"))

METHODS = ("identity", "temperature", "cox", "beta", "isotonic", "histogram", "auto")
SIZES = (200, 1_000, 5_000)
SETS = 100
POINTS = 100_000

Array = np.ndarray[Any, np.dtype[np.float64]]

SCORES: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "uniform": lambda rng, n: rng.uniform(0.005, 0.995, n),
    "U-shaped": lambda rng, n: rng.beta(0.5, 0.5, n).clip(1e-4, 1 - 1e-4),
    "rare": lambda rng, n: rng.beta(1, 9, n).clip(1e-4, 1 - 1e-4),
}

RATES: dict[str, Callable[[Array], Array]] = {
    "calibrated": lambda p: p,
    "slope 0.6": lambda p: expit(0.6 * logit(p)),
    "slope 1.5": lambda p: expit(1.5 * logit(p)),
    "shift 0.5": lambda p: expit(0.5 + logit(p)),
    "shift -0.5": lambda p: expit(-0.5 + logit(p)),
    "beta": lambda p: expit(0.4 + 1.6 * np.log(p) - 0.7 * np.log1p(-p)),
    "three steps": lambda p: np.where(p < 0.3, 0.1, np.where(p < 0.7, 0.45, 0.85)),
}

COLUMNS = ("method", "scores", "rate", "n", "sets", "gain", "worst", "kept", "covered", "proven_falsely")


def expected_loss(rates: Array, q: Array) -> float:
    """Return the mean log loss of probabilities q where events occur with these rates."""
    return float(-np.mean(rates * np.log(q) + (1 - rates) * np.log1p(-q)))


def setting(job: tuple[str, str, str, int, int]) -> dict[str, Any]:
    """Return the results of one method in one setting, over all its data sets."""
    import calibrant
    from calibrant.errors import InputError

    method, scores, rate, n, sets = job
    grid = SCORES[scores](np.random.default_rng(999), POINTS)
    rates = RATES[rate](grid)
    before = expected_loss(rates, grid)
    gains, covered, kept, false, used = [], 0, 0, 0, 0
    for seed in range(sets):
        rng = np.random.default_rng((seed, n))
        p = SCORES[scores](rng, n)
        y = (rng.random(n) < RATES[rate](p)).astype(np.int64)
        try:
            fix = calibrant.recalibrate(p, y, method=method, n_resamples=0)
        except InputError:  # fewer than five events
            continue
        gain = before - expected_loss(rates, fix.map(grid))
        used += 1
        gains.append(gain)
        covered += fix.gain.low - 1e-9 <= gain <= fix.gain.high + 1e-9
        kept += fix.chosen == "identity"
        false += fix.proven and gain <= 0
    return {
        "method": method,
        "scores": scores,
        "rate": rate,
        "n": n,
        "sets": used,
        "gain": float(np.mean(gains)),
        "worst": float(np.min(gains)),
        "kept": kept / used,
        "covered": covered / used,
        "proven_falsely": false / used,
    }


def jobs(sets: int) -> Iterator[tuple[str, str, str, int, int]]:
    for n in reversed(SIZES):
        for method in METHODS:
            if method != "identity":
                yield from ((method, scores, rate, n, sets) for scores in SCORES for rate in RATES)


def tables(rows: list[dict[str, str]]) -> str:
    """Return the tables of the page."""
    lines = [
        "| method | N | mean gain × 10⁴ | worst setting × 10⁴ | identity kept, calibrated | coverage: mean, lowest "
        "| proven with gain ≤ 0, highest |",
        "|---|---|---|---|---|---|---|",
    ]
    for method in METHODS[1:]:
        for n in SIZES:
            held = [row for row in rows if row["method"] == method and int(row["n"]) == n]
            if not held:
                continue
            of = {name: np.array([float(row[name]) for row in held]) for name in COLUMNS[5:]}
            calibrated = [float(row["kept"]) for row in held if row["rate"] == "calibrated"]
            kept = f"{np.mean(calibrated):.2f}" if method == "auto" else "–"
            lines.append(
                f"| {method} | {n:,} | {1e4 * of['gain'].mean():.0f} | {1e4 * of['gain'].min():.0f} | {kept} "
                f"| {of['covered'].mean():.2f}, {of['covered'].min():.2f} | {of['proven_falsely'].max():.2f} |"
            )
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the data sets; print only")
    parser.add_argument("--page", action="store_true", help="no simulation: write the tables of the page")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args(arguments)
    if not options.page:
        with ProcessPoolExecutor(options.processes) as pool:
            found = list(pool.map(setting, jobs(SETS // 10 if options.quick else SETS)))
        if options.quick:
            print(tables([{name: str(value) for name, value in row.items()} for row in found]))
            return 0
        with TABLE.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in found)
    import shown

    with TABLE.open(encoding="utf-8") as stream:
        text = tables(list(csv.DictReader(stream)))
    page = ROOT / "docs" / "recalibrate.md"
    page.write_text(shown.filled(page.read_text("utf-8"), {"recalibration.md": text}), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
