"""Outcomes of files and frames: conditions in SQL, and remedies for columns that hold something else."""

from __future__ import annotations

import csv
import json
import re
import shlex
from pathlib import Path
from typing import Any

import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import calibrant
from calibrant import files
from calibrant.errors import FileError, InputError
from calibrant.files.hints import unusable_values
from calibrant.frames import sketch
from tests.cli.test_cli_usage import FAST
from tests.files.test_files import TABULAR, write
from tests.in_process import fail, json_of, run, succeed
from tests.reading_of import asked, read_predictions, refuse

RNG = np.random.default_rng(31)
N = 60
SCORES = RNG.uniform(0.05, 0.95, N).round(3).tolist()
TRUE = RNG.choice(["it's", "b c", "Ä"], N).tolist()
PREDICTED = [name if right else "b c" for name, right in zip(TRUE, RNG.random(N) < 0.6, strict=True)]
RIGHT = [a == b for a, b in zip(TRUE, PREDICTED, strict=True)]
NUMBERS = RNG.integers(0, 4, N).tolist()
COLUMNS: dict[str, Any] = {"conf": SCORES, "true_label": TRUE, "pred_label": PREDICTED, "k": NUMBERS, "other": SCORES}
IS_RIGHT = "pred_label = true_label"
CONDITIONS = {
    IS_RIGHT: RIGHT,
    "true_label = 'it''s'": [name == "it's" for name in TRUE],
    "k >= 2 AND pred_label <> true_label": [k >= 2 and not r for k, r in zip(NUMBERS, RIGHT, strict=True)],
    "CASE WHEN k = 3 THEN 1 ELSE 0 END": [k == 3 for k in NUMBERS],
    "k IN (1, 2) -- a comment": [k in (1, 2) for k in NUMBERS],
}


# ---------------------------------------------------------------- conditions in SQL


@pytest.mark.covering
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("ending", [*TABULAR, "json"])
def test_an_outcome_may_be_a_condition(tmp_path, ending, condition):
    path = tmp_path / f"f.{ending}"
    if ending == "json":
        rows = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]
        path.write_text(json.dumps(rows))
    else:
        write(path, COLUMNS)
    read = read_predictions([str(path)], score="conf", outcome=condition)
    np.testing.assert_array_equal(read.targets.astype(float), np.array(CONDITIONS[condition], float))
    np.testing.assert_array_equal(read.probs, SCORES)
    some = read_predictions([str(path)], score="conf", outcome=condition, where="k > 0", by=["k"])
    np.testing.assert_array_equal(some.targets, np.array(CONDITIONS[condition])[np.array(NUMBERS) > 0])


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_a_missing_value_makes_the_outcome_missing(tmp_path, ending):
    """The row is named, and the remedy reads the others."""
    columns = {"conf": [0.5, 0.25, 0.75], "true_label": ["a", None, "b"], "pred_label": ["a", "b", "a"]}
    path = write(tmp_path / f"f.{ending}", columns)
    said = refuse([path], r"row 2, column 'pred_label = true_label' is empty \(null\)", score="conf", outcome=IS_RIGHT)
    where = said.split('--where "')[1].removesuffix('"')
    assert read_predictions([path], score="conf", outcome=IS_RIGHT, where=where).targets.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        ("pred_labl = true_label", "there is no column 'pred_labl'; did you mean 'pred_label'?"),
        ("pred_label, true_label", "does not give one value for each row; write one condition"),
        ("max(k)", "--outcome 'max(k)': "),
        ("k = 1); DROP TABLE x; --", "--outcome 'k = 1); DROP TABLE x; --'"),
        ("[k]", "--outcome '[k]' does not give one value for each row"),
        ("pred", "has no column 'pred' (--outcome)"),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_what_is_no_outcome_names_the_option(tmp_path, ending, outcome, said):
    path = write(tmp_path / f"f.{ending}", COLUMNS)
    with pytest.raises(FileError) as caught:
        read_predictions([path], score="conf", outcome=outcome)
    assert said in str(caught.value)


