"""From names on a command line to arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from calibrant.errors import FileError
from calibrant.files.arrays import heads, join, read_npy, read_npy_probs, read_npz
from calibrant.files.columns import Options, Selection, Unnamed, are_logits, check_same, listed, select
from calibrant.files.engine import Table
from calibrant.files.paths import expand, kind_of
from calibrant.files.predictions import FileModels, FilePredictions, FileRows
from calibrant.files.stored import ArrowTable, FilteredTable, ParquetTable
from calibrant.files.suggestions import ROWS, best_outcome, best_score, look, look_at, proposed
from calibrant.files.tabular import Collector, as_labels
from calibrant.files.text import CsvTable, JsonTable

Progress = Callable[[int, int], None]


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
        Called with the bytes done and the bytes in all.

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
    names = None if class_names is None else tuple(class_names)
    own = None if labels is None else tuple(labels)
    options = Options(score, outcome, probs, target, weight, where, names, by=by, percent=percent, labels=own)
    paths = expand(patterns)
    kind = kind_of(paths[0])
    if targets_file is not None and kind != "npy":
        raise FileError(paths[0], "has its targets inside, and --targets names a file", "use --targets with .npy only")
    if kind == "npy":
        _check_no_condition(paths, kind, where)
        return _from_npy(paths, options, targets_file, _Meter(paths, progress))
    rows, selection = _read(paths, kind, options, _Meter(paths, progress))
    return FilePredictions(**vars(rows), logits=selection.logits)


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
    names = None if class_names is None else tuple(class_names)
    options = Options(
        outcome=outcome, weight=weight, where=where, class_names=names, models=tuple(scores), percent=percent,
        labels=None if labels is None else tuple(labels),
    )  # fmt: skip
    paths = expand(patterns)
    kind = kind_of(paths[0])
    if kind == "npy":
        raise FileError(paths[0], "holds a single array", "save the models' arrays and the targets in one .npz")
    rows, selection = _read(paths, kind, options, _Meter(paths, progress))
    models = {model: f"probs[{model!r}]" for model, _ in selection.models}
    return FileModels(**vars(rows), models=models, logits={name: are_logits(own) for name, own in selection.models})


def _read(paths: list[str], kind: str, options: Options, meter: _Meter) -> tuple[FileRows, Selection]:
    """Read files that hold their targets."""
    if kind != "npz":
        return _from_tables(paths, kind, options, meter)
    _check_no_condition(paths, kind, options.where)
    return _from_npz(paths, options, meter)


def _check_no_condition(paths: list[str], kind: str, where: str | None) -> None:
    if where is not None:
        raise FileError(paths[0], f"--where is not available for .{kind}", "filter the arrays before they are saved")


class _Meter:
    """Bytes done, of all files."""

    def __init__(self, paths: list[str], progress: Progress | None) -> None:
        self._sizes = [os.path.getsize(path) for path in paths]
        self._progress = progress

    def report(self, files: int, part: float = 0.0) -> None:
        if self._progress is not None:
            current = self._sizes[files] if files < len(self._sizes) else 0
            self._progress(sum(self._sizes[:files]) + int(current * min(part, 1.0)), sum(self._sizes))


def _from_npz(paths: list[str], options: Options, meter: _Meter) -> tuple[FileRows, Selection]:
    loaded = []
    selections: list[Selection] = []
    for number, path in enumerate(paths):
        try:
            arrays, selection = read_npz(path, options)
        except Unnamed as error:
            raise proposed(error, look(heads(path, ROWS)), options, "array") from None
        selections.append(selection)
        check_same(path, selection, paths[0], selections[0])
        loaded.append(arrays)
        meter.report(number + 1)
    first = selections[0]
    rows = tuple(len(arrays["targets"]) for arrays in loaded)
    _check_some(paths, rows, None)
    arrays = {name: join(paths[0], [arrays[name] for arrays in loaded], name, paths) for name in first.names()}
    return FileRows(
        arrays=arrays | {"targets": _labelled(arrays["targets"], options)},
        class_names=first.class_names,
        sources=first.sources(),
        paths=tuple(paths),
        columns=first.names(),
        rows=rows,
        find_row=lambda _, row: row + 1,
    ), first


def _labelled(targets: NDArray[Any], options: Options) -> NDArray[Any]:
    """Return targets as strings where the caller says which labels there are."""
    return targets if options.labels is None or targets.ndim > 1 else as_labels(targets, options.labels)


def _from_npy(paths: list[str], options: Options, targets_file: str | None, meter: _Meter) -> FilePredictions:
    named = {
        "--score": options.score, "--outcome": options.outcome, "--probs": options.probs, "--target": options.target,
        "--weight": options.weight, "--by": options.by,
    }  # fmt: skip
    for option, value in named.items():
        if value is not None:
            raise FileError(paths[0], f"a .npy has no names, got {option} {value!r}", "save a .npz with named arrays")
    if targets_file is None:
        raise FileError(paths[0], "a .npy holds no targets", "name the .npy of the targets with --targets FILE")
    logits = all("logits" in os.path.basename(path).lower() for path in paths)
    if options.percent and logits:
        raise FileError(paths[0], "--percent is given, and the file is named as logits are", "leave --percent out")
    (targets_path,) = expand([targets_file])
    targets = read_npy(targets_path)
    parts = []
    for number, path in enumerate(paths):
        parts.append(read_npy_probs(path, options.percent))
        meter.report(number + 1)
    rows = tuple(len(part) for part in parts)
    _check_some(paths, rows, None)
    if sum(rows) != len(targets):
        problem = f"has {len(targets):,} rows, the probabilities {sum(rows):,}"
        raise FileError(targets_path, problem, "give the targets of just these rows")
    return FilePredictions(
        arrays={"probs": join(paths[0], parts, "probs", paths), "targets": _labelled(targets, options)},
        class_names=options.labels or options.class_names,
        logits=logits,
        sources={"probs": ", ".join(paths) + " in per cent" * options.percent, "targets": targets_path},
        paths=tuple(paths),
        columns={"probs": ("probs",), "targets": ("targets",)},
        rows=rows,
        find_row=lambda _, row: row + 1,
    )


def _from_tables(paths: list[str], kind: str, options: Options, meter: _Meter) -> tuple[FileRows, Selection]:
    tables = [_table(path, kind, options.where) for path in paths]
    selections = [_selected(table, options) for table in tables]
    first = selections[0]
    for path, selection in zip(paths, selections, strict=True):
        check_same(path, selection, paths[0], first)
    counts = [table.rows for table in tables]
    collector = Collector(sum(count for count in counts if count is not None) if None not in counts else 0)
    rows: list[int] = []
    whole = True
    for number, table in enumerate(tables):
        expected = table.rows or _guess_rows(table)

        def report(done: int, number: int = number, expected: int = expected) -> None:
            meter.report(number, done / expected)

        rows.append(collector.add(table, first, report))
        whole = whole and (table.whole == frozenset(first.targets) or rows[-1] == 0)
        meter.report(number + 1)
    _check_some(paths, rows, options.where)
    arrays = collector.finish(first, whole)
    sources = first.sources()
    for argument, columns in first.names().items():
        if argument.startswith("probs") and len(columns) == 1 and arrays[argument].ndim > 1:
            sources[argument] += f" (lists of {arrays[argument].shape[1]})"
    return FileRows(
        arrays=arrays,
        class_names=first.class_names,
        sources=sources,
        paths=tuple(paths),
        columns=first.names(),
        rows=tuple(rows),
        find_row=lambda number, row: tables[number].row_of(row),
    ), first


def _selected(table: Table, options: Options) -> Selection:
    """Decide which columns to read; where none has a usual name, propose those that look right."""
    try:
        return select(table.path, table.columns, options)
    except Unnamed as error:
        raise proposed(error, look_at(table), options) from None


def _table(path: str, kind: str, where: str | None) -> Table:
    if kind == "csv":
        return CsvTable(path, where)
    if kind == "json":
        return JsonTable(path, where)
    stored = ParquetTable(path) if kind == "parquet" else ArrowTable(path)
    return stored if where is None else FilteredTable(stored, where)


def _guess_rows(table: Table) -> int:
    """Return about how many rows a file has, by the length of its first lines; for the progress only."""
    if table.path.lower().endswith((".gz", ".arrow", ".feather", ".ipc", ".parquet", ".pq")):
        return 1 << 62
    with open(table.path, "rb") as stream:
        head = stream.read(65_536)
    return int(os.path.getsize(table.path) / len(head) * head.count(b"\n")) + 1


def _check_some(paths: list[str], rows: Sequence[int], where: str | None) -> None:
    if sum(rows) > 0:
        return
    if where is not None:
        raise FileError(paths[0], f"no row meets --where {where!r}", f"loosen the condition; files: {listed(paths)}")
    raise FileError(paths[0], "holds no rows", "write the predictions again, or leave the file out")


def likely_outcome(path: str, score: str) -> str | None:
    """Return the column of a table that says most likely what came of a score, for the words of an error."""
    try:
        return best_outcome(look_at(_table(path, kind_of(path), None)), score)
    except FileError:
        return None


def likely_score(path: str, outcome: str) -> str | None:
    """Return the column of a table that holds most likely the probability of an outcome, for the words of an error."""
    try:
        return best_score(look_at(_table(path, kind_of(path), None)), outcome)
    except FileError:
        return None
