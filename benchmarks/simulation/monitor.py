"""Simulate monitors where the truth is known: false alarms, delays, and what an alarm says.

    python benchmarks/simulation/monitor.py            # 20 minutes; writes docs/monitor.csv; prints the tables
    python benchmarks/simulation/monitor.py --quick    # a tenth of the runs; prints only
    python benchmarks/simulation/monitor.py --tables   # no simulation: prints the tables of docs/monitor.csv
    python benchmarks/simulation/monitor.py --only delays --runs 5000 --print  # a part of it

Each monitor has alpha = 0.05 and looks after each slice. A run is one stream of slices.

False alarms: the model is calibrated in all 520 slices. The share of runs with an alarm must be at most 0.05. "Tenths"
are uniform scores rounded to 0, 0.1, ..., 1. Clusters are 20 in each slice, with 10 rows each, and the latent normal
variables of their outcomes have the correlation 0.3; "rows" ignores the clusters. Groups are ten with 50 rows each.
With a tolerance, all true probabilities are at the upper end of what is tolerated.

Delays: the model is calibrated in 52 slices. Then the true log-odds differ from those of the score. A shift adds a
number. The slope multiplies by 0.8. "Top" subtracts 0.5 for the highest scores, which have a fifth of the information
p (1 - p). The delay is the number of slices after the 52 until the alarm, at most 200. The planned delays are those of
the simulation for which the method was designed. A run with an alarm in the first 52 slices is left out.

Mean difference: the share of runs in which the confidence sequence misses the true mean difference in one of 100 slices
at least must be at most 0.05. All rows have one score, with few expected events, or uniform scores. The width in the
last slice is divided by that of Robbins' normal mixture, which is not valid for few events.

Size: one constant score. The interval of the size covers the true difference since the drift began, and the repair that
is named, when the drift is there from the first slice or after 20 calibrated ones.

Drift: what `Monitor.drift` returns at the alarm, after 52 calibrated slices. The true size is the mean of p - q in the
slices since the drift began, where q is the true probability of a row with the score p.

Promise: a threshold with a risk of at most 0.05, with as many rows in each slice as `audit_rows` plans. The planned
power is 0.8 for an alarm within ten slices if the risk is twice as large from the first slice.

Peers: uniform scores, 200 rows in a slice, and the same streams for all methods.

- probcal: `CalibrationMonitor` with its default settings, and with `plug_in_window=52`, because its documentation
  recommends a window for long streams. Its confidence sequence has 2 points rather than 241, which changes no alarm.
  Without a window its time grows with the square of the slices, so its false alarms are counted in 260 slices.
- pitmon: `PITMonitor` with its default settings. It is made for continuous outcomes, so it is given a randomised
  probability integral transform, which is uniform below 1 - p without the event and above 1 - p with it. It detects
  changes of calibration, and does not test whether the model is calibrated. It looks after each row.
- MAPIE: `RiskMonitoring`, which tests whether the mean of a risk of 0 or 1 is above a threshold. It is not made for
  calibration. "Rates" are two monitors, of events and of other outcomes, each at alpha / 2. Both have the threshold
  0.5, the true mean, which is favourable. "Errors" is one monitor of wrong decisions at the score 0.5, and its
  threshold is the true error rate 0.25. The package takes several seconds for the bounds of a stream, so the bounds are
  interpolated here, and must equal those of the package in the first run. It looks after each row.

The peers are optional. Without a package its rows are left out, and the reason is printed.

For false alarms and delays many runs have the same scores and different outcomes, because most of the time is spent on
the scores. They use the functions of calibrant.monitoring; in the first run of each setting `calibrant.Monitor` must
have the same evidence. Tenths and drifts are those of `calibrant.Monitor` itself.
"""

from __future__ import annotations

import argparse
import copy
import csv
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

