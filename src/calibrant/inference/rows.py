"""The rows that a test is about: their table and, if they come in clusters, their sums over buckets of clusters."""

from __future__ import annotations

import math
from dataclasses import field
from typing import Any, Final

import numpy as np

from calibrant.clusters import BucketSums, ClusterLabels, check_notion, labels_of
from calibrant.errors import InputError
from calibrant.inputs.notions import read
from calibrant.inputs.predictions import Notion, Predictions
from calibrant.results import TestResult
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.dataclass import dataclass
from calibrant.sketch import Arguments, CalibrationSketch, table_of
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import BY_CLUSTER, LONE, Clustered
from calibrant.table import ReliabilityTable

_HOLDS: Final = {ReliabilityTable: "a table has no clusters", CalibrationSketch: "a sketch has its own clusters"}


@dataclass(frozen=True, eq=False)
class EventRows:
    """The judged rows of one event.

    Attributes
    ----------
    table : ReliabilityTable
        Their table.
    clusters : Clustered or None
        Their sums over buckets of clusters; None if the rows are independent.
    alone : bool
        Whether clusters were passed, of one row each.
    """

    table: ReliabilityTable
    clusters: Clustered | None = field(default=None, repr=False)
    alone: bool = False

    @classmethod
    def of(cls, probs: Any, targets: Any = None, *, clusters: Any = None, **options: Any) -> EventRows:
        """Return the rows of predictions, of a table or of a sketch; ``options`` are those of `table_of`.

        Raises
        ------
        InputError
            As `table_of` and `as_clusters`; for clusters next to a table or a sketch, and for rows of one cluster.
        """
        ready = isinstance(probs, (ReliabilityTable, CalibrationSketch))
        if ready and clusters is not None:
            remedy = f"leave it out: {_HOLDS[type(probs)]}, or pass predictions"
            raise InputError("clusters", f"nothing next to a {type(probs).__name__}", "a value", remedy)
        if isinstance(probs, CalibrationSketch):
            probs = probs.in_units()
        if ready or clusters is None or clusters is False:
            table = table_of(probs, targets, **options)
            buckets = probs.buckets if isinstance(probs, CalibrationSketch) else None
            return cls.of_buckets(table, buckets)
        return cls._of_predictions(Arguments(probs=probs, targets=targets, **options), clusters)

    @classmethod
    def _of_predictions(cls, arguments: Arguments, clusters: Any) -> EventRows:
        """Return the rows of predictions in clusters, from one read of them."""
        predictions, notion = arguments.predictions()
        check_notion(notion)
        return cls.of_predictions(predictions, notion, labels_of(clusters, predictions))

    @classmethod
    def of_predictions(cls, predictions: Predictions, notion: Notion, labels: ClusterLabels | None) -> EventRows:
        """Return the judged rows of predictions; ``labels`` are the clusters of all rows."""
        events = read(predictions, notion, scoring=False).events
        table = ReliabilityTable.pool(events)
        if labels is None:
            return cls(table)
        labels = labels.take(np.flatnonzero(predictions.judged))
        if labels.alone(events.weights):
            return cls(table, alone=True)
        return cls.of_buckets(table, BucketSums.of(labels, events.scores, events.outcomes, events.weights))

    @classmethod
    def of_buckets(cls, table: ReliabilityTable, buckets: BucketSums | None) -> EventRows:
        """Return rows from their table, and from their sums over buckets of clusters if they come in clusters.

        Raises
        ------
        InputError
            For rows of one cluster.
        """
        return cls(table, None if buckets is None else Clustered.of(Cells.from_table(table), buckets))

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

    def result(self, statistic: float, p_value: float, method: str, **details: Any) -> TestResult:
        """Return the result of a test of these rows."""
        facts = {**details, **self.table.provenance, **self.cluster_facts}
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


def degrees(freedom: int) -> str:
    """Return a number of degrees in words."""
    return f"{freedom} degree" + "s" * (freedom != 1)
