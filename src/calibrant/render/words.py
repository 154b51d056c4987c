"""The words of a report, from the dictionary of `Report.to_dict`: verdict and remarks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from calibrant.measures.gap import MEAN_GAP
from calibrant.measures.listed import BY_NAME
from calibrant.measures.means.means import counted_rows
from calibrant.measures.means.oe_ratio import OE_RATIO
from calibrant.measures.profiles import PROFILES
from calibrant.render.style import Estimate, Facts, Group, Summary, Tone, evaluated_event, number, percent, short
from calibrant.results import Code
from calibrant.statistics.design import ROWS, rare
from calibrant.statistics.resampling import alpha_of

_NAMED: Final = 3  # files left out that are named
#: With fewer groups all are shown; otherwise so many of them.
GROUPS_WHOLE: Final = 100
GROUPS_WORST: Final = 20
#: The parts of the verdict, in words.
LEADING: Final = {"mean": "the mean", "spread": "the spread", "ece": "single bins"}
#: Said of every result without clusters.
INDEPENDENT: Final = "rows were taken as independent of each other"
#: The kinds of bins, in words.
BINS: Final = {"uniform": "of equal width", "quantile": "of equal mass"}

_Key = TypeVar("_Key")


def headline(summary: Summary) -> str:
    """Return the number of predictions and the judged event, in words."""
    classes = summary["n_classes"]
    of_classes = f" of {classes:,} {'labels' if summary['notion'] == 'multilabel' else 'classes'}" if classes else ""
    many = f"{summary['n']:,} prediction{'s' * (summary['n'] != 1)}{of_classes}{in_clusters(summary['clusters'])}"
    weight = total_weight(summary) if counted_in(summary) == "weight" else None
    of_weight = "" if weight is None else f", weight {amount(weight)}"
    return f"{many}{of_weight} · {evaluated_event(summary)}"


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
    """Return the number of clusters, and how many independent rows tell as much of the mean gap; nothing without."""
    if clusters is None:
        return ""
    number, rows = clusters["clusters"], clusters.get("effective_rows")
    named = number if isinstance(number, str) else f"{number:,}"
    worth = "" if rows is None else f", worth {rows:,.0f} independent ones (mean gap)"
    return f" in {named} clusters{worth}"


def label_of(summary: Summary, key: str) -> str:
    """Return the label of a measure."""
    return str(summary["measures"][key]["label"])


def shown_estimates(summary: Summary, *, complete: bool = True) -> dict[str, Estimate]:
    """Return the estimates to show: all of a list; of a profile those with a value, or the key measures among them.

    The judged event's Brier score is left out where it is that of all predictions.
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
    return [f"{more} more measure{plural}: --all, in Python report.to_dict()"] if more else []


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


def zero_ends(summary: Summary, keys: Iterable[str]) -> list[str]:
    """Return why intervals begin at 0 although their p-values are small: one sentence, or none."""
    level = summary["level"]
    if level is None:
        return []
    parts = {key: summary["estimates"][key] for key in keys}
    labels = [
        label_of(summary, key)
        for key, part in parts.items()
        if part["low"] == 0 and part["p_value"] is not None and part["p_value"] <= alpha_of(level)
    ]
    if not labels:
        return []
    begins = "the interval begins" if len(labels) == 1 else "the intervals begin"
    bound = f"the lower end is a conservative bound near 0, and above 0 only for p ≤ {alpha_of(level) / 2:.3g}"
    return [f"{', '.join(labels)}: {begins} at 0 although p is small: {bound}"]


def chance(p_value: float, n_resamples: int = 0) -> str:
    """Return a p-value with its sign: "=", or a bound at the limit of the resamples."""
    if n_resamples and math.isclose(p_value, 1 / (n_resamples + 1), rel_tol=1e-9):
        return f"≤ {p_value:.3f}"
    return f"= {p_value:.3f}" if p_value >= 0.0005 else "< 0.001"


# ---------------------------------------------------------------- the verdict


def verdict(summary: Summary) -> list[str]:
    """Return the findings in words: evidence of miscalibration, its direction, the gain of recalibration."""
    return [sentence for sentence, _ in toned_verdict(summary)]


