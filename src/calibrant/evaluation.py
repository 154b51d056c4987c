"""`evaluate`: from predictions, a table or sketches to a report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np

from calibrant.errors import InputError, check_choice
from calibrant.estimators import binned
from calibrant.estimators.certified import Certified
from calibrant.inference.findings import DECIDING, Evidence
from calibrant.inputs import Notion, Predictions, as_groups, as_predictions
from calibrant.measures.classwise import worst_class
from calibrant.measures.context import Classes, Event, Inference
from calibrant.measures.ece import ECE
from calibrant.measures.estimates import estimate, flagged, over_classes
from calibrant.measures.histograms import ClassHistograms, table_histograms
from calibrant.measures.listed import chosen
from calibrant.measures.measure import STANDARD, Measure
from calibrant.notions import NOTIONS, PER_CLASS, class_events, read, read_squared, resolve
from calibrant.report import GroupReport, Report
from calibrant.results import Estimate
from calibrant.sampling.classwise import ClassBins, with_intervals
from calibrant.sampling.groups import LEAST_GROUP, finest_p_value, holm
from calibrant.sampling.means import PredictionMeans, flag_of, rarer_rows
from calibrant.sampling.resampling import Resampling, Rng
from calibrant.sketch import CalibrationSketch, check_alone
from calibrant.table import ReliabilityTable
from calibrant.weights import effective_rows, integer_weights

_HOLDS: Final = {ReliabilityTable: "the table", CalibrationSketch: "the sketch"}


@dataclass(frozen=True, eq=False, kw_only=True)
class Settings:
    """The settings of a report.

    Attributes
    ----------
    n_bins : int
        The number of bins of the binned measures.
    measures : tuple of Measure
        The measures shown.
    profile : str or None
        The profile that names the measures; None for a list.
    resampling : Resampling or None
        The level and the replicates; None for values alone.
    classwise : bool
        Whether every class is judged in addition to the top label.
    """

    n_bins: int
    measures: tuple[Measure, ...] = field(default_factory=chosen)
    profile: str | None = STANDARD
    resampling: Resampling | None = None
    classwise: bool = True

    @property
    def computed(self) -> list[Measure]:
        """The measures shown, and those that findings are made from."""
        return [*self.measures, *(measure for measure in DECIDING if measure not in self.measures)]


class Reported(NamedTuple):
    """A report, and the estimates that its findings are made from, whichever measures it shows."""

    report: Report
    deciding: Mapping[str, Estimate]


@dataclass(frozen=True, eq=False, kw_only=True)
class Judged:
    """The data that a report is computed from.

    Attributes
    ----------
    notion : str
        The judged event.
    means : PredictionMeans
        The means over whole predictions.
    tables : sequence of ReliabilityTable
        The table of the judged event; or one table for each class, if every class is judged by itself.
    n_classes : int or None
        The number of classes or labels; None for one event.
    names : tuple of str or None
        The names of the classes.
    histograms : ClassHistograms or None
        The bins of every class, if classes are judged in addition to the event.
    class_bound : float
        The certified error of the mean of the classes' errors.
    """

    notion: Notion
    means: PredictionMeans
    tables: Sequence[ReliabilityTable]
    n_classes: int | None = None
    names: tuple[str, ...] | None = None
    histograms: ClassHistograms | None = None
    class_bound: float = 0.0

    def report(self, settings: Settings) -> Reported:
        """Return the report, and the estimates that decide."""
        return _class_report(self, settings) if self.notion in PER_CLASS else _event_report(self, settings)


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
    measures: str | Sequence[str | Measure] = STANDARD,
    groups: Any = None,
    level: float | None = 0.95,
    n_resamples: int = 1000,
    rng: Rng = 0,
) -> Report:
    """Evaluate how far predicted probabilities can be trusted: every measure from one read of the data.

    The report has the `Estimate` of each measure, with its confidence interval, its noise floor (what perfectly
    calibrated scores would show at this number of rows) and its p-value under calibration. The documentation has a
    table of all measures, `calibrant.measures.MEASURES`. By default these are shown:

    - ``accuracy``, ``brier``, ``nll``: means over whole predictions (for a table, over its event),
    - ``mean_confidence``: the mean score of the judged event; ``mean_gap``: the mean score minus the outcome rate,
    - ``ece``, ``rmsce``, ``mce`` (uniform bins; the maximum over bins with 30 rows), ``ace`` (quantile bins),
      ``debiased_square`` (the unbiased square of rmsce), ``smece`` (exact), ``ks``: of the judged event,
    - ``classwise_ece``: the mean of the classes' errors,
    - ``miscalibration``, ``discrimination``, ``uncertainty``: the CORP decomposition of the event's Brier score.

    With a classwise or multilabel notion, each measure of an event is combined over classes: for rmsce by the root mean
    square, for mce by the maximum, for the others by the mean. ``details["per_class"]`` has the value of each class.
    Then only the ECE and the ACE have an interval. A value that these data do not have is NaN; ``method`` says why.

    Parameters
    ----------
    probs, targets, notion, weights, ignore_index, logits
        As in `expected_calibration_error`. ``probs`` may also be a `CalibrationSketch`, a mapping from the name of each
        group to its sketch, or a `ReliabilityTable`; these come without targets. The groups of a sketch are reported
        on. A table is of the event "positive", or with ``notion="top-label"`` of right answers.
    n_bins : int, default 15
        The number of bins of ECE, RMSCE, MCE, ACE and the classwise error.
    class_names : sequence of str, optional
        The names of the classes, in the order of the columns. Targets that are strings are matched to them.
    classwise : bool, default True
        Whether each class is judged as well, in the same read.
    measures : str or list, default "standard"
        The measures of the report: the name of a profile, or a list of keys and `calibrant.measures.Measure` objects,
        shown in this order. The verdict does not depend on this choice.
    groups : array, (N,), optional
        The name of each row's group. Every group gets a `GroupReport`. A group is called out only if its ECE is beyond
        noise after Holm's correction for the number of groups.
    level : float or None, default 0.95
        The confidence of the intervals. None gives values alone, in a fraction of the time.
    n_resamples : int, default 1000
        The number of replicates behind noise floors and p-values. With 0 they come from closed forms; what has no
        closed form is then missing.
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
    Cost: one read of the N x C numbers, one sort of N integers; memory below 96 bytes a row on top of the input. With
    ``level`` also the resampling of at most 4,396 cells: about a second for 1,000 resamples, at any N.

    Intervals are valid near zero too, where a bootstrap is not: a lower end is 0 unless the measure's own test of
    calibration rejects. ``method`` and the documentation say how each interval is computed.

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
    settings = Settings(
        n_bins=n_bins,
        measures=chosen(measures),
        profile=measures if isinstance(measures, str) else None,
        resampling=None if level is None else Resampling.of(level, n_resamples, rng),
        classwise=classwise,
    )
    others = {"weights": weights, "ignore_index": ignore_index, "class_names": class_names}
    ready = _ready(probs, {"targets": targets, **others, "logits": logits or None, "groups": groups}, notion, settings)
    if ready is None:
        if targets is None:
            remedy = "pass the labels; only a ReliabilityTable or a CalibrationSketch needs none"
            raise InputError("targets", "an array", "None", remedy)
        predictions = as_predictions(probs, targets, **others, logits=logits, notion=notion)
        ready = _of_predictions(predictions, resolve(predictions, notion), groups, settings)
    judged, judged_groups = ready
    report = judged.report(settings).report
    return replace(report, groups=_tested(judged_groups, settings)) if judged_groups else report


