"""Intervals, noise floors and p-values of a report: against naive formulas, exact laws, closed forms and simulations.

Tolerances. Two ways to one sum of some hundred terms below 1 agree to about 1e-13; `CLOSE` is 1e-10, relative, for
what then goes through quantiles. Means of simulated numbers are held to 4 or 5 of their standard errors and shares of R
to 4 binomial standard deviations, which one correct test in 16,000 misses; seeds are fixed, so a test that passes goes
on passing. What a normal approximation adds is said where it is added.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import tracemalloc

import numpy as np
import pytest
from scipy import integrate, optimize, stats
from sklearn.isotonic import IsotonicRegression

import calibrant
from calibrant import ReliabilityTable, evaluate
from calibrant.errors import InputError
from calibrant.estimators.binned import uniform_bin_of
from calibrant.inference import bootstrap, closed, consistency, corp, cumulative, laws, spiegelhalter_test
from calibrant.inference.binned import BinMoments, thinned
from calibrant.inference.cells import Cells
from calibrant.inference.resampling import draw_outcomes, draw_rows, generator
from calibrant.inference.smooth import NullSmooth, expected

CLOSE = 1e-10
LEVEL, TAIL = 0.9, 0.05
Z = stats.norm.isf(TAIL)

#: The measures whose p-value and floor say what calibration shows.
ERRORS = ("ece", "ace", "rmsce", "debiased_square", "mce", "smece", "ks", "miscalibration")
bad = functools.partial(pytest.raises, InputError)
near = functools.partial(pytest.approx, rel=CLOSE, abs=1e-13)


def tilted(p, slope):
    """The chance of the event, its log-odds being the slope times those of the score."""
    return p**slope / (p**slope + (1 - p) ** slope)


def draw(seed, n, slope=1.0, *, flipped=False):
    """Uniform scores with outcomes of a tilted law; ``flipped`` turns the outcomes round."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(size=n)
    y = (rng.uniform(size=n) < tilted(p, slope)).astype(int)
    return p, 1 - y if flipped else y


def cells_of(p, y, weights=None):
    return Cells.of(ReliabilityTable.from_scores(p, y, weights=weights))


# ---------------------------------------------------------------- formulas, row by row


def uniform_members(p, n_bins):
    return np.array([next(j for j in range(n_bins) if x <= (j + 1) / n_bins) for x in p])


