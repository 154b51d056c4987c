"""An e-process of the hypothesis that each outcome occurs with the probability of its score.

A tilt adds lambda to the log-odds of the outcomes. If lambda depends on scores alone, and on outcomes of earlier
slices, the likelihood ratio

    log e = sum over cells [lambda k - n log(1 + P (exp(lambda) - 1))],

with n rows, k events and the mean score P of each cell, has a mean of at most 1: log(1 + c p) is concave in p, so that
the cells never have more evidence than their rows. A mixture over tilts, and over the slice at which a drift starts, is
an e-process: it reaches 1 / alpha with a probability of at most alpha, however long it is watched (Ville).

The frame of the tilts includes the scores of the slice itself. If outcomes decide later scores of the same slice, as in
forecasts during a game, the mean of E is therefore not exactly 1: it was 1.001 after five slices of one game each.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from calibrant.inputs.notions import Events
from calibrant.kernels.compensated import total_of
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import cached_property
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.cells import Cells
from calibrant.statistics.e_processes import BETS
from calibrant.table.cluster_sums import BucketSums

#: The bins of the local tilts, with equal information.
BINS: Final = 5

#: The families of tilts: the whole level, the slope, one bin of the scores.
FAMILIES: Final = ("level", "slope", "range")

_SIZES: Final = {"level": (0.05, 0.1, 0.2, 0.4, 0.8), "slope": (0.05, 0.1, 0.2, 0.4, 0.8), "range": (0.2, 0.4, 0.8)}
_FARTHEST: Final = 3.0  # standard deviations of the log-odds


@dataclass(frozen=True, eq=False)
class Clusters:
    """Rows in clusters, ordered by what they hold, so that no sum depends on the order in which they came.

    Attributes
    ----------
    scores, outcomes, weights : (N,)
        The rows.
    numbers : (N,)
        The cluster of each row, from 0.
    """

    scores: Float64s
    outcomes: Float64s
    weights: Float64s
    numbers: NDArray[np.intp]

    @classmethod
    def of(cls, events: Events, labels: NDArray[Any]) -> Clusters:
        """Return the rows of events with these labels."""
        scores, outcomes = events.scores.astype(np.float64), events.outcomes.astype(np.float64)
        weights = np.ones(len(scores)) if events.weights is None else events.weights
        _, numbers = np.unique(labels, return_inverse=True)
        order = np.lexsort((weights, outcomes, scores, numbers))
        return cls(scores[order], outcomes[order], weights[order], numbers[order])

    def sums(self, values: Float64s) -> Float64s:
        """Return the weighted sum of each cluster."""
        return np.asarray(np.bincount(self.numbers, self.weights * values), np.float64)

    @cached_property
    def sizes(self) -> Float64s:
        """The weight of each cluster."""
        return self.sums(np.ones(len(self.scores)))

    @property
    def gaps(self) -> Float64s:
        """The sum of p - y of each cluster."""
        return self.sums(self.scores - self.outcomes)


class Tilt(NamedTuple):
    """A tilt: its family, its size with its sign, its weight in the mixture, and the bin of a local one."""

    family: str
    size: float
    weight: float
    bin: int = -1


def _tilts() -> tuple[Tilt, ...]:
    found = []
    for family, sizes in _SIZES.items():
        bins = range(BINS) if family == "range" else (-1,)
        kinds = [(sign * size, b) for b in bins for size in sizes for sign in (1, -1)]
        found += [Tilt(family, size, 1 / (len(FAMILIES) * len(kinds)), b) for size, b in kinds]
    return tuple(found)


#: All tilts. Nothing is learned from outcomes.
TILTS: Final = _tilts()
WEIGHTS: Final = np.array([tilt.weight for tilt in TILTS])


@dataclass(frozen=True)
class Tolerance:
    """Errors that are not a drift: probabilities within ``points`` of the score, or odds within a factor ``odds``."""

    points: float = 0.0
    odds: float = 1.0

    def boundary(self, scores: Float64s, *, up: bool) -> Float64s:
        """Return the largest, or the smallest, probability within the tolerance of each score."""
        if self.odds > 1:
            with np.errstate(divide="ignore"):
                moved = log_odds(scores) + (1 if up else -1) * math.log(self.odds)
            return np.asarray(expit(moved))
        return np.minimum(1.0, scores + self.points) if up else np.maximum(0.0, scores - self.points)


@dataclass(frozen=True)
class Frame:
    """Where the scores lie: mean and standard deviation of their log-odds by information, and the edges of five bins.

    It depends on scores alone. The information of a row with score p is p (1 - p).
    """

    middle: float
    spread: float
    edges: tuple[float, ...]

    @classmethod
    def of(cls, rows: Float64s, scores: Float64s) -> Frame:
        """Return the frame of cells, from their rows and mean scores."""
        information = rows * scores * (1 - scores)
        held = information > 0
        if not held.any():
            return cls(0.0, 1.0, (0.0,) * (BINS - 1))
        z, v = log_odds(scores[held]), information[held]
        order = np.argsort(z, kind="stable")
        z, v = z[order], v[order]
        middle = float((v * z).sum() / v.sum())
        spread = math.sqrt(float((v * (z - middle) ** 2).sum() / v.sum()))
        places = np.searchsorted(np.cumsum(v) / v.sum(), np.arange(1, BINS) / BINS)
        below, above = (np.minimum(x, len(z) - 1) for x in (places, places + 1))
        edges = tuple(((z[below] + z[above]) / 2).tolist())  # between two cells, where no rounding decides
        return cls(middle, spread if spread > 1e-9 else 1.0, edges)

    def slopes(self, scores: Float64s) -> Float64s:
        """Return by how much a slope of 1 moves the log-odds of each score."""
        return np.clip((log_odds(scores) - self.middle) / self.spread, -_FARTHEST, _FARTHEST)

    def tilts(self, scores: Float64s) -> Float64s:
        """Return by how much each tilt moves the log-odds of each score, (50, K)."""
        bins = np.searchsorted(self.edges, log_odds(scores), side="left")
        shapes = {"level": np.ones(len(scores)), "slope": self.slopes(scores)}
        shapes |= {f"range {b}": (bins == b).astype(np.float64) for b in range(BINS)}
        return np.stack([tilt.size * shapes[tilt.family if tilt.bin < 0 else f"range {tilt.bin}"] for tilt in TILTS])


def log_odds(scores: Float64s) -> Float64s:
    """Return log(p / (1 - p)); infinite at 0 and 1."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(scores) - np.log1p(-scores))


