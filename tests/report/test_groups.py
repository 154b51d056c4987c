"""The error of all classes together, and the groups of a report: which of them stand out.

Tolerances. Two ways to one sum of some hundred terms below 1 agree to about 1e-13; `CLOSE` is 1e-10, relative. Shares
seen in simulations are held to 4 binomial standard deviations. What is said to be the same is the same to the bit.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import optimize, stats

import calibrant
from calibrant import evaluate
from calibrant.errors import InputError
from calibrant.measures.verdict import count_p_value
from calibrant.results import TestResult
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import SamplingDesign
from calibrant.statistics.group_tests import LEAST_GROUP, GroupTest, holm
from tests.samples import draw_tilted as draw

CLOSE = 1e-10
LEVEL, TAIL = 0.9, 0.05
Z = stats.norm.isf(TAIL)
bad = functools.partial(pytest.raises, InputError)
# By how much the thinned |m| falls short of |m| at most.
MOST_BIAS = -optimize.minimize_scalar(lambda m: -2 * m * stats.norm.cdf(-m / math.sqrt(2)), bracket=(0.5, 1, 2)).fun
near = functools.partial(pytest.approx, rel=CLOSE, abs=1e-13)


def softmax(logits):
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


def softmax_law(rng, n, sharpened=1.0, n_classes=4):
    """What is said, the true probabilities, and labels drawn from them; sharper logits are over-confident."""
    logits = rng.normal(scale=1.5, size=(n, n_classes))
    truth = softmax(logits)
    labels = (truth.cumsum(axis=1) < rng.uniform(size=(n, 1))).sum(axis=1).clip(max=n_classes - 1)
    return softmax(sharpened * logits), truth, labels


# ---------------------------------------------------------------- all classes together


def class_bins(probs, hot, w, n_bins):
    """n, S, Q, V0, G of every bin of every class, G the sum of w^2 (P - y). The scores of a bin are taken as equal."""
    for k in range(probs.shape[1]):
        bins = np.array([next(j for j in range(n_bins) if x <= (j + 1) / n_bins) for x in probs[:, k]])
        for b in np.unique(bins):
            i = bins == b
            p, y, q = probs[i, k], hot[i, k], w[i] ** 2
            P = np.average(p, weights=w[i])
            S, Q, V0 = np.sum(w[i] * (P - y)), np.sum(q * (P - y) ** 2), q.sum() * P * (1 - P)
            yield w[i].sum() ** 2 / q.sum(), S, Q, V0, np.sum(q * (p - y))


def class_places(probs, n_bins):
    """Each score's place among the filled bins of all classes."""
    bins = np.ceil(probs * n_bins).astype(int).clip(1, n_bins) - 1 + n_bins * np.arange(probs.shape[1])
    return np.unique(bins, return_inverse=True)[1].reshape(bins.shape)


def class_dependence(probs, w, n_bins):
    """1 + sum r^2 s s' / sum s^2 over pairs of bins, from the covariance of one-hot outcomes."""
    places, q = class_places(probs, n_bins), w**2
    covariance = np.zeros((places.max() + 1,) * 2)
    for p, own, weight in zip(probs, places, q, strict=True):
        covariance[np.ix_(own, own)] += weight * (np.diag(p) - np.outer(p, p))
    s = np.sqrt(np.diag(covariance))
    ratio = covariance**2 / np.outer(s, s)
    return 1 + (ratio.sum() - np.trace(ratio)) / np.sum(s**2)


