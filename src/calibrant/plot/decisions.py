"""Decision curve, Murphy curve and ROC curve: what acting at a threshold is worth, costs, and finds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from calibrant.errors import InputError
from calibrant.plot import canvas
from calibrant.render.style import percent
from calibrant.results.values import MurphyCurve, NetBenefit, RocCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The size of a figure in inches, with a legend below.
_SIZE: Final = (5.6, 4.4)

#: The same for axes that are about square.
_SQUARE: Final = (4.8, 5.1)

_ALL: Final = "calibrant-all"
_BELOW: Final = 0.15  # how far the axes reach below 0, of their height above it
_FEW: Final = 30  # curves with at most so many points have a marker at each


def decision_curve(
    result: NetBenefit,
    *,
    intervals: bool = True,
    label: str | None = None,
    color: Any = None,
    line: Mapping[str, Any] | None = None,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the net benefit at each threshold, with that of treating everyone and of treating nobody.

    A model is of use at the thresholds where its curve is above both. The axes reach only a little below 0: the curve
    of treating everyone falls without end.

    Parameters
    ----------
    result : NetBenefit
        From `calibrant.net_benefit`, or ``report.panels["decision_curve"]`` with ``profile="clinical"``.
    intervals : bool, default True
        Whether to draw the intervals of the net benefit as a band, where there are any.
    label : str, optional
        The name in the legend; by default "Net benefit".
    color : colour of matplotlib, optional
        The colour of the curve and its band; by default the next of seven that everyone can tell apart.
    line : mapping, optional
        Properties of the curve's line, such as ``{"linestyle": "--"}``.
    legend : bool, default True
        Whether to draw a legend, below the axes.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on; by default a new figure. A second curve on the same axes has another colour. It should be
        of the same rows: the curve of treating everyone is drawn once.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn on.

    Raises
    ------
    calibrant.errors.InputError
        For another type of result, and for a colour or a property of a line that matplotlib does not know.
    calibrant.errors.MissingDependencyError
        Without matplotlib.

    Examples
    --------
    >>> import calibrant, calibrant.plot as cp
    >>> curve = calibrant.net_benefit([0.1, 0.2, 0.6, 0.8], [0, 1, 0, 1], thresholds=[0.2, 0.5, 0.75])
    >>> ax = cp.decision_curve(curve)
    >>> ax.lines[0].get_ydata()
    array([0.4375, 0.    , 0.25  ])
    """
    if not isinstance(result, NetBenefit):
        raise _foreign(result, "NetBenefit", "what calibrant.net_benefit returned")
    drawn, options = np.isfinite(result.lows), canvas.line_options(line)
    axes = canvas.axes_for(ax, _SIZE)
    colour = _curve(axes, result.thresholds, result.net_benefit, color, options, label or "Net benefit")
    tops = [float(result.net_benefit.max()), float(result.treat_all.max()), 0.0]
    if intervals and drawn.any():
        word, face = f"{percent(result.level)} interval", (*canvas.tint(axes, colour, 1.0), 0.25)
        ends = (np.where(drawn, result.lows, np.nan), np.where(drawn, result.highs, np.nan))
        axes.fill_between(
            result.thresholds, *ends, color=face, linewidth=0, zorder=1.1, label=canvas.named(word, label)
        )
        tops.append(float(np.nanmax(result.highs)))
    top, drawn_before = max(tops), any(other.get_gid() == _ALL for other in axes.lines)
    if drawn_before:
        top = max(top, axes.get_ylim()[1] / 1.05)
    else:
        look: dict[str, Any] = {"color": canvas.FAINT, "linewidth": 1, "zorder": 1.2}
        (everyone,) = axes.plot(
            result.thresholds, result.treat_all, linestyle=(0, (4, 3)), label="Treat everyone", **look
        )
        everyone.set_gid(_ALL)
        axes.axhline(0, linestyle="-", label="Treat nobody", **look)
    top = top if top > 0 else 0.01
    axes.set(xlim=(0, 1), ylim=(-_BELOW * top, 1.05 * top), xlabel="Threshold", ylabel="Net benefit")
    _finish(axes, legend)
    return axes


