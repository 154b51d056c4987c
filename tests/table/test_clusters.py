"""Rows in clusters: the hashes of labels, the kernels, the laws of adding bucket sums, plain arrays.

Tolerances. Scores that are multiples of 1/64, with dyadic weights, make every sum exact in float64: then sums are equal
bit for bit, in any order. Otherwise the n terms of a sum, each at most w in size, are added in another order, with a
rounding of 2^-53 of the partial sum each: at most n^2 w 2^-53, for the n <= 4000 rows here below 2e-9 w; errors of
random sign stay below 1e-12 w (`SUMS`).
"""

from __future__ import annotations

import hashlib
import io
import pickle
import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calibrant.errors import InputError
from calibrant.errors.faults import Fault
from calibrant.inputs.notions import Events
from calibrant.inputs.scores import event_row_scores
from calibrant.kernels import dispatch, host_tables, reference_tables
from calibrant.kernels.compensated import joined
from calibrant.kernels.row_blocks import lanes_of
from calibrant.table import ReliabilityTable, grid
from calibrant.table.cluster_labels import ClusterLabels, as_clusters, hash_text, mix64
from calibrant.table.cluster_sums import (
    CLASS_CELLS,
    EVENT_CELLS,
    SCALARS,
    BucketSums,
    CoarseCells,
    aligned,
    columns_of,
    from_arrays,
    settings_of,
)

SUMS = 1e-12


def same(one, other):
    """Whether two states are equal, bit for bit; what survives no addition is not compared."""
    if (one.kind, one.hash_name, one.cells, one.scored) != (other.kind, other.hash_name, other.cells, other.scored):
        return False
    arrays = ((x.cell_sums, x.scalars, np.empty(0) if x.hashes is None else x.hashes) for x in (one, other))
    return all(np.array_equal(a, b) for a, b in zip(*arrays, strict=True))


def to_arrays(sums):
    """What is stored of sums, in one mapping of arrays."""
    return {name: np.array(value) for name, value in (settings_of(sums) | columns_of(sums)).items()}


#: Few buckets and cells, so that examples with few rows cross the number of buckets.
FEW = CoarseCells(n_arcs=0, n_parts=12, n_buckets=4, one_apart=False)


def rows(n, seed=0, dtype="float64", dyadic=False):
    """Scores with ties, zeros and ones, and their outcomes."""
    rng = np.random.default_rng([seed, n])
    p = rng.beta(0.5, 0.8, n)
    p[rng.random(n) < 0.1] = 0
    p[rng.random(n) < 0.1] = 1
    p = np.round(p * 64) / 64 if dyadic else p
    return p.astype(dtype), rng.integers(0, 2, n).astype(np.uint8)


def scores_of(p, y):
    """Brier scores, log losses and right answers; some losses are infinite."""
    with np.errstate(divide="ignore"):
        return event_row_scores(p[:, np.newaxis], y.astype(np.int64), logits=False)


def assert_close(found, expected):
    """Both states are equal: counts bit for bit, other sums up to rounding."""
    assert (found.pooled, found.kind, found.scored) == (expected.pooled, expected.kind, expected.scored)
    np.testing.assert_array_equal(found.hashes, expected.hashes)
    np.testing.assert_array_equal(found.cell_sums[..., :2], expected.cell_sums[..., :2])
    np.testing.assert_array_equal(found.rows, expected.rows)
    np.testing.assert_allclose(found.cell_sums, expected.cell_sums, rtol=SUMS, atol=SUMS * expected.weight.max())
    np.testing.assert_allclose(found.scalars, expected.scalars, rtol=SUMS, atol=SUMS * expected.weight.max())


# ---------------------------------------------------------------- hashes


@pytest.mark.parametrize(
    ("seed", "published"),
    [
        # The first outputs of SplitMix64 as S. Vigna's splitmix64.c gives them, for two seeds.
        (0, [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC, 0x1B39896A51A8749B]),
        (
            1234567,
            [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821],
        ),
    ],
)
def test_numbers_are_hashed_as_published(seed, published):
    states = [(seed + k * 0x9E3779B97F4A7C15) % 2**64 for k in range(5)]  # the generator adds this at each step
    assert mix64(np.array(states, np.uint64)).tolist() == published
    assert as_clusters(states, 5).hashes.tolist() == published


def test_zero_and_one_have_the_hashes_of_the_contract():
    labels = as_clusters([0, 1], 2)
    assert (labels.kind, [f"{x:x}" for x in labels.hashes.tolist()]) == (
        "number",
        ["e220a8397b1dcdaf", "910a2dec89025cc1"],
    )


@pytest.mark.parametrize(
    ("text", "digest"),  # the test suite of RFC 1321
    [
        ("", "d41d8cd98f00b204"),
        ("a", "0cc175b9c0f1b6a8"),
        ("abc", "900150983cd24fb0"),
        ("message digest", "f96b697d7cb7938d"),
    ],
)
def test_text_is_hashed_as_published(text, digest):
    assert hash_text(text) == int(digest, 16)
    assert as_clusters([text, "b"], 2).hashes[0] == int(digest, 16)


TEXTS = [
    "",
    "a",
    "b",
    "ab",
    "Ünï",
    "東京",
    "a" * 8,
    "b" * 31,
    "c" * 128,
    "d" * 129,
    " a",
    "a ",
    "A",
    "\ud800",
    "a\0",
    "7",
]


@pytest.mark.parametrize("texts", [TEXTS, TEXTS[:4], TEXTS[:9], TEXTS[4:6], ["a", "a\0", "a"], ["x" * 500]])
def test_every_text_is_hashed_alone(texts):
    """Whatever other labels there are: they decide how the labels are compared."""
    expected = [
        int.from_bytes(hashlib.md5(text.encode("utf-8", "surrogatepass")).digest()[:8], "big") for text in texts * 3
    ]
    assert as_clusters(texts * 3, 3 * len(texts)).hashes.tolist() == expected
    assert as_clusters(np.array(texts * 3, dtype=object), 3 * len(texts)).hashes.tolist() == expected
    if not any(text.endswith("\0") for text in texts):  # NumPy's strings have no closing zeros
        assert as_clusters(np.array(texts * 3), 3 * len(texts)).hashes.tolist() == expected