def classes_ends(probs, hot, w, n_bins, dependence):
    """The mean error and the ends of its interval, not gated: the l1 formulas.

    ``dependence`` widens every variance; None if a row has one class, and the rows tell how sums over classes vary.
    """
    n, S, Q, V0, G = np.array(list(class_bins(probs, hot, w, n_bins))).T
    total = probs.shape[1] * w.sum()
    noise = class_dependence(probs, w, n_bins) if dependence is None else dependence

    def spread(f):
        if dependence is None:
            psi = np.sum(f[class_places(probs, n_bins)] * (probs - hot), axis=1)
            unseen = np.sum(f**2 * np.maximum(v - Q, 0))
            return math.sqrt(np.sum(w**2 * (psi - np.average(psi, weights=w)) ** 2) + unseen)
        m = np.sum(f * S) / w.sum()
        return math.sqrt(max(0, dependence * np.sum(v * f**2) - 2 * m * np.sum(f * G) + m**2 * np.sum(w**2)))

    v = (n * Q + 5 * V0) / (n + 5)
    X, W = S / np.sqrt(v), np.sqrt(V0)
    g, slope = X * (2 * stats.norm.cdf(X) - 1) - 2 * stats.norm.pdf(X), 2 * stats.norm.cdf(X) - 1
    slope = slope + 4 * X * stats.norm.pdf(X)
    low = np.sum(np.sqrt(v) * g) - Z * spread(slope)
    first = np.abs(S).sum() + Z * spread(np.sign(S))
    A, V, h = np.sum((S**2 - Q) / W), noise * 2 * np.sum(np.maximum(v, V0) ** 2 / V0), np.maximum(S**2 - Q, 0)
    rho = (dependence or 2) * max(np.sum(h * v / V0) / np.sum(h / W), v.sum() / W.sum())
    root = math.sqrt(max(0, 4 * Z**2 * rho * A + 4 * Z**4 * rho**2 + Z**2 * V))
    second = math.sqrt(W.sum() * max(0, A + 2 * Z**2 * rho + root))
    third = np.sum(np.sqrt(v) * (g + MOST_BIAS)) + Z * spread(slope)
    assert np.sqrt(v).sum() >= 2 * spread(np.sign(S))  # enough bins for it
    value = np.abs(S).sum()
    return value / total, low / total, max(value, min(first, second, third)) / total


@pytest.mark.covering
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("notion", ["top-label", "classwise", "multilabel"])
@pytest.mark.parametrize("sharpened", [1.0, 2.5])
def test_classwise_interval_is_its_formula(sharpened, notion, weighted):
    rng = np.random.default_rng(1)
    probs, _, labels = softmax_law(rng, 250, sharpened)
    w, hot = rng.uniform(0.3, 2, 250) if weighted else np.ones(250), np.eye(4, dtype=int)[labels]
    weights = w if weighted else None
    targets = hot if notion == "multilabel" else labels
    found = evaluate(probs, targets, notion=notion, weights=weights, n_bins=10, level=LEVEL, n_resamples=0)[
        "classwise_ece"
    ]
    value, low, high = classes_ends(probs, hot, w, 10, 4 if notion == "multilabel" else None)
    assert found.value == near(value)
    assert found.low == near(max(low, 0) if found.p_value <= TAIL else 0)
    assert found.high == near(high)
    assert (found.low > 0) == (sharpened > 1)
    assert ("variances times 4" in found.method) == (notion == "multilabel")


def test_classwise_value_is_the_mean_of_the_classes_own():
    rng = np.random.default_rng(2)
    probs, _, labels = softmax_law(rng, 300, 2.0)
    own = [evaluate(probs[:, k], labels == k, n_resamples=0) for k in range(4)]
    report = evaluate(probs, labels, notion="classwise", level=LEVEL, n_resamples=20)
    for name, combine in (("ece", np.mean), ("ace", np.mean), ("smece", np.mean), ("miscalibration", np.mean)):
        assert report[name].value == near(combine([one[name].value for one in own]))
    assert report["rmsce"].value == near(math.sqrt(np.mean([one["rmsce"].value ** 2 for one in own])))
    assert report["mce"].value == near(np.nanmax([one["mce"].value for one in own]))
    for name in ("ece", "ace", "classwise_ece"):
        assert report[name].low <= report[name].value <= report[name].high
        assert report[name].floor.mean < report[name].floor.upper
    for name in ("smece", "rmsce", "mce", "ks", "miscalibration"):
        assert report[name].method.startswith("no interval: no method is known for the mean of this measure over")
    errors = [one["ece"].value for one in own]
    assert report["ece"].details["per_class"] == near(errors)
    assert report.classwise.errors == near(errors)
    top = evaluate(probs, labels, class_names=["a", "b", "c", "d"], n_resamples=20)["classwise_ece"]
    assert top.value == near(np.mean(errors))
    assert top.details["worst_class"] == "abcd"[int(np.argmax(errors))]
    assert top.details["worst"] == near(max(errors))


