"""Net benefit and Murphy curve: what acting on the scores at a threshold is worth, and what it costs.

At a threshold t those whose score reaches t are treated. TP and FP are the treated with outcome 1 and with outcome 0.
Net benefit counts a score equal to t as treated (p >= t), the elementary score does not (p > t). Both are of one pair
of prefix sums. Thresholds are rounded to the type of the scores, as edges of bins are.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError
from calibrant.errors.wording import number
from calibrant.inputs.conversion import as_array, as_numbers
from calibrant.inputs.predictions import Notion
from calibrant.inputs.weights import effective_n
from calibrant.measures.binned.binned import LEAST_CLUSTERS, LEAST_ROWS, enough_rows
from calibrant.measures.event import Event
from calibrant.measures.measure import NOT_ASKED
from calibrant.measures.read_arguments import event_table
from calibrant.results.values import MurphyCurve, NetBenefit
from calibrant.runtime.arrays import ArrayLike, Float64s
from calibrant.runtime.dataclass import dataclass
from calibrant.sketch import Arguments, Predicted
from calibrant.statistics.buckets import centred, coarse_places, variance_of
from calibrant.statistics.design import BY_CLUSTER, Clustered, rare, rarer_of
from calibrant.statistics.intervals import NORMAL
from calibrant.statistics.resampling import check_level, normal_quantile
from calibrant.table import GridCells, ReliabilityTable

_SINGLE: Final = 2.0**-23  # between neighbouring float32, relative: scores of float32 are counted by rounded edges
_ROUNDED: Final = 1e-12  # relative, of the mean of equal scores


#: 0.01, 0.02, ..., 0.99
THRESHOLDS: Final = tuple((np.arange(1, 100) / 100).tolist())

_METHOD: Final = f"{NORMAL}, at thresholds with at least {LEAST_ROWS} treated rows"
_METHOD_OF_CLUSTERS: Final = f"{_METHOD} in at least {LEAST_CLUSTERS} clusters"


def net_benefit(
    probs: Predicted,
    targets: ArrayLike | None = None,
    *,
    thresholds: Any = None,
    level: float | None = 0.95,
    notion: Notion | None = None,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> NetBenefit:
    r"""Return the net benefit of acting on the scores, at each threshold: the decision curve.

    .. math:: \mathrm{NB}(t) = \frac{\mathrm{TP}(t) - \mathrm{FP}(t)\,\frac{t}{1 - t}}{N}

    TP and FP are the rows with a score of at least t, with outcome 1 and with outcome 0. Whoever acts at a threshold t
    accepts (1 - t) / t false positives for one true positive. Net benefit is the number of true positives per row, less
    the number of false positives per row divided by (1 - t) / t. It is at most the observed frequency; higher is
    better. Treating nobody has net benefit 0. Treating everyone has :math:`\bar y - (1 - \bar y)\,t / (1 - t)`. A model
    is of use at the thresholds where its net benefit is above both.

    Miscalibration costs net benefit. Acting on the scores at t gives away at most K / (1 - t) against the best
    threshold on the same scores, where K is Kuiper's calibration error, the range of cumulative residuals.

    Parameters
    ----------
    probs, targets, notion, weights, ignore_index, logits
        As in `expected_calibration_error`, for one evaluated event; ``probs`` may be a `ReliabilityTable` or a
        `CalibrationSketch`.
    thresholds : (T,) array, optional
        Increasing numbers above 0 and below 1; by default 0.01, 0.02, ..., 0.99. They are rounded to the type of the
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
    Intervals are for each threshold alone and for independent rows, by the central limit theorem. A report on rows
    in clusters (``evaluate(..., clusters=..., profile="clinical")``) has intervals by cluster. They need 30
    treated rows. With 70 and more, and 15 of each outcome, 93 to 96 % of 95 % intervals hold the true value. With
    weights that are not integers, variances are sums of squared weights.

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
    places = as_thresholds(thresholds)
    if level is not None:
        check_level(level)
    arguments = Arguments(probs, targets, notion, weights, ignore_index, logits)
    return decision_curve_of(Event(table=event_table(arguments, "net benefit")), level, places)


