"""Checks of the usage, before any file is opened."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from glob import has_magic
from itertools import combinations
from typing import Any, Final

import click
from click.core import ParameterSource

from calibrant.cli.options import CommandOptions
from calibrant.cli.usage import FAULTS
from calibrant.errors import nearest, quoted

#: How the names of files must end, by option.
_ENDINGS: Final = {"--html": (".html", ".htm"), "--png": (".png",), "--svg": (".svg",)}

#: A wrong use of the options: a sentence, or an option and what is wrong with its value.
Problem = str | tuple[str, str]


def check(ctx: click.Context, problems: Iterable[Problem]) -> None:
    """Raise all problems as one error, after those of single options that the parsing of the command line found."""
    errors: list[click.UsageError] = [*ctx.meta.get(FAULTS, ())]
    for problem in problems:
        if isinstance(problem, str):
            errors.append(click.UsageError(problem, ctx))
        else:
            errors.append(click.BadParameter(problem[1], ctx, param_hint=problem[0]))
    distinct = list({error.format_message(): error for error in errors}.values())
    if len(distinct) > 1:
        raise click.UsageError("; and ".join(error.format_message().removesuffix(".") for error in distinct), ctx)
    for error in distinct:
        raise error


def of_report(ctx: click.Context, options: CommandOptions) -> Iterator[Problem]:
    """Yield the problems of the options of ``report``."""
    from calibrant.inputs.notions import NOTIONS

    yield from _of_both(ctx, options, NOTIONS)
    yield from _of_level(options.level)
    for option, number in (("--n-resamples", options.n_resamples), ("--rng", options.rng)):
        if number < 0:
            yield option, f"{number}; pass 0 or more"
    if options.score and options.probs:
        yield "--score is for one event, --probs for many classes; pass one of the two"
    if options.outcome and options.target:
        yield "--outcome and --target both name the truth; pass one of the two"
    if not _is_faulty(ctx, "measures", "profile"):
        yield from _of_conditions(options)
    yield from _of_tolerance(options.tolerance)
    yield from _of_tolerated(ctx, options)
    yield from of_sketch(options.sketch_path)
    if options.exact and options.engine == "spark":
        yield "--exact keeps the rows in this process, --engine spark does not; leave one of them out"
    if options.master is not None and options.engine != "spark":
        yield "--master says where Spark runs; pass --engine spark too"


def _of_conditions(options: CommandOptions) -> Iterator[Problem]:
    """Yield the problem of a condition on a measure that the report leaves out."""
    from calibrant.measures.listed import selected

    selection = selected(options.measures, options.profile)
    shown = {"n", "test", *(measure.name for measure in selection.measures)}
    option = "--measures" if selection.listed else f"--profile {options.profile}"
    for condition in options.conditions:
        if condition.measure not in shown:
            remedy = "add it there" if selection.listed else f"list the measures: --measures {condition.measure},..."
            yield f"--fail-if {quoted(condition.text)}: {option} leaves {condition.measure} out; {remedy}"


def _of_tolerated(ctx: click.Context, options: CommandOptions) -> Iterator[Problem]:
    """Yield the problem of an error that no tolerance can be about, or that is named without a tolerance."""
    from calibrant.inference.decision import TOLERATED
    from calibrant.inputs.notions import PER_CLASS

    if options.tolerance_of not in TOLERATED:
        yield "--tolerance-of", f"{quoted(options.tolerance_of)}; {nearest(options.tolerance_of, TOLERATED)}"
    elif options.tolerance_of != TOLERATED[0]:
        if options.tolerance is None and not _is_faulty(ctx, "tolerance"):
            yield "--tolerance-of names the error of --tolerance; pass --tolerance too"
        elif options.notion in PER_CLASS:
            problem = f"with --notion {options.notion} only the ECE has a tolerance"
            yield f"--tolerance-of {options.tolerance_of}: {problem}; leave --tolerance-of out"


def of_compare(ctx: click.Context, options: CommandOptions) -> Iterator[Problem]:
    """Yield the problems of the options of ``compare``."""
    yield from _of_both(ctx, options, ("positive", "top-label"))
    if options.scores is not None and len(set(options.models)) < max(len(options.models), 2):
        yield "--scores", f"{quoted(options.scores)}; name two models or more, each once, such as old,new"
    if options.scores is None and not options.baseline and len(options.files) == 1 and not has_magic(options.files[0]):
        yield one_model(options)
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
        yield f"--scores is for models in the same files, {passed[0]} for a file each; pass one of the two"
    if options.score and options.probs:
        yield "--score is for one event, --probs for many classes; pass one of the two"
    yield from _of_level(options.level)
    yield from _of_tolerance(options.tolerance)


def one_model(options: CommandOptions) -> str:
    """Return the problem of a comparison of a single file."""
    columns = options.score if options.score and "," in options.score else "old,new"
    remedy = f"name another one, or the models' columns, such as --scores {shlex.quote(columns)}"
    return f"{options.files[0]} is one file; {remedy}"


def of_floor(ctx: click.Context, params: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the problems of the options of ``floor``."""
    yield from _of_level(params["level"])
    yield from _of_tolerance(params["prove"], "--prove")
    if params["n"] is None and params["prove"] is None and not _is_faulty(ctx, "n", "prove"):
        yield "name the number of predictions, such as --n 500, or the error to prove, such as --prove 0.02"


