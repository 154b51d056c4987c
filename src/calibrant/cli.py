"""The command ``calibrant``: from a file of predictions to a report, or to a comparison of models."""

from __future__ import annotations

import json
import math
import operator
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

try:
    import click
except ImportError:
    sys.exit("calibrant: the command needs the extra 'report'; run: pip install 'calibrant[report]'")

if TYPE_CHECKING:
    from calibrant.comparison import Comparison
    from calibrant.errors import InputError
    from calibrant.files import FileRows
    from calibrant.report import Report

#: Exit statuses beside 0; 2, for usage, is click's own.
BAD_DATA: Final = 1
CONDITION_HELD: Final = 3

_PATIENCE = 1.0  # seconds before a progress bar appears

_OPERATORS: Final[dict[str, Callable[[float, float], bool]]] = {
    "<=": operator.le, ">=": operator.ge, "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on one measure, such as ``ece > 0.05``."""

    text: str
    measure: str
    operator: str
    bound: float

    def holds(self, value: float) -> bool:
        return _OPERATORS[self.operator](value, self.bound)


class ConditionType(click.ParamType):  # type: ignore[type-arg,unused-ignore] # generic from click 8.4 on
    """Parses a condition on a measure."""

    name = "CONDITION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Condition:
        from calibrant.errors import nearest
        from calibrant.report import MEASURES

        if isinstance(value, Condition):
            return value
        match = re.fullmatch(r"\s*(\w+)\s*(<=|>=|==|!=|<|>)\s*([-+.\w]+)\s*", value)
        if match is None:
            self.fail(f"{value!r} is no condition; write it like 'ece > 0.05'", param, ctx)
        measure, sign, bound = match.groups()
        if measure not in (*MEASURES, "n"):
            self.fail(f"no measure {measure!r}; {nearest(measure, (*MEASURES, 'n'))}", param, ctx)
        try:
            number = float(bound)
        except ValueError:
            self.fail(f"{bound!r} is no number; write it like '{measure} {sign} 0.05'", param, ctx)
        return Condition(value.strip(), measure, sign, number)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="calibrant", message="%(prog)s %(version)s")
def main() -> None:
    """Tell how far predicted probabilities can be trusted.

    \b
    calibrant report predictions.parquet
    calibrant report --help
    calibrant compare predictions.parquet --scores old,new
    calibrant floor --n 500
    """  # noqa: D301 - click wants the backspace itself


# Options of several commands.
_weight = click.option("--weight", metavar="COLUMN", help="How often each row counts.")
_where = click.option("--where", metavar="SQL", help="Leave out the rows that do not meet this condition.")
_n_bins = click.option("--n-bins", type=int, default=15, show_default=True, help="The number of bins.")
_class_names = click.option(
    "--class-names",
    metavar="NAMES",
    callback=lambda _ctx, _option, listed: None if listed is None else [name.strip() for name in listed.split(",")],
    help="Names of the classes in column order, with commas between them.",
)
_ignore_index = click.option("--ignore-index", type=int, metavar="LABEL", help="Leave out the rows with this label.")
_level = click.option("--level", type=float, default=0.95, show_default=True, help="The confidence of the intervals.")
_json = click.option(
    "--json", "json_path", metavar="PATH", help="Write every number there as JSON; - for standard output."
)


