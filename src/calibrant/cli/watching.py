"""The command ``monitor``: slices of files are added to a state, which two commands never change at once."""

from __future__ import annotations

import math
import os
import re
from calendar import monthrange
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from click.core import ParameterSource

from calibrant.cli import console, loading, output
from calibrant.cli.options import CommandOptions
from calibrant.errors import FileError, FileFault, nearest, quoted
from calibrant.errors.wording import number
from calibrant.files.column_values import number_in
from calibrant.files.hints import first_values
from calibrant.files.loaded import FileDecisions, FilePredictions, FileSketch
from calibrant.files.paths import expand
from calibrant.files.sketches import is_sketch_file
from calibrant.files.sources import table_of
from calibrant.files.sql import dates_in, sql_name, sql_option
from calibrant.monitoring import Monitor, state
from calibrant.render.words import short
from calibrant.results.envelope import of_file, parsed, read_bytes

if TYPE_CHECKING:
    import click

    from calibrant.files.chunks import Progress

#: The groups of a period, as SQL of a column.
_PERIODS: Final = {"day": "strftime({}, '%Y-%m-%d')", "week": "week({})", "month": "month({})"}

#: Labels of periods: years, weeks, months and days.
_PERIOD: Final = re.compile(r"(?P<year>\d{4})(-W(?P<week>\d\d)|-(?P<month>\d\d)(-(?P<day>\d\d))?)?")

#: Whole numbers that are years.
_YEARS: Final = range(1000, 3000)

#: What all slices of a state have in common, and how to read a slice so.
_SAME: Final = {
    "score": "name the same column with --score or --probs, or rename the column",
    "event": "name the same event with --outcome, --labels or --question",
}

#: Characters of the names of columns in an error.
_NAMED: Final = 100

#: The settings that only a new state takes.
_SETTINGS: Final = ("alpha", "tolerance", "tolerance_odds", "max_weight")


def run(ctx: click.Context, options: CommandOptions) -> bool:
    """Add the files to the state and show it; return whether there is an alarm."""
    predictions = None
    if options.files:
        with output.progress(quiet=options.quiet) as step:
            predictions = _loaded(ctx, options, step)
    with loading.about(predictions):
        if predictions is None:
            content = state.read(options.state_path)
            if content is None:
                remedy = "name a file with the first slice, such as week31.csv"
                raise FileError(options.state_path, "does not exist", remedy)
            watch = Monitor.of_state(content, options.state_path)
        else:
            with state.locked(options.state_path):
                watch = _updated(predictions, options)
                state.write(options.state_path, watch.to_state())
        output.write_monitor(watch, predictions, options)
    return watch.alarm or watch.promise_broken


def _loaded(
    ctx: click.Context, options: CommandOptions, step: Progress
) -> FilePredictions | FileSketch | FileDecisions:
    """Read the files. The periods of ``--time`` are groups, and an error about them is one about ``--time``."""
    if options.time is None:
        return loading.load(ctx, options, step)
    if _are_years(ctx, options, options.time):
        return loading.load(ctx, replace(options, by=(options.time,), by_values=True), step)
    time = _sql_of(options.time, options)
    periods = _PERIODS[options.every].format(time)
    try:
        return loading.load(ctx, replace(options, by=(periods,)), step)
    except FileError as error:
        if type(error) is not FileError:  # one that proposes columns
            raise
        named = quoted(periods), quoted(options.time)
        problem, remedy = (
            text.replace(*named).replace(periods, time).replace("--by", "--time")
            for text in (error.problem, error.remedy)
        )
        if error.fault is not FileFault.VALUE:
            remedy = _for_times(error.path, options.time) or remedy
        raise FileError(error.path, problem, remedy, error.options, error.fault, options.time) from None


def _sql_of(time: str, options: CommandOptions) -> str:
    """Return the SQL of ``--time``, which names a column or is SQL itself."""
    path = expand(options.files)[0]
    is_name = re.fullmatch(r"\w+", time) or is_sketch_file(path) or time in table_of(path).columns
    return sql_name(time) if is_name else time


def _for_times(path: str, column: str) -> str:
    """Return how to read the cells of a column as dates; empty if nothing fits them."""
    cells = first_values(path, column)
    typed = " or ".join(sql_option("--time", way) for way in dates_in(column, cells))
    return f"to read the cells as dates, pass {typed}" if typed else ""


