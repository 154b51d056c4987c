"""From what is evaluated to a report."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from calibrant.inference.decision import decide, one_sided
from calibrant.inference.findings import DECIDING, Evidence
from calibrant.inputs.notions import PER_CLASS
from calibrant.kernels.loading import of_input
from calibrant.measures.arguments import table_histograms
from calibrant.measures.binned.classwise import worst_class
from calibrant.measures.binned.clustered import uniform_sums
from calibrant.measures.binned.diagram import diagram_of
from calibrant.measures.binned.ece import ECE
from calibrant.measures.context import Inference
from calibrant.measures.decisions.decision_curve import decision_curve_of, murphy_curve_of
from calibrant.measures.estimates import class_bins, estimate, flagged, impossible_of, over_classes
from calibrant.measures.event import Classes, Event
from calibrant.measures.gap import MEAN_GAP, is_balanced
from calibrant.measures.line.cox import line_of
from calibrant.measures.line.line import falls, without_ends
from calibrant.measures.listed import of_profile
from calibrant.measures.means.means import gap_variance
from calibrant.measures.measure import Measure, OverClasses, descriptions_of
from calibrant.measures.profiles import STANDARD, Profile
from calibrant.measures.ranking.auroc import roc_curve
from calibrant.report import evaluated
from calibrant.report.evaluated import Evaluated
from calibrant.report.report import Report
from calibrant.results import CalibrationCurve, ClasswiseCalibration, Decision, Estimate
from calibrant.results.values import Panel
from calibrant.runtime.cached import LazyMapping
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import BY_CLUSTER, LONE, Clustered, details_of
from calibrant.statistics.groups import GroupTest
from calibrant.statistics.resampling import Resampling


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
        Whether the measures are a list instead of the profile's.
    resampling : Resampling or None
        The level and the simulated data sets; None for values alone.
    classwise : bool or None
        Whether every class is evaluated in addition to the top label; None for up to `evaluated.MOST_CLASSES`.
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

    def curves(self, data: Evaluated, inference: Inference) -> Mapping[str, CalibrationCurve]:
        """Return the curves. Those of many groups keep the data alone, and draw again when they are looked at."""
        if not self.of_group:
            return inference.curves(self.profile.curves)
        of_all = replace(self, of_group=False)
        return LazyMapping(lambda: report_on(data, of_all).report.curves)

    @property
    def computed(self) -> list[Measure]:
        """The measures shown, those that findings are made from, and that of a tolerance."""
        if self.tests_alone:
            return [ECE, MEAN_GAP]
        others = (*DECIDING, *(() if self.tolerance is None else (self.tolerance_of,)))
        return list(dict.fromkeys((*self.measures, *others)))


class Reported(NamedTuple):
    """A report, the estimates that its findings are made from, whichever measures it shows, and its test."""

    report: Report
    deciding: Mapping[str, Estimate]
    tested: GroupTest | None


def report_on(data: Evaluated, settings: ReportSettings) -> Reported:
    """Return the report, and the estimates that decide."""
    with of_input(data.numbers):
        return (_class_report if data.notion in PER_CLASS else _event_report)(data, settings)


# ---------------------------------------------------------------- one evaluated event


def _event_report(data: Evaluated, settings: ReportSettings) -> Reported:
    """Return the report on one evaluated event."""
    event, resampling = _event(data, settings), settings.resampling
    if resampling is None:
        inference = None
    else:
        measures, curves = tuple(settings.computed), not settings.tests_alone
        inference = Inference(event=event, resampling=resampling, measures=measures, with_curves=curves)
    estimates = _event_estimates(data, settings, event, inference)
    evidence = Evidence(
        estimates=_deciding(estimates),
        notion=data.notion,
        n=event.table.n,
        outcome_rate=event.outcome_rate,
        counted=data.counted,
        diagram=event.of(diagram_of) if inference is None else inference.diagram(),
    )
    tested, shown = None, _Shown(classwise=None if event.classes is None else event.classes.errors)
    if not settings.tests_alone:
        level = None if resampling is None else resampling.level
        shown = shown._replace(panels=LazyMapping(partial(panels, event, settings.profile, level)))
    if inference is not None:
        tested = inference.tested()
        evidence = _inferred(evidence, settings, inference, tested, estimates[MEAN_GAP].value)
        if not settings.tests_alone:
            shown = shown._replace(curves=settings.curves(data, inference))
    return _report(data, settings, estimates, evidence, tested, shown)


def _event(data: Evaluated, settings: ReportSettings) -> Event:
    """Return the evaluated event, with its classes if they are evaluated too."""
    (table,) = data.tables
    no_classes, clusters = _why_no_classes(data, settings.classwise), None
    if data.clusters is not None and not (data.one_cluster and settings.resampling is None):
        clusters = Clustered.of(Cells.from_table(table), data.clusters.event)
    return Event(
        table=table,
        n_bins=settings.n_bins,
        means=data.means,
        classes=None if settings.tests_alone else evaluated.classes_of(data, table.total, settings.resampling),
        no_classes=no_classes,
        asked_classes=0 if no_classes else data.n_classes or 0,
        clusters=clusters,
        logits=bool(data.choices.logits),
    )


def _why_no_classes(data: Evaluated, classwise: bool | None) -> str:
    """Return why classes are not evaluated; empty if they are, or if only a sketch lacks them."""
    if data.n_classes is None:
        return "only one event is evaluated, not classes"
    if classwise is False:
        return "classes were not requested (classwise=False)"
    if data.choices.data == "sketch" or evaluated.are_evaluated(classwise, data.n_classes):
        return ""
    return f"more than {evaluated.MOST_CLASSES:,} classes are evaluated only on request (classwise=True, --classwise)"


def _event_estimates(
    data: Evaluated, settings: ReportSettings, event: Event, inference: Inference | None
) -> dict[Measure, Estimate]:
    """Return the estimates of the measures of one event, with what else their details say."""
    provenance, estimates = dict(event.table.provenance), {}
    for measure in settings.computed:
        plain = estimate(measure, event, inference)
        if inference is None:
            estimates[measure] = flagged(plain, provenance)
            continue
        noted = flagged(plain, {**measure.caution(event), **provenance, **_flag(data.flag, event.design.sample.flag)})
        estimates[measure] = replace(noted, method=noted.method + LONE) if data.alone else noted
    return estimates


def _inferred(
    evidence: Evidence, settings: ReportSettings, inference: Inference, tested: GroupTest, mean_gap: float
) -> Evidence:
    """Return the evidence with what is inferred from the event."""
    event, sample = inference.event, inference.event.design.sample
    decision = None
    if settings.tolerance is not None:
        bounds = estimate(settings.tolerance_of, event, inference.at(one_sided(inference.level)))
        decision = _decision(settings, bounds, sample.rarer)
    evidence = replace(
        evidence,
        level=inference.level,
        test=tested.test,
        impossible=event.impossible,
        decision=decision,
        balanced=is_balanced(event.design, mean_gap),
        gap_p_value=gap_variance(event.design).p_value(mean_gap),
        rarer=sample.rarer,
        unit=sample.unit,
    )
    if settings.tests_alone:
        return evidence
    line = inference.of(line_of)
    ends = without_ends(event.design.fine, line, inference.level)
    return replace(evidence, line=line, falls=falls(event.of(uniform_sums)), ends=ends)


def _deciding(estimates: Mapping[Measure, Estimate]) -> dict[str, Estimate]:
    return {measure.name: estimates[measure] for measure in DECIDING if measure in estimates}


def _flag(*warnings: str) -> dict[str, str]:
    """Return these warnings as a detail, or nothing."""
    flag = "; ".join(filter(None, warnings))
    return {"flag": flag} if flag else {}


# ---------------------------------------------------------------- every class alone


def _class_report(data: Evaluated, settings: ReportSettings) -> Reported:
    """Return the report on every class alone: each measure combined over classes."""
    resampling = settings.resampling
    if data.one_cluster and resampling is None:
        data = replace(data, clusters=None)
    logits = bool(data.choices.logits)
    events = [
        Event(table=table, n_bins=settings.n_bins, logits=logits) if len(table) else None for table in data.tables
    ]
    histograms = table_histograms(data.tables, settings.n_bins)
    classes = evaluated.classes_of(replace(data, histograms=histograms), histograms.totals, resampling)
    whole = _whole_predictions(data, settings, events, classes)
    over = partial(
        over_classes,
        events=events,
        n=data.means.n,
        effective_n=data.means.effective_n,
        dependent=data.notion == "multilabel",
        rows=data.clusters or data.class_rows,
    )
    estimates = _class_estimates(data, settings, whole, over)
    evidence = Evidence(
        estimates=_deciding(estimates),
        notion=data.notion,
        n=data.means.n,
        outcome_rate=float(histograms.sums[2].sum() / np.sum(histograms.totals)),
        counted=data.counted,
    )
    tested = None
    if resampling is not None:
        bins = class_bins(
            events,
            OverClasses(binning="uniform"),
            data.means.effective_n,
            dependent=data.notion == "multilabel",
            rows=data.clusters or data.class_rows,
        )
        impossible = impossible_of(events)
        tested, decision = bins.tested(estimates[ECE], resampling, impossible), None
        if settings.tolerance is not None:
            bounds = over(ECE, resampling=replace(resampling, level=one_sided(resampling.level)))
            rarer = math.inf if whole.clusters is None else whole.clusters.sample.rarer
            decision = _decision(settings, bounds, rarer)
        evidence = replace(evidence, level=resampling.level, test=tested.test, decision=decision, impossible=impossible)
    errors = None if classes is None else classes.errors
    return _report(data, settings, estimates, evidence, tested, _Shown(classwise=errors))


def _whole_predictions(
    data: Evaluated, settings: ReportSettings, events: Sequence[Event | None], classes: Classes | None
) -> Event:
    """Return the event of measures of whole predictions.

    They use the means alone, so that without clusters any table can stand in for theirs.
    """
    table = data.event or next(event.table for event in events if event is not None)
    clusters = None
    if data.clusters is not None and settings.resampling is not None:
        clusters = Clustered.of(Cells.from_table(table), data.clusters.event)
    return Event(table=table, n_bins=settings.n_bins, means=data.means, classes=classes, clusters=clusters)


def _class_estimates(
    data: Evaluated, settings: ReportSettings, whole: Event, over: Callable[..., Estimate]
) -> dict[Measure, Estimate]:
    """Return the estimates of the measures over classes, with what else their details say."""
    resampling, clusters = settings.resampling, whole.clusters
    inference = None if resampling is None else Inference(event=whole, resampling=resampling)
    details, suffix = dict(data.tables[0].provenance), ""
    if resampling is not None:
        details |= {} if clusters is None else clusters.sample.facts
        details |= _flag(data.flag, "" if clusters is None else clusters.sample.flag)
        suffix = BY_CLUSTER if clusters is not None else LONE if data.alone else ""
    estimates = {}
    for measure in settings.computed:
        if measure.judges == "predictions":
            combined = estimate(measure, whole, inference)
        else:
            combined = over(ECE if measure.judges == "classes" else measure, resampling=resampling)
            combined = replace(combined, method=f"{combined.method}{suffix}")
            if measure.judges == "classes" and whole.classes is not None:
                combined = replace(combined, details=worst_class(whole.classes))
        estimates[measure] = flagged(combined, details)
    return estimates


# ---------------------------------------------------------------- both


class _Shown(NamedTuple):
    """What a report shows in addition to its numbers."""

    classwise: ClasswiseCalibration | None
    curves: Mapping[str, CalibrationCurve] | None = None
    panels: Mapping[str, Panel] | None = None


def _decision(settings: ReportSettings, bounds: Estimate, rarer: float) -> Decision | None:
    """Return the decision about the tolerance, from an estimate with one-sided bounds."""
    if settings.tolerance is None or settings.resampling is None:
        return None
    level = settings.resampling.level
    return decide(settings.tolerance_of.name, settings.tolerance, bounds, level, rarer=rarer)


def _report(
    data: Evaluated,
    settings: ReportSettings,
    estimates: Mapping[Measure, Estimate],
    evidence: Evidence,
    tested: GroupTest | None,
    shown: _Shown,
) -> Reported:
    resampling = settings.resampling
    report = Report(
        estimates={measure.name: estimates[measure] for measure in settings.measures if measure in estimates},
        descriptions=descriptions_of(settings.measures),
        profile=settings.profile.name,
        listed=settings.listed,
        findings=() if settings.tests_alone else evidence.findings(),
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
        **{name: part for name, part in shown._asdict().items() if part is not None},
    )
    return Reported(report, evidence.estimates, tested)


def _cluster_facts(data: Evaluated, evidence: Evidence) -> dict[str, Any] | None:
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


def panels(event: Event, profile: Profile, level: float | None) -> dict[str, Panel]:
    """Return the further curves of a profile, without those that the data do not have; ``level`` is of intervals."""
    made = {name: _MAKERS[name](event, level) for name in profile.panels}
    return {name: panel for name, panel in made.items() if panel is not None}
