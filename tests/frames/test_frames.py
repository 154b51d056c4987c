"""Sketches of frames: the same cells as those of arrays, to the bit, whatever engine holds the rows.

Counts are held to equality. Sums are of some thousand terms that are all of one sign, added up in another order than
that of the arrays: they agree to 1e-12 of themselves. The Brier score of classes, a difference of numbers near 1, is
off by some 1e-15 a row whoever works it out.
"""

from __future__ import annotations

import copy
import datetime
import decimal
import math
import re
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import duckdb
import hypothesis.strategies as st
import mpmath
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from pyarrow import ipc

import calibrant
from calibrant import CalibrationSketch
from calibrant.errors import InputError, MissingDependencyError, NothingJudgedError
from calibrant.errors.exceptions import install_command
from calibrant.errors.faults import Fault, Mistake
from calibrant.files import Options, read_predictions
from calibrant.frames import grid_sums, rows, sketch
from calibrant.sketch.totals import SQUARED
from calibrant.table import grid as grids
from tests.examples_of import at_most
from tests.samples import draw, sketch_of

# Narwhals 2.29 announces that Dask will need a package of its own, narwhals-dask.
pytestmark = pytest.mark.filterwarnings("ignore:Dask support is moving out of Narwhals:FutureWarning")

SUMS = 1e-12
BOTH = (np.float64, np.float32)
EVENT = {"score": "p", "outcome": "y"}
CLASSES = {"probs": ["a", "b", "c"], "target": "t"}
NAN = math.nan


# ---------------------------------------------------------------- engines


def nullable(columns: dict) -> pd.DataFrame:
    kinds = {"i": "Int64", "f": "Float64", "b": "boolean"}
    frame = pd.DataFrame(columns)
    own = {k: "Float32" if v.dtype == np.float32 else kinds.get(v.dtype.kind) for k, v in frame.items()}
    return frame.astype({k: kind for k, kind in own.items() if kind is not None})


own_connection = cache(duckdb.connect)


def relation(columns: dict) -> duckdb.DuckDBPyRelation:
    """Make a relation of a connection that is not the module's."""
    return own_connection().from_arrow(pa.table(columns))


def dask(columns: dict) -> object:
    library = pytest.importorskip("dask.dataframe", reason="needs dask")
    return library.from_pandas(pd.DataFrame(columns), npartitions=2)


def ibis(columns: dict) -> object:
    return pytest.importorskip("ibis", reason="needs ibis").memtable(pa.table(columns))


ENGINES: dict[str, Callable[[dict], object]] = {
    "pandas": pd.DataFrame,
    "pandas nullable": nullable,
    "pandas pyarrow": lambda columns: pa.table(columns).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.DataFrame,
    "polars lazy": pl.LazyFrame,
    "pyarrow": pa.table,
    "duckdb": relation,
    "ibis": ibis,
    "dask": dask,
}
EAGER = ("pandas", "pandas nullable", "pandas pyarrow", "polars", "pyarrow")
QUICK = tuple(
    name for name in ENGINES if name not in ("ibis", "dask")
)  # those take a second for what others do at once
ALL = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in ENGINES]
LAZY = [each for each in ALL if each.values[0] in ("polars lazy", "duckdb", "ibis", "dask")]
SOME = ("polars", "duckdb")


@pytest.fixture(params=ALL)
def engine(request: pytest.FixtureRequest) -> Callable[[dict], object]:
    return ENGINES[request.param]


@pytest.fixture(params=QUICK)
def quick_engine(request: pytest.FixtureRequest) -> Callable[[dict], object]:
    return ENGINES[request.param]


@pytest.fixture(params=SOME)
def one_of_some(request: pytest.FixtureRequest) -> str:
    return request.param


# ---------------------------------------------------------------- data and comparison


@cache
def scores(dtype: type, grid: grids.Grid = "standard") -> np.ndarray:
    """Every edge, its neighbours, both ends, the smallest scores there are, and some drawn at random."""
    edges = grids.edges(grid).astype(dtype)
    rng = np.random.default_rng(5)
    small = 10.0 ** rng.uniform(-320 if dtype is np.float64 else -44, 0, 500)
    ends = np.array([0.0, -0.0, 1.0, 0.5, np.finfo(dtype).tiny, np.finfo(dtype).smallest_subnormal])
    every = [edges, np.nextafter(edges, dtype(0)), np.nextafter(edges, dtype(1)), ends, small, 1 - small]
    every += [rng.random(500), np.arange(101) / 100]
    made = np.concatenate([part.astype(dtype) for part in every])
    made.setflags(write=False)
    return made


@cache
def events(dtype: type, grid: grids.Grid = "standard") -> dict[str, np.ndarray]:
    p = scores(dtype, grid)
    rng = np.random.default_rng(6)
    columns = {
        "p": p,
        "y": (rng.random(len(p)) < 0.5).astype(np.int64),
        "whole": rng.integers(0, 4, len(p)),
        "broken": rng.exponential(size=len(p)) * (rng.random(len(p)) < 0.9),
    }
    columns["y"][np.isin(p, (0.0, 1.0))] ^= 1  # some of the sure ones are wrong
    return columns


@cache
def classes(dtype: type) -> dict[str, np.ndarray]:
    """Three classes, with ties, certainties and errors of certainties among them."""
    rng = np.random.default_rng(7)
    probs = rng.dirichlet(np.full(3, 0.4), 700).astype(dtype)
    probs[:20] = 1 / 3
    probs[20:40] = [0.4, 0.4, 0.2]
    probs[40:60] = [0.0, 1.0, 0.0]
    target = rng.integers(0, 3, len(probs))
    group = np.array(["north", "south", "east"])[rng.integers(0, 3, len(probs))]
    return {**dict(zip("abc", probs.T.copy(), strict=True)), "t": target, "g": group, "w": rng.exponential(size=700)}


def of_arrays(probs: np.ndarray, targets: np.ndarray, weights: np.ndarray | None = None, **make) -> CalibrationSketch:
    made = CalibrationSketch(**make)
    made.update(probs, targets, weights=weights)
    return made


def stacked(columns: dict) -> np.ndarray:
    return np.stack([columns[name] for name in "abc"], axis=1)


