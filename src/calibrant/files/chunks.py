"""What a thread reads for the main thread: the rows of files, in chunks of a fixed number of rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from calibrant.errors import FileError, quoted
from calibrant.files.columns import Selection
from calibrant.files.local import located
from calibrant.files.sketches import MOST_CURVES
from calibrant.files.sources import Opened, Source
from calibrant.files.values import Column, Piece, join, rows_of
from calibrant.inputs.predictions import Notion
from calibrant.inputs.weights import WeightsAre
from calibrant.table.grid import Grid

#: The least numbers in a chunk, and its least rows where every class is judged. PyArrow writes row groups of as many
#: rows, so that columns of one event are handed on without a copy.
_CHUNK: Final = 1 << 20
_CHUNK_OF_CLASSES: Final = 16_384

#: Called with the bytes done, the bytes in all, and the rows.
Progress = Callable[[int, int, int], None]


@dataclass(frozen=True)
class Judging:
    """What is judged, as in `calibrant.evaluate`; ``classwise`` is None for classes if they are few enough."""

    notion: Notion | None = None
    classwise: bool | None = None
    ignore_index: int | None = None
    logits: bool = False
    grid: Grid = "standard"
    weights_are: WeightsAre | None = None


class TooMany(FileError):
    """More groups or classes than a sketch has curves for: --keep-going cannot leave them out."""


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some rows of a file, from row ``start`` on, counted from 0."""

    source: Source
    start: int
    arrays: Piece


@dataclass(frozen=True, eq=False)
class End:
    """All rows of a file have been handed over, or those before an error."""

    source: Source
    rows: int
    error: FileError | None


@dataclass(frozen=True)
class Plan:
    """What a sketch of predictions with so many probabilities in a row has: `curves` for all rows and each group.

    ``classes`` are the classes with a curve; the event that is judged may have another one.
    """

    classwise: bool
    curves: int
    chunk: int
    classes: int = 0

    @classmethod
    def of(cls, width: int, judging: Judging, selection: Selection) -> Plan:
        """Decide by the first rows of all whether classes are judged."""
        several, classwise = width > 1, judging.classwise
        if classwise is None:
            classwise = several and not selection.groups and width < MOST_CURVES
        per_class, classes = judging.notion in ("classwise", "multilabel"), bool(classwise) and several
        curves = width if per_class else 1 + width * classes
        per_row = _CHUNK_OF_CLASSES if (per_class or classes) and curves <= MOST_CURVES else 1
        return cls(classwise, curves, max(-(-_CHUNK // width), per_row), width * (per_class or classes))

    def check(self, source: Source, groups: int, *, kept: bool) -> None:
        """Reject more classes or groups than a sketch has curves for; the rows may be kept, and need none."""
        if self.curves > MOST_CURVES:
            most = MOST_CURVES - (self.curves - self.classes)
            problem = f"has more classes than a sketch keeps the curves of: {self.classes:,}, and {most:,} fit"
            remedy = "leave --sketch out" if kept else "pass --exact to keep all rows, if they fit into memory"
            raise TooMany(source.path, problem, remedy)
        most = max(MOST_CURVES // self.curves - 1, 0)
        if groups > most:
            problem = f"column {quoted(', '.join(source.selection.groups))} names more than {most:,} groups"
            option = "leave --sketch out" if kept else "pass --exact to keep all rows"
            remedy = f"a sketch of each takes too much memory: name a column of fewer, or {option}"
            raise TooMany(source.path, problem, remedy)


def chunks(
    opened: Opened, judging: Judging, left_out: Collection[Source], keep_going: bool, progress: Progress | None
) -> Iterator[Chunk | End]:
    """Yield the rows of all files in chunks, and the end of each file; a file that is left out ends early."""
    sizes = {source: os.path.getsize(located(source.path)) for source in opened.sources}
    total, done, rows_done, size = sum(sizes.values()), 0, 0, 0
    dtype = np.result_type(*(source.dtype for source in opened.sources))
    for source in opened.sources:
        blocks, expected, failure = _Blocks(source), source.guess_rows(), None
        try:
            for piece in filter(rows_of, source.pieces(opened.first)):
                probs = piece.get("probs")
                if isinstance(probs, np.ndarray) and dtype.kind == "f":  # all files' type decides about the cells
                    piece["probs"] = probs.astype(dtype, copy=False)
                if not size:
                    size = Plan.of(width_of(piece), judging, opened.first).chunk
                yield from blocks.add(piece, size)
                if progress is not None:
                    part = int(sizes[source] * min(blocks.rows / expected, 1.0))
                    progress(done + part, total, rows_done + blocks.rows)
                if source in left_out:
                    break
            yield from blocks.rest()
        except FileError as error:
            if not keep_going:
                raise
            failure = error
        done, rows_done = done + sizes[source], rows_done + blocks.rows
        if progress is not None:
            progress(done, total, rows_done)
        yield End(source, blocks.rows, failure)


def width_of(piece: Piece) -> int:
    """Return how many probabilities a row has."""
    probs = next(column for argument, column in piece.items() if argument.startswith("probs"))
    return 1 if len(probs.shape) == 1 else max(probs.shape[1], 1)


class _Blocks:
    """Rows of one file, cut into as many at a time as are wanted."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._waiting: list[Piece] = []
        self._handed_on = 0
        self.rows = 0

    def add(self, piece: Piece, size: int) -> Iterator[Chunk]:
        """Take more rows, and yield chunks of ``size`` rows; rows of another shape begin a new chunk."""
        if self._waiting and _shapes(self._waiting[0]) != _shapes(piece):
            yield from self.rest()
        self._waiting.append(piece)
        self.rows += rows_of(piece)
        while self.rows - self._handed_on >= size:
            yield self._cut(size)

    def rest(self) -> Iterator[Chunk]:
        """Yield the rows that are left."""
        if self.rows > self._handed_on:
            yield self._cut(self.rows - self._handed_on)

    def _cut(self, size: int) -> Chunk:
        last = self._waiting.pop()
        place = rows_of(last) - (self.rows - self._handed_on - size)
        pieces = [*self._waiting, {name: column[:place] for name, column in last.items()}]
        self._waiting = [{name: column[place:] for name, column in last.items()}] if place < rows_of(last) else []
        self._handed_on += size
        joined = {name: join([piece[name] for piece in pieces]) for name in last}
        return Chunk(self._source, self._handed_on - size, joined)


def _shapes(piece: Piece) -> list[tuple[tuple[int, ...], bool]]:
    return [kind_of_rows(column) for column in piece.values()]


def kind_of_rows(column: Column) -> tuple[tuple[int, ...], bool]:
    """Return the shape of a row's values, and whether they are text."""
    return column.shape[1:], column.dtype.kind in "UO"
