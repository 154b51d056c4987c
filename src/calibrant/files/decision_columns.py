"""Rows of decision logs as columns of Arrow: the usual form is added many rows at a time, any other row by row.

The usual form is a map of answers in each row (Jev, Clef, Laya), with the labels in the row. What needs a closer look,
such as a fault, is left to `decision_rows`, whose results are the same.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.files.decision_rows import IDS, LABELS, Answer, DecisionRows, answer_of, places_of_labels
from calibrant.inputs.decision_log import Kind
from calibrant.runtime.arrays import Float64s

_OTHER: Final = re.compile(rf"(answers|{'|'.join(LABELS)})\..*", re.DOTALL)  # columns of another form
_WHOLE: Final = ("noul", "probability", "score", "legend")  # keys that all answers of a question have, or none


class AnswerColumns(NamedTuple):
    """Answers to one question in consecutive rows: their options and probabilities, (n, C), and what was right."""

    name: str
    kind: Kind | None = None
    options: tuple[str | bool, ...] = ()
    probs: Float64s = np.empty((0, 1))
    targets: NDArray[np.int64] = np.empty(0, np.int64)
    rows: NDArray[np.int64] = np.empty(0, np.int64)
    confidence: Float64s = np.empty(0)
    refused: NDArray[np.int64] = np.empty(0, np.int64)
    without_label: NDArray[np.int64] = np.empty(0, np.int64)
    unanswered: int = 0


def add_columns(read: DecisionRows, table: Any) -> bool:
    """Add the rows of a table of Arrow, and return whether that was possible; if not, nothing is added."""
    if not read.takes_columns or (columns := _columns(table)) is None:
        return False
    answers, labels, ids, models = columns
    answers_of, labels_of, parts = _fields(answers), _fields(labels), []
    for name, column in answers_of.items():
        part = _part(name, column, labels_of.get(name))
        if part is None or not read.continues(part):
            return False
        parts.append(part)
    rest = {name: column for name, column in labels_of.items() if name not in answers_of}
    parts += [AnswerColumns(name, unanswered=len(column) - column.null_count) for name, column in rest.items()]
    names, n = list(filter(None, models.unique().to_pylist())), table.num_rows
    return read.add_columns(n, None if ids is None else ids.to_pylist(), names, n - labels.null_count, parts)


def _columns(table: Any) -> tuple[Any, Any, Any, Any] | None:
    """Return the columns of answers, labels, ids (or None) and models of a table; None if it needs a closer look."""
    import pyarrow as pa

    if "answers" not in table.column_names or any(map(_OTHER.fullmatch, table.column_names)):
        return None
    columns = {name: table[name].combine_chunks() for name in table.column_names if name in _READ}
    labels = [columns[name] for name in LABELS if name in columns]
    answers, ids = columns["answers"], next((columns[name] for name in IDS if name in columns), None)
    if len(labels) != 1 or not all(pa.types.is_struct(each.type) for each in (answers, *labels)) or answers.null_count:
        return None
    if ids is not None and (ids.null_count or not (pa.types.is_string(ids.type) or pa.types.is_integer(ids.type))):
        return None
    models = columns.get("model", pa.nulls(0))
    if not (pa.types.is_string(models.type) or pa.types.is_null(models.type)):
        return None
    return answers, labels[0], ids, models


_READ: Final = {"answers", "model", *LABELS, *IDS}


def _fields(struct: Any) -> dict[str, Any]:
    """Return the columns of a column of structs, in which a missing struct has missing fields."""
    return dict(zip((field.name for field in struct.type), struct.flatten(), strict=True))


def _part(name: str, answers: Any, labels: Any) -> AnswerColumns | None:
    """Return the answers to a question; None if they need a closer look."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_null(answers.type):
        return AnswerColumns(name, unanswered=0 if labels is None else len(labels) - labels.null_count)
    if not pa.types.is_struct(answers.type):
        return None
    none = pa.nulls(len(answers)).is_valid()
    given, known = answers.is_valid(), none if labels is None else labels.is_valid()
    fields, refused = _fields(answers), none
    if "type" in fields:
        if not pa.types.is_string(fields["type"].type):
            return None
        refused = pc.fill_null(pc.equal(fields["type"], "refusal"), False)
    held = pc.and_not(given, refused)
    alone = AnswerColumns(
        name,
        refused=_places(refused),
        without_label=_places(pc.and_not(held, known)),
        unanswered=pc.and_not(known, given).true_count,
    )
    if not held.true_count:
        return alone
    found = _alike({key: column.filter(held) for key, column in fields.items()}, answers.filter(held)[0].as_py())
    if found is None:
        return None
    first, probs, stated = found
    labelled = pc.and_(held, known)
    targets = None if labels is None else _targets(first, labels.filter(labelled))
    if targets is None:
        return None if labelled.true_count else alone
    among = _flags(known.filter(held))
    return alone._replace(
        kind=first.kind,
        options=first.options,
        probs=probs[among],
        targets=targets,
        rows=_places(labelled),
        confidence=stated[among],
    )


