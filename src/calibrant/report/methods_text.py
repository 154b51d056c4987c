"""The paragraph for the methods section of a paper, of a report."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

from calibrant.inputs.notions import PER_CLASS
from calibrant.measures.binned.binned import LEAST_CLUSTERS
from calibrant.measures.binned.mce import MCE
from calibrant.measures.line.line import CALIBRATION_INTERCEPT, CALIBRATION_SLOPE, CERTAIN
from calibrant.measures.listed import BY_NAME
from calibrant.measures.measure import OverClasses
from calibrant.measures.profiles import PROFILES
from calibrant.render.blocks import Source
from calibrant.render.words import (
    BINS,
    COMPONENTS,
    amount,
    clusters_text,
    event_of,
    gathered,
    is_clustered,
    percent,
    rounded,
    version,
)
from calibrant.report.measure_document import shown_estimates, total_weight
from calibrant.results import TestResult
from calibrant.results.values import MurphyCurve, NetBenefit, RocCurve
from calibrant.statistics.design import BY_CLUSTER, LONE
from calibrant.statistics.group_tests import LEAST_GROUP
from calibrant.table.cluster_sums import EVENT_CELLS

if TYPE_CHECKING:
    from calibrant.report.report import Report

#: The heading above the paragraph.
METHODS: Final = "Methods"

_CLOSED: Final = "closed form"
_BRIEF: Final = 8  # measures that the short paragraph names
_NORMS: Final = {"l1": "the mean", "l2": "the root mean square", "max": "the maximum"}
_REASON: Final = ("no interval: ", "not available: ")


def paragraph(report: Report, source: Source) -> str:
    """Return the paragraph: full sentences, in the order of data, measures, intervals, tests, curves and groups."""
    parts = (_left_out, _clusters, _measures, _intervals, _floors, _test, _decision, _pictures, _groups, _seed)
    sentences = chain(_data(report, source), *(part(report) for part in parts))
    return " ".join(f"{sentence}." for sentence in sentences)


def brief(report: Report, source: Source) -> str:
    """Return the paragraph in at most 120 words: data, measures, intervals, the test, the diagram and groups."""
    return " ".join(f"{sentence}." for sentence in _brief(report, source))


def _brief(report: Report, source: Source) -> Iterator[str]:
    event = f"event: {event_of(report.notion, source)}"
    if report.notion not in PER_CLASS:
        event += f", observed frequency {100 * report.outcome_rate:.3g} %"
    yield f"We evaluated the calibration of {_rows(report)} ({event}) with calibrant {version()}"
    labels = [report.descriptions[key].label for key in shown_estimates(report, complete=False)]
    many = f"{len(labels)} measures, among them " * (len(labels) > _BRIEF)
    yield f"We report {many}{_listed(labels[:_BRIEF])}"
    if report.level is not None:
        rows = "assume independent rows"
        if report.clusters is not None and is_clustered(report.clusters, report.n):
            rows = f"allow for dependence within {clusters_text(report.clusters)}"
        yield f"{percent(report.level)} confidence intervals and p-values {rows}"
    if report.test is not None:
        parts = _parts_of_test(report.test)
        source_of_p = f", with {report.n_resamples:,} simulated data sets" if report.n_resamples else ""
        yield f"{'One test combined' if len(parts) > 1 else 'We tested'} {_listed(parts)}{source_of_p}"
    if report.diagram is not None:
        loess = " and a loess curve" if "loess" in PROFILES[report.profile].curves else ""
        yield f"The reliability diagram has {report.n_bins:,} bins {BINS['uniform']}{loess}"
    if tested := _tested(report):
        yield f"The test was repeated in {tested:,} group{'s' * (tested > 1)}, with Holm's correction"


def _rows(report: Report) -> str:
    """Return the number of predictions, and of classes or labels."""
    rows = f"{report.n:,} prediction{'s' * (report.n != 1)}"
    if not report.n_classes:
        return rows
    return f"{rows} of {report.n_classes:,} {'labels' if report.notion == 'multilabel' else 'classes'}"


def _parts_of_test(test: TestResult) -> list[str]:
    return [name for part, name in COMPONENTS.items() if part in test.details["parts"]]


def _tested(report: Report) -> int:
    return sum(not math.isnan(group.adjusted_p_value) for group in report.groups)


# ---------------------------------------------------------------- the data


def _data(report: Report, source: Source) -> Iterator[str]:
    """Yield the version, the rows, the evaluated event with its frequency, and what the numbers and the weights are."""
    choices = report.choices
    yield f"Calibration was evaluated with calibrant {version()} on {_rows(report)}"
    yield _event(report, source)
    if source.where:
        yield f"Only rows with {source.where} were used"
    if choices.logits:
        sigmoid = "softmax" if report.n_classes and report.notion != "multilabel" else "logistic function"
        yield f"Logits were transformed to probabilities by the {sigmoid}"
    if choices.data == "sketch":
        yield "The predictions were summarised as a sketch, with counts of rows and events in narrow score ranges"
    if choices.data == "table":
        yield "The predictions were summarised as a table, with counts of rows and events for each score"
    if choices.weights is not None:
        total = total_weight(report)
        weight = "" if math.isnan(total) else f" with a total of {amount(total)}"
        counted = {
            "integer": "A row with weight w counts as w equal rows",
            "fractional": "Variances use sums of squared weights, and sample sizes are effective sample sizes (Kish)",
        }
        yield f"The rows have weights{weight}. {counted[choices.weights]}"


def _event(report: Report, source: Source) -> str:
    """Return the evaluated event with its observed frequency."""
    rate, event, is_weighted = report.outcome_rate, event_of(report.notion, source), report.choices.weights is not None
    share = f"{100 * rate:.4g} %"
    if report.notion in PER_CLASS:
        each = "labels" if report.notion == "multilabel" else "classes"
        return (
            f"We evaluated {event}, with its predicted probability as the score. The observed frequency, averaged over "
            f"the {each}, is {share}"
        )
    total = total_weight(report) if is_weighted else report.n
    events = "" if math.isnan(total) else f"{amount(round(rate * total, 1))} "
    of = "units of weight" if is_weighted else "rows"
    return f"The evaluated event is {event}. The event was observed in {events}{of} ({share})"


def _left_out(report: Report) -> Iterator[str]:
    """Yield which rows and inputs were left out, and why."""
    choices, omitted = report.choices, report.omitted
    for count, why in ((choices.ignored, "without a target"), (choices.weightless, "of weight 0")):
        if count:
            yield f"{count:,} row{'s' * (count > 1)} {why} {'were' if count > 1 else 'was'} left out"
    if choices.rounded:
        yield rounded(choices.rounded)
    if omitted:
        why = "; ".join(dict.fromkeys(omitted.values()))
        yield f"{len(omitted):,} input{'s were' if len(omitted) > 1 else ' was'} left out: {why.rstrip('.')}"


def _clusters(report: Report) -> Iterator[str]:
    """Yield the clusters, and how they enter what is inferred."""
    clusters, inferred = report.clusters, report.level is not None
    if clusters is None:
        if inferred:
            yield "Rows were assumed to be independent"
        return
    if not is_clustered(clusters, report.n):
        yield "Each cluster has one row, so rows were assumed to be independent"
        return
    number = clusters["clusters"]
    largest = f"{100 * clusters['largest_cluster']:.2g} %"
    yield f"The rows are in {clusters_text(clusters)}. The largest cluster has {largest} of the rows"
    if inferred:
        pooled = isinstance(number, str) or number > EVENT_CELLS.n_buckets
        buckets = f" (pooled at random into {EVENT_CELLS.n_buckets} larger ones)" * pooled
        yield (
            "Clusters were assumed to be independent, but rows of one cluster may depend on each other. Variances use "
            f"sums over clusters{buckets} and degrees of freedom from Satterthwaite's approximation (Bell and "
            "McCaffrey 2002)"
        )


def _samples(report: Report, source: str = "the predicted probabilities") -> str:
    multiplied = is_clustered(report.clusters, report.n)
    how = "a random normal multiplier for each cluster" if multiplied else f"outcomes drawn from {source}"
    return f"{report.n_resamples:,} simulated data sets with {how}"


# ---------------------------------------------------------------- the measures


def _measures(report: Report) -> Iterator[str]:
    shown = shown_estimates(report)
    for key in shown:
        measure, description = BY_NAME.get(key), report.descriptions[key]
        if measure is None or not measure.computed:
            yield f"{description.label}: {description.meaning.rstrip('.')}"
            continue
        bins = f"{report.n_bins:,} bins {BINS[description.binning or 'uniform']}"
        sentence = measure.computed.format(bins=bins)
        if key == MCE.name and report.clusters is not None:
            sentence += f" of {LEAST_CLUSTERS} clusters"
        yield f"{sentence} ({'; '.join(measure.sources)})" if measure.sources else sentence
    if any(key in shown for key in (CALIBRATION_INTERCEPT.name, CALIBRATION_SLOPE.name)):
        yield f"For log-odds, scores within {CERTAIN:g} of 0 or 1 were counted as {CERTAIN:g} or 1 - {CERTAIN:g}"
    if report.notion in PER_CLASS:
        yield from _over_classes(report)


def _over_classes(report: Report) -> Iterator[str]:
    """Yield how measures of one event were combined over classes."""
    combined = {key: BY_NAME[key].over_classes for key in shown_estimates(report) if key in BY_NAME}
    names = gathered(
        (_NORMS[over.norm], _named(report, key))
        for key, over in combined.items()
        if isinstance(over, OverClasses) and "per_class" in report.estimates[key].details
    )
    if names:
        yield f"Measures were computed for each class separately and combined over classes by {_with_names(names)}"


def _named(report: Report, key: str) -> str:
    """Return a measure's name within a sentence."""
    computed = BY_NAME[key].computed if key in BY_NAME else ""
    name = computed.partition(" is ")[0] or f"The {report.descriptions[key].label}"
    return f"the{name.removeprefix('The')}"


