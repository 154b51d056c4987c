"""``calibrant recalibrate`` and ``calibrant apply``: maps with proof, files with one more column, wrong use."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from scipy.special import expit, logit

import calibrant
from calibrant.recalibration import CalibrationMap
from tests.in_process import fail, run, succeed

FAST = ("--n-resamples", "0")


@cache
def tables() -> tuple[str, str]:
    """Return the text of a table with outcomes, and of a table without."""
    rng = np.random.default_rng(1)
    p = rng.uniform(0.02, 0.98, 1_200).round(4)
    frame = pd.DataFrame({"id": np.arange(1_200), "risk": p, "note": ["a, b", ""] * 600})
    frame["died"] = (rng.random(1_200) < expit(0.5 * logit(p))).astype(int)
    frame["fine"] = (rng.random(1_200) < p).astype(int)
    frame["site"] = frame["id"] // 20
    return frame.to_csv(index=False), frame.drop(columns="died").to_csv(index=False)


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in zip(("held_out.csv", "new.csv"), tables(), strict=True):
        Path(name).write_bytes(text.encode())


def recalibrated(*options: object, outcome: str = "died") -> tuple[int, str, str]:
    return run("recalibrate", "held_out.csv", "--score", "risk", "--outcome", outcome, *FAST, *options)


@cache
def fitted() -> CalibrationMap:
    frame = pd.read_csv(io.StringIO(tables()[0]))
    return calibrant.recalibrate(frame["risk"], frame["died"], n_resamples=0).map


# ---------------------------------------------------------------- recalibrate


def test_a_proven_map_is_written_in_every_form() -> None:
    outputs = ("--map", "m.json", "--sql", "m.sql", "--onnx", "m.onnx", "--html", "m.html", "--json", "r.json")
    pictures = ("--markdown", "m.md", "--png", "m.png", "--svg", "m.svg")
    status, out, err = recalibrated(*outputs, *pictures)
    assert status == 0
    assert "Recalibration lowers the log loss of new rows by" in out
    for path in (*outputs[1::2], *pictures[1::2]):
        assert os.path.getsize(path) > 100, path
        assert path == "r.json" or f"wrote {path} (" in err
    assert CalibrationMap.read("m.json") == fitted()
    sql = Path("m.sql").read_text("utf-8")
    mapped = duckdb.sql(f"SELECT {sql} AS q FROM 'held_out.csv'").fetchnumpy()["q"]
    np.testing.assert_allclose(mapped, fitted()(pd.read_csv("held_out.csv")["risk"]), rtol=0, atol=1e-12)
    summary = json.loads(Path("r.json").read_text("utf-8"))
    assert summary["proven"] is True
    assert summary["source"]["event"] == "died = 1"
    assert len(summary["curve"]["scores"]) == 101
    assert "The map of the scores" in Path("m.html").read_text("utf-8")


def test_a_map_without_proof_is_not_written() -> None:
    status, out, err = recalibrated("--map", "m.json", "--sql", "m.sql", outcome="fine")
    assert status == 3
    assert "No map is clearly better than the unchanged scores" in out
    assert (
        err.count("the map is not written, because there is no evidence that it helps; to write it, pass --anyway") == 1
    )
    assert not os.path.exists("m.json")
    assert not os.path.exists("m.sql")
    status, _, err = recalibrated("--map", "m.json", "--method", "histogram", "--anyway", outcome="fine")
    assert status == 3
    assert json.loads(Path("m.json").read_text("utf-8"))["proven"] is False
    assert "wrote m.json" in err


def test_clusters_widen_the_interval() -> None:
    recalibrated("--json", "rows.json")
    recalibrated("--json", "clusters.json", "--cluster", "site")
    rows, clusters = (json.loads(Path(f"{name}.json").read_text("utf-8")) for name in ("rows", "clusters"))
    assert rows["clusters"] is None
    assert clusters["clusters"]["clusters"] == 60
    assert rows["gain"]["value"] != clusters["gain"]["value"]


def test_a_sketch_is_recalibrated_too() -> None:
    run("report", "held_out.csv", "--score", "risk", "--outcome", "died", "--sketch", "held_out.cal", *FAST)
    succeed("recalibrate", "held_out.cal", "--map", "m.json", *FAST)
    grid = np.linspace(0.01, 0.99, 99)
    # Cells are dealt into other folds than scores, which decide by how much a map is shrunk.
    np.testing.assert_allclose(CalibrationMap.read("m.json")(grid), fitted()(grid), atol=5e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--method", "spline"), "method: expected one of auto, identity"),
        (("--map", "m.txt"), "name a file that ends in .json"),
        (("--onnx", "m.json"), "name a file that ends in .onnx"),
        (
            ("--anyway",),
            "--anyway writes the map even without evidence that it helps; pass --map too, such as --map map.json",
        ),
        (("--by", "sites"), "has no column 'sites'"),
        (("--notion", "classwise"), "classwise"),
        (("--level", "95"), "pass a share from 0.5 to below 1"),
        (("--map", "no/m.json"), "the folder 'no' does not exist"),
    ],
)
def test_a_wrong_option_is_named(options: tuple[str, ...], message: str) -> None:
    status, _, err = recalibrated(*options)
    assert status in (1, 2)
    assert message in " ".join(err.split())


# ---------------------------------------------------------------- apply


@cache
def stored_text() -> str:
    recalibrated("--map", "m.json", "--quiet")
    return Path("m.json").read_text("utf-8")


@pytest.fixture
def stored() -> str:
    Path("m.json").write_text(stored_text(), "utf-8")
    return "m.json"


def test_a_csv_keeps_its_text_and_gets_one_more_column(stored: str) -> None:
    status, _, err = run("apply", stored, "new.csv", "--score", "risk", "--output", "out.csv")
    assert (status, err) == (0, "calibrant: wrote out.csv (1,200 rows)\n")
    before, after = (Path(name).read_text("utf-8").splitlines() for name in ("new.csv", "out.csv"))
    assert after[0] == f"{before[0]},calibrated"
    assert [line.rsplit(",", 1)[0] for line in after] == before
    frame = pyarrow.csv.read_csv("out.csv").to_pandas()
    np.testing.assert_array_equal(frame["calibrated"], fitted()(frame["risk"]))


@pytest.mark.parametrize("source", ["csv", "tsv", "parquet", "feather", "json", "jsonl", "xlsx"])
@pytest.mark.parametrize("target", ["csv", "parquet", "arrow", "feather"])
def test_every_kind_of_file_is_mapped(stored: str, source: str, target: str) -> None:
    frame = pd.read_csv("new.csv")[["id", "risk"]].head(50)
    name = f"few.{source}"
    match source:
        case "csv":
            frame.to_csv(name, index=False)
        case "tsv":
            frame.to_csv(name, index=False, sep="\t")
        case "parquet":
            frame.to_parquet(name)
        case "feather":
            pyarrow.feather.write_feather(pyarrow.Table.from_pandas(frame), name)
        case "json" | "jsonl":
            frame.to_json(name, orient="records", lines=source == "jsonl")
        case _:
            pytest.importorskip("openpyxl")
            frame.to_excel(name, index=False)
    status, _, err = run(
        "apply", stored, name, "--score", "risk", "--output", f"out.{target}", "--name", "q", "--quiet"
    )
    assert (status, err) == (0, "")
    if target == "csv":
        mapped = pd.read_csv("out.csv")
    else:
        read = pyarrow.parquet.read_table if target == "parquet" else pyarrow.feather.read_table
        mapped = read(f"out.{target}").to_pandas()
    assert list(mapped.columns) == ["id", "risk", "q"]
    np.testing.assert_allclose(mapped["q"], fitted()(frame["risk"]), rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    ("value", "message"),
    [("1.5", "holds 1.5 in row 2, not a score"), ("", "holds no number in row 2"), ("x", "holds no number in row 2")],
)
@pytest.mark.parametrize("rows", [3, 70_000])
def test_a_bad_score_writes_nothing(stored: str, value: str, message: str, rows: int) -> None:
    lines = ["risk,id", "0.5,1", f"{value},2", *(f"0.25,{i}" for i in range(rows))]
    if rows > 3:  # the bad one is in a later batch
        lines[2], lines[-1] = "0.5,2", f"{value},{rows}"
        message = message.replace("row 2", f"row {len(lines) - 1:,}")
    Path("bad.csv").write_text("\n".join(lines) + "\n")
    for target in ("out.csv", "out.parquet"):
        err = fail("apply", stored, "bad.csv", "--score", "risk", "--output", target)
        assert f"bad.csv: column 'risk' {message}" in err
        assert not os.path.exists(target)
    assert not [name for name in os.listdir() if name.endswith(".part")]


def test_log_odds_are_mapped(stored: str) -> None:
    risk = pd.read_csv("new.csv")["risk"]
    pd.DataFrame({"z": np.log(risk) - np.log1p(-risk)}).to_csv("logits.csv", index=False)
    apply = ("apply", stored, "logits.csv", "--score", "z", "--output", "out.csv")
    status, _, err = run(*apply)
    assert (status, os.path.exists("out.csv")) == (1, False)
    assert "pass --percent if the scores are percentages, or --logits if they are log-odds" in " ".join(err.split())
    assert run(*apply, "--logits") == (0, "", "calibrant: wrote out.csv (1,200 rows)\n")
    np.testing.assert_allclose(pd.read_csv("out.csv")["calibrated"], fitted()(risk), rtol=1e-12)
    Path("logits.csv").write_text("z\n1\nnan\n")
    status, _, err = run(*apply, "--logits")
    assert (status, "give every row a score" in err) == (1, True)


@pytest.mark.parametrize(
    ("write", "options"),
    [
        (lambda p: f"{100 * p:.2f}", ()),
        (lambda p: f"{100 * p:.2f}%", ()),
        (lambda p: f'"{100 * p:.2f} %"'.replace(".", ","), ("--decimal-comma",)),
    ],
)
def test_percentages_are_mapped_as_recalibrate_reads_them(stored: str, write: Any, options: tuple[str, ...]) -> None:
    risk = pd.read_csv("new.csv")["risk"]
    lines = [f"{k},{write(p)}" for k, p in enumerate(risk)]
    Path("percent.csv").write_text("\n".join(["id,z", *lines]) + "\n")
    given = ("apply", stored, "percent.csv", "--score", "z", "--output", "out.csv")
    assert run(*given)[0] == 1
    assert run(*given, "--percent", *options) == (0, "", "calibrant: wrote out.csv (1,200 rows)\n")
    np.testing.assert_allclose(pd.read_csv("out.csv")["calibrated"], fitted()(risk), rtol=1e-12)
    if options:
        status, _, err = run(*given, "--percent")
        assert (status, "pass --decimal-comma if the comma is a decimal point" in " ".join(err.split())) == (1, True)
        Path("percent.csv").write_text("id,z\n1,1.234 %\n")
        status, _, err = run(*given, "--percent", *options)
        said = "'1.234 %' has a decimal point, but --decimal-comma is given; leave --decimal-comma out"
        assert (status, said in " ".join(err.split())) == (1, True)


@pytest.mark.parametrize("number", [4.5, "4.5"])
def test_percentages_of_types_and_wrong_ones(stored: str, number: object) -> None:
    def saved(*values: object) -> tuple[str, ...]:
        pd.DataFrame({"z": values}).to_parquet("in.parquet")
        return "apply", stored, "in.parquet", "--score", "z", "--percent", "--output", "out.csv"

    kind = type(number)
    assert run(*saved(number, kind(20)), "--quiet") == (0, "", "")
    np.testing.assert_allclose(pd.read_csv("out.csv")["calibrated"], fitted()([0.045, 0.2]), rtol=1e-12)
    for values, said in (
        ((kind(0.2), kind(0.9)), "no value of z exceeds 1, so the values look like fractions; leave --percent out"),
        ((number, kind(101)), "row 2, column 'z': "),
        ((number, None), "column 'z' holds no number in row 2;"),
    ):
        status, _, err = run(*saved(*values))
        assert (status, said in " ".join(err.split())) == (1, True), err
        assert len(pd.read_csv("out.csv")) == 2  # the file before is kept
    status, _, err = run(*saved(number), "--logits")
    assert (status, "--logits and --percent exclude each other" in " ".join(err.split())) == (2, True)


@pytest.mark.parametrize("given", ["days", "days/*", "days/day=*/*.csv"])
def test_one_file_is_mapped_at_a_time(stored: str, given: str) -> None:
    for day in "12":
        Path(f"days/day={day}").mkdir(parents=True)
        Path(f"days/day={day}/a.csv").write_bytes(Path("new.csv").read_bytes())
    status, _, err = run("apply", stored, given, "--score", "risk", "--output", "out.csv")
    said = "2 files, but a map is applied to one file at a time; name one file, such as days/day=1/a.csv"
    assert (status, f"{given}: stands for {said}" in " ".join(err.split())) == (1, True)


@pytest.mark.every_value
@pytest.mark.parametrize(
    ("kind", "option", "value", "problem"),
    [
        ("parquet", "--header-line", "2", "--header-line is for text tables and workbooks, but the file is .parquet"),
        ("parquet", "--encoding", "cp1252", "--encoding is for text files, but the file is not one"),
        ("xlsx", "--encoding", "cp1252", "--encoding is for text files, but the file is not one"),
        ("parquet", "--sheet", "A", "--sheet is for workbooks (.xlsx), but the file is not one"),
    ],
)
def test_options_of_text_do_not_fit_other_files(stored: str, kind: str, option: str, value: str, problem: str) -> None:
    frame, name = pd.read_csv("new.csv"), f"new.{kind}"
    frame.to_parquet(name) if kind == "parquet" else frame.to_excel(name, index=False)
    given = ("apply", stored, name, "--score", "risk", "--output", "out.csv")
    status, _, err = run(*given, option, value)
    assert (status, " ".join(err.split())) == (1, f"calibrant: {name}: {problem}; leave {option} out")
    assert not Path("out.csv").exists()
    assert run(*given)[0] == 0


def test_the_remedy_for_a_name_that_is_taken_works(stored: str) -> None:
    given = ("apply", stored, "--score", "risk")
    assert run(*given, "new.csv", "--output", "out.csv")[0] == 0
    _, _, err = run(*given, "out.csv", "--output", "twice.csv")
    name = re.search("such as --name (.*)", " ".join(err.split()))[1]
    assert run(*given, "out.csv", "--output", "twice.csv", "--name", name)[0] == 0
    assert run(*given, "twice.csv", "--output", "third.csv", "--name", name)[2].rstrip().endswith("--name calibrated_3")


def test_a_failed_run_keeps_the_old_file(stored: str) -> None:
    Path("out.csv").write_text("old")
    Path("bad.csv").write_text("risk\n0.5\n2\n")
    assert run("apply", stored, "bad.csv", "--output", "out.csv", "--score", "risk")[0] == 1
    assert Path("out.csv").read_text() == "old"


@pytest.mark.parametrize(
    ("args", "status", "message"),
    [
        (("new.csv", "--output", "out.csv"), 1, "has no column with the usual name of a score"),
        (("new.csv", "--score", "risks", "--output", "out.csv"), 1, "has no column 'risks'; did you mean 'risk'?"),
        (
            ("new.csv", "--score", "risk", "--output", "new.csv"),
            2,
            "'new.csv' is also read, as FILE; name another file",
        ),
        (("new.csv", "--score", "risk", "--output", "out.txt"), 2, "name a file that ends in .csv"),
        (("new.csv", "--score", "risk", "--output", "no/out.csv"), 2, "the folder 'no' does not exist"),
        (("new.csv", "--score", "risk", "--output", "o.csv", "--name", "id"), 1, "has a column named 'id'"),
        (("new.csv", "--score", "risk", "--output", "o.csv", "--name", " "), 2, "name the new column"),
        (("none.csv", "--output", "out.csv"), 1, "no such file"),
        (("empty.csv", "--score", "risk", "--output", "out.csv"), 1, "has no rows"),
        (("a.npy", "--output", "out.csv"), 1, "which has no columns"),
        (("*.csv", "--score", "risk", "--output", "out.csv"), 1, "stands for 3 files, but a map is applied to"),
        (("http://[::1/a.csv", "--output", "out.csv"), 1, "is not a valid address (Invalid IPv6 URL)"),
        (("new.csv",), 2, "Name the file to write"),
    ],
)
def test_a_wrong_file_or_option_is_named(stored: str, args: tuple[str, ...], status: int, message: str) -> None:
    Path("empty.csv").write_text("risk,id\n")
    np.save("a.npy", np.ones(3))
    found, _, err = run("apply", stored, *args)
    assert found == status
    assert message in " ".join(err.split())
    assert not os.path.exists("out.csv")


@pytest.mark.parametrize(
    "header",
    [
        *("p,", "p,,", ",p", " p ,q", "p,  ", "p,v0,", 'p," x"', 'p,"a,b"', 'p,"a""b"', 'p,"a\nb"', "p,#x", "p,rowid"),
        *("p,a;b", "p,\u00e9", "p,calibrant score 0", "p,column0", "p,p_1", "p,select"),
    ],
)
def test_the_names_of_columns_are_kept(stored: str, header: str) -> None:
    columns = next(csv.reader(header.splitlines(keepends=True)))
    rows = "".join(f"{','.join(f'0.{row}{k}' for k in range(len(columns)))}\n" for row in range(1, 4))
    Path("in.csv").write_text(f"{header}\n{rows}", "utf-8")
    for target in ("csv", "parquet", "arrow"):
        status, _, err = run("apply", stored, "in.csv", "--score", "p", "--output", f"out.{target}", "--quiet")
        if target == "csv":
            lines = Path("out.csv").read_text("utf-8").splitlines()
            assert [line.rpartition(",")[0] for line in lines[-3:]] == rows.splitlines()
            with open("out.csv", encoding="utf-8", newline="") as stream:
                assert next(csv.reader(stream)) == [*columns, "calibrated"]
        elif len(set(columns)) < len(columns):
            assert (status, "in.csv: has several columns named ''" in err) == (1, True)
        else:
            read = pyarrow.parquet.read_table if target == "parquet" else pyarrow.feather.read_table
            assert read(f"out.{target}").column_names == [*columns, "calibrated"]


@pytest.mark.parametrize(
    "names", [["p", "P"], ["P", "p"], ["", "p"], [" p ", "p"], ["p", "", "v0"], ["p", "a\0b", "a"]]
)
def test_the_names_of_columns_with_types_are_kept(stored: str, names: list[str]) -> None:
    table = pyarrow.Table.from_arrays([pyarrow.array([0.1 * k + 0.1]) for k in range(len(names))], names=names)
    pyarrow.parquet.write_table(table, "in.parquet")
    pyarrow.feather.write_feather(table, "in.arrow")
    score = 0.1 * names.index("p") + 0.1
    for source in ("in.parquet", "in.arrow"):
        for target in ("out.csv", "out.parquet", "out.arrow"):
            status, _, err = run("apply", stored, source, "--score", "p", "--output", target, "--quiet")
            if target == "out.csv" and "a\0b" in names:
                assert (status, "has a column whose name contains the character NUL" in err) == (1, True)
                continue
            assert (status, err) == (0, "")
            if target == "out.csv":
                found = next(csv.reader(Path("out.csv").read_text().splitlines()))
                value = float(Path("out.csv").read_text().splitlines()[1].rpartition(",")[2])
            else:
                read = pyarrow.parquet.ParquetFile if target == "out.parquet" else pyarrow.ipc.open_file
                file = read(target)
                found, value = (file.schema_arrow if target == "out.parquet" else file.schema).names, None
            assert found == [*names, "calibrated"]
            assert value is None or value == fitted()(score)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("p,P", "has columns whose names differ only in upper and lower case: 'p', 'P'"),
        ("p,a\0b", "has a column whose name contains the character NUL, 'a\\x00b'"),
        ("p,Calibrated", "has a column named 'Calibrated'; name the new column with --name"),
    ],
)
def test_names_that_cannot_be_kept_are_refused(stored: str, header: str, message: str) -> None:
    Path("in.csv").write_text(f"{header}\n0.1,0.2\n")
    for target in ("out.csv", "out.parquet"):
        status, _, err = run("apply", stored, "in.csv", "--score", "p", "--output", target)
        assert (status, message in err) == (1, True), err


@pytest.mark.parametrize("score", ["p", "meta.p"])
def test_columns_within_structs_are_not_added(stored: str, score: str) -> None:
    rows = [{"p": 0.25, "meta": {"p": 0.5, "of": {"x": k}}} for k in range(3)]
    table = pyarrow.Table.from_pylist(rows)
    pyarrow.parquet.write_table(table, "in.parquet")
    pyarrow.feather.write_feather(table, "in.arrow")
    Path("in.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for source in ("in.parquet", "in.arrow", "in.jsonl"):
        assert run("apply", stored, source, "--score", score, "--output", "out.parquet", "--quiet") == (0, "", "")
        found = pyarrow.parquet.read_table("out.parquet")
        assert found.drop_columns("calibrated").to_pylist() == rows
        assert found["calibrated"].to_pylist() == [fitted()(0.25 if score == "p" else 0.5)] * 3


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
@pytest.mark.parametrize("target", ["csv", "parquet", "arrow"])
def test_a_full_disk_is_said_and_keeps_the_old_file(stored: str, target: str) -> None:
    frame = pd.DataFrame({"risk": np.random.default_rng(1).random(20_000)})
    frame.to_csv("in.csv", index=False)
    Path(f"out.{target}").write_text("old")
    code = """
