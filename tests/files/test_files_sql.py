"""SQL of a user's own: the same rows from every kind of file, in every time zone, and only what is listed may run."""

from __future__ import annotations

import datetime as dt
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

import calibrant
from calibrant import files, frames
from calibrant.errors import FileError, InputError
from calibrant.files import Options, engine
from calibrant.files import sql as expressions
from calibrant.inputs.group_rows import group_name
from tests.in_process import fail, json_of, run, succeed
from tests.reading_of import read_predictions, refuse

pa = pytest.importorskip("pyarrow", reason="the report extra is not installed")
duckdb = pytest.importorskip("duckdb", reason="the report extra is not installed")
import pandas as pd  # noqa: E402
import polars as pl  # noqa: E402
import pyarrow.ipc as ipc  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

NAN, INF = math.nan, math.inf
open_engine = engine.open_engine  # before the tests share one


# ---------------------------------------------------------------- writers


def by_pyarrow(table: Any, path: Path, **how: Any) -> None:
    pq.write_table(table, path, **how)


def by_duckdb(table: Any, path: Path) -> None:
    with duckdb.connect() as connection:
        connection.register("rows", table)
        connection.execute(f"COPY (FROM rows) TO '{path}' (ROW_GROUP_SIZE 2048)")


def by_arrow(table: Any, path: Path) -> None:
    with ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=7)


def by_json(table: Any, path: Path) -> None:
    """Write JSON lines; Python writes NaN and Infinity, which the engine reads."""

    def plain(value: Any) -> Any:
        return value.isoformat() if hasattr(value, "isoformat") else value

    rows = [{name: plain(value) for name, value in row.items()} for row in table.to_pylist()]
    path.write_text("\n".join(map(json.dumps, rows)))


#: The doors. Pandas writes NaN of Python's floats as null, unless its column is one of Arrow.
WRITERS: dict[str, tuple[str, Callable[..., None]]] = {
    "pyarrow": ("parquet", lambda t, p: by_pyarrow(t, p, row_group_size=5)),
    "pyarrow, one group": ("parquet", by_pyarrow),
    "pyarrow, no statistics": ("parquet", lambda t, p: by_pyarrow(t, p, row_group_size=5, write_statistics=False)),
    "pyarrow, pages": (
        "parquet",
        lambda t, p: by_pyarrow(t, p, row_group_size=9, use_dictionary=False, write_page_index=True),
    ),
    "polars": ("parquet", lambda t, p: pl.from_arrow(t).write_parquet(p, row_group_size=5)),
    "duckdb": ("parquet", by_duckdb),
    "pandas": ("parquet", lambda t, p: t.to_pandas(types_mapper=pd.ArrowDtype).to_parquet(p, row_group_size=5)),
    "arrow": ("arrow", by_arrow),
    "csv of polars": ("csv", lambda t, p: pl.from_arrow(t).write_csv(p)),
    "json": ("jsonl", by_json),
}


def written(folder: Path, writer: str, columns: dict[str, Any]) -> str:
    ending, write = WRITERS[writer]
    path = folder / f"rows.{ending}"
    write(pa.table(columns), path)
    return str(path)


# ---------------------------------------------------------------- one law: the same rows


#: Groups of five rows, with the largest number in a group of NaN below and above the constants of the conditions.
VALUES = [
    *(10.0, 20.0, NAN, 60.0, 30.0),
    *(NAN,) * 5,
    *(61.0, 99.0, INF, 70.0, 65.0),
    *(-0.0, 0.0, -0.0, 0.0, None),
    *(50.0, 50.0, 50.0, NAN, None),
    *(-INF, -1.0, 5.0, 5.0, 5.0),
    *(12.5,) * 5,
]


def order(value: float) -> tuple[bool, float]:
    """NaN is equal to itself and above every number, in SQL of DuckDB, of Spark and of PostgreSQL."""
    return (True, 0.0) if math.isnan(value) else (False, value)


def compares(of: Callable[[Any, Any], bool], constant: float) -> Callable[[float], bool]:
    return lambda value: of(order(value), order(constant))


#: Conditions, and what they say about a number; of null they say nothing.
CONDITIONS: dict[str, Callable[[float], bool]] = {
    "x <= 70": compares(lambda a, b: a <= b, 70),
    "x > 70": compares(lambda a, b: a > b, 70),
    "NOT (x <= 99)": compares(lambda a, b: a > b, 99),
    "x >= 0": compares(lambda a, b: a >= b, 0),
    "x = 0": lambda value: value == 0,
    "x <> 50": lambda value: value != 50,
    "x = 'nan'": math.isnan,
    "x < 'nan'": lambda value: not math.isnan(value),
    "x > 'inf'": math.isnan,
    "x IN (50, 12.5, 'nan')": lambda value: value in (50, 12.5) or math.isnan(value),
    "NOT isnan(x)": lambda value: not math.isnan(value),
    "isfinite(x)": math.isfinite,
    "x BETWEEN 10 AND 60": lambda value: 10 <= value <= 60,
    "x NOT BETWEEN -1 AND 99": lambda value: not -1 <= value <= 99,
    "abs(x) > 99": compares(lambda a, b: a > b or a == (False, -INF), 99),
    "x * 2 <= 140": compares(lambda a, b: a <= b, 70),
    "CASE WHEN x < 100 THEN false ELSE true END": compares(lambda a, b: a >= b, 100),
    "x > 70 OR x < 10": lambda value: math.isnan(value) or value > 70 or value < 10,
}


