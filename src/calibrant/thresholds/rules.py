"""Which thresholds are certified: tests of nested hypotheses, from the highest scores down.

The hypothesis of a cut is that the risk, the error rate of the rows down to it, is above ``max_risk``. Cuts are chosen
by the number of rows; outcomes play a part only through the design effect of clusters. A rule returns how many cuts,
from the top, are certified: with a probability of at most ``alpha``, the risk at the last of them is above
``max_risk``.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.runtime.arrays import Float64s
from calibrant.statistics.resampling import Stream, generator
from calibrant.thresholds.ranked import Sample

#: The first cut has so many rows that no error has this share of alpha as its probability.
_FIRST: Final = 0.1

#: Each further cut has this many times the rows of the cut before.
RATIO: Final = 1.02

#: Rows in clusters are quotients: their p-values are equal to those of whole numbers up to rounding.
ROUNDED: Final = 1 + 1e-9

#: Simulated data sets of the critical values.
_REPLICATES: Final = 4_000

#: The fixed sequence starts at so many rows that this many errors would do.
START: Final = 2


def probability(wrong: Any, rows: Any, risk: float) -> Float64s:
    """Return the probability of at most so many wrong rows if each is wrong with probability ``risk``.

    The numbers need not be whole: it is the regularised incomplete beta function.
    """
    from scipy.special import betainc

    right = np.asarray(rows - wrong)
    return np.where(right > 0, betainc(np.maximum(right, 1e-300), wrong + 1, 1 - risk), 1.0)


def least_rows(max_risk: float, alpha: float, *, wrong: int = 0) -> int:
    """Return the fewest rows that certify a planned threshold with so many errors among them."""
    if wrong == 0:
        return math.ceil(math.log(alpha) / math.log1p(-max_risk) * (1 - 1e-12))
    rows = np.arange(wrong + 1, math.ceil((wrong + 4 * math.sqrt(wrong) + 40) / max_risk))
    return int(rows[np.argmax(probability(np.full(len(rows), float(wrong)), rows, max_risk) <= alpha)])


def first_rows(max_risk: float, alpha: float) -> int:
    """Return the rows of the first cut: the fewest for which no error has the probability alpha / 10."""
    return least_rows(max_risk, _FIRST * alpha)


def cuts_of(rows: Float64s, first: float, ratio: float = RATIO) -> NDArray[np.intp]:
    """Return the places of cuts: the first with enough rows, each with ``ratio`` times the rows, and the last place."""
    cuts: list[int] = []
    wanted = first
    while (place := int(np.searchsorted(rows, wanted / ROUNDED))) < len(rows):
        cuts.append(place)
        wanted = rows[place] * ratio
    if cuts and cuts[-1] != len(rows) - 1:
        cuts.append(len(rows) - 1)
    return np.array(cuts, np.intp)


def closed(sample: Sample, max_risk: float, alpha: float) -> int:
    """Return the cuts of closed testing with look-ahead.

    With p_k the p-value of cut k, cut m is accepted if p_m <= a_m, or if min over k >= m of p_k <= c_m. The critical
    values c_m and a_m are those at which rows that are wrong with probability ``max_risk`` are accepted in a share
    alpha / 2 of simulated data sets by the second part, and in a share alpha by both.
    """
    if not len(sample.rows):
        return 0
    p_values = probability(sample.wrong, sample.rows, max_risk)
    ahead = np.minimum.accumulate(p_values[::-1])[::-1]
    single, look_ahead = critical_values(tuple(np.rint(sample.rows).astype(int).tolist()), max_risk, alpha)
    return _leading((p_values <= single * ROUNDED) | (ahead <= look_ahead * ROUNDED))


@lru_cache(maxsize=32)
def critical_values(rows: tuple[int, ...], max_risk: float, alpha: float) -> tuple[Float64s, Float64s]:
    """Return the largest small values of p_m and of the minimum of p_k over k >= m, at each cut, (M,) each.

    A test by simulation: with B data sets, a value is small if fewer than alpha (B + 1) of B + 1 are as small. The
    values are those of whole numbers of errors, so that numbers between them are not small.
    """
    half, whole = (math.floor(share * (_REPLICATES + 1) * (1 + 1e-12)) for share in (alpha / 2, alpha))
    if half == 0:  # too few data sets for so small a share: each cut is tested alone, without look-ahead
        return np.full(len(rows), alpha), np.full(len(rows), -1.0)
    p_values = _simulated(np.array(rows), max_risk)
    ahead = np.minimum.accumulate(p_values[::-1], axis=0)[::-1]
    look_ahead = _below(ahead, np.partition(ahead, half - 1, axis=1)[:, half - 1])
    hit = ahead <= look_ahead[:, np.newaxis]
    rest = np.sort(np.where(hit, np.inf, p_values), axis=1)
    place = whole - 1 - np.count_nonzero(hit, axis=1)
    return _below(rest, rest[np.arange(len(rows)), place]), look_ahead


def _below(values: Float64s, bounds: Float64s) -> Float64s:
    """Return the largest value below the bound of each row; -1 for none."""
    return np.asarray(np.where(values < bounds[:, np.newaxis], values, -1.0).max(axis=1))


def _simulated(rows: NDArray[np.int64], max_risk: float) -> Float64s:
    """Return p-values of each cut, (M, B), of rows that are wrong with probability ``max_risk``."""
    p_values = np.empty((len(rows), _REPLICATES))
    rng = generator(np.random.SeedSequence(0), Stream.CUTS)
    wrong = np.zeros(_REPLICATES, np.int64)
    for cut, (number, more) in enumerate(zip(rows.tolist(), np.diff(rows, prepend=0).tolist(), strict=True)):
        wrong += rng.binomial(more, max_risk, _REPLICATES)
        least, most = int(wrong.min()), int(wrong.max())
        p_values[cut] = _cumulated(least, most, number, max_risk)[wrong - least]
    return p_values


def _cumulated(least: int, most: int, rows: int, risk: float) -> Float64s:
    """Return the probabilities of at most ``least``, ..., ``most`` wrong rows, to 1e-10.

    The probability of k + 1 wrong rows is that of k times (rows - k) risk / (k + 1) (1 - risk).
    """
    first = probability(np.arange(max(least - 1, 0), least + 1), rows, risk)
    single = first[-1] - first[0] if least else first[-1]
    k = np.arange(least, most, dtype=np.float64)
    factors = (rows - k) / (k + 1) * (risk / (1 - risk))
    return np.asarray(first[-1] + np.cumsum(np.concatenate([[0.0], single * np.cumprod(factors)])))


def _leading(accepted: NDArray[np.bool_]) -> int:
    """Return how many are accepted before the first that is not."""
    return len(accepted) if accepted.all() else int(np.argmin(accepted))


def fixed_sequence(sample: Sample, max_risk: float, alpha: float, start: int = START) -> tuple[int, int]:
    """Return the first place and one behind the last place that a fixed sequence of tests certifies.

    Every place is tested at alpha, from the first with so many rows that ``start`` errors would do, until one fails.
    Nothing is assumed about the risk.
    """
    first = int(np.searchsorted(sample.rows, least_rows(max_risk, alpha, wrong=start) * (1 - 1e-12)))
    place, step = first, 256
    while place < len(sample.rows):
        part = slice(place, place + step)
        accepted = probability(sample.wrong[part], sample.rows[part], max_risk) <= alpha
        if not accepted.all():
            return first, place + int(np.argmin(accepted))
        place, step = place + len(accepted), 2 * step
    return first, len(sample.rows)
