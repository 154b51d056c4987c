"""The values that a column holds, with the numbers of their rows: for the words of errors."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from calibrant.files.columns import Selection
from calibrant.files.engine import Table
from calibrant.files.sql import literal
from calibrant.files.values import is_missing

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
    selection = Selection(
        probs=(), targets=(column,), weights=None, logits=False, class_names=None, labels=True, noun="column"
    )
    counts: Counter[str | None] = Counter()
    typed = True
    for table in tables:
        for batch in table.batches(selection):
            values = batch.column(0)
            for each in values.value_counts().to_pylist():
                value = each["values"]
                typed = typed and (not table.has_types or not isinstance(value, str))
                counts[None if value is None else _text(value)] += each["counts"]
            if len(counts) > MOST:
                break
    numbers = all(text is None or not math.isnan(_number(text)) for text in counts)
    return Held(counts=dict(counts), spoken=tables[0].spoken(column), is_number=typed and numbers)


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
