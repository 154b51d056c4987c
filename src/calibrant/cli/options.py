"""The options of the command: their declarations for click, their values as one frozen value, and what is wrong use."""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from glob import glob, has_magic
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from calibrant.cli import console
from calibrant.cli.conditions import Condition
from calibrant.cli.usage import CONFIGURED_BY, FAULTS, Argument, Configured, Option, Wanted, together
from calibrant.errors import nearest, quoted
from calibrant.files.columns import Options
from calibrant.render.words import shown
from calibrant.runtime.dataclass import dataclass

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from calibrant.inputs.predictions import Notion
    from calibrant.results import Bands

#: The engines that can read files.
ENGINES: Final = ("embedded", "spark")

#: The parameters of commands that name files to read. No output may be one of these files.
READ: Final = {
    "files": "FILE",
    "path": "FILE",
    "map_file": "MAP",
    "targets_file": "--targets",
    "baseline": "--baseline",
    "threshold_path": "--threshold",
}
#: The parameters of commands that name files to write. No two of them may be the same file.
WRITTEN: Final = {
    **{f"{kind}_path": f"--{kind}" for kind in ("json", "html", "markdown", "png", "svg", "sketch", "map", "sql")},
    "onnx_path": "--onnx",
    "since_onset_path": "--since-onset",
    "prometheus_path": "--prometheus",
    "output": "--output",
}
#: The parameters of commands that name files to read and to write.
UPDATED: Final = {"state_path": "STATE"}
#: The output that may be one of the inputs, with its command: sketches may be added up in one of them.
_MAY_BE_READ: Final = ("merge", "sketch_path")

_MOST_LABELS: Final = 100_000

