"""The command ``calibrant``: from a file of predictions to a report, or to a comparison of models."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

try:
    import click
except ModuleNotFoundError:
    from calibrant.errors.exceptions import install_command

    sys.exit(f"calibrant: the command needs the extra 'report'; run: {install_command('report')}")

from calibrant import __version__
from calibrant.cli import conditions, console, output
from calibrant.cli import options as shared
from calibrant.cli.options import COLUMN, ENGINES, CommandOptions, option
from calibrant.cli.parameters import (
    COMPLETING,
    COST,
    ERROR,
    NATURAL,
    POSITIVE,
    PRIOR,
    RISK,
    SHARE,
    THRESHOLDS,
    Among,
    Checked,
    InputFile,
    Listed,
    MeasureNames,
    OutputFile,
    real,
    share,
    split,
    whole,
)
from calibrant.cli.usage import Commands
from calibrant.errors import quoted

#: The exit status of bad data.
BAD_DATA: Final = 1

SHELLS: Final = ("bash", "zsh", "fish")

_SKETCH: Final = "name a file that ends in .cal, such as week.cal"


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
    calibrant recalibrate held_out.csv --map map.json
    calibrant threshold answers.csv --score confidence --outcome correct
    calibrant monitor state.json week30.csv
    calibrant merge monday.cal tuesday.cal --sketch week.cal
    calibrant floor --n 500

    "calibrant report --help" says more, with examples.
    """  # noqa: D301 - click wants the backspace itself


@main.command(short_help="Report how well the predictions of a model are calibrated.")
@shared.predictions
@shared.one_model
@option(
    "--notion",
    type=Among("notion", lambda: import_module("calibrant.inputs.notions").NOTIONS),
    help="The type of calibration: positive, top-label, classwise or multilabel.",
)
@shared.n_bins
@option(
    "--classwise/--no-classwise",
    default=None,
    help=(
        "Report the calibration of each class too (default: if at most 10,000 classes; for a sketch, if fewer than "
        "500 and no --by)."
    ),
)
@option("--ordered", is_flag=True, help="Read the classes as ordered levels, in the order of the columns.")
@option(
    "--marginal",
    is_flag=True,
    help="Form groups from each column of --by separately. By default, each combination of values is a group.",
)
@shared.classes
@shared.level
@option(
    "--profile",
    default=CommandOptions.profile,
    type=Among("name", lambda: import_module("calibrant.measures.profiles").PROFILES),
    help="The set of measures and figures: standard, clinical, forecast or all.",
    common="The set of measures, such as clinical.",
)
@option(
    "--measures",
    type=MeasureNames("measures"),
    help="Show only these measures, separated by commas, such as ece,ks.",
)
@option("--all", "all_measures", is_flag=True, help="Show every measure of the profile.")
@shared.draws
@option(
    "--bands",
    metavar="KIND",
    type=click.Choice(("pointwise", "simultaneous")),
    default=CommandOptions.bands,
    help="The type of the confidence and consistency bands of the isotonic curve: pointwise or simultaneous.",
)
@option(
    "--tolerance",
    type=ERROR,
    help="The largest calibration error that is negligible in practice, such as 0.02.",
    common="The largest negligible calibration error.",
)
@option(
    "--tolerance-of",
    type=Among("measure", lambda: import_module("calibrant.inference.decision").TOLERATED),
    default=CommandOptions.tolerance_of,
    help="The measure that --tolerance applies to: ece, smece, rmsce or mean_gap.",
)
@shared.exact
@shared.keep_going
@option(
    "--engine",
    metavar="ENGINE",
    type=click.Choice(ENGINES),
    default=CommandOptions.engine,
    help="Read the files in this process (embedded) or with Spark (spark).",
)
@option("--master", metavar="URL", help="The Spark master, such as 'local[2]'.")
@option(
    "--sketch",
    "sketch_path",
    type=OutputFile(".cal", remedy=_SKETCH),
    help="Write a sketch (sums of the data, without rows) to this .cal file. Add sketches with calibrant merge.",
)
@shared.outputs
@option(
    "--fail-if",
    "conditions",
    multiple=True,
    type=conditions.ConditionType(),
    help="Exit with status 3 if this condition is true, such as 'ece.low > 0.03'.",
)
@option(
    "--gate",
    is_flag=True,
    help="Exit with status 3 on evidence of miscalibration. With --tolerance, exit with status 3 if the error is "
    "above the tolerance, and with status 4 if the result is inconclusive.",
    common="Exit with status 3 on miscalibration.",
)
@click.pass_context
def report(ctx: click.Context, /, **params: Any) -> None:
    """Report on the calibration of the predictions in FILE..., files or patterns such as 'logs/*.parquet'.

    Columns with the usual names (probs, p_*, score; target, label, outcome) are found automatically.

    \b
    calibrant report digits.parquet --html report.html
    calibrant report games.csv --score win_prob --outcome won --by season
    calibrant report patients.csv --by sex --by ward --marginal --profile clinical
    calibrant report answers.parquet --cluster question_id
    calibrant report 'logs/*.parquet' --probs 'p_*' --where "split = 'test'"
    calibrant report model.npz --logits --tolerance 0.02 --gate
    calibrant report decisions.jsonl --question urgent

    Exit status: 0; 1 unusable data; 2 wrong usage; 3 a gate fails or a condition is true; 4 inconclusive gate.
    """  # noqa: D301
    options = CommandOptions.of(**params)
    shared.check(ctx, shared.problems_of_report(ctx, options))
    from calibrant.cli import loading

    _run(ctx, options, loading.load, loading.evaluate, conditions.report_status)


