"""The same report on Spark, for real in local mode; it skips where there is no pyspark or no Java."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrant import CalibrationSketch
from calibrant.cli import spark
from calibrant.errors.exceptions import install_command
from tests.in_process import fail, json_of, run, succeed

pytest.importorskip("pyspark", reason="the extra spark is not installed")
pa = pytest.importorskip("pyarrow", reason="the report extra is not installed")
import pyarrow.parquet as pq  # noqa: E402

needs_java = pytest.mark.skipif(
    shutil.which("java") is None and "JAVA_HOME" not in os.environ, reason="there is no Java here"
)
pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("default")]  # warnings of pyspark are its own

N = 400
RNG = np.random.default_rng(0)
P = RNG.random(N)
Y = (RNG.random(N) < P).astype(int)
ROWS, TARGETS = RNG.dirichlet(np.ones(3), N), RNG.integers(0, 3, N)
K = RNG.integers(0, 3, N)
WORDS = np.array(["cat", "dog", "eel"])
USERS = RNG.permutation(np.arange(N) % 300) - 150
NAMES = np.array([f"Zoë {k}" for k in (USERS % 100).tolist()])
FAST = ("--n-resamples", "0")
SCORES = [0.1, 0.7, 0.4, 0.9]

CASES: dict[str, tuple[dict[str, Any], str]] = {
    "one event": ({"score": P.astype("f4"), "outcome": Y, "g": K, "w": K + 0.5}, "--weight w --by g"),
    "classes": ({**{f"p_{k}": ROWS[:, k] for k in range(3)}, "target": TARGETS}, ""),
    "named classes": ({**{f"p_{name}": ROWS[:, k] for k, name in enumerate(WORDS)}, "target": WORDS[TARGETS]}, ""),
    "lists": ({"probs": ROWS.tolist(), "target": TARGETS}, "--no-classwise"),
    "labels": ({"score": P, "outcome": Y + 1.0}, "--labels 1,2"),
    "words": ({"score": P, "outcome": np.array(["no", "yes"])[Y], "day": K}, "--labels no,yes --where 'day > 0'"),
    "clusters": ({"score": P, "outcome": Y, "user": USERS, "g": K}, "--cluster user --by g"),
    "named clusters": ({"score": P, "outcome": Y, "user": NAMES, "k": K}, "--cluster user --cluster k"),
    "an expression": ({"q": 1 - P, "outcome": Y}, "--score '100 * (1 - q)' --percent"),
    "per cents": ({"my p": 100 * P, "outcome": np.where(K == 2, 7, Y)}, "--score 'my p' --percent --ignore-index 7"),
}


def write(path: Path, columns: dict[str, Any]) -> str:
    table = pa.table({key: column if isinstance(column, list) else pa.array(column) for key, column in columns.items()})
    if path.suffix == ".parquet":
        pq.write_table(table, path)
        return str(path)
    rows = table.to_pylist()
    lines = [json.dumps(row) for row in rows]
    if path.suffix == ".csv":
        lines = [",".join(table.column_names), *(",".join(map(str, row.values())) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session that is running already, which the command then uses, and leaves alone."""
    from pyspark.sql import SparkSession

    with warnings.catch_warnings(), spark._silent():
        warnings.simplefilter("ignore")
        builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2")
        builder = builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        for name, value in spark._SETTINGS.items():
            builder = builder.config(name, value)
        running = builder.getOrCreate()
    running.sparkContext.setLogLevel("OFF")
    yield running
    running.stop()


def sketched(path: Path, *options: str) -> CalibrationSketch:
    """Return the sketch that the command writes."""
    succeed("report", path, *options, *FAST, "--sketch", path.parent / "s.cal")
    return CalibrationSketch.from_bytes((path.parent / "s.cal").read_bytes())


def check_clusters(name: str, ours: CalibrationSketch, theirs: CalibrationSketch) -> None:
    """Compare sums over buckets; sums of gaps are of 400 terms between -1 and 1, in another order."""
    pairs = [(ours, theirs), *((ours.groups[group], theirs.groups[group]) for group in ours.groups)]
    for one, other in pairs:
        mine, its = one._part.clusters, other._part.clusters
        assert (mine is not None) == (its is not None) == ("clusters" in name)
        if mine is not None:
            assert (mine.event.kind, mine.event.pooled) == (its.event.kind, its.event.pooled), name
            if not mine.event.pooled:
                assert np.array_equal(mine.event.hashes, its.event.hashes)
            np.testing.assert_allclose(mine.event.cell_sums, its.event.cell_sums, rtol=1e-12, atol=1e-13)
            np.testing.assert_allclose(mine.event.scalars, its.event.scalars, rtol=1e-12, atol=1e-13)


