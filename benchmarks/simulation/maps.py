"""Simulate maps of scores whose true gain is known: what each family gains, and whether the interval covers it.

    python benchmarks/simulation/maps.py            # writes four files of docs
    python benchmarks/simulation/maps.py --quick    # a tenth of the data sets; prints only
    python benchmarks/simulation/maps.py --page     # no simulation: writes the table of docs/coverage.md
    python benchmarks/simulation/maps.py --only classes --methods auto  # a part of it

Events: scores are drawn from four distributions, outcomes from a known rate of each score. The true gain of a map is
the difference of its expected log loss, over 100,000 scores, from that of the scores themselves. The votes of 50 trees
are 0 or 1 in many rows. These scores are right, so that moving them costs; the three steps would make them wrong.

Classes: four classes with logits of standard deviation 2, and four kinds of error. The true gain is over 20,000 rows.

Clusters: the log-odds of an outcome are 0.7 times those of the score, and an effect of the cluster with standard
deviation 1. The true gain is over clusters that are not in the data. Maps are proven with rows, and with clusters.

Confident scores: a few errors are expected at most, and many samples have none. Scores of one event are 0.0025 and
0.9975, or their log-odds are ±Normal(m, 0.7); of C classes, the logit of one is larger by log(C - 1) + Normal(6, 0.7)
than the others, about. The true log-odds are those of the scores times a slope: below 1 the scores are over-confident.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

os.environ.setdefault("CALIBRANT_NUM_THREADS", "1")

import numpy as np
from scipy.special import expit, log_softmax, logit, softmax, xlog1py, xlogy

ROOT = Path(__file__).resolve().parents[2]
TABLES = {
    "events": ROOT / "docs" / "recalibration.csv",
    "classes": ROOT / "docs" / "recalibration_classes.csv",
    "clusters": ROOT / "docs" / "recalibration_clusters.csv",
    "confident": ROOT / "docs" / "recalibration_confident.csv",
}
sys.path.insert(0, str(ROOT / "docs"))

N_CLASSES = 4
CLASS_METHODS = ("temperature", "vector", "matrix", "auto")
CLASS_SIZES = (300, 1_000)
METHODS = ("identity", "temperature", "cox", "beta", "isotonic", "histogram", "auto")
SIZES = (200, 1_000, 5_000)
SETS = 100
POINTS = 100_000

Array = np.ndarray[Any, np.dtype[np.float64]]

SCORES: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "uniform": lambda rng, n: rng.uniform(0.005, 0.995, n),
    "U-shaped": lambda rng, n: rng.beta(0.5, 0.5, n).clip(1e-4, 1 - 1e-4),
    "rare": lambda rng, n: rng.beta(1, 9, n).clip(1e-4, 1 - 1e-4),
    "votes": lambda rng, n: rng.binomial(50, rng.beta(0.5, 0.5, n)) / 50,
}


def log(p: Array) -> Array:
    """Return the logarithm, also of 0."""
    with np.errstate(divide="ignore"):
        return np.log(p)


RATES: dict[str, Callable[[Array], Array]] = {
    "calibrated": lambda p: p,
    "slope 0.6": lambda p: expit(0.6 * logit(p)),
    "slope 1.5": lambda p: expit(1.5 * logit(p)),
    "shift 0.5": lambda p: expit(0.5 + logit(p)),
    "shift -0.5": lambda p: expit(-0.5 + logit(p)),
    "beta": lambda p: expit(0.4 + 1.6 * log(p) - 0.7 * log(1 - p)),
    "three steps": lambda p: np.where(p < 0.3, 0.1, np.where(p < 0.7, 0.45, 0.85)),
}

#: From log-probabilities to log-odds of the truth, but for a constant of each row.
ERRORS: dict[str, Callable[[Array], Array]] = {
    "calibrated": lambda z: z,
    "temperature 2": lambda z: 0.5 * z,
    "temperature 0.7": lambda z: 1.4 * z,
    "shifts": lambda z: 0.7 * z + np.array([0.6, 0.2, -0.2, -0.6]),
    "mixing": lambda z: z @ np.array([[0.7, 0.25, 0, 0], [0.25, 0.7, 0, 0], [0, 0, 0.7, 0.25], [0, 0, 0.25, 0.7]]),
}

#: What is written of each simulation: its settings, and what the fits have in common.
SETTINGS = {
    "events": ("method", "scores", "rate", "n"),
    "classes": ("method", "error", "n"),
    "clusters": ("method", "dealt", "clusters"),
    "confident": ("method", "scores", "slope", "n"),
}
MEASURED = ("sets", "gain", "worst", "kept", "covered", "proven_falsely")


def expected_loss(rates: Array, q: Array) -> float:
    """Return the mean log loss of probabilities q where events occur with these rates."""
    return float(-np.mean(xlogy(rates, q) + xlog1py(1 - rates, -q)))


def measured(sets: int, made: Callable[[int], tuple[Any, float]]) -> dict[str, Any]:
    """Return what the fits of all data sets have in common: ``made`` returns a fit and its true gain."""
    from calibrant.errors import InputError

    gains, covered, kept, false = [], 0, 0, 0
    for seed in range(sets):
        try:
            fix, gain = made(seed)
        except InputError:  # fewer than five events
            continue
        gains.append(gain)
        covered += fix.gain.low - 1e-9 <= gain <= fix.gain.high + 1e-9
        kept += fix.chosen == "identity"
        false += fix.proven and gain <= 0
    sets = len(gains)
    return {
        "sets": sets,
        "gain": float(np.mean(gains)),
        "worst": float(np.min(gains)),
        "kept": kept / sets,
        "covered": covered / sets,
        "proven_falsely": false / sets,
    }


def setting_of_events(job: tuple[str, str, str, int, int]) -> dict[str, Any]:
    """Return the results of one method in one setting, over all its data sets."""
    import calibrant

    method, scores, rate, n, sets = job
    grid = SCORES[scores](np.random.default_rng(999), POINTS)
    rates = RATES[rate](grid)
    before = expected_loss(rates, grid)

    def made(seed: int) -> tuple[Any, float]:
        rng = np.random.default_rng((seed, n))
        p = SCORES[scores](rng, n)
        y = (rng.random(n) < RATES[rate](p)).astype(np.int64)
        fix = calibrant.recalibrate(p, y, method=method, n_resamples=0)
        return fix, before - expected_loss(rates, fix.map(grid))

    return {"method": method, "scores": scores, "rate": rate, "n": n, **measured(sets, made)}


def setting_of_classes(job: tuple[str, str, int, int]) -> dict[str, Any]:
    """Return the results of one method for one kind of error of four classes."""
    import calibrant

    method, error, n, sets = job

    def drawn(seed: int, number: int) -> tuple[Array, Array]:
        logits = 2 * np.random.default_rng((seed, n, 4)).normal(size=(number, N_CLASSES))
        return softmax(logits, axis=1), softmax(ERRORS[error](log_softmax(logits, axis=1)), axis=1)

    new, truth = drawn(999_999, 20_000)

    def made(seed: int) -> tuple[Any, float]:
        p, q = drawn(seed, n)
        y = (np.random.default_rng((seed, n, 5)).random((n, 1)) > q.cumsum(axis=1)).sum(axis=1).clip(max=N_CLASSES - 1)
        fix = calibrant.recalibrate(p, y, method=method, n_resamples=0)
        return fix, float(np.mean(np.sum(truth * (np.log(fix.map(new)) - np.log(new)), axis=1)))

    return {"method": method, "error": error, "n": n, **measured(sets, made)}


def setting_of_clusters(job: tuple[str, str, int, int]) -> dict[str, Any]:
    """Return the results of one method with so many clusters of 20 rows, proven with rows or with clusters."""
    import calibrant

    method, dealt, number, sets = job
    grid = np.linspace(-6, 6, 2001)
    density = np.exp(-(grid**2) / 8)
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    rates = expit(0.7 * grid[:, None] + nodes) @ (weights / weights.sum())

    def loss(log_odds: Array) -> float:
        losses = rates * np.logaddexp(0, -log_odds) + (1 - rates) * np.logaddexp(0, log_odds)
        return float(np.sum(density * losses) / density.sum())

    def made(seed: int) -> tuple[Any, float]:
        rng = np.random.default_rng((seed, number))
        z, effects = 2 * rng.normal(size=(number, 20)), rng.normal(size=(number, 1))
        y = rng.random(z.shape) < expit(0.7 * z + effects)
        clusters = np.repeat(np.arange(number), 20) if dealt == "clusters" else None
        fix = calibrant.recalibrate(
            expit(z).ravel(), y.ravel().astype(int), method=method, clusters=clusters, n_resamples=0
        )
        return fix, loss(grid) - loss(logit(fix.map(expit(grid))))

    return {"method": method, "dealt": dealt, "clusters": number, **measured(sets, made)}


def confident_logits(scores: str, rng: np.random.Generator, n: int) -> Array:
    """Return the log-odds of confident scores (n, 1), or logits of classes (n, C)."""
    kind, number = scores.split(" ")
    if kind == "classes":
        logits = 0.3 * rng.normal(size=(n, int(number)))
        logits[np.arange(n), rng.integers(0, int(number), n)] += rng.normal(6, 0.7, n) + np.log(int(number) - 1)
        return logits
    sizes = np.full(n, logit(float(number))) if kind == "scores" else rng.normal(float(number), 0.7, n)
    return (rng.choice([-1, 1], n) * sizes)[:, np.newaxis]


def setting_of_confident(job: tuple[str, str, float, int, int]) -> dict[str, Any]:
    """Return the results of one method for confident scores, whose true log-odds are these times a slope."""
    import calibrant

    method, scores, slope, n, sets = job

    def probabilities(logits: Array) -> Array:
        return softmax(logits if logits.shape[1] > 1 else np.pad(logits, ((0, 0), (1, 0))), axis=1)

    grid = confident_logits(scores, np.random.default_rng(999), 20_000)
    new, truth = probabilities(grid), probabilities(slope * grid)

    def made(seed: int) -> tuple[Any, float]:
        rng = np.random.default_rng((seed, n))
        logits = confident_logits(scores, rng, n)
        drawn = rng.random((n, 1)) > probabilities(slope * logits).cumsum(axis=1)
        p, y = probabilities(logits), drawn.sum(axis=1).clip(max=new.shape[1] - 1)
        event = logits.shape[1] == 1
        fix = calibrant.recalibrate(p[:, 1] if event else p, y, method=method, n_resamples=0)
        mapped = fix.map(new[:, 1] if event else new)
        mapped = np.stack([1 - mapped, mapped], axis=1) if event else mapped
        return fix, float(np.mean(np.sum(truth * (np.log(mapped) - np.log(new)), axis=1)))

    return {"method": method, "scores": scores, "slope": slope, "n": n, **measured(sets, made)}


#: Confident scores, the slope of the true log-odds, and N.
CONFIDENT = (
    ("scores 0.9975", 1.0, 200),
    ("scores 0.9975", 1.0, 1_000),
    ("normal 6", 1.0, 200),
    ("normal 6", 1.0, 500),
    ("normal 6", 0.88, 200),
    ("normal 6", 0.88, 500),
    ("normal 6", 0.88, 1_000),
    ("normal 8", 1.0, 3_000),
    ("normal 8", 0.88, 3_000),
    ("classes 3", 1.0, 200),
    ("classes 3", 0.88, 500),
    ("classes 10", 1.0, 300),
    ("classes 10", 0.88, 500),
    ("classes 100", 1.0, 1_000),
)


def jobs(of: str, sets: int) -> Iterator[tuple[Any, ...]]:
    """Yield the arguments of a simulation's settings, the longest first."""
    if of == "events":
        for n in reversed(SIZES):
            for method in METHODS:
                if method != "identity":
                    for scores, rate in product(SCORES, RATES):
                        if (scores, rate) != ("votes", "three steps"):
                            yield method, scores, rate, n, sets
    elif of == "classes":
        yield from ((m, error, n, sets) for n in reversed(CLASS_SIZES) for m in CLASS_METHODS for error in ERRORS)
    elif of == "confident":
        yield from (("auto", *setting, sets) for setting in CONFIDENT)
        yield from (("temperature", *setting, sets) for setting in CONFIDENT if setting[0].startswith("normal"))
    else:
        yield from ((m, dealt, n, sets) for n in (100, 40) for m in ("cox", "auto") for dealt in ("rows", "clusters"))


