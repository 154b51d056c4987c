"""The reliability diagram as a scikit-learn display."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, Self, get_args

from calibrant import plot
from calibrant.errors import InputError, check_choice, quoted
from calibrant.errors.wording import in_terms
from calibrant.inputs.predictions import Notion
from calibrant.measures import reliability_diagram
from calibrant.measures.binned.binned import BINNINGS, Binning
from calibrant.plot import canvas
from calibrant.report.evaluation import evaluate
from calibrant.report.report import Report
from calibrant.results import ReliabilityDiagram
from calibrant.runtime.arrays import ArrayLike
from calibrant.sklearn.matched_labels import (
    OF_ARRAYS,
    OF_ESTIMATOR,
    EstimatorRows,
    check_arguments,
    of_arrays,
    of_estimator,
    parameters_of,
)
from calibrant.statistics.resampling import Rng

Kind = Literal["bars", "points", "isotonic", "smooth"]
Strategy = Binning  # as scikit-learn names it

#: The function that draws each kind.
_DRAWN_BY: Final[Mapping[Kind, Callable[..., Any]]] = {
    "bars": plot.reliability_diagram,
    "points": plot.reliability_diagram,
    "isotonic": plot.calibration_curve,
    "smooth": plot.calibration_curve,
}


class ReliabilityDisplay:
    """A reliability diagram with its uncertainty, as a scikit-learn display.

    Make it with `from_estimator` or `from_predictions`, or from any `calibrant.Report` of one evaluated event. Numbers
    are computed once; ``display.plot(...)`` draws them again, in other ways or on other axes.

    Parameters
    ----------
    report : Report
        The result of `calibrant.evaluate`.
    name : str, optional
        The name in the legend.
    pos_label : label, optional
        The label that is the evaluated event, for the axes.
    diagram : ReliabilityDiagram, optional
        The bins to draw, by default those of the report: others come from `calibrant.reliability_diagram`.

    Attributes
    ----------
    report : Report
        All numbers, in the picture or not: ``print(display.report)``.
    diagram : ReliabilityDiagram
        The bins that are drawn: those of the report, which have equal width, or with ``strategy="quantile"`` bins of
        equal frequency.
    name, pos_label
        The arguments.
    ax_ : matplotlib.axes.Axes
        The axes of the last drawing.
    figure_ : matplotlib.figure.Figure
        The figure of these axes.

    Raises
    ------
    calibrant.errors.InputError
        For a report that evaluates each class, which has no single diagram.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import train_test_split
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from calibrant.sklearn import ReliabilityDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> display = ReliabilityDisplay.from_estimator(GaussianNB().fit(X_train, y_train), X_test, y_test)
    >>> ece = display.report["ece"]
    >>> round(ece.value, 3), ece.p_value < 0.01
    (0.064, True)
    >>> axes = display.plot(kind="smooth").ax_
    """

    ax_: Any
    figure_: Any

    def __init__(
        self,
        report: Report,
        *,
        name: str | None = None,
        pos_label: Any = None,
        diagram: ReliabilityDiagram | None = None,
    ) -> None:
        if not isinstance(report, Report):
            raise InputError(
                "report", "a calibrant.Report", f"a {type(report).__name__}", "call ReliabilityDisplay.from_predictions"
            )
        if report.diagram is None:
            remedy = "evaluate with notion='positive' or 'top-label', or evaluate the column of one class at a time"
            raise InputError(
                "report", "a report on one evaluated event", f"a report with notion={report.notion!r}", remedy
            )
        if not isinstance(diagram, (ReliabilityDiagram, type(None))):
            raise InputError(
                "diagram", "a calibrant.ReliabilityDiagram", f"a {type(diagram).__name__}", "leave diagram out"
            )
        self.report, self.name, self.pos_label = report, name, pos_label
        self.diagram = report.diagram if diagram is None else diagram

    def __repr__(self) -> str:
        of = "" if self.name is None else f"{quoted(str(self.name))}, "
        return f"<ReliabilityDisplay: {of}{len(self.diagram.counts):,} bins of {self.report.n:,} rows>"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        pos_label: Any = None,
        notion: Notion | None = None,
        n_bins: int = 15,
        strategy: Strategy = "uniform",
        level: float | None = 0.95,
        n_resamples: int = 1000,
        rng: Rng = 0,
        name: str | None = None,
        kind: Kind = "bars",
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Evaluate a fitted classifier on new rows, and draw its reliability diagram.

        Parameters
        ----------
        estimator : classifier
            Fitted, with `predict_proba` and `classes_`: a classifier, a pipeline, a search.
        X : array or frame
            What `predict_proba` takes.
        y : array, (N,)
            The true labels, as in `fit`.
        sample_weight, pos_label, notion, n_bins, strategy, level, n_resamples, rng, kind, ax, options
            As in `from_predictions`. For two classes the evaluated event is ``classes_[1]``, unless ``pos_label`` is
            passed.
        name : str, optional
            The name in the legend; by default the class of the estimator.

        Returns
        -------
        ReliabilityDisplay

        Raises
        ------
        calibrant.errors.InputError
            As in `from_predictions`; for an estimator without `predict_proba`, or with one class or several outputs;
            for labels that it was not fitted on.
        sklearn.exceptions.NotFittedError
            From the estimator.
        """
        _check_options(kind, options, notion, strategy)
        settings = {"n_bins": n_bins, "level": level, "n_resamples": n_resamples, "rng": rng}
        with in_terms(*OF_ESTIMATOR):
            rows = of_estimator(estimator, X, y, pos_label, notion)
            report, diagram = _evaluated(rows, sample_weight, strategy, settings)
        shown_name = type(estimator).__name__ if name is None else name
        return cls(report, name=shown_name, pos_label=rows.pos_label, diagram=diagram).plot(ax, kind=kind, **options)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        pos_label: Any = None,
        class_names: Sequence[Any] | None = None,
        notion: Notion | None = None,
        n_bins: int = 15,
        strategy: Strategy = "uniform",
        level: float | None = 0.95,
        n_resamples: int = 1000,
        rng: Rng = 0,
        name: str | None = None,
        kind: Kind = "bars",
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Evaluate predicted probabilities and draw their reliability diagram.

        Parameters
        ----------
        y_true : array, (N,)
            The true labels: numbers, strings, booleans.
        y_prob : array, (N,), (N, 1), (N, 2) or (N, C)
            The probability of one label, or a column for each class.
        sample_weight : array, (N,), optional
            Frequency weights: 2 equals the row twice.
        pos_label : label, optional
            The label whose probability is evaluated, against all others. If ``y_prob`` has one column, the default is 1
            for labels 0 and 1 (or -1 and 1). With two columns, or two ``class_names``, it is the last class. For more
            than two classes the default is None: the event is that the predicted class is right.
        class_names : sequence of labels, optional
            The labels in the order of the columns: ``estimator.classes_``. By default 0 to C - 1.
        notion : {"positive", "top-label"}, optional
            The evaluated event, as in `calibrant.evaluate`; by default "positive" if one label is evaluated.
        n_bins, level, n_resamples, rng
            As in `calibrant.evaluate`.
        strategy : {"uniform", "quantile"}, default "uniform"
            Whether the bins that are drawn have equal width or equal frequency, as `calibrant.reliability_diagram` cuts
            them: equal scores stay together. The intervals and the band of bins of equal frequency come from closed
            forms, and the error in the figure is ``report["ace"]``. The report is the same. Curves have no bins to
            choose.
        name : str, optional
            The name in the legend.
        kind, ax, options
            As in `plot`.

        Returns
        -------
        ReliabilityDisplay

        Raises
        ------
        calibrant.errors.InputError
            As in `calibrant.evaluate`; for swapped arguments, for labels that are not in ``class_names``, and for
            labels of one column other than 0 and 1, or -1 and 1, without ``pos_label``.

        Examples
        --------
        >>> from calibrant.sklearn import ReliabilityDisplay
        >>> y_true, y_prob = ["no", "no", "yes", "yes", "yes"], [0.25, 0.25, 0.55, 0.75, 0.75]
        >>> display = ReliabilityDisplay.from_predictions(y_true, y_prob, pos_label="yes", n_bins=2, kind="points")
        >>> round(display.report["ece"].value, 4), display.ax_ is display.figure_.axes[0]
        (0.29, True)
        """
        _check_options(kind, options, notion, strategy)
        settings = {"n_bins": n_bins, "level": level, "n_resamples": n_resamples, "rng": rng}
        with in_terms(*OF_ARRAYS):
            rows = of_arrays(y_true, y_prob, class_names, pos_label, notion)
            report, diagram = _evaluated(rows, sample_weight, strategy, settings)
        return cls(report, name=name, pos_label=rows.pos_label, diagram=diagram).plot(ax, kind=kind, **options)

    def plot(self, ax: Any = None, *, kind: Kind = "bars", name: str | None = None, **options: Any) -> Self:
        """Draw the diagram.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default on a new figure.
        kind : {"bars", "points", "isotonic", "smooth"}, default "bars"
            The bins as bars or as points, or a calibration curve, which needs no bins.
        name : str, optional
            The name in the legend, instead of the display's name.
        options
            Passed on to `calibrant.plot.reliability_diagram` for bins, to `calibrant.plot.calibration_curve` for
            curves: ``color``, ``band``, ``counts``... Properties of `matplotlib.lines.Line2D`, such as ``linestyle``,
            ``alpha`` and ``marker``, are those of the curve, or of a line that joins the points; bars have no line.

        Returns
        -------
        ReliabilityDisplay
            The display itself, with ``ax_`` and ``figure_`` set.
        """
        _check_options(kind, options)
        draw, label = _DRAWN_BY[kind], self.name if name is None else name
        line = {key: options.pop(key) for key in list(options) if _is_of_line(draw, key)}
        if line:
            options["line"] = {**(options.get("line") or {}), **line}
        if draw is plot.reliability_diagram and self.diagram is not self.report.diagram and "ace" in self.report:
            options.setdefault("number", "ace")  # the error over bins of equal frequency
        shown = replace(self.report, diagram=self.diagram)
        self.ax_ = draw(shown, kind=kind, label=label, ax=ax, **options)
        self.figure_ = self.ax_.figure
        event, label = f" (positive class: {canvas.literal(str(self.pos_label))})", self.ax_.get_xlabel()
        if self.pos_label is not None and event not in label:  # unless another display on these axes wrote it
            self.ax_.set_xlabel(label + event)
        return self


def _evaluated(
    rows: EstimatorRows, weights: ArrayLike | None, strategy: Strategy, settings: dict[str, Any]
) -> tuple[Report, ReliabilityDiagram | None]:
    """Return the report, and the bins of equal frequency if they are asked for."""
    shared: dict[str, Any] = {"notion": rows.notion, "weights": weights}
    report = evaluate(rows.probs, rows.targets, **shared, class_names=rows.class_names, **settings)
    if strategy == "uniform":
        return report, None
    bins = {"n_bins": settings["n_bins"], "binning": strategy, "level": settings["level"]}
    return report, reliability_diagram(rows.probs, rows.targets, **shared, **bins)


def _is_of_line(draw: Callable[..., Any], name: str) -> bool:
    """Return whether a keyword argument is a property of the line, and no argument of the function that draws."""
    return name not in (parameters_of(draw) or ()) and canvas.is_line_property(name)


def _check_options(kind: Any, options: Mapping[str, Any], notion: object = None, strategy: object = "uniform") -> None:
    """Reject wrong options before any computation."""
    check_choice("kind", kind, _DRAWN_BY)
    check_choice("strategy", strategy, BINNINGS)
    draw = _DRAWN_BY[kind]
    line = {name: value for name, value in options.items() if _is_of_line(draw, name)}
    check_arguments(draw, [name for name in options if name not in line], ("result", "kind", "label", "ax"))
    canvas.line_options(line)
    if notion is not None:
        check_choice("notion", notion, get_args(Notion))
    if notion not in (None, "positive", "top-label"):
        remedy = "pass pos_label to evaluate one class against the rest"
        raise InputError("notion", "'positive' or 'top-label' for a diagram", repr(notion), remedy)
