"""What errors and hints tell about values in files: the values of a column, and values that cannot be used."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import CalibrantError, FileError, quoted
from calibrant.files.array_rows import array_names, rows_of
from calibrant.files.column_kinds import ROWS, Candidates, first_look
from calibrant.files.column_options import ColumnSelection, Options, are_logits
from calibrant.files.column_readings import Readings
from calibrant.files.column_values import fraction, is_missing, is_missing_cell, is_signed, number_in, shown
from calibrant.files.engine import Engines, FileTable
from calibrant.files.odds import implied
from calibrant.files.paths import kind_of
from calibrant.files.roles import select
from calibrant.files.sources import TABLES, table_of
from calibrant.files.sql import joined_conditions, literal, sql_name
from calibrant.kernels.row_blocks import ROUNDING
from calibrant.runtime.dataclass import dataclass

#: So many different values are counted at most.
MOST = 10_000


@dataclass(frozen=True, kw_only=True)
class Held:
    """The values of a column as text, None for a null; ``spoken`` is its SQL, ``is_number`` whether it holds numbers.

    A column of a CSV with words among the numbers holds text.
    """

    counts: dict[str | None, int]
    spoken: str
    is_number: bool

    @property
    def present(self) -> list[str]:
        """The values, without the words for a missing one."""
        return [text for text in self.counts if text is not None and not is_missing(text)]

    @property
    def missing(self) -> list[str | None]:
        """Null and the words for a missing value that occur."""
        return [text for text in self.counts if text is None or is_missing(text)]

    @property
    def n_missing(self) -> int:
        """The rows without a value."""
        return sum(self.counts[text] for text in self.missing)

    @property
    def unusable(self) -> dict[str | None, int]:
        """The values that are neither 0 nor 1."""
        return {text: count for text, count in self.counts.items() if text is None or number_in(text) not in (0, 1)}

    @property
    def are_fractions(self) -> bool:
        """Whether the values are numbers in [0, 1], most of the rows with several numbers between 0 and 1."""
        numbers = {text: number_in(text) for text in self.present}
        if not self.is_number or not all(0 <= number <= 1 for number in numbers.values()):
            return False
        between = [self.counts[text] for text, number in numbers.items() if 0 < number < 1]  # one is a tie
        return len(between) > 1 and 2 * sum(between) > sum(self.counts.values())

    def equals(self, text: str) -> str:
        """Return the condition that a row has a value."""
        return f"{self.spoken} = {self._literal(text)}"

    def is_among(self, texts: Collection[str]) -> str:
        """Return the condition that a row has one of several values."""
        return f"{self.spoken} IN ({', '.join(map(self._literal, texts))})"

    def is_known(self) -> str:
        """Return the condition that a row has a value at all."""
        words = [text for text in self.missing if text is not None]
        none = f"{self.spoken} IS NOT NULL"
        return f"{self.spoken} NOT IN ({', '.join(map(self._literal, words))})" if words else none

    def _literal(self, text: str) -> str:
        return text if self.is_number and not math.isnan(number_in(text)) else literal(text)


def values_of(paths: Sequence[str], column: str, options: Options) -> Held:
    """Count the values of a column, or an expression, of the rows that the options ask for: for the words of errors.

    `MOST` different ones are counted at most.
    """
    tables = _tables(paths, replace(options, outcome=column))
    counts: Counter[str | None] = Counter()
    typed = True
    for table in tables:
        for values in _column(table, column):
            for value, count in _counted(values):
                typed = typed and (not table.has_types or not isinstance(value, str))
                counts[None if value is None else _text(value)] += count
            if len(counts) > MOST:
                break
    numbers = all(text is None or not math.isnan(number_in(text)) for text in counts)
    return Held(counts=dict(counts), spoken=tables[0].spoken(column), is_number=typed and numbers)


def _counted(values: Any) -> Iterator[tuple[Any, int]]:
    """Yield the values of a column with their numbers, each of them alone where Arrow cannot count them, as lists."""
    try:
        counts = values.value_counts().to_pylist()
    except NotImplementedError:
        yield from zip(values.to_pylist(), itertools.repeat(1), strict=False)
    else:
        yield from ((each["values"], each["counts"]) for each in counts)


def _tables(paths: Sequence[str], options: Options) -> list[FileTable]:
    engines = Engines(paths, options.timezone)
    return [table_of(path, options, engines) for path in paths]


def _column(table: FileTable, column: str) -> Iterator[Any]:
    """Yield a column some rows at a time, in the type that the file gives it: words among numbers stay words."""
    for batch in table.batches(ColumnSelection(targets=(column,), labels=True)):
        yield batch.column(0)


# ---------------------------------------------------------------- values that cannot be used, by kind

#: What values may be for: which numbers cannot be used, with the unit in the last place of their type, and in words.
_USES: Final[Mapping[str, tuple[Callable[[NDArray[np.float64], float], NDArray[np.bool_]], str]]] = {
    "probability": (
        lambda numbers, eps: (numbers < -ROUNDING * eps) | (numbers > 1 + ROUNDING * eps),
        "outside [0, 1]",
    ),
    "percent": (lambda numbers, _: (numbers < 0) | (numbers > 100), "outside [0, 100]"),
    "logit": (lambda numbers, _: np.zeros(numbers.shape, np.bool_), ""),
    "weight": (lambda numbers, _: numbers < 0, "negative"),
    "outcome": (lambda numbers, _: ~np.isin(numbers, (0, 1)), "neither 0 nor 1"),
    "decimal": (lambda numbers, _: np.isnan(implied(numbers, "decimal")), "not decimal odds"),
    "american": (lambda numbers, _: np.isnan(implied(numbers, "american")), "not American odds"),
}
_EXAMPLES: Final = 3
_WITH_EXAMPLES: Final = ("text", "a decimal comma")
_COMMA: Final = re.compile(r"[-+]?\d*,\d+")


@dataclass
class Unusable:
    """The values of a column that cannot be used, by kind: in how many of its rows, and some of them as text."""

    column: str
    rows: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Whether no row has a value that can be used: another column may be meant."""
        return self.counts.total() == self.rows

    def __str__(self) -> str:
        kinds = []
        for kind, count in self.counts.items():
            texts = self.examples.get(kind, [])
            more = ", ..." if len(texts) > _EXAMPLES else ""
            kinds.append(
                f"{kind} in {count:,} row{'s' * (count != 1)}"
                + (f" ({', '.join(map(shown, texts[:_EXAMPLES]))}{more})" if texts else "")
            )
        return f"column {quoted(self.column)}: {', '.join(kinds)}"


