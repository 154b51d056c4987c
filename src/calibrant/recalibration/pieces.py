"""The one form of every map of one event: a logistic curve on each interval of the score.

On a piece a score p becomes s(c + a log p - b log(1 - p)), s the logistic function. With a = b this is a line in
log-odds; with one piece and free a and b it is beta calibration; with a = b = 0 it is a constant. Every form that a map
is written in (NumPy, SQL, expressions, ONNX, torch) is made from the pieces.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from calibrant.runtime.arrays import Float64s
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.intervals import root
from calibrant.table import grid as grids

#: The least limit of small scores of one event: the first edge of the standard grid, so that a sketch loses nothing.
CLIP: Final = float(grids.edges("standard")[1])

#: The smallest probability that a map returns: the smallest normal number.
LEAST: Final = 2.0**-1022
_LARGEST: Final = 1 - 2.0**-53


@dataclass(frozen=True, eq=False)
class Pieces:
    """A map of scores in M pieces.

    Attributes
    ----------
    edges : (M - 1,)
        The scores at which a new piece begins, increasing. A score equal to an edge is on the piece above.
    constants, positive, negative : (M,)
        c, and the factors a of log p and b of -log(1 - p).
    smallest : float
        Scores are moved into [smallest, 1 - smallest] first; 0, if they remain as they are.
    """

    edges: Float64s
    constants: Float64s
    positive: Float64s
    negative: Float64s
    smallest: float

    @classmethod
    def of(cls, kind: str, parameters: Mapping[str, Any]) -> Pieces:
        """Return the map of this kind with the parameters of a stored map.

        Raises
        ------
        KeyError, TypeError, ValueError
            For parameters that no stored map has.
        """
        return UNCHANGED if kind == "identity" else cls(*_KINDS[kind](parameters), number(parameters["smallest"]))

    @property
    def unchanged(self) -> bool:
        """Whether scores remain as they are."""
        return self.smallest == 0

    def mapped(self, x: Float64s, *, logits: bool) -> Float64s:
        """Return the mapped scores, or those of log-odds; unchanged scores keep their bits."""
        if self.unchanged and not logits:
            return x.copy()
        return probabilities(self.of_logits(x) if logits else self.log_odds(x))

    def log_odds(self, scores: Float64s) -> Float64s:
        """Return the log-odds of the mapped scores."""
        p = np.clip(scores, self.smallest, 1 - self.smallest)
        with np.errstate(divide="ignore"):
            log_p, log_q = np.log(p), np.log1p(-p)
        return self._log_odds(log_p, log_q, np.searchsorted(self.edges, p, side="right"))

    def of_logits(self, logits: Float64s) -> Float64s:
        """Return the log-odds of the mapped scores with these log-odds."""
        z = np.clip(logits, -self.farthest, self.farthest)
        log_p, log_q = -np.logaddexp(0, -z), -np.logaddexp(0, z)
        return self._log_odds(log_p, log_q, np.searchsorted(self.edges, np.exp(log_p), side="right"))

    @property
    def farthest(self) -> float:
        """The log-odds of 1 - ``smallest``, which no log-odds exceed."""
        return math.inf if self.unchanged else math.log1p(-self.smallest) - math.log(self.smallest)

    def _log_odds(self, log_p: Float64s, log_q: Float64s, piece: np.ndarray) -> Float64s:
        a, b = self.positive[piece], self.negative[piece]
        moved = np.where(a == b, a * (log_p - log_q), a * log_p - b * log_q)
        return np.asarray(self.constants[piece] + moved)

    def score_at(self, log_odds: float) -> float:
        """Return the score that is mapped to these log-odds; beyond what the map reaches, the nearest end."""
        lowest, highest = self.log_odds(np.array([0.0, 1.0]))
        if not lowest < log_odds < highest:
            return 0.0 if log_odds <= lowest else 1.0
        ends = -self.farthest, self.farthest
        z = root(lambda z: float(self.of_logits(np.array([z]))[0]) - log_odds, *ends, xtol=1e-14)
        return 1 / (1 + math.exp(-z))


@dataclass(frozen=True, eq=False)
class Labels:
    """A map of the scores of several labels (..., C): one for each."""

    maps: tuple[Pieces, ...]

    def mapped(self, x: Float64s, *, logits: bool) -> Float64s:
        """Return the mapped scores, or those of log-odds."""
        return np.stack([each.mapped(x[..., k], logits=logits) for k, each in enumerate(self.maps)], axis=-1)


#: No change.
UNCHANGED: Final = Pieces(np.empty(0), np.zeros(1), np.ones(1), np.ones(1), 0.0)

_Curves = tuple[Float64s, Float64s, Float64s, Float64s]  # edges, constants, factors


def floats(values: Any) -> Float64s:
    """Return a list of JSON's numbers as an array."""
    if not isinstance(values, list) or set(map(type, values)) != {float}:
        msg = "expected a list of numbers"
        raise TypeError(msg)
    return np.array(values)


def number(value: Any) -> float:
    """Return a number of JSON."""
    if type(value) is not float:
        msg = f"expected a number, got {repr(value)[:40]}"
        raise TypeError(msg)
    return value


def _curve(parameters: Mapping[str, Any], *names: str) -> _Curves:
    """Return one piece, with the names of its constant and its factors."""
    constant, positive, negative = (np.array([number(parameters[name])]) for name in names)
    return np.empty(0), constant, positive, negative


def _knots(parameters: Mapping[str, Any]) -> _Curves:
    """Return the lines that join knots in log-odds, with this slope below the first and above the last."""
    x, y, slope = floats(parameters["log_odds"]), floats(parameters["mapped"]), number(parameters["slope"])
    if x.shape != y.shape or not (np.diff(x) > 0).all():
        msg = "expected knots in increasing order"
        raise ValueError(msg)
    slopes = np.concatenate([[slope], np.diff(y) / np.diff(x), [slope]])
    at = np.concatenate([[0], np.arange(len(x))])  # the knot that each line goes through
    return 1 / (1 + np.exp(-x)), y[at] - slopes * x[at], slopes, slopes


def _bins(parameters: Mapping[str, Any]) -> _Curves:
    """Return a constant for each bin."""
    rates = floats(parameters["rates"])
    edges = floats(parameters["edges"]) if len(rates) > 1 else np.empty(0)
    if len(edges) != len(rates) - 1:
        msg = "expected an edge between any two rates"
        raise ValueError(msg)
    with np.errstate(divide="ignore"):
        constants = np.log(rates) - np.log1p(-rates)
    return edges, constants, np.zeros_like(constants), np.zeros_like(constants)


_KINDS: Final[Mapping[str, Callable[[Mapping[str, Any]], _Curves]]] = {
    "line": lambda x: _curve(x, "intercept", "slope", "slope"),
    "beta": lambda x: _curve(x, "constant", "positive", "negative"),
    "knots": _knots,
    "bins": _bins,
}

#: The kinds of maps of one event.
KINDS: Final = ("identity", *_KINDS)


def probabilities(log_odds: Float64s) -> Float64s:
    """Return s(t), above 0 and below 1 for finite t: rounding would reach them."""
    with np.errstate(over="ignore"):
        p = 1 / (1 + np.exp(-log_odds))
    return np.where(np.isinf(log_odds), p, np.clip(p, LEAST, _LARGEST))
