"""Forest plots: a measure of every group, with its noise floors, and the differences between models."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from calibrant.errors import InputError, check_choice
from calibrant.plot import canvas
from calibrant.plot.canvas import PlottableComparison, PlottableGroup, PlottableReport
from calibrant.render.drawing import origin_of
from calibrant.render.words import chance, percent, ranks_text
from calibrant.results import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_ECE: Final = "ece"
_ORDERS: Final = ("index", "error", "support", "p_value")
_NAME: Final = 32  # characters of a group's name
_MODEL_NAME: Final = 24
_MANY: Final = 25  # with more groups, their names are smaller


def groups(
    report: PlottableReport,
    *,
    measure: str = "ece",
    order: Literal["index", "error", "support", "p_value"] = "index",
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the ECE or another measure of every group, with its interval and its noise floor.

    The grey box shows the ECE of perfectly calibrated scores with as many rows: from its mean to its quantile at
    ``level``. Compare a group with its own box, not with other groups. The groups that are miscalibrated after Holm's
    correction for the number of groups are flagged.

    Of a measure that the profile shows for every group (``report.forests``) the value of calibrated scores is a dashed
    line, and the axis names the heterogeneity: I², the share of the variation between groups that is more than sampling
    error, and the p-value of Cochran's test.

    Parameters
    ----------
    report : Report
        From `calibrant.evaluate` with ``groups``.
    measure : str, default "ece"
        The key of a measure of the report, such as "oe_ratio" with ``profile="clinical"``. Those of ``report.forests``
        come without a noise floor. Others are computed for every group with its full report.
    order : {"index", "error", "support", "p_value"}, default "index"
        The order of the report, the largest value first, most rows first, or the smallest p-value first (groups that
        are too small for a test come last).
    legend : bool, default True
        Whether to draw a legend, below the axes.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on; by default a new figure, as high as the groups need.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn on.

    Raises
    ------
    calibrant.errors.InputError
        For another order, for a measure that the report does not have, for an argument that is not a report, for a
        report without groups, and for ``order="p_value"`` without tests.
    calibrant.errors.MissingDependencyError
        Without matplotlib.

    Examples
    --------
    >>> import calibrant, calibrant.plot as cp
    >>> scores, outcomes = [0.2] * 80 + [0.6] * 40 + [0.5] * 2, [1] * 16 + [0] * 64 + [1] * 8 + [0] * 32 + [0, 1]
    >>> report = calibrant.evaluate(scores, outcomes, groups=["a"] * 80 + ["b"] * 40 + ["c"] * 2)
    >>> ax = cp.groups(report)
    >>> [name.get_text() for name in ax.get_yticklabels()]
    ['b (40)', 'a (80)', 'c (2)']
    >>> [text.get_text() for text in ax.get_legend().get_texts()][-2:]
    ['Too few rows', 'Noise floor: mean to 95 %']
    """
    check_choice("order", order, _ORDERS)
    estimates = _estimates_of(report, measure)
    shown = _in_order(report, order, estimates)
    drawn = [estimates[group.name] for group in shown]
    axes = canvas.axes_for(ax, (5.6, 1.5 + 0.27 * len(shown)))
    _floors(axes, drawn)
    label = "ECE" if measure == _ECE else report.descriptions[measure].label
    _values(axes, shown, drawn, label)
    names = [f"{canvas.literal(group.name, _NAME)} ({group.n:,})" for group in shown]
    axes.set_yticks(range(len(shown)), names, fontsize="small" if len(shown) > _MANY else None)
    origin = origin_of(measure)
    if origin is not None:
        axes.axvline(origin, label=canvas.CALIBRATED, **canvas.REFERENCE)
    elif min((e.value for e in drawn if math.isfinite(e.value)), default=0.0) >= 0:
        largest = axes.get_xlim()[1]
        axes.set_xlim(-0.02 * largest, largest)
    axes.set(ylim=(len(shown) - 0.4, -0.6), xlabel=label + _heterogeneity(report, measure), ylabel="Group (rows)")
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=True, axis="x", color="0.9", linewidth=0.8)
    canvas.open_frame(axes)
    if legend:
        canvas.legend_below(axes, most=2)
    return axes


