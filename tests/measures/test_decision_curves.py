"""Net benefit and the Murphy curve: against dcurves, naive loops, closed relations and simulations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, ndtri
from scipy.stats import t as student

import calibrant
from calibrant import MurphyCurve, NetBenefit, ReliabilityTable, murphy_curve, net_benefit
from calibrant.errors import InputError
from calibrant.measures import Event
from calibrant.measures.cumulative.cumulative import RANGE
from calibrant.measures.decisions.decision_curve import (
    Treated,
    decision_curve_of,
    net_benefit_interval_by_cluster,
    treated_of_buckets,
)
from calibrant.table.cluster_labels import as_clusters
from calibrant.table.cluster_sums import BucketSums
from tests.builders import clustered_of
from tests.samples import draw, sketch_of

#: Sums of at most 1,000 numbers of at most 99 (the odds at t = .99) in another order, divided by their number.
CLOSE = 1e-12


def tied(n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Return scores with ties, three of them at a threshold below, and outcomes."""
    i = np.arange(1, n + 1)
    scores = np.round(np.sin(i * 0.7) ** 2 * 0.98 + 0.01, 2)
    return scores, ((i * 37) % 101 / 101 < scores**1.3).astype(int)


THRESHOLDS = [0.05, 0.1, 0.25, 0.33, 0.5, 0.75, 0.9]


def drawn(seed: int, n: int = 500) -> tuple[np.ndarray, np.ndarray]:
    """Return scores, many of them tied at thresholds, some of them 0 and 1, and outcomes."""
    rng = np.random.default_rng(seed)
    scores = np.where(rng.random(n) < 0.4, np.round(rng.random(n), 1), rng.random(n))
    return scores, (rng.random(n) < scores**1.3).astype(int)


def naive_benefit(scores: Any, outcomes: Any, t: float) -> float:
    found = sum(1 for p, y in zip(scores, outcomes, strict=True) if p >= t and y == 1)
    alarms = sum(1 for p, y in zip(scores, outcomes, strict=True) if p >= t and y == 0)
    return (found - alarms * t / (1 - t)) / len(scores)


def naive_score(scores: Any, outcomes: Any, t: float) -> float:
    losses = [t * (y == 0) if p > t else (1 - t) * (y == 1) for p, y in zip(scores, outcomes, strict=True)]
    return sum(losses) / len(losses)


# ---------------------------------------------------------------- values


def test_the_numbers_of_dcurves() -> None:
    """dcurves 1.1.7, ``dca(df, "y", ["m"], thresholds=THRESHOLDS)`` on these rows: models "m" and "all"."""
    curve = net_benefit(*tied(), thresholds=THRESHOLDS)
    model = [
        *(0.4263157894736842, 0.4074074074074074, 0.3555555555555555, 0.3266169154228855),
        *(0.2833333333333333, 0.19999999999999996, 0.21666666666666665),
    ]
    everyone = [
        *(0.4210526315789474, 0.3888888888888889, 0.26666666666666666, 0.17910447761194026),
        *(-0.10000000000000003, -1.2000000000000002, -4.500000000000001),
    ]
    np.testing.assert_allclose(curve.net_benefit, model, rtol=0, atol=CLOSE)
    np.testing.assert_allclose(curve.treat_all, everyone, rtol=0, atol=CLOSE)
    assert np.isin(tied()[0], THRESHOLDS).sum() == 3  # p >= t, as in R


@pytest.mark.parametrize("seed", range(4))
def test_naive_loops_agree_at_the_default_thresholds(seed: int) -> None:
    scores, outcomes = drawn(seed)
    benefit, murphy = net_benefit(scores, outcomes), murphy_curve(scores, outcomes)
    places = [i / 100 for i in range(1, 100)]
    np.testing.assert_array_equal(benefit.thresholds, places)
    np.testing.assert_array_equal(murphy.thresholds, places)
    np.testing.assert_allclose(
        benefit.net_benefit, [naive_benefit(scores, outcomes, t) for t in places], rtol=0, atol=CLOSE
    )
    np.testing.assert_allclose(murphy.scores, [naive_score(scores, outcomes, t) for t in places], rtol=0, atol=CLOSE)
    np.testing.assert_array_equal(benefit.treated, [(scores >= t).sum() for t in places])
    assert (benefit.n, murphy.n) == (500, 500)
    assert not benefit.error_bounds.any()
    assert not murphy.error_bounds.any()


