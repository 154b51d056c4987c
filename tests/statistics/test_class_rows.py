"""How much sums over the bins of all classes vary, by their rows: against naive sums, closed forms and simulation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

import calibrant
from calibrant.inputs.predictions import as_predictions
from calibrant.kernels import host, reference
from calibrant.kernels.compensated import joined
from calibrant.measures.binned.binned import largest_members, uniform_edges
from calibrant.report import evaluated_data
from calibrant.statistics.class_rows import ClassRows


def rows_of(probs: Any, targets: Any, n_bins: int = 15, **options: Any) -> ClassRows:
    predictions = as_predictions(probs, targets, notion="top-label", **options)
    return ClassRows(predictions, largest_members(uniform_edges(n_bins), "right", predictions.rows.dtype))


def drawn(n: int, n_classes: int, seed: int = 0, *, tilt: float = 1.0) -> tuple[Any, Any]:
    """Softmax scores and labels; the scores are those of the labels' law if the tilt is 1."""
    rng = np.random.default_rng([seed, n, n_classes])
    logits = 2 * rng.standard_normal((n, n_classes))
    rates = softmax(logits, axis=1)
    labels = (np.cumsum(rates, axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=n_classes - 1)
    return softmax(tilt * logits, axis=1), labels


# ---------------------------------------------------------------- the loop


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_bins", [1, 7, 15])
def test_slope_rows_equals_its_reference(dtype: str, n_bins: int) -> None:
    rng = np.random.default_rng(n_bins)
    p = rng.random((40, 5)).astype(dtype)
    p[:12, 0] = np.linspace(0, 1, 12)  # the ends, and some edges
    p[12:20, 1] = (np.arange(8) / n_bins).clip(max=1)
    uppers = largest_members(uniform_edges(n_bins), "right", p.dtype)
    y, q, w = rng.integers(0, 5, 40), rng.random(40), rng.random(40)
    slopes = rng.standard_normal((3, 5 * n_bins))
    fast, slow = np.zeros((2, 2, 3, 5))
    host.slope_rows(p, y, q, w, uppers, slopes, fast)
    reference.slope_rows(p, y, q, w, uppers, slopes, slow)
    np.testing.assert_allclose(joined(fast), joined(slow), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n_classes", [3, 10, 150])
def test_neither_rows_nor_classes_in_another_order_change_a_bit(n_classes: int) -> None:
    """So nothing hangs on the order in which the linear algebra of a processor adds products."""
    probs, targets = drawn(300, n_classes)
    weights, found = np.random.default_rng(1).uniform(0.3, 3, 300), set()
    for seed in range(6):
        rng = np.random.default_rng(seed)
        rows, classes = rng.permutation(300), rng.permutation(n_classes)
        found.add(
            rows_of(probs[rows][:, classes], np.argsort(classes)[targets[rows]], weights=weights[rows]).dependence
        )
    assert len(found) == 1
    assert found.pop() > 1


# ---------------------------------------------------------------- the variance of a sum


@pytest.mark.parametrize("kind", ["plain", "weights", "whole weights", "logits", "ignored", "images"])
def test_the_variance_is_that_of_what_rows_add(kind: str) -> None:
    probs, targets = drawn(240, 6, tilt=1.5)
    rng = np.random.default_rng(1)
    given: Any = probs
    options: dict[str, Any] = {}
    weights, keep = np.ones(240), np.ones(240, bool)
    if kind == "weights":
        weights = options["weights"] = rng.random(240) + 0.1
    if kind == "whole weights":
        weights = options["weights"] = rng.integers(0, 3, 240).astype(float)
        keep = weights > 0
    if kind == "logits":
        given, options["logits"] = np.log(probs), True
    if kind == "ignored":
        targets = np.where(np.arange(240) % 5 == 0, -1, targets)
        keep, options["ignore_index"] = targets >= 0, -1
    if kind == "images":
        given, targets = probs.reshape(12, 20, 6).transpose(0, 2, 1), targets.reshape(12, 20)
    rows = rows_of(given, targets, **options)
    slopes = rng.standard_normal((2, 6 * 15))
    flat = np.ravel(targets)
    bins = np.ceil(probs * 15).astype(int).clip(1, 15) - 1
    gaps = probs - (np.arange(6) == flat[:, None])
    for f, found in zip(slopes, rows.variances(slopes), strict=True):
        psi = np.sum(f.reshape(6, 15)[np.arange(6), bins] * gaps, axis=1)[keep]
        w = weights[keep]
        q = w if kind == "whole weights" else w**2
        expected = np.sum(q * (psi - np.sum(w * psi) / np.sum(w)) ** 2)
        assert found == pytest.approx(expected, rel=1e-6 if kind == "logits" else 1e-12)


# ---------------------------------------------------------------- the dependence of classes


def test_two_classes_are_one_and_many_equal_ones_nearly_independent() -> None:
    """S of two classes are opposite: all covariances are 1. Of C equal classes r = -1 / (C - 1): 1 + 1 / (C - 1)."""
    p = np.linspace(0.02, 0.97, 300)  # none at an edge
    assert rows_of(np.stack([p, 1 - p], axis=1), np.zeros(300, int)).dependence == pytest.approx(2.0)
    for n_classes in (3, 10, 100):
        even = rows_of(np.full((200, n_classes), 1 / n_classes), np.zeros(200, int))
        assert even.dependence == pytest.approx(1 + 1 / (n_classes - 1))
    certain = rows_of(np.eye(3)[np.zeros(50, int)], np.zeros(50, int))
    assert certain.dependence == 1.0


@pytest.mark.parametrize("n_classes", [3, 10])
def test_the_dependence_is_that_of_drawn_labels(n_classes: int) -> None:
    """Labels drawn from the scores: the variance of sum |S| is at most the factor times that of independent bins."""
    probs, _ = drawn(400, n_classes)
    rng = np.random.default_rng(3)
    places = np.ceil(probs * 15).astype(int).clip(1, 15) - 1 + 15 * np.arange(n_classes)
    means = np.bincount(places.ravel(), probs.ravel(), 15 * n_classes)
    upto = np.cumsum(probs, axis=1)
    totals, alone = [], []
    for _ in range(3_000):
        label = (upto < rng.random((400, 1))).sum(axis=1).clip(max=n_classes - 1)
        totals.append(np.abs(means - np.bincount(places[np.arange(400), label], minlength=15 * n_classes)).sum())
        own = np.bincount(places.ravel(), (rng.random(probs.shape) < probs).ravel(), 15 * n_classes)
        alone.append(np.abs(means - own).sum())
    ratio = np.var(totals) / np.var(alone)
    factor = rows_of(probs, np.zeros(400, int)).dependence
    noise = 4 * math.sqrt(4 / 3_000)
    assert ratio * (1 - noise) < factor < ratio * (1.2 + noise)


def test_the_order_of_rows_plays_no_part() -> None:
    probs, targets = drawn(3_000, 5)
    order = np.random.default_rng(0).permutation(3_000)
    one, other = rows_of(probs, targets), rows_of(probs[order], targets[order])
    assert one.dependence == pytest.approx(other.dependence, rel=1e-12)
    assert 1 < one.dependence < 1.6
    slopes = np.random.default_rng(1).standard_normal((2, 75))
    np.testing.assert_allclose(one.variances(slopes), other.variances(slopes), rtol=1e-12)


@pytest.mark.parametrize("logits", [False, True])
def test_the_last_bits_of_scores_choose_no_other_rows(logits: bool) -> None:
    """Scores of two processors differ in their last bits; 512 other rows would move the factor by about 1e-4."""
    probs, targets = drawn(3_000, 5)
    given = np.log(probs) if logits else probs
    expected = rows_of(given, targets, logits=logits).dependence
    for seed in range(20):
        near = given * (1 + 1e-15 * np.random.default_rng(seed).standard_normal(given.shape))
        assert rows_of(near, targets, logits=logits).dependence == pytest.approx(expected, rel=1e-12)


def test_threads_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    probs, targets = drawn(200_000, 4)
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv("CALIBRANT_NUM_THREADS", threads)
        rows = rows_of(probs, targets)
        found.append((rows.dependence, rows.variances(np.ones((1, 60))).tolist()))
    assert found[0] == found[1]


# ---------------------------------------------------------------- in the report


def test_rows_give_a_nearer_interval_than_their_sketch() -> None:
    """A sketch does not know which rows are in which bins of several classes: it doubles variances."""
    probs, targets = drawn(4_000, 10, tilt=1.6)
    rows = calibrant.evaluate(probs, targets, n_resamples=0)["classwise_ece"]
    sketch = calibrant.CalibrationSketch(classwise=True)
    sketch.update(probs, targets)
    sums = calibrant.evaluate(sketch, n_resamples=0)["classwise_ece"]
    assert rows.high - rows.low < 0.95 * (sums.high - sums.low)
    assert rows.low > sums.low
    assert "variances times 2" in sums.method
    assert "times" not in rows.method
    assert rows.floor.mean == pytest.approx(sums.floor.mean, rel=1e-6)
    assert rows.floor.upper < sums.floor.upper


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [3, 40])
def test_calibrated_classes_cannot_have_a_nearer_interval_that_holds_value_and_truth(n_classes: int) -> None:
    """The value alone is 0.34 sqrt(d) sampling intervals above the true 0, d the equal bins that vary as much as these.

    E |S| = sqrt(2 / pi) s and var |S| = (1 - 2 / pi) s^2 of a normal S: 0.798 d s / (2 * 1.96 * 0.603 sqrt(d) s).
    """
    values, highs, bins = [], [], []
    for seed in range(30):
        probs, targets = drawn(2_000, n_classes, seed)
        found = calibrant.evaluate(probs, targets, measures=["classwise_ece"], n_resamples=0)["classwise_ece"]
        places = np.ceil(probs * 15).astype(int).clip(1, 15) - 1 + 15 * np.arange(n_classes)
        variances = np.bincount(places.ravel(), (probs * (1 - probs)).ravel())
        bins.append(np.sum(np.sqrt(variances)) ** 2 / variances.sum())
        values.append(found.value)
        highs.append(found.high)
        assert found.low <= 0.0 <= found.value <= found.high
    ratio = np.mean(values) / (2 * 1.96 * np.std(values))
    # The error of a standard deviation of 30 values is 13 %; dependence of classes widens the sampling interval by 7 %.
    assert ratio == pytest.approx(0.34 * math.sqrt(np.mean(bins)), rel=0.35)
    if n_classes == 40:
        assert np.mean(np.array(highs) == values) > 0.9  # the upper bound itself is lower


@pytest.mark.slow
@pytest.mark.parametrize(("n_classes", "n", "tilt"), [(20, 2_000, 1.2), (20, 5_000, 2.0), (100, 1_000, 1.2)])
def test_the_interval_of_many_classes_covers(n_classes: int, n: int, tilt: float) -> None:
    """Nominal 95 %; the target is the error at the true rates, over the bins of 400,000 rows."""
    place = 15 * np.arange(n_classes)
    sums = np.zeros(15 * n_classes)
    for seed in range(40):
        logits = 2 * np.random.default_rng([1, seed]).standard_normal((10_000, n_classes))
        probs = softmax(tilt * logits, axis=1)
        places = np.ceil(probs * 15).astype(int).clip(1, 15) - 1 + place
        sums += np.bincount(places.ravel(), (probs - softmax(logits, axis=1)).ravel(), 15 * n_classes)
    truth, covered = np.abs(sums).sum() / 400_000 / n_classes, 0
    for seed in range(100):
        found = calibrant.evaluate(
            *drawn(n, n_classes, seed, tilt=tilt), measures=["classwise_ece"], n_resamples=0, rng=seed
        )["classwise_ece"]
        covered += found.low <= truth <= found.high
    assert covered / 100 >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / 100)


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [3, 10, 50])
@pytest.mark.parametrize("n_resamples", [0, 199])
def test_the_size_is_the_nominal_one(n_classes: int, n_resamples: int) -> None:
    """Calibrated softmax scores: with doubled variances 1 to 5 % of the tests rejected at 10 %."""
    sets, rejected = 400, 0
    for seed in range(sets):
        probs, targets = drawn(1_000, n_classes, seed)
        result = calibrant.evaluate(
            probs, targets, measures=["classwise_ece"], n_resamples=n_resamples, rng=seed, level=0.9
        )["classwise_ece"]
        rejected += result.p_value <= 0.1
    noise = math.sqrt(0.09 / sets)
    assert 0.06 - 3 * noise < rejected / sets < 0.1 + 4 * noise


def test_many_classes_are_judged_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four rows of a million classes would take minutes; each class of rows costs as much as one of many rows."""
    wide = np.full((4, 1_000_000), 1e-6)
    report = calibrant.evaluate(wide, [0, 1, 2, 3], n_resamples=0)
    assert report.classwise is None
    assert report["ece"].value == pytest.approx(0.25 - 1e-6)  # ties: class 0 is predicted
    assert "more than 10,000 classes are evaluated only on request" in report["classwise_ece"].details["reason"]
    monkeypatch.setattr(evaluated_data, "MOST_CLASSES", 2)
    rows = np.random.default_rng(0).dirichlet(np.ones(3), 50)
    assert calibrant.evaluate(rows, np.arange(50) % 3).classwise is None
    assert calibrant.evaluate(rows, np.arange(50) % 3, classwise=True).classwise is not None
    assert calibrant.evaluate(rows[:, :2] / rows[:, :2].sum(axis=1)[:, None], np.arange(50) % 2).classwise is not None
