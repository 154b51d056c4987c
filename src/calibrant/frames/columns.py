"""Resolve the columns of a frame by their names and types, before any row is read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple

import narwhals as nw
import numpy as np

from calibrant.errors import InputError, check_choice, nearest
from calibrant.errors.faults import Facts, Fault, Mistake, Place, Suspicion
from calibrant.inputs.notions import DEFAULTS, NOTIONS
from calibrant.inputs.predictions import names_of
from calibrant.inputs.weights import NOT_WHOLE
from calibrant.runtime.arrays import ArrayLike
from calibrant.runtime.dataclass import dataclass
from calibrant.sketch.totals import SketchConfig
from calibrant.table import grid as grids
from calibrant.table.cluster_labels import LabelKind
from calibrant.table.cluster_sums import check_notion

#: The types of targets.
Writing = Literal["integers", "numbers", "booleans", "words"]

LazyFrame = nw.LazyFrame[Any]
Frame = nw.DataFrame[Any] | LazyFrame
Schema = dict[str, nw.dtypes.DType]

#: What to do about rows that cannot be evaluated.
FILTER: Final = "filter the rows out of the frame first"

_FRAMES: Final = "a frame of pandas, Polars, PyArrow, DuckDB, Ibis, Dask or PySpark"
_CAST: Final = "cast the column in the frame first"
_NESTED: Final = Facts(suspicion=Suspicion(Mistake.NESTED))
_LABELS: Final = "a column of whole numbers, text, dates or times"
_BOTH_FORMS: Final = "pass score='...' and outcome='...' for one event, or probs=[...] and target='...' for classes"
_EXAMPLES: Final = {
    "score": "compute a score for each row, such as 1 - nw.col('p')",
    "outcome": "compare columns, such as nw.col('a') == nw.col('b')",
}


class Label(NamedTuple):
    """A column that names the cluster of each row, alone or with others."""

    column: str
    dtype: nw.dtypes.DType

    @property
    def is_time(self) -> bool:
        """Whether it holds dates or times."""
        return self.dtype in (nw.Date, nw.Datetime)

    @property
    def may_have_fraction(self) -> bool:
        """Whether its type is one of floats, or of decimals with digits behind the point."""
        return self.dtype.is_float() or (self.dtype.is_decimal() and getattr(self.dtype, "scale", None) != 0)

    @property
    def kind(self) -> LabelKind:
        """Whether it holds numbers or text, which times become."""
        return "number" if self.dtype.is_numeric() or self.dtype == nw.Boolean else "text"


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The columns to read; all exist and have a suitable type."""

    scores: tuple[str, ...]  #: the column of the event's score, or the columns of the classes' probabilities
    target: str
    weight: str | None
    group: str | None
    writing: Writing  #: of the targets
    precision: str  #: the smallest type that holds every score: "float16", "float32" or "float64"
    integer_weights: bool  #: whether the weights are integers by their type
    names: tuple[str, ...] | None  #: of the classes
    classes: bool  #: whether the scores belong to classes, not to one event
    labels: tuple[Label, ...] = ()  #: the columns whose values together name the cluster of a row
    hashes: str | None = None  #: the column of the hashes of these names, once there is one

    @property
    def single(self) -> bool:
        """Return whether scores are compared with edges rounded to float32."""
        return self.precision != "float64"

    @property
    def n_classes(self) -> int:
        """Return the number of values that a target may have."""
        return len(self.scores) if self.classes else 2

    @property
    def score_argument(self) -> str:
        """Return the name of the argument for the scores."""
        return "probs" if self.classes else "score"

    @property
    def target_argument(self) -> str:
        """Return the name of the argument for the targets."""
        return "target" if self.classes else "outcome"


def as_frame(frame: Any) -> Frame:
    """Return the frame, wrapped by Narwhals."""
    try:
        return nw.from_native(frame)  # type: ignore[no-any-return]
    except TypeError:
        kind = type(frame).__name__
        got = "None" if frame is None else f"{'an' if kind[0] in 'aeiouAEIO' else 'a'} {kind}"
        raise InputError("frame", _FRAMES, got, _instead(frame)) from None
    except nw.exceptions.NarwhalsError as error:
        got = f"an unreadable frame ({' '.join(str(error).split())})"
        raise InputError("frame", _FRAMES, got, "rename the columns of the frame") from error


