"""The choice of a family, and what the procedure gains on rows that the map never saw.

The losses of a family are those of its maps of the other four folds. "auto" takes the family with the least mean loss,
and shrinks it towards no change. If the mean loss of no change is larger by G, with the standard error se that `proof`
gives it, the share is

    min(1, se^2 / (2 G^2))

as in a positive-part James-Stein estimate: for a map near no change se^2 is 2 G / N, and the share 1 / (N G). A
constant, which loses the order of the scores, is not shrunk: it is taken if G is clearly above 0, else the next family
is. To evaluate this procedure the choice is made anew inside each set of four folds.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

import numpy as np

from calibrant.recalibration.families import Family
from calibrant.recalibration.proof import MeanGain
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.folds import Dealt
from calibrant.statistics.resampling import Resampling, Stream, generator

#: Below this number of rows, the losses of three deals are averaged.
_FEW_ROWS: Final = 1000
_DEALS_OF_FEW: Final = 3

#: The share below which a map that loses the order of the scores is taken: G is above 1.96 standard errors.
_WHOLE: Final = 0.13

_TIE: Final = 1e-10  # nats: losses that differ by rounding

Rows = TypeVar("Rows", bound=Dealt)


class FitOptions(NamedTuple):
    """What was asked for.

    Attributes
    ----------
    method, family
        The method by its name, and the family; None for "auto".
    prior_rows
        The prior rows of each fit.
    resampling
        The level, and the seed.
    """

    method: str
    family: Family | None
    prior_rows: float
    resampling: Resampling


@dataclass(frozen=True, eq=False, kw_only=True)
class Procedure(ABC, Generic[Rows]):
    """How a map is made from rows: the candidates, the prior rows, the deals.

    Attributes
    ----------
    candidates : sequence of Family
        The families to choose from. No change, if it is one of them, is the first.
    prior_rows : float
        The prior rows of each fit.
    rows : float
        The effective number of rows.
    seed : numpy.random.SeedSequence
        The seed of the deals.
    """

    candidates: Sequence[Family]
    prior_rows: float
    rows: float
    seed: np.random.SeedSequence

    @abstractmethod
    def source(self, rows: Rows) -> Any:
        """Return what maps are fitted to: rows of one event, or of classes."""

    @abstractmethod
    def fit(self, family: Family, source: Any) -> Any:
        """Return the map of a family that is fitted to rows."""

    @abstractmethod
    def losses(self, rows: Rows, maps: Mapping[int, Any]) -> Float64s:
        """Return the log losses of rows in folds, each by the map of its fold."""

    @abstractmethod
    def mean_gain(
        self, rows: Rows, gains: Float64s, before: Mapping[int, Any], after: Mapping[int, Any], score: str = "log"
    ) -> MeanGain:
        """Return the mean of the gains of rows in folds, losses by a first map less those by a second one."""

    def dealt(self, rows: Rows, deal: int) -> Rows:
        """Return the rows in the folds of one of the deals."""
        return rows.dealt(generator(self.seed, Stream.DEALS, deal))

    def choose(self, rows: Rows, first: int = 0) -> Choice:
        """Return the family with the least loss, and how far it is shrunk; ``first`` numbers its deals."""
        if len(self.candidates) == 1:
            return Choice(self.candidates[0], 0.0, {}, {})
        n_deals = _DEALS_OF_FEW if self.rows < _FEW_ROWS else 1
        deals = [self.dealt(rows, deal) for deal in range(first, first + n_deals)]
        maps = [self._of_other_folds(folds) for folds in deals]
        losses = [[self.losses(folds, each) for each in of_deal] for folds, of_deal in zip(deals, maps, strict=True)]
        scored = list(zip(deals, losses, strict=True))
        means = [float(np.mean([folds.mean(x[i]) for folds, x in scored])) for i in range(len(self.candidates))]
        least = _simplest(means)
        errors = [
            float(np.mean([folds.variance(_gap(x[i], x[least])).error for folds, x in scored]))
            for i in range(len(self.candidates))
        ]
        chosen, shrinkage = least, 0.0
        if least and self.candidates[0].nearly_unchanged:
            trials = list(zip(deals, losses, maps, strict=True))
            chosen, shrinkage, errors[0] = self._against_first(means, least, trials)
        names = [family.name for family in self.candidates]
        return Choice(
            self.candidates[chosen],
            shrinkage,
            dict(zip(names, means, strict=True)),
            dict(zip(names, errors, strict=True)),
        )

    def _against_first(self, means: list[float], least: int, trials: list[Any]) -> tuple[int, float, float]:
        """Return the family that is worth more than its error, the first one if none is, and how far it is shrunk.

        The third value is the error of the gain of the family with the least loss. A family that may change the order
        of the scores has to gain more; if it does not, the best of those that keep the order is tried.
        """
        keeping = [
            mean if family.keeps_order else math.inf for mean, family in zip(means, self.candidates, strict=True)
        ]
        error_of_least = 0.0
        for i in (least, _simplest(keeping)):
            gains = [
                self.mean_gain(folds, _gap(x[0], x[i]), of_deal[0], of_deal[i]).error for folds, x, of_deal in trials
            ]
            error, keeps_order = float(np.mean(gains)), self.candidates[i].keeps_order
            error_of_least = error if i == least else error_of_least
            ratio = error / (means[0] - means[i]) if means[i] < means[0] else math.inf
            if ratio * ratio / 2 < (1 if keeps_order else _WHOLE):
                return i, ratio * ratio / 2 if keeps_order else 0.0, error_of_least
            if keeps_order:
                break
        return 0, 0.0, error_of_least

    def fitted(self, choice: Choice, source: Any) -> Any:
        """Return the chosen map, fitted to rows and shrunk."""
        return self.fit(choice.family, source).shrunk(choice.shrinkage)

    def evaluated(self, rows: Rows) -> tuple[Rows, dict[int, Any]]:
        """Return rows in folds, and for each fold the map of the whole procedure without it."""
        folds = self.dealt(rows, 0)

        def fitted(fold: int, others: Rows) -> Any:
            return self.fitted(self.choose(others, first=(fold + 1) * _DEALS_OF_FEW), self.source(others))

        return folds, _by_fold(folds, fitted)

    def _of_other_folds(self, folds: Rows) -> list[dict[int, Any]]:
        """Return, for each candidate, the maps without each fold."""
        sources = _by_fold(folds, lambda _, others: self.source(others))
        return [{fold: self.fit(family, source) for fold, source in sources.items()} for family in self.candidates]


def _simplest(means: Sequence[float]) -> int:
    """Return the place of the least mean loss, the first of those that differ from it by rounding."""
    return int(np.argmax(np.array(means) <= min(means) + _TIE))


def _gap(one: Float64s, other: Float64s) -> Float64s:
    """Return the differences of losses; of outcomes without rows they may be those of infinite losses."""
    with np.errstate(invalid="ignore"):
        return np.asarray(one - other)


def _by_fold(folds: Rows, made: Callable[[int, Rows], Any]) -> dict[int, Any]:
    """Return ``made`` of each fold's number and the rows of the other folds, by the number."""
    return {fold: made(fold, folds.without(fold)) for fold in np.unique(folds.folds).tolist()}


class Choice(NamedTuple):
    """A chosen family; by name, each candidate's mean log loss and the standard error of its difference from the best.

    The map is moved towards no change by the share ``shrinkage``.
    """

    family: Family
    shrinkage: float
    losses: dict[str, float]
    errors: dict[str, float]

    @property
    def runner_up(self) -> str | None:
        """The family with the least loss among the others."""
        others = {name: loss for name, loss in self.losses.items() if name != self.family.name}
        return min(others, key=others.__getitem__) if others else None
