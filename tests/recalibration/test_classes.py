"""Maps of the probabilities of classes: fits against naive ones, laws, forms, the proof, bad input."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax, logsumexp, softmax

import calibrant
from calibrant.errors import InputError
from calibrant.kernels import reference
from calibrant.recalibration import CalibrationMap
from calibrant.recalibration.pieces import CLIP
from calibrant.recalibration.softmax import CLASS_FAMILIES, MATRIX, VECTOR, SoftmaxRows, prepared
from calibrant.render.blocks import tables_of

METHODS = ["identity", "clipped", "temperature", "vector", "matrix"]


def drawn(
    n: int, n_classes: int, seed: int = 0, *, slope: float = 0.6, shift: float = 0.5
) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities that are too extreme and shifted, and classes."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(n, n_classes))
    truth = softmax(slope * logits + shift * np.linspace(-1, 1, n_classes), axis=1)
    return softmax(logits, axis=1), (rng.random((n, 1)) > truth.cumsum(axis=1)).sum(axis=1).clip(max=n_classes - 1)


def fix_of(p: Any, y: Any, **options: Any) -> calibrant.Recalibration:
    return calibrant.recalibrate(p, y, **{"n_resamples": 0, **options})


# ---------------------------------------------------------------- fits


def naive(p: np.ndarray, y: np.ndarray, w: np.ndarray, prior: float, *, matrix: bool) -> tuple[float, Any]:
    """Return the temperature and the penalised fit as their formulas are written, by general optimisers."""
    n, n_classes = float(w.sum()), p.shape[1]
    wanted = (np.eye(n_classes)[y] + prior / n * p) / (1 + prior / n)

    def loss(log_q: np.ndarray) -> float:
        return -(1 + prior / n) * float(np.sum(w[:, None] * wanted * log_q)) / n

    z = np.log(p)
    b = minimize_scalar(lambda b: loss(log_softmax(b * z, axis=1)), (0.1, 1), tol=1e-12).x

    def penalised(x: np.ndarray) -> float:
        c, rest = x[:n_classes], x[n_classes:]
        factors = rest.reshape(n_classes, -1) if matrix else np.diag(rest)
        moved = factors - np.eye(n_classes)
        diagonal = np.diag(np.diag(moved))
        ridge = n_classes / n * (c @ c + np.sum(diagonal**2))
        ridge += n_classes * (n_classes - 1) / n * np.sum((moved - diagonal) ** 2)
        return loss(log_softmax(b * z @ factors.T + c, axis=1)) + float(ridge)

    unit = np.eye(n_classes).ravel() if matrix else np.ones(n_classes)
    found = minimize(penalised, np.concatenate([np.zeros(n_classes), unit]), method="BFGS", options={"gtol": 1e-9})
    return float(b), found


@pytest.mark.parametrize("prior", [0.0, 20.0])
@pytest.mark.parametrize("matrix", [False, True])
def test_fits_are_those_of_naive_formulas(prior: float, matrix: bool) -> None:
    p, y = drawn(300, 3)
    w = np.random.default_rng(1).integers(0, 4, 300).astype(float)
    b, found = naive(p, y, w, prior, matrix=matrix)
    rows = SoftmaxRows(prepared(p, logits=False), y, w, prior)
    assert CLASS_FAMILIES[1].fit(rows).factors == pytest.approx(b, rel=1e-7)
    fit = (MATRIX if matrix else VECTOR).fit(rows)
    np.testing.assert_allclose(fit.constants, found.x[:3], rtol=0, atol=2e-5)
    np.testing.assert_allclose(fit.factors.ravel() / b, found.x[3:], rtol=0, atol=2e-5)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_log_totals_equals_its_reference(kind: type) -> None:
    host = pytest.importorskip("calibrant.kernels.host")
    logits = np.random.default_rng(0).normal(0, 4, (60, 7)).astype(kind)
    logits[0, 1:4] = -math.inf
    shifts, means, floor = np.empty((2, 60), kind), np.empty((2, 60)), -6.0
    for i, kernels in enumerate((host, reference)):
        kernels.log_totals(logits, logits.max(axis=1), floor, shifts[i], means[i], np.empty(7, kind))
    rounding = 30 * np.finfo(kind).eps
    np.testing.assert_allclose(shifts[0], shifts[1], rtol=rounding, atol=rounding)
    np.testing.assert_allclose(means[0], means[1], rtol=rounding, atol=rounding)
    log_p = log_softmax(logits.astype(float), axis=1)
    np.testing.assert_allclose(shifts[1], logsumexp(logits.astype(float), axis=1), rtol=rounding, atol=rounding)
    expected = np.sum(np.exp(log_p) * log_p.clip(min=floor), axis=1)
    np.testing.assert_allclose(means[1], expected, rtol=rounding, atol=rounding)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("slope", [0.05, 0.7, 30.0])
def test_temper_rows_equals_its_reference(kind: type, slope: float) -> None:
    host = pytest.importorskip("calibrant.kernels.host")
    x = np.random.default_rng(0).normal(0, 4, (60, 7)).astype(kind)
    x[0, :3] = -math.inf
    shifts, floor = logsumexp(x, axis=1).astype(kind), -9.0
    z = np.maximum(x - shifts[:, np.newaxis], kind(floor))
    moments = np.empty((2, 60, 2))
    for i, kernels in enumerate((host, reference)):
        kernels.temper_rows(x, shifts, floor, x.max(axis=1), slope, moments[i])
    rounding = 100 * max(slope, 1) * np.finfo(kind).eps
    np.testing.assert_allclose(moments[0], moments[1], rtol=rounding, atol=rounding)
    wide = z.astype(float)
    q = softmax(slope * wide, axis=1)
    mean = np.sum(q * wide, axis=1)
    np.testing.assert_allclose(moments[1][:, 0], mean, rtol=rounding, atol=rounding)
    np.testing.assert_allclose(moments[1][:, 1], np.sum(q * wide**2, axis=1) - mean**2, rtol=rounding, atol=rounding)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_log_rows_of_logits_are_those_of_their_probabilities(kind: type) -> None:
    logits = np.random.default_rng(3).normal(0, 6, (700, 5)).astype(kind)
    logits[0, 1] = -math.inf
    p = softmax(logits.astype(float), axis=1).astype(kind)
    one, other = prepared(logits, logits=True), prepared(p, logits=False)
    rounding = 200 * np.finfo(kind).eps
    np.testing.assert_allclose(one.part(slice(None)), other.part(slice(None)), rtol=0, atol=rounding)
    np.testing.assert_allclose(one.means, other.means, rtol=0, atol=rounding)
    np.testing.assert_array_equal(one.largest, logits.max(axis=1))
    np.testing.assert_array_equal(other.largest, other.part(slice(None)).max(axis=1))
    some = np.array([600, 2, 0])
    np.testing.assert_array_equal(one.take(some).part(slice(1, None)), one.part(some[1:]))


@pytest.mark.parametrize("method", METHODS)
def test_a_start_does_not_change_the_fit(method: str) -> None:
    p, y = drawn(500, 4)
    family = CLASS_FAMILIES[METHODS.index(method)]
    rows = SoftmaxRows(prepared(p, logits=False), y, np.ones(500), 20.0)
    one = family.fit(rows)
    other = family.fit(rows._replace(start=family.fit(rows._replace(weights=np.arange(500.0)))))
    np.testing.assert_allclose(one.factors, other.factors, rtol=0, atol=1e-4)


def test_the_gain_in_sample_is_that_of_the_map_on_its_rows() -> None:
    p, y = drawn(800, 3)
    fix = fix_of(p, y, method="vector")
    places = np.arange(800)
    mean = np.mean(np.log(fix.map(p)[places, y]) - np.log(p[places, y]))
    assert fix.gain.in_sample == pytest.approx(mean, rel=1e-10)
    assert fix.gain.high >= fix.gain.in_sample


def test_no_change_gains_nothing() -> None:
    p = softmax(np.random.default_rng(0).normal(0, 12, (300, 3)), axis=1)  # many are below the smallest of maps
    gain = fix_of(p, p.argsort(axis=1)[:, 1], method="identity").gain
    assert (gain.value, gain.in_sample, gain.low, gain.high, gain.p_value) == (0, 0, 0, 0, 1)


def test_the_gain_is_the_difference_of_the_losses_of_the_reports() -> None:
    p, y = drawn(800, 3)
    fix = fix_of(p, y)
    assert fix.gain.value == pytest.approx(fix.before["nll"].value - fix.after["nll"].value, rel=1e-9)
    assert fix.after["nll"].low < fix.after["nll"].value < fix.after["nll"].high


# ---------------------------------------------------------------- laws


@pytest.mark.parametrize("method", ["temperature", "vector", "auto"])
def test_the_order_of_rows_plays_no_part(method: str) -> None:
    p, y = drawn(400, 3)
    order = np.random.default_rng(2).permutation(400)
    one, other = fix_of(p, y, method=method), fix_of(p[order], y[order], method=method)
    assert one.map.parameters == other.map.parameters
    assert one.gain == other.gain


def test_a_weight_of_two_is_a_row_twice() -> None:
    p, y = drawn(400, 3)
    weights = 1 + np.arange(400) % 2
    once, twice = fix_of(p, y, weights=weights), fix_of(np.repeat(p, weights, axis=0), np.repeat(y, weights))
    assert once.gain == twice.gain
    assert once.map.parameters == twice.map.parameters


def test_float32_and_logits_give_the_same_map() -> None:
    p, y = drawn(1000, 3)
    wide = fix_of(p, y, method="vector").map.form
    for other in (
        fix_of(p.astype(np.float32), y, method="vector"),
        fix_of(np.log(p) + 3, y, method="vector", logits=True),
    ):
        np.testing.assert_allclose(other.map.form.factors, wide.factors, rtol=0, atol=2e-6)
        np.testing.assert_allclose(other.map.form.constants, wide.constants, rtol=0, atol=2e-6)


@pytest.mark.slow
def test_calibrated_probabilities_remain() -> None:
    kept = sum(fix_of(*drawn(1000, 4, seed, slope=1, shift=0)).chosen == "identity" for seed in range(40))
    assert kept >= 36


@pytest.mark.slow
@pytest.mark.parametrize("method", ["temperature", "vector", "matrix", "auto"])
def test_the_interval_covers_the_gain_on_new_rows(method: str) -> None:
    """The true gain is that on 20,000 new rows; an error of 0.002 of it counts for nothing."""
    new, labels = drawn(20_000, 4, 10_000)
    places = np.arange(len(labels))
    covered = 0
    for seed in range(60):
        gain = (fix := fix_of(*drawn(300, 4, seed), method=method)).gain
        truth = np.mean(np.log(fix.map(new)[places, labels]) - np.log(new[places, labels]))
        covered += gain.low - 0.002 <= truth <= gain.high + 0.002
    assert covered >= 51


def test_rows_of_clusters_show_a_gain_that_clusters_do_not() -> None:
    """Rows of a cluster share their class, which the fits of other folds then know."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(30), 40)
    p, _ = drawn(1200, 3, 5, slope=1, shift=0)
    y = rng.integers(0, 3, 30)[groups]
    p = softmax(np.log(p) / 10, axis=1)
    rows, whole = fix_of(p, y, method="matrix"), fix_of(p, y, method="matrix", clusters=groups)
    assert rows.proven
    assert not whole.proven
    assert whole.gain.high - whole.gain.low > rows.gain.high - rows.gain.low
    assert whole.map.fitted.cluster


