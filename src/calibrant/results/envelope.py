"""The envelope of stored files: how they are opened and parsed, and what says their kind, version and checksum.

Maps, thresholds, states of monitors, sketches, reports and options are read through here, and none of them is trusted.
A pipe would make a command wait, a device may never end, and a few bytes of JSON may be nested without end or hold
numbers that are not finite. A checksum shows damage, not who wrote the content: `number`, `integer`, `listed` and
`require` check types, sizes and ranges. Content that passes is the responsibility of its owner.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, Final, NamedTuple, TypeVar

import numpy as np

from calibrant.errors import FileError, InputError, meant, quoted
from calibrant.errors.faults import Fault

T = TypeVar("T")

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
        What to do if it is not a regular file, is too large, or is missing and no other name is similar.
    most : int
        The most bytes that it may have.

    Raises
    ------
    FileError
        If it cannot be opened or read, and for a pipe, a device, a folder or a larger file, which is not read.
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
    except FileNotFoundError:
        raise FileError(path, "no such file", similar_file(path) or remedy) from None
    except OSError as error:
        problem = f"cannot be read ({error.strerror or error})"
        raise FileError(path, problem, "check the path and its permissions") from None


def similar_file(path: str) -> str:
    """Return what to do about a missing file if its folder is missing, or a file there has a similar name."""
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        here = os.path.basename(path)
        hint = f"; did you mean {quoted(here)}?" if os.path.isfile(here) else ""
        return f"the folder {quoted(folder)} does not exist either{hint}"
    with suppress(OSError):  # a folder that cannot be listed
        return meant(os.path.basename(path), [entry.name for entry in os.scandir(folder) if _is_file(entry)])
    return ""


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:  # a link to itself
        return False


def _at_once(path: str, flags: int) -> int:
    """Open a file without waiting: a pipe would wait for its writer."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_bytes(path: str, remedy: str, most: int = MOST_BYTES) -> bytes:
    """Return the bytes of a file, which `opened` opens."""
    with opened(path, remedy, most) as stream:
        return stream.read()


@contextmanager
def of_file(path: str) -> Iterator[None]:
    """Turn an error about content into one about its file."""
    try:
        yield
    except InputError as error:
        raise FileError(path, f"expected {error.expected}, got {error.got}", error.remedy) from None


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


# ---------------------------------------------------------------- values


class InvalidContent(ValueError):
    """Stored content of another type, size or range; the text completes "got ..."."""


def reason_of(error: Exception) -> str:
    """Return what is wrong with stored content, from what was raised about it."""
    return str(error) if isinstance(error, InvalidContent) else f"{error!r:.100}"


def require(good: object, reason: str) -> None:
    """Reject content if something does not hold."""
    if not good:
        raise InvalidContent(reason)


def number(value: object, low: float, high: float) -> float:
    """Return a number of JSON in a range."""
    if isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high:
        return float(value)
    msg = f"{value!r:.20}, not a number from {low:g} to {high:g}"
    raise InvalidContent(msg)


def integer(value: object, low: int, high: int) -> int:
    """Return an integer of JSON in a range."""
    if type(value) is int and low <= value <= high:
        return value
    msg = f"{value!r:.20}, not an integer from {low} to {high}"
    raise InvalidContent(msg)


def listed(value: object, kind: type[T]) -> list[T]:
    """Return a list of JSON whose entries have a type."""
    if type(value) is list and {*map(type, value)} <= {kind}:
        return value
    msg = f"{value!r:.20}, not a list of values of type {kind.__name__}"
    raise InvalidContent(msg)


# ---------------------------------------------------------------- kind, version and checksum


def digest_of(content: Mapping[str, Any]) -> str:
    """Return the checksum of JSON content, whatever its layout."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


class Envelope(NamedTuple):
    """What says that stored content is of one kind, and complete.

    Attributes
    ----------
    name, kind : str
        The word for it, and what errors expect: "sketch" and "a calibrant sketch".
    origin : str
        What to do about content of another kind: where to get one of this.
    versions : tuple of int
        The versions that are read.
    version, checksum : str
        The keys of the version and of the checksum.
    schema : str or None
        What the key "schema" has; None without this key.
    """

    name: str
    kind: str
    origin: str
    versions: tuple[int, ...]
    version: str
    checksum: str
    schema: str | None = None

    def sealed(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Return content with its checksum."""
        return {**content, self.checksum: digest_of(content)}

    def unsealed(self, text: Any, argument: str) -> dict[str, Any]:
        """Return the content of JSON text of this kind, of a known version, without its checksum, which is right.

        Raises
        ------
        InputError
            For anything else.
        """
        return self.opened(self.parsed(text, argument), argument)

    def parsed(self, text: Any, argument: str) -> Any:
        """Return the value of JSON text; an error of it is one about content of this kind."""
        try:
            return parsed(text)
        except (TypeError, ValueError, MemoryError) as error:
            raise self.foreign(argument, f"invalid JSON ({error!s:.100})", "JSON") from None

    def is_kind(self, content: object) -> bool:
        """Whether parsed content says that it is of this kind."""
        return isinstance(content, dict) and content.get("schema") == self.schema and self.version in content

    def opened(self, content: Any, argument: str) -> dict[str, Any]:
        """Return parsed content as `unsealed` does."""
        if not isinstance(content, dict) or not self.is_kind(content):
            raise self.foreign(argument, "other JSON")
        self.check_version(content[self.version], argument)
        checksum = content.pop(self.checksum, None)
        self.check_sum(digest_of(content) == checksum, argument)
        return content

    def foreign(self, argument: str, got: str, expected: str = "") -> InputError:
        """Return the error of what is not of this kind."""
        return InputError(argument, expected or self.kind, got, self.origin, fault=Fault.FOREIGN)

    def check_version(self, version: object, argument: str, known: tuple[int, ...] = ()) -> None:
        """Reject another version than those that are read."""
        known = known or self.versions
        if type(version) is not int or version not in known:
            expected = f"a {self.name} of version {' or '.join(map(str, known))}"
            remedy = f"read the {self.name} with the version of calibrant that wrote it, or a newer version"
            raise InputError(argument, expected, f"version {version!r:.40}", remedy)

    def check_sum(self, matches: bool, argument: str) -> None:
        """Reject content that does not match its checksum."""
        if not matches:
            got = "content that was truncated or changed"
            raise InputError(argument, f"a {self.name} that matches its checksum", got, self.remedy)

    @contextmanager
    def restoring(self, argument: str) -> Iterator[None]:
        """Turn whatever is raised about the content into one error: whoever forged it computed the checksum too."""
        try:
            with np.errstate(all="ignore"):  # numbers that are too large are refused
                yield
        except InputError:
            raise
        except Exception as error:  # forged parts fail in any of a dozen ways: no shorter list would be complete
            got = f"an invalid {self.name} ({reason_of(error)})"
            raise InputError(argument, f"a valid {self.name}", got, self.remedy) from None

    @property
    def remedy(self) -> str:
        """What to do about damaged content."""
        return f"read the {self.name} again, or make a new {self.name}"
