"""Tells how far predicted probabilities can be trusted.

``calibrant.evaluate(probs, targets)`` answers with every measure from one pass over the data; the functions give one
measure each; ``calibrant report FILE`` does the same for a file of predictions.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from calibrant.runtime import process  # noqa: F401 - in the command it watches for signals during the other imports

# isort: split
from calibrant.kernels.compiling import LOADING

if TYPE_CHECKING:
    from calibrant.errors import CalibrantError
    from calibrant.files.decisions import read_decisions
    from calibrant.inference.multicalibration import MulticalibrationError, multicalibration_error
    from calibrant.inputs.censoring import censoring_weights
    from calibrant.inputs.decision_log import DecisionLog, Question
    from calibrant.measures import (
        MurphyCurve,
        NetBenefit,
        SquaredKernelError,
        VariationalError,
        accuracy,
        adaptive_calibration_error,
        auroc,
        brier_score,
        brier_skill_score,
        calibration_intercept,
        calibration_slope,
        classwise_calibration,
        classwise_calibration_error,
        classwise_calibration_errors,
        cutoff_calibration_error,
        expected_calibration_error,
        gaussian_debiased_calibration_error,
        integrated_calibration_index,
        kernel_calibration_error,
        kuiper_calibration_error,
        lipschitz_calibration_error,
        log_loss_skill_score,
        maximum_calibration_error,
        monotone_sweep_calibration_error,
        murphy_curve,
        negative_log_likelihood,
        net_benefit,
        observed_expected_ratio,
        ranked_probability_score,
        reliability_diagram,
        root_mean_square_calibration_error,
        score_decomposition,
        smooth_calibration_error,
        spherical_score,
        squared_kernel_calibration_error,
        thresholded_adaptive_calibration_error,
        top_k_calibration_error,
        top_label_brier_score,
        top_r_calibration_error,
        truthful_calibration_error,
        variational_calibration_error,
    )
    from calibrant.monitoring import Drift, Monitor
    from calibrant.recalibration import CalibrationMap, Recalibration, prior_shift, read_maps, recalibrate
    from calibrant.report import Comparison, Report, ResultComparison, compare, compare_results, evaluate
    from calibrant.results import (
        ClasswiseCalibration,
        Estimate,
        ReliabilityDiagram,
        RiskCoverageCurve,
        ScoreDecomposition,
    )
    from calibrant.sketch import CalibrationSketch
    from calibrant.table import ReliabilityTable
    from calibrant.thresholds import (
        Threshold,
        TwoSidedThreshold,
        area_under_risk_coverage,
        certify_questions,
        certify_threshold,
        certify_two_sided,
        risk_coverage_curve,
    )

__version__ = "0.1.0"

__all__ = [
    "CalibrantError",
    "CalibrationMap",
    "CalibrationSketch",
    "ClasswiseCalibration",
    "Comparison",
    "DecisionLog",
    "Drift",
    "Estimate",
    "Monitor",
    "MulticalibrationError",
    "MurphyCurve",
    "NetBenefit",
    "Question",
    "Recalibration",
    "ReliabilityDiagram",
    "ReliabilityTable",
    "Report",
    "ResultComparison",
    "RiskCoverageCurve",
    "ScoreDecomposition",
    "SquaredKernelError",
    "Threshold",
    "TwoSidedThreshold",
    "VariationalError",
    "accuracy",
    "adaptive_calibration_error",
    "area_under_risk_coverage",
    "auroc",
    "brier_score",
    "brier_skill_score",
    "calibration_intercept",
    "calibration_slope",
    "censoring_weights",
    "certify_questions",
    "certify_threshold",
    "certify_two_sided",
    "classwise_calibration",
    "classwise_calibration_error",
    "classwise_calibration_errors",
    "compare",
    "compare_results",
    "cutoff_calibration_error",
    "evaluate",
    "expected_calibration_error",
    "gaussian_debiased_calibration_error",
    "integrated_calibration_index",
    "kernel_calibration_error",
    "kuiper_calibration_error",
    "lipschitz_calibration_error",
    "log_loss_skill_score",
    "maximum_calibration_error",
    "monotone_sweep_calibration_error",
    "multicalibration_error",
    "murphy_curve",
    "negative_log_likelihood",
    "net_benefit",
    "observed_expected_ratio",
    "prior_shift",
    "ranked_probability_score",
    "read_decisions",
    "read_maps",
    "recalibrate",
    "reliability_diagram",
    "risk_coverage_curve",
    "root_mean_square_calibration_error",
    "score_decomposition",
    "smooth_calibration_error",
    "spherical_score",
    "squared_kernel_calibration_error",
    "thresholded_adaptive_calibration_error",
    "top_k_calibration_error",
    "top_label_brier_score",
    "top_r_calibration_error",
    "truthful_calibration_error",
    "variational_calibration_error",
]

#: The packages of the public names, which are imported at the first use of a name.
_HOMES: Final = dict.fromkeys(__all__, "measures") | {
    "CalibrantError": "errors",
    "CalibrationMap": "recalibration",
    "CalibrationSketch": "sketch",
    "ClasswiseCalibration": "results",
    "Comparison": "report",
    "DecisionLog": "inputs.decision_log",
    "Drift": "monitoring",
    "Estimate": "results",
    "Monitor": "monitoring",
    "MulticalibrationError": "inference.multicalibration",
    "Question": "inputs.decision_log",
    "Recalibration": "recalibration",
    "ReliabilityDiagram": "results",
    "ReliabilityTable": "table",
    "Report": "report",
    "ResultComparison": "report",
    "RiskCoverageCurve": "results",
    "ScoreDecomposition": "results",
    "Threshold": "thresholds",
    "TwoSidedThreshold": "thresholds",
    "area_under_risk_coverage": "thresholds",
    "censoring_weights": "inputs.censoring",
    "certify_threshold": "thresholds",
    "certify_questions": "thresholds",
    "certify_two_sided": "thresholds",
    "compare": "report",
    "compare_results": "report",
    "evaluate": "report",
    "multicalibration_error": "inference.multicalibration",
    "prior_shift": "recalibration",
    "read_decisions": "files.decisions",
    "read_maps": "recalibration",
    "recalibrate": "recalibration",
    "risk_coverage_curve": "thresholds",
}

#: Packages that are imported at their first use as an attribute, as in ``calibrant.inference.ks_test``.
_PACKAGES: Final = ("compat", "frames", "inference", "monitoring", "recalibration", "sklearn", "thresholds", "torch")


def __getattr__(name: str) -> Any:
    if name not in _HOMES and name not in _PACKAGES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    with LOADING:  # so that no fork comes in between
        module = import_module(f"{__name__}.{_HOMES.get(name, name)}")
        return globals().setdefault(name, getattr(module, name) if name in _HOMES else module)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
