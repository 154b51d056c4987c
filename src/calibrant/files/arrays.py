"""numpy's own files: ``.npz`` archives, and a ``.npy`` with its targets in another."""

from __future__ import annotations

import contextlib
import math
import struct
import zipfile
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import CalibrantError, FileError
from calibrant.files.columns import Options, Selection, select
from calibrant.files.paths import first_line, kind_of, reading
from calibrant.files.percent import ALIKE, REMEDY, WANTED, fractions, is_signed, is_unclear, unclear

_SAVE_AGAIN = "save it again with numpy.save, as a plain array"


def _select(path: str, names: list[str], options: Options) -> Selection:
    selection = select(path, names, options, noun="array")
    for argument, own in selection.names().items():
        if len(own) > 1:
            raise FileError(path, f"{argument} are one array, got {', '.join(own)}", "name one array")
    return selection


def _check_lengths(path: str, loaded: dict[str, Any], selection: Selection) -> None:
    rows = len(loaded[selection.probs[0]])
    for name, array in loaded.items():
        if len(array) != rows:
            problem = f"array {name!r} has {len(array):,} rows and {selection.probs[0]!r} has {rows:,}"
            raise FileError(path, problem, _for_lengths(loaded[selection.probs[0]], name, array, selection))


def _for_lengths(probs: Any, name: str, array: Any, selection: Selection) -> str:
    """Say what to do about an array with another number of rows than the probabilities."""
    if name in selection.targets and array.shape == probs.shape[:0:-1] + probs.shape[:1]:
        return f"{name!r} looks transposed: save {name}.T"
    if probs.ndim == 2 and len(array) == probs.shape[1]:
        return f"{selection.probs[0]!r} looks transposed: save {selection.probs[0]}.T, a row for each prediction"
    return "save arrays of the same length"


def heads(path: str, rows: int) -> dict[str, list[Any]]:
    """Return the first rows at most of the arrays of an archive that can be read."""
    found = {}
    with reading(path), open(path, "rb") as stream, np.load(stream, allow_pickle=False) as archive:
        for name in archive.files:
            with contextlib.suppress(CalibrantError):
                found[name] = _member(path, archive, name)[:rows].tolist()
    return found


def _member(path: str, archive: Any, name: str) -> NDArray[Any]:
    try:
        array: NDArray[Any] = archive[name]
    except ValueError as error:
        if "pickle" in str(error):
            raise _objects(path, f"array {name!r}") from error
        raise
    except Exception as error:
        raise FileError(path, f"array {name!r} is damaged ({first_line(error)})", "save the file again") from error
    _check_plain(path, f"array {name!r}", array)
    return array


def _objects(path: str, what: str) -> FileError:
    return FileError(path, f"{what} holds Python objects", "save it as numbers or strings")


def _check_plain(path: str, what: str, array: Any) -> None:
    if array.ndim == 0:
        raise FileError(path, f"{what} is a single value", "save a row for each prediction")
    if array.dtype.kind not in "fiubUST":
        hint = "save float32; numpy has no bfloat16" if array.dtype.kind == "V" else "save numbers or strings"
        raise FileError(path, f"{what} is of type {array.dtype}", hint)


