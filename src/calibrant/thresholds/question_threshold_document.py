"""The thresholds of questions as a document: a table of the gates, then a section for each question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from calibrant.render.blocks import Block, Column, Details, Document, Heading, Method, Notes, Sentence, Source, Table
from calibrant.render.words import amount, gathered, named, percent, share_text, short
from calibrant.report.question_document import NAMED, SECTIONS, facts_of_questions, rest_of, within
from calibrant.thresholds.threshold_document import METHODS, curve_blocks, findings_of, rate_text

if TYPE_CHECKING:
    from calibrant.thresholds.question_thresholds import Gate, QuestionThresholds
    from calibrant.thresholds.result import Threshold, ThresholdResult

_ALL: Final = "choices and scores together"


def document_of(result: QuestionThresholds, source: Source, *, full: bool, observed: bool) -> Document:
    """Return the thresholds as a document; ``observed`` adds the gates by the accuracy in these rows."""
    conclusion = _conclusion(result)
    return Document(
        title="Certified thresholds of questions",
        headline=f"{result.log.n:,} inputs, {len(result):,} questions",
        conclusion=conclusion,
        verdict=[conclusion._replace(text=f"{conclusion.text}."), *map(Sentence, _promise(result))],
        blocks=[*_groups(result), *_overview(result, observed=observed), *_sections(result, source, full=full)],
        facts=facts_of_questions(
            source,
            result.log.n,
            len(result),
            result.log.models,
            ("largest error rate", percent(result.max_risk)),
            ("confidence level", percent(result.confidence)),
        ),
        measured="question",
        methods=[_method(result)],
    )


def _conclusion(result: QuestionThresholds) -> Sentence:
    """Return how many questions can be automated, in part."""
    if result.by_group:
        return _conclusion_of_groups(result)
    certified = [short(name) for name, found in result.items() if found.certified]
    if not certified:
        return Sentence("No threshold is certified for any question")
    of = f"{len(certified):,} of {len(result):,} question{'s' * (len(result) != 1)}"
    return Sentence(f"Some answers to {of} can be automated: {named(certified, NAMED)}", "good")


def _certified(result: QuestionThresholds) -> int:
    return sum(found.certified for found in result.values())


def _conclusion_of_groups(result: QuestionThresholds) -> Sentence:
    """Return to how many questions answers can be automated, in each group of rows."""
    groups = {short(name): part for name, part in result.by_group.items()}
    if not any(map(_certified, groups.values())):
        return Sentence("No threshold is certified for any question in any group")
    parts = [f"{name} ({_certified(part):,} of {len(part):,})" for name, part in groups.items()]
    return Sentence(f"Questions with a certified threshold in each group: {named(parts, NAMED)}", "good")


def _promise(result: QuestionThresholds) -> list[str]:
    """Return what is promised, what is not automatic, and how to check the promise later."""
    level, held = percent(result.confidence), "for each question alone" if result.each else "for all questions together"
    risk = f"the error rate of the automatic answers to each question is at most {percent(result.max_risk)}"
    promises = [f"The promise holds with {level} confidence, {held}: {risk}."]
    if result.by_group:
        text = f"Thresholds for the rows of all groups together are certified for {_certified(result):,} questions"
        promises.append(f"{text}; their error rates in a single group can be larger.")
    if result.composite is not None:
        promises.append(_composite(result.composite))
    if total := sum(question.refusals for question in result.log.values()):
        promises.append(f"Refusals, which count as cases that are not automatic: {total:,}.")
    few = gathered((found.sides[0].reason, short(name)) for name, found in result.items() if not found.certified)
    promises += [
        f"Too few rows for a threshold: {named(names, NAMED)} ({reason})."
        for reason, names in few.items()
        if reason.startswith("fewer")
    ]
    if result.certified:
        audited = next(iter(result.values())).sides[0].audit_rows
        promises.append(
            f"To check the promise later, label {audited:,} randomly chosen automatic answers for each "
            "threshold in each period, such as a week."
        )
    return [*promises, "The promise assumes independent inputs, and later inputs from the same population."]


def _composite(composite: Threshold) -> str:
    """Return what is certified of all choices and scores of an input together."""
    if composite.value is None:
        return "No single threshold could be certified that covers all choice and score questions of an input."
    cases = f"have a confidence of at least {composite.rounded:.6g} ({share_text(composite.coverage)} of inputs)"
    bound = (
        f"at most {percent(composite.max_risk)} of these inputs have a wrong answer to at least one of these questions"
    )
    every = "If the answers to all choice and score questions of an input"
    return f"{every} {cases}, {bound}; observed {share_text(composite.risk)}."


# ---------------------------------------------------------------- all questions


def _ends(found: ThresholdResult) -> str:
    """Return the scores at which answers are automatic, such as "no <= 0.07, yes >= 0.93"."""
    sides = sorted((side for side in found.sides if side.rounded is not None), key=lambda side: side.side)
    several = len(found.sides) > 1
    texts = [f"{f'{side.side} ' * several}{'≤' if side.side == 'no' else '≥'} {side.rounded:.6g}" for side in sides]
    return ", ".join(texts) or "none"


def _table(
    name: str, names: Sequence[str], found: Sequence[ThresholdResult], facts: Sequence[Column], title: str
) -> Table:
    """Return a table of thresholds with their coverage and observed risk."""
    exact = {
        f"threshold_{side}": [next((s.value for s in each.sides if s.side == side), None) for each in found]
        for side in ("yes", "no")
    }
    columns = [
        Column.of("question", "question", names, short),
        Column.of("rows", "rows", (each.n for each in found), amount),
        *facts,
        Column("automatic", [_ends(each) for each in found], exact),
        Column.of("coverage", "coverage", (each.coverage for each in found), share_text),
        Column.of("error rate", "risk", (each.risk for each in found), rate_text),
    ]
    return Table(name, columns, title)


def _overview(result: QuestionThresholds, *, observed: bool) -> list[Block]:
    log = result.log
    kinds = Column.of("kind", "kind", (log[name].kind for name in result), words=True, spare=2)
    names, found = [*result], [*result.values()]
    table = _table("questions", names, found, [kinds], "Thresholds of questions")
    refusals = Column.of("refusals", "refusals", (log[name].refusals for name in result), amount, spare=3)
    columns = [
        *table.columns,
        refusals,
        *(_observed([result.observed_gate(name) for name in result]) if observed else []),
    ]
    notes = [
        (
            "automatic: the scores at which an answer is used without review. The score of a yes-no question "
            "(predicate) is the probability of yes, and the score of any other question is the largest probability"
        ),
        (
            "coverage: automatic answers as a share of all answers and refusals; error rate: share of the automatic "
            "answers that are wrong"
        ),
    ]
    if observed:
        risk = percent(result.max_risk)
        notes.append(
            f"observed gate: the lowest confidence threshold for which at most {risk} of the answers at or above it "
            "are wrong in these rows (the confidence of a yes-no question with probability p of yes is 2 |p - 1/2|). "
            f"This gate is not certified: in about half of all samples, its true error rate is above {risk}"
        )
    return [Heading("Questions", "questions"), Table(table.name, columns, table.title), Notes(notes)]


def _observed(gates: Sequence[Gate | None]) -> list[Column]:
    """Return the gates by the accuracy in these rows."""
    thresholds = [None if gate is None else gate.threshold for gate in gates]
    coverages = [None if gate is None else gate.coverage for gate in gates]
    texts = [
        ["none" if value is None else f"{value:.6g}" for value in thresholds],
        ["-" if share is None else share_text(share) for share in coverages],
    ]
    return [
        Column("observed gate", texts[0], {"observed_gate": thresholds}),
        Column("its coverage", texts[1], {"observed_coverage": coverages}),
    ]


def _groups(result: QuestionThresholds) -> list[Block]:
    entries = [
        (group, _ALL if name is None else name, found)
        for group, part in result.by_group.items()
        for name, found in [*part.items(), *([] if part.composite is None else [(None, part.composite)])]
    ]
    if not entries:
        return []
    groups, names, found = zip(*entries, strict=True)
    table = _table("groups", names, found, [], "Thresholds of groups")
    columns = [Column.of("group", "group", groups, short), *table.columns]
    text = "The thresholds of all groups are certified together, by Holm's method."
    return [Heading("Groups", "groups"), Sentence(text), Table(table.name, columns, table.title)]


# ---------------------------------------------------------------- one question


def _sections(result: QuestionThresholds, source: Source, *, full: bool) -> list[Block]:
    """Return a section for each question; on a page with its risk-coverage curves."""
    blocks: list[Block] = []
    for place, (name, found) in enumerate(list(result.items())[:SECTIONS], 1):
        blocks += [Heading(f"Question {short(name)}", f"question-{place}"), *findings_of(found, source, audit=False)]
        if full:
            for side in found.sides:
                title = "Error rate by coverage" + (f', decisions "{side.side}"' if len(found.sides) > 1 else "")
                curve = within(curve_blocks(side, title, full=True), f"question-{place}")
                blocks.append(Details(title, curve, long=True))
    return [*blocks, *rest_of(len(result) - SECTIONS)]


def _method(result: QuestionThresholds) -> Method:
    how = METHODS[next(iter(result.values())).sides[0].method]
    together = (
        "the promise holds for all questions together by Holm's method, which is valid even if the answers to one "
        "input depend on each other"
    )
    text = f"{how}; {'each question is tested alone' if result.each else together}"
    automatic = 'Answers with this score or more are automatic; for the decision "no", answers with this score or less.'
    return Method("threshold", automatic, text)
