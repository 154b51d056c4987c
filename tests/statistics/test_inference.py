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
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats
from sklearn.isotonic import IsotonicRegression

import calibrant
from calibrant import ReliabilityTable, evaluate
from calibrant.errors import InputError
from calibrant.inference import bootstrap, consistency, standardised_maximum
from calibrant.measures import Inference
from calibrant.measures.binned.bin_inference import absolute_interval, maximum_interval, square_interval
from calibrant.measures.binned.bin_sums import BinSums
from calibrant.measures.binned.binned import uniform_bin_of
from calibrant.measures.cumulative import cumulative
from calibrant.measures.estimates import exact_absolute_law
from calibrant.measures.isotonic import isotonic as corp
from calibrant.measures.smooth import smooth_inference as smoothing
from calibrant.measures.smooth.smooth_inference import Mesh, NullSmooth, expected
from calibrant.statistics import null
from calibrant.statistics.cells import Aliases, Cells, binomial_laws
from calibrant.statistics.design import SamplingDesign
from tests.samples import draw_classes, sketch_of, tilted
from tests.samples import draw_tilted as draw

CLOSE = 1e-10
LEVEL, TAIL = 0.9, 0.05
Z = stats.norm.isf(TAIL)

#: The measures whose p-value and floor say what calibration shows.
ERRORS = ("ece", "ace", "rmsce", "debiased_square", "mce", "smece", "ks", "miscalibration")
bad = functools.partial(pytest.raises, InputError)
near = functools.partial(pytest.approx, rel=CLOSE, abs=1e-13)


def cells_of(p, y, weights=None):
    return Cells.from_table(ReliabilityTable.from_scores(p, y, weights=weights))


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


def moved(p, y, w, members, slopes, unseen=0.0):
    """The root of sum w^2 (f r - m)^2 over rows, f the slope of the row's bin; ``unseen`` is added under it.

    Where little is left of the sum with it, that without it is blended with sum w^2 f^2 p (1 - p).
    """
    f = np.array(slopes)[np.unique(members, return_inverse=True)[1]]
    x = f * (p - y)
    seen = np.sum(w**2 * (x - np.average(x, weights=w)) ** 2)
    n, calibrated = w.sum() ** 2 / np.sum(w**2), np.sum(w**2 * f**2 * p * (1 - p))
    after = (n * seen + 5 * calibrated) / (n + 5)
    return math.sqrt(seen + unseen if seen + unseen >= after / 2 else after)


def g(x):
    return x * (2 * stats.norm.cdf(x) - 1) - 2 * stats.norm.pdf(x)


def slope_of_g(x):
    return 2 * stats.norm.cdf(x) - 1 + 4 * x * stats.norm.pdf(x)


# By how much the thinned |m| falls short of |m| at most.
MOST_BIAS = -optimize.minimize_scalar(lambda m: -2 * m * stats.norm.cdf(-m / math.sqrt(2)), bracket=(0.5, 1, 2)).fun


def l1_ends(p, y, w, members):
    """Value, lower end (not gated) and the three upper ends."""
    total, unseen, slopes, signs = w.sum(), np.zeros(2), [], []
    T = low = roots = v_sum = W_sum = v_over_W = A = V = top = bottom = 0.0
    for n, _, S, Q, V0 in bin_sums(p, y, w, members):
        v = (n * Q + 5 * V0) / (n + 5)
        X, W, h = S / math.sqrt(v), math.sqrt(V0), max(S**2 - Q, 0)
        T += abs(S)
        low += math.sqrt(v) * g(X)
        slopes, signs = [*slopes, slope_of_g(X)], [*signs, np.sign(S)]
        unseen += (v - Q) * np.array([slope_of_g(X) ** 2, 1])
        v_sum += v
        roots += math.sqrt(v)
        W_sum += W
        v_over_W += v / W**2 * W
        A += (S**2 - Q) / W
        V += 2 * max(v, V0) ** 2 / W**2
        top += h * v / W**2
        bottom += h / W
    rho = max(top / bottom if bottom else 0, v_sum / W_sum)
    radicand = max(0, 4 * Z**2 * rho * A + 4 * Z**4 * rho**2 + Z**2 * V)
    second = math.sqrt(W_sum * max(0, A + 2 * Z**2 * rho + math.sqrt(radicand)))
    first = T + Z * moved(p, y, w, members, signs, unseen[1])
    half = Z * moved(p, y, w, members, slopes, unseen[0])
    several = roots**2 >= 4 * moved(p, y, w, members, signs, unseen[1]) ** 2
    third = low + MOST_BIAS * roots + half if several else math.inf
    return T / total, (low - half) / total, first / total, second / total, third / total


def square_ends(p, y, w, members):
    """Value and ends of the squared l2 error; D2 is debiased by the variance u of one residual, over n."""
    total, sums = w.sum(), []
    for b, (n, weight, S, _, V0) in zip(np.unique(members), bin_sums(p, y, w, members), strict=True):
        around = np.sum((w**2 * (p - y - S / weight) ** 2)[members == b])
        v = (n * around + 5 * V0) / (n + 5)
        squares = np.sum(w[members == b] ** 2) / total**2
        sums.append((n, weight / total, v / total**2, max((S / weight) ** 2 - v / weight**2, 0), squares))
    n, o, v, D2, q = (np.array(column) for column in zip(*sums, strict=True))
    noise = 2 * np.sum((n * v / o)[n > 1] ** 2 / (n * (n - 1))[n > 1])
    between = np.sum(q * (D2 - np.sum(o * D2)) ** 2)
    r = max(np.sum(D2 * v) / np.sum(o * D2) if D2.any() else 0, np.sum(v))
    return math.sqrt(4 * np.sum(D2 * v) + between + noise), r, noise + between


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


@pytest.mark.covering
@binned_cases
@pytest.mark.parametrize("measure", ["ece", "ace"])
def test_l1_interval_is_its_formula(case, measure):
    p, y, w, n_bins = BINNED_CASES[case]
    members = uniform_members(p, n_bins) if measure == "ece" else quantile_members(p, n_bins, w)
    value, low, *highs = l1_ends(p, y, w, members)
    found = report_of(case)[measure]
    assert found.value == near(value)
    assert found.high == near(max(value, min(highs)))
    assert found.low == near(max(low, 0) if found.p_value <= TAIL else 0)
    assert (found.low > 0) == (case != "calibrated")


def test_each_upper_end_of_the_l1_interval_is_the_smallest_somewhere():
    cases = [*BINNED_CASES.values(), (*draw(0, 100), np.ones(100), 30)]
    ends = [l1_ends(p, y, w, uniform_members(p, n_bins))[2:] for p, y, w, n_bins in cases]
    assert {int(np.argmin(highs)) for highs in ends} == {0, 1, 2}


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
    # The mean over pairs of rows in a bin, each pair with the product of its weights: those are n^2 - sum w^2.
    sums = bin_sums(p, y, w, uniform_members(p, n_bins))
    pairs = sum(weight * (S**2 - Q) / (weight**2 * (1 - 1 / n)) for n, weight, S, Q, _ in sums if n > 1.001)
    assert square.value == near(pairs / w.sum())


@binned_cases
def test_interval_of_the_maximum_is_its_formula(case):
    p, y, w, n_bins = BINNED_CASES[case]
    members = uniform_members(p, n_bins)

    def bounds(b, alpha):
        i = members == b
        n = w[i].sum() ** 2 / (w[i] ** 2).sum()
        rate, mean = np.average(y[i], weights=w[i]), np.average(p[i], weights=w[i])
        if 0 < rate < 1:
            n = min(n, rate * (1 - rate) * w[i].sum() ** 2 / np.sum(w[i] ** 2 * (y[i] - rate) ** 2))
        k = rate * n
        least = stats.beta.ppf(alpha, k, n - k + 1) if k > 0 else 0.0
        most = stats.beta.ppf(1 - alpha, k + 1, n - k) if k < n else 1.0
        of_mean = stats.norm.isf(alpha) ** 2 * np.sum(w[i] ** 2 * (p[i] - mean) ** 2) / w[i].sum() ** 2
        least, most = (math.sqrt((end - rate) ** 2 + of_mean) for end in (least, most))
        return max(mean - rate - most, rate - mean - least, 0), max(mean - rate + least, rate - mean + most)

    rows = {b: w[members == b].sum() ** 2 / (w[members == b] ** 2).sum() for b in np.unique(members)}
    held = [b for b in rows if rows[b] >= 30]
    found = report_of(case)["mce"]
    if not held:
        assert math.isnan(found.value)
        assert found.method == "not available: no bin has 30 rows"
        return
    value = max(abs(np.average((p - y)[members == b], weights=w[members == b])) for b in held)
    contact = [b for b in held if bounds(b, 0.005)[1] >= max(bounds(c, 0.005)[0] for c in held)]
    low = max(bounds(b, TAIL / len(contact))[0] for b in contact)
    assert found.value == near(value)
    assert found.high == near(max(value, *(bounds(b, TAIL)[1] for b in held)))
    assert found.low == near(low if found.p_value <= TAIL else 0)


@pytest.mark.parametrize("interval", [absolute_interval, square_interval, maximum_interval])
def test_low_is_gated_and_high_is_never_below_the_value(interval):
    p, y, _, _ = BINNED_CASES["tilted"]
    cells = cells_of(p, y)
    bins = BinSums.of_cells(cells, uniform_bin_of(cells.table, 8))
    low, high = interval(bins, 0.01, LEVEL, rejected=True)
    assert interval(bins, 0.01, LEVEL, rejected=False) == (0.0, high)
    assert interval(bins, 2.0, LEVEL, rejected=False)[1] >= 2.0
    assert high < 1
    if interval is not square_interval:  # whose lower end starts from the value given
        assert low > 0


