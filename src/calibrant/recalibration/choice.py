"""The choice of a family, and what the procedure gains on rows that the map never saw.

The losses of a family are those of its maps of the other four folds. "auto" takes the simplest family whose mean loss
is within one standard error of the least. To evaluate this procedure the choice is made anew inside each set of four
folds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from calibrant.recalibration.families import Family, Rows
from calibrant.recalibration.pieces import Pieces, probabilities
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.folds import Parts
from calibrant.statistics.resampling import Stream, alpha_of, generator

#: Below this number of rows, the losses of three deals are averaged.
_FEW_ROWS: Final = 1000
_DEALS_OF_FEW: Final = 3

_RESAMPLES: Final = 200  # of the rows, for the band of a map
_BANDS: Final = 1000  # the first of their random numbers


@dataclass(frozen=True, eq=False, kw_only=True)
class Procedure:
    """How a map is made from rows: the candidates, the prior rows, the deals.

    Attributes
    ----------
    candidates : sequence of Family
        The families to choose from, the simplest first.
    prior_rows : float
        The prior rows of each fit.
    scores : (K,)
        The scores of the cells.
    rows : float
        The effective number of rows.
    weight : float
        Their total weight.
    seed : numpy.random.SeedSequence
        The seed of the deals.
    """

    candidates: Sequence[Family]
    prior_rows: float
    scores: Float64s
    rows: float
    weight: float
    seed: np.random.SeedSequence

    def fit(self, family: Family, parts: Parts) -> Pieces:
        """Return the map of a family that is fitted to all parts."""
        negatives, positives = parts.masses.sum(axis=1) * (self.rows / self.weight)
        held = negatives + positives > 0
        return family.fit(
            Rows(self.scores[held], (negatives + positives)[held], positives[held]), self.prior_rows
        ).pieces

    def dealt(self, parts: Parts, deal: int) -> Parts:
        """Return the parts in the folds of one of the deals."""
        return parts.dealt(generator(self.seed, Stream.DEALS, deal))

    def choose(self, parts: Parts, first: int = 0) -> Choice:
        """Return the simplest family within one standard error of the least loss; ``first`` numbers its deals."""
        if len(self.candidates) == 1:
            return Choice(self.candidates[0], {}, {})
        n_deals = _DEALS_OF_FEW if self.rows < _FEW_ROWS else 1
        deals = [self.dealt(parts, deal) for deal in range(first, first + n_deals)]
        losses = [[log_losses(self.out_of_fold(family, folds)) for family in self.candidates] for folds in deals]
        means = [
            float(np.mean([folds.mean(of_deal[i]) for folds, of_deal in zip(deals, losses, strict=True)]))
            for i in range(len(self.candidates))
        ]
        best = int(np.argmin(means))
        errors = [
            float(np.mean([folds.variance(x[i] - x[best]).error for folds, x in zip(deals, losses, strict=True)]))
            for i in range(len(self.candidates))
        ]
        chosen = next(i for i in range(best + 1) if means[i] - means[best] <= errors[i])
        names = [family.name for family in self.candidates]
        return Choice(
            self.candidates[chosen], dict(zip(names, means, strict=True)), dict(zip(names, errors, strict=True))
        )

    def out_of_fold(self, family: Family, folds: Parts) -> Float64s:
        """Return the log-odds (F, K) that the maps of the other folds give each part."""
        return self._by_fold(folds, lambda _, others: self.fit(family, others))

    def evaluated(self, parts: Parts) -> tuple[Parts, Float64s]:
        """Return rows in folds and the log-odds (F, K) by the whole procedure without their fold."""
        folds = self.dealt(parts, 0)

        def fitted(fold: int, others: Parts) -> Pieces:
            choice = self.choose(others, first=(fold + 1) * _DEALS_OF_FEW)
            return self.fit(choice.family, others)

        return folds, self._by_fold(folds, fitted)

    def band(self, family: Family, parts: Parts, scores: Float64s, level: float) -> tuple[Float64s, Float64s]:
        """Return the pointwise band of a family's map at these scores, (M,), by the bootstrap."""
        maps = (
            self.fit(family, parts.resampled(generator(self.seed, Stream.DEALS, _BANDS + i))) for i in range(_RESAMPLES)
        )
        drawn = np.stack([probabilities(pieces.log_odds(scores)) for pieces in maps])
        tail = alpha_of(level) / 2
        low, high = np.quantile(drawn, [tail, 1 - tail], axis=0)
        return low, high

    def _by_fold(self, folds: Parts, fitted: Callable[[int, Parts], Pieces]) -> Float64s:
        log_odds = np.empty(folds.masses.shape[1:])
        for fold in np.unique(folds.folds).tolist():
            pieces = fitted(fold, folds.without(fold))
            log_odds[folds.folds == fold] = pieces.log_odds(self.scores)
        return log_odds


class Choice(NamedTuple):
    """A chosen family, and by name the mean log loss of each candidate and its standard error from the best."""

    family: Family
    losses: dict[str, float]
    errors: dict[str, float]


def log_losses(log_odds: Float64s) -> Float64s:
    """Return the log loss without and with the event, (2, ...)."""
    return np.stack([np.logaddexp(0, log_odds), np.logaddexp(0, -log_odds)])


def brier_losses(log_odds: Float64s) -> Float64s:
    """Return the Brier score without and with the event, (2, ...)."""
    return np.stack([probabilities(log_odds) ** 2, probabilities(-log_odds) ** 2])
