"""The items of TRIPOD+AI (Collins et al. 2024) that a report answers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from calibrant.measures.listed import BY_NAME
from calibrant.measures.profiles import PROFILES
from calibrant.render.blocks import Block, Column, Sentence, Source, Table
from calibrant.render.words import amount, clusters_text, event_of, is_clustered, number, percent
from calibrant.report.group_document import heterogeneity
from calibrant.report.measure_document import has_interval, is_missing, shown_estimates, total_weight
from calibrant.results import Code
from calibrant.statistics.design import MINORITY

if TYPE_CHECKING:
    from calibrant.report.report import Report

#: The heading above the table.
TRIPOD: Final = "TRIPOD+AI checklist"

_REST: Final = (
    "The other items of TRIPOD+AI (Collins et al. 2024) are about the study, its participants and the model, so the "
    "authors have to answer them."
)


def checklist(report: Report, source: Source) -> list[Block]:
    """Return the items with what this report says about each; what only the authors know is said to be theirs."""
    headings = ("item", "topic", "in this report")
    texts = zip(*_rows(report, source), strict=True)
    columns = [Column(heading, column, words=True) for heading, column in zip(headings, texts, strict=True)]
    return [Table("tripod-ai", columns, TRIPOD), Sentence(_REST)]


def _rows(report: Report, source: Source) -> Iterator[tuple[str, str, str]]:
    events, event = _events(report), event_of(report.notion, source)
    few = any(finding.code == Code.RARE_OUTCOME for finding in report.findings)
    too_few = f" Fewer than {MINORITY} events or non-events are too few for reliable inference." * few
    yield "8a", "outcome", f"Event: {event}. The authors must define the event and state how it was assessed."
    yield "10", "sample size", f"{events}.{too_few} The authors must justify the sample size."
    yield "11", "missing data", f"{_left_out(report)} The authors must state how missing predictors were handled."
    clusters = "Rows were assumed to be independent."
    if report.clusters is not None and is_clustered(report.clusters, report.n):
        clusters = f"Intervals and p-values allow for dependence within {clusters_text(report.clusters)}."
    yield "12d", "clusters", clusters
    yield "12e", "measures and plots", _measures(report)
    fairness = "Performance in groups was not examined. To examine groups, name the column of groups with --by."
    if report.groups:
        fairness = f"Performance was examined in {len(report.groups):,} groups."
    yield "14", "fairness", fairness
    logits = ", transformed from logits" * bool(report.choices.logits)
    yield "15", "model output", f"Predicted probabilities{logits}."
    sizes = ", ".join(f"{group.name} {group.n:,}" for group in report.groups)
    yield "21", "participants and events", f"{events}." + (f" Predictions by group: {sizes}." if sizes else "")
    yield "23a", "performance", _performance(report)
    texts = [f"{BY_NAME[name].label}: {heterogeneity(forest, report.level)}" for name, forest in report.forests.items()]
    yield "23b", "heterogeneity", " ".join(texts) or "Not examined."


def _events(report: Report) -> str:
    total = report.n if report.choices.weights is None else total_weight(report)
    of = f"{report.n:,} predictions"
    if math.isnan(total):
        return of
    events = round(report.outcome_rate * total, 1)
    return f"{of}, {amount(events)} events and {amount(round(total - events, 1))} non-events"


def _left_out(report: Report) -> str:
    left_out = {"without a target": report.choices.ignored, "of weight 0": report.choices.weightless}
    parts = [f"{count:,} {why}" for why, count in left_out.items() if count]
    return f"Rows left out: {', '.join(parts)}." if parts else "No row was left out."


def _measures(report: Report) -> str:
    labels = [report.descriptions[key].label for key in shown_estimates(report)]
    plots = [] if report.diagram is None else ["reliability diagram"]
    plots += [f"{name} calibration curve" for name in PROFILES[report.profile].curves if plots]
    plots += [name.replace("_", " ") for name in report.panels]
    return f"Measures: {', '.join(labels)}. Plots: {', '.join(plots) or 'none'}."


def _performance(report: Report) -> str:
    parts = []
    for key, part in shown_estimates(report, complete=False).items():
        ends = ""
        if report.level is not None and has_interval(part):
            ends = f" ({percent(report.level)} CI {number(part.low)} to {number(part.high)})"
        value = "–" if is_missing(part) else number(part.value)
        parts.append(f"{report.descriptions[key].label} {value}{ends}")
    groups = " The table of groups shows the performance in each group." if report.groups else ""
    return f"{'; '.join(parts)}.{groups}"
