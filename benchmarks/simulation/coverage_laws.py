"""Laws of scores whose calibration is known, for `coverage.py`: draws, and the true value of every measure.

A law is a population of a million points (score, probability of the outcome) of equal mass; for continuous scores, the
midpoints of a million equal shares. The true values are those of the population. They are exact if data sets are drawn
from its points (softmax, tied scores), otherwise a midpoint rule of a million points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

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
MANY_CLASSES = 50
FEW_SIZES = SIZES[:3]
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@dataclass(frozen=True)
class Weights:
    """Weights of rows: drawn from the scores, and their mean at each score."""

    draw: Callable[[Float64s, np.random.Generator], Float64s]
    mean: Callable[[Float64s], Float64s]


class Rows(NamedTuple):
    """Drawn rows: scores, outcomes, and what weighs or joins them."""

    p: Float64s
    y: NDArray[np.int64]
    weights: Float64s | None = None
    clusters: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Law:
    """Scores and the outcome rate at each: by name, how far from calibration, a quantile function and a rate."""

    name: str
    tilt: float
    scores: Callable[[Float64s], Float64s]
    rate: Callable[[Float64s], Float64s]
    bins: int = BINS
    sizes: tuple[int, ...] = SIZES
    weights: Weights | None = None

    @property
    def calibrated(self) -> bool:
        return self.tilt in (0.0, 1.0)

    @cached_property
    def population(self) -> tuple[Float64s, Float64s]:
        """Scores in increasing order and their outcome rates; with weights, scores by their share of the weight."""
        p = np.sort(self.scores((np.arange(POINTS) + 0.5) / POINTS))
        if self.weights is not None:
            upto = np.cumsum(self.weights.mean(p))
            p = p[np.searchsorted(upto / upto[-1], (np.arange(POINTS) + 0.5) / POINTS)]
        return p, self.rate(p)

    @cached_property
    def gap_sums(self) -> Float64s:
        """The sums of score - rate over the first 0, 1, 2, ... points of the population."""
        p, q = self.population
        return np.concatenate([[0.0], np.cumsum(p - q)])

    def draw(self, n: int, rng: np.random.Generator) -> Rows:
        p = self.scores(rng.random(n))
        y = (rng.random(n) < self.rate(p)).astype(np.int64)
        return Rows(p, y, None if self.weights is None else self.weights.draw(p, rng))


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

    def draw(self, n: int, rng: np.random.Generator) -> Rows:
        p, rate = self.population
        rows = rng.integers(len(p), size=n)
        return Rows(p[rows], (rng.random(n) < rate[rows]).astype(np.int64))


@dataclass(frozen=True)
class DigitsLaw(SoftmaxLaw):
    """The top label of a real model for handwritten digits; the true log-odds are ``tilt`` times the reported ones."""

    @cached_property
    def population(self) -> tuple[Float64s, Float64s]:
        logits = digits_logits()
        predicted = np.argmax(logits, axis=1)[:, None]
        top, right = (
            np.exp(np.take_along_axis(log_softmax(factor * logits, axis=1), predicted, axis=1))[:, 0]
            for factor in (1.0, self.tilt)
        )
        order = np.argsort(top, kind="stable")
        return top[order], right[order]


@cache
def digits_logits() -> Float64s:
    """Return the logarithms of the probabilities in examples/digits.parquet, (1797, 10)."""
    import pyarrow.parquet as pq

    table = pq.read_table(EXAMPLES / "digits.parquet", columns=[f"p_{k}" for k in range(10)])
    return np.log(np.maximum(np.column_stack([column.to_numpy() for column in table.columns]), 1e-12))


def softmax_logits(rng: np.random.Generator, n: int, n_classes: int = CLASSES) -> NDArray[np.float32]:
    return (2 * rng.standard_normal((n, n_classes))).astype(np.float32)


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
        ("Beta(0.5, 0.5)", _beta(0.5, 0.5)),
        ("Uniform", lambda u: u),
        ("Beta(1, 20)", _beta(1, 20)),
        ("Beta(8, 1)", _beta(8, 1)),
        ("ten tied values", tied),
    ):
        all_laws += [Law(name, a, scores, tilted(a)) for a in (1.0, 1.1, 1.4, 2.0)]
    all_laws += [Law("alternating gaps", size, lambda u: u, alternating(size)) for size in (0.02, 0.05, 0.1)]
    all_laws += [SoftmaxLaw("softmax top label", t, tied, tied) for t in (1.0, 1.1, 1.4, 2.0)]
    return all_laws + hard_laws()


def hard_laws() -> list[Law]:
    """Return what real data is like: weights, few distinct scores, spikes, very rare events, confident scores."""
    few: list[Law] = []
    for name, scores in (
        ("one score", picked(0.6)),
        ("two scores", picked(0.3, 0.7)),
        ("three scores", picked(0.2, 0.5, 0.8)),
        ("spike at 0.999", lambda u: np.where(u < 0.9, 0.999, (u - 0.9) * 10)),
        ("Beta(1, 200)", _beta(1, 200)),
    ):
        few += [Law(name, a, scores, tilted(a), sizes=FEW_SIZES) for a in (1.0, 1.4)]
    few.append(Law("U(0.8, 1), rate 0.997", 0.997, lambda u: 0.8 + 0.2 * u, constant(0.997), bins=5, sizes=FEW_SIZES))
    for name, scores, weights in (
        ("log-normal weights", lambda u: u, LOG_NORMAL),
        ("tied values, weights", tied, UNEVEN),
        ("one heavy row per cent", lambda u: u, HEAVY),
    ):
        few += [Law(name, a, scores, tilted(a), sizes=FEW_SIZES, weights=weights) for a in (1.0, 1.4)]
    few += [DigitsLaw("digits, top label", t, tied, tied, sizes=FEW_SIZES) for t in (1.0, 1.4)]
    return few


def picked(*scores: float) -> Callable[[Float64s], Float64s]:
    """Return one of these scores, each as often."""
    return lambda u: np.array(scores)[np.minimum((u * len(scores)).astype(int), len(scores) - 1)]


def constant(rate: float) -> Callable[[Float64s], Float64s]:
    """Return the same rate at every score."""
    return lambda p: np.full(len(p), rate)


LOG_NORMAL = Weights(lambda p, rng: rng.lognormal(size=len(p)), np.ones_like)
UNEVEN = Weights(lambda p, rng: rng.uniform(0.3, 2.0, len(p)), np.ones_like)
#: One row in a hundred weighs 30.5, more often at high scores.
HEAVY = Weights(lambda p, rng: np.where(rng.random(len(p)) < 0.02 * p, 30.5, 1.0), lambda p: 1 + 29.5 * 0.02 * p)


def truths(law: Law) -> dict[str, Any]:
    """Return the population's value of every measure; ``gaps`` are those of the uniform bins."""
    from calibrant.measures.smooth.smooth import smooth_error

    p, q = law.population
    size, n_bins = len(p), law.bins
    bins = np.clip(np.searchsorted(np.arange(1, n_bins + 1) / n_bins, p), 0, n_bins - 1)
    masses = _quantile_bins(p, n_bins)
    rate = float(q.mean())
    fit = isotonic_regression(q).x
    sums, counts = np.bincount(bins, p - q, n_bins), np.bincount(bins, minlength=n_bins)
    gaps = np.divide(sums, counts, out=np.zeros(n_bins), where=counts > 0)
    square = float(np.sum(counts * gaps**2) / size)
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = -(np.where(q > 0, q * np.log(p), 0.0) + np.where(q < 1, (1 - q) * np.log1p(-p), 0.0))
    brier = float(np.mean(p**2 - 2 * p * q + q))
    return {
        "gaps": gaps,
        "ece": float(np.abs(sums).sum() / size),
        "ace": float(np.abs(np.bincount(masses, p - q)).sum() / size),
        "rmsce": square**0.5,
        "rmsce of equal mass": _root_square(masses, p - q),
        "debiased_square": square,
        "smece": smooth_error(p, q - p, float(size)).value,
        "ks": float(np.abs(_cumulated(p, p - q)).max() / size),
        "miscalibration": max(float(np.mean((p - q) ** 2 - (fit - q) ** 2)), 0.0),
        "discrimination": float(np.mean((rate - q) ** 2 - (fit - q) ** 2)),
        "uncertainty": rate * (1 - rate),
        "mean_confidence": float(p.mean()),
        "mean_gap": float(p.mean()) - rate,
        "oe_ratio": rate / float(p.mean()),
        **_of_table(p, q),
        "accuracy": float(np.where(p >= 0.5, q, 1 - q).mean()),
        "brier": brier,
        "brier_event": brier,
        "brier_skill": 1 - brier / (rate * (1 - rate)),
        "nll": float(loss.mean()),
        "log_loss_skill": 1 + float(loss.mean()) / (rate * np.log(rate) + (1 - rate) * np.log1p(-rate)),
    }


