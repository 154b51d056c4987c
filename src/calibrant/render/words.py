"""The words of a report, from the dictionary of `Report.to_dict`: its first line, what is flagged, remarks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from calibrant.measures.means.oe_ratio import OE_RATIO
from calibrant.measures.profiles import PROFILES
from calibrant.render.style import Estimate, Facts, Group, Summary, evaluated_event, number, short
from calibrant.results import Code
from calibrant.statistics.resampling import alpha_of

_MOST_PLACES: Final = 9  # decimal places
#: The components of the verdict's test, in words.
COMPONENTS: Final = {"mean": "calibration in the large", "spread": "the calibration slope", "ece": "the ECE"}
_USUAL_LEVELS: Final = (0.01, 0.05, 0.1)  # of significance
#: With fewer groups all are shown; otherwise so many of them.
GROUPS_WHOLE: Final = 100
GROUPS_WORST: Final = 20
#: The kinds of bins, in words.
BINS: Final = {"uniform": "of equal width", "quantile": "of equal frequency"}

_Key = TypeVar("_Key")


def headline(summary: Summary) -> str:
    """Return the number of predictions and the evaluated event, in words."""
    weight = total_weight(summary) if counted_in(summary) == "weight" else None
    parts = [
        f"{summary['n']:,} prediction{'s' * (summary['n'] != 1)}{in_clusters(summary['clusters'])}",
        classes_text(summary),
        "" if weight is None else f"weight {amount(weight)}",
    ]
    return f"{', '.join(filter(None, parts))} ({evaluated_event(summary)})"


def classes_text(summary: Summary) -> str:
    """Return the number of classes or labels; nothing without."""
    word = "labels" if summary["notion"] == "multilabel" else "classes"
    return f"{summary['n_classes']:,} {word}" if summary["n_classes"] else ""


def counted_in(summary: Summary) -> str:
    """Return what the counts of a report are numbers of: rows, or their weight."""
    counts = (summary["diagram"] or {}).get("counts") or summary["classwise"]["bins"]["count"]
    return counted(counts)


def counted(counts: Iterable[float]) -> str:
    """Return what counts are numbers of: rows, or their weight."""
    return "weight" if any(isinstance(count, float) for count in counts) else "rows"


def total_weight(summary: Summary) -> float | None:
    """Return the weight of all rows; None if rows lack some of their labels."""
    if summary["diagram"] is not None:
        return float(sum(summary["diagram"]["counts"]))
    totals: dict[int, float] = {}
    for k, count in zip(*(summary["classwise"]["bins"][name] for name in ("class", "count")), strict=True):
        totals[k] = totals.get(k, 0.0) + count
    least, most = min(totals.values()), max(totals.values())
    return most if most - least <= 1e-9 * most else None


def amount(count: float) -> str:
    """Return a number of rows, or their weight."""
    return f"{count:,.0f}" if float(count).is_integer() else f"{count:,.1f}"


def rows_text(count: float) -> str:
    """Return a number of rows with the word."""
    return f"{amount(count)} row{'s' * (count != 1)}"


def gathered(pairs: Iterable[tuple[_Key, str]]) -> dict[_Key, list[str]]:
    """Return the names with each key, both in their order."""
    names: dict[_Key, list[str]] = {}
    for key, name in pairs:
        names.setdefault(key, []).append(name)
    return names


def in_clusters(clusters: Facts | None) -> str:
    """Return the number of clusters; nothing without."""
    if clusters is None:
        return ""
    number = clusters["clusters"]
    return f" in {number if isinstance(number, str) else f'{number:,}'} clusters"


def label_of(summary: Summary, key: str) -> str:
    """Return the label of a measure."""
    return str(summary["measures"][key]["label"])


def shown_estimates(summary: Summary, *, complete: bool = True) -> dict[str, Estimate]:
    """Return the estimates to show: all of a list; of a profile those with a value, or the key measures among them.

    The Brier score of the event is left out where it is that of all predictions.
    """
    estimates: dict[str, Estimate] = summary["estimates"]
    if summary["listed"]:
        return dict(estimates)
    held = {key: part for key, part in estimates.items() if part["value"] is not None or is_infinite(part)}
    scores = [held[key]["value"] or 0.0 for key in ("brier", "brier_event") if key in held]
    if len(scores) == 2 and math.isclose(*scores, rel_tol=1e-9):
        del held["brier_event"]
    if complete:
        return held
    tolerated = () if summary["decision"] is None else (summary["decision"]["measure"],)
    keys = [key for key in dict.fromkeys((*PROFILES[summary["profile"]].key_measures, *tolerated)) if key in held]
    return {key: held[key] for key in keys} or held


def more_measures(summary: Summary, shown: Mapping[str, Estimate]) -> list[str]:
    """Return how to see the measures that are not shown: one sentence, or none."""
    more = len(shown_estimates(summary)) - len(shown)
    plural = "s" * (more != 1)
    return [f"{more} more measure{plural}: add --all, or use report.to_dict() in Python"] if more else []


def worst_groups(summary: Summary) -> list[int]:
    """Return the indices of the groups to show: all in their order, or of many the worst by their evidence first."""
    groups = summary["groups"]
    return worst([group["p_value"] for group in groups], [group["ece"]["value"] or 0.0 for group in groups])


def worst(p_values: Sequence[float | None], errors: Sequence[float]) -> list[int]:
    """Return the indices of all groups in order, or of many the smallest p-values first, then the largest errors."""
    indices = list(range(len(p_values)))
    if len(indices) < GROUPS_WHOLE:
        return indices
    ranks = [(2.0 if p is None else p, -abs(error)) for p, error in zip(p_values, errors, strict=True)]
    return sorted(indices, key=ranks.__getitem__)[:GROUPS_WORST]


def is_infinite(part: Estimate) -> bool:
    """Return whether a value is missing from the dictionary because it is infinite."""
    return part["value"] is None and "infinite_rows" in part["details"]


def value_text(part: Estimate, write: Callable[[float], str]) -> str:
    """Return the value of an estimate as text; a dash if it is missing."""
    if part["value"] is None:
        return number(None) if is_infinite(part) else "–"
    return write(part["value"])


def no_interval(part: Estimate) -> str:
    """Return why an estimate has no interval, without the remedy."""
    return str(part["method"]).partition("; ")[0]


def disagreements(summary: Summary, keys: Iterable[str]) -> list[str]:
    """Return why the p-value and the interval of a measure disagree about its ideal value: a sentence for each reason.

    They agree if the interval excludes the ideal value exactly where the p-value is small.
    """
    level = summary["level"]
    if level is None:
        return []
    alpha, excluded = (
        alpha_of(level),
        any(finding["code"] == Code.IMPOSSIBLE_OUTCOMES for finding in summary["findings"]),
    )
    zero = f"the lower end is conservative: it is above 0 only if p ≤ {alpha / 2:.3g}"
    spread = "p takes the variance of calibrated outcomes, and the CI that of the observed outcomes"
    reasons: list[tuple[str, str]] = []
    for key in keys:
        part, measure = summary["estimates"][key], summary["measures"][key]
        if None in (part["p_value"], part["low"], part["high"]):
            continue
        ideal, small = float(measure["scale"] == "ratio"), part["p_value"] <= alpha
        if small != (part["low"] <= ideal <= part["high"]):
            continue
        if not small:
            reason = f"the CI does not contain {ideal:g} although p is above {alpha:.3g}, because {spread}"
        elif excluded:
            reason = f"the CI contains {ideal:g} although p is small, because only p counts impossible outcomes"
        elif part["low"] == ideal == 0:
            reason = f"the lower end of the CI is 0 although p is small, because {zero}"
        else:
            reason = f"the CI contains {ideal:g} although p is small, because {spread}"
        reasons.append((reason, label_of(summary, key)))
    return [f"{', '.join(labels)}: {reason}" for reason, labels in gathered(reasons).items()]


def texts(values: Iterable[float], places: int, marks: Sequence[float] = (), sign: str = "") -> list[str]:
    """Return numbers with so many decimal places, or with more where rounding would hide that one is not at a mark."""
    values = list(values)
    while places < _MOST_PLACES and any(
        value != mark and f"{value:z.{places}f}" == f"{mark:z.{places}f}" for value in values for mark in marks
    ):
        places += 1
    return [f"{value:{sign}z.{places}f}" for value in values]


def chance(p_value: float, n_resamples: int = 0) -> str:
    """Return a p-value with its sign: "=", or a bound at the limit of the simulated data sets."""
    if n_resamples and math.isclose(p_value, 1 / (n_resamples + 1), rel_tol=1e-9):
        return f"≤ {p_value:.3f}"
    return f"= {texts([p_value], 3, _USUAL_LEVELS)[0]}" if p_value >= 0.0005 else "< 0.001"


def rounded(count: int) -> str:
    """Say how many probabilities were read as 0 or 1."""
    were = "probabilities were" if count > 1 else "probability was"
    return f"{count:,} {were} outside [0, 1] because of rounding and read as 0 or 1"


# ---------------------------------------------------------------- what stands out of many


def called_out(summary: Summary) -> list[bool]:
    """Return which classes show evidence of miscalibration after the correction for their number."""
    adjusted = summary["classwise"]["adjusted_p_values"]
    if adjusted is None:
        return [False] * len(summary["classwise"]["errors"])
    return [p is not None and p <= alpha_of(summary["level"]) for p in adjusted]


def parts_of(groups: Sequence[Group]) -> str:
    """Return what the test of each group combines; empty if it is the ECE alone."""
    tests = [group["report"]["test"] for group in groups]
    parts = {part for test in tests if test is not None for part in test["details"]["parts"]}
    named = [name for part, name in COMPONENTS.items() if part in parts]
    return f"one test of {', '.join(named[:-1])} and {named[-1]}" if len(named) > 1 else ""


def correction(adjusted: Sequence[float | None], marked: Sequence[bool], word: str, plural: str, mark: str = "") -> str:
    """Return how many of the tested groups or classes are flagged after the correction, after their mark."""
    tested = sum(p is not None for p in adjusted)
    if not tested:
        return f"no {word} has enough rows for a test"
    corrected = " after Holm correction" if tested > 1 else ""
    of = f"of {tested:,} {plural if tested > 1 else word}"
    return f"{mark}evidence of miscalibration{corrected}: {sum(marked) or 'none'} {of}"


def multicalibration(summary: Summary) -> list[str]:
    """Return the multicalibration error with its group and its p-value as one sentence; none without it."""
    error = summary["multicalibration"]
    if error is None:
        return []
    infinite = "multicalibration.value" in summary["not_finite"]
    value = "infinite" if infinite else f"{error['value']:.1f} standard deviations"
    group = "all rows" if error["group"] is None else f"group {short(error['group'])}"
    adjusted = "" if error["p_value"] is None else f" (Holm-adjusted p {chance(error['p_value'])})"
    return [f"multicalibration error: {value} in {group}{adjusted}"]


# ---------------------------------------------------------------- remarks


def remarks(summary: Summary, *, complete: bool = True, noise: bool = True) -> list[str]:
    """Return the remarks on the shown numbers; ``noise`` tells whether noise floors are among them."""
    shown = shown_estimates(summary, complete=complete)
    notes = [*_bins(summary, shown), *_single(summary, shown, noise=noise), *_without_intervals(summary, shown)]
    notes += _missing(summary, shown, complete=complete)
    notes += disagreements(summary, shown)
    if {"miscalibration", "discrimination", "uncertainty"} <= shown.keys():
        notes.append("Brier score = miscalibration - discrimination + uncertainty (CORP decomposition)")
    grid = next((part["details"]["table"] for part in shown.values() if "table" in part["details"]), None)
    if grid is not None:
        notes.append(_exactness(shown, summary, str(grid)))
    if noise and summary["level"] is not None and any(part["floor"] is not None for part in shown.values()):
        notes.append(calibrated(summary))
    return notes


def calibrated(summary: Summary) -> str:
    """Return what the columns of a perfectly calibrated model hold."""
    drawn, tail = summary["n_resamples"], f"{100 * summary['level']:g}th percentile"
    source = f"{drawn:,} simulated data sets" if drawn else "closed form"
    return f"calibrated: mean and {tail} for a perfectly calibrated model with these predictions ({source})"


def _bins(summary: Summary, shown: Mapping[str, Estimate]) -> list[str]:
    """Return the bins of the measures, in words."""
    measures = summary["measures"]
    labels = gathered((measures[key]["binning"], label_of(summary, key)) for key in shown)
    bins = [f"{', '.join(labels[kind])}: {summary['n_bins']} bins {BINS[kind]}" for kind in labels if kind is not None]
    return ["; ".join(bins)] if bins else []


def _single(summary: Summary, shown: Mapping[str, Estimate], *, noise: bool) -> list[str]:
    """Return remarks on single measures, from their details."""
    notes = []
    for key, part in shown.items():
        label, details = label_of(summary, key), part["details"]
        if "infinite_rows" in details:
            many = details["infinite_rows"]
            had = f"{amount(many)} observed outcome{'s' * (many != 1)} had predicted probability 0"
            notes.append(f"{label} is infinite: {had}")
        if "moved_from_the_ends" in details:
            moved = rows_text(details["moved_from_the_ends"])
            notes.append(f"{label}: {moved} with a score within 1e-6 of 0 or 1 counted as 1e-6 or 1 - 1e-6")
        if "bin" in details:
            ends = f"{details['left']:.3f} to {details['right']:.3f}"
            many = f"weight {amount(count)}" if isinstance(count := details["count"], float) else f"{count:,} rows"
            notes.append(f"{label}: the largest difference is in the bin {ends} with {many}")
        if "worst_class" in details:
            notes.append(f"{label}: largest for class {short(details['worst_class'])}, {details['worst']:.4f}")
        if summary["measures"][key]["scale"] == "square" and (part["value"] or 0.0) < 0:
            notes.append(f"{label}: the estimate is negative by chance; the true value is at least 0")
        if part["value"] is None and not is_infinite(part):
            notes.append(f"{label}: {part['method']}")
        if noise and key == OE_RATIO.name and part["floor"] is not None:
            notes.append(f'{label}: the columns under "calibrated" are for |O:E - 1|')
    return notes


def _missing(summary: Summary, shown: Mapping[str, Estimate], *, complete: bool) -> list[str]:
    """Return remarks on measures of a profile without a value, from their details."""
    notes = []
    missing = summary["estimates"].keys() - shown.keys()
    for key in (key for key in summary["estimates"] if key in missing):
        details = summary["estimates"][key]["details"]
        if "unkept_classes" in details:
            notes.append(f"{label_of(summary, key)}: {details['reason']}")
        if complete and "of_all_bins" in details:
            worst = f"{details['of_all_bins']:.4f} over all bins"
            notes.append(f"{label_of(summary, key)}: no bin has at least {details['least_rows']} rows ({worst})")
    return notes


def _without_intervals(summary: Summary, shown: Mapping[str, Estimate]) -> list[str]:
    """Return why estimates have no interval, each reason once."""
    labels = gathered(
        (str(part["method"]).partition("; floor: ")[0], label_of(summary, key))
        for key, part in shown.items()
        if summary["level"] is not None and part["low"] is None and part["value"] is not None
    )
    return [f"{', '.join(names)}: {reason}" for reason, names in labels.items()]


def _exactness(shown: Mapping[str, Estimate], summary: Summary, grid: str) -> str:
    """Return the certified errors of a sketch's numbers, if four digits show them."""
    bounds = {label_of(summary, key): part["error_bound"] for key, part in shown.items()}
    errors = [f"{label} {bound:.4f}" for label, bound in bounds.items() if bound is not None and bound >= 5e-5]
    certified = f"largest errors: {', '.join(errors)}; all other numbers are" if errors else "all numbers shown are"
    uncertified = [label for label, bound in bounds.items() if bound is None]
    doubt = f"; the error is unknown for {', '.join(uncertified)}" if uncertified else ""
    return f"computed from a sketch ({grid}); {certified} exact to the digits shown{doubt}"