@main.command(short_help="Compare several models, and rank them.")
@shared.predictions
@option(
    "--scores",
    type=Listed("columns"),
    help="The models in one file, as columns or patterns such as 'p_*', separated by commas.",
    common="The models in one file, such as old,new.",
)
@shared.score
@option(
    "--outcome",
    "--target",
    type=COLUMN,
    help="The column of outcomes (0 or 1) or true classes, or SQL such as 'predicted = label'.",
    common="The column of outcomes or true classes.",
)
@shared.probs
@shared.targets
@option(
    "--on",
    type=COLUMN,
    multiple=True,
    help=(
        "The column of ids, to pair the rows (or questions) of the models. With --truth, the column of ids in "
        "that file. By default, separate files are paired by position, decision logs by id, and models in one "
        "file are not paired."
    ),
    common="The column that identifies a row in every file.",
)
@option(
    "--baseline",
    type=InputFile(),
    help="The file of an earlier report, such as last.json or last.cal, to use as the first model.",
)
@option(
    "--paired/--independent",
    default=None,
    help=(
        "Whether .cal files contain the same clusters (--paired) or independent rows (--independent). By default "
        "this is unknown, and intervals are conservative."
    ),
)
@shared.rows
@option(
    "--logits",
    is_flag=True,
    help="Read the numbers of all models as logits, not as probabilities.",
    common="Read the numbers as logits.",
)
@shared.numbers
@shared.decisions
@option(
    "--correct",
    metavar="COLUMNS",
    help="Compare results from 0 (wrong) to 1 (correct) instead of probabilities: one column, or one for each model, "
    "such as 'agent*'.",
    common="The column of results: 1 correct, 0 wrong.",
)
@option(
    "--sparse",
    is_flag=True,
    help="Compare models that answered different questions, adjusted for the difficulty of the questions. It needs "
    "--on, the column of the question.",
    common="Compare models that answered different questions.",
)
@option(
    "--own-outcomes/--same-outcomes",
    default=None,
    help=(
        "Whether the outcome depends on the model, such as whether its answer is correct (--own-outcomes). By "
        "default, outcomes must be the same in separate files, and may differ between the models in one file."
    ),
)
@option(
    "--sort-by",
    metavar="MEASURE",
    default=CommandOptions.sort_by,
    help="The measure that ranks the models, such as nll, accuracy, auroc or debiased_square.",
    common="The measure that ranks the models.",
)
@shared.one_event
@shared.n_bins
@shared.classes
@shared.level
@shared.outputs
@option(
    "--tolerance",
    type=ERROR,
    help="The largest acceptable increase of the ECE from the first model to another model, such as 0.01.",
    common="The largest acceptable increase of the ECE.",
)
@option(
    "--fail-if",
    "conditions",
    multiple=True,
    type=conditions.ConditionType(changes=True),
    help="Exit with status 3 if this condition is true for a difference (another model minus the first model), "
    "such as 'ece > 0.01'.",
)
@option(
    "--gate",
    is_flag=True,
    help="Exit with status 3 if a model is worse than the first model. With --tolerance, exit with status 4 "
    "if the result is inconclusive.",
    common="Exit with status 3 if a model is worse.",
)
@click.pass_context
def compare(ctx: click.Context, /, scores: str | None, **params: Any) -> None:
    """Compare models, and rank them: each in a FILE, or columns of FILE....

    In one FILE with the rows of all models, --by names the model of a row, and --on the question that it answers.

    \b
    calibrant compare old.npz new.npz
    calibrant compare old.csv new.csv --score win_prob --outcome won --on game_id
    calibrant compare games.csv --scores old,new --outcome won --gate
    calibrant compare digits.parquet --scores 'p_*,overconfident_*'
    calibrant compare today.parquet --baseline last.json
    calibrant compare answers.csv --by model --outcome correct --on question_id
    calibrant compare solved.csv --by agent --correct solved --on task
    calibrant compare a.jsonl b.jsonl c.jsonl --on id --own-outcomes
    calibrant compare decisions_old.jsonl decisions_new.jsonl --gate

    Exit status: 0; 1 unusable data; 2 wrong usage; 3 a gate fails or a condition is true; 4 inconclusive gate.
    """  # noqa: D301
    options = CommandOptions.of(scores=scores, models=split(scores or ""), **params)
    shared.check(ctx, shared.problems_of_compare(ctx, options))
    from calibrant.cli import loading

    _run(ctx, options, loading.load_models, loading.compare, conditions.comparison_status)