def murphy_curve(
    result: MurphyCurve,
    *,
    label: str | None = None,
    color: Any = None,
    line: Mapping[str, Any] | None = None,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the mean elementary score at each threshold. Twice the area below the curve is the Brier score.

    Parameters
    ----------
    result : MurphyCurve
        From `calibrant.murphy_curve`, or ``report.panels["murphy_curve"]`` with ``profile="forecast"``.
    label : str, optional
        The name in the legend; by default "Elementary score". The Brier score follows it.
    color, line, legend, ax
        As in `decision_curve`.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn on.

    Raises
    ------
    calibrant.errors.InputError
        For another type of result, and for a colour or a property of a line that matplotlib does not know.
    calibrant.errors.MissingDependencyError
        Without matplotlib.

    Examples
    --------
    >>> import calibrant, calibrant.plot as cp
    >>> curve = calibrant.murphy_curve([0.1, 0.2, 0.6, 0.8], [0, 1, 0, 1], thresholds=[0.2, 0.5, 0.75])
    >>> ax = cp.murphy_curve(curve)
    >>> ax.lines[0].get_label()
    'Elementary score (Brier score 0.2625)'
    """
    if not isinstance(result, MurphyCurve):
        raise _foreign(result, "MurphyCurve", "what calibrant.murphy_curve returned")
    options = canvas.line_options(line)
    axes = canvas.axes_for(ax, _SIZE)
    word = f"{label or 'Elementary score'} (Brier score {2 * result.area:.4f})"
    first = canvas.place_of(axes) == 0
    _curve(axes, result.thresholds, result.scores, color, options, word)
    top = max(1.05 * float(result.scores.max()), -math.inf if first else axes.get_ylim()[1])
    axes.set(xlim=(0, 1), ylim=(0, top or 0.01), xlabel="Threshold", ylabel="Mean elementary score")
    _finish(axes, legend)
    return axes


def roc_curve(
    result: RocCurve,
    *,
    label: str | None = None,
    color: Any = None,
    line: Mapping[str, Any] | None = None,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the share of hits against the share of false alarms, for each threshold.

    It says how well the scores tell cases apart, and nothing of calibration: an increasing map of the scores does not
    change it. On the diagonal the scores tell nothing apart.

    Parameters
    ----------
    result : RocCurve
        ``report.panels["roc_curve"]`` with ``profile="forecast"``.
    label : str, optional
        The name in the legend; by default "ROC curve".
    color, line, legend, ax
        As in `decision_curve`.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn on.

    Raises
    ------
    calibrant.errors.InputError
        For another type of result, and for a colour or a property of a line that matplotlib does not know.
    calibrant.errors.MissingDependencyError
        Without matplotlib.

    Examples
    --------
    >>> import calibrant, calibrant.plot as cp
    >>> report = calibrant.evaluate([0.1, 0.2, 0.6, 0.8], [0, 1, 0, 1], profile="forecast", level=None)
    >>> ax = cp.roc_curve(report.panels["roc_curve"])
    >>> ax.lines[0].get_ydata()
    array([0. , 0.5, 0.5, 1. , 1. ])
    """
    if not isinstance(result, RocCurve):
        raise _foreign(result, "RocCurve", "report.panels['roc_curve'] of evaluate(..., profile='forecast')")
    options = canvas.line_options(line)
    axes = canvas.axes_for(ax, _SQUARE)
    first = canvas.place_of(axes) == 0
    _curve(axes, result.false_alarms, result.hits, color, options, label or "ROC curve")
    if first:
        look: dict[str, Any] = {"color": canvas.FAINT, "linewidth": 1, "zorder": 1.2, "linestyle": (0, (4, 3))}
        axes.plot([0, 1], [0, 1], label="No discrimination", **look)
    limits = (-canvas.MARGIN, 1 + canvas.MARGIN)
    axes.set(xlim=limits, ylim=limits, xlabel="Share of false alarms", ylabel="Share of hits")
    _finish(axes, legend)
    return axes


def _curve(axes: Any, x: Any, y: Any, color: Any, options: Mapping[str, Any], word: str) -> Any:
    """Draw a curve as the next series on the axes; return its colour."""
    place, (colour, marker) = canvas.series_look(axes, color)
    markers: dict[str, Any] = {"marker": marker, "markersize": 4} if len(x) <= _FEW else {}
    shape = {"color": colour, "linewidth": 1.6, "zorder": 2.4, **markers, **options}
    (drawn,) = axes.plot(x, y, label=word, **shape)
    drawn.set_gid(f"{canvas.SERIES}-{place}")
    return colour


def _finish(axes: Any, legend: bool) -> None:
    canvas.open_frame(axes)
    if legend:
        canvas.legend_below(axes, *canvas.handles_of([axes]))


def _foreign(result: Any, expected: str, source: str) -> InputError:
    return InputError("result", f"a {expected}", type(result).__name__, f"pass {source}")
