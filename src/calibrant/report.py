"""Everything about one set of predictions: `evaluate` and its `Report`."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError, check_choice
from calibrant.estimators import binned, isotonic
from calibrant.estimators.certified import Certified
from calibrant.inputs import Notion, Predictions, as_groups, as_predictions
from calibrant.notions import NOTIONS, class_events, read, resolve
from calibrant.render import terminal, words
from calibrant.results import CalibrationCurve, ClasswiseCalibration, Estimate, ReliabilityDiagram, plain, plain_diagram
from calibrant.sampling.cells import Cells
from calibrant.sampling.classwise import class_estimate, with_intervals
from calibrant.sampling.event import NO_BIN, Event, EventInference, with_details
from calibrant.sampling.groups import LEAST_GROUP, finest_p_value, holm
from calibrant.sampling.means import PredictionMeans, effective_rows, flag_of
from calibrant.sampling.resampling import Resampling, Rng
from calibrant.sketch import CalibrationSketch, check_alone
from calibrant.table import ReliabilityTable

#: Of the dictionary and the JSON that a report writes.
SCHEMA_VERSION: Final = 3

#: The measures of a report, in the order in which they are read.
MEASURES: Final = (
    "accuracy",
    "mean_confidence",
    "mean_gap",
    "brier",
    "nll",
    "ece",
    "rmsce",
    "debiased_square",
    "mce",
    "ace",
    "classwise_ece",
    "smece",
    "ks",
    "miscalibration",
    "discrimination",
    "uncertainty",
)


#: The binned measures of classes that have an interval, and how their bins are made.
_CLASS_BINS: Final[Mapping[str, Callable[[ReliabilityTable, int], binned.Bins]]] = {
    "ece": binned.bin_table,
    "ace": binned.quantile_bins,
}
NO_MEAN: Final = "no interval: none is known for this measure's mean over classes; judge one class at a time"


@dataclass(frozen=True, eq=False)
class Report(Mapping[str, Estimate]):
    """What `evaluate` found: a mapping from the name of a measure to its `Estimate`, and the curves behind them.

    ``print(report)`` draws it in the terminal, ``to_html`` writes it as a page, ``to_dict`` and ``to_json`` give every
    number. Notebooks show it as it is.

    Attributes
    ----------
    estimates : mapping
        The measures: accuracy, mean_confidence, mean_gap, brier, nll, ece, rmsce, debiased_square, mce, ace,
        classwise_ece, smece, ks, miscalibration, discrimination, uncertainty.
    notion : str
        The judged event.
    n : int
        The judged rows.
    n_classes : int or None
        The number of classes or labels; None for one event.
    n_bins : int
        The bins of the binned measures.
    outcome_rate : float
        The share of judged events that happened: of right answers, for the top label.
    diagram : ReliabilityDiagram or None
        The uniform bins of the judged event; None where every class is judged by itself.
    classwise : ClasswiseCalibration or None
        The calibration error of each class.
    class_names : tuple of str or None
        The names of the classes.
    level : float or None
        The confidence of intervals and bands; None where none were asked for.
    n_resamples : int
        The replicates behind noise floors and p-values; 0 for closed forms.
    curves : mapping
        The `CalibrationCurve` of the judged event, "isotonic" and "smooth"; empty where every class is judged.
    groups : tuple of GroupReport
        The reports on the groups, where groups were given.
    omitted : mapping
        What was left out of it and why, by name, such as files that could not be read; empty unless somebody asked for
        the rest.
    """

    estimates: Mapping[str, Estimate]
    notion: Notion
    n: int
    n_classes: int | None
    n_bins: int
    outcome_rate: float
    diagram: ReliabilityDiagram | None
    classwise: ClasswiseCalibration | None = None
    class_names: tuple[str, ...] | None = None
    level: float | None = None
    n_resamples: int = 0
    curves: Mapping[str, CalibrationCurve] = field(default_factory=dict)
    groups: tuple[GroupReport, ...] = ()
    omitted: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Estimate:
        return self.estimates[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    def to_dict(self) -> dict[str, Any]:
        """Return every number as plain Python values that are strict JSON.

        A number that is not finite is None, and stands with the reason in ``not_finite`` under its path.
        """
        missing: dict[str, str] = {}
        estimates = {
            name: _plain_estimate(estimate, f"estimates.{name}", missing) for name, estimate in self.estimates.items()
        }
        diagram = classes = None
        if self.diagram is not None:
            diagram = plain_diagram(self.diagram, "diagram", missing)
        if self.classwise is not None:
            classes = {
                "names": list(self.class_names) if self.class_names else [str(k) for k in range(self.n_classes or 0)],
                "errors": plain(self.classwise.errors, "classwise.errors", missing, "the threshold kept no score"),
                "kept": plain(self.classwise.kept, "classwise.kept", missing),
                "supports": plain(self.classwise.supports, "classwise.supports", missing),
                "bins": _class_bins(self.classwise),
            }
        return {
            "schema_version": SCHEMA_VERSION,
            "n": self.n,
            "notion": self.notion,
            "n_classes": self.n_classes,
            "n_bins": self.n_bins,
            "level": self.level,
            "n_resamples": self.n_resamples,
            "outcome_rate": self.outcome_rate,
            "estimates": estimates,
            "diagram": diagram,
            "curves": {name: _plain_curve(curve, f"curves.{name}", missing) for name, curve in self.curves.items()},
            "classwise": classes,
            "groups": [group.to_dict() for group in self.groups],
            "omitted": dict(self.omitted),
            "not_finite": missing,
        }

    def to_json(self, *, indent: int | None = 2) -> str:
        """Return `to_dict` as strict JSON: no NaN, no Infinity."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False, ensure_ascii=False)

    def to_html(self, path: str | os.PathLike[str], *, title: str = "") -> Path:
        """Write the report as one page of HTML, which needs no other file and no network, and return its path.

        The verdict, the reliability diagram with its curves and bands, every number with interval and noise floor, the
        classes, the groups, and how all of it was computed. It is readable without JavaScript, on paper and on a
        phone; the numbers behind each picture can be downloaded from it.

        Parameters
        ----------
        path : str or path
            The file to write. What stood there is replaced.
        title : str
            What stands above the page.

        Raises
        ------
        calibrant.errors.MissingDependencyError
            Without jinja2, which the extra ``report`` installs.
        """
        from calibrant.render import html

        return html.write_page(html.page(self.to_dict(), title=title), path)

    def __str__(self) -> str:
        return terminal.render(self.to_dict())

    def __repr__(self) -> str:
        return f"<Report: {words.headline(self.to_dict())}; ECE {self['ece'].value:.4f}; print it for everything>"

    def _repr_html_(self) -> str:
        from calibrant.render import html

        return html.cell(self.to_dict(), self.__str__)


