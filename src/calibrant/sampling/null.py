"""What calibration shows by chance: noise floors and p-values from replicates, and what an interval is.

Outcomes of each cell are drawn from the binomial law that its score claims, and a measure is computed on each
replicate. Their mean and a quantile are the noise floor; the p-value is (1 + #{T* >= T}) / (B + 1) (Bröcker and Smith
2007; Vaicenavicius et al. 2019).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.results import Floor

Float64s = NDArray[np.float64]

CLOSED_FORM: Final = "closed form"

_TIE: Final = 1e-9  # relative: a replicate that equals the data but for rounding is at least as large


@dataclass(frozen=True, slots=True)
class Law:
    """The noise floor of a measure and its p-value under calibration; ``source`` says what they are from."""

    floor: Floor
    p_value: float
    source: str = CLOSED_FORM
    details: Mapping[str, Any] = field(default_factory=dict)


class Interval(NamedTuple):
    """The ends of a confidence interval, and how it was made; NaN without an interval."""

    low: float
    high: float
    method: str


def p_value(replicates: Float64s, value: float) -> float:
    """Return (1 + #{T* >= T}) / (B + 1)."""
    return (1 + int(np.count_nonzero(replicates >= value - _TIE * abs(value)))) / (len(replicates) + 1)


def floor_of(replicates: Float64s, level: float) -> Floor:
    """Return the mean and the quantile of replicates."""
    return Floor(float(replicates.mean()), float(np.quantile(replicates, level, method="higher")))
