"""The binned pictures: reliability diagrams, also of classes and of models, and the histogram of scores by outcome."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from calibrant.errors import InputError, check_choice
from calibrant.plot import artists, canvas
from calibrant.plot.canvas import PlottableComparison, PlottableReport
from calibrant.render.figure import Axis, Bars, Figure, Intervals, Mark
from calibrant.render.reliability import (
    DIAGRAM_WORDS,
    MEAN,
    DiagramWords,
    are_rows,
    bin_ends,
    bin_marks,
    by_outcome,
    confidence_band,
    histogram_figure,
    square_figure,
)
from calibrant.render.words import number as digits
from calibrant.results import BANDS, Bands, CalibrationCurve, ClasswiseCalibration, ReliabilityDiagram

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_KINDS: Final = ("bars", "points")
_HISTOGRAMS: Final = ("mirrored", "stacked")
_NUMBERS: Final = ("auto", "ece", "smece", "ace")

#: The orders of classes, and their words in the title.
_ORDERS: Final = {"error": "largest error first", "support": "most frequent first", "index": "in their order"}
_MOST: Final = 12  # panels by default
_TALL: Final = (6.0, 8.4)  # inches, and dots per inch, of TorchUncertainty
_DPI: Final = 150
_NAME: Final = 24  # characters of the name of a class or a model

#: The labels of the axes of `reliability_figure`, score and observed frequency, by evaluated event.
WORDS: Final = {
    "top-label": ("Top-class Confidence (%)", "Success Rate (%)"),
    "positive": ("Predicted Probability (%)", "Observed Frequency (%)"),
}
SHARE: Final = "Share of Rows (%)"

#: The labels of TorchUncertainty for every event: score and observed frequency, and the histogram's frequency.
DROP_IN: Final = (WORDS["top-label"], "Density (%)")


def reliability_diagram(
    result: PlottableReport | ReliabilityDiagram,
    *,
    kind: Literal["bars", "points"] = "bars",
    intervals: bool = True,
    band: bool = True,
    bands: Bands | None = None,
    counts: bool = True,
    number: Literal["auto", "ece", "smece", "ace"] | None = "auto",
    label: str | None = None,
    color: Any = None,
    line: Mapping[str, Any] | None = None,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw a reliability diagram: the mean score and the observed frequency of each bin.

    A bar has the place and width of its bin and the height of the observed frequency. A line across it marks the mean
    score, and the gap between the two is filled. With ``kind="points"`` each bin is a point at its mean score and
    observed frequency; its area grows with its rows. Calibrated scores lie on the dashed diagonal. An orange diamond
    marks a bin whose rate lies outside the band. Some of many bins do so by chance.

    A second call on the same axes adds a series with another colour and marker: draw points then, and pass a ``label``
    for each. Each series has its own band. The band of the first series is filled in grey. The band of any other series
    is a dotted outline in the colour of the series, which its diamonds have too.

    Parameters
    ----------
    result : Report or ReliabilityDiagram
        From `calibrant.evaluate` or `calibrant.reliability_diagram`, which has intervals and a band with a ``level``.
    kind : {"bars", "points"}, default "bars"
        How the bins are drawn.
    intervals : bool, default True
        Whether to draw the interval of each bin's rate, a whisker at its mean score, if the result has intervals.
    band : bool, default True
        Whether to draw a band, if the result has one.
    bands : {"pointwise", "simultaneous"}, optional
        Which band. "pointwise" is the consistency band: the range of each bin's rate for calibrated scores, a bin by
        itself. "simultaneous" is the confidence band of the isotonic curve, which holds at all scores at once, for a
        report with ``bands="simultaneous"``. By default the latter if the report has it.
    counts : bool, default True
        Whether to draw the share of the rows in each bin on a strip above the axes, with the number of rows and the
        largest share.
    number : {"auto", "ece", "smece", "ace"} or None, default "auto"
        The error that is written in the upper left corner, with its interval: the ECE of a report, the smooth ECE, or
        the ECE over bins of equal frequency. "auto" is the first of them that the result has; nothing if it has none.
        None leaves it out.
    label : str, optional
        The name in the legend; by default "Observed frequency" or "Accuracy". The entry of the band has it too.
    color : colour of matplotlib, optional
        The colour of the series; by default the next of seven that everyone can tell apart.
    line : mapping, optional
        Properties of a line that joins the points, such as ``{"linestyle": ":", "alpha": 0.5}``. A ``marker`` is that
        of the points; their area grows with their rows, so a marker size is an error. By default nothing joins
        them: nothing was seen there.
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
        For another kind, for another type of result, for a report on every class (see `classwise`), for a ``number``
        that the result lacks, for a colour or a property of a line that matplotlib does not know, and for a line with
        ``kind="bars"``.
    calibrant.errors.MissingDependencyError
        Without matplotlib.

    Notes
    -----
    Bins without rows are left out. Quantile bins with a single score have no width, and are drawn as thin bars.

    Examples
    --------
    >>> import calibrant, calibrant.plot as cp
    >>> report = calibrant.evaluate([0.2] * 50 + [0.8] * 50, [1] * 12 + [0] * 38 + [1] * 39 + [0] * 11)
    >>> ax = cp.reliability_diagram(report, kind="points")
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('Mean predicted probability', 'Observed frequency')
    >>> ax.texts[0].get_text()
    'ECE 0.0300 (0.0000 – 0.1121)'
    """
    check_choice("kind", kind, _KINDS)
    diagram, words = _diagram_of(result)
    said, (joined, marker) = _number_of(result, number), _line_of(kind, line)
    simultaneous, bars = _simultaneous(result, bands) if band else None, kind == "bars"
    has_band = band and simultaneous is None
    marks = bin_marks(
        diagram, words.rate, bars=bars, band=has_band, intervals=intervals, joined=bool(joined), label=label
    )
    if simultaneous is not None:
        marks.insert(0, confidence_band(simultaneous))
    figure = square_figure(marks, "Predicted probability" if bars else MEAN, words.rate)
    axes = draw_series(figure, canvas.SQUARE, color, joined, False, ax, diagram if counts else None, marker)
    if said:
        canvas.corner(axes, said if label is None else f"{canvas.literal(label)}: {said}")
    if legend:
        canvas.legend_below(axes)
    return axes


