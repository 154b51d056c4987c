"""Load the predictions that the options name, as rows or as a sketch, and report on them."""

from __future__ import annotations

import re
import shlex
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, Final, cast

import click
import numpy as np

from calibrant.cli import console, questions
from calibrant.cli.options import ENGINES, CommandOptions, problems_of_results, single_file
from calibrant.cli.parameters import label
from calibrant.errors import FileError, FileFault, InputError, quoted
from calibrant.files.chunks import Judging, Progress
from calibrant.files.column_options import Options, listed
from calibrant.files.column_words import role_of
from calibrant.files.hints import values_of
from calibrant.files.loaded import (
    BadRows,
    FileDecisionModels,
    FileDecisions,
    FileModels,
    FilePredictions,
    FileRead,
    FileRows,
    FileSketch,
    FileSketches,
)
from calibrant.files.logs import is_log, models_of, patterns_of_folders
from calibrant.files.matching import by_model, check_models, matched, model_names
from calibrant.files.paths import expand
from calibrant.files.reading import read_models, read_predictions
from calibrant.files.results import FileResults, answered, by_question, result_columns, result_options
from calibrant.files.sketches import is_sketch_file, read_sketches
from calibrant.inputs import notions
from calibrant.inputs.predictions import as_predictions, check_logits

if TYPE_CHECKING:
    from calibrant.recalibration.prior_result import PriorShift
    from calibrant.recalibration.question_recalibrations import QuestionRecalibrations
    from calibrant.recalibration.recalibrations import RecalibrationResult
    from calibrant.report.comparison import Comparison
    from calibrant.report.question_comparisons import QuestionComparisons
    from calibrant.report.question_reports import QuestionReports
    from calibrant.report.report import Report
    from calibrant.report.result_comparison import ResultComparison
    from calibrant.thresholds import QuestionThresholds
    from calibrant.thresholds.benefit import BenefitOfThresholds
    from calibrant.thresholds.result import ThresholdResult

#: The largest error rate of automatic decisions, unless another is named.
_MAX_RISK: Final = 0.05

#: A condition that a column of text has one label.
_EQUALS: Final = re.compile(r"\s*(\"(?P<quoted>[^\"]+)\"|(?P<plain>\w+))\s*==?\s*'(?P<label>[^']*)'\s*")

#: The options that no longer have an effect once a sketch exists.
_FIXED_BY_SKETCH: Final = {field.name for field in fields(Options)} - {"weights_are", "models", "on"} | {
    *("targets_file", "logits", "notion", "classwise", "ordered", "ignore_index", "exact", "master")
}

#: What belongs to rows, and not to their events alone.
_OF_EVENTS: Final = ("notion", "clusters", "groups")

#: The options that are arguments of `evaluate` of the same names.
_OF_EVALUATION: Final = (
    *("n_bins", "level", "profile", "measures", "n_resamples", "rng", "bands"),
    *("tolerance", "tolerance_of", "weights_are", "ordered"),
)


@contextmanager
def about(predictions: object) -> Iterator[None]:
    """Have errors of the library about rows that were read say where in the files the rows are."""
    try:
        yield
    except InputError as error:
        if isinstance(predictions, FileRows):
            raise BadRows(error, predictions) from None
        raise


def load(ctx: click.Context, options: CommandOptions, step: Progress) -> FilePredictions | FileSketch | FileDecisions:
    """Read the files, which may be the log of a decision model."""
    remote = options.engine == "spark" and any("://" in name for name in options.files)  # only Spark finds these
    paths = list(options.files) if remote else expand(options.files)
    if not remote and is_sketch_file(paths[0]):
        _check_sketch_options(ctx, options)
        saved = read_sketches(paths, keep_going=options.keep_going)
        if saved.sketch.n == 0:
            raise FileError(saved.paths[0], "holds a sketch without rows", "name a sketch of predictions")
        return saved
    if (log := questions.load(ctx, options, paths)) is not None:
        return log
    if options.engine == "spark":
        from calibrant.cli import spark

        return spark.load(options, paths)
    judging = Judging(options.notion, options.classwise, weights_are=options.weights_are)
    how = {"sketch": options.sketch_path is not None, "keep_going": options.keep_going}
    return _read(paths, options, judging, step, keep=True if options.exact else None, **how)