def test_if_a_class_of_probability_0_occurred_a_map_is_compared_with_clipped_probabilities() -> None:
    p, y = drawn(600, 3)
    p[:5] = [1, 0, 0]
    y[:5] = 1
    fix, clipped = fix_of(p, y), fix_of(p, y, method="clipped")
    assert list(fix.losses) == ["clipped", "temperature", "vector", "matrix"]
    assert fix.gain.score == "log"
    assert math.isinf(fix.before["nll"].value)
    wanted = np.maximum(p, clipped.map.form.smallest)
    np.testing.assert_allclose(clipped.map(p), wanted / wanted.sum(axis=1, keepdims=True))
    loss = -np.mean(np.log(clipped.map(p)[np.arange(600), y]))
    assert fix.gain.value == pytest.approx(loss - fix.after["nll"].value)
    assert clipped.gain.score == "brier"
    assert clipped.gain.value == pytest.approx(clipped.before["brier"].value - clipped.after["brier"].value)
    assert CalibrationMap.from_json(clipped.map.to_json()) == clipped.map


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_a_shrunk_map_has_a_mean_of_log_probabilities(method: str, share: float) -> None:
    p, y = drawn(400, 3, shift=0.5)
    fitted = fix_of(p, y, method=method).map.form
    log_p = np.log(p)
    mean = (1 - share) * fitted.log_probabilities(log_p) + share * log_p
    shrunk = fitted.shrunk(share)
    np.testing.assert_allclose(
        shrunk.log_probabilities(log_p), mean - logsumexp(mean, axis=1, keepdims=True), rtol=0, atol=1e-12
    )


