"""Intervals of the net benefit: for independent rows, and what those for rows in clusters share with them."""

from __future__ import annotations

import numpy as np

from calibrant.inputs.weights import effective_n
from calibrant.measures.binned.binned import LEAST_ROWS, enough_rows
from calibrant.measures.decisions.decisions import Treated
from calibrant.runtime.arrays import Float64s
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
