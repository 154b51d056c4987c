"""`evaluate` with rows in clusters: against independent rows, against laws, and against known truth."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from scipy import stats

import calibrant
from calibrant import evaluate
from calibrant.errors import InputError
from calibrant.render import page
from tests.samples import draw, draw_classes

MEASURES = ("mean_gap", "brier", "nll", "accuracy", "ece", "ace", "rmsce", "debiased_square", "mce", "ks", "smece")


def copies(seed, clusters=60, each=5, slope=1.0):
    """Rows of which those of a cluster are copies of one."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.02, 0.98, clusters)
    y = (rng.uniform(size=clusters) < p**slope / (p**slope + (1 - p) ** slope)).astype(int)
    return np.repeat(p, each), np.repeat(y, each), np.repeat(np.arange(clusters), each), p, y


def test_copies_are_worth_their_clusters():
    p, y, labels, _, _ = copies(0, 200, 10)
    report = evaluate(p, y, clusters=labels, n_resamples=200)
    for name in ("mean_gap", "brier", "nll", "accuracy", "mean_confidence"):
        assert report[name].details["effective_rows"] == pytest.approx(200, rel=0.03), name
    for name in ("ece", "ace", "rmsce"):  # by replicates: a mean of 200 with a deviation of about a fifth
        assert report[name].details["effective_rows"] == pytest.approx(200, rel=4 * 2 * 0.2 / math.sqrt(200) + 0.05)
    assert report.clusters["clusters"] == report["ece"].details["clusters"] == 200
    assert report["ece"].method.endswith("; by cluster")
    assert "allow for dependence within 200 clusters" in " ".join(str(report).split())
    assert "assume independent rows" not in str(report)
    assert "assume independent rows" in str(evaluate(p, y, n_resamples=20))


@pytest.mark.parametrize("n_resamples", [0, 199])
def test_copies_say_what_one_row_of_each_says(n_resamples):
    p, y, labels, one_p, one_y = copies(1, 300, 4, slope=2.0)
    found = evaluate(p, y, clusters=labels, n_resamples=n_resamples)
    alone = evaluate(one_p, one_y, n_resamples=n_resamples)
    assert found["mean_gap"].value == pytest.approx(alone["mean_gap"].value, abs=1e-12)
    for name in MEASURES:
        if name in ("mce", "debiased_square") or math.isnan(alone[name].high):
            continue  # bins of 30 rows are others; the unbiased square leaves out pairs of copies
        one, other = found[name], alone[name]
        assert one.value == pytest.approx(other.value, abs=1e-7), name
        # Design effects are estimated: a width of 300 clusters is off by about sqrt(1 / 600), the blend by a little.
        assert one.high - one.low == pytest.approx(other.high - other.low, rel=0.25, abs=1e-3), name
    assert found.test.p_value == pytest.approx(alone.test.p_value, abs=0.15)


def test_clusters_that_do_not_matter_change_little():
    p, y = draw(2, 2000)
    labels = np.arange(2000) // 10
    found, plain = (evaluate(p, y, clusters=clusters, n_resamples=199) for clusters in (labels, None))
    for name in ("mean_gap", "brier", "ece", "ks", "smece"):
        one, other = found[name], plain[name]
        assert one.high - one.low == pytest.approx(other.high - other.low, rel=0.3), name
        if name != "brier":  # a proper score has no floor
            assert one.floor.mean == pytest.approx(other.floor.mean, rel=0.3), name


def test_any_order_of_rows_is_the_same():
    p, y, labels, _, _ = copies(3)
    order = np.random.default_rng(3).permutation(len(p))
    one, other = (
        evaluate(p[i], y[i], clusters=labels[i], n_resamples=50).to_dict() for i in (np.arange(len(p)), order)
    )
    for name in MEASURES:
        for end in ("low", "high", "p_value"):
            a, b = one["estimates"][name][end], other["estimates"][name][end]
            assert (a is None and b is None) or a == pytest.approx(b, rel=1e-9, abs=1e-12), (name, end)