def test_ten_resamples_reject_nothing():
    """Their least p-value is 1 / 11, above alpha / 2: no lower end rises above 0."""
    report = evaluate(*BINNED_CASES["wrong"][:2], level=LEVEL, n_resamples=10)
    for name in ERRORS:
        if name != "ks":  # whose ends are by Brownian bounds
            assert (report[name].p_value, report[name].low) == (1 / 11, 0.0), name


def reflected(t, c, s):
    """K_s(t, c) = sum_k phi_s(t - c + 2 k) + phi_s(t + c + 2 k)."""
    near_and_far = (t[:, None] + sign * c + 2 * k for sign in (-1, 1) for k in (-1, 0, 1))  # s is below 1 / 4
    return sum(stats.norm.pdf(x, scale=s) for x in near_and_far)


def smooth_ends(p, y, s, nodes=4000):
    """L_s and U_s by the midpoint rule, each row blended as if it were all the rows that the kernel sees."""
    t = (np.arange(nodes) + 0.5) / nodes
    kernel, residuals, N = reflected(t, p, s), y - p, len(p)
    seen = np.maximum(reflected(p, p, s).sum(axis=1) * s * math.sqrt(2 * math.pi), 1)
    v = (seen * residuals**2 + 5 * p * (1 - p)) / (seen + 5)
    G, tau = kernel @ residuals / N, np.sqrt(kernel**2 @ v) / N

    def sd(psi):
        moved = psi @ kernel / nodes
        return math.sqrt(max(np.sum(v * moved**2) - np.sum(residuals * moved) ** 2 / N, 0)) / N

    middle, half = np.mean(tau * g(G / tau)), Z * sd(slope_of_g(G / tau))
    jensen = np.mean(np.abs(G)) + Z * sd(np.sign(G))
    third = middle + MOST_BIAS * np.mean(tau) + half if np.mean(tau) >= 2 * sd(np.sign(G)) else math.inf
    return middle - half, min(jensen, third)


@pytest.mark.parametrize("slope", [1.0, 3.0])
@pytest.mark.parametrize("n", [25, 60])
def test_smooth_interval_solves_its_equations(n, slope):
    p, y = draw(n, n, slope)
    cells, value = cells_of(p, y), calibrant.smooth_calibration_error(p, y)
    low, high = calibrant.measures.smooth.smooth_inference.interval(SamplingDesign(cells), value, LEVEL, rejected=True)
    # The root is found to 1e-4 of s; a mesh of 8 steps a bandwidth widens the kernel by 1 / 300 at the most.
    assert smooth_ends(p, y, high)[1] == pytest.approx(high, rel=4e-3)
    if low > 0:  # where it is more than exp(-3) of the value
        assert smooth_ends(p, y, low)[0] == pytest.approx(low, rel=4e-3)
    assert calibrant.measures.smooth.smooth_inference.interval(SamplingDesign(cells), value, LEVEL, rejected=False) == (
        0.0,
        high,
    )


def brownian_tail(x):
    """P(sup |W| > x) by the reflections 4 sum (-1)^k (1 - Phi((2 k + 1) x))."""
    odd = 2 * np.arange(200) + 1
    return 4 * np.sum((-1.0) ** np.arange(200) * stats.norm.sf(odd * x))


KS_CASES = {
    "within the noise": draw(8, 300),
    "one sign": draw(9, 900, 3.0),  # the sums fall, then rise back to 0
    "both signs": (0.4 + 0.2 * np.arange(90) / 90, (np.arange(90) < 30).astype(int)),
}


@pytest.mark.parametrize("case", KS_CASES)
def test_ks_interval_is_its_formula(case):
    p, y = KS_CASES[case]
    order, N = np.argsort(p), len(p)
    residuals = (y - p)[order]
    C, squares = np.cumsum(residuals) / N, np.cumsum(residuals**2)
    T, whole = np.abs(C).max(), math.sqrt(squares[-1]) / N
    quantile = whole * optimize.brentq(lambda x: brownian_tail(x) - TAIL, 1, 5)
    low = 0
    if quantile < T:
        signs = np.sign(C[np.abs(C) >= T - quantile])
        if len(set(signs)) == 1:  # the largest W up to the last of these scores, by reflection
            last = np.flatnonzero(np.abs(C) >= T - quantile)[-1]
            quantile = math.sqrt(squares[last]) / N * stats.norm.isf(TAIL / 2)
        low = T - quantile
    assert (low == 0) == (case == "within the noise")
    report = evaluate(p, y, level=LEVEL, n_resamples=0)
    found, gap = report["ks"], report["mean_gap"]
    assert found.value == near(T)
    assert found.low == near(low)
    high = max(np.abs(C) + Z * np.sqrt(np.maximum(squares / N - C**2, 0) / N))
    assert found.high == near(max(high, -gap.low, gap.high))  # the last cumulative sum is the mean gap


def step_fit(p, y, at):
    """The isotonic fit of another program, constant between its points."""
    order = np.argsort(p)
    x = IsotonicRegression().fit(p, y).predict(p[order])
    return x[np.maximum(np.searchsorted(p[order], at, side="right") - 1, 0)]


def mean_and_error(scores):
    return scores.mean(), scores.std() / math.sqrt(len(scores))


def square_end(middle, D, x, s0):
    """The m that solves m = T + z sqrt(4 r m + s + s0^2): a mean of D^2 whose variance grows with it."""
    N, top = len(D), max(middle, 0)
    r = np.sum(D**2 * x * (1 - x)) / np.mean(D**2) / N**2
    rest = np.var(D**2) / N + s0**2
    return optimize.brentq(lambda m: top + Z * math.sqrt(4 * r * m + rest) - m, top, top + 10, xtol=1e-15)


@pytest.mark.parametrize("slope", [1.0, 4.0])
def test_corp_intervals_are_their_formulas(monkeypatch, slope):
    p, y = draw(10, 200, slope)
    order = np.argsort(p)
    p, y, N = p[order], y[order], len(p)
    folds, replicates = [], []

    def spy(function, seen):
        return lambda *args: seen.append(function(*args)) or seen[-1]

    monkeypatch.setattr(corp, "out_of_fold", spy(corp.out_of_fold, folds))
    monkeypatch.setattr(Inference, "replicates_of", spy(Inference.replicates_of, replicates))
    report = evaluate(p, y, level=LEVEL, n_resamples=199)

    rows, hits = folds[0].masses.sum(axis=0), folds[0].masses[1]  # of each fold, which row is in it
    assert rows.sum(axis=0).tolist() == [1] * N
    assert (rows * y).tolist() == hits.tolist()
    assert rows.sum(axis=1).min() > N / 5 - 5 * math.sqrt(N * 0.16)
    outside, base = np.empty(N), np.empty(N)
    for fold in rows > 0:
        outside[fold], base[fold] = step_fit(p[~fold], y[~fold], p[fold]), y[~fold].mean()
    x, rate = step_fit(p, y, p), y.mean()

    IS, _ = mean_and_error((p - y) ** 2 - (x - y) ** 2)
    O, se_O = mean_and_error((p - y) ** 2 - (outside - y) ** 2)  # noqa: E741
    found = report["miscalibration"]
    assert found.value == near(IS)
    assert found.high == near(max(IS, square_end((IS + O) / 2, p - x, x, replicates[0].std())))
    assert found.low == near(max(0, min(IS, O - Z * se_O)) if found.p_value <= TAIL else 0)
    assert (found.low > 0) == (slope > 1)

    IS, _ = mean_and_error((rate - y) ** 2 - (x - y) ** 2)
    O, se_O = mean_and_error((base - y) ** 2 - (outside - y) ** 2)  # noqa: E741
    harmonic, squares = sum(1 / k for k in range(1, N + 1)), sum(1 / k**2 for k in range(1, N + 1))
    s0 = rate * (1 - rate) * math.sqrt(3 * harmonic - 2 - squares) / N
    found = report["discrimination"]
    assert found.value == near(IS)
    assert found.high == near(max(IS, square_end((IS + O) / 2, rate - x, x, s0)))
    assert found.low == near(O - Z * se_O)  # that the scores rank the outcomes is plain here

    found, k = report["uncertainty"], y.sum()
    ends = stats.beta.ppf(TAIL, k, N - k + 1), stats.beta.ppf(1 - TAIL, k + 1, N - k)
    assert found.low == near(min(r * (1 - r) for r in ends))
    assert found.high == near(0.25 if ends[0] <= 0.5 <= ends[1] else max(r * (1 - r) for r in ends))


@pytest.mark.parametrize(("chance", "told"), [(0.051, False), (0.049, True)])
def test_the_low_end_of_the_discrimination_is_gated_by_ranks(monkeypatch, chance, told):
    monkeypatch.setattr(corp, "rank_p_value", lambda _: chance)
    assert (evaluate(*draw(10, 200, 4.0), level=LEVEL, n_resamples=0)["discrimination"].low > 0) == told


def test_discrimination_of_scores_that_tell_nothing():
    rng, n, runs = np.random.default_rng(11), 200, 400
    p = np.arange(n) / n
    cells = [cells_of(p, rng.uniform(size=n) < 0.5) for _ in range(runs)]
    gains = []
    for one in cells:
        masses, fit, base = corp.in_sample(SamplingDesign(one))
        gains.append(corp.difference(SamplingDesign(one), masses, base, fit).value)
    # The variance of a chi-bar-square, whose kurtosis is about 10: its estimate from R runs is off by sqrt(9 / R) of
    # itself, its root by half of that. The central limit theorem of the blocks takes another tenth.
    sd = np.mean([corp.null_discrimination_sd(one) for one in cells])
    assert np.std(gains) == pytest.approx(sd, rel=4 * 0.5 * math.sqrt(9 / runs) + 0.1)
    for one in cells[:5]:
        y = one.positives
        ranks = stats.mannwhitneyu(
            p[y == 1], p[y == 0], alternative="greater", method="asymptotic", use_continuity=False
        )
        assert corp.rank_p_value(one) == near(ranks.pvalue)
    tied = np.round(p, 1)
    y = cells[0].positives
    ranks = stats.mannwhitneyu(
        tied[y == 1], tied[y == 0], alternative="greater", method="asymptotic", use_continuity=False
    )
    assert corp.rank_p_value(cells_of(tied, y)) == near(ranks.pvalue)
    assert np.mean([corp.rank_p_value(one) <= 0.1 for one in cells]) == pytest.approx(0.1, abs=4 * 0.3 / 20)


