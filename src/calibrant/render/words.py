"""The words of a report, from the dictionary of `Report.to_dict`: verdict and remarks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from calibrant.render.style import EVENTS, Summary, number, percent, short
from calibrant.results import Code
from calibrant.sampling.means import rare

_NAMED: Final = 3  # files left out that are named
_BINS: Final = {"uniform": "of equal width", "quantile": "of equal mass"}

Facts = Mapping[str, Any]


def headline(summary: Summary) -> str:
    """Return the number of predictions and the judged event, in words."""
    classes = summary["n_classes"]
    of_classes = f" of {classes:,} {'labels' if summary['notion'] == 'multilabel' else 'classes'}" if classes else ""
    return f"{summary['n']:,} prediction{'s' * (summary['n'] != 1)}{of_classes} · judged: {EVENTS[summary['notion']]}"


def label_of(summary: Summary, key: str) -> str:
    """Return the label of a measure."""
    return str(summary["measures"][key]["label"])


def shown_estimates(summary: Summary) -> dict[str, Facts]:
    """Return the estimates to show: those with a value for a profile, all for a list."""
    estimates: dict[str, Facts] = summary["estimates"]
    if summary["profile"] is None:
        return dict(estimates)
    return {key: part for key, part in estimates.items() if part["value"] is not None or is_infinite(part)}


def is_infinite(part: Facts) -> bool:
    """Return whether a value is missing from the dictionary because it is infinite."""
    return part["value"] is None and "infinite_rows" in part["details"]


def value_text(part: Facts, write: Callable[[float], str]) -> str:
    """Return the value of an estimate as text; a dash if it is missing."""
    if part["value"] is None:
        return number(None) if is_infinite(part) else "–"
    return write(part["value"])


def chance(p_value: float, n_resamples: int = 0) -> str:
    """Return a p-value with its sign: "=", or a bound at the limit of the resamples."""
    if n_resamples and math.isclose(p_value, 1 / (n_resamples + 1), rel_tol=1e-9):
        return f"≤ {p_value:.3f}"
    return f"= {p_value:.3f}" if p_value >= 0.0005 else "< 0.001"


# ---------------------------------------------------------------- the verdict


def verdict(summary: Summary) -> list[str]:
    """Return the findings in words: evidence of miscalibration, its direction, the gain of recalibration."""
    sentences = [_SENTENCES[finding["code"]](finding, summary) for finding in summary["findings"]]
    return sentences + _omissions(summary["omitted"])


def _no_evidence(facts: Facts, summary: Summary) -> str:
    return f"No evidence of miscalibration at this N: the ECE is {facts['value']:.4f}, and {_noise(facts, summary)}."


def _miscalibrated(facts: Facts, summary: Summary) -> str:
    p_value = chance(facts["p_value"], summary["n_resamples"])
    return f"Miscalibrated: the ECE is {facts['value']:.4f}, where {_noise(facts, summary)} (p {p_value})."


def _noise(facts: Facts, summary: Summary) -> str:
    return f"noise alone shows up to {facts['upper']:.4f} in {percent(summary['level'])} of samples"


def _off_average(facts: Facts, summary: Summary) -> str:
    high = facts["code"] == Code.TOO_HIGH
    if summary["notion"] == "top-label":
        word = "Over-confident" if high else "Under-confident"
    else:
        word = "Too high" if high else "Too low"
    return f"{word} by {_size(facts)} on average: {_claim(facts, summary)}."


def _right_on_average(facts: Facts, summary: Summary) -> str:
    top = summary["notion"] == "top-label"
    words = "Neither over- nor under-confident" if top else "Neither too high nor too low"
    return f"{words} on average{_as_far(facts, '+')}: {_claim(facts, summary)}."


def _claim(facts: Facts, summary: Summary) -> str:
    outcome_words = " and is right in" if summary["notion"] == "top-label" else ", the event happened in"
    return f"it claims {100 * facts['mean_score']:.1f} %{outcome_words} {100 * facts['event_rate']:.1f} %"


def _confidence_off(facts: Facts, _: Summary) -> str:
    word, way = ("Over", "farther from") if facts["code"] == Code.OVER_CONFIDENT else ("Under", "nearer to")
    return f"{word}-confident by {_size(facts)}: the scores are {way} 50 % than the outcomes."


def _rightly_confident(facts: Facts, _: Summary) -> str:
    doubt = _as_far(facts, "+z")
    return f"Neither over- nor under-confident{doubt}: the scores are about as far from 50 % as the outcomes."


def _as_far(facts: Facts, sign: str) -> str:
    """Return the uncertainty, as an interval in percentage points; empty without an interval."""
    if facts["low"] == facts["high"]:
        return ""
    low, high = (f"{100 * facts[end]:{sign}.1f}" for end in ("low", "high"))
    return f", as far as these rows can tell ({low} to {high} points)"


def _size(facts: Facts) -> str:
    least, most = (f"{100 * size:.1f}" for size in sorted((abs(facts["low"]), abs(facts["high"]))))
    return f"{most} points" if least == most else f"{least} to {most} points"


def _gain(facts: Facts, summary: Summary) -> str:
    gain, score = facts["gain"], facts["score"]
    score_name = (
        "the Brier score of the judged event" if summary["diagram"] is not None else "the classes' mean Brier score"
    )
    if gain < 5e-7:
        return f"A monotone recalibration could not lower {score_name} of {score:.4f}."
    share = f"{100 * gain / score:.0f}" if gain >= 0.005 * score else "less than 1"
    return f"A monotone recalibration could lower {score_name} from {score:.4f} by at most {gain:.4f}, {share} % of it."


def _falling(_: Facts, summary: Summary) -> str:
    what = "predicted class is right" if summary["notion"] == "top-label" else "event happens"
    question = "are the scores, or the columns, those of another outcome?"
    return f"Caution: the {what} less often the higher the score: {question}"


def _rare(facts: Facts, _: Summary) -> str:
    return f"Caution: {rare(facts['rows'])}."


_SENTENCES: Final[dict[str, Callable[[Facts, Summary], str]]] = {
    Code.NO_EVIDENCE: _no_evidence,
    Code.MISCALIBRATED: _miscalibrated,
    Code.TOO_HIGH: _off_average,
    Code.TOO_LOW: _off_average,
    Code.RIGHT_ON_AVERAGE: _right_on_average,
    Code.OVER_CONFIDENT: _confidence_off,
    Code.UNDER_CONFIDENT: _confidence_off,
    Code.RIGHTLY_CONFIDENT: _rightly_confident,
    Code.RECALIBRATION_GAIN: _gain,
    Code.FALLING_CURVE: _falling,
    Code.RARE_OUTCOME: _rare,
}


def _omissions(omitted: Mapping[str, str]) -> list[str]:
    """Return what was left out; the first few by name."""
    if not omitted:
        return []
    first_ones = [f"{name} ({reason})" for name, reason in itertools.islice(omitted.items(), _NAMED)]
    rest = f"; and {len(omitted) - _NAMED:,} more" if len(omitted) > _NAMED else ""
    return [f"Caution: left out, and in none of these numbers: {'; '.join(first_ones)}{rest}."]


# ---------------------------------------------------------------- remarks


def remarks(summary: Summary) -> list[str]:
    """Return the remarks on single numbers."""
    shown = shown_estimates(summary)
    notes = [*_bins(summary, shown), *_single(summary, shown)]
    if {"miscalibration", "discrimination", "uncertainty"} <= shown.keys():
        notes.append("miscalibration - discrimination + uncertainty: the Brier score by CORP")
    grid = next((part["details"]["table"] for part in shown.values() if "table" in part["details"]), None)
    if grid is not None:
        notes.append(_exactness(summary, str(grid)))
    if summary["level"] is not None and any(part["floor"] is not None for part in shown.values()):
        tail = f"{100 * summary['level']:g}th percentile"
        notes.append(f"noise: what perfectly calibrated scores show at this N (mean, {tail})")
    return notes


def _bins(summary: Summary, shown: Mapping[str, Facts]) -> list[str]:
    """Return the bins of the measures, in words."""
    labels: dict[str, list[str]] = {}
    for key in shown:
        binning = summary["measures"][key]["binning"]
        if binning is not None:
            labels.setdefault(binning, []).append(label_of(summary, key))
    bins = [f"{', '.join(names)}: {summary['n_bins']} bins {_BINS[binning]}" for binning, names in labels.items()]
    return ["; ".join(bins)] if bins else []


def _single(summary: Summary, shown: Mapping[str, Facts]) -> list[str]:
    """Return remarks on single measures, from their details."""
    notes = []
    for key, part in shown.items():
        label, details = label_of(summary, key), part["details"]
        if "infinite_rows" in details:
            notes.append(f"{label}: {details['infinite_rows']:,} outcomes with probability 0 happened")
        if "bin" in details:
            ends = f"{details['left']:.3f} – {details['right']:.3f}"
            notes.append(f"{label}: the worst is bin {ends} with {details['count']:,} rows")
        if "worst_class" in details:
            notes.append(f"{label}: worst is class {short(details['worst_class'])} with {details['worst']:.4f}")
        if summary["measures"][key]["scale"] == "square" and (part["value"] or 0.0) < 0:
            notes.append(f"{label}: below 0 by chance; the true value cannot be negative")
        if part["value"] is None and not is_infinite(part):
            notes.append(f"{label}: {part['method']}")
    missing = summary["estimates"].keys() - shown.keys()
    for key in (key for key in summary["estimates"] if key in missing):
        details = summary["estimates"][key]["details"]
        if "of_all_bins" in details:
            worst = f"{details['of_all_bins']:.4f} over all bins"
            notes.append(f"{label_of(summary, key)}: no bin holds {details['least_rows']} rows ({worst})")
    return notes


def _exactness(summary: Summary, grid: str) -> str:
    """Return the certified errors of a sketch's numbers, if four digits show them."""
    bounds = {label_of(summary, key): part["error_bound"] for key, part in shown_estimates(summary).items()}
    errors = [f"{label} {bound:.4f}" for label, bound in bounds.items() if bound is not None and bound >= 5e-5]
    certified = f"certified to be within: {', '.join(errors)}; the others are" if errors else "every number shown is"
    uncertified = [label for label, bound in bounds.items() if bound is None]
    doubt = f"; no certified error for: {', '.join(uncertified)}" if uncertified else ""
    return f"from a sketch ({grid}), {certified} exact to the digits shown{doubt}"
