"""Forest plots: a measure of every group, with its noise floors, and the differences between models."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from calibrant.errors import InputError, check_choice
from calibrant.plot import artists, canvas
from calibrant.plot.canvas import PlottableComparison, PlottableLeaderboard, PlottableReport
from calibrant.render.row_figures import (
    GroupEstimates,
    all_rows_of,
    differences_figure,
    estimates_in,
    groups_figure,
    leaderboard_figure,
)
from calibrant.results import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_ECE: Final = "ece"
_ORDERS: Final = ("index", "error", "support", "p_value")
_MODEL: Final = 24  # characters of the name of a model


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

    For a measure that the profile shows for every group (``report.forests``), a dashed line marks the value of
    calibrated scores (for the AUROC, of no discrimination), and the label of the axis gives the heterogeneity: I², the
    share of the variation between groups that is beyond sampling error, and the p-value of Cochran's test.

    Marginal subgroups (a mapping as ``groups`` of `calibrant.evaluate`) are in one figure: below the name of each
    column its groups, and at the end all rows.

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
    shown, forest = _in_order(report, order, estimates), report.forests.get(measure)
    label = "ECE" if measure == _ECE else report.descriptions[measure].label
    parts = [estimates[group.name] for group in shown]
    of_all = all_rows_of(report.all_rows, report.estimates, measure)
    figure = groups_figure(label, shown, parts, measure, label, report.level, forest=forest, of_all=of_all)
    axes = canvas.axes_for(ax, (5.6, 1.5 + 0.27 * len(figure.y.names)))
    artists.draw(axes, figure)
    if legend:
        canvas.legend_below(axes, most=2)
    return axes


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
    if forest is not None:
        return estimates_in(forest, report.level)
    return {group.name: group[measure] for group in report.groups}


def _in_order(report: PlottableReport, order: str, estimates: Mapping[str, Estimate]) -> list[GroupEstimates]:
    """Return the groups in order; those without a value or a test come last."""
    if order == "p_value" and report.level is None:
        raise InputError(
            "order", "another order for a report without p-values", "'p_value'", "evaluate with level=0.95"
        )
    keys: dict[str, Callable[[GroupEstimates], float]] = {
        "index": lambda _: 0.0,
        "error": lambda group: -estimates[group.name].value,
        "support": lambda group: -group.n,
        "p_value": lambda group: group.p_value,
    }

    def rank(group: GroupEstimates) -> float:
        key = keys[order](group)
        return math.inf if math.isnan(key) else key

    columns = list(dict.fromkeys(group.column for group in report.groups))  # of marginal subgroups, each alone
    return sorted(report.groups, key=lambda group: (columns.index(group.column), rank(group)))


def differences(comparison: PlottableComparison, *, legend: bool = True, ax: Any = None) -> Any:
    """Draw the differences between models: a panel for each measure, with every pair's difference and interval.

    A difference is *first minus second*: left of 0 the first model has the smaller value. Differences whose interval
    holds 0 are hollow. Only the squared calibration error is tested, so the labels of its panel show the p-values.

    Parameters
    ----------
    comparison : Comparison
        From `calibrant.compare`.
    legend : bool, default True
        Whether to draw one legend, below all panels.
    ax : array of matplotlib.axes.Axes, Figure or SubFigure, optional
        An Axes for each measure, or a figure to divide. By default a new figure.

    Returns
    -------
    array of matplotlib.axes.Axes
        The panels, one for each measure; the squared calibration error is first.

    Raises
    ------
    calibrant.errors.InputError
        For an argument that is not a comparison, and for fewer Axes than measures.
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
    ['ECE', 'accuracy at 0.5', 'Brier score', 'log loss']
    >>> panels[-1].get_xlabel()
    'old − new'
    """
    canvas.check_type("comparison", comparison, PlottableComparison, "a Comparison", "what calibrant.compare returned")
    pairs, measures = comparison.pairs, comparison.descriptions
    panels, figure = canvas.panels_for(ax, len(measures), 1, (5.6, 0.5 + 0.22 * len(pairs)), shared=False)
    for panel, (key, measure) in zip(panels, measures.items(), strict=True):
        artists.draw(panel, differences_figure(pairs, key, measure, comparison.level))
        if len(pairs) > 1:
            panel.set_title(measure.label, loc="left", fontsize="medium")
    names = [f"{canvas.literal(pair.first, _MODEL)} − {canvas.literal(pair.second, _MODEL)}" for pair in pairs]
    panels[-1].set_xlabel(names[0] if len(pairs) == 1 else "First minus second")
    if legend:
        canvas.legend_of_all(panels, figure)
    return np.array(panels, dtype=object)


def leaderboard(comparison: PlottableLeaderboard, *, legend: bool = True, ax: Axes | None = None) -> Axes:
    """Draw the measure that ranks the models: a row for each model, the best first, with its own interval.

    Models that may be the best are filled. The others are hollow: another model is shown to be better. The labels begin
    with the ranges of the ranks. Marks and ranges hold simultaneously for all models at the level of the comparison.
    Each interval is for one model alone, so overlapping intervals do not show that models are alike.

    Parameters
    ----------
    comparison : Comparison or ResultComparison
        From `calibrant.compare` or `calibrant.compare_results`.
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
    Words replace a value that is infinite. With more than 25 models, the names are smaller.

    Examples
    --------
    >>> import calibrant, calibrant.plot as cp
    >>> comparison = calibrant.compare({"old": [0.1, 0.4, 0.7, 0.9], "new": [0.2, 0.3, 0.9, 0.8]}, [0, 0, 1, 1])
    >>> ax = cp.leaderboard(comparison)
    >>> [label.get_text() for label in ax.get_yticklabels()], ax.get_xlabel()
    (['1–2  new', '1–2  old'], 'Brier score')
    """
    canvas.check_type("comparison", comparison, PlottableLeaderboard, "a Comparison", "what calibrant.compare returned")
    models, key = comparison.leaderboard, comparison.sorted_by
    axes = canvas.axes_for(ax, (5.6, 0.9 + 0.24 * len(models)))
    artists.draw(axes, leaderboard_figure(models, key, comparison.descriptions[key], comparison.level))
    if legend:
        canvas.legend_below(axes, most=2)
    return axes
