"""The families of maps of one event: how each is fitted to a table.

A map is fitted by maximum likelihood to the rows and to S *prior rows*, which have the scores of the rows and outcomes
as the scores say: n' = n (1 + S / N) and k' = k + S n p / N. So a fit exists for every table with both outcomes, and
few rows change the scores little.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from calibrant.errors import InputError
from calibrant.measures.isotonic.isotonic import isotonic_fit
from calibrant.recalibration.pieces import CLIP, Pieces
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.dataclass import dataclass

#: The prior rows of every fit.
PRIOR_ROWS: Final = 20.0

#: The weight of the Cox line in each block of the isotonic fit.
_BLOCK_PRIOR: Final = 32.0
_STEEPEST: Final = 100.0  # rise of a line between knots: steeper ones would lose digits of the score
_LEAST_RATE: Final = 2.0**-50  # of a block: the Cox line may say 0 or 1 to rounding
_BINS: Final = 15
_SMOOTHED_KNOTS: Final = 65

_STEPS: Final = 100
_HALVINGS: Final = 60
_ROUNDING: Final = 2.0**-52


class Rows(NamedTuple):
    """What a map is fitted to, (K,) each: distinct scores, the rows of each and how many have the event."""

    scores: Float64s
    counts: Float64s
    positives: Float64s

    @property
    def log_scores(self) -> tuple[Float64s, Float64s]:
        """The logarithms of p and of 1 - p of the scores, moved into [CLIP, 1 - CLIP]."""
        p = np.clip(self.scores, CLIP, 1 - CLIP)
        return np.log(p), np.log1p(-p)

    def with_prior(self, prior_rows: float) -> Rows:
        """Return these rows and the prior rows."""
        if not prior_rows:
            return self
        share = prior_rows / float(self.counts.sum())
        expected = self.counts * np.clip(self.scores, CLIP, 1 - CLIP)
        return Rows(self.scores, self.counts * (1 + share), self.positives + share * expected)


class Fit(NamedTuple):
    """A fitted map: its kind and its parameters in a stored map, and its pieces."""

    kind: str
    parameters: dict[str, Any]
    pieces: Pieces

    @property
    def rising(self) -> bool:
        """Whether higher scores become higher: not where the fit is at its bound."""
        return bool((self.pieces.positive + self.pieces.negative > 0).all()) or self.kind == "bins"


@dataclass(frozen=True)
class Family:
    """A family of maps.

    Attributes
    ----------
    name : str
        The name that users pass.
    label : str
        What a report calls it.
    fit : callable
        From `Rows` and the number of prior rows to a `Fit`; for classes from `ClassRows` to a `Softmax`.
    aliases : tuple of str
        Other names for the same.
    nearly_unchanged : bool
        Whether "auto" prefers this family within one standard error of the least loss.
    """

    name: str
    label: str
    fit: Callable[[Any, float], Any]
    aliases: tuple[str, ...] = ()
    nearly_unchanged: bool = False


def _identity(rows: Rows, prior_rows: float) -> Fit:
    del rows, prior_rows
    return Fit("identity", {}, UNCHANGED)


def _smoothed(rows: Rows, prior_rows: float) -> Fit:
    """Return (N p + r) / (N + 1), with the rate r = (K + 1/2) / (N + 1), by lines between knots in log-odds."""
    del prior_rows
    n = float(rows.counts.sum())
    rate = (float(rows.positives.sum()) + 0.5) / (n + 1)
    x = np.linspace(-1, 1, _SMOOTHED_KNOTS) * (math.log1p(-CLIP) - math.log(CLIP))
    p, q = 1 / (1 + np.exp(-x)), 1 / (1 + np.exp(x))
    y = np.log(n * p + rate) - np.log(n * q + 1 - rate)
    return Fit("knots", {"log_odds": x.tolist(), "mapped": y.tolist(), "slope": 1.0}, Pieces.of_knots(x, y, 1.0))


def _line(intercept: float, slope: float) -> Fit:
    return Fit("line", {"intercept": intercept, "slope": slope}, Pieces.of_line(intercept, slope))


def _cox(rows: Rows, prior_rows: float) -> Fit:
    log_p, log_q = rows.log_scores
    return _line(*_logistic(rows.with_prior(prior_rows), [log_p - log_q], start=(0.0, 1.0)))


def _shift(rows: Rows, prior_rows: float) -> Fit:
    log_p, log_q = rows.log_scores
    (intercept,) = _logistic(rows.with_prior(prior_rows), [], start=(0.0,), offset=log_p - log_q)
    return _line(intercept, 1.0)


def _temperature(rows: Rows, prior_rows: float) -> Fit:
    log_p, log_q = rows.log_scores
    (slope,) = _logistic(rows.with_prior(prior_rows), [log_p - log_q], start=(1.0,), constant=False)
    return _line(0.0, slope)


def _beta(rows: Rows, prior_rows: float) -> Fit:
    log_p, log_q = rows.log_scores
    parameters = _logistic(rows.with_prior(prior_rows), [log_p, -log_q], start=(0.0, 1.0, 1.0))
    return Fit(
        "beta", dict(zip(("constant", "positive", "negative"), parameters, strict=True)), Pieces.of_beta(*parameters)
    )


def _isotonic(rows: Rows, prior_rows: float) -> Fit:
    """Return lines in log-odds between the blocks of the isotonic fit, each pulled towards the Cox line.

    A block of N_j rows, K_j of them with the event, whose rows the Cox map gives the mean Q_j, has the value
    (K_j + 32 Q_j) / (N_j + 32) at the mean log-odds of its rows.
    """
    line = _cox(rows, prior_rows)
    slope = line.parameters["slope"]
    log_p, log_q = rows.log_scores
    cox = 1 / (1 + np.exp(-line.pieces.log_odds(rows.scores)))
    starts = isotonic_fit(rows.counts, rows.positives).starts
    n, k, q, z = (
        np.add.reduceat(column, starts)
        for column in (rows.counts, rows.positives, rows.counts * cox, rows.counts * (log_p - log_q))
    )
    weights = n + _BLOCK_PRIOR
    x, value = z / n, k + _BLOCK_PRIOR * q / n
    starts = isotonic_fit(weights, value).starts
    weights, value, x = (np.add.reduceat(each, starts) for each in (weights, value, weights * x))
    knots: list[tuple[float, float, float]] = []
    for block in zip(weights.tolist(), value.tolist(), x.tolist(), strict=True):
        while knots and _too_steep(knots[-1], block):
            before = knots.pop()
            block = (before[0] + block[0], before[1] + block[1], before[2] + block[2])
        knots.append(block)
    x, y = np.array([_knot(block) for block in knots]).T
    parameters = {"log_odds": x.tolist(), "mapped": y.tolist(), "slope": slope}
    return Fit("knots", parameters, Pieces.of_knots(x, y, slope))


def _knot(block: Sequence[float]) -> tuple[float, float]:
    """Return the log-odds of the score and of the value of a block: its weight, its events, its sum of log-odds."""
    weight, value, x = block
    rate = min(max(value / weight, _LEAST_RATE), 1 - _LEAST_RATE)
    return x / weight, math.log(rate) - math.log1p(-rate)


def _too_steep(one: Sequence[float], other: Sequence[float]) -> bool:
    (x, y), (x_other, y_other) = _knot(one), _knot(other)
    return not 0 < y_other - y <= _STEEPEST * (x_other - x)


def _histogram(rows: Rows, prior_rows: float) -> Fit:
    """Return the rate of each of 15 bins with equally many rows; ties are not divided."""
    cumulated = np.cumsum(rows.counts)
    ends = np.searchsorted(cumulated, cumulated[-1] * np.arange(1, _BINS) / _BINS, side="left") + 1
    starts = np.unique(np.concatenate([[0], ends[ends < len(rows.scores)]]))
    moved = np.clip(rows.scores, CLIP, 1 - CLIP)  # a map cannot tell scores beyond apart
    starts = starts[(starts == 0) | (moved[starts] > moved[starts - 1])]
    prior = rows.with_prior(prior_rows)
    rates = np.add.reduceat(prior.positives, starts) / np.add.reduceat(prior.counts, starts)
    edges = moved[starts[1:]]
    return Fit("bins", {"edges": edges.tolist(), "rates": rates.tolist()}, Pieces.of_bins(edges, rates))


UNCHANGED: Final = replace(Pieces.of_line(0.0, 1.0), clip=0.0)

IDENTITY: Final = Family("identity", "no change", _identity, nearly_unchanged=True)
SMOOTHED: Final = Family("smoothed", "the scores with one row of the event rate", _smoothed, nearly_unchanged=True)
COX: Final = Family("cox", "a line in log-odds", _cox, ("platt", "sigmoid", "logistic"))
SHIFT: Final = Family("shift", "a shift of the log-odds", _shift)
TEMPERATURE: Final = Family("temperature", "temperature scaling", _temperature, ("ts",))
BETA: Final = Family("beta", "beta calibration", _beta)
ISOTONIC: Final = Family("isotonic", "shrunken isotonic regression", _isotonic)
HISTOGRAM: Final = Family("histogram", "a constant for each bin", _histogram)

#: The candidates of "auto" for one event; where a score of 0 or 1 was wrong, `SMOOTHED` is there for `IDENTITY`.
CANDIDATES: Final = (IDENTITY, TEMPERATURE, COX, BETA, ISOTONIC)

#: The families of one event.
FAMILIES: Final = (*CANDIDATES, SHIFT, SMOOTHED, HISTOGRAM)


def names_of(families: Sequence[Family]) -> dict[str, Family]:
    """Return families by their names and aliases."""
    return {name: family for family in families for name in (family.name, *family.aliases)}


def family_of(name: str) -> Family:
    """Return a family of one event by its name or an alias."""
    return names_of(FAMILIES)[name]


# ---------------------------------------------------------------- maximum likelihood


def _logistic(
    rows: Rows,
    columns: Sequence[Float64s],
    *,
    start: tuple[float, ...],
    constant: bool = True,
    offset: Float64s | float = 0.0,
) -> tuple[float, ...]:
    """Return the most likely constant and factors of the columns; factors are at least 0.

    The likelihood is concave. If its maximum has a negative factor, the maximum with all factors at least 0 has a
    factor of 0: each is tried.
    """
    free = _newton(rows, columns, start=start, constant=constant, offset=offset)
    factors = free[1:] if constant else free
    if all(factor >= 0 for factor in factors):
        return free
    faces = []
    for i in range(len(columns)):
        kept = [column for j, column in enumerate(columns) if j != i]
        place = i + constant
        inner = _logistic(rows, kept, start=start[:place] + start[place + 1 :], constant=constant, offset=offset)
        faces.append((*inner[:place], 0.0, *inner[place:]))
    return max(faces, key=lambda face: _likelihood(rows, _predictor(face, columns, constant, offset)))


def _predictor(
    parameters: Sequence[float], columns: Sequence[Float64s], constant: bool, offset: Float64s | float
) -> Float64s:
    factors = parameters[1:] if constant else parameters
    t = sum((factor * column for factor, column in zip(factors, columns, strict=True)), offset)
    return np.asarray(t + parameters[0] if constant else t)


def _likelihood(rows: Rows, t: Float64s) -> float:
    """Return sum k log s(t) + (n - k) log s(-t)."""
    small = np.log1p(np.exp(-np.abs(t)))
    return -float(rows.counts @ (np.maximum(t, 0) + small) - rows.positives @ t)


def _newton(
    rows: Rows,
    columns: Sequence[Float64s],
    *,
    start: tuple[float, ...],
    constant: bool,
    offset: Float64s | float,
) -> tuple[float, ...]:
    """Return the parameters of the largest likelihood, by Newton's method with halved steps.

    Raises
    ------
    InputError
        If the likelihood has no maximum, because a threshold separates the outcomes and prior rows are missing.
    """
    if not start:
        return ()
    mixed = bool(((rows.positives > 0) & (rows.positives < rows.counts)).any())  # so that a maximum exists
    design = np.stack([np.ones_like(rows.scores)] * constant + list(columns))
    at = np.array(start)
    t = np.asarray(at @ design + offset)
    value, total = _likelihood(rows, t), float(rows.counts.sum())
    for _ in range(_STEPS):
        small = np.exp(-np.abs(t))
        larger = 1 / (1 + small)
        up = np.where(t >= 0, larger, small * larger)
        residuals, weights = rows.positives - rows.counts * up, rows.counts * small * larger**2
        gradient, curvature = design @ residuals, (design * weights) @ design.T
        try:
            step = np.linalg.solve(curvature, gradient)
        except np.linalg.LinAlgError:
            if not mixed:
                break
            step = np.linalg.lstsq(curvature, gradient)[0]  # few distinct scores
        gain = float(gradient @ step) / 2
        if not math.isfinite(gain):
            break
        part = 1.0
        for _ in range(_HALVINGS):
            moved = at + part * step
            there = np.asarray(moved @ design + offset)
            reached = _likelihood(rows, there)
            if reached > value or gain <= 1e-10 * abs(value):
                break
            part /= 2
        at, t, value = moved, there, reached
        if gain <= _ROUNDING * (total if mixed else abs(value)):
            return tuple(at.tolist())
    raise InputError(
        "prior_rows",
        "scores that overlap between outcomes, or prior rows",
        "scores that separate the outcomes, without prior rows",
        "leave prior_rows out: without prior rows the most likely map is infinitely steep",
    )
