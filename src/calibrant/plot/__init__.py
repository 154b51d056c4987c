"""Figures of results, drawn with matplotlib.

``import calibrant.plot as cp``, then ``cp.reliability_diagram(report)``. Each function takes a result, draws it, and
returns the Axes. It estimates nothing, changes no settings, and takes ``ax`` to draw on. The first call imports
matplotlib.
"""

from typing import TYPE_CHECKING

from calibrant.runtime.cached import names_of

if TYPE_CHECKING:
    from calibrant.plot.curves import (
        calibration_curve,
        decision_curve,
        evidence,
        murphy_curve,
        risk_coverage,
        roc_curve,
    )
    from calibrant.plot.diagrams import classwise, compare, reliability_diagram, score_histogram
    from calibrant.plot.forest import differences, groups, leaderboard

__all__ = [
    "calibration_curve",
    "classwise",
    "compare",
    "decision_curve",
    "differences",
    "evidence",
    "groups",
    "leaderboard",
    "murphy_curve",
    "reliability_diagram",
    "risk_coverage",
    "roc_curve",
    "score_histogram",
]

__getattr__, __dir__ = names_of(
    __name__,
    {
        "calibrant.plot.curves": (
            "calibration_curve",
            "decision_curve",
            "evidence",
            "murphy_curve",
            "risk_coverage",
            "roc_curve",
        ),
        "calibrant.plot.diagrams": ("classwise", "compare", "reliability_diagram", "score_histogram"),
        "calibrant.plot.forest": ("differences", "groups", "leaderboard"),
    },
)
