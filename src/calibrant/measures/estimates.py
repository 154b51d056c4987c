"""Estimates of measures: the value, interval, noise floor and p-value, in the same way for every measure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from calibrant.clusters import ClusterSums
from calibrant.measures.binned import binned
from calibrant.measures.binned.histograms import table_histograms
from calibrant.measures.class_inference import DEPENDENCE, ClassBins, ClusterClassBins
from calibrant.measures.context import Inference
from calibrant.measures.event import Event, Unavailable
from calibrant.measures.measure import NOT_ASKED, Measure, OverClasses
from calibrant.results import Estimate
from calibrant.statistics.class_rows import ClassRows
from calibrant.statistics.null import Law
from calibrant.statistics.resampling import Resampling
from calibrant.table import ReliabilityTable

NO_BUCKETS: Final = "no interval by cluster: equal-frequency bins differ between classes; evaluate one class at a time"
NO_MEAN: Final = "no interval: none is known for the mean of this measure over classes; evaluate one class at a time"


def estimate(measure: Measure, event: Event, inference: Inference | None = None) -> Estimate:
    """Return the estimate of a measure: with an interval, a noise floor and a p-value if there is an inference."""
    value, details = event.value(measure), dict(measure.details(event))
    n = event.predictions.n if measure.judges == "predictions" else event.table.n
    method = NOT_ASKED if inference is None else ""
    if not math.isfinite(value):
        reason = details.get("reason", "the measure has no value for these data")
        method = f"{'not available' if math.isnan(value) else 'no interval'}: {reason}"
    plain = Estimate(value, method=method, n=n, details=details, error_bound=event.bound(measure))
    if inference is None or method:
        return plain
    law = measure.law_in_range(inference.law(measure))
    low, high, method = inference.interval(measure)
    return inference.finish(measure, _with_law(plain, (low, high), inference.resampling.level, law, method))


def over_classes(
    measure: Measure,
    events: Sequence[Event | None],
    n: int,
    effective_n: float,
    resampling: Resampling | None,
    *,
    dependent: bool,
    rows: ClassRows | ClusterSums | None = None,
) -> Estimate:
    """Return the estimate of a measure combined over classes.

    Parameters
    ----------
    events
        Each class as an event; None for a class without rows.
    n, effective_n
        The judged rows, and their effective sample size.
    dependent
        Whether the labels of a row may depend on one another in any way, as in multilabel predictions. Otherwise a row
        has one class, which excludes the others.
    rows
        The rows of exclusive classes, if they are at hand; or their sums over buckets of clusters.
    """
    rule = measure.over_classes
    if isinstance(rule, Unavailable):
        return Estimate(math.nan, method=f"not available: {rule.reason}", n=n, details={"reason": rule.reason})
    values = np.array([math.nan if event is None else event.value(measure) for event in events])
    value, details = binned.combine(values, rule.norm), {"per_class": values.tolist()}
    plain = Estimate(value, n=n, details=details, error_bound=_class_bound(measure, events, rule))
    if math.isnan(value):
        reasons = [measure.details(event).get("reason") for event in events if event is not None]
        reason = next((reason for reason in reasons if reason), "no class has a value")
        return replace(plain, method=f"not available: {reason}", details={**details, "reason": reason})
    if rule.binning is None:
        return replace(plain, method=NO_MEAN)
    if resampling is None:
        return replace(plain, method=NOT_ASKED)
    if isinstance(rows, ClusterSums) and rule.binning != "uniform":
        return replace(plain, method=NO_BUCKETS)
    bins = class_bins(events, rule, effective_n, dependent=dependent, rows=rows)
    law = bins.law(value, resampling)
    low, high, method = bins.interval(value, resampling, rejected=law.p_value <= resampling.tail)
    return _with_law(plain, measure.in_range(value, low, high), resampling.level, law, method)


def class_bins(
    events: Sequence[Event | None],
    rule: OverClasses,
    effective_n: float,
    *,
    dependent: bool,
    rows: ClassRows | ClusterSums | None = None,
) -> ClassBins:
    """Return the bins of every class, for the interval of the mean of the classes' errors.

    The rows tell how much sums over bins of equal width vary; those of equal mass differ from class to class.
    """
    tables = [EMPTY if event is None else event.table for event in events]
    n_bins = next(event.n_bins for event in events if event is not None)
    found = table_histograms(tables, n_bins, binning=rule.binning or "uniform")
    dependence = float(len(events)) if dependent else DEPENDENCE
    known: dict[str, Any] = {"histograms": found.sums, "squares": found.squares, "effective_n": effective_n}
    if isinstance(rows, ClusterSums):
        return ClusterClassBins(**known, buckets=rows.classes)
    return ClassBins(**known, dependence=dependence, rows=rows if rule.binning == "uniform" else None)


def flagged(estimate: Estimate, details: dict[str, Any]) -> Estimate:
    """Return the estimate with these details added."""
    return replace(estimate, details={**estimate.details, **details}) if details else estimate


EMPTY: Final = ReliabilityTable(np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64), 0)


def _with_law(plain: Estimate, ends: tuple[float, float], level: float, law: Law | None, method: str) -> Estimate:
    inferred = replace(
        plain, low=ends[0], high=ends[1], level=math.nan if math.isnan(ends[1]) else level, method=method
    )
    if law is None:
        return inferred
    return replace(
        inferred,
        floor=law.floor,
        p_value=law.p_value,
        method=f"{method}; floor: {law.source}",
        details={**plain.details, **law.details},
    )


def _class_bound(measure: Measure, events: Sequence[Event | None], rule: OverClasses) -> float:
    """Return the certified error over classes: by the triangle inequality, the same norm of the classes' bounds."""
    held = [event for event in events if event is not None and not math.isnan(event.value(measure))]
    bounds = np.array([event.bound(measure) for event in held])
    everywhere = [0.0 if event is None else event.bound(measure) for event in events]
    if np.isnan(everywhere).any():
        return math.nan
    return binned.combine(bounds, rule.norm) if len(bounds) else 0.0