def test_images_are_clusters_unless_they_are_not():
    rng = np.random.default_rng(4)
    probs = rng.dirichlet(np.ones(3), size=(30, 4, 4)).transpose(0, 3, 1, 2)
    targets = rng.integers(0, 3, (30, 4, 4))
    by_image = evaluate(probs, targets, n_resamples=20)
    named = evaluate(probs, targets, clusters=np.arange(30), n_resamples=20)
    by_pixel = evaluate(probs, targets, clusters=np.repeat(np.arange(30), 16).reshape(30, 4, 4), n_resamples=20)
    assert by_image.clusters["clusters"] == 30
    assert by_image.to_dict() == named.to_dict() == by_pixel.to_dict()
    assert evaluate(probs, targets, clusters=False, n_resamples=20).clusters is None
    one = evaluate(probs[:1], targets[:1], n_resamples=20)
    assert one.clusters is None


def test_groups_have_their_own_clusters():
    p, y, labels, _, _ = copies(5, 120, 4)
    groups = np.where(labels % 2, "odd", "even")
    report = evaluate(p, y, clusters=labels, groups=groups, n_resamples=50)
    for group in report.groups:
        rows = groups == group.name
        alone = evaluate(p[rows], y[rows], clusters=labels[rows], n_resamples=50)
        assert group.report.to_dict() == alone.to_dict()
        assert group.report.clusters["clusters"] == 60


def test_classes_of_rows_in_clusters():
    rng = np.random.default_rng(6)
    probs = np.repeat(rng.dirichlet(np.ones(4), size=80), 5, axis=0)
    labels = np.repeat((probs[::5].cumsum(axis=1) < rng.uniform(size=(80, 1))).sum(axis=1).clip(max=3), 5)
    found = evaluate(probs, labels, clusters=np.repeat(np.arange(80), 5), n_resamples=199)["classwise_ece"]
    plain = evaluate(probs, labels, n_resamples=199)["classwise_ece"]
    assert found.value == plain.value
    assert found.floor.mean > 1.5 * plain.floor.mean
    assert found.method.endswith("; by cluster")
    assert found.method.count("by cluster") == 1


def classes_of_copies(clusters, each, seed=8):
    """Calibrated predictions of four classes, ``each`` copies of every one."""
    probs, labels = draw_classes(seed, clusters, np.ones(4))
    return np.repeat(probs, each, axis=0), np.repeat(labels, each), np.repeat(np.arange(clusters), each)


@pytest.mark.parametrize("notion", ["classwise", "multilabel"])
@pytest.mark.parametrize("n_resamples", [0, 199])
def test_every_class_by_itself_is_judged_by_cluster(notion, n_resamples):
    """Copies say what one row of each says. The labels of a row depend on each other as its class does."""
    probs, labels, clusters = classes_of_copies(150, 8)
    targets = np.eye(4, dtype=int)[labels] if notion == "multilabel" else labels
    found = evaluate(probs, targets, notion=notion, clusters=clusters, n_resamples=n_resamples)
    plain = evaluate(probs, targets, notion=notion, n_resamples=n_resamples)
    alone = evaluate(probs[::8], targets[::8], notion=notion, n_resamples=n_resamples)
    for name in ("accuracy", "brier", "nll"):
        assert found[name].value == plain[name].value
        assert found[name].method.endswith("; by cluster")
        width = found[name].high - found[name].low
        assert width > 1.2 * (plain[name].high - plain[name].low), name
        if notion == "classwise":  # of several labels independent rows take each label for one
            assert width == pytest.approx(alone[name].high - alone[name].low, rel=0.03), name
    ece = found["ece"]
    assert ece.value == pytest.approx(alone["ece"].value, abs=1e-12)
    assert (plain["ece"].p_value, plain.miscalibrated) == (pytest.approx(0, abs=0.02), True)
    assert (ece.low, found.miscalibrated) == (0, False)
    assert ece.floor.mean == pytest.approx(alone["ece"].floor.mean, rel=0.1)
    assert ece.p_value == pytest.approx(alone["ece"].p_value, abs=0.2)
    assert ece.method.endswith("; by cluster")
    assert found.clusters == {"clusters": 150, "largest_cluster": pytest.approx(1 / 150), "effective_rows": None}
    assert found["ace"].method.startswith("no interval for rows in clusters")
    assert "in 150 clusters, " in str(found)
    assert "independent" not in str(found)
    top = evaluate(probs, labels, clusters=clusters, n_resamples=0)["classwise_ece"]
    if n_resamples == 0:
        assert (ece.low, ece.high, ece.p_value) == pytest.approx((top.low, top.high, top.p_value), rel=1e-9)


