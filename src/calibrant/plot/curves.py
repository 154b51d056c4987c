"""Curves: calibration curves with their bands, decision curve, Murphy curve, ROC curve, and evidence over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from calibrant.errors import InputError, check_choice
from calibrant.plot import canvas
from calibrant.plot.canvas import PlottableReport
from calibrant.plot.diagrams import draw_series
from calibrant.render.line_figures import (
    decision_figure,
    evidence_figure,
    murphy_figure,
    risk_coverage_figure,
    roc_figure,
)
from calibrant.render.reliability import DIAGRAM_WORDS, curve_marks, square_figure
from calibrant.results import CalibrationCurve, CurveKind
from calibrant.results.values import MurphyCurve, NetBenefit, RiskCoverageCurve, RocCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_KINDS: Final = ("isotonic", "smooth", "loess")

#: The sizes of figures in inches, with a legend below; the axes of the second are about square.
_SIZE: Final = (5.6, 4.4)
_SQUARE: Final = (4.8, 5.1)


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
        The name in the legend; by default "Observed frequency, isotonic" or similar. The entry of the
        consistency band has it too.
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
    curve = _curve_of(result, kind)
    report = result if isinstance(result, PlottableReport) else None
    rate = DIAGRAM_WORDS["positive" if report is None else report.notion].rate
    marks = curve_marks(curve, rate, confidence=confidence, consistency=consistency, label=label)
    figure = square_figure(marks, "Predicted probability", rate)
    bins = report.diagram if counts and report is not None else None
    return draw_series(figure, canvas.SQUARE, color, line, legend, ax, bins)


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

    A model is of use at the thresholds where its curve is above those of treating everyone and of treating nobody. The
    axes reach only a little below 0: the curve of treating everyone falls without end.

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
    return draw_series(decision_figure(result, label=label, intervals=intervals), _SIZE, color, line, legend, ax)


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
    return draw_series(murphy_figure(result, label=label), _SIZE, color, line, legend, ax)


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
    return draw_series(roc_figure(result, label=label), _SQUARE, color, line, legend, ax)


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
    figure = risk_coverage_figure(result, max_risk=max_risk, coverage=coverage, intervals=intervals, label=label)
    return draw_series(figure, _SIZE, color, line, legend, ax)


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
    evidence of the groups. Larger evidence than 1e12 is drawn as 1e12, with a diamond.

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
    history = _history(result)
    labels, log_evidence = ([part[key] for part in history["slices"]] for key in ("label", "log_evidence"))
    return draw_series(
        evidence_figure(labels, log_evidence, history["alpha"], label=label), _SIZE, color, line, legend, ax
    )


def _history(result: Any) -> Mapping[str, Any]:
    """Return the dictionary of a monitor."""
    known = getattr(result, "to_dict", None)
    numbers = known() if callable(known) and not isinstance(result, type) else result
    if not isinstance(numbers, Mapping) or "monitor" not in numbers:
        raise InputError("result", "a Monitor or its dictionary", type(result).__name__, "pass a calibrant.Monitor")
    return numbers
