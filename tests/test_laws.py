"""What must hold of every measure, whatever the data: laws over one table of measures, driven by Hypothesis.

Tolerances. Two ways to one number add at most some hundred terms below 1 (times weights up to 3) in another order, so
they agree to about 300 * 2^-53 = 3e-14 in sums and in the roots of sums of squares of sums; `CLOSE` is 1e-12. The
square root of a debiased square near 0 turns 1e-15 into 3e-8, and exact smooth errors may differ by twice their
certificate: `LOOSE` is 2e-7. Counts, and what is said to be the same, are the same to the bit.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression as scipy_isotonic
from sklearn.isotonic import IsotonicRegression

import calibrant
from calibrant import ReliabilityTable
from calibrant.errors import InputError
from calibrant.measures.isotonic.isotonic import isotonic_fit
from calibrant.table import grid
from tests.examples_of import at_most

#: Values alone: intervals and noise floors have tests of their own.
evaluate = functools.partial(calibrant.evaluate, level=None)

CLOSE, LOOSE = 1e-12, 2e-7
GRIDS = (None, "standard", "fine")

law = at_most(40, derandomize=True, database=None)


def parts_of(score, method):
    def measure(probs, targets, **options):
        parts = calibrant.score_decomposition(probs, targets, score=score, method=method, n_bins=5, **options)
        return parts.score, parts.miscalibration, parts.discrimination, parts.uncertainty, parts.within_bins

    return measure


def diagram(probs, targets, **options):
    found = calibrant.reliability_diagram(probs, targets, 5, **options)
    return np.nan_to_num(np.concatenate([found.counts, found.confidences, found.accuracies, found.proportions]), nan=-1)


def with_options(measure, *args, **fixed):
    return lambda probs, targets, **options: measure(probs, targets, *args, **fixed, **options)


ece, rmsce = calibrant.expected_calibration_error, calibrant.root_mean_square_calibration_error
#: Measures of one event, for probs (N,) and, of the top label, (N, C); each with its tolerance.
OF_AN_EVENT = {
    "ece": (ece, CLOSE),
    "ece of 1 bin": (with_options(ece, 1), CLOSE),
    "ece, left-closed": (with_options(ece, 10, closed="left"), CLOSE),
    "ece, equal mass, l2": (with_options(ece, 4, binning="quantile", norm="l2"), CLOSE),
    "rmsce": (with_options(rmsce, 10), CLOSE),
    "rmsce, debiased": (with_options(rmsce, 3, debiased=True), LOOSE),
    "mce": (with_options(calibrant.maximum_calibration_error, 10), CLOSE),
    "mce, equal mass": (with_options(calibrant.maximum_calibration_error, 4, binning="quantile"), CLOSE),
    "ace": (with_options(calibrant.adaptive_calibration_error, 5), CLOSE),
    "smece": (calibrant.smooth_calibration_error, LOOSE),
    "smece at .1": (with_options(calibrant.smooth_calibration_error, bandwidth=0.1), LOOSE),
    "corp": (parts_of("brier", "corp"), CLOSE),
    "corp of the log": (parts_of("log", "corp"), CLOSE),
    "murphy": (parts_of("brier", "murphy"), CLOSE),
    "diagram": (diagram, CLOSE),
}
#: Measures of the predictions as they are.
OF_THE_WHOLE = {
    "brier": (calibrant.brier_score, CLOSE),
    "top-label brier": (calibrant.top_label_brier_score, CLOSE),
    "nll": (calibrant.negative_log_likelihood, CLOSE),
    "nll, raised": (with_options(calibrant.negative_log_likelihood, eps=0.05), CLOSE),
    "accuracy": (calibrant.accuracy, CLOSE),
}
#: Measures of every class, for probs (N, C).
OF_CLASSES = {
    "classwise": (with_options(calibrant.classwise_calibration_error, 10), CLOSE),
    "classwise of each": (with_options(calibrant.classwise_calibration_errors, 10, closed="left"), CLOSE),
    "classwise, threshold": (with_options(calibrant.classwise_calibration_errors, 5, threshold=0.25), CLOSE),
    "classwise ace": (with_options(ece, 3, notion="classwise", binning="quantile"), CLOSE),
    "classwise, l2": (with_options(calibrant.classwise_calibration_error, 10, norm="l2"), CLOSE),
    "classwise, max": (with_options(ece, 10, notion="classwise", norm="max"), CLOSE),
}
BINARY = OF_AN_EVENT | OF_THE_WHOLE
MULTICLASS = BINARY | OF_CLASSES


@st.composite
def events(draw, least=1, most=30, inner=False):
    """Scores with ties, edges and the two ends (unless ``inner``), in either precision, and outcomes."""
    tenths = st.integers(1 if inner else 0, 9 if inner else 10).map(lambda k: k / 10)
    anywhere = st.floats(0.001, 0.999) if inner else st.one_of(st.floats(0, 1), st.sampled_from([1e-9, 1 - 1e-7]))
    p = draw(st.lists(st.one_of(tenths, anywhere), min_size=least, max_size=most))
    y = draw(st.lists(st.integers(0, 1), min_size=len(p), max_size=len(p)))
    return np.array(p, dtype=draw(st.sampled_from([np.float32, np.float64]))), np.array(y)


@st.composite
def classes(draw, least=1, most=20):
    """Rows of 2 to 4 classes, multiples of 1/20: ties for the largest, zeros and ones, edges."""
    size = draw(st.integers(2, 4))
    n = draw(st.integers(least, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    counts = rng.multinomial(20, rng.dirichlet(np.full(size, draw(st.sampled_from([0.2, 1.0, 5.0]))), n))
    return (counts / 20).astype(draw(st.sampled_from([np.float32, np.float64]))), rng.integers(0, size, n)


def assert_same(found, expected, bound, name):
    np.testing.assert_allclose(found, expected, rtol=bound, atol=bound, err_msg=name)


def assert_law(measures, before, after):
    """Every measure of ``before`` is that of ``after``: (probs, targets, options) each."""
    for name, (measure, bound) in measures.items():
        assert_same(measure(*after[:2], **after[2]), measure(*before[:2], **before[2]), bound, name)


def with_bound(measures, bound):
    return {name: (measure, bound) for name, (measure, _) in measures.items()}


def seeds():
    return st.integers(0, 2**32).map(np.random.default_rng)


# ---------------------------------------------------------------- rows


def bits(found):
    """Return what a function returned as text, to the last bit."""
    if isinstance(found, (float, np.floating)):
        return float(found).hex()
    if isinstance(found, np.ndarray):
        return f"{found.dtype} {found.shape} {found.tobytes().hex()}"
    return repr({name: bits(part) for name, part in vars(found).items()} if hasattr(found, "__dict__") else found)


#: Public functions of predictions. That of pairs of rows takes them in their order, as its page says; those of
#: decisions have tests of their own.
FUNCTIONS = sorted(
    name
    for name in set(calibrant.__all__) - {"squared_kernel_calibration_error", "recalibrate"}
    if name.islower() and list(inspect.signature(getattr(calibrant, name)).parameters)[:2] == ["probs", "targets"]
)


@pytest.mark.parametrize("kernels", ["numpy", "numba"])
def test_shuffled_rows_give_the_same_bits(monkeypatch, kernels):
    """Sums are compensated: unweighted and weighted, of scores in either precision, some of them far below the rest."""
    monkeypatch.setenv("CALIBRANT_KERNELS", kernels)
    rng, n = np.random.default_rng(17), 2_000
    logits = rng.normal(0, 3, (n, 4)) * rng.choice([1, 8], (n, 1))
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs /= probs.sum(axis=1, keepdims=True)
    classes = (logits / 3 + rng.gumbel(size=(n, 4))).argmax(axis=1)
    weights, orders = rng.lognormal(0, 2, n), [rng.permutation(n) for _ in range(2)]
    inputs = (probs[:, 0], classes == 0), (probs, classes), (probs.astype(np.float32), classes)
    asked, different = set(), []
    more = {"top_k_calibration_error": {"k": 2}, "top_r_calibration_error": {"r": 2}}
    for name, (p, y), columns in itertools.product(FUNCTIONS, inputs, ({}, {"weights": weights})):
        function = functools.partial(getattr(calibrant, name), **more.get(name, {}))
        if name == "multicalibration_error":
            columns = {"groups": weights > 1, **columns}
        try:
            expected = bits(function(p, y, **columns))
        except (InputError, TypeError):  # not of classes, or without weights
            continue
        asked.add(name)
        for order in orders:
            found = function(p[order], y[order], **{key: column[order] for key, column in columns.items()})
            if bits(found) != expected:
                different.append((name, p.shape, p.dtype, list(columns)))
    assert different == []
    assert asked == set(FUNCTIONS)


@pytest.mark.parametrize("notion", ["positive", "top-label", "classwise", "multilabel"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [3_000, pytest.param(300_000, marks=pytest.mark.slow)])
def test_reports_of_shuffled_rows_have_the_same_bits(n, weighted, notion):
    rng = np.random.default_rng(18)
    logits = rng.normal(0, 3, (n, 4))
    probs = (np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)).astype(np.float32)
    classes = (logits + rng.gumbel(size=(n, 4))).argmax(axis=1)
    targets = (
        classes == 0 if notion == "positive" else np.eye(4, dtype=int)[classes] if notion == "multilabel" else classes
    )
    columns = {"clusters": rng.integers(0, n // 5, n)} | ({"weights": rng.random(n) + 0.1} if weighted else {})
    for names in ({}, {"groups": rng.integers(0, 3, n).astype(str)}):
        reports = [
            calibrant.evaluate(
                (probs[:, 0] if notion == "positive" else probs)[order],
                targets[order],
                notion=notion,
                **{name: column[order] for name, column in (columns | names).items()},
            ).to_json()
            for order in (np.arange(n), rng.permutation(n))
        ]
        assert reports[0] == reports[1]


@law
@given(events(), seeds())
def test_order_of_events_plays_no_part(data, rng):
    p, y = data
    order = rng.permutation(len(p))
    assert_law(with_bound(BINARY, 0), (p, y, {}), (p[order], y[order], {}))


@law
@given(classes(), seeds())
def test_order_of_rows_plays_no_part(data, rng):
    probs, labels = data
    order, weights = rng.permutation(len(probs)), rng.integers(1, 4, len(probs))
    before = probs, labels, {"weights": weights}
    assert_law(with_bound(MULTICLASS, 0), before, (probs[order], labels[order], {"weights": weights[order]}))


@law
@given(events(), seeds())
def test_a_weight_of_two_is_the_event_twice(data, rng):
    p, y = data
    weights = rng.integers(0, 4, len(p))
    weights[rng.integers(len(p))] = 2
    assert_law(BINARY, (np.repeat(p, weights), np.repeat(y, weights), {}), (p, y, {"weights": weights}))


@law
@given(classes(), seeds())
def test_a_weight_of_two_is_the_row_twice(data, rng):
    probs, labels = data
    weights = rng.integers(0, 4, len(probs))
    weights[rng.integers(len(probs))] = 2
    repeated = np.repeat(probs, weights, axis=0), np.repeat(labels, weights), {}
    assert_law(MULTICLASS, repeated, (probs, labels, {"weights": weights.astype(float)}))


@law
@given(classes(least=2), seeds())
def test_a_row_of_weight_zero_or_ignored_is_absent(data, rng):
    probs, labels = data
    absent = rng.random(len(probs)) < 0.4
    absent[rng.integers(len(probs))] = False
    kept = probs[~absent], labels[~absent], {}
    assert_law(MULTICLASS, kept, (probs, labels, {"weights": (~absent).astype(float)}))
    wild = probs.copy()
    wild[absent] = np.nan  # whatever its probabilities
    assert_law(MULTICLASS, kept, (wild, np.where(absent, -100, labels), {"ignore_index": -100}))


@law
@given(events(least=2), seeds())
def test_an_event_of_weight_zero_or_ignored_is_absent(data, rng):
    p, y = data
    absent = rng.random(len(p)) < 0.4
    absent[rng.integers(len(p))] = False
    kept = p[~absent], y[~absent], {}
    assert_law(BINARY, kept, (p, y, {"weights": (~absent).astype(float)}))
    assert_law(BINARY, kept, (np.where(absent, np.nan, p), np.where(absent, 7, y), {"ignore_index": 7}))


@law
@given(events(), st.floats(0.01, 100))
def test_weights_count_by_their_ratios(data, factor):
    # But for the debiased square, whose n - 1 counts rows, and the counts of a diagram.
    p, y = data
    weights = np.arange(1, len(p) + 1) * 0.5
    measures = {name: BINARY[name] for name in BINARY if name not in ("rmsce, debiased", "diagram")}
    # A power of two scales without rounding: cut points of equal mass stay where they are.
    scale = 2.0 ** round(math.log2(factor))
    assert_law(measures, (p, y, {"weights": weights}), (p, y, {"weights": weights * scale}))


# ---------------------------------------------------------------- shapes and encodings


@law
@given(events())
def test_a_column_is_its_events(data):
    p, y = data
    for probs, targets in ((p[:, None], y), (p[:, None], y[:, None]), (p, y[:, None]), (p, y == 1), (p, y * 1.0)):
        assert_law(BINARY, (p, y, {}), (probs, targets, {}))


@law
@given(classes())
def test_one_hot_targets_are_indices(data):
    probs, labels = data
    hot = np.eye(probs.shape[1], dtype=int)[labels]
    for targets in (hot, hot == 1, hot * 1.0, labels[:, None], labels * 1.0):
        assert_law(MULTICLASS, (probs, labels, {}), (probs, targets, {}))


@law
@given(classes(), st.integers(1, 4), seeds())
def test_sheets_are_their_rows(data, depth, rng):
    probs, labels = data
    n = len(probs)
    rows, targets = np.tile(probs, (depth, 1)), np.tile(labels, depth)
    order = rng.permutation(n * depth)
    rows, targets = rows[order], targets[order]
    sheets = rows.reshape(n, depth, -1).transpose(0, 2, 1)
    assert_law(MULTICLASS, (rows, targets, {}), (sheets, targets.reshape(n, depth), {}))
    hot = np.eye(probs.shape[1], dtype=int)[targets].reshape(n, depth, -1).transpose(0, 2, 1)
    assert_law(MULTICLASS, (rows, targets, {}), (sheets, hot, {}))
    weights = rng.integers(1, 4, n * depth)
    deep = (sheets[..., None], targets.reshape(n, depth, 1), {"weights": weights.reshape(n, depth, 1)})
    assert_law(MULTICLASS, (rows, targets, {"weights": weights}), deep)


@law
@given(classes(), seeds())
def test_relabelling_the_classes_permutes_their_errors(data, rng):
    probs, labels = data
    order = rng.permutation(probs.shape[1])
    moved = np.argsort(order)[labels]
    for binning, norm in itertools.product(("uniform", "quantile"), ("l1", "l2", "max")):
        options = {"binning": binning, "norm": norm, "threshold": 0.1}
        before = calibrant.classwise_calibration(probs, labels, 5, **options)
        after = calibrant.classwise_calibration(probs[:, order], moved, 5, **options)
        assert_same(after.errors, before.errors[order], CLOSE, norm)
        assert after.kept.tolist() == before.kept[order].tolist()
        assert after.supports.tolist() == before.supports[order].tolist()
        assert_same(after.value, before.value, CLOSE, norm)
    for measure in (calibrant.brier_score, calibrant.negative_log_likelihood):
        assert_same(measure(probs[:, order], moved), measure(probs, labels), CLOSE, "")


@law
@given(classes())
def test_two_classes_are_one_event(data):
    probs, labels = data
    pair, y = np.stack([1 - probs[:, 0], probs[:, 0]], axis=1), (labels == 0).astype(int)
    p = np.ascontiguousarray(pair[:, 1])
    assert_law(OF_AN_EVENT, (p, y, {}), (pair, y, {"notion": "positive"}))
    for name, (measure, bound) in OF_AN_EVENT.items():
        # For p = 1/2 the event predicts class 1, the pair its lowest class 0.
        if not np.any(p == 0.5):
            assert_same(measure(pair, y), measure(p, y, notion="top-label"), max(bound, 1e-6), name)
    assert_same(calibrant.brier_score(pair, y), 2 * calibrant.brier_score(p, y), 1e-6, "")  # 1 - p rounds in float32


@pytest.mark.parametrize(("dtype", "bound"), [(np.float32, 4e-7), (np.float64, 1e-14)])
@pytest.mark.parametrize("size", [1, 2, 3, 70])
def test_logits_are_their_softmax(dtype, bound, size):
    """Scores agree to a few roundings of their type (see test_kernels), and so do measures that are continuous.

    The binned ones too while no score is that near an edge, which is asserted; a log loss is 12 at most, and moves by
    as many roundings.
    """
    rng = np.random.default_rng([30, size])
    z = rng.normal(0, 2, (500, size)).astype(dtype)
    y = rng.integers(0, max(size, 2), 500)
    wide = z.astype(np.float64)
    soft = np.exp(wide) / (np.exp(wide).sum(axis=1, keepdims=True) if size > 1 else 1 + np.exp(wide))
    probs = soft.astype(dtype)
    for n_bins in (3, 4, 5, 10, 15):
        assert np.abs(soft * n_bins - np.rint(soft * n_bins))[soft > 1e-3].min() > n_bins * bound
    skipped = {"nll": 40 * bound, "corp of the log": 40 * bound, "smece": LOOSE + bound, "smece at .1": LOOSE + bound}
    for name, (measure, own) in (BINARY if size == 1 else MULTICLASS).items():
        tolerance = max(skipped.get(name, bound), own if name == "rmsce, debiased" else 0.0) + 1e-14
        assert_same(
            measure(z, y, logits=True), measure(probs, y), tolerance * 20 if name == "diagram" else tolerance, name
        )


@law
@given(classes())
def test_labels_by_themselves(data):
    probs, labels = data
    hot = np.eye(probs.shape[1], dtype=int)[labels]
    one_vs_rest = calibrant.classwise_calibration_errors(probs, labels, 7)
    for errors in (
        calibrant.classwise_calibration_errors(probs, hot, 7, notion="multilabel"),
        [ece(np.ascontiguousarray(probs[:, k]), hot[:, k], 7) for k in range(probs.shape[1])],
    ):
        assert_same(errors, one_vs_rest, CLOSE, "")
    assert_same(ece(probs, hot, 7, notion="multilabel"), one_vs_rest.mean(), CLOSE, "")
    assert_same(
        ece(probs, labels, 7, notion="classwise", norm="max"),
        calibrant.maximum_calibration_error(probs, hot, 7, notion="multilabel"),
        CLOSE,
        "",
    )


# ---------------------------------------------------------------- tables


def table_of(p, y, grid_name, weights=None):
    return ReliabilityTable.from_scores(p, y, grid=grid_name, weights=weights)


@pytest.mark.parametrize("grid_name", GRIDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_tables_add_up(grid_name, weighted):
    @law
    @given(events(least=2), st.integers(1, 29))
    def check(data, cut):
        p, y = data
        cut = min(cut, len(p) - 1)
        weights = np.arange(len(p)) % 3 + 0.5 if weighted else None
        whole = table_of(p, y, grid_name, weights)
        a, b = (
            table_of(p[s], y[s], grid_name, None if weights is None else weights[s])
            for s in (slice(cut), slice(cut, None))
        )
        expected = evaluate(whole)
        for total in (a + b, b + a):
            assert total.n == whole.n
            assert total.counts.dtype == whole.counts.dtype == (np.float64 if weighted else np.int64)
            assert total.counts.tobytes() == whole.counts.tobytes()
            assert total.positives.tobytes() == whole.positives.tobytes()
            if grid_name is None:
                assert total.scores.tobytes() == whole.scores.tobytes()
            else:
                assert total.cells.tobytes() == whole.cells.tobytes()
                assert_same(total.scores, whole.scores, CLOSE, "")
                assert_same(total.score_sums, whole.score_sums, CLOSE, "")
            found = evaluate(total)
            for name, estimate in expected.items():
                assert_same(found[name].value, estimate.value, LOOSE if name == "smece" else CLOSE, name)

    check()


@pytest.mark.parametrize("grid_name", GRIDS)
def test_a_table_survives_arrow(grid_name):
    pytest.importorskip("pyarrow")

    @law
    @given(events(), st.booleans())
    def check(data, weighted):
        p, y = data
        table = table_of(p, y, grid_name, np.full(len(p), 0.3) if weighted else None)
        back = ReliabilityTable.from_arrow(table.to_arrow())
        assert (back.n, back.grid) == (table.n, table.grid)
        for name in ("scores", "counts", "positives", "cells", "score_sums", "positive_scores", "square_scores"):
            before, after = getattr(table, name), getattr(back, name)
            if before is None:
                assert after is None
            else:
                assert after.dtype == before.dtype
                assert after.tobytes() == before.tobytes()
        assert evaluate(back).to_json() == evaluate(table).to_json()
        assert (back + table).n == 2 * table.n

    check()


@law
@given(events(), st.booleans())
def test_a_table_is_evaluated_like_its_events(data, weighted):
    p, y = data
    weights = np.arange(len(p)) % 4 + 1.0 if weighted else None
    own = evaluate(p, y, n_bins=6, weights=weights)
    of_table = evaluate(table_of(p, y, None, weights), n_bins=6)
    assert list(own) == list(of_table)
    for name in own:
        assert_same(of_table[name].value, own[name].value, LOOSE if name == "smece" else CLOSE, name)
        assert of_table[name].n == own[name].n == len(p)
    assert of_table["mce"].details == own["mce"].details
    assert of_table.outcome_rate == own.outcome_rate
    assert of_table.diagram.counts.tolist() == own.diagram.counts.tolist()


@law
@given(classes())
def test_a_table_of_right_answers_is_evaluated_like_the_predictions(data):
    probs, labels = data
    top, right = probs.max(axis=1), probs.argmax(axis=1) == labels
    own = evaluate(probs, labels, n_bins=6)
    of_table = evaluate(table_of(top, right, None), notion="top-label", n_bins=6)
    for name in set(own) - {"brier", "brier_skill", "nll", "classwise_ece"}:  # which are of all classes
        assert_same(of_table[name].value, own[name].value, LOOSE if name == "smece" else CLOSE, name)
    assert_same(of_table["brier"].value, calibrant.top_label_brier_score(probs, labels), CLOSE, "")


@law
@given(classes(), st.sampled_from([None, "top-label", "classwise"]), st.booleans())
def test_a_report_says_what_the_functions_say(data, notion, weighted):
    probs, labels = data
    options = {"weights": np.arange(len(probs)) % 3 + 0.5 if weighted else None}
    report = evaluate(probs, labels, notion=notion, n_bins=6, **options)
    assert_report(report, probs, labels, options, {"notion": notion})
    each = calibrant.classwise_calibration(probs, labels, 6, **options)
    assert_same(report["classwise_ece"].value, each.value, CLOSE, "")
    assert_same(report.classwise.errors, each.errors, CLOSE, "")
    if notion != "classwise":
        assert_event(report, probs, labels, options | {"notion": notion})


@law
@given(events(), st.sampled_from([None, "positive", "top-label"]), st.booleans())
def test_a_report_of_events_says_what_the_functions_say(data, notion, weighted):
    p, y = data
    options = {"weights": np.arange(len(p)) % 3 + 0.5 if weighted else None}
    report = evaluate(p, y, notion=notion, n_bins=6, **options)
    assert report.notion == (notion or "positive")
    assert_report(report, p, y, options, {"notion": notion})
    assert_event(report, p, y, options | {"notion": notion})


def assert_report(report, probs, targets, options, notion):
    for name, measure in (
        ("accuracy", calibrant.accuracy),
        ("brier", calibrant.brier_score),
        ("nll", calibrant.negative_log_likelihood),
    ):
        assert_same(report[name].value, measure(probs, targets, **options), CLOSE, name)
    for name, measure in (
        ("ece", ece),
        ("rmsce", rmsce),
        ("ace", calibrant.adaptive_calibration_error),
    ):
        assert_same(report[name].value, measure(probs, targets, 6, **options, **notion), CLOSE, name)


def assert_event(report, probs, targets, options):
    assert_same(report["smece"].value, calibrant.smooth_calibration_error(probs, targets, **options), LOOSE, "smece")
    parts = calibrant.score_decomposition(probs, targets, **options)
    found = [report[name].value for name in ("miscalibration", "discrimination", "uncertainty")]
    assert_same(found, (parts.miscalibration, parts.discrimination, parts.uncertainty), CLOSE, "corp")
    assert_same(report["miscalibration"].details["brier_of_event"], parts.score, CLOSE, "score")
    debiased = rmsce(probs, targets, 6, debiased=True, **options)
    assert_same(report["rmsce"].details["debiased"], debiased, LOOSE, "debiased")
    shown = calibrant.reliability_diagram(probs, targets, 6, **options)
    assert report.diagram.counts.tolist() == shown.counts.tolist()
    for name in ("edges", "confidences", "accuracies", "proportions"):
        assert_same(getattr(report.diagram, name), getattr(shown, name), CLOSE, name)
    worst = report["mce"].details
    maximum = calibrant.maximum_calibration_error(probs, targets, 6, **options)
    assert_same(worst["of_all_bins"], maximum, CLOSE, "mce")
    gaps = np.abs(shown.confidences - shown.accuracies)
    if "bin" in worst:  # of those with rows enough
        assert_same(gaps[worst["bin"]], report["mce"].value, CLOSE, "the bin of the maximum")
        assert worst["count"] == shown.counts[worst["bin"]]
        assert (worst["left"], worst["right"]) == (shown.edges[worst["bin"]], shown.edges[worst["bin"] + 1])
    if options.get("weights") is None:
        held = shown.counts >= 30
        assert ("bin" in worst) == held.any()
        assert not held.any() or report["mce"].value == np.max(gaps[held])
    sides = report["ece"].details
    assert_same(sides["over_stated"] + sides["under_stated"], report["ece"].value, CLOSE, "sides")


@law
@given(events(), seeds(), st.sampled_from(["uniform", "quantile"]))
def test_the_debiased_square_is_over_pairs_of_rows_with_any_weights(data, rng, binning):
    """Sum over pairs i != j of w_i w_j r_i r_j over that of w_i w_j, bin by bin; so the unit of weights is nothing."""
    p, y = data
    weights = rng.uniform(0.2, 1.7, len(p))
    options = {"binning": binning, "debiased": True}
    own, in_tenths = (rmsce(p, y, 6, weights=w, **options) for w in (weights, weights / 10))
    assert_same(own, in_tenths, LOOSE, "unit")
    if binning == "uniform":
        bins, expected = np.clip(np.ceil(p * 6) - 1, 0, 5), 0.0
        for b in np.unique(bins):
            r, w = ((p - y) * weights)[bins == b], weights[bins == b]
            pairs = w.sum() ** 2 - (w**2).sum()
            expected += w.sum() * (r.sum() ** 2 - (r**2).sum()) / pairs if len(w) > 1 else 0.0
        assert_same(own**2, max(expected / weights.sum(), 0.0), CLOSE, "pairs")


# ---------------------------------------------------------------- inequalities and identities


@law
@given(events(), st.integers(1, 12), st.sampled_from(["uniform", "quantile"]))
def test_the_norms_are_in_order(data, n_bins, binning):
    p, y = data
    l1, l2, most = (ece(p, y, n_bins, binning=binning, norm=norm) for norm in ("l1", "l2", "max"))
    assert 0 <= l1 <= l2 + 1e-15
    assert l2 <= most + 1e-15 <= 1 + 2e-15
    _, place = np.unique(p, return_inverse=True)
    finest = np.abs(np.bincount(place, y - p.astype(np.float64))).sum() / len(p)
    assert abs((y - p.astype(np.float64)).mean()) - CLOSE <= l1 <= finest + CLOSE
    assert calibrant.smooth_calibration_error(p, y) <= finest + LOOSE
    assert rmsce(p, y, n_bins, binning=binning, debiased=True) <= l2 + LOOSE or l2 == 0


@law
@given(events())
def test_corp_adds_up_and_has_no_negative_part(data):
    p, y = data
    rate, wide = y.mean(), p.astype(np.float64)
    parts = calibrant.score_decomposition(p, y)
    assert parts.score == pytest.approx(np.mean((wide - y) ** 2), abs=CLOSE)
    assert parts.uncertainty == pytest.approx(rate * (1 - rate), abs=CLOSE)
    assert parts.score == pytest.approx(parts.miscalibration - parts.discrimination + parts.uncertainty, abs=CLOSE)
    assert parts.within_bins == 0.0
    logs = calibrant.score_decomposition(p, y, score="log")
    for part in (parts.miscalibration, parts.discrimination, logs.miscalibration, logs.discrimination):
        assert part >= -1e-15  # a difference of two means: one rounding below 0
    if math.isfinite(logs.score):
        assert logs.score == pytest.approx(logs.miscalibration - logs.discrimination + logs.uncertainty, rel=CLOSE)
    else:
        assert logs.miscalibration == math.inf
        assert math.isfinite(logs.discrimination)


def loss(p, y):
    return -math.log(p) if y else -math.log1p(-p)


@law
@given(events(inner=True))
def test_the_log_score_decomposes_as_defined(data):
    p, y = data
    wide = p.astype(np.float64)
    fit = scipy_fit(p, y)
    rate = y.mean()
    issued = np.mean([loss(a, b) for a, b in zip(wide, y, strict=True)])
    again = np.mean([loss(a, b) for a, b in zip(fit, y, strict=True)])
    base = loss(rate, 1) * rate + loss(rate, 0) * (1 - rate) if 0 < rate < 1 else 0.0
    parts = calibrant.score_decomposition(p, y, score="log")
    found = (parts.score, parts.miscalibration, parts.discrimination, parts.uncertainty)
    assert found == pytest.approx((issued, issued - again, base - again, base), abs=CLOSE)
    assert issued == pytest.approx(calibrant.negative_log_likelihood(p, y), abs=CLOSE)


@law
@given(events(), st.integers(1, 12), st.sampled_from(["right", "left"]))
def test_murphy_with_what_the_bins_hide(data, n_bins, closed):
    """BS = REL - RES + UNC + WBV - WBC, each term from its own definition (Stephenson et al. 2008), to 1e-12."""
    p, y = data
    wide = p.astype(np.float64)
    parts = calibrant.score_decomposition(p, y, method="murphy", n_bins=n_bins, closed=closed)
    edges = (np.arange(n_bins + 1) / n_bins).astype(p.dtype)
    bins = np.searchsorted(edges[1:-1], p, side="left" if closed == "right" else "right")
    rate = y.mean()
    rel = res = variance = covariance = 0.0
    for b in np.unique(bins):
        own, hits = wide[bins == b], y[bins == b]
        rel += len(own) * (own.mean() - hits.mean()) ** 2 / len(p)
        res += len(own) * (hits.mean() - rate) ** 2 / len(p)
        variance += np.sum((own - own.mean()) ** 2) / len(p)
        covariance += 2 * np.sum((hits - hits.mean()) * (own - own.mean())) / len(p)
    assert parts.miscalibration == pytest.approx(rel, abs=CLOSE)
    assert parts.discrimination == pytest.approx(res, abs=CLOSE)
    assert parts.uncertainty == pytest.approx(rate * (1 - rate), abs=CLOSE)
    assert parts.within_bins == pytest.approx(variance - covariance, abs=CLOSE)
    assert parts.score == pytest.approx(rel - res + rate * (1 - rate) + variance - covariance, abs=CLOSE)


@law
@given(events(inner=True), st.integers(1, 12))
def test_murphy_of_the_log_score_adds_up(data, n_bins):
    p, y = data
    parts = calibrant.score_decomposition(p, y, score="log", method="murphy", n_bins=n_bins)
    whole = parts.miscalibration - parts.discrimination + parts.uncertainty + parts.within_bins
    assert parts.score == pytest.approx(whole, abs=CLOSE)
    assert min(parts.miscalibration, parts.discrimination) >= -1e-15


def test_murphy_of_an_infinite_log_score_has_no_nan():
    parts = calibrant.score_decomposition([0, 0, 0.9], [1, 0, 1], score="log", method="murphy", n_bins=2)
    assert parts.miscalibration == math.inf
    assert not math.isnan(parts.within_bins)


# ---------------------------------------------------------------- the isotonic fit


def scipy_fit(p, y):
    """The isotonic fit of each row, ties pooled: scipy on rates of distinct scores."""
    distinct, place, counts = np.unique(p, return_inverse=True, return_counts=True)
    rates = np.bincount(place, y) / counts
    assert len(distinct) == len(rates)
    return np.clip(scipy_isotonic(rates, weights=counts).x, 0, 1)[place]


def min_max_fit(rates, weights):
    """The isotonic fit by its min-max formula: max over a <= i of min over b >= i of the mean from a to b."""
    k = len(rates)
    means = {(a, b): np.average(rates[a : b + 1], weights=weights[a : b + 1]) for a in range(k) for b in range(a, k)}
    return np.array([max(min(means[a, b] for b in range(i, k)) for a in range(i + 1)) for i in range(k)])


def fitted(table):
    """The public decomposition knows only sums of the fit; the blocks themselves are the estimator's."""
    fit = isotonic_fit(table.counts, table.positives)
    ends = np.append(fit.starts[1:], len(table))
    return np.repeat(fit.values, ends - fit.starts), fit


