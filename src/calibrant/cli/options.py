"""The options of the command: their declarations for click, their values as one frozen value, and what is wrong use."""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from glob import glob, has_magic
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from calibrant.cli import console
from calibrant.cli.conditions import Condition
from calibrant.cli.parameters import (
    NATURAL,
    SHARE,
    Among,
    Checked,
    ClassNames,
    ColumnName,
    FileName,
    InputFile,
    Listed,
    OutputFile,
    exact_number,
    label,
    whole,
)
from calibrant.cli.usage import CONFIGURED_BY, FAULTS, Argument, Configured, Option, together
from calibrant.errors import quoted
from calibrant.files.column_options import Options
from calibrant.files.encodings import is_encoding
from calibrant.render.words import shown
from calibrant.runtime.dataclass import dataclass

if TYPE_CHECKING:
    from calibrant.inputs.predictions import Notion
    from calibrant.recalibration.priors import Prior
    from calibrant.results import Bands

#: The engines that can read files.
ENGINES: Final = ("embedded", "spark")

#: What is written, by the names of its options.
OUTPUTS: Final = (
    *("sketch", "json", "html", "markdown", "png", "svg", "pdf"),
    *("map", "sql", "onnx", "gates", "since_onset", "prometheus"),
)

#: The parameters of ``recalibrate`` that need outcomes, or the logs of decision models.
_OF_OUTCOMES: Final = (
    *("outcome", "target", "targets_file", "labels", "ignore_index", "notion", "events", "trials", "by", "by_values"),
    *("question", "truth_path", "truth_on", "yes", "stated", "method", "n_resamples", "rng", "exact"),
)
#: The parameters of ``recalibrate`` for the scores of a file.
_OF_FILE: Final = (
    *("files", "reference_path", "score", "probs", "weight", "clusters", "where", "percent", "odds", "logits"),
)

#: The parameters that say how the text or the sheet of a file is read.
OF_STORED: Final = ("encoding", "sheet", "header_line")

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
    ordered: bool = False
    marginal: bool = False
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
    pdf_path: str | None = None
    dpi: int = 200
    quiet: bool = False
    all_measures: bool = False
    config: Configured | None = None
    conditions: tuple[Condition, ...] = ()
    baseline: str | None = None
    correct: str | None = None
    sparse: bool = False
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
    each: bool = False
    gates_path: str | None = None
    cost_of_error: float | None = None
    cost_of_referral: float | None = None
    thresholds: tuple[float, ...] | None = None
    cost_of_false_positive: float | None = None
    cost_of_false_negative: float | None = None
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
    question: str | None = None
    prior: Prior | None = None
    trained_prior: Prior | None = None
    estimate_prior: bool = False
    reference_path: str | None = None
    truth_path: str | None = None
    truth_on: str | None = None
    yes: str | None = None
    stated: bool = False

    @classmethod
    def of(cls, **params: Any) -> CommandOptions:
        """Return the values of click's parameters; numbers of trials are frequency weights."""
        counts = {"weights_are": "frequency"} if params.get("trials") and params["weights_are"] is None else {}
        return cls(**{**params, **counts})

    @property
    def is_long(self) -> bool:
        """Whether ``--by`` of ``compare`` names the model of each row, because one file has the rows of all models."""
        one_file = len(self.files) == 1 and not _may_be_several(self.files[0])
        return one_file and bool(self.by) and self.scores is None and self.baseline is None

    @property
    def of_prior(self) -> bool:
        """Whether ``recalibrate`` makes a map for another event rate, without outcomes."""
        return self.prior is not None or self.trained_prior is not None or self.estimate_prior

    @property
    def by_benefit(self) -> bool:
        """Whether ``threshold`` returns net benefits, for which no error rate is certified."""
        costs = (self.cost_of_false_positive, self.cost_of_false_negative)
        return self.thresholds is not None or any(cost is not None for cost in costs)

    @property
    def timezone_used(self) -> str | None:
        """The zone of times in SQL and in groups; None without these."""
        compares = re.search(r"[=<>(]", f"{self.score} {self.outcome}")  # in SQL, perhaps times
        return self.timezone if self.where is not None or self.by or self.clusters or compares else None

    @property
    def outputs(self) -> dict[str, str]:
        """The paths to write to, by the names of what is written."""
        paths = {name: getattr(self, f"{name}_path") for name in OUTPUTS}
        return {name: path for name, path in paths.items() if path is not None}


