"""Files of predictions: what is read, and the error of each file that cannot be read."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant import files
from calibrant.errors import FileError, MissingDependencyError
from calibrant.errors.exceptions import install_command
from calibrant.files import FileModels, FileSketch, Judging, column_names, stored
from calibrant.files.column_options import ColumnSelection, Unnamed
from tests.reading_of import asked, read_predictions, refuse

pa = pytest.importorskip("pyarrow", reason="the report extra is not installed")
pytest.importorskip("duckdb", reason="the report extra is not installed")
import pyarrow.ipc as ipc  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

SHARED = Path(__file__).parents[2] / ".." / "shared" / "data"
shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the folder of real predictions is not here")

SCORES = [0.1, 0.7, 0.4, 0.9]
OUTCOMES = [0, 1, 1, 1]
TABULAR = ["csv", "csv.gz", "tsv", "parquet", "arrow", "feather", "jsonl", "ndjson"]


def read_models(patterns: Any, *, scores: Any, **options: Any) -> FileModels:
    """Read the predictions of several models."""
    return files.read_models(patterns, asked({"models": list(scores), **options}))


def write(path: Path, columns: dict[str, object]) -> str:
    """Write columns in the format of the path's ending."""
    name = path.name
    if name.endswith((".parquet", ".pq")):
        pq.write_table(pa.table(columns), path)
    elif name.endswith((".arrow", ".feather")):
        table = pa.table(columns)
        with ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)
    elif name.endswith((".jsonl", ".ndjson", ".jsonl.gz")):
        rows = pa.table(columns).to_pylist()
        text = "".join(json.dumps(row) + "\n" for row in rows)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    else:
        separator = "\t" if ".tsv" in name else ","
        table = pa.table(columns)
        lines = [separator.join(table.column_names)]
        lines += [separator.join("" if v is None else str(v) for v in row.values()) for row in table.to_pylist()]
        text = "\n".join(lines) + "\n"
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return str(path)


def text(path: Path, content: str | bytes) -> str:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


# One event.


@pytest.mark.parametrize("ending", TABULAR)
def test_usual_names_are_found(tmp_path, ending):
    path = write(tmp_path / f"f.{ending}", {"id": ["a", "b", "c", "d"], "score": SCORES, "outcome": OUTCOMES})
    read = read_predictions([path])
    np.testing.assert_array_equal(read.probs, SCORES)
    np.testing.assert_array_equal(read.targets, OUTCOMES)
    assert read.probs.dtype == np.float64
    assert read.targets.dtype.kind == "i"
    assert read.weights is None
    assert read.class_names is None
    assert not read.logits
    assert read.sources == {"probs": "score", "targets": "outcome"}
    assert read.paths == (path,)
    assert read.locate(2) == (path, 3)
    assert read.column_name("probs") == "score"


@pytest.mark.covering
@pytest.mark.parametrize("ending", TABULAR)
@pytest.mark.parametrize("where", [None, "keep"])
def test_named_columns_and_weights(tmp_path, ending, where):
    columns = {"w": [1.0, 2.0, 0.5, 3.0], "won": OUTCOMES, "my p": SCORES, "keep": [True, False, True, True]}
    path = write(tmp_path / f"f.{ending}", columns)
    read = read_predictions([path], score="my p", outcome="won", weight="w", where=where)
    kept = [0, 1, 2, 3] if where is None else [0, 2, 3]
    np.testing.assert_array_equal(read.probs, np.array(SCORES)[kept])
    np.testing.assert_array_equal(read.targets, np.array(OUTCOMES)[kept])
    np.testing.assert_array_equal(read.weights, np.array(columns["w"])[kept])
    assert read.sources == {"probs": "my p", "targets": "won", "weights": "w"}
    assert [read.locate(i)[1] for i in range(len(kept))] == [k + 1 for k in kept]


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("where", [None, "outcome >= 0"])
def test_width_of_floats_is_kept(tmp_path, ending, dtype, where):
    scores = np.array(SCORES, dtype)
    path = write(tmp_path / f"f.{ending}", {"score": pa.array(scores), "outcome": OUTCOMES})
    read = read_predictions([path], where=where)
    assert read.probs.dtype == scores.dtype
    np.testing.assert_array_equal(read.probs, scores)


@pytest.mark.parametrize("where", [None, "outcome >= 0"])
def test_integers_booleans_and_decimals(tmp_path, where):
    decimals = pa.array([0, 1, 1, 0]).cast(pa.decimal128(25, 2))
    for number, scores in enumerate((pa.array([0, 1, 1, 0]), pa.array([0, 1, 1, 0], pa.uint8()), decimals)):
        path = write(tmp_path / f"{number}.parquet", {"score": scores, "outcome": OUTCOMES})
        read = read_predictions([path], where=where)
        np.testing.assert_array_equal(read.probs, [0, 1, 1, 0])
    assert read.probs.dtype == np.float64


@pytest.mark.parametrize("ending", TABULAR)
def test_boolean_and_text_targets(tmp_path, ending):
    path = write(tmp_path / f"f.{ending}", {"score": SCORES, "y": [True, False, True, True], "label": list("abca")})
    read = read_predictions([path], outcome="y")
    assert read.targets.dtype == np.bool_
    assert read.targets.tolist() == [True, False, True, True]
    read = read_predictions([path], target="label")
    assert read.targets.tolist() == list("abca")


def test_a_single_fraction_among_the_outcomes_is_not_rounded(tmp_path):
    # DuckDB rounds it where the column is declared, or found, to hold integers.
    body = "score,outcome\n" + "0.5,1\n" * 30_000 + "0.5,0.5\n"
    path = text(tmp_path / "f.csv", body)
    for where in (None, "outcome >= 0"):
        read = read_predictions([path], where=where)
        assert read.targets.dtype == np.float64
        assert read.targets[-1] == 0.5


def test_numbers_as_csv_writes_them(tmp_path):
    path = text(tmp_path / "f.csv", '\ufeffscore,outcome\r\n.5,1\r\n"1e-3", 0\r\nnan,1\r\n 0.25 ,0\r\n\r\n')
    read = read_predictions([path])
    np.testing.assert_array_equal(read.probs, [0.5, 0.001, np.nan, 0.25])
    assert read.targets.tolist() == [1, 0, 1, 0]


def test_an_unnamed_index_column_is_no_obstacle(tmp_path):
    path = text(tmp_path / "f.csv", ",score,outcome\n0,0.5,1\n1,0.25,0\n")
    assert read_predictions([path]).probs.tolist() == [0.5, 0.25]
    assert read_predictions([path], where="column0 = 1").probs.tolist() == [0.25]


@pytest.mark.parametrize(
    "body",
    [
        "score;outcome\n0.5;1\n0.25;0\n",
        '"score";"outcome"\n"0.5";"1"\n0.25;0\n',
        '"a,b";score;outcome\n1,5;.5;1\n;0.25;0\n',
    ],
)
@pytest.mark.parametrize("where", [None, "outcome >= 0"])
def test_semicolons_separate_columns_where_the_header_has_them(tmp_path, body, where):
    path = text(tmp_path / "f.csv", body)
    read = read_predictions([path], where=where)
    assert (read.probs.tolist(), read.targets.tolist()) == ([0.5, 0.25], [1, 0])
    assert column_names(path)[-2:] == ("score", "outcome")


@pytest.mark.every_value
@pytest.mark.parametrize(("name", "between"), [("f.csv", "\t"), ("f.csv.gz", "\t"), ("f.tsv", ","), ("f.tsv", ";")])
@pytest.mark.parametrize("where", [None, "outcome >= 0"])
def test_the_header_says_what_separates_columns_whatever_the_ending(tmp_path, name, between, where):
    """Other tools read such files, because one column of scores and outcomes would be useless."""
    body = "id,score,outcome\n7,0.5,1\n8,0.25,0\n".replace(",", between)
    if name.endswith(".gz"):
        (tmp_path / name).write_bytes(gzip.compress(body.encode()))
        path = str(tmp_path / name)
    else:
        path = text(tmp_path / name, body)
    read = read_predictions([path], where=where)
    assert (read.probs.tolist(), read.targets.tolist()) == ([0.5, 0.25], [1, 0])
    assert column_names(path) == ("id", "score", "outcome")


def test_the_usual_separator_wins_if_it_makes_several_columns(tmp_path):
    path = text(tmp_path / "f.csv", "a\tb,score,outcome\nx,0.5,1\n")
    assert column_names(path) == ("a\tb", "score", "outcome")
    path = text(tmp_path / "f.tsv", "a,b\tscore\toutcome\nx\t0.5\t1\n")
    assert column_names(path) == ("a,b", "score", "outcome")


def test_decimal_commas_are_no_points(tmp_path):
    path = text(tmp_path / "f.csv", '"score";"outcome"\n0,5;1\n')
    refuse(
        [path],
        (
            r"row 1, column 'score': '0,5' is not a number; if the file writes decimals with a comma, add "
            "--decimal-comma$"
        ),
    )
    path = text(tmp_path / "g.csv", "a;b,score\n1,0.5\n")  # commas make two columns of it, so they separate
    assert column_names(path) == ("a;b", "score")


@pytest.mark.parametrize("ending", [*TABULAR, "npz"])
def test_true_and_false_as_texts_are_outcomes(tmp_path, ending):
    path, words = tmp_path / f"f.{ending}", ["False", "true", "TRUE", "true"]
    if ending == "npz":
        np.savez(path, score=SCORES, outcome=words)
    else:
        write(path, {"score": SCORES, "outcome": words})
    read = read_predictions([path])
    assert (read.targets.dtype, read.targets.tolist()) == (np.bool_, [False, True, True, True])
    sketch = files.read_predictions([str(path)], asked({}), keep=False)
    assert isinstance(sketch, FileSketch)
    assert sketch.sketch.n == 4
    assert calibrant.evaluate(sketch.sketch)["brier"].value == pytest.approx(
        np.mean((np.array(SCORES) - OUTCOMES) ** 2)
    )
    assert read_predictions([path], labels=["true", "False"]).targets.dtype.kind == "O" or ending != "csv"


def test_texts_beside_true_and_false_are_labels(tmp_path):
    path = write(tmp_path / "f.parquet", {"score": SCORES, "outcome": ["true", "false", "maybe", "true"]})
    assert read_predictions([path]).targets.tolist() == ["true", "false", "maybe", "true"]
    path = write(tmp_path / "g.parquet", {"p_true": [0.5, 0.4], "p_false": [0.5, 0.6], "y": ["true", "false"]})
    assert read_predictions([path]).targets.tolist() == ["true", "false"]
    path = write(tmp_path / "h.parquet", {"score": SCORES, "outcome": ["true", "false", "false", "true"]})
    for labels in (["true", "false"], ["no", "yes"]):  # the caller says what is the event
        assert read_predictions([path], labels=labels).targets.tolist() == ["true", "false", "false", "true"]
    assert read_predictions([path], class_names=["no", "yes"]).targets.tolist() == [True, False, False, True]
    names = ["true", "false"]  # of the classes: true is the first
    assert read_predictions([path], class_names=names).targets.tolist() == ["true", "false", "false", "true"]


def test_feather_of_version_1(tmp_path):
    (tmp_path / "f.feather").write_bytes(b"FEA1" + bytes(100) + b"FEA1")
    refuse(
        [tmp_path / "f.feather"],
        (
            "is a Feather file of version 1, but calibrant reads only version 2; write the file again as "
            r"version 2, with pandas\.read_feather\(path\)\.to_feather\(path\)"
        ),
    )


