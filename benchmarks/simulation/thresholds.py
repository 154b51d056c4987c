"""Simulate certified thresholds where the true risk is known: how often it is too high, and what share is automated.

    python benchmarks/simulation/thresholds.py            # some minutes; writes docs/thresholds.csv; prints the tables
    python benchmarks/simulation/thresholds.py --quick    # a tenth of the data sets; prints only
    python benchmarks/simulation/thresholds.py --tables   # no simulation: prints the tables of docs/thresholds.csv
    python benchmarks/simulation/thresholds.py --only clusters --runs 2000 --print  # a part of it

Acting on a row is right or wrong; the risk of a score is the probability that acting is wrong. Each method returns a
threshold, so that with 95 % confidence at most 5 % of the actions at or above it are wrong, or returns no threshold.
The threshold is too low ("broken") if the true risk at or above it is over 5 %. The true risk is calculated from the
risk of each score, on 2,000,000 scores at the middles of equal parts of their distribution. Without a threshold
nothing is broken, and the share automated is 0. The share is the probability of a score at or above the threshold.
The "oracle" share is the largest at which the true risk is at most 5 %.

One side: scores have the distribution Beta(4, 1), so a score of p has the rank u = 1 - p^4 from the top. `RISKS` has
the risks of the scores. All methods are given the same data sets.

Clusters: latent normal variables with a correlation within each cluster, for the outcomes alone or for the outcomes
and the scores, with the same distribution of each row as above.

Levels: all rows have the risk 0.05, at confidences from 0.95 to 0.9995. "Certified" is the share of data sets in which
the first cut is accepted, and "broken" the largest such share of all cuts. The promise is 1 - confidence.

Doubtful: clusters whose errors rise with their size, and weights that are related to errors (`DOUBTFUL`), at every
score with the same true risk above 0.05. "Flagged" is the share of data sets with a caution.

Planned: of a first data set with `rows_needed`, up to 200,000, a new one of this size. "Broken" is the share of these
in which the coverage that was planned for is not reached; it should be near 0.2. "Certified" is the share of first data
sets with a plan.

Two sides: scores of a diagnosis are Beta(0.5, 1.5). "Yes" at high scores may be wrong in 10 % of the cases, "no" at
low scores in 2 %. It is broken if either true risk is above its limit.

MAPIE and kunko-judge-audit are optional. MAPIE's rows are left out without the package. The two rules of
kunko-judge-audit are calculated by `sequence` here, because the package takes seconds for a data set; where the
package is installed, its thresholds must equal those of `sequence` in the first data sets of each setting.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple

os.environ.setdefault("CALIBRANT_NUM_THREADS", "1")

import numpy as np
from scipy.special import bdtr, betaincinv, expit, logit, ndtr

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs" / "thresholds.csv"

MAX_RISK = 0.05
CONFIDENCE = 0.95
YES_RISK, NO_RISK = 0.1, 0.02
RUNS = 1_000
SIZES = (500, 2_000, 10_000)
GRID = 2_000_000
COMPARED = 3  # data sets of a setting in which kunko-judge-audit itself is run

Array = np.ndarray[Any, np.dtype[np.float64]]
#: Returns a threshold from the scores and the right rows.
Method = Callable[[Array, Array], float | None]

#: The probability that acting at a score is wrong.
RISKS: dict[str, Callable[[Array], Array]] = {
    "calibrated": lambda p: 1 - p,
    "overconfident": lambda p: 1 - expit(0.8 * logit(p)),
    "underconfident": lambda p: 1 - expit(1.48 * logit(p)),
    "confidently wrong": lambda p: np.where(p > 0.9975, 0.1, 1 - p),
    "flat 0.051": lambda p: np.full(len(p), 0.051),
    "flat 0.03": lambda p: np.full(len(p), 0.03),
    "0.06, 0.04, rising": lambda p: _steps(1 - p**4),
}


class Design(NamedTuple):
    """Clusters of rows: number, size, latent correlation, and whether scores have it too."""

    clusters: int
    size: int
    correlation: float
    scores_too: bool

    def __str__(self) -> str:
        of = "outcomes and scores" if self.scores_too else "outcomes"
        return f"{self.clusters} clusters of {self.size}, correlation {self.correlation} of {of}"


DESIGNS = [
    Design(600, 5, 0.8, False),
    Design(600, 5, 0.8, True),
    Design(100, 20, 0.3, False),
    Design(100, 20, 0.3, True),
]

#: What is written of each setting and method.
COLUMNS = (
    *("kind", "risk", "design", "n", "method", "oracle", "runs"),
    *("certified", "broken", "broken_se", "share", "share_se", "flagged"),
)


def _steps(u: Array) -> Array:
    """Return 0.06 in the top tenth, 0.04 down to one half, and then a risk that rises to 0.29."""
    return np.select([u < 0.1, u < 0.5], [0.06, 0.04], 0.04 + 0.5 * (u - 0.5))


# ---------------------------------------------------------------- the truth


class Truth:
    """The true share and risk of thresholds.

    Parameters
    ----------
    ranks : (M,)
        Ranks of scores that are acted on first come first: a score, or minus a score.
    risks : (M,)
        The risk of each.
    """

    def __init__(self, ranks: Array, risks: Array) -> None:
        self._ranks = -ranks
        self._risks = np.cumsum(risks) / np.arange(1, len(risks) + 1)

    def at(self, rank: float) -> tuple[float, float]:
        """Return the share of rows at or above a rank, and their risk."""
        number = int(np.searchsorted(self._ranks, -rank, side="right"))
        return number / len(self._ranks), float(self._risks[max(number - 1, 0)])

    def oracle(self, max_risk: float) -> float:
        """Return the largest share with this risk."""
        kept = np.flatnonzero(self._risks <= max_risk)
        return (int(kept[-1]) + 1) / len(self._risks) if len(kept) else 0.0


@lru_cache(maxsize=1)
def truth_of(risk: str) -> Truth:
    """Return the truth of one side."""
    p = (1 - (np.arange(GRID) + 0.5) / GRID) ** 0.25
    return Truth(p, RISKS[risk](p))


@lru_cache(maxsize=1)
def truth_of_sides(risk: str) -> tuple[Truth, Truth]:
    """Return the truth of "yes" and of "no"."""
    p = betaincinv(0.5, 1.5, 1 - (np.arange(GRID // 10) + 0.5) / (GRID // 10))
    wrong = RISKS[risk](p)
    return Truth(p, wrong), Truth(-p[::-1], 1 - wrong[::-1])


class Count:
    """What the thresholds of one method in one setting have in common."""

    def __init__(self) -> None:
        self.certified = 0
        self.broken: list[bool] = []
        self.shares: list[float] = []

    def add(self, *, certified: bool, broken: bool, share: float) -> None:
        """Count the result of one data set."""
        self.certified += certified
        self.broken.append(broken)
        self.shares.append(share)

    def add_threshold(self, threshold: float | None, truth: Truth, max_risk: float = MAX_RISK) -> None:
        """Count a threshold of one side."""
        share, risk = (0.0, 0.0) if threshold is None else truth.at(threshold)
        self.add(certified=threshold is not None, broken=risk > max_risk + 1e-9, share=share)

    def row(self) -> dict[str, Any]:
        """Return the columns of the results."""
        runs, broken = len(self.broken), float(np.mean(self.broken))
        return {
            "runs": runs,
            "certified": self.certified / runs,
            "broken": broken,
            "broken_se": (broken * (1 - broken) / runs) ** 0.5,
            "share": float(np.mean(self.shares)),
            "share_se": float(np.std(self.shares) / runs**0.5),
        }


# ---------------------------------------------------------------- methods


def certified(method: Literal["closed", "fixed-sequence"]) -> Method:
    """Return a method of calibrant."""
    import calibrant

    def threshold(p: Array, right: Array) -> float | None:
        value: float | None = calibrant.certify_threshold(
            p, right, max_risk=MAX_RISK, confidence=CONFIDENCE, method=method
        ).value
        return value

    return threshold


def from_sketch(p: Array, right: Array) -> float | None:
    """Return calibrant's threshold from the counts in the cells of the standard grid."""
    import calibrant

    table = calibrant.ReliabilityTable.from_scores(p, right, grid="standard")
    return calibrant.certify_threshold(table, max_risk=MAX_RISK, confidence=CONFIDENCE).value


