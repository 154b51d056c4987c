"""Errors about bad data: one line about the file and its columns, that ends with what to type."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
import numpy as np

from calibrant.cli import console, outcomes
from calibrant.cli.options import CommandOptions
from calibrant.cli.usage import command_line
from calibrant.errors import meant, quoted
from calibrant.errors.faults import MAY_BE_LOGITS, Fault, Mistake, NameFacts
from calibrant.errors.wording import Terms, reword

if TYPE_CHECKING:
    from calibrant.errors import FileError, InputError
    from calibrant.files import FileRows

#: The exit status of bad data.
BAD_DATA: Final = 1

#: If less than this share of the outcomes is 0 or 1, the column is wrong, not its rows.
_FEW: Final = 0.5
_LISTED: Final = 20  # labels that a remedy lists

#: The words of remedies: the command has these options.
_TERMS: Final = Terms(
    logits="pass --logits",
    no_logits="leave --logits out, or save",
    rounding="write values within [0, 1] if that is rounding",
    percent="pass --percent if the numbers are per cent",
    multilabel="--notion multilabel",
    ignore_index="pass --ignore-index {} if such rows are to be left out",
    class_names="--class-names",
)
#: Faults of single targets: `_for_targets` proposes options against them.
_OF_TARGETS: Final = (Fault.OUTCOMES, Fault.CLASS_INDICES, Fault.LABEL_TYPE, Fault.LABEL_NAMES)
_ARGUMENTS: Final = {
    "class_names": "--class-names",
    "ignore_index": "--ignore-index",
    "notion": "--notion",
    "logits": "--logits",
    "n_bins": "--n-bins",
    "bands": "--bands",
    "groups": "--by",
    "clusters": "--cluster",
    "weights": "--weight",
    "weights_are": "--weights-are",
}


class _Said(NamedTuple):
    """The text of an error, and whether it lists all unusable values of its column."""

    text: str
    is_whole: bool = False


@contextmanager
def failing(ctx: click.Context, options: CommandOptions | None = None) -> Iterator[list[FileRows]]:
    """On errors, print one line and exit with the status of bad data; errors about rows name their place in the files.

    The caller appends the rows of the files to the list, once they are read. A command that reads no rows needs no
    options.
    """
    from calibrant.errors import CalibrantError, FileError, FileFault, InputError

    files: list[FileRows] = []
    options = options or CommandOptions()

    def fail(message: str) -> None:
        _fail(message if options.config is None else f"{message} ({options.config})")

    try:
        yield files
    except InputError as error:
        if not files:
            fail(str(error))
        rows, said = files[0], _place(error, files[0], ctx, options)
        if error.argument not in rows.columns:
            fail(said.text)
        path = rows.paths[0] if error.row is None else rows.locate(error.row)[0]
        columns = (*rows.columns[error.argument], *(rows.columns["targets"] if error.fault is Fault.SWAPPED else ()))
        fail(_with_others(said, path, columns, rows.paths, options))
    except FileError as error:
        said, fault = _with_command(error, ctx, options), error.fault
        looked_at = fault in (FileFault.VALUE, FileFault.NO_SUCH_COLUMN)
        least = 1 if fault is FileFault.NO_SUCH_COLUMN else 2
        columns = () if error.column is None else (error.column,)
        fail(
            _with_others(said, error.path, columns, _beside(error, ctx, options), options, least)
            if looked_at
            else said.text
        )
    except CalibrantError as error:
        fail(str(error))
    except MemoryError:
        arrays = options.files and options.files[0].lower().endswith((".npz", ".npy"))
        remedy = "save fewer rows in a file" if arrays else "read fewer rows with --where"
        remedy = "leave --exact out" if options.exact else remedy
        fail(f"the predictions do not fit into memory; {remedy}")
    except OSError as error:
        fail(f"{error.filename or 'output'}: {error.strerror or error}; check the path and the disk")


def _fail(message: str) -> None:
    console.say(" ".join(message.split()))
    sys.exit(BAD_DATA)


def _with_others(
    said: _Said, path: str, columns: Sequence[str], paths: Sequence[str], options: CommandOptions, least: int = 2
) -> str:
    """Return an error about columns of a file after the numbers of all values that cannot be used, by kind.

    They are counted after a failure alone. A single value, a column whose values it lists, and a column that is the
    wrong one as a whole, the error says by itself.
    """
    from calibrant.errors import CalibrantError
    from calibrant.files import unusable_values

    if options.engine == "spark" or any(name.lower().endswith(".cal") for name in paths):
        return said.text
    try:
        found = unusable_values(paths, options, options.logits, options.ignore_index, options.targets_file)
    except (CalibrantError, OSError):  # the first error stands
        return said.text
    found = [each for each in found if not (each.is_whole and each.column in columns)]
    is_said = said.is_whole and [each.column for each in found] == list(columns)
    if is_said or sum(each.counts.total() for each in found) < least:
        return said.text
    listed = "; ".join(map(str, found[:_LISTED]))
    files = f" in {len(paths)} files" if len(paths) > 1 else ""
    return f"{path}: values that cannot be used{files}: {listed}; first: {said.text.removeprefix(f'{path}: ')}"


def _beside(error: FileError, ctx: click.Context, options: CommandOptions) -> list[str]:
    """Return the files whose rows are read together with those of an error; a comparison may have a file a model."""
    from calibrant.errors import CalibrantError
    from calibrant.files.paths import expand

    if ctx.command.name == "compare" and options.scores is None:
        return [error.path]
    try:
        paths = expand(options.files)
    except CalibrantError:
        return [error.path]
    return paths if error.path in paths else [error.path]


def _with_command(error: FileError, ctx: click.Context, options: CommandOptions) -> _Said:
    from calibrant.files import BadTarget, values_of, where_option
    from calibrant.files.columns import Unnamed

    if isinstance(error, BadTarget):
        found = values_of([error.path], error.column, options)
        got = f"column {quoted(error.column)}: expected outcomes 0 or 1, got {outcomes.listing(found)}"
        said = f"fill them, or leave such rows out with {where_option(found.is_known(), options.where)}"
        if not set(found.unusable) <= set(found.missing):
            said = outcomes.remedy(found, [error.path], error.column, error.score, ctx, options)
        elif len(found.missing) == 1:
            return _Said(str(error))
        return _Said(f"{error.path}: {got}; {said}", is_whole=True)
    if isinstance(error, Unnamed) and error.readings:
        cases = [f"{reading.case}, type: {command_line(ctx, reading.options)}" for reading in error.readings]
        return _Said("; ".join([f"{error.path}: {error.problem}", error.words, *cases]))
    if not error.options:
        return _Said(str(error) + _for_filled_in(error, options))
    return _Said(f"{error.path}: {error.problem}; {error.remedy}: {command_line(ctx, error.options)}")


def _for_filled_in(error: FileError, options: CommandOptions) -> str:
    """Return how to quote a pattern of columns that the shell expanded to files."""
    from calibrant.errors import FileFault

    option, value = ("--probs", options.probs) if options.probs else ("--scores", options.scores)
    if not value or not os.path.isfile(value) or error.fault in (FileFault.UNREADABLE, FileFault.VALUE):
        return ""
    other_files = [name for name in options.files[1:] if name[:1] == value[0]]  # the shell's other files
    common_letters = [
        pair[0] for pair in takewhile(lambda pair: len(set(pair)) == 1, zip(value, *other_files, strict=False))
    ]
    prefix = "".join(common_letters) if other_files else re.sub(r"[^_]*$", "", value)
    return f"; {quoted(value)} is a file: if the shell expanded a pattern, quote it: {option} '{prefix}*'"


def _place(error: InputError, predictions: FileRows, ctx: click.Context, options: CommandOptions) -> _Said:
    """Return an error of the library with its place in the files, and the option to type."""
    if error.fault is Fault.SWAPPED:
        return _Said(_swapped(error, predictions, ctx, options))
    if error.argument in predictions.columns:
        whole = _of_outcomes(error, predictions, ctx, options)
        if whole is not None:
            return _Said(whole, is_whole=True)
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
    problem = f"{quoted(score)}, used as the scores, holds labels, and {quoted(outcome)}, used as the outcomes, holds"
    return f"{predictions.paths[0]}: {problem} fractions: they look swapped; {remedy}"


def _remedy(error: InputError, predictions: FileRows, ctx: click.Context, options: CommandOptions) -> str:
    """Return the remedy for an error of the library."""
    if error.fault is Fault.PROBABILITIES_AS_LOGITS and not options.logits:
        return "its name says that it holds logits: rename it to probs"
    remedy = None
    if error.argument == "targets" and predictions.targets.ndim == 1:
        remedy = _for_targets(error, predictions, ctx, options)
    if error.argument == "probs" and predictions.arrays["probs"].ndim == 1 and error.facts.mistake in MAY_BE_LOGITS:
        remedy = _for_scores(predictions, ctx, options)
    if remedy is not None:
        return remedy
    models = _for_models(predictions, options) if error.argument == "probs" and error.fault is Fault.ROW_SUM else ""
    return reword(error, _TERMS).remedy + models


def _for_scores(predictions: FileRows, ctx: click.Context, options: CommandOptions) -> str | None:
    """Return what to type if the scores are integers such as a year; None if they may be logits."""
    from calibrant.files import likely_score

    scores, path = predictions.arrays["probs"], predictions.paths[0]
    if options.score is None or path.lower().endswith((".npz", ".npy")):
        return None
    if not np.array_equal(scores, np.floor(scores)) or np.isin(scores, (0, 1)).mean() >= _FEW:
        return None
    score = likely_score(path, predictions.columns["targets"][0])
    if score is None or score in predictions.columns["probs"]:
        return None
    return f"name the column that holds the probabilities, such as: {command_line(ctx, ('--score', score))}"


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
    return f"; or if they are models of one event, type: {shlex.join(words)}"


def _for_names(predictions: FileRows, ctx: click.Context, options: CommandOptions) -> str | None:
    """Return what to type if the targets are numbers and the columns have names; None if these do not match."""
    names, distinct = predictions.class_names or (), _distinct(predictions.targets)
    if any(re.fullmatch(r"-?\d+", name) for name in names) or not all(
        re.fullmatch(r"\d+", label) for label in distinct
    ):
        return None
    numbers, width = sorted(map(int, distinct)), len(names)
    if numbers[0] == 0 and numbers[-1] < width:
        first = 0
    elif numbers[0] >= 1 and numbers[-1] == width:
        first = 1
    else:
        return None
    names_kept = first == 0 and not options.labels and width <= _LISTED and all("," not in label for label in names)
    # If the labels are indices already, the names of the columns stay.
    words = ("--class-names", ",".join(names)) if names_kept else ("--labels", f"{first}-{width - 1 + first}")
    return f"if {first} is {quoted(names[0])}, and so on, type: {command_line(ctx, words)}"


def _for_targets(error: InputError, predictions: FileRows, ctx: click.Context, options: CommandOptions) -> str | None:
    """Return what to type against wrong targets; None for the library's own remedy."""
    one_event = all(array.ndim == 1 for name, array in predictions.arrays.items() if name.startswith("probs"))
    columns = () if one_event else predictions.columns.get("probs", ())
    distinct = _distinct(predictions.targets)
    if isinstance(error.facts, NameFacts):
        names = error.facts.names
        if columns and not options.labels and (remedy := _for_classes(columns, distinct, ctx)):
            return remedy
        remedy = _for_names(predictions, ctx, options)
        if remedy is None and len(names) <= _LISTED and not meant(error.facts.name, names):
            return "pass --labels as the file spells them, or correct the row"  # the problem lists the names
        return remedy
    if error.fault not in _OF_TARGETS:
        return None
    width = 2 if one_event else next(a.shape[1] for name, a in predictions.arrays.items() if name.startswith("probs"))
    strings = error.fault is Fault.LABEL_NAMES
    integers = strings or all(re.fullmatch(r"-?\d+", label) for label in distinct)
    if integers and not one_event and (remedy := _for_classes(columns, distinct, ctx)):
        return remedy
    if error.facts.mistake is Mistake.ONE_BASED:
        if one_event:
            return f"the labels look 1-based; {_for_events(['1', '2'], predictions, ctx)}"
        order = "" if _are_numbered(columns) else f"if 1 is {quoted(columns[0])}, and so on, "
        return f"the labels look 1-based; {order}type: {_typed(ctx, f'1-{width}' if width > 2 else '1,2')}"
    if len(distinct) == width and integers and (strings or one_event or error.facts.mistake is Mistake.TWO_LABELS):
        if one_event:
            return _for_events(distinct, predictions, ctx)
        if _are_numbered(columns) and len(distinct) <= _LISTED and all("," not in label for label in distinct):
            return f"if this is the order of the columns, type: {_typed(ctx, ','.join(distinct))}"
    if strings and not one_event and len(columns) > 1 and len(distinct) <= _LISTED:
        these = f"the labels of the columns {', '.join(columns)}"
        return f"pass --labels with {these}, in this order; the file has {', '.join(distinct)}"
    if strings and not one_event:
        return f"pass --labels with the {width} labels in the order of the columns, and commas between them"
    return "save the outcomes as 0 and 1" if one_event else None


