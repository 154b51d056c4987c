"""From what is judged to a report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from calibrant.inference.decision import decide, one_sided
from calibrant.inference.findings import DECIDING, Evidence
from calibrant.inputs.notions import PER_CLASS
from calibrant.kernels.loading import of_input
from calibrant.measures.binned.classwise import worst_class
from calibrant.measures.binned.ece import ECE
from calibrant.measures.binned.histograms import table_histograms
from calibrant.measures.binned.parts import diagram_of
from calibrant.measures.context import Inference
from calibrant.measures.estimates import class_bins, estimate, flagged, over_classes
from calibrant.measures.event import Event
from calibrant.measures.gap import MEAN_GAP, gap_p_value
from calibrant.measures.line.cox import line_of
from calibrant.measures.line.intervals import falls, without_ends
from calibrant.measures.listed import of_profile
from calibrant.measures.means.brier import BRIER, EVENT_BRIER
from calibrant.measures.means.log_loss import NLL
from calibrant.measures.means.means import surprises
from calibrant.measures.means.skill import BRIER_SKILL
from calibrant.measures.measure import Measure, OverClasses
from calibrant.measures.panels import panels
from calibrant.measures.profiles import STANDARD, Profile
from calibrant.report import evaluated
from calibrant.report.evaluated import Judged
from calibrant.report.report import Report
from calibrant.results import CalibrationCurve, Decision, Estimate
from calibrant.runtime.cached import LazyMapping
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import BY_CLUSTER, LONE, Clustered, details_of
from calibrant.statistics.groups import GroupTest
from calibrant.statistics.resampling import Resampling
from calibrant.statistics.sample import ROWS

_ONE_CLUSTER: Final = "rows of one cluster: they tell nothing of other clusters"
_NO_LAW: Final = "too few outcomes expected for a test without resamples: pass n_resamples=1000"


@dataclass(frozen=True, eq=False, kw_only=True)
class Settings:
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
        The level and the replicates; None for values alone.
    classwise : bool or None
        Whether every class is judged in addition to the top label; None for up to `evaluated.MOST_CLASSES`.
    tolerance : float or None
        The largest error that is tolerated, for a decision; None for none.
    tolerance_of : Measure
        The error that the tolerance is about.
    of_group : bool
        Whether the report is one of many, about a group.
    tests_alone : bool
        Whether only what tells groups apart is computed: the ECE, the mean gap, the test, the diagram.
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

    def curves(self, judged: Judged, inference: Inference) -> Mapping[str, CalibrationCurve]:
        """Return the curves. Those of many groups keep the data alone, and draw again when they are looked at."""
        if not self.of_group:
            return inference.curves(self.profile.curves)
        whole = replace(self, of_group=False)
        return LazyMapping(lambda: report_on(judged, whole).report.curves)

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


def report_on(judged: Judged, settings: Settings) -> Reported:
    """Return the report, and the estimates that decide."""
    with of_input(judged.numbers):
        return (_class_report if judged.notion in PER_CLASS else _event_report)(judged, settings)


def _why_no_classes(judged: Judged, classwise: bool | None) -> str:
    """Return why classes are not judged; empty if they are, or if only a sketch lacks them."""
    if judged.n_classes is None:
        return "one event is judged, no classes"
    if classwise is False:
        return "not asked for (classwise=False)"
    if judged.choices.data == "sketch" or evaluated.are_judged(classwise, judged.n_classes):
        return ""
    return f"more than {evaluated.MOST_CLASSES:,} classes are judged on request (classwise=True, --classwise)"


def _event_report(judged: Judged, settings: Settings) -> Reported:
    """Return the report on one judged event."""
    (table,), resampling = judged.tables, settings.resampling
    no_classes = _why_no_classes(judged, settings.classwise)
    event = Event(
        table=table,
        n_bins=settings.n_bins,
        means=judged.means,
        classes=None if settings.tests_alone else evaluated.classes_of(judged, table.total, resampling),
        no_classes=no_classes,
        asked_classes=0 if no_classes else judged.n_classes or 0,
        clusters=_in_clusters(judged, settings),
    )
    inference = None
    if resampling is not None:
        inference = Inference(
            event=event,
            resampling=resampling,
            measures=tuple(settings.computed),
            with_curves=not settings.tests_alone,
        )
    flags: dict[str, Any] = dict(table.provenance)
    warning = "; ".join(filter(None, (judged.flag, "" if inference is None else event.design.sample.flag)))
    if inference is not None and warning:
        flags["flag"] = warning
    losses = {} if inference is None else surprises(inference.cells)
    estimates = {
        measure: flagged(estimate(measure, event, inference), {**(losses if _is_loss(measure) else {}), **flags})
        for measure in settings.computed
    }
    if judged.alone and inference is not None:
        estimates = {measure: replace(one, method=one.method + LONE) for measure, one in estimates.items()}
    tested = None if inference is None else inference.tested()
    decision = None
    if inference is not None and settings.tolerance is not None:
        bounds = estimate(settings.tolerance_of, event, inference.at(one_sided(inference.resampling.level)))
        decision = _decision(settings, bounds, event.design.sample.rarer)
    line = None if inference is None or settings.tests_alone else inference.of(line_of)
    evidence = Evidence(
        estimates=_deciding(estimates),
        notion=judged.notion,
        n=table.n,
        outcome_rate=event.outcome_rate,
        diagram=event.of(diagram_of) if inference is None else inference.diagram(),
        level=None if resampling is None else resampling.level,
        test=None if tested is None else tested.test,
        decision=decision,
        line=line,
        falls=inference is not None and not settings.tests_alone and falls(inference.uniform),
        ends=None if line is None or inference is None else without_ends(event.design.fine, line, inference.level),
        gap_p_value=math.nan if inference is None else gap_p_value(inference, estimates[MEAN_GAP].value),
        rarer=math.inf if inference is None else event.design.sample.rarer,
        unit=ROWS if inference is None else event.design.sample.unit,
        counted=judged.counted,
    )
    return _report(
        judged,
        settings,
        estimates,
        evidence,
        tested=tested,
        classwise=None if event.classes is None else event.classes.errors,
        curves={} if inference is None or settings.tests_alone else settings.curves(judged, inference),
        panels={}
        if settings.tests_alone
        else LazyMapping(partial(panels, event, settings.profile, None if resampling is None else resampling.level)),
    )


def _in_clusters(judged: Judged, settings: Settings) -> Clustered | None:
    """Return the rows in clusters; None if they are independent, and for one cluster if no interval is asked for."""
    if judged.clusters is None or (judged.one_cluster and settings.resampling is None):
        return None
    return Clustered.of(Cells.from_table(judged.tables[0]), judged.clusters.event)


def _deciding(estimates: Mapping[Measure, Estimate]) -> dict[str, Estimate]:
    return {measure.name: estimates[measure] for measure in DECIDING if measure in estimates}


def _is_loss(measure: Measure) -> bool:
    return measure in (BRIER, EVENT_BRIER, BRIER_SKILL, NLL)


def _class_report(judged: Judged, settings: Settings) -> Reported:
    """Return the report on every class by itself: each measure combined over classes."""
    tables, means, resampling = judged.tables, judged.means, settings.resampling
    if judged.one_cluster and resampling is None:
        judged = replace(judged, clusters=None)
    events = [Event(table=table, n_bins=settings.n_bins) if len(table) else None for table in tables]
    histograms = table_histograms(tables, settings.n_bins)
    classes = evaluated.classes_of(replace(judged, histograms=histograms), histograms.totals, resampling)
    # Measures of whole predictions use the means alone, so that without clusters any table can stand in for theirs.
    table = judged.event or next(event.table for event in events if event is not None)
    whole = Event(table=table, n_bins=settings.n_bins, means=means, classes=classes)
    clusters, facts = judged.clusters, {}
    if clusters is not None and resampling is not None:
        whole = replace(whole, clusters=Clustered.of(Cells.from_table(table), clusters.event))
        facts = details_of(clusters.event)
    inference = None if resampling is None else Inference(event=whole, resampling=resampling)
    flag = "; ".join(filter(None, (judged.flag, whole.design.sample.flag if facts else "")))
    flags = {**tables[0].provenance, **facts, **({"flag": flag} if flag and resampling is not None else {})}
    suffix = BY_CLUSTER if facts else LONE if judged.alone and resampling is not None else ""
    how: dict[str, Any] = {"dependent": judged.notion == "multilabel", "rows": clusters or judged.class_rows}

    def over(measure: Measure, resampling: Resampling | None) -> Estimate:
        found = over_classes(measure, events, means.n, means.effective_n, resampling, **how)
        return replace(found, method=f"{found.method}{suffix}")

    estimates = {}
    for measure in settings.computed:
        if measure.judges == "predictions":
            estimates[measure] = estimate(measure, whole, inference)
        else:
            estimates[measure] = over(ECE if measure.judges == "classes" else measure, resampling)
            if measure.judges == "classes" and classes is not None:
                estimates[measure] = replace(estimates[measure], details=worst_class(classes))
    estimates = {measure: flagged(one, flags) for measure, one in estimates.items()}
    tested = decision = None
    if resampling is not None:
        bins = class_bins(events, OverClasses(binning="uniform"), means.effective_n, **how)
        tested = bins.tested(estimates[ECE], resampling)
        if settings.tolerance is not None:
            bounds = over(ECE, replace(resampling, level=one_sided(resampling.level)))
            decision = _decision(settings, bounds, whole.design.sample.rarer if facts else math.inf)
    supports = histograms.sums[2].sum()
    evidence = Evidence(
        estimates=_deciding(estimates),
        notion=judged.notion,
        n=means.n,
        outcome_rate=float(supports / np.sum(histograms.totals)),
        diagram=None,
        level=None if resampling is None else resampling.level,
        test=None if tested is None else tested.test,
        decision=decision,
        line=None,
        falls=False,
        rarer=math.inf,
        counted=judged.counted,
    )
    errors = None if classes is None else classes.errors
    return _report(judged, settings, estimates, evidence, tested=tested, classwise=errors)


def _decision(settings: Settings, bounds: Estimate, rarer: float) -> Decision | None:
    """Return the decision about the tolerance, from an estimate with one-sided bounds."""
    if settings.tolerance is None or settings.resampling is None:
        return None
    level = settings.resampling.level
    return decide(settings.tolerance_of.name, settings.tolerance, bounds, level, rarer=rarer)


def _report(
    judged: Judged,
    settings: Settings,
    estimates: Mapping[Measure, Estimate],
    evidence: Evidence,
    *,
    tested: GroupTest | None,
    **parts: Any,
) -> Reported:
    resampling = settings.resampling
    report = Report(
        estimates={measure.name: estimates[measure] for measure in settings.measures if measure in estimates},
        descriptions={measure.name: measure.description for measure in settings.measures},
        profile=settings.profile.name,
        listed=settings.listed,
        findings=() if settings.tests_alone else evidence.findings(),
        test=evidence.test,
        decision=evidence.decision,
        clusters=_cluster_facts(judged, evidence),
        notion=judged.notion,
        n=evidence.n,
        n_classes=judged.n_classes,
        n_bins=settings.n_bins,
        outcome_rate=evidence.outcome_rate,
        diagram=evidence.diagram,
        class_names=judged.names,
        level=evidence.level,
        n_resamples=0 if resampling is None else resampling.n_resamples,
        bands="pointwise" if resampling is None else resampling.bands,
        choices=judged.choices if resampling is None else replace(judged.choices, seed=resampling.number),
        **parts,
    )
    return Reported(report, evidence.estimates, tested)


def _cluster_facts(judged: Judged, evidence: Evidence) -> dict[str, Any] | None:
    """Return the number of clusters, the largest one's share, and the rows that they are worth by the mean gap."""
    if judged.alone:
        return {"clusters": evidence.n, "largest_cluster": 1 / evidence.n, "effective_rows": evidence.n}
    if judged.clusters is None:
        return None
    details = evidence.estimates[MEAN_GAP.name].details
    return {**details_of(judged.clusters.event), "effective_rows": details.get("effective_rows")}
