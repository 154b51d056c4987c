"""Maps of the probabilities of classes: q = softmax(W log p + c), with W a number, a diagonal or a matrix.

The temperature b is fitted first. The rest is fitted to b log p with a ridge towards no further change, structured
scaling (Berta et al. 2025): the mean cross-entropy plus

    C / N (|c|^2 + |diag(W) - 1|^2) + C (C - 1) / N |off-diagonal of W|^2

Prior rows have the probabilities of the rows, and classes as they say: outcomes y become (y + s p) / (1 + s), with
s = S / N. A pass over the rows yields what the fit needs; blocks of rows are added in their order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError
from calibrant.kernels.compiling import kernels_for
from calibrant.kernels.row_blocks import in_order
from calibrant.recalibration.families import Family
from calibrant.recalibration.pieces import LEAST, MOST
from calibrant.runtime.arrays import Float64s, Floats
from calibrant.runtime.dataclass import dataclass

_ENTRIES: Final = 1 << 16  # of a block of rows, so that its temporaries stay in the cache
_READ: Final = 1 << 18  # the same of kernels, which have no temporaries
_FLATTEST, _STEEPEST = 2.0**-40, 64.0  # inverse temperatures
_CLOSE: Final = 1e-7  # steps of Newton's method, relative
_STEPS: Final = 100
_POLISHING: Final = 4  # steps of Newton's method after the trust region
_FIRST_ROWS: Final = 2000
_TOLERANCE: Final = 1e-9  # of the slope of the mean cross-entropy
_TOLERANCE_OF_FOLDS: Final = 1e-6  # the same, of maps that only evaluate


@dataclass(frozen=True, eq=False)
class Softmax:
    """A map of the probabilities of C classes.

    Attributes
    ----------
    factors : (C,) or (C, C)
        The diagonal of W, or W, whose rows are the new classes.
    constants : (C,)
        c.
    smallest : float
        Smaller probabilities are moved up to this. With 0 only those of 0 are moved, to the smallest number.
    """

    factors: Float64s
    constants: Float64s
    smallest: float

    @classmethod
    def of_temperature(cls, slope: float, rows: SoftmaxRows) -> Softmax:
        """Return the map that multiplies all log-probabilities by a slope, the inverse temperature."""
        n_classes = rows.shape[1]
        return cls(np.full(n_classes, slope), np.zeros(n_classes), rows.rows.smallest)

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return len(self.constants)

    @property
    def is_matrix(self) -> bool:
        """Whether classes are mixed."""
        return self.factors.ndim == 2

    @property
    def unchanged(self) -> bool:
        """Whether probabilities remain unchanged."""
        same = self.smallest == 0 and not self.is_matrix
        return same and bool((self.factors == 1).all() and (self.constants == 0).all())

    @property
    def floor(self) -> float:
        """What zeros and smaller probabilities are moved up to, if they change at all."""
        return max(self.smallest, LEAST)

    @property
    def floor_of_logits(self) -> float:
        """What smaller log-probabilities of logits are moved up to."""
        return math.log(self.smallest) if self.smallest else -MOST

    def shrunk(self, shrinkage: float) -> Softmax:
        """Return the map whose log-probabilities are moved by a share towards the unchanged ones."""
        if not shrinkage:
            return self
        unchanged = np.eye(self.n_classes) if self.is_matrix else 1.0
        factors = (1 - shrinkage) * self.factors + shrinkage * unchanged
        return replace(self, factors=factors, constants=(1 - shrinkage) * self.constants)

    def predictors(self, log_p: Floats) -> Float64s:
        """Return W log p + c of rows (n, C)."""
        t = log_p @ self.factors.T if self.is_matrix else log_p * self.factors
        return np.asarray(t + self.constants, np.float64)

    def log_probabilities(self, log_p: Floats) -> Float64s:
        """Return the logarithms of the mapped probabilities of rows (n, C)."""
        return log_softmax(self.predictors(log_p))


def log_softmax(t: Float64s) -> Float64s:
    """Return the logarithm of the softmax of each row (n, C)."""
    around = t - t.max(axis=1, keepdims=True)
    return np.asarray(around - np.log(np.exp(around).sum(axis=1, keepdims=True)))


class LogRows(NamedTuple):
    """The log-probabilities of N rows, z = max(x - shift, log(smallest)), at which logits x are not copied.

    Attributes
    ----------
    values : (N, C)
        x, the logits or the log-probabilities.
    shifts : (N,)
        The logarithm of sum exp x; 0 for log-probabilities.
    largest : (N,)
        The largest x of each row.
    means : (N,)
        The mean of the logarithms in each row by its unchanged probabilities.
    smallest : float
        What smaller probabilities are moved up to; 0 for none. `prepared` takes the smallest one but for zeros.
    zeros : bool
        Whether there are zeros.
    """

    values: Floats
    shifts: Floats
    largest: Floats
    means: Float64s
    smallest: float
    zeros: bool

    def part(self, places: slice | NDArray[np.intp]) -> Floats:
        """Return z of some rows."""
        return np.asarray(np.maximum(self.values[places] - self.shifts[places, np.newaxis], self.floor))

    def take(self, places: slice | NDArray[np.intp]) -> LogRows:
        """Return some of the rows."""
        values, shifts, largest = (column[places] for column in (self.values, self.shifts, self.largest))
        return self._replace(values=values, shifts=shifts, largest=largest, means=self.means[places])

    @property
    def floor(self) -> np.floating[Any]:
        """The least z, in the type of the numbers."""
        least: np.floating[Any] = self.values.dtype.type(math.log(self.smallest) if self.smallest else -MOST)
        return least


def log_probabilities(values: Floats, smallest: float, *, logits: bool) -> Floats:
    """Return the logarithms of probabilities (n, C), or of the softmax of logits, at least that of ``smallest``."""
    return prepared(values, logits=logits)._replace(smallest=smallest).part(slice(None))


def prepared(values: Floats, *, logits: bool) -> LogRows:
    """Return the log-probabilities of rows of probabilities, or of logits, in which only zeros are moved."""
    kernels = kernels_for("rows", values.size)
    least = math.log(LEAST)
    n = len(values)
    shifts, largest = np.zeros((2, n), values.dtype)
    logs, means = values if logits else np.empty_like(values), np.empty(n)
    lowest, zeros = [], []

    def of_logits(part: slice) -> tuple[()]:
        x, most = logs[part], largest[part]
        x.max(axis=1, out=most)
        kernels.log_totals(x, most, least, shifts[part], means[part], np.empty(x.shape[1], x.dtype))
        low = x.min(axis=1)
        if zero := bool(np.isneginf(low).any()):
            low = x.min(axis=1, where=x > -math.inf, initial=math.inf)
        zeros.append(zero)
        lowest.append(float((low - shifts[part]).min()))
        return ()

    def of_probabilities(part: slice) -> tuple[()]:
        p, z = values[part], logs[part]
        with np.errstate(divide="ignore"):
            np.maximum(np.log(p), z.dtype.type(least), out=z)
        z.max(axis=1, out=largest[part])
        means[part] = np.einsum("ij,ij->i", p, z) / p.sum(axis=1, dtype=np.float64)
        low = p.min()
        if zero := bool(low == 0):
            low = p.min(where=p > 0, initial=1.0)
        zeros.append(zero)
        lowest.append(math.log(low))
        return ()

    _blocks(values.shape, of_logits if logits else of_probabilities, entries=_READ)
    return LogRows(logs, shifts, largest, means, math.exp(min(lowest)), any(zeros))


class SoftmaxRows(NamedTuple):
    """What a map is fitted to, N rows.

    Attributes
    ----------
    rows : LogRows
        The log-probabilities.
    classes : (N,)
        The classes.
    weights : (N,)
        The weights.
    prior_rows : float
        The number of prior rows.
    start : Softmax, optional
        Where the fit starts.
    """

    rows: LogRows
    classes: NDArray[np.intp]
    weights: Float64s
    prior_rows: float = 0.0
    start: Softmax | None = None

    @property
    def share(self) -> float:
        """The weight of the prior rows over that of the rows."""
        return self.prior_rows / float(self.weights.sum())

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and classes."""
        n, n_classes = self.rows.values.shape
        return n, n_classes


