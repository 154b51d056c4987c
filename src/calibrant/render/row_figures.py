"""Figures of rows: an estimate of each group, model, pair of models or measure, with its interval and its floor."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, Protocol

from calibrant.measures.binned.ece import ECE
from calibrant.measures.listed import BY_NAME
from calibrant.render.figure import Annotation, Axis, Bars, Figure, Intervals, Mark, Name, PointLook, Points, Rule, Tips
from calibrant.render.words import chance, chance_text, ends_text, number, percent, ranks_text
from calibrant.results import Description, Estimate
from calibrant.results.values import Forest

_HALF: Final = 0.31  # of the height of a noise floor, in rows
_MARGIN: Final = 0.04  # of the axis, on both sides
_NOTHING: Final = Estimate(math.nan, math.nan, math.nan, math.nan)


class GroupEstimates(Protocol):
    """A group of rows with its estimates, as `calibrant.report.GroupReport`."""

    @property
    def name(self) -> str: ...
    @property
    def n(self) -> int: ...
    @property
    def p_value(self) -> float: ...
    @property
    def adjusted_p_value(self) -> float: ...
    @property
    def called_out(self) -> bool: ...
    @property
    def flag(self) -> str: ...
    @property
    def column(self) -> str: ...
    @property
    def label(self) -> str: ...
    def __getitem__(self, name: str, /) -> Estimate: ...


class PairEstimates(Protocol):
    """Two models with their differences, as `calibrant.report.Pair`."""

    @property
    def first(self) -> str: ...
    @property
    def second(self) -> str: ...
    def __getitem__(self, name: str, /) -> Estimate: ...


class ModelEstimates(Protocol):
    """One model of a leaderboard, as `calibrant.report.Standing`."""

    @property
    def name(self) -> str: ...
    @property
    def among_best(self) -> bool: ...
    @property
    def rank_low(self) -> int: ...
    @property
    def rank_high(self) -> int: ...
    def __getitem__(self, name: str, /) -> Estimate: ...


class Row(NamedTuple):
    """One row: its name, its estimate, how this looks, and what the row says on a page; a heading says nothing.

    An estimate without a finite value has no mark; a ``word`` may stand in its place.
    """

    name: Name
    part: Estimate
    look: PointLook
    tip: str
    word: str = ""

    @property
    def has_mark(self) -> bool:
        return math.isfinite(self.part.value) and not self.word


def rows_figure(
    title: str,
    rows: Sequence[Row],
    words: Mapping[PointLook, str],
    x: str,
    *,
    level: float | None,
    around: float | None = 0.0,
    rule: Rule | None = None,
    ratio: bool = False,
    interval: str = "CI",
    y: str = "",
) -> Figure:
    """Return a figure of rows, the first one above.

    ``words`` say what the looks mean, in the order of the legend. The axis reaches to ``around``. That of a ratio is
    logarithmic if all values are above 0.
    """
    share = percent(level or 0)
    marks = [*_floors(rows, share), *_estimates(rows, words, f"{share} {interval}" if interval else "")]
    marks += [Annotation(i, row.word) for i, row in enumerate(rows) if row.word]
    if rule is not None:
        marks.append(rule)
    places = [i for i, row in enumerate(rows) if not row.name.heading]
    middles = [rows[i].part.value if rows[i].has_mark else around or 0.0 for i in places]
    marks.append(Tips(middles, places, [rows[i].tip for i in places], "the arrow keys move between the rows"))
    down = Axis(y, len(rows) - 0.4, -0.6, names={i: row.name for i, row in enumerate(rows)})
    return Figure(title, _axis_of(marks, x, around, ratio=ratio), down, marks)


def _floors(rows: Sequence[Row], share: str) -> list[Mark]:
    floors = {i: row.part.floor for i, row in enumerate(rows) if row.part.floor is not None}
    if not floors:
        return []
    ends = [floor.mean for floor in floors.values()], [floor.upper for floor in floors.values()]
    sides = [i - _HALF for i in floors], [i + _HALF for i in floors]
    return [Bars(*ends, *sides, "noise", f"Noise floor: mean to {share}")]


def _estimates(rows: Sequence[Row], words: Mapping[PointLook, str], interval: str) -> list[Mark]:
    """Return the values with their intervals, look by look."""
    marks: list[Mark] = []
    for look, word in words.items():
        own = {i: row.part for i, row in enumerate(rows) if row.look == look and row.has_mark}
        held = {i: part for i, part in own.items() if math.isfinite(part.low + part.high)}
        if held:
            ends = [part.low for part in held.values()], [part.high for part in held.values()]
            marks.append(Intervals(list(held), *ends, False, look, interval))
        if own:
            marks.append(Points([part.value for part in own.values()], list(own), look, word))
    return marks


def _axis_of(marks: Iterable[Mark], label: str, around: float | None, *, ratio: bool) -> Axis:
    """Return an axis with all values, and some space on both sides."""
    values = [] if around is None else [around]
    for mark in marks:
        if isinstance(mark, Points):
            values += mark.x
        elif isinstance(mark, Intervals):
            values += [*mark.lows, *mark.highs]
        elif isinstance(mark, Bars):
            values += [*mark.lefts, *mark.rights]
    if len(values) == (around is not None):  # words alone
        return Axis(label, -1.0, 1.0)
    low, high = min(values), max(values)
    if ratio and low > 0:
        beyond = max(high / low, 1.01) ** _MARGIN
        return Axis(label, low / beyond, high * beyond, "log")
    high = high if high - low > 1e-12 else low + 1.0
    margin = _MARGIN * (high - low)
    return Axis(label, low - margin, high + margin)


def tip_of(label: str, part: Estimate, level: float | None, notes: Iterable[str] = ()) -> str:
    """Return an estimate with its interval and its noise floor in words."""
    texts = [f"{label}: {number(part.value)}"]
    if level is not None and math.isfinite(part.low + part.high):
        texts.append(f"{percent(level)} CI {ends_text(part.low, part.high)}")
    if level is not None and part.floor is not None:
        upper = f"{percent(level)} below {number(part.floor.upper)}"
        texts.append(f"calibrated: mean {number(part.floor.mean)}, {upper}")
    return "; ".join(filter(None, [*texts, *notes]))


def _rows_of_groups(
    groups: Sequence[GroupEstimates], parts: Sequence[Estimate], measure: str, level: float | None
) -> list[Row]:
    """Return a row for each group, marginal subgroups below the names of their columns."""
    rows: list[Row] = []
    column = ""
    for group, part in zip(groups, parts, strict=True):
        if group.column != column:
            column = group.column
            rows.append(Row(Name((column,), heading=True), _NOTHING, "dot", ""))
        p_value = chance_text(group.adjusted_p_value)
        notes = [f"p adjusted {p_value}" if p_value else "", group.flag]
        look: PointLook = "few" if group.flag else "out" if group.called_out else "dot"
        name = Name((group.label,), after=f" ({group.n:,})")
        rows.append(Row(name, part, look, tip_of(group.name + measure, part, level, notes)))
    return rows


def groups_figure(
    title: str,
    groups: Sequence[GroupEstimates],
    parts: Sequence[Estimate],
    key: str,
    label: str,
    level: float | None,
    *,
    forest: Forest | None = None,
    pooled: bool = False,
    of_all: tuple[int, Estimate] | None = None,
) -> Figure:
    """Return a measure of groups. With its forest the axis names the heterogeneity; ``pooled`` adds the mean.

    Marginal subgroups are below the names of their columns. ``of_all`` adds the number of all rows with the measure.
    """
    rows = _rows_of_groups(groups, parts, "" if forest is None else f": {label}", level)
    words: dict[PointLook, str] = {"dot": label, "out": "Evidence of miscalibration", "few": "Too few rows"}
    x = label
    if forest is not None and not math.isnan(forest.heterogeneity):
        x += f" (I² {100 * forest.heterogeneity:.0f} %, p {chance(forest.p_value)})"
    if forest is not None and pooled and not math.isnan(forest.pooled):
        rows += _pooled(forest, label, level)
        words["good"] = "Pooled"
    if of_all is not None:
        n, part = of_all
        name = Name(("all rows",), after=f" ({n:,})")
        rows.append(Row(name, part, "good", tip_of(f"all rows: {label}", part, level)))
        words["good"] = "All rows"
    known = BY_NAME.get(key)
    origin, ratio = (None, False) if known is None else (known.origin, known.link == "log")
    rule = None
    if known is not None and origin is not None:
        rule = Rule("x", "ideal", "No discrimination" if known.better == "higher" else "Calibrated", origin)
    return rows_figure(
        title, rows, words, x, level=level, around=origin or 0.0, rule=rule, ratio=ratio, y="Group (rows)"
    )


def all_rows_of(
    all_rows: GroupEstimates | None, estimates: Mapping[str, Estimate], key: str
) -> tuple[int, Estimate] | None:
    """Return the number of all rows with their measure, next to marginal subgroups; None for other groups.

    Forests have no noise floors, and only the ECE of a group has one.
    """
    if all_rows is None:
        return None
    part = estimates[key] if key in estimates else all_rows[key]
    return all_rows.n, part if key == ECE.name else replace(part, floor=None)


def estimates_in(forest: Forest, level: float | None) -> dict[str, Estimate]:
    """Return the estimates of groups by their names."""
    rows = zip(forest.values.tolist(), forest.lows.tolist(), forest.highs.tolist(), strict=True)
    of_level = math.nan if level is None else level
    return {name: Estimate(*row, of_level) for name, row in zip(forest.groups, rows, strict=True)}


def _pooled(forest: Forest, label: str, level: float | None) -> list[Row]:
    share, of_level = percent(level or 0), level or math.nan
    part = Estimate(forest.pooled, forest.pooled_low, forest.pooled_high, of_level)
    rows = [Row(Name(("pooled",)), part, "good", tip_of(f"pooled {label}", part, level))]
    if not math.isnan(forest.prediction_low):
        part = Estimate(forest.pooled, forest.prediction_low, forest.prediction_high, of_level)
        text = f"{share} prediction interval for another group {ends_text(part.low, part.high)}"
        rows.append(Row(Name(("prediction",)), part, "dot", text))
    return rows


def differences_figure(
    pairs: Sequence[PairEstimates],
    key: str,
    measure: Description,
    level: float,
    *,
    tips: Sequence[str] = (),
    better: Sequence[bool | None] = (),
) -> Figure:
    """Return the differences of pairs of models in one measure, first minus second.

    ``better`` says whether the second model is better, or that it is unclear. Otherwise a difference is clear if its
    interval does not hold 0.
    """
    without, holding = (f"{percent(level)} CI {word} 0" for word in ("without", "with"))
    words: dict[PointLook, str] = {"dot": without, "few": holding}
    if better:
        words = {"good": "Second model better", "out": "Second model worse", "dot": "No clear difference"}
    looks: dict[bool | None, PointLook] = {True: "good", False: "out", None: "dot"}
    rows = []
    for i, pair in enumerate(pairs):
        part = pair[key]
        look: PointLook = looks[better[i]] if better else "dot" if part.low > 0 or part.high < 0 else "few"
        after = "" if math.isnan(part.p_value) else f", p {chance(part.p_value)}"
        parts = (measure.label,) if len(pairs) == 1 else (pair.first, pair.second)
        rows.append(Row(Name(parts, after=after), part, look, tips[i] if tips else "", without_interval(part)))
    rule = Rule("x", "ideal", value=0.0)
    return rows_figure(measure.label, rows, words, "", level=level, rule=rule, interval="")


def without_interval(part: Estimate) -> str:
    """Return what stands in place of a difference without an interval; nothing for one that has it."""
    if math.isfinite(part.low + part.high):
        return ""
    return f"{part.value:+z.4g}, no interval" if math.isfinite(part.value) else _infinite(part.value)


def _infinite(value: float) -> str:
    return "" if math.isfinite(value) else "unknown" if math.isnan(value) else "infinite"


def leaderboard_figure(
    models: Sequence[ModelEstimates], key: str, measure: Description, level: float, *, tips: Sequence[str] = ()
) -> Figure:
    """Return the measure that ranks models, the best first."""
    rows = []
    for i, model in enumerate(models):
        part, name = model[key], Name((model.name,), before=f"{ranks_text(model.rank_low, model.rank_high)}  ")
        look: PointLook = "dot" if model.among_best else "hollow"
        rows.append(Row(name, part, look, tips[i] if tips else "", _infinite(part.value)))
    of_each = f"({percent(level)} CI of each model)"
    words: dict[PointLook, str] = {"dot": f"May be the best {of_each}", "hollow": f"Worse than the best {of_each}"}
    return rows_figure("Leaderboard", rows, words, measure.label, level=level, around=None, interval="")
