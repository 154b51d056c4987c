"""The exact smooth calibration error against an oracle that shares nothing with it.

The oracle knows g_s as a sum of reflected Gaussians, finds its zeros on a mesh around the scores and by Brent's method,
and adds up differences of its antiderivative, a sum of normal distribution functions, between them: no series, no
transform, no moments, no interpolation. Its own error is some 1e-14 a term, and for a pair of zeros the mesh overlooks
(closer than s / 20) a loss of the same order as that of a parabola over so short a stretch, below 1e-9; `ORACLE` covers
both.

The root is checked by its certificate: S falls, so with the claimed error b the root lies in v +- b exactly if S(v - b)
>= v - b and S(v + b) <= v + b.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr

import calibrant
from calibrant.errors import InputError
from calibrant.measures.smooth import smooth
from calibrant.measures.smooth.mesh import mesh_smooth_error

ORACLE = 2e-9
CERTIFIED = 1e-7


def images(scores, residuals, s):
    """Positions and residuals of all reflections that reach [0, 1], those of p about 0 and 1 without end."""
    turns = math.ceil((10 * s + 1) / 2)
    shifts = 2 * np.arange(-turns, turns + 1)[:, None]
    at = np.concatenate([(scores + shifts).ravel(), (-scores + shifts).ravel()])
    r = np.tile(residuals, len(at) // len(scores))
    near = (at > -10 * s) & (at < 1 + 10 * s)
    return at[near], r[near]


def oracle(scores, residuals, total, s):
    """Return S(s)."""
    scores, residuals = np.asarray(scores, float), np.asarray(residuals, float) / total
    at, r = images(scores, residuals, s)
    if len(np.unique(at)) * 20 * 20 < 20 / s:
        mesh = (np.unique(at)[:, None] + s * np.linspace(-10, 10, 401)).ravel()
    else:
        mesh = np.linspace(0, 1, math.ceil(20 / s) + 1)
    mesh = np.unique(np.concatenate([np.clip(mesh, 0, 1), [0.0, 1.0]]))

    def density(t):
        u = (np.atleast_1d(t)[:, None] - at) / s
        return np.exp(-0.5 * u * u) @ r / (s * math.sqrt(2 * math.pi))

    def parts(function):
        return np.concatenate([function(piece) for piece in np.array_split(mesh, 1 + len(mesh) * len(at) // 1_000_000)])

    values = parts(density)

    def zero(a, b):
        # Summed by itself a value of about 1e-17 can have the other sign; there the density is 0 to rounding.
        if density(a)[0] * density(b)[0] >= 0:
            return a
        return brentq(lambda t: density(t)[0], a, b, xtol=1e-15, rtol=1e-15)

    zeros = [zero(mesh[i], mesh[i + 1]) for i in np.flatnonzero(values[:-1] * values[1:] < 0)]
    # A zero on the mesh itself parts its neighbours (a further place to part at changes nothing).
    exact = (values == 0) & ((np.roll(values, 1) != 0) | (np.roll(values, -1) != 0))
    places = np.sort(np.concatenate([[0.0], zeros, mesh[exact], [1.0]]))
    return float(np.abs(np.diff([ndtr((t - at) / s) @ r for t in places])).sum())


def certify(scores, residuals, total, *, found=None):
    found = smooth.smooth_error(scores, residuals, total) if found is None else found
    value, bound = found.value, found.error_bound
    assert bound < CERTIFIED
    below, above = value - bound, value + bound
    if below > 0:
        assert oracle(scores, residuals, total, below) >= below - ORACLE
    assert oracle(scores, residuals, total, above) <= above + ORACLE
    return found


def rows(n, seed, how="uniform"):
    rng = np.random.default_rng([seed, n])
    p = {
        "uniform": lambda: rng.random(n),
        "tenths": lambda: rng.integers(0, 11, n) / 10,
        "saturated": lambda: 1 - 10.0 ** -rng.integers(1, 8, n),
        "low": lambda: rng.beta(0.3, 4, n),
        "ends": lambda: rng.choice([0.0, 1.0, 0.4], n),
    }[how]()
    y = (rng.random(n) < p**1.5).astype(float)
    return p, y - p, float(n)


KINDS = ("uniform", "tenths", "saturated", "low", "ends")


def test_the_oracle_knows_what_is_known():
    # One residual r at any place: S = |r| at any s. Two opposite ones at 0 and 1: what the wall between them leaves.
    for s in (1e-3, 0.1, 1.0, 3.0):
        assert oracle([0.3], [0.7], 1, s) == pytest.approx(0.7, abs=1e-12)
    s = 0.2
    t = np.linspace(0, 1, 200_001)
    u = sum(np.exp(-0.5 * ((t - 2 * k) / s) ** 2) - np.exp(-0.5 * ((t - 1 - 2 * k) / s) ** 2) for k in range(-3, 4))
    area = np.trapezoid(np.abs(u), t) / (s * math.sqrt(2 * math.pi))
    assert oracle([0, 1], [1, -1], 2, s) == pytest.approx(area, abs=1e-8)  # the trapezoid's (1/200,000)^2 / s^3


# ---------------------------------------------------------------- the root


@pytest.mark.covering
@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("n", [2, 3, 7, 40, 300])
def test_the_root_is_certified(n, how):
    for seed in range(3):
        certify(*rows(n, seed, how))


@pytest.mark.parametrize("p", [0.0, 1e-9, 0.3, 0.5, 1.0])
def test_one_row(p):
    for y in (0, 1):
        assert calibrant.smooth_calibration_error([p], [y]) == pytest.approx(abs(y - p), abs=CERTIFIED)


def test_residuals_that_are_all_zero():
    for p in ([0.0], [1.0], [0, 1, 1, 0, 0]):
        assert calibrant.smooth_calibration_error(p, p) == 0.0
    found = smooth.smooth_error(np.array([0.25, 0.5]), np.zeros(2), 6.0)
    assert found.value == 0.0
    assert found.error_bound < CERTIFIED


@pytest.mark.parametrize(("p", "y"), [([0.5] * 4, [1, 0, 0, 1]), ([0.0, 1.0, 0.5, 0.5], [0, 1, 1, 0])])
def test_rows_that_cancel_exactly(p, y):
    # In a table they are one row of residual 0; as rows, S is 0 for every bandwidth.
    assert calibrant.smooth_calibration_error(p, y) == pytest.approx(0, abs=CERTIFIED)


def test_rows_that_cancel_to_rounding():
    assert calibrant.smooth_calibration_error([0.3] * 100, [1] * 30 + [0] * 70) == pytest.approx(0, abs=CERTIFIED)


def test_a_dipole():
    for d in (1e-7, 1e-5, 1e-3, 0.1):
        certify(np.array([0.5, 0.5 + d]), np.array([0.5, -0.5]), 2.0)


@pytest.mark.parametrize("sign", [1, -1])
def test_residuals_of_one_sign_cannot_be_smoothed_away(sign):
    p, residuals, total = rows(50, 4)
    residuals = sign * np.abs(residuals)
    found = smooth.smooth_error(p, residuals, total)
    assert found.value == pytest.approx(np.abs(residuals).sum() / total, abs=CERTIFIED)


def test_table_and_rows_have_one_root():
    for how in KINDS:
        p, residuals, _ = rows(500, 5, how)
        y = np.rint(residuals + p).astype(int)
        single = smooth.smooth_error(p, y - p, 500.0)
        estimate = calibrant.evaluate(p, y, level=None)["smece"]
        bound = single.error_bound + estimate.error_bound
        assert bound < 2 * CERTIFIED
        assert abs(single.value - estimate.value) <= bound
        assert abs(calibrant.smooth_calibration_error(p, y) - estimate.value) <= bound


def test_sums_given_are_sums_found():
    p, residuals, total = rows(200, 6)
    sums = (math.fsum(residuals), math.fsum(np.abs(residuals)), np.abs(residuals).max())
    assert smooth.smooth_error(p, residuals, total, sums=sums) == smooth.smooth_error(p, residuals, total)


# Roots of 1e-6 to 1e-3 need residuals that are small or few: a saturated model. N = 100,000, scores within 10^-k of 1.
@pytest.mark.slow
@pytest.mark.parametrize("exponent", [3, 4, 5, 6])
@pytest.mark.parametrize("wrong", [0, 1, 10])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tiny_roots(exponent, wrong, dtype):
    rng = np.random.default_rng([7, exponent, wrong])
    n = 100_000
    p = (1 - np.round(rng.random(n) * 40) / 40 * 10.0**-exponent).astype(dtype)
    y = np.ones(n, int)
    y[rng.choice(n, wrong, replace=False)] = 0
    table = calibrant.ReliabilityTable.from_scores(p, y)
    found = certify(table.scores.astype(float), table.residuals, n)
    assert found.value < 2e-3
    by_rows = calibrant.smooth_calibration_error(p, y)
    assert abs(by_rows - found.value) <= 2 * found.error_bound


def test_tiny_roots_at_both_ends_and_between():
    p = np.concatenate([np.full(40_000, 1e-5), np.full(40_000, 1 - 1e-5), np.linspace(0.4, 0.4001, 300)])
    y = np.concatenate([np.zeros(40_000), np.ones(40_000), np.arange(300) % 5 < 2]).astype(int)
    y[[0, 40_000]] = 1, 0
    table = calibrant.ReliabilityTable.from_scores(p, y)
    assert certify(table.scores, table.residuals, float(len(p))).value < 5e-3


# ---------------------------------------------------------------- three ways to one S


PATHS = {
    "cosines of rows": {"_DIRECT": 1 << 60, "_SMALL": 0.0},
    "moments of cells": {"_DIRECT": 0, "_FEW": 0, "_SMALL": 0.0},
    "local": {"_SMALL": 1.0, "_SPARSE": 2.0},
}


@pytest.mark.covering
@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("path", PATHS)
def test_every_path_is_within_its_bound(path, how, monkeypatch):
    for name, value in PATHS[path].items():
        assert hasattr(smooth, name)
        monkeypatch.setattr(smooth, name, value)
    p, residuals, total = rows(60, 8, how)
    for s in (2e-3, 0.02, 0.1):  # the local path reflects once, which up to s = .14 is all that comes back
        found = smooth.smooth_error(p, residuals, total, s)
        assert found.error_bound < CERTIFIED
        assert abs(found.value - oracle(p, residuals, total, s)) <= found.error_bound + ORACLE
    certify(p, residuals, total)


@pytest.mark.parametrize("cells", [1 << 14, 1 << 17])
def test_moments_are_taken_to_the_fifth(cells, monkeypatch):
    # The widest cells that s allows, and a dipole where the fifth moment tells most: its poles at opposite ends of
    # their cells, 2.7 s apart, so that g changes its sign 1.35 s from both, where |He_4 phi| = .74. Leaving the moment
    # out costs 4 (.08^5 / 5!) .74 / 2 = 4e-8, the sixth 4 (.08^6 / 6!) |He_5 phi| / 2 < 2e-9, the mesh the rest.
    for name, value in PATHS["moments of cells"].items():
        monkeypatch.setattr(smooth, name, value)
    s = 6.26 / cells
    p, residuals = (np.array([0.999, 17.001]) + cells // 3) / cells, np.array([1.0, -1.0])
    found = smooth.smooth_error(p, residuals, 2.0, s)
    assert abs(found.value - oracle(p, residuals, 2.0, s)) <= min(1e-8, found.error_bound)


def test_the_paths_are_taken():
    # 40,000 rows at s = .01 need 240 terms: more than are summed row by row. The oracle takes their 2,000 scores.
    p, residuals, total = rows(40_000, 9)
    p = np.round(p * 2000) / 2000
    distinct, place = np.unique(p, return_inverse=True)
    pooled = np.bincount(place, residuals)
    for s in (0.01, 0.05):
        found = smooth.smooth_error(p, residuals, total, s)
        assert abs(found.value - oracle(distinct, pooled, total, s)) <= found.error_bound + ORACLE


@pytest.mark.parametrize("bandwidth", [1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 0.01, 0.1, 0.5, 1.0, 5.0])
def test_any_bandwidth_against_the_oracle(bandwidth):
    for how in KINDS:
        p, residuals, total = rows(12, 10, how)
        found = smooth.smooth_error(p, residuals, total, bandwidth)
        truth = oracle(p, residuals, total, bandwidth)
        assert abs(found.value - truth) <= found.error_bound + ORACLE
        y = np.rint(residuals + p).astype(int)
        assert calibrant.smooth_calibration_error(p, y, bandwidth=bandwidth) == pytest.approx(found.value, abs=1e-8)


@pytest.mark.parametrize("bandwidth", [1e-9, 1e-6, 1e-3, 1.0, 1e6, 1e200])
def test_one_row_has_its_residual_at_any_bandwidth(bandwidth):
    assert calibrant.smooth_calibration_error([0.3], [1], bandwidth=bandwidth) == pytest.approx(0.7, abs=CERTIFIED)


def test_it_falls_with_the_bandwidth():
    p, residuals, total = rows(100, 11)
    at = [smooth.smooth_error(p, residuals, total, s) for s in np.geomspace(1e-4, 2, 40)]
    for wide, narrow in zip(at[1:], at[:-1], strict=True):
        assert wide.value <= narrow.value + 2 * wide.error_bound


# ---------------------------------------------------------------- laws of the value


@pytest.mark.parametrize("how", KINDS)
def test_it_is_at_most_the_error_over_distinct_scores_and_at_least_the_bias(how):
    for seed in range(10):
        p, residuals, total = rows(80, 20 + seed, how)
        _, place = np.unique(p, return_inverse=True)
        finest = np.abs(np.bincount(place, residuals)).sum() / total
        value = smooth.smooth_error(p, residuals, total).value
        assert abs(residuals.sum()) / total - CERTIFIED <= value <= finest + CERTIFIED


def test_a_small_step_of_the_scores_is_a_small_step_of_the_error():
    # Residuals move by d in all, and each Gaussian by d: S moves by d + sqrt(2 / pi) (d / s) R, and the root by less.
    p, residuals, total = rows(200, 12)
    y = residuals + p
    rng = np.random.default_rng(13)
    before = smooth.smooth_error(p, residuals, total)
    for d in (1e-9, 1e-6, 1e-4):
        q = np.clip(p + d * rng.uniform(-1, 1, len(p)), 0, 1)
        after = smooth.smooth_error(q, y - q, total)
        least = min(before.value, after.value)
        step = d * (1 + math.sqrt(2 / math.pi) / least) + before.error_bound + after.error_bound
        assert abs(after.value - before.value) <= step


def test_reflection_and_sign_change_nothing():
    p, residuals, total = rows(300, 14, "low")
    value = smooth.smooth_error(p, residuals, total).value
    for other in (smooth.smooth_error(1 - p, residuals, total), smooth.smooth_error(p, -residuals, total)):
        assert abs(other.value - value) <= 2 * other.error_bound


@pytest.mark.parametrize("n", [100_000, 1_000_000])
def test_many_rows_are_certified_too(n):
    # The oracle takes the 1,001 distinct scores; the estimator every row, as moments of cells.
    rng = np.random.default_rng(15)
    p = np.round(rng.beta(2, 1, n) * 1000) / 1000
    y = rng.random(n) < p**1.2
    distinct, place = np.unique(p, return_inverse=True)
    found = smooth.smooth_error(p, y - p, float(n))
    certify(distinct, np.bincount(place, y - p), float(n), found=found)


# ---------------------------------------------------------------- the public function's options


@pytest.mark.parametrize("kernel", ["reflected", "logit"])
def test_options_of_the_mesh_pass_through(kernel):
    p, residuals, _ = rows(200, 16)
    y = np.rint(residuals + p).astype(int)
    weights = np.random.default_rng(17).integers(1, 4, len(p)).astype(float)
    cases = [
        {},
        {"bandwidth": 0.03},
        {"mesh_points": 500},
        {"tolerance": 0.1},
        {"refine_steps": 3},
        {"bandwidth": 0.2, "mesh_points": 20},
    ]
    values = set()
    for options in cases:
        own = {"kernel": kernel, "method": "mesh"} | options
        found = calibrant.smooth_calibration_error(p, y, **own)
        assert found == mesh_smooth_error(p, y - p, kernel=kernel, **options).value
        values.add(found)
        weighted = calibrant.smooth_calibration_error(p, y, weights=weights, **own)
        assert weighted == mesh_smooth_error(p, weights * (y - p), weights, kernel=kernel, **options).value
    assert len(values) >= 5  # they matter


def test_the_default_method_follows_the_kernel():
    p, y = [0.2, 0.6, 0.9, 0.9], [0, 1, 1, 0]
    exact, mesh = (calibrant.smooth_calibration_error(p, y, method=method) for method in ("exact", "mesh"))
    assert calibrant.smooth_calibration_error(p, y) == exact != mesh
    logit = calibrant.smooth_calibration_error(p, y, kernel="logit")
    assert logit == calibrant.smooth_calibration_error(p, y, kernel="logit", method="mesh") != mesh
    with pytest.raises(InputError, match=r"method: expected 'mesh' for the logit kernel, got 'exact'"):
        calibrant.smooth_calibration_error(p, y, kernel="logit", method="exact")


@pytest.mark.parametrize("bandwidth", [0, -1, math.nan, math.inf, "wide", None])
def test_a_bandwidth_that_is_none_is_refused(bandwidth):
    with pytest.raises(InputError, match=r"bandwidth: expected 'auto' or a positive number from 1e-9, got"):
        calibrant.smooth_calibration_error([0.5], [1], bandwidth=bandwidth)


def test_the_area_under_nearly_straight_cubics():
    rng = np.random.default_rng(5)
    run = rng.choice([-1.0, 1.0], 2_000) * 10.0 ** rng.uniform(-6, 6, 2_000)
    a = -run * rng.uniform(0.001, 0.999, 2_000)
    bends = rng.uniform(-1, 1, (2, 2_000))
    bends *= smooth._STRAIGHT / np.abs(bends).sum(axis=0) * rng.uniform(0, 1, 2_000)
    b, end = run * (1 + bends)
    areas = smooth._straight_areas(a, b, run, end)
    for i in range(2_000):
        cubic = np.polynomial.Polynomial([a[i], b[i], 3 * run[i] - 2 * b[i] - end[i], b[i] + end[i] - 2 * run[i]])
        zero = brentq(cubic, 0, 1, xtol=1e-15)
        whole = cubic.integ()
        assert areas[i] == pytest.approx(abs(whole(zero)) + abs(whole(1) - whole(zero)), abs=4e-10 * abs(run[i]))
    np.testing.assert_allclose(smooth._bent_areas(a, b, run, end), areas, atol=4e-10 * np.abs(run).max(), rtol=1e-8)
