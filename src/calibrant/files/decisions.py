"""Read the log of a decision model, from files or from the objects of a client."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from itertools import chain, islice
from typing import Any, Final, TypeAlias

import numpy as np

from calibrant.errors import CalibrantError, FileError, InputError, quoted
from calibrant.files.decision_columns import add_columns, without_nulls
from calibrant.files.decision_rows import CACHE, LABELS, WRAPPERS, Cell, DecisionRows, Fail, is_decisions, labels_of
from calibrant.files.header_lines import separator
from calibrant.files.local import load, reading
from calibrant.files.log_rows import first_object, objects_in, parse
from calibrant.files.paths import bounded_lines, expand, kind_of, open_text
from calibrant.files.stored import stored_table
from calibrant.files.text import header
from calibrant.inputs.decision_log import DecisionLog

#: A file of labels, labels by the ids of the rows, or those of each row.
Labels: TypeAlias = "str | os.PathLike[str] | Mapping[str, Mapping[str, Any]] | Sequence[Mapping[str, Any]]"

_BLOCK: Final = 1 << 24  # characters of JSON lines together
_FEW: Final = 64  # so few lines are read one by one
_SAMPLE: Final = 128  # lines that are looked at before the others are read together
_MOST_KEYS: Final = 2000  # of lines that are read together
_OBJECTS: Final = frozenset({"answers", *LABELS, *WRAPPERS})  # columns that may hold objects
_Part: TypeAlias = (
    "tuple[Callable[[], Any], Iterable[Mapping[str, Any]]]"  # as a table if that is possible, and as rows
)
_LOOKED_AT: Final = 20  # rows of a file
_SINGLE: Final = frozenset({str, float, int, bool, type(None)})
_DEPTH: Final = 12  # of objects within a row: answers are at most the fifth


def read_decisions(
    source: str | os.PathLike[str] | Iterable[Any],
    /,
    *,
    labels: Labels | None = None,
    on: str = "id",
    yes: str | None = None,
    by: str | None = None,
) -> DecisionLog:
    """Read the log of a decision model: typed questions, each with a probability for every possible answer.

    A question is a predicate (the probability of yes), a choice (a probability for each option) or a score (a
    probability for each of several ordered levels). Each labelled answer becomes a row of its question, with what was
    right. `evaluate` takes the ``probs`` and ``targets`` of a question.

    Parameters
    ----------
    source : path, or iterable of objects
        A file (JSON lines, JSON, Parquet, Arrow or CSV), or rows: dictionaries, or responses of a client that have
        ``model_dump()``. The answers of a row are recognised by their content: a list under ``answers``, each with its
        ``name`` and ``type`` (OpenAI); a map from the question (Jev, Clef, Laya); columns such as
        ``answers.urgent.noul``; one answer a row (the cache of jev-eval). They may be within ``response``, ``body``,
        ``result`` or ``decision``.
    labels : path, mapping or sequence, optional
        What was right, if the rows do not say it under ``labels``, ``gold`` or ``expected``: a file with an id and the
        labels in each row, a mapping from the id to the labels of a row, or the labels in the order of the rows. Labels
        are a map from the question to true or false, to an option, or to a level by its text or number.
    on : str, default "id"
        The column of the ids in a file of labels.
    yes : str, optional
        The text that stands for true, if the labels of predicates are texts. Every other text is then false.
    by : str, optional
        The column or key of each row that names its group, with dots for a key within others: ``meta.language``.

    Returns
    -------
    DecisionLog
        A mapping from the name of each question to its `Question`, in the order of the log. Refusals, answers without
        a label and labels without an answer are counted, and are not among its rows.

    Raises
    ------
    calibrant.errors.FileError
        For a file that cannot be read, and for the rows of a file as below.
    calibrant.errors.InputError
        For an answer without probabilities; for probabilities outside [0, 1] or whose sum differs from 1 by more than
        0.001; for a label that is not an option; for a text as the label of a predicate without ``yes``; for a row with
        two answers to the same question; for two rows with the same id; for answers in different forms, such as lists
        and columns; and for a log without labels. Also if more than half of the questions with answers have no labels,
        or more than half of those with labels have no answers.

    Notes
    -----
    A truth value and its text are different options. The cells of a CSV have no type: true, false, 1 and 0 are labels
    of a predicate, numbers name levels, and empty cells are missing. Options that differ between rows keep the order of
    each row; ``classes`` is then empty. Rows are numbered from 1 in errors. Cost: one read of the log; memory for the
    numbers.

    Examples
    --------
    >>> import calibrant
    >>> row = {"answers": {"urgent": {"noul": 0.9}}, "labels": {"urgent": True}}
    >>> refused = {"answers": {"urgent": {"type": "refusal"}}, "labels": {"urgent": True}}
    >>> log = calibrant.read_decisions([row, row | {"labels": {"urgent": False}}, refused])
    >>> log["urgent"].probs, log["urgent"].targets, log["urgent"].refusals
    (array([0.9, 0.9]), array([1, 0]), 1)
    >>> round(calibrant.brier_score(log["urgent"].probs, log["urgent"].targets), 2)
    0.41
    """
    if isinstance(source, str | os.PathLike):
        return read_files(expand([os.fspath(source)]), labels=labels, on=on, yes=yes, by=by)
    read = DecisionRows(_input_error, labels=_labels(labels, on), yes=yes, by=by)
    _add(read, [(_no_table, _object_rows(source))])
    return read.log()


def read_files(paths: Sequence[str], *, labels: Labels | None, on: str, yes: str | None, by: str | None) -> DecisionLog:
    """Read the log in files, one after the other; see `read_decisions`."""
    begun: list[tuple[int, str]] = []
    read = DecisionRows(_file_error(begun), labels=_labels(labels, on), yes=yes, by=by)
    for path in paths:
        begun.append((read.n, path))
        _add(read, _file_parts(path))
    return read.log()


def _add(read: DecisionRows, parts: Iterable[_Part]) -> None:
    for table, rows in parts:
        added = read.takes_columns and (columns := table()) is not None and add_columns(read, columns)
        for row in () if added else rows:
            read.add(row)


def _labels(labels: Any, on: str) -> Mapping[str, Any] | list[Any] | None:
    """Return labels by ids, or one map for each row."""
    if labels is None:
        return None
    if isinstance(labels, str | os.PathLike):
        return _labels_in(os.fspath(labels), on)
    if isinstance(labels, Mapping):
        return {str(name): _plain(each) for name, each in labels.items()}
    if isinstance(labels, Iterable):
        return [_plain(each) for each in labels]
    remedy = "pass a file, a mapping from the id of each row to its labels, or a list with the labels of each row"
    raise InputError("labels", "a file, a mapping or a list", type(labels).__name__, remedy)


def is_decision_log(path: str) -> bool:
    """Whether a file is the log of a decision model, by its first rows."""
    kind = kind_of(path)
    with suppress(CalibrantError):  # its reader says what is wrong
        if kind == "json":  # the first requests may have failed
            return is_decisions(first_object(path)) or any(map(is_decisions, islice(_file_rows(path), _LOOKED_AT)))
        if kind in ("csv", "parquet", "arrow"):
            names = header(path) if kind == "csv" else stored_table(path).columns
            is_log = any(name in _OBJECTS or name.startswith("answers.") for name in names) or {*names} >= CACHE
            return is_log and any(map(is_decisions, islice(_file_rows(path), _LOOKED_AT)))
    return False


def _file_error(begun: Sequence[tuple[int, str]]) -> Fail:
    """Return what makes an error about a row, from the number of the first row of each file."""

    def fail(row: int | None, problem: str, remedy: str) -> CalibrantError:
        if row is None:
            return FileError(", ".join(path for _, path in begun), problem, remedy)
        first, path = next(each for each in reversed(begun) if each[0] <= row)
        return FileError(path, f"row {row - first + 1:,}: {problem}", remedy)

    return fail


def _input_error(row: int | None, problem: str, remedy: str) -> CalibrantError:
    where = "" if row is None else f" in row {row + 1:,}"
    return InputError("source", "a readable log of decisions", f"an error{where}: {problem}", remedy, row=row)


def _object_rows(source: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a list of dictionaries or of a client's objects."""
    if not isinstance(source, Iterable):
        remedy = "pass the name of a file, or a list of dictionaries"
        raise InputError("source", "a file or a list of rows", type(source).__name__, remedy)
    for number, row in enumerate([source] if isinstance(source, Mapping) else source, 1):
        value = _plain(row)
        if not isinstance(value, dict):
            remedy = "pass dictionaries, or objects with model_dump()"
            raise InputError("source", f"an object in row {number:,}", type(row).__name__, remedy, row=number - 1)
        yield value