# ---------------------------------------------------------------- what is judged

_Ready = tuple[Judged, Mapping[str, Judged]]


def _ready(probs: Any, others: Mapping[str, Any], notion: Notion | None, settings: Settings) -> _Ready | None:
    """Return the data of a table, a sketch or sketches of groups; None for predictions."""
    if isinstance(probs, Mapping) and any(isinstance(value, CalibrationSketch) for value in probs.values()):
        probs = CalibrationSketch.of_groups(probs)
    if not isinstance(probs, (ReliabilityTable, CalibrationSketch)):
        return None
    for name, value in others.items():
        if value is not None:
            expected = f"nothing next to a {type(probs).__name__}"
            raise InputError(name, expected, "a value", f"leave it out: {_HOLDS[type(probs)]} holds all data")
    if isinstance(probs, ReliabilityTable):
        return _of_table(probs, notion), {}
    check_alone(probs, notion)
    groups = {name: _of_sketch(group, settings) for name, group in probs.groups.items()}
    return _of_sketch(probs, settings), groups


def _of_table(table: ReliabilityTable, notion: Notion | None) -> Judged:
    if notion is not None:
        check_choice("notion", notion, NOTIONS)
    if notion in PER_CLASS:
        raise InputError("notion", "'positive' or 'top-label' for a table", repr(notion), "a table is of one event")
    if len(table) == 0:
        raise InputError("probs", "a table with at least one row", "an empty table", "check where the rows were lost")
    means = PredictionMeans.of_table(table, right=notion == "top-label")
    return Judged(notion=notion or "positive", means=means, tables=[table])


