"""The hashes of cluster labels in frames: those of `as_clusters`, computed where the rows are.

Python hashes the labels of frames that hand over their columns: those in memory, and the batches of Polars and of Dask.
The other engines compute the same function: the MD5 of text, and SplitMix64 of whole numbers. DuckDB has integers of
128 bits for it. Ibis and Spark have 64 bits and fail on overflow, so `split_mix` computes with two halves of 32 bits.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

import narwhals as nw
import numpy as np

from calibrant.clusters import SEPARATOR, ClusterLabels, LabelKind, as_clusters, escaped, label_texts
from calibrant.errors import InputError
from calibrant.frames.columns import Columns, Label
from calibrant.kernels import dispatch

AnyFrame = nw.DataFrame[Any] | nw.LazyFrame[Any]
Frame = nw.LazyFrame[Any]

_TIMES: Final = "%Y-%m-%dT%H:%M:%S."
_HALF: Final = 2**32 - 1  # the bits of a half
_QUARTER: Final = 2**16 - 1

#: SplitMix64: what is added first; how far bits are shifted, and what is multiplied by, in turn.
_ADDED: Final = 0x9E3779B97F4A7C15
_SHIFTS: Final = (30, 27, 31)
_FACTORS: Final = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


def with_hashes(frame: AnyFrame, columns: Columns) -> tuple[AnyFrame, str, LabelKind]:
    """Return the frame with a column of the hash of each row's cluster, the column's name, and the kind of labels.

    The rows have been checked. A hash is an integer of 64 bits, with or without a sign.

    Raises
    ------
    InputError
        For Python objects that are no labels, and for an engine that cannot hash labels.
    """
    name = "cluster"
    while any(column.casefold().startswith(name) for column in frame.columns):
        name += "_"
    if isinstance(frame, nw.DataFrame):
        return _in_memory(frame, columns.labels, name)
    engine = frame.implementation
    engines = (
        (engine.is_polars(), _in_polars),
        (engine.is_dask(), _in_dask),
        (engine.is_duckdb(), _in_duckdb),
        (engine.is_ibis(), _in_ibis),
        (engine.is_pyspark() or engine.is_pyspark_connect(), _in_spark),
    )
    hashed = next((in_engine for is_engine, in_engine in engines if is_engine), None)
    if hashed is None:
        raise _no_hash(str(engine))
    return nw.from_native(hashed(frame, columns.labels, name)), name, _kind(columns.labels)


def _kind(labels: Sequence[Label]) -> LabelKind:
    """Return the kind of the names that these columns make together."""
    return labels[0].kind if len(labels) == 1 else "text"


def _no_hash(engine: str) -> InputError:
    expected = "an engine that hashes labels: pandas, Polars, PyArrow, DuckDB, Dask, PySpark, or Ibis on DuckDB"
    return InputError("cluster", expected, engine, "pass the table of such an engine, or arrays")


# ---------------------------------------------------------------- in Python


def _hashed(arrays: Sequence[Any], n: int) -> ClusterLabels:
    """Return the clusters that the values of one or several columns name together."""
    if n == 0:
        return ClusterLabels(np.empty(0, np.uint64), "text")
    if len(arrays) == 1:
        return as_clusters(arrays[0], n)
    arrays = [np.asarray(array) for array in arrays]
    codes = np.stack([as_clusters(array, n).hashes for array in arrays], axis=1)
    numbers, firsts = dispatch.number_rows(codes, n)
    parts = (map(escaped, label_texts(array[firsts], firsts)) for array in arrays)
    return as_clusters([SEPARATOR.join(values) for values in zip(*parts, strict=True)], len(firsts)).take(numbers)


def _in_memory(
    frame: nw.DataFrame[Any], labels: Sequence[Label], name: str
) -> tuple[nw.DataFrame[Any], str, LabelKind]:
    try:
        clusters = _hashed([frame.get_column(label.column).to_native() for label in labels], len(frame))
    except InputError as error:
        raise InputError(
            "cluster", error.expected, error.got, error.remedy, fault=error.fault, facts=error.facts
        ) from None
    hashes = nw.new_series(name, clusters.hashes, nw.UInt64(), backend=frame.implementation)
    return frame.with_columns(hashes), name, clusters.kind


def _in_polars(frame: Frame, labels: Sequence[Label], name: str) -> Any:
    polars = nw.get_native_namespace(frame)

    def hashes(batch: Any) -> Any:
        columns = [batch.struct.field(label.column) for label in labels]
        return polars.Series(_hashed(columns, len(batch)).hashes, dtype=polars.UInt64)

    rows = polars.struct([label.column for label in labels])
    return nw.to_native(frame).with_columns(rows.map_batches(hashes, polars.UInt64, is_elementwise=True).alias(name))


def _in_dask(frame: Frame, labels: Sequence[Label], name: str) -> Any:
    names, table = [label.column for label in labels], nw.to_native(frame)

    def hashes(partition: Any) -> Any:
        columns = [partition[column] for column in names]
        return partition.assign(**{name: _hashed(columns, len(partition)).hashes})[name]

    return table.assign(**{name: table[names].map_partitions(hashes, meta=(name, "uint64"))})


# ---------------------------------------------------------------- text in engines


def _with_text(frame: Frame, labels: Sequence[Label], name: str) -> Frame:
    """Add the text that names each row's cluster."""
    texts = [_text(label) for label in labels]
    if len(labels) == 1:
        return frame.with_columns(texts[0].alias(name))
    for old, new in (("\\", "\\\\"), (SEPARATOR, f"\\{SEPARATOR}")):
        texts = [text.str.replace_all(old, new, literal=True) for text in texts]
    return frame.with_columns(nw.concat_str(*texts, separator=SEPARATOR).alias(name))


