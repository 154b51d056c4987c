"""Rows by their scores, those that are acted on first at the top: what a threshold is certified from.

A place is a tie: all rows with one score, or all rows in one cell of a grid. A threshold ends behind a place, never
within one. The number of errors among n rows is binomial if rows are independent. Weights that are not whole numbers,
and clusters, reduce n to the number of independent rows that would tell as much; then the binomial is approximate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError
from calibrant.inputs.notions import Events, read
from calibrant.inputs.predictions import Notion
from calibrant.inputs.weights import effective_n
from calibrant.report.evaluated_data import EvaluatedData
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import cached_property
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.buckets import centred, coarse_places, variance_of
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import details_of
from calibrant.statistics.intervals import Variance
from calibrant.table import ReliabilityTable
from calibrant.table import grid as grids
from calibrant.table.cluster_sums import BucketSums


class RankedSample(NamedTuple):
    """Independent rows down to each place, (K,): how many, and how many are wrong. Neither need be whole."""

    rows: Float64s
    wrong: Float64s


@dataclass(frozen=True, eq=False, kw_only=True)
class ClusterParts:
    """Sums of clusters at places, (M,) each: one cluster after the other, each from the top down.

    Attributes
    ----------
    clusters : array
        The number of the cluster, from 0. The numbers do not depend on the order of the rows.
    places : array
        The place of the rows; of the rows of a coarse cell its last place.
    weights, wrong : array
        The weight of the rows, and of those that are wrong.
    whole : bool
        Whether these are the clusters themselves, and not buckets of them in coarse cells.
    """

    clusters: NDArray[np.intp]
    places: NDArray[np.intp]
    weights: Float64s
    wrong: Float64s
    whole: bool

    @classmethod
    def of(
        cls, clusters: NDArray[Any], places: NDArray[np.intp], weights: Float64s, wrong: Float64s, *, whole: bool
    ) -> ClusterParts:
        """Sort sums by cluster and place, and then by what is summed: the order of the rows plays no part."""
        order = np.lexsort((wrong, weights, places, clusters))
        _, numbers = np.unique(clusters[order], return_inverse=True)
        return cls(clusters=numbers, places=places[order], weights=weights[order], wrong=wrong[order], whole=whole)

    @property
    def number(self) -> int:
        """The number of clusters."""
        return int(self.clusters[-1]) + 1

    def squares(self, values: Float64s, n_places: int) -> Float64s:
        """Return the sum over clusters of (sum of values down to the place)^2, (K,)."""
        total = np.cumsum(values)
        first = np.flatnonzero(np.diff(self.clusters, prepend=-1))
        lengths = np.diff(np.append(first, len(values)))
        before = total - values - np.repeat((total - values)[first], lengths)
        return np.cumsum(np.bincount(self.places, 2 * before * values + values**2, n_places))

    def sums(self, values: Float64s) -> Float64s:
        """Return the sum of values over each cluster."""
        return np.bincount(self.clusters, values).astype(np.float64)


@dataclass(frozen=True, eq=False, kw_only=True)
class Ranked:
    """Rows by their scores, those that are acted on first at the top, at K places.

    Attributes
    ----------
    thresholds : (K,)
        Acting on the rows down to a place is acting at this score and beyond: above, or below if ``downward``.
    scores : (K,)
        The mean score of each place.
    weights, wrong : (K,)
        The weight of its rows, and of those that are wrong to act on.
    squares : (2, K) or None
        The sums of the squared weights of right and of wrong rows; None if weights are whole numbers.
    parts : ClusterParts or None
        The sums of clusters; None if rows are independent.
    bettors : ClusterParts or None
        What bets: the clusters, or the rows one by one; None if neither is known.
    downward : bool
        Whether the rows with the lowest scores are acted on first.
    cells : bool
        Whether a place is a cell of a grid, and not a score.
    referred : float
        The weight of cases without a score, which are never automatic.
    """

    thresholds: Float64s
    scores: Float64s
    weights: Float64s
    wrong: Float64s
    squares: Float64s | None = None
    parts: ClusterParts | None = None
    bettors: ClusterParts | None = None
    downward: bool = False
    cells: bool = False
    referred: float = 0.0

    @classmethod
    def of(cls, table: ReliabilityTable, *, downward: bool = False) -> Ranked:
        """Return the rows of a table: wrong are those without the event, or with it if ``downward``."""
        weights = table.counts.astype(np.float64)
        positives = table.positives.astype(np.float64)
        wrong = positives if downward else weights - positives
        scores = table.scores.astype(np.float64)
        thresholds = scores
        if table.grid is not None and table.cells is not None:
            low, high = grids.ends_of(table.cells, table.grid)
            thresholds = high if downward else np.where(low < high, np.nextafter(low, 1.0), high)
        squares = None  # of right and of wrong rows
        if not table.whole:
            squares = table.own_weights if downward else table.own_weights[::-1]
        order = slice(None) if downward else slice(None, None, -1)
        return cls(
            thresholds=thresholds[order],
            scores=scores[order],
            weights=weights[order],
            wrong=wrong[order],
            squares=None if squares is None else squares[:, order],
            downward=downward,
            cells=table.grid is not None,
        )

    def __len__(self) -> int:
        return len(self.thresholds)

    @property
    def total(self) -> float:
        """The weight of all rows."""
        return float(self.upto.rows[-1])

    @property
    def cases(self) -> float:
        """The weight of all rows, and of the cases without a score."""
        return self.total + self.referred

    def by_row(self, events: Events, clusters: NDArray[Any] | None) -> Ranked:
        """Return the same with the clusters of the rows, or with the rows, whose scores are those of the places."""
        scores = events.scores.astype(np.float64)
        each = np.ones(len(scores)) if events.weights is None else events.weights
        if self.downward:
            places = np.searchsorted(self.scores, scores)
        else:
            places = len(self) - 1 - np.searchsorted(self.scores[::-1], scores)
        wrong = each * (events.outcomes if self.downward else 1 - events.outcomes)
        if clusters is None:
            numbers = np.empty(len(scores), np.intp)
            numbers[np.lexsort((wrong, each, places))] = np.arange(len(scores))
            return replace(self, bettors=ClusterParts.of(numbers, places, each, wrong, whole=True))
        parts = ClusterParts.of(clusters, places, each, wrong, whole=True)
        return replace(self, parts=parts, bettors=parts)

    def by_bucket(self, table: ReliabilityTable, buckets: BucketSums) -> Ranked:
        """Return the same with buckets of the clusters of the rows, in coarse cells."""
        coarse = coarse_places(Cells(table), buckets)
        last = np.zeros(buckets.cells.n_cells, np.intp)
        last[coarse if self.downward else coarse[::-1]] = np.arange(len(self))  # of several places the last
        held, cells = np.nonzero(buckets.n)
        weights, positives = buckets.n[held, cells], buckets.y[held, cells]
        wrong = positives if self.downward else weights - positives
        return replace(self, parts=ClusterParts.of(held, last[cells], weights, wrong, whole=False))

    def sample(self, risk: float | Float64s) -> RankedSample:
        """Return independent rows that tell as much about the risk as the rows down to each place.

        Rows in clusters are divided by the design effect of sum (wrong - risk), at least 1:
        sum over clusters (sum over rows (wrong - risk))^2 / sum over rows (wrong - risk)^2. The risk may be one for
        each place, (K,).
        """
        weights, wrong = self.upto
        if self.parts is None and self.squares is None:
            return RankedSample(weights, wrong)
        of_right, of_wrong = self._squares()
        effects = np.ones(len(self))
        if self.parts is not None:
            of_both = self._cluster_squares(self.parts.wrong + self.parts.weights)
            of_errors, of_rows = (self._cluster_squares(x) for x in (self.parts.wrong, self.parts.weights))
            sums = of_errors - risk * (of_both - of_errors - of_rows) + np.square(risk) * of_rows
            effects = self._effects(sums, np.square(1 - risk) * of_wrong + np.square(risk) * of_right)
        return self._reduced(weights, wrong, effects)

    @cached_property
    def independent(self) -> Float64s:
        """The number of rows down to each place as if they were independent, (K,)."""
        if self.squares is None:
            return self.upto.rows
        return self._reduced(*self.upto, np.ones(len(self))).rows

    def cluster_details(self, known: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Return the facts about clusters, with the share of the largest from sums in a fixed order."""
        if known is None or self.parts is None or not self.parts.whole:
            return known
        return {**known, "largest_cluster": float(self.parts.sums(self.parts.weights).max()) / self.total}

    def clusters_down_to(self, place: int) -> tuple[int | None, int | None]:
        """Return the number of clusters with rows down to a place, and of those with errors; None if not known."""
        if self.parts is None or not self.parts.whole:
            return None, None
        held = self.parts.places <= place
        return tuple(len(np.unique(self.parts.clusters[held & some])) for some in (True, self.parts.wrong > 0))  # type: ignore[return-value]

    def mean(self, right: Float64s, wrong: Float64s) -> tuple[float, Variance]:
        """Return the mean over rows of values of right and of wrong rows at each place, (K,), and its variance."""
        total = self.total
        masses = np.stack([self.weights - self.wrong, self.wrong])
        values = np.stack([right, wrong])
        mean = float(np.sum(masses * values)) / total
        squares = masses if self.squares is None else self.squares
        square = float(np.sum(squares * (values - mean) ** 2))
        n = float(effective_n(total, squares.sum()))
        if self.parts is None:
            return mean, Variance(square / total**2 * (n / (n - 1) if n > 1 else math.inf))
        parts = self.parts
        around = right[parts.places] * (parts.weights - parts.wrong) + wrong[parts.places] * parts.wrong
        sums = parts.sums(around - mean * parts.weights)
        weights = parts.sums(parts.weights)
        variance = variance_of(centred(sums, weights), square, weights * (n / total))
        return mean, variance._replace(value=variance.value / total**2)

    @cached_property
    def upto(self) -> RankedSample:
        """The weight of the rows down to each place, and of those that are wrong."""
        return RankedSample(np.cumsum(self.weights), np.cumsum(self.wrong))

    def _squares(self) -> tuple[Float64s, Float64s]:
        """Return the sums of squared weights of right and of wrong rows down to each place."""
        if self.squares is None:
            return self.upto.rows - self.upto.wrong, self.upto.wrong
        right, wrong = np.cumsum(self.squares, axis=1)
        return right, wrong

    def _cluster_squares(self, values: Float64s) -> Float64s:
        """Return the sum over clusters of the squared sum of values down to each place, (K,)."""
        assert self.parts is not None
        return self.parts.squares(values, len(self))

    def _effects(self, sums: Float64s, squares: Float64s) -> Float64s:
        """Return the design effect down to each place, at least 1, from the sums of squares of clusters and of rows.

        Of coarse cells the sums are known at their ends: between two of them it is the larger of both.
        """
        assert self.parts is not None
        effects = np.maximum(np.divide(sums, squares, out=np.ones(len(self)), where=squares > 0), 1.0)
        if self.parts.whole:
            return effects
        ends, every = np.unique(self.parts.places), np.arange(len(self))
        after = np.searchsorted(ends, every)
        before = np.maximum(after - (ends[after] > every), 0)
        return np.maximum(effects[ends[after]], effects[ends[before]])

    def _reduced(self, weights: Float64s, wrong: Float64s, effects: Float64s) -> RankedSample:
        """Return the sample with fewer rows; rows never decrease from the top down."""
        rows = effective_n(weights, np.sum(self._squares(), axis=0)) / effects
        rows = np.minimum.accumulate(rows[::-1])[::-1]
        return RankedSample(rows, np.clip(wrong / weights, 0.0, 1.0) * rows)