@pytest.mark.parametrize(("writer", "single"), [*((each, False) for each in WRITERS), ("pyarrow", True)])
def test_every_kind_of_file_gives_the_same_rows(writer: str, single: bool, tmp_path: Path) -> None:
    n = len(VALUES)
    kind = pa.float32() if single else pa.float64()
    columns = {
        "score": np.linspace(0, 1, n),
        "outcome": np.arange(n) % 2,
        "row": np.arange(1, n + 1),
        "x": pa.array(VALUES, kind),
    }
    path = written(tmp_path, writer, columns)
    for condition, holds in CONDITIONS.items():
        is_case = condition.startswith("CASE")  # which says true of null
        expected = [k for k, v in enumerate(VALUES, 1) if (is_case if v is None else holds(v))]
        assert read_predictions([path], where=condition, weight="row").weights.tolist() == expected, condition
    known = [k for k, v in enumerate(VALUES, 1) if v is not None]
    for sql, says in (("x < 100", compares(lambda a, b: a < b, 100)), ("isnan(x)", math.isnan)):
        names = [str(says(VALUES[k - 1])) for k in known]
        read = read_predictions(
            [path], where="x IS NOT NULL", by=[sql], clusters=[f"CAST({sql} AS VARCHAR)"], weight="row"
        )
        assert read.weights.tolist() == known
        assert [str(name) for name in read.groups] == names
        assert [str(name) for name in read.clusters] == [name.lower() for name in names]
    assert read_predictions([path], where="x > 'inf' AND row < 11", by=["isnan(x)"], weight="row").weights.tolist() == [
        3,
        *range(6, 11),
    ]


def test_comparisons_read_the_same_rows(tmp_path: Path) -> None:
    n = 1000
    columns = {"p1": np.linspace(0, 1, n), "p2": np.linspace(1, 0, n), "y": np.arange(n) % 2}
    columns["age"] = np.where(np.arange(n) % 4 == 0, NAN, 18 + np.arange(n) % 50)
    for writer in ("pyarrow", "csv of polars"):
        path = written(tmp_path, writer, columns)
        for condition, rows in (("age <= 70", 750), ("NOT isnan(age)", 750), ("age > 70", 250)):
            options = Options(models=("p1", "p2"), outcome="y", where=condition)
            assert len(files.read_models([path], options).targets) == rows


FRAMES: dict[str, Callable[[str], Any]] = {
    "arrow": pq.read_table,
    "pandas": lambda path: pq.read_table(path).to_pandas(),
    "polars": pl.read_parquet,
    "polars lazy": pl.scan_parquet,
    "duckdb": lambda path: duckdb.read_parquet(path),
}


@pytest.mark.parametrize(("column", "single"), [("score", False), ("outcome", False), *((c, True) for c in "wgc")])
def test_no_frame_overlooks_nan_in_a_parquet_file(column: str, single: bool, tmp_path: Path) -> None:
    n = 60
    columns = {"score": np.linspace(0, 1, n), "outcome": np.arange(n) % 2, "w": np.ones(n), "g": np.arange(n) % 2.0}
    columns = {name: np.array(values, np.float64) for name, values in columns.items()} | {"c": np.arange(n) % 7.0}
    columns[column] = np.where(np.arange(n) == 3, NAN, columns[column])
    kind = pa.float32() if single else pa.float64()
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({name: pa.array(v, kind) for name, v in columns.items()}), path, row_group_size=20)
    said = set()
    for name, read in FRAMES.items():
        asked = {"w": [{"weight": "w"}], "g": [{"by": "g"}], "c": [{"cluster": "c"}]}
        for more in asked.get(column, [{}, {"weight": "w", "by": "g"}]):
            with pytest.raises(InputError, match=r"missing values \(null or NaN\) in 1 row") as error:
                frames.sketch(read(path), score="score", outcome="outcome", **more)
            said.add((error.value.argument, name))
    assert len({argument for argument, _ in said}) == 1
    assert {name for _, name in said} == set(FRAMES)


def test_the_settings_hold_on_every_connection() -> None:
    connection = open_engine("for a test", [], "Asia/Tokyo").cursor()
    asked = "SELECT current_setting('TimeZone'), current_setting('disabled_optimizers')"
    zone, disabled = connection.execute(asked).fetchone()
    assert zone == "Asia/Tokyo"
    assert {"filter_pushdown", "statistics_propagation"} <= set(disabled.split(","))
    with pytest.raises(duckdb.Error, match="locked"):
        connection.execute("SET TimeZone='UTC'")


