"""Recalibration by logistic regression on the log-odds of the scores (Cox 1958): intercept, slope, log likelihoods.

The model: an outcome happens with log-odds a + b logit(p). Calibrated scores have a = 0 and b = 1. With b < 1 the
scores are too extreme, with b > 1 not extreme enough.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Final

import numpy as np

from calibrant.runtime.arrays import Float64s
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.roots import root
from calibrant.table import ReliabilityTable

_MOST_STEPS: Final = 200  # ordinary tables need 6; the worst of 12,000 contrived tables, with slopes of 1e15, needed 61
_HALVINGS: Final = 60  # after that, a step is below double precision
_FREE: Final = 10.0  # the log-odds that a step may add if the present ones are smaller
_CLOSE: Final = 1e-10
_NEAR: Final = 1e-4  # of their mean: log-odds that spread by less hardly vary
_ROUNDING: Final = 2.0**-52
_TINY: Final = 2.0**-1022


@dataclass(frozen=True, kw_only=True)
class CoxFit:
    """The fit of a + b logit(p) to the log-odds of the outcomes.

    Attributes
    ----------
    intercept, slope : float
        a and b. If no finite pair is most likely (`separated`), the slope is the infinity it tends to and the intercept
        is NaN. With one distinct score, or outcomes of one kind only, both are undetermined and NaN.
    log_likelihood : float
        The largest log likelihood of any a and b; its supremum if it is not attained.
    calibrated_log_likelihood : float
        The log likelihood of a = 0 and b = 1, the unchanged scores.
    origin, level : float
        Log-odds x0 of the scores and those of the outcomes there, a + b x0: 0 and the intercept; where the log-odds of
        the scores hardly vary, their mean, as there a and b x are large and cancel.
    free : int
        The number of parameters that the scores determine: 2, or 1 for one distinct score.
    separated : bool
        Whether a threshold on the score separates the outcomes: then the likelihood has no maximum.
    """

    intercept: float
    slope: float
    log_likelihood: float
    calibrated_log_likelihood: float
    free: int
    separated: bool
    origin: float = 0.0
    level: float = math.nan


def log_odds(scores: Float64s) -> Float64s:
    """Return log(p / (1 - p)) of scores strictly between 0 and 1."""
    return np.asarray(np.log(scores) - np.log1p(-scores))


def cox_fit(table: ReliabilityTable, eps: float | None = None) -> CoxFit:
    """Return the fit of outcomes to the log-odds of the scores; ``eps`` clips the scores to [eps, 1 - eps].

    Without ``eps`` the scores must lie strictly between 0 and 1. The code first decides whether a finite optimum exists
    (Albert and Anderson 1984). There is no optimum exactly when the largest score of one outcome is at most the
    smallest score of the other.
    """
    x, positives, negatives = _columns(table, eps)
    issued = _log_likelihood(x, _small(x), positives, negatives)
    free = 1 if x[0] == x[-1] else 2
    fit = partial(CoxFit, calibrated_log_likelihood=issued, free=free)
    if not (positives.any() and negatives.any()):
        return fit(intercept=math.nan, slope=math.nan, log_likelihood=0.0, separated=True)
    if free == 1:
        likelihood = _entropy(positives.sum(), negatives.sum())
        return fit(intercept=math.nan, slope=math.nan, log_likelihood=likelihood, separated=False)
    x_positive, x_negative = x[positives > 0], x[negatives > 0]
    for slope, below, above in ((math.inf, x_negative, x_positive), (-math.inf, x_positive, x_negative)):
        if below[-1] <= above[0]:
            tied = (x == below[-1]) & (below[-1] == above[0])  # only these outcomes remain uncertain
            supremum = _entropy(positives[tied].sum(), negatives[tied].sum())
            return fit(intercept=math.nan, slope=slope, log_likelihood=supremum, separated=True)
    (a, b), (centre, scale), likelihood = _fit(x, positives, negatives, issued)
    intercept = float(a - b * centre / scale)
    near = scale < _NEAR * abs(centre)
    return fit(
        intercept=intercept,
        slope=float(b / scale),
        log_likelihood=likelihood,
        separated=False,
        origin=centre if near else 0.0,
        level=a if near else intercept,
    )


def in_the_large(table: ReliabilityTable, eps: float | None = None) -> float:
    """Return the intercept if the slope is fixed at 1; -inf or inf for outcomes of one kind only."""
    x, positives, negatives = _columns(table, eps)
    if not (positives.any() and negatives.any()):
        return math.inf if positives.any() else -math.inf
    return _intercept(x, positives, negatives)


def _columns(table: ReliabilityTable, eps: float | None) -> tuple[Float64s, Float64s, Float64s]:
    """Return the log-odds of the scores, the outcomes and the rows without outcome."""
    scores = table.scores.astype(np.float64)
    positives = table.positives.astype(np.float64)
    negatives = table.counts.astype(np.float64) - positives
    return log_odds(scores if eps is None else np.clip(scores, eps, 1 - eps)), positives, negatives


def _small(log_odds: Float64s) -> Float64s:
    """Return exp(-|t|), which never overflows."""
    return np.exp(-np.abs(log_odds))


def _log_likelihood(log_odds: Float64s, small: Float64s, positives: Float64s, negatives: Float64s) -> float:
    """Return sum positives log s(t) + negatives log s(-t), s(t) = 1 / (1 + exp(-t)), with `_small` of t."""
    # log(1 + exp(t)) = max(t, 0) + log(1 + exp(-|t|)), and log(1 + exp(-t)) = max(-t, 0) + the same
    shared = np.log1p(small)
    larger = np.maximum(log_odds, 0.0)
    return -float(positives @ (larger - log_odds) + negatives @ larger + (positives + negatives) @ shared)


def _entropy(positives: float, negatives: float) -> float:
    """Return the log likelihood of outcomes with their rate as the score."""
    total = positives + negatives
    return float(sum(k * math.log(k / total) for k in (positives, negatives) if k > 0))


def _intercept(x: Float64s, positives: Float64s, negatives: Float64s) -> float:
    """Return a with sum s(a + x) = sum of outcomes: then the mean score equals the outcome rate.

    The left side increases in a. The root lies between the a for all scores equal to the largest and the a for all
    equal to the smallest; the bracket is wider by 1 because its ends are rounded.
    """

    def residual(a: float) -> float:
        up, down = _rates(a + x, _small(a + x))
        return float(np.sum(positives * down - negatives * up))

    middle = math.log(float(positives.sum() / negatives.sum()))
    return root(residual, middle - float(x[-1]) - 1, middle - float(x[0]) + 1, xtol=1e-15)


def _rates(log_odds: Float64s, small: Float64s) -> tuple[Float64s, Float64s]:
    """Return s(t) and 1 - s(t), both to full relative precision, with `_small` of t."""
    more = 1 / (1 + small)
    less = small * more
    above = log_odds >= 0
    return np.where(above, more, less), np.where(above, less, more)


def _fit(
    x: Float64s, positives: Float64s, negatives: Float64s, issued: float
) -> tuple[tuple[float, float], tuple[float, float], float]:
    """Return a and b of the standardised x, its mean and deviation, and the log likelihood, if the optimum is finite.

    By Newton's method. x is standardised to mean 0 and variance 1. The start is the outcome rate with slope 0, where
    the curvature is largest, or the unchanged scores if these are more likely (``issued``). The expected gain of a step
    is half the squared Newton decrement. A step at most doubles the log-odds: farther out the curvature may vanish. It
    is halved until the likelihood grows, unless its gain is below 1e-10 of the likelihood: then steps square the error,
    and rounding could hide the growth. When the gain is below the rounding of the likelihood, one last step makes the
    coefficients exact to rounding.
    """
    counts = positives + negatives
    total, positive = float(counts.sum()), float(positives.sum())
    centre = float(counts @ x) / total
    z = x - centre
    scale = math.sqrt(float(counts @ (z * z)) / total)
    z /= scale
    a, b, value = math.log(positive / float(negatives.sum())), 0.0, _entropy(positive, total - positive)
    if issued > value:
        a, b, value = centre, scale, issued
    t = a + b * z
    small = _small(t)
    for _ in range(_MOST_STEPS):
        up, down = _rates(t, small)
        residuals, weight = positives * down - negatives * up, counts * up * down
        mass, gradient = float(weight.sum()), float(residuals.sum())
        mean = float(weight @ z) / mass
        around = z - mean
        slope_gradient = float(residuals @ around)
        step_b = slope_gradient / float((weight * around) @ around)
        step = gradient / mass + step_b * around
        gain = (gradient * gradient / mass + slope_gradient * step_b) / 2
        farthest, part = float(np.abs(step).max(initial=_TINY)), 1.0
        if farthest > _FREE:
            part = min(1.0, max(_FREE, float(np.abs(t).max())) / farthest)
        for _ in range(_HALVINGS):
            moved = a + part * (gradient / mass - step_b * mean), b + part * step_b
            there = moved[0] + moved[1] * z
            small = _small(there)
            reached = _log_likelihood(there, small, positives, negatives)
            if reached > value or gain <= _CLOSE * abs(value):
                break
            part /= 2
        else:
            break
        (a, b), t, value = moved, there, reached
        if gain <= _ROUNDING * abs(value):
            break
    return (a, b), (centre, scale), value
