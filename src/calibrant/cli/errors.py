"""Errors about bad data: one line about the file and its columns, that ends with what to type."""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
import numpy as np

from calibrant.cli.options import CommandOptions
from calibrant.cli.usage import command_line
from calibrant.errors import CalibrantError, FileError, FileFault, InputError, meant, quoted
from calibrant.errors.faults import MAY_BE_LOGITS, Fault, Mistake, NameFacts
from calibrant.errors.wording import Terms, reword
from calibrant.files.class_names import EVENTS, event_of, order_of
from calibrant.files.columns import Unnamed
from calibrant.files.hints import candidates_in, unusable_values, values_of
from calibrant.files.paths import expand
from calibrant.files.roles import best_pair, predicted_beside
from calibrant.files.sql import sql_name, where_option
from calibrant.files.values import BadTarget, shown

if TYPE_CHECKING:
    from calibrant.files.hints import Held
    from calibrant.files.predictions import FileRows

#: If less than this share of the outcomes is 0 or 1, the column is wrong, not its rows.
_FEW: Final = 0.5
_LISTED: Final = 20  # labels or values that a message lists

#: The words of remedies: the command has these options.
_TERMS: Final = Terms(
    logits="pass --logits",
    no_logits="leave --logits out, or save",
    rounding="clip the values to [0, 1] if rounding caused this",
    percent="pass --percent if the numbers are percentages",
    multilabel="--notion multilabel",
    ignore_index="pass --ignore-index {} to leave such rows out",
    class_names="--class-names",
)
#: Faults of single targets: `_for_labels` proposes options against them.
_OF_TARGETS: Final = (Fault.OUTCOMES, Fault.CLASS_INDICES, Fault.LABEL_TYPE, Fault.LABEL_NAMES)
_ARGUMENTS: Final = {
    "groups": "--by",
    "clusters": "--cluster",
    "weights": "--weight",
    **{
        option.removeprefix("--").replace("-", "_"): option
        for option in (
            "--class-names",
            "--ignore-index",
            "--notion",
            "--logits",
            "--n-bins",
            "--bands",
            "--weights-are",
            "--method",
            "--max-risk",
            "--yes-risk",
            "--no-risk",
            "--sort-by",
        )
    },
}


class _Said(NamedTuple):
    """The text of an error, and whether it lists all unusable values of its column."""

    text: str
    is_whole: bool = False


def message(error: Exception, files: Sequence[FileRows], ctx: click.Context, options: CommandOptions) -> str:
    """Return the line about an error; one about rows, in the files that were read, names their place there."""
    match error:
        case InputError() if files:
            text = _of_rows(error, files[0], ctx, options)
        case FileError():
            text = _of_file(error, ctx, options)
        case InputError():
            text = str(error.renamed(_ARGUMENTS))
        case CalibrantError():
            text = str(error)
        case MemoryError():
            arrays = options.files and options.files[0].lower().endswith((".npz", ".npy"))
            remedy = "save fewer rows in a file" if arrays else "read fewer rows with --where"
            text = f"the predictions do not fit into memory; {'leave --exact out' if options.exact else remedy}"
        case OSError():
            text = f"{error.filename or 'output'}: {error.strerror or error}; check the path and the disk"
        case _:
            raise error
    return text if options.config is None else f"{text} ({options.config})"


def _of_rows(error: InputError, rows: FileRows, ctx: click.Context, options: CommandOptions) -> str:
    said = _place(error, rows, ctx, options)
    if error.argument not in rows.columns:
        return said.text
    path = rows.paths[0] if error.row is None else rows.locate(error.row)[0]
    columns = (*rows.columns[error.argument], *(rows.columns["targets"] if error.fault is Fault.SWAPPED else ()))
    return _with_others(said, path, columns, rows.paths, options)


def _of_file(error: FileError, ctx: click.Context, options: CommandOptions) -> str:
    said = _with_command(error, ctx, options)
    if error.fault not in (FileFault.VALUE, FileFault.NO_SUCH_COLUMN):
        return said.text
    least = 1 if error.fault is FileFault.NO_SUCH_COLUMN else 2
    columns = () if error.column is None else (error.column,)
    return _with_others(said, error.path, columns, _beside(error, ctx, options), options, least)