def _of_sketch(sketch: CalibrationSketch, settings: Settings) -> Judged:
    means, notion = PredictionMeans.of_sketch(sketch), sketch.notion or "positive"
    judged = Judged(notion=notion, means=means, tables=(), n_classes=sketch.n_classes, names=sketch.class_names)
    if notion in PER_CLASS:
        return replace(judged, tables=sketch.class_tables)
    if not (settings.classwise and sketch.has_classes):
        return replace(judged, tables=[sketch.table])
    tables, n_bins = sketch.class_tables, settings.n_bins
    bounds = [certified.ece(n_bins) for certified in map(Certified.of, tables) if certified is not None]
    histograms = replace(table_histograms(tables, n_bins), totals=sketch.table.total)
    return replace(judged, tables=[sketch.table], histograms=histograms, class_bound=float(np.mean(bounds)))


def _of_predictions(predictions: Predictions, notion: Notion, groups: Any, settings: Settings) -> _Ready:
    everything = _of_rows(predictions, notion, settings)  # first, so that errors name the caller's rows
    parts = [] if groups is None else as_groups(groups, predictions)
    return everything, {name: _of_rows(predictions.take(places), notion, settings) for name, places in parts}


def _of_rows(predictions: Predictions, notion: Notion, settings: Settings) -> Judged:
    layout, uppers = predictions.layout, None
    if layout == "multiclass" and settings.classwise and notion != "classwise":
        uppers = binned.largest_members(binned.uniform_edges(settings.n_bins), "right", predictions.rows.dtype)
    reading = read(predictions, notion, uppers=uppers)
    n, weights = reading.n, reading.events.weights
    if layout == "multilabel":  # the means are over labels, but only rows are independent
        rows = predictions.judged
        n, weights = int(np.count_nonzero(rows)), None if predictions.weights is None else predictions.weights[rows]
    squared = None if integer_weights(weights) else read_squared(predictions, notion, uppers=uppers)
    judged = Judged(
        notion=notion,
        means=PredictionMeans.of_scores(
            reading.means,
            (squared or reading).means,
            effective_n=effective_rows(weights, n),
            n=n,
            event=layout == "binary",
        ),
        tables=(),
        n_classes=None if layout == "binary" else predictions.n_classes,
        names=predictions.class_names,
    )
    if notion in PER_CLASS:
        return replace(judged, tables=[ReliabilityTable.pool(events) for events, _ in class_events(predictions)])
    histograms = None
    if uppers is not None:
        squares = None if squared is None else squared.histograms
        histograms = ClassHistograms(sums=reading.histograms, totals=reading.total, squares=squares)
    return replace(judged, tables=[ReliabilityTable.pool(reading.events)], histograms=histograms)


# ---------------------------------------------------------------- the report


def _event_report(judged: Judged, settings: Settings) -> Reported:
    """Return the report on one judged event."""
    (table,), resampling = judged.tables, settings.resampling
    event = Event(
        table=table,
        n_bins=settings.n_bins,
        means=judged.means,
        classes=_classes(judged, table.total, resampling),
        no_classes="one event is judged, no classes" if judged.n_classes is None else "not asked for (classwise=False)",
    )
    inference = None if resampling is None else Inference.of(event, resampling, settings.computed)
    flags: dict[str, Any] = dict(table.provenance)
    if inference is not None and flag_of(inference.cells):
        flags["flag"] = flag_of(inference.cells)
    estimates = {measure: flagged(estimate(measure, event, inference), flags) for measure in settings.computed}
    evidence = Evidence(
        estimates={measure.name: estimates[measure] for measure in DECIDING},
        notion=judged.notion,
        n=table.n,
        outcome_rate=event.outcome_rate,
        diagram=event.diagram() if inference is None else inference.diagram(),
        level=None if resampling is None else resampling.level,
        rarer=math.inf if inference is None else rarer_rows(inference.cells),
    )
    return _report(
        judged,
        settings,
        estimates,
        evidence,
        classwise=None if event.classes is None else event.classes.errors,
        curves={} if inference is None else inference.curves(),
    )