Command = Callable[..., Any]
Declaration = Callable[[Command], Command]
#: The real path of a file, or its device and its number there.
Identity = str | tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class CommandOptions(Options):
    """The options of ``report`` and of ``compare``; an option that a command lacks keeps its default.

    The fields have the names of click's parameters. The inherited fields choose the columns. ``scores`` is the typed
    text that ``models`` come from. `check` rejects invalid values before any file is opened.
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
    own_outcomes: bool | None = None
    sort_by: str = "brier"
    tolerance: float | None = None
    tolerance_of: str = "ece"
    gate: bool = False
    method: str = "auto"
    map_path: str | None = None
    sql_path: str | None = None
    onnx_path: str | None = None
    anyway: bool = False
    max_risk: float | None = None
    confidence: float = 0.95
    yes_risk: float | None = None
    no_risk: float | None = None
    certified_by: str | None = None
    largest_cluster: int | None = None
    per_class: bool = False
    cost_of_error: float | None = None
    cost_of_referral: float | None = None
    state_path: str = ""
    label: str | None = None
    groups: tuple[str, ...] | None = None
    time: str | None = None
    every: str = "week"
    alpha: float | None = None
    tolerance_odds: float | None = None
    max_weight: float | None = None
    threshold_path: str | None = None
    since_onset_path: str | None = None
    prometheus_path: str | None = None

    @property
    def is_long(self) -> bool:
        """Whether ``--by`` of ``compare`` names the model of each row, because one file has the rows of all models."""
        one_file = len(self.files) == 1 and not has_magic(self.files[0])
        return one_file and bool(self.by) and self.scores is None and self.baseline is None

    @property
    def timezone_used(self) -> str | None:
        """The zone of times in SQL and in groups; None without these."""
        compares = re.search(r"[=<>(]", f"{self.score} {self.outcome}")  # in SQL, perhaps times
        return self.timezone if self.where is not None or self.by or self.clusters or compares else None

    @property
    def outputs(self) -> dict[str, str]:
        """The paths to write to, by option."""
        paths = {option: getattr(self, name, None) for name, option in WRITTEN.items()}
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


option = partial(click.option, cls=Option, shell_complete=_proposals)
argument = partial(click.argument, cls=Argument)


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
    return argument("files", **attributes, type=Wanted(missing), shell_complete=_proposals)


exact = option("--exact", is_flag=True, help="Keep every row in memory. By default, large data become a sketch.")
predictions = files("Name a file, such as predictions.csv.")
score = option(
    "--score", metavar="COLUMN", help="The column with the probability of one event, or SQL such as '1 - p_loss'."
)
probs = option(
    "--probs",
    metavar="COLUMNS",
    help="The probabilities of many classes, as columns 'p_*', a column of lists, or an array.",
)
targets = option(
    "--targets", "targets_file", metavar="FILE", help="The .npy file with the targets, if FILE is an .npy file."
)
weights = declared(
    option("--weight", metavar="COLUMN", help="The column with the weight of each row."),
    option(
        "--weights-are",
        type=click.Choice(("frequency", "sampling")),
        metavar="KIND",
        help="The meaning of whole-number weights: frequency (counts of equal rows) or sampling.",
    ),
)
groups = declared(
    option(
        "--by",
        metavar="COLUMN",
        multiple=True,
        help="Evaluate groups by a column, SQL, month(date) or week(date). The option may be repeated.",
    ),
    option(
        "--by-values",
        is_flag=True,
        help="Make a group of each number in --by. By default, more than 50 numbers become quintiles.",
    ),
)
selection = declared(
    option(
        "--cluster",
        "clusters",
        metavar="COLUMN",
        multiple=True,
        help="The column (or SQL) of clusters, such as patient. Rows of one cluster may be dependent.",
    ),
    option("--where", metavar="SQL", help="Use only the rows that meet this SQL condition."),
    option(
        "--timezone",
        metavar="NAME",
        callback=_timezone,
        default=CommandOptions.timezone,
        help="The time zone for SQL and groups, such as Europe/Berlin.",
    ),
)
rows = declared(weights, groups, selection)
numbers = declared(
    option("--percent", is_flag=True, help="Read the probabilities as percentages, such as 85 or '85%'."),
    option("--decimal-comma", is_flag=True, help="Read a comma as the decimal point, such as in 0,85."),
)
n_bins = option(
    "--n-bins",
    "--bins",
    "n_bins",
    type=int,
    default=CommandOptions.n_bins,
    help="The number of bins.",
)
classes = declared(
    option(
        "--labels",
        metavar="LABELS",
        callback=_names,
        help="The labels of the targets in the order of the classes, such as 'no,yes' or '1-10'.",
    ),
    option(
        "--class-names",
        metavar="NAMES",
        callback=_names,
        help="The names of the classes in column order, separated by commas.",
    ),
    option("--ignore-index", type=int, metavar="LABEL", help="Leave out the rows whose target is this label."),
)
level = option("--level", type=float, default=CommandOptions.level, help="The level of the confidence intervals.")
keep_going = option("--keep-going", is_flag=True, help="Leave out files that cannot be used, and print their names.")
json = option(
    "--json",
    "json_path",
    metavar="PATH",
    callback=_standard_output,
    help="Write every number as JSON to this file, or to standard output with -.",
)
outcome = option(
    "--outcome", metavar="COLUMN", help="The column of outcomes, 0 or 1, or SQL such as 'predicted = label'."
)
target = option("--target", metavar="COLUMN", help="The column of the true classes, as indices from 0 or as names.")
logits = option("--logits", is_flag=True, help="Read the numbers as logits, not as probabilities.")
#: What the rows of one model are read from.
one_model = declared(score, outcome, probs, target, targets, rows, logits, numbers)
draws = declared(
    option(
        "--n-resamples",
        type=int,
        default=CommandOptions.n_resamples,
        help="The number of simulated data sets. With 0, closed formulas replace the simulation.",
    ),
    option("--rng", type=int, default=CommandOptions.rng, help="The seed of the simulated data sets."),
)
outputs = declared(
    option("--quiet", is_flag=True, help="Print only errors, warnings, and why a condition or gate failed."),
    json,
    option("--html", "html_path", metavar="PATH", help="Write the result as one HTML page."),
    option("--title", metavar="TEXT", help="The title of the HTML page (default: the file name)."),
    option("--date", metavar="TEXT", help="A date or other text below the title of the HTML page."),
    option("--open", "open_page", is_flag=True, help="Open the HTML page in a browser."),
    option(
        "--markdown",
        "markdown_path",
        metavar="PATH",
        callback=_standard_output,
        help="Write a summary in Markdown to this file, or to standard output with -.",
    ),
    option("--png", "png_path", metavar="PATH", help="Write the figure to this PNG file."),
    option("--svg", "svg_path", metavar="PATH", help="Write the figure to this SVG file."),
    option(
        "--config",
        metavar="PATH",
        help="A file with options (default: calibrant.toml or pyproject.toml).",
    ),
    option("--no-config", is_flag=True, expose_value=False, help="Do not read a file of options."),
)


# ---------------------------------------------------------------- checks of the usage, before any file is opened

#: How the names of files must end, by option.
_ENDINGS: Final = {
    "--html": (".html", ".htm"),
    "--png": (".png",),
    "--svg": (".svg",),
    "--map": (".json",),
    "--sql": (".sql",),
    "--onnx": (".onnx",),
    "--since-onset": (".cal",),
    "--prometheus": (".prom",),
}

#: A wrong use of the options: a sentence, or an option and what is wrong with its value.
Problem = str | tuple[str, str]


def check(ctx: click.Context, problems: Iterable[Problem]) -> None:
    """Raise all problems as one error, after those of single options that the parsing of the command line found."""
    errors = [
        click.UsageError(problem, ctx)
        if isinstance(problem, str)
        else click.BadParameter(problem[1], ctx, param_hint=problem[0])
        for problem in chain(problems, _of_one_file_twice(ctx), _of_texts(ctx))
    ]
    if (error := together(ctx, errors)) is not None:
        raise error


def _of_texts(ctx: click.Context) -> Iterator[Problem]:
    """Yield the texts that are not UTF-8, as names of files alone may be: no other program would take them."""
    for param in ctx.command.params:
        given = ctx.params.get(str(param.name)) or ()
        texts = [given] if isinstance(given, str) else given if isinstance(given, tuple) else ()
        if param.name not in {**READ, **WRITTEN, **UPDATED} and re.search("[\ud800-\udfff]", "".join(map(str, texts))):
            yield max(param.opts, key=len), f"{quoted(shown(str(given), '?'))}; pass text in UTF-8"


def _of_one_file_twice(ctx: click.Context) -> Iterator[Problem]:
    """Yield the outputs of any command that are one of its inputs or outputs, after patterns and links are resolved."""
    read = [(CONFIGURED_BY, ctx.meta[CONFIGURED_BY])] if CONFIGURED_BY in ctx.meta else []
    for name, label in READ.items():
        given = ctx.params.get(name) or ()
        read += [(label, path) for each in ([given] if isinstance(given, str) else given) for path in _matching(each)]
    owners = {identity: label for label, path in read if path != "-" for identity in _identities(path)}
    if any(path == "-" for _, path in read):
        owners |= dict.fromkeys(_numbers(0), "standard input")
    written: dict[Identity, str] = {}
    for name, label in {**UPDATED, **WRITTEN}.items():
        path = ctx.params.get(name)
        if not path:
            continue
        found = _identities(path)
        within = {os.path.dirname(each) for each in found if isinstance(each, str)} if os.path.exists(path) else set()
        if (ctx.command.name, name) != _MAY_BE_READ and (owner := _first(owners, found | within)) is not None:
            yield label, f"{quoted(path)} is also read, as {owner}; name another file"
        elif (other := _first(written, found)) is not None:
            yield f"{other} and {label} both name {path}; name a different file for each option"
        written |= dict.fromkeys(found, label)


def _matching(pattern: str) -> list[str]:
    """Return the files of this machine that a name or a pattern stands for."""
    exists = pattern == "-" or os.path.exists(pattern)
    return glob(pattern, recursive=True) if has_magic(pattern) and not exists else [pattern]


def _identities(path: str) -> set[Identity]:
    """Return what two names of one file have in common: where their links end, and the number of the file."""
    end: Identity = "-" if path == "-" else os.path.normcase(os.path.realpath(path))
    return {end, *_numbers(path)}


def _numbers(file: str | int) -> list[Identity]:
    """Return the device and the number of a regular file; nothing for what is not one."""
    with suppress(OSError):
        status = os.stat(file)
        return [(status.st_dev, status.st_ino)] if stat.S_ISREG(status.st_mode) else []
    return []


def _first(labels: Mapping[Identity, str], identities: Iterable[Identity]) -> str | None:
    return next((labels[each] for each in identities if each in labels), None)


def problems_of_report(ctx: click.Context, options: CommandOptions) -> Iterator[Problem]:
    """Yield the problems of the options of ``report``."""
    from calibrant.inputs.notions import NOTIONS

    yield from _of_one_model(ctx, options, NOTIONS)
    if not _is_faulty(ctx, "measures", "profile"):
        yield from _of_conditions(options)
    yield from _of_tolerance(options.tolerance)
    yield from _of_tolerated(ctx, options)
    yield from problems_of_sketch(options.sketch_path)
    if options.exact and options.engine == "spark":
        yield "--exact keeps the rows in this process, but --engine spark does not; pass only one of the two options"
    if options.master is not None and options.engine != "spark":
        yield "--master works only with --engine spark; pass --engine spark too"


def problems_of_recalibrate(ctx: click.Context, options: CommandOptions) -> Iterator[Problem]:
    """Yield the problems of the options of ``recalibrate``."""
    yield from _of_one_model(ctx, options, ("positive", "top-label", "multilabel"))
    if options.anyway and not any((options.map_path, options.sql_path, options.onnx_path)):
        yield "--anyway writes a map that is not proven; name it with --map"


def problems_of_threshold(ctx: click.Context, options: CommandOptions) -> Iterator[Problem]:
    """Yield the problems of the options of ``threshold``."""
    yield from _of_one_model(ctx, options, ("positive", "top-label"))
    yield from _of_risks(options)
    if not 0.5 <= options.confidence < 1:
        yield "--confidence", f"{_exact(options.confidence)}; pass a share from 0.5 to below 1, such as 0.95"
    if options.per_class and options.by:
        yield "--per-class and --by exclude each other; pass only one of the two options"
    yield from _of_bounds(options)
    error, referral = options.cost_of_error, options.cost_of_referral
    if (error is None) != (referral is None):
        yield "--cost-of-error and --cost-of-referral belong together; pass both"
    elif error is not None and referral is not None and not 0 < referral < error:
        yield (
            "--cost-of-referral",
            f"{_exact(referral)}; pass a cost above 0 and below that of an error, {_exact(error)}",
        )


def _of_bounds(options: CommandOptions) -> Iterator[Problem]:
    """Yield the problems of the largest cluster and the largest weight, which betting assumes."""
    bounds = {
        "--largest-cluster": (options.largest_cluster, options.clusters, "--cluster", "a number of rows, such as 20"),
        "--max-weight": (options.max_weight, options.weight, "--weight", "a weight, such as 20"),
    }
    for option, (bound, column, needed, example) in bounds.items():
        if bound is None:
            continue
        if not 0 < bound < float("inf"):
            yield option, f"{bound:g}; pass {example}"
        if not column:
            yield f"{option} is for {needed}; pass {needed} too"
        if options.certified_by not in (None, "betting"):
            yield f"{option} works only with --method betting; leave --method {options.certified_by} out"


def problems_of_monitor(ctx: click.Context, options: CommandOptions) -> Iterator[Problem]:
    """Yield the problems of the options of ``monitor``."""
    yield from _of_one_model(ctx, options, ("positive", "top-label"))
    if not _is_faulty(ctx, "state_path") and not options.state_path.lower().endswith(".json"):
        yield "STATE", f"{quoted(options.state_path)}; name the file of the state first, such as state.json"
    elif options.state_path:
        yield from _of_folder("STATE", options.state_path)
    if options.alpha is not None and not 0 < options.alpha <= 0.5:
        yield "--alpha", f"{_exact(options.alpha)}; pass a probability above 0 and up to 0.5, such as 0.05"
    if options.tolerance is not None and options.tolerance_odds is not None:
        yield "--tolerance and --tolerance-odds exclude each other; pass only one of the two options"
    yield from _of_tolerance(options.tolerance)
    if options.tolerance_odds is not None and not options.tolerance_odds > 1:
        yield "--tolerance-odds", f"{_exact(options.tolerance_odds)}; pass a factor above 1, such as 1.1"
    if options.time is not None:
        for option, given in (("--label", options.label is not None), ("--by", bool(options.by))):
            if given:
                yield f"{option} does not work with --time; leave one of them out, or monitor one file for each slice"
    if options.groups is not None and not options.by:
        yield "--groups needs --by, the column of the groups"
    if not options.files:
        yield from _of_slices(options)


def _of_slices(options: CommandOptions) -> Iterator[Problem]:
    """Yield the problems of options that need the file of a slice, where none is named."""
    for name in ("label", "groups", "time", "alpha", "tolerance", "tolerance_odds", "max_weight", "threshold_path"):
        if getattr(options, name) is not None:
            yield f"--{name.removesuffix('_path').replace('_', '-')} is for a slice; name its file too"


def _of_risks(options: CommandOptions) -> Iterator[Problem]:
    """Yield the problems of the largest error rates, and of what does not work with two of them."""
    risks = {"--max-risk": options.max_risk, "--yes-risk": options.yes_risk, "--no-risk": options.no_risk}
    for option, risk in risks.items():
        if risk is not None and not 0 < risk <= 0.5:
            example = f", such as {risk / 100:g}; {risk:g} % is {risk / 100:g}" if 1 <= risk <= 50 else ", such as 0.05"
            yield option, f"{_exact(risk)}; pass a share above 0 and up to 0.5{example}"
    if (options.yes_risk is None) != (options.no_risk is None):
        yield "--yes-risk and --no-risk belong together; pass both, or --max-risk for one kind of decision"
    elif options.yes_risk is not None:
        others = {"max_risk": None, "by": (), "per_class": False, "probs": None}
        for name, default in others.items():
            if getattr(options, name) != default:
                option = f"--{name.replace('_', '-')}"
                yield f"{option} does not work with --yes-risk and --no-risk; leave one of them out"


def _of_one_model(ctx: click.Context, options: CommandOptions, notions: Sequence[str]) -> Iterator[Problem]:
    """Yield the problems of the options that ``report``, ``recalibrate`` and ``threshold`` share."""
    yield from _of_both(ctx, options, notions)
    yield from _of_level(options.level)
    for option, whole in (("--n-resamples", options.n_resamples), ("--rng", options.rng)):
        if whole < 0:
            yield option, f"{whole}; pass 0 or more"
    if options.score and options.probs:
        yield "--score is for one event, and --probs is for many classes; pass only one of the two options"
    if options.outcome and options.target:
        yield "--outcome and --target both name the true values; pass only one of the two options"


def _of_conditions(options: CommandOptions) -> Iterator[Problem]:
    """Yield the problem of a condition on a measure that the report leaves out."""
    from calibrant.measures.listed import selected

    selection = selected(options.measures, options.profile)
    shown = {"n", "test", *(measure.name for measure in selection.measures)}
    option = "--measures" if selection.listed else f"--profile {options.profile}"
    for condition in options.conditions:
        if condition.measure not in shown:
            remedy = (
                "add the measure there"
                if selection.listed
                else f"list the measures with --measures {condition.measure},..."
            )
            yield f"--fail-if {quoted(condition.text)}: {option} leaves {condition.measure} out; {remedy}"


def _of_tolerated(ctx: click.Context, options: CommandOptions) -> Iterator[Problem]:
    """Yield the problem of an error that no tolerance can be about, or that is named without a tolerance."""
    from calibrant.inference.decision import TOLERATED
    from calibrant.inputs.notions import PER_CLASS

    if options.tolerance_of not in TOLERATED:
        yield "--tolerance-of", f"{quoted(options.tolerance_of)}; {nearest(options.tolerance_of, TOLERATED)}"
    elif options.tolerance_of != TOLERATED[0]:
        if options.tolerance is None and not _is_faulty(ctx, "tolerance"):
            yield "--tolerance-of works only with --tolerance; pass --tolerance too"
        elif options.notion in PER_CLASS:
            problem = f"with --notion {options.notion}, a tolerance is available only for the ECE"
            yield f"--tolerance-of {options.tolerance_of}: {problem}; leave --tolerance-of out"


def problems_of_compare(ctx: click.Context, options: CommandOptions) -> Iterator[Problem]:
    """Yield the problems of the options of ``compare``."""
    yield from _of_both(ctx, options, ("positive", "top-label"))
    if options.scores is not None and len(set(options.models)) < max(len(options.models), 2):
        yield "--scores", f"{quoted(options.scores)}; name two models or more, each once, such as old,new"
    yield from _of_one_file(options)
    for_files = {
        "--score": options.score,
        "--probs": options.probs,
        "--targets": options.targets_file,
        "--on": options.on,
        "--baseline": options.baseline,
        "--paired": options.paired,
        "--independent": options.paired is False,
    }
    passed = [option for option, value in for_files.items() if value]
    if options.scores is not None and passed:
        yield f"--scores is for models in one file, but {passed[0]} is for separate files; pass only one of the two"
    if options.score and options.probs:
        yield "--score is for one event, and --probs is for many classes; pass only one of the two options"
    yield from _of_level(options.level)
    yield from _of_tolerance(options.tolerance)


def _of_one_file(options: CommandOptions) -> Iterator[Problem]:
    """Yield the problems of the models in one file, which are columns or rows, and of whose outcomes they are."""
    one_file = len(options.files) == 1 and not has_magic(options.files[0])
    if options.scores is None and not options.baseline and one_file and not options.by:
        yield single_file(options)
    if options.is_long and not options.on:
        if options.paired and not options.clusters:
            yield "--paired needs the clusters that pair the models; pass --cluster too, such as --cluster question_id"
        if options.own_outcomes is False:
            yield "--same-outcomes needs rows that are paired; pass --on too, such as --on question_id"
    if options.own_outcomes is not None and options.scores is not None:
        yield "--scores is for models with the same outcomes, so --own-outcomes does not work with it; leave it out"


def single_file(options: CommandOptions) -> str:
    """Return the problem of a comparison of a single file."""
    columns = options.score if options.score and "," in options.score else "old,new"
    remedy = f"name a second file, or the columns of the models, such as --scores {shlex.quote(columns)}, "
    remedy += "or the column that names the model of each row, such as --by model"
    return f"{options.files[0]} is the only file; {remedy}"


def problems_of_floor(ctx: click.Context, params: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the problems of the options of ``floor``."""
    yield from _of_level(params["level"])
    yield from _of_tolerance(params["prove"], "--prove")
    if params["n"] is None and params["prove"] is None and not _is_faulty(ctx, "n", "prove"):
        yield "name the number of predictions, such as --n 500, or the largest acceptable ECE, such as --prove 0.02"


