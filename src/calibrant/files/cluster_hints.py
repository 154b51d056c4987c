"""Which columns of a file name things with several rows each, such as patients: a hint about clusters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.files.column_values import is_missing_cell
from calibrant.files.column_words import has_word

_PARTS: Final = 7  # columns whose combinations are tried
_TOGETHER: Final = 3  # columns that together name a thing, at most
_REPEATED: Final = 1.5  # rows of a value, on average


def named_as_ids(columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns whose names are those of things that have several rows, such as ``patient_id``."""
    return tuple(name for name in columns if has_word(name, "thing") and not has_word(name, "of a thing"))


def parts_of_ids(columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that may name a thing with several rows, by themselves or together with others."""
    ids = named_as_ids(columns)
    return tuple(name for name in columns if name in ids or has_word(name, "side") or has_word(name, "when"))


def cluster_hint(cells: Mapping[str, Sequence[Any]]) -> tuple[tuple[str, ...], ...]:
    """Return which columns name things with several rows each: those that do alone, else the finest combination.

    A combination has at most three columns. At least one of them identifies the thing, not only its time.
    """
    repeated = [name for name, values in cells.items() if is_repeated(values)]
    alone = tuple((name,) for name in named_as_ids(repeated))
    parts = parts_of_ids(repeated)[:_PARTS]
    if alone or not parts:
        return alone
    present = np.array([[not is_missing_cell(cell) for cell in cells[name]] for name in parts]).all(axis=0)
    if not present.any():
        return ()
    texts = {name: [str(cell).strip() for cell in cells[name]] for name in parts}
    finest = _finest({name: np.unique(column, return_inverse=True)[1][present] for name, column in texts.items()})
    return (finest,) if finest else ()


def _finest(codes: Mapping[str, NDArray[np.intp]]) -> tuple[str, ...]:
    """Return the columns that together have most values, in several rows each; of these, those with fewest times."""
    best: tuple[int, int, tuple[str, ...]] = (1, 0, ())
    for names in (some for k in range(2, _TOGETHER + 1) for some in combinations(codes, k)):
        together = np.ravel_multi_index([codes[name] for name in names], [codes[name].max() + 1 for name in names])
        candidate = len(np.unique(together)), sum(not has_word(name, "when") for name in names), names
        if candidate[1] and candidate[:2] > best[:2] and candidate[0] <= len(together) / _REPEATED:
            best = candidate
    return best[2]


def is_repeated(cells: Sequence[Any]) -> bool:
    """Whether whole numbers, words or dates come in several rows each."""
    present = [str(cell).strip() for cell in cells if not is_missing_cell(cell)]
    if any(re.fullmatch(r"[-+]?\d*\.\d*[1-9]\d*", cell) for cell in present):
        return False
    return 1 < len(set(present)) <= len(present) / _REPEATED
