"""What a thread reads for the main thread: the rows of files, in chunks of a fixed number of rows.

It looks at some columns first: the numbers of `--by`, dates in it, and the questions of evaluation logs.
"""

from __future__ import annotations

import os
import queue
import re
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, nullcontext, suppress
from dataclasses import replace
from typing import Any, Final, Generic, TypeVar, cast

import numpy as np

from calibrant.errors import FileError, quoted
from calibrant.files.column_options import ColumnSelection, Options
from calibrant.files.column_values import Column, Piece, Values, ValueWords, join, rows_of
from calibrant.files.engine import Engines
from calibrant.files.local import located
from calibrant.files.log_rows import QUESTION
from calibrant.files.logs import name_questions
from calibrant.files.sketches import MOST_CURVES
from calibrant.files.sources import FileSource, Opened
from calibrant.files.sql import parse_expression, period, year_of
from calibrant.inputs.group_rows import group_name
from calibrant.inputs.predictions import Notion
from calibrant.inputs.weights import WeightsAre
from calibrant.runtime.dataclass import dataclass
from calibrant.table.grid import Grid

Item = TypeVar("Item")

_PATIENCE = 0.1  # seconds between two looks


class Background(Generic[Item]):
    """The items of an iterator, made on another thread while earlier ones are used.

    Signals reach the main thread alone, and engines do not look at them. So the main thread waits here, where Ctrl-C
    ends the wait, and leaving the context stops the other thread. It is a daemon: an executor's thread would keep the
    process alive where Ctrl-C comes before the context is entered.
    """

    def __init__(self, items: Iterator[Item], interrupt: Callable[[], None] = lambda: None) -> None:
        self._items = items  # advanced, and closed, on the other thread alone
        self._interrupt = interrupt  # cuts short, from the main thread, what the other thread waits for
        self._stopped = threading.Event()
        #: A single item is made before it is asked for: items take memory.
        self._made: queue.Queue[tuple[Item | None, BaseException | None]] = queue.Queue(1)
        self._thread = threading.Thread(target=self._work, name="calibrant-reader", daemon=True)

    def __enter__(self) -> Background[Item]:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        while self._thread.is_alive():
            self._interrupt()
            self._thread.join(_PATIENCE)

    def __iter__(self) -> Iterator[Item]:
        while True:
            try:
                item, error = self._made.get(timeout=_PATIENCE)  # without a timeout, some systems hold signals back
            except queue.Empty:
                continue
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            yield item  # type: ignore[misc]  # an item may itself be None

    def _work(self) -> None:
        try:
            for item in self._items:
                if not self._put(item, None):
                    break
            else:
                self._put(None, StopIteration())
        except BaseException as error:  # raised again where the items are used
            self._put(None, error)
        finally:
            close: Any = getattr(self._items, "close", None)
            if close is not None:
                close()

    def _put(self, item: Item | None, error: BaseException | None) -> bool:
        """Hand on an item as soon as the queue takes it; return whether it is still wanted."""
        while not self._stopped.is_set():
            try:
                self._made.put((item, error), timeout=_PATIENCE)
            except queue.Full:
                continue
            return True
        return False


#: The least numbers in a chunk, and its least rows where every class is evaluated. PyArrow writes row groups of as many
#: rows, so that columns of one event are handed on without a copy.
_CHUNK: Final = 1 << 20
_CHUNK_OF_CLASSES: Final = 16_384

#: Called with the bytes done, the bytes in all, and the rows.
Progress = Callable[[int, int, int], None]


@dataclass(frozen=True)
class Judging:
    """What is evaluated, as in `calibrant.evaluate`; ``classwise`` is None for classes if they are few enough."""

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

    source: FileSource
    start: int
    arrays: Piece


@dataclass(frozen=True, eq=False)
class End:
    """All rows of a file have been handed over, or those before an error."""

    source: FileSource
    rows: int
    error: FileError | None


