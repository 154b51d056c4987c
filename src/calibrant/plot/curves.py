"""Curves: calibration curves with their bands, decision curve, Murphy curve, ROC curve, and evidence over time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from calibrant.errors import InputError, check_choice
from calibrant.plot import canvas, marks
from calibrant.plot.canvas import PlottableReport
from calibrant.render.words import percent, steps
from calibrant.results import CalibrationCurve, CurveKind
from calibrant.results.values import MurphyCurve, NetBenefit, RiskCoverageCurve, RocCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_KINDS: Final = ("isotonic", "smooth", "loess")

#: The sizes of figures in inches, with a legend below; the axes of the second are about square.
_SIZE: Final = (5.6, 4.4)
_SQUARE: Final = (4.8, 5.1)

_ALL: Final = "calibrant-all"
_BELOW: Final = 0.15  # how far the axes reach below 0, of their height above it
_FEW: Final = 30  # curves with at most so many points have a marker at each

_ALARM: Final = "calibrant-alarm"
#: The largest logarithm of evidence that is drawn: the ticks of matplotlib reach three times as far.
_MOST: Final = 90 * math.log(10)
_NAMED: Final = 6  # slices with their names
_NAME: Final = 12  # characters of a name


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
    """Draw the observed frequency as a function of the score, with its confidence band and its consistency band.

    The confidence band, around the curve, is where the true rate may be. The consistency band, around the dashed
    diagonal, is where the curve would be if the scores were calibrated.

    Lines join the points of the curve. An isotonic curve is flat over pooled scores. Between two neighbours with
    different rates it steps up somewhere, and the line joins them. A curve with few points has a marker at each.

    The legend says where the confidence band holds: "pointwise", at each score alone, or "simultaneous", at all
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
    place, look = canvas.series_look(axes, color)
    rate = marks.words_of(isinstance(result, PlottableReport) and result.notion == "top-label")[0]
    share = percent(curve.level)
    if consistency:
        word, filled = canvas.named(f"{canvas.CALIBRATED} ({share} band)", label), canvas.band_look(place, look[0])
        ends = curve.consistency_lows, curve.consistency_highs
        marks.between(axes, curve.scores, *ends, filled, zorder=1.0, label=word)
    if confidence:
        marks.confidence_band(axes, curve, look[0])
    _draw(axes, curve.scores, curve.rates, look, options, label=label or f"{rate}, {curve.kind}", place=place)
    if counts and isinstance(result, PlottableReport) and result.diagram is not None:
        marks.strip(axes, result.diagram, look[0])
    canvas.unit_square(axes, "Predicted probability", rate)
    if legend:
        canvas.legend_below(axes)
    return axes


