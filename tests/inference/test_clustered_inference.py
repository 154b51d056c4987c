"""The tests of `calibrant.inference` with rows in clusters: published numbers, naive replicates, laws, errors, size.

Tolerances. Two ways to the same sums of at most 1,000 terms of size 1 differ by about 1e-13: `EXACT`. A p-value from
replicates counts, so it is the same number both ways unless a replicate ties with the data.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from scipy import linalg, stats
from scipy.special import expit, logit

import calibrant
from calibrant import CalibrationSketch, ReliabilityTable, evaluate
from calibrant.errors import InputError
from calibrant.inference import (
    bootstrap,
    consistency,
    cox_test,
    hosmer_lemeshow_test,
    ks_test,
    kuiper_test,
    spiegelhalter_test,
    standardised_maximum,
    t_cal_test,
)
from calibrant.statistics.resampling import Stream, generator
from calibrant.table.cluster_labels import as_clusters
from tests.samples import dependent, draw

EXACT = 1e-11
B = 40  # replicates: more than the 32 of the smallest block

#: Twelve rows, by whose clusters other programs were run.
P = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.35, 0.65, 0.15])
Y = np.array([0, 0, 1, 0, 1, 1, 0, 1, 1, 0, 1, 0])
EQUAL, UNEQUAL = "aaabbbcccddd", "aaaaaabbccdd"

ece = calibrant.expected_calibration_error


def gap_of(table):
    return float(table.residuals.sum()) / table.total


def own(method, statistic):
    """A test of one's own statistic with the signature of the others."""

    def test(probs, targets=None, **options):
        return method(probs, statistic, targets=targets, **options)

    return test


TESTS = {
    "spiegelhalter": spiegelhalter_test,
    "cox": cox_test,
    "ks": ks_test,
    "kuiper": kuiper_test,
    "external": functools.partial(hosmer_lemeshow_test, sample="external"),
    "in-sample": functools.partial(hosmer_lemeshow_test, sample="in-sample"),
    "t_cal": t_cal_test,
    "consistency": own(consistency, ece),
    "maximum": own(consistency, functools.partial(standardised_maximum, n_bins=4)),
    "bootstrap": own(bootstrap, gap_of),
}
CLOSED = ("spiegelhalter", "cox")
TESTED = tuple(name for name in TESTS if name != "bootstrap")


def run(name, probs, targets=None, n_resamples=B, **options):
    """The result of a test, with few resamples where it has any."""
    resampled = {} if name in CLOSED else {"n_resamples": n_resamples}
    return TESTS[name](probs, targets, **resampled, **options)


def copies(seed, questions=200, each=10):
    """Calibrated scores of questions, each with so many copies of one answer."""
    p, y = draw(seed, questions)
    return np.repeat(p, each), np.repeat(y, each), np.repeat(np.arange(questions), each)


# ---------------------------------------------------------------- published numbers


@pytest.mark.parametrize(("labels", "cox", "spiegelhalter"), [(EQUAL, 0.70051, 0.51738), (UNEQUAL, 0.74212, 0.46965)])
def test_closed_forms_of_the_twelve_rows(labels, cox, spiegelhalter):
    assert cox_test(P, Y, clusters=list(labels)).p_value == pytest.approx(cox, abs=5e-6)
    assert spiegelhalter_test(P, Y, clusters=list(labels)).p_value == pytest.approx(spiegelhalter, abs=5e-6)


@pytest.mark.parametrize("eps", [None, 0.25])
@pytest.mark.parametrize("labels", [EQUAL, UNEQUAL])
def test_the_score_test_by_matrices(labels, eps):
    """U' C^-1 U with C = V^1/2 Q^-1/2 A Q^-1/2 V^1/2, from rows."""
    found = cox_test(P, Y, clusters=list(labels), eps=eps)
    x = logit(P if eps is None else np.clip(P, eps, 1 - eps))
    design, r = np.stack([np.ones(12), x], axis=1), P - Y
    v, q = design.T @ (design * (P * (1 - P))[:, np.newaxis]), design.T @ (design * (r**2)[:, np.newaxis])
    u = np.array([design[np.array(list(labels)) == label].T @ r[np.array(list(labels)) == label] for label in "abcd"])
    inverse = linalg.inv(linalg.sqrtm(q))
    c = linalg.sqrtm(v) @ inverse @ u.T @ u @ inverse @ linalg.sqrtm(v)
    statistic = u.sum(axis=0) @ linalg.inv(c) @ u.sum(axis=0)
    assert found.statistic == pytest.approx(statistic, rel=1e-9)
    assert found.p_value == pytest.approx(stats.chi2.sf(statistic, 2), rel=1e-9)


