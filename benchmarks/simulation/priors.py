"""Simulate estimates of an event rate from scores without outcomes: coverage, and size and power of the check.

    python benchmarks/simulation/priors.py            # 10 minutes; writes docs/priors.csv; prints the table
    python benchmarks/simulation/priors.py --quick    # a tenth of the data sets; prints only
    python benchmarks/simulation/priors.py --tables   # no simulation: prints the section of docs/coverage.md

One event: a case has a normal number x with standard deviation 1 and the mean 0, or d with the event. Scores are the
probabilities of the event at a rate of 0.5 in training. AUROC is 0.76 with d = 1 and 0.96 with d = 2.5. The interval
is for the rate that new cases are drawn with.

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
COLUMNS = ("kind", "distance", "prior", "n", "sets", "covered", "least", "width", "at_zero")
COLUMNS += ("checked", "size", "changed", "confident")

TRAINED = 0.5
DISTANCES = (1.0, 2.5)
PRIORS = (0.02, 0.2, 0.5)
SIZES = (200, 1_000, 5_000)
SETS, CHECKED, SETS_OF_CLASSES = 1_000, 300, 300
CLASSES = ((3, 500), (10, 2_000))
OF_CLASSES = 1.5

Array = np.ndarray[Any, np.dtype[np.float64]]


def drawn(rng: np.random.Generator, n: int, prior: float, distance: float, of_events: float) -> Array:
    """Return the log-odds of new cases, by the model of the training population."""
    x = rng.normal(size=n) + of_events * (rng.random(n) < prior)
    return distance * x - distance**2 / 2


def of_event(distance: float, prior: float, n: int, part: int) -> dict[str, Any]:
    """Return what the estimates of one setting have in common."""
    covered, widths, zeros = 0, [], 0
    for seed in range(SETS // part):
        rng = np.random.default_rng((seed, n))
        scores = drawn(rng, n, prior, distance, distance)
        found = calibrant.prior_shift(trained_prior=TRAINED, probs=scores, logits=True).estimate
        covered += found.low[0] <= prior <= found.high[0]
        widths.append(found.high[0] - found.low[0])
        zeros += found.value[0] == 0
    sets = len(widths)
    row = {"kind": "event", "distance": distance, "prior": prior, "n": n, "sets": sets, "covered": covered / sets}
    row |= {"least": covered / sets, "width": float(np.mean(widths)), "at_zero": zeros / sets}
    violated = {"size": (distance, 1.0), "changed": (0.6 * distance, 1.0), "confident": (distance, 1.4)}
    for name, (of_events, slope) in violated.items():
        rejected = 0
        for seed in range(CHECKED // part):
            rng = np.random.default_rng((seed, n, 7))
            scores = slope * drawn(rng, n, prior, distance, of_events)
            reference = drawn(rng, n, TRAINED, distance, distance)
            rejected += rejects(scores, reference)
        row[name] = rejected / (CHECKED // part)
    return {**row, "checked": CHECKED // part}


def rejects(scores: Array, reference: Array) -> bool:
    """Return whether the check rejects the assumption."""
    fix = calibrant.prior_shift(trained_prior=TRAINED, probs=scores, logits=True, reference=reference)
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
        found = calibrant.prior_shift(trained_prior=trained, probs=softmax(OF_CLASSES * x, axis=1)).estimate
        low, high = np.array(found.low), np.array(found.high)
        covered += (low <= shares) & (shares <= high)
        widths.append(np.mean(high - low))
        zeros += any(found.at_end)
    sets = len(widths)
    row = {"kind": f"{n_classes} classes", "distance": OF_CLASSES, "prior": "", "n": n, "sets": sets}
    row |= {"covered": covered.mean() / sets, "least": covered.min() / sets, "width": float(np.mean(widths))}
    return {**row, "at_zero": zeros / sets}


SECTION = """## Event rates without outcomes

`calibrant.prior_shift` estimates an event rate from scores without outcomes. The scores are those of a model that was
trained with as many events as non-events. *Coverage* is that of the 95 % interval, and *estimate 0* the share of data
sets in which the most likely rate is 0. There the scores hardly show the rate, and the interval covers it more often.
*Size* is the share of data sets in which the check of the assumption rejects it although it holds. The power is that
share where scores of events changed, and where the new scores are over-confident. A change of the events that looks
like a lower rate is hard to find. There are 1,000 data sets for each coverage (standard error 0.007) and 300 for each
share of the check (0.013 at 0.05), with as many reference scores as new scores. Classes have 300 data sets, and the
coverage is the mean over classes, and the lowest:
"""
SOURCE = """[priors.csv](priors.csv) contains all numbers, and `benchmarks/simulation/priors.py` repeats the simulation.
"""


def section() -> str:
    """Return the part of the page of coverage, from the file."""
    with TABLE.open(encoding="utf-8") as stream:
        return "\n".join([SECTION, table(list(csv.DictReader(stream))), SOURCE])


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a row for each setting."""
    head = (
        "scores",
        "event rate",
        "N",
        "coverage",
        "mean width",
        "estimate 0",
        "size",
        "power: changed, over-confident",
    )
    lines = [head, ["---"] * len(head)]
    for row in rows:
        name = {1.0: "AUROC 0.76", 2.5: "AUROC 0.96"}.get(float(row["distance"]), row["kind"])
        covered = f"{float(row['covered']):.3f}"
        checks = [f"{float(row[name]):.3f}" if row.get(name) not in (None, "") else "–" for name in COLUMNS[-3:]]
        if row["kind"] != "event":
            covered += f", {float(row['least']):.3f}"
            checks = ["–", "–", ""]
        power = ", ".join(filter(None, checks[1:]))
        numbers = [f"{float(row['width']):.3f}", f"{float(row['at_zero']):.3f}", checks[0], power]
        lines.append([name, str(row["prior"] or "–"), f"{int(row['n']):,}", covered, *numbers])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the data sets; print only")
    parser.add_argument("--tables", action="store_true", help="no simulation: print the table of the file")
    options = parser.parse_args(arguments)
    if options.tables:
        print(section(), end="")
        return 0
    part, rows = 10 if options.quick else 1, []
    for setting in product(DISTANCES, PRIORS, SIZES):
        print(*setting, file=sys.stderr, flush=True)
        rows.append(of_event(*setting, part))
    rows += [of_classes(*setting, part) for setting in CLASSES]
    if not options.quick:
        with TABLE.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)
    print(table(rows), end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
