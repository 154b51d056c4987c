"""Sums over buckets of clusters of frames: those of arrays, whatever engine holds the rows.

Scores are binary fractions, so every sum but the log loss is exact and is held to equality, bit for bit. Log losses are
sums of terms of one sign, in another order than that of arrays: they agree to 1e-12 of themselves.
"""

from __future__ import annotations

import datetime
import math
import operator
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from typing import Any

import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant import CalibrationSketch
from calibrant.errors import InputError
from calibrant.errors.faults import Fault
from calibrant.frames import clusters, grid_sums, sketch
from calibrant.table.cluster_labels import hash_text, mix64
from calibrant.table.cluster_sums import CLASS_CELLS, EVENT_CELLS, SCALARS, BucketSums, CoarseCells
from tests.examples_of import at_most
from tests.frames.test_frames import CLASSES, ENGINES, EVENT, check_same, dask, ibis

# Narwhals 2.29 announces that Dask will need a package of its own, narwhals-dask.
pytestmark = pytest.mark.filterwarnings("ignore:Dask support is moving out of Narwhals:FutureWarning")

N = 900
LOSS = SCALARS.index("nll")
LAZY = ("polars lazy", "duckdb")
SOME = ("pandas", "polars lazy", "duckdb")
MORE = ("pandas", "polars", "polars lazy", "pyarrow", "duckdb")
BETWEEN = "\x1f"


# ---------------------------------------------------------------- data and comparison


def whole(numbers: np.ndarray) -> Any:
    return numbers


def negative(numbers: np.ndarray) -> Any:
    """Numbers of both signs, of all 64 bits."""
    return (numbers - 100) * 2**55


def unsigned(numbers: np.ndarray) -> Any:
    """Numbers on both sides of 2^63."""
    return numbers.astype(np.uint64) * np.uint64(2**56) + np.uint64(7)


