"""Sketches of frames of PySpark, in a Spark of this machine: the same cells as those of arrays.

What is said in test_frames.py of counts and sums holds here too. Run with: pytest -m spark
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calibrant import CalibrationSketch
from calibrant.errors import InputError
from calibrant.frames import columns, grid_sums, sketch
from tests.frames.test_frames import CLASSES, EVENT, check_same, classes, events, of_arrays, stacked
from tests.frames.test_frames_clusters import (
    check,
    dates,
    event,
    floats,
    joined,
    negative,
    text,
    times,
    unsigned,
    whole,
)
from tests.frames.test_frames_clusters import of_arrays as of_clusters
from tests.frames.test_frames_clusters import rows as rows_in

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    # PySpark 4.0 leaves the socket through which a result came to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
]


CLUSTERS = [(whole, 3), (negative, 300), (unsigned, 300), (floats, 200), (text, 300), (dates, 3), (times, 300)]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    sql = pytest.importorskip("pyspark.sql", reason="needs pyspark: install the extra spark")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("needs Java 17 or later")
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = sql.SparkSession.builder.master("local[2]").appName("calibrant")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def table(spark: Any, tmp_path: Path) -> Any:
    """Make a frame of columns that lie in a file of several parts: generated code reads it, as it does at any size."""

    def made(columns: dict[str, Any]) -> Any:
        rows = pa.table(columns)
        for k in range(2):
            part = rows.slice(k * len(rows) // 2, (k + 1) * len(rows) // 2 - k * len(rows) // 2)
            pq.write_table(part, tmp_path / f"part-{k}.parquet")
        return spark.read.parquet(str(tmp_path))

    return made


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("notion", ["positive", "top-label"])
def test_a_frame_has_the_cells_of_its_arrays(table, dtype, notion) -> None:
    rows = events(dtype)
    own = sketch(table({"p": rows["p"], "y": rows["y"]}), **EVENT, notion=notion)
    check_same(own, of_arrays(rows["p"], rows["y"], notion=notion))


def test_a_frame_has_the_fine_cells_of_its_arrays(table) -> None:
    rows = events(np.float64, "fine")
    own = sketch(table({"p": rows["p"], "y": rows["y"]}), **EVENT, grid="fine")
    check_same(own, of_arrays(rows["p"], rows["y"], grid="fine"))


@pytest.mark.parametrize("weight", ["whole", "broken"])
def test_a_frame_has_the_weights_of_its_arrays(table, weight) -> None:
    rows = events(np.float64)
    own = sketch(table(rows), **EVENT, weight=weight)
    check_same(own, of_arrays(rows["p"], rows["y"], rows[weight]), whole=weight == "whole")


@pytest.mark.parametrize(("labels", "n_clusters"), CLUSTERS)
def test_a_frame_has_the_buckets_of_its_arrays(table, labels, n_clusters) -> None:
    columns = event(n_clusters, c=labels(rows_in(n_clusters)["number"]))
    check(sketch(table(columns), **EVENT, cluster="c"), of_clusters(columns, columns["c"]))


def test_groups_have_their_buckets_and_several_columns_name_a_cluster(table) -> None:
    """One group has more clusters than buckets, the other has not."""
    number = rows_in(300)["number"]
    columns = event(300, "g", "w", t=text(number), i=number % 7 - 3, d=dates(number))
    own = sketch(table(columns), **EVENT, cluster=["t", "i", "d"], by="g", weight="w")
    names = joined(columns["t"], columns["i"], columns["d"].astype(str).tolist())
    expected = of_clusters(columns, names, weights=columns["w"], groups=columns["g"])
    assert {group: part._part.clusters.event.pooled for group, part in own.items()} == {"few": False, "many": True}
    for group, part in own.items():
        check(part, expected.groups[group])


def test_times_do_not_depend_on_the_zone_of_the_session(spark, table) -> None:
    stamps = np.datetime64("2024-03-10T05:30:00", "us") + np.arange(6) * np.timedelta64(30, "m")
    columns = {"p": np.arange(6) / 8, "y": np.array([0, 1, 1, 0, 1, 0])}
    frame = table({**columns, "c": pa.array(stamps, pa.timestamp("us", "UTC")), "local": stamps - 10_800_000_000})
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")  # its clocks skip an hour meanwhile
    try:
        check(sketch(frame, **EVENT, cluster="c"), of_clusters(columns, stamps))
        check(sketch(frame, **EVENT, cluster="local"), of_clusters(columns, stamps - 10_800_000_000))
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


def test_classes_have_their_buckets(table) -> None:
    rng = np.random.default_rng(5)
    a, b = rng.integers(0, 33, (2, 900)) / 64
    columns = {"a": a, "b": b, "c": 1 - a - b, "t": rng.integers(0, 3, 900), "number": rows_in(40)["number"]}
    expected = CalibrationSketch(classwise=True)
    expected.update(stacked(columns), columns["t"], clusters=columns["number"])
    check(sketch(table(columns), **CLASSES, cluster="number", classwise=True), expected)


def test_a_frame_without_a_file_is_no_different(spark) -> None:
    rows = events(np.float64)
    frame = spark.createDataFrame(pa.table({"p": rows["p"], "y": rows["y"] == 1}))
    check_same(sketch(frame, **EVENT), of_arrays(rows["p"], rows["y"]))


def test_classes_in_groups_are_one_query(table, monkeypatch) -> None:
    rows = classes(np.float32)
    fetched = []
    collect = nw.LazyFrame.collect
    monkeypatch.setattr(nw.LazyFrame, "collect", lambda self, *args: fetched.append(1) or collect(self, *args))
    own = sketch(table(rows), **CLASSES, weight="w", by="g", classwise=True)
    assert len(fetched) == 1
    assert list(own) == ["east", "north", "south"]
    for name, part in own.items():
        here = rows["g"] == name
        expected = of_arrays(stacked(rows)[here], rows["t"][here], rows["w"][here], classwise=True)
        check_same(part, expected, whole=False)


def test_targets_may_be_names(table) -> None:
    rows, names = classes(np.float64), ["ant", "bee", "cat"]
    target = np.array(names)[rows["t"]]
    frame = table({**{name: rows[name] for name in "abc"}, "t": target})
    make = {"class_names": names, "notion": "classwise"}
    check_same(sketch(frame, **CLASSES, **make), of_arrays(stacked(rows), target, **make))


def test_the_sketch_of_a_union_is_the_sum_of_its_parts(spark) -> None:
    rows = events(np.float32)
    parts = [
        spark.createDataFrame(pa.table({"p": rows["p"][cut], "y": rows["y"][cut]}))
        for cut in (slice(0, 5000), slice(5000, None))
    ]
    both = sketch(parts[0].union(parts[1]), **EVENT)
    check_same(sum(sketch(part, **EVENT) for part in parts), both)


def test_the_plan_reads_once_and_joins_nothing(table) -> None:
    frame = nw.from_native(table({"p": np.random.default_rng(1).random(1000), "y": np.ones(1000, np.int64)}))
    found = columns.resolve_columns(frame, **EVENT, probs=None, target=None, weight=None, by=None, class_names=None)
    wanted = columns.resolve_config(found, None, False, "standard")
    (query,) = grid_sums.queries(frame, found, wanted, lazy=True)
    plan = nw.to_native(query)._jdf.queryExecution().executedPlan().toString()
    assert plan.count("FileScan") == 1
    assert plan.count("Exchange") == 1
    assert "Join" not in plan


def test_what_comes_back_are_cells(table, monkeypatch) -> None:
    fetched = []
    fetch = grid_sums.fetch
    monkeypatch.setattr(grid_sums, "fetch", lambda query: fetched.append(fetch(query)) or fetched[-1])
    p = np.random.default_rng(2).random(100_000)
    own = sketch(table({"p": p, "y": (p > 0.3).astype(np.int64)}), **EVENT)
    assert own.n == 100_000
    assert [len(part) <= 4396 for part in fetched] == [True]  # of either outcome about half of the cells


@pytest.mark.parametrize("name", ["a.b", "a`b", "*"])
def test_a_name_that_is_a_path_to_spark_is_refused(spark, name) -> None:
    frame = spark.createDataFrame(pa.table({name: [0.5, 0.2], "y": [1, 0]}))
    with pytest.raises(InputError, match=r"score: expected a name that identifies one column in this engine.*; rename"):
        sketch(frame, score=name, outcome="y")


def test_one_of_two_columns_of_a_name_is_no_choice(spark) -> None:
    frame = spark.sql("SELECT a.p, b.p, a.y FROM (SELECT 0.2D p, 0 y) a, (SELECT 0.3D p) b")
    with pytest.raises(
        InputError,
        match=("score: expected one column with this name, got several 'p'; rename the columns in the frame first"),
    ):
        sketch(frame, **EVENT)


def test_nothing_is_left_in_the_session(spark, table) -> None:
    sketch(table({"p": [0.5, 0.2], "y": [1, 0]}), **EVENT)
    assert spark.catalog.listTables() == []


@pytest.mark.parametrize(
    ("rows", "more", "message"),
    [
        ({"p": [0.1, 1.5, 2.5], "y": [0, 1, 1]}, {}, r"score: expected values in \[0, 1\], got other values in 2 rows"),
        ({"p": [0.1, None, float("nan")], "y": [0, 1, 1]}, {}, r"score: .* missing values \(null or NaN\) in 2 rows;"),
        ({"p": [0.1, 0.2, 0.3], "y": [0, None, 1]}, {}, r"outcome: .* missing values \(null or NaN\) in 1 row;"),
        ({"p": [0.1, 0.2, 0.3], "y": [0, 1, 1], "w": [1.0, -1.0, 1.0]}, {"weight": "w"}, "weight: .* got -1; correct"),
        ({"a": [0.1, 0.2], "b": [0.2, 0.2], "c": [0.7, 0.5], "t": [0, 1]}, {}, "probs: .* sum to 1 .* got 0.9; divide"),
    ],
)
def test_wrong_rows_are_counted_and_named(table, rows, more, message) -> None:
    with pytest.raises(InputError, match=message):
        sketch(table(rows), **(CLASSES if "a" in rows else EVENT), **more)


def test_an_empty_frame_and_a_column_that_is_not_there_are_refused(table) -> None:
    frame = table({"p": np.zeros(0), "y": np.zeros(0, np.int64)})
    with pytest.raises(InputError, match="frame: expected at least one row, got no rows"):
        sketch(frame, **EVENT)
    with pytest.raises(InputError, match=r"outcome: expected a column of the frame, got 'Y'; did you mean 'y'\?"):
        sketch(frame, score="p", outcome="Y")