def _read(
    paths: Sequence[str], options: CommandOptions, judging: Judging, step: Progress | None, **how: Any
) -> FilePredictions | FileSketch:
    """Read the predictions of files, and check the logits of rows that are kept."""
    judging = replace(judging, ignore_index=options.ignore_index, logits=options.logits)
    loaded = read_predictions(paths, options, judging, targets_file=options.targets_file, progress=step, **how)
    if isinstance(loaded, FilePredictions) and (options.logits or loaded.logits):
        with about(loaded):
            check_logits(loaded.probs)
    _check_event(loaded, options)
    return loaded


def _check_event(loaded: FilePredictions | FileSketch, options: CommandOptions) -> None:
    """Reject an event that no row has, such as ``fraud = 'Yes'``, if the column spells its label in another way."""
    match = _EQUALS.fullmatch(options.outcome or "")
    if match is None:
        return
    has_event = np.any(loaded.targets) if isinstance(loaded, FilePredictions) else np.any(loaded.sketch.table.positives)
    if has_event:
        return
    column, label = match["quoted"] or match["plain"], match["label"]
    present = values_of(loaded.paths, column, options).present
    alike = [text for text in present if text.strip().casefold() == label.strip().casefold()]
    if alike and label not in present:
        problem = f"--outcome {quoted(options.outcome or '')}: no row has {quoted(label)}"
        raise FileError(loaded.paths[0], problem, f"did you mean {quoted(alike[0])}?")


def _models(options: CommandOptions) -> tuple[list[str], list[str]]:
    """Return the name or the pattern of the files of each model, and the paths of all files."""
    baseline = [] if options.baseline is None else [options.baseline]
    paths = [path for name in (*options.files, *baseline) for path in expand([name])]
    return [*baseline, *(options.files if len(options.files) > 1 or baseline else paths)], paths


def load_models(
    ctx: click.Context, options: CommandOptions, step: Progress
) -> FileModels | FileSketches | FileDecisionModels | FileResults:
    """Read the predictions of several models: columns of the same files, files of their own, sketches, or logs.

    Logs without probabilities still tell which answers are correct, and are read for that.
    """
    try:
        return _load_models(ctx, options, step)
    except FileError as error:
        by_results = replace(options, correct="correct")
        if error.fault is not FileFault.NO_PROBABILITIES or any(problems_of_results(ctx, by_results)):
            raise
    read = _load_models(ctx, by_results, step)
    doubt = "the logs contain no probabilities, so the models are compared by their results"
    return replace(read, doubts=(*read.doubts, doubt))


def _load_models(
    ctx: click.Context, options: CommandOptions, step: Progress
) -> FileModels | FileSketches | FileDecisionModels | FileResults:
    models, paths = _models(options)
    names = model_names(models)
    if options.correct is not None or options.sparse:
        _check_models(ctx, models, paths)
        return _load_results(ctx, options, dict(zip(names, models, strict=True)), step)
    if len(models) > 1 and (logs := questions.load_models(ctx, options, models, names)) is not None:
        return logs
    if options.models:
        return _load_columns(options, step)
    if options.is_long and len(paths) == 1 and not is_sketch_file(paths[0]):
        return _load_long(ctx, options, step)
    if len(models) < 2:
        raise click.UsageError(single_file(options), ctx)
    of_rows = [model for model in models if not is_sketch_file(expand([model])[0])]
    if len(of_rows) < len(models):
        return _load_sketches(ctx, options, dict(zip(names, models, strict=True)), of_rows, step)
    if options.paired is not None:
        option = "--paired" if options.paired else "--independent"
        msg = (
            f"{option} is only for .cal files, because the rows of other files are always paired; leave the option out"
        )
        raise click.UsageError(msg, ctx)
    _check_models(ctx, models, paths)
    return _load_files(options, names, models, paths, step)


def _check_models(ctx: click.Context, models: Sequence[str], paths: Sequence[str]) -> None:
    """Reject files that are named twice, and folders of logs of several tasks, which would be compared as models."""
    if repeated := [model for model, count in Counter(models).items() if count > 1]:
        msg = f"{quoted(repeated[0])} is named as two models; name each file once"
        raise click.UsageError(msg, ctx)
    if len(paths) == len(models) and all(map(is_log, paths)) and (patterns := patterns_of_folders(paths)):
        command = shlex.join(["calibrant", "compare", *patterns])
        msg = (
            f"{len(paths)} logs in {len(patterns)} folders would be compared as {len(paths)} models, but the logs "
            "of a folder are of different tasks; to compare the folders, quote one pattern for each folder, so that "
            f"the shell does not expand it: {command}"
        )
        raise click.UsageError(msg, ctx)


