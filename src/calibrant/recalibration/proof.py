"""What a map gains on new rows, with an interval that holds for the map that is shipped.

The gain of a row is its loss before less its loss after. O is the mean gain of rows out of fold, and IS the mean gain
of the map on the rows that it was fitted to. Maps out of fold are fitted to four fifths of the rows, so that O is below
the true gain on average, and IS is above it.

Scores near 0 and 1 are rarely wrong, and a single error then changes the mean gain by much. Without an error the gains
that were seen hardly vary, but this does not exclude errors. So the variance V is that of the gains that
were seen, S, or if this is larger, S blended with the variance W that the scores imply, which has the weight of 2
errors:

    V = max(S, (E S + 2 W) / (E + 2)),    E = W^2 / K

Here K is the sum of the fourth moments that the scores imply, and E the number of equally large errors with the same W
and K. The variance also depends on the true gain. If this is lower by x, there are more errors, and the variance is
larger by J x, with J the change by one error: the ratio of the third moment to the second. The interval ends where
(O - gain)^2 = t^2 (V + J (O - gain)), as the score interval of a rate does:

    low = O - t^2 J / 2 - sqrt(t^4 J^2 / 4 + t^2 V),    p = min(1, 2 P(T >= O / sqrt(V + J O)))

So p is at most 1 - level exactly where low is at least 0. The upper end, max(O, IS) + t^2 J' / 2 + .., is that of the
larger V of both, with J' of the errors that raise the gain.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.runtime.arrays import Float64s
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.folds import Dealt
from calibrant.statistics.intervals import Variance
from calibrant.statistics.resampling import t_quantile

#: The weight, in errors, of the variance that the scores imply.
PRIOR_ERRORS: Final = 2.0

#: The errors that the scores must expect, so that no caution is given.
FEW_ERRORS: Final = 5.0
_LEAST_NAMED: Final = 0.01


def few_errors(expected: float) -> str:
    """Return a caution where the scores expect few errors, or nothing."""
    if expected >= FEW_ERRORS:
        return ""
    number = f"only {expected:.2g}" if expected >= _LEAST_NAMED else f"fewer than {_LEAST_NAMED:g}"
    return (
        f"the estimated improvement is unreliable, because according to the scores {number} errors (rows with the less "
        f"probable outcome) are expected, and at least {FEW_ERRORS:g} are needed"
    )


class Moments(NamedTuple):
    """The central moments of the gain of each row that its scores imply, (F, rows) each."""

    second: Float64s
    third: Float64s
    fourth: Float64s

    @classmethod
    def of_event(cls, scores: Float64s, gains: Float64s) -> Moments:
        """Return the moments at scores (K,), from the gains without and with the event, (2, F, K)."""
        variances = scores * (1 - scores)
        with np.errstate(invalid="ignore"):
            steps = np.where(variances > 0, gains[1] - gains[0], 0.0)
        third, fourth = variances * (1 - 2 * scores), variances * (1 - 3 * variances)
        return cls(variances * steps**2, third * steps**3, fourth * steps**4)

    @classmethod
    def of_classes(cls, p: Float64s, gains: Float64s) -> NDArray[np.float64]:
        """Return the moments of rows, (3, n), from probabilities (n, C) and the gain with each class, (n, C)."""
        around = gains - np.einsum("ij,ij->i", p, gains)[:, np.newaxis]
        return np.stack([np.einsum("ij,ij->i", p, around**order) for order in (2, 3, 4)])


class MeanGain(NamedTuple):
    """The mean gain of rows.

    Attributes
    ----------
    value : float
        The mean.
    variance : Variance
        V.
    falls, rises : float
        The change by one error, of errors that lower and that raise the gain.
    """

    value: float
    variance: Variance
    falls: float
    rises: float

    @classmethod
    def of(cls, rows: Dealt, gains: Float64s, moments: Moments) -> MeanGain:
        """Return the mean of the gains of rows with these implied moments."""
        seen, implied = rows.variance(gains), rows.moment(moments.second, 2)
        value = rows.mean(gains)
        if math.isinf(implied):  # the map calls an outcome impossible that the scores do not
            return cls(value, seen._replace(value=math.inf), 0.0, 0.0)
        if not implied > 0:
            return cls(value, seen, 0.0, 0.0)
        effect = max(seen.deff, 1.0)
        errors = (implied / math.sqrt(rows.moment(moments.fourth, 4))) ** 2  # a square may underflow
        blended = (errors * seen.value + PRIOR_ERRORS * effect * implied) / (errors + PRIOR_ERRORS)
        falls, rises = (effect * rows.moment(np.maximum(sign * moments.third, 0), 3) / implied for sign in (-1, 1))
        return cls(value, seen._replace(value=max(seen.value, blended)), falls, rises)

    @property
    def error(self) -> float:
        """The standard error of the mean, if nothing is gained in truth."""
        return math.sqrt(self.variance.value + self.falls * max(self.value, 0.0))

    def distance(self, level: float, jump: float) -> float:
        """Return the distance of an end of the interval."""
        t = t_quantile(level, self.variance.df)
        if math.isinf(self.variance.value):
            return math.inf
        return t * t * jump / 2 + math.hypot(t * t * jump / 2, t * self.variance.error)

    @property
    def p_value(self) -> float:
        """Twice the one-sided p-value of the hypothesis that nothing is gained, at most 1."""
        if self.value <= 0 or math.isinf(self.variance.value):
            return 1.0
        error = self.error
        return self.variance._replace(value=error * error).p_value(self.value) if error else 0.0


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
        The p-value of the hypothesis that the map gains nothing; twice the one-sided one, so that it is at most
        1 - ``level`` where ``low`` is at least 0.
    in_sample : float
        The mean gain of the map on the rows that it was fitted to.
    score : {"log", "brier"}
        The loss. "log": the log loss, in nats; if that of the scores is infinite, the gain is relative to clipped
        scores. "brier": the Brier score, if the log loss of the map is infinite, or if that of the scores is infinite
        and the map is ``identity`` or ``clipped``.
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


def gain_of(outside: MeanGain, inside: MeanGain, score: str, level: float) -> Gain:
    """Return the gain from the mean gains of rows by maps out of fold, and by the final map."""
    rise = max(outside.distance(level, outside.rises), inside.distance(level, inside.rises))
    return Gain(
        value=outside.value,
        low=outside.value - outside.distance(level, outside.falls),
        high=max(outside.value, inside.value) + rise,
        p_value=outside.p_value,
        in_sample=inside.value,
        score=score,
        level=level,
    )
