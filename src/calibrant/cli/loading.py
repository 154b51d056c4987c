"""From the options of the command to predictions, as rows or as a sketch, and to the report on them."""

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

#: What may read the files.
ENGINES: Final = ("embedded", "spark")

#: What is settled once a sketch has been made.
_SETTLED: Final = (
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
    """Read the files; the rows that an error is about are put into the list."""
    from calibrant import files
    from calibrant.files.paths import expand, kind_of
    from calibrant.inputs import check_logits

    if options["engine"] == "spark" and any("://" in name for name in options["files"]):  # which only Spark can find
        return spark.load(ctx, options, options["files"], _asked(options))
    paths = expand(options["files"])
    output.check_targets([*paths, options["targets_file"]], options)
    if kind_of(paths[0]) == "sketch":
        _check_settled(ctx, options)
        return _judged(files.read_sketches(paths, keep_going=options["keep_going"]))
    if options["engine"] == "spark":
        return spark.load(ctx, options, paths, _asked(options))
    asked = _asked(options)
    judging = files.Judging(options["notion"], options["classwise"], options["ignore_index"], options["logits"])
    keep = True if options["exact"] else False if options["sketch_path"] is not None else None
    try:
        predictions = files.read_predictions(
            paths,
            asked,
            judging,
            targets_file=options["targets_file"],
            keep=keep,
            keep_going=options["keep_going"],
            progress=step,
        )
    except files.BadRows as bad:
        rows.append(bad.rows)
        raise bad.error from None
    if isinstance(predictions, files.FilePredictions):
        rows.append(predictions)
        if options["logits"] or predictions.logits:
            check_logits(predictions.probs)
    return predictions


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
    """Report on what was read."""
    from calibrant.evaluation import evaluate as evaluate_predictions
    from calibrant.files import FileSketch

    common = {name: options[name] for name in ("n_bins", "level", "measures", "n_resamples", "rng")}
    if isinstance(predictions, FileSketch):
        found = evaluate_predictions(predictions.sketch, **common)
        return replace(found, omitted=dict(predictions.omitted))
    found = evaluate_predictions(
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
    return replace(found, omitted=dict(predictions.omitted))


def _asked(options: Mapping[str, Any]) -> Options:
    """Return which columns are asked for."""
    from calibrant.files import Options

    names = ("score", "outcome", "probs", "target", "weight", "where", "by", "percent")
    return Options(
        **{name: options[name] for name in names},
        class_names=_tuple(options["class_names"]),
        labels=_tuple(options["labels"]),
    )


def _tuple(names: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)


def _check_settled(ctx: click.Context, options: Mapping[str, Any]) -> None:
    """Refuse options that would change what a sketch holds."""
    flags = {param.name: max(param.opts, key=len) for param in ctx.command.params}
    given = [flags[name] for name in _SETTLED if options[name] is not None and options[name] is not False]
    if options["engine"] != ENGINES[0]:
        given.append("--engine")
    if options["classwise"] is False:
        given.append("--no-classwise")
    if given:
        verb = "has" if len(given) == 1 else "have"
        msg = f"{', '.join(given)} {verb} no effect on a sketch, in which the rows are summed up; leave it out"
        raise click.UsageError(msg if verb == "has" else msg.replace("leave it out", "leave them out"), ctx)


def _judged(found: FileSketch) -> FileSketch:
    from calibrant.errors import FileError

    if found.sketch.n == 0:
        raise FileError(found.paths[0], "holds a sketch without a row", "name one of predictions")
    return found
