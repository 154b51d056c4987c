"""Means of models over questions that not all of them answered: the two-way additive model.

The result of model m on question q is alpha_m + gamma_q + an error, so a question is as hard for every model. The
effects alpha are estimated by least squares: the difference of two models uses all questions that link them, directly
or through other models. If all models answered all questions, these are the differences of the plain means.

The variances are those of sums over clusters of questions. Residuals are scaled so that the squares are unbiased if all
errors have one variance (CR2), and the degrees of freedom are Satterthwaite's under this assumption (Bell and McCaffrey
2002, Survey Methodology 28; Pustejovsky and Tipton 2018, doi 10.1080/07350015.2016.1247004).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.runtime.arrays import Float64s
from calibrant.statistics.buckets import degrees_of_freedom
from calibrant.statistics.simultaneous import Spread

_DETERMINED: Final = 1e-9  # of 1: a cluster with a larger share of a difference has no residual for it
_DIGITS: Final = 10  # significant: processors differ far after them, so that hardly any number is rounded in two ways
_RIDGE: Final = 1e-9  # of the largest variance, so that the rounded covariance has a root
_CORRELATION: Final = 0.2  # of the questions of a cluster, for degrees of freedom


class TwoWay(NamedTuple):
    """The adjusted means of M models, and how they vary.

    ``means`` are what each model would have on all questions, (M,), ``variances`` theirs, (M,), with ``df`` degrees of
    freedom. ``spread`` has the standard errors of the differences, infinite if a single cluster decides a difference.
    ``worth``, (M, M), are the numbers of common questions in which each difference would be as precise.
    """

    means: Float64s
    variances: Float64s
    df: float
    spread: Spread
    worth: Float64s


def linked(present: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the number of the part of each model, (M,): common questions link the models of a part.

    ``present``, (Q, M), tells which model answered which question.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    answers = csr_array(present, dtype=np.int64)
    return np.asarray(connected_components(answers.T @ answers, directed=False)[1], np.intp)


def two_way(results: Float64s, clusters: NDArray[np.intp] | None = None, *, shares: bool = False) -> TwoWay:
    """Return the adjusted means of models that are linked by their questions.

    Parameters
    ----------
    results : array, (Q, M)
        The results of the models on each question; NaN if it is missing. Every question has a result.
    clusters : array, (Q,), optional
        The number of each question's cluster, from 0; by default, questions are independent.
    shares : bool
        Whether the results are shares of right answers. Each model is then better in one more question, as in Bonett
        and Price's interval, by as much as the two models differed in others. So models that never differed in a few
        questions are not known to be alike.
    """
    present = np.isfinite(results)
    of_question = np.arange(len(results)) if clusters is None else clusters
    sizes = np.bincount(of_question).astype(np.float64)
    answered = present.sum(axis=1)[:, None]

    def centred(values: Float64s) -> Float64s:
        """Return values around the mean of the models that answered the question; 0 for the others."""
        return np.where(present, values - np.sum(values, axis=1, where=present, keepdims=True) / answered, 0.0)

    inverse = _inverse(np.diag(present.sum(axis=0)) - np.einsum("qi,qj->ij", present / answered, present))
    effects = np.einsum("ij,j->i", inverse, centred(results).sum(axis=0))
    around, freedom = _by_cluster(centred(results - effects), of_question), _Freedom.none(len(effects))
    added = np.empty_like(around)
    for part in _parts(present, None if clusters is None else of_question):
        added[part.members] = np.einsum("cj,ij->ci", around[part.members], part.lift(inverse, freedom))
    levels = np.mean(results - effects, axis=1, where=present)  # of the questions
    shares_of_models = (present / answered).mean(axis=0)
    own = added - np.einsum("ci,i->c", added, shares_of_models)[:, None]
    own += _by_cluster((levels - levels.mean())[:, None], of_question) * (_small(len(sizes)) / len(results))
    precision = np.diagonal(inverse)[:, None] + np.diagonal(inverse) - 2 * inverse
    worth = 2 / (precision + np.diag(np.full(len(effects), np.nan)))
    covariance = np.einsum("ci,cj->ij", added, added)
    spread = Spread.of(covariance, between=lambda i, j: float(np.sum((added[:, i] - added[:, j]) ** 2)))
    squares = spread.errors**2
    if shares:
        unseen = _unseen(results, present)
        squares = np.nan_to_num((worth**2 * squares + 2 * unseen) / (worth + 2) ** 2)
        covariance += np.eye(len(effects)) * (unseen.max() / (np.nanmin(worth) + 2) ** 2)
    covariance += np.eye(len(effects)) * (_RIDGE * np.diagonal(covariance).max())
    errors = np.where(freedom.unknown, np.inf, np.sqrt(squares))
    return TwoWay(
        means=_rounded(effects + levels.mean(), _DIGITS + 2),
        variances=_rounded(np.einsum("ci,ci->i", own, own)),
        df=degrees_of_freedom(sizes, _CORRELATION)[0] if len(sizes) > 1 else 0.0,
        spread=Spread(_rounded(errors), _rounded(covariance), freedom.df),
        worth=worth,
    )


def _unseen(results: Float64s, present: NDArray[np.bool_]) -> Float64s:
    """Return the mean squared difference of each two models in the questions in which they differ; 1 without any."""
    filled, kept = np.where(present, results, 0.0), present.astype(np.float64)
    squares = np.ones((results.shape[1], results.shape[1]))
    for i in range(results.shape[1]):
        gaps = (filled - filled[:, i : i + 1]) ** 2 * kept * kept[:, i : i + 1]
        numbers = np.count_nonzero(gaps, axis=0)
        squares[i] = np.divide(gaps.sum(axis=0), numbers, out=np.ones(len(squares)), where=numbers > 0)
    return squares


def _inverse(information: Float64s) -> Float64s:
    """Return the inverse of the information about effects whose sum is 0."""
    mean = np.full_like(information, 1 / len(information))
    return np.asarray(np.linalg.inv(information + mean) - mean)


def _by_cluster(values: Float64s, clusters: NDArray[np.intp]) -> Float64s:
    """Return the sums of the rows of each cluster."""
    return np.column_stack([np.bincount(clusters, column) for column in values.T])


def _small(number: int) -> float:
    """Return by how much residuals around a mean of so many clusters are too small."""
    return math.sqrt(number / max(number - 1, 1))


def _rounded(values: Float64s, significant: int = _DIGITS) -> Float64s:
    """Return numbers to the digits that all processors share."""
    digits = [float(f"{value:.{significant}g}") for value in values.ravel().tolist()]
    rounded: Float64s = np.array(digits, np.float64).reshape(values.shape)
    return rounded


class _Freedom(NamedTuple):
    """Sums over clusters for the degrees of freedom of each difference, (M, M).

    A cluster has the information d of a difference, and ``left`` remains in its residuals.
    """

    mean: Float64s  # the sum of d - left
    square: Float64s  # the sum of d^2 - 2 d left
    left: Float64s
    unknown: NDArray[np.bool_]  # whether a single cluster decides the difference

    @classmethod
    def none(cls, k: int) -> _Freedom:
        """Return the sums over no cluster."""
        return cls(np.zeros((k, k)), np.zeros((k, k)), np.zeros((k, k)), np.zeros((k, k), np.bool_))

    def add(self, d: Float64s, left: Float64s, number: int, unknown: NDArray[np.bool_]) -> None:
        """Add clusters that have the same questions."""
        self.mean[:] += number * (d - left)
        self.square[:] += number * (d**2 - 2 * d * left)
        self.left[:] += number * left
        self.unknown[:] |= unknown

    @property
    def df(self) -> Float64s:
        """The degrees of freedom: at most those of Satterthwaite, because the parts ``left`` count as one direction."""
        squares = self.square + self.left**2
        known = (squares > 0) & ~self.unknown
        df = np.divide(self.mean**2, squares, out=np.ones_like(squares), where=known)
        np.fill_diagonal(df, np.inf)
        return _rounded(df)


class _Part(NamedTuple):
    """Clusters with the same questions of the same models: a root of their information, (M, r), and its inverse."""

    members: Any  # the numbers of the clusters, or a slice
    number: int
    root: Float64s
    back: Float64s  # (r, M)

    def lift(self, inverse: Float64s, freedom: _Freedom) -> Float64s:
        """Return what turns a cluster's sums of residuals into what it adds to the effects, (M, M)."""
        lifted = inverse @ self.root
        leverages, axes = np.linalg.eigh(self.root.T @ lifted)
        decided = leverages > 1 - _DETERMINED
        scales = np.where(decided, 0.0, 1 / np.sqrt(np.where(decided, 1.0, 1 - np.minimum(leverages, 1.0))))
        turned = lifted @ axes
        weights = turned * scales
        d, left = (_of_differences(each) for each in (weights, weights * np.sqrt(np.maximum(leverages, 0.0))))
        unknown = _of_differences(turned[:, decided]) > _DETERMINED * _of_differences(turned)
        freedom.add(d, left, self.number, unknown)
        return np.asarray(weights @ axes.T @ self.back)


