"""The values that measures return if a float is not enough; plots and reports show them unchanged.

At the end their forms: rows for pandas, and plain Python that is strict JSON.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import MissingDependencyError, is_missing
from calibrant.inputs.weights import integer_weights
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.dataclass import dataclass

if TYPE_CHECKING:
    import pandas as pd

Scale: TypeAlias = Literal["probability", "square", "score", "ratio"]

#: How a calibration curve is fitted.
CurveKind: TypeAlias = Literal["isotonic", "smooth", "loess"]

#: Where a confidence band of the isotonic curve holds: at each score alone, or at all scores at once.
Bands: TypeAlias = Literal["pointwise", "simultaneous"]
BANDS: Final = ("pointwise", "simultaneous")


@dataclass(frozen=True)
class Floor:
    """The noise floor of a measure: its values at this number of rows if the scores were calibrated.

    Attributes
    ----------
    mean : float
        The mean value under perfect calibration.
    upper : float
        The value is below this in a share ``level`` of such samples.
    """

    mean: float
    upper: float


@dataclass(frozen=True, kw_only=True)
class Description:
    """What a report says about a measure.

    Attributes
    ----------
    label : str
        The name for people to read.
    meaning : str
        One sentence for readers who do not know the measure.
    scale : {"probability", "square", "score", "ratio"}
        The unit.
    better : {"lower", "higher", "neither"}
        Which direction is better.
    signed : bool
        Whether it is shown with its sign.
    binning : {"uniform", "quantile"} or None
        The bins, if it uses any.
    """

    label: str
    meaning: str
    scale: Scale = "probability"
    better: Literal["lower", "higher", "neither"] = "lower"
    signed: bool = False
    binning: Literal["uniform", "quantile"] | None = None


@dataclass(frozen=True)
class Estimate:
    """One number of a report, with its interval and its noise floor.

    Attributes
    ----------
    value : float
        The number; NaN if it is not available: ``method`` then gives the reason.
    low, high : float
        The ends of the confidence interval of the estimated quantity; NaN without an interval.
    level : float
        The nominal confidence of the interval.
    floor : Floor or None
        The value under perfect calibration at this number of rows; None without one, as for other than calibration
        errors.
    p_value : float
        The probability of a value at least this large under perfect calibration; NaN without a floor.
    method : str
        How the interval was computed, or why it is missing.
    n : int
        The number of predictions behind it.
    details : mapping
        More facts: the bin of a maximum, the classes left out, flags.
    error_bound : float
        A certified bound of the difference from the same number computed from all predictions; 0 if it is exact up to
        rounding, NaN if no bound is known. It is above 0 only for the smooth error, which is computed to 1e-7, and for
        numbers from a sketch or a table on a grid.
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


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What a report was made from, if its numbers do not show it.

    Attributes
    ----------
    data : {"rows", "table", "sketch"}
        What was passed: predictions, a `ReliabilityTable` or a `CalibrationSketch`.
    logits : bool or None
        Whether the predictions were logits; None for a table and a sketch, which hold probabilities.
    weights : {"integer", "fractional"} or None
        Whether the weights are whole numbers, which count equal rows, or not. None if every row counts once.
    ignored, weightless : int
        The rows that were left out: without a target (see ``ignore_index``), and with a target but of weight 0.
    rounded : int
        The probabilities that rounding had moved out of [0, 1], and that were read as 0 or 1.
    seed : int or None
        The seed of what was drawn; None if a generator gave it, and for a report without intervals.
    """

    data: Literal["rows", "table", "sketch"] = "rows"
    logits: bool | None = None
    weights: Literal["integer", "fractional"] | None = None
    ignored: int = 0
    weightless: int = 0
    rounded: int = 0
    seed: int | None = None


class Code(StrEnum):
    """The kinds of findings of a report."""

    MISCALIBRATED = "miscalibrated"
    NO_EVIDENCE = "no-evidence"
    TOO_HIGH = "too-high"
    TOO_LOW = "too-low"
    RIGHT_ON_AVERAGE = "right-on-average"
    TOO_EXTREME = "too-extreme"
    NOT_EXTREME_ENOUGH = "not-extreme-enough"
    RIGHTLY_SPREAD = "rightly-spread"
    UNCLEAR_SPREAD = "unclear-spread"
    RECALIBRATION_GAIN = "recalibration-gain"
    PROVEN = "proven"
    DISPROVEN = "disproven"
    UNDECIDED = "undecided"
    FALLING_CURVE = "falling-curve"
    RARE_OUTCOME = "rare-outcome"
    LARGE_CLUSTER = "large-cluster"
    HEAVY_WEIGHTS = "heavy-weights"
    ONE_IMAGE = "one-image"
    WHOLE_WEIGHTS = "whole-weights"
    IMPOSSIBLE_OUTCOMES = "impossible-outcomes"


@dataclass(frozen=True)
class Finding:
    """Something that a report found, as facts; `Report.verdict` puts it into words.

    Attributes
    ----------
    code : Code
        What was found.
    facts : mapping
        The numbers behind it.
    """

    code: Code
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TestResult:
    """A test of the hypothesis that the scores are calibrated.

    Attributes
    ----------
    statistic : float
        The test statistic.
    p_value : float
        The probability of a statistic at least as extreme under perfect calibration.
    method : str
        The test, and the distribution behind its p-value.
    n : int
        The predictions tested.
    details : mapping
        More facts: degrees of freedom, fitted coefficients, the groups.
    """

    __test__: ClassVar[bool] = False  # pytest must not collect it

    statistic: float
    p_value: float
    method: str
    n: int
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Whether an error is below a tolerance, beyond doubt.

    Attributes
    ----------
    state : {"proven", "disproven", "open"}
        "proven": the error is below the tolerance; "disproven": it is above. Each is wrong with a nominal
        probability of at most 1 - ``level``. "open": these rows do not decide it.
    measure : str
        The error.
    tolerance : float
        The largest error that is tolerated.
    low, high : float
        The one-sided bounds of the error, each at ``level``.
    level : float
        The confidence.
    more_rows : int or None
        About how many more rows would decide it. None if it is decided, or if the number cannot be estimated, because
        the error is about as large as the tolerance or one outcome is too rare.
    """

    state: Literal["proven", "disproven", "open"]
    measure: str
    tolerance: float
    low: float
    high: float
    level: float
    more_rows: int | None = None