def _are_years(ctx: click.Context, options: CommandOptions, column: str) -> bool:
    """Whether a column holds years, whole numbers of four digits: each year is a period."""
    path = expand(options.files)[0]
    numbers = [] if is_sketch_file(path) else [number_in(cell) for cell in first_values(path, column)]
    if not numbers or any(map(math.isnan, numbers)):
        return False
    if all(year.is_integer() and year in _YEARS for year in numbers):
        if ctx.get_parameter_source("every") is ParameterSource.COMMANDLINE:
            problem = f"--time {quoted(column)} contains years, but --every {options.every} needs dates"
            raise FileError(path, problem, "leave --every out, so that each year is one slice")
        return True
    problem = f"--time {quoted(column)} contains numbers such as {numbers[0]:.12g}, which are not dates or years"
    remedy = _for_times(path, column) or "name a column of dates, times, or years of four digits"
    raise FileError(path, problem, remedy)


def _updated(predictions: FilePredictions | FileSketch | FileDecisions, options: CommandOptions) -> Monitor:
    """Return the monitor of the state with the new slices."""
    content = state.read(options.state_path)
    given = {name: value for name in _SETTINGS if (value := getattr(options, name)) is not None}
    if content is None:
        watch = Monitor(**given, groups=options.groups)
    else:
        watch = Monitor.of_state(content, options.state_path)
        _check_settings(watch, given, options)
        if watch.groups and options.time is not None and not isinstance(predictions, FileDecisions):
            remedy = "leave --time out, pass --by and one file for each slice, or begin a new state"
            raise FileError(options.state_path, "was begun with --by, which does not work with --time", remedy)
    if options.threshold_path is not None:
        with of_file(options.threshold_path):
            watch.watch_threshold(_threshold(options.threshold_path, options.question))
    known, seen = set(watch.labels), []
    spans = list(filter(None, map(_span, known)))
    for label, arguments in _slices(predictions, options):
        if options.time is not None and label in known:
            seen.append(label)
        else:
            if options.time is not None:
                _check_period(label, spans, options)
            watch.update(**arguments, label=label)
    read_from = _read_from(watch, predictions, options)
    _check_read_from(watch.read_from, read_from, predictions.paths[0])
    watch.read_from = {**read_from, **watch.read_from}
    if seen and not options.quiet:
        console.say(f"{len(seen)} periods up to {seen[-1]} are in the state already and are not added again")
    return watch


def _span(label: str) -> tuple[date, date, str] | None:
    """Return the first and the last day of a label that is a day, a week, a month or a year; None of another one."""
    match = _PERIOD.fullmatch(label)
    if match is None:
        return None
    year, week, month, day = (int(part or 0) for part in match.group("year", "week", "month", "day"))
    try:
        if week:
            return date.fromisocalendar(year, week, 1), date.fromisocalendar(year, week, 7), label
        first = date(year, month or 1, day or 1)
        last = first if day else date(year, month or 12, monthrange(year, month or 12)[1])
    except ValueError:  # a month 13
        return None
    return first, last, label


def _check_period(label: str, spans: Sequence[tuple[date, date, str]], options: CommandOptions) -> None:
    """Reject a period with days of a slice that has another label: its rows would count twice."""
    own = _span(label)
    other = own and next((name for first, last, name in spans if first <= own[1] and own[0] <= last), None)
    if other:
        problem = f"already has a slice {quoted(other)} that overlaps the period {quoted(label)}"
        remedy = f"pass the same --every as for slice {quoted(other)}, or begin a new state"
        raise FileError(options.state_path, problem, remedy)


def _read_from(
    watch: Monitor, predictions: FilePredictions | FileSketch | FileDecisions, options: CommandOptions
) -> dict[str, str]:
    """Return the column of the score and the event that a slice was read from; nothing of a sketch."""
    event = output.event_of(watch, predictions, options)
    read = {"score": ", ".join(predictions.columns.get("probs", ())), "event": event}
    return {name: text for name, text in read.items() if text}


