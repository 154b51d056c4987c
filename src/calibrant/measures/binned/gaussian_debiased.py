"""The calibration error less the bias that Gaussian noise of the bins' rates would add."""

from __future__ import annotations

from typing import Any

from calibrant.inputs.predictions import Notion
from calibrant.measures.arguments import bins_with_rows
from calibrant.measures.binned import binned
from calibrant.measures.binned.binned import Binning, Closed
from calibrant.sketch import Arguments


def gaussian_debiased_calibration_error(
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
) -> float:
    r"""Return the ECE less an estimate of its bias, from Gaussian noise of the bins' outcome rates.

    .. math:: \sum_b o_b \bigl(2\,|D_b| - \mathbb E\,|X_b|\bigr), \qquad
              X_b \sim \mathcal N\bigl(D_b,\; Y_b (1 - Y_b) / n_b\bigr),\quad D_b = P_b - Y_b

    with the symbols of `expected_calibration_error`. E abs(X) has a closed form. A bin whose rate is 0 or 1 shows no
    noise and adds abs(D). It is in [-1, 1], in units of probability, and lower is better; it may be below 0, although
    the true error cannot be.

    It misleads near calibration: there most of the bias remains. Compare it with what calibrated scores show
    (`calibrant.inference.noise_floor`), or take ``debiased=True`` of `root_mean_square_calibration_error`, whose square
    is unbiased.

    Parameters
    ----------
    probs, targets, n_bins, notion, binning, closed, weights, ignore_index, logits
        As in `expected_calibration_error`, for one judged event; ``probs`` may be a `ReliabilityTable` or a
        `CalibrationSketch`. The authors' program takes quantile bins.

    Returns
    -------
    float
        Empty bins add nothing. Ties are pooled, so the order of the rows plays no part. With weights that are not
        whole, n is the number of equal rows whose rate would be as uncertain.

    Raises
    ------
    calibrant.errors.InputError
        As `expected_calibration_error`; also for a classwise or multilabel notion.

    Notes
    -----
    Cost: that of `expected_calibration_error`; weights need a sort.

    References
    ----------
    Kumar, Liang, Ma (2019), arXiv 1909.10155.

    Examples
    --------
    >>> import calibrant
    >>> scores, outcomes = [0.25, 0.25, 0.25, 0.25, 0.75, 0.75], [0, 1, 1, 0, 1, 1]
    >>> round(calibrant.gaussian_debiased_calibration_error(scores, outcomes, n_bins=2), 6)
    0.222228
    """
    binned.check_bins(n_bins, binning, closed=closed)
    arguments = Arguments(
        probs=probs, targets=targets, notion=notion, weights=weights, ignore_index=ignore_index, logits=logits
    )
    bins = bins_with_rows(arguments, n_bins, binning, closed, "the debiased error")
    return binned.gaussian_debiased_error(bins)