def _intervals(report: Report) -> Iterator[str]:
    """Yield the level and the method of the intervals, and which measures have none, and why."""
    names = [
        (_parts_of(part.method)[0], _named(report, key), math.isfinite(part.low))
        for key, part in shown_estimates(report).items()
    ]
    held = gathered((method, name) for method, name, has_interval in names if has_interval)
    lacking = gathered((reason, name) for reason, name, has_interval in names if not has_interval)
    if report.level is None:
        yield "No confidence intervals were computed"
        lacking = {reason: names for reason, names in lacking.items() if reason.startswith(_REASON[1])}
    elif held:
        methods = {method.replace("; ", ", "): names for method, names in held.items()}
        level = percent(report.level)
        yield f"Confidence intervals have a level of {level} and are not adjusted for the number of measures"
        yield f"The methods of the confidence intervals are {_with_names(methods)}"
    for reason, of in lacking.items():
        what = "value" if reason.startswith(_REASON[1]) else "interval"
        why = reason.removeprefix(_REASON[0]).removeprefix(_REASON[1])
        yield f"There is no {what} for {_listed(of)}: {why}"


def _with_names(names: Mapping[str, Sequence[str]]) -> str:
    """Return sources or methods, each with the names of its measures."""
    return "; ".join(f"{source} ({_listed(of)})" for source, of in names.items())


