"""Tests by betting: exact for clusters whose rows depend on each other in any way, and for rows of any weights.

A cluster g with the weight n down to a cut, w of it wrong, has x = (w - eps n + eps m) / m, where m bounds the weight
of every cluster and eps is the bound of the risk. x is in [0, 1], and its mean is at least eps if the risk at the cut
is above eps. Who starts with a wealth of 1 and bets on small x has the wealth prod (1 + b (eps - x)), with b at most
1 / (1 - eps), and reaches 1 / alpha with a probability of at most alpha (Markov). This holds for the mean over several
cuts at which the risk is above eps too (Waudby-Smith, Ramdas 2024). A row without a cluster is a cluster of its own.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.runtime.arrays import Float64s
from calibrant.thresholds.ranked import ClusterParts

#: Each cut has this many times the rows of the cut before.
RATIO: Final = 1.1

#: The share of the first wealth that is bet at the cut itself; the rest is bet at all later cuts.
_OWN: Final = 0.5

#: At the first cut, clusters without an error reach this many times the wealth that is needed.
_FIRST: Final = 10.0

_MOST: Final = 0.999  # of the largest bet, so that no wealth is 0
_LARGEST: Final = 600.0  # of the logarithm of a wealth
_ROUNDED: Final = 1e-9  # of a wealth
_STEPS: Final = 50  # of a bisection
_POWER: Final = 0.9  # at the planned cut alone; with the cuts before it, about 0.8
_DOUBLED, _HALVED = 10, 6  # the most doublings of the clusters that are planned, and the halvings of the last one


class Bound(NamedTuple):
    """The largest weight of a cluster: how many rows it may have, the largest weight of a row, and which is declared.

    Attributes
    ----------
    rows : float or None
        The most rows of a cluster, or their weight if weights are numbers of rows; None for independent rows.
    weight : float or None
        The largest weight of a row, in the unit of the table; None if weights are numbers of rows.
    unit : float
        The weight in the table of a row with a weight of 1.
    observed : tuple of str
        The arguments, ``largest_cluster`` or ``max_weight``, that are missing: these bounds are the largest observed.
    """

    rows: float | None
    weight: float | None
    unit: float = 1.0
    observed: tuple[str, ...] = ()

    @property
    def largest(self) -> float:
        """The largest weight of a cluster."""
        return (1.0 if self.rows is None else self.rows) * (1.0 if self.weight is None else self.weight)


def betting(parts: ClusterParts, cuts: NDArray[np.intp], max_risk: float, alpha: float, largest: float) -> slice:
    """Return which of the cuts have a risk of at most ``max_risk``.

    The first cut is that where clusters without errors would win ten times the wealth that is needed; errors play no
    part. A cut is accepted if half of its wealth and half of the mean wealth of all later cuts reach 1 / alpha
    together: closed testing of risks that do not fall from cut to cut.
    """
    order = np.argsort(parts.places, kind="stable")
    bounds = np.searchsorted(parts.places[order], cuts, side="right")
    wealth, first = np.zeros(len(cuts)), len(cuts)
    for cut in range(len(cuts) - 1, -1, -1):
        rows, wrong = _down_to(parts, order[: bounds[cut]], largest)
        if not enough(rows, max_risk, alpha):
            break
        first = cut
        wealth[cut] = math.exp(min(_logarithm(rows, wrong, max_risk, _bet(rows, max_risk, alpha * _OWN)), _LARGEST))
    later = np.cumsum(wealth[::-1])[::-1] - wealth
    number = np.arange(len(cuts) - 1, -1, -1)
    mean = np.where(number > 0, _OWN * wealth + (1 - _OWN) * later / np.maximum(number, 1), wealth)
    reached = mean[first:] >= (1 - _ROUNDED) / alpha
    return slice(first, len(cuts) if reached.all() else first + int(np.argmin(reached)))


def risk_bound(parts: ClusterParts, place: int, max_risk: float, alpha: float, largest: float) -> float:
    """Return the largest risk down to ONE place chosen before that is not rejected at alpha, by the same bet."""
    rows, wrong = _down_to(parts, np.flatnonzero(parts.places <= place), largest)
    bet, low, high = _bet(rows, max_risk, alpha), 0.0, 1.0
    for _ in range(_STEPS):
        risk = (low + high) / 2
        rejected = _logarithm(rows, wrong, risk, min(bet, _MOST / (1 - risk))) >= -math.log(alpha)
        low, high = (low, risk) if rejected else (risk, high)
    return high


def fresh_clusters(parts: ClusterParts, place: int, max_risk: float, alpha: float, largest: float) -> float | None:
    """Return how many times these clusters certify a place with 80 % probability if they are new; None for too many.

    The logarithm of the wealth is normal, with the moments of these clusters and two more that are wrong, and with the
    variance of the means of both samples.
    """
    from scipy.special import ndtri

    rows, wrong = _down_to(parts, np.flatnonzero(parts.places <= place), largest)
    z, idle, mean = float(ndtri(_POWER)), parts.number - len(rows), float(rows.mean())
    rows, wrong = np.append(rows, [mean, mean]), np.append(wrong, [mean, mean])

    def suffices(times: float) -> bool:
        bet = _bet(rows * math.sqrt(times), max_risk, alpha * _OWN)
        won = np.append(np.log1p(bet * (max_risk * rows - wrong)), np.zeros(idle))
        total, spread = times * float(np.sum(won)), float(np.std(won)) * math.sqrt(len(won) * (times + times**2))
        return total - z * spread >= math.log(1 / (alpha * _OWN))

    high = next((2.0**k for k in range(_DOUBLED) if suffices(2.0**k)), None)
    if high is None:
        return None
    low = high / 2
    for _ in range(_HALVED):
        middle = (low + high) / 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high


def enough(rows: Float64s, max_risk: float, alpha: float) -> bool:
    """Return whether clusters of these weights, over the largest, could be certified with errors among them."""
    won = float(np.sum(np.log1p(_MOST / (1 - max_risk) * max_risk * rows)))
    return won >= math.log(_FIRST / alpha)


def _down_to(parts: ClusterParts, held: NDArray[np.intp], largest: float) -> tuple[Float64s, Float64s]:
    """Return the weight of clusters, and of their errors, over the largest; of clusters with such rows alone."""
    rows, wrong = (np.bincount(parts.clusters[held], x[held]) for x in (parts.weights, parts.wrong))
    some = rows > 0
    return rows[some] / largest, wrong[some] / largest


def _bet(rows: Float64s, max_risk: float, alpha: float) -> float:
    """Return the best bet if all rows of a cluster are alike: sqrt(2 log(1 / alpha) / variance), or the largest."""
    variance = max_risk * (1 - max_risk) * float(np.sum(rows**2))
    return min(math.sqrt(2 * math.log(1 / alpha) / variance), _MOST / (1 - max_risk))


def _logarithm(rows: Float64s, wrong: Float64s, risk: float, bet: float) -> float:
    return float(np.sum(np.log1p(bet * (risk * rows - wrong))))
