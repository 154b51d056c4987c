"""The leaderboard of several models: a row each, in the order of one measure, and the certainty of the order."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError, one_of_these
from calibrant.inputs.weights import tidy_weight
from calibrant.measures.context import Inference
from calibrant.measures.differences.pair import ComparedModel
from calibrant.measures.differences.several import is_ranked_by
from calibrant.measures.estimates import estimate
from calibrant.measures.listed import MEASURES, by_name
from calibrant.measures.means.in_the_large import MEAN_CONFIDENCE
from calibrant.measures.measure import Measure
from calibrant.measures.verdict import closed_form_test
from calibrant.results import Estimate, TestResult
from calibrant.results.values import plain, plain_estimate
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.resampling import Resampling, alpha_of
from calibrant.statistics.simultaneous import Ranking, Spread, ranking

#: The measure that models are ranked by, unless another is named.
DEFAULT: Final = "brier"

#: With more models only the pairs with the first or with the best one are compared.
MOST_PAIRED: Final = 20

#: The most models whose pairs, diagrams and calibration are shown one by one.
FEW: Final = 3

_NO_ORDER: Final = "no interval: the sampling variance of the measure cannot be estimated from these data"
_UNDEFINED: Final = "not available: the measure has no value for this model"
_INFINITE: Final = "no interval: a model with an infinite measure ranks last by rule, not by a test"
_ALONE: Final = "the measure is infinite for all other models"
_UNTESTED: Final = "not tested, because results (such as right or wrong answers) are compared without probabilities"
#: Why a difference has no interval.
ONE_ROW: Final = "the variance cannot be estimated from one row"


@dataclass(frozen=True, eq=False, kw_only=True)
class Standing:
    """One model in a leaderboard.

    Differences, ``among_best`` and the ranges of ranks hold simultaneously for all models, at the level of the
    comparison.

    Attributes
    ----------
    name : str
        The model.
    estimates : mapping
        The `Estimate` of each measure with its own interval: those that models are compared by, and
        ``mean_confidence`` (in a `ResultComparison` only the mean). The ECE has its noise floor.
    test : TestResult or None
        The test of the model's own calibration, in closed form; None without probabilities.
    miscalibrated : bool
        Whether this test rejects calibration.
    difference : Estimate
        By how much the model is worse than the best one, with a simultaneous interval; 0 or above. Its p-value is the
        adjusted one.
    adjusted_p_value : float
        The probability of being so much worse than another model, for any pair, if all models were equally good.
    among_best : bool
        Whether no other model is shown to be better.
    rank_low, rank_high : int
        The range of the model's rank; 1 is the best. Equal models share the better rank.
    impossible_outcomes : float
        The weight of the rows whose observed outcome had predicted probability 0.
    """

    name: str
    estimates: Mapping[str, Estimate]
    test: TestResult | None
    miscalibrated: bool
    difference: Estimate
    adjusted_p_value: float
    among_best: bool
    rank_low: int
    rank_high: int
    impossible_outcomes: float = 0.0

    def __getitem__(self, name: str) -> Estimate:
        return self.estimates[name]

    @property
    def p_value(self) -> float:
        """The p-value of the test of calibration; NaN without a test."""
        return math.nan if self.test is None else self.test.p_value

    def to_dict(self, path: str, missing: dict[str, str]) -> dict[str, Any]:
        """Return every number as plain Python values; what is not finite is None, and ``missing`` says why."""
        return {
            "name": self.name,
            "estimates": {
                key: plain_estimate(each, f"{path}.estimates.{key}", missing, each.method or ONE_ROW)
                for key, each in self.estimates.items()
            },
            "p_value": plain(self.p_value, f"{path}.p_value", missing, self.test.method if self.test else _UNTESTED),
            "miscalibrated": self.miscalibrated,
            "difference": plain_estimate(
                self.difference, f"{path}.difference", missing, self.difference.method, tested=False
            ),
            "adjusted_p_value": plain(
                self.adjusted_p_value, f"{path}.adjusted_p_value", missing, self.difference.method
            ),
            "among_best": self.among_best,
            "rank_low": self.rank_low,
            "rank_high": self.rank_high,
            "impossible_outcomes": self.impossible_outcomes,
        }


def sorting_measure(sort_by: Any, measures: Sequence[Measure]) -> Measure:
    """Return the measure that models are ranked by; ``measures`` are those that they are compared by.

    Raises
    ------
    calibrant.errors.InputError
        For a measure without a direction, or whose differences have no test.
    """
    own = {measure.name: measure for measure in measures}
    able = [measures[0].name]
    able += [each.name for each in dict.fromkeys((*measures, *MEASURES)) if is_ranked_by(each)]
    try:
        measure = own[sort_by] if sort_by in own else by_name(sort_by)
    except InputError:
        expected, remedy = f"one of {', '.join(able)}", one_of_these(str(sort_by), able)
        raise InputError("sort_by", expected, repr(sort_by), remedy) from None
    if measure is measures[0] or is_ranked_by(measure):
        return measure
    reason = (
        "the measure has no best value" if measure.better == "neither" else "differences of this measure have no test"
    )
    raise InputError(
        "sort_by", f"one of {', '.join(able)}", f"{measure.name!r}: {reason}", f"pass {measures[0].name!r}"
    )


def best_first(models: Sequence[ComparedModel], measure: Measure) -> list[int]:
    """Return the places of the models, the best first; those without a finite value are last, in the order given."""
    losses = [math.inf if math.isnan(loss) else loss for loss in _losses(models, measure)]
    return sorted(range(len(models)), key=losses.__getitem__)


def leaderboard(
    models: Sequence[ComparedModel],
    measure: Measure,
    measures: Sequence[Measure],
    level: float,
    spread_of: Callable[[NDArray[np.intp]], Spread | None],
) -> tuple[Standing, ...]:
    """Return the standing of each model, the best first.

    Parameters
    ----------
    models : sequence of ComparedModel
        On the same rows, or known by sums.
    measure : Measure
        What decides the order.
    measures : sequence of Measure
        What else is estimated for each model.
    level : float
        The confidence of intervals.
    spread_of : callable
        How the values of the models at these places vary together; None if these data do not tell.
    """
    order, losses = best_first(models, measure), _losses(models, measure)
    places = np.array([place for place in order if math.isfinite(losses[place])], np.intp)
    finite, undefined = len(places), sum(map(math.isnan, losses))
    infinite = len(models) - finite - undefined
    risky = [infinite > 0 and _excludes(model) for model in models]
    sure = finite - sum(risky[place] for place in places)
    ranked = None
    if finite > 1:
        spread = spread_of(places)
        ranked = None if spread is None else ranking(np.array(losses)[places], spread, level)
    shown = tuple(dict.fromkeys((*measures, measure, MEAN_CONFIDENCE)))
    standings = []
    for rank, place in enumerate(order):
        difference, among_best, ends = difference_to_best(
            ranked, rank, losses[place], finite, undefined, len(order), level
        )
        model = models[place]
        if math.isinf(losses[place]) and finite:
            among_best, ends = not sure, (1 + sure, len(order))
        elif risky[place]:
            ends = ends[0], min(ends[1] + infinite, len(order))
        test, resampling = model.event.of(closed_form_test), Resampling.of(level, 0, 0)
        inference = Inference(event=model.event, resampling=resampling, measures=shown)
        standings.append(
            Standing(
                name=model.name,
                estimates={each.name: estimate(each, model.event, inference) for each in shown},
                test=test,
                miscalibrated=test.p_value <= alpha_of(level),
                difference=replace(difference, n=model.means.n),
                adjusted_p_value=difference.p_value,
                among_best=among_best,
                rank_low=ends[0],
                rank_high=ends[1],
                impossible_outcomes=tidy_weight(model.means.infinite),
            )
        )
    return tuple(standings)


def compared_places(places: Sequence[int], best: Sequence[int]) -> list[tuple[int, int]]:
    """Return the pairs of models that are compared: all of few models, of many those with the first or a best one."""
    pairs = list(itertools.combinations(places, 2))
    if len(places) <= MOST_PAIRED:
        return pairs
    kept = {places[0], *best}
    return [pair for pair in pairs if not kept.isdisjoint(pair)]


def _excludes(model: ComparedModel) -> bool:
    """Return whether scores of one event exclude an outcome, so that the expected log loss may be infinite too."""
    scores = model.event.table.scores
    return model.means.event and bool(np.any((scores == 0) | (scores == 1)))


def _losses(models: Sequence[ComparedModel], measure: Measure) -> list[float]:
    """Return the values of the models, where less is better."""
    sign = -1.0 if measure.better == "higher" else 1.0
    return [sign * model.event.value(measure) for model in models]


def difference_to_best(
    ranked: Ranking | None, rank: int, loss: float, finite: int, undefined: int, number: int, level: float
) -> tuple[Estimate, bool, tuple[int, int]]:
    """Return the difference to the best, whether the model is among the best, and the range of its rank.

    A model with an infinite loss is the last by rule. One without a value may have any rank.
    """
    if math.isnan(loss):
        return Estimate(math.nan, method=_UNDEFINED), True, (1, number)
    if math.isinf(loss) and finite:
        return Estimate(math.inf, method=_INFINITE), False, (finite + 1, number)
    if ranked is None:
        only = finite == 1
        alone = Estimate(0.0, 0.0, 0.0, level=level, p_value=1.0, method=_ALONE) if only else None
        return alone or Estimate(math.nan, method=_NO_ORDER), True, (1, (finite or number) + undefined)
    estimated = Estimate(
        float(ranked.excess[rank]),
        float(ranked.low[rank]),
        float(ranked.high[rank]),
        level=level,
        p_value=float(ranked.p_values[rank]),
        method=ranked.method,
    )
    ends = int(ranked.rank_low[rank]), int(ranked.rank_high[rank]) + undefined
    return estimated, bool(ranked.among_best[rank]), ends