#: What the simulations are called on the page.
NAMES = {
    "events": "one event",
    "classes": "four classes",
    "clusters": "clusters, proven with ",
    "confident": "confident scores",
}


def table(rows: dict[str, list[dict[str, str]]]) -> str:
    """Return the table of the page: means and extremes over all settings of a simulation and a method."""
    lines = [
        "| data | method | mean gain × 10⁴ | worst setting × 10⁴ | coverage: mean, lowest "
        "| proven with gain ≤ 0, highest |",
        "|---|---|---|---|---|---|",
    ]
    kept = []
    for of, found in rows.items():
        name = NAMES[of]
        for method, dealt in dict.fromkeys((row["method"], row.get("dealt", "")) for row in found):
            if dealt and method != "auto":
                continue
            held = [row for row in found if (row["method"], row.get("dealt", "")) == (method, dealt)]
            columns = {each: np.array([float(row[each]) for row in held]) for each in MEASURED[1:]}
            calibrated = [float(row["kept"]) for row in held if "calibrated" in (row.get("rate"), row.get("error"))]
            if method == "auto" and calibrated:
                kept.append(f"{np.mean(calibrated):.2f} ({name})")
            lines.append(
                f"| {name}{dealt} | {method} | {1e4 * columns['gain'].mean():.0f} | {1e4 * columns['gain'].min():.1f} "
                f"| {columns['covered'].mean():.2f}, {columns['covered'].min():.2f} "
                f"| {columns['proven_falsely'].max():.2f} |"
            )
    of_kept = f"The share of calibrated data sets whose scores `auto` keeps unchanged is {' and '.join(kept)}."
    return "\n".join([*lines, "", *([of_kept] if kept else [])]).rstrip() + "\n"


