"""The measures as functions of arrays: ``f(probs, targets, ...)`` gives a float, or a value where a float will not do.

Every function takes arrays of any library (NumPy, PyTorch, JAX, CuPy, pandas, Polars, PyArrow, lists) and shares these
parameters, documented in full on `expected_calibration_error`: ``notion``, ``weights``, ``ignore_index``, ``logits``.
"""

from calibrant.metrics.binned import (
    adaptive_calibration_error,
    expected_calibration_error,
    maximum_calibration_error,
    reliability_diagram,
    root_mean_square_calibration_error,
)
from calibrant.metrics.classwise import classwise_calibration, classwise_calibration_error, classwise_calibration_errors
from calibrant.metrics.proper import (
    accuracy,
    brier_score,
    negative_log_likelihood,
    score_decomposition,
    top_label_brier_score,
)
from calibrant.metrics.smooth import smooth_calibration_error

__all__ = [
    "accuracy",
    "adaptive_calibration_error",
    "brier_score",
    "classwise_calibration",
    "classwise_calibration_error",
    "classwise_calibration_errors",
    "expected_calibration_error",
    "maximum_calibration_error",
    "negative_log_likelihood",
    "reliability_diagram",
    "root_mean_square_calibration_error",
    "score_decomposition",
    "smooth_calibration_error",
    "top_label_brier_score",
]