def _heterogeneity(report: PlottableReport, measure: str) -> str:
    """Return how much the groups differ, in brackets; nothing where it is not known."""
    forest = report.forests.get(measure)
    if forest is None or math.isnan(forest.heterogeneity):
        return ""
    return f" (I² {100 * forest.heterogeneity:.0f} %, p {chance(forest.p_value)})"


def _floors(ax: Any, estimates: list[Estimate]) -> None:
    """Draw the noise floors, from their mean to their upper end."""
    floors = [(y, e.floor, e.level) for y, e in enumerate(estimates) if e.floor is not None]
    if floors:
        lefts = [floor.mean for _, floor, _ in floors]
        ax.barh(
            [y for y, _, _ in floors],
            [floor.upper - floor.mean for _, floor, _ in floors],
            0.62,
            lefts,
            color=canvas.GREY,
            zorder=0.6,
            label=f"Noise floor: mean to {percent(floors[0][2])}",
        )


def _values(ax: Any, shown: list[PlottableGroup], estimates: list[Estimate], label: str) -> None:
    """Draw the values with their intervals; those of groups that are flagged or too small look different."""
    for word, chosen, colour, marker in (
        (label, [not (group.called_out or group.flag) for group in shown], canvas.BLUE, "o"),
        ("Evidence of miscalibration", [group.called_out for group in shown], canvas.VERMILION, "D"),
        ("Too few rows", [bool(group.flag) for group in shown], canvas.FAINT, "o"),
    ):
        rows = [(y, e) for y, e in enumerate(estimates) if chosen[y] and math.isfinite(e.value)]
        intervals = [(y, e) for y, e in rows if not math.isnan(e.low)]
        if intervals:
            share = f"{percent(intervals[0][1].level)} CI"
            places, lows, highs = zip(*((y, e.low, e.high) for y, e in intervals), strict=True)
            ax.hlines(places, lows, highs, colors=colour, linewidth=1.4, zorder=2.2, label=share)
        if rows:
            look = {"facecolor": canvas.paper(ax) if colour == canvas.FAINT else colour, "edgecolor": colour}
            values = [e.value for _, e in rows]
            ax.scatter(values, [y for y, _ in rows], 34, marker=marker, linewidth=1.1, zorder=2.6, label=word, **look)


def _estimates_of(report: Any, measure: str) -> dict[str, Estimate]:
    """Return the measure of every group by its name."""
    canvas.check_type("report", report, PlottableReport, "a Report with groups", "what calibrant.evaluate returned")
    if not report.groups:
        raise InputError(
            "report", "a report with groups", "one without", "evaluate with groups=..., a name for each row"
        )
    if measure != _ECE:
        check_choice("measure", measure, (_ECE, *(name for name in report.descriptions if name != _ECE)))
    forest = report.forests.get(measure)
    if forest is None:
        return {group.name: group[measure] for group in report.groups}
    level = math.nan if report.level is None else report.level
    rows = zip(forest.groups, forest.values.tolist(), forest.lows.tolist(), forest.highs.tolist(), strict=True)
    return {name: Estimate(value, low, high, level) for name, value, low, high in rows}


def _in_order(report: PlottableReport, order: str, estimates: Mapping[str, Estimate]) -> list[PlottableGroup]:
    """Return the groups in order; those without a value or a test come last."""
    if order == "p_value" and report.level is None:
        raise InputError(
            "order", "another order for a report without p-values", "'p_value'", "evaluate with level=0.95"
        )
    keys: dict[str, Callable[[PlottableGroup], float]] = {
        "index": lambda _: 0.0,
        "error": lambda group: -estimates[group.name].value,
        "support": lambda group: -group.n,
        "p_value": lambda group: group.p_value,
    }

    def rank(group: PlottableGroup) -> float:
        key = keys[order](group)
        return math.inf if math.isnan(key) else key

    return sorted(report.groups, key=rank)


