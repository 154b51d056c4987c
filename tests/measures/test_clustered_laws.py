"""Laws of reports on rows in clusters: every small input has finite intervals, and no interval contradicts another."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

import calibrant
from calibrant.measures.binned import cluster_bins as bins
from calibrant.measures.binned.bin_inference import absolute_interval
from calibrant.measures.binned.binned import uniform_bin_of
from calibrant.measures.line.line import line_by_cluster as log_odds_line
from calibrant.measures.means.means import gap_variance
from calibrant.results import Code
from calibrant.statistics import buckets as sums
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import Clustered
from calibrant.table import ReliabilityTable
from calibrant.table.cluster_labels import as_clusters
from calibrant.table.cluster_sums import BucketSums
from tests.builders import mean_interval

EXACT = 1e-12
QUICK, ALL = 60, 3_000


# ---------------------------------------------------------------- small inputs


def small_case(seed):
    """Return predictions, outcomes and options of 2 to 20 rows: few clusters, and weights of very different sizes."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 21))
    clusters = rng.integers(0, max(2, n // int(rng.integers(1, 4))), n)
    clusters[:2] = 0, 1
    p, y = rng.random(n), rng.integers(0, 2, n)
    options = {"clusters": clusters}
    kind = ("any", "few scores", "nearly one score", "one outcome", "top label", "every class")[rng.integers(6)]
    if kind == "few scores":
        p = rng.choice([0.0, 0.25, 1.0], n)
    elif kind == "nearly one score":
        p = np.clip(rng.choice([0, 0.3, 0.5, 1]) + rng.normal(0, 10.0 ** -rng.integers(1, 17), n), 0, 1)
    elif kind == "one outcome":
        y = np.full(n, rng.integers(0, 2))
    elif kind != "any":
        p, y = rng.dirichlet(np.full(3, 0.3), n), rng.integers(0, 3, n)
        options |= {"notion": "classwise"} if kind == "every class" else {}
    weights = (
        None,
        10.0 ** rng.integers(-12, 12, n),
        rng.lognormal(0, 3, n),
        np.where(rng.random(n) < 0.1, 10.0 ** rng.integers(1, 50), 1.0),
        np.where(rng.random(n) < 0.5, 0.0, 10.0 ** rng.integers(-25, 25, n)),
    )[rng.integers(5)]
    if weights is not None:
        weights[:2] = np.maximum(weights[:2], (weights.max() or 1.0) * 1e-20)  # both clusters hold weight
        options["weights"] = weights
    return rng, p, y, options


def check_small(seed):
    rng, p, y, options = small_case(seed)
    with np.errstate(all="raise", under="ignore"):
        if rng.random() < 0.25 and options.get("notion") is None:
            calibrant.compare({"a": p, "b": np.roll(p, 1, 0)}, y, **options)
            return
        if rng.random() < 0.3:
            options["groups"] = rng.integers(0, 2, len(p)).astype(str)
        if rng.random() < 0.3 and p.ndim == 1:
            options["profile"] = "clinical"
        report = calibrant.evaluate(p, y, n_resamples=int(rng.choice([0, 0, 0, 19])), tolerance=0.1, **options)
    for name, one in report.estimates.items():
        if math.isnan(one.high):
            assert math.isnan(one.low), name
            assert one.method.startswith(("no ", "not available")), (name, one.method)
            continue
        assert math.isfinite(one.low), name
        assert math.isfinite(one.high), name
        assert one.low <= one.high, name
        if name != "debiased_square":  # which may be negative, though what it estimates is not
            assert one.low <= one.value <= one.high, name


@pytest.mark.parametrize("start", range(0, QUICK, 20))
def test_small_inputs_in_clusters_have_finite_intervals_or_none_with_the_reason(start):
    for seed in range(start, start + 20):
        check_small(seed)


@pytest.mark.slow
def test_thousands_of_small_inputs_in_clusters_have_finite_intervals_or_none_with_the_reason():
    for seed in range(QUICK, ALL):
        check_small(seed)


@pytest.mark.parametrize(
    ("p", "y", "clusters", "weights"),
    [
        ([0.97, 0.22], [1, 0], [0, 1], [1, 1e3]),
        ([0.9, 0.2, 0.4, 0.6], [1, 0, 0, 1], [0, 1, 2, 3], [1, 1e7, 1, 1]),
        ([0.9, 0.2, 0.4, 0.6], [1, 0, 0, 1], [0, 1, 1, 2], [1, 1e50, 1, 1]),
    ],
)
def test_a_cluster_of_nearly_all_the_weight_has_finite_intervals(p, y, clusters, weights):
    report = calibrant.evaluate(p, y, clusters=clusters, weights=weights, n_resamples=0)
    ends = [(one.low, one.high) for one in report.estimates.values() if not math.isnan(one.high)]
    assert len(ends) > 5
    assert np.isfinite(ends).all()


@pytest.mark.parametrize("light", [1e-6, 1e-12, 1e-30])
def test_degrees_of_freedom_of_a_bucket_with_nearly_all_rows_are_those_of_their_limit(light):
    # With rho = 0 and one bucket of all but 2 e of the rows, E_1 drops out of all u: u_2 = E_2, u_3 = E_3 and u_1 =
    # -(E_2 + E_3), up to the relative size of e. Each E has the variance e: the mean of sum u^2 is 4 e, and half its
    # variance that of (E_2, E_3) with the matrix [[2, 1], [1, 2]], 10 e^2. So df = 16 / 10.
    df, share = sums.degrees_of_freedom(np.array([1.0, light, light]), 0.0)
    assert df == pytest.approx(1.6, rel=10 * light + EXACT)
    assert share == pytest.approx(4 * light, rel=10 * light + EXACT)


def test_sums_around_their_share_add_up_to_0_where_one_bucket_has_nearly_all_the_weight():
    weights, own = np.array([1e-20, 1.0, 1e-20]), np.array([[3e-21], [0.4], [5e-21]])
    around = sums.centred(own, weights)
    # S_h less 0.4 of the weight of each light bucket; the heavy one is minus their sum.
    assert around[:, 0] == pytest.approx([3e-21 - 4e-21, 0.0, 5e-21 - 4e-21], rel=1e-9, abs=1e-30)


# ---------------------------------------------------------------- no interval contradicts another


def root(name):
    return lambda report: math.sqrt(report[name].high)


def size_of_gap(report):
    return max(-report["mean_gap"].low, report["mean_gap"].high)


def of_maximum(report):
    """The RMSCE is at most the root of s m^2 + 1 - s, s the share of the rows in the bins of the maximum m."""
    counts = report.diagram.counts
    if report.clusters is not None or counts.dtype.kind == "f":
        return 1.0  # the report does not show which bins have clusters, or effective rows, enough
    share = counts[counts >= 30].sum() / counts.sum()
    return math.sqrt(share * report["mce"].high ** 2 + 1 - share)


def high(name):
    return lambda report: report[name].high


# What is never below what: |sum of gaps| <= sum of sizes <= root mean square <= the largest; the last cumulative sum is
# that of all rows; smoothing keeps the sum; moving all scores by their mean gap lowers the Brier score by its square,
# and a monotone fit lowers it by no less.
NEVER_BELOW = {
    "ece, mean gap": (high("ece"), size_of_gap),
    "adaptive ECE, mean gap": (high("ace"), size_of_gap),
    "KS, mean gap": (high("ks"), size_of_gap),
    "smooth ECE, mean gap": (high("smece"), size_of_gap),
    "RMSCE, ECE": (high("rmsce"), high("ece")),
    "squared CE, RMSCE": (root("debiased_square"), high("rmsce")),
    "MCE, RMSCE": (of_maximum, high("rmsce")),
    "miscalibration, mean gap": (root("miscalibration"), size_of_gap),
}


ERRORS = ["mean_gap", "ece", "ace", "rmsce", "debiased_square", "mce", "ks", "smece", "miscalibration"]


def evaluated_rows(seed, design):
    """Return options of `evaluate` for rows whose gaps cluster effects, few rows or weights hide."""
    rng = np.random.default_rng(seed)
    k, m = int(rng.choice([15, 20, 40])), int(rng.choice([4, 20]))
    labels = np.repeat(np.arange(k), m)
    p = np.clip(rng.beta(*[(1, 1), (1, 5), (8, 1)][seed % 3], k * m), 1e-4, 1 - 1e-4)
    effect = rng.normal(0, 1.2, k)[labels] if design in ("clusters", "sketch of clusters") else 0.0
    odds = np.log(p / (1 - p)) + rng.choice([0.0, 0.6]) + effect
    y = (rng.random(k * m) < 1 / (1 + np.exp(-odds))).astype(int)
    options = {"clusters": labels} if "clusters" in design else {}
    if design == "weights":
        options["weights"] = rng.lognormal(0, 1, k * m)
    if not design.startswith("sketch"):
        return {"probs": p, "targets": y, **options}
    sketch = calibrant.CalibrationSketch()
    sketch.update(p, y, **options)
    return {"probs": sketch}


@pytest.mark.covering
@pytest.mark.parametrize("n_resamples", [0, 49])
@pytest.mark.parametrize("design", ["rows", "weights", "clusters", "sketch", "sketch of clusters"])
def test_no_interval_of_an_error_excludes_what_another_implies(design, n_resamples):
    for seed in range(4):
        options = {**evaluated_rows(seed, design), "measures": ERRORS}
        report = calibrant.evaluate(**options, n_resamples=n_resamples, level=[0.9, 0.95][seed % 2])
        for name, (larger, smaller) in NEVER_BELOW.items():
            ends = larger(report), smaller(report)
            # Ends are roots and squares of each other: a few roundings of numbers near 1.
            assert math.isnan(ends[0]) or ends[0] >= ends[1] - EXACT, (seed, name, ends)


def test_a_tolerance_is_not_proven_that_the_mean_gap_may_exceed():
    for seed in range(4):
        options = {**evaluated_rows(seed, "clusters"), "measures": ["mean_gap"]}
        gap = calibrant.evaluate(**options, n_resamples=0, level=0.9)["mean_gap"]  # one-sided bounds at 95 %
        tolerance = max(-gap.low, gap.high) - 1e-9
        for name in ("ece", "rmsce", "smece"):
            decided = calibrant.evaluate(**options, n_resamples=0, tolerance=tolerance, tolerance_of=name)
            assert decided.decision.state != "proven", (seed, name)


# ---------------------------------------------------------------- an outcome rate that falls


def useless(rng, design):
    """Scores that tell nothing of the outcomes, in rows that depend on each other or weigh unequally."""
    if design == "weights":
        n = 1_000
        return rng.random(n), rng.integers(0, 2, n), {"weights": rng.lognormal(0, 1.5, n)}
    k, m = 30, 60
    labels = np.repeat(np.arange(k), m)
    p, y = rng.random(k), rng.integers(0, 2, k)
    return p[labels], y[labels], {"clusters": labels}


@pytest.mark.parametrize("design", ["copies", "weights"])
@pytest.mark.slow
def test_useless_scores_are_not_said_to_fall(design):
    # Fires with the tail of four standard errors, 3 in 100,000; with the variance of independent rows a third of copies
    # and a tenth of such weights did. Two of 60 have a probability of 1e-6 if one in 1,000 fires.
    fired = 0
    for seed in range(60):
        p, y, options = useless(np.random.default_rng(seed), design)
        report = calibrant.evaluate(p, y, measures=["ece"], n_resamples=0, **options)
        fired += any(finding.code == Code.FALLING_CURVE for finding in report.findings)
    assert fired < 2


def test_scores_of_the_other_event_are_said_to_fall_in_clusters_too():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(40), 25)
    p = rng.random(1_000)
    y = rng.random(1_000) < p
    report = calibrant.evaluate(1 - p, y, clusters=labels, measures=["ece"], n_resamples=0)
    assert any(finding.code == Code.FALLING_CURVE for finding in report.findings)


# ---------------------------------------------------------------- units and effective rows


def few_clusters(n_holding):
    """Rows of 30 clusters, so many of which hold the less frequent outcome, each in 3 rows."""
    labels = np.repeat(np.arange(30), 10)
    y = (labels < n_holding) & (np.arange(300) % 10 < 3)
    return np.random.default_rng(0).uniform(0.05, 0.3, 300), y.astype(int), labels


@pytest.mark.parametrize("n_holding", [1, 14])
def test_the_caution_about_a_rare_outcome_counts_clusters(n_holding):
    p, y, labels = few_clusters(n_holding)
    report = calibrant.evaluate(p, y, clusters=labels, n_resamples=0)
    words = f"one outcome occurs in only {n_holding} cluster{'s' * (n_holding > 1)}, fewer than 15"
    said = f"{n_holding} cluster{'s' * (n_holding > 1)} with events, fewer than 15. "
    assert report.verdict()[0].startswith(f"Too little data for reliable inference: {said}")
    assert words in report["ece"].details["flag"]
    assert "rows of the less frequent outcome" not in str(report)


def test_the_caution_counts_clusters_of_the_outcome_that_fewer_clusters_hold():
    """60 clusters have 2 events each, and 14 have 20 non-events each: these are more rows, in fewer clusters."""
    labels = np.concatenate([np.repeat(np.arange(60), 2), 60 + np.repeat(np.arange(14), 20)])
    y = (labels < 60).astype(int)
    p = np.random.default_rng(0).uniform(0.2, 0.4, len(y))
    for scores, targets, held in ((p, y, "non-events"), (1 - p, 1 - y, "events")):
        report = calibrant.evaluate(scores, targets, clusters=labels, n_resamples=0)
        said = f"Too little data for reliable inference: 14 clusters with {held}, fewer than 15. "
        assert report.verdict()[0].startswith(said)
        assert "one outcome occurs in only 14 clusters, fewer than 15" in report["ece"].details["flag"]


def test_the_caution_counts_equal_rows_of_the_outcome_with_fewer():
    """20 events of equal weights, and 40 non-events of which 10 have nearly all the weight of theirs."""
    y = np.repeat([1, 0], [20, 40])
    weights = np.concatenate([np.full(20, 1.5), np.full(10, 1.0), np.full(30, 1e-3)])
    p = np.random.default_rng(0).uniform(0.3, 0.7, 60)
    report = calibrant.evaluate(p, y, weights=weights, n_resamples=0)
    assert report.outcome_rate > 0.5
    assert report.verdict()[0].startswith("Too little data for reliable inference: 10.06 non-events, fewer than 15. ")
    report = calibrant.evaluate(p, y, weights=np.where(y == 1, 0.1, weights), n_resamples=0)
    assert report.outcome_rate < 0.5
    assert report.verdict()[0].startswith("Too little data for reliable inference: 10.06 non-events, fewer than 15. ")


@pytest.mark.parametrize("n_resamples", [0, 99])
def test_effective_rows_are_those_of_the_mean_gap_with_and_without_resamples(n_resamples):
    # Every row five times in its cluster: one row in five tells something.
    rng = np.random.default_rng(1)
    p = np.repeat(rng.random(300), 5)
    y = np.repeat(rng.random(300) < p[::5], 5).astype(int)
    labels = np.repeat(np.arange(300), 5)
    report = calibrant.evaluate(p, y, clusters=labels, n_resamples=n_resamples)
    assert report.clusters["effective_rows"] == report["mean_gap"].details["effective_rows"]
    # N / deff of 256 buckets: the variance has a relative error of sqrt(2 / 255) = .09; three of them.
    assert report.clusters["effective_rows"] == pytest.approx(300, rel=0.27)
    worth = f"are worth about {report.clusters['effective_rows']:,.0f} independent rows."
    assert f"for the mean difference the data {worth}" in " ".join(str(report).split())


# ---------------------------------------------------------------- labels


@pytest.mark.parametrize("evaluated", ["standard", "forecast", "top-label", "classwise"])
def test_names_of_clusters_play_no_part(evaluated):
    options = {
        **evaluated_rows(1, "clusters"),
        "profile": "standard",
    }  # of 20 clusters; classes share 32 buckets
    labels = options.pop("clusters")
    rng = np.random.default_rng(0)
    if evaluated in ("top-label", "classwise"):
        probs = rng.dirichlet(np.ones(3), len(labels))
        options |= {"probs": probs, "targets": labels % 3, "notion": evaluated}
    else:
        options["profile"] = evaluated
    names = rng.permutation(10_000)[: labels.max() + 1]
    reports = [
        calibrant.evaluate(**options, clusters=clusters, n_resamples=99, rng=1)
        for clusters in (labels, names[labels], names[labels].astype(str))
    ]
    for report in reports[1:]:
        assert report.verdict() == reports[0].verdict()
        for name, one in report.estimates.items():
            # The same sums in another order of buckets: rounding.
            first = reports[0][name]
            for key in ("value", "low", "high", "p_value"):
                assert getattr(one, key) == pytest.approx(getattr(first, key), abs=1e-9, nan_ok=True), (name, key)


# ---------------------------------------------------------------- simulated


def intercepts(rng, sizes, shift, slope=1.0, deviation=1.19):
    """Rows in clusters of these sizes: scores, and outcomes whose log-odds each cluster moves (icc 0.3 by default)."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    p = np.clip(rng.random(len(labels)), 1e-4, 1 - 1e-4)
    moved = shift + deviation * rng.standard_normal(len(sizes))
    odds = slope * np.log(p / (1 - p)) + moved[labels]
    return p, (rng.random(len(labels)) < 1 / (1 + np.exp(-odds))).astype(int), labels


def in_buckets(p, y, labels):
    buckets = BucketSums.of(as_clusters(labels, len(p)), p, y.astype(np.uint8), None)
    return Clustered.of(Cells.from_table(ReliabilityTable.from_scores(p, y)), buckets)


@pytest.mark.slow
@pytest.mark.parametrize("clusters", [15, 20, 30])
def test_few_false_proofs_where_the_tolerance_is_the_true_ece(clusters):
    # The truth is that of 300,000 clusters of one row. A binomial count at 0.06 may pass its quantile of 1 in 10,000.
    shift, n, level = 0.6, 400, 0.9
    p, y, _ = intercepts(np.random.default_rng(1), np.ones(300_000, int), shift)
    truth = calibrant.expected_calibration_error(p, y)
    wrong, rng = 0, np.random.default_rng(2)
    for _ in range(n):
        rows = in_buckets(*intercepts(rng, np.full(clusters, 40), shift))
        found = bins.ClusterBins.of(rows, uniform_bin_of(rows.fine.table, 15))
        value, gap = (float(np.sum(x)) / rows.total for x in (abs(found.moments.gap_sums), found.moments.gap_sums))
        _, high = absolute_interval(found, value, level, rejected=True)
        low_gap, high_gap = mean_interval(gap, gap_variance(rows), 1.0, level)
        wrong += max(high, -low_gap, high_gap) < truth
    assert wrong <= binom.ppf(1 - 1e-4, n, 0.06)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [[38] * 9 + [1] * 58, [25] * 16, [60] * 5 + [8] * 15])
def test_the_slope_covers_with_few_clusters_of_unequal_sizes(sizes):
    # At 95 % no less than 0.93; a binomial count may pass its quantile of 1 in 10,000.
    n, slope = 400, 1.4
    p, y, _ = intercepts(np.random.default_rng(1), np.ones(300_000, int), 0.0, slope)
    truth = log_odds_line(in_buckets(p, y, np.arange(300_000)))[0]
    held, rng = 0, np.random.default_rng(3)
    for _ in range(n):
        found, variance = log_odds_line(in_buckets(*intercepts(rng, np.array(sizes), 0.0, slope)))
        held += abs(found - truth) <= variance.half_width(0.95)
    assert held >= binom.ppf(1e-4, n, 0.93)
