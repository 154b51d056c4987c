"""Inference from rows in clusters: published numbers, exact algebra, laws, hard cases.

Tolerances. Published numbers are compared to one in their last digit. Two ways to the same sums of at most 2,000 terms
of size 1 differ by less than 2,000 * 2^-53 * 2,000 = 5e-10, and for terms of random sign by about 1e-14: `EXACT`.
Where a difference is divided by a small variance the relative error grows: `CLOSE`.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logit

from calibrant.errors import InputError
from calibrant.inference.hypotheses import cox_by_cluster, spiegelhalter_by_cluster, spiegelhalter_test
from calibrant.inputs.notions import Events
from calibrant.inputs.scores import event_row_scores
from calibrant.kernels import dispatch
from calibrant.measures.binned import bin_inference as binned
from calibrant.measures.binned import cluster_bins as bins
from calibrant.measures.binned.bin_sums import BinSums
from calibrant.measures.binned.binned import (
    absolute_error,
    bin_table,
    debiased_square_error,
    root_square_error,
    uniform_bin_of,
)
from calibrant.measures.binned.cluster_bins import ClusterBins
from calibrant.measures.calibration_curves import isotonic_curve, shown_cells, smooth_curve
from calibrant.measures.cumulative import cumulative
from calibrant.measures.differences import pair as differences
from calibrant.measures.differences import paired as pairs
from calibrant.measures.estimates import ClusterClassBins
from calibrant.measures.isotonic import isotonic as corp
from calibrant.measures.isotonic.corp import refinement
from calibrant.measures.line.line import line_by_cluster as log_odds_line
from calibrant.measures.means.in_the_large import mean_gap_law
from calibrant.measures.means.means import (
    PredictionMeans,
    RowShare,
    gap_variance,
    mean_score_influence,
    rate_interval,
    rate_rows,
    uncertainty_interval,
    wilson_interval,
)
from calibrant.measures.simulated import ClusterNull, GapSums
from calibrant.measures.smooth import smooth_inference as smooth
from calibrant.measures.smooth.smece import null_smooth
from calibrant.measures.smooth.smooth import smooth_error
from calibrant.measures.verdict import Verdict
from calibrant.measures.verdict import closed_form as independent_verdict
from calibrant.statistics import buckets as sums
from calibrant.statistics import design
from calibrant.statistics import intervals as endings
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import Clustered, SamplingDesign, details_of
from calibrant.statistics.folds import deal_buckets
from calibrant.statistics.intervals import score_end
from calibrant.statistics.resampling import Resampling, normal_quantile, t_quantile
from calibrant.table import ReliabilityTable
from calibrant.table.cluster_labels import as_clusters
from calibrant.table.cluster_sums import CLASS_CELLS, BucketSums
from tests.builders import cluster_model, mean_interval, mean_score_ends, score_ends
from tests.builders import uniform_sums as uniform
from tests.samples import dependent

EXACT = 1e-11
CLOSE = 1e-7

#: Twelve rows, by whose clusters other programs were run.
P = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.35, 0.65, 0.15])
Y = np.array([0, 0, 1, 0, 1, 1, 0, 1, 1, 0, 1, 0])
EQUAL, UNEQUAL = "aaabbbcccddd", "aaaaaabbccdd"


def isotonic_band(law, shown, resampling):
    """The band of the isotonic fit under calibration, as a report draws it."""
    places = law.rows.coarse(shown)

    def fits(drawn):
        return np.clip(dispatch.isotonic_fits(law.rows.cells.counts, drawn.positives), 0.0, 1.0)[:, places]

    return resampling.band(law.replicates(fits, resampling))


def simulated_band(law, resampling):
    """The band of the rates of bins under calibration, as a report draws it."""
    moments = law.uniform.moments

    def rates(drawn):
        return np.clip((moments.score_sums - drawn.uniform_gaps) / moments.counts, 0.0, 1.0)

    return resampling.band(law.replicates(rates, resampling))


def clustered(p, y, labels, weights=None, grid=None):
    """The sums of rows in clusters, and their table."""
    p, y = np.asarray(p), np.asarray(y)
    with np.errstate(divide="ignore"):
        scores = event_row_scores(p[:, np.newaxis], y.astype(np.int64), logits=False)
    buckets = BucketSums.of(as_clusters(labels, len(p)), p, y.astype(np.uint8), weights, row_scores=scores)
    table = ReliabilityTable.from_scores(p, y, weights=weights, grid=grid)
    return Clustered.of(Cells.from_table(table), buckets)


def rate_of(rows):
    return float(rows.fine.positives.sum()) / rows.total


def gap_error(rows):
    """The standard error of the mean gap if the rows were independent."""
    return gap_variance(SamplingDesign(rows.fine)).error


def absolute(sums):
    return absolute_error(sums.uniform_gaps, sums.law.rows.total)


def adaptive(sums):
    return absolute_error(sums.law.quantile.over_bins(sums.cell_gaps), sums.law.rows.total)


def root_square(sums):
    return root_square_error(sums.uniform_gaps, sums.law.uniform.moments.counts, sums.law.rows.total)


def cumulative_error(sums: GapSums) -> np.ndarray:
    """The KS error on the coarse cells."""
    return np.abs(np.cumsum(sums.cell_gaps, axis=-1)).max(axis=-1) / sums.law.rows.total


def debiased_square(sums):
    return sums.law.uniform.debiased_square(sums.uniform_gaps, sums.own_squares)


def errors_of(rows):
    """The errors of the bins of the rows, by the names of the functions that judge them."""
    moments = uniform(rows).moments
    return {
        "absolute": float(np.abs(moments.gap_sums).sum()) / rows.total,
        "root": math.sqrt(float(np.sum(moments.gap_sums**2 / moments.counts)) / rows.total),
        "square": uniform(rows).square,
        "maximum": float(np.abs(moments.gap_sums / moments.counts).max()),
        "gap": float(moments.gap_sums.sum()) / rows.total,
    }


def verdict_of(law):
    """The verdict in closed form."""
    return Verdict.of(law.rows, law.uniform).result(law.observed, None)


def p_values(rows, n_bins=15):
    """All closed forms of p-values."""
    found, errors = ClusterBins.of(rows, uniform_bin_of(rows.fine.table, n_bins)), errors_of(rows)
    law = ClusterNull.of(rows, n_bins)
    return {
        "ece": binned.absolute_law(found, 0.9, float(absolute(law.observed)[0])).p_value,
        "rmsce": binned.square_laws(found, 0.9)[0].p_value,
        "gap": mean_gap_law(rows, errors["gap"], 0.9).p_value,
        "spiegelhalter": spiegelhalter_by_cluster(rows)[1],
        "cox": cox_by_cluster(rows)[2],
        **verdict_of(law).details["parts"],
        "verdict": verdict_of(law).p_value,
    }


def intervals(rows, level=0.9):
    """All intervals without resampling, with shown errors."""
    found, errors = uniform(rows), errors_of(rows)
    means_of = PredictionMeans.of_table(rows.fine.table, right=False)
    ends = {
        "ece": binned.absolute_interval(found, errors["absolute"], level, rejected=True),
        "square": binned.square_interval(found, errors["square"], level, rejected=True),
        "gap": mean_interval(errors["gap"], gap_variance(rows), 1.0, level),
        "score": mean_score_ends(rows, level),
        "brier": score_ends(rows, "brier", means_of, level),
        "accuracy": RowShare.right(means_of).interval(rows, means_of, level),
        "rate": rate_interval(rate_of(rows), rate_rows(rows, level), level),
        "uncertainty": uncertainty_interval(rate_of(rows), rate_rows(rows, level), level),
    }
    if found.held.any():
        ends["mce"] = binned.maximum_interval(found, errors["maximum"], level, rejected=True)
    if math.isfinite(means_of.nll):
        ends["log"] = score_ends(rows, "log", means_of, level)
    return ends


# ---------------------------------------------------------------- published numbers


@pytest.mark.parametrize(
    ("labels", "gap", "brier", "accuracy"),
    [
        # statsmodels: OLS on a constant, cov_type="cluster"; the clustered standard error of inspect_ai agrees.
        (EQUAL, 0.0721286787, 0.0236593665, 0.0962250449),
        (UNEQUAL, 0.0939118972, 0.0350437888, 0.0785674201),
    ],
)
def test_standard_errors_of_means_are_those_of_statsmodels(labels, gap, brier, accuracy):
    rows = clustered(P, Y, list(labels))
    for own, published in (
        (rows.gaps.sum(axis=1), gap),
        (rows.scalar("brier"), brier),
        (rows.scalar("right"), accuracy),
    ):
        centred = sums.centred(own, rows.weights)
        variance = sums.variance_of(centred, 1.0, rows.sizes).value
        square = float(np.sum(centred**2))
        assert math.sqrt(square * 4 / 3) / 12 == pytest.approx(published, abs=1e-10)
        assert variance >= square  # divided by a share below 1


@pytest.mark.parametrize(
    ("labels", "share", "freedom", "raw"),
    [(EQUAL, 0.75, 3, 0.3600583), (UNEQUAL, 2 / 3, 8 / 3, 0.6103768)],
)
def test_share_freedom_and_design_effect_of_the_twelve_rows(labels, share, freedom, raw):
    rows = clustered(P, Y, list(labels))
    found = sums.variance_of(
        sums.centred(rows.gaps.sum(axis=1), rows.weights), rows.row_square(np.ones(len(rows.cells))), rows.sizes
    )
    square = float(np.sum(sums.centred(rows.gaps.sum(axis=1), rows.weights) ** 2))
    independent = rows.row_square(np.ones(len(rows.cells))) * 12 / 11
    assert (square / found.value, found.df) == pytest.approx((share, freedom), abs=5e-7)
    assert square * 4 / 3 / independent == pytest.approx(raw, abs=5e-8)
    assert found.deff == pytest.approx(square / share / independent, rel=EXACT)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (EQUAL, {"rmsce": 0.84314, "ece": 0.91500, "cox": 0.70051, "spiegelhalter": 0.51738}),
        (UNEQUAL, {"rmsce": 0.85298, "ece": 0.92341, "cox": 0.74212, "spiegelhalter": 0.46965}),
    ],
)
def test_closed_forms_of_the_twelve_rows(labels, expected):
    """Numbers of a program of its own, which knows rows and not cells."""
    found = p_values(clustered(P, Y, list(labels)), n_bins=2)
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=5e-6)


def squared_error_by_pairs(p, y, labels, n_bins):
    """The mean over the bins of the products of all pairs of rows of different clusters."""
    bin_of, r, value = np.minimum(np.ceil(p * n_bins), n_bins), p - y, 0.0
    for b in np.unique(bin_of):
        inside = np.flatnonzero(bin_of == b)
        pairs = [(i, j) for i in inside for j in inside if labels[i] != labels[j]]
        if pairs:
            value += len(inside) / len(p) * np.mean([r[i] * r[j] for i, j in pairs])
    return value


@pytest.mark.parametrize(("labels", "published"), [(EQUAL, -0.0171800595), (UNEQUAL, -0.0201957071)])
def test_the_squared_error_is_that_of_pairs_of_different_clusters(labels, published):
    rows = clustered(P, Y, list(labels))
    value = uniform(rows, 2).square
    assert value == pytest.approx(published, abs=5e-11)
    assert value == pytest.approx(squared_error_by_pairs(P, Y, labels, 2), abs=EXACT)


def test_the_squared_error_of_many_rows_is_that_of_pairs():
    p, y, labels = dependent(3, 25)
    value = uniform(clustered(p, y, labels)).square
    assert value == pytest.approx(squared_error_by_pairs(p, y, labels, 15), abs=EXACT)


# ---------------------------------------------------------------- exact algebra


@pytest.mark.parametrize("rho", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("sizes", [[3, 3, 3, 3], [6, 2, 2, 2], [100, 1, 1, 1, 5], [7, 9], [1] * 30])
def test_freedom_and_share_are_those_of_the_matrices(sizes, rho):
    sizes = np.array(sizes, float)
    f, h = sizes / sizes.sum(), len(sizes)
    one = np.ones(h)
    m = np.eye(h) - np.outer(f, one) - np.outer(one, f) + np.sum(f**2) * np.outer(one, one)
    md = m @ np.diag(sizes * (1 + (sizes - 1) * rho))
    variances = np.diag(sizes * (1 + (sizes - 1) * rho))
    share = np.trace(md) / np.trace(variances)
    df = np.trace(md) ** 2 / np.trace(md @ md)
    assert sums.degrees_of_freedom(sizes, rho) == pytest.approx((max(df, 1), share), rel=EXACT)


def test_equal_sizes_have_one_degree_of_freedom_less_than_clusters():
    for rho in (0.0, 0.3, 1.0):
        assert sums.degrees_of_freedom(np.full(9, 4.0), rho) == pytest.approx((8, 8 / 9), rel=EXACT)


def test_the_folded_variance_is_that_of_simulated_normals():
    rng = np.random.default_rng(5)
    columns = rng.normal(size=(6, 4))
    columns /= np.sqrt(np.sum(columns**2, axis=0))
    s = np.array([1.0, 2.0, 0.5, 1.5])
    drawn = np.abs(rng.standard_normal((400_000, 6)) @ columns * s).sum(axis=1)
    # The variance of n draws has a relative error of sqrt((kurtosis - 1) / n), below .003 for kurtosis 4: five of them.
    assert bins._folded_variance(s, columns) == pytest.approx(drawn.var(), rel=0.016)


def test_correlations_of_bins_by_their_matrix():
    rng = np.random.default_rng(6)
    parts = rng.normal(size=(5, 7))
    parts[:, 2] = 0
    c = parts.T @ parts
    sd = np.sqrt(np.where(np.diag(c) > 0, np.diag(c), 1))
    c = c / np.outer(sd, sd)
    np.fill_diagonal(c, 1)
    x, found = rng.normal(size=7), bins.Correlations.of(parts)
    assert found.quadratic(x) == pytest.approx(x @ c @ x, rel=EXACT)
    assert found.squares(x) == pytest.approx(float(np.sum(np.outer(x, x) * c**2)), rel=EXACT)


def test_replicates_have_the_covariance_of_the_closed_forms():
    rows = clustered(*dependent(7))
    law = ClusterNull.of(rows, 5)
    drawn = law.replicates(lambda draws: draws.uniform_gaps, Resampling.of(0.9, 20_000, 1))
    sums_of = np.stack([bins.ClusterBins.of(rows, uniform_bin_of(rows.fine.table, 5)).gaps])[0]
    moments = law.uniform.moments
    scale = np.sqrt(moments.null_variances / moments.squared_residuals)
    expected = (sums_of * scale).T @ (sums_of * scale)
    seen = drawn.T @ drawn / len(drawn)
    root = np.sqrt(np.diag(expected))
    # A covariance of 20,000 normal draws has a standard error of at most sqrt(2 / 20,000) = .01 of the deviations.
    assert np.abs(seen - expected).max() <= 0.05 * np.outer(root, root).max()


def test_a_scalar_sum_of_replicates_has_its_own_variance():
    rows = clustered(*dependent(8))
    cells, slopes = rows.cells, 1 - 2 * rows.cells.scores
    drawn = ClusterNull.of(rows, 15).replicates(lambda draws: draws.scalar(slopes), Resampling.of(0.9, 20_000, 2))
    own = float(np.sum((rows.gaps @ slopes) ** 2))
    variance = (
        float(np.sum(slopes**2 * cells.null_variances)) * own / float(np.sum(slopes**2 * cells.squared_residuals))
    )
    assert drawn.var() == pytest.approx(variance, rel=0.05)  # five standard errors, sqrt(2 / 20,000)


# ---------------------------------------------------------------- laws


def distinct(n=240, seed=0):
    """Scores each in a coarse cell of its own, off the edges of bins, and outcomes."""
    rng = np.random.default_rng(seed)
    p = (rng.permutation(280)[:n] + 10.5) / 300
    return p, (rng.random(n) < p).astype(int)


def test_clusters_of_one_row_have_the_laws_of_independent_rows():
    p, y = distinct()
    rows = clustered(p, y, np.arange(len(p)))
    cells, law = rows.fine, ClusterNull.of(rows, 15)
    plain = BinSums.of_cells(cells, uniform_bin_of(cells.table, 15))
    errors = errors_of(rows)
    expected = {
        "ece": binned.absolute_law(plain, 0.9, errors["absolute"]).p_value,
        "rmsce": binned.square_laws(plain, 0.9)[0].p_value,
        "gap": mean_gap_law(SamplingDesign(cells), errors["gap"], 0.9).p_value,
        "spiegelhalter": spiegelhalter_test(cells.table).p_value,
        "verdict": independent_verdict(cells, plain).p_value,
    }
    found = p_values(rows)
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=CLOSE)
    for own, other in (
        (
            binned.absolute_law(law.uniform, 0.9, errors["absolute"]),
            binned.absolute_law(plain, 0.9, 0.1),
        ),
        (binned.square_laws(law.uniform, 0.9)[0], binned.square_laws(plain, 0.9)[0]),
    ):
        assert (own.floor.mean, own.floor.upper) == pytest.approx((other.floor.mean, other.floor.upper), rel=CLOSE)
    assert errors["square"] == pytest.approx(debiased_square_error(bin_table(cells.table, 15)), abs=EXACT)


def test_clusters_of_one_row_have_nearly_the_intervals_of_independent_rows():
    p, y = distinct(seed=1)
    rows = clustered(p, y, np.arange(len(p)))
    plain = BinSums.of_cells(rows.fine, uniform_bin_of(rows.fine.table, 15))
    errors, found = errors_of(rows), intervals(rows)
    t = t_quantile(0.9, len(p) - 1)
    half = gap_error(rows) * t
    assert found["gap"] == pytest.approx((errors["gap"] - half, errors["gap"] + half), rel=CLOSE)
    high = binned.absolute_interval(plain, errors["absolute"], 0.9, rejected=True)[1]
    assert found["ece"][1] == pytest.approx(
        high, rel=0.06
    )  # design effects of 240 clusters vary by sqrt(2 / 240) = .09


def doubled(p, y, labels):
    return np.repeat(p, 2), np.repeat(y, 2), np.repeat(labels, 2)


@pytest.mark.parametrize("labels", [np.arange(240), np.repeat(np.arange(48), 5)])
def test_every_row_twice_in_its_cluster_changes_no_law(labels):
    p, y = distinct(seed=2)
    once, twice = clustered(p, y, labels), clustered(*doubled(p, y, labels))
    assert p_values(twice) == pytest.approx(p_values(once), rel=CLOSE)
    for name, ends in intervals(twice).items():
        if name in intervals(once):  # with twice as many rows more bins have 30
            assert ends == pytest.approx(intervals(once)[name], abs=0.02), name
    assert errors_of(twice)["absolute"] == pytest.approx(errors_of(once)["absolute"], rel=EXACT)


def assert_alike(rows, others):
    """Rows have the p-values and the intervals of others."""
    assert p_values(rows) == pytest.approx(p_values(others), rel=CLOSE)
    for name, ends in intervals(others).items():
        assert intervals(rows)[name] == pytest.approx(ends, rel=CLOSE), name


def test_a_weight_of_two_is_the_row_twice_in_its_cluster():
    p, y, labels = dependent(4)
    weights = np.random.default_rng(0).integers(1, 4, len(p)).astype(float)
    repeats = weights.astype(int)
    weighted = clustered(p, y, labels, weights)
    repeated = clustered(*(np.repeat(x, repeats) for x in (p, y, labels)))
    assert_alike(weighted, repeated)


@pytest.mark.parametrize("scale", [0.125, 3.7])
def test_the_unit_of_weights_plays_no_part(scale):
    p, y, labels = dependent(5)
    weights = np.random.default_rng(1).uniform(0.2, 3, len(p))
    one, other = clustered(p, y, labels, weights), clustered(p, y, labels, weights * scale)
    assert_alike(other, one)


def test_one_weight_for_all_is_no_weight():
    p, y, labels = dependent(6)
    plain, weighted = clustered(p, y, labels), clustered(p, y, labels, np.full(len(p), 0.3))
    assert_alike(weighted, plain)


def test_the_order_of_rows_and_the_names_of_clusters_play_no_part():
    p, y, labels = dependent(9)
    order = np.random.default_rng(2).permutation(len(p))
    one = clustered(p, y, labels)
    for other in (clustered(p[order], y[order], labels[order]), clustered(p, y, [f"patient {x}" for x in labels])):
        assert_alike(other, one)


def test_the_complement_has_the_same_calibration():
    p, y = distinct(seed=3)
    labels = np.repeat(np.arange(40), 6)
    one, other = clustered(p, y, labels), clustered(1 - p, 1 - y, labels)
    assert p_values(other) == pytest.approx(p_values(one), rel=CLOSE)
    mirrored = {"gap": -1, "score": -1, "rate": -1}
    for name, ends in intervals(one).items():
        found = intervals(other)[name]
        expected = ends if name not in mirrored else (-ends[1], -ends[0])
        shift = 0 if name in ("gap",) or name not in mirrored else 1
        assert found == pytest.approx((expected[0] + shift, expected[1] + shift), rel=CLOSE, abs=EXACT), name


def test_an_exact_table_and_a_grid_tell_nearly_the_same():
    p, y, labels = dependent(10)
    one, other = clustered(p, y, labels), clustered(p, y, labels, grid="standard")
    assert p_values(other) == pytest.approx(p_values(one), rel=1e-3)  # scores within a cell differ by less than 4e-4
    np.testing.assert_allclose(other.cells.squared_residuals, one.cells.squared_residuals, rtol=1e-9)


def test_more_than_256_clusters_share_buckets():
    p, y, labels = dependent(11, n_clusters=600, mean_size=3)
    rows = clustered(p, y, labels)
    assert (len(rows.sizes), rows.buckets.n_clusters) == (rows.buckets.n_buckets - np.sum(rows.buckets.rows == 0), 600)
    assert details_of(rows.buckets)["clusters"] == 600
    split = rows.buckets + BucketSums.empty("number", scored=True)
    assert details_of(split)["clusters"] == "more than 256"


# ---------------------------------------------------------------- numbers of the research program

#: Recorded from the prototype of these formulas, which reads rows and has cells of its own.
RECORDED = [
    (
        11,
        1.0,
        {
            "rho": 0.07671442701,
            "ece": (0.05707211317, 0.0, 0.1057628345),
            "square": (-0.001681097596, 0.0, 0.01222230216),
            "gap": (0.007991513001, -0.05074263463, 0.06672566063),
            "accuracy": (0.6655995653, 0.7396784089),
            "score": (0.390743268, 0.4262347829),
            "ece law": (0.06420924823, 0.657051437),
            "square law": 0.6033526375,
            "maximum law": 0.1056384333,
            "tests": (0.7955908464, 0.2903442504),
        },
    ),
    (
        12,
        3.0,
        {
            "rho": 0.3655597687,
            "ece": (0.1397045047, 0.0219554539, 0.1738217192),
            "square": (0.00990354319, 0.0, 0.03092276345),
            "gap": (-0.03767418069, -0.1408857365, 0.06553737508),
            "accuracy": (0.5364026749, 0.6389177683),
            "score": (0.3896202967, 0.4278103354),
            "ece law": (0.07362539771, 0.004317515044),
            "square law": 0.01655728341,
            "maximum law": 0.001463345609,
            "tests": (0.4359826187, 8.189179871e-09),
        },
    ),
]


@pytest.mark.parametrize("record", RECORDED, ids=lambda record: f"slope {record[1]}")
def test_numbers_of_the_research_program(record, monkeypatch):
    monkeypatch.setattr(endings, "unbiased_end", lambda *_args, **_settings: math.inf)  # an end that came later
    monkeypatch.setattr(ClusterBins, "common", [])  # directions that came later
    seed, slope, expected = record
    rows = clustered(*dependent(seed, slope=slope))
    found, errors = uniform(rows), errors_of(rows)
    law = binned.absolute_law(found, 0.9, errors["absolute"])
    numbers = {
        "rho": found.rho,
        "ece": (errors["absolute"], *intervals(rows)["ece"]),
        "square": (errors["square"], *intervals(rows)["square"]),
        "gap": (errors["gap"], *intervals(rows)["gap"]),
        "accuracy": intervals(rows)["accuracy"],
        "score": intervals(rows)["score"],
        "ece law": (law.floor.mean, law.p_value),
        "square law": binned.square_laws(found, 0.9)[0].p_value,
        "maximum law": binned.maximum_law(found, 0.9).p_value,
        "tests": tuple(p_values(rows)[name] for name in ("gap", "cox")),
    }
    for name, number in numbers.items():
        assert number == pytest.approx(expected[name], rel=CLOSE, abs=EXACT), name


# ---------------------------------------------------------------- hard cases


def one_hot(n_clusters=30, options=4, seed=0):
    """Questions with one right option: each row is an option, the scores of a question add up to 1."""
    rng = np.random.default_rng(seed)
    scores = rng.dirichlet(np.ones(options), n_clusters)
    y = np.array([rng.multinomial(1, row) for row in scores])
    return scores.ravel(), y.ravel(), np.repeat(np.arange(n_clusters), options)


HARD = {
    "one-hot": one_hot(),
    "certain and right": (np.tile([0.0, 1.0], 20), np.tile([0, 1], 20), np.repeat(np.arange(10), 4)),
    "certain, one wrong": (np.tile([0.0, 1.0], 20), np.r_[np.tile([0, 1], 19), [1, 1]], np.repeat(np.arange(10), 4)),
    "all right": (np.full(40, 0.9), np.ones(40, int), np.repeat(np.arange(8), 5)),
    "two clusters": (P, Y, list("aaaaaaabbbbb")),
    "two rows": (np.array([0.3, 0.6]), np.array([0, 1]), [1, 2]),
    "no event": (np.linspace(0.001, 0.1, 60), np.zeros(60, int), np.repeat(np.arange(12), 5)),
    "one cell": (np.full(60, 0.2), np.tile([1, 0, 0, 0, 0], 12), np.repeat(np.arange(6), 10)),
    "a bin of one cluster": (np.r_[P, 0.99, 0.985], np.r_[Y, 1, 0], [*UNEQUAL, "d", "d"]),
    "exactly calibrated": (np.full(40, 0.5), np.tile([0, 1], 20), np.repeat(np.arange(10), 4)),
    "one cluster has most": (
        np.linspace(0.1, 0.9, 203),
        np.tile([0, 1, 1, 0, 1, 0, 1], 29),
        [0] * 200 + [1, 2, 3],
    ),
}


@pytest.mark.parametrize("name", HARD)
def test_hard_cases_have_numbers(name):
    """Every warning is an error here."""
    rows = clustered(*HARD[name])
    for key, p in p_values(rows).items():
        assert 0 <= p <= 1, key
    values = errors_of(rows)
    for key, (low, high) in intervals(rows).items():
        assert -math.inf < low <= high < math.inf, key
    assert intervals(rows)["ece"][0] <= values["absolute"] <= intervals(rows)["ece"][1]
    law = ClusterNull.of(rows, 15)
    drawn = law.replicates(
        lambda g: np.stack([absolute(g), adaptive(g), root_square(g), debiased_square(g), cumulative_error(g)], axis=1),
        Resampling.of(0.9, 40, 0),
    )
    assert np.isfinite(drawn).all()
    assert np.isfinite(law.replicates(Verdict.of(rows, law.uniform).statistic, Resampling.of(0.9, 40, 0))).all()
    assert 0 <= verdict_of(law).p_value <= 1


def test_questions_with_one_right_option_have_no_mean_gap():
    rows = clustered(*one_hot())
    found = p_values(rows)
    assert found["gap"] == 1
    assert found["mean"] == 1
    assert cox_by_cluster(rows)[1] == 1
    assert intervals(rows)["gap"] == pytest.approx((0, 0), abs=1e-9)


def test_negative_dependence_gives_shorter_intervals():
    rng = np.random.default_rng(1)
    u = (np.array([rng.permutation(10) for _ in range(60)]) + rng.random((60, 10))).ravel() / 10
    p = rng.random(600)
    rows = clustered(p, (u < p).astype(int), np.repeat(np.arange(60), 10))
    low, high = intervals(rows)["gap"]
    assert high - low < 2 * gap_error(rows) * normal_quantile(0.9)


def test_copies_count_once():
    p, y = distinct(seed=5)
    once, copies = clustered(p, y, np.arange(240)), clustered(*(np.repeat(x, 10) for x in (p, y, np.arange(240))))
    for name in ("ece", "gap", "brier", "rate", "score"):
        one, other = intervals(once)[name], intervals(copies)[name]
        assert other[1] - other[0] == pytest.approx(one[1] - one[0], rel=0.02), name
    spread = gap_variance(copies)
    assert spread.effective_rows(copies.effective_n) == pytest.approx(240, rel=0.01)


def test_one_cluster_is_an_error():
    with pytest.raises(InputError, match=r"clusters: expected at least 2 clusters, got 1; pass rows of more clusters"):
        clustered(P, Y, np.zeros(12, int))


def test_warnings_of_few_clusters_and_of_a_large_one():
    assert clustered(*dependent(1, n_clusters=80, mean_size=5)).sample.flag == ""
    assert "fewer than 15" in clustered(P, Y, list(EQUAL)).sample.flag
    rows = clustered(*HARD["one cluster has most"])
    assert "one outcome occurs in only 2 clusters, fewer than 15" in rows.sample.flag
    assert "one cluster has 99 % of the rows, so intervals are wide" in rows.sample.flag
    assert clustered(*HARD["no event"]).sample.flag.startswith("every row has the same outcome, so intervals")


# ---------------------------------------------------------------- scores without bins


def line_by_rows(p, y, labels, *, corrected):
    """The slope's error and degrees of freedom from N x N matrices of rows: Bell and McCaffrey's CR2, or the sandwich.

    In units of the standard deviation of an outcome, residuals are (1 - H) e with H = Z Z', Z'Z = 1, and g_h sums
    (1 - H_hh)^(-1/2) of those of cluster h with weights Z_h c. Rows of a cluster are correlated by rho,
    or not at all where that would steady the slope.
    """
    intercept, slope = fitted_line(p, y)
    rates = expit(intercept + slope * logit(p))
    deviations = np.sqrt(rates * (1 - rates))
    x = np.stack([np.ones_like(p), logit(p)], axis=1) * deviations[:, np.newaxis]
    root = np.linalg.cholesky(np.linalg.inv(x.T @ x))
    z, e, labels = x @ root, (rates - y) / deviations, np.array(list(labels))
    g = np.zeros((len(set(labels)), len(p)))
    for row, label in zip(g, sorted(set(labels)), strict=True):
        own = labels == label
        values, axes = np.linalg.eigh(np.eye(own.sum()) - z[own] @ z[own].T)
        power = (axes * values ** (-0.5 if corrected else 0.0)) @ axes.T
        row[own] = root[1] @ z[own].T @ power
    if not corrected:
        return slope, math.sqrt(np.sum((g @ e) ** 2)), math.nan
    together = (labels[:, np.newaxis] == labels).astype(float)
    g_of = g @ (np.eye(len(p)) - z @ z.T)
    traces = [np.trace(g_of @ v @ g_of.T) for v in (np.eye(len(p)), together)]
    own = float(np.sum((g_of @ e) ** 2))
    rho = min(max((own - traces[0]) / (traces[1] - traces[0]), 0), 1) if traces[1] > traces[0] else 0.0
    v = (1 - rho) * np.eye(len(p)) + rho * together
    of_sums, variance = g_of @ v @ g_of.T, root[1] @ z.T @ v @ z @ root[1]
    mean = np.trace(of_sums)
    return slope, math.sqrt(own * variance / mean), mean**2 / np.sum(of_sums**2)


def fitted_line(p, y):
    """The maximum of the likelihood, to rounding, by Newton's steps."""
    x, b = np.stack([np.ones_like(p), logit(p)], axis=1), np.array([0.0, 1.0])
    for _ in range(20):
        rates = expit(x @ b)
        b = b - np.linalg.solve((x.T * rates * (1 - rates)) @ x, x.T @ (rates - y))
    return b