def _with_others(
    said: _Said, path: str, columns: Sequence[str], paths: Sequence[str], options: CommandOptions, least: int = 2
) -> str:
    """Return an error about columns of a file after the numbers of all values that cannot be used, by kind.

    They are counted after a failure alone. A single value, a column whose values it lists, and a column that is the
    wrong one as a whole, the error says alone.
    """
    if options.engine == "spark" or any(name.lower().endswith(".cal") for name in paths):
        return said.text
    try:
        unusable = unusable_values(paths, options, options.logits, options.ignore_index, options.targets_file)
    except (CalibrantError, OSError):  # the first error stands
        return said.text
    unusable = [each for each in unusable if not (each.is_whole and each.column in columns)]
    is_said = said.is_whole and [each.column for each in unusable] == list(columns)
    if is_said or sum(each.counts.total() for each in unusable) < least:
        return said.text
    listed = "; ".join(map(str, unusable[:_LISTED]))
    files = f" in {len(paths)} files" if len(paths) > 1 else ""
    return f"{path}: values that cannot be used{files}: {listed}; first: {said.text.removeprefix(f'{path}: ')}"


def _beside(error: FileError, ctx: click.Context, options: CommandOptions) -> list[str]:
    """Return the files whose rows are read together with those of an error; a comparison may have a file a model."""
    if ctx.command.name == "compare" and options.scores is None:
        return [error.path]
    try:
        paths = expand(options.files)
    except CalibrantError:
        return [error.path]
    return paths if error.path in paths else [error.path]


def _with_command(error: FileError, ctx: click.Context, options: CommandOptions) -> _Said:
    if isinstance(error, BadTarget):
        held = values_of([error.path], error.column, options)
        got = f"column {quoted(error.column)}: expected outcomes 0 or 1, got {_listing(held)}"
        remedy = f"fill the outcomes, or leave such rows out with {where_option(held.is_known(), options.where)}"
        if not set(held.unusable) <= set(held.missing):
            remedy = _for_outcomes(held, [error.path], error.column, error.score, ctx, options)
        elif len(held.missing) == 1:
            return _Said(str(error))
        return _Said(f"{error.path}: {got}; {remedy}", is_whole=True)
    if isinstance(error, Unnamed) and error.readings:
        cases = [f"{reading.case}, type: {command_line(ctx, reading.options)}" for reading in error.readings]
        return _Said("; ".join([f"{error.path}: {error.problem}", error.words, *cases]))
    if not error.options:
        return _Said(str(error) + _for_filled_in(error, options))
    return _Said(f"{error.path}: {error.problem}; {error.remedy}: {command_line(ctx, error.options)}")


def _for_filled_in(error: FileError, options: CommandOptions) -> str:
    """Return how to quote a pattern of columns that the shell expanded to files."""
    option, value = ("--probs", options.probs) if options.probs else ("--scores", options.scores)
    if not value or not os.path.isfile(value) or error.fault in (FileFault.UNREADABLE, FileFault.VALUE):
        return ""
    other_files = [name for name in options.files[1:] if name[:1] == value[0]]  # the shell's other files
    common = os.path.commonprefix([value, *other_files])  # noqa: RUF071 - characters, as in a pattern
    prefix = common if other_files else re.sub(r"[^_]*$", "", value)
    return f"; {quoted(value)} is a file: if the shell expanded a pattern, quote it: {option} '{prefix}*'"


def _place(error: InputError, predictions: FileRows, ctx: click.Context, options: CommandOptions) -> _Said:
    """Return an error of the library with its place in the files, and the option to type."""
    if error.fault is Fault.SWAPPED:
        return _Said(_swapped(error, predictions, ctx, options))
    if error.argument in predictions.columns:
        text = _of_outcomes(error, predictions, ctx, options)
        if text is not None:
            return _Said(text, is_whole=True)
        path, problem = predictions.place(error)
        return _Said(f"{path}: {problem}; {_remedy(error, predictions, ctx, options)}")
    argument = _ARGUMENTS.get(error.argument, error.argument)
    argument = "--labels" if argument == "--class-names" and options.labels else argument
    expected, got, _ = reword(error, _TERMS)
    remedy = _remedy(error, predictions, ctx, options)
    return _Said(f"{predictions.paths[0]}: {argument}: expected {expected}, got {got}; {remedy}")


