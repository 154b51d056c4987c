"""The gamma approximation of a sum of absolute normals."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from calibrant.runtime.arrays import Float64s

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
    whole = float(variances.sum())
    return GammaMoments(
        mean=math.sqrt(2 / math.pi) * float(np.sqrt(variances).sum()),
        sd=math.sqrt((1 - 2 / math.pi) * whole),
        skewness=_FOLDED_SKEWNESS * float(np.sum((variances / whole) ** 1.5)),
    )