def _load_files(
    options: CommandOptions,
    names: Sequence[str],
    models: Sequence[str],
    paths: Sequence[str],
    step: Progress,
) -> FileModels:
    """Read the rows of each model from files of its own, and match them; logs are matched by their questions."""
    logs = all(map(is_log, paths))
    options = replace(options, on_questions=logs)
    loaded = [_evaluated(options, [model], step) for model in models]
    if logs and len(paths) == len(models):
        names = models_of(paths) or names
    own = options.own_outcomes
    if own is None and not logs:
        own = False  # only the answers of several models to the questions of a log may be their own
    return matched(dict(zip(names, loaded, strict=True)), own=own, keyed=bool(options.on))


def _load_long(ctx: click.Context, options: CommandOptions, step: Progress) -> FileModels | FileSketches:
    """Read a file with the rows of all models: paired by keys, or without keys the sketch of each model."""
    options = replace(options, by_values=True, by_models=True)
    if options.on:
        if options.paired is not None:
            option = "--paired" if options.paired else "--independent"
            msg = f"{option} does not work with --on, which pairs the rows; leave one of them out"
            raise click.UsageError(msg, ctx)
        every = _evaluated(options, options.files[:1], step)
        return matched(by_model(every), own=options.own_outcomes, long=True)
    judging = Judging(options.notion, False, weights_are=options.weights_are)
    loaded = cast("FileSketch", _read(options.files, options, judging, step, keep=False))
    check_models(loaded.paths[0], loaded.sources["groups"], len(loaded.sketch.groups))
    how = "by cluster" if options.clusters else "not paired, because no column of questions was named with --on"
    sources = {name: source for name, source in loaded.sources.items() if name != "groups"}
    sources |= {"models": loaded.sources["groups"], "rows": how}
    return FileSketches(
        sketches={name: loaded.sketch.groups[name] for name in loaded.groups if name in loaded.sketch.groups},
        sources=sources,
        paths=loaded.paths,
        rows=loaded.rows,
        doubts=loaded.doubts,
        repeated=loaded.repeated,
    )


def _load_results(ctx: click.Context, options: CommandOptions, files: Mapping[str, str], step: Progress) -> FileResults:
    """Read the results of models, or their predictions of different questions, and put the questions side by side."""
    results, long = options.correct is not None, options.is_long
    if options.sparse and not options.on and not all(map(is_log, options.files)):
        raise click.UsageError("--sparse matches rows by question; name the column of the question with --on", ctx)
    columns, first = list(options.models), expand(options.files)[0]
    if options.correct is not None and not is_log(first):
        named = result_columns(first, options.correct)
        columns = list(named) if len(files) == 1 and not long else []
        if len(columns) == 1:
            raise click.UsageError(single_file(options), ctx)
    reads: Mapping[str, FilePredictions]
    if columns:
        reads = {column: _load_column(options, column, step) for column in columns}
    elif long:
        own = replace(options, by_values=True, by_models=True)
        reads = by_model(_load_rows(_with_results(own), options.files, step))
    else:
        logs = all(map(is_log, files.values()))
        own = replace(_with_results(options), on_questions=logs)
        reads = {name: _load_rows(own, [path], step) for name, path in files.items()}
        reads = dict(zip((models_of(list(files.values())) if logs else None) or reads, reads.values(), strict=True))
    return by_question(
        reads, results=results, sparse=options.sparse, own=options.own_outcomes, long=long or bool(columns)
    )


def _with_results(options: CommandOptions) -> CommandOptions:
    return options if options.correct is None else result_options(options, options.correct)


def _load_column(options: CommandOptions, column: str, step: Progress) -> FilePredictions:
    """Read one of several columns of results or scores; with ``--sparse``, the rows in which it has a value."""
    own = replace(options, scores=None, models=())
    own = replace(own, score=column) if options.correct is None else result_options(own, column)
    return _load_rows(answered(own, column) if options.sparse else own, options.files, step)


