"""Maps for another event rate: Bayes' theorem, maximum likelihood by other optimisers, the check, forms, errors."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest
from scipy.optimize import brentq, minimize, minimize_scalar
from scipy.special import expit, logit, softmax
from scipy.stats import chi2, kstest, t

import calibrant
from calibrant.errors import InputError
from calibrant.recalibration import CalibrationMap
from calibrant.recalibration.families import FAMILIES, names_of
from calibrant.results.envelope import digest_of
from calibrant.statistics.folds import DealtRows
from calibrant.statistics.mixture import ClassMixture, eliminated
from tests.samples import sketch_of

SCORES = np.linspace(0.001, 0.999, 999)


def bayes(p: Any, prior: Any, trained: Any) -> Any:
    """The correction of classes in the last axis, as it is printed."""
    odds = np.asarray(p) * np.asarray(prior) / np.asarray(trained)
    return odds / odds.sum(axis=-1, keepdims=True)


def of_event(p: Any, prior: float, trained: float) -> Any:
    """The same for one event."""
    p = np.asarray(p)
    return bayes(np.stack([1 - p, p], axis=-1), [1 - prior, prior], [1 - trained, trained])[..., 1]


def scores_of(n: int, rate: float, seed: int, distance: float = 2.0, trained: float = 0.5) -> np.ndarray:
    """Scores of new cases by the model of a training population."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n) + distance * (rng.random(n) < rate)
    return expit(logit(trained) + distance * x - distance**2 / 2)


def classes_of(n: int, shares: Any, seed: int, distance: float = 1.5) -> np.ndarray:
    """Probabilities of classes that were equally frequent in training."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, len(shares)))
    x[np.arange(n), rng.choice(len(shares), n, p=shares)] += distance
    return softmax(distance * x, axis=1)


def likelihood(p: np.ndarray, rate: float, trained: float) -> float:
    return float(np.sum(np.log(rate * p / trained + (1 - rate) * (1 - p) / (1 - trained))))


def mixture_of(densities: np.ndarray, weights: np.ndarray) -> ClassMixture:
    return ClassMixture(densities, DealtRows.of(weights, np.ones(len(weights)), None))


# ---------------------------------------------------------------- known shares


@pytest.mark.parametrize(("prior", "trained"), [(0.02, 0.5), (0.5, 0.02), (0.3, 0.31), (1e-6, 0.5), (0.999, 0.1)])
def test_the_map_of_a_known_rate_is_the_theorem_of_bayes(prior: float, trained: float) -> None:
    fix = calibrant.prior_shift(prior=prior, trained_prior=trained)
    np.testing.assert_allclose(fix.map(SCORES), of_event(SCORES, prior, trained), rtol=1e-12)
    assert fix.map(trained) == pytest.approx(prior, rel=1e-12)  # a case that says nothing has the new rate
    back = calibrant.prior_shift(prior=trained, trained_prior=prior)
    np.testing.assert_allclose(back.map(fix.map(SCORES)), SCORES, rtol=1e-9)


def test_the_map_of_known_shares_of_classes_is_the_theorem_of_bayes() -> None:
    p, prior, trained = classes_of(200, [0.2, 0.3, 0.5], 0), [0.7, 0.2, 0.1], [0.2, 0.3, 0.5]
    fix = calibrant.prior_shift(prior=prior, trained_prior=trained)
    np.testing.assert_allclose(fix.map(p), bayes(p, prior, trained), rtol=1e-12)
    np.testing.assert_allclose(fix.map(np.log(p), logits=True), bayes(p, prior, trained), rtol=1e-12)


def test_two_classes_are_one_event() -> None:
    event, both = (
        calibrant.prior_shift(prior=0.1, trained_prior=0.4),
        calibrant.prior_shift(prior=[0.9, 0.1], trained_prior=[0.6, 0.4]),
    )
    np.testing.assert_allclose(both.map(np.column_stack([1 - SCORES, SCORES]))[:, 1], event.map(SCORES), rtol=1e-12)


def test_equal_shares_leave_the_scores_unchanged_to_the_bit() -> None:
    fix = calibrant.prior_shift(prior=0.3, trained_prior=0.3)
    assert np.array_equal(fix.map(SCORES), SCORES)
    assert fix.map([0.0, 1.0]).tolist() == [0.0, 1.0]
    assert "the same, 30 %" in fix.verdict()[0]
    of_classes = calibrant.prior_shift(prior=[0.2, 0.8], trained_prior=[0.2, 0.8]).map
    assert np.array_equal(of_classes([[0.3, 0.7]]), [[0.3, 0.7]])


@pytest.mark.parametrize("prior", [0.02, 0.98])
def test_scores_of_0_and_1_stay_to_rounding(prior: float) -> None:
    low, high = calibrant.prior_shift(prior=prior, trained_prior=0.5).map([0.0, 1.0])
    assert 0 < low < 1e-300
    assert 1 - 1e-13 < high < 1


def test_the_shares_of_classes_follow_their_names() -> None:
    prior, trained = {"dog": 0.1, "cat": 0.9}, {"cat": 0.4, "dog": 0.6}
    fix = calibrant.prior_shift(prior=prior, trained_prior=trained)
    assert fix.class_names == ("cat", "dog")
    assert fix.map.event["class_names"] == ["cat", "dog"]
    np.testing.assert_allclose(fix.map([[0.4, 0.6]]), [[0.9, 0.1]], rtol=1e-12)
    swapped = calibrant.prior_shift(prior=prior, trained_prior=trained, class_names=["dog", "cat"])
    np.testing.assert_allclose(swapped.map([[0.6, 0.4]]), [[0.1, 0.9]], rtol=1e-12)
    by_order = calibrant.prior_shift(prior=prior, trained_prior=[0.6, 0.4])
    assert by_order.class_names == ("dog", "cat")


def test_a_model_of_undersampled_non_events_is_calibrated_again() -> None:
    """Training with as many non-events as events; new rows of the population have the slope 1 and the intercept 0."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(3)
    y = (rng.random(1_100_000) < 0.02).astype(int)
    X = rng.normal(size=(len(y), 2)) + 1.2 * y[:, np.newaxis]
    half = 1_000_000  # so that the errors of the model are small
    events, others = np.flatnonzero(y[:half]), np.flatnonzero(y[:half] == 0)
    kept = np.concatenate([events, rng.choice(others, len(events), replace=False)])
    raw = LogisticRegression(C=np.inf).fit(X[kept], y[kept]).predict_proba(X[half:])[:, 1]
    mapped = calibrant.prior_shift(prior=0.02, trained_prior=0.5).map(raw)
    measures = ["calibration_slope", "calibration_intercept", "mean_gap", "auroc"]
    before, after = (calibrant.evaluate(p, y[half:], n_resamples=0, measures=measures) for p in (raw, mapped))
    assert before["calibration_intercept"].high < -3
    for name, ideal in (("calibration_slope", 1.0), ("calibration_intercept", 0.0), ("mean_gap", 0.0)):
        assert after[name].low <= ideal <= after[name].high, name
    assert after["auroc"].value == pytest.approx(before["auroc"].value, abs=1e-12)


