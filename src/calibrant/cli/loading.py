"""Load the predictions that the options name, as rows or as a sketch, and report on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from calibrant.cli import output, spark

if TYPE_CHECKING:
    from collections.abc import Callable

    from calibrant.files import FileModels, FilePredictions, FileRows, FileSketch, Options
    from calibrant.report import Report

    Step = Callable[[int, int, int], None]

#: The engines that can read files.
ENGINES: Final = ("embedded", "spark")

#: The options that no longer have an effect once a sketch exists.
_FIXED_BY_SKETCH: Final = (
    "score",
    "outcome",
    "probs",
    "target",
    "targets_file",
    "weight",
    "by",
    "where",
    "logits",
    "percent",
    "notion",
    "classwise",
    "labels",
    "class_names",
    "ignore_index",
    "exact",
    "master",
)


def load(
    ctx: click.Context, options: Mapping[str, Any], step: Step, rows: list[FileRows]
) -> FilePredictions | FileSketch:
    """Read the files; append to ``rows`` what an error may be about."""
    from calibrant import files
    from calibrant.files.paths import expand, kind_of
    from calibrant.inputs import check_logits

    if options["engine"] == "spark" and any("://" in name for name in options["files"]):  # only Spark finds these
        return spark.load(ctx, options, options["files"], _column_options(options))
    paths = expand(options["files"])
    output.check_targets([*paths, options["targets_file"]], options)
    if kind_of(paths[0]) == "sketch":
        _check_sketch_options(ctx, options)
        return _check_rows(files.read_sketches(paths, keep_going=options["keep_going"]))
    if options["engine"] == "spark":
        return spark.load(ctx, options, paths, _column_options(options))
    column_options = _column_options(options)
    judging = files.Judging(options["notion"], options["classwise"], options["ignore_index"], options["logits"])
    keep = True if options["exact"] else False if options["sketch_path"] is not None else None
    try:
        loaded = files.read_predictions(
            paths,
            column_options,
            judging,
            targets_file=options["targets_file"],
            keep=keep,
            keep_going=options["keep_going"],
            progress=step,
        )
    except files.BadRows as bad:
        rows.append(bad.rows)
        raise bad.error from None
    if isinstance(loaded, files.FilePredictions):
        rows.append(loaded)
        if options["logits"] or loaded.logits:
            check_logits(loaded.probs)
    return loaded


def load_models(options: Mapping[str, Any], scores: Sequence[str], step: Step) -> FileModels:
    """Read the predictions of several models."""
    from calibrant import files
    from calibrant.files.paths import expand

    output.check_targets(expand(options["files"]), options)
    asked = files.Options(
        outcome=options["outcome"],
        weight=options["weight"],
        where=options["where"],
        class_names=_tuple(options["class_names"]),
        models=tuple(scores),
        percent=options["percent"],
        labels=_tuple(options["labels"]),
    )
    return files.read_models(options["files"], asked, progress=step)


def evaluate(predictions: FilePredictions | FileSketch, options: Mapping[str, Any]) -> Report:
    """Return the report on the predictions."""
    from calibrant.evaluation import evaluate as evaluate_predictions
    from calibrant.files import FileSketch

    common = {name: options[name] for name in ("n_bins", "level", "measures", "n_resamples", "rng")}
    if isinstance(predictions, FileSketch):
        report = evaluate_predictions(predictions.sketch, **common)
        return replace(report, omitted=dict(predictions.omitted))
    report = evaluate_predictions(
        predictions.probs,
        predictions.targets,
        notion=options["notion"],
        weights=predictions.weights,
        ignore_index=options["ignore_index"],
        logits=options["logits"] or predictions.logits,
        class_names=predictions.class_names,
        groups=predictions.groups,
        classwise=options["classwise"] is not False,
        **common,
    )
    return replace(report, omitted=dict(predictions.omitted))


def _column_options(options: Mapping[str, Any]) -> Options:
    """Return the options that name columns."""
    from calibrant.files import Options

    names = ("score", "outcome", "probs", "target", "weight", "where", "by", "percent")
    return Options(
        **{name: options[name] for name in names},
        class_names=_tuple(options["class_names"]),
        labels=_tuple(options["labels"]),
    )


def _tuple(names: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)


def _check_sketch_options(ctx: click.Context, options: Mapping[str, Any]) -> None:
    """Reject options that cannot change a sketch."""
    flags = {param.name: max(param.opts, key=len) for param in ctx.command.params}
    useless = [flags[name] for name in _FIXED_BY_SKETCH if options[name] is not None and options[name] is not False]
    if options["engine"] != ENGINES[0]:
        useless.append("--engine")
    if options["classwise"] is False:
        useless.append("--no-classwise")
    if useless:
        verb = "has" if len(useless) == 1 else "have"
        msg = f"{', '.join(useless)} {verb} no effect on a sketch, which holds no rows; leave it out"
        raise click.UsageError(msg if verb == "has" else msg.replace("leave it out", "leave them out"), ctx)


def _check_rows(sketch: FileSketch) -> FileSketch:
    from calibrant.errors import FileError

    if sketch.sketch.n == 0:
        raise FileError(sketch.paths[0], "holds a sketch without rows", "name a sketch of predictions")
    return sketch
