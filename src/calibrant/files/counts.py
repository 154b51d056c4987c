"""Numbers of events and trials as rows: each row of a file becomes one with the event and one without it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing

import numpy as np

from calibrant.errors import FileError, FileFault, quoted
from calibrant.files.column_options import ColumnSelection
from calibrant.files.column_values import Column, Piece, ValueWords


def rows_of_counts(
    pieces: Generator[Piece, None, None], selection: ColumnSelection, path: str, row_of: Callable[[int], int]
) -> Generator[Piece, None, None]:
    """Yield two rows for each one: the event with its number as the weight, then its absence with the other number."""
    start = 0
    with closing(pieces):
        for piece in pieces:
            if "targets" not in piece:  # a look at the groups alone
                yield piece
                continue
            events, trials = (np.asarray(piece[name]).astype(np.float64) for name in ("targets", "weights"))
            is_bad = ~((events >= 0) & (events <= trials) & (events == np.floor(events)) & (trials == np.floor(trials)))
            if is_bad.any():
                row = int(np.argmax(is_bad))
                names = quoted(selection.targets[0]), quoted(str(selection.weights))
                problem = f"row {row_of(start + row):,}: expected whole numbers, {names[0]} between 0 and {names[1]}"
                problem = f"{problem}, got {events[row]:g} of {trials[row]:g}"
                raise FileError(path, problem, "correct the row", fault=FileFault.VALUE)
            start += len(events)
            doubled = {name: _twice(column) for name, column in piece.items()}
            doubled["targets"] = np.tile(np.array([1, 0]), len(events))
            doubled["weights"] = np.stack([events, trials - events], axis=1).reshape(-1)
            yield doubled


def _twice(column: Column) -> Column:
    """Return each row twice."""
    if isinstance(column, ValueWords):
        return ValueWords(column.names, np.repeat(column.codes, 2))
    return np.repeat(column, 2, axis=0)