# ---------------------------------------------------------------- estimated shares


@pytest.mark.parametrize("distance", [0.7, 2.0])
@pytest.mark.parametrize(("rate", "trained"), [(0.05, 0.5), (0.5, 0.1), (0.9, 0.3)])
def test_the_estimate_is_the_maximum_by_a_bounded_search(rate: float, trained: float, distance: float) -> None:
    p = scores_of(2_000, rate, 5, distance, trained)
    found = calibrant.prior_shift(trained_prior=trained, probs=p).estimate
    best = minimize_scalar(
        lambda t: -likelihood(p, t, trained), bounds=(0, 1), method="bounded", options={"xatol": 1e-10}
    )
    assert found.value[0] == pytest.approx(best.x, abs=1e-6)  # flat: the root of rounding of the likelihood


def test_the_estimate_of_classes_is_the_maximum_by_another_optimiser() -> None:
    p = classes_of(1_500, [0.05, 0.15, 0.3, 0.5], 1)

    def loss(z: np.ndarray) -> float:
        return -float(np.mean(np.log(4 * p @ softmax(np.append(z, 0.0)))))

    best = minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-9})
    found = calibrant.prior_shift(trained_prior=[0.25] * 4, probs=p).estimate
    np.testing.assert_allclose(found.value, softmax(np.append(best.x, 0.0)), atol=1e-6)


