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
from calibrant.thresholds.ranked import RankedSample

#: The first cut has so many rows that no error has this share of alpha as its probability.
_FIRST: Final = 0.1

#: Each further cut has this many times the rows of the cut before.
RATIO: Final = 1.02

#: Rows in clusters are quotients: their p-values are equal to those of whole numbers up to rounding.
ROUNDED: Final = 1 + 1e-9

#: The levels of the look-ahead that are tried: how many, and the quotient of neighbours.
_LEVELS: Final = 45
_STEP: Final = 1.15

_WIDEST, _WIDE = 10.0, 7.0  # standard deviations of the errors at a cut, and between two cuts
_FAR: Final = 1e-6  # of the probability of more errors, whose look-ahead is not calculated one by one
_DIRECT: Final = 96  # up to this number of errors between cuts, sums are faster than Fourier transforms

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


def closed(sample: RankedSample, max_risk: float, alpha: float) -> int:
    """Return the cuts of closed testing with look-ahead.

    With p_k the p-value of cut k, cut m is accepted if p_m <= a_m, or if min over k >= m of p_k <= c_m. With the
    critical values c_m and a_m, rows that are wrong with probability ``max_risk`` are accepted with a probability of at
    most alpha. Numbers of rows that are not whole, of design
    effects, are rounded down, and numbers of errors up.
    """
    if not len(sample.rows):
        return 0
    rows = np.floor(sample.rows * ROUNDED)
    return _leading(accepted(rows, np.minimum(np.ceil(sample.wrong / ROUNDED), rows), max_risk, alpha))


def accepted(rows: Float64s, wrong: Float64s, max_risk: float, alpha: float) -> NDArray[np.bool_]:
    """Return which cuts closed testing accepts, from whole numbers of rows, (M,), and of errors, (..., M)."""
    p_values = probability(wrong, rows, max_risk)
    ahead = np.minimum.accumulate(p_values[..., ::-1], axis=-1)[..., ::-1]
    single, look_ahead = critical_values(tuple(rows.astype(int).tolist()), max_risk, alpha)
    return np.asarray((p_values <= single * ROUNDED) | (ahead <= look_ahead * ROUNDED))


@lru_cache(maxsize=64)
def critical_values(rows: tuple[int, ...], max_risk: float, alpha: float) -> tuple[Float64s, Float64s]:
    r"""Return the critical values a_m of p_m, and c_m of the minimum of p_k over k >= m, at each cut, (M,) each.

    Errors at cuts are a random walk W with binomial steps. For a level c, the probability to reach it from cut k on is

    .. math:: h_k(w) = 1 \text{ if } P(W_k \le w) \le c, \text{ else } \sum_d P(W_{k+1} - W_k = d) h_{k+1}(w + d),

    from the last cut to the first, as for the boundaries of sequential trials (Armitage, McPherson, Rowe 1969, doi
    10.2307/2343787). With the largest level c for which E h_m(W_m) <= alpha / 2, a_m = P(W_m <= v) has the largest v
    for which P(W_m <= v) + E [h_m(W_m); W_m > v] <= alpha, and c_m is the largest level that keeps this sum. Levels are
    alpha and its quotients by powers of 1.15. Above a large number of errors, h is that at this number, which is not
    too small. -1 stands for none. Cost: M log M times the standard deviation of the last number of errors.
    """
    levels = alpha / _STEP ** np.arange(_LEVELS)
    single, look_ahead = np.full(len(rows), -1.0), np.full(len(rows), -1.0)
    ahead, first = np.zeros((len(levels), 1)), 0  # of the next cut, from its number ``first`` of errors on
    for cut in range(len(rows) - 1, -1, -1):
        least, masses = _binomial(rows[cut], max_risk, _WIDEST)
        cumulated = np.cumsum(masses)
        hit = np.searchsorted(cumulated, levels * ROUNDED, side="right")  # numbers of errors at each level, from least
        low, high = int(hit[-1]), min(len(masses), int(hit[0] + np.searchsorted(cumulated, 1 - _FAR)) + 1)
        reached = np.zeros((len(levels), high - low))
        if cut < len(rows) - 1:
            more, steps = _binomial(rows[cut + 1] - rows[cut], max_risk, _WIDE)
            places = np.arange(least + low + more, least + high + more + len(steps) - 1) - first
            before = np.where(places < 0, 1.0, ahead[:, np.clip(places, 0, ahead.shape[1] - 1)])
            reached = np.clip(_expected(before, steps), 0.0, 1.0)
        reached[np.arange(low, high) < hit[:, np.newaxis]] = 1.0
        every = np.pad(reached, ((0, 0), (0, len(masses) - high)), mode="edge")
        every = np.concatenate([np.ones((len(levels), low)), every], axis=1)
        level = np.sum(masses * every, axis=1)
        kept = level <= alpha * ROUNDED  # an earlier cut has no larger level
        kept[-1] = True
        levels, every, level, ahead, first = levels[kept], every[kept], level[kept], reached[kept], least + low
        half = np.argmax(level <= alpha / 2 * ROUNDED)
        errors = int(
            np.searchsorted(level[half] + np.cumsum(masses * (1 - every[half])), alpha * ROUNDED, side="right")
        )
        both = level + np.sum(masses[:errors] * (1 - every[:, :errors]), axis=1)
        if both[-1] <= alpha * ROUNDED:
            look_ahead[cut] = levels[np.argmax(both <= alpha * ROUNDED)]
        if errors and both[-1] <= alpha * ROUNDED:
            single[cut] = cumulated[errors - 1]
    return single, look_ahead