@needs_java
@pytest.mark.usefixtures("session")
@pytest.mark.parametrize(
    ("sql", "clusters"), [("substring(user, 1, 5)", 10), ("CASE WHEN user LIKE '%1' THEN 1 ELSE 2 END", 2)]
)
def test_a_cluster_may_be_an_expression(tmp_path: Path, sql: str, clusters: int) -> None:
    path = tmp_path / "f.parquet"
    write(path, {"score": P, "outcome": Y, "user": NAMES})
    ours = sketched(path, "--cluster", sql, "--engine", "spark")
    theirs = sketched(path, "--cluster", sql)
    check_clusters("clusters", ours, theirs)
    assert ours._part.clusters.event.n_clusters == clusters


@needs_java
@pytest.mark.usefixtures("session")
@pytest.mark.parametrize(
    "options",
    [
        ("--by", "age"),
        ("--by", "age", "--by-values"),
        ("--by", "dose", "--by", "g"),
        ("--by", "month(date)"),
        ("--by", "week(date)"),
        ("--by", "age > 40"),
    ],
)
def test_groups_are_those_of_the_embedded_engine(tmp_path: Path, options: tuple[str, ...]) -> None:
    path = tmp_path / "f.parquet"
    days = np.datetime64("2024-12-20") + RNG.integers(0, 30, N).astype("m8[D]")
    columns = {"age": RNG.integers(18, 90, N), "dose": RNG.gamma(2, 1, N), "g": WORDS[K], "date": days}
    write(path, {"score": P, "outcome": Y, **columns})
    ours, theirs = sketched(path, *options, "--engine", "spark"), sketched(path, *options)
    counts = [{name.lower(): group.n for name, group in each.groups.items()} for each in (ours, theirs)]
    assert counts[0] == counts[1]
    assert len(counts[0]) > 1
    described = [run("report", path, *options, *engine, *FAST)[1] for engine in ((), ("--engine", "spark"))]
    assert described[0].splitlines()[:3] == described[1].splitlines()[:3]


@needs_java
@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_spark_makes_the_same_sketch(tmp_path: Path, ending: str) -> None:
    for name, (columns, options) in CASES.items():
        if (name == "lists" and ending == "csv") or (name == "labels" and ending != "parquet"):
            continue
        for part in range(2):
            rows = {key: column[part::2] for key, column in columns.items()}
            write(tmp_path / f"{name.replace(' ', '-')}-{part}.{ending}", rows)
        pattern = tmp_path / f"{name.replace(' ', '-')}-*.{ending}"
        ours = sketched(pattern, *shlex.split(options), "--engine", "spark")
        theirs = sketched(pattern, *shlex.split(options))
        one, other = json.loads(ours.to_json()), json.loads(theirs.to_json())
        for key in ("count_0", "count_1", "group", "curve", "cell"):
            assert one["cells"][key] == other["cells"][key], (name, key)
        for own, its in zip(one["totals"], other["totals"], strict=True):
            np.testing.assert_allclose(list(own.values()), list(its.values()), rtol=1e-12)
        check_clusters(name, ours, theirs)
        for key in ("groups", "notion", "classwise", "n_classes", "rows"):
            assert one[key] == other[key], (name, key)


@needs_java
@pytest.mark.usefixtures("session")
def test_the_report_of_spark_is_that_of_the_sketch(tmp_path: Path) -> None:
    path = write(tmp_path / "a[1].parquet", {"score": P, "outcome": Y, "g": K})
    status, out, err = run("report", path, "--by", "g", "--engine", "spark", *FAST, "--json", "-")
    assert (status, err) == (0, "")
    ours = json.loads(out)
    status, _, _ = run("report", path, "--by", "g", *FAST, "--sketch", tmp_path / "s.cal")
    theirs = json.loads(run("report", tmp_path / "s.cal", *FAST, "--json", "-")[1])
    assert ours["source"]["files"] == [path]
    assert ours["source"]["columns"] == {"probs": "score", "targets": "outcome", "groups": "g"}
    for name, own in ours["estimates"].items():
        if own["value"] is None:  # there are no classes
            assert theirs["estimates"][name]["value"] is None
        else:
            assert own["value"] == pytest.approx(theirs["estimates"][name]["value"], rel=1e-9), name
    assert [group["name"] for group in ours["groups"]] == ["0", "1", "2"]


