"""The verdict of a report in at most twelve kinds of sentences, from its findings.

Their order: cautions, the evidence, its direction, the slope, the size of the error, what recalibration would gain,
the tolerance, dependence, groups. A sentence gives an estimate, its confidence interval and its ideal value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from calibrant.measures.binned.binned import LEAST_ROWS
from calibrant.measures.listed import BY_NAME
from calibrant.measures.means.in_the_large import MEAN_GAP
from calibrant.measures.means.means import counted_rows, heavy
from calibrant.render.blocks import KeyNumber, Sentence, Source
from calibrant.render.reliability import outside
from calibrant.render.words import (
    amount,
    capital,
    chance,
    clusters_text,
    event_of,
    impossible_kinds,
    is_clustered,
    named,
    percent,
    percentages,
    rounded,
    rows_text,
    short,
    terms_of,
    texts,
)
from calibrant.report.evaluated_data import ONE_IMAGE
from calibrant.results import Code
from calibrant.statistics.design import MINORITY, ROWS, large

if TYPE_CHECKING:
    from calibrant.report.report import Report

_NAMED: Final = 3  # inputs left out, and groups, that are named

_MEANS: Final = (Code.TOO_HIGH, Code.TOO_LOW, Code.RIGHT_ON_AVERAGE)
_SLOPES: Final = (Code.TOO_EXTREME, Code.NOT_EXTREME_ENOUGH, Code.RIGHTLY_SPREAD, Code.UNCLEAR_SPREAD)
_DECISIONS: Final = (Code.PROVEN, Code.DISPROVEN, Code.UNDECIDED)
_EVIDENCE: Final = (Code.MISCALIBRATED, Code.NO_EVIDENCE)

_Facts = Mapping[str, Any]
_Findings = Mapping[Code, _Facts]


def _found(findings: _Findings, codes: Sequence[Code]) -> tuple[Code, _Facts] | None:
    """Return the one that was found of several exclusive findings."""
    return next(((code, findings[code]) for code in codes if code in findings), None)


def _findings_of(report: Report) -> _Findings:
    return {finding.code: finding.facts for finding in report.findings}


def verdict_of(report: Report, source: Source) -> list[Sentence]:
    """Return the findings in words: cautions first, then the evidence and what explains it."""
    findings = _findings_of(report)
    parts = (_cautions, _evidence, _direction, _slope, _alone, _size, _gain, _tolerance, _dependence, _groups)
    pooled = [Sentence(source.pooled, "caution")] if source.pooled else []
    return [*pooled, *(sentence for part in parts for sentence in part(report, findings))]


def deciding(report: Report) -> str:
    """Return the sentence that decides: about the tolerance, or without one about the evidence."""
    part = _evidence if report.decision is None else _tolerance
    return " ".join(sentence.text for sentence in part(report, _findings_of(report)))


def about_groups(report: Report) -> list[Sentence]:
    """Return which groups show evidence of miscalibration; nothing without tested groups."""
    return list(_groups(report, {}))


def conclusion_of(report: Report) -> Sentence:
    """Return the headline of a page: the decision, or the evidence with its direction."""
    findings = _findings_of(report)
    tolerance = "" if report.decision is None else f"the tolerance of {report.decision.tolerance:g}"
    if Code.PROVEN in findings:
        return Sentence(f"Within {tolerance}", "good")
    if Code.DISPROVEN in findings:
        return Sentence(f"Above {tolerance}", "bad")
    if Code.RARE_OUTCOME in findings:
        return Sentence("Too little data", "caution")
    if Code.UNDECIDED in findings:
        return Sentence(f"Inconclusive for {tolerance}")
    if Code.MISCALIBRATED in findings:
        terms = terms_of(report.notion)
        words = {
            Code.TOO_HIGH: terms.over,
            Code.TOO_LOW: terms.under,
            Code.TOO_EXTREME: "predictions are too extreme",
            Code.NOT_EXTREME_ENOUGH: "predictions are too moderate",
        }
        direction = [word for code, word in words.items() if code in findings]
        return Sentence(": ".join(["Evidence of miscalibration", *direction[:1]]), "bad")
    return Sentence("No evidence of miscalibration" if Code.NO_EVIDENCE in findings else "Calibration report")


# ---------------------------------------------------------------- one plain sentence


def plainly(report: Report, source: Source) -> str:
    """Return one sentence without terms of statistics: what was predicted in some rows, and what was observed there.

    These are the rows of the bin that contributes most to the ECE, among the bins outside their consistency band, if
    the test of calibration rejects; otherwise those of the bin with the most rows. If no bin has enough rows, all rows.
    Empty for few rows, and if every class is evaluated.
    """
    bins = report.diagram
    if bins is None or report.n < LEAST_ROWS:
        return ""
    filled = bins.counts > 0
    scores, rates, counts, shares = (
        x[filled] for x in (bins.confidences, bins.accuracies, bins.counts, bins.proportions)
    )
    enough = shares * report.n >= LEAST_ROWS
    sizes = shares
    if report.miscalibrated:
        enough, sizes = enough & outside(bins), shares * np.abs(scores - rates)
    when, predicted, observed, count = "On average,", (shares * scores).sum(), (shares * rates).sum(), counts.sum()
    if enough.any():
        which = int(np.argmax(np.where(enough, sizes, -1.0)))
        when, predicted, observed, count = "When", scores[which], rates[which], counts[which]
    said, seen = _briefly(predicted, observed)
    unit = "units of weight" if bins.counts.dtype.kind == "f" else "rows"
    number = f"{amount(round(float(observed * count), 1))} of {amount(round(float(count), 1))} {unit}"
    if report.notion == "top-label":
        return f"{when} the model was about {said} % sure{_AND[when]}it was right in {seen} % of the cases ({number})."
    event = f"the event ({event_of(report.notion, source)})"
    return f"{when} the score said about {said} %{_AND[when]}{event} occurred in {seen} % of the cases ({number})."


#: What stands between both halves of the plain sentence.
_AND: Final = {"When": ", ", "On average,": ", and "}


def _briefly(*shares: float) -> list[str]:
    """Return shares in percent: whole ones if these differ and are not near 0 or 100."""
    whole = [f"{100 * share:.0f}" for share in shares]
    near = any(0 < share < 0.01 or 0.99 < share < 1 for share in shares)
    return percentages(*shares) if near or len(set(whole)) < len(whole) else whole


# ---------------------------------------------------------------- key numbers, next steps


def key_numbers(report: Report) -> list[KeyNumber]:
    """Return the difference in the large, the slope and the ECE, if the report has them."""
    findings, numbers = _findings_of(report), []
    mean, slope = _found(findings, _MEANS), _found(findings, _SLOPES)
    if mean is not None:
        value, *interval = percentages(*map(mean[1].__getitem__, ("value", "low", "high")), sign="+", marks=[0.0])
        numbers.append(KeyNumber("difference in percentage points", value, _interval(report, interval), "ideal 0"))
    if slope is not None and math.isfinite(slope[1]["value"]):
        value, *interval = _slope_texts(slope[1])
        numbers.append(KeyNumber("calibration slope", value, _interval(report, interval), "ideal 1"))
    tested, ece = _found(findings, _EVIDENCE), report.estimates.get("ece")
    if tested is not None:
        value, interval, upper = _ece_texts(tested[1])
        compared = f"calibrated: below {upper}" if upper else ""
        numbers.append(KeyNumber("ECE", value, _interval(report, interval), compared))
    elif ece is not None and not math.isnan(ece.value):
        numbers.append(KeyNumber("ECE", texts([ece.value], _places(ece.value))[0], "", ""))
    return numbers


def _interval(report: Report, ends: Sequence[str]) -> str:
    return f"{percent(report.level)} CI {ends[0]} to {ends[1]}" if report.level is not None and ends else ""


def next_steps(report: Report) -> list[str]:
    """Return what a reader may do next: more rows, groups to look at, dependence to declare, recalibration."""
    findings, steps = _findings_of(report), []
    if Code.IMPOSSIBLE_OUTCOMES in findings:
        steps.append(
            "Check the rows whose outcome had a predicted probability of 0 or nearly 0, and whether the scores were "
            "rounded to 0 and 1."
        )
    if Code.FALLING_CURVE in findings:
        steps.append("Check that the scores and the outcomes belong together.")
    if Code.RARE_OUTCOME in findings:
        steps.append(f"Collect more data, until each outcome has at least {MINORITY} rows (or clusters).")
    elif Code.UNDECIDED in findings and findings[Code.UNDECIDED]["more_rows"] is not None:
        facts = findings[Code.UNDECIDED]
        name = _measure_of(facts).removeprefix("the ")
        steps.append(
            f"Collect about {facts['more_rows']:,} more rows to decide whether the {name} is within the tolerance."
        )
    flagged = [short(group.name) for group in report.groups if group.called_out]
    if flagged:
        steps.append(f"Examine the groups with evidence of miscalibration: {named(flagged, _NAMED)}.")
    if Code.MISCALIBRATED in findings and Code.FALLING_CURVE not in findings:
        steps.append("Recalibrate the scores on held-out rows, with calibrant recalibrate.")
    if report.level is not None and report.clusters is None:
        steps.append(
            "If one patient or user has several rows, name the column of patients or users with --cluster "
            "(clusters in Python)."
        )
    return steps


# ---------------------------------------------------------------- cautions, evidence


def _cautions(report: Report, findings: _Findings) -> Iterator[Sentence]:
    cautions: dict[Code, Callable[[Report, _Facts], str]] = {
        Code.IMPOSSIBLE_OUTCOMES: _impossible,
        Code.RARE_OUTCOME: _too_little,
        Code.FALLING_CURVE: _falling,
        Code.LARGE_CLUSTER: lambda _, facts: f"Caution: {large(facts['share'])}.",
        Code.HEAVY_WEIGHTS: lambda _, facts: f"Caution: {heavy(facts['rows'])}.",
        Code.ONE_IMAGE: lambda *_: f"Caution: {ONE_IMAGE}.",
        Code.WHOLE_WEIGHTS: lambda _, facts: f"Caution: {counted_rows(facts['rows'], facts['weight'])}.",
    }
    yield from (Sentence(say(report, findings[code]), "caution") for code, say in cautions.items() if code in findings)
    if report.omitted:
        inputs = [f"{name} ({reason})" for name, reason in report.omitted.items()]
        more = f"; and {len(inputs) - _NAMED:,} more" if len(inputs) > _NAMED else ""
        listed = f"{'; '.join(inputs[:_NAMED])}{more}"
        yield Sentence(f"Caution: these inputs are not evaluated: {listed}.", "caution")
    if report.choices.rounded:
        yield Sentence(f"{rounded(report.choices.rounded)}.")


def _impossible(report: Report, facts: _Facts) -> str:
    """Say how many outcomes the scores exclude, and what follows if the scores are exact and if they are rounded."""
    other = chance(facts["p_value_of_sums"], report.n_resamples)
    rows = facts["events"] + facts["non_events"]
    are = f"{amount(rows)} outcomes are" if rows != 1 else "1 outcome is"
    if facts["p_value"] == 0:
        kinds = impossible_kinds(facts["events"], facts["non_events"], terms_of(report.notion))
        return (
            f"Caution: {are} impossible according to the scores: {kinds}. Calibrated scores never have such "
            "outcomes, so p = 0. If the scores were only rounded to 0 and 1, use the p-value that is computed without "
            f"a special case for impossible outcomes: p {other}."
        )
    return (
        f"Caution: {are} nearly impossible according to the scores, with a predicted probability of at most "
        f"{facts['least']:.1g}. For calibrated scores, the probability that the data contain any outcome as unlikely "
        f"as the least likely one is at most {facts['p_value']:.1g}. The reported p-value is the smaller of two: this "
        f"bound, and the p-value without it (p {other})."
    )


def _too_little(report: Report, facts: _Facts) -> str:
    if facts["rows"] == 0:
        what = "every row has the same outcome"
    else:
        event, other = terms_of(report.notion).outcomes
        rarer = event if facts["of_event"] else other
        unit = facts.get("unit", ROWS)
        many = f"{facts['rows']:.4g} {rarer if unit == ROWS else unit}{'s' * (facts['rows'] != 1)}"
        what = f"{many}{'' if unit == ROWS else f' with {rarer}s'}, fewer than {MINORITY}"
    return f"Too little data for reliable inference: {what}. Treat p-values and intervals as rough."


def _falling(report: Report, _: _Facts) -> str:
    is_top = report.notion == "top-label"
    what = "predictions with higher confidence are correct" if is_top else "events occur"
    return f"Caution: {what} less often as the score rises. Check that the scores and the outcomes belong together."


def _evidence(report: Report, findings: _Findings) -> Iterator[Sentence]:
    if Code.MISCALIBRATED in findings:
        p_value = findings[Code.MISCALIBRATED]["p_value"]
        exact = Code.IMPOSSIBLE_OUTCOMES in findings and p_value == 0
        said = "= 0" if exact else chance(p_value, report.n_resamples)
        yield Sentence(f"Evidence of miscalibration (p {said}).", "bad")
    if Code.NO_EVIDENCE in findings:
        facts = findings[Code.NO_EVIDENCE]
        sentence = f"No evidence of miscalibration (p {chance(facts['p_value'], report.n_resamples)})."
        if report.level is not None and math.isfinite(facts["high"]):
            (high,) = texts([facts["high"]], _places(facts["high"]))
            upper = f"upper end of the {percent(report.level)} CI"
            sentence += f" The data are compatible with an ECE of up to {high} ({upper})."
        yield Sentence(sentence)


# ---------------------------------------------------------------- direction and slope


def _direction(report: Report, findings: _Findings) -> Iterator[Sentence]:
    found = _found(findings, _MEANS)
    if found is None:
        return
    code, facts = found
    terms, ends = terms_of(report.notion), [facts["low"], facts["high"]]
    predicted, observed = percentages(facts["mean_score"], facts["event_rate"])
    numbers = f"{terms.predicted} {predicted} %, {terms.observed} {observed} %"
    if facts.get("by_construction"):
        why = "the outcomes of each cluster add up to the sum of its scores"
        yield Sentence(f"The mean difference is 0 by construction, because {why} ({numbers}).")
        return
    difference, *interval = percentages(facts["value"], *ends, sign="+", marks=[0.0])
    what = f"difference {difference} percentage points"
    if report.level is not None and ends[0] != ends[1]:
        what += f", {_interval(report, interval)}"
    claim = f"No clear {terms.either}"
    if code != Code.RIGHT_ON_AVERAGE and "by_itself" not in facts:
        claim = capital(terms.over if code == Code.TOO_HIGH else terms.under)
    yield Sentence(f"{claim}: {numbers} ({what}).")


def _slope(report: Report, findings: _Findings) -> Iterator[Sentence]:
    found = _found(findings, _SLOPES)
    if found is None or (found[0] == Code.RIGHTLY_SPREAD and not math.isfinite(found[1]["low"])):
        return
    code, facts = found
    slope = _slope_in_words(report, code, facts)
    if code == Code.UNCLEAR_SPREAD:
        yield Sentence(f"Whether predictions are too extreme depends on how scores of 0 and 1 are counted: {slope}.")
    elif code == Code.RIGHTLY_SPREAD or "by_itself" in facts:
        yield Sentence(f"{capital(slope)}.")
    else:
        word = "extreme" if code == Code.TOO_EXTREME else "moderate"
        falls = -math.inf < facts["high"] <= 0
        yield Sentence(
            f"Predictions are too {word}: {slope}{'; events are not more frequent at higher scores' * falls}."
        )


def _slope_in_words(report: Report, code: Code, facts: _Facts) -> str:
    """Return the slope with its interval; also without the rows at 0 and 1, where the two intervals are apart."""
    if not math.isfinite(facts["value"]):
        side = ", with the events below the threshold" if code == Code.TOO_EXTREME else ""
        return f"a threshold perfectly separates events from non-events{side}, so the calibration slope is not finite"
    slope = f"calibration slope {_slope_estimate(report, facts)}"
    if "inner_value" not in facts:
        return slope
    ends = [facts[name] for name in ("inner_low", "high", "low", "inner_high")]
    overlap = ends[0] <= ends[1] and ends[2] <= ends[3]
    if code != Code.UNCLEAR_SPREAD and (overlap or not all(map(math.isfinite, ends))):
        return slope
    scores = f"the scores within 1e-6 of 0 or 1 ({rows_text(facts['moved_from_the_ends'])})"
    known = math.isfinite(facts["inner_value"])
    without = _slope_estimate(report, facts, "inner_") if known else "no slope"
    return f"{slope} if {scores} are replaced by 1e-6 or 1 - 1e-6, and {without} without these rows"


def _slope_estimate(report: Report, facts: _Facts, which: str = "") -> str:
    value, *ends = _slope_texts(facts, which)
    return f"{value} ({'; '.join(filter(None, (_interval(report, ends), 'ideal 1')))})"


def _slope_texts(facts: _Facts, which: str = "") -> list[str]:
    """Return the slope, and the ends of its interval if both are known."""
    numbers = [facts[f"{which}{name}"] for name in ("value", "low", "high")]
    return texts(numbers if all(map(math.isfinite, numbers)) else numbers[:1], 2, [1.0])


def _alone(_: Report, findings: _Findings) -> Iterator[Sentence]:
    """Yield which components would be significant alone, although the overall test is not."""
    components = {
        "mean difference": _found(findings, (Code.TOO_HIGH, Code.TOO_LOW)),
        "slope": _found(findings, (Code.TOO_EXTREME, Code.NOT_EXTREME_ENOUGH)),
    }
    alone = [
        f"{name}, unadjusted p {chance(found[1]['by_itself'])}"
        for name, found in components.items()
        if found is not None and "by_itself" in found[1]
    ]
    if alone:
        many = "One component" if len(alone) == 1 else "Two components"
        yield Sentence(f"Not significant overall. {many} alone would be: {'; '.join(alone)}.")


# ---------------------------------------------------------------- size, gain, tolerance


def _places(value: float) -> int:
    """Return the decimal places of an error: three, or as many as show two digits."""
    return 3 if value <= 0 else min(max(3, 1 - math.floor(math.log10(value))), 9)


def _size(report: Report, findings: _Findings) -> Iterator[Sentence]:
    found = _found(findings, _EVIDENCE)
    if found is None or report.level is None:
        return
    value, ends, upper = _ece_texts(found[1])
    sentence = f"ECE {value}" + (f" ({_interval(report, ends)})" if ends else "")
    if upper:
        level = percent(report.level)
        sentence += f"; a perfectly calibrated model would stay below {upper} in {level} of samples of this size"
    yield Sentence(f"{sentence}.")


def _ece_texts(facts: _Facts) -> tuple[str, list[str], str]:
    """Return the ECE, the ends of its interval if it has one, and the upper limit of calibrated models or nothing."""
    ece, upper = facts["ece"], [facts["upper"]] if math.isfinite(facts["upper"]) else []
    ends = [facts["low"], facts["high"]] if math.isfinite(facts["high"]) else []
    value, *interval = texts([ece, *ends], _places(ece), upper)
    return value, interval, "".join(texts(upper, _places(ece), [ece]))


def _gain(report: Report, findings: _Findings) -> Iterator[Sentence]:
    if Code.RECALIBRATION_GAIN not in findings:
        return
    facts = findings[Code.RECALIBRATION_GAIN]
    gain, score = facts["gain"], facts["score"]
    top = "top-label " * (report.notion == "top-label")
    name = "the mean Brier score of the classes" if report.diagram is None else f"the {top}Brier score"
    if gain < 5e-7:
        yield Sentence(f"Isotonic recalibration would not lower {name} on these data.")
        return
    share = f"{100 * gain / score:.0f} %" if gain >= 0.005 * score else "less than 1 %"
    before, by = texts([score, gain], max(_places(gain) if gain < 5e-4 else 3, 3), [0.0])
    lower = f"Isotonic recalibration would lower {name} on these data from {before} by {by} ({share})"
    yield Sentence(f"{lower}; expect less on new data (see calibrant recalibrate).")


def _tolerance(_: Report, findings: _Findings) -> Iterator[Sentence]:
    found = _found(findings, _DECISIONS)
    if found is None:
        return
    code, facts = found
    tolerance, level = facts["tolerance"], percent(facts["level"])
    name = _measure_of(facts)
    limit = f"the tolerance of {tolerance:g}"
    bounds = [end for end in (facts["low"], facts["high"]) if math.isfinite(end)]
    low, high = texts(bounds, 3, [tolerance]) if len(bounds) == 2 else ("", "")
    if code == Code.PROVEN:
        yield Sentence(capital(f"{name} is within {limit}: upper {level} confidence bound {high}."), "good")
    elif code == Code.DISPROVEN:
        yield Sentence(capital(f"{name} exceeds {limit}: lower {level} confidence bound {low}."), "bad")
    else:
        ends = f": {level} confidence bounds {low} and {high}" if high else ""
        more = _more_rows(findings, facts, name)
        yield Sentence(f"Inconclusive for a tolerance of {tolerance:g}{ends}.{more}", "caution")


def _measure_of(facts: _Facts) -> str:
    """Return the name of the measure that has a tolerance."""
    return f"{'the size of the ' * (facts['measure'] == MEAN_GAP.name)}{BY_NAME[facts['measure']].label}"


def _more_rows(findings: _Findings, facts: _Facts, name: str) -> str:
    """Return how many more rows would settle an inconclusive tolerance."""
    if Code.RARE_OUTCOME in findings:
        return f" A decision needs at least {MINORITY} rows (or clusters) with each outcome."
    if facts["more_rows"] is None:
        return " The estimate is too close to the tolerance to say how many more rows would settle it."
    true = f"the true {name.removeprefix('the ')}"
    return f" About {facts['more_rows']:,} more rows would settle it if {true} equals the estimate."


# ---------------------------------------------------------------- dependence, groups


def _dependence(report: Report, findings: _Findings) -> Iterator[Sentence]:
    if report.level is None:
        return
    if report.clusters is None:
        yield Sentence("Confidence intervals and p-values assume independent rows.")
        return
    if not is_clustered(report.clusters, report.n):
        yield Sentence("Each cluster has one row, so the intervals and p-values assume independent rows.")
        return
    rows = report.clusters.get("effective_rows")
    fixed = any(facts.get("by_construction") for facts in findings.values())
    worth = ""
    if rows is not None and math.isfinite(rows) and not fixed:
        worth = f"; for the mean difference the data are worth about {rows:,.0f} independent rows"
    number = clusters_text(report.clusters)
    yield Sentence(f"Confidence intervals and p-values allow for dependence within {number}{worth}.")


def _groups(report: Report, _: _Findings) -> Iterator[Sentence]:
    tested = [group for group in report.groups if not math.isnan(group.adjusted_p_value)]
    if not tested:
        return
    flagged = [group for group in tested if group.called_out]
    small = len(report.groups) - len(tested)
    if not flagged:
        counts = f"{len(tested):,} tested" + (f", {small:,} too small" if small else "")
        yield Sentence(f"No group shows evidence of miscalibration after Holm correction ({counts}).")
        return
    flagged.sort(key=lambda group: (group.adjusted_p_value, -abs(group.mean_gap.value)))
    names = [
        f"{short(group.name)} ({percentages(group.mean_gap.value, sign='+')[0]} percentage points)" for group in flagged
    ]
    show = "shows" if len(flagged) == 1 else "show"
    many = f"{len(flagged):,} of {len(tested):,} groups {show} evidence of miscalibration after Holm correction"
    yield Sentence(f"{many}: {named(names, _NAMED)}.")
