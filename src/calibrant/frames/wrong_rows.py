"""Find the invalid rows of a frame, and word the error, after the sums have shown that there are some."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, Final

import narwhals as nw
import numpy as np

from calibrant.errors import InputError, nearest
from calibrant.errors.faults import Facts, Fault, Mistake, Place, Suspicion
from calibrant.errors.mistakes import of_large, of_score
from calibrant.errors.wording import SOFT_LABELS, expected_labels, expected_sum, number
from calibrant.frames import rows
from calibrant.frames.columns import FILTER, Columns, Frame, LazyFrame
from calibrant.frames.grid_sums import fetch, parts
from calibrant.inputs.predictions import sum_tolerance
from calibrant.inputs.weights import LEAST_WEIGHT, MOST_WEIGHT
from calibrant.runtime.dataclass import dataclass
from calibrant.table.cluster_labels import as_clusters

#: The kinds of faults, in the order of reports: only the first of a row counts, and only the first of a frame.
_GROUP, _NO_TARGET, _TARGET, _NO_CLUSTER, _CLUSTER, _NO_WEIGHT, _WEIGHT, _NO_SCORE, _SCORE, _SUM = range(10)
_NONE: Final = -1
_HEAD: Final = 200  # rows to read for the likely mistake

_WEIGHTS: Final = "finite numbers, 0 or larger"
_CORRECT: Final = "correct the rows, or filter them out of the frame"


@dataclass(frozen=True)
class RowFault:
    """A fault: its kind, the number of rows with it, the values of the first, and its index if rows have an order."""

    kind: int
    n: int
    values: dict[str, Any]
    row: int | None

    def facts(self, value: Any, **more: Any) -> Facts:
        """Return the facts about a value of the row."""
        return Facts(value=value, place=Place(self.row), n_rows=self.n, **more)

    def among(self, value: str) -> str:
        """Return a value in words, as one of several."""
        at = "" if self.row is None else f" at row {self.row}"
        return f"{value}{at}" if self.n == 1 else f"other values in {self.n:,} rows, such as {value}{at}"

    @property
    def missing(self) -> str:
        """Return the number of missing values in words."""
        first = "" if self.row is None else f" (row {self.row})" if self.n == 1 else f", the first at row {self.row}"
        return f"missing values (null or NaN) in {self.n:,} row{'s' * (self.n != 1)}{first}"


def explain(frame: Frame, columns: Columns) -> InputError:
    """Return the error of a frame with invalid rows: the fault, the number of rows, and one of them."""
    row_fault = _in_memory(frame, columns) if isinstance(frame, nw.DataFrame) else _in_engine(frame, columns)
    if row_fault.kind in (_GROUP, _NO_TARGET, _NO_CLUSTER, _NO_WEIGHT, _NO_SCORE):
        return _of_missing(row_fault, columns)
    if row_fault.kind == _SCORE:
        return _of_score(row_fault, frame, columns)
    if row_fault.kind == _WEIGHT:
        return _of_weight(row_fault)
    word = {_TARGET: _of_target, _CLUSTER: _of_cluster, _SUM: _of_sum}[row_fault.kind]
    return word(row_fault, columns)


def _in_engine(frame: LazyFrame, columns: Columns) -> RowFault:
    faults = _faults(frame, columns)
    table = fetch(faults.group_by("fault").agg(nw.len().alias("n")))
    counts = dict(zip(table.get_column("fault").to_list(), table.get_column("n").to_list(), strict=True))
    kind = min(int(fault) for fault in counts if fault != _NONE)
    return RowFault(kind, int(counts[kind]), _first(fetch(faults.filter(nw.col("fault") == kind).head(1))), None)


def _in_memory(frame: nw.DataFrame[Any], columns: Columns) -> RowFault:
    counts: Counter[int] = Counter()
    firsts: dict[int, tuple[dict[str, Any], int]] = {}
    start = 0
    for part in parts(frame):
        table = fetch(_faults(part, columns))
        kinds = table.get_column("fault").to_numpy()
        for kind in np.unique(kinds[kinds != _NONE]).tolist():
            place = int(np.argmax(kinds == kind))
            counts[kind] += int(np.count_nonzero(kinds == kind))
            firsts.setdefault(kind, (_first(table[place : place + 1]), start + place))
        start += len(table)
    kind = min(counts)
    return RowFault(kind, counts[kind], *firsts[kind])


def _first(table: nw.DataFrame[Any]) -> dict[str, Any]:
    """Return the values of the first row; None for all kinds of missing values."""
    values = {name: table.get_column(name).to_list()[0] for name in table.columns}
    return {
        name: None if type(value).__name__ == "NAType" or value != value else value for name, value in values.items()
    }


def _faults(frame: LazyFrame, columns: Columns) -> LazyFrame:
    """Return the used columns unchanged, and the kind of each row's first fault."""
    schema, names = frame.collect_schema(), rows.score_names(columns)
    raw = {column: nw.col(name) for column, name in zip(names, columns.scores, strict=True)}
    raw["t"] = nw.col(columns.target)
    scores = [nw.col(name).cast(nw.Float64) for name in columns.scores]
    valid, _ = rows.target_of(columns)
    checks = [(_NO_TARGET, rows.missing(raw["t"], schema[columns.target])), (_TARGET, ~valid)]
    if columns.group is not None:
        raw["group"] = nw.col(columns.group)
        checks.insert(0, (_GROUP, rows.missing(raw["group"], schema[columns.group])))
    for k, label in enumerate(columns.labels):
        raw[f"cluster{k}"] = value = nw.col(label.column)
        checks += [(_NO_CLUSTER, rows.missing(value, label.dtype)), (_CLUSTER, ~rows.proper_label(label))]
    if columns.weight is not None:
        raw["w"], weight = nw.col(columns.weight), nw.col(columns.weight).cast(nw.Float64)
        checks.append((_NO_WEIGHT, rows.missing(weight, nw.Float64())))
        checks.append((_WEIGHT, ~rows.proper_weight(weight)))
        checks.append((_NONE, weight == 0.0))
    lacking = [rows.missing(score, nw.Float64()) for score in scores]
    checks.append((_NO_SCORE, nw.any_horizontal(*lacking, ignore_nulls=False)))
    outside = [~((score >= 0.0) & (score <= 1.0)) for score in scores]
    checks.append((_SCORE, nw.any_horizontal(*outside, ignore_nulls=False)))
    if columns.classes:
        checks.append((_SUM, ~((rows.added(scores) - 1.0).abs() <= sum_tolerance(columns.precision))))
    fault = nw.lit(_NONE)
    for kind, check in reversed(checks):
        fault = nw.when(check.fill_null(False)).then(nw.lit(kind)).otherwise(fault)
    return frame.select(fault=fault, **raw)