def draw_series(
    figure: Figure,
    size: tuple[float, float],
    color: Any,
    line: Mapping[str, Any] | None,
    legend: bool,
    ax: Axes | None,
    bins: ReliabilityDiagram | None = None,
    marker: str | None = None,
) -> Axes:
    """Draw a figure as the next series on the axes, with a strip of the rows in bins."""
    options = canvas.line_options(line)
    axes = canvas.axes_for(ax, size)
    series = canvas.series_on(axes, color, options)
    artists.draw(axes, figure, series._replace(marker=marker or series.marker))
    if bins is not None:
        draw_strip(axes, bins, series.colour)
    if legend:
        canvas.legend_below(axes)
    return axes


def draw_strip(axes: Axes, diagram: ReliabilityDiagram, colour: Any) -> None:
    """Draw the share of the rows in each bin on a strip above the axes, with the number of rows."""
    filled = diagram.counts > 0
    # The text goes where fewer rows are.
    right = bool(diagram.proportions[filled] @ diagram.confidences[filled] < 0.5)
    rows = _amount(float(diagram.counts.sum()), rows=are_rows(diagram))
    edges = diagram.edges if np.isfinite(diagram.edges).all() else np.linspace(0, 1, len(diagram.edges))
    canvas.strip(axes, edges, diagram.proportions, rows, colour, right=right)


def _amount(total: float, *, rows: bool) -> str:
    """Return a number of rows, or their weight, in words."""
    return f"{total:,.0f} row{'s' * (total != 1)}" if rows else f"weight {total:,.6g}"


