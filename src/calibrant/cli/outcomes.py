"""What to type where a column of outcomes holds something else: every value is listed, and none is dropped unsaid."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from calibrant.cli.options import CommandOptions
from calibrant.cli.usage import command_line

if TYPE_CHECKING:
    from calibrant.files import Held

_LISTED: Final = 20  # values that a message lists

#: Two words for an outcome, the event second.
_PAIRS: Final = re.findall(
    r"(\S+)/(\S+)",
    """
    no/yes n/y false/true f/t 0/1 loss/win lost/won lose/win l/w negative/positive neg/pos fail/pass failed/passed
    failure/success incorrect/correct wrong/right absent/present miss/hit
    """,
)
#: Words for rows whose outcome is not known.
_UNKNOWN: Final = frozenset(
    re.findall(
        r"\S+",
        """
        mkt cancel canceled cancelled void voided ambiguous annulled unresolved pending open unknown undecided unclear
        invalid abandoned postponed withdrawn disputed
        """,
    )
)


def listing(held: Held, labels: Sequence[str] = ()) -> str:
    """Return the values that are no outcomes, or none of the labels, with the numbers of their rows."""
    wrong = {text: count for text, count in held.counts.items() if text not in labels} if labels else held.unusable
    counts = sorted(wrong.items(), key=lambda each: (-each[1], each[0] is None, str(each[0])))
    words = [f"{_shown(text, held)} in {count:,}" for text, count in counts[:_LISTED]]
    if words:
        words[0] += " row" + "s" * (counts[0][1] != 1)
    more = f" and {len(counts) - _LISTED:,} other values" if len(counts) > _LISTED else ""
    return ", ".join(words) + more


def _shown(text: str | None, held: Held) -> str:
    return "nothing (null)" if text is None else text.removesuffix(".0") if held.is_number else _quoted(text)


def _quoted(text: str) -> str:
    from calibrant.files import shown

    return shown(text)


def are_two_labels(held: Held) -> bool:
    """Whether a column holds two labels that ``--labels`` can name, and nothing else."""
    return len(held.counts) == len(held.present) == 2 and all(map(_is_label, held.present))


def _is_label(text: str) -> bool:
    """Whether ``--labels`` can name a value; a number with a fraction, such as that of a draw, is no label."""
    return (
        text == text.strip() and text != "" and "," not in text and (not _is_number(text) or float(text).is_integer())
    )


def remedy(
    held: Held, paths: Sequence[str], column: str, score: str, ctx: click.Context, options: CommandOptions
) -> str:
    """Return what to type where the column of outcomes holds something else than 0 and 1."""
    from calibrant.files import likely_outcome, likely_prediction, sql_name

    choice = proposal(held, options)
    outcome = likely_outcome(paths[0], score) if choice is None else None
    if outcome is not None and outcome != column:
        return f"name the column that holds 0 and 1, such as: {typed(ctx, ('--outcome', outcome), options)}"
    if choice is None:
        predicted = likely_prediction(paths[0], column)
        if predicted is not None:
            words = f"if {_quoted(predicted)} is the predicted label, and the event is that it is right"
            choice = words, ("--outcome", f"{sql_name(predicted)} = {held.spoken}")
        elif 0 < len(held.present) <= _LISTED:
            choice = of_event([max(held.present)], held, options)
        else:
            return "name the column that holds 0 and 1 with --outcome"
    return f"{choice[0]}, type: {typed(ctx, choice[1], options)}"


def typed(ctx: click.Context, words: Sequence[str], options: CommandOptions) -> str:
    """Return the command with other options for the outcome: what they replace is left out."""
    is_new = "--outcome" in words
    without = ["--labels", "--class-names", *(["--target"] if options.target is not None else [])] if is_new else []
    return command_line(ctx, words, without)


def proposal(held: Held, options: CommandOptions) -> tuple[str, tuple[str, ...]] | None:
    """Return when and what to type for the values that a column holds; None where they say too little.

    Two labels are named with ``--labels``, and rows with an unknown outcome left out in the same command. Of several
    outcomes one is the event, and all other rows are kept.
    """
    by_word: dict[str, list[str]] = {}
    for text in held.present:
        by_word.setdefault(f"{float(text):g}" if _is_number(text) else text.strip().casefold(), []).append(text)
    numbers = [float(word) for word in by_word if _is_number(word)]
    are_whole = all(number.is_integer() for number in numbers)
    pair = next((pair for pair in _PAIRS if by_word.keys() >= set(pair)), None)
    if pair is None and len(by_word) == 2 and are_whole:
        pair = tuple(sorted(by_word, key=lambda word: (float(word), "") if _is_number(word) else (math.inf, word)))
    rest = [word for word in by_word if pair is None or word not in pair]
    if pair is not None and all(word in _UNKNOWN or (_is_number(word) and not _is_number(pair[1])) for word in rest):
        return _of_pair([by_word[word] for word in pair], bool(rest), held, options)
    named = (pair for pair in _PAIRS if by_word.keys() >= set(pair) or (len(pair[1]) > 1 and pair[1] in by_word))
    event = next((pair[1] for pair in named), None)
    if "1" in by_word and len(numbers) == len(by_word) and all(-1 <= number <= 1 for number in numbers):
        event = "1"
    return None if event is None else of_event(by_word[event], held, options)


def of_event(texts: Sequence[str], held: Held, options: CommandOptions) -> tuple[str, tuple[str, ...]]:
    """Return how to judge some values as the event, and all others as not the event."""
    condition = held.is_among(texts) if len(texts) > 1 else held.equals(texts[0])
    where = _where(held.is_known(), options) if held.missing else ()
    others = "all other values are" if len(held.present) - len(texts) > 1 else "other values are"
    left_out = f", and the rows without an outcome ({held.n_missing:,}) are left out" if where else ""
    return f"if {_quoted(texts[0].removesuffix('.0'))} is the event and {others} not{left_out}", (
        "--outcome",
        condition,
        *where,
    )


def _of_pair(
    pair: Sequence[Sequence[str]], has_others: bool, held: Held, options: CommandOptions
) -> tuple[str, tuple[str, ...]]:
    """Return how to judge two labels, the event second, without the rows of unknown outcomes."""
    texts = [text for side in pair for text in side]
    where = _where(held.is_among(texts), options) if has_others or held.missing else ()
    others = sum(held.counts.values()) - sum(held.counts[text] for text in texts)
    left_out = f" and the rows of unknown outcome ({others:,}) are left out" if where else ""
    words = f"if {_quoted(pair[1][0])} is the event{left_out}"
    if len(texts) == 2 and all(map(_is_label, texts)):
        return words, ("--labels", ",".join(text.removesuffix(".0") for text in texts), *where)
    event = held.equals(pair[1][0]) if len(pair[1]) == 1 else held.is_among(pair[1])
    return words, ("--outcome", event, *where)


def _where(condition: str, options: CommandOptions) -> tuple[str, str]:
    return "--where", condition if options.where is None else f"({options.where}) AND {condition}"


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
