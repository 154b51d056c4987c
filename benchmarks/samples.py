"""Predictions like those of real models, from a fixed seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ROWS = 1_000  # made at a time, so that making them needs no more memory than holding them


@dataclass(frozen=True)
class Sample:
    """Logits, their probabilities in the same type, and targets (int64)."""

    logits: NDArray[Any]
    probs: NDArray[Any]
    targets: NDArray[np.int64]


def softmax(logits: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
    """Return the softmax of each row, computed in blocks."""
    out = np.empty_like(logits) if out is None else out
    for start in range(0, len(logits), _ROWS):
        block = logits[start : start + _ROWS].astype(np.float64)
        block -= block.max(axis=1, keepdims=True)
        np.exp(block, out=block)
        block /= block.sum(axis=1, keepdims=True)
        out[start : start + _ROWS] = block
    return out


def class_logits(n: int, n_classes: int, out: NDArray[Any]) -> NDArray[np.int64]:
    """Fill ``out`` (n, C) with logits of a somewhat over-confident classifier and return targets drawn for them.

    The noise of all classes is normal with deviation 1.5, so the logarithm of their summed exponentials is about
    L = ln C + 1.5^2 / 2. One class stands around L + 1 with deviation 4, so its probability is anything from 0 to 1. It
    stays below saturation, since at exactly 1 torchmetrics is wrong. The targets follow the softmax of .85 times the
    logits (as the largest sum of a logit and Gumbel noise).
    """
    rng = np.random.default_rng(20_261_121)
    targets = np.empty(n, np.int64)
    level = np.log(n_classes) + 1.5**2 / 2
    for start in range(0, n, _ROWS):
        size = min(_ROWS, n - start)
        block = rng.standard_normal((size, n_classes), dtype=np.float32) * np.float32(1.5)
        favoured = np.minimum(rng.normal(level + 1, 4.0, size), level + 12)
        block[np.arange(size), rng.integers(0, n_classes, size)] = favoured
        out[start : start + size] = block
        waiting = rng.standard_exponential((size, n_classes), dtype=np.float32) + np.float32(1e-30)
        targets[start : start + size] = (np.float32(0.85) * block - np.log(waiting)).argmax(axis=1)
    return targets


def classes(n: int, n_classes: int) -> Sample:
    """Return predictions over classes, float32."""
    logits = np.empty((n, n_classes), np.float32)
    targets = class_logits(n, n_classes, logits)
    return Sample(logits, softmax(logits), targets)


def binary(n: int) -> Sample:
    """Return scores of one event whose log-odds are a quarter too large, float32."""
    rng = np.random.default_rng(20_261_122)
    logits = rng.normal(-0.5, 1.8, n).astype(np.float32)
    probs = (1 / (1 + np.exp(-logits.astype(np.float64)))).astype(np.float32)
    targets = (rng.random(n) < 1 / (1 + np.exp(-0.8 * logits.astype(np.float64)))).astype(np.int64)
    return Sample(logits, probs, targets)