def _instead(frame: Any) -> str:
    if isinstance(frame, (str, bytes)) or hasattr(frame, "__fspath__"):
        return "first read the file with an engine, such as duckdb.read_parquet or polars.scan_parquet"
    if hasattr(frame, "cursor"):
        return "pass a table of the connection, from connection.table or connection.sql"
    if hasattr(frame, "to_frame"):
        return "pass the whole frame, and name its columns"
    return "pass arrays to CalibrationSketch.update"


def with_expression(frame: Frame, argument: str, value: Any) -> tuple[Frame, Any]:
    """Return the frame with a column for an argument that is an expression, and its name; other arguments unchanged.

    Expressions of Narwhals are for every engine, and SQL for DuckDB and PySpark. Arrow computes those of frames
    in memory: a comparison with a missing value is missing there, and false in pandas.
    """
    names = [str(name) for name in frame.collect_schema().names()]
    engine = frame.implementation
    has_sql = engine.is_duckdb() or engine.is_pyspark()
    is_sql = has_sql and isinstance(value, str) and value not in names and re.search(r"\W", value)
    if not isinstance(value, nw.Expr) and not is_sql:
        return frame, value
    if not is_sql and _is_aggregate(frame, value):
        expected = "an expression with a value for each row"
        raise InputError(argument, expected, "one value for all rows", _EXAMPLES[argument])
    name = argument
    while name in map(str.casefold, names):
        name += "_"
    try:
        if is_sql or isinstance(frame, nw.LazyFrame):
            longer = _with_sql(frame, name, value) if is_sql else frame.with_columns(value.alias(name))
            longer.collect_schema()  # an engine finds here that a column does not exist
            return longer, name
        table = nw.from_native(frame.to_arrow(), eager_only=True)
        values = table.with_columns(value.alias(name)).get_column(name)
    except Exception as error:  # each engine has errors of its own
        got, remedy = f"an expression that fails ({type(error).__name__}: {error!s:.200})", "correct the expression"
        raise InputError(argument, "an expression with columns of the frame", got, remedy) from error
    n_missing = values.null_count()
    if n_missing:
        entry = "label" if argument == "outcome" else "number"
        place = Place(values.is_null().arg_true().to_list()[0])
        facts = Facts(place=place, n_rows=n_missing)
        got = f"missing values (null or NaN) in {n_missing:,} row{'s' * (n_missing > 1)}, the first at {place}"
        raise InputError(argument, f"a {entry} in every row", got, FILTER, fault=Fault.MISSING, facts=facts)
    return frame.with_columns(nw.new_series(name, values.to_numpy(), backend=engine)), name


def _is_aggregate(frame: Frame, value: nw.Expr) -> bool:
    """Return whether an expression has one value for all rows: of no rows it has a value too."""
    try:
        return len(frame.lazy().head(0).select(value.alias("value")).collect()) > 0
    except Exception:  # the expression fails, and says so where it is computed
        return False


def _with_sql(frame: Frame, name: str, sql: str) -> Frame:
    """Return the frame with a column that SQL computes."""
    native: Any = nw.to_native(frame)
    if frame.implementation.is_duckdb():
        import duckdb

        native = native.select(duckdb.StarExpression(), duckdb.SQLExpression(sql).alias(name))
    else:
        from pyspark.sql import functions

        native = native.withColumn(name, functions.expr(sql))
    return as_frame(native)