def _load_rows(options: CommandOptions, files: Sequence[str], step: Progress) -> FilePredictions:
    """Read rows; those of predictions are evaluated for their errors."""
    if options.correct is None:
        return _evaluated(options, files, step)
    return cast("FilePredictions", _read(files, options, Judging(), step, keep=True))


def _load_columns(options: CommandOptions, step: Progress) -> FileModels:
    """Read the predictions of models that are columns of the same files."""
    read = read_models(options.files, options, logits=options.logits, progress=step)
    with about(read):
        for name, argument in read.models.items():
            if options.logits or read.logits[name]:
                check_logits(read.arrays[argument])
    return read


def _evaluated(options: CommandOptions, files: Sequence[str], step: Progress | None) -> FilePredictions:
    """Read predictions, and evaluate their events for their errors."""
    loaded = _read(files, options, Judging(options.notion, False), step, keep=True)
    loaded = cast("FilePredictions", loaded)  # whose rows are kept
    arguments = {name: value for name, value in data_of(loaded, options).items() if name not in _OF_EVENTS}
    with about(loaded):
        predictions = as_predictions(**arguments, weights_are=options.weights_are)
        notions.read(predictions, notions.resolve(predictions, options.notion))
    return loaded


def _load_sketches(
    ctx: click.Context,
    options: CommandOptions,
    models: Mapping[str, str],
    of_rows: Sequence[str],
    step: Progress,
) -> FileSketches:
    """Read sketches; files of rows become sketches of the same event."""
    if options.on:
        raise click.UsageError("--on matches rows, but a sketch contains no rows; leave --on out", ctx)
    saved = {name: read_sketches([model]).sketch for name, model in models.items() if model not in of_rows}
    if not of_rows:
        _check_sketch_options(ctx, options)
    doubts: list[str] = []
    first, sketches = next(iter(saved.values())), {}
    judging = Judging(options.notion or first.notion, False, grid=first.grid, weights_are=options.weights_are)
    for name, model in models.items():
        if name in saved:
            sketches[name] = saved[name]
            continue
        read = _read([model], options, judging, step, keep=False)
        sketches[name] = cast("FileSketch", read).sketch
        doubts += [f"{model}: {doubt}" for doubt in read.doubts]
    counts = tuple(sketch.n for sketch in sketches.values())
    return FileSketches(sketches=sketches, sources={}, paths=tuple(models.values()), rows=counts, doubts=tuple(doubts))


def _named(options: CommandOptions, *names: str) -> dict[str, Any]:
    return {name: getattr(options, name) for name in names}


def data_of(predictions: FilePredictions | FileSketch | FileDecisions, options: CommandOptions) -> dict[str, Any]:
    """Return the arguments of the library for what was read: a sketch, or rows and what belongs to them."""
    if isinstance(predictions, FileSketch):
        return {"probs": predictions.sketch}
    if isinstance(predictions, FileDecisions):
        return questions.data_of(predictions, options)
    logits = options.logits or predictions.logits
    return {
        "probs": predictions.probs,
        "targets": predictions.targets,
        "logits": logits,
        **_of_rows(predictions, options),
    }


def _of_rows(predictions: FileRows, options: CommandOptions) -> dict[str, Any]:
    """Return the arguments for rows that all functions of the library share."""
    columns = {name: getattr(predictions, name) for name in ("weights", "class_names", "clusters", "groups")}
    return {"notion": options.notion, "ignore_index": options.ignore_index, **columns}