@pytest.mark.parametrize(
    ("labels", "published"),
    [(EQUAL, 0.73821301), (UNEQUAL, 0.66989628)],
)
def test_the_slope_has_the_corrected_error_of_the_matrices_of_rows(labels, published):
    p, y = np.array(P), np.array(Y)
    # Of statsmodels' GLM, binomial, cov_type="cluster": the sandwich by G / (G - 1) (N - 1) / (N - 2).
    slope, error, _ = line_by_rows(p, y, labels, corrected=False)
    assert (slope, error * math.sqrt(4 / 3 * 11 / 10)) == pytest.approx((1.4627542, published), abs=1e-7)
    slope, variance = log_odds_line(clustered(P, Y, list(labels)))
    assert (slope, variance.error, variance.df) == pytest.approx(line_by_rows(p, y, labels, corrected=True), rel=1e-8)


def test_the_corrected_error_of_clusters_of_unequal_sizes_is_that_of_the_matrices_of_rows():
    p, y, labels = dependent(4, 12)
    labels = np.where(labels > 8, 100 + np.arange(len(p)), labels)  # the last are clusters of one row
    slope, variance = log_odds_line(clustered(p, y, labels))
    expected = line_by_rows(p, y, labels, corrected=True)
    # Scores of a coarse cell count as its mean one: a cell is 1 / 300 wide at most, and log-odds vary by .01 in it.
    assert (slope, variance.error, variance.df) == pytest.approx(expected, rel=0.01)


