"""The state of a monitor in a file: strict JSON with a checksum, replaced as a whole, locked while it is updated.

The file has a line for each key, and one for each slice, so that a comparison of two states shows what was added:

    {
    "format": "calibrant.monitor",
    "version": 3,
    "alpha": 0.05,
    "slices": [
    {"label": "2026-01", "n": 812},
    {"label": "2026-02", "n": 790}
    ],
    "checksum": "..."
    }

The checksum is the SHA-256 of all lines before it (``head -n -2 FILE | sha256sum``). Later versions keep the first two
lines. Line ends may be those of Windows, which Git writes there.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import re
import sys
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import FileError, InputError
from calibrant.results.envelope import check_json, parsed, read_bytes
from calibrant.results.writing import replace_file

Number = TypeVar("Number", np.float64, np.int64)

FORMAT: Final = "calibrant.monitor"
VERSION: Final = 3

_MOST_BYTES: Final = 100_000_000
_MOST_VALUES: Final = 1_000_000  # in Python each of them takes up to 200 bytes
_MOST_NUMBERS: Final = 1_000_000  # of a packed array
_PAUSE: Final = 0.005  # seconds between two attempts to lock
_dumped: Final = json.JSONEncoder(allow_nan=False, ensure_ascii=False).encode

_HEAD: Final = f'{{\n"format": "{FORMAT}",\n"version": '.encode()
_VERSION: Final = re.compile(rb"([0-9]{1,9}),\n")
_CHECKSUM: Final = b'"checksum": "'
_RESERVED: Final = ("format", "version", "checksum")

_FOREIGN: Final = "name a state that calibrant monitor wrote"
_DAMAGED: Final = "restore the file from a copy, or delete it to start a new state"
_NEW: Final = "start a new state in another file"


# ---------------------------------------------------------------- bytes


def encode(content: Mapping[str, Any]) -> bytes:
    """Return the content of a state as the bytes of its file.

    Parameters
    ----------
    content : mapping of str to JSON values
        Anything but the keys ``format``, ``version`` and ``checksum``. Tuples become lists.

    Raises
    ------
    InputError
        For what `decode` would not return: NaN, infinity, text that is not Unicode, other types, and too many values.
    """
    if reserved := [key for key in _RESERVED if key in content]:
        raise InputError("content", f"other keys than {', '.join(_RESERVED)}", repr(reserved[0]), "rename the key")
    try:
        check_json(dict(content))
        parts = {"format": FORMAT, "version": VERSION, **content}
        body = "".join(["{\n", *(f"{_dumped(key)}: {_lines(key, value)},\n" for key, value in parts.items())]).encode()
    except ValueError as error:
        raise InputError("content", "values of JSON", str(error)[:200], "convert the value first") from None
    data = body + _tail(body)
    if problem := _excess(data):
        raise InputError("content", "a smaller state", f"one that {problem}", _NEW)
    return data


def decode(data: bytes, source: str) -> dict[str, Any]:
    """Return the content of a state from the bytes that `encode` returned.

    The content is JSON with finite numbers, unique keys and valid text, and nothing more is known about it: whoever
    forged a state has also computed its checksum. The cost is linear in the size: two to three times its memory for a
    real state, at most 26 times for a forged one of many tiny values. A state has no more than 1,000,000 of them.

    Parameters
    ----------
    data : bytes
        The bytes.
    source : str
        The file that an error names.

    Raises
    ------
    FileError
        For a file that is truncated, damaged, too large, or of another version or program.
    """
    if len(data) > _MOST_BYTES:
        raise FileError(source, _excess(data), _FOREIGN)
    data = data.replace(b"\r\n", b"\n")
    _check_version(data, source)
    end = data.rfind(b"\n" + _CHECKSUM) + 1
    if not end or len(data) - end < len(_tail(b"")):
        raise FileError(source, "is truncated, because its last line is missing", _DAMAGED)
    if data[end:] != _tail(memoryview(data)[:end]):
        raise FileError(source, "is damaged or was edited, because it does not match its checksum", _DAMAGED)
    if problem := _excess(data):
        raise FileError(source, problem, _FOREIGN)
    try:
        content: dict[str, Any] = parsed(data)
    except ValueError as error:
        raise FileError(source, f"is not a valid state ({str(error)[:200]})", _DAMAGED) from None
    return {key: value for key, value in content.items() if key not in _RESERVED}


def _check_version(data: bytes, source: str) -> None:
    """Reject a file whose first lines are not those of this version."""
    if not data:
        raise FileError(source, "is empty", _DAMAGED)
    if not data.startswith(_HEAD):
        if _HEAD.startswith(data):
            raise FileError(source, "is truncated, because it ends within its first lines", _DAMAGED)
        if FORMAT.encode() in data[:1000]:
            raise FileError(source, "is damaged or was edited, because its first lines have changed", _DAMAGED)
        raise FileError(source, "is not the state of a monitor", _FOREIGN)
    line = data[len(_HEAD) : len(_HEAD) + 20]
    match = _VERSION.match(line)
    if match is None:
        cut = b"\n" not in line and len(data) < len(_HEAD) + 20
        problem = "is truncated within its version line" if cut else "has a damaged version line"
        raise FileError(source, problem, _DAMAGED)
    version = int(match[1])
    versions = f"(version {version} of the state, and this calibrant reads version {VERSION})"
    if version > VERSION:
        raise FileError(source, f"was written by a newer calibrant {versions}", "upgrade calibrant")
    if version < VERSION:
        remedy = f"use the version of calibrant that wrote it, or {_NEW}"
        raise FileError(source, f"was written by an older calibrant {versions}", remedy)


def _excess(data: bytes) -> str:
    """Say by what a state is too large, before it is parsed; nothing if it is not."""
    if len(data) > _MOST_BYTES:
        return f"has more than {_MOST_BYTES:,} bytes"
    # This also counts those marks in texts: a state has few.
    if data.count(b",") + data.count(b"[") + data.count(b"{") > _MOST_VALUES:
        return f"has more than {_MOST_VALUES:,} values"
    return ""


def _lines(key: str, value: object) -> str:
    """Return a value as JSON: the list of slices with a line for each slice, others in one line."""
    if key == "slices" and isinstance(value, (list, tuple)) and value:
        return "[\n" + ",\n".join(map(_dumped, value)) + "\n]"
    return _dumped(value)


def _tail(body: bytes | memoryview) -> bytes:
    """Return the last lines of a state, from those before."""
    return _CHECKSUM + hashlib.sha256(body).hexdigest().encode() + b'"\n}\n'


# ---------------------------------------------------------------- files


def read(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Return the content of a state's file; None if the file does not exist.

    Raises
    ------
    FileError
        If the file cannot be read or is not a state of this version.
    """
    name = os.fspath(path)
    try:
        os.stat(name)
    except FileNotFoundError:
        return None
    except OSError:
        pass  # reading it says what is wrong
    data = read_bytes(name, _FOREIGN, _MOST_BYTES)
    return decode(data, name)