@dataclass(frozen=True, eq=False)
class ReliabilityDiagram:
    """The bins of a reliability diagram.

    Attributes
    ----------
    edges : (M + 1,) float64
        The ends of the bins. For quantile bins, 0, each bin's largest score and 1; a bin is (edge, next edge].
    counts : (M,) int64, or float64 with weights
        The predictions in each bin.
    confidences : (M,) float64
        The mean score of each bin, NaN if it is empty.
    accuracies : (M,) float64
        The share of outcomes 1 in each bin (of right answers for the top label), NaN if it is empty.
    proportions : (M,) float64
        The share of all predictions in each bin, 0 if it is empty.
    lows, highs : (M,) float64 or None
        The Clopper-Pearson interval of each bin's share of outcomes 1, NaN if it is empty.
    band_lows, band_highs : (M,) float64 or None
        The consistency band: the range of ``accuracies`` if the scores were right, NaN if the bin is empty.
    level : float
        The confidence of the intervals and of the band; NaN without them.
    """

    edges: Float64s
    counts: NDArray[Any]
    confidences: Float64s
    accuracies: Float64s
    proportions: Float64s
    lows: Float64s | None = None
    highs: Float64s | None = None
    band_lows: Float64s | None = None
    band_highs: Float64s | None = None
    level: float = math.nan


@dataclass(frozen=True, eq=False)
class CalibrationCurve:
    """The observed frequency as a function of the score, with two bands.

    Attributes
    ----------
    kind : str
        "isotonic", "smooth" or "loess".
    scores : (M,) float64
        The scores of the points of the curve, increasing.
    rates : (M,) float64
        The observed frequency at each of them, which a calibrated score would equal.
    confidence_lows, confidence_highs : (M,) float64
        The confidence band, around the curve, for the true rate. NaN if it needs resampling and none was done.
    consistency_lows, consistency_highs : (M,) float64
        The consistency band, around the diagonal: the range of the curve if the scores were right; NaN likewise.
    level : float
        The nominal confidence of the bands.
    bandwidth : float
        The bandwidth of the smooth curve's kernel; NaN for other curves.
    bands : {"pointwise", "simultaneous"}
        Where the confidence band holds: at each score alone, or at all scores at once. Between two points the lower
        end of a simultaneous band is that on the left, and the upper end that on the right. The consistency band is
        pointwise.
    """

    kind: str
    scores: Float64s
    rates: Float64s
    confidence_lows: Float64s
    confidence_highs: Float64s
    consistency_lows: Float64s
    consistency_highs: Float64s
    level: float
    bandwidth: float = math.nan
    bands: Bands = "pointwise"