@pytest.mark.covering
@pytest.mark.parametrize("ending", [*TABULAR, "npz"])
@pytest.mark.parametrize("keep", [True, False])
def test_logits_of_one_event_in_the_unit_interval_are_doubted(tmp_path, ending, keep):
    def doubts(name: str, scores: list[float], **evaluated: bool) -> tuple[str, ...]:
        path, columns = tmp_path / f"f.{ending}", {name: scores, "outcome": [*OUTCOMES * 2, *OUTCOMES[::-1]]}
        np.savez(path, **columns) if ending == "npz" else write(path, columns)
        return files.read_predictions([str(path)], asked({}), Judging(**evaluated), keep=keep).doubts

    words = "column {!r} is read as logits, but all its values lie in [0, 1]; if the values are probabilities, {}"
    assert doubts("score", SCORES * 3, logits=True) == (words.format("score", "leave --logits out"),)
    assert doubts("logit", SCORES * 3) == (words.format("logit", "rename the column"),)
    assert doubts("score", SCORES * 3) == ()
    assert doubts("score", [*SCORES * 2, 0.5, 0.5, 0.5, 1.5], logits=True) == ()


def test_few_logits_in_the_unit_interval_are_not_doubted(tmp_path):
    path = write(tmp_path / "f.csv", {"score": SCORES, "outcome": OUTCOMES, "old": SCORES})
    assert files.read_predictions([path], asked({}), Judging(logits=True)).doubts == ()
    path = write(tmp_path / "g.csv", {"new": [3.5, *SCORES * 3], "old": [0.5, *SCORES * 3], "y": [0, *OUTCOMES * 3]})
    read = files.read_models([path], asked({"models": ["new", "old"]}), logits=True)
    assert [doubt.partition(" is read")[0] for doubt in read.doubts] == ["column 'old'"]


def test_unused_columns_may_hold_anything(tmp_path):
    path = text(tmp_path / "f.csv", b"note,score,outcome\ncaf\xe9,0.5,1\n12,0.25,0\n")
    assert read_predictions([path]).probs.tolist() == [0.5, 0.25]


def test_logits_by_their_name(tmp_path):
    path = write(tmp_path / "f.parquet", {"logits": [[1.0, -2.0], [0.5, 3.0]], "label": [0, 1]})
    read = read_predictions([path])
    assert read.logits
    assert read.sources["probs"] == "logits (lists of 2)"
    path = write(tmp_path / "g.csv", {"logit_0": [1.5], "logit_1": [-2.0], "label": [0]})
    assert read_predictions([path]).logits


# Many classes.


@pytest.mark.parametrize("ending", TABULAR)
@pytest.mark.parametrize("options", [{}, {"probs": "p_*", "target": "y"}])
def test_columns_0_to_c_minus_1_are_put_in_order(tmp_path, ending, options):
    C = 12
    rows = np.random.default_rng(0).dirichlet(np.ones(C), 5)
    order = np.random.default_rng(1).permutation(C)
    path = write(tmp_path / f"f.{ending}", {f"p_{j}": rows[:, j] for j in order} | {"y": [0, 11, 3, 2, 1]})
    read = read_predictions([path], **options)
    np.testing.assert_array_equal(read.probs, rows)
    assert read.targets.tolist() == [0, 11, 3, 2, 1]
    assert read.class_names is None
    assert read.sources["probs"] == "p_0 ... p_11 (12 columns)"
    assert read.column_name("probs", 10) == "p_10"


@pytest.mark.parametrize("ending", TABULAR)
@pytest.mark.parametrize("where", [None, "y <> 9"])
def test_columns_1_to_c_name_the_classes(tmp_path, ending, where):
    columns = {"p_2": [0.2, 0.3], "p_10": [0.3, 0.3], "p_1": [0.5, 0.4], "y": [10, 1]}
    path = write(tmp_path / f"f.{ending}", columns)
    read = read_predictions([path], probs="p_*", target="y", where=where)
    assert read.class_names == ("1", "2", "10")
    assert read.targets.tolist() == ["10", "1"]
    np.testing.assert_array_equal(read.probs, [[0.5, 0.2, 0.3], [0.4, 0.3, 0.3]])


@pytest.mark.parametrize("ending", TABULAR)
def test_words_name_the_classes_in_the_order_of_the_file(tmp_path, ending):
    path = write(tmp_path / f"f.{ending}", {"prob_dog": [0.2, 0.3], "prob_cat": [0.8, 0.7], "label": ["cat", "dog"]})
    read = read_predictions([path])
    assert read.class_names == ("dog", "cat")
    assert read.targets.tolist() == ["cat", "dog"]
    assert read.column_name("probs", 1) == "prob_cat"
    read = read_predictions([path], class_names=["cat", "dog"], probs="prob_cat,prob_dog")
    assert read.class_names == ("cat", "dog")
    np.testing.assert_array_equal(read.probs, [[0.8, 0.2], [0.7, 0.3]])


def test_spellings_of_class_labels(tmp_path):
    path = text(tmp_path / "f.csv", "p_01,p_02,y\n0.5,0.5,01\n0.25,0.75,02\n")
    assert read_predictions([path]).targets.tolist() == ["01", "02"]
    path = text(tmp_path / "g.csv", "p_1,p_2,y\n0.5,0.5,1.0\n0.25,0.75,2.0\n")
    assert read_predictions([path]).targets.tolist() == ["1", "2"]
    path = write(tmp_path / "f.parquet", {"p_1": [0.5, 0.4], "p_2": [0.5, 0.6], "y": [1.0, 2.0]})
    assert read_predictions([path]).targets.tolist() == ["1", "2"]
    path = write(tmp_path / "g.parquet", {"p_true": [0.5, 0.4], "p_false": [0.5, 0.6], "y": [True, False]})
    assert read_predictions([path]).targets.tolist() == ["true", "false"]


def test_explicit_class_names_leave_the_targets_alone(tmp_path):
    path = write(tmp_path / "f.parquet", {"p_1": [0.5, 0.4], "p_2": [0.5, 0.6], "y": [0, 1]})
    read = read_predictions([path], class_names=["no", "yes"])
    assert read.class_names == ("no", "yes")
    assert read.targets.tolist() == [0, 1]


def test_categorical_targets(tmp_path):
    words = pa.array(["cat", "dog", "cat"]).dictionary_encode()
    for ending in ("parquet", "arrow"):
        path = write(tmp_path / f"f.{ending}", {"score": SCORES[:3], "label": words})
        for where in (None, "score > 0"):
            assert read_predictions([path], where=where).targets.tolist() == ["cat", "dog", "cat"]


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_labels_of_other_types_are_text(tmp_path, ending):
    days = pa.array([0, 1, 0], pa.date32())
    views = pa.array(["a", "b", "a"], pa.string_view())
    for labels, texts in (
        (days, ["1970-01-01", "1970-01-02", "1970-01-01"]),
        (days.dictionary_encode(), ["1970-01-01", "1970-01-02", "1970-01-01"]),
        (views, ["a", "b", "a"]),
    ):
        path = write(tmp_path / f"f.{ending}", {"score": SCORES[:3], "label": labels})
        assert read_predictions([path]).targets.tolist() == texts


def test_numbers_are_read_many_rows_at_a_time(tmp_path):
    n = 150_000
    pq.write_table(pa.table({"p": np.full(n, 0.5), "y": np.zeros(n, np.int8), "g": ["a"] * n}), tmp_path / "a.parquet")
    table = stored.ParquetTable(str(tmp_path / "a.parquet"))
    numbers = ColumnSelection(
        probs=("p",), targets=("y",), weights=None, logits=False, class_names=None, labels=False, noun=""
    )
    assert [batch.num_rows for batch in table.batches(numbers)] == [n]
    named = replace(numbers, groups="g")
    assert max(batch.num_rows for batch in table.batches(named)) == 65_536


def test_a_row_group_without_rows(tmp_path, monkeypatch):
    table = pa.table({"probs": [[0.5, 0.25, 0.25], [0.0, 0.5, 0.5]], "y": [0, 1]})
    with pq.ParquetWriter(tmp_path / "f.parquet", table.schema) as writer:
        for part in (table.slice(0, 0), table.slice(0, 1), table.slice(0, 0), table.slice(1)):
            writer.write_table(part)
    assert read_predictions([tmp_path / "f.parquet"]).probs.tolist() == [[0.5, 0.25, 0.25], [0.0, 0.5, 0.5]]
    batches = stored.ParquetTable.batches  # some versions of pyarrow hand over empty ones
    monkeypatch.setattr(
        stored.ParquetTable, "batches", lambda *args: (part for b in batches(*args) for part in (b.slice(0, 0), b))
    )
    assert read_predictions([tmp_path / "f.parquet"]).probs.tolist() == [[0.5, 0.25, 0.25], [0.0, 0.5, 0.5]]


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float32()), pa.list_(pa.float32(), 3), pa.large_list(pa.float32()), pa.list_(pa.float16())]
)
@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_lists(tmp_path, kind, ending):
    rows = np.random.default_rng(0).random((5, 3)).astype("f2").astype("f4")
    probs = pa.array(list(map(list, rows.astype(kind.value_type.to_pandas_dtype()))), kind)
    path = write(tmp_path / f"f.{ending}", {"probs": probs, "label": [0, 1, 2, 1, 0]})
    read = read_predictions([path])
    np.testing.assert_array_equal(read.probs, rows)
    assert read.probs.dtype == kind.value_type.to_pandas_dtype()
    assert read.column_name("probs", 2) == "probs[2]"


def test_lists_of_json_and_in_csv(tmp_path):
    path = text(tmp_path / "f.jsonl", '{"probs": [0.5, 0.5], "y": 1}\n{"probs": [1, 0], "y": 0}\n')
    np.testing.assert_array_equal(read_predictions([path]).probs, [[0.5, 0.5], [1, 0]])
    path = text(tmp_path / "f.csv", 'probs,y\n"[0.5, 0.5]",1\n"[1, 0]",0\n')
    for where in (None, "y >= 0"):
        read = read_predictions([path], where=where)
        np.testing.assert_array_equal(read.probs, [[0.5, 0.5], [1, 0]])
        assert read.targets.tolist() == [1, 0]


def test_one_hot_targets(tmp_path):
    path = write(tmp_path / "f.parquet", {"probs": [[0.5, 0.5], [0.1, 0.9]], "label": [[1, 0], [0, 1]]})
    assert read_predictions([path]).targets.tolist() == [[1, 0], [0, 1]]
    path = write(tmp_path / "f.csv", {"p_0": [0.5], "p_1": [0.5], "y_0": [1], "y_1": [0]})
    assert read_predictions([path], target="y_*").targets.tolist() == [[1, 0]]


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_names_with_dots_quotes_and_commas(tmp_path, ending):
    columns = {'p"0': [0.25, 0.5], "p'1": [0.75, 0.5], "a.b": [1, 0], "x": [1, 2]}
    path = write(tmp_path / f"f.{ending}", columns)
    for where in (None, "x > 0"):
        read = read_predictions([path], probs="p*", target="a.b", class_names=["a", "b"], where=where)
        np.testing.assert_array_equal(read.probs, [[0.25, 0.75], [0.5, 0.5]])
        assert read.targets.tolist() == [1, 0]


# Conditions.


