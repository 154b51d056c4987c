"""The verdict of a report in at most twelve kinds of sentences, from the dictionary of `Report.to_dict`.

Their order: cautions, the evidence, its direction, the slope, the size of the error, what recalibration would gain,
the tolerance, dependence, groups. A sentence gives an estimate, its confidence interval and its ideal value.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from calibrant.measures.gap import MEAN_GAP
from calibrant.measures.listed import BY_NAME
from calibrant.measures.means.means import counted_rows
from calibrant.render.style import Facts, Summary, Tone, is_clustered, percent, short
from calibrant.render.words import amount, chance, rounded, rows_text, texts
from calibrant.results import Code
from calibrant.statistics.design import MINORITY, ROWS

_NAMED: Final = 3  # inputs left out, and groups, that are named

_Findings = Mapping[str, Facts]
_Sentences = Iterator[tuple[str, Tone]]


class _Terms(NamedTuple):
    """What the two sides of a difference are called, and its directions: above 0, below 0, and either."""

    predicted: str
    observed: str
    over: str
    under: str
    either: str
    outcomes: tuple[str, str]


_CONFIDENCE: Final = _Terms(
    "mean confidence",
    "accuracy",
    "over-confident",
    "under-confident",
    "over- or under-confidence",
    ("correct prediction", "incorrect prediction"),
)
_EVENT: Final = _Terms(
    "mean predicted probability",
    "observed frequency",
    "overestimates the event",
    "underestimates the event",
    "over- or underestimation",
    ("event", "non-event"),
)


_MEANS: Final = (Code.TOO_HIGH, Code.TOO_LOW, Code.RIGHT_ON_AVERAGE)
_SLOPES: Final = (Code.TOO_EXTREME, Code.NOT_EXTREME_ENOUGH, Code.RIGHTLY_SPREAD, Code.UNCLEAR_SPREAD)


def _terms(summary: Summary) -> _Terms:
    return _CONFIDENCE if summary["notion"] == "top-label" else _EVENT


def verdict(summary: Summary) -> list[str]:
    """Return the findings in words: cautions first, then the evidence and what explains it."""
    return [sentence for sentence, _ in toned_verdict(summary)]


def toned_verdict(summary: Summary) -> list[tuple[str, Tone]]:
    """Return the same sentences, each with its tone; without a tone a sentence explains."""
    findings = {finding["code"]: finding for finding in summary["findings"]}
    parts = (_cautions, _evidence, _direction, _slope, _alone, _size, _gain, _tolerance, _dependence, _groups)
    pooled: list[tuple[str, Tone]] = [(text, "caution") for text in [summary.get("source", {}).get("pooled")] if text]
    return [*pooled, *(sentence for part in parts for sentence in part(findings, summary))]


def deciding(summary: Summary) -> str:
    """Return the sentence that decides: about the tolerance, or without one about the evidence."""
    findings = {finding["code"]: finding for finding in summary["findings"]}
    part = _evidence if summary["decision"] is None else _tolerance
    return " ".join(sentence for sentence, _ in part(findings, summary))


def title(summary: Summary) -> tuple[str, Tone]:
    """Return the headline of a page with its tone: the decision, or the evidence with its direction."""
    findings = {finding["code"]: finding for finding in summary["findings"]}
    tolerance = summary["decision"] and f"the tolerance of {summary['decision']['tolerance']:g}"
    if Code.PROVEN in findings:
        return f"Within {tolerance}", "good"
    if Code.DISPROVEN in findings:
        return f"Above {tolerance}", "bad"
    if Code.RARE_OUTCOME in findings:
        return "Too little data", "caution"
    if Code.UNDECIDED in findings:
        return f"Inconclusive for {tolerance}", ""
    if Code.MISCALIBRATED in findings:
        terms = _terms(summary)
        direction = [
            word
            for code, word in (
                (Code.TOO_HIGH, terms.over),
                (Code.TOO_LOW, terms.under),
                (Code.TOO_EXTREME, "predictions are too extreme"),
                (Code.NOT_EXTREME_ENOUGH, "predictions are too moderate"),
            )
            if code in findings
        ]
        return ": ".join(["Evidence of miscalibration", *direction[:1]]), "bad"
    return ("No evidence of miscalibration" if Code.NO_EVIDENCE in findings else "Calibration report"), ""


class KeyNumber(NamedTuple):
    """A number of the first screen: its name, its value, its interval, and what it is compared with."""

    label: str
    value: str
    interval: str
    compared: str


def key_numbers(summary: Summary) -> list[KeyNumber]:
    """Return the difference in the large, the slope and the ECE, if the report has them."""
    findings = {finding["code"]: finding for finding in summary["findings"]}
    return [number for part in (_key_difference, _key_slope, _key_ece) for number in part(findings, summary)]


def _key_difference(findings: _Findings, summary: Summary) -> Iterator[KeyNumber]:
    facts = _first(findings, *_MEANS)
    if facts is not None:
        value, *ends = _percentages(facts["value"], facts["low"], facts["high"], sign="+", marks=[0.0])
        yield KeyNumber("difference in percentage points", value, _interval(summary, ends), "ideal 0")


def _key_slope(findings: _Findings, summary: Summary) -> Iterator[KeyNumber]:
    facts = _first(findings, *_SLOPES)
    if facts is not None and facts["value"] is not None:
        value, *ends = _slope_texts(facts)
        yield KeyNumber("calibration slope", value, _interval(summary, ends), "ideal 1")


def _key_ece(findings: _Findings, summary: Summary) -> Iterator[KeyNumber]:
    facts = _first(findings, Code.MISCALIBRATED, Code.NO_EVIDENCE)
    if facts is None:
        ece = summary["estimates"].get("ece")
        facts = None if ece is None else {"ece": ece["value"], "low": None, "high": None, "upper": None}
    if facts is None or facts["ece"] is None:
        return
    value, ends, upper = _ece_texts(facts)
    yield KeyNumber("ECE", value, _interval(summary, ends), f"calibrated: below {upper}" if upper else "")


def _interval(summary: Summary, ends: list[str]) -> str:
    return f"{percent(summary['level'])} CI {ends[0]} to {ends[1]}" if summary["level"] is not None and ends else ""


def next_steps(summary: Summary) -> list[str]:
    """Return what a reader may do next: more rows, groups to look at, dependence to declare, recalibration."""
    findings = {finding["code"]: finding for finding in summary["findings"]}
    steps = []
    if Code.IMPOSSIBLE_OUTCOMES in findings:
        steps.append("Check the rows with impossible outcomes, and whether the scores were rounded to 0 and 1.")
    if Code.FALLING_CURVE in findings:
        steps.append("Check that the scores and the outcomes belong together.")
    if Code.RARE_OUTCOME in findings:
        steps.append(f"Collect more data, until each outcome has at least {MINORITY} rows (or clusters).")
    elif Code.UNDECIDED in findings and findings[Code.UNDECIDED]["more_rows"] is not None:
        steps.append(f"Collect about {findings[Code.UNDECIDED]['more_rows']:,} more rows to settle the tolerance.")
    flagged = [short(group["name"]) for group in summary["groups"] if group["called_out"]]
    if flagged:
        more = f" and {len(flagged) - _NAMED:,} more" if len(flagged) > _NAMED else ""
        steps.append(f"Look at the groups with evidence of miscalibration: {', '.join(flagged[:_NAMED])}{more}.")
    if Code.MISCALIBRATED in findings and Code.FALLING_CURVE not in findings:
        steps.append("Fit a map of the scores on held-out rows, with calibrant recalibrate.")
    if summary["level"] is not None and summary["clusters"] is None:
        steps.append(
            "If one patient or user has several rows, name the column of patients or users with --cluster "
            "(clusters in Python)."
        )
    return steps


# ---------------------------------------------------------------- cautions, evidence


def _cautions(findings: _Findings, summary: Summary) -> _Sentences:
    if Code.IMPOSSIBLE_OUTCOMES in findings:
        yield _impossible(findings[Code.IMPOSSIBLE_OUTCOMES], summary), "caution"
    if Code.RARE_OUTCOME in findings:
        yield _too_little(findings, summary), "caution"
    if Code.FALLING_CURVE in findings:
        what = "predictions with higher confidence are correct" if _terms(summary) is _CONFIDENCE else "events occur"
        yield (
            f"Caution: {what} less often as the score rises. Check that the scores and the outcomes belong together.",
            "caution",
        )
    if Code.WHOLE_WEIGHTS in findings:
        facts = findings[Code.WHOLE_WEIGHTS]
        yield f"Caution: {counted_rows(facts['rows'], facts['weight'])}.", "caution"
    omitted: Mapping[str, str] = summary["omitted"]
    if omitted:
        first_ones = [f"{name} ({reason})" for name, reason in itertools.islice(omitted.items(), _NAMED)]
        rest = f"; and {len(omitted) - _NAMED:,} more" if len(omitted) > _NAMED else ""
        yield f"Caution: these inputs are left out of all numbers: {'; '.join(first_ones)}{rest}.", "caution"
    if count := summary["choices"]["rounded"]:
        yield f"{rounded(count)}.", ""


def _impossible(facts: Facts, summary: Summary) -> str:
    """Say how many outcomes the scores exclude, and what follows if the scores are exact and if they are rounded."""
    exact, other = facts["p_value"] == 0, chance(facts["p_value_of_sums"], summary["n_resamples"])
    counts = zip((facts["events"], facts["non_events"]), _terms(summary).outcomes, ("0", "1"), strict=True)
    kinds = [
        f"{amount(count)} {kind}{'s' * (count != 1)} with a score of {score}" for count, kind, score in counts if count
    ]
    rows = facts["events"] + facts["non_events"]
    are = f"{amount(rows)} outcomes are" if rows != 1 else "1 outcome is"
    if exact:
        return (
            f"Caution: {are} impossible according to the scores: {' and '.join(kinds)}. Calibrated scores never have "
            f"such outcomes, so p = 0. If the scores were rounded to 0 and 1, the test of all rows gives p {other}."
        )
    return (
        f"Caution: {are} nearly impossible according to the scores, with a predicted probability of at most "
        f"{facts['least']:.1g}. Calibrated scores have such outcomes with probability {facts['p_value']:.1g} at most. "
        f"Otherwise the test of all rows gives p {other}."
    )


def _too_little(findings: _Findings, summary: Summary) -> str:
    facts = findings[Code.RARE_OUTCOME]
    if facts["rows"] == 0:
        what = "every row has the same outcome"
    else:
        event, other = _terms(summary).outcomes
        rarer = event if summary["outcome_rate"] <= 0.5 else other
        unit = facts.get("unit", ROWS)
        many = f"{facts['rows']:.4g} {rarer if unit == ROWS else unit}{'s' * (facts['rows'] != 1)}"
        what = f"{many}{'' if unit == ROWS else f' with {rarer}s'}, fewer than {MINORITY}"
    return f"Too little data for reliable inference: {what}. Treat p-values and intervals as rough."


def _evidence(findings: _Findings, summary: Summary) -> _Sentences:
    if Code.MISCALIBRATED in findings:
        value = findings[Code.MISCALIBRATED]["p_value"]
        exact = Code.IMPOSSIBLE_OUTCOMES in findings and value == 0
        p_value = "= 0" if exact else chance(value, summary["n_resamples"])
        yield f"Evidence of miscalibration (p {p_value}).", "bad"
    if Code.NO_EVIDENCE in findings:
        facts = findings[Code.NO_EVIDENCE]
        sentence = f"No evidence of miscalibration (p {chance(facts['p_value'], summary['n_resamples'])})."
        if facts["high"] is not None:
            (high,) = texts([facts["high"]], _places(facts["high"]))
            upper = f"upper end of the {percent(summary['level'])} CI"
            sentence += f" The data are compatible with an ECE of up to {high} ({upper})."
        yield sentence, ""


# ---------------------------------------------------------------- direction and slope


def _direction(findings: _Findings, summary: Summary) -> _Sentences:
    facts = _first(findings, *_MEANS)
    if facts is None:
        return
    terms, ends = _terms(summary), [facts["low"], facts["high"]]
    predicted, observed = _percentages(facts["mean_score"], facts["event_rate"])
    if facts.get("by_construction"):
        numbers = f"{terms.predicted} {predicted} %, {terms.observed} {observed} %"
        yield f"The difference is 0 by construction: the outcomes of each cluster add up to its scores ({numbers}).", ""
        return
    difference, *interval = _percentages(facts["value"], *ends, sign="+", marks=[0.0])
    what = f"difference {difference} percentage points"
    if summary["level"] is not None and ends[0] != ends[1]:
        what += f", {_interval(summary, interval)}"
    numbers = f"{terms.predicted} {predicted} %, {terms.observed} {observed} % ({what})"
    if facts["code"] == Code.RIGHT_ON_AVERAGE or "by_itself" in facts:
        yield f"No clear {terms.either}: {numbers}.", ""
    else:
        word = terms.over if facts["code"] == Code.TOO_HIGH else terms.under
        yield f"{word[0].upper()}{word[1:]}: {numbers}.", ""


def _percentages(*shares: float, sign: str = "", marks: Iterable[float] = ()) -> list[str]:
    """Return shares in percent: with one decimal place, or small ones with two digits of the largest."""
    numbers = [100 * share for share in shares]
    largest = max(map(abs, numbers))
    places = 1 if largest >= 1 or largest == 0 else 1 - math.floor(math.log10(largest))
    return texts(numbers, places, list(marks), sign)


def _slope(findings: _Findings, summary: Summary) -> _Sentences:
    facts = _first(findings, *_SLOPES)
    if facts is None or (facts["code"] == Code.RIGHTLY_SPREAD and facts["low"] is None):
        return
    slope = _slope_in_words(facts, summary)
    if facts["code"] == Code.UNCLEAR_SPREAD:
        yield f"Whether predictions are too extreme depends on how scores of 0 and 1 are counted: {slope}.", ""
    elif facts["code"] == Code.RIGHTLY_SPREAD or "by_itself" in facts:
        yield f"{slope[0].upper()}{slope[1:]}.", ""
    else:
        word = "extreme" if facts["code"] == Code.TOO_EXTREME else "moderate"
        rises = "" if facts["high"] is None or facts["high"] > 0 else "; events are not more frequent at higher scores"
        yield f"Predictions are too {word}: {slope}{rises}.", ""


def _slope_in_words(facts: Facts, summary: Summary) -> str:
    """Return the slope with its interval; also without the rows at 0 and 1, where the two intervals are apart."""
    if facts["value"] is None:
        side = ", with the events below the threshold" if facts["code"] == Code.TOO_EXTREME else ""
        return f"a threshold separates events from non-events{side}, so the calibration slope is not finite"
    slope = f"calibration slope {_estimate(facts, summary)}"
    if "inner_value" not in facts:
        return slope
    ends = [facts[name] for name in ("inner_low", "high", "low", "inner_high")]
    if facts["code"] != Code.UNCLEAR_SPREAD and (None in ends or (ends[0] <= ends[1] and ends[2] <= ends[3])):
        return slope
    rows = f"the {rows_text(facts['moved_from_the_ends'])} with a score within 1e-6 of 0 or 1"
    without = "no slope" if facts["inner_value"] is None else _estimate(facts, summary, "inner_")
    return f"{slope} if {rows} are counted as 1e-6 or 1 - 1e-6, and {without} without these rows"


def _estimate(facts: Facts, summary: Summary, which: str = "") -> str:
    value, *ends = _slope_texts(facts, which)
    return f"{value} ({'; '.join(filter(None, (_interval(summary, ends), 'ideal 1')))})"


def _slope_texts(facts: Facts, which: str = "") -> list[str]:
    """Return the slope, and the ends of its interval if both are known."""
    numbers = [facts[f"{which}{name}"] for name in ("value", "low", "high")]
    return texts(numbers[:1] if None in numbers else numbers, 2, [1.0])


def _alone(findings: _Findings, _: Summary) -> _Sentences:
    """Yield which components would be significant alone, although the overall test is not."""
    components = {
        "mean difference": _first(findings, Code.TOO_HIGH, Code.TOO_LOW),
        "slope": _first(findings, Code.TOO_EXTREME, Code.NOT_EXTREME_ENOUGH),
    }
    alone = [
        f"{name}, unadjusted p {chance(facts['by_itself'])}"
        for name, facts in components.items()
        if facts is not None and "by_itself" in facts
    ]
    if alone:
        many = "One component" if len(alone) == 1 else "Two components"
        yield f"Not significant overall. {many} alone would be: {'; '.join(alone)}.", ""


# ---------------------------------------------------------------- size, gain, tolerance


def _places(value: float) -> int:
    """Return the decimal places of an error: three, or as many as show two digits."""
    return 3 if value <= 0 else min(max(3, 1 - math.floor(math.log10(value))), 9)


def _size(findings: _Findings, summary: Summary) -> _Sentences:
    facts = _first(findings, Code.MISCALIBRATED, Code.NO_EVIDENCE)
    if facts is None:
        return
    value, ends, upper = _ece_texts(facts)
    sentence = f"ECE {value}" + (f" ({_interval(summary, ends)})" if ends else "")
    if upper:
        level = percent(summary["level"])
        sentence += f"; a perfectly calibrated model would stay below {upper} in {level} of samples of this size"
    yield f"{sentence}.", ""


def _ece_texts(facts: Facts) -> tuple[str, list[str], str]:
    """Return the ECE, the ends of its interval if it has one, and the upper limit of calibrated models or nothing."""
    ece, upper = facts["ece"], facts["upper"]
    ends = [] if facts["high"] is None else [facts["low"], facts["high"]]
    value, *interval = texts([ece, *ends], _places(ece), [] if upper is None else [upper])
    return value, interval, "" if upper is None else texts([upper], _places(ece), [ece])[0]


def _gain(findings: _Findings, summary: Summary) -> _Sentences:
    facts = _first(findings, Code.RECALIBRATION_GAIN)
    if facts is None:
        return
    gain, score = facts["gain"], facts["score"]
    top = "top-label " * (_terms(summary) is _CONFIDENCE)
    name = f"the {top}Brier score" if summary["diagram"] is not None else "the mean Brier score of the classes"
    if gain < 5e-7:
        yield f"Isotonic recalibration would not lower {name} on these data.", ""
        return
    share = f"{100 * gain / score:.0f} %" if gain >= 0.005 * score else "less than 1 %"
    before, by = texts([score, gain], max(_places(gain) if gain < 5e-4 else 3, 3), [0.0])
    lower = f"Isotonic recalibration would lower {name} on these data from {before} by {by} ({share})"
    yield f"{lower}; expect less on new data (see calibrant recalibrate).", ""


def _tolerance(findings: _Findings, _: Summary) -> _Sentences:
    facts = _first(findings, Code.PROVEN, Code.DISPROVEN, Code.UNDECIDED)
    if facts is None:
        return
    tolerance, level = facts["tolerance"], percent(facts["level"])
    name = BY_NAME[facts["measure"]].label
    name = f"the size of the {name}" if facts["measure"] == MEAN_GAP.name else name
    limit = f"the tolerance of {tolerance:g}"
    bounds = [end for end in (facts["low"], facts["high"]) if end is not None]
    low, high = texts(bounds, 3, [tolerance]) if len(bounds) == 2 else ("", "")
    if facts["code"] == Code.PROVEN:
        sentence = f"{name} is within {limit}: upper {level} confidence bound {high}."
        yield sentence[0].upper() + sentence[1:], "good"
    elif facts["code"] == Code.DISPROVEN:
        sentence = f"{name} exceeds {limit}: lower {level} confidence bound {low}."
        yield sentence[0].upper() + sentence[1:], "bad"
    else:
        sentence = f"Inconclusive for a tolerance of {tolerance:g}"
        sentence += f": {level} confidence bounds {low} and {high}." if high else "."
        yield f"{sentence}{_more_rows(findings, facts, name)}", "caution"


def _more_rows(findings: _Findings, facts: Facts, name: str) -> str:
    """Return how many more rows would settle an inconclusive tolerance."""
    if Code.RARE_OUTCOME in findings:
        return f" A decision needs at least {MINORITY} rows (or clusters) with each outcome."
    if facts["more_rows"] is None:
        return " The estimate is too close to the tolerance to say how many more rows would settle it."
    return f" About {facts['more_rows']:,} more rows would settle it if the true {name} equals the estimate."


# ---------------------------------------------------------------- dependence, groups


def _dependence(findings: _Findings, summary: Summary) -> _Sentences:
    if summary["level"] is None:
        return
    if summary["clusters"] is None:
        yield "Confidence intervals and p-values assume independent rows.", ""
        return
    if not is_clustered(summary):
        yield "Each cluster has one row, so the rows are independent.", ""
        return
    number, rows = summary["clusters"]["clusters"], summary["clusters"].get("effective_rows")
    named = number if isinstance(number, str) else f"{number:,}"
    fixed = any(finding.get("by_construction") for finding in findings.values())
    worth = (
        ""
        if fixed or rows is None
        else f"; for the mean difference the data are worth about {rows:,.0f} independent rows"
    )
    yield f"Confidence intervals and p-values allow for dependence within {named} clusters{worth}.", ""


def _groups(_: _Findings, summary: Summary) -> _Sentences:
    groups = summary["groups"]
    tested = [group for group in groups if group["adjusted_p_value"] is not None]
    if not tested:
        return
    flagged = [group for group in tested if group["called_out"]]
    small = len(groups) - len(tested)
    if not flagged:
        counts = f"{len(tested):,} tested" + (f", {small:,} too small" if small else "")
        yield f"No group shows evidence of miscalibration after Holm correction ({counts}).", ""
        return
    flagged.sort(key=lambda group: (group["adjusted_p_value"], -abs(group["mean_gap"]["value"] or 0.0)))
    names = [
        f"{short(group['name'])} ({_percentages(group['mean_gap']['value'], sign='+')[0]} percentage points)"
        for group in flagged[:_NAMED]
    ]
    more = f" and {len(flagged) - _NAMED:,} more" if len(flagged) > _NAMED else ""
    show = "shows" if len(flagged) == 1 else "show"
    many = f"{len(flagged):,} of {len(tested):,} groups {show} evidence of miscalibration after Holm correction"
    yield f"{many}: {', '.join(names)}{more}.", ""


def _first(findings: _Findings, *codes: Code) -> Facts | None:
    return next((findings[code] for code in codes if code in findings), None)
