"""Files that are written: complete or not at all, and straight into what cannot be replaced."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import calibrant
from calibrant.errors import FileError
from calibrant.results.writing import append_file, replace_file, replacing, write_file

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


def write_apart(path: str, data: bytes) -> None:
    """Write as `calibrant apply` does, which names a file to a library."""
    with replacing(path) as part, open(part, "wb") as stream:
        stream.write(data)


WRITERS = (write_file, replace_file, write_apart)


def made(kind: str, path: Path) -> Path:
    """Make something that is not a file; devices are made beside the test, and never those of the machine."""
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "socket":
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(os.path.relpath(path))
        case _:
            is_of_blocks = kind == "device of blocks"
            try:  # the numbers of the null device, and of one for which there is no driver
                os.mknod(path, (stat.S_IFBLK if is_of_blocks else stat.S_IFCHR) | 0o666, os.makedev(1, 3))
            except OSError:
                pytest.skip("only root makes devices")
            if is_of_blocks:
                return path
            try:
                path.write_bytes(b"")
            except OSError:
                pytest.skip("devices cannot be opened in this folder")
    return path


def linked(path: Path) -> Path:
    """Return a link to a link to a path."""
    for name in ("first link", "second link"):
        link = path.with_name(name)
        link.symlink_to(path)
        path = link
    return path


@posix
@pytest.mark.parametrize("link", [False, True])
@pytest.mark.parametrize("write", WRITERS)
def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path, write: Callable[..., None], link: bool) -> None:
    pipe = made("pipe", tmp_path / "pipe.html")
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write(str(linked(pipe) if link else pipe), b"data" * 50_000)
    reader.join(10)
    assert got == [b"data" * 50_000]
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".part")]


@posix
@pytest.mark.parametrize("link", [False, True])
@pytest.mark.parametrize("write", WRITERS)
def test_a_device_is_written_to_and_not_replaced(tmp_path: Path, write: Callable[..., None], link: bool) -> None:
    device = made("device", tmp_path / "null")
    write(str(linked(device) if link else device), b"data")
    assert stat.S_ISCHR(device.lstat().st_mode)


@posix
@pytest.mark.parametrize("kind", ["folder", "socket", "device of blocks"])
@pytest.mark.parametrize("write", WRITERS)
def test_what_cannot_be_written_to_is_refused(
    tmp_path: Path, write: Callable[..., None], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    target = made(kind, tmp_path / "target")
    before = target.lstat()
    for path in (target, linked(target)):
        with pytest.raises(
            OSError if write is write_file else FileError, match=r"(?i)is a directory|it is neither a file"
        ):
            write(str(path), b"data")
    assert (target.lstat().st_mode, target.lstat().st_ino) == (before.st_mode, before.st_ino)


@posix
@pytest.mark.parametrize("write", WRITERS)
def test_a_link_to_nothing_becomes_a_link_to_the_file(tmp_path: Path, write: Callable[..., None]) -> None:
    link = linked(tmp_path / "new")
    write(str(link), b"data")
    assert ((tmp_path / "new").read_bytes(), link.is_symlink()) == (b"data", True)


@pytest.mark.slow
@posix
@pytest.mark.parametrize("kind", ["file", "pipe"])
@pytest.mark.parametrize("write", [writer.__name__ for writer in WRITERS])
def test_a_link_to_standard_output_writes_there(tmp_path: Path, write: str, kind: str) -> None:
    code = """
import sys
from tests.results import test_writing
getattr(test_writing, sys.argv[1])(sys.argv[2], b"data")
"""
    root = Path(__file__).parents[2]
    for name, target in {"link": "/dev/stdout", "of a folder": "/dev"}.items():
        (tmp_path / name).symlink_to(target)
    for path in (tmp_path / "link", tmp_path / "of a folder" / "stdout", tmp_path / "of a folder" / "fd" / "1"):
        command = [sys.executable, "-c", code, write, str(path)]
        if kind == "pipe":
            found = subprocess.run(command, capture_output=True, check=True, cwd=root).stdout
        else:
            with open(tmp_path / "out", "wb") as stream:
                subprocess.run(command, stdout=stream, check=True, cwd=root)
            found = (tmp_path / "out").read_bytes()
        assert found == b"data"
    assert (tmp_path / "link").is_symlink()


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