class Checked:
    """Probabilities of an array, perhaps in per cent, some rows after the other."""

    def __init__(self, path: str, what: str, percent: bool) -> None:
        self._path = path
        self._what = what
        self._percent = percent
        self._done = 0
        self._signed = False
        self._unclear: tuple[int, str] | None = None

    def probs(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return the next rows as fractions, or as they are."""
        first, path, what = self._done, self._path, self._what
        self._done += len(array)
        if not self._percent:
            text = array.dtype.kind in "UST" and array.size > 0
            _check_numbers(path, what, array, REMEDY if text and is_signed(str(array.astype(str).flat[0])) else None)
            return array
        shares = fractions(array)
        bad = np.flatnonzero(np.isnan(shares))
        if len(bad):
            row, wrong = first + int(bad[0]) * len(array) // array.size + 1, array.reshape(-1)[bad[0]]
            shown = repr(str(wrong)) if array.dtype.kind in "UST" else str(wrong).removesuffix(".0")
            raise FileError(path, f"row {row}, {what}: {shown} is not {WANTED}", "correct it before the array is saved")
        if array.dtype.kind in "UST":
            texts = array.astype(str).reshape(-1).tolist()
            place = next((place for place, text in enumerate(texts) if is_unclear(text)), None)
            self._signed = self._signed or any(map(is_signed, texts))
            if place is not None and self._unclear is None:
                self._unclear = first + place * len(array) // array.size + 1, texts[place]
            if self._unclear is not None and self._signed:
                row, cell = self._unclear
                raise FileError(path, f"row {row}, {what}: {unclear(repr(cell))}", ALIKE)
        return shares


def _check_numbers(path: str, what: str, array: Any, remedy: str | None = None) -> None:
    if array.dtype.kind not in "fiub":
        raise FileError(path, f"{what} holds text, not numbers", remedy or "name an array of numbers")


# ---------------------------------------------------------------- some rows at a time


class StoredArray:
    """An array in a file, of which some rows at a time are read.

    Parameters
    ----------
    path, what
        The file, and the array in words.
    start : callable
        Returns a context with the array's bytes, from its header on.
    place : int or None
        Where in the file these bytes begin, if they stand there as they are.
    """

    def __init__(
        self, path: str, what: str, start: Callable[[], contextlib.AbstractContextManager[IO[bytes]]], place: int | None
    ) -> None:
        self.what = what
        self._path = path
        self._start = start
        self._place = place
        with start() as stream:
            version = np.lib.format.read_magic(stream)
            # The third version is of structured arrays, which hold no probabilities.
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            self.shape, self._fortran, self.dtype = read(stream)
            self._header = stream.tell()
        if self.dtype.hasobject:
            raise _objects(path, what)
        _check_plain(path, what, self)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __len__(self) -> int:
        return int(self.shape[0])

    def parts(self, rows: int, first: int = 0, stop: int | None = None) -> Generator[NDArray[Any], None, None]:
        """Yield the rows in their order, so many at a time."""
        stop = len(self) if stop is None else stop
        tail = self.shape[1:]
        size = math.prod(tail) * self.dtype.itemsize
        if self._fortran and math.prod(tail) > 1:
            yield from self._from_columns(rows, first, stop)
            return
        with self._start() as stream:
            stream.seek(self._header + first * size)
            for at in range(first, stop, rows):
                count = min(rows, stop - at)
                yield np.frombuffer(_take(stream, count * size), self.dtype).reshape(count, *tail)
            if stop == len(self):
                stream.read(1)  # an archive's checksum is compared at the end of its member

    def _from_columns(self, rows: int, first: int, stop: int) -> Iterator[NDArray[Any]]:
        """Yield rows of an array that is stored column after column."""
        if self._place is None:  # compressed: no column can be found without those before it
            with self._start() as stream:
                whole = np.lib.format.read_array(stream, allow_pickle=False)
            yield from (whole[at : min(at + rows, stop)] for at in range(first, stop, rows))
            return
        begin, width = self._place + self._header, math.prod(self.shape[1:])
        with open(self._path, "rb") as stream:
            for at in range(first, stop, rows):
                count = min(rows, stop - at)
                columns = np.empty((width, count), self.dtype)
                for k in range(width):
                    stream.seek(begin + (k * len(self) + at) * self.dtype.itemsize)
                    columns[k] = np.frombuffer(_take(stream, count * self.dtype.itemsize), self.dtype)
                yield columns.T.reshape(count, *self.shape[1:], order="F")


def _take(stream: IO[bytes], size: int) -> bytes:
    found = stream.read(size)
    if len(found) < size:
        msg = f"{size - len(found):,} bytes are missing"
        raise EOFError(msg)
    return found


def open_npy(path: str) -> StoredArray:
    """Look at the array of a ``.npy``, of which nothing is read yet."""
    if kind_of(path) != "npy":
        raise FileError(path, "is not a .npy", "save the targets with numpy.save")
    with reading(path, remedy=_SAVE_AGAIN):
        if zipfile.is_zipfile(path):
            raise FileError(path, "is an archive, not a single array", "rename it to .npz")
        return StoredArray(path, "the array", lambda: open(path, "rb"), 0)


@contextmanager
def open_npz(path: str, options: Options) -> Iterator[tuple[dict[str, StoredArray], Selection]]:
    """Look at the arrays of an archive that are asked for, by argument; they can be read until the end."""
    with ExitStack() as stack:
        with reading(path):
            if not zipfile.is_zipfile(path):
                with open(path, "rb") as stream:
                    np.load(stream, allow_pickle=False)  # which says what is wrong with it
                problem = "holds a single array, not an archive"
                raise FileError(path, problem, "rename it to .npy and give --targets FILE")
            archive = stack.enter_context(zipfile.ZipFile(path))
            members = {name.removesuffix(".npy"): name for name in archive.namelist()}
            selection = _select(path, list(members), options)
            loaded = {name: _stored(path, archive, name, members[name]) for name in selection.used}
            arrays = {argument: loaded[name] for argument, (name, *_) in selection.names().items()}
            for argument, array in arrays.items():
                what = f"array {selection.names()[argument][0]!r}"
                if argument == "weights":
                    _check_numbers(path, what, array)
                elif argument.startswith("probs"):
                    with closing(array.parts(1)) as parts:
                        Checked(path, what, selection.percent).probs(next(parts, np.empty(0, array.dtype)))
            _check_lengths(path, loaded, selection)
        yield arrays, selection


def _stored(path: str, archive: zipfile.ZipFile, name: str, member: str) -> StoredArray:
    info, place = archive.getinfo(member), None
    if info.compress_type == zipfile.ZIP_STORED:
        with open(path, "rb") as stream:
            stream.seek(info.header_offset + 26)
            lengths: tuple[int, int] = struct.unpack("<HH", stream.read(4))
        place = info.header_offset + 30 + sum(lengths)
    try:
        return StoredArray(path, f"array {name!r}", lambda: archive.open(member), place)
    except CalibrantError:
        raise
    except Exception as error:
        raise FileError(path, f"array {name!r} is damaged ({first_line(error)})", "save the file again") from error
