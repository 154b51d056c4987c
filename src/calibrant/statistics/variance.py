"""The variance of a sum over rows, as far as data tell it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from calibrant.statistics.resampling import t_quantile, two_sided


class Variance(NamedTuple):
    """The variance of a sum over rows.

    Attributes
    ----------
    value : float
        The variance, in squared units of the sum.
    deff : float
        The design effect: the variance over that for independent rows.
    df : float
        The degrees of freedom of the estimated variance, for the quantile of Student's distribution; at least 1, and
        infinite where the distribution is taken as normal.
    """

    value: float
    deff: float = 1.0
    df: float = math.inf

    @property
    def error(self) -> float:
        """The standard error of the sum."""
        return math.sqrt(self.value)

    def effective_rows(self, n: float) -> float:
        """Return how many independent rows would tell as much as these ``n``; infinite if nothing can deviate."""
        return n / self.deff if self.deff > 0 else math.inf

    def half_width(self, level: float) -> float:
        """Return half the width of the interval of the sum."""
        return t_quantile(level, self.df) * self.error

    def p_value(self, deviation: float) -> float:
        """Return the two-sided p-value of a deviation of the sum."""
        return two_sided(deviation, self.error, self.df)


def widest(variances: Iterable[Variance], level: float) -> float:
    """Return the largest half width of several sums: with slopes that were seen, and for gaps that clusters move alike.

    The signs that were seen are those of noise where a common effect of the clusters has moved S close to 0: the sum
    over bins of |S| then varies with that effect, and the sum with those signs does not.
    """
    return max(each.half_width(level) for each in variances)