def _plain(value: Any, depth: int = _DEPTH) -> Any:
    """Return dictionaries, lists and a client's objects as those of JSON; what is deeper stays unchanged."""
    if type(value) in _SINGLE:
        return value
    if depth and isinstance(value, Mapping):
        return {str(key): _plain(each, depth - 1) for key, each in value.items()}
    if depth and isinstance(value, list | tuple):
        return [_plain(each, depth - 1) for each in value]
    dump = getattr(value, "model_dump", None)
    if depth and callable(dump) and not isinstance(value, type):
        return _plain(dump(), depth - 1)
    return value.item() if isinstance(value, np.generic) else value


def _file_rows(path: str) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a file; empty cells are left out."""
    return chain.from_iterable(rows for _, rows in _file_parts(path))


def _file_parts(path: str) -> Iterator[_Part]:
    """Yield the rows of a file, many together."""
    kind = kind_of(path)
    if kind == "json":
        yield from _json_parts(path)
    elif kind == "csv":
        yield _no_table, _csv_rows(path)
    elif kind in ("parquet", "arrow"):
        for batch in stored_table(path).whole_batches():
            yield partial(_table_of, batch), _rows_of(batch)
    else:
        remedy = "pass JSON lines, Parquet, Arrow or CSV"
        raise FileError(path, f"a {kind} file, which cannot contain a log of decisions", remedy)


def _no_table() -> None:
    """Rows that do not form a table."""


def _table_of(batch: Any) -> Any:
    return load("pyarrow", "to read tables").Table.from_batches([batch])


def _rows_of(batch: Any) -> Iterator[Mapping[str, Any]]:
    yield from map(_decoded, map(without_nulls, batch.to_pylist()))


def _decoded(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of a table with the answers and labels that are written as JSON."""
    for name in _OBJECTS & row.keys():
        text = row[name]
        if isinstance(text, str) and text.lstrip().startswith(("{", "[")):
            with suppress(ValueError, RecursionError):
                row[name] = parse(text)
    return row


