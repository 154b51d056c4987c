"""One part of the simulation: data sets of one setting, and every interval of each."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from coverage_clusters import ClusterLaw, cluster_laws
from coverage_laws import BINS, CLASSES, FEW_SIZES, MANY_CLASSES, SIZES, Law, Rows, laws, softmax_logits, truths
from coverage_pairs import PAIRS, compared
from numpy.typing import NDArray
from scipy.special import softmax

from calibrant import ReliabilityTable
from calibrant.inference import cox_test, hosmer_lemeshow_test, ks_test, kuiper_test, spiegelhalter_test, t_cal_test
from calibrant.inputs.predictions import as_predictions
from calibrant.inputs.scores import event_row_scores
from calibrant.inputs.weights import deciding_rows
from calibrant.measures import MEASURES, Event, Inference, Unavailable
from calibrant.measures.binned import binned
from calibrant.measures.binned.binned import quantile_bins
from calibrant.measures.binned.classwise import CLASSWISE_ECE
from calibrant.measures.binned.cluster_bins import uniform_bins, uniform_sums
from calibrant.measures.estimates import ClassBins, estimate
from calibrant.measures.event import Classes
from calibrant.measures.listed import OF_LEVELS
from calibrant.measures.means.means import PredictionMeans, heavy, surprises
from calibrant.measures.read_arguments import ClassHistograms
from calibrant.measures.verdict import calibration_test, verdict_statistic
from calibrant.results import Estimate
from calibrant.statistics.cells import Cells
from calibrant.statistics.class_rows import ClassRows
from calibrant.statistics.design import Clustered
from calibrant.statistics.resampling import Resampling
from calibrant.table.cluster_labels import as_clusters
from calibrant.table.cluster_sums import BucketSums

PARTS = Path(__file__).resolve().parents[1] / ".coverage"
#: The measures of one event whose intervals are simulated. Classes have data sets of their own, and those of ordered
#: levels are in `tests/measures/test_ordered.py`.
SIMULATED = [m for m in MEASURES if m.judges != "classes" and not isinstance(m.interval, Unavailable)]
SIMULATED = [m for m in SIMULATED if m not in OF_LEVELS]

#: The measures that a report flags where few surprises are expected.
LOSSES = ("brier", "brier_event", "brier_skill", "nll", "log_loss_skill")

VERSION = 4  # of the content of a part: a new version starts the simulation again

LEVELS = (0.9, 0.95)
RESAMPLES = 199  # (B + 1) alpha is whole at both levels, so the tests are exact where the law is continuous
PART = 50  # data sets of one part
AWAY, NULL, PEERS = 300, 1_000, 40  # data sets of a setting
AGAIN = 600  # fresh data sets of a setting in which something failed
FRESH = 1_000  # the number of their first part
LARGE = 20_000  # of samples of this size and more, half as many

#: Every law; those of rows in clusters come last.
LAWS = (*laws(), *cluster_laws())


@dataclass(frozen=True)
class Part:
    """Some data sets of one setting."""

    kind: str
    law: int
    n: int
    number: int
    size: int
    only: tuple[str, ...] = ()  # measures; empty for all

    @property
    def path(self) -> Path:
        named = json.dumps([VERSION, self.kind, self.law, self.n, self.number, self.size, *sorted(self.only)])
        return PARTS / f"{hashlib.sha256(named.encode()).hexdigest()[:20]}.npz"

    def generators(self) -> Iterator[tuple[int, np.random.Generator]]:
        kinds = ("event", "classwise", "peers", "pairs")
        for i in range(self.size):
            seed = (kinds.index(self.kind), self.law, self.n, self.number, i)
            yield self.number * PART + i, np.random.default_rng(seed)


def parts(quick: bool) -> list[Part]:
    """Return all parts, those that take longest first."""
    all_parts = []
    sizes = SIZES[:2] if quick else SIZES
    for i, law in enumerate(LAWS):
        total = NULL if law.calibrated else AWAY
        total = total // 2 if isinstance(law, ClusterLaw) else total
        total = max(total // 10, PART) if quick else total
        for n in (n for n in law.sizes if n in sizes):
            sets = max(total // 2, PART) if n >= LARGE else total
            all_parts += [Part("event", i, n, j, PART) for j in range(-(-sets // PART))]
            if n <= 2_000 and law.name in ("Uniform", "Beta(8, 1)") and law.tilt in (1.0, 1.4):
                all_parts += [Part("peers", i, n, j, 10) for j in range((20 if quick else PEERS) // 10)]
    for i in range(2 * len(TILTS)):
        for n in (n for n in (sizes if i < len(TILTS) else FEW_SIZES) if n in sizes):
            all_parts += [Part("classwise", i, n, j, PART) for j in range((PART if quick else AWAY // 2) // PART)]
    for i in range(len(PAIRS)):
        for n in (n for n in sizes if n <= LARGE):
            all_parts += [Part("pairs", i, n, j, PART) for j in range((PART if quick else AWAY) // PART)]
    return sorted(all_parts, key=lambda part: -part.n)


def limited(wanted: Iterable[Part], only: tuple[str, ...]) -> list[Part]:
    """Return the parts of one event with these measures alone; all parts without measures."""
    return [replace(part, only=only) for part in wanted if part.kind == "event"] if only else list(wanted)


def repeats(settings: Iterable[tuple[str, int, int]], quick: bool) -> list[Part]:
    """Return parts with fresh data sets of settings (kind, law, N), to tell a fault from chance."""
    fresh = range(FRESH, FRESH + (2 if quick else AGAIN // PART))
    return [Part(*setting, number, PART) for setting in settings for number in fresh]


# ---------------------------------------------------------------- one part


def run(part: Part) -> Part:
    """Compute a part and leave it on disk."""
    work = {"event": event_rows, "classwise": class_rows, "peers": peer_rows, "pairs": pair_rows}[part.kind]
    rows = [row for i, rng in part.generators() for row in work(part, i, rng)]
    names = rows[0] if rows else ("measure",)  # a part may have no interval at all
    columns = {key: np.array([row[key] for row in rows]) for key in names}
    PARTS.mkdir(exist_ok=True)
    partial = part.path.with_suffix(f".{os.getpid()}.tmp")
    with partial.open("wb") as file:
        np.savez_compressed(file, **columns)
    partial.replace(part.path)
    return part


@lru_cache(maxsize=2)
def law_of(number: int) -> Law:
    """Return a law whose population is kept for the next part, which often has the same law."""
    return replace(LAWS[number])


@cache
def truths_of(law: int) -> dict[str, Any]:
    return truths(law_of(law))


def event_rows(part: Part, i: int, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    law, true = law_of(part.law), truths_of(part.law)
    rows = law.draw(part.n, rng)
    event = event_of(rows, law.bins)
    measures = [measure for measure in SIMULATED if not part.only or measure.name in part.only]
    resampling = Resampling.of(LEVELS[0], RESAMPLES, i + 1)
    inference = Inference(event=event, resampling=resampling, measures=measures, statistics=[verdict_statistic])
    held = (
        np.flatnonzero(event.of(uniform_bins).rows >= 30)
        if event.clusters is None
        else event.of(uniform_sums).moments.index[event.of(uniform_sums).held]
    )
    of_held = {"mce": float(np.abs(true["gaps"][held]).max())} if len(held) else {}
    of_held["ace"] = of_bins(law, quantile_bins(event.table, event.n_bins))
    few = bool(event.design.sample.flag or heavy_weights(rows.weights))
    lost = bool(surprises(event))
    p_value = math.nan if part.only else calibration_test(inference).test.p_value
    for level in LEVELS:
        at_level = inference.at(level)
        for measure in measures:
            result = estimate(measure, event, at_level)
            if not math.isnan(result.high):
                flagged = few or (lost and measure.name in LOSSES)
                yield row(measure.name, result, {**true, **of_held}[measure.name], level, flagged)
        if not part.only:
            yield row("verdict", Estimate(math.nan, p_value=p_value), 0.0, level, few)
    independent = rows.weights is None and rows.clusters is None and not part.only
    if (law.calibrated or part.n <= 2_000) and independent and not np.isin(rows.p, (0.0, 1.0)).any():
        for name, classical_p in classical(event.table).items():
            yield row(name, Estimate(math.nan, p_value=classical_p), 0.0, LEVELS[0], few)


def event_of(rows: Rows, n_bins: int) -> Event:
    """Return the event that rows are about."""
    p, y, weights, clusters = rows
    table, in_clusters = ReliabilityTable.from_scores(p, y, weights=weights), None
    means = PredictionMeans.of_table(table, right=False)
    if clusters is not None:
        scores = event_row_scores(p[:, None], y, logits=False)
        buckets = BucketSums.of(as_clusters(clusters, len(p)), p, y.astype(np.uint8), row_scores=scores)
        in_clusters = Clustered.of(Cells.from_table(table), buckets)
        happened = buckets.y.sum(axis=1)
        kinds, places = np.stack([buckets.weight - happened, happened], axis=1), np.arange(len(happened))
        means = replace(means, base_rates=replace(means.base_rates, buckets=kinds, places=places))
    return Event(table=table, n_bins=n_bins, means=means, clusters=in_clusters)


def heavy_weights(weights: NDArray[np.float64] | None) -> bool:
    """Return whether the weights of few rows decide, which a report flags."""
    return weights is not None and bool(heavy(deciding_rows(float(np.sum(weights**2)), float(np.sum(weights**4)))))


def of_bins(law: Law, bins: binned.Bins) -> float:
    """Return the population's l1 error over a data set's own bins, which are (edge, next edge]."""
    p, _ = law.population
    ends = np.searchsorted(p, bins.edges[1:][bins.counts > 0], side="right")
    ends[-1] = len(p)
    return float(np.abs(np.diff(law.gap_sums[ends], prepend=0.0)).sum() / len(p))


def classical(table: ReliabilityTable) -> dict[str, float]:
    """Return the p-values of the tests that a report does not have."""
    tests = {
        "Spiegelhalter": spiegelhalter_test(table),
        "Hosmer-Lemeshow, equal frequency": hosmer_lemeshow_test(table, sample="external", cuts="mass"),
        "Kolmogorov-Smirnov": ks_test(table),
        "Kuiper": kuiper_test(table),
        "Cox": cox_test(table),
    }
    if table.n <= 2_000:
        tests["T-Cal"] = t_cal_test(table, n_resamples=RESAMPLES, rng=int(table.sums.positives) + table.n)
    return {name: test.p_value for name, test in tests.items()}


def row(name: str, result: Estimate, true: float, level: float, few: bool) -> dict[str, Any]:
    floor = result.floor.mean if result.floor is not None else math.nan
    return {
        "measure": name,
        "level": level,
        "true": true,
        "value": result.value,
        "low": result.low,
        "high": result.high,
        "floor": floor,
        "p": result.p_value,
        "few": few,
    }


TILTS = (1.0, 1.1, 1.4, 2.0)
POPULATION = 1_000_000


@cache
def class_truth(tilt: float, n_classes: int) -> float:
    """Return the mean over classes of the binned error of a population of a million rows, without their noise."""
    rng, gaps = np.random.default_rng(7), np.zeros((n_classes, BINS))
    for _ in range(20):
        logits = softmax_logits(rng, POPULATION // 20, n_classes).astype(np.float64)
        reported, rates = softmax(tilt * logits, axis=1), softmax(logits, axis=1)
        bins = np.clip(np.ceil(reported * BINS).astype(int) - 1, 0, BINS - 1)
        for k in range(n_classes):
            gaps[k] += np.bincount(bins[:, k], reported[:, k] - rates[:, k], BINS)
    return float(np.abs(gaps).sum(axis=1).mean() / POPULATION)


def class_rows(part: Part, i: int, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Judge the classes of a softmax: labels are drawn from the logits, and the model reports them times a factor."""
    tilt, n_classes = TILTS[part.law % len(TILTS)], CLASSES if part.law < len(TILTS) else MANY_CLASSES
    logits = softmax_logits(rng, part.n, n_classes).astype(np.float64)
    reported, rates = softmax(tilt * logits, axis=1), softmax(logits, axis=1)
    labels = (np.cumsum(rates, axis=1) < rng.random((part.n, 1))).sum(axis=1).clip(0, n_classes - 1)
    histograms = np.zeros((3, BINS, n_classes))
    for k in range(n_classes):
        table = ReliabilityTable.from_scores(reported[:, k], labels == k)
        bins = binned.bin_table(table, BINS)
        histograms[:, :, k] = bins.counts, bins.score_sums, bins.positives
    errors = ClassHistograms(sums=histograms, totals=float(part.n)).errors("l1")
    uppers = binned.largest_members(binned.uniform_edges(BINS), "right", reported.dtype)
    rows = ClassRows(as_predictions(reported, labels), uppers)
    bins = ClassBins(histograms=histograms, effective_n=float(part.n), rows=rows)
    classes = Classes(errors=errors, bins=bins)
    event = Event(table=table, n_bins=BINS, classes=classes)  # the measure looks at the classes alone
    for level in LEVELS:
        inference = Inference(event=event, resampling=Resampling.of(level, RESAMPLES, i + 1))
        result = estimate(CLASSWISE_ECE, event, inference)
        yield row("classwise_ece", result, class_truth(tilt, n_classes), level, few=False)


