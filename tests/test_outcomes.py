"""Outcomes of files and frames: conditions in SQL, and remedies for columns that hold something else."""

from __future__ import annotations

import json
from typing import Any

import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from reading_of import asked, read_predictions
from test_files import TABULAR, write

import calibrant
from calibrant import files
from calibrant.errors import FileError, InputError
from calibrant.frames import sketch

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
    with pytest.raises(FileError, match=r"row 2, column 'pred_label = true_label' is empty \(null\)") as caught:
        read_predictions([path], score="conf", outcome=IS_RIGHT)
    where = str(caught.value).split('--where "')[1].removesuffix('"')
    assert read_predictions([path], score="conf", outcome=IS_RIGHT, where=where).targets.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        ("pred_labl = true_label", "there is no column 'pred_labl'; did you mean 'pred_label'?"),
        ("pred_label, true_label", "is not one value of each row; write one condition"),
        ("max(k)", "--outcome 'max(k)': "),
        ("k = 1); DROP TABLE x; --", "--outcome 'k = 1); DROP TABLE x; --'"),
        ("[k]", "--outcome '[k]' is not one value of each row"),
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
    with pytest.raises(FileError, match="has no array 'k = 1'"):
        read_predictions([str(tmp_path / "f.npz")], probs="conf", outcome="k = 1")


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
    with pytest.raises(InputError, match="outcome: expected an expression over the columns, got one that fails"):
        sketch(frame, score="conf", outcome=nw.col("none") > 1)


@pytest.mark.parametrize("engine", [name for name in FRAMES if "index" not in name])
def test_a_missing_value_of_a_frame_makes_the_outcome_missing(engine):
    """In pandas a comparison with None is false."""
    frame = FRAMES[engine]({"conf": [0.5, 0.25], "a": ["x", None], "b": ["x", "y"]})
    with pytest.raises(InputError, match=r"outcome: expected a \w+ in every row, got missing values .* in 1 row"):
        sketch(frame, score="conf", outcome=nw.col("a") == nw.col("b"))
