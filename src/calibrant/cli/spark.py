"""Reports on Spark: Spark reads the files, and only the cells of a sketch come back."""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from calibrant.cli.options import CommandOptions
from calibrant.errors import is_missing, quoted
from calibrant.errors.faults import Fault, LabelFacts, MissingFacts, Mistake
from calibrant.runtime.process import sweep, undone

if TYPE_CHECKING:
    from calibrant.errors import InputError
    from calibrant.files import FileSketch
    from calibrant.files.columns import Cuts, Selection
    from calibrant.sketch import CalibrationSketch

_KINDS: Final = ("parquet", "csv", "json")
_HEAD: Final = 2_000  # rows to read for the likely columns

_LEAVE_OUT: Final = "leave such rows out with --where"
_SPARK_SQL: Final = "write it in the SQL of Spark"

#: The remedies for faults of a frame.
_OF_FAULTS: Final = {
    Fault.MISSING: _LEAVE_OUT,
    Fault.WEIGHT: f"correct the rows, or {_LEAVE_OUT}",
    Fault.ROW_SUM: "divide each row by its sum, or report on each label with --score and --outcome",
    Fault.OUTCOMES: "name both labels with --labels, the event last, or the columns of classes with --probs",
    Fault.CLASS_INDICES: f"name the column of every class with --probs, or {_LEAVE_OUT}",
    Fault.LABEL_NAMES: "pass --labels in the order of the columns; for one event, the event last",
    Fault.COLUMN_NAME: "rename the column",
    Fault.COLUMN_TYPE: "write the column with such a type",
    Fault.TOO_FINE: "round the values",
}
_OF_MISTAKES: Final = {
    Mistake.PERCENT: "pass --percent if the numbers are per cent",
    Mistake.ROUNDING: "clip the values to [0, 1] if that is rounding",
    Mistake.LOGITS: "if they are logits, pass --logits and leave --engine spark out",
    Mistake.PROBABILITY_TARGETS: "name the column of the outcomes with --outcome",
    Mistake.NESTED: "write a column for each class",
}

#: Functions of chance and of the time, some of them also without brackets.
_VOLATILE: Final = re.compile(
    r"\b(?:current_(?:date|timestamp|time)|localtimestamp)\b"
    r"|\b(?:rand|randn|random|randstr|uniform|uuid|shuffle|now|curdate|curtime|unix_timestamp *\( *\)"
    r"|monotonically_increasing_id|spark_partition_id|input_file_name) *\(",
    re.IGNORECASE,
)

