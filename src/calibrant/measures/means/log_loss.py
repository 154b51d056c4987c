"""The log loss: negative log likelihood, cross-entropy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from calibrant.errors import InputError
from calibrant.inputs.notions import read
from calibrant.inputs.weights import tidy_weight
from calibrant.measures.differences import pair
from calibrant.measures.event import Event
from calibrant.measures.means.means import score_influence, surprises
from calibrant.measures.measure import PROPER_SCORE, Difference, Measure
from calibrant.sketch import Arguments


def negative_log_likelihood(
    probs: Any,
    targets: Any = None,
    *,
    eps: float = 0.0,
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the negative log likelihood (log loss, cross-entropy): the mean of :math:`-\log p_y`, in nats.

    A proper score, from 0 to infinity; lower is better. It is infinite if an observed outcome had probability 0;
    `evaluate` counts such rows. From logits it is computed by log-sum-exp, which does not overflow. The other
    parameters and errors are those of `expected_calibration_error`.

    Parameters
    ----------
    eps : float, default 0
        The least probability of an observed outcome: smaller ones are raised to it. Use it only if the result must
        be finite, because the score is then no longer proper.

    Raises
    ------
    calibrant.errors.InputError
        Also for eps outside [0, 1).

    Examples
    --------
    >>> import calibrant
    >>> round(calibrant.negative_log_likelihood([0.5, 0.25], [1, 0]), 6)
    0.490415
    >>> calibrant.negative_log_likelihood([1.0], [0])
    inf
    """
    if not (isinstance(eps, (int, float, np.integer, np.floating)) and 0 <= eps < 1):
        raise InputError("eps", "a number in [0, 1)", repr(eps), "leave it out, or pass something like 1e-12")
    arguments = Arguments(probs, targets, None, weights, ignore_index, logits)
    totals = arguments.totals()
    if totals is not None:
        if eps > 0:
            remedy = "leave eps out; infinite_rows in evaluate(sketch)['nll'].details counts the affected rows"
            raise InputError("eps", "0 for a CalibrationSketch", repr(eps), remedy)
        return totals.means.nll
    return read(*arguments.predictions(), eps=float(eps)).means.nll


def _details(event: Event) -> Mapping[str, Any]:
    if math.isfinite(event.predictions.nll):
        return {}
    reason = "infinite: an observed outcome had predicted probability 0"
    return {"infinite_rows": tidy_weight(event.predictions.infinite), "reason": reason}


NLL = Measure(
    name="nll",
    label="log loss",
    meaning="The mean negative logarithm of the probability of the observed outcome. Lower is better.",
    misleads="A single observed outcome with probability 0 makes it infinite.",
    computed="The log loss is the mean negative natural logarithm of the probability of the observed outcome",
    sources=("Good 1952",),
    value=lambda event: event.predictions.nll,
    judges="predictions",
    scale="score",
    range=(0.0, math.inf),
    details=_details,
    bound=lambda event: event.predictions.nll_bound,
    influence=lambda event: score_influence(event.design, "log", event.predictions),
    caution=lambda event: surprises(event.design.cells),
    null=PROPER_SCORE,
    difference=Difference(
        value=lambda model: model.means.nll,
        estimate=pair.loss_difference,
        mean="nll",
    ),
    functions=(negative_log_likelihood,),
)
