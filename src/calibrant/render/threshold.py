"""A certified threshold for the terminal and for pages, from the dictionary of `Threshold.to_dict`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from calibrant.render import drawing, tables, terminal
from calibrant.render.style import (
    Facts,
    Style,
    Summary,
    Tone,
    evaluated_event,
    event_of,
    head,
    is_clustered,
    lead,
    number,
    paragraphs,
    percent,
    short,
    wrapped,
)
from calibrant.render.tables import Column, Table
from calibrant.render.words import in_clusters, rows_text

#: The areas under the risk-coverage curve, in words.
AREAS: Final = {
    "aurc": ("AURC", "The area under the risk-coverage curve: the mean error rate over all coverages."),
    "augrc": ("AUGRC", "The mean share of rows that are automatic and wrong, over all coverages."),
    "excess": ("excess AURC", "AURC less that of the best order, in which all errors have the lowest scores."),
}

#: How thresholds are certified, in words.
METHODS: Final = {
    "closed": "closed testing with look-ahead",
    "fixed-sequence": "a fixed sequence of tests",
    "betting": "tests by betting",
}

#: The headings of the tables.
CURVE: Final = "Error rate by coverage"
GROUPS: Final = "Thresholds of groups"
CLASSES: Final = "Thresholds of predicted classes"

#: With fewer observed errors, the probability of a plan is only known roughly (benchmarks/simulation/thresholds.py).
_PLANNED_ERRORS: Final = 10

_COVERAGES: Final = tuple(i / 10 for i in range(1, 11))
_NAMED: Final = 10
_TALLEST: Final = 1.08


def is_two_sided(summary: Summary) -> bool:
    """Return whether there are decisions "yes" and "no"."""
    return "yes" in summary


def sides(summary: Summary) -> list[Summary]:
    """Return the thresholds: one, or those of "yes" and of "no"."""
    return [summary["yes"], summary["no"]] if is_two_sided(summary) else [summary]


def headline(summary: Summary) -> str:
    """Return the number of predictions and the evaluated event, in words."""
    return f"{rows_text(summary['n'])}{in_clusters(summary['clusters'])} ({evaluated_event(summary)})"


def heading(summary: Summary) -> tuple[str, Tone]:
    """Return the headline of a page with its tone."""
    coverage = sum(side["coverage"] for side in sides(summary))
    if coverage > 0:
        return f"{_share(coverage)} of cases can be automated", "good"
    if not is_two_sided(summary) and any(part["value"] is not None for part in summary["by_group"]):
        return "Some groups can be automated", ""
    return "No threshold is certified", ""


def toned_verdict(summary: Summary) -> list[tuple[str, Tone]]:
    """Return the verdict as sentences with their tones: cautions, the threshold, coverage, what more rows would do."""
    sentences: list[tuple[str, Tone]] = []
    flag = sides(summary)[0]["flag"]
    if flag:
        sentences.append((f"Caution: {flag}.", "caution"))
    decisions = [(_decision(side, summary), _tone(side)) for side in sides(summary)]
    sentences += decisions
    if is_two_sided(summary):
        sentences += [(sentence, "") for sentence in _both(summary)]
    elif summary["notion"] == "positive":
        sentences.append((f'An error is a case in which "{event_of(summary)}" is false.', ""))
    for side in sides(summary):
        sentences += [(sentence, "") for sentence in (*_numbers(side, summary), *_more(side, summary))]
    sentences += [(sentence, "") for sentence in (*_costs(summary), *_groups(summary), *_assumptions(summary))]
    return sentences


def verdict(summary: Summary) -> list[str]:
    """Return the verdict as sentences."""
    return [sentence for sentence, _ in toned_verdict(summary)]


def _both(summary: Summary) -> Iterator[str]:
    """Yield what happens to the cases between two thresholds, and how the promises hold together."""
    certified = [side for side in sides(summary) if side["value"] is not None]
    if not certified:
        return
    yield f"Refer the other {_share(1 - sum(side['coverage'] for side in certified))} of cases."
    each = percent(certified[0]["confidence"])
    if len(certified) > 1:
        together = percent(summary["confidence"])
        yield f"Each promise holds with {each} confidence, so that both hold together with {together} confidence."
    else:
        yield f"The promise holds with {each} confidence."


def _of_side(side: Summary, summary: Summary) -> str:
    """Return which decisions a sentence is about; nothing for one kind of decisions."""
    return f' of "{side["side"]}"' if is_two_sided(summary) else ""


def _tone(side: Summary) -> Tone:
    return "" if side["value"] is None else "good"


def _noun(side: Summary) -> str:
    """Return what the scores are: confidences of predicted classes, or scores of an event."""
    return "confidence" if side["notion"] == "top-label" else "score"


def threshold_text(side: Summary, value: float | None = None) -> str:
    """Return a threshold in words, such as "confidence at least 0.87"."""
    written = f"{side['rounded']:.15g}" if value is None else _score(value)
    return f"{_noun(side)} at {'most' if side['side'] == 'no' else 'least'} {written}"


def _score(value: float) -> str:
    return f"{value:.4g}" if 0.001 <= value <= 0.999 or value in (0, 1) else f"{value:.8g}"


def _share(share: float) -> str:
    """Return a share in percent with one decimal, or more where it is small."""
    return f"{100 * share:.3g} %"


def _decision(side: Summary, summary: Summary) -> str:
    two = is_two_sided(summary)
    bound = percent(side["max_risk"])
    if side["value"] is None:
        if two:
            return f'No decision "{side["side"]}" is certified to be wrong in at most {bound} of cases.'
        return f"{side['reason'][:1].upper()}{side['reason'][1:]}."
    of_cases = f"the {_share(side['coverage'])} of cases with {threshold_text(side)}"
    observed = _share(side["risk"])
    if two:
        rate = f"at most {bound} of these decisions are wrong; observed {observed}"
        return f'Decide "{side["side"]}" for {of_cases}: {rate}.'
    what = "every case: the" if side["coverage"] == 1 else f"{of_cases}: their"
    return (
        f"Automate {what} error rate is at most {bound}, with {percent(side['confidence'])} confidence; "
        f"observed {observed}."
    )


def _numbers(side: Summary, summary: Summary) -> Iterator[str]:
    """Yield the intervals of the coverage and of the risk."""
    if side["value"] is None:
        return
    level = percent(side["confidence"])
    yield (
        f"Coverage{_of_side(side, summary)} {_share(side['coverage'])} ({level} CI {_share(side['coverage_low'])} to "
        f"{_share(side['coverage_high'])}); {_count(side['n_errors'])} of {_count(side['n_automatic'])} automatic "
        f"decisions are wrong{_in_clusters(side)}, upper {level} confidence bound of the error rate "
        f"{_share(side['risk_high'])}."
    )


def _in_clusters(side: Summary) -> str:
    """Return how many clusters the errors and the automatic decisions are in."""
    if side["n_clusters"] is None:
        return ""
    return f" (in {side['n_clusters_wrong']:,} of {side['n_clusters']:,} clusters)"


def _count(weight: float) -> str:
    return f"{weight:,.0f}" if abs(weight - round(weight)) < 1e-9 * max(weight, 1) else f"{weight:,.1f}"


def _more(side: Summary, summary: Summary) -> Iterator[str]:
    """Yield what more rows would do, and how to keep the promise checked."""
    needed, which = side["rows_needed"], f' "{side["side"]}"' if is_two_sided(summary) else ""
    if needed is not None:
        rows = f"{_rounded_up(needed):,} rows in all"
        cases = f"{_share(side['coverage_needed'])} of cases (observed error rate {_share(side['risk_needed'])})"
        errors = side["risk_needed"] * side["coverage_needed"] * side["n"]
        chance = (
            "80 % probability"
            if errors >= _PLANNED_ERRORS
            else "50 % to 90 % probability, because few errors were seen"
        )
        if side["value"] is None:
            yield f"About {rows} would certify a threshold{which and f' of{which}'} for {cases}, with {chance}."
        else:
            verb = f"decide{which} for" if which else "automate"
            yield f"To {verb} {cases}, about {rows} would be needed, with {chance}."
    elif side["value"] is None:
        yield "How many rows would help is not known, because no observed error rate is clearly below the bound."
    if side["audit_fraction"] is not None:
        share = side["audit_fraction"]
        part = "all of them" if share >= 1 else f"{_share(share)} of them"
        yield (
            f"To check the promise{_of_side(side, summary)} later, label {side['audit_rows']:,} automatic decisions of "
            f"each period, such as a week, at random ({part} if a period has {side['n']:,} cases). A sequential test "
            f"then finds an error rate of {percent(2 * side['max_risk'])} within ten periods with 80 % probability."
        )


def _rounded_up(count: int) -> int:
    """Return a number with two digits, not below it."""
    unit: int = 10 ** max(len(str(count)) - 2, 0)
    return -(-count // unit) * unit


def _costs(summary: Summary) -> Iterator[str]:
    costs = summary["costs"]
    if costs is None:
        return
    level = percent(summary["confidence"])
    cost, benefit = costs["cost"], costs["net_benefit"]
    yield (
        f"A row costs {cost['value']:.4g} on average ({level} CI {cost['low']:.4g} to {cost['high']:.4g}) if an error "
        f"costs {costs['error']:g} and a referral {costs['referral']:g}. Referring every row costs "
        f"{costs['referral']:g}, and deciding every row automatically {costs['all_automatic']:.4g}."
    )
    yield (
        f"Net benefit {benefit['value']:.4g} referrals for each row ({level} CI {benefit['low']:.4g} to "
        f"{benefit['high']:.4g}). For calibrated scores, the threshold with the least cost is {costs['planned']:.4g}."
    )


def _groups(summary: Summary) -> Iterator[str]:
    groups = () if is_two_sided(summary) else summary["by_group"]
    if not groups:
        return
    kind = "predicted classes" if summary["per_class"] else "groups"
    certified = [short(part["name"]) for part in groups if part["value"] is not None]
    named = f": {', '.join(certified[:_NAMED])}{' and others' * (len(certified) > _NAMED)}" if certified else ""
    yield (
        f"{len(certified)} of {len(groups)} {kind} have a threshold of their own, with one promise for all of them "
        f"together (Holm's adjustment, {percent(summary['confidence'])} confidence){named}."
    )
    few = [f"{short(part['name'])} ({part['reason']})" for part in groups if part["reason"].startswith("fewer")]
    if few:
        yield f"Too few rows for a threshold: {', '.join(few[:_NAMED])}{' and others' * (len(few) > _NAMED)}."


def _assumptions(summary: Summary) -> Iterator[str]:
    side = sides(summary)[0]
    units = "clusters" if is_clustered(summary) else "rows"
    for name, words in (("largest_cluster", " of at most {} rows"), ("max_weight", " with weights of at most {}")):
        if side[name] is not None:
            units += words.format(_count(side[name]))
    yield f"The promise assumes independent {units}, and later cases like these."
    if side["observed_bounds"]:
        options = " and ".join(f"--{name.replace('_', '-')}" for name in side["observed_bounds"])
        yield (
            "It is approximate, because nothing larger than in these rows is assumed to be possible. "
            f"{options} {'declare' if ' ' in options else 'declares'} what is possible; the promise is then exact."
        )
    if is_clustered(summary) and side["approximate"] and side["method"] != "betting":
        yield (
            "It is approximate, because the design effect of clusters is estimated. The method betting with "
            "--largest-cluster is exact."
        )


def points(side: Summary) -> Table:
    """Return the error rate at coverages in steps of 10 %, and at the threshold."""
    curve, level = side["curve"], percent(side["confidence"])
    wanted = [_at(curve["coverages"], coverage) for coverage in _COVERAGES]
    certified = None if side["value"] is None else _at(curve["coverages"], side["coverage"])
    places = sorted({*wanted, *([] if certified is None else [certified])})
    if certified is not None:  # of two points that read alike, the threshold
        same = _share(curve["coverages"][certified])
        places = [i for i in places if i == certified or _share(curve["coverages"][i]) != same]
    return _table(side, level, certified).of_rows(places)


def _table(side: Summary, level: str, certified: int | None) -> Table:
    """Return all points of the curve."""
    curve = side["curve"]
    every = range(len(curve["coverages"]))
    marks = ["" if certified is None or i > certified else "threshold" if i == certified else "yes" for i in every]
    columns = [
        Column("coverage", [_share(share) for share in curve["coverages"]], {"coverage": curve["coverages"]}),
        Column(
            f"{_noun(side)} at {'most' if side['side'] == 'no' else 'least'}",
            [_score(value) for value in curve["thresholds"]],
            {"threshold": curve["thresholds"]},
        ),
        Column("error rate", [f"{risk:.4f}" for risk in curve["risks"]], {"risk": curve["risks"]}),
        Column(
            f"{level} CI",
            [tables.ends_text(*ends) for ends in zip(curve["lows"], curve["highs"], strict=True)],
            {"low": curve["lows"], "high": curve["highs"]},
        ),
        Column("certified", marks, {}),
    ]
    return Table.of(_named("risk-coverage", side), columns, texts=(4,))


def _named(name: str, side: Summary) -> str:
    return f"{name}-no" if side["side"] == "no" else name


def _at(coverages: Sequence[float], coverage: float) -> int:
    """Return the first point of the curve with this coverage."""
    return next((i for i, share in enumerate(coverages) if share >= coverage * (1 - 1e-12)), len(coverages) - 1)


def areas(side: Summary) -> Table:
    """Return the areas under the curve with their intervals."""
    parts = {AREAS[name][0]: part for name, part in side["areas"].items()}
    columns = [
        Column("area", list(parts), {"area": list(side["areas"])}),
        Column(
            "estimate",
            [number(part["value"]) for part in parts.values()],
            {"value": _each(list(parts.values()), "value")},
        ),
        Column(
            f"{percent(side['confidence'])} CI",
            [tables.ends_text(part["low"], part["high"]) for part in parts.values()],
            {end: _each(list(parts.values()), end) for end in ("low", "high")},
        ),
    ]
    return Table.of(_named("areas", side), columns)


def by_group(summary: Summary) -> Table | None:
    """Return the threshold of each group or predicted class, and what the common threshold does to its rows."""
    groups = [] if is_two_sided(summary) else summary["by_group"]
    if not groups:
        return None
    names, common = _each(groups, "name"), _each(groups, "common")
    columns = [
        Column("class" if summary["per_class"] else "group", list(map(short, names)), {"name": names}),
        Column("n", [f"{part['n']:,}" for part in groups], {"n": _each(groups, "n")}),
        Column(
            f"{_noun(summary)} at least",
            ["none" if part["value"] is None else f"{part['rounded']:.15g}" for part in groups],
            {"threshold": _each(groups, "value")},
        ),
        _shares("coverage", groups, "coverage"),
        _shares("error rate", groups, "risk"),
    ]
    bound = _shares("upper bound", groups, "risk_high")
    if summary["value"] is None:
        return Table.of("groups", [*columns, bound])
    level = percent(summary["confidence"])
    ends = [[_share_text(part[end]) for part in common] for end in ("risk_low", "risk_high")]
    exact = {f"common_{end}": _each(common, end) for end in ("risk_low", "risk_high")}
    interval = Column(f"{level} CI at common threshold", list(map(" to ".join, zip(*ends, strict=True))), exact)
    return Table.of("groups", [*columns, _shares("at common threshold", common, "risk", "common_"), bound, interval])


def _shares(heading: str, parts: Sequence[Facts], key: str, prefix: str = "") -> Column:
    """Return a column of shares."""
    return Column(heading, [_share_text(part[key]) for part in parts], {f"{prefix}{key}": _each(parts, key)})


def _share_text(share: float | None) -> str:
    return "-" if share is None else _share(share)


def _each(parts: Sequence[Facts], key: str) -> list[Any]:
    return [part[key] for part in parts]


def groups_heading(summary: Summary) -> str:
    """Return the heading of the table of groups."""
    return CLASSES if summary.get("per_class") else GROUPS


def side_heading(side: Summary, summary: Summary) -> str:
    """Return the heading of a curve."""
    return f'{CURVE}, decisions "{side["side"]}"' if is_two_sided(summary) else CURVE


def render(summary: Summary, *, title: str = "", used: str = "", style: Style | None = None) -> str:
    """Return the threshold as lines of text."""
    style = style or Style()
    blocks = [head(headline(summary), title, used, style)]
    blocks.append(
        [
            line
            for sentence, tone in toned_verdict(summary)
            for line in lead(wrapped(sentence, style, first="  ", later="    "), tone, style)
        ]
    )
    for side in sides(summary):
        blocks.append([style.bold(side_heading(side, summary)), *terminal.columns_of(points(side), style)])
        blocks[-1] += ["", *terminal.columns_of(areas(side), style)]
    groups = by_group(summary)
    if groups is not None:
        blocks.append([style.bold(groups_heading(summary)), *terminal.columns_of(groups, style)])
    blocks.append([style.faint(line) for line in paragraphs(remarks(summary), style)])
    return style.plain("\n\n".join("\n".join(block) for block in blocks))


def remarks(summary: Summary) -> list[str]:
    """Return the remarks below the numbers."""
    side = sides(summary)[0]
    return [
        f"method: {METHODS[side['method']]}; coverage: share of cases that are automatic; error rate: of these cases; "
        f"{percent(side['confidence'])} CI: pointwise, for a threshold that was chosen before"
    ]


def picture(side: Summary, summary: Summary) -> drawing.Picture:
    """Return the risk-coverage curve with its band, the bound of the risk and the threshold."""
    curve, level = side["curve"], percent(side["confidence"])
    coverages, risks, lows, highs = (curve[name] for name in ("coverages", "risks", "lows", "highs"))
    top = min(1.0, _TALLEST * max(*risks, 2 * side["max_risk"], *highs[len(highs) // 4 :]))
    certified = None if side["value"] is None else _at(coverages, side["coverage"])
    keys = [("curve", "error rate"), ("other", f"at most {percent(side['max_risk'])}")]
    at = "" if certified is None else " The vertical line is the certified threshold."
    end = "lowest" if side["side"] == "no" else "highest"
    return drawing.Picture(
        name=_named("risk-coverage", side),
        heading=side_heading(side, summary),
        chart=drawing.lines(
            coverages,
            {"other": [side["max_risk"]] * len(coverages), "curve": risks},
            ends=((0.0, 1.0), (0.0, top)),
            axes=("coverage", "error rate"),
            described=lambda i: (
                f"coverage {_share(coverages[i])}, {threshold_text(side, curve['thresholds'][i])}: "
                f"error rate {risks[i]:.4f}, {level} CI {tables.ends_text(lows[i], highs[i])}"
            ),
            band=(lows, highs),
            upright=None if certified is None else coverages[certified],
        ),
        caption=f"The curve is the error rate of the cases with the {end} {_noun(side)}, for each share of the cases. "
        f"The band is the pointwise {level} CI.{at}",
        table=points(side),
        keys=keys,
    )
