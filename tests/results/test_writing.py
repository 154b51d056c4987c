"""Files that are written: complete or not at all, and straight into what cannot be replaced."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import calibrant
from calibrant.errors import FileError
from calibrant.results.writing import append_file, replace_file, write_file

posix = pytest.mark.skipif(sys.platform == "win32", reason="limits, pipes and descriptors of POSIX")

#: A process that may write files of so many bytes and no more, as on a full disk.
LIMITED = """
import resource, signal, sys
import calibrant
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
report = calibrant.evaluate([0.1, 0.8, 0.4, 0.9], [0, 1, 0, 1], n_resamples=0)
compared = calibrant.compare({"a": [0.1, 0.8, 0.4], "b": [0.2, 0.7, 0.4]}, [0, 1, 0])
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
for result in (report, compared):
    try:
        result.to_html(sys.argv[1])
    except OSError as error:
        print(type(error).__name__, error.errno)
"""


@posix
def test_a_page_that_does_not_fit_leaves_the_old_one(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text("the old page")
    done = subprocess.run([sys.executable, "-c", LIMITED, page], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["OSError 27"] * 2
    assert page.read_text() == "the old page"
    assert os.listdir(tmp_path) == ["report.html"]


def test_a_page_is_written_to_any_kind_of_path(tmp_path: Path) -> None:
    report = calibrant.evaluate([0.1, 0.8, 0.4, 0.9], [0, 1, 0, 1], n_resamples=0)
    target = tmp_path / "a.html"
    assert report.to_html(str(target)) == report.to_html(target) == target
    with pytest.raises(FileNotFoundError):
        report.to_html(tmp_path / "no folder" / "a.html")


@posix
def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.html"
    os.mkfifo(pipe)
    got: list[bytes] = []
    for write in (write_file, replace_file):
        reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
        reader.start()
        write(str(pipe), b"data")
        reader.join(10)
    assert got == [b"data"] * 2
    assert os.listdir(tmp_path) == ["pipe.html"]


@posix
@pytest.mark.parametrize("name", ["/dev/fd/{}", "/proc/self/fd/{}"])
def test_a_descriptor_is_written_to(name: str) -> None:
    if not os.path.isdir(os.path.dirname(name)):
        pytest.skip(f"no {name} here")
    reader, writer = os.pipe()
    replace_file(name.format(writer), b"data")
    os.close(writer)
    with open(reader, "rb") as stream:
        assert stream.read() == b"data"


@posix
def test_a_descriptor_that_is_not_open_is_named() -> None:
    with pytest.raises(FileError, match=r"/dev/fd/987: cannot be written \(Bad file descriptor\)"):
        replace_file("/dev/fd/987", b"data")


def test_a_file_is_appended_to(tmp_path: Path) -> None:
    target = tmp_path / "summary"
    append_file(str(target), b"one\n")
    inode = target.stat().st_ino
    append_file(str(target), b"two\n")
    assert (target.read_bytes(), target.stat().st_ino) == (b"one\ntwo\n", inode)
    with pytest.raises(FileError, match=r"no folder.a: cannot be written \(No such file or directory\); check"):
        append_file(str(tmp_path / "no folder" / "a"), b"data")


@posix
def test_what_does_not_fit_is_not_appended_in_part(tmp_path: Path) -> None:
    target = tmp_path / "summary"
    target.write_bytes(b"x" * 900)
    code = """
import resource, signal, sys
from calibrant.results.writing import append_file
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
append_file(sys.argv[1], b"y" * 200)
"""
    done = subprocess.run([sys.executable, "-c", code, target], capture_output=True, text=True, check=False)
    assert "FileError" in done.stderr
    assert "cannot be written: the disk is full; free some space" in done.stderr
    assert target.read_bytes() == b"x" * 900


@pytest.mark.skipif(sys.platform == "win32", reason="locks of POSIX")
def test_parts_of_killed_writers_are_removed_and_those_of_living_ones_stay(tmp_path: Path) -> None:
    code = """
import os, sys, time
def fsync(descriptor):
    print("writing", flush=True)
    time.sleep(60)
os.fsync = fsync
from calibrant.results.writing import write_file
write_file(sys.argv[1], b"x")
"""
    target, old = tmp_path / "a[1].json", time.time() - 100
    writers = [
        subprocess.Popen([sys.executable, "-c", code, str(target)], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "writing\n"
    writers[0].kill()
    writers[0].wait()
    parts = sorted(tmp_path.glob(".*.part"))
    assert len(parts) == 2
    other = tmp_path / ".b.json.01234567.part"
    other.touch()
    for part in (*parts, other):
        os.utime(part, (old, old))
    write_file(target, b"new")
    assert target.read_bytes() == b"new"
    left = sorted(tmp_path.glob(".*.part"))
    assert len(left) == 2  # that of the living writer, and that of another output
    assert other in left
    for writer in writers:
        writer.kill()
        writer.communicate()
