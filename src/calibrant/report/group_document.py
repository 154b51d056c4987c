"""The groups of a report as blocks: their table and charts, and the measures that the profile shows for each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Final

from calibrant.inputs.group_rows import are_times
from calibrant.measures.listed import BY_NAME
from calibrant.render.blocks import Block, Column, Details, Heading, Notes, Sentence, Table, Tile, Tiles
from calibrant.render.figure import Axis, Band, Figure, Mark, Polyline, Rule
from calibrant.render.line_figures import slices_axis, tips_along
from calibrant.render.reliability import small_figure
from calibrant.render.row_figures import all_rows_of, estimates_in, groups_figure
from calibrant.render.words import (
    COMPONENTS,
    GROUPS_WORST,
    amount,
    capital,
    chance,
    chance_text,
    ends_column,
    ends_text,
    explained,
    gathered,
    left_out,
    named,
    number,
    percent,
    rows_text,
    share_text,
    short,
    signed,
    worst,
)
from calibrant.report.measure_document import floor_columns, interval_column
from calibrant.results import Code
from calibrant.results.values import Forest
from calibrant.statistics.design import LARGE, MINORITY

if TYPE_CHECKING:
    from calibrant.report.report import GroupReport, Report

_SEARCHED: Final = 20  # so many groups have a field to search by name
_NAMED: Final = 3  # untested groups that are named
_COMPARED: Final = 5  # groups that are not compared, by name
_HARD_SPACE: Final = "\N{NO-BREAK SPACE}"


def group_blocks(report: Report, *, full: bool, heading: str = "Groups") -> list[Block]:
    """Return the groups with their tests, and the measures of the profile by group; nothing without groups.

    Of many groups those with the most evidence come first. ``full`` adds the charts and the table of all groups.
    """
    if not report.groups:
        return []
    groups = report.groups
    order = in_order_of_evidence(groups)
    blocks = _page(report, order, heading) if full else _brief(report, order, heading)
    for name in report.forests:
        blocks += _forest(name, report, order, full=full)
    return blocks


def in_order_of_evidence(groups: Sequence[GroupReport]) -> list[int]:
    """Return the places of the groups to read: of many, those with the most evidence first."""
    return worst([group.p_value for group in groups], [group.ece.value for group in groups])


def _brief(report: Report, order: Sequence[int], heading: str) -> list[Block]:
    """Return the table of the groups, with notes."""
    groups, left = report.groups, len(report.groups) - len(order)
    title = f"The {len(order)} of {len(groups):,} groups with the most evidence of miscalibration" if left else heading
    table = groups_table(groups, report.level, full=False, all_rows=report.all_rows)
    blocks: list[Block] = [Heading(title, "groups"), _by_column(table, report, order)]
    found, notes = _tests(groups, report.level, "group", full=False)
    notes += [*group_cautions(groups), *[_OVERLAP] * (report.all_rows is not None)]
    notes += left_out(left, "groups", "--json, --html, or report.groups")
    return [*blocks, *found, *_multicalibration(report), Notes(notes)]


def _tests(
    groups: Sequence[GroupReport], level: float | None, word: str, *, full: bool
) -> tuple[list[Sentence], list[str]]:
    """Return how many groups are flagged, and notes on what is tested and why others are not; nothing without level."""
    if level is None:
        return [], []
    marked = [group.called_out for group in groups]
    found = correction([group.adjusted_p_value for group in groups], marked, word, f"{word}s")
    found = f"{capital(found)}{', marked ◆' * any(marked)}." if full else f"* {found}"
    notes = [f"p {'adjusted' if full else 'adj.'}: {_tested(groups)}"] if _tested(groups) else []
    return [Sentence(found)], [*notes, *untested(groups)]


def untested(groups: Iterable[GroupReport]) -> list[str]:
    """Return a note on each reason why groups are not tested."""
    return [
        f"– {why}" for why in explained(((group.flag, short(group.name)) for group in groups if group.flag), _NAMED)
    ]


#: Why intervals of a group are not as good as they seem.
_CAUTIONS: Final = {
    Code.RARE_OUTCOME: f"fewer than {MINORITY} rows (or clusters) with one of the outcomes, so p-values and "
    "intervals are rough",
    Code.LARGE_CLUSTER: f"one cluster has more than {100 * LARGE:.0f} % of the rows, so intervals are wide and "
    "p-values conservative",
    Code.HEAVY_WEIGHTS: "few rows have most of the weight, so intervals may be too short",
}


def group_cautions(groups: Sequence[GroupReport]) -> list[str]:
    """Return a note on each kind of caution, with the names of its groups."""
    return explained(
        ((text, short(group.name)) for code, text in _CAUTIONS.items() for group in groups if code in group.cautions),
        _NAMED,
    )


def level_blocks(report: Report, *, full: bool) -> list[Block]:
    """Return the events that the level is at least k, with their tests; nothing without ordered levels."""
    events = list(report.at_least.values())
    if not events:
        return []
    order = in_order_of_evidence(events)
    found, notes = _tests(events, report.level, "event", full=full)
    notes += group_cautions(events)
    notes.append(
        "for each level, the event is this level or a higher one; its probability is the sum of the "
        "probabilities of these levels"
    )
    left = len(events) - len(order)
    notes += left_out(left, "levels", "--json, or report.at_least")
    blocks: list[Block] = [Heading("Events: at least this level", "levels")]
    tiles = group_tiles([events[i] for i in order])
    if full and tiles:
        blocks.append(Tiles(tiles))
    table = groups_table(events, report.level, full=full, what="level")
    return [*blocks, table.of_rows(order) if left else table, *found, Notes(notes)]


def _page(report: Report, order: Sequence[int], heading: str) -> list[Block]:
    """Return the charts, tables and diagrams of the groups."""
    groups, level = report.groups, report.level
    rest = sorted(set(range(len(groups))) - set(order))
    blocks: list[Block] = [Heading(heading, "groups", searchable=len(groups) >= _SEARCHED), Sentence(_summary(report))]
    blocks += _multicalibration(report)
    blocks += _timeline(report)
    shown = [groups[i] for i in order]
    title, eces = "ECE and noise floor of each group", [group.ece for group in shown]
    of_all = None if report.all_rows is None else (report.n, report.all_rows.ece)
    figure = groups_figure(title, shown, eces, "ece", "ECE", level, of_all=of_all)
    blocks.append(figure._replace(caption=_caption(report, len(shown), len(rest))))
    table = groups_table(groups, level, full=True, all_rows=report.all_rows)
    blocks.append(_by_column(table, report, order))
    if rest:
        others = _by_column(table, report, rest)
        blocks.append(Details(f"The other {len(rest)} groups as a table", [others], long=True))
    blocks.append(Notes(group_cautions(groups)))
    tiles = group_tiles(shown)
    if tiles:
        blocks.append(Details("A diagram of each group", [Tiles(tiles)], long=True))
    return blocks


# ---------------------------------------------------------------- the groups


def _caption(report: Report, drawn: int, left: int) -> str:
    """Return what the chart shows, and how many groups are not in it."""
    caption = "ECE of each group"
    if report.level is not None:
        tested = _tested(report.groups)
        caption += (
            f" with its {percent(report.level)} CI and noise floor. A diamond marks a group with evidence of "
            f"miscalibration{', by ' * bool(tested)}{tested}. The lower end of a CI is conservative near "
            "zero, so it may be 0 although there is evidence of miscalibration"
        )
    if report.all_rows is not None:
        caption += f". {capital(_OVERLAP)}"
    drawn_groups = f"The {drawn:,} groups with the most evidence of miscalibration are drawn"
    others = f" {drawn_groups}. The table contains the other {left:,} groups."
    return f"{caption}.{others * bool(left)}"


#: What readers of marginal subgroups have to know.
_OVERLAP: Final = (
    "each row is in one group per column, so groups of different columns overlap; Holm's correction is valid "
    "for overlapping groups"
)


def _by_column(table: Table, report: Report, order: Sequence[int]) -> Table:
    """Return a table of groups with these rows; marginal subgroups are below the names of their columns.

    The rows after those of the groups stay at the end.
    """
    groups = report.groups
    after = range(len(groups), len(table.columns[0].texts))
    if report.all_rows is None:
        return table.of_rows([*order, *after])
    by_column = gathered((group.column, i) for i, group in enumerate(groups) if i in order)
    return table.under_headings(by_column, list(after))


#: What a group's test has found, in the exact numbers of the table.
_TESTS: Final = ("p_value", "adjusted_p_value", "called_out", "flag")


def groups_table(
    groups: Sequence[GroupReport],
    level: float | None,
    *,
    full: bool,
    what: str = "group",
    facts: Sequence[Column] = (),
    words: Sequence[Column] = (),
    all_rows: GroupReport | None = None,
) -> Table:
    """Return the ECE of every group with its interval and noise floor, and the test of the group.

    Questions are groups with other columns: ``facts`` come instead of the difference, ``words`` last. ``all_rows`` come
    after the groups.
    """
    groups = [*groups, *([] if all_rows is None else [all_rows])]
    names, eces = [group.name for group in groups], [group.ece for group in groups]
    difference = Column.of("difference", "mean_gap", (group.mean_gap.value for group in groups), signed, brief="diff.")
    columns = [
        Column(what, [group.label for group in groups], {what: names}),
        Column.of("rows", "rows", (group.n for group in groups), amount),
        *(facts or [difference]),
        Column.of("ECE", "ece", (ece.value for ece in eces), number),
    ]
    name, title = f"{what}s", f"{what}s".capitalize()
    if level is None:
        return Table(name, [*columns, *words], title)
    means, uppers = floor_columns(eces, level)
    uppers = uppers._replace(exact={**means.exact, **uppers.exact}, spare=2, brief=f"{percent(level)} below")
    tests = {name: [getattr(group, name) for group in groups] for name in _TESTS}
    p_values = [chance_text(group.adjusted_p_value) or (group.flag if full else "–") for group in groups]
    columns += [
        interval_column(eces, level, spare=0 if full else 1),
        uppers,
        Column("p adjusted", p_values, tests, brief="p adj."),
        *words,
    ]
    return Table(name, columns, title, marked=tests["called_out"])


def group_tiles(groups: Sequence[GroupReport]) -> list[Tile]:
    """Return the small diagram of each group that has one, with its ECE."""
    found = f"; ◆{_HARD_SPACE}evidence of miscalibration"
    return [
        Tile(
            group.name,
            f"ECE {group.ece.value:.4f}, {rows_text(group.n)}{found * group.called_out}",
            small_figure(group.diagram),
            group.called_out,
        )
        for group in groups
        if group.diagram is not None
    ]


def _timeline(report: Report) -> list[Figure]:
    """Return the difference of groups that are times, in their order, as a line with its band; none for others."""
    level, names = report.level, [group.name for group in report.groups]
    parts = [group.mean_gap for group in report.groups]
    if not are_times(names) or any(math.isnan(part.value) for part in parts):
        return []
    values, lows, highs = zip(*((part.value, part.low, part.high) for part in parts), strict=True)
    known = [end for end in (*values, *lows, *highs, 0.0) if math.isfinite(end)]
    margin = 0.05 * (max(known) - min(known)) or 0.01

    def tip(i: int) -> str:
        has_ends = level is not None and not math.isnan(lows[i])
        ends = f", {percent(level or 0)} CI {ends_text(lows[i], highs[i], signed)}" if has_ends else ""
        return f"{names[i]}: difference {signed(values[i])}{ends}"

    places, title = range(1, len(names) + 1), "Difference over time"
    marks: list[Mark] = [
        Polyline(places, values, "curve"),
        Rule("y", "zero", value=0.0),
        tips_along(places, values, tip),
    ]
    if level is not None:
        marks.append(Band(places, lows, highs, "sure"))
    caption = (
        "The line is the mean predicted probability minus the observed frequency in each period. The band is "
        "the CI of this difference. The ideal value is 0."
    )
    y = Axis("Predicted - observed", min(known) - margin, max(known) + margin)
    return [Figure(title, slices_axis(names), y, marks, caption=caption, name="difference-over-time", label=title)]


# ---------------------------------------------------------------- the groups, in words


def _summary(report: Report) -> str:
    """Return the numbers of groups and of tested groups, and the names of those that are flagged."""
    groups = report.groups
    many = f"{len(groups):,} group{'s' * (len(groups) != 1)}"
    if report.level is None:
        return f"{many}."
    tested = sum(not math.isnan(group.adjusted_p_value) for group in groups)
    if not tested:
        return f"{many}, none with enough rows for a test."
    flagged = [group.name for group in groups if group.called_out]
    after = " after Holm correction" if tested > 1 else ""
    evidence = (
        f"Evidence of miscalibration{after}: {named(flagged, GROUPS_WORST)}."
        if flagged
        else f"No group shows evidence of miscalibration{after}."
    )
    return f"{many}, {tested:,} with enough rows for a test. {evidence}"


def _tested(groups: Sequence[GroupReport]) -> str:
    """Return what the test of each group combines; empty if it is the ECE alone."""
    parts = {part for group in groups if group.test is not None for part in group.test.details["parts"]}
    names = [name for part, name in COMPONENTS.items() if part in parts]
    return f"one test that combines {', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else ""


def correction(adjusted: Sequence[float], marked: Sequence[bool], word: str, plural: str) -> str:
    """Return how many of the tested groups or classes are flagged after the correction."""
    tested = sum(not math.isnan(p) for p in adjusted)
    if not tested:
        return f"no {word} has enough rows for a test"
    corrected = " after Holm correction" if tested > 1 else ""
    of = f"of {tested:,} {plural if tested > 1 else word}"
    return f"evidence of miscalibration{corrected}: {sum(marked) or 'none'} {of}"


def _multicalibration(report: Report) -> list[Sentence]:
    """Return the multicalibration error with its group and its p-value as one sentence; none without it."""
    error = report.multicalibration
    if error is None:
        return []
    value = "infinite" if math.isinf(error.value) else f"{error.value:.1f} standard deviations"
    group = "all rows" if error.group is None else f"group {short(error.group)}"
    adjusted = "" if math.isnan(error.p_value) else f" (Holm-adjusted p {chance(error.p_value)})"
    return [Sentence(f"Multicalibration error: {value} in {group}{adjusted}.")]


# ---------------------------------------------------------------- measures by group


def _forest(name: str, report: Report, order: Sequence[int], *, full: bool) -> list[Block]:
    """Return a section on one measure of every group; of many groups the worst."""
    measure, write = BY_NAME[name], "{:z.2f}".format
    label, level, forest = measure.label, report.level, report.forests[name]
    if all(math.isnan(forest.values[i]) for i in order):
        return []
    values, ends = forest.values.tolist(), {"low": forest.lows.tolist(), "high": forest.highs.tolist()}
    texts = ["–" if math.isnan(value) else write(value) for value in values]
    columns = [
        Column("group", [group.label for group in report.groups], {"group": forest.groups}),
        Column(label, texts, {"value": values}),
    ]
    if level is None:
        columns[1] = Column(label, texts, {"value": values, **ends})
    else:
        intervals = ends_column(f"{percent(level)} CI", ends, repeat(write))
        columns.append(intervals._replace(spare=0 if full else 1))
    if forest.weights is not None:
        columns = _with_pooled(columns, forest, write, full=full)
    if (of_all := all_rows_of(report.all_rows, report.estimates, name)) is not None:
        part = of_all[1]
        columns = _with_rows(columns, [["all rows", write(part.value), ends_text(part.low, part.high, write)]])
    slug, title = f"{name.replace('_', '-')}-of-groups", capital(f"{label} by group")
    table, caption = _by_column(Table(slug, columns, title), report, order), heterogeneity(forest, level)
    if not full:
        return [Heading(title, slug, level=3), table, Sentence(caption)]
    shown, estimates = [report.groups[i] for i in order], estimates_in(forest, level)
    parts = [estimates[group.name] for group in shown]
    figure = groups_figure(title, shown, parts, name, label, level, forest=forest, pooled=True, of_all=of_all)
    return [Heading(title, slug, level=3), figure._replace(caption=caption), table]


def _with_pooled(
    columns: Sequence[Column], forest: Forest, write: Callable[[float], str], *, full: bool
) -> list[Column]:
    """Return the columns with the weights of the groups, and with rows of the pooled value."""
    shares = [] if forest.weights is None else forest.weights.tolist()
    weights = ["" if math.isnan(share) else share_text(share) for share in shares]
    lines = [["pooled", write(forest.pooled), ends_text(forest.pooled_low, forest.pooled_high, write), ""]]
    if not math.isnan(forest.prediction_low):
        lines.append(["prediction", "", ends_text(forest.prediction_low, forest.prediction_high, write), ""])
    return _with_rows([*columns, Column("weight", weights, {"weight": shares}, spare=0 if full else 2)], lines)


def _with_rows(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[Column]:
    more = zip(columns, zip(*rows, strict=True), strict=False)
    return [column._replace(texts=[*column.texts, *added]) for column, added in more]


def heterogeneity(forest: Forest, level: float | None) -> str:
    """Return how much the groups differ, the pooled value, and which groups are not compared, in words.

    Of marginal subgroups, those of each column are compared.
    """
    if forest.columns:
        return " ".join(f"{column}: {heterogeneity(each, level)}" for column, each in forest.columns.items())
    left_out = gathered((reason, name) for name, reason in forest.left_out.items())
    others = "".join(f" Not compared ({reason}): {named(names, _COMPARED)}." for reason, names in left_out.items())
    if math.isnan(forest.heterogeneity):
        return f"Homogeneity is not tested, because fewer than two groups can be compared.{others}"
    across = f"I² = {100 * forest.heterogeneity:.0f} % across {forest.compared:,} groups"
    text = f"{across}; Cochran's Q test of homogeneity: p {chance(forest.p_value)}."
    if math.isnan(forest.pooled):
        return f"{text}{others}"
    share = percent(level or 0)
    ends = f"{share} CI {forest.pooled_low:.2f} to {forest.pooled_high:.2f}"
    if not math.isnan(forest.prediction_low):
        ends += f"; {share} prediction interval {forest.prediction_low:.2f} to {forest.prediction_high:.2f}"
    return f"{text} Pooled {forest.pooled:.2f} ({ends}).{others}"
