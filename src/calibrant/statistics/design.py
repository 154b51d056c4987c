"""How sums over rows vary: the sampling design, in the sense of survey statistics.

Independent rows are clusters of one row. What needs to know how its sums vary asks a `SamplingDesign`, and is written
once. Its `Sample` says how much the rows tell: how many rows, or clusters, have the less frequent outcome, with a
caution where they are few.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError
from calibrant.inputs.weights import effective_n
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import cached_property
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.buckets import (
    CoarseSums,
    around_mean,
    by_content,
    centred,
    coarse_places,
    common_signs,
    null_effect,
    variance_of,
)
from calibrant.statistics.cells import Cells
from calibrant.statistics.intervals import PRIOR_ROWS, Variance, centred_blend
from calibrant.statistics.resampling import normal_quantile, t_quantile
from calibrant.table.cluster_sums import BucketSums

#: Rows, or clusters, with the less frequent outcome below which every interval is flagged.
MINORITY: Final = 15

#: The share of the rows above which one cluster decides the degrees of freedom, so that every interval is flagged.
LARGE: Final = 0.1

#: What is counted of the less frequent outcome: rows, or the clusters that hold it.
ROWS: Final = "row"
CLUSTERS: Final = "cluster"


class Sample(NamedTuple):
    """What a result says about the rows behind it.

    ``rarer`` is how many rows have the less frequent outcome, as equal ones, or how many clusters hold the outcome that
    fewer clusters hold; ``unit`` says which, and ``of_event`` whether this outcome is the event. ``flag`` is a warning
    where intervals are not to be trusted, or nothing. ``suffix`` ends the method of each number, and ``facts`` are
    added to its details.
    """

    rarer: float
    unit: str
    of_event: bool
    flag: str
    suffix: str = ""
    facts: Mapping[str, Any] = MappingProxyType({})


#: Nothing is said.
UNKNOWN: Final = Sample(math.inf, ROWS, of_event=True, flag="")


def rarer_rows(cells: Cells) -> float:
    """Return the effective sample size of the less frequent outcome."""
    return min(_rows_of_outcomes(cells))


def _rows_of_outcomes(cells: Cells) -> list[float]:
    """Return the effective sample size of each outcome, that of the event last."""
    return _effective(cells.masses.sum(axis=1), cells.table.own_weights.sum(axis=1))


def rarer_of(weights: Float64s, squares: Float64s) -> float:
    """Return the same from the sums of weights and of squared weights by outcome, (2,) each.

    An outcome without squared weights has no rows: what differences of weights leave of it is rounding.
    """
    return min(_effective(weights, squares))


def _effective(weights: Float64s, squares: Float64s) -> list[float]:
    return [effective_n(float(w), float(q)) if q > 0 else 0.0 for w, q in zip(weights, squares, strict=True)]


def rare(number: float, of: str = "", unit: str = ROWS) -> str:
    """Return a warning where too few rows have the less frequent outcome, or one occurs in too few clusters."""
    if number >= MINORITY * (1 - 1e-9):
        return ""
    if number == 0:
        return f"every row{of} has the same outcome, so intervals may be too short"
    many = f"{number:.4g} {unit}{'s' * (number != 1)}"
    found = f"{many} of the less frequent outcome{of}" if unit == ROWS else f"one outcome{of} occurs in only {many}"
    return f"{found}, fewer than {MINORITY}, so intervals may be too short"


def large(share: float) -> str:
    """Return a warning where one cluster has so large a share of the rows, or nothing."""
    if share <= LARGE:
        return ""
    return f"one cluster has {100 * share:.0f} % of the rows, so intervals are wide and p-values conservative"


#: From sums over cells, (..., K), to sums over places, (..., M), linearly: a kernel, or local lines.
Transform = Callable[[Float64s], Float64s]

#: The end of the method of every number that clusters entered.
BY_CLUSTER: Final = "; by cluster"

#: The same where each cluster is one row: the rows are independent.
LONE: Final = "; clusters of one row"

_SMALLEST: Final = 1e-9  # weight at a place
_LITTLE: Final = 1e-9  # of the largest variance: where less is left, only rounding is
_TINY: Final = float(np.finfo(float).tiny)
_LEAST_DEFF: Final = 0.01  # of a share
_ROUNDING: Final = 1e-12  # relative: a smaller weight, or a smaller variance of rows, is rounding


@dataclass(frozen=True, eq=False, kw_only=True)
class Influence:
    """What each row adds to a measure near the data, on the scale of its link: what its variance depends on."""

    square: float  # the sum over rows of (x - m)^2, x what a row adds and m the mean of x, with squared weights
    by_bucket: Callable[[Clustered], Float64s]  # the sums of x over the buckets of clusters, (H,)
    #: The effective number of rows, where m was estimated: squares are multiplied by n / (n - 1), and sums of buckets
    #: are taken around their share of the total. None where x adds up to 0 over all rows.
    n: float | None = None
    #: The same sum of squares, blended with what calibration implies. It takes the place of ``square`` in the variance;
    #: the design effect is that of what was seen.
    steadied: float | None = None
    rounding: float = 0.0  # where rows are in clusters, a smaller ``square`` is rounding: the rows do not vary
    #: cells, values: (2, K): what a unit of weight in each cell adds, with outcome 0 and with outcome 1. Models are
    #: compared by it, row by row; not known for means over whole predictions.
    cells: Cells | None = None
    values: Float64s | None = None

    @classmethod
    def of_cells(cls, cells: Cells, values: Float64s, square: float | None = None) -> Influence:
        """Return the influence from what a unit of weight in each cell adds, (2, K): with outcome 0, with outcome 1.

        ``square`` is the sum of squares where it is known better than by a mean that was estimated.
        """
        by_bucket = partial(Clustered.sums_of, cells=cells, values=values)
        if square is not None:
            return cls(square=square, by_bucket=by_bucket, cells=cells, values=values)
        squares = cells.table.own_weights
        mean = float(np.sum(cells.masses * values)) / cells.total
        square = float(np.sum(squares * (values - mean) ** 2))
        return cls(square=square, by_bucket=by_bucket, n=cells.effective_n, cells=cells, values=values)


@dataclass(frozen=True, eq=False)
class SamplingDesign:
    """How sums over the rows of some cells vary; r = p - y is the residual of a row.

    Here rows are independent of each other. `Clustered` is the design of rows in clusters.
    """

    cells: Cells  # the cells of the rows, (K,); coarse ones for clusters

    @property
    def fine(self) -> Cells:
        """The cells that were pooled to coarse ones; `cells` themselves for independent rows."""
        return self.cells

    def coarse(self, fine: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the place among `cells` of each of these places among `fine`."""
        return fine

    @cached_property
    def sample(self) -> Sample:
        """What a result says about the rows: here how many have the less frequent outcome, as equal ones."""
        others, events = _rows_of_outcomes(self.cells)
        rarer = min(others, events)
        return Sample(rarer, ROWS, events <= others, rare(rarer))

    def variance(self, influence: Influence) -> Variance:
        """Return the variance of a sum of influences: for independent rows the sum of squares."""
        square = influence.square if influence.steadied is None else influence.steadied
        return Variance(square if influence.n is None else unbiased(square, influence.n))

    def trials(self, n: float, variance: Variance, level: float, *, varied: bool) -> float:
        """Return the number of independent rows in which a share of n rows with this variance would be as uncertain.

        ``varied`` says that not all rows are alike.
        """
        del variance, level, varied
        return n

    @property
    def units(self) -> float:
        """The effective number of what is independent of each other: rows, or clusters."""
        return self.cells.effective_n

    def linear(self, slopes: Float64s, variances: Float64s) -> Variance:
        """Return the variance of sum f r, f slopes of the cells, of these sums over cells of w^2 r^2, maybe blended.

        For independent rows it is sum w^2 (f r - m)^2, m the mean of f r.
        """
        cells = self.cells
        blended, seen = (cells.spread(slopes, v) ** 2 for v in (variances, cells.squared_residuals))
        return Variance(centred_blend(self.units, seen, self.null_variance(slopes), blended))

    def null_variance(self, slopes: Float64s) -> float:
        """Return the variance of sum f r under calibration, f slopes of the cells: for independent rows sum f^2 V0."""
        return float(np.sum(slopes**2 * self.cells.null_variances))

    def common(self, places: Float64s) -> Sequence[Float64s]:
        """Return the signs at these scores of gaps that something moves together; none for independent rows."""
        del places
        return ()

    def units_near(self, transform: Transform) -> Float64s | float:
        """Return how many clusters are behind each place, (M,); infinite for independent rows."""
        del transform
        return math.inf

    def effects(self, transform: Transform, of_squares: Transform, units: Float64s | float) -> Float64s | float:
        """Return the design effect of the transformed sums of residuals at each place, (M,); 1 for independent rows.

        ``of_squares`` maps sums of r^2 to their variances for independent rows, ``units`` are the clusters behind each.
        """
        del transform, of_squares, units
        return 1.0