TEXT = ["a", "bc", "a"]
NUMBER = [3, -1, 3]
NOON = datetime(2024, 1, 31, 12, 0, 0, 500_000)
TIMES = ["2024-01-31T12:00:00.5", "2024-01-01", "2024-01-31T12:00:00.5"]
BERLIN = timezone(timedelta(hours=1))
AWARE = [datetime(2024, 1, 31, 13, 0, 0, 500_000, BERLIN), datetime(2024, 1, 1, tzinfo=UTC)]
WRITTEN = {
    "list": (TEXT, TEXT),
    "tuple": (tuple(TEXT), TEXT),
    "strings": (np.array(TEXT), TEXT),
    "strings of odd width": (np.array(TEXT, dtype="U5"), TEXT),
    "strings of the other byte order": (np.array(TEXT, dtype=">U3"), TEXT),
    "bytes": (np.array(TEXT, dtype="S"), TEXT),
    "bytes in a list": ([b"a", "bc", b"a"], TEXT),
    "variable width": (np.array(TEXT, dtype=np.dtypes.StringDType()), TEXT),
    "objects": (np.array(TEXT, dtype=object), TEXT),
    "pandas": (pd.Series(TEXT), TEXT),
    "pandas, in another order": (pd.Series(TEXT, index=[2, 1, 0]), TEXT),
    "pandas string": (pd.Series(TEXT, dtype="string"), TEXT),
    "pandas categorical": (pd.Series(TEXT, dtype="category"), TEXT),
    "pandas Categorical": (pd.Categorical(TEXT), TEXT),
    "pandas Arrow": (pd.Series(TEXT, dtype=pd.ArrowDtype(pa.string())), TEXT),
    "a frame of one column": (pd.DataFrame({"id": TEXT}), TEXT),
    "polars": (pl.Series(TEXT), TEXT),
    "polars categorical": (pl.Series(TEXT, dtype=pl.Categorical), TEXT),
    "pyarrow": (pa.array(TEXT), TEXT),
    "pyarrow large": (pa.array(TEXT, pa.large_string()), TEXT),
    "pyarrow dictionary": (pa.array(TEXT).dictionary_encode(), TEXT),
    "pyarrow chunks": (pa.chunked_array([TEXT[:1], TEXT[1:]]), TEXT),
    "pyarrow table": (pa.table({"id": TEXT}), TEXT),
    "numbers among text": ([7, "a", 7.0, Decimal(7), True], ["7", "a", "7", "7", "1"]),
    "numbers among text in pandas": (pd.Series([7, "a", 7.0], dtype=object), ["7", "a", "7"]),
    "large numbers among text": ([2**70, "a"], [str(2**70), "a"]),
    "ints": (NUMBER, NUMBER),
    "int64": (np.array(NUMBER), NUMBER),
    "int8": (np.array(NUMBER, np.int8), NUMBER),
    "big-endian": (np.array(NUMBER, ">i4"), NUMBER),
    "uint64": (np.array([2**64 - 1, 0, 2**63], np.uint64), [-1, 0, 2**63]),
    "past int64": ([2**63, 5, 2**64 - 1], [2**63, 5, -1]),
    "past the floats": ([2**62 + 1, 2**62], [2**62 + 1, 2**62]),
    "float64": (np.array([3.0, -1.0, -0.0]), [3, -1, 0]),
    "float16": (np.array([3.0, -1.0, 2048.0], np.float16), [3, -1, 2048]),
    "floats": ([3.0, -1, np.float32(3)], NUMBER),
    "booleans": ([True, False], [1, 0]),
    "decimals": ([Decimal("3.00"), Decimal(-1), 3], NUMBER),
    "large decimals": ([Decimal(2**60 + 1), 2.0**53], [2**60 + 1, 2**53]),
    "objects of numbers": (np.array([3, -1.0, np.int8(3)], dtype=object), NUMBER),
    "pandas int64": (pd.Series(NUMBER), NUMBER),
    "pandas Int64": (pd.Series([2**62 + 1, -1, 3], dtype="Int64"), [2**62 + 1, -1, 3]),
    "pandas categorical numbers": (pd.Series(NUMBER, dtype="category"), NUMBER),
    "polars int64": (pl.Series(NUMBER), NUMBER),
    "polars bool": (pl.Series([True, False]), [1, 0]),
    "pyarrow int64": (pa.array(NUMBER), NUMBER),
    "pyarrow decimal": (pa.array([Decimal(3), Decimal(-1)]), [3, -1]),
    "torch": (torch.tensor(NUMBER), NUMBER),
    "torch bfloat16": (torch.tensor([3.0, -1.0, 256.0]).bfloat16(), [3, -1, 256]),
    "a column": (np.array(NUMBER)[:, np.newaxis], NUMBER),
    "pictures": (np.array([[1, 2, 2], [3, 3, 3]]), [1, 2, 2, 3, 3, 3]),
    "every other": (np.array([3, 9, -1, 9, 3, 9])[::2], NUMBER),
    "dates": ([date(2024, 1, 31), datetime(2024, 1, 31), "2024-01-31"], ["2024-01-31"] * 3),
    "times": ([NOON, datetime(2024, 1, 1), NOON], TIMES),
    "times of a zone": (AWARE, TIMES[:2]),
    "datetime64": (np.array([NOON, date(2024, 1, 1), NOON], "M8[ns]"), TIMES),
    "datetime64 in a list": ([np.datetime64(NOON), np.datetime64("2024-01-01T00", "h")], TIMES[:2]),
    "months": (np.array(["2024-01", "2024-02"], "M8[M]"), ["2024-01-01", "2024-02-01"]),
    "hours": (np.array(["2024-01-01T05", "2024-02-01T00"], "M8[h]"), ["2024-01-01T05:00:00", "2024-02-01"]),
    "pandas times": (pd.Series([NOON, date(2024, 1, 1), NOON], dtype="datetime64[us]"), TIMES),
    "pandas times of a zone": (pd.Series(AWARE[:1] * 2).dt.tz_convert("Europe/Berlin"), TIMES[:1] * 2),
    "polars dates": (pl.Series([date(2024, 1, 1)] * 2), TIMES[1:2] * 2),
    "polars times": (pl.Series([NOON, datetime(2024, 1, 1)]), TIMES[:2]),
    "polars times of a zone": (pl.Series(AWARE[:1] * 2).dt.convert_time_zone("Europe/Berlin"), TIMES[:1] * 2),
    "pyarrow times of a zone": (pa.array(AWARE, pa.timestamp("us", "Europe/Berlin")), TIMES[:2]),
}