# ---------------------------------------------------------------- in words


def _of_missing(row_fault: RowFault, columns: Columns) -> InputError:
    label = "a label in every row"
    entries = {
        _GROUP: ("by", "a name in every row", "fill the missing names in the frame, such as with 'unknown'"),
        _NO_TARGET: (columns.target_argument, label, FILTER),
        _NO_CLUSTER: ("cluster", label, f"name the clusters of such rows, or {FILTER}"),
        _NO_WEIGHT: ("weight", _WEIGHTS, _CORRECT),
        _NO_SCORE: (columns.score_argument, "numbers in every row", FILTER),
    }
    argument, expected, remedy = entries[row_fault.kind]
    got, place = row_fault.missing, Place(row_fault.row)
    if row_fault.kind == _NO_SCORE:
        values = [row_fault.values[name] for name in rows.score_names(columns)]
        column = values.index(None)
        place = Place(row_fault.row, column, len(values))
        got += f", in column {columns.scores[column]!r}" if columns.classes else ""
    facts = Facts(place=place, n_rows=row_fault.n)
    return InputError(argument, expected, got, remedy, fault=Fault.MISSING, facts=facts)


def _of_target(row_fault: RowFault, columns: Columns) -> InputError:
    argument = columns.target_argument
    value = row_fault.values["t"]
    if columns.writing == "words" and columns.names is not None:
        got, remedy = row_fault.among(repr(value)), nearest(str(value), columns.names)
        facts = row_fault.facts(str(value), names=columns.names)
        return InputError(argument, "names from class_names", got, remedy, fault=Fault.UNKNOWN_NAME, facts=facts)
    n_classes = columns.n_classes if columns.classes else None
    mistake = None
    if columns.classes:
        remedy = f"name the column of every class in probs, or {FILTER}"
        if value == columns.n_classes:
            mistake, remedy = Mistake.ONE_BASED, f"subtract 1 if the labels are 1-based, or {remedy}"
    elif 0 < value < 1:
        mistake, remedy = Mistake.PROBABILITY_TARGETS, f"pass outcomes, not probabilities; {SOFT_LABELS}"
    else:
        remedy = "map the outcomes to 0 and 1 in the frame, or pass probs=[...] for classes"
    facts = row_fault.facts(value, n_classes=n_classes, suspicion=None if mistake is None else Suspicion(mistake))
    fault = Fault.CLASS_INDICES if columns.classes else Fault.OUTCOMES
    return InputError(
        argument, expected_labels(n_classes), row_fault.among(number(value)), remedy, fault=fault, facts=facts
    )


