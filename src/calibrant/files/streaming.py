"""Files of any size: read in chunks into a sketch, or kept as they are while they are small."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.errors import InputError
from calibrant.files.ahead import Ahead
from calibrant.files.chunks import Chunk, End, Failure, Feed, TooMany, Trial
from calibrant.files.codes import Coder
from calibrant.files.columns import Options
from calibrant.files.engine import Engines
from calibrant.files.meter import Meter, Progress
from calibrant.files.predictions import BadRows, FilePredictions, FileRows, FileSketch, Omitted
from calibrant.files.reading import Kept, check_some, described
from calibrant.files.sizes import MOST_CURVES, chunk_rows
from calibrant.files.sources import Opened, Source, open_sources
from calibrant.files.tabular import Piece, rows_of
from calibrant.grid import Grid
from calibrant.inputs import SURE, Notion, as_predictions, check_logits
from calibrant.sketch import CalibrationSketch


@dataclass(frozen=True)
class Judging:
    """What is judged, as in `calibrant.evaluate`; ``classwise`` is None for classes if they are few enough."""

    notion: Notion | None = None
    classwise: bool | None = None
    ignore_index: int | None = None
    logits: bool = False
    grid: Grid = "standard"


def stream_predictions(
    patterns: Sequence[str],
    *,
    score: str | None = None,
    outcome: str | None = None,
    probs: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    by: str | None = None,
    percent: bool = False,
    where: str | None = None,
    targets_file: str | None = None,
    class_names: Sequence[str] | None = None,
    labels: Sequence[str] | None = None,
    notion: Notion | None = None,
    classwise: bool | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
    grid: Grid = "standard",
    keep_going: bool = False,
    progress: Progress | None = None,
) -> FileSketch:
    """Read predictions of any number from files into a sketch, in constant memory.

    Files, columns and cells are those of `read_predictions`, and what cannot be read as it stands is an error here as
    well. The counts of the sketch are those of a `CalibrationSketch` that is updated with the arrays; its bits depend
    on the rows and their order alone, on no number of threads.

    Parameters
    ----------
    patterns, score, outcome, probs, target, weight, by, percent, where, targets_file, class_names, labels, progress
        As in `read_predictions`. With ``by`` the sketch has a sketch of each group.
    notion, ignore_index, logits, grid
        As in `CalibrationSketch` and its update.
    classwise : bool or None
        Whether every class's own curve is kept; by default where there are few enough, and no groups.
    keep_going : bool
        Whether a file that cannot be used as it stands is left out as a whole, and the rest counted.

    Returns
    -------
    FileSketch
        The sketch, and what it was read from.

    Raises
    ------
    FileError
        Naming the file, the row or column, and the remedy.
    BadRows
        For rows that cannot be judged: an `InputError`, with the way back to the file.
    MissingDependencyError
        Where the ``report`` extra is not installed and the file needs it.
    """
    options = Options(
        score,
        outcome,
        probs,
        target,
        weight,
        where,
        None if class_names is None else tuple(class_names),
        by=by,
        percent=percent,
        labels=None if labels is None else tuple(labels),
    )
    judging = Judging(notion, classwise, ignore_index, logits, grid)
    found = read_or_stream(
        patterns, options, judging, targets_file=targets_file, keep=False, keep_going=keep_going, progress=progress
    )
    if not isinstance(found, FileSketch):
        msg = "rows were kept that were to become a sketch"
        raise TypeError(msg)
    return found


def read_or_stream(
    patterns: Sequence[str],
    options: Options,
    judging: Judging,
    *,
    targets_file: str | None = None,
    keep: bool | None = None,
    keep_going: bool = False,
    progress: Progress | None = None,
) -> FilePredictions | FileSketch:
    """Read predictions from files: as they are while they are few, into a sketch where they are many.

    Few are up to `sizes.MOST_ROWS` rows of up to `sizes.MOST_NUMBERS` probabilities.

    Parameters
    ----------
    patterns, targets_file, keep_going, progress
        As in `stream_predictions`.
    options, judging
        What is read, and what is judged.
    keep : bool or None
        Whether all rows are kept, however many; by default where they are few.

    Raises
    ------
    FileError, BadRows, MissingDependencyError
        As `stream_predictions`.
    """
    engines, feeds = Engines(), list[Feed]()
    reader = _Reader(judging, keep_going)

    def work() -> Iterator[Any]:
        opened = open_sources(patterns, options, targets_file, engines=engines, keep_going=keep_going)
        meter = Meter([source.path for source in opened.sources], progress)
        reader.begin(opened, feed := Feed(opened, reader.plan, meter, keep=keep, keep_going=keep_going))
        feeds.append(feed)
        yield from feed.items()

    def interrupt() -> None:
        engines.interrupt()
        for feed in feeds:
            feed.stop()

    with Ahead(work(), interrupt) as items:
        for item in items:
            reader.use(item)
    return reader.finish()


class _Sums:
    """The sketch of rows, or where they have groups that of each."""

    def __init__(self, make: Callable[[], CalibrationSketch], judging: Judging) -> None:
        self._make = make
        self._judging = judging
        self._own: dict[int, CalibrationSketch] = {}  # one, under 0, where there are no groups

    def add(self, arrays: Piece) -> None:
        """Add rows.

        Raises
        ------
        calibrant.errors.InputError
            As `CalibrationSketch.update`, at the first row that cannot be judged; the sums are then of no use.
        """
        groups = arrays.get("groups")
        if groups is None:
            self._update(self._sketch(0), arrays)
            return
        narrow = groups.astype(np.uint16)  # sorted by its digits; there are never more groups than that
        order = np.argsort(narrow, kind="stable")
        ordered = {name: array[order] for name, array in arrays.items() if name != "groups"}
        ends = np.concatenate([np.searchsorted(narrow[order], np.arange(int(narrow.max()) + 1)), [len(narrow)]])
        try:
            for group, (first, stop) in enumerate(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)):
                if stop > first:
                    own = {name: array[first:stop] for name, array in ordered.items()}
                    self._update(self._sketch(group), own)
        except InputError:
            self._update(self._make(), arrays)  # which finds the first such row in the order of the file
            raise

    def _sketch(self, group: int) -> CalibrationSketch:
        if group not in self._own:
            self._own[group] = self._make()
        return self._own[group]

    def _update(self, sketch: CalibrationSketch, arrays: Piece) -> None:
        sketch.update(
            arrays["probs"],
            arrays["targets"],
            weights=arrays.get("weights"),
            ignore_index=self._judging.ignore_index,
            logits=self._judging.logits,
        )

    def merge(self, other: _Sums) -> None:
        """Add, and take over, the sums of other rows."""
        for group, sketch in other._own.items():
            if group in self._own:
                self._own[group].merge(sketch)
            else:
                self._own[group] = sketch

    @property
    def judged(self) -> bool:
        """Whether a row was judged."""
        return any(sketch.n for sketch in self._own.values())

    def whole(self, coder: Coder | None) -> CalibrationSketch:
        """Return the sketch of all rows, with those of the groups."""
        if coder is None:
            return self._own[0]
        return CalibrationSketch.of_groups({coder.names[k]: sketch for k, sketch in self._own.items()})


class _Reader:
    """Makes a sketch of what a feed yields; to leave files out, each has its own until all of it has been read."""

    def __init__(self, judging: Judging, keep_going: bool) -> None:
        self._judging = judging
        self._keep_going = keep_going
        self._omitted: list[Omitted] = []
        self._failure: Exception | None = None  # the first, where files are left out
        self._counts: dict[Source, int] = {}
        self._kept: Kept | None = None
        self._probabilities: BadRows | None = None  # what is called logits is none, in all rows so far
        self._surely_logits = False
        self._unjudged: Chunk | None = None
        self._whole = self._staged = _Sums(CalibrationSketch, judging)

    # ------------------------------------------------------------ on the thread that reads

    def begin(self, opened: Opened, feed: Feed) -> None:
        """Take the files, once they are open."""
        self._opened = opened
        self._feed = feed
        self._omitted = list(opened.omitted)
        if opened.first.logits:
            self._judging = replace(self._judging, logits=True)

    def plan(self, piece: Piece) -> tuple[int, int]:
        """Decide by the first rows whether classes are judged; return the rows of a chunk, and the most groups."""
        first, notion, classwise = self._opened.first, self._judging.notion, self._judging.classwise
        width = 1 if piece["probs"].ndim == 1 else piece["probs"].shape[1]
        several = width > 1
        if classwise is None:
            classwise = several and first.groups is None and width < MOST_CURVES
        per_class = notion in ("classwise", "multilabel")
        self._curves = width if per_class else 1 + width * (classwise and several)
        self._settings = {"notion": notion, "classwise": classwise, "class_names": first.class_names}
        self._described = described(self._opened, piece)
        self._whole = self._staged = self._sums()
        return chunk_rows(width, per_class or (classwise and several)), max(MOST_CURVES // self._curves - 1, 0)

    def _sums(self) -> _Sums:
        settings: Any = {**self._settings, "grid": self._judging.grid}
        return _Sums(lambda: CalibrationSketch(**settings), self._judging)

    # ------------------------------------------------------------ on the thread that judges

    def use(self, item: Chunk | End | Failure | Kept) -> None:
        """Judge what has been read."""
        if isinstance(item, Kept):
            self._kept = item
        elif isinstance(item, Failure):
            self._leave_out(item.source, item.error, item.error.problem)
        elif isinstance(item, End):
            self._finish(item)
        elif item.source in self._feed.dropped:
            return
        elif isinstance(item, Trial):
            self._try(item)
        else:
            self._judge(item)

    def _judge(self, chunk: Chunk) -> None:
        if self._curves > MOST_CURVES:
            problem = f"has more classes than a sketch keeps the curves of: {self._curves:,}, and {MOST_CURVES:,} fit"
            remedy = "pass --exact to keep all rows, if they fit into memory"
            raise TooMany(chunk.source.path, problem, remedy)
        if self._keep_going and self._staged is self._whole:
            self._staged = self._sums()
        try:
            self._check_logits(chunk)
            self._staged.add(self._named(chunk))
        except InputError as error:
            bad = BadRows(error, self._rows_of(chunk))
            if not self._keep_going:
                raise bad from None
            self._leave_out(chunk.source, bad, bad.problem)
            return
        self._unjudged = None if self._staged.judged or self._whole.judged else self._unjudged or chunk

    def _try(self, trial: Trial) -> None:
        """Leave a file out of the rows that are kept if they cannot be judged."""
        try:
            self._sums().add(self._named(trial))
        except InputError as error:
            bad = BadRows(error, self._rows_of(trial))
            self._leave_out(trial.source, bad, bad.problem)

    def _named(self, chunk: Chunk, *, always: bool = False) -> Piece:
        """Return arrays with targets, as names only where one is not among the known names (or ``always``)."""
        if "labels" not in chunk.arrays:
            return chunk.arrays
        coders = chunk.coders if isinstance(chunk, Trial) else self._feed.coders
        found, coder = dict(chunk.arrays), coders["targets"]
        codes = found.pop("labels")
        known = not always and int(codes.max(initial=0)) < coder.known
        return {**found, "targets": codes if known else coder.names_of(codes)}

    def _check_logits(self, chunk: Chunk) -> None:
        """Refuse probabilities that are called logits, once all rows have turned out to be."""
        if not self._judging.logits or self._surely_logits:
            return
        try:
            check_logits(chunk.arrays["probs"])
        except InputError as error:
            self._probabilities = self._probabilities or BadRows(error, self._rows_of(chunk))
        else:
            self._surely_logits = rows_of(chunk.arrays) >= SURE or chunk.arrays["probs"].ndim == 1

    def _rows_of(self, chunk: Chunk) -> FileRows:
        """Return the rows of a chunk, with the way back to its file."""
        first, source, start = self._opened.first, chunk.source, chunk.start
        arrays = dict(self._named(chunk, always=True))
        if "groups" in arrays:
            arrays["groups"] = self._feed.coders["groups"].names_of(arrays["groups"])
        return FileRows(
            arrays=arrays,
            class_names=first.class_names,
            sources=self._described,
            paths=(source.path,),
            columns=first.names(),
            rows=(len(arrays["targets"]),),
            find_row=lambda _, row: source.row_of(start + row),
        )

    def _leave_out(self, source: Source, error: Exception, problem: str) -> None:
        if source in self._feed.dropped:
            return
        self._feed.dropped.add(source)
        self._failure = self._failure or error
        self._omitted.append(Omitted(source.path, problem))
        self._staged = self._whole
        if self._unjudged is not None and self._unjudged.source is source:
            self._unjudged = None

    def _finish(self, end: End) -> None:
        if end.source not in self._feed.dropped:
            self._counts[end.source] = end.rows
            if self._staged is not self._whole:
                self._whole.merge(self._staged)
                self._staged = self._whole
        self._feed.judged()

    # ------------------------------------------------------------ at the end

    def finish(self) -> FilePredictions | FileSketch:
        """Return what was read.

        Raises
        ------
        FileError, BadRows
            Where all files were left out, or hold no rows, or no row was judged, or all logits are probabilities.
        """
        kept = self._kept
        counts = dict(zip(kept.sources, kept.counts, strict=True)) if kept is not None else self._counts
        if not sum(counts.values()) and self._failure is not None:
            raise self._failure
        if kept is not None:
            rows = kept.rows()
            return FilePredictions(**rows, omitted=self._left_out(), logits=self._opened.first.logits)
        paths = tuple(source.path for source in counts)
        check_some(self._opened, sum(counts.values()), paths)
        if self._probabilities is not None and not self._surely_logits:
            raise self._probabilities
        if self._unjudged is not None:
            self._explain(self._unjudged)
        sketch = self._whole.whole(self._feed.coders.get("groups"))
        return FileSketch(
            sketch=sketch, sources=self._described, paths=paths, rows=tuple(counts.values()), omitted=self._left_out()
        )

    def _left_out(self) -> tuple[Omitted, ...]:
        """Return the files that were left out, in the order in which they were named."""
        return tuple(sorted(self._omitted, key=lambda own: self._opened.paths.index(own.path)))

    def _explain(self, chunk: Chunk) -> None:
        """Raise for rows of which none is judged."""
        arrays = self._named(chunk)
        try:
            as_predictions(
                arrays["probs"],
                arrays["targets"],
                weights=arrays.get("weights"),
                ignore_index=self._judging.ignore_index,
                logits=self._judging.logits,
            )
        except InputError as error:
            raise BadRows(error, self._rows_of(chunk)) from None
