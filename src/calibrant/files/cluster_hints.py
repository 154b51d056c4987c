"""Which columns of a file name things with several rows each, such as patients: a hint about clusters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.files.column_values import is_missing_cell
from calibrant.files.column_words import has_word

_PARTS: Final = 7  # columns whose combinations are tried
_TOGETHER: Final = 3  # columns that together name a thing, at most
_REPEATED: Final = 1.5  # rows of a value, on average
_LEAST: Final = 10  # values that name things; fewer are kinds of things
_MOST: Final = 50  # rows of a thing, on average, unless all of them have one outcome ...
_ALIKE: Final = 0.9  # ... for this share of the things
_BEYOND: Final = 2  # standard errors of a variance that is not that of independent rows


class Errors(NamedTuple):
    """The scores of rows minus their outcomes, and the outcomes."""

    residuals: NDArray[np.float64]
    outcomes: NDArray[np.float64]


def named_as_ids(columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns whose names are those of things that have several rows, such as ``patient_id``."""
    return tuple(name for name in columns if has_word(name, "thing") and not has_word(name, "of a thing"))


def parts_of_ids(columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that may name a thing with several rows, by themselves or together with others."""
    ids = named_as_ids(columns)
    return tuple(name for name in columns if name in ids or has_word(name, "side") or has_word(name, "when"))


def cluster_hint(cells: Mapping[str, Sequence[Any]], errors: Errors | None = None) -> tuple[tuple[str, ...], ...]:
    """Return which columns name things with several rows each: those that do alone, else the finest combination.

    A combination has at most three columns. At least one of them identifies the thing, not only its time. Things are
    many, with few rows each, and the ``errors`` of their rows, where they are known, are not independent.
    """
    repeated = [name for name, values in cells.items() if is_repeated(values)]
    texts = {name: [str(cell).strip() for cell in cells[name]] for name in parts_of_ids(repeated)}
    codes = {name: np.unique(labels, return_inverse=True)[1].reshape(-1) for name, labels in texts.items()}
    alone = tuple((name,) for name in named_as_ids(repeated) if _are_things(codes[name], errors))
    parts = parts_of_ids(repeated)[:_PARTS]
    if alone or not parts:
        return alone
    present = np.array([[not is_missing_cell(cell) for cell in cells[name]] for name in parts]).all(axis=0)
    if not present.any():
        return ()
    if errors is not None:
        errors = Errors(*(values[present] for values in errors))
    known = {name: codes[name][present] for name in parts}
    finest = _finest(known)
    if not finest or not _are_things(_together({name: known[name] for name in finest}), errors):
        return ()
    return (finest,)


def _are_things(codes: NDArray[np.intp], errors: Errors | None) -> bool:
    """Whether labels are many, with few rows each, whose errors are not independent.

    The sum of the products of residuals within labels is 0 on average for independent rows.
    """
    counts = np.bincount(codes)
    counts = counts[counts > 0]
    are_few = counts.mean() <= _MOST
    if len(counts) < _LEAST or errors is None:
        return len(counts) >= _LEAST and bool(are_few)
    residuals, outcomes = errors
    known = ~np.isnan(residuals)
    codes, residuals, outcomes = codes[known], residuals[known], outcomes[known]
    if not are_few:
        counts = np.bincount(codes)
        means = np.bincount(codes, outcomes)[counts > 0] / counts[counts > 0]
        are_few = np.isin(means, (0, 1)).mean() >= _ALIKE
    squares = residuals**2
    sums, of_squares, of_fourth = (np.bincount(codes, values) for values in (residuals, squares, squares**2))
    products, variance = np.sum(sums**2 - of_squares), 2 * np.sum(of_squares**2 - of_fourth)
    return bool(are_few) and bool(products**2 > _BEYOND**2 * variance)


def _finest(codes: Mapping[str, NDArray[np.intp]]) -> tuple[str, ...]:
    """Return the columns that together have most values, in several rows each; of these, those with fewest times."""
    best: tuple[int, int, tuple[str, ...]] = (1, 0, ())
    for names in (some for k in range(2, _TOGETHER + 1) for some in combinations(codes, k)):
        together = _together({name: codes[name] for name in names})
        candidate = len(np.unique(together)), sum(not has_word(name, "when") for name in names), names
        if candidate[1] and candidate[:2] > best[:2] and candidate[0] <= len(together) / _REPEATED:
            best = candidate
    return best[2]


def _together(codes: Mapping[str, NDArray[np.intp]]) -> NDArray[np.intp]:
    """Return one code for each combination of codes."""
    columns = list(codes.values())
    joined: NDArray[np.intp] = np.ravel_multi_index(columns, [column.max() + 1 for column in columns])
    return joined


def is_repeated(cells: Sequence[Any]) -> bool:
    """Whether whole numbers, words or dates come in several rows each."""
    present = [str(cell).strip() for cell in cells if not is_missing_cell(cell)]
    if any(re.fullmatch(r"[-+]?\d*\.\d*[1-9]\d*", cell) for cell in present):
        return False
    return 1 < len(set(present)) <= len(present) / _REPEATED