def _swapped(error: InputError, predictions: FileRows, ctx: click.Context, options: CommandOptions) -> str:
    columns = predictions.columns
    score, outcome = columns[error.argument if error.argument in columns else "probs"][0], columns["targets"][0]
    remedy = "name the scores with --scores and the outcomes with --outcome"
    if options.scores is None:
        names = ("--score", "--outcome") if options.score is not None else ("--probs", "--target")
        remedy = f"type: {command_line(ctx, (names[0], outcome, names[1], score))}"
    problem = f"the scores {quoted(score)} are labels and the outcomes {quoted(outcome)} are fractions"
    return f"{predictions.paths[0]}: {problem}, so the two columns look swapped; {remedy}"


def _remedy(error: InputError, predictions: FileRows, ctx: click.Context, options: CommandOptions) -> str:
    """Return the remedy for an error of the library."""
    if error.fault is Fault.PROBABILITIES_AS_LOGITS and not options.logits:
        return "the name of the array suggests logits; if it holds probabilities, rename it to probs"
    remedy = None
    if error.argument == "targets" and predictions.targets.ndim == 1:
        remedy = _for_labels(error, predictions, ctx, options)
    if error.argument == "probs" and predictions.arrays["probs"].ndim == 1 and error.facts.mistake in MAY_BE_LOGITS:
        remedy = _for_scores(predictions, ctx, options)
    if remedy is not None:
        return remedy
    models = _for_models(predictions, options) if error.argument == "probs" and error.fault is Fault.ROW_SUM else ""
    return reword(error, _TERMS).remedy + models


def _for_scores(predictions: FileRows, ctx: click.Context, options: CommandOptions) -> str | None:
    """Return what to type if the scores are integers such as a year; None if they may be logits."""
    scores, path = predictions.arrays["probs"], predictions.paths[0]
    if options.score is None or path.lower().endswith((".npz", ".npy")):
        return None
    if not np.array_equal(scores, np.floor(scores)) or np.isin(scores, (0, 1)).mean() >= _FEW:
        return None
    seen = candidates_in(path)
    pair = best_pair(seen, seen.scores, [predictions.columns["targets"][0]])
    if pair is None or pair[0] in predictions.columns["probs"]:
        return None
    return f"name the column that holds the probabilities, such as: {command_line(ctx, ('--score', pair[0]))}"


def _for_models(predictions: FileRows, options: CommandOptions) -> str:
    """Return what to type if the columns of classes may be models."""
    probs, targets = options.probs, predictions.targets
    if not probs or "," not in probs or targets.ndim > 1 or targets.dtype.kind not in "fiub":
        return ""
    if not np.isin(targets, (0, 1)).all():
        return ""
    words = ["calibrant", "compare", *options.files, "--scores", ",".join(predictions.columns["probs"])]
    target = options.outcome if options.target is None else options.target
    for option, value in (("--outcome", target), ("--weight", options.weight), ("--where", options.where)):
        words += [option, value] if value is not None else []
    return f"; if the columns are models of one event, type: {shlex.join(words)}"


def _for_name(facts: NameFacts, predictions: FileRows, ctx: click.Context, options: CommandOptions) -> str | None:
    """Return what to type if a label is not among the names; None if the library's remedy is more precise."""
    names, labels = predictions.class_names or (), _distinct(predictions.targets)
    if not any(re.fullmatch(r"-?\d+", name) for name in names) and all(re.fullmatch(r"\d+", each) for each in labels):
        numbers, width = sorted(map(int, labels)), len(names)
        first = min(numbers[0], 1)
        if numbers[-1] == width if first else numbers[-1] < width:
            names_kept = (
                first == 0 and not options.labels and width <= _LISTED and all("," not in name for name in names)
            )
            # If the labels are indices already, the names of the columns stay.
            words = ("--class-names", ",".join(names)) if names_kept else ("--labels", f"{first}-{width - 1 + first}")
            return f"if label {first} is class {quoted(names[0])}, and so on, type: {command_line(ctx, words)}"
    if len(facts.names) <= _LISTED and not meant(facts.name, facts.names):
        return "pass --labels with the spelling of the file, or correct the row"  # the problem lists the names
    return None


