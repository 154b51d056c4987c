"""Simulated rows in clusters: tests keep their size under calibration, intervals cover what is true.

Settings: 20, 50 and 200 clusters of ten rows, with copies, random intercepts and negative dependence; scores that are
calibrated, or whose log-odds are 1.6 times too large. A count of n data sets is compared with the binomial law of the
worst probability that the method claims: it may pass the quantile of one in ten thousand. Single settings may be worse
than the mean over settings: with few clusters the laws are approximations.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import binom

from calibrant.inference.hypotheses import cox_by_cluster, spiegelhalter_by_cluster
from calibrant.inputs.scores import event_row_scores
from calibrant.measures.binned import bin_inference as intervals
from calibrant.measures.binned.bin_inference import absolute_law
from calibrant.measures.binned.binned import absolute_error, root_square_error
from calibrant.measures.cumulative import cumulative
from calibrant.measures.differences import pair as differences
from calibrant.measures.differences import paired as pairs
from calibrant.measures.estimates import ClusterClassBins
from calibrant.measures.isotonic import isotonic as corp
from calibrant.measures.isotonic.corp import coarse_miscalibrations, refinement
from calibrant.measures.line.line import Line
from calibrant.measures.line.line import line_by_cluster as log_odds_line
from calibrant.measures.means.in_the_large import mean_gap_law
from calibrant.measures.means.means import PredictionMeans, RowShare, gap_variance
from calibrant.measures.simulated import ClusterNull
from calibrant.measures.smooth import smooth_inference as smooth
from calibrant.measures.smooth.smece import null_smooth
from calibrant.measures.smooth.smooth import smooth_error
from calibrant.measures.verdict import Verdict
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import Clustered, SamplingDesign
from calibrant.statistics.null import p_value
from calibrant.statistics.resampling import Resampling
from calibrant.table import ReliabilityTable
from calibrant.table.cluster_labels import as_clusters
from calibrant.table.cluster_sums import CLASS_CELLS, BucketSums
from tests.builders import cluster_model, mean_interval, score_ends

pytestmark = pytest.mark.slow

LEVEL, DRAWS, CHANCE = 0.9, 99, 1e-4
DATA_SETS = 80  # of each setting; of the slower measures every fourth
CLUSTERS, SIZE = (20, 50, 200), 10
DEPENDENCE = ("copies", "intercept", "negative")
TOO_EXTREME = 1.6


@cache
def shifts():
    """Log-odds a at which an intercept of standard deviation 2 leaves a given rate, by integration."""
    x, w = np.polynomial.hermite_e.hermegauss(61)
    a = np.linspace(-16, 16, 2001)
    return (expit(a[:, np.newaxis] + 2 * x) * w / w.sum()).sum(axis=1), a


def drawn(rng, n_clusters, dependence):
    """Calibrated probabilities, outcomes and clusters: every y happens with its probability."""
    labels = np.repeat(np.arange(n_clusters), SIZE)
    if dependence == "copies":
        q = rng.random(n_clusters)[labels]
        return q, rng.random(n_clusters)[labels] < q, labels
    q = rng.random(len(labels))
    if dependence == "intercept":
        return q, rng.random(len(q)) < expit(np.interp(q, *shifts()) + 2 * rng.normal(size=n_clusters)[labels]), labels
    ranks = np.concatenate([rng.permutation(SIZE) for _ in range(n_clusters)])
    return q, (ranks + rng.random(len(q))) / SIZE < q, labels


@cache
def truths(scale):
    """The true values where log-odds are multiplied by this, from two million scores on a grid of probabilities."""
    q = (np.arange(2_000_000) + 0.5) / 2_000_000
    p = expit(scale * logit(q))
    b = np.ceil(p * 15).astype(int)
    gaps, shares = np.bincount(b, p - q) / len(p), np.bincount(b) / len(p)
    smece = smooth_error(p[::50], (q - p)[::50], len(p) / 50).value if scale != 1 else 0.0
    return {
        "gap": float(np.mean(p - q)),
        "brier": float(np.mean((p - q) ** 2 + q * (1 - q))),
        "accuracy": float(np.mean(np.maximum(q, 1 - q))),
        "ece": float(np.abs(gaps).sum()),
        "square": float(np.sum(gaps[shares > 0] ** 2 / shares[shares > 0])),
        "ks": float(np.abs(np.cumsum(p - q)).max() / len(p)) if scale != 1 else 0.0,
        "smece": smece,
        "miscalibration": float(np.mean((p - q) ** 2)),
        "discrimination": 1 / 12,
        "slope": 1 / scale,
    }


def clustered(p, y, labels):
    scores = event_row_scores(p[:, np.newaxis], y.astype(np.int64), logits=False)
    buckets = BucketSums.of(as_clusters(labels, len(p)), p, y.astype(np.uint8), row_scores=scores)
    return Cells.from_table(ReliabilityTable.from_scores(p, y.astype(int))), buckets


def evaluated(rows, resampling, *, slow):
    """The p-values and the intervals of one data set."""
    law, level = ClusterNull.of(rows, 15), resampling.level
    found, verdict = law.uniform, Verdict.of(rows, law.uniform)

    def statistics(draws):
        return np.stack(
            [
                absolute_error(draws.uniform_gaps, rows.total),
                root_square_error(draws.uniform_gaps, found.moments.counts, rows.total),
                np.abs(np.cumsum(draws.cell_gaps, axis=-1)).max(axis=-1) / rows.total,
                verdict.statistic(draws),
            ],
            axis=1,
        )

    replicates, observed = law.replicates(statistics, resampling), statistics(law.observed)[0]
    p = {name: p_value(replicates[:, k], observed[k]) for k, name in enumerate(("ece", "square", "ks", "verdict"))}
    gap = float(found.moments.gap_sums.sum()) / rows.total
    p |= {
        "gap": mean_gap_law(rows, gap, level).p_value,
        "ece, closed form": absolute_law(found, level, observed[0]).p_value,
        "verdict, closed form": verdict.result(law.observed, None).p_value,
        "cox": cox_by_cluster(rows)[2],
        "spiegelhalter": spiegelhalter_by_cluster(rows)[1],
    }
    means_of, line = PredictionMeans.of_table(rows.fine.table, right=False), Line.of(*log_odds_line(rows), level)
    tail = resampling.tail
    ends = {
        "gap": mean_interval(gap, gap_variance(rows), 1.0, level),
        "brier": score_ends(rows, "brier", means_of, level),
        "accuracy": RowShare.right(means_of).interval(rows, means_of, level),
        "ece": intervals.absolute_interval(found, observed[0], level, rejected=p["ece"] <= tail),
        "square": intervals.square_interval(found, found.square, level, rejected=p["square"] <= tail),
        "ks": cumulative.interval_by_cluster(rows, observed[2], resampling),
        "slope": (line.low, line.high),
    }
    if slow:
        table = rows.fine.table
        value = smooth_error(table.scores, table.residuals, table.total).value
        null = null_smooth(law, value)
        at_value = law.replicates(lambda draws: null(draws.cell_gaps)[1], resampling)
        p["smece"] = p_value(at_value, null(rows.cells.gap_sums[None])[1][0])
        ends["smece"] = smooth.interval(rows, value, level, rejected=p["smece"] <= tail)
        fine = SamplingDesign(rows.fine)
        masses, fit, base = corp.in_sample(fine)
        parts = [corp.difference(fine, masses, first, fit).value for first in (rows.fine.scores, base)]
        factors = refinement(law, resampling) * law.replicates(coarse_miscalibrations, resampling)
        p["miscalibration"] = p_value(factors, parts[0])
        rejected = p["miscalibration"] <= tail
        sd = float(factors.std())
        ends["miscalibration"] = corp.miscalibration_interval(rows, parts[0], sd, resampling, rejected=rejected)
        ends["discrimination"] = corp.discrimination_interval(rows, parts[1], resampling)
    return p, ends


@cache
def simulated(scale):
    """For each setting and measure, whether its test rejects at 5 % and whether its interval covers."""
    settings = {}
    for n_clusters in CLUSTERS:
        for dependence in DEPENDENCE:
            rng = np.random.default_rng([n_clusters, DEPENDENCE.index(dependence), int(10 * scale)])
            rejects, covers = {}, {}
            for i in range(DATA_SETS):
                q, y, labels = drawn(rng, n_clusters, dependence)
                rows = Clustered.of(*clustered(expit(scale * logit(q)), y, labels))
                p, ends = evaluated(rows, Resampling.of(LEVEL, DRAWS, int(rng.integers(1 << 30))), slow=i % 4 == 0)
                for name, value in p.items():
                    rejects.setdefault(name, []).append(value <= 0.05)
                for name, (low, high) in ends.items():
                    covers.setdefault(name, []).append(not (truths(scale)[name] < low or truths(scale)[name] > high))
            settings[n_clusters, dependence] = rejects, covers
    return settings


TESTS = (
    "gap",
    "ece",
    "ece, closed form",
    "square",
    "ks",
    "smece",
    "miscalibration",
    "cox",
    "spiegelhalter",
    "verdict",
    "verdict, closed form",
)


@pytest.mark.parametrize("name", TESTS)
def test_calibrated_scores_are_rejected_in_5_per_cent(name):
    """At most 6.5 % on average, and 12 % in single settings."""
    counts = [rejects[name] for rejects, _ in simulated(1.0).values()]
    n = len(counts[0])
    assert sum(map(sum, counts)) <= binom.ppf(1 - CHANCE, n * len(counts), 0.065)
    assert max(map(sum, counts)) <= binom.ppf(1 - CHANCE, n, 0.12)


@pytest.mark.parametrize("name", ["verdict", "cox", "ece"])
def test_too_extreme_scores_are_found(name):
    """In most data sets of 200 clusters, although none looks at single rows."""
    for dependence in DEPENDENCE:
        assert np.mean(simulated(TOO_EXTREME)[200, dependence][0][name]) > 0.45


INTERVALS = tuple(truths(1.0))


@pytest.mark.parametrize("name", INTERVALS)
@pytest.mark.parametrize("scale", [1.0, TOO_EXTREME])
def test_intervals_cover_what_is_true(scale, name):
    """In at least 88 % of data sets on average, and in 84 % in single settings."""
    counts = [covers[name] for _, covers in simulated(scale).values()]
    n = len(counts[0])
    assert sum(map(sum, counts)) >= binom.ppf(CHANCE, n * len(counts), 0.88)
    assert min(map(sum, counts)) >= binom.ppf(CHANCE, n, 0.84)


def test_negative_dependence_gives_shorter_intervals_and_copies_longer_ones():
    rng = np.random.default_rng(0)
    width = {}
    for dependence in DEPENDENCE:
        rows = Clustered.of(*clustered(*drawn(rng, 200, dependence)))
        low, high = mean_interval(0.0, gap_variance(rows), 1.0, LEVEL)
        width[dependence] = high - low
    assert width["negative"] < 0.9 * width["intercept"] < 0.9 * width["copies"]


# ---------------------------------------------------------------- two models, classes


@cache
def compared():
    """Whether the intervals of the differences of two models cover, with other scores for the same rows."""
    covers = {name: [] for name in ("square", "ece", "brier", "accuracy")}
    first, second = (truths(scale) for scale in (TOO_EXTREME, 1.2))
    rng = np.random.default_rng(3)
    for _ in range(200):
        for dependence in DEPENDENCE:
            q, y, labels = drawn(rng, 60, dependence)
            parts = [clustered(expit(scale * logit(q)), y, labels) for scale in (TOO_EXTREME, 1.2)]
            aligned = zip("AB", pairs.paired_rows(parts), strict=True)
            both = pairs.ClusterPair(*(cluster_model(name, rows) for name, rows in aligned))
            found = {
                "square": differences.square_difference(both, LEVEL),
                "ece": differences.absolute_difference(both, LEVEL),
                "brier": differences.mean_difference(both, LEVEL, mean="brier"),
                "accuracy": differences.accuracy_difference(both, LEVEL),
            }
            for name, one in found.items():
                covers[name].append(one.low <= first[name] - second[name] <= one.high)
    return covers


@pytest.mark.parametrize("name", ["square", "ece", "brier", "accuracy"])
def test_differences_of_models_are_covered(name):
    assert sum(compared()[name]) >= binom.ppf(CHANCE, 600, 0.87)


def class_rows(rng, n_clusters, scale):
    """Classes of rows that share their class with probability one half: scores, classes, clusters, true chances."""
    labels = np.repeat(np.arange(n_clusters), SIZE)
    logits = rng.normal(size=(len(labels), 5))
    true, probs = (np.exp(x) / np.exp(x).sum(axis=1, keepdims=True) for x in (logits, scale * logits))
    shared = np.where(rng.random(n_clusters) < 0.5, rng.random(n_clusters), np.nan)[labels]
    u = np.where(np.isnan(shared), rng.random(len(labels)), shared)
    return probs, np.minimum((true.cumsum(axis=1) < u[:, np.newaxis]).sum(axis=1), 4), labels, true


def class_histograms(probs, outcomes):
    """Counts, sums of scores and of outcomes, (n, classes), in 15 bins of each class."""
    found = np.zeros((3, 15, probs.shape[1]))
    for k, p in enumerate(probs.T):
        b = np.ceil(p * 15).astype(int) - 1
        found[:, :, k] = [np.bincount(b, x, 15) for x in (np.ones(len(p)), p, outcomes[:, k])]
    return found


@pytest.mark.parametrize("scale", [1.0, 1.5])
def test_the_classwise_error_is_covered_and_its_test_keeps_its_size(scale):
    probs, _, _, true = class_rows(np.random.default_rng(5), 40_000, scale)
    sums = class_histograms(probs, true)
    truth = float(np.abs(sums[1] - sums[2]).sum()) / probs.size if scale != 1 else 0.0
    rng, covered, rejected = np.random.default_rng(4), 0, 0
    for i in range(150):
        probs, y, labels, _ = class_rows(rng, 60, scale)
        sums = class_histograms(probs, np.eye(5)[y])
        parts = [
            BucketSums.of(as_clusters(labels, len(y)), p, (y == k).astype(np.uint8), cells=CLASS_CELLS)
            for k, p in enumerate(np.ascontiguousarray(probs.T))
        ]
        found = ClusterClassBins(histograms=sums, effective_n=len(y), buckets=parts)
        value, resampling = float(np.abs(sums[1] - sums[2]).sum()) / probs.size, Resampling.of(LEVEL, DRAWS, i)
        p = found.law(value, resampling).p_value
        rejected += p <= 0.05
        low, high, _ = found.interval(value, resampling, rejected=p <= resampling.tail)
        covered += low <= truth <= high
    assert covered >= binom.ppf(CHANCE, 150, 0.95)
    if scale == 1:
        assert rejected <= binom.ppf(1 - CHANCE, 150, 0.065)