@dataclass(frozen=True)
class ScoreDecomposition:
    """A mean proper score: ``score = miscalibration - discrimination + uncertainty``.

    Attributes
    ----------
    score : float
        The mean score, lower is better.
    miscalibration : float
        By how much recalibration would lower it; 0 is calibrated.
    discrimination : float
        By how much the recalibrated scores are better than always issuing the base rate; larger is better.
    uncertainty : float
        The score of always issuing the base rate.
    within_bins : float
        For ``method="murphy"``, the part that binning hides: it is added to the three above. 0 for ``method="corp"``.
    """

    score: float
    miscalibration: float
    discrimination: float
    uncertainty: float
    within_bins: float = 0.0


@dataclass(frozen=True, eq=False, kw_only=True)
class ClasswiseCalibration:
    """The calibration error of each class, and the bins of its reliability diagram.

    Attributes
    ----------
    errors : (C,) float64
        Each class's error; NaN if the threshold kept no prediction of the class.
    kept : (C,) float64
        For each class, the share of the predictions that the threshold kept.
    supports : (C,) float64
        For each class, the number (weight) of kept rows that belong to this class.
    value : float
        The mean (l1), root mean square (l2) or maximum (max) of the errors that are not NaN.
    edges : (C, M + 1) float64
        The ends of each class's bins; NaN for quantile bins of a class without kept predictions.
    counts : (C, M) float64
        The predictions (weight) in each bin of each class.
    confidences, accuracies : (C, M) float64
        The mean score and the share of outcomes 1 of each bin, NaN if it is empty.
    lows, highs : (C, M) float64 or None
        The Clopper-Pearson interval of each bin's share of outcomes 1, in reports; NaN if the bin is empty.
    level : float
        The confidence of the intervals; NaN without them.
    p_values, adjusted_p_values : (C,) float64 or None
        The p-value of each class's own test of calibration, in closed form, and the same after Holm's correction for
        the number of classes, in reports. NaN for a class without a test.
    """

    errors: Float64s
    kept: Float64s
    supports: Float64s
    value: float
    edges: Float64s
    counts: Float64s
    confidences: Float64s
    accuracies: Float64s
    lows: Float64s | None = None
    highs: Float64s | None = None
    level: float = math.nan
    p_values: Float64s | None = None
    adjusted_p_values: Float64s | None = None

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


@dataclass(frozen=True, eq=False, kw_only=True)
class NetBenefit:
    """The net benefit of acting on scores, at each threshold: a decision curve.

    The net benefit of treating nobody is 0 at every threshold.

    Attributes
    ----------
    thresholds : (T,)
        Those whose score is at least the threshold are treated.
    net_benefit : (T,)
        The net benefit, in true positives per row.
    lows, highs : (T,)
        The ends of its interval at each threshold alone; NaN where fewer than 30 rows are treated, or rows of
        fewer than 10 clusters, and without intervals.
    treat_all : (T,)
        The net benefit of treating everyone.
    treated : (T,)
        The number of rows (their weight) that are treated.
    level : float
        The confidence of the intervals; NaN without.
    method : str
        How the intervals were computed, or why they are missing; with a warning if one outcome is rare.
    error_bounds : (T,)
        The certified errors of ``net_benefit``: 0 unless it is computed from a sketch or a table on a grid.
    n : int
        The number of predictions.
    """

    thresholds: Float64s
    net_benefit: Float64s
    lows: Float64s = field(repr=False)
    highs: Float64s = field(repr=False)
    treat_all: Float64s = field(repr=False)
    treated: Float64s = field(repr=False)
    level: float
    method: str
    error_bounds: Float64s = field(repr=False)
    n: int


@dataclass(frozen=True, eq=False, kw_only=True)
class MurphyCurve:
    """The mean elementary score at each threshold.

    Attributes
    ----------
    thresholds : (T,)
        Those whose score is above the threshold are treated.
    scores : (T,)
        The mean elementary score, in [0, 1]; lower is better.
    area : float
        The integral over all thresholds from 0 to 1: half the Brier score, exactly.
    error_bounds : (T,)
        The certified errors of ``scores``: 0 unless they are computed from a sketch or a table on a grid.
    n : int
        The number of predictions.
    """

    thresholds: Float64s
    scores: Float64s
    area: float
    error_bounds: Float64s = field(repr=False)
    n: int


@dataclass(frozen=True, eq=False, kw_only=True)
class RocCurve:
    """The true positive rate against the false positive rate, for each threshold of the score.

    Attributes
    ----------
    thresholds : (K,) float64
        Scores, falling. A row is called positive if its score is at least the threshold. The first is infinite.
    hits : (K,) float64
        The share of rows with the event that are called positive (sensitivity), in [0, 1].
    false_alarms : (K,) float64
        The share of rows without the event that are called positive (1 - specificity), in [0, 1].
    """

    thresholds: Float64s
    hits: Float64s
    false_alarms: Float64s