def test_thresholds_are_rounded_to_the_type_of_the_scores() -> None:
    scores, outcomes = drawn(1)
    for dtype in (np.float32, np.float64):  # float16 becomes float32
        curve = net_benefit(np.round(scores, 1).astype(dtype), outcomes, thresholds=[0.1, 0.3, 0.7])
        np.testing.assert_array_equal(curve.treated, [(np.round(scores, 1) >= t).sum() for t in (0.1, 0.3, 0.7)])


@pytest.mark.parametrize("seed", range(4))
def test_twice_the_area_is_the_brier_score(seed: int) -> None:
    """The curve is linear between scores, so its value halfway times the distance is its integral there."""
    scores, outcomes = drawn(seed)
    knots = np.unique(np.concatenate([[0.0, 1.0], scores]))
    curve = murphy_curve(scores, outcomes, thresholds=(knots[1:] + knots[:-1]) / 2)
    brier = calibrant.brier_score(scores, outcomes)
    assert 2 * curve.scores @ np.diff(knots) == pytest.approx(brier, abs=1e-12)
    assert 2 * curve.area == pytest.approx(brier, abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_net_benefit_is_the_outcome_rate_less_the_elementary_score(seed: int) -> None:
    scores, outcomes = drawn(seed)
    places = np.arange(1, 40) / 40 + 1e-4  # no score is one of them
    benefit = net_benefit(scores, outcomes, thresholds=places).net_benefit
    murphy = murphy_curve(scores, outcomes, thresholds=places).scores
    np.testing.assert_allclose(benefit, outcomes.mean() - murphy / (1 - places), rtol=0, atol=CLOSE)


@given(st.integers(0, 10_000), st.sampled_from([2, 5, 40, 300]), st.floats(0.2, 4.0))
def test_regret_is_at_most_kuipers_error(seed: int, n: int, power: float) -> None:
    """Acting on p at t gives away at most Kuiper / (1 - t) against the best threshold on the same scores."""
    scores, outcomes = draw(seed, n, lambda p: p**power, decimals=2)
    table = ReliabilityTable.from_scores(scores, outcomes)
    places = np.array([0.05, 0.2, 0.5, 0.8, 0.95])
    benefit = net_benefit(table, thresholds=places).net_benefit
    above = scores >= np.append(np.unique(scores), 2.0)[:, None]  # everyone, ..., nobody
    found, alarms = (above & (outcomes == 1)).sum(1), (above & (outcomes == 0)).sum(1)
    best = ((found - alarms * (places / (1 - places))[:, None]) / n).max(axis=1)
    assert (best - benefit <= RANGE.error(table) / (1 - places) + CLOSE).all()


def test_extreme_scores_are_ordinary() -> None:
    curve = net_benefit([0, 0, 1, 1], [0, 1, 0, 1], thresholds=[1e-6, 0.5, 1 - 1e-6])
    np.testing.assert_allclose(curve.net_benefit, [0.25 - 0.25e-6 / (1 - 1e-6), 0.0, 0.25 - 0.25e6 * (1 - 1e-6)])
    murphy = murphy_curve([0, 0, 1, 1], [0, 1, 0, 1], thresholds=[1e-6, 0.5, 1 - 1e-6])
    np.testing.assert_allclose(murphy.scores, 0.25)
    assert murphy.area == 0.25


# ---------------------------------------------------------------- laws


@given(st.integers(0, 10_000))
def test_laws(seed: int) -> None:
    """Permutation, weight 2 = row twice, tables add up, equal weights count as none."""
    rng = np.random.default_rng(seed)
    scores, outcomes = drawn(seed, 80)
    order, weights = rng.permutation(80), rng.integers(0, 4, 80)
    weights[0] = 1
    parts = [ReliabilityTable.from_scores(scores[cut], outcomes[cut]) for cut in (slice(30), slice(30, None))]
    pairs = [
        ((scores[order], outcomes[order]), {}, (scores, outcomes)),
        ((scores, outcomes), {"weights": weights}, (np.repeat(scores, weights), np.repeat(outcomes, weights))),
        ((parts[0] + parts[1],), {}, (scores, outcomes)),
        ((scores, outcomes), {"weights": np.full(80, 0.3)}, (scores, outcomes)),
    ]
    for first, options, second in pairs:
        a, b = net_benefit(*first, **options), net_benefit(*second)
        for name in ("net_benefit", "lows", "highs", "treat_all", "treated"):
            np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=0, atol=1e-9, err_msg=name)
        c, d = murphy_curve(*first, **options), murphy_curve(*second)
        np.testing.assert_allclose(c.scores, d.scores, rtol=0, atol=CLOSE)
        assert c.area == pytest.approx(d.area, abs=CLOSE)