def _for_labels(error: InputError, predictions: FileRows, ctx: click.Context, options: CommandOptions) -> str | None:
    """Return what to type against wrong targets; None for the library's own remedy."""
    probs = [array for name, array in predictions.arrays.items() if name.startswith("probs")]
    one_event = all(array.ndim == 1 for array in probs)
    columns = () if one_event else predictions.columns.get("probs", ())
    labels = _distinct(predictions.targets)
    if isinstance(error.facts, NameFacts):
        if columns and not options.labels and (remedy := _for_named_columns(columns, labels, ctx)):
            return remedy
        return _for_name(error.facts, predictions, ctx, options)
    if error.fault not in _OF_TARGETS:
        return None
    are_names = error.fault is Fault.LABEL_NAMES or all(re.fullmatch(r"-?\d+", label) for label in labels)
    if not one_event:
        width = next(array.shape[1] for array in probs)
        return _for_classes(error, columns, labels, width, ctx, are_names=are_names)
    if error.facts.mistake is Mistake.ONE_BASED:
        return f"the labels look 1-based; {_for_events(['1', '2'], predictions, ctx)}"
    return _for_events(labels, predictions, ctx) if len(labels) == 2 and are_names else "save the outcomes as 0 and 1"


def _for_classes(
    error: InputError, columns: Sequence[str], labels: Sequence[str], width: int, ctx: click.Context, *, are_names: bool
) -> str | None:
    """Return what to type for labels of classes, which are text or whole numbers if ``are_names``."""
    if are_names and (remedy := _for_named_columns(columns, labels, ctx)):
        return remedy
    mistake, few = error.facts.mistake, len(labels) <= _LISTED
    if mistake is Mistake.ONE_BASED:
        order = "" if _are_numbered(columns) else f"if label 1 is column {quoted(columns[0])}, and so on, "
        return f"the labels look 1-based; {order}type: {_typed(ctx, f'1-{width}' if width > 2 else '1,2')}"
    strings = error.fault is Fault.LABEL_NAMES
    are_all = len(labels) == width and are_names and (strings or mistake is Mistake.TWO_LABELS)
    if are_all and _are_numbered(columns) and few and all("," not in label for label in labels):
        return f"if the columns have the order of these labels, type: {_typed(ctx, ','.join(labels))}"
    if not strings:
        return None
    if len(columns) > 1 and few:
        these = f"the labels of the columns {', '.join(columns)}"
        return f"pass --labels with {these}, in this order; the file has {', '.join(labels)}"
    return f"pass --labels with the {width} labels, separated by commas, in the order of the columns"


def _for_events(labels: Sequence[str], predictions: FileRows, ctx: click.Context) -> str:
    """Return what to type for each of two labels that may be the event of the scores."""
    scores = [names[0] for name, names in predictions.columns.items() if name.startswith("probs")]
    event = event_of(labels, scores[0] if len(scores) == 1 else "")
    orders = [order for order in (tuple(labels), tuple(labels[::-1])) if event in (None, order[1])]
    return "; ".join(f"if {quoted(order[1])} is the event, type: {_typed(ctx, ','.join(order))}" for order in orders)


def _for_named_columns(columns: Sequence[str], labels: Sequence[str], ctx: click.Context) -> str | None:
    """Return what to type for columns that name the labels, whole or in part; None where they do not."""
    order = order_of(columns, labels)
    return None if order is None else f"the columns have the names of the labels; type: {_typed(ctx, ','.join(order))}"