def _blocks(
    shape: tuple[int, ...], work: Callable[[slice], tuple[Any, ...]], *, entries: int = _ENTRIES, alone: bool = False
) -> list[Any]:
    """Return the sums of the tuples that ``work`` returns for blocks of rows; ``alone`` if it has its own threads."""
    n, n_classes = shape
    step = max(1, entries // n_classes)

    def of_block(i: int) -> tuple[Any, ...]:
        return work(slice(i * step, (i + 1) * step))

    number = -(-n // step)
    parts = map(of_block, range(number)) if alone else in_order(of_block, number)
    return [sum(column[1:], start=column[0]) for column in zip(*parts, strict=True)]


# ---------------------------------------------------------------- the families


def _identity(rows: SoftmaxRows) -> Softmax:
    return replace(_clipped(rows), smallest=0.0)


def _clipped(rows: SoftmaxRows) -> Softmax:
    return Softmax.of_temperature(1.0, rows)


def _temperature(rows: SoftmaxRows) -> Softmax:
    return Softmax.of_temperature(_slope(rows), rows)


CLASS_IDENTITY: Final = Family("identity", "the unchanged scores", _identity, nearly_unchanged=True)
CLASS_CLIPPED: Final = Family("clipped", "the scores, clipped away from 0 and 1", _clipped, nearly_unchanged=True)
CLASS_TEMPERATURE: Final = Family("temperature", "temperature scaling", _temperature, ("ts",))
VECTOR: Final = Family("vector", "vector scaling", lambda rows: _structured(rows, matrix=False), ("svs",))
MATRIX: Final = Family("matrix", "matrix scaling", lambda rows: _structured(rows, matrix=True), ("sms",))

#: The candidates of "auto" for classes; where a probability of 0 was wrong, `CLASS_CLIPPED` is there for no change.
CLASS_CANDIDATES: Final = (CLASS_IDENTITY, CLASS_TEMPERATURE, VECTOR, MATRIX)

#: The families of classes.
CLASS_FAMILIES: Final = (*CLASS_CANDIDATES, CLASS_CLIPPED)

#: Matrix scaling is a candidate up to this number of classes, and from this number of rows of each class on average.
MOST_CLASSES: Final = 100
ROWS_OF_CLASS: Final = 25


# ---------------------------------------------------------------- temperature


def _slope(rows: SoftmaxRows) -> float:
    """Return the inverse temperature of the largest likelihood, from `_FLATTEST` to `_STEEPEST`.

    The derivative of the loss, g(b) = sum w (E z - z_y) with z = log p and the mean E by softmax(b z), increases in b.
    """
    share = rows.share
    own = _own(rows)
    wanted = float(np.sum(rows.weights * (own + share * rows.rows.means)))

    def slopes(b: float) -> tuple[float, float]:
        first, second = (1 + share) * _moments(rows, b)
        return first - wanted, second

    start = 1.0
    if rows.start is not None:
        start = float(rows.start.factors[0])
    elif len(own) >= 2 * _FIRST_ROWS:  # some rows are near enough for two steps with all
        some = np.arange(0, len(own), len(own) // _FIRST_ROWS)
        few = SoftmaxRows(rows.rows.take(some), rows.classes[some], rows.weights[some], rows.prior_rows)
        start = _slope(few)
    return _newton(slopes, start)


def _own(rows: SoftmaxRows) -> Float64s:
    """Return the log-probability of the class of each row."""
    log = rows.rows
    x = log.values[np.arange(len(rows.classes)), rows.classes]
    return np.maximum(x - log.shifts, log.floor).astype(np.float64)


def _moments(rows: SoftmaxRows, b: float) -> Float64s:
    """Return sum w E z and sum w Var z by the probabilities softmax(b z)."""
    log = rows.rows
    kernels = kernels_for("rows", log.values.size)

    def work(part: slice) -> tuple[Float64s]:
        moments = np.empty((len(rows.weights[part]), 2))
        kernels.temper_rows(log.values[part], log.shifts[part], float(log.floor), log.largest[part], b, moments)
        return ((rows.weights[part, np.newaxis] * moments).sum(axis=0),)

    (sums,) = _blocks(rows.shape, work, entries=_READ)
    return np.asarray(sums)


def is_flat(fitted: Softmax) -> bool:
    """Return whether a temperature has the slope 0: higher probabilities do not go with classes that occur."""
    return float(fitted.factors[0]) <= _FLATTEST


def check_temperature(fitted: Softmax) -> None:
    """Reject a temperature at the end of its range.

    Raises
    ------
    InputError
        If the likelihood falls with the slope from 0 on, or rises without end, because all rows are right.
    """
    if is_flat(fitted):
        expected = "probabilities that are higher for the class that occurs"
        got = "probabilities that are not higher for the class that occurs (slope 0), so that no temperature helps"
        raise InputError("probs", expected, got, "check that the columns are in the order of the classes")
    if float(fitted.factors[0]) >= _STEEPEST:
        raise InputError(
            "prior_rows",
            "prior_rows above 0, or a row whose true class does not have the highest probability",
            "0 or nearly 0, and only rows whose true class has the highest probability",
            "leave prior_rows out for the default, 20, because with prior_rows=0 the temperature would be 0",
        )


def _newton(slopes: Callable[[float], tuple[float, float]], start: float) -> float:
    """Return the root of an increasing function with its derivative, from `_FLATTEST` to `_STEEPEST`."""
    low, high, b = 0.0, _STEEPEST, start
    for _ in range(_STEPS):
        value, slope = slopes(b)
        low, high = (b, high) if value < 0 else (low, b)
        if high <= _FLATTEST or low >= _STEEPEST - _FLATTEST:
            return _FLATTEST if high <= _FLATTEST else _STEEPEST
        moved = b - value / slope if slope > 0 else math.inf
        inside = low <= moved <= high
        if inside and abs(moved - b) <= _CLOSE * b:
            break  # the next step would be of the order of the square of this one
        b = moved if inside else (low + high) / 2
    return moved


def _shares(z: Floats) -> Floats:
    """Return the probabilities, with the sum 1."""
    p = np.exp(z)
    return np.asarray(p / p.sum(axis=1, keepdims=True))


# ---------------------------------------------------------------- vector and matrix


def _structured(rows: SoftmaxRows, *, matrix: bool) -> Softmax:
    """Return the vector or matrix scaling of the least penalised cross-entropy, by a trust region."""
    from scipy.optimize import minimize

    n_classes = rows.shape[1]
    slope = _slope(rows._replace(start=None))
    task = _Penalised(rows, slope, matrix)
    unit = np.eye(n_classes) if matrix else np.ones(n_classes)
    at = np.concatenate([np.zeros(n_classes), unit.ravel()])
    if rows.start is not None:
        at = np.concatenate([rows.start.constants, rows.start.factors.ravel() / slope])
    options = {"gtol": _TOLERANCE if rows.start is None else _TOLERANCE_OF_FOLDS, "maxiter": 200}
    found = minimize(task.value, at, jac=True, hessp=task.product, method="trust-ncg", options=options).x
    if rows.start is None:
        found = task.polished(found)
    return Softmax(found[n_classes:].reshape(unit.shape) * slope, found[:n_classes], rows.rows.smallest)


class _Penalised:
    """The penalised mean cross-entropy of parameters c and W, one after the other, with its derivatives."""

    def __init__(self, rows: SoftmaxRows, slope: float, matrix: bool) -> None:
        self.rows, self.slope, self.matrix = rows, slope, matrix
        self.n_classes, total = rows.shape[1], float(rows.weights.sum())
        self.prior, self.weights = rows.share, (1 + rows.share) * rows.weights / total
        self.total = total
        self.ridge: Float64s = np.full(self.n_classes, self.n_classes / total)
        self.unit: Float64s = np.ones(self.n_classes)
        if matrix:
            off = np.full((self.n_classes, self.n_classes), self.n_classes * (self.n_classes - 1) / total)
            np.fill_diagonal(off, self.ridge)
            self.ridge, self.unit = off, np.eye(self.n_classes)
        self.wanted = self._sums(self._wanted)
        self.at: Float64s | None = None
        self.shares = np.empty(rows.shape)

    def value(self, parameters: Float64s) -> tuple[float, Float64s]:
        """Return the penalised loss and its gradient."""
        fitted = self._map(parameters)

        def work(part: slice) -> tuple[float, Float64s, Float64s]:
            z, w, q = self.rows.rows.part(part), self.weights[part], self.shares[part]
            t = fitted.predictors(z)
            most = t.max(axis=1, keepdims=True)
            np.exp(t - most, out=q)
            total = q.sum(axis=1, keepdims=True)
            q /= total
            return (float(np.sum(w * (np.log(total) + most)[:, 0])), *self._products(q * w[:, np.newaxis], z))

        loss, of_c, of_w = self._sums(work)
        self.at = parameters.copy()
        wanted_c, wanted_w = self.wanted
        c, moved = self._split(parameters)
        loss -= float(np.sum(c * wanted_c)) + float(np.sum((moved + self.unit) * wanted_w))
        gradient = self._joined(of_c - wanted_c, of_w - wanted_w, c, moved)
        return loss + self.n_classes / self.total * float(np.sum(c * c)) + float(
            np.sum(self.ridge * moved**2)
        ), gradient

    def polished(self, parameters: Float64s) -> Float64s:
        """Return the parameters after steps of Newton's method, as long as these shrink the gradient tenfold."""
        from scipy.sparse.linalg import LinearOperator, cg

        _, gradient = self.value(parameters)
        for _ in range(_POLISHING):
            at = parameters
            hessian = LinearOperator((len(at), len(at)), matvec=partial(self.product, at), dtype=np.float64)
            moved = at - cg(hessian, gradient, rtol=_CLOSE, maxiter=_STEPS)[0]
            _, after = self.value(moved)
            if not np.abs(after).max() < np.abs(gradient).max():
                break
            parameters, done = moved, np.abs(after).max() > np.abs(gradient).max() / 10
            gradient = after
            if done:
                break
        return parameters

    def product(self, parameters: Float64s, direction: Float64s) -> Float64s:
        """Return the product of the Hessian with a direction."""
        if self.at is None or not np.array_equal(self.at, parameters):
            self.value(parameters)
        towards = self._map(direction)

        def work(part: slice) -> tuple[Float64s, Float64s]:
            z, w, q = self.rows.rows.part(part), self.weights[part], self.shares[part]
            dt = towards.predictors(z)
            dt -= np.einsum("ij,ij->i", q, dt)[:, np.newaxis]
            dt *= q
            return self._products(dt * w[:, np.newaxis], z)

        of_c, of_w = self._sums(work)
        c, moved = self._split(direction)
        return self._joined(of_c, of_w, c, moved + self.unit)

    def _wanted(self, part: slice) -> tuple[Float64s, Float64s]:
        """Return what outcomes and prior rows add to the gradient."""
        z, classes = self.rows.rows.part(part), self.rows.classes[part]
        y = self.prior * _shares(z).astype(np.float64) if self.prior else np.zeros(z.shape)
        y[np.arange(len(z)), classes] += 1
        return self._products(y * (self.rows.weights[part] / self.total)[:, np.newaxis], z)

    def _sums(self, work: Callable[[slice], tuple[Any, ...]]) -> list[Any]:
        return _blocks(self.rows.shape, work, alone=self.matrix)

    def _map(self, parameters: Float64s) -> Softmax:
        c, moved = self._split(parameters)
        return Softmax((moved + self.unit) * self.slope, c, self.rows.rows.smallest)

    def _split(self, parameters: Float64s) -> tuple[Float64s, Float64s]:
        """Return c, and W less the unit matrix."""
        return parameters[: self.n_classes], parameters[self.n_classes :].reshape(self.unit.shape) - self.unit

    def _joined(self, of_c: Float64s, of_w: Float64s, c: Float64s, moved: Float64s) -> Float64s:
        """Return derivatives of the loss with those of the ridge."""
        return np.concatenate([of_c + 2 * self.n_classes / self.total * c, (of_w + 2 * self.ridge * moved).ravel()])

    def _products(self, r: Float64s, z: Floats) -> tuple[Float64s, Float64s]:
        """Return sum r and sum r z over rows: for a matrix of all pairs of classes."""
        return r.sum(axis=0), np.asarray((r.T @ z if self.matrix else np.einsum("ij,ij->j", r, z)) * self.slope)
