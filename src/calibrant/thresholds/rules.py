"""Which thresholds are certified: tests of nested hypotheses, from the highest scores down.

The hypothesis of a cut is that the risk, the error rate of the rows down to it, is above ``max_risk``. Cuts are chosen
by the number of rows; outcomes play a part only through the design effect of clusters. A rule returns how many cuts,
from the top, are certified: with a probability of at most ``alpha``, the risk at the last of them is above
``max_risk``.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrant.runtime.arrays import Float64s
from calibrant.thresholds.crossing import ROUNDED, crossings, probability
from calibrant.thresholds.ranked import Sample

#: The first cut has so many rows that no error has this share of alpha as its probability.
_FIRST: Final = 0.1

#: Each further cut has this many times the rows of the cut before.
RATIO: Final = 1.02

#: Each level of the look-ahead is this many times the next smaller one.
_STEP: Final = 1.25

#: The fixed sequence starts at so many rows that this many errors would do.
START: Final = 2


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

    With p_k the p-value of cut k, cut m is accepted if p_m <= a_m, or if min over k >= m of p_k <= c_m. With rows that
    are wrong with probability ``max_risk``, the second part has a probability of at most alpha / 2, and both of alpha.
    """
    if not len(sample.rows):
        return 0
    p_values = probability(sample.wrong, sample.rows, max_risk)
    ahead = np.minimum.accumulate(p_values[::-1])[::-1]
    single, look_ahead = critical_values(tuple(np.rint(sample.rows).astype(int).tolist()), max_risk, alpha)
    return _leading((p_values <= single * ROUNDED) | (ahead <= look_ahead * ROUNDED))


@lru_cache(maxsize=32)
def critical_values(rows: tuple[int, ...], max_risk: float, alpha: float) -> tuple[Float64s, Float64s]:
    """Return the critical values a_m and c_m of each cut, (M,) each; a_m is -1 where no error is too many.

    c_m is the largest of alpha / 2, alpha / 2.5, ... that has a probability of at most alpha / 2. a_m is the p-value of
    the most errors that, with those of c_m, have a probability of at most alpha.
    """
    levels = alpha / 2 * _STEP ** -np.arange(math.ceil(math.log(len(rows), _STEP)) + 1.0)
    single, look_ahead = np.empty((2, len(rows)))
    found = crossings(np.array(rows), max_risk, levels)
    for cut, ((errors, masses), crossing) in zip(reversed(range(len(rows))), found, strict=True):
        ahead = crossing.at(errors)
        best = int(np.argmax(np.sum(ahead * masses, axis=1) <= alpha / 2 * ROUNDED))
        look_ahead[cut] = levels[best]
        whole = np.cumsum(masses * (1 - ahead[best])) + float(np.sum(masses * ahead[best]))
        n_small = int(np.searchsorted(whole, alpha * ROUNDED, side="right"))
        single[cut] = probability(errors[n_small - 1], rows[cut], max_risk) if n_small else -1.0
    return single, look_ahead


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