@dataclass(frozen=True, eq=False, kw_only=True)
class Clustered(SamplingDesign):
    """Evaluated rows in clusters: what inference needs of them.

    The sums of buckets are weighted, so N_h and N are weights. Q and V0 are in squared weight, as in
    `Cells`; whole weights repeat a row within its cluster. With other weights the rows of a cluster are taken to be
    correlated alike whatever they weigh, and ``unit`` turns weights into rows. That is derived and not simulated.
    """

    #: The coarse cells that hold rows, (K,): mean scores c, counts, S, Q = sum r^2 and V0 = sum p (1 - p), r = p - y.
    cells: CoarseSums
    #: n, y, gaps: (H, K): the weight, the outcomes and the sum of p - y of each bucket in each coarse cell.
    n: Float64s
    y: Float64s
    gaps: Float64s
    #: All sums of the buckets. ``held`` are those with rows, (H,).
    buckets: BucketSums
    held: NDArray[np.intp]

    @classmethod
    def of(cls, cells: Cells, buckets: BucketSums, held: NDArray[np.intp] | None = None) -> Clustered:
        """Return the sums of evaluated rows from their cells and from the buckets of the same rows.

        ``held`` are the buckets to keep, by default those with rows, in the order `by_content`.
        """
        if held is None:
            filled = np.flatnonzero(buckets.rows > 0)
            held = filled[by_content(np.moveaxis(buckets.cell_sums[filled], 2, 1))]
        if len(held) < 2:
            remedy = "pass rows of more clusters, because one cluster does not show how clusters vary"
            raise InputError("clusters", "at least 2 clusters", f"{len(held)}", remedy)
        places = coarse_places(cells, buckets)
        sums = buckets.cell_sums[held][:, np.unique(places)]
        n, y, gaps = np.ascontiguousarray(np.moveaxis(sums, 2, 0))
        return cls(cells=CoarseSums.pooled(cells, places), n=n, y=y, gaps=gaps, buckets=buckets, held=held)

    @property
    def fine(self) -> Cells:
        """The cells that were pooled."""
        return self.cells.fine

    @cached_property
    def weights(self) -> Float64s:
        """N_h, the weight of each bucket, (H,)."""
        return np.asarray(self.n.sum(axis=1))

    @property
    def total(self) -> float:
        """N, the weight of all rows."""
        return self.cells.total

    @cached_property
    def unit(self) -> float:
        """The mean weight of a unit of weight, (sum of squared weights) / N: 1 with whole weights."""
        return float(self.cells.square_weights.sum()) / self.total

    @cached_property
    def sizes(self) -> Float64s:
        """The rows of each bucket as equal ones, (H,): their sum is the effective sample size."""
        return self.weights / self.unit

    @property
    def effective_n(self) -> float:
        """The effective sample size of the rows as if they were independent; their number, with whole weights."""
        return self.cells.effective_n

    def scalar(self, name: str) -> Float64s:
        """Return a sum of each bucket over all its rows, (H,), by its name in `BucketSums.scalars`."""
        return self.buckets.scalar(name)[self.held]

    def row_square(self, slopes: Float64s, squares: Float64s | None = None) -> float:
        """Return sum w^2 (f r - m)^2 over rows, m the mean of f r, f a slope of each coarse cell.

        ``squares`` replaces Q, the sums of w^2 r^2.
        """
        squares = self.cells.squared_residuals if squares is None else squares
        mean = float(np.sum(slopes * self.cells.gap_sums)) / self.total
        return around_mean(
            float(np.sum(slopes**2 * squares)),
            mean,
            float(np.sum(slopes * self.cells.squared_gaps)),
            self.unit * self.total,
        )

    def sums_of(self, cells: Cells, values: Float64s) -> Float64s:
        """Return the sums over buckets, (H,), of what a unit of weight in each cell adds, (2, K).

        The cells are of the same rows. Within a coarse cell the rows of an outcome add the mean of its cells.
        """
        first = np.flatnonzero(np.diff(coarse_places(cells, self.buckets).astype(np.intp), prepend=-1))
        means = []
        for counts, each in zip(cells.masses, values, strict=True):
            sums, pooled = np.add.reduceat(counts * each, first), np.add.reduceat(counts, first)
            means.append(np.divide(sums, pooled, out=np.zeros(len(pooled)), where=pooled > 0))
        return (self.n - self.y) @ means[0] + self.y @ means[1]

    # ------------------------------------------------------------ as a SamplingDesign

    def coarse(self, fine: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the coarse cell of each of these cells."""
        return np.searchsorted(self.cells.first, fine, side="right") - 1

    @cached_property
    def sample(self) -> Sample:
        """The buckets that hold the outcome that fewer of them hold.

        This may be the outcome of more rows, if these are in few large clusters. The warning also says where one
        cluster holds more than a tenth of the rows.
        """
        outcomes = self.y.sum(axis=1)
        kinds = np.stack([self.weights - outcomes, outcomes])
        others, events = np.count_nonzero(kinds > _ROUNDING * self.weights, axis=1).tolist()
        rarer = min(others, events)
        flags = filter(None, (rare(rarer, unit=CLUSTERS), large(self.buckets.largest_share)))
        return Sample(rarer, CLUSTERS, events <= others, "; ".join(flags), BY_CLUSTER, details_of(self.buckets))

    def variance(self, influence: Influence) -> Variance:
        """Return the variance of the sums over buckets; steadied, that of independent rows times the design effect."""
        square = influence.square if influence.square > influence.rounding else 0.0
        sums = influence.by_bucket(self)
        by_bucket = variance_of(sums if influence.n is None else centred(sums, self.weights), square, self.sizes)
        if influence.steadied is None or influence.n is None:
            return by_bucket
        return Variance(unbiased(influence.steadied, influence.n) * by_bucket.deff, by_bucket.deff, by_bucket.df)

    def trials(self, n: float, variance: Variance, level: float, *, varied: bool) -> float:
        """Return n / deff (z / t)^2 (Korn and Graubard 1998), the design effect at least 0.01.

        Where all rows are alike it is the effective number of clusters.
        """
        if not varied:
            return self.units
        t = t_quantile(level, variance.df)
        return n / max(variance.deff, _LEAST_DEFF) * (normal_quantile(level) / t) ** 2

    @cached_property
    def units(self) -> float:
        """The effective number of clusters (Kish), N^2 / sum N_h^2."""
        return effective_n(float(self.weights.sum()), float(np.sum(self.weights**2)))

    def linear(self, slopes: Float64s, variances: Float64s) -> Variance:
        """Return the variance for independent rows times the design effect of the sums over buckets."""
        by_bucket = variance_of(centred(self.gaps @ slopes, self.weights), self.row_square(slopes), self.sizes)
        null = float(np.sum(slopes**2 * self.cells.null_variances))
        square = centred_blend(self.units, self.row_square(slopes), null, self.row_square(slopes, variances))
        return Variance(square * by_bucket.deff, by_bucket.deff, by_bucket.df)

    def null_variance(self, slopes: Float64s) -> float:
        """Return the variance for independent rows times the design effect under calibration."""
        variance, square = (
            float(np.sum(slopes**2 * x)) for x in (self.cells.null_variances, self.cells.squared_residuals)
        )
        return variance * null_effect(self.gaps @ slopes, square)

    def common(self, places: Float64s) -> Sequence[Float64s]:
        """Return the signs of gaps that clusters move alike, and of those that turn at the mean score."""
        return common_signs(places, float(self.cells.score_sums.sum()) / self.total)

    def units_near(self, transform: Transform) -> Float64s:
        """Return the effective number of clusters by their weights at each place."""
        near = np.maximum(transform(self.n), 0.0)
        squares = np.maximum(np.sum(near**2, axis=0), _SMALLEST**2)
        return np.asarray(np.maximum(near.sum(axis=0), _SMALLEST) ** 2 / squares)

    def effects(self, transform: Transform, of_squares: Transform, units: Float64s | float) -> Float64s:
        """Return the design effects that the buckets show, steadied by five clusters of that over all places."""
        buckets = len(self.sizes)
        by_bucket = np.sum(centred(transform(self.gaps), self.weights) ** 2, axis=0) * buckets / (buckets - 1)
        independent = np.maximum(of_squares(self.cells.squared_residuals), _TINY)
        overall = float(by_bucket.sum() / independent.sum())
        several = independent > _LITTLE * independent.max()
        shown = np.divide(by_bucket, independent, out=np.full_like(by_bucket, overall), where=several)
        return np.asarray((units * shown + PRIOR_ROWS * overall) / (units + PRIOR_ROWS))


def unbiased(square: float, n: float) -> float:
    """Return a sum of squares around a mean of n rows times n / (n - 1); infinite for one row, which tells nothing."""
    return square * n / (n - 1) if n > 1 else math.inf


def details_of(buckets: BucketSums) -> dict[str, Any]:
    """Return what a result says about its clusters: their number, and the largest one's share of the rows."""
    return {"clusters": buckets.number, "largest_cluster": buckets.largest_share}