def _class_report(judged: Judged, settings: Settings) -> Reported:
    """Return the report on every class by itself: each measure combined over classes."""
    tables, means, resampling = judged.tables, judged.means, settings.resampling
    events = [Event(table=table, n_bins=settings.n_bins) if len(table) else None for table in tables]
    some = next(event for event in events if event is not None)
    histograms = table_histograms(tables, settings.n_bins)
    classes = _classes(replace(judged, histograms=histograms), histograms.totals, resampling)
    # Measures of whole predictions use the means alone, so any class's table can stand in for the event's.
    event = Event(table=some.table, n_bins=settings.n_bins, means=means, classes=classes)
    inference = None if resampling is None else Inference.of(event, resampling, ())
    dependent, estimates = judged.notion == "multilabel", {}
    for measure in settings.computed:
        if measure.judges == "predictions":
            estimates[measure] = estimate(measure, event, inference)
        else:
            source = ECE if measure.judges == "classes" else measure
            combined = over_classes(source, events, means.n, means.effective_n, resampling, dependent=dependent)
            estimates[measure] = combined
            if measure.judges == "classes" and classes is not None:
                estimates[measure] = replace(combined, details=worst_class(classes))
    estimates = {measure: flagged(one, tables[0].provenance) for measure, one in estimates.items()}
    supports = histograms.sums[2].sum()
    evidence = Evidence(
        estimates={measure.name: estimates[measure] for measure in DECIDING},
        notion=judged.notion,
        n=means.n,
        outcome_rate=float(supports / np.sum(histograms.totals)),
        diagram=None,
        level=None if resampling is None else resampling.level,
        rarer=math.inf,
    )
    return _report(judged, settings, estimates, evidence, classwise=None if classes is None else classes.errors)


def _classes(judged: Judged, total: Any, resampling: Resampling | None) -> Classes | None:
    """Return every class by itself, if classes are judged."""
    if judged.histograms is None:
        return None
    histograms = replace(judged.histograms, totals=total)
    return Classes(
        errors=with_intervals(histograms.errors("l1"), histograms.squares, resampling),
        bins=ClassBins(histograms=histograms.sums, squares=histograms.squares, effective_n=judged.means.effective_n),
        names=judged.names,
        bound=judged.class_bound,
    )


def _report(
    judged: Judged,
    settings: Settings,
    estimates: Mapping[Measure, Estimate],
    evidence: Evidence,
    **parts: Any,
) -> Reported:
    resampling = settings.resampling
    report = Report(
        estimates={measure.name: estimates[measure] for measure in settings.measures},
        descriptions={measure.name: measure.description for measure in settings.measures},
        profile=settings.profile,
        findings=evidence.findings(),
        notion=judged.notion,
        n=evidence.n,
        n_classes=judged.n_classes,
        n_bins=settings.n_bins,
        outcome_rate=evidence.outcome_rate,
        diagram=evidence.diagram,
        class_names=judged.names,
        level=evidence.level,
        n_resamples=0 if resampling is None else resampling.n_resamples,
        **parts,
    )
    return Reported(report, evidence.estimates)


def _tested(groups: Mapping[str, Judged], settings: Settings) -> tuple[GroupReport, ...]:
    """Return the reports on groups, with the tests that say which stand out."""
    reports = {name: judged.report(settings) for name, judged in groups.items()}
    reason = f"fewer than {LEAST_GROUP} rows: too few to say anything"
    few = {name: reason for name, (report, _) in reports.items() if report.n < LEAST_GROUP}
    resampling = settings.resampling
    tested = [name for name in reports if resampling is not None and name not in few]
    p_values = {name: finest_p_value(reports[name].deciding["ece"]) for name in tested}
    adjusted = dict(zip(p_values, holm(list(p_values.values())), strict=True))
    return tuple(
        GroupReport(
            name=name,
            report=report,
            ece=deciding["ece"],
            mean_gap=deciding["mean_gap"],
            p_value=p_values.get(name, math.nan),
            adjusted_p_value=adjusted.get(name, math.nan),
            called_out=resampling is not None and adjusted.get(name, 1.0) <= 1 - resampling.level,
            flag=few.get(name, ""),
        )
        for name, (report, deciding) in reports.items()
    )
