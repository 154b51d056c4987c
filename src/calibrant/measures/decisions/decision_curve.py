"""Net benefit and Murphy curve: what acting on the scores at a threshold is worth, and what it costs."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from calibrant.errors import InputError
from calibrant.inputs.arrays import as_array, as_numbers
from calibrant.inputs.predictions import Notion
from calibrant.measures.arguments import event_table
from calibrant.measures.binned.binned import LEAST_CLUSTERS, LEAST_ROWS
from calibrant.measures.decisions.decisions import Treated
from calibrant.measures.decisions.intervals import clustered_interval as by_cluster
from calibrant.measures.decisions.intervals import net_benefit_interval
from calibrant.measures.event import Event
from calibrant.measures.measure import NOT_ASKED
from calibrant.results.values import MurphyCurve, NetBenefit
from calibrant.runtime.arrays import Float64s
from calibrant.sketch import Arguments
from calibrant.statistics.design import BY_CLUSTER, Clustered, rare, rarer_of
from calibrant.statistics.intervals import NORMAL
from calibrant.statistics.resampling import check_level
from calibrant.table import ReliabilityTable

#: .01, .02, ..., .99
THRESHOLDS: Final = tuple((np.arange(1, 100) / 100).tolist())

_METHOD: Final = f"{NORMAL}, where {LEAST_ROWS} rows or more are treated"
_METHOD_OF_CLUSTERS: Final = f"{NORMAL}, where {LEAST_ROWS} rows of {LEAST_CLUSTERS} clusters or more are treated"


def net_benefit(
    probs: Any,
    targets: Any = None,
    *,
    thresholds: Any = None,
    level: float | None = 0.95,
    notion: Notion | None = None,
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> NetBenefit:
    r"""Return the net benefit of acting on the scores, at each threshold: the decision curve.

    .. math:: \mathrm{NB}(t) = \frac{\mathrm{TP}(t) - \mathrm{FP}(t)\,\frac{t}{1 - t}}{N}

    TP and FP are the rows with a score of at least t, with outcome 1 and with outcome 0. Whoever acts at a threshold t
    accepts (1 - t) / t false alarms for an outcome that is found. Net benefit counts found outcomes for each row, less
    the false alarms at that rate. It is at most the outcome rate; higher is better. Treating nobody has net benefit 0.
    Treating everyone has :math:`\bar y - (1 - \bar y)\,t / (1 - t)`. A model is of use at the thresholds where it is
    above both.

    Miscalibration costs net benefit. Acting on the scores at t gives away at most K / (1 - t) against the best
    threshold on the same scores, where K is Kuiper's calibration error, the range of cumulative residuals.

    Parameters
    ----------
    probs, targets, notion, weights, ignore_index, logits
        As in `expected_calibration_error`, for one judged event; ``probs`` may be a `ReliabilityTable` or a
        `CalibrationSketch`.
    thresholds : (T,) array, optional
        Increasing numbers above 0 and below 1; by default .01, .02, ..., .99. They are rounded to the type of the
        scores, so a float32 score of 0.1 is at the threshold 0.1.
    level : float or None, default 0.95
        The confidence of the intervals; None leaves them out.

    Returns
    -------
    NetBenefit
        Ties and the order of the rows play no part. From a sketch, rows in a cell that a threshold cuts or that ends
        at the threshold may be on either side: ``error_bounds`` says what this can change.

    Raises
    ------
    calibrant.errors.InputError
        As `expected_calibration_error`; also for thresholds that are not increasing numbers in (0, 1), and for a
        classwise or multilabel notion.

    Notes
    -----
    Intervals are for each threshold by itself and for independent rows, by the central limit theorem. A report on rows
    in clusters (``evaluate(..., clusters=..., profile="clinical")``) has intervals by cluster. They need 30
    treated rows. With 70 and more, 93 to 96 % of 95 % intervals hold the true value. With weights that are not
    integers, variances are sums of squared weights.

    Cost: one read, one sort of N integers, O(N + T log N).

    References
    ----------
    Vickers, Elkin (2006), doi 10.1177/0272989X06295361.

    Examples
    --------
    >>> import calibrant
    >>> curve = calibrant.net_benefit([0.1, 0.2, 0.6, 0.8], [0, 1, 0, 1], thresholds=[0.2, 0.5, 0.75])
    >>> curve.net_benefit, curve.treat_all
    (array([0.4375, 0.    , 0.25  ]), array([ 0.375,  0.   , -1.   ]))
    """
    places = _thresholds(thresholds)
    if level is not None:
        check_level(level)
    arguments = Arguments(
        probs=probs, targets=targets, notion=notion, weights=weights, ignore_index=ignore_index, logits=logits
    )
    return _net_benefit(event_table(arguments, "net benefit"), places, level, None)


def murphy_curve(
    probs: Any,
    targets: Any = None,
    *,
    thresholds: Any = None,
    notion: Notion | None = None,
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> MurphyCurve:
    r"""Return the mean elementary score at each threshold: the Murphy curve.

    .. math:: S(t) = \frac{t\,\#\{p > t, y = 0\} + (1 - t)\,\#\{p \le t, y = 1\}}{N}

    It is the mean loss of those who act where p > t, if a false alarm costs t and a missed outcome 1 - t. It is in
    [0, 1]; lower is better. If the curve of one model is below that of another at every t, every proper score prefers
    the first. Twice the area below the curve is the Brier score. Without scores equal to t,
    :math:`\mathrm{NB}(t) = \bar y - S(t) / (1 - t)` is the net benefit.

    Parameters
    ----------
    probs, targets, notion, weights, ignore_index, logits
        As in `expected_calibration_error`, for one judged event; ``probs`` may be a `ReliabilityTable` or a
        `CalibrationSketch`.
    thresholds : (T,) array, optional
        As in `net_benefit`.

    Returns
    -------
    MurphyCurve
        Ties and the order of the rows play no part. From a sketch it is exact at the thresholds i / 300; at others
        ``error_bounds`` says how far off it can be. The area is always exact.

    Raises
    ------
    calibrant.errors.InputError
        As `net_benefit`.

    Notes
    -----
    Cost: one read, one sort of N integers, O(N + T log N).

    References
    ----------
    Ehm, Gneiting, Jordan, Krüger (2016), doi 10.1111/rssb.12154.

    Examples
    --------
    >>> import calibrant
    >>> curve = calibrant.murphy_curve([0.1, 0.2, 0.6, 0.8], [0, 1, 0, 1], thresholds=[0.2, 0.5, 0.75])
    >>> curve.scores, round(2 * curve.area, 12)
    (array([0.25  , 0.25  , 0.0625]), 0.2625)
    """
    places = _thresholds(thresholds)
    arguments = Arguments(
        probs=probs, targets=targets, notion=notion, weights=weights, ignore_index=ignore_index, logits=logits
    )
    return _murphy_curve(event_table(arguments, "a Murphy curve"), places)


def murphy_curve_of(event: Event) -> MurphyCurve:
    """Return the Murphy curve of a judged event at the usual thresholds."""
    return _murphy_curve(event.table, _thresholds(None))


def _murphy_curve(table: ReliabilityTable, places: Float64s) -> MurphyCurve:
    """Return the Murphy curve of a table."""
    treated = Treated.of(table, places, closed=False)
    return MurphyCurve(
        thresholds=places,
        scores=treated.elementary_scores,
        area=table.sums.square_residuals / table.total / 2,
        error_bounds=treated.elementary_bounds,
        n=table.n,
    )


def decision_curve_of(event: Event, level: float | None) -> NetBenefit:
    """Return the decision curve of a judged event at the usual thresholds."""
    return _net_benefit(event.table, _thresholds(None), level, event.clusters)


def _net_benefit(
    table: ReliabilityTable, thresholds: Float64s, level: float | None, clusters: Clustered | None
) -> NetBenefit:
    """Return the net benefit of a table, with intervals if there is a level."""
    treated = Treated.of(table, thresholds, closed=True)
    lows = highs = np.full(len(thresholds), np.nan)
    parts = [NOT_ASKED]
    if level is not None and clusters is not None:
        lows, highs = by_cluster(clusters, treated, level)
        parts = [_METHOD_OF_CLUSTERS + BY_CLUSTER, clusters.sample.flag]
    elif level is not None:
        lows, highs = net_benefit_interval(treated, level)
        masses = np.array([table.total - table.sums.positives, table.sums.positives])
        parts = [_METHOD, rare(rarer_of(masses, table.own_weights.sum(axis=1)))]
    return NetBenefit(
        thresholds=thresholds,
        net_benefit=treated.net_benefit,
        lows=np.maximum(lows, -treated.odds),
        highs=np.minimum(highs, 1.0),
        treat_all=treated.treat_all,
        treated=treated.positives + treated.negatives,
        level=np.nan if level is None else float(level),
        method="; ".join(filter(None, parts)),
        error_bounds=treated.net_benefit_bounds,
        n=table.n,
    )


def _thresholds(values: Any) -> Float64s:
    """Return the thresholds; reject what is not a list of increasing numbers above 0 and below 1."""
    if values is None:
        return np.array(THRESHOLDS)
    array = as_numbers("thresholds", as_array("thresholds", values)).astype(np.float64)
    remedy = "pass an increasing list such as [0.1, 0.2, 0.5]"
    if array.ndim != 1 or array.size == 0:
        raise InputError("thresholds", "a list of numbers", f"shape {array.shape}", remedy)
    outside = ~((array > 0) & (array < 1))
    if outside.any():
        place = int(np.argmax(outside))
        raise InputError("thresholds", "numbers above 0 and below 1", f"{array[place]:g} at {place}", remedy)
    falls = np.diff(array) <= 0
    if falls.any():
        place = int(np.argmax(falls))
        raise InputError("thresholds", "increasing numbers", f"{array[place]:g}, {array[place + 1]:g}", remedy)
    return array
