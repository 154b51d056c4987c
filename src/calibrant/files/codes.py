"""Names as numbers: of groups and of labels, of which there are few, in as many rows as a file may have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int32]


class Coder:
    """Numbers for names, in the order in which they come.

    Parameters
    ----------
    names : iterable
        The names that are known before: number 0 and so on.
    spelled : callable, optional
        How a name is written; names that are written alike have one number.
    """

    def __init__(self, names: Iterable[Any] = (), spelled: Callable[[Any], Any] | None = None) -> None:
        self.names: list[Any] = list(names)
        self._spelled = spelled
        self.known = len(self.names)
        self._numbers = {name: number for number, name in enumerate(self.names)}

    def codes(self, names: Sequence[Any], places: NDArray[Any]) -> Codes:
        """Return the numbers of ``names[places]``; names that are numbers are NumPy's own, of the type they came in."""
        names = list(names if self._spelled is None else map(self._spelled, names))
        for name in names:
            if name not in self._numbers:
                self._numbers[name] = len(self.names)
                self.names.append(name)
        numbers = np.array([self._numbers[name] for name in names], np.int32)
        return numbers[places] if len(numbers) else np.zeros(len(places), np.int32)

    def codes_of(self, array: NDArray[Any]) -> Codes:
        """Return the numbers of an array of names."""
        if array.dtype == object:
            places = {name: place for place, name in enumerate(dict.fromkeys(array.tolist()))}
            return self.codes(list(places), np.fromiter(map(places.__getitem__, array.tolist()), np.int64, len(array)))
        names, inverse = np.unique(array, return_inverse=True)
        return self.codes(names.tolist() if self._spelled is None else list(names), inverse.reshape(-1))

    def names_of(self, codes: Codes) -> NDArray[Any]:
        """Return the names of numbers."""
        known = list(self.names)  # another thread may learn more of them
        names = np.empty(len(known), object)
        names[:] = known
        found: NDArray[Any] = names[codes]
        return found