@dataclass(frozen=True)
class Plan:
    """What a sketch of predictions with so many probabilities in a row has: `curves` for all rows and each group.

    ``classes`` are the classes with a curve; the event that is evaluated may have another one.
    """

    classwise: bool
    curves: int
    chunk: int
    classes: int = 0

    @classmethod
    def of(cls, width: int, judging: Judging, selection: ColumnSelection) -> Plan:
        """Decide by the first rows of all whether classes are evaluated."""
        several, classwise = width > 1, judging.classwise
        if classwise is None:
            classwise = several and not selection.groups and width < MOST_CURVES
        per_class, classes = judging.notion in ("classwise", "multilabel"), bool(classwise) and several
        curves = width if per_class else 1 + width * classes
        per_row = _CHUNK_OF_CLASSES if (per_class or classes) and curves <= MOST_CURVES else 1
        return cls(classwise, curves, max(-(-_CHUNK // width), per_row), width * (per_class or classes))

    def check(self, source: FileSource, groups: int, *, kept: bool) -> None:
        """Reject more classes or groups than a sketch has curves for; the rows may be kept, and need none."""
        if self.curves > MOST_CURVES:
            most = MOST_CURVES - (self.curves - self.classes)
            problem = f"has {self.classes:,} classes, but a sketch supports at most {most:,}"
            remedy = "leave --sketch out" if kept else "pass --exact to keep all rows, if the rows fit into memory"
            raise TooMany(source.path, problem, remedy)
        most = max(MOST_CURVES // self.curves - 1, 0)
        if groups > most:
            problem = f"column {quoted(', '.join(source.selection.groups))} has more than {most:,} groups"
            option = "leave --sketch out" if kept else "pass --exact to keep all rows"
            remedy = f"sketches of so many groups take too much memory; name a column with fewer groups, or {option}"
            raise TooMany(source.path, problem, remedy)


def chunks(
    opened: Opened, judging: Judging, left_out: Collection[FileSource], keep_going: bool, progress: Progress | None
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

    def __init__(self, source: FileSource) -> None:
        self._source = source
        self._waiting: list[Piece] = []
        self._handed_on = 0
        self.rows = 0

    def add(self, piece: Piece, size: int) -> Iterator[Chunk]:
        """Take more rows, and yield chunks of ``size`` rows; rows of another shape begin a new chunk."""
        kinds = [list(map(kind_of_rows, each.values())) for each in (*self._waiting[:1], piece)]
        if kinds[0] != kinds[-1]:
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


def kind_of_rows(column: Column) -> tuple[tuple[int, ...], bool]:
    """Return the shape of a row's values, and whether they are text."""
    return column.shape[1:], column.dtype.kind in "UO"


# ---------------------------------------------------------------- a look at the rows before they are read


def with_years(opened: Opened, engines: Engines) -> Opened:
    """Return the files with a caution where a part of dates in `--by`, such as the quarter, puts years together.

    What cannot be read is said by the pass over all columns.
    """
    first = opened.first
    for name, year in _years(opened, engines).items():
        years: dict[str, set[int]] = {}
        for source in opened.sources:
            asked = replace(_groups_alone(source), clusters=(year,))
            with suppress(FileError), closing(source.pieces(asked)) as pieces:
                for piece in pieces:
                    engines.check()
                    words, years_of_rows = cast("ValueWords", piece["groups"]), np.asarray(piece["clusters"])
                    for code in np.unique(words.codes):
                        held = np.unique(years_of_rows[words.codes == code]).tolist()
                        years.setdefault(group_name(words.names[code]), set()).update(held)
        pooled = next((held for held in years.values() if len(held) > 1), None)
        if pooled is not None:
            together = f"{min(map(min, years.values()))} to {max(map(max, years.values()))}"
            caution = (
                f"--by {quoted(name)} puts rows of the years {together} into the same groups; for groups of each "
                f"year, add --by {quoted(year)}"
            )
            notes = {**opened.notes, "groups": f"{first.sources()['groups']} ({together} together)"}
            return replace(opened, notes=notes, cautions=(caution,))
    return opened


def _years(opened: Opened, engines: Engines) -> dict[str, str]:
    """Return the SQL of the years of dates whose parts `--by` takes, by its expressions."""
    years: dict[str, str] = {}
    for name in opened.first.groups:
        if opened.first.noun == "column" and not re.fullmatch(r"\w+", name) and period(name) == name:
            with engines.connection("for --by") as connection, suppress(Exception):
                tree = parse_expression(connection, name)
                year = None if tree is None else year_of(tree, name)
                years |= {} if year is None else {name: year}
    return years


def with_questions(opened: Opened, options: Options, check: Callable[[], None], keep_going: bool) -> Opened:
    """Return the files with questions as clusters, if logs answer a question several times: epochs, models, prompts.

    Without repeated questions the rows are independent, and no clusters are named.
    """
    sources = opened.sources
    if options.clusters or not name_questions([source.path for source in sources]):
        return opened
    names, rows = set[object](), 0
    for source in sources:
        with suppress(FileError) if keep_going else nullcontext():
            for words in _column(source, QUESTION, check):
                names.update(words.names.tolist())
                rows += len(words)
    return opened if len(names) >= rows else replace(opened, first=replace(opened.first, clusters=(QUESTION,)))


def with_cuts(opened: Opened, options: Options, check: Callable[[], None], keep_going: bool) -> Opened:
    """Return the files with the cuts of each column of many numbers, unless all values are to be kept.

    One pass over these columns alone, for groups that do not depend on the order of the rows. It ends at the first
    name. With ``keep_going`` it skips what cannot be read: the pass over all columns names such files.
    """
    first = opened.first
    if not first.groups or options.by_values:
        return opened
    columns = {name: Values() for name in first.groups}
    for source in opened.sources:
        for name, values in columns.items():
            with suppress(FileError) if keep_going else nullcontext():
                for words in _column(source, name, check):
                    values.add(words)
                    if not values.numbers:
                        break
    cuts = {name: cut for name, values in columns.items() if (cut := values.cuts()) is not None}
    return replace(opened, first=replace(first, cuts=cuts))


def _column(source: FileSource, name: str, check: Callable[[], None]) -> Iterator[ValueWords]:
    """Yield the values of one column of a file, some rows at a time."""
    with closing(source.pieces(replace(_groups_alone(source), groups=(name,)))) as pieces:
        for piece in pieces:
            check()
            yield cast("ValueWords", piece["groups"])


def _groups_alone(source: FileSource) -> ColumnSelection:
    return replace(source.selection, probs=(), targets=(), weights=None, models=(), clusters=(), keys=())
