"""Simulate leaderboards where the truth is known: the best model, statements "worse than the best", ranks, intervals.

    python benchmarks/simulation/leaderboard.py            # 20 minutes; writes docs/leaderboard.csv; prints the table
    python benchmarks/simulation/leaderboard.py --quick    # a tenth of the data sets; prints only
    python benchmarks/simulation/leaderboard.py --tables   # no simulation: prints the tables of docs/leaderboard.csv
    python benchmarks/simulation/leaderboard.py --only own # one kind of data

Kinds of data. "shared": all models predict the same outcomes. The probability of an outcome has two parts. A model sees
the second part with an error, and the errors of all models have a common part. "own": each model has its own
answers, right with a probability that depends on the question and on the model, and its confidence is that probability
with an error in its log-odds. "clusters": the same with ten rows in a cluster, whose latent parts are common.

Models. "equal": all have the same distribution. "two levels": half of them are worse. "one best": all others are worse.
"steps": each is worse than the one before it. The sizes of these steps are a few standard errors of a difference.

True values are means over two million rows of the same distribution, and the same for models with equal settings. Ranks
follow from them: of own answers the Brier score is least where nearly all are wrong, so the steps are not its order.

Each data set is ranked by the Brier score and by the accuracy or AUROC. Counted are:

- best: the share of data sets in which every best model is among those marked, which is one less the family-wise rate
  of false statements "worse than the best",
- ranks: the share in which the ranges of all models contain their true ranks,
- differences: the share in which the intervals of all differences to the best contain the true ones,
- pair: the share of the intervals of single differences (not simultaneous) that contain the true difference, of the
  pairs with the first model,
- marked: the mean number of models that are marked, and range: the mean width of a range of ranks.

The same data sets are ranked by other rules, for what they mark and how often a best model is not among it: Holm's
adjustment of paired tests against the observed best ("holm to best", which ignores that the best was chosen by the
data), the model confidence set of Hansen, Lunde and Nason (2011) with the range statistic and the same normal draws
("mcs"), and Edwards and Hsu's (1983) intervals with Dunnett's critical values ("edwards-hsu").
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("CALIBRANT_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.special import expit, ndtr
from scipy.stats import rankdata

import calibrant
from calibrant.report import compare_models
from calibrant.statistics.groups import holm

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs" / "leaderboard.csv"

LEVEL = 0.95
compare_models.MOST_PAIRED = 5  # type: ignore[misc]  # the pairs of twenty models take most of the time
#: Data sets by the number of models, for independent rows and for clusters.
DATA_SETS = {2: (1_000, 500), 5: (1_000, 500), 20: (300, 200)}
TRUTH = 2_000_000
NUMBERS = (2, 5, 20)
ROWS = {"shared": 1_000, "own": 1_000, "clusters": 2_000}
CLUSTER = 10
SORTED = {"shared": ("brier", "auroc"), "own": ("brier", "accuracy"), "clusters": ("brier", "accuracy")}
#: By how much the worst model's parameter exceeds the best one's, in steps.
ORDERS: dict[str, Callable[[int], np.ndarray[Any, Any]]] = {
    "equal": np.zeros,
    "two levels": lambda k: np.repeat([0.0, 1.0], [k - k // 2, k // 2]),
    "one best": lambda k: np.minimum(np.arange(k), 1.0),
    "steps": lambda k: np.arange(k) / 2,
}
STEP = {"shared": 0.10, "own": 0.35, "clusters": 0.35}
COLUMNS = (
    *("kind", "order", "models", "rows", "sorted_by", "data_sets", "best", "ranks", "differences", "pair"),
    *("marked", "range", "holm_best", "holm_marked", "mcs_best", "mcs_marked", "eh_best", "eh_marked"),
)

Array = np.ndarray[Any, Any]
Rng = np.random.Generator


class Setting(NamedTuple):
    """One row of the table, for each measure that models are ranked by."""

    kind: str
    order: str
    models: int


def drawn(kind: str, steps: Array, n: int, rng: Rng) -> tuple[list[Array], list[Array], Array | None]:
    """Return the scores and the outcomes of each model, and the clusters."""
    size = STEP[kind]
    clusters = np.arange(n) // CLUSTER if kind == "clusters" else None
    hard = rng.standard_normal(n)
    if clusters is not None:
        hard = math.sqrt(0.5) * hard + math.sqrt(0.5) * rng.standard_normal(clusters[-1] + 1)[clusters]
    scores, outcomes = [], []
    if kind == "shared":
        seen, common = rng.standard_normal(n), rng.standard_normal(n)
        y = rng.random(n) < expit(hard + seen)
        for step in steps:
            error = 0.6 * common + 0.5 * rng.standard_normal(n)
            scores.append(expit(hard + (1 - size * step) * (seen + error * 0.5)))
            outcomes.append(y)
        return scores, outcomes, clusters
    for step in steps:
        right = expit(1.0 + hard - size * step + 0.7 * rng.standard_normal(n))
        outcomes.append(rng.random(n) < right)
        scores.append(expit(np.log(right / (1 - right)) * 1.3 + 0.5 * rng.standard_normal(n)))
    return scores, outcomes, clusters


@cache
def truth(kind: str, step: float) -> dict[str, float]:
    """Return the true values of a model."""
    rng = np.random.default_rng([17, len(kind), round(step * 2)])
    (p,), (y,), _ = drawn(kind, np.array([step]), TRUTH, rng)
    predicted = (p >= 0.5) == y if kind == "shared" else y
    ranks = rankdata(p)
    positives = int(y.sum())
    auroc = (ranks[y].sum() - positives * (positives + 1) / 2) / (positives * (len(y) - positives))
    return {"brier": float(np.mean((p - y) ** 2)), "accuracy": float(np.mean(predicted)), "auroc": float(auroc)}


def ranked(kind: str, models: dict[str, Any], y: Any, clusters: Any, key: str) -> calibrant.Comparison:
    """Return the comparison of the models."""
    own = {name: (p, own_y) for name, (p, own_y) in models.items()}
    shared = {name: p for name, (p, _) in models.items()}
    if kind == "shared":
        return calibrant.compare(shared, y, sort_by=key, clusters=clusters)
    return calibrant.compare(own, sort_by=key, clusters=clusters)


def covariance(kind: str, models: dict[str, Any], key: str, clusters: Any) -> tuple[Array, Array]:
    """Return the losses of the models and the covariance of their means, by elementary formulas; not for AUROC."""
    parts = []
    for p, y in models.values():
        parts.append((p - y) ** 2 if key == "brier" else 1.0 - (((p >= 0.5) == y) if kind == "shared" else y))
    losses = np.array(parts, float)
    if clusters is not None:
        losses = losses.reshape(len(losses), -1, CLUSTER).mean(axis=2)
    return losses.mean(axis=1), np.cov(losses) / losses.shape[1]


def others(values: Array, sigma: Array, rng: Rng) -> dict[str, Array]:
    """Return which models other rules mark as perhaps the best."""
    k, alpha = len(values), 1 - LEVEL
    variances = np.diag(sigma)
    errors = np.sqrt(np.maximum(variances[:, None] + variances - 2 * sigma, 1e-300))
    t = np.subtract.outer(values, values) / errors
    np.fill_diagonal(t, 0.0)
    leader = int(np.argmin(values))
    rest = np.delete(np.arange(k), leader)
    of_rest = holm([float(2 * ndtr(-abs(t[i, leader]))) for i in rest])
    holm_marked = np.ones(k, bool)
    holm_marked[rest] = np.array(of_rest) > alpha
    draws = rng.multivariate_normal(np.zeros(k), sigma, 1_000, method="eigh")
    z = np.subtract(draws[:, :, None], draws[:, None, :]) / errors
    kept = list(range(k))
    while len(kept) > 1:
        grid = np.ix_(kept, kept)
        critical = np.quantile(z[:, kept][:, :, kept].reshape(len(z), -1).max(axis=1), LEVEL)
        worst = t[grid].max(axis=1)
        if worst.max() <= critical:
            break
        kept.pop(int(np.argmax(worst)))
    dunnett = np.quantile(np.abs(z).max(axis=2), LEVEL, axis=0)
    candidates = t.max(axis=1) <= dunnett
    eh = np.array([any(candidates[b] and (b == i or t[i, b] <= dunnett[b]) for b in range(k)) for i in range(k)])
    return {"holm": holm_marked, "mcs": np.isin(np.arange(k), kept), "eh": eh}


def simulated(job: tuple[Setting, int]) -> list[dict[str, Any]]:
    """Return the rows of a setting."""
    setting, data_sets = job
    kind, order, number = setting
    steps, n = ORDERS[order](number), ROWS[setting.kind]
    true = [truth(kind, float(step)) for step in steps]
    names = [f"m{i}" for i in range(number)]
    rows = []
    for key in SORTED[kind]:
        sign = 1.0 if key == "brier" else -1.0
        losses = np.array([sign * each[key] for each in true])
        least = losses.min()
        best = losses == least
        low_rank = np.array([1 + np.sum(losses < loss) for loss in losses])
        sums: dict[str, float] = dict.fromkeys(COLUMNS[6:], 0.0)
        pairs = 0
        for data_set in range(data_sets):
            rng = np.random.default_rng([len(kind), len(order), number, data_set])
            scores, outcomes, clusters = drawn(kind, steps, n, rng)
            models = dict(zip(names, zip(scores, outcomes, strict=True), strict=True))
            comparison = ranked(kind, models, outcomes[0], clusters, key)
            board = {each.name: each for each in comparison.leaderboard}
            marked = np.array([board[name].among_best for name in names])
            ends = np.array([(board[name].rank_low, board[name].rank_high) for name in names])
            differences = [board[name].difference for name in names]
            sums["best"] += bool(marked[best].all())
            sums["ranks"] += bool(np.all((ends[:, 0] <= low_rank) & (low_rank <= ends[:, 1])))
            sums["differences"] += all(
                each.low - 1e-12 <= loss - least <= each.high + 1e-12
                for each, loss in zip(differences, losses, strict=True)
            )
            sums["marked"] += float(marked.sum())
            sums["range"] += float(np.mean(ends[:, 1] - ends[:, 0] + 1))
            for pair in comparison.pairs:
                if names[0] not in (pair.first, pair.second):
                    continue  # with many models, those with the model that looks best
                value = true[names.index(pair.first)][key] - true[names.index(pair.second)][key]
                sums["pair"] += pair[key].low <= value <= pair[key].high
                pairs += 1
            if key != "auroc":
                for rule, kept in others(*covariance(kind, models, key, clusters), rng).items():
                    sums[f"{rule}_best"] += bool(kept[best].all())
                    sums[f"{rule}_marked"] += float(kept.sum())
        shares = {name: total / (pairs if name == "pair" else data_sets) for name, total in sums.items()}
        if key == "auroc":
            shares |= {name: math.nan for name in shares if "_" in name}
        facts = {"kind": kind, "order": order, "models": number, "rows": n, "sorted_by": key, "data_sets": data_sets}
        rows.append({**facts, **{name: "" if math.isnan(value) else f"{value:.4g}" for name, value in shares.items()}})
    return rows


SECTION = """## Leaderboards

