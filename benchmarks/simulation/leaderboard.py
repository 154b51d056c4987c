"""Simulate leaderboards where the truth is known: the best model, statements "worse than the best", ranks, intervals.

    python benchmarks/simulation/leaderboard.py            # 20 minutes; writes docs/leaderboard.csv; prints the table
    python benchmarks/simulation/leaderboard.py --quick    # a tenth of the data sets; prints only
    python benchmarks/simulation/leaderboard.py --tables   # no simulation: prints the tables of docs/leaderboard.csv
    python benchmarks/simulation/leaderboard.py --only own # one kind of data
    python benchmarks/simulation/leaderboard.py --few      # 3 minutes; writes docs/leaderboard-few.csv

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

With ``--few``, two models differ where few unlikely outcomes decide, or hardly at all. True values are then the means
of the expected losses of the rows. "width" is the median of the half widths of the pair, in those of the paired central
limit theorem alone.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import sys
import textwrap
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
from calibrant.statistics.group_tests import holm

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs" / "leaderboard.csv"

LEVEL = 0.95
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


def fewer_pairs() -> None:
    """Compare pairs of at most five models in this process: those of twenty take most of the time."""
    compare_models.MOST_PAIRED = 5  # type: ignore[misc]


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


FEW_TABLE = ROOT / "docs" / "leaderboard-few.csv"
FEW_COLUMNS = ("setting", "rows", "models", "form", "sorted_by", "data_sets", "best", "pair", "p_of_1", "width")
FEW_DATA_SETS = 500


def near(change: Callable[[Array, Rng], Array]) -> Callable[[Array, Rng], tuple[Array, Array]]:
    """Return a setting of a model with the true probabilities, and of a near copy."""
    return lambda q, rng: (q, np.clip(change(q, rng), 1e-6, 1 - 1e-6))


def tenth(first: float, second: float, true: float) -> Callable[[Array, Rng], tuple[Array, Array]]:
    """Return a setting of models that differ in a tenth of the rows, whose true probability is given."""

    def scores(q: Array, _: Rng) -> tuple[Array, Array]:
        q[: len(q) // 10] = true
        a, b = q.copy(), q.copy()
        a[: len(q) // 10], b[: len(q) // 10] = first, second
        return a, b

    return scores


def noisy(q: Array, rng: Rng) -> tuple[Array, Array]:
    """Return the scores of two models with errors of their own in the log-odds."""
    odds = np.log(q / (1 - q))
    return expit(odds + 0.5 * rng.standard_normal(len(q))), expit(odds + 0.5 * rng.standard_normal(len(q)))


def noise(size: float) -> Callable[[Array, Rng], tuple[Array, Array]]:
    return near(lambda q, rng: q + size * rng.standard_normal(len(q)))


#: From probabilities that are uniform on 0.1 to 0.9, which a setting may change, to the scores of two models.
FEW: dict[str, Callable[[Array, Rng], tuple[Array, Array]]] = {
    "0.99 and 0.9999 in a tenth, true 0.99": tenth(0.99, 0.9999, 0.99),
    "0.99 and 0.9999 in a tenth, true 0.9999": tenth(0.99, 0.9999, 0.9999),
    "0.99 and 0.9999 in a tenth, true 0.995": tenth(0.99, 0.9999, 0.99505),
    "0.999 and 0.9999 in a tenth, true 0.99": tenth(0.999, 0.9999, 0.99),
    "0.99 and 1 in a tenth, true 0.99": tenth(0.99, 1.0, 0.99),
    "errors of the log-odds": noisy,
    "copy in single precision": near(lambda q, _: q.astype(np.float32).astype(float)),
    "copy in half precision": near(lambda q, _: q.astype(np.float16).astype(float)),
    **{f"noise of {size:g}": noise(size) for size in (1e-12, 1e-9, 1e-7, 1e-6)},
}


def expected_losses(p: Array, q: Array, key: str) -> Array:
    """Return the expected loss of each row."""
    if key == "brier":
        return q * (1 - p) ** 2 + (1 - q) * p**2
    with np.errstate(divide="ignore"):
        return np.where(q > 0, -q * np.log(p), 0.0) + np.where(q < 1, -(1 - q) * np.log1p(-p), 0.0)


def few(job: tuple[str, int, str, int]) -> list[dict[str, Any]]:
    """Return the rows of a setting of ``--few``."""
    name, n, form, data_sets = job
    rows = []
    for key in ("brier", "nll"):
        best = pair_holds = pairs = ones = 0
        widths = []
        for data_set in range(data_sets):
            rng = np.random.default_rng([n, list(FEW).index(name), data_set])
            q = rng.uniform(0.1, 0.9, n)
            a, b = FEW[name](q, rng)
            y = rng.random(n) < q
            models = {"a": a, "b": b}
            if form == "three models":
                models["c"] = np.clip(a + 0.1 * rng.standard_normal(n), 0.001, 0.999)
            clusters = np.arange(n) // 3 if form == "clusters of 3" else None
            comparison = calibrant.compare(models, y, sort_by=key, clusters=clusters)
            true = {model: float(expected_losses(p, q, key).mean()) for model, p in models.items()}
            least = min(true.values())
            board = {each.name: each for each in comparison.leaderboard}
            best += all(board[model].among_best for model, value in true.items() if value == least)
            ones += board["a"].adjusted_p_value == board["b"].adjusted_p_value == 1
            pair = comparison.pairs[0][key]
            if math.isfinite(pair.low) and math.isfinite(true["b"]):
                pairs += 1
                pair_holds += pair.low <= true["a"] - true["b"] <= pair.high
                losses = [(p - y) ** 2 if key == "brier" else -np.log(np.where(y, p, 1 - p)) for p in (a, b)]
                error = np.std(losses[0] - losses[1], ddof=1) / math.sqrt(n)
                widths.append((pair.high - pair.low) / 2 / (1.959964 * error))
        shares = {
            "best": f"{best / data_sets:.4g}",
            "pair": f"{pair_holds / pairs:.4g}" if pairs else "",
            "p_of_1": f"{ones / data_sets:.4g}",
            "width": f"{np.median(widths):.4g}" if pairs else "",
        }
        facts = {"setting": name, "rows": n, "models": 2 + (form == "three models"), "form": form, "sorted_by": key}
        rows.append({**facts, "data_sets": data_sets, **shares})
    return rows


def few_jobs(data_sets: int) -> list[tuple[str, int, str, int]]:
    """Return the settings of ``--few``: the first at several sizes and in several forms, others once."""
    first, *others = FEW
    jobs = [(first, n, "rows", data_sets) for n in (300, 1_000, 3_000)]
    jobs += [(first, 300, form, data_sets) for form in ("three models", "clusters of 3")]
    return jobs + [(name, 300 if "tenth" in name else 1_000, "rows", data_sets) for name in others]


def few_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return sentences about ``--few``: lowest shares, widths if few unlikely outcomes decide, equal models."""
    best, pair = (min(float(row[name]) for row in rows if row[name]) for name in ("best", "pair"))
    same = dict.fromkeys(row["setting"] for row in rows if float(row["p_of_1"]) == 1)
    widths: dict[int, list[float]] = {}
    for row in rows:
        if row["setting"].startswith("0.9") and row["width"]:
            widths.setdefault(int(row["rows"]), []).append(float(row["width"]))
    ranges = [f"{_range(held, '{:.3g}')} with {n:,} rows" for n, held in sorted(widths.items())]
    text = (
        f"The lowest share of *best marked* is {best:.3f}, and the lowest coverage of the difference is {pair:.3f}. "
        "If models differ only by a few improbable outcomes, the median width of the interval, divided by the width "
        f"from the paired central limit theorem, is {', '.join(ranges[:-1])}, and {ranges[-1]}. "
        f"If models hardly differ ({', '.join(same)}), no data set has a p-value below 1."
    )
    return textwrap.fill(text, 120, break_on_hyphens=False) + "\n"