def test_classwise_floor_is_that_of_binomial_counts():
    probs, _, labels = softmax_law(np.random.default_rng(3), 400)
    expected, variance = 0.0, 0.0
    for k in range(4):
        bins = np.minimum(np.ceil(probs[:, k] * 15).astype(int) - 1, 14)
        for b in np.unique(bins):
            n, P = np.sum(bins == b), probs[bins == b, k].mean()
            law = stats.binom(n, P)
            mean = law.expect(lambda j, n=n, P=P: abs(j - n * P))
            expected, variance = expected + mean, variance + law.var() - mean**2
    first, second = (evaluate(probs, labels, level=LEVEL, n_resamples=k)["classwise_ece"] for k in (0, 1000))
    sd = math.sqrt(class_dependence(probs, np.ones(400), 15) * variance) / 1600
    assert first.floor.mean == pytest.approx(expected / 1600, rel=1e-9)
    assert first.floor.upper == pytest.approx(expected / 1600 + stats.norm.ppf(LEVEL) * sd, rel=1e-6)
    # Means of 1,000 draws are off by 5 / sqrt(1000) of their deviation, the quantile by 1.71 times that.
    assert second.floor.mean == pytest.approx(first.floor.mean, abs=0.16 * sd)
    assert second.floor.upper == pytest.approx(first.floor.upper, abs=0.32 * sd)
    assert second.p_value == pytest.approx(first.p_value, abs=5 * 0.5 / math.sqrt(1000) + 0.02)
    assert (second.low, second.high) == (first.low, first.high)


@functools.cache
def class_truth(sharpened, n_bins=15):
    """The binned error of every class in the population: from 400,000 rows with their true probabilities."""
    probs, truth, _ = softmax_law(np.random.default_rng(4), 400_000, sharpened)
    bins = np.clip(np.ceil(probs * n_bins).astype(int) - 1, 0, n_bins - 1)
    gaps = [np.bincount(bins[:, k], (probs - truth)[:, k], n_bins) for k in range(probs.shape[1])]
    return float(np.abs(gaps).sum() / probs.size)


@pytest.mark.slow
@pytest.mark.parametrize("sharpened", [1.0, 2.0])
@pytest.mark.parametrize("notion", ["top-label", "classwise"])
def test_classwise_coverage(sharpened, notion):
    rng, runs, truth = np.random.default_rng(5), 80, class_truth(sharpened) if sharpened > 1 else 0.0
    covered, rejected = [], []
    for _ in range(runs):
        probs, _, labels = softmax_law(rng, 400, sharpened)
        found = evaluate(probs, labels, notion=notion, level=LEVEL, n_resamples=0)["classwise_ece"]
        covered.append(found.low <= truth <= found.high)
        rejected.append(found.p_value <= 0.1)
    error = 4 * math.sqrt(LEVEL * (1 - LEVEL) / runs)
    assert np.mean(covered) >= LEVEL - error
    if sharpened == 1:
        assert np.mean(rejected) <= 0.1 + error
    else:
        assert np.mean(rejected) > 0.9


def test_labels_may_depend_on_one_another():
    """Four copies of one label say what one says: the interval is not narrower, but for pooling scores within bins."""
    p, y = draw(6, 400, 2.0)
    one = evaluate(p, y, level=LEVEL, n_resamples=0)["ece"]

    def copies(k):
        tiled = np.tile(p[:, None], k), np.tile(y[:, None], k)
        return evaluate(*tiled, notion="multilabel", level=LEVEL, n_resamples=0)["ece"]

    four = copies(4)
    assert four.value == near(one.value)
    # V0 of pooled scores is larger by their variance within a bin of width 1 / 15, w^2 / 12: by 1 % at the ends.
    assert (four.low, four.high) == pytest.approx((one.low, one.high), rel=0.03)
    assert (four.floor.mean, four.floor.upper) == pytest.approx((one.floor.mean, one.floor.upper), rel=0.03)
    assert four.p_value == pytest.approx(one.p_value, abs=0.01)
    assert (copies(2).low, copies(2).high) == pytest.approx((four.low, four.high), rel=1e-9)