def _expected(values: Float64s, steps: Float64s) -> Float64s:
    """Return sum_d steps_d values_(i + d) of each row of values."""
    n_rows, width = values.shape
    if len(steps) > _DIRECT:
        size = 1 << (width - 1).bit_length()
        product = np.fft.rfft(values, size) * np.conj(np.fft.rfft(steps, size))
        return np.fft.irfft(product, size)[:, : width - len(steps) + 1]
    sums = np.zeros(n_rows * width)
    sums[: n_rows * width - len(steps) + 1] = np.correlate(values.reshape(-1), steps, "valid")
    return sums.reshape(n_rows, width)[:, : width - len(steps) + 1]


def _binomial(rows: int, risk: float, width: float) -> tuple[int, Float64s]:
    """Return the least number of errors, and the probabilities of it and of the next ones, to 1e-12.

    They are within ``width`` standard deviations, from the most likely number by quotients of neighbours:
    P(k + 1) / P(k) = (rows - k) risk / (k + 1) (1 - risk).
    """
    middle, spread = int((rows + 1) * risk), width * (math.sqrt(rows * risk * (1 - risk)) + 2)
    least, most = max(0, math.floor(middle - spread)), min(rows, math.ceil(middle + spread))
    k = np.arange(least, most, dtype=np.float64)
    factors = (rows - k) / (k + 1) * (risk / (1 - risk))
    up = np.cumprod(factors[middle - least :])
    down = np.cumprod(1 / factors[: middle - least][::-1])[::-1]
    masses = np.concatenate([down, [1.0], up])
    return least, masses / np.sum(masses)


def _leading(held: NDArray[np.bool_]) -> int:
    """Return how many are true before the first that is not."""
    return len(held) if held.all() else int(np.argmin(held))


def fixed_sequence(sample: RankedSample, max_risk: float, alpha: float, start: int = START) -> tuple[int, int]:
    """Return the first place and one behind the last place that a fixed sequence of tests certifies.

    Every place is tested at alpha, from the first with so many rows that ``start`` errors would do, until one fails.
    Nothing is assumed about the risk.
    """
    first = int(np.searchsorted(sample.rows, least_rows(max_risk, alpha, wrong=start) * (1 - 1e-12)))
    place, step = first, 256
    while place < len(sample.rows):
        part = slice(place, place + step)
        kept = probability(sample.wrong[part], sample.rows[part], max_risk) <= alpha
        if not kept.all():
            return first, place + int(np.argmin(kept))
        place, step = place + len(kept), 2 * step
    return first, len(sample.rows)
