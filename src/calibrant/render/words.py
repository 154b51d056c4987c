"""The verdict: what a report says, in sentences, from the dictionary that `Report.to_dict` returns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from calibrant.render.style import Summary, percent


def verdict(summary: Summary) -> list[str]:
    """Say whether there is evidence of miscalibration, which way it goes, and what recalibration could gain."""
    sentences = [_evidence(summary)] if summary["level"] is not None else []
    if summary["diagram"] is not None:
        sentences.append(_lean(summary))
        if summary["notion"] == "positive":
            sentences.append(_extremeness(summary))
    sentences.append(_gain(summary))
    flag = next((e["details"]["flag"] for e in summary["estimates"].values() if "flag" in e["details"]), None)
    return sentences if flag is None else [*sentences, f"Caution: {flag}."]


def _evidence(summary: Summary) -> str:
    ece, level = summary["estimates"]["ece"], summary["level"]
    shown = f"noise alone shows up to {ece['floor']['upper']:.4f} in {percent(level)} of samples"
    if ece["p_value"] > 1 - level:
        return f"No evidence of miscalibration at this N: the ECE is {ece['value']:.4f}, and {shown}."
    p_value = chance(ece["p_value"], summary["n_resamples"])
    return f"Miscalibrated: the ECE is {ece['value']:.4f}, where {shown} (p {p_value})."


def chance(p_value: float, n_resamples: int = 0) -> str:
    """Return a p-value with its sign of equality; at the limit of what the resamples resolve it is a bound."""
    if n_resamples and math.isclose(p_value, 1 / (n_resamples + 1), rel_tol=1e-9):
        return f"≤ {p_value:.3f}"
    return f"= {p_value:.3f}" if p_value >= 0.0005 else "< 0.001"


def _lean(summary: Summary) -> str:
    gap = summary["estimates"]["mean_gap"]
    said, happened = summary["estimates"]["mean_confidence"]["value"], summary["outcome_rate"]
    right = summary["notion"] == "top-label"
    low, high = _points(gap, gap["value"])
    if right:
        facts = f"it claims {100 * said:.1f} % and is right in {100 * happened:.1f} %"
        words = ("Over-confident", "Under-confident", "Neither over- nor under-confident")
    else:
        facts = f"it claims {100 * said:.1f} %, the event happened in {100 * happened:.1f} %"
        words = ("Too high", "Too low", "Neither too high nor too low")
    if low > 0 or high < 0:
        return f"{words[0] if low > 0 else words[1]} by {_size(low, high)} on average: {facts}."
    if gap["low"] is None:
        return f"{words[2]} on average: {facts}."
    return f"{words[2]} on average, as far as these rows can tell ({low:+.1f} to {high:+.1f} points): {facts}."


def _points(estimate: Mapping[str, Any], value: float) -> tuple[float, float]:
    """Return the ends of a value in percentage points, as wide as an estimate's interval; the value where it has none.

    Less than a twentieth of a point is nothing.
    """
    if estimate["low"] is None:
        points = 100 * value if abs(value) >= 0.0005 else 0.0
        return points, points
    half = (estimate["high"] - estimate["low"]) / 2
    return 100 * (value - half), 100 * (value + half)


def _size(low: float, high: float) -> str:
    least, most = sorted((abs(low), abs(high)))
    if f"{least:.1f}" == f"{most:.1f}":
        return f"{most:.1f} points"
    return f"{least:.1f} to {most:.1f} points"


def _extremeness(summary: Summary) -> str:
    """For one event, over-confidence is scores farther from 1/2 than the outcomes are.

    Its standard error is that of the mean gap: the residuals are the same, with other signs.
    """
    diagram = summary["diagram"]
    lean = sum(
        math.copysign(share, said - 0.5) * (said - happened)
        for share, said, happened in zip(
            diagram["proportions"], diagram["confidences"], diagram["accuracies"], strict=True
        )
        if said is not None and said != 0.5
    )
    low, high = _points(summary["estimates"]["mean_gap"], lean)
    if low <= 0 <= high:
        return "Neither over- nor under-confident: the scores are about as far from 50 % as the outcomes."
    word, way = ("Over", "farther from") if low > 0 else ("Under", "nearer to")
    return f"{word}-confident by {_size(low, high)}: the scores are {way} 50 % than the outcomes."


def _gain(summary: Summary) -> str:
    parts = summary["estimates"]
    estimate = parts["miscalibration"]
    gain = estimate["value"]
    issued = gain - parts["discrimination"]["value"] + parts["uncertainty"]["value"]
    of = "the Brier score of the judged event" if summary["diagram"] is not None else "the classes' mean Brier score"
    if gain < 5e-7:
        return f"A monotone recalibration could not lower {of} of {issued:.4f}."
    share = f"{100 * gain / issued:.0f}" if gain >= 0.005 * issued else "less than 1"
    return f"A monotone recalibration could lower {of} from {issued:.4f} by at most {gain:.4f}, {share} % of it."