@main.command(short_help="Fit a recalibration map, and estimate its improvement.")
@shared.argument("files", metavar="[FILE...]", nargs=-1, type=InputFile())
@shared.one_model
@option(
    "--notion",
    type=Among("notion", lambda: ("positive", "top-label", "multilabel")),
    help="The type of calibration: positive (one event), top-label (predicted class) or multilabel (all labels).",
)
@shared.classes
@option(
    "--method",
    metavar="METHOD",
    default=CommandOptions.method,
    help=(
        "The method: auto, temperature, cox, beta, isotonic, constant, shift (or intercept), clipped or "
        "histogram. For several classes: auto, temperature, vector or matrix."
    ),
    common="The method, such as temperature.",
)
@option(
    "--map",
    "map_path",
    type=OutputFile(".json"),
    help="Write the map as JSON, if there is evidence that it helps.",
    common="Write the map as JSON, if there is evidence that it helps.",
)
@option(
    "--sql",
    "sql_path",
    type=OutputFile(".sql"),
    help="Write the map as an SQL expression, if there is evidence that it helps.",
)
@option(
    "--onnx",
    "onnx_path",
    type=OutputFile(".onnx"),
    help="Write the map as an ONNX model, if there is evidence that it helps.",
)
@option(
    "--anyway",
    is_flag=True,
    help="Write the map even without evidence that it helps.",
    common="Write the map even without evidence.",
)
@option(
    "--prior",
    type=PRIOR,
    help="The known event rate of the new population, such as 0.02 or 2%, or the shares of the classes, such as "
    "cat=0.2,dog=0.8. The map needs no outcomes.",
    common="The known event rate of the new population.",
)
@option(
    "--trained-prior",
    type=PRIOR,
    help="The event rate of the training data, or the shares of the classes.",
    common="The event rate of the training data.",
)
@option(
    "--estimate-prior",
    is_flag=True,
    help="Estimate --prior from the scores in FILE, without outcomes.",
    common="Estimate --prior from the scores in FILE.",
)
@option(
    "--reference",
    "reference_path",
    type=InputFile(),
    help="For --estimate-prior, test if only the event rate changed: training-population scores in a .cal file, or in "
    "all rows of a file like FILE.",
)
@shared.exact
@shared.level
@shared.draws
@shared.outputs
@click.pass_context
def recalibrate(ctx: click.Context, /, **params: Any) -> None:
    """Fit the map that suits the scores in FILE... best, and show how much it helps on new rows.

    Use rows that the model was not trained on.

    \b
    calibrant recalibrate held_out.csv --map map.json
    calibrant recalibrate held_out.csv --score risk --outcome died --map risk.json
    calibrant recalibrate answers.parquet --cluster question_id --map map.json
    calibrant recalibrate --prior 0.02 --trained-prior 0.5 --map map.json

    Exit status: 0; 1 unusable data; 2 wrong usage; 3 without evidence that recalibration helps, or if the scores
    contradict the assumption of --estimate-prior or show no event rate.
    """  # noqa: D301
    options = CommandOptions.of(**params)
    shared.check(ctx, shared.problems_of_recalibrate(ctx, options))
    from calibrant.cli import loading

    if options.of_prior:

        def status_of(fix: Any, *_: Any, **__: Any) -> int:
            return conditions.FAILED if fix.objection else 0

        _run(ctx, options, loading.load_scores, loading.shift_prior, status_of)
        return
    _run(ctx, options, loading.load, loading.recalibrate, lambda fix, _, **__: 0 if fix.proven else conditions.FAILED)


