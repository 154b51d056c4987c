"""E-processes: evidence that may be looked at any time, and that is rarely large if nothing is wrong.

A likelihood ratio e of a slice has a mean of at most 1, whatever came before. The mixture over tilts j, and over the
slice at which something begins to be wrong with the prior 1 / (t (t + 1)),

    A_j = (A_j + 1 / (t (t + 1))) e_j,    E_t = sum of w_j A_j + 1 / (t + 1),

reaches 1 / alpha with a probability of at most alpha, however long it is watched (Ville 1939; Shin, Ramdas, Rinaldo
2024, arXiv 2203.03532). Everything here is in logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from calibrant.runtime.arrays import Float64s

#: The tilts of the log-odds of an error that are watched for, all of the same weight.
ERROR_TILTS: Final = (0.1, 0.2, 0.4, 0.8, 1.6)
ERROR_WEIGHTS: Final = np.full(len(ERROR_TILTS), 1 / len(ERROR_TILTS))


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


def _log_sum(logs: Float64s) -> float:
    most = float(np.max(logs))
    return most + math.log(float(np.sum(np.exp(logs - most)))) if math.isfinite(most) else most


def log_mean(logs: Sequence[float]) -> float:
    """Return the logarithm of a mean from logarithms."""
    return _log_sum(np.array(logs)) - math.log(len(logs))


def adjusted(log_es: Mapping[str, float]) -> dict[str, float]:
    """Return the logarithm of the adjusted e-value of each group: the least mean over sets with the group.

    Closed testing by means. Those of at least 1 / alpha are flagged, with a family-wise error of at most alpha.
    """
    names = sorted(log_es, key=log_es.__getitem__)
    logs = np.array([log_es[name] for name in names])
    found = {}
    for place, name in enumerate(names):
        # The least mean of a set with the group has the smallest others.
        means = [log_mean([float(logs[place]), *np.delete(logs, place)[:more].tolist()]) for more in range(len(names))]
        found[name] = min(means)
    return found
