"""Kuiper's calibration error: the largest sum of residuals over an interval of scores, without bins."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from calibrant.inputs.predictions import Notion
from calibrant.measures.arguments import event_table
from calibrant.measures.cumulative.ks import CumulativeStatistic
from calibrant.measures.event import Event, certified
from calibrant.measures.grid_cells import GridCells
from calibrant.measures.measure import Measure, Null, Unavailable
from calibrant.runtime.arrays import Float64s
from calibrant.sketch import Arguments
from calibrant.table import ReliabilityTable


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
    Parameters, errors and cost are those of `expected_calibration_error`, for one evaluated event. Its test is
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
    arguments = Arguments(probs, targets, notion, weights, ignore_index, logits)
    return kuiper_error(event_table(arguments, "Kuiper's error"))


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


def kuiper_error(table: ReliabilityTable) -> float:
    """Return the range of the cumulative residuals, from 0 at the start (Arrieta-Ibarra et al. 2022, ECCE-R)."""
    return float(cumulated_range(np.cumsum(table.residuals) / table.total))


def cumulated_range(cumulated: Float64s) -> Float64s:
    """Return the range of cumulative sums along the last axis, from 0 at the start."""
    return np.asarray(np.maximum(cumulated.max(axis=-1), 0.0) - np.minimum(cumulated.min(axis=-1), 0.0))


def kuiper_bound(cells: GridCells) -> float:
    """Bound by how much the range of C is larger than that of the cells, which it is never below: as `ks_bound`."""
    sums = np.cumsum(cells.table.residuals)
    before = sums - cells.table.residuals
    most = np.where(cells.sums.several, before + cells.sums.n1 - cells.sums.s1, sums)
    least = np.where(cells.sums.several, before - cells.sums.s0, sums)
    widest = max(float(sums.max()), float(most.max()), 0.0) - min(float(sums.min()), float(least.min()), 0.0)
    return max(widest / cells.table.total - kuiper_error(cells.table), 0.0) + cells.rounding


def brownian_range_sf(x: float) -> float:
    """Return P(max W - min W > x) for a Brownian motion W on [0, 1].

    Feller (1951): the density is 8 sum_k (-1)^(k + 1) k^2 phi(k x), so the tail is 8 sum_k (-1)^(k + 1) k Phi(-k x).
    This keeps its digits for large x. For small x, Poisson's summation gives the distribution function:
    8 sum_k (1 / x^2 + 1 / a_k^2) exp(-a_k^2 / (2 x^2)) with a_k = (2 k + 1) pi.
    """
    from scipy.special import ndtr

    if x < 0.1:  # the distribution function is below 1e-200
        return 1.0
    if x > 1.5:
        k = np.arange(1, 20)
        return float(8 * np.sum((-1.0) ** (k + 1) * k * ndtr(-k * x)))
    squares = (math.pi * (2 * np.arange(10) + 1)) ** 2
    return float(1 - 8 * np.sum((1 / x**2 + 1 / squares) * np.exp(-squares / (2 * x**2))))


RANGE: Final = CumulativeStatistic(
    of=cumulated_range, mean=2 * math.sqrt(2 / math.pi), sf=brownian_range_sf, bracket=(0.1, 16.0)
)


def _details(event: Event) -> Mapping[str, Any]:
    """Return the error in standard deviations of the sum of all residuals under calibration."""
    deviation = math.sqrt(float(event.cells.null_variances.sum())) / event.table.total
    return {"standardised": event.value(KUIPER) / deviation} if deviation > 0 else {}


KUIPER = Measure(
    name="kuiper",
    label="Kuiper error",
    meaning="The range of the cumulative sum of prediction minus outcome over rows sorted by score, divided by the "
    "number of rows.",
    misleads="Errors whose signs alternate along the scores cancel.",
    computed="The Kuiper error is the range of the cumulative sum of prediction minus outcome over rows sorted by "
    "score, divided by the number of rows",
    sources=("Arrieta-Ibarra et al. 2022",),
    value=lambda event: kuiper_error(event.table),
    profiles=frozenset({"forecast"}),
    details=_details,
    bound=certified(lambda cells, _: kuiper_bound(cells)),
    interval=Unavailable("no interval: no method is known for the range; the KS error has an interval"),
    null=Null(replicate=RANGE.replicate, closed_form=RANGE.law),
    functions=(kuiper_calibration_error, cutoff_calibration_error),
)