def test_the_estimate_is_the_limit_of_expectation_maximisation() -> None:
    """Saerens, Latinne and Decaestecker (2002), equation 2.9: the new share is the mean of the corrected scores."""
    p, trained = classes_of(800, [0.1, 0.3, 0.6], 2), np.array([0.2, 0.3, 0.5])
    p = bayes(p, trained, [1 / 3] * 3)
    shares = trained.copy()
    for _ in range(3_000):
        shares = bayes(p, shares, trained).mean(axis=0)
    fix = calibrant.prior_shift(trained_prior=trained.tolist(), probs=p)
    np.testing.assert_allclose(fix.estimate.value, shares, atol=1e-10)
    np.testing.assert_allclose(fix.map(p).mean(axis=0), fix.estimate.value, atol=1e-10)  # the fixed point


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_interval_ends_where_the_likelihood_has_fallen(level: float) -> None:
    p = scores_of(600, 0.1, 7)
    found = calibrant.prior_shift(trained_prior=0.5, probs=p, level=level).estimate
    top, drop = likelihood(p, found.value[0], 0.5), chi2.ppf(level, 1) / 2
    ends = [brentq(lambda t: top - likelihood(p, t, 0.5) - drop, *sorted((found.value[0], end))) for end in (1e-9, 0.9)]
    np.testing.assert_allclose([found.low[0], found.high[0]], ends, atol=1e-7)


def test_intervals_of_classes_are_nearly_those_of_the_profile_likelihood() -> None:
    p = 3 * classes_of(600, [0.1, 0.3, 0.6], 4)
    mixture = mixture_of(p, np.ones(len(p)))
    shares, drop = mixture.shares, chi2.ppf(0.95, 1) / 2
    for k in range(3):
        others = np.delete(np.arange(3), k)

        def fall(t: float, k: int = k, others: np.ndarray = others) -> float:
            def loss(z: float) -> float:
                return -float(np.sum(np.log(t * p[:, k] + (1 - t) * (p[:, others] @ [expit(z), expit(-z)]))))

            return len(p) * mixture.mean_log(shares) + minimize_scalar(loss).fun - drop

        ends = brentq(fall, 0.001, shares[k]), brentq(fall, shares[k], 0.999)
        np.testing.assert_allclose(mixture.interval(k, 0.95), ends, atol=2e-4)


def test_influences_are_the_effects_of_a_little_weight() -> None:
    p = 3 * classes_of(60, [0.2, 0.3, 0.5], 6)
    mixture, step = mixture_of(p, np.ones(60)), 1e-4
    for row in (0, 17, 59):
        weights = np.ones(60)
        weights[row] += step
        moved = (mixture_of(p, weights).shares - mixture.shares) / (step / 60)
        np.testing.assert_allclose(mixture.influences[row], moved, rtol=2e-2, atol=2e-3)


def test_the_order_of_rows_and_their_form_play_no_part() -> None:
    p = scores_of(500, 0.2, 8).round(3)
    one = calibrant.prior_shift(trained_prior=0.5, probs=p)
    other = calibrant.prior_shift(trained_prior=0.5, probs=np.random.default_rng(0).permutation(p))
    assert one.map == other.map
    logits = calibrant.prior_shift(trained_prior=0.5, probs=logit(p), logits=True)
    np.testing.assert_allclose(logits.estimate.value, one.estimate.value, rtol=1e-9)
    classes = classes_of(300, [0.3, 0.7], 1)
    order = np.random.default_rng(1).permutation(300)
    both = [calibrant.prior_shift(trained_prior=[0.5, 0.5], probs=classes[rows]).map for rows in (slice(None), order)]
    assert both[0] == both[1]


@pytest.mark.parametrize(("rate", "end"), [(0.0, 0.0), (1.0, 1.0)])
def test_an_estimate_at_the_end_has_half_a_row(rate: float, end: float) -> None:
    p = scores_of(100, rate, 3, 3.0)
    p = p[p < 0.5] if rate == 0 else p[p > 0.5]
    fix = calibrant.prior_shift(trained_prior=0.5, probs=p)
    assert fix.estimate.value == (end,)
    assert min(fix.prior[0], 1 - fix.prior[0]) == pytest.approx(0.5 / (len(p) + 1))
    assert (fix.estimate.low[0], fix.estimate.high[0])[int(end)] == end
    assert fix.check.kind == "end"
    assert f"the estimated event rate is {end:.0f}, the limit of the possible values" in fix.flag


def test_classes_with_an_estimated_share_of_0_are_named() -> None:
    """Nearly all scores are of the first class, whose estimated share is 1: it is not among them."""
    probs = np.random.default_rng(0).dirichlet([40, 1, 1], 60)
    fix = calibrant.prior_shift(probs, trained_prior=[1 / 3] * 3, class_names=["a", "b", "c"])
    assert fix.estimate.value == (1, 0, 0)
    assert (
        "2 classes have an estimated share of 0 (b, c), so the map uses a small share instead, as if half a row"
        in fix.flag
    )