def _of_table(p: Float64s, q: Float64s) -> dict[str, float]:
    """Return the intercept at slope 1 and the slope of the log-odds line, AUROC and ICI, with the rates as outcomes."""
    from calibrant import ReliabilityTable
    from calibrant.measures.event import Event
    from calibrant.measures.line.line import CERTAIN, cox_fit, in_the_large
    from calibrant.measures.loess.loess import ICI
    from calibrant.measures.ranking.auroc import Placements

    distinct, first = np.unique(p, return_index=True)
    counts, positives = np.diff(np.append(first, len(p))).astype(float), np.add.reduceat(q, first)
    table = ReliabilityTable(distinct, counts, positives, len(p))
    return {
        "calibration_intercept": in_the_large(table, CERTAIN),
        "calibration_slope": cox_fit(table, CERTAIN).slope,
        "auroc": Placements.of(table).area,
        "ici": ICI.value(Event(table=table)),
    }


def _root_square(bins: NDArray[np.int64], gaps: Float64s) -> float:
    counts, sums = np.bincount(bins), np.bincount(bins, gaps)
    filled = counts > 0
    return float(np.sqrt(np.sum(sums[filled] ** 2 / counts[filled]) / len(gaps)))


def _cumulated(p: Float64s, gaps: Float64s) -> Float64s:
    """Return the cumulated gaps at the last row of each distinct score."""
    return np.cumsum(gaps)[np.flatnonzero(np.diff(p, append=np.inf))]


def _quantile_bins(p: Float64s, n_bins: int) -> NDArray[np.int64]:
    """Return equal-mass bins that never split a tie."""
    _, first, counts = np.unique(p, return_index=True, return_counts=True)
    middle = first + counts / 2
    return np.repeat(np.minimum((middle * n_bins / len(p)).astype(np.int64), n_bins - 1), counts)
