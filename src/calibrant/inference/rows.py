"""The rows that a test is about: their table and, if they come in clusters, their sums over buckets of clusters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from calibrant.clusters import BucketSums, ClusterLabels, check_notion, labels_of
from calibrant.errors import InputError
from calibrant.inputs.notions import read
from calibrant.inputs.predictions import Notion, Predictions
from calibrant.results import TestResult
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