def toned_verdict(summary: Summary) -> list[tuple[str, Tone]]:
    """Return the same sentences, each with its tone: the first one decides, later ones explain or warn."""
    sentences: list[tuple[str, Tone]] = []
    for finding in summary["findings"]:
        code = finding["code"]
        sentence, tone = _SENTENCES[code]
        sentences.append((sentence(finding, summary), tone if not sentences or code in _CAUTIONS else ""))
    sentences += [(sentence, "caution") for sentence in _omissions(summary["omitted"])]
    if count := summary["choices"]["rounded"]:
        sentences.append((f"{rounded(count)}.", ""))
    return [(sentence, tone) for sentence, tone in sentences if sentence]


def _decided(facts: Facts, _: Summary) -> str:
    place, bound, end = ("Below", "most", "high") if facts["code"] == Code.PROVEN else ("Above", "least", "low")
    sure = f"one-sided bound, {percent(facts['level'])}"
    return f"{place} the tolerance of {facts['tolerance']:g}: {_of(facts)} is at {bound} {facts[end]:.4f} ({sure})."


def _undecided(facts: Facts, summary: Summary) -> str:
    what = f"Not decided whether {_of(facts)} is below the tolerance of {facts['tolerance']:g}"
    if any(finding["code"] == Code.RARE_OUTCOME for finding in summary["findings"]):
        return f"{what}: one outcome is too rare."
    more = facts["more_rows"]
    rest = "It is about as large." if more is None else f"About {more:,} more rows would show it."
    return f"{what}: it may lie between {facts['low']:.4f} and {facts['high']:.4f}. {rest}"


def _of(facts: Facts) -> str:
    name = facts["measure"]
    return f"the {'size of the ' * (name == MEAN_GAP.name)}{BY_NAME[name].label}"


def _no_evidence(facts: Facts, summary: Summary) -> str:
    return f"No evidence of miscalibration at this N ({_p(facts, summary)}): {_ece(facts, summary)}."


def _miscalibrated(facts: Facts, summary: Summary) -> str:
    return f"Miscalibrated ({_p(facts, summary)}): mostly {LEADING[facts['leading']]}; {_ece(facts, summary)}."


def _p(facts: Facts, summary: Summary) -> str:
    return f"p {chance(facts['p_value'], summary['n_resamples'])}"


def _ece(facts: Facts, summary: Summary) -> str:
    value, upper, share = facts["ece"], facts["upper"], percent(summary["level"])
    if facts["code"] == Code.NO_EVIDENCE and value > upper:
        return f"the ECE of {value:.4f} by itself is above the {upper:.4f} that noise alone shows in {share} of samples"
    if facts["code"] == Code.MISCALIBRATED and value <= upper:
        noise = f"noise alone: up to {upper:.4f} in {share} of samples"
        return f"the ECE of {value:.4f} by itself would not show it ({noise})"
    return f"the ECE is {value:.4f}, and noise alone shows up to {upper:.4f} in {share} of samples"


def _off_average(facts: Facts, summary: Summary) -> str:
    high = facts["code"] == Code.TOO_HIGH
    if summary["notion"] == "top-label":
        word = "over-confident" if high else "under-confident"
    else:
        word = "too high" if high else "too low"
    if "by_itself" in facts:
        return f"On average {_size(facts)} {word} {_alone(facts)}: {_claim(facts, summary)}."
    return f"{word.capitalize()} by {_size(facts)} on average: {_claim(facts, summary)}."


def _alone(facts: Facts) -> str:
    """Return that a part deviates by itself, though the verdict does not reject calibration."""
    looks = {2: "two", 3: "three"}.get(facts["looks"])
    surprise = "" if looks is None else f", which among {looks} looks is no surprise"
    return f"by itself (p {chance(facts['by_itself'])}){surprise}"


def _right_on_average(facts: Facts, summary: Summary) -> str:
    top = summary["notion"] == "top-label"
    words = "Neither over- nor under-confident" if top else "Neither too high nor too low"
    doubt = ""
    if facts["low"] != facts["high"]:
        low, high = _points(facts["low"], facts["high"], sign="+")
        doubt = f", as far as these rows can tell ({low} to {high} points)"
    return f"{words} on average{doubt}: {_claim(facts, summary)}."