# ---------------------------------------------------------------- time zones


TIMES = [dt.datetime(2024, 1, 31, 9, tzinfo=dt.UTC) + dt.timedelta(hours=3 * k) for k in range(16)]


def at(zone: str, time: dt.datetime) -> dt.datetime:
    return time.astimezone(ZoneInfo(zone)).replace(tzinfo=None)


def name_of(time: dt.datetime) -> str:
    return f"{time:%Y-%m-%d}" if not (time.hour or time.minute) else f"{time:%Y-%m-%d %H:%M:%S}"


@pytest.mark.parametrize(("zone", "written_in"), [("UTC", "America/New_York"), ("America/Los_Angeles", "Asia/Kolkata")])
@pytest.mark.parametrize("writer", ["pyarrow", "arrow", "csv of polars", "json"])
def test_times_with_a_zone_are_times_of_the_zone_that_is_asked_for(
    writer: str, written_in: str, zone: str, tmp_path: Path
) -> None:
    n = len(TIMES)
    times: Any = pa.array(TIMES, pa.timestamp("us", tz=written_in))
    if writer.startswith("csv"):
        times = [time.astimezone(ZoneInfo(written_in)).isoformat() for time in TIMES]
    path = written(tmp_path, writer, {"score": np.linspace(0, 1, n), "outcome": np.arange(n) % 2, "t": times})
    asked = {} if zone == "UTC" else {"timezone": zone}
    local = [at(zone, time) for time in TIMES]
    since = [k for k, time in enumerate(local) if time >= dt.datetime(2024, 2, 1)]
    read = read_predictions([path], where="t >= '2024-02-01'", **asked)
    np.testing.assert_array_equal(read.probs, np.linspace(0, 1, n)[since])
    assert list(read_predictions([path], by=["t"], **asked).groups) == list(map(name_of, local))
    assert list(read_predictions([path], by=["month(t)"], **asked).groups) == [f"{time:%Y-%m}" for time in local]
    days = read_predictions([path], clusters=["CAST(t AS DATE)"], **asked).clusters
    assert [str(day)[:10] for day in days] == [f"{time:%Y-%m-%d}" for time in local]


def test_the_hours_and_the_offsets_of_times_in_a_csv_are_kept(tmp_path: Path) -> None:
    """DuckDB 2 casts a text to a date without its time, and to a time without its offset."""
    path = tmp_path / "a.csv"
    path.write_text(
        "score,outcome,plain,sent,mixed\n"
        "0.1,0,2024-01-01 09:00:00,2024-01-01T23:00:00-05:00,2024-01-01\n"
        "0.2,1,2024-01-01 15:00:00,2024-01-01T23:00:00+05:00,2024-01-01T23:00:00+05:00\n"
    )
    for where, scores in (
        ("plain > '2024-01-01 12:00:00'", [0.2]),
        ("sent >= '2024-01-02'", [0.1]),
        ("mixed = '2024-01-01'", [0.1]),  # not all have an offset: they are texts
    ):
        assert read_predictions([path], where=where).probs.tolist() == scores
    assert list(read_predictions([path], by=["sent"]).groups) == ["2024-01-02 04:00:00", "2024-01-01 18:00:00"]


def test_the_zone_is_said_and_checked(tmp_path: Path) -> None:
    path = written(tmp_path, "pyarrow", {"score": [0.2, 0.7], "outcome": [0, 1], "k": [1, 2]})
    status, out, _ = run("report", path, "--n-resamples", 0, "--where", "k > 0", "--json", "-")
    assert (status, json.loads(out)["source"]["timezone"]) == (0, "UTC")
    _, out, _ = run("report", path, "--n-resamples", 0, "--by", "k", "--timezone", "Asia/Tokyo", "--markdown", "-")
    assert "- time zone: Asia/Tokyo\n" in out
    assert "time zone" not in run("report", path, "--n-resamples", 0, "--markdown", "-")[1]
    for wrong in ("Asia/Tokio", "localtime"):
        assert f"there is no time zone '{wrong}'; " in fail("report", path, "--timezone", wrong, status=2)


@pytest.mark.slow
def test_the_zone_of_the_machine_decides_nothing(tmp_path: Path) -> None:
    n = len(TIMES)
    columns = {"score": np.linspace(0, 1, n), "outcome": np.arange(n) % 2, "t": pa.array(TIMES)}
    path = written(tmp_path, "pyarrow", columns)
    code = "import sys; from calibrant.cli.commands import main; main(sys.argv[1:])"
    options = ["--where", "t >= '2024-02-01'", "--by", "month(t)", "--cluster", "CAST(t AS DATE)"]
    command = [sys.executable, "-c", code, "report", path, *options, "--n-resamples", "0", "--json", "-"]
    said = [
        subprocess.run(command, env={**os.environ, "TZ": zone}, capture_output=True, check=True).stdout
        for zone in ("UTC", "Asia/Tokyo", "America/Los_Angeles")
    ]
    assert said[0]
    assert set(said) == {said[0]}


