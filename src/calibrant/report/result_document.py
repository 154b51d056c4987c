"""A comparison of means as a document: which models may be the best, and the difference of each two."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from calibrant.render.blocks import (
    Block,
    Column,
    Details,
    Document,
    First,
    Heading,
    Method,
    Notes,
    Sentence,
    Source,
    Table,
)
from calibrant.render.words import (
    amount,
    capital,
    chance,
    chance_text,
    distinct,
    named,
    number,
    percent,
    share_text,
    version,
)
from calibrant.report import standings_document as standings
from calibrant.report.comparison_document import difference_columns
from calibrant.statistics.resampling import alpha_of

if TYPE_CHECKING:
    from calibrant.report.comparison import Pair
    from calibrant.report.result_comparison import ResultComparison

_NAME: Final = 24  # characters of a model's name in a table
_NAMED: Final = 6  # models in a sentence
_LISTED: Final = 6  # pairs that are shown in brief


def document_of(comparison: ResultComparison, source: Source, *, full: bool) -> Document:
    """Return the document of a comparison of means."""
    return Document(
        title="Comparison of models",
        headline=_headline(comparison),
        conclusion=Sentence(standings.conclusion(comparison)),
        verdict=[Sentence(text, "caution" if text.startswith("Caution: ") else "") for text in _verdict(comparison)],
        blocks=[
            *standings.leaderboard_blocks(comparison, full=full),
            *_models(comparison),
            *_pairs(comparison, full=full),
        ],
        facts=[
            ("questions", amount(comparison.n)),
            ("models", ", ".join(comparison.names)),
            ("attempts per question", _attempts(comparison)),
            ("confidence level", percent(comparison.level)),
            *source.facts(),
            ("made by", f"calibrant {version()}"),
        ],
        measured="difference",
        methods=_methods(comparison),
        first=First([], standings.picture(comparison), []) if full else None,
    )


def _headline(comparison: ResultComparison) -> str:
    n, attempts = comparison.n, _attempts(comparison)
    clusters = f" in {comparison.clusters['clusters']:,} clusters" if comparison.clusters else ""
    counts = f"{n:,} question{'s' * (n != 1)}{clusters}, {len(comparison.names)} models"
    return f"{counts}{f', {attempts} attempts per question' * bool(attempts)}"


def _attempts(comparison: ResultComparison) -> str:
    """Return the number of attempts per question; nothing for one."""
    least, most = comparison.attempts
    if most == 1:
        return ""
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


# ---------------------------------------------------------------- the verdict


def _verdict(comparison: ResultComparison) -> list[str]:
    """Return which models may be the best, how two models differ, and what the comparison assumes."""
    sentences = standings.calibration(comparison, with_p=False)
    pairs = comparison.pairs
    sentences += (
        [difference_text(pairs[0], comparison)] if len(comparison.names) == 2 else standings.ranking(comparison)
    )
    if comparison.unlinked:
        names = named([*comparison.unlinked], _NAMED)
        sentences.append(
            f"Caution: no common questions link these models to the others, so they are left out: {names}."
        )
    if comparison.sparse:
        shares = [pair[comparison.sorted_by].details["share"] for pair in pairs]
        sentences.append(
            f"The {standings.label_of(comparison)} is adjusted for the difficulty of the questions that a model "
            f"answered. In each pair of models, both answered {_range(shares)} of the questions that at least one of "
            "them answered."
        )
        sentences.append(
            "The adjustment assumes that a question is equally difficult for all models, and that models did not "
            "choose questions by how well they would do."
        )
    if comparison.attempts[1] > 1:
        sentences.append("The result of a question is the mean over its attempts.")
    units = "clusters of questions" if comparison.clusters else "questions"
    sentences.append(f"Confidence intervals and p-values assume independent {units}.")
    return sentences


def _range(shares: list[float]) -> str:
    low, high = share_text(min(shares)), share_text(max(shares))
    return low if low == high else f"{low} to {high}"


def difference_text(pair: Pair, comparison: ResultComparison) -> str:
    """Return how two models differ, with the interval and the p-value."""
    part, label = pair[comparison.sorted_by], standings.label_of(comparison)
    names = distinct(comparison.names, 40)
    first, second = names[pair.first], names[pair.second]
    what = f"{label} of {first} minus {label} of {second}"
    if not math.isfinite(part.low):
        return f"The data do not show how the models differ: {part.method.removeprefix('no interval: ')}."
    ends = f"{percent(comparison.level)} CI {part.low:+z.4f} to {part.high:+z.4f}"
    text = f"{what}: {part.value:+z.4f} ({ends}; p {chance(part.p_value)})."
    if part.low <= 0 <= part.high:
        return f"No evidence of a different {label}. {capital(text)}"
    if part.p_value > alpha_of(comparison.level):
        borderline = "the confidence interval excludes 0, but the exact test does not reject equality"
        return f"Borderline evidence of a different {label}: {borderline}. {capital(text)}"
    is_better = (part.value > 0) == (comparison.descriptions[comparison.sorted_by].better == "higher")
    better, worse = (first, second) if is_better else (second, first)
    return f"{better} has a better {label} than {worse}. {capital(text)}"


# ---------------------------------------------------------------- the tables


def _models(comparison: ResultComparison) -> list[Block]:
    """Return what each model answered, if models answered different questions."""
    if not comparison.sparse:
        return []
    names, label = comparison.names, standings.label_of(comparison)
    columns = [
        Column.of("model", "model", names),
        Column.of("questions answered", "answered", (comparison.answered[name] for name in names), "{:,}".format),
        Column.of(f"{label}, unadjusted", "unadjusted", (comparison.unadjusted[name] for name in names), number),
    ]
    if comparison.tests:
        p_values = [comparison.tests[name].p_value for name in names]
        columns.append(Column.of("calibration: p", "p_value", p_values, chance_text))
    note = "Unadjusted means depend on the difficulty of the questions that a model answered."
    return [Heading("Models"), Table("models", columns, "Models"), Notes([note])]


def _pairs(comparison: ResultComparison, *, full: bool) -> list[Block]:
    """Return the difference of each two models; those with the best model first."""
    best = comparison.leaderboard[0].name
    pairs = sorted(comparison.pairs, key=lambda pair: best not in (pair.first, pair.second))
    names, key = distinct(comparison.names, _NAME), comparison.sorted_by
    parts = [pair[key] for pair in pairs]
    exact = {"first": [pair.first for pair in pairs], "second": [pair.second for pair in pairs]}
    texts = [f"{names[pair.first]} − {names[pair.second]}" for pair in pairs]
    columns = [
        Column("first − second", texts, exact, words=True),
        *difference_columns(parts, comparison.level),
        Column.of("p", "p_value", (part.p_value for part in parts), chance_text),
    ]
    if comparison.sparse:
        columns.append(Column.of("questions in common", "common", (part.details["common"] for part in parts)))
        shares = [part.details["share"] for part in parts]
        columns.append(Column.of("share in common", "share", shares, share_text, spare=1))
    elif "only_first" in parts[0].details:
        for side, heading in (("only_first", "only first correct"), ("only_second", "only second correct")):
            columns.append(Column.of(heading, side, (part.details[side] for part in parts), "{:,}".format, spare=1))
    title = f"Differences in the {standings.label_of(comparison)}"
    table = Table("differences", columns, title)
    notes = Notes(
        [
            "Each difference is the first model minus the second model. Its interval and p-value are not "
            "adjusted for the number of pairs. The leaderboard shows adjusted p-values and simultaneous intervals of "
            "the differences to the best model."
        ]
    )
    if full or len(pairs) <= _LISTED:
        return [Heading(title), table, notes]
    return [Details(title, [table, notes])]


def _methods(comparison: ResultComparison) -> list[Method]:
    description, best = comparison.descriptions[comparison.sorted_by], comparison.leaderboard[0]
    pair = comparison.pairs[0][comparison.sorted_by]
    exact = "; p-value: exact McNemar test" * ("only_first" in pair.details)
    return [
        Method(description.label, description.meaning, best[comparison.sorted_by].method),
        Method("difference", "The first model minus the second model.", f"{pair.method}{exact}"),
        Method("difference to the best", "By how much a model is worse than the best model.", best.difference.method),
    ]