# ---------------------------------------------------------------- the options that several commands share


def _standard_output(_ctx: click.Context, _option: click.Parameter, path: str | None) -> str | None:
    """Return "-" for any name of standard output: a report after the JSON would spoil it."""
    if path is None:
        return None
    from calibrant.results.writing import descriptor_of

    return "-" if descriptor_of(path) == console.OUT else path


option = partial(click.option, cls=Option)
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
    return argument("files", metavar="FILE...", nargs=-1, required=True, type=InputFile(missing=missing))


COLUMN: Final = ColumnName()
exact = option(
    "--exact", is_flag=True, help="Keep every row in memory. By default, large data are summarised as a sketch."
)
predictions = files("Name a file, such as predictions.csv.")
score = option(
    "--score",
    type=COLUMN,
    help="The column with the probability of one event, or SQL such as '1 - p_loss'.",
    common="The column with the probability of one event.",
)
probs = option(
    "--probs",
    type=Listed("columns"),
    help="The class probabilities, as columns 'p_*', a column of lists, or an array.",
    common="The class probabilities, such as 'p_*'.",
)
targets = option(
    "--targets", "targets_file", type=InputFile(), help="The .npy file with the targets, if FILE is an .npy file."
)
rows = declared(
    option("--weight", type=COLUMN, help="The column with the weight of each row."),
    option(
        "--weights-are",
        type=click.Choice(("frequency", "sampling")),
        metavar="KIND",
        help="What whole-number weights mean: frequency (the row stands for so many equal rows) or sampling.",
    ),
    option(
        "--by",
        type=COLUMN,
        multiple=True,
        help="Evaluate groups of rows by a column, an SQL expression, month(date) or week(date). May be repeated.",
        common="Evaluate groups by a column. May be repeated.",
    ),
    option(
        "--by-values",
        is_flag=True,
        help="Form a group for each value of a numeric --by column (default: quintiles if it has more than 50 values).",
    ),
    option(
        "--cluster",
        "clusters",
        type=COLUMN,
        multiple=True,
        help="The column (or SQL) of clusters, such as patient. Rows of one cluster may be dependent.",
        common="The column of clusters, such as patient.",
    ),
    option(
        "--where",
        metavar="SQL",
        help="Use only the rows that meet this SQL condition.",
        common="Use only the rows that meet this SQL condition.",
    ),
    option(
        "--timezone",
        type=Among(
            "name",
            lambda: sorted(import_module("zoneinfo").available_timezones() - {"localtime"}),  # that of the machine
            "there is no time zone {}",
        ),
        default=CommandOptions.timezone,
        help="The time zone for SQL and groups, such as Europe/Berlin.",
    ),
)
stored = declared(
    option(
        "--encoding",
        type=Checked(
            "name",
            lambda name: "" if is_encoding(name) else f"{quoted(name)}; name an encoding, such as cp1252 or utf-16",
        ),
        help="The encoding of text files that are not UTF-8, such as cp1252 (Windows) or utf-16.",
    ),
    option("--sheet", metavar="NAME", help="The sheet to read, if a workbook has several."),
    option(
        "--header-line",
        metavar="N",
        type=click.IntRange(min=1),
        help="The line with the names of the columns, if a CSV file or a sheet has a title above it.",
    ),
)
written = declared(
    option("--percent", is_flag=True, help="Read the probabilities as percentages, such as 85 or '85%'."),
    option("--decimal-comma", is_flag=True, help="Read a comma as the decimal point, such as in 0,85."),
    option(
        "--odds",
        metavar="FORM",
        type=click.Choice(("decimal", "american")),
        help=(
            "Read --probs as betting odds, decimal (1.85) or american (-118), and convert them to probabilities "
            "that sum to 1."
        ),
    ),
    stored,
)
numbers = declared(
    option(
        "--events",
        type=COLUMN,
        help="The column with the number of events, if a row counts several trials. Needs --trials.",
    ),
    option("--trials", type=COLUMN, help="The column with the number of trials. Needs --events."),
    written,
)
one_event = option(
    "--notion",
    type=Among("notion", lambda: ("positive", "top-label")),
    help="The type of calibration: positive or top-label.",
)
n_bins = option(
    "--n-bins",
    "--bins",
    "n_bins",
    type=whole(lambda count: count >= 1, "pass 1 or more", "{} bins"),
    default=CommandOptions.n_bins,
    help="The number of bins.",
)
classes = declared(
    option(
        "--labels",
        type=ClassNames("labels"),
        help="The labels of the target column in the order of the classes, such as 'no,yes' or '1-10'.",
    ),
    option(
        "--class-names",
        type=ClassNames("names"),
        help="The names of the classes in column order, separated by commas.",
    ),
    option("--ignore-index", type=int, metavar="LABEL", help="Leave out the rows whose target is this label."),
)
level = option("--level", type=SHARE, default=CommandOptions.level, help="The level of the confidence intervals.")
keep_going = option(
    "--keep-going", is_flag=True, help="Leave out files that calibrant cannot use, and print their names."
)
json = option(
    "--json",
    "json_path",
    type=OutputFile(),
    callback=_standard_output,
    help="Write every number as JSON to this file, or to standard output with -.",
    common="Write every number as JSON; - is standard output.",
)
logits = option(
    "--logits",
    is_flag=True,
    help="Read the numbers as logits, not as probabilities.",
    common="Read the numbers as logits.",
)
#: The logs of decision models, in which columns have no names.
decisions = declared(
    option("--question", help="Evaluate only this question of a decision log (answers to questions)."),
    option(
        "--truth",
        "truth_path",
        type=InputFile(),
        help="The file with the right answers for a decision log, with one column or key for each question.",
    ),
    option("--yes", metavar="TEXT", help="The label that means yes, if the labels of yes-no questions are texts."),
    option(
        "--stated", is_flag=True, help="Evaluate the confidence that each answer states, not its largest probability."
    ),
)
#: What the rows of one model are read from.
one_model = declared(
    score,
    option(
        "--outcome",
        type=COLUMN,
        help="The column of outcomes, 0 or 1, or SQL such as 'predicted = label'.",
        common="The column of outcomes, 0 or 1.",
    ),
    probs,
    option(
        "--target",
        type=COLUMN,
        help="The column of the true classes, as indices from 0 or as names.",
        common="The column of the true classes.",
    ),
    targets,
    rows,
    logits,
    numbers,
    decisions,
    option("--on", "truth_on", type=COLUMN, help="The column of ids in the file of --truth (default: id)."),
)
draws = declared(
    option(
        "--n-resamples",
        type=NATURAL,
        default=CommandOptions.n_resamples,
        help="The number of simulated data sets. With 0, calibrant uses closed formulas instead.",
    ),
    option("--rng", type=NATURAL, default=CommandOptions.rng, help="The seed of the simulated data sets."),
)
outputs = declared(
    option("--quiet", is_flag=True, help="Print only errors, and the reason of a failed condition or gate."),
    json,
    option(
        "--html",
        "html_path",
        type=OutputFile(".html", ".htm"),
        help="Write the result as one HTML page.",
        common="Write the result as one HTML page.",
    ),
    option("--title", help="The title of the HTML page (default: the file name)."),
    option("--date", help="A date or other text, printed below the title of the HTML page."),
    option("--open", "open_page", is_flag=True, help="Open the HTML page in a browser."),
    option(
        "--markdown",
        "markdown_path",
        type=OutputFile(),
        callback=_standard_output,
        help="Write a summary in Markdown to this file, or to standard output with -.",
    ),
    option("--png", "png_path", type=OutputFile(".png"), help="Write the figure to this PNG file."),
    option("--svg", "svg_path", type=OutputFile(".svg"), help="Write the figure to this SVG file."),
    option("--pdf", "pdf_path", type=OutputFile(".pdf"), help="Write the figure to this PDF file."),
    option(
        "--dpi",
        type=whole(lambda dots: 30 <= dots <= 1200, "pass a number from 30 to 1200", name="n"),
        default=CommandOptions.dpi,
        help="The resolution of the PNG file, in dots per inch.",
    ),
    option("--config", metavar="PATH", help="A file with options (default: calibrant.toml or pyproject.toml)."),
    option("--no-config", is_flag=True, expose_value=False, help="Do not read a file of options."),
)