@pytest.mark.parametrize(("labels", "values"), WRITTEN.values(), ids=WRITTEN)
def test_labels_of_any_library_are_hashed_by_value(labels, values):
    if all(isinstance(value, str) for value in values):
        kind, expected = "text", [int(hashlib.md5(value.encode()).hexdigest()[:16], 16) for value in values]
    else:
        kind, expected = "number", mix64(np.array([value % 2**64 for value in values], np.uint64)).tolist()
    found = as_clusters(labels, len(values))
    assert (found.kind, found.hashes.dtype, found.hashes.tolist()) == (kind, np.uint64, expected)


NOT_WHOLE = r"expected whole numbers or text, got 2\.5 at row 1; pass names of clusters, not measured values"
MISSING = "expected a label in every row, got a missing value at row 1; name the row's cluster, or give the row a label"
ONE_EACH = r"expected 3 labels, one for each row, got shape "
WRONG = {
    "too few": ([1, 2], ONE_EACH + r"\(2,\); pass the column that has the cluster of each row"),
    "too many": (np.arange(4), ONE_EACH + r"\(4,\)"),
    "one for all": (np.array(5), ONE_EACH + r"\(\)"),
    "two columns": (
        np.ones((3, 2)),
        ONE_EACH + r"\(3, 2\); combine the columns into one label, or pass the outermost of nested clusters",
    ),
    "four rows": (np.ones((4, 2)), ONE_EACH + r"\(4, 2\); pass the column"),
    "pairs": ([("x", 1), ("x", 2), ("y", 1)], ONE_EACH + r"\(3, 2\); combine the columns"),
    "a frame": (pd.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "z"]}), ONE_EACH + r"\(3, 2\); combine the columns"),
    "None": (["a", None, "b"], MISSING),
    "None among numbers": ([1, None, None], MISSING),
    "NaN": (np.array([1, np.nan, np.nan]), MISSING),
    "NaN among text": (["a", float("nan"), "b"], MISSING),
    "NaN before a fraction": ([1.0, np.nan, 2.5], MISSING),
    "a decimal NaN": ([1, Decimal("NaN"), 3], MISSING),
    "NaT": (np.array(["2024", "NaT", "2024"], "M8[D]"), MISSING),
    "NaT in a list": ([date(2024, 1, 1), pd.NaT, "a"], MISSING),
    "NaT of NumPy in a list": ([date(2024, 1, 1), np.datetime64("NaT"), "a"], MISSING),
    "pd.NA": (pd.Series(["a", pd.NA, "b"], dtype="string"), MISSING),
    "pd.NA in a list": ([1, pd.NA, 2], MISSING),
    "pandas Int64": (pd.Series([1, None, 2], dtype="Int64"), MISSING),
    "pandas str": (pd.Series(["a", None, "b"]), MISSING),
    "pandas categorical": (pd.Series(["a", None, "b"], dtype="category"), MISSING),
    "pandas boolean": (pd.Series([True, None, False], dtype="boolean"), MISSING),
    "polars": (pl.Series([1, None, 2]), MISSING),
    "polars text": (pl.Series(["a", None, "b"]), MISSING),
    "pyarrow": (pa.array([1, None, 2]), MISSING),
    "pyarrow dictionary": (pa.array(["a", None, "b"]).dictionary_encode(), MISSING),
    "a fraction": (np.array([1, 2.5, 3]), NOT_WHOLE),
    "a fraction among text": (["a", 2.5, "b"], NOT_WHOLE),
    "a decimal fraction": ([1, Decimal("2.5"), 3], NOT_WHOLE),
    "infinite": ([1, np.inf, 3], "got inf at row 1; pass names of clusters, not measured values"),
    "infinite float64": (np.array([1, np.inf, 3]), r"expected floats up to 2\^53, got inf at row 1"),
    "a large float": (np.array([1, 2.0**53 + 2, 3]), r"expected floats up to 2\^53, got .* at row 1; pass integers or"),
    "a large float in a list": ([1, 2.0**54, "a"], r"expected floats up to 2\^53, got .* at row 1; pass integers"),
    "a large float32": (np.array([1, 2**25, 3], np.float32), r"expected floats up to 2\^24"),
    "past 64 bits": ([1, 2**64, 3], "whole numbers of at most 64 bits, got 18446744073709551616 at row 1; convert"),
    "far below 0": ([1, -(2**63) - 1, 3], "whole numbers of at most 64 bits"),
    "complex": (np.ones(3, complex), "whole numbers or text, got dtype complex128; convert the labels to text"),
    "durations": (np.ones(3, "m8[s]"), "got dtype timedelta64"),
    "durations in a list": (["a", timedelta(1), "b"], "got 1 day, 0:00:00 at row 1; convert the labels to text"),
    "periods": (pd.Series(pd.period_range("2024", periods=3, freq="M")), "got 2024-01 at row 0; convert"),
    "lists": (
        pd.Series([[1], [2], [3]]),
        "expected whole numbers or text, got a list in at least one row; convert the labels to text",
    ),
    "ragged": ([[1, 2], [3], [4]], "expected whole numbers or text, got a list in at least one row"),
    "ragged arrays": ([np.ones((2, 3)), np.ones((2, 4)), np.ones((2, 3))], "expected rows of equal length"),
    "bytes that are no text": ([b"a", b"\xff", b"b"], r"got b'\\xff' at row 1; convert the labels to text"),
    "masked": (np.ma.masked_array([1, 2, 3], [0, 1, 0]), "expected no masked entries"),
    "masked objects": (np.ma.masked_array(["a", "b", "c"], [0, 1, 0], dtype=object), "expected no masked entries"),
    "one text": ("patient", "expected an array, got a str"),
    "nothing": (None, "expected an array, got None"),
    "a lazy frame": (pl.LazyFrame({"a": [1, 2, 3]}), "collect it first"),
}


