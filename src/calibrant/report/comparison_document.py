"""A comparison as a document: which model is better calibrated, the measures of all, and their differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

from calibrant.measures.listed import BY_NAME
from calibrant.render.blocks import (
    Block,
    Column,
    Details,
    Document,
    Figures,
    First,
    Heading,
    Method,
    Notes,
    Sentence,
    Source,
    Table,
    Tone,
)
from calibrant.render.figure import Figure, Points
from calibrant.render.reliability import side_by_side
from calibrant.render.row_figures import differences_figure
from calibrant.render.words import (
    GROUPS_WHOLE,
    GROUPS_WORST,
    chance,
    chance_text,
    distinct,
    evaluated_event,
    explained,
    facts_of,
    in_clusters,
    is_rare,
    left_out,
    named,
    percent,
    rows_text,
    short,
    texts,
    worst,
)
from calibrant.report import standings_document as standings
from calibrant.report.leaderboard import FEW
from calibrant.results import Decision, Estimate
from calibrant.statistics.resampling import alpha_of

if TYPE_CHECKING:
    from calibrant.report.comparison import Comparison, Pair

_NAME: Final = 24  # characters of a model's name in a heading
_NAMED: Final = 3  # untested groups that are named
_LISTED: Final = 6  # models whose measures are all listed in brief
_DRAWN: Final = 12  # models whose diagrams are drawn
_CLOSED_FORM: Final = (
    "p-values of calibration are computed by closed formulas; a report on one model simulates data sets, so "
    "its p-value may differ"
)
_DIFFERENCES: Final = (
    "Each difference is the first model minus the second model. A difference below 0 means that the first "
    "model has less error (or, for accuracy, is correct less often). The p-value of the debiased squared "
    "calibration error decides which model is better calibrated. With several pairs, this p-value is "
    "adjusted. For the other measures, a diamond means that the CI of this pair excludes 0."
)


def document_of(comparison: Comparison, source: Source, *, full: bool) -> Document:
    """Return the document of a comparison."""
    first = next(iter(comparison.diagrams.values()))
    return Document(
        title="Comparison of models",
        headline=_headline(comparison, source),
        conclusion=_conclusion(comparison),
        verdict=_verdict(comparison),
        blocks=_page(comparison) if full else _brief(comparison),
        facts=facts_of(
            source,
            ("tolerance", _tolerance(comparison.pairs[0].decision)),
            n=comparison.n,
            notion=comparison.notion,
            n_classes=comparison.n_classes,
            level=comparison.level,
            n_bins=comparison.n_bins,
            weight=float(first.counts.sum()),
        ),
        measured="difference",
        methods=_methods(comparison),
        first=First([], standings.picture(comparison), []) if full else None,
    )


def _headline(comparison: Comparison, source: Source) -> str:
    """Return the numbers of rows and models and the evaluated event."""
    counts = [each.difference.n for each in comparison.leaderboard]
    rows = rows_text(max(counts)) if min(counts) == max(counts) else f"{min(counts):,} to {rows_text(max(counts))}"
    parts = [
        f"{rows}{in_clusters(comparison.clusters)}",
        f"{comparison.n_classes:,} classes" if comparison.n_classes else "",
        f"{len(comparison.names)} models",
    ]
    event = evaluated_event(comparison.notion, comparison.n_classes, source)
    return f"{', '.join(filter(None, parts))} ({event})"


def _tolerance(decision: Decision | None) -> str:
    if decision is None:
        return ""
    label = BY_NAME[decision.measure].label
    return f"{label} of the second model minus {label} of the first model: at most {decision.tolerance:g}"


def _methods(comparison: Comparison) -> list[Method]:
    """Return how each difference was computed, by a pair that has this difference."""
    to_best = comparison.leaderboard[0].difference.method
    methods = [Method("difference to the best", "By how much a model is worse than the best model.", to_best)]
    for key, description in comparison.descriptions.items():
        parts = [pair[key] for pair in comparison.pairs]
        known = next((part for part in parts if math.isfinite(part.value)), parts[0])
        methods.append(Method(description.label, description.meaning, known.method))
    return methods


def _called(comparison: Comparison, pair: Pair, limit: int = 40) -> tuple[str, str]:
    """Return the names of a pair, cut so that all models stay distinct."""
    names = distinct(comparison.names, limit)
    return names[pair.first], names[pair.second]


def _is_few(comparison: Comparison) -> bool:
    """Return whether the models are so few that each pair is shown."""
    return len(comparison.names) <= FEW


# ---------------------------------------------------------------- the verdict


def _verdict(comparison: Comparison) -> list[Sentence]:
    """Return a tolerance, which models are calibrated, which may be the best, what groups show, and each pair."""
    pairs = comparison.pairs if _is_few(comparison) else ()
    with_first = [pair for pair in comparison.pairs if pairs or pair.first == comparison.names[0]]
    sentences = [_tolerated(pair, pair.decision, comparison) for pair in with_first if pair.decision is not None]
    sentences += standings.calibration(comparison, with_p=bool(pairs))
    if len(pairs) == 1 and comparison.sorted_by == "brier":
        sentences += _sharpness(pairs[0], comparison) or standings.ranking(comparison)
    else:
        sentences += standings.ranking(comparison)
    sentences += _in_groups(comparison)
    sentences += [_decision(pair, comparison) for pair in pairs]
    if len(pairs) > 1:
        adjusted = f"The p-values are Holm-adjusted for {len(pairs)} pairs"
        sentences.append(f"{adjusted}, but the confidence intervals are not adjusted.")
    sentences += _dependence(comparison)
    sentences += standings.impossible(comparison)
    if comparison.clusters is None:
        sentences.append("Confidence intervals and p-values assume independent rows.")
    sentences += [f"Caution: {caution}." for caution in comparison._cautions]
    return [Sentence(text, "caution" if text.startswith("Caution: ") else "") for text in sentences]


def _dependence(comparison: Comparison) -> list[str]:
    """Return how models without common rows are compared."""
    if comparison.independent:
        return ["The models were evaluated on independent rows, so the variances of the errors are added."]
    if not comparison.paired:
        return ["Sketches do not contain individual rows, so the confidence intervals are conservative."]
    return []


def _conclusion(comparison: Comparison) -> Sentence:
    """Return the decision about a single pair's tolerance, or which models are calibrated and may be the best."""
    text = standings.conclusion(comparison)
    if len(comparison.pairs) > 1:
        return Sentence(text)
    pair = comparison.pairs[0]
    if pair.decision is not None:
        states: dict[str, tuple[str, Tone]] = {
            "proven": ("Within", "good"),
            "disproven": ("Above", "bad"),
            "open": ("Inconclusive for", ""),
        }
        state, tone = states[pair.decision.state]
        return Sentence(f"{state} the tolerance of {pair.decision.tolerance:g}", tone)
    return Sentence(text, "bad" if comparison.worse(pair) else "good" if comparison.better(pair) else "")