def test_conditions_in_models_sketches_and_arrays(tmp_path):
    path = write(tmp_path / "f.parquet", COLUMNS)
    models = files.read_models([path], asked({"models": ["conf", "other"], "outcome": IS_RIGHT}))
    np.testing.assert_array_equal(models.targets, RIGHT)
    read = files.read_predictions([path], asked({"score": "conf", "outcome": IS_RIGHT}), keep=False)
    assert isinstance(read, files.FileSketch)
    np.testing.assert_allclose(calibrant.brier_score(read.sketch), calibrant.brier_score(SCORES, RIGHT), rtol=1e-12)
    np.savez(tmp_path / "f.npz", conf=SCORES, k=NUMBERS)
    refuse([str(tmp_path / "f.npz")], "has no array 'k = 1'", probs="conf", outcome="k = 1")


FRAMES = {
    "pandas": pd.DataFrame,
    "pandas with an index": lambda columns: pd.DataFrame(columns, index=[7] * N),
    "polars": pl.DataFrame,
    "polars lazy": pl.LazyFrame,
    "pyarrow": pa.table,
    "duckdb": lambda columns: duckdb.connect().from_arrow(pa.table(columns)),
}


@pytest.mark.parametrize("engine", FRAMES)
def test_an_outcome_of_a_frame_may_be_an_expression(engine):
    frame = FRAMES[engine]({**COLUMNS, "outcome": NUMBERS})  # whose own column of this name stays
    condition = nw.col("pred_label") == nw.col("true_label")
    for outcome in (condition, condition.cast(nw.Int64), *([IS_RIGHT] if engine == "duckdb" else [])):
        made = sketch(frame, score="conf", outcome=outcome, by="k")
        assert sum(part.n for part in made.values()) == N
        total = sum(part.n * calibrant.brier_score(part) for part in made.values()) / N
        np.testing.assert_allclose(total, calibrant.brier_score(SCORES, RIGHT), rtol=1e-12)
    with pytest.raises(InputError, match=r"outcome: expected .* one value for all rows"):
        sketch(frame, score="conf", outcome=nw.col("k").max() > 1)
    with pytest.raises(
        InputError,
        match=("outcome: expected an expression with columns of the frame, got an expression that fails"),
    ):
        sketch(frame, score="conf", outcome=nw.col("none") > 1)


@pytest.mark.parametrize("engine", FRAMES)
def test_a_score_of_a_frame_may_be_an_expression(engine):
    frame = FRAMES[engine]({**COLUMNS, "score": NUMBERS})
    right, expression = nw.col("pred_label") == nw.col("true_label"), 1 - nw.col("conf")
    for score in (expression, *(["1 - conf"] if engine == "duckdb" else [])):
        made = sketch(frame, score=score, outcome=right)
        expected = calibrant.brier_score(1 - np.array(SCORES), RIGHT)
        np.testing.assert_allclose(calibrant.brier_score(made), expected, rtol=1e-12)
    for score, said in (
        (nw.col("conf").mean(), r"a value for each row, got one value for all rows; compute a score for each row"),
        (
            nw.col("none") + 1,
            "an expression with columns of the frame, got an expression that fails",
        ),
        (1 + nw.col("conf"), r"values in \[0, 1\]"),
        (nw.col("pred_label"), "a column of numbers"),
    ):
        with pytest.raises(InputError, match=f"score: expected .*{said}"):
            sketch(frame, score=score, outcome=right)
    missing = FRAMES[engine]({"conf": [0.5] * (N - 1) + [None], "y": [0] * N})
    with pytest.raises(InputError, match=r"score: expected .*, got missing values .* in 1 row"):
        sketch(missing, score=1 - nw.col("conf"), outcome="y")


@pytest.mark.parametrize("engine", [name for name in FRAMES if "index" not in name])
def test_a_missing_value_of_a_frame_makes_the_outcome_missing(engine):
    """In pandas a comparison with None is false."""
    frame = FRAMES[engine]({"conf": [0.5, 0.25], "a": ["x", None], "b": ["x", "y"]})
    with pytest.raises(
        InputError,
        match=(r"outcome: expected a \w+ in every row, got missing values .* in 1 row"),
    ):
        sketch(frame, score="conf", outcome=nw.col("a") == nw.col("b"))


# ---------------------------------------------------------------- remedies