@pytest.mark.parametrize("ending", TABULAR)
def test_locate_where_rows_were_left_out(tmp_path, ending):
    n = 3000
    paths = []
    for part in range(2):
        columns = {"score": np.arange(n) / n, "outcome": np.arange(n) % 2, "k": np.arange(n) + part}
        paths.append(write(tmp_path / f"{part}.{ending}", columns))
    read = read_predictions(paths, where="k % 3 = 0 -- every third")
    assert read.rows == (1000, 1000)
    assert read.locate(999) == (paths[0], 2998)
    assert read.locate(1000) == (paths[1], 3)
    np.testing.assert_array_equal(read.probs[1000:], np.arange(n)[2::3] / n)
    with pytest.raises(IndexError, match="row 2000 of 2000"):
        read.locate(2000)


@pytest.mark.covering
@pytest.mark.parametrize("ending", TABULAR)
@pytest.mark.parametrize(
    ("where", "match"),
    [
        (
            "seson > 3",
            r"--where 'seson > 3': there is no column 'seson'; did you mean 'season'\? the columns are season,",
        ),
        ("season >", r"--where 'season >': syntax error.*; the columns are"),
        ("season > 3)", r"--where 'season > 3\)': .*syntax error.*; the columns are"),
        ("count(*) > 3", r"--where .*count is not allowed, because aggregates combine many rows; compute this value"),
        ("season > 2030", r"no row meets --where 'season > 2030'; loosen the condition"),
    ],
)
def test_conditions_that_fail(tmp_path, ending, where, match):
    path = write(tmp_path / f"f.{ending}", {"season": [2020, 2021], "score": [0.5, 0.25], "outcome": [1, 0]})
    said = refuse([path], match, where=where)
    assert "\n" not in said


def test_types_in_a_condition_on_csv(tmp_path):
    path = text(tmp_path / "f.csv", "day,n,sure,score,y\n2024-01-05,7,true,0.5,1\n2023-12-31,10,false,0.25,0\n")
    for where in ("day >= DATE '2024-01-01'", "n < 8", "n % 2 = 1", "sure", "year(day) = 2024"):
        assert read_predictions([path], where=where).probs.tolist() == [0.5]


def test_a_condition_can_leave_out_what_cannot_be_read(tmp_path):
    path = text(tmp_path / "f.csv", "score,outcome\n0.5,1\nNA,0\n0.25,\n0.75,void\n85%,0\n0.125,0\n")
    where = "score NOT IN ('NA', '85%') AND outcome <> 'void'"
    read = read_predictions([path], where=where)
    assert read.probs.tolist() == [0.5, 0.125]
    assert read.targets.tolist() == [1, 0]
    assert read.locate(1) == (path, 6)


def test_arrays_have_no_conditions(tmp_path):
    path = tmp_path / "f.npz"
    np.savez(path, probs=np.eye(2), labels=[0, 1])
    refuse([str(path)], r"--where is not available for \.npz files; filter the arrays", where="a > 1")


# Which files.


def test_several_files_and_patterns(tmp_path):
    for name in ("b", "a", "c"):
        write(tmp_path / f"{name}.parquet", {"score": [ord(name) / 200], "outcome": [1]})
    read = read_predictions([str(tmp_path / "*.parquet")])
    np.testing.assert_array_equal(read.probs, np.array([97, 98, 99]) / 200)
    assert [os.path.basename(path) for path in read.paths] == ["a.parquet", "b.parquet", "c.parquet"]
    assert read.locate(1) == (str(tmp_path / "b.parquet"), 1)
    read = read_predictions([str(tmp_path / "c.parquet"), str(tmp_path / "a.parquet")])
    np.testing.assert_array_equal(read.probs, np.array([99, 97]) / 200)


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_names_with_brackets_and_folders_like_partitions(tmp_path, ending):
    folder = tmp_path / "k=3" / "it's"
    folder.mkdir(parents=True)
    path = write(folder / f"a[1]*.{ending}", {"score": SCORES, "outcome": OUTCOMES, "k": [7, 7, 7, 7]})
    write(folder / f"a1b.{ending}", {"score": [0.5], "outcome": [1], "k": [7]})
    write(folder / f"a[1]b.{ending}", {"score": [0.5], "outcome": [1], "k": [7]})
    for where in (None, "k = 7"):
        assert read_predictions([path], where=where).probs.tolist() == SCORES


@pytest.mark.parametrize(
    ("names", "match"),
    [
        (["prediction.csv"], r"prediction\.csv: no such file; did you mean 'predictions\.csv'\?"),
        (["none/x.csv"], r"none/x\.csv: no such file; the folder '.*none' does not exist either"),
        (["*.parquet"], r"\*\.parquet: no file matches this pattern; check the folder"),
        (["other.ods"], r"other\.ods: unknown ending '\.ods'; save the sheet as \.xlsx or CSV$"),
        (
            ["README"],
            (
                r"README: a name without an ending; pass a file that ends in \.npz, \.npy, \.csv, \.tsv, "
                r"\.xlsx, \.parquet, \.arrow, \.feather, \.eval, .* or \.jsonl$"
            ),
        ),
        (
            ["predictions.csv", "more.parquet"],
            (
                r"more\.parquet: is not of the same kind as .*predictions\.csv; pass files of one kind at a "
                "time"
            ),
        ),
        (["predictions.csv", "predictions.*"], r"predictions\.csv: is named twice; name each file once"),
        (
            [""],
            r": is a folder with files of several kinds \(2 \.csv, 1 \.parquet\); name .*, such as '.*\*\*/\*\.csv'$",
        ),
        (["nothing.csv"], r"nothing\.csv: is empty \(0 bytes\); write the predictions again"),
        ([], "files: no file is named; name at least one file"),
    ],
)
def test_files_that_are_not_there(tmp_path, names, match):
    write(tmp_path / "predictions.csv", {"score": SCORES, "outcome": OUTCOMES})
    write(tmp_path / "more.parquet", {"score": SCORES, "outcome": OUTCOMES})
    if names != [""]:
        (tmp_path / "more.parquet").rename(tmp_path / "more.parquet_")
    if names[-1:] == ["more.parquet"]:
        (tmp_path / "more.parquet_").rename(tmp_path / "more.parquet")
    (tmp_path / "other.ods").write_text("x")
    (tmp_path / "README").write_text("x")
    (tmp_path / "nothing.csv").touch()
    refuse([os.path.join(tmp_path, name) for name in names], match)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        (
            "a.pkl",
            "a pickle may run any code when it is opened; load the file yourself, and save its arrays with numpy.savez",
        ),
        ("a.XLS", "save the sheet as .xlsx or CSV"),
        ("a.txt", "rename the file to .csv if commas, semicolons or tabs separate the columns"),
        ("a.pth", "load the file yourself, and save its tensors as arrays with numpy.savez"),
        ("a.mat", "export the table from its program as CSV or Parquet"),
        ("a.parquet.gz", "unpack the file first"),
        (
            "a.html",
            "pass a file that ends in .npz, .npy, .csv, .tsv, .xlsx, .parquet, .arrow, .feather, "
            ".eval, .json or .jsonl",
        ),
    ],
)
def test_files_of_other_kinds(tmp_path, name, advice):
    (tmp_path / name).write_text("x")
    with pytest.raises(FileError) as caught:
        read_predictions([tmp_path / name])
    assert caught.value.remedy == advice
    assert caught.value.problem == f"unknown ending {os.path.splitext(name)[1].lower()!r}"


@pytest.mark.parametrize(
    ("name", "problem", "advice"),
    [
        ("a.dta", "is a Stata file", 'pandas.read_stata("a.dta").to_parquet("a.parquet")'),
        ("a.dta", "is a Stata file", 'export delimited using "a.csv"'),
        ("a.SAV", "is an SPSS file", 'pandas.read_spss("a.SAV").to_parquet("a.parquet")'),
        ("a.sas7bdat", "is a SAS file", 'pandas.read_sas("a.sas7bdat").to_parquet("a.parquet")'),
        ('a "b".rds', "is an R file", r'arrow::write_parquet(readRDS("a \"b\".rds"), "a \"b\".parquet")'),
        ("a.RData", "is an R file", 'load("a.RData")'),
    ],
)
def test_files_of_statistics_programs(tmp_path, monkeypatch, name, problem, advice):
    monkeypatch.chdir(tmp_path)
    Path(name).write_text("x")
    with pytest.raises(FileError) as caught:
        read_predictions([name])
    assert caught.value.problem == problem
    assert advice in caught.value.remedy


def test_the_remedy_for_a_stata_file_works(tmp_path, monkeypatch):
    pandas = pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    pandas.DataFrame({"score": [0.2, 0.7], "outcome": [0, 1]}).to_stata("risk.dta", write_index=False)
    with pytest.raises(FileError) as caught:
        read_predictions(["risk.dta"])
    eval(re.search(r"pandas\.read_stata\(.*?\)\.to_parquet\(.*?\)", caught.value.remedy)[0], {"pandas": pandas})
    assert read_predictions(["risk.parquet"]).probs.tolist() == [0.2, 0.7]