# ---------------------------------------------------------------- checks of the usage, before any file is opened

#: A wrong use of the options: a sentence, or an option and what is wrong with its value.
Problem = str | tuple[str, str]


def check(ctx: click.Context, problems: Iterable[Problem] = ()) -> None:
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
        is_file = isinstance(param.type, FileName)
        if not is_file and re.search("[\ud800-\udfff]", "".join(map(str, texts))):
            yield label(param), f"{quoted(shown(str(given), '?'))}; pass text in UTF-8"


def _of_one_file_twice(ctx: click.Context) -> Iterator[Problem]:
    """Yield the outputs of any command that are one of its inputs or outputs, after patterns and links are resolved."""
    owners = _owners(ctx)
    written: dict[Identity, str] = {}
    for param, path in _named(ctx, OutputFile):
        found = _identities(path)
        within = {os.path.dirname(each) for each in found if isinstance(each, str)} if os.path.exists(path) else set()
        owner = next((owners[each] for each in found | within if each in owners), None)
        other = next((written[each] for each in found if each in written), None)
        if owner is not None and not (isinstance(param.type, OutputFile) and param.type.may_be_read):
            yield label(param), f"{quoted(path)} is also read, as {owner}; name another file"
        elif other is not None:
            yield f"{other} and {label(param)} both name {path}; name a different file for each option"
        written |= dict.fromkeys(found, label(param))