def resolve_columns(
    frame: Frame,
    *,
    score: Any,
    outcome: Any,
    probs: Any,
    target: Any,
    weight: Any,
    by: Any,
    class_names: Any,
    cluster: Any = None,
) -> Columns:
    """Find the columns that the arguments name."""
    classes = probs is not None or target is not None
    of_classes, of_event = {"probs": probs, "target": target}, {"score": score, "outcome": outcome}
    form = _form(of_classes, of_event) if classes else _form(of_event, of_classes)
    score_argument, target_argument = form
    schema: Schema = dict(frame.collect_schema())
    scores = _scores(schema, probs) if classes else (_named(schema, "score", score),)
    target_column = _named(schema, target_argument, form[target_argument])
    names = None if class_names is None else _names(class_names, len(scores) if classes else 2)
    weight_column = None if weight is None else _named(schema, "weight", weight)
    if weight_column is not None:
        _check_numbers(schema, "weight", weight_column)
    group = None if by is None else _group(schema, by)
    labels = () if cluster is None else _labels(frame, schema, cluster)
    for column in scores:
        _check_numbers(schema, score_argument, column)
    _check_categories(frame, schema, target_argument, target_column)
    used = {
        score_argument: scores,
        target_argument: (target_column,),
        "weight": (weight_column,),
        "by": (group,),
        "cluster": tuple(label.column for label in labels),
    }
    for argument, columns in used.items():
        for used_column in filter(None, columns):
            _check_name(frame, argument, used_column)
    weight_type = nw.Int64() if weight_column is None else schema[weight_column]
    return Columns(
        scores=scores,
        target=target_column,
        weight=weight_column,
        group=group,
        writing=_writing(schema, target_argument, target_column, names),
        precision=_precision(schema, scores),
        integer_weights=weight_type.is_integer() or weight_type == nw.Boolean,
        names=names,
        classes=classes,
        labels=labels,
    )