def _log_means(tilts: Float64s, scores: Float64s, tolerance: Tolerance) -> Float64s:
    """Return log(1 + b (exp(lambda) - 1)) at the boundary b that is nearest for each tilt."""
    b = np.where(tilts > 0, tolerance.boundary(scores, up=True), tolerance.boundary(scores, up=False))
    return np.asarray(np.log1p(b * np.expm1(tilts)))


def growth_of_cells(cells: Cells, frame: Frame, tolerance: Tolerance, unit: float = 1.0) -> Float64s:
    """Return the logarithm of the likelihood ratio of each tilt, (50,), for independent rows in cells.

    ``unit`` is a bound on the weight of a row: e^u has a mean of at most 1 for u in [0, 1].
    """
    tilts = frame.tilts(cells.scores)
    return (
        np.asarray(_dot(tilts, cells.positives) - _dot(_log_means(tilts, cells.scores, tolerance), cells.counts)) / unit
    )


def _dot(columns: Float64s, weights: Float64s) -> Float64s:
    """Return ``columns @ weights`` with the same bits on every processor, which BLAS does not."""
    return np.asarray((columns * weights.T[..., np.newaxis, :]).sum(axis=-1).T)


def growth_of_clusters(clusters: Clusters, frame: Frame, tolerance: Tolerance) -> Float64s:
    """Return the same for rows in clusters: each cluster adds the logarithm of the mean over its rows."""
    tilts = frame.tilts(clusters.scores)
    means = _log_means(tilts, clusters.scores, tolerance)
    rows = zip(tilts, means, strict=True)
    return np.array(
        [_sum_of_logs(clusters.sums(np.exp(tilt * clusters.outcomes - mean)), clusters.sizes) for tilt, mean in rows]
    )


def growth_of_buckets(buckets: BucketSums, frame: Frame, tolerance: Tolerance) -> Float64s:
    """Return the same for buckets of clusters, with the mean score of each coarse cell of a bucket."""
    held, cells = np.nonzero(buckets.n)
    n, k, gaps = (buckets.cell_sums[held, cells, i] for i in range(3))
    scores = np.clip((gaps + k) / n, 0.0, 1.0)
    tilts = frame.tilts(scores)
    means = _log_means(tilts, scores, tolerance)
    sums = k * np.exp(tilts - means) + (n - k) * np.exp(-means)
    sizes = np.bincount(held, n)
    return np.array([_sum_of_logs(np.bincount(held, each), sizes) for each in sums])


def _sum_of_logs(sums: NDArray[Any], sizes: NDArray[Any]) -> float:
    filled = sizes > 0
    return total_of(np.log(sums[filled] / sizes[filled]))


def bets_of_cells(cells: Cells, unit: float) -> tuple[Float64s, float]:
    """Return by how much the logarithm of the wealth of each bet grows, (66,), and in how many units of weight.

    ``unit`` is a bound on the weight of a row: (1 + b r)^u has a mean of at most (1 + b (p - q))^u for u in [0, 1]. A
    bet that would be unsafe at this weight is lost.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        bets = (BETS * unit)[:, np.newaxis]
        logs = _dot(np.log1p(bets * (cells.scores - 1)), cells.positives)
        logs += _dot(np.log1p(bets * cells.scores), cells.counts - cells.positives)
    return np.where(np.abs(BETS) * unit < 1, logs / unit, -np.inf), cells.total / unit


def bets_of_units(gaps: Float64s, sizes: Float64s) -> tuple[Float64s, float]:
    """Return the same for the sums of p - y over clusters of so much weight: each cluster is one unit."""
    largest = float(sizes.max())
    logs = [total_of(np.log1p(bet * gaps)) if abs(bet) * largest < 1 else -math.inf for bet in BETS.tolist()]
    return np.array(logs), float(len(sizes))


def start_shares(growths: Float64s) -> tuple[Float64s, Float64s, Float64s]:
    """Return the share of each start, (T,), and of each tilt, (50,), with every start alike, from (T, 50) growths.

    Also return the logarithm of the largest likelihood ratio of each tilt, (50,).
    """
    later = np.cumsum(growths[::-1], axis=0)[::-1]
    logs = later + np.log(WEIGHTS)
    shares = np.exp(logs - logs.max())
    shares /= shares.sum()
    return shares.sum(axis=1), shares.sum(axis=0), later.max(axis=0)
