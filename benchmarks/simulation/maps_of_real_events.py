"""Fit maps to real predictions with `calibrant.recalibrate`: what is chosen, the gain, the ECE before and after.

    python benchmarks/simulation/maps_of_real_events.py          # minutes; writes docs/recalibration_events.csv
    python benchmarks/simulation/maps_of_real_events.py --print  # prints only

The predictions are read from the folder ../shared/data next to the repository. Missing files are left out. The
forecasts of governors are of 109 races, with many forecasts each. They stand twice in the table: with rows that are
dealt as if they were independent, which they are not, and with whole races.

The second table has the mean log loss of test rows with maps of all classes. Each of three seeded permutations divides
the rows: the maps are fitted to the first 1,000 or 5,000, and tested on the last 5,000. Both tables are shown on
benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import calibrant

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"
TABLE = ROOT / "docs" / "recalibration_events.csv"
sys.path.insert(0, str(ROOT / "docs"))

HEADINGS = {
    "recalibration_events.md": (
        "| event | N | map | decrease of the log loss (95 % CI) | p | ECE before | ECE after |",
        "|---|---|---|---|---|---|---|",
    ),
    "recalibration_classes.md": (
        "| predictions | rows of the fit | identity | temperature | vector | matrix | interval contains the gain |",
        "|---|---|---|---|---|---|---|",
    ),
}

NETWORKS = {
    "WRN CIFAR-10": "wideresnet-16-4-cifar-10",
    "DenseNet CIFAR-100": "densenet-bc-100-cifar-100",
}
METHODS = ("temperature", "vector", "matrix")
FITTED = (1_000, 5_000)
SPLITS = 3

COLUMNS = (
    "event", "n", "clusters", "map", "score", "gain", "gain_low", "gain_high", "p", "proven",
    "ece_before", "ece_before_low", "ece_before_high", "floor_before",
    "ece_after", "ece_after_low", "ece_after_high", "floor_after",
)  # fmt: skip


class Event(NamedTuple):
    """The arguments of `calibrant.recalibrate`."""

    name: str
    probs: Any
    targets: Any
    options: dict[str, Any]


def columns(name: str, *names: str) -> list[Any]:
    """Return columns of a file, as text."""
    with (DATA / name).open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    return [np.array([row[column] for row in rows]) for column in names]


def of_text(scores: Any, outcomes: Any) -> tuple[Any, Any, Any]:
    """Return the scores and outcomes of the rows that have both, and which rows these are."""
    held = (scores != "") & (outcomes != "")
    return scores[held].astype(np.float64), outcomes[held].astype(np.float64).astype(np.int64), held


def network(file: str) -> tuple[Any, Any]:
    with np.load(DATA / f"{file}.npz") as stored:
        return stored["predictions"], stored["ground_truth"].astype(np.int64).ravel()


def events() -> Iterator[Event]:
    for name, file in NETWORKS.items():
        if (DATA / f"{file}.npz").exists():
            yield Event(f"{name}, top label", *network(file), {"notion": "top-label"})
    for name, file in (("NBA", "nba_games.csv"), ("MLB", "mlb_games.csv")):
        if (DATA / file).exists():
            scores, outcomes, _ = of_text(*columns(file, "prob1", "prob1_outcome"))
            yield Event(name, scores, outcomes, {})
    file = "governors_elections.csv"
    if (DATA / file).exists():
        scores, outcomes, held = of_text(*columns(file, "probwin", "probwin_outcome"))
        years, states, special = columns(file, "year", "state", "special")
        races = np.char.add(np.char.add(years, states), special)[held]
        yield Event("governors, independent rows", scores, outcomes, {})
        yield Event("governors, races as clusters", scores, outcomes, {"clusters": races})


def result(event: Event) -> dict[str, Any]:
    """Return a row of the table."""
    fix = calibrant.recalibrate(event.probs, event.targets, **event.options)
    before, after = fix.before["ece"], fix.after["ece"]
    clusters = event.options.get("clusters")
    return {
        "event": event.name,
        "n": len(event.probs),
        "clusters": "" if clusters is None else len(np.unique(clusters)),
        "map": fix.chosen,
        "score": fix.gain.score,
        "gain": fix.gain.value,
        "gain_low": fix.gain.low,
        "gain_high": fix.gain.high,
        "p": fix.gain.p_value,
        "proven": fix.proven,
        "ece_before": before.value,
        "ece_before_low": before.low,
        "ece_before_high": before.high,
        "floor_before": before.floor.mean,
        "ece_after": after.value,
        "ece_after_low": after.low,
        "ece_after_high": after.high,
        "floor_after": after.floor.mean,
    }


def line(row: dict[str, Any]) -> str:
    """Return a row of the table in Markdown."""
    number = {name: f"{row[name]:.4f}" for name in COLUMNS if isinstance(row[name], float)}
    gain = "{gain} ({gain_low} to {gain_high})".format(**number)
    proven = f"{row['p']:.1g}" + ("" if row["proven"] else ": not proven")
    gained = gain if row["score"] == "log" else f"{gain}, of the Brier score"
    return (
        f"| {row['event']} | {row['n']:,} | {row['map']} | {gained} | {proven} | {number['ece_before']} "
        f"| {number['ece_after']} |"
    )


def loss(probs: Any, targets: Any) -> float:
    """Return the mean log loss of probabilities (N, C), which are at least 2^-126 as in the maps."""
    own = np.asarray(probs, np.float64)[np.arange(len(targets)), targets]
    return float(-np.log(np.maximum(own, 2.0**-126)).mean())


def losses_of_classes(name: str, file: str) -> Iterator[str]:
    """Yield the rows of the table of classes, in Markdown."""
    probs, targets = network(file)
    splits = [np.random.default_rng(seed).permutation(len(probs)) for seed in range(SPLITS)]
    tests = [order[max(FITTED) :] for order in splits]
    before = np.array([loss(probs[test], targets[test]) for test in tests])
    for n in FITTED:
        losses, covered = [], 0
        for method in METHODS:
            gains = []
            for order, test, unmapped in zip(splits, tests, before, strict=True):
                rows = order[:n]
                fix = calibrant.recalibrate(probs[rows], targets[rows], method=method, n_resamples=0)
                gains.append(unmapped - loss(fix.map(probs[test]), targets[test]))
                covered += bool(fix.gain.low <= gains[-1] <= fix.gain.high)
            losses.append(f"{before.mean() - np.mean(gains):.4f}")
        cells = [name, f"{n:,}", f"{before.mean():.4f}", *losses, f"{covered} of {SPLITS * len(METHODS)}"]
        yield f"| {' | '.join(cells)} |"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print", action="store_true", help="print only")
    options = parser.parse_args(arguments)
    rows = list(map(result, events()))
    of_classes = [
        text
        for name, file in NETWORKS.items()
        if (DATA / f"{file}.npz").exists()
        for text in losses_of_classes(name, file)
    ]
    tables = {
        name: "\n".join([*HEADINGS[name], *lines]) + "\n"
        for name, lines in zip(HEADINGS, (list(map(line, rows)), of_classes), strict=True)
    }
    print("\n".join(tables.values()))
    if options.print or not rows:
        return 0
    with TABLE.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)
    import shown

    shown.write(tables)
    return 0


if __name__ == "__main__":
    sys.exit(main())
