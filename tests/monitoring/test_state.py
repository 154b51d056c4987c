"""The file of a monitor's state: every bit comes back, damage is named, and no update is lost."""

from __future__ import annotations

import base64
import errno
import json
import math
import os
import re
import stat
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from calibrant.errors import FileError, InputError
from calibrant.monitoring import state
from tests.examples_of import at_most

posix = pytest.mark.skipif(sys.platform == "win32", reason="locks, signals and permissions of POSIX")

SMALL: dict[str, Any] = {
    "alpha": 0.05,
    "label": "süd",
    "slices": [{"label": "2026-01", "n": 812}, {"label": "2026-02", "n": 790}],
    "frame": {"rows": "f8:AAAAAAAA8D8="},
}
PRINTED = """{
"format": "calibrant.monitor",
"version": 3,
"alpha": 0.05,
"label": "süd",
"slices": [
{"label": "2026-01", "n": 812},
{"label": "2026-02", "n": 790}
],
"frame": {"rows": "f8:AAAAAAAA8D8="},
"""


# ---------------------------------------------------------------- round trips

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(LEAVES, lambda inside: st.lists(inside) | st.dictionaries(st.text(), inside), max_leaves=30)
KEYS = st.text().filter(lambda key: key not in ("format", "version", "checksum"))


@at_most(500)
@given(content=st.dictionaries(KEYS, VALUES), slices=st.none() | st.lists(VALUES))
def test_content_comes_back_with_every_bit_and_in_order(content: dict[str, Any], slices: list[Any] | None) -> None:
    if slices is not None:
        content = {**content, "slices": slices}
    data = state.encode(content)
    assert repr(state.decode(data, "a.json")) == repr(content)  # -0.0 differs from 0.0, 1 from 1.0 and from True
    assert repr(state.decode(data.replace(b"\n", b"\r\n"), "a.json")) == repr(content)
    assert {**content, **json.loads(data)} == json.loads(data)
    assert state.encode(content) == data


def test_a_state_has_a_line_for_each_key_and_slice() -> None:
    text = state.encode(SMALL).decode()
    assert text.startswith(PRINTED)
    assert re.fullmatch(r'"checksum": "[0-9a-f]{64}"\n}\n', text[len(PRINTED) :])
    later = state.encode({**SMALL, "slices": [*SMALL["slices"], {"label": "2026-03"}]}).decode()
    new = set(later.splitlines()) - set(text.splitlines())
    assert len(new) == 3  # the slice, the comma after the last one, the checksum


@pytest.mark.parametrize("slices", [[], 5, "ab", {"a": 1}, None])
def test_what_is_not_a_list_of_slices_has_one_line(slices: object) -> None:
    data = state.encode({"slices": slices})
    assert data.splitlines()[3] == f'"slices": {json.dumps(slices)},'.encode()
    assert state.decode(data, "a.json") == {"slices": slices}


@posix
def test_the_checksum_is_that_of_sha256sum(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    state.write(path, SMALL)
    done = subprocess.run(f"head -n -2 {path} | sha256sum", shell=True, capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == json.loads(path.read_bytes())["checksum"]


BITS = st.integers(0, 2**64 - 1)


@at_most(300)
@given(bits=st.lists(BITS, max_size=60), kind=st.sampled_from(["f8", "i8"]), repeats=st.integers(1, 40))
def test_packed_numbers_come_back_bit_for_bit(bits: list[int], kind: str, repeats: int) -> None:
    """Each pattern of bits, so NaN with its payload, -0.0 and denormal numbers too."""
    array = np.tile(np.array(bits, np.uint64), repeats).view(kind)
    dtype: Any = np.float64 if kind == "f8" else np.int64
    for shape in (None, (array.size,), (repeats, len(bits))):
        back = state.unpack(state.pack(array), dtype, shape)
        assert back.tobytes() == array.tobytes()
        assert back.dtype == array.dtype
        assert back.shape == (shape or (array.size,))
        assert back.flags.writeable
    assert len(state.pack(array)) <= len("f8z:") + -(-8 * array.size // 3) * 4 + 3


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.array([1.0]), "f8:AAAAAAAA8D8="),
        (np.array([1], np.int64), "i8:AQAAAAAAAAA="),
        (np.array([1.0], ">f8"), "f8:AAAAAAAA8D8="),
        (np.array(1.0), "f8:AAAAAAAA8D8="),
        (np.array([[1.0, 2.0], [3.0, 4.0]]).T[:1, 1:], "f8:AAAAAAAACEA="),
        (np.empty(0), "f8:"),
    ],
)
def test_packed_numbers_are_little_endian(array: NDArray[Any], text: str) -> None:
    assert state.pack(array) == text
    dtype = np.float64 if array.dtype.kind == "f" else np.int64
    assert np.array_equal(state.unpack(text, dtype, array.shape), array)
    assert struct.pack("<d", 1.0).hex() == "000000000000f03f"


