"""The values that functions return, and their form in JSON."""

from typing import TYPE_CHECKING

from calibrant.runtime.cached import names_of

if TYPE_CHECKING:
    from calibrant.results.values import (
        BANDS,
        Bands,
        CalibrationCurve,
        Choices,
        ClasswiseCalibration,
        Code,
        CurveKind,
        Decision,
        Description,
        Estimate,
        Finding,
        Floor,
        ReliabilityDiagram,
        RiskCoverageCurve,
        Scale,
        ScoreDecomposition,
        TestResult,
    )

__all__ = [
    "BANDS",
    "Bands",
    "CalibrationCurve",
    "Choices",
    "ClasswiseCalibration",
    "Code",
    "CurveKind",
    "Decision",
    "Description",
    "Estimate",
    "Finding",
    "Floor",
    "ReliabilityDiagram",
    "RiskCoverageCurve",
    "Scale",
    "ScoreDecomposition",
    "TestResult",
]

__getattr__, __dir__ = names_of(__name__, {"calibrant.results.values": __all__})
