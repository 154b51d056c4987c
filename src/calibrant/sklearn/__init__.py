"""For scikit-learn: a display of the reliability diagram with its uncertainty, and scorers for model selection."""

from calibrant.sklearn.display import ReliabilityDisplay
from calibrant.sklearn.scorer import Scorer, make_scorer

__all__ = ["ReliabilityDisplay", "Scorer", "make_scorer"]