def compare(
    predictions: FileModels | FileSketches | FileDecisionModels | FileResults, options: CommandOptions
) -> Comparison | QuestionComparisons | ResultComparison:
    """Return the comparison of the models, or those by the questions of their logs."""
    from calibrant.report.compare_models import compare as compare_models

    if isinstance(predictions, FileResults):
        return _compare_results(predictions, options)
    how = _named(options, "n_bins", "level", "tolerance", "weights_are", "sort_by")
    if isinstance(predictions, FileDecisionModels):
        return questions.compare(predictions, options, how)
    if isinstance(predictions, FileSketches):
        paired, own = options.paired, bool(options.own_outcomes)
        of_one_file = bool(predictions.sources)  # saved sketches do not say what was read
        if of_one_file and paired is None and options.clusters:
            paired = True  # the clusters of one file are the same for all models
        if of_one_file and options.own_outcomes is None:
            own = role_of(predictions.sources["targets"]) == "right"
        comparison = compare_models(predictions.sketches, paired=paired, own_outcomes=own, **how)
        if options.by and not of_one_file and not comparison.groups:
            problem = f"has no group in common with {', '.join(predictions.paths[1:])}"
            raise FileError(predictions.paths[0], problem, "make the sketch again with the same --by")
        return comparison
    models: dict[str, Any] = {name: predictions.arrays[argument] for name, argument in predictions.models.items()}
    for name, argument in predictions.targets_of.items():
        models[name] = models[name], predictions.arrays[argument]
    compared: Comparison = compare_models(
        models,
        None if predictions.targets_of else predictions.targets,
        **_of_rows(predictions, options),
        logits={name: options.logits or is_logits for name, is_logits in predictions.logits.items()},
        **how,
    )
    return compared


def _compare_results(read: FileResults, options: CommandOptions) -> ResultComparison:
    """Return the comparison of results, or of the predictions of different questions."""
    from calibrant.report.compare_models import compare as compare_models
    from calibrant.report.result_comparison import compare_results

    values, targets = read.values, read.targets
    found: ResultComparison
    if targets is None:
        found = compare_results(values, clusters=read.clusters, sparse=options.sparse, level=options.level)
        return found
    how: dict[str, Any] = {"logits": read.logits or options.logits, "class_names": read.class_names}
    how |= {"notion": options.notion, "sort_by": options.sort_by, "level": options.level, "clusters": read.clusters}
    if isinstance(targets, Mapping):
        found = compare_models({name: (probs, targets[name]) for name, probs in values.items()}, sparse=True, **how)
    else:
        found = compare_models(values, targets, sparse=True, **how)
    return found


def evaluate(
    predictions: FilePredictions | FileSketch | FileDecisions, options: CommandOptions
) -> Report | QuestionReports:
    """Return the report on the predictions."""
    from calibrant.report.evaluated_data import UNIT_LOGITS
    from calibrant.report.evaluation import evaluate as evaluate_predictions

    how = _named(options, *_OF_EVALUATION)
    if isinstance(predictions, FileDecisions):
        return questions.evaluate(predictions, options, {**how, "classwise": options.classwise})
    if options.ordered and isinstance(predictions, FileSketch):
        problem = "has so many rows that only a sketch is kept, without the probabilities of each row"
        raise FileError(predictions.paths[0], problem, "pass --exact to keep the rows, or leave --ordered out")
    if options.ordered and predictions.protocol:
        problem = "is an evaluation log, whose choices are not ordered levels"
        raise FileError(predictions.paths[0], problem, "leave --ordered out")
    # The choices of an evaluation log are not classes: the second choice of one question is not that of another.
    how["classwise"] = False if options.classwise is None and predictions.protocol else options.classwise
    data = data_of(predictions, options)
    if options.marginal:
        data |= _marginal(predictions, options.by)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", re.escape(UNIT_LOGITS))  # among the doubts, with the name of the column
        report: Report = evaluate_predictions(**data, **how)
    return replace(report, omitted=dict(predictions.omitted))


def _marginal(predictions: FilePredictions | FileSketch, columns: Sequence[str]) -> dict[str, Any]:
    """Return the groups of each column, from the combinations that were read: names of rows, or sketches."""
    from calibrant.files.column_values import parted

    if isinstance(predictions, FileSketch):
        combined = predictions.sketch.groups
        parts = {name: parted(name, len(columns)) for name in combined}
        groups = {
            column: {
                value: reduce(add, (combined[name] for name in combined if parts[name][i] == value))
                for value in dict.fromkeys(part[i] for part in parts.values())
            }
            for i, column in enumerate(columns)
        }
        return {"probs": reduce(add, combined.values()), "groups": groups}
    if len(columns) == 1:
        return {"groups": {columns[0]: predictions.groups}}
    names, codes = np.unique(predictions.groups.astype(str), return_inverse=True)
    values = np.array([parted(name, len(columns)) for name in names.tolist()], dtype=object)
    return {"groups": {column: values[codes, i] for i, column in enumerate(columns)}}


