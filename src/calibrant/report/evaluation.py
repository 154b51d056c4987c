"""`evaluate`: a report from predictions, a table or sketches, on one event or on every class, with its groups."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple, overload

import numpy as np

from calibrant.errors import InputError, check_choice
from calibrant.inference.decision import check_tolerance, decide, one_sided
from calibrant.inference.findings import DECIDING, DOUBTS, Evidence
from calibrant.inference.multicalibration import Sums, multicalibration_of_sums
from calibrant.inputs.decision_log import DecisionLog, Question, check_no_other
from calibrant.inputs.group_rows import in_order
from calibrant.inputs.notions import PER_CLASS, impossible_classes
from calibrant.inputs.predictions import Notion
from calibrant.inputs.weights import WeightsAre
from calibrant.kernels.compiling import of_input
from calibrant.measures.binned import binned
from calibrant.measures.binned.classwise import worst_class
from calibrant.measures.binned.cluster_bins import uniform_sums
from calibrant.measures.binned.diagram import diagram_of, inferred_diagram, uniform_rates
from calibrant.measures.binned.ece import ECE
from calibrant.measures.calibration_curves import curves_of, shown_fits
from calibrant.measures.context import Inference, Statistic
from calibrant.measures.decisions.decision_curve import decision_curve_of, murphy_curve_of
from calibrant.measures.estimates import (
    ClassBins,
    ClassEvents,
    ClusterClassBins,
    estimate,
    inferred,
    inferred_by_cluster,
)
from calibrant.measures.event import Classes, Event
from calibrant.measures.line.line import falls, line_of, without_ends
from calibrant.measures.listed import BY_NAME, of_profile, selected
from calibrant.measures.means.in_the_large import MEAN_GAP, is_balanced
from calibrant.measures.means.means import gap_variance
from calibrant.measures.measure import Measure, descriptions_of
from calibrant.measures.profiles import STANDARD, Profile
from calibrant.measures.ranking.auroc import roc_curve
from calibrant.measures.read_arguments import ClassHistograms
from calibrant.measures.verdict import calibration_test, verdict_statistic
from calibrant.report.evaluated_data import MOST_CLASSES, EvaluatedData, are_evaluated, data_of_levels, of_arguments
from calibrant.report.forests import comparable, forest_of, joined
from calibrant.report.question_reports import QuestionReport, QuestionReports
from calibrant.report.report import GroupReport, Report
from calibrant.results import BANDS, Bands, CalibrationCurve, Estimate
from calibrant.results.values import Forest, Panel
from calibrant.runtime.arrays import ArrayLike
from calibrant.runtime.cached import Late, LazyMapping, cached_property
from calibrant.runtime.dataclass import dataclass
from calibrant.runtime.progress import counted
from calibrant.sketch import PredictedGroups
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import LONE, UNKNOWN, Clustered, Sample, details_of
from calibrant.statistics.group_tests import (
    LEAST_GROUP,
    ONE_CLUSTER,
    SMALL_GROUP,
    GroupTest,
    holm,
)
from calibrant.statistics.resampling import Resampling, Rng, alpha_of

_NO_LAW: Final = "too few events are expected for a test without simulated data sets: pass n_resamples=1000"


@overload
def evaluate(
    probs: DecisionLog,
    *,
    n_bins: int = 15,
    classwise: bool | None = None,
    profile: str | None = None,
    measures: str | Sequence[str | Measure] | None = None,
    level: float | None = 0.95,
    n_resamples: int = 1000,
    rng: Rng = 0,
    tolerance: float | None = None,
    tolerance_of: str = ECE.name,
) -> QuestionReports: ...


@overload
def evaluate(
    probs: PredictedGroups,
    targets: ArrayLike | None = None,
    *,
    notion: Notion | None = None,
    n_bins: int = 15,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
    class_names: Sequence[str] | None = None,
    classwise: bool | None = None,
    profile: str | None = None,
    measures: str | Sequence[str | Measure] | None = None,
    groups: ArrayLike | Mapping[str, Any] | None = None,
    clusters: ArrayLike | None = None,
    weights_are: WeightsAre | None = None,
    level: float | None = 0.95,
    n_resamples: int = 1000,
    rng: Rng = 0,
    bands: Bands = "pointwise",
    tolerance: float | None = None,
    tolerance_of: str = ECE.name,
    ordered: bool = False,
) -> Report: ...


def evaluate(
    probs: PredictedGroups | DecisionLog,
    targets: ArrayLike | None = None,
    *,
    notion: Notion | None = None,
    n_bins: int = 15,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
    class_names: Sequence[str] | None = None,
    classwise: bool | None = None,
    profile: str | None = None,
    measures: str | Sequence[str | Measure] | None = None,
    groups: ArrayLike | Mapping[str, Any] | None = None,
    clusters: ArrayLike | None = None,
    weights_are: WeightsAre | None = None,
    level: float | None = 0.95,
    n_resamples: int = 1000,
    rng: Rng = 0,
    bands: Bands = "pointwise",
    tolerance: float | None = None,
    tolerance_of: str = ECE.name,
    ordered: bool = False,
) -> Report | QuestionReports:
    """Evaluate how far predicted probabilities can be trusted: every measure from one read of the data.

    The report has the `Estimate` of each measure, with its confidence interval, its noise floor (what perfectly
    calibrated scores would show at this number of rows) and its p-value under calibration. The documentation has a
    table of all measures, `calibrant.measures.MEASURES`. By default these are shown:

    - ``accuracy``, ``brier``, ``nll``: means over whole predictions (for a table, over its event); ``brier_skill``: how
      much better the Brier score is than that of always predicting the base rates,
    - ``brier_event``: the Brier score of the evaluated event; for scores of one event it equals ``brier``,
    - ``mean_confidence``: the mean score of the evaluated event; ``mean_gap``: the mean score minus the observed
      frequency; ``oe_ratio``, ``calibration_slope``,
    - ``ece``, ``rmsce``, ``mce`` (uniform bins; the maximum over bins with 30 rows), ``ace`` (quantile bins),
      ``debiased_square`` (the unbiased square of rmsce), ``smece`` (exact), ``ks``: of the evaluated event,
    - ``classwise_ece``: the mean of the classes' errors,
    - ``miscalibration``, ``discrimination``, ``uncertainty``: the CORP decomposition of the event's Brier score.

    With a classwise or multilabel notion, each measure of an event is combined over classes: for rmsce by the root mean
    square, for mce by the maximum, for the others by the mean. ``details["per_class"]`` has the value of each class.
    Of these, only the ECE, ACE and classwise ECE have an interval. A value that these data do not have is NaN;
    ``method`` says why.

    Parameters
    ----------
    probs, targets, notion, weights, ignore_index, logits
        As in `expected_calibration_error`. ``probs`` may also be a `CalibrationSketch`, a mapping from the name of each
        group to its sketch, or a `ReliabilityTable`; these come without targets. So does a `DecisionLog`: every
        question gets a report of its own, and only the arguments about reports may then be passed. Two columns are
        evaluated by the predicted class, as more columns are; scikit-learn's scorers and displays evaluate the event of
        the second class, which is ``probs[:, 1]`` here. The first line of the report names both. The groups of a sketch
        are reported on. A table is of the event "positive", or with ``notion="top-label"`` of right answers. Ten or
        more logits of one event that all lie in [0, 1] cause a warning, because they may be probabilities.
    n_bins : int, default 15
        The number of bins of ECE, RMSCE, MCE, ACE and the classwise error.
    class_names : sequence of str, optional
        The names of the classes, in the order of the columns. Targets that are strings are matched to them.
    classwise : bool, optional
        Whether each class is evaluated as well, in the same read; by default up to 10,000 classes are. Each costs about
        0.1 ms.
    profile : {"standard", "clinical", "forecast", "all"}, default "standard"
        Whom the report serves: it sets the measures and the pictures. "clinical" is the validation of a risk model,
        "forecast" the verification of forecasts, "all" has every measure.
    measures : str or list, optional
        The measures instead of the profile's: a list of keys and `calibrant.measures.Measure` objects, shown in this
        order; or the name of a profile. The verdict does not depend on this choice. Measures that are not shown
        are computed only if the verdict needs them.
    groups : array, (N,), optional
        The name of each row's group, at most 10,000 different ones. Every group gets a `GroupReport`. A group is called
        out only if its test rejects calibration after Holm's correction for the number of groups. Groups named by
        numbers, dates, ordered categories, intervals and periods keep their order. Other groups are sorted by their
        p-values, the smallest first, and then by their ECE, the largest first (in a mapping, by name). All other
        measures of a group are computed when its ``report`` is first looked at. A mapping from the names of several
        columns to such arrays makes marginal subgroups: each value of each column is a group, such as "sex: F" and
        "ward: 3", and a row is in one group per column. Holm's correction is for all of them, which is valid
        although they depend on each other. Differences between groups are tested within each column. If ``probs`` is a
        sketch, the mapping has for each column a mapping from the name of each group to its sketch.
    clusters : array, (N,), or False, optional
        The label of each row's cluster, whole numbers or text: rows of one patient, question or user are not
        independent. Every interval, floor, p-value and band is then for independent clusters, with any dependence
        inside them. A cluster of ten rows counts ten times. With several nested levels pass the outermost. Without it
        rows are taken as independent; of predictions (N, C, ...) the first axis is the cluster unless it is False.
    weights_are : {"frequency", "sampling"}, optional
        What the weights are. With "frequency" a row of weight 2 is two rows; the weights are then whole numbers.
        Sampling weights of a survey say how many people a row stands for: it remains one row, and variances are those
        of weighted means. By default whole weights are frequencies, and others are sampling weights. A report on whole
        weights that differ and add up to more than twice the rows has a caution, unless this is passed. For a sketch,
        whose weights were used when it was made, "frequency" only leaves this caution out.
    level : float or None, default 0.95
        The confidence of the intervals. None gives values alone, in a fraction of the time.
    n_resamples : int, default 1000
        The number of simulated data sets behind noise floors and p-values. With 0 they come from closed forms; what has
        no closed form is then missing.
    rng : int or numpy.random.Generator, default 0
        The seed of the simulated data sets. The numbers do not depend on the number of threads.
    bands : {"pointwise", "simultaneous"}, default "pointwise"
        Where the confidence band of the isotonic curve holds: at each score alone, or at all scores at once
        (Dimitriadis et al. 2023, doi 10.1093/biomet/asac068). The latter needs rows that are independent, and that the
        true rate never falls with the score. Not with clusters, weights that are not whole numbers, ``level=None``, or
        a classwise or multilabel notion.
    tolerance : float, optional
        The largest error that is harmless, such as 0.02. The report then has a `Decision`: whether the error is below
        it, beyond doubt, and if not, how many rows would tell.
    tolerance_of : {"ece", "smece", "rmsce", "mean_gap"}, default "ece"
        The error that the tolerance is about. A classwise or multilabel notion takes only "ece".
    ordered : bool, default False
        Whether the classes are levels in the order of the columns, from the lowest to the highest. The report then also
        has ``rps``, the ranked probability score, and ``within_one``, the share of rows whose most probable level is at
        most one level from the right one, unless ``measures`` is a list. ``report.at_least`` has the calibration of
        each event "the level is at least k", for all levels k but the lowest: its score is the sum of the probabilities
        from k on, divided by the sum of the row. The p-values of these events are adjusted by Holm's method for their
        number. Only for rows of exclusive classes (N, C), not for a sketch or a table; tensors on a device are copied
        to the host.

    Returns
    -------
    Report, or QuestionReports for a DecisionLog
        A mapping from the name of each measure to its `Estimate`; or from the name of each question to its `Report`.

    Raises
    ------
    calibrant.errors.InputError
        As `expected_calibration_error`, and for options that do not fit the data.

    Notes
    -----
    Cost: one read of the N x C numbers, one sort of N integers; about 96 bytes a row on top of the input. With
    ``level`` also the resampling of at most 4,396 cells: about a second for 1,000 resamples, at any N.

    Intervals of calibration errors are valid near zero too, where a bootstrap is not: a lower end is 0 unless the
    measure's own test of calibration rejects. ``method`` and the documentation say how each interval is computed.

    Examples
    --------
    >>> import calibrant
    >>> report = calibrant.evaluate([0.25, 0.25, 0.55, 0.75, 0.75], [0, 0, 1, 1, 1], n_bins=2)
    >>> round(report["ece"].value, 4), report["mce"].method
    (0.29, 'not available: no bin has 30 rows')
    >>> report["classwise_ece"].method
    'not available: only one event is evaluated, not classes'
    >>> probs, targets = [0.2] * 50 + [0.8] * 50, [1] * 12 + [0] * 38 + [1] * 39 + [0] * 11
    >>> ece = calibrant.evaluate(probs, targets)["ece"]
    >>> round(ece.value, 3), ece.low, round(ece.high, 2), round(ece.floor.mean, 2), ece.p_value > 0.5
    (0.03, 0.0, 0.11, 0.05, True)
    """
    binned.check_bins(n_bins)
    check_choice("bands", bands, BANDS)
    check_tolerance(tolerance, tolerance_of)
    if bands != "pointwise" and level is None:
        raise InputError("bands", "'pointwise' without intervals (level=None)", repr(bands), "pass level=0.95")
    settings = ReportSettings(
        n_bins=n_bins,
        **selected(measures, profile)._asdict(),
        resampling=None if level is None else Resampling.of(level, n_resamples, rng, bands=bands),
        classwise=classwise,
        tolerance=tolerance,
        tolerance_of=BY_NAME[tolerance_of],
    )
    if isinstance(probs, DecisionLog):
        rows: dict[str, Any] = {"targets": targets, "notion": notion, "weights": weights, "ignore_index": ignore_index}
        rows |= {"logits": logits or None, "class_names": class_names, "groups": groups, "clusters": clusters}
        check_no_other(**rows, weights_are=weights_are, ordered=ordered or None)
        return report_on_questions(probs, settings)
    data = of_arguments(
        probs,
        targets,
        notion=notion,
        weights=weights,
        ignore_index=ignore_index,
        logits=logits,
        class_names=class_names,
        groups=None if isinstance(groups, Mapping) else groups,
        clusters=clusters,
        weights_are=weights_are,
        n_bins=n_bins,
        classwise=classwise,
        ordered=ordered,
        subgroups=groups if isinstance(groups, Mapping) else None,
    )
    if bands != "pointwise":
        _check_bands(bands, data)
    if tolerance is not None and data.notion in PER_CLASS and tolerance_of != ECE.name:
        raise InputError("tolerance_of", "'ece' if every class is evaluated", repr(tolerance_of), "leave it out")
    return report_with_groups(data, settings)


def _check_bands(bands: Bands, data: EvaluatedData) -> None:
    """Reject simultaneous bands of data that have none."""
    remedy = "leave bands out; pointwise bands are the default"
    if data.notion in PER_CLASS:
        raise InputError(
            "bands", "'pointwise' if every class is evaluated", repr(bands), "evaluate one class at a time"
        )
    if data.clusters is not None:
        expected = "'pointwise' for rows in clusters, because the simultaneous band needs independent rows"
        raise InputError("bands", expected, repr(bands), remedy)
    if not data.tables[0].whole:
        reason = "because the simultaneous band needs weights that count rows"
        expected = f"'pointwise' for sampling weights, {reason}"
        raise InputError("bands", expected, repr(bands), remedy)


# ---------------------------------------------------------------- a report


@dataclass(frozen=True, eq=False, kw_only=True)
class ReportSettings:
    """The settings of a report.

    Attributes
    ----------
    n_bins : int
        The number of bins of the binned measures.
    measures : tuple of Measure
        The measures shown.
    profile : Profile
        What the report shows in addition to its measures.
    listed : bool
        Whether the caller listed the measures, instead of taking those of the profile.
    resampling : Resampling or None
        The level and the simulated data sets; None for values alone.
    classwise : bool or None
        Whether every class is evaluated in addition to the top label; None for up to `evaluated_data.MOST_CLASSES`.
    tolerance : float or None
        The largest error that is tolerated, for a decision; None for none.
    tolerance_of : Measure
        The error that the tolerance is about.
    of_group : bool
        Whether the report is one of many, about a group.
    tests_alone : bool
        Whether only what tells groups apart is computed: the ECE, the mean difference, the test, the diagram.
    """

    n_bins: int
    measures: tuple[Measure, ...] = field(default_factory=partial(of_profile, STANDARD))
    profile: Profile = STANDARD
    listed: bool = False
    resampling: Resampling | None = None
    classwise: bool | None = True
    tolerance: float | None = None
    tolerance_of: Measure = ECE
    of_group: bool = False
    tests_alone: bool = False

    @property
    def computed(self) -> list[Measure]:
        """The measures shown, those that findings are made from, and that of a tolerance."""
        if self.tests_alone:
            return [ECE, MEAN_GAP]
        others = (*DECIDING, *(() if self.tolerance is None else (self.tolerance_of,)))
        return list(dict.fromkeys((*self.measures, *others)))

    def of_levels(self, data: EvaluatedData) -> ReportSettings:
        """Return the same with the measures of ordered levels next to the profile's, for such data."""
        if self.listed or data.means.ordered is None:
            return self
        return replace(self, measures=of_profile(self.profile, ordered=True))