def _for_events(labels: Sequence[str], predictions: FileRows, ctx: click.Context) -> str:
    """Return what to type for each of two labels that may be the event of the scores."""
    from calibrant.files.likely import event_of

    scores = [names[0] for name, names in predictions.columns.items() if name.startswith("probs")]
    event = event_of(labels, scores[0] if len(scores) == 1 else "")
    orders = [order for order in (tuple(labels), tuple(labels[::-1])) if event in (None, order[1])]
    return "; ".join(f"if {quoted(order[1])} is the event, type: {_typed(ctx, ','.join(order))}" for order in orders)


def _for_classes(columns: Sequence[str], labels: Sequence[str], ctx: click.Context) -> str | None:
    """Return what to type for columns that name the labels, as they are or in part; None where they do not."""
    from calibrant.files.likely import order_of

    order = order_of(columns, labels)
    return None if order is None else f"the columns are named like the labels; type: {_typed(ctx, ','.join(order))}"


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


def _of_outcomes(error: InputError, predictions: FileRows, ctx: click.Context, options: CommandOptions) -> str | None:
    """Return the whole message about a column of outcomes that holds something else; None for arrays and classes."""
    from calibrant.files import values_of

    probs = [name for name in predictions.columns if name.startswith("probs")]
    tables = not predictions.paths[0].lower().endswith((".npz", ".npy"))
    if not tables or error.argument != "targets" or any(predictions.arrays[name].ndim > 1 for name in probs):
        return None
    if error.fault not in (*_OF_TARGETS, Fault.UNKNOWN_NAME) or error.facts.mistake is Mistake.ONE_BASED:
        return None
    (column,) = predictions.columns["targets"]
    found = values_of(predictions.paths, column, options)
    names = error.facts.names if isinstance(error.facts, NameFacts) else ()
    if names and outcomes.proposal(found, options) is None:
        return None
    path, row = (predictions.paths[0], None) if error.row is None else predictions.locate(error.row)
    score = predictions.columns[probs[0]][0]
    if outcomes.are_two_labels(found):
        said = _remedy(error, predictions, ctx, options)
    else:
        said = outcomes.remedy(found, predictions.paths, column, score, ctx, options)
    place = f"{path}: " + (f"row {row:,}, " if row is not None else "") + f"column {quoted(column)}"
    expected = f"one of {', '.join(names)}" if names else "outcomes 0 or 1"
    return f"{place}: expected {expected}, got {outcomes.listing(found, names)}; {said}"