def _owners(ctx: click.Context) -> dict[Identity, str]:
    """Return what the command calls each file that it reads."""
    owners = dict.fromkeys(_identities(ctx.meta[CONFIGURED_BY]), CONFIGURED_BY) if CONFIGURED_BY in ctx.meta else {}
    for param, name in _named(ctx, InputFile):
        if name == "-":
            owners |= dict.fromkeys(_numbers(0), "standard input")
        else:
            paths = glob(name, recursive=True) if has_magic(name) and not os.path.exists(name) else [name]
            paths += [os.path.join(root, file) for root, _, files in os.walk(name) for file in files]  # of a folder
            owners |= {identity: label(param) for path in paths for identity in _identities(path)}
    return owners


def _named(ctx: click.Context, kind: type[click.ParamType[Any]]) -> Iterator[tuple[click.Parameter, str]]:
    """Yield the files of a kind that the command names."""
    for param in ctx.command.params:
        if isinstance(param.type, kind) and (given := ctx.params.get(str(param.name))):
            yield from ((param, path) for path in ([given] if isinstance(given, str) else given))


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


def problems_of_report(ctx: click.Context, options: CommandOptions) -> Iterator[Problem]:
    """Yield the problems of the options of ``report``."""
    yield from problems_of_one_model(ctx, options)
    if not _is_faulty(ctx, "measures", "profile"):
        yield from _of_conditions(options)
    if options.tolerance_of != CommandOptions.tolerance_of:
        from calibrant.inputs.notions import PER_CLASS

        if options.tolerance is None and not _is_faulty(ctx, "tolerance"):
            yield "--tolerance-of works only with --tolerance; pass --tolerance too"
        elif options.notion in PER_CLASS:
            problem = f"with --notion {options.notion}, a tolerance is available only for the ECE"
            yield f"--tolerance-of {options.tolerance_of}: {problem}; leave --tolerance-of out"
    if options.ordered:
        yield from _of_ordered(ctx, options)
    if options.marginal and not options.by:
        yield "--marginal needs the columns of --by; pass --by too, such as --by sex --by ward --marginal"
    if options.engine == "spark":
        yield from _of_spark(ctx, options)
    elif options.master is not None:
        yield "--master works only with --engine spark; pass --engine spark too"


