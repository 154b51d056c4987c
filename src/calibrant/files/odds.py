"""Odds as probabilities: 1 / odds, normalised over the classes of a row."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import FileError, FileFault, quoted

#: What numbers of a form are odds, in words.
FORMS: Final = {
    "decimal": "decimal odds, which are above 1",
    "american": "American odds, which are 100 or more, or -100 or less",
}


def implied(odds: NDArray[Any], form: str) -> NDArray[np.float64]:
    """Return 1 / decimal odds; of American odds, those of the same pay-out. NaN where a number is not odds."""
    odds = odds.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        if form == "decimal":
            return np.where((odds > 1) & np.isfinite(odds), 1 / odds, math.nan)
        shares = np.where(odds > 0, 100 / (odds + 100), odds / (odds - 100))
    return np.where((np.abs(odds) >= 100) & np.isfinite(odds), shares, math.nan)


def probabilities(
    odds: NDArray[Any],
    form: str,
    path: str,
    names: Sequence[str],
    row_of: Callable[[int], int],
    remedy: str = "correct the cell, or leave the row out with --where",
) -> NDArray[np.float64]:
    """Return the probabilities of the classes in each row: 1 / odds, divided by the sum of the row."""
    if odds.ndim == 1:
        problem = f"--odds needs the odds of all classes, but {quoted(names[0])} has the odds of one class only"
        raise FileError(path, problem, "name the columns of all classes with --probs, such as 'odds_*'")
    shares = implied(odds, form)
    bad = np.argwhere(np.isnan(shares))
    if len(bad):
        row, place = bad[0].tolist()
        name = names[place] if len(names) > 1 else names[0]
        problem = f"row {row_of(row):,}, column {quoted(name)}: expected {FORMS[form]}, got {odds[row, place]:g}"
        raise FileError(path, problem, remedy, fault=FileFault.VALUE)
    normalised: NDArray[np.float64] = shares / shares.sum(axis=1, keepdims=True)
    return normalised