# ---------------------------------------------------------------- means, row by row


def whole_case(kind, rng, n=80):
    """Probabilities, labels, the Brier score and the log loss of each row, whether it is right, options."""
    if kind == "binary":
        p, y = rng.uniform(0.02, 0.98, n), rng.integers(0, 2, n)
        return p, y, (p - y) ** 2, -np.log(np.where(y, p, 1 - p)), (p >= 0.5) == y, {}
    logits = rng.normal(size=(n, 4))
    probs, labels = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True), rng.integers(0, 4, n)
    brier = ((probs - np.eye(4)[labels]) ** 2).sum(axis=1)
    losses = -np.log(probs[np.arange(n), labels])
    given = logits if kind == "logits" else probs
    return given, labels, brier, losses, probs.argmax(axis=1) == labels, {"logits": kind == "logits"}


def implied_squares(p, mean, name="brier", times=1):
    """The mean square of each row's score around a mean, if the scores are right; ``times`` 2 for classes."""
    missed, hit = (times * p**2, times * (1 - p) ** 2) if name == "brier" else (-np.log(1 - p), -np.log(p))
    return (hit - mean) ** 2 * p + (missed - mean) ** 2 * (1 - p)


def steadied(variance, implied, p, y, w, rows):
    """The larger of a variance and (m Q + 5 V0) / (m + 5), m twice the number of outcomes below 0.5."""
    unlikely = 2 * rows * max(np.average(np.minimum(p, 1 - p), weights=w), np.average((p > 0.5) != y, weights=w))
    return max(variance, (unlikely * variance + 5 * implied) / (unlikely + 5))


@pytest.mark.parametrize("weighted", [None, "whole", "uneven"])
@pytest.mark.parametrize("kind", ["binary", "probs", "logits"])
def test_means_have_the_interval_of_the_central_limit_theorem(kind, weighted):
    rng = np.random.default_rng(12)
    probs, labels, brier, losses, right, options = whole_case(kind, rng)
    n, w = len(brier), np.ones(len(brier))
    if weighted:
        w = rng.integers(0, 4, n) * 1.0 if weighted == "whole" else rng.uniform(0.2, 2, n)
        options["weights"] = w
    if weighted == "whole":  # a row of weight 2 is two
        brier, losses, right = (np.repeat(x, w.astype(int)) for x in (brier, losses, right))
        w = np.ones(len(brier))
    rows = w.sum() ** 2 / (w**2).sum()
    report = evaluate(probs, labels, level=LEVEL, n_resamples=0, **options)
    if kind != "binary":  # the scores of the top label decide
        soft = np.exp(probs) / np.exp(probs).sum(axis=1, keepdims=True) if kind == "logits" else probs
        top, top_right = soft.max(axis=1), soft.argmax(axis=1) == labels
    for name, scores in (("brier", brier), ("nll", losses)):
        mean = np.average(scores, weights=w)
        variance = np.average((scores - mean) ** 2, weights=w**2)
        p, hit_rate = (probs, labels) if kind == "binary" else (top, top_right)
        each = implied_squares(p, mean, name, 1 if kind == "binary" else 2)
        given = options.get("weights", np.ones(n))
        variance = steadied(
            variance, np.average(each, weights=given ** (1 if weighted == "whole" else 2)), p, hit_rate, given, rows
        )
        error = math.sqrt(variance / (rows - 1))  # ddof 1
        assert report[name].value == near(mean)
        assert report[name].low == near(mean - Z * error)
        assert report[name].high == near(mean + Z * error)
    share = np.average(right, weights=w)
    assert report["accuracy"].value == near(share)
    rows = share * (1 - share) * w.sum() ** 2 / np.sum(w**2 * (right - share) ** 2)
    wide, width = 1 + Z**2 / rows, math.sqrt(share * (1 - share) / rows + (Z / rows / 2) ** 2)
    assert report["accuracy"].low == near((share + Z**2 / 2 / rows - Z * width) / wide)
    assert report["accuracy"].high == near((share + Z**2 / 2 / rows + Z * width) / wide)
    if weighted is None:
        wilson = stats.binomtest(int(right.sum()), n).proportion_ci(LEVEL, method="wilson")
        assert (report["accuracy"].low, report["accuracy"].high) == near((wilson.low, wilson.high))


def test_mean_score_and_mean_gap_are_their_formulas():
    p, y = draw(13, 120, 2.0)
    report = evaluate(p, y, level=LEVEL, n_resamples=0)
    said, gap = report["mean_confidence"], report["mean_gap"]
    assert (said.value, said.low, said.high) == near((p.mean(), *stats.norm.interval(LEVEL, p.mean(), stats.sem(p))))
    S, n = np.sum(p - y), len(p)
    v = (n * np.sum((p - y) ** 2) + 5 * np.sum(p * (1 - p))) / (n + 5)
    error = math.sqrt((v - S**2 / n) / n / (n - 1))
    assert (gap.value, gap.low, gap.high) == near((S / n, S / n - Z * error, S / n + Z * error))
    null = math.sqrt(np.sum(p * (1 - p))) / n
    assert gap.p_value == near(2 * stats.norm.sf(abs(S / n) / null))
    assert (gap.floor.mean, gap.floor.upper) == near((math.sqrt(2 / math.pi) * null, stats.norm.isf(0.05) * null))


# ---------------------------------------------------------------- draws


def few_cells():
    """Five cells, one of them a single row, one rare, one certain, one of many rows."""
    rows = [(0.01, 60, 1), (0.3, 1, 1), (0.6, 12, 5), (0.9, 300, 260), (1.0, 3, 2)]
    p, y = np.repeat([row[0] for row in rows], [row[1] for row in rows]), []
    for _, n, hits in rows:
        y += [1] * hits + [0] * (n - hits)
    return p, np.array(y)


@pytest.mark.parametrize("width", [1, 2, 5, 64])
def test_listed_laws_are_drawn_exactly(width):
    """Binomial numbers are columns or their aliases: the share of columns with a number is its probability."""
    rng = np.random.default_rng(width)
    trials, rates = rng.integers(0, width, 200), rng.uniform(size=200)
    trials[0], rates[:4] = width - 1, [0, 1, 1e-300, 1 - 1e-16]
    laws = binomial_laws(trials, rates)
    exact = stats.binom.pmf(np.arange(width), trials[:, None], rates[:, None])
    np.testing.assert_allclose(laws, exact, atol=1e-15, rtol=1e-12)  # SciPy's own error
    aliases = Aliases.of(laws)
    assert aliases.own.min() >= -1e-13
    own, shares = np.clip(aliases.own, 0, 1) / width, np.zeros((200, width))
    np.add.at(shares, (np.arange(200)[:, None], aliases.others), 1 / width - own)
    np.testing.assert_allclose(shares + own, laws, atol=width * 2.0**-50)
    drawn = aliases.draw(np.random.default_rng(4), 50)
    share, column = np.modf(width * np.random.default_rng(4).random((50, 200)))
    for law in range(200):
        column_of = column[:, law].astype(int)
        held = share[:, law] < aliases.own[law][column_of]
        assert (drawn[:, law] == np.where(held, column_of, aliases.others[law][column_of])).all()


def test_outcomes_drawn_under_calibration_are_binomial():
    cells, runs = cells_of(*few_cells()), 20_000
    drawn = cells.calibrated.draw(np.random.default_rng(20), runs)
    for k, (n, p) in enumerate(zip(cells.counts.astype(int), cells.scores, strict=True)):
        chances = stats.binom.pmf(np.arange(n + 1), n, p) * runs
        common = np.flatnonzero(chances >= 5)
        seen = np.array([np.sum(drawn[:, k] == count) for count in common])
        rest = runs - seen.sum(), runs - chances[common].sum()
        square = np.sum((seen - chances[common]) ** 2 / chances[common]) + (rest[0] - rest[1]) ** 2 / max(rest[1], 5)
        assert square <= stats.chi2.isf(1e-4, len(common))
    unequal = np.corrcoef(drawn[:, [0, 2]].T)[0, 1]
    assert abs(unequal) < 4 / math.sqrt(runs)
    assert set(drawn[:, 4]) == {3.0}  # what is certain happens


def test_draws_with_uneven_weights_have_the_mean_and_the_variance_of_their_rows():
    rng, runs = np.random.default_rng(21), 20_000
    w, p = rng.uniform(0.5, 3, 40), np.linspace(0.1, 0.9, 40)
    cells = cells_of(p, rng.integers(0, 2, 40), w)
    sums = cells.calibrated.draw(rng, runs).sum(axis=1)
    variance = np.sum(w**2 * p * (1 - p))
    assert sums.mean() == pytest.approx(np.sum(w * p), abs=4 * math.sqrt(variance / runs))
    assert sums.var() == pytest.approx(variance, rel=4 * math.sqrt(2 / runs))


