"""Evaluation logs of language models as tables: recognised by their content, and copied to JSON lines.

The copy has a row for each question, with its columns under the same names whichever harness wrote the log. What a row
cannot tell is missing in the copy; it is an error only if the caller reads this column.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import chain, takewhile
from typing import Final

from calibrant.errors import FileError, FileFault, quoted
from calibrant.files.column_options import ColumnSelection, Options, listed
from calibrant.files.local import conversion_error, new_copy, original, stand_in
from calibrant.files.log_rows import (
    NORMALISATIONS,
    QUESTION,
    InspectLog,
    LogRow,
    Protocol,
    choices_rows,
    dotted,
    first_object,
    harness_protocol,
    harness_rows,
    is_choices,
    is_harness,
    is_inspect,
)
from calibrant.files.paths import kind_of, without_mark
from calibrant.runtime.dataclass import dataclass

#: How many tasks, models and other facts of logs are listed.
_LISTED: Final = 4


@dataclass
class EvaluationLog:
    """A log whose rows are copied; `_convert` fills it in."""

    protocol: Protocol
    copy: str  #: the file with its rows
    width: int = 0  #: of its longest list of probabilities
    #: The columns with a value in some row, those within objects with dots.
    columns: set[str] = field(default_factory=set)
    #: By column, the first row without a value, why, and what to do.
    missing: dict[str, tuple[int, str, str]] = field(default_factory=dict)
    #: The filters of lm-evaluation-harness, in their order: each has a row for each question.
    filters: dict[str, None] = field(default_factory=dict)


_logs: dict[str, EvaluationLog] = {}  # by the names of their files


def read_logs(paths: Sequence[str], check_stopped: Callable[[], None]) -> dict[str, int]:
    """Copy the logs among JSON files; `check_bytes` raises what is wrong with one. ``check_stopped`` may end the work.

    Returns the lengths of their lists of probabilities: of all logs, that of the question with the most choices. A
    choice that a question lacks has probability 0. A copy of another file lacks the byte-order mark.
    """
    copies = {log.copy for log in _logs.values()}
    for path in paths:
        source = original(path)
        if source not in copies:  # the copy of a file from elsewhere
            stand_in(path, source, lambda path=path: _convert(path, check_stopped))  # type: ignore[misc]
    width = max((_logs[path].width for path in paths if path in _logs), default=0)
    return dict.fromkeys(NORMALISATIONS, width) if width else {}


def is_log(path: str) -> bool:
    """Whether a file is an evaluation log."""
    return kind_of(path) == "json" and (path in _logs or _reader(path) is not None)


def log_columns(path: str) -> tuple[str, ...]:
    """Return the columns of a log, from its first row; empty for another file."""
    if path not in _logs and (reader := _reader(path)) is not None:
        return tuple(dotted(next(reader[1], LogRow({})).cells))
    return tuple(sorted(_logs[path].columns)) if path in _logs else ()


# ---------------------------------------------------------------- the copy


def _reader(path: str) -> tuple[Protocol, Iterator[LogRow]] | None:
    """Return the protocol and the rows of a log; None for another file."""
    if is_inspect(path):
        log = InspectLog(path)
        return log.protocol(), log.rows()
    first = first_object(path)
    if is_harness(first):
        return harness_protocol(path), harness_rows(path)
    if is_choices(first):
        return Protocol(harness="choices with log-probabilities"), choices_rows(path)
    return None


def _convert(path: str, check_stopped: Callable[[], None]) -> str | None:
    """Copy a log to JSON lines, or another file without its mark; return the copy, None if none is needed."""
    _logs.pop(path, None)  # of an earlier version of the file
    reader = _reader(path)
    if reader is None:
        return without_mark(path)
    protocol, rows = reader
    log, count = EvaluationLog(protocol, new_copy(".jsonl")), 0
    with open(log.copy, "x", encoding="ascii") as target:
        for count, row in enumerate(rows, 1):
            check_stopped()
            try:
                target.write(json.dumps(row.cells, allow_nan=False) + "\n")
            except ValueError:
                problem = f"row {count:,} holds a number that is not finite"
                raise FileError(path, problem, "write the log again, with numbers as JSON has them") from None
            log.columns.update(dotted({name: cell for name, cell in row.cells.items() if cell is not None}))
            for name, (why, remedy) in row.missing.items():
                log.missing.setdefault(name, (count, why, remedy))
            log.filters.setdefault(str(row.cells.get("filter", "")))
            log.width = max(log.width, len(row.cells.get("probs", ())))
    if not count:
        raise FileError(path, "holds no samples", "run the evaluation again, or leave the file out")
    _logs[path] = log
    return log.copy


# ---------------------------------------------------------------- what is read of it


def with_defaults(paths: Sequence[str], options: Options) -> Options:
    """Return options that also name the columns of logs that the caller leaves open."""
    logs = {path: _logs[path] for path in paths if path in _logs}
    if not logs:
        return options
    (first_path, first), *_ = logs.items()
    _check_kinds(paths, logs)
    if not any("filter" in sql for sql in (options.where or "", *options.by)):
        _check_filters(logs)
    if options.on_questions and not options.on and name_questions(paths):
        keys = {QUESTION} if options.attempts else {QUESTION, "epoch"} & first.columns
        options = replace(options, on=tuple(sorted(keys, reverse=True)))
    if not options.name_scores:
        with_choices = filter(lambda log: log.width, logs.values())
        options = _with_scores(first_path, next(with_choices, first), options)
    _check_percent(first_path, options)
    if options.outcome is not None or options.target is not None:
        return options
    if not {options.probs, *options.models}.isdisjoint(NORMALISATIONS):
        return replace(options, target="target")
    # Each of several scorers has its own outcome, such as scores.match.correct.
    of_scorer = f"{(options.score or '').rpartition('.')[0]}.correct"
    return replace(options, outcome=of_scorer if of_scorer in first.columns else "correct")


def _check_percent(path: str, options: Options) -> None:
    """Reject probabilities from log-likelihoods that are called percentages."""
    computed = {options.score, options.probs, *options.models} & {"chosen_probability", *NORMALISATIONS}
    if options.percent and computed:
        problem = (
            f"--percent is given, but {min(filter(None, computed))} is a probability computed from log-likelihoods"
        )
        raise FileError(path, problem, "leave --percent out, or name a column of stated confidences with --score")


def _check_kinds(paths: Sequence[str], logs: Mapping[str, EvaluationLog]) -> None:
    """Reject logs of different harnesses, and other files among logs."""
    first_path, first = next(iter(logs.items()))
    for path in paths:
        if conversion_error(path) is not None:  # `check_bytes` raises it
            continue
        harness = logs[path].protocol.harness if path in logs else ""
        if harness != first.protocol.harness:
            what = f"a log of {harness}" if harness else "not an evaluation log"
            problem = f"is {what}, but {first_path} is a log of {first.protocol.harness}"
            raise FileError(path, problem, "pass logs of one kind at a time", fault=FileFault.OTHER_KIND)


def _check_filters(logs: Mapping[str, EvaluationLog]) -> None:
    """Reject several rows of each question."""
    for path, log in logs.items():
        first, *others = log.filters
        if others:
            problem = f"has one row for each of {len(log.filters)} filters: {listed([first, *others])}"
            raise FileError(path, problem, f"choose one filter: --where \"filter = '{first}'\"")


def _with_scores(path: str, log: EvaluationLog, options: Options) -> Options:
    if "probs" in log.columns:
        return replace(options, probs="probs")
    names = [name for name in ("confidence", "chosen_probability") if name in log.columns]
    if len(names) == 1:
        return replace(options, score=names[0])
    stated = [name for name in sorted(log.columns) if name.endswith(".confidence")]
    for what, those in (("several columns of probabilities", names), ("columns of stated confidences", stated)):
        if those:
            problem = f"has {what}: {' and '.join(those)}"
            raise FileError(path, problem, "name the column to evaluate", ("--score", those[0]))
    why = next((log.missing[name][1] for name in ("probs", "chosen_probability") if name in log.missing), "")
    columns = listed(sorted(log.columns))
    remedy = f"name a column of stated confidences with --score COLUMN --percent; the columns are {columns}"
    problem = f"holds no probabilities: {why}" if why else "holds no probabilities"
    raise FileError(path, problem, remedy, fault=FileFault.NO_PROBABILITIES)


def check(path: str, options: Options) -> None:
    """Reject a column of a log that has no value in some row; a condition may leave such rows out."""
    log = _logs.get(path)
    if log is None:
        return
    for name in options.columns:
        if name in log.missing and (options.where is None or name not in log.columns):
            row, why, remedy = log.missing[name]
            raise FileError(path, f"row {row:,}, column {quoted(name)}: {why}", remedy)


def patterns_of_folders(paths: Sequence[str]) -> list[str]:
    """Return a pattern for the logs of each folder, if folders look like models; empty if each log may be a model.

    Folders do if there are several, and one of them has logs of several tasks, which no one would compare.
    """
    folders: dict[str, list[str]] = {}
    tasks: dict[str, set[str]] = {}
    for path in paths:
        reader = _reader(path)
        folder = os.path.dirname(path)
        folders.setdefault(folder, []).append(os.path.basename(path))
        tasks.setdefault(folder, set()).add("" if reader is None else reader[0].task)
    if len(folders) < 2 or max(map(len, tasks.values())) < 2:
        return []
    return [os.path.join(folder, _pattern(names)) for folder, names in folders.items()]


def _pattern(names: Sequence[str]) -> str:
    """Return a pattern for these names."""
    alike = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    start = glob.escape("".join(letters[0] for letters in alike))
    end = os.path.splitext(names[0])[1]
    return names[0] if len(names) == 1 else f"{start}*{end}"


def name_questions(paths: Sequence[str]) -> bool:
    """Whether files are logs that name the question of every row."""
    logs = [_logs.get(path) for path in paths]
    return all(log is not None and QUESTION in log.columns and QUESTION not in log.missing for log in logs)


def models_of(paths: Sequence[str]) -> list[str] | None:
    """Return the models that logs name, which have been read; None unless each file is a log of another model."""
    names = [_logs[path].protocol.model for path in paths if path in _logs]
    return names if len(set(names)) == len(paths) and all(names) else None


def protocol(paths: Sequence[str], selection: ColumnSelection) -> str:
    """Return how logs were made and how their log-likelihoods became probabilities; empty for other files."""
    made = [_logs[path].protocol for path in paths if path in _logs]
    if not made:
        return ""
    tasks = _some("task", [each.task for each in made])
    models = _some("model", [each.model for each in made])
    details = _some("", list(chain.from_iterable(each.details for each in made)))
    harness = _some("", [f"{each.harness} {each.version}".strip() for each in made])
    columns = (name for name in selection.probs if name in NORMALISATIONS)
    how = "; ".join(NORMALISATIONS[name] for name in columns)
    return "; ".join(filter(None, (", ".join(filter(None, (harness, tasks, details, models))), how)))


def _some(noun: str, names: Sequence[str]) -> str:
    """Return the distinct names, of many the first."""
    distinct = list(dict.fromkeys(filter(None, names)))
    more = f" and {len(distinct) - _LISTED} more" if len(distinct) > _LISTED else ""
    word = f"{noun}{'s' * (len(distinct) > 1)} " if noun and distinct else ""
    return f"{word}{', '.join(distinct[:_LISTED])}{more}"