def deciding(pair: Pair, comparison: Comparison) -> str:
    """Return the sentence that decides about a pair: about the tolerance, or without one about both models."""
    if pair.decision is None:
        return _decision(pair, comparison)
    return _tolerated(pair, pair.decision, comparison)


def _decision(pair: Pair, comparison: Comparison) -> str:
    """Return which model of a pair is better calibrated, or that the rows do not show it."""
    square = pair[comparison.decides]
    first, second = _called(comparison, pair)
    p = f"p {chance(square.p_value)}"
    if square.p_value > alpha_of(comparison.level):
        return f"No evidence in {rows_text(square.n)} that {first} or {second} is better calibrated ({p})."
    better, worse = (second, first) if square.value > 0 else (first, second)
    size = _size(square, comparison)
    return f"{better} is better calibrated than {worse} ({p}): its squared calibration error is smaller by {size}."


def _tolerated(pair: Pair, decision: Decision, comparison: Comparison) -> str:
    """Return whether the second model's ECE is larger by more than the tolerance."""
    tolerance, bound = f"the tolerance of {decision.tolerance:g}", f"{percent(decision.level)} confidence bound"
    first, second = _called(comparison, pair)
    difference = f"The ECE of {second} minus the ECE of {first}"
    is_bounded = math.isfinite(decision.low) and math.isfinite(decision.high)
    low, high = texts([decision.low, decision.high], 4, [decision.tolerance], "+") if is_bounded else ("", "")
    if decision.state == "proven":
        return f"{difference} is within {tolerance}: upper {bound} {high}."
    if decision.state == "disproven":
        return f"{difference} exceeds {tolerance}: lower {bound} {low}."
    bounds = f": {bound}s {low} and {high} for the difference of the ECEs" if is_bounded else ""
    more = ""
    if decision.more_rows is not None:
        more = f" About {decision.more_rows:,} more rows would settle it if the true difference equals the estimate."
    return f"Inconclusive for a tolerance of {decision.tolerance:g}{bounds}.{more}"