def _of_ordered(ctx: click.Context, options: CommandOptions) -> Iterator[Problem]:
    """Yield the options that do not work with ordered levels."""
    if options.notion == "multilabel":
        yield "--notion multilabel is for labels that do not exclude each other; leave --ordered out"
    for option in [*given(ctx, options, "score"), *["--engine spark"] * (options.engine == "spark")]:
        yield f"{option} does not work with --ordered, which needs rows with probabilities of levels; leave one out"


def _of_spark(ctx: click.Context, options: CommandOptions) -> Iterator[Problem]:
    """Yield the options that Spark has not."""
    if options.exact:
        yield "--exact keeps the rows in this process, but Spark does not; pass only one of --exact and --engine spark"
    others = ("targets_file", "logits", "keep_going", "odds", "events", "decimal_comma", *OF_STORED)
    for option in given(ctx, options, *others):
        yield f"{option} is not available with --engine spark; pass only one of the two options"
    if options.notion == "multilabel":
        remedy = "report on each label separately with --score and --outcome"
        yield f"--notion multilabel is not available with --engine spark; {remedy}"


def _of_conditions(options: CommandOptions) -> Iterator[Problem]:
    """Yield the problem of a condition on a measure that the report leaves out."""
    from calibrant.measures.listed import OF_LEVELS, selected

    selection = selected(options.measures, options.profile)
    shown = {"n", "test", *(measure.name for measure in selection.measures)}
    if not selection.listed and (options.ordered or options.question is not None):
        shown |= {measure.name for measure in OF_LEVELS}
    for condition in options.conditions:
        if condition.measure not in shown:
            option, remedy = "--measures", "add the measure to that list"
            if not selection.listed:
                option = f"--profile {options.profile}"
                remedy = f"list the measures with --measures {condition.measure},..."
            yield f"--fail-if {quoted(condition.text)}: {option} leaves {condition.measure} out; {remedy}"


def problems_of_recalibrate(ctx: click.Context, options: CommandOptions) -> Iterator[Problem]:
    """Yield the problems of the options of ``recalibrate``."""
    yield from _of_both(ctx, options) if options.of_prior else problems_of_one_model(ctx, options)
    if options.of_prior:
        yield from _of_prior(ctx, options)
    elif not options.files and not _is_faulty(ctx, "prior", "trained_prior"):
        yield "name a file, such as held_out.csv, or pass two known event rates, --prior and --trained-prior"
    if options.anyway and not options.outputs.keys() & {"map", "sql", "onnx"} and not _is_faulty(ctx, "map_path"):
        yield "--anyway writes the map even without evidence that it helps; pass --map too, such as --map map.json"


def _of_prior(ctx: click.Context, options: CommandOptions) -> Iterator[Problem]:
    known, estimated = options.prior is not None, options.estimate_prior
    faulty = _is_faulty(ctx, "prior", "trained_prior")
    if known and estimated:
        yield "--prior and --estimate-prior exclude each other; pass --prior if the event rate is known"
    if options.trained_prior is None and not faulty:
        yield "--trained-prior is missing; pass the event rate of the training data, such as --trained-prior 0.5"
    if not known and not estimated and not faulty:
        yield "--trained-prior works only with a new event rate; pass --prior, or --estimate-prior and FILE"
    if estimated and not options.files:
        yield "--estimate-prior needs scores of the new population; name a file, such as new.csv"
    for param in ctx.command.params:
        typed = ctx.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE
        if typed and param.name in _OF_OUTCOMES:
            reason = "because calibrant then makes the map without outcomes"
            yield f"{label(param)} does not work with a new event rate, {reason}; leave it out"
        elif typed and param.name in _OF_FILE and known and not estimated:
            yield f"{label(param)} is for --estimate-prior; leave it out, or pass --estimate-prior in place of --prior"
    if options.clusters and options.reference_path is not None:
        yield "--reference assumes independent rows, so it does not work with --cluster; leave one of the two out"
    if options.trained_prior is not None and not faulty:
        yield from _of_shares(options)


