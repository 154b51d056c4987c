"""An array that grows a batch at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class Growing:
    """Rows appended in order, in one block of memory.

    Joining a list of batches at the end would hold everything twice; this moves pages instead of copying them where the
    system can (``realloc``), so the peak is the array and the slack of the last growth.
    """

    def __init__(self, reserve: int = 0) -> None:
        self._data: NDArray[Any] | None = None
        self._rows = 0
        self._reserve = reserve

    def extend(self, rows: int, tail: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Append ``rows`` rows and return the view to fill them through; a wider type widens what is there."""
        end = self._rows + rows
        if self._data is None:
            self._data = np.empty((max(end, self._reserve), *tail), dtype)
        elif dtype != self._data.dtype:
            self._data = self._data.astype(np.promote_types(self._data.dtype, dtype), copy=False)
        if end > len(self._data):
            # No view of the block outlives the filling of a batch, so there is nothing for refcheck to protect.
            self._data.resize((max(end, len(self._data) * 3 // 2), *tail), refcheck=False)
        view = self._data[self._rows : end]
        self._rows = end
        return view

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Return a view of some rows, good until more are appended."""
        return np.empty(0) if self._data is None else self._data[start:stop]

    def cut(self, rows: int) -> None:
        """Take back all but the first rows."""
        self._rows = min(self._rows, rows)

    def finish(self) -> NDArray[Any]:
        """Return the array, cut to the rows there are."""
        if self._data is None:
            return np.empty(0)
        if len(self._data) > self._rows:
            self._data.resize((self._rows, *self._data.shape[1:]), refcheck=False)
        return self._data
