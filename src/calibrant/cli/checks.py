"""Checks of the usage, before any file is opened."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from glob import has_magic
from itertools import combinations
from typing import Any, Final

import click
from click.core import ParameterSource

from calibrant.cli.options import CommandOptions

#: How the names of files must end, by option.
_ENDINGS: Final = {"--html": (".html", ".htm"), "--png": (".png",), "--svg": (".svg",)}


def check_report(ctx: click.Context, options: CommandOptions) -> None:
    """Reject wrong usage of the options of ``report``, before any file is opened."""
    from calibrant.notions import NOTIONS

    _check_judging(ctx, options, NOTIONS)
    check_level(ctx, options.level)
    for option, number in (("--n-resamples", options.n_resamples), ("--rng", options.rng)):
        if number < 0:
            hint = f"{number}; pass 0 or more"
            raise click.BadParameter(hint, ctx, param_hint=option)
    if options.score and options.probs:
        raise click.UsageError("--score is for one event, --probs for many classes; pass one of the two", ctx)
    if options.outcome and options.target:
        raise click.UsageError("--outcome and --target both name the truth; pass one of the two", ctx)
    _check_conditions(ctx, options)
    check_tolerance(ctx, options.tolerance)
    _check_tolerated(ctx, options)
    check_sketch(ctx, options.sketch_path)
    if options.exact and options.engine == "spark":
        raise click.UsageError(
            "--exact keeps the rows in this process, --engine spark does not; leave one of them out", ctx
        )
    if options.master is not None and options.engine != "spark":
        raise click.UsageError("--master says where Spark runs; pass --engine spark too", ctx)


def _check_conditions(ctx: click.Context, options: CommandOptions) -> None:
    """Reject a condition on a measure that the report leaves out."""
    from calibrant.measures.listed import selected

    selection = selected(options.measures, options.profile)
    shown = {"n", "test", *(measure.name for measure in selection.measures)}
    option = "--measures" if selection.listed else f"--profile {options.profile}"
    for condition in options.conditions:
        if condition.measure not in shown:
            remedy = "add it there" if selection.listed else f"list the measures: --measures {condition.measure},..."
            msg = f"--fail-if {condition.text!r}: {option} leaves {condition.measure} out; {remedy}"
            raise click.UsageError(msg, ctx)


def _check_tolerated(ctx: click.Context, options: CommandOptions) -> None:
    """Reject an error that no tolerance can be about, or that is named without a tolerance."""
    from calibrant.errors import nearest
    from calibrant.inference.decision import TOLERATED
    from calibrant.notions import PER_CLASS

    if options.tolerance_of not in TOLERATED:
        hint = f"{options.tolerance_of!r}; {nearest(options.tolerance_of, TOLERATED)}"
        raise click.BadParameter(hint, ctx, param_hint="--tolerance-of")
    if options.tolerance_of != TOLERATED[0]:
        if options.tolerance is None:
            raise click.UsageError("--tolerance-of names the error of --tolerance; pass --tolerance too", ctx)
        if options.notion in PER_CLASS:
            problem = f"with --notion {options.notion} only the ECE has a tolerance"
            msg = f"--tolerance-of {options.tolerance_of}: {problem}; leave --tolerance-of out"
            raise click.UsageError(msg, ctx)


def check_compare(ctx: click.Context, options: CommandOptions) -> None:
    """Reject wrong usage of the options of ``compare``, before any file is opened."""
    _check_judging(ctx, options, ("positive", "top-label"))
    if options.scores is not None and len(set(options.models)) < max(len(options.models), 2):
        hint = f"{options.scores!r}; name two models or more, each once, such as old,new"
        raise click.BadParameter(hint, ctx, param_hint="--scores")
    if options.scores is None and not options.baseline and len(options.files) == 1 and not has_magic(options.files[0]):
        raise one_model(ctx, options)
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
        raise click.UsageError(msg, ctx)
    if options.score and options.probs:
        raise click.UsageError("--score is for one event, --probs for many classes; pass one of the two", ctx)
    check_level(ctx, options.level)
    check_tolerance(ctx, options.tolerance)


def one_model(ctx: click.Context, options: CommandOptions) -> click.UsageError:
    """Return the error of a comparison of a single file."""
    columns = options.score if options.score and "," in options.score else "old,new"
    remedy = f"name another one, or the models' columns, such as --scores {shlex.quote(columns)}"
    return click.UsageError(f"{options.files[0]} is one file; {remedy}", ctx)


def check_floor(ctx: click.Context, params: Mapping[str, Any]) -> None:
    """Reject wrong usage of the options of ``floor``."""
    check_level(ctx, params["level"])
    check_tolerance(ctx, params["prove"], "--prove")
    if params["n"] is None and params["prove"] is None:
        msg = "name the number of predictions, such as --n 500, or the error to prove, such as --prove 0.02"
        raise click.UsageError(msg, ctx)


def check_tolerance(ctx: click.Context, tolerance: float | None, option: str = "--tolerance") -> None:
    """Reject a tolerance outside (0, 1)."""
    if tolerance is not None and not 0 < tolerance < 1:
        hint = f"{tolerance:g}; pass the largest harmless error, such as 0.02"
        raise click.BadParameter(hint, ctx, param_hint=option)


def check_level(ctx: click.Context, level: float) -> None:
    """Reject a level outside [0.5, 1)."""
    if not 0.5 <= level < 1:
        hint = f"{level:g}; pass a share from 0.5 to below 1, such as 0.95"
        raise click.BadParameter(hint, ctx, param_hint="--level")


def _check_judging(ctx: click.Context, options: CommandOptions, notions: Sequence[str]) -> None:
    from calibrant.errors import nearest

    if len(set(options.clusters)) < len(options.clusters):
        hint = f"{', '.join(options.clusters)}; name each column once"
        raise click.BadParameter(hint, ctx, param_hint="--cluster")
    if options.notion is not None and options.notion not in notions:
        hint = f"{options.notion!r}; {nearest(options.notion, notions)}"
        raise click.BadParameter(hint, ctx, param_hint="--notion")
    if options.n_bins < 1:
        hint = f"{options.n_bins} bins; pass 1 or more"
        raise click.BadParameter(hint, ctx, param_hint="--n-bins")
    _check_outputs(ctx, options)
    if options.by_values and not options.by:
        raise click.UsageError("--by-values says how --by groups numbers; pass --by too", ctx)
    if options.labels and options.class_names:
        raise click.UsageError("--labels and --class-names both name the classes; pass one of the two", ctx)
    if options.logits and options.percent:
        raise click.UsageError("--logits and --percent both say what the numbers are; pass one of the two", ctx)


def _check_outputs(ctx: click.Context, options: CommandOptions) -> None:
    for option, path in options.outputs.items():
        endings = _ENDINGS.get(option, ("",))
        if not path.lower().endswith(endings):
            hint = f"{path!r}; name a file that ends in {endings[0]}, such as report{endings[0]}"
            raise click.BadParameter(hint, ctx, param_hint=option)
        _check_folder(ctx, option, path)
    for (option, path), (other_option, other_path) in combinations(options.outputs.items(), 2):
        if os.path.abspath(path) == os.path.abspath(other_path):
            msg = f"{option} and {other_option} both name {other_path}; give each a file of its own"
            raise click.UsageError(msg, ctx)
    for option in ("title", "date"):
        typed = ctx.get_parameter_source(option) is ParameterSource.COMMANDLINE
        if typed and options.html_path is None and not options.open_page:
            msg = f"--{option} is the {option} of the page; pass --html too"
            raise click.UsageError(msg, ctx)


def check_sketch(ctx: click.Context, path: str | None) -> None:
    """Reject a file name for a sketch that does not end in .cal."""
    if path is not None and not path.lower().endswith(".cal"):
        hint = f"{path!r}; name a file that ends in .cal, such as week.cal"
        raise click.BadParameter(hint, ctx, param_hint="--sketch")
    _check_folder(ctx, "--sketch", path)


def _check_folder(ctx: click.Context, name: str, target: str | None) -> None:
    if target == "":
        hint = "''; name a file, or leave the option out: the variable behind it may be empty"
        raise click.BadParameter(hint, ctx, param_hint=name)
    folder = os.path.dirname(target or "")
    if folder and not os.path.isdir(folder):
        hint = f"{target!r}; there is no folder {folder!r}, make it first"
        raise click.BadParameter(hint, ctx, param_hint=name)