def peer_rows(part: Part, i: int, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Ask relplot and uncertainty-calibration for their intervals, at 95 %."""
    true = truths_of(part.law)
    p, y, *_ = law_of(part.law).draw(part.n, rng)
    np.random.seed(i)  # noqa: NPY002 - both draw from the global state
    with warnings.catch_warnings(), contextlib.redirect_stdout(None):
        warnings.simplefilter("ignore")
        import calibration
        import relplot

        diagram = relplot.prepare_rel_diagram(p, y, plot_confidence_band=False, num_bootstrap=1)
        value, half = float(diagram["ce"]), float(diagram["ce_ci_width"])
        # Its alpha is in per cent, whatever its documentation says.
        low, middle, high = calibration.get_calibration_error_uncertainties(p, y, p=2, alpha=5.0)
    yield row("relplot", Estimate(value, value - half, value + half), true["smece"], 0.95, few=False)
    root = true["rmsce of equal mass"]
    yield row("uncertainty-calibration", Estimate(float(middle), float(low), float(high)), root, 0.95, few=False)


def pair_rows(part: Part, _: int, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Compare two models on the same rows."""
    state = rng.bit_generator.state
    for level in LEVELS:
        rng.bit_generator.state = state  # the same data
        for name, difference, true in compared(PAIRS[part.law], part.n, level, rng):
            yield row(f"pair {name}", difference, true, level, few="flag" in difference.details)