#: Outcomes as files spell them; then the event, and the values whose rows the remedy leaves out.
SPELLED: dict[str, tuple[list[str | None], set[str | None], set[str | None]]] = {
    "a market": (["NO", "MKT", "YES", "NO", "CANCEL", "0.35"], {"YES"}, {"MKT", "CANCEL", "0.35"}),
    "three results": (["win", "tie", "loss", "win", "loss"], {"win"}, {"tie"}),
    "not sure": (["yes", "ambiguous", "no", "no", "yes"], {"yes"}, {"ambiguous"}),
    "two labels": (["healthy", "sick", "sick", "healthy"], {"sick"}, set()),
    "two labels and gaps": (["no", "yes", "NA", None, "no", "yes"], {"yes"}, {"NA", None}),
    "two spellings": (["Yes", "yes", "No", "no", "YES"], {"Yes", "yes", "YES"}, set()),
    "spellings and gaps": (["Won", "won", "lost", "?", "void"], {"Won", "won"}, {"?", "void"}),
    "letters": (["W", "L", "T", "W", "L"], {"W"}, {"T"}),
    "quotes": (["it's", 'a "b"', "c", "it's"], {"it's"}, set()),
    "commas": (["yes, sure", "no, never", "yes, sure"], {"yes, sure"}, set()),
    "results and gaps": (["win", "tie", "loss", None, "n/a"], {"win"}, {"tie", None, "n/a"}),
    "gaps alone": (["1", "0", "NA", "?", "0", "1"], {"1"}, {"NA", "?"}),
    "draws": (["1", "0", "0.5", "1", "0"], {"1"}, {"0.5"}),
    "signs": (["1", "-1", "0", "-1", "1"], {"1"}, set()),
    "from 1": (["1", "2", "2", "1"], {"2"}, set()),
}


