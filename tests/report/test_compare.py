"""Two models on the same rows: naive formulas, a published interval, laws, known truth, errors, the command."""

from __future__ import annotations

import itertools
import json
import math
import re
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shown
from scipy.special import log_softmax, ndtr, ndtri, softmax

import calibrant
from calibrant.errors import InputError
from calibrant.inputs.notions import read, resolve
from calibrant.inputs.predictions import as_predictions
from calibrant.inputs.scores import class_row_scores, event_row_scores
from calibrant.measures.differences import paired
from calibrant.measures.differences.paired import Model
from calibrant.render.terminal import Style, to_terminal
from calibrant.report.compared_models import ReadModel
from tests import in_process
from tests.keys_of import explained
from tests.samples import draw, tilted

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "comparing.md"
MEASURES = ("debiased_square", "ece", "accuracy", "brier", "nll")


def sample(n: int, seed: int, a: float = 1.5, b: float = 1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores of two models that see the same x, tilted by a and b, and what happened."""
    rng = np.random.default_rng(seed)
    p = rng.beta(1.2, 0.8, n)
    near = np.clip(p + 0.1 * rng.standard_normal(n), 0.01, 0.99)
    return tilted(p, a), tilted(near, b), (rng.random(n) < p).astype(np.int64)


def classes(n: int, c: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logits of two models of c classes, and the classes."""
    rng = np.random.default_rng(seed)
    first = 2 * rng.standard_normal((n, c))
    targets = np.array([rng.choice(c, p=row) for row in softmax(first, axis=1)])
    return first, 1.7 * first + rng.standard_normal((n, c)), targets


def numbers(pair: Any, *, sign: int = 1) -> np.ndarray:
    """Values, ends and p-value of a pair; with sign -1 as they should be with the models exchanged."""
    found = []
    for name in MEASURES:
        e = pair[name]
        found += [e.value, e.low, e.high] if sign == 1 else [-e.value, -e.high, -e.low]
    return np.array([*found, pair["debiased_square"].p_value])


def rows_of(probs: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The judged event of each row."""
    if probs.ndim == 1:
        return probs, targets
    return probs.max(axis=1), (probs.argmax(axis=1) == targets).astype(int)


# ---------------------------------------------------------------- naive formulas


def bins_of(p: np.ndarray, n_bins: int) -> np.ndarray:
    return np.array([next(j for j in range(n_bins) if x <= (j + 1) / n_bins) for x in p])


def naive_square(p: np.ndarray, y: np.ndarray, w: np.ndarray, n_bins: int) -> float:
    """Sum over bins of the share times the mean of r_i r_j over pairs of different rows."""
    bins, r, value = bins_of(p, n_bins), p - y, 0.0
    for b in set(bins.tolist()):
        i = np.flatnonzero(bins == b)
        products, weights = np.outer(w[i] * r[i], w[i] * r[i]), np.outer(w[i], w[i])
        off = ~np.eye(len(i), dtype=bool)
        if off.any():
            value += w[i].sum() / w.sum() * products[off].sum() / weights[off].sum()
    return value


def moments(p: np.ndarray, y: np.ndarray, n_bins: int) -> list[tuple[np.ndarray, float, float, float, float]]:
    """Rows, S, Q, V0 and the blended variance of S of each bin."""
    bins, found = bins_of(p, n_bins), []
    for b in sorted(set(bins.tolist())):
        i = np.flatnonzero(bins == b)
        r, v0 = p[i] - y[i], float(np.sum(p[i] * (1 - p[i])))
        n, q = len(i), float(np.sum(r**2))
        found.append((i, float(np.sum(r)), q, v0, (n * q + 5 * v0) / (n + 5)))
    return found


def naive_square_error(p: list[np.ndarray], y: list[np.ndarray], n_bins: int) -> float:
    """The standard error of the difference, with double loops over rows."""
    size = len(p[0])
    gaps, thin, noise = np.zeros((2, size)), np.zeros((2, size)), 0.0
    pair, around, r = np.zeros((2, size)), np.zeros((2, size)), np.array([p[0] - y[0], p[1] - y[1]])
    for k in (0, 1):
        for i, s, q, v0, _ in moments(p[k], y[k], n_bins):
            n, d = len(i), s / len(i)
            u = (n * max(q - s**2 / n, 0) + 5 * v0) / (n + 5) / n
            gaps[k, i], thin[k, i] = d, np.sign(d) * math.sqrt(max(d**2 - u / n, 0))
            around[k, i] = r[k, i] - d
            if n > 1:
                noise += 2 * (n / size * u) ** 2 / (n * (n - 1))
                pair[k, i] = 1 / (size * (n - 1))
    bins = [bins_of(p[k], n_bins) for k in (0, 1)]
    shared = 0.0
    c = around[0] * around[1]
    for i, j in itertools.permutations(range(size), 2):
        if bins[0][i] == bins[0][j] and bins[1][i] == bins[1][j]:
            shared += 2 * pair[0, i] * pair[1, i] * c[i] * c[j]

    def spread(d: np.ndarray) -> float:
        influence = 2 * d * r - d**2
        return float(np.var(influence[0] - influence[1], ddof=1) / size)

    return math.sqrt(max(spread(gaps), spread(thin) + max(noise - 2 * max(shared, 0.0), 0.0)))


def naive_ece_ends(p: list[np.ndarray], y: list[np.ndarray], n_bins: int, z: float) -> tuple[float, float]:
    """[G_A - T_B - z sd(psi^g_A - psi^s_B), T_A - G_B + z sd(psi^s_A - psi^g_B)], sd with what was not seen of v.

    With at least four bins' worth of variance, T may be G + .481 sum sd with psi^g, where that end is nearer.
    """
    size, t, g = len(p[0]), [0.0, 0.0], [0.0, 0.0]
    psi_g, psi_s, more_g, more_s = np.zeros((2, size)), np.zeros((2, size)), [0.0, 0.0], [0.0, 0.0]
    roots, squares = [0.0, 0.0], [0.0, 0.0]
    for k in (0, 1):
        for i, s, q, _, v in moments(p[k], y[k], n_bins):
            x = s / math.sqrt(v)
            roots[k], squares[k] = roots[k] + math.sqrt(v), squares[k] + v
            density = math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
            slope = 2 * ndtr(x) - 1 + 4 * x * density
            t[k] += abs(s) / size
            g[k] += math.sqrt(v) * (x * (2 * ndtr(x) - 1) - 2 * density) / size
            psi_g[k, i], psi_s[k, i] = slope * (p[k][i] - y[k][i]), np.sign(s) * (p[k][i] - y[k][i])
            more_g[k] += max(v - q, 0) * slope**2
            more_s[k] += max(v - q, 0) * np.sign(s) ** 2

    def sd(a: np.ndarray, b: np.ndarray, more: float) -> float:
        d = a - b
        return math.sqrt((np.sum((d - d.mean()) ** 2) + more) / size**2 * size / (size - 1))

    def most(a: int, b: int) -> float:
        ends = [t[a] - g[b] + z * sd(psi_s[a], psi_g[b], more_s[a] + more_g[b])]
        if roots[a] ** 2 >= 4 * squares[a]:
            ends.append(g[a] + 0.480751173662022 * roots[a] / size - g[b] + z * sd(psi_g[a], psi_g[b], sum(more_g)))
        return min(ends)

    return -most(1, 0), most(0, 1)


@pytest.mark.parametrize("multiclass", [False, True])
@pytest.mark.parametrize("n_bins", [1, 4, 15])
def test_the_calibration_errors_against_naive_formulas(multiclass: bool, n_bins: int) -> None:
    if multiclass:
        first, second, targets = classes(60, 4, 3)
        probs = [softmax(first, axis=1), softmax(second, axis=1)]
    else:
        *probs, targets = sample(60, 3)
    pair = calibrant.compare(*probs, targets, n_bins=n_bins, level=0.9).pairs[0]
    evaluated = [rows_of(each, targets) for each in probs]
    p, y = [e[0] for e in evaluated], [e[1] for e in evaluated]
    z, ones = float(ndtri(0.95)), np.ones(60)
    square = pair["debiased_square"]
    value = naive_square(p[0], y[0], ones, n_bins) - naive_square(p[1], y[1], ones, n_bins)
    error = naive_square_error(p, y, n_bins)
    # Sums of 60 numbers below 1 in any order: 60 eps, and some room.
    assert square.value == pytest.approx(value, abs=1e-14)
    assert square.details["standard_error"] == pytest.approx(error, rel=1e-11)
    assert (square.low, square.high) == pytest.approx((value - z * error, value + z * error), abs=1e-12)
    assert square.p_value == pytest.approx(2 * ndtr(-abs(value) / error), rel=1e-9)
    ece = calibrant.expected_calibration_error
    assert pair["ece"].value == pytest.approx(
        ece(probs[0], targets, n_bins) - ece(probs[1], targets, n_bins), abs=1e-14
    )
    assert (pair["ece"].low, pair["ece"].high) == pytest.approx(naive_ece_ends(p, y, n_bins, z), abs=1e-12)


def test_many_bins_count_their_pairs_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, targets = sample(300, 8)
    dense = calibrant.compare(first, second, targets, n_bins=40)
    monkeypatch.setattr(paired, "_DENSE", 0)
    assert numbers(calibrant.compare(first, second, targets, n_bins=40).pairs[0]) == pytest.approx(
        numbers(dense.pairs[0]), abs=1e-14
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["event", "event logits", "classes", "class logits", "sheets"])
def test_scores_against_numpy(kind: str, dtype: type) -> None:
    logits = kind.endswith("logits")
    if kind.startswith("event"):
        a, b, y = sample(500, 5)
        raw = [np.log(p / (1 - p)) if logits else p for p in (a, b)]
        given = [x.astype(dtype) for x in raw]
        wide = [x.astype(float) for x in given]
        p = [1 / (1 + np.exp(-x)) if logits else x for x in wide]
        brier = [(q - y) ** 2 for q in p]
        nll = [-np.log(np.where(y == 1, q, 1 - q)) for q in p]
        right = [(q >= 0.5) == (y == 1) for q in p]
        targets: Any = y
    else:
        a, b, y = classes(500, 7, 5)
        a[:3] *= 500  # far beyond where exp overflows
        raw = [a, b] if logits else [softmax(a[3:], axis=1), softmax(b[3:], axis=1)]
        y = y if logits else y[3:]
        given = [x.astype(dtype) for x in raw]
        wide = [x.astype(float) for x in given]
        p = [softmax(x, axis=1) if logits else x for x in wide]
        brier = [((q - np.eye(7)[y]) ** 2).sum(axis=1) for q in p]
        each = np.arange(len(y))
        nll = [-log_softmax(x, axis=1)[each, y] if logits else -np.log(x[each, y]) for x in wide]
        right = [x.argmax(axis=1) == y for x in wide]
        targets = y
        if kind == "sheets":  # (B, C, D), as segmentations have
            used = 7 * (len(y) // 7)
            given = [np.ascontiguousarray(x[:used].reshape(-1, 7, 7).transpose(0, 2, 1)) for x in given]
            targets = y[:used].reshape(-1, 7)
            brier, nll, right = ([x[:used] for x in each] for each in (brier, nll, right))
    comparison = calibrant.compare(*given, targets, logits=logits, clusters=False)
    pair, n = comparison.pairs[0], len(brier[0])
    for name, (first, second) in {"brier": brier, "nll": nll}.items():
        d = np.asarray(first) - second
        half = ndtri(0.975) * d.std(ddof=1) / math.sqrt(n)
        # Accumulated in float64 from the same inputs: some eps times the largest loss, 3500.
        assert (pair[name].value, pair[name].low, pair[name].high) == pytest.approx(
            (d.mean(), d.mean() - half, d.mean() + half), abs=1e-11
        )
    assert pair["accuracy"].value == pytest.approx(np.mean(right[0]) - np.mean(right[1]), abs=1e-14)
    assert pair["accuracy"].details["only_first"] == np.sum(right[0] & ~right[1])
    for name, probs in zip(comparison.names, given, strict=True):
        own = comparison.models[name]
        root = calibrant.root_mean_square_calibration_error(probs, targets, debiased=True, logits=logits)
        assert own == pytest.approx(
            {
                "debiased_square": root**2 if root > 0 else min(own["debiased_square"], 0.0),
                "ece": calibrant.expected_calibration_error(probs, targets, logits=logits),
                "brier": calibrant.brier_score(probs, targets, logits=logits),
                "nll": calibrant.negative_log_likelihood(probs, targets, logits=logits),
                "accuracy": calibrant.accuracy(probs, targets, logits=logits),
            },
            # The functions read float32 as it is, and compiled kernels take its exponentials in single precision.
            rel=1e-8 if dtype == np.float32 else None,
            abs=1e-12,
        )


def test_a_half_predicts_class_one_as_in_the_accuracy() -> None:
    # Of single logits -1e-9 the probability rounds to one half.
    first, second = np.array([-1e-9, 0.0, 2.0], np.float32), np.array([-1.0, -1.0, -1.0], np.float32)
    pair = calibrant.compare(first, second, [1, 1, 0], logits=True).pairs[0]
    assert pair["accuracy"].value == pytest.approx(calibrant.accuracy(first, [1, 1, 0], logits=True) - 1 / 3, abs=1e-15)
    assert pair["accuracy"].details["only_first"] == 2


def test_the_interval_of_the_accuracy_is_bonett_and_prices() -> None:
    # statpsych 1.7 (R), ci.prop.ps(.05, 12, 4, 26, 6), from its manual: 0.44, 0.2548067 to 0.6251933
    first = np.repeat([0, 0, 1, 1], [12, 4, 26, 6])
    second = np.repeat([0, 1, 0, 1], [12, 4, 26, 6])
    pair = calibrant.compare(0.2 + 0.6 * first, 0.2 + 0.6 * second, np.ones(48)).pairs[0]
    assert pair["accuracy"].value == 22 / 48
    assert (pair["accuracy"].low, pair["accuracy"].high) == pytest.approx((0.2548067, 0.6251933), abs=5e-8)
    assert (pair["accuracy"].details["only_first"], pair["accuracy"].details["only_second"]) == (26, 4)


def test_holm_on_three_models() -> None:
    p, y = draw(2, 1500)
    models = {"honest": p, "bold": tilted(p, 1.6), "bolder": tilted(p, 2.2)}
    comparison = calibrant.compare(models, y)
    assert [(pair.first, pair.second) for pair in comparison.pairs] == list(itertools.combinations(models, 2))
    raw = [
        calibrant.compare(models[a], models[b], y).pairs[0]["debiased_square"].p_value
        for a, b in itertools.combinations(models, 2)
    ]
    squares = [pair["debiased_square"] for pair in comparison.pairs]
    # The scores of all models decide the order in which rows are summed.
    assert [square.details["raw_p_value"] for square in squares] == pytest.approx(raw, rel=1e-9)
    assert all(square.details["pairs"] == 3 for square in squares)
    running, expected = 0.0, {}
    for k, i in enumerate(np.argsort(raw)):
        running = max(running, min(1.0, (3 - k) * raw[i]))
        expected[i] = running
    assert [square.p_value for square in squares] == pytest.approx([expected[i] for i in range(3)], rel=1e-9)
    assert "raw_p_value" not in calibrant.compare(p, tilted(p, 1.6), y).pairs[0]["debiased_square"].details
    assert comparison.verdict()[-2].startswith("The p-values are Holm-adjusted for 3 pairs, but ")


# ---------------------------------------------------------------- laws

CASES: dict[str, Callable[[], tuple[tuple[Any, Any, Any], dict[str, Any]]]] = {
    "event": lambda: (sample(400, 1), {}),
    "one bin": lambda: (sample(400, 1), {"n_bins": 1}),
    "single precision": lambda: (tuple(x.astype(np.float32) for x in sample(400, 2)[:2]) + sample(400, 2)[2:], {}),
    "folded": lambda: (sample(400, 3), {"notion": "top-label"}),
    "logits of classes": lambda: (classes(400, 5, 4), {"logits": True}),
    "two classes": lambda: (classes(400, 2, 4), {"logits": True, "notion": "positive"}),
    "few rows": lambda: (sample(7, 5), {}),
    "whole weights": lambda: (sample(400, 6), {"weights": np.arange(400) % 4}),
    "weights": lambda: (sample(400, 7), {"weights": np.random.default_rng(1).exponential(size=400)}),
}


@pytest.fixture(params=list(CASES))
def case(request: pytest.FixtureRequest) -> tuple[tuple[Any, Any, Any], dict[str, Any]]:
    return CASES[request.param]()


def test_a_minus_b_is_minus_b_minus_a(case: Any) -> None:
    (first, second, targets), options = case
    there = calibrant.compare(first, second, targets, **options).pairs[0]
    back = calibrant.compare(second, first, targets, **options).pairs[0]
    # The covariance of the noise sums over the same cells in another order; all else has the same bits.
    assert numbers(there) == pytest.approx(numbers(back, sign=-1), abs=1e-13)


def test_every_interval_holds_its_value(case: Any) -> None:
    (first, second, targets), options = case
    for level in (0.5, 0.95):
        pair = calibrant.compare(first, second, targets, level=level, **options).pairs[0]
        assert all(pair[name].low <= pair[name].value <= pair[name].high for name in MEASURES)
        assert all(pair[name].level == level for name in MEASURES)


def test_a_model_does_not_differ_from_itself(case: Any) -> None:
    (first, _, targets), options = case
    comparison = calibrant.compare(first, first, targets, **options)
    pair = comparison.pairs[0]
    assert [pair[name].value for name in MEASURES] == [0.0] * 5
    assert pair["debiased_square"].p_value == 1
    assert all(pair[name].low <= 0 <= pair[name].high for name in MEASURES)
    assert any(sentence.startswith("No evidence in ") for sentence in comparison.verdict())


def test_the_test_of_a_model_is_that_of_its_report_in_closed_form() -> None:
    first, second, targets = sample(400, 8)
    comparison = calibrant.compare(first, second, targets)
    for name, scores in (("A", first), ("B", second)):
        report = calibrant.evaluate(scores, targets, n_resamples=200)
        assert comparison.tests[name].p_value == pytest.approx(report.test.details["closed_form_p_value"], rel=1e-9)
    assert "a report on one model simulates data sets, so its p-value may differ" in " ".join(str(comparison).split())


def test_rounding_to_single_precision_is_no_evidence() -> None:
    rejected = 0
    for seed in range(100):
        first, _, targets = sample(500, seed)
        square = calibrant.compare(first, first.astype(np.float32), targets, level=0.9).pairs[0]["debiased_square"]
        assert abs(square.value) < 1e-7
        rejected += square.p_value < 0.1
    assert rejected <= 10 + 9  # three standard errors


FORMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "auroc": {"sort_by": "auroc", "measures": ["mean_gap", "calibration_slope"]},
    "calibration": {"sort_by": "debiased_square", "tolerance": 0.01},
    "clusters": {"clusters": np.arange(400) // 3},
    "lone clusters": {"clusters": np.arange(400)},
    "groups": {"groups": np.arange(400) % 3},
    "clusters in groups": {"groups": np.arange(400) % 3, "clusters": np.arange(400) % 50},
}


@pytest.mark.parametrize("form", list(FORMS))
def test_the_order_of_the_rows_changes_no_bit(case: Any, form: str) -> None:
    (first, second, targets), options = case
    given = {name: x[: len(targets)] if isinstance(x, np.ndarray) else x for name, x in FORMS[form].items()}
    options = {**options, **given}
    there = calibrant.compare({"a": first, "b": second, "c": first}, targets, **options).to_json()
    for seed in range(2):
        order = np.random.default_rng(seed).permutation(len(targets))
        rows = {name: x[order] if isinstance(x, np.ndarray) else x for name, x in options.items()}
        models = {"a": first[order], "b": second[order], "c": first[order]}
        assert calibrant.compare(models, targets[order], **rows).to_json() == there


@pytest.mark.parametrize("clusters", [None, np.arange(600) % 40])
@pytest.mark.parametrize("digits", [1, 16])
def test_the_order_of_rows_with_own_outcomes_changes_no_bit(digits: int, clusters: Any) -> None:
    rng = np.random.default_rng(4)
    scores = [np.round(rng.random(600), digits) for _ in range(3)]
    outcomes = [rng.random(600) < score for score in scores]

    def compared(order: np.ndarray) -> str:
        models = {f"m{k}": (scores[k][order], outcomes[k][order]) for k in range(3)}
        return calibrant.compare(models, clusters=None if clusters is None else clusters[order]).to_json()

    assert compared(np.random.default_rng(5).permutation(600)) == compared(np.arange(600))


@pytest.mark.parametrize("logits", [False, True])
def test_a_weight_of_two_is_the_row_twice(logits: bool) -> None:
    first, second, targets = classes(200, 4, 1) if logits else sample(200, 1)
    weights = np.random.default_rng(0).integers(0, 4, 200)
    twice = np.repeat(np.arange(200), weights)
    weighted = calibrant.compare(first, second, targets, weights=weights, weights_are="frequency", logits=logits)
    repeated = calibrant.compare(first[twice], second[twice], targets[twice], logits=logits)
    assert numbers(weighted.pairs[0]) == pytest.approx(numbers(repeated.pairs[0]), abs=1e-13)
    for name in "AB":
        assert weighted.models[name] == pytest.approx(repeated.models[name], abs=1e-13)
    assert weighted.pairs[0]["accuracy"].details == repeated.pairs[0]["accuracy"].details


def in_rows(scores: Any, targets: Any, n_bins: int, weights: Any = None) -> Model:
    """A model that is read from these rows."""
    how = {} if weights is None else {"weights": weights, "weights_are": "frequency"}
    predictions = as_predictions(scores, targets, **how)
    return Model.of("A", ReadModel.of("A", predictions, resolve(predictions, None)).ordered(), n_bins)


def test_the_shared_noise_of_repeated_rows() -> None:
    first, second, targets = sample(100, 1, a=1.0)
    weights = np.random.default_rng(0).integers(1, 4, 100).astype(np.float64)
    twice = np.repeat(np.arange(100), weights.astype(int))
    noises = []
    for rows, own in ((np.arange(100), weights), (twice, None)):
        models = (in_rows(scores[rows], targets[rows], 15, own) for scores in (first, second))
        noises.append(paired.shared_noise(*models))
    assert noises[0] == pytest.approx(noises[1], rel=1e-12)
    assert noises[0] > 0


def test_the_unit_of_weights_that_are_not_whole_does_not_matter() -> None:
    first, second, targets = sample(300, 4)
    weights = np.random.default_rng(0).exponential(size=300)
    one = calibrant.compare(first, second, targets, weights=weights).pairs[0]
    other = calibrant.compare(first, second, targets, weights=weights * 0.013).pairs[0]
    assert numbers(one) == pytest.approx(numbers(other), abs=1e-13)
    alike = calibrant.compare(first, second, targets, weights=np.full(300, 0.3)).pairs[0]
    assert numbers(alike) == pytest.approx(numbers(calibrant.compare(first, second, targets).pairs[0]), abs=1e-13)


def test_weights_against_naive_formulas() -> None:
    first, second, targets = sample(2_000, 4)
    w = np.random.default_rng(0).exponential(size=2_000)
    pair = calibrant.compare(first, second, targets, weights=w, n_bins=3).pairs[0]
    expected = naive_square(first, targets, w, 3) - naive_square(second, targets, w, 3)
    assert pair["debiased_square"].value == pytest.approx(expected, abs=1e-14)
    d = (first - targets) ** 2 - (second - targets) ** 2
    mean = np.sum(w * d) / w.sum()
    n = w.sum() ** 2 / np.sum(w**2)
    half = ndtri(0.975) * math.sqrt(np.sum(w**2 * (d - mean) ** 2) / w.sum() ** 2 * n / (n - 1))
    assert (pair["brier"].low, pair["brier"].high) == pytest.approx((mean - half, mean + half), abs=1e-14)


def test_rows_that_are_not_judged_are_left_out() -> None:
    first, second, targets = classes(200, 3, 2)
    targets[::5] = -7
    first[::5], second[::5] = np.nan, 1e300
    weights = np.ones(200)
    weights[1::5] = 0
    second[1::5] = -np.inf
    keep = np.arange(200) % 5 > 1
    ignored = calibrant.compare(first, second, targets, weights=weights, ignore_index=-7, logits=True)
    alone = calibrant.compare(first[keep], second[keep], targets[keep], logits=True)
    assert ignored.n == alone.n == 120
    assert numbers(ignored.pairs[0]) == pytest.approx(numbers(alone.pairs[0]), abs=1e-14)


def test_a_mapping_gives_the_same() -> None:
    first, second, targets = classes(200, 3, 2)
    probs = softmax(second, axis=1)
    pair = calibrant.compare(softmax(first, axis=1), probs, targets, names=("x", "y")).pairs[0]
    for logits in ({"x": True}, {"x": True, "y": False}):
        mapped = calibrant.compare({"x": first, "y": probs}, targets, logits=logits)
        assert mapped.names == ("x", "y")
        assert numbers(mapped.pairs[0]) == pytest.approx(numbers(pair), abs=1e-12)
    assert numbers(calibrant.compare({"x": first, "y": probs}, targets=targets, logits={"x": True}).pairs[0])[0]


def test_class_names() -> None:
    first, second, targets = classes(50, 3, 2)
    words = np.array(["cat", "dog", "eel"])[targets]
    named = calibrant.compare(first, second, words, logits=True, class_names=["cat", "dog", "eel"])
    assert (
        numbers(named.pairs[0]).tolist()
        == numbers(calibrant.compare(first, second, targets, logits=True).pairs[0]).tolist()
    )


# ---------------------------------------------------------------- known truth


def population(score: Callable[[np.ndarray], np.ndarray], a: float, n_bins: int = 15) -> tuple[float, float]:
    """Squared l2 and l1 error over bins of a model that says score(x), x uniform, where the truth is tilted(x, a)."""
    x = (np.arange(300_000) + 0.5) / 300_000
    p, q = score(x), tilted(x, a)
    bins = np.minimum(np.ceil(p * n_bins).astype(int), n_bins)
    share = np.bincount(bins) / len(x)
    gaps = np.bincount(bins, p - q) / len(x)
    filled = share > 0
    return float(np.sum(gaps[filled] ** 2 / share[filled])), float(np.abs(gaps).sum())


TRUTHS = {
    "both calibrated": (lambda x: x, lambda x: x, 1.0, 0.01),
    "one calibrated": (lambda x: x, lambda x: tilted(x, 1.4), 1.0, 0.01),
    "equally wrong": (lambda x: tilted(x, 1.4), lambda x: tilted(x, 1 / 1.4), 1.0, 0.0),
    "both wrong": (lambda x: x, lambda x: 0.2 + 0.6 * x, 2.0, 0.0),
}


def test_the_population_against_closed_forms() -> None:
    # U(0, 1), a = 2: l1 = ln(2) / 2 - 1/4, l2^2 = 3 pi / 8 - 7/6; 3,000 bins are as good as none.
    square, absolute = population(lambda x: x, 2.0, 3000)
    assert absolute == pytest.approx(math.log(2) / 2 - 0.25, abs=1e-5)
    assert square == pytest.approx(3 * math.pi / 8 - 7 / 6, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", TRUTHS)
def test_coverage(name: str) -> None:
    """90 % intervals hold the truth; near double degeneracy and for ECE they do so more often than 90 %."""
    first, second, a, blur = TRUTHS[name]
    squares, errors = zip(population(first, a), population(second, a), strict=True)
    rng, runs, held = np.random.default_rng(7), 400, np.zeros(4)
    for _ in range(runs):
        x = rng.random(1500)
        y = rng.random(1500) < tilted(x, a)
        # A second model that sees x a little less well is calibrated as well as the first: the blur is of the score.
        other = np.clip(second(x) + blur * rng.standard_normal(1500), 0, 1)
        pair = calibrant.compare(first(x), other, y, level=0.9).pairs[0]
        for k, (measure, truth) in enumerate((("debiased_square", squares), ("ece", errors))):
            held[k] += pair[measure].low <= truth[0] - truth[1] <= pair[measure].high
        held[2] += pair["debiased_square"].p_value < 0.1
    # 400 runs: three standard errors of a share of .9 are .045.
    assert held[0] / runs >= 0.9 - 0.045
    assert held[1] / runs >= 0.9 - 0.045
    rejected = held[2] / runs
    assert rejected >= 0.5 if name in ("one calibrated", "both wrong") else rejected <= 0.1 + 0.045


@pytest.mark.slow
def test_coverage_of_rare_events() -> None:
    rng, held = np.random.default_rng(3), np.zeros(2)
    for _ in range(300):
        p = rng.beta(1, 20, 300)
        y = rng.random(300) < p
        other = np.clip(p * np.exp(0.1 * rng.standard_normal(300) - 0.005), 0, 1)
        pair = calibrant.compare(p, other, y, level=0.9).pairs[0]
        held += [pair["debiased_square"].p_value >= 0.1, pair["ece"].low <= 0 <= pair["ece"].high]
    assert (held / 300 >= 0.9 - 0.052).all()  # three standard errors


def test_the_noise_of_alike_models_cancels() -> None:
    """A model and its recalibration share their noise: the sum of both noises would hide what there is to see."""
    rng, seen = np.random.default_rng(1), 0
    for _ in range(40):
        p = rng.random(20_000)
        y = rng.random(20_000) < p
        seen += calibrant.compare(tilted(p, 1.1), p, y, level=0.9).pairs[0]["debiased_square"].p_value < 0.1
    assert seen >= 24  # 32 expected; 17 where the noises are added


# ---------------------------------------------------------------- what cannot be had


def test_infinite_losses() -> None:
    first, second, targets = [1.0, 0.9, 0.2, 0.4], [0.8, 0.1, 0.0, 0.3], [0, 1, 1, 0]
    lost = "observed outcome had predicted probability 0 in"
    both = calibrant.compare(first, second, targets)
    assert math.isnan(both.pairs[0]["nll"].value)
    assert both.pairs[0]["nll"].method == (f"not available: infinite: 1 {lost} A; 1 {lost} B")
    assert both.pairs[0]["nll"].details["infinite_rows"] == {"A": 1, "B": 1}
    for probs, sign in (((first, [0.5] * 4), 1), (([0.5] * 4, first), -1)):
        one = calibrant.compare(*probs, targets)
        estimate = one.pairs[0]["nll"]
        assert estimate.value == sign * math.inf
        assert all(math.isnan(x) for x in (estimate.low, estimate.high, estimate.level))
        missing = json.loads(one.to_json())["not_finite"]
        assert missing["pairs[0].estimates.nll.value"].startswith(f"infinite: 1 {lost} ")
        assert missing[f"models.{'AB'[sign < 0]}.nll"] == "an observed outcome had predicted probability 0"
    assert f"log loss: infinite: 1 {lost} A" in " ".join(str(both).split())
    assert math.isfinite(calibrant.compare([800.0, -3], [2.0, -800], [0, 1], logits=True).pairs[0]["nll"].value)


def test_one_row_tells_nothing_of_the_spread() -> None:
    comparison = calibrant.compare([0.2], [0.4], [1])
    assert comparison.pairs[0]["debiased_square"].p_value == 1
    summary = json.loads(comparison.to_json())
    assert summary["pairs"][0]["estimates"]["brier"]["low"] is None
    assert summary["not_finite"]["pairs[0].estimates.brier.low"] == "the variance cannot be estimated from one row"
    assert "no interval: an interval needs at least two rows" in " ".join(str(comparison).split())
    assert "No evidence in 1 row that A or B is better calibrated (p = 1.000)." in comparison.verdict()


def test_rare_outcomes_are_flagged() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(100) / 10
    y = np.arange(100) < 3
    comparison = calibrant.compare(p, p / 2, y, names=("x", "y"))
    flag = "3 rows of the less frequent outcome for x, fewer than 15, so intervals may be too short"
    assert all(comparison.pairs[0][name].details["flag"] == flag for name in MEASURES)
    assert comparison.verdict()[-1] == f"Caution: {flag}."
    assert comparison.tests["x"].details["flag"].startswith("3 rows of the less frequent outcome, fewer than 15")
    assert "flag" not in calibrant.compare(p, p, np.arange(100) < 20).pairs[0]["ece"].details


# ---------------------------------------------------------------- results


def test_json_is_strict_and_every_key_is_explained() -> None:
    first, second, targets = sample(20, 1)
    zero = np.where(targets == 1, 0.0, first)
    comparison = calibrant.compare({"a": first, "b": second, "zero": zero}, targets, tolerance=0.01)

    def refuse(constant: str) -> None:
        pytest.fail(f"{constant} is not JSON")

    summary = json.loads(comparison.to_json(), parse_constant=refuse)
    assert summary == comparison.to_dict()
    keys: set[str] = set()

    def collect(value: object) -> None:
        for entry in value if isinstance(value, list) else ():
            collect(entry)
        for key, entry in value.items() if isinstance(value, dict) else ():
            if "." not in key and key not in comparison.names:
                keys.add(key)
            collect(entry)

    collect(summary)
    assert {"flag", "raw_p_value", "standard_error", "infinite_rows", "only_first", "decision", "leading"} <= keys
    assert keys - explained() == set()
    estimate = summary["pairs"][2]["estimates"]["brier"]
    assert (estimate["value"], estimate["low"]) == (
        comparison.pairs[2]["brier"].value,
        comparison.pairs[2]["brier"].low,
    )
    assert "p_value" not in estimate


def test_the_text_shows_the_numbers() -> None:
    first, second, targets = sample(900, 3)
    comparison = calibrant.compare(first, second, targets, names=("old", "new"), level=0.8)
    text, pair = str(comparison), comparison.pairs[0]
    assert text.startswith("900 rows, 2 models (event: outcome = 1)\n")
    assert "\nold minus new\n" in text
    for name in ("ece", "brier", "nll", "accuracy"):
        e, label = pair[name], re.escape(comparison.descriptions[name].label)
        assert re.search(rf"^  {label} +\{e.value:+.4f} +\{e.low:+.4f} to \{e.high:+.4f}", text, re.MULTILINE), name
    for name, values in comparison.models.items():
        numbers = [f"{values[key]:.4f}" for key in ("brier", "nll", "accuracy")]
        found = re.search(rf"^  {name} +miscalibrated +{' +'.join(map(re.escape, numbers))} .*$", text, re.MULTILINE)
        assert found, name
        assert f" {values['ece']:.4f} " in f"{found[0]} "
    assert max(map(len, text.splitlines())) <= 80


def test_the_terminal() -> None:
    first, second, targets = sample(900, 3)
    document = calibrant.compare(first, second, targets, names=("old\x1b[2J", "n" * 50))._document()
    plain = to_terminal(document, title="a.csv", used="models: a, b", style=Style(unicode=False, width=60))
    assert plain.isascii()
    assert "\x1b" not in plain
    assert plain.startswith("a.csv\n900 rows, 2 models (event: outcome = 1)\nmodels: a, b\n")
    assert "old?[2J minus" in plain
    bold = to_terminal(document, style=Style(colour=True))
    assert "\x1b[1mold?[2J minus" in bold


def test_the_verdict() -> None:
    p, y = draw(0, 4000)
    bold = tilted(p, 2)
    comparison = calibrant.compare(p, bold, y, names=("honest", "bold"))
    *by_itself, brier, calibration, assumed = comparison.verdict()
    assert assumed == "Confidence intervals and p-values assume independent rows."
    assert by_itself == [
        f"honest shows no evidence of miscalibration (p = {comparison.tests['honest'].p_value:.3f}).",
        "bold shows evidence of miscalibration (p < 0.001).",
    ]
    e = comparison.pairs[0]["debiased_square"]
    assert calibration == (
        "honest is better calibrated than bold (p < 0.001): its squared calibration error is smaller by "
        f"{-e.value:.4f} (95 % CI {-e.high:.4f} to {-e.low:.4f})."
    )
    e = comparison.pairs[0]["brier"]
    assert brier == (
        "By the Brier score, which also rewards discrimination, honest is better by "
        f"{-e.value:.4f} (95 % CI {-e.high:.4f} to {-e.low:.4f})."
    )
    back = calibrant.compare(bold, p, y, names=("bold", "honest")).verdict()
    assert back == [*by_itself, brier, calibration, assumed]
    own = f"(p = {comparison.tests['honest'].p_value:.3f})"
    assert calibrant.compare(p, p, y).verdict() == [
        f"Neither model shows evidence of miscalibration: A {own}, B {own}.",
        "The data do not show which of the 2 models has the best Brier score: A, B.",
        "No evidence in 4,000 rows that A or B is better calibrated (p = 1.000).",
        assumed,
    ]


def test_the_sentence_on_a_tolerance() -> None:
    p, y = draw(0, 4000)
    models = {"old": p, "new": tilted(p, 1.3)}
    for tolerance in (0.002, 0.05, 0.3):
        comparison = calibrant.compare(models, y, tolerance=tolerance)
        decision = comparison.pairs[0].decision
        assert decision is not None
        more = ""
        if decision.more_rows:
            rows = f"{decision.more_rows:,} more rows"
            more = f" About {rows} would settle it if the true difference equals the estimate."
        difference, bound = "The ECE of new minus the ECE of old", "95 % confidence bound"
        sentence = {
            "proven": f"{difference} is within the tolerance of {tolerance:g}: upper {bound} {decision.high:+.4f}.",
            "disproven": f"{difference} exceeds the tolerance of {tolerance:g}: lower {bound} {decision.low:+.4f}.",
            "open": f"Inconclusive for a tolerance of {tolerance:g}: {bound}s {decision.low:+.4f} and "
            f"{decision.high:+.4f} for the difference of the ECEs.{more}",
        }[decision.state]
        assert comparison.verdict()[0] == sentence
    assert {calibrant.compare(models, y, tolerance=t).pairs[0].decision.state for t in (0.002, 0.05, 0.3)} == {  # type: ignore[union-attr]
        "disproven",
        "open",
        "proven",
    }


def test_a_model_is_worse_if_the_deciding_measure_says_so() -> None:
    rng = np.random.default_rng(1)
    p = rng.random(3000)
    y = rng.random(3000) < p
    for models, worse in (
        ({"honest": p, "bold": tilted(p, 2)}, True),
        ({"bold": tilted(p, 2), "honest": p}, False),
        ({"honest": p, "blurred": np.clip(p + 1e-4 * rng.standard_normal(3000), 0, 1)}, False),
    ):
        comparison = calibrant.compare(models, y)
        assert comparison.worse(comparison.pairs[0]) == worse
    exactly = comparison.pairs[0]
    for p_value, level, worse in ((0.1, 0.9, True), (0.1001, 0.9, False)):  # 1 - 0.9 is a little below 0.1 in binary
        square = replace(exactly["debiased_square"], value=-0.01, p_value=p_value)
        pair = replace(exactly, estimates={**exactly.estimates, "debiased_square": square})
        assert replace(comparison, level=level).worse(pair) == worse


def test_results_are_frozen() -> None:
    comparison = calibrant.compare(*sample(20, 1))
    with pytest.raises(AttributeError):
        comparison.n = 3  # type: ignore[misc]
    with pytest.raises(AttributeError):
        comparison.pairs[0].first = "x"  # type: ignore[misc]


@pytest.mark.slow
def test_no_temporary_is_as_large_as_the_predictions() -> None:
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((10_000, 300)).astype(np.float32)
    other, targets = 2 * logits, rng.integers(0, 300, 10_000)
    calibrant.compare(logits, other, targets, logits=True)  # compiles
    tracemalloc.start()
    calibrant.compare(logits, other, targets, logits=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < logits.nbytes / 2


def test_the_bins_are_those_of_the_report() -> None:
    # A score printed as 0.6 falls in the same bin in both precisions.
    scores = np.array([0.2, 0.4, 0.6, 0.8, 1.0, 0.0])
    for dtype in (np.float32, np.float64):
        model = in_rows(scores.astype(dtype), np.ones(6, int), 5)
        assert model.index.tolist() == [0, 1, 2, 3, 4, 0]


# ---------------------------------------------------------------- errors

P = [0.2, 0.7, 0.4]
Y = [0, 1, 1]
WIDE = [[0.2, 0.8], [0.7, 0.3], [0.4, 0.6]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: calibrant.compare(P, P[:2], Y), "probs_b: expected 3 rows, as many as probs_a, got 2; give"),
        (lambda: calibrant.compare(np.array(P), np.zeros((2, 4)), Y), "probs_b: expected 3 rows, as many as probs_a"),
        (lambda: calibrant.compare({"x": P, "y": P[:2]}, Y), r"probs\['y'\]: expected 3 rows, as many as probs\['x'\]"),
        (lambda: calibrant.compare(P, WIDE, Y), r"probs_b: expected shape \(3,\), like probs_a, got shape \(3, 2\)"),
        (lambda: calibrant.compare(P, np.eye(3), [0, 1, 2]), r"probs_b: expected shape \(3,\), like probs_a"),
        (lambda: calibrant.compare(WIDE, np.eye(3), Y), r"got shape \(3, 3\); pass the same columns for every model"),
        (lambda: calibrant.compare(P, P, Y[:2]), "targets: expected 3 labels"),
        (lambda: calibrant.compare(P, [0.1, 7, 0.4], Y), r"probs_b: expected values in \[0, 1\], got 7 at row 1"),
        (lambda: calibrant.compare({"x": P, "y": [0.1, math.nan, 1]}, Y), r"probs\['y'\]: expected finite numbers"),
        (lambda: calibrant.compare(P, P), r"targets: expected an array, got None; call compare\(probs_a, probs_b"),
        (lambda: calibrant.compare({"x": P, "y": P}), "targets: expected an array, got None"),
        (lambda: calibrant.compare(P, None, Y), "probs_b: expected an array, got None"),
        (lambda: calibrant.compare({"x": P}, Y), "probs_a: expected two models or more, got a mapping of 1"),
        (
            lambda: calibrant.compare({"x": P, "y": P}, P, Y),
            "targets: expected two arguments, the mapping of models and",
        ),
        (
            lambda: calibrant.compare({"x": P, "y": P}, Y, names=("a", "b")),
            "names: expected no names, because the keys",
        ),
        (lambda: calibrant.compare({1: P, "1": P}, Y), "names: expected distinct names, got '1', '1'"),
        (lambda: calibrant.compare(P, P, Y, names=("a", "a")), "names: expected distinct names, got 'a', 'a'"),
        (lambda: calibrant.compare(P, P, Y, names=("a",)), r"names: expected two names, got \('a',\)"),
        (lambda: calibrant.compare(P, P, Y, names="ab"), "names: expected two names, got 'ab'"),
        (lambda: calibrant.compare(WIDE, WIDE, Y, notion="classwise"), "notion: expected 'positive' or 'top-label' to"),
        (lambda: calibrant.compare(P, P, Y, notion="multilabel"), "pass one class's column of each model at a time"),
        (lambda: calibrant.compare(P, P, Y, notion="top"), "notion: expected one of .*did you mean 'top-label'"),
        (lambda: calibrant.compare(P, P, Y, n_bins=0), "n_bins: expected an integer from 1"),
        (lambda: calibrant.compare(P, P, Y, level=95), "level: expected a number from 0.5 to below 1, got 95"),
        (lambda: calibrant.compare(P, P, Y, logits={"a": True}), "logits: expected the names of models, got 'a'"),
        (lambda: calibrant.compare(P, P, Y, logits={"A": 1}), "logits: expected True or False, got 1"),
        (lambda: calibrant.compare(P, P, Y, weights=[1, 2]), "weights: expected 3 numbers"),
    ],
)
def test_errors_say_what_to_do(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


# ---------------------------------------------------------------- the command


run = partial(in_process.run, "compare")
succeed = partial(in_process.succeed, "compare")
json_of = partial(in_process.json_of, "compare")


@pytest.fixture
def games(tmp_path: Path) -> Path:
    """A CSV file of two models and a third, of one event."""
    first, second, outcomes = sample(300, 1)
    lines = [
        f"{a:.4f},{b:.4f},{c:.4f},{y},{i % 3}"
        for i, (a, b, c, y) in enumerate(zip(first, second, first**2, outcomes, strict=True))
    ]
    path = tmp_path / "games.csv"
    path.write_text("\n".join(["old,new,logit_x,won,times", *lines]) + "\n")
    return path


def table(path: Path) -> dict[str, np.ndarray]:
    data = np.genfromtxt(path, delimiter=",", names=True)
    return {name: data[name] for name in data.dtype.names}


def test_the_page_shows_what_the_command_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    status, out, err = run("examples/digits.parquet", "--scores", "p_*,overconfident_*")
    assert (status, err) == (0, "")
    line = "$ calibrant compare examples/digits.parquet --scores 'p_*,overconfident_*'\n"
    (beginning,) = shown.texts(PAGE.read_text(encoding="utf-8"), "compared.txt")
    assert f"{line}{out}".startswith(beginning)
    assert len(beginning.splitlines()) > 8


def test_the_command_on_a_csv(games: Path) -> None:
    status, out, err = run(games, "--scores", "old, new", "--outcome", "won")
    assert (status, err) == (0, "")
    assert out.startswith(f"{games}\n300 rows, 2 models (event: won = 1)\nmodels: old, new, targets: won\n")
    columns = table(games)
    comparison = calibrant.compare({"old": columns["old"], "new": columns["new"]}, columns["won"])
    assert str(comparison).split("\n", 1)[1] in out


def test_json_and_options_reach_the_comparison(games: Path, tmp_path: Path) -> None:
    target = tmp_path / "comparison.json"
    options = ["--weight", "times", "--n-bins", 4, "--level", 0.8, "--where", "times < 2", "--notion", "top-label"]
    out, _ = succeed(games, "--scores", "old,new", "--outcome", "won", *options, "--json", target)
    assert "old minus new" in out
    summary = json.loads(target.read_text(encoding="utf-8"))
    columns = {name: column[table(games)["times"] < 2] for name, column in table(games).items()}
    comparison = calibrant.compare(
        {"old": columns["old"], "new": columns["new"]},
        columns["won"],
        weights=columns["times"],
        n_bins=4,
        level=0.8,
        notion="top-label",
    )
    source = summary.pop("source")
    assert summary == json.loads(comparison.to_json())
    assert source == {
        "files": [str(games)],
        "columns": {"probs['old']": "old", "probs['new']": "new", "targets": "won", "weights": "times"},
        "where": "times < 2",
        "timezone": "UTC",
        "event": None,
    }
    _, out, _ = run(games, "--scores", "old,new", "--outcome", "won", "--json", "-")
    assert json.loads(out)["n"] == 300
    assert run(games, "--scores", "old,new", "--target", "won", "--json", "-")[1] == out


def test_logits_are_found_by_their_name(games: Path) -> None:
    _, out, _ = run(games, "--scores", "old,logit_x", "--outcome", "won", "--json", "-")
    columns = table(games)
    models = {"old": columns["old"], "logit_x": columns["logit_x"]}
    expected = calibrant.compare(models, columns["won"], logits={"logit_x": True})
    assert json.loads(out)["models"] == {name: dict(values) for name, values in expected.models.items()}
    _, out, _ = run(games, "--scores", "old,new", "--outcome", "won", "--logits", "--json", "-")
    expected = calibrant.compare({"old": columns["old"], "new": columns["new"]}, columns["won"], logits=True)
    assert json.loads(out)["models"] == {name: dict(values) for name, values in expected.models.items()}


def test_three_models(games: Path) -> None:
    out, _ = succeed(games, "--scores", "old,new,times", "--where", "times < 2", "--outcome", "won")
    assert len(re.findall(r"^  (old|new) − (new|times) ", out, re.MULTILINE)) == 3
    assert "Holm-adjusted for 3 pairs" in " ".join(out.split())


def test_several_files_and_their_precision(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    first, second, outcomes = sample(200, 2)
    single = first.astype(np.float32)
    for part in (0, 1):
        rows = slice(100 * part, 100 * part + 100)
        columns = {"a": single[rows], "b": second[rows], "event": outcomes[rows]}
        pq.write_table(pa.table(columns), tmp_path / f"{part}.parquet")
    summary = json_of(tmp_path / "0.parquet", tmp_path / "1.parquet", "--scores", "a,b")
    summary.pop("source")
    # Each column keeps its width: widened, single scores on an edge would change their bin.
    assert summary == json.loads(calibrant.compare({"a": single, "b": second}, outcomes).to_json())


def test_archives_and_columns_of_lists(tmp_path: Path) -> None:
    first, second, targets = classes(80, 3, 1)
    expected = json.loads(calibrant.compare({"m": first, "k": second}, targets, logits=True).to_json())
    np.savez(tmp_path / "models.npz", m=first, k=second, y=targets)
    status, out, _ = run(tmp_path / "models.npz", "--scores", "m,k", "--logits", "--json", "-")
    assert status == 0
    summary = json.loads(out)
    assert summary.pop("source")["columns"] == {"probs['m']": "m", "probs['k']": "k", "targets": "y"}
    assert summary == expected
    lines = [
        json.dumps({"m": a.tolist(), "k": b.tolist(), "y": int(y)})
        for a, b, y in zip(first, second, targets, strict=True)
    ]
    (tmp_path / "models.jsonl").write_text("\n".join(lines) + "\n")
    cells = [f'"{a.tolist()}","{b.tolist()}",{y}' for a, b, y in zip(first, second, targets, strict=True)]
    (tmp_path / "models.csv").write_text("\n".join(["m,k,y", *cells]) + "\n")
    for name in ("models.jsonl", "models.csv"):
        summary = json_of(tmp_path / name, "--scores", "m,k", "--logits")
        assert summary.pop("source")["columns"]["probs['k']"] == "k (lists of 3)"
        assert summary == expected


def test_columns_that_name_the_classes(tmp_path: Path) -> None:
    first, second, targets = classes(60, 2, 3)
    probs = [softmax(x, axis=1) for x in (first, second)]
    path = tmp_path / "pets.csv"
    rows = [f"{a[0]},{a[1]},{b[1]},{b[0]},{('cat', 'dog')[y]}" for a, b, y in zip(*probs, targets, strict=True)]
    path.write_text("\n".join(["a_cat,a_dog,b_dog,b_cat,pet", *rows]) + "\n")
    status, out, err = run(path, "--scores", "a_*,b_*", "--outcome", "pet", "--json", "-")
    # The columns are taken as they stand in the file: those of b are of other classes.
    assert (status, out) == (1, "")
    words = (
        "--scores 'b_*' has the classes dog, cat, but 'a_*' has the classes cat, dog; name models of the same classes"
    )
    assert words in err
    path.write_text("\n".join(["a_cat,a_dog,b_0,b_1,pet", *rows]) + "\n")
    status, _, err = run(path, "--scores", "a_*,b_*", "--outcome", "pet")
    assert (status, "--scores 'b_*' has numbered classes, but 'a_*' has the classes cat, dog; " in err) == (1, True)
    path.write_text("\n".join(["a_cat,a_dog,b_cat,b_dog,pet", *rows]) + "\n")
    out, _ = succeed(path, "--scores", "a_*,b_*", "--outcome", "pet", "--json", "-")
    expected = calibrant.compare({"a_*": probs[0], "b_*": probs[1][:, ::-1]}, targets)
    assert json.loads(out)["models"]["b_*"] == pytest.approx(expected.models["b_*"], abs=1e-12)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--scores", "old"], "'old'; name two models or more, each once, such as old,new"),
        (["--scores", "old,old"], "name two models or more, each once"),
        (["--scores", "old,new", "--level", "95"], "95; pass a share from 0.5 to below 1, such as 0.95"),
        (["--scores", "old,new", "--n-bins", "0"], "0 bins; pass 1 or more"),
        (["--scores", "old,new", "--notion", "classwise"], "choose from 'positive', 'top-label'"),
        (["--outcome", "won"], "games.csv is the only file; name a second file, or the columns of the models"),
    ],
)
def test_wrong_usage_ends_with_2(games: Path, args: list[str], words: str) -> None:
    status, out, err = run(games, *args)
    assert (status, out) == (2, "")
    assert words in err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--scores", "old,nwe", "--outcome", "won"], "has no column 'nwe' (--scores); did you mean 'new'?"),
        (["--scores", "old,z_*", "--outcome", "won"], "no column matches --scores 'z_*'"),
        (["--scores", "old,new", "--outcome", "lost"], "has no column 'lost' (--outcome)"),
        (["--scores", "old,new"], "no column has a usual name for the targets"),
        (["--scores", "old,times", "--outcome", "won"], "row 3, column 'times': expected values in [0, 1], got 2"),
        (["--scores", "old,new", "--outcome", "times"], "row 3, column 'times': expected outcomes 0 or 1, got 2"),
        (["--scores", "new,[on]*", "--outcome", "won"], "expected shape (300,), as column 'new', got shape (300, 2)"),
    ],
)
def test_bad_data_ends_with_1(games: Path, args: list[str], words: str) -> None:
    status, out, err = run(games, *args)
    assert (status, out) == (1, "")
    assert err.startswith(f"calibrant: {games}: ")
    assert err.count("\n") == 1
    assert words in err


def test_a_single_array_holds_no_models(tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", np.zeros(3))
    assert (
        "contains a single array; save the arrays of all models and the targets in one .npz file"
        in run(tmp_path / "p.npy", "--scores", "a,b")[2]
    )
    np.savez(tmp_path / "p.npz", a=np.zeros(3), b=np.zeros(3), y=np.zeros(3))
    assert "--where is not available for .npz" in run(tmp_path / "p.npz", "--scores", "a,b", "--where", "x")[2]
    np.savez(tmp_path / "p.npz", a=np.zeros(3), b=np.zeros(2), y=np.zeros(3))
    assert "array 'b' has 2 rows and 'a' has 3" in run(tmp_path / "p.npz", "--scores", "a,b")[2]
    np.savez(tmp_path / "p.npz", a=np.zeros(3), b=np.array(["x"] * 3), y=np.zeros(3))
    assert "array 'b' holds text, not numbers" in run(tmp_path / "p.npz", "--scores", "a,b")[2]


@pytest.mark.parametrize("weighted", [False, True])
def test_each_model_has_the_diagram_of_its_report(weighted: bool) -> None:
    rng = np.random.default_rng(8)
    a, b = rng.random((2, 500))
    targets = rng.random(500) < a
    weights = rng.random(500) + 0.5 if weighted else None
    found = calibrant.compare({"a": a, "b": 0.5 * b}, targets, weights=weights)
    for name, probs in (("a", a), ("b", 0.5 * b)):
        own = found.diagrams[name]
        of_report = calibrant.evaluate(probs, targets, weights=weights, n_resamples=0).diagram
        assert of_report is not None
        assert own.level == of_report.level == 0.95
        for field in (
            "edges",
            "counts",
            "confidences",
            "accuracies",
            "proportions",
            "lows",
            "highs",
            "band_lows",
            "band_highs",
        ):
            np.testing.assert_allclose(getattr(own, field), getattr(of_report, field), atol=1e-12, err_msg=field)
        assert found.to_dict()["diagrams"][name]["counts"] == own.counts.tolist()


@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize("width", [1, 2, 5])
def test_scores_of_rows_are_those_of_the_one_read(width: int, logits: bool) -> None:
    """Two readings of the same numbers: row by row in NumPy, and all at once by the kernels."""
    rng = np.random.default_rng(width)
    x = rng.normal(size=(500, width)) * 3
    probs = x if logits else 1 / (1 + np.exp(-x)) if width == 1 else np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)
    targets = rng.integers(max(width, 2), size=500)
    predictions = as_predictions(probs[:, 0] if width == 1 else probs, targets, logits=logits)
    reading = read(predictions, resolve(predictions, None))
    score = event_row_scores if width == 1 else class_row_scores
    brier, nll, right = score(predictions.rows.values[:, :, 0], predictions.targets, logits)
    assert brier.mean() == pytest.approx(reading.means.brier, rel=1e-12)
    assert nll.mean() == pytest.approx(reading.means.nll, rel=1e-12)
    assert right.mean() == reading.means.accuracy


def test_two_readings_of_one_table_agree() -> None:
    """Models by their rows and by their sketches: the same values, where no bin's edge cuts a cell."""
    p, y = draw(9, 3_000, lambda p: p**1.2)
    by_rows = calibrant.compare({"a": p, "b": p**1.5}, y).models
    sketches = {"a": calibrant.CalibrationSketch(), "b": calibrant.CalibrationSketch()}
    for name, scores in (("a", p), ("b", p**1.5)):
        sketches[name].update(scores, y)
    by_sums = calibrant.compare(sketches).models
    for name in ("a", "b"):
        assert by_rows[name] == pytest.approx(dict(by_sums[name]), rel=1e-10)


def test_the_accuracy_of_thresholded_scores_has_a_name_of_its_own():
    """The share of correct answers and that of scores on the right side of 0.5 are two things, and have two names."""
    rng = np.random.default_rng(0)
    scores = rng.uniform(0.3, 1, 400)
    right = (rng.uniform(size=400) < scores).astype(int)
    report = calibrant.evaluate(scores, right, n_resamples=0)
    same = calibrant.compare({"a": scores, "b": scores**2}, right)
    own = calibrant.compare({"a": (scores, right), "b": (scores**2, right)})
    thresholded = float(np.mean((scores >= 0.5) == right))
    for result in (report, same):
        assert result.descriptions["accuracy"].label == "accuracy at 0.5"
    assert report["accuracy"].value == pytest.approx(thresholded)
    assert same.models["a"]["accuracy"] == pytest.approx(thresholded)
    assert own.descriptions["accuracy"].label == "accuracy"
    assert own.models["a"]["accuracy"] == pytest.approx(right.mean())
    classes = calibrant.evaluate(np.stack([1 - scores, scores], axis=1), right, n_resamples=0)
    assert classes.descriptions["accuracy"].label == "accuracy"