def test_scores_beyond_any_rate_contradict_the_assumption() -> None:
    """All scores are 0.2 or 0.21: without the event the mean of the ratio of densities would be 1, here it is 0.26."""
    p = np.tile([0.2, 0.21], 50)
    fix = calibrant.prior_shift(trained_prior=0.5, probs=p)
    assert fix.check.rejects
    assert fix.objection
    ratios = p / (1 - p)
    deviate = (ratios.mean() - 1) / (ratios.std() / 10)
    assert fix.check.statistic == pytest.approx(deviate)


def test_the_band_of_the_map_has_the_ends_of_the_rate() -> None:
    fix = calibrant.prior_shift(trained_prior=0.5, probs=scores_of(400, 0.1, 2))
    np.testing.assert_allclose(fix.curve.lows, of_event(fix.curve.scores, fix.estimate.low[0], 0.5), rtol=1e-12)
    np.testing.assert_allclose(fix.curve.highs, of_event(fix.curve.scores, fix.estimate.high[0], 0.5), rtol=1e-12)
    assert not calibrant.prior_shift(prior=0.1, trained_prior=0.5).curve.has_band


# ---------------------------------------------------------------- weights and clusters


def test_a_weight_of_2_is_two_rows() -> None:
    p, weights = scores_of(300, 0.2, 3), np.random.default_rng(0).integers(0, 4, 300)
    once = calibrant.prior_shift(p, trained_prior=0.5, weights=weights, weights_are="frequency")
    often = calibrant.prior_shift(np.repeat(p, weights), trained_prior=0.5)
    assert once.map.parameters == pytest.approx(often.map.parameters, rel=1e-12)
    for name in ("value", "low", "high"):
        assert getattr(once.estimate, name) == pytest.approx(getattr(often.estimate, name), rel=1e-9)


def test_sampling_weights_have_no_scale_and_equal_ones_change_nothing() -> None:
    p, weights = scores_of(300, 0.2, 3), np.random.default_rng(0).uniform(0.5, 3, 300)
    one, other, plain, equal = (
        calibrant.prior_shift(p, trained_prior=0.5, weights=each).estimate
        for each in (weights, 1_000.7 * weights, None, np.full(300, 0.7))
    )
    for name in ("value", "low", "high"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-9)
        assert getattr(plain, name) == pytest.approx(getattr(equal, name), rel=1e-9)
    assert one.value == pytest.approx(other.value, rel=1e-13)  # the maximum is reached to rounding, not to its root
    assert plain.value == pytest.approx(equal.value, rel=1e-13)
    assert one.high[0] - one.low[0] > plain.high[0] - plain.low[0]


def test_copies_of_rows_in_clusters_tell_as_much_as_one_of_each() -> None:
    """Ten copies have the design effect 10, so that the interval is that of single rows, with a quantile of t."""
    p = scores_of(400, 0.3, 5)
    single = calibrant.prior_shift(p, trained_prior=0.5).estimate
    copies = calibrant.prior_shift(np.repeat(p, 10), trained_prior=0.5, clusters=np.repeat(np.arange(400), 10)).estimate
    assert copies.value == pytest.approx(single.value, rel=1e-9)
    assert copies.clusters == 400
    np.testing.assert_allclose([copies.low, copies.high], [single.low, single.high], atol=4e-4)


def test_the_variance_by_cluster_is_that_of_a_sandwich() -> None:
    """Equal clusters: H / (H - 1) times the squares of the sums of influences, over the square of N."""
    p, clusters = scores_of(1_000, 0.3, 6), np.repeat(np.arange(20), 50)
    r = np.column_stack([1 - p, p]) / 0.5
    q = calibrant.prior_shift(p, trained_prior=0.5).estimate.value[0]
    slopes = (r[:, 1] - r[:, 0]) / (r @ [1 - q, q])
    influence = slopes / np.mean(slopes**2)
    sums = np.bincount(clusters, influence)
    error = np.sqrt(20 / 19 * np.sum(sums**2)) / 1_000
    found = calibrant.prior_shift(p, trained_prior=0.5, clusters=clusters).estimate
    assert found.high[0] - found.low[0] == pytest.approx(2 * t.ppf(0.975, 19) * error, rel=0.02)


def test_events_in_few_clusters_are_a_caution() -> None:
    p = scores_of(600, 0.3, 6)
    few, many = (calibrant.prior_shift(p, trained_prior=0.5, clusters=np.arange(600) % n) for n in (8, 60))
    assert " clusters, fewer than 15" in few.flag.partition("one outcome occurs in only")[2]
    assert not many.flag


