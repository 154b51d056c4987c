"""The reports on questions as a document: a table and small diagrams of all, then a section for each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from calibrant.render.blocks import (
    Block,
    Column,
    Details,
    Document,
    Figures,
    Heading,
    Method,
    Notes,
    Sentence,
    Source,
    Table,
    Tiles,
)
from calibrant.render.figure import Figure
from calibrant.render.words import amount, capital, left_out, named, number, percent, short, version
from calibrant.report.findings_text import verdict_of
from calibrant.report.group_document import (
    correction,
    group_cautions,
    group_tiles,
    groups_table,
    in_order_of_evidence,
    untested,
)
from calibrant.report.report_document import diagram_of, report_blocks

if TYPE_CHECKING:
    from calibrant.inputs.decision_log import DecisionLog
    from calibrant.report.question_reports import QuestionReport, QuestionReports

#: The questions with a section in the terminal, and with a diagram on the first screen.
SECTIONS: Final = 12
NAMED: Final = 3  # questions that a sentence names


def document_of(reports: QuestionReports, source: Source, *, full: bool, complete: bool) -> Document:
    """Return the reports as a document; ``full`` is what a page shows, ``complete`` shows every measure."""
    conclusion = _conclusion(reports)
    return Document(
        title="Calibration of questions",
        headline=headline_of(reports.log.n, len(reports)),
        conclusion=conclusion,
        verdict=[conclusion._replace(text=f"{conclusion.text}."), *cautions_of(reports.log)],
        blocks=[*_overview(reports, full=full), *_sections(reports, source, full=full, complete=complete)],
        facts=facts_of_questions(
            source,
            reports.log.n,
            len(reports),
            reports.log.models,
            ("intervals", "not requested" if reports.level is None else ""),
            ("confidence level", "" if reports.level is None else percent(reports.level)),
        ),
        measured="question",
        methods=_methods(reports),
    )


def facts_of_questions(
    source: Source, n: int, questions: int, models: Sequence[str], *more: tuple[str, str]
) -> list[tuple[str, str]]:
    """Return the settings of a result for questions as names and texts, with ``more`` of its own."""
    return [
        ("inputs", amount(n)),
        ("questions", f"{questions:,}"),
        ("models", ", ".join(map(short, models))),
        *more,
        *source.facts(),
        ("made by", f"calibrant {version()}"),
    ]


def headline_of(n: int, many: int) -> str:
    """Return how many inputs and questions there are."""
    return f"{n:,} input{'s' * (n != 1)}, {many:,} question{'s' * (many != 1)}"


def _conclusion(reports: QuestionReports) -> Sentence:
    """Return how many questions show evidence of miscalibration, with the names of some."""
    tested = sum(not math.isnan(each.tested.adjusted_p_value) for each in reports.questions.values())
    if not tested:
        return Sentence("No question has enough rows for a test", "caution")
    found, after = reports.miscalibrated, " after Holm correction" * (tested > 1)
    if not found:
        return Sentence(f"No evidence of miscalibration in {tested:,} tested questions{after}", "good")
    names = named(list(map(short, found)), NAMED)
    of = f"{len(found):,} of {tested:,} tested question{'s' * (tested > 1)}"
    return Sentence(f"Evidence of miscalibration in {of}{after}: {names}", "bad")


def cautions_of(log: DecisionLog) -> list[Sentence]:
    """Return what was not evaluated, and what the log says in two ways."""
    cautions = []
    for what, counts in (("refusals", log.refusals), ("answers without a label", _counts(log, "unlabelled"))):
        if total := sum(counts.values()):
            names = named([f"{short(name)} ({count:,})" for name, count in counts.items() if count], NAMED)
            cautions.append(Sentence(f"{capital(what)}, which are not evaluated: {total:,}, in {names}."))
    if total := sum(_counts(log, "unanswered").values()):
        cautions.append(Sentence(f"Labels without an answer, which are not evaluated: {total:,}."))
    if log.unmatched:
        cautions.append(Sentence(f"Labels with an id that no row has: {log.unmatched:,}.", "caution"))
    for what, missing in (("labels", log.unlabelled), ("answers", log.unanswered)):
        if missing:
            names = named(list(map(short, missing)), NAMED)
            cautions.append(Sentence(f"Questions without {what}: {names}.", "caution"))
    differing = [name for name, question in log.items() if question.differing]
    if differing:
        names = named(list(map(short, differing)), NAMED)
        text = f"The stated confidence differs from the largest probability by more than 0.001 in {names}"
        how = "to evaluate the stated confidence, use --stated, or log.stated() in Python"
        cautions.append(Sentence(f"{text}. The probabilities are evaluated; {how}.", "caution"))
    open_ones = [name for name, question in log.items() if not question.fixed]
    if open_ones:
        names = named(list(map(short, open_ones)), NAMED)
        cautions.append(
            Sentence(f"The options of {names} differ between rows, so only the likeliest option is evaluated.")
        )
    if len(log.models) > 1:
        cautions.append(
            Sentence(
                f"The log contains answers of {len(log.models):,} models, which are evaluated together.", "caution"
            )
        )
    return cautions


def _counts(log: DecisionLog, name: str) -> dict[str, int]:
    return {question: getattr(each, name) for question, each in log.items()}


def _words(question: QuestionReport) -> str:
    """Return the verdict on a question in at most three words."""
    group = question.tested
    if math.isnan(group.adjusted_p_value):
        return "not tested"
    if not group.called_out:
        return "no evidence"
    gap = group.mean_gap
    if math.isnan(gap.low) or gap.low <= 0 <= gap.high:
        return "miscalibrated"
    if question.question.kind == "predicate":
        return "overestimates" if gap.value > 0 else "underestimates"
    return "over-confident" if gap.value > 0 else "under-confident"


# ---------------------------------------------------------------- all questions


def _table(questions: Sequence[QuestionReport], level: float | None, *, full: bool) -> Table:
    kinds = Column.of("kind", "kind", (each.question.kind for each in questions), words=True, spare=3)
    accuracies = Column.of("accuracy", "accuracy", (question.accuracy for question in questions), number)
    confidences = (each.question.mean_confidence for each in questions)
    confidence = Column.of("mean confidence", "mean_confidence", confidences, number, brief="mean conf.", spare=2)
    verdicts = [] if level is None else [Column("verdict", list(map(_words, questions)), words=True)]
    refusals = Column.of("refusals", "refusals", (each.question.refusals for each in questions), amount, spare=4)
    return groups_table(
        [question.tested for question in questions],
        level,
        full=full,
        what="question",
        facts=[kinds, accuracies, confidence],
        words=[*verdicts, refusals],
    )


def _overview(reports: QuestionReports, *, full: bool) -> list[Block]:
    """Return the small diagrams and the table of the questions."""
    questions, level = list(reports.questions.values()), reports.level
    groups = [question.tested for question in questions]
    order = in_order_of_evidence(groups)
    table = _table(questions, level, full=full)
    blocks: list[Block] = [Heading("Questions", "questions", searchable=len(groups) > SECTIONS)]
    tiles = group_tiles([groups[i] for i in order])
    if full and tiles:
        blocks.append(Tiles(tiles[:SECTIONS]))
    blocks.append(table if len(order) == len(groups) else table.of_rows(order))
    if level is not None:
        adjusted = [group.adjusted_p_value for group in groups]
        marked = [group.called_out for group in groups]
        blocks.append(Sentence(f"* {correction(adjusted, marked, 'question', 'questions')}"))
    return [*blocks, Notes([*untested(groups), *group_cautions(groups), *_NOTES])]


_NOTES: Final = (
    (
        "accuracy: share of answers whose likeliest option is right; for a yes-no question (predicate), this "
        "option is yes if its probability is 0.5 or more"
    ),
    (
        "mean confidence: mean probability of the likeliest option; ECE: for a predicate, the ECE of the "
        "probability of yes"
    ),
)


# ---------------------------------------------------------------- one question


def _sections(reports: QuestionReports, source: Source, *, full: bool, complete: bool) -> list[Block]:
    """Return a section for each question; of many, for those with the most evidence."""
    names, blocks = list(reports.questions), list[Block]()
    order = in_order_of_evidence([question.tested for question in reports.questions.values()])
    shown = [names[i] for i in sorted(order[:SECTIONS])]
    for name in shown:
        report, place = reports[name], f"question-{names.index(name) + 1}"
        own = report_blocks(report, source, full=full, complete=complete)
        blocks += [Heading(f"Question {short(name)}", place), *verdict_of(report, source)]
        if full:
            diagram = [] if report.diagram is None else [diagram_of(report, report.diagram)._replace(name=place)]
            blocks += [*diagram, Details("Measures, bins and options", within(own, place), long=True)]
        else:
            blocks += [Heading(f"Measures of {short(name)}", f"{place}-measures", level=3), *within(own, place)]
    return [*blocks, *rest_of(len(names) - len(shown))]


def rest_of(left: int, *notes: str) -> list[Block]:
    """Return notes on the sections, and how to see the questions without one."""
    notes = (*notes, *left_out(left, "questions", "--question NAME, or result[NAME]"))
    return [Notes(notes)] if notes else []


def within(blocks: Sequence[Block], place: str) -> list[Block]:
    """Return the blocks of a result as those of a section: without small diagrams, names begin with the place."""
    own = list[Block]()
    for block in blocks:
        if isinstance(block, Heading):
            own.append(block._replace(name=_below(place, block.name), searchable=False, level=3))
        elif isinstance(block, Table):
            own.append(replace(block, name=_below(place, block.name)))
        elif isinstance(block, Figure):
            own.append(block._replace(name=_below(place, block.name)))
        elif isinstance(block, Figures):
            own.append(block._replace(figures=[f._replace(name=_below(place, f.name)) for f in block.figures]))
        elif isinstance(block, Details):
            own.append(block._replace(blocks=within(block.blocks, place)))
        elif not isinstance(block, Tiles):
            own.append(block)
    return own


def _below(place: str, name: str) -> str:
    return f"{place}-{name}" if name else ""


def _methods(reports: QuestionReports) -> list[Method]:
    if reports.level is None:
        return []
    text = (
        "Each question is tested separately, as in a report on this question alone. The p-values are "
        "adjusted for the number of questions by Holm's method, which is valid even if the answers to one input "
        "depend on each other."
    )
    return [Method("questions", "The tests of all questions.", text)]