def test_the_line_of_separated_outcomes_has_no_error():
    slope, variance = log_odds_line(clustered([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1], [1, 2, 3, 4]))
    assert slope == math.inf
    assert variance is None


SMOOTH_RECORDS = [
    # seed, clusters, slope; the KS error and its interval, the smooth error and its interval, CORP's part in sample.
    (11, 40, 1.0, (0.01857050636, 0.0, 0.06789756518), (0.04177078514, 0.0, 0.07789104409), (0.0107785552, 0.00366917)),
    (
        12,
        40,
        3.0,
        (0.0926810133, 0.0, 0.1631347125),
        (0.1225498112, 0.0, 0.1526131586),
        (0.02775051242, 0.007619870635),
    ),
    (
        13,
        150,
        -2.0,
        (0.2162740067, 0.1714, 0.2497183764),
        (0.24949339, 0.23621320, 0.26098344),
        (0.1455422796, 0.009015516),
    ),
]


@pytest.mark.parametrize("record", SMOOTH_RECORDS, ids=lambda record: f"slope {record[2]}")
def test_intervals_without_bins_are_those_of_the_research_program(record, monkeypatch):
    monkeypatch.setattr(endings, "unbiased_end", lambda *_args, **_settings: math.inf)  # an end that came later
    monkeypatch.setattr(design, "common_signs", lambda *_args: [])  # directions that came later
    seed, n_clusters, slope, ks, smece, part = record
    rows = clustered(*dependent(seed, n_clusters, slope))
    law = ClusterNull.of(rows, 15)
    value = float(cumulative_error(law.observed)[0])
    low, high = cumulative.interval_by_cluster(rows, value, Resampling.of(0.9, 4000, 0))
    assert (value, high) == pytest.approx((ks[0], ks[2]), rel=CLOSE)
    # A quantile of 4,000 draws at 95 % has a standard error of sqrt(.05 .95 / 4000) / density = .0034 / .1 deviations.
    assert low == pytest.approx(ks[1], abs=0.004)
    assert cumulative.interval_by_cluster(rows, value, Resampling.of(0.9, 0, 0)) == (
        0.0,
        pytest.approx(ks[2], rel=CLOSE),
    )
    # That program searches its ends to .002 of their logarithms.
    assert smooth.interval(rows, smece[0], 0.9, rejected=True) == pytest.approx(smece[1:], rel=0.003)
    assert smooth.interval(rows, smece[0], 0.9, rejected=False)[0] == 0
    masses, fit, _ = corp.in_sample(rows)
    found = corp.difference(rows, masses, rows.cells.scores, fit)
    assert (found.value, found.error) == pytest.approx(part, rel=1e-6)


