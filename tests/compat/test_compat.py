"""The drop-in functions: against naive loops, against what the originals said, and with the input that newcomers give.

Tolerance: both sides add the same few thousand doubles in another order, 1e-12. Against the originals 1e-6: bensemble
computes in single precision.
"""

from __future__ import annotations

import importlib.util
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calibrant
from calibrant.compat import bensemble, pyhealth, triples
from calibrant.errors import InputError
from tests.examples_of import at_most

NEAR = 1e-12
GOLDEN = Path(__file__).resolve().parents[1] / "golden"
_spec = importlib.util.spec_from_file_location("record_peers", GOLDEN / "record_peers.py")
PEERS = importlib.util.module_from_spec(_spec)
sys.modules["record_peers"] = PEERS
_spec.loader.exec_module(PEERS)
RECORDED = PEERS.load()
CASES = PEERS.cases() | PEERS.real_cases()


# ---------------------------------------------------------------- naive


def right_bin(p, n_bins):
    """Find the bin ((j-1)/M, j/M] of a score, edges rounded to its type, 0 in the first."""
    for j in range(1, n_bins + 1):
        if p <= np.array(j / n_bins, dtype=np.asarray(p).dtype):
            return j - 1
    raise AssertionError(p)


def parts_by_width(scores, n_bins):
    bins = [right_bin(p, n_bins) for p in scores]
    return [[i for i, b in enumerate(bins) if b == k] for k in range(n_bins)]


def parts_by_size(scores, sizes):
    order = sorted(range(len(scores)), key=lambda i: scores[i])
    ends = np.cumsum([0, *sizes])
    return [order[a:b] for a, b in pairwise(ends)]


def shared(scores, outcomes):
    """Give each row the mean outcome of all rows of its score: what a tie is on average over all orders."""
    return [np.mean([o for q, o in zip(scores, outcomes, strict=True) if q == p]) for p in scores]


def naive(scores, outcomes, parts, combine=sum):
    n, terms = len(scores), []
    for part in parts:
        if part:
            gap = abs(np.mean([float(scores[i]) for i in part]) - np.mean([outcomes[i] for i in part]))
            terms.append(gap if combine is max else len(part) / n * gap)
    return combine(terms)