@pytest.mark.parametrize(("labels", "message"), WRONG.values(), ids=WRONG)
def test_wrong_labels_are_refused(labels, message):
    with pytest.raises(InputError, match=r"^clusters: .*" + message) as caught:
        as_clusters(labels, 3)
    assert caught.value.argument == "clusters"
    if message in (MISSING, NOT_WHOLE):
        assert caught.value.row == 1
        assert (caught.value.fault is Fault.MISSING) == (message is MISSING)


def test_labels_of_some_rows():
    labels = as_clusters(["a", "b", "a", "c"], 4)
    assert labels.take(np.array([0, 3])).hashes.tolist() == [hash_text("a"), hash_text("c")]
    assert labels.take(np.array([False, True, True, False])).kind == "text"
    assert len(labels) == 4


# ---------------------------------------------------------------- coarse cells


def test_the_cells_are_those_of_the_contract():
    assert (EVENT_CELLS.n_cells, EVENT_CELLS.n_buckets) == (428, 256)
    assert (CLASS_CELLS.n_cells, CLASS_CELLS.n_buckets) == (61, 32)
    assert set(EVENT_CELLS.edges) <= set(grid.edges("standard"))
    assert set(EVENT_CELLS.edges) <= set(grid.edges("fine"))
    formula = np.sort(np.concatenate([np.sin(np.pi * np.arange(129) / 256) ** 2, np.arange(301) / 300]))
    # NumPy's sine, its square and the table are each off by at most 2^-52.
    distances = np.abs(formula[:, np.newaxis] - EVENT_CELLS.edges)
    assert distances.min(axis=0).max() < 2**-50 > distances.min(axis=1).max()
    np.testing.assert_array_equal(CLASS_CELLS.edges, np.arange(61) / 60)


@pytest.mark.parametrize("cells", [EVENT_CELLS, CLASS_CELLS, FEW])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_score_is_in_the_cell_between_its_edges(cells, dtype):
    edges = cells.edges.astype(dtype)
    neighbours = [np.nextafter(edges, np.full_like(edges, side)) for side in (-1, 2)]
    tails = 10.0 ** np.random.default_rng(3).uniform(-40, 0, 2000)
    scores = np.concatenate([edges, *neighbours, tails, 1 - tails, [-0.0, 1e-300]]).astype(dtype)
    scores = scores[(scores >= 0) & (scores <= 1)]
    expected = np.searchsorted(edges, scores)
    expected[scores == 1] = cells.n_cells - 1
    np.testing.assert_array_equal(cells.of_scores(scores), expected)
    assert (expected[scores == 0] == 0).all()


@pytest.mark.parametrize("cells", [EVENT_CELLS, CLASS_CELLS, FEW])
@pytest.mark.parametrize("name", ["standard", "fine"])
def test_a_cell_of_a_grid_is_inside_one_coarse_cell(cells, name):
    fine = np.arange(len(grid.edges(name)) + 1)
    low, high = grid.ends_of(fine, name)
    coarse = cells.of_grid(name)
    edges = np.concatenate([[0], cells.edges, [1]])
    assert (edges[coarse] <= low).all()
    assert (high <= edges[coarse + 1]).all()
    assert not coarse.flags.writeable
    assert coarse[0] == 0
    assert coarse[-1] == cells.n_cells - 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["standard", "fine"])
def test_cells_of_a_table_and_rows_in_memory_give_the_same(dtype, name):
    p, y = rows(3000, dtype=dtype)
    table = ReliabilityTable.pool(Events(p, y, None), grid=name)
    found = BucketSums.of(as_clusters(np.arange(3000) % 70, 3000), p, y)
    coarse = EVENT_CELLS.of_grid(name)[table.cells]
    for column, sums in ((table.counts, found.n), (table.positives, found.y), (-table.residuals, found.gaps)):
        expected = np.bincount(coarse, column, EVENT_CELLS.n_cells)
        np.testing.assert_allclose(sums.sum(axis=0), expected, rtol=SUMS, atol=SUMS * 3000)


# ---------------------------------------------------------------- kernels


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 3000])
@pytest.mark.parametrize("distinct", [1, 2, 448, 449, 512, 513, 2500])
@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("most", [0, 5, 448, 10**6])
def test_number_rows_equals_its_reference(n, distinct, width, most):
    """Around a chunk of 64 rows, and around the numbers at which the table grows."""
    rng = np.random.default_rng([n, distinct])
    values = rng.integers(0, 2**64, (distinct, width), dtype=np.uint64)
    values[:, 0] >>= np.uint64(54)  # many rows differ in a later word only, or in none
    words = values[np.concatenate([np.arange(distinct), rng.integers(0, distinct, n)])[:n]]
    found = {}
    for module in (host_tables, reference_tables):
        numbers = np.full(n, -7)
        found[module] = module.number_rows(words, most, numbers), numbers
    fast, slow = found[host_tables], found[reference_tables]
    np.testing.assert_array_equal(fast[0], slow[0])
    if len(slow[0]) <= most:
        np.testing.assert_array_equal(fast[1], slow[1])
        np.testing.assert_array_equal(words[slow[0]][slow[1]], words)
        assert len(slow[0]) == len(np.unique(words, axis=0))
    else:
        assert len(slow[0]) == most + 1


def test_rows_that_begin_the_search_in_one_slot_are_told_apart():
    """All even multiples of 2^40 begin in few slots of a small table."""
    words = (np.arange(900, dtype=np.uint64) << np.uint64(40)).reshape(-1, 1)
    numbers, firsts = dispatch.number_rows(np.concatenate([words, words[::-1]]), 10**6)
    np.testing.assert_array_equal(firsts, np.arange(900))
    np.testing.assert_array_equal(numbers, [*range(900), *range(899, -1, -1)])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 63, 64, 65, 1500])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cells", [EVENT_CELLS, CLASS_CELLS])
