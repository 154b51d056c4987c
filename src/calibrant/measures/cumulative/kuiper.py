"""Kuiper's calibration error: the largest sum of residuals over an interval of scores."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from calibrant.inputs.predictions import Notion
from calibrant.measures.arguments import event_table
from calibrant.measures.context import Inference, Null, Replicates
from calibrant.measures.cumulative import cumulative
from calibrant.measures.cumulative.intervals import range_law
from calibrant.measures.event import Event, Unavailable, certified
from calibrant.measures.measure import Measure
from calibrant.runtime.arrays import Float64s
from calibrant.sketch import Arguments
from calibrant.statistics.design import Clustered
from calibrant.statistics.null import Law


def kuiper_calibration_error(
    probs: Any,
    targets: Any = None,
    *,
    notion: Notion | None = None,
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return Kuiper's calibration error: the range of the cumulative residuals, without bins.

    .. math:: \max_k C_k - \min_k C_k, \qquad C_k = \frac1N \sum_{p_i \le s_k} (y_i - p_i),\quad C_0 = 0

    It is the largest sum of outcome - score over any interval of scores, as a share of all rows: in [0, 1], lower is
    better, and never below the KS error. Ties are one step, so that the order of the rows plays no part; weights are
    frequencies. Acting on the scores at a threshold t gives away at most this error / (1 - t) of net benefit.
    Parameters, errors and cost are those of `expected_calibration_error`, for one judged event. Its test is
    `calibrant.inference.kuiper_test`.

    References
    ----------
    Arrieta-Ibarra et al. (2022), arXiv 2205.09680 (there ECCE-R).

    Examples
    --------
    >>> import calibrant
    >>> probs, targets = [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9], [0, 1, 0, 1, 1, 1, 1, 1]
    >>> round(calibrant.kuiper_calibration_error(probs, targets), 4)
    0.2625
    """
    arguments = Arguments(
        probs=probs, targets=targets, notion=notion, weights=weights, ignore_index=ignore_index, logits=logits
    )
    return cumulative.kuiper_error(event_table(arguments, "Kuiper's error"))


def cutoff_calibration_error(
    probs: Any,
    targets: Any = None,
    *,
    notion: Notion | None = None,
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the cutoff calibration error, which is Kuiper's calibration error.

    .. math:: \sup_I \Bigl|\frac1N \sum_i (y_i - p_i)\,[p_i \in I]\Bigr| = \max_k C_k - \min_k C_k

    over all intervals I of scores, with the cumulative residuals C of `kuiper_calibration_error`: both are the same
    number. Parameters and errors are those of `kuiper_calibration_error`.

    References
    ----------
    Rossellini, Soloff, Barber, Ren, Willett (2025), arXiv 2502.19851.

    Examples
    --------
    >>> import calibrant
    >>> probs, targets = [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9], [0, 1, 0, 1, 1, 1, 1, 1]
    >>> round(calibrant.cutoff_calibration_error(probs, targets), 4)
    0.2625
    """
    return kuiper_calibration_error(
        probs, targets, notion=notion, weights=weights, ignore_index=ignore_index, logits=logits
    )


def _details(event: Event) -> Mapping[str, Any]:
    """Return the error in standard deviations of the sum of all residuals under calibration."""
    deviation = math.sqrt(float(event.cells.null_variances.sum())) / event.table.total
    return {"standardised": event.value(KUIPER) / deviation} if deviation > 0 else {}


def _replicate(replicates: Replicates) -> Float64s:
    ranges = cumulative.cumulated_range(np.cumsum(replicates.gap_sums, axis=-1))
    return ranges / replicates.inference.cells.total


def _law(inference: Inference) -> Law | None:
    """Return the null distribution without resampling; clusters have none."""
    if isinstance(inference.design, Clustered):
        return None
    cells = inference.cells
    value = float(cumulative.cumulated_range(np.cumsum(cells.gap_sums))) / cells.total
    return range_law(cells, value, inference.level)


KUIPER = Measure(
    name="kuiper",
    label="Kuiper error",
    meaning="The range of the cumulative difference between predicted and observed events along the scores, divided "
    "by the number of rows.",
    misleads="Errors with alternating signs cancel.",
    computed="The Kuiper error is the range of the cumulative sums of predicted minus observed along the scores, "
    "divided by the number of rows",
    sources=("Arrieta-Ibarra et al. 2022",),
    value=lambda event: cumulative.kuiper_error(event.table),
    profiles=frozenset({"forecast"}),
    details=_details,
    bound=certified(lambda cells, _: cumulative.kuiper_bound(cells)),
    interval=Unavailable("no interval: none is known for the range; the KS error has one"),
    null=Null(replicate=_replicate, closed_form=_law),
    functions=(kuiper_calibration_error, cutoff_calibration_error),
)
