"""What calibration shows by chance: noise floors and p-values from simulated data sets, and what an interval is.

Outcomes of each cell are drawn from the binomial law that its score predicts, and a measure is computed on each
simulated data set. Their mean and a quantile are the noise floor; the p-value is (1 + #{T* >= T}) / (B + 1) (Bröcker
and Smith 2007; Vaicenavicius et al. 2019). Without resampling a sum of absolute normals has nearly a gamma
distribution.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.results import Floor
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.dataclass import dataclass

CLOSED_FORM: Final = "closed form"

_TIE: Final = 1e-9  # relative: a simulated data set that equals the data but for rounding is at least as large
_ENOUGH: Final = 10  # simulated data sets at least as large: a p-value from so many is off by a third


@dataclass(frozen=True)
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
    return (1 + len(_reaching(replicates, value))) / (len(replicates) + 1)


def sequential_p_value(blocks: Iterable[Float64s], value: float) -> float:
    """Return the p-value from blocks of simulated data sets, and take no more of them than it needs.

    It is h / l if simulated data set l is the h-th one with T* >= T, and as `p_value` if there are fewer than h in all:
    valid at any level (Besag and Clifford 1991, doi 10.1093/biomet/78.2.301). h is `_ENOUGH`.
    """
    n, n_reaching = 0, 0
    for block in blocks:
        reaching = _reaching(block, value)
        if n_reaching + len(reaching) >= _ENOUGH:
            return _ENOUGH / (n + 1 + int(reaching[_ENOUGH - n_reaching - 1]))
        n, n_reaching = n + len(block), n_reaching + len(reaching)
    return (1 + n_reaching) / (n + 1)


def least_of(value: float) -> float:
    """Return from what number on a simulated data set counts as at least as large as a value."""
    return value - _TIE * abs(value)


def _reaching(replicates: Float64s, value: float) -> NDArray[np.intp]:
    return np.flatnonzero(replicates >= least_of(value))


def floor_of(replicates: Float64s, level: float) -> Floor:
    """Return the mean and the quantile of simulated data sets."""
    return Floor(float(replicates.mean()), float(np.quantile(replicates, level, method="higher")))


_FOLDED_SKEWNESS: Final = math.sqrt(2) * (4 - math.pi) / (math.pi - 2) ** 1.5  # of |Z|, Z standard normal


class GammaMoments(NamedTuple):
    """The mean, the standard deviation and the skewness of a shifted gamma distribution (Pearson's type III)."""

    mean: float
    sd: float
    skewness: float

    def tail(self, values: Float64s) -> Float64s:
        """Return the probability of more than each value."""
        from scipy.special import gammaincc

        shape = 4 / self.skewness**2
        places = shape + math.sqrt(shape) * (values - self.mean) / self.sd
        return np.asarray(gammaincc(shape, np.maximum(places, 0.0)))

    def quantile(self, share: float) -> float:
        """Return the value that is exceeded with probability 1 - share."""
        from scipy.special import gammaincinv

        shape = 4 / self.skewness**2
        return self.mean + self.sd * (float(gammaincinv(shape, share)) - shape) / math.sqrt(shape)


def absolute_moments(variances: Float64s) -> GammaMoments:
    """Return the moments of sum |S| of independent normal S with these variances, not all 0.

    Its mean is sqrt(2 / pi) sum sqrt(V), its variance (1 - 2 / pi) sum V, its skewness that of a folded normal times
    sum V^(3/2) / (sum V)^(3/2).
    """
    total = float(variances.sum())
    return GammaMoments(
        mean=math.sqrt(2 / math.pi) * float(np.sqrt(variances).sum()),
        sd=math.sqrt((1 - 2 / math.pi) * total),
        skewness=_FOLDED_SKEWNESS * float(np.sum((variances / total) ** 1.5)),
    )
