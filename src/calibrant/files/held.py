"""The values that a column holds, with the numbers of their rows: for the words of errors."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import quoted
from calibrant.files.columns import Selection
from calibrant.files.engine import Table
from calibrant.files.sql import literal
from calibrant.files.values import fraction, is_missing, is_signed, shown
from calibrant.kernels.blocks import ROUNDING

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
        return {text: count for text, count in self.counts.items() if text is None or _number(text) not in (0, 1)}

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
        return text if self.is_number and not math.isnan(_number(text)) else literal(text)


def held(tables: Sequence[Table], column: str) -> Held:
    """Count the values of a column in several files; `MOST` different ones are counted at most."""
    counts: Counter[str | None] = Counter()
    typed = True
    for table in tables:
        for values in _parts(table, column):
            for each in values.value_counts().to_pylist():
                value = each["values"]
                typed = typed and (not table.has_types or not isinstance(value, str))
                counts[None if value is None else _text(value)] += each["counts"]
            if len(counts) > MOST:
                break
    numbers = all(text is None or not math.isnan(_number(text)) for text in counts)
    return Held(counts=dict(counts), spoken=tables[0].spoken(column), is_number=typed and numbers)


def parts_of(tables: Sequence[Table], column: str) -> Iterator[tuple[Any, float]]:
    """Yield a column of several files some rows at a time, with the unit in the last place of its type."""
    for table in tables:
        eps = unit_of(table.dtype_of(column))
        yield from ((part, eps) for part in _parts(table, column))


def arrow_values(values: NDArray[Any]) -> Any:
    """Return rows of an array as Arrow has them; of lists only their type."""
    import pyarrow as pa

    if values.ndim > 1:
        return pa.nulls(0, pa.list_(pa.float64()))
    return pa.array(values.astype(np.str_) if values.dtype.kind == "S" else values)


def unit_of(dtype: np.dtype[Any]) -> float:
    """Return the distance from 1 to the next number of a type, of doubles where it has no fractions."""
    return float(np.finfo(dtype if dtype.kind == "f" else np.float64).eps)


def _parts(table: Table, column: str) -> Iterator[Any]:
    """Yield a column some rows at a time, in the type that the file gives it: words among numbers stay words."""
    selection = Selection(
        probs=(), targets=(column,), weights=None, logits=False, class_names=None, labels=True, noun="column"
    )
    for batch in table.batches(selection):
        yield batch.column(0)


# ---------------------------------------------------------------- values that cannot be used, by kind

#: What values may be for, and the least and the largest of them.
_LIMITS: Final = {
    "probability": (0.0, 1.0),
    "per cent": (0.0, 100.0),
    "logit": (-math.inf, math.inf),
    "weight": (0.0, math.inf),
    "outcome": (0.0, 1.0),
}
_EXAMPLES: Final = 3
_WITH_EXAMPLES: Final = ("text", "a decimal comma")
_COMMA: Final = re.compile(r"[-+]?\d*,\d+")


@dataclass(frozen=True, kw_only=True)
class Unusable:
    """The values of a column that cannot be used, by kind: in how many of its rows, and some of them as text."""

    column: str
    rows: int
    counts: Counter[str]
    examples: dict[str, list[str]]

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


def unusable(parts: Iterable[tuple[Any, float]], column: str, use: str, decimal_comma: bool = False) -> Unusable | None:
    """Count the values of a column that cannot be used, by kind; None for a column of lists."""
    rows = 0
    counts: Counter[str] = Counter()
    examples: dict[str, list[str]] = {}
    for part, eps in parts:
        kind = str(part.type)
        if re.match(r"(large_|fixed_size_)?list|struct|map", kind):
            return None
        rows += len(part)
        if part.null_count:
            counts["empty"] += part.null_count
        if re.fullmatch(r"u?int\d+|(half)?float|double", kind):
            numbers = np.asarray(part.drop_null().to_numpy(zero_copy_only=False), np.float64)
            _count_numbers(counts, numbers, use, eps)
            continue
        for each in part.drop_null().value_counts().to_pylist():
            text = _text(each["values"])
            if text.startswith("["):  # a list in a CSV
                return None
            if said := _fault(text.replace(",", ".") if decimal_comma else text, use, eps):
                counts[said] += each["counts"]
                texts = examples.setdefault(said, [])
                if said in _WITH_EXAMPLES and len(texts) <= _EXAMPLES and text not in texts:
                    texts.append(text)
    return Unusable(column=column, rows=rows, counts=counts, examples=examples)


def _fault(text: str, use: str, eps: float) -> str | None:
    """Return the kind of a text that cannot be used; None for one that can."""
    if _COMMA.fullmatch(text.strip()):
        return "a decimal comma"
    number = _number(text)
    if use == "per cent" and is_signed(text):
        number = 100 * fraction(text)
    if math.isnan(number):
        word = text.strip().lower()
        return "NaN" if word in ("nan", "-nan") else "empty" if is_missing(text) else "text"
    counts: Counter[str] = Counter()
    _count_numbers(counts, np.array([number]), use, eps)
    return next(iter(counts), None)


def _count_numbers(counts: Counter[str], numbers: NDArray[np.float64], use: str, eps: float) -> None:
    """Add the numbers of values that cannot be used, by kind."""
    low, high = _LIMITS[use]
    nan, infinite = np.isnan(numbers), np.isinf(numbers) & (use != "outcome")
    if use == "outcome":
        outside, said = ~np.isin(numbers, (0, 1)), "neither 0 nor 1"
    else:
        slack = ROUNDING * eps if use == "probability" else 0
        outside = (numbers < low - slack) | (numbers > high + slack)
        said = "negative" if use == "weight" else f"outside [{low:g}, {high:g}]"
    kinds = {"NaN": nan, "infinite": infinite, said: outside & ~nan & ~infinite}
    counts.update({kind: number for kind, where in kinds.items() if (number := int(np.count_nonzero(where)))})


def _text(value: object) -> str:
    """Return a value as text: whole numbers without a point, and truth values as SQL writes them."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _number(text: str) -> float:
    """Return the number that a text says; a truth value is 0 or 1, and NaN stands for any other."""
    word = text.strip().lower()
    if word in ("true", "false"):
        return float(word == "true")
    try:
        return math.nan if "_" in text else float(text)
    except ValueError:
        return math.nan