@main.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--score", metavar="COLUMN", help="The probability of one event.")
@click.option("--outcome", metavar="COLUMN", help="Whether that event happened: 0 or 1.")
@click.option("--probs", metavar="COLUMNS", help="The probabilities of many classes: 'p_*', a column of lists, a key.")
@click.option("--target", metavar="COLUMN", help="The true class: an index from 0, or a name.")
@click.option("--targets", "targets_file", metavar="FILE", help="The .npy file of the targets of an .npy file.")
@_weight
@click.option("--by", metavar="COLUMN", help="Report on each group of rows as well.")
@_where
@click.option("--logits", is_flag=True, help="The numbers are logits, no probabilities.")
@click.option("--notion", metavar="NOTION", help="The event judged: positive, top-label, classwise or multilabel.")
@_n_bins
@_class_names
@_ignore_index
@_level
@click.option(
    "--n-resamples", type=int, default=1000, show_default=True, help="Replicates behind the noise floors; 0 for none."
)
@click.option("--rng", type=int, default=0, show_default=True, help="The seed of the replicates.")
@_json
@click.option(
    "--fail-if",
    "conditions",
    multiple=True,
    type=ConditionType(),
    help="Exit with status 3 if this holds: 'ece > 0.05'.",
)
@click.pass_context
def report(ctx: click.Context, /, **options: Any) -> None:
    """Report on the predictions in FILE...: .npz, .npy, .csv, .parquet, .arrow, .jsonl, or patterns of them.

    Columns with the usual names (probs, p_*, score; target, label, outcome) are found by themselves, and the report
    says which were used.

    \b
    calibrant report digits.parquet
    calibrant report nba_games.csv --score prob1 --outcome prob1_outcome --by season
    calibrant report 'logs/*.parquet' --probs 'p_*' --target label --where "split = 'test'"
    calibrant report model.npz --logits --json report.json --fail-if 'ece > 0.05'

    Exit status: 0; 1 for data that cannot be used; 2 for wrong usage; 3 where a --fail-if holds.
    """  # noqa: D301
    _check_usage(ctx, options)
    with _failing(options["where"]) as files:
        with _progress() as step:
            from calibrant.files import read_predictions
            from calibrant.report import evaluate

            predictions = read_predictions(
                options["files"], score=options["score"], outcome=options["outcome"], probs=options["probs"],
                target=options["target"], weight=options["weight"], by=options["by"], where=options["where"],
                targets_file=options["targets_file"], class_names=options["class_names"], progress=step,
            )  # fmt: skip
            files.append(predictions)
            step(0, 0)
            result = evaluate(
                predictions.probs, predictions.targets, notion=options["notion"], n_bins=options["n_bins"],
                weights=predictions.weights, ignore_index=options["ignore_index"],
                logits=options["logits"] or predictions.logits, class_names=predictions.class_names,
                groups=predictions.groups, level=options["level"], n_resamples=options["n_resamples"],
                rng=options["rng"],
            )  # fmt: skip
        _write(result, predictions, options)
        held = [condition for condition in options["conditions"] if _check(condition, result)]
    for condition in held:
        value = result.n if condition.measure == "n" else result[condition.measure].value
        click.echo(f"calibrant: --fail-if {condition.text!r} holds: {condition.measure} is {value:.6g}", err=True)
    if held:
        sys.exit(CONDITION_HELD)


@main.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--scores",
    required=True,
    metavar="COLUMNS",
    help="The models, with commas between them: for each its column, or a pattern of a column for each class.",
)
@click.option("--outcome", "--target", metavar="COLUMN", help="What happened: 0 or 1, or the true class.")
@_weight
@_where
@click.option("--logits", is_flag=True, help="The numbers are logits, no probabilities, of all models.")
@click.option("--notion", metavar="NOTION", help="The event judged: positive or top-label.")
@_n_bins
@_class_names
@_ignore_index
@_level
@_json
@click.pass_context
def compare(ctx: click.Context, /, **options: Any) -> None:
    """Compare models whose predictions of the same rows are in FILE..., and say which is better calibrated.

    \b
    calibrant compare games.csv --scores old,new --outcome won
    calibrant compare digits.parquet --scores 'p_*,overconfident_*' --outcome target
    calibrant compare models.npz --scores small,large --logits --json comparison.json

    Exit status: 0; 1 for data that cannot be used; 2 for wrong usage.
    """  # noqa: D301
    scores = _check_models(ctx, options)
    with _failing(options["where"]) as files:
        with _progress() as step:
            from calibrant import comparison
            from calibrant.files import read_models

            predictions = read_models(
                options["files"], scores=scores, outcome=options["outcome"], weight=options["weight"],
                where=options["where"], class_names=options["class_names"], progress=step,
            )  # fmt: skip
            files.append(predictions)
            step(0, 0)
            result = comparison.compare(
                {name: predictions.arrays[argument] for name, argument in predictions.models.items()},
                predictions.targets, notion=options["notion"], n_bins=options["n_bins"], weights=predictions.weights,
                ignore_index=options["ignore_index"], class_names=predictions.class_names, level=options["level"],
                logits={name: options["logits"] or found for name, found in predictions.logits.items()},
            )  # fmt: skip
        _write(result, predictions, options)