def test_a_name_that_is_nearly_right(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text(tmp_path / "predictions.csv", "score,outcome\n0.5,1\n")
    folder = tmp_path / "empty"
    folder.mkdir()
    for name, said in (
        (
            "data/predictions.csv",
            "no such file; the folder 'data' does not exist either; did you mean 'predictions.csv'?",
        ),
        ("prediction.csv", "no such file; did you mean 'predictions.csv'?"),
        ("empty", "is a folder without a file that calibrant can read; name a file such as predictions.csv"),
    ):
        with pytest.raises(FileError) as caught:
            read_predictions([name])
        assert str(caught.value) == f"{name}: {said}"


def test_files_that_do_not_go_together(tmp_path):
    base = write(tmp_path / "a.parquet", {"p_0": [0.5], "p_1": [0.5], "y": ["a"]})
    wider = write(tmp_path / "b.parquet", {"p_0": [0.5], "p_1": [0.25], "p_2": [0.25], "y": ["a"]})
    refuse(
        [base, wider],
        (
            r"b\.parquet: has probs in p_0 \.\.\. p_2 \(3 columns\), but a\.parquet has probs in p_0, p_1 "
            r"\(2 columns\)"
        ),
    )
    numbers = write(tmp_path / "c.parquet", {"p_0": [0.5], "p_1": [0.5], "y": [1]})
    refuse(
        [base, numbers], r"c\.parquet: column 'y' contains numbers, but .*a\.parquet contains text; write the targets"
    )
    two = write(tmp_path / "d.parquet", {"probs": [[0.5, 0.5]], "y": [1]})
    three = write(tmp_path / "e.parquet", {"probs": [[0.5, 0.25, 0.25]], "y": [1]})
    refuse([two, three], r"e\.parquet: column 'probs' has a list of 3 values, .*d\.parquet has 2")


def test_the_order_of_the_first_files_columns_is_that_of_the_classes(tmp_path):
    first = write(tmp_path / "a.parquet", {"prob_dog": [0.25], "prob_cat": [0.75], "y": ["cat"]})
    second = write(tmp_path / "b.parquet", {"y": ["dog"], "prob_cat": [0.5], "prob_dog": [0.5], "other": [1]})
    third = write(tmp_path / "c.parquet", {"prob_cat": [0.125], "prob_dog": [0.875], "y": ["dog"]})
    read = read_predictions([first, second, third])
    assert read.class_names == ("dog", "cat")
    assert read.probs.tolist() == [[0.25, 0.75], [0.5, 0.5], [0.875, 0.125]]


def test_types_widen_over_files(tmp_path):
    first = write(tmp_path / "a.parquet", {"score": pa.array([0.5], pa.float32()), "y": [1]})
    second = write(tmp_path / "b.parquet", {"score": pa.array([0.1], pa.float64()), "y": [0.5]})
    read = read_predictions([first, second])
    assert read.probs.tolist() == [0.5, 0.1]
    assert read.targets.tolist() == [1, 0.5]
    empty = write(tmp_path / "c.parquet", {"score": pa.array([], pa.float64()), "y": pa.array([], pa.int64())})
    assert read_predictions([first, empty, second]).rows == (1, 0, 1)


# Columns.


@pytest.mark.covering
@pytest.mark.parametrize(
    ("options", "match"),
    [
        (
            {},
            r"several columns could be the probabilities: score, prob; probabilities may be in score, prob; outcomes "
            r"in outcome; \(1\) if 'score' is the probability of the event in 'outcome': --score score --outcome "
            r"outcome; \(2\) if 'prob' is the probability of the event in 'outcome': --score prob --outcome outcome$",
        ),
        (
            {"score": "score"},
            (
                "several columns could be the targets: label, outcome; outcomes may be in outcome; name the "
                "right columns, such as --outcome outcome$"
            ),
        ),
        (
            {"score": "scores", "outcome": "outcome"},
            r"has no column 'scores' \(--score\); did you mean 'score'\? the columns are score, prob, label, outcome$",
        ),
        (
            {"score": "score", "outcome": "won"},
            r"has no column 'won' \(--outcome\); the columns are score, prob, label",
        ),
        (
            {"score": "score", "outcome": "outcome", "weight": "w"},
            r"has no column 'w' \(--weight\); the columns are score",
        ),
        ({"probs": "q_*", "target": "label"}, r"no column matches --probs 'q_\*'; the columns are score, prob"),
        ({"probs": "score,prb", "target": "label"}, r"has no column 'prb' \(--probs\); did you mean 'prob'\?"),
        ({"probs": "score,score", "target": "label"}, "--probs names column 'score' twice; name each of them once"),
        ({"probs": "prob", "score": "score"}, r"both --score and --probs are given; --score is for one event"),
        ({"score": "score", "target": "label", "outcome": "outcome"}, r"both --outcome and --target are given"),
        (
            {"score": "label", "outcome": "outcome"},
            r"column 'label' holds text.*, not numbers; name a column of numbers",
        ),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_columns_that_are_not_there(tmp_path, ending, options, match):
    columns = {"score": SCORES, "prob": SCORES, "label": list("abca"), "outcome": OUTCOMES}
    path = write(tmp_path / f"f.{ending}", columns)
    refuse([path], match, **options)


def test_no_column_has_a_usual_name(tmp_path):
    path = write(tmp_path / "f.csv", {"x": [2.5, 3.5], "z": ["a", "b"]})
    match = (
        r"no column has a usual name for the probabilities \(probs, p_\*.*'x' has numbers from 2.5 to 3.5; convert a"
        r" score .* --score or --probs; the columns are x, z$"
    )
    refuse([path], match)
    refuse(
        [write(tmp_path / "g.csv", {"x": [2.5, 3.5], "z": [0.5, 7.5]})],
        r"no column has a usual name for the targets .*--outcome.*--target.* are x, z$",
        score="x",
    )


# Columns that look right are proposed where none has a usual name.


@pytest.mark.covering
@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
@pytest.mark.parametrize(
    ("columns", "options", "proposal"),
    [
        ({"id": [7, 8, 9, 10], "x": SCORES, "z": OUTCOMES}, {}, "--score x --outcome z"),
        ({"id": [7, 8, 9, 10], "x": SCORES, "z": OUTCOMES}, {"score": "x"}, "--outcome z"),
        ({"id": [7, 8, 9, 10], "x": SCORES, "z": OUTCOMES}, {"outcome": "z"}, "--score x"),
        ({"z": [True, False, True, True], "x": SCORES}, {}, "--score x --outcome z"),
        ({"z": ["no", "yes", "no", "no"], "x": SCORES}, {}, "--score x --outcome z --labels no,yes"),
        # Of several the names decide: what they say, and that one is within the other.
        ({"a": SCORES, "win": SCORES, "home": OUTCOMES, "win_came": OUTCOMES}, {}, "--score win --outcome win_came"),
        (
            {"a": SCORES, "risk": SCORES, "home": OUTCOMES, "died_true": OUTCOMES},
            {},
            "--score risk --outcome died_true",
        ),
        ({"a": SCORES, "same": [0, 0, 0, 0], "home": OUTCOMES}, {}, "--score a --outcome home"),
        ({"a b": SCORES, "z": OUTCOMES}, {}, "--score 'a b' --outcome z"),
        ({"day": ["sat", "sun", "sat", "sat"], "x": SCORES, "won": OUTCOMES}, {"score": "x"}, "--outcome won"),
        # Three columns that add up to 1 are those of classes.
        (
            {"u": [0.5, 0.25, 0, 0], "v": [0.25, 0.25, 1, 0.5], "w": [0.25, 0.5, 0, 0.5], "k": ["v", "w", "v", "w"]},
            {},
            "--probs u,v,w --target k --labels u,v,w",
        ),
    ],
)
def test_columns_that_look_right_are_proposed(tmp_path, ending, columns, options, proposal):
    path = write(tmp_path / f"f.{ending}", columns)
    with pytest.raises(FileError) as caught:
        read_predictions([path], **options)
    assert str(caught.value).endswith(f"; name the right columns, such as {proposal}")
    assert shlex.join(caught.value.options) == proposal


def test_several_labels_are_proposed_together(tmp_path):
    labels = {"toxic": OUTCOMES, "insult": [1, 0, 1, 1]}
    columns = {"id": [7, 8, 9, 10], **labels, "prob_toxic": SCORES, "prob_insult": [0.9, 0.2, 0.1, 0.5]}
    path = write(tmp_path / "f.csv", {name: columns[name] for name in ("id", "toxic", "prob_insult", "insult")})
    with pytest.raises(FileError) as caught:
        read_predictions([path])
    assert caught.value.options == ("--score", "prob_insult", "--outcome", "insult")
    for beginning in ("prob_", "x_"):
        named = {name.replace("prob_", beginning): values for name, values in columns.items()}
        path = write(tmp_path / "g.csv", named)
        with pytest.raises(FileError) as caught:
            read_predictions([path])
        proposal = f"--probs {beginning}toxic,{beginning}insult --target toxic,insult --notion multilabel"
        assert shlex.join(caught.value.options) == proposal
        words = f"probabilities of classes may be in {beginning}toxic, {beginning}insult; labels in toxic, insult; name"
        assert words in caught.value.remedy
    read = read_predictions([path], probs="x_toxic,x_insult", target="toxic,insult")
    np.testing.assert_array_equal(read.targets, np.transpose([labels["toxic"], labels["insult"]]))
    assert read.class_names == ("toxic", "insult")


def test_a_true_class_is_never_guessed(tmp_path):
    # As in FiveThirtyEight's files of football matches: no column says how a match ended, but goals do.
    columns = {
        "prob1": [0.5, 0.25, 0.2],
        "prob2": [0.25, 0.5, 0.3],
        "probtie": [0.25, 0.25, 0.5],
        "score1": [1, 0, 1],
        "score2": [0, 1, 0],
    }
    path = write(tmp_path / "f.csv", {name: values * 4 for name, values in columns.items()})
    with pytest.raises(FileError) as caught:
        read_predictions([path])
    assert caught.value.options == ()
    assert caught.value.remedy == (
        "probabilities of classes may be in prob1, prob2, probtie (--probs prob1,prob2,probtie), but "
        "no column looks like the true class; add a column of true classes, and name it with --target; the columns are "
        "prob1, prob2, probtie, score1, score2"
    )


@pytest.mark.parametrize(
    ("names", "target", "classes", "targets"),
    [
        (["prob1", "probtie", "prob2"], [1, 2], ("1", "tie", "2"), ["1", "2"]),
        (["prob1", "probtie", "prob2"], ["tie", "2"], ("1", "tie", "2"), ["tie", "2"]),
        (["p_cat", "p_cow"], ["cow", "cat"], ("cat", "cow"), ["cow", "cat"]),
        (["p_cat", "p_cow"], [1, 0], ("cat", "cow"), [1, 0]),
        (["p_0", "p_1"], [1, 0], None, [1, 0]),
        (["cat", "cow"], [1, 0], None, [1, 0]),
    ],
)
def test_listed_columns_name_the_classes_by_what_follows_their_common_beginning(
    tmp_path, names, target, classes, targets
):
    path = write(tmp_path / "f.csv", {name: [1 / len(names)] * 2 for name in names} | {"y": target})
    read = read_predictions([path], probs=",".join(names))
    assert (read.class_names, read.targets.tolist()) == (classes, targets)


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "npz"])
def test_lists_and_arrays_that_look_right_are_proposed(tmp_path, ending):
    rows, labels = [[0.5, 0.25, 0.25], [0, 1, 0], [0.5, 0.5, 0], [1, 0, 0]], [0, 2, 2, 0]
    path = tmp_path / f"f.{ending}"
    if ending == "npz":
        np.savez(path, arr_0=rows, arr_1=labels, arr_2=np.array([None, "a"], object))
    else:
        write(path, {"arr_0": [[float(x) for x in row] for row in rows], "arr_1": labels})
    with pytest.raises(FileError) as caught:
        read_predictions([path])
    words = (
        "probabilities of classes may be in arr_0; labels in arr_1 (a guess from the values); name "
        "the right columns, such as"
    )
    assert caught.value.remedy == words
    assert caught.value.options == ("--probs", "arr_0", "--target", "arr_1")


def test_one_event_in_arrays_is_proposed(tmp_path):
    np.savez(tmp_path / "f.npz", a=SCORES, b=OUTCOMES)
    words = (
        r"probabilities may be in a; outcomes in b \(a guess from the values\); name the right "
        "columns, such as --probs a --tar"
    )
    refuse([tmp_path / "f.npz"], words)


def test_models_have_an_outcome_proposed(tmp_path):
    path = write(tmp_path / "f.csv", {"old": SCORES, "new": SCORES, "came": OUTCOMES})
    with pytest.raises(
        FileError, match=r"outcomes may be in came \(a guess .*\); name the right columns, such as --outcome came$"
    ):
        read_models([path], scores=["old", "new"])


OTHERS = [0.9, 0.2, 0.1, 0.5]


@pytest.mark.parametrize(
    ("columns", "options", "proposal", "words"),
    [
        # Nothing but its values says that a column holds outcomes: the proposal says so.
        ({"risk": SCORES, "male": OUTCOMES}, {"score": "risk"}, "--outcome male", "in male (a guess from the values);"),
        (
            {"a": SCORES, "male": OUTCOMES},
            {},
            "--score a --outcome male",
            "outcomes in male (a guess from the values);",
        ),
        (
            {"risk": SCORES, "male": OUTCOMES, "fit": ["no", "yes", "no", "no"]},
            {"score": "risk"},
            "",
            "in male, fit (a guess from the values); (1) if 'risk' is the probability of the event in 'male': "
            "--outcome male; (2) if 'risk' is the probability of the event in 'fit': --outcome fit",
        ),
        ({"risk": SCORES, "died_true": OUTCOMES}, {"score": "risk"}, "--outcome died_true", "may be in died_true;"),
        ({"prob_rain": SCORES, "rain": OUTCOMES}, {"score": "prob_rain"}, "--outcome rain", "may be in rain;"),
        # A column with another role is no outcome.
        ({"risk": SCORES, "male": OUTCOMES}, {"score": "risk", "by": ("male",)}, "", "name the right "),
        ({"risk": SCORES, "male": OUTCOMES}, {"score": "risk", "weight": "male"}, "", "name the right "),
        # One of several labels is not the outcome of another one's score.
        ({"prob_toxic": SCORES, "prob_rude": OTHERS, "rude": OUTCOMES}, {"score": "prob_toxic"}, "", "name the right"),
        ({"prob_toxic": SCORES, "toxic": OUTCOMES, "rude": OUTCOMES}, {"outcome": "rude"}, "", "name the right column"),
        (
            {"prob_toxic": SCORES, "prob_rude": OTHERS, "rude": OUTCOMES},
            {"score": "prob_rude"},
            "--outcome rude",
            "may be in rude;",
        ),
    ],
)
def test_a_guess_at_the_outcome_says_so_or_is_not_made(tmp_path, columns, options, proposal, words):
    path = write(tmp_path / "f.csv", columns)
    with pytest.raises(FileError) as caught:
        read_predictions([path], **options)
    assert shlex.join(caught.value.options) == proposal
    assert words in str(caught.value)


def test_a_file_with_another_fault_has_nothing_proposed(tmp_path):
    path = text(tmp_path / "f.csv", "x,z\n0.5,1\n0.5,1,2\n")
    refuse([path], r"no column has a usual name .*; the columns are x, z$")


@shared
@pytest.mark.parametrize(
    ("name", "proposal"),
    [
        ("nba_games.csv", "--score prob1 --outcome prob1_outcome"),
        ("mlb_games.csv", "--score prob1 --outcome prob1_outcome --where 'prob1_outcome <> 0.5'"),  # without a tie
        ("governors_elections.csv", "--score probwin --outcome probwin_outcome"),
    ],
)
@pytest.mark.slow
def test_the_columns_of_real_files_are_proposed(name, proposal):
    with pytest.raises(FileError, match=r"no column has a usual name") as caught:
        read_predictions([SHARED / name])
    (words,) = [each.words for each in caught.value.readings] or [caught.value.options]
    assert shlex.join(words) == proposal


@shared
def test_several_models_in_one_file_are_listed():
    with pytest.raises(Unnamed) as caught:
        read_predictions([SHARED / "precip_niamey_2016.csv"])
    models = ["Logistic", "EMOS", "ENS", "EPC"]
    assert [each.options for each in caught.value.readings] == [("--score", m, "--outcome", "obs") for m in models]


# Labels that are not 0 to C - 1.


@pytest.mark.covering
@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl", "npz"])
@pytest.mark.parametrize(
    ("outcomes", "labels"),
    [
        ([2, 1, 1, 2], ["1", "2"]),
        ([1, -1, -1, 1], ["-1", "1"]),
        ([2.0, 1.0, 1.0, 2.0], ["1", "2"]),
        (["won", "lost", "lost", "won"], ["lost", "won"]),
    ],
)
def test_labels_are_named_by_the_caller(tmp_path, ending, outcomes, labels):
    path = tmp_path / f"f.{ending}"
    if ending == "npz":
        np.savez(path, score=SCORES, outcome=outcomes)
    else:
        write(path, {"score": SCORES, "outcome": outcomes})
    read = read_predictions([path], labels=labels)
    assert read.class_names == tuple(labels)
    assert read.targets.tolist() == [labels[k] for k in (1, 0, 0, 1)]
    models = read_models([path], scores=["score"], labels=labels)
    assert models.targets.tolist() == read.targets.tolist()
    assert models.class_names == tuple(labels)


def test_labels_come_before_the_ends_of_the_columns(tmp_path):
    path = write(tmp_path / "f.csv", {"p_cat": [0.5], "p_dog": [0.5], "y": [2]})
    read = read_predictions([path], labels=["1", "2"])
    assert (read.class_names, read.targets.tolist()) == (("1", "2"), ["2"])


def test_labels_of_npy(tmp_path):
    np.save(tmp_path / "p.npy", np.array(SCORES))
    np.save(tmp_path / "y.npy", np.array([1, 2, 2, 1]))
    read = read_predictions([tmp_path / "p.npy"], targets_file=str(tmp_path / "y.npy"), labels=["1", "2"])
    assert (read.class_names, read.targets.tolist()) == (("1", "2"), ["1", "2", "2", "1"])


# The names of columns, for the completion of commands.


@pytest.mark.parametrize("ending", [*TABULAR, "npz"])
def test_names_of_columns_from_the_head_of_a_file(tmp_path, ending):
    path = tmp_path / f"f.{ending}"
    if ending == "npz":
        np.savez(path, **{"my p": SCORES, "b": OUTCOMES})
    else:
        write(path, {"my p": SCORES, "b": OUTCOMES})
    assert column_names(str(path)) == ("my p", "b")
    np.save(tmp_path / "p.npy", SCORES)
    assert column_names(str(tmp_path / "p.npy")) == ()


def test_a_long_list_of_columns_is_cut(tmp_path):
    path = write(tmp_path / "f.parquet", {f"x{j}": [0.5] for j in range(1200)})
    refuse([path], r"x28, x29 and 1,170 more$", score="nothing")


def test_the_same_name_twice(tmp_path):
    path = text(tmp_path / "f.csv", "score,score,outcome\n0.5,0.5,1\n")
    refuse([path], r"has 2 columns named 'score'; rename all but one")
    table = pa.Table.from_arrays([pa.array([0.5]), pa.array([0.5]), pa.array([1])], ["score", "score", "outcome"])
    pq.write_table(table, tmp_path / "f.parquet")
    refuse([str(tmp_path / "f.parquet")], r"has 2 columns named 'score'|several columns")
    refuse([str(tmp_path / "f.parquet")], r"has 2 columns named 'score'; rename all but one", score="score")
    # The engine would read Score for score.
    path = write(tmp_path / "g.parquet", {"Score": [0.75], "score": [0.5], "outcome": [1]})
    assert read_predictions([path], score="score").probs.tolist() == [0.5]
    refuse(
        [path],
        "has columns whose names differ only in upper and lower case: 'Score', 'score'; rename one",
        score="score",
        where="outcome = 1",
    )


# Cells.


@pytest.mark.covering
@pytest.mark.parametrize("ending", TABULAR)
@pytest.mark.parametrize("column", ["score", "outcome", "w"])
def test_nulls(tmp_path, ending, column):
    columns = {"score": list(SCORES), "outcome": list(OUTCOMES), "w": [1.0, 2.0, 3.0, 4.0], "k": [0, 1, 1, 1]}
    columns[column][2] = None
    path = write(tmp_path / f"f.{ending}", columns)
    match = rf"row 3, column '{column}' is empty \(null\); fill the cell, or .* --where \"{column} IS NOT NULL\"$"
    refuse([path], match, weight="w")
    match = rf"row 3, column '{column}' is empty \(null\); .* --where \"\(k = 1\) AND {column} IS NOT NULL\"$"
    refuse([path], match, weight="w", where="k = 1")
    read = read_predictions([path], weight="w", where=f"{column} IS NOT NULL")
    assert read.rows == (3,)
    assert read.locate(2) == (path, 4)


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow", "jsonl"])
def test_nulls_among_labels(tmp_path, ending):
    path = write(tmp_path / f"f.{ending}", {"score": SCORES, "label": ["a", "b", None, "c"]})
    refuse([path], r"row 3, column 'label' is empty \(null\)")
    words = pa.array(["a", "b", None, "c"]).dictionary_encode()
    path = write(tmp_path / "g.parquet", {"score": SCORES, "label": words})
    refuse([path], r"row 3, column 'label' is empty \(null\)")


def test_a_remedy_quotes_what_needs_quoting(tmp_path):
    path = write(tmp_path / "f.parquet", {"my p": [0.5, None], "outcome": [1, 0]})
    refuse([path], r"""--where '"my p" IS NOT NULL'$""", score="my p")
    path = write(tmp_path / "g.parquet", {"score": [0.5, None], "order": [1, 0]})
    refuse([path], r'--where "score IS NOT NULL"$', outcome="order")


@pytest.mark.covering
@pytest.mark.parametrize("ending", ["csv", "csv.gz", "jsonl"])
@pytest.mark.parametrize(
    ("cell", "match"),
    [
        (
            "abc",
            (
                "row 3, column '{}': 'abc' is not a number; correct the cell, or leave the row out with "
                "--where \\\"{sql} <> 'abc'\\\"$"
            ),
        ),
        ("NA", r"row 3, column '{}': 'NA' is not a number; leave such rows out with --where \"{sql} <> 'NA'\"$"),
        ("85%", r"row 3, column '{}': '85%' is not a number; {percent}$"),
        ("0.5.1", r"row 3, column '{}': '0\.5\.1' is not a number"),
        ("o'k", r"row 3, column '{}': \"o'k\" is not a number; .* --where \"{sql} <> 'o''k'\"$"),
        ("x" * 300, r"row 3, column '{}': 'x{{39}}…' is not a number; correct the cell$"),
    ],
)
@pytest.mark.parametrize("column", ["score", "outcome", "w"])
def test_bad_cells(tmp_path, ending, cell, match, column):
    columns = {"score": ["0.5"] * 4, "outcome": ["1", "0", "1", "0"], "w": ["2"] * 4, "k": ["0", "1", "1", "1"]}
    columns[column][2] = cell
    path = tmp_path / f"f.{ending}"
    if ending == "jsonl":
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        lines = [{name: v if v in (cell, None) else float(v) for name, v in row.items()} for row in rows]
        text(path, "".join(json.dumps(line) + "\n" for line in lines))
    else:
        write(path, columns)
    sql = rf"\({column}->>''\)" if ending == "jsonl" else column  # a column of both numbers and text
    percent = r"write percentages as fractions, such as 0\.85 instead of 85%"
    if column == "score":
        percent = "pass --percent if the numbers are percentages"
    said = refuse([str(path)], match.format(column, sql=sql, percent=percent), weight="w")
    if "--where" in said and column != "outcome":
        where = shlex.split(said.split("--where ")[1])[0]
        assert len(read_predictions([str(path)], weight="w", where=where).targets) == 3
    assert said.startswith(str(path))
    assert "\n" not in said
    refuse([str(path)], rf"row 3, column '{column}': .* is not a number", weight="w", where="k = 1")


def test_a_bad_cell_among_truth_values(tmp_path):
    path = text(tmp_path / "f.csv", "score,won\n" + "0.5,true\n" * 30_000 + "0.5,maybe\n")
    refuse([path], r"row 30001, column 'won': 'maybe' is not true or false; correct the cell", outcome="won")


def test_a_bad_cell_in_row_300_001(tmp_path):
    path = text(tmp_path / "f.csv", "score,outcome\n" + "0.25,1\n" * 300_000 + "abc,0\n" + "0.5,0\n" * 9)
    start = time.process_time()  # of all threads, whatever else runs on the machine
    refuse([path], r"f\.csv: row 300001, column 'score': 'abc' is not a number; correct the cell")
    assert time.process_time() - start < 2
    read = read_predictions([path], where="score <> 'abc'")
    assert read.rows == (300_009,)
    assert read.locate(300_000) == (path, 300_002)


def test_order_is_kept_over_many_batches(tmp_path):
    n = 200_000  # of which at most 65,536 are read at a time
    score = np.random.default_rng(0).random(n)
    path = write(tmp_path / "f.parquet", {"score": score, "outcome": np.zeros(n, int)})
    kept = np.flatnonzero(score > 0.3)
    for ending in ("parquet", "csv", "arrow"):
        if ending != "parquet":
            path = write(tmp_path / f"f.{ending}", {"score": score, "outcome": np.zeros(n, int)})
        np.testing.assert_array_equal(read_predictions([path]).probs, score)
        read = read_predictions([path], where="score > 0.3")
        np.testing.assert_array_equal(read.probs, score[kept])
        assert read.locate(100_000) == (path, kept[100_000] + 1)


@pytest.mark.parametrize(
    ("body", "match"),
    [
        ("score,outcome\n0.5,1\n0.25\n", r"line 3 has 1 field and the header 2; give each row all its fields"),
        ("score,outcome\n0.5,1\n0.25,1,7\n", r"line 3 has 3 fields and the header 2; give each row"),
        ('score,outcome\n"0.5,1\n0.25,1\n', r"line 2 holds an unclosed quotation mark; correct this line"),
        (b"score,label\n0.5,caf\xe9\n", r"UTF-8"),
        ("score,outcome\n", r"holds no rows; write the predictions again"),
        ("score,outcome", r"holds no rows; write the predictions again"),
        ("\n0.5,1\n", r"has an empty first line; the first line must name the columns"),
        ("0.5,1\n0.25,0\n", r"has numbers in its first line \(0\.5, 1\); the first line must name the columns"),
        ("score outcome\n0.5 1\n", r"has its columns separated by spaces; write the file with commas, such as with"),
    ],
)
@pytest.mark.parametrize("where", [None, "score > 0"])
def test_csv_that_is_malformed(tmp_path, body, match, where):
    if where is not None and "holds no rows" in match:
        match = "no row meets"
    path = text(tmp_path / "f.csv", body)
    said = refuse([path], match, where=where)
    assert said.startswith(path)
    assert "\n" not in said


@pytest.mark.parametrize(
    ("body", "match"),
    [
        ('{"score": 0.5, "y": 1}\n{"score": 0.5,\n', r"line 2 is not valid JSON \(.*\); write each object on one line"),
        ('{"score": 0.5, "y": 1}\n{"score": 0.5, "y', r"line 2 is not valid JSON"),
        (
            '[{"score": 0.5, "y": 1}]',
            "starts with '\\[\\{\\\"score\\\":', not with an object; write each object on one line",
        ),
        ("\n \n", r"holds no rows"),
        (b'{"score": 0.5, "y": "\xe9"}', r"is not UTF-8 text"),
        ('{"score": {"a": 0.5}, "y": 1}', r"column 'score' holds objects, not numbers"),
        ('{"score": 0.5, "y": 1}\n{"y": 1}\n', r"row 2, column 'score' is empty \(null\)"),
        (
            '{"score": [0.5, 0.5], "y": 1}\n{"score": [1], "y": 1}\n',
            "row 2, column 'score' has a list of 1 values, but row 1 has 2",
        ),
        (
            '{"score": [0.5, "x"], "y": 1}\n',
            r"row 1, column 'score': '\[0\.5, \"x\"\]' is not a list of numbers; correct",
        ),
        ('{"score": [0.5, null], "y": 1}\n', r"row 1, column 'score' has a list that contains a null"),
    ],
)
def test_json_that_is_malformed(tmp_path, body, match):
    path = text(tmp_path / "f.jsonl", body)
    said = refuse([path], match)
    assert said.startswith(path)
    assert "\n" not in said


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_lists_that_are_malformed(tmp_path, ending):
    path = write(
        tmp_path / f"a.{ending}", {"probs": [[0.5, 0.5], [0.5, 0.25, 0.25], None], "y": [0, 1, 1], "k": [1, 2, 2]}
    )
    refuse([path], r"row 3, column 'probs' is empty \(null\)")
    refuse(
        [path],
        "row 2, column 'probs' has a list of 3 values, but row 1 has 2; give every row a value",
        where="probs IS NOT NULL",
    )
    path = write(tmp_path / f"b.{ending}", {"probs": [[0.5, 0.5], [0.5, None]], "y": [0, 1]})
    refuse([path], r"row 2, column 'probs' has a list that contains a null; give every class")
    path = write(tmp_path / f"c.{ending}", {"probs": [["a", "b"]], "y": [0]})
    refuse([path], r"column 'probs' holds text, not numbers; name a column of numbers")
    path = write(tmp_path / f"d.{ending}", {"probs": [[[0.5], [0.5]]], "y": [0]})
    refuse([path], r"column 'probs' holds lists of lists; write one list of numbers for each row")


def test_a_ragged_list_in_a_later_batch(tmp_path):
    rows = [[0.5, 0.5]] * 70_000 + [[1.0]] * 70_000
    path = write(tmp_path / "f.parquet", {"probs": rows, "y": [0] * 140_000})
    refuse([path], r"row 70001, column 'probs' has (a list|lists) of 1")


@pytest.mark.covering
@pytest.mark.parametrize("ending", ["parquet", "arrow", "feather", "csv.gz", "jsonl.gz", "npz"])
@pytest.mark.parametrize("part", [0.1, 0.5, 0.98])
@pytest.mark.parametrize("where", [None, "score > 0.5"])
def test_truncated_files(tmp_path, ending, part, where):
    path = tmp_path / f"f.{ending}"
    score = np.random.default_rng(0).random(5000)
    if ending == "npz":
        where = None
        np.savez(path, probs=score, y=score > 0.5)
    else:
        write(path, {"score": score, "outcome": (score > 0.5).astype(int)})
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * part)])
    said = refuse([str(path)], r"f\.[a-z.]*: (cannot be read|is damaged) \(.*\); ", where=where)
    assert "\n" not in said


