"""Draws of the sums of outcomes in cells: binomial numbers, or numbers with the same mean and variance."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import cached_property
from calibrant.runtime.dataclass import dataclass

_MOST_LISTED: Final = 63  # trials: every number of outcomes 1 is listed with its probability


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Sums of the outcomes of K cells that happen with given rates, from the sums of w and of w^2.

    A sum has the mean W r and the variance r (1 - r) sum w^2, whatever the outcomes seen. With equal weights the law is
    exact: binomial. Otherwise n trials are drawn, n the whole part of W^2 / sum w^2, so that no sum leaves [0, W].
    """

    weights: Float64s
    squares: Float64s
    rates: Float64s

    def draw(self, rng: np.random.Generator, size: int) -> Float64s:
        """Return (size, K) sums."""
        drawn = np.empty((size, len(self.rates)))
        draws: tuple[Callable[..., NDArray[Any]], ...] = (self._draw_single, self._draw_listed, self._draw_many)
        for cells, draw in zip(self._kinds, draws, strict=True):
            if len(cells):
                every = len(cells) == len(self.rates)
                drawn[:, slice(None) if every else cells] = draw(cells, rng, size)
        if self._whole:
            return drawn
        unit = np.sqrt(self.squares / self._trials)
        return np.clip(self.weights * self.rates + unit * (drawn - self._trials * self.rates), 0.0, self.weights)

    @cached_property
    def _whole(self) -> bool:
        return np.array_equal(self.weights, self.squares)

    @cached_property
    def _trials(self) -> NDArray[np.int64]:
        if self._whole:
            return self.weights.astype(np.int64)
        return np.maximum(np.floor(self.weights**2 / self.squares * (1 + 1e-12)), 1).astype(np.int64)

    @cached_property
    def _kinds(self) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """The cells of one trial, of some, and of many."""
        many = self._trials > _MOST_LISTED
        single = self._trials == 1
        return np.flatnonzero(single), np.flatnonzero(~single & ~many), np.flatnonzero(many)

    def _draw_single(self, cells: NDArray[np.intp], rng: np.random.Generator, size: int) -> NDArray[np.bool_]:
        return np.asarray(rng.random((size, len(cells))) < self.rates[cells])

    def _draw_listed(self, cells: NDArray[np.intp], rng: np.random.Generator, size: int) -> NDArray[np.uint8]:
        del cells
        return self._listed.draw(rng, size)

    def _draw_many(self, cells: NDArray[np.intp], rng: np.random.Generator, size: int) -> NDArray[np.int64]:
        trials, rates = self._trials[cells, None], self.rates[cells, None]
        return np.asarray(rng.binomial(trials, rates, (len(cells), size)).T)

    @cached_property
    def _listed(self) -> Aliases:
        listed = self._kinds[1]
        return Aliases.of(binomial_laws(self._trials[listed], self.rates[listed]))


def binomial_laws(trials: NDArray[np.int64], rates: Float64s) -> Float64s:
    """Return the probability of each number of outcomes 1, (K, M), M one more than the most trials."""
    width = int(trials.max(initial=0)) + 1
    k = np.arange(width)
    missed = np.maximum(trials[:, None] - k, 0)
    laws = _ways()[trials, :width] * rates[:, None] ** k * (1 - rates[:, None]) ** missed
    return np.asarray(laws / laws.sum(axis=1, keepdims=True))


@cache
def _ways() -> Float64s:
    """Return the binomial coefficients of all listed numbers of trials."""
    every = range(_MOST_LISTED + 1)
    return np.array([[math.comb(n, k) for k in every] for n in every], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Aliases:
    """Numbers 0..M - 1, M <= 256, with given laws, drawn in constant time (Walker 1974, doi 10.1049/el:19740097).

    Each of M equally likely columns holds its own number with some probability, and otherwise one other, its alias.
    """

    own: Float64s
    others: NDArray[np.uint8]

    @classmethod
    def of(cls, laws: Float64s) -> Aliases:
        """Fill the columns of (K, M) laws, all K at once: what a low column lacks comes from a high one."""
        n_laws, width = laws.shape
        starts = width * np.arange(n_laws)  # of each law among all columns
        own, others = (laws * width).ravel(), np.tile(np.arange(width, dtype=np.uint8), n_laws)
        order = (np.argsort(own.reshape(laws.shape), axis=1) + starts[:, None]).ravel()
        lowest, highest = starts.copy(), starts + width - 1
        low, high = order[lowest], order[highest]
        for _ in range(width - 1):
            others[low] = high - starts
            left = own[high] - (1 - own[low])
            own[high] = left
            used = left < 1  # the high column has become a low one
            highest, lowest = highest - used, lowest + ~used
            low = np.where(used, high, order[np.minimum(lowest, starts + width - 1)])
            high = order[np.maximum(highest, starts)]
        return cls(own.reshape(laws.shape), others.reshape(laws.shape))

    @cached_property
    def _both(self) -> Float64s:
        """The probabilities with the aliases as their last bytes, which moves them by less than 1e-13: one look-up."""
        return ((self.own.view(np.uint64) & ~np.uint64(255)) | self.others).view(np.float64)

    def draw(self, rng: np.random.Generator, size: int) -> NDArray[np.uint8]:
        """Return (size, K) numbers, as bytes: tables and numbers then stay in the cache."""
        n_laws, width = self.own.shape
        share = rng.random((size, n_laws))
        share *= width
        column = share.astype(np.uint8)
        share -= column
        both = self._both.take(column + width * np.arange(n_laws))
        return np.where(share < both, column, both.view(np.uint64).astype(np.uint8))