@law
@given(events(most=25), st.booleans())
def test_the_isotonic_fit_is_everybodys(data, weighted):
    p, y = data
    weights = np.arange(len(p)) % 3 + 0.5 if weighted else np.ones(len(p))
    table = table_of(p, y, None, weights if weighted else None)
    x, fit = fitted(table)
    rates = table.positives / table.counts
    assert x == pytest.approx(scipy_isotonic(rates, weights=table.counts).x, abs=CLOSE)
    assert x == pytest.approx(min_max_fit(rates, table.counts), abs=CLOSE)
    learned = IsotonicRegression(y_min=0, y_max=1).fit(table.scores.astype(float), rates, sample_weight=table.counts)
    assert x == pytest.approx(
        learned.predict(table.scores.astype(float)), abs=1e-6
    )  # it interpolates between near-ties
    assert np.all(np.diff(x) >= 0)
    assert np.all(np.diff(fit.values) > -1e-15)
    assert fit.counts.sum() == pytest.approx(weights.sum())
    best = np.sum(table.counts * x * (1 - x)) / table.total
    parts = calibrant.score_decomposition(p, y, weights=weights if weighted else None)
    assert parts.score - parts.miscalibration == pytest.approx(best, abs=CLOSE)


@law
@given(events(most=40))
def test_recalibrated_scores_are_calibrated(data):
    p, y = data
    x = scipy_fit(p, y)
    parts = calibrant.score_decomposition(np.clip(x, 0, 1), y)
    assert parts.miscalibration == pytest.approx(0, abs=CLOSE)


