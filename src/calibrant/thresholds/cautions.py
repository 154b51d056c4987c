"""Cautions about rows that certify a threshold: few clusters, and sizes or weights related to errors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from calibrant.inputs.weights import effective_n
from calibrant.measures.means.means import counted_rows
from calibrant.runtime.arrays import Float64s
from calibrant.statistics.design import MINORITY
from calibrant.thresholds.ranked import ClusterParts, Judged, Ranked

_FEW_CLUSTERS: Final = 40
_ALIKE: Final = 1.1  # rows of clusters that are worth so many times fewer differ in size
_CLEARLY: Final = 1.645  # standard errors, of the relation of sizes and errors: one-sided 5 %
_LEVEL: Final = 0.01  # of the relation of weights and errors
_VARIES: Final = 2.576  # standard errors, for this level
_FEW: Final = 5  # rows whose mean weight is not normal
_SHARED: Final = 0.05  # of the rows: so many scores with both outcomes show counts of equal rows
_UNLIKELY: Final = 1e-6


def cautions(judged: Judged, ranked: Ranked, *, bets: bool, exact: bool, counts: bool) -> str:
    """Return cautions; ``exact`` is whether nothing is assumed of clusters, ``counts`` whether weights are counts."""
    flags = []
    if judged.more is not None:
        flags.append(judged.more.flag)
        if judged.more.counted is not None:
            flags.append(counted_rows(*judged.more.counted))
    if not bets and ranked.squares is not None:
        flags.append("the weights are not whole numbers, so the confidence level is approximate")
    if not bets and not counts:
        flags.append(_of_weights(judged))
    if not exact and ranked.parts is not None and ranked.parts.whole:
        flags.extend(_of_clusters(ranked.parts))
    flags.append(_of_perfect(ranked))
    return "; ".join(filter(None, flags))


def _of_clusters(parts: ClusterParts) -> Iterator[str]:
    """Yield cautions about few clusters, about few with errors, and about sizes that are related to errors.

    The relation is a score test: the sum over clusters of (rank of the size - mean rank of a row) (errors - rate size),
    over the root of the sum of its squares.
    """
    sizes, errors = parts.sums(parts.weights), parts.sums(parts.wrong)
    worth = float(effective_n(float(sizes.sum()), float(np.sum(sizes**2))))
    unequal = parts.number > _ALIKE * worth
    if worth < _FEW_CLUSTERS:
        few = f"only {parts.number} clusters" + (f", worth {worth:.0f} of equal size" if unequal else "")
        yield f"{few}, so the promised error rate may be exceeded"
    if not errors.any():
        return
    found = float(effective_n(float(errors.sum()), float(np.sum(errors**2))))
    if found < MINORITY and errors.sum() > 2 * found:
        yield f"the errors come from only about {found:.0f} clusters, so the promised error rate may be exceeded"
    _, numbers, counts = np.unique(sizes, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[numbers]
    moved = ranks - np.sum(ranks * sizes) / sizes.sum()
    terms = moved * (errors - sizes * (errors.sum() / sizes.sum()))
    if unequal and np.sum(terms) > _CLEARLY * math.sqrt(np.sum(terms**2)):
        yield (
            "large clusters have higher error rates, so clusters that are larger than all clusters in these rows may "
            "exceed the promised error rate"
        )


def _of_weights(judged: Judged) -> str:
    """Return a caution about weights that are related to errors.

    Counts of equal rows, which have each score and outcome once and many scores with both, are related by nature.
    """
    events = judged.events
    if events is None or events.weights is None:
        return ""
    right = events.outcomes > 0
    parts = [np.sort(events.weights[rows]) for rows in (~right, right)]
    if not all(map(len, parts)) or not _differ(*sorted(parts, key=len)):
        return ""
    if judged.table.whole and _are_counts(events.scores.astype(np.float64), right):
        return ""
    means = " and ".join(f"{np.mean(part):.3g}" for part in parts)
    wrong = f"the weights of wrong and correct decisions differ (means {means})"
    if not judged.table.whole:
        return f"{wrong}, so the error rate is not guaranteed: leave method out, or pass rows instead of a sketch"
    told = 'for them, pass weights_are="sampling" (--weights-are sampling); for counts of rows, pass "frequency"'
    return f"{wrong}, so the error rate is not guaranteed for sampling weights; {told}"


def _differ(fewer: Float64s, more: Float64s) -> bool:
    """Return whether sorted weights differ, at a level of 1 %.

    For few of them, it is the probability that all are as extreme if they are drawn from both; else the difference of
    the means over its standard error from both.
    """
    both = np.sort(np.concatenate([fewer, more]))
    if len(fewer) < _FEW:
        above = np.count_nonzero(both >= fewer[0]) / len(both)
        below = np.count_nonzero(both <= fewer[-1]) / len(both)
        return bool(2 * min(above, below) ** len(fewer) < _LEVEL)
    variance = float(np.var(both)) * len(both) / (len(fewer) * len(more))
    return bool(abs(np.mean(fewer) - np.mean(more)) > _VARIES * math.sqrt(variance))


def _are_counts(scores: Float64s, right: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> bool:
    """Return whether no row occurs twice, and many scores occur with both outcomes."""
    different = len(np.unique(scores))
    pairs = len(np.unique(scores[right])) + len(np.unique(scores[~right]))
    return pairs == len(scores) and pairs - different > _SHARED * len(scores)


def _of_perfect(ranked: Ranked) -> str:
    """Return a caution about rows that are all right, although their scores expect errors."""
    if ranked.wrong.any() or ranked.downward:
        return ""
    with np.errstate(divide="ignore"):
        chance = float(np.sum(ranked.weights * np.log(ranked.scores)))
    if chance >= math.log(_UNLIKELY):
        return ""
    expected = float(np.sum(ranked.weights * (1 - ranked.scores)))
    return (
        f"no row is wrong, although the scores expect {expected:,.0f} errors: check that the targets are the "
        "true outcomes, and not predictions"
    )