def test_the_line_is_that_of_independent_rows():
    found, plain = cox_test(P, Y, clusters=list(EQUAL)), cox_test(P, Y)
    for name in ("intercept", "slope", "in_the_large", "separated", "clipped"):
        assert found.details[name] == plain.details[name]


# ---------------------------------------------------------------- naive replicates


class Naive:
    """Replicates by their definition, from rows: loops and no tables."""

    def __init__(self, p, y, labels, seed=0):
        edges = np.unique(np.concatenate([np.sin(np.pi * np.arange(129) / 256) ** 2, np.arange(301) / 300]))
        cells = np.searchsorted(edges, p)
        self.cell, hashes = np.unique(cells, return_inverse=True)[1], as_clusters(labels, len(p)).hashes
        self.bucket = np.searchsorted(np.unique(hashes), hashes)
        self.p, self.r = p, p - y
        shape = self.bucket.max() + 1, self.cell.max() + 1
        sums = np.zeros((3, *shape))  # n_hk, y_hk, S_hk
        for h, k, *row in zip(self.bucket, self.cell, np.ones(len(p)), y, self.r, strict=True):
            sums[:, h, k] += row
        # Draws are of buckets in the order of these sums to 9 digits: labels do not matter.
        digits = np.round(np.moveaxis(sums, 1, 0) / sums.max(), 9) + 0.0
        order = sorted(range(shape[0]), key=lambda bucket: digits[bucket].tobytes())
        self.bucket = np.argsort(order)[self.bucket]
        self.sums = sums[2][order]
        seeds = np.random.SeedSequence(seed)
        sizes = enumerate([32, B - 32])
        draws = [generator(seeds, Stream.CALIBRATED, i).standard_normal((n, shape[0])) for i, n in sizes]
        self.normals = np.concatenate(draws)
        self.together = generator(seeds, Stream.CALIBRATED, 0).standard_normal((B, shape[0]))

    def by_cell(self, values):
        return np.bincount(self.cell, values, self.sums.shape[1])

    def by_mass(self, n_bins):
        """The equal-mass bin of each cell: that of the row in the middle of its mass."""
        n = len(self.p)
        ordered = np.sort(self.p)
        scores, counts = np.unique(ordered, return_counts=True)
        places = np.floor(n_bins * (np.cumsum(counts) - counts / 2) / n).astype(int)
        return np.array([self._middle(k, scores, counts, places) for k in range(self.sums.shape[1])])

    def by_quantile(self, n_bins):
        scores, counts = np.unique(self.p, return_counts=True)
        places = np.searchsorted(np.quantile(self.p, np.arange(1, n_bins) / n_bins), scores)
        return np.array([self._middle(k, scores, counts, places) for k in range(self.sums.shape[1])])

    def by_width(self, n_bins):
        scores, counts = np.unique(self.p, return_counts=True)
        places = np.maximum(np.ceil(scores * n_bins), 1).astype(int) - 1
        return np.array([self._middle(k, scores, counts, places) for k in range(self.sums.shape[1])])

    def _middle(self, k, scores, counts, places):
        inside = np.isin(scores, self.p[self.cell == k])
        half = np.cumsum(counts[inside])
        return places[inside][np.searchsorted(half, half[-1] / 2, side="right")]

    def scales(self, bins):
        """The factor c of each cell."""
        c = np.empty(len(bins))
        v, q = self.by_cell(self.p * (1 - self.p)), self.by_cell(self.r**2)
        for b in np.unique(bins):
            c[bins == b] = math.sqrt(v[bins == b].sum() / q[bins == b].sum())
        return c

    def replicates(self, bins=None, *, together=False):
        """The data's S of each cell, then those of B replicates: of two blocks, or, as in reports, of one.

        ``bins`` are those of the factors c, by default 15 of equal mass.
        """
        normals = self.together if together else self.normals
        drawn = normals @ (self.sums * self.scales(self.by_mass(15) if bins is None else bins))
        return np.concatenate([self.sums.sum(axis=0)[np.newaxis], drawn])

    def p_value(self, values):
        return (1 + np.count_nonzero(values[1:] >= values[0])) / (B + 1)


