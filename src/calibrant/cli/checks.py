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
from calibrant.errors import quoted

#: How the names of files must end, by option.
_ENDINGS: Final = {"--html": (".html", ".htm"), "--png": (".png",), "--svg": (".svg",)}


def check_report(ctx: click.Context, options: CommandOptions) -> None:
    """Reject wrong usage of the options of ``report``, before any file is opened."""
    from calibrant.inputs.notions import NOTIONS

    _raise(ctx, _of_report(ctx, options, NOTIONS))


def _of_report(ctx: click.Context, options: CommandOptions, notions: Sequence[str]) -> Iterator[click.UsageError]:
    yield from _of_judging(ctx, options, notions)
    yield from _of_level(ctx, options.level)
    for option, number in (("--n-resamples", options.n_resamples), ("--rng", options.rng)):
        if number < 0:
            hint = f"{number}; pass 0 or more"
            yield click.BadParameter(hint, ctx, param_hint=option)
    if options.score and options.probs:
        yield click.UsageError("--score is for one event, --probs for many classes; pass one of the two", ctx)
    if options.outcome and options.target:
        yield click.UsageError("--outcome and --target both name the truth; pass one of the two", ctx)
    if not _is_faulty(ctx, "measures") and not _is_faulty(ctx, "profile"):
        yield from _of_conditions(ctx, options)
    yield from _of_tolerance(ctx, options.tolerance)
    yield from _of_tolerated(ctx, options)
    yield from _of_sketch(ctx, options.sketch_path)
    if options.exact and options.engine == "spark":
        yield click.UsageError(
            "--exact keeps the rows in this process, --engine spark does not; leave one of them out", ctx
        )
    if options.master is not None and options.engine != "spark":
        yield click.UsageError("--master says where Spark runs; pass --engine spark too", ctx)


def _of_conditions(ctx: click.Context, options: CommandOptions) -> Iterator[click.UsageError]:
    """Yield the error of a condition on a measure that the report leaves out."""
    from calibrant.measures.listed import selected

    selection = selected(options.measures, options.profile)
    shown = {"n", "test", *(measure.name for measure in selection.measures)}
    option = "--measures" if selection.listed else f"--profile {options.profile}"
    for condition in options.conditions:
        if condition.measure not in shown:
            remedy = "add it there" if selection.listed else f"list the measures: --measures {condition.measure},..."
            msg = f"--fail-if {quoted(condition.text)}: {option} leaves {condition.measure} out; {remedy}"
            yield click.UsageError(msg, ctx)


def _of_tolerated(ctx: click.Context, options: CommandOptions) -> Iterator[click.UsageError]:
    """Yield the fault of an error that no tolerance can be about, or that is named without a tolerance."""
    from calibrant.errors import nearest
    from calibrant.inference.decision import TOLERATED
    from calibrant.inputs.notions import PER_CLASS

    if options.tolerance_of not in TOLERATED:
        hint = f"{quoted(options.tolerance_of)}; {nearest(options.tolerance_of, TOLERATED)}"
        yield click.BadParameter(hint, ctx, param_hint="--tolerance-of")
    elif options.tolerance_of != TOLERATED[0]:
        if options.tolerance is None and not _is_faulty(ctx, "tolerance"):
            yield click.UsageError("--tolerance-of names the error of --tolerance; pass --tolerance too", ctx)
        elif options.notion in PER_CLASS:
            problem = f"with --notion {options.notion} only the ECE has a tolerance"
            msg = f"--tolerance-of {options.tolerance_of}: {problem}; leave --tolerance-of out"
            yield click.UsageError(msg, ctx)


def check_compare(ctx: click.Context, options: CommandOptions) -> None:
    """Reject wrong usage of the options of ``compare``, before any file is opened."""
    _raise(ctx, _of_compare(ctx, options))


def _of_compare(ctx: click.Context, options: CommandOptions) -> Iterator[click.UsageError]:
    yield from _of_judging(ctx, options, ("positive", "top-label"))
    if options.scores is not None and len(set(options.models)) < max(len(options.models), 2):
        hint = f"{quoted(options.scores)}; name two models or more, each once, such as old,new"
        yield click.BadParameter(hint, ctx, param_hint="--scores")
    if options.scores is None and not options.baseline and len(options.files) == 1 and not has_magic(options.files[0]):
        yield one_model(ctx, options)
    own = {
        "--score": options.score,
        "--probs": options.probs,
        "--targets": options.targets_file,
        "--on": options.on,
        "--baseline": options.baseline,
        "--paired": options.paired,
        "--independent": options.paired is False,
    }
    given = [option for option, value in own.items() if value]
    if options.scores is not None and given:
        msg = f"--scores is for models in the same files, {given[0]} for a file each; pass one of the two"
        yield click.UsageError(msg, ctx)
    if options.score and options.probs:
        yield click.UsageError("--score is for one event, --probs for many classes; pass one of the two", ctx)
    yield from _of_level(ctx, options.level)
    yield from _of_tolerance(ctx, options.tolerance)


def one_model(ctx: click.Context, options: CommandOptions) -> click.UsageError:
    """Return the error of a comparison of a single file."""
    columns = options.score if options.score and "," in options.score else "old,new"
    remedy = f"name another one, or the models' columns, such as --scores {shlex.quote(columns)}"
    return click.UsageError(f"{options.files[0]} is one file; {remedy}", ctx)


def check_floor(ctx: click.Context, params: Mapping[str, Any]) -> None:
    """Reject wrong usage of the options of ``floor``."""
    _raise(ctx, _of_floor(ctx, params))