def _form(form: dict[str, Any], other_form: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments for one event or for classes; reject those that lack, and those of the other form."""
    for name, value in other_form.items():
        if value is not None:
            raise InputError(name, "columns for one event or for classes", "columns for both", _BOTH_FORMS)
    for name, value in form.items():
        if value is None:
            raise InputError(name, "the name of a column", "None", _BOTH_FORMS)
    return form


def sampled(frame: Frame, columns: Columns) -> tuple[Frame, Columns]:
    """Return the frame with sampling weights: no weight is a whole number, as `weights` has it."""
    weight = str(columns.weight)
    if weight in (*columns.scores, columns.target, columns.group, *(label.column for label in columns.labels)):
        remedy = "copy the column in the frame under another name"
        raise InputError("weight", "a column that has no other role if weights_are='sampling'", repr(weight), remedy)
    value = nw.col(weight).cast(nw.Float64)
    changed = frame.with_columns(nw.when(value > 0.0).then(value * NOT_WHOLE).otherwise(value).alias(weight))
    return changed, replace(columns, integer_weights=False)


def resolve_config(columns: Columns, notion: Any, classwise: Any, grid: Any) -> SketchConfig:
    """Return the configuration of the sketch of the columns."""
    check_choice("grid", grid, grids.GRIDS)
    if not isinstance(classwise, (bool, np.bool_)):
        raise InputError("classwise", "True or False", repr(classwise), "pass True to evaluate each class too")
    if notion is None:
        notion = DEFAULTS["multiclass" if columns.classes else "binary"]
    check_choice("notion", notion, NOTIONS)
    if notion == "multilabel":
        remedy = "make a sketch for each label, with the score and outcome of the label"
        raise InputError("notion", "'positive', 'top-label' or 'classwise' for a frame", repr(notion), remedy)
    if not columns.classes and (classwise or notion == "classwise"):
        argument, expected, got = "classwise", "False for one event", "True"
        if not classwise:
            argument, expected, got = "notion", "a notion for one event, 'positive' or 'top-label'", repr(notion)
        raise InputError(argument, expected, got, "pass the columns of all classes as probs")
    if notion == "positive" and columns.n_classes != 2:
        expected = f"'top-label' or 'classwise' for {columns.n_classes} classes"
        raise InputError(
            "notion", expected, repr(notion), "pass the column of one class as score, or pass another notion"
        )
    if columns.labels:
        check_notion(notion)
    return SketchConfig(
        notion=notion,
        classwise=bool(classwise),
        class_names=columns.names,
        grid=grid,
        layout="multiclass" if columns.classes else "binary",
        n_classes=columns.n_classes if columns.classes else None,
    )


def alike_in_engines(frame: Frame, columns: Columns) -> Frame:
    """Return a frame with values that every engine reads alike.

    Decimals become the doubles nearest to them: Arrow multiplies by a power of ten and so reads 0.35 as
    0.35000000000000003, but every engine reads a text right. Groups -0.0 and 0.0 are one: Arrow would tell them apart.
    NaN is found in a Parquet file whose statistics leave it out: DuckDB concludes that none is NaN, but it concludes
    nothing about a choice between a number and null.
    """
    schema, names = frame.collect_schema(), (*columns.scores, columns.target, columns.weight)
    decimals = [name for name in dict.fromkeys(names) if name is not None and schema[name].is_decimal()]
    changed = {name: nw.col(name).cast(nw.String).cast(nw.Float64) for name in decimals}
    group = columns.group
    if group is not None and schema[group].is_float():
        changed[group] = nw.when(nw.col(group) == 0).then(nw.col(group).abs()).otherwise(nw.col(group))
    if frame.implementation.is_duckdb() or frame.implementation.is_ibis():
        for name in dict.fromkeys((*names, group, *(label.column for label in columns.labels))):
            if name is not None and schema[name].is_float():
                changed[name] = nw.when(~nw.col(name).is_null()).then(changed.get(name, nw.col(name)))
    return frame.with_columns(**changed) if changed else frame


# ---------------------------------------------------------------- clusters


def _labels(frame: Frame, schema: Schema, cluster: Any) -> tuple[Label, ...]:
    names = [cluster] if isinstance(cluster, (str, bytes)) or not isinstance(cluster, Iterable) else list(cluster)
    if not names:
        raise InputError(
            "cluster", "a column, or a list of columns", "an empty list", "leave cluster out, or name a column"
        )
    labels = tuple(Label(column, schema[column]) for column in (_named(schema, "cluster", name) for name in names))
    for place, label in enumerate(labels):
        if label in labels[:place]:
            got = f"{label.column!r} more than once"
            raise InputError("cluster", "a list of different columns", got, "name each column once")
        if not _names_clusters(frame, label, alone=len(labels) == 1):
            got, remedy = _kind(schema, label.column), "cast the column to text in the frame first"
            raise InputError("cluster", _LABELS, got, remedy, fault=Fault.COLUMN_TYPE)
    return labels


def _names_clusters(frame: Frame, label: Label, *, alone: bool) -> bool:
    """Return whether the type of a column suits labels of clusters."""
    dtype = label.dtype
    if dtype in (nw.Object, nw.Unknown):  # Python objects are looked at one by one
        return alone and isinstance(frame, nw.DataFrame)
    if dtype in (nw.Int128, nw.UInt128) or str(dtype) == "Float16":
        return False
    is_name = dtype in (nw.String, nw.Categorical, nw.Enum) or label.is_time
    if not frame.implementation.is_ibis():
        return is_name or label.kind == "number"
    # Ibis has no way to tell a time zone's offset, or whether a decimal is whole, that is the same in every engine.
    return not dtype.is_decimal() and getattr(dtype, "time_zone", None) is None and (is_name or label.kind == "number")


# ---------------------------------------------------------------- one column


def _scores(schema: Schema, probs: ArrayLike) -> tuple[str, ...]:
    if isinstance(probs, (str, bytes)) or not isinstance(probs, Iterable):
        remedy = "pass a list such as ['p_0', 'p_1'], or pass score='...' and outcome='...' for one event"
        raise InputError("probs", "a list of columns, one for each class", repr(probs), remedy)
    names = tuple(_named(schema, "probs", name) for name in probs)
    if len(names) < 2:
        remedy = "for one event, pass score='...' and outcome='...'"
        raise InputError("probs", "at least two columns", f"{len(names)}", remedy)
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError(
            "probs", "a different column for each class", f"{repeated[0]!r} more than once", "name each column once"
        )
    return names


def _named(schema: Schema, argument: str, name: Any) -> str:
    if not isinstance(name, str):
        raise InputError(argument, "the name of a column", repr(name), "pass the name as a string")
    if name not in schema:
        names = [str(column) for column in schema]
        remedy = "rename the columns of the frame to strings" if name in names else nearest(name, names)
        raise InputError(argument, "a column of the frame", repr(name), remedy)
    return name


def _group(schema: Schema, name: Any) -> str:
    column = _named(schema, "by", name)
    if schema[column].is_nested() or str(schema[column]) == "Float16":
        got, remedy = _kind(schema, column), "pass a column with one value for each row"
        raise InputError("by", "a column of names", got, remedy, fault=Fault.COLUMN_TYPE, facts=_NESTED)
    return column


def _check_name(frame: Frame, argument: str, name: str) -> None:
    """Reject a column name that the engine cannot find, or takes for another column."""
    engine = frame.implementation
    if engine.is_duckdb() or engine.is_pyspark():
        spelled = str.casefold if engine.is_duckdb() else str  # DuckDB names are case-insensitive
        if [spelled(str(column)) for column in nw.to_native(frame).columns].count(spelled(name)) > 1:
            expected, remedy = "one column with this name", "rename the columns in the frame first"
            raise InputError(argument, expected, f"several {name!r}", remedy, fault=Fault.COLUMN_NAME)
    pattern = engine.is_polars() and name.startswith("^") and name.endswith("$")
    path = engine.is_pyspark() and bool({".", "`"} & set(name))
    if pattern or path or (name == "*" and not engine.is_pandas()):
        expected = "a name that identifies one column in this engine"
        remedy = "rename the column in the frame first"
        raise InputError(argument, expected, repr(name), remedy, fault=Fault.COLUMN_NAME)


def _check_categories(frame: Frame, schema: Schema, argument: str, column: str) -> None:
    """Reject categories that are numbers: they could be names of classes, or indices."""
    if not isinstance(frame, nw.DataFrame) or schema[column] != nw.Categorical:
        return
    if not all(isinstance(name, str) for name in frame.get_column(column).drop_nulls().head(1).to_list()):
        expected, got = "numbers, booleans or names", f"{column!r} with categories that are not text"
        raise InputError(argument, expected, got, _CAST, fault=Fault.COLUMN_TYPE)


def _kind(schema: Schema, column: str) -> str:
    if schema[column] == nw.Unknown:
        return f"{column!r} of unknown type (only nulls, or objects)"
    return f"{column!r} of type {schema[column]}"


def _check_numbers(schema: Schema, argument: str, column: str) -> None:
    dtype = schema[column]
    if dtype.is_numeric() or (argument == "weight" and dtype == nw.Boolean):
        return
    got, remedy, facts = _kind(schema, column), _CAST, Facts()
    if dtype.is_nested():
        remedy, facts = "make one column for each class first", _NESTED
    raise InputError(argument, "a column of numbers", got, remedy, fault=Fault.COLUMN_TYPE, facts=facts)


def _precision(schema: Schema, scores: Sequence[str]) -> str:
    kinds = {str(schema[column]) for column in scores}
    if kinds == {"Float16"}:
        return "float16"
    return "float32" if kinds <= {"Float16", "Float32"} else "float64"


def _writing(schema: Schema, argument: str, column: str, names: tuple[str, ...] | None) -> Writing:
    dtype = schema[column]
    if dtype == nw.Boolean:
        return "booleans"
    if dtype.is_numeric():
        return "integers" if dtype.is_integer() else "numbers"
    if dtype not in (nw.String, nw.Categorical, nw.Enum):
        got = _kind(schema, column)
        raise InputError(argument, "numbers, booleans or names", got, _CAST, fault=Fault.COLUMN_TYPE)
    if names is None:
        order = "in the order of probs" if argument == "target" else "with the event last"
        got, remedy = _kind(schema, column), f"pass class_names, {order}"
        raise InputError(argument, "numbers or booleans", got, remedy, fault=Fault.LABEL_NAMES)
    return "words"


def _names(class_names: Any, n_classes: int) -> tuple[str, ...]:
    names = names_of(class_names)
    if len(names) != n_classes:
        expected = f"{n_classes} names, one per class"
        raise InputError("class_names", expected, f"{len(names)}", "name the classes in the order of their columns")
    if len(set(names)) != len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise InputError("class_names", "distinct names", f"{repeated!r} more than once", "rename one of them")
    return names
