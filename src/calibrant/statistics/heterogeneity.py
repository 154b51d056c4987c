"""How much a measure differs between groups: Cochran's Q and I^2 at a common value, which hold for few events."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.runtime.arrays import Float64s
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.cells import Cells

#: The weight, in rows, of what all groups show together in a figure of one.
PRIOR_ROWS: Final = 100.0

_ROUNDING: Final = 1e-9


@dataclass(frozen=True, eq=False, kw_only=True)
class Deviations:
    """How far groups are from a common value, (G,) each, in any unit: U, the score of a group.

    Attributes
    ----------
    scores : (G,)
        U, which has mean 0 if the groups have one value.
    variances : (G,)
        The variances of U at the common value, for independent rows; NaN or 0 for a group that tells nothing.
    sensitivities : (G,)
        How much U grows with the value of the group.
    influences : sequence of (2, K)
        What a unit of weight adds to U in each cell, without and with the event.
    enough : (G,) bool, optional
        The groups that may be compared; by default all.
    reason : str
        Why the others are not compared.
    """

    scores: Float64s
    variances: Float64s
    sensitivities: Float64s
    influences: Sequence[Float64s]
    enough: NDArray[np.bool_] | None = None
    reason: str = "its rows do not determine the measure"


#: The deviations of groups, from the cells of each.
Compare = Callable[[Sequence[Cells]], Deviations]


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupRows:
    """The rows of a group.

    Attributes
    ----------
    cells : Cells
        Its cells, (K,).
    buckets : (2, H, K), optional
        The weight without and with the event of each bucket of clusters in each cell; buckets are those of all groups.
        None for independent rows.
    """

    cells: Cells
    buckets: Float64s | None = None


class Heterogeneity(NamedTuple):
    """I^2, the p-value of Cochran's Q, which groups took part, (G,), and why the others did not.

    NaN with fewer than two groups.
    """

    share: float
    p_value: float
    compared: NDArray[np.bool_]
    reason: str


def heterogeneity(groups: Sequence[GroupRows], compare: Compare) -> Heterogeneity:
    """Return how much groups differ, by the score test of one common value.

    Q = sum U^2 / v - (sum c U / v)^2 / sum c^2 / v with the scores U of the groups, their variances v at the common
    value and their sensitivities c. With U / c for the value less the common one it is Cochran's Q (1954, doi
    10.2307/3001666), whose variances do not come from the groups' own values: with few events these go together, and Q
    is too large. Q is chi-square with G - 1 degrees of freedom if the groups have one value. I^2 = max(0, 1 - E Q / Q)
    (Higgins and Thompson 2002, doi 10.1002/sim.1186).

    Clusters multiply v by the design effect of U. If they lie in several groups the scores are correlated, R, and Q is
    nearly a scaled chi-square with mean tr M and variance 2 tr M^2, M = P R P, P the projection that Q makes.
    """
    from scipy.special import chdtrc

    found = compare([group.cells for group in groups])
    sums = [
        None if group.buckets is None else np.einsum("ohk,ok->h", group.buckets, own)
        for group, own in zip(groups, found.influences, strict=True)
    ]
    effects = np.ones(len(groups))
    for g, (group, own, sum_of) in enumerate(zip(groups, found.influences, sums, strict=True)):
        if sum_of is not None:
            rows = float(np.sum(group.cells.table.own_weights * own**2))
            effects[g] = float(sum_of @ sum_of) / rows if rows > 0 else math.nan
    variances = found.variances * effects
    with np.errstate(invalid="ignore"):
        held = np.isfinite(found.scores) & np.isfinite(variances) & (variances > 0)
    held &= True if found.enough is None else found.enough
    if np.count_nonzero(held) < 2:
        return Heterogeneity(math.nan, math.nan, held, found.reason)
    deviations = np.sqrt(variances[held])
    scaled, direction = found.scores[held] / deviations, found.sensitivities[held] / deviations
    direction = direction / np.abs(direction).max()  # whatever the unit of the value
    direction = direction / math.sqrt(float(direction @ direction))
    q = max(float(scaled @ scaled) - float(direction @ scaled) ** 2, 0.0)
    mean, square = _moments([own for own, kept in zip(sums, held, strict=True) if kept], direction)
    if mean <= _ROUNDING:  # the same clusters in every group: their differences do not vary
        return Heterogeneity(0.0, 1.0, held, found.reason)
    share = max(0.0, 1 - mean / q) if q > 0 else 0.0
    return Heterogeneity(share, float(chdtrc(mean**2 / square, q * mean / square)), held, found.reason)


def _moments(sums: Sequence[Float64s | None], direction: Float64s) -> tuple[float, float]:
    """Return tr M and tr M^2, M = P R P, from what buckets add to the score of each group."""
    clustered = [g for g, own in enumerate(sums) if own is not None]
    if not clustered:
        return float(len(sums) - 1), float(len(sums) - 1)
    rows = np.stack([own for own in sums if own is not None])
    rows = rows / np.sqrt(np.sum(rows**2, axis=1, keepdims=True))
    correlations = np.eye(len(sums))
    correlations[np.ix_(clustered, clustered)] = rows @ rows.T
    projection = np.eye(len(sums)) - np.outer(direction, direction)
    products = projection @ correlations @ projection
    return float(np.trace(products)), float(np.sum(products**2))


def steadied(own: Float64s, together: float, rows: Float64s) -> Float64s:
    """Return the figure of each group, steadied by that of all groups, which counts as 100 rows."""
    return np.asarray((rows * own + PRIOR_ROWS * together) / (rows + PRIOR_ROWS))