def _sharpness(pair: Pair, comparison: Comparison) -> list[str]:
    """Return which model has the better Brier score, if the rows show it. Calibration is only a part of it."""
    brier = pair["brier"]
    if not math.isfinite(brier.low) or brier.low <= 0 <= brier.high:
        return []
    better = _called(comparison, pair)[brier.value > 0]
    size = _size(brier, comparison)
    return [f"By the Brier score, which also rewards discrimination, {better} is better by {size}."]


def _in_groups(comparison: Comparison) -> list[str]:
    """Return in which groups one model is better calibrated: one sentence, or none without tested groups."""
    tested = [group for group in comparison.groups if not group.flag]
    if not tested:
        return []
    found = [(group, place) for group in tested for place, out in enumerate(group.called_out) if out]
    tests = sum(len(group.called_out) for group in tested)
    after = "after Holm correction"
    counts = f"{tests:,} comparison{'s' * (tests != 1)} in {len(tested):,} group{'s' * (len(tested) != 1)}"
    if not found:
        return [f"No group shows a difference in calibration {after} ({counts})."]
    found.sort(key=lambda each: each[0].adjusted_p_values[each[1]])
    parts = []
    for group, place in found:
        pair = group.comparison.pairs[place]
        first, second = _called(comparison, pair)
        square = pair[comparison.decides]
        better, worse = (second, first) if square.value > 0 else (first, second)
        parts.append(f"{short(group.name)} ({better} is better calibrated than {worse})")
    many = len({group.name for group, _ in found})
    show = f"{many:,} of {len(tested):,} groups {'shows' if many == 1 else 'show'} a difference in calibration"
    return [f"{show} {after}: {named(parts, _NAMED)}."]


def _size(estimate: Estimate, comparison: Comparison) -> str:
    """Return the size of a difference with its interval, which excludes 0."""
    ends = sorted((abs(estimate.low), abs(estimate.high)))
    value, low, high = texts([abs(estimate.value), *ends], _places(estimate), [0.0])
    return f"{value} ({percent(comparison.level)} CI {low} to {high})"


# ---------------------------------------------------------------- the blocks


def _brief(comparison: Comparison) -> list[Block]:
    """Return the tables of the leaderboard, of the models, of the pairs, and of the groups."""
    blocks = standings.leaderboard_blocks(comparison, full=False)
    tail = f"{100 * comparison.level:g}th percentile"
    if_calibrated = f"if cal.: {tail} of the ECE of a perfectly calibrated model with these predictions"
    models, notes = standings.models_table(comparison), Notes([if_calibrated, *_remarks(comparison)])
    if len(comparison.names) <= _LISTED:
        blocks += [Heading("Models"), models, notes]
    else:
        blocks += [Details("Models", [models]), notes]
    if len(comparison.pairs) == 1:
        blocks += _pair(comparison.pairs[0], comparison)
    else:
        if _is_few(comparison):
            blocks += [Heading(_title(comparison)), _chosen_table(comparison)]
        blocks.append(Details("The differences in all measures", [_differences_table(comparison)]))
    return [*blocks, *_groups(comparison, full=False)]