def recalibrate(
    predictions: FilePredictions | FileSketch | FileDecisions, options: CommandOptions
) -> RecalibrationResult | QuestionRecalibrations:
    """Return the map of the scores, with its proof; of a decision log, those of its questions."""
    from calibrant.recalibration.fitting import recalibrate as recalibrate_predictions

    is_sum = isinstance(predictions, FileSketch) and predictions.sketch.notion == "top-label"
    if is_sum and options.notion is None and not is_sketch_file(options.files[0]):
        problem = "has so many rows that only a sketch is kept, which contains only the predicted class"
        remedy = "pass --exact to map all classes, or --notion top-label to map the confidence"
        raise FileError(predictions.paths[0], problem, remedy)
    how = _named(options, "method", "level", "n_resamples", "rng", "weights_are")
    fix: RecalibrationResult | QuestionRecalibrations = recalibrate_predictions(**data_of(predictions, options), **how)
    return fix


def load_scores(ctx: click.Context, options: CommandOptions, step: Progress) -> FileRead:
    """Read the scores whose event rate is estimated; nothing, if the rate is known."""
    del ctx
    return FileRead(sources={}, paths=(), rows=()) if options.prior is not None else _scores(options, step)


def _scores(options: CommandOptions, step: Progress | None = None) -> FilePredictions:
    """Read scores without outcomes, as many columns as shares; all rows are kept."""
    read = _evaluated(replace(options, without_outcomes=True), expand(options.files), step)
    shares = 1 if isinstance(options.trained_prior, float) else len(cast("Sequence[float]", options.trained_prior))
    columns = read.probs.reshape(len(read.probs), -1).shape[1]
    if columns != shares:
        scores = f"the scores of {columns:,} classes" if columns > 1 else "the scores of one event"
        prior = f"the shares of {shares:,} classes" if shares > 1 else "the share of one event"
        problem = f"has {scores} in {read.sources['probs']}, but --trained-prior has {prior}"
        raise FileError(
            read.paths[0],
            problem,
            "name the columns with --score or --probs, or pass the share of each class as --trained-prior",
        )
    return replace(read, sources={name: source for name, source in read.sources.items() if name != "targets"})


def shift_prior(predictions: FileRead, options: CommandOptions) -> PriorShift:
    """Return the map for another event rate, known or estimated from the scores."""
    from calibrant.recalibration.priors import prior_shift

    known = {"trained_prior": options.trained_prior, **_named(options, "prior", "level")}
    if not isinstance(predictions, FilePredictions):
        return prior_shift(**known, class_names=options.class_names)
    names, logits = predictions.class_names, options.logits or predictions.logits
    return prior_shift(
        predictions.probs,
        **known,
        logits=logits,
        class_names=names,
        reference=None if options.reference_path is None else _reference(options, names),
        weights=predictions.weights,
        weights_are=options.weights_are,
        clusters=predictions.clusters,
    )


def _reference(options: CommandOptions, class_names: Sequence[str] | None) -> Any:
    """Return the scores of the training population: a sketch, or all rows of a file with the columns of FILE."""
    path = cast("str", options.reference_path)
    if is_sketch_file(path):
        return read_sketches([path]).sketch
    read = _scores(replace(options, files=(path,), weight=None, weights_are=None, clusters=(), where=None))
    probs, names = read.probs, read.class_names
    if names is not None and class_names is not None and names != class_names:
        if set(names) != set(class_names):
            problem = f"has the classes {listed(names)}, but {options.files[0]} has {listed(class_names)}"
            raise FileError(path, problem, "name scores of the same classes")
        probs = probs[:, [names.index(name) for name in class_names]]
    return probs