def _of_shares(options: CommandOptions) -> Iterator[Problem]:
    """Yield the problems of shares that are not of the same classes, and of columns for others."""
    from calibrant.errors import InputError
    from calibrant.recalibration.priors import named_shares, shares_of

    trained = shares_of("trained_prior", options.trained_prior)
    new = None if options.prior is None else shares_of("prior", options.prior)
    if trained.of_event and options.probs:
        yield "--probs is for classes, but --trained-prior is one event rate; pass --score, or the share of each class"
    elif not trained.of_event and options.score:
        yield "--score is for one event, but --trained-prior has shares of classes; pass --probs, or one event rate"
    try:
        named_shares(new, trained, options.class_names)
    except InputError as error:
        yield f"--{error.argument.replace('_', '-')}: expected {error.expected}, got {error.got}; {error.remedy}"


def _of_benefit(ctx: click.Context, options: CommandOptions) -> Iterator[Problem]:
    """Yield the problems of thresholds by net benefit, which no error rate is certified for."""
    costs = ("cost_of_false_positive", "cost_of_false_negative")
    named = "--cost-of-false-positive"
    if options.thresholds is not None:
        named = "--thresholds"
        for option in given(ctx, options, *costs):
            yield f"{option} implies a threshold, and --thresholds names thresholds; pass only one of the two"
    elif len(given(ctx, options, *costs)) < len(costs) and not _is_faulty(ctx, *costs):
        yield "--cost-of-false-positive and --cost-of-false-negative belong together; pass both"
    certified = given(
        *(
            ctx,
            options,
            "max_risk",
            "yes_risk",
            "no_risk",
            "certified_by",
            "largest_cluster",
            "max_weight",
            "per_class",
        ),
        *("each", "gates_path", "cost_of_error", "by", "cost_of_referral", "probs"),
    )
    for option in [*certified, *_of_top_label(options)]:
        yield f"{option} does not work with {named}; leave one of the two out"


def _of_top_label(options: CommandOptions) -> list[str]:
    return ["--notion top-label"] if options.notion == "top-label" else []


def problems_of_threshold(ctx: click.Context, options: CommandOptions) -> Iterator[Problem]:
    """Yield the problems of the options of ``threshold``."""
    yield from problems_of_one_model(ctx, options)
    if options.by_benefit:
        yield from _of_benefit(ctx, options)
        return
    if (options.yes_risk is None) != (options.no_risk is None) and not _is_faulty(ctx, "yes_risk", "no_risk"):
        yield "--yes-risk and --no-risk belong together; pass both, or --max-risk for one kind of decision"
    elif options.yes_risk is not None:
        others = given(ctx, options, "max_risk", "by", "probs")
        for option in [*others, *_of_top_label(options), *given(ctx, options, "per_class")]:
            yield f"{option} does not work with --yes-risk and --no-risk; leave {option} out, or the other two"
    if options.gates_path is not None and options.question is not None:
        yield "--gates writes the thresholds of all questions; leave --question out"
    if options.per_class and options.by:
        yield "--per-class and --by exclude each other; pass only one of the two options"
    for option in given(ctx, options, "largest_cluster", "max_weight"):
        needed, column = ("--cluster", options.clusters) if "cluster" in option else ("--weight", options.weight)
        if not column:
            yield f"{option} is for {needed}; pass {needed} too"
        if options.certified_by not in (None, "betting"):
            yield f"{option} works only with --method betting; leave --method {options.certified_by} out"
    error, referral = options.cost_of_error, options.cost_of_referral
    if (error is None) != (referral is None):
        yield "--cost-of-error and --cost-of-referral belong together; pass both"
    elif error is not None and referral is not None and not 0 < referral < error:
        remedy = f"pass a cost above 0 and below {exact_number(error)}, the cost of an error"
        yield "--cost-of-referral", f"{exact_number(referral)}; {remedy}"