@pytest.mark.covering
@pytest.mark.parametrize("name", SPELLED)
@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl", "arrow"])
def test_one_command_judges_a_column_of_other_outcomes(tmp_path, name, ending):
    """One message counts all values, and its command works: it drops no outcome, but ties and unknown ones."""
    values, event, left_out = SPELLED[name]
    where = ("--where", "k < 9") if ending in ("arrow", "jsonl") else ()
    numbers = name in ("draws", "signs", "from 1") and ending != "csv"  # columns of numbers
    scores = [0.1 + 0.1 * k for k in range(len(values))]
    outcomes = [float(value or "nan") for value in values] if numbers else values
    columns = {"s": scores, "y": outcomes, "k": [2 + k for k in range(len(values))]}
    path = str(tmp_path / f"f.{ending}")
    if ending == "csv":
        with open(path, "w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows([columns, *zip(*columns.values(), strict=True)])
    else:
        write(Path(path), columns)
    status, _, err = run("report", path, "--score", "s", "--outcome", "y", *where)
    assert (status, err.count("\n")) == (1, 1)
    for value in set(values) - {"0", "1"} - ({"2"} if "1-based" in err else set()):
        count = values.count(value)
        assert re.search(rf"({re.escape(value)}['\"]?|\(null\)) in {count}\b" if value else "null", err), (value, err)
    if ": calibrant " not in err:
        line = shlex.join(["report", path, "--score", "s", "--outcome", "y"]) + " --where " + err.split("--where ")[1]
    else:
        line = err.rpartition(": calibrant ")[2]
    report = json_of(*shlex.split(line), *FAST)
    kept = [value for value in values if value not in left_out]
    assert report["n"] == len(kept)
    np.testing.assert_allclose(report["outcome_rate"], np.mean([value in event for value in kept]))


def test_a_predicted_label_beside_the_true_one_is_compared(tmp_path):
    path = write(tmp_path / "f.csv", COLUMNS)
    line = run("report", path, "--score", "conf", "--outcome", "true_label")[2].rpartition(": calibrant ")[2]
    assert shlex.split(line)[-2:] == ["--outcome", IS_RIGHT]
    report = json.loads(run(*shlex.split(line), *FAST, "--json", "-")[1])
    np.testing.assert_allclose(report["outcome_rate"], np.mean(RIGHT))


def test_labels_that_leave_values_out_are_completed(tmp_path):
    """--labels names two of the values: the others are counted, and the command that leaves them out works."""
    path = write(tmp_path / "f.csv", {"s": SCORES[:6], "y": SPELLED["a market"][0]})
    err = fail("report", path, "--score", "s", "--outcome", "y", "--labels", "NO,YES")
    assert "expected one of NO, YES, got '0.35' in 1 row, 'CANCEL' in 1, 'MKT' in 1; if 'YES' is" in err
    assert run(*shlex.split(err.rpartition(": calibrant ")[2]), *FAST)[0] == 0


@pytest.mark.parametrize("command", ["report", "compare"])
def test_a_target_option_is_replaced_by_the_condition(tmp_path, command):
    path = write(tmp_path / "f.csv", {"s": SCORES[:6], "t": SCORES[:6], "y": ["win", "tie", "loss"] * 2})
    scores = ("--score", "s") if command == "report" else ("--scores", "s,t")
    _, _, err = run(command, path, *scores, "--target", "y")
    succeed(*shlex.split(err.rpartition(": calibrant ")[2]), *(FAST if command == "report" else ()))


# ---------------------------------------------------------------- decimals with a comma, and the option that fails


def commas(path: Path, columns: dict[str, list[object]]) -> str:
    """Write columns with decimal commas, as spreadsheets do in many countries."""
    if path.suffix == ".jsonl":
        rows = [dict(zip(columns, map(_comma, row), strict=True)) for row in zip(*columns.values(), strict=True)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        between = "\t" if path.suffix == ".tsv" else ";"
        rows_of_cells = [columns, *([str(_comma(cell)) for cell in row] for row in zip(*columns.values(), strict=True))]
        path.write_text("".join(between.join(row) + "\n" for row in rows_of_cells))
    return str(path)


def _comma(cell: object) -> object:
    return str(cell).replace(".", ",") if isinstance(cell, float) else cell


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl"])
def test_decimal_commas_are_asked_for_and_read(tmp_path, ending):
    columns = {"p": [0.25, 0.5, 1e-3, 1.0], "y": [0, 1, 0, 1], "w": [1.5, 2.25, 1.0, 3.0]}
    path = commas(tmp_path / f"f.{ending}", columns)
    _, _, err = run("report", path, "--score", "p", "--outcome", "y", "--weight", "w")
    assert "row 1, column 'p': '0,25' is not a number; if the scores are numbers with a decimal comma, type: " in err
    line = err.rpartition(": calibrant ")[2]
    assert shlex.split(line)[-1] == "--decimal-comma"
    assert run(*shlex.split(line), *FAST)[0] == 0
    read = read_predictions([path], score="p", outcome="y", weight="w", decimal_comma=True)
    np.testing.assert_array_equal(read.probs, columns["p"])
    np.testing.assert_array_equal(read.weights, columns["w"])
    if ending != "jsonl":
        some = read_predictions([path], score="p", outcome="y", where="p > 0.3 AND w < 3", decimal_comma=True)
        np.testing.assert_array_equal(some.probs, [0.5])
    mixed = commas(tmp_path / f"g.{ending}", {"p": ["0,25", "0.5"], "y": [0, 1]})
    refuse(
        [mixed],
        r"row 2, column 'p': '0\.5' is not a number with a decimal comma; leave --dec",
        score="p",
        outcome="y",
        decimal_comma=True,
    )


@pytest.mark.parametrize("separator", [",", ";"])
def test_a_file_with_decimal_points_alone_needs_no_decimal_comma(tmp_path, separator):
    path = tmp_path / "f.csv"
    path.write_text("\n".join(separator.join(cells) for cells in [("p", "y"), *[("0.25", "0"), ("0.75", "1")] * 20]))
    command = ["report", str(path), "--score", "p", "--outcome", "y", *FAST]
    err = fail(*command, "--decimal-comma")
    assert "'0.25' is not a number with a decimal comma; leave --decimal-comma out, or write all numbers with" in err
    assert run(*command)[0] == 0


def test_per_cents_with_decimal_commas(tmp_path):
    path = commas(tmp_path / "f.csv", {"p": ["85,5%", "12,25 %"], "y": [0, 1]})
    read = read_predictions([path], score="p", outcome="y", percent=True, decimal_comma=True)
    np.testing.assert_array_equal(read.probs, [0.855, 0.1225])


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"where": "k > 0", "by": ["CAST(true_label AS INTEGER)"]}, "--by"),
        ({"where": "k > 0", "clusters": ["strptime(true_label, '%Y')"]}, "--cluster"),
        ({"where": "CAST(true_label AS INTEGER) > 0", "by": ["k + 1"]}, "--where"),
        ({"where": "k > 0", "outcome": "CAST(true_label AS INTEGER) = 1"}, "--outcome"),
    ],
)
def test_the_option_that_fails_is_named(tmp_path, ending, options, option):
    path = write(tmp_path / f"f.{ending}", COLUMNS)
    refuse([path], rf": {option} .*true_label", **{"score": "conf", "outcome": IS_RIGHT, **options})


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_all_names_that_are_no_columns_are_told_at_once(tmp_path, ending):
    path = write(tmp_path / f"f.{ending}", COLUMNS)
    _, _, err = run("report", path, "--score", "cnf", "--outcome", "true_labl", "--weight", "w", "--by", "kk")
    for said in ("'cnf' (--score) did you mean 'conf'?", "'true_labl' (--outcome)", "'w' (--weight)", "'kk' (--by)"):
        assert said in err