def _page(comparison: Comparison) -> list[Block]:
    """Return the leaderboard, the diagrams of the models, the charts of the differences, and the groups."""
    blocks = [*standings.leaderboard_blocks(comparison, full=True), *_models(comparison)]
    chosen, *others = _keys(comparison)
    charts = list(chain.from_iterable(_chart(key, comparison) for key in others))
    blocks += [
        Heading(_title(comparison)),
        *(
            figure._replace(label="")
            for figure in _chart(chosen, comparison)
            if any(isinstance(mark, Points) for mark in figure.marks)  # words replace differences without an interval
        ),
        _chosen_table(comparison),
        Notes(_remarks(comparison)),
        Details(
            "The differences in all measures",
            [
                Notes([_DIFFERENCES]),
                *([Figures(charts, one_legend=True)] if charts else []),
                _differences_table(comparison),
            ],
        ),
    ]
    return [*blocks, *_groups(comparison, full=True)]


def _keys(comparison: Comparison) -> list[str]:
    """Return the measures of pairs: the one that ranks the models first, the one that decides about pairs last."""
    known = dict.fromkeys((comparison.sorted_by, "brier", "nll", "accuracy", *comparison.descriptions))
    keys = [key for key in known if key in comparison.descriptions]
    return sorted(keys, key=lambda key: key == comparison.decides and key != comparison.sorted_by)


def _title(comparison: Comparison) -> str:
    """Return the heading of the differences; it names a single pair."""
    label, pairs = standings.label_of(comparison), comparison.pairs
    title = f"Differences in the {label}"
    return f"{title}: {' − '.join(_called(comparison, pairs[0], _NAME))}" if len(pairs) == 1 else title


def _chosen_table(comparison: Comparison) -> Table:
    """Return the differences of each pair in the measure that ranks the models, and the test of calibration."""
    pairs = [comparison.pairs[place] for place in _shown_pairs(comparison)]
    parts = [pair[comparison.sorted_by] for pair in pairs]
    columns = [
        Column("first − second", [" − ".join(_called(comparison, pair, _NAME)) for pair in pairs]),
        *(column._replace(exact={}) for column in difference_columns(parts, comparison.level)),
        Column("calibration: p", [chance_text(pair[comparison.decides].p_value) for pair in pairs], spare=1),
    ]
    return Table("differences-in-brief", columns, _title(comparison))


def _remarks(comparison: Comparison) -> list[str]:
    lone = ", ".join(map(short, comparison.lone_groups))
    return [*([f"groups that are not in every sketch are not compared: {lone}"] if lone else []), _CLOSED_FORM]


def _models(comparison: Comparison) -> list[Block]:
    """Return the diagrams of the models on one scale, and the measures of all."""
    level = comparison.level
    rare = all(map(is_rare, comparison.diagrams.values()))
    best = [each.name for each in comparison.leaderboard[:_DRAWN]]
    drawn = {name: diagram for name, diagram in comparison.diagrams.items() if name in best}
    files = [f"reliability-diagram-{i}" for i, name in enumerate(comparison.diagrams, 1) if name in best]
    figures, tables = side_by_side(drawn, comparison.notion, level, files=files, histogram=False, rare=rare)
    caption = (
        "Each point shows the mean predicted probability and the observed frequency of a bin, with the "
        f"{percent(level)} CI of the frequency. Grey: consistency band. A diamond marks a point outside its "
        "band."
    )
    if left := len(comparison.names) - len(drawn):
        caption += f" The diagrams of the {left} other models are left out."
    if rare:
        caption += " The axes show log-odds, because the predicted probabilities are small."
    return [Heading("Models"), figures, Notes([caption]), standings.models_table(comparison), tables]


# ---------------------------------------------------------------- differences


def _pair(pair: Pair, comparison: Comparison) -> list[Block]:
    """Return the differences of two models, with remarks on them."""
    keys = _keys(comparison)
    parts = [pair[key] for key in keys]
    columns = [
        Column("measure", [comparison.descriptions[key].label for key in keys]),
        *difference_columns(parts, comparison.level),
        Column("main test: p", [chance_text(part.p_value) for part in parts]),
    ]
    remarks = explained(
        (_remark(key, pair[key], comparison), comparison.descriptions[key].label)
        for key in keys
        if (key != comparison.decides or not math.isfinite(pair[key].low)) and _remark(key, pair[key], comparison)
    )
    heading = " minus ".join(_called(comparison, pair, _NAME))
    return [Heading(heading), Table("differences", columns, heading), *map(Sentence, remarks)]