os.environ.setdefault("CALIBRANT_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import expit, logit, ndtr

import calibrant
from calibrant.monitoring.evidence import (
    TILTS,
    WEIGHTS,
    Clusters,
    Frame,
    Tolerance,
    bets_of_cells,
    growth_of_cells,
    growth_of_clusters,
)
from calibrant.statistics.e_processes import ERROR_TILTS, ERROR_WEIGHTS, Mixture, Wealth, adjusted, error_growth
from calibrant.table import grid as grids
from calibrant.thresholds.planning import PERIODS, POWER, audit_rows

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs" / "monitor.csv"

ALPHA = 0.05
SLICES = 520
GOOD = 52
MOST = 200
RUNS = 1_000
DRAWS = 50  # outcomes of the same scores
COMPARED = 30  # slices in which `calibrant.Monitor` must have the same evidence
SIZES = (50, 200, 2_000)
MAX_RISK = 0.05
TOP = 0.7128592746  # a fifth of the information of uniform scores is above: 3 p^2 - 2 p^3 = 0.8

Array = np.ndarray[Any, np.dtype[np.float64]]
Rng = np.random.Generator

LAWS: dict[str, Callable[[Rng, int], Array]] = {
    "uniform": lambda rng, n: rng.random(n),
    "Beta(1, 20)": lambda rng, n: rng.beta(1, 20, n),
    "Beta(8, 1)": lambda rng, n: rng.beta(8, 1, n),
    "tenths": lambda rng, n: np.round(rng.random(n), 1),
}

#: Returns the true probabilities of scores.
Truth = Callable[[Array], Array]

DRIFTS: dict[str, Truth] = {
    "shift 0.1": lambda p: expit(logit(p) + 0.1),
    "shift 0.2": lambda p: expit(logit(p) + 0.2),
    "shift 0.4": lambda p: expit(logit(p) + 0.4),
    "shift 0.8": lambda p: expit(logit(p) + 0.8),
    "slope 0.8": lambda p: expit(0.8 * logit(p)),
    "top": lambda p: expit(logit(p) - 0.5 * (p > TOP)),
}

#: The median delays of the design, for `DRIFTS` in order.
PLANNED = {50: (160, 57, 18, 6, 38, 46), 200: (56, 17, 6, 2, 12, 14), 2_000: (9, 3, 1, 1, 2, 2)}

#: What is written of each number.
COLUMNS = ("kind", "setting", "n", "method", "statistic", "value", "se", "runs")

ALARM = f"alarm within {SLICES} slices"
EARLY = f"alarm in the first {GOOD} slices"
DELAY = "median delay"


# ---------------------------------------------------------------- numbers


def share(values: Any) -> dict[str, Any]:
    """Return a share with its standard error."""
    mean, runs = float(np.mean(values)), len(values)
    return {"value": mean, "se": (mean * (1 - mean) / runs) ** 0.5, "runs": runs}


def median(values: Any) -> dict[str, Any]:
    """Return a median with its standard error, from the ranks one standard deviation away."""
    ordered, runs = np.sort(np.asarray(values, np.float64)), len(values)
    low, high = (int(np.clip(runs / 2 + s * runs**0.5 / 2, 0, runs - 1)) for s in (-1, 1))
    value = float(np.median(ordered))
    se = float(ordered[high] - ordered[low]) / 2 if math.isfinite(ordered[high]) else math.nan
    return {"value": value, "se": se, "runs": runs}


def delays_of(first: Array) -> list[tuple[str, dict[str, Any]]]:
    """Return the statistics of the first slices with an alarm, from 0; infinite without one."""
    after = first[first >= GOOD] - GOOD + 1
    return [(EARLY, share(first < GOOD)), (DELAY, median(after)), ("alarm", share(np.isfinite(after)))]


# ---------------------------------------------------------------- calibrant's evidence


class Rows(NamedTuple):
    """Rows with K outcomes each, as `growth_of_cells` needs them."""

    scores: Array
    counts: Array
    positives: Array


def log_e(mixture: Mixture, weights: Array) -> Array:
    """Return the logarithm of E of mixtures (..., tilts, K)."""
    most = mixture.logs.max(axis=-2)
    sums = np.sum(weights[:, None] * np.exp(mixture.logs - most[..., None, :]), axis=-2)
    return np.asarray(np.logaddexp(most + np.log(sums), -math.log(mixture.slices + 1)))


class Watch:
    """The evidence of K streams of outcomes with the same scores, of all rows and of groups alike."""

    def __init__(self, draws: int, *, tolerance: Tolerance | None = None, groups: int = 0) -> None:
        self._rows = self._sums = np.zeros(len(grids.edges("standard")) + 1)
        self._tolerance, self._groups = tolerance or Tolerance(), groups
        self._mixture = Mixture.start(cast(int, (1 + groups, len(TILTS), draws)))

    def frame(self, scores: Array) -> Frame:
        """Return the frame of all scores so far and of these, with the sums of the public class to the last bit."""
        table = calibrant.ReliabilityTable.from_scores(scores, np.zeros(len(scores), int)).on_grid("standard")
        self._rows, self._sums = self._rows.copy(), self._sums.copy()
        self._rows[table.cells] += table.counts
        self._sums[table.cells] += table.score_sums
        held = self._rows > 0
        return Frame.of(self._rows[held], np.clip(self._sums[held] / self._rows[held], 0.0, 1.0))

    def update(self, scores: Array, outcomes: Array, frame: Frame | None = None) -> Array:
        """Add a slice, with outcomes (N, K); return the logarithm of E of all rows and of each group, (1 + groups, K).

        Groups are equal parts of the rows, in order.
        """
        frame = frame or self.frame(scores)
        every = np.arange(len(scores))
        parts = [every, *np.split(every, self._groups)] if self._groups else [every]
        growth = [
            growth_of_cells(
                cast(Any, Rows(scores[part], np.ones((len(part), 1)), outcomes[part])), frame, self._tolerance
            )
            for part in parts
        ]
        self._mixture = self._mixture.grown(np.stack(growth))
        return log_e(self._mixture, WEIGHTS)


def drawn(rng: Rng, truth: Array, draws: int) -> Array:
    """Return outcomes with these probabilities, (N, K)."""
    return (rng.random((len(truth), draws)) < truth[:, None]).astype(np.float64)


def same(watch: calibrant.Monitor, log: float, what: str) -> None:
    """Reject other evidence than that of the public class."""
    if not math.isclose(watch.log_e, log, rel_tol=1e-6, abs_tol=1e-6):
        message = f"{what}: calibrant.Monitor has the evidence {watch.log_e!r}, the functions {log!r}"
        raise AssertionError(message)


def streams_of(runs: int) -> list[int]:
    """Return how many outcomes are drawn for each stream of scores."""
    return [min(DRAWS, runs - start) for start in range(0, runs, DRAWS)]


BOUND = -math.log(ALPHA)


# ---------------------------------------------------------------- false alarms


class Null(NamedTuple):
    """A setting without drift: the scores, the rows in a slice, and the arguments of the monitor."""

    law: str
    n: int
    tolerance: float = 0.0
    odds: float = 1.0
    groups: int = 0
    clusters: int = 0

    def __str__(self) -> str:
        if self.groups:
            return f"{self.groups} groups"
        if self.clusters:
            return f"{self.clusters} clusters"
        edge = f"tolerance {self.tolerance}" if self.tolerance else f"odds {self.odds}" if self.odds > 1 else ""
        return edge or self.law


NULLS = [
    *(Null(law, n) for n in SIZES for law in LAWS if law != "tenths"),
    Null("tenths", 200),
    Null("uniform", 200, clusters=20),
    Null("uniform", 500, groups=10),
    *(Null("uniform", n, **edge) for n in (200, 2_000) for edge in ({"tolerance": 0.02}, {"odds": 1.1})),
]


def false_alarms(null: Null, runs: int) -> list[dict[str, Any]]:
    """Return the shares of runs with a false alarm."""
    kind = _clustered if null.clusters else _public if null.law == "tenths" else _independent
    found = kind(null, runs)
    setting = {"setting": str(null), "n": null.n}
    return [{**setting, "method": method, "statistic": name, **share(each)} for method, name, each in found]


def _independent(null: Null, runs: int) -> Iterator[tuple[str, str, Any]]:
    tolerance = Tolerance(null.tolerance, null.odds)
    alarms, called = [], []
    options = {"tolerance": null.tolerance or None, "tolerance_odds": null.odds if null.odds > 1 else None}
    names = np.repeat([f"group {g}" for g in range(null.groups)], null.n // null.groups) if null.groups else None
    for stream, draws in enumerate(streams_of(runs)):
        rng = np.random.default_rng((NULLS.index(null), stream, 1))
        watch = Watch(draws, tolerance=tolerance, groups=null.groups)
        public = calibrant.Monitor(alpha=ALPHA, **options)
        alarm, call = np.zeros(draws, bool), np.zeros(draws, bool)
        for t in range(SLICES):
            scores = LAWS[null.law](rng, null.n)
            outcomes = drawn(rng, tolerance.boundary(scores, up=True), draws)
            whole, *parts = watch.update(scores, outcomes)
            log = whole
            if parts:
                mean = np.logaddexp.reduce(parts, axis=0) - math.log(null.groups)
                log = np.logaddexp(whole, mean) - math.log(2)
                for k in np.flatnonzero(np.max(parts, axis=0) >= BOUND):  # no other group can be flagged
                    call[k] |= max(adjusted({str(g): float(part[k]) for g, part in enumerate(parts)}).values()) >= BOUND
            alarm |= log >= BOUND
            if stream == 0 and t < COMPARED:
                public.update(scores, outcomes[:, 0], groups=names)
                same(public, float(log[0]), f"{null}, slice {t + 1}")
        alarms += alarm.tolist()
        called += call.tolist()
    yield "calibrant", ALARM, alarms
    if null.groups:
        yield "calibrant", f"group flagged within {SLICES} slices", called


def _public(null: Null, runs: int) -> Iterator[tuple[str, str, Any]]:
    """Yield the alarms of the public class: with ties, rounding can put a score into one or the other range."""
    alarms = []
    for run in range(runs):
        rng = np.random.default_rng((NULLS.index(null), run, 1))
        watch = calibrant.Monitor(alpha=ALPHA)
        for _ in range(SLICES):
            scores = LAWS[null.law](rng, null.n)
            watch.update(scores, rng.random(null.n) < scores)
            if watch.alarm:
                break
        alarms.append(watch.alarm)
    yield "calibrant", ALARM, alarms


def _clustered(null: Null, runs: int) -> Iterator[tuple[str, str, Any]]:
    size, rho = null.n // null.clusters, 0.3
    clusters = np.repeat(np.arange(null.clusters), size)
    alarms: dict[str, list[bool]] = {"calibrant": [], "calibrant, rows": []}
    for run in range(runs):
        rng = np.random.default_rng((NULLS.index(null), run, 1))
        watch, mixture = Watch(1), Mixture.start(len(TILTS))
        public = calibrant.Monitor(alpha=ALPHA)
        logs = np.zeros((2, SLICES))
        for t in range(SLICES):
            scores = LAWS[null.law](rng, null.n)
            common = np.repeat(rng.normal(size=null.clusters), size)
            latent = ndtr(rho**0.5 * common + (1 - rho) ** 0.5 * rng.normal(size=null.n))
            outcomes = (latent < scores).astype(np.float64)
            frame, ones = watch.frame(scores), np.ones(null.n)
            mixture = mixture.grown(growth_of_clusters(Clusters(scores, outcomes, ones, clusters), frame, Tolerance()))
            logs[:, t] = mixture.log_e(WEIGHTS), watch.update(scores, outcomes[:, None], frame)[0, 0]
            if run == 0 and t < COMPARED:
                public.update(scores, outcomes, clusters=clusters)
                same(public, float(logs[0, t]), f"{null}, slice {t + 1}")
        for name, log in zip(alarms, logs, strict=True):
            alarms[name].append(bool((log >= BOUND).any()))
    for name, each in alarms.items():
        yield name, ALARM, each


# ---------------------------------------------------------------- delays


def delays(n: int, runs: int) -> list[dict[str, Any]]:
    """Return the delays of all drifts, which have the same slices before."""
    first: dict[str, list[float]] = {name: [] for name in DRIFTS}
    for stream, draws in enumerate(streams_of(runs)):
        rng = np.random.default_rng((n, stream, 2))
        good, early = Watch(draws), np.full(draws, math.inf)
        for t in range(GOOD):
            scores = rng.random(n)
            _alarms(early, good.update(scores, drawn(rng, scores, draws)), t)
        for number, (name, truth) in enumerate(DRIFTS.items()):
            rng = np.random.default_rng((n, stream, 2, number))
            watch, found = copy.copy(good), early.copy()
            for t in range(GOOD, GOOD + MOST):
                scores = rng.random(n)
                _alarms(found, watch.update(scores, drawn(rng, truth(scores), draws)), t)
                if np.isfinite(found).all():
                    break
            first[name] += found.tolist()
    return [
        {"setting": name, "n": n, "method": "calibrant", "statistic": statistic, **value}
        for name, found in first.items()
        for statistic, value in delays_of(np.array(found))
    ]


def _alarms(first: Array, logs: Array, t: int) -> None:
    first[(logs[0] >= BOUND) & np.isinf(first)] = t


# ---------------------------------------------------------------- what an alarm says


def drifts(n: int, runs: int) -> list[dict[str, Any]]:
    """Return what `Monitor.drift` says at the alarm."""
    asked = ("shift 0.2", "shift 0.4", "slope 0.8")
    said: dict[str, list[dict[str, Any]]] = {name: [] for name in asked}
    for run in range(runs):
        rng = np.random.default_rng((n, run, 3))
        good = calibrant.Monitor(alpha=ALPHA)
        for _ in range(GOOD):
            scores = rng.random(n)
            good.update(scores, rng.random(n) < scores)
        if good.alarm:
            continue
        for number, name in enumerate(asked):
            rng = np.random.default_rng((n, run, 3, number))
            watch, sums, slices = copy.copy(good), 0.0, 0
            while not watch.alarm and slices < 2 * MOST:
                scores = rng.random(n)
                true = DRIFTS[name](scores)
                watch.update(scores, rng.random(n) < true)
                sums, slices = sums + float(np.sum(scores - true)), slices + 1
            drift = watch.drift
            if drift is None:
                continue
            said[name].append(
                {
                    "delay": slices,
                    "onset": drift.first - GOOD,
                    "range of starts": int(drift.earliest) <= GOOD + 1 <= int(drift.latest),
                    "width of the range": int(drift.latest) - int(drift.earliest) + 1,
                    "interval of the size": drift.low <= sums / (n * slices) <= drift.high,
                    "repair": drift.repair,
                }
            )
    rows = []
    for name, each in said.items():
        column = {key: np.array([one[key] for one in each]) for key in each[0]}
        statistics = [
            (DELAY, median(column["delay"])),
            ("range of starts covers the onset", share(column["range of starts"])),
            ("median width of the range", median(column["width of the range"])),
            ("median error of the onset", median(column["onset"])),
            ("median distance of the onset", median(np.abs(column["onset"]))),
            ("interval of the size covers", share(column["interval of the size"])),
            *((f"repair: {repair}", share(column["repair"] == repair)) for repair in ("offset", "slope", "refit")),
        ]
        rows += [{"setting": name, "n": n, "method": "calibrant", "statistic": s, **value} for s, value in statistics]
    return rows


# ---------------------------------------------------------------- intervals with few events


class Constant(NamedTuple):
    """Slices of rows with one score, NaN for uniform ones, and the probability of their event."""

    score: float
    rate: float
    n: int
    good: int = 0

    def __str__(self) -> str:
        after = f" after {self.good} slices" if self.good else ""
        return "uniform scores" if math.isnan(self.score) else f"scores {self.score:g}, truth {self.rate:g}{after}"


UNIFORM = math.nan
SEEN = 100  # slices in which a confidence sequence may miss
SEQUENCES = [
    *(Constant(p, p, 50) for p in (0.001, 0.01, 0.05, 0.98)),
    Constant(0.3, 0.3, 3),
    Constant(0.001, 0.02, 50),
    Constant(0.98, 0.9, 50),
    *(Constant(UNIFORM, UNIFORM, n) for n in (50, 600)),
    Constant(0.05, 0.05, 2_000),
]
CONSTANTS = [
    Constant(score, rate, 50, good)
    for good in (0, 20)
    for score, rate in ((0.05, 0.01), (0.01, 0.03), (0.98, 0.9), (0.3, 0.5))
]


def sequences(setting: Constant, runs: int) -> list[dict[str, Any]]:
    """Return how often the confidence sequence misses the mean difference in some slice, and its relative width."""
    missed, widths, n = [], [], setting.n
    for run in range(runs):
        rng = np.random.default_rng((SEQUENCES.index(setting), run, 6))
        wealth, miss, sums, prior, public = Wealth.start(), False, np.zeros(4), 0.0, calibrant.Monitor(alpha=ALPHA)
        for t in range(SEEN):
            p = rng.random(n) if math.isnan(setting.score) else np.full(n, setting.score)
            q = p if math.isnan(setting.score) else np.full(n, setting.rate)
            y = (rng.random(n) < q).astype(np.float64)
            cells = SimpleNamespace(scores=p, counts=np.ones(n), positives=y, total=float(n))
            if not math.isnan(setting.score):
                cells.scores, cells.counts, cells.positives = p[:1], np.array([float(n)]), np.array([y.sum()])
            wealth = wealth.grown(*bets_of_cells(cast(Any, cells), 1.0))
            prior = prior or float(np.sum(p * (1 - p)))
            sums += [np.sum(p - y), np.sum(p), np.sum((p - y) ** 2), np.sum(p - q)]
            gap, predicted, square, true = (float(x) for x in sums)
            rows = float(n * (t + 1))
            miss |= wealth.log_e(true / rows, rows, prior) >= BOUND
            if run == 0 and t < COMPARED:
                public.update(p, y)
                _same_bounds(public, wealth.bounds(rows, gap, predicted, prior, ALPHA), f"{setting}, slice {t + 1}")
        low, high, _ = wealth.bounds(rows, gap, predicted, prior, ALPHA)
        variance = square - gap**2 / rows + prior
        widths.append((high - low) * rows / (2 * math.sqrt(variance * math.log(variance / (prior * ALPHA**2)))))
        missed.append(miss)
    ratio = {"value": float(np.mean(widths)), "se": float(np.std(widths) / runs**0.5), "runs": runs}
    found = [(f"missed within {SEEN} slices", share(missed)), ("width", ratio)]
    return [{"setting": str(setting), "n": n, "method": "calibrant", "statistic": s, **v} for s, v in found]


def _same_bounds(watch: calibrant.Monitor, bounds: tuple[float, ...], what: str) -> None:
    last = watch.to_dict()["slices"][-1]
    if not np.allclose([last["low"], last["high"]], bounds[:2], atol=1e-7):
        message = f"{what}: calibrant.Monitor has the interval {last['low']!r} to {last['high']!r}, not {bounds!r}"
        raise AssertionError(message)


def sizes(setting: Constant, runs: int) -> list[dict[str, Any]]:
    """Return whether the interval of a drift covers, and which repair is named."""
    held, repairs = [], []
    for run in range(runs):
        rng = np.random.default_rng((CONSTANTS.index(setting), run, 7))
        watch, scores = calibrant.Monitor(alpha=ALPHA), np.full(setting.n, setting.score)
        for _ in range(setting.good):
            watch.update(scores, rng.random(setting.n) < setting.score)
        if watch.alarm:
            continue
        while not watch.alarm:
            watch.update(scores, rng.random(setting.n) < setting.rate)
        drift = cast(calibrant.monitoring.Drift, watch.drift)
        held.append(drift.low <= setting.score - setting.rate <= drift.high)
        repairs.append(drift.repair)
    found = [("interval of the size covers", share(held))]
    found += [(f"repair: {repair}", share(np.array(repairs) == repair)) for repair in ("offset", "slope", "refit")]
    return [{"setting": str(setting), "n": setting.n, "method": "calibrant", "statistic": s, **v} for s, v in found]


# ---------------------------------------------------------------- the promise of a threshold


def promises(rows: int, runs: int) -> list[dict[str, Any]]:
    """Return the false alarms and the delays of a threshold with so many rows in each slice."""
    runs *= 10  # they take no time
    rng = np.random.default_rng((rows, 4))

    def first(good: int, bad: int) -> Array:
        """Return the first slice with an alarm, from 0; infinite for none."""
        risks = np.repeat([MAX_RISK, 2 * MAX_RISK], [good, bad])
        errors = rng.binomial(rows, risks, (runs, good + bad))
        mixture, found = Mixture.start(cast(int, (len(ERROR_TILTS), runs))), np.full(runs, math.inf)
        public = calibrant.Monitor(alpha=ALPHA, threshold={"value": 0.9, "side": "yes", "max_risk": MAX_RISK})
        for t in range(good + bad):
            mixture = mixture.grown(error_growth(rows, errors[:, t], MAX_RISK).T)
            logs = log_e(mixture, ERROR_WEIGHTS)
            found[(logs >= BOUND) & np.isinf(found)] = t
            if t < COMPARED:
                public.update(np.linspace(0.9, 1, rows), np.arange(rows) >= errors[0, t])
                if public.promise_broken != bool(np.isfinite(found[0])):
                    message = f"calibrant.Monitor and the functions differ in slice {t + 1}"
                    raise AssertionError(message)
        return found

    kept, broken, later = first(SLICES, 0), first(0, MOST), first(GOOD, MOST)
    found = [
        ("risk 0.05", ALARM, share(np.isfinite(kept))),
        ("risk 0.1 from the first slice", f"alarm within {PERIODS} slices", share(broken < PERIODS)),
        ("risk 0.1 from the first slice", DELAY, median(broken + 1)),
        *((f"risk 0.1 after {GOOD} slices", *each) for each in delays_of(later)),
    ]
    return [{"setting": s, "n": rows, "method": "calibrant", "statistic": name, **v} for s, name, v in found]


# ---------------------------------------------------------------- peers

#: Returns the first slice with an alarm, from 0, of (T, N) scores and outcomes; infinite for none.
Method = Callable[[Array, Array], float]


def ours(scores: Array, outcomes: Array) -> float:
    """Return the first slice with an alarm of calibrant."""
    watch = Watch(1)
    for t, (p, y) in enumerate(zip(scores, outcomes, strict=True)):
        if watch.update(p, y[:, None])[0, 0] >= BOUND:
            return t
    return math.inf


def probcal(scores: Array, outcomes: Array, window: int | None) -> float:
    """Return the first slice with an alarm of probcal."""
    from probcal.monitor import CalibrationMonitor

    watch = CalibrationMonitor(alpha=ALPHA, plug_in_window=window, delta_ci_grid=(-3.0, 3.0, 2))
    for t, (p, y) in enumerate(zip(scores, outcomes, strict=True)):
        if watch.update(y, p).alarm:
            return t
    return math.inf


def pitmon(scores: Array, outcomes: Array) -> float:
    """Return the slice of the first row with an alarm of pitmon."""
    from pitmon import PITMonitor

    seed = int(scores[0, 0] * 2**32)
    u = np.random.default_rng(seed).random(scores.shape)
    below = 1 - scores
    watch = PITMonitor(alpha=ALPHA, rng=seed + 1)
    watch.update_many(np.where(outcomes == 1, below + u * scores, u * below).ravel())
    return (watch.alarm_time - 1) // scores.shape[1] if watch.alarm_triggered else math.inf


@lru_cache
def mapie_bound(alpha: float) -> CubicSpline:
    """Return MAPIE's bound of a sum, as a function of the square root of the sum of squares."""
    from mapie.exchangeability_testing.bounds import GammaExponentialMixtureBound

    bound = GammaExponentialMixtureBound(v_opt=1, c=1, alpha_opt=alpha / 2)
    roots = np.linspace(0, 400, 4_001)
    return CubicSpline(roots, [bound(v=float(root**2), alpha=alpha / 2) for root in roots])


def mapie_lower(risks: Array, alpha: float) -> Array:
    """Return MAPIE's lower bounds of the mean after each row, `conjugate_mixture_empirical_bernstein_bound`."""
    number = np.arange(1, len(risks) + 1)
    means = np.cumsum(risks) / number
    squares = np.cumsum((risks - np.append(0.5, means[:-1])) ** 2)
    return np.maximum.accumulate(np.maximum(means - mapie_bound(alpha)(np.sqrt(squares)) / number, 0))


def mapie(scores: Array, outcomes: Array, kind: str, *, check: bool = False) -> float:
    """Return the slice of the first row with an alarm of MAPIE."""
    if kind == "rates":
        parts, alpha, threshold = [outcomes.ravel(), 1 - outcomes.ravel()], ALPHA / 2, 0.5
    else:
        parts, alpha, threshold = [((scores > 0.5) != outcomes).ravel().astype(np.float64)], ALPHA, 0.25
    first = math.inf
    for part in parts:
        lower = mapie_lower(part, alpha / 2)  # the other half is for the threshold
        found = np.flatnonzero(lower > threshold)
        first = min(first, float(found[0] // scores.shape[1])) if len(found) else first
        if check:
            _same_as_mapie(part[:5_000], alpha, threshold, lower[:5_000])
    return first


def _same_as_mapie(risks: Array, alpha: float, threshold: float, lower: Array) -> None:
    from mapie.exchangeability_testing import RiskMonitoring
    from mapie.risk_control.risks import BinaryRisk

    def every(y_true: Any, y_pred: Any) -> Any:
        return np.ones(len(y_true), bool) & (y_pred == y_pred)

    risk = BinaryRisk(lambda y_true, y_pred: y_true == y_pred, every, higher_is_better=False)
    watch = RiskMonitoring(risk, test_level=alpha, threshold=threshold, warn=False)
    watch.update(risks, np.ones(len(risks)))
    np.testing.assert_allclose(watch.online_risk_lower_bound_sequence_history, lower, rtol=1e-6, atol=1e-8)


class Peer(NamedTuple):
    """A method, the package that it needs, its runs by those of calibrant, and the slices of false alarms."""

    method: Method
    package: str | None = None
    runs: float = 1.0
    slices: int = SLICES


PEERS = {
    "calibrant": Peer(ours),
    "probcal": Peer(lambda p, y: probcal(p, y, None), "probcal", 0.5, 260),
    "probcal, window of 52": Peer(lambda p, y: probcal(p, y, GOOD), "probcal"),
    "pitmon": Peer(pitmon, "pitmon"),
    "MAPIE, rates": Peer(lambda p, y: mapie(p, y, "rates"), "mapie"),
    "MAPIE, errors": Peer(lambda p, y: mapie(p, y, "errors"), "mapie"),
}
PEER_SETTINGS = ("calibrated", "shift 0.2", "shift 0.4", "top")
PEER_ROWS = 200


def installed(package: str | None) -> bool:
    """Return whether a package can be imported."""
    return package is None or find_spec(package) is not None


def peers(setting: str, runs: int) -> list[dict[str, Any]]:
    """Return the false alarms, or the delays, of all methods that are installed."""
    first: dict[str, list[float]] = {name: [] for name, peer in PEERS.items() if installed(peer.package)}
    for run in range(runs):
        rng = np.random.default_rng((PEER_SETTINGS.index(setting), run, 5))
        slices = SLICES if setting == "calibrated" else GOOD + MOST
        scores = rng.random((slices, PEER_ROWS))
        true = scores.copy()
        if setting != "calibrated":
            true[GOOD:] = DRIFTS[setting](scores[GOOD:])
        outcomes = (rng.random(scores.shape) < true).astype(np.float64)
        if run == 0 and "MAPIE, rates" in first:
            for kind in ("rates", "errors"):
                mapie(scores, outcomes, kind, check=True)
        for name in first:
            peer = PEERS[name]
            if setting != "calibrated" or run < runs * peer.runs:
                upto = peer.slices if setting == "calibrated" else slices
                first[name].append(peer.method(scores[:upto], outcomes[:upto]))
    rows = []
    for name, found in first.items():
        alarm = (f"alarm within {PEERS[name].slices} slices", share(np.isfinite(found)))
        statistics = [alarm] if setting == "calibrated" else delays_of(np.array(found))
        rows += [{"setting": setting, "n": PEER_ROWS, "method": name, "statistic": s, **v} for s, v in statistics]
    return rows


# ---------------------------------------------------------------- all settings

KINDS: dict[str, tuple[Callable[[Any, int], list[dict[str, Any]]], Callable[[], list[Any]]]] = {
    "false alarms": (false_alarms, lambda: list(NULLS)),
    "delays": (delays, lambda: list(SIZES)),
    "mean difference": (sequences, lambda: list(SEQUENCES)),
    "size": (sizes, lambda: list(CONSTANTS)),
    "drift": (drifts, lambda: [200, 2_000]),
    "promise": (promises, lambda: [audit_rows(MAX_RISK, ALPHA)]),
    "peers": (peers, lambda: list(PEER_SETTINGS)),
}


def fewer(kind: str, setting: Any) -> float:
    """Return the share of the runs that a setting has: fewer if they take long."""
    if kind == "peers":
        return 0.04
    if kind in ("drift", "size"):
        return 0.4
    if kind == "false alarms" and setting.n == max(SIZES):
        return 0.5
    return 0.25 if kind == "false alarms" and (setting.clusters or setting.law == "tenths") else 1.0


def simulated(job: tuple[str, Any, int]) -> list[dict[str, Any]]:
    """Return the results of one setting, and note the time on standard error."""
    kind, setting, runs = job
    start = time.perf_counter()
    rows = [{"kind": kind, **row} for row in KINDS[kind][0](setting, max(2, int(runs * fewer(kind, setting))))]
    print(kind, str(setting), f"{time.perf_counter() - start:.1f} s", sep=", ", file=sys.stderr, flush=True)
    return rows


# ---------------------------------------------------------------- tables


def _number(row: dict[str, Any] | None) -> str:
    if row is None:
        return "–"
    value, se = float(row["value"]), float(row["se"])
    if math.isinf(value):
        return f"> {MOST}"
    digits = 0 if row["statistic"].startswith("median") else 3
    return f"{value:.{digits}f}" if math.isnan(se) else f"{value:.{digits}f} ± {se:.{max(digits, 1)}f}"


def tables(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a Markdown table of each kind, with standard errors."""
    for kind in dict.fromkeys(row["kind"] for row in rows):
        held = [row for row in rows if row["kind"] == kind]
        if kind in ("delays", "drift"):
            yield _wide(kind, held)
            continue
        if kind == "peers":
            yield _of_methods(held)
            continue
        lines = [f"{kind}:", "", "| setting | rows | method | statistic | value | runs |", "|---" * 6 + "|"]
        for row in held:
            names = (row[name] for name in ("setting", "n", "method", "statistic"))
            lines.append(f"| {' | '.join(map(str, names))} | {_number(row)} | {row['runs']} |")
        yield "\n".join(lines) + "\n"


def _wide(kind: str, held: list[dict[str, Any]]) -> str:
    """Return a table with a column for each drift."""
    columns = list(dict.fromkeys(row["setting"] for row in held))
    cells = {(int(row["n"]), row["statistic"], row["setting"]): row for row in held}
    lines = [f"{kind}:", "", "| rows | statistic | " + " | ".join(columns) + " |", "|---" * (2 + len(columns)) + "|"]
    for n, statistic in dict.fromkeys(key[:2] for key in cells):
        shown = [cells.get((n, statistic, column)) for column in columns]
        lines.append(f"| {n:,} | {statistic} | " + " | ".join(map(_number, shown)) + " |")
        if statistic == DELAY:
            planned = [PLANNED[n][list(DRIFTS).index(column)] for column in columns]
            ratios = [float(cast(Any, row)["value"]) / plan for row, plan in zip(shown, planned, strict=True)]
            lines.append(f"| {n:,} | planned delay | " + " | ".join(map(str, planned)) + " |")
            lines.append(f"| {n:,} | ratio | " + " | ".join(f"{ratio:.2f}" for ratio in ratios) + " |")
    return "\n".join(lines) + "\n"


def _of_methods(held: list[dict[str, Any]]) -> str:
    """Return a table with a row for each method."""
    cells = {(row["method"], row["setting"], row["statistic"].split(" within ")[0]): row for row in held}
    settings = [setting for setting in PEER_SETTINGS if any(key[1] == setting for key in cells)]
    shown = [(s, name) for s in settings for name in (("alarm",) if s == "calibrated" else (DELAY, "alarm"))]
    lines = [
        "peers:",
        "",
        "| method | runs | " + " | ".join(f"{setting}: {name}" for setting, name in shown) + " |",
        "|---" * (2 + len(shown)) + "|",
    ]
    for method in dict.fromkeys(row["method"] for row in held):
        runs = max(int(row["runs"]) for row in held if row["method"] == method)
        texts = [_number(cells.get((method, *key))) for key in shown]
        calibrated = cells.get((method, "calibrated", "alarm"))
        if calibrated is not None and calibrated["statistic"] != ALARM:
            texts[0] += f" ({calibrated['statistic'].removeprefix('alarm ')}, {calibrated['runs']} runs)"
        lines.append(f"| {method} | {runs} | " + " | ".join(texts) + " |")
    return "\n".join(lines) + "\n"


def exceptions(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what is worse than promised or planned."""
    for row in rows:
        kind, statistic, value = row["kind"], row["statistic"], float(row["value"])
        runs, where = int(row["runs"]), f"{row['kind']}, {row['setting']}, {row['n']} rows, {row['method']}"
        if row["method"] == "calibrant" and (statistic == ALARM or statistic.startswith("group flagged")):
            if value > ALPHA + 3 * (ALPHA * (1 - ALPHA) / runs) ** 0.5:
                yield f"false alarms: {where}, {statistic}: {value:.4f} of {runs}"
        elif statistic.startswith("missed"):
            if value > ALPHA + 3 * (ALPHA * (1 - ALPHA) / runs) ** 0.5:
                yield f"confidence sequence: {where}, {statistic}: {value:.4f} of {runs}"
        elif kind == "delays" and statistic == DELAY:
            planned = PLANNED[int(row["n"])][list(DRIFTS).index(row["setting"])]
            noise = 0.5 + 2 * float(row["se"])  # the planned number is a whole one
            if abs(value - planned) > 0.1 * planned + noise:
                yield f"delay: {where}: {value:.1f}, planned {planned}"
        elif "cover" in statistic and value < 0.9:
            yield f"coverage: {where}, {statistic}: {value:.4f} ± {float(row['se']):.4f}"
        elif kind == "promise" and statistic == f"alarm within {PERIODS} slices" and value < POWER - 0.02:
            yield f"power: {where}, {statistic}: {value:.4f}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of a setting; fewer where they take long")
    parser.add_argument("--quick", action="store_true", help="a tenth of the runs; print only")
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
        if "peers" in options.only:
            for package in dict.fromkeys(peer.package for peer in PEERS.values()):
                if not installed(package):
                    print(f"{package} is not installed, so its rows are left out", file=sys.stderr)
        runs = options.runs // 10 if options.quick else options.runs
        asked = [(kind, setting, runs) for kind in options.only for setting in KINDS[kind][1]()]
        if options.processes == 1:
            found = [row for job in asked for row in simulated(job)]
        else:
            with ProcessPoolExecutor(options.processes) as pool:
                found = [row for rows_of_setting in pool.map(simulated, asked) for row in rows_of_setting]
        if options.quick or options.print:
            rows = found
        else:
            rows = sorted([*rows, *found], key=lambda row: list(KINDS).index(row["kind"]))
            with TABLE.open("w", newline="", encoding="utf-8") as stream:
                writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
                writer.writeheader()
                writer.writerows({k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)
    print("\n".join([*tables(rows), *exceptions(rows)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