def _of_weight(row_fault: RowFault) -> InputError:
    expected, remedy, value = _WEIGHTS, _CORRECT, row_fault.values["w"]
    if 0 < value < math.inf:
        expected = f"0, or numbers from {LEAST_WEIGHT:g} to {MOST_WEIGHT:g}"
        remedy = "divide all weights, including the weights of other frames, by the same number"
    got, facts = row_fault.among(number(value)), row_fault.facts(value)
    return InputError("weight", expected, got, remedy, fault=Fault.WEIGHT, facts=facts)


def _of_cluster(row_fault: RowFault, columns: Columns) -> InputError:
    expected, remedy = "decimals up to 2^53", "cast the labels to text in the frame first"
    for k, label in enumerate(columns.labels):
        value = row_fault.values[f"cluster{k}"]
        try:
            as_clusters(np.array([value], np.float32 if label.dtype == nw.Float32 else None), 1)
        except InputError as error:
            expected, remedy = error.expected, error.remedy
            break
    got, facts = row_fault.among(number(value)), row_fault.facts(value)
    return InputError("cluster", expected, got, remedy, fault=Fault.VALUE, facts=facts)


def _of_sum(row_fault: RowFault, columns: Columns) -> InputError:
    total = sum(float(row_fault.values[name]) for name in rows.score_names(columns))
    tolerance = sum_tolerance(columns.precision)
    facts = row_fault.facts(total)
    got, remedy = row_fault.among(f"{total:.10g}"), "divide each row by its sum, or make a sketch for each label"
    return InputError("probs", expected_sum(tolerance), got, remedy, fault=Fault.ROW_SUM, facts=facts)


def _of_score(row_fault: RowFault, frame: Frame, columns: Columns) -> InputError:
    values = [row_fault.values[name] for name in rows.score_names(columns)]
    column = next(k for k, value in enumerate(values) if not 0 <= value <= 1)
    got = row_fault.among(number(values[column])) + (
        f" in column {columns.scores[column]!r}" if columns.classes else ""
    )
    suspicion = _suspect(float(values[column]), frame, columns)
    how = "softmax of the row" if columns.classes else "1 / (1 + exp(-x))"
    remedies = {
        Mistake.PERCENT: "the values look like percentages; divide them by 100 in the frame",
        Mistake.RANKS: "whole numbers up to 10 may be ranks or deciles; name the column of the probabilities",
        Mistake.ROUNDING: "clip the values to [0, 1] in the frame if rounding caused this",
        Mistake.LOGITS: f"if they are logits, compute the probabilities in the frame first ({how})",
    }
    score = Facts(
        value=values[column], suspicion=suspicion, place=Place(row_fault.row, column, len(values)), n_rows=row_fault.n
    )
    argument, remedy = columns.score_argument, remedies[suspicion.mistake]
    return InputError(argument, "values in [0, 1]", got, remedy, fault=Fault.OUTSIDE_RANGE, facts=score)


def _suspect(value: float, frame: Frame, columns: Columns) -> Suspicion:
    """Return the mistake behind a score outside [0, 1]."""
    head = fetch(frame.lazy().head(_HEAD).select(*[nw.col(name).cast(nw.Float64) for name in columns.scores]))
    look = np.stack([head.get_column(name).to_numpy() for name in columns.scores], axis=1).astype(np.float64)
    return of_large(look, classes=columns.classes) or of_score(value)