class Reported(NamedTuple):
    """A report, the estimates that its findings are made from, whichever measures it shows, and its test."""

    report: Report
    deciding: Mapping[str, Estimate]
    tested: GroupTest | None


def report_on(data: EvaluatedData, settings: ReportSettings) -> Reported:
    """Return the report on all rows of the data, without groups."""
    settings = settings.of_levels(data)
    with of_input(data.numbers):
        events = _events(data, settings)
        estimates = _estimates(data, settings.computed, events)
        evidence, tested = _evidence(data, settings, events, estimates)
        whole, inference, resampling = events.whole, events.inference, settings.resampling
        panels: Mapping[str, Panel] = {}
        curves: Mapping[str, CalibrationCurve] = {}
        if events.classes is None and not settings.tests_alone:
            panels = LazyMapping(partial(_panels, whole, settings.profile, evidence.level))
            if inference is not None and not settings.of_group:
                curves = curves_of(inference, settings.profile.curves)
            elif inference is not None:  # many groups keep the data alone, and draw again when curves are looked at
                curves = LazyMapping(lambda: report_on(data, replace(settings, of_group=False)).report.curves)
        at_least: Mapping[str, GroupReport] = {}
        if data.means.ordered is not None and not settings.tests_alone:
            at_least = LazyMapping(partial(_at_least, data, settings))
        report = Report(
            estimates={measure.name: estimates[measure] for measure in settings.measures if measure in estimates},
            descriptions=descriptions_of(settings.measures, of_event=data.notion == "positive" and not data.n_classes),
            profile=settings.profile.name,
            listed=settings.listed,
            findings=tuple(evidence.doubts()) if settings.tests_alone else evidence.findings(),
            test=evidence.test,
            decision=evidence.decision,
            clusters=_cluster_facts(data, evidence),
            notion=data.notion,
            n=evidence.n,
            n_classes=data.n_classes,
            n_bins=settings.n_bins,
            outcome_rate=evidence.outcome_rate,
            diagram=evidence.diagram,
            class_names=data.names,
            level=evidence.level,
            n_resamples=0 if resampling is None else resampling.n_resamples,
            bands="pointwise" if resampling is None else resampling.bands,
            choices=data.choices if resampling is None else replace(data.choices, seed=resampling.number),
            classwise=None if whole.classes is None else whole.classes.errors,
            at_least=at_least,
            curves=curves,
            panels=panels,
        )
        return Reported(report, evidence.estimates, tested)