def write(path: str | os.PathLike[str], content: Mapping[str, Any]) -> None:
    """Replace the file of a state as a whole; when this returns, the new state is on the disk.

    Raises
    ------
    FileError
        If it cannot be written, such as on a full disk. The old state is unchanged then.
    InputError
        For content that is not JSON.
    """
    name = os.fspath(path)
    replace_file(name, encode(content))
    if os.name == "posix":
        with suppress(OSError):  # not every file system can, and the new state is complete
            folder = os.open(os.path.dirname(os.path.realpath(name)), os.O_RDONLY)
            try:
                os.fsync(folder)  # else a power failure could undo the replacement
            finally:
                os.close(folder)


# ---------------------------------------------------------------- locks

if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def _try_lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # a child of a fork may hold the same descriptor


@contextmanager
def locked(path: str | os.PathLike[str], *, wait: float = 10.0) -> Iterator[None]:
    """Keep other processes and threads from updating a state: read, change and write it inside this context.

    The lock is on the file ``.NAME.lock`` next to the state, which stays there and is empty. The system releases the
    lock when the process ends, also when it is killed. A second lock by the same thread waits as any other.

    Parameters
    ----------
    path : path
        The file of the state, which need not exist. Links to the same file share its lock.
    wait : float, default 10.0
        For how many seconds to wait for the lock.

    Raises
    ------
    FileError
        If the lock is not free in time, or if the folder or its file system does not allow it.
    """
    name = os.fspath(path)
    deadline = time.monotonic() + wait
    descriptor = _opened(name)
    try:
        while not _is_locked(descriptor, name):
            if time.monotonic() >= deadline:
                raise FileError(
                    name, "is in use by another process", "run the command again when the other one has ended"
                )
            time.sleep(_PAUSE)
        try:
            yield
        finally:
            _unlock(descriptor)
    finally:
        os.close(descriptor)


