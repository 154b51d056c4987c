"""What a file of predictions becomes: arrays, and the way back from an array's row to the file's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class FilePredictions:
    """Predictions as they stand in one or more files.

    Parameters
    ----------
    probs : array of shape (N,) or (N, C)
        Probabilities or logits; floats of 16, 32 and 64 bits keep their width.
    targets : array of shape (N,) or (N, C)
        Integers, floats, booleans or strings, or one-hot rows.
    weights : array of shape (N,) or None
        Weights, where a column was named.
    class_names : tuple of str or None
        Names of the C classes, where the caller or the columns' own names give them.
    logits : bool
        True where the numbers were found under the name ``logits``.
    sources : mapping of str to str
        What was read, for people: ``{"probs": "p_0 ... p_9 (10 columns)", "targets": "target"}``.
    paths : tuple of str
        The files, in the order of their rows.
    columns : mapping of str to tuple of str
        The files' own names of the columns behind ``probs``, ``targets`` and ``weights``.
    rows : tuple of int
        How many rows each file gave.
    find_row : callable
        ``(file, row) -> int``: the 1-based data row of a kept row. It may read the file again.
    """

    probs: NDArray[Any]
    targets: NDArray[Any]
    weights: NDArray[Any] | None
    class_names: tuple[str, ...] | None
    logits: bool
    sources: Mapping[str, str]
    paths: tuple[str, ...]
    columns: Mapping[str, tuple[str, ...]]
    rows: tuple[int, ...]
    find_row: Callable[[int, int], int] = field(repr=False)

    def locate(self, row: int) -> tuple[str, int]:
        """Say where a row of the arrays stands in the files.

        Parameters
        ----------
        row : int
            Position in the arrays, from 0.

        Returns
        -------
        path : str
            The file.
        data_row : int
            The row in that file, from 1, the header not counted; also where a condition left rows out.
        """
        remaining = row
        for number, count in enumerate(self.rows):
            if 0 <= remaining < count:
                return self.paths[number], self.find_row(number, remaining)
            remaining -= count
        msg = f"row {row} of {sum(self.rows)}"
        raise IndexError(msg)

    def column_name(self, argument: str, column: int | None = None) -> str:
        """Return the file's own name for ``probs``, ``targets`` or ``weights``, or for one of their columns."""
        names = self.columns[argument]
        if len(names) == 1:
            return names[0] if column is None else f"{names[0]}[{column}]"
        return self.sources[argument] if column is None else names[column]
