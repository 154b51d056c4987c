"""What weights mean: an integer weight repeats a row, any other makes it count more or less.

Weights that are not integers only compare rows, so a common factor changes nothing. `in_units` divides by such a one.
Equal weights then count as no weights, and no power of a weight is 0 or infinite.

Sampling weights of a survey are often whole numbers. Where the caller says that weights are sampling weights, they are
multiplied by the number next to 1, which makes the next double below of each: weights that are not whole. Nothing else
has to know what was said.
"""

from __future__ import annotations

import math
from typing import Any, Final, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.kernels.compensated import total_of

Number = TypeVar("Number", float, NDArray[np.float64])

#: The weights that a sketch can hold. It adds up w, w^2 and w^4 of at most 2^63 rows. It cannot divide the weights by a
#: common scale: the next batch may have larger ones. With these bounds every such sum, and the square of a sum of w^2,
#: is between 1e-240 and 1e278. So none is 0, infinite or less precise: float64 holds 2.3e-308 to 1.7e308.
LEAST_WEIGHT: Final = 1e-60
MOST_WEIGHT: Final = 1e60

#: The most that integer weights add up to: above it, float64 no longer holds every integer.
MOST_WHOLE: Final = 2.0**53

WeightsAre = Literal["frequency", "sampling"]

#: What a caller can say that weights are.
WEIGHTS_ARE: Final = get_args(WeightsAre)

#: A whole number times this is the next double below it, which is not whole up to 2^53.
NOT_WHOLE: Final = 1 - 2.0**-53

#: Whole weights that differ and add up to so many times their rows may be sampling weights.
_MANY: Final = 2.0

#: The most rows that sums hold: counts are integers of 64 bits.
MOST_ROWS: Final = 2**63 - 1

_ROUNDED: Final = 1e-13  # of a share that is a quotient of sums

_FAR: Final = 64  # powers of 2 from 1, where weights are divided by a power of 2; w^8 is then within float64


def integer_weights(weights: NDArray[Any] | None) -> bool:
    """Return whether all weights are integers: then a row of weight 2 is two rows. True without weights.

    Weights that add up to more than 2^53 are not: float64 holds no larger integers one by one.
    """
    if weights is None:
        return True
    with np.errstate(over="ignore"):  # an infinite sum is more than 2^53
        return bool(np.array_equal(weights, np.rint(weights))) and float(np.sum(weights)) <= MOST_WHOLE


def may_be_sampling(n: int, weight: float, square_weight: float) -> bool:
    """Return whether whole weights of n rows with these sums may be sampling weights: they differ and are large."""
    return weight > _MANY * n and square_weight / weight > weight / n * (1 + 1e-9)


def in_units(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return weights in other units if they are not integers, and are all equal or far from 1.

    Equal weights become 1, as without weights. Others are divided by a power of 2, which rounds nothing.
    """
    most = float(weights.max(initial=0.0))
    if most == 0.0 or integer_weights(weights):
        return weights
    held = weights > 0
    if bool((weights[held] == most).all()):
        return held.astype(np.float64)
    return np.ldexp(weights, -_far_exponent(most))


def unit_of(n: int, weight: float, square_weight: float) -> tuple[float, bool]:
    """Return the unit of sums over n rows whose weights are not integers, and whether all weights are equal.

    The unit is the weight of every row if all are equal: n sum w^2 = (sum w)^2 then, and only then. Else it is a power
    of 2 near the mean weight, if that is far from 1.
    """
    mean = weight / n
    if square_weight / weight <= mean * (1 + 1e-12 + n * 2.0**-51):
        return mean, True
    return 2.0 ** _far_exponent(square_weight / weight), False


def _far_exponent(weight: float) -> int:
    exponent = math.frexp(weight)[1]
    return exponent if abs(exponent) > _FAR else 0


def effective_n(weight: Number, square_weight: Number) -> Number:
    """Return the effective sample size (Kish): (sum w)^2 / sum w^2, the number of equal rows with this variance."""
    return weight**2 / square_weight


def share_rows(share: Any, weight: Any, squares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the number of equal rows in which a share would be as uncertain: r (1 - r) W^2 / sum w^2 (y - r)^2.

    ``squares`` are the sums of squared weights of the rows with outcome 0 and with outcome 1. Where all outcomes are
    alike, up to the rounding of their share, it is the effective sample size.
    """
    rate, mass = np.asarray(share, dtype=np.float64), np.asarray(weight, dtype=np.float64)
    variance = squares[0] * rate**2 + squares[1] * (1 - rate) ** 2
    some = (rate > _ROUNDED) & (rate < 1 - _ROUNDED) & (variance > 0)
    alike = effective_n(mass, np.asarray(squares[0] + squares[1]))
    return np.where(some, rate * (1 - rate) * mass**2 / np.where(some, variance, 1.0), alike)


def rate_rows(rate: Any, weight: Any, squares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return `share_rows` of the observed frequency of a bin, at most its effective sample size.

    If the few heavy rows of a bin occur to have the same outcome, `share_rows` alone is several times too large.
    """
    most = effective_n(np.asarray(weight, dtype=np.float64), np.asarray(squares[0] + squares[1]))
    return np.minimum(share_rows(rate, weight, squares), most)


def effective_rows(weights: NDArray[np.float64] | None, n: int) -> float:
    """Return the effective sample size of ``n`` rows; with integer weights each unit of weight is a row."""
    if weights is None:
        return float(n)
    total = total_of(weights)
    return total if integer_weights(weights) else effective_n(total, total_of(weights**2))


def deciding_rows(square_weight: float, quartic_weight: float) -> float:
    """Return (sum w^2)^2 / sum w^4: how many equal rows would tell as much about the variance of a weighted mean.

    It is Kish's effective sample size of the squared weights, which are what rows add to that variance.
    """
    return square_weight**2 / quartic_weight if quartic_weight > 0 else math.inf


def tidy_weight(weight: float) -> int | float:
    """Return a weight as an integer if it differs from one only by rounding."""
    return round(weight) if abs(weight - round(weight)) <= 1e-9 * abs(weight) else weight