@main.command()
@click.option("--n", "n", type=click.IntRange(min=1), required=True, help="The number of predictions.")
@click.option(
    "--bins",
    "--n-bins",
    "n_bins",
    type=click.IntRange(1, 1_000_000),
    default=15,
    show_default=True,
    help="The number of bins.",
)
@click.option("--level", type=float, default=0.95, show_default=True, help="The share of samples below the floor.")
@click.option("--n-resamples", type=click.IntRange(min=1), default=1000, show_default=True, help="Samples drawn.")
@click.option("--rng", type=click.IntRange(min=0), default=0, show_default=True, help="The seed of the samples.")
@_json
@click.pass_context
def floor(ctx: click.Context, /, **options: Any) -> None:
    """Print what noise alone shows: the calibration errors of perfectly calibrated scores, before there are any data.

    \b
    calibrant floor --n 500 --bins 15
    """  # noqa: D301
    _check_level(ctx, options["level"])
    with _failing(None):
        from calibrant.inference.floor import SCORE_LAWS, noise_floor
        from calibrant.render import floor as render

        names = ("n", "n_bins", "level", "n_resamples", "rng")
        with _progress():
            found = [noise_floor(scores=law, **{name: options[name] for name in names}) for law in SCORE_LAWS]
        summary = {
            **{name: options[name] for name in names},
            "laws": {
                one.scores: {
                    "description": SCORE_LAWS[one.scores][2],
                    "floors": {name: {"mean": own.mean, "upper": own.upper} for name, own in one.floors.items()},
                    "rows_for_ece_of_0.01": one.rows_for(0.01),
                }
                for one in found
            },
        }
        _print(summary, options["json_path"], lambda: render.render(summary, style=_style()))


def _check_usage(ctx: click.Context, options: Mapping[str, Any]) -> None:
    """Refuse, as usage, what is wrong before any file is opened."""
    from calibrant.notions import NOTIONS

    _check_judging(ctx, options, NOTIONS)
    _check_level(ctx, options["level"])
    for name in ("n_resamples", "rng"):
        if options[name] < 0:
            hint = f"{options[name]}; pass 0 or more"
            raise click.BadParameter(hint, ctx, param_hint=f"--{name.replace('_', '-')}")
    if options["score"] and options["probs"]:
        raise click.UsageError("--score names one event, --probs many classes; pass one of the two", ctx)
    if options["outcome"] and options["target"]:
        raise click.UsageError("--outcome and --target both name the truth; pass one of the two", ctx)


def _check_models(ctx: click.Context, options: Mapping[str, Any]) -> list[str]:
    """Return the models to compare; refuse, as usage, what is wrong before any file is opened."""
    _check_judging(ctx, options, ("positive", "top-label"))
    scores = [part.strip() for part in options["scores"].split(",") if part.strip()]
    if len(set(scores)) < max(len(scores), 2):
        hint = f"{options['scores']!r}; name two models or more, each once, such as old,new"
        raise click.BadParameter(hint, ctx, param_hint="--scores")
    _check_level(ctx, options["level"])
    return scores


def _check_level(ctx: click.Context, level: float) -> None:
    if not 0.5 <= level < 1:
        hint = f"{level:g}; pass a share from 0.5 to below 1, such as 0.95"
        raise click.BadParameter(hint, ctx, param_hint="--level")


def _check_judging(ctx: click.Context, options: Mapping[str, Any], notions: Sequence[str]) -> None:
    from calibrant.errors import nearest

    if options["notion"] is not None and options["notion"] not in notions:
        hint = f"{options['notion']!r}; {nearest(options['notion'], notions)}"
        raise click.BadParameter(hint, ctx, param_hint="--notion")
    if options["n_bins"] < 1:
        hint = f"{options['n_bins']} bins; pass 1 or more"
        raise click.BadParameter(hint, ctx, param_hint="--n-bins")


@contextmanager
def _failing(condition: str | None) -> Iterator[list[FileRows]]:
    """End with one line and the status of bad data on errors; those about rows say where these stand in the files.

    The rows of the files belong into the list that is given, once they are read.
    """
    from calibrant.errors import CalibrantError, InputError

    files: list[FileRows] = []
    try:
        yield files
    except InputError as error:
        _fail(_place(error, files[0], condition) if files else str(error))
    except CalibrantError as error:
        _fail(str(error))
    except MemoryError:
        _fail("the predictions do not fit into memory; read fewer rows with --where")
    except OSError as error:
        _fail(f"{error.filename or 'output'}: {error.strerror or error}; check the path and the disk")


