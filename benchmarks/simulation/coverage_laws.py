"""Laws of scores whose calibration is known, for `coverage.py`: draws, and the true value of every measure.

A law is a population of a million points (score, probability of the outcome) of equal mass; for continuous scores, the
midpoints of a million equal shares. The true values are those of the population. They are exact if data sets are drawn
from its points (softmax, tied scores), otherwise a midpoint rule of a million points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from scipy.special import expit, log_softmax
from scipy.stats import beta

Float64s = NDArray[np.float64]

POINTS = 1_000_000
BINS = 15
SIZES = (200, 2_000, 20_000, 200_000)
CLASSES = 10


@dataclass(frozen=True)
class Law:
    """Scores and the outcome rate at each: by name, how far from calibration, a quantile function and a rate."""

    name: str
    tilt: float
    scores: Callable[[Float64s], Float64s]
    rate: Callable[[Float64s], Float64s]

    @property
    def calibrated(self) -> bool:
        return self.tilt in (0.0, 1.0)

    @cached_property
    def population(self) -> tuple[Float64s, Float64s]:
        """Scores in increasing order and their outcome rates."""
        p = np.sort(self.scores((np.arange(POINTS) + 0.5) / POINTS))
        return p, self.rate(p)

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Float64s, NDArray[np.int64]]:
        p = self.scores(rng.random(n))
        return p, (rng.random(n) < self.rate(p)).astype(np.int64)


def tilted(a: float) -> Callable[[Float64s], Float64s]:
    """Return q(p) = p^a / (p^a + (1 - p)^a)."""

    def rate(p: Float64s) -> Float64s:
        with np.errstate(divide="ignore"):
            return np.asarray(expit(a * (np.log(p) - np.log1p(-p))))

    return rate


def alternating(size: float) -> Callable[[Float64s], Float64s]:
    """Return p plus and minus a gap, alternating over the bins."""

    def rate(p: Float64s) -> Float64s:
        signs = np.where(np.ceil(p * BINS) % 2 == 0, 1.0, -1.0)
        return np.clip(p + size * signs, 0.0, 1.0)

    return rate


def tied(u: Float64s) -> Float64s:
    """Return one of ten scores."""
    return (np.floor(u * 10) + 0.5) / 10


@dataclass(frozen=True)
class SoftmaxLaw(Law):
    """The top label of a softmax over normal logits, multiplied by ``tilt`` where they are reported."""

    @cached_property
    def population(self) -> tuple[Float64s, Float64s]:
        top, right = softmax_top(self.tilt)
        order = np.argsort(top, kind="stable")
        return top[order], right[order]

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Float64s, NDArray[np.int64]]:
        p, rate = self.population
        rows = rng.integers(POINTS, size=n)
        return p[rows], (rng.random(n) < rate[rows]).astype(np.int64)


def softmax_logits(rng: np.random.Generator, n: int) -> NDArray[np.float32]:
    return (2 * rng.standard_normal((n, CLASSES))).astype(np.float32)


@cache
def softmax_top(tilt: float) -> tuple[Float64s, Float64s]:
    rng = np.random.default_rng(2026)
    tops, rates = [], []
    for _ in range(10):
        logits = softmax_logits(rng, POINTS // 10).astype(np.float64)
        predicted = np.argmax(logits, axis=1)[:, None]
        tops.append(np.exp(np.take_along_axis(log_softmax(tilt * logits, axis=1), predicted, axis=1))[:, 0])
        rates.append(np.exp(np.take_along_axis(log_softmax(logits, axis=1), predicted, axis=1))[:, 0])
    return np.concatenate(tops), np.concatenate(rates)


def _beta(a: float, b: float) -> Callable[[Float64s], Float64s]:
    return lambda u: np.clip(beta.ppf(u, a, b), 1e-12, 1 - 1e-12)


def laws() -> list[Law]:
    """Return every law, at calibration and away from it."""
    all_laws: list[Law] = []
    for name, scores in (
        ("Beta(.5, .5)", _beta(0.5, 0.5)),
        ("Uniform", lambda u: u),
        ("Beta(1, 20)", _beta(1, 20)),
        ("Beta(8, 1)", _beta(8, 1)),
        ("ten tied values", tied),
    ):
        all_laws += [Law(name, a, scores, tilted(a)) for a in (1.0, 1.1, 1.4, 2.0)]
    all_laws += [Law("alternating gaps", size, lambda u: u, alternating(size)) for size in (0.02, 0.05, 0.1)]
    all_laws += [SoftmaxLaw("softmax top label", t, tied, tied) for t in (1.0, 1.1, 1.4, 2.0)]
    return all_laws


def truths(law: Law) -> dict[str, Any]:
    """Return the population's value of every measure; ``gaps`` are those of the uniform bins."""
    from calibrant.estimators.smooth import smooth_error

    p, q = law.population
    bins = np.clip(np.searchsorted(np.arange(1, BINS + 1) / BINS, p), 0, BINS - 1)
    masses = _quantile_bins(p)
    rate = float(q.mean())
    fit = isotonic_regression(q).x
    sums, counts = np.bincount(bins, p - q, BINS), np.bincount(bins, minlength=BINS)
    gaps = np.divide(sums, counts, out=np.zeros(BINS), where=counts > 0)
    square = float(np.sum(counts * gaps**2) / POINTS)
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = -(np.where(q > 0, q * np.log(p), 0.0) + np.where(q < 1, (1 - q) * np.log1p(-p), 0.0))
    return {
        "gaps": gaps,
        "ece": float(np.abs(sums).sum() / POINTS),
        "ace": float(np.abs(np.bincount(masses, p - q)).sum() / POINTS),
        "rmsce": square**0.5,
        "rmsce of equal mass": _root_square(masses, p - q),
        "debiased_square": square,
        "smece": smooth_error(p, q - p, float(POINTS)).value,
        "ks": float(np.abs(np.cumsum(p - q)).max() / POINTS),
        "miscalibration": max(float(np.mean((p - q) ** 2 - (fit - q) ** 2)), 0.0),
        "discrimination": float(np.mean((rate - q) ** 2 - (fit - q) ** 2)),
        "uncertainty": rate * (1 - rate),
        "mean_confidence": float(p.mean()),
        "mean_gap": float(p.mean()) - rate,
        "accuracy": float(np.where(p >= 0.5, q, 1 - q).mean()),
        "brier": float(np.mean(p**2 - 2 * p * q + q)),
        "nll": float(loss.mean()),
    }


def _root_square(bins: NDArray[np.int64], gaps: Float64s) -> float:
    counts, sums = np.bincount(bins), np.bincount(bins, gaps)
    filled = counts > 0
    return float(np.sqrt(np.sum(sums[filled] ** 2 / counts[filled]) / len(gaps)))


def _quantile_bins(p: Float64s) -> NDArray[np.int64]:
    """Return equal-mass bins that never split a tie."""
    _, first, counts = np.unique(p, return_index=True, return_counts=True)
    middle = first + counts / 2
    return np.repeat(np.minimum((middle * BINS / len(p)).astype(np.int64), BINS - 1), counts)