def _opened(name: str) -> int:
    """Open the file of the lock, and create it if it does not exist."""
    folder, base = os.path.split(os.path.realpath(name))  # as the state is written
    side = os.path.join(folder, f".{base}.lock")
    try:
        try:
            return os.open(side, os.O_RDWR | os.O_CREAT, 0o666)
        except PermissionError:
            with suppress(OSError):
                return os.open(side, os.O_RDONLY)  # that of another user, in a folder of both
            raise
    except OSError as error:
        problem = f"cannot be locked, because {side} cannot be opened ({error.strerror or error})"
        raise FileError(name, problem, "name a state file in an existing folder that you may write to") from None


def _is_locked(descriptor: int, name: str) -> bool:
    """Lock the file if nobody else does, and return whether it is locked."""
    try:
        _try_lock(descriptor)
    except (BlockingIOError, PermissionError):
        return False
    except OSError as error:
        problem = f"cannot be locked, because its file system has no locks ({error.strerror or error})"
        raise FileError(name, problem, "keep the state on a local disk") from None
    return True


# ---------------------------------------------------------------- arrays


def pack(array: NDArray[np.float64] | NDArray[np.int64]) -> str:
    """Return the numbers of an array as text, bit for bit: ``f8:`` or ``i8:`` and base64 of little-endian numbers.

    Where zlib makes them smaller, they are compressed, and the mark is ``f8z:`` or ``i8z:``. Compressors differ, so
    the same numbers may have another text on another machine. The shape is not in it.

    Raises
    ------
    InputError
        For another type, and for more than 1,000,000 numbers.
    """
    kind = f"{array.dtype.kind}{array.dtype.itemsize}"
    if kind not in ("f8", "i8"):
        raise InputError("array", "float64 or int64", str(array.dtype), "convert the array")
    if array.size > _MOST_NUMBERS:
        raise InputError("array", f"at most {_MOST_NUMBERS:,} numbers", f"{array.size:,}", "keep fewer numbers")
    data = array.astype(f"<{kind}").tobytes()
    compressed = zlib.compress(data)
    smaller = len(compressed) < len(data)
    return f"{kind}{'z' * smaller}:{base64.b64encode(compressed if smaller else data).decode()}"


def unpack(text: object, dtype: type[Number], shape: tuple[int, ...] | None) -> NDArray[Number]:
    """Return the array that `pack` made a text of.

    Its memory is bounded by that of the shape and of the text, also for a text that zlib would inflate without end.

    Parameters
    ----------
    text : str
        The text; anything else is rejected.
    dtype : type
        Either ``np.float64`` or ``np.int64``.
    shape : tuple of int or None
        The shape that the array must have; None for one dimension of up to 1,000,000 numbers.

    Raises
    ------
    InputError
        For anything but numbers of this type in this number.
    """
    kind = np.dtype(dtype).str[1:]
    most = _MOST_NUMBERS if shape is None else math.prod(shape)
    numbers = f"up to {most:,}" if shape is None else f"{most:,}"
    data = _unpacked(text, kind, 8 * most) if most <= _MOST_NUMBERS else None
    if data is None or len(data) % 8 or (shape is not None and len(data) != 8 * most):
        got = repr(text[:20]) if isinstance(text, str) else f"a {type(text).__name__}"
        expected = f"{numbers} packed numbers of type {np.dtype(dtype)}"
        raise InputError(
            "text", expected, got, "pass the text unchanged, as calibrant wrote it in the state of a monitor"
        )
    array = np.frombuffer(data, f"<{kind}").astype(dtype)
    return array if shape is None else array.reshape(shape)


def _unpacked(text: object, kind: str, most: int) -> bytes | None:
    """Return at most so many bytes of packed numbers; None if they are not such or more."""
    mark, _, body = text.partition(":") if isinstance(text, str) else ("", "", "")
    if mark not in (kind, f"{kind}z"):
        return None
    try:
        data = base64.b64decode(body, validate=True)
        if mark != kind:
            stream = zlib.decompressobj()
            data = stream.decompress(data, most + 1)
            if not stream.eof or stream.unused_data:
                return None
    except (ValueError, zlib.error):
        return None
    return data if len(data) <= most else None