def check_same(own: CalibrationSketch, other: CalibrationSketch, *, whole: bool = True) -> None:
    """Hold a sketch of a frame to that of the arrays: all that a sketch is made of."""
    assert own._make == other._make
    mine, theirs = own._part.curves, other._part.curves
    assert np.array_equal(mine.rows, theirs.rows)
    assert mine.counts.dtype == theirs.counts.dtype
    assert (mine.squares is None) == (theirs.squares is None)
    if whole:
        assert np.array_equal(mine.counts, theirs.counts)
    else:
        assert np.array_equal(mine.counts > 0, theirs.counts > 0)
        np.testing.assert_allclose(mine.counts, theirs.counts, rtol=SUMS, atol=0)
    np.testing.assert_allclose(mine.sums, theirs.sums, rtol=SUMS, atol=0)
    if mine.squares is not None:
        np.testing.assert_allclose(mine.squares, theirs.squares, rtol=SUMS, atol=0)
    ours, expected = own.totals, other.totals
    assert (ours.n, ours.whole) == (expected.n, expected.whole)
    slack = 0 if own.layout == "binary" else 2e-15 * ours.n
    for name in ("weight", "square_weight", "quartic_weight", "entries", "correct", "infinite", "nll", "nll_square"):
        assert getattr(ours, name) == pytest.approx(
            getattr(expected, name), rel=SUMS if name[0] == "n" or not whole else 0
        )
    for name in ("brier", "brier_square", *(f"squared_{name}" for name in SQUARED)):
        assert getattr(ours, name) == pytest.approx(getattr(expected, name), rel=SUMS, abs=slack)


# ---------------------------------------------------------------- the same cells


@pytest.mark.covering
@pytest.mark.parametrize("dtype", BOTH)
@pytest.mark.parametrize("notion", ["positive", "top-label"])
def test_a_frame_has_the_cells_of_its_arrays(engine, dtype, notion) -> None:
    columns = events(dtype)
    own = sketch(engine({"p": columns["p"], "y": columns["y"]}), **EVENT, notion=notion)
    check_same(own, of_arrays(columns["p"], columns["y"], notion=notion))
    assert own.totals.infinite >= 2


@pytest.mark.parametrize("dtype", BOTH)
@pytest.mark.parametrize("name", ["polars lazy", "duckdb"])
def test_a_frame_has_the_fine_cells_of_its_arrays(name, dtype) -> None:
    columns = events(dtype, "fine")
    own = sketch(ENGINES[name]({"p": columns["p"], "y": columns["y"]}), **EVENT, grid="fine")
    check_same(own, of_arrays(columns["p"], columns["y"], grid="fine"))


@pytest.mark.covering
@pytest.mark.parametrize("weight", ["whole", "broken"])
def test_a_frame_has_the_weights_of_its_arrays(engine, weight) -> None:
    columns = events(np.float64)
    own = sketch(engine(columns), **EVENT, weight=weight)
    check_same(own, of_arrays(columns["p"], columns["y"], columns[weight]), whole=weight == "whole")
    assert own.totals.whole == (weight == "whole")


def test_whole_weights_may_be_floats(quick_engine) -> None:
    """They are copies of rows up to 2^53 in all, as in arrays."""
    for most, whole in ((2.0**52, True), (2.0**60, False)):
        weights = np.array([1.0, 0.0, 3.0, most])
        columns = {"p": np.array([0.1, 0.2, 0.3, 0.4]), "y": np.array([0, 1, 1, 0]), "w": weights}
        own = sketch(quick_engine(columns), **EVENT, weight="w")
        check_same(own, of_arrays(columns["p"], columns["y"], weights))
        assert own.totals.whole is whole


@pytest.mark.covering
@pytest.mark.parametrize("make", [{}, {"classwise": True}, {"notion": "classwise"}], ids=str)
@pytest.mark.parametrize("dtype", BOTH)
@pytest.mark.parametrize("name", QUICK)
def test_a_frame_has_the_classes_of_its_arrays(name, dtype, make) -> None:
    columns = classes(dtype)
    own = sketch(ENGINES[name]({key: columns[key] for key in "abct"}), **CLASSES, **make)
    check_same(own, of_arrays(stacked(columns), columns["t"], **make))
    assert own.totals.infinite > 0


@pytest.mark.parametrize("name", ["pandas", "polars", "polars lazy", "duckdb", "ibis", "dask"])
@pytest.mark.slow
def test_weighted_classes_in_groups(name) -> None:
    columns = classes(np.float64)
    own = sketch(ENGINES[name](columns), **CLASSES, weight="w", by="g", classwise=True)
    assert list(own) == ["east", "north", "south"]
    for name, part in own.items():
        here = columns["g"] == name
        expected = of_arrays(stacked(columns)[here], columns["t"][here], columns["w"][here], classwise=True)
        check_same(part, expected, whole=False)


@pytest.mark.parametrize("dtype", BOTH)
def test_the_second_of_two_classes_may_be_the_event(one_of_some, dtype) -> None:
    p = scores(dtype)[:5000]
    probs, target = np.stack([1 - p, p], axis=1).astype(dtype), events(dtype)["y"][:5000]
    frame = ENGINES[one_of_some]({"a": probs[:, 0].copy(), "b": probs[:, 1].copy(), "t": target})
    for make in ({"notion": "positive"}, {"notion": "positive", "classwise": True}):
        check_same(sketch(frame, probs=["a", "b"], target="t", **make), of_arrays(probs, target, **make))


def test_many_classes_are_no_deep_expression(one_of_some) -> None:
    probs = np.random.default_rng(8).dirichlet(np.full(150, 0.1), 200)
    target = np.random.default_rng(9).integers(0, 150, 200)
    frame = ENGINES[one_of_some]({**{f"p{k}": probs[:, k].copy() for k in range(150)}, "t": target})
    own = sketch(frame, probs=[f"p{k}" for k in range(150)], target="t")
    check_same(own, of_arrays(probs, target))


@pytest.mark.parametrize("name", EAGER)
def test_a_frame_in_memory_may_be_cut_anywhere(name, monkeypatch) -> None:
    monkeypatch.setattr(grid_sums, "BLOCK", 4999)
    columns = events(np.float64)
    own = sketch(ENGINES[name](columns), **EVENT, weight="whole")
    check_same(own, of_arrays(columns["p"], columns["y"], columns["whole"]))


@pytest.mark.parametrize("kind", ["float16", "int8", "uint8", "bool"])
def test_numbers_of_other_types(kind) -> None:
    p = np.random.default_rng(1).random(500)
    p = p.astype(np.float16) if kind == "float16" else np.rint(p).astype(np.int8)
    y = np.random.default_rng(2).integers(0, 2, 500).astype("int64" if kind == "float16" else kind)
    for name in ("pandas", "polars", "polars lazy", "pyarrow"):
        check_same(sketch(ENGINES[name]({"p": p, "y": y}), **EVENT), of_arrays(p, y))


def test_half_precision_classes() -> None:
    columns = classes(np.float16)
    for name in ("pandas", "polars", "pyarrow"):
        own = sketch(ENGINES[name]({key: columns[key] for key in "abct"}), **CLASSES)
        check_same(own, of_arrays(stacked(columns), columns["t"]))


def test_decimals_are_read_as_float64() -> None:
    own = sketch(
        duckdb.connect().sql("SELECT (i / 1000)::DECIMAL(5, 3) AS p, i % 2 AS y FROM range(1001) t(i)"), **EVENT
    )
    check_same(own, of_arrays(np.arange(1001) / 1000, np.arange(1001) % 2))


