"""Logs of decision models in the command: which options they take, and the results for their questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import click

from calibrant.cli.options import ENGINES, CommandOptions, given
from calibrant.errors import FileError, InputError, nearest, quoted
from calibrant.files.decision_rows import IDS
from calibrant.files.decisions import is_decision_log, read_files
from calibrant.files.loaded import FileDecisionModels, FileDecisions
from calibrant.files.local import is_workbook
from calibrant.files.paths import expand
from calibrant.inputs.decision_log import DecisionLog

if TYPE_CHECKING:
    from calibrant.report.comparison import Comparison
    from calibrant.report.question_comparisons import QuestionComparisons
    from calibrant.report.question_reports import QuestionReports
    from calibrant.report.report import Report
    from calibrant.thresholds import QuestionThresholds
    from calibrant.thresholds.result import Method, ThresholdResult

_LISTED: Final = 4  # questions
#: The parameters that do nothing for logs.
_OF_COLUMNS: Final = (
    *("where", "clusters", "weight", "weights_are", "class_names", "labels", "notion", "targets_file", "ignore_index"),
    *("logits", "ordered", "percent", "decimal_comma", "odds", "events", "header_line", "sketch_path", "exact"),
    *("keep_going", "per_class", "cost_of_error", "baseline", "paired", "own_outcomes"),
)
_A_LOG: Final = "the log of a decision model, which answers named questions"


def load(ctx: click.Context, options: CommandOptions, paths: Sequence[str]) -> FileDecisions | None:
    """Read a log of decisions; None for other files, and where options name columns."""
    if not _are_logs(ctx, options, paths[:1]):
        return None
    _check(ctx, options)
    log = _read(options, paths, options.truth_on)
    named = _listed(log) if options.question is None else options.question
    return FileDecisions(sources={"questions": named}, paths=tuple(paths), rows=(log.n,), log=log)


def load_models(
    ctx: click.Context, options: CommandOptions, models: Sequence[str], names: Sequence[str]
) -> FileDecisionModels | None:
    """Read the logs of several models; None for other files, and where options name columns."""
    files = [expand([model]) for model in models]
    first = [paths[0] for paths in files]
    if not _are_logs(ctx, options, first):
        return None
    _check(ctx, options)
    if twice := next((path for path in first if first.count(path) > 1), None):
        raise FileError(twice, "is named twice", "name the log of each model once")
    on = _ids(ctx, options)
    logs = [_read(options, paths, on) for paths in files]
    for path, log in zip(first, logs, strict=True):
        if on is not None and not log.ids:
            raise FileError(path, "has rows without an id", "write an id into each row, or leave --on out")
    return FileDecisionModels(
        sources={"questions": _listed(logs[0]) if options.question is None else options.question},
        paths=tuple(first),
        rows=tuple(log.n for log in logs),
        logs=dict(zip(_models_of(logs) or names, logs, strict=True)),
    )


def _models_of(logs: Sequence[DecisionLog]) -> list[str] | None:
    """Return the model that each log names; None unless these are different models, one a log."""
    models = [log.models for log in logs]
    return [model for (model,) in models] if {*map(len, models)} == {1} and len({*models}) == len(models) else None


def _ids(ctx: click.Context, options: CommandOptions) -> str | None:
    """Return the column of the ids that the options name."""
    on = options.on[0] if options.on else None
    if len(options.on) > 1 or (options.truth_path is None and on not in (None, *IDS)):
        msg = f"for decision logs, --on takes one of {', '.join(IDS)}; with --truth, it takes an id column of that file"
        raise click.UsageError(msg, ctx)
    return on


def _are_logs(ctx: click.Context, options: CommandOptions, paths: Sequence[str]) -> bool:
    """Whether the files are logs of decisions, all of them or none, and options do not name columns."""
    columns = any((options.score, options.probs, options.outcome, options.target, options.scores))
    logs = [] if columns or options.engine != ENGINES[0] else [path for path in paths if is_decision_log(path)]
    if not logs:
        for named in given(ctx, options, "question", "truth_path", "yes", "gates_path", "each", "stated"):
            remedy = f"leave {named} out" if not columns else "leave --score, --probs, --outcome and --target out"
            raise FileError(paths[0], f"{named} is only for {_A_LOG}", remedy)
        if options.groups is not None and not options.by:
            msg = "--groups needs --by, the column of the groups"
            raise click.UsageError(msg, ctx)
    elif len(logs) < len(paths):
        other = next(path for path in paths if path not in logs)
        problem = f"is not the log of a decision model, but {logs[0]} is"
        raise FileError(other, problem, "compare logs with logs, or name columns with --probs")
    return bool(logs)


def _read(options: CommandOptions, paths: Sequence[str], on: str | None) -> DecisionLog:
    """Read the log of one model, which must have the question that is asked for."""
    by = options.by[0] if options.by else None
    log = read_files(paths, labels=options.truth_path, on=on or "id", yes=options.yes, by=by)
    if options.stated:
        try:
            log = log.stated()
        except InputError as error:
            problem = f"has {error.got}, but --stated needs {error.expected}"
            raise FileError(paths[0], problem, "leave --stated out, to use the probabilities") from None
    if options.question is not None and options.question not in log:
        problem = f"has no question {quoted(options.question)} with a labelled answer"
        raise FileError(paths[0], problem, nearest(options.question, log))
    return log


def _listed(log: DecisionLog) -> str:
    """Return the names of the questions, of many the first."""
    return ", ".join(list(log)[:_LISTED]) + f" and {len(log) - _LISTED:,} more" * (len(log) > _LISTED)


def _check(ctx: click.Context, options: CommandOptions) -> None:
    """Reject options that a log of decisions does not take."""
    if options.time is not None:
        msg = (
            "--time needs a column of times, which the log of a decision model does not have; pass the log of "
            "one period at a time"
        )
        raise click.UsageError(msg, ctx)
    unused: tuple[str, ...] = _OF_COLUMNS
    if ctx.info_name != "threshold" or len(options.by) != 1:  # which has thresholds of groups
        unused = ("by", *unused)
    if not is_workbook(options.truth_path or ""):  # logs are none, but their labels may be
        unused = (*unused, "sheet")
    for option in [*given(ctx, options, *unused), *["--method betting"] * (options.certified_by == "betting")]:
        msg = f"{option} does not work with {_A_LOG}; leave it out, or name columns with --probs"
        raise click.UsageError(msg, ctx)
    if options.groups is not None and options.question is not None:
        msg = "--groups names the questions to monitor together; leave --groups or --question out"
        raise click.UsageError(msg, ctx)
    of_one = ["since_onset_path", "thresholds", "cost_of_false_positive", "yes_risk", "no_risk"]
    if not options.state_path:  # a monitor has pictures and a tolerance for all questions
        of_one += ["png_path", "svg_path", "pdf_path", "sql_path", "onnx_path"]
    if not options.state_path and ctx.info_name != "compare":  # which asks these of every question
        of_one += ["conditions", "tolerance", *["bands"] * (options.bands != CommandOptions.bands)]
    if options.question is None:
        for option in given(ctx, options, *of_one):
            msg = f"{option} works only for one question; name it with --question"
            raise click.UsageError(msg, ctx)


def evaluate(read: FileDecisions, options: CommandOptions, how: dict[str, Any]) -> Report | QuestionReports:
    """Return the report on the question that the options name, or those on all questions."""
    from calibrant.report.evaluation import evaluate as evaluate_predictions

    if options.question is None:
        how = {name: value for name, value in how.items() if name not in ("bands", "weights_are", "ordered")}
        return evaluate_predictions(read.log, **how)
    question = read.log[options.question]
    how["ordered"] = question.ordered
    if not question.fixed:
        how["classwise"] = False
    report: Report = evaluate_predictions(**data_of(read, options), **how)
    return report


def compare(read: FileDecisionModels, options: CommandOptions, how: dict[str, Any]) -> Comparison | QuestionComparisons:
    """Return the comparison of the models by the question that the options name, or those by all questions."""
    from calibrant.report.compare_models import compare as compare_models

    logs, question = read.logs, options.question
    if question is not None:
        logs = {name: log.only([question]) for name, log in logs.items()}
    how = {name: value for name, value in how.items() if name != "weights_are"}
    try:
        compared: QuestionComparisons = compare_models(logs, **how)
    except InputError as error:
        raise error.renamed({f"probs[{name!r}]": path for name, path in zip(logs, read.paths, strict=True)}) from None
    return compared if question is None else compared[question]


def certify(read: FileDecisions, options: CommandOptions, max_risk: float) -> ThresholdResult | QuestionThresholds:
    """Return the thresholds of the question that the options name, or those of all questions."""
    from calibrant.thresholds import certify_questions

    log = read.log if options.question is None else read.log.only([options.question])
    method = cast("Method | None", options.certified_by)
    found = certify_questions(log, max_risk=max_risk, confidence=options.confidence, method=method, each=options.each)
    return found if options.question is None or options.by else found[options.question]


def data_of(read: FileDecisions, options: CommandOptions) -> dict[str, Any]:
    """Return the arguments of the library for the log, or for the question that the options name."""
    if options.question is None:
        return {"probs": read.log}
    question = read.log[options.question]
    data = {"probs": question.probs, "targets": question.targets, "class_names": question.class_names}
    return data if question.fixed else {**data, "notion": "top-label"}  # columns that are not classes