def problems_of_monitor(ctx: click.Context, options: CommandOptions) -> Iterator[Problem]:
    """Yield the problems of the options of ``monitor``."""
    yield from problems_of_one_model(ctx, options)
    if options.tolerance is not None and options.tolerance_odds is not None:
        yield "--tolerance and --tolerance-odds exclude each other; pass only one of the two options"
    if options.time is not None:
        for option in given(ctx, options, "label", "by"):
            alone = "run the command once for each slice, with a file of this slice"
            yield f"{option} does not work with --time; leave one of them out: without --time, {alone}"
    if not options.files:
        names = ("label", "groups", "time", "alpha", "tolerance", "tolerance_odds", "max_weight", "threshold_path")
        typed = [name for name in names if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
        for option in given(ctx, options, *typed):
            yield f"{option} describes a slice; name the file of the slice too, such as week31.csv"


def problems_of_one_model(ctx: click.Context, options: CommandOptions) -> Iterator[Problem]:
    """Yield the problems of the options that name the columns of one model, and of those of every result."""
    yield from _of_both(ctx, options)
    if options.outcome and options.target:
        yield "--outcome and --target both name the true values; pass only one of the two options"
    if options.truth_on is not None and options.truth_path is None and not _is_faulty(ctx, "truth_path"):
        yield "--on names the column of ids in the file of --truth; pass --truth too"


#: The parameters of ``compare`` that do something for results.
_OF_RESULTS: Final = frozenset(
    {
        *("files", "correct", "sparse", "by", "by_values", "on", "clusters", "where", "labels", "level", "timezone"),
        *("conditions", "gate", "decimal_comma", *OF_STORED, "quiet", "config", "no_config", "title", "date"),
        *("open_page", "json_path", "html_path", "markdown_path", "png_path", "svg_path", "pdf_path", "dpi"),
    }
)
#: Those that do something for predictions with ``--sparse``.
_OF_SPARSE: Final = frozenset(
    {
        *_OF_RESULTS,
        *("scores", "score", "outcome", "probs", "target", "logits", "sort_by", "percent", "odds", "own_outcomes"),
        *("class_names", "notion"),
    }
)


def problems_of_results(ctx: click.Context, options: CommandOptions) -> Iterator[Problem]:
    """Yield the problems of ``--correct`` and ``--sparse``: options that do nothing with them."""
    named, allowed = ("--sparse", _OF_SPARSE) if options.correct is None else ("--correct", _OF_RESULTS)
    allowed = allowed if options.is_long or not options.by else allowed - {"by"}
    for param in ctx.command.params:
        name = str(param.name)
        given = ctx.get_parameter_source(name) not in (None, ParameterSource.DEFAULT)
        if given and name not in allowed and not param.is_eager:
            yield f"{max(param.opts, key=len)} does not work with {named}; pass only one of the two"
            return


def _of_columns(ctx: click.Context, options: CommandOptions) -> Iterator[Problem]:
    """Yield the problems of models that are columns of one file."""
    if len(set(options.models)) < max(len(options.models), 2):
        yield "--scores", f"{quoted(options.scores or '')}; name two models or more, each once, such as old,new"
    for_files = ("score", "probs", "targets_file", *(() if options.sparse else ("on",)), "baseline", "paired")
    for option in given(ctx, options, *for_files)[:1]:
        problem = f"--scores names models in one file, but {option} is for separate files; pass only one of the two"
        yield problem + ", and name the baseline first in --scores" * (option == "--baseline")
    if options.own_outcomes is not None:
        yield "--scores is for models with the same outcomes; leave --own-outcomes out"


def problems_of_compare(ctx: click.Context, options: CommandOptions) -> Iterator[Problem]:
    """Yield the problems of the options of ``compare``."""
    yield from _of_both(ctx, options)
    if options.correct is not None or options.sparse:
        yield from problems_of_results(ctx, options)
    if options.correct is not None:
        if options.is_long and not options.on:
            yield "--correct compares models by question; name the column of the question with --on"
        return
    if options.scores is not None:
        yield from _of_columns(ctx, options)
    elif not options.baseline and len(options.files) == 1 and not _may_be_several(options.files[0]) and not options.by:
        yield single_file(options)
    if options.is_long and not options.on:
        if options.paired and not options.clusters:
            yield "--paired needs the clusters that pair the models; pass --cluster too, such as --cluster question_id"
        if options.own_outcomes is False:
            yield "--same-outcomes needs rows that are paired; pass --on too, such as --on question_id"


def _may_be_several(name: str) -> bool:
    """Whether a name may stand for several files: a pattern, or a folder."""
    return has_magic(name) or os.path.isdir(name)


def given(ctx: click.Context, options: CommandOptions, *names: str) -> list[str]:
    """Return the options of the parameters with these names that have a value, such as ``--on``."""
    params, found = {param.name: param for param in ctx.command.params}, []
    for param, value in ((params[name], getattr(options, name)) for name in names if name in params):
        if value is False and param.secondary_opts:  # the second of two opposite options
            found.append(param.secondary_opts[0])
        elif value is not None and value is not False and value != ():
            found.append(label(param))
    return found


def single_file(options: CommandOptions) -> str:
    """Return the problem of a comparison of a single file."""
    columns = options.score if options.score and "," in options.score else "old,new"
    remedy = f"name a second file, or the columns of the models, such as --scores {shlex.quote(columns)}, "
    remedy += "or the column that names the model of each row, such as --by model"
    return f"{options.files[0]} is the only file; {remedy}"


def problems_of_floor(ctx: click.Context, params: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the problems of the options of ``floor``."""
    if params["n"] is None and params["prove"] is None and not _is_faulty(ctx, "n", "prove"):
        yield "name the number of predictions, such as --n 500, or the largest acceptable ECE, such as --prove 0.02"


def _of_both(ctx: click.Context, options: CommandOptions) -> Iterator[Problem]:
    """Yield the problems of the options of ``compare`` that other commands have too."""
    if options.score and options.probs:
        yield "--score is for one event, and --probs is for many classes; pass only one of the two options"
    if len(set(options.clusters)) < len(options.clusters):
        yield "--cluster", f"{', '.join(options.clusters)}; name each column once"
    for option in ("title", "date"):
        typed = ctx.get_parameter_source(option) is ParameterSource.COMMANDLINE
        if typed and options.html_path is None and not options.open_page and not _is_faulty(ctx, "html_path"):
            yield f"--{option} sets the {option} of the HTML page; pass --html too"
    typed = ctx.get_parameter_source("dpi") is ParameterSource.COMMANDLINE
    if typed and options.png_path is None and not _is_faulty(ctx, "png_path", "dpi"):
        vector = next((f"--{kind}" for kind in ("svg", "pdf") if getattr(options, f"{kind}_path") is not None), "")
        why = "it sets the resolution of a PNG file"
        if vector:
            why = f"{vector} writes a vector image, which has no resolution"
        yield f"--dpi works only with --png, because {why}; pass --png too, or leave --dpi out"
    if options.by_values and not options.by:
        yield "--by-values works only with --by; pass --by too"
    if options.labels and options.class_names:
        yield "--labels and --class-names both name the classes; pass only one of the two options"
    yield from problems_of_numbers(ctx, options)


def problems_of_numbers(ctx: click.Context, options: CommandOptions) -> Iterator[Problem]:
    """Yield the problems of the options that say how numbers are written: as logits, per cents, odds or counts."""
    written = given(ctx, options, "logits", "percent", "odds")
    if len(written) > 1:
        yield f"{' and '.join(written)} exclude each other; pass only one of them"
    if (options.events is None) != (options.trials is None):
        yield "--events and --trials belong together; pass both"
    elif options.events is not None:
        for option in given(ctx, options, "outcome", "target", "weight", "probs", "on"):
            yield f"{option} does not work with --events and --trials, which already contain the outcomes; leave it out"
        if options.weights_are == "sampling":
            yield (
                "--weights-are does not work with --events and --trials, which are always counts; leave "
                "--weights-are out"
            )


def _is_faulty(ctx: click.Context, *names: str) -> bool:
    """Whether one of these options has an error of its own, so that its default stands in its place."""
    faults = [fault for fault in ctx.meta.get(FAULTS, ()) if isinstance(fault, click.BadParameter)]
    return any(fault.param is not None and fault.param.name in names for fault in faults)


#: The checks of the options of each command, by its name.
PROBLEMS: Final[Mapping[str, Callable[[click.Context, CommandOptions], Iterator[Problem]]]] = {
    "report": problems_of_report,
    "recalibrate": problems_of_recalibrate,
    "threshold": problems_of_threshold,
    "monitor": problems_of_monitor,
    "compare": problems_of_compare,
}
