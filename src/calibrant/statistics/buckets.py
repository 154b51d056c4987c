"""The variance of a sum over rows in clusters, from its sums over buckets.

Clusters are independent of each other; nothing is assumed about the rows of one cluster. A bucket is a union of whole
clusters, so buckets are independent too, and everything follows from their sums. H is the number of buckets with rows,
N_h the weight of bucket h, N that of all rows, K the number of coarse cells with rows.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import cached_property
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.cells import Cells, ResidualSums
from calibrant.statistics.intervals import Variance
from calibrant.table import ReliabilityTable
from calibrant.table.cluster_sums import BucketSums

#: Sums of squares below this part of those of independent rows are rounding: the sums of clusters do not vary.
NOTHING: Final = 1e-10

_NORMAL_KURTOSIS: Final = 3.0
_ROUNDING: Final = 1e-12  # relative: smaller sums of squares around a mean are rounding
_BALANCED: Final = 1e-6  # of what the rows of a bucket add in size: a smaller sum is the rounding of float32 scores
_DIGITS: Final = 9  # of a sum of a bucket, as a share of the largest
_LEAST_SHARE: Final = 1e-150  # of the variance of the buckets that is left around their common mean


@dataclass(frozen=True, eq=False)
class CoarseSums(Cells):
    """The coarse cells that hold rows, each with the sums over its cells, which a table of them cannot derive.

    ``fine`` are the cells, ``first`` is the first of each coarse cell.
    """

    fine: Cells
    first: NDArray[np.intp]

    @classmethod
    def pooled(cls, fine: Cells, places: NDArray[Any]) -> CoarseSums:
        """Pool cells; ``places`` are their coarse cells, which increase."""
        first = np.flatnonzero(np.diff(places.astype(np.intp), prepend=-1))
        table = fine.table
        counts, positives = (np.add.reduceat(column, first) for column in (table.counts, table.positives))
        squares = None if table.whole else np.add.reduceat(table.own_weights, first, axis=1)
        means = np.clip(np.add.reduceat(fine.score_sums, first) / counts, 0.0, 1.0)
        return cls(ReliabilityTable(means, counts, positives, table.n, square_weights=squares), fine, first)

    @cached_property
    def sums(self) -> ResidualSums:
        return ResidualSums(*(np.add.reduceat(column, self.first) for column in self.fine.sums))

    @cached_property
    def middle(self) -> NDArray[np.intp]:
        """The cell in the middle of each coarse cell, by weight."""
        upto = np.cumsum(self.fine.counts)
        ends = np.append(self.first[1:], len(self.fine))
        halves = upto[ends - 1] - self.counts / 2
        return np.asarray(np.clip(np.searchsorted(upto, halves, side="right"), self.first, ends - 1), np.intp)


def null_effect(sums: Float64s, square: float) -> float:
    """Return the design effect A / sum psi^2 Q of a sum psi r, from its parts in the buckets; 0 if A is rounding."""
    sum_of_squares = float(np.sum(sums**2))
    return sum_of_squares / square if sum_of_squares > NOTHING * square else 0.0


def by_content(sums: Float64s) -> NDArray[np.intp]:
    """Return the order of buckets by their sums, (H, ...); the largest is a weight.

    The labels of clusters then decide no draw and no fold. Sums that differ by rounding alone count as equal.
    """
    digits = np.round(sums / max(float(sums.max(initial=0.0)), np.finfo(float).tiny), _DIGITS) + 0.0
    order = sorted(range(len(digits)), key=lambda bucket: digits[bucket].tobytes())
    return np.array(order, np.intp)


def coarse_places(cells: Cells, buckets: BucketSums) -> NDArray[np.uint16]:
    """Return the coarse cell of each cell, as the buckets have it."""
    table = cells.table
    if table.grid is not None and table.cells is not None:
        return buckets.cells.of_grid(table.grid)[table.cells]
    scores = table.scores.astype(np.float32) if table.scores.dtype == np.float16 else table.scores
    return buckets.cells.of_scores(scores)


def around_mean(square: float, mean: float, linear: float, total: float) -> float:
    """Return sum w^2 (x - m)^2 from the sums of w^2 x^2, of w^2 x and of w^2; 0 where only rounding is left."""
    rest = square - mean * (2 * linear - mean * total)
    return rest if rest > _ROUNDING * square else 0.0


def centred(sums: Float64s, weights: Float64s) -> Float64s:
    """Return the sums of buckets, (H, ...), less the shares of the total that their weights, (H,), suggest.

    They add up to 0. That of the heaviest bucket is minus the sum of the others: its own difference is rounding where
    it has nearly all the weight.
    """
    around = np.asarray(sums - np.multiply.outer(weights / weights.sum(), sums.sum(axis=0)))
    heaviest = int(np.argmax(weights))
    around[heaviest] = 0.0
    around[heaviest] = -around.sum(axis=0)
    return around


def correlation(raw: float, sizes: Float64s) -> float:
    """Return the correlation of rows in a cluster, in [0, 1], at which a sum has the design effect ``raw``."""
    pairs = float(np.sum(sizes**2)) / float(sizes.sum()) - 1
    return min(max((raw - 1) / pairs, 0.0), 1.0) if pairs > _ROUNDING else 0.0


def degrees_of_freedom(sizes: Float64s, rho: float) -> tuple[float, float]:
    """Return the degrees of freedom of sum u_h^2, and the share of sum var E_h that is its mean.

    u_h = E_h - f_h sum E with f_h = N_h / N is a sum of a bucket around the common mean. For var E_h = v_h =
    N_h (1 + (N_h - 1) rho), independent normal, the sum is nearly a scaled chi-square with 2 mean^2 / variance degrees
    of freedom (Satterthwaite; Bell and McCaffrey 2002). With equal sizes that is H - 1, and the share is (H - 1) / H.

    The mean is the trace of M D and half the variance that of (M D)^2, M = I - f 1' - 1 f' + s 1 1' and D = diag(v).
    The heaviest bucket stands alone in both, so that no difference cancels where it has nearly all the rows.
    """
    heaviest = int(np.argmax(sizes))
    v = sizes * (1 - rho + sizes * rho)
    v = v / v.sum()
    rest = np.delete(sizes, heaviest) / sizes.sum()  # f of the other buckets
    first, others = float(v[heaviest]), np.delete(v, heaviest)
    missing, small = float(rest.sum()), float(np.sum(rest**2))  # 1 - f of the heaviest, and s without it
    s, total_of_others, moved = small + (1 - missing) ** 2, float(others.sum()), float(np.sum(rest * others))
    of_heaviest = first * (missing**2 + small)
    mean = of_heaviest + float(np.sum(others * (1 - 2 * rest + s)))
    within = of_heaviest**2 + float(np.sum(others**2 * (1 - 4 * rest + 2 * s)))
    between = 2 * first * float(np.sum(others * (small - (1 - missing) * missing - rest) ** 2))
    between += (
        2 * float(np.sum(rest**2 * others)) * total_of_others
        + 2 * moved**2
        + (s * total_of_others) ** 2
        - 4 * s * moved * total_of_others
    )
    square = within + between
    return (max(mean**2 / square, 1.0), mean) if square > 0 else (1.0, _LEAST_SHARE)


def variance_of(sums: Float64s, square: float, sizes: Float64s) -> Variance:
    """Return the spread of a sum over rows from the centred sums of the buckets, (H,).

    ``square`` is the sum over rows of squared contributions around their mean. The variance is sum u_h^2 / share, with
    the share of `freedom` at the correlation of rows that the sums show; the design effect divides it by the variance
    for independent rows, square N / (N - 1). Where rows do not vary at all, those of a cluster count as copies. Where
    the contributions of each cluster cancel but for rounding, the variance is 0.
    """
    sum_of_squares, n, buckets = float(np.sum(sums**2)), float(sizes.sum()), len(sums)
    if sum_of_squares <= _BALANCED**2 * square / n * float(np.sum(sizes**2)):
        sum_of_squares = 0.0
    if square <= 0:
        df, share = degrees_of_freedom(sizes, 1.0)
        return Variance(sum_of_squares / share, float(np.sum(sizes**2)) / n, df)
    independent = square * n / max(n - 1, _ROUNDING)
    df, share = degrees_of_freedom(sizes, correlation(sum_of_squares * buckets / (buckets - 1) / independent, sizes))
    return Variance(sum_of_squares / share, sum_of_squares / share / independent, df)


def heavy_tailed(variance: Variance, sums: Float64s) -> Variance:
    """Return the same variance with degrees of freedom for the excess kurtosis k of these centred sums, (H,).

    The relative variance of sum u_h^2 is k / H + 2 / df, df that of normal sums, so that 2 / (k / H + 2 / df) degrees
    of freedom have it (Satterthwaite). Few clusters with most events have sums with a large k.
    """
    squares = sums**2
    mean = float(np.mean(squares))
    if not mean > 0:
        return variance
    excess = max(float(np.mean((squares / mean) ** 2)) - _NORMAL_KURTOSIS, 0.0)
    return variance._replace(df=max(2 / (excess / len(sums) + 2 / variance.df), 1.0))


def upper_quantile(tail: float, df: Float64s) -> Float64s:
    """Return the values that Student's laws with these degrees of freedom exceed with probability ``tail``."""
    from scipy.special import stdtrit

    return np.asarray(stdtrit(df, 1 - tail))


def common_signs(scores: Float64s, middle: float) -> list[Float64s]:
    """Return the signs of gaps that move alike, and of those that turn at the mean score."""
    return [np.ones(len(scores)), np.where(scores > middle, 1.0, -1.0)]