def test_labels_judged_on_different_rows():
    rng, p_values, covered = np.random.default_rng(7), [], []
    for _ in range(20):
        probs = rng.uniform(size=(500, 2))
        targets = (rng.uniform(size=(500, 2)) < probs).astype(int)
        targets[100:, 1] = -1  # the second label is known of 100 rows only
        found = evaluate(probs, targets, notion="multilabel", ignore_index=-1, level=LEVEL, n_resamples=0)["ece"]
        p_values.append(found.p_value)
        assert found.floor.mean == pytest.approx(found.value, rel=0.6)
        covered.append(found.high > found.value)
    assert np.mean(np.array(p_values) <= 0.1) <= 0.1 + 4 * math.sqrt(0.09 / 20)
    assert all(covered)


def test_a_class_that_never_comes_changes_nothing_but_the_mean():
    probs, _, labels = softmax_law(np.random.default_rng(8), 300)
    first = evaluate(probs, labels, n_resamples=20)["classwise_ece"]
    wide = evaluate(np.column_stack([probs, np.zeros(300)]), labels, n_resamples=20)["classwise_ece"]
    for name in ("value", "high", "low"):
        assert getattr(wide, name) == near(getattr(first, name) * 4 / 5)
    assert wide.floor.mean == near(first.floor.mean * 4 / 5)
    assert wide.details["without_targets"] == 1


def test_a_label_that_is_never_judged_is_left_out():
    rng = np.random.default_rng(9)
    probs = rng.uniform(size=(300, 3))
    targets = (rng.uniform(size=(300, 3)) < probs**2).astype(int)
    targets[:, 1] = -1
    options = {"notion": "multilabel", "ignore_index": -1, "level": LEVEL, "n_resamples": 40}
    found, own = (evaluate(probs[:, i], targets[:, i], **options) for i in (np.arange(3), [0, 2]))
    for name in ("ece", "ace"):
        assert (found[name].value, found[name].floor.mean) == near((own[name].value, own[name].floor.mean))
        assert found[name].p_value == near(own[name].p_value)
        assert math.isnan(found[name].details["per_class"][1])
        # Three labels might depend on one another more than two: variances times 3, not 2.
        assert own[name].high <= found[name].high <= own[name].value + 1.5 * (own[name].high - own[name].value)
        assert 0 < found[name].low <= own[name].low


# ---------------------------------------------------------------- groups


def predictions_of(layout, rng, n=240):
    if layout == "binary":
        return (*draw(10, n, 1.5), {})
    probs, _, labels = softmax_law(rng, n, 1.5)
    if layout == "multilabel":
        return probs, (rng.uniform(size=probs.shape) < probs).astype(int), {"notion": "multilabel"}
    if layout == "logits":
        return np.log(probs), labels, {"logits": True, "notion": "classwise"}
    return probs.astype(np.float32), labels, {"class_names": list("abcd")}


def rows_of(x, i):
    return x[i] if isinstance(x, np.ndarray) else x


