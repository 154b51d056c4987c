"""The rows that a test is about: their table, their sums over buckets of clusters, and their simulated data sets.

Under calibration a simulated data set of rows in clusters has the sums g* of `measures.simulated`: the residuals of
each bucket of clusters are multiplied by one random normal number. The data are compared with simulated data sets on
the same coarse cells. Where the scores of every cluster add up to its outcomes, a sum cannot deviate: it counts as 0,
so that rounding decides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError
from calibrant.inputs.notions import read
from calibrant.inputs.predictions import Notion, Predictions
from calibrant.measures.binned.cluster_bins import ClusterBins
from calibrant.measures.event import Event
from calibrant.measures.line.line import CERTAIN, log_odds
from calibrant.measures.simulated import ClusterNull, GapSums
from calibrant.results import TestResult
from calibrant.runtime.arrays import ArrayLike, Float64s
from calibrant.runtime.dataclass import dataclass
from calibrant.sketch import Arguments, CalibrationSketch
from calibrant.statistics.buckets import NOTHING
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import BY_CLUSTER, LONE, Clustered
from calibrant.statistics.null import p_value
from calibrant.statistics.resampling import Resampling
from calibrant.table import ReliabilityTable
from calibrant.table.cluster_labels import ClusterLabels
from calibrant.table.cluster_sums import BucketSums, check_notion, labels_of

_HOLDS: Final = {ReliabilityTable: "a table has no clusters", CalibrationSketch: "a sketch has its own clusters"}


@dataclass(frozen=True, eq=False, kw_only=True)
class EventRows(Event):
    """The evaluated rows of one event that a test is about."""

    alone: bool = False  # whether clusters were passed, of one row each

    @classmethod
    def of_arguments(cls, arguments: Arguments, clusters: ArrayLike | None = None) -> EventRows:
        """Return the rows of predictions, of a table or of a sketch; reject clusters passed with the latter two."""
        probs = arguments.probs
        ready = isinstance(probs, (ReliabilityTable, CalibrationSketch))
        if ready and clusters is not None:
            remedy = f"leave it out, because {_HOLDS[type(probs)]}, or pass predictions"
            raise InputError("clusters", f"no value with a {type(probs).__name__}", "a value", remedy)
        if ready or clusters is None or clusters is False:
            sketch = arguments.sketch()
            if sketch is not None:  # read once: another thread may add to it
                arguments = replace(arguments, probs=sketch)
            buckets = None if sketch is None else sketch.buckets
            return cls.of_buckets(arguments.table(), buckets, logits=bool(arguments.logits))
        predictions, notion = arguments.predictions()
        check_notion(notion)
        return cls.of_predictions(predictions, notion, labels_of(clusters, predictions))

    @classmethod
    def of_predictions(cls, predictions: Predictions, notion: Notion, labels: ClusterLabels | None) -> EventRows:
        """Return the evaluated rows of predictions; ``labels`` are the clusters of all rows."""
        events = read(predictions, notion, scoring=False).events
        table = ReliabilityTable.pool(events)
        if labels is None:
            return cls(table=table, logits=predictions.logits)
        labels = labels.take(np.flatnonzero(predictions.evaluated))
        if labels.alone(events.weights):
            return cls(table=table, alone=True, logits=predictions.logits)
        buckets = BucketSums.of(labels, events.scores, events.outcomes, events.weights)
        return cls.of_buckets(table, buckets, logits=predictions.logits)

    @classmethod
    def of_buckets(cls, table: ReliabilityTable, buckets: BucketSums | None, *, logits: bool = False) -> EventRows:
        """Return rows from their table, and from their sums over buckets of clusters, if they come in two or more."""
        clusters = None if buckets is None else Clustered.of(Cells.from_table(table), buckets)
        return cls(table=table, clusters=clusters, logits=logits)

    def method(self, name: str) -> str:
        """Return the name of a method, with what clusters had to do with it."""
        return f"{name}{LONE if self.alone else '' if self.clusters is None else BY_CLUSTER}"

    @property
    def cluster_facts(self) -> dict[str, Any]:
        """What the details of a result say about its clusters, with a flag where few of them decide."""
        if self.clusters is None:
            return {}
        sample = self.clusters.sample
        return {**sample.facts, **({"flag": sample.flag} if sample.flag else {})}

    def decided(self, p_value: float) -> tuple[float, dict[str, Any]]:
        """Return the p-value of a statistic, or that of outcomes that the scores exclude, and details about them."""
        impossible = self.impossible
        if impossible is None or p_value < impossible.p_value:
            return p_value, {}
        rows = impossible.events + impossible.non_events
        return impossible.p_value, {"impossible_outcomes": rows, "p_value_of_statistic": p_value}

    def result(
        self, statistic: float, p_value: float, method: str, *, exact: bool = True, **details: Any
    ) -> TestResult:
        """Return the result of a test of these rows.

        Outcomes that the scores exclude decide the p-value, unless the scores are not the ``exact`` ones.
        """
        p_value, excluded = self.decided(p_value) if exact else (p_value, {})
        facts = {**details, **excluded, **self.table.provenance, **self.cluster_facts}
        return TestResult(statistic, p_value, self.method(method), self.table.n, facts)


#: Relative to the number of predictions: a sum of residuals below it is 0.
ROUNDING: Final = 1e-12


def standardised(deviation: float, variance: float, total: float) -> float:
    """Return a deviation in standard deviations: 0 or infinite if the variance is 0."""
    if variance > 0:
        return float(deviation / math.sqrt(variance))
    return 0.0 if abs(deviation) <= ROUNDING * total else math.copysign(math.inf, deviation)


def units_of(table: ReliabilityTable) -> Float64s | float:
    """Return the mean weight of a prediction in each row; 1 if weights are frequencies."""
    return 1.0 if table.whole else table.own_weights.sum(axis=0) / table.counts


def score_sums_of(table: ReliabilityTable) -> Float64s:
    """Return the sum of the scores in each row."""
    sums = table.score_sums
    return np.asarray(table.counts * table.scores.astype(np.float64) if sums is None else sums)


def null_spreads(table: ReliabilityTable) -> Float64s:
    """Return the sum of p (1 - p) in each row."""
    if table.square_scores is not None:
        return np.asarray(np.maximum(score_sums_of(table) - table.square_scores, 0.0))
    return np.asarray(score_sums_of(table) * (1 - table.scores.astype(np.float64)))


def null_variance(table: ReliabilityTable) -> float:
    """Return the variance of the sum of all residuals under calibration."""
    return float(np.sum(units_of(table) * null_spreads(table)))


def degrees(freedom: int) -> str:
    """Return a number of degrees in words."""
    return f"{freedom} degree" + "s" * (freedom != 1)


#: Draws tables: a function of a generator and of how many to draw.
Tables: TypeAlias = Callable[[np.random.Generator, int], Iterable[ReliabilityTable]]

_N_BINS: Final = 15  # equal-mass bins of the factors c

#: The level of the draws for p-values, which have none.
UNUSED_LEVEL: Final = 0.95


def varies(sums: Float64s, squares: Float64s) -> NDArray[np.bool_]:
    """Return which sums vary: those with A = sum_h S_h^2 above 1e-10 Q, from S_h, (H, M), and Q, (M,)."""
    return np.asarray(np.sum(sums**2, axis=0) > NOTHING * squares)


def _p_value(law: ClusterNull, statistic: Callable[[GapSums], Float64s], resampling: Resampling) -> float:
    """Return the p-value of a statistic of simulated data sets."""
    return p_value(law.replicates(statistic, resampling), float(statistic(law.observed)[0]))


def cumulative_p_value(rows: Clustered, size: Callable[[Float64s], Float64s], resampling: Resampling) -> float:
    """Return the p-value of a function ``size`` of the cumulated sums of p - y, from (B, K) to (B,)."""
    free = varies(np.cumsum(rows.gaps, axis=1), np.cumsum(rows.cells.squared_residuals))

    def statistic(sums: GapSums) -> Float64s:
        return size(np.where(free, np.cumsum(sums.cell_gaps, axis=-1), 0.0))

    return _p_value(ClusterNull.of(rows, _N_BINS), statistic, resampling)


def group_p_value(rows: Clustered, groups: NDArray[np.intp], resampling: Resampling, *, fitted: bool) -> float:
    """Return the p-value of sum S^2 / (E (1 - E / n)) over groups of the score, E the sum of the scores.

    ``groups`` is the group of each of the cells `Clustered.fine`. A coarse cell is in the group of the cell in its
    middle. If the scores were ``fitted`` to these outcomes, sum r = sum r logit(p) = 0. What a refit of the log-odds
    line would explain is then subtracted from each simulated data set.
    """
    bins = ClusterBins.of(rows, groups)
    moments, free = bins.moments, varies(bins.gaps, bins.moments.squared_residuals)
    expected, counts = moments.score_sums, moments.counts
    variances = np.maximum(expected * (1 - expected / counts), 0.0) * moments.square_weights / counts
    explained = _explained(rows, moments.first) if fitted else np.zeros((len(rows.cells), len(counts)))

    def statistic(sums: GapSums) -> Float64s:
        gaps = bins.over_bins(sums.cell_gaps) - (0.0 if sums.normals is None else sums.cell_gaps @ explained)
        certain = np.where(np.abs(gaps) > ROUNDING * counts, np.inf, 0.0)
        with np.errstate(over="ignore"):  # a score of 1e-320 whose event occurred
            terms = np.divide(gaps**2, variances, out=certain, where=variances > 0)
        return np.asarray(np.where(free, terms, 0.0).sum(axis=-1))

    return _p_value(ClusterNull(rows, uniform=bins, quantile=bins), statistic, resampling)


def _explained(rows: Clustered, first: NDArray[np.intp]) -> Float64s:
    """Return how much a refit of the log-odds line moves the sum of each group, for sums of cells: (K, groups).

    It is psi' I^-1 D with psi = (1, logit p), v = n p (1 - p), I = sum v psi psi' and D the sum of v psi in each group.
    """
    p = rows.cells.scores
    v, x = rows.cells.counts * p * (1 - p), log_odds(np.clip(p, CERTAIN, 1 - CERTAIN))
    design = np.stack([np.ones_like(x), x])
    information = np.linalg.pinv((design * v) @ design.T, hermitian=True)
    return np.asarray(design.T @ information @ np.add.reduceat(design * v, first, axis=1))


# ------------------------------------------------------------ tables


def calibrated_tables(rows: Clustered) -> Tables:
    """Return what draws tables of simulated data sets under calibration, on the coarse cells.

    Outcomes outside 0 to ``counts`` are kept. If they were cut off, sums over bins would vary too little: with 40
    clusters of ten copies the ECE would reject calibrated scores in a quarter of samples at 5 %.
    """
    law, cells = ClusterNull.of(rows, _N_BINS), rows.cells
    free = varies(rows.gaps, cells.squared_residuals)

    def draw(rng: np.random.Generator, size: int) -> Iterator[ReliabilityTable]:
        return map(cells.with_positives, np.where(free, law.drawn(rng, size).positives, cells.positives))

    return draw


def cluster_tables(rows: Clustered) -> Tables:
    """Return what draws tables of as many buckets as there are, with replacement, on the coarse cells."""
    cells, whole = rows.cells, rows.cells.table.whole
    dtype = cells.table.counts.dtype if whole else np.dtype(np.float64)
    sums = np.stack([rows.n, rows.y, rows.gaps + rows.y], axis=1)
    numbers, shares = rows.scalar("rows"), np.full(len(rows.n), 1 / len(rows.n))

    def drawn(times: Float64s) -> ReliabilityTable:
        counts, positives, scores = np.tensordot(times, sums, 1)
        held = np.flatnonzero(counts)
        masses = np.stack([counts - positives, positives])[:, held]
        return ReliabilityTable(
            np.clip(scores[held] / counts[held], 0.0, 1.0),
            counts[held].astype(dtype),
            positives[held].astype(dtype),
            int(times @ numbers),
            square_weights=None if whole else cells.squares_per_weight[:, held] * np.maximum(masses, 0.0),
        )

    def draw(rng: np.random.Generator, size: int) -> Iterator[ReliabilityTable]:
        return map(drawn, rng.multinomial(len(shares), shares, size).astype(np.float64))

    return draw