@dataclass(frozen=True, eq=False)
class GroupReport:
    """The report on one group of predictions, and whether it stands out among all groups.

    Attributes
    ----------
    name : str
        The group.
    report : Report
        Every measure of its predictions.
    p_value : float
        Of the hypothesis that the group is calibrated, by its ECE; in closed form where it is at the limit of what the
        resamples resolve. NaN for a group that is too small.
    adjusted_p_value : float
        The same with Holm's correction for the number of groups.
    called_out : bool
        Whether the group is miscalibrated at the report's level after the correction.
    flag : str
        Why the group is too small to say anything, or nothing.
    """

    name: str
    report: Report
    p_value: float
    adjusted_p_value: float
    called_out: bool
    flag: str

    def to_dict(self) -> dict[str, Any]:
        """Return every number as plain Python values that are strict JSON."""
        tested = not math.isnan(self.p_value)
        return {
            "name": self.name,
            "p_value": self.p_value if tested else None,
            "adjusted_p_value": self.adjusted_p_value if tested else None,
            "called_out": self.called_out,
            "flag": self.flag,
            "report": self.report.to_dict(),
        }


def _plain_estimate(estimate: Estimate, path: str, missing: dict[str, str]) -> dict[str, Any]:
    reason = estimate.details.get("reason")
    none = "no noise floor" if estimate.floor is None else None
    found = {"value": plain(estimate.value, f"{path}.value", missing, reason)}
    for name in ("low", "high", "level"):
        found[name] = plain(getattr(estimate, name), f"{path}.{name}", missing, estimate.method)
    found["error_bound"] = plain(estimate.error_bound, f"{path}.error_bound", missing, "nothing is known of it")
    floor = estimate.floor
    found["floor"] = None if floor is None else {"mean": floor.mean, "upper": floor.upper}
    found["p_value"] = plain(estimate.p_value, f"{path}.p_value", missing, none)
    found["method"], found["n"] = estimate.method, estimate.n
    found["details"] = plain(dict(estimate.details), f"{path}.details", missing)
    return found