def _fail(message: str) -> None:
    click.echo("calibrant: " + " ".join(message.split()), err=True)
    sys.exit(BAD_DATA)


# ---------------------------------------------------------------- errors in the words of the file


_ARGUMENTS: Final = (
    (r"pass logits=True", "pass --logits"),
    (r"notion='([\w-]+)'", r"--notion \1"),
    (r"ignore_index=(-?\d+)", r"--ignore-index \1"),
    (r"\bclass_names\b", "--class-names"),
)


def _place(error: InputError, predictions: FileRows, condition: str | None) -> str:
    """Say where in the files an error of the library is, and what option mends it."""
    from calibrant.files import sql_name, where_option

    remedy, got = error.remedy, error.got
    expected = re.sub(r"probs\[(.*?)\]", r"column \1", error.expected)
    for pattern, words in _ARGUMENTS:
        remedy = re.sub(pattern, words, remedy)
    if error.argument not in predictions.columns:
        return f"{predictions.paths[0]}: {error.argument}: expected {expected}, got {got}; {remedy}"
    place = error.column if predictions.arrays[error.argument].ndim > 1 else None
    column = predictions.column_name(error.argument, place)
    path, where = predictions.paths[0], ""
    if error.row is not None:
        path, row = predictions.locate(error.row)
        where = f"row {row:,}, "
        got = re.sub(r" at row \d+(, column \d+)?", "", got)
        if error.argument == "targets" and error.expected == "outcomes 0 or 1" and "subtract" not in remedy:
            remedy = f"leave such rows out with {where_option(f'{sql_name(column)} IN (0, 1)', condition)}"
    return f"{path}: {where}column {column!r}: expected {expected}, got {got}; {remedy}"


# ---------------------------------------------------------------- output


def _write(result: Report | Comparison, predictions: FileRows, options: Mapping[str, Any]) -> None:
    from calibrant.render import comparison, terminal

    summary = result.to_dict()
    sources = {"files": list(predictions.paths), "columns": dict(predictions.sources), "where": options["where"]}
    paths = predictions.paths
    title = paths[0] if len(paths) == 1 else f"{paths[0]} … {paths[-1]} ({len(paths)} files)"
    render = comparison.render if "pairs" in summary else terminal.render
    _print(
        {**summary, "source": sources}, options["json_path"],
        lambda: render(summary, title=title, used=predictions.described(), style=_style()),
    )  # fmt: skip


def _print(summary: Mapping[str, Any], target: str | None, text: Callable[[], str]) -> None:
    """Write a summary as JSON where that was asked for, and the text to the terminal unless the JSON goes there."""
    if target is not None:
        strict = json.dumps(summary, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
        if target == "-":
            click.echo(strict, nl=False)
            return
        Path(target).write_text(strict, encoding="utf-8")
    click.echo(text())


def _style() -> Any:
    from calibrant.render import terminal

    encoding = sys.stdout.encoding or "ascii"
    try:
        terminal.GLYPHS.encode(encoding)
        rich = True
    except UnicodeEncodeError:
        rich = False
    return terminal.Style(
        colour=sys.stdout.isatty() and "NO_COLOR" not in os.environ,
        unicode=rich,
        width=shutil.get_terminal_size().columns,
    )


def _check(condition: Condition, result: Report) -> bool:
    from calibrant.errors import CalibrantError

    if condition.measure == "n":
        return condition.holds(result.n)
    estimate = result[condition.measure]
    if math.isnan(estimate.value):
        msg = f"--fail-if {condition.text!r}: {condition.measure} cannot be had ({estimate.details.get('reason')})"
        raise CalibrantError(msg)
    return condition.holds(estimate.value)


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """Show a bar on standard error, if that is a terminal, from the moment the work has taken a second."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("reading", total=None)

    def step(done: int, total: int) -> None:
        if total:
            bar.update(task, completed=done, total=total)
        else:
            bar.update(task, description="evaluating", total=None)

    timer = threading.Timer(_PATIENCE, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield step
    finally:
        timer.cancel()
        timer.join()
        bar.stop()


if __name__ == "__main__":
    main(prog_name="calibrant")