# ---------------------------------------------------------------- what may run


@pytest.fixture
def rows(tmp_path: Path) -> str:
    columns = {
        "score": [0.2, 0.7],
        "outcome": [0, 1],
        "age": [33, 70],
        "site": ["a", "b"],
        "date": pa.array([dt.date(2024, 1, 2), dt.date(2023, 5, 5)]),
        "parts": [[1, 2], [3, 4]],
        "user": ["x", "y"],
    }
    return written(tmp_path, "pyarrow", columns)


REFUSED = {
    "#3 > 20": "a column position (# and a number)",
    "$1 = 1": "a parameter",
    "? = 1": "a parameter",
    "COLUMNS('age') > 1": "COLUMNS",
    "greatest(*COLUMNS(*)) > 1": "COLUMNS",
    "(SELECT 1) = 1": "a subquery",
    "age IN (SELECT 1)": "a subquery",
    "age = ANY([1, 2])": "a subquery",
    "EXISTS (FROM range(3))": "a subquery",
    "(WITH RECURSIVE t AS (SELECT 1 UNION ALL SELECT * FROM t) SELECT count(*) FROM t) > 0": "a subquery",
    "row_number() OVER () > 1": "a window function",
    "count(*) > 1": "count is not allowed, because aggregates combine many rows",
    "max(age) > 1": "max is not allowed, because aggregates combine many rows",
    "list_transform([1], x -> x)[1] = 1": "the function list_transform",
    "list_filter(parts, lambda x: x > 1)[1] = 1": "the function list_filter",
    "[x FOR x IN parts][1] = 1": "the function list_apply",
    **{
        f"{volatile} IS NOT NULL": "may differ from run to run"
        for volatile in ("random()", "uuid()", "gen_random_uuid()", "now()", "current_date", "today()", "nextval('s')")
    },
    "getenv('HOME') = 'x'": "may differ from run to run",
    "current_timestamp > date": "may differ from run to run",
    "setseed(0.1) IS NULL": "may differ from run to run",
    "age(date) > INTERVAL 1 YEAR": "depends on the current date",
    "lpad('a', 2147483647, 'b') > site": "the function lpad",
    "rpad(site, 2147483647, 'b') > site": "the function rpad",
    "printf('%1000000000d', age) > site": "the function printf",
    "format('{:>1000000000}', age) > site": "the function format",
    "repeat(site, 1000000000) > site": "the function repeat",
    "bar(age, 0, 100, 1000000000) > site": "the function bar",
    "hex(hex(hex(site))) > site": "the function hex",
    "damerau_levenshtein(site, site) > 0": "the function damerau_levenshtein",
    "levenshtein(site, site) > 0": "the function levenshtein",
    "replace(site, 'a', 'aaaa') > site": "new may not be longer than old",
    "replace(site, site, site) > site": "new may not be longer than old",
    r"regexp_replace(site, 'x*', '\0\0', 'g') > site": "regexp_replace takes",
    "regexp_replace(site, '', 'abc', 'g') > site": "regexp_replace takes",
    "CAST(ARRAY[CAST(ARRAY[site] AS VARCHAR)] AS VARCHAR) > ''": "array constructor is not allowed",
    "parts->0 = 1": "a lambda",
    f"strftime(date, '{'%c' * 200}') > site": "strftime takes its format",
    "strftime(date, site) > site": "strftime takes its format",
    "translate(site, 'a', 'b')[range(10)[1]] = 'a'": "the function range",
    "len(range(1000000000)) > 1": "the function range",
    "len(string_split(site, '')) > 1": "the function string_split",
    "CAST(parts AS INTEGER[1000000000])[1] = 1": "a cast to",
    "CAST(site AS BLOB) = site": "a cast to BLOB",
    "CAST(site AS JSON) = site": "a cast to JSON",
    "CAST(site AS BIT) = site": "a cast to BIT",
    "to_json(site)->>'$..*' = 'x'": "without *",
    " || ".join(["site"] * 30) + " > ''": "concatenates texts more than 20 times",
    f"site > '{'a' * 2000}'": "a text of more than 1,000 bytes",
    "site COLLATE NOCASE = 'A'": "COLLATE",
    "site.lower() = 'a'": "write lower(...) with all its arguments",
    "main.lower(site) = 'a'": "main.lower(...) is not allowed",
    "rowid > 0": "there is no column 'rowid'",
    "file_row_number > 0": "there is no column 'file_row_number'",
    "filename > ''": "there is no column 'filename'",
    "current_user = site": "may differ from run to run",
    "no_such(age) > 1": "there is no function no_such",
    "flor(age) > 1": "did you mean 'floor'?",
    "typeof(age) = 'x'": "the function typeof is not allowed; docs/service.md lists the allowed functions",
    "(age, score) = (1, 2)": "the function row",
    "{'a': age}.a = 1": "the function struct_pack",
    "NOT " * 900 + "true": "nested too deeply",
}


