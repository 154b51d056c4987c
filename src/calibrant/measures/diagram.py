"""The reliability diagram: the bins that several measures are computed over."""

from __future__ import annotations

from typing import Any

from calibrant.estimators.binned import Binning, Closed
from calibrant.inputs import Notion
from calibrant.measures.arguments import diagram_of
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
) -> ReliabilityDiagram:
    """Return the bins of a reliability diagram: edges, counts, mean scores, outcome rates and shares.

    Parameters, errors and cost are those of `expected_calibration_error`, for one judged event. An empty bin has
    count 0 and NaN for its mean score and outcome rate.

    References
    ----------
    Murphy, Winkler (1977), doi 10.2307/2346866. DeGroot, Fienberg (1983), doi 10.2307/2987588.

    Examples
    --------
    >>> import calibrant
    >>> p, y = [0.1, 0.2, 0.3, 0.4, 0.65, 0.7, 0.8, 0.9, 1], [0] * 4 + [1] * 5
    >>> diagram = calibrant.reliability_diagram(p, y, n_bins=3)
    >>> diagram.accuracies, diagram.confidences.round(3), diagram.counts
    (array([0. , 0.5, 1. ]), array([0.2  , 0.525, 0.85 ]), array([3, 2, 4]))
    """
    arguments = Arguments(
        probs=probs, targets=targets, notion=notion, weights=weights, ignore_index=ignore_index, logits=logits
    )
    return diagram_of(arguments, n_bins, binning, closed)
