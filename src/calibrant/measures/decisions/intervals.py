"""Intervals of the net benefit: for independent rows, and what those for rows in clusters share with them."""

from __future__ import annotations

import numpy as np

from calibrant.inputs.weights import effective_n
from calibrant.measures.binned.binned import LEAST_CLUSTERS, LEAST_ROWS, enough_rows
from calibrant.measures.decisions.decisions import Treated
from calibrant.runtime.arrays import Float64s
from calibrant.statistics.cluster_sums import centred, coarse_places, variance_of
from calibrant.statistics.design import Clustered
from calibrant.statistics.resampling import normal_quantile


def net_benefit_interval(treated: Treated, level: float) -> tuple[Float64s, Float64s]:
    """Return the ends at each threshold, (T,) each; NaN where fewer than 30 rows are treated.

    The net benefit is the mean over rows of 1 for a treated outcome 1, -t / (1 - t) for a treated outcome 0, and 0 for
    the rest. Its variance is that of a mean, of sums of squared weights if weights are not integers.
    """
    half = normal_quantile(level) * np.sqrt(value_squares(treated)) / treated.table.total
    half = np.where(enough_rows(treated_rows(treated), LEAST_ROWS), half, np.nan)
    return treated.net_benefit - half, treated.net_benefit + half


def value_squares(treated: Treated) -> Float64s:
    """Return the sums over rows of w^2 (x - m)^2, (T,): x the value of a row, m the net benefit."""
    value, odds = treated.net_benefit, treated.odds
    hits, alarms = treated.square_positives, treated.square_negatives
    rest = np.maximum(treated.table.own_weights.sum() - hits - alarms, 0.0)
    return np.asarray(hits * (1 - value) ** 2 + alarms * (odds + value) ** 2 + rest * value**2)


def treated_rows(treated: Treated) -> Float64s:
    """Return the treated rows as equal ones, (T,): their number, with whole weights."""
    weight, square = treated.positives + treated.negatives, treated.square_positives + treated.square_negatives
    return effective_n(weight, np.where(square > 0, square, 1.0))


def clustered_interval(rows: Clustered, treated: Treated, level: float) -> tuple[Float64s, Float64s]:
    """Return the ends at each threshold, (T,) each.

    They are NaN where fewer than 30 rows are treated, or rows of fewer than 10 clusters (Kish).
    """
    positives, negatives = treated_of_buckets(rows, treated)
    sums = centred(positives - negatives * treated.odds, rows.weights)
    weights = positives + negatives
    squares = np.sum(weights**2, axis=0)
    clusters = weights.sum(axis=0) ** 2 / np.where(squares > 0, squares, 1.0)
    held = enough_rows(treated_rows(treated), LEAST_ROWS) & enough_rows(clusters, LEAST_CLUSTERS)
    half, square = np.full(len(held), np.nan), value_squares(treated)
    for i in np.flatnonzero(held):
        half[i] = variance_of(sums[:, i], float(square[i]), rows.sizes).half_width(level) / rows.total
    return treated.net_benefit - half, treated.net_benefit + half


def treated_of_buckets(rows: Clustered, treated: Treated) -> tuple[Float64s, Float64s]:
    """Return the treated weight of each bucket with outcome 1 and with outcome 0, (H, T) each.

    In the coarse cell that a threshold cuts, or that ends at it, each bucket has the treated share of all rows there.
    """
    kinds = rows.fine.table.scores.dtype
    scores = treated.thresholds.astype(np.float32 if kinds == np.float16 else kinds)
    places, cells = rows.buckets.cells.of_scores(scores), coarse_places(rows.fine, rows.buckets)[rows.cells.first]
    first = np.searchsorted(cells, places, side="right")  # of the cells above the threshold
    cut = np.searchsorted(cells, places, side="left") < first
    own = np.maximum(first - 1, 0)
    sums = []
    for columns, total in ((rows.y, treated.positives), (rows.n - rows.y, treated.negatives)):
        above = np.zeros((len(columns), columns.shape[1] + 1))
        np.cumsum(columns[:, ::-1], axis=1, out=above[:, 1:])
        full = above[:, columns.shape[1] - first]
        inside = columns[:, own] * cut
        weight = inside.sum(axis=0)
        share = np.divide(total - full.sum(axis=0), weight, out=np.zeros(len(weight)), where=weight > 0)
        sums.append(full + inside * np.clip(share, 0.0, 1.0))
    return sums[0], sums[1]
