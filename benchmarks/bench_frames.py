"""2e7 rows of Parquet to a sketch by DuckDB, against SQL by hand; and by other frames.

The SQL by hand gives the same cells to the bit, and the same exact sums. There are three queries, each written as well
as we can. One uses arithmetic, as `calibrant.frames` does, but with DuckDB's own functions and without any check of the
rows. One joins a prepared table of the edges in each of 5,796 equal parts of the square root. One uses DuckDB's ASOF
join with the edges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from contest import Contest, Goal
from samples import binary

from calibrant import CalibrationSketch, frames
from calibrant.frames import grid_sums as frame_cells
from calibrant.table import grid as grids

N = 20_000_000
EVENT = {"score": "p", "outcome": "y"}
PARTS = 4096  # of a unit of the square root: each has two edges at most
HALF = 2898  # parts up to the square root of a half
PRECISIONS = {"float32": np.float32, "float64": np.float64}


@pytest.fixture(scope="module")
def rows(quick: bool) -> dict[str, dict[str, np.ndarray]]:
    """Write scores in both precisions; the float64 scores are not rounded to float32."""
    sample = binary(N // 10 if quick else N)
    noise = np.random.default_rng(1).normal(0, 1e-3, len(sample.probs))
    wide = 1 / (1 + np.exp(noise - sample.logits))
    outcomes = sample.targets.astype(np.int8)
    return {"float32": {"p": sample.probs, "y": outcomes}, "float64": {"p": wide, "y": outcomes}}


@pytest.fixture(scope="module")
def files(
    rows: dict[str, dict[str, np.ndarray]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Path]]:
    folder = tmp_path_factory.mktemp("frames")
    made = {name: folder / f"{name}.parquet" for name in rows}
    for name, columns in rows.items():
        pq.write_table(pa.table(columns), made[name], row_group_size=2**20)
    yield made
    for file in made.values():
        file.unlink()


@pytest.fixture(scope="module")
def quick(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--quick"))


# ---------------------------------------------------------------- SQL by hand

SUMS = "count(*) AS n, sum(p) AS s, sum(p * p) AS q, sum(b) AS b, sum(b * b) AS bb, sum(l) AS l, sum(l * l) AS ll"


def arithmetic(source: str, precision: str) -> str:
    """Return the query that finds cells as `calibrant.frames.grid_sums` does: the key that `cells_of` reads."""
    depth = "m"
    if precision == "float32":
        below = "(p + (p * (1 - 2.0::DOUBLE ** -24))::FLOAT::DOUBLE) * 0.5::DOUBLE"
        depth = f"u * (m + (m > 0)::DOUBLE * 2.0::DOUBLE ** -25) + (1 - u) * {below}"
    series = f"(d * {frame_cells.arcsine()[-1]!r}::DOUBLE + {frame_cells.arcsine()[-2]!r}::DOUBLE)"
    for coefficient in frame_cells.arcsine()[-3::-1]:
        series = f"({series} * d + {coefficient!r}::DOUBLE)"
    near = f"{frame_cells.NEAR!r}::DOUBLE"
    return f"""
        SELECT k, {SUMS}
        FROM (SELECT p, b, -ln(p_y + (p_y = 0)::DOUBLE) AS l,
                     CASE WHEN hi = lo THEN ((lo + i) * 2 + u) * 2 + y + {frame_cells.DECIDED!r}::DOUBLE
                          ELSE (1 - 2 * y) * p END AS k
              FROM (SELECT *, floor(x + {near}) + floor(z + {near}) AS hi,
                           floor(abs(x - {near})) + floor(abs(z - {near})) AS lo
                    FROM (SELECT *, sqrt(d) * {2 * 4096 / np.pi!r}::DOUBLE * {series} AS x, d * 300::DOUBLE AS z
                          FROM (SELECT *, {depth} AS d, (m > 0)::DOUBLE AS i
                                FROM (SELECT *, abs(1 - y - p) AS p_y, abs(u - p) AS m, (p - y) * (p - y) AS b
                                      FROM (SELECT p::DOUBLE AS p, y::DOUBLE AS y, (p >= 0.5)::DOUBLE AS u
                                            FROM {source}))))))
        GROUP BY k"""


def edge_parts(precision: str) -> pa.Table:
    """Return the first cell and the edges of each part of sqrt(min(p, 1 - p)), below a half and above."""
    edges = grids.edges("standard").astype(PRECISIONS[precision]).astype(np.float64)
    bounds = (np.arange(HALF + 1) / PARTS) ** 2
    ends = [(0.0, 0.5, bounds[:-1], bounds[1:]), (0.5, 1.0, 1 - bounds[1:], 1 - bounds[:-1])]
    starts, inner_edges = [], []
    for least, most, low, high in ends:  # a part may be wider by rounding
        first = np.searchsorted(edges, np.clip(low - 1e-15, least, most))
        last = np.searchsorted(edges, np.clip(high + 1e-15, least, most), side="right")
        starts += first.tolist()
        inner_edges += [edges[a:b].tolist() for a, b in zip(first, last, strict=True)]
    assert max(map(len, inner_edges)) <= 2
    first, second = ([[*part_edges, 2.0, 2.0][k] for part_edges in inner_edges] for k in range(2))
    return pa.table({"part": np.arange(2 * HALF), "start": np.array(starts, float), "e1": first, "e2": second})


def joined(source: str) -> str:
    return f"""
        SELECT (start + (p > e1)::DOUBLE + (p > e2)::DOUBLE + (p = 1)::DOUBLE) * 2 + y AS k, {SUMS}
        FROM (SELECT p, y, b, -ln(p_y + (p_y = 0)::DOUBLE) AS l,
                     (floor(sqrt(abs(u - p)) * {PARTS}) + u * {HALF})::INT AS part
              FROM (SELECT *, abs(1 - y - p) AS p_y, (p - y) * (p - y) AS b
                    FROM (SELECT p::DOUBLE AS p, y::DOUBLE AS y, (p >= 0.5)::DOUBLE AS u FROM {source})))
        JOIN parts USING (part)
        GROUP BY k"""


def asof(source: str) -> str:
    return f"""
        SELECT (j + (p = 1)::DOUBLE) * 2 + y AS k, {SUMS}
        FROM (SELECT p, y, (p - y) * (p - y) AS b, -ln(p_y + (p_y = 0)::DOUBLE) AS l
              FROM (SELECT *, abs(1 - y - p) AS p_y FROM (SELECT p::DOUBLE AS p, y::DOUBLE AS y FROM {source})))
        ASOF JOIN edges ON p <= e
        GROUP BY k"""


def answered(
    table: dict[str, np.ndarray], precision: str, *, keyed: bool
) -> tuple[np.ndarray, np.ndarray, dict[str, float]]:
    """Return counts and sums by cell and outcome, and the exact sums, from the result of SQL by hand."""
    if keyed:
        decoded = frame_cells.cells_of(table["k"], "standard", single=precision == "float32")
        cells, outcomes = decoded.cells, decoded.outcomes
    else:
        cells, outcomes = np.divmod(table["k"].astype(np.int64), 2)
    size = len(grids.edges("standard")) + 1
    counts, sums = np.zeros((size, 2), np.int64), np.zeros((size, 3))
    np.add.at(counts, (cells, outcomes), table["n"])
    np.add.at(sums, (cells, outcomes), table["s"])
    np.add.at(sums[:, 2], cells, table["q"])
    return counts, sums, {name: float(table[name].sum()) for name in ("b", "bb", "l", "ll")}


def check(sketch: CalibrationSketch, counts: np.ndarray, sums: np.ndarray, exact: dict[str, float]) -> None:
    (sketch_counts,), (sketch_sums,) = sketch._part.curves.counts, sketch._part.curves.sums
    assert np.array_equal(sketch_counts, counts)
    np.testing.assert_allclose(sketch_sums, sums, rtol=1e-12)
    totals = sketch.totals
    ours = (totals.brier, totals.brier_square, totals.nll, totals.nll_square)
    np.testing.assert_allclose(ours, [exact[name] for name in ("b", "bb", "l", "ll")], rtol=1e-12)


def within_of(peer: str, number: float) -> Goal:
    return Goal(f"≤ {number:g} × {peer}", lambda medians: medians.ours <= number * medians.peers[peer])


@pytest.mark.parametrize("precision", PRECISIONS)
def test_duckdb(contest: Contest, files: dict[str, Path], rows: dict[str, Any], precision: str) -> None:
    connection = duckdb.connect()
    source = f"read_parquet('{files[precision]}')"
    connection.register("parts_table", edge_parts(precision))
    connection.execute("CREATE TABLE parts AS SELECT part::INT AS part, start, e1, e2 FROM parts_table")
    edges = grids.edges("standard").astype(PRECISIONS[precision]).astype(np.float64)
    connection.register("edges_table", pa.table({"e": edges, "j": np.arange(len(edges), dtype=float)}))
    connection.execute("CREATE TABLE edges AS FROM edges_table")
    queries = {"arithmetic": arithmetic(source, precision), "join": joined(source), "ASOF": asof(source)}

    def by_hand(query: str) -> Callable[[], dict[str, np.ndarray]]:
        return lambda: connection.execute(query).fetchnumpy()

    n = len(rows[precision]["p"])
    answers = contest(
        f"DuckDB, {n:,} rows of Parquet, {precision}, to a sketch; floor: both columns summed; peers: SQL by hand",
        lambda: frames.sketch(connection.read_parquet(str(files[precision])), **EVENT),
        floor=lambda: connection.execute(f"SELECT sum(p), sum(y) FROM {source}").fetchall(),
        peers={name: by_hand(query) for name, query in queries.items()},
        goals=[within_of("arithmetic", 1.3), within_of("join", 1.3)],
        rounds=9,
        peer_rounds=9,
    )
    arrays = CalibrationSketch()
    arrays.update(rows[precision]["p"], rows[precision]["y"])
    curves, totals = arrays._part.curves, arrays.totals
    exact = {"b": totals.brier, "bb": totals.brier_square, "l": totals.nll, "ll": totals.nll_square}
    check(answers.ours, curves.counts[0], curves.sums[0], exact)
    for name, table in answers.peers.items():
        check(answers.ours, *answered(table, precision, keyed=name == "arithmetic"))


def test_polars(contest: Contest, files: dict[str, Path]) -> None:
    scan = pl.scan_parquet(files["float64"])
    answers = contest(
        "Polars, lazy: the same file of float64; peer: DuckDB",
        lambda: frames.sketch(scan, **EVENT),
        floor=lambda: scan.sum().collect(),
        peers={"DuckDB": lambda: frames.sketch(duckdb.read_parquet(str(files["float64"])), **EVENT)},
        rounds=5,
        peer_rounds=5,
    )
    assert np.array_equal(answers.ours._part.curves.counts, answers.peers["DuckDB"]._part.curves.counts)


def test_pandas(contest: Contest, rows: dict[str, Any]) -> None:
    frame = pd.DataFrame({name: column[:2_000_000] for name, column in rows["float64"].items()})

    def arrays() -> CalibrationSketch:
        sketch = CalibrationSketch()
        sketch.update(frame["p"], frame["y"])
        return sketch

    answers = contest(
        f"pandas, {len(frame):,} rows in memory, float64; peer: `CalibrationSketch.update` of its columns",
        lambda: frames.sketch(frame, **EVENT),
        floor=frame["p"].to_numpy(),
        peers={"update": arrays},
        rounds=5,
        peer_rounds=5,
    )
    assert np.array_equal(answers.ours._part.curves.counts, answers.peers["update"]._part.curves.counts)