def test_bucket_rows_equals_its_reference(dtype, n, weighted, cells):
    """Bit for bit, also with weights: both round each product, and sums are compensated."""
    p, y = rows(n, dtype=dtype)
    p[::7] = cells.edges[np.arange(len(p[::7])) % len(cells.edges)]
    p[::11] = -0.0
    buckets = np.random.default_rng(n).integers(0, 5, n).astype(np.uint16)
    weights = np.random.default_rng(n).gamma(1, 1, n) if weighted else np.empty(0)
    lookup, coarse = grid.lookup("standard", p.dtype), cells.of_grid("standard")
    fast, slow = np.zeros((2, 2, 5, cells.n_cells, 3))
    host_tables.bucket_rows(buckets, p, y, weights, coarse, *lookup, fast)
    reference_tables.bucket_rows(buckets, p, y, weights, coarse, *lookup, slow)
    fast, slow = joined(fast), joined(slow)
    np.testing.assert_array_equal(fast, slow)
    if not weighted:
        assert fast[..., 0].sum() == n


def test_threads_change_no_bit(monkeypatch):
    """With few buckets, rows of this number are cut into several ranges with sums of their own."""
    n = 500_000
    assert len(lanes_of(n, 1, 3 * 2 * CLASS_CELLS.n_cells)) > 2
    p, y = rows(n)
    weights = np.random.default_rng(1).random(n) + 0.1
    labels, found = as_clusters(np.arange(n) % 2, n), []
    for threads in ("1", "2", "7"):
        monkeypatch.setenv("CALIBRANT_NUM_THREADS", threads)
        found.append(BucketSums.of(labels, p, y, weights, cells=CLASS_CELLS, row_scores=scores_of(p, y)))
    assert same(found[0], found[1])
    assert same(found[0], found[2])


# ---------------------------------------------------------------- sums of rows


def naive(labels, p, y, w, cells):
    """The sums of each cluster, one row at a time, in rational numbers."""
    sums = {}
    for label, score, outcome, weight in zip(labels.hashes.tolist(), p, y, w, strict=True):
        s, r = Fraction(float(score)), Fraction(float(score)) - int(outcome)
        cell = int(np.searchsorted(cells.edges, float(score))) if score < 1 else cells.n_cells - 1
        values = {"n": 1, "y": int(outcome), "gaps": r, "brier": r * r, "tilt": r * (1 - 2 * s)}
        of = sums.setdefault(label, {"rows": 0, "right": 0})
        of["rows"] += 1
        of["right"] += Fraction(float(weight)) * int((score >= 0.5) == (outcome == 1))
        for name, value in values.items():
            key = (name, cell) if name in ("n", "y", "gaps") else name
            of[key] = of.get(key, 0) + Fraction(float(weight)) * value
    return sums


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("cells", [EVENT_CELLS, CLASS_CELLS])
def test_sums_are_those_of_exact_arithmetic(dtype, cells):
    n = 400
    p, y = rows(n, dtype=dtype, dyadic=True)
    weights = np.random.default_rng(2).integers(1, 9, n) / 4
    labels = as_clusters(np.random.default_rng(4).integers(0, 30, n), n)
    found = BucketSums.of(labels, p, y, weights, cells=cells, row_scores=scores_of(p.astype(float), y))
    expected = naive(labels, p, y, weights, cells)
    assert found.hashes.tolist() == sorted(expected)
    assert found.n_clusters == len(expected)
    for b, label in enumerate(found.hashes.tolist()):
        of = expected[label]
        assert [found.scalar(name)[b] for name in ("rows", "right", "brier", "tilt")] == [
            of[name] for name in ("rows", "right", "brier", "tilt")
        ]
        for name in ("n", "y", "gaps"):
            by_cell = getattr(found, name)[b]
            assert by_cell.tolist() == [of.get((name, cell), 0) for cell in range(cells.n_cells)]
        assert found.weight[b] == sum(value for key, value in of.items() if key[0] == "n")
        assert found.gap[b] == sum(value for key, value in of.items() if key[0] == "gaps")


def test_losses_are_summed_where_they_are_finite():
    p, y = np.array([0.0, 0.0, 1.0, 0.25, 0.5]), np.array([0, 1, 0, 1, 0], np.uint8)
    weights = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    found = BucketSums.of(as_clusters([5, 5, 5, 5, 6], 5), p, y, weights, row_scores=scores_of(p, y))
    five = found.hashes.tolist().index(int(mix64(np.array([5]))[0]))
    assert found.scalar("infinite")[five] == 6
    assert found.scalar("infinite")[1 - five] == 0
    # One product and one addition of numbers near 10: an error of a few 2^-53 x 10.
    assert found.scalar("nll")[five] == pytest.approx(-8 * np.log(0.25), rel=1e-15)
    assert found.scalar("nll")[1 - five] == pytest.approx(-16 * np.log(0.5), rel=1e-15)
    assert found.scored


def test_without_scores_of_rows_their_sums_are_0():
    p, y = rows(50)
    found = BucketSums.of(as_clusters(np.arange(50) % 3, 50), p, y)
    assert not found.scored
    assert not any(found.scalar(name).any() for name in ("right", "brier", "nll", "infinite"))
    assert found.scalar("tilt").any()


def test_more_clusters_than_buckets_share_them_by_their_hash():
    n = 3000
    p, y = rows(n, dyadic=True)
    labels = as_clusters(np.random.default_rng(1).integers(0, 900, n), n)
    found = BucketSums.of(labels, p, y)
    assert found.pooled
    assert found.n_buckets == 256
    buckets = np.array([x % 256 for x in labels.hashes.tolist()])
    np.testing.assert_array_equal(found.rows, np.bincount(buckets, minlength=256))
    cells = EVENT_CELLS.of_scores(p)
    for sums, column in ((found.n, np.ones(n)), (found.y, y), (found.gaps, p - y)):
        expected = np.bincount(buckets * 428 + cells, column, 256 * 428).reshape(256, 428)
        np.testing.assert_array_equal(sums, expected)


@pytest.mark.parametrize("weighted", [False, True])
def test_clusters_are_counted_and_weighed_exactly_in_memory(weighted):
    n = 4000
    ids = np.random.default_rng(5).geometric(0.002, n)
    p, y = rows(n)
    weights = np.random.default_rng(6).integers(1, 5, n).astype(float) if weighted else None
    labels = as_clusters(ids, n)
    found = BucketSums.of(labels, p, y, weights)
    masses = np.bincount(ids, weights)
    assert found.pooled
    assert found.n_clusters == np.count_nonzero(masses)
    assert found.largest_share == masses.max() / masses.sum()
    streamed = BucketSums.of(labels, p, y, weights, count=False)
    assert same(streamed, found)
    assert streamed.n_clusters is None
    assert streamed.largest_share == found.weight.max() / found.weight.sum() > found.largest_share
    again = found + BucketSums.empty("number", scored=False)
    assert same(again, found)
    assert (again.n_clusters, again.largest_share) == (None, streamed.largest_share)