@pytest.fixture(scope="module")
def rows():
    return dependent(30, slope=0.85)


@pytest.fixture(scope="module")
def naive(rows):
    return Naive(*rows)


def test_cumulative_sums_of_naive_replicates(rows, naive):
    p, y, labels = rows
    walks = np.cumsum(naive.replicates(), axis=1)
    ranges = np.maximum(walks.max(axis=1), 0) - np.minimum(walks.min(axis=1), 0)
    assert ks_test(p, y, clusters=labels, n_resamples=B).p_value == naive.p_value(np.abs(walks).max(axis=1))
    assert kuiper_test(p, y, clusters=labels, n_resamples=B).p_value == naive.p_value(ranges)


@pytest.mark.parametrize("cuts", ["r", "mass", "width"])
@pytest.mark.parametrize("sample", ["external", "in-sample"])
def test_groups_of_naive_replicates(rows, naive, sample, cuts):
    p, y, labels = rows
    found = hosmer_lemeshow_test(p, y, sample=sample, n_groups=6, cuts=cuts, clusters=labels, n_resamples=B)
    groups = {"r": naive.by_quantile, "mass": naive.by_mass, "width": naive.by_width}[cuts](6)
    sums = naive.replicates(groups)
    scores = naive.by_cell(p) / naive.by_cell(np.ones(len(p)))
    v = naive.by_cell(np.ones(len(p))) * scores * (1 - scores)
    if sample == "in-sample":  # least squares of S / v on (1, logit p), weighted by v: what a refit explains
        design = np.stack([np.ones_like(scores), logit(scores)], axis=1)
        roots = np.sqrt(v)[:, np.newaxis]
        for drawn in sums[1:]:
            line = np.linalg.lstsq(design * roots, (drawn / v)[:, np.newaxis] * roots, rcond=None)[0]
            drawn -= v * (design @ line)[:, 0]
    values = np.zeros(B + 1)
    for g in np.unique(groups):
        inside = groups == g
        n, expected = (naive.by_cell(x)[inside].sum() for x in (np.ones(len(p)), p))
        values += sums[:, inside].sum(axis=1) ** 2 / (expected * (1 - expected / n))
    assert found.p_value == naive.p_value(values)
    assert 1 / (B + 1) < found.p_value < 1


def test_scales_of_naive_replicates(rows, naive):
    p, y, labels = rows
    found = t_cal_test(p, y, clusters=labels, n_resamples=B)
    values, numbers = [], list(found.details["statistics"])
    assert numbers == [2, 4, 8, 16, 32, 64, 128]  # up to half the number of rows
    for m in numbers:
        bins = naive.by_width(m)
        n, scaled = naive.by_cell(np.ones(len(p))), naive.sums * naive.scales(bins)
        pairs, variance = np.zeros(B + 1), 0.0
        parts = [(n[bins == b].sum(), naive.sums[:, bins == b], scaled[:, bins == b]) for b in np.unique(bins)]
        for size, data, drawn in parts:
            own_sums = np.concatenate([data.sum(axis=1)[np.newaxis], naive.normals * drawn.sum(axis=1)])  # (B + 1, H)
            pairs += (own_sums.sum(axis=1) ** 2 - (own_sums**2).sum(axis=1)) / size
        for h in range(len(scaled)):
            for other in range(h):
                cross = sum(d[h].sum() * d[other].sum() / size for size, _, d in parts)
                variance += 4 * cross**2
        values.append(pairs / math.sqrt(variance))
        assert found.details["statistics"][m] == pytest.approx(values[-1][0], rel=1e-9)
    assert found.statistic == pytest.approx(max(value[0] for value in values), rel=1e-9)
    assert found.p_value == naive.p_value(np.max(values, axis=0))


def test_own_statistics_of_naive_replicates(rows, naive):
    p, y, labels = rows
    sums, bins = naive.replicates(together=True), naive.by_width(15)
    values = sum(np.abs(sums[:, bins == b].sum(axis=1)) for b in np.unique(bins)) / len(p)
    found = consistency(p, ece, targets=y, clusters=labels, n_resamples=B)
    assert found.p_value == naive.p_value(values)
    assert found.floor.mean == pytest.approx(values[1:].mean(), rel=EXACT)
    assert found.value == pytest.approx(ece(p, y), rel=EXACT)