_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_SETTINGS: Final = {
    "spark.sql.ansi.enabled": "true",  # a cell that is not a number is an error, not a null
    "spark.sql.caseSensitive": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def load(ctx: click.Context, options: CommandOptions, patterns: Sequence[str]) -> FileSketch:
    """Read files on Spark, and return the sketch of their predictions."""
    from calibrant.errors import FileError
    from calibrant.files import FileSketch

    _check_options(ctx, options)
    paths, kind, title = _paths(patterns)
    if kind not in _KINDS:
        raise FileError(title, "has a format that --engine spark cannot read", "pass .parquet, .csv or .jsonl files")
    with _session(options.master) as session, _settled(session, options.timezone), _without_logs():
        try:
            frame = _read(session, paths, kind, title)
            selection, frame = _select(frame, title, options)
            if "://" not in patterns[0]:
                _check_alike(patterns, kind, [name for name in selection.used if name in frame.columns])
            sketch, selection = _sketch(frame, selection, title, options)
        except Exception as error:
            raise _explained(error, title, options) from error
    return FileSketch(sketch=sketch, sources=selection.sources(), paths=tuple(patterns), rows=(sketch.n,))


def _check_options(ctx: click.Context, options: CommandOptions) -> None:
    unsupported = {"--targets": options.targets_file, "--logits": options.logits, "--keep-going": options.keep_going}
    unsupported["--decimal-comma"] = options.decimal_comma
    for option, value in unsupported.items():
        if value:
            msg = f"{option} is not available with --engine spark; leave one of them out"
            raise click.UsageError(msg, ctx)
    if options.notion == "multilabel":
        remedy = "report on each label with --score and --outcome"
        msg = f"--notion multilabel is not available with --engine spark; {remedy}"
        raise click.UsageError(msg, ctx)


def _paths(patterns: Sequence[str]) -> tuple[list[str], str, str]:
    """Return the paths for Spark, their kind, and their name in errors.

    Spark resolves names with a scheme (``s3a://``, ``hdfs://``). Others are local files that every worker must see.
    """
    from calibrant.errors import FileError
    from calibrant.files.local import located
    from calibrant.files.logs import is_log
    from calibrant.files.paths import check_bytes, expand, is_utf8, kind_of
    from calibrant.files.text import separator

    remote = [pattern for pattern in patterns if "://" in pattern]
    if remote and len(remote) < len(patterns):
        raise FileError(remote[0], "is in another place than the other files", "pass files from one place at a time")
    if remote:
        return remote, kind_of(remote[0]), _title(remote)
    paths = expand(patterns)
    for path in paths:
        check_bytes(path)
        if is_log(path):
            problem = "is an evaluation log, which --engine spark cannot read"
            raise FileError(path, problem, "leave --engine spark out")
        is_other_csv = kind_of(path) == "csv" and separator(path) == ";"
        if located(path) != path or path.lower().endswith((".json", ".json.gz")) or is_other_csv:
            problem = f"is of a kind that --engine spark cannot read{', with semicolons' * is_other_csv}"
            raise FileError(path, problem, "write it as Parquet, or leave --engine spark out")
        if not is_utf8(os.path.abspath(path)):
            raise FileError(path, "has a name that is not UTF-8, which --engine spark cannot read", "rename it")
    # Pattern characters that are left in a name are literal.
    urls = ["file://" + re.sub(r"[\[\]{}*?\\,]", r"\\\g<0>", os.path.abspath(path)) for path in paths]
    return urls, kind_of(paths[0]), _title(paths)


def _title(paths: Sequence[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{paths[0]} … {paths[-1]} ({len(paths):,} files)"


def _check_alike(patterns: Sequence[str], kind: str, used: Sequence[str]) -> None:
    """Reject files whose columns Spark would misread, or read as nulls."""
    from calibrant.errors import FileError
    from calibrant.files.paths import expand
    from calibrant.files.sources import table_of

    paths = expand(patterns) if kind != "json" else []  # Spark merges the keys of JSON lines itself
    columns = {path: table_of(path, kind, None).columns for path in paths}
    for path, names in columns.items():
        first = columns[paths[0]]
        lacking = [name for name in used if name not in names]
        if lacking:
            problem = f"has no column {quoted(lacking[0])}, which {paths[0]} has"
            raise FileError(path, problem, "pass files with the same columns")
        if kind == "csv" and names != first:
            problem = f"has other columns than {paths[0]}, or another order, and Spark reads .csv columns by position"
            raise FileError(path, problem, "write all files with the same columns, or leave --engine spark out")


# ---------------------------------------------------------------- the session


@contextmanager
def _session(master: str | None) -> Iterator[Any]:
    """Yield a session. A session that is started here is silent, and is stopped at the end."""
    from calibrant.errors import CalibrantError, MissingDependencyError

    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        if not is_missing(error, "pyspark"):
            raise
        raise MissingDependencyError("pyspark", "for --engine spark", "spark") from None
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        msg = "--engine spark: expected Java, found none; install Java 17 or later, or set JAVA_HOME"
        raise CalibrantError(msg)
    builder = SparkSession.builder.appName("calibrant").master(master or "local[*]")
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    with _silent() as log:
        try:
            session = builder.getOrCreate()
        except Exception as error:
            msg = f"--engine spark: Spark does not start ({_last_line(log, error)}); check --master and Java"
            raise CalibrantError(msg) from error
    try:
        session.sparkContext.setLogLevel("OFF")
        yield session
    finally:
        session.stop()
        gateway = getattr(session.sparkContext, "_gateway", None)
        if gateway is not None:  # otherwise the Java process lives as long as this one
            gateway.shutdown()


@contextmanager
def _settled(session: Any, timezone: str) -> Iterator[None]:
    """Have a session find the same rows, whoever wrote the files and wherever it runs; it may be the caller's own.

    Most writers of Parquet leave NaN out of the statistics of a row group, and Spark has NaN above all numbers.
    """
    wanted = {"spark.sql.session.timeZone": timezone, "spark.sql.parquet.filterPushdown": "false"}
    before = {name: session.conf.get(name) for name in wanted}
    for name, value in wanted.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        with suppress(Exception):  # a session that has ended has none to restore
            for name, value in before.items():
                session.conf.set(name, value)


@contextmanager
def _silent() -> Iterator[str]:
    """Redirect standard error of this process and its children to a file; yield its name."""
    sys.stderr.flush()
    stderr_copy = os.dup(2)
    with undone(tempfile.TemporaryDirectory, lambda: temporary.cleanup()) as temporary, temporary as folder:
        sweep(folder)
        log = os.path.join(folder, "log")
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT)
        try:
            os.dup2(descriptor, 2)
            yield log
        finally:
            sys.stderr.flush()
            os.dup2(stderr_copy, 2)
            os.close(stderr_copy)
            os.close(descriptor)


@contextmanager
def _without_logs() -> Iterator[None]:
    """Silence the loggers of pyspark: this module words the errors."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _last_line(log: str, error: Exception) -> str:
    from calibrant.files.local import first_line

    with open(log, encoding="utf-8", errors="replace") as stream:
        lines = [line.strip() for line in stream if re.search(r"exception|error", line, re.IGNORECASE)]
    return lines[0][:200].rstrip(".") if lines else first_line(error)


# ---------------------------------------------------------------- files and columns


def _read(session: Any, paths: list[str], kind: str, title: str) -> Any:
    if kind == "parquet":
        return session.read.parquet(*paths)
    if kind == "json":
        return session.read.json(paths, mode="FAILFAST")
    # Quotes within quotes are doubled, as all programs except Spark write them.
    separator = "\t" if ".tsv" in title.lower() else ","
    return session.read.csv(
        paths,
        header=True,
        inferSchema=True,
        sep=separator,
        quote='"',
        escape='"',
        mode="FAILFAST",
        ignoreLeadingWhiteSpace=True,
        ignoreTrailingWhiteSpace=True,
        enforceSchema=False,
    )


def _select(frame: Any, title: str, options: CommandOptions) -> tuple[Selection, Any]:
    """Choose the columns, and return them with the rows that meet the condition."""
    from calibrant.errors import FileError
    from calibrant.files.columns import Unnamed, select
    from calibrant.files.likely import look
    from calibrant.files.suggestions import ask, is_doubtful, proposed

    def first_cells() -> dict[str, list[Any]]:
        rows = frame.limit(_HEAD).collect()
        return {name: [row[place] for row in rows] for place, name in enumerate(frame.columns)}

    try:
        selection = select(title, frame.columns, options)
    except Unnamed as error:
        raise proposed(error, look(first_cells()), options) from None
    if is_doubtful(selection, frame.columns, options):
        ask(title, selection, look(first_cells()), options)
    if selection.logits:
        problem = "holds logits, which --engine spark does not support"
        raise FileError(title, problem, "write probabilities, or leave --engine spark out")
    if len(selection.targets) > 1:
        raise FileError(title, "holds one-hot targets", "name a column of class indices with --target")
    if options.where is not None:
        frame = frame.where(options.where)
        _check_repeatable(frame, "--where", options.where, title)
    return selection, frame


def _sketch(
    frame: Any, selection: Selection, title: str, options: CommandOptions
) -> tuple[CalibrationSketch, Selection]:
    """Return the sketch, and the selection with the numbers that are cut into groups."""
    from pyspark.sql import functions

    from calibrant import frames
    from calibrant.errors import FileError, InputError
    from calibrant.files.sketches import MOST_CURVES
    from calibrant.files.values import check_per_cents
    from calibrant.sketch import CalibrationSketch

    probs: Sequence[str] = selection.probs
    if len(probs) == 1:
        frame, probs = _with_values(frame, "--score", probs, title)
    frame, (target,) = _with_values(frame, "--outcome", selection.targets, title)
    frame, labels = _with_values(frame, "--cluster", selection.clusters, title)
    frame, group, selection = _with_group(frame, selection, title, options)
    kinds = dict(frame.dtypes)
    if len(probs) == 1 and kinds[probs[0]].startswith("array"):
        if probs[0] not in selection.probs:
            problem = f"--score {quoted(selection.probs[0])} is not one value of each row"
            raise FileError(title, problem, "write one number of each row")
        frame, probs = _spread(frame, probs[0], title)
    if options.ignore_index is not None:
        target_column = functions.col(_quoted(target))
        frame = frame.where(target_column.isNull() | (target_column != options.ignore_index))
    if selection.labels and kinds[target] != "string":
        frame = frame.withColumn(target, _spelled(functions, target, kinds[target]))
    if selection.percent:
        for name in probs:
            if kinds.get(name) == "string":
                shown = selection.probs[0] if len(probs) == 1 else name
                problem = f"column {quoted(shown)} holds text, and --engine spark cannot parse '85%'"
                raise FileError(title, problem, "write numbers, or leave --engine spark out")
        maxima = [functions.max(functions.col(_quoted(name))) for name in probs]
        largest = (value for value in frame.agg(*maxima).first() or () if value is not None)
        check_per_cents(title, selection.probs, max(map(float, largest), default=0))
        for name in probs:
            frame = frame.withColumn(name, functions.col(_quoted(name)) / 100)
    several = len(probs) > 1
    classwise = options.classwise
    if classwise is None:
        classwise = several and group is None and len(probs) < MOST_CURVES
    named = {"probs": list(probs), "target": target} if several else {"score": probs[0], "outcome": target}
    words = selection.labels or dict(frame.dtypes)[target] == "string"
    names = selection.class_names if several or words else None
    weight_and_group = {"weight": selection.weights, "by": group}
    used = dict.fromkeys((*probs, target, *labels, *filter(None, weight_and_group.values())))
    arguments: Any = {
        **named,
        **weight_and_group,
        "weights_are": options.weights_are,
        "cluster": labels or None,
        "notion": options.notion,
        "classwise": bool(classwise),
        "class_names": names,
    }
    try:
        sketches = frames.sketch(frame.select(*[functions.col(_quoted(name)) for name in used]), **arguments)
    except InputError as error:
        if isinstance(error.__cause__, Exception) and _is_of_spark(error.__cause__):
            raise error.__cause__ from None  # about the files, which Spark reads only now
        said = {"score": selection.probs[0], "outcome": selection.targets[0], "target": selection.targets[0]}
        column = {**said, **weight_and_group}.get(error.argument)
        place = f"column {quoted(column)}" if column else error.argument
        for argument, chosen in (("cluster", selection.clusters), ("by", selection.groups)):
            if error.argument.startswith(argument):
                place = f"--{argument} {', '.join(chosen)}"
        raise FileError(title, f"{place}: expected {error.expected}, got {error.got}", _remedy(error)) from error
    sketch = CalibrationSketch.of_groups(sketches) if isinstance(sketches, dict) else sketches
    return sketch, selection


def _with_group(
    frame: Any, selection: Selection, title: str, options: CommandOptions
) -> tuple[Any, str | None, Selection]:
    """Return the frame with a column of groups, its name, and the selection with the numbers that are cut."""
    from pyspark.sql import functions

    from calibrant.files.values import BETWEEN

    if not selection.groups:
        return frame, None, selection
    frame, names = _with_values(frame, "--by", selection.groups, title)
    columns, cuts = [], {}
    for column, name in zip(names, selection.groups, strict=True):
        cut = None if options.by_values else _cut(frame, column)
        if cut is not None:
            cuts[name], frame = cut
        columns.append(_group_name(functions, column, dict(frame.dtypes)[column], alone=len(names) == 1))
    group = _unused("group", frame)
    if len(names) == 1:
        return frame.withColumn(group, columns[0]), group, replace(selection, cuts=cuts)
    between = [functions.lit(BETWEEN)] * len(columns)
    parts = [part for pair in zip(between, columns, strict=True) for part in pair][1:]
    return frame.withColumn(group, functions.concat(*parts)), group, replace(selection, cuts=cuts)


def _group_name(functions: Any, name: str, kind: str, *, alone: bool) -> Any:
    """Return the names of groups as `calibrant.inputs.groups.group_name` writes them; of a column alone Python does."""
    column = functions.col(_quoted(name))
    if kind.startswith("timestamp"):
        text = functions.date_format(column, "yyyy-MM-dd HH:mm:ss.SSSSSS")
        return functions.regexp_replace(functions.regexp_replace(text, r"[.]?0*$", ""), " 00:00:00$", "")
    if alone:
        return column
    if kind == "boolean":
        return functions.initcap(column.cast("string"))
    if kind in ("float", "double"):
        return functions.when(~functions.isnan(column), _spelled(functions, name, kind))
    return _spelled(functions, name, kind) if kind.startswith("decimal") else column


def _cut(frame: Any, name: str) -> tuple[Cuts, Any] | None:
    """Return the cuts of a column of many numbers, and the frame with its groups instead; None for any other."""
    from pyspark.sql import functions

    from calibrant.files.columns import Cuts
    from calibrant.files.values import MOST_VALUES, PARTS

    value = functions.col(_quoted(name))
    numbers = re.match(r"tinyint|smallint|int|bigint|float|double|decimal", dict(frame.dtypes)[name])
    if not numbers or frame.select(value).distinct().limit(MOST_VALUES + 1).count() <= MOST_VALUES:
        return None
    wide = frame.withColumn(name, value.cast("double"))
    uppers = sorted(set(wide.approxQuantile(name, [k / PARTS for k in range(1, PARTS + 1)], 0.0)))
    place = functions.when(value.isNull(), None)
    for k, upper in enumerate(uppers):
        place = place.when(value <= upper, k)
    ends = wide.groupBy(place.alias("place")).agg(functions.min(value), functions.max(value)).collect()
    bounds = sorted(tuple(row) for row in ends if row[0] is not None)
    cuts = Cuts.of([low for _, low, _ in bounds], [high for _, _, high in bounds])
    texts = functions.array(*map(functions.lit, cuts.names))
    return cuts, wide.withColumn(name, texts[place])


def _unused(name: str, frame: Any) -> str:
    while name in frame.columns:
        name += "_"
    return name


def _with_values(frame: Any, option: str, wanted: Sequence[str], title: str) -> tuple[Any, list[str]]:
    """Return the frame with a column for each expression among those wanted, and the names of their columns."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions

    from calibrant.errors import FileError
    from calibrant.files.sql import period

    names: list[str] = []
    for sql in wanted:
        name = sql
        if sql not in frame.columns:
            name = _unused(f"{option} {len(names)}", frame)
            value = functions.expr(period(sql, spark=True))
            try:
                frame.where(value.isNull())  # fails for what is not one value of each row
                frame = frame.withColumn(name, value)
            except PySparkException as error:
                raise FileError(title, f"{option} {quoted(sql)}: {_message(error)}", _SPARK_SQL) from error
            _check_repeatable(frame, option, sql, title)
        names.append(name)
    return frame, names


def _check_repeatable(frame: Any, option: str, sql: str, title: str) -> None:
    """Reject SQL whose value changes from run to run: with chance, or with the time."""
    from calibrant.errors import FileError
    from calibrant.files.sql import QUOTED

    plan = getattr(frame, "_jdf", None)  # a remote session has no plan here
    changes = plan is not None and not plan.queryExecution().analyzed().deterministic()
    named = [match[0].rstrip("() ") for match in _VOLATILE.finditer(QUOTED.sub("", sql))]
    if changes or any(name not in frame.columns for name in named):
        problem = f"{option} {quoted(sql)}: {', '.join(named) or 'a function'} may differ from run to run"
        raise FileError(title, f"{problem}, and is not allowed", "write a fixed value")


def _remedy(error: InputError) -> str:
    """Return the remedy for an error of a frame: options to type, or changes in the files."""
    facts = error.facts
    if isinstance(facts, LabelFacts) and facts.mistake is Mistake.ONE_BASED:
        return f"pass --labels 1-{facts.n_classes} if the labels are 1-based, or {_LEAVE_OUT}"
    if isinstance(facts, MissingFacts) and facts.entry == "name":
        return "fill the missing names, such as with 'unknown'"
    if facts.mistake is not None:
        return _OF_MISTAKES.get(facts.mistake, error.remedy)
    return _OF_FAULTS.get(error.fault, error.remedy)


def _spread(frame: Any, name: str, title: str) -> tuple[Any, tuple[str, ...]]:
    """Return the frame with a column for each entry of a column of lists of equal length."""
    from pyspark.sql import functions

    from calibrant.errors import FileError

    lists = functions.col(_quoted(name))
    first = frame.where(lists.isNotNull()).select(functions.size(lists)).first()
    if first is None:
        raise FileError(title, f"column {quoted(name)} holds no lists", "write the predictions again")
    other_length = frame.where(functions.size(lists) != first[0]).select(functions.size(lists)).first()
    if other_length is not None:
        problem = f"column {quoted(name)} has lists of {other_length[0]} and of {first[0]} values"
        raise FileError(title, problem, "give every row a value for each class")
    names = tuple(f"{name}[{k}]" for k in range(first[0]))
    return frame.withColumns({column: lists[k] for k, column in enumerate(names)}), names


def _spelled(functions: Any, target: str, kind: str) -> Any:
    """Return labels as text, with 1.0 written as 1."""
    column = functions.col(_quoted(target))
    if kind in ("float", "double") or kind.startswith("decimal"):
        integer = column.cast("bigint")
        return functions.when(column == integer, integer.cast("string")).otherwise(column.cast("string"))
    return column.cast("string")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _is_of_spark(error: Exception) -> bool:
    return type(error).__module__.partition(".")[0] in ("pyspark", "py4j")


def _explained(error: Exception, title: str, options: CommandOptions) -> Exception:
    """Return an error of Spark as one line that names the file; any other error unchanged."""
    from calibrant.errors import FileError

    if not _is_of_spark(error):
        return error
    condition = getattr(error, "getCondition", lambda: None)() or ""
    where, text = options.where, _message(error)
    if where is not None and condition.startswith(("UNRESOLVED", "PARSE", "DATATYPE", "INVALID")):
        return FileError(title, f"--where {quoted(where)}: {text}", _SPARK_SQL)
    return FileError(title, f"cannot be read on Spark ({text})", "check the files, and that every worker sees them")


def _message(error: Exception) -> str:
    """Return the first line of the innermost cause of an error of Spark, without its codes."""
    from calibrant.files.local import first_line

    cause = getattr(error, "java_exception", None)
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    message = first_line(error) if cause is None or not cause.getMessage() else cause.getMessage().splitlines()[0]
    text = re.sub(r"^\[[A-Z_.0-9]+\]\s*", "", message).removesuffix(" SQLSTATE")
    return re.sub(r"\s*SQLSTATE:.*$", "", text)