def test_the_largest_share_of_own_buckets_and_of_nothing():
    p, y = rows(4)
    found = BucketSums.of(as_clusters([1, 2, 2, 3], 4), p, y, np.array([5.0, 1, 1, 3]))
    assert found.largest_share == 0.5
    assert (found + found).largest_share == 0.5
    empty = BucketSums.empty("text", scored=False)
    assert (empty.n_clusters, empty.largest_share, empty.folded().largest_share) == (0, 0.0, 0.0)
    none = BucketSums.of(as_clusters(np.array([], "U1"), 0), p[:0], y[:0])
    assert same(none, empty)


def test_the_numbering_of_labels_is_kept_for_further_events():
    labels = as_clusters(np.arange(3000), 3000)
    assert labels.numbered() is labels.numbered()
    assert labels.numbered(10) is labels.numbered(10)
    assert len(labels.numbered(10)[1]) == 11


# ---------------------------------------------------------------- laws


@st.composite
def parts_of_rows(draw):
    """Rows whose sums are exact, in up to nine clusters, cut into parts in an order of their own."""
    n = draw(st.integers(1, 25))

    def column(values):
        return np.array(draw(st.lists(values, min_size=n, max_size=n)))

    most = draw(st.integers(0, 8))
    data = {
        "id": column(st.integers(0, most)),
        "p": column(st.integers(0, 64)) / 64,
        "y": column(st.integers(0, 1)).astype(np.uint8),
        "w": column(st.integers(1, 8)) / 4,
        "nll": np.where(column(st.integers(0, 5)) == 0, np.inf, column(st.integers(0, 40)) / 8),
    }
    part = column(st.integers(0, draw(st.integers(0, 4))))
    return data, part, draw(st.permutations(range(5)))


def state_of(data, at, *, weighted=True, cells=FEW):
    take = {name: column[at] for name, column in data.items()}
    p, y = take["p"], take["y"]
    labels = as_clusters(take["id"], len(p))
    scores = ((p - y) ** 2, take["nll"], (p >= 0.5) == (y == 1))
    return BucketSums.of(labels, p, y, take["w"] if weighted else None, row_scores=scores, cells=cells)


@given(parts_of_rows())
def test_parts_in_any_order_equal_the_whole(example):
    data, part, order = example
    whole = state_of(data, slice(None))
    parts = [state_of(data, part == k) for k in order]
    forward = sum(parts[1:], parts[0])
    backward = parts[-1]
    for state in parts[-2::-1]:
        backward = state + backward
    pairs = (parts[0] + parts[1]) + ((parts[2] + parts[3]) + parts[4])
    assert whole.pooled == (len(set(data["id"].tolist())) > FEW.n_buckets)
    assert same(whole, forward)
    assert same(whole, backward)
    assert same(whole, pairs)


