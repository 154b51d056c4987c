"""From names on a command line to arrays: everything is kept as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calibrant.errors import FileError
from calibrant.files.columns import Options, are_logits, listed
from calibrant.files.engine import Engines
from calibrant.files.meter import Meter, Progress
from calibrant.files.paths import expand, kind_of
from calibrant.files.predictions import FileModels, FilePredictions
from calibrant.files.sources import Opened, Source, open_sources, table_of
from calibrant.files.suggestions import best_outcome, best_score, look_at
from calibrant.files.tabular import Alike, Collector, Piece, as_labels, whole_targets


def read_predictions(
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
    progress: Progress | None = None,
) -> FilePredictions:
    """Read predictions and targets from files.

    Files of one kind are read one after the other, in the order given (patterns: sorted), and their rows keep their
    order: ``.npz``; ``.npy`` with ``targets_file``; ``.csv`` and ``.tsv``, ``.gz`` or not; ``.parquet``;
    ``.arrow`` and ``.feather``; ``.jsonl`` and ``.ndjson``. The numbers are not judged here, the cells are: whatever
    cannot be read as it stands is an error, and nothing is dropped that ``where`` does not leave out.

    Parameters
    ----------
    patterns : sequence of str
        Names of files, or patterns such as ``'logs/*.parquet'``.
    score, outcome : str or None
        The columns of one event's probability and of whether it came about.
    probs, target : str or None
        The columns of many classes: a pattern (``'p_*'``), a column of lists, or names with commas between them; and
        the column of the classes. Columns whose ends are not 0 to C - 1 name the classes, and the targets are then
        strings.
    weight : str or None
        The column of the weights.
    by : str or None
        The column of the groups' names.
    percent : bool
        Whether the probabilities are written in per cent: numbers from 0 to 100, or texts such as ``85%``. They are
        divided by 100. Without it, no number is divided and no text with a per-cent sign is read.
    where : str or None
        A condition in SQL over the columns of the file; rows that do not meet it are left out.
    targets_file : str or None
        The ``.npy`` of the targets, where the probabilities are in ``.npy``.
    class_names : sequence of str or None
        Names of the classes, instead of those that the columns give.
    labels : sequence of str or None
        The labels in the file, in the order of the classes, where they are not 0 to C - 1; of one event two, and the
        second says that it happened. The targets are then strings.
    progress : callable or None
        Called with the bytes done, the bytes in all, and the rows done.

    Returns
    -------
    FilePredictions
        The arrays, what they were read from, and the way back to the files' rows.

    Raises
    ------
    FileError
        Naming the file, the row or column, and the remedy.
    MissingDependencyError
        Where the ``report`` extra is not installed and the file needs it.
    """
    options = Options(
        score, outcome, probs, target, weight, where, _tuple(class_names), by=by, percent=percent, labels=_tuple(labels)
    )
    opened = open_sources(patterns, options, targets_file, engines=Engines())
    return FilePredictions(**_read(opened, progress), logits=opened.first.logits)


def read_models(
    patterns: Sequence[str],
    *,
    scores: Sequence[str],
    outcome: str | None = None,
    weight: str | None = None,
    percent: bool = False,
    where: str | None = None,
    class_names: Sequence[str] | None = None,
    labels: Sequence[str] | None = None,
    progress: Progress | None = None,
    engines: Engines | None = None,
) -> FileModels:
    """Read the predictions of several models on the same rows, and their targets once.

    Parameters
    ----------
    patterns, weight, percent, where, class_names, labels, progress
        As in `read_predictions`; a ``.npy`` holds only one model.
    scores : sequence of str
        For each model its column of scores, or of lists, or a pattern of a column for each class.
    outcome : str or None
        The column of the targets.
    engines : Engines or None
        Where the engines that work on it are entered, for another thread to stop them.

    Returns
    -------
    FileModels
        The arrays, what they were read from, and the way back to the files' rows.

    Raises
    ------
    FileError
        Naming the file, the row or column, and the remedy.
    MissingDependencyError
        Where the ``report`` extra is not installed and the file needs it.
    """
    options = Options(
        outcome=outcome,
        weight=weight,
        where=where,
        class_names=_tuple(class_names),
        models=tuple(scores),
        percent=percent,
        labels=_tuple(labels),
    )
    paths = expand(patterns)
    if kind_of(paths[0]) == "npy":
        raise FileError(paths[0], "holds a single array", "save the models' arrays and the targets in one .npz")
    opened = open_sources(patterns, options, engines=engines or Engines())
    models = {model: f"probs[{model!r}]" for model, _ in opened.first.models}
    logits = {name: are_logits(own) for name, own in opened.first.models}
    return FileModels(**_read(opened, progress), models=models, logits=logits)


def _tuple(names: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)


def _read(opened: Opened, progress: Progress | None) -> dict[str, Any]:
    kept, alike = Kept(opened), Alike()
    meter = Meter([source.path for source in opened.sources], progress)
    for source in opened.sources:
        expected = source.guess_rows()
        for piece in source.pieces(alike, {}):
            kept.add(piece)
            meter.report(source.path, kept.own, expected)
        meter.finish(source.path, kept.own)
        kept.finish(source)
    return kept.rows()


class Kept:
    """The rows of files one after the other, kept as they are.

    Attributes
    ----------
    own : int
        The rows so far of the file that is being read.
    sources, counts : list
        The files that have been read, and their rows.
    """

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._collector = Collector(opened.rows or 0)
        self.own = 0
        self.sources: list[Source] = []
        self.counts: list[int] = []

    def add(self, piece: Piece) -> None:
        """Append rows of a file."""
        self._collector.add(piece)
        self.own += len(piece["targets"])

    def finish(self, source: Source) -> None:
        """Note that all rows of a file are there."""
        self.sources.append(source)
        self.counts.append(self.own)
        self.own = 0

    def leave_out(self) -> None:
        """Take the rows of the file back that was being read."""
        self._collector.cut(sum(self.counts))
        self.own = 0

    def last(self) -> Piece:
        """Return the rows of the file that was read last, in the place where they are."""
        return self._collector.rows(sum(self.counts), sum(self.counts) + self.own)

    def arrays(self) -> Piece:
        """Return all rows, by argument."""
        return self._collector.finish()

    def rows(self) -> dict[str, Any]:
        """Return what a `FileRows` holds."""
        opened, sources, first = self._opened, list(self.sources), self._opened.first
        check_some(opened, sum(self.counts), [source.path for source in sources])
        arrays = self._collector.finish()
        targets = arrays["targets"]
        if all(source.whole or not count for source, count in zip(sources, self.counts, strict=True)):
            targets = whole_targets(targets)
        if first.labels and targets.ndim == 1 and first.class_names is not None:
            targets = as_labels(targets, first.class_names)
        return {
            "arrays": arrays | {"targets": targets},
            "class_names": first.class_names,
            "sources": described(opened, arrays),
            "paths": tuple(source.path for source in sources),
            "columns": first.names(),
            "rows": tuple(self.counts),
            "find_row": lambda number, row: sources[number].row_of(row),
        }


def described(opened: Opened, arrays: Piece) -> dict[str, str]:
    """Return what was read as what, lists with their lengths."""
    found = dict(opened.described)
    for argument, columns in opened.first.names().items():
        probs = argument.startswith("probs") and opened.first.noun == "column"
        if probs and len(columns) == 1 and arrays[argument].ndim > 1:
            found[argument] += f" (lists of {arrays[argument].shape[1]})"
    return found


def check_some(opened: Opened, rows: int, paths: Sequence[str]) -> None:
    """Raise unless a row was read."""
    if rows > 0:
        return
    where = next((source.where for source in opened.sources), None)
    paths = paths or [source.path for source in opened.sources]
    if where is not None:
        raise FileError(paths[0], f"no row meets --where {where!r}", f"loosen the condition; files: {listed(paths)}")
    raise FileError(paths[0], "holds no rows", "write the predictions again, or leave the file out")


def likely_outcome(path: str, score: str) -> str | None:
    """Return the column of a table that says most likely what came of a score, for the words of an error."""
    try:
        return best_outcome(look_at(table_of(path, kind_of(path), None)), score)
    except FileError:
        return None


def likely_score(path: str, outcome: str) -> str | None:
    """Return the column of a table that holds most likely the probability of an outcome, for the words of an error."""
    try:
        return best_score(look_at(table_of(path, kind_of(path), None)), outcome)
    except FileError:
        return None
