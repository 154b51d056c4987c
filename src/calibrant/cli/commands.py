"""The command ``calibrant``: from a file of predictions to a report, or to a comparison of models."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

try:
    import click
except ImportError:
    sys.exit("calibrant: the command needs the extra 'report'; run: pip install 'calibrant[report]'")

from calibrant.cli import completion, output
from calibrant.cli.conditions import ConditionType, is_held
from calibrant.cli.errors import failing
from calibrant.cli.usage import Commands, Count, Wanted

if TYPE_CHECKING:
    pass

#: An exit status; 1 is of bad data (`errors`), 2, for usage, is click's own.
CONDITION_HELD: Final = 3

_MOST_LABELS = 100_000


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="calibrant", message="%(prog)s %(version)s")
def main() -> None:
    """Tell how far predicted probabilities can be trusted.

    \b
    calibrant report predictions.parquet
    calibrant report games.csv --score win_prob --outcome won
    calibrant compare predictions.parquet --scores old,new
    calibrant floor --n 500

    "calibrant report --help" says more, with examples.
    """  # noqa: D301 - click wants the backspace itself


def _names(ctx: click.Context, option: click.Parameter, listed: str | None) -> list[str] | None:
    """Split the names of an option at their commas; 1-3 stands for 1,2,3."""
    if listed is None:
        return None
    names = [name.strip() for name in listed.split(",")]
    ends = re.fullmatch(r"(-?\d{1,9})-(\d{1,9})", names[0]) if len(names) == 1 and option.name == "labels" else None
    if ends is not None and 0 < int(ends[2]) - int(ends[1]) < _MOST_LABELS:
        names = [str(label) for label in range(int(ends[1]), int(ends[2]) + 1)]
    if option.name == "labels" and len(set(names)) < max(len(names), 2):
        hint = f"{listed!r}; name two labels or more, each once, such as no,yes or 1-10"
        raise click.BadParameter(hint, ctx, option)
    return names


# Options of several commands.
_files = click.argument(
    "files", nargs=-1, required=True, metavar="FILE...", type=Wanted("Name a file, such as predictions.csv."),
    shell_complete=completion.files,
)  # fmt: skip
_weight = click.option(
    "--weight", metavar="COLUMN", help="How often each row counts.", shell_complete=completion.columns
)
_where = click.option("--where", metavar="SQL", help="Leave out the rows that do not meet this condition.")
_percent = click.option("--percent", is_flag=True, help="The numbers are per cent, or texts such as '85%'.")
_n_bins = click.option("--n-bins", type=int, default=15, show_default=True, help="The number of bins.")
_class_names = click.option(
    "--class-names", metavar="NAMES", callback=_names,
    help="Names of the classes in column order, with commas between them.",
)  # fmt: skip
_labels = click.option(
    "--labels", metavar="LABELS", callback=_names,
    help="The labels in the file, in the order of the classes: 'no,yes' (the second is the event), '1-10'.",
)  # fmt: skip
_ignore_index = click.option("--ignore-index", type=int, metavar="LABEL", help="Leave out the rows with this label.")
_level = click.option("--level", type=float, default=0.95, show_default=True, help="The confidence of the intervals.")
_json = click.option(
    "--json", "json_path", metavar="PATH", help="Write every number there as JSON; - for standard output."
)
_html = click.option("--html", "html_path", metavar="PATH", help="Write it there as a page that needs no other file.")
_title = click.option("--title", metavar="TEXT", help="What stands above the page; without it the file's name.")


@main.command(short_help="How far the predictions of a model can be trusted.")
@_files
@click.option("--score", metavar="COLUMN", help="The probability of one event.", shell_complete=completion.columns)
@click.option(
    "--outcome", metavar="COLUMN", help="Whether that event happened: 0 or 1.", shell_complete=completion.columns
)
@click.option(
    "--probs",
    metavar="COLUMNS",
    help="The probabilities of many classes: 'p_*', a column of lists, an array.",
    shell_complete=completion.patterns,
)
@click.option(
    "--target",
    metavar="COLUMN",
    help="The true class: an index from 0, or a name.",
    shell_complete=completion.columns,
)
@click.option(
    "--targets",
    "targets_file",
    metavar="FILE",
    help="The .npy file of the targets of an .npy file.",
    shell_complete=completion.files,
)
@_weight
@click.option("--by", metavar="COLUMN", help="Report on each group of rows as well.", shell_complete=completion.columns)
@_where
@click.option("--logits", is_flag=True, help="The numbers are logits, no probabilities.")
@_percent
@click.option(
    "--notion",
    metavar="NOTION",
    help="The event judged: positive, top-label, classwise or multilabel.",
    shell_complete=completion.notions,
)
@_n_bins
@_labels
@_class_names
@_ignore_index
@_level
@click.option(
    "--n-resamples", type=int, default=1000, show_default=True, help="Replicates behind the noise floors; 0 for none."
)
@click.option("--rng", type=int, default=0, show_default=True, help="The seed of the replicates.")
@_json
@_html
@_title
@click.option(
    "--fail-if",
    "conditions",
    multiple=True,
    type=ConditionType(),
    shell_complete=completion.conditions,
    help="Exit with status 3 if this holds: 'ece > 0.05'.",
)
@click.pass_context
def report(ctx: click.Context, /, **options: Any) -> None:
    """Report on the predictions in FILE...: .npz, .npy, .csv, .parquet, .arrow, .jsonl, or patterns of them.

    Columns with the usual names (probs, p_*, score; target, label, outcome) are found by themselves, and the report
    says which were used.

    \b
    calibrant report digits.parquet --html report.html
    calibrant report games.csv --score win_prob --outcome won --by season
    calibrant report 'logs/*.parquet' --probs 'p_*' --where "split = 'test'"
    calibrant report model.npz --logits --json report.json --fail-if 'ece > 0.05'

    Exit status: 0; 1 for data that cannot be used; 2 for wrong usage; 3 where a --fail-if holds.
    """  # noqa: D301
    _check_usage(ctx, options)
    with failing(ctx) as files:
        with output.progress() as step:
            from calibrant.files import read_predictions
            from calibrant.inputs import check_logits
            from calibrant.report import evaluate

            predictions = read_predictions(
                options["files"], score=options["score"], outcome=options["outcome"], probs=options["probs"],
                target=options["target"], weight=options["weight"], by=options["by"], percent=options["percent"],
                where=options["where"], targets_file=options["targets_file"], class_names=options["class_names"],
                labels=options["labels"], progress=step,
            )  # fmt: skip
            files.append(predictions)
            output.check_targets(predictions, options)
            if options["logits"] or predictions.logits:
                check_logits(predictions.probs)
            step(0, 0)
            result = evaluate(
                predictions.probs, predictions.targets, notion=options["notion"], n_bins=options["n_bins"],
                weights=predictions.weights, ignore_index=options["ignore_index"],
                logits=options["logits"] or predictions.logits, class_names=predictions.class_names,
                groups=predictions.groups, level=options["level"], n_resamples=options["n_resamples"],
                rng=options["rng"],
            )  # fmt: skip
        output.write(result, predictions, options)
        held = [condition for condition in options["conditions"] if is_held(condition, result)]
    for condition in held:
        value = result.n if condition.measure == "n" else result[condition.measure].value
        click.echo(f"calibrant: --fail-if {condition.text!r} holds: {condition.measure} is {value:.6g}", err=True)
    if held:
        sys.exit(CONDITION_HELD)


@main.command(short_help="Which of several models is better calibrated.")
@_files
@click.option(
    "--scores",
    required=True,
    metavar="COLUMNS",
    type=Wanted("Name the models' columns, such as --scores old,new."),
    shell_complete=completion.models,
    help="The models, with commas between them: for each its column, or a pattern of a column for each class.",
)
@click.option(
    "--outcome",
    "--target",
    metavar="COLUMN",
    help="What happened: 0 or 1, or the true class.",
    shell_complete=completion.columns,
)
@_weight
@_where
@click.option("--logits", is_flag=True, help="The numbers are logits, no probabilities, of all models.")
@_percent
@click.option(
    "--notion",
    metavar="NOTION",
    help="The event judged: positive or top-label.",
    shell_complete=completion.notions,
)
@_n_bins
@_labels
@_class_names
@_ignore_index
@_level
@_json
@_html
@_title
@click.pass_context
def compare(ctx: click.Context, /, **options: Any) -> None:
    """Compare models whose predictions of the same rows are in FILE..., and say which is better calibrated.

    \b
    calibrant compare games.csv --scores old,new --outcome won
    calibrant compare digits.parquet --scores 'p_*,overconfident_*'
    calibrant compare models.npz --scores small,large --logits --json out.json

    Exit status: 0; 1 for data that cannot be used; 2 for wrong usage.
    """  # noqa: D301
    scores = _check_models(ctx, options)
    with failing(ctx) as files:
        with output.progress() as step:
            from calibrant import comparison
            from calibrant.files import read_models
            from calibrant.inputs import check_logits

            predictions = read_models(
                options["files"], scores=scores, outcome=options["outcome"], weight=options["weight"],
                percent=options["percent"], where=options["where"], class_names=options["class_names"],
                labels=options["labels"], progress=step,
            )  # fmt: skip
            files.append(predictions)
            output.check_targets(predictions, options)
            for name, argument in predictions.models.items():
                if options["logits"] or predictions.logits[name]:
                    check_logits(predictions.arrays[argument])
            step(0, 0)
            result = comparison.compare(
                {name: predictions.arrays[argument] for name, argument in predictions.models.items()},
                predictions.targets, notion=options["notion"], n_bins=options["n_bins"], weights=predictions.weights,
                ignore_index=options["ignore_index"], class_names=predictions.class_names, level=options["level"],
                logits={name: options["logits"] or found for name, found in predictions.logits.items()},
            )  # fmt: skip
        output.write(result, predictions, options)


@main.command(short_help="What noise alone shows, before there are any data.")
@click.option("--n", "n", type=Count(min=1), required=True, help="The number of predictions.")
@click.option(
    "--bins",
    "--n-bins",
    "n_bins",
    type=Count(1, 1_000_000),
    default=15,
    show_default=True,
    help="The number of bins.",
)
@click.option("--level", type=float, default=0.95, show_default=True, help="The share of samples below the floor.")
@click.option("--n-resamples", type=Count(min=1), default=1000, show_default=True, help="Samples drawn.")
@click.option("--rng", type=Count(min=0), default=0, show_default=True, help="The seed of the samples.")
@_json
@click.pass_context
def floor(ctx: click.Context, /, **options: Any) -> None:
    """Print what noise alone shows: the calibration errors of perfectly calibrated scores, before there are any data.

    \b
    calibrant floor --n 500 --bins 15
    """  # noqa: D301
    _check_level(ctx, options["level"])
    with failing(ctx):
        from calibrant.inference.floor import SCORE_LAWS, noise_floor
        from calibrant.render import floor as render

        names = ("n", "n_bins", "level", "n_resamples", "rng")
        with output.progress():
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
        output.write_summary(summary, options["json_path"], lambda: render.render(summary, style=output.style()))


@main.command("completion", short_help="Make the TAB key complete commands, in bash, zsh or fish.")
@click.argument("shell", type=click.Choice(completion.SHELLS))
def complete(shell: str) -> None:
    """Print what makes the TAB key complete commands, options, files and the columns in them.

    \b
    eval "$(calibrant completion bash)"    a line for ~/.bashrc
    eval "$(calibrant completion zsh)"     a line for ~/.zshrc, after compinit
    calibrant completion fish | source     a line for ~/.config/fish/config.fish
    """  # noqa: D301
    click.echo(completion.script(shell, main), nl=False)


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
    page, numbers = options["html_path"], options["json_path"]
    if page is not None and not page.endswith((".html", ".htm")):
        hint = f"{page!r}; name a file that ends in .html, such as report.html"
        raise click.BadParameter(hint, ctx, param_hint="--html")
    for name, target in (("--html", page), ("--json", numbers)):
        folder = os.path.dirname(target or "")
        if folder and not os.path.isdir(folder):
            hint = f"{target!r}; there is no folder {folder!r}, make it first"
            raise click.BadParameter(hint, ctx, param_hint=name)
    if page is not None and numbers is not None and os.path.abspath(page) == os.path.abspath(numbers):
        msg = f"--json and --html both name {page}; give each a file of its own"
        raise click.UsageError(msg, ctx)
    if options["title"] and page is None:
        raise click.UsageError("--title stands above the page; pass --html as well", ctx)
    if options["labels"] and options["class_names"]:
        raise click.UsageError("--labels and --class-names both name the classes; pass one of the two", ctx)
    if options["logits"] and options["percent"]:
        raise click.UsageError("--logits and --percent both say what the numbers are; pass one of the two", ctx)