def murphy_curve(
    probs: Predicted,
    targets: ArrayLike | None = None,
    *,
    thresholds: Any = None,
    notion: Notion | None = None,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> MurphyCurve:
    r"""Return the mean elementary score at each threshold: the Murphy curve.

    .. math:: S(t) = \frac{t\,\#\{p > t, y = 0\} + (1 - t)\,\#\{p \le t, y = 1\}}{N}

    It is the mean loss of those who act where p > t, if a false alarm costs t and a missed outcome 1 - t. It is in
    [0, 1]; lower is better. If the curve of one model is below that of another at every t, every proper score prefers
    the first. Twice the area below the curve is the Brier score. Without scores equal to t,
    :math:`\mathrm{NB}(t) = \bar y - S(t) / (1 - t)` is the net benefit.

    From a sketch it is exact at the thresholds i / 300; at others ``error_bounds`` says how far off it can be. The area
    is always exact. Parameters, errors and cost are those of `net_benefit`.

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
    places = as_thresholds(thresholds)
    arguments = Arguments(probs, targets, notion, weights, ignore_index, logits)
    return murphy_curve_of(Event(table=event_table(arguments, "a Murphy curve")), places)


@dataclass(frozen=True, eq=False)
class Treated:
    """Those treated at each threshold, fields of shape (T,).

    ``positives`` and ``negatives`` are their weight by outcome, ``square_positives`` and ``square_negatives`` the same
    of squared weights. ``unsure_positives`` and ``unsure_negatives`` are the weight of rows that may belong to either
    side: those in a cell of a grid that the threshold cuts.
    """

    table: ReliabilityTable
    thresholds: Float64s
    positives: Float64s
    negatives: Float64s
    square_positives: Float64s
    square_negatives: Float64s
    unsure_positives: Float64s
    unsure_negatives: Float64s

    @classmethod
    def of(cls, table: ReliabilityTable, thresholds: Float64s, *, closed: bool) -> Treated:
        """Return those treated at these thresholds; ``closed`` says whether a score equal to the threshold is.

        On a grid a cell is treated if its mean score is.
        """
        scores, cells = table.scores, GridCells.of(table)
        places = thresholds.astype(scores.dtype)
        if cells is not None and closed:
            places = places * (1 - _ROUNDED)
        first = np.searchsorted(scores, places, side="left" if closed else "right")
        masses = np.stack([table.positives, table.counts - table.positives]).astype(np.float64)
        unsure = np.zeros((2, len(thresholds)))
        if cells is not None:
            last = cells.high * (1 + _SINGLE) if closed else cells.high
            cut = np.searchsorted(last, thresholds, side="left" if closed else "right")
            for at in (cut, cut + 1):  # two cells may be that close
                held = np.minimum(at, len(scores) - 1)
                near = np.abs(scores[held] - thresholds) <= _SINGLE * thresholds
                doubt = (at < len(scores)) & (cells.low[held] < thresholds) & (cells.several[held] | near)
                unsure += np.where(doubt, masses[:, held], 0.0)
        sums = _above(masses, first)
        squares = sums if table.whole else _above(table.own_weights[::-1], first)
        return cls(table, thresholds, *sums, *squares, *unsure)

    @property
    def odds(self) -> Float64s:
        """The harm of treating an outcome 0 by the benefit of treating an outcome 1, t / (1 - t)."""
        return self.thresholds / (1 - self.thresholds)

    @property
    def net_benefit(self) -> Float64s:
        """(TP - FP t / (1 - t)) / N."""
        return np.asarray((self.positives - self.negatives * self.odds) / self.table.total)


def _above(masses: NDArray[Any], first: NDArray[np.intp]) -> Float64s:
    """Return the sums of (..., K) masses from the first treated cell on, (..., T)."""
    sums = np.zeros((len(masses), masses.shape[1] + 1))
    np.cumsum(masses[:, ::-1], axis=1, out=sums[:, 1:])
    return sums[:, masses.shape[1] - first]


def value_squares(treated: Treated) -> Float64s:
    """Return the sums over rows of w^2 (x - m)^2, (T,): x the value of a row, m the net benefit, which is its mean.

    The value is 1 for a treated outcome 1, -t / (1 - t) for a treated outcome 0, and 0 for the rest.
    """
    value, odds = treated.net_benefit, treated.odds
    hits, alarms = treated.square_positives, treated.square_negatives
    rest = np.maximum(treated.table.own_weights.sum() - hits - alarms, 0.0)
    return np.asarray(hits * (1 - value) ** 2 + alarms * (odds + value) ** 2 + rest * value**2)


def treated_rows(treated: Treated) -> Float64s:
    """Return the treated rows as equal ones, (T,): their number, with whole weights."""
    weight, square = treated.positives + treated.negatives, treated.square_positives + treated.square_negatives
    return effective_n(weight, np.where(square > 0, square, 1.0))


def net_benefit_interval_by_cluster(rows: Clustered, treated: Treated, level: float) -> tuple[Float64s, Float64s]:
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
    last = np.maximum(first - 1, 0)  # the cell that may be cut
    sums = []
    for columns, total in ((rows.y, treated.positives), (rows.n - rows.y, treated.negatives)):
        full = _above(columns, first)
        inside = columns[:, last] * cut
        weight = inside.sum(axis=0)
        share = np.divide(total - full.sum(axis=0), weight, out=np.zeros(len(weight)), where=weight > 0)
        sums.append(full + inside * np.clip(share, 0.0, 1.0))
    return sums[0], sums[1]


def murphy_curve_of(event: Event, thresholds: Float64s | None = None) -> MurphyCurve:
    """Return the Murphy curve of an evaluated event, by default at the usual thresholds.

    The elementary score is (t FP + (1 - t) FN) / N, FN the outcomes 1 that are not treated.
    """
    table = event.table
    treated = Treated.of(table, as_thresholds(thresholds), closed=False)
    t, missed = treated.thresholds, table.sums.positives - treated.positives
    return MurphyCurve(
        thresholds=t,
        scores=(t * treated.negatives + (1 - t) * missed) / table.total,
        area=table.sums.square_residuals / table.total / 2,
        error_bounds=np.maximum(t * treated.unsure_negatives, (1 - t) * treated.unsure_positives) / table.total,
        n=table.n,
    )


def decision_curve_of(event: Event, level: float | None, thresholds: Float64s | None = None) -> NetBenefit:
    """Return the net benefit of an event, by default at the usual thresholds; with a level, with intervals."""
    table = event.table
    treated = Treated.of(table, as_thresholds(thresholds), closed=True)
    lows = highs = np.full(len(treated.thresholds), np.nan)
    parts = [NOT_ASKED]
    if level is not None and event.clusters is not None:
        lows, highs = net_benefit_interval_by_cluster(event.clusters, treated, level)
        parts = [_METHOD_OF_CLUSTERS + BY_CLUSTER, event.clusters.sample.flag]
    elif level is not None:
        half = normal_quantile(level) * np.sqrt(value_squares(treated)) / table.total
        half = np.where(enough_rows(treated_rows(treated), LEAST_ROWS), half, np.nan)
        lows, highs = treated.net_benefit - half, treated.net_benefit + half
        masses = np.array([table.total - table.sums.positives, table.sums.positives])
        parts = [_METHOD, rare(rarer_of(masses, table.own_weights.sum(axis=1)))]
    odds, rate = treated.odds, table.sums.positives / table.total
    return NetBenefit(
        thresholds=treated.thresholds,
        net_benefit=treated.net_benefit,
        lows=np.maximum(lows, -odds),
        highs=np.minimum(highs, 1.0),
        treat_all=np.asarray(rate - (1 - rate) * odds),
        treated=treated.positives + treated.negatives,
        level=np.nan if level is None else float(level),
        method="; ".join(filter(None, parts)),
        error_bounds=np.maximum(treated.unsure_positives, treated.unsure_negatives * odds) / table.total,
        n=table.n,
    )


def as_thresholds(values: Any) -> Float64s:
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
        raise InputError("thresholds", "numbers above 0 and below 1", f"{number(array[place])} at {place}", remedy)
    falls = np.diff(array) <= 0
    if falls.any():
        place = int(np.argmax(falls))
        raise InputError(
            "thresholds", "increasing numbers", f"{number(array[place])}, {number(array[place + 1])}", remedy
        )
    return array