@pytest.mark.parametrize("options", ["plain", "weights", "ignore_index", "both"])
@pytest.mark.parametrize("layout", ["binary", "multiclass", "logits", "multilabel"])
@pytest.mark.slow
def test_a_group_s_report_is_that_of_its_rows(layout, options):
    rng = np.random.default_rng(11)
    probs, targets, given = predictions_of(layout, rng)
    groups = np.array(["north", "south", "west"])[rng.choice(3, len(probs), p=[0.5, 0.4, 0.1])]
    if options in ("weights", "both"):
        given["weights"] = rng.uniform(0.2, 2, len(probs))
    if options in ("ignore_index", "both"):
        targets = targets.copy()
        targets[rng.uniform(size=len(probs)) < 0.2] = -1
        given["ignore_index"] = -1
    report = evaluate(probs, targets, groups=groups, n_resamples=30, rng=3, **given)
    assert {group.name for group in report.groups} == {"north", "south", "west"}
    for group in report.groups:
        own = {name: rows_of(x, groups == group.name) for name, x in given.items()}
        alone = evaluate(probs[groups == group.name], targets[groups == group.name], n_resamples=30, rng=3, **own)
        assert group.report.to_dict() == alone.to_dict()
        assert (group.n, group.test) == (alone.n, alone.test)
        summary, whole = group.to_dict(whole=False), group.to_dict()
        few = summary.pop("report")
        del few["not_finite"]
        if alone.diagram is not None:
            few["diagram"] |= {name: whole["report"]["diagram"][name] for name in ("band_lows", "band_highs")}
        assert few == {name: whole["report"][name] for name in ("n", "test", "diagram")}
        assert summary == {name: whole[name] for name in summary}
        plain = alone.to_dict()["estimates"]
        assert (whole["ece"], whole["mean_gap"]) == (plain["ece"], plain["mean_gap"])
        assert (group["ece"], group["mean_gap"], group["brier"]) == (group.ece, group.mean_gap, group.report["brier"])
        assert group.flag == ("" if alone.n >= LEAST_GROUP else "fewer than 30 rows, too few for a test")
    plain = evaluate(probs, targets, n_resamples=30, rng=3, **given)
    assert replace(report, groups=(), multicalibration=None).to_dict() == plain.to_dict()


def test_holm_by_hand():
    assert holm([]) == []
    assert holm([0.03]) == [0.03]
    # Ranked .01, .02, .03, .04 times 4, 3, 2, 1, and none smaller than the one before: .04, .06, .06, .06.
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.5, 0.001, 0.4]) == pytest.approx([0.8, 0.003, 0.8])
    assert holm([0.9, 0.8]) == [1, 1]
    assert holm([0.02, 0.02]) == pytest.approx([0.04, 0.04])


@pytest.mark.parametrize("n_resamples", [0, 60])
def test_a_planted_bad_group_is_called_out_and_no_other(n_resamples):
    rng = np.random.default_rng(12)
    groups = rng.integers(0, 25, 5000)
    p = rng.uniform(size=5000)
    y = (rng.uniform(size=5000) < np.where(groups == 7, 0.5, p)).astype(int)
    report = evaluate(p, y, groups=groups, n_resamples=n_resamples)
    assert [group.name for group in report.groups if group.called_out] == ["7"]
    p_values = {group.name: group.p_value for group in report.groups}
    assert [group.adjusted_p_value for group in report.groups] == holm(list(p_values.values()))
    assert p_values["7"] < 1e-3  # in closed form: 60 resamples alone know none below 1 / 61, times 25
    for group in report.groups:
        if group.p_value > 1 / 61:
            assert group.p_value == group.report.test.p_value
        assert group.called_out == (group.adjusted_p_value <= 1 - 0.95)


@pytest.mark.slow
def test_calibrated_groups_are_seldom_called_out():
    families = 40
    called = []
    for seed in range(families):
        rng = np.random.default_rng(300 + seed)
        p = rng.uniform(size=400)
        y = (rng.uniform(size=400) < p).astype(int)
        report = evaluate(p, y, groups=np.arange(400) % 4, level=LEVEL, n_resamples=0)
        called.append(any(group.called_out for group in report.groups))
    assert np.mean(called) <= 0.1 + 4 * math.sqrt(0.09 / families)


def test_small_groups_are_flagged_and_not_tested():
    p, y = np.full(400, 0.9), np.zeros(400, int)
    groups = np.repeat(["few", "many", "none"], [29, 341, 30])
    y[-30:] = -1
    report = evaluate(p, y, groups=groups, ignore_index=-1, n_resamples=20)
    many, few = report.groups  # those without a test come last; a group of which no row is judged is left out
    assert (few.name, few.flag, few.called_out) == ("few", "fewer than 30 rows, too few for a test", False)
    assert math.isnan(few.p_value)
    assert math.isnan(few.adjusted_p_value)
    assert few.report["ece"].value == pytest.approx(0.9)
    assert (many.flag, many.called_out) == ("", True)
    assert many.adjusted_p_value == many.p_value  # a family of one
    plain = report.to_dict()["groups"]
    assert plain[1]["p_value"] is plain[1]["adjusted_p_value"] is None
    assert plain[0]["p_value"] == many.p_value
    assert [group["report"]["n"] for group in plain] == [341, 29]
    assert '"called_out": true' in report.to_json()


