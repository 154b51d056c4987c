"""The shares of known distributions in a mixture, by maximum likelihood: estimates, intervals, influences.

Row i has the densities r_ik of K distributions, each up to a factor of the row. The log-likelihood of shares q is
sum_i w_i log(sum_k q_k r_ik), which is concave. At its maximum under q >= 0 and sum q = 1, the mean of r_ik / r_i(q) is
1 for every share above 0 and at most 1 for the others, so that the shares also maximise mean log r_i(q) - sum q under
q >= 0 alone. Newton's method with bounds finds them. The expectation-maximisation of Saerens, Latinne and Decaestecker
(2002), q_k <- q_k mean(r_ik / r_i(q)), has the same limit, and takes thousands of steps where classes overlap.

Sums over rows are in the order of the rows, and do not use a library of linear algebra.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import cached_property
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.folds import DealtRows
from calibrant.statistics.intervals import root
from calibrant.statistics.resampling import t_quantile

_CLOSE: Final = 1e-11  # of the conditions of a maximum
_STEPS: Final = 200
_HALVINGS: Final = 60
_FLAT: Final = 1e-13  # of a mean log-likelihood: one more step then reaches the maximum to rounding
_ASCENT: Final = 1e-4  # share of the rise that the slope promises
_DETERMINED: Final = 1e-12  # curvature of a direction, relative to the largest
_END: Final = 1e-9  # of the ends of intervals
_MOST: Final = 1e300  # of a likelihood that falls to 0


@dataclass(frozen=True, eq=False)
class ClassMixture:
    """The densities of N rows by K distributions, (N, K), and the weights and the clusters of the rows."""

    densities: Float64s
    rows: DealtRows

    @cached_property
    def masses(self) -> Float64s:
        """The share of each row in the weight of all rows, (N,)."""
        return self.rows.weights / self.rows.total

    @cached_property
    def shares(self) -> Float64s:
        """The most likely shares, (K,)."""
        at = np.full(self.densities.shape[1], 1 / self.densities.shape[1])
        value = self.mean_log(at) - float(at.sum())
        for _ in range(_STEPS):
            ratios = self._ratios(at)
            gradient = means(ratios, self.masses)
            rest = gradient - 1
            if rest.max() <= _CLOSE and np.abs(at * rest).max() <= _CLOSE:
                break
            step = _bounded(products(ratios, self.masses), 2 * gradient - 1) - at
            rise, part = float(np.sum(rest * step)), 1.0
            if rise <= _FLAT:  # the likelihood no longer tells which point is higher, but the step still does
                at = at + step
                break
            for _ in range(_HALVINGS):
                moved = at + part * step
                reached = self.mean_log(moved) - float(moved.sum())
                if reached >= value + _ASCENT * part * rise:
                    break
                part /= 2
            if not reached > value:
                break  # to rounding
            at, value = moved, reached
        return np.asarray(at / at.sum())

    @cached_property
    def ratios(self) -> Float64s:
        """The densities over those of the mixture with the most likely shares, (N, K)."""
        return self._ratios(self.shares)

    def interval(self, k: int, level: float) -> tuple[float, float]:
        """Return the ends of a share, by the likelihood ratio.

        The other shares follow along the least favourable line, in the direction of their covariances with this share.
        For two distributions this is the profile likelihood, and for more it differs by terms of higher order. With
        sampling weights and clusters, the ratio is divided by the design effect of the estimate, and the quantile is
        that of Student's law (Rao and Scott 1984). Its degrees of freedom allow for few clusters with most events.
        """
        held = self.shares > 0
        held[k] = True
        held |= held.sum() == 1  # a share of 1 leaves the others no direction
        line = np.zeros(len(self.shares))
        line[held] = self._inverse(held)[int(held[:k].sum())]
        influence = np.einsum("ik,k->i", self.ratios - 1, line)
        variance = self.rows.variance(influence, heavy=True)
        unit = float(np.sum(self.masses * self.rows.units * influence**2) / np.sum(self.masses * influence**2))
        drop = t_quantile(level, variance.df) ** 2 / 2 * unit * variance.deff / self.rows.total
        top, estimate = self.mean_log(self.shares), float(self.shares[k])

        def fall(share: float) -> float:
            moved = np.maximum(self.shares + (share - estimate) / line[k] * line, 0.0)
            moved[k] = 0.0
            moved *= (1 - share) / (moved.sum() or 1.0)
            moved[k] = share
            return min(top - self.mean_log(moved) - drop, _MOST)

        low = 0.0 if estimate == 0 or fall(0.0) <= 0 else root(fall, 0.0, estimate, xtol=_END)
        high = 1.0 if estimate == 1 or fall(1.0) <= 0 else root(fall, estimate, 1.0, xtol=_END)
        return float(low), float(high)

    @cached_property
    def influences(self) -> Float64s:
        """How each row moves the estimated shares, times the weight of all rows, (N, K); 0 for shares of 0."""
        held = self.shares > 0
        inverse = np.zeros(held.shape * 2)
        inverse[np.ix_(held, held)] = self._inverse(held)
        return np.asarray(np.einsum("ik,kl->il", self.ratios - 1, inverse))

    def mean_log(self, shares: Float64s) -> float:
        """Return the mean log-likelihood, which is minus infinity if a row has the density 0."""
        with np.errstate(divide="ignore"):
            return float(np.sum(self.masses * np.log(self._of_rows(shares))))

    @property
    def is_determined(self) -> bool:
        """Whether no share can change in place of others without an effect on the likelihood."""
        return len(eliminated(self._information, _DETERMINED)[0]) == len(self.shares)

    def _inverse(self, held: NDArray[np.bool_]) -> Float64s:
        """Return the inverse information of a row about these shares: the covariance of estimates times the rows."""
        _, halves = eliminated(self._information[np.ix_(held, held)], _DETERMINED)
        return np.asarray(np.einsum("rk,rl->kl", halves, halves))

    @cached_property
    def _information(self) -> Float64s:
        return products(self.ratios, self.masses)

    def _ratios(self, shares: Float64s) -> Float64s:
        return np.asarray(self.densities / self._of_rows(shares)[:, np.newaxis])

    def _of_rows(self, shares: Float64s) -> Float64s:
        """Return the density of each row in the mixture."""
        return np.asarray(np.einsum("ik,k->i", self.densities, shares))


def means(columns: Float64s, masses: Float64s) -> Float64s:
    """Return the weighted mean of each column, (K,)."""
    return np.asarray(np.einsum("i,ik->k", masses, columns))


def products(columns: Float64s, masses: Float64s) -> Float64s:
    """Return the weighted sums of products of columns, (K, K)."""
    return np.asarray(np.einsum("ik,il->kl", columns * masses[:, np.newaxis], columns))


def eliminated(symmetric: Float64s, least: float, right: Float64s | None = None) -> tuple[Float64s, Float64s]:
    """Return the rows U, (R, K), with U'U = A for a symmetric matrix A, (K, K), and U'^-1 B for B, (K, M).

    This is Cholesky's decomposition, without pivots below ``least`` times the largest entry of the diagonal. B is by
    default the identity. The order of the operations does not depend on threads.
    """
    size = len(symmetric)
    rest = np.column_stack([symmetric, np.eye(size) if right is None else right])
    limit, rows = least * float(np.diagonal(symmetric).max()), []
    for pivot in range(size):
        if rest[pivot, pivot] > limit:
            rows.append(rest[pivot] / np.sqrt(rest[pivot, pivot]))
            rest -= np.multiply.outer(rows[-1][:size], rows[-1])
    found = np.array(rows)
    return found[:, :size], found[:, size:]


def _bounded(curvature: Float64s, linear: Float64s) -> Float64s:
    """Return the maximum of linear x - x curvature x / 2 under x >= 0.

    A library finds which entries are above 0. Their values follow from ordered sums, with the same bits everywhere.
    """
    from scipy.optimize import nnls

    rows, values = eliminated(curvature, _DETERMINED, linear)
    found = np.asarray(nnls(rows, values[:, 0])[0])
    free = found > 0
    number = int(free.sum())
    right = np.column_stack([np.eye(number), linear[free]])
    _, halves = eliminated(curvature[np.ix_(free, free)], _DETERMINED, right)
    solved = np.einsum("rk,r->k", halves[:, :number], halves[:, number])
    if len(halves) == number and np.all(solved > 0):
        found[free] = solved
    return found
