"""How the values of one measure vary together, for several models: what the ranking of the models needs.

Models on the same rows, or on rows of the same clusters, have the covariance of what units add to each. Models that are
known by sums alone have standard errors of their own: variances add up for independent rows, and where it is unknown
what the rows have in common, standard errors do.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.measures.differences.pair import ComparedModel, Mean, UnitModel, with_unseen
from calibrant.measures.differences.paired import CORRELATION, ClusterModel, Model
from calibrant.measures.differences.unpaired import ClusterSummed, Summed, in_common_buckets
from calibrant.measures.measure import Difference, Measure
from calibrant.runtime.arrays import Float64s
from calibrant.statistics.buckets import degrees_of_freedom
from calibrant.statistics.design import unbiased
from calibrant.statistics.intervals import Variance
from calibrant.statistics.resampling import alpha_of
from calibrant.statistics.simultaneous import Spread, is_known, joint_tail
from calibrant.table.cluster_labels import content_order

_DECIDING: Final = 1.01  # how much larger a variance is than the observed one, so that what was not seen decides


def is_ranked_by(measure: Measure) -> bool:
    """Whether models can be ranked by a measure: it has a direction, and differences that are nearly normal."""
    compared = isinstance(measure.comparison, Difference)
    return compared and measure.better != "neither" and measure.influence is not None


def spread_of(
    measure: Measure, models: Sequence[ComparedModel], level: float, *, independent: bool = False
) -> Spread | None:
    """Return how the values of a measure vary together; None where a model does not tell how it varies.

    Possible outcomes that were not seen count as in a pair, `with_unseen`, at Bonferroni's error of each difference.
    ``independent`` says that models which are known by sums have independent rows. `Model`s have the same rows, and
    `ClusterModel`s the same buckets.
    """
    units = [model for model in models if isinstance(model, UnitModel)]
    tail = alpha_of(level) / (len(models) * (len(models) - 1))
    if len(units) == len(models):
        added = [_added(model, measure) for model in units]
        if any(each is None for each in added):
            return None
        spread, loss = _together(units, np.array(added), measure), _loss(measure)
        return spread if spread is None or loss is None else _with_unseen(spread, units, loss, tail)
    return _apart([model for model in models if isinstance(model, Summed)], measure, tail, independent=independent)


def _mean(measure: Measure) -> Mean | None:
    """Return the mean over predictions that a measure is, or None."""
    return measure.difference.mean if isinstance(measure.difference, Difference) else None


def _loss(measure: Measure) -> Mean | None:
    """Return the mean loss that a measure is, or None."""
    return None if _mean(measure) == "accuracy" else _mean(measure)


def _with_unseen(spread: Spread, models: Sequence[UnitModel], loss: Mean, tail: float) -> Spread:
    """Return the spread with the outcomes that were not seen; where they decide, the dependence is unknown."""
    flips, seen = [model.flips(loss) for model in models], spread.errors**2
    squares = seen.copy()
    for i, j in itertools.combinations(range(len(models)), 2):
        squares[i, j] = squares[j, i] = with_unseen(float(seen[i, j]), [flips[i], flips[j]], tail)
    decides = bool(np.any(squares > _DECIDING * seen))
    return spread._replace(errors=np.sqrt(squares), covariance=None if decides else spread.covariance)


def in_units(models: Sequence[ComparedModel]) -> Sequence[ComparedModel]:
    """Return models that share clusters with what their common buckets add; others unchanged."""
    clustered = [model for model in models if isinstance(model, ClusterSummed)]
    return in_common_buckets(clustered) if len(clustered) == len(models) else models


def _added(model: UnitModel, measure: Measure) -> Float64s | None:
    """Return what each unit adds to the measure."""
    mean = _mean(measure)
    return model.changes(measure) if mean is None else model.scores(mean)


def _together(models: Sequence[UnitModel], added: Float64s, measure: Measure) -> Spread | None:
    """Return the spread from what the units add to each model's value, (K, units).

    The covariance is that of the models' differences to their mean.
    """
    first, of_each = models[0], added
    added = added - added.mean(axis=0)  # what all have in common cancels in differences, and takes no digits
    if isinstance(first, Model):
        n = first.rows.weighting.effective_n
        return None if n <= 1 else _spread(*_of_rows(first, added), _unseen(measure, n), n - 1)
    clustered = [model for model in models if isinstance(model, ClusterModel)]
    sizes = np.mean([model.rows.sizes for model in clustered], axis=0)
    df, share = degrees_of_freedom(sizes, CORRELATION)
    unseen = _unseen(measure, _independent_rows(clustered, float(np.sum(of_each**2)) / share))
    return _spread(added, np.full(added.shape[1], 1 / share), unseen, df)


def _of_rows(model: Model, added: Float64s) -> tuple[Float64s, Float64s]:
    """Return what rows add to means, (K, N), around those means, and the scale of the square of each row."""
    weighting = model.rows.weighting
    around = added - (np.einsum("iu,u->i", added, weighting.mass) / weighting.total)[:, None]
    return around, weighting.squares * (unbiased(1.0, weighting.effective_n) / weighting.total**2)


def _spread(around: Float64s, scales: Float64s, unseen: float | Float64s, df: float) -> Spread:
    """Return the spread of sums over units, (K, units), around their means, each square of a unit times its scale."""
    covariance = np.einsum("iu,ju->ij", around * scales, around)  # no BLAS: the same bits for any threads
    each = np.broadcast_to(unseen, len(around))

    def between(i: int, j: int) -> float:
        return float(np.sum(scales * (around[i] - around[j]) ** 2)) + float(each[i] + each[j])

    return Spread.of(covariance + np.eye(len(around)) * each, df, between)


def _independent_rows(models: Sequence[ClusterModel], variance: float) -> float:
    """Return in how many independent rows the accuracies of models would have variances with this sum.

    Where all answers are right it is the effective number of clusters.
    """
    accuracies = np.array([model.means.accuracy for model in models])
    single = float(np.sum(accuracies * (1 - accuracies)))
    return single / variance if variance > 0 < single else models[0].rows.units


def _apart(models: Sequence[Summed], measure: Measure, tail: float, *, independent: bool) -> Spread | None:
    """Return the spread of models that are known by sums alone."""
    variances = [variance for model in models if (variance := _alone(model, measure, tail)) is not None]
    if len(variances) < len(models) or not all(math.isfinite(variance.value) for variance in variances):
        return None
    df = min(variance.df for variance in variances)
    if independent:
        return Spread.of(np.diag([variance.value for variance in variances]), df)
    errors = np.array([variance.error for variance in variances])
    return Spread(np.add.outer(errors, errors) * ~np.eye(len(errors), dtype=bool), None, df)


def _alone(model: Summed, measure: Measure, tail: float) -> Variance | None:
    """Return the variance of one model's value."""
    variance, loss = model.influence_variance(measure), _loss(measure)
    if variance is None:
        return None
    variance = variance._replace(value=variance.value + _unseen(measure, model.design.units))
    return variance if loss is None else model.unseen(variance, loss, tail)


