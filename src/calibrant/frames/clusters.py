"""Clusters in frames: the hashes of their labels, and sums over buckets of clusters.

The hashes are those of `as_clusters`, computed where the rows are. Python hashes the labels of frames that hand over
their columns: those in memory, and the batches of Polars and of Dask. The other engines compute the same function: the
MD5 of text, and SplitMix64 of whole numbers. DuckDB has integers of 128 bits for it. Ibis and Spark have 64 bits and
fail on overflow, so `split_mix` computes with two halves of 32 bits.

A frame in memory is added up block by block. The engine of a lazy frame groups rows by bucket and coarse cell. The
bucket is the hash of the cluster in a group of few clusters, else the hash mod the number of buckets: a query that
counts the clusters of each group comes first.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any, Final, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError
from calibrant.frames import grid_sums, rows
from calibrant.frames.columns import Columns, Frame, Label, LazyFrame
from calibrant.frames.grid_sums import Sums
from calibrant.kernels import dispatch
from calibrant.runtime.dataclass import dataclass
from calibrant.sketch.totals import SketchConfig
from calibrant.table.cluster_labels import SEPARATOR, ClusterLabels, LabelKind, as_clusters, escaped, label_texts
from calibrant.table.cluster_sums import CLASS_CELLS, EVENT_CELLS, SCALARS, BucketSums, ClusterSums, CoarseCells


def gather(frame: Frame, columns: Columns, config: SketchConfig) -> dict[Any, ClusterSums]:
    """Return the sums over buckets of each group, by its value; a frame without groups has the one group None.

    The rows have been checked, and some have weight.
    """
    if isinstance(frame, nw.LazyFrame):
        return _in_queries(frame, columns, config)
    return _in_blocks(frame, columns, config)


def _in_blocks(frame: nw.DataFrame[Any], columns: Columns, config: SketchConfig) -> dict[Any, ClusterSums]:
    frame, columns, groups = _with_codes(frame, columns)
    hashed, columns, kind = with_hashes(frame, columns)
    event = _ClusterCurve(columns, kind, EVENT_CELLS, len(groups))
    n_classes = columns.n_classes if config.classwise else 0
    classes = [_ClusterCurve(columns, kind, CLASS_CELLS, len(groups)) for _ in range(n_classes)]
    for part in grid_sums.parts(hashed):
        event.add(rows.evaluate_scored(part, columns, config))
        for k, curve in enumerate(classes):
            curve.add(rows.evaluate_class(part, columns, k))
    for curve in (event, *classes):
        curve.flush()
    return {
        groups[code]: ClusterSums(sums, tuple(curve.sums[code] for curve in classes))
        for code, sums in event.sums.items()
    }


def _with_codes(frame: nw.DataFrame[Any], columns: Columns) -> tuple[nw.DataFrame[Any], Columns, list[Any]]:
    """Return the used columns with numbers in place of groups, and the group of each number."""
    if columns.group is None:
        return frame, columns, [None]
    labels = [label.column for label in columns.labels]
    used = dict.fromkeys([*columns.scores, columns.target, columns.group, *labels, *filter(None, [columns.weight])])
    name = "code"
    while name in used:
        name += "_"
    groups = frame.select(group=nw.col(columns.group)).unique().with_row_index(name)
    values = {int(place): value for value, (place,) in grid_sums.groups_of(groups)}
    frame = frame.select(*used).join(groups, left_on=columns.group, right_on="group", how="left")
    return frame, replace(columns, group=name), [values[place] for place in range(len(groups))]


class _ClusterCurve:
    """The sums over buckets of one curve, by the number of the group.

    Rows are held until there is a block for each group: to add them up costs as much as the buckets have cells.
    """

    def __init__(self, columns: Columns, kind: LabelKind, coarse: CoarseCells, n_groups: int) -> None:
        self._single, self._kind, self._coarse = columns.single, kind, coarse
        self._most = n_groups * grid_sums.BLOCK
        self._held: list[Sums] = []
        self.sums: dict[int, BucketSums] = {}

    def add(self, evaluated: LazyFrame) -> None:
        """Add the evaluated rows of a block."""
        used = ("group", "hash", "p", "y", "w", *rows.SCORES)
        names = [name for name in used if name in evaluated.collect_schema()]
        table = grid_sums.fetch(evaluated.select(*names))
        self._held.append({name: table.get_column(name).to_numpy() for name in names})
        if sum(len(held["p"]) for held in self._held) >= self._most:
            self.flush()

    def flush(self) -> None:
        """Add up the rows that are held."""
        if not self._held:
            return
        held = {name: np.concatenate([block[name] for block in self._held]) for name in self._held[0]}
        self._held = []
        codes = held.pop("group", np.zeros(len(held["p"]), np.int64))
        order = np.argsort(codes, kind="stable")
        numbers, firsts = np.unique(codes[order], return_index=True)
        for number, places in zip(numbers.tolist(), np.split(order, firsts)[1:], strict=True):
            made = self._made({name: values[places] for name, values in held.items()})
            self.sums[number] = self.sums[number] + made if number in self.sums else made

    def _made(self, held: Sums) -> BucketSums:
        row_scores = None
        if "brier" in held:
            nll = np.where(held["infinite"] > 0, np.inf, -held["likelihood"])
            row_scores = held["brier"], nll, held["right"] > 0
        return BucketSums.of(
            ClusterLabels(held["hash"].astype(np.uint64), self._kind),
            held["p"].astype(np.float32 if self._single else np.float64),
            held["y"].astype(np.uint8),
            held.get("w"),
            row_scores=row_scores,
            cells=self._coarse,
            count=False,
        )


# ---------------------------------------------------------------- sums in engines


def _in_queries(frame: LazyFrame, columns: Columns, config: SketchConfig) -> dict[Any, ClusterSums]:
    """Return the sums over buckets of each group, by its value."""
    counted = _counted(frame, columns)
    counts = _counts(counted, columns)
    hashed, columns, kind = with_hashes(frame, columns)
    frame = hashed.lazy()
    query = partial(_Query, columns=columns, counts=counts, counted=counted)
    event = query(coarse=EVENT_CELLS, n_curves=1)
    sums = _fetched(event, kind, lambda summed: [summed(rows.evaluate_scored(frame, columns, config))])
    if not config.classwise:
        return {group: ClusterSums(sums[group, ""]) for group in counts}
    each = query(coarse=CLASS_CELLS, n_curves=columns.n_classes)
    sums |= _fetched(each, kind, lambda summed: grid_sums.together(grid_sums.class_tables(frame, columns, summed)))
    curves = [f"p{k}" for k in range(columns.n_classes)]
    return {group: ClusterSums(sums[group, ""], tuple(sums[group, curve] for curve in curves)) for group in counts}


@dataclass(frozen=True, kw_only=True)
class _Query:
    """What the rows of an engine are grouped by, and what is added up."""

    columns: Columns
    coarse: CoarseCells  #: the coarse cells of the scores, and the most buckets
    n_curves: int  #: of each group
    counts: dict[Any, int]  #: the number of clusters of each group
    counted: LazyFrame  #: the same in the engine

    @property
    def scored(self) -> bool:
        """Whether the rows have the scores of whole predictions."""
        return self.coarse is EVENT_CELLS

    @property
    def n_slices(self) -> int:
        """How many queries share the buckets, so that each returns half the rows that can be fetched, or less."""
        n_buckets = min(self.coarse.n_buckets, max(self.counts.values()))
        n_rows = len(self.counts) * self.n_curves * n_buckets * self.coarse.n_cells
        return min(math.ceil(2 * n_rows / grid_sums.MOST), self.coarse.n_buckets)

    def pools(self, group: Any) -> bool:
        """Return whether the clusters of a group share buckets."""
        return self.counts[group] > self.coarse.n_buckets

    def summed(self, frame: LazyFrame, part: int) -> LazyFrame:
        """Group evaluated rows by group, bucket and coarse cell, and add them up: those of one slice of the buckets."""
        frame = self._with_buckets(frame, part)
        options: Any = {"good": nw.lit(True), "fault": nw.lit(grid_sums.WRONG), "outcomes": False}
        chain, key = grid_sums.key_of(self.coarse, single=self.columns.single, **options)
        frame, sums = rows.with_steps(frame, chain), self._sums()
        return grid_sums.added_by(("bucket",), frame, key, sums)

    def _with_buckets(self, frame: LazyFrame, part: int) -> LazyFrame:
        n_buckets, value = self.coarse.n_buckets, nw.col("hash")
        shared = value % n_buckets  # Narwhals' rest is never negative, though a hash may be
        if self.n_slices > 1:
            frame = frame.filter(shared % self.n_slices == part)
        pooled = {self.pools(group) for group in self.counts}
        if len(pooled) == 1:
            return frame.with_columns(bucket=shared if pooled == {True} else value)
        frame = frame.join(self.counted, on="group", how="left")
        return frame.with_columns(bucket=nw.when(nw.col("clusters") > n_buckets).then(shared).otherwise(value))

    def _sums(self) -> dict[str, nw.Expr]:
        p, y = nw.col("p"), nw.col("y")
        sums = {"positives": y, "gap": p - y, "tilt": (p - y) * (1.0 - p * 2.0)}
        if self.scored:
            sums |= {name: nw.col(name) for name in rows.SCORES}
        if self.columns.weight is None:
            return sums
        w = nw.col("w")
        return {"weight": w, **{name: value * w for name, value in sums.items()}}

    def buckets_of(self, sums: Sums, kind: LabelKind, *, pooled: bool) -> BucketSums:
        """Return the sums over the buckets of a group from fetched rows."""
        cell = grid_sums.cells_of(sums["key"], self.coarse, single=self.columns.single).cells
        buckets, n_buckets, n_cells = sums["bucket"].astype(np.uint64), self.coarse.n_buckets, self.coarse.n_cells
        places, distinct = buckets.astype(np.intp), None
        if not pooled:
            distinct, places = np.unique(buckets, return_inverse=True)
            n_buckets = len(distinct)
        sums = {"rows": sums["n"], "weight": sums["n"], **sums}
        if self.scored:
            sums["nll"] = -sums["likelihood"]
        names, index = ("weight", "positives", "gap"), places * n_cells + cell
        cell_sums = _added(sums, names, index, n_buckets * n_cells).reshape(n_buckets, n_cells, 3)
        scalars = _added(sums, SCALARS, places, n_buckets)
        made = BucketSums(kind, distinct, cell_sums, scalars, scored=self.scored, cells=self.coarse)
        return made.folded() if n_buckets > self.coarse.n_buckets else made


def _added(sums: Sums, names: Sequence[str], places: NDArray[np.intp], size: int) -> NDArray[np.float64]:
    """Return the named columns added up by place, (size, columns); 0 for a column that is not there."""
    added = np.zeros((size, len(names)))
    for k, name in enumerate(names):
        if name in sums:
            added[:, k] = np.bincount(places, sums[name], size)
    return added


def _counted(frame: LazyFrame, columns: Columns) -> LazyFrame:
    """Return the number of clusters of each group, ``clusters``; without groups the distinct labels."""
    parts = {f"label{k}": nw.col(label.column) for k, label in enumerate(columns.labels)}
    parts |= rows.others(columns)
    names = [name for name in parts if name != "w"]
    distinct = rows.positive_alone(frame.select(**parts), columns).group_by(*names).agg(rows=nw.len())
    return distinct if columns.group is None else distinct.group_by("group").agg(clusters=nw.len())


def _counts(counted: LazyFrame, columns: Columns) -> dict[Any, int]:
    """Return the number of clusters of each group, by its value; one more than the buckets means that or more."""
    if columns.group is None:
        return {None: len(grid_sums.fetch(counted.head(EVENT_CELLS.n_buckets + 1)))}
    table, sums = grid_sums.fetch_sums(counted, columns)
    return {group: int(sums["clusters"][place]) for group, (place,) in grid_sums.groups_of(table)}


def _fetched(
    query: _Query, kind: LabelKind, tables: Callable[[Callable[[LazyFrame], LazyFrame]], Iterable[LazyFrame]]
) -> dict[tuple[Any, str], BucketSums]:
    """Return the sums over buckets of each group and curve; ``tables`` makes tables of sums of evaluated rows."""
    made: dict[tuple[Any, str], BucketSums] = {}
    for part in range(query.n_slices):
        for summed in tables(partial(query.summed, part=part)):
            table, sums = grid_sums.fetch_sums(summed, query.columns)
            curve = sums.pop("curve", np.zeros(len(table), "U1")).astype(str)
            for group, of_group in grid_sums.groups_of(table):
                for name in np.unique(curve[of_group]).tolist():
                    places = of_group[curve[of_group] == name]
                    of_curve = {column: values[places] for column, values in sums.items()}
                    buckets = query.buckets_of(of_curve, kind, pooled=query.pools(group))
                    made[group, name] = made[group, name] + buckets if (group, name) in made else buckets
    return made


# ---------------------------------------------------------------- hashes


_TIMES: Final = "%Y-%m-%dT%H:%M:%S."
_HALF: Final = 2**32 - 1  # the bits of a half
_QUARTER: Final = 2**16 - 1

#: SplitMix64: what is added first; how far bits are shifted, and what is multiplied by, in turn.
_ADDED: Final = 0x9E3779B97F4A7C15
_SHIFTS: Final = (30, 27, 31)
_FACTORS: Final = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


def with_hashes(frame: Frame, columns: Columns) -> tuple[Frame, Columns, LabelKind]:
    """Return the frame with a column of the hash of each row's cluster, the columns with it, and the kind of labels.

    The rows have been checked. A hash is an integer of 64 bits, with or without a sign.
    """
    name = "cluster"
    while any(column.casefold().startswith(name) for column in frame.columns):
        name += "_"
    columns = replace(columns, hashes=name)
    if isinstance(frame, nw.DataFrame):
        hashed_frame, kind = _in_memory(frame, columns.labels, name)
        return hashed_frame, columns, kind
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
    return nw.from_native(hashed(frame, columns.labels, name)), columns, _kind(columns.labels)


def _kind(labels: Sequence[Label]) -> LabelKind:
    """Return the kind of the names that these columns make together."""
    return labels[0].kind if len(labels) == 1 else "text"


def _no_hash(engine: str) -> InputError:
    expected = "a table of pandas, Polars, PyArrow, DuckDB, Dask, PySpark, or Ibis on DuckDB, which support clusters"
    return InputError("cluster", expected, engine, "convert the table to one of these, or pass arrays")


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


def _in_memory(frame: nw.DataFrame[Any], labels: Sequence[Label], name: str) -> tuple[nw.DataFrame[Any], LabelKind]:
    try:
        clusters = _hashed([frame.get_column(label.column).to_native() for label in labels], len(frame))
    except InputError as error:
        raise InputError(
            "cluster", error.expected, error.got, error.remedy, fault=error.fault, facts=error.facts
        ) from None
    hashes = nw.new_series(name, clusters.hashes, nw.UInt64(), backend=frame.implementation)
    return frame.with_columns(hashes), clusters.kind


def _in_polars(frame: LazyFrame, labels: Sequence[Label], name: str) -> Any:
    polars = nw.get_native_namespace(frame)

    def hashes(batch: Any) -> Any:
        columns = [batch.struct.field(label.column) for label in labels]
        return polars.Series(_hashed(columns, len(batch)).hashes, dtype=polars.UInt64)

    rows = polars.struct([label.column for label in labels])
    return nw.to_native(frame).with_columns(rows.map_batches(hashes, polars.UInt64, is_elementwise=True).alias(name))


def _in_dask(frame: LazyFrame, labels: Sequence[Label], name: str) -> Any:
    names, table = [label.column for label in labels], nw.to_native(frame)

    def hashes(partition: Any) -> Any:
        columns = [partition[column] for column in names]
        return partition.assign(**{name: _hashed(columns, len(partition)).hashes})[name]

    return table.assign(**{name: table[names].map_partitions(hashes, meta=(name, "uint64"))})


# ---------------------------------------------------------------- text in engines


def _with_text(frame: LazyFrame, labels: Sequence[Label], name: str) -> LazyFrame:
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
    the halves of the hashes there. It is the function of `calibrant.table.cluster_labels.mix64`.
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


def _in_duckdb(frame: LazyFrame, labels: Sequence[Label], name: str) -> Any:
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


def _in_ibis(frame: LazyFrame, labels: Sequence[Label], name: str) -> Any:
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


def _in_spark(frame: LazyFrame, labels: Sequence[Label], name: str) -> Any:
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