def test_without_a_level_groups_have_values_and_no_verdict():
    p, y = draw(13, 200, 0.2)
    report = evaluate(p, y, groups=np.arange(200) % 2, level=None)
    for group in report.groups:
        assert math.isnan(group.p_value)
        assert not group.called_out
        assert group.report.level is None
        assert group.report["ece"].value > 0


def a_test(p_value, variance, closed_form=None, least=None):
    """A group's test; its p-value by n more resamples is n, and by an exact law 0.5."""
    details = {} if least is None else {"closed_form_p_value": closed_form, "least_p_value": least}
    test = TestResult(1.0, p_value, "a test", 100, details)
    return GroupTest(test=test, variance=variance, redrawn=float, exact=lambda: 0.5)


def test_the_p_value_of_a_group_is_fine_enough_for_its_family():
    assert a_test(0.01, 50, 1e-9, 0.01).p_value(20, 0.05) == 1e-9  # what resamples cannot resolve
    assert a_test(0.02, 50, 1e-9, 0.01).p_value(20, 0.05) == 0.02
    assert a_test(0.01, 50, 0.3, 0.01).p_value(20, 0.05) == 0.01
    assert a_test(0.004, 50).p_value(20, 0.05) == 0.004
    # In a sparse group the closed form is false: more resamples, 4 m / alpha of them, or without any the exact law.
    assert a_test(0.01, 2, 1e-9, 0.01).p_value(20, 0.05) == 1600
    assert a_test(0.01, 2, 1e-9, 0.01).p_value(1, 0.1) == 0.01  # fine enough
    assert a_test(0.02, 2, 1e-9, 0.01).p_value(20, 0.05) == 0.02
    assert a_test(1e-12, 2).p_value(20, 0.05) == 0.5


ROWS = ([0.01] * 40, [0.99] * 30 + [0.002] * 20, [0.1, 0.2, 0.95, 0.5, 0.7], [0.0, 1.0, 0.3])


@pytest.mark.parametrize("scores", ROWS)
def test_the_exact_law_of_the_number_of_outcomes(scores):
    """Against the convolution of single rows, with scores above 1/2 counted as failures."""
    p = np.array(scores)
    law = functools.reduce(np.convolve, [[1 - q, q] for q in p])
    offset = np.sum(p > 0.5)
    for hits in range(len(p) + 1):
        y = np.zeros(len(p), int)
        y[:hits] = 1
        events = y[p <= 0.5].sum() - (1 - y)[p > 0.5].sum() + offset  # the outcomes in all
        far = np.abs(np.arange(len(p) + 1) - p.sum()) >= abs(events - p.sum()) - 1e-9
        table = calibrant.ReliabilityTable.from_scores(p, y)
        assert count_p_value(SamplingDesign(Cells.from_table(table))) == pytest.approx(
            min(law[far].sum(), 1), rel=1e-9, abs=1e-15
        )
    weighted = calibrant.ReliabilityTable.from_scores(p, y, weights=np.linspace(0.5, 1.5, len(p)))
    assert math.isnan(count_p_value(SamplingDesign(Cells.from_table(weighted))))


def sparse_family(rng, n_groups, rows, p):
    scores = np.full(n_groups * rows, p) if np.isscalar(p) else rng.beta(*p, n_groups * rows)
    return scores, (rng.uniform(size=len(scores)) < scores).astype(int), np.repeat(np.arange(n_groups), rows)