def test_numbers_are_compressed_where_that_is_smaller() -> None:
    assert state.pack(np.zeros(1000)).startswith("f8z:")
    assert len(state.pack(np.zeros(1000))) < 100
    assert state.pack(np.random.default_rng(0).random(20)).startswith("f8:")
    assert state.pack(np.arange(1000)).startswith("i8z:")


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        (None, (1,)),
        (7, (1,)),
        (["f8:AAAAAAAA8D8="], (1,)),
        ("", (0,)),
        ("AAAAAAAA8D8=", (1,)),
        ("i8:AAAAAAAA8D8=", (1,)),
        ("f4:AAAAAA==", (1,)),
        ("f8z:AAAAAAAA8D8=", (1,)),
        ("f8:AAAAAAAA8D8", (1,)),
        ("f8:AAAA AAAA8D8=", (1,)),
        ("f8:AAAAAAAA8Dé=", (1,)),
        ("f8:AAAAAAAA8D8=", (2,)),
        ("f8:AAAAAAAA8D8=", (0,)),
        ("f8:AAAAAAAA", None),
        (state.pack(np.zeros(100, np.int64)), (100,)),
        (state.pack(np.zeros(100)), (99,)),
        (state.pack(np.zeros(100)), (101,)),
        (state.pack(np.zeros(100))[:-4], (100,)),
        (state.pack(np.zeros(99))[:-4] + "AAAA", (99,)),
        ("f8z:" + base64.b64encode(zlib.compress(bytes(800)) + b"x").decode(), (100,)),
        pytest.param("f8:" + "A" * 10_666_680, None, id="8,000,010 bytes"),
        pytest.param("f8:" + "A" * 10_666_688, None, id="8,000,016 bytes"),
    ],
)
def test_other_texts_are_not_unpacked(text: object, shape: tuple[int, ...] | None) -> None:
    with pytest.raises(InputError, match=r"text: expected .* packed numbers of type float64, got "):
        state.unpack(text, np.float64, shape)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(1, np.float32), "array: expected float64 or int64, got float32; convert the array"),
        (np.array([None]), "array: expected float64 or int64, got object"),
        (np.zeros(1_000_001), "array: expected at most 1,000,000 numbers, got 1,000,001; keep fewer"),
    ],
)
def test_other_arrays_are_not_packed(array: NDArray[Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        state.pack(array)


_CYCLE: list[Any] = []
_CYCLE.append(_CYCLE)


NOT_JSON: dict[str, tuple[object, str]] = {
    "NaN": (math.nan, "nan is not a finite number"),
    "infinity": ([-math.inf], "-inf is not a finite number"),
    "a number of NumPy": (np.int64(1), "a int64 is not a value of JSON"),
    "an array": (np.zeros(1), "a ndarray is not a value of JSON"),
    "a key": ({1: 2}, "the key 1 is not text"),
    "half a surrogate": ("\ud800", "surrogates not allowed"),
    "half a surrogate in a key": ({"\udfff": 1}, "surrogates not allowed"),
    "many digits": (10**5000, "4300 digits"),
    "a cycle": (_CYCLE, "values are nested more than 20 deep"),
}


@pytest.mark.parametrize("name", NOT_JSON)
def test_what_is_not_json_is_not_encoded(name: str) -> None:
    value, message = NOT_JSON[name]
    with pytest.raises(InputError, match=rf"^content: expected values of JSON, got .*{message}.*; convert"):
        state.encode({"a": value})


def test_what_could_not_be_decoded_is_not_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("format", "version", "checksum"):
        with pytest.raises(InputError, match=f"expected other keys than format, .* got '{key}'; rename"):
            state.encode({key: 1})
    with pytest.raises(InputError, match="got one that has more than 1,000,000 values; start a new state"):
        state.encode({"a": [0] * 1_000_001})
    monkeypatch.setattr(state, "_MOST_BYTES", len(state.encode(SMALL)))
    assert state.decode(state.encode(SMALL), "a.json") == SMALL
    with pytest.raises(InputError, match=r"got one that has more than [0-9]+ bytes"):
        state.encode({**SMALL, "a": 1})


# ---------------------------------------------------------------- damage


def test_every_changed_byte_is_noticed() -> None:
    data = state.encode(SMALL)
    rng = np.random.default_rng(0)
    for place in range(len(data)):
        for byte in {*b" \n\r\t0", data[place] ^ (1 << int(rng.integers(8))), int(rng.integers(256))} - {data[place]}:
            with pytest.raises(FileError):
                state.decode(data[:place] + bytes([byte]) + data[place + 1 :], "a.json")


def test_every_truncation_is_noticed_and_called_one() -> None:
    data = state.encode(SMALL)
    for length in range(1, len(data)):
        with pytest.raises(FileError, match=r"^a\.json: is truncated.*; restore the file from a copy, or delete it to"):
            state.decode(data[:length], "a.json")


def test_every_other_piece_is_noticed() -> None:
    data = state.encode(SMALL)
    lines = data.splitlines(keepends=True)
    for i in range(len(lines)):
        for other in (lines[:i] + lines[i + 1 :], [*lines[: i + 1], *lines[i:]], [*lines[:i], b"\n", *lines[i:]]):
            with pytest.raises(FileError):
                state.decode(b"".join(other), "a.json")
    for other in (data + b"\n", data + data, b" " + data, data[:-1] + b" \n"):
        with pytest.raises(FileError):
            state.decode(other, "a.json")


def resealed(data: bytes) -> bytes:
    """Return changed lines with the checksum that fits them."""
    import hashlib

    body = data[: data.rindex(b'"checksum"')]
    return body + b'"checksum": "' + hashlib.sha256(body).hexdigest().encode() + b'"\n}\n'


DAMAGED = r"; restore the file from a copy, or delete it to start a new state$"
FOREIGN = r"; name a state that calibrant monitor wrote$"
GOOD = state.encode(SMALL)
REFUSED: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty" + DAMAGED),
    "other JSON": (b'{"format": "other"}', "is not the state of a monitor" + FOREIGN),
    "a map": (b'{\n "schema": "calibrant.map"\n}\n', "is not the state of a monitor" + FOREIGN),
    "a table": (b"score,outcome\n0.5,1\n", "is not the state of a monitor" + FOREIGN),
    "another layout": (json.dumps(json.loads(GOOD)).encode(), "because its first lines have changed" + DAMAGED),
    "newer": (
        GOOD.replace(b'"version": 3', b'"version": 4'),
        r"was written by a newer calibrant \(version 4 of the state, and this calibrant reads version 3\); "
        "upgrade calibrant$",
    ),
    "newer, otherwise unknown": (
        b'{\n"format": "calibrant.monitor",\n"version": 31,\n' + b"[" * 10_000,
        r"newer calibrant \(version 31 of .*; upgrade calibrant$",
    ),
    "older": (
        GOOD.replace(b'"version": 3', b'"version": 1'),
        r"was written by an older calibrant \(version 1 of the state, and this calibrant reads version 3\); "
        "use the version of calibrant that wrote it, or start a new state in another file$",
    ),
    "no version": (
        GOOD.replace(b": %d," % state.VERSION, b": true,", 1),
        "has a damaged version line" + DAMAGED,
    ),
    "cut": (GOOD[:-60], "is truncated, because its last line is missing" + DAMAGED),
    "cut early": (GOOD[:20], "is truncated, because it ends within its first lines" + DAMAGED),
    "edited": (GOOD.replace(b"812", b"813"), "is damaged or was edited, because it does not match its che.*" + DAMAGED),
    "NaN": (resealed(GOOD.replace(b"812", b"NaN")), r"is not a valid state \(nan is not a finite number\)" + DAMAGED),
    "infinity": (resealed(GOOD.replace(b"812", b"1e999")), r"\(inf is not a finite number\)" + DAMAGED),
    "a key twice": (
        resealed(GOOD.replace(b'"label": "s', b'"alpha": "s')),
        r"is not a valid state \(the key 'alpha' occurs more than once\)" + DAMAGED,
    ),
    "a key twice in a slice": (
        resealed(GOOD.replace(b'"n": 812', b'"label": 812')),
        r"is not a valid state \(the key 'label' occurs more than once\)" + DAMAGED,
    ),
    "deep": (
        resealed(GOOD.replace(b"812", b"[" * 20 + b"]" * 20)),
        r"is not a valid state \(values are nested more than 20 deep\)" + DAMAGED,
    ),
    "deeper": (
        resealed(GOOD.replace(b"812", b"[" * 400_000 + b"]" * 400_000)),
        r"is not a valid state \(values are nested more than 20 deep\)" + DAMAGED,
    ),
    "not JSON": (resealed(GOOD.replace(b"812", b"x")), r"is not a valid state \(Expecting value: .*\)" + DAMAGED),
    "not UTF-8": (resealed(GOOD.replace(b"812", b'"\xff"')), r"is not a valid state \('utf-8' codec.*\)" + DAMAGED),
    "many values": (resealed(GOOD.replace(b"812", b"[0" + b",0" * 10**6 + b"]")), "more than 1,000,000 va.*" + FOREIGN),
    "many bytes": (GOOD + b" " * 10**8, "has more than 100,000,000 bytes" + FOREIGN),
}


@pytest.mark.parametrize("name", REFUSED)
def test_each_fault_has_its_sentence_and_remedy(name: str) -> None:
    data, message = REFUSED[name]
    with pytest.raises(FileError, match=rf"^a\.json: .*{message}") as caught:
        state.decode(data, "a.json")
    assert caught.value.__cause__ is None
    assert caught.value.path == "a.json"


# ---------------------------------------------------------------- files


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    for path in (tmp_path / "a.json", str(tmp_path / "b.json")):
        assert state.read(path) is None
        state.write(path, SMALL)
        assert state.read(path) == SMALL
        state.write(path, {"a": 1})
        assert state.read(path) == {"a": 1}
    assert sorted(os.listdir(tmp_path)) == ["a.json", "b.json"]


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="is not a regular file; name a state that calibrant monitor wrote"):
        state.read(tmp_path)
    (tmp_path / "a.json").write_bytes(b"")
    with pytest.raises(FileError, match=r"a\.json: is empty; "):
        state.read(tmp_path / "a.json")
    with pytest.raises(FileError, match=r"b\.json: cannot be written \(No such file or directory\)"):
        state.write(tmp_path / "folder" / "b.json", SMALL)


