"""The command ``monitor``: slices of files are added to a state, which two commands never change at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from click.core import ParameterSource

from calibrant.cli import console, loading, output
from calibrant.cli.options import CommandOptions
from calibrant.errors import FileError, nearest, quoted
from calibrant.errors.wording import number
from calibrant.files.column_values import number_in
from calibrant.files.hints import first_values
from calibrant.files.loaded import FileDecisions, FilePredictions, FileSketch
from calibrant.files.paths import expand
from calibrant.files.sketches import is_sketch_file
from calibrant.files.sql import sql_name
from calibrant.monitoring import Monitor, state
from calibrant.results.envelope import of_file, parsed, read_bytes

if TYPE_CHECKING:
    import click

    from calibrant.files.chunks import Progress

#: The groups of a period, as SQL of a column.
_PERIODS: Final = {"day": "strftime({}, '%Y-%m-%d')", "week": "week({})", "month": "month({})"}

#: Whole numbers that are years.
_YEARS: Final = range(1000, 3000)

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
    return watch.alarm or watch.promise_broken or bool(watch.called_out)


def _loaded(
    ctx: click.Context, options: CommandOptions, step: Progress
) -> FilePredictions | FileSketch | FileDecisions:
    """Read the files. The periods of ``--time`` are groups, and an error about them is one about ``--time``."""
    if options.time is None:
        return loading.load(ctx, options, step)
    if _are_years(ctx, options, options.time):
        return loading.load(ctx, replace(options, by=(options.time,), by_values=True), step)
    periods = _PERIODS[options.every].format(sql_name(options.time))
    try:
        return loading.load(ctx, replace(options, by=(periods,)), step)
    except FileError as error:
        if type(error) is not FileError:  # one that proposes columns
            raise
        named = quoted(periods), quoted(options.time)
        problem, remedy = (
            text.replace(*named).replace(periods, sql_name(options.time)).replace("--by", "--time")
            for text in (error.problem, error.remedy)
        )
        raise FileError(error.path, problem, remedy, error.options, error.fault, options.time) from None


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
    problem = f"--time {quoted(column)} contains numbers such as {numbers[0]:g}, which are not dates or years"
    raise FileError(path, problem, "name a column of dates, times, or years of four digits")


def _updated(predictions: FilePredictions | FileSketch | FileDecisions, options: CommandOptions) -> Monitor:
    """Return the monitor of the state with the new slices."""
    content = state.read(options.state_path)
    given = {name: value for name in _SETTINGS if (value := getattr(options, name)) is not None}
    if content is None:
        watch = Monitor(**given, groups=options.groups)
    else:
        watch = Monitor.of_state(content, options.state_path)
        _check_settings(watch, given, options)
    if options.threshold_path is not None:
        with of_file(options.threshold_path):
            watch.watch_threshold(_threshold(options.threshold_path, options.question))
    known, seen = set(watch.labels), []
    for label, arguments in _slices(predictions, options):
        if options.time is not None and label in known:
            seen.append(label)
        else:
            watch.update(**arguments, label=label)
    if seen and not options.quiet:
        console.say(f"{len(seen)} periods up to {seen[-1]} are in the state already and are not added again")
    return watch


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
    entries: dict[str, dict[str, Any]] = {part["name"]: part for part in parts}
    if question not in entries:
        raise FileError(path, f"contains no threshold for the question {quoted(question)}", nearest(question, entries))
    return entries[question]


def _slices(
    predictions: FilePredictions | FileSketch | FileDecisions, options: CommandOptions
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the label and the arguments of each slice, in order."""
    label = Path(options.files[0]).stem if options.label is None else options.label
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
