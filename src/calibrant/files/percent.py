"""Per cents into fractions: numbers, and texts such as ``85%``; nothing else is read as one."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

WANTED = "a per cent from 0 to 100, such as 85 or '85%'"
REMEDY = "pass --percent if the numbers are per cent"
ALIKE = "write all cells alike"

_PER_CENT = re.compile(r"([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)\s*%?")


def fraction(text: str) -> float:
    """Return what a text such as ``85%``, ``85 %`` or ``85`` says as a fraction; NaN where it says none in [0, 1]."""
    match = _PER_CENT.fullmatch(text.strip())
    number = float(match[1]) if match else math.nan
    return number / 100 if 0 <= number <= 100 else math.nan


def is_signed(text: str) -> bool:
    """Whether a text is a per cent and says so."""
    return text.strip().endswith("%") and not math.isnan(fraction(text))


def is_unclear(text: str) -> bool:
    """Whether a text, beside others with a per-cent sign, may be a fraction as well: ``0.85`` or ``1``."""
    return "%" not in text and 0 < fraction(text) <= 0.01


def unclear(shown: str) -> str:
    """Say what is wrong with such a text."""
    return f"{shown} may be a fraction: it has no per-cent sign, and others have one"


def fractions(values: NDArray[Any]) -> NDArray[Any]:
    """Divide per cents by 100; NaN stands for what is none from 0 to 100. Floats keep their width.

    The quotient is the double nearest to it, so that ``85``, ``"85%"`` and a caller's own ``85 / 100`` are equal.
    """
    if values.dtype.kind in "UST":
        distinct, inverse = np.unique(values.astype(str), return_inverse=True)
        return np.array([fraction(text) for text in distinct.tolist()])[inverse.reshape(values.shape)]
    if values.dtype.kind == "b":
        return np.full(values.shape, math.nan)
    shares: NDArray[Any] = values / 100 if values.dtype.kind == "f" else values.astype(np.float64) / 100
    shares[~((values >= 0) & (values <= 100))] = math.nan
    return shares