def _plain_curve(curve: CalibrationCurve, path: str, missing: dict[str, str]) -> dict[str, Any]:
    names = (
        "scores",
        "rates",
        "confidence_lows",
        "confidence_highs",
        "consistency_lows",
        "consistency_highs",
        "bandwidth",
    )
    reasons = {"bandwidth": "the isotonic curve has none"}
    return {
        name: plain(getattr(curve, name), f"{path}.{name}", missing, reasons.get(name, "needs resampling"))
        for name in names
    }


def _class_bins(result: ClasswiseCalibration) -> dict[str, list[Any]]:
    """Return the filled bins of all classes, one after the other, as columns."""
    filled = result.counts > 0
    classes, _ = np.nonzero(filled)
    counts = result.counts[filled]
    whole = np.rint(counts).astype(np.int64)
    columns: dict[str, NDArray[Any]] = {
        "class": classes,
        "left": result.edges[:, :-1][filled],
        "right": result.edges[:, 1:][filled],
        "count": whole if np.array_equal(whole, counts) else counts,
        "confidence": result.confidences[filled],
        "accuracy": result.accuracies[filled],
    }
    for name, ends in (("low", result.lows), ("high", result.highs)):
        if ends is not None:
            columns[name] = ends[filled]
    return {name: values.tolist() for name, values in columns.items()}