def unusable_values(
    paths: Sequence[str],
    options: Options,
    logits: bool,
    ignore_index: int | None = None,
    targets_file: str | None = None,
) -> list[Unusable]:
    """Count the values of all columns of numbers that cannot be used, by kind: for the words of errors.

    Columns that are not there have errors of their own; the others are looked at all the same. Rows with the label
    ``ignore_index`` are left out.
    """
    columns = _names_in(paths, options, targets_file)
    scores, outcome, target = _columns_of_numbers(paths[0], columns, options)
    ignored = None if ignore_index is None or target not in columns else (str(target), ignore_index)
    named_logits = bool(scores) and set(scores) <= set(columns) and are_logits(scores)
    use = "logit" if logits or named_logits else "percent" if options.percent else options.odds or "probability"

    def count(name: str, use: str) -> Unusable | None:
        parts = _parts_of(paths, name, options, targets_file, ignored)
        return _unusable(parts, name, use, options.decimal_comma)

    counted = [count(name, use) for name in scores]
    if outcome is not None and options.labels is None and None not in counted:
        counted.append(count(outcome, "outcome"))
    if options.weight is not None and options.weight in columns:
        counted.append(count(options.weight, "weight"))
    return [each for each in counted if each is not None and each.counts]


def _names_in(paths: Sequence[str], options: Options, targets_file: str | None) -> Sequence[str]:
    """Return the names of the columns or arrays."""
    if kind_of(paths[0]) in TABLES:
        return _tables(paths, options)[0].columns
    return array_names(paths[0]) if targets_file is None else ("probs", "targets")


