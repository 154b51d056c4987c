"""What the measures return when a float will not do: frozen values that plots and reports take as they are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Scale: TypeAlias = Literal["probability", "square", "score", "ratio"]


@dataclass(frozen=True, slots=True)
class Floor:
    """The noise floor of a measure: what it would show, at this number of rows, if the scores were calibrated.

    Attributes
    ----------
    mean : float
        Its mean under perfect calibration.
    upper : float
        What it stays below in a share ``level`` of such samples.
    """

    mean: float
    upper: float


@dataclass(frozen=True, slots=True)
class Description:
    """What a report says about a measure itself.

    Attributes
    ----------
    label : str
        The name as people write it.
    meaning : str
        One sentence for those who meet it for the first time.
    scale : {"probability", "square", "score", "ratio"}
        The unit.
    better : {"lower", "higher", "neither"}
        Which direction is better.
    signed : bool
        Whether it is shown with its sign.
    binning : {"uniform", "quantile"} or None
        The bins it is computed over, if any.
    """

    label: str
    meaning: str
    scale: Scale = "probability"
    better: Literal["lower", "higher", "neither"] = "lower"
    signed: bool = False
    binning: Literal["uniform", "quantile"] | None = None


@dataclass(frozen=True, slots=True)
class Estimate:
    """One number of a report, with its interval and its noise floor.

    Attributes
    ----------
    value : float
        The number; NaN where it cannot be had, and then ``method`` says why.
    low, high : float
        The ends of the confidence interval of what the number estimates; NaN where there is none.
    level : float
        The confidence of the interval: in at least this share of samples it holds the true value.
    floor : Floor or None
        What perfect calibration would show at this number of rows; None for measures that are no calibration errors.
    p_value : float
        The probability of a value as large as this one under perfect calibration; NaN where there is no floor.
    method : str
        How the interval was made, or why there is none.
    n : int
        The predictions it was computed from.
    details : mapping
        What belongs to it: the bin of a maximum, the classes left out, flags.
    error_bound : float
        How far the number can be from the same number of the predictions themselves, certified: 0 where it is exact
        but for rounding. Only the smooth error, which is computed to 1e-7, and numbers from a sketch or a table on a
        grid have one above 0; NaN where it is not known.
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    level: float = math.nan
    floor: Floor | None = None
    p_value: float = math.nan
    method: str = ""
    n: int = 0
    details: Mapping[str, Any] = field(default_factory=dict)
    error_bound: float = 0.0

    def __float__(self) -> float:
        return self.value