def evaluate(
    probs: Any,
    targets: Any = None,
    *,
    notion: Notion | None = None,
    n_bins: int = 15,
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
    class_names: Sequence[str] | None = None,
    classwise: bool = True,
    groups: Any = None,
    level: float | None = 0.95,
    n_resamples: int = 1000,
    rng: Rng = 0,
) -> Report:
    """Evaluate how far predicted probabilities can be trusted: every measure from one read of the data.

    The report has the `Estimate` of each of these measures, with its confidence interval, its noise floor (what
    perfectly calibrated scores would show at this number of rows) and its p-value under calibration:

    - ``accuracy``, ``brier``, ``nll``: of the predictions as they are (for a table, of its event); means over the
      labels for multilabel,
    - ``mean_confidence``: the mean score of the judged event; ``mean_gap``: the same minus the rate of its outcomes,
    - ``ece``, ``rmsce``, ``mce`` (uniform bins; the maximum over those with 30 rows), ``ace`` (quantile bins),
      ``debiased_square`` (the unbiased square of rmsce), ``smece`` (exact), ``ks``: of the judged event,
    - ``classwise_ece``: the mean of the classes' errors,
    - ``miscalibration``, ``discrimination``, ``uncertainty``: the CORP decomposition of the event's Brier score.

    With a classwise or multilabel notion the measures of an event are means over classes (root of the mean square
    for rmsce, maximum for mce), each class's own in ``details["per_class"]``; of these only the ECE and the ACE have
    an interval. What cannot be had is NaN, and ``method`` says why.

    Parameters
    ----------
    probs, targets, notion, weights, ignore_index, logits
        As in `expected_calibration_error`. ``probs`` may also be a `CalibrationSketch` (then without targets; its
        groups are reported on), a mapping from the name of each group to its sketch, or a `ReliabilityTable`: of the
        event "positive", or with ``notion="top-label"`` of right answers.
    n_bins : int, default 15
        The bins of ECE, RMSCE, MCE, ACE and of the classwise error.
    class_names : sequence of str, optional
        The names of the classes, in the order of the columns. Targets that are strings are matched to them.
    classwise : bool, default True
        Whether each class is judged as well, in the same read.
    groups : array, (N,), optional
        The name of each row's group. Every group gets a `GroupReport`; one is called out only if its ECE is beyond
        noise after Holm's correction for the number of groups.
    level : float or None, default 0.95
        The confidence of the intervals; None for values alone, at a fraction of the time.
    n_resamples : int, default 1000
        The replicates behind noise floors and p-values; 0 for closed forms, without what has none.
    rng : int or numpy.random.Generator, default 0
        The seed of the replicates. The numbers do not depend on the number of threads.

    Returns
    -------
    Report
        A mapping from the name of each measure to its `Estimate`.

    Raises
    ------
    calibrant.errors.InputError
        As `expected_calibration_error`.

    Notes
    -----
    Cost: one read of the N x C numbers, one sort of N integers; memory below 96 bytes a row beside the input. With
    ``level`` the resampling of at most 4,396 cells: about a second with 1,000 resamples, at any N.

    Intervals are valid near zero too, where a bootstrap is not: a lower end is 0 unless the measure's own test of
    calibration rejects. How each is made stands in ``method`` and in the documentation.

    Examples
    --------
    >>> import calibrant
    >>> report = calibrant.evaluate([0.25, 0.25, 0.55, 0.75, 0.75], [0, 0, 1, 1, 1], n_bins=2)
    >>> round(report["ece"].value, 4), report["mce"].method
    (0.29, 'not available: no bin holds 30 rows')
    >>> report["classwise_ece"].method
    'not available: one event is judged, no classes'
    >>> probs, targets = [0.2] * 50 + [0.8] * 50, [1] * 12 + [0] * 38 + [1] * 39 + [0] * 11
    >>> ece = calibrant.evaluate(probs, targets)["ece"]
    >>> round(ece.value, 3), ece.low, round(ece.high, 2), round(ece.floor.mean, 2), ece.p_value > 0.5
    (0.03, 0.0, 0.11, 0.05, True)
    """
    binned.check_bins(n_bins)
    resampling = None if level is None else Resampling.of(level, n_resamples, rng)
    if isinstance(probs, (ReliabilityTable, CalibrationSketch)) or _are_groups(probs):
        given = {"targets": targets, "weights": weights, "ignore_index": ignore_index, "class_names": class_names}
        return _evaluate_given(
            probs, {**given, "logits": logits or None, "groups": groups}, notion, n_bins, resampling, classwise
        )
    if targets is None:
        remedy = "pass the labels; only a ReliabilityTable or a CalibrationSketch needs none"
        raise InputError("targets", "an array", "None", remedy)
    predictions = as_predictions(
        probs,
        targets,
        weights=weights,
        ignore_index=ignore_index,
        logits=logits,
        class_names=class_names,
        notion=notion,
    )
    judged = resolve(predictions, notion)
    whole = _evaluate(predictions, judged, n_bins, resampling, classwise=classwise)
    if groups is None:
        return whole
    own = {
        name: _evaluate(predictions.take(places), judged, n_bins, resampling, classwise=classwise)
        for name, places in as_groups(groups, predictions)
    }
    return replace(whole, groups=_tested(own, resampling))


