"""The measures: what each one is, how it is computed and inferred, and its function ``f(probs, targets, ...)``.

Every function takes arrays of any library (NumPy, PyTorch, JAX, CuPy, pandas, Polars, PyArrow, lists) and shares these
parameters, documented in full on `expected_calibration_error`: ``weights``, ``ignore_index``, ``logits``.
"""

from typing import TYPE_CHECKING

from calibrant.runtime.cached import names_of

if TYPE_CHECKING:
    from calibrant.measures.binned.classwise import (
        classwise_calibration,
        classwise_calibration_error,
        classwise_calibration_errors,
        thresholded_adaptive_calibration_error,
    )
    from calibrant.measures.binned.diagram import reliability_diagram
    from calibrant.measures.binned.ece import (
        adaptive_calibration_error,
        expected_calibration_error,
        gaussian_debiased_calibration_error,
    )
    from calibrant.measures.binned.mce import maximum_calibration_error
    from calibrant.measures.binned.rmsce import root_mean_square_calibration_error
    from calibrant.measures.binned.sweep import monotone_sweep_calibration_error
    from calibrant.measures.binned.top_k import top_k_calibration_error, top_r_calibration_error
    from calibrant.measures.context import Inference, Replicates
    from calibrant.measures.cumulative.cumulative import cutoff_calibration_error, kuiper_calibration_error
    from calibrant.measures.decisions.decision_curve import murphy_curve, net_benefit
    from calibrant.measures.event import Event
    from calibrant.measures.isotonic.corp import score_decomposition
    from calibrant.measures.isotonic.variational import VariationalError, variational_calibration_error
    from calibrant.measures.line.line import calibration_intercept, calibration_slope
    from calibrant.measures.listed import MEASURES
    from calibrant.measures.loess.loess import integrated_calibration_index
    from calibrant.measures.means.in_the_large import observed_expected_ratio
    from calibrant.measures.means.mean_scores import (
        accuracy,
        brier_score,
        negative_log_likelihood,
        ranked_probability_score,
        spherical_score,
        top_label_brier_score,
    )
    from calibrant.measures.means.skill import brier_skill_score, log_loss_skill_score
    from calibrant.measures.measure import Difference, Measure, Null, OverClasses, OwnLaw, Unavailable
    from calibrant.measures.ranking.auroc import auroc
    from calibrant.measures.smooth.smece import smooth_calibration_error
    from calibrant.measures.smooth.without_bins import (
        SquaredKernelError,
        kernel_calibration_error,
        lipschitz_calibration_error,
        squared_kernel_calibration_error,
        truthful_calibration_error,
    )
    from calibrant.results.values import MurphyCurve, NetBenefit
    from calibrant.statistics.null import Interval, Law

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
    "log_loss_skill_score",
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
        "calibrant.measures.binned.classwise": (
            "classwise_calibration",
            "classwise_calibration_error",
            "classwise_calibration_errors",
            "thresholded_adaptive_calibration_error",
        ),
        "calibrant.measures.binned.diagram": ("reliability_diagram",),
        "calibrant.measures.binned.ece": (
            "adaptive_calibration_error",
            "expected_calibration_error",
            "gaussian_debiased_calibration_error",
        ),
        "calibrant.measures.binned.mce": ("maximum_calibration_error",),
        "calibrant.measures.binned.rmsce": ("root_mean_square_calibration_error",),
        "calibrant.measures.binned.sweep": ("monotone_sweep_calibration_error",),
        "calibrant.measures.binned.top_k": ("top_k_calibration_error", "top_r_calibration_error"),
        "calibrant.measures.context": ("Inference", "Replicates"),
        "calibrant.measures.cumulative.cumulative": ("cutoff_calibration_error", "kuiper_calibration_error"),
        "calibrant.measures.decisions.decision_curve": ("murphy_curve", "net_benefit"),
        "calibrant.measures.event": ("Event",),
        "calibrant.measures.isotonic.corp": ("score_decomposition",),
        "calibrant.measures.isotonic.variational": ("VariationalError", "variational_calibration_error"),
        "calibrant.measures.line.line": ("calibration_intercept", "calibration_slope"),
        "calibrant.measures.listed": ("MEASURES",),
        "calibrant.measures.loess.loess": ("integrated_calibration_index",),
        "calibrant.measures.means.in_the_large": ("observed_expected_ratio",),
        "calibrant.measures.means.mean_scores": (
            "accuracy",
            "brier_score",
            "negative_log_likelihood",
            "ranked_probability_score",
            "spherical_score",
            "top_label_brier_score",
        ),
        "calibrant.measures.means.skill": ("brier_skill_score", "log_loss_skill_score"),
        "calibrant.measures.measure": ("Difference", "Measure", "Null", "OverClasses", "OwnLaw", "Unavailable"),
        "calibrant.measures.ranking.auroc": ("auroc",),
        "calibrant.measures.smooth.smece": ("smooth_calibration_error",),
        "calibrant.measures.smooth.without_bins": (
            "SquaredKernelError",
            "kernel_calibration_error",
            "lipschitz_calibration_error",
            "squared_kernel_calibration_error",
            "truthful_calibration_error",
        ),
        "calibrant.results.values": ("MurphyCurve", "NetBenefit"),
        "calibrant.statistics.null": ("Interval", "Law"),
    },
)