def _text(label: Label) -> nw.Expr:
    value, dtype = nw.col(label.column), label.dtype
    if dtype == nw.Date:
        return value.dt.to_string("%Y-%m-%d")
    if dtype == nw.Datetime:
        digits = "%n" if getattr(dtype, "time_unit", "us") == "ns" else "%f"
        text = value.dt.to_string(_TIMES + digits).str.replace_all(r"\.?0*$", "")
        return text.str.replace_all("T00:00:00$", "")
    if label.may_have_fraction or dtype == nw.Boolean:
        value = value.cast(nw.Int64)
    return value.cast(nw.String)


# ---------------------------------------------------------------- whole numbers in halves


class BitOperations(NamedTuple):
    """How an engine names a column, and masks, combines (exclusive or) and shifts (to the right) its integers."""

    column: Callable[[str], Any]
    masked: Callable[[Any, int], Any]
    xor: Callable[[Any, Any], Any]
    shifted: Callable[[Any, int], Any]


def split_mix(of: Callable[[str], Any], bits: BitOperations) -> Iterator[dict[str, Any]]:
    """Yield the steps of SplitMix64, each a set of columns made from those before; no number exceeds 2^52.

    ``of`` returns a column. The first step starts from the halves of the numbers, ``high`` and ``low``; the last leaves
    the halves of the hashes there. It is the function of `calibrant.clusters.labels.mix64`.
    """
    masked, shifted = bits.masked, bits.shifted
    yield {"low": of("low") + (_ADDED & _HALF)}
    carried = of("high") + (_ADDED >> 32) + shifted(of("low"), 32)
    yield {"high": masked(carried, _HALF), "low": masked(of("low"), _HALF)}
    for places, factor in zip(_SHIFTS, (*_FACTORS, None), strict=True):
        moved = masked(of("high") * 2 ** (32 - places) + shifted(of("low"), places), _HALF)
        yield {"low": bits.xor(of("low"), moved), "high": bits.xor(of("high"), shifted(of("high"), places))}
        if factor is not None:
            yield from _times(factor, of, bits)


def _times(factor: int, of: Callable[[str], Any], bits: BitOperations) -> Iterator[dict[str, Any]]:
    """Yield the steps of a product mod 2^64, from products of the halves with 16 bits of the factor."""
    masked, shifted, high, low = bits.masked, bits.shifted, of("high"), of("low")
    parts = [factor >> 16 * k & _QUARTER for k in range(4)]
    yield {"upper": low * parts[1], "cross": masked(high * parts[1] + low * parts[3], _QUARTER)}
    yield {"lower": low * parts[0] + masked(of("upper"), _QUARTER) * 2**16}
    carried = shifted(of("lower"), 32) + shifted(of("upper"), 16) + of("cross") * 2**16
    yield {"low": masked(of("lower"), _HALF), "high": masked(carried + high * parts[0] + low * parts[2], _HALF)}


def _mixed(table: Any, name: str, add: Callable[[Any, dict[str, Any]], Any], bits: BitOperations) -> Any:
    """Replace the whole numbers in the column ``name`` by their hashes; ``add`` adds columns to a table."""
    column, shifted = bits.column, bits.shifted
    number = column(name)
    halves = {"high": bits.masked(shifted(number, 32), _HALF), "low": bits.masked(number, _HALF)}
    for step in (halves, *split_mix(lambda half: column(name + half), bits)):
        table = add(table, {name + half: value for half, value in step.items()})
    return add(table, {name: _joined(column(f"{name}high"), column(f"{name}low"), shifted)})


def _joined(high: Any, low: Any, shifted: Callable[[Any, int], Any]) -> Any:
    """Return the integer of 64 bits, with a sign, that has these halves."""
    return (high - shifted(high, 31) * 2**32) * 2**32 + low


