"""For scikit-learn: a display of the reliability diagram with its uncertainty, and scorers for model selection."""

from typing import TYPE_CHECKING

from calibrant.lazy import names_of

if TYPE_CHECKING:
    from calibrant.sklearn.display import ReliabilityDisplay
    from calibrant.sklearn.scorer import Scorer, make_scorer

__all__ = ["ReliabilityDisplay", "Scorer", "make_scorer"]

__getattr__, __dir__ = names_of(
    __name__,
    {
        "calibrant.sklearn.display": ("ReliabilityDisplay",),
        "calibrant.sklearn.scorer": (
            "Scorer",
            "make_scorer",
        ),
    },
)
