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
from typing import Any, Final

from calibrant.cli.options import CommandOptions
from calibrant.errors import CalibrantError, FileError, InputError, MissingDependencyError, is_missing, quoted
from calibrant.errors.faults import Fault, Mistake
from calibrant.files import FileSketch
from calibrant.files.column_options import ColumnSelection, Cuts
from calibrant.files.column_values import BETWEEN, MOST_VALUES, PARTS, check_per_cents
from calibrant.files.header_lines import SEPARATORS, separator, usual_separator
from calibrant.files.local import first_line, located
from calibrant.files.logs import is_log
from calibrant.files.paths import check_bytes, expand, is_utf8, kind_of
from calibrant.files.roles import find
from calibrant.files.sketches import MOST_CURVES
from calibrant.files.sources import table_of
from calibrant.files.sql import QUOTED, period
from calibrant.runtime.process import sweep, undone
from calibrant.sketch import CalibrationSketch

_KINDS: Final = ("parquet", "csv", "json")
_HEAD: Final = 2_000  # rows to read for the likely columns

_LEAVE_OUT: Final = "leave such rows out with --where"
_SPARK_SQL: Final = "write the expression in Spark SQL"

#: The remedies for faults of a frame.
_OF_FAULTS: Final = {
    Fault.MISSING: _LEAVE_OUT,
    Fault.WEIGHT: f"correct the rows, or {_LEAVE_OUT}",
    Fault.ROW_SUM: "divide each row by its sum, or report on each label separately with --score and --outcome",
    Fault.OUTCOMES: "name both labels with --labels, the event last, or name the columns of all classes with --probs",
    Fault.CLASS_INDICES: f"name the column of every class with --probs, or {_LEAVE_OUT}",
    Fault.LABEL_NAMES: "pass --labels in the order of the columns; for one event, write the event last",
    Fault.COLUMN_NAME: "rename the column",
    Fault.COLUMN_TYPE: "write the column with one of these types",
    Fault.TOO_FINE: "round the values",
}
_OF_MISTAKES: Final = {
    Mistake.PERCENT: "pass --percent if the numbers are percentages",
    Mistake.ROUNDING: "clip the values to [0, 1] if rounding caused this",
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


def load(options: CommandOptions, patterns: Sequence[str]) -> FileSketch:
    """Read files on Spark, and return the sketch of their predictions."""
    paths, kind, title = _paths(patterns)
    if kind not in _KINDS:
        raise FileError(title, "has a format that --engine spark cannot read", "pass .parquet, .csv or .jsonl files")
    with _session(options.master) as session, _settled(session, options.timezone):
        try:
            frame = _read(session, paths, kind, title)
            selection = _select(frame, title, options)
            rows = _Rows(frame, title)
            if options.where is not None:
                rows.keep(options.where)
            if "://" not in patterns[0]:
                _check_alike(patterns, kind, [name for name in selection.used if name in frame.columns])
            sketch, selection = _sketch(rows, selection, options)
        except Exception as error:
            raise _explained(error, title, options) from error
    sources, columns = selection.sources(), selection.names()
    return FileSketch(sketch=sketch, sources=sources, columns=columns, paths=tuple(patterns), rows=(sketch.n,))


def _paths(patterns: Sequence[str]) -> tuple[list[str], str, str]:
    """Return the paths for Spark, their kind, and their name in errors.

    Spark resolves names with a scheme (``s3a://``, ``hdfs://``). Others are local files that every worker must see.
    """
    remote = [pattern for pattern in patterns if "://" in pattern]
    if remote and len(remote) < len(patterns):
        raise FileError(
            remote[0], "is a remote file, but other files are local", "pass only remote or only local files"
        )
    if remote:
        return remote, kind_of(remote[0]), _title(remote)
    paths = expand(patterns)
    for path in paths:
        check_bytes(path)
        if is_log(path):
            problem = "is an evaluation log, which --engine spark cannot read"
            raise FileError(path, problem, "leave --engine spark out")
        between = separator(path) if kind_of(path) == "csv" else ""
        is_other_csv = bool(between) and between != usual_separator(path)
        if located(path) != path or path.lower().endswith((".json", ".json.gz")) or is_other_csv:
            kind = f" (CSV with {SEPARATORS[between]})" if is_other_csv else ""
            problem = f"is of a kind{kind} that --engine spark cannot read"
            raise FileError(path, problem, "write it as Parquet, or leave --engine spark out")
        if not is_utf8(os.path.abspath(path)):
            raise FileError(path, "has a name that is not UTF-8, which --engine spark cannot read", "rename the file")
    # Pattern characters that are left in a name are literal.
    urls = ["file://" + re.sub(r"[\[\]{}*?\\,]", r"\\\g<0>", os.path.abspath(path)) for path in paths]
    return urls, kind_of(paths[0]), _title(paths)


def _title(paths: Sequence[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{paths[0]} … {paths[-1]} ({len(paths):,} files)"


def _check_alike(patterns: Sequence[str], kind: str, used: Sequence[str]) -> None:
    """Reject files whose columns Spark would misread, or read as nulls."""
    paths = expand(patterns) if kind != "json" else []  # Spark merges the keys of JSON lines itself
    columns = {path: table_of(path).columns for path in paths}
    for path, names in columns.items():
        first = columns[paths[0]]
        lacking = [name for name in used if name not in names]
        if lacking:
            problem = f"has no column {quoted(lacking[0])}, which {paths[0]} has"
            raise FileError(path, problem, "pass files with the same columns")
        if kind == "csv" and names != first:
            problem = (
                f"has columns that differ from {paths[0]} in name or order, but Spark reads .csv columns by position"
            )
            raise FileError(path, problem, "write all files with the same columns, or leave --engine spark out")


# ---------------------------------------------------------------- the session


@contextmanager
def _session(master: str | None) -> Iterator[Any]:
    """Yield a session. A session that is started here is silent, and is stopped at the end."""
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

    Most writers of Parquet leave NaN out of the statistics of a row group, and Spark has NaN above all numbers. The
    loggers of pyspark are silent, because this module words the errors.
    """
    settings = {"spark.sql.session.timeZone": timezone, "spark.sql.parquet.filterPushdown": "false"}
    before = {name: session.conf.get(name) for name in settings}
    levels = {logger: logger.level for logger in map(logging.getLogger, _LOGGERS)}
    for name, value in settings.items():
        session.conf.set(name, value)
    for logger in levels:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)
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


def _last_line(log: str, error: Exception) -> str:
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


def _select(frame: Any, title: str, options: CommandOptions) -> ColumnSelection:
    """Return the columns to read."""

    def first_cells(n: int) -> dict[str, list[Any]]:
        rows = frame.limit(min(n, _HEAD)).collect()
        return {name: [row[place] for row in rows] for place, name in enumerate(frame.columns)}

    selection = find(title, frame.columns, options, first_cells)
    if selection.logits:
        problem = "holds logits, which --engine spark does not support"
        raise FileError(title, problem, "write probabilities, or leave --engine spark out")
    if len(selection.targets) > 1:
        raise FileError(title, "holds one-hot targets", "name a column of class indices with --target")
    return selection


def _sketch(
    rows: _Rows, selection: ColumnSelection, options: CommandOptions
) -> tuple[CalibrationSketch, ColumnSelection]:
    """Return the sketch, and the selection with the numbers that are cut into groups."""
    from calibrant import frames

    probs: Sequence[str] = selection.probs
    if len(probs) == 1:
        probs = rows.add("--score", probs)
    (target,) = rows.add("--outcome", selection.targets)
    clusters = rows.add("--cluster", selection.clusters)
    group = None
    if selection.groups:
        group, cuts = rows.add_groups(selection.groups, by_values=options.by_values)
        selection = replace(selection, cuts=cuts)
    probs = rows.split_lists(probs, selection.probs)
    if options.ignore_index is not None:
        label = rows.column(target)
        rows.frame = rows.frame.where(label.isNull() | (label != options.ignore_index))
    if selection.labels and dict(rows.frame.dtypes)[target] != "string":
        rows.frame = rows.frame.withColumn(target, rows.spelled(target))
    if selection.percent:
        rows.divide_per_cents(probs, selection.probs)
    several = len(probs) > 1
    named: dict[str, Any] = (
        {"probs": list(probs), "target": target} if several else {"score": probs[0], "outcome": target}
    )
    classwise = several and group is None and len(probs) < MOST_CURVES
    has_names = several or selection.labels or dict(rows.frame.dtypes)[target] == "string"
    used = dict.fromkeys((*probs, target, *clusters, *filter(None, (selection.weights, group))))
    arguments: Any = {
        **named,
        "weight": selection.weights,
        "by": group,
        "weights_are": options.weights_are,
        "cluster": clusters or None,
        "notion": options.notion,
        "classwise": classwise if options.classwise is None else options.classwise,
        "class_names": selection.class_names if has_names else None,
    }
    try:
        sketches = frames.sketch(rows.frame.select(*map(rows.column, used)), **arguments)
    except InputError as error:
        raise _of_frame(error, selection, rows.title) from error
    return CalibrationSketch.of_groups(sketches) if isinstance(sketches, dict) else sketches, selection


class _Rows:
    """The rows of files on Spark, with columns that are added.

    Attributes
    ----------
    frame : pyspark.sql.DataFrame
        The rows, with the columns added so far.
    title : str
        The name of the files in errors.
    """

    def __init__(self, frame: Any, title: str) -> None:
        from pyspark.sql import functions

        self.frame, self.title, self._functions = frame, title, functions

    def column(self, name: str) -> Any:
        """Return a column, whatever characters its name has."""
        return self._functions.col("`" + name.replace("`", "``") + "`")

    def keep(self, condition: str) -> None:
        """Keep the rows that meet a condition in SQL."""
        self.frame = self.frame.where(condition)
        self._check_repeatable("--where", condition)

    def add(self, option: str, values: Sequence[str]) -> list[str]:
        """Add a column for each value that is SQL, not a column; return the names of all columns."""
        from pyspark.errors import PySparkException

        names: list[str] = []
        for sql in values:
            name = sql
            if sql not in self.frame.columns:
                name = self._unused(f"{option} {len(names)}")
                value = self._functions.expr(period(sql, spark=True))
                try:
                    self.frame.where(value.isNull())  # fails for what does not give one value for each row
                    self.frame = self.frame.withColumn(name, value)
                except PySparkException as error:
                    raise FileError(self.title, f"{option} {quoted(sql)}: {_message(error)}", _SPARK_SQL) from error
                self._check_repeatable(option, sql)
            names.append(name)
        return names

    def _unused(self, name: str) -> str:
        while name in self.frame.columns:
            name += "_"
        return name

    def _check_repeatable(self, option: str, sql: str) -> None:
        """Reject SQL whose value changes from run to run: with chance, or with the time."""
        plan = getattr(self.frame, "_jdf", None)  # a remote session has no plan here
        changes = plan is not None and not plan.queryExecution().analyzed().deterministic()
        named = [match[0].rstrip("() ") for match in _VOLATILE.finditer(QUOTED.sub("", sql))]
        if changes or any(name not in self.frame.columns for name in named):
            problem = f"{option} {quoted(sql)}: {', '.join(named) or 'a function'} may differ from run to run"
            raise FileError(self.title, f"{problem}, and so is not allowed", "write a fixed value")

    def add_groups(self, values: Sequence[str], *, by_values: bool) -> tuple[str, dict[str, Cuts]]:
        """Add a column of groups; return its name, and how numbers are cut."""
        columns, cuts = [], {}
        names = self.add("--by", values)
        for name, value in zip(names, values, strict=True):
            cut = None if by_values else self._cut(name)
            if cut is not None:
                cuts[value] = cut
            columns.append(self._group_name(name, alone=len(names) == 1))
        group = self._unused("group")
        between = self._functions.lit(BETWEEN)
        parts = [part for column in columns for part in (between, column)][1:]
        self.frame = self.frame.withColumn(group, self._functions.concat(*parts) if len(parts) > 1 else parts[0])
        return group, cuts

    def _group_name(self, name: str, *, alone: bool) -> Any:
        """Return the names of groups as `inputs.group_rows.group_name`, which Python calls for a column alone."""
        functions, column, kind = self._functions, self.column(name), dict(self.frame.dtypes)[name]
        if kind.startswith("timestamp"):
            text = functions.date_format(column, "yyyy-MM-dd HH:mm:ss.SSSSSS")
            return functions.regexp_replace(functions.regexp_replace(text, r"[.]?0*$", ""), " 00:00:00$", "")
        if alone:
            return column
        if kind == "boolean":
            return functions.initcap(column.cast("string"))
        if kind in ("float", "double"):
            return functions.when(~functions.isnan(column), self.spelled(name))
        return self.spelled(name) if kind.startswith("decimal") else column

    def _cut(self, name: str) -> Cuts | None:
        """Replace a column of many numbers by its groups, and return their cuts; None for any other column."""
        functions, value = self._functions, self.column(name)
        is_number = re.match(r"tinyint|smallint|int|bigint|float|double|decimal", dict(self.frame.dtypes)[name])
        if not is_number or self.frame.select(value).distinct().limit(MOST_VALUES + 1).count() <= MOST_VALUES:
            return None
        wide = self.frame.withColumn(name, value.cast("double"))
        uppers = sorted(set(wide.approxQuantile(name, [k / PARTS for k in range(1, PARTS + 1)], 0.0)))
        place = functions.when(value.isNull(), None)
        for k, upper in enumerate(uppers):
            place = place.when(value <= upper, k)
        ends = wide.groupBy(place.alias("place")).agg(functions.min(value), functions.max(value)).collect()
        bounds = sorted(tuple(row) for row in ends if row[0] is not None)
        cuts = Cuts.of([low for _, low, _ in bounds], [high for _, _, high in bounds])
        texts = functions.array(*map(functions.lit, cuts.names))
        self.frame = wide.withColumn(name, texts[place])
        return cuts

    def split_lists(self, names: Sequence[str], shown: Sequence[str]) -> Sequence[str]:
        """Add a column for each entry of a single column of lists of equal length; return the columns of scores.

        Errors name the columns as ``shown``, so that SQL differs from a column.
        """
        name = names[0]
        if len(names) > 1 or not dict(self.frame.dtypes)[name].startswith("array"):
            return names
        if name not in shown:
            problem = f"--score {quoted(shown[0])} does not give one value for each row"
            raise FileError(self.title, problem, "write an expression that gives one number for each row")
        lists, size = self.column(name), self._functions.size(self.column(name))
        first = self.frame.where(lists.isNotNull()).select(size).first()
        if first is None:
            raise FileError(self.title, f"column {quoted(name)} holds no lists", "write the predictions again")
        other_length = self.frame.where(size != first[0]).select(size).first()
        if other_length is not None:
            problem = f"column {quoted(name)} has lists of {other_length[0]} and of {first[0]} values"
            raise FileError(self.title, problem, "give every row a value for each class")
        entries = [f"{name}[{k}]" for k in range(first[0])]
        self.frame = self.frame.withColumns({entry: lists[k] for k, entry in enumerate(entries)})
        return entries

    def divide_per_cents(self, names: Sequence[str], shown: Sequence[str]) -> None:
        """Divide columns by 100; errors call them as ``shown``."""
        kinds = dict(self.frame.dtypes)
        texts = [name for name in names if kinds[name] == "string"]
        if texts:
            problem = f"column {quoted(shown[0] if len(names) == 1 else texts[0])} holds text"
            problem = f"{problem}, and --engine spark cannot parse '85%'"
            raise FileError(self.title, problem, "write numbers, or leave --engine spark out")
        maxima = [self._functions.max(self.column(name)) for name in names]
        largest = (value for value in self.frame.agg(*maxima).first() or () if value is not None)
        check_per_cents(self.title, shown, max(map(float, largest), default=0))
        for name in names:
            self.frame = self.frame.withColumn(name, self.column(name) / 100)

    def spelled(self, name: str) -> Any:
        """Return labels as text, with 1.0 written as 1."""
        column, kind = self.column(name), dict(self.frame.dtypes)[name]
        if kind in ("float", "double") or kind.startswith("decimal"):
            integer = column.cast("bigint")
            return self._functions.when(column == integer, integer.cast("string")).otherwise(column.cast("string"))
        return column.cast("string")


# ---------------------------------------------------------------- errors


def _of_frame(error: InputError, selection: ColumnSelection, title: str) -> Exception:
    """Return the error of a frame as one about the files, with their columns and the options to type."""
    if isinstance(error.__cause__, Exception) and _is_of_spark(error.__cause__):
        return error.__cause__  # about the files, which Spark reads only now
    target = selection.targets[0]
    columns = {"score": selection.probs[0], "outcome": target, "target": target, "weight": selection.weights}
    column = columns.get(error.argument)
    place = f"column {quoted(column)}" if column else error.argument
    for argument, values in (("cluster", selection.clusters), ("by", selection.groups)):
        if error.argument.startswith(argument):
            place = f"--{argument} {', '.join(values)}"
    return FileError(title, f"{place}: expected {error.expected}, got {error.got}", _remedy(error))


def _remedy(error: InputError) -> str:
    """Return the remedy for an error of a frame: options to type, or changes in the files."""
    facts = error.facts
    if facts.mistake is Mistake.ONE_BASED:
        return f"pass --labels 1-{facts.n_classes} if the labels are 1-based, or {_LEAVE_OUT}"
    if error.fault is Fault.MISSING and error.argument == "by":
        return "fill the missing names, such as with 'unknown'"
    if facts.mistake is not None:
        return _OF_MISTAKES.get(facts.mistake, error.remedy)
    return _OF_FAULTS.get(error.fault, error.remedy)


def _is_of_spark(error: Exception) -> bool:
    return type(error).__module__.partition(".")[0] in ("pyspark", "py4j")


def _explained(error: Exception, title: str, options: CommandOptions) -> Exception:
    """Return an error of Spark as one line that names the file; any other error unchanged."""
    if not _is_of_spark(error):
        return error
    condition = getattr(error, "getCondition", lambda: None)() or ""
    where, text = options.where, _message(error)
    if where is not None and condition.startswith(("UNRESOLVED", "PARSE", "DATATYPE", "INVALID")):
        return FileError(title, f"--where {quoted(where)}: {text}", _SPARK_SQL)
    return FileError(
        title, f"cannot be read by Spark ({text})", "check the files, and check that every worker can read them"
    )


def _message(error: Exception) -> str:
    """Return the first line of the innermost cause of an error of Spark, without its codes."""
    cause = getattr(error, "java_exception", None)
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    message = first_line(error) if cause is None or not cause.getMessage() else cause.getMessage().splitlines()[0]
    text = re.sub(r"^\[[A-Z_.0-9]+\]\s*", "", message).removesuffix(" SQLSTATE")
    return re.sub(r"\s*SQLSTATE:.*$", "", text)