@pytest.mark.parametrize("sql", REFUSED)
def test_what_is_not_listed_is_refused(sql: str, rows: str) -> None:
    for option, asked in (("--where", {"where": sql}), ("--by", {"by": [sql]})):
        with pytest.raises(FileError) as error:
            read_predictions([rows], **asked)
        assert REFUSED[sql] in str(error.value)
        assert option in str(error.value)
        assert error.value.remedy


@pytest.mark.parametrize(
    "sql",
    [
        "age > 40 -- old",
        "age BETWEEN 40 AND 80 AND NOT isnan(score)",
        "site IN ('b', 'c') OR site IS NULL",
        "site LIKE 'b%' AND site NOT ILIKE 'A_'",
        "regexp_matches(site, '^b$') AND site SIMILAR TO 'b' AND site ~ 'b'",
        "upper(trim(site)) || '-' || 'x' = 'B-x'",
        "replace(site, 'b', 'x') = 'x' AND regexp_replace(site || '1', '[0-9]', '') = 'b'",
        "year(date) = 2023 AND extract(month FROM date) = 5 AND date_part('day', date) = 5",
        "date < DATE '2024-01-01' - INTERVAL 1 MONTH",
        "date_trunc('quarter', date) = '2023-04-01' AND strftime(date, '%Y-%m') = '2023-05'",
        "strptime(CAST(date AS VARCHAR), '%Y-%m-%d') < TIMESTAMP '2024-01-01'",
        "CASE WHEN age > 40 THEN true ELSE false END",
        "coalesce(nullif(age, 33), 0) > 0 AND if(age > 40, true, false)",
        "CAST(age AS DECIMAL(10, 2)) / 2 >= 35 AND TRY_CAST(site AS INTEGER) IS NULL",
        "parts[1] = 3 AND len(parts) = 2 AND list_contains(parts, 4)",
        "user = 'y'",
        "age IS DISTINCT FROM 33 AND (age + 2) // 2 = 36 AND age % 2 = 0 AND age ** 2 > 4000",
        "md5(site) > '1'",
        "(" * 200 + "age > 40" + ")" * 200,
    ],
)
def test_what_is_listed_works(sql: str, rows: str) -> None:
    assert read_predictions([rows], where=sql).probs.tolist() == [0.7]


def test_the_listed_functions_exist_and_keep_their_value() -> None:
    with duckdb.connect() as connection:
        kinds = connection.execute("SELECT lower(function_name), function_type, stability FROM duckdb_functions()")
        found: dict[str, set[tuple[str, str]]] = {}
        for name, kind, stability in kinds.fetchall():
            found.setdefault(name, set()).add((kind, stability))
    syntax = {"coalesce", "if", "ifnull", "nullif"}  # of the parser
    for name in " ".join(expressions.FUNCTIONS.values()).split():
        if name in syntax or not name[0].isalpha():
            continue
        assert {kind for kind, _ in found.get(name, ())} & {"scalar", "macro"}, name
        assert "VOLATILE" not in {stability for _, stability in found[name]}, name


def test_the_page_lists_the_functions() -> None:
    page = (Path(__file__).parents[2] / "docs" / "service.md").read_text(encoding="utf-8")
    for about, names in expressions.FUNCTIONS.items():
        (row,) = re.findall(rf"^\| {about} \| (.*) \|$", page, re.MULTILINE)
        written_so = {name for name in names.split() if name.isidentifier() and not name.endswith("_escape")}
        assert written_so <= set(re.findall(r"`(\w+)`", row)), about
        assert set(re.findall(r"`([a-z]\w+)`", row)) <= set(names.split()), about


def test_nested_calls_of_listed_functions_do_not_grow() -> None:
    """A text is at most four times its length after any number of calls: a character has up to four bytes."""
    text = "aŉß€'%\\\"x" * 20
    arguments = ("{}", "{}, 'a'", "{}, 1", "{}, 5, 2", "{}, 'a', 'b'", "{}, '.', ''", "{}, 'a', '€'", "'%c%c', {}")
    tried = set()
    with duckdb.connect() as connection:
        for name in expressions.FUNCTIONS["texts"].split():
            for form in arguments if name.isidentifier() and not name.startswith("concat") else ():
                call = f"{name}({form})"
                sql = "x"
                for _ in range(6):
                    sql = call.format(sql)
                try:
                    tree = expressions.parse_expression(connection, sql)
                except ValueError:
                    continue
                if tree is None or expressions.refusal(tree, ["x"], connection) is not None:
                    continue
                try:
                    query = f"SELECT strlen(CAST({sql} AS VARCHAR)) FROM (SELECT $1 AS x)"
                    (length,) = connection.execute(query, [text]).fetchone()
                except (duckdb.Error, UnicodeDecodeError):  # the latter of a message that is cut
                    continue
                tried.add(name)
                assert (length or 0) <= 4 * len(text.encode()), call
    assert {"upper", "translate", "regexp_replace", "substr", "reverse"} <= tried


# ---------------------------------------------------------------- one name per group


