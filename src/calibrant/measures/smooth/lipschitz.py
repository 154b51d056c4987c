"""The Lipschitz calibration error (smCE)."""

from __future__ import annotations

from typing import Any, Final

from calibrant.inputs.predictions import Notion
from calibrant.kernels.loading import kernels_for
from calibrant.measures.arguments import event_table
from calibrant.sketch import Arguments
from calibrant.table import ReliabilityTable


def lipschitz_calibration_error(
    probs: Any,
    targets: Any = None,
    *,
    notion: Notion | None = None,
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the Lipschitz calibration error (smCE): the largest bias that a test which changes slowly can see.

    .. math:: \mathrm{smCE} = \max_h \frac1N \sum_i h(p_i)\,(y_i - p_i), \qquad
              |h(p) - h(q)| \le |p - q|,\quad |h| \le 1

    It is in [0, 1], in units of probability; lower is better. It has no bins, changes continuously with the
    predictions, and is within a factor of 2 of the lower distance to calibration, the least mean change of the scores
    that makes them calibrated: half that distance <= smCE <= twice that distance. It is never above the ECE over
    distinct scores. It is not the smooth calibration error smECE of `smooth_calibration_error`, which smooths by a
    kernel instead.

    It misleads as a mean difference: gaps of both signs next to each other cancel, so it is below the ECE, often by
    much.

    Parameters
    ----------
    probs, targets, notion, weights, ignore_index, logits
        As in `expected_calibration_error`, for one evaluated event; ``probs`` may be a `ReliabilityTable` or a
        `CalibrationSketch`.

    Returns
    -------
    float
        The exact maximum. Ties are pooled, so the order of the rows plays no part; a row of weight 2 is two rows.
        Scores of 0 and 1 are scores like all others. A sketch counts the rows of a cell at their mean score.

    Raises
    ------
    calibrant.errors.InputError
        As `expected_calibration_error`; also for a classwise or multilabel notion.

    Notes
    -----
    Cost: one read and one sort of N integers, then one pass of a dynamic programme, with a few steps for each
    distinct score. Weights of very different size can need more.

    References
    ----------
    Błasiok, Gopalan, Hu, Nakkiran (2023), arXiv 2211.16886. Hu, Jambulapati, Tian, Yang (2024), arXiv 2402.13187.

    Examples
    --------
    >>> import calibrant
    >>> probs = [0, 0.05, 0.1, 0.2, 0.2, 0.35, 0.5, 0.75, 0.9, 1]
    >>> round(calibrant.lipschitz_calibration_error(probs, [0, 0, 1, 0, 1, 0, 1, 1, 1, 0]), 12)
    0.14475
    """
    arguments = Arguments(probs, targets, notion, weights, ignore_index, logits)
    return lipschitz_error(event_table(arguments, "the Lipschitz calibration error"))


#: Steps of the loop that a row takes, up to some millions of rows: they decide when compiled code is worth loading.
_STEPS: Final = 64


def lipschitz_error(table: ReliabilityTable) -> float:
    """Return the largest mean of h(p) (y - p) over functions h with slopes and values in [-1, 1]: smCE, exactly."""
    kernels = kernels_for("tables", _STEPS * len(table))
    return float(kernels.lipschitz_sum(table.scores, table.residuals)) / table.total
