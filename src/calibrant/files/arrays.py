"""NumPy's own files: ``.npz`` archives, and a ``.npy`` with its targets in another."""

from __future__ import annotations

import contextlib
import math
import shutil
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import CalibrantError, FileError, quoted
from calibrant.files.columns import Options, Selection, select
from calibrant.files.local import located, reading
from calibrant.files.paths import kind_of
from calibrant.files.values import (
    PERCENT_REMEDY,
    Column,
    Percents,
    Piece,
    Words,
    check_per_cents,
    combined,
    cut,
    is_signed,
    joined,
)

_IN_MEMORY = 1 << 26  # bytes of an array that is stored column after column; of a larger one a file holds the copy
_STEP = 1 << 20  # bytes
_BATCH = 32_000_000  # bytes that are read of an array at a time, where a row is shorter
_ROWS = 65_536  # the same in rows, at most
_MOST_ROW = 80_000_000  # bytes of a row

Open = Callable[[], contextlib.AbstractContextManager[IO[bytes]]]


class StoredArray:
    """An array in a file, read some rows at a time.

    Parameters
    ----------
    path, what : str
        The file, and the array in words.
    start : callable
        Opens the array's bytes, from its header on.
    zipped : bool
        Whether it is the member of an archive. All bytes of a member are read, in their order, so that the archive's
        checksum is compared.
    """

    def __init__(self, path: str, what: str, start: Open, *, zipped: bool) -> None:
        self.what = what
        self._path = path
        self._start = start
        self._zipped = zipped
        with start() as stream:
            self.shape, self._by_columns, self.dtype = _read_header(stream)
        problem = None
        if self.dtype.hasobject:
            problem, remedy = "holds Python objects", "save it as numbers or strings"
        elif not self.shape:
            problem, remedy = "is a single value", "save a row for each prediction"
        elif self.dtype.kind not in "fiubUS":
            problem, remedy = f"is of type {self.dtype}", "save numbers or strings"
            remedy = "save float32; numpy has no bfloat16" if self.dtype.kind == "V" else remedy
        elif min(self.shape) < 0 or not self.width:
            problem, remedy = f"has the shape {self.shape}", "save a row of values for each prediction"
        elif self.row_bytes > _MOST_ROW:
            problem = f"has rows of {self.row_bytes:,} bytes"
            remedy = f"save rows of at most {_MOST_ROW:,} bytes"
        if problem is not None:
            raise FileError(path, f"{what} {problem}", remedy)

    @property
    def width(self) -> int:
        """How many values a row has."""
        return math.prod(self.shape[1:])

    @property
    def row_bytes(self) -> int:
        return self.width * self.dtype.itemsize

    def __len__(self) -> int:
        return int(self.shape[0])

    def head(self, rows: int) -> NDArray[Any]:
        """Return the first rows at most."""
        with closing(self.parts(rows)) as parts:
            return next(parts, np.empty(0, self.dtype))

    def parts(self, rows: int, first: int = 0, stop: int | None = None) -> Generator[NDArray[Any], None, None]:
        """Yield the rows in their order, so many at a time; of a member always all rows."""
        stop = len(self) if stop is None else stop
        tail, size = self.shape[1:], self.dtype.itemsize
        with self._start() as stream, self._seekable(stream) as (source, by_columns):
            begin = source.tell()
            if not (self._zipped or by_columns):
                source.seek(begin + first * size * self.width)
            for at in range(first, stop, rows):
                count = min(rows, stop - at)
                if not by_columns:
                    yield self._take(source, count * self.width).reshape(count, *tail)
                    continue
                columns = np.empty((self.width, count), self.dtype)
                for k in range(self.width):
                    source.seek(begin + (k * len(self) + at) * size)
                    columns[k] = self._take(source, count)
                yield columns.T.reshape(count, *tail, order="F")
            while self._zipped and source.read(_STEP):
                pass

    @contextmanager
    def _seekable(self, stream: IO[bytes]) -> Iterator[tuple[IO[bytes], bool]]:
        """Yield the values of an array, and whether they are stored column after column.

        Of a member of an archive that is, it is a copy, whose checksum is right and in which any column can be sought.
        A wide array is written row after row: there would be more columns to seek than rows.
        """
        _read_header(stream)
        if not self._by_columns or not (self._zipped or self.width > len(self)):
            yield stream, self._by_columns
            return
        with tempfile.SpooledTemporaryFile(_IN_MEMORY) as copy:
            if self.width <= len(self):
                shutil.copyfileobj(stream, copy, _STEP)
            else:
                self._write_rows(stream, copy)
            copy.seek(0)
            yield copy, self.width <= len(self)

    def _write_rows(self, stream: IO[bytes], copy: IO[bytes]) -> None:
        """Copy an array row after row, some columns at a time."""
        rows, size = len(self), self.dtype.itemsize
        step = max(1, _BATCH // max(rows * size, 1))
        for first in range(0, self.width, step):
            columns = min(step, self.width - first)
            values = self._take(stream, columns * rows).reshape(columns, rows)
            for row in range(rows):
                copy.seek((row * self.width + first) * size)
                copy.write(np.ascontiguousarray(values[:, row]).tobytes())
        while stream.read(_STEP):  # the checksum of a member is that of all its bytes
            pass

    def _take(self, stream: IO[bytes], count: int) -> NDArray[Any]:
        size = count * self.dtype.itemsize
        data = stream.read(size)
        if len(data) < size:
            msg = f"{size - len(data):,} bytes are missing"
            raise EOFError(msg)
        return np.frombuffer(data, self.dtype)


def _read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return the shape of an array, whether it is stored column after column, and its type."""
    version = np.lib.format.read_magic(stream)
    # The third version is of structured arrays, which hold no probabilities.
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, by_columns, dtype = read(stream)
    return shape, by_columns and len(shape) > 1 and math.prod(shape[1:]) > 1, dtype


def pieces(
    path: str, stored: Mapping[str, StoredArray], selection: Selection, firsts: Mapping[str, int], stop: int
) -> Generator[Piece, None, None]:
    """Yield arrays, given by their names, by argument and some rows at a time.

    They are read from row 0 on, or from the row in ``firsts``, as many rows as ``stop``.

    Raises
    ------
    FileError
        For text where numbers are expected, and what is no per cent.
    """
    columns = _Columns(path, selection, stored)
    rows = max(1, min(_ROWS, _BATCH // sum(array.row_bytes for array in stored.values())))
    used = {name: stored[name] for name in selection.used}
    with reading(path):
        for arrays in _parts(used, rows, firsts, stop):
            yield {
                argument: columns.column(argument, {name: arrays[name] for name in names})
                for argument, names in selection.names().items()
            }
            columns.start += len(next(iter(arrays.values())))
        columns.check_per_cents()


def _parts(
    stored: Mapping[str, StoredArray], rows: int, firsts: Mapping[str, int], stop: int | None
) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield so many rows of several arrays at a time, by the arrays' names."""
    with ExitStack() as stack:
        parts = []
        for name, array in stored.items():
            first = firsts.get(name, 0)
            last = None if stop is None else first + stop
            parts.append(stack.enter_context(closing(array.parts(rows, first, last))))
        for together in zip(*parts, strict=True):
            yield dict(zip(stored, together, strict=True))


class _Columns:
    """Columns of arrays, some rows after the other; ``start`` is the position of the next row."""

    def __init__(self, path: str, selection: Selection, stored: Mapping[str, StoredArray]) -> None:
        self.start = 0
        self._path = path
        self._selection = selection
        self._stored = stored
        self._percents: dict[str, Percents] = {}

    def column(self, argument: str, arrays: dict[str, NDArray[Any]]) -> Column:
        """Return the next rows of an argument: names as words, per cents as fractions, other arrays unchanged."""
        selection = self._selection
        if argument in ("clusters", "keys"):
            return combined(list(arrays.values()))
        if argument == "groups":
            return joined([cut(Words.of(array), selection.cuts.get(name)) for name, array in arrays.items()])
        ((name, array),) = arrays.items()
        is_text = array.dtype.kind in "US"
        if argument == "targets":
            are_words = array.ndim == 1 and (is_text or selection.spellings)
            return Words.of(array).spelled(selection.spellings) if are_words else array
        is_probs = argument.startswith("probs")
        if is_probs and selection.percent:
            return self._fractions(name, Words.of(array.reshape(-1)) if is_text else array, array.shape)
        if is_text:
            signed = is_probs and array.size > 0 and is_signed(str(array.astype(str).flat[0]))
            remedy = PERCENT_REMEDY if signed else "name an array of numbers"
            raise FileError(self._path, f"{self._stored[name].what} holds text, not numbers", remedy)
        return array

    def _fractions(self, name: str, values: Column, shape: tuple[int, ...]) -> NDArray[Any]:
        def place(row: int) -> str:
            return f"row {row + 1}, {self._stored[name].what}"

        percents = Percents(self._path, place, lambda _: "correct it before the array is saved")
        percents = self._percents.setdefault(name, percents)
        return percents.fractions(values, self.start, math.prod(shape[1:])).reshape(shape)

    def check_per_cents(self) -> None:
        """Reject an array that was read as per cents and may hold fractions."""
        for name, percents in self._percents.items():
            check_per_cents(self._path, (self._stored[name].what,), percents.largest)


def open_npy(path: str) -> StoredArray:
    """Look at the array of a ``.npy``; nothing is read yet."""
    if kind_of(path) != "npy":
        raise FileError(path, "is not a .npy", "save the targets with numpy.save")
    with reading(path, remedy="save it again with numpy.save, as a plain array"):
        if zipfile.is_zipfile(located(path)):
            raise FileError(path, "is an archive, not a single array", "rename it to .npz")
        return StoredArray(path, "the array", lambda: open(located(path), "rb"), zipped=False)


def open_npz(path: str, options: Options) -> tuple[dict[str, StoredArray], Selection]:
    """Look at the arrays of an archive that are asked for, by their names; nothing but their heads is read yet."""
    with reading(path):
        selection = select(path, array_names(path), options, noun="array")
        for argument, names in selection.names().items():
            if len(names) > 1 and argument not in ("clusters", "groups", "keys"):
                raise FileError(path, f"{argument} are one array, got {', '.join(names)}", "name one array")
        stored = {name: _member(path, name) for name in selection.used}
        _check_lengths(path, stored, selection)
    return stored, selection


def rows_of(
    paths: Sequence[str], targets_file: str | None, name: str, ignored: tuple[str, int] | None
) -> Iterator[NDArray[Any]]:
    """Yield an array of several archives some rows at a time, without the rows where another has a value.

    With a file of targets the paths are arrays, whose name is "probs", and the file's is "targets".
    """
    first = 0
    for path in paths:
        with reading(path):
            names = dict.fromkeys((name, name if ignored is None else ignored[0]))
            if targets_file is None:
                n_rows, stored = None, {each: _member(path, each) for each in names}
            else:
                n_rows = len(open_npy(path))
                stored = {each: open_npy(targets_file if each == "targets" else path) for each in names}
            for arrays in _parts(stored, _ROWS, {"targets": first} if targets_file else {}, n_rows):
                yield arrays[name] if ignored is None else arrays[name][arrays[ignored[0]] != ignored[1]]
            first += n_rows or 0


def first_rows(path: str, rows: int, names: Sequence[str]) -> dict[str, list[Any]]:
    """Return the first rows at most of those of an archive's arrays that can be read."""
    cells = {}
    with reading(path):
        for name in names:
            with contextlib.suppress(CalibrantError):
                cells[name] = _member(path, name).head(rows).tolist()
    return cells


def array_names(path: str) -> list[str]:
    """Return the names of an archive's arrays."""
    if not zipfile.is_zipfile(located(path)):
        with open(located(path), "rb") as stream:
            np.load(stream, allow_pickle=False)  # raises an error that says what is wrong, if it is no array either
        raise FileError(path, "holds a single array, not an archive", "rename it to .npy and give --targets FILE")
    with zipfile.ZipFile(located(path)) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
    for name, count in Counter(names).items():
        if count > 1:
            raise FileError(path, f"has {count} arrays named {quoted(name)}", "save the file again with one of them")
    return names


def _member(path: str, name: str) -> StoredArray:
    @contextmanager
    def start() -> Iterator[IO[bytes]]:
        with zipfile.ZipFile(located(path)) as archive:
            member = f"{name}.npy" if f"{name}.npy" in archive.namelist() else name
            with archive.open(member) as stream:
                yield stream

    with reading(path, "save the file again", f"array {quoted(name)} is damaged"):
        return StoredArray(path, f"array {quoted(name)}", start, zipped=True)


def _check_lengths(path: str, loaded: dict[str, StoredArray], selection: Selection) -> None:
    """Refuse arrays of different numbers of rows, and say which one looks transposed."""
    name = selection.probs[0]
    probs = loaded[name]
    for other, array in loaded.items():
        if len(array) == len(probs):
            continue
        remedy = "save arrays of the same length"
        if other in selection.targets and array.shape == probs.shape[:0:-1] + probs.shape[:1]:
            remedy = f"{quoted(other)} looks transposed: save {other}.T"
        elif len(probs.shape) == 2 and len(array) == probs.shape[1]:
            remedy = f"{quoted(name)} looks transposed: save {name}.T, a row for each prediction"
        problem = f"array {quoted(other)} has {len(array):,} rows and {quoted(name)} has {len(probs):,}"
        raise FileError(path, problem, remedy)
