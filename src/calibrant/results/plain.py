"""Results as plain Python values that are strict JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.weights import integer_weights
from calibrant.results.values import (
    CalibrationCurve,
    ClasswiseCalibration,
    Estimate,
    Forest,
    Panel,
    ReliabilityDiagram,
    TestResult,
)


class Tested(Protocol):
    """What has a test and a diagram: a report on all rows, or on a group."""

    @property
    def test(self) -> TestResult | None: ...
    @property
    def diagram(self) -> ReliabilityDiagram | None: ...


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
        **_attributes(estimate, ("error_bound",), path, missing, "no certified error is known"),
    }
    if tested:
        floor = estimate.floor
        numbers["floor"] = None if floor is None else {"mean": floor.mean, "upper": floor.upper}
        numbers["p_value"] = plain(estimate.p_value, f"{path}.p_value", missing, "no noise floor")
    numbers["method"], numbers["n"] = estimate.method, estimate.n
    numbers["details"] = plain(dict(estimate.details), f"{path}.details", missing)
    return numbers


def plain_test(test: TestResult, path: str, missing: dict[str, str]) -> dict[str, Any]:
    """Return a test as plain Python."""
    return _attributes(test, ("statistic", "p_value", "method", "n", "details"), path, missing)


def plain_diagram(diagram: ReliabilityDiagram, path: str, missing: dict[str, str]) -> dict[str, Any]:
    """Return the bins of a diagram as plain Python; in empty bins None, and ``missing`` gets the reason."""
    names = ("edges", "counts", "confidences", "accuracies", "proportions", "lows", "highs", "band_lows", "band_highs")
    return _attributes(diagram, names, path, missing, "the bin is empty")


def plain_parts(part: Tested, missing: dict[str, str]) -> dict[str, Any]:
    """Return the test and the diagram."""
    return {
        "test": None if part.test is None else plain_test(part.test, "test", missing),
        "diagram": None if part.diagram is None else plain_diagram(part.diagram, "diagram", missing),
    }


def plain_classes(result: ClasswiseCalibration, names: Sequence[str] | None, missing: dict[str, str]) -> dict[str, Any]:
    """Return the errors, bins and tests of the classes."""
    return {
        "names": list(names) if names else [str(k) for k in range(len(result.errors))],
        **_attributes(result, ("errors",), "classwise", missing, "the threshold kept no score"),
        **_attributes(result, ("kept", "supports"), "classwise", missing),
        "bins": _class_bins(result),
        **_attributes(
            result, ("p_values", "adjusted_p_values"), "classwise", missing, "no test: too few outcomes are expected"
        ),
    }


def plain_curve(curve: CalibrationCurve, path: str, missing: dict[str, str]) -> dict[str, Any]:
    """Return the points of a curve with its bands; ``missing`` gets the reason of a missing band."""
    columns = ("scores", "rates", "confidence_lows", "confidence_highs", "consistency_lows", "consistency_highs")
    return {
        **_attributes(curve, columns, path, missing, "needs resampling"),
        **_attributes(curve, ("bandwidth",), path, missing, "the isotonic curve has no bandwidth"),
        "bands": curve.bands,
    }


def _class_bins(result: ClasswiseCalibration) -> dict[str, list[Any]]:
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
    return {name: values.tolist() for name, values in columns.items()}


def plain_panel(panel: Panel | Forest, path: str, missing: dict[str, str]) -> dict[str, Any]:
    """Return the columns of a panel."""
    return _attributes(panel, [part.name for part in fields(panel)], path, missing)