def _parts_of(method: str) -> tuple[str, str]:
    """Return the methods of an interval and of the noise floor, without what belongs to the clusters."""
    interval, _, floor = method.removesuffix(BY_CLUSTER).removesuffix(LONE).partition("; floor: ")
    return interval, floor


def _floors(report: Report) -> Iterator[str]:
    """Yield where noise floors and p-values of measures come from."""
    sources = gathered(
        (_distribution(report, _parts_of(part.method)[1]), _named(report, key))
        for key, part in shown_estimates(report).items()
        if part.floor is not None
    )
    if sources and report.level is not None:
        ends = f"the mean and the {100 * report.level:g}th percentile under calibration"
        yield f"Noise floors ({ends}) and p-values of measures were computed {_with_names(sources)}"


def _distribution(report: Report, source: str) -> str:
    """Return where a null distribution comes from, in words."""
    drawn = report.n_resamples
    if not source or (drawn and source == f"{drawn:,} resamples"):
        return f"from {_samples(report)}" if drawn else f"in {_CLOSED}"
    return f"in {_CLOSED}" if source == _CLOSED else f"from {source}"


# ---------------------------------------------------------------- tests


def _test(report: Report) -> Iterator[str]:
    """Yield what the test of calibration is, and where its p-value comes from."""
    if report.test is None:
        return
    parts = _parts_of_test(report.test)
    what = f"the Cauchy combination (Liu and Xie 2020) of tests of {_listed(parts)}"
    if len(parts) == 1:
        what = f"a test of {parts[0]}"
    if report.notion in PER_CLASS:
        what += " over all classes"
    yield f"The test of calibration is {what}, and its p-value was computed {_distribution(report, '')}"


def _decision(report: Report) -> Iterator[str]:
    decision = report.decision
    if decision is not None:
        what = f"the {BY_NAME[decision.measure].label} is below {decision.tolerance:g}"
        yield f"One-sided {percent(decision.level)} confidence bounds were used to test whether {what}"


def _pictures(report: Report) -> Iterator[str]:
    level = report.level
    if report.diagram is not None:
        ends = "" if level is None else f", with {percent(level)} confidence intervals by Clopper and Pearson (1934)"
        yield f"The reliability diagram has {report.n_bins:,} bins {BINS['uniform']}{ends}"
        if level is not None:
            yield from _bands(report, percent(level))
    for panel in report.panels.values():
        if isinstance(panel, NetBenefit):
            yield _net_benefit(panel)
        elif isinstance(panel, MurphyCurve):
            yield f"The Murphy curve is the mean elementary score at {_thresholds(panel)} (Ehm et al. 2016)"
        elif isinstance(panel, RocCurve):
            yield "The ROC curve uses every distinct score as a threshold"


