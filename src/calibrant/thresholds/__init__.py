"""The score above which decisions can be automated: certified thresholds and risk-coverage curves."""

from typing import TYPE_CHECKING

from calibrant.runtime.cached import names_of

if TYPE_CHECKING:
    from calibrant.thresholds.areas import area_under_risk_coverage, risk_coverage_curve
    from calibrant.thresholds.certify import certify_threshold, certify_two_sided
    from calibrant.thresholds.question_thresholds import Gate, QuestionThresholds, certify_questions
    from calibrant.thresholds.result import Costs, Share, Threshold, TwoSidedThreshold

__all__ = [
    "Costs",
    "Gate",
    "QuestionThresholds",
    "Share",
    "Threshold",
    "TwoSidedThreshold",
    "area_under_risk_coverage",
    "certify_questions",
    "certify_threshold",
    "certify_two_sided",
    "risk_coverage_curve",
]

__getattr__, __dir__ = names_of(
    __name__,
    {
        "calibrant.thresholds.areas": ("area_under_risk_coverage", "risk_coverage_curve"),
        "calibrant.thresholds.certify": ("certify_threshold", "certify_two_sided"),
        "calibrant.thresholds.question_thresholds": ("Gate", "QuestionThresholds", "certify_questions"),
        "calibrant.thresholds.result": ("Costs", "Share", "Threshold", "TwoSidedThreshold"),
    },
)