@dataclass(frozen=True, eq=False)
class ReportedEvents:
    """The events of a report: one event, or every class alone.

    Attributes
    ----------
    whole : Event
        The evaluated event with the means over predictions. If every class is evaluated alone, measures of predictions
        use the means, so that any table can stand in for theirs.
    classes : ClassEvents or None
        Every class alone, over which other measures are combined; None for one event.
    inference : Inference or None
        What is inferred from ``whole``; None without intervals.
    """

    whole: Event
    classes: ClassEvents | None
    inference: Inference | None

    @cached_property
    def sample(self) -> Sample:
        """What the results say about the rows behind them."""
        told = self.inference is not None and (self.classes is None or self.whole.clusters is not None)
        return self.whole.design.sample if told else UNKNOWN

    def estimate(self, measure: Measure, inference: Inference | None) -> Estimate:
        """Return the estimate of a measure, of the one event or combined over classes."""
        if self.classes is None or measure.judges == "predictions":
            return estimate(measure, self.whole, inference)
        of_class = ECE if measure.judges == "classes" else measure
        combined = self.classes.estimate(of_class, None if inference is None else inference.resampling)
        if measure.judges == "classes" and self.whole.classes is not None:
            combined = replace(combined, details=worst_class(self.whole.classes))
        return replace(combined, method=f"{combined.method}{self.sample.suffix}")


