"""Turn the columns of a frame into evaluated events and their scores, with expressions that every engine has.

The definitions are those of `kernels/reference.py`: `read_events` for one event and `read_probs` for classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import zip_longest
from typing import Any, Final

import narwhals as nw

from calibrant.frames.columns import Columns, Frame, Label, LazyFrame
from calibrant.inputs.predictions import rounding, sum_tolerance
from calibrant.inputs.weights import LEAST_WEIGHT, MOST_WEIGHT
from calibrant.sketch.totals import SketchConfig

#: The columns of `evaluate_scored` with the scores of whole predictions.
SCORES: Final = ("brier", "likelihood", "infinite", "right")

#: Decimals of so many digits are whole numbers of 64 bits.
_SAFE_DIGITS: Final = 18

#: Columns in DuckDB's own SQL: the logarithm of Narwhals would first check each row for values above 0.
_DUCKDB: Final = {"likelihood": "ln(possible) AS likelihood"}

#: Columns to add to a frame; each step uses the columns of the steps before.
Steps = list[dict[str, nw.Expr]]


def read(frame: LazyFrame, columns: Columns) -> LazyFrame:
    """Return the used columns, under internal names and as Float64.

    They are ``group``, ``w`` and ``hash``, if used; ``t``, the target as a number; ``p``, or ``p0``, ``p1``, ... for
    classes; and ``complete``, whether group, target, weight and cluster are valid.
    """
    names = score_names(columns)
    parts = {column: nw.col(name).cast(nw.Float64) for column, name in zip(names, columns.scores, strict=True)}
    complete, parts["t"] = target_of(columns)
    parts |= others(columns)
    for label in columns.labels:
        complete = complete & proper_label(label)
    if columns.weight is not None:
        complete = complete & proper_weight(parts["w"])
    if columns.group is not None:
        complete = complete & ~missing(parts["group"], frame.collect_schema()[columns.group])
    return frame.select(complete=complete, **parts)


def others(columns: Columns) -> dict[str, nw.Expr]:
    """Return the columns of groups, hashes of clusters and weights, if there are any, by their internal names."""
    names = {"group": columns.group, "hash": columns.hashes, "w": columns.weight}
    used = {name: nw.col(column) for name, column in names.items() if column is not None}
    return {name: value.cast(nw.Float64) if name == "w" else value for name, value in used.items()}


def is_rounded(columns: Columns, schema: Mapping[str, nw.dtypes.DType]) -> dict[str, nw.Expr]:
    """Return for each column of scores whether a value is outside [0, 1] by rounding alone."""
    outside = {}
    for name in columns.scores:
        slack = rounding(str(schema[name]).lower())
        value = nw.col(name).cast(nw.Float64)
        outside[name] = ((value < 0.0) & (value >= -slack)) | ((value > 1.0) & (value <= 1.0 + slack))
    return outside


def without_rounding(frame: Frame, columns: Columns) -> Frame:
    """Return the frame with 0 and 1 in place of scores that are outside [0, 1] by rounding alone."""
    changed = {}
    for name, outside in is_rounded(columns, frame.collect_schema()).items():
        value = nw.col(name)
        changed[name] = nw.when(outside).then((value > 0).cast(frame.collect_schema()[name])).otherwise(value)
    return frame.with_columns(**changed)


def n_rounded(frame: Frame, columns: Columns) -> dict[Any, int]:
    """Return for each group, or for None without groups, how many scores are outside [0, 1] by rounding alone."""
    flags = [outside.cast(nw.Int64) for outside in is_rounded(columns, frame.collect_schema()).values()]
    groups = {} if columns.group is None else {"group": nw.col(columns.group)}
    table = frame.lazy().select(n=added(flags), **groups)
    if columns.group is None:
        return {None: int(table.select(nw.col("n").sum()).collect().item() or 0)}
    table = table.filter(nw.col("n") > 0).group_by("group").agg(nw.col("n").sum())
    counts = table.collect()
    return dict(zip(counts.get_column("group").to_list(), map(int, counts.get_column("n").to_list()), strict=True))


def score_names(columns: Columns) -> list[str]:
    """Return the internal names of the scores."""
    return [f"p{k}" for k in range(len(columns.scores))] if columns.classes else ["p"]


def missing(value: nw.Expr, dtype: nw.dtypes.DType) -> nw.Expr:
    """Return whether a value is null or NaN."""
    return value.is_null() | value.is_nan() if dtype.is_float() else value.is_null()


def proper_weight(weight: nw.Expr) -> nw.Expr:
    """Return whether a weight is 0, or one that a sketch can hold."""
    return (weight == 0.0) | ((weight >= LEAST_WEIGHT) & (weight <= MOST_WEIGHT))


def proper_label(label: Label) -> nw.Expr:
    """Return whether the label of a cluster is there, and if it is a number, whether it is whole and not too large."""
    value, dtype = nw.col(label.column), label.dtype
    proper = ~missing(value, dtype)
    if label.may_have_fraction:
        number = value.cast(nw.Float64)
        return proper & _is_whole(number, number.abs() <= 2.0 ** (24 if dtype == nw.Float32 else 53))
    if dtype.is_decimal() and getattr(dtype, "precision", 38) > _SAFE_DIGITS:
        return proper & (value >= Decimal(-(2**63))) & (value < Decimal(2**64))
    return proper


def _is_whole(number: nw.Expr, inside: nw.Expr) -> nw.Expr:
    """Return whether a number is ``inside`` and whole; some engines floor to integers, and fail on larger numbers."""
    finite = nw.when(inside).then(number).otherwise(0.0)
    return inside & (finite == finite.floor())


def target_of(columns: Columns) -> tuple[nw.Expr, nw.Expr]:
    """Return whether the target is valid, and the target as a number."""
    target = nw.col(columns.target)
    if columns.writing == "booleans":
        return ~target.is_null(), target.cast(nw.Float64)
    if columns.writing == "words" and columns.names is not None:
        places = [is_class(columns, k) * float(k) for k in range(1, len(columns.names))]
        return target.cast(nw.String).is_in(columns.names), added(places)
    if columns.writing == "integers":  # Arrow refuses to cast large ones, and none of them is a class
        is_index = (target >= 0) & (target < columns.n_classes)
        target = nw.when(is_index).then(target).otherwise(columns.n_classes)
    number = target.cast(nw.Float64)
    if columns.n_classes == 2:
        return (number == 0.0) | (number == 1.0), number
    inside = (number >= 0.0) & (number <= columns.n_classes - 1.0)
    return _is_whole(number, inside) if columns.writing == "numbers" else inside, number


def is_class(columns: Columns, k: int) -> nw.Expr:
    """Return 1 if the target is class k, else 0."""
    target = nw.col(columns.target)
    if columns.writing == "words" and columns.names is not None:
        return (target.cast(nw.String) == columns.names[k]).cast(nw.Float64)
    return (target.cast(nw.Float64) == float(k)).cast(nw.Float64)


def added(terms: Sequence[nw.Expr]) -> nw.Expr:
    """Return the sum of terms, added pair by pair: engines limit how deep an expression nests."""
    rows = list(terms)
    while len(rows) > 1:
        pairs = [a + b for a, b in zip(rows[::2], rows[1::2], strict=False)]
        rows = [*pairs, rows[-1]] if len(rows) % 2 else pairs
    return rows[0]


def evaluate(frame: LazyFrame, columns: Columns, config: SketchConfig) -> LazyFrame:
    """Evaluate the rows of a frame: the columns of `evaluate_event` or `evaluate_classes`."""
    evaluate_rows = evaluate_classes if columns.classes else evaluate_event
    return evaluate_rows(read(frame, columns), columns, config)


def evaluate_event(frame: LazyFrame, columns: Columns, config: SketchConfig) -> LazyFrame:
    """Evaluate one event: add ``good``, ``p`` (0.5 for invalid rows), ``y``, and the columns of its scores."""
    p, t = nw.col("p"), nw.col("t")
    frame = frame.with_columns(good=_positive(nw.col("complete") & (p >= 0.0) & (p <= 1.0), columns))
    positive = {"y": t} if config.notion == "positive" else {}
    frame = frame.with_columns(p=nw.when(nw.col("good")).then(p).otherwise(0.5), **positive)
    # The distance of p from 1 - t is p or 1 - p, without a choice for each row: see `cells.key_of`.
    parts = {"target_prob": ((1.0 - t) - p).abs(), "brier": (p - t) * (p - t)}
    if positive:
        return frame.with_columns(**parts)
    other = (1.0 - p).cast(nw.Float32).cast(nw.Float64) if columns.single else 1.0 - p
    frame = frame.with_columns(**parts, other=other, predicted=(p >= 0.5).cast(nw.Float64))
    predicted = nw.col("predicted")
    top = predicted * p + (1.0 - predicted) * nw.col("other")
    return frame.with_columns(y=1.0 - (predicted - t).abs(), p=top)


def evaluate_classes(frame: LazyFrame, columns: Columns, config: SketchConfig) -> LazyFrame:
    """Evaluate the top label, or the second of two classes: add the columns of `evaluate_event`, and ``right``."""
    names = score_names(columns)
    scores, t = [nw.col(name) for name in names], nw.col("t")
    is_target = [(t == float(k)).cast(nw.Float64) for k in range(len(scores))]
    frame = frame.with_columns(
        top=nw.max_horizontal(*names),
        least=nw.min_horizontal(*names),
        total=added(scores),
        squares=added([p * p for p in scores]),
        target_prob=added([p * in_class for p, in_class in zip(scores, is_target, strict=True)]),
    )
    top, target_prob = nw.col("top"), nw.col("target_prob")
    good = nw.col("complete") & (nw.col("least") >= 0.0) & (top <= 1.0)
    good = _positive(good & ((nw.col("total") - 1.0).abs() <= sum_tolerance(columns.precision)), columns)
    # If classes tie, the one with the lowest index is predicted.
    lower = added([((p == top) & (t > float(k))).cast(nw.Float64) for k, p in enumerate(scores)])
    frame = frame.with_columns(good=good, lower=lower)
    right = ((target_prob == top) & (nw.col("lower") == 0.0)).cast(nw.Float64)
    event, outcome = (nw.col("p1"), t) if config.notion == "positive" else (top, right)
    return frame.with_columns(
        right=right,
        y=outcome,
        brier=nw.col("squares") - target_prob * 2.0 + 1.0,
        p=nw.when(nw.col("good")).then(event).otherwise(0.5),
        target_prob=nw.when(nw.col("good")).then(target_prob).otherwise(0.5),
    )


def _positive(good: nw.Expr, columns: Columns) -> nw.Expr:
    return good if columns.weight is None else good & (nw.col("w") > 0.0)


def losses() -> Steps:
    """Return the steps for ``likelihood``, the logarithm of ``target_prob`` if finite, and for ``infinite``."""
    target_prob = nw.col("target_prob")
    nothing = (target_prob == 0.0).cast(nw.Float64)
    return [{"infinite": nothing, "possible": target_prob + nothing}, {"likelihood": nw.col("possible").log()}]


def evaluate_scored(frame: LazyFrame, columns: Columns, config: SketchConfig) -> LazyFrame:
    """Evaluate the rows with weight: the columns of `evaluate` and `losses`, and ``right``, 1 or 0 for every notion."""
    evaluated = with_steps(positive_alone(evaluate(frame, columns, config), columns), losses())
    p, y = nw.col("p"), nw.col("y")
    if config.notion != "positive":
        return evaluated.with_columns(right=y)  # the evaluated event itself
    return evaluated if columns.classes else evaluated.with_columns(right=1.0 - ((p >= 0.5).cast(nw.Float64) - y).abs())


def evaluate_class(frame: LazyFrame, columns: Columns, k: int) -> LazyFrame:
    """Evaluate the event "this is class k" by the frame's columns: ``p``, ``y``; ``group``, ``hash``, ``w`` if used.

    Nothing is checked here: the top label's query checks all rows.
    """
    score = nw.col(columns.scores[k]).cast(nw.Float64)
    p = nw.when((score >= 0.0) & (score <= 1.0)).then(score).otherwise(0.5)
    return positive_alone(frame.select(p=p, y=is_class(columns, k), **others(columns)), columns)


def evaluate_every_class(frame: LazyFrame, columns: Columns) -> LazyFrame:
    """Evaluate all classes at once, with a row for each row and class; ``curve`` is p0, p1, ..."""
    names, other_names = score_names(columns), list(others(columns))
    frame = positive_alone(read(frame, columns), columns)
    # Some engines fail on numbers that are not integers.
    target = nw.when(nw.col("complete")).then(nw.col("t")).otherwise(0.0)
    label = nw.concat_str(nw.lit("p"), target.cast(nw.Int64).cast(nw.String))
    frame = frame.select(*names, *other_names, label=label)
    frame = frame.unpivot(names, index=[*other_names, "label"], variable_name="curve", value_name="p")
    p = nw.col("p")
    in_class = (nw.col("curve") == nw.col("label")).cast(nw.Float64)
    return frame.with_columns(p=nw.when((p >= 0.0) & (p <= 1.0)).then(p).otherwise(0.5), y=in_class)


def positive_alone(frame: LazyFrame, columns: Columns) -> LazyFrame:
    """Leave out the rows of weight 0."""
    return frame if columns.weight is None else frame.filter(nw.col("w") > 0.0)


def with_steps(frame: LazyFrame, *chains: Steps) -> LazyFrame:
    """Add the columns of several chains of steps: first the first step of every chain, then the second, ..."""
    for level in zip_longest(*chains, fillvalue=dict[str, nw.Expr]()):
        columns = {name: value for step in level for name, value in step.items()}
        duckdb_columns = [_DUCKDB[name] for name in columns if name in _DUCKDB and frame.implementation.is_duckdb()]
        if duckdb_columns:
            columns = {name: value for name, value in columns.items() if name not in _DUCKDB}
        if columns:
            frame = frame.with_columns(**columns)
        if duckdb_columns:
            frame = nw.from_native(nw.to_native(frame).project(", ".join(["*", *duckdb_columns])))
    return frame