@given(st.integers(0, 10_000), st.sampled_from([3, 40, 900]), st.sampled_from([np.float32, np.float64]))
def test_a_sketch_is_within_its_certified_error(seed: int, n: int, dtype: Any) -> None:
    rng = np.random.default_rng(seed)
    scores, outcomes = drawn(seed, n)
    scores = scores.astype(dtype)
    sketch = sketch_of(scores, outcomes)
    edges = np.arange(1, 300) / 300
    places = np.unique(np.concatenate([edges, rng.random(50), np.nextafter(edges, 1), rng.choice(scores, 5)]))
    places = places[(places > 0) & (places < 1)].astype(np.float64)
    for function, name in ((net_benefit, "net_benefit"), (murphy_curve, "scores")):
        exact, held = function(scores, outcomes, thresholds=places), function(sketch, thresholds=places)
        differences = np.abs(getattr(exact, name) - getattr(held, name))
        assert (differences <= held.error_bounds + 1e-9).all()  # odds of up to 1e16 next to the last edge
        at_edges = np.isin(places, edges)
        if function is murphy_curve:
            assert not held.error_bounds[at_edges].any()
            assert held.area == pytest.approx(exact.area, abs=CLOSE)


def test_a_sketch_of_scores_at_thresholds_has_the_value_of_its_rows() -> None:
    """Scores in tenths lie on edges of cells; they count as treated, and the bound allows for lower scores."""
    scores, outcomes = np.round(drawn(2)[0], 1), drawn(2)[1]
    sketch = sketch_of(scores, outcomes)
    places = np.arange(1, 10) / 10
    held = net_benefit(sketch, thresholds=places)
    np.testing.assert_allclose(held.net_benefit, net_benefit(scores, outcomes, thresholds=places).net_benefit)
    rows = np.array([[((scores == t) & (outcomes == y)).sum() for y in (0, 1)] for t in places])
    np.testing.assert_allclose(held.error_bounds, np.maximum(rows[:, 1], rows[:, 0] * places / (1 - places)) / 500)


# ---------------------------------------------------------------- intervals


def test_an_interval_is_that_of_the_mean_over_rows() -> None:
    scores, outcomes = drawn(3)
    curve = net_benefit(scores, outcomes, thresholds=[0.2, 0.6], level=0.9)
    for i, t in enumerate((0.2, 0.6)):
        values = np.where(scores >= t, np.where(outcomes == 1, 1, -t / (1 - t)), 0.0)
        half = 1.6448536269514722 * values.std() / math.sqrt(500)
        assert curve.lows[i] == pytest.approx(values.mean() - half, abs=CLOSE)
        assert curve.highs[i] == pytest.approx(values.mean() + half, abs=CLOSE)
    assert curve.level == 0.9
    assert curve.method == "central limit theorem, at thresholds with at least 30 treated rows"


def test_an_interval_with_weights_has_sums_of_squared_weights() -> None:
    scores, outcomes = drawn(4)
    weights = np.random.default_rng(5).random(500)
    curve = net_benefit(scores, outcomes, thresholds=[0.3], weights=weights)
    values = np.where(scores >= 0.3, np.where(outcomes == 1, 1, -0.3 / 0.7), 0.0)
    mean = np.average(values, weights=weights)
    half = 1.959963984540054 * math.sqrt((weights**2 * (values - mean) ** 2).sum()) / weights.sum()
    assert curve.net_benefit[0] == pytest.approx(mean, abs=CLOSE)
    assert curve.lows[0] == pytest.approx(mean - half, abs=CLOSE)


@pytest.mark.parametrize(("n", "some"), [(29, False), (30, True)])
def test_an_interval_needs_30_treated_rows(n: int, some: bool) -> None:
    scores = np.concatenate([np.full(n, 0.8), np.full(50, 0.1)])
    curve = net_benefit(scores, np.arange(n + 50) % 2, thresholds=[0.05, 0.5, 0.9])
    np.testing.assert_array_equal(np.isfinite(curve.lows), [True, some, False])
    np.testing.assert_array_equal(np.isfinite(curve.highs), [True, some, False])