def _events(data: EvaluatedData, settings: ReportSettings) -> ReportedEvents:
    resampling, logits, classes = settings.resampling, bool(data.choices.logits), None
    table, histograms = data.tables[0], None if settings.tests_alone else data.histograms
    measures: Sequence[Measure] = settings.computed
    statistics: Sequence[Statistic] = (verdict_statistic,)
    if not settings.tests_alone:
        statistics = (verdict_statistic, uniform_rates, shown_fits)
    if data.notion in PER_CLASS:
        classes = ClassEvents(
            tables=data.tables,
            n_bins=settings.n_bins,
            n=data.means.n,
            effective_n=data.means.effective_n,
            dependent=data.notion == "multilabel",
            rows=data.clusters or data.class_rows,
            logits=logits,
        )
        table, histograms = data.event or classes.held[0].table, classes.histograms
        measures, statistics = (), ()
    clusters, no_classes = None, _why_no_classes(data, settings.classwise)
    if data.clusters is not None and (resampling is not None or not (classes or data.one_cluster)):
        clusters = Clustered.of(Cells.from_table(table), data.clusters.event)
    whole = Event(
        table=table,
        n_bins=settings.n_bins,
        means=data.means,
        classes=None if histograms is None else _classes(data, histograms, resampling),
        no_classes=no_classes,
        asked_classes=0 if no_classes else data.n_classes or 0,
        clusters=clusters,
        logits=logits,
    )
    inference = None
    if resampling is not None:
        inference = Inference(event=whole, resampling=resampling, measures=measures, statistics=statistics)
    return ReportedEvents(whole, classes, inference)


