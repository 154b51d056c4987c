"""Tells how far predicted probabilities can be trusted.

``calibrant.evaluate(probs, targets)`` answers with every measure from one pass over the data; the functions give one
measure each; ``calibrant report FILE`` does the same for a file of predictions.
"""

from calibrant import process  # noqa: F401 - first: in the command it watches for signals during the other imports
from calibrant.comparing import compare
from calibrant.comparison import Comparison
from calibrant.errors import CalibrantError
from calibrant.evaluation import evaluate
from calibrant.measures import (
    accuracy,
    adaptive_calibration_error,
    brier_score,
    classwise_calibration,
    classwise_calibration_error,
    classwise_calibration_errors,
    expected_calibration_error,
    maximum_calibration_error,
    negative_log_likelihood,
    reliability_diagram,
    root_mean_square_calibration_error,
    score_decomposition,
    smooth_calibration_error,
    top_label_brier_score,
)
from calibrant.report import Report
from calibrant.results import ClasswiseCalibration, Estimate, ReliabilityDiagram, ScoreDecomposition
from calibrant.sketch import CalibrationSketch
from calibrant.table import ReliabilityTable

__version__ = "0.1.0"

__all__ = [
    "CalibrantError",
    "CalibrationSketch",
    "ClasswiseCalibration",
    "Comparison",
    "Estimate",
    "ReliabilityDiagram",
    "ReliabilityTable",
    "Report",
    "ScoreDecomposition",
    "accuracy",
    "adaptive_calibration_error",
    "brier_score",
    "classwise_calibration",
    "classwise_calibration_error",
    "classwise_calibration_errors",
    "compare",
    "evaluate",
    "expected_calibration_error",
    "maximum_calibration_error",
    "negative_log_likelihood",
    "reliability_diagram",
    "root_mean_square_calibration_error",
    "score_decomposition",
    "smooth_calibration_error",
    "top_label_brier_score",
]
