"""The measures: what each one is, how it is computed and inferred, and its function ``f(probs, targets, ...)``.

Every function takes arrays of any library (NumPy, PyTorch, JAX, CuPy, pandas, Polars, PyArrow, lists) and shares these
parameters, documented in full on `expected_calibration_error`: ``notion``, ``weights``, ``ignore_index``, ``logits``.
"""

from typing import TYPE_CHECKING

from calibrant.lazy import names_of

if TYPE_CHECKING:
    from calibrant.measures.accuracy_of_labels import accuracy
    from calibrant.measures.ace import adaptive_calibration_error
    from calibrant.measures.brier import brier_score, top_label_brier_score
    from calibrant.measures.class_scores import ranked_probability_score, spherical_score
    from calibrant.measures.classwise import (
        classwise_calibration,
        classwise_calibration_error,
        classwise_calibration_errors,
    )
    from calibrant.measures.context import Inference, Null, OwnLaw, Replicates
    from calibrant.measures.corp import score_decomposition
    from calibrant.measures.cox import calibration_intercept, calibration_slope
    from calibrant.measures.decision_curve import murphy_curve, net_benefit
    from calibrant.measures.diagram import reliability_diagram
    from calibrant.measures.ece import expected_calibration_error
    from calibrant.measures.event import Event, Unavailable
    from calibrant.measures.gaussian_debiased import gaussian_debiased_calibration_error
    from calibrant.measures.ici import integrated_calibration_index
    from calibrant.measures.kernel import kernel_calibration_error
    from calibrant.measures.kuiper import cutoff_calibration_error, kuiper_calibration_error
    from calibrant.measures.lipschitz import lipschitz_calibration_error
    from calibrant.measures.listed import MEASURES
    from calibrant.measures.log_loss import negative_log_likelihood
    from calibrant.measures.mce import maximum_calibration_error
    from calibrant.measures.measure import Difference, Measure, OverClasses
    from calibrant.measures.oe_ratio import observed_expected_ratio
    from calibrant.measures.rmsce import root_mean_square_calibration_error
    from calibrant.measures.roc import auroc
    from calibrant.measures.skce import SquaredKernelError, squared_kernel_calibration_error
    from calibrant.measures.skill import brier_skill_score
    from calibrant.measures.smece import smooth_calibration_error
    from calibrant.measures.sweep import monotone_sweep_calibration_error
    from calibrant.measures.thresholded import thresholded_adaptive_calibration_error
    from calibrant.measures.top_k import top_k_calibration_error, top_r_calibration_error
    from calibrant.measures.truthful import truthful_calibration_error
    from calibrant.measures.variational import VariationalError, variational_calibration_error
    from calibrant.panels import MurphyCurve, NetBenefit
    from calibrant.sampling.null import Interval, Law

__all__ = [
    "MEASURES",
    "Difference",
    "Event",
    "Inference",
    "Interval",
    "Law",
    "Measure",
    "MurphyCurve",
    "NetBenefit",
    "Null",
    "OverClasses",
    "OwnLaw",
    "Replicates",
    "SquaredKernelError",
    "Unavailable",
    "VariationalError",
    "accuracy",
    "adaptive_calibration_error",
    "auroc",
    "brier_score",
    "brier_skill_score",
    "calibration_intercept",
    "calibration_slope",
    "classwise_calibration",
    "classwise_calibration_error",
    "classwise_calibration_errors",
    "cutoff_calibration_error",
    "expected_calibration_error",
    "gaussian_debiased_calibration_error",
    "integrated_calibration_index",
    "kernel_calibration_error",
    "kuiper_calibration_error",
    "lipschitz_calibration_error",
    "maximum_calibration_error",
    "monotone_sweep_calibration_error",
    "murphy_curve",
    "negative_log_likelihood",
    "net_benefit",
    "observed_expected_ratio",
    "ranked_probability_score",
    "reliability_diagram",
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

__getattr__, __dir__ = names_of(
    __name__,
    {
        "calibrant.measures.accuracy_of_labels": ("accuracy",),
        "calibrant.measures.ace": ("adaptive_calibration_error",),
        "calibrant.measures.brier": (
            "brier_score",
            "top_label_brier_score",
        ),
        "calibrant.measures.class_scores": (
            "ranked_probability_score",
            "spherical_score",
        ),
        "calibrant.measures.classwise": (
            "classwise_calibration",
            "classwise_calibration_error",
            "classwise_calibration_errors",
        ),
        "calibrant.measures.context": (
            "Inference",
            "Null",
            "OwnLaw",
            "Replicates",
        ),
        "calibrant.measures.corp": ("score_decomposition",),
        "calibrant.measures.cox": (
            "calibration_intercept",
            "calibration_slope",
        ),
        "calibrant.measures.decision_curve": (
            "murphy_curve",
            "net_benefit",
        ),
        "calibrant.measures.diagram": ("reliability_diagram",),
        "calibrant.measures.ece": ("expected_calibration_error",),
        "calibrant.measures.event": (
            "Event",
            "Unavailable",
        ),
        "calibrant.measures.gaussian_debiased": ("gaussian_debiased_calibration_error",),
        "calibrant.measures.ici": ("integrated_calibration_index",),
        "calibrant.measures.kernel": ("kernel_calibration_error",),
        "calibrant.measures.kuiper": (
            "cutoff_calibration_error",
            "kuiper_calibration_error",
        ),
        "calibrant.measures.lipschitz": ("lipschitz_calibration_error",),
        "calibrant.measures.listed": ("MEASURES",),
        "calibrant.measures.log_loss": ("negative_log_likelihood",),
        "calibrant.measures.mce": ("maximum_calibration_error",),
        "calibrant.measures.measure": (
            "Difference",
            "Measure",
            "OverClasses",
        ),
        "calibrant.measures.oe_ratio": ("observed_expected_ratio",),
        "calibrant.measures.rmsce": ("root_mean_square_calibration_error",),
        "calibrant.measures.roc": ("auroc",),
        "calibrant.measures.skce": (
            "SquaredKernelError",
            "squared_kernel_calibration_error",
        ),
        "calibrant.measures.skill": ("brier_skill_score",),
        "calibrant.measures.smece": ("smooth_calibration_error",),
        "calibrant.measures.sweep": ("monotone_sweep_calibration_error",),
        "calibrant.measures.thresholded": ("thresholded_adaptive_calibration_error",),
        "calibrant.measures.top_k": (
            "top_k_calibration_error",
            "top_r_calibration_error",
        ),
        "calibrant.measures.truthful": ("truthful_calibration_error",),
        "calibrant.measures.variational": (
            "VariationalError",
            "variational_calibration_error",
        ),
        "calibrant.panels": (
            "MurphyCurve",
            "NetBenefit",
        ),
        "calibrant.sampling.null": (
            "Interval",
            "Law",
        ),
    },
)
