"""Results of models by question: from one long file, from columns, or from files of their own.

A model may have several rows of a question, which are attempts, or none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import FileError, quoted
from calibrant.files.column_options import NamedColumns, Options, in_words, listed
from calibrant.files.column_values import ValueWords, class_indices
from calibrant.files.loaded import FilePredictions, FileRead
from calibrant.files.matching import (
    Keyed,
    check_doubtful,
    check_once,
    explain_nothing_in_common,
    keyed_models,
    shown_key,
)
from calibrant.files.paths import check_bytes, kind_of
from calibrant.files.sources import TABLES, table_of
from calibrant.files.sql import identifier, joined_conditions
from calibrant.runtime.dataclass import dataclass

AnyOptions = TypeVar("AnyOptions", bound=Options)

#: The score of a file that has results alone, in SQL: no value of it is used.
_NO_SCORE: Final = "0.5"


@dataclass(frozen=True, eq=False, kw_only=True)
class FileResults(FileRead):
    """The results or the predictions of models, with their questions side by side.

    ``values`` are results, (Q, A) with A attempts, or with ``targets`` probabilities, (Q,) or (Q, C); NaN where a model
    has none. ``targets`` are those of all models, or of each model. ``left_out`` counts the rows of a model that not
    all others have.
    """

    values: Mapping[str, NDArray[Any]]
    targets: NDArray[Any] | Mapping[str, NDArray[Any]] | None = None
    clusters: NDArray[Any] | None = None
    class_names: tuple[str, ...] | None = None
    logits: bool = False
    left_out: Mapping[str, int] = field(default_factory=dict)

    def described(self) -> str:
        """Say which columns were read as what, and what was left out."""
        parts = [f"{argument}: {source}" for argument, source in self.columns_read.items()]
        if isinstance(self.targets, Mapping):
            parts.append("each model has its own outcomes")
        if self.left_out:
            counts = listed([f"{number:,} of {name}" for name, number in self.left_out.items()])
            parts.append(f"rows left out, because not all models have them: {counts}")
        return ", ".join(parts)


def result_options(options: AnyOptions, column: str) -> AnyOptions:
    """Return the options that read a column of results, which no score belongs to."""
    return replace(options, score=_NO_SCORE, outcome=column, attempts=True)


def result_columns(path: str, value: str) -> tuple[str, ...]:
    """Return the columns of a file that a name, a list of names, or a pattern stands for."""
    check_bytes(path)
    kind = kind_of(path)
    if kind not in TABLES:
        problem = f"is a .{kind}, which has no columns of results"
        raise FileError(
            path, problem, "save the results as CSV or Parquet, or call calibrant.compare_results in Python"
        )
    return NamedColumns(path, table_of(path).columns, "column").named("--correct", value)


def answered(options: AnyOptions, column: str) -> AnyOptions:
    """Return the options that leave out the rows in which a column has no value."""
    return replace(options, where=joined_conditions(options.where, f"{identifier(column)} IS NOT NULL"))


def by_question(
    models: Mapping[str, FilePredictions], *, results: bool, sparse: bool, own: bool | None = None, long: bool = False
) -> FileResults:
    """Return what was read of models with their questions side by side.

    Parameters
    ----------
    models : mapping
        What was read of each model; with keys, they are its questions, otherwise its rows are.
    results : bool
        Whether the targets are results. Several rows of a question are then attempts.
    sparse : bool
        Whether questions that not all models have are kept.
    own : bool or None
        Whether each model has outcomes of its own. None: if they differ.
    long : bool
        Whether the models are rows of one file.
    """
    keyed, distinct = _keyed(models)
    if not results:
        for each in keyed:
            check_once(each, distinct, long=long)
    counts = np.array([np.bincount(each.keys, minlength=len(distinct)) for each in keyed])
    kept = np.asarray((counts > 0).any(axis=0) if sparse else (counts > 0).all(axis=0))
    if not kept.any():
        explain_nothing_in_common(keyed, distinct, long=long)
    places = np.cumsum(kept) - 1  # of the questions that are kept
    rows = [np.flatnonzero(kept[each.keys]) for each in keyed]
    placed = [
        _ModelAnswers(each, own_rows, places[each.keys[own_rows]]) for each, own_rows in zip(keyed, rows, strict=True)
    ]
    return _side_by_side(placed, int(kept.sum()), results=results, own=own)


def _side_by_side(placed: Sequence[_ModelAnswers], number: int, *, results: bool, own: bool | None) -> FileResults:
    """Return the models with this number of questions side by side."""
    reads = [each.model.read for each in placed]
    sources = dict(reads[0].sources)
    if results:
        names = tuple(dict.fromkeys(read.column_name("targets") for read in reads))
        rest = {name: source for name, source in sources.items() if name not in ("probs", "targets")}
        sources = {"results": in_words(names, "column"), **rest}
    common: dict[str, Any] = {
        "sources": sources,
        "paths": tuple(dict.fromkeys(path for read in reads for path in read.paths)),
        "rows": (sum(len(read.targets) for read in reads),),
        "clusters": _clusters(placed, number),
        "left_out": {each.model.name: each.left_out for each in placed if each.left_out},
    }
    if results:
        return FileResults(**common, values={each.model.name: each.attempts(number) for each in placed})
    targets = _targets(placed, number, own)
    values = {each.model.name: each.one("probs", number) for each in placed}
    class_names, logits = reads[0].class_names, reads[0].logits
    return FileResults(**common, values=values, targets=targets, class_names=class_names, logits=logits)


@dataclass(frozen=True, eq=False)
class _ModelAnswers:
    """Rows of a model, and the places of their questions."""

    model: Keyed
    rows: NDArray[np.intp]
    places: NDArray[np.intp]

    @property
    def left_out(self) -> int:
        """The number of rows whose questions are not kept."""
        return len(self.model.keys) - len(self.rows)

    def attempts(self, number: int) -> NDArray[np.float64]:
        """Return the results of each question, (number, A)."""
        values = self._results()
        order = np.argsort(self.places, kind="stable")
        counts = np.bincount(self.places, minlength=number)
        attempt = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        table = np.full((number, max(int(counts.max(initial=0)), 1)), np.nan)
        table[self.places[order], attempt] = values[order]
        return table

    def _results(self) -> NDArray[np.float64]:
        """Return results as numbers; raise for the first one that is not from 0 to 1."""
        read = self.model.read
        values = read.targets[self.rows]
        where = f"column {quoted(read.column_name('targets'))}"
        if values.dtype.kind not in "fiub" and len(read.class_names or ()) == 2:
            values = class_indices(ValueWords.of(values), read.class_names or ())
        if values.dtype.kind not in "fiub":
            problem = f"{where} contains text, such as {shown_key(values[0])}, not results"
            remedy = "name the words for wrong and for correct, in this order, such as --labels no,yes"
            raise FileError(read.paths[0], problem, remedy)
        numbers = values.astype(np.float64)
        wrong = ~((numbers >= 0) & (numbers <= 1))
        if wrong.any():
            path, row = read.locate(int(self.rows[np.argmax(wrong)]))
            got = f"got {numbers[np.argmax(wrong)]:g}"
            problem = f"row {row:,}, {where}: expected a result from 0 to 1, {got}"
            raise FileError(path, problem, "divide the results by their largest possible value, or correct the row")
        return numbers

    def one(self, argument: str, number: int) -> NDArray[Any]:
        """Return the value of each question; NaN or None if it is missing."""
        values = self.model.read.arrays[argument][self.rows]
        kind: Any = values.dtype if values.dtype.kind == "f" else np.float64 if values.dtype.kind in "iub" else object
        table = np.full((number, *values.shape[1:]), None if kind is object else np.nan, kind)
        table[self.places] = values
        return table


def _keyed(models: Mapping[str, FilePredictions]) -> tuple[list[Keyed], NDArray[Any]]:
    """Return the models with the numbers of their questions, and the distinct questions."""
    first, *others = models.values()
    if "keys" in first.arrays:
        return keyed_models(models)
    for other in others:
        if len(other.targets) != len(first.targets):
            problem = f"has {len(other.targets):,} rows, but {first.paths[0]} has {len(first.targets):,}"
            raise FileError(other.paths[0], problem, "name the column that identifies each question, such as --on id")
    places = np.arange(len(first.targets))
    return [Keyed(name, read, places) for name, read in models.items()], places


def _clusters(placed: Sequence[_ModelAnswers], number: int) -> NDArray[Any] | None:
    """Return the cluster of each question, if a column names it."""
    if "clusters" not in placed[0].model.read.arrays:
        return None
    values, errors = _alike("clusters", placed, number)
    if errors:
        raise errors[0]
    return values


def _alike(argument: str, placed: Sequence[_ModelAnswers], number: int) -> tuple[NDArray[Any], list[FileError]]:
    """Return the value of each question, and an error for each row that has another one."""
    values, seen, errors = np.full(number, None, object), np.zeros(number, np.bool_), list[FileError]()
    for each in placed:
        read = each.model.read
        column = read.arrays[argument][each.rows]
        for row, place, value in zip(each.rows.tolist(), each.places.tolist(), column.tolist(), strict=True):
            if not seen[place]:
                values[place], seen[place] = value, True
            elif values[place] != value and not (value != value and values[place] != values[place]):
                path, data_row = read.locate(row)
                got = f"row {data_row:,}, column {quoted(read.column_name(argument))} contains {value!r}"
                problem = f"{got}, but another row of the same question contains {values[place]!r}"
                errors.append(FileError(path, problem, "correct one of the two rows"))
    return np.array(values.tolist()), errors


def _targets(placed: Sequence[_ModelAnswers], number: int, own: bool | None) -> Any:
    """Return the outcomes of the questions: the same for all models, or separate ones for each model."""
    values, errors = _alike("targets", placed, number)
    first = placed[0].model.read
    own = own if first.probs.ndim == 1 else False  # true classes are those of the questions
    if own is None:
        check_doubtful(first, len(errors), sum(len(each.rows) for each in placed))
    if own is False and errors:
        remedy = "correct one of the two rows; if each model has its own outcomes, pass --own-outcomes"
        raise FileError(errors[0].path, errors[0].problem, remedy)
    if not errors and not own:
        return values
    return {each.model.name: each.one("targets", number) for each in placed}