def test_the_bootstrap_draws_clusters(rows, naive):
    p, y, labels = rows
    found = bootstrap(p, gap_of, targets=y, clusters=labels, n_resamples=B)
    h = len(np.unique(labels))
    gaps, sizes = np.bincount(naive.bucket, y - p), np.bincount(naive.bucket)
    times = generator(np.random.SeedSequence(0), Stream.BOOTSTRAP, 0).multinomial(h, np.full(h, 1 / h), B)
    values = times @ gaps / (times @ sizes)
    assert found.value == pytest.approx((y - p).mean(), rel=EXACT)
    assert found.details["standard_error"] == pytest.approx(np.std(values, ddof=1), rel=EXACT)
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(values, [0.025, 0.975])), rel=EXACT)


def test_pooled_cells_do_not_shift_a_value():
    """Two scores in one coarse cell, and a statistic that is about 0 at their mean."""
    p, y, labels = np.tile([0.5010, 0.5025], 200), np.arange(400) // 2 % 2, np.arange(400) // 4

    def around(table):
        return float(np.sum(table.counts * np.abs(table.scores - 0.50175))) / table.total

    interval = bootstrap(p, around, targets=y, clusters=labels, n_resamples=B)
    assert interval.value == pytest.approx(0.00075, rel=EXACT)
    assert (interval.low, interval.high) == pytest.approx((0.00075, 0.00075), rel=EXACT)
    tested = consistency(p, around, targets=y, clusters=labels, n_resamples=B)
    assert tested.value == pytest.approx(0.00075, rel=EXACT)
    assert tested.p_value == 1  # no replicate has other scores


