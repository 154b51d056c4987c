"""The comparisons on questions as a document: a table of all questions, then a section for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from calibrant.render.blocks import (
    Block,
    Column,
    Details,
    Document,
    Heading,
    Method,
    Notes,
    Sentence,
    Source,
    Table,
    Tone,
)
from calibrant.render.words import (
    amount,
    capital,
    chance_text,
    distinct,
    explained,
    gathered,
    named,
    number,
    percent,
    short,
    worst,
)
from calibrant.report import comparison_document
from calibrant.report.question_document import NAMED, SECTIONS, facts_of_questions, headline_of, rest_of, within

if TYPE_CHECKING:
    from calibrant.report.comparison import Pair
    from calibrant.report.question_comparisons import QuestionComparison, QuestionComparisons
    from calibrant.results import Description

#: One question and one pair of models.
_Row = tuple["QuestionComparison", "Pair"]


def document_of(comparisons: QuestionComparisons, source: Source, *, full: bool, complete: bool) -> Document:
    """Return the comparisons as a document; ``full`` is what a page shows."""
    del complete  # a comparison has no profile
    verdict = [*_changes(comparisons), *_calibration(comparisons), *_tolerances(comparisons), *_cautions(comparisons)]
    return Document(
        title="Comparison of models by question",
        headline=_headline(comparisons),
        conclusion=verdict[0]._replace(text=verdict[0].text.removesuffix(".")),
        verdict=verdict,
        blocks=[*_overview(comparisons, full=full), *_sections(comparisons, source, full=full)],
        facts=_facts(comparisons, source),
        measured="question",
        methods=_methods(comparisons),
    )


def _headline(comparisons: QuestionComparisons) -> str:
    return f"{headline_of(comparisons.common.n, len(comparisons))}, {len(comparisons.names)} models"


def _facts(comparisons: QuestionComparisons, source: Source) -> list[tuple[str, str]]:
    first = next(iter(comparisons.values()))
    decision = first.pairs[0].decision
    return facts_of_questions(
        source,
        comparisons.common.n,
        len(comparisons),
        comparisons.names,
        ("rows matched by", "id" if comparisons.common.by_id else "position"),
        ("bins", f"{first.n_bins:,}"),
        ("confidence level", percent(comparisons.level)),
        ("tolerance", "" if decision is None else f"{decision.tolerance:g}"),
    )


# ---------------------------------------------------------------- the verdict


def _description(comparisons: QuestionComparisons, key: str) -> Description:
    return next(each.descriptions[key] for each in comparisons.values() if key in each.descriptions)


def _label(comparisons: QuestionComparisons, key: str) -> str:
    return _description(comparisons, key).label


def _tested(comparisons: QuestionComparisons) -> list[QuestionComparison]:
    return [each for each in comparisons.questions.values() if not each.flag]


def _of(found: Sequence[str], tested: int) -> str:
    """Return how many of the tested questions these are, with the names of some."""
    return f"in {len(found):,} of {tested:,} question{'s' * (tested != 1)}: {named(list(map(short, found)), NAMED)}"


def _changes(comparisons: QuestionComparisons) -> list[Sentence]:
    """Return in how many questions each other model is better or worse than the first one by the shown measure."""
    if not _tested(comparisons):
        return [Sentence("No question has enough rows for a test.", "caution")]
    key, how = comparisons.sorted_by, f"(simultaneous {percent(comparisons.level)} CI)"
    label, sign = _label(comparisons, key), 1 if _description(comparisons, key).better == "higher" else -1
    found = _with_first(comparisons, lambda _, pair: sign * pair[key].value if pair.differs(key) else 0.0)
    if not found:
        return [Sentence(f"No evidence in any question that the {label} differs {how}.")]
    return [
        Sentence(f"{name} has a {word} {label} than {first} {where} {how}.", tone)
        for name, word, first, where, tone in found
    ]


def _calibration(comparisons: QuestionComparisons) -> list[Sentence]:
    """Return in how many questions each other model is better or worse calibrated than the first one."""
    tested = _tested(comparisons)
    if not tested:
        return []
    after = " after Holm correction" * (sum(len(each.pairs) for each in tested) > 1)
    found = _with_first(comparisons, lambda each, pair: each.comparison.worse(pair) - each.comparison.better(pair))
    if not found:
        names = distinct(comparisons.names)
        other = names[comparisons.names[1]] if len(names) == 2 else "another model"
        neither = f"{names[comparisons.names[0]]} or {other}"
        return [Sentence(f"No evidence in any question that {neither} is better calibrated{after}.")]
    return [
        Sentence(f"{name} is {word} calibrated than {first}{after} {where}.", tone)
        for name, word, first, where, tone in found
    ]


def _with_first(
    comparisons: QuestionComparisons, worse: Callable[[QuestionComparison, Pair], float]
) -> list[tuple[str, str, str, str, Tone]]:
    """Return for each later model its name, whether it is worse or better than the first one, that one, and where.

    ``worse`` returns a number above 0 if the second model of a pair is shown to be worse, and below 0 if it is better.
    """
    names, tested = distinct(comparisons.names), _tested(comparisons)
    found: dict[tuple[str, bool], list[str]] = {}
    for each in tested:
        for pair in each.with_first:
            if direction := worse(each, pair):
                found.setdefault((pair.second, direction > 0), []).append(each.name)
    first = names[comparisons.names[0]]
    said: dict[bool, tuple[str, Tone]] = {True: ("worse", "bad"), False: ("better", "good")}
    return [
        (names[name], said[is_worse][0], first, _of(where, len(tested)), said[is_worse][1])
        for (name, is_worse), where in found.items()
    ]


def _tolerances(comparisons: QuestionComparisons) -> list[Sentence]:
    """Return in which questions the ECE is higher by more than the tolerance, in which not, and which are open."""
    states: dict[str, list[str]] = {}
    for each in comparisons.questions.values():
        own = [pair.decision for pair in each.with_first if pair.decision is not None]
        for state in ("disproven", "open", "proven"):  # the worst of the models
            if any(decision.state == state for decision in own):
                states.setdefault(state, []).append(each.name)
                break
    if not states:
        return []
    many, decision = len(comparisons.names) > 2, next(iter(comparisons.values())).pairs[0].decision
    first, second = list(distinct(comparisons.names).values())[:2]
    another, other = ("another model", "every other model") if many else (second, second)
    above = f"that of {first} by more than"
    tolerance = f"the tolerance of {0 if decision is None else decision.tolerance:g}"
    words: dict[str, tuple[str, Tone]] = {
        "disproven": (f"The ECE of {another} exceeds {above}", "bad"),
        "open": (f"The data do not show whether the ECE of {another} exceeds {above}", ""),
        "proven": (f"The ECE of {other} does not exceed {above}", "good"),
    }
    return [
        Sentence(f"{text} {tolerance} {_of(states[state], len(comparisons))}.", tone)
        for state, (text, tone) in words.items()
        if state in states
    ]


def _cautions(comparisons: QuestionComparisons) -> list[Sentence]:
    """Return what was not compared, and how rows were matched without ids."""
    common, names, cautions = comparisons.common, distinct(comparisons.names), []
    if not common.by_id:
        cautions.append(Sentence("The rows have no ids, so they were matched by their positions.", "caution"))
    lone = [f"{names[name]} ({count:,})" for name, count in common.lone_rows.items() if count]
    if lone:
        cautions.append(
            Sentence(f"Rows that are not compared, because their id is not in all logs: {', '.join(lone)}.")
        )
    for name, models in common.lone_questions.items():
        of = f"only {', '.join(names[model] for model in models)} answered"
        problem = "no row has answers of all models" if len(models) == len(names) else f"{of} it"
        cautions.append(Sentence(f"The question {short(name)} is not compared, because {problem}.", "caution"))
    for name, each in comparisons.questions.items():
        for model, options in each.question.lone_options.items():
            listed = named(list(map(short, options)), NAMED)
            cautions.append(
                Sentence(f"Answer options of {short(name)} that only {names[model]} has: {listed}.", "caution")
            )
    lacking = "Labelled answers are not compared if another model has no labelled answer to the same input"
    cautions += _left_out(comparisons, names, "refusals", "Refusals are not compared")
    cautions += _left_out(comparisons, names, "left_out", lacking)
    reasons = gathered((each.question.likeliest, short(name)) for name, each in comparisons.questions.items())
    for reason in filter(None, reasons):
        listed = named(reasons[reason], NAMED)
        cautions.append(Sentence(f"Only the likeliest answer is compared in {listed}, because {reason}."))
    return cautions


def _left_out(comparisons: QuestionComparisons, names: Mapping[str, str], key: str, what: str) -> list[Sentence]:
    """Return how many answers of each model are not compared; nothing if all are compared."""
    counts = [getattr(each.question, key) for each in comparisons.questions.values()]
    totals = {names[model]: sum(count[model] for count in counts) for model in comparisons.names}
    listed = ", ".join(f"{model} {total:,}" for model, total in totals.items())
    return [Sentence(f"{what}: {listed}.")] if any(totals.values()) else []


# ---------------------------------------------------------------- all questions


def _order(comparisons: QuestionComparisons) -> Sequence[int]:
    """Return the places of the questions to read: of many, those with the most evidence first."""
    questions = comparisons.questions.values()
    p_values = [min(pair[each.comparison.decides].p_value for pair in each.pairs) for each in questions]
    sizes = [max(abs(pair[comparisons.sorted_by].value) for pair in each.pairs) for each in questions]
    return worst(p_values, sizes)


def _overview(comparisons: QuestionComparisons, *, full: bool) -> list[Block]:
    """Return the table of the questions by the measure that was asked for, and those of other measures."""
    questions = [list(comparisons.questions.values())[i] for i in _order(comparisons)]
    rows = [(each, pair) for each in questions for pair in (each.pairs if full else each.with_first)]
    key, decides = comparisons.sorted_by, questions[0].comparison.decides
    marked = f"* The simultaneous {percent(comparisons.level)} CI excludes 0."
    blocks: list[Block] = [
        Heading(_heading(comparisons, key), "questions", searchable=len(questions) > SECTIONS),
        _table(comparisons, rows, key, "questions", tested=True),
        Notes([marked, *_notes(comparisons, full=full)]),
    ]
    for other in dict.fromkeys(("accuracy", "ece", decides)):
        if other == key:
            continue
        name = f"questions-{other.replace('_', '-')}"
        table = _table(comparisons, rows, other, name, tested=other == decides)
        heading = _heading(comparisons, other)
        shown = full or other != "ece"
        blocks += [Heading(heading, name, level=3), table] if shown else [Details(heading, [table])]
    return blocks


def _heading(comparisons: QuestionComparisons, key: str) -> str:
    names = distinct(comparisons.names, 24)
    of = " minus ".join(names[name] for name in comparisons.names) if len(names) == 2 else "differences"
    return f"{capital(_label(comparisons, key))}: {of}"


def _notes(comparisons: QuestionComparisons, *, full: bool) -> list[str]:
    flags = ((each.flag, short(each.name)) for each in comparisons.questions.values() if each.flag)
    notes = [f"– {why}" for why in explained(flags, NAMED)]
    notes.append(
        "calib. p: p-value of a difference in calibration, Holm-adjusted for all questions and pairs of models"
    )
    if not full and len(comparisons.names) > 2:
        first = distinct(comparisons.names)[comparisons.names[0]]
        notes.append(f"to see the pairs without {first}, use --json, --html, or to_pandas() in Python")
    return notes


def _table(comparisons: QuestionComparisons, rows: Sequence[_Row], key: str, name: str, *, tested: bool) -> Table:
    """Return the values of the models in each question and their difference with its interval."""
    parts = [pair[key] for _, pair in rows]
    two = len(comparisons.names) == 2
    called = distinct(comparisons.names, 12)
    columns = [
        Column.of("question", "question", (each.name for each, _ in rows)),
        Column.of("rows", "rows", (each.comparison.n for each, _ in rows), amount, spare=2),
        *_value_columns(rows, key, [called[name] for name in comparisons.names] if two else ["first", "second"]),
        *comparison_document.difference_columns(parts, comparisons.level, "simultaneous "),
    ]
    if tested:
        p_values = [pair[each.comparison.decides].p_value for each, pair in rows]
        shown = [chance_text(p_value) or "–" for p_value in p_values]
        heading = "calibration: p adjusted"
        columns.append(Column(heading, shown, {"adjusted_p_value": p_values}, brief="calib. p"))
    if not two:
        pairs = [f"{called[pair.first]} − {called[pair.second]}" for _, pair in rows]
        columns.insert(1, Column("models", pairs, words=True))
    return Table(name, columns, _label(comparisons, key), marked=[pair.differs(key) for _, pair in rows])


def _value_columns(rows: Sequence[_Row], key: str, heads: Sequence[str]) -> list[Column]:
    """Return the values of a measure of the two models of each pair."""
    write = "{:.6f}".format if key == rows[0][0].comparison.decides else number
    values = [[each.comparison.models[getattr(pair, side)][key] for each, pair in rows] for side in ("first", "second")]
    sides = zip(("first", "second"), heads, values, strict=True)
    return [Column.of(head, side, of_side, write, spare=1) for side, head, of_side in sides]


# ---------------------------------------------------------------- one question


def _sections(comparisons: QuestionComparisons, source: Source, *, full: bool) -> list[Block]:
    """Return a section for each question; of many, for those with the most evidence."""
    names, blocks = list(comparisons), list[Block]()
    shown = [names[i] for i in sorted(_order(comparisons)[:SECTIONS])]
    for name in shown:
        place = f"question-{names.index(name) + 1}"
        likeliest = comparisons.questions[name].question.likeliest
        event = replace(source, event="the likeliest answer is correct") if likeliest else source
        document = comparison_document.document_of(comparisons[name], event, full=full)
        own = within(document.blocks, place)
        blocks += [Heading(f"Question {short(name)}", place), Notes([document.headline]), *document.verdict]
        blocks += [Details("Models and differences", own, long=True)] if full else own
    adjusted = "the intervals in the section of a question are not adjusted for the other questions"
    return [*blocks, *rest_of(len(names) - len(shown), adjusted)]


def _methods(comparisons: QuestionComparisons) -> list[Method]:
    """Return how intervals and p-values hold together, and how the differences of a question were computed."""
    text = (
        "In the tables of all questions, the intervals of each measure are simultaneous: they hold together "
        "for all questions and pairs of models. Inputs are assumed to be independent, but the answers about "
        "one input may depend on each other. If the covariance of the differences can be estimated, the "
        "critical value is simulated for the largest standardised difference. Otherwise, such as for the "
        "ECE, the critical value is Bonferroni's. The p-values are adjusted by Holm's method. Decisions "
        "about a tolerance are not adjusted for the number of questions."
    )
    first = next(iter(comparisons.values()))
    own = comparison_document.document_of(first, Source(), full=False).methods
    return [Method("questions", "The differences in all questions.", text), *own]