def _why_no_classes(data: EvaluatedData, classwise: bool | None) -> str:
    """Return why classes are not evaluated; empty if they are, or if only a sketch lacks them."""
    if data.n_classes is None:
        return "only one event is evaluated, not classes"
    if data.no_classes:
        return data.no_classes
    if classwise is False:
        return "classes were not requested (classwise=False)"
    if data.choices.data == "sketch" or are_evaluated(classwise, data.n_classes):
        return ""
    return f"more than {MOST_CLASSES:,} classes are evaluated only on request (classwise=True, --classwise)"


def _classes(data: EvaluatedData, histograms: ClassHistograms, resampling: Resampling | None) -> Classes:
    """Return the error and the test of each class, from the bins of all."""
    bins = ClassBins(
        histograms=histograms.sums,
        squares=histograms.squares,
        effective_n=data.means.effective_n,
        rows=data.class_rows,
    )
    # Which classes have an outcome that their scores exclude: the log loss is infinite, or a score of 1 is wrong.
    refuted = np.zeros(data.n_classes or 0, np.bool_)
    tables = data.tables if data.notion in PER_CLASS else data.class_tables
    if not data.choices.logits and len(tables):
        refuted = np.array([table.impossible > 0 for table in tables])
    seen = data.means.infinite or (data.event is not None and data.event.impossible)
    if not data.choices.logits and not len(tables) and data.predictions is not None and seen:
        refuted = impossible_classes(data.predictions)
    errors = histograms.errors("l1")
    if data.clusters is None:
        errors = inferred(errors, histograms.squares, resampling, refuted)
    else:
        buckets = data.clusters.classes
        bins = ClusterClassBins(**vars(bins), buckets=buckets)
        errors = inferred_by_cluster(errors, data.class_tables, buckets, resampling)
    impossible = bool(refuted.any())
    return Classes(errors=errors, bins=bins, names=data.names, bound=data.class_bound, impossible=impossible)


