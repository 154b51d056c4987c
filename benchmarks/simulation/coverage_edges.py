"""Coverage of the intervals of a report where an outcome is rare or does not occur: rates near 0 and 1, few rows.

Run with ``python benchmarks/simulation/coverage_edges.py``: 200 data sets a setting take four minutes on one core. It
writes docs/coverage-edges.csv; ``python benchmarks/coverage.py --page`` shows the table.

Scores are five levels, so that the true value of every measure is that of a table of the levels. A measure without an
interval for some data sets, such as the calibration slope of equal outcomes, is counted over the others: ``sets`` says
over how many. MCE and ACE are left out, because their true value depends on the bins of a data set.
"""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from calibrant import ReliabilityTable, evaluate
from calibrant.measures.event import Event
from calibrant.measures.listed import MEASURES, OF_LEVELS
from calibrant.measures.means.means import PredictionMeans

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs" / "coverage-edges.csv"

SETS = 200
SIZES = (5, 20, 50, 200)
LABELS = {measure.name: measure.label for measure in MEASURES}
LAWS: dict[str, tuple[list[float], Any]] = {
    "rare": ([0.001, 0.005, 0.01, 0.02, 0.05], lambda p: p),
    "rarer than the scores say": ([0.02, 0.04, 0.06, 0.1, 0.2], lambda p: p / 10),
    "one score of 0.01": ([0.01], lambda p: p),
    "certain and wrong": ([0.88, 0.92, 0.95, 0.97, 0.99], lambda p: 0 * p + 0.02),
    "likely": ([0.95, 0.97, 0.98, 0.99, 0.999], lambda p: p),
    "likelier than the scores say": ([0.3, 0.5, 0.7, 0.8, 0.9], lambda p: 1 - (1 - p) / 20),
}


def truth(scores: np.ndarray, rates: np.ndarray) -> dict[str, float]:
    """Return the value of every measure of a population of these equally frequent scores."""
    counts = np.full(len(scores), 1e9 / len(scores))
    table = ReliabilityTable(scores, counts, counts * rates, 10**9)
    event = Event(table=table, means=PredictionMeans.of_event(table, right=False))
    measures = (measure for measure in MEASURES if measure.judges != "classes" and measure not in OF_LEVELS)
    return {measure.name: event.value(measure) for measure in measures}


def drawn(scores: np.ndarray, rates: np.ndarray, n: int, each: int, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Return scores, outcomes and clusters of n rows; the rows of a cluster are copies."""
    level = rng.integers(0, len(scores), n // each)
    outcomes = (rng.random(n // each) < rates[level]).astype(int)
    clusters = None if each == 1 else np.repeat(np.arange(n // each), each)
    return np.repeat(scores[level], each), np.repeat(outcomes, each), clusters


def texts() -> dict[str, str]:
    """Return the table of the page of coverage, from the file: a line for each number of rows, over all scores."""
    with TABLE.open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    lines = [["rows", "equal outcomes", "mean coverage", "lowest coverage"], ["---"] * 4]
    for n, each in dict.fromkeys((row["rows"], row["rows_of_a_cluster"]) for row in rows):
        held = [row for row in rows if (row["rows"], row["rows_of_a_cluster"]) == (n, each)]
        equal = [float(row["equal_outcomes"]) for row in held]
        all_sets = [row for row in held if int(row["sets"]) == SETS]
        coverage = {law: [float(row["coverage"]) for row in all_sets if row["scores"] == law] for law in LAWS}
        means = [np.mean(values) for values in coverage.values()]
        lowest = min(all_sets, key=lambda row: float(row["coverage"]))
        worst = f"{float(lowest['coverage']):.3f} ({LABELS[lowest['measure']]}, scores *{lowest['scores']}*)"
        name = n if each == "1" else f"{n} in clusters of {each}"
        lines.append([name, f"{min(equal):.2f} to {max(equal):.2f}", f"{min(means):.3f} to {max(means):.3f}", worst])
    return {"coverage-edges.md": "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"}


def main() -> None:
    rows = []
    for law, (levels, rate) in LAWS.items():
        scores = np.array(levels)
        rates, true = rate(scores), truth(scores, rate(scores))
        for n, each in [(n, 1) for n in SIZES] + [(50, 2)]:
            rng, uniform = np.random.default_rng([n, each, len(law)]), 0
            found: dict[str, list[tuple[bool, float]]] = defaultdict(list)
            for _ in range(SETS):
                p, y, clusters = drawn(scores, rates, n, each, rng)
                uniform += int(y.min() == y.max())
                report = evaluate(p, y, clusters=clusters, profile="all", n_resamples=99)
                for name, one in report.items():
                    if name in true.keys() - {"ace", "mce"} and not math.isnan(one.high):
                        covers = one.low - 1e-9 <= true[name] <= one.high + 1e-9
                        found[name].append((covers, one.high - one.low))
            for name, sets in found.items():
                coverage, width = np.mean(sets, axis=0)
                rows.append([law, n, each, name, len(sets), uniform / SETS, round(coverage, 4), f"{width:.4g}"])
            print(
                law, n, each, *(f"{row[3]} {row[6]:.2f}" for row in rows if row[:3] == [law, n, each] and row[6] < 0.9)
            )
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(
            ["scores", "rows", "rows_of_a_cluster", "measure", "sets", "equal_outcomes", "coverage", "width"]
        )
        writer.writerows(rows)


if __name__ == "__main__":
    main()
