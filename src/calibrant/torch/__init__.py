"""The measures as torchmetrics metrics: drop-ins for those of TorchUncertainty and torchmetrics."""

from calibrant.torch import tracing  # noqa: F401 - first: its error says what to install if torch is missing
from calibrant.torch.binned import (
    AdaptiveCalibrationError,
    BinaryAdaptiveCalibrationError,
    BinaryCalibrationError,
    CalibrationError,
    MulticlassAdaptiveCalibrationError,
    MulticlassCalibrationError,
)
from calibrant.torch.classwise import ClasswiseCalibrationError
from calibrant.torch.functions import (
    AUROC,
    CalibrationIntercept,
    CalibrationSlope,
    IntegratedCalibrationIndex,
    KuiperCalibrationError,
    LipschitzCalibrationError,
    ObservedExpectedRatio,
    TruthfulCalibrationError,
)
from calibrant.torch.proper import BrierScore, NegativeLogLikelihood
from calibrant.torch.report import CalibrationReport
from calibrant.torch.smooth import SmoothCalibrationError

__all__ = [
    "AUROC",
    "AdaptiveCalibrationError",
    "BinaryAdaptiveCalibrationError",
    "BinaryCalibrationError",
    "BrierScore",
    "CalibrationError",
    "CalibrationIntercept",
    "CalibrationReport",
    "CalibrationSlope",
    "ClasswiseCalibrationError",
    "IntegratedCalibrationIndex",
    "KuiperCalibrationError",
    "LipschitzCalibrationError",
    "MulticlassAdaptiveCalibrationError",
    "MulticlassCalibrationError",
    "NegativeLogLikelihood",
    "ObservedExpectedRatio",
    "SmoothCalibrationError",
    "TruthfulCalibrationError",
]