def _bands(report: Report, level: str) -> Iterator[str]:
    """Yield how the calibration curves and their bands were made."""
    if report.n_resamples:
        yield f"The consistency bands were computed from {_samples(report)} (Bröcker and Smith 2007)"
    isotonic = "The isotonic calibration curve (CORP, Dimitriadis et al. 2021) has"
    if report.bands == "simultaneous":
        yield f"{isotonic} a simultaneous {level} band (Dimitriadis et al. 2023)"
    elif report.n_resamples:
        yield f"{isotonic} a pointwise {level} band from {_samples(report, 'the fitted curve')}"
    else:
        yield f"{isotonic} no confidence band"
    if "loess" in PROFILES[report.profile].curves:
        yield (
            "The flexible calibration curve is the loess curve of the ICI, limited to values from 0 to 1. The "
            f"pointwise {level} band of the flexible curve is a normal approximation, in which an outcome has the "
            "variance r(1 - r) with r from the curve"
        )
    yield (
        "The smooth calibration curve is a kernel regression of outcomes on scores with a reflected Gaussian kernel "
        f"and a pointwise {level} band. The bandwidth of the kernel is the smooth ECE"
    )


def _net_benefit(panel: NetBenefit) -> str:
    what = f"Net benefit was computed at {_thresholds(panel)} (Vickers and Elkin 2006)"
    cited_what = f"{what}. Rows with a score of at least the threshold count as treated"
    if math.isnan(panel.level):
        return cited_what
    method = _parts_of(panel.method)[0]
    return f"{cited_what}. Each {percent(panel.level)} confidence interval is for one threshold ({method})"


def _thresholds(panel: NetBenefit | MurphyCurve) -> str:
    places = panel.thresholds
    return f"{len(places)} thresholds from {places[0]:g} to {places[-1]:g}"


# ---------------------------------------------------------------- groups, and what was drawn


def _groups(report: Report) -> Iterator[str]:
    groups, level = report.groups, report.level
    if report.classwise is not None and report.classwise.adjusted_p_values is not None:
        yield "The ECE of each class was tested, with Holm's (1979) correction for the number of classes"
    events = [event for event in report.at_least.values() if not math.isnan(event.adjusted_p_value)]
    if events:
        yield (
            "For each level except the lowest, the event is this level or a higher one, and its probability is the sum "
            f"of the probabilities of these levels. The calibration of {len(events):,} of {len(report.at_least):,} "
            "events was tested, with Holm's (1979) correction"
        )
    if not groups:
        return
    yield f"Each of {len(groups):,} group{'s' * (len(groups) > 1)} was evaluated separately"
    if columns := [column for column in dict.fromkeys(group.column for group in groups) if column]:
        yield f"The groups are the values of {_listed(columns)}, so each row is in one group per column"
    if tested := _tested(report):
        in_clusters = " in at least two clusters" * is_clustered(report.clusters, report.n)
        yield (
            f"The test was repeated in the {tested:,} group{'s' * (tested > 1)} with at least {LEAST_GROUP} rows"
            f"{in_clusters}, with Holm's (1979) correction"
        )
    labels = [f"the {BY_NAME[name].label}" for name in report.forests]
    if labels and level is not None:
        within = "of each column " * any(forest.columns for forest in report.forests.values())
        yield (
            f"Equality of {_listed(labels)} between groups {within}was tested by Cochran's Q (Cochran 1954), with "
            "variances computed as if all groups had the same value, and the differences were described by I² "
            "(Higgins and Thompson 2002). Groups with fewer than 15 events or fewer than 15 non-events were not "
            "compared"
        )
    if report.multicalibration is not None:
        what = "The multicalibration error is the largest standardised Kuiper error over groups"
        method = _parts_of(report.multicalibration.method)[0]
        yield f"{what}. The p-value is from this method: {method}"


def _seed(report: Report) -> Iterator[str]:
    """Yield the seed, where something was drawn."""
    folds = any("fold" in part.method for part in shown_estimates(report).values())
    if report.level is None or not (report.n_resamples or folds):
        return
    seed = report.choices.seed
    yield "The random seed is " + ("unknown, because the caller passed a generator" if seed is None else str(seed))


def _listed(names: Sequence[str]) -> str:
    """Return names with commas, the last one after "and"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
