"""The monotone sweep calibration error: bins as many as leave the outcome rates increasing."""

from __future__ import annotations

from typing import Any

from calibrant.errors import check_choice
from calibrant.inputs.predictions import Notion
from calibrant.measures.arguments import event_table
from calibrant.measures.binned.binned import NORMS, Norm
from calibrant.measures.binned.sweep_bins import sweep_error
from calibrant.sketch import Arguments


def monotone_sweep_calibration_error(
    probs: Any,
    targets: Any = None,
    *,
    norm: Norm = "l1",
    notion: Notion | None = None,
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the monotone sweep calibration error: that of equal-mass bins whose number the data choose.

    For 2, 3, ... bins of equal mass, the sweep stops at the first number for which a bin has a lower outcome rate than
    the bin before, and uses one bin less. With b bins, a score is in bin :math:`\lfloor b\, i / N \rfloor`, i being the
    mean rank of its rows, from 0. If the rates of all distinct scores increase, each score is a bin of its own. The
    error is that of `expected_calibration_error` over these bins: in [0, 1], in units of probability; lower is better.

    It misleads near calibration: the outcomes choose the number of bins, so its value there is noise.

    Parameters
    ----------
    probs, targets, notion, weights, ignore_index, logits
        As in `expected_calibration_error`, for one judged event; ``probs`` may be a `ReliabilityTable` or a
        `CalibrationSketch`.
    norm : {"l1", "l2", "max"}, default "l1"
        How the bins' gaps are combined. The authors' program takes l2 by default.

    Returns
    -------
    float
        Ties are never split, so the order of the rows plays no part; a row of weight 2 is two rows. Weights that are
        not whole count as many small equal ones, and there are at most as many bins as rows. On a sketch a cell is
        never split: the number of bins may differ from that of the rows.

    Raises
    ------
    calibrant.errors.InputError
        As `expected_calibration_error`; also for a classwise or multilabel notion.

    Notes
    -----
    Cost: one read and one sort of N integers, then at most O(b) for each number of bins b. It takes longest if one
    pair of rows alone is out of order: then nearly every number of bins is tried.

    References
    ----------
    Roelofs, Cain, Shlens, Mozer (2022), arXiv 2012.08668.

    Examples
    --------
    >>> import calibrant
    >>> scores, outcomes = [0.1, 0.2, 0.3, 0.6, 0.7, 0.9], [0, 0, 1, 0, 1, 1]
    >>> round(calibrant.monotone_sweep_calibration_error(scores, outcomes), 12)  # 3 bins; 4 bins have rates 0, 1, 0, 1
    0.133333333333
    """
    check_choice("norm", norm, NORMS)
    arguments = Arguments(
        probs=probs, targets=targets, notion=notion, weights=weights, ignore_index=ignore_index, logits=logits
    )
    return sweep_error(event_table(arguments, "the monotone sweep calibration error"), norm)
