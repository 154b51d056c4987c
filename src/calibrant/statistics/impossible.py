"""Outcomes that their scores exclude: an event with score 0, or a non-event with score 1.

Calibrated scores have no such outcome, so one of them refutes calibration whatever the other rows show. The variance of
a row with score 0 or 1 is 0, so that no sum of residuals can tell.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from calibrant.table import ReliabilityTable

#: Calibrated scores have an outcome that counts as impossible at most this often.
NEVER: Final = 1e-6


class ImpossibleOutcomes(NamedTuple):
    """The outcomes of a table that its scores exclude, or nearly so."""

    #: events, non_events: their weight, by outcome.
    events: float
    non_events: float
    #: The probability of an outcome as unlikely as the least likely of them, if the scores are right: the sum over rows
    #: of the probabilities that are not larger, by Boole's inequality, for any dependence of rows. It is 0 if a score
    #: was exactly 0 or 1, and at most `NEVER`.
    p_value: float
    least: float  # the largest probability of these outcomes by their scores


def impossible_outcomes(table: ReliabilityTable, *, logits: bool = False) -> ImpossibleOutcomes | None:
    """Return the impossible outcomes of a table; None without any.

    The probability of an outcome as unlikely as any in a set is at most the expected number of these outcomes. So they
    are those with the smallest probabilities, as long as fewer than `NEVER` of them are expected. A score of 1 that was
    computed from a logit is rounded: the probability of a non-event is then at most half a unit in the last place.
    """
    kinds = np.stack([table.positives, table.counts - table.positives]).astype(np.float64)
    scores, rounding = table.scores.astype(np.float64), np.finfo(table.scores.dtype).epsneg / 2 if logits else 0.0
    chances = np.stack([scores, np.where(table.scores == 1, rounding, 1 - scores)])  # of an event, of a non-event
    kept = np.flatnonzero(chances.ravel() <= NEVER)
    if not np.any(kinds.ravel()[kept] > 0):
        return None
    order = kept[np.argsort(chances.ravel()[kept], kind="stable")]
    sizes, occurred = chances.ravel()[order], kinds.ravel()[order]
    rows = table.counts if table.whole else table.counts * (table.n / table.total)
    expected = np.cumsum(np.tile(rows, 2)[order] * sizes)
    expected = expected[np.searchsorted(sizes, sizes, side="right") - 1]  # equal chances count together
    found = (occurred > 0) & (expected <= NEVER)
    if not found.any():
        return None
    events = order < len(table)
    return ImpossibleOutcomes(
        events=float(occurred[found & events].sum()),
        non_events=float(occurred[found & ~events].sum()),
        p_value=float(expected[found][0]),
        least=float(sizes[found][-1]),
    )


def of_classes(tables: Iterable[ReliabilityTable], *, logits: bool = False) -> ImpossibleOutcomes | None:
    """Return the outcomes of several classes that their scores exclude exactly; None without any."""
    found = [each for table in tables if (each := impossible_outcomes(table, logits=logits)) and each.p_value == 0]
    if not found:
        return None
    return ImpossibleOutcomes(sum(each.events for each in found), sum(each.non_events for each in found), 0.0, 0.0)
