"""What the binned family computes of an event once: ``event.of(uniform_bins)``."""

from __future__ import annotations

from calibrant.measures.binned import binned
from calibrant.measures.binned.clustered import bins_of
from calibrant.measures.binned.sums import BinSums
from calibrant.measures.event import Event
from calibrant.results import ReliabilityDiagram


def uniform_bins(event: Event) -> binned.Bins:
    """Return the equal-width bins."""
    return binned.bin_table(event.table, event.n_bins)


def quantile_bins(event: Event) -> binned.Bins:
    """Return the equal-mass bins."""
    return binned.quantile_bins(event.table, event.n_bins)


def diagram_of(event: Event) -> ReliabilityDiagram:
    """Return the equal-width bins as a diagram."""
    return binned.diagram(event.of(uniform_bins), weighted=event.table.counts.dtype.kind == "f")


def uniform_sums(event: Event) -> BinSums:
    """Return the sums over the equal-width bins of the cells."""
    return bins_of(event.design, event.n_bins, "uniform")


def quantile_sums(event: Event) -> BinSums:
    """Return the sums over the equal-mass bins of the cells."""
    return bins_of(event.design, event.n_bins, "quantile")