@pytest.mark.slow
def test_auto_shrinks_its_map_by_the_evidence() -> None:
    shrinkages = []
    for seed in range(6):
        p, y = drawn(300, 3, slope=(0.6, 0.8, 1.0)[seed % 3], shift=0.0, seed=seed)
        fix = fix_of(p, y)
        losses = {name: mean for name, (mean, _) in fix.losses.items()}
        best = min(losses, key=losses.__getitem__)
        gap, error = losses["identity"] - losses[best], fix.losses["identity"][1]
        if gap == 0 or error**2 >= 2 * gap**2:
            assert (fix.chosen, fix.shrinkage) == ("identity", 0)
            continue
        assert (fix.chosen, fix.shrinkage) == (best, pytest.approx(error**2 / (2 * gap**2)))
        shrinkages.append(fix.shrinkage)
        whole = fix_of(p, y, method=best).map.form
        np.testing.assert_allclose(fix.map.form.factors, whole.shrunk(fix.shrinkage).factors)
        said = (
            f"its log-probabilities are moved {100 * fix.shrinkage:.0f} % of the way to the log-probabilities of the "
            "unchanged scores."
        )
        assert (said in " ".join(str(fix).split())) == (fix.shrinkage >= 0.05)
        assert fix.to_dict()["shrinkage"] == fix.shrinkage
    assert 1 < len(shrinkages) < 6
    assert min(shrinkages) < 0.05 < max(shrinkages)


