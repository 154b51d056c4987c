"""The two-way additive model, against least squares with a column for each model and question."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from calibrant.statistics.simultaneous import ranking
from calibrant.statistics.two_way import linked, two_way


def drawn(seed: int, questions: int, models: int, share: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    results = rng.normal(size=(questions, models)) + rng.normal(size=(questions, 1))
    results[rng.random(results.shape) > share] = np.nan
    return results[np.isfinite(results).any(axis=1)]


def naive(results: np.ndarray, clusters: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The adjusted means, and the CR2 standard errors and degrees of freedom of the differences, by dense matrices."""
    n, k = results.shape
    cells = np.argwhere(np.isfinite(results))
    y = results[tuple(cells.T)]
    of_models = np.eye(k)[cells[:, 1]]
    of_questions = np.eye(n)[cells[:, 0]]
    design = np.hstack([of_models, of_questions])
    solution = np.linalg.pinv(design) @ y
    residuals = y - design @ solution
    within = np.eye(len(y)) - of_questions @ np.linalg.pinv(of_questions)
    projected = within @ of_models
    inverse = np.linalg.pinv(projected.T @ projected)
    left = np.eye(len(y)) - design @ np.linalg.pinv(design)
    errors, df = np.zeros((k, k)), np.full((k, k), np.inf)
    for i, j in itertools.combinations(range(k), 2):
        contrast = np.eye(k)[i] - np.eye(k)[j]
        square, parts = 0.0, []
        for cluster in np.unique(clusters):
            rows = np.flatnonzero(clusters[cells[:, 0]] == cluster)
            own = projected[rows]
            values, axes = np.linalg.eigh(np.eye(len(rows)) - own @ inverse @ own.T)
            scaled = axes * np.where(values > 1e-9, 1 / np.sqrt(np.maximum(values, 1e-9)), 0)
            weights = scaled @ axes.T @ own @ inverse @ contrast
            square += float(weights @ residuals[rows]) ** 2
            parts.append(left[:, rows] @ weights)
        products = np.array(parts) @ np.array(parts).T
        errors[i, j] = errors[j, i] = np.sqrt(square)
        df[i, j] = df[j, i] = np.trace(products) ** 2 / np.sum(products**2)
    levels = [np.nanmean(row - solution[:k]) for row in results]
    return solution[:k] + np.mean(levels), errors, df


@pytest.mark.parametrize(
    ("questions", "models", "share", "clusters"),
    [(12, 4, 0.7, None), (25, 5, 0.5, 7), (15, 3, 1.0, None), (30, 3, 1.0, 8), (40, 8, 0.35, None)],
)
def test_means_and_errors_are_those_of_least_squares(questions, models, share, clusters):
    results = drawn(questions, questions, models, share)
    labels = np.arange(len(results)) if clusters is None else np.arange(len(results)) % clusters
    found = two_way(results, None if clusters is None else labels)
    means, errors, df = naive(results, labels)
    np.testing.assert_allclose(found.means, means, rtol=1e-9, atol=1e-10)
    known = np.isfinite(found.spread.errors)
    np.testing.assert_allclose(found.spread.errors[known], errors[known], rtol=1e-9)
    assert known.mean() > 0.9
    # The degrees of freedom are a lower bound, and exact if all clusters have the same models.
    own = np.asarray(found.spread.df)
    assert np.all(own[known] <= df[known] * (1 + 1e-9))
    assert np.all(own[known] >= (0.6 * df[known] if share < 1 else df[known] * (1 - 1e-9)))


def test_complete_results_have_the_plain_means_and_their_covariance():
    results = drawn(3, 60, 4)
    found = two_way(results)
    np.testing.assert_allclose(found.means, results.mean(axis=0), rtol=1e-11)
    np.testing.assert_allclose(found.variances, results.var(axis=0, ddof=1) / 60, rtol=1e-9)
    gaps = results[:, :, None] - results[:, None, :]
    np.testing.assert_allclose(found.spread.errors, gaps.std(axis=0, ddof=1) / np.sqrt(60), rtol=1e-9, atol=1e-15)
    off = ~np.eye(4, dtype=bool)
    np.testing.assert_allclose(np.asarray(found.spread.df)[off], 59, rtol=1e-9)
    np.testing.assert_allclose(found.worth[off], 60, rtol=1e-9)
    assert found.df == pytest.approx(59)


def test_a_model_that_answered_harder_questions_loses_nothing():
    """Without errors, the additive model is exact, whoever answered what."""
    rng = np.random.default_rng(0)
    ability, difficulty = np.array([0.1, 0.2, 0.4, 0.8]), rng.normal(size=50)
    results = ability + difficulty[:, None]
    results[rng.random(results.shape) < 0.5] = np.nan
    results[difficulty < 0, 3] = np.nan  # the best model answered only one half
    results = results[np.isfinite(results).any(axis=1)]
    found = two_way(results)
    np.testing.assert_allclose(found.means - found.means[0], ability - ability[0], atol=1e-10)


def test_a_single_question_that_decides_a_difference_gives_no_error():
    results = np.array([[1.0, 2.0, np.nan], [2.0, 2.5, np.nan], [0.0, 3.0, np.nan], [np.nan, 1.0, 5.0]])
    errors = two_way(results).spread.errors
    assert np.isinf(errors[2, :2]).all()
    assert np.isfinite(errors[0, 1])
    ranked = ranking(two_way(results).means, two_way(results).spread, 0.95)
    assert (ranked.rank_low[2], ranked.rank_high[2]) == (1, 3)


def test_parts_without_common_questions():
    present = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 0, 0]], bool)
    parts = linked(present)
    assert parts[0] == parts[1] != parts[2] == parts[3]
    assert len(set(linked(np.array([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]], bool)))) == 1


def test_shares_that_never_differed_are_not_known_to_be_alike():
    results = np.ones((10, 2))
    assert two_way(results).spread.errors[0, 1] == 0
    assert two_way(results, shares=True).spread.errors[0, 1] == pytest.approx(np.sqrt(2) / 12)


def test_the_input_is_not_written_to():
    results = drawn(1, 20, 3, 0.6)
    results.flags.writeable = False
    two_way(results)