@main.command(short_help="Certify a score threshold for automatic decisions.")
@shared.predictions
@shared.one_model
@shared.one_event
@shared.classes
@option(
    "--max-risk",
    type=RISK,
    help="The largest acceptable error rate of automatic decisions (default: 0.05).",
    common="The largest acceptable error rate, such as 0.05.",
)
@option(
    "--yes-risk",
    type=RISK,
    help=(
        "The largest acceptable error rate of decisions 'yes'. Needs --no-risk. Cases with neither decision go to a "
        "person."
    ),
    common="The largest error rate of decisions 'yes'.",
)
@option(
    "--no-risk",
    type=RISK,
    help="The largest acceptable error rate of decisions 'no'. Needs --yes-risk.",
    common="The largest error rate of decisions 'no'.",
)
@option(
    "--confidence",
    type=SHARE,
    default=CommandOptions.confidence,
    help="The confidence level of the certified error rate and of the intervals.",
    common="The confidence level.",
)
@option(
    "--method",
    "certified_by",
    metavar="METHOD",
    type=click.Choice(("closed", "fixed-sequence", "betting")),
    help=(
        "The test of thresholds: closed (default), fixed-sequence, or betting (for clusters, and by default for "
        "sampling weights)."
    ),
)
@option(
    "--largest-cluster",
    type=whole(lambda bound: bound > 0, "pass a number of rows, such as 20", name="n"),
    help="The largest possible cluster size (rows). Implies --method betting. Without it, --confidence is approximate.",
)
@option(
    "--max-weight",
    type=real(lambda bound: 0 < bound < float("inf"), "pass a weight, such as 20", "weight"),
    help="The largest possible sampling weight of a row. Implies --method betting.",
)
@option(
    "--per-class",
    is_flag=True,
    help="Certify one threshold for each predicted class. The confidence level holds for all classes jointly.",
)
@option(
    "--each",
    is_flag=True,
    help="For a decision log, apply the confidence level to each question alone, not to all questions jointly.",
)
@option(
    "--gates",
    "gates_path",
    type=OutputFile(".json"),
    help="For a decision log, write the certified thresholds as JSON for the tool jev-eval.",
)
@option(
    "--all",
    "all_measures",
    is_flag=True,
    help="For decision logs, also show the thresholds that observed accuracy alone would give.",
)
@option("--cost-of-error", type=float, metavar="COST", help="The cost of a wrong automatic decision.")
@option("--cost-of-referral", type=float, metavar="COST", help="The cost of a case that is referred to a person.")
@option(
    "--thresholds",
    type=THRESHOLDS,
    help="Show the net benefit at these thresholds, such as 0.05,0.1.",
)
@option(
    "--cost-of-false-positive",
    type=COST,
    help="The cost of a false positive. With --cost-of-false-negative, show the threshold that they imply.",
)
@option("--cost-of-false-negative", type=COST, help="The cost of a false negative.")
@shared.exact
@shared.keep_going
@shared.outputs
@click.pass_context
def threshold(ctx: click.Context, /, **params: Any) -> None:
    """Certify a score threshold for automatic decisions about the cases in FILE....

    Decisions at this score or above are wrong at most as often as --max-risk says, with the given confidence.

    \b
    calibrant threshold answers.csv --score confidence --outcome correct
    calibrant threshold cases.parquet --probs 'p_*' --cluster customer
    calibrant threshold visits.csv --score risk --yes-risk 0.1 --no-risk 0.02
    calibrant threshold decisions.jsonl --max-risk 0.05 --gates thresholds.json
    calibrant threshold visits.csv --score risk --thresholds 0.05,0.1

    Exit status: 0; 1 unusable data; 2 wrong usage; 4 no threshold is certified.
    """  # noqa: D301
    options = CommandOptions.of(**params)
    shared.check(ctx, shared.problems_of_threshold(ctx, options))
    from calibrant.cli import loading

    if options.by_benefit:
        _run(ctx, options, loading.load, loading.benefit, lambda *_, **__: 0)
        return
    _run(ctx, options, loading.load, loading.certify, lambda found, _, **__: 0 if found.certified else conditions.OPEN)