@needs_java
@pytest.mark.usefixtures("session")
@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ({"score": [0.5, None], "outcome": [1, 0]}, "", "column 'score': expected numbers in every row, got missing"),
        ({"score": [0.5, None], "outcome": [1, 0]}, "", "; leave such rows out with --where"),
        ({"score": [0.5, 1.5], "outcome": [1, 0]}, "", "column 'score': expected values in [0, 1], got 1.5; if they"),
        ({"score": [0.5, 1.5], "outcome": [1, 0]}, "", "logits, pass --logits and leave --engine spark out"),
        ({"score": [50.0, 85.0], "outcome": [1, 0]}, "", "; pass --percent if the numbers are percentages"),
        ({"score": [0.5, 1.0001], "outcome": [1, 0]}, "", "; clip the values to [0, 1] if rounding caused this"),
        ({"score": [0.5, 0.5], "outcome": [1, 7]}, "", "column 'outcome': expected outcomes 0 or 1, got 7"),
        ({"score": [0.5, 0.5], "outcome": [1, 7]}, "", "; name both labels with --labels, the event last, or name"),
        ({"score": [0.5, 0.5], "outcome": [1, 0.5]}, "", "; name the column of the outcomes with --outcome"),
        ({"p_0": [0.5], "p_1": [0.4], "target": [0]}, "", "; divide each row by its sum, or report on each label"),
        ({"p_0": [0.5], "p_1": [0.5], "target": [2]}, "", "; pass --labels 1-2 if the labels are 1-based, or leave"),
        ({"p_0": [0.5], "p_1": [0.5], "target": [7]}, "", "; name the column of every class with --probs, or leave"),
        ({"score": [0.5], "outcome": [1], "w": [-1]}, "--weight w", "; correct the rows, or leave such rows out with"),
        (
            {"score": [0.5] * 2, "outcome": [1] * 2, "g": ["a", None]},
            "--by g",
            "; fill the missing names, such as with 'unk",
        ),
        ({"score": [0.5], "outcome": ["yes"]}, "", "; pass --labels in the order of the columns; for one event"),
        ({"score": [0.5], "outcome": [1]}, "--score scor", "has no column 'scor' (--score); did you mean 'score'?"),
        ({"x": SCORES, "z": [0, 1, 1, 1]}, "", "name the right columns, such as: calibrant report"),
        ({"score": ["low"], "outcome": [1]}, "", "column 'score': expected a column of numbers"),
        ({"score": ["low"], "outcome": [1]}, "", "; write the column with one of these types"),
        ({"p": SCORES, "outcome": [1] * 4}, "--score 'p + q'", "--score 'p + q': A column"),
        ({"p": SCORES, "outcome": [1] * 4}, "--score 'p +'", "--score 'p +': "),
        ({"p": SCORES, "outcome": [1] * 4}, "--score 'p + 1'", "column 'p + 1': expected values in [0, 1], got"),
        ({"p": SCORES, "outcome": [1] * 4}, "--score '50 * p'", "; pass --percent if the numbers are percentages"),
        ({"p": SCORES, "outcome": [1] * 4}, "--score 'if(p < 1, null, p)'", "got missing"),
        ({"p": SCORES, "outcome": [1] * 4}, "--score \"p + double('nan')\"", "got missing values (null or NaN) in 4"),
        (
            {"p": SCORES, "outcome": [1] * 4},
            "--score 'array(p, 1 - p)'",
            "write an expression that gives one number for each row",
        ),
        ({"p": SCORES, "outcome": [1] * 4}, "--score 'max(p)'", "--score 'max(p)': "),
        ({"p": SCORES, "outcome": [1] * 4}, "--score \"concat(p, 'x')\"", "expected a column of numbers"),
        ({"p": SCORES, "outcome": [1] * 4}, "--score \"concat(p, 'x')\" --percent", "cannot parse '85%'"),
        ({"score": [0.5], "outcome": [1]}, "--where 'seson > 3'", "--where 'seson > 3': "),
        ({"score": [0.5], "outcome": [1]}, "--cluster usr", "has no column 'usr' (--cluster)"),
        ({"score": [0.5], "outcome": [1]}, "--cluster 'usr + 1'", "--cluster 'usr + 1': "),
        ({"score": [0.5], "outcome": [1]}, "--cluster 'max(score)'", "--cluster 'max(score)': "),
        ({"score": [0.5], "outcome": [1]}, "--cluster 'explode(array(1, 2))'", "write the expression in Spark SQL"),
        (
            {"score": [0.5], "outcome": [1], "c": [1.5]},
            "--cluster c",
            "--cluster c: expected whole numbers or text, got",
        ),
        (
            {"score": [0.5] * 2, "outcome": [1] * 2, "c": ["a", None], "d": [1, 2]},
            "--cluster c --cluster d",
            "--cluster c, d: expected a label in every row, got missing values (null or NaN) in 1 row; leave",
        ),
        ({"score": [0.5], "outcome": [1]}, "--where 'score >'", "--where 'score >': "),
        ({"probs": [[0.5, 0.5], [1.0]], "target": [1, 0]}, "", "column 'probs' has lists of 1 and of 2 values"),
        ({"logits": [0.5], "outcome": [1]}, "", "holds logits, which --engine spark does not support; write"),
    ],
)
def test_what_spark_cannot_use_is_one_line(tmp_path: Path, columns: dict[str, Any], options: str, words: str) -> None:
    path = write(tmp_path / "f.parquet", columns)
    status, out, err = run("report", path, *shlex.split(options), "--engine", "spark")
    assert (status, out) == (1, "")
    assert err.count("\n") == 1
    assert err.startswith(f"calibrant: {path}: ")
    assert words in err