MOMENTS = [dt.datetime(2024, 1, 1) + dt.timedelta(hours=12 * k) for k in range(6)]
NAMED: dict[str, tuple[list[Any], list[str]]] = {
    "floats": ([0.0, 1.0, -0.0, 0.5, 1e-5, 1e16], ["0", "1", "0", "0.5", "1e-05", "1e+16"]),
    "whole floats": ([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], ["0", "1", "2", "3", "4", "5"]),
    "integers": ([0, 1, 2, 3, 4, 5], ["0", "1", "2", "3", "4", "5"]),
    "truth": ([True, False] * 3, ["True", "False"] * 3),
    "days": ([time.date() for time in MOMENTS], [f"{time:%Y-%m-%d}" for time in MOMENTS]),
    "times": (MOMENTS, list(map(name_of, MOMENTS))),
    "fractions of seconds": (
        [time + dt.timedelta(milliseconds=500) for time in MOMENTS],
        [f"{time:%Y-%m-%d %H:%M:%S}.5" for time in MOMENTS],
    ),
    "times with a zone": ([time.replace(tzinfo=dt.UTC) for time in MOMENTS], list(map(name_of, MOMENTS))),
    "hours": ([time.time() for time in MOMENTS], [f"{time:%H:%M:%S}" for time in MOMENTS]),
    "codes": (["02134", "02135", "1.10", "1.9", "a", "é"], ["02134", "02135", "1.10", "1.9", "a", "é"]),
    "versions": (["1.8", "1.9", "1.10", "2.0", "2.1", "2.2"], ["1.8", "1.9", "1.10", "2.0", "2.1", "2.2"]),
    "NUL": (["a\0", "a", "a\0\0", "\0a", "b", "c"], ["a\0", "a", "a\0\0", "\0a", "b", "c"]),
}
SIX = {"score": np.linspace(0, 1, 6), "outcome": np.arange(6) % 2}


@pytest.mark.covering
@pytest.mark.parametrize("what", NAMED)
@pytest.mark.parametrize(
    ("writer", "where"),
    [
        *((writer, None) for writer in ("pyarrow", "duckdb", "arrow", "csv of polars", "csv of pandas", "json")),
        *((writer, "score >= 0") for writer in ("polars", "csv of pandas", "json")),
    ],
)
def test_a_group_has_one_name_in_every_kind_of_file(writer: str, what: str, where: str | None, tmp_path: Path) -> None:
    values, names = NAMED[what]
    if writer == "csv of pandas":
        path = str(tmp_path / "a.csv")
        pd.DataFrame({**SIX, "g": values}).to_csv(path, index=False)
    else:
        path = written(tmp_path, writer, {**SIX, "g": values})
    read = read_predictions([path], by=["g"], by_values=True, where=where)
    assert [group_name(name) for name in read.groups] == names


@pytest.mark.covering
@pytest.mark.parametrize("what", [name for name in NAMED if name not in ("days", "hours")])
@pytest.mark.parametrize("door", ["numpy", "pandas", "polars", "arrow", "duckdb frame", "pandas frame", "polars frame"])
def test_a_group_has_the_same_name_in_arrays_and_frames(door: str, what: str) -> None:
    values, names = NAMED[what]
    columns = {"pandas": pd.Series, "polars": pl.Series, "arrow": pa.array}
    if door in columns or door == "numpy":
        if door == "numpy" and what == "times with a zone":
            pytest.skip("NumPy has no time zones")
        kind = object if what == "NUL" else "M8[us]" if isinstance(values[0], dt.datetime) else None
        groups = np.array(values, kind) if door == "numpy" else columns[door](values)
        report = calibrant.evaluate(**SIX_ARGUMENTS, groups=groups, n_resamples=0, measures=["ece"])
        found = [group.name for group in report.groups]
    else:
        table = pa.table({**SIX, "g": values})
        made: dict[str, Callable[[Any], Any]] = {
            "duckdb frame": duckdb.from_arrow,
            "pandas frame": lambda rows: rows.to_pandas(),
            "polars frame": pl.from_arrow,
        }
        found = list(frames.sketch(made[door](table), score="score", outcome="outcome", by="g"))
    assert sorted(found) == sorted(set(names))


SIX_ARGUMENTS = {"probs": SIX["score"], "targets": SIX["outcome"]}


# ---------------------------------------------------------------- parts of dates


DAYS = [dt.date(2023, 1, 15) + dt.timedelta(days=20 * k) for k in range(40)]
IN_TWO_YEARS = {
    "score": np.linspace(0, 1, 40),
    "outcome": np.arange(40) % 2,
    "date": pa.array(DAYS),
    "text": [f"{day:%d.%m.%Y}" for day in DAYS],
    "yr": [day.year for day in DAYS],
}


