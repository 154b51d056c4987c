"""The one form of every map of one event: a logistic curve on each interval of the score.

On a piece a score p becomes s(c + a log p - b log(1 - p)), s the logistic function. With a = b this is a line in
log-odds; with one piece and free a and b it is beta calibration; with a = b = 0 it is a constant. Every form that a map
is written in (NumPy, SQL, expressions, ONNX, torch) is made from the pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from calibrant.results.envelope import listed, number, require
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.intervals import root
from calibrant.table import grid as grids

#: The least limit of small scores of a sketch: the first edge of the standard grid.
CLIP: Final = float(grids.edges("standard")[1])

#: The smallest and the largest probability that a map returns: the smallest normal number, the largest number below 1.
LEAST: Final = 2.0**-1022
HIGHEST: Final = 1 - 2.0**-53

#: The largest number in a map, far beyond those of a fit: with it nothing overflows. Larger log-odds are certain.
MOST: Final = 1e30


@dataclass(frozen=True, eq=False)
class Pieces:
    """A map of scores in M pieces.

    Attributes
    ----------
    edges, breaks : (M - 1,)
        The scores at which a new piece begins, and their log-odds, increasing. A score equal to an edge is on the piece
        above.
    constants, positive, negative : (M,)
        c, and the factors a of log p and b of -log(1 - p).
    smallest, largest : float
        Scores are moved into [smallest, largest] first. With 0 and 1 only these are moved, to the nearest numbers.
    unchanged : bool
        Whether scores remain unchanged.
    """

    edges: Float64s
    breaks: Float64s
    constants: Float64s
    positive: Float64s
    negative: Float64s
    smallest: float = 0.0
    largest: float = 1.0
    unchanged: bool = False

    @classmethod
    def of(cls, kind: str, parameters: Mapping[str, Any]) -> Pieces:
        """Return the map of this kind with the parameters of a stored map.

        Raises
        ------
        KeyError, TypeError, ValueError
            For parameters that no stored map has.
        """
        if kind == "identity":
            return UNCHANGED
        smallest = number(parameters["smallest"], 0.0, 1.0)
        # Version 1 has one limit for both ends.
        largest = number(parameters["largest"], 0.0, 1.0) if "largest" in parameters else 1 - smallest
        return cls(*_KINDS[kind](parameters), smallest, largest)

    @property
    def rising(self) -> bool:
        """Whether higher scores become higher."""
        return bool((self.positive + self.negative > 0).all())

    def mapped(self, x: Float64s, *, logits: bool) -> Float64s:
        """Return the mapped scores, or those of log-odds; unchanged scores keep their bits."""
        if self.unchanged and not logits:
            return x.copy()
        return probabilities(self.of_logits(x) if logits else self.log_odds(x))

    def log_odds(self, scores: Float64s) -> Float64s:
        """Return the log-odds of the mapped scores."""
        z = log_odds_of(scores if self.unchanged else np.clip(scores, *self.ends))
        return self._log_odds(z, np.searchsorted(self.edges, scores, side="right"))

    def of_logits(self, logits: Float64s) -> Float64s:
        """Return the log-odds of the mapped scores with these log-odds."""
        z = logits if self.unchanged else np.clip(logits, *self.ends_of_logits)
        return self._log_odds(z, np.searchsorted(self.breaks, z, side="right"))

    @property
    def ends(self) -> tuple[float, float]:
        """The scores that 0 and 1 are moved to."""
        return max(self.smallest, LEAST), min(self.largest, HIGHEST)

    @property
    def ends_of_logits(self) -> tuple[float, float]:
        """The log-odds that those of 0 and 1, which are infinite, are moved to."""
        low, high = log_odds_of(np.array([self.smallest, self.largest])).tolist()
        return max(low, -MOST), min(high, MOST)

    def _log_odds(self, z: Float64s, piece: np.ndarray) -> Float64s:
        a, b, c = self.positive[piece], self.negative[piece], self.constants[piece]
        if np.array_equal(self.positive, self.negative):
            return np.asarray(c + a * z)
        return np.asarray(c + b * np.logaddexp(0, z) - a * np.logaddexp(0, -z))

    def score_at(self, log_odds: float) -> float:
        """Return the score that is mapped to these log-odds; beyond what the map reaches, the nearest end."""
        ends = np.array(self.ends)
        lowest, highest = self.log_odds(ends)
        if not lowest < log_odds < highest:
            return 0.0 if log_odds <= lowest else 1.0
        z = root(lambda z: float(self.of_logits(np.array([z]))[0]) - log_odds, *log_odds_of(ends), xtol=1e-14)
        return float(probabilities(np.array(z)))


@dataclass(frozen=True, eq=False)
class Labels:
    """A map of the scores of several labels (..., C): one for each."""

    maps: tuple[Pieces, ...]

    def mapped(self, x: Float64s, *, logits: bool) -> Float64s:
        """Return the mapped scores, or those of log-odds."""
        return np.stack([each.mapped(x[..., k], logits=logits) for k, each in enumerate(self.maps)], axis=-1)


#: No change.
UNCHANGED: Final = Pieces(np.empty(0), np.empty(0), np.zeros(1), np.ones(1), np.ones(1), unchanged=True)

_Curves = tuple[Float64s, Float64s, Float64s, Float64s, Float64s]  # edges, breaks, constants, factors


def floats(values: Any) -> Float64s:
    """Return a list of JSON's numbers as an array."""
    return np.array(listed(values, float))


