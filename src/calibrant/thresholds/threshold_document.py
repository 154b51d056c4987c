"""A certified threshold as a document: what can be automated, with which risk, and what would allow more."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import repeat
from typing import TYPE_CHECKING, Final

import numpy as np

from calibrant.render.blocks import (
    Block,
    Column,
    Document,
    Heading,
    Method,
    Notes,
    Sentence,
    Source,
    Table,
)
from calibrant.render.figure import Figure
from calibrant.render.line_figures import risk_coverage_figure
from calibrant.render.words import (
    capital,
    ends_column,
    ends_text,
    evaluated_event,
    event_of,
    facts_of,
    in_clusters,
    is_clustered,
    named,
    number,
    percent,
    rows_text,
    share_text,
    short,
)
from calibrant.results.values import RiskCoverageCurve

if TYPE_CHECKING:
    from calibrant.thresholds.result import Costs, Threshold, ThresholdResult

#: The areas under the risk-coverage curve, in words.
_AREAS: Final = {
    "aurc": ("AURC", "The area under the risk-coverage curve: the mean error rate over all coverages."),
    "augrc": ("AUGRC", "The mean share of rows that are automatic and wrong, over all coverages."),
    "excess": (
        "excess AURC",
        "AURC minus the AURC of the best possible order, in which all errors have the lowest scores.",
    ),
}
#: How thresholds are certified, in words.
METHODS: Final = {
    "closed": "closed testing with look-ahead",
    "fixed-sequence": "a fixed sequence of tests",
    "betting": "tests by betting",
}
#: With fewer observed errors, the probability of a plan is only known roughly (benchmarks/simulation/thresholds.py).
_PLANNED_ERRORS: Final = 10

_COVERAGES: Final = tuple(i / 10 for i in range(1, 11))
_NAMED: Final = 10  # groups in a sentence


def document_of(result: ThresholdResult, source: Source, *, full: bool) -> Document:
    """Return the document of one or two thresholds; a full one has the pictures of the risk-coverage curves."""
    first, several = result.sides[0], len(result.sides) > 1
    blocks: list[Block] = []
    if first.by_group:
        heading = "Thresholds of predicted classes" if first.per_class else "Thresholds of groups"
        blocks += [Heading(heading, "groups"), _groups_table(first)]
    for side in result.sides:
        of_all = ", all rows" * bool(side.by_group)
        title = f"Error rate by coverage{of_all}" + (f', decisions "{side.side}"' if several else "")
        blocks += curve_blocks(side, title, full=full)
    level = percent(first.confidence)
    remark = (
        f"method: {METHODS[first.method]}; coverage: share of cases that are automatic; error rate: share of "
        f"the automatic cases that are wrong; {level} CI: pointwise, for one threshold that was chosen "
        "before these data were seen"
    )
    event = evaluated_event(result.notion, result.n_classes, source)
    risks = [f'"{side.side}" ' * several + percent(side.max_risk) for side in result.sides]
    lowest = (
        "The lowest score for which the error rate of all cases with this score or more is certified to be at most the "
        "chosen largest error rate."
    )
    return Document(
        title="Certified threshold",
        headline=f"{rows_text(result.n)}{in_clusters(first.clusters)} ({event})",
        conclusion=_conclusion(result),
        verdict=verdict_of(result, source),
        blocks=[*blocks, Notes([remark])],
        facts=facts_of(
            source,
            ("largest error rate", ", ".join(risks)),
            n=result.n,
            notion=result.notion,
            n_classes=result.n_classes,
            level=result.confidence,
        ),
        measured="number",
        methods=[
            Method("threshold", lowest, METHODS[first.method]),
            *(Method(*_AREAS[name], area.method) for name, area in first.areas.items()),
        ],
    )


def _conclusion(result: ThresholdResult) -> Sentence:
    first = result.sides[0]
    if first.by_group:
        kinds = "predicted classes" if first.per_class else "groups"
        certified = sum(part.certified for part in first.by_group.values())
        of_all = f"{certified} of {len(first.by_group)} {kinds}"
        text = f"Cases can be automated in {of_all}" if certified else f"No {kinds} can be automated"
        return Sentence(text, "good" if certified else "")
    coverage = sum(side.coverage for side in result.sides)
    if coverage > 0:
        return Sentence(f"{share_text(coverage)} of cases can be automated", "good")
    return Sentence("No threshold is certified")


# ---------------------------------------------------------------- the verdict


def verdict_of(result: ThresholdResult, source: Source) -> list[Sentence]:
    """Return what was found: cautions, the threshold, coverage, what more rows would do, costs, groups, assumptions."""
    first, sentences = result.sides[0], findings_of(result, source)
    is_hopeless = not result.certified and first.rows_needed is None
    if is_hopeless and len(result.sides) == 1 and first.notion == "positive":
        pass_both = "pass --yes-risk and --no-risk (certify_two_sided in Python)"
        sentences.append(Sentence(f"To automate cases with low scores (mostly non-events), {pass_both}."))
    if result.costs is not None:
        common = "With the common threshold, a" if first.by_group else "A"
        sentences += map(Sentence, _costs(result.costs, percent(result.confidence), common))
    return [*sentences, *map(Sentence, _assumptions(first))]


def findings_of(result: ThresholdResult, source: Source, *, audit: bool = True) -> list[Sentence]:
    """Return the cautions, the thresholds, their coverage, what more rows would do, and how to check the promise."""
    first, *others = result.sides
    sentences = [Sentence(f"Caution: {first.flag}.", "caution")] if first.flag else []
    if others:
        sentences += [*map(_decision_of_side, result.sides), *map(Sentence, _both(result))]
    else:
        sentences += _of_groups(first) if first.by_group else [_decision(first)]
        if first.notion == "positive":
            event = event_of(first.notion, source)
            sentences.append(Sentence(f'An error is a case in which "{event}" is false.'))
    texts: list[str] = []
    for side in result.sides:
        if side.by_group:
            texts += _audit_of_groups(side)
            continue
        of_side = f' of "{side.side}"' if others else ""
        texts += [*_numbers(side, of_side), *_plan(side, of_side), *(_audit(side, of_side) if audit else ())]
    return [*sentences, *map(Sentence, dict.fromkeys(texts))]


def _noun(side: Threshold) -> str:
    """Return what the scores are: confidences of predicted classes, or scores of an event."""
    return "confidence" if side.notion == "top-label" else "score"


def _at_end(side: Threshold) -> str:
    """Return which scores are automatic, such as "confidence at least"."""
    return f"{_noun(side)} at {'most' if side.side == 'no' else 'least'}"


def _cases(side: Threshold) -> str:
    return f"the {share_text(side.coverage)} of cases with {_at_end(side)} {side.rounded:.15g}"


def _decision(side: Threshold) -> Sentence:
    if side.value is None:
        return Sentence(f"{capital(side.reason)}.")
    what = "every case: the" if side.coverage == 1 else f"{_cases(side)}: their"
    promise = f"at most {percent(side.max_risk)}, with {percent(side.confidence)} confidence"
    observed = f"observed {share_text(side.risk)}"
    return Sentence(f"Automate {what} error rate is {promise}; {observed}.", "good")


def _decision_of_side(side: Threshold) -> Sentence:
    bound = percent(side.max_risk)
    if side.value is None:
        decision = f'the decision "{side.side}"'
        return Sentence(f"No threshold is certified for {decision} with an error rate of at most {bound}.")
    rate = f"at most {bound} of these decisions are wrong; observed {share_text(side.risk)}"
    return Sentence(f'Decide "{side.side}" for {_cases(side)}: {rate}.', "good")


def _both(result: ThresholdResult) -> Iterator[str]:
    """Yield what happens to the cases between two thresholds, and how the promises hold together."""
    certified = [side for side in result.sides if side.value is not None]
    if not certified:
        return
    yield f"Refer the other {share_text(1 - sum(side.coverage for side in certified))} of cases."
    each, together = percent(certified[0].confidence), percent(result.confidence)
    if each == together:  # both are part of a promise for more than this result
        return
    if len(certified) > 1:
        yield f"Each promise holds with {each} confidence, so that both hold together with {together} confidence."
    else:
        yield f"The promise holds with {each} confidence."


def _numbers(side: Threshold, of_side: str) -> Iterator[str]:
    """Yield the intervals of the coverage and of the risk."""
    if side.value is None:
        return
    level = percent(side.confidence)
    interval = f"{level} CI {share_text(side.coverage_low)} to {share_text(side.coverage_high)}"
    clusters = ""
    if side.n_clusters is not None:
        clusters = f" (in {side.n_clusters_wrong:,} of {side.n_clusters:,} clusters)"
    yield (
        f"Coverage{of_side} {share_text(side.coverage)} ({interval}). Of {_count(side.n_automatic)} "
        f"automatic decisions, {_count(side.n_errors)} are wrong{clusters}; the upper {level} confidence "
        f"bound of the error rate is {share_text(side.risk_high)}."
    )


def _count(weight: float) -> str:
    """Return a number of rows or their weight, which may be a sum with rounding errors."""
    return f"{weight:,.0f}" if abs(weight - round(weight)) < 1e-9 * max(weight, 1) else f"{weight:,.1f}"


def _plan(side: Threshold, of_side: str) -> Iterator[str]:
    needed, coverage, risk = side.rows_needed, side.coverage_needed, side.risk_needed
    if needed is None or coverage is None or risk is None:
        if side.value is None:
            what = f"The number of rows that a threshold{of_side} needs cannot be estimated"
            yield f"{what}, because no observed error rate is clearly below the bound."
        return
    rows = f"{_rounded_up(needed):,} rows in all"
    cases = f"{share_text(coverage)} of cases (observed error rate {share_text(risk)})"
    is_known = risk * coverage * side.n >= _PLANNED_ERRORS
    chance = (
        "80 % probability" if is_known else "50 % to 90 % probability (uncertain, because few errors were observed)"
    )
    if side.value is None:
        yield f"About {rows} would certify a threshold{of_side} for {cases}, with {chance}."
    else:
        verb = f'decide "{side.side}" for' if of_side else "automate"
        yield f"To {verb} {cases}, about {rows} would be needed, with {chance}."


def _rounded_up(count: int) -> int:
    """Return a number with two digits, not below it."""
    unit: int = 10 ** max(len(str(count)) - 2, 0)
    return -(-count // unit) * unit


def _audit(side: Threshold, of_side: str) -> Iterator[str]:
    share = side.audit_fraction
    if share is None:
        return
    part = "all of them" if share >= 1 else f"{share_text(share)} of them"
    yield (
        f"To check the promise{of_side} later, label {side.audit_rows:,} randomly chosen automatic decisions "
        f"in each period, such as a week ({part} if a period has {side.n:,} cases). A sequential test then "
        f"detects an error rate of {percent(2 * side.max_risk)} within ten periods with 80 % probability."
    )


def _audit_of_groups(result: Threshold) -> Iterator[str]:
    certified = [part for part in result.by_group.values() if part.value is not None]
    if certified:
        kind = "predicted class" if result.per_class else "group"
        rows = max(part.audit_rows for part in certified)
        yield (
            f"To check the promise later, label {rows:,} randomly chosen automatic decisions of each {kind} in each "
            "period, such as a week."
        )


def _costs(costs: Costs, level: str, a: str) -> Iterator[str]:
    """Yield what a row costs; ``a`` begins the sentence about a row."""
    cost, benefit = costs.cost, costs.net_benefit
    yield (
        f"{a} row costs {cost.value:.4g} on average ({level} CI {cost.low:.4g} to {cost.high:.4g}) if an error costs "
        f"{costs.error:g} and a referral {costs.referral:g}. Referring every row costs {costs.referral:g}, and "
        f"deciding every row automatically {costs.all_automatic:.4g}."
    )
    decisions = f"save the cost of {benefit.value:.4g} referrals per row (net benefit"
    if benefit.value < 0:
        decisions = f"cost {-benefit.value:.4g} referrals more per row (net benefit {benefit.value:.4g}"
    yield (
        f"Compared with referring every row, automatic decisions {decisions}, {level} CI {benefit.low:.4g} to "
        f"{benefit.high:.4g}). If the scores are calibrated, the threshold with the lowest cost is {costs.planned:.4g}."
    )


def _of_groups(result: Threshold) -> Iterator[Sentence]:
    """Yield what holds in each group or predicted class, and whether the common threshold is enough for them."""
    groups, bound = result.by_group, percent(result.max_risk)
    kind = "predicted class" if result.per_class else "group"
    kinds = "predicted classes" if result.per_class else "groups"
    certified = {name: part for name, part in groups.items() if part.value is not None}
    together = f"with {percent(result.confidence)} confidence for all {kinds} together (Holm's adjustment)"
    own = "has a certified threshold of its own" if len(certified) == 1 else "have certified thresholds of their own"
    many = f"{len(certified)} of {len(groups)} {kinds} {own}"
    if certified:
        each = [f"{short(name)} ({_reach(part)})" for name, part in certified.items()]
        yield Sentence(f"{many}: {named(each, _NAMED)}.", "good")
        yield Sentence(f"At its threshold, the error rate of each of them is at most {bound}, {together}.")
    else:
        yield Sentence(f"No {kind} has a certified threshold of its own with an error rate of at most {bound}.")
    without = [
        f"{short(name)} ({part.reason})" if part.reason.startswith("fewer") else short(name)
        for name, part in groups.items()
        if part.value is None
    ]
    if without:
        yield Sentence(f"Without a certified threshold, refer all cases to a person: {named(without, _NAMED)}.")
    yield from _common(result)


def _reach(part: Threshold) -> str:
    """Return which cases of a group are automatic."""
    if part.coverage == 1:
        return "all cases"
    return f"{_at_end(part)} {part.rounded:.15g}, {share_text(part.coverage)} of its cases"


def _common(result: Threshold) -> Iterator[Sentence]:
    """Yield that the common threshold of all rows is not certified for some groups, with their observed error rates."""
    value, bound = result.value, percent(result.max_risk)
    if value is None:
        yield Sentence(f"No common threshold is certified for all rows with an error rate of at most {bound}.")
        return
    lacking = [
        f"{short(name)} (observed error rate {rate_text(result.common[name].risk)})"
        for name, part in result.by_group.items()
        if part.value is None or (part.value > value and part.coverage < 1)
    ]
    if lacking:
        common = f"The common threshold {result.rounded:.15g} is certified for all rows together"
        yield Sentence(f"{common}, but not for {named(lacking, _NAMED)}.", "caution")


def _assumptions(side: Threshold) -> Iterator[str]:
    clustered = is_clustered(side.clusters, side.n)
    units = "clusters" if clustered else "rows"
    if side.largest_cluster is not None:
        units += f" of at most {_count(side.largest_cluster)} rows"
    if side.max_weight is not None:
        units += f" with weights of at most {_count(side.max_weight)}"
    yield f"The promise assumes independent {units}, and later cases from the same population."
    if side.observed_bounds:
        options = " and ".join(f"--{name.replace('_', '-')}" for name in side.observed_bounds)
        yield (
            "The promise is approximate, because it assumes that later clusters or weights are not larger than "
            f"in these data. To make it exact, pass the largest possible value with {options}."
        )
    if clustered and side.approximate and side.method != "betting":
        yield (
            "The promise is approximate, because the design effect of clusters is estimated. It is exact "
            "with --method betting and --largest-cluster."
        )


# ---------------------------------------------------------------- the curve


def curve_blocks(side: Threshold, title: str, *, full: bool) -> list[Block]:
    """Return the section of a curve: its picture, some of its points, and the areas under it; none for a group."""
    curve = side.curve
    if curve is None:
        return []
    suffix = "-no" if side.side == "no" else ""
    certified = None if side.value is None else _place(curve, side.coverage)
    heading = Heading(title, f"risk-coverage{suffix}")
    numbers = [_points_table(side, curve, certified, f"risk-coverage{suffix}"), _areas_table(side, f"areas{suffix}")]
    return [heading, _figure(side, curve, certified, title), *numbers] if full else [heading, *numbers]


def _place(curve: RiskCoverageCurve, coverage: float) -> int:
    """Return the first point of the curve with this coverage."""
    place = int(np.searchsorted(curve.coverages, coverage * (1 - 1e-12)))
    return min(place, len(curve.coverages) - 1)


def _score(value: float) -> str:
    return f"{value:.4g}" if 0.001 <= value <= 0.999 or value in (0, 1) else f"{value:.8g}"


def _points_table(side: Threshold, curve: RiskCoverageCurve, certified: int | None, name: str) -> Table:
    """Return the points of the curve; to read are those at coverages in steps of 10 %, and at the threshold."""
    last = -1 if certified is None else certified
    coverages, scores, risks = curve.coverages.tolist(), curve.thresholds.tolist(), curve.risks.tolist()
    marks = ["yes" if i < last else "threshold" if i == last else "" for i in range(len(coverages))]
    columns = [
        Column.of("coverage", "coverage", coverages, share_text),
        Column.of(_at_end(side), "threshold", scores, _score),
        Column.of("error rate", "risk", risks, share_text),
        ends_column(f"{percent(side.confidence)} CI", {"low": curve.lows, "high": curve.highs}, repeat(share_text)),
        Column("certified", marks, words=True),
    ]
    places = {_place(curve, coverage) for coverage in _COVERAGES}
    if certified is not None:  # of two points that read alike, the threshold
        shares = columns[0].texts
        places = {i for i in places if shares[i] != shares[certified]} | {certified}
    return Table(name, columns).of_rows(sorted(places))


def _areas_table(side: Threshold, name: str) -> Table:
    areas = side.areas.values()
    ends = {"low": [area.low for area in areas], "high": [area.high for area in areas]}
    columns = [
        Column("area", [_AREAS[area][0] for area in side.areas], {"area": list(side.areas)}),
        Column.of("estimate", "value", (area.value for area in areas), number),
        ends_column(f"{percent(side.confidence)} CI", ends),
    ]
    return Table(name, columns, "Areas under the curve")


def _figure(side: Threshold, curve: RiskCoverageCurve, certified: int | None, title: str) -> Figure:
    """Return the risk-coverage curve with its band, the bound of the risk and the threshold."""
    level, at_end, end = percent(side.confidence), _at_end(side), "lowest" if side.side == "no" else "highest"
    coverage = None if certified is None else float(curve.coverages[certified])

    def tip(i: int) -> str:
        share, score = share_text(curve.coverages[i]), _score(curve.thresholds[i])
        interval = ends_text(curve.lows[i], curve.highs[i], share_text)
        return f"coverage {share}, {at_end} {score}: error rate {share_text(curve.risks[i])}, {level} CI {interval}"

    caption = (
        f"The curve shows the error rate of the cases with the {end} {_noun(side)}s, against the share of "
        f"these cases (coverage). The band is the pointwise {level} CI."
    )
    if certified is not None:
        caption += " The vertical line is the certified threshold."
    figure = risk_coverage_figure(curve, max_risk=side.max_risk, coverage=coverage, tip=tip)
    return figure._replace(title=title, caption=caption)


# ---------------------------------------------------------------- groups


def _groups_table(result: Threshold) -> Table:
    """Return the threshold of each group or predicted class, and what the common threshold does to its rows."""
    parts = list(result.by_group.values())
    thresholds = ["none" if part.rounded is None else f"{part.rounded:.15g}" for part in parts]
    columns = [
        Column.of("class" if result.per_class else "group", "name", result.by_group, short),
        Column.of("n", "n", (part.n for part in parts), "{:,}".format),
        Column(f"{_noun(result)} at least", thresholds, {"threshold": [part.value for part in parts]}),
        Column.of("coverage", "coverage", (part.coverage for part in parts), share_text),
        Column.of("error rate", "risk", (part.risk for part in parts), rate_text),
    ]
    bound = Column.of("upper bound", "risk_high", (part.risk_high for part in parts), rate_text)
    if result.value is None:
        return Table("groups", [*columns, bound])
    common = [result.common[name] for name in result.by_group]
    ends = {
        "common_risk_low": [part.risk_low for part in common],
        "common_risk_high": [part.risk_high for part in common],
    }
    intervals = [f"{rate_text(low)} to {rate_text(high)}" for low, high in zip(*ends.values(), strict=True)]
    columns += [
        Column.of("at common threshold", "common_risk", (part.risk for part in common), rate_text),
        bound._replace(spare=1),
        Column(f"{percent(result.confidence)} CI at common threshold", intervals, ends, spare=2),
    ]
    return Table("groups", columns)


def rate_text(share: float) -> str:
    """Return an error rate; a dash without such rows."""
    return "-" if math.isnan(share) else share_text(share)