def test_ten_copies_of_rows_keep_the_intervals_without_bins():
    p, y = distinct(seed=6)
    once, copies = clustered(p, y, np.arange(240)), clustered(*(np.repeat(x, 10) for x in (p, y, np.arange(240))))
    resampling = Resampling.of(0.9, 200, 0)
    ks = float(cumulative_error(ClusterNull.of(once, 15).observed)[0])
    for interval in (
        lambda rows: cumulative.interval_by_cluster(rows, ks, resampling),
        lambda rows: smooth.interval(rows, 0.05, 0.9, rejected=True),
        lambda rows: corp.miscalibration_interval(rows, 0.02, 0.01, resampling, rejected=True),
        lambda rows: corp.discrimination_interval(rows, 0.1, resampling),
    ):
        assert interval(copies) == pytest.approx(interval(once), abs=0.004)
    one, other = (log_odds_line(rows) for rows in (once, copies))
    assert (other[0], other[1].error) == pytest.approx((one[0], one[1].error), rel=CLOSE)


def test_no_fit_that_judges_a_bucket_knows_its_outcomes():
    p, y, labels = dependent(14, 30)
    seed = np.random.SeedSequence(3)
    rows = clustered(p, y, labels)
    changed = clustered(p, np.where(labels == labels[0], 1 - y, y), labels)
    moved = np.flatnonzero((rows.y != changed.y).any(axis=1))
    assert len(moved) == 1
    for before, after in zip(corp.out_of_fold(rows, seed)[1:], corp.out_of_fold(changed, seed)[1:], strict=True):
        np.testing.assert_array_equal(before[moved], after[moved])
    folds = deal_buckets(rows.sizes, np.random.default_rng(3))
    assert np.bincount(folds).tolist() == [6] * 5
    assert np.ptp(np.bincount(folds, rows.sizes)) <= np.ptp(rows.sizes) * 2


