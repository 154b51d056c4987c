"""The recalibrations of questions as a document: a table of all, then a section for each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from calibrant.render.blocks import Block, Column, Document, Heading, Method, Notes, Sentence, Source, Table
from calibrant.render.words import (
    amount,
    chance,
    chance_text,
    gathered,
    named,
    number,
    percent,
    short,
    texts,
    worst,
)
from calibrant.report.question_document import (
    NAMED,
    SECTIONS,
    cautions_of,
    facts_of_questions,
    headline_of,
    rest_of,
    within,
)

if TYPE_CHECKING:
    from calibrant.recalibration.question_recalibrations import QuestionRecalibrations


def document_of(fixes: QuestionRecalibrations, source: Source, *, full: bool) -> Document:
    """Return the recalibrations as a document; ``full`` is what a page shows."""
    conclusion = _conclusion(fixes)
    return Document(
        title="Recalibration of questions",
        headline=headline_of(fixes.log.n, len(fixes.log)),
        conclusion=conclusion,
        verdict=[conclusion._replace(text=f"{conclusion.text}."), *_refused(fixes), *cautions_of(fixes.log)],
        blocks=[*_overview(fixes), *_sections(fixes, source, full=full)],
        facts=facts_of_questions(
            source, fixes.log.n, len(fixes.log), fixes.log.models, ("confidence level", percent(fixes.level))
        ),
        measured="question",
        methods=[Method("questions", "The maps of all questions.", _METHOD)],
    )


_METHOD: Final = (
    "Each question has a map of its own. The decrease of the loss is estimated on rows that the map was not "
    "fitted to. The p-values are adjusted for the number of questions with a map by Holm's method, which is "
    "valid even if the answers to one input depend on each other."
)


def _conclusion(fixes: QuestionRecalibrations) -> Sentence:
    """Return for how many questions recalibration helps, with the names of some."""
    after, level = " after Holm correction" * (len(fixes) > 1), percent(fixes.level)
    if not len(fixes):
        return Sentence("No map can be fitted to any question", "caution")
    if not fixes.proven:
        return Sentence(f"No evidence that recalibration helps any of {len(fixes):,} questions{after} ({level})")
    names = named(list(map(short, fixes.proven)), NAMED)
    of = f"{len(fixes.proven):,} of {len(fixes):,} question{'s' * (len(fixes) != 1)}"
    return Sentence(f"Recalibration lowers the loss of {of}{after} ({level}): {names}", "good")


def _refused(fixes: QuestionRecalibrations) -> list[Sentence]:
    """Return which questions have no map, and why."""
    reasons = gathered((reason, short(name)) for name, reason in fixes.refused.items())
    return [
        Sentence(f"No map was fitted to {named(names, NAMED)}: {reason}.", "caution")
        for reason, names in reasons.items()
    ]


def _order(fixes: QuestionRecalibrations) -> Sequence[int]:
    """Return the places of the questions to read: of many, those with the most evidence first."""
    rows = [fixes.row_of(name) for name in fixes.log]
    return worst([row["p_value"] for row in rows], [row["gain"] for row in rows])


def _words(row: Mapping[str, Any]) -> str:
    """Return the verdict on a question in at most two words."""
    if not row["map"]:
        return "no map"
    if row["map"] == "identity":
        return "no change"
    return "helps" if row["proven"] else "no evidence"


def _overview(fixes: QuestionRecalibrations) -> list[Block]:
    """Return the table of all questions."""
    rows = [fixes.row_of(name) for name in fixes.log]
    order = _order(fixes)
    table = Table("questions", _columns(fixes, rows), "Questions", marked=[row["proven"] for row in rows])
    return [
        Heading("Questions", "questions", searchable=len(rows) > SECTIONS),
        table if len(order) == len(rows) else table.of_rows(order),
        Notes(_NOTES),
    ]


def _decrease(row: Mapping[str, Any]) -> tuple[str, str]:
    """Return a gain and its interval as texts."""
    if math.isnan(row["gain"]):
        return "–", ""
    value, low, high = texts([row["gain"], row["low"], row["high"]], 4, [0.0])
    return value, f"{low} – {high}"


def _columns(fixes: QuestionRecalibrations, rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    written = list(map(_decrease, rows))
    losses = [
        Column.of(f"{loss}: {when}", f"{name}_{when}", (row[f"{name}_{when}"] for row in rows), number, spare=spare)
        for loss, name, spare in (("log loss", "log_loss", 1), ("Brier", "brier", 4))
        for when in ("before", "after")
    ]
    return [
        Column.of("question", "question", fixes.log, short),
        Column.of("rows", "n", (row["n"] for row in rows), amount, spare=2),
        Column.of("kind", "kind", (row["kind"] for row in rows), words=True, spare=5),
        Column.of("map", "map", (row["map"] for row in rows), lambda name: name or "–", words=True),
        *losses,
        Column("decrease", [value for value, _ in written], {"gain": [row["gain"] for row in rows]}, spare=3),
        Column(
            f"decrease, {percent(fixes.level)} CI",
            [ends for _, ends in written],
            {end: [row[end] for row in rows] for end in ("low", "high")},
        ),
        Column.of("p adj.", "adjusted_p_value", (row["adjusted_p_value"] for row in rows), chance_text),
        Column.of("verdict", "verdict", map(_words, rows), words=True),
    ]


_NOTES: Final = (
    (
        "decrease: decrease of the mean log loss of new rows, or of the Brier score if an observed outcome had "
        "predicted probability 0"
    ),
    "p adj.: p-value of the decrease, Holm-adjusted for the number of questions with a map",
)


def _sections(fixes: QuestionRecalibrations, source: Source, *, full: bool) -> list[Block]:
    """Return a section for each question with a map; of many, for those with the most evidence."""
    names, blocks = list(fixes.log), list[Block]()
    order = [i for i in _order(fixes) if names[i] in fixes.questions]
    for i in sorted(order[:SECTIONS]):
        name, place = names[i], f"question-{i + 1}"
        fix = fixes[name]
        document = fix._document(source, full=full)
        blocks += [Heading(f"Question {short(name)}", place), *document.verdict]
        if fix.proven and name not in fixes.proven:
            after, p = "After Holm's correction for all questions with a map", chance(fixes.adjusted_p_values[name])
            blocks.append(Sentence(f"{after}, the decrease is not significant (p {p})."))
        blocks += [Heading(f"Measures of {short(name)}", f"{place}-measures", level=3)] * (not full)
        blocks += within(document.blocks, place)
    return [*blocks, *rest_of(len(fixes) - min(len(order), SECTIONS))]