def _diagram_of(result: Any) -> tuple[ReliabilityDiagram, DiagramWords]:
    """Return the diagram of a report, or ``result`` itself, and what its rates and outcomes are called."""
    if isinstance(result, ReliabilityDiagram):
        return result, DIAGRAM_WORDS["positive"]
    source = "what calibrant.evaluate or calibrant.reliability_diagram returned"
    canvas.check_type("result", result, PlottableReport, "a Report or a ReliabilityDiagram", source)
    if result.diagram is None:
        remedy = "draw calibrant.plot.classwise(report), or evaluate with notion='top-label'"
        raise InputError("result", "a report on one evaluated event", f"one on notion={result.notion!r}", remedy)
    return result.diagram, DIAGRAM_WORDS[result.notion]


def _simultaneous(result: PlottableReport | ReliabilityDiagram, bands: Bands | None) -> CalibrationCurve | None:
    """Return the isotonic curve with a simultaneous band, if that is the band to draw."""
    if bands is not None:
        check_choice("bands", bands, BANDS)
    if isinstance(result, PlottableReport) and result.bands == "simultaneous":
        return None if bands == "pointwise" else result.curves["isotonic"]
    if bands == "simultaneous":
        remedy = "evaluate with bands='simultaneous', or leave bands out"
        raise InputError("bands", "'simultaneous' only for a report with such a band", "a report without one", remedy)
    return None


def _line_of(kind: str, line: Mapping[str, Any] | None) -> tuple[dict[str, Any], str | None]:
    """Return the properties of the line that joins points, and the marker of the points if one was asked for."""
    if line and kind == "bars":
        remedy = "pass kind='points', or use calibrant.plot.calibration_curve instead"
        raise InputError("line", "no line properties for kind='bars'", ", ".join(line), remedy)
    options = canvas.line_options(line, without=("markersize",))
    marker = options.pop("marker", None)
    return options, marker


def _number_of(result: PlottableReport | ReliabilityDiagram, number: str | None) -> str:
    """Return the error that is written in a figure, with its interval if it has one."""
    if number is None:
        return ""
    check_choice("number", number, _NUMBERS)
    estimates = result.estimates if isinstance(result, PlottableReport) else {}
    key = next((key for key in _NUMBERS[1:] if key in estimates), "") if number == "auto" else number
    if not key:
        return ""
    if key not in estimates or not isinstance(result, PlottableReport):
        got = f"one with {', '.join(estimates)}" if estimates else type(result).__name__
        remedy = "evaluate this measure, or pass number=None"
        raise InputError("number", f"{number!r} only for a report that contains it", got, remedy)
    estimate, name = estimates[key], result.descriptions[key].label
    ends = "" if math.isnan(estimate.low) else f" ({digits(estimate.low)} – {digits(estimate.high)})"
    return f"{name} {digits(estimate.value)}{ends}"