In simulations, the true value of each model is known. *Best marked* is the share of data sets in which every best model
is marked as perhaps the best. One minus this share is the family-wise rate of false statements "worse than the best".
*Ranks* and *differences* are the shares in which all ranges of ranks, and all simultaneous intervals of the differences
to the best model, contain the true values. *Single differences* is the coverage of the interval of one pair. *Marked*
is the mean number of models that may be the best. With two levels, half of the models are worse. With one best model,
all others are equal. In steps, each model has a worse parameter than the one before it. There are 1,000 data sets of
1,000 rows, and 500 data sets of 2,000 rows in clusters of 10. With 20 models, there are 300 and 200 data sets. The
standard error of a share of 0.95 is 0.007 with 1,000 data sets and 0.015 with 200:
"""
RULES = """Other rules for the same data sets of 20 models: the share with every best model marked, and the mean number
of marked models. *Holm against the leader* tests each model against the observed best model, and ignores that the data
chose this model:
"""
SOURCE = """[leaderboard.csv](leaderboard.csv) contains all numbers, and `benchmarks/simulation/leaderboard.py` repeats
the simulations.
"""
KINDS = {"shared": "same outcomes", "own": "own outcomes", "clusters": "own outcomes, clusters"}
KEYS = {"brier": "Brier score", "accuracy": "accuracy", "auroc": "AUROC"}
NAMES = {"": "calibrant", "mcs_": "model confidence set", "eh_": "Edwards and Hsu", "holm_": "Holm against the leader"}


def section() -> str:
    """Return the part of the page of coverage, from the file."""
    with TABLE.open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    return "\n".join([SECTION, table(rows), RULES, rules(rows), SOURCE])


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return how often the statements of a leaderboard hold."""
    head = ("data", "models", "ranked by", "best marked", "ranks", "differences", "single differences", "marked")
    lines = [head, ["---"] * len(head)]
    for row in rows:
        shares = [f"{float(row[name]):.3f}" for name in ("best", "ranks", "differences", "pair")]
        data = f"{KINDS[row['kind']]}, {row['order']}"
        lines.append([data, str(row["models"]), KEYS[row["sorted_by"]], *shares, f"{float(row['marked']):.1f}"])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def rules(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return what other rules mark, for the data sets with most models."""
    lines = [["data", *NAMES.values()], ["---"] * (1 + len(NAMES))]
    for row in rows:
        if int(row["models"]) == max(NUMBERS) and row["mcs_best"]:
            cells = [f"{float(row[f'{name}best']):.3f}, {float(row[f'{name}marked']):.1f}" for name in NAMES]
            lines.append([f"{KINDS[row['kind']]}, {row['order']}, {KEYS[row['sorted_by']]}", *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the data sets; print only")
    parser.add_argument("--tables", action="store_true", help="no simulation: print the table of the file")
    parser.add_argument("--only", choices=list(ROWS), help="one kind of data; print only")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args(arguments)
    if options.tables:
        print(section(), end="")
        return 0
    kinds = [options.only] if options.only else list(ROWS)
    part = 10 if options.quick else 1
    jobs = [
        (Setting(kind, order, k), DATA_SETS[k][kind == "clusters"] // part)
        for k in NUMBERS
        for kind in kinds
        for order in ORDERS
    ]
    with ProcessPoolExecutor(options.processes) as pool:
        rows = []
        for (setting, _), found in zip(jobs, pool.map(simulated, jobs), strict=True):
            print(*setting, file=sys.stderr, flush=True)
            rows += found
    rows.sort(key=lambda row: (kinds.index(row["kind"]), list(ORDERS).index(row["order"]), row["models"]))
    if not (options.quick or options.only):
        with TABLE.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    print(table(rows), rules(rows), sep="\n", end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