def test_the_interval_by_cluster_covers_the_rate() -> None:
    """20 clusters have their own rates; the standard error of a share of 200 is 0.015."""
    covered, alone = np.zeros(200), np.zeros(200)
    for seed in range(200):
        rng = np.random.default_rng((seed, 1))
        clusters, rates = rng.integers(0, 20, 800), rng.beta(0.8, 3.2, 20)
        x = rng.normal(size=800) + 2 * (rng.random(800) < rates[clusters])
        for found, given in ((covered, clusters), (alone, None)):
            fix = calibrant.prior_shift(2 * x - 2, trained_prior=0.5, logits=True, clusters=given)
            found[seed] = fix.estimate.low[0] <= 0.2 <= fix.estimate.high[0]
    assert covered.mean() >= 0.9
    assert alone.mean() < 0.7


def test_the_interval_covers_a_rare_rate_of_clusters_with_few_events() -> None:
    """A few of 100 clusters contain most events (correlation 0.2); the standard error of a share of 300 is 0.013."""
    covered = 0
    for seed in range(300):
        rng = np.random.default_rng((seed, 2))
        clusters, rates = rng.integers(0, 100, 1_000), rng.beta(0.08, 3.92, 100)
        x = rng.normal(size=1_000) + 2.5 * (rng.random(1_000) < rates[clusters])
        fix = calibrant.prior_shift(2.5 * x - 3.125, trained_prior=0.5, logits=True, clusters=clusters)
        covered += fix.estimate.low[0] <= 0.02 <= fix.estimate.high[0]
    assert covered / 300 >= 0.93


def test_scores_that_show_no_rate_give_no_map_unless_asked() -> None:
    fix = calibrant.prior_shift(0.3 + 0.001 * (scores_of(100, 0.5, 0) - 0.5), trained_prior=0.3)
    assert (fix.estimate.low, fix.estimate.high) == ((0.0,), (1.0,))
    assert fix.objection == "the scores do not determine the event rate"
    assert "because a confidence interval ranges from 0 to 1" in fix.flag
    assert fix._document(full=False).conclusion.text == "The scores do not determine the event rate"


def test_the_order_of_the_rows_and_the_names_of_clusters_change_no_bit() -> None:
    p, clusters = classes_of(300, [0.2, 0.3, 0.5], 1), np.random.default_rng(1).integers(0, 30, 300)
    weights, order = np.random.default_rng(3).uniform(0.5, 2, 300), np.random.default_rng(2).permutation(300)
    one, other = (
        calibrant.prior_shift(p[rows], trained_prior=[1 / 3] * 3, weights=weights[rows], clusters=clusters[rows])
        for rows in (slice(None), order)
    )
    assert one.map == other.map
    assert vars(one.estimate) == vars(other.estimate)


def test_eliminated_is_the_decomposition_of_cholesky() -> None:
    x = np.random.default_rng(0).normal(size=(50, 6))
    right = np.arange(6.0)
    rows, solved = eliminated(x.T @ x, 1e-12, right)
    np.testing.assert_allclose(rows, np.linalg.cholesky(x.T @ x).T, atol=1e-12)
    assert np.sum(solved**2) == pytest.approx(right @ np.linalg.solve(x.T @ x, right))
    twice = np.column_stack([x, x[:, 0]])
    assert len(eliminated(twice.T @ twice, 1e-10)[0]) == 6


# ---------------------------------------------------------------- the check


def test_the_check_has_its_level_and_its_power() -> None:
    """p-values are uniform under the assumption; with 200 data sets the Kolmogorov distance shows larger faults."""
    found = [
        calibrant.prior_shift(
            trained_prior=0.5, probs=scores_of(800, 0.1, seed), reference=scores_of(600, 0.5, seed + 10_000)
        ).check.p_value
        for seed in range(200)
    ]
    assert kstest(found, "uniform").pvalue > 0.001
    assert np.mean(np.array(found) <= 0.05) < 0.11
    confident = calibrant.prior_shift(
        trained_prior=0.5, probs=expit(1.6 * logit(scores_of(2_000, 0.1, 0))), reference=scores_of(2_000, 0.5, 1)
    )
    assert confident.check.rejects
    assert confident.objection == "the scores contradict its assumption"


def test_the_statistic_of_the_check_has_the_mean_of_chi_square() -> None:
    """The standard error of the mean of 300 is 0.18. Without the influences of the estimate it would be 4.0."""
    checks = [
        calibrant.prior_shift(
            scores_of(100, 0.5, seed, 1.5), trained_prior=0.5, reference=scores_of(1_000, 0.5, seed + 9_999, 1.5)
        ).check
        for seed in range(300)
    ]
    assert {check.df for check in checks} == {5}
    assert np.mean([check.statistic for check in checks]) == pytest.approx(5, abs=0.55)