def test_the_part_of_singletons_is_that_of_independent_rows():
    p, y = distinct(seed=7)
    rows = clustered(p, y, np.arange(240))
    masses, fit, base = corp.in_sample(rows)
    independent = SamplingDesign(rows.cells)
    for first in (rows.cells.scores, base):
        found = corp.difference(rows, masses, first, fit)
        plain = corp.difference(independent, corp.in_sample(independent).masses, first, fit)
        assert found.df == pytest.approx(239, rel=EXACT)
        assert found.value == pytest.approx(plain.value, abs=EXACT)
        assert found.error == pytest.approx(plain.error * math.sqrt(240 / 239), rel=CLOSE)
        assert (found.growth, found.rest) == pytest.approx((plain.growth, plain.rest * 240 / 239), rel=CLOSE)


def test_the_rank_sum_of_the_buckets_sees_discrimination():
    p, y, labels = dependent(15, 60)
    assert corp.rank_p_value_by_cluster(clustered(p, y, labels)) < 1e-4
    assert corp.rank_p_value_by_cluster(clustered(1 - p, y, labels)) > 1 - 1e-4
    rng = np.random.default_rng(0)
    u = rng.random(len(p))  # scores that tell nothing
    assert 0.001 < corp.rank_p_value_by_cluster(clustered(u, y, labels)) < 0.999


def test_the_bands_hold_the_curves():
    rows = clustered(*dependent(16, 80))
    law, resampling = ClusterNull.of(rows, 15), Resampling.of(0.9, 200, 0)
    shown = shown_cells(rows.fine)
    isotonic = isotonic_curve(rows, isotonic_band(law, shown, resampling), resampling)
    soft = smooth_curve(rows, 0.05, resampling.level)
    for curve in (isotonic, soft):
        assert (curve.confidence_lows <= curve.rates).all()
        assert (curve.rates <= curve.confidence_highs).all()
        assert (curve.consistency_lows <= curve.consistency_highs).all()
    plain = smooth_curve(SamplingDesign(rows.fine), 0.05, resampling.level)
    np.testing.assert_array_equal(soft.rates, plain.rates)
    without = isotonic_curve(rows, None, Resampling.of(0.9, 0, 0))
    np.testing.assert_array_equal(
        without.rates, dispatch.isotonic_fits(rows.fine.counts, rows.fine.positives[None])[0][shown]
    )
    assert np.isnan(without.confidence_lows).all()


def test_the_smooth_bands_of_ten_copies_are_those_of_the_rows():
    p, y = distinct(seed=8)
    once, copies = clustered(p, y, np.arange(240)), clustered(*(np.repeat(x, 10) for x in (p, y, np.arange(240))))
    one, other = (smooth_curve(rows, 0.05, 0.9) for rows in (once, copies))
    _, own, copied = np.intersect1d(one.scores, other.scores, return_indices=True)
    assert len(own) > 30
    for name in ("confidence_lows", "consistency_highs"):
        np.testing.assert_allclose(getattr(other, name)[copied], getattr(one, name)[own], atol=EXACT)
    bands = [simulated_band(ClusterNull.of(rows, 15), Resampling.of(0.9, 400, 0)) for rows in (once, copies)]
    np.testing.assert_allclose(bands[0], bands[1], atol=EXACT)


