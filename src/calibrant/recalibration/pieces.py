"""The one form of every map of one event: a logistic curve on each interval of the score.

On a piece a score p becomes s(c + a log p - b log(1 - p)), s the logistic function. With a = b this is a line in
log-odds; with one piece and free a and b it is beta calibration; with a = b = 0 it is a constant. Every form that a map
is written in (NumPy, SQL, expressions, ONNX, torch) is made from the pieces.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from calibrant.runtime.arrays import Float64s
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.intervals import root
from calibrant.table import grid as grids

#: Fitted maps move scores into [CLIP, 1 - CLIP]: the first edge of the standard grid, so that a sketch loses nothing.
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
    clip : float
        Scores are moved into [clip, 1 - clip] first.
    """

    edges: Float64s
    constants: Float64s
    positive: Float64s
    negative: Float64s
    clip: float = CLIP

    @classmethod
    def of_line(cls, intercept: float, slope: float) -> Pieces:
        """Return one piece, a line in log-odds."""
        return cls.of_beta(intercept, slope, slope)

    @classmethod
    def of_beta(cls, constant: float, positive: float, negative: float) -> Pieces:
        """Return one piece with its two factors."""
        return cls(np.empty(0), np.array([constant]), np.array([positive]), np.array([negative]))

    @classmethod
    def of_knots(cls, x: Float64s, y: Float64s, slope: float) -> Pieces:
        """Return the lines that join knots in log-odds, with this slope below the first and above the last."""
        inner = np.diff(y) / np.diff(x)
        slopes = np.concatenate([[slope], inner, [slope]])
        at = np.concatenate([[0], np.arange(len(x))])  # the knot that each line goes through
        return cls(1 / (1 + np.exp(-x)), y[at] - slopes * x[at], slopes, slopes)

    @classmethod
    def of_bins(cls, edges: Float64s, rates: Float64s) -> Pieces:
        """Return a constant for each bin."""
        with np.errstate(divide="ignore"):
            constants = np.log(rates) - np.log1p(-rates)
        return cls(edges, constants, np.zeros_like(constants), np.zeros_like(constants))

    def mapped(self, x: Float64s, *, logits: bool) -> Float64s:
        """Return the mapped scores, or those of log-odds; unchanged scores keep their bits."""
        if self.clip == 0 and not logits:
            return x.copy()
        return probabilities(self.of_logits(x) if logits else self.log_odds(x))

    def log_odds(self, scores: Float64s) -> Float64s:
        """Return the log-odds of the mapped scores."""
        p = np.clip(scores, self.clip, 1 - self.clip)
        with np.errstate(divide="ignore"):
            log_p, log_q = np.log(p), np.log1p(-p)
        return self._log_odds(log_p, log_q, np.searchsorted(self.edges, p, side="right"))

    def of_logits(self, logits: Float64s) -> Float64s:
        """Return the log-odds of the mapped scores with these log-odds, which are not moved."""
        log_p, log_q = -np.logaddexp(0, -logits), -np.logaddexp(0, logits)
        return self._log_odds(log_p, log_q, np.searchsorted(self.edges, np.exp(log_p), side="right"))

    def _log_odds(self, log_p: Float64s, log_q: Float64s, piece: np.ndarray) -> Float64s:
        a, b = self.positive[piece], self.negative[piece]
        moved = np.where(a == b, a * (log_p - log_q), a * log_p - b * log_q)
        return np.asarray(self.constants[piece] + moved)

    def score_at(self, log_odds: float) -> float:
        """Return the score that is mapped to these log-odds; beyond what the map reaches, the nearest end."""
        lowest, highest = self.log_odds(np.array([0.0, 1.0]))
        if not lowest < log_odds < highest:
            return 0.0 if log_odds <= lowest else 1.0
        z = root(lambda z: float(self.of_logits(np.array([z]))[0]) - log_odds, *_ENDS, xtol=1e-14)
        return 1 / (1 + math.exp(-z))


@dataclass(frozen=True, eq=False)
class Labels:
    """A map of the scores of several labels (..., C): one for each."""

    maps: tuple[Pieces, ...]

    def mapped(self, x: Float64s, *, logits: bool) -> Float64s:
        """Return the mapped scores, or those of log-odds."""
        return np.stack([each.mapped(x[..., k], logits=logits) for k, each in enumerate(self.maps)], axis=-1)


_ENDS: Final = (math.log(CLIP) - math.log1p(-CLIP), math.log1p(-CLIP) - math.log(CLIP))


def probabilities(log_odds: Float64s) -> Float64s:
    """Return s(t), above 0 and below 1 for finite t: rounding would reach them."""
    with np.errstate(over="ignore"):
        p = 1 / (1 + np.exp(-log_odds))
    return np.where(np.isinf(log_odds), p, np.clip(p, LEAST, _LARGEST))
