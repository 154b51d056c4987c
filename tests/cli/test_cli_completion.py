"""What the TAB key offers: by click's own machinery, and in a real bash."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.shell_completion import ShellComplete

from calibrant import CalibrationSketch
from calibrant.cli import main
from calibrant.cli.commands import SHELLS
from calibrant.inputs.notions import NOTIONS
from calibrant.measures.listed import BY_NAME
from tests.in_process import succeed

BASH = shutil.which("bash")
COLUMNS = ["day", "prob1", "prob2", "my p", "won"]


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files to complete the columns of: of one event, of classes, and damaged ones."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "games.csv").write_text(",".join(COLUMNS) + "\n1,0.5,0.5,0.2,1\n")
    (tmp_path / "my games.csv").write_text("it's,won\n0.5,1\n")
    row = {f"p_{k}": 0.25 for k in range(4)} | {"target": 1}
    (tmp_path / "classes.jsonl").write_text(json.dumps(row) + "\n")
    np.savez(tmp_path / "model.npz", logits=np.zeros((2, 3)), y=np.zeros(2, int))
    (tmp_path / "empty.csv").touch()
    (tmp_path / "week.cal").write_bytes(CalibrationSketch().to_bytes())
    (tmp_path / "wrong.parquet").write_text("no parquet")
    (tmp_path / "wrong.jsonl").write_text("[")
    (tmp_path / "odd.jsonl").write_text(json.dumps({"$(a)": 1, "b'c": 1, 'd"e': 1, "f\nplain,g": 1}) + "\n")


def offered(*words: str) -> list[str]:
    """Return what is offered for the last of the words."""
    completer = ShellComplete(main, {}, "calibrant", "_CALIBRANT_COMPLETE")
    return [item.value for item in completer.get_completions(list(words[:-1]), words[-1])]


# ---------------------------------------------------------------- by click's machinery


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("''", ["report", "compare", "recalibrate", "threshold", "monitor", "apply", "merge", "floor", "completion"]),
        ("r", ["report", "recalibrate"]),
        ("completion ''", list(SHELLS)),
        ("report --sc", ["--score"]),
        ("report games.csv --score ''", COLUMNS),
        ("report games.csv --score p", ["prob1", "prob2"]),
        ("report games.csv --outcome w", ["won"]),
        ("report games.csv --target w", ["won"]),
        ("report games.csv --weight m", ["my p"]),
        ("report games.csv --by d", ["day"]),
        ("report games.csv --n-bins 5 --by d", ["day"]),
        ("report 'g*.csv' --by d", ["day"]),
        ("report nosuch.csv games.csv --by d", ["day"]),
        ("report 'my games.csv' --score i", ["it's"]),
        ("report classes.jsonl --probs ''", ["p_*", "target"]),
        ("report classes.jsonl --score p_", ["p_0", "p_1", "p_2", "p_3"]),
        ("report model.npz --probs ''", ["logits", "y"]),
        ("compare games.csv --scores prob", ["prob1", "prob2"]),
        ("compare games.csv --scores prob1,pr", ["prob1,prob2"]),
        ("compare games.csv --outcome w", ["won"]),
        ("report games.csv --notion ''", list(NOTIONS)),
        ("report games.csv --notion t", ["top-label"]),
        ("compare games.csv --notion ''", ["positive", "top-label"]),
        ("report games.csv --fail-if ec", ["ece >", "ece <"]),
        ("report games.csv --fail-if 'ece '", ["ece >", "ece <"]),
        (
            "report games.csv --fail-if ''",
            [*(f"{name} {sign}" for name in (*BY_NAME, "n") for sign in "><"), "test.p_value <", "groups.any("],
        ),
        ("report games.csv --fail-if ece.l", ["ece.low >", "ece.low <"]),
        ("report games.csv --fail-if smece.", [f"smece.{f} {s}" for f in ("low", "high", "p_value") for s in "><"]),
        ("report games.csv --fail-if test", ["test.p_value <"]),
        ("report games.csv --fail-if gr", ["groups.any("]),
        ("report games.csv --fail-if 'groups.any(ec'", ["groups.any(ece >", "groups.any(ece <"]),
        ("report games.csv --fail-if 'groups.any(ece.h'", ["groups.any(ece.high >", "groups.any(ece.high <"]),
        ("report games.csv --fail-if 'groups.any(t'", ["groups.any(test.p_value <"]),
        ("report games.csv --fail-if nosuch.", []),
        ("report games.csv --tolerance-of ''", ["ece", "smece", "rmsce", "mean_gap"]),
        ("report games.csv --tolerance-of s", ["smece"]),
        ("report games.csv --ga", ["--gate"]),
        ("report --score ''", []),
        ("report nosuch.csv --score ''", []),
        ("report empty.csv --score ''", []),
        ("report wrong.parquet --score ''", []),
        ("report wrong.jsonl --score ''", []),
        ("report odd.jsonl --score ''", ["$(a)", "b'c", 'd"e']),  # and no name with a line break
        ("report games.csv --where ''", []),
        ("report games.csv --engine ''", ["embedded", "spark"]),
        ("report week.cal --score ''", []),
        ("report --keep", ["--keep-going"]),
        ("merge --s", ["--sketch"]),
    ],
)
def test_what_is_offered(line: str, values: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert offered(*shlex.split(line)) == values
    assert capfd.readouterr() == ("", "")  # silent, whatever is wrong


@pytest.mark.parametrize(
    "line", ["report ''", "report ga", "report games.csv --targets ''", "compare ''", "merge ''", "merge -o ''"]
)
def test_files_are_left_to_the_shell(line: str) -> None:
    words = shlex.split(line)
    completer = ShellComplete(main, {}, "calibrant", "_CALIBRANT_COMPLETE")
    (item,) = completer.get_completions(words[:-1], words[-1])
    assert (item.type, item.value) == ("file", words[-1])


def test_columns_are_read_from_the_head_alone(tmp_path: Path) -> None:
    with open(tmp_path / "long.csv", "w", encoding="utf-8") as stream:
        stream.write("a,b\n")
        stream.writelines("0.123456,1\n" * 100_000 for _ in range(20))
    started = time.perf_counter()
    assert offered("report", "long.csv", "--score", "") == ["a", "b"]
    assert time.perf_counter() - started < 0.5  # to read it all takes many times as long


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_of_each_shell_asks_this_command(shell: str) -> None:
    out, err = succeed("completion", shell)
    assert f"_CALIBRANT_COMPLETE={shell}_complete" in out
    assert err == ""


# ---------------------------------------------------------------- in a real bash


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the command as a program."""
    folder = tmp_path_factory.mktemp("bin")
    script = folder / "calibrant"
    start = "from calibrant.cli import main; main(prog_name='calibrant')"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c "{start}" "$@"\n')
    script.chmod(0o755)
    return folder