def _curve(parameters: Mapping[str, Any], *names: str) -> _Curves:
    """Return one piece, with the names of its constant and its factors."""
    constant, positive, negative = (np.array([number(parameters[name], -MOST, MOST)]) for name in names)
    return np.empty(0), np.empty(0), constant, positive, negative


def _knots(parameters: Mapping[str, Any]) -> _Curves:
    """Return the lines that join knots in log-odds, with this slope below the first and above the last."""
    x, y, slope = floats(parameters["log_odds"]), floats(parameters["mapped"]), number(parameters["slope"], -MOST, MOST)
    require(x.shape == y.shape and (np.diff(x) > 0).all(), "knots that do not increase")
    slopes = np.concatenate([[slope], np.diff(y) / np.diff(x), [slope]])
    at = np.concatenate([[0], np.arange(len(x))])  # the knot that each line goes through
    return probabilities(x), x, y[at] - slopes * x[at], slopes, slopes


def _bins(parameters: Mapping[str, Any]) -> _Curves:
    """Return a constant for each bin."""
    rates = floats(parameters["rates"])
    edges = floats(parameters["edges"]) if len(rates) > 1 else np.empty(0)
    require(len(edges) == len(rates) - 1, "a number of edges that is not the number of rates minus 1")
    constants = log_odds_of(rates)
    return edges, log_odds_of(edges), constants, np.zeros_like(constants), np.zeros_like(constants)


_KINDS: Final[Mapping[str, Callable[[Mapping[str, Any]], _Curves]]] = {
    "line": lambda x: _curve(x, "intercept", "slope", "slope"),
    "beta": lambda x: _curve(x, "constant", "positive", "negative"),
    "knots": _knots,
    "bins": _bins,
}

#: The kinds of maps of one event.
KINDS: Final = ("identity", *_KINDS)


def log_odds_of(scores: Float64s) -> Float64s:
    """Return log p - log(1 - p), which is infinite at 0 and 1."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(scores) - np.log1p(-scores))


def probabilities(log_odds: Float64s) -> Float64s:
    """Return s(t), above 0 and below 1 for finite t: rounding would reach them."""
    with np.errstate(over="ignore"):
        p = 1 / (1 + np.exp(-log_odds))
    return np.where(np.isinf(log_odds), p, np.clip(p, LEAST, HIGHEST))