@posix
def test_a_file_below_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(FileError, match=r"b\.json: cannot be read \(Not a directory\); check the path and its perm"):
        state.read(tmp_path / "a" / "b.json")


@posix
def test_permissions_and_links_stay(tmp_path: Path) -> None:
    target, link = tmp_path / "a.json", tmp_path / "link.json"
    target.write_bytes(b"")
    target.chmod(0o640)
    link.symlink_to(target)
    state.write(link, SMALL)
    assert link.is_symlink()
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert state.read(target) == SMALL


@posix
def test_the_file_and_then_its_folder_are_synchronised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    real_fsync, real_replace = os.fsync, os.replace

    def fsync(descriptor: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        real_fsync(descriptor)

    def replace(old: str, new: str) -> None:
        done.append("replace")
        real_replace(old, new)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    state.write(tmp_path / "a.json", SMALL)
    assert done == ["file", "replace", "folder"]


@pytest.mark.parametrize("name", ["fsync", "replace", "open"])
def test_a_full_disk_leaves_the_old_state(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    state.write(path, SMALL)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, name, full)
        with pytest.raises(FileError, match=r"a\.json: cannot be written: the disk is full; free some space"):
            state.write(path, {"a": 1})
    assert os.listdir(tmp_path) == ["a.json"]
    assert state.read(path) == SMALL


#: A process that may write files of so many bytes and no more, as on a full disk.
LIMITED = """
import resource, signal, sys
from calibrant.errors import FileError
from calibrant.monitoring import state
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
with state.locked(sys.argv[1]):
    try:
        state.write(sys.argv[1], {"a": "x" * 2000})
    except FileError as error:
        print(error)
"""


@posix
def test_a_state_that_does_not_fit_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    state.write(path, SMALL)
    done = subprocess.run([sys.executable, "-c", LIMITED, path], capture_output=True, text=True, check=True)
    assert done.stdout == f"{path}: cannot be written (File too large); check the path and the disk\n"
    assert state.read(path) == SMALL
    assert sorted(os.listdir(tmp_path)) == [".a.json.lock", "a.json"]


def test_content_that_cannot_be_encoded_leaves_the_old_state(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    state.write(path, SMALL)
    with pytest.raises(InputError):
        state.write(path, {"a": math.nan})
    assert state.read(path) == SMALL


# ---------------------------------------------------------------- locks


#: A process that reads, changes and writes a state so many times.
ADDS = """
import sys
from calibrant.monitoring import state
path, number, name = sys.argv[1], int(sys.argv[2]), sys.argv[3]
print("ready", flush=True)
sys.stdin.readline()
for _ in range(number):
    with state.locked(path, wait=60):
        content = state.read(path) or {"n": 0}
        state.write(path, {**content, "n": content["n"] + 1, name: content.get(name, 0) + 1})
"""


def test_two_threads_lose_no_update(tmp_path: Path) -> None:
    path = tmp_path / "a.json"

    def added(name: str) -> None:
        for _ in range(200):
            with state.locked(path, wait=60):
                content = state.read(path) or {"n": 0}
                state.write(path, {**content, "n": content["n"] + 1, name: content.get(name, 0) + 1})

    threads = [threading.Thread(target=added, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert state.read(path) == {"n": 400, "a": 200, "b": 200}


def test_two_processes_lose_no_update(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    streams: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [
        subprocess.Popen([sys.executable, "-c", ADDS, str(path), "200", name], **streams) for name in ("a", "b")
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.wait(120) for process in processes] == [0, 0]
    for process in processes:
        process.communicate()
    assert state.read(path) == {"n": 400, "a": 200, "b": 200}


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    """A process that holds the lock of a state until a line comes."""
    path = tmp_path / "a.json"
    code = """
import sys
from calibrant.monitoring import state
with state.locked(sys.argv[1]):
    print("locked", flush=True)
    sys.stdin.readline()
print("free", flush=True)
"""
    streams: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], **streams)
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    yield path, process
    process.kill()
    process.communicate()


IN_USE = r"a\.json: is in use by another process; run the command again when the other one has ended$"


@pytest.mark.parametrize("wait", [0, 0.1, 10])
def test_a_writer_waits_so_long_and_not_longer(
    holder: tuple[Path, subprocess.Popen[str]], wait: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = holder
    now = [1000.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda seconds: now.append(now.pop() + seconds))
    monkeypatch.setattr(state, "time", clock)
    with pytest.raises(FileError, match=IN_USE), state.locked(path, **({} if wait == 10 else {"wait": wait})):
        pytest.fail("two have the lock")
    assert wait <= now[0] - 1000 < wait + 0.01


def test_a_writer_waits_in_real_time(holder: tuple[Path, subprocess.Popen[str]]) -> None:
    path, _ = holder
    start = time.monotonic()
    with pytest.raises(FileError, match=IN_USE), state.locked(path, wait=0.2):
        pytest.fail("two have the lock")
    assert time.monotonic() - start >= 0.2


def test_a_writer_goes_on_when_the_other_one_ends(holder: tuple[Path, subprocess.Popen[str]]) -> None:
    path, process = holder
    assert process.stdin is not None
    threading.Timer(0.3, lambda: print(file=process.stdin, flush=True)).start()
    with state.locked(path):
        state.write(path, SMALL)
    assert state.read(path) == SMALL


@posix
def test_a_killed_process_holds_no_lock(holder: tuple[Path, subprocess.Popen[str]]) -> None:
    path, process = holder
    process.kill()
    process.wait()
    with state.locked(path, wait=0):
        assert (path.parent / ".a.json.lock").read_bytes() == b""


def test_a_thread_waits_for_another_and_for_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    failed: list[str] = []

    def second() -> None:
        try:
            with state.locked(path, wait=0.05):
                pass
        except FileError as error:
            failed.append(error.problem)

    with state.locked(path):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(30)
        second()
    assert failed == ["is in use by another process"] * 2
    second()
    assert len(failed) == 2


def test_an_error_inside_releases_the_lock_and_is_not_changed(tmp_path: Path) -> None:
    for error in (BlockingIOError("mine"), KeyboardInterrupt()):
        with pytest.raises(type(error)) as caught, state.locked(tmp_path / "a.json", wait=0):
            raise error
        assert caught.value is error


@posix
def test_links_to_a_state_share_its_lock(tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "a.json")  # which does not exist
    with state.locked(link), pytest.raises(FileError, match="is in use"), state.locked(tmp_path / "a.json", wait=0):
        pytest.fail("two have the lock")
    assert sorted(os.listdir(tmp_path)) == [".a.json.lock", "link.json"]
    with state.locked(tmp_path / "b.json"), state.locked(tmp_path / "a.json", wait=0):
        pass


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="lists descriptors as Linux does")
def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    path, before = tmp_path / "a.json", len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with state.locked(path):
            state.write(path, SMALL)
            with pytest.raises(FileError), state.locked(path, wait=0):
                pytest.fail("two have the lock")
        with pytest.raises(ZeroDivisionError), state.locked(path):
            raise ZeroDivisionError
    assert len(os.listdir("/proc/self/fd")) == before


@posix
@pytest.mark.parametrize("end", ["pass", "raise OSError"])
def test_a_fork_that_lives_on_holds_no_lock(end: str, tmp_path: Path) -> None:
    code = """
import contextlib, os, sys, time
from calibrant.monitoring import state
with contextlib.suppress(OSError), state.locked(sys.argv[1]):
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)
    print(os.getpid(), flush=True)
    exec(sys.argv[2])
print("free", flush=True)
time.sleep(60)
"""
    path = tmp_path / "a.json"
    command = [sys.executable, "-c", code, str(path), end]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == f"{process.pid}\n"
    assert process.stdout.readline() == "free\n"
    try:
        with state.locked(path, wait=0):
            pass
    finally:
        os.killpg(process.pid, 9)
        process.communicate()


REMEDY = "name a state file in an existing folder that you may write to"


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_a_read_only_folder_is_named(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(_: str, flags: int, *__: object) -> int:
        raise OSError(number, os.strerror(number)) if flags & os.O_CREAT else FileNotFoundError

    monkeypatch.setattr(os, "open", read_only)
    problem = re.escape(f"a.json.lock cannot be opened ({os.strerror(number)}); {REMEDY}")
    with (
        pytest.raises(FileError, match=rf"a\.json: cannot be locked, because .*{problem}"),
        state.locked(tmp_path / "a.json"),
    ):
        pytest.fail("it was not locked")


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=rf"No such file or directory\); {REMEDY}"), state.locked(tmp_path / "b" / "a"):
        pytest.fail("it was not locked")


@posix
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="the superuser may write to any folder")
def test_a_folder_without_permission_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(FileError, match=rf"Permission denied\); {REMEDY}"), state.locked(tmp_path / "a.json"):
            pytest.fail("it was not locked")
    finally:
        tmp_path.chmod(0o755)


@posix
def test_the_lock_of_another_user_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file can be read and not written."""
    path, real_open = tmp_path / "a.json", os.open
    (tmp_path / ".a.json.lock").touch()

    def read_only(name: str, flags: int, *rest: Any) -> int:
        if flags & os.O_RDWR:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real_open(name, flags, *rest)

    with state.locked(path):
        monkeypatch.setattr(os, "open", read_only)
        with pytest.raises(FileError, match="is in use"), state.locked(path, wait=0):
            pytest.fail("two have the lock")
    with state.locked(path, wait=0):
        pass


@posix
def test_a_file_system_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(state, "_try_lock", unsupported)
    message = r"a\.json: cannot be locked, because its file system has no locks \(.*\); keep the state on a local disk"
    with pytest.raises(FileError, match=message), state.locked(tmp_path / "a.json"):
        pytest.fail("it was not locked")


# ---------------------------------------------------------------- kill -9

#: A process that updates a state in a loop, and prints each number after its state was written.
UPDATES = """
import sys
from calibrant.monitoring import state
path = sys.argv[1]
while True:
    with state.locked(path):
        content = state.read(path) or {"n": 0, "slices": []}
        n = content["n"] + 1
        state.write(path, {"n": n, "slices": [*content["slices"], {"label": str(n), "filler": "x" * 200}]})
    print(n, flush=True)
"""


@posix
@pytest.mark.parametrize("kills", [4, pytest.param(100, marks=pytest.mark.slow)])
def test_a_killed_writer_leaves_a_complete_state_and_what_it_acknowledged(kills: int, tmp_path: Path) -> None:
    path, rng = tmp_path / "a.json", np.random.default_rng(kills)
    acknowledged, between = 0, 0
    for _ in range(kills):
        process = subprocess.Popen([sys.executable, "-c", UPDATES, str(path)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        first = int(process.stdout.readline())
        assert first >= acknowledged + 1
        time.sleep(rng.uniform(0, 0.02))
        process.kill()
        acknowledged = max([first, *map(int, process.stdout.read().split("\n")[:-1])])
        process.wait()
        process.stdout.close()
        content = state.read(path)
        assert content is not None
        assert acknowledged <= content["n"] <= acknowledged + 1
        assert [each["label"] for each in content["slices"]] == [str(n + 1) for n in range(content["n"])]
        between += content["n"] > acknowledged
    assert kills < 100 or between > 0  # some kills come between the replacement and its acknowledgement
    assert acknowledged > kills