def spread_to_last(n, n_bins):
    """Return N // M rows a bin and one more in each of the last N % M: PyHealth's."""
    return [n // n_bins + (k >= n_bins - n % n_bins) for k in range(n_bins)]


def rest_in_last(n, n_bins):
    """Return N // M rows a bin and the rest in the last: the page's."""
    return [n // n_bins] * (n_bins - 1) + [n - n // n_bins * (n_bins - 1)]


def classes(n, size, seed=0):
    rng = np.random.default_rng([seed, n, size])
    probs = rng.random((n, size)) ** 3
    probs /= probs.sum(axis=1, keepdims=True)
    return probs, rng.integers(0, size, n)


def top(probs, targets):
    return probs.max(axis=1), (probs.argmax(axis=1) == targets).astype(float)


# ---------------------------------------------------------------- values


@pytest.mark.covering
@pytest.mark.parametrize("n", [1, 4, 37, 200])
@pytest.mark.parametrize("size", [2, 3, 10])
@pytest.mark.parametrize("n_bins", [1, 10, 15])
def test_bensemble(n, size, n_bins):
    probs, targets = classes(n, size)
    scores, right = top(probs, targets)
    parts = parts_by_width(scores, n_bins)
    assert bensemble.expected_calibration_error(probs, targets, n_bins) == pytest.approx(naive(scores, right, parts))
    one_hot = np.eye(size)[targets]
    assert bensemble.brier_score(probs, targets) == pytest.approx(((probs - one_hot) ** 2).sum(axis=1).mean(), rel=NEAR)
    for eps in (1e-8, 1e-3, 0):
        loss = -np.log(probs[np.arange(n), targets] + eps).mean()
        assert bensemble.negative_log_likelihood(probs, targets, eps=eps) == pytest.approx(loss, rel=NEAR)
    diagram = bensemble.reliability_diagram(probs, targets, n_bins)
    for k, part in enumerate(parts):
        expected = (scores[part].mean(), right[part].mean(), len(part) / n) if part else ((k + 0.5) / n_bins, 0.0, 0.0)
        found = [diagram[name][k] for name in ("confidences", "accuracies", "proportions")]
        assert found == pytest.approx(expected, rel=NEAR)


@pytest.mark.covering
@pytest.mark.parametrize("n", [1, 4, 37, 200])
@pytest.mark.parametrize("size", [2, 3, 10])
@pytest.mark.parametrize("bins", [1, 10, 20])
@pytest.mark.parametrize("adaptive", [False, True])
def test_pyhealth(n, size, bins, adaptive):
    probs, labels = classes(n, size)

    def error(scores, outcomes):
        sizes = spread_to_last(len(scores), bins)
        parts = parts_by_size(scores, sizes) if adaptive else parts_by_width(scores, bins)
        return naive(scores, outcomes, parts)

    one_hot = np.eye(size, dtype=int)[labels]
    for own in (labels, one_hot):
        found = pyhealth.ece_confidence_multiclass(probs, own, bins, adaptive)
        assert found == pytest.approx(error(*top(probs, labels)), abs=NEAR)
        for threshold in (0, 0.1, 1 / size):
            each = []
            for k in range(size):
                kept = probs[:, k] >= threshold
                if kept.any():
                    each.append(error(probs[kept, k], (labels[kept] == k).astype(float)))
            found = pyhealth.ece_classwise(probs, own, bins, threshold, adaptive)
            assert found == pytest.approx(np.mean(each), abs=NEAR)
        scores, right = top(probs, labels)
        assert pyhealth.brier_top1(probs, own) == pytest.approx(((scores - right) ** 2).mean(), rel=NEAR)
    outcomes = (labels == 1).astype(int)
    expected = error(probs[:, 1], outcomes)
    both, single = np.stack([1 - probs[:, 1], probs[:, 1]], axis=1), probs[:, 1]
    for prob in (single, single[:, None], both):
        for label in (outcomes, outcomes[:, None], *([np.eye(2, dtype=int)[outcomes]] if prob is both else [])):
            assert pyhealth.ece_confidence_binary(prob, label, bins, adaptive) == pytest.approx(expected, abs=NEAR)


def test_pyhealths_classwise_is_the_mean_of_its_binary_errors():
    probs, labels = classes(150, 5)
    for adaptive in (False, True):
        each = [pyhealth.ece_confidence_binary(probs[:, k], labels == k, adaptive=adaptive) for k in range(5)]
        assert pyhealth.ece_classwise(probs, labels, adaptive=adaptive) == pytest.approx(np.mean(each), rel=NEAR)


@pytest.mark.parametrize("n", [1, 4, 37, 200])
@pytest.mark.parametrize("n_bins", [1, 10, 15])
def test_triples(n, n_bins):
    probs, labels = classes(n, 4)
    scores, right = top(probs, labels)
    predictions = probs.argmax(axis=1)
    parts = parts_by_width(scores, n_bins)
    ece, data = triples.compute_ece(scores, predictions, labels, n_bins)
    assert ece == pytest.approx(naive(scores, right, parts), abs=NEAR)
    assert len(data) == sum(map(bool, parts))
    for row, part in zip(data, filter(None, parts), strict=True):
        assert row == {
            "acc": pytest.approx(right[part].mean()),
            "conf": pytest.approx(scores[part].mean()),
            "count": len(part),
        }
    assert triples.compute_mce(scores, predictions, labels, n_bins) == pytest.approx(naive(scores, right, parts, max))
    sizes = rest_in_last(n, n_bins)
    found = triples.compute_adaptive_ece(scores, predictions, labels, n_bins)
    assert found == pytest.approx(naive(scores, right, parts_by_size(scores, sizes)), abs=NEAR)
    assert triples.compute_brier_score(probs, labels) == pytest.approx(calibrant.brier_score(probs, labels), rel=NEAR)
    names = np.array(["a", "b", "c", "d"])
    assert triples.compute_ece(scores, names[predictions], names[labels], n_bins) == (ece, data)


rows = st.lists(st.tuples(st.integers(0, 20), st.booleans()), min_size=1, max_size=60)


@at_most(60)
@given(rows, st.integers(1, 12), st.randoms())
def test_tied_scores_share_their_outcomes_in_any_order(rows, n_bins, random):
    scores, outcomes = [p / 20 for p, _ in rows], [float(y) for _, y in rows]
    for sizes, measure in (
        (spread_to_last, lambda p, y: pyhealth.ece_confidence_binary(p, y, n_bins, adaptive=True)),
        (rest_in_last, lambda p, y: triples.compute_adaptive_ece(p, [1] * len(y), [int(x) for x in y], n_bins)),
    ):
        expected = naive(scores, shared(scores, outcomes), parts_by_size(scores, sizes(len(rows), n_bins)))
        assert measure(scores, outcomes) == pytest.approx(expected, abs=NEAR)
        order = list(range(len(rows)))
        random.shuffle(order)
        shuffled = measure([scores[i] for i in order], [outcomes[i] for i in order])
        assert shuffled == measure(scores, outcomes)


# ---------------------------------------------------------------- what the originals said


def bensemble_reason(case):
    """Say why bensemble's bins may be wrong: its float32 linspace edges are not j / M in every place."""
    place = top(case.probs, case.targets)[0].astype(np.float64) * 15
    return bool((np.abs(place - np.rint(place)) < 1e-5).any() or (np.abs(place * 10 / 15 % 1) < 1e-5).any())


def recorded(start):
    return [key for key in RECORDED if key.startswith(start)]


@pytest.mark.parametrize("key", recorded("bensemble/"))
def test_agrees_with_bensemble(key):
    name, *bins = key.split("/")[1:]
    agreed = 0
    for case_name, theirs in RECORDED[key].items():
        if case_name not in CASES:
            continue
        case = CASES[case_name]
        ours = getattr(bensemble, name)(case.probs, case.targets, *map(int, bins))
        if name == "reliability_diagram":
            near = all(np.allclose(ours[part], theirs[part], rtol=0, atol=1e-5) for part in theirs)
        else:  # long sums in single precision
            near = ours == pytest.approx(theirs, rel=1e-6, abs=2e-5 if len(case.probs) >= 10_000 else 1e-6)
        assert near or (bins and bensemble_reason(case)), case_name
        agreed += bool(near)
    assert agreed >= 30


@pytest.mark.parametrize("key", [k for k in recorded("pyhealth/") if "binary" not in k])
def test_agrees_with_pyhealth(key):
    name, *rest = key.split("/")[1:]
    options = {}
    if name != "brier_top1":
        options = {"bins": int(rest[0]), "adaptive": rest[1] == "adaptive"}
    if name == "ece_classwise":
        options["threshold"] = float(rest[2])
    agreed = 0
    for case_name, theirs in RECORDED[key].items():
        if case_name not in CASES or isinstance(theirs, dict):
            continue
        case = CASES[case_name]
        labels = np.eye(case.probs.shape[1], dtype=int)[case.targets] if rest[-1] == "one-hot" else case.targets
        ours = getattr(pyhealth, name)(case.probs, labels, **options)
        near = ours == pytest.approx(theirs, abs=1e-6)
        if not near:  # float32 scores against float64 edges, ties in row order, one-hot labels taken for indices
            scores = case.probs if name == "ece_classwise" else case.probs.max(axis=1)
            place = scores.astype(np.float64) * options.get("bins", 1)
            on_edge = case.probs.dtype == np.float32 and (np.abs(place - np.rint(place)) < 1e-5).any()
            tied = any(len(np.unique(column)) < len(column) for column in np.atleast_2d(scores.T))
            assert (tied if options.get("adaptive") else on_edge) or (name, rest[-1]) == ("brier_top1", "one-hot"), (
                case_name
            )
        agreed += near
    # One-hot labels are compared with indices there, which fails or is wrong, save for classwise errors.
    assert agreed >= 20 or (rest[-1] == "one-hot" and name != "ece_classwise")


@pytest.mark.parametrize("key", recorded("pyhealth/ece_confidence_binary"))
def test_agrees_with_pyhealths_binary_error_of_the_column_it_judges(key):
    bins, binning, columns = key.split("/")[2:]
    agreed = 0
    for case_name, theirs in RECORDED[key].items():
        if case_name not in CASES:
            continue
        case = CASES[case_name]
        p, y = case.probs, case.targets
        if columns == "columns=(1-p,p)":  # fed in the usual order, it judges class 0
            p, y = 1 - p, 1 - y
        ours = pyhealth.ece_confidence_binary(p, y, int(bins), binning == "adaptive")
        near = ours == pytest.approx(theirs, abs=1e-6)
        place = p.astype(np.float64) * int(bins)
        on_edge = (np.abs(place - np.rint(place)) < 1e-5).any()
        assert near or (on_edge if binning == "uniform" else len(np.unique(p)) < len(p)), case_name
        agreed += near
    assert agreed >= 15


def test_names_in_capitals_are_the_same_functions():
    """PyHealth's documented example calls ``ECE_confidence_multiclass(pred, label, bins=2)``."""
    pred = np.asarray([[0.2, 0.2, 0.6], [0.2, 0.31, 0.49], [0.1, 0.1, 0.8]])
    assert pyhealth.ECE_confidence_multiclass(pred, np.asarray([2, 1, 2]), bins=2) == 0.36333333333333334
    for name in ("ece_confidence_multiclass", "ece_confidence_binary", "ece_classwise"):
        assert getattr(pyhealth, name.replace("ece", "ECE")) is getattr(pyhealth, name)


def test_the_arrays_of_a_copied_diagram():
    """The values are those of hollance/reliability-diagrams at 2089cf4, with ``np.float`` replaced by ``float``."""
    i = np.arange(1, 25)
    true, predicted, confidences = i * 5 % 3, i * 11 % 4 % 3, (i * 7 % 25) / 26
    theirs = {
        "accuracies": [0.4, 0.2, 0.4, 0.4, 0.25],
        "confidences": [0.11538461538461539, 0.3076923076923077, 0.5, 0.6923076923076923, 0.8653846153846154],
        "counts": [5, 5, 5, 5, 4],
        "bins": [0, 0.2, 0.4, 0.6, 0.8, 1],
        "avg_accuracy": 0.3333333333333333,
        "avg_confidence": 0.4807692307692308,
        "expected_calibration_error": 0.26602564102564097,
        "max_calibration_error": 0.6153846153846154,
    }
    names = np.array(["a", "b", "c"])
    for labels in ((true, predicted), (names[true], names[predicted])):
        bin_data = triples.compute_calibration(*labels, confidences, 5)
        assert list(bin_data) == list(theirs)
        for name, expected in theirs.items():
            np.testing.assert_allclose(bin_data[name], expected, rtol=NEAR)
            assert bin_data[name].dtype == (np.int64 if name == "counts" else np.float64)
    ece, rows = triples.compute_ece(confidences, predicted, true, 5)
    assert bin_data["expected_calibration_error"] == ece
    assert bin_data["max_calibration_error"] == triples.compute_mce(confidences, predicted, true, 5)
    assert bin_data["accuracies"].tolist() == [row["acc"] for row in rows]
    empty = triples.compute_calibration([1], [1], [0.9])
    assert empty["counts"].tolist() == [0] * 8 + [1, 0]
    assert empty["accuracies"].tolist() == [0] * 8 + [1, 0]
    assert empty["confidences"].tolist() == [0] * 8 + [0.9, 0]


@pytest.mark.parametrize("n", [1, 50])
def test_the_likelihood_of_copied_functions(n):
    probs, labels = classes(n, 3)
    for eps in (0, 1e-12, 1e-3):
        expected = -np.log(probs[np.arange(n), labels] + eps).mean()
        assert triples.compute_nll(probs, labels, eps) == pytest.approx(expected, rel=NEAR)
        p, y = probs[:, 0], labels == 0
        event = -(y * np.log(p + eps) + ~y * np.log(1 - p + eps)).mean()
        assert triples.compute_nll(p, y, eps) == pytest.approx(event, rel=NEAR)
    assert triples.compute_nll(probs, np.eye(3, dtype=int)[labels]) == triples.compute_nll(probs, labels)
    assert triples.compute_nll([[1.0, 0.0]], [1]) == pytest.approx(-np.log(1e-12))
    assert triples.compute_nll([0.0], [1], eps=0) == np.inf


def test_pyhealths_own_example():
    pred = np.asarray([[0.2, 0.2, 0.6], [0.2, 0.31, 0.49], [0.1, 0.1, 0.8]])
    ours = pyhealth.ece_confidence_multiclass(pred, np.asarray([2, 1, 2]), bins=2)
    assert ours == 0.36333333333333334
    assert RECORDED["defects"]["pyhealth: the documented example"]["ece_confidence_multiclass/2"] == ours


# ---------------------------------------------------------------- the defects


def test_pyhealth_takes_one_dimensional_labels_and_judges_class_1():
    assert RECORDED["defects"]["pyhealth: one-dimensional labels"]["ece_confidence_binary"] == {"error": "IndexError"}
    p, y = np.array([0.9, 0.8, 0.3]), np.array([1, 1, 0])
    assert pyhealth.ece_confidence_binary(p, y, 5) == pytest.approx((0.1 + 0.2 + 0.3) / 3)
    both = np.stack([1 - p, p], axis=1)
    assert pyhealth.ece_confidence_binary(both, y, 5) == pytest.approx((0.1 + 0.2 + 0.3) / 3)


def test_pyhealths_top_brier_takes_one_hot_labels():
    case = PEERS.defects()["pyhealth: one-hot to brier_top1"]
    theirs = RECORDED["defects"]["pyhealth: one-hot to brier_top1"]
    assert theirs == {"one-hot": pytest.approx(0.315), "indices": pytest.approx(0.065)}
    assert pyhealth.brier_top1(case["probs"], case["targets"]) == pytest.approx(0.065)


def test_half_precision_neither_overflows_nor_is_infinite():
    case = PEERS.defects()["bensemble: half precision"]
    assert RECORDED["defects"]["bensemble: half precision"]["negative_log_likelihood"] == np.inf
    assert np.isfinite(bensemble.negative_log_likelihood(case["probs"], case["targets"]))
    probs = np.full((70_000, 2), 0.5, np.float16)
    targets = (np.arange(70_000) % 4 == 0).astype(int)  # three quarters are class 0, the first of equals
    assert bensemble.expected_calibration_error(probs, targets) == 0.25
    assert pyhealth.ece_confidence_multiclass(probs, targets) == 0.25
    assert triples.compute_ece(probs[:, 0], np.zeros(70_000, int), targets)[0] == 0.25


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("threshold", [0.0, 0.3])
@pytest.mark.parametrize("kind", ["several labels", "one-hot", "classes"])
def test_pyhealths_classwise_error_judges_each_class_by_itself(kind, threshold, adaptive):
    """Rows may have any sum and any number of labels: PyHealth's code looks at one column after the other."""
    rng = np.random.default_rng(5)
    prob = rng.random((60, 4))
    several = (rng.random((60, 4)) < prob).astype(int)
    classes = rng.integers(0, 4, 60)
    one_hot = np.eye(4, dtype=int)[classes]
    label = {"several labels": several, "one-hot": one_hot, "classes": classes}[kind]
    outcomes = several if kind == "several labels" else one_hot
    kept = [prob[:, k] >= threshold for k in range(4)]
    errors = [
        pyhealth.ece_confidence_binary(prob[keep, k], outcomes[keep, k], adaptive=adaptive)
        for k, keep in enumerate(kept)
    ]
    value = pyhealth.ece_classwise(prob, label, threshold=threshold, adaptive=adaptive)
    assert value == pytest.approx(np.mean(errors), rel=NEAR)
    if not (threshold or adaptive):
        own = calibrant.classwise_calibration_error(prob, outcomes, n_bins=20, notion="multilabel")
        assert value == pytest.approx(own, rel=NEAR)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["several labels", "classes"])
@pytest.mark.parametrize("size", [50, 20_000])
@pytest.mark.parametrize("kernels", ["numpy", "numba"])
def test_pyhealths_classwise_error_still_refuses_what_is_no_probability(kind, size, kernels, monkeypatch):
    monkeypatch.setenv("CALIBRANT_KERNELS", kernels)
    rng = np.random.default_rng(6)
    prob, label = rng.random((size, 4)), rng.integers(0, 4, size)
    label = label if kind == "classes" else np.eye(4, dtype=int)[label]
    for value, match in (
        (np.nan, "prob: expected finite numbers, got nan at row 7"),
        (1.5, r"prob: .*\[0, 1\], got 1.5"),
    ):
        spoiled = prob.copy()
        spoiled[7, 2] = value
        with pytest.raises(InputError, match=match):
            pyhealth.ece_classwise(spoiled, label)


@pytest.mark.parametrize("edges", [[0, 0.2, 0.5, 1], [0.1, 0.4, 0.9], [0, 1], np.arange(11) / 10, (0.25, 0.75)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_pyhealths_bins_may_be_a_list_of_edges(edges, dtype):
    """As in PyHealth, a score is in the first bin whose upper edge it does not exceed; outer bins reach to 0 and 1."""
    rng = np.random.default_rng(7)
    p = np.round(rng.random(90), 1).astype(dtype)
    y = rng.integers(0, 2, 90)
    uppers = [*np.asarray(edges)[1:-1].astype(dtype), 1]
    parts = [
        [i for i, q in enumerate(p) if next(k for k, e in enumerate(uppers) if q <= e) == b] for b in range(len(uppers))
    ]
    expected = sum(abs(sum(float(p[i]) - y[i] for i in part)) for part in parts) / 90
    assert pyhealth.ece_confidence_binary(p, y, bins=edges) == pytest.approx(expected, rel=NEAR)
    both = np.stack([1 - p, p], axis=1)
    classwise = [pyhealth.ece_confidence_binary(both[:, k], y == k, bins=edges) for k in (0, 1)]
    assert pyhealth.ece_classwise(both, y, bins=edges) == pytest.approx(np.mean(classwise), rel=NEAR)
    top = pyhealth.ece_confidence_binary(both.max(1), both.argmax(1) == y, bins=edges)
    assert pyhealth.ece_confidence_multiclass(both, y, bins=edges) == pytest.approx(top, rel=NEAR)


@pytest.mark.parametrize(
    ("bins", "adaptive", "match"),
    [
        (
            [0, 0.5, 0.5, 1],
            False,
            r"bins: expected at least two edges in \[0, 1\], in increasing order",
        ),
        ([0.5], False, r"bins: expected at least two edges in \[0, 1\], in increasing order"),
        (
            [0, np.nan, 1],
            False,
            r"bins: expected at least two edges in \[0, 1\], in increasing order",
        ),
        (
            [0, 50, 100],
            False,
            r"bins: expected at least two edges in \[0, 1\], in increasing order",
        ),
        (["0", "1"], False, "bins: expected real numbers"),
        ([0, 0.5, 1], True, "bins: expected a number of bins for adaptive=True"),
        ("20", False, "bins: expected an integer from 1"),
    ],
)
def test_edges_that_are_no_edges(bins, adaptive, match):
    with pytest.raises(InputError, match=match):
        pyhealth.ece_confidence_binary([0.2, 0.7], [0, 1], bins=bins, adaptive=adaptive)


def test_a_confidence_of_0_is_counted():
    ece, data = triples.compute_ece([0.0, 1.0], [0, 1], [0, 1])
    assert ece == 0.5
    assert data == [{"acc": 1.0, "conf": 0.0, "count": 1}, {"acc": 1.0, "conf": 1.0, "count": 1}]


def test_rows_of_zeros_are_no_probabilities():
    case = PEERS.defects()["bensemble: rows of zeros"]
    with pytest.raises(InputError, match="probs: expected rows that sum to 1"):
        bensemble.expected_calibration_error(case["probs"], case["targets"])


def test_fewer_rows_than_bins():
    assert triples.compute_adaptive_ece([0.6, 0.9], [1, 1], [1, 0], 15) == pytest.approx(abs(0.75 - 0.5))
    assert pyhealth.ece_confidence_binary([0.6, 0.9], [1, 0], 15, adaptive=True) == pytest.approx((0.4 + 0.9) / 2)


def test_a_calibrated_constant_score_is_calibrated_in_any_order():
    y = np.repeat([1, 0], 50)
    for outcomes in (y, y[::-1], np.random.default_rng(0).permutation(y)):
        assert pyhealth.ece_confidence_binary(np.full(100, 0.5), outcomes, 7, adaptive=True) == pytest.approx(
            0, abs=NEAR
        )
        assert triples.compute_adaptive_ece(np.full(100, 0.5), np.ones(100), outcomes, 7) == pytest.approx(0, abs=NEAR)


def test_a_score_on_an_edge_is_there_in_every_precision():
    for dtype in (np.float32, np.float64):
        probs = np.array([[0.6, 0.4], [0.7, 0.3]], dtype)
        diagram = bensemble.reliability_diagram(probs, [0, 0], n_bins=10)
        assert np.flatnonzero(diagram["proportions"]).tolist() == [5, 6]  # (.5, .6] and (.6, .7]


# ---------------------------------------------------------------- types and input


def test_what_comes_back_is_plain_python():
    probs, targets = classes(20, 3)
    for value in (
        bensemble.expected_calibration_error(probs, targets),
        bensemble.brier_score(probs, targets),
        bensemble.negative_log_likelihood(probs, targets),
        pyhealth.ece_confidence_multiclass(probs, targets),
        pyhealth.ece_confidence_binary(probs[:, 1], targets == 1),
        pyhealth.ece_classwise(probs, targets),
        pyhealth.ece_classwise(probs, targets, adaptive=True),
        pyhealth.brier_top1(probs, targets),
        triples.compute_mce(probs[:, 0], targets, targets),
        triples.compute_brier_score(probs, targets),
        triples.compute_nll(probs, targets),
        triples.compute_adaptive_ece(probs[:, 0], targets, targets),
    ):
        assert type(value) is float
    diagram = bensemble.reliability_diagram(probs, targets)
    assert list(diagram) == ["confidences", "accuracies", "proportions"]
    assert all(type(part) is list and {type(x) for x in part} == {float} for part in diagram.values())
    ece, data = triples.compute_ece(probs[:, 0], targets, targets)
    assert type(ece) is float
    assert {type(row[key]) for row in data for key in ("acc", "conf")} == {float}
    assert {type(row["count"]) for row in data} == {int}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_tensors(dtype):
    torch = pytest.importorskip("torch")
    probs, targets = classes(40, 2)
    probs = np.round(64 * probs[:, :1]) / 64
    probs = np.concatenate([probs, 1 - probs], axis=1)
    tensor = torch.tensor(probs, dtype=getattr(torch, dtype), requires_grad=True)
    labels = torch.tensor(targets)
    assert bensemble.expected_calibration_error(tensor, labels) == bensemble.expected_calibration_error(probs, targets)
    assert bensemble.negative_log_likelihood(tensor, labels) == bensemble.negative_log_likelihood(probs, targets)
    assert pyhealth.ece_classwise(tensor, labels) == pyhealth.ece_classwise(probs, targets)
    top, predicted = tensor.max(dim=1)
    assert triples.compute_mce(top, predicted, labels) == triples.compute_mce(
        probs.max(axis=1), probs.argmax(axis=1), targets
    )
    assert tensor.grad is None


def test_columns_and_lists_and_read_only_arrays():
    pandas = pytest.importorskip("pandas")
    probs, targets = classes(30, 3)
    probs.setflags(write=False)
    targets.setflags(write=False)
    before = probs.copy()
    expected = pyhealth.ece_classwise(probs, targets)
    assert pyhealth.ece_classwise(pandas.DataFrame(probs), pandas.Series(targets)) == expected
    assert pyhealth.ece_classwise(probs.tolist(), targets.tolist()) == expected
    assert triples.compute_ece(pandas.Series(probs[:, 0]), pandas.Series(targets), targets.tolist())[0] >= 0
    assert (probs == before).all()


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: bensemble.brier_score([0.2, 0.8], [0, 1]), r"probs: expected shape \(N, C\)"),
        (lambda: bensemble.brier_score([[0.2, 0.8]], [2]), "targets: expected class indices 0 to 1, got 2"),
        (lambda: bensemble.brier_score([[0.2, np.nan]], [1]), "probs: expected finite numbers, got nan"),
        (lambda: bensemble.expected_calibration_error([[0.2, 0.8]], [1], 0), "n_bins: expected an integer from 1"),
        (lambda: bensemble.reliability_diagram([[0.2, 0.8]], [1, 0]), "targets: expected 1 label"),
        (
            lambda: bensemble.negative_log_likelihood([[0.2, 0.8]], [1], eps=-1),
            "eps: expected a finite number, 0 or larger, got -1",
        ),
        (lambda: bensemble.negative_log_likelihood([[0.2, 0.8]], [1], eps=np.nan), "eps: expected a finite number"),
        (lambda: bensemble.negative_log_likelihood([[2.0, -1.0]], [1]), "probs: expected values in"),
        (lambda: pyhealth.ece_confidence_multiclass([0.2, 0.8], [0, 1]), r"prob: expected shape \(N, C\)"),
        (lambda: pyhealth.ece_confidence_multiclass([[0.2, 0.8]], [3]), "label: expected class indices"),
        (
            lambda: pyhealth.ece_confidence_multiclass([[0.2, 0.8]], [1], bins=[0, 2]),
            r"bins: expected at least two edges in \[0, 1\], in increasing order, got \[0, 2\]",
        ),
        (lambda: pyhealth.ece_confidence_multiclass([[0.2, 0.8]], [1], adaptive=3), "adaptive: expected True or False"),
        (lambda: pyhealth.ece_confidence_binary([[0.2, 0.3, 0.5]], [1]), "prob: expected one or two columns, got 3"),
        (lambda: pyhealth.ece_confidence_binary([0.2, 1.5], [0, 1]), "prob: expected values in"),
        (lambda: pyhealth.ece_confidence_binary([0.2, 0.5], [0, 2]), "label: expected outcomes 0 or 1"),
        (lambda: pyhealth.ece_classwise([0.2, 0.5], [0, 1]), "prob|notion"),
        (lambda: pyhealth.ece_classwise([[0.2, 0.8]], [1], threshold=2), r"threshold: expected a number in \[0, 1\]"),
        (lambda: pyhealth.brier_top1([[0.2, 0.9]], [1]), "prob: expected rows that sum to 1"),
        (lambda: pyhealth.brier_top1([0.2, 0.8], [0, 1]), r"prob: expected shape \(N, C\)"),
        (lambda: triples.compute_ece([0.2, 1.2], [1, 1], [1, 0]), "confidences: expected values in"),
        (lambda: triples.compute_ece([0.2, np.nan], [1, 1], [1, 0]), "confidences: expected finite numbers"),
        (lambda: triples.compute_ece([[0.2, 0.8]], [1], [1]), r"confidences: expected shape \(N,\)"),
        (lambda: triples.compute_ece([[0.2], [0.8]], [1, 1], [1, 0]), r"confidences: expected shape \(N,\)"),
        (lambda: triples.compute_ece([0.2], [1, 1], [1, 0]), "predictions: expected 1 label"),
        (lambda: triples.compute_ece([0.2, 0.3], [1, 1], [1]), "labels: expected 2 labels, one for each prediction"),
        (lambda: triples.compute_ece([0.2, 0.3], [[1, 1]], [1, 0]), r"predictions: expected shape \(N,\)"),
        (
            lambda: triples.compute_ece([0.2, 0.3], [1, 1], ["1", "0"]),
            "labels: expected labels of the same type as predictions",
        ),
        (
            lambda: triples.compute_ece([0.2, 0.3], [1, 1], [1, np.nan]),
            "labels: expected a class in every row, got nan at row 1",
        ),
        (lambda: triples.compute_mce([0.2, 0.3], [1, 1], [1, 0], 0), "n_bins: expected an integer"),
        (lambda: triples.compute_adaptive_ece([0.2, 0.3], [1, 1], [1, 0], 1.5), "n_bins: expected an integer"),
        (lambda: triples.compute_adaptive_ece([], [], []), "confidences: expected at least one row"),
        (lambda: triples.compute_brier_score([[0.2, 0.8]], [2]), "labels: expected class indices"),
        (lambda: triples.compute_nll([[0.2, 0.8]], [2]), "labels: expected class indices"),
        (lambda: triples.compute_nll([0.2, 0.8], [1, 0], eps=-1), "eps: expected a finite number, 0 or larger, got -1"),
        (lambda: triples.compute_calibration([1], [1], [0.5], 0), "num_bins: expected an integer from 1"),
        (lambda: triples.compute_calibration([1, 0], [1], [0.5]), "true_labels: expected 1 labels"),
        (lambda: triples.compute_calibration([1], [[1]], [0.5]), r"pred_labels: expected shape \(N,\)"),
        (lambda: triples.compute_calibration([1], [1], [2.5]), "confidences: expected values in"),
        *(
            (lambda ask=ask: ask([], []), "probs?: expected (at least one row|shape)")
            for ask in (triples.compute_nll, bensemble.brier_score, pyhealth.brier_top1)
        ),
        (lambda: bensemble.expected_calibration_error(np.zeros((0, 3)), []), "probs: expected at least one row"),
        (lambda: triples.compute_calibration([], [], []), "confidences: expected at least one row"),
    ],
)
def test_bad_input(call, match):
    with pytest.raises(InputError, match=match):
        call()