def _estimates(data: EvaluatedData, measures: Sequence[Measure], events: ReportedEvents) -> dict[Measure, Estimate]:
    """Return the estimates of measures, with what else their details and methods say."""
    inference, sample, details = events.inference, events.sample, dict[str, Any](data.tables[0].provenance)
    if inference is not None:
        details |= {} if events.classes is None else sample.facts
    doubts = () if inference is None else (data.flag, sample.flag)
    estimates = {}
    for measure in measures:
        plain = events.estimate(measure, inference)
        caution = measure.caution(events.whole) if inference is not None and events.classes is None else {}
        method = plain.method + LONE if inference is not None and data.alone else plain.method
        own = caution.get("flag", "")
        flags = {"flag": "; ".join(filter(None, (own, *doubts))), "measure_flag": own}
        caution = {**caution, **{name: flag for name, flag in flags.items() if flag}}
        estimates[measure] = replace(plain, method=method, details={**plain.details, **details, **caution})
    return estimates


def _evidence(
    data: EvaluatedData, settings: ReportSettings, events: ReportedEvents, estimates: Mapping[Measure, Estimate]
) -> tuple[Evidence, GroupTest | None]:
    """Return what findings are made from, and the test of calibration, if there are intervals."""
    whole, classes, inference = events.whole, events.classes, events.inference
    evidence = Evidence(
        estimates={measure.name: estimates[measure] for measure in DECIDING if measure in estimates},
        notion=data.notion,
        n=data.means.n if classes else whole.table.n,
        outcome_rate=classes.outcome_rate if classes else whole.outcome_rate,
        counted=data.counted,
        diagram=None if classes else whole.of(diagram_of),
        largest_cluster=events.sample.facts.get("largest_cluster", 0.0),
        deciding=data.deciding,
        one_image=data.one_image,
    )
    if inference is None:
        return evidence, None
    tested = classes.tested(estimates[ECE], inference.resampling) if classes else calibration_test(inference)
    decision, sample = None, events.sample
    if settings.tolerance is not None:
        bounds = events.estimate(settings.tolerance_of, inference.at(one_sided(inference.level)))
        name = settings.tolerance_of.name
        decision = decide(name, settings.tolerance, bounds, inference.level, rarer=sample.rarer)
    impossible = classes.impossible if classes else whole.impossible
    evidence = replace(evidence, level=inference.level, test=tested.test, impossible=impossible, decision=decision)
    if classes:
        return evidence, tested
    gap = estimates[MEAN_GAP].value
    evidence = replace(
        evidence,
        diagram=inferred_diagram(inference, band=not settings.tests_alone),
        balanced=is_balanced(whole.design, gap),
        gap_p_value=gap_variance(whole.design).p_value(gap),
        rarer=sample.rarer,
        unit=sample.unit,
        of_event=sample.of_event,
    )
    if settings.tests_alone:
        return evidence, tested
    line = inference.of(line_of)
    ends = without_ends(whole.design.fine, line, inference.level)
    return replace(evidence, line=line, falls=falls(whole.of(uniform_sums)), ends=ends), tested