def score_histogram(
    result: PlottableReport | ReliabilityDiagram,
    *,
    kind: Literal["mirrored", "stacked"] = "mirrored",
    log: bool = False,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw how many rows have which score, split by their outcome.

    Parameters
    ----------
    result : Report or ReliabilityDiagram
        From `calibrant.evaluate` or `calibrant.reliability_diagram`.
    kind : {"mirrored", "stacked"}, default "mirrored"
        "mirrored": rows where the event occurred go up, other rows go down. "stacked": other rows stand on top of the
        rows with the event, so that the bar shows all rows.
    log : bool, default False
        Whether rows are on a logarithmic scale, which shows bins of few rows next to bins of many. It is linear up to
        one row (or the smallest weight of a bar, if that is less), so that 0 has a place. Only for "mirrored".
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
        For another kind, for another type of result, for a report on every class (see `classwise`), and for stacked
        bars on a logarithmic scale, where the upper part of a bar has no length that can be read.
    calibrant.errors.MissingDependencyError
        Without matplotlib.

    Notes
    -----
    Each bar is a bin of the result. Quantile bins have about the same number of rows each.

    Examples
    --------
    >>> import calibrant, calibrant.plot as cp
    >>> diagram = calibrant.reliability_diagram([0.2, 0.2, 0.2, 0.8, 0.8], [0, 0, 1, 1, 1], n_bins=2)
    >>> ax = cp.score_histogram(diagram)
    >>> events, others = ax.containers
    >>> [round(bar.get_height()) for bar in events], [round(bar.get_height()) for bar in others]
    ([1, 2], [-2, 0])
    """
    check_choice("kind", kind, _HISTOGRAMS)
    if log and kind == "stacked":
        raise InputError("log", "False for kind='stacked'", "True", "draw kind='mirrored', whose bars both begin at 0")
    diagram, words = _diagram_of(result)
    axes = canvas.axes_for(ax, (5.2, 4.0))
    artists.draw(axes, histogram_figure(diagram, words.outcomes, stacked=kind == "stacked"))
    if log:
        least = min((part[part > 0].min() for part in by_outcome(diagram) if part.any()), default=1.0)
        written = axes.yaxis.get_major_formatter()
        axes.set_yscale("symlog", linthresh=float(min(1.0, least)))
        axes.yaxis.set_major_formatter(written)
    if legend:
        canvas.legend_below(axes)
    return axes


def classwise(
    report: PlottableReport | ClasswiseCalibration,
    *,
    order: Literal["error", "support", "index"] = "error",
    max_classes: int | None = None,
    intervals: bool = True,
    legend: bool = True,
    ax: Any = None,
) -> Any:
    """Draw the reliability diagrams of single classes, in a grid of panels.

    The title of a panel names the class, its error and the number of rows of this class. If classes are left out,
    the figure says how many are shown.

    Parameters
    ----------
    report : Report or ClasswiseCalibration
        From `calibrant.evaluate` or `calibrant.classwise_calibration`. Only a report has intervals.
    order : {"error", "support", "index"}, default "error"
        Which classes come first: the largest error, most rows, or the first column.
    max_classes : int, optional
        The largest number of panels; by default 12, or the number of Axes in ``ax``.
    intervals : bool, default True
        Whether to draw the interval of each bin's rate, if the result has intervals.
    legend : bool, default True
        Whether to draw one legend, below all panels.
    ax : array of matplotlib.axes.Axes, Figure or SubFigure, optional
        The Axes to draw on, one for each panel (further Axes stay empty), or a figure to divide. By default a new
        figure.

    Returns
    -------
    array of matplotlib.axes.Axes
        The panels in their order, one-dimensional.

    Raises
    ------
    calibrant.errors.InputError
        For another order or type of result, for a report without classes, for ``max_classes`` below 1, for a single
        Axes, and for fewer Axes than panels.
    calibrant.errors.MissingDependencyError
        Without matplotlib.

    Notes
    -----
    Classes without a score that reaches the threshold are left out.

    Examples
    --------
    >>> import calibrant, calibrant.plot as cp
    >>> probs = [[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.3, 0.5]]
    >>> report = calibrant.evaluate(probs, [0, 1, 1, 2], class_names=["cat", "dog", "owl"])
    >>> panels = cp.classwise(report, max_classes=2)
    >>> print(panels[0].get_title(loc="left"))
    cat
    ECE 0.300, 1 row
    >>> panels[0].figure.get_suptitle()
    '2 of 3 classes, largest error first'
    """
    check_choice("order", order, _ORDERS)
    is_integer = isinstance(max_classes, (int, np.integer)) and not isinstance(max_classes, bool)
    if max_classes is not None and not (is_integer and max_classes >= 1):
        raise InputError("max_classes", "an integer from 1", repr(max_classes), "pass the number of panels, such as 12")
    result, names = _classes_of(report)
    shown = _ordered(result, order)
    if max_classes is None:
        max_classes = _MOST if ax is None or hasattr(ax, "subplots") else len(canvas.panels_in(ax))
    shown = shown[:max_classes]
    columns = len(shown) if len(shown) <= 4 else math.ceil(math.sqrt(len(shown)))
    panels, figure = canvas.panels_for(ax, len(shown), columns, (1.9, 2.1), shared=True)
    word = "ECE" if isinstance(report, PlottableReport) else "error"
    for panel, k in zip(panels, shown, strict=True):
        diagram = result.diagram(k)
        marks = bin_marks(diagram, "Observed frequency", bars=True, intervals=intervals)
        artists.draw(panel, square_figure(marks, "", ""), weight=0.6)
        panel.set(xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
        rows = _amount(float(result.supports[k]), rows=are_rows(diagram))
        title = f"{canvas.literal(names[k], _NAME)}\n{word} {result.errors[k]:.3f}, {rows}"
        panel.set_title(title, fontsize="small", loc="left")
    all_of_them = len(shown) == len(result.errors)
    part = "All classes" if all_of_them else f"{len(shown)} of {len(result.errors):,} classes"
    _say(panels, figure, columns, f"{part}, {_ORDERS[order]}", not all_of_them)
    if legend:
        canvas.legend_of_all(panels, figure)
    return np.array(panels, dtype=object)


def _say(panels: list[Any], figure: Any, columns: int, words: str, left_out: bool) -> None:
    """Label the axes, and say which classes these are: above the panels if the figure was divided."""
    lowest = panels if figure is None else panels[-columns:]
    for panel in lowest:
        panel.set_xlabel("Predicted probability")
    if figure is None:
        for panel in panels:
            panel.set_ylabel("Observed frequency")
        if left_out:
            # Aligned to the right, so that a long line grows to the left.
            panels[-1].set_xlabel(f"Predicted probability\n{words}", loc="right")
    else:
        figure.supylabel("Observed frequency", fontsize="medium")
        figure.suptitle(words, fontsize="medium")


def _classes_of(report: Any) -> tuple[ClasswiseCalibration, tuple[str, ...]]:
    """Return the results of the classes, and their names."""
    if isinstance(report, ClasswiseCalibration):
        return report, tuple(f"class {k}" for k in range(len(report.errors)))
    source = "what calibrant.evaluate or calibrant.classwise_calibration returned"
    canvas.check_type("report", report, PlottableReport, "a Report or a ClasswiseCalibration", source)
    if report.classwise is None:
        got = "one on one event" if report.n_classes is None else "one with classwise=False"
        remedy = "evaluate probabilities of shape (N, C), with classwise=True"
        raise InputError("report", "a report on classes", got, remedy)
    return report.classwise, report.class_names or tuple(f"class {k}" for k in range(len(report.classwise.errors)))


def _ordered(result: ClasswiseCalibration, order: str) -> list[int]:
    """Return the classes with evaluated rows, in order."""
    evaluated = np.flatnonzero(result.counts.sum(axis=1) > 0)
    if len(evaluated) == 0:
        raise InputError("report", "a class with scores that reach the threshold", "none", "lower the threshold")
    keys = {"error": -result.errors, "support": -result.supports, "index": np.arange(len(result.errors))}[order]
    ordered: list[int] = evaluated[np.argsort(keys[evaluated], kind="stable")].tolist()
    return ordered


def reliability_figure(
    diagram: ReliabilityDiagram, *, number: str, title: str, labels: tuple[str, str, str, str]
) -> tuple[Any, Any]:
    """Draw a reliability diagram above a histogram of the scores, in percent. The torch metrics draw it.

    Parameters
    ----------
    diagram : ReliabilityDiagram
        The bins. Each bar has the place of its bin and goes from mean score to observed frequency; a darker bar has
        more rows. Intervals and consistency band are drawn if the diagram has them.
    number : str
        The text in the lower right corner, such as the error.
    title : str
        The title.
    labels : (str, str, str, str)
        The labels of the diagram's two axes, then of the histogram's.

    Returns
    -------
    figure, axes
        The figure and an array of its two axes, diagram first.

    Raises
    ------
    calibrant.errors.MissingDependencyError
        Without matplotlib.
    """
    canvas.matplotlib()
    from matplotlib import pyplot as plt

    figure, (top, bottom) = plt.subplots(
        2, 1, sharex=True, figsize=_TALL, dpi=_DPI, height_ratios=(4, 1), layout="constrained"
    )
    filled, (lefts, rights) = diagram.counts > 0, bin_ends(diagram)
    lefts, widths = 100 * lefts, 100 * (rights - lefts)
    mean_scores, event_rates, shares = (
        100 * part[filled] for part in (diagram.confidences, diagram.accuracies, diagram.proportions)
    )
    gaps, least = np.abs(event_rates - mean_scores), np.minimum(event_rates, mean_scores)
    red = [(0.84, 0.19, 0.15, alpha) for alpha in 0.25 + 0.75 * shares / shares.max()]
    drawn = top.bar(lefts, gaps, widths, least, align="edge", color=red, edgecolor=red, linewidth=1, label="Gap")
    drawn.patches[0].set_gid(canvas.SERIES)  # first in the legend
    rate, ink = labels[1].removesuffix(" (%)"), canvas.ink(top)
    top.hlines(event_rates, lefts, lefts + widths, colors=ink, linewidth=2, label=rate)
    top.plot([0, 100], [0, 100], linestyle="--", color=canvas.FAINT, linewidth=1)
    artists.add(top, Figure("", axis := Axis("", 0.0, 100.0), axis, _ranges_in_percent(diagram)))
    top.text(0.97, 0.03, number, ha="right", va="bottom", transform=top.transAxes)
    top.set(xlim=(0, 100), ylim=(0, 100), title=title, xlabel=labels[0], ylabel=labels[1])
    top.legend(*canvas.handles_of([top]), loc="upper left")
    bottom.bar(lefts, shares, widths, align="edge", color="0.75", edgecolor=canvas.FAINT, linewidth=0.8)
    mean_rate, mean_score = (float(values @ shares) / 100 for values in (event_rates, mean_scores))
    look = {"color": canvas.ink(bottom), "linewidth": 2}
    bottom.axvline(mean_rate, label=f"Mean {rate.lower()}", **look)
    bottom.axvline(mean_score, label=MEAN, linestyle=":", **look)
    bottom.set(ylim=(0, None), xlabel=labels[2], ylabel=labels[3])
    bottom.legend(fontsize="small", loc="upper left")
    for axes in (top, bottom):
        axes.grid(visible=True, alpha=0.3, linestyle="--")
        axes.set_axisbelow(True)
    return figure, np.array([top, bottom])


def _ranges_in_percent(diagram: ReliabilityDiagram) -> list[Mark]:
    """Return the consistency band and the intervals of the rates, if the diagram has them."""
    found: list[Mark] = []
    for mark in bin_marks(diagram, "", bars=True):
        if isinstance(mark, Bars) and mark.look == "band":
            lefts, rights, lows, highs = (100 * np.asarray(ends) for ends in mark[:4])
            found.append(Bars(lefts, rights, lows, highs, mark.look, mark.word))
        elif isinstance(mark, Intervals) and mark.upright:
            places, lows, highs = (100 * np.asarray(ends) for ends in mark[:3])
            found.append(Intervals(places, lows, highs, mark.upright, mark.look, mark.word))
    return found


def compare(
    comparison: PlottableComparison,
    *,
    intervals: bool = True,
    counts: bool = True,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the reliability diagrams of several models in one.

    Each model has a colour and a marker. A point is a bin, at its mean score and observed frequency; its area grows
    with its rows. The legend shows each model's ECE. `differences` shows whether models differ.

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
    canvas.check_type("comparison", comparison, PlottableComparison, "a Comparison", "what calibrant.compare returned")
    axes = canvas.axes_for(ax, canvas.SQUARE)
    rate = DIAGRAM_WORDS[comparison.notion].rate
    for name, diagram in comparison.diagrams.items():
        series = canvas.series_on(axes, line={"linestyle": "-"})
        word = f"{canvas.literal(name, _NAME)} (ECE {comparison.models[name]['ece']:.3f})"
        marks = bin_marks(diagram, rate, band=False, intervals=intervals, joined=True, label=word)
        artists.draw(axes, square_figure(marks, MEAN, rate), series)
        if counts:
            draw_strip(axes, diagram, series.colour)
    if legend:
        canvas.legend_below(axes)
    return axes
