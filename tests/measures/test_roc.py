"""The area under the ROC curve: recorded areas and variances, the pairs counted one by one, sketches, clusters.

Tolerances: sums of at most a few thousand terms in double precision, relative 1e-12.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calibrant
from calibrant.errors import InputError
from calibrant.measures.ranking.auroc import area_influence
from calibrant.statistics.cells import Cells
from calibrant.statistics.intervals import Variance, linked_interval
from calibrant.statistics.resampling import normal_quantile
from tests.samples import draw, sketch_of

EXACT = 1e-12

#: Of `drawn`: scikit-learn 1.9.1 `roc_auc_score`, the same with weights 1, 2, 3, 1, 2, 3, .., and the ends of DeLong's
#: plain interval at 95 % by MLstatkit 0.1.91 `Delong_test`.
RECORDED = {
    (0, 50, 1): (0.85650623885918, 0.8776018099547511, 0.7561232301079244, 0.9568892476104356),
    (1, 300, 2): (0.857530560116767, 0.8606857142857143, 0.8165117130051894, 0.8985494072283443),
    (2, 2000, 6): (0.8401476172505802, 0.8426891216823233, 0.823076523596989, 0.8572187109041709),
}
ROWS = st.lists(st.tuples(st.integers(0, 10), st.integers(0, 1), st.integers(1, 3)), min_size=1, max_size=40)


def drawn(seed, n, decimals):
    return draw(seed, n, lambda p: p**1.3, decimals=decimals)


@pytest.mark.parametrize("case", RECORDED)
def test_recorded_areas_and_intervals(case):
    p, y = drawn(*case)
    area, weighted, low, high = RECORDED[case]
    assert calibrant.auroc(p, y) == pytest.approx(area, rel=EXACT)
    assert calibrant.auroc(p, y, weights=1 + np.arange(len(p)) % 3) == pytest.approx(weighted, rel=EXACT)
    cells = Cells.from_table(calibrant.ReliabilityTable.from_scores(p, y))
    half = normal_quantile(0.95) * math.sqrt(area_influence(cells, area).square) * area * (1 - area)
    assert (area - half, area + half) == pytest.approx((low, high), rel=1e-10)  # DeLong's is a difference of ranks
    estimate = calibrant.evaluate(p, y, measures=["auroc"], n_resamples=0)["auroc"]
    assert estimate.value == pytest.approx(area, rel=EXACT)
    logit = [math.log(x / (1 - x)) for x in (estimate.low, area, estimate.high)]
    assert logit[2] - logit[1] == pytest.approx(half / (area * (1 - area)), rel=1e-9)
    assert logit[1] - logit[0] == pytest.approx(half / (area * (1 - area)), rel=1e-9)


@given(ROWS)
def test_pairs_counted_one_by_one(rows):
    p, y, w = np.array([[a / 10 for a, _, _ in rows], [b for _, b, _ in rows], [c for _, _, c in rows]])
    won = total = 0.0
    for i, j in itertools.product(np.flatnonzero(y == 1), np.flatnonzero(y == 0)):
        won += w[i] * w[j] * ((p[i] > p[j]) + (p[i] == p[j]) / 2)
        total += w[i] * w[j]
    y = y.astype(int)
    found = calibrant.auroc(p, y, weights=w)
    assert found == pytest.approx(won / total if total else math.nan, rel=EXACT, abs=EXACT, nan_ok=True)
    repeats = w.astype(int)
    assert calibrant.auroc(np.repeat(p, repeats), np.repeat(y, repeats)) == pytest.approx(found, rel=EXACT, nan_ok=True)
    assert calibrant.auroc(p[::-1], y[::-1], weights=w[::-1]) == pytest.approx(found, rel=EXACT, nan_ok=True)
    assert calibrant.auroc(1 - p, y, weights=w) == pytest.approx(1 - found, rel=EXACT, abs=EXACT, nan_ok=True)


@given(st.integers(0, 2**32 - 1), st.integers(2, 400), st.floats(0.5, 20))
def test_a_sketch_is_within_its_bound(seed, n, power):
    rng = np.random.default_rng(seed)
    p = rng.random(n) ** power
    y = (rng.random(n) < p).astype(int)
    exact = calibrant.auroc(p, y)
    sketch = sketch_of(p, y)
    report = calibrant.evaluate(sketch, measures=["auroc"], level=None)["auroc"]
    if math.isnan(exact):
        assert math.isnan(report.value)
        return
    assert abs(report.value - exact) <= report.error_bound
    assert report.error_bound <= 0.5 + 1e-9


def test_the_bound_is_reached():
    p, y = np.array([0.5001, 0.5002]), np.array([1, 0])
    sketch = sketch_of(p, y)
    report = calibrant.evaluate(sketch, measures=["auroc"], level=None)["auroc"]
    assert (calibrant.auroc(p, y), report.value) == (0.0, 0.5)
    assert report.error_bound == pytest.approx(0.5, rel=EXACT)


def test_clusters_of_one_row_are_independent_rows():
    p, y = drawn(3, 200, 3)
    alone = calibrant.evaluate(p, y, measures=["auroc"], n_resamples=0)["auroc"]
    clustered = calibrant.evaluate(p, y, measures=["auroc"], clusters=np.arange(200), n_resamples=0)["auroc"]
    # Student's quantile with 199 degrees of freedom is .6 % above the normal one; coarse cells and n / (n - 1) add 1 %.
    assert clustered.high - clustered.low == pytest.approx(alone.high - alone.low, rel=0.02)


def test_the_spread_by_cluster_written_out():
    p, y = drawn(8, 240, 1)  # scores of their own coarse cells
    labels = np.random.default_rng(9).integers(0, 40, 240)
    estimate = calibrant.evaluate(p, y, measures=["auroc"], clusters=labels, n_resamples=0)["auroc"]
    wins = (p[y == 1][:, None] > p[y == 0]) + (p[y == 1][:, None] == p[y == 0]) / 2
    area, moved = wins.mean(), np.empty(240)
    moved[y == 1] = (wins.mean(axis=1) - area) / (y == 1).sum()
    moved[y == 0] = (wins.mean(axis=0) - area) / (y == 0).sum()
    spread = math.sqrt(np.sum(np.bincount(labels, moved) ** 2) * 40 / 39)
    middle = math.log(area / (1 - area))
    half = math.log(estimate.high / (1 - estimate.high)) - middle
    # Student's quantile has nearly 39 degrees of freedom: 2.02, and up to 2.1 for clusters of unequal sizes.
    assert 2.02 < half * area * (1 - area) / spread < 2.12


def test_copies_of_a_row_in_a_cluster_add_nothing():
    p, y = drawn(4, 150, 3)
    once = calibrant.evaluate(p, y, measures=["auroc"], clusters=np.arange(150), n_resamples=0)["auroc"]
    rows = np.repeat(np.arange(150), 7)
    copied = calibrant.evaluate(p[rows], y[rows], measures=["auroc"], clusters=rows, n_resamples=0)["auroc"]
    assert (copied.low, copied.high) == pytest.approx((once.low, once.high), abs=2e-3)


@pytest.mark.parametrize(
    ("p", "y", "value", "said"),
    [
        ([0.1, 0.2, 0.8], [0, 0, 1], 1.0, "a threshold on the score perfectly separates events from non-events"),
        ([0.9, 0.8, 0.1], [0, 0, 1], 0.0, "a threshold on the score perfectly separates events from non-events"),
        ([0.1, 0.5, 0.4], [0, 0, 1], 0.5, "fewer than 2 rows with the less frequent outcome"),
        ([0.1, 0.5, 0.4], [0, 0, 0], math.nan, "all outcomes are equal"),
    ],
)
def test_what_has_no_interval_says_why(p, y, value, said):
    for weights in (None, [0.3, 0.7, 1.9]):
        estimate = calibrant.evaluate(p, y, weights=weights, measures=["auroc"], n_resamples=0)["auroc"]
        if value == 0.5 and weights is not None:
            assert estimate.value == pytest.approx(0.3)
        else:
            assert estimate.value == pytest.approx(value, nan_ok=True, abs=0)
        assert math.isnan(estimate.low)
        assert said in estimate.method


def test_one_cluster_with_the_rarer_outcome_has_no_interval():
    p, y = np.linspace(0.05, 0.95, 40), np.tile([0, 0, 0, 0, 0, 0, 0, 1], 5)
    clusters = np.where(y == 1, 0, np.arange(40))
    estimate = calibrant.evaluate(p, y, clusters=clusters, measures=["auroc"], n_resamples=0)["auroc"]
    assert "one outcome occurs in fewer than 2 clusters" in estimate.method


def test_an_increasing_map_changes_nothing_and_a_mean_over_classes_is_that_of_the_classes():
    p, y = drawn(5, 400, 4)
    assert calibrant.auroc(p**3 / 2, y) == calibrant.auroc(p, y)
    rng = np.random.default_rng(6)
    probs = rng.dirichlet([1.0] * 3, 300)
    labels = np.array([rng.choice(3, p=row) for row in probs])
    report = calibrant.evaluate(probs, labels, notion="classwise", measures=["auroc"], level=None)["auroc"]
    own = [calibrant.auroc(probs[:, k], (labels == k).astype(int)) for k in range(3)]
    assert report.value == pytest.approx(np.mean(own), rel=EXACT)


def test_the_interval_on_log_odds_stays_within_0_and_1():
    assert linked_interval(0.5, Variance(1.6e19), 0.95, "logit")[:2] == pytest.approx((0.0, 1.0), abs=1e-300)
    low, high, _ = linked_interval(0.999, Variance(1e-4 / (0.999 * 0.001) ** 2), 0.95, "logit")
    assert 0 < low < 0.999 < high < 1


def test_an_event_is_needed():
    with pytest.raises(InputError, match="'positive' or 'top-label' for the AUROC"):
        calibrant.auroc([[0.2, 0.8], [0.3, 0.7]], [1, 0], notion="classwise")
