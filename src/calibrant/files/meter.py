"""How much of the files is read, for a bar that shows it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

#: Called with the bytes done, the bytes in all, and the rows.
Progress = Callable[[int, int, int], None]


class Meter:
    """Bytes and rows done, of all files."""

    def __init__(self, paths: Sequence[str], progress: Progress | None) -> None:
        self._sizes = {path: os.path.getsize(path) for path in paths}
        self._total = sum(self._sizes.values())
        self._progress = progress
        self._done = 0  # bytes of the files that are read
        self._rows = 0

    def report(self, path: str, rows: int, expected: int) -> None:
        """Note the rows done of a file, and those there may be."""
        if self._progress is not None:
            part = min(rows / expected, 1.0)
            self._progress(self._done + int(self._sizes[path] * part), self._total, self._rows + rows)

    def finish(self, path: str, rows: int) -> None:
        """Note that a file has been read, or left out."""
        self._done += self._sizes[path]
        self._rows += rows
        if self._progress is not None:
            self._progress(self._done, self._total, self._rows)