import resource, signal, sys
from calibrant.cli import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
main(sys.argv[1:])
"""
    command = [sys.executable, "-c", code, "apply", stored, "in.csv", "--score", "risk", "--output", f"out.{target}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert f"out.{target}: cannot be written" in done.stderr
    assert Path(f"out.{target}").read_text() == "old"
    assert not [name for name in os.listdir() if name.endswith(".part")]


def test_a_foreign_map_is_refused() -> None:
    Path("m.json").write_text('{"schema": "other"}')
    err = fail("apply", "m.json", "new.csv", "--score", "risk", "--output", "out.csv")
    assert "m.json: expected a calibration map, got other JSON" in err


def test_drift_and_a_map_without_proof_are_said(stored: str) -> None:
    pd.DataFrame({"risk": np.linspace(0, 1, 2_000) ** 4}).to_csv("other.csv", index=False)
    _, err = succeed("apply", stored, "other.csv", "--score", "risk", "--output", "out.csv")
    assert "the distribution of the scores differs from the scores that the map was fitted to" in err
    recalibrated("--map", "m.json", "--method", "histogram", "--anyway", "--quiet", outcome="fine")
    _, _, err = run("apply", "m.json", "new.csv", "--score", "risk", "--output", "out.csv")
    assert "m.json: there was no evidence that this map improves the scores" in err


# ---------------------------------------------------------------- classes, labels, groups

CLASSES = ("cat", "dog", "owl")


@pytest.fixture
def pets() -> pd.DataFrame:
    """Return probabilities of three classes that are too extreme; the files hold them and the class, or labels."""
    rng = np.random.default_rng(2)
    logits = rng.normal(size=(1_500, 3)) * 2
    p, q = (np.exp(z) / np.exp(z).sum(axis=1, keepdims=True) for z in (logits, logits / 2))
    frame = pd.DataFrame({f"p_{name}": p[:, k] for k, name in enumerate(CLASSES)})
    frame["pet"] = np.array(CLASSES)[(rng.random((1_500, 1)) > q.cumsum(axis=1)).sum(axis=1)]
    frame["shop"] = np.arange(1_500) % 3
    frame.to_csv("pets.csv", index=False)
    labels = pd.DataFrame(rng.random((1_500, 3)) < q, columns=[f"y_{name}" for name in CLASSES])
    pd.concat([frame, labels.astype(int)], axis=1).to_csv("labels.csv", index=False)
    return frame


def pets_fixed(*options: str) -> tuple[int, str, str]:
    return run("recalibrate", "pets.csv", "--probs", "p_*", "--target", "pet", *FAST, *options)


def test_a_map_of_classes_is_written_and_applied(pets: pd.DataFrame) -> None:
    options = ("--method", "vector", "--map", "m.json", "--sql", "m.sql", "--onnx", "m.onnx", "--html", "m.html")
    status, out, err = pets_fixed(*options, "--markdown", "m.md", "--json", "r.json", "--png", "m.png")
    assert status == 0, err
    assert "1,500 rows (all 3 classes)" in out
    assert "Map: vector scaling." in out
    assert "The map of the classes" in Path("m.html").read_text()
    assert json.loads(Path("r.json").read_text())["curve"] is None
    probs = pets[["p_cat", "p_dog", "p_owl"]].to_numpy()
    expected = CalibrationMap.read("m.json")(probs)
    found = duckdb.sql(f"SELECT {Path('m.sql').read_text()} FROM 'pets.csv'").df()
    assert list(found.columns) == [f"calibrated_{name}" for name in CLASSES]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    shuffled = ["p_owl", "pet", "p_cat", "p_dog"]
    pets[shuffled].to_parquet("new.parquet")
    for source in ("pets.csv", "new.parquet"):
        assert run("apply", "m.json", source, "--output", "out.csv", "--quiet") == (0, "", "")
        np.testing.assert_allclose(pd.read_csv("out.csv")[list(found.columns)], expected, rtol=1e-12)
    assert run("apply", "m.json", "pets.csv", "--output", "out.parquet", "--name", "q")[0] == 0
    assert list(pd.read_parquet("out.parquet").columns[-3:]) == ["q_cat", "q_dog", "q_owl"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("pets.csv", "--score", "p_cat"), "m.json: --score does not suit a map of classes"),
        (("pets.csv", "--probs", "p_cat,p_dog"), "has p_cat, p_dog (2 columns), but the map has 3 classes"),
        (("other.csv",), "classes cow, dog, owl, but the map has cat, dog, owl"),
        (("bad.csv",), "columns p_cat, p_dog, p_owl have the sum 1.5 in row 2, not 1"),
        (("gap.csv",), "column 'p_dog' holds no number in row 2"),
        (("out_of.csv",), "column 'p_dog' holds 1.5 in row 2, not a score"),
        (("pets.csv", "--name", "p"), "has a column named 'p_cat'"),
    ],
)
def test_apply_names_what_does_not_suit_a_map_of_classes(
    pets: pd.DataFrame, args: tuple[str, ...], message: str
) -> None:
    pets_fixed("--method", "temperature", "--map", "m.json", "--quiet")
    pets.rename(columns={"p_cat": "p_cow"}).to_csv("other.csv", index=False)
    head = "p_cat,p_dog,p_owl\n0.5,0.25,0.25\n"
    for name, row in (("bad", "0.5,0.5,0.5"), ("gap", "0.5,,0.5"), ("out_of", "0.5,1.5,-1")):
        Path(f"{name}.csv").write_text(f"{head}{row}\n")
    status, _, err = run("apply", "m.json", *args, "--output", "out.csv")
    assert (status, os.path.exists("out.csv")) == (1, False)
    assert message in " ".join(err.split())


def test_a_map_of_one_event_takes_no_columns_of_classes(pets: pd.DataFrame, stored: str) -> None:
    status, _, err = run("apply", stored, "pets.csv", "--probs", "p_*", "--output", "out.csv")
    assert (status, "--probs does not suit a map of one event" in err) == (1, True)
    assert len(pets) == 1_500


@pytest.mark.usefixtures("pets")
def test_each_label_has_a_map() -> None:
    command = ("recalibrate", "labels.csv", "--probs", "p_*", "--target", "y_*", "--notion", "multilabel", *FAST)
    outputs = ("--map", "m.json", "--sql", "m.sql", "--onnx", "m.onnx", "--html", "m.html", "--png", "m.png")
    out, _ = succeed(*command, *outputs, "--markdown", "m.md", "--json", "r.json")
    assert "Recalibration lowers the loss of 3 of 3 labels: cat, dog, owl" in " ".join(out.split())
    numbers = json.loads(Path("r.json").read_text())
    assert [part["name"] for part in numbers["labels"]] == list(CLASSES)
    assert run("apply", "m.json", "labels.csv", "--output", "out.csv", "--quiet") == (0, "", "")
    found = duckdb.sql(f"SELECT {Path('m.sql').read_text()} FROM 'labels.csv'").df()
    np.testing.assert_allclose(pd.read_csv("out.csv")[list(found.columns)], found, rtol=1e-12)


def test_labels_without_proof_remain_or_are_written_anyway(pets: pd.DataFrame) -> None:
    frame = pd.read_csv("labels.csv")
    rng = np.random.default_rng(3)
    for name in CLASSES:
        frame[f"y_{name}"] = (rng.random(1_500) < frame[f"p_{name}"]).astype(int)
    frame.to_csv("labels.csv", index=False)
    command = ("recalibrate", "labels.csv", "--probs", "p_*", "--target", "y_*", "--notion", "multilabel", *FAST)
    status, out, err = run(*command, "--method", "cox", "--map", "m.json")
    assert (status, os.path.exists("m.json")) == (3, False)
    assert "No evidence that recalibration lowers the loss of any label" in " ".join(out.split())
    assert "the map is not written" in err
    assert run(*command, "--method", "cox", "--map", "m.json", "--anyway", "--quiet")[0] == 3
    fitted = CalibrationMap.read("m.json")
    assert not fitted.proven
    assert [each["kind"] for each in fitted.parameters["maps"]] == ["line"] * 3
    assert len(pets) == 1_500


@pytest.mark.usefixtures("pets")
def test_groups_are_evaluated_after_the_common_map() -> None:
    status, out, _ = pets_fixed("--by", "shop", "--markdown", "m.md", "--html", "m.html", "--json", "r.json")
    assert status == 0
    assert "Groups after recalibration (one map, fitted to all rows)" in out
    assert "Groups after recalibration (one map, fitted to all rows)" in Path("m.md").read_text()
    assert "Groups after recalibration (one map, fitted to all rows)" in Path("m.html").read_text()
    groups = json.loads(Path("r.json").read_text())["by_group"]["groups"]
    assert sorted(group["name"] for group in groups) == ["0", "1", "2"]
    command = ("recalibrate", "labels.csv", "--probs", "p_*", "--target", "y_*", "--notion", "multilabel", *FAST)
    status, _, err = run(*command, "--by", "shop")
    assert (status, "expected no groups of several labels" in err) == (1, True)


def test_many_rows_of_classes_are_not_mapped_as_the_predicted_class_unasked(
    pets: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calibrant.files.reading.MOST_ROWS", 500)
    status, _, err = pets_fixed("--method", "temperature")
    assert status == 1
    assert "pass --exact to map all classes, or --notion top-label to map the confidence" in " ".join(err.split())
    assert "(all 3 classes)" in pets_fixed("--exact", "--method", "temperature")[1]
    assert "the predicted class is correct" in pets_fixed("--notion", "top-label", "--method", "cox")[1]
    assert len(pets) == 1_500
