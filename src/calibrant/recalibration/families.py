"""The families of maps of one event: how each is fitted to a table.

A map is fitted by maximum likelihood to the rows and to S *prior rows*, which have the same scores and outcomes in the
proportions that these scores predict: n' = n (1 + S / N) and k' = k + S n p / N. So a fit exists for every table with
both outcomes, and few rows change the scores little.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from operator import methodcaller
from typing import Any, Final, NamedTuple

import numpy as np

from calibrant.errors import InputError
from calibrant.kernels.row_blocks import in_order
from calibrant.measures.isotonic.isotonic import isotonic_fit
from calibrant.recalibration.pieces import Pieces, probabilities
from calibrant.recalibration.scored_rows import FitRows
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import cached_property
from calibrant.runtime.dataclass import dataclass

#: The prior rows of every fit.
PRIOR_ROWS: Final = 20.0

#: The parameters of no change.
_NO_CHANGE: Final = {"intercept": 0.0, "slope": 1.0, "constant": 0.0, "positive": 1.0, "negative": 1.0}

#: The weight of the Cox line in each block of the isotonic fit.
_BLOCK_PRIOR: Final = 32.0
_STEEPEST: Final = 100.0  # rise of a line between knots: steeper ones would lose digits of the score
_LEAST_RATE: Final = 2.0**-50  # of a block: the Cox line may say 0 or 1 to rounding
_BINS: Final = 15

_FAR: Final = 30.0  # log-odds whose probabilities are 0 or 1 to rounding
_STEPS: Final = 100
_HALVINGS: Final = 60
_ROUNDING: Final = 2.0**-52
_SEPARATED: Final = 1e-9  # the mean log loss of outcomes that a threshold separates falls to 0
_DETERMINED: Final = 1e-10  # curvature of a direction, relative to the largest
_ENTRIES: Final = 1 << 14  # rows of a block, so that its temporaries stay in the cache
_POOLED: Final = 1 << 13  # means of rows: a fit to them is the start of a large fit


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted map: its kind and its parameters in a stored map."""

    kind: str
    parameters: dict[str, Any]

    @cached_property
    def pieces(self) -> Pieces:
        """The pieces of the map."""
        return Pieces.of(self.kind, self.parameters)

    @property
    def rising(self) -> bool:
        """Whether higher scores become higher: not where the fit is at its bound."""
        return self.pieces.rising or self.kind == "bins"

    def shrunk(self, shrinkage: float) -> Fit:
        """Return the map whose log-odds are moved by a share towards those of the scores."""
        if not shrinkage:
            return self
        moved = {
            name: (1 - shrinkage) * value + shrinkage * _NO_CHANGE[name]
            for name, value in self.parameters.items()
            if name in _NO_CHANGE
        }
        if self.kind == "knots":
            x, y = np.array(self.parameters["log_odds"]), np.array(self.parameters["mapped"])
            moved["mapped"] = ((1 - shrinkage) * y + shrinkage * x).tolist()
        return replace(self, parameters={**self.parameters, **moved})


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
        From `FitRows` to a `Fit`; for classes from `ClassRows` to a `Softmax`.
    aliases : tuple of str
        Other names for the same.
    nearly_unchanged : bool
        Whether this leaves the scores unchanged, so that "auto" shrinks the others towards it.
    keeps_order : bool
        Whether higher scores become higher. "auto" does not shrink a map that loses the order.
    """

    name: str
    label: str
    fit: Callable[[Any], Any]
    aliases: tuple[str, ...] = ()
    nearly_unchanged: bool = False
    keeps_order: bool = True


def _identity(rows: FitRows) -> Fit:
    del rows
    return Fit("identity", {})


def _clipped(rows: FitRows) -> Fit:
    return _line(rows, 0.0, 1.0)


def _fit(kind: str, rows: FitRows, **parameters: Any) -> Fit:
    return Fit(kind, {**parameters, "smallest": rows.smallest, "largest": rows.largest})


def _line(rows: FitRows, intercept: float, slope: float) -> Fit:
    return _fit("line", rows, intercept=intercept, slope=slope)


def _cox(rows: FitRows) -> Fit:
    return _line(rows, *_logistic(rows.with_prior, [rows.moved], start=(0.0, 1.0)))


def _shift(rows: FitRows) -> Fit:
    below = np.cumsum(rows.counts - rows.positives)[-1]
    start = -float(rows.moved[np.searchsorted(np.cumsum(rows.counts), below)])  # half the events of that score
    (intercept,) = _logistic(rows.with_prior, [], start=(start,), offset=rows.moved)
    return _line(rows, intercept, 1.0)


def _temperature(rows: FitRows) -> Fit:
    (slope,) = _logistic(rows.with_prior, [rows.moved], start=(1.0,), constant=False)
    return _line(rows, 0.0, slope)


def _beta(rows: FitRows) -> Fit:
    columns = [-np.logaddexp(0, -rows.moved), np.logaddexp(0, rows.moved)]
    constant, positive, negative = _logistic(rows.with_prior, columns, start=(0.0, 1.0, 1.0))
    return _fit("beta", rows, constant=constant, positive=positive, negative=negative)


def _isotonic(rows: FitRows) -> Fit:
    """Return lines in log-odds between the blocks of the isotonic fit, each pulled towards the Cox line.

    A block of N_j rows, K_j of them with the event, whose rows the Cox map gives the mean Q_j, has the value
    (K_j + 32 Q_j) / (N_j + 32) at the mean log-odds of its rows.
    """
    line = rows.of(_cox)
    slope = line.parameters["slope"]
    cox = probabilities(line.pieces.of_logits(rows.moved))
    starts = isotonic_fit(rows.counts, rows.positives).starts
    n, k, q, z = (
        np.add.reduceat(column, starts)
        for column in (rows.counts, rows.positives, rows.counts * cox, rows.counts * rows.moved)
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
    return _fit("knots", rows, log_odds=x.tolist(), mapped=y.tolist(), slope=slope)


def _knot(block: Sequence[float]) -> tuple[float, float]:
    """Return the log-odds of the score and of the value of a block: its weight, its events, its sum of log-odds."""
    weight, value, x = block
    rate = min(max(value / weight, _LEAST_RATE), 1 - _LEAST_RATE)
    return x / weight, math.log(rate) - math.log1p(-rate)


def _too_steep(one: Sequence[float], other: Sequence[float]) -> bool:
    (x, y), (x_other, y_other) = _knot(one), _knot(other)
    return not 0 < y_other - y <= _STEEPEST * (x_other - x)


def _histogram(rows: FitRows) -> Fit:
    """Return the rate of each of 15 bins with equally many rows; ties are not divided."""
    cumulated = np.cumsum(rows.counts)
    ends = np.searchsorted(cumulated, cumulated[-1] * np.arange(1, _BINS) / _BINS, side="left") + 1
    starts = np.unique(np.concatenate([[0], ends[ends < len(rows.counts)]]))
    moved = probabilities(rows.moved)  # a map cannot tell scores beyond apart
    starts = starts[(starts == 0) | (moved[starts] > moved[starts - 1])]
    prior = rows.with_prior
    rates = np.add.reduceat(prior.positives, starts) / np.add.reduceat(prior.counts, starts)
    first = starts[1:]
    edges = probabilities((rows.moved[first - 1] + rows.moved[first]) / 2)  # a score itself could be rounded
    return _fit("bins", rows, edges=edges.tolist(), rates=rates.tolist())


def _constant(rows: FitRows) -> Fit:
    """Return the rate of all rows, and of half a row with and half a row without the event."""
    rate = (float(rows.positives.sum()) + 0.5) / (float(rows.counts.sum()) + 1)
    return _fit("bins", rows, edges=[], rates=[rate])


IDENTITY: Final = Family("identity", "the unchanged scores", _identity, nearly_unchanged=True)
CLIPPED: Final = Family("clipped", "the scores, clipped away from 0 and 1", _clipped, nearly_unchanged=True)
COX: Final = Family("cox", "a line in log-odds", methodcaller("of", _cox), ("platt", "sigmoid", "logistic"))
SHIFT: Final = Family("shift", "a shift of the log-odds (intercept update)", _shift, ("intercept",))
TEMPERATURE: Final = Family("temperature", "temperature scaling", _temperature, ("ts",))
BETA: Final = Family("beta", "beta calibration", _beta)
ISOTONIC: Final = Family("isotonic", "isotonic regression, shrunk towards a line in log-odds", _isotonic)
HISTOGRAM: Final = Family("histogram", "the observed frequency of each bin", _histogram, keeps_order=False)
CONSTANT: Final = Family("constant", "a constant", _constant, keeps_order=False)

#: The candidates of "auto" for one event; where a score of 0 or 1 was wrong, `CLIPPED` is there for `IDENTITY`.
CANDIDATES: Final = (IDENTITY, TEMPERATURE, COX, BETA, ISOTONIC, CONSTANT)

#: The families of one event.
FAMILIES: Final = (*CANDIDATES, SHIFT, CLIPPED, HISTOGRAM)


def names_of(families: Sequence[Family]) -> dict[str, Family]:
    """Return families by their names and aliases."""
    return {name: family for family in families for name in (family.name, *family.aliases)}


# ---------------------------------------------------------------- maximum likelihood


class _Logistic(NamedTuple):
    """The likelihood of a constant, if there is one, and of factors of columns, added to an offset.

    Sums over rows are in the order of their scores, and do not use a library of linear algebra.
    """

    counts: Float64s
    positives: Float64s
    columns: tuple[Float64s, ...]
    constant: bool
    offset: Float64s

    def without(self, i: int) -> _Logistic:
        """Return the same without one column, whose factor is 0."""
        return self._replace(columns=self.columns[:i] + self.columns[i + 1 :])

    def pooled(self) -> _Logistic:
        """Return the same of the means of consecutive rows, about `_POOLED` of them."""
        size = min(1 << (len(self.offset) // _POOLED).bit_length(), _ENTRIES)

        def of_block(part: slice) -> list[Float64s]:
            n, k = self.counts[part], self.positives[part]
            weighted = [n * each[part] for each in (self.offset, *self.columns)]
            starts = np.arange(0, len(n), size)
            return [np.add.reduceat(each, starts) for each in (n, k, *weighted)]

        counts, positives, *sums = (np.concatenate(each) for each in self._blocks(of_block))
        offset, *columns = (each / counts for each in sums)
        return _Logistic(counts, positives, tuple(columns), self.constant, offset)

    def likelihood(self, at: Float64s) -> tuple[float, Float64s, Float64s]:
        """Return sum k log s(t) + (n - k) log s(-t), with the gradient and the curvature."""

        def of_block(part: slice) -> tuple[float, Float64s, Float64s]:
            n, k = self.counts[part], self.positives[part]
            design = [np.ones_like(n)] * self.constant + [column[part] for column in self.columns]
            t = sum((factor * column for factor, column in zip(at, design, strict=True)), start=self.offset[part])
            small = np.exp(-np.abs(t))
            larger = 1 / (1 + small)
            up = np.where(t >= 0, larger, small * larger)
            value = float(np.sum(k * t - n * (np.maximum(t, 0) + np.log1p(small))))
            rest, weight = k - n * up, n * small * larger**2
            gradient = np.array([np.sum(column * rest) for column in design])
            curvature = np.array([[np.sum(one * other * weight) for one in design] for other in design])
            return value, gradient, curvature

        value, gradient, curvature = (sum(each[1:], start=each[0]) for each in self._blocks(of_block))
        return value, gradient, curvature

    def _blocks(self, work: Callable[[slice], Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
        """Return what ``work`` returns for blocks of rows, each value of all blocks together."""
        n_blocks = -(-len(self.offset) // _ENTRIES)
        return zip(*in_order(lambda i: work(slice(i * _ENTRIES, (i + 1) * _ENTRIES)), n_blocks), strict=True)


def _logistic(
    rows: FitRows,
    columns: Sequence[Float64s],
    *,
    start: tuple[float, ...],
    constant: bool = True,
    offset: Float64s | None = None,
) -> tuple[float, ...]:
    """Return the most likely constant and factors of the columns; factors are at least 0."""
    # Columns of log-odds in the hundreds would hide the constant in the curvature.
    scales = [1.0] * constant + [float(np.abs(column).max()) or 1.0 for column in columns]
    scaled = tuple(column / scale for column, scale in zip(columns, scales[constant:], strict=True))
    if offset is None:
        offset = np.zeros(len(rows.counts))
        if max(scales) > _FAR:  # where the curve is flat, no step of Newton's method leads back
            start = tuple(0.0 for _ in start)
    task = _Logistic(rows.counts, rows.positives, scaled, constant, offset)
    return tuple((_most_likely(task, np.array(start) * scales) / scales).tolist())


def _most_likely(task: _Logistic, start: Float64s) -> Float64s:
    """Return the parameters of the largest likelihood with factors of at least 0.

    The likelihood is concave. If its maximum has a negative factor, the maximum with all factors at least 0 has a
    factor of 0: each is tried.
    """
    if not len(start):
        return start
    if len(task.offset) >= 2 * _POOLED:  # a step or two with all rows remain
        start = _newton(task.pooled(), start)
    free = _newton(task, start)
    if (free[task.constant :] >= 0).all():
        return free
    faces = []
    for i in range(len(task.columns)):
        place = i + task.constant
        faces.append(np.insert(_most_likely(task.without(i), np.delete(start, place)), place, 0.0))
    return max(faces, key=lambda face: task.likelihood(face)[0])


def _newton(task: _Logistic, start: Float64s) -> Float64s:
    """Return the parameters of the largest likelihood, by Newton's method with halved steps.

    Raises
    ------
    InputError
        If the likelihood has no maximum, because a threshold separates the outcomes and prior rows are missing.
    """
    n, k = task.counts, task.positives
    mixed = bool(((k > 0) & (k < n)).any())  # so that a maximum exists
    at, total = start, float(n.sum())
    value, gradient, curvature = task.likelihood(at)
    for _ in range(_STEPS):
        step = _step(gradient, curvature)
        gain = float(np.sum(gradient * step)) / 2
        if not math.isfinite(gain):
            break
        part = 1.0
        for _ in range(_HALVINGS):
            moved = at + part * step
            reached, gradient, curvature = task.likelihood(moved)
            if reached > value or gain <= 1e-10 * abs(value):
                break
            part /= 2
        else:
            if mixed:  # steps change the likelihood by less than its rounding: the gradient alone leads on
                return _polished(task, at, gradient, curvature, np.full(len(at), math.inf))
        at, value = moved, reached
        if not mixed and value > -_SEPARATED * total:
            break
        if gain <= _ROUNDING * (total if mixed else abs(value)):
            return _polished(task, at, gradient, curvature, step)
    raise InputError(
        "prior_rows",
        "prior_rows above 0, or scores that overlap between the outcomes",
        "0 or nearly 0, and scores that separate the outcomes",
        "leave prior_rows out for the default, 20, because with prior_rows=0 the most likely map is infinitely steep",
    )


def _step(gradient: Float64s, curvature: Float64s) -> Float64s:
    """Return the step of Newton's method; what few distinct scores do not determine remains as it was."""
    widths = np.sqrt(np.diag(curvature))
    widths = np.where(widths > 0, widths, 1.0)
    return np.asarray(
        np.linalg.lstsq(curvature / np.outer(widths, widths), gradient / widths, rcond=_DETERMINED)[0] / widths
    )


def _polished(task: _Logistic, at: Float64s, gradient: Float64s, curvature: Float64s, before: Float64s) -> Float64s:
    """Return the parameters after further steps of Newton's method, as long as these shrink: the rest is rounding."""
    for _ in range(_STEPS):
        step = _step(gradient, curvature)
        if not np.abs(step).max() < np.abs(before).max():
            break
        at, before = at + step, step
        _, gradient, curvature = task.likelihood(at)
    return at
