"""Whether scores contradict the assumption that only the event rate, or the shares of the classes, changed.

Under the assumption, and with calibrated scores in the training population, the density of new scores is that of the
training population times w(p) = sum_k q_k p_k / pi_k. So the share of new scores in a cell estimates the weighted share
of reference scores there, and the means of the reference scores are the shares pi in training. The weights are
normalised, because without a change of the shares all are 1 and their sum says nothing. The differences have a
covariance of the new scores, with the influences of the estimated shares q, and one of the reference scores.
"""

from __future__ import annotations

import itertools
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.recalibration.prior_result import PriorCheck
from calibrant.runtime.arrays import Float64s
from calibrant.statistics.folds import DealtRows
from calibrant.statistics.mixture import ClassMixture, eliminated, means, products

_MOST_CELLS: Final = 10  # of the scores of one event
_OF_CLASS: Final = 2  # cells of each predicted class
_SCORES: Final = 20  # of a cell of one event, on average
_LEAST: Final = 10  # scores of a cell, in either sample
_DETERMINED: Final = 1e-8  # variance of a direction, relative to the largest


class Shares(NamedTuple):
    """Valid shares: of the event alone, or of all classes with their names, if they are known."""

    values: tuple[float, ...]
    names: tuple[str, ...] | None

    @property
    def of_event(self) -> bool:
        """Whether this is the share of one event."""
        return len(self.values) == 1

    @property
    def columns(self) -> Float64s:
        """The shares of all columns: of one event those without and with it."""
        return np.array([1 - self.values[0], self.values[0]] if self.of_event else self.values)


class ReadScores(NamedTuple):
    """The probabilities of all columns, (M, K), the weights and clusters of these rows, and the number of scores.

    ``flag`` is a caution about the weights, or nothing.
    """

    probs: Float64s
    dealt: DealtRows
    n: int
    flag: str = ""

    @property
    def masses(self) -> Float64s:
        """The share of each row in the weight of all rows, (M,)."""
        return self.dealt.weights / self.dealt.total

    def filled(self, places: NDArray[np.intp], size: int) -> Float64s:
        """Return how many scores each place has, (size,)."""
        return np.bincount(places, self.dealt.weights / self.dealt.units, size).astype(np.float64)


def check_of_reference(
    rows: ReadScores, reference: ReadScores, trained: Shares, mixture: ClassMixture, level: float
) -> tuple[PriorCheck | None, str]:
    """Return the check against reference scores, or None and the reason."""
    from scipy.special import chdtrc

    place, place_of_reference, names = _cells(rows, reference, trained)
    size, old = len(names), reference.masses
    few = np.minimum(rows.filled(place, size), reference.filled(place_of_reference, size))
    kept = np.flatnonzero(few >= _LEAST)
    if len(kept) < 2:
        return None, f"fewer than two score ranges contain at least {_LEAST} new and {_LEAST} reference scores"
    densities = reference.probs / trained.columns
    weights = np.einsum("ik,k->i", densities, mixture.shares)
    total = float(np.sum(old * weights))
    observed = np.bincount(place, rows.masses, size)
    expected = np.bincount(place_of_reference, old * weights, size) / total
    # How the expected shares follow the estimate, and the influences of both samples on the differences.
    sums = np.stack([np.bincount(place_of_reference, old * column, size) for column in densities.T], axis=1)
    slopes = ((sums - np.outer(expected, means(densities, old))) / total)[kept]
    influences = (place[:, np.newaxis] == kept) - np.einsum("ik,bk->ib", mixture.influences, slopes)
    of_reference = ((place_of_reference[:, np.newaxis] == kept) - expected[kept]) * (weights / total)[:, np.newaxis]
    mean = means(reference.probs, old)
    covariance = _covariance(np.column_stack([of_reference, reference.probs[:, 1:]]), reference)
    covariance[: len(kept), : len(kept)] += _covariance(influences, rows)
    differences = np.concatenate([(expected - observed)[kept], (mean - trained.columns)[1:]])
    _, deviations = eliminated(covariance, _DETERMINED, differences)
    statistic, df = float(np.sum(deviations**2)), len(deviations)
    errors = np.sqrt(np.diagonal(_covariance(reference.probs, reference)))
    own = slice(1 if trained.of_event else 0, None)
    found = PriorCheck(
        kind="reference",
        statistic=statistic,
        df=df,
        p_value=float(chdtrc(df, statistic)),
        level=level,
        n_reference=reference.n,
        cells=tuple(names[k] for k in kept),
        observed=tuple(observed[kept].tolist()),
        expected=tuple(expected[kept].tolist()),
        reference_mean=tuple(mean[own].tolist()),
        reference_error=tuple(errors[own].tolist()),
    )
    return found, ""