def _of_floor(ctx: click.Context, params: Mapping[str, Any]) -> Iterator[click.UsageError]:
    yield from _of_level(ctx, params["level"])
    yield from _of_tolerance(ctx, params["prove"], "--prove")
    faulty = _is_faulty(ctx, "n") or _is_faulty(ctx, "prove")
    if params["n"] is None and params["prove"] is None and not faulty:
        msg = "name the number of predictions, such as --n 500, or the error to prove, such as --prove 0.02"
        yield click.UsageError(msg, ctx)


def _of_tolerance(
    ctx: click.Context, tolerance: float | None, option: str = "--tolerance"
) -> Iterator[click.UsageError]:
    """Yield the error of a tolerance outside (0, 1)."""
    if tolerance is not None and not 0 < tolerance < 1:
        hint = f"{tolerance:g}; pass the largest harmless error, such as 0.02"
        yield click.BadParameter(hint, ctx, param_hint=option)


def _of_level(ctx: click.Context, level: float) -> Iterator[click.UsageError]:
    """Yield the error of a level outside [0.5, 1)."""
    if not 0.5 <= level < 1:
        hint = f"{level:g}; pass a share from 0.5 to below 1, such as 0.95"
        yield click.BadParameter(hint, ctx, param_hint="--level")


def _of_judging(ctx: click.Context, options: CommandOptions, notions: Sequence[str]) -> Iterator[click.UsageError]:
    from calibrant.errors import nearest

    if len(set(options.clusters)) < len(options.clusters):
        hint = f"{', '.join(options.clusters)}; name each column once"
        yield click.BadParameter(hint, ctx, param_hint="--cluster")
    if options.notion is not None and options.notion not in notions:
        hint = f"{quoted(options.notion)}; {nearest(options.notion, notions)}"
        yield click.BadParameter(hint, ctx, param_hint="--notion")
    if options.n_bins < 1:
        hint = f"{options.n_bins} bins; pass 1 or more"
        yield click.BadParameter(hint, ctx, param_hint="--n-bins")
    yield from _of_outputs(ctx, options)
    if options.by_values and not options.by:
        yield click.UsageError("--by-values says how --by groups numbers; pass --by too", ctx)
    if options.labels and options.class_names:
        yield click.UsageError("--labels and --class-names both name the classes; pass one of the two", ctx)
    if options.logits and options.percent:
        yield click.UsageError("--logits and --percent both say what the numbers are; pass one of the two", ctx)


def _of_outputs(ctx: click.Context, options: CommandOptions) -> Iterator[click.UsageError]:
    for option, path in options.outputs.items():
        endings = _ENDINGS.get(option, ("",))
        if not path.lower().endswith(endings):
            hint = f"{quoted(path)}; name a file that ends in {endings[0]}, such as report{endings[0]}"
            yield click.BadParameter(hint, ctx, param_hint=option)
        else:
            yield from _of_folder(ctx, option, path)
    for (option, path), (other_option, other_path) in combinations(options.outputs.items(), 2):
        if path and os.path.abspath(path) == os.path.abspath(other_path):
            msg = f"{option} and {other_option} both name {other_path}; give each a file of its own"
            yield click.UsageError(msg, ctx)
    for option in ("title", "date"):
        typed = ctx.get_parameter_source(option) is ParameterSource.COMMANDLINE
        if typed and options.html_path is None and not options.open_page:
            msg = f"--{option} is the {option} of the page; pass --html too"
            yield click.UsageError(msg, ctx)


def check_sketch(ctx: click.Context, path: str | None) -> None:
    """Reject a file name for a sketch that does not end in .cal."""
    _raise(ctx, _of_sketch(ctx, path))


def _of_sketch(ctx: click.Context, path: str | None) -> Iterator[click.UsageError]:
    if path is not None and not path.lower().endswith(".cal"):
        hint = f"{quoted(path)}; name a file that ends in .cal, such as week.cal"
        yield click.BadParameter(hint, ctx, param_hint="--sketch")
    else:
        yield from _of_folder(ctx, "--sketch", path)


def _of_folder(ctx: click.Context, name: str, target: str | None) -> Iterator[click.UsageError]:
    if target == "":
        hint = "''; name a file, or leave the option out: the variable behind it may be empty"
        yield click.BadParameter(hint, ctx, param_hint=name)
    folder = "" if target is None else os.path.dirname(target)
    if target is not None and folder and not os.path.isdir(folder):
        hint = f"{quoted(target)}; there is no folder {quoted(folder)}, make it first"
        yield click.BadParameter(hint, ctx, param_hint=name)


def check_usage(ctx: click.Context) -> None:
    """Reject wrong usage of a command without checks of its own."""
    _raise(ctx, ())


def _is_faulty(ctx: click.Context, name: str) -> bool:
    """Whether an option has an error of its own, so that its default stands in its place."""
    faults = [fault for fault in ctx.meta.get(FAULTS, ()) if isinstance(fault, click.BadParameter)]
    return any(fault.param is not None and fault.param.name == name for fault in faults)


def _raise(ctx: click.Context, errors: Iterable[click.UsageError]) -> None:
    """Raise all errors as one, after those of single options that the parsing of the command line found."""
    together = [*ctx.meta.get(FAULTS, ()), *errors]
    found = list({error.format_message(): error for error in together}.values())
    if len(found) > 1:
        raise click.UsageError("; and ".join(error.format_message().removesuffix(".") for error in found), ctx)
    for error in found:
        raise error