@dataclass(frozen=True, eq=False, kw_only=True)
class RiskCoverageCurve:
    """The risk, the error rate of the rows that are acted on, against the coverage, their share of all rows.

    Attributes
    ----------
    thresholds : (K,) float64
        Scores. The rows at or above a threshold are acted on; for decisions "no", the rows at or below it.
    coverages : (K,) float64
        The share of the rows that are acted on, in (0, 1], increasing.
    risks : (K,) float64
        The error rate of the rows that are acted on, in [0, 1].
    lows, highs : (K,) float64
        The ends of the pointwise confidence interval of the risk.
    """

    thresholds: Float64s
    coverages: Float64s
    risks: Float64s
    lows: Float64s
    highs: Float64s


@dataclass(frozen=True, eq=False, kw_only=True)
class Forest:
    """One measure of every group, and how much it differs between groups.

    Attributes
    ----------
    groups : tuple of str
        The names of the groups.
    values, lows, highs : (G,) float64
        The measure of each group with its interval; NaN where a group has none. Groups with too few events or
        non-events have none.
    heterogeneity : float
        I^2, the share of the variation between groups that is beyond sampling error, in [0, 1]. NaN if fewer than two
        groups are compared.
    p_value : float
        The p-value of Cochran's Q: small if the groups differ by more than sampling error.
    compared : int
        The number of groups behind both.
    left_out : mapping
        Why groups are not compared, by their names.
    pooled, pooled_low, pooled_high : float
        The mean of the groups' true values by a model of random effects, with its interval. NaN if fewer than two
        groups are compared, or if a cluster may lie in several groups.
    prediction_low, prediction_high : float
        The prediction interval: where the true value of another group lies. NaN with fewer than three groups.
    weights : (G,) float64, or None
        The share of each group in the pooled value, NaN for a group that is not in it. None without a pooled value.
    columns : mapping
        Of marginal subgroups, the forest of the groups of each column, which are compared with each other. Empty if a
        row is in one group alone.
    """

    groups: tuple[str, ...]
    values: Float64s
    lows: Float64s
    highs: Float64s
    heterogeneity: float = math.nan
    p_value: float = math.nan
    compared: int = 0
    left_out: Mapping[str, str] = field(default_factory=dict)
    pooled: float = math.nan
    pooled_low: float = math.nan
    pooled_high: float = math.nan
    prediction_low: float = math.nan
    prediction_high: float = math.nan
    weights: Float64s | None = None
    columns: Mapping[str, Forest] = field(default_factory=dict)


#: What a profile shows next to the reliability diagram.
Panel: TypeAlias = NetBenefit | MurphyCurve | RocCurve


def frame_of(rows: Sequence[Mapping[str, Any]], index: str | list[str]) -> pd.DataFrame:
    """Return rows as a `pandas.DataFrame` with an index of one or more of their columns.

    Raises
    ------
    calibrant.errors.MissingDependencyError
        Without pandas, which the extra ``pandas`` installs.
    """
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        if not is_missing(error, "pandas"):
            raise
        raise MissingDependencyError("pandas", "to make a frame", "pandas") from None
    return pd.DataFrame(rows).set_index(index)


def columns_of(estimate: Estimate) -> dict[str, Any]:
    """Return the numbers of an estimate by the names of a frame's columns."""
    floor = Floor(math.nan, math.nan) if estimate.floor is None else estimate.floor
    return {
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "level": estimate.level,
        "floor_mean": floor.mean,
        "floor_upper": floor.upper,
        "p_value": estimate.p_value,
        "error_bound": estimate.error_bound,
        "n": estimate.n,
        "method": estimate.method,
    }


# ---------------------------------------------------------------- as plain Python


