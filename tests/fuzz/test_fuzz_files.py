"""Attacks on the readers of files: a damaged file is refused with an error of the library, or read as others read it.

`python tests/fuzz/attack.py --seconds 600` runs them for longer.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attack import attack
from golden_files import golden

from calibrant.errors import FileError
from calibrant.files import Options, engine, read_predictions

pa = pytest.importorskip("pyarrow", reason="the report extra is not installed")
pytest.importorskip("duckdb", reason="the report extra is not installed")
from pyarrow import ipc  # noqa: E402

open_engine = engine.open_engine  # before the tests share one
EVENT = {"score": "score", "outcome": "outcome"}


@pytest.mark.parametrize("name", golden())
def test_short_attack(name: str) -> None:
    outcome = attack(name, seed=16, count=60)
    assert outcome.tried == 60
    assert not [fault for fault, _ in outcome.faults]


@pytest.mark.slow
@pytest.mark.parametrize("name", golden())
def test_long_attack(name: str) -> None:
    outcome = attack(name, seed=17, seconds=15)
    assert outcome.tried > 100
    assert not [fault for fault, _ in outcome.faults]


def test_the_attack_finds_a_reader_that_dies_or_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, a broken harness would find nothing for ever."""
    monkeypatch.setenv("CALIBRANT_FUZZ_SELF_TEST", "1")
    faults = [fault for fault, _ in attack("flat.csv", seed=1, count=2).faults]
    assert "ends the process" in faults[0]
    assert "raises ZeroDivisionError" in faults[1]


# ---------------------------------------------------------------- SQL of the user's own


@pytest.fixture
def own_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open the engine as users do, once for each call."""
    monkeypatch.setattr(engine, "open_engine", open_engine)


CONDITIONS = {
    "two statements": ("score > 0; COPY (SELECT 1) TO '{folder}/out.csv'", "more|syntax error"),
    "out of its brackets": ("true); COPY (SELECT 1) TO '{folder}/out.csv'; SELECT (true", "syntax error"),
    "settings in the middle": ("true); SET threads=1; SELECT (true", "syntax error"),
    "a union": ("true) UNION ALL SELECT * FROM (SELECT 1, 1 WHERE true", "syntax error"),
    "two expressions": ("score > 0, outcome = 1", "is not one expression; join conditions with AND"),
    "another table": ("score > 0 FROM other", "FROM|from"),
    "another file": ("(SELECT count(*) FROM read_text('{folder}/secret.txt')) > 0", "disabled by configuration"),
    "another file by its name": ("(SELECT count(*) FROM '{folder}/other.csv') > 0", "disabled by configuration"),
    "names of files": ("(SELECT count(*) FROM glob('{folder}/*')) > 0", "disabled by configuration"),
    "the network": ("(SELECT count(*) FROM read_csv('https://example.com/x.csv')) > 0", "disabled by configuration"),
    "a variable": ("(SELECT count(*) FROM numbers) > 0", "numbers"),
}


@pytest.mark.usefixtures("own_engine")
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "arrow"])
@pytest.mark.parametrize("what", CONDITIONS)
@pytest.mark.parametrize("option", ["where", "clusters"])
def test_sql_is_one_expression_over_the_file(tmp_path: Path, ending: str, what: str, option: str) -> None:
    numbers = pa.table({"x": [1]})  # a name that the engine could find
    assert numbers.num_rows == 1
    tmp_path.joinpath("secret.txt").write_text("hunter2")
    tmp_path.joinpath("other.csv").write_text("x\n1\n")
    names = {"csv": "flat.csv", "jsonl": "rows.jsonl", "parquet": "plain.parquet", "arrow": "file.arrow"}
    path = tmp_path / names[ending]
    path.write_bytes(golden()[names[ending]])
    sql, words = CONDITIONS[what]
    sql = sql.format(folder=tmp_path)
    words = words.split(";")[0] if option == "clusters" else words
    with pytest.raises(FileError, match=words) as error:
        read_predictions([str(path)], Options(**EVENT, **{option: sql if option == "where" else (sql,)}))
    assert "hunter2" not in str(error.value)
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(["secret.txt", "other.csv", path.name])


@pytest.mark.usefixtures("own_engine")
@pytest.mark.parametrize("name", ["a.csv", "b[1].csv", "c*?.csv", "d'e.csv", "[f].csv"])
def test_names_of_files_mean_themselves(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(golden()["flat.csv"])
    rows = read_predictions([str(path)], Options(**EVENT, where="score > 0.5"))
    assert 0 < len(rows.probs) < 60


# ---------------------------------------------------------------- small files that promise much

LARGE = 50_000_000


def _zeros(name: str) -> bytes:
    stream = io.BytesIO()
    rows = np.zeros(LARGE)
    if name.endswith(".npz"):
        np.savez_compressed(stream, score=rows, outcome=rows.astype(np.int8))
        return stream.getvalue()
    table = pa.table({"score": rows, "outcome": pa.array(rows.astype(np.int8)), "other": rows})
    new = ipc.new_stream if name.startswith("stream") else ipc.new_file
    with new(stream, table.schema, options=ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return stream.getvalue()
