"""Decisions about a tolerance: is an error below it, beyond doubt, and how many rows would tell."""

from __future__ import annotations

import math
from typing import Any, Final, Literal

import numpy as np

from calibrant.errors import InputError, check_choice
from calibrant.results import Decision, Estimate
from calibrant.statistics.design import rare
from calibrant.statistics.resampling import alpha_of

#: The errors that a tolerance may be about. Their one-sided bounds are simulated.
TOLERATED: Final = ("ece", "smece", "rmsce", "mean_gap")

_CLOSE: Final = 1000.0  # times the rows: an error that needs more is as large as the tolerance


def check_tolerance(tolerance: Any, tolerance_of: Any = TOLERATED[0], *, optional: bool = True) -> None:
    """Reject a tolerance that is not a share, and an error that none can be about."""
    number = isinstance(tolerance, (float, np.floating)) and 0 < tolerance < 1
    if not number and not (optional and tolerance is None):
        remedy = "pass the largest harmless error, such as 0.02"
        raise InputError("tolerance", "a number above 0 and below 1", repr(tolerance), remedy)
    check_choice("tolerance_of", tolerance_of, TOLERATED)


def one_sided(level: float) -> float:
    """Return the level of the interval whose ends are one-sided bounds at ``level``."""
    return round(1 - 2 * alpha_of(level), 12)


def decide(measure: str, tolerance: float, estimate: Estimate, level: float, *, rarer: float) -> Decision:
    """Return the decision from the estimate whose interval has one-sided bounds at ``level``.

    ``rarer`` is the effective sample size of the less frequent outcome. With few of them nothing is decided.
    """
    ends = estimate.low, estimate.high
    if measure == "mean_gap":  # two one-sided tests
        ends = max(estimate.low, -estimate.high, 0.0), max(-estimate.low, estimate.high)
    noise = 0.0 if estimate.floor is None or estimate.value < 0 else estimate.floor.mean
    likely = math.sqrt(max(estimate.value**2 - noise**2, 0.0))  # the size of the error without the noise, by squares
    return _decided(measure, tolerance, ends, level, likely, 0 if rare(rarer) else estimate.n)


def decide_difference(tolerance: float, difference: Estimate, level: float) -> Decision:
    """Return whether the second model's ECE exceeds the first's by less than a tolerance, from first minus second."""
    ends = -difference.high, -difference.low
    return _decided("ece", tolerance, ends, level, -difference.value, difference.n)


def _decided(
    measure: str, tolerance: float, ends: tuple[float, float], level: float, likely: float, n: int
) -> Decision:
    low, high = ends
    state: Literal["proven", "disproven", "open"] = "open"
    if n and not math.isnan(high):
        state = "proven" if high < tolerance else "disproven" if low > tolerance else "open"
    more = _more_rows(n, tolerance, ends, likely) if state == "open" else None
    return Decision(state=state, measure=measure, tolerance=tolerance, low=low, high=high, level=level, more_rows=more)


def _more_rows(n: int, tolerance: float, ends: tuple[float, float], likely: float) -> int | None:
    """Return about how many more rows bring the decisive end to the tolerance: widths fall with the root of N."""
    end, room = (ends[1], tolerance - likely) if likely < tolerance else (ends[0], likely - tolerance)
    width = abs(end - likely)
    if not n or math.isnan(width) or width > room * math.sqrt(_CLOSE):
        return None
    more = n * ((width / room) ** 2 - 1)
    digits = max(math.floor(math.log10(max(more, 1.0))) - 1, 0)
    return int(math.ceil(max(more, 1.0) / 10**digits) * 10**digits)