class Code(StrEnum):
    """What a report can find."""

    MISCALIBRATED = "miscalibrated"
    NO_EVIDENCE = "no-evidence"
    TOO_HIGH = "too-high"
    TOO_LOW = "too-low"
    RIGHT_ON_AVERAGE = "right-on-average"
    OVER_CONFIDENT = "over-confident"
    UNDER_CONFIDENT = "under-confident"
    RIGHTLY_CONFIDENT = "rightly-confident"
    RECALIBRATION_GAIN = "recalibration-gain"
    FALLING_CURVE = "falling-curve"
    RARE_OUTCOME = "rare-outcome"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something a report found, as facts; `Report.verdict` puts it into words.

    Attributes
    ----------
    code : Code
        What was found.
    facts : mapping
        The numbers behind it.
    """

    code: Code
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TestResult:
    """A test of the hypothesis that the scores are calibrated.

    Attributes
    ----------
    statistic : float
        The test statistic.
    p_value : float
        The probability of a statistic at least as extreme under perfect calibration.
    method : str
        The test and the law its p-value was taken from.
    n : int
        The predictions tested.
    details : mapping
        What belongs to it: degrees of freedom, fitted coefficients, the groups.
    """

    __test__: ClassVar[bool] = False  # it is no test of pytest's

    statistic: float
    p_value: float
    method: str
    n: int
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, slots=True)
class ReliabilityDiagram:
    """The bins of a reliability diagram.

    Attributes
    ----------
    edges : (M + 1,) float64
        The ends of the bins. For quantile bins, each bin's largest score: a bin is (edge, next edge].
    counts : (M,) int64, or float64 with weights
        The predictions in each bin.
    confidences : (M,) float64
        The mean score of each bin, NaN where it is empty.
    accuracies : (M,) float64
        The share of outcomes 1 in each bin (of right answers, for the top label), NaN where it is empty.
    proportions : (M,) float64
        The share of all predictions in each bin, 0 where it is empty.
    lows, highs : (M,) float64 or None
        The Clopper-Pearson interval of each bin's share of outcomes 1, NaN where it is empty.
    band_lows, band_highs : (M,) float64 or None
        The consistency band: what that share would be within if the scores were right, NaN where the bin is empty.
    level : float
        The confidence of the intervals and of the band; NaN where there are none.
    """

    edges: NDArray[np.float64]
    counts: NDArray[Any]
    confidences: NDArray[np.float64]
    accuracies: NDArray[np.float64]
    proportions: NDArray[np.float64]
    lows: NDArray[np.float64] | None = None
    highs: NDArray[np.float64] | None = None
    band_lows: NDArray[np.float64] | None = None
    band_highs: NDArray[np.float64] | None = None
    level: float = math.nan


@dataclass(frozen=True, eq=False, slots=True)
class CalibrationCurve:
    """The outcome rate as a function of the score, with two pointwise bands.

    Attributes
    ----------
    kind : str
        "isotonic" or "smooth".
    scores : (M,) float64
        The scores at which the curve is given, increasing.
    rates : (M,) float64
        The outcome rate at each of them: what calibrated scores would be.
    confidence_lows, confidence_highs : (M,) float64
        The confidence band: around the curve, for the true rate. NaN where it needs resampling and there was none.
    consistency_lows, consistency_highs : (M,) float64
        The consistency band: around the diagonal, what the curve would be within if the scores were right.
    level : float
        The share of samples in which a point lies within its band.
    bandwidth : float
        Of the smooth curve's kernel; NaN for the isotonic one.
    """

    kind: str
    scores: NDArray[np.float64]
    rates: NDArray[np.float64]
    confidence_lows: NDArray[np.float64]
    confidence_highs: NDArray[np.float64]
    consistency_lows: NDArray[np.float64]
    consistency_highs: NDArray[np.float64]
    level: float
    bandwidth: float = math.nan


@dataclass(frozen=True, slots=True)
class ScoreDecomposition:
    """A mean proper score of the judged event and its parts, ``score = miscalibration - discrimination + uncertainty``.

    Attributes
    ----------
    score : float
        The mean score, lower is better.
    miscalibration : float
        What recalibration would take off it; 0 is calibrated.
    discrimination : float
        What the scores, recalibrated, gain over always issuing the base rate; larger is better.
    uncertainty : float
        The score of always issuing the base rate.
    within_bins : float
        For ``method="murphy"``, what binning hides: it is added to the three above. 0 for ``method="corp"``.
    """

    score: float
    miscalibration: float
    discrimination: float
    uncertainty: float
    within_bins: float = 0.0


@dataclass(frozen=True, eq=False, slots=True)
class ClasswiseCalibration:
    """The calibration error of every class by itself, and the bins of its reliability diagram.

    Attributes
    ----------
    errors : (C,) float64
        Each class's error; NaN for a class of which the threshold kept nothing.
    kept : (C,) float64
        The share of the predictions that the threshold kept for each class.
    supports : (C,) float64
        The number (weight) of rows whose true class it is, among those kept.
    value : float
        Their mean (l1), root mean square (l2) or maximum (max) over the classes that kept something.
    edges : (C, M + 1) float64
        The ends of each class's bins; NaN for quantile bins of a class of which nothing was kept.
    counts : (C, M) float64
        The predictions (weight) in each bin of each class.
    confidences, accuracies : (C, M) float64
        The mean score and the share of outcomes 1 of each bin, NaN where it is empty.
    lows, highs : (C, M) float64 or None
        The Clopper-Pearson interval of that share, in reports; NaN where the bin is empty.
    level : float
        The confidence of the intervals; NaN where there are none.
    """

    errors: NDArray[np.float64]
    kept: NDArray[np.float64]
    supports: NDArray[np.float64]
    value: float
    edges: NDArray[np.float64]
    counts: NDArray[np.float64]
    confidences: NDArray[np.float64]
    accuracies: NDArray[np.float64]
    lows: NDArray[np.float64] | None = None
    highs: NDArray[np.float64] | None = None
    level: float = math.nan

    def diagram(self, k: int) -> ReliabilityDiagram:
        """Return the reliability diagram of one class, by its index from 0."""
        counts = self.counts[k]
        total = float(counts.sum())
        return ReliabilityDiagram(
            edges=self.edges[k],
            counts=counts,
            confidences=self.confidences[k],
            accuracies=self.accuracies[k],
            proportions=counts / total if total else counts,
            lows=None if self.lows is None else self.lows[k],
            highs=None if self.highs is None else self.highs[k],
            level=self.level,
        )


def plain(value: Any, path: str, missing: dict[str, str], reason: str | None = None) -> Any:
    """Turn a value into plain Python, a number that is not finite into None with its reason noted."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry, f"{path}.{key}", missing) for key, entry in value.items()}
    if isinstance(value, (np.ndarray, list, tuple)):
        return [plain(entry, f"{path}[{i}]", missing, reason) for i, entry in enumerate(value)]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        missing[path] = reason or ("infinite" if math.isinf(value) else "not a number")
        return None
    return value


def plain_estimate(
    estimate: Estimate, path: str, missing: dict[str, str], reason: str | None = None, *, tested: bool = True
) -> dict[str, Any]:
    """Turn an estimate into plain Python; ``reason`` is why a number is missing if the estimate does not say so.

    ``tested`` says that the measure may have a noise floor and a p-value.
    """
    reason = estimate.details.get("reason", reason)
    numbers: dict[str, Any] = {"value": plain(estimate.value, f"{path}.value", missing, reason)}
    for name in ("low", "high", "level"):
        numbers[name] = plain(getattr(estimate, name), f"{path}.{name}", missing, reason or estimate.method)
    unknown = "no certified error is known"
    numbers["error_bound"] = plain(estimate.error_bound, f"{path}.error_bound", missing, unknown)
    if tested:
        floor = estimate.floor
        numbers["floor"] = None if floor is None else {"mean": floor.mean, "upper": floor.upper}
        numbers["p_value"] = plain(estimate.p_value, f"{path}.p_value", missing, "no noise floor")
    numbers["method"], numbers["n"] = estimate.method, estimate.n
    numbers["details"] = plain(dict(estimate.details), f"{path}.details", missing)
    return numbers


def plain_diagram(diagram: ReliabilityDiagram, path: str, missing: dict[str, str]) -> dict[str, Any]:
    """Turn the bins of a diagram into plain Python, the numbers of empty ones into None with the reason noted."""
    names = ("edges", "counts", "confidences", "accuracies", "proportions", "lows", "highs", "band_lows", "band_highs")
    return {name: plain(getattr(diagram, name), f"{path}.{name}", missing, "the bin is empty") for name in names}