def test_labels_of_every_kind_of_rows_are_judged_by_cluster():
    """Of several labels some may be missing; images have a label for each pixel; a class may have no row."""
    probs, labels, clusters = classes_of_copies(60, 5)
    targets = np.eye(4, dtype=int)[labels]
    targets[::3, 1] = -1
    targets[:10] = -1
    weights = np.random.default_rng(2).random(300) + 0.5
    for given in ({}, {"weights": weights}, {"weights": np.full(300, 2)}):
        found = evaluate(
            probs, targets, notion="multilabel", ignore_index=-1, clusters=clusters, n_resamples=0, **given
        )
        assert found["ece"].low <= found["ece"].value <= found["ece"].high
        assert found.clusters["clusters"] == 58
        assert (found.classwise.p_values > 0).all()
    sheets = probs.reshape(60, 5, 4).transpose(0, 2, 1), labels.reshape(60, 5)
    by_image = evaluate(*sheets, notion="classwise", n_resamples=0)
    assert by_image.to_dict() == evaluate(probs, labels, notion="classwise", clusters=clusters, n_resamples=0).to_dict()
    groups = np.where(clusters % 2, "odd", "even")
    report = evaluate(
        probs, labels, notion="classwise", clusters=clusters, groups=groups, n_resamples=99, tolerance=0.3
    )
    assert report.decision.state == "proven"
    assert [group.report.clusters["clusters"] for group in report.groups] == [30, 30]
    lone = evaluate(probs[::5], labels[::5], notion="classwise", clusters=clusters[::5], n_resamples=0)
    assert lone["ece"].method.endswith("; clusters of one row")
    assert lone["ece"].high == evaluate(probs[::5], labels[::5], notion="classwise", n_resamples=0)["ece"].high
    with pytest.raises(InputError, match="n_bins: expected a divisor of 60"):
        evaluate(probs, labels, notion="classwise", clusters=clusters, n_bins=7)
    with pytest.raises(InputError, match="at least 2 clusters"):
        evaluate(probs, labels, notion="classwise", clusters=np.zeros(300, int))
    assert evaluate(probs, labels, notion="classwise", clusters=np.zeros(300, int), level=None)["ece"].value > 0


@pytest.mark.slow
@pytest.mark.parametrize("notion", ["classwise", "multilabel"])
def test_the_size_over_classes_by_cluster(notion):
    """Forty calibrated clusters of ten copies: the verdict rejects 5 %, without clusters nearly all."""
    rejected, sets = [], 200
    for seed in range(sets):
        probs, labels, clusters = classes_of_copies(100, 10, seed)
        targets = np.eye(4, dtype=int)[labels] if notion == "multilabel" else labels
        both = (evaluate(probs, targets, notion=notion, clusters=own, n_resamples=0) for own in (clusters, None))
        rejected.append([report.test.p_value <= 0.05 for report in both])
    by_cluster, plain = np.mean(rejected, axis=0)
    assert by_cluster <= 0.05 + 4 * math.sqrt(0.05 * 0.95 / sets)
    assert plain > 0.8


def test_level_none_and_a_measure_of_ones_own():
    p, y, labels, _, _ = copies(7)
    assert evaluate(p, y, clusters=labels, level=None)["ece"].value == evaluate(p, y, level=None)["ece"].value

    def value(event):
        return float(abs(event.table.residuals.sum()))

    share = calibrant.measures.Measure(name="above", label="above", meaning="The excess of outcomes.", value=value)
    found = evaluate(p, y, clusters=labels, measures=["ece", share], n_resamples=50)["above"]
    assert 0 < found.p_value <= 1
    assert found.floor.mean > 0