@main.command(short_help="Monitor the calibration of a deployed model, slice by slice.")
@shared.argument(
    "state_path",
    metavar="STATE",
    type=OutputFile(
        ".json",
        remedy="name the file of the state first, such as state.json",
        missing="Name the file of the state, such as state.json.",
    ),
)
@shared.argument("files", metavar="[FILE...]", nargs=-1, type=InputFile())
@shared.one_model
@shared.one_event
@shared.classes
@option(
    "--label",
    help="The name of the slice, such as 2026-W31 (default: the name of the file, or of the first and the last one).",
    common="The name of the slice, such as 2026-W31.",
)
@option(
    "--groups",
    metavar="NAMES",
    callback=lambda _ctx, _option, listed: None if listed is None else split(listed),
    help=(
        "The names of all groups of --by, also of groups that appear only later, such as north,south (default: "
        "the groups of the first slice). For a decision log, the questions to monitor (default: all, also later "
        "ones)."
    ),
)
@option(
    "--time",
    type=COLUMN,
    help="Split the file into slices, one for each period of this column (or SQL) of dates or times.",
    common="Split the file into slices by this column of dates.",
)
@option(
    "--every",
    metavar="PERIOD",
    type=click.Choice(("day", "week", "month")),
    default=CommandOptions.every,
    help="The length of the periods of --time: day, week or month.",
)
@option(
    "--alpha",
    type=share(lambda alpha: 0 < alpha <= 0.5, "pass a probability above 0 and up to 0.5, such as 0.05 or 5%", "p"),
    help="The largest probability of an alarm, over all slices, if the model stays calibrated (default: 0.05).",
    common="The largest probability of an alarm without a drift.",
)
@option(
    "--tolerance",
    type=ERROR,
    help="The largest error of the probabilities that is negligible in practice, such as 0.02.",
    common="The largest negligible error of the probabilities.",
)
@option(
    "--tolerance-odds",
    type=real(lambda odds: odds > 1, "pass a factor above 1, such as 1.1", "factor"),
    help="The largest negligible factor between the true and the predicted odds, such as 1.1.",
)
@option(
    "--max-weight",
    type=float,
    metavar="WEIGHT",
    help="The largest possible weight of a row. Needed for sampling weights.",
)
@option(
    "--threshold",
    "threshold_path",
    type=InputFile("path"),
    help="Also monitor the error rate of a certified threshold. Name the JSON file of calibrant threshold --json.",
    common="Also monitor the error rate of this threshold.",
)
@option(
    "--since-onset",
    "since_onset_path",
    type=OutputFile(".cal", remedy=_SKETCH),
    help="At an alarm, write a sketch of the rows since the estimated start of the drift to this .cal file.",
)
@option(
    "--prometheus",
    "prometheus_path",
    type=OutputFile(".prom"),
    help="Write Prometheus metrics to this .prom file.",
)
@shared.exact
@shared.keep_going
@shared.outputs
@click.pass_context
def monitor(ctx: click.Context, /, **params: Any) -> None:
    """Add the rows in FILE... as a slice to STATE, and tell whether the model is still calibrated.

    The first call creates STATE. Without a file, the command shows STATE. A model that stays calibrated raises an alarm
    with a probability of at most --alpha, however often it is looked at.

    \b
    calibrant monitor state.json week31.csv
    calibrant monitor state.json monday.cal --label 2026-11-23
    calibrant monitor nba.json games.csv --score win_prob --outcome won --time day
    calibrant monitor state.json tuesday.cal --since-onset window.cal

    Exit status: 0; 1 unusable data; 2 wrong usage; 3 an alarm.
    """  # noqa: D301
    options = CommandOptions.of(**params)
    shared.check(ctx, shared.problems_of_monitor(ctx, options))
    from calibrant.cli import watching

    with _failing(ctx, options):
        alarmed = watching.run(ctx, options)
    if alarmed:
        sys.exit(conditions.FAILED)