def _curve_of(result: Any, kind: Any) -> CalibrationCurve:
    if kind is not None:
        check_choice("kind", kind, _KINDS)
    if isinstance(result, CalibrationCurve):
        if kind not in (None, result.kind):
            raise InputError("kind", f"{result.kind!r}, the kind of the curve", repr(kind), "leave kind out")
        return result
    source = "what calibrant.evaluate returned, or one of its curves"
    canvas.check_type("result", result, PlottableReport, "a Report or a CalibrationCurve", source)
    if result.curves:
        if kind is not None and kind not in result.curves:
            remedy = "evaluate with profile='clinical'"
            raise InputError(
                "result", f"a report with the {kind} curve", f"one with {', '.join(result.curves)}", remedy
            )
        curve: CalibrationCurve = result.curves[kind or "isotonic"]
        return curve
    if result.diagram is None:
        got, remedy = f"one on notion={result.notion!r}", "evaluate with notion='top-label', or one class at a time"
    else:
        got, remedy = "one without intervals (level=None)", "evaluate with level=0.95"
    raise InputError("result", "a report with calibration curves", got, remedy)


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
    canvas.check_type("result", result, NetBenefit, "a NetBenefit", "what calibrant.net_benefit returned")
    drawn, options = np.isfinite(result.lows), canvas.line_options(line)
    axes = canvas.axes_for(ax, _SIZE)
    place, look = canvas.series_look(axes, color)
    _draw(axes, result.thresholds, result.net_benefit, look, options, label=label or "Net benefit", place=place)
    tops = [float(result.net_benefit.max()), float(result.treat_all.max()), 0.0]
    if intervals and drawn.any():
        word = canvas.named(f"{percent(result.level)} CI", label)
        ends = (np.where(drawn, result.lows, np.nan), np.where(drawn, result.highs, np.nan))
        axes.fill_between(result.thresholds, *ends, zorder=1.1, label=word, **canvas.shade(axes, look[0]))
        tops.append(float(np.nanmax(result.highs)))
    top, drawn_before = max(tops), any(other.get_gid() == _ALL for other in axes.lines)
    if drawn_before:
        top = max(top, axes.get_ylim()[1] / 1.05)
    else:
        axes.plot(result.thresholds, result.treat_all, label="Treat everyone", gid=_ALL, **canvas.REFERENCE)
        axes.axhline(0, label="Treat nobody", **canvas.REFERENCE | {"linestyle": "-"})
    top = top if top > 0 else 0.01
    axes.set(xlim=(0, 1), ylim=(-_BELOW * top, 1.05 * top), xlabel="Threshold probability", ylabel="Net benefit")
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
    canvas.check_type("result", result, MurphyCurve, "a MurphyCurve", "what calibrant.murphy_curve returned")
    options = canvas.line_options(line)
    axes = canvas.axes_for(ax, _SIZE)
    word = f"{label or 'Elementary score'} (Brier score {2 * result.area:.4f})"
    place, look = canvas.series_look(axes, color)
    _draw(axes, result.thresholds, result.scores, look, options, label=word, place=place)
    top = max(1.05 * float(result.scores.max()), axes.get_ylim()[1] if place else -math.inf)
    axes.set(xlim=(0, 1), ylim=(0, top or 0.01), xlabel="Threshold probability", ylabel="Mean elementary score")
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
    """Draw the true positive rate against the false positive rate, for each threshold.

    It shows discrimination, not calibration: an increasing map of the scores does not change it. On the diagonal the
    scores do not discriminate.

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
    source = "report.panels['roc_curve'] of evaluate(..., profile='forecast')"
    canvas.check_type("result", result, RocCurve, "a RocCurve", source)
    options = canvas.line_options(line)
    axes = canvas.axes_for(ax, _SQUARE)
    place, look = canvas.series_look(axes, color)
    _draw(axes, result.false_alarms, result.hits, look, options, label=label or "ROC curve", place=place)
    if not place:
        axes.plot([0, 1], [0, 1], label="No discrimination", **canvas.REFERENCE)
    limits = (-canvas.MARGIN, 1 + canvas.MARGIN)
    axes.set(xlim=limits, ylim=limits, xlabel="False positive rate", ylabel="True positive rate")
    _finish(axes, legend)
    return axes


def risk_coverage(
    result: RiskCoverageCurve,
    *,
    max_risk: float | None = None,
    coverage: float | None = None,
    intervals: bool = True,
    label: str | None = None,
    color: Any = None,
    line: Mapping[str, Any] | None = None,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the error rate of the cases with the highest scores, for each share of the cases (coverage).

    Parameters
    ----------
    result : RiskCoverageCurve
        From `calibrant.risk_coverage_curve`, or the ``curve`` of a `calibrant.Threshold`.
    max_risk, coverage : float, optional
        The largest acceptable error rate and the certified coverage, drawn as lines.
    intervals : bool, default True
        Whether to draw the pointwise confidence band.
    label : str, optional
        The name in the legend; by default "Error rate".
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
    >>> ax = cp.risk_coverage(calibrant.risk_coverage_curve([0.9, 0.8, 0.7, 0.6], [1, 1, 0, 1]))
    >>> ax.lines[0].get_ydata().round(3)
    array([0.   , 0.   , 0.333, 0.25 ])
    """
    source = "what calibrant.risk_coverage_curve returned"
    canvas.check_type("result", result, RiskCoverageCurve, "a RiskCoverageCurve", source)
    options = canvas.line_options(line)
    axes = canvas.axes_for(ax, _SIZE)
    place, look = canvas.series_look(axes, color)
    _draw(axes, result.coverages, result.risks, look, options, label=label or "Error rate", place=place)
    # At small coverages the band reaches 1: the axes follow the rest of it.
    tops = [float(result.risks.max()), float(result.highs[len(result.highs) // 4 :].max()), 2 * (max_risk or 0.0)]
    if intervals:
        word = canvas.named("CI", label)
        axes.fill_between(
            result.coverages, result.lows, result.highs, zorder=1.1, label=word, **canvas.shade(axes, look[0])
        )
    if max_risk is not None:
        axes.axhline(max_risk, label=f"At most {percent(max_risk)}", **canvas.REFERENCE)
    if coverage is not None:
        axes.axvline(coverage, label="Certified threshold", **canvas.REFERENCE | {"linestyle": "-"})
    top = max(1.05 * max(tops), axes.get_ylim()[1] if place else -math.inf)
    axes.set(xlim=(0, 1), ylim=(0, min(top, 1.0)), xlabel="Coverage", ylabel="Error rate")
    _finish(axes, legend)
    return axes


def evidence(
    result: Any,
    *,
    label: str | None = None,
    color: Any = None,
    line: Mapping[str, Any] | None = None,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the evidence against calibration after each slice on a logarithmic scale, with the alarm.

    With groups it is the evidence of all rows together. The alarm uses the mean of this evidence and of the mean
    evidence of the groups. Larger evidence than 1e90 is drawn as 1e90.

    Parameters
    ----------
    result : Monitor or dict
        A `calibrant.Monitor`, or its dictionary.
    label : str, optional
        The name in the legend; by default "Evidence".
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
    >>> import numpy as np
    >>> import calibrant, calibrant.plot as cp
    >>> rng, watch = np.random.default_rng(0), calibrant.Monitor()
    >>> for day in range(3):
    ...     scores = rng.random(200)
    ...     watch.update(scores, rng.random(200) < scores**2)
    >>> ax = cp.evidence(watch)
    >>> bool(ax.lines[0].get_ydata()[-1] > 20)
    True
    """
    history, options = _history(result), canvas.line_options(line)
    axes = canvas.axes_for(ax, _SIZE)
    place, look = canvas.series_look(axes, color)
    values = [math.exp(min(part["log_evidence"], _MOST)) for part in history["slices"]]
    _draw(axes, np.arange(1, len(values) + 1), values, look, options, label=label or "Evidence", place=place)
    alarm = 1 / history["alpha"]
    if alarm not in [np.ravel(other.get_ydata())[0] for other in axes.lines if other.get_gid() == _ALARM]:
        axes.axhline(alarm, label=f"Alarm at {alarm:,.4g}", gid=_ALARM, **canvas.REFERENCE)
    ends = [*values, alarm, *(axes.get_ylim() if place else ())]
    last = max(len(values), axes.get_xlim()[1] - 0.5 if place else 1)
    axes.set(xlim=(0.5, last + 0.5), ylim=(min(ends) / 1.5, max(ends) * 1.5))
    # The scale follows the limits, because matplotlib would scale the axes anew for very large values.
    axes.set(yscale="log", xlabel="Slice", ylabel="Evidence against calibration")
    if len(values) == last:  # the longest history names the slices
        named = steps(len(values), _NAMED)
        names = [canvas.literal(str(history["slices"][i]["label"]), _NAME) for i in named]
        axes.set_xticks([i + 1 for i in named], labels=names)
    _finish(axes, legend)
    return axes


def _history(result: Any) -> Mapping[str, Any]:
    """Return the dictionary of a monitor."""
    known = getattr(result, "to_dict", None)
    numbers = known() if callable(known) and not isinstance(result, type) else result
    if not isinstance(numbers, Mapping) or "monitor" not in numbers:
        raise InputError("result", "a Monitor or its dictionary", type(result).__name__, "pass a calibrant.Monitor")
    return numbers


def _draw(
    axes: Any, x: Any, y: Any, look: tuple[Any, str], options: Mapping[str, Any], *, label: str, place: int
) -> None:
    """Draw a curve as a series on the axes."""
    markers: dict[str, Any] = {"marker": look[1], "markersize": 4} if len(x) <= _FEW else {}
    shape = {"color": look[0], "linewidth": 1.6, "zorder": 2.4, **markers, **options}
    axes.plot(x, y, label=label, gid=f"{canvas.SERIES}-{place}", **shape)


def _finish(axes: Any, legend: bool) -> None:
    canvas.open_frame(axes)
    if legend:
        canvas.legend_below(axes)