# ---------------------------------------------------------------- bins of equal mass


@pytest.mark.parametrize(("n", "n_bins"), [(12, 3), (12, 12), (100, 5), (99, 11), (7, 1)])
def test_equal_mass_is_an_even_split(n, n_bins):
    rng = np.random.default_rng([40, n])
    p, y = rng.random(n), rng.integers(0, 2, n)
    order = np.argsort(p)
    shown = calibrant.reliability_diagram(p, y, n_bins, binning="quantile")
    for b, rows in enumerate(np.array_split(order, n_bins)):
        assert shown.counts[b] == len(rows) == n // n_bins
        assert shown.confidences[b] == pytest.approx(p[rows].mean(), abs=CLOSE)
        assert shown.accuracies[b] == pytest.approx(y[rows].mean(), abs=CLOSE)
        assert shown.edges[b + 1] == (p[rows].max() if b < n_bins - 1 else 1.0)


@law
@given(events(), st.integers(1, 12), st.booleans())
def test_equal_mass_by_its_definition(data, n_bins, weighted):
    """A score with weight w and cumulative weight C goes to bin min(M - 1, floor(M (C - w/2) / W)), in integers."""
    p, y = data
    weights = np.arange(len(p)) % 4 + 1 if weighted else np.ones(len(p), int)
    expected, cumulative, total = np.zeros(n_bins, int), 0, int(weights.sum())
    for score in np.unique(p):
        own = int(weights[p == score].sum())
        cumulative += own
        expected[min(n_bins - 1, n_bins * (2 * cumulative - own) // (2 * total))] += own
    options = {"binning": "quantile", "weights": weights if weighted else None}
    shown = calibrant.reliability_diagram(p, y, n_bins, **options)
    assert shown.counts.tolist() == expected.tolist()
    # Balanced: the middle of every score lies in its bin's share, so a bin exceeds W / M by no more than the halves of
    # the scores at its two ends.
    largest = max(int(weights[p == score].sum()) for score in np.unique(p))
    assert shown.counts.max() <= total / n_bins + largest
    # No tie is split: every distinct score is in one bin, between the largest score before it and its own.
    for score in np.unique(p):
        assert np.count_nonzero((shown.edges[:-1] < score) & (score <= shown.edges[1:])) == (score > 0)


# ---------------------------------------------------------------- grids


@pytest.mark.parametrize(("name", "n_angles", "m"), [("standard", 4096, 300), ("fine", 16384, 3600)])
def test_the_cells_of_a_grid(name, n_angles, m):
    edges = grid.edges(name)
    assert np.all(np.diff(edges) > 0)
    assert (edges[0], edges[-1]) == (0, 1)
    assert {j / m for j in range(m + 1)} <= set(edges.tolist())
    angles = np.sin(np.pi * np.arange(n_angles + 1) / (2 * n_angles)) ** 2
    near = np.abs(edges[np.clip(np.searchsorted(edges, angles - 1e-15), 0, len(edges) - 1)] - angles)
    assert near.max() < 1e-15
    if name == "standard":
        assert len(edges) == 4395  # 4,394 intervals; with 0 and 1 by themselves, 4,396 cells
    # On each edge, and just beside it, in the scores' own type: right-closed, edge j - 1 < p <= edge j.
    for dtype in (np.float32, np.float64):
        rounded = edges.astype(dtype)
        scores = np.concatenate([rounded, np.nextafter(rounded, dtype(1)), np.nextafter(rounded, dtype(0))])
        scores = scores[(scores > 0) & (scores < 1)]
        cells = grid.cell_of(scores, name)
        assert cells.min() >= 1
        assert cells.max() <= len(edges) - 1
        assert np.all(rounded[cells - 1] < scores)
        assert np.all(scores <= rounded[cells])


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("standard", np.float32),
        ("standard", np.float64),
        ("fine", np.float32),
        ("fine", np.float64),
    ],
)
def test_zero_and_one_are_cells_of_their_own(name, dtype):
    n = len(grid.edges(name))
    scores = np.array([0.0, -0.0, np.nextafter(dtype(0), dtype(1)), np.nextafter(dtype(1), dtype(0)), 1.0], dtype)
    cells = grid.cell_of(scores, name).tolist()
    assert cells[:3] == [0, 0, 1]
    assert cells[4] == n
    # The fine grid's last edges are 1 in float32: the number before 1 lies in the first of the cells they bound.
    assert cells[3] == np.searchsorted(grid.edges(name).astype(dtype), scores[3]) < n