def test_weights_of_drawn_clusters():
    p, y, labels = copies(4, questions=40)
    weights = np.tile([0.25, 0.75], len(p) // 2)  # alike in every cluster
    for method in (bootstrap, consistency):
        found = method(
            p,
            lambda table: table.square_weights.sum() / table.counts.sum(),
            targets=y,
            weights=weights,
            clusters=labels,
            n_resamples=B,
        )
        ends = (found.low, found.high) if method is bootstrap else (found.floor.mean, found.floor.upper)
        assert ends == pytest.approx((0.625, 0.625), rel=EXACT)


def test_the_cumulative_test_is_that_of_a_report(rows):
    p, y, labels = rows
    # 32 replicates are one block of draws in both; of more, a report draws all at once.
    report = evaluate(p, y, clusters=labels, n_resamples=32, rng=5)
    assert ks_test(p, y, clusters=labels, n_resamples=32, rng=5).p_value == report["ks"].p_value
    assert ks_test(p, y, clusters=labels).details["error"] == report["ks"].value


# ---------------------------------------------------------------- laws


@pytest.mark.parametrize("name", TESTS)
@pytest.mark.parametrize("weighted", [False, True])
def test_clusters_of_one_row_change_nothing(name, weighted):
    p, y, _ = dependent(5)
    weights = np.random.default_rng(5).gamma(2.0, 1.0, len(p)) if weighted else None
    found, plain = (run(name, p, y, weights=weights, clusters=labels) for labels in (np.arange(len(p)) * 7, None))
    assert found.method == f"{plain.method}; clusters of one row"
    assert repr(found).replace("; clusters of one row", "") == repr(plain)


@pytest.mark.parametrize("name", TESTS)
def test_a_row_of_weight_two_is_two_rows_of_one_cluster(name):
    p, y, _ = dependent(6, n_clusters=20)
    labels = np.arange(len(p))
    weighted = run(name, p, y, weights=np.full(len(p), 2), clusters=labels)
    twice = run(name, np.repeat(p, 2), np.repeat(y, 2), clusters=np.repeat(labels, 2))
    assert weighted.method == twice.method
    assert weighted.method.endswith("; by cluster")
    if name == "bootstrap":
        assert (weighted.low, weighted.high) == pytest.approx((twice.low, twice.high), rel=EXACT)
    else:
        assert weighted.p_value == pytest.approx(twice.p_value, rel=1e-9)


@pytest.mark.parametrize("name", TESTED)
def test_every_row_twice_in_its_own_cluster_changes_no_p_value(name):
    p, y, labels = dependent(7, slope=1.2)
    one, two = (run(name, *(np.repeat(x, k) for x in (p, y)), clusters=np.repeat(labels, k)) for k in (1, 2))
    if name != "t_cal":  # more rows allow one more scale
        assert two.p_value == pytest.approx(one.p_value, rel=1e-9)
    else:
        shared = one.details["statistics"].keys()
        both = ([x.details["statistics"][m] for m in shared] for x in (one, two))
        np.testing.assert_allclose(*both, rtol=1e-9)


def test_copies_say_what_one_row_of_each_says():
    p, y, labels = copies(8)
    one, found = spiegelhalter_test(p[::10], y[::10]), spiegelhalter_test(p, y, clusters=labels)
    assert (found.statistic, found.p_value) == pytest.approx((one.statistic, one.p_value), rel=1e-9)
    # A score test by seen covariances and a likelihood ratio agree to the next order, about 1 / sqrt(200).
    assert cox_test(p, y, clusters=labels).p_value == pytest.approx(cox_test(p[::10], y[::10]).p_value, abs=0.2)


@pytest.mark.parametrize("name", TESTED)
def test_other_labels_of_the_same_clusters(name):
    p, y, labels = dependent(9)
    names = np.array([f"patient {i * 31 % 101}" for i in range(40)])[labels]
    one, other = (run(name, p, y, clusters=x) for x in (labels, names))
    if name in CLOSED:
        assert other.p_value == pytest.approx(one.p_value, rel=1e-9)
    else:  # other normals fall to a cluster: p-values of 40 replicates differ by four of sqrt(2 / 40) / 2 at most
        assert other.p_value == pytest.approx(one.p_value, abs=4 * math.sqrt(2 / B) / 2)


@pytest.mark.parametrize("name", TESTED)
def test_any_order_of_rows_is_the_same(name):
    p, y, labels = dependent(10)
    order = np.random.default_rng(10).permutation(len(p))
    one, other = (run(name, p[rows], y[rows], clusters=labels[rows]) for rows in (slice(None), order))
    assert other.p_value == pytest.approx(one.p_value, rel=1e-9)


@pytest.mark.parametrize("name", TESTED)
def test_ignored_rows_are_absent(name):
    p, y, labels = dependent(11)
    out = np.arange(len(p)) % 3 == 0
    ignored = run(name, p, np.where(out, -1, y), ignore_index=-1, clusters=labels)
    weightless = run(name, p, y, weights=np.where(out, 0, 1), clusters=labels)
    absent = run(name, p[~out], y[~out], clusters=labels[~out])
    assert repr(ignored) == repr(absent)
    assert weightless.p_value == pytest.approx(absent.p_value, rel=1e-9)


def test_images_have_a_label_each_or_one_for_each_pixel():
    rng = np.random.default_rng(12)
    probs = rng.dirichlet(np.ones(3), size=(30, 4, 4)).transpose(0, 3, 1, 2)
    targets = rng.integers(0, 3, (30, 4, 4))
    by_image, by_pixel, none = (
        ks_test(probs, targets, clusters=labels, n_resamples=B)
        for labels in (np.arange(30), np.repeat(np.arange(30), 16).reshape(30, 4, 4), None)
    )
    assert repr(by_image) == repr(by_pixel)
    assert by_image.details["clusters"] == 30
    assert "clusters" not in none.details
    assert repr(ks_test(probs, targets, clusters=False)) == repr(none)


# ---------------------------------------------------------------- what a result says


@pytest.mark.parametrize("name", TESTS)
def test_what_a_result_says_of_clusters(name):
    (p, y, labels), (scores, outcomes, names) = dependent(13), copies(13, 400, 3)
    few, many = run(name, p, y, clusters=labels // 4), run(name, scores, outcomes, clusters=names)
    assert few.method.endswith("; by cluster")
    assert few.method.count("cluster") == 1
    assert (few.details["clusters"], many.details["clusters"]) == (10, 400)
    assert few.details["largest_cluster"] == pytest.approx(np.bincount(labels // 4).max() / len(p))
    assert few.details["flag"].startswith("one outcome occurs in only 10 clusters, fewer than 15")
    assert "flag" not in many.details
    assert "clusters" not in run(name, p, y).details


def test_statistics_keep_their_values():
    p, y, labels = dependent(14)
    for name in ("ks", "kuiper", "external", "in-sample"):
        assert run(name, p, y, clusters=labels).statistic == run(name, p, y).statistic
    for name in ("consistency", "bootstrap"):
        assert run(name, p, y, clusters=labels).value == run(name, p, y).value
    assert "degrees_of_freedom" not in run("external", p, y, clusters=labels).details


@pytest.mark.parametrize("name", ["ks", "kuiper", "external"])
def test_resamples_play_no_part_without_clusters(name):
    p, y, _ = dependent(15)
    assert repr(run(name, p, y, 7, rng=3)) == repr(run(name, p, y, 99))
    moving = np.random.default_rng(0)
    run(name, p, y, rng=moving)
    assert moving.random() == np.random.default_rng(0).random()


# ---------------------------------------------------------------- sketches


def sketch_of(p, y, labels):
    """A sketch of two batches, which share clusters."""
    sketch = CalibrationSketch()
    for part in (slice(None, None, 2), slice(1, None, 2)):
        sketch.update(p[part], y[part], clusters=labels[part])
    return sketch


@pytest.mark.parametrize("name", TESTED)
def test_a_sketch_is_judged_by_its_clusters(name):
    p, y, labels = dependent(16)
    found, rows = run(name, sketch_of(p, y, labels)), run(name, p, y, clusters=labels)
    assert found.method == rows.method
    # The coarse cells and buckets are the same. Scores inside a cell of 1/2,000 move a factor 1 - 2 p by 1/1,000.
    assert found.p_value == pytest.approx(rows.p_value, abs=2 / B if name not in CLOSED else 2e-3)
    for fact in ("clusters", "largest_cluster"):
        assert found.details[fact] == rows.details[fact]


def test_a_sketch_without_clusters_is_of_independent_rows():
    p, y, _ = dependent(17)
    sketch = CalibrationSketch()
    sketch.update(p, y)
    found = consistency(sketch, ece, n_resamples=B)
    assert found.details == {}
    assert found.p_value == pytest.approx(consistency(p, ece, targets=y, n_resamples=B).p_value, abs=4 / B)


def test_pooled_buckets_of_a_sketch():
    p, y, labels = copies(18, 600, 2)
    found = ks_test(sketch_of(p, y, labels), n_resamples=B)
    assert found.details["clusters"] == "more than 256"
    assert found.p_value == pytest.approx(ks_test(p, y, clusters=labels, n_resamples=B).p_value, abs=2 / B)


# ---------------------------------------------------------------- nothing can deviate

#: Rows of a cluster, and how many of them happened: 1,470 times 1 / 49 is not quite 30.
SUMS = [(49, 1), (103, 1), (10, 3)]


@pytest.mark.covering
@pytest.mark.parametrize("name", TESTED)
@pytest.mark.parametrize(("rows", "happened"), SUMS)
def test_clusters_whose_scores_add_up_to_outcomes_have_p_value_one(name, rows, happened):
    """Clusters of so many rows with the score happened / rows: only rounding is left, and decides nothing."""
    p, y = np.full(rows, happened / rows), (np.arange(rows) < happened).astype(int)
    if name in ("cox", "in-sample"):  # need different scores
        p = np.concatenate([p, np.repeat([0.1, 0.6, 0.8], 10)])
        y = np.concatenate([y, np.repeat([1, 0, 1, 0, 1, 0], [1, 9, 6, 4, 8, 2])])
    p, y = (np.tile(values, 30) for values in (p, y))
    labels = np.arange(len(p)) // (len(p) // 30)
    assert not bootstrap(p, gap_of, targets=y, clusters=labels, n_resamples=B).method.startswith("NOT VALID")
    assert run(name, p, y, clusters=labels).p_value == 1


def test_one_row_for_each_option_leaves_one_degree_of_freedom():
    """Exactly one option of each question is right, and scores add up to 1: there is no intercept to test."""
    rng = np.random.default_rng(19)
    probs = rng.dirichlet([1, 2, 3], 200)
    right = (rng.random((200, 1)) > probs.cumsum(axis=1)).sum(axis=1)
    y, labels = (right[:, np.newaxis] == np.arange(3)).astype(int).ravel(), np.repeat(np.arange(200), 3)
    assert cox_test(probs.ravel(), y, clusters=labels).details["degrees_of_freedom"] == 1
    for name in TESTED:
        assert run(name, probs.ravel(), y, clusters=labels).p_value > 0.01, name
    mean = bootstrap(probs.ravel(), gap_of, targets=y, clusters=labels, n_resamples=B)
    assert (mean.low, mean.high) == pytest.approx((0, 0), abs=EXACT)


@pytest.mark.parametrize("name", ["ks", "kuiper", "external", "t_cal"])
def test_an_outcome_that_its_score_excluded(name):
    p, y, labels = np.repeat([0.0, 1.0], 30), np.repeat([0, 1], 30), np.arange(60) % 20
    assert run(name, p, y, clusters=labels).p_value == 1
    y[[3, 4]] = 1
    wrong = run(name, p, y, clusters=labels)
    assert (wrong.statistic, wrong.p_value) == (math.inf, 0)
    assert wrong.details["p_value_of_statistic"] == 1 / (B + 1)
    assert wrong.details["impossible_outcomes"] == 2


def test_two_clusters_are_enough_for_an_answer():
    p, y, _ = copies(20, 240, 1)
    labels = np.arange(240) % 2
    for name in TESTS:
        found = run(name, p, y, clusters=labels)
        assert "one outcome occurs in only 2 clusters, fewer" in found.details["flag"]
        assert name == "bootstrap" or 0 <= found.p_value <= 1


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize("name", TESTS)
@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros(12, int), "clusters: expected at least 2 clusters, got 1"),
        (np.arange(11), "clusters: expected .*12.*got"),
        ([None, *"abcdefghijk"], "clusters: expected .*missing value at row 0"),
        (np.linspace(0, 1, 12), "clusters: expected whole numbers"),
    ],
)
def test_clusters_that_cannot_be_used(name, labels, message):
    with pytest.raises(InputError, match=message):
        run(name, P, Y, clusters=labels)


@pytest.mark.parametrize("name", TESTS)
def test_clusters_belong_to_rows(name):
    table = ReliabilityTable.from_scores(P, Y)
    message = "expected no value with a ReliabilityTable, got a value; leave it out, because a table has no clusters"
    with pytest.raises(InputError, match=f"clusters: {message}, or pass predictions"):
        run(name, table, clusters=list(EQUAL))
    sketch = CalibrationSketch()
    sketch.update(P, Y)
    with pytest.raises(InputError, match="clusters: expected no value with a CalibrationSketch"):
        run(name, sketch, clusters=list(EQUAL))
    with pytest.raises(
        InputError,
        match=r"clusters: expected a notion with one event \('positive' or 'top-label'\), got 'classwise'",
    ):
        run(name, np.stack([1 - P, P], axis=1), Y, notion="classwise", clusters=list(EQUAL))


def test_predictions_of_own_statistics_need_targets_and_are_checked():
    for method in (consistency, bootstrap):
        with pytest.raises(InputError, match=r"table: expected a ReliabilityTable, got a ndarray; .* or pass targets="):
            method(P, ece)
        with pytest.raises(InputError, match=r"table: expected values in \[0, 1\], got 1.5 at row 1"):
            method([0.5, 1.5], ece, targets=[0, 1])
        with pytest.raises(InputError, match="targets: expected no value with a ReliabilityTable"):
            method(ReliabilityTable.from_scores(P, Y), ece, targets=Y)


@pytest.mark.parametrize("name", ["ks", "kuiper", "external", "t_cal"])
def test_resamples_are_checked(name):
    for labels in (None, list(EQUAL)):
        with pytest.raises(InputError, match="n_resamples: expected an integer from 1"):
            run(name, P, Y, 0, clusters=labels)
    with pytest.raises(InputError, match="rng: expected a non-negative integer"):
        run(name, P, Y, rng=-1, clusters=list(EQUAL))


# ---------------------------------------------------------------- size

#: The tests whose p-values without clusters are far too small for copies.
SIZED = tuple(name for name in TESTED if name not in ("in-sample", "maximum"))


def test_copies_do_not_reject_by_cluster():
    """Four data sets: by cluster at most one of a test rejects at 5 %, as independent rows nearly all do."""
    by_cluster, plain = (dict.fromkeys(SIZED, 0) for _ in range(2))
    for seed in range(4):
        p, y, labels = copies(seed)
        for name in SIZED:
            by_cluster[name] += run(name, p, y, clusters=labels).p_value <= 0.05
            plain[name] += run(name, p, y).p_value <= 0.05
    assert max(by_cluster.values()) <= 1  # two or more: once in seventy
    assert sum(plain.values()) >= 0.7 * 4 * len(SIZED)


@pytest.mark.slow
def test_size_of_copies():
    """200 questions with ten copies: by cluster each test rejects in 5 % of data sets, give or take what n tells."""
    runs, rejected, plain = 250, dict.fromkeys(SIZED, 0), dict.fromkeys(SIZED, 0)
    for seed in range(runs):
        p, y, labels = copies(1000 + seed)
        for name in SIZED:
            rejected[name] += run(name, p, y, 99, clusters=labels).p_value <= 0.05
            plain[name] += seed < 50 and run(name, p, y, 99).p_value <= 0.05
    for name, count in rejected.items():
        low, high = stats.binom.ppf(1e-4, runs, 0.03), stats.binom.isf(1e-4, runs, 0.065)
        assert low <= count <= high, name
    for name in SIZED:  # the variance of sums is ten times as large as these take it for
        assert plain[name] >= (40 if name not in CLOSED else 20), name


@pytest.mark.slow
@pytest.mark.parametrize(("dependence", "scale"), [("copies", 2.0), ("half", 1.6)])
def test_scores_that_are_too_extreme_are_found(dependence, scale):
    rng, runs, rejected = np.random.default_rng(22), 40, dict.fromkeys(SIZED, 0)
    for _ in range(runs):
        q, labels = rng.random(4000), np.repeat(np.arange(400), 10)
        if dependence == "copies":
            q = np.repeat(q[:400], 10)
        shared = np.ones(4000, bool) if dependence == "copies" else rng.random(4000) < 0.5
        y = (np.where(shared, np.repeat(rng.random(400), 10), rng.random(4000)) < q).astype(int)
        for name in SIZED:
            rejected[name] += run(name, expit(scale * logit(q)), y, 99, clusters=labels).p_value <= 0.05
    assert min(rejected.values()) >= 30, rejected


@pytest.mark.slow
def test_size_of_hosmer_and_lemeshow_s_test_in_sample():
    """Log-odds lines fitted to the same rows: 5 % in-sample, fewer external, nearly all without clusters."""
    rng, runs, found, other, plain = np.random.default_rng(23), 300, 0, 0, 0
    for _ in range(runs):
        x = rng.normal(size=200)
        y = (rng.random(200) < expit(x)).astype(int)
        fit = cox_test(expit(x), y)
        p = expit(fit.details["intercept"] + fit.details["slope"] * x)
        p, y, labels = (np.repeat(values, 5) for values in (p, y, np.arange(200)))
        found += run("in-sample", p, y, 99, clusters=labels).p_value <= 0.05
        other += run("external", p, y, 99, clusters=labels).p_value <= 0.05
        plain += run("in-sample", p, y).p_value <= 0.05
    assert stats.binom.ppf(1e-4, runs, 0.03) <= found <= stats.binom.isf(1e-4, runs, 0.06)
    assert other < found
    assert plain > 0.8 * runs


@pytest.mark.slow
@pytest.mark.parametrize("clusters", [40, 200])
@pytest.mark.parametrize("rare", [False, True])
def test_size_of_own_statistics_with_few_clusters_in_a_bin(clusters, rare):
    """Outcomes that were cut off at the possible range would reject in a quarter of data sets."""
    rng, runs, rejected = np.random.default_rng(24), 200, 0
    for _ in range(runs):
        q = rng.beta(1, 20 if rare else 1, clusters)
        y = (rng.random(clusters) < q).astype(int)
        p, y, labels = (np.repeat(values, 10) for values in (q, y, np.arange(clusters)))
        rejected += consistency(p, ece, targets=y, clusters=labels, n_resamples=99).p_value <= 0.05
    assert rejected <= stats.binom.isf(1e-4, runs, 0.065)


@pytest.mark.slow
def test_coverage_of_the_bootstrap():
    """Nine in ten intervals of the mean Brier score hold 1/6, less what a percentile interval of 200 clusters lacks."""
    runs, held = 300, 0
    for seed in range(runs):
        p, y, labels = copies(2000 + seed)
        found = bootstrap(
            p, lambda t: t.sums.square_residuals / t.total, targets=y, clusters=labels, level=0.9, n_resamples=199
        )
        held += found.low <= 1 / 6 <= found.high
    assert held >= stats.binom.ppf(1e-4, runs, 0.87)