def texts() -> dict[str, str]:
    """Return the table of the page of coverage, from the files."""
    rows = {}
    for of, path in TABLES.items():
        with path.open(encoding="utf-8") as stream:
            rows[of] = list(csv.DictReader(stream))
    return {"recalibration.md": table(rows)}


SIMULATED = {
    "events": setting_of_events,
    "classes": setting_of_classes,
    "clusters": setting_of_clusters,
    "confident": setting_of_confident,
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the data sets; print only")
    parser.add_argument("--page", action="store_true", help="no simulation: write the table of the page")
    parser.add_argument("--only", nargs="+", choices=TABLES, default=list(TABLES), help="which simulations")
    parser.add_argument("--methods", nargs="+", help="which methods; the rows of the others remain")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args(arguments)
    for of in () if options.page else options.only:
        with ProcessPoolExecutor(options.processes) as pool:
            asked = [
                job
                for job in jobs(of, SETS // 10 if options.quick else SETS)
                if options.methods is None or job[0] in options.methods
            ]
            found = list(pool.map(SIMULATED[of], asked))
        if options.quick:
            print(table({of: [{name: str(value) for name, value in row.items()} for row in found]}))
            continue
        if options.methods is not None:
            with TABLES[of].open(encoding="utf-8") as stream:
                rest = [row for row in csv.DictReader(stream) if row["method"] not in options.methods]
            found = [*rest, *found]
        with TABLES[of].open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, (*SETTINGS[of], *MEASURED), lineterminator="\n")
            writer.writeheader()
            writer.writerows({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in found)
    if options.quick:
        return 0
    import shown

    shown.write(texts())
    return 0


if __name__ == "__main__":
    sys.exit(main())
