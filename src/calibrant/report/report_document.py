"""A report as a document: the verdict, its numbers and pictures, and how they were computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from calibrant.measures.listed import BY_NAME
from calibrant.measures.profiles import PROFILES, STANDARD
from calibrant.render.blocks import (
    Block,
    Column,
    Details,
    Document,
    First,
    Heading,
    Method,
    Notes,
    Passage,
    Source,
    Table,
)
from calibrant.render.figure import Figure, percent_text
from calibrant.render.reliability import bins_table, curve_table, diagram_figure, outside
from calibrant.render.words import amount, evaluated_event, facts_of, in_clusters, is_rare, percent
from calibrant.report import methods_text, results_text
from calibrant.report.class_document import class_blocks
from calibrant.report.findings_text import conclusion_of, key_numbers, next_steps, plainly, verdict_of
from calibrant.report.group_document import group_blocks, level_blocks
from calibrant.report.measure_document import (
    measure_cautions,
    measures_table,
    more_measures,
    noise_figure,
    remarks,
    shown_estimates,
    total_weight,
    weighed_in,
)
from calibrant.report.panel_document import panel_blocks
from calibrant.report.tripod import TRIPOD, checklist
from calibrant.results import ReliabilityDiagram

if TYPE_CHECKING:
    from calibrant.report.report import Report

_LEGEND: Final = "█ observed  ┃ predicted  ░┃ overestimated (+)  ┃█ underestimated (-)"


def document_of(report: Report, source: Source, *, full: bool, complete: bool = False) -> Document:
    """Return a report as a document.

    ``full`` is what a page shows. Otherwise a profile shows its key measures, or with ``complete`` all.
    """
    return Document(
        title="Calibration report",
        headline=headline(report, source),
        conclusion=conclusion_of(report),
        verdict=verdict_of(report, source),
        blocks=report_blocks(report, source, full=full, complete=complete),
        facts=_facts(report, source),
        measured="measure",
        methods=_methods(report),
        first=_first(report) if full else None,
        plain=plainly(report, source),
    )


def report_blocks(report: Report, source: Source, *, full: bool, complete: bool) -> list[Block]:
    """Return the numbers and pictures of a report, as `document_of`."""
    return _page(report, source) if full else _brief(report, source, complete=complete)


def headline(report: Report, source: Source) -> str:
    """Return the number of predictions and the evaluated event, in words."""
    parts = [f"{report.n:,} prediction{'s' * (report.n != 1)}{in_clusters(report.clusters)}"]
    if report.n_classes:
        parts.append(f"{report.n_classes:,} {'labels' if report.notion == 'multilabel' else 'classes'}")
    weight = total_weight(report)
    if weighed_in(report) == "weight" and not np.isnan(weight):
        parts.append(f"weight {amount(weight)}")
    event = evaluated_event(report.notion, report.n_classes, source, report.class_names)
    return f"{', '.join(parts)} ({event})"


def _brief(report: Report, source: Source, *, complete: bool) -> list[Block]:
    """Return the blocks of the terminal and of Markdown."""
    shown = shown_estimates(report, complete=complete)
    notes = [*measure_cautions(report, shown), *remarks(report, shown, complete=complete)]
    notes += more_measures(report, shown)
    blocks: list[Block] = [measures_table(report, shown, full=False), Notes(notes)]
    if report.diagram is not None:
        blocks += _bars(report.diagram, report.level)
    blocks += panel_blocks(report, full=False)
    blocks += level_blocks(report, full=False)
    blocks += class_blocks(report, full=False)
    blocks += group_blocks(report, full=False)
    return blocks + _paper(report, source, full=False)


def _page(report: Report, source: Source) -> list[Block]:
    """Return the blocks of a page, below its first screen."""
    shown, level = shown_estimates(report), report.level
    blocks: list[Block] = [Heading("All measures", "measures"), *noise_figure(report, shown)]
    blocks.append(measures_table(report, shown, full=True))
    blocks.append(Notes(measure_cautions(report, shown)))
    blocks.append(Details("Remarks on these numbers", [Notes(remarks(report, shown))]))
    if report.diagram is not None:
        blocks.append(Heading("The numbers of the diagram", "bins"))
        table = bins_table(report.diagram, level, "reliability-diagram", "The bins")
        blocks.append(Details("The bins as a table", [table]))
        for kind, curve in report.curves.items():
            table = curve_table(kind, curve, curve.level, rare=is_rare(report.diagram))
            summary = f"{len(table.places)} points of the {kind} curve as a table"
            blocks.append(Details(summary, [table], long=True))
    blocks += panel_blocks(report, full=True)
    blocks += group_blocks(report, full=True)
    blocks += level_blocks(report, full=True)
    blocks += class_blocks(report, full=True)
    return blocks + _paper(report, source, full=True)


def _first(report: Report) -> First:
    diagram = None if report.diagram is None else diagram_of(report, report.diagram)
    return First(key_numbers(report), diagram, next_steps(report))


def diagram_of(report: Report, bins: ReliabilityDiagram) -> Figure:
    """Return the reliability diagram with what its marks mean."""
    figure = diagram_figure(bins, report.notion, curves=report.curves)
    reading = ["Above the dashed line, the event is more frequent than predicted; below it, less frequent."]
    reading[0] += f" Larger points have more {weighed_in(report)}."
    if report.level is not None:
        level = percent(report.level)
        reading[0] += (
            f" For a perfectly calibrated model, each bin lies in its grey consistency band in {level} of samples, so "
            "a few of many bins lie outside by chance. The test above takes this into account."
        )
        if report.bands == "simultaneous":
            reading[0] += (
                " The band of the isotonic curve is simultaneous. It covers the true curve at all scores at once in "
                f"{level} of samples, if the observed frequency does not decrease with the score. The other bands are "
                "pointwise."
            )
    if figure.x.scale == "logit":
        low, high = percent_text(figure.x.low), percent_text(figure.x.high)
        reading.append(
            f"Both axes show log-odds, because the predicted probabilities are small. Values below {low} or "
            f"above {high}, and frequencies of 0 and 1, are drawn on the frame."
        )
    return figure._replace(name="diagram", reading=reading)


def _bars(bins: ReliabilityDiagram, level: float | None) -> list[Block]:
    """Return the bins with their differences and with bars as long as the observed frequency."""
    filled = np.flatnonzero(bins.counts > 0)
    scores, rates = bins.confidences[filled].tolist(), bins.accuracies[filled].tolist()
    score, counts, _, predicted, observed, *_ = bins_table(bins, level, "bins").columns
    gaps = [f"{score - rate:+z.3f}" for score, rate in zip(scores, rates, strict=True)]
    bars = [
        [*[(0.0, rate, "█")] * (rate > 0), *[(rate, score, "░")] * (rate < score), (score, score, "┃")]
        for score, rate in zip(scores, rates, strict=True)
    ]
    title, marked = "Reliability diagram", outside(bins).tolist()
    columns = [score, counts, predicted, observed, Column("difference", gaps, spare=1, brief="diff.")]
    table = Table("reliability-diagram", columns, title, marked=marked, bars=bars, scale="01", legend=_LEGEND)
    empty = len(bins.counts) - len(filled)
    notes = []
    if empty:
        notes.append(f"{empty} empty bin{'s are' if empty > 1 else ' is'} not shown")
    if level is not None:
        notes.append(
            f"* the observed frequency is outside the {percent(level)} consistency band; if the model is "
            f"calibrated, expect this in 1 of {1 / (1 - level):.3g} bins"
        )
    return [Heading(title, "diagram"), table, Notes(notes)]


def _paper(report: Report, source: Source, *, full: bool) -> list[Block]:
    """Return what a paper needs: paragraphs on methods and results, and the checklist; nothing in most profiles."""
    if not PROFILES[report.profile].methods:
        return []
    results = Passage(results_text.paragraph(report, source))
    note = "for the full methods and the results, use --html or --json, or report.methods and report.results in Python"
    return [
        Heading(methods_text.METHODS, "methods"),
        Passage(methods_text.brief(report, source)),
        *([] if full else [Notes([note])]),
        Details("The full paragraph", [Passage(methods_text.paragraph(report, source))]),
        *([Heading(results_text.RESULTS, "results"), results] if full else [Details(results_text.RESULTS, [results])]),
        Details(TRIPOD, checklist(report, source)),
    ]


def _facts(report: Report, source: Source) -> list[tuple[str, str]]:
    profile, decision = PROFILES.get(report.profile, STANDARD), report.decision
    left_out = {} if report.listed else profile.left_out
    return facts_of(
        source,
        ("noise floors", f"{report.n_resamples:,} simulated data sets" if report.n_resamples else ""),
        ("profile", "" if profile is STANDARD else f"{profile.name}: {profile.meaning}"),
        *((f"no {name}", reason) for name, reason in left_out.items()),
        (
            "tolerance",
            "" if decision is None else f"{BY_NAME[decision.measure].label}: up to {decision.tolerance:g}",
        ),
        n=report.n,
        notion=report.notion,
        n_classes=report.n_classes,
        level=report.level,
        n_bins=report.n_bins,
        weight=total_weight(report),
    )


def _methods(report: Report) -> list[Method]:
    methods = [] if report.test is None else [Method("test", "The test of calibration.", report.test.method)]
    for key, part in shown_estimates(report).items():
        description = report.descriptions[key]
        methods.append(Method(description.label, description.meaning, part.method))
    return methods
