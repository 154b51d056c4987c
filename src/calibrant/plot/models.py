"""Pictures of a comparison: the diagrams of all models in one, and the differences between models."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from calibrant.errors import InputError
from calibrant.plot import canvas, marks
from calibrant.render.style import percent
from calibrant.render.words import chance
from calibrant.results import Estimate
from calibrant.results.plottable import PlottableComparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAME: Final = 24  # characters of a model's name


def compare(
    comparison: PlottableComparison,
    *,
    intervals: bool = True,
    counts: bool = True,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the reliability diagrams of several models in one.

    Each model has a colour and a marker. A point is a bin, at its mean score and outcome rate; its area grows with its
    rows. The legend shows each model's ECE. `differences` shows whether models differ.

    Parameters
    ----------
    comparison : Comparison
        From `calibrant.compare`.
    intervals : bool, default True
        Whether to draw the interval of each bin's rate, a whisker at its mean score.
    counts : bool, default True
        Whether to draw the share of the rows in each bin on a strip above the axes.
    legend : bool, default True
        Whether to draw a legend, below the axes.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on; by default a new figure.

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

    Examples
    --------
    >>> import calibrant, calibrant.plot as cp
    >>> comparison = calibrant.compare({"old": [0.1, 0.4, 0.7, 0.9], "new": [0.2, 0.3, 0.9, 0.8]}, [0, 0, 1, 1])
    >>> ax = cp.compare(comparison)
    >>> [text.get_text() for text in ax.get_legend().get_texts()][:2]
    ['old (ECE 0.225)', 'new (ECE 0.200)']
    """
    _check(comparison)
    axes = canvas.axes_for(ax, canvas.SQUARE)
    first = canvas.place_of(axes)
    rate = marks.words_of(comparison.notion == "top-label")[0]
    for place, (name, diagram) in enumerate(comparison.diagrams.items(), first):
        look = canvas.look_of(place)
        word = f"{canvas.literal(name, _NAME)} (ECE {comparison.models[name]['ece']:.3f})"
        marks.points(axes, diagram, look, word, f"{canvas.SERIES}-{place}", {"linestyle": "-"})
        if intervals:
            marks.whiskers(axes, diagram, look[0])
        if counts:
            marks.strip(axes, diagram, look[0])
    canvas.unit_square(axes, "Mean predicted probability", rate)
    if legend:
        canvas.legend_below(axes)
    return axes


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
    _check(comparison)
    pairs, measures = comparison.pairs, comparison.descriptions
    alone = len(pairs) == 1
    panels, figure = canvas.panels_for(ax, len(measures), 1, (5.6, 0.5 + 0.22 * len(pairs)), shared=False)
    names = [f"{canvas.literal(pair.first, _NAME)} − {canvas.literal(pair.second, _NAME)}" for pair in pairs]
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


def _check(comparison: Any) -> None:
    if not isinstance(comparison, PlottableComparison):
        remedy = "pass what calibrant.compare returned"
        raise InputError("comparison", "a Comparison", type(comparison).__name__, remedy)
