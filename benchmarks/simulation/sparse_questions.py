"""Simulate models that answered different questions, where the true differences are known.

    python benchmarks/simulation/sparse_questions.py            # 5 minutes; writes docs/sparse.csv; prints the table
    python benchmarks/simulation/sparse_questions.py --quick    # a tenth of the data sets; prints only
    python benchmarks/simulation/sparse_questions.py --tables   # no simulation: prints the table of docs/sparse.csv

Results are right or wrong, with probability alpha_m + gamma_q: models differ by up to 0.3, and difficulties gamma_q are
uniform from -0.2 to 0.2. Forecasts have the log-odds of the true probability and a normal error, whose standard
deviation is 0.3 to 1.2, so the Brier score is not additive. Some questions are answered more often than others, by all
models. With "opponents", the first half of the models answers one half of the questions more often, and the
second half the other one: the mean relative to the question's mean, which tournaments use, is then biased, because it
depends on who else answered. With "choice", the worse a model is, the more often it answers easy questions.

Coverage is that of the 95 % intervals of all single pairs with a finite interval. "Ranks" is the share of data sets in
which all ranges of ranks contain the true ranks. The relative mean of a model is the mean of its results minus the mean
of all models that answered the same question. Its bias is that of the difference of the best and the worst model, as a
share of the true difference.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from calibrant.report.result_comparison import ACCURACY, Means, ResultComparison, compare_means
from calibrant.results import Description

TABLE = Path(__file__).resolve().parents[2] / "docs" / "sparse.csv"
RUNS = 200
KINDS = ("results", "forecasts")
BIASES = ("bias", "relative")
WHO = {"": "", "opponents": "two circles of models", "choice": "worse models choose easier questions"}
BRIER = Description(label="Brier score", meaning="")
#: Models, questions, and the share of the questions that a model answers.
SIZES = (
    (10, 100, 0.05),
    (10, 400, 0.05),
    (10, 100, 0.3),
    (10, 400, 0.6),
    (30, 200, 0.1),
    (60, 200, 0.05),
    (60, 200, 0.3),
)
COLUMNS = (
    "kind",
    "who",
    "models",
    "questions",
    "share",
    "data_sets",
    "finite",
    "coverage",
    "ranks",
    "bias",
    "relative",
)


def results(rng: np.random.Generator, models: int, questions: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return right and wrong answers, the true means, where more is better, and the difficulty of each question."""
    alpha, gamma = np.linspace(0.35, 0.65, models), rng.uniform(-0.2, 0.2, questions)
    return (rng.random((questions, models)) < alpha + gamma[:, None]).astype(float), alpha, -gamma / 0.2