def _differences_table(comparison: Comparison) -> Table:
    """Return the differences of all pairs that are shown."""
    labels, keys = comparison.descriptions, _keys(comparison)
    pairs = [comparison.pairs[place] for place in _shown_pairs(comparison)]
    listed = [(pair, key, pair[key]) for pair in pairs for key in keys]
    parts, keys_of_rows = [part for _, _, part in listed], [key for _, key, _ in listed]
    names = {"first": [pair.first for pair, _, _ in listed], "second": [pair.second for pair, _, _ in listed]}
    p_values = [part.p_value if key == comparison.decides else math.nan for _, key, part in listed]
    remarks = [_remark(key, part, comparison) for _, key, part in listed]
    columns = [
        Column("measure", [labels[key].label for key in keys_of_rows], {**names, "measure": keys_of_rows}, words=True),
        *difference_columns(parts, comparison.level),
        Column("remark", remarks, {"p_value": p_values}, words=True),
    ]
    if len(pairs) > 1:  # each one is named in its first row
        texts = [f"{pair.first} − {pair.second}" if key == keys[0] else "" for pair, key, _ in listed]
        columns.insert(0, Column("first − second", texts))
    return Table("differences", columns, "Differences")


def difference_columns(parts: Sequence[Estimate], level: float, kind: str = "") -> list[Column]:
    """Return the columns of differences and their intervals; ``kind`` says which intervals they are."""
    values, ends = zip(*map(_texts, parts), strict=True)
    exact = {
        "value": [part.value for part in parts],
        "low": [part.low for part in parts],
        "high": [part.high for part in parts],
    }
    interval = f"{percent(level)} CI"
    return [Column("difference", values, exact), Column(f"{kind}{interval}", ends, brief=interval)]


def _chart(key: str, comparison: Comparison) -> list[Figure]:
    """Return the figure of one measure's differences, a row for each pair of models; none without any.

    The heading of the page names a single pair, so its row has the name of the measure.
    """
    pairs = [comparison.pairs[place] for place in _shown_pairs(comparison)]
    tips: list[str] = []
    better: list[bool | None] = []
    description, level = comparison.descriptions[key], comparison.level
    for pair in pairs:
        value, interval = _texts(pair[key])
        words = [
            f"{pair.first} minus {pair.second}: {value}",
            f"{percent(level)} CI {interval}" if interval else "",
            _remark(key, pair[key], comparison),
        ]
        tips.append("; ".join(filter(None, words)))
        clear = pair[key].low > 0 or pair[key].high < 0
        if key == comparison.decides:
            clear = pair[key].p_value <= alpha_of(level)
        is_better = pair[key].value < 0 if description.better == "higher" else pair[key].value > 0
        better.append(is_better if clear else None)
    if not any(math.isfinite(pair[key].value) for pair in pairs):
        return []
    figure = differences_figure(pairs, key, description, level, tips=tips, better=better)
    return [figure if len(comparison.pairs) == 1 else figure._replace(label=description.label)]


def _groups(comparison: Comparison, *, full: bool) -> list[Block]:
    """Return the differences of the shown pairs in every group, if there are groups; in brief, in the worst of many."""
    groups = comparison.groups
    blocks: list[Block] = []
    for place in _shown_pairs(comparison) if groups else []:
        blocks += _groups_of_pair(place, comparison, full=full)
    if not groups:
        return blocks
    if full:
        return [*blocks, Notes(_group_cautions(comparison))]
    flags = ((group.flag, short(group.name)) for group in groups if group.flag)
    notes = [f"– {why}" for why in explained(flags, _NAMED)] + _group_cautions(comparison)
    if len(groups) >= GROUPS_WHOLE:
        notes += left_out(len(groups) - GROUPS_WORST, "groups", "--json, --html, or comparison.groups")
    return [*blocks, Notes(notes)]