def test_without_intervals_the_method_says_why() -> None:
    curve = net_benefit(*drawn(0), level=None)
    assert np.isnan(curve.lows).all()
    assert math.isnan(curve.level)
    assert curve.method == "no interval was requested (level=None)"
    rare = net_benefit([0.1] * 100, [1] * 3 + [0] * 97)
    assert "3 rows of the less frequent outcome, fewer than 15" in rare.method


def test_a_judged_event_has_the_curve_of_its_table() -> None:
    scores, outcomes = drawn(0)
    event = Event(table=ReliabilityTable.from_scores(scores, outcomes))
    curve, expected = decision_curve_of(event, 0.95), net_benefit(scores, outcomes)
    np.testing.assert_array_equal(curve.net_benefit, expected.net_benefit)
    np.testing.assert_array_equal(curve.lows, expected.lows)
    assert curve.method == expected.method


def in_clusters(scores: Any, outcomes: Any, labels: Any, weights: Any = None, level: float | None = 0.95) -> NetBenefit:
    """Return the decision curve of a report on rows in clusters."""
    options = {"clusters": labels, "weights": weights, "level": level, "n_resamples": 0, "profile": "clinical"}
    curve = calibrant.evaluate(scores, outcomes, **options).panels["decision_curve"]
    assert isinstance(curve, NetBenefit)
    return curve


def test_an_interval_by_cluster_is_that_of_the_mean_over_clusters() -> None:
    """Equal clusters, no score at a threshold: the mean of the clusters' means, with Student's quantile."""
    rng = np.random.default_rng(8)
    scores, labels = rng.random(600), np.repeat(np.arange(40), 15)
    outcomes = (rng.random(600) < scores ** rng.choice([0.5, 2.0], 40)[labels]).astype(int)
    curve = in_clusters(scores, outcomes, labels)
    np.testing.assert_array_equal(curve.net_benefit, net_benefit(scores, outcomes).net_benefit)
    values = np.where(outcomes == 1, 1.0, -curve.thresholds[:, None] / (1 - curve.thresholds[:, None]))
    means = np.where(scores >= curve.thresholds[:, None], values, 0.0).reshape(99, 40, 15).mean(axis=2)
    half = student.ppf(0.975, 39) * means.std(axis=1, ddof=1) / math.sqrt(40)
    held = np.isfinite(curve.lows)
    assert held[:70].all()
    np.testing.assert_allclose((curve.highs - curve.lows)[held] / 2, half[held], rtol=1e-9)
    np.testing.assert_allclose((curve.highs + curve.lows)[held] / 2, curve.net_benefit[held], rtol=0, atol=1e-12)
    assert (
        curve.method
        == "central limit theorem, at thresholds with at least 30 treated rows in at least 10 clusters; by cluster"
    )
    assert curve.level == 0.95


@given(st.integers(0, 10_000), st.sampled_from([np.float32, np.float64]), st.booleans())
def test_the_treated_of_buckets_add_up_to_all(seed: int, dtype: Any, pooled: bool) -> None:
    """Also with scores at thresholds, thresholds within cells, and weights."""
    rng = np.random.default_rng(seed)
    scores, outcomes = drawn(seed, 300)
    scores, labels = scores.astype(dtype), rng.integers(0, 12, 300)
    weights = rng.integers(1, 4, 300) if seed % 2 else None
    table = ReliabilityTable.from_scores(scores, outcomes, weights=weights, grid="standard" if pooled else None)
    sums = None if weights is None else weights.astype(np.float64)
    buckets = BucketSums.of(as_clusters(labels, 300), scores, outcomes.astype(np.uint8), sums)
    places = np.unique(np.concatenate([np.arange(1, 100) / 100, rng.uniform(0.001, 0.999, 50)]))
    rows, treated = clustered_of(table, buckets), Treated.of(table, places, closed=True)
    positives, negatives = treated_of_buckets(rows, treated)
    np.testing.assert_allclose(positives.sum(axis=0), treated.positives, rtol=0, atol=1e-9)
    np.testing.assert_allclose(negatives.sum(axis=0), treated.negatives, rtol=0, atol=1e-9)
    ends = np.isin(places, np.arange(1, 100) / 100)
    at = np.array([np.isclose(scores, t, rtol=1e-6).any() for t in places])
    counts = np.ones(300) if weights is None else weights
    for found, kind in ((positives, 1), (negatives, 0)):  # buckets have another order than labels
        mine = (labels == np.arange(12)[:, None]) & (outcomes == kind)
        exact = (mine * counts) @ (scores >= places.astype(dtype)[:, None]).T
        np.testing.assert_allclose(
            np.sort(found, 0)[:, ends & ~at], np.sort(exact, 0)[:, ends & ~at], rtol=0, atol=1e-9
        )
        assert (np.sort(found, 0) <= np.sort(mine @ counts)[:, None] + 1e-9).all()