@pytest.mark.parametrize("writer", ["pyarrow", "csv of polars", "json"])
def test_months_and_weeks_are_those_of_their_year_whatever_the_date_is_made_of(writer: str, tmp_path: Path) -> None:
    path = written(tmp_path, writer, IN_TWO_YEARS)
    made = "strptime(text, '%d.%m.%Y')"
    for sql, form in ((f"month({made})", "%Y-%m"), (f"week( ({made}) )", "%G-W%V"), ("Month(date + 1)", "%Y-%m")):
        days = [day + dt.timedelta(days=1) for day in DAYS] if "+" in sql else DAYS
        assert list(read_predictions([path], by=[sql]).groups) == [day.strftime(form) for day in days]
        assert read_predictions([path], by=[sql]).doubts == ()


@pytest.mark.parametrize(
    ("sql", "year"),
    [
        ("quarter(date)", "year(date)"),
        ("month(date) + 0", "year(date)"),
        ("quarter(strptime(text, '%d.%m.%Y'))", "year(strptime(text, '%d.%m.%Y'))"),
        ("extract(month FROM date)", "year(date)"),
        ("strftime(date, '%m')", "year(date)"),
        ("monthname(date)", "year(date)"),
        ("'Q' || quarter(date)", "year(date)"),
    ],
)
def test_parts_of_dates_that_put_years_together_get_a_caution(sql: str, year: str, tmp_path: Path) -> None:
    path = written(tmp_path, "pyarrow", IN_TWO_YEARS)
    read = read_predictions([path], by=[sql])
    assert read.doubts == (
        f"--by {sql!r} puts rows of the years 2023 to 2025 into the same groups; for groups of each year, "
        f"add --by {year!r}",
    )
    assert read.sources["groups"] == f"{sql} (2023 to 2025 together)"
    for by, where in (([sql, year], None), ([sql, "yr"], None), ([sql], "yr = 2023")):
        assert read_predictions([path], by=by, where=where).doubts == ()


def test_the_caution_is_said(tmp_path: Path) -> None:
    path = written(tmp_path, "pyarrow", IN_TWO_YEARS)
    out, err = succeed("report", path, "--by", "quarter(date)", "--n-resamples", 0)
    assert "groups: quarter(date) (2023 to 2025 together)" in " ".join(out.split())
    assert "calibrant: --by 'quarter(date)' puts rows of the years 2023 to 2025 into the same groups" in " ".join(
        err.split()
    )


@pytest.mark.parametrize("sql", ["dayofweek(date)", "hour(date)", "yr * 10 + quarter(date)", "strftime(date, '%Y-%m')"])
def test_other_parts_of_dates_get_none(sql: str, tmp_path: Path) -> None:
    path = written(tmp_path, "pyarrow", IN_TWO_YEARS)
    assert read_predictions([path], by=[sql]).doubts == ()


def test_all_expressions_that_cannot_be_used_are_said_at_once(tmp_path):
    path = tmp_path / "f.csv"
    path.write_text("p,y,w\n0.5,1,1\n")
    with pytest.raises(FileError) as caught:
        read_predictions([str(path)], score="p", outcome="y > #1", clusters=("lower(zone)",), where="age > 30")
    for said in (
        "--where 'age > 30'",
        "no column 'age'",
        "--cluster 'lower(zone)'",
        "no column 'zone'",
        "a column position",
    ):
        assert str(caught.value).count(said) == 1
    refuse(
        [str(path)],
        r"has no columns 'weight' \(--weight\).*, 'a' \(--probs\).*, 'b' \(--probs\)",
        probs="p,a,b",
        target="y",
        weight="weight",
    )


# ---------------------------------------------------------------- the score as an expression


#: Expressions over `p`, `x` and `k`, the same of a row in Python, and the options that they are read with.
SCORES: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "CASE WHEN k = 1 THEN p ELSE 1 - p END": (lambda c: np.where(c["k"] == 1, c["p"], 1 - c["p"]), ()),
    "p * x -- of both": (lambda c: c["p"] * c["x"], ()),
    "100 * p": (lambda c: 100 * c["p"], ("--percent",)),
    "2 * ln(p / (1 - p))": (lambda c: 2 * np.log(c["p"] / (1 - c["p"])), ("--logits",)),
    "logit_ / 2": (lambda c: c["p"], ()),  # no name of logits
}


def score_columns(n: int = 40) -> dict[str, Any]:
    rng = np.random.default_rng(7)
    p, x = rng.integers(1, 64, (2, n)) / 64  # whose decimals a workbook keeps
    return {"p": p, "x": x, "k": np.arange(n) % 2, "logit_": 2 * p, "y": (rng.random(n) < p).astype(int)}


def write_scores(path: Path, columns: dict[str, Any]) -> str:
    table = pa.table(columns)
    if path.suffix == ".xlsx":
        pytest.importorskip("openpyxl")
        table.to_pandas().to_excel(path, index=False)
    else:
        writer = {".csv": "csv of polars", ".jsonl": "json", ".arrow": "arrow", ".parquet": "pyarrow"}[path.suffix]
        WRITERS[writer][1](table, path)
    return str(path)


KINDS = ("csv", "jsonl", "arrow", "parquet", "xlsx")


