"""Every type of Arrow, in every kind of file, as a score and beside it: a result, or a line that says what is wrong."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from tests import in_process

pa = pytest.importorskip("pyarrow", reason="the report extra is not installed")
import pyarrow.feather as pf  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

#: The two values of a column are repeated so often.
ROWS = 20
HALVES = [0.5, 0.25]
DAY = dt.date(2026, 11, 28)


def columns() -> dict[str, Any]:
    """Return a column of two values of each type."""
    decimals = [Decimal("0.5"), Decimal("0.25")]
    ends = pa.array([1, 2], pa.int32())
    types = pa.array([0, 1], pa.int8())
    simple = {
        **{f"{sign}int{bits}": ([0, 1], getattr(pa, f"{sign}int{bits}")()) for sign in ("", "u") for bits in (8, 64)},
        **{f"float{bits}": (HALVES, getattr(pa, f"float{bits}")()) for bits in (16, 32, 64)},
        **{f"time_{unit}": ([5, 6], (pa.time32 if unit in ("s", "ms") else pa.time64)(unit)) for unit in ("s", "ns")},
        **{f"timestamp_{unit}": ([5, 6], pa.timestamp(unit)) for unit in ("s", "ns")},
        **{f"duration_{unit}": ([5, 6], pa.duration(unit)) for unit in ("s", "us", "ns")},
        "duration_whole": ([5000, 6000], pa.duration("ns")),
        "zoned": ([5, 6], pa.timestamp("us", "Europe/Berlin")),
        "boolean": ([True, False], pa.bool_()),
        "decimal32": (decimals, pa.decimal32(5, 2)),
        "decimal64": (decimals, pa.decimal64(12, 2)),
        "decimal128": (decimals, pa.decimal128(20, 3)),
        "decimal256": (decimals, pa.decimal256(60, 3)),
        "decimal_of_hundreds": ([Decimal(500), Decimal(700)], pa.decimal128(10, -2)),
        "text": (["0.5", "x"], pa.string()),
        "text_of_numbers": (["0.5", "0.25"], pa.large_string()),
        "text_view": (["0.5", "a\0b"], pa.string_view()),
        "binary": ([b"a\x00", b"\xff"], pa.binary()),
        "binary_view": ([b"a", b"\xff"], pa.binary_view()),
        "fixed_binary": ([b"ab", b"\xff\x00"], pa.binary(2)),
        "date32": ([DAY, DAY], pa.date32()),
        "date64": ([DAY, DAY], pa.date64()),
        "interval": ([pa.MonthDayNano([1, 2, 3000]), pa.MonthDayNano([0, 0, 0])], pa.month_day_nano_interval()),
        "list": ([[0.5, 0.5], [0.25, 0.75]], pa.list_(pa.float64())),
        "empty_lists": ([[], None], pa.list_(pa.float64())),
        "fixed_list": ([[0.5, 0.5], [0.25, 0.75]], pa.list_(pa.float64(), 2)),
        "large_list": ([[0.5], [0.25]], pa.large_list(pa.float32())),
        "list_view": ([[0.5], [0.25]], pa.list_view(pa.float64())),
        "list_of_lists": ([[[0.5]], [[0.25]]], pa.list_(pa.list_(pa.float64()))),
        "list_of_float16": ([[0.5], [0.25]], pa.list_(pa.float16())),
        "list_of_structs": ([[{"label": "a", "score": 0.5}], [{"label": "b", "score": 0.5}]], None),
        "struct": ([{"a": 0.5}, {"a": 0.25}], None),
        "struct_of_structs": ([{"a": {"b": 0.5}}, {"a": None}], None),
        "struct_of_float16": ([{"a": 0.5}, {"a": 0.25}], pa.struct([("a", pa.float16())])),
        "empty_struct": ([{}, {}], pa.struct([])),
        "map": ([[("a", 0.5)], [("b", 0.25)]], pa.map_(pa.string(), pa.float64())),
    }
    arrays = {name: pa.array(values, kind) for name, (values, kind) in simple.items()}
    extended = {
        "uuid": (pa.uuid(), pa.array([uuid.UUID(int=1).bytes] * 2, pa.binary(16))),
        "json": (pa.json_(), pa.array(['{"a": 1}', "2"])),
        "bool8": (pa.bool8(), pa.array([0, 1], pa.int8())),
        "tensor": (pa.fixed_shape_tensor(pa.float64(), [2]), arrays["fixed_list"]),
        "opaque": (pa.opaque(pa.float64(), "type", "vendor"), arrays["float64"]),
    }
    return {
        **arrays,
        **{name: pa.ExtensionArray.from_storage(kind, stored) for name, (kind, stored) in extended.items()},
        "null": pa.nulls(2),
        "categories": arrays["text"].dictionary_encode(),
        "categories_of_numbers": arrays["float64"].dictionary_encode(),
        "runs": pa.RunEndEncodedArray.from_arrays(ends, arrays["float64"]),
        "runs_of_text": pa.RunEndEncodedArray.from_arrays(ends, arrays["text"]),
        "sparse_union": pa.UnionArray.from_sparse(types, [arrays["float64"], arrays["text"]]),
        "dense_union": pa.UnionArray.from_dense(
            types, pa.array([0, 0], pa.int32()), [arrays["float64"], arrays["text"]]
        ),
    }


COLUMNS = columns()
NUMBERS = {
    *("int8", "uint8", "int64", "uint64", "float16", "float32", "float64", "decimal32", "decimal64", "decimal128"),
    *("decimal256", "boolean", "text_of_numbers", "categories_of_numbers", "runs"),
}
#: What a kind of file cannot hold.
NOT_WRITTEN = {
    "csv": {"dense_union", "list_of_float16", "struct_of_float16", "duration_ns"},
    "parquet": {
        *("interval", "sparse_union", "dense_union", "empty_struct", "list_view", "runs", "runs_of_text"),
        *("duration_s", "decimal_of_hundreds"),
    },
    "arrow": set(),
}


def written(column: Any, name: str, kind: str) -> str | None:
    """Write a file with a column, a score and an outcome; None if that kind of file cannot hold the column."""
    table = pa.table({name: pa.concat_arrays([column] * ROWS), "score": HALVES * ROWS, "outcome": [0, 1] * ROWS})
    try:
        pq.write_table(table, "in.parquet") if kind == "parquet" else pf.write_feather(table, "in.arrow")
    except (NotImplementedError, OSError, pa.ArrowInvalid):
        return None
    return f"in.{kind}"


def run(*args: str) -> tuple[int, str]:
    """Run the command; an error other than the command's own is raised."""
    status, _, err = in_process.run(*args)
    if status in (1, 2):
        assert err.splitlines()[-1].partition(": ")[0] in ("calibrant", "Error"), err
    return status, err


