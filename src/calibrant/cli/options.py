"""The options of the command: their declarations for click, and their values as one frozen value."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from calibrant.cli import console
from calibrant.cli.conditions import Condition
from calibrant.cli.usage import Wanted
from calibrant.errors import quoted
from calibrant.files.columns import Options
from calibrant.runtime.dataclass import dataclass

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from calibrant.cli.configuration import Configured
    from calibrant.inputs.predictions import Notion
    from calibrant.results import Bands

#: The engines that can read files.
ENGINES: Final = ("embedded", "spark")

_MOST_LABELS: Final = 100_000

Command = Callable[..., Any]
Declaration = Callable[[Command], Command]


@dataclass(frozen=True, kw_only=True)
class CommandOptions(Options):
    """The options of ``report`` and of ``compare``; an option that a command lacks keeps its default.

    The fields have the names of click's parameters. The inherited fields choose the columns. ``scores`` is the typed
    text that ``models`` come from. `checks` rejects invalid values before any file is opened.
    """

    files: tuple[str, ...] = ()
    scores: str | None = None
    targets_file: str | None = None
    logits: bool = False
    notion: Notion | None = None
    classwise: bool | None = None
    n_bins: int = 15
    ignore_index: int | None = None
    level: float = 0.95
    profile: str = "standard"
    measures: tuple[str, ...] | None = None
    n_resamples: int = 1000
    rng: int = 0
    bands: Bands = "pointwise"
    exact: bool = False
    keep_going: bool = False
    engine: str = ENGINES[0]
    master: str | None = None
    sketch_path: str | None = None
    json_path: str | None = None
    html_path: str | None = None
    title: str | None = None
    date: str | None = None
    open_page: bool = False
    markdown_path: str | None = None
    png_path: str | None = None
    svg_path: str | None = None
    quiet: bool = False
    all_measures: bool = False
    config: Configured | None = None
    conditions: tuple[Condition, ...] = ()
    baseline: str | None = None
    paired: bool | None = None
    tolerance: float | None = None
    tolerance_of: str = "ece"
    gate: bool = False

    @property
    def timezone_used(self) -> str | None:
        """The zone of times in SQL and in groups; None where there are none of these."""
        compares = re.search(r"[=<>(]", f"{self.score} {self.outcome}")  # in SQL, perhaps times
        return self.timezone if self.where is not None or self.by or self.clusters or compares else None

    @property
    def outputs(self) -> dict[str, str]:
        """The paths to write to, by option."""
        kinds = ("json", "html", "markdown", "png", "svg", "sketch")
        paths = {f"--{kind}": getattr(self, f"{kind}_path") for kind in kinds}
        return {option: path for option, path in paths.items() if path is not None}


# ---------------------------------------------------------------- the parsing of values


def _names(ctx: click.Context, option: click.Parameter, listed: str | None) -> tuple[str, ...] | None:
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
    _check_selected(ctx, option, measures=names)
    return names


def profile(ctx: click.Context, option: click.Parameter, name: str) -> str:
    """Return the name of a profile."""
    if name != CommandOptions.profile:
        _check_selected(ctx, option, profile=name)
    return name


def _check_selected(ctx: click.Context, option: click.Parameter, **chosen: Any) -> None:
    """Reject what names no measures or no profile as click does."""
    from calibrant.errors import InputError
    from calibrant.measures.listed import selected

    try:
        selected(**chosen)
    except InputError as error:
        hint = f"{error.got}; {error.remedy}"
        raise click.BadParameter(hint, ctx, option) from None


def _timezone(ctx: click.Context, option: click.Parameter, name: str) -> str:
    """Return the name of a time zone."""
    if name == "UTC":  # also where the system has no list of zones
        return name
    import zoneinfo

    zones = zoneinfo.available_timezones() - {"localtime"}  # which is that of the machine
    if name not in zones:
        from calibrant.errors import nearest

        hint = f"there is no time zone {quoted(name)}; {nearest(name, sorted(zones))}"
        raise click.BadParameter(hint, ctx, option)
    return name


def _standard_output(_ctx: click.Context, _option: click.Parameter, path: str | None) -> str | None:
    """Return "-" for any name of standard output: a report after the JSON would spoil it."""
    if path is None:
        return None
    from calibrant.results.writing import descriptor_of

    return "-" if descriptor_of(path) == console.OUT else path


def split(listed: str) -> tuple[str, ...]:
    """Return the names in a list, split at commas; empty ones are left out."""
    return tuple(name.strip() for name in listed.split(",") if name.strip())


# ---------------------------------------------------------------- the options that several commands share


def _proposals(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from calibrant.cli.completion import proposals

    return proposals(ctx, param, incomplete)


option = partial(click.option, shell_complete=_proposals)


def declared(*options: Declaration) -> Declaration:
    """Add options to a command, in this order."""

    def add(command: Command) -> Command:
        for each in reversed(options):
            command = each(command)
        return command

    return add


def files(missing: str) -> Declaration:
    """Declare the files of a command, with what to say if none is named."""
    attributes: dict[str, Any] = {"nargs": -1, "required": True, "metavar": "FILE..."}
    return click.argument("files", **attributes, type=Wanted(missing), shell_complete=_proposals)


predictions = files("Name a file, such as predictions.csv.")
score = option("--score", metavar="COLUMN", help="The probability of one event: a column, or SQL such as '1 - p_loss'.")
probs = option(
    "--probs", metavar="COLUMNS", help="The probabilities of many classes: 'p_*', a column of lists, an array."
)
targets = option("--targets", "targets_file", metavar="FILE", help="The .npy file of the targets of an .npy file.")
rows = declared(
    option("--weight", metavar="COLUMN", help="How often each row counts."),
    option(
        "--weights-are",
        type=click.Choice(("frequency", "sampling")),
        metavar="KIND",
        help="What whole weights are: numbers of equal rows, the default, or sampling weights of a survey.",
    ),
    option(
        "--by",
        metavar="COLUMN",
        multiple=True,
        help="Report on each group of rows too: a column or SQL, month(date) or week(date); repeat for several.",
    ),
    option(
        "--by-values", is_flag=True, help="A group for each number of --by: by default more than 50 become five groups."
    ),
    option(
        "--cluster",
        "clusters",
        metavar="COLUMN",
        multiple=True,
        help="What rows belong to, such as patient: rows of one are not independent. A column or SQL; repeat for "
        "several.",
    ),
    option("--where", metavar="SQL", help="Leave out the rows that do not meet this condition."),
    option(
        "--timezone",
        metavar="NAME",
        callback=_timezone,
        default=CommandOptions.timezone,
        help="The zone in which SQL and groups see times that have a zone, such as Europe/Berlin.",
    ),
)
numbers = declared(
    option("--percent", is_flag=True, help="The numbers are per cent, or text such as '85%'."),
    option("--decimal-comma", is_flag=True, help="Decimals in a CSV or in texts have a comma, 0,85 for 0.85."),
)
n_bins = option(
    "--n-bins",
    "--bins",
    "n_bins",
    type=int,
    default=CommandOptions.n_bins,
    help="The number of bins; --bins means the same.",
)
classes = declared(
    option(
        "--labels",
        metavar="LABELS",
        callback=_names,
        help="The labels in the file, in the order of the classes: 'no,yes' (the second is the event), '1-10'.",
    ),
    option(
        "--class-names",
        metavar="NAMES",
        callback=_names,
        help="Names of the classes in column order, separated by commas.",
    ),
    option("--ignore-index", type=int, metavar="LABEL", help="Leave out the rows with this label."),
)
level = option("--level", type=float, default=CommandOptions.level, help="The confidence of the intervals.")
keep_going = option(
    "--keep-going", is_flag=True, help="Leave out files that cannot be used, name them, and use the rest."
)
json = option(
    "--json",
    "json_path",
    metavar="PATH",
    callback=_standard_output,
    help="Write every number to this file as JSON; - for standard output.",
)
outputs = declared(
    option("--quiet", is_flag=True, help="Show only errors, and conditions and gates that fail."),
    json,
    option("--html", "html_path", metavar="PATH", help="Write an HTML page that needs no other file."),
    option("--title", metavar="TEXT", help="The title of the page; default: the file's name."),
    option("--date", metavar="TEXT", help="A date, or any other text, below the title of the page."),
    option("--open", "open_page", is_flag=True, help="Open the page in a browser; without --html a temporary one."),
    option(
        "--markdown",
        "markdown_path",
        metavar="PATH",
        callback=_standard_output,
        help="Write a summary in Markdown; - for standard output. $GITHUB_STEP_SUMMARY is appended to.",
    ),
    option("--png", "png_path", metavar="PATH", help="Write the reliability diagram as a PNG picture."),
    option("--svg", "svg_path", metavar="PATH", help="Write the reliability diagram as an SVG picture."),
    option(
        "--config",
        metavar="PATH",
        help="The file of options; default: calibrant.toml, or pyproject.toml with [tool.calibrant], here or above.",
    ),
    option("--no-config", is_flag=True, expose_value=False, help="Read no file of options."),
)