BAD = {
    "one cluster": (np.zeros(50, int), "at least 2 clusters"),
    "another number": (np.arange(49), "50"),
    "missing": ([None] + ["a"] * 49, "missing value at row 0"),
    "not whole": (np.linspace(0, 1, 50), "whole"),
}


def test_the_floor_of_a_measure_of_ones_own_is_that_of_clusters():
    """The ECE once more: its replicates are those of the library's own, and are not cut to possible outcomes."""

    def value(event):
        return calibrant.expected_calibration_error(event.table)

    own = calibrant.measures.Measure(name="own", label="own", meaning="The ECE once more.", value=value)
    p, y, labels, _, _ = copies(4, 40, 10)
    report = evaluate(p, y, clusters=labels, measures=["ece", own], n_resamples=1_600)
    # Replicates of own measures are scaled by bins of equal mass, those of the ECE by its own.
    assert report["own"].floor.mean == pytest.approx(report["ece"].floor.mean, rel=0.02)
    assert report["own"].p_value == pytest.approx(report["ece"].p_value, abs=0.03)


@pytest.mark.parametrize("kind", BAD)
def test_clusters_that_cannot_be_used(kind):
    clusters, said = BAD[kind]
    p, y = np.linspace(0.05, 0.95, 50), np.arange(50) % 2
    with pytest.raises(InputError, match=said) as caught:
        evaluate(p, y, clusters=clusters, n_resamples=20)
    assert caught.value.argument == "clusters"


def test_clusters_belong_to_rows():
    table = calibrant.ReliabilityTable.from_scores([0.2, 0.8], [0, 1])
    with pytest.raises(InputError, match="no value with a ReliabilityTable"):
        evaluate(table, clusters=[1, 2])