def _claim(facts: Facts, summary: Summary) -> str:
    outcome_words = " and is right in" if summary["notion"] == "top-label" else ", the event happened in"
    predicted, observed = _points(facts["mean_score"], facts["event_rate"], small=1.0)
    return f"it claims {predicted} %{outcome_words} {observed} %"


def _points(*shares: float, sign: str = "", small: float = 0.1) -> list[str]:
    """Return shares in points or per cent: with one decimal, or if all are ``small`` with two digits of the largest."""
    largest = 100 * max(map(abs, shares))
    places = 1 if largest >= small or largest == 0 else 1 - math.floor(math.log10(largest))
    return [f"{100 * share:{sign}.{places}f}" for share in shares]


def _slope_off(facts: Facts, _: Summary) -> str:
    extreme = facts["code"] == Code.TOO_EXTREME
    if facts["value"] is None:
        size = f"a threshold on the scores separates the outcomes{', the event below it' * extreme}"
    elif facts["high"] is not None and facts["high"] <= 0:
        size = f"the event does not happen more often as the scores rise ({_slope_is(facts)})"
    else:
        size = f"{_slope_is(facts)}, and 1 is right"
    alone = f" {_alone(facts)}" if "by_itself" in facts else ""
    return f"{'Too extreme' if extreme else 'Not extreme enough'}{alone}: {size}."


def _slope_is(facts: Facts) -> str:
    """Return the slope with its interval; with that of the inner rows too, where the two intervals are apart."""
    slope = f"the calibration slope is {_interval_of(facts)}"
    if "inner_value" not in facts:
        return slope
    ends = [facts[name] for name in ("inner_low", "high", "low", "inner_high")]
    if facts["code"] != Code.UNCLEAR_SPREAD and (None in ends or (ends[0] <= ends[1] and ends[2] <= ends[3])):
        return slope
    many = f"the {rows_text(facts['moved_from_the_ends'])} with a score within 1e-6 of 0 or 1"
    inner = "it cannot be fitted" if facts["inner_value"] is None else _interval_of(facts, "inner_")
    return f"{slope} if {many} count as 1e-6 or 1 - 1e-6, and {inner} without them"


def _interval_of(facts: Facts, which: str = "") -> str:
    value, low, high = (facts[f"{which}{name}"] for name in ("value", "low", "high"))
    return f"{value:.2f}{'' if low is None else f' ({low:.2f} to {high:.2f})'}"


def _slope_unclear(facts: Facts, _: Summary) -> str:
    slope = "a threshold on the scores separates the outcomes" if facts["value"] is None else _slope_is(facts)
    return f"Whether the scores are too extreme depends on how scores of 0 and 1 count: {slope}."


def _slope_right(facts: Facts, _: Summary) -> str:
    if facts["low"] is None:
        return ""
    slope = f"the calibration slope lies between {facts['low']:.2f} and {facts['high']:.2f}, and 1 is right"
    return f"Rightly spread, as far as these rows can tell: {slope}."


def _size(facts: Facts) -> str:
    """Return the size of a gap in points, by its interval; by its value where the interval has both signs."""
    if facts["low"] <= 0 <= facts["high"]:
        low, high = _points(facts["low"], facts["high"], sign="+")
        (size,) = _points(abs(facts["value"]))
        return f"about {size} points ({low} to {high})"
    least, most = _points(*sorted((abs(facts["low"]), abs(facts["high"]))))
    return f"{most} points" if least == most else f"{least} to {most} points"


def _gain(facts: Facts, summary: Summary) -> str:
    gain, score = facts["gain"], facts["score"]
    score_name = (
        "the Brier score of the judged event" if summary["diagram"] is not None else "the classes' mean Brier score"
    )
    bounded = facts["high"] is not None
    gain = facts["high"] if bounded else gain
    if gain < 5e-7:
        return f"A monotone recalibration could not lower {score_name} of {score:.4f}."
    share = f"{100 * gain / score:.0f}" if gain >= 0.005 * score else "less than 1"
    places = max(4, 1 - math.floor(math.log10(gain))) if gain < 5e-4 else 4
    lower = f"lower {score_name} from {score:.{places}f} by"
    if bounded:
        end = f"(upper end of the {percent(summary['level'])} confidence interval)"
        return f"A monotone recalibration could {lower} at most {gain:.{places}f} {end}, {share} % of it."
    return f"A monotone recalibration would {lower} {gain:.{places}f} on these data, {share} % of it."