def _covariance(influences: Float64s, rows: ReadScores) -> Float64s:
    """Return the covariance of the means of influences, (M, B), over independent rows."""
    squares = rows.masses * rows.dealt.units / rows.dealt.total
    return products(influences - means(influences, rows.masses), squares)


def check_at_end(mixture: ClassMixture, level: float) -> PriorCheck | None:
    """Return whether scores lie beyond those of any shares, for estimates of 0; None without one.

    Where the share of a class is 0, the mean of its density ratio has the expectation 1. A smaller mean than chance
    explains shows that the other classes alone do not give these scores either. Holm's and Bonferroni's adjustments
    agree for the least p-value.
    """
    ends = np.flatnonzero(mixture.shares == 0)
    if not len(ends):
        return None
    found = []
    for ratios in mixture.ratios[:, ends].T:
        below, variance = float(np.sum(mixture.masses * ratios)) - 1, mixture.rows.variance(ratios)
        found.append((variance.p_value(min(below, 0.0)) / 2, below / variance.error if variance.error else 0.0))
    p_value, deviate = min(found)
    return PriorCheck(kind="end", statistic=deviate, df=None, p_value=min(1.0, p_value * len(ends)), level=level)


def _cells(
    rows: ReadScores, reference: ReadScores, trained: Shares
) -> tuple[NDArray[np.intp], NDArray[np.intp], list[str]]:
    """Return the cell of each new and of each reference row, and the names of the cells.

    The cells of one event have equally many scores, of both samples together. Those of each predicted class are up to
    the median of its probability, and above.
    """
    both = rows, reference
    if trained.of_event:
        least, labels = min(rows.n, reference.n), [""]
        number = int(np.clip(least // _SCORES, 2, _MOST_CELLS))
        scores, predicted = [each.probs[:, 1] for each in both], [np.zeros(len(each.probs), np.intp) for each in both]
    else:
        number, labels = _OF_CLASS, [f"{name}, " for name in trained.names or map(str, range(len(trained.values)))]
        scores, predicted = [each.probs.max(axis=1) for each in both], [each.probs.argmax(axis=1) for each in both]
    places, names = [np.zeros(len(each), np.intp) for each in scores], list[str]()
    for k, label in enumerate(labels):
        held = [each == k for each in predicted]
        masses = np.concatenate([each.masses[of] for each, of in zip(both, held, strict=True)])
        edges = _edges(np.concatenate([x[of] for x, of in zip(scores, held, strict=True)]), masses, number)
        for place, x, of in zip(places, scores, held, strict=True):
            place[of] = len(names) + np.searchsorted(edges, x[of])
        texts = ["0", *(f"{edge:.3g}" for edge in edges), "1"]
        names += [f"{label}{low} – {high}" for low, high in itertools.pairwise(texts)]
    return places[0], places[1], names


def _edges(scores: Float64s, masses: Float64s, number: int) -> Float64s:
    """Return the inner ends of cells with equal masses; the last score is in the last cell."""
    order = np.argsort(scores, kind="stable")
    scores, cumulated = scores[order], np.cumsum(masses[order])
    if not len(scores):
        return scores
    places = np.searchsorted(cumulated, cumulated[-1] * np.arange(1, number) / number)
    edges = np.unique(scores[np.minimum(places, len(scores) - 1)])
    return np.asarray(edges[edges < scores[-1]])
