"""Laws of reports on rows in clusters: every small input has finite intervals, and no interval contradicts another."""

from __future__ import annotations

import math

import numpy as np
import pytest

import calibrant
from calibrant.clustered import sums

EXACT = 1e-12
QUICK, ALL = 60, 10_000


# ---------------------------------------------------------------- small inputs


def small_case(seed):
    """Return predictions, outcomes and options of 2 to 20 rows: few clusters, and weights of very different sizes."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 21))
    clusters = rng.integers(0, max(2, n // int(rng.integers(1, 4))), n)
    clusters[:2] = 0, 1
    p, y = rng.random(n), rng.integers(0, 2, n)
    options = {"clusters": clusters}
    kind = ("any", "few scores", "nearly one score", "one outcome", "top label", "every class")[rng.integers(6)]
    if kind == "few scores":
        p = rng.choice([0.0, 0.25, 1.0], n)
    elif kind == "nearly one score":
        p = np.clip(rng.choice([0, 0.3, 0.5, 1]) + rng.normal(0, 10.0 ** -rng.integers(1, 17), n), 0, 1)
    elif kind == "one outcome":
        y = np.full(n, rng.integers(0, 2))
    elif kind != "any":
        p, y = rng.dirichlet(np.full(3, 0.3), n), rng.integers(0, 3, n)
        options |= {"notion": "classwise"} if kind == "every class" else {}
    weights = (
        None,
        10.0 ** rng.integers(-12, 12, n),
        rng.lognormal(0, 3, n),
        np.where(rng.random(n) < 0.1, 10.0 ** rng.integers(1, 50), 1.0),
        np.where(rng.random(n) < 0.5, 0.0, 10.0 ** rng.integers(-25, 25, n)),
    )[rng.integers(5)]
    if weights is not None:
        weights[:2] = np.maximum(weights[:2], weights.max() * 1e-20)  # both clusters hold weight
        options["weights"] = weights
    return rng, p, y, options


def check_small(seed):
    rng, p, y, options = small_case(seed)
    with np.errstate(all="raise", under="ignore"):
        if rng.random() < 0.25 and options.get("notion") is None:
            calibrant.compare({"a": p, "b": np.roll(p, 1, 0)}, y, **options)
            return
        if rng.random() < 0.3:
            options["groups"] = rng.integers(0, 2, len(p)).astype(str)
        if rng.random() < 0.3 and p.ndim == 1:
            options["profile"] = "clinical"
        report = calibrant.evaluate(p, y, n_resamples=int(rng.choice([0, 0, 0, 19])), tolerance=0.1, **options)
    for name, one in report.estimates.items():
        if math.isnan(one.high):
            assert math.isnan(one.low), name
            assert one.method.startswith(("no ", "not available")), (name, one.method)
            continue
        assert math.isfinite(one.low), name
        assert math.isfinite(one.high), name
        assert one.low <= one.high, name
        if name != "debiased_square":  # which may be negative, though what it estimates is not
            assert one.low <= one.value <= one.high, name


@pytest.mark.parametrize("start", range(0, QUICK, 20))
def test_small_inputs_in_clusters_have_finite_intervals_or_none_with_the_reason(start):
    for seed in range(start, start + 20):
        check_small(seed)


@pytest.mark.slow
def test_ten_thousand_small_inputs_in_clusters_have_finite_intervals_or_none_with_the_reason():
    for seed in range(QUICK, ALL):
        check_small(seed)


@pytest.mark.parametrize(
    ("p", "y", "clusters", "weights"),
    [
        ([0.97, 0.22], [1, 0], [0, 1], [1, 1e3]),
        ([0.9, 0.2, 0.4, 0.6], [1, 0, 0, 1], [0, 1, 2, 3], [1, 1e7, 1, 1]),
        ([0.9, 0.2, 0.4, 0.6], [1, 0, 0, 1], [0, 1, 1, 2], [1, 1e50, 1, 1]),
    ],
)
def test_a_cluster_of_nearly_all_the_weight_has_finite_intervals(p, y, clusters, weights):
    report = calibrant.evaluate(p, y, clusters=clusters, weights=weights, n_resamples=0)
    ends = [(one.low, one.high) for one in report.estimates.values() if not math.isnan(one.high)]
    assert len(ends) > 5
    assert np.isfinite(ends).all()


@pytest.mark.parametrize("light", [1e-6, 1e-12, 1e-30])
def test_degrees_of_freedom_of_a_bucket_with_nearly_all_rows_are_those_of_their_limit(light):
    # With rho = 0 and one bucket of all but 2 e of the rows, E_1 drops out of all u: u_2 = E_2, u_3 = E_3 and u_1 =
    # -(E_2 + E_3), up to the relative size of e. Each E has the variance e: the mean of sum u^2 is 4 e, and half its
    # variance that of (E_2, E_3) with the matrix [[2, 1], [1, 2]], 10 e^2. So df = 16 / 10.
    df, share = sums.freedom(np.array([1.0, light, light]), 0.0)
    assert df == pytest.approx(1.6, rel=10 * light + EXACT)
    assert share == pytest.approx(4 * light, rel=10 * light + EXACT)


def test_sums_around_their_share_add_up_to_0_where_one_bucket_has_nearly_all_the_weight():
    weights, own = np.array([1e-20, 1.0, 1e-20]), np.array([[3e-21], [0.4], [5e-21]])
    around = sums.centred(own, weights)
    # S_h less 0.4 of the weight of each light bucket; the heavy one is minus their sum.
    assert around[:, 0] == pytest.approx([3e-21 - 4e-21, 0.0, 5e-21 - 4e-21], rel=1e-9, abs=1e-30)
