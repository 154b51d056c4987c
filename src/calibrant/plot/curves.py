"""The calibration curve with its two bands: isotonic or smooth, no bins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from calibrant.errors import InputError, check_choice
from calibrant.plot import canvas, marks
from calibrant.render.style import percent
from calibrant.results import CalibrationCurve, CurveKind
from calibrant.results.plottable import PlottableReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_KINDS: Final = ("isotonic", "smooth", "loess")
_FEW: Final = 30  # curves with at most so many points have a marker at each


def calibration_curve(
    result: PlottableReport | CalibrationCurve,
    *,
    kind: CurveKind | None = None,
    confidence: bool = True,
    consistency: bool = True,
    counts: bool = True,
    label: str | None = None,
    color: Any = None,
    line: Mapping[str, Any] | None = None,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the outcome rate as a function of the score, with its confidence band and its consistency band.

    The confidence band, around the curve, is where the true rate may be. The consistency band, around the dashed
    diagonal, is where the curve would be if the scores were calibrated.

    Lines join the points of the curve. An isotonic curve is flat over pooled scores. Between two neighbours with
    different rates it steps up somewhere, and the line joins them. A curve with few points has a marker at each.

    The legend says where the confidence band holds: "pointwise", at each score by itself, or "simultaneous", at all
    scores at once, as steps. A report has the latter with ``evaluate(..., bands="simultaneous")``.

    Parameters
    ----------
    result : Report or CalibrationCurve
        From `calibrant.evaluate`, or one of its ``curves``.
    kind : {"isotonic", "smooth", "loess"}, optional
        Which curve of a report; by default "isotonic". Reports have "loess" in the profiles "clinical" and "all".
    confidence, consistency : bool, default True
        Whether to draw the bands, if the curve has them: the isotonic curve needs resampling for its bands. The
        consistency band of the first series on the axes is filled in grey, those of others are dotted outlines.
    counts : bool, default True
        Whether to draw the share of the rows in each bin of a report on a strip above the axes.
    label : str, optional
        The name in the legend; by default "Outcome rate, isotonic" or similar. The entry of the consistency band
        has it too.
    color : colour of matplotlib, optional
        The colour of the curve and its bands; by default the next of seven that everyone can tell apart.
    line : mapping, optional
        Properties of the curve's line, such as ``{"linestyle": "--", "linewidth": 1}``.
    legend : bool, default True
        Whether to draw a legend, below the axes.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on; by default a new figure. A second curve on the same axes has another colour.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn on.

    Raises
    ------
    calibrant.errors.InputError
        For a kind that the result lacks, for another type of result, for a report without intervals or on every class,
        and for a colour or a property of a line that matplotlib does not know.
    calibrant.errors.MissingDependencyError
        Without matplotlib.

    Examples
    --------
    >>> import calibrant, calibrant.plot as cp
    >>> report = calibrant.evaluate([0.2] * 50 + [0.8] * 50, [1] * 12 + [0] * 38 + [1] * 39 + [0] * 11)
    >>> ax = cp.calibration_curve(report)
    >>> ax.lines[0].get_ydata()
    array([0.24, 0.78])
    """
    curve, options = _curve_of(result, kind), canvas.line_options(line)
    axes = canvas.axes_for(ax, canvas.SQUARE)
    place, (colour, marker) = canvas.series_look(axes, color)
    rate = marks.words_of(isinstance(result, PlottableReport) and result.notion == "top-label")[0]
    share = percent(curve.level)
    if consistency:
        word, look = canvas.named(f"{canvas.CALIBRATED} scores, {share}", label), canvas.band_look(place, colour)
        marks.between(axes, curve.scores, curve.consistency_lows, curve.consistency_highs, look, zorder=1.0, label=word)
    if confidence:
        marks.confidence_band(axes, curve, colour)
    markers: dict[str, Any] = {"marker": marker, "markersize": 4} if len(curve.scores) <= _FEW else {}
    shape = {"color": colour, "linewidth": 1.6, "zorder": 2.4, **markers, **options}
    (drawn,) = axes.plot(curve.scores, curve.rates, label=label or f"{rate}, {curve.kind}", **shape)
    drawn.set_gid(f"{canvas.SERIES}-{place}")
    if counts and isinstance(result, PlottableReport) and result.diagram is not None:
        marks.strip(axes, result.diagram, colour)
    canvas.unit_square(axes, "Score", rate)
    if legend:
        canvas.legend_below(axes, *canvas.handles_of([axes]))
    return axes


def _curve_of(result: Any, kind: Any) -> CalibrationCurve:
    if kind is not None:
        check_choice("kind", kind, _KINDS)
    if isinstance(result, CalibrationCurve):
        if kind not in (None, result.kind):
            raise InputError("kind", f"{result.kind!r}, as the curve is", repr(kind), "leave kind out")
        return result
    if not isinstance(result, PlottableReport):
        remedy = "pass what calibrant.evaluate returned, or one of its curves"
        raise InputError("result", "a Report or a CalibrationCurve", type(result).__name__, remedy)
    if result.curves:
        if kind is not None and kind not in result.curves:
            remedy = "evaluate with profile='clinical'"
            raise InputError(
                "result", f"a report with the {kind} curve", f"one with {', '.join(result.curves)}", remedy
            )
        return result.curves[kind or "isotonic"]
    if result.diagram is None:
        got, remedy = f"one on notion={result.notion!r}", "evaluate with notion='top-label', or one class at a time"
    else:
        got, remedy = "one without intervals (level=None)", "evaluate with level=0.95"
    raise InputError("result", "a report with calibration curves", got, remedy)
