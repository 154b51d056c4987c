"""The command ``calibrant``: from a file of predictions to a report, or to a comparison of models."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

try:
    import click
except ModuleNotFoundError:
    from calibrant.errors.exceptions import install_command

    sys.exit(f"calibrant: the command needs the extra 'report'; run: {install_command('report')}")

from calibrant import __version__
from calibrant.cli import conditions, console, output
from calibrant.cli import options as shared
from calibrant.cli.options import ENGINES, CommandOptions, option
from calibrant.cli.usage import Commands, Count, Wanted
from calibrant.errors import CalibrantError

if TYPE_CHECKING:
    from calibrant.files.predictions import FileRows

#: The exit status of bad data.
BAD_DATA: Final = 1

SHELLS: Final = ("bash", "zsh", "fish")


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True},
)
@click.version_option(__version__, prog_name="calibrant", message="%(prog)s %(version)s")
def main() -> None:
    """Measure how far predicted probabilities can be trusted.

    \b
    calibrant report predictions.parquet
    calibrant report games.csv --score win_prob --outcome won
    calibrant compare old.npz new.npz
    calibrant merge monday.cal tuesday.cal --sketch week.cal
    calibrant floor --n 500

    "calibrant report --help" says more, with examples.
    """  # noqa: D301 - click wants the backspace itself


@main.command(short_help="How far the predictions of a model can be trusted.")
@shared.predictions
@shared.score
@option("--outcome", metavar="COLUMN", help="Whether that event happened: 0 or 1, or SQL such as 'predicted = label'.")
@shared.probs
@option("--target", metavar="COLUMN", help="The true class: an index from 0, or a name.")
@shared.targets
@shared.rows
@option("--logits", is_flag=True, help="The numbers are logits, not probabilities.")
@shared.numbers
@option("--notion", metavar="NOTION", help="The judged event: positive, top-label, classwise or multilabel.")
@shared.n_bins
@option(
    "--classwise/--no-classwise",
    default=None,
    help="Judge every class too; default: on for up to 10,000 classes, of streamed rows for fewer than 500.",
)
@shared.classes
@shared.level
@option(
    "--profile",
    metavar="NAME",
    default=CommandOptions.profile,
    callback=shared.profile,
    help="Whom the report serves: standard, clinical, forecast or all; sets the measures and the page.",
)
@option(
    "--measures",
    metavar="MEASURES",
    callback=shared.measures,
    help="The measures to show instead of the profile's: names separated by commas, such as ece,ks.",
)
@option("--all", "all_measures", is_flag=True, help="Show every measure of the profile, and all details.")
@option(
    "--n-resamples",
    type=int,
    default=CommandOptions.n_resamples,
    help="Replicates behind the noise floors; 0 for none.",
)
@option("--rng", type=int, default=CommandOptions.rng, help="The seed of the replicates.")
@option(
    "--bands",
    metavar="KIND",
    type=click.Choice(("pointwise", "simultaneous")),
    default=CommandOptions.bands,
    help="Where the band of the isotonic curve holds: pointwise, at each score, or simultaneous, at all at once.",
)
@option(
    "--tolerance",
    type=float,
    metavar="ERROR",
    help="The largest harmless error, such as 0.02: the report says whether the error is below it.",
)
@option(
    "--tolerance-of",
    metavar="MEASURE",
    default=CommandOptions.tolerance_of,
    help="The error that --tolerance is about: ece, smece, rmsce or mean_gap.",
)
@option("--exact", is_flag=True, help="Keep every row; by default many rows become a sketch.")
@shared.keep_going
@option(
    "--engine",
    metavar="ENGINE",
    type=click.Choice(ENGINES),
    default=CommandOptions.engine,
    help="The engine that reads the files: embedded (this process) or spark.",
)
@option("--master", metavar="URL", help="Where Spark runs, such as 'local[2]'; default: this machine.")
@option(
    "--sketch",
    "sketch_path",
    metavar="PATH",
    help="Write a sketch of the predictions to this .cal file, to merge with others.",
)
@shared.outputs
@option(
    "--fail-if",
    "conditions",
    multiple=True,
    type=conditions.ConditionType(),
    help="Exit with status 3 if this holds: 'ece > 0.05', 'ece.low > 0.03', 'groups.any(ece.low > 0.05)'.",
)
@option(
    "--gate",
    is_flag=True,
    help="Exit with status 3 if the scores are miscalibrated; with --tolerance: 3 if the error is above it, 4 if not "
    "decided.",
)
@click.pass_context
def report(ctx: click.Context, /, **params: Any) -> None:
    """Report on the predictions in FILE..., which may be patterns, such as 'logs/*.parquet'.

    They are .npz, .npy, .csv, .tsv, .xlsx, .parquet, .arrow, .feather, .json, .jsonl, .eval or .cal, - for standard
    input, or names that begin with https://, s3://, gs:// or hf://. The logs of lm-evaluation-harness
    (samples_*.jsonl) and inspect (.eval) need no options.

    Columns with the usual names (probs, p_*, score; target, label, outcome) are found automatically, and the
    report names the used ones. Files may be larger than memory.

    \b
    calibrant report digits.parquet --html report.html
    calibrant report games.csv --score win_prob --outcome won --by season
    calibrant report answers.parquet --cluster question_id
    calibrant report 'logs/*.parquet' --probs 'p_*' --where "split = 'test'"
    calibrant report 'logs/*.parquet' --keep-going --sketch week.cal
    calibrant report model.npz --logits --json out.json --fail-if 'ece.low > 0.05'
    calibrant report model.npz --logits --tolerance 0.02 --gate

    Exit status: 0; 1 for data that cannot be used; 2 for wrong usage; 3 for a gate that fails or a condition that
    holds; 4 for a gate that cannot decide about its tolerance.
    """  # noqa: D301
    options = CommandOptions(**params)
    shared.check(ctx, shared.problems_of_report(ctx, options))
    from calibrant.cli import loading

    _run(ctx, options, loading.load, loading.evaluate, conditions.report_status)


@main.command(short_help="Which of several models is better calibrated.")
@shared.predictions
@option(
    "--scores",
    metavar="COLUMNS",
    help="Models in one file, separated by commas: a column for each, or a pattern such as 'p_*' for its classes.",
)
@shared.score
@option(
    "--outcome",
    "--target",
    metavar="COLUMN",
    help="What happened: 0 or 1, SQL such as 'predicted = label', or the true class.",
)
@shared.probs
@shared.targets
@option(
    "--on",
    metavar="COLUMN",
    multiple=True,
    help="The column that tells which row of a file is which; repeat for several. Default: their positions.",
)
@option(
    "--baseline",
    metavar="FILE",
    help="The first model, from a file of its own, such as last.json or last.cal of an earlier report.",
)
@option(
    "--paired/--independent",
    default=None,
    help="What .cal files have in common: equal --cluster labels name the same things, such as the same patients; or "
    "nothing, as of independent samples. Default: not known, so that errors add up.",
)
@shared.rows
@option("--logits", is_flag=True, help="The numbers of all models are logits, not probabilities.")
@shared.numbers
@option("--notion", metavar="NOTION", help="The judged event: positive or top-label.")
@shared.n_bins
@shared.classes
@shared.level
@shared.outputs
@option(
    "--tolerance",
    type=float,
    metavar="ERROR",
    help="How much larger the ECE of a later model may be, such as 0.01: the comparison says whether it is.",
)
@option(
    "--fail-if",
    "conditions",
    multiple=True,
    type=conditions.ConditionType(changes=True),
    help="Exit with status 3 if this holds for a later model minus the first: 'ece > 0.01', 'brier.low > 0', "
    "'groups.any(ece.low > 0)'.",
)
@option(
    "--gate",
    is_flag=True,
    help="Exit with status 3 if a model is worse calibrated than the first; with --tolerance: 3 if its ECE is larger "
    "by more, 4 if not decided.",
)
@click.pass_context
def compare(ctx: click.Context, /, scores: str | None, **params: Any) -> None:
    """Compare models on the same rows, and say which is better calibrated: each in a FILE, or columns of FILE....

    \b
    calibrant compare old.npz new.npz
    calibrant compare old.csv new.csv --score win_prob --outcome won --on game_id
    calibrant compare today.parquet --baseline last.json
    calibrant compare games.csv --scores old,new --outcome won
    calibrant compare digits.parquet --scores 'p_*,overconfident_*'
    calibrant compare models.npz --scores small,large --logits --json out.json
    calibrant compare games.csv --scores old,new --outcome won --gate

    Exit status: 0; 1 for data that cannot be used; 2 for wrong usage; 3 for a gate that finds a worse model or a
    condition that holds; 4 for a gate that cannot decide about its tolerance.
    """  # noqa: D301
    options = CommandOptions(scores=scores, models=shared.split(scores or ""), **params)
    shared.check(ctx, shared.problems_of_compare(ctx, options))
    from calibrant.cli import loading

    _run(ctx, options, loading.load_models, loading.compare, conditions.comparison_status)


def _run(
    ctx: click.Context,
    options: CommandOptions,
    load: Callable[..., Any],
    evaluate: Callable[..., Any],
    status_of: Callable[..., int],
) -> None:
    """Load the predictions, evaluate them, write the result, and exit with its status."""
    with _failing(ctx, options) as rows:
        with output.progress(quiet=options.quiet) as step:
            predictions = load(ctx, options, step, rows)
            step(0, 0, 0)
            result = evaluate(predictions, options)
        output.write(result, predictions, options)
        status = status_of(result, options.conditions, gate=options.gate)
    if status:
        sys.exit(status)


@contextmanager
def _failing(ctx: click.Context, options: CommandOptions) -> Iterator[list[FileRows]]:
    """On errors about data, print one line and exit with their status; errors about rows name their place in the files.

    The caller appends the rows of the files to the list, once they are read.
    """
    rows: list[FileRows] = []
    try:
        yield rows
    except (CalibrantError, MemoryError, OSError) as error:
        from calibrant.cli.errors import message

        console.say(" ".join(message(error, rows, ctx, options).split()))
        sys.exit(BAD_DATA)


@main.command(short_help="Add the sketches of several files.")
@shared.files("Name sketches, such as monday.cal tuesday.cal.")
@option(
    "--sketch",
    "-o",
    "sketch_path",
    metavar="PATH",
    required=True,
    type=Wanted("Name the file for the sum, such as --sketch week.cal."),
    help="The .cal file for the sum; it may be one of the files to add.",
)
@shared.keep_going
@click.pass_context
def merge(ctx: click.Context, files: tuple[str, ...], sketch_path: str, keep_going: bool) -> None:
    """Add the sketches in FILE..., written by calibrant report --sketch, and write their sum.

    \b
    calibrant merge monday.cal tuesday.cal --sketch week.cal
    calibrant merge 'logs/*.cal' -o all.cal

    Exit status: 0; 1 for data that cannot be used; 2 for wrong usage.
    """  # noqa: D301
    shared.check(ctx, shared.problems_of_sketch(sketch_path))
    with _failing(ctx, CommandOptions()):
        from calibrant.files import read_sketches, write_sketch

        merged = read_sketches(files, keep_going=keep_going)
        write_sketch(merged.sketch, sketch_path)
        content = repr(merged.sketch).removeprefix("<CalibrationSketch: ").removesuffix(">")
        files_read = f"{len(merged.paths):,} file{'s' * (len(merged.paths) != 1)}"
        console.write(f"{sketch_path}: {content}, from {files_read}")
        output.warn(merged)


@main.command(short_help="What noise alone shows, before there is any data.")
@option("--n", "n", type=Count(min=1), help="The number of predictions.")
@option("--prove", type=float, metavar="ERROR", help="How many predictions prove that the ECE is below this?")
@option("--bins", "--n-bins", "n_bins", type=Count(1, 1_000_000), default=15, help="The number of bins.")
@option("--level", type=float, default=0.95, help="The share of samples below the floor.")
@option("--n-resamples", type=Count(min=1), default=1000, help="Samples drawn.")
@option("--rng", type=Count(min=0), default=0, help="The seed of the samples.")
@shared.json
@click.pass_context
def floor(ctx: click.Context, /, **params: Any) -> None:
    """Print the noise floor: the calibration errors of perfectly calibrated scores, before there is any data.

    With --prove, print how many predictions prove that the error of a calibrated model is small.

    \b
    calibrant floor --n 500 --bins 15
    calibrant floor --prove 0.02
    """  # noqa: D301
    shared.check(ctx, shared.problems_of_floor(ctx, params))
    with _failing(ctx, CommandOptions()):
        from calibrant.render import terminal

        json_path = params.pop("json_path")
        with output.progress():
            summary = {**params, **_noise(**params)}
        output.write_summary(summary, json_path, lambda: terminal.render_floor(summary, style=output.style()))


def _noise(n: int | None, prove: float | None, n_bins: int, level: float, n_resamples: int, rng: int) -> dict[str, Any]:
    """Return what each distribution of scores shows by noise alone, and how many rows prove that the error is small."""
    from calibrant.inference.floor import SCORE_LAWS, noise_floor, rows_to_prove
    from calibrant.measures import MEASURES

    laws: dict[str, dict[str, Any]] = {}
    floors: dict[str, Any] = {}
    for name, (_, _, description) in SCORE_LAWS.items():
        laws[name] = {"description": description}
        if n is not None:
            noise_of_measures = noise_floor(n, n_bins, scores=name, level=level, n_resamples=n_resamples, rng=rng)
            floors = {
                key: {"mean": noise.mean, "upper": noise.upper} for key, noise in noise_of_measures.floors.items()
            }
            laws[name] |= {"floors": floors, "rows_for_ece_of_0.01": noise_of_measures.rows_for(0.01)}
        if prove is not None:
            laws[name]["rows_to_prove"] = rows_to_prove(prove, n_bins, scores=name, level=level, rng=rng)
    return {"measures": {measure.name: measure.label for measure in MEASURES if measure.name in floors}, "laws": laws}


@main.command("completion", short_help="Make the TAB key complete commands, in bash, zsh or fish.")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def complete(ctx: click.Context, shell: str) -> None:
    """Print the shell code that lets the TAB key complete commands, options, files and their columns.

    \b
    eval "$(calibrant completion bash)"    a line for ~/.bashrc
    eval "$(calibrant completion zsh)"     a line for ~/.zshrc, after compinit
    calibrant completion fish | source     a line for ~/.config/fish/config.fish
    """  # noqa: D301
    shared.check(ctx, ())
    from calibrant.cli.completion import script

    console.put(script(shell, main))