def in_bash(program: Path, *words: str) -> tuple[list[str], str]:
    """Have bash complete the last of the words as they stand on a line; return what it would insert, and its errors."""
    array = " ".join(map(shlex.quote, words))
    lines = f"""
        source <(calibrant completion bash)
        COMP_WORDS=({array}); COMP_CWORD={len(words) - 1}
        compopt() {{ local IFS=' '; echo "compopt $*"; }}
        _calibrant_completion calibrant "" ""
        for value in "${{COMPREPLY[@]}}"; do echo "$value"; done
        complete -p calibrant >/dev/null || echo "not registered"
    """
    environment = {**os.environ, "PATH": f"{program}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [str(BASH), "--norc", "-c", lines], capture_output=True, text=True, env=environment, check=True
    )
    return done.stdout.splitlines(), done.stderr


@pytest.mark.slow
@pytest.mark.skipif(BASH is None or sys.platform == "win32", reason="there is no bash here")
@pytest.mark.parametrize(
    ("words", "values"),
    [
        (
            ["calibrant", ""],
            ["report", "compare", "recalibrate", "threshold", "monitor", "apply", "merge", "floor", "completion"],
        ),
        (["calibrant", "report", "ga"], ["compopt -o default"]),
        (["calibrant", "report", "games.csv", "--score", "pr"], ["prob1", "prob2"]),
        (["calibrant", "report", "games.csv", "--score", "m"], ["'my p'"]),
        (["calibrant", "report", "games.csv", "--score", "'m"], ["my p"]),
        (["calibrant", "report", "games.csv", "--by", "="], [*COLUMNS[:3], "'my p'", "won"]),
        (["calibrant", "report", r"my\ games.csv", "--score", ""], ["'it'\"'\"'s'", "won"]),
        (["calibrant", "report", "'my games.csv'", "--score", "w"], ["won"]),
        (["calibrant", "report", "odd.jsonl", "--score", ""], ["'$(a)'", "'b'\"'\"'c'", "'d\"e'"]),
        (["calibrant", "report", "classes.jsonl", "--probs", "p"], ["'p_*'"]),
        (["calibrant", "compare", "games.csv", "--scores", "prob1,p"], ["prob1,prob2"]),
        (["calibrant", "report", "games.csv", "--fail-if", "ec"], ["'ece >'", "'ece <'"]),
        (["calibrant", "report", "games.csv", "--fail-if", "'ece "], ["ece >", "ece <"]),
        (["calibrant", "report", "empty.csv", "--score", ""], []),
    ],
)
def test_bash_completes(program: Path, words: list[str], values: list[str]) -> None:
    assert in_bash(program, *words) == (values, "")


@pytest.mark.slow
@pytest.mark.skipif(BASH is None or sys.platform == "win32", reason="there is no bash here")
def test_what_bash_inserts_is_what_the_command_gets(program: Path) -> None:
    """A name with a space and one with a quote arrive as they are in the file."""
    for words in (["games.csv", "--score", "m"], [r"my\ games.csv", "--score", "i"]):
        (inserted,), _ = in_bash(program, "calibrant", "report", *words)
        done = subprocess.run([str(BASH), "-c", f"printf %s {inserted}"], capture_output=True, text=True, check=True)
        assert done.stdout == {"m": "my p", "i": "it's"}[words[-1]]
