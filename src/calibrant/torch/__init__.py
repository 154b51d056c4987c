"""The measures as torchmetrics metrics: drop-ins for those of TorchUncertainty and torchmetrics."""

from typing import TYPE_CHECKING

from calibrant.errors import MissingDependencyError, is_missing
from calibrant.runtime.cached import names_of

try:
    import torch  # noqa: F401 - both, before a module needs them
    import torchmetrics  # noqa: F401
except ModuleNotFoundError as error:
    if not (is_missing(error, "torch") or is_missing(error, "torchmetrics")):
        raise
    raise MissingDependencyError(error.name or "torch", "for calibrant.torch", "torch") from error

if TYPE_CHECKING:
    from calibrant.torch.binned_errors import (
        AdaptiveCalibrationError,
        BinaryAdaptiveCalibrationError,
        BinaryCalibrationError,
        CalibrationError,
        ClasswiseCalibrationError,
        MulticlassAdaptiveCalibrationError,
        MulticlassCalibrationError,
    )
    from calibrant.torch.functions import (
        AUROC,
        CalibrationIntercept,
        CalibrationSlope,
        IntegratedCalibrationIndex,
        KuiperCalibrationError,
        LipschitzCalibrationError,
        LogLossSkill,
        ObservedExpectedRatio,
        SmoothCalibrationError,
        TruthfulCalibrationError,
    )
    from calibrant.torch.layer import RecalibrationLayer
    from calibrant.torch.proper import BrierScore, CategoricalNLL, NegativeLogLikelihood
    from calibrant.torch.report import CalibrationReport
    from calibrant.torch.risk_coverage import AUGRC, AURC, CovAt5Risk, CovAtxRisk, RiskAt80Cov, RiskAtxCov

__all__ = [
    "AUGRC",
    "AURC",
    "AUROC",
    "AdaptiveCalibrationError",
    "BinaryAdaptiveCalibrationError",
    "BinaryCalibrationError",
    "BrierScore",
    "CalibrationError",
    "CalibrationIntercept",
    "CalibrationReport",
    "CalibrationSlope",
    "CategoricalNLL",
    "ClasswiseCalibrationError",
    "CovAt5Risk",
    "CovAtxRisk",
    "IntegratedCalibrationIndex",
    "KuiperCalibrationError",
    "LipschitzCalibrationError",
    "LogLossSkill",
    "MulticlassAdaptiveCalibrationError",
    "MulticlassCalibrationError",
    "NegativeLogLikelihood",
    "ObservedExpectedRatio",
    "RecalibrationLayer",
    "RiskAt80Cov",
    "RiskAtxCov",
    "SmoothCalibrationError",
    "TruthfulCalibrationError",
]

__getattr__, __dir__ = names_of(
    __name__,
    {
        "calibrant.torch.binned_errors": (
            "AdaptiveCalibrationError",
            "BinaryAdaptiveCalibrationError",
            "BinaryCalibrationError",
            "CalibrationError",
            "ClasswiseCalibrationError",
            "MulticlassAdaptiveCalibrationError",
            "MulticlassCalibrationError",
        ),
        "calibrant.torch.functions": (
            "AUROC",
            "CalibrationIntercept",
            "CalibrationSlope",
            "IntegratedCalibrationIndex",
            "KuiperCalibrationError",
            "LipschitzCalibrationError",
            "ObservedExpectedRatio",
            "SmoothCalibrationError",
            "TruthfulCalibrationError",
            "LogLossSkill",
        ),
        "calibrant.torch.proper": ("BrierScore", "CategoricalNLL", "NegativeLogLikelihood"),
        "calibrant.torch.layer": ("RecalibrationLayer",),
        "calibrant.torch.report": ("CalibrationReport",),
        "calibrant.torch.risk_coverage": (
            "AUGRC",
            "AURC",
            "CovAt5Risk",
            "CovAtxRisk",
            "RiskAt80Cov",
            "RiskAtxCov",
        ),
    },
)