def forecasts(rng: np.random.Generator, models: int, questions: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return Brier scores, the true means, and the difficulty of each question."""
    chance, spread = rng.random(questions), np.linspace(0.3, 1.2, models)
    odds = np.log(chance / (1 - chance))[:, None] + rng.normal(size=(questions, models)) * spread
    outcomes = rng.random(questions) < chance
    return (1 / (1 + np.exp(-odds)) - outcomes[:, None]) ** 2, brier_means(models), 1 - 2 * np.abs(2 * chance - 1)


def brier_means(models: int) -> NDArray[Any]:
    """Return the expected Brier scores of the forecasts, by quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    chance = (np.arange(2000) + 0.5) / 2000
    odds = np.log(chance / (1 - chance))
    means = []
    for spread in np.linspace(0.3, 1.2, models):
        scores = 1 / (1 + np.exp(-(odds[:, None] + spread * nodes)))
        squares = ((scores - chance[:, None]) ** 2) @ weights / weights.sum()
        means.append(float(np.mean(squares + chance * (1 - chance))))
    return np.array(means)


def answered(rng: np.random.Generator, who: str, difficulty: NDArray[Any], worse: NDArray[Any], share: float) -> Any:
    """Return which model answers which question; ``worse`` is -1 for the best model, and 1 for the worst one."""
    questions, models = len(difficulty), len(worse)
    if who == "choice":
        factor = 1 - (1 + worse) / 2 * difficulty[:, None]
    elif who == "opponents":
        halves = np.arange(questions)[:, None] % 2 == np.arange(models) * 2 // models
        factor = np.where(halves, 1.8, 0.2)
    else:
        factor = 2 * rng.random((questions, 1))
    return rng.random((questions, models)) < np.clip(share * factor, 0, 1)


def one(rng: np.random.Generator, kind: str, who: str, models: int, questions: int, share: float) -> dict[str, float]:
    """Return what one data set shows."""
    draw, description = (results, ACCURACY) if kind == "results" else (forecasts, BRIER)
    values, true, difficulty = draw(rng, models, questions)
    worse = np.linspace(1, -1, models) if kind == "results" else np.linspace(-1, 1, models)
    values = np.where(answered(rng, who, difficulty, worse, share), values, np.nan)
    names = tuple(f"{place:02}" for place in range(models))
    with patch("calibrant.report.leaderboard.MOST_PAIRED", models):  # pairs with the estimated best are a selection
        found = compare_means(Means(names, values, "mean", description), None, sparse=True, level=0.95)
    return {**shares(found, dict(zip(names, true, strict=True))), **biases(found, values, true)}


def shares(found: ResultComparison, true: Mapping[str, float]) -> dict[str, float]:
    """Return the shares of intervals that are finite, of those that cover, and whether all ranks hold."""
    finite = [pair for pair in found.pairs if np.isfinite(pair["mean"].low)]
    covers = [p["mean"].low <= true[p.first] - true[p.second] <= p["mean"].high for p in finite]
    sign = -1 if found.descriptions["mean"].better == "higher" else 1
    losses = {name: sign * true[name] for name in found.names}
    ranks = {name: 1 + sum(other < loss for other in losses.values()) for name, loss in losses.items()}
    hold = all(each.rank_low <= ranks[each.name] <= each.rank_high for each in found.leaderboard)
    coverage = float(np.mean(covers)) if covers else np.nan
    return {"finite": len(finite) / len(found.pairs), "coverage": coverage, "ranks": float(hold)}


def biases(found: ResultComparison, values: NDArray[Any], true: NDArray[Any]) -> dict[str, float]:
    """Return the error of the difference of the first and last model, adjusted and relative to the questions' means."""
    means = {each.name: each["mean"].value for each in found.leaderboard}
    first, last = "00", f"{len(true) - 1:02}"
    difference = true[-1] - true[0]
    if first not in means or last not in means:
        return {"bias": np.nan, "relative": np.nan}
    kept = np.isfinite(values).any(axis=1)
    relative = np.nanmean(values[kept] - np.nanmean(values[kept], axis=1, keepdims=True), axis=0)
    adjusted = means[last] - means[first]
    return {"bias": adjusted / difference - 1, "relative": (relative[-1] - relative[0]) / difference - 1}


def of_setting(kind: str, who: str, models: int, questions: int, share: float, part: int) -> dict[str, Any]:
    """Return the means over data sets."""
    runs = RUNS // part
    rng = np.random.default_rng([models, questions, round(100 * share), len(kind), len(who)])
    found = [one(rng, kind, who, models, questions, share) for _ in range(runs)]
    means = {name: float(np.nanmean([each[name] for each in found])) for name in found[0]}
    setting = {"kind": kind, "who": who, "models": models, "questions": questions, "share": share}
    return {**setting, "data_sets": runs, **means}


def texts() -> dict[str, str]:
    """Return the table of the page of coverage, from the file."""
    with TABLE.open(encoding="utf-8") as stream:
        return {"sparse.md": table(list(csv.DictReader(stream)))}


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a line for each kind of values and way of answering, with the range over sizes."""
    head = ("values", "coverage", "lowest share of right ranks", "bias", "bias of the relative mean")
    lines = [head, ["---"] * len(head)]
    for kind, who in product(KINDS, WHO):
        own = [row for row in rows if (row["kind"], row["who"]) == (kind, who)]
        columns = {name: sorted(float(row[name]) for row in own) for name in ("coverage", "ranks", "bias", "relative")}
        name, ranks = ", ".join(filter(None, (kind, WHO[who]))), f"{columns['ranks'][0]:.3f}"
        ends = [columns["coverage"][0], columns["coverage"][-1]]
        biases = (span([f"{100 * each:+.0f} %".replace("-0 %", "+0 %") for each in columns[key]]) for key in BIASES)
        lines.append([name, span([f"{each:.3f}" for each in ends]), ranks, *biases])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def span(texts: Sequence[str]) -> str:
    """Return the first and the last text."""
    return texts[0] if texts[0] == texts[-1] else f"{texts[0]} to {texts[-1]}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the data sets; print only")
    parser.add_argument("--tables", action="store_true", help="no simulation: print the table of the file")
    options = parser.parse_args(arguments)
    if options.tables:
        print(texts()["sparse.md"], end="")
        return 0
    part, rows = 10 if options.quick else 1, []
    for kind, size in product(KINDS, SIZES):
        print(kind, *size, file=sys.stderr, flush=True)
        rows.append(of_setting(kind, "", *size, part))
    rows += [of_setting(kind, who, 10, 400, 0.3, part) for who in ("opponents", "choice") for kind in KINDS]
    if not options.quick:
        with TABLE.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)
    print(table(rows), end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