def test_bootstrap_draws_are_multinomial():
    p, y = few_cells()
    cells, runs, n = cells_of(p, y), 5_000, len(p)
    rng = np.random.default_rng(22)
    drawn = np.array([cells.draw_rows(rng).ravel() for _ in range(runs)])
    assert set(drawn.sum(axis=1)) == {n}
    assert drawn.min() >= 0
    chances = np.concatenate([cells.counts - cells.positives, cells.positives]) / n
    covariance = n * (np.diag(chances) - np.outer(chances, chances))
    error = np.sqrt(np.diag(covariance) / runs)
    assert np.all(np.abs(drawn.mean(axis=0) - n * chances) <= 4.5 * error)  # of 8 means
    # Sampled covariances are off by sqrt((c_ii c_jj + c_ij^2) / R), a little more for skew counts: 6 of them.
    scale = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)) + covariance**2)
    assert np.all(np.abs(np.cov(drawn.T) - covariance) <= 6 * scale / math.sqrt(runs) + 1e-12)


def test_drawn_tables_hold_what_was_drawn():
    p, y = few_cells()
    for grid, w in itertools.product((None, "standard"), (None, np.linspace(0.3, 2, len(p)))):
        cells = Cells.from_table(ReliabilityTable.from_scores(p, y, weights=w, grid=grid))
        number = cells.draw_rows(np.random.default_rng(23))
        masses, held = number * cells.kinds[1], number.any(axis=0)
        table = cells.drawn(number)
        assert table.counts == near(masses.sum(axis=0)[held])
        assert table.positives == near(masses[1][held])
        assert table.residuals == near((masses[1] - masses.sum(axis=0) * cells.scores)[held])
        other = cells.with_positives(np.zeros(len(cells)))
        assert other.residuals == near(-cells.score_sums)
        assert other.square_residuals == near(cells.counts * cells.scores**2)  # a cell here has one score


def numbers_of(report):
    return json.loads(report.to_json())


def test_seeds_decide_the_draws_and_threads_do_not(monkeypatch):
    p, y = draw(24, 150, 1.5)
    table = ReliabilityTable.from_scores(p, y)
    ece = calibrant.expected_calibration_error
    found = []
    for threads in ("1", "2"):
        monkeypatch.setenv("CALIBRANT_NUM_THREADS", threads)
        own = [method(table, ece, n_resamples=70, rng=1) for method in (consistency, bootstrap)]
        found.append((numbers_of(evaluate(p, y, n_resamples=70, rng=1)), repr(own)))
    assert found[0] == found[1]
    first = found[0][0]
    assert numbers_of(evaluate(p, y, n_resamples=70, rng=1)) == first
    assert numbers_of(evaluate(p, y, n_resamples=70, rng=np.random.SeedSequence(1))) == first
    other = numbers_of(evaluate(p, y, n_resamples=70, rng=2))
    for name in ("ece", "smece", "miscalibration"):
        assert other["estimates"][name]["floor"] != first["estimates"][name]["floor"]
        assert other["estimates"][name]["value"] == first["estimates"][name]["value"]


def test_a_generator_moves_on():
    p, y = draw(25, 100)
    rng = np.random.default_rng(1)
    first, second = (numbers_of(evaluate(p, y, n_resamples=40, rng=rng)) for _ in range(2))
    assert first != second
    assert numbers_of(evaluate(p, y, n_resamples=40, rng=np.random.default_rng(1))) == first


def test_memory_does_not_hold_all_replicates_of_all_cells():
    p, y = draw(26, 4000)
    evaluate(p, y, n_resamples=40)
    tracemalloc.start()
    evaluate(p, y, n_resamples=640)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # 20 blocks of 32 replicates; a block holds about 20 arrays of them (draws, residuals, fits, 6 smoothed densities)
    # on each of two threads, which without blocks would be 20 arrays of 640.
    assert peak < 640 * 4000 * 8


# ---------------------------------------------------------------- floors


def folded(variances, runs, seed):
    """Replicates of sums S of bins, normal of these variances."""
    return np.random.default_rng(seed).normal(size=(runs, len(variances))) * np.sqrt(variances)


def test_floor_of_the_ece_is_its_closed_form():
    n = 1000
    p = (np.arange(n) + 0.5) / n
    v = np.array([np.sum((p * (1 - p))[uniform_members(p, 15) == b]) for b in range(15)])
    found = evaluate(p, np.arange(n) % 2, n_resamples=0)["ece"].floor
    assert found.mean == near(math.sqrt(2 / math.pi) * np.sqrt(v).sum() / n)
    assert found.mean == pytest.approx(0.03853, abs=1e-4)  # of scores drawn, not laid out
    mean, sd = found.mean, math.sqrt((1 - 2 / math.pi) * v.sum()) / n
    # Pearson's type III with the skewness of a folded normal, by another program.
    skewness = stats.foldnorm(0).stats("s") * np.sum(v**1.5) / v.sum() ** 1.5
    assert found.upper == near(mean + sd * stats.pearson3.ppf(0.95, skewness))
    drawn = np.abs(folded(v, 200_000, 30)).sum(axis=1) / n
    # The quantile of R draws is off by sqrt(.95 * .05 / R) / density, here .1 % of the mean; the type III law by less.
    assert np.quantile(drawn, 0.95) == pytest.approx(found.upper, rel=4e-3)
    assert drawn.std() == pytest.approx(sd, rel=0.01)


@pytest.mark.parametrize("scores", ["uniform", "rare", "two bins"])
def test_closed_forms_are_the_laws_of_normal_sums(scores):
    rng = np.random.default_rng(31)
    given = {"uniform": (0, 1), "rare": (0, 0.2), "two bins": (0.4, 0.53)}
    p = rng.uniform(*given[scores], 900)
    y = (rng.uniform(size=900) < p).astype(int)
    found = evaluate(p, y, level=LEVEL, n_resamples=0)
    cells = cells_of(p, y)
    bins = BinSums.of_cells(cells, uniform_bin_of(cells.table, 15)).moments
    sums, n, runs = folded(bins.null_variances, 100_000, 32), len(p), 100_000
    squares = (sums**2 / bins.counts).sum(axis=1)
    replicates = {
        "ece": np.abs(sums).sum(axis=1) / n,
        "rmsce": np.sqrt(squares / n),
        "debiased_square": (squares - (bins.null_variances / bins.counts).sum()) / n,
    }
    # The sums are normal here, so that only the shapes of the laws are approximate: a fitted gamma law and a fitted
    # chi-square are good to 5 % of a standard deviation in the quantile and to .015 in a probability, from two bins on.
    for name, drawn in replicates.items():
        estimate = found[name]
        assert estimate.floor.mean == pytest.approx(drawn.mean(), abs=(4 / math.sqrt(runs) + 0.02) * drawn.std())
        assert estimate.floor.upper == pytest.approx(np.quantile(drawn, LEVEL), abs=0.05 * drawn.std())
        if name != "debiased_square":
            assert estimate.p_value == pytest.approx(np.mean(drawn >= estimate.value), abs=0.015)

    held = bins.rows >= 30
    scales = (np.sqrt(bins.null_variances) / bins.counts)[held]
    maximum = found["mce"]

    def largest(x):
        return np.prod(2 * stats.norm.cdf(x / scales) - 1)

    mean = integrate.quad(lambda x: 1 - largest(x), 0, 8 * scales.max(), limit=200)[0]
    assert maximum.floor.mean == pytest.approx(mean, rel=1e-3)  # 4,000 steps to 8 standard deviations
    assert largest(maximum.floor.upper) == pytest.approx(LEVEL, abs=1e-3)
    standard = np.max((np.abs(bins.gap_sums) / np.sqrt(np.maximum(bins.null_variances, 1)))[held])
    ratio = np.sqrt(np.maximum(bins.null_variances, 1) / bins.null_variances)[held]
    assert maximum.p_value == near(1 - np.prod(2 * stats.norm.cdf(standard * ratio) - 1))


def test_closed_forms_agree_with_resampling():
    p, y = draw(33, 3000)
    B = 2000
    closed_form, resampled = (evaluate(p, y, level=LEVEL, n_resamples=k) for k in (0, B))
    for name in ("ece", "ace", "rmsce", "debiased_square", "mce", "ks"):
        first, second = closed_form[name], resampled[name]
        sd = (second.floor.upper - second.floor.mean) / stats.norm.ppf(LEVEL)  # nearly
        # From N = 3,000 points the extremes of a Brownian path look smaller by .58 / sqrt(N) of their scale, 2 % of
        # their standard deviation; binomial sums of 200 rows are normal to about as much.
        assert first.floor.mean == pytest.approx(second.floor.mean, abs=(5 / math.sqrt(B) + 0.03) * sd), name
        assert first.floor.upper == pytest.approx(second.floor.upper, abs=(5 * 1.71 / math.sqrt(B) + 0.05) * sd), name
        assert first.p_value == pytest.approx(second.p_value, abs=5 * 0.5 / math.sqrt(B) + 0.02), name
        assert first.high == second.high
        assert first.method.endswith("floor: closed form")
        assert second.method.endswith("floor: 2,000 resamples")


@pytest.mark.parametrize("n", [1, 2, 7, 40, 400])
@pytest.mark.parametrize("p", [0.0, 1e-6, 0.003, 0.1, 0.25, 0.5, 0.9, 1.0])
def test_mean_absolute_deviation_of_a_binomial_count(n, p):
    """De Moivre's formula, whose normal approximation is far off for rare events."""
    law = stats.binom(n, p)
    mean, square = (law.expect(lambda k, power=power: np.abs(k - n * p) ** power) for power in (1, 2))
    counts, rates = np.array([n, 0.0, n]), np.array([p, 0.5, p])  # twice, and an empty bin
    law = exact_absolute_law(counts, rates, np.ones_like(counts), 2.0 * n, 0.0, 0.95, dependence=2.0)
    floor, p_value = law.floor, law.p_value
    assert floor.mean == pytest.approx(mean / n, rel=1e-9, abs=1e-15)
    sd = math.sqrt(max(square - mean**2, 0) * 2 * 2) / (2 * n)
    # The variance is the difference of nearly equal numbers where n p is small or n is 1: an absolute 1e-15 of each.
    assert floor.upper - floor.mean == pytest.approx(stats.norm.ppf(0.95) * sd, rel=1e-6, abs=1e-7)
    assert 0.5 <= p_value <= 1  # of a value of 0


