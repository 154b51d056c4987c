"""What a report says in words, from the dictionary that `Report.to_dict` returns: names, the verdict, remarks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any, Final

from calibrant.render.style import EVENTS, Summary, percent, short

#: The measures by the words for them, in the order in which they are shown.
LABELS: Final = {
    "accuracy": "accuracy",
    "mean_confidence": "mean confidence",
    "mean_gap": "mean gap",
    "brier": "Brier score",
    "nll": "log loss",
    "ece": "ECE",
    "ace": "adaptive ECE",
    "classwise_ece": "classwise ECE",
    "smece": "smooth ECE",
    "rmsce": "RMSCE",
    "debiased_square": "debiased square",
    "mce": "MCE",
    "ks": "KS error",
    "miscalibration": "miscalibration",
    "discrimination": "discrimination",
    "uncertainty": "uncertainty",
}

#: What each measure is, for those who meet it for the first time.
MEANINGS: Final = {
    "accuracy": "The share of rows whose predicted class is right. Higher is better.",
    "mean_confidence": "The mean score of the judged event: what was claimed, on average.",
    "mean_gap": "What was claimed minus what happened, on average. 0 is right; above 0, too much was claimed.",
    "brier": "The mean squared distance between the probabilities and what happened. Lower is better.",
    "nll": "The mean of minus the logarithm of the probability of what happened. Lower is better.",
    "ece": "Expected calibration error: the mean gap between claimed and happened, over bins of equal width.",
    "ace": "The same over bins of equally many rows.",
    "classwise_ece": "The mean over classes of the expected calibration error of each class's own probability.",
    "smece": "Smooth calibration error: the gap after smoothing over scores, with no bins to choose.",
    "rmsce": "Root mean square calibration error: as the ECE, with large gaps counting more.",
    "debiased_square": "The square of RMSCE without the part that noise adds; 0 on average if the scores are right.",
    "mce": "Maximum calibration error: the largest gap of a bin.",
    "ks": "The largest gap that adds up over a range of scores, as a share of all rows.",
    "miscalibration": "The part of the Brier score that the best monotone recalibration would take away.",
    "discrimination": "The part of the Brier score that telling cases apart earns. Larger is better.",
    "uncertainty": "The Brier score of always giving the base rate.",
}


_NAMED: Final = 3  # of what was left out


def headline(summary: Summary) -> str:
    """Say how many predictions were judged, and which event."""
    classes = summary["n_classes"]
    of = f" of {classes:,} {'labels' if summary['notion'] == 'multilabel' else 'classes'}" if classes else ""
    return f"{summary['n']:,} prediction{'s' * (summary['n'] != 1)}{of} · judged: {EVENTS[summary['notion']]}"


def shown_estimates(summary: Summary) -> dict[str, Mapping[str, Any]]:
    """Return the estimates that have a value, or an infinite one, in the order of `LABELS`."""
    parts = summary["estimates"]
    return {
        key: parts[key]
        for key in LABELS
        if parts[key]["value"] is not None or (key == "nll" and "infinite_rows" in parts[key]["details"])
    }


def verdict(summary: Summary) -> list[str]:
    """Say whether there is evidence of miscalibration, which way it goes, and what recalibration could gain."""
    sentences = [_evidence(summary)] if summary["level"] is not None else []
    if summary["diagram"] is not None:
        sentences.append(_lean(summary))
        if summary["notion"] == "positive":
            sentences.append(_extremeness(summary))
    sentences.append(_gain(summary))
    if summary["diagram"] is not None and summary["level"] is not None and _falls(summary):
        what = "predicted class is right" if summary["notion"] == "top-label" else "event happens"
        asked = "are the scores, or the columns, those of another outcome?"
        sentences.append(f"Caution: the {what} less often the higher the score: {asked}")
    flag = next((e["details"]["flag"] for e in summary["estimates"].values() if "flag" in e["details"]), None)
    if flag is not None:
        sentences.append(f"Caution: {flag}.")
    return sentences + _omissions(summary["omitted"])


def _omissions(omitted: Mapping[str, str]) -> list[str]:
    """Say what was left out, the first few by name."""
    if not omitted:
        return []
    named = [f"{name} ({reason})" for name, reason in itertools.islice(omitted.items(), _NAMED)]
    more = f"; and {len(omitted) - _NAMED:,} more" if len(omitted) > _NAMED else ""
    return [f"Caution: left out, and in none of these numbers: {'; '.join(named)}{more}."]


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
    return max(100 * (value - half), -100.0), min(100 * (value + half), 100.0)


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
        told = "" if low == high else f", as far as these rows can tell ({low:+z.1f} to {high:+z.1f} points)"
        return f"Neither over- nor under-confident{told}: the scores are about as far from 50 % as the outcomes."
    word, way = ("Over", "farther from") if low > 0 else ("Under", "nearer to")
    return f"{word}-confident by {_size(low, high)}: the scores are {way} 50 % than the outcomes."


def _falls(summary: Summary) -> bool:
    """Say whether the outcome rate falls with the score beyond doubt: by four standard errors of the slope."""
    bins, rate = summary["diagram"], summary["outcome_rate"]
    rows = [
        (share, said, happened)
        for share, said, happened in zip(bins["proportions"], bins["confidences"], bins["accuracies"], strict=True)
        if said is not None
    ]
    mean = sum(share * said for share, said, _ in rows)
    together = sum(share * (said - mean) * (happened - rate) for share, said, happened in rows)
    spread = sum(share * (said - mean) ** 2 for share, said, _ in rows)
    return bool(together < -4 * math.sqrt(spread * rate * (1 - rate) / summary["n"]))


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


def _exactness(summary: Summary, grid: str) -> str:
    """Say how far the numbers of a sketch can be from those of the predictions, where four digits show it."""
    bounds = {key: part["error_bound"] for key, part in shown_estimates(summary).items()}
    seen = [f"{LABELS[key]} {bound:.4f}" for key, bound in bounds.items() if bound is not None and bound >= 5e-5]
    known = f"certified to be within: {', '.join(seen)}; the others are" if seen else "every number shown is"
    unknown = [LABELS[key] for key, bound in bounds.items() if bound is None]
    doubt = f"; no bound is known of: {', '.join(unknown)}" if unknown else ""
    return f"from a sketch ({grid}), {known} exact to the digits shown{doubt}"


def remarks(summary: Summary) -> list[str]:
    """Return what belongs to single numbers."""
    parts = summary["estimates"]
    notes = [f"ECE, RMSCE, MCE: {summary['n_bins']} bins of equal width; adaptive: of equal mass"]
    rows = parts["nll"]["details"].get("infinite_rows")
    if rows is not None:
        notes.append(f"log loss: {rows:,} outcomes happened that had probability 0")
    worst = parts["mce"]["details"]
    if "count" in worst:
        place = f"bin {worst['left']:.3f} – {worst['right']:.3f}, {worst['count']:,} rows"
        notes.append(f"MCE: of bins with {worst['least_rows']} rows; the worst: {place}")
    elif "of_all_bins" in worst:
        notes.append(f"MCE: no bin holds {worst['least_rows']} rows ({worst['of_all_bins']:.4f} over all bins)")
    worst = parts["classwise_ece"]["details"]
    if "worst" in worst:
        notes.append(f"classwise ECE: worst is class {short(worst['worst_class'])} with {worst['worst']:.4f}")
    if (parts["debiased_square"]["value"] or 0.0) < 0:
        notes.append("debiased square: below 0 by chance; what it estimates, and so its interval, is not")
    notes.append("miscalibration - discrimination + uncertainty: the Brier score by CORP")
    grid = parts["ece"]["details"].get("table")
    if grid is not None:
        notes.append(_exactness(summary, str(grid)))
    if summary["level"] is not None:
        share = percent(summary["level"])
        notes.append(f"noise: what calibrated scores show at this N, on average and up to in {share} of samples")
    return notes