def _are_groups(given: Any) -> bool:
    """Whether this is a mapping to sketches, be it of some names only."""
    return isinstance(given, Mapping) and any(isinstance(own, CalibrationSketch) for own in given.values())


def _evaluate_given(
    given: Any,
    others: Mapping[str, Any],
    notion: Notion | None,
    n_bins: int,
    resampling: Resampling | None,
    classwise: bool,
) -> Report:
    """Report on a table, a sketch or sketches of groups."""
    if isinstance(given, Mapping):
        given = CalibrationSketch.of_groups(given)
    for name, value in others.items():
        if value is not None:
            got = f"nothing beside a {type(given).__name__}"
            raise InputError(name, got, "a value", f"{_HOLDS[type(given)]} holds all there is")
    if isinstance(given, ReliabilityTable):
        return _evaluate_table(given, notion, n_bins, resampling)
    check_alone(given, notion)
    whole = _evaluate_sketch(given, n_bins, resampling, classwise=classwise)
    own = {
        name: _evaluate_sketch(group, n_bins, resampling, classwise=classwise) for name, group in given.groups.items()
    }
    return replace(whole, groups=_tested(own, resampling))


_HOLDS: Final = {ReliabilityTable: "the table", CalibrationSketch: "the sketch"}


def _evaluate_sketch(
    sketch: CalibrationSketch, n_bins: int, resampling: Resampling | None, *, classwise: bool
) -> Report:
    whole, notion = PredictionMeans.of(sketch), sketch.notion
    if notion in ("classwise", "multilabel"):
        return _of_classes(sketch.class_tables, whole, notion, n_bins, resampling, sketch.class_names)
    tables = sketch.class_tables if classwise and sketch.has_classes else None
    return event_report(
        sketch.table,
        whole,
        notion or "positive",
        sketch.n_classes,
        n_bins,
        resampling,
        None if tables is None else binned.class_histograms(tables, n_bins, binned.bin_table)[0],
        sketch.class_names,
        class_bound=0.0 if tables is None else _mean_bound(tables, n_bins),
    )


def _mean_bound(tables: Sequence[ReliabilityTable], n_bins: int) -> float:
    """Return the certified error of the mean of the classes' l1 errors."""
    return float(np.mean([known.ece(n_bins) for known in map(Certified.of, tables) if known is not None]))


def _evaluate(
    predictions: Predictions, judged: Notion, n_bins: int, resampling: Resampling | None, *, classwise: bool
) -> Report:
    layout, names = predictions.layout, predictions.class_names
    n_classes = None if layout == "binary" else predictions.n_classes
    uppers = None
    if layout == "multiclass" and classwise and judged != "classwise":  # which pools every class by itself below
        uppers = binned.largest_members(binned.uniform_edges(n_bins), "right", predictions.rows.dtype)
    reading = read(predictions, judged, uppers=uppers)
    n, rows = reading.n, effective_rows(reading.events.weights, reading.n)
    if layout == "multilabel":  # of which the means are over labels, and the rows are the independent ones
        judged_rows = predictions.judged
        n = int(np.count_nonzero(judged_rows))
        rows = effective_rows(None if predictions.weights is None else predictions.weights[judged_rows], n)
    whole = PredictionMeans(
        reading.correct,
        reading.brier,
        reading.nll,
        reading.brier_square,
        reading.nll_square,
        reading.infinite,
        n,
        rows,
        layout == "binary",
    )
    if judged in ("classwise", "multilabel"):
        tables = [ReliabilityTable.pool(events) for events, _ in class_events(predictions)]
        return _of_classes(tables, whole, judged, n_bins, resampling, names)
    histograms = reading.histograms if uppers is not None else None
    table = ReliabilityTable.pool(reading.events)
    return event_report(table, whole, judged, n_classes, n_bins, resampling, histograms, names)