@pytest.mark.slow
@pytest.mark.parametrize("n_resamples", [0, 100])
@pytest.mark.parametrize(("n_groups", "rows", "p"), [(20, 60, (1, 40)), (100, 40, 0.01)])
def test_sparse_groups_are_seldom_called_out(n_groups, rows, p, n_resamples):
    """The closed form called out a group in 14 % and in most of these calibrated families."""
    rng, families, called = np.random.default_rng(30), 20, 0
    for _ in range(families):
        scores, outcomes, groups = sparse_family(rng, n_groups, rows, p)
        report = evaluate(scores, outcomes, groups=groups, n_resamples=n_resamples, measures=["ece"])
        called += any(group.called_out for group in report.groups)
    assert called <= stats.binom.isf(1e-4, families, 0.05)


def test_sparse_groups_without_a_law_are_not_called_out():
    rng = np.random.default_rng(31)
    scores, outcomes, groups = sparse_family(rng, 3, 60, 0.01)
    outcomes[:40] = 1  # the first group is far off
    weights = rng.uniform(0.5, 2, len(scores))
    report = evaluate(scores, outcomes, groups=groups, weights=weights, n_resamples=0)
    flag = "too few events are expected for a test without simulated data sets: pass n_resamples=1000"
    for group in report.groups:
        assert (group.flag, group.called_out) == (flag, False)
        assert math.isnan(group.p_value)
    assert evaluate(scores, outcomes, groups=groups, weights=weights).groups[0].called_out
    assert evaluate(scores, outcomes, groups=groups, n_resamples=0).groups[0].called_out


@pytest.mark.parametrize("notion", ["classwise", "multilabel"])
def test_a_bad_group_of_many_is_called_out_by_its_classes_too(notion):
    rng = np.random.default_rng(14)
    probs, _, labels = softmax_law(rng, 3000)
    groups = np.arange(3000) % 30
    targets = np.eye(4, dtype=int)[labels] if notion == "multilabel" else labels
    probs[groups == 4] = np.roll(probs[groups == 4], 1, axis=1)
    report = evaluate(probs, targets, notion=notion, groups=groups, n_resamples=99)
    assert report.groups[4].called_out


