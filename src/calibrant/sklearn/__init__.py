"""For scikit-learn: a reliability diagram with its uncertainty as a display, and scorers for model selection."""

from calibrant.sklearn.display import ReliabilityDisplay
from calibrant.sklearn.scorer import Scorer, make_scorer

__all__ = ["ReliabilityDisplay", "Scorer", "make_scorer"]