def _check_read_from(before: Mapping[str, str], now: Mapping[str, str], path: str) -> None:
    """Reject another score or event than that of earlier slices: the evidence would be about two models."""
    for name, remedy in _SAME.items():
        if name in before and before[name] != now.get(name, before[name]):
            read, had = (quoted(short(text, _NAMED)) for text in (now[name], before[name]))
            problem = f"is read with the {name} {read}, but earlier slices have {had}"
            raise FileError(path, problem, f"{remedy}, or begin a new state")


def _check_settings(watch: Monitor, given: Mapping[str, Any], options: CommandOptions) -> None:
    """Reject options that differ from those that a state was begun with."""
    if options.groups is not None and set(options.groups) != set(watch.groups or ()):
        had = ", ".join(watch.groups or ()) or "none"
        problem = f"was started with groups ({had}) that differ from --groups"
        raise FileError(options.state_path, problem, "leave --groups out, or start a new state file")
    for name, value in given.items():
        option, own = f"--{name.replace('_', '-')}", watch.settings[name]
        if own != value:
            had = f"without {option}" if own is None else f"with {option} {number(own)}, not {number(value)}"
            raise FileError(options.state_path, f"was started {had}", f"leave {option} out, or start a new state file")


def _threshold(path: str, question: str | None) -> dict[str, Any]:
    """Return the JSON of a threshold, or that of one question among several."""
    remedy = "name the JSON file that calibrant threshold --json wrote"
    content = read_bytes(path, remedy)
    try:
        found = parsed(content)
    except ValueError as error:
        raise FileError(path, f"is not a threshold file of calibrant ({str(error)[:100]})", remedy) from None
    if not isinstance(found, dict):
        raise FileError(path, "is not a threshold file of calibrant", remedy)
    if question is None or "questions" not in found:
        return found
    parts = found["questions"]
    if not isinstance(parts, list) or not all(
        isinstance(part, dict) and isinstance(part.get("name"), str) for part in parts
    ):
        raise FileError(path, "is not a file with the thresholds of questions", remedy)
    if found.get("groups"):
        problem = "contains thresholds of groups of rows, which a monitor of a question does not have"
        raise FileError(path, problem, "certify the thresholds without --by")
    entries: dict[str, dict[str, Any]] = {part["name"]: part for part in parts}
    if question not in entries:
        raise FileError(path, f"contains no threshold for the question {quoted(question)}", nearest(question, entries))
    return entries[question]


def _label_of(paths: Sequence[str], options: CommandOptions) -> str:
    """Return the name of the file or the folder of a slice with its partitions; of several the first and the last."""
    given = options.files
    if len(given) == 1 and has_magic(given[0]) and not os.path.exists(given[0]):
        given = tuple(paths)
    first, last = map(_name_of, (given[0], given[-1]))
    return first if first == last else f"{first} … {last}"


def _name_of(path: str) -> str:
    """Return a name such as week31 of a file or a folder; in partitions, such as day=2026-11-01/part-0, with these."""
    folders, name = os.path.split(path.rstrip("/"))
    parts = [part for part in folders.split("/") if "=" in part]
    return "/".join([*parts, name if os.path.isdir(path) else Path(name).stem])


def _slices(
    predictions: FilePredictions | FileSketch | FileDecisions, options: CommandOptions
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the label and the arguments of each slice, in order."""
    label = _label_of(predictions.paths, options) if options.label is None else options.label
    if isinstance(predictions, FileSketch):
        sketches = {label: predictions.sketch} if options.time is None else predictions.sketch.groups
        yield from ((name, {"probs": sketch}) for name, sketch in sorted(sketches.items()))
        return
    arguments = {**loading.data_of(predictions, options), "weights_are": options.weights_are}
    if options.time is None or isinstance(predictions, FileDecisions):
        yield label, arguments
        return
    periods = np.asarray(predictions.groups).astype(str)
    for period in np.unique(periods).tolist():
        held = np.flatnonzero(periods == period)
        columns = {name: arguments[name] for name in ("probs", "targets", "weights", "clusters")}
        parts = {name: None if value is None else np.asarray(value)[held] for name, value in columns.items()}
        if options.ignore_index is not None and bool(np.all(parts["targets"] == options.ignore_index)):
            continue  # no label of this period is known yet
        yield period, {**arguments, **parts, "groups": None}