def test_the_band_of_bins_without_resampling_is_near_that_of_replicates():
    rows = clustered(*dependent(17, 150))
    law = ClusterNull.of(rows, 5)
    drawn, plain = simulated_band(law, Resampling.of(0.9, 4000, 0)), binned.rate_band(law.uniform, 0.9)
    widths = drawn[1] - drawn[0]
    assert np.abs(np.array(drawn) - plain).max() <= 0.25 * widths.max()  # steps of a binomial law are a few rows wide


@pytest.mark.parametrize("name", HARD)
def test_hard_cases_have_intervals_without_bins(name):
    rows, resampling = clustered(*HARD[name]), Resampling.of(0.9, 40, 0)
    law = ClusterNull.of(rows, 15)
    ends = [
        cumulative.interval_by_cluster(rows, float(cumulative_error(law.observed)[0]), resampling),
        smooth.interval(rows, 0.05, 0.9, rejected=True),
        corp.miscalibration_interval(rows, 0.02, 0.01, resampling, rejected=True),
        corp.discrimination_interval(rows, 0.1, resampling),
        corp.discrimination_interval(rows, 0.1, Resampling.of(0.9, 0, 0)),
    ]
    assert all(-math.inf < low <= high < math.inf for low, high in ends)
    slope, variance = log_odds_line(rows)
    assert (variance is not None) == math.isfinite(slope)
    shown = shown_cells(rows.fine)
    isotonic = isotonic_curve(rows, isotonic_band(law, shown, resampling), resampling)
    assert np.isfinite(isotonic.confidence_highs).all()
    assert np.isfinite(smooth_curve(rows, 0.05, resampling.level).confidence_highs).all()
    assert np.isfinite(binned.rate_band(law.uniform, 0.9)).all()
    if float(rows.cells.null_variances.sum()) > 0:
        null = null_smooth(law, 0.05)
        assert np.isfinite(law.replicates(lambda drawn: np.stack(null(drawn.cell_gaps), axis=1), resampling)).all()
        assert refinement(law, resampling) > 0


def test_the_smooth_error_of_replicates_is_that_of_their_tables():
    rows = clustered(*dependent(18, 60))
    law = ClusterNull.of(rows, 15)
    null, drawn = null_smooth(law, 0.04), law.drawn(np.random.default_rng(0), 20)
    errors, at_value = null(drawn.cell_gaps)
    for gaps, error, at in zip(drawn.cell_gaps, errors, at_value, strict=True):
        exact = smooth_error(rows.cells.scores, -gaps, rows.total).value
        assert error == pytest.approx(exact, rel=0.03)  # by four bandwidths around the root
        assert (at >= null.value) == (exact >= null.value)


def test_finer_cells_raise_the_miscalibration():
    p, y, labels = dependent(19, 200)
    law = ClusterNull.of(clustered(p, y, labels), 15)
    assert 1.0 < refinement(law, Resampling.of(0.9, 300, 0)) < 1.5
    few = ClusterNull.of(clustered(np.round(p, 1), y, labels), 15)
    assert refinement(few, Resampling.of(0.9, 1000, 0)) == pytest.approx(1, abs=0.1)  # nothing is finer


def test_ten_copies_count_as_one_effective_row():
    p, y = distinct(seed=9)
    law = ClusterNull.of(clustered(*(np.repeat(x, 10) for x in (p, y, np.arange(240)))), 15)
    resampling = Resampling.of(0.9, 2000, 0)
    for statistic in (absolute, cumulative_error, root_square):
        # The means of 2,000 errors have standard errors below 1 %, their ratio's square below 4 %.
        own, plain = (law.replicates(statistic, resampling, independent=each).mean() for each in (False, True))
        assert law.rows.effective_n * (plain / own) ** 2 == pytest.approx(240, rel=0.12)


# ---------------------------------------------------------------- two models


def models(seed=0, n_clusters=40, same=False):
    """Two models of the same rows."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(n_clusters), rng.geometric(0.1, n_clusters))
    q = rng.random(len(labels))
    y = (rng.random(len(labels)) < expit(logit(q) + rng.normal(size=n_clusters)[labels])).astype(int)
    first = expit(1.5 * logit(q))
    second = first if same else expit(logit(q) + 0.5 * rng.normal(size=len(labels)))
    return pair((first, y, labels), (second, y, labels)), (first, second, y, labels)


def pair(*parts):
    """Two models of these rows."""
    alone = []
    for p, y, labels in parts:
        with np.errstate(divide="ignore"):
            scores = event_row_scores(p[:, np.newaxis], y.astype(np.int64), logits=False)
        table = ReliabilityTable.from_scores(p, y)
        buckets = BucketSums.of(as_clusters(labels, len(p)), p, y.astype(np.uint8), row_scores=scores)
        alone.append((Cells.from_table(table), buckets))
    both = zip("AB", pairs.paired_rows(alone), strict=True)
    return pairs.ClusterPair(*(cluster_model(name, rows) for name, rows in both))


DIFFERENCES = (
    differences.square_difference,
    differences.absolute_difference,
    functools.partial(differences.mean_difference, mean="brier"),
    differences.loss_difference,
    differences.accuracy_difference,
)


@pytest.mark.parametrize("difference", DIFFERENCES)
def test_swapped_models_change_the_sign(difference):
    both, _ = models()
    one, other = difference(both, 0.9), difference(pairs.ClusterPair(both.second, both.first), 0.9)
    assert (other.value, other.low, other.high) == pytest.approx(
        (-one.value, -one.high, -one.low), rel=CLOSE, abs=EXACT
    )
    assert one.low <= one.value <= one.high


def test_a_difference_of_means_is_that_of_the_rows():
    both, (p, q, y, labels) = models(1)
    rows = (p - y) ** 2 - (q - y) ** 2
    sizes = np.bincount(labels).astype(float)
    own = np.bincount(labels, rows - rows.mean())
    df, share = sums.degrees_of_freedom(sizes, 0.2)
    half = t_quantile(0.9, df) * math.sqrt(np.sum(own**2) / share) / len(p)
    found = differences.mean_difference(both, 0.9, mean="brier")
    assert (found.value, found.low, found.high) == pytest.approx(
        (rows.mean(), rows.mean() - half, rows.mean() + half), abs=EXACT
    )


def test_the_difference_of_squares_is_that_of_the_research_program():
    """Recorded for 40 clusters of ten rows, where degrees of freedom do not depend on the correlation of rows."""
    rng = np.random.default_rng(3)
    labels = np.repeat(np.arange(40), 10)
    q, u = rng.beta(1, 1, 400), rng.normal(size=40)[labels]
    y = (rng.random(400) < expit(logit(q) + u)).astype(int)
    first, second = expit(1.5 * logit(q)), expit(1.2 * logit(q) + 0.3 * rng.normal(size=400))
    found = differences.square_difference(pair((first, y, labels), (second, y, labels)), 0.9)
    recorded = (3.740318496908701e-05, -0.009977135906963041, 0.010051942276901215)
    assert (found.value, found.low, found.high) == pytest.approx(recorded, rel=CLOSE, abs=EXACT)
    assert found.p_value == pytest.approx(0.9950111686342554, rel=CLOSE)


def test_models_on_other_clusters_are_independent():
    a, b = dependent(20, 30), dependent(21, 30)
    both = pair(a, (b[0], b[1], b[2] + 30))
    assert len(both.first.rows.sizes) == 60
    found = differences.mean_difference(both, 0.9, mean="brier")
    squares = 0.0
    for p, y, labels in (a, b):
        losses = (p - y) ** 2
        squares += float(np.sum(np.bincount(labels, losses - losses.mean()) ** 2)) / len(p) ** 2
    df, share = sums.degrees_of_freedom(both.sizes, 0.2)
    half = t_quantile(0.9, df) * math.sqrt(squares / share)
    assert found.high - found.value == pytest.approx(half, rel=CLOSE)


def test_a_model_does_not_differ_from_itself():
    both, _ = models(2, same=True)
    square = differences.square_difference(both, 0.9)
    assert (square.value, square.p_value) == (0, 1)
    assert square.high == pytest.approx(0, abs=1e-15)
    assert differences.mean_difference(both, 0.9, mean="brier").high == 0
    accuracy = differences.accuracy_difference(both, 0.9)
    assert 0 < accuracy.high < 0.1
    assert differences.absolute_difference(both, 0.9).low < 0


def test_with_fewer_than_four_clusters_the_line_is_tested_by_its_level():
    """With two clusters U' C^-1 U of level and slope had a p-value below 1e-6 in every twentieth calibrated sample."""
    smallest = 1.0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        p = rng.uniform(0.05, 0.95, 200)
        rows = clustered(p, (rng.random(200) < p).astype(int), np.arange(200) % 2)
        _, free, p_value = cox_by_cluster(rows)
        assert free == 1
        smallest = min(smallest, p_value)
    assert smallest > 0.1  # of two sums x and y, (x + y)^2 / (x^2 + y^2) is at most 2, and Q is near V
    assert cox_by_cluster(clustered(p, (rng.random(200) < p).astype(int), np.arange(200) % 4))[1] == 2