def test_largest_value_of_a_brownian_motion():
    # Published quantiles of sup |W| on [0, 1], as twice reflected: P(sup |W| > x) is nearly 4 (1 - Phi(x)).
    for p, x in ((0.95, 2.2414), (0.9, 1.9600), (0.99, 2.8070)):
        assert cumulative.LARGEST.quantile(p) == pytest.approx(x, abs=6e-5)
    for x in (0.3, 0.6, 0.99, 1.0, 1.01, 2.0, 4.0):  # both series, on either side of 1
        assert cumulative.brownian_sf(x) == pytest.approx(brownian_tail(x), abs=1e-12)
    assert cumulative.brownian_sf(1.0) == pytest.approx(1 - 0.3708, abs=5e-5)  # exit of (-1, 1) before time 1
    assert cumulative.brownian_sf(0.0) == cumulative.brownian_sf(0.05) == 1
    assert integrate.quad(cumulative.brownian_sf, 0, 10, points=[1])[0] == pytest.approx(cumulative.LARGEST.mean)
    assert cumulative.brownian_sf(8.0) == pytest.approx(4 * stats.norm.sf(8.0), rel=1e-9)  # no cancellation


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("s", [0.05, 0.1, 0.7])
def test_smoothed_sums_are_those_of_the_kernel(monkeypatch, direct, s):
    p, y = draw(34, 80)
    p[:3] = [0, 1, 1e-4]
    cells = cells_of(np.sort(p), y[np.argsort(p)])
    if not direct:
        monkeypatch.setattr(smoothing, "_FEW", 0)
    mesh = Mesh.fine_enough(cells, s)
    images = [sign * cells.scores + 2 * k for sign in (-1, 1) for k in range(-3, 4)]  # s is below 1
    at_nodes = sum(stats.norm.pdf(mesh.nodes[:, None] + x, scale=s) for x in images)
    at_cells = sum(stats.norm.pdf(cells.scores[:, None] + x, scale=s) for x in images)
    # A series is cut where its terms are exp(-6^2 / 2) = 2e-8 of 80 rows. A mesh of s / 8 widens s by less than one
    # part in 300, twice at the cells, and moves values by less than as many parts of the largest.
    near = {"atol": 5e-6} if direct else {"rtol": 0.01, "atol": 0.01 * at_nodes.max()}
    sums = np.stack([cells.gap_sums, cells.positives])
    np.testing.assert_allclose(mesh.smoothed(sums, s), sums @ at_nodes.T, **near)
    np.testing.assert_allclose(mesh.smoothed(sums[0], s), at_nodes @ sums[0], **near)
    np.testing.assert_allclose(mesh.smoothed_at_cells(sums[1], s), at_cells @ sums[1], **near)
    wave = np.sin(5 * mesh.nodes)
    np.testing.assert_allclose(mesh.convolved_at_cells(wave, s), at_nodes.T @ wave / mesh.size, **near)
    if s < 0.5:  # wider, both reflections meet
        squares = at_nodes**2 @ cells.positives
        near = {"atol": 1e-6 * squares.max()} if direct else {"rtol": 0.01, "atol": 0.01 * squares.max()}
        np.testing.assert_allclose(mesh.variance(cells.positives, s), squares, **near)


def test_floor_of_the_smooth_error():
    p, y = draw(34, 80)
    cells, nodes = cells_of(p, y), (np.arange(4000) + 0.5) / 4000
    s = expected(cells)
    tau = np.sqrt(reflected(nodes, p, s) ** 2 @ (p * (1 - p))) / len(p)
    assert math.sqrt(2 / math.pi) * tau.mean() == pytest.approx(s, rel=4e-3)

    value = calibrant.smooth_calibration_error(p, y)
    null = NullSmooth.of(cells, value)
    drawn = cells.calibrated.draw(np.random.default_rng(35), 60)
    roots, at_value = null(cells.score_sums - drawn)
    exact = np.array([calibrant.smooth_calibration_error(cells.table.scores, row) for row in drawn])
    # Roots between 4 bandwidths, each 1.59 times the last, by straight lines in logarithms: good to 5 %, and to 1 %
    # on average.
    assert roots == pytest.approx(exact, rel=0.05)
    assert np.mean(roots / exact) == pytest.approx(1, abs=0.01)
    # T* >= T exactly when S*(T) >= T, save within what a mesh of 8 steps a bandwidth can tell.
    apart = np.abs(exact / value - 1) > 4e-3
    observed = null(cells.gap_sums[None])[1][0]
    assert np.array_equal((at_value >= observed)[apart], (exact >= value)[apart])
    assert 0 < np.count_nonzero(exact >= value) < len(exact)


def test_proper_scores_have_neither_floor_nor_p_value():
    report = evaluate(*draw(36, 500, 1.0), n_resamples=10)
    for name in ("brier", "brier_event", "nll"):
        assert report[name].floor is None
        assert math.isnan(report[name].p_value)


# ---------------------------------------------------------------- the skill against the base rates


def skill_ends(brier, u, p, y, weights=None, times=1):
    """The skill and its 90 % interval, from each row's Brier score and that of the base rates: a ratio of means.

    The scores of the top label or of the event, p, steady the variance; ``times`` is 2 for classes.
    """
    w = np.ones(len(u)) if weights is None else weights
    mean, base = np.average(brier, weights=w), np.average(u, weights=w)
    each, effective = brier - mean / base * u, w.sum() ** 2 / np.sum(w**2)
    variance = np.sum(w**2 * (each - np.average(each, weights=w)) ** 2) / np.sum(w**2)
    of_brier = math.sqrt(np.average(implied_squares(p, mean, times=times), weights=w**2))
    of_rates = math.sqrt(np.average((u - base) ** 2, weights=w**2))
    variance = steadied(variance, max(of_brier - mean / base * of_rates, 0) ** 2, p, y, w, effective)
    variance = variance / base**2 + 2 * (mean / base) ** 2 / effective  # the second term: the error of the base rates
    half = stats.norm.ppf(0.95) * math.sqrt(variance / (effective - 1))
    return 1 - mean / base, 1 - mean / base - half, 1 - mean / base + half


def skill_of(*arguments, **options):
    found = evaluate(*arguments, level=0.9, n_resamples=5, measures=["brier_skill"], **options)["brier_skill"]
    return found.value, found.low, found.high


def class_rows(seed=50, n=700):
    """Rows of three classes of unequal size, each row's Brier score and that of the base rates."""
    probs, targets = draw_classes(seed, n, [2.0, 0.8, 0.3])
    return probs, targets


def row_scores(probs, targets, rates):
    hot = np.eye(len(rates))[targets]
    return ((probs - hot) ** 2).sum(1), ((rates - hot) ** 2).sum(1)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_skill_of_one_event_is_that_of_its_rows(weighted):
    p, y = draw(51, 400, 1.3)
    weights = np.random.default_rng(51).uniform(0.2, 3, len(p)) if weighted else None
    rate = np.average(y, weights=weights)
    expected = skill_ends((p - y) ** 2, (rate - y) ** 2, p, y, weights)
    assert skill_of(p, y, weights=weights) == pytest.approx(expected, rel=1e-9)
    assert skill_of(p, y, weights=weights, notion="top-label") == pytest.approx(expected, rel=1e-9)
    sketch = sketch_of(p, y, weights=weights)
    assert skill_of(sketch) == pytest.approx(expected, abs=1e-5)  # the value is exact, the variance that of cells
    assert skill_of(sketch)[0] == pytest.approx(expected[0], rel=1e-12)