class Judged(NamedTuple):
    """The evaluated event: its table, its notion, and other facts about rows or a sketch.

    ``referred`` is the weight of cases without a score, such as refusals, which are never automatic.
    """

    table: ReliabilityTable
    notion: Notion
    more: EvaluatedData | None = None
    referred: float = 0.0

    @classmethod
    def of(cls, data: EvaluatedData) -> Judged:
        """Return the evaluated event of rows or of a sketch."""
        return cls(data.tables[0], data.notion, data)

    @property
    def clusters(self) -> Mapping[str, Any] | None:
        """The number of clusters and the share of the largest; None for independent rows."""
        if self.more is None:
            return None
        if self.more.alone:
            return {"clusters": self.table.n, "largest_cluster": 1 / self.table.n}
        return None if self.more.clusters is None else details_of(self.more.clusters.event)

    @property
    def events(self) -> Events | None:
        """The rows of the evaluated event; None of a table and a sketch."""
        if self.more is None or self.more.predictions is None:
            return None
        return read(self.more.predictions, self.more.notion, scoring=False).events

    @property
    def cluster_labels(self) -> NDArray[Any] | None:
        """The cluster of each of these rows; None if they are independent or not known."""
        data = self.more
        if data is None or data.predictions is None or data.labels is None or data.clusters is None:
            return None
        return data.labels.take(np.flatnonzero(data.predictions.evaluated)).hashes

    def ranked(self, *, downward: bool = False, alone: bool = False, rows: bool = False) -> Ranked:
        """Return the rows by their scores, with their clusters; with ``rows``, independent rows are known one by one.

        Raises
        ------
        InputError
            If all rows are in one cluster, and not ``alone``.
        """
        ranked, data = replace(Ranked.of(self.table, downward=downward), referred=self.referred), self.more
        if data is None or (data.clusters is None and not rows):
            return ranked
        if data.one_cluster and not alone:
            remedy = "pass rows of more clusters, because one cluster does not show how clusters vary"
            raise InputError("clusters", "at least 2 clusters", "1", remedy)
        clusters, events = self.cluster_labels, self.events
        if events is not None and (clusters is not None or data.clusters is None):
            return ranked.by_row(events, clusters)
        return ranked if data.clusters is None else ranked.by_bucket(self.table, data.clusters.event)
