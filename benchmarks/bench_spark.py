"""2e7 rows of Parquet to a sketch by Spark on this machine, against Spark SQL by hand.

The SQL by hand gives the same cells to the bit and the same exact sums. One query uses the arithmetic of
`calibrant.frames` without any check of the rows, one a broadcast join with a prepared table of edges.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bench_frames import EVENT, HALF, PARTS, SUMS, N, answered, check, edge_parts, within_of
from contest import Contest
from samples import binary

from calibrant import CalibrationSketch, frames
from calibrant.frames import grid_sums as frame_cells

FILES = 4
WARM = 4  # runs before the clock starts: the machine that Spark runs on compiles what is hot


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    sql = pytest.importorskip("pyspark.sql", reason="needs pyspark: install the extra spark")
    if shutil.which("java") is None:
        pytest.skip("needs Java 17 or later")
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "4g",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = sql.SparkSession.builder.master("local[*]").appName("calibrant")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="module")
def rows(request: pytest.FixtureRequest) -> dict[str, np.ndarray]:
    sample = binary(N // 10 if request.config.getoption("--quick") else N)
    noise = np.random.default_rng(1).normal(0, 1e-3, len(sample.probs))
    return {"p": 1 / (1 + np.exp(noise - sample.logits)), "y": sample.targets.astype(np.int8)}


def arithmetic(source: str) -> str:
    """Return the query that finds cells as `calibrant.frames.grid_sums` does: the key that `cells_of` reads."""
    series = f"(m * {frame_cells.arcsine()[-1]!r}D + {frame_cells.arcsine()[-2]!r}D)"
    for coefficient in frame_cells.arcsine()[-3::-1]:
        series = f"({series} * m + {coefficient!r}D)"
    near = f"{frame_cells.NEAR!r}D"
    return f"""
        SELECT k, {SUMS}
        FROM (SELECT p, b, -ln(p_y + cast(p_y = 0 AS DOUBLE)) AS l,
                     CASE WHEN hi = lo THEN ((lo + i) * 2D + u) * 2D + y + {frame_cells.DECIDED!r}D
                          ELSE (1D - 2D * y) * p END AS k
              FROM (SELECT *, floor(x + {near}) + floor(z + {near}) AS hi,
                           floor(abs(x - {near})) + floor(abs(z - {near})) AS lo
                    FROM (SELECT *, sqrt(m) * {2 * 4096 / np.pi!r}D * {series} AS x, m * 300D AS z,
                                 cast(m > 0 AS DOUBLE) AS i
                          FROM (SELECT *, abs(1D - y - p) AS p_y, abs(u - p) AS m, (p - y) * (p - y) AS b
                                FROM (SELECT p, cast(y AS DOUBLE) AS y, cast(p >= 0.5D AS DOUBLE) AS u
                                      FROM {source})))))
        GROUP BY k"""


def joined(source: str) -> str:
    return f"""
        SELECT (start + cast(p > e1 AS DOUBLE) + cast(p > e2 AS DOUBLE) + cast(p = 1 AS DOUBLE)) * 2D + y AS k, {SUMS}
        FROM (SELECT p, y, b, -ln(p_y + cast(p_y = 0 AS DOUBLE)) AS l,
                     cast(floor(sqrt(abs(u - p)) * {PARTS}D) + u * {HALF}D AS BIGINT) AS part
              FROM (SELECT *, abs(1D - y - p) AS p_y, (p - y) * (p - y) AS b
                    FROM (SELECT p, cast(y AS DOUBLE) AS y, cast(p >= 0.5D AS DOUBLE) AS u FROM {source})))
        JOIN parts USING (part)
        GROUP BY k"""


def test_spark(contest: Contest, spark: Any, rows: dict[str, np.ndarray], tmp_path: Path) -> None:
    n = len(rows["p"])
    for k in range(FILES):
        part = {name: column[k * n // FILES : (k + 1) * n // FILES] for name, column in rows.items()}
        pq.write_table(pa.table(part), tmp_path / f"part-{k}.parquet", row_group_size=2**20)
    frame = spark.read.parquet(str(tmp_path))
    frame.createOrReplaceTempView("scores")
    spark.createDataFrame(edge_parts("float64")).cache().createOrReplaceTempView("parts")

    def by_hand(query: str) -> Callable[[], dict[str, np.ndarray]]:
        def run() -> dict[str, np.ndarray]:
            table = spark.sql(query).toArrow()
            return {name: table[name].to_numpy() for name in table.column_names}

        return run

    peers = {"arithmetic": by_hand(arithmetic("scores")), "join": by_hand(joined("scores"))}

    def ours() -> CalibrationSketch:
        return frames.sketch(frame, **EVENT)

    for _ in range(WARM):
        for call in (ours, *peers.values()):
            call()
    answers = contest(
        f"Spark, {n:,} rows of Parquet, float64, to a sketch; floor: both columns summed; peers: Spark SQL by hand",
        ours,
        floor=lambda: spark.sql("SELECT sum(p), sum(y) FROM scores").toArrow(),
        peers=peers,
        goals=[within_of(name, 1.3) for name in peers],
        rounds=9,
        peer_rounds=9,
    )
    arrays = CalibrationSketch()
    arrays.update(rows["p"], rows["y"])
    curves, totals = arrays._part.curves, arrays.totals
    exact = {"b": totals.brier, "bb": totals.brier_square, "l": totals.nll, "ll": totals.nll_square}
    check(answers.ours, curves.counts[0], curves.sums[0], exact)
    for name, table in answers.peers.items():
        check(answers.ours, *answered(table, "float64", keyed=name == "arithmetic"))
