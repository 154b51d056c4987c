"""Outcomes that were not seen: the interval of a measure where all outcomes are equal.

No outcome of the other kind among n rows leaves its rate u = 1 - (alpha / 2)^(1 / n) possible (Clopper and Pearson
1934), n the effective number of rows or of clusters. The rows then contain nothing about where these outcomes would
occur. So a measure is computed with a share u of them spread evenly, at the highest scores, and at the lowest scores. A
mean over rows that is monotone in the score is extreme at one of the ends: the mean difference, Brier score, log loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from calibrant.measures.event import Event
from calibrant.measures.means.means import PredictionMeans, rate_rows
from calibrant.runtime.arrays import Float64s
from calibrant.statistics.resampling import alpha_of
from calibrant.table import ReliabilityTable

#: The end of the method of an interval that reckons with outcomes that were not seen.
UNSEEN = "interval widened, because one outcome did not occur in these rows but its true rate may be above 0"


def is_uniform(table: ReliabilityTable) -> bool:
    """Return whether all outcomes of a table are equal."""
    kinds = table.own_weights.sum(axis=1)
    return bool((kinds == 0).any())


def unseen_share(rows: float, level: float) -> float:
    """Return the largest rate of an outcome that none of so many rows has: 1 - (alpha / 2)^(1 / n)."""
    return float(1 - (alpha_of(level) / 2) ** (1 / rows))


def unseen_events(event: Event, level: float) -> tuple[Event, ...]:
    """Return an event whose outcomes are all equal with a share of the other outcome, as evenly and at either end."""
    if not is_uniform(event.table):
        return ()
    share = unseen_share(rate_rows(event.design, level), level)
    return tuple(_with_table(event, table) for table in _tables(event.table, share))


def _tables(table: ReliabilityTable, share: float) -> Iterator[ReliabilityTable]:
    """Yield the tables with this share of the other outcome."""
    counts = table.counts.astype(np.float64)
    none, other = float(table.sums.positives) == 0, share * counts.sum()
    below = np.cumsum(counts) - counts
    above = counts.sum() - below - counts
    for changed in (share * counts, np.clip(other - above, 0.0, counts), np.clip(other - below, 0.0, counts)):
        yield _with_positives(table, changed if none else counts - changed)


def _with_positives(table: ReliabilityTable, positives: Float64s) -> ReliabilityTable:
    counts = table.counts.astype(np.float64)
    means = table.scores.astype(np.float64) if table.score_sums is None else table.score_sums / counts
    units = table.own_weights.sum(axis=0) / counts
    return replace(
        table,
        counts=counts,
        positives=positives,
        positive_scores=None if table.grid is None else positives * means,
        square_weights=units * np.stack([counts - positives, positives]),
    )


def _with_table(event: Event, table: ReliabilityTable) -> Event:
    """Return the event with these outcomes, and with means over predictions that they imply.

    Of more than two classes the loss of the other answer is not known: it is taken as that of two classes.
    """
    means = event.means
    if means is not None:
        of_event = PredictionMeans.of_event(table, right=event.predictions.layout != "binary")
        if not means.event:
            plain = PredictionMeans.of_event(event.table, right=True)
            of_event = replace(
                means,
                accuracy=of_event.accuracy,
                brier=means.brier + of_event.brier - plain.brier,
                nll=means.nll + of_event.nll - plain.nll,
                ordered=None
                if means.ordered is None
                else replace(means.ordered, rps=means.ordered.rps + of_event.brier - plain.brier),
            )
        means = of_event
    return Event(table=table, n_bins=event.n_bins, means=means, logits=event.logits)
