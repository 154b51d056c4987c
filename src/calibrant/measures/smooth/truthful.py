"""The truthful calibration error: averaged two-bin error."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.inputs.predictions import Notion
from calibrant.measures.arguments import event_table
from calibrant.sketch import Arguments
from calibrant.table import ReliabilityTable


def truthful_calibration_error(
    probs: Any,
    targets: Any = None,
    *,
    notion: Notion | None = None,
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the truthful calibration error: the averaged two-bin calibration error (ATB).

    .. math:: \mathrm{ATB} = \frac1{N^2} \int_0^1 \Bigl(\sum_{p_i < q} r_i\Bigr)^2 +
              \Bigl(\sum_{p_i \ge q} r_i\Bigr)^2 \, dq
              = \frac1{N^2} \sum_{i, j} r_i r_j\, (1 - |p_i - p_j|), \qquad r_i = y_i - p_i

    The scores are cut into two bins at q, and the squared l2 error of the two is averaged over all q. Its expectation
    is least for a forecaster who gives the true probabilities, whatever these are: an error over fixed bins can be
    made smaller by false ones. It is in [0, 1], in units of a squared probability; lower is better.

    It misleads as a measure of size: under calibration its mean is not 0, but the sum of p (1 - p) over all rows,
    divided by N^2. Errors that change sign within a short range of scores are hardly seen, as by Kuiper's error.

    Parameters
    ----------
    probs, targets, notion, weights, ignore_index, logits
        As in `expected_calibration_error`, for one evaluated event; ``probs`` may be a `ReliabilityTable` or a
        `CalibrationSketch`.

    Returns
    -------
    float
        No bins have to be chosen. Ties are one step, so the order of the rows plays no part; a row of weight 2 is
        two rows. Scores of 0 and 1 are scores like all others. A sketch counts the rows of a cell at their mean score.

    Raises
    ------
    calibrant.errors.InputError
        As `expected_calibration_error`; also for a classwise or multilabel notion.

    Notes
    -----
    Cost: one read and one sort of N integers, then O(N).

    References
    ----------
    Hartline, Hu, Wu (2026), COLT, PMLR 336, 3185-3223, arXiv 2508.13100.

    Examples
    --------
    >>> import calibrant
    >>> calibrant.truthful_calibration_error([0.5, 0.5, 0.5], [1, 1, 1])
    0.25
    """
    arguments = Arguments(probs, targets, notion, weights, ignore_index, logits)
    return truthful_square(event_table(arguments, "the truthful calibration error"))


def truthful_square(table: ReliabilityTable) -> float:
    """Return the integral over q of (sum of r below q)^2 + (sum of r from q)^2, over N^2, with r = outcome - score."""
    scores, residuals = table.scores.astype(np.float64), table.residuals
    below = np.concatenate([[0.0], np.cumsum(residuals)])
    squares = below**2 + (below[-1] - below) ** 2
    return float(np.diff(scores, prepend=0.0, append=1.0) @ squares) / table.total**2