def floats(numbers: np.ndarray) -> Any:
    """Whole floats of both signs, with 0 and -0."""
    return np.where(numbers % 2 == 0, 1.0, -1.0) * (numbers // 2)


def text(numbers: np.ndarray) -> Any:
    return np.array([f"Zürich {k}\\{BETWEEN}猫" for k in numbers.tolist()])


def dates(numbers: np.ndarray) -> Any:
    return np.datetime64("1969-11-01") + numbers


def times(numbers: np.ndarray) -> Any:
    """Microseconds, some with closing zeros, some at midnight, some before 1970."""
    return np.datetime64("1970-01-01T00:00:00", "us") + (numbers - 100) * np.timedelta64(43_200_000_000 // 4 + 250_000)


#: Labels and numbers of clusters: from few to more than there are buckets.
LABELS = [
    *((whole, 3), (whole, 200), (whole, 300), (text, 3), (text, 200), (text, 300)),
    *((negative, 300), (unsigned, 200), (floats, 300), (dates, 300), (times, 300)),
]


@cache
def rows(n_clusters: int, n: int = N) -> dict[str, np.ndarray]:
    """Rows whose scores are binary fractions, some of them certain; every cluster has a row."""
    rng = np.random.default_rng(n_clusters)
    p = rng.integers(0, 65, n) / 64
    number = rng.permutation(np.arange(n) % n_clusters)
    return {
        "p": p,
        "y": (rng.random(n) < np.where(number % 3 == 0, 0.5, p)).astype(np.int64),
        "number": number,
        "w": rng.integers(0, 4, n),
        "g": np.where(rng.random(n) < 0.2, "few", "many"),
    }


def event(n_clusters: int, *names: str, **labels: Any) -> dict[str, Any]:
    data = rows(n_clusters)
    return {name: data[name] for name in ("p", "y", *names)} | labels


def of_arrays(columns: dict[str, Any], clusters: Any, *, weights: Any = None, groups: Any = None) -> CalibrationSketch:
    made = CalibrationSketch()
    made.update(columns["p"], columns["y"], clusters=clusters, weights=weights, groups=groups)
    return made


def check_buckets(mine: BucketSums, theirs: BucketSums, *, exact: bool = True) -> None:
    """Hold the sums over buckets of a frame to those of the arrays."""
    assert (mine.kind, mine.hash_name, mine.scored) == (theirs.kind, theirs.hash_name, theirs.scored)
    assert mine.cells == theirs.cells
    assert mine.pooled == theirs.pooled
    if mine.hashes is not None:
        assert np.array_equal(mine.hashes, theirs.hashes)
    np.testing.assert_allclose(mine.scalars[:, LOSS], theirs.scalars[:, LOSS], rtol=1e-12, atol=0)
    others = np.arange(len(SCALARS)) != LOSS
    if exact:
        assert np.array_equal(mine.cell_sums, theirs.cell_sums)
        assert np.array_equal(mine.scalars[:, others], theirs.scalars[:, others])
    else:  # sums of at most 900 terms between -1 and 1, in another order
        np.testing.assert_allclose(mine.cell_sums, theirs.cell_sums, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(mine.scalars, theirs.scalars, rtol=1e-12, atol=1e-13)


def check(own: CalibrationSketch, other: CalibrationSketch, *, exact: bool = True) -> None:
    """Hold a sketch of a frame to that of the arrays, with all that it knows of clusters."""
    check_same(own, other, whole=exact)
    mine, theirs = own._part.clusters, other._part.clusters
    assert len(mine.parts) == len(theirs.parts)
    for one, two in zip(mine.parts, theirs.parts, strict=True):
        check_buckets(one, two, exact=exact)


# ---------------------------------------------------------------- the sums of arrays


@pytest.mark.covering
@pytest.mark.parametrize(("labels", "n_clusters"), LABELS)
@pytest.mark.parametrize("name", MORE)
def test_a_frame_has_the_buckets_of_its_arrays(name: str, labels: Callable, n_clusters: int) -> None:
    columns = event(n_clusters, c=labels(rows(n_clusters)["number"]))
    own = sketch(ENGINES[name](columns), **EVENT, cluster="c")
    check(own, of_arrays(columns, columns["c"]))
    assert own._part.clusters.event.pooled == (n_clusters > 256)


@pytest.mark.parametrize(
    ("name", "labels", "n_clusters"),
    [
        *(("ibis", negative, 300), ("ibis", unsigned, 3), ("ibis", text, 300)),
        *(("pandas nullable", whole, 300), ("pandas pyarrow", text, 300), ("pandas pyarrow", times, 3)),
        *(pytest.param("dask", *case, marks=pytest.mark.slow) for case in ((text, 3), (negative, 300), (times, 300))),
    ],
)
def test_other_engines_have_the_buckets_of_their_arrays(name: str, labels: Callable, n_clusters: int) -> None:
    columns = event(n_clusters, c=labels(rows(n_clusters)["number"]))
    check(sketch(ENGINES[name](columns), **EVENT, cluster="c"), of_arrays(columns, columns["c"]))


def joined(*columns: list[str]) -> list[str]:
    """Return the names that columns make together, by the rule of files."""
    escaped = [
        [text.replace("\\", "\\\\").replace(BETWEEN, f"\\{BETWEEN}") for text in map(str, column)] for column in columns
    ]
    return [BETWEEN.join(values) for values in zip(*escaped, strict=True)]


@pytest.mark.parametrize(("name", "n_clusters"), [*((name, 300) for name in MORE), ("ibis", 3), ("pandas", 200)])
def test_several_columns_name_a_cluster_together(name: str, n_clusters: int) -> None:
    number = rows(n_clusters)["number"]
    columns = event(
        n_clusters, t=text(number), i=number % 7 - 3, b=number % 2 == 0, f=number % 5 * 1.0, d=dates(number)
    )
    names = joined(columns["t"], columns["i"], number % 2 ^ 1, number % 5, columns["d"].astype(str).tolist())
    own = sketch(ENGINES[name](columns), **EVENT, cluster=["t", "i", "b", "f", "d"])
    check(own, of_arrays(columns, names))


@pytest.mark.parametrize("name", MORE)
def test_values_that_hold_the_separator_name_other_clusters(name: str) -> None:
    columns = {"p": [0.25, 0.5, 0.75], "y": [0, 1, 1], "a": ["x\x1fy", "x", "x\\"], "b": ["z", "y\x1fz", "y\x1fz"]}
    own = sketch(
        ENGINES[name]({name: np.array(values) for name, values in columns.items()}), **EVENT, cluster=["a", "b"]
    )
    assert own._part.clusters.event.n_clusters == 3
    expected = sorted(map(hash_text, joined(columns["a"], columns["b"])))
    assert own._part.clusters.event.hashes.tolist() == expected


@pytest.mark.parametrize("n_clusters", [200, 300])
@pytest.mark.parametrize("name", SOME)
def test_rows_have_weights(name: str, n_clusters: int) -> None:
    columns = event(n_clusters, "number", "w")
    own = sketch(ENGINES[name](columns), **EVENT, cluster="number", weight="w")
    check(own, of_arrays(columns, columns["number"], weights=columns["w"]))


@pytest.mark.parametrize("name", SOME)
def test_scores_and_weights_may_be_any(name: str) -> None:
    rng = np.random.default_rng(4)
    columns = event(200, "number", w=rng.exponential(size=N)) | {"p": rng.random(N)}
    own = sketch(ENGINES[name](columns), **EVENT, cluster="number", weight="w")
    check(own, of_arrays(columns, columns["number"], weights=columns["w"]), exact=False)


@pytest.mark.parametrize("name", MORE)
def test_each_group_has_its_buckets(name: str) -> None:
    """One group has more clusters than buckets, the other has not."""
    columns = event(300, "number", "g", "w")
    own = sketch(ENGINES[name](columns), **EVENT, cluster="number", weight="w", by="g")
    expected = of_arrays(columns, columns["number"], weights=columns["w"], groups=columns["g"])
    assert {group: part._part.clusters.event.pooled for group, part in own.items()} == {"few": False, "many": True}
    for group, part in own.items():
        check(part, expected._groups[group])


@pytest.mark.parametrize(
    ("name", "n_clusters"),
    [*((name, n) for name in ("pandas", "polars lazy") for n in (20, 40, 300)), ("duckdb", 300), ("ibis", 40)],
)
def test_classes_have_their_buckets(name: str, n_clusters: int) -> None:
    """Classes have 32 buckets, the event 256: with 40 clusters only the classes pool."""
    rng = np.random.default_rng(5)
    a, b = rng.integers(0, 33, (2, N)) / 64
    data = rows(n_clusters)
    columns = {"a": a, "b": b, "c": 1 - a - b, "t": rng.integers(0, 3, N), "number": data["number"]}
    own = sketch(ENGINES[name](columns), **CLASSES, cluster="number", classwise=True)
    expected = CalibrationSketch(classwise=True)
    expected.update(np.stack([a, b, 1 - a - b], axis=1), columns["t"], clusters=columns["number"])
    check(own, expected)
    assert [part.pooled for part in own._part.clusters.parts] == [n_clusters > 256, *[n_clusters > 32] * 3]


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("notion", ["positive", "top-label"])
@pytest.mark.parametrize("name", ["polars", "polars lazy"])
def test_the_event_may_be_the_top_label_or_the_second_class(name: str, notion: str, dtype: type) -> None:
    data = rows(300)
    p, y, number = data["p"].astype(dtype), data["y"], data["number"]
    expected, of_classes = CalibrationSketch(notion=notion), CalibrationSketch(notion=notion, classwise=True)
    expected.update(p, y, clusters=number)
    check(sketch(ENGINES[name]({"p": p, "y": y, "k": number}), **EVENT, cluster="k", notion=notion), expected)
    of_classes.update(np.stack([1 - p, p], axis=1), y, clusters=number)
    frame = ENGINES[name]({"a": 1 - p, "b": p, "t": y, "k": number})
    own = sketch(frame, probs=["a", "b"], target="t", cluster="k", notion=notion, classwise=True)
    check(own, of_classes)


@pytest.mark.parametrize("coarse", [EVENT_CELLS, CLASS_CELLS], ids=["event", "classes"])
@pytest.mark.parametrize("name", ["pandas", "polars lazy"])
def test_scores_of_float32_on_an_edge_are_in_the_cell_of_arrays(name: str, coarse: CoarseCells) -> None:
    """Sums are of a few scores of 24 bits with gaps of as many: exact but for the Brier score."""
    p = coarse.edges.astype(np.float32)
    y, number = np.arange(len(p)) % 2, np.arange(len(p)) % 3
    frame = ENGINES[name]({"a": 1 - p, "b": p, "t": y, "k": number})
    own = sketch(frame, probs=["a", "b"], target="t", cluster="k", notion="positive", classwise=True)
    expected = CalibrationSketch(notion="positive", classwise=True)
    expected.update(np.stack([1 - p, p], axis=1), y, clusters=number)
    for one, two in zip(own._part.clusters.parts, expected._part.clusters.parts, strict=True):
        assert np.array_equal(one.n, two.n)
        assert np.array_equal(one.y, two.y)


@pytest.mark.parametrize("by", [None, "g"])
@pytest.mark.parametrize("name", SOME)
def test_clusters_without_weight_do_not_count(name: str, by: str | None) -> None:
    columns = event(300, "number", g=np.full(N, "all"))
    columns["w"] = np.where(columns["number"] < 256, 1, 0)
    own = sketch(ENGINES[name](columns), **EVENT, cluster="number", weight="w", by=by)
    own = own if isinstance(own, CalibrationSketch) else own["all"]
    check(own, of_arrays(columns, columns["number"], weights=columns["w"]))
    assert own._part.clusters.event.n_clusters == 256


@pytest.mark.parametrize("name", ["polars lazy", "duckdb", "ibis"])
def test_minus_0_is_the_cluster_0(name: str) -> None:
    """There are 256 clusters, and 257 floats to name them."""
    number = np.arange(N) % 257 - 1.0
    columns = event(3, c=np.where(number < 0, -0.0, number))
    own = sketch(ENGINES[name](columns), **EVENT, cluster="c")
    check(own, of_arrays(columns, columns["c"]))
    assert own._part.clusters.event.n_clusters == 256


def test_classes_alone_have_no_clusters() -> None:
    frame = pl.DataFrame({"a": [0.5], "b": [0.5], "c": [0.0], "t": [0], "k": [1]})
    with pytest.raises(
        InputError,
        match=r"clusters: expected a notion with one event \('positive' or 'top-label'\), got 'classwise'; pass",
    ):
        sketch(frame, **CLASSES, cluster="k", notion="classwise")


# ---------------------------------------------------------------- parts


@pytest.mark.parametrize("by", [None, "g"])
@pytest.mark.parametrize("name", ["pandas", "polars", "pyarrow"])
def test_a_cluster_may_lie_in_several_blocks(name: str, by: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid_sums, "BLOCK", 301)
    columns = event(300, "number", "g")
    own = sketch(ENGINES[name](columns), **EVENT, cluster="number", by=by)
    expected = of_arrays(columns, columns["number"], groups=columns["g"])
    if by is None:
        check(own, of_arrays(columns, columns["number"]))
    else:
        assert len(own) == 2
        for group, part in own.items():
            check(part, expected._groups[group])


@pytest.mark.parametrize("name", LAZY)
def test_a_sketch_of_a_frame_adds_to_one_of_arrays(name: str) -> None:
    """One part has few clusters, the other many: the sum is that of all rows."""
    columns = event(300, "number")
    few = columns["number"] < 100
    part = {key: values[few] for key, values in columns.items()}
    rest = {key: values[~few] for key, values in columns.items()}
    own = sketch(ENGINES[name](part), **EVENT, cluster="number")
    assert not own._part.clusters.event.pooled
    check(own + of_arrays(rest, rest["number"]), of_arrays(columns, columns["number"]))


def test_numbers_and_text_do_not_add_up() -> None:
    columns = event(3, "number", t=text(rows(3)["number"]))
    one, other = (sketch(pl.DataFrame(columns), **EVENT, cluster=name) for name in ("number", "t"))
    with pytest.raises(InputError, match="clusters: expected labels that are whole numbers, got text"):
        one + other


@pytest.mark.parametrize("name", LAZY)
def test_buckets_come_back_in_slices_where_they_are_many(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[int] = []
    fetch = grid_sums.fetch
    monkeypatch.setattr(grid_sums, "fetch", lambda query: fetched.append(fetch(query)) or fetched[-1])
    monkeypatch.setattr(grid_sums, "MOST", 100_000)
    columns = event(300, "number")
    own = sketch(ENGINES[name](columns), **EVENT, cluster="number")
    check(own, of_arrays(columns, columns["number"]))
    assert len(fetched) == 2 + 3  # 256 x 428 rows, in parts of at most 50,000


@pytest.mark.parametrize("name", LAZY)
def test_what_comes_back_are_coarse_cells(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[Any] = []
    fetch = grid_sums.fetch
    monkeypatch.setattr(grid_sums, "fetch", lambda query: fetched.append(fetch(query)) or fetched[-1])
    rng = np.random.default_rng(6)
    columns = {"p": rng.random(20_000), "y": rng.integers(0, 2, 20_000), "c": np.arange(20_000) % 2}
    sketch(ENGINES[name](columns), **EVENT, cluster="c")
    _, counted, summed = map(len, fetched)
    assert counted == 2
    assert summed < 2 * EVENT_CELLS.n_cells  # and no more than a few scores next to an edge


@pytest.mark.parametrize("name", LAZY)
def test_without_clusters_there_is_one_query(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[int] = []
    collect = nw.LazyFrame.collect
    monkeypatch.setattr(nw.LazyFrame, "collect", lambda self, *args: fetched.append(1) or collect(self, *args))
    assert sketch(ENGINES[name](event(3)), **EVENT)._part.clusters is None
    assert len(fetched) == 1


@pytest.mark.slow
def test_partitions_share_clusters() -> None:
    columns = event(300, "number", "g")
    own = sketch(dask(columns), **EVENT, cluster="number", by="g")
    expected = of_arrays(columns, columns["number"], groups=columns["g"])
    for group, part in own.items():
        check(part, expected._groups[group])


# ---------------------------------------------------------------- labels


def duckdb_in(zone: str, columns: dict[str, Any]) -> Any:
    """Return a relation of a session with a time zone; to set it needs no extension, to convert by it would."""
    connection = duckdb.connect()
    connection.execute(f"SET TimeZone = '{zone}'")
    return connection.from_arrow(pa.table(columns))


def test_a_time_with_a_zone_is_the_same_instant_in_utc() -> None:
    stamps = np.datetime64("2024-01-31T23:30:00", "us") + np.arange(4) * np.timedelta64(90, "m")
    columns = {"p": np.array([0.25, 0.5, 0.75, 0.5]), "y": np.array([0, 1, 1, 0])}
    zoned = pa.array(stamps, pa.timestamp("us", "UTC")).cast(pa.timestamp("us", "Asia/Kolkata"))
    table = pa.table({**columns, "c": zoned})
    for frame in (table, table.to_pandas(), pl.from_arrow(table), duckdb_in("America/New_York", table)):
        check(sketch(frame, **EVENT, cluster="c"), of_arrays(columns, stamps))
    names = joined(np.datetime_as_string(stamps, "s").tolist(), columns["y"].tolist())
    for frame in (table, table.to_pandas(), pl.from_arrow(table), duckdb_in("America/New_York", table)):
        check(sketch(frame, **EVENT, cluster=["c", "y"]), of_arrays(columns, names))
    with pytest.raises(
        InputError, match=r"cluster: expected .*dates or times, got 'c' of type Datetime.*; cast the column"
    ):
        sketch(ibis({**columns, "c": zoned}), **EVENT, cluster="c")


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        *(("duckdb", unit) for unit in ("s", "ms", "ns")),
        ("ibis", "ns"),
        ("pandas", "ns"),
        ("polars lazy", "ns"),
        ("pyarrow", "s"),
    ],
)
def test_times_have_any_unit(name: str, unit: str) -> None:
    stamps = np.array(["1969-12-31T23:59:59", "2024-01-31", "2024-01-31T09:30:10"], f"datetime64[{unit}]")
    stamps[2] += np.timedelta64(1, unit)
    columns = {"p": np.array([0.25, 0.5, 0.75]), "y": np.array([0, 1, 1]), "c": stamps}
    check(sketch(ENGINES[name](columns), **EVENT, cluster="c"), of_arrays(columns, stamps))


@pytest.mark.parametrize("name", ["polars", "polars lazy", "pyarrow", "duckdb", "pandas pyarrow"])
def test_decimals_are_whole_numbers(name: str) -> None:
    values = [2**64 - 1, -(2**63), 0]
    wide = pa.array(list(map(Decimal, values)), pa.decimal128(20, 0))
    small = pa.array([Decimal("3.00"), Decimal("-2.00"), Decimal("0.00")], pa.decimal128(10, 2))
    columns = {"p": pa.array([0.25, 0.5, 0.75]), "y": pa.array([0, 1, 1]), "wide": wide, "small": small}
    data, frame = {"p": [0.25, 0.5, 0.75], "y": [0, 1, 1]}, ENGINES[name](columns)
    check(sketch(frame, **EVENT, cluster="wide"), of_arrays(data, values))
    check(sketch(frame, **EVENT, cluster="small"), of_arrays(data, [3, -2, 0]))
    check(sketch(frame, **EVENT, cluster=["wide", "small"]), of_arrays(data, joined(values, [3, -2, 0])))


@pytest.mark.parametrize(
    "values", [[True, False, True], ["a", 1, "1"], [1, 2, 2**63], [datetime.date(2024, 1, 31)] * 3]
)
def test_python_objects_are_looked_at_one_by_one(values: list[Any]) -> None:
    data = {"p": [0.25, 0.5, 0.75], "y": [0, 1, 1]}
    frame = pd.DataFrame({**data, "c": pd.Series(values, dtype=object)})
    check(sketch(frame, **EVENT, cluster="c"), of_arrays(data, values))


def test_categories_are_text() -> None:
    data = {"p": [0.25, 0.5, 0.75], "y": [0, 1, 1]}
    table = pa.table({**data, "c": pa.array(["a", "é", "a"]).dictionary_encode()})
    for frame in (table, table.to_pandas(), pl.from_arrow(table), pl.from_arrow(table).lazy()):
        check(sketch(frame, **EVENT, cluster="c"), of_arrays(data, ["a", "é", "a"]))
        check(sketch(frame, **EVENT, cluster=["c", "y"]), of_arrays(data, joined(["a", "é", "a"], data["y"])))


def test_a_frame_of_pandas_may_have_any_index() -> None:
    columns = event(200, "number", "g")
    frame = pd.DataFrame(columns, index=np.random.default_rng(7).integers(0, 5, N))
    check(sketch(frame, **EVENT, cluster="number"), of_arrays(columns, columns["number"]))


@pytest.mark.parametrize("name", ["pandas", "polars lazy", "duckdb", "ibis"])
@pytest.mark.slow
def test_columns_may_have_the_names_that_are_used_inside(name: str) -> None:
    columns = event(300)
    names = {"p": "cluster", "y": "hash"}
    labels = {'bucket "k"': rows(300)["number"], "Cluster_": text(rows(300)["number"]), "code": rows(300)["g"]}
    frame = ENGINES[name]({names.get(key, key): values for key, values in (columns | labels).items()})
    for label in list(labels)[:2]:
        own = sketch(frame, score="cluster", outcome="hash", cluster=label, by="code")
        expected = of_arrays(columns, labels[label], groups=labels["code"])
        for group, part in own.items():
            check(part, expected._groups[group])


@pytest.mark.parametrize("name", ["pandas", "polars", "pyarrow", "duckdb"])
def test_a_frame_is_not_changed(name: str) -> None:
    frame = ENGINES[name](event(3, "number", "g"))
    before = list(nw.from_native(frame).columns)
    sketch(frame, **EVENT, cluster="number", by="g")
    assert list(nw.from_native(frame).columns) == before


# ---------------------------------------------------------------- what is no label


def three(**columns: Any) -> dict[str, Any]:
    return {"p": [0.2, 0.4, 0.6], "y": [0, 1, 1], **columns}


@pytest.mark.covering
@pytest.mark.parametrize("name", ["pandas", "polars lazy", "pyarrow", "duckdb"])
@pytest.mark.parametrize("label", [[1, None, None], ["a", None, None], [1.0, math.nan, None]])
def test_missing_labels_are_counted(name: str, label: list[Any]) -> None:
    frame = pa.table(three(c=label)) if name in ("pyarrow", "duckdb", "ibis") else three(c=label)
    places = {"pandas", "polars", "pyarrow"}
    first = ", the first at row 1" if name in places else ""
    match = rf"cluster: expected a label in every row, got missing values \(null or NaN\) in 2 rows{first}; name the"
    for labels in ("c", ["c", "y"]):
        with pytest.raises(InputError, match=match) as caught:
            sketch(ENGINES[name](frame), **EVENT, cluster=labels)
    error = caught.value
    assert error.fault is Fault.MISSING
    assert (error.argument, error.facts.n_rows) == ("cluster", 2)


@pytest.mark.covering
@pytest.mark.parametrize("name", ["pandas", "polars lazy", "pyarrow", "duckdb"])
@pytest.mark.parametrize(
    ("label", "message"),
    [
        (
            [1.0, 1.5, 2.5],
            (
                "expected whole numbers or text, got other values in 2 rows, such as 1.5.*; pass names of "
                "clusters, not measured values"
            ),
        ),
        ([1.0, -math.inf, 2.0], r"expected floats up to 2\^53, got -inf.*; pass integers or text, because larger"),
        (
            [1.0, 2.0**53 + 2, 2.0],
            r"expected floats up to 2\^53, got 9007199254740994.*; pass integers or text, because larger",
        ),
        (np.array([1, 2**24 + 2, 2], np.float32), r"expected floats up to 2\^24, got 16777218.*; pass integers or"),
    ],
)
def test_numbers_that_are_no_labels_are_counted(name: str, label: Any, message: str) -> None:
    frame = three(c=label)
    with pytest.raises(InputError, match=message) as caught:
        sketch(ENGINES[name](pa.table(frame) if name in ("duckdb", "ibis") else frame), **EVENT, cluster="c")
    assert (caught.value.argument, caught.value.fault) == ("cluster", Fault.VALUE)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (pa.array([Decimal("1.50"), Decimal(2), Decimal(3)], pa.decimal128(10, 2)), "whole numbers or text, got 1.5"),
        (pa.array([2**64, 2, 3], pa.decimal128(22, 0)), "whole numbers of at most 64 bits, got"),
        (
            pa.array([2**54, 2, 3], pa.decimal128(22, 2)),
            r"decimals up to 2\^53, got 1.80144e\+16.*; cast the labels to text in the frame first",
        ),
    ],
)
def test_decimals_that_are_no_labels_are_counted(values: pa.Array, message: str) -> None:
    for frame in (pa.table(three(c=values)), duckdb.connect().from_arrow(pa.table(three(c=values)))):
        with pytest.raises(InputError, match=f"cluster: expected {message}"):
            sketch(frame, **EVENT, cluster="c")


@pytest.mark.parametrize("name", SOME)
def test_a_row_of_weight_0_has_a_label_too(name: str) -> None:
    frame = ENGINES[name](three(c=np.array([1.5, 1.0, 2.0]), w=np.array([0, 1, 1])))
    with pytest.raises(InputError, match=r"cluster: expected whole numbers or text, got 1.5"):
        sketch(frame, **EVENT, cluster="c", weight="w")


@pytest.mark.parametrize("name", SOME)
def test_only_weights_of_0_judge_nothing(name: str) -> None:
    frame = ENGINES[name](three(c=np.array([1, 1, 2]), w=np.array([0, 0, 0])))
    with pytest.raises(InputError, match="weight: expected at least one weight above 0"):
        sketch(frame, **EVENT, cluster="c", weight="w")


@pytest.mark.parametrize("name", MORE)
def test_an_empty_frame_is_refused(name: str) -> None:
    columns = {"p": np.zeros(0), "y": np.zeros(0, np.int64), "c": np.zeros(0, np.int64)}
    with pytest.raises(InputError, match="frame: expected at least one row, got no rows"):
        sketch(ENGINES[name](columns), **EVENT, cluster="c")


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        ("z", "cluster: expected a column of the frame, got 'z'"),
        (7, "cluster: expected the name of a column, got 7"),
        ([], "cluster: expected a column, or a list of columns, got an empty list"),
        (["y", "y"], "cluster: expected a list of different columns, got 'y' more than once"),
        ("lists", r"cluster: expected a column of whole numbers, text, dates or times, got 'lists' of type List"),
        (
            "spans",
            (
                "cluster: expected a column .* got 'spans' of type Duration.*; cast the column to text in "
                "the frame first"
            ),
        ),
        (
            "bytes",
            ("cluster: expected a column .* got 'bytes' of type Binary; cast the column to text in the frame first"),
        ),
    ],
)
@pytest.mark.parametrize("lazy", [True, False])
def test_columns_that_name_no_clusters_are_refused(cluster: Any, message: str, lazy: bool) -> None:
    columns = three(lists=[[1]] * 3, spans=[datetime.timedelta(1)] * 3, bytes=[b"a"] * 3)
    frame = pl.DataFrame(columns).lazy() if lazy else pl.DataFrame(columns)
    with pytest.raises(InputError, match=message):
        sketch(frame, **EVENT, cluster=cluster)


