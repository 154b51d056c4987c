"""The integrated calibration index (ICI) and the quantiles E50 and E90: gaps between the scores and a loess curve."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from calibrant.errors import InputError
from calibrant.inputs.predictions import Notion
from calibrant.measures.arguments import event_table
from calibrant.measures.context import Inference, Replicates
from calibrant.measures.event import Event
from calibrant.measures.loess.loess import MOST_ANCHORS, SPAN, Loess, Quantiles, absolute_gaps, interval
from calibrant.measures.measure import Measure, Null, Unavailable
from calibrant.runtime.arrays import Float64s
from calibrant.sketch import Arguments
from calibrant.statistics.cells import Cells
from calibrant.statistics.null import Interval

_CURVE: Final = (
    f"a loess curve of the outcomes (local lines, tricube weights, span {SPAN:g}, fitted at up to {MOST_ANCHORS} "
    "scores and linear between these scores)"
)
_SOURCES: Final = ("Cleveland 1979", "Austin and Steyerberg 2019")
_NO_MEAN: Final = Unavailable("a mean over classes does not describe any class; evaluate one class at a time")


def integrated_calibration_index(
    probs: Any,
    targets: Any = None,
    *,
    span: float = SPAN,
    notion: Notion | None = None,
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the integrated calibration index (ICI): the mean difference between the scores and a loess curve.

    .. math:: \frac1N \sum_i |s(p_i) - p_i|

    s is **loess by lines**: at each distinct score a line fitted to the outcomes of the nearest share ``span`` of the
    rows, with tricube weights. With more than 512 distinct scores the lines are at 512 of them, at equal steps of the
    rows, and s is straight between. R's ``loess`` fits parabolas, and ``val.prob`` takes ``span=2/3``: their ICI
    differs from this one. In [0, 1], lower is better. Lines have no bias if the scores are calibrated, but noise makes
    the index positive: compare it with its noise floor (`calibrant.evaluate`). Ties are pooled, so that the order of
    the rows plays no part; weights are frequencies. More than 4,396 distinct scores are fitted in as many cells of the
    standard grid, as a sketch has them. Parameters, errors and cost are otherwise those of
    `expected_calibration_error`, for one evaluated event.

    Parameters
    ----------
    span : float, default 0.75
        The share of the rows behind each line, above 0 and at most 1.

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


def _details(event: Event) -> Mapping[str, Any]:
    facts = {"smoother": "loess by lines", "span": SPAN}
    return facts if event.cells.table is event.table else {**facts, "fitted_cells": len(event.cells)}


def _interval(inference: Inference) -> Interval:
    value, rejected = inference.event.value(ICI), inference.rejects(ICI)
    ends = interval(inference.design, value, inference.level, rejected=rejected)
    return Interval(*ends, "Gaussian thinning, for this smoother")


def _gaps(replicates: Replicates) -> Quantiles:
    return absolute_gaps(replicates.inference.cells, replicates.gap_sums)


def _replicate(replicates: Replicates) -> Float64s:
    cells = replicates.inference.cells
    return np.asarray(replicates.of(_gaps).values @ cells.counts / cells.total)


ICI = Measure(
    name="ici",
    label="ICI",
    meaning="Integrated calibration index: the mean absolute difference between the predictions and a loess curve of "
    "the outcomes.",
    misleads="The ICI is positive by chance. The ICI depends on the smoother and its span, so report both.",
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
        null=Null(replicate=lambda replicates: replicates.of(_gaps).at(share)),
        over_classes=_NO_MEAN,
    )


E50 = _quantile_measure(
    "e50",
    "E50",
    0.5,
    "The median absolute difference between the predictions and a loess curve of the outcomes.",
    "The median depends on the smoother, like the ICI. It ignores the half of the rows with the larger differences.",
)
E90 = _quantile_measure(
    "e90",
    "E90",
    0.9,
    "The 90th percentile of the absolute difference between the predictions and a loess curve of the outcomes.",
    "The percentile depends on the smoother, like the ICI. With few rows, the ends of the curve determine it.",
)