@pytest.fixture(autouse=True)
def _with_a_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    p = np.linspace(0.01, 0.99, 100)
    calibrant.recalibrate(p, (p > 0.6).astype(int), method="cox", n_resamples=0).fitted().to_json("m.json")


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
@pytest.mark.parametrize("name", COLUMNS)
def test_a_score_of_any_type_is_read_or_refused(name: str, kind: str) -> None:
    path = written(COLUMNS[name], name, kind)
    if path is None:
        assert (name, kind) != ("float64", "parquet")
        return
    reports = {"--score": name}, {"--score": "score", "--outcome": name}, {"--score": "score", "--by": name}
    reports += {"--probs": name}, {"--score": name, "--where": "score < 2"}
    for options in reports[: None if kind == "arrow" else 1]:
        named = {"--outcome": "outcome", "--n-resamples": "0", **options}
        assert run("report", path, *itertools.chain(*named.items()))[0] in (0, 1)
    for target in ("csv", "parquet"):
        status, err = run("apply", "m.json", path, "--score", name, "--output", f"out.{target}")
        if status == 1:
            assert any(said in err for said in (f"column {name!r} ", "cannot be written as ", "leave the column"))
            assert not Path(f"out.{target}").exists()
        if name in NUMBERS and name not in NOT_WRITTEN[target]:
            assert status == 0, err


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_of_any_type_is_kept_or_refused(name: str, kind: str) -> None:
    path = written(COLUMNS[name], name, kind)
    if path is None:
        return
    before = (pq.read_table if kind == "parquet" else pf.read_table)(path)
    for target in NOT_WRITTEN:
        status, err = run("apply", "m.json", path, "--score", "score", "--output", f"out.{target}", "--quiet")
        if status == 1:
            assert name in NOT_WRITTEN[target]
            assert f"out.{target}: cannot be written as {target} (" in err
        else:
            assert status == 0, err
        if status == 0 and target != "csv":
            after = (pq.read_table if target == "parquet" else pf.read_table)(f"out.{target}")
            assert after.column_names == [*before.column_names, "calibrated"]
            assert after[name].to_pylist() == before[name].to_pylist()


@pytest.mark.parametrize(
    "value", [[0.5], [[0.5]], {"a": 0.5}, {"a": {"b": [1]}}, "2026-11-28", "12:30", None, True, 1e400, "x", [], {}]
)
@pytest.mark.parametrize("kind", ["json", "jsonl"])
def test_a_score_of_json_is_read_or_refused(value: object, kind: str) -> None:
    lines = [json.dumps({"score": each, "outcome": k % 2}) for k, each in enumerate([0.5, value] * ROWS)]
    Path(f"in.{kind}").write_text("\n".join(lines) if kind == "jsonl" else f"[{','.join(lines)}]")
    only = [json.dumps({"score": value, "outcome": k % 2}) for k in range(ROWS)]
    Path(f"only.{kind}").write_text("\n".join(only) if kind == "jsonl" else f"[{','.join(only)}]")
    for path, target in itertools.product((f"in.{kind}", f"only.{kind}"), ("csv", "parquet")):
        assert run("report", path, "--score", "score", "--n-resamples", "0")[0] in (0, 1)
        assert run("apply", "m.json", path, "--score", "score", "--output", f"out.{target}")[0] in (0, 1)
