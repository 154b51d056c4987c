"""How many rows a threshold needs: to be certified, and to remain checked."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Final

import numpy as np

from calibrant.runtime.arrays import Float64s
from calibrant.statistics.e_processes import ERROR_TILTS, error_growth
from calibrant.statistics.resampling import Stream, generator
from calibrant.thresholds.ranked import RankedSample
from calibrant.thresholds.rules import START, accepted, first_rows, least_rows, probability

#: The probability with which the planned rows suffice.
POWER: Final = 0.8

#: The periods within which a risk of twice the bound is to be found.
PERIODS: Final = 10

_MOST_ROWS: Final = 10**9
_MOST_PLANNED: Final = 3 * 10**6
_REPLICATES: Final = 2_000
_PLANS: Final = 400  # simulated data sets
_PRIOR: Final = 2.0  # errors that are added to the observed ones
_STEP: Final = 1.1  # each of their cuts has so many times the rows of the cut before
_WIDER, _NEAR = 1.6, 1.03  # the quotients of numbers of rows that are tried, at first and at last


@lru_cache(maxsize=1024)
def planned_rows(max_risk: float, alpha: float, risk: float) -> int | None:
    """Return the rows at or above ONE planned threshold that certify it with 80 % power; None for none.

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


def upper_errors(wrong: Any, quantile: float) -> Float64s:
    """Return the quantile of the mean number of errors, where so many were observed, by a gamma distribution."""
    from scipy.special import gammaincinv

    return np.asarray(gammaincinv(np.asarray(wrong) + _PRIOR, quantile))


def fresh_rows(
    sample: RankedSample, place: int, max_risk: float, alpha: float, *, sequence: bool = False
) -> int | None:
    """Return the rows down to a place with which new rows certify it with 80 % probability; None for too many.

    The rows and errors down to cuts, (K,), tell where errors are. Between two cuts, the mean number of errors is drawn
    from a gamma distribution with the shape w + a, where w is the observed number and a adds up to 2 down to the place:
    the place was chosen for its few errors. New rows have binomial errors, and the tests are those that will be run,
    closed testing or a fixed sequence, from the first cut to the place and behind.
    """
    rng = generator(np.random.SeedSequence(0), Stream.CUTS)
    ends = np.append(0.0, sample.rows) / sample.rows[place]
    shapes = np.maximum(np.diff(sample.wrong, prepend=0.0), 0.0) + _PRIOR * np.diff(ends)
    errors = np.pad(np.cumsum(rng.standard_gamma(shapes, (_PLANS, len(shapes))), axis=1), ((0, 0), (1, 0)))
    first = least_rows(max_risk, alpha, wrong=START) if sequence else first_rows(max_risk, alpha)

    def suffices(rows: int) -> bool:
        steps = np.arange(-int(math.log(rows / first, _STEP)), 1 + int(math.log(ends[-1], _STEP)))
        cuts = np.unique(np.ceil(rows * np.minimum(_STEP**steps, ends[-1])))  # of few rows, several are one
        at = np.minimum(cuts / rows, ends[-1])
        after = np.clip(np.searchsorted(ends, at), 1, len(ends) - 1)
        part = (at - ends[after - 1]) / (ends[after] - ends[after - 1])
        down = errors[:, after - 1] + part * (errors[:, after] - errors[:, after - 1])
        risks = np.diff(down, prepend=0.0) / (np.diff(at, prepend=0.0) * sample.rows[place])
        again = generator(np.random.SeedSequence(1), Stream.CUTS)
        new = np.diff(cuts, prepend=0.0).astype(np.int64)
        wrong = np.cumsum(again.binomial(new, np.clip(risks, 0.0, 1.0)), axis=1, dtype=np.float64)
        alone = probability(wrong, cuts, max_risk) <= alpha if sequence else None
        kept = accepted(cuts, wrong, max_risk, alpha) if alone is None else alone
        return float(np.mean(kept[:, cuts <= rows].all(axis=1))) >= POWER

    high = float(first)
    while not suffices(math.ceil(high)):
        high *= _WIDER
        if high > _MOST_PLANNED:
            return None
    low = high / _WIDER
    while high > _NEAR * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if middle >= first and suffices(math.ceil(middle)) else (middle, high)
    return math.ceil(high)


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