def report_of(path: str, *options: str) -> dict[str, Any]:
    result = json_of("report", path, *options, "--outcome", "y")
    return {name: value for name, value in result.items() if name not in ("files", "columns", "source", "sources")}


@pytest.mark.covering
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sql", SCORES)
def test_an_expression_of_the_score_gives_the_report_of_a_column(sql: str, kind: str, tmp_path: Path) -> None:
    columns, (score, options) = score_columns(), SCORES[sql]
    columns["made"] = score(columns)
    path = write_scores(tmp_path / f"a.{kind}", columns)
    made, expression = (report_of(path, "--score", name, *options) for name in ("made", sql))
    names = {json.dumps(each).replace(sql, "made") for each in (made, expression)}
    if "ln" not in sql:  # two logarithms may differ in the last digit
        assert len(names) == 1
    np.testing.assert_allclose(
        read_predictions([path], score=sql, outcome="y", percent="--percent" in options).probs,
        read_predictions([path], score="made", outcome="y", percent="--percent" in options).probs,
        rtol=1e-14,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_comes_before_an_expression_of_the_score(kind: str, tmp_path: Path) -> None:
    columns = score_columns()
    path = write_scores(tmp_path / f"a.{kind}", columns | {"1 - p": columns["x"]})
    np.testing.assert_array_equal(read_predictions([path], score="1 - p", outcome="y").probs, columns["x"])


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
@pytest.mark.parametrize(("sql", "width"), [("1 - p", np.float32), ("CAST(p AS DOUBLE)", np.float64)])
def test_an_expression_of_the_score_has_the_width_of_its_value(
    kind: str, sql: str, width: type, tmp_path: Path
) -> None:
    path = write_scores(tmp_path / f"a.{kind}", {"p": np.linspace(0, 1, 20, dtype=np.float32), "y": np.arange(20) % 2})
    assert read_predictions([path], score=sql, outcome="y").probs.dtype == width


@pytest.mark.covering
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("CASE WHEN k = 0 THEN p END", "column 'CASE WHEN k = 0 THEN p END': empty in 20 rows"),
        ("p + 3 * k", "row 2, column 'p + 3 * k': expected values in [0, 1], got 3."),
        (
            "p + CAST(if(k = 1, 'nan', '0') AS DOUBLE)",
            "NaN in 20 rows; fill the cells, or to leave such rows out, type: ",
        ),
        (
            "[p, p]",
            "--score '[p, p]' does not give one value for each row; "
            "write an expression that gives one number for each row",
        ),
        (
            "p, x",
            "--score 'p, x' does not give one value for each row; "
            "write an expression that gives one number for each row",
        ),
        ("p + q", "--score 'p + q': there is no column 'q'"),
        ("sum(p)", "--score 'sum(p)': sum is not allowed"),
        ("concat('a', p)", """column "concat('a', p)" holds text, not numbers"""),
    ],
)
def test_an_error_names_the_expression_of_the_score(sql: str, said: str, kind: str, tmp_path: Path) -> None:
    path = write_scores(tmp_path / f"a.{kind}", score_columns())
    status, _, stderr = run("report", path, "--score", sql, "--outcome", "y")
    assert (status, said in stderr) == (1, True), stderr


def test_an_expression_of_the_score_without_an_outcome_asks_for_one(tmp_path: Path) -> None:
    path = write_scores(tmp_path / "a.csv", {"p": [0.1, 0.9], "won": [0, 1], "seen": [1, 0]})
    status, _, stderr = run("report", path, "--score", "1 - p")
    assert (status, "name the right column with --outcome" in stderr) == (1, True), stderr


def test_models_are_columns_alone(tmp_path: Path) -> None:
    path = write_scores(tmp_path / "a.csv", score_columns())
    for sql, said in (
        ("1 - p", "has no column '1 - p' (--scores)"),
        ("p * x", "no column matches --scores 'p * x'"),
    ):
        status, _, stderr = run("compare", path, "--scores", f"{sql},p", "--outcome", "y")
        assert (status, f"{said}; --scores takes columns, not SQL; the columns are p, x" in stderr) == (1, True), stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--by", "week(word)"), "--by 'week(word)': 'web' is not a date or a time, such as 2026-11-30"),
        (("--where", "day < 'soon'"), "'soon' is not a date or a time, such as 2026-11-30"),
        (("--where", "day < 2026-11-05"), "type DATE and type INTEGER - an explicit cast is required; write dates in"),
        (("--where", "time < 2026"), "write dates in quotes, such as '2026-11-30'; the columns are"),
    ],
)
def test_errors_about_dates_say_how_to_write_one(tmp_path, options, said):
    path = tmp_path / "f.csv"
    path.write_text("score,outcome,word,day,time\n" + "0.5,1,web,2026-11-03,2026-11-03 12:00:00\n" * 20)
    err = fail("report", str(path), "--score", "score", "--outcome", "outcome", *options)
    assert said in " ".join(err.split())
    assert "field format" not in err