def _of_tolerance(tolerance: float | None, option: str = "--tolerance") -> Iterator[Problem]:
    if tolerance is not None and not 0 < tolerance < 1:
        yield option, f"{tolerance:g}; pass the largest harmless error, such as 0.02"


def _of_level(level: float) -> Iterator[Problem]:
    if not 0.5 <= level < 1:
        yield "--level", f"{level:g}; pass a share from 0.5 to below 1, such as 0.95"


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
        yield "--by-values says how --by groups numbers; pass --by too"
    if options.labels and options.class_names:
        yield "--labels and --class-names both name the classes; pass one of the two"
    if options.logits and options.percent:
        yield "--logits and --percent both say what the numbers are; pass one of the two"


def _of_outputs(ctx: click.Context, options: CommandOptions) -> Iterator[Problem]:
    for option, path in options.outputs.items():
        endings = _ENDINGS.get(option, ("",))
        if path.lower().endswith(endings):
            yield from _of_folder(option, path)
        else:
            yield option, f"{quoted(path)}; name a file that ends in {endings[0]}, such as report{endings[0]}"
    for (option, path), (other_option, other_path) in combinations(options.outputs.items(), 2):
        if path and os.path.abspath(path) == os.path.abspath(other_path):
            yield f"{option} and {other_option} both name {other_path}; give each a file of its own"
    for option in ("title", "date"):
        typed = ctx.get_parameter_source(option) is ParameterSource.COMMANDLINE
        if typed and options.html_path is None and not options.open_page:
            yield f"--{option} is the {option} of the page; pass --html too"


def of_sketch(path: str | None) -> Iterator[Problem]:
    """Yield the problem of a file name for a sketch."""
    if path is not None and not path.lower().endswith(".cal"):
        yield "--sketch", f"{quoted(path)}; name a file that ends in .cal, such as week.cal"
    elif path is not None:
        yield from _of_folder("--sketch", path)


def _of_folder(option: str, path: str) -> Iterator[Problem]:
    if path == "":
        yield option, "''; name a file, or leave the option out: the variable behind it may be empty"
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        yield option, f"{quoted(path)}; there is no folder {quoted(folder)}, make it first"


def _is_faulty(ctx: click.Context, *names: str) -> bool:
    """Whether one of these options has an error of its own, so that its default stands in its place."""
    faults = [fault for fault in ctx.meta.get(FAULTS, ()) if isinstance(fault, click.BadParameter)]
    return any(fault.param is not None and fault.param.name in names for fault in faults)
