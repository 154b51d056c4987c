"""Simulate estimates of an event rate from scores without outcomes: coverage, and size and power of the check.

    python benchmarks/simulation/priors.py            # 10 minutes; writes docs/priors.csv; prints the tables
    python benchmarks/simulation/priors.py --quick    # a tenth of the data sets; prints only
    python benchmarks/simulation/priors.py --tables   # no simulation: prints the tables of docs/coverage.md

One event: a case has a normal number x with standard deviation 1 and the mean 0, or d with the event. Scores are the
probabilities of the event at a rate of 0.5 in training. AUROC is 0.58 with d = 0.3, 0.76 with d = 1 and 0.96 with
d = 2.5. The interval is for the rate that new cases are drawn with.

Clusters: each has its own rate, from a beta distribution with the mean of the setting and the correlation 0.2 of two
outcomes. "alone" is the coverage of the interval without clusters, and "flagged" the share of data sets with a caution
about few clusters.

Classes: a case of one of C classes has C normal numbers, of which that of its class has the mean 1.5. In training all
classes have the same share. New shares are proportional to 1, ..., C. Coverage is the mean over classes, and the least.

The check has as many reference scores as new scores. "size" is the share of data sets in which it rejects the
assumption where it holds; "changed" is that where cases with the event have 0.6 d for d; "confident" that where the
log-odds of the new scores, and not those of the reference, are 1.4 times as large. "at_zero" counts estimates of 0.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

os.environ.setdefault("CALIBRANT_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.special import softmax

import calibrant

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs" / "priors.csv"
COLUMNS = ("kind", "distance", "prior", "n", "clusters", "sets", "covered", "least", "width", "at_zero")
COLUMNS += ("alone", "flagged", "checked", "size", "changed", "confident")

TRAINED = 0.5
AUROC = {0.3: "AUROC 0.58", 1.0: "AUROC 0.76", 2.5: "AUROC 0.96"}
PRIORS = (0.002, 0.02, 0.2, 0.5)
SIZES = (50, 200, 1_000, 5_000)
SETS, CHECKED, SETS_OF_CLASSES, SETS_IN_CLUSTERS = 1_000, 300, 300, 500
CLASSES = ((3, 500), (10, 2_000))
OF_CLASSES = 1.5
CLUSTERS = (10, 20, 100)
CORRELATION = 0.2
LOW = 0.9  # coverage

Array = np.ndarray[Any, np.dtype[np.float64]]


def drawn(rng: np.random.Generator, rates: Array, distance: float, of_events: float) -> Array:
    """Return the log-odds of new cases with these rates, by the model of the training population."""
    x = rng.normal(size=len(rates)) + of_events * (rng.random(len(rates)) < rates)
    return distance * x - distance**2 / 2


def of_event(distance: float, prior: float, n: int, part: int) -> dict[str, Any]:
    """Return what the estimates of one setting have in common."""
    covered, widths, zeros = 0, [], 0
    for seed in range(SETS // part):
        scores = drawn(np.random.default_rng((seed, n)), np.full(n, prior), distance, distance)
        found = calibrant.prior_shift(scores, trained_prior=TRAINED, logits=True).estimate
        covered += found.low[0] <= prior <= found.high[0]
        widths.append(found.high[0] - found.low[0])
        zeros += found.value[0] == 0
    sets = len(widths)
    row = {"kind": "event", "distance": distance, "prior": prior, "n": n, "sets": sets, "covered": covered / sets}
    row |= {"least": covered / sets, "width": float(np.mean(widths)), "at_zero": zeros / sets}
    if n < SIZES[1]:
        return row
    violated = {"size": (distance, 1.0), "changed": (0.6 * distance, 1.0), "confident": (distance, 1.4)}
    for name, (of_events, slope) in violated.items():
        rejected = 0
        for seed in range(CHECKED // part):
            rng = np.random.default_rng((seed, n, 7))
            scores = slope * drawn(rng, np.full(n, prior), distance, of_events)
            rejected += rejects(scores, drawn(rng, np.full(n, TRAINED), distance, distance))
        row[name] = rejected / (CHECKED // part)
    return {**row, "checked": CHECKED // part}


def in_clusters(distance: float, prior: float, number: int, part: int) -> dict[str, Any]:
    """Return the coverage of the intervals with clusters, and without them."""
    n, sets, widths = SIZES[2], SETS_IN_CLUSTERS // part, []
    covered, alone, flagged, zeros = 0, 0, 0, 0
    for seed in range(sets):
        rng = np.random.default_rng((seed, number, 3))
        clusters, size = rng.integers(0, number, n), 1 / CORRELATION - 1
        rates = rng.beta(prior * size, (1 - prior) * size, number)
        scores = drawn(rng, rates[clusters], distance, distance)
        fix = calibrant.prior_shift(scores, trained_prior=TRAINED, logits=True, clusters=clusters)
        without = calibrant.prior_shift(scores, trained_prior=TRAINED, logits=True).estimate
        covered += fix.estimate.low[0] <= prior <= fix.estimate.high[0]
        alone += without.low[0] <= prior <= without.high[0]
        flagged += "clusters" in fix.flag
        zeros += fix.estimate.value[0] == 0
        widths.append(fix.estimate.high[0] - fix.estimate.low[0])
    row = {"kind": "clusters", "distance": distance, "prior": prior, "n": n, "clusters": number, "sets": sets}
    row |= {"covered": covered / sets, "least": covered / sets, "width": float(np.mean(widths))}
    return {**row, "at_zero": zeros / sets, "alone": alone / sets, "flagged": flagged / sets}


def rejects(scores: Array, reference: Array) -> bool:
    """Return whether the check rejects the assumption."""
    fix = calibrant.prior_shift(scores, trained_prior=TRAINED, logits=True, reference=reference)
    return fix.check is not None and fix.check.rejects


def of_classes(n_classes: int, n: int, part: int) -> dict[str, Any]:
    """Return the coverage of the shares of classes."""
    shares = np.arange(1, n_classes + 1) / (n_classes * (n_classes + 1) / 2)
    trained = [1 / n_classes] * n_classes
    covered, widths, zeros = np.zeros(n_classes), [], 0
    for seed in range(SETS_OF_CLASSES // part):
        rng = np.random.default_rng((seed, n, n_classes))
        x = rng.normal(size=(n, n_classes))
        x[np.arange(n), rng.choice(n_classes, n, p=shares)] += OF_CLASSES
        found = calibrant.prior_shift(softmax(OF_CLASSES * x, axis=1), trained_prior=trained).estimate
        low, high = np.array(found.low), np.array(found.high)
        covered += (low <= shares) & (shares <= high)
        widths.append(np.mean(high - low))
        zeros += 0 in found.value
    sets = len(widths)
    row = {"kind": f"{n_classes} classes", "distance": OF_CLASSES, "prior": "", "n": n, "sets": sets}
    row |= {"covered": covered.mean() / sets, "least": covered.min() / sets, "width": float(np.mean(widths))}
    return {**row, "at_zero": zeros / sets}


def texts() -> dict[str, str]:
    """Return the tables of the page of coverage, from the file."""
    with TABLE.open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    return {"priors.md": table(rows), "priors-clusters.md": table_of_clusters(rows)}


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the lowest and the highest share for each kind of scores."""
    lines = [["scores", "coverage", "size", "power: changed", "power: over-confident"], ["---"] * 5]
    kinds = {(row["kind"], row["distance"]): [] for row in rows if row["kind"] != "clusters"}
    for row in rows:
        if row["kind"] != "clusters":
            kinds[row["kind"], row["distance"]].append(row)
    for (kind, distance), held in kinds.items():
        ends = [
            [float(row[name]) for row in held if row.get(name) not in (None, "")] for name in ("covered", *COLUMNS[-3:])
        ]
        shares = [f"{min(each):.3f} – {max(each):.3f}" if each else "–" for each in ends]
        if kind != "event":
            shares[0] = f"{min(float(row['least']) for row in held):.3f} – {max(ends[0]):.3f}"
        lines.append([AUROC[float(distance)] if kind == "event" else kind, *shares])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def table_of_clusters(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the lowest and the highest coverage for each number of clusters, and without clusters."""
    heads = [
        "scores",
        *(f"{number} clusters" for number in CLUSTERS),
        "rows as independent",
        f"flagged, coverage below {LOW}",
    ]
    lines = [heads, ["---"] * len(heads)]
    for distance in list(AUROC)[1:]:
        held = [row for row in rows if row["kind"] == "clusters" and float(row["distance"]) == distance]
        parts = [[float(row["covered"]) for row in held if int(row["clusters"]) == number] for number in CLUSTERS]
        parts.append([float(row["alone"]) for row in held])
        parts.append([float(row["flagged"]) for row in held if float(row["covered"]) < LOW])
        lines.append([AUROC[distance], *(f"{min(part):.3f} – {max(part):.3f}" if part else "–" for part in parts)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the data sets; print only")
    parser.add_argument("--tables", action="store_true", help="no simulation: print the tables of the file")
    options = parser.parse_args(arguments)
    if options.tables:
        print(*texts().values(), sep="\n", end="")
        return 0
    part, rows = 10 if options.quick else 1, []
    for setting in product(AUROC, PRIORS, SIZES):
        print(*setting, file=sys.stderr, flush=True)
        rows.append(of_event(*setting, part))
    rows += [in_clusters(*setting, part) for setting in product(list(AUROC)[1:], PRIORS[1:], CLUSTERS)]
    rows += [of_classes(*setting, part) for setting in CLASSES]
    if not options.quick:
        with TABLE.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)
    print(table(rows), table_of_clusters(rows), sep="\n", end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
