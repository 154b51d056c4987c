"""Small multiples: the reliability diagrams of single classes."""

from __future__ import annotations

import math
from typing import Any, Final, Literal

import numpy as np

from calibrant.errors import InputError, check_choice
from calibrant.plot import canvas, marks
from calibrant.results import ClasswiseCalibration
from calibrant.results.plottable import PlottableReport

#: The orders of classes, and their words in the title.
_ORDERS: Final = {"error": "largest error first", "support": "most frequent first", "index": "in their order"}
_MOST: Final = 12  # panels by default
_NAME: Final = 24  # characters of a class's name


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

    The title of a panel names the class, its error and its number of rows. If classes are left out, the figure says
    how many are shown.

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
        For another order, for another type of result, for a report without classes, for a single Axes, and for fewer
        Axes than panels.
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
        marks.bars(panel, diagram, canvas.BLUE, "Outcome rate", f"{canvas.SERIES}-0", weight=0.6)
        if intervals:
            marks.whiskers(panel, diagram, weight=0.6)
        canvas.unit_square(panel, "", "")
        panel.set(xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
        rows = marks.amount(float(result.supports[k]), rows=marks.are_rows(diagram))
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
        panel.set_xlabel("Score")
    if figure is None:
        for panel in panels:
            panel.set_ylabel("Outcome rate")
        if left_out:
            panels[-1].set_xlabel(f"Score\n{words}", loc="right")  # right-aligned, so a long line grows to the left
    else:
        figure.supylabel("Outcome rate", fontsize="medium")
        figure.suptitle(words, fontsize="medium")


def _classes_of(report: Any) -> tuple[ClasswiseCalibration, tuple[str, ...]]:
    """Return the results of the classes, and their names."""
    if isinstance(report, ClasswiseCalibration):
        return report, tuple(f"class {k}" for k in range(len(report.errors)))
    if not isinstance(report, PlottableReport):
        remedy = "pass what calibrant.evaluate or calibrant.classwise_calibration returned"
        raise InputError("report", "a Report or a ClasswiseCalibration", type(report).__name__, remedy)
    if report.classwise is None:
        got = "one on one event" if report.n_classes is None else "one with classwise=False"
        remedy = "evaluate probabilities of shape (N, C), with classwise=True"
        raise InputError("report", "a report on classes", got, remedy)
    return report.classwise, report.class_names or tuple(f"class {k}" for k in range(len(report.classwise.errors)))


def _ordered(result: ClasswiseCalibration, order: str) -> list[int]:
    """Return the classes with judged rows, in order."""
    judged = np.flatnonzero(result.counts.sum(axis=1) > 0)
    if len(judged) == 0:
        raise InputError("report", "a class with scores that reach the threshold", "none", "lower the threshold")
    keys = {"error": -result.errors, "support": -result.supports, "index": np.arange(len(result.errors))}[order]
    ordered: list[int] = judged[np.argsort(keys[judged], kind="stable")].tolist()
    return ordered