def _exact(value: float) -> str:
    """Return a number with the digits that make it wrong."""
    from calibrant.errors.wording import number  # which loads NumPy

    return number(value)


def _of_tolerance(tolerance: float | None, option: str = "--tolerance") -> Iterator[Problem]:
    if tolerance is not None and not 0 < tolerance < 1:
        yield option, f"{_exact(tolerance)}; pass the largest acceptable error, such as 0.02"


def _of_level(level: float) -> Iterator[Problem]:
    if not 0.5 <= level < 1:
        yield "--level", f"{_exact(level)}; pass a share from 0.5 to below 1, such as 0.95"


def _of_both(ctx: click.Context, options: CommandOptions, notions: Sequence[str]) -> Iterator[Problem]:
    """Yield the problems of the options that ``report`` and ``compare`` share."""
    if len(set(options.clusters)) < len(options.clusters):
        yield "--cluster", f"{', '.join(options.clusters)}; name each column once"
    if options.notion is not None and options.notion not in notions:
        yield "--notion", f"{quoted(options.notion)}; {nearest(options.notion, notions)}"
    if options.n_bins < 1:
        yield "--n-bins", f"{options.n_bins} bins; pass 1 or more"
    yield from _of_outputs(ctx, options)
    if options.by_values and not options.by:
        yield "--by-values works only with --by; pass --by too"
    if options.labels and options.class_names:
        yield "--labels and --class-names both name the classes; pass only one of the two options"
    if options.logits and options.percent:
        yield "--logits and --percent exclude each other; pass only one of the two options"


