"""The shares of known distributions in a mixture, by maximum likelihood: estimates, intervals, influences.

Row i has the densities r_ik of K distributions, each up to a factor of the row. The log-likelihood of shares q is
sum_i w_i log(sum_k q_k r_ik), which is concave. At its maximum under q >= 0 and sum q = 1, the mean of r_ik / r_i(q) is
1 for every share above 0 and at most 1 for the others, so that the shares also maximise mean log r_i(q) - sum q under
q >= 0 alone. Newton's method with bounds finds them. The expectation-maximisation of Saerens, Latinne and Decaestecker
(2002), q_k <- q_k mean(r_ik / r_i(q)), has the same limit, and takes thousands of steps where classes overlap.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from calibrant.runtime.arrays import Float64s
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.intervals import root

_CLOSE: Final = 1e-11  # of the conditions of a maximum
_STEPS: Final = 200
_HALVINGS: Final = 60
_ASCENT: Final = 1e-4  # share of the rise that the slope promises
_DETERMINED: Final = 1e-12  # curvature of a direction, relative to the largest
_END: Final = 1e-9  # of the ends of intervals
_MOST: Final = 1e300  # of a likelihood that falls to 0


@dataclass(frozen=True, eq=False)
class Mixture:
    """The densities of N rows by K distributions, (N, K), and the weight of each row, (N,)."""

    densities: Float64s
    weights: Float64s

    @property
    def n(self) -> float:
        """The weight of all rows."""
        return float(self.weights.sum())

    def shares(self) -> Float64s:
        """Return the most likely shares, (K,)."""
        masses, (_, k) = self.weights / self.n, self.densities.shape
        at = np.full(k, 1 / k)
        value = self._value(at, masses)
        for _ in range(_STEPS):
            ratios = self.ratios(at)
            gradient = np.einsum("i,ik->k", masses, ratios)
            rest = gradient - 1
            if rest.max() <= _CLOSE and np.abs(at * rest).max() <= _CLOSE:
                break
            step = _bounded(_products(ratios, masses), 2 * gradient - 1) - at
            rise, part = float(np.sum(rest * step)), 1.0
            for _ in range(_HALVINGS):
                moved = at + part * step
                reached = self._value(moved, masses)
                if reached >= value + _ASCENT * part * rise:
                    break
                part /= 2
            if not reached > value:
                break  # to rounding
            at, value = moved, reached
        return np.asarray(at / at.sum())

    def interval(self, k: int, shares: Float64s, drop: float) -> tuple[float, float]:
        """Return the ends of a share, between which the log-likelihood falls by less than ``drop``.

        The other shares follow along the least favourable line, in the direction of their covariances with this share.
        For two distributions this is the profile likelihood, and for more it differs by terms of higher order.
        """
        held = shares > 0
        held[k] = True
        covariances = np.zeros(len(shares))
        covariances[held] = _inverse(self.ratios(shares)[:, held], self.weights / self.n)[int(held[:k].sum())]
        top, estimate = self.log_likelihood(shares), float(shares[k])

        def fall(share: float) -> float:
            moved = np.maximum(shares + (share - estimate) / covariances[k] * covariances, 0.0)
            moved[k] = 0.0
            moved *= (1 - share) / (moved.sum() or 1.0)
            moved[k] = share
            return min(top - self.log_likelihood(moved) - drop, _MOST)

        low = 0.0 if estimate == 0 or fall(0.0) <= 0 else root(fall, 0.0, estimate, xtol=_END)
        high = 1.0 if estimate == 1 or fall(1.0) <= 0 else root(fall, estimate, 1.0, xtol=_END)
        return float(low), float(high)

    def ratios(self, shares: Float64s) -> Float64s:
        """Return the densities over those of the mixture, (N, K)."""
        return np.asarray(self.densities / self._of_rows(shares)[:, np.newaxis])

    def influences(self, shares: Float64s) -> Float64s:
        """Return how each row moves the estimated shares, times the weight of all rows, (N, K); 0 for shares of 0."""
        held = shares > 0
        ratios = self.ratios(shares)[:, held]
        moved = np.zeros(self.densities.shape)
        moved[:, held] = np.einsum("ik,kl->il", ratios - 1, _inverse(ratios, self.weights / self.n))
        return moved

    def log_likelihood(self, shares: Float64s) -> float:
        """Return the log-likelihood, which is minus infinity if a row has the density 0."""
        with np.errstate(divide="ignore"):
            return float(np.sum(self.weights * np.log(self._of_rows(shares))))

    def _value(self, at: Float64s, masses: Float64s) -> float:
        with np.errstate(divide="ignore"):
            return float(np.sum(masses * np.log(self._of_rows(at)))) - float(at.sum())

    def _of_rows(self, shares: Float64s) -> Float64s:
        """Return the density of each row in the mixture; sums are in order, and not those of linear algebra."""
        return np.asarray(np.einsum("ik,k->i", self.densities, shares))


def _products(ratios: Float64s, masses: Float64s) -> Float64s:
    """Return the weighted sums of products; of two distributions in order, so that threads do not change the bits."""
    weighted = ratios * masses[:, np.newaxis]
    return np.asarray(np.einsum("ik,il->kl", weighted, ratios) if ratios.shape[1] <= 2 else weighted.T @ ratios)


def _inverse(ratios: Float64s, masses: Float64s) -> Float64s:
    """Return the inverse information of a row, which is the covariance of estimated shares times the rows."""
    return np.asarray(np.linalg.pinv(_products(ratios, masses), _DETERMINED, hermitian=True))


def _bounded(curvature: Float64s, linear: Float64s) -> Float64s:
    """Return the maximum of linear x - x curvature x / 2 under x >= 0."""
    from scipy.optimize import nnls

    values, vectors = np.linalg.eigh(curvature)
    kept = values > _DETERMINED * values[-1]
    roots, vectors = np.sqrt(values[kept]), vectors[:, kept]
    return np.asarray(nnls(roots[:, np.newaxis] * vectors.T, (vectors.T @ linear) / roots)[0])
