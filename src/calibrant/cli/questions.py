"""Logs of decision models in the command: which options they take, and the reports on their questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from calibrant.cli.options import ENGINES, CommandOptions
from calibrant.errors import FileError, nearest, quoted
from calibrant.files.decisions import is_decision_log, read_files
from calibrant.files.loaded import FileDecisions

if TYPE_CHECKING:
    from calibrant.report.question_reports import QuestionReports
    from calibrant.report.report import Report

_LISTED: Final = 4  # questions


def load(ctx: click.Context, options: CommandOptions, paths: Sequence[str]) -> FileDecisions | None:
    """Read a log of decisions; None for other files, and where options name columns."""
    wanted = {"--question": options.question, "--truth": options.truth_path, "--yes": options.yes}
    named = next((option for option, value in wanted.items() if value is not None), None)
    columns = any((options.score, options.probs, options.outcome, options.target))
    if columns or options.engine != ENGINES[0] or not is_decision_log(paths[0]):
        if named is not None:
            remedy = f"leave {named} out" if not columns else "leave --score, --probs, --outcome and --target out"
            raise FileError(paths[0], f"{named} is only for the log of a decision model", remedy)
        if options.groups is not None and not options.by:
            msg = "--groups needs --by, the column of the groups"
            raise click.UsageError(msg, ctx)
        return None
    _check(ctx, options)
    log = read_files(paths, labels=options.truth_path, on=options.truth_on or "id", yes=options.yes)
    if options.question is not None and options.question not in log:
        problem = f"has no question {quoted(options.question)} with a labelled answer"
        raise FileError(paths[0], problem, nearest(options.question, log))
    names = ", ".join(list(log)[:_LISTED]) + f" and {len(log) - _LISTED:,} more" * (len(log) > _LISTED)
    return FileDecisions(sources={"questions": options.question or names}, paths=tuple(paths), rows=(log.n,), log=log)


def _check(ctx: click.Context, options: CommandOptions) -> None:
    """Reject options that a log of decisions does not take."""
    if options.time is not None:
        msg = "--time needs a column of times, which the log of a decision model has not; add a file for each period"
        raise click.UsageError(msg, ctx)
    others: dict[str, Any] = {
        "--by": options.by,
        "--where": options.where,
        "--cluster": options.clusters,
        "--weight": options.weight,
        "--weights-are": options.weights_are,
        "--class-names": options.class_names,
        "--labels": options.labels,
        "--notion": options.notion,
        "--targets": options.targets_file,
        "--ignore-index": options.ignore_index is not None,
        "--logits": options.logits,
        "--percent": options.percent,
        "--decimal-comma": options.decimal_comma,
        "--sketch": options.sketch_path,
        "--exact": options.exact,
        "--keep-going": options.keep_going,
    }
    for option, value in others.items():
        if value:
            msg = f"{option} does not work with the log of a decision model; leave it out, or name columns with --probs"
            raise click.UsageError(msg, ctx)
    if options.groups is not None and options.question is not None:
        msg = "--groups names questions to watch together; leave it out, or --question"
        raise click.UsageError(msg, ctx)
    of_one: dict[str, Any] = {"--threshold": options.threshold_path, "--since-onset": options.since_onset_path}
    if not options.state_path:  # a monitor has pictures and a tolerance for all questions
        of_one |= {"--png": options.png_path, "--svg": options.svg_path, "--fail-if": options.conditions}
        of_one |= {"--tolerance": options.tolerance is not None, "--bands": options.bands != CommandOptions.bands}
        of_one |= {"--sql": options.sql_path, "--onnx": options.onnx_path}
    for option, value in of_one.items():
        if value and options.question is None:
            msg = f"{option} is about one question; name it with --question"
            raise click.UsageError(msg, ctx)


def evaluate(read: FileDecisions, options: CommandOptions, how: dict[str, Any]) -> Report | QuestionReports:
    """Return the report on the question that the options name, or those on all questions."""
    from calibrant.report.evaluation import evaluate as evaluate_predictions

    if options.question is None:
        how = {name: value for name, value in how.items() if name not in ("bands", "weights_are")}
        return evaluate_predictions(read.log, **how)
    if not read.log[options.question].fixed:
        how["classwise"] = False
    report: Report = evaluate_predictions(**data_of(read, options), **how)
    return report


def data_of(read: FileDecisions, options: CommandOptions) -> dict[str, Any]:
    """Return the arguments of the library for the log, or for the question that the options name."""
    if options.question is None:
        return {"probs": read.log}
    question = read.log[options.question]
    data = {"probs": question.probs, "targets": question.targets, "class_names": question.class_names}
    return data if question.fixed else {**data, "notion": "top-label"}  # columns that are not classes
