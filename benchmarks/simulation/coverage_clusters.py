"""Laws of rows in clusters, for `coverage.py`: the rows of a cluster depend on each other.

Each row follows a `Law`. The population of (score, outcome rate) is that of independent rows, so the
true values are theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from coverage_laws import FEW_SIZES, Float64s, Law, Rows, laws, tilted
from numpy.typing import NDArray
from scipy.special import expit

Counts = NDArray[np.int64]

EACH = 10  # rows of a cluster, on average
GIANT = 0.2  # the share of the rows that one cluster has
SPREAD = 2.0  # standard deviation of a cluster's intercept, in logits
_NODES = np.linspace(-8.0, 8.0, 401)  # of a standard normal law, for the trapezoid rule
_LOGITS = np.linspace(-60.0, 60.0, 12_001)


@dataclass(frozen=True, kw_only=True)
class ClusterLaw(Law):
    """Rows in clusters: the number of rows of each of them, and outcomes from the rates and clusters of the rows."""

    members: Callable[[int, np.random.Generator], Counts]
    outcomes: Callable[[Float64s, Counts, np.random.Generator], NDArray[np.bool_]]
    copies: bool

    def draw(self, n: int, rng: np.random.Generator) -> Rows:
        members = self.members(n, rng)
        clusters = np.repeat(np.arange(len(members)), members)
        p = self.scores(rng.random(len(members)))[clusters] if self.copies else self.scores(rng.random(n))
        return Rows(p, self.outcomes(self.rate(p), clusters, rng).astype(np.int64), clusters=clusters)


# ---------------------------------------------------------------- rows of each cluster


def ten_each(n: int, _: np.random.Generator) -> Counts:
    return np.full(n // EACH, EACH)


def geometric(n: int, rng: np.random.Generator) -> Counts:
    """Return geometric sizes; the last cluster ends with the last row."""
    ends = np.cumsum(rng.geometric(1 / EACH, n))
    return np.diff(np.append(ends[ends < n], n), prepend=0)


def one_giant(n: int, _: np.random.Generator) -> Counts:
    """Return one cluster with a fifth of the rows, and ten rows in each other one."""
    giant = int(GIANT * n)
    return np.append(giant, np.full((n - giant) // EACH, EACH))


# ---------------------------------------------------------------- outcomes of given rates


def one_number(rate: Float64s, clusters: Counts, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return y = 1{U < rate} with one U for each cluster; rows with the same score are copies."""
    return rng.random(clusters[-1] + 1)[clusters] < rate


def intercepts(rate: Float64s, clusters: Counts, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return independent outcomes given an intercept of each cluster; over all clusters the rates are right."""
    means, logits = _mean_logits()
    with np.errstate(divide="ignore"):
        inner = np.interp(np.log(rate) - np.log1p(-rate), means, logits)
    inner += SPREAD * rng.standard_normal(clusters[-1] + 1)[clusters]
    return rng.random(len(rate)) < expit(inner)


@cache
def _mean_logits() -> tuple[Float64s, Float64s]:
    """Return the logit of E expit(x + 2 Z), Z standard normal, for each x of a grid; and the grid."""
    density = np.exp(-(_NODES**2) / 2)
    means = np.log([expit(x + SPREAD * _NODES) @ density for x in _LOGITS])
    return means - means[::-1], _LOGITS  # E expit(-x + 2 Z) = 1 - E expit(x + 2 Z)


def cluster_laws() -> list[Law]:
    """Return the laws of rows in clusters, at calibration and away from it."""
    scores = {law.name: law.scores for law in laws()}
    kinds = (
        ("Uniform", "copies", ten_each, one_number, True),
        ("Uniform", "intercepts, geometric", geometric, intercepts, False),
        ("Uniform", "one number each", ten_each, one_number, False),
        ("Beta(1, 20)", "intercepts", ten_each, intercepts, False),
        ("Beta(8, 1)", "intercepts, one giant", one_giant, intercepts, False),
    )
    return [
        ClusterLaw(
            f"{name}, {kind}",
            a,
            scores[name],
            tilted(a),
            sizes=FEW_SIZES,
            members=members,
            outcomes=outcomes,
            copies=copies,
        )
        for name, kind, members, outcomes, copies in kinds
        for a in (1.0, 1.4)
    ]
