"""What the command shows of names, cells, paths and messages: nothing of them acts on the terminal, in any encoding."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant import CalibrationSketch
from calibrant.cli import console
from calibrant.render.words import shown
from tests import in_process

pa = pytest.importorskip("pyarrow", reason="the report extra is not installed")
pytest.importorskip("duckdb", reason="the report extra is not installed")
import pyarrow.feather  # noqa: E402
import pyarrow.parquet  # noqa: E402

NONE = ("--n-resamples", "0")

#: Sequences that set the clipboard and the title, colours, a carriage return, 8-bit controls, changes of direction.
ACTING = (
    "a\x1b]52;c;aGk=\x07b",
    "a\x1b]0;title\x1b\\b",
    "a\x1b[31mb",
    "a\x1b[1mb\x1b[0m",
    "a\rb",
    "a\x9b31mb",
    "a\x9d0;t\x9cb",
    "a\u202eb\u2066c",
    "a\u200fb",
    "a\x08\x7fb",
    "a\nb",
)
acting = pytest.mark.parametrize("name", ACTING, ids=ascii)

#: What no output may hold: controls but for the ends of lines, and what Unicode lists as Bidi_Control.
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def run(*args: object) -> tuple[int, str, str]:
    """Run the command in this process, and return status, output and messages: no control character may be in them."""
    status, out, err = in_process.run(*args)
    for text in (out, err):
        assert CONTROL.search(text) is None, repr(text)
    return status, out, err


def rows(n: int = 40) -> tuple[list[float], list[int]]:
    rng = np.random.default_rng(0)
    score = rng.random(n).round(3)
    return score.tolist(), (rng.random(n) < score).astype(int).tolist()


def table(path: Path, columns: dict[str, list[Any]]) -> Path:
    pyarrow.parquet.write_table(pa.table(columns), path)
    return path


@acting
def test_names_of_columns_groups_and_classes_in_a_report(tmp_path: Path, name: str) -> None:
    score, outcome = rows()
    path = table(tmp_path / "f.parquet", {name: score, "o": outcome, f"{name}g": [name, "plain"] * 20})
    status, out, err = run("report", path, "--score", name, "--outcome", "o", "--by", f"{name}g", *NONE)
    assert (status, err) == (0, "")
    assert "Groups" in out
    classes = {f"p_{name}": [0.4] * 40, "p_b": [0.6] * 40, "target": [name, "b"] * 20}
    status, out, _ = run("report", table(tmp_path / "c.parquet", classes), "--probs", "p_*", *NONE)
    assert status == 0
    assert "ECE by class" in out
    status, out, _ = run("report", path, "--score", name, "--outcome", "o", *NONE, "--fail-if", "ece > 0")
    assert status == 3


@acting
def test_names_of_models_in_a_comparison(tmp_path: Path, name: str) -> None:
    score, outcome = rows()
    path = table(tmp_path / "f.parquet", {name: score, "new": score[::-1], "o": outcome})
    status, out, _ = run("compare", path, "--scores", f"{name},new", "--outcome", "o", "--gate", "--tolerance", 0.01)
    assert status in (3, 4)
    assert "minus new" in out


@acting
def test_names_of_files(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    score, outcome = rows()
    good, bad = f"{name}.parquet", f"{name}x.parquet"
    table(Path(good), {"score": score, "outcome": outcome})
    Path(bad).write_bytes(b"no table")
    status, out, err = run("report", good, *NONE, "--html", f"{name}.html", "--sketch", f"{name}.cal")
    assert status == 0
    assert err.count("\n") == 2
    assert run("merge", f"{name}.cal", "-o", f"{name}2.cal")[0] == 0
    for arguments in ((bad,), (f"no{name}.csv",), (f"{name}*z.csv",), (good, good)):
        status, out, err = run("report", *arguments)
        assert (status, out, err.count("\n")) == (1, "", 1)
    status, out, err = run("report", good, bad, "--keep-going", *NONE)
    assert status == 0
    assert "left out 1 of 2 files" in err
    assert err.count("\n") == 2
    for arguments in (("--html", name), (name,), ("--html", f"{name}/a.html"), (f"--{name}",), ("--notion", name)):
        assert run("report", good, *arguments)[0] in (1, 2)
    assert run(name)[0] == 2


@acting
def test_cells_conditions_and_messages_of_the_engine(tmp_path: Path, name: str) -> None:
    quoted = name.replace('"', '""')
    path = tmp_path / "f.csv"
    path.write_text(f'score,outcome\n0.5,1\n"{quoted}",0\n', newline="")
    assert run("report", path)[0] == 1
    path.write_text(f'score,outcome\n0.5,1\n0.4,"{quoted}"\n', newline="")
    assert run("report", path)[0] == 1
    path.write_text(f'score,outcome,"{quoted}"\n0.5,1,2\n0.4,0,2\n', newline="")
    for where in (name, f'"{name}" >', f"'{name}' = 1"):
        assert run("report", path, "--where", where)[0] == 1
    assert run("report", path, "--cluster", name)[0] in (0, 1)
    assert run("report", path, "--score", f"{name}!")[0] == 1


@acting
def test_a_printed_report_has_no_control_characters(name: str) -> None:
    score, outcome = rows()
    report = calibrant.evaluate(score, outcome, groups=[name, "b"] * 20, n_resamples=0)
    compared = calibrant.compare({name: score, "new": score[::-1]}, outcome)
    for result in (report, compared):
        assert CONTROL.search(str(result)) is None


def test_the_names_stay_in_json_and_on_pages(tmp_path: Path) -> None:
    score, outcome = rows()
    names = [f"{name}{k}" for k, name in enumerate(ACTING)]
    columns = {"score": score, "outcome": outcome, "g": (names * 4)[:40]}
    path, page, numbers = table(tmp_path / "f.parquet", columns), tmp_path / "a.html", tmp_path / "a.json"
    arguments = ("report", path, "--by", "g", *NONE)
    assert run(*arguments, "--html", page, "--json", numbers)[0] == 0
    status, out, _ = run(*arguments, "--json", "-")
    assert status == 0
    written = json.loads(numbers.read_text("utf-8"))
    assert CalibrationSketch.from_bytes(base64.b64decode(written.pop("sketch"))).groups.keys() == set(names)
    assert json.loads(out) == written
    assert {group["name"] for group in json.loads(out)["groups"]} == set(names)
    assert "a\N{REPLACEMENT CHARACTER}]52;c;aGk=" in page.read_text("utf-8")


def test_what_is_made_visible() -> None:
    assert shown("a\x1b[1mb", "?") == "a?[1mb"
    assert console.visible("\x1b[1mbold\x1b[0m\nname \x1b[5m") == "\x1b[1mbold\x1b[0m\nname ?[5m"
    assert console.visible("naïve 日本語 👩‍🔬 \N{NO-BREAK SPACE}") == "naïve 日本語 👩‍🔬 \N{NO-BREAK SPACE}"


# ---------------------------------------------------------------- encodings


def command(*args: object, **environment: str) -> tuple[int, bytes, bytes]:
    """Run the command in a process of its own, and return status, output and messages as bytes."""
    words = [sys.executable, "-m", "calibrant", *(arg if isinstance(arg, bytes) else str(arg) for arg in args)]
    done = subprocess.run(words, capture_output=True, env={**os.environ, **environment}, timeout=120, check=False)
    assert b"Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


ENCODINGS = [
    {"PYTHONIOENCODING": "ascii"},
    {"PYTHONIOENCODING": "latin-1"},
    {"PYTHONIOENCODING": "cp1252"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
]


@pytest.mark.slow
@pytest.mark.parametrize("environment", ENCODINGS, ids=lambda environment: " ".join(environment.values()))
def test_output_that_is_not_utf8(tmp_path: Path, environment: dict[str, str]) -> None:
    score, outcome = rows()
    groups = ["Ω → é", "naïve"] * 20
    path = table(tmp_path / "prédictions→.parquet", {"score": score, "outcome": outcome, "g": groups})
    arguments = ("report", path, "--by", "g", *NONE)
    status, out, err = command(*arguments, **environment)
    assert (status, err) == (0, b"")
    assert b"? ? " in out
    status, out, err = command(*arguments, "--json", "-", **environment)
    assert (status, err) == (0, b"")
    assert {group["name"] for group in json.loads(out.decode("utf-8"))["groups"]} == set(groups)
    status, out, err = command("report", path, "--by", "gg", **environment)
    assert (status, out) == (1, b"")
    assert b"did you mean" in err
    assert command("--help", **environment)[0] == 0


# ---------------------------------------------------------------- names of files that are not UTF-8


WRONG = b"pr\xe9dictions\xff"


def not_utf8(folder: Path, ending: str) -> bytes:
    """Make a file whose name is not UTF-8, or skip where the system has no such names."""
    score, outcome = rows()
    plain = folder / f"plain{ending}"
    columns = {"score": score, "outcome": outcome}
    lines = [f"{s},{o}\n" for s, o in zip(score, outcome, strict=True)]
    if ending == ".parquet":
        table(plain, columns)
    elif ending == ".arrow":
        pyarrow.feather.write_feather(pa.table(columns), plain, compression="uncompressed")
    elif ending == ".npz":
        np.savez(plain, score=score, outcome=outcome)
    elif ending == ".jsonl":
        plain.write_text(
            "".join(json.dumps({"score": s, "outcome": o}) + "\n" for s, o in zip(score, outcome, strict=True))
        )
    elif ending == ".cal":
        sketch = calibrant.CalibrationSketch()
        sketch.update(score, outcome)
        plain.write_bytes(sketch.to_bytes())
    else:
        text = "".join(["score,outcome\n", *lines]).encode()
        plain.write_bytes(gzip.compress(text) if ending.endswith(".gz") else text)
    wrong = os.path.join(os.fsencode(folder), WRONG + ending.encode())
    try:
        shutil.copyfile(os.fsencode(plain), wrong)
    except OSError:
        pytest.skip("names of files are UTF-8 here")
    return wrong


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="names are UTF-16 there")
@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".jsonl", ".parquet", ".arrow", ".npz", ".cal"])
def test_a_name_that_is_not_utf8_is_read(tmp_path: Path, ending: str) -> None:
    path = not_utf8(tmp_path, ending)
    status, out, err = command("report", path, *NONE)
    assert (status, err) == (0, b"")
    assert out.splitlines()[0].endswith(b"pr?dictions?" + ending.encode())
    status, out, err = command("report", path, *NONE, "--json", "-")
    assert (status, err) == (0, b"")
    assert json.loads(out.decode("utf-8"))["source"]["files"] == [os.fsdecode(path)]
    if ending not in (".npz", ".cal"):
        status, out, err = command("report", path, "--where", "score > 0.2", *NONE)
        assert (status, err) == (0, b"")
        status, out, err = command("report", path, "--score", "scores")
        assert (status, out) == (1, b"")
        assert err.decode("utf-8").endswith("\n")
        assert b"pr?dictions?" in err
    page, numbers, sketch = (
        os.path.join(os.fsencode(tmp_path), WRONG + b"2" + end) for end in (b".html", b".json", b".cal")
    )
    assert command("report", path, *NONE, "--html", page, "--json", numbers, "--sketch", sketch)[0] == 0
    for target in (page, numbers):
        with open(target, encoding="utf-8") as stream:
            assert stream.read()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="names are UTF-16 there")
def test_a_folder_that_is_not_utf8(tmp_path: Path) -> None:
    path = not_utf8(tmp_path, ".csv")
    folder = os.path.join(os.fsencode(tmp_path), WRONG)
    os.mkdir(folder)
    os.rename(path, os.path.join(folder, b"f.csv"))
    words = [sys.executable, "-m", "calibrant", "report", "f.csv", *NONE]
    done = subprocess.run(words, capture_output=True, cwd=folder, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
