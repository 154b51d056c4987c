"""Whether scores contradict the assumption that only the event rate, or the shares of the classes, changed.

Under the assumption, and with calibrated scores in the training population, the density of new scores is that of the
training population times w(p) = sum_k q_k p_k / pi_k. So the share of new scores in a cell estimates the weighted share
of reference scores there, and the means of the reference scores are the shares pi in training. The weights are
normalised, because without a change of the shares all are 1 and their sum says nothing. The differences have a
covariance of the new scores, with the influences of the estimated shares q, and one of the reference scores.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.recalibration.prior_result import PriorCheck
from calibrant.runtime.arrays import Float64s
from calibrant.statistics.mixture import Mixture

_MOST_CELLS: Final = 10  # of the scores of one event
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


class Rows(NamedTuple):
    """Distinct rows of scores: the probabilities of all columns, (N, K), and how many rows have them, (N,)."""

    probs: Float64s
    counts: Float64s

    @property
    def n(self) -> int:
        """The number of all rows."""
        return int(self.counts.sum())


class Cells(NamedTuple):
    """The cells of new and of reference rows, by their numbers, and the names of all cells."""

    new: NDArray[np.intp]
    reference: NDArray[np.intp]
    names: tuple[str, ...]


def check_of_reference(
    rows: Rows, reference: Rows, trained: Shares, mixture: Mixture, shares: Float64s, level: float
) -> tuple[PriorCheck | None, str]:
    """Return the check against reference scores, or None and why there is none."""
    from scipy.special import chdtrc

    cells = _cells_of_scores(rows, reference) if trained.of_event else _cells_of_classes(rows, reference, trained.names)
    densities = reference.probs / trained.columns
    weights = np.einsum("ik,k->i", densities, shares)
    new, old = rows.counts / rows.n, reference.counts / reference.counts.sum()
    size = len(cells.names)
    observed = np.bincount(cells.new, new, size)
    total = float(np.sum(old * weights))
    expected = np.bincount(cells.reference, old * weights, size) / total
    few = np.minimum(np.bincount(cells.new, rows.counts, size), np.bincount(cells.reference, reference.counts, size))
    kept = np.flatnonzero(few >= _LEAST)
    if len(kept) < 2:
        return None, "too few scores share a cell with the reference scores"
    # How the expected shares follow the estimate, and the influences of both samples on the differences.
    sums = np.stack([np.bincount(cells.reference, old * column, size) for column in densities.T], axis=1)
    slopes = ((sums - np.outer(expected, _means(densities, old))) / total)[kept]
    influences = (cells.new[:, np.newaxis] == kept) - np.einsum("ik,bk->ib", mixture.influences(shares), slopes)
    of_reference = ((cells.reference[:, np.newaxis] == kept) - expected[kept]) * (weights / total)[:, np.newaxis]
    means = _means(reference.probs, old)
    covariance = _covariance(np.column_stack([of_reference, reference.probs[:, 1:]]), old) / reference.n
    covariance[: len(kept), : len(kept)] += _covariance(influences, new) / rows.n
    differences = np.concatenate([(expected - observed)[kept], (means - trained.columns)[1:]])
    values, vectors = np.linalg.eigh(covariance)
    held = values > _DETERMINED * values[-1]
    statistic = float(np.sum((vectors.T @ differences)[held] ** 2 / values[held]))
    df = int(held.sum())
    errors = np.sqrt(_means((reference.probs - means) ** 2, old) / reference.n)
    own = slice(1 if trained.of_event else 0, None)
    found = PriorCheck(
        kind="reference",
        statistic=statistic,
        df=df,
        p_value=float(chdtrc(df, statistic)),
        level=level,
        n_reference=reference.n,
        cells=tuple(cells.names[k] for k in kept),
        observed=tuple(observed[kept].tolist()),
        expected=tuple(expected[kept].tolist()),
        reference_mean=tuple(means[own].tolist()),
        reference_error=tuple(errors[own].tolist()),
    )
    return found, ""


def _covariance(influences: Float64s, masses: Float64s) -> Float64s:
    """Return the covariance of the influence of a row."""
    rest = influences - _means(influences, masses)
    return np.asarray(np.einsum("ib,ic->bc", rest * masses[:, np.newaxis], rest))


def _means(columns: Float64s, masses: Float64s) -> Float64s:
    """Return the weighted mean of each column; sums are in order, so that threads do not change the bits."""
    return np.asarray(np.einsum("i,ik->k", masses, columns))


def check_at_end(mixture: Mixture, shares: Float64s, level: float) -> PriorCheck | None:
    """Return whether scores lie beyond those of any shares, for estimates of 0; None without one.

    Where the share of a class is 0, the mean of its density ratio has the expectation 1. A smaller mean than chance
    explains shows that the other classes alone do not give these scores either. Holm's and Bonferroni's adjustments
    agree for the least p-value.
    """
    from scipy.special import ndtr

    ends = np.flatnonzero(shares == 0)
    if not len(ends):
        return None
    masses = mixture.weights / mixture.n
    ratios = mixture.ratios(shares)[:, ends]
    means = _means(ratios, masses)
    errors = np.sqrt(_means((ratios - means) ** 2, masses) / mixture.n)
    deviate = float(np.min((means - 1) / np.where(errors > 0, errors, np.inf)))
    p_value = min(1.0, float(ndtr(deviate)) * len(ends))
    return PriorCheck(kind="end", statistic=deviate, df=None, p_value=p_value, level=level)


def _cells_of_scores(rows: Rows, reference: Rows) -> Cells:
    """Return cells of the scores of one event, with equally many rows of both samples together."""
    x, z = rows.probs[:, 1], reference.probs[:, 1]
    both = np.concatenate([x, z])
    masses = np.concatenate([rows.counts / rows.counts.sum(), reference.counts / reference.counts.sum()]) / 2
    order = np.argsort(both, kind="stable")
    both, cumulated = both[order], np.cumsum(masses[order])
    smaller = min(rows.counts.sum(), reference.counts.sum())
    number = int(np.clip(smaller // _SCORES, 2, _MOST_CELLS))
    places = np.searchsorted(cumulated, np.arange(1, number) / number)
    edges = np.unique(both[np.minimum(places, len(both) - 1)])
    edges = edges[edges < both[-1]]
    texts = ["0", *(f"{edge:.3g}" for edge in edges), "1"]
    names = tuple(f"{low} – {high}" for low, high in itertools.pairwise(texts))
    return Cells(np.searchsorted(edges, x), np.searchsorted(edges, z), names)


def _cells_of_classes(rows: Rows, reference: Rows, names: Sequence[str] | None) -> Cells:
    """Return two cells for each predicted class: up to the median of its probability in both samples, and above."""
    k = rows.probs.shape[1]
    predicted = rows.probs.argmax(axis=1), reference.probs.argmax(axis=1)
    largest = rows.probs.max(axis=1), reference.probs.max(axis=1)
    medians = [
        float(
            np.median(np.concatenate([top[of == each] for top, of in zip(largest, predicted, strict=True)] or [[0.0]]))
        )
        if any((of == each).any() for of in predicted)
        else 0.0
        for each in range(k)
    ]
    new, old = (2 * of + (top > np.take(medians, of)) for of, top in zip(predicted, largest, strict=True))
    texts = [
        f"{name}, {side} {median:.3g}"
        for name, median in zip(names or map(str, range(k)), medians, strict=True)
        for side in ("up to", "above")
    ]
    return Cells(new, old, tuple(texts))
