"""For scikit-learn: a display of the reliability diagram with its uncertainty, scorers, recalibration, thresholds."""

from typing import TYPE_CHECKING

from calibrant.errors import MissingDependencyError, is_missing
from calibrant.runtime.cached import names_of

try:
    import sklearn  # noqa: F401 - before a module needs it
except ModuleNotFoundError as error:
    if not is_missing(error, "sklearn"):
        raise
    raise MissingDependencyError("scikit-learn", "for calibrant.sklearn", "sklearn") from error

if TYPE_CHECKING:
    from calibrant.sklearn.display import ReliabilityDisplay
    from calibrant.sklearn.mapped import MappedClassifier
    from calibrant.sklearn.recalibration import RecalibratedClassifier, Recalibrator
    from calibrant.sklearn.scorer import Scorer, make_scorer
    from calibrant.sklearn.threshold import ThresholdedClassifier

__all__ = [
    "MappedClassifier",
    "RecalibratedClassifier",
    "Recalibrator",
    "ReliabilityDisplay",
    "Scorer",
    "ThresholdedClassifier",
    "make_scorer",
]

__getattr__, __dir__ = names_of(
    __name__,
    {
        "calibrant.sklearn.display": ("ReliabilityDisplay",),
        "calibrant.sklearn.mapped": ("MappedClassifier",),
        "calibrant.sklearn.recalibration": ("RecalibratedClassifier", "Recalibrator"),
        "calibrant.sklearn.scorer": ("Scorer", "make_scorer"),
        "calibrant.sklearn.threshold": ("ThresholdedClassifier",),
    },
)
