"""The thresholded adaptive calibration error (TACE)."""

from __future__ import annotations

from typing import Any

from calibrant.inputs.predictions import Notion
from calibrant.measures.binned.binned import Norm
from calibrant.measures.binned.classwise import classwise_calibration_error


def thresholded_adaptive_calibration_error(
    probs: Any,
    targets: Any = None,
    n_bins: int = 15,
    *,
    threshold: float = 0.01,
    norm: Norm = "l1",
    notion: Notion | None = None,
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    """Return the thresholded adaptive calibration error (TACE): class by class, over equal-mass bins of larger scores.

    Of each class only the scores p >= threshold count. They are put into bins of equal mass, and the errors of the
    classes are combined. It equals ``classwise_calibration_error(..., threshold=threshold, binning="quantile")``, with
    the same parameters, errors, range and cost. With threshold 0 it is the classwise ACE. A sketch does not do, unless
    the threshold is 0.

    It misleads between thresholds: the rows below are dropped, so a model that claims less than the threshold for
    classes which happen is not seen, and values of different thresholds, or of models that put different shares of
    their scores below one, do not compare. `classwise_calibration` has the share of scores that was kept.

    References
    ----------
    Nixon et al. (2019), arXiv 1904.01685.

    Examples
    --------
    >>> import calibrant
    >>> probs = [[0.995, 0.005], [0.9, 0.1], [0.3, 0.7], [0.6, 0.4]]
    >>> round(calibrant.thresholded_adaptive_calibration_error(probs, [0, 0, 1, 1], n_bins=1), 6)
    0.232708
    """
    return classwise_calibration_error(
        probs,
        targets,
        n_bins,
        threshold=threshold,
        binning="quantile",
        norm=norm,
        notion=notion,
        weights=weights,
        ignore_index=ignore_index,
        logits=logits,
    )