def _tested(own: Mapping[str, Report], resampling: Resampling | None) -> tuple[GroupReport, ...]:
    """Return the groups' reports with the tests that say which stand out."""
    reason = f"fewer than {LEAST_GROUP} rows: too few to say anything"
    few = {name: reason for name in own if own[name].n < LEAST_GROUP}
    tested = [name for name in own if resampling is not None and name not in few]
    p_values = {name: finest_p_value(own[name]["ece"]) for name in tested}
    adjusted = dict(zip(p_values, holm(list(p_values.values())), strict=True))
    return tuple(
        GroupReport(
            name,
            report,
            p_values.get(name, math.nan),
            adjusted.get(name, math.nan),
            resampling is not None and adjusted.get(name, 1.0) <= 1 - resampling.level,
            few.get(name, ""),
        )
        for name, report in own.items()
    )


def _evaluate_table(
    table: ReliabilityTable, notion: Notion | None, n_bins: int, resampling: Resampling | None
) -> Report:
    if notion is not None:
        check_choice("notion", notion, NOTIONS)
    if notion not in (None, "positive", "top-label"):
        raise InputError("notion", "'positive' or 'top-label' for a table", repr(notion), "a table is of one event")
    if len(table) == 0:
        raise InputError("probs", "a table with at least one row", "an empty table", "check where the rows were lost")
    known = Certified.of(table)
    right = table.positives
    if notion != "top-label":
        right = np.where(table.scores >= 0.5, table.positives, table.counts - table.positives)
    wrong = (table.scores == 0) * table.positives + (table.scores == 1) * (table.counts - table.positives)
    accuracy, bounds = float(right.sum() / table.total), {}
    nll = isotonic.table_score(table, "log")
    if known is not None:
        nll, bounds["nll"] = known.log_loss()
        bounds["accuracy"] = 0.0 if notion == "top-label" else known.accuracy(accuracy)
    whole = PredictionMeans(
        accuracy,
        isotonic.table_score(table, "brier"),
        nll,
        isotonic.table_square(table, "brier"),
        isotonic.table_square(table, "log"),
        float(wrong.sum()),
        table.n,
        Cells.of(table).effective_n,
        event=True,
    )
    report = event_report(table, whole, notion or "positive", None, n_bins, resampling)
    bounded = {name: replace(report[name], error_bound=bound) for name, bound in bounds.items()}
    return replace(report, estimates={**report.estimates, **bounded})


def event_report(
    table: ReliabilityTable,
    whole: PredictionMeans,
    notion: Notion,
    n_classes: int | None,
    n_bins: int,
    resampling: Resampling | None,
    histograms: NDArray[np.float64] | None = None,
    names: tuple[str, ...] | None = None,
    class_bound: float = 0.0,
) -> Report:
    """Report on one judged event; ``n_classes`` is None where there are no classes.

    ``histograms``, of shape (3, bins, classes), are those of the classes, where each is judged as well; of their mean
    error ``class_bound`` is the certified error.
    """
    event = Event(table, n_bins)
    reason = "one event is judged, no classes" if n_classes is None else "not asked for (classwise=False)"
    classes = Estimate(math.nan, method=f"not available: {reason}", n=table.n, details={"reason": reason})
    per_class = None
    if histograms is not None:
        per_class = with_intervals(
            binned.classwise_errors(histograms, table.total, "l1"), whole.effective_n, resampling
        )
        details = _worst_class(per_class, names)
        classes = class_estimate(per_class.value, histograms, whole.effective_n, table.n, resampling, details)
        classes = replace(classes, error_bound=class_bound)
    shape = (notion, table.n, n_classes, n_bins, table.sums.positives / table.total)
    if resampling is None:
        estimates = {**event.plain_estimates(), **whole.plain_estimates(), "classwise_ece": classes}
        return Report(_ordered(estimates, table), *shape, event.diagram(), per_class, names)
    cells = Cells.of(table)
    inferred = EventInference(event, cells, resampling)
    means = whole.estimates(resampling.level, resampling.z, cells)
    estimates = {**inferred.estimates(), **means, "classwise_ece": classes}
    flag = flag_of(cells)
    if flag:
        estimates = {name: with_details(estimate, {"flag": flag}) for name, estimate in estimates.items()}
    return Report(
        _ordered(estimates, table),
        *shape,
        inferred.diagram(),
        per_class,
        names,
        resampling.level,
        resampling.n_resamples,
        inferred.curves(),
    )