def _are_numbered(columns: Sequence[str]) -> bool:
    """Whether columns are only numbered, and do not name the classes; a column of lists has no names."""
    numbers = [re.search(r"[0-9]*$", name) for name in columns]
    ends = [match[0] for match in numbers if match]
    return len(columns) == 1 or ends in ([str(first + k) for k in range(len(columns))] for first in (0, 1))


def _typed(ctx: click.Context, labels: str) -> str:
    return command_line(ctx, ("--labels", labels))


def _distinct(targets: np.ndarray[Any, Any]) -> list[str]:
    """Return the distinct labels as the file spells them, sorted."""
    values = sorted(set(targets.tolist())) if targets.dtype.kind == "O" else np.unique(targets).tolist()
    return [str(int(v)) if isinstance(v, float) and v.is_integer() else str(v) for v in values]


# ---------------------------------------------------------------- a column of outcomes that holds something else

#: Words for rows whose outcome is not known.
_UNKNOWN: Final = re.findall(
    r"\w+",
    """
    mkt cancel canceled cancelled void voided ambiguous annulled unresolved pending open unknown undecided unclear
    invalid abandoned postponed withdrawn disputed
    """,
)


def _of_outcomes(error: InputError, predictions: FileRows, ctx: click.Context, options: CommandOptions) -> str | None:
    """Return the whole message about a column of outcomes that holds something else; None for arrays and classes."""
    probs = [name for name in predictions.columns if name.startswith("probs")]
    tables = not predictions.paths[0].lower().endswith((".npz", ".npy"))
    if not tables or error.argument != "targets" or any(predictions.arrays[name].ndim > 1 for name in probs):
        return None
    if error.fault not in (*_OF_TARGETS, Fault.UNKNOWN_NAME) or error.facts.mistake is Mistake.ONE_BASED:
        return None
    (column,) = predictions.columns["targets"]
    held = values_of(predictions.paths, column, options)
    names = error.facts.names if isinstance(error.facts, NameFacts) else ()
    if names and _proposal(held, options) is None:
        return None
    path, row = (predictions.paths[0], None) if error.row is None else predictions.locate(error.row)
    score = predictions.columns[probs[0]][0]
    if len(held.counts) == len(held.present) == 2 and all(map(_is_label, held.present)):
        remedy = _remedy(error, predictions, ctx, options)
    else:
        remedy = _for_outcomes(held, predictions.paths, column, score, ctx, options)
    place = f"{path}: " + (f"row {row:,}, " if row is not None else "") + f"column {quoted(column)}"
    expected = f"one of {', '.join(names)}" if names else "outcomes 0 or 1"
    return f"{place}: expected {expected}, got {_listing(held, names)}; {remedy}"


def _listing(held: Held, labels: Sequence[str] = ()) -> str:
    """Return the values that are not outcomes, or none of the labels, with the numbers of their rows."""
    wrong = {text: count for text, count in held.counts.items() if text not in labels} if labels else held.unusable
    counts = sorted(wrong.items(), key=lambda each: (-each[1], each[0] is None, str(each[0])))
    words = [f"{_value(text, held)} in {count:,}" for text, count in counts[:_LISTED]]
    if words:
        words[0] += " row" + "s" * (counts[0][1] != 1)
    more = f" and {len(counts) - _LISTED:,} other values" if len(counts) > _LISTED else ""
    return ", ".join(words) + more


def _value(text: str | None, held: Held) -> str:
    return "nothing (null)" if text is None else text.removesuffix(".0") if held.is_number else shown(text)


def _is_label(text: str) -> bool:
    """Whether ``--labels`` can name a value; a number with a fraction, such as that of a draw, is not a label."""
    return (
        text == text.strip() and text != "" and "," not in text and (not _is_number(text) or float(text).is_integer())
    )


