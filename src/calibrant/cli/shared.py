"""The options that several commands share, and the parsing of their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from calibrant.cli import completion, console
from calibrant.cli.options import CommandOptions
from calibrant.cli.usage import Wanted
from calibrant.errors import quoted

_MOST_LABELS: Final = 100_000

Command = Callable[..., Any]


def names(ctx: click.Context, option: click.Parameter, listed: str | None) -> tuple[str, ...] | None:
    """Return the names of an option, split at commas; 1-3 means 1,2,3."""
    if listed is None:
        return None
    names = [name.strip() for name in listed.split(",")]
    ends = re.fullmatch(r"(-?\d{1,9})-(\d{1,9})", names[0]) if len(names) == 1 and option.name == "labels" else None
    if ends is not None and 0 < int(ends[2]) - int(ends[1]) < _MOST_LABELS:
        names = [str(label) for label in range(int(ends[1]), int(ends[2]) + 1)]
    if option.name == "labels" and len(set(names)) < max(len(names), 2):
        hint = f"{quoted(listed)}; name two labels or more, each once, such as no,yes or 1-10"
        raise click.BadParameter(hint, ctx, option)
    return tuple(names)


def measures(ctx: click.Context, option: click.Parameter, listed: str | None) -> tuple[str, ...] | None:
    """Return the measures of a list, split at commas."""
    if listed is None:
        return None
    from calibrant.measures.profiles import PROFILES

    if listed.strip() in PROFILES:
        hint = f"{quoted(listed.strip())} is a profile, not a measure; pass --profile {listed.strip()}"
        raise click.BadParameter(hint, ctx, option)
    names = split(listed)
    _check(ctx, option, measures=names)
    return names


def profile(ctx: click.Context, option: click.Parameter, name: str) -> str:
    """Return the name of a profile."""
    if name != CommandOptions.profile:
        _check(ctx, option, profile=name)
    return name


def _check(ctx: click.Context, option: click.Parameter, **chosen: Any) -> None:
    """Reject what names no measures or no profile as click does."""
    from calibrant.errors import InputError
    from calibrant.measures.listed import selected

    try:
        selected(**chosen)
    except InputError as error:
        hint = f"{error.got}; {error.remedy}"
        raise click.BadParameter(hint, ctx, option) from None


def timezone(ctx: click.Context, option: click.Parameter, name: str) -> str:
    """Return the name of a time zone."""
    import zoneinfo

    if name == "UTC":  # also where the system has no list of zones
        return name
    known = zoneinfo.available_timezones() - {"localtime"}  # which is that of the machine
    if name not in known:
        from calibrant.errors import nearest

        hint = f"there is no time zone {quoted(name)}; {nearest(name, sorted(known))}"
        raise click.BadParameter(hint, ctx, option)
    return name


def standard_output(_ctx: click.Context, _option: click.Parameter, path: str | None) -> str | None:
    """Return "-" for any name of standard output: a report after the JSON would spoil it."""
    from calibrant.results.writing import descriptor_of

    return path if path is None or descriptor_of(path) != console.OUT else "-"


def split(listed: str) -> tuple[str, ...]:
    """Return the names in a list, split at commas; empty ones are left out."""
    return tuple(name.strip() for name in listed.split(",") if name.strip())


files = click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="FILE...",
    type=Wanted("Name a file, such as predictions.csv."),
    shell_complete=completion.files,
)
score = click.option(
    "--score",
    metavar="COLUMN",
    help="The probability of one event: a column, or SQL such as '1 - p_loss'.",
    shell_complete=completion.columns,
)
probs = click.option(
    "--probs",
    metavar="COLUMNS",
    help="The probabilities of many classes: 'p_*', a column of lists, an array.",
    shell_complete=completion.patterns,
)
targets = click.option(
    "--targets",
    "targets_file",
    metavar="FILE",
    help="The .npy file of the targets of an .npy file.",
    shell_complete=completion.files,
)
_weights = (
    click.option("--weight", metavar="COLUMN", help="How often each row counts.", shell_complete=completion.columns),
    click.option(
        "--weights-are",
        type=click.Choice(("frequency", "sampling")),
        metavar="KIND",
        help="What whole weights are: numbers of equal rows, the default, or sampling weights of a survey.",
    ),
)
by = click.option(
    "--by",
    metavar="COLUMN",
    multiple=True,
    help="Report on each group of rows too: a column or SQL, month(date) or week(date); repeat for several.",
    shell_complete=completion.columns,
)
by_values = click.option(
    "--by-values", is_flag=True, help="A group for each number of --by: by default more than 50 become five groups."
)
cluster = click.option(
    "--cluster",
    "clusters",
    metavar="COLUMN",
    multiple=True,
    help="What rows belong to, such as patient: rows of one are not independent. A column or SQL; repeat for several.",
    shell_complete=completion.columns,
)
where = click.option("--where", metavar="SQL", help="Leave out the rows that do not meet this condition.")
time_zone = click.option(
    "--timezone",
    metavar="NAME",
    callback=timezone,
    default=CommandOptions.timezone,
    show_default=True,
    help="The zone in which SQL and groups see times that have a zone, such as Europe/Berlin.",
    shell_complete=completion.timezones,
)
percent = click.option("--percent", is_flag=True, help="The numbers are per cent, or text such as '85%'.")
decimal_comma = click.option(
    "--decimal-comma", is_flag=True, help="Decimals in a CSV or in texts have a comma, 0,85 for 0.85."
)
n_bins = click.option(
    "--n-bins",
    "--bins",
    "n_bins",
    type=int,
    default=CommandOptions.n_bins,
    show_default=True,
    help="The number of bins; --bins means the same.",
)
class_names = click.option(
    "--class-names",
    metavar="NAMES",
    callback=names,
    help="Names of the classes in column order, separated by commas.",
)
labels = click.option(
    "--labels",
    metavar="LABELS",
    callback=names,
    help="The labels in the file, in the order of the classes: 'no,yes' (the second is the event), '1-10'.",
)
ignore_index = click.option("--ignore-index", type=int, metavar="LABEL", help="Leave out the rows with this label.")
level = click.option(
    "--level", type=float, default=CommandOptions.level, show_default=True, help="The confidence of the intervals."
)
json = click.option(
    "--json",
    "json_path",
    metavar="PATH",
    callback=standard_output,
    help="Write every number to this file as JSON; - for standard output.",
)
_config = (
    click.option(
        "--config",
        metavar="PATH",
        help="The file of options; default: calibrant.toml, or pyproject.toml with [tool.calibrant], here or above.",
    ),
    click.option("--no-config", is_flag=True, expose_value=False, help="Read no file of options."),
)
_outputs = (
    click.option("--quiet", is_flag=True, help="Show only errors, and conditions and gates that fail."),
    json,
    click.option("--html", "html_path", metavar="PATH", help="Write an HTML page that needs no other file."),
    click.option("--title", metavar="TEXT", help="The title of the page; default: the file's name."),
    click.option("--date", metavar="TEXT", help="A date, or any other text, below the title of the page."),
    click.option(
        "--open", "open_page", is_flag=True, help="Open the page in a browser; without --html a temporary one."
    ),
    click.option(
        "--markdown",
        "markdown_path",
        metavar="PATH",
        callback=standard_output,
        help="Write a summary in Markdown; - for standard output. $GITHUB_STEP_SUMMARY is appended to.",
    ),
    click.option("--png", "png_path", metavar="PATH", help="Write the reliability diagram as a PNG picture."),
    click.option("--svg", "svg_path", metavar="PATH", help="Write the reliability diagram as an SVG picture."),
)


def config(command: Command) -> Command:
    """Add the options that name a file of options."""
    return _with(_config, command)


def weight(command: Command) -> Command:
    """Add the options of the weights of rows."""
    return _with(_weights, command)


def outputs(command: Command) -> Command:
    """Add the options that say what to write where."""
    return _with(_outputs, command)


def _with(options: Sequence[Callable[[Command], Command]], command: Command) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


keep_going = click.option(
    "--keep-going", is_flag=True, help="Leave out files that cannot be used, name them, and use the rest."
)