def _range(values: Sequence[float], form: str) -> str:
    """Return the smallest and the largest value, or one if both have the same digits."""
    low, high = (form.format(end) for end in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def simulate_few(data_sets: int, processes: int, *, write: bool) -> None:
    """Simulate the settings of ``--few``."""
    with ProcessPoolExecutor(processes, initializer=fewer_pairs) as pool:
        rows = [row for found in pool.map(few, few_jobs(data_sets)) for row in found]
    if write:
        with FEW_TABLE.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, FEW_COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    print(few_text(rows), end="")


KINDS = {"shared": "same outcomes", "own": "own outcomes", "clusters": "own outcomes, clusters"}
NAMES = {"": "calibrant", "mcs_": "model confidence set", "eh_": "Edwards and Hsu", "holm_": "Holm against the leader"}


def texts() -> dict[str, str]:
    """Return the tables and sentences of the page of coverage and of the benchmarks, from the files."""
    with TABLE.open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    with FEW_TABLE.open(encoding="utf-8") as stream:
        unlikely = list(csv.DictReader(stream))
    return {
        "leaderboard.md": table(rows),
        "leaderboard-few.md": few_text(unlikely),
        "leaderboard-rules.md": rules(rows),
    }


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return how often the statements of a leaderboard hold: the lowest share of each kind of data."""
    head = ("data", "best marked", "ranks", "differences", "single differences")
    lines = [head, ["---"] * len(head)]
    for kind in dict.fromkeys(row["kind"] for row in rows):
        held = [row for row in rows if row["kind"] == kind]
        shares = [f"{min(float(row[name]) for row in held):.3f}" for name in ("best", "ranks", "differences", "pair")]
        lines.append([KINDS[kind], *shares])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def rules(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return what each rule marks, for the data sets with most models."""
    held = [row for row in rows if int(row["models"]) == max(NUMBERS) and row["mcs_best"]]
    lines = [["rule", "best marked, lowest", "marked, mean"], ["---"] * 3]
    for name, label in NAMES.items():
        best, marked = ([float(row[f"{name}{column}"]) for row in held] for column in ("best", "marked"))
        lines.append([label, f"{min(best):.3f}", f"{np.mean(marked):.1f}"])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the data sets; print only")
    parser.add_argument("--tables", action="store_true", help="no simulation: print the table of the file")
    parser.add_argument("--only", choices=list(ROWS), help="one kind of data; print only")
    parser.add_argument("--few", action="store_true", help="the settings where few outcomes decide")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args(arguments)
    if options.tables:
        print(*texts().values(), sep="\n", end="")
        return 0
    if options.few:
        simulate_few(FEW_DATA_SETS // (10 if options.quick else 1), options.processes, write=not options.quick)
        return 0
    kinds = [options.only] if options.only else list(ROWS)
    part = 10 if options.quick else 1
    jobs = [
        (Setting(kind, order, k), DATA_SETS[k][kind == "clusters"] // part)
        for k in NUMBERS
        for kind in kinds
        for order in ORDERS
    ]
    with ProcessPoolExecutor(options.processes, initializer=fewer_pairs) as pool:
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