@pytest.mark.parametrize("value", [(1, 2), [1], object()])
def test_objects_that_are_no_labels_are_refused(value: Any) -> None:
    frame = pd.DataFrame(three(c=pd.Series([value, 1, 2], dtype=object)))
    with pytest.raises(
        InputError, match=r"cluster: expected whole numbers or text, got .*; convert the labels to text"
    ):
        sketch(frame, **EVENT, cluster="c")
    with pytest.raises(InputError, match=r"cluster: expected a column .* got 'c' of unknown type|of type Object; cast"):
        sketch(frame, **EVENT, cluster=["c", "y"])


def test_an_engine_that_cannot_hash_says_so() -> None:
    library = pytest.importorskip("ibis", reason="needs ibis")
    table = library.polars.connect({"t": pl.DataFrame(three(c=[1, 2, 3]))}).table("t")
    with pytest.raises(InputError, match=r"cluster: expected a table of pandas, .*, got Ibis on polars; convert"):
        clusters.with_hashes(nw.from_native(table), found(table))


def found(frame: Any) -> Any:
    from calibrant.frames.columns import resolve_columns

    names = dict.fromkeys(("probs", "target", "weight", "by", "class_names"))
    return resolve_columns(nw.from_native(frame), score="p", outcome="y", cluster="c", **names)


