"""Measures with an influence: their intervals, by rows and by clusters, and the comparison of models by them."""

import math

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import norm
from scipy.stats import t as student

import calibrant
from calibrant.measures import Measure

Z = norm.ppf(0.975)


def precision(link="identity"):
    """The outcome rate among scores of at least one half: an own measure, a ratio of two sums."""

    def share(event):
        table = event.table
        high = table.scores >= 0.5
        return float(table.positives[high].sum() / table.counts[high].sum())

    def influence(event):
        table = event.table
        high = table.scores >= 0.5
        around = np.stack([np.full(len(table), -share(event)), np.full(len(table), 1 - share(event))])
        return around * high / table.counts[high].sum()

    return Measure(
        name="precision",
        label="precision at 1/2",
        meaning="The outcome rate among scores of at least one half.",
        value=share,
        influence=influence,
        better="higher",
        range=(0.0, 1.0),
        link=link,
    )


def drawn(seed, n=600, each=1, sd=0.0):
    """Scores of two models, outcomes and labels of clusters."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) // each
    p = rng.random(n)
    y = (rng.random(n) < expit(logit(p) + sd * rng.normal(size=n)[labels])).astype(int)
    return p, np.clip(p + rng.normal(0, 0.15, n), 0.001, 0.999), y, labels


def contributions(p, y, weights=None):
    """What each row adds to the precision, times its weight."""
    w = np.ones(len(p)) if weights is None else weights
    high = p >= 0.5
    share = np.sum(w * y * high) / np.sum(w * high)
    return share, w * high * (y - share) / np.sum(w * high)


@pytest.mark.parametrize("n_resamples", [0, 50])
def test_the_interval_is_that_of_the_sum_of_influences(n_resamples):
    p, _, y, _ = drawn(0)
    share, added = contributions(p, y)
    half = Z * math.sqrt(np.sum(added**2) * 600 / 599)
    estimate = calibrant.evaluate(p, y, measures=[precision()], n_resamples=n_resamples)["precision"]
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((share, share - half, share + half), rel=1e-9)
    assert estimate.method == "central limit theorem"


def test_weights_that_are_not_whole():
    p, _, y, _ = drawn(1)
    w = np.random.default_rng(1).uniform(0.2, 3.0, len(p))
    share, added = contributions(p, y, w)
    n = w.sum() ** 2 / np.sum(w**2)
    half = Z * math.sqrt(np.sum((added - w * added.sum() / w.sum()) ** 2) * n / (n - 1))
    estimate = calibrant.evaluate(p, y, weights=w, measures=[precision()], n_resamples=0)["precision"]
    assert (estimate.low, estimate.high) == pytest.approx((share - half, share + half), rel=1e-9)


@pytest.mark.parametrize("link", ["log", "logit"])
def test_the_interval_is_symmetric_on_the_link(link):
    p, _, y, _ = drawn(2)
    share, added = contributions(p, y)
    slope = 1 / share if link == "log" else 1 / (share * (1 - share))
    half = Z * math.sqrt(np.sum(added**2) * 600 / 599) * slope
    to, back = (math.log, math.exp) if link == "log" else (logit, expit)
    estimate = calibrant.evaluate(p, y, measures=[precision(link)], n_resamples=0)["precision"]
    assert (estimate.low, estimate.high) == pytest.approx((back(to(share) - half), back(to(share) + half)), rel=1e-9)


@pytest.mark.parametrize("link", ["identity", "log", "logit"])
@pytest.mark.parametrize("outcome", [0, 1])
@pytest.mark.parametrize("clusters", [None, [0, 0, 1, 1]])
def test_rows_that_are_alike_tell_how_often_the_other_outcome_may_occur(link, outcome, clusters):
    p, y = np.array([0.6, 0.7, 0.8, 0.9]), np.full(4, outcome)
    estimate = calibrant.evaluate(p, y, clusters=clusters, measures=[precision(link)], n_resamples=0)["precision"]
    assert estimate.value == outcome
    share = 1 - 0.025 ** (1 / (4 if clusters is None else 2))  # of no such outcome in 4 rows, or 2 clusters
    assert (estimate.low, estimate.high) == pytest.approx((0, share) if outcome == 0 else (1 - share, 1))
    assert estimate.method.startswith("Clopper-Pearson of the rate; ")
    difference = calibrant.compare(p, p[::-1], y, clusters=clusters, measures=[precision(link)]).pairs[0]["precision"]
    assert difference.method.startswith(
        "no interval: the variance of the difference cannot be estimated from these data"
    )


def test_clusters_of_equal_size_have_students_interval_of_their_sums():
    p, _, y, labels = drawn(3, each=6, sd=1.0)
    p = np.round(p, 2)  # few scores, of one coarse cell each: the sums of buckets are exact
    share, added = contributions(p, y)
    sums = np.bincount(labels, added)
    half = student.ppf(0.975, 99) * math.sqrt(np.sum(sums**2) * 100 / 99)
    estimate = calibrant.evaluate(p, y, clusters=labels, measures=[precision()], n_resamples=0)["precision"]
    # Degrees of freedom are those of 100 buckets of one size.
    assert (estimate.low, estimate.high) == pytest.approx((share - half, share + half), abs=2e-3 * half)
    assert estimate.method == "central limit theorem; by cluster"
    deff = np.sum(sums**2) * 100 / 99 / (np.sum(added**2) * 600 / 599)
    assert estimate.details["effective_rows"] == pytest.approx(600 / deff, rel=5e-3)


def test_a_sketch_has_the_interval_of_its_rows():
    p, _, y, labels = drawn(4, each=5, sd=0.8)
    for clusters in (None, labels):
        sketch = calibrant.CalibrationSketch()
        sketch.update(p, y, clusters=clusters)
        kinds = {"measures": [precision()], "n_resamples": 0}
        rows = calibrant.evaluate(p, y, clusters=clusters, **kinds)["precision"]
        cells = calibrant.evaluate(sketch, **kinds)["precision"]
        assert (cells.low, cells.high) == pytest.approx((rows.low, rows.high), abs=2e-3)


@pytest.mark.parametrize("weights", [None, "whole", "others"])
def test_paired_differences_are_those_of_what_rows_add(weights):
    p, q, y, _ = drawn(5)
    rng = np.random.default_rng(5)
    w = {None: np.ones(600), "whole": rng.integers(1, 4, 600), "others": rng.uniform(0.5, 2, 600)}[weights]
    (one, first), (other, second) = contributions(p, y, w), contributions(q, y, w)
    change = (first - second) / w
    squares = w if weights != "others" else w**2
    n = w.sum() if weights != "others" else w.sum() ** 2 / np.sum(w**2)
    half = Z * math.sqrt(np.sum(squares * change**2) * n / (n - 1))
    comparison = calibrant.compare(p, q, y, weights=None if weights is None else w, measures=[precision()])
    difference = comparison.pairs[0]["precision"]
    assert difference.value == pytest.approx(one - other, rel=1e-9)
    assert (difference.low, difference.high) == pytest.approx((one - other - half, one - other + half), rel=1e-9)
    assert comparison.models["B"]["precision"] == pytest.approx(other, rel=1e-12)
    assert "precision at 1/2" in str(comparison)


def delong(p, q, y):
    """The standard error of the difference of two AUROCs, pair by pair (DeLong et al. 1988)."""
    parts = []
    for scores in (p, q):
        wins = (scores[y == 1][:, None] > scores[y == 0]) + 0.5 * (scores[y == 1][:, None] == scores[y == 0])
        parts.append((wins.mean(axis=1), wins.mean(axis=0)))
    (a, b), (c, d) = parts
    return math.sqrt(np.var(a - c, ddof=1) / len(a) + np.var(b - d, ddof=1) / len(b))


def test_the_difference_of_areas_has_delongs_standard_error():
    p, q, y, _ = drawn(6, n=400)
    difference = calibrant.compare(p, q, y, measures=["auroc"]).pairs[0]["auroc"]
    # DeLong divides by n - 1 of either outcome, the sum of influences by n - 1 of all rows.
    assert difference.high - difference.value == pytest.approx(Z * delong(p, q, y), rel=0.01)
    assert difference.value == pytest.approx(calibrant.auroc(p, y) - calibrant.auroc(q, y), rel=1e-12)


BUILT_IN = ["mean_confidence", "mean_gap", "oe_ratio", "calibration_intercept", "calibration_slope", "brier_event"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*BUILT_IN, "auroc"])
@pytest.mark.parametrize("clustered", [False, True])
def test_differences_vary_as_the_bootstrap_says(name, clustered):
    p, q, y, labels = drawn(7, n=1_000, each=5, sd=0.7)
    clusters = labels if clustered else None
    value = {
        "mean_confidence": lambda p, _: np.mean(p),
        "mean_gap": lambda p, y: np.mean(p) - np.mean(y),
        "oe_ratio": lambda p, y: np.sum(y) / np.sum(p),
        "brier_event": lambda p, y: np.mean((p - y) ** 2),
        "calibration_intercept": calibrant.calibration_intercept,
        "calibration_slope": calibrant.calibration_slope,
        "auroc": calibrant.auroc,
    }[name]
    rng, draws = np.random.default_rng(8), []
    for _ in range(400):
        picked = rng.integers(0, 200, 200)
        rows = (picked[:, None] * 5 + np.arange(5)).ravel() if clustered else rng.integers(0, 1_000, 1_000)
        draws.append(value(p[rows], y[rows]) - value(q[rows], y[rows]))
    comparison = calibrant.compare(p, q, y, clusters=clusters, measures=[name])
    difference = comparison.pairs[0][name]
    quantile = student.ppf(0.975, 199) if clustered else Z
    # The deviation of 400 draws has a relative standard error of 1 / sqrt(800), 3.5 %.
    assert (difference.high - difference.low) / 2 / quantile == pytest.approx(np.std(draws), rel=0.16)
    assert difference.value == pytest.approx(value(p, y) - value(q, y), rel=1e-6, abs=1e-9)


def test_sketches_are_compared_by_influences():
    p, q, y, labels = drawn(9, n=1_000, each=5, sd=0.7)
    first, second = calibrant.CalibrationSketch(), calibrant.CalibrationSketch()
    first.update(p, y, clusters=labels)
    second.update(q, y, clusters=labels)

    def half(**how):
        difference = calibrant.compare(first, second, measures=["auroc"], **how).pairs[0]["auroc"]
        return difference.high - difference.value

    rows = calibrant.compare(p, q, y, clusters=labels, measures=["auroc"]).pairs[0]["auroc"]
    assert half(paired=True) == pytest.approx(rows.high - rows.value, rel=0.01)
    one, other = (
        calibrant.evaluate(scores, y, clusters=labels, measures=["auroc"], n_resamples=0)["auroc"] for scores in (p, q)
    )
    widths = [(logit(e.high) - logit(e.low)) / 2 * e.value * (1 - e.value) for e in (one, other)]
    assert half() == pytest.approx(sum(widths), rel=0.02)
    assert half(paired=False) == pytest.approx(math.hypot(*widths), rel=0.02)


def test_differences_without_a_value_say_why():
    p, q, y = np.array([0.0, 0.0, 0.0, 0.0]), np.array([0.1, 0.2, 0.3, 0.9]), np.array([0, 1, 0, 1])
    difference = calibrant.compare(p, q, y, measures=["oe_ratio"]).pairs[0]["oe_ratio"]
    assert math.isnan(difference.value)
    assert difference.method == "not available: the measure has no finite value for both models"
    separated = calibrant.compare(np.array([0.1, 0.2, 0.8, 0.9]), q, np.array([0, 0, 1, 1]), measures=["auroc"])
    assert math.isnan(separated.pairs[0]["auroc"].low)
    assert separated.pairs[0]["auroc"].method.startswith("no interval: ")


@pytest.mark.parametrize(
    ("measures", "message"),
    [
        ("auroc", r"a list of measures, got 'auroc'; pass measures=\['auroc'\]"),
        (["smece"], "measures with an influence function, such as accuracy, .* got 'smece'; leave the measure out"),
        (["area"], "the key of a measure, got 'area'"),
        ([], "a profile or a list of measures"),
        (["auroc", "auroc"], "each measure once, got 'auroc' twice"),
    ],
)
def test_measures_that_models_cannot_be_compared_by(measures, message):
    p, q, y, _ = drawn(0, n=50)
    with pytest.raises(calibrant.errors.InputError, match=message):
        calibrant.compare(p, q, y, measures=measures)


@pytest.mark.parametrize(
    ("values", "got"),
    [
        (lambda _: 0.0, r"an array \(\) of float64"),
        (lambda _: [[0.0], [0.0, 1.0]], r"an array \(0,\) of object"),
        (lambda _: np.zeros((2, 3)), r"an array \(2, 3\) of float64"),
        (lambda event: np.full((2, len(event.table)), "a"), r"an array \(2, 40\) of <U1"),
        (lambda event: np.full((2, len(event.table)), np.nan), "NaN or infinity among them"),
    ],
)
def test_influences_that_are_no_numbers_for_each_row(values, got):
    p, _, y, _ = drawn(0, n=40)
    measure = Measure(name="own", label="own", meaning="Own.", value=lambda _: 0.0, influence=values)
    expected = r"two finite numbers for each row of event.table, \(2, 40\), from the influence function of 'own'"
    with pytest.raises(calibrant.errors.InputError, match=f"{expected}, got {got}"):
        calibrant.evaluate(p, y, measures=[measure], n_resamples=0)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "each", "sd"), [(400, 1, 0.0), (600, 6, 0.8)], ids=["rows", "clusters"])
def test_coverage_of_an_own_measure_and_of_its_differences(n, each, sd):
    """Of 1,000 intervals at 95 % each, with a standard error of .007."""
    grid = (np.arange(4_000) + 0.5) / 4_000
    nodes, masses = np.polynomial.hermite_e.hermegauss(40)
    rates = expit(logit(grid)[:, None] + sd * nodes) @ (masses / masses.sum())
    chances = norm.cdf((grid - 0.5) / 0.15)  # that the second model's score is one half or more
    truth = float(rates[grid > 0.5].mean())
    change = truth - float(rates @ chances / chances.sum())
    measure, hits = precision(), np.zeros(2)
    for seed in range(1_000):
        p, q, y, labels = drawn(seed, n=n, each=each, sd=sd)
        clusters = labels if each > 1 else None
        own = calibrant.evaluate(p, y, clusters=clusters, measures=[measure], n_resamples=0)["precision"]
        pair = calibrant.compare(p, q, y, clusters=clusters, measures=[measure]).pairs[0]["precision"]
        hits += own.low <= truth <= own.high, pair.low <= change <= pair.high
    assert ((hits / 1_000 >= 0.93) & (hits / 1_000 <= 0.97)).all(), hits / 1_000
