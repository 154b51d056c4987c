"""Noise floor, p-value and bootstrap of any statistic of a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from calibrant.errors import InputError
from calibrant.inference.event_rows import EventRows, Tables, calibrated_tables, cluster_tables
from calibrant.inputs.predictions import Notion
from calibrant.measures.binned.bin_sums import BinSums
from calibrant.measures.binned.binned import LEAST_ROWS, check_bins, uniform_bin_of
from calibrant.results import Estimate
from calibrant.runtime.arrays import ArrayLike, Float64s
from calibrant.sketch import Arguments, CalibrationSketch
from calibrant.statistics.cells import Cells
from calibrant.statistics.null import floor_of, p_value
from calibrant.statistics.resampling import Resampling, Rng, Stream
from calibrant.table import ReliabilityTable

Statistic = Callable[[ReliabilityTable], float]

_BIASED: Final = 0.25  # standard errors of bias beyond which a bootstrap interval is called not valid
_ROUNDING: Final = 1e-12  # a smaller bias is rounding


def consistency(
    table: Any,
    statistic: Statistic,
    *,
    targets: ArrayLike | None = None,
    notion: Notion | None = None,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
    n_resamples: int = 1000,
    rng: Rng = 0,
) -> Estimate:
    r"""Test calibration by any statistic of a table: return its noise floor and its p-value under calibration.

    Outcomes are drawn from what the scores claim, :math:`y^*_c \sim B(n_c, P_c)` for each row c of the table, and the
    statistic is computed on each simulated data set (Bröcker and Smith 2007):

    .. math:: p = \frac{1 + \#\{T^* \ge T\}}{B + 1}

    Parameters
    ----------
    table : ReliabilityTable or CalibrationSketch, or predictions with ``targets``
        A table is from `ReliabilityTable.from_predictions` or `from_scores`. If it has more rows than the standard grid
        has cells (4,396), it is first pooled into the grid.
    statistic : callable
        A function from a `ReliabilityTable` to a number that is larger for worse calibration, such as
        `calibrant.expected_calibration_error`.
    targets, notion, weights, ignore_index, logits
        As in `spiegelhalter_test`, for predictions.
    clusters : array, (N,), optional
        The label of each row's cluster, for predictions, as in `spiegelhalter_test`. Simulated data sets are then those
        of `ks_test`, as tables of 428 rows at most. Their ``positives`` are not whole numbers, and may lie outside 0 to
        ``counts`` where a row of the table holds few clusters.
    level : float, default 0.95
        The quantile of the noise floor.
    n_resamples : int, default 1000
        The number of simulated data sets B; the least p-value of T is 1 / (B + 1).
    rng : int or numpy.random.Generator, default 0
        The seed. The numbers do not depend on the number of threads.

    Returns
    -------
    Estimate
        With value, floor and p-value, and without an interval. With clusters ``details`` hold ``clusters``,
        ``largest_cluster`` and perhaps a ``flag``.

    Raises
    ------
    calibrant.errors.InputError
        For an empty table, a statistic that is not callable or not a number, and an invalid level or number of
        resamples; for predictions as `spiegelhalter_test`.

    Notes
    -----
    Valid for any statistic. With clusters, the sums of each bin are simulated as nearly normal, which is accurate only
    if the bin has several clusters. Cost: B calls of the statistic, on tables of 4,396 rows at most.

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
    rows = _checked(Arguments(table, targets, notion, weights, ignore_index, logits), statistic, clusters)
    resampling = Resampling.of(level, n_resamples, rng, least=1)
    cells = rows.design.cells
    draw = _calibrated_tables(cells) if rows.clusters is None else calibrated_tables(rows.clusters)
    replicates = _replicates(statistic, draw, resampling, Stream.CALIBRATED, len(cells))
    p, excluded = rows.decided(p_value(replicates, _number(statistic, cells.table)))
    return Estimate(
        _number(statistic, rows.table),
        floor=floor_of(replicates, level),
        p_value=p,
        method=rows.method(f"consistency test, {n_resamples:,} resamples"),
        n=rows.table.n,
        details={**excluded, **rows.cluster_facts},
    )


def bootstrap(
    table: Any,
    statistic: Statistic,
    *,
    targets: ArrayLike | None = None,
    notion: Notion | None = None,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
    n_resamples: int = 1000,
    rng: Rng = 0,
) -> Estimate:
    r"""Return the percentile bootstrap interval of any statistic of a table.

    Predictions are drawn with replacement. The counts of (cell, outcome) then have exactly the multinomial law
    :math:`\mathrm{Mult}(N, n_{cy} / N)`, so counts are drawn instead of rows.

    .. warning::

        Not valid for statistics that have a kink or a boundary at the true value: calibration errors in l1 or maximum
        norm (0 % coverage at calibration), and anything selected or maximised. Use the intervals of `evaluate` for
        those. Means, differences of means, scores and their smooth functions are fine. A sign of trouble is that the
        mean of the simulated data sets differs from the value by more than a quarter of their standard deviation. Then
        ``details["warning"]`` says so, and ``method`` begins with "NOT VALID".

    Parameters
    ----------
    table, statistic, targets, notion, weights, ignore_index, logits, level, n_resamples, rng
        As in `consistency`.
    clusters : array, (N,), optional
        As in `consistency`. Whole clusters are then drawn with replacement. More than 256 clusters are first pooled
        into 256 buckets, and whole buckets are drawn. The rows of each drawn table are pooled into at most 428. To
        correct for this, the value of the data without pooling minus that with pooling is added to the value of each
        simulated data set.

    Returns
    -------
    Estimate
        With value and interval; ``details`` hold ``standard_error``, ``bias`` (the mean of the simulated data sets
        minus the value) and perhaps ``warning``; with clusters also the ``details`` of `consistency`.

    Raises
    ------
    calibrant.errors.InputError
        As `consistency`.

    Notes
    -----
    Cost: B multinomial draws of at most 8,792 counts and as many calls of the statistic.

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
    rows = _checked(Arguments(table, targets, notion, weights, ignore_index, logits), statistic, clusters)
    resampling = Resampling.of(level, n_resamples, rng, least=1)
    value = _number(statistic, rows.table)
    cells = rows.design.cells
    draw = _row_tables(cells) if rows.clusters is None else cluster_tables(rows.clusters)
    replicates = _replicates(statistic, draw, resampling, Stream.BOOTSTRAP, len(cells))
    if rows.clusters is not None:
        replicates += value - _number(statistic, cells.table)
    error = float(replicates.std(ddof=1)) if n_resamples > 1 else math.nan
    low, high = (float(end) for end in resampling.band(replicates))
    bias = float(replicates.mean()) - value
    details: dict[str, Any] = {"standard_error": error, "bias": bias, **rows.cluster_facts}
    method = rows.method(f"percentile bootstrap, {n_resamples:,} resamples")
    if abs(bias) > max(_BIASED * error, _ROUNDING):
        method = f"NOT VALID: {method}"
        details["warning"] = (
            f"the bootstrap bias is {abs(bias) / error if error else math.inf:.2g} standard errors, "
            "so the percentile interval of this statistic covers the true value too rarely"
        )
    return Estimate(value, low, high, level, method=method, n=rows.table.n, details=details)


def standardised_maximum(table: ReliabilityTable, n_bins: int = 15) -> float:
    r"""Return the largest gap of a bin, in standard deviations: the statistic that tests the maximum error.

    .. math:: \max_b \frac{|S_b|}{\sqrt{\max(V_b, 1)}}, \qquad S_b = \sum_{i \in b} (p_i - y_i), \quad
              V_b = \sum_{i \in b} p_i (1 - p_i)

    over equal-width bins with at least 30 rows. It is at least 0. The noisiest bin decides the plain maximum, which has
    therefore no power if events are rare. This form is a statistic for `consistency`, and gives the p-value of
    ``evaluate(...)["mce"]``, for rows in clusters a similar one.

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
    cells = Cells.from_table(table)
    bins = BinSums.of_cells(cells, uniform_bin_of(cells.table, n_bins))
    if not bins.held.any():
        raise InputError("table", f"a bin with at least {LEAST_ROWS} rows", "none", "pass fewer bins or more rows")
    return float(bins.standard_maximum(bins.moments.gap_sums))


def _checked(arguments: Arguments, statistic: Any, clusters: ArrayLike | None) -> EventRows:
    """Return the rows, of a statistic that is a function."""
    table = arguments.probs
    ready = isinstance(table, (ReliabilityTable, CalibrationSketch))
    if not ready and arguments.targets is None:
        remedy = "make one with ReliabilityTable.from_predictions(probs, targets), or pass targets="
        raise InputError("table", "a ReliabilityTable", f"a {type(table).__name__}", remedy)
    if isinstance(table, ReliabilityTable) and len(table) == 0:
        raise InputError("table", "at least one row", "an empty table", "check where the rows were lost")
    if not callable(statistic):
        remedy = "pass a function of a table, such as calibrant.expected_calibration_error"
        raise InputError("statistic", "a callable", repr(statistic), remedy)
    try:
        return EventRows.of_arguments(arguments, clusters)
    except InputError as error:
        raise error.renamed({"probs": "table"}) from None


def _calibrated_tables(cells: Cells) -> Tables:
    """Return what draws tables of calibrated outcomes."""

    def draw(rng: np.random.Generator, size: int) -> Iterator[ReliabilityTable]:
        drawn = cells.calibrated.draw(rng, size)
        if cells.table.whole:
            drawn = drawn.astype(cells.table.positives.dtype)
        return map(cells.with_positives, drawn)

    return draw


def _row_tables(cells: Cells) -> Tables:
    """Return what draws tables of as many rows as there are, with replacement."""

    def draw(rng: np.random.Generator, size: int) -> Iterator[ReliabilityTable]:
        return (cells.drawn(cells.draw_rows(rng)) for _ in range(size))

    return draw


def _replicates(statistic: Statistic, draw: Tables, resampling: Resampling, stream: Stream, n_cells: int) -> Float64s:
    """Return the statistic of tables that are drawn, (B,)."""

    def block(rng: np.random.Generator, size: int) -> Float64s:
        return np.array([_number(statistic, table) for table in draw(rng, size)])

    return resampling.draws(stream, block, cells=n_cells)


def _number(statistic: Statistic, table: ReliabilityTable) -> float:
    value = statistic(table)
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if math.isnan(number):
        raise InputError("statistic", "a function that returns a number", repr(value), "return a float for every table")
    return number