def quantile_members(p, n_bins, w):
    """floor(M (C - w / 2) / W) of distinct scores."""
    order = np.argsort(p)
    bins = np.empty(len(p), dtype=int)
    bins[order] = np.minimum(n_bins - 1, n_bins * (np.cumsum(w[order]) - w[order] / 2) // w.sum())
    return bins


def bin_sums(p, y, w, members):
    """n, weight, S, Q, V0 of each bin, squares in units of squared weight."""
    for b in np.unique(members):
        i = members == b
        n = w[i].sum() ** 2 / (w[i] ** 2).sum()
        yield n, w[i].sum(), (w * (p - y))[i].sum(), (w**2 * (p - y) ** 2)[i].sum(), (w**2 * p * (1 - p))[i].sum()


def g(x):
    return x * (2 * stats.norm.cdf(x) - 1) - 2 * stats.norm.pdf(x)


def slope_of_g(x):
    return 2 * stats.norm.cdf(x) - 1 + 4 * x * stats.norm.pdf(x)


def l1_ends(p, y, w, members):
    """Value, lower end (not gated) and the two upper ends of intervals.md."""
    total, N = w.sum(), w.sum() ** 2 / (w**2).sum()
    T = low = low_square = moved = v_sum = W_sum = v_over_W = A = V = top = bottom = 0.0
    for n, _, S, Q, V0 in bin_sums(p, y, w, members):
        v = (n * Q + 5 * V0) / (n + 5)
        X, W, h = S / math.sqrt(v), math.sqrt(V0), max(S**2 - Q, 0)
        T += abs(S)
        low += math.sqrt(v) * g(X)
        low_square += v * slope_of_g(X) ** 2
        moved += slope_of_g(X) * S
        v_sum += v
        W_sum += W
        v_over_W += v / W**2 * W
        A += (S**2 - Q) / W
        V += 2 * max(v, V0) ** 2 / W**2
        top += h * v / W**2
        bottom += h / W
    rho = max(top / bottom if bottom else 0, v_sum / W_sum)
    radicand = max(0, 4 * Z**2 * rho * A + 4 * Z**4 * rho**2 + Z**2 * V)
    second = math.sqrt(W_sum * max(0, A + 2 * Z**2 * rho + math.sqrt(radicand)))
    first = T + Z * math.sqrt(max(0, v_sum - T**2 / N))
    low -= Z * math.sqrt(max(0, low_square - moved**2 / N))
    return T / total, low / total, first / total, second / total


def square_ends(p, y, w, members):
    """Value and ends of the squared l2 error; D2 is debiased by the variance u of one residual, over n."""
    total, N = w.sum(), w.sum() ** 2 / (w**2).sum()
    sums = []
    for n, weight, S, Q, V0 in bin_sums(p, y, w, members):
        u = (n * (Q - S**2 / n) + 5 * V0) / (n + 5) / n * (n / weight) ** 2
        sums.append((n, weight / total, u, max((S / weight) ** 2 - u / n, 0)))
    n, o, u, D2 = (np.array(column) for column in zip(*sums, strict=True))
    noise = 2 * np.sum((o**2 * u**2)[n > 1] / (n * (n - 1))[n > 1])
    se = math.sqrt(max(np.sum(o * D2 * (4 * u + D2)) - np.sum(o * D2) ** 2, 0) / N + noise)
    r = max(np.sum(o * D2 * u) / np.sum(o * D2) if D2.any() else 0, np.sum(o * u)) / N
    V = noise + max(0, np.sum(o * D2**2) - np.sum(o * D2) ** 2) / N
    return se, r, V


UNEVEN = 0.5 + np.random.default_rng(0).uniform(size=400)
BINNED_CASES = {
    "calibrated": (*draw(1, 400), np.ones(400), 15),
    "tilted": (*draw(2, 400, 3.0), np.ones(400), 15),
    "wrong": (*draw(3, 400, 2.0, flipped=True), np.ones(400), 15),
    "few bins": (*draw(4, 400, 2.0), np.ones(400), 4),
    "few rows": (*draw(5, 40, 3.0, flipped=True), np.ones(40), 15),
    "uneven weights": (*draw(6, 400, 3.0), UNEVEN, 15),
    "small weights": (*draw(7, 400, 3.0), UNEVEN / 7, 10),
}
binned_cases = pytest.mark.parametrize("case", BINNED_CASES)


def report_of(case, **options):
    p, y, w, n_bins = BINNED_CASES[case]
    weights = None if np.all(w == 1) else w
    return evaluate(p, y, weights=weights, n_bins=n_bins, level=LEVEL, **{"n_resamples": 0, **options})


@binned_cases
@pytest.mark.parametrize("measure", ["ece", "ace"])
def test_l1_interval_is_its_formula(case, measure):
    p, y, w, n_bins = BINNED_CASES[case]
    members = uniform_members(p, n_bins) if measure == "ece" else quantile_members(p, n_bins, w)
    value, low, first, second = l1_ends(p, y, w, members)
    found = report_of(case)[measure]
    assert found.value == near(value)
    assert found.high == near(max(value, min(first, second)))
    assert found.low == near(max(low, 0) if found.p_value <= TAIL else 0)
    assert (found.low > 0) == (case != "calibrated")


def test_either_upper_end_of_the_l1_interval_is_the_smaller_somewhere():
    ends = [l1_ends(p, y, w, uniform_members(p, n_bins)) for p, y, w, n_bins in BINNED_CASES.values()]
    assert {first < second for _, _, first, second in ends} == {True, False}


@binned_cases
def test_squared_l2_interval_is_its_formula(case):
    p, y, w, n_bins = BINNED_CASES[case]
    se, r, V = square_ends(p, y, w, uniform_members(p, n_bins))
    report = report_of(case)
    square, root = report["debiased_square"], report["rmsce"]
    top, rejected = max(square.value, 0), root.p_value <= TAIL
    high = top + 2 * Z**2 * r + math.sqrt(4 * Z**2 * r * top + 4 * Z**4 * r**2 + Z**2 * V)
    assert square.high == near(high)
    assert square.low == near(max(square.value - Z * se, 0) if rejected else 0)
    assert square.p_value == root.p_value
    assert root.high == near(max(math.sqrt(high), root.value))
    assert root.low == near(math.sqrt(square.low))
    if w[0] == w[-1] == 1:  # the U-statistic of whole rows
        sums = bin_sums(p, y, w, uniform_members(p, n_bins))
        assert square.value == near(sum((S**2 - Q) / (n - 1) for n, _, S, Q, _ in sums if n > 1) / len(p))


@binned_cases
def test_interval_of_the_maximum_is_its_formula(case):
    p, y, w, n_bins = BINNED_CASES[case]
    members = uniform_members(p, n_bins)

    def bounds(b, alpha):
        i = members == b
        n = w[i].sum() ** 2 / (w[i] ** 2).sum()
        k, mean = np.average(y[i], weights=w[i]) * n, np.average(p[i], weights=w[i])
        least = stats.beta.ppf(alpha, k, n - k + 1) if k > 0 else 0.0
        most = stats.beta.ppf(1 - alpha, k + 1, n - k) if k < n else 1.0
        return max(mean - most, least - mean, 0), max(mean - least, most - mean)

    rows = {b: w[members == b].sum() ** 2 / (w[members == b] ** 2).sum() for b in np.unique(members)}
    held = [b for b in rows if rows[b] >= 30]
    found = report_of(case)["mce"]
    if not held:
        assert math.isnan(found.value)
        assert found.method == "not available: no bin holds 30 rows"
        return
    value = max(abs(np.average((p - y)[members == b], weights=w[members == b])) for b in held)
    contact = [b for b in held if bounds(b, 0.005)[1] >= max(bounds(c, 0.005)[0] for c in held)]
    low = max(bounds(b, TAIL / len(contact))[0] for b in contact)
    assert found.value == near(value)
    assert found.high == near(max(value, *(bounds(b, TAIL)[1] for b in held)))
    assert found.low == near(low if found.p_value <= TAIL else 0)


def reflected(t, c, s):
    """K_s(t, c) = sum_k phi_s(t - c + 2 k) + phi_s(t + c + 2 k)."""
    near_and_far = (t[:, None] + sign * c + 2 * k for sign in (-1, 1) for k in range(-3, 4))
    return sum(stats.norm.pdf(x, scale=s) for x in near_and_far)


def smooth_ends(p, y, s, nodes=4000):
    """L_s and U_s by the midpoint rule, a cell for each row."""
    t = (np.arange(nodes) + 0.5) / nodes
    kernel, residuals, N = reflected(t, p, s), y - p, len(p)
    v = (residuals**2 + 5 * p * (1 - p)) / 6
    G, tau = kernel @ residuals / N, np.sqrt(kernel**2 @ v) / N

    def sd(psi):
        moved = psi @ kernel / nodes
        return math.sqrt(max(np.sum(v * moved**2) - np.sum(residuals * moved) ** 2 / N, 0)) / N

    low = np.mean(tau * g(G / tau)) - Z * sd(slope_of_g(G / tau))
    return low, np.mean(np.abs(G)) + Z * sd(np.sign(G))


@pytest.mark.parametrize("slope", [1.0, 3.0])
@pytest.mark.parametrize("n", [25, 60])
def test_smooth_interval_solves_its_equations(n, slope):
    p, y = draw(n, n, slope)
    cells, value = cells_of(p, y), calibrant.smooth_calibration_error(p, y)
    low, high = calibrant.inference.smooth.interval(cells, value, Z, rejected=True)
    # The root is found to 1e-4 of s; a mesh of 8 steps a bandwidth widens the kernel by 1 / 300 at the most.
    assert smooth_ends(p, y, high)[1] == pytest.approx(high, rel=4e-3)
    if low > 0:  # where it is more than exp(-3) of the value
        assert smooth_ends(p, y, low)[0] == pytest.approx(low, rel=4e-3)
    assert calibrant.inference.smooth.interval(cells, value, Z, rejected=False) == (0.0, high)