def _json_parts(path: str) -> Iterator[_Part]:
    """Yield the lines of JSON, some 16 MB together, or a whole array."""
    with reading(path), open_text(path) as stream:
        lines = enumerate(bounded_lines(stream), 1)
        while together := list(_together(lines)):
            texts = [line for _, line in together]
            yield partial(_parsed, texts), (row for _, row in objects_in(path, together, stream))


def _together(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    size = 0
    for number, line in lines:
        yield number, line
        size += len(line)
        if size >= _BLOCK:
            return


def _parsed(lines: Sequence[str]) -> Any:
    """Return lines of JSON as a table; None if they are not alike, or not JSON.

    The columns come from some lines. With the columns of all lines, a table of options that differ between rows would
    have a column for each, and a cell for each of them in every row.
    """
    if find_spec("pyarrow") is None or len(lines) < _FEW:
        return None
    import pyarrow as pa
    from pyarrow.json import ParseOptions, ReadOptions, read_json

    def read(texts: Sequence[str], **how: Any) -> Any:
        data = "".join(texts).encode()
        # One block: with several, the order of their threads would decide the order of keys.
        options = ReadOptions(use_threads=False, block_size=len(data) + 1)
        return read_json(pa.BufferReader(data), options, ParseOptions(**how))

    some = [*lines[:_SAMPLE], *lines[_SAMPLE :: max(len(lines) // _SAMPLE, 1)]]
    try:
        rows = list(map(parse, filter(str.strip, some)))
        if not all(isinstance(row, dict) and isinstance(row.get("answers"), dict) for row in rows):
            return None  # of another form
        if len(_keys(rows)) > _MOST_KEYS:
            return None
        schema = pa.schema([pa.field(each.name, _with_floats(each)) for each in read(some).schema])
        return read(lines, explicit_schema=schema, unexpected_field_behavior="error")
    except (pa.ArrowException, ValueError, RecursionError):
        return None


def _keys(values: Iterable[Any], above: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """Return the keys of objects, each with those above it."""
    found: set[tuple[str, ...]] = set()
    for value in values:
        if isinstance(value, dict):
            found.update((*above, key) for key in value)
            for key, each in value.items():
                found |= _keys([each], (*above, key)) if isinstance(each, dict) else set()
    return found


def _with_floats(field: Any) -> Any:
    """Return the type of a column of answers in which whole numbers may be followed by others; else its own."""
    import pyarrow as pa

    def widened(kind: Any) -> Any:
        if pa.types.is_struct(kind):
            return pa.struct([pa.field(each.name, widened(each.type)) for each in kind])
        return pa.float64() if pa.types.is_integer(kind) else kind

    return widened(field.type) if field.name == "answers" else field.type


def _csv_rows(path: str) -> Iterator[Mapping[str, Any]]:
    """Yield the cells of a CSV that are not empty. They are texts: what they stand for, the answers decide."""
    names, between = header(path), separator(path)
    with reading(path), open_text(path) as stream:
        lines = csv.reader(bounded_lines(stream), delimiter=between, strict=True)
        for number, cells in enumerate(filter(None, islice(lines, 1, None)), 1):
            if len(cells) != len(names):
                problem = f"row {number:,} has {len(cells):,} cells, and the header has {len(names):,}"
                raise FileError(path, problem, "write a cell for each column")
            yield _decoded({name: Cell(text) for name, text in zip(names, cells, strict=True) if text.strip()})


def _labels_in(path: str, on: str) -> dict[str, Mapping[str, Any]]:
    """Return the labels in a file, by the ids of its rows."""
    labels: dict[str, Mapping[str, Any]] = {}
    for file in expand([path]):
        for number, row in enumerate(_file_rows(file), 1):
            if not isinstance(row.get(on), str | int):
                problem = f"row {number:,} has no id under {quoted(on)}"
                raise FileError(file, problem, "name the column of the ids with on=")
            name = str(row[on])
            if name in labels:
                raise FileError(
                    file, f"row {number:,}: the id {quoted(name)} occurs twice", "give each row an id of its own"
                )
            labels[name] = labels_of(row) or {question: label for question, label in row.items() if question != on}
    return labels