@needs_java
@pytest.mark.usefixtures("session")
def test_files_that_spark_cannot_read(tmp_path: Path) -> None:
    path = write(tmp_path / "f.parquet", {"score": P, "outcome": Y})
    Path(path).write_bytes(Path(path).read_bytes()[:-100])
    err = fail("report", path, "--engine", "spark")
    assert err.startswith(f"calibrant: {path}: cannot be read by Spark (")
    assert err.count("\n") == 1
    np.savez(tmp_path / "f.npz", probs=P, y=Y)
    _, _, err = run("report", tmp_path / "f.npz", "--engine", "spark")
    assert "has a format that --engine spark cannot read; pass .parquet, .csv or .jsonl files" in err


@needs_java
@pytest.mark.usefixtures("session")
def test_files_that_are_not_alike_are_named(tmp_path: Path) -> None:
    good = write(tmp_path / "a.csv", {"score": SCORES, "outcome": [0, 1, 0, 1]})
    turned = write(tmp_path / "b.csv", {"outcome": [0, 1, 0, 1], "score": SCORES})
    first = write(tmp_path / "a.parquet", {"score": SCORES, "outcome": [0, 1, 0, 1]})
    lacking = write(tmp_path / "b.parquet", {"prob": SCORES, "outcome": [0, 1, 0, 1]})
    cut = tmp_path / "c.csv"
    cut.write_text("score,outcome\n0.5\n")
    for one, other, words in (
        (
            good,
            turned,
            f"{turned}: has columns that differ from {good} in name or order, but Spark reads",
        ),
        (first, lacking, f"{lacking}: has no column 'score', which {first} has; pass files with the same columns"),
        (good, cut, f"{good} … {cut} (2 files): cannot be read by Spark (Malformed CSV record: 0.5)"),
    ):
        status, _, err = run("report", one, other, "--engine", "spark", *FAST)
        assert (status, err.startswith(f"calibrant: {words}")) == (1, True), err
    texts = write(tmp_path / "t.csv", {"score": ["85%", "15%"], "outcome": [1, 0]})
    err = run("report", texts, "--engine", "spark", "--percent", *FAST)[2]
    assert "column 'score' holds text, and --engine spark cannot parse '85%'; write numbers, or leave" in err