def certify(
    predictions: FilePredictions | FileSketch | FileDecisions, options: CommandOptions
) -> ThresholdResult | QuestionThresholds:
    """Return the certified threshold, two thresholds for both decisions, or the thresholds of a log's questions."""
    from calibrant.thresholds import certify_threshold, certify_two_sided

    max_risk = _MAX_RISK if options.max_risk is None else options.max_risk
    if isinstance(predictions, FileDecisions) and options.yes_risk is None:
        return questions.certify(predictions, options, max_risk)
    if isinstance(predictions, FileSketch):
        bets = options.certified_by == "betting" or options.largest_cluster or options.max_weight
        if bets and not is_sketch_file(options.files[0]):
            problem = "has so many rows that only a sketch is kept, but --method betting needs the rows"
            remedy = "pass --exact to keep the rows, or leave --method, --largest-cluster and --max-weight out"
            raise FileError(predictions.paths[0], problem, remedy)
        if options.per_class:
            problem = "is a sketch, which does not contain the predicted class"
            remedy = "pass --exact and a file with rows, or leave --per-class out"
            raise FileError(predictions.paths[0], problem, remedy)
    names = ("confidence", "cost_of_error", "cost_of_referral", "weights_are", "largest_cluster", "max_weight")
    how = {**data_of(predictions, options), **_named(options, *names), "method": options.certified_by}
    if options.yes_risk is not None and options.no_risk is not None:
        how = {name: value for name, value in how.items() if name not in ("notion", "class_names", "groups")}
        return certify_two_sided(**how, yes_risk=options.yes_risk, no_risk=options.no_risk)
    return certify_threshold(**how, max_risk=max_risk, per_class=options.per_class)


def benefit(predictions: FilePredictions | FileSketch | FileDecisions, options: CommandOptions) -> BenefitOfThresholds:
    """Return the net benefit at the thresholds that the options name, or at the one that the costs imply."""
    from calibrant.thresholds.benefit import benefit_of_thresholds

    names = ("confidence", "thresholds", "cost_of_false_positive", "cost_of_false_negative", "weights_are")
    how = {**data_of(predictions, options), **_named(options, *names)}
    return benefit_of_thresholds(**how)


def apply(
    *,
    map_file: str,
    path: str,
    output: str,
    name: str,
    logits: bool,
    quiet: bool,
    **columns: Any,
) -> None:
    """Write a file with the mapped scores, and say so; warn of a map without proof and of scores that have drifted."""
    from calibrant.files.applied import ClassColumns, apply_to_file
    from calibrant.recalibration.maps import CalibrationMap, Watch

    fitted = CalibrationMap.read(map_file)
    drift, number = None if fitted.fitted is None else Watch(fitted.fitted), fitted.n_classes
    of = "one event" if number is None else "several labels" if fitted.kind == "labels" else "classes"
    unsuited = {"--probs": number is None, "--score": number is not None, "--odds": of != "classes"}
    options = Options(**columns)
    given = {"--probs": options.probs, "--score": options.score, "--odds": options.odds}
    for option, wrong in unsuited.items():
        if wrong and given[option] is not None:
            problem = f"{option} does not suit a map of {of}"
            raise FileError(map_file, problem, f"leave {option} out, or use another map")

    def mapped(scores: Any) -> Any:
        values = fitted(scores, logits=logits)
        if drift is not None:
            drift.add(fitted.watched(scores, logits=logits))
        return values

    classes = None if number is None else ClassColumns(number, fitted.event.get("class_names"))
    rows = apply_to_file(path, output, mapped, options, classes=classes, name=name)
    if not quiet:
        console.say(f"wrote {output} ({rows:,} rows)")
    if fitted.assumed:
        changed = "only the event rate" if number is None else "only the shares of the classes"
        console.say(f"{map_file}: the correction assumes that {changed} changed after training")
    elif not fitted.proven:
        console.say(f"{map_file}: there was no evidence that this map improves the scores")
    if drift is not None and (found := drift.result()).drifted:
        console.say(
            "the distribution of the scores differs from the scores that the map was fitted to: distance "
            f"{found.distance:.3f}, above the limit of {found.limit:.3f}; {100 * found.outside:.3g} % of the "
            "scores are outside the fitted range"
        )


def _check_sketch_options(ctx: click.Context, options: CommandOptions) -> None:
    """Reject options that cannot change a sketch."""
    values = {name: getattr(options, name) for name in _FIXED_BY_SKETCH}
    changed = [name for name, value in values.items() if value is not False and value != getattr(CommandOptions, name)]
    useless = [label(param) for param in ctx.command.params if param.name in changed]
    if options.engine != ENGINES[0]:
        useless.append("--engine")
    if options.classwise is False:
        useless.append("--no-classwise")
    if useless:
        verb, them = ("has", "it") if len(useless) == 1 else ("have", "them")
        listed = ", ".join(useless)
        msg = f"{listed} {verb} no effect on a sketch, because a sketch contains no rows; leave {them} out"
        raise click.UsageError(msg, ctx)