@pytest.mark.parametrize("ending", ["parquet", "arrow", "npz", "npy", "csv.gz"])
def test_files_that_are_something_else(tmp_path, ending):
    path = text(tmp_path / f"f.{ending}", "score,outcome\n0.5,1\n" * 20)
    refuse([path], r"f\.[a-z.]*: (cannot be read|is damaged) \(", targets_file=path if ending == "npy" else None)


def test_an_arrow_stream(tmp_path):
    table = pa.table({"score": SCORES, "outcome": OUTCOMES})
    with ipc.new_stream(str(tmp_path / "f.arrow"), table.schema) as writer:
        for batch in table.to_batches(max_chunksize=3):
            writer.write_batch(batch)
    assert read_predictions([str(tmp_path / "f.arrow")]).probs.tolist() == SCORES
    assert read_predictions([str(tmp_path / "f.arrow")], where="outcome = 0").probs.tolist() == [0.1]


# numpy's files.


@pytest.mark.parametrize(
    "names", [("probs", "targets"), ("predictions", "ground_truth"), ("logits", "labels"), ("scores", "y")]
)
def test_npz(tmp_path, names):
    path = tmp_path / "f.npz"
    probs = np.random.default_rng(0).random((4, 3)).astype("f4")
    np.savez(path, **{names[0]: probs, names[1]: [0, 1, 2, 1], "features": np.zeros((9, 9))})
    read = read_predictions([str(path)], class_names=["a", "b", "c"])
    np.testing.assert_array_equal(read.probs, probs)
    assert read.probs.dtype == np.float32
    assert read.targets.tolist() == [0, 1, 2, 1]
    assert read.logits == (names[0] == "logits")
    assert read.sources == {"probs": names[0], "targets": names[1]}
    assert read.class_names == ("a", "b", "c")
    assert read.locate(3) == (str(path), 4)
    assert read.column_name("probs", 2) == f"{names[0]}[2]"


