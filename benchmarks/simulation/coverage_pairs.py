"""Pairs of models on the same rows, for `coverage.py`: scores, the outcome rate, and the true differences.

An outcome happens with probability x, and both models report functions of x. So the true values are those of a
population of a million x, as exact as for the laws of one model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from coverage_laws import BINS, POINTS, laws, tilted
from numpy.typing import NDArray

import calibrant
from calibrant.measures import listed
from calibrant.results import Estimate

Float64s = NDArray[np.float64]

#: The measures that compare models; the first one decides.
COMPARED = listed.compared()
_COARSE = 20  # scores that a coarse model knows
_INSIDE = 1e-10  # x keeps this far from 0 and 1, so that no score of 1 stands for one just below, of infinite log loss


@dataclass(frozen=True)
class PairLaw:
    """A law of x and two models: what each makes of x, given with the place of x among all."""

    scores: str
    models: str
    quantile: Callable[[Float64s], Float64s]
    first: Callable[[Float64s], Float64s]
    second: Callable[[Float64s], Float64s]
    coarse: bool = False

    @property
    def name(self) -> str:
        return f"{self.scores}, {self.models}"

    @cached_property
    def means(self) -> Float64s:
        """The mean of x in each of twenty cells of equal mass."""
        return self.quantile((np.arange(POINTS) + 0.5) / POINTS).reshape(_COARSE, -1).mean(axis=1)

    def at(self, u: Float64s) -> tuple[Float64s, Float64s, Float64s]:
        """Return x and the scores of both models at these places."""
        x = self.quantile(u)
        seen = self.means[np.minimum((u * _COARSE).astype(int), _COARSE - 1)] if self.coarse else x
        return x, self.first(x), self.second(seen)

    @cached_property
    def truths(self) -> dict[str, float]:
        """The differences, first minus second."""
        x, *models = self.at((np.arange(POINTS) + 0.5) / POINTS)
        first, second = (_measures(p, x) for p in models)
        return {name: first[name] - second[name] for name in first}


def _measures(p: Float64s, x: Float64s) -> dict[str, float]:
    bins = np.clip(np.searchsorted(np.arange(1, BINS + 1) / BINS, p), 0, BINS - 1)
    counts, sums = np.bincount(bins, minlength=BINS), np.bincount(bins, p - x, BINS)
    filled = counts > 0
    return {
        "debiased_square": float(np.sum(sums[filled] ** 2 / counts[filled]) / len(p)),
        "ece": float(np.abs(sums).sum() / len(p)),
        "brier": float(np.mean((p - x) ** 2 + x * (1 - x))),
        "nll": float(-np.mean(x * np.log(p) + (1 - x) * np.log1p(-p))),
        "accuracy": float(np.where(p >= 0.5, x, 1 - x).mean()),
    }


def _inside(quantile: Callable[[Float64s], Float64s]) -> Callable[[Float64s], Float64s]:
    return lambda u: np.clip(quantile(u), _INSIDE, 1 - _INSIDE)


def _pairs() -> list[PairLaw]:
    by_name = {law.name: law.scores for law in laws()}
    kinds = (
        ("both calibrated, one coarse", 1.0, 1.0, True),
        ("nearly the same", 1.0, 1.05, False),
        ("one calibrated", 1.0, 1.4, False),
        ("wrong to opposite sides", 1.4, 1 / 1.4, False),
        ("equally wrong, one coarse", 1.4, 1.4, True),
    )
    return [
        PairLaw(scores, models, _inside(by_name[scores]), tilted(a), tilted(b), coarse)
        for scores in ("Uniform", "Beta(0.5, 0.5)", "Beta(8, 1)", "Beta(1, 20)")
        for models, a, b, coarse in kinds
    ]


PAIRS = _pairs()
KINDS = tuple(dict.fromkeys(pair.models for pair in PAIRS))


def compared(pair: PairLaw, n: int, level: float, rng: np.random.Generator) -> Iterator[tuple[str, Estimate, float]]:
    """Compare two models on n rows drawn: the name, estimate and true value of each difference."""
    x, first, second = pair.at(rng.random(n))
    outcomes = (rng.random(n) < x).astype(np.int64)
    differences: Any = calibrant.compare(first, second, outcomes, n_bins=BINS, level=level).pairs[0]
    for measure in COMPARED:
        yield measure.name, differences[measure.name], pair.truths[measure.name]