@given(parts_of_rows(), st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(example, random):
    data, _, _ = example
    order = list(range(len(data["p"])))
    random.shuffle(order)
    assert same(state_of(data, slice(None)), state_of(data, np.array(order)))


@given(parts_of_rows())
def test_weight_2_is_the_row_twice(example):
    data, _, _ = example
    twice = {name: np.concatenate([column, column]) for name, column in data.items()}
    heavy = state_of(data | {"w": np.full(len(data["p"]), 2.0)}, slice(None))
    plain = state_of(twice, slice(None), weighted=False)
    np.testing.assert_array_equal(heavy.cell_sums, plain.cell_sums)
    np.testing.assert_array_equal(heavy.scalars[:, 1:], plain.scalars[:, 1:])
    np.testing.assert_array_equal(2 * heavy.rows, plain.rows)
    assert heavy.largest_share == plain.largest_share


@given(parts_of_rows())
def test_other_names_of_few_clusters_only_reorder_the_buckets(example):
    data, _, _ = example
    one, other = (state_of(data | {"id": ids}, slice(None)) for ids in (data["id"] % 4, 17 - data["id"] % 4))
    rank = [other.hashes.tolist().index(int(mix64(np.array([17 - k]))[0])) for k in sorted(set(data["id"] % 4))]
    place = [one.hashes.tolist().index(int(mix64(np.array([k]))[0])) for k in sorted(set(data["id"] % 4))]
    np.testing.assert_array_equal(one.cell_sums[place], other.cell_sums[rank])
    np.testing.assert_array_equal(one.scalars[place], other.scalars[rank])


@given(parts_of_rows())
def test_arrays_and_pickles_bring_back_the_same(example):
    data, _, _ = example
    for state in (state_of(data, slice(None)), state_of(data, slice(0, 0))):
        assert same(from_arrays(to_arrays(state), cells=FEW), state)
        copy = pickle.loads(pickle.dumps(state))
        assert same(copy, state)
        assert (copy.n_clusters, copy.largest_share) == (state.n_clusters, state.largest_share)


def large(ids, seed=7):
    p, y = rows(len(ids), seed, dyadic=True)
    return {"id": ids, "p": p, "y": y, "w": np.ones(len(ids)), "nll": np.ones(len(ids))}


@pytest.mark.parametrize("clusters", [255, 256, 257])
def test_the_257th_label_pools_the_clusters_in_any_order(clusters):
    """Clusters are split among three parts; only the union of their labels reaches 257."""
    rng = np.random.default_rng(clusters)
    data = large(rng.permutation(np.concatenate([np.arange(clusters), rng.integers(0, clusters, 900)])))
    part = rng.integers(0, 3, len(data["id"]))
    whole = state_of(data, slice(None), cells=EVENT_CELLS)
    states = [state_of(data, part == k, cells=EVENT_CELLS) for k in range(3)]
    assert not any(state.pooled for state in states)
    assert whole.pooled == (clusters == 257)
    assert whole.n_clusters == clusters
    assert (states[0] + states[1] + states[2]).n_clusters == (None if clusters == 257 else clusters)
    for i, j, k in ((0, 1, 2), (2, 0, 1), (1, 2, 0)):
        assert same(states[i] + states[j] + states[k], whole)
        assert same(states[i] + (states[j] + states[k]), whole)
    assert same(states[0] + states[0].folded(), (states[0] + states[0]).folded())


def test_sums_of_any_scores_add_up_to_rounding():
    data = large(np.random.default_rng(8).integers(0, 400, 4000))
    data["p"], data["w"] = np.random.default_rng(9).random(4000), np.random.default_rng(9).integers(1, 4, 4000) * 1.0
    halves = [state_of(data, np.arange(4000) % 2 == k, cells=EVENT_CELLS) for k in range(2)]
    assert_close(halves[0] + halves[1], state_of(data, slice(None), cells=EVENT_CELLS))


@pytest.mark.parametrize("clusters", [5, 300])
def test_buckets_of_two_halves_line_up(clusters):
    data = large(np.random.default_rng(10).integers(0, clusters, 1200))
    one, other = (state_of(data, np.arange(1200) % 2 == k, cells=EVENT_CELLS) for k in range(2))
    first, second = aligned([one, other])
    assert first.cell_sums.shape == second.cell_sums.shape
    assert first.n_buckets == (5 if clusters == 5 else 256)
    np.testing.assert_array_equal(first.cell_sums + second.cell_sums, (one + other).cell_sums)
    alone = state_of(data, data["id"] == 3, cells=EVENT_CELLS)
    three = int(mix64(np.array([3]))[0])
    bucket = three % 256 if clusters == 300 else first.hashes.tolist().index(three)
    spread = aligned([alone, one + other])[0]
    np.testing.assert_array_equal(spread.n.sum(axis=1).nonzero()[0], [bucket])
    assert spread.n_clusters == (1 if clusters == 5 else None)


def test_nothing_is_written_to_the_input():
    p, y = rows(600)
    weights, ids = np.ones(600), np.arange(600) % 301
    text = np.array([f"id {i}" for i in ids])
    scores = scores_of(p, y)
    inputs = (p, y, weights, ids, text, *scores)
    before = [array.copy() for array in inputs]
    for labels in (as_clusters(ids, 600), as_clusters(text, 600), as_clusters(ids.astype(float), 600)):
        hashes = labels.hashes.copy()
        state = BucketSums.of(labels, p, y, weights, row_scores=scores)
        few = BucketSums.of(labels.take(np.arange(100)), p[:100], y[:100], row_scores=tuple(x[:100] for x in scores))
        np.testing.assert_array_equal(labels.hashes, hashes)
        for part in (state, few):
            part.cell_sums.setflags(write=False)
            part.scalars.setflags(write=False)
        assert (state + few + state).rows.sum() == 1300
        from_arrays(to_arrays(few))
    for array, copy in zip(inputs, before, strict=True):
        np.testing.assert_array_equal(array, copy)


def small(kind="number", **options):
    labels = as_clusters([1, 2, 2] if kind == "number" else ["x", "y", "y"], 3)
    return BucketSums.of(labels, np.array([0.25, 0.5, 0.75]), np.array([0, 1, 1], np.uint8), **options)


def test_sums_of_other_kinds_do_not_add_up():
    cases = [
        (
            small("text"),
            "labels that are whole numbers, got text; convert all cluster labels to one type before you add rows",
        ),
        (
            small(cells=CLASS_CELLS),
            "sums for 428 score ranges in each of at most 256 sets of clusters, got sums for 61 score ranges "
            "in each of at most 32 sets of clusters; make both",
        ),
        (
            small(row_scores=(np.ones(3), np.ones(3), np.ones(3, bool))),
            "row scores (Brier score, log loss) in both cluster sums or in neither",
        ),
        (BucketSums.empty("text", scored=False), "labels that are whole numbers, got text"),
    ]
    for other, message in cases:
        with pytest.raises(InputError, match=f"^clusters: expected {re.escape(message)}"):
            small() + other
        with pytest.raises(InputError, match=r"^clusters: expected "):
            other + small()
        assert not same(small(), other)
    with pytest.raises(TypeError):
        small() + 1


def test_sums_of_another_hash_do_not_add_up():
    other = replace(small(), hash_name="md5/1")
    message = (
        "^clusters: expected labels hashed with splitmix64-md5/1, got md5/1; make both sketches with "
        "one version of calibrant, because versions may hash a label differently"
    )
    with pytest.raises(InputError, match=message):
        small() + other
    assert not same(small(), other)
    with pytest.raises(InputError, match=r"^arrays: expected labels hashed with splitmix64-md5/1, got 'md5/1'"):
        from_arrays(to_arrays(other))


# ---------------------------------------------------------------- plain arrays


@pytest.mark.parametrize("clusters", [3, 256, 257])
@pytest.mark.parametrize("cells", [EVENT_CELLS, CLASS_CELLS])
@pytest.mark.parametrize("scored", [False, True])
def test_arrays_pass_through_a_file_without_python_objects(clusters, cells, scored):
    p, y = rows(1000, dtype="float32")
    weights = np.random.default_rng(3).random(1000) + 0.01
    labels = as_clusters([f"id {i % clusters}" for i in range(1000)], 1000)
    state = BucketSums.of(labels, p, y, weights, cells=cells, row_scores=scores_of(p, y) if scored else None)
    file = io.BytesIO()
    np.savez(file, **to_arrays(state))
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        found = from_arrays(arrays, cells=cells)
    assert same(found, state)
    assert found.n_clusters == (None if clusters > cells.n_buckets else clusters)


def changed(name, value):
    def change(arrays):
        arrays[name] = value(arrays[name]) if callable(value) else value

    return change


def at(name, index, value):
    def change(arrays):
        arrays[name] = arrays[name].copy()
        arrays[name][index] = value

    return change


def together(*changes):
    return lambda arrays: [change(arrays) for change in changes]


DAMAGES = {
    "a missing array": (lambda arrays: arrays.pop("gaps"), r"KeyError\('gaps'\)"),
    "another kind of label": (changed("kind", np.array("float")), "invalid sums"),
    "other grid cells": (
        changed("grid", np.array([128, 300, 64, 1])),
        "expected sums for 428 score ranges in each of at most 256 sets of clusters, got sums for other score ranges",
    ),
    "no cells": (changed("grid", np.array([])), "sums for other score ranges or sets"),
    "pooled, with hashes": (changed("pooled", np.array(True)), "invalid sums"),
    "pooled is a number": (changed("pooled", np.array(1)), "invalid sums"),
    "pooled has an axis": (changed("pooled", np.array([False])), "invalid sums"),
    "hashes are floats": (changed("hashes", lambda x: x.astype(float)), "invalid sums"),
    "hashes are objects": (changed("hashes", lambda x: x.astype(object)), "invalid sums"),
    "hashes of two axes": (changed("hashes", lambda x: x[np.newaxis]), "invalid sums"),
    "one hash too many": (changed("hashes", lambda x: np.append(x, np.uint64(2**64 - 1))), "invalid sums"),
    "hashes in another order": (changed("hashes", lambda x: x[::-1]), "inconsistent"),
    "a hash twice": (changed("hashes", lambda x: x[[0, 0]]), "inconsistent"),
    "257 clusters": (changed("hashes", np.arange(257, dtype=np.uint64)), "invalid sums"),
    "a bucket too high": (at("bucket", -1, 2), "invalid sums"),
    "a negative bucket": (changed("bucket", lambda x: x.astype(int) - 1), "invalid sums"),
    "a cell too high": (at("cell", -1, 428), "invalid sums"),
    "a negative cell": (changed("cell", lambda x: x.astype(int) - 500), "invalid sums"),
    "a fraction of a cell": (changed("cell", lambda x: x + 0.5), "invalid sums"),
    "a cell twice": (changed("cell", lambda x: x[[0, 1, 1]]), "invalid sums"),
    "a cell too low": (at("cell", 0, 40), "inconsistent"),
    "a cell too high for its scores": (at("cell", 0, 400), "inconsistent"),
    "one cell too few": (changed("cell", lambda x: x[:-1]), "invalid sums"),
    "sums of other lengths": (changed("gaps", lambda x: x[:-1]), "invalid sums"),
    "text": (changed("weight", lambda x: x.astype(str)), "invalid sums"),
    "negative outcomes, and scores to match": (together(at("positives", 0, -0.5), at("gaps", 0, 0.75)), "inconsistent"),
    "too many outcomes, and scores to match": (together(at("positives", 0, 1.5), at("gaps", 0, -1.25)), "inconsistent"),
    "an infinite weight of finite ones": (
        together(
            at("weight", [1, 2], 1.5e308), at("positives", [1, 2], 0.0), at("gaps", [1, 2], [0.75e308, 1.125e308])
        ),
        "inconsistent",
    ),
    "NaN": (at("gaps", 0, np.nan), "inconsistent"),
    "infinite": (at("weight", 0, np.inf), "inconsistent"),
    "a weight of 0": (at("weight", 0, 0.0), "inconsistent"),
    "a negative weight": (at("weight", 0, -1.0), "inconsistent"),
    "negative outcomes": (at("positives", 0, -1.0), "inconsistent"),
    "more outcomes than weight": (at("positives", 1, 1.5), "inconsistent"),
    "scores outside their cell": (at("gaps", 0, 0.5), "inconsistent"),
    "a bucket too few": (changed("rows", lambda x: x[:-1]), "invalid sums"),
    "scalars of one bucket": (changed("tilt", lambda x: x[:-1]), "invalid sums"),
    "half a row": (at("rows", 0, 1.5), "inconsistent"),
    "no rows, but weight": (at("rows", 0, 0.0), "inconsistent"),
    "negative rows": (at("rows", 0, -1.0), "inconsistent"),
    "more right answers than weight": (at("right", 0, 7.0), "inconsistent"),
    "more infinite losses than weight": (at("infinite", 0, 7.0), "inconsistent"),
    "a negative Brier score": (at("brier", 0, -0.1), "inconsistent"),
    "a negative loss": (at("nll", 0, -0.1), "inconsistent"),
    "a tilt above the weight": (at("tilt", 0, 7.0), "inconsistent"),
    "scores that should not be": (changed("scored", np.array(False)), "inconsistent"),
    "an infinite sum of losses": (at("nll", 0, np.inf), "inconsistent"),
    "a NaN among the scalars": (at("nll", 0, np.nan), "inconsistent"),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGES.values(), ids=DAMAGES)
def test_damaged_arrays_are_refused(damage, message):
    arrays = to_arrays(small(row_scores=(np.full(3, 0.5), np.full(3, 0.5), np.ones(3, bool))))
    from_arrays(arrays)
    damage(arrays)
    with pytest.raises(InputError, match=message) as caught:
        from_arrays(arrays, argument="data")
    assert caught.value.argument == "data"
    assert caught.value.remedy.startswith("read the sketch ")


def test_damaged_pooled_arrays_are_refused():
    p, y = rows(400)
    arrays = to_arrays(BucketSums.of(as_clusters(np.arange(400), 400), p, y))
    assert from_arrays(arrays).pooled
    empty = int(np.argmin(arrays["rows"]))
    assert arrays["rows"][empty] == 0
    damages = [
        {"pooled": np.array(False)},
        {"hashes": np.arange(3, dtype=np.uint64)},
        {name: arrays[name][:-1] for name in SCALARS},
        {"rows": arrays["rows"] - (np.arange(256) == empty)},
    ]
    for damage in damages:
        with pytest.raises(
            InputError,
            match=r"^arrays: expected a sketch with valid cluster sums, got (invalid|inconsistent) sums",
        ):
            from_arrays(arrays | damage)


def test_more_clusters_than_buckets_with_their_own_are_refused():
    p, y = rows(400)
    arrays = to_arrays(BucketSums.of(as_clusters(np.arange(400) % 40, 400), p, y))
    fewer = replace(EVENT_CELLS, n_buckets=32)
    with pytest.raises(InputError, match="invalid sums"):
        from_arrays(arrays | {"grid": np.array([128, 300, 32, 1])}, cells=fewer)


def test_the_labels_of_a_state_are_shown_briefly():
    assert repr(small()).startswith("BucketSums(kind='number', scored=False, cells=CoarseCells(n_arcs=128")
    assert isinstance(as_clusters([1], 1), ClusterLabels)