def _unseen(measure: Measure, units: float) -> float:
    """Return the variance that one more right answer of each model alone adds to an accuracy, as Bonett and Price do.

    Without it, models that never differed in a few rows would be known to be alike.
    """
    return 1 / (units + 2) ** 2 if _mean(measure) == "accuracy" else 0.0


# ---------------------------------------------------------------- several questions


class Answered(NamedTuple):
    """The models that answered one question about some of the inputs, and how the values of a measure vary together."""

    models: Sequence[Model]
    inputs: NDArray[Any]  # (N,): the number of the input of each of their rows
    spread: Spread | None  # None where it is unknown

    @property
    def pairs(self) -> int:
        """The number of pairs of models."""
        return len(self.models) * (len(self.models) - 1) // 2


def levels_together(measure: Measure, questions: Sequence[Answered], pairs: int, level: float) -> list[float]:
    """Return for each question the level of each interval, so that those of all pairs of models hold together.

    Inputs are independent of each other; the answers about one input need not be. Where it is known how the differences
    vary together, the level is that of the quantile of the largest of all standardised differences. The others have
    Bonferroni's level. The error is shared between the two in proportion to their numbers of differences. ``pairs`` is
    the number of pairs of each question that are compared, ``level`` that of all intervals together.
    """
    number, alpha = pairs * len(questions), alpha_of(level)
    if number == 1:
        return [level]
    values = sum(len(each.models) for each in questions)
    known = [each.spread is not None and is_known(each.spread, values) for each in questions]
    joint = [each for each, is_joint in zip(questions, known, strict=True) if is_joint]
    apart = 1 - alpha / number
    if not joint or any(each.pairs != pairs for each in joint):
        return [apart] * len(questions)
    together = 1 - 2 * joint_tail(_over_questions(measure, joint), 1 - alpha * len(joint) / len(questions))
    return [together if is_joint else apart for is_joint in known]


def _over_questions(measure: Measure, questions: Sequence[Answered]) -> Spread:
    """Return how the values of all models vary together; only models of the same question are compared."""
    of_question = np.repeat(np.arange(len(questions)), [len(each.models) for each in questions])
    around = np.zeros((len(of_question), 1 + max(int(each.inputs.max()) for each in questions)))
    unseen = np.zeros(len(of_question))
    for number, each in enumerate(questions):
        added = np.array([_added(model, measure) for model in each.models])
        own, scales = _of_rows(each.models[0], added - added.mean(axis=0))
        places = np.flatnonzero(of_question == number)
        around[np.ix_(places, each.inputs)] = own * np.sqrt(scales)
        unseen[places] = _unseen(measure, each.models[0].rows.weighting.effective_n)
    around = around[:, content_order(around)]
    df = min(float(np.min(each.spread.df)) for each in questions if each.spread is not None)
    spread = _spread(around, np.ones(around.shape[1]), unseen, df)
    return spread._replace(errors=spread.errors * np.equal.outer(of_question, of_question))
