"""Which of many groups stand out: their p-values, fine enough for Holm's correction."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from calibrant.results import TestResult
from calibrant.runtime.dataclass import dataclass

#: Rows below which a group is too small to say anything.
LEAST_GROUP: Final = 30

#: Why a group has no test.
SMALL_GROUP: Final = f"fewer than {LEAST_GROUP} rows: too few to say anything"
ONE_CLUSTER: Final = "rows of one cluster: they tell nothing of other clusters"

#: Below this variance of the number of outcomes a closed form is not to be trusted.
LEAST_VARIANCE: Final = 10.0

_FINER: Final = 4  # the smallest p-value is this often below what the correction asks for
_MOST_DRAWN: Final = 1_000_000


def draws_needed(family: int, alpha: float) -> int:
    """Return the number of resamples whose smallest p-value is fine enough for a correction for ``family`` groups."""
    return min(math.ceil(_FINER * family / alpha), _MOST_DRAWN)


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupTest:
    """A group's test, and a way to a finer p-value.

    Attributes
    ----------
    test : TestResult
        The test, with its closed form and the smallest p-value that its resamples resolve.
    variance : float
        The variance of the sum of the group's residuals under calibration.
    redrawn : callable
        The p-value of a larger number of resamples.
    exact : callable
        The p-value by an exact law; NaN without such a law.
    """

    test: TestResult
    variance: float
    redrawn: Callable[[int], float]
    exact: Callable[[], float]

    def p_value(self, family: int, alpha: float) -> float:
        """Return the group's p-value among ``family`` groups; NaN if these data have no valid one.

        B resamples know no p-value below 1 / (B + 1), which a correction for many groups would make large. Where they
        are at this limit the closed form decides, or in sparse groups, where it is false, more resamples.
        """
        found, least = self.test.p_value, float(self.test.details.get("least_p_value", 0.0))
        sparse = self.variance < LEAST_VARIANCE
        if least == 0:  # no resamples
            return self.exact() if sparse else found
        if found > least * (1 + 1e-9):
            return found
        if not sparse:
            return min(found, float(self.test.details["closed_form_p_value"]))
        needed = draws_needed(family, alpha)
        return found if needed <= 1 / least else self.redrawn(needed)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted so that rejecting those below alpha errs in a share alpha of families at most.

    The k-th smallest of m is multiplied by m - k + 1 and made no smaller than the one before (Holm 1979).
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, before = [0.0] * len(p_values), 0.0
    for k, i in enumerate(order):
        before = max(before, min(1.0, (len(p_values) - k) * p_values[i]))
        adjusted[i] = before
    return adjusted