def _falling(_: Facts, summary: Summary) -> str:
    what = "predicted class is right" if summary["notion"] == "top-label" else "event happens"
    question = "are the scores, or the columns, those of another outcome?"
    return f"Caution: the {what} less often the higher the score: {question}"


def _whole_weights(facts: Facts, _: Summary) -> str:
    return f"Caution: {counted_rows(facts['rows'], facts['weight'])}."


def _rare(facts: Facts, _: Summary) -> str:
    return f"Caution: {rare(facts['rows'], unit=facts.get('unit', ROWS))}."


_CAUTIONS: Final = (Code.FALLING_CURVE, Code.RARE_OUTCOME, Code.WHOLE_WEIGHTS)

#: What says a finding, and the tone of the sentence: cautions have it everywhere, the others in the first place.
_SENTENCES: Final[dict[str, tuple[Callable[[Facts, Summary], str], Tone]]] = {
    Code.PROVEN: (_decided, "good"),
    Code.DISPROVEN: (_decided, "bad"),
    Code.UNDECIDED: (_undecided, "caution"),
    Code.NO_EVIDENCE: (_no_evidence, "good"),
    Code.MISCALIBRATED: (_miscalibrated, "bad"),
    Code.TOO_HIGH: (_off_average, ""),
    Code.TOO_LOW: (_off_average, ""),
    Code.RIGHT_ON_AVERAGE: (_right_on_average, ""),
    Code.TOO_EXTREME: (_slope_off, ""),
    Code.NOT_EXTREME_ENOUGH: (_slope_off, ""),
    Code.RIGHTLY_SPREAD: (_slope_right, ""),
    Code.UNCLEAR_SPREAD: (_slope_unclear, ""),
    Code.RECALIBRATION_GAIN: (_gain, ""),
    Code.FALLING_CURVE: (_falling, "caution"),
    Code.RARE_OUTCOME: (_rare, "caution"),
    Code.WHOLE_WEIGHTS: (_whole_weights, "caution"),
}


def rounded(count: int) -> str:
    """Say how many probabilities were read as 0 or 1."""
    were = "probabilities were" if count > 1 else "probability was"
    return f"{count:,} {were} outside [0, 1] by rounding alone, and read as 0 or 1"


def _omissions(omitted: Mapping[str, str]) -> list[str]:
    """Return what was left out; the first few by name."""
    if not omitted:
        return []
    first_ones = [f"{name} ({reason})" for name, reason in itertools.islice(omitted.items(), _NAMED)]
    rest = f"; and {len(omitted) - _NAMED:,} more" if len(omitted) > _NAMED else ""
    return [f"Caution: left out, and in none of these numbers: {'; '.join(first_ones)}{rest}."]


# ---------------------------------------------------------------- what stands out of many


def called_out(summary: Summary) -> list[bool]:
    """Return which classes are miscalibrated after the correction for their number."""
    adjusted = summary["classwise"]["adjusted_p_values"]
    if adjusted is None:
        return [False] * len(summary["classwise"]["errors"])
    return [p is not None and p <= alpha_of(summary["level"]) for p in adjusted]


def parts_of(groups: Sequence[Group]) -> str:
    """Return what the test of each group combines; empty if it is the ECE alone."""
    tests = [group["report"]["test"] for group in groups]
    parts = {part for test in tests if test is not None for part in test["details"]["parts"]}
    named = [name for part, name in {"mean": "mean", "spread": "spread", "ece": "ECE"}.items() if part in parts]
    return f"one test of {', '.join(named[:-1])} and {named[-1]}" if len(named) > 1 else ""


def correction(adjusted: Sequence[float | None], marked: Sequence[bool], word: str, plural: str, mark: str = "") -> str:
    """Return how many of the tested groups or classes are miscalibrated after the correction, after their mark."""
    tested = sum(p is not None for p in adjusted)
    if not tested:
        return f"no {word} has enough rows for a test"
    many = f" after Holm's correction for {tested:,} {plural}" if tested > 1 else ""
    return f"{mark}miscalibrated{many}: {sum(marked) or 'none'}"