def _for_outcomes(
    held: Held, paths: Sequence[str], column: str, score: str, ctx: click.Context, options: CommandOptions
) -> str:
    """Return what to type where the column of outcomes holds something else than 0 and 1."""
    choice = _proposal(held, options)
    if choice is None:
        seen = candidates_in(paths[0])
        pair = best_pair(seen, [score], seen.outcomes)
        if pair is not None and pair[1] != column:
            return f"name the column that holds 0 and 1, such as: {_replaced(ctx, ('--outcome', pair[1]), options)}"
        predicted = predicted_beside(seen, column)
        if predicted is not None:
            words = f"if {shown(predicted)} is the predicted label, and the event is a correct prediction"
            choice = words, ("--outcome", f"{sql_name(predicted)} = {held.spoken}")
        elif 0 < len(held.present) <= _LISTED:
            choice = _of_event([max(held.present)], held, options)
        else:
            return "name the column that holds 0 and 1 with --outcome"
    return f"{choice[0]}, type: {_replaced(ctx, choice[1], options)}"


def _replaced(ctx: click.Context, words: Sequence[str], options: CommandOptions) -> str:
    """Return the command with other options for the outcome: what they replace is left out."""
    is_new = "--outcome" in words
    without = ["--labels", "--class-names", *(["--target"] if options.target is not None else [])] if is_new else []
    return command_line(ctx, words, without)


def _proposal(held: Held, options: CommandOptions) -> tuple[str, tuple[str, ...]] | None:
    """Return when and what to type for the values that a column holds; None where they say too little.

    Two labels are named with ``--labels``, and rows with an unknown outcome left out in the same command. If there are
    more outcomes, one is the event and all other rows are kept.
    """
    by_word: dict[str, list[str]] = {}
    for text in held.present:
        by_word.setdefault(f"{float(text):g}" if _is_number(text) else text.strip().casefold(), []).append(text)
    pair = _pair_among(list(by_word))
    if pair is not None:
        rest = [word for word in by_word if word not in pair]
        if all(word in _UNKNOWN or (_is_number(word) and not _is_number(pair[1])) for word in rest):
            return _of_pair([by_word[word] for word in pair], bool(rest), held, options)
    event = _event_among(list(by_word))
    return None if event is None else _of_event(by_word[event], held, options)


def _pair_among(words: Sequence[str]) -> tuple[str, ...] | None:
    """Return the two words for an outcome that a column holds, the event second; of two labels these."""
    pair = next((pair for pair in EVENTS if set(words) >= set(pair)), None)
    if pair is None and len(words) == 2 and all(float(word).is_integer() for word in words if _is_number(word)):
        return tuple(sorted(words, key=lambda word: (float(word), "") if _is_number(word) else (math.inf, word)))
    return pair


def _event_among(words: Sequence[str]) -> str | None:
    """Return the word for the event among several outcomes; 1 among numbers from -1 to 1."""
    if "1" in words and all(_is_number(word) and -1 <= float(word) <= 1 for word in words):
        return "1"
    pairs = (pair for pair in EVENTS if set(words) >= set(pair) or (len(pair[1]) > 1 and pair[1] in words))
    return next((event for _, event in pairs), None)


def _of_event(texts: Sequence[str], held: Held, options: CommandOptions) -> tuple[str, tuple[str, ...]]:
    """Return how to name some values as the event, and all others as not the event."""
    condition = held.is_among(texts) if len(texts) > 1 else held.equals(texts[0])
    where = _where(held.is_known(), options) if held.missing else ()
    others = "all other values are" if len(held.present) - len(texts) > 1 else "other values are"
    left_out = f", and the rows without an outcome ({held.n_missing:,}) are left out" if where else ""
    return f"if {shown(texts[0].removesuffix('.0'))} is the event and {others} not the event{left_out}", (
        "--outcome",
        condition,
        *where,
    )


def _of_pair(
    pair: Sequence[Sequence[str]], has_others: bool, held: Held, options: CommandOptions
) -> tuple[str, tuple[str, ...]]:
    """Return how to name two labels, the event second, without the rows of unknown outcomes."""
    texts = [text for side in pair for text in side]
    where = _where(held.is_among(texts), options) if has_others or held.missing else ()
    others = sum(held.counts.values()) - sum(held.counts[text] for text in texts)
    left_out = f" and the rows of unknown outcome ({others:,}) are left out" if where else ""
    words = f"if {shown(pair[1][0])} is the event{left_out}"
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