def _parts_of(
    paths: Sequence[str], name: str, options: Options, targets_file: str | None, ignored: tuple[str, int] | None
) -> Iterator[tuple[Any, float]]:
    """Yield a column of several files some rows at a time, with the unit in the last place of its type.

    The rows are left out in which the column of targets, ``ignored``, has a value.
    """
    if kind_of(paths[0]) not in TABLES:
        for values in rows_of(paths, targets_file, name, ignored):
            yield _as_arrow(values), _unit_in_last_place(values.dtype)
        return
    if ignored is not None:
        is_kept = f"TRY_CAST({sql_name(ignored[0])} AS DOUBLE) IS DISTINCT FROM {ignored[1]}"
        options = replace(options, where=joined_conditions(options.where, is_kept))
    for table in _tables(paths, options):
        eps = _unit_in_last_place(table.dtype_of(name))
        yield from ((part, eps) for part in _column(table, name))


def _columns_of_numbers(
    path: str, columns: Sequence[str], options: Options
) -> tuple[list[str], str | None, str | None]:
    """Return the columns of the scores, of the outcomes of one event, and of the targets, if they exist."""
    score, outcome, target = options.score, options.outcome, options.outcome or options.target
    selection = None
    if target is None or (score is None and not options.models):
        with suppress(FileError):
            selection = select(path, columns, replace(options, by=(), clusters=(), on=(), weight=None))
    if selection is not None:
        target = selection.targets[0] if len(selection.targets) == 1 else None
        # Of several classes, and of lists of them, the outcomes are labels.
        is_label = (
            selection.counts
            or len(selection.probs) > 1
            or options.target is not None
            or selection.class_names is not None
        )
        return list(selection.probs), None if is_label else target, target
    scores = [name for name in options.models if name in columns]
    if not scores and score is not None:
        is_sql = kind_of(path) in TABLES and not re.fullmatch(r"\w+", score)
        scores = [score] * (is_sql or score in columns)
    return scores, outcome if outcome in columns else None, target


def _unusable(
    parts: Iterable[tuple[Any, float]], column: str, use: str, decimal_comma: bool = False
) -> Unusable | None:
    """Count the values of a column that cannot be used, by kind; None for a column of lists."""
    found = Unusable(column)
    for part, eps in parts:
        kind = str(part.type)
        if re.match(r"(large_|fixed_size_)?list|struct|map", kind):
            return None
        found.rows += len(part)
        if part.null_count:
            found.counts["empty"] += part.null_count
        if re.fullmatch(r"u?int\d+|(half)?float|double", kind):
            numbers = np.asarray(part.drop_null().to_numpy(zero_copy_only=False), np.float64)
            _count_numbers(found.counts, numbers, use, eps)
            continue
        for value, count in _counted(part.drop_null()):
            text = _text(value)
            if text.startswith("["):  # a list in a CSV
                return None
            if said := _fault(text.replace(",", ".") if decimal_comma else text, use, eps):
                found.counts[said] += count
                texts = found.examples.setdefault(said, [])
                if said in _WITH_EXAMPLES and len(texts) <= _EXAMPLES and text not in texts:
                    texts.append(text)
    return found


def _fault(text: str, use: str, eps: float) -> str | None:
    """Return the kind of a text that cannot be used; None for one that can."""
    if _COMMA.fullmatch(text.strip()):
        return "a decimal comma"
    number = number_in(text)
    if use == "percent" and is_signed(text):
        number = 100 * fraction(text)
    if math.isnan(number):
        word = text.strip().lower()
        return "NaN" if word in ("nan", "-nan") else "empty" if is_missing(text) else "text"
    counts: Counter[str] = Counter()
    _count_numbers(counts, np.array([number]), use, eps)
    return next(iter(counts), None)