def test_the_check_of_classes_finds_another_population() -> None:
    new, old = classes_of(2_000, [0.1, 0.3, 0.6], 0), classes_of(2_000, [1 / 3] * 3, 1)
    trained = {"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}
    fine = calibrant.prior_shift(trained_prior=trained, probs=new, reference=old)
    assert not fine.check.rejects
    assert fine.check.df == 7  # six cells, and the means of two classes, less one
    assert fine.check.cells[0].startswith("a, 0 – ")
    changed = calibrant.prior_shift(trained_prior=trained, probs=softmax(0.6 * np.log(new), axis=1), reference=old)
    assert changed.check.rejects


def test_the_expected_shares_are_those_of_weighted_reference_scores() -> None:
    new, old = scores_of(1_000, 0.1, 0), scores_of(1_500, 0.5, 1)
    fix = calibrant.prior_shift(trained_prior=0.5, probs=new, reference=old)
    rate = fix.estimate.value[0]
    weights = rate * old / 0.5 + (1 - rate) * (1 - old) / 0.5
    ends = [float(cell.split(" – ")[1]) for cell in fix.check.cells[:-1]]
    share = np.sum(weights[old <= ends[0] * 1.0001]) / np.sum(weights)
    assert fix.check.expected[0] == pytest.approx(share, abs=2e-3)
    assert sum(fix.check.observed) == pytest.approx(1.0)
    assert sum(fix.check.expected) == pytest.approx(1.0)
    assert fix.check.reference_mean[0] == pytest.approx(old.mean())


def test_a_sketch_serves_as_reference() -> None:
    old = scores_of(3_000, 0.5, 1)
    y = np.random.default_rng(0).random(3_000) < old
    sketch = sketch_of(old, y.astype(int))
    new = scores_of(1_000, 0.1, 0)
    of_rows, of_cells = (
        calibrant.prior_shift(trained_prior=0.5, probs=new, reference=each).check.statistic for each in (old, sketch)
    )
    assert of_cells == pytest.approx(of_rows, rel=0.2)


def test_a_reference_of_another_rate_is_said() -> None:
    new, old = scores_of(1_000, 0.1, 0), scores_of(1_000, 0.2, 1)
    sentences = calibrant.prior_shift(trained_prior=0.5, probs=new, reference=old).verdict()
    assert any("the mean of the reference scores is" in sentence for sentence in sentences)


def test_without_reference_it_is_said_that_nothing_is_checked() -> None:
    fix = calibrant.prior_shift(trained_prior=0.5, probs=scores_of(300, 0.2, 1))
    assert fix.check is None
    assert any(sentence.startswith("The assumption is not checked") for sentence in fix.verdict())
    assert not fix.objection


# ---------------------------------------------------------------- forms, documents


def fixes() -> dict[str, Any]:
    """A correction of each kind."""
    return {
        "known": calibrant.prior_shift(prior=0.02, trained_prior=0.5),
        "same": calibrant.prior_shift(prior=0.5, trained_prior=0.5),
        "estimated": calibrant.prior_shift(
            trained_prior=0.5, probs=scores_of(500, 0.1, 0), reference=scores_of(500, 0.5, 1)
        ),
        "end": calibrant.prior_shift(trained_prior=0.5, probs=np.tile([0.2, 0.21], 50)),
        "classes": calibrant.prior_shift(prior={"a": 0.2, "b": 0.8}, trained_prior={"a": 0.5, "b": 0.5}),
        "estimated classes": calibrant.prior_shift(
            trained_prior=[0.25] * 4, probs=classes_of(400, [0.1, 0.2, 0.3, 0.4], 0)
        ),
    }


KINDS = tuple(fixes())


@pytest.mark.parametrize("kind", KINDS)
def test_a_correction_is_assumed_and_never_proven(kind: str, tmp_path: Path) -> None:
    fix = fixes()[kind]
    assert not fix.proven
    assert not fix.map.proven
    assert fix.map.assumed
    assert fix.map.evidence["assumed"]["trained_prior"] == list(fix.trained_prior)
    assert any(sentence.startswith("Assumed, not proven") for sentence in fix.verdict())
    fix.map.to_json(tmp_path / "map.json")
    again = CalibrationMap.read(tmp_path / "map.json")
    assert again == fix.map
    assert again.assumed
    assert (again.fitted is None) == (fix.estimate is None)


@pytest.mark.parametrize("kind", KINDS)
def test_every_document_is_written(kind: str, tmp_path: Path) -> None:
    fix = fixes()[kind]
    assert len(repr(fix).splitlines()) == 1
    assert "Assumed" in str(fix)
    assert "Assumed" in fix.to_markdown()
    assert "Assumed" in fix.to_html(tmp_path / "page.html").read_text("utf-8")
    numbers = json.loads(json.dumps(fix.to_dict(), allow_nan=False))
    assert numbers["assumed"] is True
    assert numbers["proven"] is False
    assert numbers["prior"] == list(fix.prior)
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    axes = fix.plot()
    if fix.curve is not None:
        np.testing.assert_array_equal(axes.lines[0].get_ydata(), fix.curve.mapped)
    matplotlib.pyplot.close(axes.figure)


def test_every_form_of_the_map_is_the_theorem_of_bayes(tmp_path: Path) -> None:
    ort = pytest.importorskip("onnxruntime")
    torch = pytest.importorskip("torch")
    from calibrant.torch import RecalibrationLayer

    fix, expected = calibrant.prior_shift(prior=0.02, trained_prior=0.5).map, of_event(SCORES, 0.02, 0.5)
    frame = pl.DataFrame({"p": SCORES})
    sql = duckdb.sql(f"SELECT {fix.to_sql('p')} AS q FROM frame").pl()["q"].to_numpy()
    import narwhals as nw

    expression = nw.from_native(frame).select(q=fix.to_expression("p")).to_native()["q"].to_numpy()
    model = fix.to_onnx(tmp_path / "map.onnx").SerializeToString()
    onnx = ort.InferenceSession(model).run(None, {"score": SCORES})[0]
    layer = RecalibrationLayer(fix)(torch.tensor(SCORES)).numpy()
    for found in (sql, expression, onnx, layer):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)  # rounding of log p - log(1 - p)
    p, both = classes_of(50, [0.3, 0.7], 1), calibrant.prior_shift(prior=[0.9, 0.1], trained_prior=[0.5, 0.5]).map
    frame = pl.DataFrame({"a": p[:, 0], "b": p[:, 1]})
    columns = ", ".join(f"{text} AS c{k}" for k, text in enumerate(both.to_sql(["a", "b"])))
    np.testing.assert_allclose(
        duckdb.sql(f"SELECT {columns} FROM frame").pl().to_numpy(), bayes(p, [0.9, 0.1], [0.5, 0.5]), rtol=1e-12
    )
    np.testing.assert_allclose(RecalibrationLayer(both)(torch.tensor(p)), bayes(p, [0.9, 0.1], [0.5, 0.5]), rtol=1e-12)


