"""The measures as torchmetrics metrics: drop-ins for TorchUncertainty's and torchmetrics' own."""

from calibrant.torch import base  # noqa: F401 - first, since it says what to do where torch is missing
from calibrant.torch.binned import AdaptiveCalibrationError, CalibrationError, ClasswiseCalibrationError
from calibrant.torch.proper import BrierScore, NegativeLogLikelihood
from calibrant.torch.report import CalibrationReport
from calibrant.torch.smooth import SmoothCalibrationError

__all__ = [
    "AdaptiveCalibrationError",
    "BrierScore",
    "CalibrationError",
    "CalibrationReport",
    "ClasswiseCalibrationError",
    "NegativeLogLikelihood",
    "SmoothCalibrationError",
]