def test_several_npz_with_named_arrays(tmp_path):
    for part in range(2):
        np.savez(
            tmp_path / f"{part}.npz", a=np.full(2, part / 2), b=np.array(["x", "y"]), w=np.ones(2), probs=np.ones(5)
        )
    read = read_predictions([str(tmp_path / "*.npz")], score="a", outcome="b", weight="w")
    assert read.probs.tolist() == [0, 0, 0.5, 0.5]
    assert read.targets.tolist() == ["x", "y", "x", "y"]
    assert read.weights.tolist() == [1] * 4
    assert read.locate(3) == (str(tmp_path / "1.npz"), 2)


@pytest.mark.parametrize(
    ("arrays", "options", "match"),
    [
        (
            {"x": np.ones(2), "y": [0, 1]},
            {},
            r"no array has a usual name for the probabilities .*--probs; the arrays are x, y",
        ),
        (
            {"probs": np.ones(2), "z": [0, 1]},
            {},
            r"no array has a usual name for the targets .*--target; the arrays are",
        ),
        (
            {"probs": np.ones(2), "logits": np.ones(2), "y": [0, 1]},
            {},
            r"several arrays could be the probabilities: probs, logits",
        ),
        (
            {"probs": np.ones(2), "y": [0, 1]},
            {"probs": "prob"},
            r"has no array 'prob' \(--probs\); did you mean 'probs'\?",
        ),
        (
            {"probs": np.ones(2), "y": [0, 1, 1]},
            {},
            r"array 'y' has 3 rows and 'probs' has 2; save arrays of the same length",
        ),
        (
            {"probs": np.array(["a", "b"]), "y": [0, 1]},
            {},
            r"array 'probs' holds text, not numbers; name an array of numbers",
        ),
        (
            {"probs": np.ones(2), "y": np.array([{}, 1], object)},
            {},
            "array 'y' holds Python objects; save the array as numbers or strings",
        ),
        (
            {"probs": np.ones(2, complex), "y": [0, 1]},
            {},
            r"array 'probs' is of type complex128; save numbers or strings",
        ),
        (
            {"probs": np.ones(2, "V2"), "y": [0, 1]},
            {},
            "array 'probs' is of type .*V2; save the array as float32, because numpy has no bfloat16",
        ),
        ({"probs": 0.5, "y": 1}, {}, "array 'probs' is a single value; save an array with one row for each prediction"),
        ({"probs": np.ones(0), "y": np.ones(0)}, {}, r"holds no rows"),
        (
            {"probs": np.ones(2), "y": [0, 1]},
            {"targets_file": "y.npy"},
            r"contains its own targets, .*use --targets only with \.npy files",
        ),
    ],
)
def test_npz_that_cannot_be_used(tmp_path, arrays, options, match):
    path = tmp_path / "f.npz"
    np.savez(path, **arrays)
    refuse([str(path)], match, **options)


def test_npz_that_differ(tmp_path):
    np.savez(tmp_path / "a.npz", probs=np.ones((2, 3)), y=[0, 1])
    np.savez(tmp_path / "b.npz", probs=np.ones((2, 4)), y=[0, 1])
    refuse(
        [str(tmp_path / "*.npz")],
        (
            r"b\.npz: array 'probs' has rows of shape \(4,\), but .*a\.npz has rows of shape \(3,\); pass files whose "
            "rows have the same shape"
        ),
    )


