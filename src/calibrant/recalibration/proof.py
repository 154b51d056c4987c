"""What a map gains on new rows, with an interval that holds for the map that is shipped.

The gain of a row is its loss before less its loss after. O is the mean gain of rows out of fold, and IS the mean gain
of the map on the rows that it was fitted to. Maps out of fold are fitted to four fifths of the rows, so that O is below
the true gain on average, and IS is above it:

    [O - t se, max(O, IS) + t max(se, se_IS)],    p = P(T <= -O / se)
"""

from __future__ import annotations

import math

from calibrant.runtime.arrays import Float64s
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.folds import Dealt
from calibrant.statistics.intervals import Variance


@dataclass(frozen=True, kw_only=True)
class Gain:
    """By how much a map lowers the mean loss of new rows.

    Attributes
    ----------
    value : float
        The mean gain of the rows, each by a map that was fitted without its fold. Above 0 the map helps.
    low, high : float
        The ends of the interval of the true gain of the map.
    p_value : float
        The one-sided p-value of the hypothesis that the map gains nothing.
    in_sample : float
        The mean gain of the map on the rows that it was fitted to.
    score : {"log", "brier"}
        The loss: the log loss, in nats, from that of clipped scores if it was infinite; the Brier score of clipped
        scores themselves, and of a map to 0 or 1 that was wrong.
    level : float
        The confidence of the interval.
    """

    value: float
    low: float
    high: float
    p_value: float
    in_sample: float
    score: str
    level: float


def gain_of(whole: Dealt, inside: Float64s, folds: Dealt, outside: Float64s, score: str, level: float) -> Gain:
    """Return the gain from the gains of rows by the final map, and by maps out of fold."""
    value, error = folds.mean(outside), folds.variance(outside)
    in_sample, inner = whole.mean(inside), whole.variance(inside)
    low = value - error.half_width(level)
    high = max(value, in_sample) + max(error.half_width(level), inner.half_width(level))
    return Gain(
        value=value,
        low=low,
        high=high,
        p_value=_p_value(value, error),
        in_sample=in_sample,
        score=score,
        level=level,
    )


def _p_value(value: float, error: Variance) -> float:
    if math.isinf(error.value):
        return 1.0
    two_sided = error.p_value(value)
    if error.error == 0:
        return 0.0 if value > 0 else 1.0
    return two_sided / 2 if value > 0 else 1 - two_sided / 2