def plain(value: Any, path: str, missing: dict[str, str], reason: str | None = None) -> Any:
    """Return a value as plain Python; a number that is not finite becomes None, and ``missing`` gets the reason."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, float):  # most values, so they come first
        if math.isfinite(value):
            return value
        missing[path] = reason or ("infinite" if math.isinf(value) else "not a number")
        return None
    if isinstance(value, (list, tuple)):
        return [plain(entry, f"{path}[{i}]", missing, reason) for i, entry in enumerate(value)]
    if isinstance(value, Mapping):
        return {str(key): plain(entry, f"{path}.{key}", missing) for key, entry in value.items()}
    return value


def _attributes(
    value: Any, names: Sequence[str], path: str, missing: dict[str, str], reason: str | None = None
) -> dict[str, Any]:
    """Return these attributes as plain Python, by name."""
    return {name: plain(getattr(value, name), f"{path}.{name}", missing, reason) for name in names}


def plain_estimate(
    estimate: Estimate, path: str, missing: dict[str, str], reason: str | None = None, *, tested: bool = True
) -> dict[str, Any]:
    """Return an estimate as plain Python; ``reason`` is why a number is missing, unless the estimate has one.

    ``tested`` is true if the measure may have a noise floor and a p-value.
    """
    reason = estimate.details.get("reason", reason)
    numbers = {
        **_attributes(estimate, ("value",), path, missing, reason),
        **_attributes(estimate, ("low", "high", "level"), path, missing, reason or estimate.method),
        **_attributes(estimate, ("error_bound",), path, missing, "no bound on the approximation error is known"),
    }
    if tested:
        floor = estimate.floor
        numbers["floor"] = None if floor is None else {"mean": floor.mean, "upper": floor.upper}
        numbers["p_value"] = plain(estimate.p_value, f"{path}.p_value", missing, "no noise floor")
    numbers["method"], numbers["n"] = estimate.method, estimate.n
    numbers["details"] = plain(dict(estimate.details), f"{path}.details", missing)
    return numbers


def plain_test(test: TestResult | None, path: str, missing: dict[str, str]) -> dict[str, Any] | None:
    """Return a test as plain Python."""
    return (
        None if test is None else _attributes(test, ("statistic", "p_value", "method", "n", "details"), path, missing)
    )


def plain_diagram(diagram: ReliabilityDiagram | None, path: str, missing: dict[str, str]) -> dict[str, Any] | None:
    """Return the bins of a diagram as plain Python; in empty bins None, and ``missing`` gets the reason."""
    names = ("edges", "counts", "confidences", "accuracies", "proportions", "lows", "highs", "band_lows", "band_highs")
    return None if diagram is None else _attributes(diagram, names, path, missing, "the bin is empty")


_FEW_EXPECTED: Final = "no test: the expected number of events or non-events is too small"


def plain_classes(result: ClasswiseCalibration, names: Sequence[str] | None, missing: dict[str, str]) -> dict[str, Any]:
    """Return the errors, bins and tests of the classes."""
    return {
        "names": list(names) if names else [str(k) for k in range(len(result.errors))],
        **_attributes(result, ("errors",), "classwise", missing, "no score reached the threshold"),
        **_attributes(result, ("kept", "supports"), "classwise", missing),
        "bins": {name: values.tolist() for name, values in class_bins(result).items()},
        **_attributes(result, ("p_values", "adjusted_p_values"), "classwise", missing, _FEW_EXPECTED),
    }


def plain_curve(curve: CalibrationCurve, path: str, missing: dict[str, str]) -> dict[str, Any]:
    """Return the points of a curve with its bands; ``missing`` gets the reason of a missing band."""
    columns = ("scores", "rates", "confidence_lows", "confidence_highs", "consistency_lows", "consistency_highs")
    return {
        **_attributes(curve, columns, path, missing, "the band needs resampling"),
        **_attributes(curve, ("bandwidth",), path, missing, f"the {curve.kind} curve has no bandwidth"),
        "bands": curve.bands,
    }


def class_bins(result: ClasswiseCalibration) -> dict[str, NDArray[Any]]:
    """Return the filled bins of all classes, one after the other, as columns."""
    filled = result.counts > 0
    counts = result.counts[filled]
    columns: dict[str, NDArray[Any]] = {
        "class": np.nonzero(filled)[0],
        "left": result.edges[:, :-1][filled],
        "right": result.edges[:, 1:][filled],
        "count": counts.astype(np.int64) if integer_weights(counts) else counts,
        "confidence": result.confidences[filled],
        "accuracy": result.accuracies[filled],
    }
    for name, ends in (("low", result.lows), ("high", result.highs)):
        if ends is not None:
            columns[name] = ends[filled]
    return columns


def plain_panel(panel: Panel | Forest, path: str, missing: dict[str, str]) -> dict[str, Any]:
    """Return the columns of a panel; of marginal subgroups also the forest of each column."""
    columns = getattr(panel, "columns", {})
    names = [part.name for part in fields(panel) if part.name != "columns"]
    of_columns = {name: plain_panel(forest, f"{path}.columns.{name}", missing) for name, forest in columns.items()}
    return {**_attributes(panel, names, path, missing), **({"columns": of_columns} if columns else {})}
