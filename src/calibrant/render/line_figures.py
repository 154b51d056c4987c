"""Figures of lines: decision, Murphy, ROC and risk-coverage curves, and evidence over time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from calibrant.render.figure import (
    Axis,
    Band,
    Figure,
    Mark,
    Name,
    Points,
    Polyline,
    Rule,
    Tips,
    power_text,
    round_step,
)
from calibrant.render.words import ends_text, named_with, percent, steps
from calibrant.results.values import MurphyCurve, NetBenefit, RiskCoverageCurve, RocCurve

_TOLD: Final = 25  # points of a line that a page describes
_ABOVE: Final = 1.05  # how far axes reach, relative to the largest value
_MOST_EVIDENCE: Final = 12 * math.log(10)  # the logarithm of the largest evidence that is drawn
_BELOW: Final = -0.15  # how far the axis of net benefits reaches below 0, where the curve of treating everyone falls to


def tips_along(x: Sequence[float], y: Sequence[float], tip: Callable[[int], str]) -> Tips:
    """Return what some points of a line say, at equal steps."""
    places = steps(len(x), _TOLD) if len(x) else []
    return Tips([x[i] for i in places], [y[i] for i in places], list(map(tip, places)))


def decision_figure(curve: NetBenefit, *, label: str | None = None, intervals: bool = True) -> Figure:
    """Return the net benefit up to the first threshold at which nobody is treated."""
    thresholds, benefits, everyone = curve.thresholds.tolist(), curve.net_benefit.tolist(), curve.treat_all.tolist()
    known = np.isfinite(curve.lows)
    lows, highs = (np.where(known, ends, np.nan) for ends in (curve.lows, curve.highs))
    treated = np.flatnonzero(curve.treated > 0)
    last = min(max(int(treated[-1]) + 1 if len(treated) else len(thresholds), 1), len(thresholds) - 1)
    has_band = intervals and bool(known.any())
    top = max(*benefits, *everyone, 0.0, float(np.nanmax(highs)) if has_band else 0.0) or 0.01

    def tip(i: int) -> str:
        interval = f", {percent(curve.level)} CI {ends_text(lows[i], highs[i])}" if known[i] else ""
        return f"threshold {thresholds[i]:.2f}: net benefit {benefits[i]:.4f}{interval}; treat all {everyone[i]:.4f}"

    marks: list[Mark] = [Polyline(thresholds, benefits, "curve", label or "Net benefit")]
    if has_band:
        marks.append(Band(thresholds, lows, highs, "sure", named_with(f"{percent(curve.level)} CI", label)))
    marks += [
        Polyline(thresholds, everyone, "other", "Treat everyone"),
        Rule("y", "zero", "Treat nobody", 0.0),
        tips_along(thresholds[: last + 1], benefits, tip),
    ]
    step = round_step(thresholds[last] / 20 or 0.05)
    x = Axis("Threshold probability", 0.0, math.ceil(thresholds[last] / step - 1e-9) * step or 1.0)
    return Figure("Net benefit", x, Axis("Net benefit", _BELOW * top, _ABOVE * top), marks)


def murphy_figure(curve: MurphyCurve, *, rate: float = math.nan, label: str | None = None) -> Figure:
    """Return the mean elementary score; with a ``rate`` of the event also that of its own forecast for every row."""
    thresholds, scores = curve.thresholds.tolist(), curve.scores.tolist()
    word = f"{label or 'Elementary score'} (Brier score {2 * curve.area:.4f})"
    marks: list[Mark] = [Polyline(thresholds, scores, "curve", word)]
    base = [] if math.isnan(rate) else base_scores(thresholds, rate)
    if base:
        marks.append(Polyline(thresholds, base, "other", "Base rate for every row"))

        def tip(i: int) -> str:
            always = f"{base[i]:.4f} if the base rate is predicted for every row"
            return f"threshold {thresholds[i]:.2f}: score {scores[i]:.4f} ({always})"

        marks.append(tips_along(thresholds, scores, tip))
    x, top = Axis("Threshold probability", 0.0, 1.0), _ABOVE * max(*scores, *base, 0.0) or 0.01
    return Figure("Murphy curve", x, Axis("Mean elementary score", 0.0, top), marks)


def base_scores(thresholds: Sequence[float], rate: float) -> list[float]:
    """Return the mean elementary score of the same forecast, the rate of the event, for every row."""
    return [min(t * (1 - rate), (1 - t) * rate) for t in thresholds]


def roc_figure(curve: RocCurve, *, label: str | None = None) -> Figure:
    """Return the true positive rate against the false positive rate."""
    alarms, hits = curve.false_alarms.tolist(), curve.hits.tolist()

    def tip(i: int) -> str:
        threshold = threshold_text(curve.thresholds[i])
        return f"threshold {threshold}: sensitivity {hits[i]:.3f}, specificity {1 - alarms[i]:.3f}"

    marks: list[Mark] = [
        Polyline(alarms, hits, "curve", label or "ROC curve"),
        Rule("both", "ideal", "No discrimination"),
        tips_along(alarms, hits, tip),
    ]
    x, y = Axis("False positive rate", 0.0, 1.0), Axis("True positive rate", 0.0, 1.0)
    return Figure("ROC curve", x, y, marks, square=True)


def threshold_text(threshold: float) -> str:
    """Return a threshold of an ROC curve; the first one is infinite."""
    return f"{threshold:.3f}" if math.isfinite(threshold) else "none"


def risk_coverage_figure(
    curve: RiskCoverageCurve,
    *,
    max_risk: float | None = None,
    coverage: float | None = None,
    intervals: bool = True,
    label: str | None = None,
    tip: Callable[[int], str] | None = None,
) -> Figure:
    """Return the error rate by coverage, with the largest acceptable one and the certified coverage."""
    marks: list[Mark] = [Polyline(curve.coverages, curve.risks, "curve", label or "Error rate")]
    if intervals:
        marks.append(Band(curve.coverages, curve.lows, curve.highs, "sure", named_with("CI", label)))
    if max_risk is not None:
        marks.append(Rule("y", "other", f"At most {percent(max_risk)}", max_risk))
    if coverage is not None:
        marks.append(Rule("x", "zero", "Certified threshold", coverage))
    if tip is not None:
        marks.append(tips_along(curve.coverages.tolist(), curve.risks.tolist(), tip))
    # At small coverages the band reaches 1: the axis follows the rest of it.
    later = curve.highs[len(curve.highs) // 4 :]
    top = _ABOVE * max(float(curve.risks.max()), float(later.max()), 2 * (max_risk or 0.0))
    return Figure("Error rate by coverage", Axis("Coverage", 0.0, 1.0), Axis("Error rate", 0.0, min(top, 1.0)), marks)


def slices_axis(labels: Sequence[str], label: str = "") -> Axis:
    """Return an axis of slices or periods, from 1."""
    names: Mapping[int, Name] = {i: Name((name,)) for i, name in enumerate(labels, 1)}
    return Axis(label, 0.5, max(len(names), 1) + 0.5, names=names)


def evidence_cut(alpha: float) -> float:
    """Return the logarithm of the largest evidence that is drawn: 10^12, or far above the alarm."""
    return max(_MOST_EVIDENCE, -math.log(alpha) + math.log(1e3))


def evidence_figure(
    labels: Sequence[str],
    log_evidence: Sequence[float],
    alpha: float,
    *,
    label: str | None = None,
    onset: int | None = None,
    tip: Callable[[int], str] | None = None,
) -> Figure:
    """Return the evidence after each slice with the alarm; ``onset`` is the index of the slice where a drift begins.

    Larger evidence than `evidence_cut` is drawn there, with a mark, so that the alarm can be seen.
    """
    places, alarm, cut = list(range(1, len(labels) + 1)), -math.log(alpha), evidence_cut(alpha)
    above = [place for place, each in zip(places, log_evidence, strict=True) if each > cut]
    log_evidence = [min(each, cut) for each in log_evidence]
    marks: list[Mark] = [
        Polyline(places, log_evidence, "curve", label or "Evidence"),
        Rule("y", "other", f"Alarm at {1 / alpha:,.4g}", alarm),
    ]
    if above:
        marks.append(Points(above, [cut] * len(above), "out", named_with(f"Above {power_text(cut)}", label)))
    if onset is not None:
        marks.append(Rule("x", "zero", "Most likely start of the drift", onset + 1))
    if tip is not None:
        marks.append(tips_along(places, log_evidence, tip))
    low, high = min(*log_evidence, 0.0, alarm), max(*log_evidence, 0.0, alarm)
    margin = max(math.log(1.5), 0.05 * (high - low))
    y = Axis("Evidence against calibration", low - margin, high + margin, "logs")
    return Figure("Evidence against calibration", slices_axis(labels, "Slice"), y, marks)