def test_npy(tmp_path):
    np.save(tmp_path / "probs_0.npy", np.eye(2, dtype="f2"))
    np.save(tmp_path / "probs_1.npy", np.eye(2, dtype="f2"))
    np.save(tmp_path / "targets.npy", np.array([0, 1, 1, 0]))
    targets = str(tmp_path / "targets.npy")
    read = read_predictions([str(tmp_path / "probs_*.npy")], targets_file=targets)
    assert read.probs.shape == (4, 2)
    assert read.probs.dtype == np.float16
    assert read.targets.tolist() == [0, 1, 1, 0]
    assert read.locate(2) == (str(tmp_path / "probs_1.npy"), 1)
    one = str(tmp_path / "probs_0.npy")
    refuse(
        [one],
        (
            r"targets\.npy: has 4 rows, but the probabilities have 2 rows; pass the targets of exactly these "
            "rows"
        ),
        targets_file=targets,
    )
    refuse(
        [one],
        (
            r"a \.npy file of probabilities contains no targets; name the \.npy file of the targets with "
            "--targets FILE"
        ),
    )
    refuse(
        [one], r"a \.npy file has no column names, but --probs names 'p'; save a \.npz", targets_file=targets, probs="p"
    )
    refuse([one], r"nowhere\.npy: no such file", targets_file=str(tmp_path / "nowhere.npy"))
    csv = write(tmp_path / "t.csv", {"y": [0, 1]})
    refuse([one], r"t\.csv: is not a \.npy file; save the targets with numpy\.save", targets_file=csv)
    (tmp_path / "a.npz").write_bytes((tmp_path / "targets.npy").read_bytes())
    refuse([str(tmp_path / "a.npz")], r"a\.npz: holds a single array, not an archive; rename the file to \.npy")
    np.savez(tmp_path / "z.npz", probs=[1.0])
    (tmp_path / "z.npz").rename(tmp_path / "z.npy")
    refuse(
        [str(tmp_path / "z.npy")],
        r"z\.npy: is an archive, not a single array; rename the file to \.npz",
        targets_file=targets,
    )


# Around.


def test_progress_goes_up_to_the_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "_CELLS_OF_NUMBERS", 1 << 17)
    n = 200_000
    columns = {"score": np.full(n, 0.5), "outcome": np.ones(n, int)}
    for ending in ("csv", "parquet"):
        paths = [write(tmp_path / f"0.{ending}", columns), str(tmp_path / f"1.{ending}")]
        shutil.copyfile(*paths)
        calls: list[tuple[int, int]] = []
        rows: list[int] = []
        read_predictions(
            paths, progress=lambda done, total, n, calls=calls, rows=rows: (calls.append((done, total)), rows.append(n))
        )
        assert rows == sorted(rows)
        assert rows[-1] == 2 * n
        total = sum(os.path.getsize(path) for path in paths)
        assert {call[1] for call in calls} == {total}
        done = [call[0] for call in calls]
        assert done == sorted(done)
        assert len(done) > 4
        assert done[-1] == total


def test_only_the_used_columns_are_read(tmp_path):
    # The damage is in a column that nobody asked for.
    n = 20_000
    table = pa.table({"score": np.full(n, 0.5), "outcome": np.ones(n, int), "z": np.random.default_rng(0).random(n)})
    path = tmp_path / "f.parquet"
    pq.write_table(table, path, compression="zstd", use_dictionary=False, write_page_checksum=True)
    chunk = pq.ParquetFile(path)
    place = chunk.metadata.row_group(0).column(2)
    chunk.close()
    damaged = bytearray(path.read_bytes())
    middle = place.data_page_offset + place.total_compressed_size // 2
    damaged[middle] ^= 0xFF
    path.write_bytes(damaged)
    assert read_predictions([str(path)]).rows == (n,)
    refuse([str(path)], r"f\.parquet: cannot be read \(", score="z")


@pytest.mark.parametrize(
    "options", [{}, {"clusters": ("site",)}, {"where": "site = 'north'"}, {"by": ["site"]}], ids=str
)
@pytest.mark.parametrize("dictionary", [True, False])
def test_a_text_that_is_not_utf_8_is_an_error_where_it_is_used(tmp_path, options, dictionary):
    path = tmp_path / "f.parquet"
    table = pa.table({"score": SCORES, "outcome": OUTCOMES, "site": ["north"] * len(SCORES)})
    pq.write_table(table, path, compression="none", use_dictionary=dictionary, write_statistics=False)
    path.write_bytes(path.read_bytes().replace(b"north", b"no\xbcth"))
    if not options:
        assert read_predictions([str(path)]).rows == (len(SCORES),)
        return
    refuse(
        [str(path)], r"f\.parquet: cannot be read \(.*(UTF8|UTF-8).*; write the file again if it is damaged", **options
    )


@pytest.mark.parametrize(("library", "name"), [("duckdb", "f.jsonl"), ("pyarrow", "f.parquet"), ("pyarrow", "f.csv")])
def test_a_library_is_missing(tmp_path, monkeypatch, library, name):
    path = write(tmp_path / name, {"score": SCORES, "outcome": OUTCOMES})
    for module in [module for module in sys.modules if module.partition(".")[0] == library]:
        monkeypatch.setitem(sys.modules, module, None)
    message = f"{library} is needed to read {name} and is not installed; run: {install_command('report')}"
    with pytest.raises(MissingDependencyError, match=re.escape(message)):
        read_predictions([path])