def differences(comparison: PlottableComparison, *, legend: bool = True, ax: Any = None) -> Any:
    """Draw the differences between models: a panel for each measure, with every pair's difference and interval.

    A difference is *first minus second*: left of 0 the first model has the smaller value. Differences whose interval
    holds 0 are hollow. The squared calibration error decides, so the labels of its panel show the p-values.

    Parameters
    ----------
    comparison : Comparison
        From `calibrant.compare`.
    legend : bool, default True
        Whether to draw one legend, below all panels.
    ax : array of matplotlib.axes.Axes, Figure or SubFigure, optional
        Five Axes to draw on, or a figure to divide. By default a new figure.

    Returns
    -------
    array of matplotlib.axes.Axes
        The panels, one for each measure; the squared calibration error is first.

    Raises
    ------
    calibrant.errors.InputError
        For an argument that is not a comparison, and for fewer Axes.
    calibrant.errors.MissingDependencyError
        Without matplotlib.

    Notes
    -----
    Words replace a difference that is infinite or has no interval. With more than two models the p-values are adjusted
    for the number of pairs; each interval is for one pair alone.

    Examples
    --------
    >>> import calibrant, calibrant.plot as cp
    >>> comparison = calibrant.compare({"old": [0.1, 0.4, 0.7, 0.9], "new": [0.2, 0.3, 0.9, 0.8]}, [0, 0, 1, 1])
    >>> panels = cp.differences(comparison)
    >>> [panel.get_yticklabels()[0].get_text() for panel in panels][1:]
    ['ECE', 'accuracy', 'Brier score', 'log loss']
    >>> panels[-1].get_xlabel()
    'old − new'
    """
    canvas.check_type("comparison", comparison, PlottableComparison, "a Comparison", "what calibrant.compare returned")
    pairs, measures = comparison.pairs, comparison.descriptions
    alone = len(pairs) == 1
    panels, figure = canvas.panels_for(ax, len(measures), 1, (5.6, 0.5 + 0.22 * len(pairs)), shared=False)
    names = [
        f"{canvas.literal(pair.first, _MODEL_NAME)} − {canvas.literal(pair.second, _MODEL_NAME)}" for pair in pairs
    ]
    for panel, (key, measure) in zip(panels, measures.items(), strict=True):
        _draw(panel, [pair[key] for pair in pairs], percent(comparison.level))
        heads = [measure.label] if alone else names
        p_values = [pair[key].p_value for pair in pairs]  # NaN except for the measure that decides
        p_texts = ["" if math.isnan(p) else f", p {chance(p)}" for p in p_values]
        panel.set_yticks(range(len(pairs)), [head + p_text for head, p_text in zip(heads, p_texts, strict=True)])
        if not alone:
            panel.set_title(measure.label, loc="left", fontsize="medium")
    panels[-1].set_xlabel(names[0] if alone else "First minus second")
    if legend:
        canvas.legend_of_all(panels, figure)
    return np.array(panels, dtype=object)


