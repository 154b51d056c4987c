"""How many rows a threshold needs: to be certified, and to remain checked."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import numpy as np

from calibrant.statistics.e_processes import ERROR_TILTS, error_growth
from calibrant.statistics.resampling import Stream, generator
from calibrant.thresholds.rules import probability

#: The probability with which the planned rows suffice.
POWER: Final = 0.8

#: The periods within which a risk of twice the bound is to be found.
PERIODS: Final = 10

_MOST_ROWS: Final = 10**9
_REPLICATES: Final = 2_000


@lru_cache(maxsize=1024)
def planned_rows(max_risk: float, alpha: float, risk: float) -> int | None:
    """Return the rows at or above ONE planned threshold from which on 80 % power certifies it; None for none.

    ``risk`` is the true one, below ``max_risk``. So many rows allow so many errors; the power is least with the most
    rows that allow no further error.
    """
    if not 0 <= risk < max_risk:
        return None

    def rows_of(errors: int) -> int:
        """Return the fewest rows that certify with so many errors."""
        from scipy.special import bdtrin

        rows = max(math.ceil(float(bdtrin(errors, alpha, max_risk))), errors + 1)
        while rows > errors + 1 and _at_most(errors, rows - 1, max_risk) <= alpha:
            rows -= 1
        while _at_most(errors, rows, max_risk) > alpha:
            rows += 1
        return rows

    def suffices(errors: int) -> bool:
        return _at_most(errors, rows_of(errors + 1) - 1, risk) >= POWER

    low, high = -1, 0
    while not suffices(high):
        low, high = high, 2 * high + 1
        if high / max_risk > _MOST_ROWS:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return rows_of(high)


def _at_most(errors: int, rows: int, risk: float) -> float:
    return float(probability(errors, rows, risk))


@lru_cache(maxsize=64)
def audit_rows(max_risk: float, alpha: float) -> int:
    """Return the labelled rows in each period that show a risk of twice ``max_risk`` within ten periods, power 80 %.

    The test is a mixture of tilts s with the starts t = 1, 2, ..., of prior 1 / (t (t + 1)): it never rejects a kept
    promise with probability 1 - alpha, however long it is watched. The power is simulated.
    """
    risk = min(2 * max_risk, 1.0)

    def suffices(rows: int) -> bool:
        rng = generator(np.random.SeedSequence(0), Stream.AUDITS)
        errors = rng.binomial(rows, risk, (_REPLICATES, PERIODS))
        growth = np.exp(error_growth(rows, errors, max_risk))
        mixture, most = np.zeros((_REPLICATES, len(ERROR_TILTS))), np.zeros(_REPLICATES)
        for t in range(1, PERIODS + 1):
            mixture = (mixture + 1 / (t * (t + 1))) * growth[:, t - 1]
            most = np.maximum(most, mixture.mean(axis=1) + 1 / (t + 1))
        return float(np.mean(most >= 1 / alpha)) >= POWER

    low, high = 0, 1
    while not suffices(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high
