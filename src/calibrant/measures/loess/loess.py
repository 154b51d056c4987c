"""Loess of the outcomes, at each score a line through the nearest rows, and the errors that are its gaps to the scores.

These errors are the integrated calibration index (ICI) and the quantiles E50 and E90. There are also the interval of
the index, and the curve with its bands.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError
from calibrant.inputs.predictions import Notion
from calibrant.measures.context import Inference, Replicates
from calibrant.measures.event import Event
from calibrant.measures.means.means import gap_variance
from calibrant.measures.measure import Details, Measure, Null, Unavailable
from calibrant.measures.read_arguments import event_table
from calibrant.results import CalibrationCurve
from calibrant.runtime.arrays import ArrayLike, Float64s
from calibrant.runtime.cached import cached_property
from calibrant.runtime.dataclass import dataclass
from calibrant.sketch import Arguments, Predicted
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import SamplingDesign
from calibrant.statistics.intervals import blend, thinned, widest
from calibrant.statistics.null import Interval
from calibrant.statistics.resampling import t_quantile

#: The share of the rows that each line is fitted to.
SPAN: Final = 0.75

#: The most scores at which lines are fitted; between them the curve is straight.
MOST_ANCHORS: Final = 512

_ROUNDING: Final = 1e-12  # relative
_TINY: Final = float(np.finfo(float).tiny)


@dataclass(frozen=True, eq=False)
class Loess:
    r"""A loess curve as a linear map of the outcomes.

    At each anchor x a line is fitted to the outcomes by least squares, with the weights :math:`(1 - |p - x|^3 / h^3)^3`
    (tricube); h is the smallest half-width that holds a share ``span`` of the rows. Where a single score has weight,
    the curve is its observed frequency. Lines reproduce the diagonal: the gaps between scores and curve are the same
    map of score - outcome, and calibrated scores have none on average.
    """

    scores: Float64s  # (K,): the distinct scores, or the mean scores of cells
    counts: Float64s  # (K,): the weight of the rows of each
    anchors: Float64s  # (A,): the scores at which lines are fitted: all of them, or 512 at equal steps of the rows
    weights: Float64s  # (A, K): how much one outcome of each score adds to the curve at each anchor

    @classmethod
    def of(cls, cells: Cells, span: float = SPAN) -> Loess:
        """Return the curve of the rows of cells: ``cells.of(Loess.of)`` computes it once.

        Cost: O(512 K) time and memory.
        """
        scores, counts = cells.table.scores.astype(np.float64), cells.counts
        upto = np.cumsum(counts)
        needed = span * float(upto[-1]) * (1 - _ROUNDING)
        anchors = scores
        if len(scores) > MOST_ANCHORS:
            steps = np.searchsorted(upto, np.linspace(0, upto[-1], MOST_ANCHORS))
            anchors = scores[np.unique(np.clip(steps, 0, len(scores) - 1))]
        return cls(
            scores, counts, anchors, _lines(scores, counts, anchors, _half_widths(scores, upto, needed, anchors))
        )

    def gaps(self, gap_sums: Float64s) -> Float64s:
        """Return score - curve at the anchors, (..., A), from the sums of score - outcome at each score, (..., K)."""
        return np.asarray(gap_sums @ self.weights.T)

    def at_scores(self, values: Float64s) -> Float64s:
        """Return curves, given at the anchors, (..., A), at all scores, (..., K)."""
        before, after, moved = self._places
        return np.asarray(values[..., before] * (1 - moved) + values[..., after] * moved)

    def absolute_gaps(self, gap_sums: Float64s) -> Float64s:
        """Return the absolute gaps at all scores, (..., K), from the sums of score - outcome."""
        return np.abs(self.at_scores(self.gaps(gap_sums)))

    @cached_property
    def squares(self) -> Float64s:
        """The squared weights, (A, K): variances of sums over rows times these are variances of the curve."""
        return np.asarray(self.weights**2)

    @cached_property
    def shares(self) -> Float64s:
        """The share of the rows that each anchor stands for, (A,): their mean is that over rows of a curve between."""
        before, after, moved = self._places
        n = len(self.anchors)
        sums = np.bincount(before, self.counts * (1 - moved), n) + np.bincount(after, self.counts * moved, n)
        return np.asarray(sums / self.counts.sum())

    @cached_property
    def _places(self) -> tuple[NDArray[np.intp], NDArray[np.intp], Float64s]:
        """The anchors before and after each score, and how far the score is from the first to the second; (K,) each."""
        before = np.clip(np.searchsorted(self.anchors, self.scores, side="right") - 1, 0, len(self.anchors) - 1)
        after = np.minimum(before + 1, len(self.anchors) - 1)
        widths = self.anchors[after] - self.anchors[before]
        moved = np.divide(self.scores - self.anchors[before], widths, out=np.zeros_like(widths), where=widths > 0)
        return before, after, moved


@dataclass(frozen=True, eq=False)
class Quantiles:
    """Quantiles of values, (..., K), that occur ``counts`` times, (K,).

    With whole weights they are those of the repeated values, with straight lines between them. Otherwise each is the
    smallest value that a share of the weight does not exceed.
    """

    values: Float64s
    counts: Float64s
    whole: bool

    @cached_property
    def _ordered(self) -> tuple[NDArray[np.intp], Float64s]:
        order = np.argsort(self.values, axis=-1)
        return order, np.cumsum(self.counts[order], axis=-1)

    def at(self, share: float) -> Float64s:
        """Return the quantiles, (...)."""
        total = float(self.counts.sum())
        if not self.whole:
            return self._reached(share * total * (1 - _ROUNDING))
        place = share * (total - 1)
        first = float(np.floor(place))
        low, high = (self._reached(min(at + 1, total) - 0.5) for at in (first, first + 1))
        return np.asarray(low + (place - first) * (high - low))

    def _reached(self, weight: float) -> Float64s:
        """Return the values at which the weight from below reaches this one."""
        order, upto = self._ordered
        places = np.sum(upto < weight, axis=-1, keepdims=True)
        return np.asarray(np.take_along_axis(self.values, np.take_along_axis(order, places, axis=-1), axis=-1)[..., 0])


def _half_widths(scores: Float64s, upto: Float64s, needed: float, anchors: Float64s) -> Float64s:
    """Return the smallest half-widths around the anchors that hold the needed weight.

    [p_i, p_j] with the smallest j for each i hold it. The two of these windows around p_i + p_j = 2 x are nearest.
    """
    before = np.concatenate([[0.0], upto[:-1]])
    last = np.searchsorted(upto, before + needed)
    low = scores[last < len(scores)]
    high = scores[last[last < len(scores)]]
    place = np.searchsorted(low + high, 2 * anchors)
    right = np.where(place < len(low), high[np.minimum(place, len(low) - 1)] - anchors, np.inf)
    left = np.where(place > 0, anchors - low[np.maximum(place - 1, 0)], np.inf)
    return np.asarray(np.maximum(np.minimum(right, left), 0.0))


def _lines(scores: Float64s, counts: Float64s, anchors: Float64s, half_widths: Float64s) -> Float64s:
    """Return by how much one outcome of each score moves the fitted line at each anchor, (A, K)."""
    moved = scores - anchors[:, None]
    near = np.abs(moved)
    wide = half_widths > 0
    near /= np.where(wide, half_widths, 1.0)[:, None]
    weights = np.where(wide[:, None], np.maximum(1 - near**3, 0.0) ** 3, near == 0)
    rows = weights * counts
    mass = rows.sum(axis=1, keepdims=True)
    middle = np.sum(rows * moved, axis=1, keepdims=True) / mass
    moved -= middle
    spread = np.sum(rows * moved**2, axis=1, keepdims=True)
    slopes = np.divide(middle, spread, out=np.zeros_like(middle), where=spread > 0)
    return np.asarray(weights * (1 / mass - slopes * moved))


def absolute_gaps(cells: Cells, gap_sums: Float64s) -> Quantiles:
    """Return the absolute gaps between scores and loess curve, (..., K), from the sums of score - outcome."""
    return Quantiles(cells.of(Loess.of).absolute_gaps(gap_sums), cells.counts, cells.table.whole)


def design_effects(design: SamplingDesign) -> Float64s:
    """Return the design effect of the gap at each anchor."""
    curve = design.cells.of(Loess.of)
    effects = design.effects(curve.gaps, lambda squares: np.asarray(curve.squares @ squares), design.units)
    return np.broadcast_to(effects, curve.anchors.shape)


def interval(design: SamplingDesign, value: float, level: float, *, rejected: bool) -> tuple[float, float]:
    """Return the interval of the mean difference between the scores and the curve that the true rates would have.

    low = sum o tau g(G / tau) - t sd[g'(G / tau)] and high = T + t sd[sign G]: G are the gaps at the anchors, o the
    shares of the rows, tau^2 the variances of G, sd[f] the standard deviation of sum o f G, and g as for binned errors.
    Variances of cells are blended with what calibration implies as if each had the rows behind an anchor, or the
    clusters if they are fewer.
    """
    cells, curve = design.cells, design.cells.of(Loess.of)
    rows = float(np.median(1 / (curve.squares @ cells.square_weights)))
    near = np.full(len(cells), min(rows, design.units))
    v = blend(near, cells.squared_residuals, cells.null_variances)
    gaps, deviations = curve.gaps(cells.gap_sums), np.sqrt(curve.squares @ v * design_effects(design)) + _TINY
    g, slope = thinned(gaps / deviations)

    def half_width(*directions: Float64s) -> float:
        return widest((design.linear((curve.shares * f) @ curve.weights, v) for f in directions), level)

    low = max(float(curve.shares @ (deviations * g)) - half_width(slope), 0.0) if rejected else 0.0
    signs = np.where(gaps < 0, -1.0, 1.0)  # a gap of 0 varies too
    return min(low, value), value + half_width(signs, *design.common(curve.anchors))


def loess_curve(design: SamplingDesign, shown: NDArray[np.intp], level: float) -> CalibrationCurve:
    """Return the loess curve of the fine cells at those shown, with two pointwise bands: around it and the diagonal.

    The band around the curve has the variance of the fitted rates, the other one of the scores. The bands have the
    design effects of the curve of the design's cells; Student's quantile has the degrees of freedom of the mean
    difference. Under calibration the mean of the curve is the diagonal: lines reproduce it. Neither band contains the
    bias of other curves.
    """
    fine = design.fine
    curve, scores = fine.of(Loess.of), fine.scores[shown]
    fitted = curve.anchors - curve.gaps(fine.gap_sums)
    rates = np.clip(np.interp(fine.scores, curve.anchors, fitted), 0.0, 1.0)
    t = t_quantile(level, gap_variance(design).df)
    deff = np.interp(curve.anchors, design.cells.of(Loess.of).anchors, design_effects(design))
    variances = (fine.square_weights * rates * (1 - rates), fine.null_variances)
    halves = [t * np.sqrt(curve.squares @ v * deff) for v in variances]
    middle, half, null = (np.interp(scores, curve.anchors, values) for values in (fitted, *halves))
    ends = (middle - half, middle + half, scores - null, scores + null)
    low, high, least, most = (np.clip(end, 0.0, 1.0) for end in ends)
    return CalibrationCurve(
        kind="loess",
        scores=scores,
        rates=np.clip(middle, 0.0, 1.0),
        confidence_lows=low,
        confidence_highs=high,
        consistency_lows=least,
        consistency_highs=most,
        level=level,
    )


_CURVE: Final = (
    f"a loess curve of the outcomes (local lines, tricube weights, span {SPAN:g}, fitted at up to {MOST_ANCHORS} "
    "scores and linear between these scores)"
)
_SOURCES: Final = ("Cleveland 1979", "Austin and Steyerberg 2019")
_NO_MEAN: Final = Unavailable("a mean over classes does not describe any class; evaluate one class at a time")


def integrated_calibration_index(
    probs: Predicted,
    targets: ArrayLike | None = None,
    *,
    span: float = SPAN,
    notion: Notion | None = None,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the integrated calibration index (ICI): the mean difference between the scores and a loess curve.

    .. math:: \frac1N \sum_i |s(p_i) - p_i|

    s is **loess by lines**: at each distinct score, a line is fitted with tricube weights to the outcomes of the
    nearest rows, a share ``span`` of all rows. With more than 512 distinct scores the lines are at 512 of them, at
    equal steps of the rows, and s is straight between. R's ``loess`` fits parabolas, and ``val.prob`` takes
    ``span=2/3``: their ICI differs from this one. In [0, 1], lower is better. Lines have no bias if the scores are
    calibrated, but noise makes the index positive: compare it with its noise floor (`calibrant.evaluate`). Ties are
    pooled, so that the order of the rows plays no part; weights are frequencies. More than 4,396 distinct scores are
    fitted in as many cells of the standard grid, as a sketch has them. Parameters, errors and cost are otherwise those
    of `expected_calibration_error`, for one evaluated event.

    Parameters
    ----------
    span : float, default 0.75
        The share of the rows that each local line is fitted to, above 0 and at most 1.

    Raises
    ------
    calibrant.errors.InputError
        Also for a span outside (0, 1].

    References
    ----------
    Austin, Steyerberg (2019), doi 10.1002/sim.8281. Cleveland (1979), doi 10.1080/01621459.1979.10481038.

    Examples
    --------
    >>> import calibrant
    >>> probs, targets = [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9], [0, 1, 0, 1, 1, 0, 1, 1]
    >>> round(calibrant.integrated_calibration_index(probs, targets), 4)
    0.1361
    """
    check_span(span)
    arguments = Arguments(probs, targets, notion, weights, ignore_index, logits)
    cells = Cells.from_table(event_table(arguments, "the integrated calibration index"))
    return _mean(cells, Loess.of(cells, span))


def check_span(span: Any) -> None:
    """Reject a span that is not in (0, 1]."""
    if isinstance(span, bool) or not isinstance(span, (int, float, np.floating)) or not 0 < span <= 1:
        raise InputError("span", "a share of the rows, above 0 and at most 1", repr(span), "pass 0.75, for example")


def _mean(cells: Cells, curve: Loess) -> float:
    return float(cells.counts @ curve.absolute_gaps(cells.gap_sums)) / cells.total


def _details(event: Event) -> Details:
    facts = {"smoother": "loess by lines", "span": SPAN}
    return facts if event.cells.table is event.table else {**facts, "fitted_cells": len(event.cells)}


def _interval(inference: Inference) -> Interval:
    value, rejected = inference.event.value(ICI), inference.rejects(ICI)
    ends = interval(inference.design, value, inference.level, rejected=rejected)
    return Interval(*ends, "Gaussian thinning, for this smoother")


def _drawn_gaps(replicates: Replicates) -> Quantiles:
    return absolute_gaps(replicates.inference.cells, replicates.gap_sums)


def _replicate(replicates: Replicates) -> Float64s:
    cells = replicates.inference.cells
    return np.asarray(replicates.of(_drawn_gaps).values @ cells.counts / cells.total)


ICI = Measure(
    name="ici",
    label="ICI",
    meaning="Integrated calibration index: the mean absolute difference between the predictions and a loess curve of "
    "the outcomes.",
    misleads="It depends on the smoother and its span, so report both.",
    computed=f"The ICI is the mean absolute difference between the predictions and {_CURVE}",
    sources=_SOURCES,
    value=lambda event: _mean(event.cells, event.cells.of(Loess.of)),
    profiles=frozenset({"clinical"}),
    details=_details,
    interval=_interval,
    null=Null(replicate=_replicate),
    over_classes=_NO_MEAN,
    functions=(integrated_calibration_index,),
)


def _quantile_measure(name: str, label: str, share: float, meaning: str, misleads: str) -> Measure:
    def value(event: Event) -> float:
        return float(absolute_gaps(event.cells, event.cells.gap_sums).at(share))

    return Measure(
        name=name,
        label=label,
        meaning=meaning,
        misleads=misleads,
        computed=f"The {label} is the {'median' if share == 0.5 else '90th percentile'} of the absolute differences "
        "between the predictions and the loess curve",
        value=value,
        range=(0.0, math.inf),  # a line may leave [0, 1]
        profiles=frozenset({"clinical"}),
        details=_details,
        interval=Unavailable("no interval: no method is known for a quantile of a fitted curve"),
        null=Null(replicate=lambda replicates: replicates.of(_drawn_gaps).at(share)),
        over_classes=_NO_MEAN,
    )


E50 = _quantile_measure(
    "e50",
    "E50",
    0.5,
    "The median absolute difference between the predictions and a loess curve of the outcomes.",
    "It ignores the half of the rows with the larger differences.",
)
E90 = _quantile_measure(
    "e90",
    "E90",
    0.9,
    "The 90th percentile of the absolute difference between the predictions and a loess curve of the outcomes.",
    "With few rows, the ends of the curve determine it.",
)
