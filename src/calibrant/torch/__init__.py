"""The measures as torchmetrics metrics: drop-ins for TorchUncertainty's and torchmetrics' own."""

from calibrant.errors import MissingDependencyError

try:
    import torch as _torch  # noqa: F401
    import torchmetrics as _torchmetrics  # noqa: F401
except ImportError as error:
    raise MissingDependencyError(error.name or "torch", "for calibrant.torch", "torch") from error

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