# ---------------------------------------------------------------- engines


def _in_duckdb(frame: Frame, labels: Sequence[Label], name: str) -> Any:
    relation = nw.to_native(frame)
    if _kind(labels) == "text":
        replaced: dict[Label, Label] = {}
        for k, label in enumerate(labels):
            if getattr(label.dtype, "time_zone", None) is not None:  # as text it would depend on the session's zone
                replaced[label] = Label(f"{name}{k}", nw.Datetime())
                relation = relation.project(f"*, make_timestamp(epoch_us({_quoted(label.column)})) AS {name}{k}")
        labels = [replaced.get(label, label) for label in labels]
        relation = nw.to_native(_with_text(nw.from_native(relation), labels, name))
        return relation.project(f"* REPLACE (CAST('0x' || substr(md5({name}), 1, 16) AS UBIGINT) AS {name})")
    kept = f"& {2**64 - 1}::UHUGEINT"
    number = f"{_quoted(labels[0].column)}::HUGEINT"
    relation = relation.project(f"*, (({number} + {2**64 + _ADDED})::UHUGEINT {kept}) AS {name}")
    for places, factor in zip(_SHIFTS, (*_FACTORS, 1), strict=True):
        relation = relation.project(f"* REPLACE (xor({name}, {name} >> {places}::UHUGEINT) AS {name})")
        relation = relation.project(f"* REPLACE ({name} * {factor}::UHUGEINT {kept} AS {name})")
    return relation.project(f"* REPLACE ({name}::UBIGINT AS {name})")


def _quoted(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def _in_ibis(frame: Frame, labels: Sequence[Label], name: str) -> Any:
    table = nw.to_native(frame)
    backend = table.get_backend().name
    if backend != "duckdb":
        raise _no_hash("Ibis on " + backend)
    if _kind(labels) == "text":
        table = nw.to_native(_with_text(frame, labels, name))
        return table.mutate(**{name: ("0x" + table[name].hexdigest("md5").substr(0, 16)).cast("uint64")})
    column = nw.get_native_namespace(frame)._
    number = column[labels[0].column]
    if labels[0].dtype == nw.UInt64:  # the same 64 bits with a sign, which the operations below expect
        # Ibis takes these for signed already, and would leave out a cast to int64 alone; doubles hold 32 bits exactly.
        high, low = (half.cast("float64").cast("int64") for half in (number >> 32, number & 0xFFFFFFFF))
        number = (high - (high >> 31) * 2**32) * 2**32 + low
    else:
        number = number.cast("int64")
    bits = BitOperations(column.__getitem__, operator.and_, operator.xor, operator.rshift)
    return _mixed(table.mutate(**{name: number}), name, lambda table, columns: table.mutate(**columns), bits)


def _in_spark(frame: Frame, labels: Sequence[Label], name: str) -> Any:
    from pyspark.sql import functions

    table, column = nw.to_native(frame), functions.col
    if _kind(labels) == "number":
        number = column(labels[0].column)
        if labels[0].dtype.is_decimal():  # as which Spark reads whole numbers of 64 bits without a sign
            number = functions.when(number < Decimal(2**63), number).otherwise(number - Decimal(2**64))
        bits = BitOperations(
            column,
            lambda number, mask: number.bitwiseAND(functions.lit(mask)),
            lambda one, other: one.bitwiseXOR(other),
            functions.shiftright,
        )
        table = table.withColumn(name, number.cast("bigint"))
        return _mixed(table, name, lambda table, columns: table.withColumns(columns), bits)
    texts = {label: Label(f"{name}{k}", nw.String()) for k, label in enumerate(labels) if label.is_time}
    table = table.withColumns({text.column: _spark_time(label) for label, text in texts.items()})
    table = nw.to_native(_with_text(nw.from_native(table), [texts.get(label, label) for label in labels], name))
    digest = functions.md5(column(name))
    high, low = (functions.conv(functions.substring(digest, first, 8), 16, 10).cast("bigint") for first in (1, 9))
    return table.withColumn(name, _joined(high, low, functions.shiftright))


def _spark_time(label: Label) -> Any:
    """Return dates or times as text; the functions of Spark that format times read all in the session's zone."""
    from pyspark.sql import functions

    time = functions.col(label.column)
    if getattr(label.dtype, "time_zone", None) is not None:
        epoch = functions.lit("1970-01-01 00:00:00").cast("timestamp_ntz")
        time = functions.timestamp_add("MICROSECOND", functions.unix_micros(time), epoch)
    text = functions.replace(time.cast("string"), functions.lit(" "), functions.lit("T"))
    return functions.regexp_replace(text, "T00:00:00$", "")