def leaderboard(comparison: PlottableComparison, *, legend: bool = True, ax: Axes | None = None) -> Axes:
    """Draw the measure that ranks the models: a row for each model, the best first, with its own interval.

    Models that may be the best are filled. The others are hollow: another model is shown to be better. The labels begin
    with the ranges of the ranks. Marks and ranges of all models hold together with the level of the comparison, whereas
    each interval is for one model alone, so overlapping intervals do not show that models are alike.

    Parameters
    ----------
    comparison : Comparison
        From `calibrant.compare`.
    legend : bool, default True
        Whether to draw a legend, below the axes.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on. By default new ones.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn on.

    Raises
    ------
    calibrant.errors.InputError
        For an argument that is not a comparison.
    calibrant.errors.MissingDependencyError
        Without matplotlib.

    Notes
    -----
    Words replace a value that is infinite. Of more than 25 models the names are smaller.

    Examples
    --------
    >>> import calibrant, calibrant.plot as cp
    >>> comparison = calibrant.compare({"old": [0.1, 0.4, 0.7, 0.9], "new": [0.2, 0.3, 0.9, 0.8]}, [0, 0, 1, 1])
    >>> ax = cp.leaderboard(comparison)
    >>> [label.get_text() for label in ax.get_yticklabels()], ax.get_xlabel()
    (['1–2  new', '1–2  old'], 'Brier score')
    """
    canvas.check_type("comparison", comparison, PlottableComparison, "a Comparison", "what calibrant.compare returned")
    standings, key = comparison.leaderboard, comparison.sorted_by
    axes = canvas.axes_for(ax, (5.6, 0.9 + 0.24 * len(standings)))
    share = percent(comparison.level)
    for word, best in (("May be the best", True), ("Worse than the best", False)):
        drawn = [(y, each[key]) for y, each in enumerate(standings) if each.among_best == best]
        drawn = [(y, estimate) for y, estimate in drawn if math.isfinite(estimate.value)]
        intervals = [(y, estimate.low, estimate.high) for y, estimate in drawn if math.isfinite(estimate.low)]
        if intervals:
            places, lows, highs = zip(*intervals, strict=True)
            axes.hlines(places, lows, highs, colors=canvas.BLUE, linewidth=1.6, zorder=2.2)
        if drawn:
            rows, values = zip(*((y, estimate.value) for y, estimate in drawn), strict=True)
            face, named = canvas.BLUE if best else canvas.paper(axes), f"{word} ({share} CI of each model)"
            look: dict[str, Any] = {"facecolor": face, "edgecolor": canvas.BLUE, "linewidth": 1.2}
            axes.scatter(values, rows, 34, zorder=2.6, label=named, **look)
    for y, each in enumerate(standings):
        if not math.isfinite(each[key].value):
            across, word = axes.get_yaxis_transform(), _without_interval(each[key].value)
            axes.text(0.02, y, word, transform=across, va="center", fontsize="small", color=canvas.FAINT)
    labels = [f"{ranks_text(each.rank_low, each.rank_high)}  {canvas.literal(each.name, _NAME)}" for each in standings]
    axes.set_yticks(range(len(standings)), labels, fontsize="small" if len(standings) > _MANY else None)
    axes.set(ylim=(len(standings) - 0.4, -0.6), xlabel=comparison.descriptions[key].label)
    axes.tick_params(axis="y", length=0)
    axes.locator_params(axis="x", nbins=5)
    canvas.open_frame(axes)
    if legend:
        canvas.legend_below(axes, most=2)
    return axes


def _draw(ax: Any, estimates: list[Estimate], share: str) -> None:
    """Draw the differences of one measure; a mark is hollow if its interval holds 0."""
    ax.axvline(0, **canvas.REFERENCE)
    intervals = [(y, e) for y, e in enumerate(estimates) if math.isfinite(e.low) and math.isfinite(e.high)]
    for word, clear, colour in (("without 0", True, canvas.BLUE), ("with 0", False, canvas.FAINT)):
        drawn = [(y, e) for y, e in intervals if (e.low > 0 or e.high < 0) == clear]
        if drawn:
            places, values, lows, highs = zip(*((y, e.value, e.low, e.high) for y, e in drawn), strict=True)
            ax.hlines(places, lows, highs, colors=colour, linewidth=1.6, zorder=2.2)
            face, named = colour if clear else canvas.paper(ax), f"{share} CI {word}"
            ax.scatter(values, places, 34, facecolor=face, edgecolor=colour, linewidth=1.2, zorder=2.6, label=named)
    for y, estimate in enumerate(estimates):
        if y not in dict(intervals):
            across, word = ax.get_yaxis_transform(), _without_interval(estimate.value)
            ax.text(0.02, y, word, transform=across, va="center", fontsize="small", color=canvas.FAINT)
    if intervals:
        ax.locator_params(axis="x", nbins=4, min_n_ticks=2)
    else:
        ax.set(xlim=(-1, 1), xticks=[0])
    ax.set_ylim(len(estimates) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    canvas.open_frame(ax)


def _without_interval(value: float) -> str:
    if math.isfinite(value):
        return f"{value:+z.4g}, no interval"
    return "unknown" if math.isnan(value) else "infinite"