def multicalibration(summary: Summary) -> list[str]:
    """Return the multicalibration error with its group and its p-value as one sentence; none without it."""
    error = summary["multicalibration"]
    if error is None:
        return []
    infinite = "multicalibration.value" in summary["not_finite"]
    value = "infinite" if infinite else f"{error['value']:.1f} standard deviations"
    group = "all rows" if error["group"] is None else f"group {short(error['group'])}"
    chances = "" if error["p_value"] is None else f", p {chance(error['p_value'])} after Holm's correction"
    return [f"multicalibration error: {value} ({group}){chances}"]


# ---------------------------------------------------------------- remarks


def remarks(summary: Summary, *, complete: bool = True, noise: bool = True) -> list[str]:
    """Return the remarks on the shown numbers; ``noise`` says that noise floors are among them."""
    shown = shown_estimates(summary, complete=complete)
    notes = [*_bins(summary, shown), *_single(summary, shown), *_without_intervals(summary, shown)]
    notes += _missing(summary, shown, complete=complete)
    notes += zero_ends(summary, shown)
    if {"miscalibration", "discrimination", "uncertainty"} <= shown.keys():
        notes.append("miscalibration - discrimination + uncertainty: the Brier score by CORP")
    grid = next((part["details"]["table"] for part in shown.values() if "table" in part["details"]), None)
    if grid is not None:
        notes.append(_exactness(shown, summary, str(grid)))
    if noise and summary["level"] is not None and any(part["floor"] is not None for part in shown.values()):
        tail = f"{100 * summary['level']:g}th percentile"
        notes.append(f"noise: what perfectly calibrated scores show at this N (mean, {tail})")
    if summary["level"] is not None and summary["clusters"] is None:
        notes.append(INDEPENDENT)
    return notes


def _bins(summary: Summary, shown: Mapping[str, Estimate]) -> list[str]:
    """Return the bins of the measures, in words."""
    measures = summary["measures"]
    labels = gathered((measures[key]["binning"], label_of(summary, key)) for key in shown)
    bins = [f"{', '.join(labels[kind])}: {summary['n_bins']} bins {BINS[kind]}" for kind in labels if kind is not None]
    return ["; ".join(bins)] if bins else []


def _single(summary: Summary, shown: Mapping[str, Estimate]) -> list[str]:
    """Return remarks on single measures, from their details."""
    notes = []
    for key, part in shown.items():
        label, details = label_of(summary, key), part["details"]
        if "infinite_rows" in details:
            notes.append(f"{label}: infinite because of {rows_text(details['infinite_rows'])} with probability 0")
        if "moved_from_the_ends" in details:
            moved = rows_text(details["moved_from_the_ends"])
            notes.append(f"{label}: {moved} with a score within 1e-6 of 0 or 1, which counts as 1e-6 or 1 - 1e-6")
        if "bin" in details:
            ends = f"{details['left']:.3f} – {details['right']:.3f}"
            many = f"weight {amount(count)}" if isinstance(count := details["count"], float) else f"{count:,} rows"
            notes.append(f"{label}: the worst is bin {ends} with {many}")
        if "worst_class" in details:
            notes.append(f"{label}: worst is class {short(details['worst_class'])} with {details['worst']:.4f}")
        if summary["measures"][key]["scale"] == "square" and (part["value"] or 0.0) < 0:
            notes.append(f"{label}: below 0 by chance; the true value cannot be negative")
        if part["value"] is None and not is_infinite(part):
            notes.append(f"{label}: {part['method']}")
        if key == OE_RATIO.name and part["floor"] is not None:
            notes.append(f"{label}: its noise is the distance from 1")
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
            notes.append(f"{label_of(summary, key)}: no bin holds {details['least_rows']} rows ({worst})")
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
    certified = f"certified to be within: {', '.join(errors)}; the others are" if errors else "every number shown is"
    uncertified = [label for label, bound in bounds.items() if bound is None]
    doubt = f"; no certified error for: {', '.join(uncertified)}" if uncertified else ""
    return f"from a sketch ({grid}), {certified} exact to the digits shown{doubt}"