def test_columns_of_both_precisions_are_read_as_float64() -> None:
    columns = dict(classes(np.float64)) | {"a": classes(np.float32)["a"]}
    own = sketch(pl.DataFrame({name: columns[name] for name in "abct"}), **CLASSES)
    check_same(own, of_arrays(np.stack([columns[name].astype(float) for name in "abc"], axis=1), columns["t"]))


# ---------------------------------------------------------------- names, groups, weights


def test_outcomes_may_be_booleans_or_floats_or_names(quick_engine) -> None:
    p, y = np.array([0.2, 0.9, 0.5]), np.array([0, 1, 1])
    expected = of_arrays(p, y)
    check_same(sketch(quick_engine({"p": p, "y": y == 1}), **EVENT), expected)
    check_same(sketch(quick_engine({"p": p, "y": y.astype(float)}), **EVENT), expected)
    words = quick_engine({"p": p, "y": ["lost", "won", "won"]})
    own = sketch(words, **EVENT, class_names=["lost", "won"])
    check_same(own, of_arrays(p, np.array(["lost", "won", "won"]), class_names=["lost", "won"]))


def test_targets_may_be_names(quick_engine) -> None:
    columns, names = classes(np.float64), ["ant", "bee", "cat"]
    target = np.array(names)[columns["t"]]
    own = sketch(
        quick_engine({**{name: columns[name] for name in "abc"}, "t": target.tolist()}),
        **CLASSES,
        class_names=names,
        classwise=True,
    )
    check_same(own, of_arrays(stacked(columns), target, class_names=names, classwise=True))


@pytest.mark.parametrize("name", ["polars", "pandas"])
def test_names_may_be_categories(name) -> None:
    words = ["no", "yes", "yes"]
    column = pl.Series(words, dtype=pl.Categorical) if name == "polars" else pd.Categorical(words)
    own = sketch(ENGINES[name]({"p": [0.2, 0.9, 0.5], "y": column}), **EVENT, by="y", class_names=["no", "yes"])
    assert {group: part.n for group, part in own.items()} == {"no": 1, "yes": 2}
    assert own["yes"].totals.correct == 2


@pytest.mark.covering
@pytest.mark.parametrize(
    ("groups", "names"),
    [
        (["b", "a", "b"], ["a", "b"]),
        ([2, 1, 2], ["1", "2"]),
        ([2.0, 1.0, 2.0], ["1", "2"]),
        ([2.5, 1.0, 2.5], ["1", "2.5"]),
        ([True, False, True], ["False", "True"]),
        (
            [datetime.date(2026, 2, 1), datetime.date(2025, 1, 1), datetime.date(2026, 2, 1)],
            ["2025-01-01", "2026-02-01"],
        ),
    ],
)
def test_groups_are_named_as_those_of_arrays(one_of_some, groups, names) -> None:
    own = sketch(ENGINES[one_of_some]({"p": [0.2, 0.9, 0.5], "y": [0, 1, 1], "g": groups}), **EVENT, by="g")
    assert list(own) == names
    assert [part.n for part in own.values()] == [1, 2]
    if not isinstance(groups[0], datetime.date):
        arrays = sketch_of([0.2, 0.9, 0.5], [0, 1, 1], groups=groups)
        for name, part in arrays.groups.items():
            check_same(own[name], part)


def test_rows_of_weight_0_are_left_out_whatever_they_say(quick_engine) -> None:
    columns = {"p": [0.2, 7.0, 0.5], "y": [0, 1, 1], "w": [1.0, 0.0, 2.0], "g": ["a", "b", "a"]}
    own = sketch(quick_engine(columns), **EVENT, weight="w")
    check_same(own, of_arrays(np.array([0.2, 0.5]), np.array([0, 1]), np.array([1.0, 2.0])))
    assert list(sketch(quick_engine(columns), **EVENT, weight="w", by="g")) == ["a"]


def test_only_weights_of_0_judge_nothing(quick_engine) -> None:
    frame = quick_engine({"p": [0.2, 0.5], "y": [0, 1], "w": [0, 0]})
    with pytest.raises(NothingJudgedError, match="weight: expected at least one weight above 0, got only weights of 0"):
        sketch(frame, **EVENT, weight="w")


# ---------------------------------------------------------------- laws


NEAR_EDGES = st.integers(0, 4394).flatmap(
    lambda j: st.sampled_from([grids.edges("standard")[j] * s for s in (1 - 2**-52, 1.0, 1 + 2**-52)])
)
ROWS = st.lists(
    st.tuples(
        NEAR_EDGES.map(lambda p: min(p, 1.0)) | st.floats(0, 1), st.integers(0, 1), st.integers(0, 3), st.integers(0, 2)
    ),
    min_size=1,
    max_size=30,
)


@at_most(40)
@given(ROWS, st.sampled_from(["polars lazy", "pyarrow"]), st.sampled_from(["positive", "top-label"]), st.booleans())
def test_the_sketch_of_a_frame_is_that_of_its_arrays_and_the_sum_of_its_parts(data, name, notion, single) -> None:
    p, y, w, part = (np.array(column) for column in zip(*data, strict=True))
    p, w = p.astype(np.float32 if single else np.float64), w + 1
    columns = {"p": p, "y": y, "w": w, "part": part}
    whole = sketch(ENGINES[name](columns), **EVENT, weight="w", notion=notion)
    check_same(whole, of_arrays(p, y, w, notion=notion))
    groups = sketch(ENGINES[name](columns), **EVENT, weight="w", notion=notion, by="part")
    alone = [
        sketch(
            ENGINES[name]({key: value[part == k] for key, value in columns.items()}), **EVENT, weight="w", notion=notion
        )
        for k in np.unique(part)
    ]
    for parts in (list(groups.values()), alone):
        check_same(sum(parts), whole)


def test_a_sketch_of_a_frame_adds_to_one_of_arrays_and_measures_alike() -> None:
    p, y = draw(3, 2000, lambda p: p**1.2)
    both = sketch(pl.DataFrame({"p": p[:700], "y": y[:700]}).lazy(), **EVENT)
    both.update(p[700:], y[700:])
    check_same(both, of_arrays(p, y))
    ece = calibrant.expected_calibration_error(p, y)
    assert calibrant.expected_calibration_error(both) == pytest.approx(ece, rel=1e-12)
    assert calibrant.negative_log_likelihood(both) == pytest.approx(calibrant.negative_log_likelihood(p, y), rel=1e-12)


# ---------------------------------------------------------------- where the work is done


@pytest.mark.parametrize("name", LAZY)
def test_lazy_frames_hand_over_their_cells_and_nothing_else(monkeypatch, name: str) -> None:
    rng = np.random.default_rng(4)
    p = rng.random(50_000)
    fetched = []
    collect = nw.LazyFrame.collect

    def counted(self, *args, **kwargs):
        table = collect(self, *args, **kwargs)
        fetched.append(table.shape)
        return table

    monkeypatch.setattr(nw.LazyFrame, "collect", counted)
    for dtype in BOTH:
        sketch(ENGINES[name]({"p": p.astype(dtype), "y": rng.integers(0, 2, len(p))}), **EVENT)
        (shape,) = fetched
        assert shape[0] <= 2 * 4396 + 5
        fetched.clear()