NAMES = np.array(["a", "b"])[np.arange(90) % 2]
COLUMNS = {
    "strings": (NAMES, ["a", "b"]),
    "list": (list(NAMES), ["a", "b"]),
    "objects": (NAMES.astype(object), ["a", "b"]),
    "integers": (np.arange(90) % 2 + 9, ["9", "10"]),
    "whole floats": ((np.arange(90) % 2) * 1.0, ["0", "1"]),
    "floats": ((np.arange(90) % 2) * 0.5, ["0", "0.5"]),
    "booleans": (NAMES == "b", ["False", "True"]),
    "pandas categorical": (pd.Categorical(NAMES, categories=["b", "a", "never"]), ["a", "b"]),
    "pandas series": (pd.Series(NAMES, dtype="category", index=np.arange(90)[::-1]), ["a", "b"]),
    "pandas strings": (pd.Series(NAMES, dtype="string"), ["a", "b"]),
    "polars categorical": (pl.Series(NAMES).cast(pl.Categorical), ["a", "b"]),
    "dates": (np.array(["2020-01-01", "2021-01-01"], "datetime64[D]")[np.arange(90) % 2], ["2020-01-01", "2021-01-01"]),
    "a column": (NAMES[:, None], ["a", "b"]),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_names_of_groups(kind):
    groups, names = COLUMNS[kind]
    p, y = draw(15, 90)
    report = evaluate(p, y, groups=groups, level=None)
    assert [group.name for group in report.groups] == names
    for k, group in enumerate(report.groups):
        expected = calibrant.expected_calibration_error(p[k::2], y[k::2])
        assert group.ece.value == group.report["ece"].value == pytest.approx(expected, rel=1e-14)


def missing(kind):
    some = list(NAMES[1:])
    return {
        "None": [None, *some],
        "object nan": np.array([math.nan, *some], dtype=object),
        "float nan": np.array([math.nan] + [1.0] * 89),
        "categorical": pd.Categorical([None, *some]),
        "pandas NA": pd.Series([None, *some], dtype="string"),
        "polars null": pl.Series([None, *some]),
        "NaT": np.array(["NaT"] + ["2021-01-01"] * 89, "datetime64[D]"),
        "nan among strings": [math.nan, *some],
    }[kind]


@pytest.mark.parametrize(
    "kind", ["None", "object nan", "float nan", "categorical", "pandas NA", "polars null", "NaT", "nan among strings"]
)
def test_a_missing_name_is_an_error(kind):
    p, y = draw(16, 90)
    with bad(match="groups: expected a name in every row, got a missing value at row 0; "):
        evaluate(p, y, groups=missing(kind), level=None)


def test_groups_of_pandas_stand_in_their_own_order():
    pd = pytest.importorskip("pandas")
    p, y = draw(5, 90)
    ages, months = np.tile([7, 35, 120], 30), pd.period_range("2024-11", periods=3, freq="M")
    sizes = pd.Categorical.from_codes(np.tile([2, 0, 1], 30), ["small", "medium", "large"], ordered=True)
    cut = pd.cut(pd.Series(ages), [0, 9, 99, 999])
    known = {
        "intervals": (cut, ["(0, 9]", "(9, 99]", "(99, 999]"]),
        "an array of intervals": (pd.arrays.IntervalArray(cut), ["(0, 9]", "(9, 99]", "(99, 999]"]),
        "periods": (pd.Series(np.tile(months, 30)), ["2024-11", "2024-12", "2025-01"]),
        "an index of periods": (pd.PeriodIndex(np.tile(months, 30)), ["2024-11", "2024-12", "2025-01"]),
        "sizes": (sizes, ["small", "medium", "large"]),
        "a series of sizes": (pd.Series(sizes), ["small", "medium", "large"]),
        "numbers": (pd.Categorical(ages, [120, 7, 35], ordered=True), ["120", "7", "35"]),
        "without an order": (pd.Categorical(np.tile(["b", "a", "c"], 30)), ["a", "b", "c"]),
        "numbers without an order": (pd.Categorical(ages, [120, 7, 35]), ["7", "35", "120"]),
        "days": (np.tile(np.array(["2024-02-01", "2024-01-01"], "M8[D]"), 45), ["2024-01-01", "2024-02-01"]),
    }
    for kind, (column, names) in known.items():
        report = evaluate(p, y, groups=column, level=None)
        found = [group.name for group in report.groups]
        assert (sorted(found) if kind == "without an order" else found) == names, kind
        plain = np.array([str(name) for name in column])
        for group in report.groups:
            assert group.n == np.count_nonzero(plain == group.name), kind
    for column in (cut.where(ages != 35), pd.Series(sizes).where(ages != 7)):
        with pytest.raises(InputError, match=r"groups: expected a name in every row, got a missing value at row [01];"):
            evaluate(p, y, groups=column)
    with pytest.raises(InputError, match=r"groups: expected 90 names, one for each prediction, got shape \(60,\)"):
        evaluate(p, y, groups=sizes[:60])


def test_errors_about_groups():
    p, y = draw(17, 90)
    remedy = "pass the column with the group of each row"
    with bad(match=rf"groups: expected 90 names, one for each prediction, got shape \(89,\); {remedy}"):
        evaluate(p, y, groups=NAMES[:89])
    with bad(match=r"groups: expected 90 names, one for each prediction, got shape \(90, 2\)"):
        evaluate(p, y, groups=np.stack([NAMES, NAMES], axis=1))
    with bad(match="groups: expected an array, got a str; pass an array, a column or a list"):
        evaluate(p, y, groups="region")
    with bad(match=r"groups: expected 90 names, one for each prediction, got shape \(\)"):
        evaluate(p, y, groups={"a": 1})
    table = calibrant.ReliabilityTable.from_scores(p, y)
    with bad(
        match=(
            "groups: expected no value with a ReliabilityTable, got a value; leave it out, because the table contains"
        )
    ):
        evaluate(table, groups=NAMES)


def test_more_groups_than_can_be_judged_are_refused_at_once() -> None:
    n = 10_001
    with pytest.raises(
        InputError, match="groups: expected at most 10,000 different names, got 10,001; pass a column with"
    ):
        evaluate(np.full(n, 0.5), np.arange(n) % 2, groups=np.arange(n), level=None)
