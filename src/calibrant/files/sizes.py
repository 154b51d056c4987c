"""How much is read at a time, and how much is kept."""

from __future__ import annotations

from typing import Final

#: Values in one record batch: 32 MB of doubles.
CELLS: Final = 4_000_000

#: What is kept as it is, row by row; what is larger becomes a sketch. Chosen so that a report stays below a gigabyte.
MOST_ROWS: Final = 2_000_000
MOST_NUMBERS: Final = 10_000_000

#: The curves of a sketch: of the event, of each class, and all of these of each group.
MOST_CURVES: Final = 500

#: Numbers that go into the sketch at a time, and the rows that are worth it where every class is judged.
_CHUNK: Final = 2_000_000
_CHUNK_OF_CLASSES: Final = 16_384


def batch_rows(columns: int) -> int:
    """Return how many rows to read at a time."""
    return max(1024, min(65_536, CELLS // columns))


def chunk_rows(width: int, classwise: bool) -> int:
    """Return how many rows of so many numbers go into the sketch at a time; threads and readers do not change it."""
    return max(_CHUNK // width, _CHUNK_OF_CLASSES if classwise else 1024)