def test_a_table_on_the_standard_grid_has_at_most_4396_rows():
    edges = grid.edges("standard")
    everywhere = np.concatenate([edges, (edges[1:] + edges[:-1]) / 2])
    table = table_of(everywhere, np.zeros(len(everywhere), int), "standard")
    assert len(table) == 4396
    assert table.n == table.counts.sum() == len(everywhere)
    assert table.cells.tolist() == list(range(4396))
    assert table.counts[[0, -1]].tolist() == [1, 1]


EXACT = [m for m in range(1, 301) if 300 % m == 0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bins_that_divide_the_grid_are_exact(dtype):
    """Rows on every edge j / 300 and anywhere: the histogram, ECE, RMSCE, MCE and debiased square of the grid."""
    rng = np.random.default_rng(41)
    p = np.concatenate([np.arange(301) / 300, rng.beta(0.3, 0.3, 2000), [1e-9, 1 - 1e-7]]).astype(dtype)
    y = (rng.random(len(p)) < p).astype(int)
    table = table_of(p, y, "standard")
    for n_bins in EXACT:
        own, on_grid = evaluate(p, y, n_bins=n_bins), evaluate(table, n_bins=n_bins)
        assert on_grid.diagram.counts.tolist() == own.diagram.counts.tolist()
        for name in ("ece", "rmsce", "mce", "brier", "mean_confidence", "uncertainty"):
            assert_same(on_grid[name].value, own[name].value, CLOSE, f"{name} {n_bins}")
        found, square = (report["rmsce"].details["debiased_square"] for report in (on_grid, own))
        assert_same(found, square, CLOSE, f"debiased {n_bins}")


@law
@given(events(), st.sampled_from([6, 15, 100]))
def test_any_events_on_the_grid_have_the_same_exact_measures(data, n_bins):
    p, y = data
    own, on_grid = (
        evaluate(p, y, n_bins=n_bins),
        evaluate(table_of(p, y, "standard"), n_bins=n_bins),
    )
    for name in ("ece", "rmsce", "mce", "brier", "mean_confidence", "uncertainty"):
        assert_same(on_grid[name].value, own[name].value, CLOSE, name)


@pytest.mark.parametrize("m", [7, 15, 40])
def test_what_the_grid_certifies_is_kept(m):
    """Section 5: equal-width CE with straddled cells <= (2 / N) sum of A over them; equal-mass likewise (one a cut).

    smECE with mass at the cells' means, each within a cell's width w of its scores: <= sqrt(2 / pi) / s w R. The rows'
    own fit is no worse than the cells', and no better than if in each cell zeros came before ones.
    """
    rng = np.random.default_rng(42)
    p = rng.beta(0.5, 0.5, 20_000)
    y = (rng.random(len(p)) < p**1.3).astype(int)
    table = table_of(p, y, "standard")
    a_cell = table.score_sums - 2 * table.positive_scores + table.positives  # S0 + n1 - S1
    edges = grid.edges("standard")
    low, high = edges[np.clip(table.cells - 1, 0, None)], edges[np.clip(table.cells, None, len(edges) - 1)]
    inside = np.arange(1, m) / m
    straddled = ((low[:, None] < inside) & (inside < high[:, None])).any(axis=1)
    bound = 2 / len(p) * a_cell[straddled].sum()
    own, on_grid = evaluate(p, y, n_bins=m), evaluate(table, n_bins=m)
    assert abs(own["ece"].value - on_grid["ece"].value) <= bound + CLOSE
    assert straddled.any() == (m in (7, 40))
    assert abs(own["ace"].value - on_grid["ace"].value) <= 2 / len(p) * np.sort(a_cell)[-(m - 1) :].sum() + CLOSE
    s = own["smece"].value
    wide = np.diff(edges).max() * a_cell.sum() / len(p)
    assert abs(s - on_grid["smece"].value) <= math.sqrt(2 / math.pi) / s * wide + LOOSE
    zeros, ones = table.counts - table.positives, table.positives
    mass, rate = np.stack([zeros, ones], axis=1).ravel(), np.tile([0.0, 1.0], len(table))
    x = scipy_isotonic(rate[mass > 0], weights=mass[mass > 0]).x
    best = np.sum(mass[mass > 0] * (rate[mass > 0] - x) ** 2) / len(p)
    least, found, most = on_grid["miscalibration"].value, own["miscalibration"].value, own["brier"].value - best
    assert least - CLOSE <= found <= most + CLOSE


def test_a_cells_mean_stays_inside_its_cell():
    # Seven scores just above the edge .2, whose mean rounds to .2: of fifteen bins they are in the fourth.
    p, y = np.array([np.nextafter(0.2, 1)] * 7 + [0.2]), [0] * 7 + [1]
    table = table_of(p, y, "standard")
    assert np.all(np.diff(table.scores) > 0)
    assert evaluate(table)["ece"].value == pytest.approx(ece(p, y), abs=CLOSE)


def test_tables_of_different_make_do_not_add():
    narrow, wide, coarse = (
        table_of(np.array([0.5], t), [1], g) for t, g in (("f4", None), ("f8", None), ("f8", "fine"))
    )
    for other in (wide, coarse):
        with pytest.raises(ValueError, match=r"tables: expected two tables of the same kind \(exact, float32\)"):
            narrow + other


# ---------------------------------------------------------------- naive sums


def naive_class_errors(probs, labels, n_bins, threshold, binning, norm):
    """Row by row and class by class, in plain Python."""
    errors, kept = [], []
    for k in range(probs.shape[1]):
        rows = [(float(row[k]), int(y == k)) for row, y in zip(probs, labels, strict=True) if row[k] >= threshold]
        kept.append(len(rows) / len(probs))
        bins: dict[int, list[tuple[float, int]]] = {}
        seen = 0
        for score, ties in itertools.groupby(sorted(rows), key=lambda row: row[0]):
            group = list(ties)
            seen += len(group)
            if binning == "quantile":
                b = min(n_bins - 1, n_bins * (2 * seen - len(group)) // (2 * len(rows)))
            else:
                b = next(j for j in range(n_bins) if score <= float(probs.dtype.type((j + 1) / n_bins)))
            bins.setdefault(b, []).extend(group)
        gaps = [(len(own), abs(math.fsum(p - y for p, y in own)) / len(own)) for own in bins.values()]
        if not gaps:
            errors.append(math.nan)
        elif norm == "l1":
            errors.append(sum(n * gap for n, gap in gaps) / len(rows))
        elif norm == "l2":
            errors.append(math.sqrt(sum(n * gap**2 for n, gap in gaps) / len(rows)))
        else:
            errors.append(max(gap for _, gap in gaps))
    return np.array(errors), np.array(kept)


@law
@given(
    classes(),
    st.integers(1, 8),
    st.sampled_from([0.0, 0.01, 0.25, 0.5, 1.0]),  # the same in both precisions; see the next test
    st.sampled_from(["uniform", "quantile"]),
    st.sampled_from(["l1", "l2", "max"]),
)
def test_class_errors_row_by_row(data, n_bins, threshold, binning, norm):
    # binning="quantile" with a threshold is TACE (Nixon 2019).
    probs, labels = data
    options = {"threshold": threshold, "binning": binning, "norm": norm}
    errors, kept = naive_class_errors(probs, labels, n_bins, threshold, binning, norm)
    found = calibrant.classwise_calibration(probs, labels, n_bins, **options)
    assert_same(found.errors, errors, CLOSE, "")
    assert found.kept == pytest.approx(kept)
    known = errors[~np.isnan(errors)]
    if len(known) == 0:
        assert math.isnan(found.value)
    else:
        means = {"l1": known.mean(), "l2": math.sqrt(np.mean(known**2)), "max": known.max()}
        assert found.value == pytest.approx(means[norm], abs=CLOSE)
    assert_same(calibrant.classwise_calibration_errors(probs, labels, n_bins, **options), found.errors, 0, "")


def test_a_threshold_keeps_the_same_in_every_precision_and_binning():
    # A score printed as .7 is kept by a threshold of .7, like a score on an edge.
    probs = np.array([[0.7, 0.3]] * 2)
    for dtype, binning in itertools.product((np.float32, np.float64), ("uniform", "quantile")):
        found = calibrant.classwise_calibration(probs.astype(dtype), [0, 1], 5, threshold=0.7, binning=binning)
        assert found.kept.tolist() == [1.0, 0.0], (dtype, binning)


@law
@given(events(), st.integers(1, 6), st.sampled_from(["uniform", "quantile"]))
def test_the_debiased_square_is_the_mean_over_pairs(data, n_bins, binning):
    """Kumar et al. (2019): sum_b o_b times the mean over pairs i != j of the bin of (p_i - y_i) (p_j - y_j)."""
    p, y = data
    residuals = p.astype(np.float64) - y
    shown = calibrant.reliability_diagram(p, y, n_bins, binning=binning)
    if binning == "uniform":
        bins = np.searchsorted((np.arange(1, n_bins) / n_bins).astype(p.dtype), p)
    else:
        bins = np.searchsorted(shown.edges[1:-1], p)
    assert np.bincount(bins, minlength=n_bins).tolist() == shown.counts.tolist()
    truth = 0.0
    for b in np.unique(bins):
        own = residuals[bins == b]
        if len(own) > 1:
            pairs = [a * c for a, c in itertools.permutations(own, 2)]
            truth += len(own) / len(p) * math.fsum(pairs) / len(pairs)
    found = rmsce(p, y, n_bins, binning=binning, debiased=True)
    assert found == pytest.approx(math.sqrt(max(0.0, truth)), abs=LOOSE)
    if binning == "uniform":
        details = evaluate(p, y, n_bins=n_bins)["rmsce"].details
        assert details["debiased_square"] == pytest.approx(truth, abs=CLOSE)


@law
@given(classes())
def test_proper_scores_and_accuracy_row_by_row(data):
    probs, labels = data
    wide = probs.astype(np.float64)
    hot = np.eye(probs.shape[1])[labels]
    assert calibrant.brier_score(probs, labels) == pytest.approx(((wide - hot) ** 2).sum(axis=1).mean(), abs=CLOSE)
    own = wide[np.arange(len(labels)), labels]
    nll = -np.mean([math.log(p) for p in own]) if own.min() > 0 else math.inf
    assert calibrant.negative_log_likelihood(probs, labels) == pytest.approx(nll, abs=CLOSE)
    assert calibrant.negative_log_likelihood(probs, labels, eps=0.01) == pytest.approx(
        -np.mean(np.log(np.maximum(own, 0.01))), abs=CLOSE
    )
    right = probs.argmax(axis=1) == labels  # numpy's argmax too takes the first of equals
    assert calibrant.accuracy(probs, labels) == pytest.approx(right.mean(), abs=CLOSE)
    top = calibrant.top_label_brier_score(probs, labels)
    assert top == pytest.approx(np.mean((wide.max(axis=1) - right) ** 2), abs=CLOSE)
    found = evaluate(probs, labels)["nll"].details.get("infinite_rows", 0)
    assert found == np.count_nonzero(own == 0)


def test_half_predicts_class_one_and_ties_the_lowest_class():
    assert calibrant.accuracy([0.5, 0.5], [1, 0]) == 0.5
    assert evaluate([0.5], [1], notion="top-label").outcome_rate == 1.0
    probs = [[0.4, 0.4, 0.2], [0.2, 0.4, 0.4]]
    assert calibrant.accuracy(probs, [0, 1]) == 1.0
    assert calibrant.accuracy(probs, [1, 2]) == 0.0
    assert calibrant.accuracy(np.log(probs), [0, 1], logits=True) == 1.0


# ---------------------------------------------------------------- labels that are not all judged


def test_ignored_labels_leave_shares_of_at_most_one():
    probs, labels = np.array([[0.2, 0.3], [0.4, 0.5]]), np.array([[1, -1], [0, 1]])
    found = calibrant.classwise_calibration(probs, labels, notion="multilabel", ignore_index=-1)
    assert found.kept.max() <= 1


def test_a_label_that_is_ignored_throughout_is_left_out():
    probs, labels = np.array([[0.2, 0.3], [0.4, 0.5]]), np.array([[1, -1], [0, -1]])
    report = evaluate(probs, labels, notion="multilabel", ignore_index=-1)
    assert report["ece"].value == pytest.approx(ece(probs[:, 0], labels[:, 0]))


def test_log_odds_just_below_zero_have_one_predicted_class():
    report = evaluate([-1e-20, 3.0], [1, 1], notion="top-label", logits=True)
    assert report["accuracy"].value == report.outcome_rate
