"""Stored files that are read: maps, thresholds, states, sketches, reports and options. None of them is trusted.

A pipe would make a command wait, a device may never end, and a few bytes of JSON may be nested without end or hold
numbers that are not finite. Everything that calibrant reads back is opened and parsed here.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Final

from calibrant.errors import FileError, quoted

#: The most bytes of a stored file, unless its kind has another limit.
MOST_BYTES: Final = 64_000_000
_NO_FILE: Final = "is not a regular file"
_MOST_DEPTH: Final = 20  # of JSON; calibrant writes up to 8
_TOO_DEEP: Final = f"values are nested more than {_MOST_DEPTH} deep"


@contextmanager
def opened(path: str, remedy: str, most: int = MOST_BYTES) -> Iterator[BinaryIO]:
    """Open a file to read its bytes.

    Parameters
    ----------
    path : str
        The file.
    remedy : str
        What to do if it is not a regular file, or is too large.
    most : int
        The most bytes that it may have.

    Raises
    ------
    FileError
        If it cannot be opened or read, and for a pipe, a device, a folder or a larger file, of which nothing is read.
    """
    try:
        with open(path, "rb", opener=_at_once) as stream:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise FileError(path, _NO_FILE, remedy)
            if status.st_size > most:
                raise FileError(path, f"has more than {most:,} bytes", remedy)
            yield stream
    except IsADirectoryError:
        raise FileError(path, _NO_FILE, remedy) from None
    except OSError as error:
        problem = f"cannot be read ({error.strerror or error})"
        raise FileError(path, problem, "check the path and its permissions") from None


def _at_once(path: str, flags: int) -> int:
    """Open a file without waiting: a pipe would wait for its writer."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_bytes(path: str, remedy: str, most: int = MOST_BYTES) -> bytes:
    """Return the bytes of a file, which `opened` opens."""
    with opened(path, remedy, most) as stream:
        return stream.read()


def parsed(text: str | bytes | bytearray) -> Any:
    """Return the value of JSON with finite numbers, unique keys, valid text, and at most 20 levels of nesting.

    Raises
    ------
    ValueError
        For anything else; it says what.
    """
    if isinstance(text, bytes | bytearray):
        text = text.decode("utf-8-sig")
    try:
        content = json.loads(text, object_pairs_hook=_unique)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    check_json(content)
    return content


def check_json(value: object, depth: int = 0) -> None:
    """Reject what JSON does not hold, and what `parsed` does not return.

    Raises
    ------
    ValueError
        It says what.
    """
    if isinstance(value, (dict, list, tuple)):
        if depth == _MOST_DEPTH:
            raise ValueError(_TOO_DEEP)
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    msg = f"the key {key!r:.40} is not text"
                    raise ValueError(msg)
                check_json(key)
        for each in value.values() if isinstance(value, dict) else value:
            check_json(each, depth + 1)
    elif isinstance(value, str):
        if not value.isascii():
            value.encode()  # half a pair of surrogates is not text
    elif isinstance(value, float):
        if not math.isfinite(value):
            msg = f"{value} is not a finite number"
            raise ValueError(msg)
    elif not (value is None or isinstance(value, int)):
        msg = f"a {type(value).__name__} is not a value of JSON"
        raise ValueError(msg)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON, whose keys must differ."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        msg = f"the key {quoted(twice[:40])} occurs more than once"
        raise ValueError(msg)
    return found
