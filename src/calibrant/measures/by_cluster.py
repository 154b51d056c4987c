"""What is inferred from an event whose rows come in clusters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.measures.clustered_null import GapSums
from calibrant.measures.clustered_rows import ClusteredRows
from calibrant.measures.context import Draws, Inference, Replicates
from calibrant.measures.event import Computable, Event
from calibrant.measures.means import clustered as means
from calibrant.measures.means.means import CLUSTERS
from calibrant.measures.smooth.intervals import NullSmooth
from calibrant.results import Estimate
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import cached_property
from calibrant.statistics.resampling import Resampling


@dataclass(frozen=True, eq=False, kw_only=True)
class ClusterInference(Inference):
    """What is inferred from one judged event with rows in clusters: `rows` are a `ClusteredRows`."""

    rows: ClusteredRows  # type: ignore[assignment] # it has the same methods

    @classmethod
    def of(
        cls, event: Event, resampling: Resampling, measures: Iterable[Computable], *, with_curves: bool = True
    ) -> Inference:
        """Return the inference from an event with rows in clusters."""
        rows = event.in_clusters
        return cls(event=event, rows=rows, resampling=resampling, measures=tuple(measures), with_curves=with_curves)

    @cached_property
    def null_smooth(self) -> NullSmooth:
        """The smooth errors of replicates."""
        return self.rows.law.null_smooth(self.event.smooth_error.value)

    @cached_property
    def observed(self) -> Replicates:
        """The data in the form of one replicate."""
        return self._of(self.rows.law.observed)

    def drawn(self, rng: np.random.Generator, size: int) -> Replicates:
        """Return replicates of the outcomes under calibration."""
        return self._of(self.rows.law.drawn(rng, size))

    def _of(self, sums: GapSums) -> Replicates:
        return ClusterReplicates(inference=self, positives=sums.positives, sums=sums)

    @cached_property
    def refinement(self) -> float:
        """How much larger CORP's miscalibration of replicates is on all cells than on coarse ones."""
        return self.rows.law.refinement(self.resampling)

    @property
    def flag(self) -> str:
        """A warning where intervals are not to be trusted, or nothing."""
        return means.flag_of(self.rows.clusters)

    @property
    def rarer(self) -> float:
        """How many clusters hold the rarer outcome."""
        return means.rarer_clusters(self.rows.clusters)

    @property
    def unit(self) -> str:
        """What `rarer` counts: clusters."""
        return CLUSTERS

    def exact_p_value(self) -> float:
        """Return NaN: clusters have no exact law."""
        return math.nan

    # ------------------------------------------------------------ the clusters behind an estimate

    def finish(self, measure: Computable, estimate: Estimate) -> Estimate:
        """Return the estimate with the clusters and the effective number of rows behind it."""
        details, rows = means.details_of(self.rows.clusters.buckets), self.effective_rows(measure)
        if rows is not None:
            details["effective_rows"] = rows
        return replace(estimate, method=f"{estimate.method}{means.BY_CLUSTER}", details={**estimate.details, **details})

    def effective_rows(self, measure: Computable) -> float | None:
        """Return how many independent rows would tell as much of a measure; None where that is not known.

        N / deff for a mean, N (mean of T* for independent rows / mean of T*)^2 for a calibration error.
        """
        rows = self.rows.clusters
        if measure.spread is not None:
            return means.effective_rows(rows, measure.spread(self))
        if measure not in self._independent:  # also of measures that do not fall with the root of the rows
            return None
        own, plain = float(self.draws[measure].replicates.mean()), float(self._independent[measure].replicates.mean())
        return rows.effective_n * (plain / own) ** 2 if own > 0 else math.inf

    @cached_property
    def _independent(self) -> Mapping[Any, Draws]:
        """The replicates of the measures if rows were independent."""
        if not self.resampling.n_resamples:
            return {}
        known = [measure for measure in self.measures if measure.root_rate]
        return _Independent(event=self.event, rows=self.rows, resampling=self.resampling, measures=known).draws


class _Independent(ClusterInference):
    """The same with replicates of independent rows."""

    def drawn(self, rng: np.random.Generator, size: int) -> Replicates:
        """Return replicates of independent rows."""
        return self._of(self.rows.law.independent(rng, size))


@dataclass(frozen=True, eq=False, kw_only=True)
class ClusterReplicates(Replicates):
    """B replicates of rows in clusters: ``sums`` are the sums of score - outcome of each coarse cell."""

    inference: ClusterInference
    sums: GapSums

    @property
    def gap_sums(self) -> Float64s:
        """The sum of score - outcome of each coarse cell, (B, K)."""
        return self.sums.cell_gaps

    @property
    def uniform_gaps(self) -> Float64s:
        """The sum of score - outcome of each equal-width bin, (B, M)."""
        return self.sums.uniform_gaps

    @property
    def quantile_gaps(self) -> Float64s:
        """The sum of score - outcome of each equal-mass bin, (B, M)."""
        return self.sums.quantile_gaps

    @property
    def uniform_squares(self) -> Float64s:
        """The sum over buckets of S_h^2 in each equal-width bin, (B, M)."""
        return self.sums.own_squares

    @property
    def uniform_rates(self) -> Float64s:
        """The outcome rate of each equal-width bin, (B, M)."""
        return self.sums.uniform_rates

    @property
    def fits(self) -> Float64s:
        """The isotonic fit at each coarse cell, (B, K)."""
        return self.sums.fits

    @property
    def refinement(self) -> float:
        """How much larger CORP's miscalibration is on all cells: of the data it is known."""
        law = self.inference.rows.law
        if self.sums is not law.observed:
            return self.inference.refinement
        coarse = float(self.sums.miscalibrations()[0])
        return self.inference.event.decomposition.miscalibration / coarse if coarse > 0 else 1.0

    def events(self) -> Iterator[Event]:
        """Yield each replicate as an event, outcomes below 0 too: cut off, they would vary too little."""
        for row in self.positives:
            yield Event(table=self.inference.cells.with_positives(row), n_bins=self.inference.event.n_bins)
