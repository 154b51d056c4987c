"""Stored files may be damaged, forged, or no files at all: each command says so in one line, and never waits."""

from __future__ import annotations

import os
import signal
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.in_process import run
from tests.samples import draw, sketch_of

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pipes, devices and alarms of POSIX")

#: A command for each kind of stored file, which it names NAME.
COMMANDS = {
    "map": "apply NAME.json in.csv --score score --output out.csv",
    "threshold": "monitor new.json in.csv --threshold NAME.json",
    "state": "monitor NAME.json",
    "state of a slice": "monitor NAME.json in.csv",
    "sketch": "report NAME.cal",
    "sketch in JSON": "report NAME.json",
    "sum of sketches": "merge good.cal NAME.cal --sketch sum.cal",
    "baseline": "compare in.csv --baseline NAME.json",
    "baseline of a sketch": "compare in.csv --baseline NAME.cal",
    "options": "report in.csv --config NAME.toml",
}
NESTED = 100_000
TEXTS = {
    "nothing": b"",
    "lists": b"[" * NESTED,
    "closed lists": b"[" * NESTED + b"]" * NESTED,
    "objects": b'{"a":' * NESTED,
    "nested a little": b'{"schema_version": 1, "a": ' + b"[" * 50 + b"]" * 50 + b"}",
    "NaN": b'{"kind": NaN}',
    "infinity": b'{"schema_version": -Infinity}',
    "a number beyond floats": b'{"calibrant.sketch": 1e999}',
    "a long number": b'{"schema_version": ' + b"1" * 5000 + b"}",
    "a key twice": b'{"value": 0.5, "value": 0.25}',
    "half a pair of surrogates": b'{"kind": "\\ud800"}',
    "UTF-16": '{"kind": "threshold"}'.encode("utf-16"),
    "no text": b"\xff\xfe\x00\x01",
    "null": b"null",
    "a text": b'"text"',
    "a list": b"[1, 2]",
    "an object": b"{}",
    "NULs": bytes(1000),
}


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    score, outcome = draw(1, 60, decimals=3)
    rows = "".join(f"{p},{y}\n" for p, y in zip(score, outcome, strict=True))
    Path("in.csv").write_text(f"score,outcome\n{rows}")
    sketch = sketch_of(score, outcome)
    sketch.save("good.cal")

    def late(*_: object) -> None:
        pytest.fail("the command waits")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def refused(command: str, name: str) -> str:
    """Run a command, which must fail in one line."""
    status, out, err = run(*command.replace("NAME", name).split(), columns=1000)
    assert status in (1, 2)
    assert out == ""
    assert not {"out.csv", "new.json", "sum.cal"} & set(os.listdir())
    line = err.splitlines()[-1]
    assert line.startswith(("calibrant: ", "Error: "))
    return line


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kind", COMMANDS)
def test_a_damaged_file_is_named(kind: str, text: str) -> None:
    if kind == "options" and text == "nothing":
        pytest.skip("no options are valid")
    command = COMMANDS[kind]
    path = next(word for word in command.split() if "NAME" in word).replace("NAME", "bad")
    Path(path).write_bytes(TEXTS[text])
    line = refused(command, "bad")
    assert path in line
    assert len(line) < 1000
    assert Path(path).read_bytes() == TEXTS[text]


def pipe(path: str) -> None:
    os.mkfifo(path)


def link_to_a_pipe(path: str) -> None:
    os.mkfifo("pipe")
    os.symlink("pipe", path)


def folder(path: str) -> None:
    os.mkdir(path)


def bound_socket(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)


def device_without_end(path: str) -> None:
    try:  # the numbers of the device of zeros; the machine's own is not used
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except OSError:
        pytest.skip("only root makes devices")


def large_file(path: str) -> None:
    with open(path, "wb") as stream:
        stream.write(b'{\n"format": "calibrant.monitor",\n')
        stream.truncate(1 << 40)  # which takes no space


@pytest.mark.parametrize(
    "make", [pipe, link_to_a_pipe, folder, bound_socket, device_without_end, large_file], ids=lambda each: each.__name__
)
@pytest.mark.parametrize("kind", COMMANDS)
def test_what_is_not_a_file_is_not_read(kind: str, make: Callable[[str], None]) -> None:
    command = COMMANDS[kind]
    path = next(word for word in command.split() if "NAME" in word).replace("NAME", "bad")
    make(path)
    assert path in refused(command, "bad")