def _cluster_facts(data: EvaluatedData, evidence: Evidence) -> dict[str, Any] | None:
    """Return the number of clusters, the share of the largest, and the effective rows of the mean difference."""
    if data.alone:
        return {"clusters": evidence.n, "largest_cluster": 1 / evidence.n, "effective_rows": evidence.n}
    if data.clusters is None:
        return None
    details = evidence.estimates[MEAN_GAP.name].details
    return {**details_of(data.clusters.event), "effective_rows": details.get("effective_rows")}


_MAKERS: Final[Mapping[str, Callable[[Event, float | None], Panel | None]]] = {
    "decision_curve": decision_curve_of,
    "murphy_curve": lambda event, _: murphy_curve_of(event),
    "roc_curve": lambda event, _: roc_curve(event.table),
}


def _panels(event: Event, profile: Profile, level: float | None) -> dict[str, Panel]:
    """Return the further curves of a profile, without those that the data do not have; ``level`` is of intervals."""
    made = {name: _MAKERS[name](event, level) for name in profile.panels}
    return {name: panel for name, panel in made.items() if panel is not None}


# ---------------------------------------------------------------- groups

#: What all rows are called among marginal subgroups.
ALL_ROWS: Final = "all rows"
_NO_COLUMNS: Final[Mapping[str, str]] = MappingProxyType({})


def _event_sums(data: EvaluatedData) -> Sums:
    return data.tables[0], None if data.clusters is None else data.clusters.event


def report_with_groups(data: EvaluatedData, settings: ReportSettings) -> Report:
    """Return the report with those on groups: in the order of the groups, or those with the most evidence first."""
    reported = report_on(data, settings)
    if not data.groups:
        return reported.report
    tested = _tested(data.groups, replace(settings, of_group=True), data.columns)
    in_turn = _in_turn(data, tested)
    in_order_of_groups = {group.name: data.groups[group.name] for group in in_turn}
    made = partial(_marginal_forests, data.columns) if data.columns else partial(_forests, apart=_apart(data))
    forests = LazyMapping(partial(made, in_order_of_groups, settings))
    multicalibration = None
    if settings.resampling is not None and data.notion not in PER_CLASS:
        sums = {name: _event_sums(group) for name, group in data.groups.items()}
        multicalibration = multicalibration_of_sums(_event_sums(data), sums, settings.resampling)
    return replace(
        reported.report,
        groups=in_turn,
        all_rows=_all_rows(reported) if data.columns else None,
        forests=forests if settings.profile.by_group else {},
        multicalibration=multicalibration,
    )


def _in_turn(data: EvaluatedData, tested: tuple[GroupReport, ...]) -> tuple[GroupReport, ...]:
    """Return groups in the order of a report; of marginal subgroups those of one column after the other."""
    if not data.columns:
        return tested if data.ordered else in_order(tested, lambda group: group.evidence)
    parts: list[GroupReport] = []
    for column in dict.fromkeys(data.columns.values()):
        of_column = tuple(group for group in tested if group.column == column)
        if column not in data.ordered_columns:
            of_column = in_order(of_column, lambda group: group.label.casefold(), lambda group: group.label)
        parts += of_column
    return tuple(parts)


def _all_rows(reported: Reported) -> GroupReport:
    """Return all rows as a group, to compare marginal subgroups with; its p-value is not among those corrected."""
    report, deciding, _ = reported
    return GroupReport(
        name=ALL_ROWS,
        n=report.n,
        test=report.test,
        diagram=report.diagram,
        ece=deciding["ece"],
        mean_gap=deciding["mean_gap"],
        p_value=math.nan if report.test is None else report.test.p_value,
        adjusted_p_value=math.nan,
        called_out=False,
        flag="",
        whole=Late(lambda: report),
    )


def _at_least(data: EvaluatedData, settings: ReportSettings) -> dict[str, GroupReport]:
    """Return the reports on the events that the level is at least k, which are tested as groups are."""
    events = data_of_levels(data, settings.n_bins)
    measures, many = of_profile(settings.profile), settings.of_group or len(events) > _WHOLE
    own = replace(settings, measures=measures, listed=False, tolerance=None, of_group=many)
    return {tested.name: tested for tested in _tested(events, own)}


_WHOLE: Final = 12  # so few questions, or levels, keep what their curves are drawn from


def report_on_questions(log: DecisionLog, settings: ReportSettings) -> QuestionReports:
    """Return the reports on the questions of a log, which are tested as groups are."""
    data = {name: _data_of_question(question, settings) for name, question in log.items()}
    tested = {group.name: group for group in _tested(data, replace(settings, of_group=len(data) > _WHOLE))}
    return QuestionReports(
        questions={
            name: QuestionReport(question=question, tested=tested[name], accuracy=data[name].means.accuracy)
            for name, question in log.items()
        },
        log=log,
        level=None if settings.resampling is None else settings.resampling.level,
    )