@pytest.mark.parametrize("notion", ["top-label", "classwise"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_skill_of_classes_is_that_of_their_rows(notion, weighted):
    probs, targets = class_rows()
    weights = np.random.default_rng(52).uniform(0.2, 3, len(probs)) if weighted else None
    rates = np.bincount(targets, weights) / (len(targets) if weights is None else weights.sum())
    top = probs.max(axis=1), probs.argmax(axis=1) == targets
    expected = skill_ends(*row_scores(probs, targets, rates), *top, weights, times=2)
    assert skill_of(probs, targets, weights=weights, notion=notion) == pytest.approx(expected, rel=1e-9)


def test_without_rows_the_interval_of_classes_is_the_widest_that_they_allow():
    probs, targets = class_rows()
    brier, base = row_scores(probs, targets, np.bincount(targets) / len(targets))
    sketch = calibrant.CalibrationSketch(classwise=True)
    sketch.update(probs, targets)
    value, low, high = skill_of(sketch)
    assert value == pytest.approx(1 - brier.mean() / base.mean(), rel=1e-12)
    n, ratio = len(brier), brier.mean() / base.mean()
    top, right = probs.max(axis=1), probs.argmax(axis=1) == targets
    widest = (brier.std() + ratio * base.std()) ** 2
    least = max(math.sqrt(implied_squares(top, brier.mean(), times=2).mean()) - ratio * base.std(), 0) ** 2
    widest = steadied(widest, least, top, right, np.ones(n), n)
    variance = widest / base.mean() ** 2 + 2 * ratio**2 / n
    half = stats.norm.ppf(0.95) * math.sqrt(variance / (n - 1))
    assert (value - low, high - value) == pytest.approx((half, half), rel=1e-9)
    assert "conservative" in evaluate(sketch, n_resamples=5)["brier_skill"].method


def test_the_skill_of_labels_is_that_of_all_their_entries():
    rng = np.random.default_rng(53)
    probs = rng.random((500, 3)) ** [1, 2, 4]
    targets = (rng.random((500, 3)) < probs).astype(int)
    brier, base = (probs - targets) ** 2, (targets.mean(0) - targets) ** 2
    value, low, high = skill_of(probs, targets, notion="multilabel")
    assert value == pytest.approx(1 - brier.mean() / base.mean(), rel=1e-9)
    ratio = brier.mean() / base.mean()
    variance = np.var((brier - ratio * base) / base.mean()) + 2 * ratio**2 / 500
    half = stats.norm.ppf(0.95) * math.sqrt(variance / 499)  # only rows are independent
    assert (value - low, high - value) == pytest.approx((half, half), rel=1e-9)


def test_scikit_learn_has_the_same_skill():
    metrics = pytest.importorskip("sklearn.metrics")
    if not hasattr(metrics, "d2_brier_score"):
        pytest.skip("scikit-learn from 1.8 has d2_brier_score")
    p, y = draw(54, 300, 1.0)
    assert skill_of(p, y)[0] == pytest.approx(metrics.d2_brier_score(y, p), rel=1e-12)
    probs, targets = class_rows()
    assert skill_of(probs, targets)[0] == pytest.approx(metrics.d2_brier_score(targets, probs), rel=1e-12)


def clustered_rows(kind, number, each):
    """Predictions in clusters of one size, whose rows depend; their Brier scores and those of the base rates."""
    probs, targets = (np.repeat(x, each, axis=0) for x in class_rows(55, number))
    own = np.random.default_rng(55).random(len(probs)) < 0.5  # half of the rows are copies
    targets = np.where(own, targets, class_rows(56, len(probs))[1])
    clusters, hot = np.arange(len(probs)) // each, np.eye(3)[targets]
    if kind == "classes":
        return (probs, targets), clusters, *row_scores(probs, targets, hot.mean(0))
    if kind == "labels":
        return (probs, hot.astype(int)), clusters, (probs - hot) ** 2, (hot.mean(0) - hot) ** 2
    y = hot[:, 0]
    return (probs[:, 0], y.astype(int)), clusters, (probs[:, 0] - y) ** 2, (y.mean() - y) ** 2


@pytest.mark.parametrize("kind", ["event", "classes", "labels"])
def test_clusters_of_one_size_have_the_skill_of_their_sums(kind):
    """sum over clusters of v_h^2 H / (H - 1), v_h the sum of b - (B / U) u, and Student's law with H - 1.

    The error of the base rates adds 2 (deff (B / U) / N)^2, with the design effect of the sums of u.
    """
    data, clusters, brier, base = clustered_rows(kind, 30, 20)
    sums = (brier - brier.mean() / base.mean() * base).reshape(30, -1).sum(axis=1)
    own, n, ratio = (base - base.mean()).reshape(30, -1).sum(axis=1), brier.size, brier.mean() / base.mean()
    deff = np.sum(own**2) * 30 / 29 / (n * np.var(base) * n / (n - 1))
    variance = np.sum(sums**2) * 30 / 29 / (n * base.mean()) ** 2 + 2 * (deff * ratio / n) ** 2
    half = stats.t.ppf(0.95, 29) * math.sqrt(variance)
    value = 1 - brier.mean() / base.mean()
    options = {"notion": "multilabel"} if kind == "labels" else {}
    found = skill_of(*data, clusters=clusters, **options)
    assert found == pytest.approx((value, value - half, value + half), rel=1e-6)


def test_many_clusters_have_the_skill_of_classes_in_32_buckets():
    """The deviation that 32 buckets show has the relative error sqrt(1 / 62) = .127: three of these are allowed."""
    data, clusters, brier, base = clustered_rows("classes", 400, 5)
    sums = (brier - brier.mean() / base.mean() * base).reshape(400, -1).sum(axis=1)
    width = 2 * stats.norm.ppf(0.95) * math.sqrt(np.sum(sums**2)) / brier.size / base.mean()
    _, low, high = skill_of(*data, clusters=clusters)
    assert high - low == pytest.approx(width, rel=0.38)


def test_where_the_skill_is_missing_the_reason_is_told():
    probs, targets = class_rows()
    sketch, top = calibrant.CalibrationSketch(), calibrant.CalibrationSketch(notion="top-label")
    sketch.update(probs, targets)
    top.update(probs[:, 0], targets == 0)
    right = evaluate(ReliabilityTable.from_scores([0.6, 0.8] * 20, [1, 0] * 20), notion="top-label", level=None)
    missing = {
        "the sketch does not keep its classes: make it with classwise=True": evaluate(sketch, level=None),
        "the sketch records which predictions are correct": evaluate(top, level=None),
        "the table records which predictions are correct": right,
        "all outcomes are equal": evaluate([0.2, 0.4], [0, 0], level=None),
    }
    for reason, report in missing.items():
        assert math.isnan(report["brier_skill"].value)
        assert reason in report["brier_skill"].method
    p, y = draw(56, 200, 1.0)
    by_cluster = evaluate(p, y, notion="top-label", clusters=np.arange(200) // 4, n_resamples=5)["brier_skill"]
    assert by_cluster.method.startswith("no interval for rows in clusters: the class frequencies")


@pytest.mark.parametrize("clusters", [None, np.arange(700) // 2])
def test_the_brier_score_of_the_judged_event(clusters):
    """That of right answers, beside that of all classes; by clusters the interval is that of the same event alone."""
    probs, targets = class_rows()
    top, right = probs.max(axis=1), (probs.argmax(axis=1) == targets).astype(int)
    found = evaluate(probs, targets, clusters=clusters, n_resamples=5)
    alone = evaluate(top, right, clusters=clusters, n_resamples=5)["brier"]
    assert found["brier_event"].value == pytest.approx(np.mean((top - right) ** 2), rel=1e-12)
    ends = found["brier_event"].low, found["brier_event"].high
    # By cluster p (1 - p) is linear in each of at most 300 coarse cells.
    assert ends == pytest.approx((alone.low, alone.high), rel=1e-9 if clusters is None else 1e-5)
    gain = next(finding for finding in found.findings if finding.code == "recalibration-gain")
    assert found["brier_event"].value == pytest.approx(gain.facts["score"], rel=1e-12)


# ---------------------------------------------------------------- p-values and coverage by simulation


RUNS = 150


def over_confident(rng, n):
    """Scores from .8 to 1 of events that are even: l1, smooth and KS errors .4, each right on average."""
    return rng.uniform(0.8, 1, n), rng.integers(0, 2, n)


def tilted_law(rng, n):
    p = rng.uniform(size=n)
    return p, (rng.uniform(size=n) < tilted(p, 2)).astype(int)


def calibrated_law(rng, n):
    p = rng.uniform(size=n)
    return p, (rng.uniform(size=n) < p).astype(int)


@functools.cache
def simulated(law, n=500):
    rng = np.random.default_rng(40)
    return [evaluate(*law(rng, n), level=LEVEL, n_resamples=99, rng=rng) for _ in range(RUNS)]


def test_p_value_counts_replicates_at_least_as_large():
    drawn = np.array([0.1, 0.2, 0.2, 0.4])
    assert [null.p_value(drawn, value) for value in (0.5, 0.4, 0.3, 0.2, 0.2 + 1e-16, 0)] == [
        1 / 5,
        2 / 5,
        2 / 5,
        4 / 5,
        4 / 5,
        1,
    ]
    floor = null.floor_of(drawn, 0.7)
    assert (floor.mean, floor.upper) == (pytest.approx(0.225), 0.4)  # at least a share of .7 is not above it


def in_turn(drawn, value):
    """Besag and Clifford's p-value, replicate by replicate."""
    found = 0
    for n, replicate in enumerate(drawn, 1):
        found += replicate >= value
        if found == 10:
            return 10 / n
    return (found + 1) / (len(drawn) + 1)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 7, 100, 400])
def test_a_sequential_p_value_takes_replicates_until_enough_are_as_large(size):
    """Whatever the blocks; the p-values of calibrated data are uniform: at most u with probability at most u."""
    rng = np.random.default_rng(46)
    p_values = []
    for _ in range(1500):
        drawn, value = rng.random(400), rng.random()
        blocks = iter(np.split(drawn, range(size, 400, size)))
        p_values.append(null.sequential_p_value(blocks, value))
        assert p_values[-1] == in_turn(drawn, value)
        needed = 400 if p_values[-1] < 10 / 400 else round(10 / p_values[-1])
        assert len(list(blocks)) == -(-400 // size) - -(-needed // size)
    for level in (0.01, 0.05, 0.2):
        assert np.mean(np.array(p_values) <= level) <= level + 4 * math.sqrt(level / 1500)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*ERRORS, "mean_gap"])
def test_size_under_calibration(name):
    p_values = np.array([report[name].p_value for report in simulated(calibrated_law)])
    for size in (0.1, 0.5):
        assert np.mean(p_values <= size) == pytest.approx(size, abs=4 * math.sqrt(size * (1 - size) / RUNS))
    if name != "mean_gap":
        assert p_values.min() >= 1 / 100
        assert np.rint(p_values * 100) / 100 == pytest.approx(p_values)


@pytest.mark.slow
@pytest.mark.parametrize("name", ERRORS)
def test_power_against_a_tilt(name):
    p_values = np.array([report[name].p_value for report in simulated(tilted_law)])
    assert np.mean(p_values <= 0.1) > (0.5 if name == "mce" else 0.95)


def truth(score, rate, n_bins=15):
    """The true values for uniform scores between the ends of ``score``, of which ``rate`` happen."""
    a, b = score

    def mean(f, low=a, high=b):
        return integrate.quad(f, low, high, limit=200)[0] / (b - a)

    edges = np.clip(np.arange(n_bins + 1) / n_bins, a, b)
    bins = [(low, high) for low, high in itertools.pairwise(edges) if high - low > 1e-12]
    gaps = np.array([mean(lambda t: t - rate(t), low, high) for low, high in bins])
    shares = np.array([(high - low) / (b - a) for low, high in bins])
    base = mean(rate)
    return {
        "ece": np.abs(gaps).sum(),
        "rmsce": math.sqrt(np.sum(gaps**2 / shares)),
        "debiased_square": np.sum(gaps**2 / shares),
        "mce": np.max(np.abs(gaps) / shares),
        "smece": smooth_truth(score, rate),
        "ks": max(abs(mean(lambda t: t - rate(t), a, x)) for x in np.linspace(a, b, 201)[1:]),
        "miscalibration": mean(lambda t: (t - rate(t)) ** 2),  # the rate does not fall
        "discrimination": base * (1 - base) - mean(lambda t: rate(t) * (1 - rate(t))),
        "uncertainty": base * (1 - base),
        "brier": mean(lambda t: rate(t) * (1 - t) ** 2 + (1 - rate(t)) * t**2),
        "mean_gap": mean(lambda t: t - rate(t)),
        "mean_confidence": (a + b) / 2,
        "accuracy": mean(lambda t: rate(t) if t >= 0.5 else 1 - rate(t)),
    }


def smooth_truth(score, rate):
    """The root of S(s) = s of the law itself, by the midpoint rule."""
    p, t = (np.arange(1000) + 0.5) / 1000 * (score[1] - score[0]) + score[0], (np.arange(500) + 0.5) / 500
    residuals = rate(p) - p
    if not np.any(np.abs(residuals) > 1e-12):
        return 0.0
    return optimize.brentq(lambda s: np.abs(reflected(t, p, s) @ residuals / 1000).mean() - s, 0.02, 0.9, xtol=1e-5)


TRUTHS = {
    "calibrated": (calibrated_law, lambda: truth((0, 1), lambda t: t)),
    "tilted": (tilted_law, lambda: truth((0, 1), lambda t: tilted(t, 2))),
    "over-confident": (over_confident, lambda: truth((0.8, 1), lambda t: 0.5 + 0 * t)),
}


def test_truths_are_those_in_closed_form():
    tilt, over = TRUTHS["tilted"][1](), TRUTHS["over-confident"][1]()
    assert tilt["miscalibration"] == pytest.approx(3 * math.pi / 8 - 7 / 6, abs=1e-9)
    assert tilt["ece"] < math.log(2) / 2 - 1 / 4  # a bin in which the gap changes its sign hides some of it
    assert tilt["ece"] == pytest.approx(math.log(2) / 2 - 1 / 4, abs=2e-3)
    assert [over[name] for name in ("ece", "ks", "smece", "mean_gap")] == pytest.approx([0.4] * 4, abs=1e-5)
    assert over["mce"] == pytest.approx(14.5 / 15 - 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("name", TRUTHS)
def test_coverage(name):
    law, known = TRUTHS[name]
    least = LEVEL - 4 * math.sqrt(LEVEL * (1 - LEVEL) / RUNS)
    for measure, value in known().items():
        held = np.mean([r[measure].low <= value <= r[measure].high for r in simulated(law)])
        assert held >= least, (measure, value, held)


# ---------------------------------------------------------------- a statistic of one's own

ece = calibrant.expected_calibration_error


def rate_of(table):
    return table.positives.sum() / table.counts.sum()


def brier_of(table):
    return table.sums.square_residuals / table.total


@pytest.mark.parametrize("weights", [None, UNEVEN[:300]])
def test_consistency_of_the_ece_is_the_report_s(weights):
    p, y = draw(50, 300, 1.2)
    table = ReliabilityTable.from_scores(p, y, weights=weights)
    found = consistency(table, ece, n_resamples=99, rng=7)
    estimate = evaluate(p, y, weights=weights, n_resamples=99, rng=7)["ece"]
    assert found.p_value == estimate.p_value
    assert 0.01 < found.p_value < 1
    assert (found.value, found.floor.mean, found.floor.upper) == near(
        (estimate.value, estimate.floor.mean, estimate.floor.upper)
    )
    assert math.isnan(found.low)
    assert found.method == "consistency test, 99 resamples"


def test_consistency_of_the_standardised_maximum_is_the_report_s():
    p, y = draw(56, 400, 1.4)
    table, members = ReliabilityTable.from_scores(p, y), uniform_members(p, 10)
    sums = [(abs(S), V0) for n, _, S, _, V0 in bin_sums(p, y, np.ones(400), members) if n >= 30]
    assert standardised_maximum(table, 10) == near(max(S / math.sqrt(max(V0, 1)) for S, V0 in sums))
    found = consistency(table, functools.partial(standardised_maximum, n_bins=10), n_resamples=99)
    assert found.p_value == evaluate(p, y, n_bins=10, n_resamples=99)["mce"].p_value
    with bad(match="table: expected a bin with at least 30 rows, got none; pass fewer bins or more rows"):
        standardised_maximum(table, 100)
    with bad(match="n_bins: expected an integer from 1"):
        standardised_maximum(table, 0)


def test_consistency_pools_large_tables_and_keeps_their_value():
    p, y = draw(51, 6000)
    table = ReliabilityTable.from_scores(p, y)
    seen = []

    def statistic(own):
        seen.append(len(own))
        return ece(own, n_bins=7)  # whose edges lie within cells

    found = consistency(table, statistic, n_resamples=39)
    assert found.value == near(ece(p, y, n_bins=7))
    assert max(seen[:-1]) <= 4396
    assert found.p_value == evaluate(p, y, n_bins=7, n_resamples=39)["ece"].p_value  # by the same cells


def test_bootstrap_of_a_mean_is_its_normal_interval():
    p, y = draw(52, 400, 2.0)
    B, table = 1000, ReliabilityTable.from_scores(p, y)
    for statistic, scores in ((rate_of, y), (brier_of, (p - y) ** 2)):
        found = bootstrap(table, statistic, level=LEVEL, n_resamples=B)
        error = scores.std() / 20
        assert found.value == near(scores.mean())
        assert found.details["standard_error"] == pytest.approx(error, rel=4 / math.sqrt(2 * B))
        assert found.details["bias"] == pytest.approx(0, abs=4 * error / math.sqrt(B))
        # The quantile of B draws is off by 2.1 / sqrt(B) standard errors; the mean of 400 is normal to a twentieth.
        for end, sign in ((found.low, -1), (found.high, 1)):
            assert end == pytest.approx(scores.mean() + sign * Z * error, abs=(4 * 2.1 / math.sqrt(B) + 0.05) * error)
        assert (found.method, found.level) == ("percentile bootstrap, 1,000 resamples", LEVEL)
        assert "warning" not in found.details


def test_bootstrap_of_the_ece_says_that_it_is_not_valid():
    p, y = draw(53, 400)
    found = bootstrap(ReliabilityTable.from_scores(p, y), ece, n_resamples=99)
    assert found.method == "NOT VALID: percentile bootstrap, 99 resamples"
    assert "covers the true value too rarely" in found.details["warning"]
    assert found.details["bias"] > found.details["standard_error"]


def test_whole_weights_are_rows_for_the_bootstrap():
    p, y = draw(54, 60)
    w = np.random.default_rng(55).integers(1, 4, 60)
    weighted = ReliabilityTable.from_scores(p, y, weights=w)
    repeated = ReliabilityTable.from_scores(np.repeat(p, w), np.repeat(y, w))
    for method in (bootstrap, consistency):
        first, second = (method(table, rate_of, n_resamples=50) for table in (weighted, repeated))
        assert repr(first).replace("n=60", "n=?") == repr(second).replace(f"n={w.sum()}", "n=?")


def test_bootstrap_of_a_mean_of_tied_scores_with_uneven_weights():
    rng = np.random.default_rng(3)
    p = np.repeat(rng.uniform(size=300), 5)
    y, w = (rng.uniform(size=len(p)) < 0.2).astype(int), rng.gamma(1.0, 1.0, len(p))
    found = bootstrap(ReliabilityTable.from_scores(p, y, weights=w), rate_of, n_resamples=200)
    assert abs(found.details["bias"]) < 4 * found.details["standard_error"] / math.sqrt(200)
    assert "warning" not in found.details


def test_one_replicate_is_enough_for_an_answer():
    table = ReliabilityTable.from_scores([0.3, 0.6], [0, 1])
    assert consistency(table, ece, n_resamples=1).p_value in (0.5, 1.0)
    found = bootstrap(table, ece, n_resamples=1)
    assert found.low == found.high


@pytest.mark.parametrize("method", [consistency, bootstrap])
def test_errors_about_own_statistics(method):
    table = ReliabilityTable.from_scores([0.3, 0.6], [0, 1])
    with bad(match="table: expected a ReliabilityTable, got a list; make one with ReliabilityTable.from_predictions"):
        method([0.3, 0.6], ece)
    with bad(match="table: expected at least one row, got an empty table"):
        method(ReliabilityTable(*np.zeros((3, 0)), n=0), ece)
    with bad(match="statistic: expected a callable, got 'ece'; pass a function of a table"):
        method(table, "ece")
    with bad(match="statistic: expected a function that returns a number, got None"):
        method(table, lambda _: None)
    with bad(match="statistic: expected a function that returns a number, got nan; return a float for every table"):
        method(table, lambda _: math.nan)
    with bad(match="n_resamples: expected an integer from 1 to 10,000,000, got 0; pass 1000"):
        method(table, ece, n_resamples=0)
    with bad(match="level: expected a number from 0.5 to below 1, got 95; pass a share such as 0.95, not percent"):
        method(table, ece, level=95)
    with bad(match="rng: expected a non-negative integer or a numpy.random.Generator, got -1; pass a seed such as 0"):
        method(table, ece, rng=-1)
    with bad(match="level: .*got None"):
        method(table, ece, level=None)


# ---------------------------------------------------------------- the noise floor before any data


@pytest.mark.slow
@pytest.mark.parametrize(("law", "a", "b"), [("uniform", 1, 1), ("confident", 8, 1), ("rare", 1, 20)])
@pytest.mark.parametrize("n", [3_000, 5_000, 7_999, 100_000])
def test_the_floor_of_rows_of_any_number_is_that_of_the_law(law: str, a: float, b: float, n: int) -> None:
    # E|S_b| is nearly sqrt(2 v_b / pi); v_b = n times the integral of p (1 - p) over the bin, by the beta functions:
    # p (1 - p) times a density of Beta(a, b) is ab / ((a + b)(a + b + 1)) times one of Beta(a + 1, b + 1).
    ends = special.betainc(a + 1, b + 1, np.arange(16) / 15)
    v = n * a * b / ((a + b) * (a + b + 1)) * np.diff(ends)
    expected = np.sqrt(2 * v / np.pi).sum() / n
    # The formula is for bins of many rows: those with few add less. 1,000 draws: 1 % of error, so 4 % is four of them.
    found = calibrant.inference.noise_floor(n, scores=law).floors["ece"].mean
    assert found == pytest.approx(expected, rel=0.04)


def test_scores_just_above_zero_bound_nothing_and_warn_of_nothing(recwarn) -> None:
    """The variance that calibration implies is 1e-311 there: nothing can be divided by it."""
    p = np.concatenate([[2.7e-311, 3.8e-311, 4.3e-311], np.linspace(0.08, 0.97, 17)])
    y = np.concatenate([[0, 0, 1], np.arange(17) % 2])
    for clusters in (None, np.arange(20) // 2, np.arange(20) // 4):
        ece = calibrant.evaluate(p, y, clusters=clusters, measures=["ece"])["ece"]
        assert ece.value < ece.high < 1
    assert not recwarn.list


# ---------------------------------------------------------------- scores that hardly vary


@pytest.mark.covering
@pytest.mark.parametrize("offset", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("design", ["rows", "whole", "fractions"])
def test_scores_that_hardly_vary_have_intervals(offset: float, design: str, recwarn) -> None:
    """An untrained model gives such scores. Each interval holds its value and is in range, of rows and of sketches."""
    for exponent in (0, 4, 8, 9, 10, 12, 16):
        n = 2 if exponent in (9, 12) else 30
        rng = np.random.default_rng([exponent, 1])
        p = np.clip(offset + rng.normal(0, 10.0**-exponent, n), 0, 1)
        y = rng.integers(0, 2, n)
        weights = {"whole": rng.integers(1, 4, n), "fractions": rng.uniform(0.5, 2, n)}.get(design)
        sketch = sketch_of(p, y, weights=weights)
        for report in (
            evaluate(p, y, weights=weights, n_resamples=0, profile="all"),
            evaluate(sketch, n_resamples=0, profile="all"),
        ):
            for name, estimate in report.items():
                if math.isfinite(estimate.value) and math.isnan(estimate.low):
                    assert "no interval" in estimate.method, name
                elif name != "debiased_square":  # a square below 0 is outside
                    outside = estimate.low > estimate.value or estimate.high < estimate.value
                    assert not outside, name
    assert not recwarn.list


@pytest.mark.covering
@pytest.mark.parametrize("offset", [0.5, 0.25, 0.9])
@pytest.mark.parametrize("exponent", [1, 4, 8, 10, 13])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_variance_of_brier_scores_that_hardly_vary(offset: float, exponent: int, weighted: bool) -> None:
    """The half width against exact rational arithmetic.

    Each score is known to 2^-53, the losses vary by 10^-k or more: relative to that the sums around the mean are off by
    some 2^-53 10^k, 0.1 % at k = 13 with all constants; differences of mean squares are wrong from k = 8.
    """
    rng = np.random.default_rng(exponent)
    n = 12
    p, y = offset + rng.normal(0, 10.0**-exponent, n), rng.integers(0, 2, n)
    w = rng.integers(1, 9, n) / 4 if weighted else np.ones(n)
    exact_p, exact_w = [Fraction(float(x)) for x in p], [Fraction(float(x)) for x in w]
    whole, square = sum(exact_w), sum(x * x for x in exact_w)
    losses = [(s - int(k)) ** 2 for s, k in zip(exact_p, y, strict=True)]
    mean = sum(a * x for a, x in zip(exact_w, losses, strict=True)) / whole
    seen = sum(a * a * (x - mean) ** 2 for a, x in zip(exact_w, losses, strict=True)) / square
    implied = sum(
        a * a * ((1 - s) * (s**2 - mean) ** 2 + s * ((1 - s) ** 2 - mean) ** 2)
        for a, s in zip(exact_w, exact_p, strict=True)
    )
    rows = whole**2 / square
    likely = [
        sum(exact_w[k] for k in range(n) if (p[k] > 0.5) != y[k]),
        sum(a * min(s, 1 - s) for a, s in zip(exact_w, exact_p, strict=True)),
    ]
    unlikely = 2 * rows * max(likely) / whole
    variance = max(seen, (unlikely * seen + 5 * implied / square) / (unlikely + 5))
    half = stats.norm.isf(0.025) * math.sqrt(variance / (rows - 1))
    brier = evaluate(p, y, weights=w if weighted else None, n_resamples=0, measures=["brier"])["brier"]
    # The ends are rounded at the size of the value; one of them may be that of the range.
    assert max(brier.high - brier.value, brier.value - brier.low) == pytest.approx(
        half, rel=max(1e-6, 2.0**-44 * 10.0**exponent), abs=2.0**-52
    )


@pytest.mark.parametrize("start", [-2.0, 0.0, 1.0])
def test_the_slope_of_log_odds_that_hardly_vary(start: float) -> None:
    """Slope and ends grow as the log-odds shrink towards one value: times the spread they have a limit.

    At a spread s they are off the limit by a share s or so; log-odds known to 2^-52 add 2^-52 / s.
    """
    z, y = np.linspace(-1, 1, 40), np.random.default_rng(0).integers(0, 2, 40)

    def scaled(spread: float) -> np.ndarray:
        p = special.expit(start + spread * z)
        slope = evaluate(p, y, n_resamples=0, measures=["calibration_slope"])["calibration_slope"]
        return spread * np.array([slope.value, slope.low, slope.high])

    limit = scaled(1e-5)
    for spread in (1e-7, 1e-9, 1e-11):
        np.testing.assert_allclose(scaled(spread), limit, rtol=1e-3 + 2.0**-48 / spread)


def test_an_untrained_model_of_the_issue() -> None:
    """Before: a math domain error, from a variance below 0."""
    rng = np.random.default_rng(0)
    p, y = 0.5 + rng.normal(0, 1e-10, 2), rng.integers(0, 2, 2)
    brier = evaluate(p, y, n_resamples=0)["brier"]
    assert brier.low <= brier.value <= brier.high
    assert brier.value == pytest.approx(0.25, abs=1e-9)


@pytest.mark.parametrize("notion", ["positive", "top-label"])
@pytest.mark.parametrize("high", [0.99, 0.8])
def test_intervals_without_an_error_allow_for_errors_that_were_not_seen(high: float, notion: str) -> None:
    """60 rows, scores ``high`` and 1 - ``high``, all outcomes as predicted: 1 error in 100 rows may well not occur.

    The scores also tell what the mean scores are if they are right: intervals contain that too.
    """
    y = np.arange(60) % 2
    p = np.where(y == 1, high, 1 - high)
    report = evaluate(p, y, notion=notion)
    for error in (0.01, 1 - high if high > 0.9 else 0.03):
        brier = (1 - error) * (1 - high) ** 2 + error * high**2
        loss = -(1 - error) * math.log(high) - error * math.log(1 - high)
        truth = {"brier": brier, "nll": loss, "brier_skill": 1 - brier / 0.25}
        if notion == "positive":
            truth |= {"discrimination": 0.25 - error * (1 - error)}
        for name, value in truth.items():
            assert report[name].low <= value <= report[name].high, (name, error)


def test_without_an_error_the_discrimination_is_as_uncertain_as_few_clusters_are() -> None:
    """Each cluster has as many outcomes 0 as 1: the base rate does not vary, but errors may be in one cluster."""
    y = np.arange(200) % 2
    report = evaluate(np.where(y == 1, 0.99, 0.01), y, clusters=np.arange(200) // 20, measures=["discrimination"])
    share = 1 - 0.025 ** (1 / 10)
    assert report["discrimination"].low == near(0.25 - share * (1 - share))


@pytest.mark.slow
@pytest.mark.parametrize("error", [0.01, 0.03])
@pytest.mark.parametrize("n", [60, 200])
def test_intervals_of_confident_scores_hold_the_truth(n: int, error: float) -> None:
    """Calibrated scores of ``error`` and its complement: in many samples no error occurs at all.

    With fewer than 15 expected errors, as here, results are flagged: sums of few errors are skewed.
    """
    rng, measures = np.random.default_rng(n), ["brier", "nll", "brier_skill", "log_loss_skill", "discrimination"]
    brier, loss = error * (1 - error), -(1 - error) * math.log(1 - error) - error * math.log(error)
    truth = [brier, loss, 1 - brier / 0.25, 1 - loss / math.log(2), 0.25 - brier]
    held = np.zeros(len(measures))
    for _ in range(300):
        likely, wrong = rng.random(n) < 0.5, rng.random(n) < error
        report = evaluate(np.where(likely, 1 - error, error), likely ^ wrong, measures=measures)
        held += [report[name].low <= value <= report[name].high for name, value in zip(measures, truth, strict=True)]
    assert (held / 300 > 0.9 - 3 * math.sqrt(0.9 * 0.1 / 300)).all(), held