def _run(
    ctx: click.Context,
    options: CommandOptions,
    load: Callable[..., Any],
    evaluate: Callable[..., Any],
    status_of: Callable[..., int],
) -> None:
    """Load the predictions, evaluate them, write the result, and exit with its status."""
    from calibrant.cli import loading

    with _failing(ctx, options):
        with output.progress(quiet=options.quiet) as step:
            predictions = load(ctx, options, step)
            step(0, 0, 0)
            with loading.about(predictions):
                result = evaluate(predictions, options)
        with loading.about(predictions):
            output.write(result, predictions, options)
            status = status_of(result, options.conditions, gate=options.gate)
    if status:
        sys.exit(status)


@contextmanager
def _failing(ctx: click.Context, options: CommandOptions) -> Iterator[None]:
    """On errors about data, print one line and exit with their status."""
    from calibrant.files.local import Conversion, converting

    # The message of an error may read the file again, as text in the same encoding.
    with converting(Conversion(options.encoding, options.sheet, options.header_line)):
        try:
            yield
        except Exception as error:
            from calibrant.cli.errors import message

            console.say(" ".join(message(error, ctx, options).split()))
            sys.exit(BAD_DATA)


@main.command(short_help="Apply a recalibration map to the scores in a file.")
@shared.argument(
    "map_file", metavar="MAP", type=InputFile("map", "Name a map file, which calibrant recalibrate --map writes.")
)
@shared.argument("path", metavar="FILE", type=InputFile(missing="Name the file with the scores, such as new.csv."))
@option(
    "--output",
    "-o",
    metavar="PATH",
    required=True,
    type=OutputFile(
        *(".csv", ".parquet", ".arrow", ".feather"),
        remedy="name a file that ends in .csv, .parquet, .arrow or .feather",
        missing="Name the file to write, such as --output calibrated.csv.",
    ),
    help="The file to write: .csv, .parquet, .arrow or .feather.",
)
@option(
    "--score",
    type=COLUMN,
    help="The column of the scores (default: a column with a usual name, such as score).",
    common="The column of the scores.",
)
@option(
    "--probs",
    type=Listed("columns"),
    help="The columns of the class probabilities, such as 'p_*', for a map of several classes.",
    common="The columns of the class probabilities, such as 'p_*'.",
)
@option(
    "--name",
    type=Checked("name", lambda name: "" if name.strip() else f"{quoted(name)}; name the new column"),
    default="calibrated",
    help="The name of the new column. For several classes, the prefix of the new names.",
)
@shared.logits
@shared.written
@option("--quiet", is_flag=True, help="Print only errors and warnings.")
@click.pass_context
def apply(ctx: click.Context, /, **params: Any) -> None:
    """Apply a MAP of scores to FILE, and write its rows with one more column.

    \b
    calibrant apply risk.json new.csv --score risk --output calibrated.csv
    calibrant apply map.json 2026.parquet -o 2026-calibrated.parquet --name p

    Exit status: 0; 1 unusable data; 2 wrong usage.
    """  # noqa: D301
    names = ("logits", "percent", "odds", "encoding", "sheet", "header_line")
    options = CommandOptions(**{name: params[name] for name in names})
    shared.check(ctx, shared.problems_of_numbers(ctx, options))
    with _failing(ctx, options):
        from calibrant.cli import loading

        loading.apply(**params)