# ---------------------------------------------------------------- all values that cannot be used

FIVE = """p,y,w,z
0.5,1,1,a
bad,0,,a
x,maybe,2,b
"0,35",0,3,b
1.5,1,-1,a
0.2,1,1,b
"""
IN_P = "column 'p': text in 2 rows ('bad', 'x'), a decimal comma in 1 row ('0,35'), outside [0, 1] in 1 row"
IN_Y = "column 'y': text in 1 row ('maybe')"
IN_W = "column 'w': empty in 1 row, negative in 1 row"


def test_one_attempt_says_all_that_is_wrong_with_a_file(tmp_path):
    path = tmp_path / "five.csv"
    path.write_text(FIVE)
    command = ["report", str(path), "--score", "p", "--outcome", "y", "--weight", "w", *FAST]
    columns, unusable = "p, y, w, z", f"values that cannot be used: {IN_P}; {IN_Y}; {IN_W}"
    message = fail(*command, "--by", "zone")
    assert f"five.csv: has no column 'zone' (--by); the columns are {columns}; {unusable}" in message
    corrected = FIVE
    for wrong, right in {"bad,0,": "0.3,0,1", "x,maybe": "0.4,0", '"0,35"': "0.35", "1.5,1,-1": "0.95,1,1"}.items():
        assert wrong in corrected
        corrected = corrected.replace(wrong, right)
    path.write_text(corrected)
    assert run(*command, "--by", "z")[0] == 0


#: A value that cannot be used, of each kind: the column, the kind, and the other rows' values.
KINDS = {
    ("p", ""): "empty",
    ("p", "nan"): "NaN",
    ("p", "inf"): "infinite",
    ("p", "x"): "text",
    ("p", "1.01"): "outside [0, 1]",
    ("p", "-1e-9"): "outside [0, 1]",
    ("w", "-2"): "negative",
    ("w", "inf"): "infinite",
    ("w", "many"): "text",
    ("w", ""): "empty",
    ("y", "2"): "neither 0 nor 1",
    ("y", "x"): "text",
}


