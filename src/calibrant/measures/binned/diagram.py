"""The reliability diagram: the bins that several measures are computed over."""

from __future__ import annotations

from typing import Any

from calibrant.inputs.predictions import Notion
from calibrant.measures.arguments import diagram_of
from calibrant.measures.binned.binned import Binning, Closed
from calibrant.results import ReliabilityDiagram
from calibrant.sketch import Arguments


def reliability_diagram(
    probs: Any,
    targets: Any = None,
    n_bins: int = 15,
    *,
    notion: Notion | None = None,
    binning: Binning = "uniform",
    closed: Closed = "right",
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
    level: float | None = None,
) -> ReliabilityDiagram:
    """Return the bins of a reliability diagram: edges, counts, mean scores, outcome rates and shares.

    Parameters, errors and cost are those of `expected_calibration_error`, for one judged event. An empty bin has
    count 0 and NaN for its mean score and outcome rate.

    With a ``level`` from 0.5 to below 1 each bin also has the Clopper-Pearson interval of its outcome rate and the
    consistency band: the binomial range of the rate if the mean score is right. Both hold for independent rows and for
    the edges that the bins have; bins of equal mass take theirs from the scores, not from the outcomes. With weights
    that are not integers, effective sample sizes stand for rows.

    References
    ----------
    Murphy, Winkler (1977), doi 10.2307/2346866. DeGroot, Fienberg (1983), doi 10.2307/2987588. Intervals: Clopper,
    Pearson (1934), doi 10.1093/biomet/26.4.404. Band: Bröcker, Smith (2007), doi 10.1175/WAF993.1.

    Examples
    --------
    >>> import calibrant
    >>> p, y = [0.1, 0.2, 0.3, 0.4, 0.65, 0.7, 0.8, 0.9, 1], [0] * 4 + [1] * 5
    >>> diagram = calibrant.reliability_diagram(p, y, n_bins=3)
    >>> diagram.accuracies, diagram.confidences.round(3), diagram.counts
    (array([0. , 0.5, 1. ]), array([0.2  , 0.525, 0.85 ]), array([3, 2, 4]))
    >>> diagram = calibrant.reliability_diagram(p, y, n_bins=2, binning="quantile", level=0.95)
    >>> diagram.counts, diagram.lows.round(3), diagram.highs.round(3)
    (array([4, 5]), array([0.   , 0.478]), array([0.602, 1.   ]))
    """
    arguments = Arguments(
        probs=probs, targets=targets, notion=notion, weights=weights, ignore_index=ignore_index, logits=logits
    )
    return diagram_of(arguments, n_bins, binning, closed, level)