def _data_of_question(question: Question, settings: ReportSettings) -> EvaluatedData:
    data = of_arguments(
        question.probs,
        question.targets,
        class_names=question.class_names,
        n_bins=settings.n_bins,
        classwise=settings.classwise if question.fixed else False,
        ordered=question.ordered,
    )
    return data if question.fixed else replace(data, no_classes="the options differ between rows")


def _tested(
    groups: Mapping[str, EvaluatedData], settings: ReportSettings, columns: Mapping[str, str] = _NO_COLUMNS
) -> tuple[GroupReport, ...]:
    """Return the reports on groups, with the tests that say which stand out, and the columns of marginal subgroups."""
    lone = {name for name, data in groups.items() if data.one_cluster}
    settings_of = {name: replace(settings, resampling=None) if name in lone else settings for name in groups}
    reported = {
        name: report_on(data, replace(settings_of[name], tests_alone=True))
        for name, data in counted("evaluating groups", list(groups.items()))
    }
    flags = dict.fromkeys(lone, ONE_CLUSTER)
    flags |= {name: SMALL_GROUP for name, (report, _, _) in reported.items() if report.n < LEAST_GROUP}
    tests = {name: tested for name, (_, _, tested) in reported.items() if tested is not None and name not in flags}
    alpha = 0.0 if settings.resampling is None else alpha_of(settings.resampling.level)
    compared = counted("comparing groups", list(tests.items()))
    p_values = {name: tested.p_value(len(tests), alpha) for name, tested in compared}
    flags |= {name: _NO_LAW for name, p in p_values.items() if math.isnan(p)}
    tested_p_values = {name: p for name, p in p_values.items() if name not in flags}
    adjusted = dict(zip(tested_p_values, holm(list(tested_p_values.values())), strict=True))
    return tuple(
        GroupReport(
            name=name,
            column=columns.get(name, ""),
            n=report.n,
            test=report.test,
            diagram=report.diagram,
            ece=deciding["ece"],
            mean_gap=deciding["mean_gap"],
            p_value=tested_p_values.get(name, math.nan),
            adjusted_p_value=adjusted.get(name, math.nan),
            called_out=adjusted.get(name, 1.0) <= alpha,
            flag=flags.get(name, ""),
            cautions=() if name in flags else tuple(one.code for one in report.findings if one.code in DOUBTS),
            whole=Late(partial(_whole, groups[name], settings_of[name])),
        )
        for name, (report, deciding, _) in reported.items()
    )


def _apart(data: EvaluatedData) -> bool:
    """Return whether groups are independent: no cluster can have rows in several of them."""
    if data.clusters is None:
        return True
    sums = [part.clusters.event for part in data.groups.values() if part.clusters is not None]
    counts = [own.n_clusters for own in sums if own.n_clusters is not None]
    whole = data.clusters.event
    rows = sum(float(own.rows.sum()) for own in sums)
    return len(counts) == len(data.groups) and rows == whole.rows.sum() and sum(counts) == whole.n_clusters


def _forests(groups: Mapping[str, EvaluatedData], settings: ReportSettings, *, apart: bool) -> dict[str, Forest]:
    """Return the measures of the profile that are shown for every group, without simulated data sets.

    ``apart`` tells whether groups are independent, so that they can be pooled.
    """
    measures = tuple(measure for measure in of_profile(settings.profile) if measure.compare_groups is not None)
    resampling = None if settings.resampling is None else replace(settings.resampling, n_resamples=0)
    settings = replace(settings, measures=measures, resampling=resampling, of_group=True, tolerance=None)
    lone = {name: ONE_CLUSTER for name, data in groups.items() if data.one_cluster}
    each = counted("measuring groups", list(groups.items()))
    reports = {
        name: report_on(data, replace(settings, resampling=None) if name in lone else settings).report
        for name, data in each
    }
    several = {name: data for name, data in groups.items() if name not in lone and len(data.tables) == 1}
    rows, few = ({}, {}) if resampling is None else comparable(several)
    return {
        measure.name: forest_of(
            {name: report[measure.name] for name, report in reports.items()}, rows, few | lone, measure, apart=apart
        )
        for measure in measures
    }


def _marginal_forests(
    columns: Mapping[str, str], groups: Mapping[str, EvaluatedData], settings: ReportSettings
) -> dict[str, Forest]:
    """Return the measures of marginal subgroups; groups of one column alone are compared, because others overlap."""
    by_column: dict[str, dict[str, EvaluatedData]] = {}
    for name, data in groups.items():
        by_column.setdefault(columns[name], {})[name] = data
    return joined({column: _forests(own, settings, apart=False) for column, own in by_column.items()})


def _whole(data: EvaluatedData, settings: ReportSettings) -> Report:
    return report_on(data, settings).report