def test_accuracies_with_known_rows():
    both, (p, q, y, _) = models(4)
    right = [(scores >= 0.5) == y for scores in (p, q)]
    only = float((right[0] & ~right[1]).mean()), float((right[1] & ~right[0]).mean())
    plain = differences.accuracy_difference(both, 0.9)
    losses = np.zeros(len(p))
    answered = [
        replace(
            model,
            answers=pairs.ModelRows.of(
                Events(scores, y.astype(np.uint8), None), (losses, losses, own), "binary", 0, own=False
            ),
        )
        for model, own, scores in zip((both.first, both.second), right, (p, q), strict=True)
    ]
    known = differences.accuracy_difference(pairs.ClusterPair(*answered), 0.9)
    assert known.value == plain.value == pytest.approx(only[0] - only[1], abs=EXACT)
    assert known.details == {"only_first": round(only[0] * len(p)), "only_second": round(only[1] * len(p))}
    assert known.high - known.low == pytest.approx(plain.high - plain.low, rel=0.2)


def test_an_infinite_loss_has_no_difference():
    p, y, labels = dependent(22, 20)
    q = p.copy()
    q[0] = 1 - y[0]
    found = differences.loss_difference(pair((p, y, labels), (q, y, labels)), 0.9)
    assert found.value == -math.inf
    assert "probability 0 in B" in found.method


def test_flags_of_two_models():
    assert models(5, n_clusters=100)[0].flag == ""
    few = pair(dependent(23, 12), dependent(23, 12))
    assert "fewer than 15" in few.flag


# ---------------------------------------------------------------- classes


