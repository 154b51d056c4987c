"""The Brier score of always predicting the base rates, and how the skill against it varies.

All rows of one kind get the same score u from the base rates: the kinds are the classes, or each label with each of its
outcomes. With B the mean Brier score b of the predictions and U that of the base rates, the skill is 1 - B / U. U is
least at the base rates, so that their own error plays no part to first order, and the skill varies as a ratio of two
means over the same rows: var = var(b - (B / U) u) / (U^2 n).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.notions import scores_of_rows
from calibrant.inputs.predictions import Notion, Predictions
from calibrant.inputs.weights import integer_weights
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import Late
from calibrant.runtime.dataclass import dataclass
from calibrant.table import ReliabilityTable

_READ_AGAIN: Final = 2**26  # scores that are read once more, for how Brier scores differ between classes


@dataclass(frozen=True, eq=False, kw_only=True)
class BaseRates:
    """The base rates of the outcomes, and the Brier score of always predicting them.

    Attributes
    ----------
    masses, squares : (K,) float64
        The weight and the squared weight of the rows of each kind; with whole weights they are the same.
    losses : (K,) float64
        u, the Brier score that the base rates get in a row of each kind.
    brier : Late or None
        The sum of squared weight times b over the rows of each kind, (K,); None if it is not known.
    buckets : (B, K) float64 or None
        The weight of each kind in each bucket of clusters; None if it is not known, and without clusters.
    places : (H,) int or None
        The bucket of these for each bucket of the judged event, which may be finer.
    """

    masses: Float64s
    squares: Float64s
    losses: Float64s
    brier: Late[Float64s] | None = None
    buckets: Float64s | None = None
    places: NDArray[np.intp] | None = None

    @classmethod
    def of_classes(
        cls, masses: Float64s, squares: Float64s, brier: Late[Float64s] | None = None, *, single: bool = False
    ) -> BaseRates:
        """Return the base rates of exclusive classes; ``single`` says that two of them are one event's outcomes."""
        rates = masses / masses.sum()
        losses = 1 - 2 * rates + float(np.sum(rates**2))
        return cls(masses=masses, squares=squares, losses=losses / 2 if single else losses, brier=brier)

    @classmethod
    def of_tables(cls, tables: Sequence[ReliabilityTable]) -> BaseRates:
        """Return the base rates of events that are judged together: one, or the labels of multilabel predictions."""
        each = [table for table in tables if len(table)]
        parts = []
        for table in each:
            masses = np.array([(table.counts - table.positives).sum(), table.positives.sum()], dtype=np.float64)
            squares = table.own_weights.sum(axis=1)
            parts.append(cls.of_classes(masses, squares, single=True))

        def brier() -> Float64s:
            scores = [table.scores.astype(np.float64) for table in each]
            sums = [
                (table.own_weights * np.stack([p**2, (1 - p) ** 2])).sum(axis=1)
                for table, p in zip(each, scores, strict=True)
            ]
            return np.concatenate(sums)

        masses, squares, losses = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("masses", "squares", "losses")
        )
        return cls(masses=masses, squares=squares, losses=losses, brier=Late(brier))

    @classmethod
    def of_predictions(cls, predictions: Predictions, notion: Notion, tables: Sequence[ReliabilityTable]) -> BaseRates:
        """Return the base rates of predictions: from the tables of the event or of each label, else from the rows."""
        single = predictions.layout == "binary"
        if predictions.layout == "multilabel" or (single and notion == "positive"):
            return cls.of_tables(tables)
        judged, weights = predictions.judged, predictions.weights
        kinds = predictions.targets[judged]
        weights = None if weights is None else weights[judged]
        n_kinds = 2 if single else predictions.n_classes
        squares = weights if weights is None or integer_weights(weights) else weights**2

        def by_kind(values: Float64s | None) -> Float64s:
            return np.bincount(kinds, values, n_kinds).astype(np.float64, copy=False)

        def brier() -> Float64s:
            scores = scores_of_rows(predictions)[0]
            return by_kind(scores if squares is None else squares * scores)

        few = predictions.n * predictions.rows.width <= _READ_AGAIN
        masses = by_kind(weights)
        return cls.of_classes(
            masses, masses if squares is weights else by_kind(squares), Late(brier) if few else None, single=single
        )

    @property
    def score(self) -> float:
        """U, the mean Brier score of the base rates: 0 if all outcomes are equal."""
        return float(self.masses @ self.losses) / float(self.masses.sum())

    @property
    def own_variance(self) -> float:
        """The variance of u over rows."""
        return float(self.squares @ (self.losses - self.score) ** 2) / float(self.squares.sum())

    def variance(self, ratio: float, mean: float, variance: float) -> float:
        """Return the variance of b - ratio u over rows, from the mean and the variance of b.

        Where b is not known by kind, it is the largest that any covariance allows (Cauchy and Schwarz).
        """
        own = self.own_variance
        if self.brier is None:
            return (math.sqrt(variance) + abs(ratio) * math.sqrt(own)) ** 2
        around = self.losses - self.score
        shared = float((self.brier.value - mean * self.squares) @ around) / float(self.squares.sum())
        return max(variance - 2 * ratio * shared + ratio**2 * own, 0.0)