def test_rounding_of_the_probabilities_leaves_rows_in_their_folds() -> None:
    p, y = drawn(300, 3, slope=0.8)
    one, other = fix_of(p, y), fix_of(p * (1 + 1e-12 * np.random.default_rng(0).normal(size=p.shape)), y)
    assert other.gain.value == pytest.approx(one.gain.value, rel=1e-9)
    assert other.shrinkage == pytest.approx(one.shrinkage, rel=1e-9)


def test_matrix_scaling_needs_rows_of_each_class() -> None:
    assert "matrix" not in fix_of(*drawn(90, 4)).losses
    assert "matrix" in fix_of(*drawn(100, 4)).losses


# ---------------------------------------------------------------- the map and its forms


def steep(n: int, *, meant: bool, kind: type = np.float64) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities below 1.5e-7, and classes that are drawn from those of a tempered network, or at random."""
    rng = np.random.default_rng(5)
    logits = rng.normal(0, 14, (n, 3))
    truth = softmax(0.1 * logits, axis=1) if meant else 0.9 * softmax(logits, axis=1) + 0.1 / 3
    return softmax(logits, axis=1).astype(kind), (rng.random((n, 1)) > truth.cumsum(axis=1)).sum(axis=1).clip(max=2)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_small_probabilities_stay_unless_a_limit_fits_clearly_better(kind: type) -> None:
    p, y = steep(4_000, meant=True, kind=kind)
    assert 0 < p.min() < 1e-10
    assert fix_of(p, y, method="temperature").map.form.smallest == 0
    p, y = steep(4_000, meant=False)
    assert fix_of(p, y, method="temperature").map.form.smallest == CLIP
    assert fix_of(np.log(p), y, method="temperature", logits=True).map.form.smallest == 0


@pytest.mark.parametrize(("n_classes", "scale"), [(2, 30.0), (10, 30.0), (10, 1.0), (3, 1e4)])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_temperature_is_that_of_the_logits(n_classes: int, scale: float, kind: type) -> None:
    """The largest likelihood by another method, whatever the scale of the logits."""
    rng = np.random.default_rng(n_classes)
    z = rng.normal(0, 1, (2_000, n_classes))
    y = (1.3 * z + rng.gumbel(size=z.shape)).argmax(axis=1)
    z = (scale * z).astype(kind)

    def loss(b: float) -> float:
        return -float(np.mean(log_softmax(b * z.astype(np.float64), axis=1)[np.arange(2_000), y]))

    best = minimize_scalar(loss, bounds=(0.5 / scale, 3 / scale), method="bounded", options={"xatol": 1e-10 / scale})
    fix = fix_of(z, y, method="temperature", logits=True, prior_rows=0)
    assert fix.map.parameters["factors"][0] == pytest.approx(best.x, rel=1e-5)
    np.testing.assert_allclose(fix.map(z, logits=True), softmax(best.x * z.astype(np.float64), axis=1), atol=1e-4)


@pytest.mark.parametrize("method", ["temperature", "vector", "matrix"])
def test_a_fit_is_the_root_of_its_gradient(method: str) -> None:
    """So that the order of sums, which differs between processors, moves no parameter by 1e-9."""
    p, y = drawn(3_000, 4)
    rows = SoftmaxRows(prepared(p, logits=False), y, np.ones(3_000), 20.0)
    fitted = CLASS_FAMILIES[METHODS.index(method)].fit(rows)
    order = np.random.default_rng(0).permutation(3_000)
    shuffled = SoftmaxRows(prepared(p[order], logits=False), y[order], np.ones(3_000), 20.0)
    other = CLASS_FAMILIES[METHODS.index(method)].fit(shuffled)
    np.testing.assert_allclose(fitted.factors, other.factors, rtol=0, atol=1e-9)
    np.testing.assert_allclose(fitted.constants, other.constants, rtol=0, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["temperature", "vector"])
def test_more_than_10_000_classes_are_mapped(method: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(0, 4, (60, 10_500)).astype(np.float32)
    y = (z / 2 + rng.gumbel(size=z.shape)).argmax(axis=1)
    fix = fix_of(z, y, method=method, logits=True)
    assert "classwise_ece" not in fix.after
    assert fix.gain.value > 0
    fix.map.to_json(tmp_path / "map.json")
    again = CalibrationMap.read(tmp_path / "map.json")
    np.testing.assert_array_equal(again(z, logits=True), fix.map(z, logits=True))


def test_a_matrix_that_no_file_holds_is_refused_before_it_is_fitted() -> None:
    z = np.zeros((20, 1_501), np.float32)
    with pytest.raises(InputError, match=r"method: expected up to 1,500 classes for matrix scaling, got 1,501"):
        fix_of(z, np.arange(20), method="matrix", logits=True)


@pytest.mark.slow
def test_a_written_map_can_be_read() -> None:
    """Matrix scaling of 480 classes has 5.7 MB."""
    n_classes = 480
    factors = np.random.default_rng(0).normal(0, 1e-3, (n_classes, n_classes)) + np.eye(n_classes)
    fitted = replace(
        map_of("matrix", 5),
        parameters={"factors": factors.tolist(), "constants": [0.0] * n_classes, "smallest": 0.0},
        event={"notion": "classes", "class_names": None},
    )
    text = fitted.to_json()
    assert len(text) > 4_000_000
    assert CalibrationMap.from_json(text) == fitted


def test_zeros_alone_are_moved_far() -> None:
    """A forest of 100 trees predicts zeros, and no small probability."""
    rng = np.random.default_rng(0)
    truth = rng.dirichlet([0.3, 0.3, 0.3], 3_000)
    y = (rng.random((3_000, 1)) > truth.cumsum(axis=1)).sum(axis=1).clip(max=2)
    p = np.array([rng.multinomial(100, row) for row in truth]) / 100
    for values, options in ((p, {}), (np.log(p, where=p > 0, out=np.full(p.shape, -math.inf)), {"logits": True})):
        assert fix_of(values, y, method="temperature", **options).map.form.smallest == 1 / 6_002
    few = fix_of(p[:90], y[:90], method="temperature").map.form.smallest
    assert few == pytest.approx(0.005)  # half the smallest other probability
    inner = (100 * p + 1e-2) / 100.03
    assert fix_of(inner, y, method="temperature").map.form.smallest == 0


def test_only_zeros_are_zeros() -> None:
    p, y = steep(2_000, meant=True)
    p[0], y[0] = [1e-300, 0, 1], 2
    rows = prepared(p, logits=False)
    assert rows.zeros
    assert rows.smallest == pytest.approx(1e-300)
    with np.errstate(divide="ignore"):
        assert prepared(np.log(p), logits=True).smallest == pytest.approx(1e-300)


@cache
def map_of(method: str, n_classes: int) -> CalibrationMap:
    """Return a fitted map; that of three classes is of small probabilities."""
    return fix_of(*(steep(2_000, meant=True) if n_classes == 3 else drawn(400, n_classes)), method=method).map


@pytest.fixture(params=[*((method, n) for method in METHODS for n in (2, 5)), ("temperature", 3)], ids=str)
def fitted(request: pytest.FixtureRequest) -> CalibrationMap:
    return map_of(*request.param)


def probes(n_classes: int) -> np.ndarray:
    """Return rows of probabilities, some of 0 and 1."""
    corners = np.eye(n_classes)
    near = np.where(corners == 1, 1 - 1e-12, 1e-12 / (n_classes - 1))
    return np.concatenate([corners, near, drawn(2000, n_classes, 7)[0]])


def test_a_map_is_a_softmax_of_logarithms(fitted: CalibrationMap) -> None:
    p = probes(fitted.n_classes or 0)
    factors = fitted.form.factors if fitted.form.is_matrix else np.diag(fitted.form.factors)
    log_p = np.log(np.maximum(p, fitted.form.floor))
    expected = p if fitted.form.unchanged else softmax(log_p @ factors.T + fitted.form.constants, axis=1)
    np.testing.assert_allclose(fitted(p), expected, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(fitted(p).sum(axis=1), 1, rtol=1e-12)
    inner = p[2 * len(p[0]) :]
    np.testing.assert_allclose(fitted(np.log(inner) - 5, logits=True), fitted(inner), rtol=1e-10)


def test_json_keeps_every_bit(fitted: CalibrationMap) -> None:
    again = CalibrationMap.from_json(fitted.to_json())
    assert again == fitted
    p = probes(fitted.n_classes or 0)
    np.testing.assert_array_equal(again(p), fitted(p))


CHANGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a constant too few": lambda x: x["constants"].pop(),
    "a factor too few": lambda x: x["factors"].pop(),
    "factors of text": lambda x: x.update(factors=["1"] * 5),
    "an infinite factor": lambda x: x["factors"].__setitem__(0, math.inf),
    "a ragged matrix": lambda x: x.update(factors=[[1.0]] * 5),
    "a number": lambda x: x.update(factors=1.0),
    "one class": lambda x: x.update(factors=[1.0], constants=[0.0]),
    "a smallest probability below 0": lambda x: x.update(smallest=-0.1),
    "a factor far too large": lambda x: x["factors"].__setitem__(0, -1e308),
    "a constant far too large": lambda x: x["constants"].__setitem__(0, 1e308),
    "a smallest probability of 1": lambda x: x.update(smallest=1.0),
    "a smallest probability of text": lambda x: x.update(smallest="1e-9"),
    "no smallest probability": lambda x: x.pop("smallest"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_changed_map_is_refused(change: Callable[[dict[str, Any]], Any]) -> None:
    from calibrant.results.envelope import digest_of

    content = json.loads(map_of("vector", 5).to_json())
    del content["checksum"]
    change(content["parameters"])
    text = json.dumps({**content, "checksum": digest_of(content)}).replace("Infinity", "1e999")
    with pytest.raises(InputError):
        CalibrationMap.from_json(text)


INVALID = [[math.nan, 0.5], [0.5, 0.6], [-0.1, 1.1], [1.5, -0.5]]


@pytest.mark.parametrize("method", ["identity", "temperature", "vector"])
def test_sql_and_narwhals_equal_python(method: str) -> None:
    import narwhals as nw

    fitted = map_of(method, 5)
    names = ["p", "q r", "s", "t", "u"]
    p = probes(5)
    frame = pd.DataFrame(p, columns=names)
    sql = ", ".join(f"{each} AS c{k}" for k, each in enumerate(fitted.to_sql(names)))
    found = duckdb.sql(f"SELECT {sql} FROM frame").df().to_numpy()
    np.testing.assert_allclose(found, fitted(p), rtol=1e-12, atol=1e-300)
    of = [each.alias(f"c{k}") for k, each in enumerate(fitted.to_expression(names))]
    np.testing.assert_allclose(nw.from_native(frame).select(*of).to_numpy(), fitted(p), rtol=1e-12, atol=1e-300)
    two = map_of(method, 2)
    bad = pd.DataFrame([*INVALID, [None, 0.5]], columns=["a", "b"], dtype=float)
    sql = ", ".join(f"{each} AS c{k}" for k, each in enumerate(two.to_sql(["a", "b"])))
    assert duckdb.sql(f"SELECT {sql} FROM bad").df().isna().all(axis=None)
    of = [each.alias(f"c{k}") for k, each in enumerate(two.to_expression(["a", "b"]))]
    assert nw.from_native(bad).select(*of).to_native().isna().all(axis=None)


def test_onnx_equals_python(fitted: CalibrationMap, tmp_path: Any) -> None:
    runtime = pytest.importorskip("onnxruntime")
    fitted.to_onnx(tmp_path / "map.onnx")
    session = runtime.InferenceSession(str(tmp_path / "map.onnx"), providers=["CPUExecutionProvider"])
    p = probes(fitted.n_classes or 0)
    np.testing.assert_allclose(session.run(None, {"score": p})[0], fitted(p), rtol=1e-6, atol=1e-12)
    if fitted.n_classes == 2:
        assert np.isnan(session.run(None, {"score": np.array(INVALID)})[0]).all()


@pytest.mark.parametrize("logits", [False, True])
def test_the_layer_of_torch_equals_python(fitted: CalibrationMap, logits: bool) -> None:
    torch = pytest.importorskip("torch")
    from calibrant.torch import RecalibrationLayer

    layer = RecalibrationLayer(fitted, logits=logits)
    p = probes(fitted.n_classes or 0)
    x = 3 + np.log(np.maximum(p, 1e-30)) if logits else p.copy()
    mapped = fitted(x, logits=logits)
    np.testing.assert_allclose(layer(torch.from_numpy(x)).numpy(), mapped, rtol=1e-11, atol=1e-37)
    np.testing.assert_allclose(layer(torch.from_numpy(x).float()).numpy(), mapped, rtol=0, atol=2e-5)
    half = layer(torch.from_numpy(x).to(torch.bfloat16))
    assert half.dtype == torch.bfloat16
    assert not half.isnan().any()
    x[0, 0] = math.nan
    assert layer(torch.from_numpy(x))[0].isnan().all()
    again = RecalibrationLayer(fitted, logits=logits)
    again.load_state_dict(layer.state_dict())
    assert torch.equal(again(torch.from_numpy(p)), layer(torch.from_numpy(p)))


def test_scores_of_classes_are_checked_for_drift() -> None:
    fitted = map_of("vector", 5)
    assert not fitted.check(drawn(400, 5, 9)[0]).drifted
    assert fitted.check(np.full((400, 5), 0.2)).drifted


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("probs", "logits", "message"),
    [
        ([[0.5, 0.5, 0.0]], False, r"expected shape \(N, 5\), a column for each class of the map, got shape \(1, 3\)"),
        (0.5, False, r"got shape \(\)"),
        ([[0.2] * 4 + [math.nan]], False, r"expected probabilities in \[0, 1\], got nan at row \(0, 4\)"),
        ([[0.2] * 5, [0.2] * 4 + [1.2]], False, r"got 1.2 at row \(1, 4\)"),
        ([[0.2] * 5, [0.1] * 5], False, "expected rows with the sum 1, got 0.5 at row 1"),
        ([[math.nan] * 5], True, r"expected logits, got nan at row \(0, 0\)"),
        ([[-math.inf] * 5], True, r"expected logits, got -inf at row \(0, 0\)"),
    ],
)
def test_bad_scores_of_a_map_are_refused(probs: Any, logits: bool, message: str) -> None:
    with pytest.raises(InputError, match=message):
        map_of("vector", 5)(probs, logits=logits)


def test_masked_logits_are_mapped() -> None:
    mapped = map_of("vector", 5)(np.array([[0.0, -math.inf, 1.0, 2.0, -math.inf]]), logits=True)
    assert np.isfinite(mapped).all()
    assert 0 < mapped[0, 1] < 1e-4


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("cox", "for several classes, got 'cox'; pass notion='top-label'"),
        ("svm", "expected one of auto, identity, .* matrix, sms, got 'svm'"),
        (3, "expected one of auto"),
    ],
)
def test_a_method_of_one_event_is_named(method: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fix_of(*drawn(100, 3), method=method)


def test_a_method_of_classes_is_not_for_one_event() -> None:
    p, y = drawn(200, 3)
    with pytest.raises(InputError, match="for one event, got 'vector'; pass probabilities of several classes"):
        fix_of(p[:, 0], y == 0, method="vector")
    with pytest.raises(InputError, match="leave notion out"):
        fix_of(p, y, method="matrix", notion="top-label")
    sketch = calibrant.CalibrationSketch()
    sketch.update(p, y)
    assert fix_of(sketch, None).map.event["notion"] == "top-label"
    for name in ("vector", "temperature", "sms"):
        with pytest.raises(InputError, match=r"of a sketch, got .*; pass the rows"):
            fix_of(sketch, None, method=name)


def test_few_rows_of_other_classes_are_refused_and_flagged() -> None:
    p, _ = drawn(300, 3)
    few = np.where(np.arange(300) < 4, 1, 0)
    with pytest.raises(InputError, match="at least 5 rows outside the most frequent class, got 4"):
        fix_of(p, few)
    fix = fix_of(p, np.where(np.arange(300) < 9, 1, 0), method="vector")
    assert "Caution: 9 rows outside the most frequent class" in str(fix)


def test_columns_in_another_order_have_no_temperature() -> None:
    p, _ = drawn(300, 3)
    with pytest.raises(InputError, match=r"\(slope 0\), so that no temperature helps; check that the columns"):
        fix_of(p, p.argmin(axis=1), method="temperature")


def test_auto_says_that_columns_seem_to_be_in_another_order() -> None:
    p, y = drawn(300, 3)
    caution = "Caution: classes are not more frequent where their probabilities are higher"
    assert caution in " ".join(str(fix_of(p, p.argmin(axis=1))).split())
    assert caution not in " ".join(str(fix_of(p, y)).split())


def test_rows_that_are_all_right_need_prior_rows() -> None:
    p, _ = drawn(300, 3)
    with pytest.raises(
        InputError, match="only rows whose true class has the highest probability; leave prior_rows out"
    ):
        fix_of(p, p.argmax(axis=1), method="temperature", prior_rows=0)
    assert fix_of(p, p.argmax(axis=1), method="temperature").map.form.factors[0] > 1


def test_a_map_of_classes_has_no_inverse_and_no_sql_of_matrices() -> None:
    with pytest.raises(InputError, match="got a map of several classes"):
        map_of("vector", 5).inverse(0.5)
    with pytest.raises(InputError, match="got matrix scaling; write the map as ONNX"):
        map_of("matrix", 5).to_sql(list("abcde"))
    for columns in ("a", ["a", "b"]):
        with pytest.raises(InputError, match="expected 5 names, one for each class"):
            map_of("vector", 5).to_sql(columns)
    with pytest.raises(InputError, match="the map is of one event"):
        fix_of(drawn(100, 2)[0][:, 1], drawn(100, 2)[1], method="cox").map.to_sql(["a", "b"])


def test_a_reader_is_told_what_zeros_become() -> None:
    rng = np.random.default_rng(1)
    truth = rng.dirichlet([0.3, 0.3, 0.3], 2_000)
    p = np.array([rng.multinomial(100, row) for row in truth]) / 100
    y = (rng.random((2_000, 1)) > truth.cumsum(axis=1)).sum(axis=1).clip(max=2)
    said = "Before the map, probabilities below 0.00025 become 0.00025."
    assert said in " ".join(str(fix_of(p, y, method="vector")).split())
    assert "Before the map" not in str(fix_of(*drawn(300, 3), method="vector"))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["auto", "vector", "matrix"])
@pytest.mark.parametrize("clustered", [False, True])
def test_the_order_of_weighted_rows_changes_no_bit(method: str, clustered: bool) -> None:
    p, y = drawn(600, 3)
    p[300:], y[300:] = p[:300], y[:300]  # equal rows with different weights
    weights = np.random.default_rng(1).random(600)
    order = np.random.default_rng(2).permutation(600)
    clusters = np.arange(600) // 7 if clustered else None
    one, other = (
        fix_of(
            p[rows],
            y[rows],
            method=method,
            weights=weights[rows],
            weights_are="sampling",
            clusters=None if clusters is None else clusters[rows],
        )
        for rows in (np.arange(600), order)
    )
    assert one.map.parameters == other.map.parameters
    assert one.gain == other.gain


# ---------------------------------------------------------------- what is shown


@pytest.mark.parametrize("method", ["vector", "matrix"])
def test_the_page_has_the_factors_of_each_class(method: str) -> None:
    p, y = drawn(600, 3)
    fix = fix_of(p, y, method=method, class_names=["cat", "dog", "owl"])
    table = tables_of(fix._document(full=True).blocks)[-1]
    factors = np.array(fix.map.parameters["factors"])
    assert table.exact == {
        "class": ["cat", "dog", "owl"],
        "factor": (np.diagonal(factors) if method == "matrix" else factors).tolist(),
        "constant": fix.map.parameters["constants"],
    }
    assert ("the map also adds the log-probabilities of the other classes" in fix._repr_html_()) == (method == "matrix")
