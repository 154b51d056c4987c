"""Noise floor, p-value and bootstrap of any statistic of a table."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError
from calibrant.estimators.binned import LEAST_ROWS, check_bins, uniform_bin_of
from calibrant.results import Estimate
from calibrant.sampling.binned import BinMoments, BinStatistics
from calibrant.sampling.cells import Cells
from calibrant.sampling.null import floor_of, p_value
from calibrant.sampling.resampling import Resampling, Rng, Stream, draw_outcomes, draw_rows, in_blocks
from calibrant.table import ReliabilityTable

Float64s = NDArray[np.float64]
Statistic = Callable[[ReliabilityTable], float]

_BIASED: Final = 0.25  # standard errors of bias beyond which a bootstrap interval is called not valid


def consistency(
    table: ReliabilityTable, statistic: Statistic, *, level: float = 0.95, n_resamples: int = 1000, rng: Rng = 0
) -> Estimate:
    r"""Test calibration by any statistic of a table: return its noise floor and its p-value under calibration.

    Outcomes are drawn from what the scores claim, :math:`y^*_c \sim B(n_c, P_c)` for each row c of the table, and the
    statistic is computed on each replicate (Bröcker and Smith 2007):

    .. math:: p = \frac{1 + \#\{T^* \ge T\}}{B + 1}

    Parameters
    ----------
    table : ReliabilityTable
        From `ReliabilityTable.from_predictions` or `from_scores`. If it has more rows than the standard grid has cells
        (4,396), it is first pooled into the grid.
    statistic : callable
        A function from a `ReliabilityTable` to a number that is larger for worse calibration, such as
        `calibrant.expected_calibration_error`.
    level : float, default 0.95
        The quantile of the noise floor.
    n_resamples : int, default 1000
        The number of replicates B; the least p-value is 1 / (B + 1).
    rng : int or numpy.random.Generator, default 0
        The seed. The numbers do not depend on the number of threads.

    Returns
    -------
    Estimate
        With value, floor and p-value, and without an interval.

    Raises
    ------
    calibrant.errors.InputError
        For an empty table, a statistic that is not callable or not a number, and an invalid level or number of
        resamples.

    Notes
    -----
    Valid for any statistic. Cost: B calls of the statistic, on tables of 4,396 rows at most. The statistic is called on
    several threads at once.

    References
    ----------
    Bröcker, Smith (2007), doi 10.1175/WAF993.1. Vaicenavicius et al. (2019), arXiv 1902.06977.

    Examples
    --------
    >>> import calibrant
    >>> table = calibrant.ReliabilityTable.from_scores([0.2] * 50 + [0.8] * 50, [0] * 25 + [1] * 75)
    >>> test = calibrant.inference.consistency(table, calibrant.expected_calibration_error)
    >>> round(test.value, 2), round(test.floor.mean, 3), round(test.p_value, 3)
    (0.25, 0.045, 0.001)
    """
    resampling = _checked(table, statistic, level, n_resamples, rng)
    cells = Cells.of(table)

    def block(generator: np.random.Generator, size: int) -> Float64s:
        drawn = draw_outcomes(cells, cells.scores, generator, size)
        if table.square_weights is None:
            drawn = drawn.astype(cells.table.positives.dtype)
        return np.array([_number(statistic, cells.with_positives(row)) for row in drawn])

    replicates = np.concatenate(list(in_blocks(n_resamples, resampling.seed, Stream.CALIBRATED, block)))
    value = _number(statistic, cells.table)
    return Estimate(
        _number(statistic, table),
        floor=floor_of(replicates, level),
        p_value=p_value(replicates, value),
        method=f"consistency test, {n_resamples:,} resamples",
        n=table.n,
    )


def bootstrap(
    table: ReliabilityTable, statistic: Statistic, *, level: float = 0.95, n_resamples: int = 1000, rng: Rng = 0
) -> Estimate:
    r"""Return the percentile bootstrap interval of any statistic of a table.

    Predictions are drawn with replacement. The counts of (cell, outcome) then have exactly the multinomial law
    :math:`\mathrm{Mult}(N, n_{cy} / N)`, so counts are drawn instead of rows.

    .. warning::

        Not valid for statistics that have a kink or a boundary at the true value: calibration errors in l1 or maximum
        norm (0 % coverage at calibration), and anything selected or maximised. Use the intervals of `evaluate` for
        those. Means, differences of means, scores and their smooth functions are fine. A sign of trouble is that the
        mean of the replicates differs from the value by more than a quarter of their standard deviation. Then
        ``details["warning"]`` says so, and ``method`` begins with "NOT VALID".

    Parameters
    ----------
    table, statistic, level, n_resamples, rng
        As in `consistency`.

    Returns
    -------
    Estimate
        With value and interval; ``details`` hold ``standard_error``, ``bias`` (the mean of the replicates minus the
        value) and perhaps ``warning``.

    Raises
    ------
    calibrant.errors.InputError
        As `consistency`.

    Notes
    -----
    Cost: B multinomial draws of at most 8,792 counts and as many calls of the statistic, on several threads.

    References
    ----------
    Efron (1979), doi 10.1214/aos/1176344552. Fang, Santos (2019), doi 10.1093/restud/rdy049, on where it fails.

    Examples
    --------
    >>> import calibrant
    >>> table = calibrant.ReliabilityTable.from_scores([0.2] * 50 + [0.8] * 50, [0] * 25 + [1] * 75)
    >>> rate = calibrant.inference.bootstrap(table, lambda t: t.positives.sum() / t.counts.sum())
    >>> rate.value, 0.6 < rate.low < 0.7, 0.8 < rate.high < 0.9
    (0.75, True, True)
    """
    resampling = _checked(table, statistic, level, n_resamples, rng)
    cells = Cells.of(table)

    def block(generator: np.random.Generator, size: int) -> Float64s:
        return np.array([_number(statistic, cells.drawn(draw_rows(cells, generator))) for _ in range(size)])

    replicates = np.concatenate(list(in_blocks(n_resamples, resampling.seed, Stream.BOOTSTRAP, block)))
    value, error = _number(statistic, table), float(replicates.std(ddof=1)) if n_resamples > 1 else math.nan
    low, high = (float(end) for end in resampling.band(replicates))
    bias = float(replicates.mean()) - value
    details: dict[str, Any] = {"standard_error": error, "bias": bias}
    method = f"percentile bootstrap, {n_resamples:,} resamples"
    if abs(bias) > _BIASED * error:
        method = f"NOT VALID: {method}"
        details["warning"] = (
            f"the replicates are off the value by {abs(bias) / error if error else math.inf:.2g} standard errors: "
            "the interval of such a statistic does not cover what it should"
        )
    return Estimate(value, low, high, level, method=method, n=table.n, details=details)


def standardised_maximum(table: ReliabilityTable, n_bins: int = 15) -> float:
    r"""Return the largest gap of a bin, in standard deviations: the statistic that tests the maximum error.

    .. math:: \max_b \frac{|S_b|}{\sqrt{\max(V_b, 1)}}, \qquad S_b = \sum_{i \in b} (p_i - y_i), \quad
              V_b = \sum_{i \in b} p_i (1 - p_i)

    over equal-width bins with at least 30 rows. It is at least 0. The noisiest bin decides the plain maximum, which has
    therefore no power if events are rare. This form is a statistic for `consistency`, and gives the p-value of
    ``evaluate(...)["mce"]``.

    Parameters
    ----------
    table : ReliabilityTable
        The scores and outcomes of one event.
    n_bins : int, default 15
        The number of bins.

    Raises
    ------
    calibrant.errors.InputError
        If no bin holds 30 rows.

    Examples
    --------
    >>> import calibrant
    >>> table = calibrant.ReliabilityTable.from_scores([0.2] * 50 + [0.8] * 50, [0] * 25 + [1] * 75)
    >>> round(calibrant.inference.standardised_maximum(table), 3)
    5.303
    """
    check_bins(n_bins)
    cells = Cells.of(table)
    statistics = BinStatistics(BinMoments.of(cells, uniform_bin_of(cells.table, n_bins)))
    if not statistics.held.any():
        raise InputError("table", f"a bin with {LEAST_ROWS} rows", "none", "pass fewer bins or more rows")
    return float(statistics.standard_maximum(statistics.bins.gap_sums))


def _checked(table: Any, statistic: Any, level: float, n_resamples: int, rng: Rng) -> Resampling:
    if not isinstance(table, ReliabilityTable):
        remedy = "make one with ReliabilityTable.from_predictions(probs, targets)"
        raise InputError("table", "a ReliabilityTable", f"a {type(table).__name__}", remedy)
    if len(table) == 0:
        raise InputError("table", "at least one row", "an empty table", "check where the rows were lost")
    if not callable(statistic):
        remedy = "pass a function of a table, such as calibrant.expected_calibration_error"
        raise InputError("statistic", "a callable", repr(statistic), remedy)
    return Resampling.of(level, n_resamples, rng, least=1)


def _number(statistic: Statistic, table: ReliabilityTable) -> float:
    value = statistic(table)
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if math.isnan(number):
        raise InputError("statistic", "a function that returns a number", repr(value), "return a float for every table")
    return number