# ---------------------------------------------------------------- arithmetic


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20))
@at_most(100)
def test_halves_of_32_bits_are_split_mix(numbers: list[int]) -> None:
    values: dict[str, int] = {}
    bits = clusters.BitOperations(values.__getitem__, operator.and_, operator.xor, operator.rshift)
    for number, expected in zip(numbers, mix64(np.array(numbers, np.uint64)).tolist(), strict=True):
        values |= {"high": number >> 32, "low": number % 2**32}
        for step in clusters.split_mix(values.__getitem__, bits):
            assert all(0 <= value < 2**52 for value in step.values())
            values |= step
        assert values["high"] << 32 | values["low"] == expected


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("coarse", [EVENT_CELLS, CLASS_CELLS], ids=["event", "class"])
def test_keys_find_the_coarse_cells_of_scores(coarse: CoarseCells, dtype: type) -> None:
    edges = coarse.edges.astype(dtype)
    ends = np.array([0.0, 1.0, 0.5, np.finfo(dtype).tiny], dtype)
    p = np.concatenate([edges, np.nextafter(edges, dtype(0)), np.nextafter(edges, dtype(1)), ends])
    single = dtype is np.float32
    options = {"good": nw.lit(True), "fault": nw.lit(grid_sums.WRONG), "outcomes": False}
    chain, key = grid_sums.key_of(coarse, single=single, **options)
    frame = nw.from_native(pl.LazyFrame({"p": p.astype(np.float64)}))
    for step in chain:
        frame = frame.with_columns(**step)
    keys = frame.select(key=key).collect().get_column("key").to_numpy()
    found_cells = grid_sums.cells_of(keys, coarse, single=single).cells
    assert np.array_equal(found_cells, coarse.of_scores(p))


def test_labels_that_an_engine_takes_for_equal_do_not_spoil_the_buckets() -> None:
    """A collation may count fewer labels than there are hashes: the buckets are then folded."""
    columns = event(300)
    number = rows(300)["number"]
    names = [("A" if k < 150 else "a") + str(k % 150) for k in number.tolist()]
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (p DOUBLE, y BIGINT, c VARCHAR COLLATE NOCASE)")
    connection.register("made", pa.table({**columns, "c": names}))
    connection.execute("INSERT INTO t SELECT * FROM made")
    own = sketch(connection.table("t"), **EVENT, cluster="c")
    check(own, of_arrays(columns, names))