def classes(seed=0, n_clusters=30, size=10, n_classes=4, slope=3.0):
    """Too extreme probabilities of classes, rows of a cluster alike."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(n_clusters), size)
    logits = rng.normal(size=(len(labels), n_classes)) + rng.normal(size=(n_clusters, n_classes))[labels]
    true = np.exp(logits / slope)
    true /= true.sum(axis=1, keepdims=True)
    probs = np.exp(logits)
    probs /= probs.sum(axis=1, keepdims=True)
    y = (true.cumsum(axis=1) < rng.random(len(labels))[:, np.newaxis]).sum(axis=1)
    return probs, y, labels


def histograms(probs, y, n_bins):
    """Counts, sums of scores and outcomes in each bin of each class, (3, bins, classes)."""
    found = np.zeros((3, n_bins, probs.shape[1]))
    for k, p in enumerate(probs.T):
        b = np.clip(np.ceil(p * n_bins).astype(int) - 1, 0, n_bins - 1)
        found[:, :, k] = [np.bincount(b, x, n_bins) for x in (np.ones(len(p)), p, y == k)]
    return found


def class_parts(probs, y, labels):
    return [
        BucketSums.of(as_clusters(labels, len(y)), p, (y == k).astype(np.uint8), cells=CLASS_CELLS)
        for k, p in enumerate(np.ascontiguousarray(probs.T))
    ]


def test_the_classwise_error_is_that_of_the_research_program(monkeypatch):
    monkeypatch.setattr(endings, "unbiased_end", lambda *_args, **_settings: math.inf)  # an end that came later
    probs, y, labels = classes()
    sums_of = histograms(probs, y, 10)
    found = ClusterClassBins(histograms=sums_of, effective_n=300, buckets=class_parts(probs, y, labels))
    value = float(np.abs(sums_of[1] - sums_of[2]).sum()) / 300 / 4
    np.testing.assert_allclose(found.sums.gaps.sum(axis=0), found.moments.gap_sums, atol=EXACT)
    resampling = Resampling.of(0.9, 2000, 0)
    ends = found.interval(value, resampling, rejected=True)
    # That program has the squares of rows; here scores of a bin are taken as equal, as for independent rows.
    assert (value, ends.low, ends.high) == pytest.approx((0.12064409, 0.05224109, 0.14632648), abs=0.002)
    law = found.law(value, resampling)
    assert law.floor.mean == pytest.approx(0.0520367, abs=0.001)  # the mean of 2,000 errors that vary by .007
    assert law.p_value == 1 / 2001
    plain = found.law(value, Resampling.of(0.9, 0, 0))
    assert plain.floor.mean == pytest.approx(law.floor.mean, abs=0.001)
    assert plain.p_value == law.details["closed_form_p_value"] < 1e-4


def test_classes_in_many_clusters_share_32_buckets():
    probs, y, labels = classes(1, n_clusters=500, size=3, slope=1.0)
    sums_of = histograms(probs, y, 15)
    found = ClusterClassBins(histograms=sums_of, effective_n=1500, buckets=class_parts(probs, y, labels))
    assert len(found.sums.sizes) == 32
    assert found.sums.sizes.sum() == pytest.approx(1500)
    value = float(np.abs(sums_of[1] - sums_of[2]).sum()) / 1500 / 4
    assert found.law(value, Resampling.of(0.9, 200, 0)).p_value > 0.01


def test_thousands_of_bins_have_nearly_the_law_of_all_pairs(monkeypatch):
    probs, y, labels = classes(2, n_clusters=60, slope=1.0)
    found = ClusterClassBins(
        histograms=histograms(probs, y, 15), effective_n=600, buckets=class_parts(probs, y, labels)
    )
    exact = found.sums.null_absolute
    monkeypatch.setattr(bins, "_MOST", 1)
    rough = found.sums.null_absolute
    assert exact.mean == rough.mean
    assert exact.sd <= rough.sd <= exact.sd * 1.1


def test_bins_of_classes_must_divide_60():
    probs, y, labels = classes()
    parts = class_parts(probs, y, labels)
    with pytest.raises(InputError, match=r"n_bins: expected a divisor of 60, because classwise bins .*, got 7"):
        _ = ClusterClassBins(histograms=histograms(probs, y, 7), effective_n=300, buckets=parts).sums
    parts = class_parts(probs, y, np.zeros_like(labels))
    with pytest.raises(InputError, match=r"at least 2 clusters, got 1"):
        _ = ClusterClassBins(histograms=histograms(probs, y, 10), effective_n=300, buckets=parts).sums


# ---------------------------------------------------------------- single formulas


def test_the_interval_of_the_maximum_is_that_of_the_research_program(monkeypatch):
    """It takes the mean score of a bin as known."""
    monkeypatch.setattr(ClusterBins, "mean_variances", property(lambda found: np.zeros(len(found.units))))
    rows = clustered(*dependent(13, 150, -2.0))
    found = uniform(rows)
    held = found.held
    value = float(np.abs(found.moments.gap_sums / found.moments.counts)[held].max())
    low, high = binned.maximum_interval(found, value, 0.9, rejected=True)
    assert (value, low, high) == pytest.approx((0.7621490172, 0.6122866852, 0.8430259493), rel=CLOSE)
    assert held.sum() == 14
    lows, highs = binned.rate_intervals(found, 0.9)
    assert ((lows < found.moments.rates) & (found.moments.rates < highs)).all()


def test_the_mean_score_of_a_bin_varies_by_cluster():
    p, y = distinct(seed=24)
    rows = clustered(*(np.repeat(x, 10) for x in (p, y, np.arange(240))))
    expected = rows.variance(mean_score_influence(rows.fine, float(p.mean()))).value
    found = ClusterBins.of(rows, uniform_bin_of(rows.fine.table, 1))
    assert found.mean_variances[0] == pytest.approx(expected, rel=CLOSE)


def test_few_bins_have_no_end_by_the_largest_bias(monkeypatch):
    p, y, labels = dependent(25, 200)
    ends = {n_bins: interval_of(clustered(p, y, labels), n_bins) for n_bins in (2, 15)}
    monkeypatch.setattr(endings, "unbiased_end", lambda *_args, **_settings: math.inf)
    assert interval_of(clustered(p, y, labels), 2) == ends[2]
    assert interval_of(clustered(p, y, labels), 15)[1] > ends[15][1]


def interval_of(rows, n_bins):
    found = ClusterBins.of(rows, uniform_bin_of(rows.fine.table, n_bins))
    value = float(np.abs(found.moments.gap_sums).sum()) / rows.total
    return binned.absolute_interval(found, value, 0.9, rejected=False)


def test_replicates_of_each_kind_of_bin_have_their_own_variance():
    rows = clustered(*dependent(26, slope=-1.0))
    law = ClusterNull.of(rows, 4)
    for found, gaps in (
        (law.uniform, lambda draws: draws.uniform_gaps),
        (law.quantile, lambda draws: law.quantile.over_bins(draws.cell_gaps)),
    ):
        moments = found.moments
        own = np.sum(found.gaps**2, axis=0) * moments.null_variances / moments.squared_residuals
        seen = law.replicates(gaps, Resampling.of(0.9, 20_000, 3)).var(axis=0)
        np.testing.assert_allclose(seen, own, rtol=0.05)  # five standard errors, sqrt(2 / 20,000)


def test_the_debiased_square_of_replicates_is_0_on_average():
    law = ClusterNull.of(clustered(*dependent(27)), 15)
    drawn = law.replicates(debiased_square, Resampling.of(0.9, 20_000, 4))
    assert abs(drawn.mean()) < 5 * drawn.std() / math.sqrt(len(drawn))
    assert debiased_square(law.observed)[0] == pytest.approx(law.uniform.square, abs=EXACT)


def test_parts_of_the_verdict_have_uniform_p_values_on_replicates():
    """Also where the data are far from calibrated: each sum of a replicate is scaled by itself."""
    law = ClusterNull.of(clustered(*dependent(28, 60, -1.0)), 15)
    verdict = Verdict.of(law.rows, law.uniform)
    names = list(verdict.p_values(law.observed))
    drawn = law.replicates(
        lambda draws: np.stack(list(verdict.p_values(draws).values()), axis=1), Resampling.of(0.9, 10_000, 5)
    )
    assert names == ["mean", "spread", "ece"]
    # The mean of 10,000 uniform numbers has a standard error of .0029; the gamma law of the ECE is an approximation.
    assert np.abs(drawn[:, :2].mean(axis=0) - 0.5).max() < 0.0145
    assert drawn[:, 2].mean() == pytest.approx(0.5, abs=0.03)
    assert np.mean(drawn < 0.05, axis=0) == pytest.approx(0.05, abs=0.02)


def test_a_share_of_rows_that_are_all_alike_counts_clusters():
    rows = clustered(*HARD["all right"])
    means = PredictionMeans.of_table(rows.fine.table, right=False)
    found = RowShare.right(means).interval(rows, means, 0.9)
    assert found == pytest.approx(wilson_interval(1.0, 8, normal_quantile(0.9)), rel=EXACT)
    low, _ = rate_interval(1.0, rate_rows(rows, 0.9), 0.9)
    assert low == pytest.approx(0.05 ** (1 / 8), rel=EXACT)  # Clopper and Pearson's, exact


def test_the_lower_end_of_the_ks_error_follows_the_sign_of_each_maximum():
    u = np.full((1, 1), 0.2)
    around, sums_of = np.concatenate([u, -u], axis=1), np.array([0.9, -0.9])
    low = cumulative._low(around, sums_of, 0.9, Resampling.of(0.9, 100_000, 0))
    # A normal deviation of .2: its quantile of 95 % has a standard error of .2 sqrt(.05 .95 / 100,000) / .103 = .0013.
    assert low == pytest.approx(0.9 - 0.2 * 1.6449, abs=0.006)


def test_design_effects_along_the_scores_are_those_of_the_kernel():
    rows, s = clustered(*dependent(29, 60)), 0.1
    t, c = (np.arange(1024)[:, np.newaxis] + 0.5) / 1024, rows.cells.scores
    kernel = sum(np.exp(-0.5 * ((t - x) / s) ** 2) for x in (c, -c, 2 - c)) / (s * math.sqrt(2 * math.pi))
    own = rows.gaps @ kernel.T
    own = np.sum((own - np.outer(rows.weights / rows.total, own.sum(axis=0))) ** 2, axis=0) * 60 / 59
    independent, near = kernel**2 @ rows.cells.squared_residuals, rows.n @ kernel.T
    clusters, overall = near.sum(axis=0) ** 2 / np.sum(near**2, axis=0), own.sum() / independent.sum()
    found = smooth.DesignEffects.of(rows, s)
    # The mesh widens the kernel by less than one part in 300 squared.
    np.testing.assert_allclose(found.clusters, clusters, rtol=1e-3)
    np.testing.assert_allclose(found.deff, (clusters * own / independent + 5 * overall) / (clusters + 5), rtol=1e-3)


def test_the_parts_of_ten_copies_are_those_of_the_rows():
    p, y = distinct(seed=10)
    once, copies = clustered(p, y, np.arange(240)), clustered(*(np.repeat(x, 10) for x in (p, y, np.arange(240))))
    fit = corp.in_sample(once).fit
    parts = [corp.difference(rows, corp.in_sample(rows).masses, rows.cells.scores, fit) for rows in (once, copies)]
    for name in ("value", "error", "growth", "rest"):
        one, other = (getattr(part, name) for part in parts)
        assert other == pytest.approx(one, rel=0.02), name  # N / (N - 1) of 240 and of 2,400 rows
    bands = [binned.rate_band(uniform(rows), 0.9) for rows in (once, copies)]
    np.testing.assert_allclose(bands[0], bands[1], atol=1e-9)


def test_each_end_of_a_part_has_its_own_quantile():
    inside = corp.Part(0.05, 0.01, 1e-4, 1e-5, df=3.0)
    outside = corp.Part(0.04, 0.01, 1e-4, 1e-5, df=7.0)
    low, high = corp.part_interval(inside, outside, 0.001, 0.9, shown=True)
    assert low == pytest.approx(0.04 - t_quantile(0.9, 7.0) * 0.01, rel=EXACT)
    assert high == score_end(0.045, 1e-4, 1e-5 + 1e-6, t_quantile(0.9, 3.0))


def test_the_bins_of_classes_hold_their_ends():
    """0 is in the first bin, an edge in the bin below it."""
    probs, y, labels = classes(3)
    probs = np.round(probs * 15) / 15
    found = ClusterClassBins(
        histograms=histograms(probs, y, 15), effective_n=300, buckets=class_parts(probs, y, labels)
    )
    np.testing.assert_array_equal(found.sums.n.sum(axis=0), found.moments.counts)
    np.testing.assert_allclose(found.sums.gaps.sum(axis=0), found.moments.gap_sums, atol=EXACT)


def test_gaps_that_clusters_move_together_widen_the_upper_end():
    # Half of the clusters have an outcome of 1 in every row, half of 0. Gaps are -.1 and .1, and their signs cancel in
    # each bucket. The sum of all gaps has the bucket sums +-m / 2, so the variance k m^2 / 4 k / (k - 1), with the
    # quantile of k - 1 degrees of freedom.
    k, m, level = 20, 30, 0.9
    labels = np.repeat(np.arange(k), m)
    p = np.tile([0.4, 0.6], k * m // 2)
    rows = clustered(p, labels % 2, labels)
    _, high = binned.absolute_interval(uniform(rows, 2), 0.0, level, rejected=False)
    plain = t_quantile(level, k - 1) * math.sqrt(m**2 / 4 * k * k / (k - 1)) / (k * m)
    # The variance is blended with that of independent rows, five of 25 clusters, with Q = .26 and V0 = .24 each row.
    assert high == pytest.approx(0.1 + plain * math.sqrt((20 * 0.26 + 5 * 0.24) / 25 / 0.26), rel=0.01)
