"""A table in the units of weights that results are computed in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calibrant.inputs.weights import unit_of
from calibrant.table import ReliabilityTable


def table_in_units(table: ReliabilityTable) -> ReliabilityTable:
    """Return a table with weights divided by their unit; the same object if the unit is 1.

    Equal weights count as no weights: counts are then numbers of rows. Weights far from 1 are divided by a power of 2.
    """
    if table.square_weights is None or table.n < 1:
        return table
    unit, equal = unit_of(table.n, float(table.counts.sum()), float(table.square_weights.sum()))
    if unit == 1 and not equal:
        return table
    names = ("counts", "positives", "score_sums", "positive_scores", "square_scores")
    columns = {name: getattr(table, name) / unit for name in names if getattr(table, name) is not None}
    if not equal:
        return replace(table, square_weights=table.square_weights / unit / unit, **columns)
    for name in ("counts", "positives"):
        columns[name] = np.rint(columns[name]).astype(np.int64)
    if int(columns["counts"].sum()) != table.n:  # so many rows that the unit is not exact enough to count them
        return table
    return replace(table, square_weights=None, **columns)
