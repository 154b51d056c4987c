"""The mesh algorithm of the smooth calibration error, against relplot's recorded numbers and against laws.

Tolerance: relplot and this module sum the same terms in another order. The difference seen is
at most 1.2e-12 relative (an absolute 1e-14 where every term cancels); 1e-10 leaves room for other machines.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from calibrant.errors import InputError
from calibrant.measures.smooth.mesh import MeshSmoothError, mesh_smooth_error

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
_spec = importlib.util.spec_from_file_location("record_relplot", GOLDEN / "record_relplot.py")
recorder = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(recorder)

RECORDED = json.loads((GOLDEN / "relplot.json").read_text(encoding="utf-8"))
CASES = recorder.cases()
KERNELS = recorder.KERNELS


def close(value):
    return pytest.approx(value, rel=1e-10, abs=1e-14)


def rows(name):
    scores, outcomes = CASES[name]
    return scores, outcomes - scores


def check(scores, outcomes, recorded, kernel):
    residuals = outcomes - scores
    value, bandwidth = recorded[kernel]["auto"]
    result = mesh_smooth_error(scores, residuals, kernel=kernel)
    assert result.bandwidth == bandwidth
    assert result.value == close(value)
    for h, value in zip(recorder.BANDWIDTHS, recorded[kernel]["fixed"], strict=True):
        result = mesh_smooth_error(scores, residuals, kernel=kernel, bandwidth=h)
        assert result == MeshSmoothError(close(value), h, max(round(10 / h), 200))


@pytest.mark.covering
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", CASES)
def test_has_relplots_numbers(name, kernel):
    check(*CASES[name], RECORDED["cases"][name], kernel)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", recorder.REAL)
def test_has_relplots_numbers_on_real_predictions(name, kernel):
    case = recorder.real_case(name)
    if case is None:
        pytest.skip(f"needs {name}.npz in ../shared/data")
    check(*case, RECORDED["cases"][name], kernel)


@pytest.mark.parametrize("kernel", KERNELS)
def test_has_relplots_numbers_for_other_searches(kernel):
    scores, residuals = rows("calibrated 1000")
    for (points, tolerance, steps), (value, h) in zip(recorder.SEARCHES, RECORDED["searches"][kernel], strict=True):
        options = {"mesh_points": points, "tolerance": tolerance, "refine_steps": steps}
        result = mesh_smooth_error(scores, residuals, kernel=kernel, **options)
        assert result == MeshSmoothError(close(value), h, max(round(10 / h), points))


def test_the_published_figures():
    # relplot on the ten rows of the statistics' list, and on mass at 0, where the exact error is 0.1.
    assert round(mesh_smooth_error(*rows("ten rows"), kernel="reflected").value, 5) == 0.19717
    assert round(mesh_smooth_error(*rows("half at zero"), kernel="reflected").value, 3) == 0.068


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_fixed_bandwidth_is_the_definition_summed_directly(kernel):
    # An odd number of nodes, all scores on nodes and all points on nodes: no rounding to meshes is left, and the two
    # sums over rows and points can be written down. 201 points, 1001 nodes, h = .05.
    rng = np.random.default_rng(5)
    h, points = 0.05, np.linspace(0, 1, 201)
    scores = rng.integers(300, 700, 40) / 1000
    residuals = (rng.random(40) < 0.7) - scores
    if kernel == "logit":
        # Scores and points in log-odds do not fall on nodes: each costs (cell / width)^2 / 8, or 1e-3, where curved.
        points = points[1:-1]
        at, where, tolerance = np.log(points / (1 - points)), np.log(scores / (1 - scores)), 5e-3
        k = np.exp(-0.5 * ((at[:, None] - where) / (4 * h)) ** 2)
        weight = 1 / (points * (1 - points))
        weight[[0, -1]] *= 2
    else:
        tolerance, weight = 1e-5, np.ones(201)  # the floor of the density, 1e-4 of about 40
        k = sum(np.exp(-0.5 * ((points[:, None] - m) / h) ** 2) for m in (scores, -scores, 2 - scores))
    direct = weight @ np.abs(k @ residuals) / (weight @ k.sum(axis=1))
    result = mesh_smooth_error(scores, residuals, kernel=kernel, bandwidth=h, mesh_points=201)
    assert result.value == pytest.approx(direct, rel=tolerance)


@pytest.mark.parametrize("bandwidth", ["auto", 0.0123])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_row_of_several_equals_its_rows(kernel, bandwidth):
    scores, residuals = rows("tenths 1000")
    distinct, which = np.unique(scores, return_inverse=True)
    counts = np.bincount(which)
    pooled = np.bincount(which, residuals)
    # A row of count 0 is as if absent, even where it would widen the range of the log-odds.
    scores, residuals = scores[scores > 0.05], residuals[scores > 0.05]
    counts[0], pooled[0] = 0, 0.0
    one = mesh_smooth_error(scores, residuals, kernel=kernel, bandwidth=bandwidth)
    table = mesh_smooth_error(distinct, pooled, counts, kernel=kernel, bandwidth=bandwidth)
    assert table == MeshSmoothError(close(one.value), one.bandwidth, one.n_mesh)
    doubled = mesh_smooth_error(distinct, 2 * pooled, 2.0 * counts, kernel=kernel, bandwidth=bandwidth)
    twice = mesh_smooth_error(np.tile(scores, 2), np.tile(residuals, 2), kernel=kernel, bandwidth=bandwidth)
    assert doubled == MeshSmoothError(close(twice.value), twice.bandwidth, twice.n_mesh)


@pytest.mark.parametrize("kernel", KERNELS)
def test_neither_order_nor_sign_matters(kernel):
    scores, residuals = rows("near one 200000")
    expected = mesh_smooth_error(scores, residuals, kernel=kernel)
    order = np.random.default_rng(1).permutation(len(scores))
    for shuffled in (order, np.argsort(scores)):
        result = mesh_smooth_error(scores[shuffled], -residuals[shuffled], kernel=kernel)
        assert result == MeshSmoothError(close(expected.value), expected.bandwidth, expected.n_mesh)


@pytest.mark.parametrize("kernel", KERNELS)
def test_float32_is_widened_and_inputs_are_left_alone(kernel):
    scores, _ = rows("over-confident 1000")
    narrow = scores.astype(np.float32)
    residuals = (CASES["over-confident 1000"][1] - narrow).astype(np.float32)
    narrow.flags.writeable = residuals.flags.writeable = False
    result = mesh_smooth_error(narrow, residuals, kernel=kernel)
    assert result == mesh_smooth_error(narrow.astype(np.float64), residuals.astype(np.float64), kernel=kernel)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"bandwidth": 0.0},
            r"bandwidth: expected a finite number above 0 or 'auto', got 0\.0; pass for example 0\.05",
        ),
        ({"bandwidth": -1}, r"bandwidth: expected a finite number above 0 or 'auto', got -1"),
        ({"bandwidth": np.nan}, r"bandwidth: expected a finite number above 0 or 'auto', got nan"),
        ({"bandwidth": np.inf}, r"bandwidth: expected a finite number above 0 or 'auto', got inf"),
        ({"bandwidth": "Auto"}, r"bandwidth: expected a finite number above 0 or 'auto', got 'Auto'"),
        ({"bandwidth": True}, r"bandwidth: expected a finite number above 0 or 'auto', got True"),
        ({"bandwidth": None}, r"bandwidth: expected a finite number above 0 or 'auto', got None"),
        ({"bandwidth": 1e-9}, r"bandwidth: expected at least 1e-06, got 1e-09; the mesh would need"),
        ({"mesh_points": -1}, r"mesh_points: expected an integer of at least 0, got -1; 200 is the usual choice"),
        ({"mesh_points": 200.5}, r"mesh_points: expected an integer of at least 0, got 200\.5"),
        (
            {"mesh_points": 1, "bandwidth": 50},
            r"mesh_points: expected at least [24] when bandwidth is 50, got 1; 200 is the usual choice",
        ),
        ({"refine_steps": -1}, r"refine_steps: expected an integer of at least 0, got -1; pass for example 10"),
        ({"refine_steps": True}, r"refine_steps: expected an integer of at least 0, got True"),
        ({"tolerance": -0.1}, r"tolerance: expected a finite number, 0 or larger, got -0\.1; 0\.001 is the usual"),
        ({"tolerance": None}, r"tolerance: expected a finite number, 0 or larger, got None"),
        ({"tolerance": np.nan}, r"tolerance: expected a finite number, 0 or larger, got nan"),
        ({"tolerance": 0, "refine_steps": 30}, r"tolerance: expected at least 1e-06 when refine_steps is 30, got 0"),
        (
            {"tolerance": 1e-9, "refine_steps": 60},
            r"tolerance: expected at least 1e-06 when refine_steps is 60, got 1e-09",
        ),
    ],
)
def test_says_what_is_wrong(options, message, kernel):
    with pytest.raises(InputError, match=message):
        mesh_smooth_error(np.array([0.5]), np.array([0.5]), kernel=kernel, **options)


def test_says_what_is_wrong_with_the_kernel():
    with pytest.raises(
        InputError, match=r"kernel: expected one of 'reflected', 'logit', got 'logits'; did you mean 'logit'\?"
    ):
        mesh_smooth_error(np.array([0.5]), np.array([0.5]), kernel="logits")
    with pytest.raises(InputError, match=r"mesh_points: expected at least 4 when bandwidth is 5, got 3"):
        mesh_smooth_error(np.array([0.5]), np.array([0.5]), kernel="logit", bandwidth=5.0, mesh_points=3)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_coarsest_meshes_are_fine(kernel):
    result = mesh_smooth_error(np.array([0.5]), np.array([0.5]), kernel=kernel, bandwidth=50.0, mesh_points=4)
    assert 0.4 < result.value < 0.5
    assert result.n_mesh == 4