def _count_numbers(counts: Counter[str], numbers: NDArray[np.float64], use: str, eps: float) -> None:
    """Add the numbers of values that cannot be used, by kind."""
    is_unusable, said = _USES[use]
    nan, infinite = np.isnan(numbers), np.isinf(numbers) & (use != "outcome")
    kinds = {"NaN": nan, "infinite": infinite, said: is_unusable(numbers, eps) & ~nan & ~infinite}
    counts.update({kind: number for kind, where in kinds.items() if (number := int(np.count_nonzero(where)))})


def _text(value: object) -> str:
    """Return a value as text: whole numbers without a point, and truth values as SQL writes them."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _as_arrow(values: NDArray[Any]) -> Any:
    """Return rows of an array as Arrow has them; of lists only their type."""
    import pyarrow as pa

    if values.ndim > 1:
        return pa.nulls(0, pa.list_(pa.float64()))
    return pa.array(values.astype(np.str_) if values.dtype.kind == "S" else values)


def _unit_in_last_place(dtype: np.dtype[Any]) -> float:
    """Return the distance from 1 to the next number of a type, of doubles where it has no fractions."""
    kind = dtype if dtype.kind == "f" else np.float64
    return float(np.finfo(kind).eps)


def first_values(path: str, column: str) -> list[Any]:
    """Return the first values of a column, without the missing ones; none of a file or a column that cannot be read."""
    try:
        table = table_of(path, Options(by=(column,)))
        cells = table.head(ROWS, (column,)) if column in table.columns else {}
    except CalibrantError:  # reading the file says what is wrong
        return []
    return [cell for cell in cells.get(column, ()) if not is_missing_cell(cell)]


def written_in(path: str, options: Options) -> tuple[str, ...]:
    """Return the options that say how the numbers of a file are written; empty if they are plain, or in doubt.

    These are per cents, decimal commas and odds, with the labels of the targets if nothing else fits.
    """
    seen = candidates_in(path)
    with suppress(FileError):
        chosen = select(path, tuple(seen.cells), replace(options, by=(), clusters=(), on=(), weight=None))
        target = chosen.targets[0] if len(chosen.targets) == 1 else None
        if len(chosen.probs) == 1:
            options = replace(options, score=chosen.probs[0], outcome=target, probs=None, target=None)
        else:
            options = replace(options, score=None, outcome=None, probs=",".join(chosen.probs), target=target)
    found = Readings(seen, options)
    for each in (found, found.of_percent()):
        readings = [reading for reading in each.readings() if each.says_how(reading)]
        if len(readings) == 1:
            return readings[0].words
        if readings:
            return readings[0].flags
    return ()


def candidates_in(path: str) -> Candidates:
    """Return the columns of a table by what they look like; none of a file that cannot be read."""
    try:
        table = table_of(path)
    except FileError:
        return Candidates({})
    return first_look(table.columns, table.head)


def keys_of_rows(paths: Sequence[str]) -> list[str]:
    """Return the columns that may identify a row in each of several files, in any order.

    Their first values differ from row to row, and are not fractions. Numbers that count rows are left out.
    """
    first, *others = (
        {name: list(map(str, cells)) for name, cells in candidates_in(path).cells.items()} for path in paths
    )
    return [
        name
        for name, cells in first.items()
        if all(_identify_rows(each.get(name, [])) for each in (first, *others))
        and any(each[name] != cells for each in others)
    ]


def _identify_rows(cells: Sequence[str]) -> bool:
    """Whether the cells of a column differ from row to row, and are not fractions."""
    are_fractions = any(re.fullmatch(r"[-+]?\d*[.,]\d+(e[-+]?\d+)?", cell.strip(), re.IGNORECASE) for cell in cells)
    return len(cells) > 1 and len(set(cells)) == len(cells) and not are_fractions