def test_a_lazy_frame_is_worked_out_once() -> None:
    looks = []
    source = pl.LazyFrame({"p": [0.2, 0.9], "y": [0, 1]})
    own = sketch(
        source.map_batches(lambda frame: looks.append(len(frame)) or frame, schema=source.collect_schema()), **EVENT
    )
    assert own.n == 2
    assert looks == [2]


@pytest.mark.parametrize("name", LAZY[:3])
def test_classes_of_a_lazy_frame_are_one_query(monkeypatch, name: str) -> None:
    columns = classes(np.float64)
    fetched = []
    collect = nw.LazyFrame.collect
    monkeypatch.setattr(nw.LazyFrame, "collect", lambda self, *args: fetched.append(1) or collect(self, *args))
    sketch(ENGINES[name]({key: columns[key] for key in "abct"}), **CLASSES, classwise=True)
    assert len(fetched) == 1


def test_nothing_is_written_to_a_database() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE games AS SELECT 0.5 AS p, 1 AS y, 'a' AS g")
    own = sketch(connection.table("games"), **EVENT, by="g")
    assert own["a"].n == 1
    assert connection.execute("SELECT table_name FROM duckdb_tables()").fetchall() == [("games",)]
    assert connection.execute("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchall() == [(0,)]


@pytest.mark.parametrize("name", EAGER)
def test_a_frame_is_not_changed(name) -> None:
    frame = ENGINES[name]({"p": [0.2, 0.9], "y": [0, 1], "key": [1, 2]})
    before = copy.deepcopy(frame)
    sketch(frame, **EVENT, by="key")
    assert before.equals(frame)


def test_columns_may_have_the_names_that_are_used_inside(one_of_some) -> None:
    columns = {"far": [0.2, 0.9], "key": [0, 1], "p": ["x", "y"], "y": [5.0, NAN], "good": [2, 3], "n": ["g", "h"]}
    frame = ENGINES[one_of_some](columns)
    own = sketch(frame, score="far", outcome="key", weight="good", by="n")
    assert {name: part.totals.weight for name, part in own.items()} == {"g": 2, "h": 3}


def test_a_frame_of_pandas_may_have_any_index() -> None:
    frame = pd.DataFrame({"p": [0.2, 0.9, 0.5], "y": [0, 1, 1]}, index=[7, 7, 3])
    check_same(sketch(frame, **EVENT), of_arrays(np.array([0.2, 0.9, 0.5]), np.array([0, 1, 1])))


# ---------------------------------------------------------------- what is refused: rows


def wrong(message: str, place: int | tuple[int] | list[int], *, more: dict | None = None, **columns: list) -> object:
    """A frame with wrong rows. The place is [1] for "(row 1)", (1,) for "the first at row 1", 1 for "at row 1"."""
    return pytest.param(columns, more or {}, message, place, id=message[:60])


P = [0.1, 0.2, 0.5]
Y = [0, 0, 1]
WEIGHTED = {"weight": "w"}
NAMED = {"class_names": ["no", "yes"]}
MISSING = "got missing values (null or NaN) in"
OUT = "score: expected values in [0, 1], got"
LABEL = f"outcome: expected a label in every row, {MISSING}"
WEIGHT = "weight: expected finite numbers, 0 or larger, got"
GROUP = f"by: expected a name in every row, {MISSING}"
INDEX = "target: expected class indices 0 to 2, got"
WRONG_ROWS = [
    wrong(OUT + " other values in 2 rows, such as 1.5{}; if they are logits", 2, p=[0.1, 0.2, 1.5, -3.0], y=[0] * 4),
    wrong(
        OUT + " inf{}; if they are logits, compute the probabilities in the frame first (1 / (1 + exp(-x)))",
        1,
        p=[0.1, math.inf],
        y=[0, 1],
    ),
    wrong(OUT + " 1.00001{}; clip the values to [0, 1] in the frame if", 1, p=[0.1, 1.00001], y=[0, 1]),
    wrong(OUT + " other values in 3 rows, such as 10{}; the values look like percent", 0, p=[10.0, 20.0, 50.0], y=Y),
    wrong(
        f"score: expected numbers in every row, {MISSING} 2 rows{{}}; filter the rows out",
        (1,),
        p=[0.1, None, 0.5, NAN],
        y=[0] * 4,
    ),
    wrong(LABEL + " 1 row{}; filter the rows out", [1], p=P, y=[0, None, 1]),
    wrong(LABEL + " 2 rows{}; filter the rows out", (0,), p=P, y=[NAN, NAN, 1.0]),
    wrong(LABEL + " 1 row{}; filter the rows", [2], p=P, y=["no", "yes", None], more=NAMED),
    wrong(
        "outcome: expected outcomes 0 or 1, got other values in 2 rows, such as 2{}; map the outcomes",
        1,
        p=P,
        y=[0, 2, -1],
    ),
    wrong("outcome: expected outcomes 0 or 1, got 0.5{}; pass outcomes", 1, p=P, y=[0.0, 0.5, 1.0]),
    wrong(
        "outcome: expected names from class_names, got 'yess'{}; did you mean 'yes'?",
        1,
        p=P,
        y=["no", "yess", "no"],
        more=NAMED,
    ),
    wrong(WEIGHT[:-3] + MISSING + " 1 row{}; correct the rows", [1], p=P, y=Y, w=[1.0, NAN, 1.0], more=WEIGHTED),
    wrong(WEIGHT[:-3] + MISSING + " 2 rows{}; correct", (0,), p=P, y=Y, w=[None, 1.0, None], more=WEIGHTED),
    wrong(WEIGHT + " -2{}; correct the rows, or filter them out", 2, p=P, y=Y, w=[1.0, 0.0, -2.0], more=WEIGHTED),
    wrong(
        WEIGHT + " other values in 2 rows, such as inf{}; correct", 1, p=P, y=Y, w=[1.0, math.inf, -2.0], more=WEIGHTED
    ),
    wrong(GROUP + " 1 row{}; fill the missing names in the frame", [1], p=P, y=Y, g=["a", None, "b"], more={"by": "g"}),
    wrong(GROUP + " 1 row{}; fill the missing names in the frame", [1], p=P, y=Y, g=[1.0, NAN, 2.0], more={"by": "g"}),
    wrong(
        "probs: expected rows that sum to 1 within 0.001, got 0.9{}; divide each row by its sum",
        1,
        a=[0.1, 0.2],
        b=[0.2, 0.2],
        c=[0.7, 0.5],
        t=[0, 1],
    ),
    wrong(
        INDEX + " 3{}; subtract 1 if the labels are 1-based, or name the column of every class in probs",
        1,
        a=[0.1, 0.2],
        b=[0.2, 0.2],
        c=[0.7, 0.6],
        t=[1, 3],
    ),
    wrong(
        INDEX + " -1{}; name the column of every class in probs, or filter the rows",
        0,
        a=[0.1, 0.2],
        b=[0.2, 0.2],
        c=[0.7, 0.6],
        t=[-1, 0],
    ),
    wrong(INDEX + " 1.5{}; name the column", 1, a=[0.1, 0.2], b=[0.2, 0.2], c=[0.7, 0.6], t=[0.0, 1.5]),
    wrong(
        f"probs: expected numbers in every row, {MISSING} 1 row{{}}, in column 'b'; filter the rows out",
        [1],
        a=[0.1, 0.2],
        b=[0.2, NAN],
        c=[0.7, 0.6],
        t=[0, 1],
    ),
    wrong(
        f"probs: expected numbers in every row, {MISSING} 2 rows{{}}, in column 'a'; filter the rows out",
        (0,),
        a=[None, 0.3],
        b=[0.2, 0.1],
        c=[0.7, None],
        t=[0, 1],
    ),
    wrong(
        (
            "probs: expected values in [0, 1], got other values in 2 rows, such as 1.1{} in column 'b'; "
            "if they are logits, compute the probabilities in the frame first (softmax of the row)"
        ),
        0,
        a=[0.1, 0.2],
        b=[1.1, 1.2],
        c=[-0.2, -0.4],
        t=[0, 1],
        more={"classwise": True},
    ),
    wrong(
        ("probs: expected values in [0, 1], got other values in 2 rows, such as 10{} in column 'a'; the values look"),
        0,
        a=[10.0, 20.0],
        b=[20.0, 40.0],
        c=[70.0, 40.0],
        t=[0, 1],
    ),
    wrong(
        "target: expected names from class_names, got 'q'{}; choose from 'x', 'y', 'z'",
        1,
        a=[0.1, 0.2],
        b=[0.2, 0.2],
        c=[0.7, 0.6],
        t=["x", "q"],
        more={"class_names": ["x", "y", "z"]},
    ),
]


def where(place: int | tuple[int] | list[int]) -> tuple[int, str]:
    """Return the row, and how a message names it."""
    if isinstance(place, list):
        return place[0], f" (row {place[0]})"
    return (place[0], f", the first at row {place[0]}") if isinstance(place, tuple) else (place, f" at row {place}")


def check_refused(name: str, columns: dict, more: dict, message: str, place: int | tuple[int] | list[int]) -> None:
    row, words = where(place)
    with pytest.raises(InputError, match=re.escape(message.format(words if name in EAGER else ""))) as caught:
        sketch(ENGINES[name](columns), **(CLASSES if "a" in columns else EVENT), **more)
    assert caught.value.row == (row if name in EAGER else None)


@pytest.mark.covering
@pytest.mark.parametrize("name", ["polars", "pandas", "duckdb"])
@pytest.mark.parametrize(("columns", "more", "message", "place"), WRONG_ROWS)
def test_wrong_rows_are_counted_and_named(name, columns, more, message, place) -> None:
    check_refused(name, columns, more, message, place)


@pytest.mark.parametrize("name", ["pandas nullable", "pandas pyarrow", "polars lazy", "pyarrow", "ibis", "dask"])
@pytest.mark.slow
def test_other_engines_find_wrong_rows_too(name) -> None:
    for case in (WRONG_ROWS[4], WRONG_ROWS[14]):
        check_refused(name, *case.values)


def test_missing_booleans_are_counted(one_of_some) -> None:
    with pytest.raises(
        InputError,
        match=(
            r"outcome: expected a label in every row, got missing values .* in "
            "2 rows"
        ),
    ):
        sketch(ENGINES[one_of_some]({"p": [0.1, 0.2, 0.5], "y": [True, None, None]}), **EVENT)


def test_of_several_faults_the_first_is_told_for_all_rows() -> None:
    columns = {"p": [7.0, None, 0.5, 0.5], "y": [1, None, None, 1], "w": [1.0, 1.0, 1.0, -1.0]}
    with pytest.raises(InputError, match=r"outcome: .* in 2 rows, the first at row 1"):
        sketch(pl.DataFrame(columns), **EVENT, weight="w")
    with pytest.raises(InputError, match=r"weight: .* got -1 at row 3"):
        sketch(pl.DataFrame({**columns, "y": [1, 1, 1, 1]}), **EVENT, weight="w")


def test_the_row_is_that_of_the_whole_frame(monkeypatch) -> None:
    monkeypatch.setattr(grid_sums, "BLOCK", 10)
    p = np.full(35, 0.5)
    p[[23, 31, 32]] = 2.0
    with pytest.raises(InputError, match="other values in 3 rows, such as 2 at row 23") as caught:
        sketch(pl.DataFrame({"p": p, "y": np.ones(35, int)}), **EVENT)
    assert caught.value.row == 23


def test_an_empty_frame_is_refused(engine) -> None:
    with pytest.raises(
        InputError, match="frame: expected at least one row, got no rows; check the frame, or the filter before it"
    ):
        sketch(engine({"p": np.zeros(0), "y": np.zeros(0, np.int64)}), **EVENT)


def test_too_many_groups_are_refused(one_of_some, monkeypatch) -> None:
    monkeypatch.setattr(grid_sums, "MOST", 20)
    frame = ENGINES[one_of_some]({"p": [0.5] * 30, "y": [1] * 30, "g": list(range(30))})
    with pytest.raises(
        InputError,
        match=r"at most 20 combinations of a group and a grid cell \(interval of scores\), got more, because of the "
        "groups in 'g'",
    ):
        sketch(frame, **EVENT, by="g")
    frame = ENGINES[one_of_some]({"p": grids.edges("standard")[1000:1030], "y": [1] * 30})
    with pytest.raises(
        InputError, match="score: expected at most 20 distinct scores very close to edges of grid cells, got more"
    ):
        sketch(frame, **EVENT)


# ---------------------------------------------------------------- what is refused: arguments

FACTS = [
    ({"p": [0.1, 1.5], "y": [0, 1]}, Fault.OUTSIDE_RANGE, Mistake.LOGITS, (1, 0)),
    ({"p": [0.1, 1.0001], "y": [0, 1]}, Fault.OUTSIDE_RANGE, Mistake.ROUNDING, (1, 0)),
    ({"p": [10.0, 90.0], "y": [0, 1]}, Fault.OUTSIDE_RANGE, Mistake.PERCENT, (0, 0)),
    ({"p": [0.1, None], "y": [0, 1]}, Fault.MISSING, None, (1, 0)),
    ({"p": [0.1, 0.2], "y": [None, 1]}, Fault.MISSING, None, (0, None)),
    ({"p": [0.1, 0.2], "y": [0, 2]}, Fault.OUTCOMES, None, (1, None)),
    ({"p": [0.1, 0.2], "y": [0, 0.5]}, Fault.OUTCOMES, Mistake.PROBABILITY_TARGETS, (1, None)),
    ({"p": [0.1, 0.2], "y": [0, 1], "w": [1.0, -1.0]}, Fault.WEIGHT, None, (1, None)),
    ({"p": [0.1, 0.2], "y": [0, 1], "w": [1.0, None]}, Fault.MISSING, None, (1, None)),
    ({"a": [0.1, 0.5], "b": [0.9, 0.4], "c": [0.0, 0.0], "t": [0, 1]}, Fault.ROW_SUM, None, (1, None)),
    ({"a": [0.1, 1.2], "b": [0.9, 0.4], "c": [0.0, 0.0], "t": [0, 1]}, Fault.OUTSIDE_RANGE, Mistake.LOGITS, (1, 0)),
    (
        {"a": [0.1, 0.6], "b": [0.9, 0.4], "c": [0.0, 0.0], "t": [0, 3]},
        Fault.CLASS_INDICES,
        Mistake.ONE_BASED,
        (1, None),
    ),
    ({"a": [0.1, 0.6], "b": [0.9, 0.4], "c": [0.0, 0.0], "t": [0, 4]}, Fault.CLASS_INDICES, None, (1, None)),
    ({"p": ["low"], "y": [1]}, Fault.COLUMN_TYPE, None, (None, None)),
    ({"p": [[0.5]], "y": [1]}, Fault.COLUMN_TYPE, Mistake.NESTED, (None, None)),
    ({"p": [0.5], "y": ["yes"]}, Fault.LABEL_NAMES, None, (None, None)),
]


@pytest.mark.parametrize(("columns", "fault", "mistake", "place"), FACTS)
def test_an_error_of_a_frame_says_in_values_what_is_wrong(columns, fault, mistake, place) -> None:
    more = {"weight": "w"} if "w" in columns else {}
    with pytest.raises(InputError) as caught:
        sketch(pl.DataFrame(columns, strict=False), **(CLASSES if "a" in columns else EVENT), **more)
    error = caught.value
    assert (error.fault, error.facts.mistake, (error.row, error.column)) == (fault, mistake, place)


GAMES = {"p": [0.2, 0.9], "won": [0, 1], "a": [0.2, 0.5], "b": [0.8, 0.5], "site": ["x", "y"], "both": [[0.2], [0.9]]}
ONE = {"score": "p", "outcome": "won"}
TWO = {"probs": ["a", "b"], "target": "won"}
REFUSED = [
    ({}, "score: expected the name of a column, got None; pass score='...' and outcome='...' for one event, or probs="),
    ({"score": "p"}, "outcome: expected the name of a column, got None"),
    ({"probs": ["a", "b"]}, "target: expected the name of a column, got None"),
    ({"target": "won"}, "probs: expected the name of a column, got None"),
    ({**ONE, "target": "won"}, "score: expected columns for one event or for classes, got columns for both"),
    ({**TWO, "outcome": "won"}, "outcome: expected columns for one event or for classes, got columns for both"),
    ({**ONE, "score": "q"}, "score: expected a column of the frame, got 'q'; choose from 'p', 'won', 'a', 'b'"),
    ({**ONE, "outcome": "wonn"}, "outcome: expected a column of the frame, got 'wonn'; did you mean 'won'?"),
    ({**ONE, "weight": "sites"}, "weight: expected a column of the frame, got 'sites'; did you mean 'site'?"),
    ({**ONE, "by": "sites"}, "by: expected a column of the frame, got 'sites'; did you mean 'site'?"),
    ({**TWO, "probs": ["a", "B"]}, "probs: expected a column of the frame, got 'B'; did you mean 'b'?"),
    ({**ONE, "score": 0}, "score: expected the name of a column, got 0; pass the name as a string"),
    ({**TWO, "probs": "ab"}, "probs: expected a list of columns, one for each class, got 'ab'; pass a list"),
    ({**TWO, "probs": 3}, "probs: expected a list of columns, one for each class, got 3"),
    ({**TWO, "probs": ["a"]}, "probs: expected at least two columns, got 1; for one event, pass score="),
    ({**TWO, "probs": ["a", "b", "a"]}, "probs: expected a different column for each class, got 'a' more than once"),
    ({**ONE, "score": "site"}, "score: expected a column of numbers, got 'site' of type String; cast the column"),
    ({**ONE, "score": "both"}, "score: expected a column of numbers, got 'both' of type List(Float64); make one"),
    ({**ONE, "outcome": "site"}, "outcome: expected numbers or booleans, got 'site' of type String; pass class_names"),
    ({**TWO, "target": "site"}, "target: expected numbers or booleans, got 'site' of type String; pass class_names"),
    ({**ONE, "outcome": "both"}, "outcome: expected numbers, booleans or names, got 'both' of type List(Float64)"),
    ({**ONE, "weight": "site"}, "weight: expected a column of numbers, got 'site' of type String"),
    ({**ONE, "by": "both"}, "by: expected a column of names, got 'both' of type List(Float64)"),
    ({**ONE, "grid": "coarse"}, "grid: expected one of 'standard', 'fine', got 'coarse'"),
    ({**ONE, "notion": "top"}, "'multilabel', got 'top'; did you mean 'top-label'"),
    ({**ONE, "notion": "multilabel"}, "'positive', 'top-label' or 'classwise' for a frame, got 'multilabel'; make a"),
    (
        {**ONE, "notion": "classwise"},
        "notion: expected a notion for one event, 'positive' or 'top-label', got 'classwise'",
    ),
    ({**ONE, "classwise": True}, "classwise: expected False for one event, got True; pass the columns of all classes"),
    ({**ONE, "classwise": 1}, "classwise: expected True or False, got 1"),
    ({**TWO, "probs": ["a", "b", "p"], "notion": "positive"}, "expected 'top-label' or 'classwise' for 3 classes"),
    ({**ONE, "class_names": "no"}, "class_names: expected a list of names, got 'no'"),
    ({**ONE, "class_names": ["no"]}, "class_names: expected 2 names, one per class, got 1"),
    ({**ONE, "class_names": ["no", "no"]}, "class_names: expected distinct names, got 'no' more than once"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_arguments_that_do_not_fit_are_refused_before_a_row_is_read(arguments, message) -> None:
    frame = pl.LazyFrame(GAMES).map_batches(lambda _: pytest.fail("read"), schema=pl.DataFrame(GAMES).schema)
    with pytest.raises(InputError, match=re.escape(message)):
        sketch(frame, **arguments)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (None, "got None; pass arrays to CalibrationSketch.update"),
        ([0.5], "got a list; pass arrays to CalibrationSketch.update"),
        (np.zeros(3), "got a ndarray; pass arrays"),
        (
            "games.parquet",
            "got a str; first read the file with an engine, such as duckdb.read_parquet or polars.scan_parquet",
        ),
        (pd.Series([0.5]), "got a Series; pass the whole frame"),
        (pd.DataFrame([[1, 2]], columns=["p", "p"]), "got an unreadable frame .*; rename the columns of the frame"),
    ],
)
def test_what_is_no_frame_is_refused(frame, message) -> None:
    with pytest.raises(InputError, match=f"frame: expected a frame of pandas, Polars, .*, {message}"):
        sketch(frame, **EVENT)


def test_a_connection_is_no_frame() -> None:
    with pytest.raises(InputError, match="got a DuckDBPyConnection; pass a table of the connection"):
        sketch(duckdb.connect(), **EVENT)


def test_columns_of_nothing_known_are_refused() -> None:
    with pytest.raises(
        InputError, match=r"expected a column of numbers, got 'p' of unknown type \(only nulls, or objects\)"
    ):
        sketch(pl.DataFrame({"p": [None], "y": [1]}), **EVENT)


def test_an_engine_that_lacks_pyarrow_says_so(monkeypatch) -> None:
    frame = relation({"p": [0.5], "y": [1]})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    needed = f"pyarrow is needed to fetch the results .* {re.escape(install_command('report'))}"
    with pytest.raises(MissingDependencyError, match=needed):
        sketch(frame, **EVENT)


def test_the_import_loads_no_engine() -> None:
    heavy = "{'pandas', 'polars', 'pyarrow', 'duckdb', 'dask', 'ibis', 'pyspark', 'numba', 'scipy'}"
    code = f"import sys, calibrant.frames; print({{name.partition('.')[0] for name in sys.modules}} & {heavy})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


# ---------------------------------------------------------------- the arithmetic of places


def test_the_polynomial_is_the_arcsine() -> None:
    coefficients = grid_sums.arcsine()
    with mpmath.workdps(30):
        for m in np.linspace(2**-30, 0.5 + 2**-25, 400).tolist():
            series = mpmath.mpf(0)
            for c in reversed(coefficients):
                series = series * m + c
            root = mpmath.sqrt(m)
            assert abs(series * root / mpmath.asin(root) - 1) < 9e-12


def arguments(p: np.ndarray, grid: grids.Grid, *, single: bool) -> tuple[np.ndarray, np.ndarray]:
    """Work out, as an engine does, the two numbers whose whole parts count edges."""
    chain, _ = grid_sums.key_of(grid, single=single, good=nw.lit(True), fault=nw.lit(0.0))
    frame = nw.from_native(pl.LazyFrame({"p": p.astype(np.float64), "y": np.zeros(len(p))}))
    table = rows.with_steps(frame, chain).collect()
    return table.get_column("first").to_numpy(), table.get_column("second").to_numpy()


@pytest.mark.parametrize("grid", ["standard", "fine"])
def test_at_an_edge_an_argument_is_a_whole_number_but_for_half_of_what_is_allowed(grid) -> None:
    edges = grids.edges(grid)[1:-1]
    off = np.min([np.abs(part - np.rint(part)) for part in arguments(edges, grid, single=False)], axis=0)
    assert off.max() < grid_sums.NEAR / 2
    assert off.max() < 8e-8


@pytest.mark.parametrize("dtype", BOTH)
def test_a_score_that_is_near_no_edge_does_not_come_back(dtype) -> None:
    columns = {"p": np.random.default_rng(1).random(20_000).astype(dtype), "y": np.zeros(20_000, np.int64)}
    chain, key = grid_sums.key_of("standard", single=dtype is np.float32, good=nw.lit(True), fault=nw.lit(0.0))
    frame = nw.from_native(pl.LazyFrame(columns)).select(p=nw.col("p").cast(nw.Float64), y=nw.lit(0.0))
    keys = rows.with_steps(frame, chain).select(key=key).collect().get_column("key").to_numpy()
    assert np.count_nonzero(keys < grid_sums.DECIDED) <= 1


def test_a_half_is_undecided_so_that_wrong_rows_are_looked_at() -> None:
    first, _ = arguments(np.array([0.5]), "standard", single=False)
    assert math.floor(first[0] - grid_sums.NEAR) < math.floor(first[0] + grid_sums.NEAR)


# ---------------------------------------------------------------- names that are not what they seem


P4, Y4 = np.array([0.2, 0.8, 0.5, 0.9]), np.array([0, 1, 1, 0])


def test_groups_that_are_written_alike_are_refused() -> None:
    frame = pd.DataFrame({"p": P4, "y": Y4, "g": pd.Series([1, "1", 1, "1"], dtype=object)})
    with pytest.raises(InputError, match="by: expected distinct names, got several values of 'g' with the same text"):
        sketch(frame, **EVENT, by="g")


def test_times_that_a_list_cuts_are_refused() -> None:
    frame = pl.DataFrame({"p": P4, "y": Y4, "g": pl.Series([1, 2, 3, 4]).cast(pl.Datetime("ns"))})
    with pytest.raises(
        InputError, match="by: expected times in microseconds, got finer times; in the frame, round the times"
    ):
        sketch(frame, **EVENT, by="g")


def test_groups_of_numbers_have_the_names_of_arrays(quick_engine) -> None:
    for values in ([1.0, 0.5, 1.0, 2.0], [1.0, math.inf, 1.0, 1e300], np.array([0.1, 0.1, 2, 2], np.float32)):
        own = sketch(quick_engine({"p": P4, "y": Y4, "g": np.array(values)}), **EVENT, by="g")
        arrays = sketch_of(P4, Y4, groups=np.array(values))
        assert {name: part.n for name, part in own.items()} == {name: part.n for name, part in arrays.groups.items()}


@pytest.mark.parametrize("lazy", [False, True])
def test_blocks_and_frames_of_which_nothing_counts(lazy) -> None:
    n = grid_sums.BLOCK
    columns = {"p": np.tile(P4, n // 2), "y": np.tile(Y4, n // 2), "g": np.tile(["a", "b"], n)}
    columns["w"] = np.repeat([0, 1], n)
    frame = pl.DataFrame(columns)
    own = sketch(frame.lazy() if lazy else frame, **EVENT, by="g", weight="w")
    assert {name: part.n for name, part in own.items()} == {"a": n // 2, "b": n // 2}


def test_nothing_in_groups_is_the_error_of_nothing(quick_engine) -> None:
    with pytest.raises(InputError, match="frame: expected at least one row, got no rows"):
        sketch(quick_engine({"p": P4[:0], "y": Y4[:0], "g": Y4[:0]}), **EVENT, by="g")
    with pytest.raises(NothingJudgedError, match="weight: expected at least one weight above 0"):
        sketch(quick_engine({"p": P4, "y": Y4, "g": Y4, "w": 0 * Y4}), **EVENT, by="g", weight="w")


@pytest.mark.slow
@pytest.mark.parametrize("bad", [NAN, math.inf, 1e300, 1.5, 3.0])
def test_a_wrong_target_of_classes_is_counted_where_each_is_judged(engine, bad) -> None:
    frame = engine({"a": P4, "b": 1 - P4, "y": np.array([0.0, 1.0, bad, 0.0])})
    with pytest.raises(InputError, match=r"target: expected"):
        sketch(frame, probs=["a", "b"], target="y", classwise=True)


@pytest.mark.parametrize("name", ["^a$", "*"])
def test_a_name_that_an_engine_takes_for_others_is_refused(one_of_some, name) -> None:
    frame = ENGINES[one_of_some]({name: P4, "a": P4 / 2, "y": Y4})
    if name == "^a$" and one_of_some == "duckdb":
        check_same(sketch(frame, score=name, outcome="y"), of_arrays(P4, Y4))
        return
    with pytest.raises(
        InputError, match=r"score: expected a name that identifies one column in this engine.*; rename the"
    ):
        sketch(frame, score=name, outcome="y")


def test_one_of_two_columns_of_a_name_is_no_choice() -> None:
    for query in ("SELECT .2 p, .3 p, 0 y", "SELECT a.*, b.* FROM (SELECT .2 p, 0 y) a, (SELECT .3 p) b"):
        with pytest.raises(
            InputError,
            match=("score: expected one column with this name, got several 'p'; rename the columns in the frame first"),
        ):
            sketch(duckdb.connect().sql(query), **EVENT)


def test_categories_that_are_numbers_are_refused() -> None:
    numbers = pd.Categorical([1, 1, 0, 1])
    frame = pd.DataFrame({"a": P4, "b": 1 - P4, "y": numbers})
    with pytest.raises(InputError, match=r"target: .* got 'y' with categories that are not text; cast the column"):
        sketch(frame, probs=["a", "b"], target="y", class_names=["1", "2"])
    table = pa.table({"a": P4, "b": 1 - P4, "y": pa.array([1, 1, 0, 1]).dictionary_encode()})
    with pytest.raises(InputError, match=r"target: .* cast the column"):
        sketch(table, probs=["a", "b"], target="y", class_names=["1", "2"])


def test_columns_named_by_numbers_are_not_guessed() -> None:
    frame = pd.DataFrame({0: P4, "y": Y4})
    with pytest.raises(InputError, match=r"score: .* got '0'; rename the columns of the frame to strings"):
        sketch(frame, score="0", outcome="y")


def test_decimals_that_do_not_add_up_are_an_error_in_words() -> None:
    decimals = pa.array([decimal.Decimal("0.2")] * 4, pa.decimal128(3, 2))
    with pytest.raises(InputError, match="probs: expected rows that sum to 1"):
        sketch(pa.table({"a": decimals, "b": P4, "y": Y4}), probs=["a", "b"], target="y")


@pytest.mark.parametrize(("digits", "scale"), [(5, 2), (12, 9), (18, 17)])
@pytest.mark.slow
def test_decimals_have_the_same_cells_in_every_engine_and_format(tmp_path, digits, scale) -> None:
    """The oracle is a fraction, rounded once."""
    rng = np.random.default_rng(scale)
    unscaled = rng.integers(0, 10**scale + 1, 500).tolist()
    decimals = pa.array([decimal.Decimal(n).scaleb(-scale) for n in unscaled], pa.decimal128(digits, scale))
    weights = pa.array([decimal.Decimal("0.7")] * 500, pa.decimal128(4, 1))
    table = pa.table({"p": decimals, "y": rng.integers(0, 2, 500), "w": weights})
    p = np.array([float(Fraction(number, 10**scale)) for number in unscaled])
    expected = sketch_of(p, table["y"].to_numpy(), weights=np.full(500, 0.7))
    for frame in (
        table,
        table.to_pandas(types_mapper=pd.ArrowDtype),
        pl.from_arrow(table),
        pl.from_arrow(table).lazy(),
        duckdb.connect().from_arrow(table),
        ibis({"p": decimals, "y": table["y"], "w": weights}),
    ):
        check_same(sketch(frame, **EVENT, weight="w"), expected, whole=False)
    pq.write_table(table, tmp_path / "d.parquet")
    with ipc.new_file(str(tmp_path / "d.arrow"), table.schema) as writer:
        writer.write_table(table)
    texts = [f"{p},{y},{w}\n" for p, y, w in zip(*(column.to_pylist() for column in table.columns), strict=True)]
    tmp_path.joinpath("d.csv").write_text("p,y,w\n" + "".join(texts))
    for path in tmp_path.iterdir():
        for where in (None, "y >= 0"):
            read = read_predictions([str(path)], Options(score="p", outcome="y", weight="w", where=where))
            np.testing.assert_array_equal(read.probs, p)
            np.testing.assert_array_equal(read.weights, 0.7)


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.slow
def test_groups_of_both_zeros_are_one(engine, kind) -> None:
    frame = engine({"p": np.array([0.2, 0.9, 0.5]), "y": np.array([0, 1, 1]), "g": np.array([0.0, -0.0, 1.5], kind)})
    assert {name: part.n for name, part in sketch(frame, **EVENT, by="g").items()} == {"0": 2, "1.5": 1}


def test_an_engines_error_about_values_is_one_of_the_library() -> None:
    lists = pd.DataFrame({"p": [0.2, 0.9], "y": [0, 1], "g": [[1], [2]]})
    with pytest.raises(
        InputError, match="frame: expected columns that the engine of the frame can add up, got TypeError: unhash"
    ):
        sketch(lists, **EVENT, by="g")
    large = pa.table({"p": [0.2, 0.9], "y": [0, 1], "w": np.array([1, 2**64 - 1], np.uint64)})
    with pytest.raises(InputError, match=r"Integer value 18446744073709551615 not in range.*cast the column"):
        sketch(large, **EVENT, weight="w")


def test_an_outcome_beyond_all_integers_of_a_double_is_named(quick_engine) -> None:
    y = np.array([0, 1, 2**62])
    with pytest.raises(InputError, match=r"outcome: expected outcomes 0 or 1, got 4\.61169e\+18"):
        sketch(quick_engine({"p": np.array([0.2, 0.9, 0.5]), "y": y}), **EVENT)


# ---------------------------------------------------------------- rounding at the ends of [0, 1]


@pytest.mark.parametrize("engine", QUICK)
def test_scores_outside_by_rounding_are_read_as_0_and_1(engine):
    scores = np.array([1 + 2.0**-51, 0.5, -(2.0**-54), 0.25])
    columns = {"p": scores, "y": np.array([1, 0, 0, 1]), "g": np.array(["a", "a", "b", "b"])}
    made = sketch(ENGINES[engine](columns), **EVENT, by="g")
    assert {name: part.totals.rounded for name, part in made.items()} == {"a": 1, "b": 1}
    made = sketch(ENGINES[engine](columns), **EVENT)
    for measure in (calibrant.brier_score, calibrant.expected_calibration_error):
        np.testing.assert_allclose(measure(made), measure(np.clip(scores, 0, 1), columns["y"]), rtol=SUMS)
    with pytest.raises(InputError, match=r"expected values in \[0, 1\]"):
        sketch(ENGINES[engine]({**columns, "p": np.array([1 + 2.0**-49, 0.5, 1 + 2.0**-52, 0.2])}), **EVENT)
