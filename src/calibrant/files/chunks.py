"""What is read on its way to a sketch: in chunks of a fixed number of rows, whatever comes at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.errors import FileError
from calibrant.files.codes import Coder
from calibrant.files.meter import Meter
from calibrant.files.reading import Kept
from calibrant.files.sizes import MOST_NUMBERS, MOST_ROWS
from calibrant.files.sources import Opened, Source
from calibrant.files.tabular import Alike, Piece, as_labels, rows_of
from calibrant.inputs import group_name


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some rows of a file, from row ``start`` on, counted from 0."""

    source: Source
    start: int
    arrays: Piece


@dataclass(frozen=True, eq=False)
class Trial(Chunk):
    """Rows that are kept, to be judged only; ``coders`` know the names in them."""

    coders: Mapping[str, Coder]


@dataclass(frozen=True, eq=False)
class End:
    """All rows of a file have been handed over."""

    source: Source
    rows: int


@dataclass(frozen=True, eq=False)
class Failure:
    """A file cannot be read, and is left out: none of its rows counts."""

    source: Source
    error: FileError


class TooMany(FileError):
    """More groups or classes than a sketch is made of: no fault of one file."""


class Feed:
    """The rows of files, in chunks for a sketch; or all of them as they are, while these are few.

    Parameters
    ----------
    opened : Opened
        The files.
    plan : callable
        From the first rows of all to the rows of a chunk and the groups there may be.
    keep : bool or None
        Whether all rows are kept as they are; None to keep them if they are few.
    keep_going : bool
        Whether a file that cannot be read is left out.
    """

    def __init__(
        self,
        opened: Opened,
        plan: Callable[[Piece], tuple[int, int]],
        meter: Meter,
        *,
        keep: bool | None,
        keep_going: bool,
    ) -> None:
        self._opened = opened
        self._plan = plan
        self._meter = meter
        self._keep = keep
        self._keep_going = keep_going
        self._kept = None if keep is False else Kept(opened)
        self._dtype = np.result_type(*(source.dtype for source in opened.sources))
        self._alike = Alike()
        self._groups = 0
        self._judged = threading.Event()
        self._stopped = False
        #: The rows of a chunk; 0 before the first rows.
        self.size = 0
        #: Files of which no more rows are wanted.
        self.dropped: set[Source] = set()
        #: The numbers of targets and of groups, in use from when rows are no longer kept.
        self.coders: dict[str, Coder] = {}

    def items(self) -> Iterator[Chunk | End | Failure | Kept]:
        """Yield what is read, in the order of the files; or in the end, once, all that was kept."""
        if self._kept is None:
            self.begin_coding()
        for source in self._opened.sources:
            rows, blocks = 0, _Blocks(source, self.size)
            expected = source.guess_rows()
            try:
                for piece in source.pieces(self._alike, self.coders):
                    rows += rows_of(piece)
                    if not self.size:
                        self.size, self._groups = self._plan(piece)
                        blocks = _Blocks(source, self.size)
                    yield from self._take(self._like_all(piece), source, blocks)
                    if self._is_foreign(piece):
                        yield from blocks.rest()  # for the error that comes of it
                    self._meter.report(source.path, rows, expected)
                    if source in self.dropped:
                        break
            except TooMany:
                raise
            except FileError as error:
                if not self._keep_going or self._stopped:
                    raise
                self._alike.forget(source.path)
                if self._kept is not None:
                    self._kept.leave_out()
                self._meter.finish(source.path, rows)
                yield Failure(source, error)
                continue
            yield from blocks.rest()
            self._meter.finish(source.path, rows)
            if self._kept is None:
                yield from self._end(source, rows)
            elif not self._keep_going:
                self._kept.finish(source)
            else:
                yield from self._tried(source, rows, self._kept)
        if self._kept is not None:
            yield self._kept

    def _end(self, source: Source, rows: int) -> Iterator[End]:
        """Hand on the end of a file; one that may be left out settles nothing for others until it is judged."""
        yield End(source, rows)
        if self._keep_going and not self._stopped:
            self._judged.wait()
            self._judged.clear()
        if source in self.dropped:
            self._alike.forget(source.path)

    def _tried(self, source: Source, rows: int, kept: Kept) -> Iterator[Trial | End]:
        """Have the rows of a file judged that are kept; where they cannot be, take them back."""
        coders = self._new_coders()
        if rows:
            arrays = {name: array for name, array in kept.last().items() if name != "groups"}  # which are names anyhow
            arrays = self.coded(arrays, coders)
            for start in range(0, rows, self.size):
                piece = {name: array[start : start + self.size] for name, array in arrays.items()}
                yield Trial(source, start, piece, coders)
        yield from self._end(source, rows)
        if source in self.dropped:
            kept.leave_out()
        else:
            kept.finish(source)

    def judged(self) -> None:
        """Say, from where the rows are judged, that all of a file are."""
        self._judged.set()

    def stop(self) -> None:
        """Wait for nobody any more."""
        self._stopped = True
        self._judged.set()

    def _take(self, piece: Piece, source: Source, blocks: _Blocks) -> Iterator[Chunk | End]:
        """Keep rows, or hand them on; and where they have become too many, all that were kept."""
        if self._kept is None:
            self._check_groups(source)
            yield from blocks.add(piece)
            return
        width = 1 if piece["probs"].ndim == 1 else piece["probs"].shape[1]
        rows = max(sum(self._kept.counts) + self._kept.own + rows_of(piece), self._opened.rows or 0)
        if self._keep or (rows <= MOST_ROWS and rows * width <= MOST_NUMBERS):
            self._kept.add(piece)
            return
        kept, self._kept = self._kept, None
        self.begin_coding()
        if kept.counts or kept.own:
            arrays, first = self.coded(kept.arrays()), 0
            self._check_groups(source)
            for own, count in zip((*kept.sources, source), (*kept.counts, kept.own), strict=True):
                before = blocks if own is source else _Blocks(own, self.size)
                yield from before.add({name: array[first : first + count] for name, array in arrays.items()})
                if own is not source:
                    yield from before.rest()
                    yield from self._end(own, count)
                first += count
        piece = self.coded(piece)
        self._check_groups(source)
        yield from blocks.add(piece)

    def _like_all(self, piece: Piece) -> Piece:
        """Return rows whose probabilities are of the type of all files', by which their cells are told."""
        if self._dtype.kind == "f" and "probs" in piece:
            piece["probs"] = piece["probs"].astype(self._dtype, copy=False)
        return piece

    def begin_coding(self) -> None:
        """Have names of groups and of targets read as numbers from now on."""
        self.coders |= self._new_coders()

    def _new_coders(self) -> dict[str, Coder]:
        coders = {"targets": Coder(self._opened.first.class_names or ())}
        return coders if self._opened.first.groups is None else {**coders, "groups": Coder(spelled=group_name)}

    def coded(self, arrays: Piece, coders: Mapping[str, Coder] | None = None) -> Piece:
        """Return arrays with the numbers of groups, and of targets that are text or labels."""
        coders = self.coders if coders is None else coders
        if "targets" not in arrays:
            return arrays
        first, found = self._opened.first, dict(arrays)
        if "groups" in arrays:
            found["groups"] = coders["groups"].codes_of(arrays["groups"])
        targets = arrays["targets"]
        if targets.ndim == 1 and first.labels and first.class_names is not None:
            targets = as_labels(targets, first.class_names)
        if targets.dtype.kind in "UO":
            del found["targets"]
            found["labels"] = coders["targets"].codes_of(targets)
        return found

    def _is_foreign(self, piece: Piece) -> bool:
        """Whether a target is none of the known names."""
        return "labels" in piece and bool(piece["labels"].max(initial=-1) >= self.coders["targets"].known)

    def _check_groups(self, source: Source) -> None:
        coder = self.coders.get("groups")
        if coder is not None and len(coder.names) > self._groups:
            problem = f"column {self._opened.first.groups!r} names more than {self._groups:,} groups"
            remedy = "a sketch of each takes too much memory: name a column of fewer, or pass --exact to keep all rows"
            raise TooMany(source.path, problem, remedy)


class _Blocks:
    """Rows of one file, cut into as many at a time as are wanted."""

    def __init__(self, source: Source, size: int) -> None:
        self._source = source
        self._size = size
        self._start = 0
        self._rows = 0
        self._waiting: list[Piece] = []

    def add(self, piece: Piece) -> Iterator[Chunk]:
        """Take more rows, and yield what is whole."""
        self._waiting.append(piece)
        self._rows += rows_of(piece)
        while self._rows >= self._size:
            yield self._cut(self._size)

    def rest(self) -> Iterator[Chunk]:
        """Yield what is left at the end of the file."""
        if self._rows:
            yield self._cut(self._rows)

    def _cut(self, size: int) -> Chunk:
        parts: list[Piece] = []
        missing = size
        while missing:
            piece = self._waiting.pop(0)
            rows = rows_of(piece)
            if rows > missing:
                self._waiting.insert(0, {name: array[missing:] for name, array in piece.items()})
                piece, rows = {name: array[:missing] for name, array in piece.items()}, missing
            parts.append(piece)
            missing -= rows
        arrays: dict[str, Any] = parts[0]
        if len(parts) > 1:
            arrays = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        chunk = Chunk(self._source, self._start, arrays)
        self._start += size
        self._rows -= size
        return chunk