@needs_java
def test_a_session_is_started_and_stopped_in_silence(tmp_path: Path) -> None:
    path = write(tmp_path / "f.parquet", {"score": P, "outcome": Y})
    done = subprocess.run(
        [sys.executable, "-m", "calibrant", "report", path, "--engine", "spark", "--master", "local[1]", *FAST],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{N} predictions" in done.stdout
    assert "from a sketch (standard grid)" in " ".join(done.stdout.split())


def test_spark_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "f.parquet", {"score": P, "outcome": Y})
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    monkeypatch.setattr(spark.shutil, "which", lambda _: None)
    status, out, err = run("report", path, "--engine", "spark")
    assert (status, out) == (1, "")
    assert err == ("calibrant: --engine spark: expected Java, found none; install Java 17 or later, or set JAVA_HOME\n")
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    status, out, err = run("report", path, "--engine", "spark")
    assert (status, out) == (1, "")
    remedy = f"run: {install_command('spark')}"
    assert err == f"calibrant: pyspark is needed for --engine spark and is not installed; {remedy}\n"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--engine spark --logits", "--logits is not available with --engine spark; pass only one of the two options"),
        ("--engine spark --keep-going", "--keep-going is not available with --engine spark"),
        ("--engine spark --notion multilabel", "--notion multilabel is not available with --engine spark; report on"),
        (
            "--engine spark --exact",
            "--exact keeps the rows in this process, but Spark does not; pass only one of --exact and --engine spark",
        ),
        ("--master local[2]", "--master works only with --engine spark; pass --engine spark too"),
        ("--engine dask", "'dask' is not one of 'embedded', 'spark'"),
    ],
)
def test_options_that_do_not_go_with_spark(tmp_path: Path, options: str, words: str) -> None:
    path = write(tmp_path / "f.parquet", {"score": P, "outcome": Y})
    status, out, err = run("report", path, *shlex.split(options))
    assert (status, out) == (2, "")
    assert words in " ".join(err.split())


def test_files_of_two_places(tmp_path: Path) -> None:
    err = fail("report", "s3a://bucket/*.parquet", tmp_path / "f.parquet", "--engine", "spark")
    assert (
        "s3a://bucket/*.parquet: is a remote file, but other files are local; pass only remote or only local files"
        in err
    )


# ---------------------------------------------------------------- the same rows and names as without Spark


def test_rows_and_groups_are_those_of_the_embedded_engine(tmp_path: Path) -> None:
    """NaN is above all numbers, also in files whose statistics leave it out; times are in UTC, or in --timezone."""
    n = 48
    seconds = 1_706_691_600 + 10_800 * np.arange(n)  # every three hours around the end of a month
    values = np.where(np.arange(n) % 4 == 0, np.nan, 1.0 * (np.arange(n) % 50))
    columns = {
        "score": np.linspace(0, 1, n),
        "outcome": np.arange(n) % 2,
        "x": values,
        "t": pa.array(seconds * 1_000_000, pa.timestamp("us", tz="UTC")),
        "half": np.arange(n) % 2 / 2,
        "sure": np.arange(n) % 3 == 0,
    }
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({name: pa.array(column) for name, column in columns.items()}), path, row_group_size=12)
    day = "CAST(t AS DATE)"
    for options in (
        ("--where", "x <= 70"),
        ("--where", "x > 70"),
        ("--where", "NOT (x <= 30)"),
        ("--where", "t >= TIMESTAMP '2024-02-01 00:00:00'", "--by", day),
        ("--where", "t >= TIMESTAMP '2024-02-01 00:00:00'", "--by", day, "--timezone", "Asia/Tokyo"),
        ("--by", "t", "--timezone", "America/Los_Angeles"),
        ("--by", "month(t)", "--timezone", "America/Los_Angeles"),
        ("--by", "half"),
        ("--by", "sure"),
        ("--by", "half", "--by", "sure"),
    ):
        found = []
        for engine in (("--sketch", tmp_path / "a.cal"), ("--engine", "spark")):
            summary = json_of("report", path, *options, *engine, *FAST)
            found.append((summary["n"], [(group["name"], group["report"]["n"]) for group in summary["groups"]]))
        assert found[0] == found[1], options


@pytest.mark.parametrize(
    "sql", ["rand() > 0.5", "now() > TIMESTAMP '2024-01-01'", "current_date > DATE '2024-01-01'", "uuid() <> 'x'"]
)
def test_sql_that_changes_from_run_to_run_is_refused(sql: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", {"score": P, "outcome": Y, "t": K})
    for option in ("--where", "--by"):
        status, _, err = run("report", path, option, sql, "--engine", "spark", *FAST)
        assert (status, "may differ from run to run, and so is not allowed; write a fixed value" in err) == (1, True)
