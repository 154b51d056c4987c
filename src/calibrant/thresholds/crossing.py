"""The probability that at one of several cuts there are as few errors as a boundary allows, by recursion.

Rows are wrong with probability eps. Let W_k be the errors among the n_k rows down to cut k, b_k the boundaries, and X
the errors among the rows between two cuts, which are binomial:

    h_k(w) = P(W_j <= b_j for a cut j >= k | W_k = w) = 1 for w <= b_k, else E h_{k+1}(w + X)

A step is a convolution for several boundaries at once. What is not exact makes h larger, by less than 1e-6 of it for
rows up to about 16,000 / eps. From there on a standard deviation of W_k has at least 128 errors, and numbers are
multiples of a unit u of at most 1/64 of it: a number between two becomes one of them at random, with its mean kept, and
b_k becomes the next multiple.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.runtime.arrays import Float64s

_RESOLUTION: Final = 64  # units of a standard deviation, at least
_BELOW: Final = 12.0  # standard deviations: fewer errors have a probability below 1e-30
_ABOVE: Final = 8.0  # and 20 errors: more have one below 1e-14

_ROUNDING: Final = 1e-7  # relative, of sums of masses

#: Rows in clusters are quotients: their p-values are equal to those of whole numbers up to rounding.
ROUNDED: Final = 1 + 1e-9


def probability(wrong: Any, rows: Any, risk: float) -> Float64s:
    """Return the probability of at most so many wrong rows if each is wrong with probability ``risk``.

    The numbers need not be whole: it is the regularised incomplete beta function.
    """
    from scipy.special import betainc

    right = np.asarray(rows - wrong)
    return np.where(right > 0, betainc(np.maximum(right, 1e-300), wrong + 1, 1 - risk), 1.0)


class Binomial(NamedTuple):
    """Numbers of errors, one after the other, and their probabilities, (n,)."""

    numbers: NDArray[np.int64]
    masses: Float64s

    @classmethod
    def of(cls, rows: int, risk: float) -> Binomial:
        """Return the errors among so many rows, but for numbers that are far from their mean."""
        from scipy.special import gammaln, xlog1py, xlogy

        mean, deviation = rows * risk, math.sqrt(rows * risk * (1 - risk))
        least, most = int(mean - _BELOW * deviation), int(mean + _ABOVE * deviation) + 20
        numbers = np.arange(max(least, 0), min(most, rows) + 1)
        logs = (
            xlogy(numbers, risk) + xlog1py(rows - numbers, -risk) - gammaln(numbers + 1) - gammaln(rows - numbers + 1)
        )
        masses = np.exp(logs - logs.max())
        return cls(numbers, masses / masses.sum())


class Crossing(NamedTuple):
    """The probabilities h of G boundaries, (G, S), at the numbers ``first``, ``first`` + ``unit``, ... of a cut."""

    h: Float64s
    first: int
    unit: int

    def at(self, numbers: NDArray[np.int64]) -> Float64s:
        """Return the probabilities at these numbers of errors, (G, n)."""
        last = self.h.shape[1] - 1
        places = np.clip((numbers - self.first) / self.unit, 0, last)
        below = places.astype(np.intp)
        share = places - below
        return np.asarray(self.h[:, below] * (1 - share) + self.h[:, np.minimum(below + 1, last)] * share)

    def before(self, numbers: NDArray[np.int64], unit: int, more: Binomial) -> Float64s:
        """Return E h(w + X) at the numbers w, multiples of the unit, with the errors X of the rows between two cuts."""
        least, most = int(more.numbers[0]) // unit, -(-int(more.numbers[-1]) // unit)
        steps = np.zeros(most - least + 2)
        below, rest = np.divmod(more.numbers, unit)
        np.add.at(steps, below - least, more.masses * (1 - rest / unit))
        np.add.at(steps, below - least + 1, more.masses * (rest / unit))
        reached = numbers[0] + unit * np.arange(least, least + len(numbers) + len(steps) - 1)
        size = 1 << (len(reached) - 1).bit_length()
        product = np.fft.rfft(self.at(reached), size) * np.conj(np.fft.rfft(steps, size))
        return np.clip(np.fft.irfft(product, size)[:, : len(numbers)], 0.0, 1.0)


def crossings(rows: NDArray[np.int64], risk: float, levels: Float64s) -> Iterator[tuple[Binomial, Crossing]]:
    """Yield, from the last cut to the first, its errors, and h for boundaries with p-values of at most each level.

    Rounding leaves out no error.
    """
    later: Crossing | None = None
    for cut in range(len(rows) - 1, -1, -1):
        number = int(rows[cut])
        errors, masses = found = Binomial.of(number, risk)
        unit = 1 << max(int(math.log2(max(number * risk * (1 - risk), 1.0)) / 2 - math.log2(_RESOLUTION)), 0)
        bounds = errors[0] - 1 + np.searchsorted(np.cumsum(masses), levels * (1 + _ROUNDING), side="right")
        bounds = -(-bounds // unit) * unit
        first = max(int(bounds.min()), 0)
        numbers = np.arange(first, int(errors[-1]) + unit, unit)
        h = np.zeros((len(levels), len(numbers)))
        if later is not None:
            h = later.before(numbers, unit, Binomial.of(int(rows[cut + 1]) - number, risk))
        later = Crossing(np.where(numbers <= bounds[:, np.newaxis], 1.0, h), first, unit)
        yield found, later
