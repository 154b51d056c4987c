"""Scores and outcomes that tests of several files draw."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit, logit

from calibrant import CalibrationSketch


def draw(
    seed: Any, n: int, truth: Callable[[Any], Any] = lambda p: p, *, decimals: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Uniform scores, and outcomes whose probability is a function of the score; without one they are calibrated."""
    rng = np.random.default_rng(seed)
    p = rng.random(n) if decimals is None else np.round(rng.random(n), decimals)
    return p, (rng.random(n) < truth(p)).astype(int)


def tilted(p: Any, slope: float) -> Any:
    """The probability whose log-odds are the slope times those of p."""
    return p**slope / (p**slope + (1 - p) ** slope)


def draw_tilted(seed: int, n: int, slope: float = 1.0, *, flipped: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Uniform scores, and outcomes whose log-odds are the slope times theirs; ``flipped`` turns the outcomes round."""
    p, y = draw(seed, n, lambda p: tilted(p, slope))
    return p, 1 - y if flipped else y


def draw_classes(seed: Any, n: int, shape: Any) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of classes of a Dirichlet distribution, and classes that have these probabilities."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(shape, n)
    return probs, (rng.random((n, 1)) > probs.cumsum(axis=1)).sum(axis=1).clip(max=len(shape) - 1)


def dependent(
    seed: int = 0, n_clusters: int = 40, slope: float = 1.0, mean_size: int = 10
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows in clusters of unequal sizes, whose outcomes depend on each other."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(n_clusters), rng.geometric(1 / mean_size, n_clusters))
    p = rng.beta(1.2, 1.6, len(labels))
    y = rng.random(len(labels)) < expit(logit(p) / slope + rng.normal(size=n_clusters)[labels])
    return p, y.astype(int), labels


def sketch_of(probs: Any, targets: Any, **options: Any) -> CalibrationSketch:
    """Return the sketch of rows."""
    sketch = CalibrationSketch()
    sketch.update(probs, targets, **options)
    return sketch
