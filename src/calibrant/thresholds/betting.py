"""Tests by betting: exact for clusters whose rows depend on each other in any way.

A cluster g with n rows down to a cut, w of them wrong, has x = (w - eps n + eps m) / m, where m is the largest cluster
and eps the bound of the risk. x is in [0, 1], and its mean is at least eps if the risk at the cut is above eps. Who
starts with a wealth of 1 and bets on small x has the wealth prod (1 + b (eps - x)) after some clusters, b at most
1 / (1 - eps), and reaches 1 / alpha with a probability of at most alpha (Ville). This holds for the mean of several
bets, and for the mean over several cuts at which the risk is above eps (Waudby-Smith, Ramdas 2024).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrant.runtime.arrays import Float64s
from calibrant.thresholds.ranked import ClusterParts

#: Bets, in units of the best one if all rows of a cluster are alike and no bet is known to be better.
_BETS: Final = (0.5, 1.0, 2.0)

#: Each cut has this many times the rows of the cut before.
RATIO: Final = 1.1

_MOST: Final = 0.999  # of the largest bet, so that no wealth is 0
_LARGEST: Final = 600.0  # of the logarithm of a wealth


def betting(parts: ClusterParts, cuts: NDArray[np.intp], max_risk: float, alpha: float) -> int:
    """Return how many cuts, from the top, have a risk of at most ``max_risk``.

    A cut is accepted if the mean wealth over this and all later cuts reaches 1 / alpha: closed testing of risks that do
    not fall from cut to cut. Clusters bet in the order of their numbers, which no outcome decides.
    """
    order = np.argsort(parts.places, kind="stable")
    bounds = np.searchsorted(parts.places[order], cuts, side="right")
    largest = float(parts.sums(parts.weights).max())
    rows, wrong = parts.sums(parts.weights), parts.sums(parts.wrong)
    total, reached = np.zeros(parts.number), np.empty(len(cuts), np.bool_)
    stop = len(order)
    for cut in range(len(cuts) - 1, -1, -1):
        left = order[bounds[cut] : stop]
        rows -= np.bincount(parts.clusters[left], parts.weights[left], parts.number)
        wrong -= np.bincount(parts.clusters[left], parts.wrong[left], parts.number)
        stop = int(bounds[cut])
        total += _wealth(rows / largest, wrong / largest, max_risk, alpha)
        reached[cut] = total.max() >= (len(cuts) - cut) / alpha
    return len(cuts) if reached.all() else int(np.argmin(reached))


def _wealth(rows: Float64s, wrong: Float64s, max_risk: float, alpha: float) -> Float64s:
    """Return the wealth after each cluster, (G,), from its rows and errors over the size of the largest."""
    variance = max_risk * (1 - max_risk) * float(np.mean(rows**2))
    best = math.sqrt(2 * math.log(1 / alpha) / (len(rows) * variance))
    won = max_risk * rows - wrong
    wealth = np.zeros(len(rows))
    for share in _BETS:
        bet = min(share * best, _MOST / (1 - max_risk))
        wealth += np.exp(np.minimum(np.cumsum(np.log1p(bet * won)), _LARGEST))
    return wealth / len(_BETS)