def _of_differences(vectors: Float64s) -> Float64s:
    """Return the squared lengths of the differences of rows, (M, M)."""
    products = np.einsum("ir,jr->ij", vectors, vectors)
    squares = np.diagonal(products)
    return np.asarray(np.maximum(squares[:, None] + squares - 2 * products, 0.0))


def _parts(present: NDArray[np.bool_], clusters: NDArray[np.intp] | None) -> Iterator[_Part]:
    """Yield the clusters, those with the same questions together; without clusters each question is one."""
    k = present.shape[1]
    if clusters is None:
        patterns, members = np.unique(np.packbits(present, axis=1), axis=0, return_inverse=True)
        order = np.argsort(members.ravel(), kind="stable")
        for rows in np.split(order, np.cumsum(np.bincount(members.ravel(), minlength=len(patterns)))[:-1]):
            models = np.flatnonzero(present[rows[0]])
            root = np.zeros((k, len(models)))
            root[models] = np.eye(len(models)) - 1 / len(models)
            yield _Part(rows, len(rows), root, root.T)
        return
    order = np.argsort(clusters, kind="stable")
    for number, rows in enumerate(np.split(order, np.cumsum(np.bincount(clusters))[:-1])):
        own = present[rows]
        shares = own / own.sum(axis=1, keepdims=True)
        values, axes = np.linalg.eigh(np.diag(own.sum(axis=0)) - np.einsum("qi,qj->ij", shares, own))
        held = values > _DETERMINED * max(float(values[-1]), 1.0)
        root = axes[:, held] * np.sqrt(values[held])
        yield _Part(np.array([number]), 1, root, (axes[:, held] / np.sqrt(values[held])).T)
