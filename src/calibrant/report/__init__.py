"""Reports and comparisons."""

from typing import TYPE_CHECKING

from calibrant.runtime.cached import names_of

if TYPE_CHECKING:
    from calibrant.report.compare_models import compare
    from calibrant.report.comparison import Comparison, GroupComparison, Pair
    from calibrant.report.evaluation import evaluate
    from calibrant.report.leaderboard import Standing
    from calibrant.report.question_comparisons import QuestionComparison, QuestionComparisons
    from calibrant.report.question_reports import QuestionReport, QuestionReports
    from calibrant.report.report import GroupReport, Report
    from calibrant.report.result_comparison import ResultComparison, compare_results

__all__ = [
    "Comparison",
    "GroupComparison",
    "GroupReport",
    "Pair",
    "QuestionComparison",
    "QuestionComparisons",
    "QuestionReport",
    "QuestionReports",
    "Report",
    "ResultComparison",
    "Standing",
    "compare",
    "compare_results",
    "evaluate",
]

__getattr__, __dir__ = names_of(
    __name__,
    {
        "calibrant.report.compare_models": ("compare",),
        "calibrant.report.comparison": (
            "Comparison",
            "GroupComparison",
            "Pair",
        ),
        "calibrant.report.evaluation": ("evaluate",),
        "calibrant.report.leaderboard": ("Standing",),
        "calibrant.report.question_comparisons": ("QuestionComparison", "QuestionComparisons"),
        "calibrant.report.question_reports": ("QuestionReport", "QuestionReports"),
        "calibrant.report.report": (
            "GroupReport",
            "Report",
        ),
        "calibrant.report.result_comparison": ("ResultComparison", "compare_results"),
    },
)