def forged(change: Any) -> str:
    content = json.loads(calibrant.prior_shift(prior=0.02, trained_prior=0.5).map.to_json())
    content.pop("checksum")
    change(content)
    return json.dumps({**content, "checksum": digest_of(content)})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content.update(proven=True), "proof of what is assumed"),
        (lambda content: content.update(evidence={}), "no rows with outcomes"),
    ],
)
def test_a_forged_assumption_is_refused(change: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        CalibrationMap.from_json(forged(change))


def test_maps_of_older_versions_are_read() -> None:
    fitted = calibrant.recalibrate([0.2] * 50 + [0.8] * 50, [0] * 48 + [1] * 2 + [0] * 5 + [1] * 45).map
    content = json.loads(fitted.to_json())
    content.pop("checksum")
    content["version"] = 2
    assert CalibrationMap.from_json(json.dumps({**content, "checksum": digest_of(content)})) == fitted
    assert not fitted.assumed


def test_a_map_of_a_known_rate_has_no_scores_to_watch() -> None:
    with pytest.raises(InputError, match="a map that was fitted to scores"):
        calibrant.prior_shift(prior=0.02, trained_prior=0.5).map.check([0.5])
    new = scores_of(500, 0.1, 0)
    fix = calibrant.prior_shift(trained_prior=0.5, probs=new)
    assert fix.map.fitted.positives is None
    assert not fix.map.check(new).drifted
    assert fix.map.check(1 - new).drifted


def test_intercept_is_another_name_of_shift() -> None:
    assert names_of(FAMILIES)["intercept"].name == "shift"


# ---------------------------------------------------------------- wrong input

NEW = scores_of(100, 0.2, 0)


@pytest.mark.parametrize(
    ("arguments", "argument", "message"),
    [
        ({"prior": 0.0, "trained_prior": 0.5}, "prior", "above 0 and below 1"),
        ({"prior": 0.1, "trained_prior": 1}, "trained_prior", "above 0 and below 1"),
        ({"prior": math.nan, "trained_prior": 0.5}, "prior", "above 0 and below 1"),
        ({"prior": True, "trained_prior": 0.5}, "prior", "above 0 and below 1"),
        ({"prior": "0.1", "trained_prior": 0.5}, "prior", "the shares of all classes, got '0.1'"),
        ({"prior": ["a", "b"], "trained_prior": [0.5, 0.5]}, "prior", "real numbers"),
        ({"prior": {"a": "0.5", "b": 0.5}, "trained_prior": [0.5, 0.5]}, "prior", "strings such as '0.5'"),
        ({"prior": [0.1, 0.8], "trained_prior": [0.5, 0.5]}, "prior", "sum 1, got the sum 0.9"),
        ({"prior": [1.0], "trained_prior": 0.5}, "prior", "at least two classes"),
        ({"prior": [0.2, 0.8], "trained_prior": 0.5}, "prior", "the share of one event"),
        ({"prior": {"a": 0.2, "b": 0.8}, "trained_prior": {"a": 0.5, "c": 0.5}}, "prior", "classes 'a', 'c', got 'b'"),
        ({"prior": [0.2, 0.8], "trained_prior": [0.5, 0.5], "class_names": ["a"]}, "class_names", "2 different names"),
        ({"prior": 0.2, "trained_prior": 0.5, "class_names": ["a", "b"]}, "class_names", "one event"),
        ({"trained_prior": 0.5}, "prior", "either prior or probs, got neither"),
        ({"prior": 0.2, "trained_prior": 0.5, "probs": NEW}, "prior", "got both"),
        ({"prior": 0.2, "trained_prior": 0.5, "reference": NEW}, "reference", "probs together with reference"),
        ({"trained_prior": 0.5, "probs": [*NEW, 1.5]}, "probs", "1.5 at row 100"),
        ({"trained_prior": 0.5, "probs": NEW, "reference": [*NEW, math.nan]}, "reference", "row 100"),
        ({"trained_prior": 0.5, "probs": NEW[:9]}, "probs", "at least 30 scores"),
        ({"trained_prior": 0.5, "probs": [0.5] * 100}, "probs", "scores that differ"),
        ({"trained_prior": 0.5, "probs": np.column_stack([1 - NEW, NEW])}, "probs", "a score for each row"),
        ({"trained_prior": [0.2, 0.3, 0.5], "probs": np.column_stack([1 - NEW, NEW])}, "probs", "a column for each"),
        ({"trained_prior": [0.5, 0.5], "probs": np.column_stack([NEW, NEW])}, "probs", "rows that sum to 1"),
        ({"trained_prior": [1 / 201] * 201, "probs": np.eye(201)}, "trained_prior", "up to 200 classes"),
        ({"trained_prior": 0.5, "probs": NEW, "level": 95}, "level", "0.5 to below 1"),
        ({"trained_prior": 0.5, "probs": NEW, "weights": [1.0]}, "weights", "100 numbers"),
        ({"trained_prior": 0.5, "probs": NEW, "weights": [-1.0] * 100}, "weights", "0 or more"),
        ({"trained_prior": 0.5, "probs": NEW, "weights": [1] * 9 + [0] * 91}, "probs", "got 9 with weight above 0"),
        ({"trained_prior": 0.5, "probs": NEW, "weights_are": "frequency"}, "weights_are", "weights together with it"),
        ({"trained_prior": 0.5, "probs": NEW, "clusters": [1] * 100}, "clusters", "at least 2 clusters"),
        ({"trained_prior": 0.5, "probs": NEW, "clusters": [1, 2]}, "clusters", "100"),
        ({"trained_prior": 0.5, "probs": NEW, "clusters": range(100), "reference": NEW}, "reference", "with clusters"),
        (
            {"prior": 0.2, "trained_prior": 0.5, "clusters": range(100)},
            "clusters",
            "probs together with clusters, got no probs",
        ),
        (
            {"trained_prior": [0.4, 0.2, 0.4], "probs": np.column_stack([NEW, *[(1 - NEW) / 2] * 2])},
            "probs",
            "determine",
        ),
    ],
)
def test_wrong_input_is_named(arguments: dict[str, Any], argument: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        calibrant.prior_shift(**arguments)
    assert caught.value.argument == argument
    assert caught.value.remedy


def test_a_sketch_of_classes_is_no_reference() -> None:
    sketch = sketch_of(classes_of(100, [0.5, 0.2, 0.3], 0), np.zeros(100, int))
    with pytest.raises(InputError, match="a sketch of one event"):
        calibrant.prior_shift(trained_prior=0.5, probs=NEW, reference=sketch)
