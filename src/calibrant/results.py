"""What the measures return when a float will not do: frozen values that plots and reports take as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Estimate:
    """One number of a report.

    Attributes
    ----------
    value : float
        The number; NaN where it cannot be had, and then ``details["reason"]`` says why.
    n : int
        The predictions it was computed from.
    details : mapping
        What belongs to it: the bin of a maximum, the classes left out, a debiased value.
    """

    value: float
    n: int
    details: Mapping[str, Any] = field(default_factory=dict)

    def __float__(self) -> float:
        return self.value


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
    """

    edges: NDArray[np.float64]
    counts: NDArray[Any]
    confidences: NDArray[np.float64]
    accuracies: NDArray[np.float64]
    proportions: NDArray[np.float64]


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
    """The calibration error of every class by itself.

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
    """

    errors: NDArray[np.float64]
    kept: NDArray[np.float64]
    supports: NDArray[np.float64]
    value: float