@main.command(short_help="Merge the sketches of several files into one.")
@shared.files("Name .cal files, such as monday.cal tuesday.cal.")
@option(
    "--sketch",
    "-o",
    "sketch_path",
    metavar="PATH",
    required=True,
    type=OutputFile(
        ".cal",
        remedy=_SKETCH,
        missing="Name the file for the merged sketch, such as --sketch week.cal.",
        may_be_read=True,
    ),
    help="The .cal file for the merged sketch. It may be one of the input files.",
)
@shared.keep_going
@click.pass_context
def merge(ctx: click.Context, files: tuple[str, ...], sketch_path: str, keep_going: bool) -> None:
    """Add the sketches in FILE..., written by calibrant report --sketch, and write their sum.

    \b
    calibrant merge monday.cal tuesday.cal --sketch week.cal
    calibrant merge 'logs/*.cal' -o all.cal

    Exit status: 0; 1 unusable data; 2 wrong usage.
    """  # noqa: D301
    shared.check(ctx)
    with _failing(ctx, CommandOptions()):
        from calibrant.files import read_sketches, write_sketch

        merged = read_sketches(files, keep_going=keep_going)
        write_sketch(merged.sketch, sketch_path)
        content = repr(merged.sketch).removeprefix("<CalibrationSketch: ").removesuffix(">")
        files_read = f"{len(merged.paths):,} file{'s' * (len(merged.paths) != 1)}"
        console.write(f"{sketch_path}: {content}, from {files_read}")
        output.warn(merged)


@main.command(short_help="Print noise floors and required sample sizes; needs no data.")
@option("--n", "n", type=POSITIVE, help="The number of predictions, 1 or more.")
@option(
    "--prove",
    type=ERROR,
    help="Print the sample size at which a perfectly calibrated model "
    "shows, with 80 % power, that its ECE is below this value.",
)
@option(
    "--bins",
    "--n-bins",
    "n_bins",
    type=whole(lambda count: 1 <= count <= 1_000_000, "pass 1 to 1,000,000"),
    default=15,
    help="The number of bins, up to 1,000,000.",
)
@option(
    "--level",
    type=SHARE,
    default=0.95,
    help="The probability that a calibrated model stays below the printed upper value.",
)
@option("--n-resamples", type=POSITIVE, default=1000, help="The number of simulated data sets, 1 or more.")
@option("--rng", type=NATURAL, default=0, help="The seed of the simulated data sets.")
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
        from calibrant.cli.floors import Floors

        json_path = params.pop("json_path")
        with output.progress():
            floors = Floors.of(**params)
        output.write_floors(floors, CommandOptions(json_path=json_path))


@main.command("completion", short_help="Make the TAB key complete commands in bash, zsh or fish.")
@shared.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def complete(ctx: click.Context, shell: str) -> None:
    """Print the shell code that lets the TAB key complete commands, options, files and their columns.

    \b
    eval "$(calibrant completion bash)"    a line for ~/.bashrc
    eval "$(calibrant completion zsh)"     a line for ~/.zshrc, after compinit
    calibrant completion fish | source     a line for ~/.config/fish/config.fish
    """  # noqa: D301
    shared.check(ctx)
    from click.shell_completion import get_completion_class

    if (script := get_completion_class(shell)) is not None:
        console.put(script(main, {}, "calibrant", COMPLETING).source())
