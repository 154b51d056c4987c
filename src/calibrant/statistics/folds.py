"""Rows dealt into folds: independent rows one by one, rows in clusters by whole buckets of clusters.

The counts of each cell and outcome are dealt, which is the same as dealing rows. So nothing here needs the rows.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.runtime.arrays import Float64s
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.buckets import centred, heavy_tailed, variance_of
from calibrant.statistics.design import Clustered, SamplingDesign
from calibrant.statistics.intervals import Variance

FOLDS: Final = 5

_ONE_BY_ONE: Final = 1 << 24  # rows


def deal_rows(number: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return how many of these rows without and with the event, (2, K), fall into each fold, (2, F, K)."""
    shares = np.full(FOLDS, 1 / FOLDS)
    positives = rng.multinomial(number[1], shares).T
    return np.stack([rng.multinomial(number[0], shares).T, positives])


def deal_buckets(sizes: Float64s, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return the fold of each bucket, (H,): sorted by size, buckets are dealt in fives at random."""
    order = rng.permutation(len(sizes))
    order = order[np.argsort(-sizes[order], kind="stable")]
    folds = np.empty(len(sizes), np.intp)
    for start in range(0, len(sizes), FOLDS):
        dealt = order[start : start + FOLDS]
        folds[dealt] = rng.permutation(FOLDS)[: len(dealt)]
    return folds


@dataclass(frozen=True, eq=False, kw_only=True)
class Dealt(ABC):
    """Rows that are dealt into folds: the cells of one event, `Parts`, or rows one by one, `DealtRows`."""

    masses: Float64s  # (..., F, K): the weight of the rows of each part at each place
    folds: NDArray[np.intp]  # (F,): the fold of each part
    units: Float64s  # (..., K): the weight of a row at each place

    @property
    def total(self) -> float:
        """The weight of all rows."""
        return float(self.masses.sum())

    def without(self, fold: int) -> Self:
        """Return the rows of the other folds; all of them, if they have no rows."""
        others = self.folds != fold
        if not self.masses[..., others, :].any():
            return self
        return replace(self, masses=self.masses[..., others, :], folds=self.folds[others])

    @abstractmethod
    def dealt(self, rng: np.random.Generator) -> Self:
        """Return the same rows, dealt into folds anew; clusters remain whole."""

    def mean(self, values: Float64s) -> float:
        """Return the mean over rows of values (..., F, K)."""
        return float(np.sum(self._weighted(values))) / self.total

    def variance(self, values: Float64s, *, heavy: bool = False) -> Variance:
        """Return the variance of that mean; for one cluster it is infinite.

        If ``heavy``, the degrees of freedom allow for the kurtosis of the sums over clusters.
        """
        around = values - self.mean(values)
        square = float(np.sum(self._weighted(around**2) * self._unit))
        clusters = self._by_cluster(self._weighted(around))
        if clusters is None:
            return Variance(square / self.total**2)
        sums, weights, sizes = clusters
        if len(sizes) < 2:
            return Variance(math.inf, df=1.0)
        sums = centred(sums, weights)
        variance = variance_of(sums, square, sizes)
        if heavy:
            variance = heavy_tailed(variance, sums)
        return variance._replace(value=variance.value / self.total**2)

    def moment(self, moments: Float64s, order: int) -> float:
        """Return the central moment of that mean if rows are independent, from those of each row, (F, K).

        It is sum w^k m / N^k over rows of weight w, from moments m of the order k.
        """
        weights, moments = np.broadcast_arrays(self.masses * self._unit ** (order - 1), moments)
        terms = np.multiply(weights, moments, where=weights > 0, out=np.zeros(weights.shape))  # not 0 times infinity
        return float(np.sum(terms)) / self.total**order

    @abstractmethod
    def _by_cluster(self, sums: Float64s) -> tuple[Float64s, Float64s, Float64s] | None:
        """Return sums (..., F, K), the weight and the number of rows of each cluster; None for independent rows."""

    @property
    def _unit(self) -> Float64s:
        return self.units[..., np.newaxis, :]

    def _weighted(self, values: Float64s) -> Float64s:
        """Return masses times values; values without mass, which may be infinite, add 0."""
        return np.multiply(self.masses, values, out=np.zeros_like(self.masses), where=self.masses > 0)


@dataclass(frozen=True, eq=False, kw_only=True)
class Parts(Dealt):
    """Rows in parts, which are dealt into folds.

    ``masses`` are (2, F, K), of the rows without and with the event of each part at each cell, ``units`` (2, K).
    ``sizes`` are the rows of each part, (F,), if the parts are buckets of clusters and remain whole; None if rows are
    independent.
    """

    sizes: Float64s | None = None

    @classmethod
    def of(cls, design: SamplingDesign) -> Parts:
        """Return all rows of a design: one part of independent rows, or its buckets."""
        cells = design.cells
        if isinstance(design, Clustered):
            masses = np.stack([design.n - design.y, design.y])
            return cls(
                masses=masses,
                folds=np.zeros(len(design.sizes), np.intp),
                units=cells.squares_per_weight,
                sizes=design.sizes,
            )
        return cls(masses=cells.masses[:, np.newaxis], folds=np.zeros(1, np.intp), units=cells.kinds[1])

    def without(self, fold: int) -> Self:
        """Return the parts of the other folds; all of them, if they have no rows."""
        rest = super().without(fold)
        return rest if rest is self or self.sizes is None else replace(rest, sizes=self.sizes[self.folds != fold])

    def dealt(self, rng: np.random.Generator) -> Self:
        """Return the same rows, dealt into folds anew."""
        if self.sizes is not None:
            return replace(self, folds=deal_buckets(self.sizes, rng))
        dealt = deal_rows(self._number.astype(np.int64), rng)
        return replace(self, masses=dealt * self._unit, folds=np.arange(FOLDS))

    def resampled(self, rng: np.random.Generator) -> Parts:
        """Return as many rows, or buckets, drawn with replacement."""
        if self.sizes is not None:
            times = rng.multinomial(len(self.sizes), np.full(len(self.sizes), 1 / len(self.sizes)))
            return replace(self, masses=self.masses * times[:, np.newaxis])
        number = self._number
        drawn = rng.multinomial(int(number.sum()), (number / number.sum()).ravel()).reshape(number.shape)
        return replace(self, masses=(drawn * self.units)[:, np.newaxis])

    @property
    def _number(self) -> Float64s:
        """The number of rows without and with the event at each cell, (2, K)."""
        masses = self.masses.sum(axis=1)
        return np.asarray(np.rint(np.divide(masses, self.units, out=np.zeros_like(masses), where=self.units > 0)))

    def _by_cluster(self, sums: Float64s) -> tuple[Float64s, Float64s, Float64s] | None:
        return None if self.sizes is None else (sums.sum(axis=(0, 2)), self.masses.sum(axis=(0, 2)), self.sizes)


@dataclass(frozen=True, eq=False, kw_only=True)
class DealtRows(Dealt):
    """Rows one by one, which are dealt into folds; values of rows are (F, N), or (N,) if they are those of each fold.

    ``masses`` are (F, N): whole weights are divided among folds, as that many rows would be. ``units`` are the weights
    of the rows, (N,), and ``clusters`` the numbers of their clusters, (N,); None if rows are independent.
    """

    clusters: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, weights: Float64s, units: Float64s, clusters: NDArray[np.int64] | None) -> DealtRows:
        """Return all rows as one fold."""
        return cls(masses=weights[np.newaxis], folds=np.zeros(1, np.intp), units=units, clusters=clusters)

    @property
    def weights(self) -> Float64s:
        """The weight of each row, (N,)."""
        return np.asarray(self.masses.sum(axis=0))

    def dealt(self, rng: np.random.Generator) -> Self:
        """Return the same rows, dealt into folds anew; clusters remain whole."""
        weights, folds = self.weights, np.arange(FOLDS)
        if self.clusters is not None:
            of_row = deal_buckets(self._sizes(self.clusters), rng)[self.clusters]
            return replace(self, masses=np.where(of_row == folds[:, np.newaxis], weights, 0.0), folds=folds)
        number = np.rint(weights / self.units).astype(np.int64)
        if int(number.sum()) > _ONE_BY_ONE:
            dealt = rng.multinomial(number, np.full(FOLDS, 1 / FOLDS))
        else:  # a row of weight 2 has the folds of two rows, so that rounding of equal rows plays no part
            places = np.repeat(np.arange(len(number)), number) * FOLDS + rng.integers(0, FOLDS, int(number.sum()))
            dealt = np.bincount(places, minlength=len(number) * FOLDS).reshape(len(number), FOLDS)
        return replace(self, masses=dealt.T * self.units, folds=folds)

    def _by_cluster(self, sums: Float64s) -> tuple[Float64s, Float64s, Float64s] | None:
        if self.clusters is None:
            return None
        sizes = self._sizes(self.clusters)
        held = sizes > 0
        of_sums, weights = (
            np.bincount(self.clusters, column.sum(axis=0), len(sizes)).astype(np.float64)[held]
            for column in (sums, self.masses)
        )
        return of_sums, weights, sizes[held]

    def _sizes(self, clusters: NDArray[np.int64]) -> Float64s:
        """Return the rows of each cluster."""
        return np.bincount(clusters, self.weights / self.units).astype(np.float64)