def test_npz_need_no_extra(tmp_path):
    np.savez(tmp_path / "f.npz", probs=np.eye(2), y=[0, 1])
    code = (
        "import sys; from calibrant.files import Options, read_predictions; "
        f"read_predictions([{str(tmp_path / 'f.npz')!r}], Options()); "
        "print(sorted({'duckdb', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# Real predictions.


@shared
def test_nba_games():
    read = read_predictions([str(SHARED / "nba_games.csv")], score="prob1", outcome="prob1_outcome")
    assert read.probs.shape == (8886,)
    assert set(read.targets.tolist()) == {0, 1}
    assert read.targets.dtype == np.int64
    some = read_predictions(
        [str(SHARED / "nba_games.csv")], score="prob1", outcome="prob1_outcome", where="season = 2022"
    )
    np.testing.assert_array_equal(some.probs, read.probs[: len(some.probs)])


@shared
def test_mlb_games_hold_an_outcome_of_a_half():
    path = str(SHARED / "mlb_games.csv")
    read = read_predictions([path], score="prob1", outcome="prob1_outcome")
    (half,) = np.flatnonzero((read.targets != 0) & (read.targets != 1))
    assert read.targets[half] == 0.5
    assert read.locate(int(half)) == (path, half + 1)
    rest = read_predictions([path], score="prob1", outcome="prob1_outcome", where="prob1_outcome IN (0, 1)")
    np.testing.assert_array_equal(rest.probs, np.delete(read.probs, half))
    assert rest.locate(int(half)) == (path, half + 2)


@shared
def test_the_other_real_files():
    read = read_predictions([str(SHARED / "governors_elections.csv")], score="probwin", outcome="probwin_outcome")
    assert read.rows == (19_831,)
    assert {0.0, 1.0} <= set(read.probs.tolist())
    read = read_predictions([str(SHARED / "precip_niamey_2016.csv")], score="EMOS")
    assert read.sources == {"probs": "EMOS", "targets": "obs"}
    assert read.rows == (92,)
    for name, C in (("wideresnet-16-4-cifar-10", 10), ("densenet-bc-100-cifar-100", 100)):
        read = read_predictions([str(SHARED / f"{name}.npz")])
        assert read.probs.shape == (10_000, C)
        assert read.probs.dtype == np.float32
        assert read.targets.shape == (10_000,)
        assert read.sources == {"probs": "predictions", "targets": "ground_truth"}


# Per cents.

PER_CENTS = ["85%", "85 %", "85", "0", "100 %", " 12.5% ", "85\u00a0%", "+5%", "1e-2%", ".5%"]
SHARES = [0.85, 0.85, 0.85, 0.0, 1.0, 0.125, 0.85, 0.05, 0.0001, 0.005]


def save(path: Path, scores: list[object], **others: list[object]) -> str:
    """Write scores, in a format of tables or of NumPy, and outcomes."""
    columns = {"score": scores, "outcome": [k % 2 for k in range(len(scores))], **others}
    if path.name.endswith("npz"):
        np.savez(path, **{name: np.array(entries) for name, entries in columns.items()})
        return str(path)
    return write(path, columns)


@pytest.mark.parametrize("ending", [*TABULAR, "npz"])
def test_texts_in_per_cent_are_fractions(tmp_path, ending):
    read = read_predictions([save(tmp_path / f"f.{ending}", PER_CENTS)], percent=True)
    np.testing.assert_array_equal(read.probs, SHARES)
    assert read.probs.dtype == np.float64
    assert read.sources == {"probs": "score in percent", "targets": "outcome"}


@pytest.mark.parametrize("ending", [*TABULAR, "npz"])
@pytest.mark.parametrize("numbers", [[85, 0, 100, 3], [85.0, 0.0, 100.0, 99.9]])
def test_numbers_in_per_cent_are_divided_by_100(tmp_path, ending, numbers):
    read = read_predictions([save(tmp_path / f"f.{ending}", numbers)], percent=True)
    np.testing.assert_array_equal(read.probs, [number / 100 for number in numbers])


@pytest.mark.parametrize("ending", ["parquet", "arrow", "npz", "npy"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "uint8", "int64"])
def test_per_cents_keep_the_width_of_floats(tmp_path, ending, dtype):
    scores = np.array([85, 0, 100, 3]).astype(dtype)
    path = tmp_path / f"f.{ending}"
    if ending == "npy":
        np.save(path, scores)
        np.save(tmp_path / "y.npy", [0, 1, 0, 1])
        read = read_predictions([str(path)], targets_file=str(tmp_path / "y.npy"), percent=True)
        assert read.sources["probs"] == f"{path} in percent"
    else:
        save(path, scores if ending == "npz" else pa.array(scores))
        read = read_predictions([str(path)], percent=True)
    wanted = np.dtype(dtype) if dtype.startswith("float") else np.dtype(np.float64)
    assert read.probs.dtype == wanted
    np.testing.assert_array_equal(read.probs, np.array([0.85, 0, 1, 0.03], wanted))


def test_json_may_mix_numbers_and_texts_in_per_cent(tmp_path):
    lines = ['{"score": "85%", "y": 1}', '{"score": 85, "y": 0}', '{"score": "85 %", "y": 1}', '{"score": 7.5, "y": 0}']
    path = text(tmp_path / "f.jsonl", "\n".join(lines))
    np.testing.assert_array_equal(read_predictions([path], percent=True).probs, [0.85, 0.85, 0.85, 0.075])
    lists = '{"probs": ["85%", 10, "5 %"], "y": 0}\n{"probs": [20, "30%", 50], "y": 2}\n'
    read = read_predictions([text(tmp_path / "g.jsonl", lists)], percent=True)
    np.testing.assert_array_equal(read.probs, [[0.85, 0.1, 0.05], [0.2, 0.3, 0.5]])


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl", "npz"])
def test_lists_in_per_cent(tmp_path, ending):
    for k, scores in enumerate(([[85, 10, 5], [20, 30, 50]], [["85%", "10%", "5 %"], ["20", "30%", "50%"]])):
        path = tmp_path / f"{k}.{ending}"
        if ending == "csv":
            cells = ["[" + ", ".join(map(str, row)) + "]" for row in scores]
            text(path, f'score,outcome\n"{cells[0]}",0\n"{cells[1]}",1\n')
        else:
            save(path, scores)
        read = read_predictions([str(path)], percent=True)
        np.testing.assert_array_equal(read.probs, [[0.85, 0.1, 0.05], [0.2, 0.3, 0.5]])


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_columns_of_classes_in_per_cent(tmp_path, ending):
    columns = {"p_0": ["85%", "20"], "p_1": ["10%", "30"], "p_2": ["5%", "50%"], "y": [0, 2], "w": [200, 100]}
    path = write(tmp_path / f"f.{ending}", columns)
    read = read_predictions([path], percent=True, weight="w")
    np.testing.assert_array_equal(read.probs, [[0.85, 0.1, 0.05], [0.2, 0.3, 0.5]])
    np.testing.assert_array_equal(read.weights, [200, 100])  # which are no probabilities
    np.testing.assert_array_equal(read.targets, [0, 2])
    assert read.sources["probs"] == "p_0 ... p_2 (3 columns) in percent"


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl", "npz"])
def test_models_in_per_cent(tmp_path, ending):
    path = save(tmp_path / f"f.{ending}", ["85%", "20%"], new=[80.0, 30.0])
    models = read_models([path], scores=["score", "new"], percent=True)
    np.testing.assert_array_equal(models.arrays["probs['score']"], [0.85, 0.2])
    np.testing.assert_array_equal(models.arrays["probs['new']"], [0.8, 0.3])
    assert models.described() == "models: score in percent, new in percent, targets: outcome"


@pytest.mark.covering
@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet", "jsonl", "npz"])
@pytest.mark.parametrize(
    "cell",
    [
        "about 80",
        "high",
        "101%",
        "-1%",
        "100.5",
        "85%%",
        "85 percent",
        "85;5%",
        "8 5%",
        "85/100",
        "nan",
        "inf%",
        "NaN%",
        "\u0668\u0665%",
        "%",
        "--5",
        "0x10",
        "o'k",
    ],
)
def test_what_is_no_per_cent_is_an_error_that_names_the_row(tmp_path, ending, cell):
    path = save(tmp_path / f"f.{ending}", ["50%", "85", cell, "0"], k=[0, 1, 1, 1])
    noun = "array" if ending == "npz" else "column"
    shown = repr(cell)
    match = f"row 3, {noun} 'score': {shown} is not a percentage from 0 to 100, such as 85 or '85%'; "
    said = refuse([path], percent=True)
    assert said.startswith(f"{path}: {match}")
    if ending == "npz":
        return
    where = shlex.split(said.split("--where ")[1])[0]
    np.testing.assert_array_equal(read_predictions([path], percent=True, where=where).probs, [0.5, 0.85, 0])
    refuse([path], "row 3, column 'score'", percent=True, where="k = 1")


@pytest.mark.covering
@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl", "npz"])
@pytest.mark.parametrize("number", [101, -1, 100.5, 850])
def test_numbers_that_are_no_per_cents(tmp_path, ending, number):
    path = save(tmp_path / f"f.{ending}", [50, 85, number, 0])
    shown = f"'{float(number)}'" if ending == "csv" and number == 100.5 else f"{number}"
    shown = f"'{number}'" if ending == "csv" else shown
    said = refuse([path], percent=True)
    assert f"row 3, {'array' if ending == 'npz' else 'column'} 'score': {shown} is not a percentage" in said
    if ending != "npz":
        where = shlex.split(said.split("--where ")[1])[0]
        assert len(read_predictions([path], percent=True, where=where).probs) == 3


def test_commas_are_no_points(tmp_path):
    for cell in ("85,5%", "1,000"):
        path = save(tmp_path / "f.jsonl", ["50%", cell])
        refuse([path], f"row 2, column 'score': '{cell}' is not a percentage", percent=True)


@pytest.mark.parametrize("ending", ["parquet", "arrow", "npz"])
def test_nan_and_truth_values_are_no_per_cents(tmp_path, ending):
    for scores, shown in (([50.0, float("nan")], "row 2, .*: nan"), ([True, False], "row 1, .*: True")):
        path = save(tmp_path / f"f.{ending}", scores)
        refuse([path], f"{shown} is not a percentage from 0 to 100", percent=True)


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_an_empty_cell_is_no_per_cent(tmp_path, ending):
    path = save(tmp_path / f"f.{ending}", ["50%", "85", None, "0"])
    refuse([path], r"row 3, column 'score' is empty \(null\); .* --where \"score IS NOT NULL\"$", percent=True)


def test_a_bad_per_cent_in_a_list(tmp_path):
    path = text(tmp_path / "f.jsonl", '{"probs": ["85%", 15], "y": 0}\n{"probs": [20, "most"], "y": 1}\n')
    refuse([path], r"row 2, column 'probs': 'most' is not a percentage .*; correct the cell$", percent=True)
    path = str(tmp_path / "g.npz")
    np.savez(path, probs=[[85.0, 15], [20, 180]], y=[0, 1])
    refuse([path], r"row 2, array 'probs': 180 is not .*; correct the value before you save the array$", percent=True)


@pytest.mark.parametrize("ending", [*TABULAR, "npz"])
def test_per_cent_signs_without_the_option(tmp_path, ending):
    path = save(tmp_path / f"f.{ending}", ["85%", "20%"])
    refuse([path], r"'score'.*; pass --percent if the numbers are percentages$")
    path = save(tmp_path / f"g.{ending}", [0.5, 0.25], w=["85%", "20%"])
    said = refuse([path], "'w'", weight="w")
    assert "--percent" not in said  # which is about probabilities


def test_lists_with_per_cent_signs_without_the_option(tmp_path):
    path = text(tmp_path / "f.jsonl", '{"probs": ["85%", 15], "y": 0}\n{"probs": [20, "80%"], "y": 1}\n')
    refuse([path], r"row 1, column 'probs': .* not a list of numbers; pass --percent if")


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl", "npz"])
def test_a_fraction_beside_per_cent_signs_is_not_guessed(tmp_path, ending):
    path = save(tmp_path / f"f.{ending}", ["85%", "70%", "0.85", "20"])
    match = (
        r"row 3, .* 'score': '0\.85' has no percent sign but other values have one, so it may be a "
        "fraction; write all cells"
    )
    refuse([path], match, percent=True)
    path = save(tmp_path / f"f.{ending}", ["85%", "1"])
    refuse([path], r"row 2, .* 'score': '1' has no percent sign", percent=True)
    for scores in (["0.85%", "70%"], ["0.85", "70"], ["70%", "0", "2"]):  # all alike, or no fractions
        read = read_predictions([save(tmp_path / f"g.{ending}", scores)], percent=True)
        assert read.probs[0] in (0.0085, 0.7)


def test_a_fraction_is_seen_far_from_the_sign(tmp_path):
    path = text(tmp_path / "f.csv", "score,y\n" + "70,1\n" * 150_000 + "0.5,1\n" + "70,1\n" * 80_000 + "70%,1\n")
    refuse([path], r"row 150001, column 'score': '0\.5' has no percent sign", percent=True)


@pytest.mark.covering
@pytest.mark.parametrize("ending", [*TABULAR, "npz"])
@pytest.mark.parametrize("number", [1.0, 1, 0.004, 1.0000000000000002])
def test_fractions_are_not_divided_by_100_again(tmp_path, ending, number):
    """Any number up to 1, but for rounding, may be a fraction; zeros are zero in both."""
    path = save(tmp_path / f"f.{ending}", [0, 0.2 if number != 1 else 0, number])
    refuse([path], r"no value of .*score.* exceeds 1, .*; leave --percent out, or write per", percent=True)
    assert read_predictions([save(tmp_path / f"g.{ending}", [0, 0.5, 1.1])], percent=True).probs[2] == 1.1 / 100
    assert not read_predictions([save(tmp_path / f"z.{ending}", [0, 0])], percent=True).probs.any()


@pytest.mark.parametrize("ending", ["parquet", "arrow", "npz"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_fractions_of_any_width_are_not_divided_by_100_again(tmp_path, ending, dtype):
    scores = np.array([0.25, np.nextafter(np.array(1, dtype), np.array(2, dtype))], dtype)
    path = save(tmp_path / f"f.{ending}", scores if ending == "npz" else pa.array(scores))
    refuse([path], "exceeds 1, so the values look like fractions", percent=True)


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl", "npz"])
def test_each_model_and_each_file_must_be_in_per_cent(tmp_path, ending):
    path = save(tmp_path / f"f.{ending}", [85.0, 20.0], new=[0.8, 0.3])
    with pytest.raises(FileError, match=r"no value of .*new.* exceeds 1"):
        read_models([path], scores=["score", "new"], percent=True)
    other = save(tmp_path / f"g.{ending}", [0.85, 0.2])
    refuse(
        [path, other],
        rf"g\.{ending}: .*no value of .*score.* exceeds 1",
        percent=True,
        **{"probs" if ending == "npz" else "score": "score"},
    )


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_a_rare_class_may_be_below_1_per_cent(tmp_path, ending):
    path = write(tmp_path / f"f.{ending}", {"p_0": [99.5, 99.9], "p_1": [0.5, 0.1], "y": [0, 1]})
    np.testing.assert_array_equal(read_predictions([path], percent=True).probs[0], [0.995, 0.005])


@pytest.mark.parametrize("ending", ["csv", "npz"])
def test_logits_are_no_per_cents(tmp_path, ending):
    path = tmp_path / f"f.{ending}"
    columns = {"logits": [1.0, 2.0], "score": [50, 60], "y": [0, 1]}
    np.savez(path, **columns) if ending == "npz" else write(path, columns)
    match = (
        "--percent is given, but the name of logits suggests logits; leave --percent out, or name "
        "the columns of probabilities"
    )
    refuse([str(path)], match, probs="logits", percent=True)
    with pytest.raises(FileError, match=match):
        read_models([str(path)], scores=["score", "logits"], percent=True)


def test_a_file_of_logits_is_not_in_per_cent(tmp_path):
    np.save(tmp_path / "logits.npy", np.ones((2, 3)))
    np.save(tmp_path / "y.npy", [0, 1])
    match = "--percent is given, but the name of the file suggests logits; leave --percent out$"
    refuse([str(tmp_path / "logits.npy")], match, targets_file=str(tmp_path / "y.npy"), percent=True)


@shared
def test_rain_forecasts_in_per_cent(tmp_path):
    path = str(SHARED / "precip_niamey_2016.csv")
    read = read_predictions([path], score="EMOS")
    cells = [f"{100 * share!r}%" for share in read.probs.tolist()]
    again = read_predictions([save(tmp_path / "f.jsonl", cells)], percent=True)
    np.testing.assert_allclose(again.probs, read.probs, rtol=2**-51)  # a product and a quotient, half an ulp each


@pytest.mark.parametrize(
    ("last", "match"),
    [
        ("0.5,x\n", "row 160001, column 'outcome': 'x' is not a number"),
        ("x,1\n", "row 160001, column 'score': 'x' is not a number"),
        ("0.5\n", "line 160002 has 1 field and the header 2"),
        (",1\n", "row 160001, column 'score' is empty"),
        ("0.5,0.5\n", None),
        ('0.5,"0"\n', None),
        ("\n", None),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_what_is_not_a_number_far_below_numbers_is_as_in_a_file_with_quotes(tmp_path, last, match, end):
    body = ("score,outcome\n" + "0.25,1\n" * 160_000 + last).replace("\n", end)
    paths = [text(tmp_path / "a.csv", body), text(tmp_path / "b.csv", body.replace("0.25,1", '"0.25",1', 1))]
    for path in paths:
        if match is not None:
            refuse([path], re.escape(match))
    if match is None:
        one, other = (read_predictions([path]) for path in paths)
        np.testing.assert_array_equal(one.probs, other.probs)
        np.testing.assert_array_equal(one.targets, other.targets)
        assert one.targets.dtype == other.targets.dtype