def _places(column: Any) -> NDArray[np.int64]:
    """Return the places of what is true."""
    return np.flatnonzero(_flags(column)).astype(np.int64)


def _flags(column: Any) -> NDArray[np.bool_]:
    import pyarrow as pa

    return np.from_dlpack(column.cast(pa.uint8())).astype(bool)  # `to_numpy` would import pandas


def _alike(fields: dict[str, Any], example: dict[str, Any]) -> tuple[Answer, Float64s, Float64s] | None:
    """Return the first of answers with the same keys and options, the probabilities and stated confidences of all."""
    n = len(next(iter(fields.values())))
    if any(0 < column.null_count < n for key, column in fields.items() if key in _WHOLE):
        return None
    if "type" in fields and len(fields["type"].unique()) > 1:
        return None
    first = answer_of({key: without_nulls(value) for key, value in example.items() if value is not None})
    if not isinstance(first, Answer):
        return None
    if first.kind == "predicate":
        numbers = [_floats(fields["noul" if example.get("noul") is not None else "probability"])]
    else:
        numbers = _probabilities(first, fields)
    stated = _floats(fields["confidence"]) if "confidence" in fields else np.full(n, np.nan)
    probs = [column for column in numbers if column is not None]
    if stated is None or not numbers or len(probs) < len(numbers):
        return None
    return first, np.stack(probs, axis=1), stated


def _probabilities(first: Answer, fields: dict[str, Any]) -> list[Float64s | None]:
    """Return the probabilities of each option; none if options or legends differ between answers."""
    import pyarrow as pa

    probs: Any = fields["probabilities"]
    legend: Any = fields.get("legend")
    if not pa.types.is_struct(probs.type) or len({*first.options}) < max(len(first.options), 2):
        return []
    named = legend is not None and legend.null_count < len(legend)
    if named and not (pa.types.is_struct(legend.type) and all(len(each.unique()) == 1 for each in legend.flatten())):
        return []
    columns = _fields(probs)
    if len(columns) != len(first.options):
        return []
    return [_floats(columns[str(option)]) for option in first.options]


def _floats(column: Any) -> Float64s | None:
    """Return numbers as float64; None for other values, and if one is missing."""
    import pyarrow as pa

    if column.null_count or not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        return None
    return np.asarray(np.from_dlpack(column.cast(pa.float64(), safe=False)))


def _targets(first: Answer, labels: Any) -> NDArray[np.int64] | None:
    """Return the places of labels among the options of the first answer; None if one needs a closer look."""
    import pyarrow as pa

    if first.kind == "predicate":
        return _flags(labels).astype(np.int64) if pa.types.is_boolean(labels.type) else None
    if not (pa.types.is_string(labels.type) or pa.types.is_integer(labels.type)):
        return None
    encoded = labels.dictionary_encode()
    places = places_of_labels(first, encoded.dictionary.to_pylist())
    return None if places is None else np.array(places, np.int64)[np.from_dlpack(encoded.indices)]


def without_nulls(value: Any) -> Any:
    """Return a value without the missing keys of its objects, which a table has for every row; maps are objects."""
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    if not isinstance(value, list):
        return value
    if value and all(isinstance(each, tuple) and isinstance(each[0], str) for each in value):  # a map of Arrow
        return without_nulls(dict(value))
    return [without_nulls(each) for each in value]