def test_laws_of_intervals_by_cluster() -> None:
    """Permutation, names of clusters, weight 2 = row twice in its cluster."""
    rng = np.random.default_rng(3)
    scores, outcomes = drawn(3, 400)
    labels, order = np.repeat(np.arange(40), 10), rng.permutation(400)
    curve = in_clusters(scores, outcomes, labels)
    assert np.isfinite(curve.lows).any()
    others = [
        in_clusters(scores[order], outcomes[order], labels[order]),
        in_clusters(scores, outcomes, np.array([f"patient {7 * i}" for i in labels])),
    ]
    for other in others:
        np.testing.assert_allclose(other.lows, curve.lows, rtol=0, atol=1e-12)
    weights = rng.integers(1, 4, 400)
    twice = in_clusters(np.repeat(scores, weights), np.repeat(outcomes, weights), np.repeat(labels, weights))
    np.testing.assert_allclose(in_clusters(scores, outcomes, labels, weights).highs, twice.highs, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("clusters", "some"), [(9, False), (10, True)])
def test_an_interval_by_cluster_needs_10_treated_clusters(clusters: int, some: bool) -> None:
    labels = np.repeat(np.arange(clusters + 20), 10)
    scores = np.where(labels < clusters, 0.8, 0.1)
    curve = in_clusters(scores, np.arange(len(labels)) % 2, labels)
    at = np.isfinite(curve.lows)
    assert at[:9].all()
    assert at[49] == some
    few = in_clusters(np.where(np.arange(290) < 29, 0.8, 0.1), np.arange(290) % 2, np.arange(290) // 2)
    assert not np.isfinite(few.lows[49])


def test_copies_in_a_cluster_do_not_shorten_the_interval() -> None:
    scores, outcomes = draw(5, 200)
    copies = in_clusters(np.repeat(scores, 10), np.repeat(outcomes, 10), np.repeat(np.arange(200), 10))
    alone = net_benefit(scores, outcomes)
    held = np.isfinite(alone.lows)
    wider = (copies.highs - copies.lows)[held] / (alone.highs - alone.lows)[held]
    # Student's quantile with 199 degrees of freedom, and n / (n - 1) in the variance
    expected = student.ppf(0.975, 199) / 1.959963984540054 * math.sqrt(200 / 199)
    np.testing.assert_allclose(wider, expected, rtol=1e-9)


def test_a_report_on_rows_in_clusters_without_intervals_says_so() -> None:
    curve = in_clusters(*drawn(0), np.arange(500) // 10, level=None)
    assert np.isnan(curve.lows).all()
    assert curve.method == "no interval was requested (level=None)"
    rare = in_clusters([0.4] * 400, [1] * 3 + [0] * 397, np.arange(400) // 4)
    assert "one outcome occurs in only 1 cluster, fewer than 15" in rare.method


@pytest.mark.slow
@pytest.mark.parametrize(("n_clusters", "size"), [(20, 20), (50, 10), (200, 5), (400, 5)])
@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_coverage_by_cluster(n_clusters: int, size: int, spread: float) -> None:
    """300 samples of clusters that differ in their scores and, with a spread, in their outcomes beyond these.

    With 400 samples 90 to 96 % of 95 % intervals held the true value where three in four samples have one, those of
    independent rows 66 to 94 %.
    """
    places, rng = np.array([0.05, 0.1, 0.2, 0.3]), np.random.default_rng(1)
    nodes, shares = np.polynomial.hermite_e.hermegauss(41)
    x = math.sqrt(1.28) * ndtri((np.arange(200_000) + 0.5) / 200_000) - 1.5
    rates = np.interp(
        x, grid := np.linspace(-9, 7, 4001), expit(grid[:, None] + spread * nodes) @ shares / shares.sum()
    )
    truth = ((expit(x) >= places[:, None]) * (rates - (1 - rates) * (places / (1 - places))[:, None])).mean(axis=1)
    labels, hits, held = np.repeat(np.arange(n_clusters), size), np.zeros(4), np.zeros(4)
    for _ in range(300):
        log_odds = rng.normal(-1.5, 0.8, n_clusters)[labels] + rng.normal(0, 0.8, len(labels))
        own = log_odds + spread * rng.normal(size=n_clusters)[labels]
        scores, outcomes = expit(log_odds), (rng.random(len(labels)) < expit(own)).astype(np.uint8)
        table = ReliabilityTable.from_scores(scores, outcomes.astype(int))
        buckets = BucketSums.of(as_clusters(labels, len(labels)), scores, outcomes)
        treated = Treated.of(table, places, closed=True)
        lows, highs = net_benefit_interval_by_cluster(clustered_of(table, buckets), treated, 0.95)
        held += np.isfinite(lows)
        hits += (lows <= truth) & (truth <= highs)
    often = held >= 225
    assert often[:3].all()
    assert (hits[often] / held[often] >= 0.90).all()  # four standard errors below 95 %


@pytest.mark.slow
@pytest.mark.parametrize("power", [1.0, 1.4])
def test_coverage(power: float) -> None:
    """400 samples: 95 % intervals hold the true value in at least 91 %, four standard errors below 95 %."""
    places = np.array([0.05, 0.1, 0.2, 0.4])
    grid = (np.arange(200_000) + 0.5) / 200_000
    population = 1 - (1 - grid) ** (1 / 3)  # Beta(1, 3), by its quantiles
    rates = population**power
    gains = rates - (1 - rates) * (places / (1 - places))[:, None]
    truth = ((population >= places[:, None]) * gains).mean(axis=1)
    rng, hits = np.random.default_rng(0), np.zeros(4)
    for _ in range(400):
        scores = rng.beta(1, 3, 500)
        curve = net_benefit(scores, rng.random(500) < scores**power, thresholds=places)
        assert (curve.treated >= 70).all()
        hits += (curve.lows <= truth) & (truth <= curve.highs)
    assert (hits / 400 >= 0.91).all()


# ---------------------------------------------------------------- messages


@pytest.mark.parametrize(
    ("thresholds", "message"),
    [
        ([0.0, 0.5], "thresholds: expected numbers above 0 and below 1, got 0 at 0; pass an increasing list"),
        ([0.5, 1.0], "expected numbers above 0 and below 1, got 1 at 1"),
        ([0.5, math.nan], "expected numbers above 0 and below 1, got nan at 1"),
        ([0.5, math.inf], "expected numbers above 0 and below 1, got inf at 1"),
        ([0.5, 0.5], r"expected increasing numbers, got 0\.5, 0\.5"),
        ([0.1, 0.6, 0.5], r"expected increasing numbers, got 0\.6, 0\.5"),
        ([], r"expected a list of numbers, got shape \(0,\)"),
        (0.5, r"expected a list of numbers, got shape \(\)"),
        ([[0.5]], r"expected a list of numbers, got shape \(1, 1\)"),
    ],
)
def test_thresholds_are_checked(thresholds: Any, message: str) -> None:
    for function in (net_benefit, murphy_curve):
        with pytest.raises(InputError, match=message):
            function([0.5], [1], thresholds=thresholds)


def test_other_arguments_are_checked() -> None:
    with pytest.raises(InputError, match=r"level: expected a number from 0\.5 to below 1"):
        net_benefit([0.5], [1], level=95)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="notion: expected 'positive' or 'top-label' for net benefit"):
        net_benefit([[0.5, 0.5]], [1], notion="classwise")
    with pytest.raises(InputError, match="notion: expected 'positive' or 'top-label' for a Murphy curve"):
        murphy_curve([[0.5, 0.5]], [1], notion="classwise")


def test_the_values_are_frozen() -> None:
    benefit, murphy = net_benefit([0.5], [1]), murphy_curve([0.5], [1])
    assert isinstance(benefit, NetBenefit)
    assert isinstance(murphy, MurphyCurve)
    for value in (benefit, murphy):
        with pytest.raises(AttributeError):
            value.n = 3  # type: ignore[misc]


# ---------------------------------------------------------------- pictures


@pytest.fixture
def axes() -> Any:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    yield plt.subplots()[1]
    plt.close("all")


def labels(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_the_picture_of_a_decision_curve(axes: Any) -> None:
    from calibrant import plot

    curve = net_benefit(*drawn(0))
    assert plot.decision_curve(curve, ax=axes) is axes
    model, everyone, nobody = axes.lines
    np.testing.assert_array_equal(model.get_xdata(), curve.thresholds)
    np.testing.assert_array_equal(model.get_ydata(), curve.net_benefit)
    np.testing.assert_array_equal(everyone.get_ydata(), curve.treat_all)
    assert list(nobody.get_ydata()) == [0, 0]
    (band,) = axes.collections
    corners, held = band.get_paths()[0].vertices, np.isfinite(curve.lows)
    for ends in (curve.lows, curve.highs):
        drawn_ends = {(x, y) for x, y in corners.tolist()}
        assert set(zip(curve.thresholds[held].tolist(), ends[held].tolist(), strict=True)) <= drawn_ends
    assert corners[:, 0].max() == curve.thresholds[held].max()
    assert labels(axes) == ["Net benefit", "95 % CI", "Treat everyone", "Treat nobody"]
    assert axes.get_xlabel() == "Threshold probability"
    low, high = axes.get_ylim()
    assert high > max(np.nanmax(curve.highs), curve.treat_all.max())
    assert -0.2 * high < low < 0


def test_a_second_model_shares_the_axes(axes: Any) -> None:
    from calibrant import plot

    scores, outcomes = drawn(0)
    first, second = net_benefit(scores**4, outcomes), net_benefit(scores, outcomes, thresholds=[0.2, 0.5])
    plot.decision_curve(first, ax=axes, label="old", intervals=False)
    top = axes.get_ylim()[1]
    plot.decision_curve(second, ax=axes, label="new", color="black", line={"linestyle": ":"}, legend=False)
    assert len(axes.lines) == 4  # everyone and nobody once
    np.testing.assert_array_equal(axes.lines[-1].get_ydata(), second.net_benefit)
    assert (axes.lines[-1].get_color(), axes.lines[-1].get_linestyle()) == ("black", ":")
    assert axes.get_ylim()[1] >= top
    assert labels(axes) == ["old", "Treat everyone", "Treat nobody"]
    plot.decision_curve(second, ax=axes)
    assert "new" in labels(axes)
    assert "95 % CI: new" in labels(axes)


def test_the_picture_of_a_murphy_curve(axes: Any) -> None:
    from calibrant import plot

    scores, outcomes = drawn(0)
    curve, other = murphy_curve(scores, outcomes), murphy_curve(scores**4, outcomes)
    plot.murphy_curve(curve, ax=axes)
    plot.murphy_curve(other, ax=axes, label="sharp")
    for line, result in zip(axes.lines, (curve, other), strict=True):
        np.testing.assert_array_equal(line.get_xdata(), result.thresholds)
        np.testing.assert_array_equal(line.get_ydata(), result.scores)
    briers = [calibrant.brier_score(p, outcomes) for p in (scores, scores**4)]
    assert labels(axes) == [
        f"Elementary score (Brier score {briers[0]:.4f})",
        f"sharp (Brier score {briers[1]:.4f})",
    ]
    assert axes.get_ylim()[1] > max(curve.scores.max(), other.scores.max())
    assert axes.get_ylim()[0] == 0


def test_nothing_but_zeros_can_be_drawn(axes: Any) -> None:
    from calibrant import plot

    plot.decision_curve(net_benefit([0.0, 0.0], [0, 0]), ax=axes)
    plot.murphy_curve(murphy_curve([0.0, 0.0], [0, 0]), ax=axes)
    low, high = axes.get_ylim()
    assert low < high


def test_a_picture_needs_its_result() -> None:
    from calibrant import plot

    with pytest.raises(InputError, match=r"result: expected a NetBenefit, got MurphyCurve; pass what calibrant\.net_"):
        plot.decision_curve(murphy_curve([0.5], [1]))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="result: expected a MurphyCurve, got NetBenefit"):
        plot.murphy_curve(net_benefit([0.5], [1]))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="line: expected properties"):
        plot.decision_curve(net_benefit([0.5], [1]), line={"nonsense": 1})