def _group_cautions(comparison: Comparison) -> list[str]:
    """Return the cautions about tested groups with the names of their groups; of many, the first ones."""
    flags = (
        (flag, short(group.name))
        for group in comparison.groups
        if not group.flag
        for flag in dict.fromkeys(pair[comparison.decides].details.get("flag") for pair in group.comparison.pairs)
        if flag
    )
    notes = explained(flags, _NAMED)
    more = len(notes) - _NAMED
    return notes if more <= 0 else [*notes[:_NAMED], f"{more:,} more cautions about groups are in the JSON (flag)"]


def _groups_of_pair(place: int, comparison: Comparison, *, full: bool) -> list[Block]:
    groups, decides = comparison.groups, comparison.decides
    parts = [group.comparison.pairs[place][decides] for group in groups]
    p_values = [group.adjusted_p_values[place] for group in groups]
    marked = [group.called_out[place] for group in groups]
    flags = [group.flag if full else "–" * bool(group.flag) for group in groups]
    tests = [flag or chance_text(p_value) for flag, p_value in zip(flags, p_values, strict=True)]
    exact = {"adjusted_p_value": p_values, "called_out": marked}
    columns = [
        Column.of("group", "group", (group.name for group in groups)),
        Column.of("rows", "rows", (group.n for group in groups), "{:,}".format),
        *difference_columns(parts, comparison.level),
        Column("p adjusted", tests, exact, brief="p adj."),
    ]
    names = " minus ".join(_called(comparison, comparison.pairs[place], _NAME))
    heading = f"Groups: {names}, {comparison.descriptions[decides].label}"
    table = Table(f"groups-{place + 1}", columns, heading, marked=marked)
    order = worst(p_values, [part.value for part in parts])
    if not full and len(order) < len(groups):
        heading += f" (the {len(order)} of {len(groups):,} groups with the most evidence of a difference)"
    number = sum(len(comparison.pairs) for group in groups if not group.flag)
    return [Heading(heading), _found_in_groups(sum(marked), number), table if full else table.of_rows(order)]


def _found_in_groups(found: int, number: int) -> Sentence:
    """Return how many of the comparisons in groups show a difference in calibration."""
    shows = "show" if found != 1 else "shows"
    how = f"{found} of {number} comparisons {shows} that one of the two models is better calibrated"
    return Sentence(f"After Holm correction, {how}{' (marked)' * bool(found)}.")


def _shown_pairs(comparison: Comparison) -> list[int]:
    """Return the places of the pairs that a page shows: of all few models, of many those with the best one."""
    best = comparison.leaderboard[0].name
    return [
        place for place, pair in enumerate(comparison.pairs) if _is_few(comparison) or best in (pair.first, pair.second)
    ]


def _texts(part: Estimate) -> tuple[str, str]:
    """Return a difference and its interval; either may be missing."""
    places = _places(part)
    value = f"{part.value:+z.{places}f}" if math.isfinite(part.value) else ""
    return value, f"{part.low:+z.{places}f} to {part.high:+z.{places}f}" if math.isfinite(part.low) else ""


def _remark(key: str, part: Estimate, comparison: Comparison) -> str:
    if not math.isfinite(part.low):
        return str(part.details.get("reason", "no interval: an interval needs at least two rows"))
    if key == comparison.decides:
        return f"main test: p {chance(part.p_value)}"
    if comparison.descriptions[key].binning is not None:
        return f"{comparison.n_bins} bins; conservative"
    if "only_first" not in part.details:
        return ""
    first, second = (f"{part.details[name]:,.6g}" for name in ("only_first", "only_second"))
    return f"rows that only the first model predicts correctly: {first}; only the second model: {second}"


def _places(part: Estimate) -> int:
    """Return the decimal places that show two digits of the interval's half width; at least four."""
    if not math.isfinite(part.low) or part.high <= part.low:
        return 4
    return min(max(4, 1 - math.floor(math.log10((part.high - part.low) / 2))), 9)