def _of_outputs(ctx: click.Context, options: CommandOptions) -> Iterator[Problem]:
    for option, path in options.outputs.items():
        endings = _ENDINGS.get(option, ("",))
        if path.lower().endswith(endings):
            yield from _of_folder(option, path)
        else:
            yield option, f"{quoted(path)}; name a file that ends in {endings[0]}, such as report{endings[0]}"
    for option in ("title", "date"):
        typed = ctx.get_parameter_source(option) is ParameterSource.COMMANDLINE
        if typed and options.html_path is None and not options.open_page:
            yield f"--{option} sets the {option} of the HTML page; pass --html too"


def problems_of_apply(path: str | None, output: str | None, name: str) -> Iterator[Problem]:
    """Yield the problems of the options of ``apply``; what is None has an error of its own."""
    if not name.strip():
        yield "--name", f"{quoted(name)}; name the new column"
    if output is None or path is None:
        return
    endings = (".csv", ".parquet", ".arrow", ".feather")
    if not output.lower().endswith(endings):
        yield "--output", f"{quoted(output)}; name a file that ends in {', '.join(endings[:-1])} or {endings[-1]}"
    yield from _of_folder("--output", output)


def problems_of_sketch(path: str | None) -> Iterator[Problem]:
    """Yield the problem of a file name for a sketch."""
    if path is not None and not path.lower().endswith(".cal"):
        yield "--sketch", f"{quoted(path)}; name a file that ends in .cal, such as week.cal"
    elif path is not None:
        yield from _of_folder("--sketch", path)


def _of_folder(option: str, path: str) -> Iterator[Problem]:
    if path == "":
        yield option, "''; name a file or leave the option out; perhaps a shell variable is empty"
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        yield option, f"{quoted(path)}; the folder {quoted(folder)} does not exist; make the folder first"


def _is_faulty(ctx: click.Context, *names: str) -> bool:
    """Whether one of these options has an error of its own, so that its default stands in its place."""
    faults = [fault for fault in ctx.meta.get(FAULTS, ()) if isinstance(fault, click.BadParameter)]
    return any(fault.param is not None and fault.param.name in names for fault in faults)