def ranked(p: Array, right: Array) -> tuple[Array, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the scores from the top down, and how many rows and errors are at or above each. No scores are tied."""
    order = np.argsort(-p)
    return p[order], np.arange(1, len(p) + 1), np.cumsum(1 - right[order])


def observed(p: Array, right: Array) -> float | None:
    """Return the lowest threshold with a small enough observed risk."""
    scores, rows, wrong = ranked(p, right)
    kept = np.flatnonzero(wrong <= MAX_RISK * rows)
    return float(scores[kept[-1]]) if len(kept) else None


def sequence(p: Array, right: Array, errors: int) -> float | None:
    """Return the threshold of kunko-judge-audit.

    Each score is tested with the binomial distribution, from the top down. The first test has the fewest rows for
    which so many errors would pass. The threshold is the last score before the first test that does not pass.
    """
    scores, rows, wrong = ranked(p, right)
    start = int(np.argmax(bdtr(errors, rows, MAX_RISK) <= 1 - CONFIDENCE))
    failed = bdtr(wrong[start:], rows[start:], MAX_RISK) > 1 - CONFIDENCE
    passed = int(np.argmax(failed)) if failed.any() else len(failed)
    return float(scores[start + passed - 1]) if passed else None


def kunko(p: Array, right: Array, errors: int) -> float | None:
    """Return the threshold of kunko-judge-audit from the package itself."""
    from judge_audit.metrics.selective import certify_threshold

    found = certify_threshold(p.tolist(), right.astype(bool).tolist(), MAX_RISK, 1 - CONFIDENCE, errors)
    return None if found["threshold"] is None else float(found["threshold"])


def mapie(p: Array, right: Array, correction: str) -> float | None:
    """Return MAPIE's threshold for the precision, among 0, 0.01, ..., 0.99."""
    from mapie.risk_control import BinaryClassificationController

    controller = BinaryClassificationController(
        lambda scores: np.stack([1 - scores, scores], axis=1),
        "precision",
        target_level=1 - MAX_RISK,
        confidence_level=CONFIDENCE,
        fwer_method=correction,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        controller.calibrate(p, right)
    best = controller.best_predict_param
    return None if best is None else float(best)


def installed(package: str) -> bool:
    """Return whether a package can be imported."""
    return find_spec(package) is not None


def methods_of(risk: str) -> dict[str, Method]:
    """Return name -> method for one side."""
    found = {
        "closed": certified("closed"),
        "fixed-sequence": certified("fixed-sequence"),
        "observed risk": observed,
        "kunko, from 0 errors": lambda p, right: sequence(p, right, 0),
        "kunko, from 2 errors": lambda p, right: sequence(p, right, 2),
    }
    if risk in ("calibrated", "flat 0.051"):
        found["closed, sketch"] = from_sketch
    if installed("mapie"):
        found["MAPIE"] = lambda p, right: mapie(p, right, "bonferroni_holm")
        found["MAPIE, fixed sequence"] = lambda p, right: mapie(p, right, "fixed_sequence")
    return found


OURS = (
    "closed",
    "fixed-sequence",
    "closed, sketch",
    "closed, clusters",
    "fixed-sequence, clusters",
    "betting",
    "betting, declared",
)


# ---------------------------------------------------------------- settings


def one_side(job: tuple[str, int, int]) -> list[dict[str, Any]]:
    """Return the results of all methods for one risk and number of rows."""
    risk, n, runs = job
    truth, methods = truth_of(risk), methods_of(risk)
    counts = {name: Count() for name in methods}
    for run in range(runs):
        u, v = np.random.default_rng((n, run)).random((2, n))
        p = u**0.25
        right = (v >= RISKS[risk](p)).astype(np.int64)
        for name, method in methods.items():
            counts[name].add_threshold(method(p, right), truth)
        if run < COMPARED and n < max(SIZES) and installed("judge_audit"):
            for errors in (0, 2):
                if kunko(p, right, errors) != sequence(p, right, errors):
                    message = f"another threshold by kunko-judge-audit: {risk}, {n} rows, run {run}, {errors} errors"
                    raise AssertionError(message)
    oracle = truth.oracle(MAX_RISK)
    setting = {"kind": "one side", "risk": risk, "design": "rows", "n": n, "oracle": oracle}
    return [{**setting, "method": name, **count.row()} for name, count in counts.items()]


def clustered(job: tuple[str, Design, int]) -> list[dict[str, Any]]:
    """Return the results with clusters, and of the same rows as if they were independent."""
    import calibrant

    risk, design, runs = job
    truth, shape = truth_of(risk), (design.clusters, design.size)
    clusters = np.repeat(np.arange(design.clusters), design.size)
    options: dict[str, dict[str, Any]] = {
        "closed, clusters": {"clusters": clusters},
        "fixed-sequence, clusters": {"clusters": clusters, "method": "fixed-sequence"},
        "betting": {"clusters": clusters, "method": "betting"},
        "closed, rows": {},
    }
    counts = {name: Count() for name in options}
    for run in range(runs):
        rng = np.random.default_rng((*shape, run))
        u, v = (
            ndtr(rho**0.5 * rng.normal(size=(design.clusters, 1)) + (1 - rho) ** 0.5 * rng.normal(size=shape)).ravel()
            for rho in (design.correlation * design.scores_too, design.correlation)
        )
        p = u**0.25
        right = (v >= RISKS[risk](p)).astype(np.int64)
        for name, given in options.items():
            counts[name].add_threshold(
                calibrant.certify_threshold(p, right, max_risk=MAX_RISK, confidence=CONFIDENCE, **given).value, truth
            )
    oracle = truth.oracle(MAX_RISK)
    setting = {"kind": "clusters", "risk": risk, "design": str(design), "n": len(clusters), "oracle": oracle}
    return [{**setting, "method": name, **count.row()} for name, count in counts.items()]


#: The confidences at which levels are simulated.
CONFIDENCES = (0.95, 0.99, 0.999, 0.9995)

#: Data sets whose levels are simulated together.
BLOCK = 10_000

#: The most rows of a data set that was planned for.
MOST_PLANNED = 200_000


def levels(job: tuple[float, int, int]) -> list[dict[str, Any]]:
    """Return how often rows with the risk 0.05 are certified by the first cut, and by the worst of all cuts."""
    from calibrant.thresholds import rules

    confidence, n, runs = job
    alpha = round(1 - confidence, 12)
    every = np.arange(1.0, n + 1)
    rows = every[rules.cuts_of(every, rules.first_rows(MAX_RISK, alpha))]
    rng, steps = np.random.default_rng((n, 3)), np.diff(rows, prepend=0.0).astype(np.int64)
    found = np.zeros(len(rows))
    for _ in range(runs // BLOCK):
        wrong = np.cumsum(rng.binomial(steps, MAX_RISK, (BLOCK, len(rows))), axis=1)
        found += rules.accepted(rows, wrong, MAX_RISK, alpha).sum(axis=0)
    runs = runs // BLOCK * BLOCK
    broken = float(found.max()) / runs
    return [
        {
            **{"kind": "levels", "risk": "flat 0.05", "design": f"confidence {confidence}", "n": n, "oracle": 0.0},
            **{"method": "closed", "runs": runs, "certified": float(found[0]) / runs, "broken": broken},
            **{"broken_se": (broken * (1 - broken) / runs) ** 0.5, "share": 0.0, "share_se": 0.0},
        }
    ]


def _few_large(rng: np.random.Generator, clusters: int, share: float, size: int) -> dict[str, Any]:
    """Return clusters of 2 rows that are right, with a share of large ones that are always wrong."""
    large = rng.random(clusters) < share
    labels = np.repeat(np.arange(clusters), np.where(large, size, 2))
    return {"correct": ~large[labels], "clusters": labels}


def _lognormal(rng: np.random.Generator) -> dict[str, Any]:
    """Return 400 clusters with sizes exp(N(1, 1)), rounded up, and errors that rise with the size; risk 0.055."""
    sizes = np.ceil(np.exp(rng.normal(1, 1, 400))).astype(np.int64)
    labels = np.repeat(np.arange(400), sizes)
    risks = np.minimum(0.055 * sizes**0.6 / 3.48, 1.0)  # E size^1.6 / E size = 3.48
    alike = rng.random(len(labels)) < 0.7
    wrong = np.where(alike, (rng.random(400) < risks)[labels], rng.random(len(labels)) < risks[labels])
    return {"correct": ~wrong, "clusters": labels}


def _kept(rng: np.random.Generator) -> dict[str, Any]:
    """Return 2,000 rows with the risk 0.06, of which errors are kept with probability 1/20 and the weight 20."""
    wrong = rng.random(2_000) < 0.06
    kept = ~wrong | (rng.random(2_000) < 0.05)
    return {"correct": ~wrong[kept], "weights": np.where(wrong, 20, 1)[kept]}


def _heavy(rng: np.random.Generator) -> dict[str, Any]:
    """Return 2,000 rows, 5 % with the weight 10 and the risk 0.15, and the weighted risk 0.0636."""
    heavy = rng.random(2_000) < 0.05
    return {"correct": rng.random(2_000) >= np.where(heavy, 0.15, 0.0183), "weights": np.where(heavy, 10, 1)}


#: Data of which clusters or weights tell of errors, and the options of each method.
DOUBTFUL: dict[str, tuple[Callable[[np.random.Generator], dict[str, Any]], dict[str, dict[str, Any]]]] = {
    "150 clusters of 2, 0.003 of 500": (
        lambda rng: _few_large(rng, 150, 0.003, 500),
        {"closed": {}, "betting": {"method": "betting"}, "betting, declared": {"largest_cluster": 500}},
    ),
    "300 clusters of 2, 0.005 of 40": (
        lambda rng: _few_large(rng, 300, 0.005, 40),
        {"closed": {}, "betting": {"method": "betting"}, "betting, declared": {"largest_cluster": 40}},
    ),
    "400 log-normal clusters": (
        _lognormal,
        {"closed": {}, "betting": {"method": "betting"}, "betting, declared": {"largest_cluster": 500}},
    ),
    "errors kept with 1/20, weight 20": (
        _kept,
        {
            "closed, whole weights": {},
            "closed, sampling weights": {"weights_are": "sampling", "method": "closed"},
            "betting": {"weights_are": "sampling"},
            "betting, declared": {"max_weight": 20},
        },
    ),
    "5 % with weight 10, risk 0.15": (
        _heavy,
        {
            "closed, whole weights": {},
            "closed, sampling weights": {"weights_are": "sampling", "method": "closed"},
            "betting": {"weights_are": "sampling"},
            "betting, declared": {"max_weight": 10},
        },
    ),
}


def doubtful(job: tuple[str, int]) -> list[dict[str, Any]]:
    """Return how often a risk above the bound is certified, and how often a caution says so."""
    import calibrant

    design, runs = job
    made, options = DOUBTFUL[design]
    counts, flags = {name: Count() for name in options}, dict.fromkeys(options, 0)
    n = 0
    for run in range(runs):
        rng = np.random.default_rng((run, 4))
        data = made(rng)
        n = max(n, len(data["correct"]))
        scores = rng.random(len(data["correct"]))
        for name, how in options.items():
            given = {**{key: value for key, value in data.items() if key != "correct"}, **how}
            found = calibrant.certify_threshold(scores, data["correct"], max_risk=MAX_RISK, **given)
            counts[name].add(certified=found.certified, broken=found.certified, share=found.coverage)
            flags[name] += bool(found.flag)
    setting = {"kind": "doubtful", "risk": "above 0.05", "design": design, "n": n, "oracle": 0.0}
    return [{**setting, "method": name, **count.row(), "flagged": flags[name] / runs} for name, count in counts.items()]


def planned(job: tuple[str, int, int]) -> list[dict[str, Any]]:
    """Return how often new rows in the planned number do not reach the planned coverage."""
    import calibrant

    risk, n, runs = job
    truth, count = truth_of(risk), Count()

    def certify(rng: np.random.Generator, rows: int) -> Any:
        u, v = rng.random((2, rows))
        p = u**0.25
        return calibrant.certify_threshold(p, v >= RISKS[risk](p), max_risk=MAX_RISK, confidence=CONFIDENCE)

    for run in range(runs):
        rng = np.random.default_rng((n, run, 5))
        first = certify(rng, n)
        if first.rows_needed is not None and first.rows_needed <= MOST_PLANNED:
            new = certify(rng, first.rows_needed)
            count.add(certified=new.certified, broken=new.coverage < first.coverage_needed, share=new.coverage)
    if not count.broken:
        return []
    setting = {"kind": "planned", "risk": risk, "design": "rows", "n": n, "oracle": truth.oracle(MAX_RISK)}
    return [{**setting, "method": "closed", **count.row(), "certified": len(count.broken) / runs}]


def two_sides(job: tuple[str, int, int]) -> list[dict[str, Any]]:
    """Return the results of thresholds of "yes" and "no"."""
    import calibrant

    risk, n, runs = job
    yes, no = truth_of_sides(risk)
    both = Count()
    for run in range(runs):
        rng = np.random.default_rng((n, run, 2))
        p = rng.beta(0.5, 1.5, n)
        outcomes = (rng.random(n) >= RISKS[risk](p)).astype(np.int64)
        found = calibrant.certify_two_sided(p, outcomes, yes_risk=YES_RISK, no_risk=NO_RISK, confidence=CONFIDENCE)
        share, broken = 0.0, False
        for value, truth, limit in (
            (found.yes.value, yes, YES_RISK),
            (None if found.no.value is None else -found.no.value, no, NO_RISK),
        ):
            if value is not None:
                more, wrong = truth.at(value)
                share, broken = min(share + more, 1.0), broken or wrong > limit + 1e-9
        both.add(certified=share > 0, broken=broken, share=share)
    oracle = min(yes.oracle(YES_RISK) + no.oracle(NO_RISK), 1.0)
    setting = {"kind": "two sides", "risk": risk, "design": "rows", "n": n, "oracle": oracle}
    return [{**setting, "method": "closed", **both.row()}]


KINDS: dict[str, Callable[[Any], list[dict[str, Any]]]] = {
    "one side": one_side,
    "clusters": clustered,
    "two sides": two_sides,
    "levels": levels,
    "doubtful": doubtful,
    "planned": planned,
}


def jobs(kind: str, runs: int) -> Iterator[tuple[Any, ...]]:
    """Yield the arguments of a kind's settings, the longest first."""
    fewer = max(1, runs * 2 // 5)
    if kind == "clusters":
        yield from ((risk, design, runs) for design in DESIGNS for risk in ("calibrated", "flat 0.051"))
        return
    if kind == "levels":
        yield from ((confidence, 10_000, 200 * runs) for confidence in CONFIDENCES)
        return
    if kind == "doubtful":
        yield from ((design, runs) for design in DOUBTFUL)
        return
    if kind == "planned":
        names = ("calibrated", "overconfident", "underconfident", "flat 0.03")
        yield from ((risk, n, fewer) for n in (2_000, 500) for risk in names)
        return
    risks = RISKS if kind == "one side" else ("calibrated", "overconfident")
    for n in reversed(SIZES):
        yield from ((risk, n, fewer if n == max(SIZES) else runs) for risk in risks)


def simulated(job: tuple[str, tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Return the results of one setting, and note the time on standard error."""
    kind, arguments = job
    start = time.perf_counter()
    rows = KINDS[kind](arguments)
    print(kind, *map(str, arguments), f"{time.perf_counter() - start:.1f} s", sep=", ", file=sys.stderr, flush=True)
    return rows


# ---------------------------------------------------------------- tables


def tables(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a Markdown table of each kind: broken / share automated."""
    for kind in dict.fromkeys(row["kind"] for row in rows):
        held = [row for row in rows if row["kind"] == kind]
        risks = sorted({row["risk"] for row in held}, key=[*RISKS, "flat 0.05", "above 0.05"].index)
        cells = {(row["design"], int(row["n"]), row["method"], row["risk"]): row for row in held}
        oracle = {row["risk"]: f"{float(row['oracle']):.2f}" for row in held}
        lines = [
            f"{kind}: broken / share automated",
            "",
            "| setting | N | method | " + " | ".join(risks) + " |",
            "|---" * (3 + len(risks)) + "|",
            "| | | oracle | " + " | ".join(f"0 / {oracle[risk]}" for risk in risks) + " |",
        ]
        for design, n, method in sorted(
            dict.fromkeys(key[:3] for key in cells), key=lambda key: (key[1], list(map(str, DESIGNS)).count(key[0]))
        ):
            shown = (cells.get((design, n, method, risk)) for risk in risks)
            texts = ("–" if row is None else f"{float(row['broken']):.3f} / {float(row['share']):.2f}" for row in shown)
            lines.append(f"| {design} | {n:,} | {method} | " + " | ".join(texts) + " |")
        yield "\n".join(lines) + "\n"


def exceptions(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield where calibrant's thresholds are broken too often, and where another method automates a larger share."""
    level = 1 - CONFIDENCE

    def holds(row: dict[str, Any]) -> bool:
        return bool(float(row["broken"]) <= level + 3 * (level * (1 - level) / int(row["runs"])) ** 0.5)

    for row in rows:
        where = f"{row['kind']}, {row['risk']}, {row['design']}, N = {row['n']}"
        if row["method"] in OURS and row["kind"] not in ("levels", "planned") and not holds(row):
            yield f"broken: {where}, {row['method']}: {float(row['broken']):.4f} of {row['runs']}"
        if row["method"] == "closed" and row["kind"] == "one side":
            setting = ("kind", "risk", "design", "n")
            for other in rows:
                larger = float(other["share"]) - float(row["share"])
                same = all(other[name] == row[name] for name in setting)
                if same and other["method"] not in OURS and holds(other) and larger > 0:
                    yield (
                        f"larger share: {where}, {other['method']}: "
                        f"{float(other['share']):.4f} (± {float(other['share_se']):.4f}), closed: "
                        f"{float(row['share']):.4f} (± {float(row['share_se']):.4f})"
                    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--runs", type=int, default=RUNS, help="data sets of a setting; with 10,000 rows two fifths of it"
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the data sets; print only")
    parser.add_argument("--print", action="store_true", help="print only")
    parser.add_argument("--tables", action="store_true", help="no simulation: print the tables of the file")
    parser.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS), help="the rows of others remain")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = []
    if TABLE.exists() and (options.tables or len(options.only) < len(KINDS)):
        with TABLE.open(encoding="utf-8") as stream:
            rows = [row for row in csv.DictReader(stream) if options.tables or row["kind"] not in options.only]
    if not options.tables:
        if not installed("mapie"):
            print("MAPIE is not installed, so its rows are left out", file=sys.stderr)
        if not installed("judge_audit"):
            print("kunko-judge-audit is not installed, so its rules are not compared with it", file=sys.stderr)
        runs = options.runs // 10 if options.quick else options.runs
        asked = [(kind, job) for kind in options.only for job in jobs(kind, runs)]
        with ProcessPoolExecutor(options.processes) as pool:
            found = [row for rows_of_setting in pool.map(simulated, asked) for row in rows_of_setting]
        if options.quick or options.print:
            rows = found
        else:
            rows = sorted([*rows, *found], key=lambda row: (list(KINDS).index(row["kind"]), int(row["n"])))
            with TABLE.open("w", newline="", encoding="utf-8") as stream:
                writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
                writer.writeheader()
                writer.writerows({k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)
    print("\n".join([*tables(rows), *exceptions(rows)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