def test_hard_cases_give_numbers_without_warnings():
    n = 60
    cases = [
        (np.linspace(0.05, 0.95, n), np.zeros(n, int), np.arange(n) // 6),
        (np.repeat([0.0, 1.0], n // 2), np.repeat([0, 1], n // 2), np.arange(n) // 6),
        (np.full(n, 0.3), np.arange(n) % 3 == 0, np.arange(n) // 30),
        (np.tile([0.2, 0.3, 0.5], n // 3), np.tile([0, 0, 1], n // 3), np.arange(n) // 3),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for p, y, labels in cases:
            for n_resamples in (0, 50):
                report = evaluate(p, y, clusters=labels, n_resamples=n_resamples)
                report.to_json()
                assert 0 <= report.test.p_value <= 1


@pytest.mark.slow
@pytest.mark.parametrize("dependent", [True, False])
def test_size_and_coverage_with_clusters(dependent):
    """Copies or independent rows in clusters of five: the verdict at 5 %, and the intervals of true values at 90 %."""
    rng, runs, rejected, held = np.random.default_rng(8), 150, 0, {"mean_gap": 0, "brier": 0}
    for _ in range(runs):
        p = rng.uniform(size=100)
        p = np.repeat(p, 5)
        u = np.repeat(rng.uniform(size=100), 5) if dependent else rng.uniform(size=500)
        report = evaluate(
            p,
            (u < p).astype(int),
            clusters=np.repeat(np.arange(100), 5),
            n_resamples=99,
            level=0.9,
            measures=["mean_gap", "brier", "ece"],
        )
        rejected += report.test.p_value <= 0.05
        for name, true in (("mean_gap", 0.0), ("brier", 1 / 6)):
            held[name] += report[name].low <= true <= report[name].high
    assert rejected <= stats.binom.isf(1e-4, runs, 0.08)
    for name, count in held.items():
        assert count >= stats.binom.ppf(1e-4, runs, 0.87), name


def test_clusters_of_one_row_are_independent_rows():
    p, y = draw(9, 300)
    found, plain = (evaluate(p, y, clusters=clusters, n_resamples=50) for clusters in (np.arange(300) * 7, None))
    for name in found:
        one, other = found[name], plain[name]
        assert [one.low, one.high, one.p_value] == pytest.approx([other.low, other.high, other.p_value], nan_ok=True)
        assert one.method == f"{other.method}; clusters of one row"
    assert found.clusters == {"clusters": 300, "largest_cluster": 1 / 300, "effective_rows": 300}
    assert "assume independent rows" not in str(found)
    twice = evaluate(p, y, weights=np.full(300, 2), clusters=np.arange(300), n_resamples=50)  # a row of weight 2 is two
    assert twice["mean_gap"].high - twice["mean_gap"].low == pytest.approx(
        found["mean_gap"].high - found["mean_gap"].low, rel=0.1
    )


def test_one_image_is_flagged():
    rng = np.random.default_rng(10)
    probs = rng.dirichlet(np.ones(3), size=(1, 9, 9)).transpose(0, 3, 1, 2)
    report = evaluate(probs, rng.integers(0, 3, (1, 9, 9)), n_resamples=20)
    assert (
        report["ece"]
        .details["flag"]
        .startswith("rows of one image are assumed to be independent, so intervals may be too short")
    )
    rows = probs[0].reshape(3, -1).T
    assert "flag" not in evaluate(rows, rng.integers(0, 3, 81), n_resamples=20)["ece"].details


def test_a_group_of_one_cluster_has_values_and_a_reason():
    p, y, labels, _, _ = copies(11, 60, 40)
    groups = np.where(labels == 0, "alone", "others")
    report = evaluate(p, y, clusters=labels, groups=groups, n_resamples=50)
    others, alone = report.groups  # a group without a test comes last
    assert alone.flag == "all rows are in one cluster, which does not show how clusters vary"
    assert math.isnan(alone.p_value)
    assert not alone.called_out
    assert math.isnan(alone.report["ece"].high)
    assert others.flag == ""
    assert "all rows are in one cluster" in str(report)
    report.to_json()
    assert "all rows are in one cluster" in page.to_page(report._document(full=True))


def test_classes_are_tested_by_cluster():
    """Copies of the rows of one class reject calibration as independent rows, and not as clusters."""
    rng, rejected, plain = np.random.default_rng(12), 0, 0
    for _ in range(12):
        probs = rng.dirichlet(np.ones(3), size=100)
        labels = (probs.cumsum(axis=1) < rng.uniform(size=(100, 1))).sum(axis=1).clip(max=2)
        probs, labels = np.repeat(probs, 10, axis=0), np.repeat(labels, 10)
        found = evaluate(probs, labels, clusters=np.repeat(np.arange(100), 10), n_resamples=0).classwise
        wrong = evaluate(probs, labels, n_resamples=0).classwise
        rejected += np.count_nonzero(found.p_values <= 0.05)
        plain += np.count_nonzero(wrong.p_values <= 0.05)
        width, narrow = (np.nanmean(one.highs - one.lows) for one in (found, wrong))
        assert width > 2 * narrow
    assert plain > 18  # of 36
    assert rejected <= stats.binom.isf(1e-4, 36, 0.08)


@pytest.mark.parametrize("n_resamples", [0, 199])
@pytest.mark.parametrize("flipped", [None, 3])
def test_certain_scores_are_judged_as_those_of_independent_rows(flipped: int | None, n_resamples: int) -> None:
    """Nothing varies under calibration: one wrong outcome refutes it, whatever the clusters."""
    scores = np.repeat([0.0, 1.0], 20)
    outcomes = scores.astype(int)
    if flipped is not None:
        outcomes[flipped] = 1 - outcomes[flipped]
    rows = evaluate(scores, outcomes, n_resamples=n_resamples)
    clusters = evaluate(scores, outcomes, clusters=np.arange(40) // 4, n_resamples=n_resamples)
    assert rows.test is not None
    assert clusters.test is not None
    assert clusters.test.p_value == rows.test.p_value == (1 if flipped is None else 0)