@pytest.mark.covering
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "npz"])
@pytest.mark.parametrize(("column", "text"), KINDS)
def test_the_kinds_of_unusable_values_are_counted(tmp_path, ending, column, text):
    """Two rows of a kind, beside one of another column; a file of numbers holds no words."""
    cells = {"p": ["0.5", "0.25"] * 4, "y": ["1", "0"] * 4, "w": ["1", "2"] * 4}
    other, wrong, kind = ("w", "-1", "negative") if column != "w" else ("p", "7", "outside [0, 1]")
    cells[column][2] = cells[column][5] = text
    cells[other][6] = wrong
    path = tmp_path / f"f.{ending}"
    if ending == "csv":
        path.write_text("\n".join(map(",".join, [cells, *zip(*cells.values(), strict=True)])) + "\n")
    else:
        is_text = KINDS[column, text] == "text"
        if ending == "npz" and text == "":  # arrays of numbers have no empty cells
            return
        values = {
            name: [None if cell == "" else cell if is_text and name == column else float(cell) for cell in column_cells]
            for name, column_cells in cells.items()
        }
        if ending == "jsonl":
            if text in ("nan", "inf"):  # JSON has no such numbers
                return
            rows = [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
            path.write_text("\n".join(map(json.dumps, rows)) + "\n")
        elif ending == "npz":
            np.savez(path, **{name: np.array(cells) for name, cells in values.items()})
        else:
            write(path, values)
    message = run("report", str(path), "--score", "p", "--outcome", "y", "--weight", "w", *FAST)[2]
    said = f"column '{column}': {KINDS[column, text]} in 2 rows"
    has_wrong_type = ending in ("parquet", "npz") and KINDS[column, text] == "text" and column != "y"
    if not has_wrong_type:
        assert said in message
        assert f"column '{other}': {kind} in 1 row" in message
        assert message.count("\n") == 1


def test_counts_are_of_the_rows_of_the_report(tmp_path):
    """Under a condition on times with a zone, as the report reads them; rounding alone is no fault."""
    path = tmp_path / "f.parquet"
    times = pd.to_datetime(["2024-01-01 23:30", "2024-01-02 12:00", "2024-01-02 23:30"] * 4, utc=True)
    frame = pd.DataFrame({"p": [2.0, 0.5, 3.0] * 4, "y": [1, 0, 5] * 4, "t": times})
    frame.loc[4, "p"] = 1 + 2**-52
    frame.to_parquet(path)
    command = ["report", str(path), "--score", "p", "--outcome", "y", "--timezone", "Asia/Tokyo", *FAST]
    message = run(*command, "--where", "date_part('day', t) = 2")[2]
    assert "column 'p': outside [0, 1] in 4 rows; first:" in message
    message = run(*command, "--where", "date_part('day', t) = 3")[2]
    assert "column 'y': neither 0 nor 1 in 4 rows" in message


@pytest.mark.parametrize("ending", ["csv", "parquet", "npz", "npy"])
def test_rows_with_an_ignored_label_are_not_counted(tmp_path, ending):
    p, y, w = np.array([0.5, 1.5, 2.0, 3.0, 0.2]), np.array([1, 0, 9, 5, 9]), np.array([1.0, -1.0, -2.0, 1.0, -1.0])
    path = tmp_path / f"f.{ending}"
    columns = ["--score", "p", "--outcome", "y", "--weight", "w"]
    if ending == "npy":
        np.save(path, p)
        np.save(tmp_path / "y.npy", y)
        columns = ["--targets", str(tmp_path / "y.npy")]
    elif ending == "npz":
        np.savez(path, p=p, y=y, w=w)
    else:
        frame = pd.DataFrame({"p": p, "y": y, "w": w})
        frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    in_p, in_y = ("column 'probs'", "column 'targets'") if ending == "npy" else ("column 'p'", "column 'y'")
    in_w = "" if ending == "npy" else "; column 'w': negative in {} row{}"
    for ignored, counts in (((), (3, "s", 3, "s", 3, "s")), (("--ignore-index", "9"), (2, "s", 1, "", 1, ""))):
        message = run("report", str(path), *columns, *ignored, *FAST)[2]
        said = f"{in_p}: outside [0, 1] in {{}} row{{}}; {in_y}: neither 0 nor 1 in {{}} row{{}}{in_w}; first: "
        assert said.format(*counts) in message


def test_arrays_in_several_files_are_counted_together(tmp_path):
    for name, values in {"a": [0.5, 2.0], "b": [np.nan, 0.5, 3.0]}.items():
        np.save(tmp_path / f"{name}.npy", np.array(values))
    np.save(tmp_path / "y.npy", np.array([9, 0, 1, 9, 3]))
    paths = [str(tmp_path / f"{name}.npy") for name in "ab"]
    message = run("report", *paths, "--targets", str(tmp_path / "y.npy"), "--ignore-index", "9", *FAST)[2]
    in_p = "column 'probs': outside [0, 1] in 2 rows, NaN in 1 row"
    assert f"in 2 files: {in_p}; column 'targets': neither 0 nor 1 in 1 row; first: " in message
    np.save(tmp_path / "a.npy", np.full((2, 3), 2.0))  # of classes the rows count, which no column is
    message = run("report", paths[0], "--targets", str(tmp_path / "y.npy"), *FAST)[2]
    assert "values that cannot be used" not in message


def test_values_of_a_damaged_archive_are_not_counted(tmp_path):
    """Nor any raw error raised: the file may change after the error that asks for the counts."""
    path = tmp_path / "f.npz"
    np.savez(path, p=np.full(300_000, 2.0), y=np.ones(300_000, np.int8))
    content = bytearray(path.read_bytes())
    content[2_000_000] ^= 1
    path.write_bytes(content)
    with pytest.raises(FileError, match="Bad CRC"):
        unusable_values([str(path)], asked({"score": "p", "outcome": "y"}), logits=False)


def test_logits_and_per_cents_have_limits_of_their_own(tmp_path):
    """And a column whose values cannot be used at all is named by its error alone."""
    path = tmp_path / "f.csv"
    path.write_text("logit,share,wrong,y,w\n-3,85%,u,1,1\n2,5,v,0,-1\n0.5,101,u,1,-2\n")
    command = ["report", str(path), "--outcome", "y", "--weight", "w", *FAST]
    in_w = "values that cannot be used: column 'w': negative in 2 rows; first: "
    for options in (["--score", "logit"], ["--score", "wrong"]):
        assert in_w in run(*command, *options)[2]
    message = run(*command, "--score", "share", "--percent")[2]
    assert "column 'share': outside [0, 100] in 1 row; column 'w': negative in 2 rows; first: row 3" in message


def test_infinity_by_rounding_is_named_by_its_row(tmp_path):
    """A number of 400 digits is beyond any double: JSON and CSV read it as infinity."""
    digits = "1" + "0" * 400
    for ending, text in {
        "jsonl": f'{{"p": 0.5, "y": 1, "w": 1}}\n{{"p": {digits}, "y": 0, "w": 1}}\n',
        "csv": f"p,y,w\n0.5,1,1\n{digits},0,1\n",
    }.items():
        path = tmp_path / f"f.{ending}"
        path.write_text(text)
        message = run("report", str(path), "--score", "p", "--outcome", "y", *FAST)[2]
        assert "row 2, column 'p': expected finite numbers, got inf" in message
    (tmp_path / "l.jsonl").write_text(f'{{"p": [0.5, 0.5], "y": 1}}\n{{"p": [{digits}, 0.5], "y": 0}}\n')
    message = run("report", str(tmp_path / "l.jsonl"), "--probs", "p", "--target", "y", *FAST)[2]
    assert "row 2, column 'p[0]': expected finite numbers, got inf" in message


def test_a_value_spelled_like_a_column_hides_no_count_of_it(tmp_path):
    path = tmp_path / "f.csv"
    path.write_text("p,y,w\nw,1,-1\n0.2,0,-2\n")
    message = run("report", str(path), "--score", "p", "--outcome", "y", "--weight", "w", *FAST)[2]
    assert "column 'p': text in 1 row ('w'); column 'w': negative in 2 rows; first: row 1" in message


def test_an_error_that_lists_no_values_keeps_their_counts(tmp_path):
    path = tmp_path / "f.csv"
    path.write_text("p,y\n0.3,1\n0.2,2\n0.9,2\n0.4,1\n")
    message = run("report", str(path), "--score", "p", "--outcome", "y", *FAST)[2]
    assert "values that cannot be used: column 'y': neither 0 nor 1 in 2 rows; first: " in message
    assert "the labels look 1-based" in message


def test_the_values_of_several_files_are_counted_together(tmp_path):
    texts = {"a": "p,y\n0.3,1\n0.2,0\n", "b": "p,y\nx,1\n0.3,0\n", "c": "p,y\n7,1\nz,0\n"}
    for name, text in texts.items():
        (tmp_path / f"{name}.csv").write_text(text)
    command = ["report", *(str(tmp_path / f"{name}.csv") for name in texts), "--score", "p", "--outcome", "y", *FAST]
    message = run(*command)[2]
    counts = "column 'p': text in 2 rows ('x', 'z'), outside [0, 1] in 1 row"
    assert f"b.csv: values that cannot be used in 3 files: {counts}; first: row 1" in message
    (tmp_path / "c.csv").write_text("q,y\n7,1\n")
    message = run(*command)[2]
    assert "values that cannot be used" not in message


@pytest.mark.parametrize("command", ["report", "recalibrate", "threshold"])
@pytest.mark.parametrize("rows", ["few", "sketch"])
@pytest.mark.parametrize("typed", ["fraud = 'Yes'", "\"fraud\" = 'yes '", "fraud == 'YES'"])
def test_an_event_that_is_spelled_in_another_way_is_refused(tmp_path, command, rows, typed):
    path = tmp_path / "f.csv"
    path.write_text("score,fraud\n" + "".join(f"0.{k % 9 + 1},{'yes' if k % 3 else 'no'}\n" for k in range(60)))
    given = ("--sketch", str(tmp_path / "s.cal")) if rows == "sketch" and command == "report" else ()
    err = fail(command, str(path), "--score", "score", "--outcome", typed, *given)
    said = " ".join(err.split())
    assert ": no row has " in said
    assert said.endswith("did you mean 'yes'?")


def test_a_label_that_no_row_has_may_be_an_event(tmp_path):
    """Some days have no event."""
    path = tmp_path / "f.csv"
    path.write_text("score,fraud\n" + "0.2,no\n0.4,no\n" * 20)
    assert run("report", str(path), "--score", "score", "--outcome", "fraud = 'yes'")[0] == 0
