"""E-processes: evidence that may be looked at any time, and that is rarely large if nothing is wrong.

A likelihood ratio e of a slice has a mean of at most 1, whatever came before. The mixture over tilts j, and over the
slice at which something begins to be wrong with the prior 1 / (t (t + 1)),

    A_j = (A_j + 1 / (t (t + 1))) e_j,    E_t = sum of w_j A_j + 1 / (t + 1),

reaches 1 / alpha with a probability of at most alpha, however long it is watched (Ville 1939; Shin, Ramdas, Rinaldo
2024, arXiv 2203.03532). Everything here is in logarithms.

A mean difference has bets instead of tilts. With residuals r = p - y of scores p and outcomes y of probability q, the
wealth of the bet b in (-1, 1), W_b = product of (1 + b r), grows by at most 1 + b (p - q) in the mean. So W_b / product
of (1 + b (p - q)) is a martingale, and log(1 + b x) is concave, so that it is never below W_b / (1 + b d)^n, d the mean
of p - q over all n rows so far. The values d at which the mixture over bets is below 1 / alpha are a confidence
sequence of d: exact for any number of rows and for probabilities that change.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from calibrant.runtime.arrays import Float64s
from calibrant.statistics.intervals import root

#: The tilts of the log-odds of an error that are watched for, all of the same weight.
ERROR_TILTS: Final = (0.1, 0.2, 0.4, 0.8, 1.6)
ERROR_WEIGHTS: Final = np.full(len(ERROR_TILTS), 1 / len(ERROR_TILTS))

_SIZES: Final = np.append(0.99, 2.0 ** (-np.arange(1, 33) / 2))

#: The bets on a mean difference, of both signs: each is 1.4 times the next.
BETS: Final = np.concatenate([_SIZES, -_SIZES])


def error_growth(rows: Any, errors: Any, max_risk: float) -> Float64s:
    """Return by how much the logarithm of each tilt's likelihood ratio grows, (..., 5), with so many rows and errors.

    A row adds s w - log(1 + eps (exp(s) - 1)) for the tilt s, w = 1 for an error; the mean of the exponential is at
    most 1 if the risk is at most eps.
    """
    tilts = np.array(ERROR_TILTS)
    expected = np.log1p(max_risk * np.expm1(tilts))
    return np.asarray(np.multiply.outer(errors, tilts) - np.multiply.outer(rows, expected))


class Mixture(NamedTuple):
    """The mixture over tilts and starts after t slices: its logarithm for each tilt, and t."""

    logs: Float64s
    slices: int = 0

    @classmethod
    def start(cls, number: int) -> Mixture:
        """Return the mixture before the first slice."""
        return cls(np.full(number, -math.inf))

    def grown(self, growth: Float64s) -> Mixture:
        """Return the mixture after one more slice: A = (A + 1 / (t (t + 1))) exp(d)."""
        t = self.slices + 1
        return Mixture(np.logaddexp(self.logs, -math.log(t * (t + 1))) + growth, t)

    def log_e(self, weights: Float64s) -> float:
        """Return log E = log(sum of w A + 1 / (t + 1))."""
        return _log_sum(np.append(self.logs + np.log(weights), -math.log(self.slices + 1)))


class Bounds(NamedTuple):
    """The ends of a confidence sequence, and whether it excludes 0, or rates of 0 and 1."""

    low: float
    high: float
    informative: bool


class Wealth(NamedTuple):
    """The logarithm of the wealth of each bet on the residuals of so many independent units: rows, or clusters."""

    logs: Float64s
    units: float = 0.0

    @classmethod
    def start(cls) -> Wealth:
        """Return the wealth before the first slice."""
        return cls(np.zeros(len(BETS)))

    def grown(self, growth: Float64s, units: float) -> Wealth:
        """Return the wealth after one more slice."""
        return Wealth(self.logs + growth, self.units + units)

    def log_e(self, difference: float, n: float, information: float) -> float:
        """Return the logarithm of the mixture if the mean of p - q over n rows is ``difference``.

        The weight of a bet b is that of the normal distribution with the variance 1 / V, V the sum of p (1 - p) in the
        first slice. So its ends are those of Robbins' normal mixture where counts are large (Robbins 1970, doi
        10.1214/aoms/1177696786; Waudby-Smith and Ramdas 2024, doi 10.1093/jrsssb/qkad009).
        """
        weights = np.log(np.abs(BETS)) - BETS**2 * information / 2
        held = np.isfinite(self.logs)
        if not held.any():
            return -math.inf
        bets = BETS[held] * (n / self.units)
        return _log_sum((weights + self.logs)[held] - self.units * np.log1p(bets * difference)) - _log_sum(weights)

    def bounds(self, n: float, gap: float, predicted: float, information: float, alpha: float) -> Bounds:
        """Return the confidence sequence of the mean of p - q over n rows, with the sums of p - y and of p."""
        center, ends = gap / n, []
        limits = predicted / n - 1, predicted / n  # where all q are 1, or 0

        def excess(difference: float) -> float:
            return self.log_e(difference, n, information) + math.log(alpha)

        for limit in limits:
            is_open = abs(limit - center) < 1e-15 or excess(limit) <= 0
            ends.append(limit if is_open else root(excess, *sorted((limit, center)), xtol=1e-12))
        low, high = ends
        return Bounds(low, high, low > 0 or high < 0 or (low > limits[0] and high < limits[1]))


def _log_sum(logs: Float64s) -> float:
    most = float(np.max(logs))
    return most + math.log(float(np.sum(np.exp(logs - most)))) if math.isfinite(most) else most


def log_mean(logs: Sequence[float], weights: Sequence[float] | None = None) -> float:
    """Return the logarithm of a mean from logarithms, with the same bits in any order of them."""
    shares = np.ones(len(logs)) if weights is None else np.array(weights)
    return _log_sum(np.sort(np.array(logs) + np.log(shares))) - math.log(math.fsum(shares))


def adjusted(
    log_es: Mapping[str, float], weights: Mapping[str, float] | None = None, reserve: float = 0.0
) -> dict[str, float]:
    """Return the logarithm of the adjusted e-value of each group: the least mean over sets with the group.

    Closed testing by means, which may be weighted. Those of at least 1 / alpha are flagged, with a family-wise error of
    at most alpha. The ``reserve`` is the weight of groups that have not appeared yet, whose e-value is 1. The least
    mean of a set has those of the others that are below it, so it is found among the smallest ones.
    """
    shares = dict.fromkeys(log_es, 1.0) if weights is None else weights
    others = sorted([(log_e, shares[name]) for name, log_e in log_es.items()] + [(0.0, reserve)] * (reserve > 0))
    logs, masses = np.array(others).T if others else np.empty((2, 0))
    sums, totals = np.logaddexp.accumulate(logs + np.log(masses)), np.cumsum(masses)
    found = {}
    for name, log_e in log_es.items():
        smaller, share = int(np.searchsorted(logs, log_e)), shares[name]
        means = np.logaddexp(log_e + math.log(share), sums[:smaller]) - np.log(share + totals[:smaller])
        found[name] = float(np.min(means, initial=log_e))
    return found