def _ordered(estimates: Mapping[str, Estimate], table: ReliabilityTable) -> dict[str, Estimate]:
    """Return the estimates in their order, those from a table on a grid saying so."""
    said = table.provenance
    return {name: with_details(estimates[name], said) if said else estimates[name] for name in MEASURES}


def _of_classes(
    tables: Sequence[ReliabilityTable],
    whole: PredictionMeans,
    notion: Notion,
    n_bins: int,
    resampling: Resampling | None,
    names: tuple[str, ...] | None,
) -> Report:
    """Report on every class by itself: means, the root of the mean square for rmsce, the maximum for mce."""
    events = [Event(table, n_bins) if len(table) else None for table in tables]  # None: no rows
    each = [None if event is None else event.values for event in events]
    names_of = next(own for own in each if own is not None)
    norms: dict[str, binned.Norm] = {"rmsce": "l2", "mce": "max"}
    n, found = (
        whole.n,
        {name: binned.class_histograms(tables, n_bins, bin_up)[0] for name, bin_up in _CLASS_BINS.items()},
    )
    estimates = whole.plain_estimates() if resampling is None else whole.estimates(resampling.level, resampling.z, None)
    for name in names_of:
        values = np.array([math.nan if own is None else own[name] for own in each])
        value, details = binned.combine(values, norms.get(name, "l1")), {"per_class": values.tolist()}
        if name in _CLASS_BINS:
            # Labels of one row may all depend on one another, classes of one row only by excluding one another.
            apart = {"dependence": float(len(tables))} if notion == "multilabel" else {}
            estimates[name] = class_estimate(value, found[name], whole.effective_n, n, resampling, details, **apart)
        else:
            missing = name == "mce" and math.isnan(value)
            method = NO_BIN if missing else NO_MEAN
            more = {"reason": NO_BIN} if missing else {}
            estimates[name] = Estimate(value, method=method, n=n, details={**details, **more})
        # Means of bounds, and for the other norms the same norm of them, by the triangle inequality.
        bounds = np.array([0.0 if event is None else event.bounds.get(name, 0.0) for event in events])
        held = bounds[~np.isnan(values)]
        bound = (
            math.nan if np.isnan(bounds).any() else binned.combine(held, norms.get(name, "l1")) if len(held) else 0.0
        )
        estimates[name] = replace(estimates[name], error_bound=bound)
    totals = np.array([table.total if len(table) else 0.0 for table in tables])
    per_class = with_intervals(binned.classwise_errors(found["ece"], totals, "l1"), whole.effective_n, resampling)
    estimates["classwise_ece"] = replace(estimates["ece"], details=_worst_class(per_class, names))
    rate = float(per_class.supports.sum() / totals.sum())
    return Report(
        _ordered(estimates, tables[0]),
        notion,
        n,
        len(tables),
        n_bins,
        rate,
        None,
        per_class,
        names,
        *(() if resampling is None else (resampling.level, resampling.n_resamples)),
    )


def _worst_class(result: ClasswiseCalibration, names: tuple[str, ...] | None) -> dict[str, Any]:
    worst = int(np.nanargmax(result.errors))
    return {
        "classes": len(result.errors),
        "without_targets": int(np.count_nonzero(result.supports == 0)),
        "worst_class": names[worst] if names else str(worst),
        "worst": float(result.errors[worst]),
    }
