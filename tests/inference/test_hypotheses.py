"""The tests of calibration against published numbers, independent formulas, enumerations and simulations.

Tolerances. Two ways to one sum of some hundred terms below 1 agree to about 1e-13; `CLOSE` is 1e-11, relative. Shares
of R simulated rejections are held to 4 binomial standard deviations, which one correct test in 16,000 misses; seeds are
fixed, so a test that passes goes on passing.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from calibrant import ReliabilityTable
from calibrant.errors import InputError
from calibrant.inference.hosmer_lemeshow import hosmer_lemeshow_test
from calibrant.inference.hypotheses import cox_test, ks_test, kuiper_test, spiegelhalter_test
from calibrant.inference.t_cal import t_cal_test
from calibrant.measures.cumulative.cumulative import brownian_range_sf
from calibrant.measures.line.line import cox_fit, log_odds

CLOSE = 1e-11

external = functools.partial(hosmer_lemeshow_test, sample="external")
TESTS = {
    "spiegelhalter": spiegelhalter_test,
    "hosmer-lemeshow": external,
    "hosmer-lemeshow, in-sample": functools.partial(hosmer_lemeshow_test, sample="in-sample", n_groups=5),
    "ks": ks_test,
    "kuiper": kuiper_test,
    "cox": cox_test,
    "t-cal": functools.partial(t_cal_test, n_resamples=100),
}
every = pytest.mark.parametrize("test", TESTS.values(), ids=TESTS)
held_out = pytest.mark.parametrize("name", [name for name in TESTS if "in-sample" not in name])
bad = functools.partial(pytest.raises, InputError)

# statistics.md, section 6
TEN = [0, 0.05, 0.1, 0.2, 0.2, 0.35, 0.5, 0.75, 0.9, 1], [0, 0, 1, 0, 1, 0, 1, 1, 1, 0]


def draw(rng, n, slope=1.0, ends=(2, 2)):
    """Scores of a beta law, with outcomes whose log-odds are the slope times theirs."""
    p = np.clip(rng.beta(*ends, n), 1e-6, 1 - 1e-6)
    q = p**slope / (p**slope + (1 - p) ** slope)
    return p, (rng.uniform(size=n) < q).astype(int)


def tied(seed, n=300):
    """Scores with many ties, none of them 0 or 1, and outcomes that they predict badly."""
    rng = np.random.default_rng(seed)
    p = rng.integers(1, 40, n) / 40
    return p, (rng.uniform(size=n) < 0.2 + 0.5 * p).astype(int)


def same(first, second, close=None):
    """Whether two results are the same, to the bit or closely; the numbers of rows may differ."""
    if close is None:
        assert (first.statistic, first.p_value, first.method) == (second.statistic, second.p_value, second.method)
        assert repr(first.details) == repr(second.details)  # NaN is like NaN
    else:
        assert first.statistic == pytest.approx(second.statistic, rel=close)
        assert first.p_value == pytest.approx(second.p_value, rel=close, abs=1e-15)


# ---------------------------------------------------------------- laws of all tests


@every
def test_the_order_of_the_rows_plays_no_part(test):
    p, y = tied(1)
    order = np.random.default_rng(2).permutation(len(p))
    same(test(p, y), test(p[order], y[order]))


@every
def test_a_weight_of_two_is_the_row_twice(test):
    p, y = tied(3)
    w = np.random.default_rng(4).integers(0, 4, len(p))
    same(test(p, y, weights=w), test(np.repeat(p, w), np.repeat(y, w)))


@every
def test_equal_weights_of_any_size_are_none(test):
    p, y = tied(5)
    same(test(p, y, weights=np.full(len(p), 0.3)), test(p, y), close=CLOSE)


@every
def test_a_table_is_its_arrays(test):
    p, y = tied(6)
    same(test(ReliabilityTable.from_scores(p, y)), test(p, y))
    w = np.random.default_rng(7).uniform(0.5, 2, len(p))
    same(test(ReliabilityTable.from_scores(p, y, weights=w)), test(p, y, weights=w))


@every
def test_notions_logits_and_ignored_rows_are_those_of_the_measures(test):
    p, y = tied(8)
    two, classes = np.stack([1 - p, p], axis=1), np.where(y == 1, 1, 0)
    top = np.maximum(1 - p, p), (classes == two.argmax(axis=1)).astype(int)
    same(test(two, classes), test(*top))
    same(test(p, y, notion="top-label"), test(np.maximum(p, 1 - p), (p >= 0.5) == y))
    same(test(log_odds(p), y, logits=True), test(p, y), close=1e-9)
    ignored = np.append(y, -1)
    same(test(np.append(p, 0.5), ignored, ignore_index=-1), test(p, y))


@every
def test_a_p_value_is_a_probability_and_the_result_says_what_it_is(test):
    result = test(*tied(9))
    assert 0 <= result.p_value <= 1
    assert result.n == 300
    assert result.method


@pytest.mark.slow
@held_out
def test_size_under_calibration(name):
    runs, level = 600, 0.1
    rng = np.random.default_rng(10)
    # Of its own draws too: with one seed for all, the size would be that of the one quantile it happens to draw.
    test = functools.partial(t_cal_test, n_resamples=39, rng=rng) if name == "t-cal" else TESTS[name]
    rejected = np.mean([test(*draw(rng, 400)).p_value <= level for _ in range(runs)])
    # From 400 points of a Brownian path its extremes look smaller, by .58 / sqrt(400) of about 2 for each.
    short = 0.04 if name in ("ks", "kuiper") else 0.0
    error = 4 * math.sqrt(level * (1 - level) / runs)
    assert level - short - error <= rejected <= level + error


@pytest.mark.slow
@held_out
def test_size_with_weights_that_are_not_whole(name):
    """Weights of unequal sizes leave the size as it is: they are not taken for numbers of rows."""
    runs, level = 200, 0.1
    rng = np.random.default_rng(11)
    test = functools.partial(t_cal_test, n_resamples=39, rng=rng) if name == "t-cal" else TESTS[name]
    rejected = []
    for _ in range(runs):
        p, y = draw(rng, 400)
        rejected.append(test(p, y, weights=rng.gamma(1.0, 10.0, len(p)) + 0.01).p_value <= level)
    assert np.mean(rejected) <= level + 4 * math.sqrt(level * (1 - level) / runs)
    assert np.mean(rejected) >= 0.02


@every
def test_power_against_a_tilt(test):
    p, y = draw(np.random.default_rng(12), 2000, slope=1.6)
    assert test(p, y).p_value < 0.01
    p, y = draw(np.random.default_rng(13), 2000, slope=0.6)
    assert test(p, y).p_value < 0.01


# ---------------------------------------------------------------- Spiegelhalter's z


def test_spiegelhalter_of_the_ten_points():
    result = spiegelhalter_test(*TEN)
    assert result.statistic == pytest.approx(2.97491, abs=5e-6)
    assert result.p_value == 0  # the score of the last point is 1, and its outcome 0
    p_value = result.details["p_value_of_statistic"]
    assert p_value == pytest.approx(2 * stats.norm.sf(result.statistic), rel=1e-12)


def test_spiegelhalter_is_its_formula():
    p, y = tied(20)
    w = np.random.default_rng(21).uniform(0.1, 3, len(p))
    for weights, own in ((None, np.ones(len(p))), (w, w)):
        top = np.sum(own * (y - p) * (1 - 2 * p))
        z = top / np.sqrt(np.sum(own**2 * (1 - 2 * p) ** 2 * p * (1 - p)))
        assert spiegelhalter_test(p, y, weights=weights).statistic == pytest.approx(z, rel=CLOSE)


def test_spiegelhalter_changes_sign_between_too_extreme_and_too_timid():
    rng = np.random.default_rng(22)
    assert spiegelhalter_test(*draw(rng, 2000, slope=0.6)).statistic > 3
    assert spiegelhalter_test(*draw(rng, 2000, slope=1.6)).statistic < -3


@pytest.mark.parametrize("weights", [None, [0.3, 0.7, 1.1, 0.9]])
@pytest.mark.parametrize("grid", [None, "standard"])
@pytest.mark.parametrize("test", [spiegelhalter_test, ks_test, kuiper_test])
def test_without_variance_only_the_impossible_counts(test, grid, weights):
    def result(p, y):
        return test(ReliabilityTable.from_scores(p, y, weights=weights, grid=grid))

    right = result([0.0, 0, 1, 1], [0, 0, 1, 1])
    assert (right.statistic, right.p_value) == (0, 1)
    wrong = result([0.0, 0, 1, 1], [0, 1, 1, 1])
    assert (wrong.statistic, wrong.p_value) == (math.inf, 0)


@pytest.mark.parametrize("weights", [None, [0.3, 0.9, 0.6, 0.4, 0.5]])
def test_spiegelhalter_has_nothing_to_say_about_halves(weights):
    """With these weights the numerator on a grid is -1e-16: rounding, and no evidence."""
    table = ReliabilityTable.from_scores([0.5] * 5, [1, 1, 1, 0, 0], weights=weights, grid="standard")
    assert spiegelhalter_test(table).statistic == 0


def test_spiegelhalter_on_a_grid():
    p, y = draw(np.random.default_rng(23), 20_000, slope=0.9, ends=(0.5, 0.5))
    table = ReliabilityTable.from_scores(p, y)
    # The variance at the cells' means misses curvature within cells of width 4e-4: some 1e-7 of it.
    assert spiegelhalter_test(table.on_grid("standard")).statistic == pytest.approx(
        spiegelhalter_test(table).statistic, rel=1e-5
    )


# ---------------------------------------------------------------- Hosmer and Lemeshow


def test_hosmer_lemeshow_is_its_formula():
    p, y = draw(np.random.default_rng(30), 500)
    groups = np.array_split(np.argsort(p), 10)
    observed = np.array([y[g].sum() for g in groups])
    expected = np.array([p[g].sum() for g in groups])
    statistic = np.sum((observed - expected) ** 2 / (expected * (1 - expected / 50)))
    for sample, freedom in (("external", 10), ("in-sample", 8)):
        result = hosmer_lemeshow_test(p, y, sample=sample)
        assert result.statistic == pytest.approx(statistic, rel=CLOSE)
        assert result.p_value == pytest.approx(stats.chi2.sf(statistic, freedom), rel=1e-9)
        assert result.details["degrees_of_freedom"] == freedom
        assert result.details["observed"] == tuple(observed)
        assert result.details["expected"] == pytest.approx(expected, rel=CLOSE)
        assert result.details["counts"] == (50.0,) * 10
        assert sample in result.method


def test_hosmer_lemeshow_with_weights_is_its_formula():
    p, y = draw(np.random.default_rng(31), 60)
    w = np.random.default_rng(32).uniform(0.2, 4, 60)
    order = np.argsort(p)
    place = np.cumsum(w[order]) - w[order] / 2
    group = np.minimum(np.floor(4 * place / w.sum()).astype(int), 3)
    statistic = 0.0
    for g in range(4):
        rows = order[group == g]
        mean, n = np.average(p[rows], weights=w[rows]), w[rows].sum() ** 2 / (w[rows] ** 2).sum()
        statistic += n * (np.average(y[rows], weights=w[rows]) - mean) ** 2 / (mean * (1 - mean))
    assert external(p, y, n_groups=4, cuts="mass", weights=w).statistic == pytest.approx(statistic, rel=CLOSE)


def of_edges(p, y, edges):
    """The counts, outcomes and statistic of groups (a, b] between edges, the first one with its lower edge."""
    edges = np.unique(edges)  # sorts
    pairs = zip([-1, *edges[1:]], edges[1:], strict=False)
    groups = [(p > low) & (p <= high) for low, high in pairs]
    parts = [(g.sum(), y[g].sum(), p[g].sum()) for g in groups if g.any()]
    assert sum(n for n, _, _ in parts) == len(p)
    return (
        [n for n, _, _ in parts],
        [o for _, o, _ in parts],
        sum((o - e) ** 2 / (e * (1 - e / n)) for n, o, e in parts),
    )


@pytest.mark.covering
@pytest.mark.parametrize("n_groups", [2, 3, 7, 10, 40])
@pytest.mark.parametrize("n", [61, 300])
@pytest.mark.parametrize("levels", [None, 12, 40])
def test_hosmer_lemeshow_cuts_at_the_quantiles_of_r(n_groups, n, levels):
    """Quantiles of type 7 by NumPy; scores of few levels repeat cuts, at the lowest score, too."""
    rng = np.random.default_rng([n, n_groups, levels or 0])
    p = rng.beta(0.6, 2, n) if levels is None else (rng.binomial(levels, 0.1, n) + 1) / 64
    y = (rng.random(n) < p**0.7).astype(int)
    counts, observed, statistic = of_edges(p, y, np.quantile(p, np.arange(n_groups + 1) / n_groups, method="linear"))
    result = external(p, y, n_groups=n_groups)
    assert result.details["counts"] == tuple(counts)
    assert result.details["observed"] == tuple(observed)
    assert result.statistic == pytest.approx(statistic, rel=CLOSE)
    assert result.p_value == pytest.approx(stats.chi2.sf(statistic, len(counts)), rel=1e-9)


def test_hosmer_lemeshow_cuts_weighted_rows_as_repeated_ones():
    """Whole weights repeat rows; halves are the limit of many equal rows, which 2,000 of them reach here."""
    p, y = tied(34, 80)
    w = np.random.default_rng(35).integers(0, 5, len(p))
    repeated = external(np.repeat(p, w), np.repeat(y, w), n_groups=6)
    assert external(p, y, n_groups=6, weights=w).details["counts"] == repeated.details["counts"]
    many = external(np.repeat(p, 1000 * w), np.repeat(y, 1000 * w), n_groups=6).details["counts"]
    halves = external(p, y, n_groups=6, weights=w / 2)
    assert halves.details["observed"] == tuple(np.add.reduceat(*by_counts(p, y, w / 2, np.array(many) / 2000)))


def by_counts(p, y, w, counts):
    """The sums of outcomes of the sorted rows, and where groups of these weights begin."""
    order = np.argsort(p, kind="stable")
    first = np.searchsorted(np.cumsum(w[order]), np.cumsum(counts)[:-1] + 1e-9)
    return (w * y)[order], np.concatenate([[0], first])


@pytest.mark.parametrize("n_groups", [3, 10])
def test_hosmer_lemeshow_cuts_of_equal_width(n_groups):
    p, y = draw(np.random.default_rng(36), 200, ends=(0.5, 2))
    counts, observed, statistic = of_edges(p, y, np.arange(n_groups + 1) / n_groups)
    result = external(p, y, n_groups=n_groups, cuts="width")
    assert (result.details["counts"], result.details["observed"]) == (tuple(counts), tuple(observed))
    assert result.statistic == pytest.approx(statistic, rel=CLOSE)


def test_hosmer_lemeshow_of_equal_scores_has_one_group():
    for cuts in ("r", "mass", "width"):
        assert external([0.3] * 9, [0, 1, 0] * 3, cuts=cuts).details["counts"] == (9.0,)
    with bad(match=r"cuts.*one of 'r', 'mass', 'width'.*'quantile'"):
        external([0.3, 0.4], [0, 1], cuts="quantile")


@pytest.mark.slow
def test_hosmer_lemeshow_in_sample_size():
    """Scores fitted to the outcomes themselves: the chi-square law of G - 2, not of G."""
    rng, runs = np.random.default_rng(33), 200
    rejected = {"in-sample": 0, "external": 0}
    for _ in range(runs):
        p, y = draw(rng, 400)
        table = ReliabilityTable.from_scores(p, y)
        fit = cox_fit(table)
        fitted = 1 / (1 + np.exp(-fit.intercept - fit.slope * log_odds(p)))
        for sample in rejected:
            rejected[sample] += hosmer_lemeshow_test(fitted, y, sample=sample).p_value <= 0.1
    assert abs(rejected["in-sample"] / runs - 0.1) <= 4 * math.sqrt(0.09 / runs)
    assert rejected["external"] < rejected["in-sample"]


def test_hosmer_lemeshow_counts_the_groups_that_are_filled():
    result = external([0.2] * 5 + [0.7] * 5, [0, 1, 0, 0, 0, 1, 1, 1, 0, 1])
    assert result.details["counts"] == (5.0, 5.0)
    assert result.details["degrees_of_freedom"] == 2
    assert result.statistic == pytest.approx(0 + 0.25 / (3.5 * 0.3), rel=CLOSE)


@pytest.mark.parametrize("weights", [None, [0.3, 0.7, 1.1, 0.9]])
def test_hosmer_lemeshow_of_groups_without_doubt(weights):
    p = [0, 0, 1, 1]
    test = functools.partial(external, n_groups=2, cuts="width", weights=weights)
    right = test(p, [0, 0, 1, 1])
    assert (right.statistic, right.p_value) == (0, 1)
    for outcomes in ([0, 1, 1, 1], [0, 0, 0, 1]):
        wrong = test(p, outcomes)
        assert (wrong.statistic, wrong.p_value) == (math.inf, 0)


def test_hosmer_lemeshow_beyond_the_range_of_numbers():
    assert external([5e-324] * 3, [0, 1, 0]).statistic == math.inf


# ---------------------------------------------------------------- Kolmogorov-Smirnov and Kuiper


def test_cumulative_errors_of_the_ten_points():
    p = np.array(TEN[0])
    deviation = math.sqrt(np.sum(p * (1 - p)))
    for test, error in ((ks_test, 0.195), (kuiper_test, 0.200)):
        result = test(*TEN)
        assert result.details["error"] == pytest.approx(error, abs=1e-12)
        assert result.statistic == pytest.approx(10 * error / deviation, rel=CLOSE)


def test_the_p_values_are_those_of_brownian_motion():
    p, y = draw(np.random.default_rng(43), 500, slope=0.8)
    ks, kuiper = ks_test(p, y), kuiper_test(p, y)
    odd = 2 * np.arange(100) + 1
    below = np.sum((-1.0) ** np.arange(100) / odd * np.exp(-((odd * math.pi / ks.statistic) ** 2) / 8)) * 4 / math.pi
    assert ks.p_value == pytest.approx(1 - below, abs=1e-12)
    assert kuiper.p_value == pytest.approx(integrate.quad(feller, kuiper.statistic, 12)[0], abs=1e-9)
    assert 0.001 < ks.p_value < 0.9


def test_cumulative_statistics_are_their_formulas():
    p, y = draw(np.random.default_rng(40), 200)
    w = np.random.default_rng(41).uniform(0.1, 3, len(p))
    order = np.argsort(p)
    for weights, own in ((None, np.ones(len(p))), (w, w)):
        sums = np.concatenate([[0], np.cumsum((own * (y - p))[order])])
        deviation = np.sqrt(np.sum(own**2 * p * (1 - p)))
        ks, kuiper = ks_test(p, y, weights=weights), kuiper_test(p, y, weights=weights)
        assert ks.statistic == pytest.approx(np.abs(sums).max() / deviation, rel=CLOSE)
        assert kuiper.statistic == pytest.approx(np.ptp(sums) / deviation, rel=CLOSE)


def test_ties_are_one_step_of_the_sums():
    assert ks_test([0.5] * 4, [1, 1, 0, 0]).p_value == 1
    assert kuiper_test([0.5] * 4, [1, 0, 0, 1]).statistic == 0


def feller(x):
    """The density of the range, in the form that Feller prints."""
    k = np.arange(1, 200)
    return 8 * np.sum((-1.0) ** (k + 1) * k**2 * stats.norm.pdf(k * x))


@pytest.mark.parametrize("x", [0.4, 1, 1.4, 1.4999, 1.5001, 2, 3, 5])
def test_the_range_of_brownian_motion_integrates_its_density(x):
    area = integrate.quad(feller, x, 12, epsabs=1e-13)[0]
    assert brownian_range_sf(x) == pytest.approx(area, abs=1e-11)


def test_the_range_of_brownian_motion_keeps_its_digits_and_its_ends():
    assert brownian_range_sf(8.0) == pytest.approx(8 * stats.norm.sf(8.0), rel=1e-12)
    assert brownian_range_sf(math.inf) == 0
    assert [brownian_range_sf(x) for x in (-1.0, 0.0, 1e-300, 0.05, 0.1)] == [1] * 5
    tails = [brownian_range_sf(x) for x in np.linspace(0.5, 6, 500)]
    assert np.all(np.diff(tails) < 0)


def test_the_moments_of_the_range_of_brownian_motion():
    """E R = 2 sqrt(2 / pi), twice the mean of the maximum, and E R^2 = 4 log 2 (Feller 1951)."""
    mean = integrate.quad(brownian_range_sf, 0, 12, limit=200)[0]
    square = integrate.quad(lambda x: 2 * x * brownian_range_sf(x), 0, 12, limit=200)[0]
    assert mean == pytest.approx(2 * math.sqrt(2 / math.pi), abs=1e-9)
    assert square == pytest.approx(4 * math.log(2), abs=1e-9)


def test_the_range_of_simulated_paths():
    steps, runs = 2000, 2000
    walks = np.random.default_rng(42).standard_normal((runs, steps)).cumsum(axis=1) / math.sqrt(steps)
    ranges = np.maximum(walks.max(axis=1), 0) - np.minimum(walks.min(axis=1), 0)
    # Seen at n points, each extreme lies .5826 / sqrt(n) nearer (Asmussen, Glynn and Pitman 1995).
    ranges += 2 * 0.5826 / math.sqrt(steps)
    for x in (1.0, 1.5, 2.0, 2.5):
        tail = brownian_range_sf(x)
        assert np.mean(ranges > x) == pytest.approx(tail, abs=4 * math.sqrt(tail * (1 - tail) / runs) + 0.002)


# ---------------------------------------------------------------- Cox's recalibration


def likelihood(parameters, p, y, w):
    """The log likelihood by its definition, row by row."""
    q = 1 / (1 + np.exp(-(parameters[0] + parameters[1] * np.log(p / (1 - p)))))
    return np.sum(w * np.where(y == 1, np.log(q), np.log(1 - q)))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("slope", [0.5, 1.0, 1.7])
def test_cox_is_the_maximum_that_scipy_finds(slope, weighted):
    rng = np.random.default_rng(50)
    p, y = draw(rng, 200, slope)
    w = rng.uniform(0.2, 5, 200) if weighted else np.ones(200)
    result = cox_test(p, y, weights=w if weighted else None)
    found = optimize.minimize(lambda b: -likelihood(b, p, y, w), [0, 1], method="Nelder-Mead", tol=1e-12)
    large = optimize.minimize_scalar(lambda a: -likelihood([a, 1], p, y, w), tol=1e-12)
    # An optimiser that compares values near 100 knows the place of the maximum to some 1e-7.
    assert [result.details["intercept"], result.details["slope"]] == pytest.approx(list(found.x), abs=1e-6)
    assert result.details["in_the_large"] == pytest.approx(large.x, abs=1e-6)
    ratio = 2 * (-found.fun - likelihood([0, 1], p, y, w)) * w.sum() / np.sum(w**2)
    assert result.statistic == pytest.approx(ratio, abs=1e-9)
    assert result.p_value == pytest.approx(stats.chi2.sf(ratio, 2), rel=1e-8)
    assert result.details["degrees_of_freedom"] == 2
    assert result.details["separated"] is False


@pytest.mark.parametrize(("a", "b"), [(0.3, 0.7), (-1.0, 1.0), (2.0, -0.5), (0.0, 1.0), (-4.0, 25.0)])
def test_cox_finds_what_the_outcomes_were_made_with(a, b):
    """Outcomes weighted by their exact probabilities: the likelihood has its maximum at the truth, to rounding."""
    p = np.linspace(0.02, 0.98, 97)
    q = 1 / (1 + np.exp(-(a + b * log_odds(p))))
    p, y, w = np.tile(p, 2), np.repeat([1, 0], 97), np.concatenate([q, 1 - q])
    details = cox_test(p, y, weights=w).details
    assert (details["intercept"], details["slope"]) == pytest.approx((a, b), abs=1e-9)
    if b == 1:
        assert details["in_the_large"] == pytest.approx(a, abs=1e-12)


def test_cox_in_the_large_makes_the_mean_right():
    p, y = tied(51)
    a = cox_test(p, y).details["in_the_large"]
    assert np.mean(1 / (1 + np.exp(-a - log_odds(p)))) == pytest.approx(y.mean(), abs=1e-14)


@pytest.mark.parametrize("gap", [1e-4, 1e-8, 1e-12, 1e-15])
def test_cox_is_at_the_optimum_however_nearly_the_outcomes_are_separated(gap):
    rng = np.random.default_rng(52)
    p = np.concatenate([rng.uniform(0.1, 0.4, 30), rng.uniform(0.6, 0.9, 30), [0.5 - gap, 0.5 + gap]])
    y = np.append(p[:60] > 0.5, [True, False]).astype(int)
    details = cox_test(p, y).details
    x = np.log(p / (1 - p))
    lack = y - 1 / (1 + np.exp(-details["intercept"] - details["slope"] * x))
    assert not details["separated"]
    assert abs(lack.sum()) < 1e-12
    assert abs((lack * x).sum()) < 1e-12


@pytest.mark.parametrize("seed", [*range(5), 11, 42, 43, 51, 52, 91, 118, 132, 356, 377, 502, 589])
def test_cox_finds_the_optimum_under_weights_of_twelve_decades(seed):
    """The gradient vanishes: for some of these seeds the halving of steps is needed, for others the bound on them."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.01, 0.99, 12)
    y = (p > 0.5) ^ (rng.uniform(size=12) < 0.15)
    w = 10.0 ** rng.uniform(-6, 6, 12)
    fit = cox_fit(ReliabilityTable.from_scores(p, y.astype(int), weights=w))
    x = log_odds(p)
    if fit.separated:
        assert x[y].min() >= x[~y].max() or x[y].max() <= x[~y].min()
        return
    t = fit.intercept + fit.slope * x
    lack = w * np.where(y, np.exp(-np.logaddexp(0, t)), -np.exp(-np.logaddexp(0, -t)))
    # t is rounded at 1e-16 of its terms, which are below some thousand.
    assert abs(lack.sum()) <= CLOSE * np.sum(np.abs(lack))
    assert abs((lack * x).sum()) <= CLOSE * np.sum(np.abs(lack * x))


@pytest.mark.parametrize(
    ("p", "y", "slope", "supremum"),
    [
        ([0.1, 0.2, 0.7, 0.8], [0, 0, 1, 1], math.inf, 0.0),
        ([0.1, 0.2, 0.7, 0.8], [1, 1, 0, 0], -math.inf, 0.0),
        ([0.1, 0.4, 0.4, 0.4, 0.8], [0, 0, 0, 1, 1], math.inf, math.log(1 / 3) + 2 * math.log(2 / 3)),
        ([0.1, 0.4, 0.4, 0.8], [1, 1, 0, 0], -math.inf, 2 * math.log(1 / 2)),
        ([0.4, 0.4, 0.8], [0, 1, 1], math.inf, 2 * math.log(1 / 2)),
        ([0.1, 0.4, 0.8], [1, 1, 1], math.nan, 0.0),
        ([0.1, 0.4, 0.8], [0, 0, 0], math.nan, 0.0),
    ],
)
def test_cox_of_separated_outcomes(p, y, slope, supremum):
    result = cox_test(p, y)
    issued = likelihood([0, 1], np.array(p), np.array(y), 1.0)
    assert result.details["separated"] is True
    assert result.details["slope"] == pytest.approx(slope, nan_ok=True)
    assert math.isnan(result.details["intercept"])
    assert result.statistic == pytest.approx(2 * (supremum - issued), rel=CLOSE)
    assert result.p_value == pytest.approx(math.exp(supremum * -1 + issued), rel=CLOSE)
    large = result.details["in_the_large"]
    assert large == (math.inf if all(y) else -math.inf) if len(set(y)) == 1 else math.isfinite(large)


def test_cox_of_one_score_tests_its_level_alone():
    result = cox_test([0.3] * 10, [1] * 5 + [0] * 5)
    ratio = 2 * (10 * math.log(0.5) - 5 * math.log(0.3) - 5 * math.log(0.7))
    assert result.details["degrees_of_freedom"] == 1
    assert result.details["separated"] is False
    assert math.isnan(result.details["slope"])
    assert result.details["in_the_large"] == pytest.approx(math.log(7 / 3), rel=1e-12)
    assert result.statistic == pytest.approx(ratio, rel=CLOSE)
    assert result.p_value == pytest.approx(stats.chi2.sf(ratio, 1), rel=CLOSE)
    assert "1 degree of" in result.method


def test_cox_clips_what_it_is_told_to():
    p, y = np.array([0, 0.0005, 0.2, 0.4, 0.6, 0.9, 1, 1]), [0, 0, 1, 0, 1, 0, 1, 1]
    clipped = cox_test(p, y, eps=0.001)
    assert clipped.details["clipped"] == 4
    same(clipped, cox_test(np.clip(p, 0.001, 0.999), y), close=CLOSE)
    inside = cox_test(p[2:6], y[2:6], eps=1e-6)
    assert inside.details["clipped"] == 0
    same(inside, cox_test(p[2:6], y[2:6]))


def test_cox_on_a_grid():
    p, y = draw(np.random.default_rng(53), 20_000, slope=0.8)
    exact = cox_test(p, y)
    pooled = cox_test(ReliabilityTable.from_scores(p, y, grid="standard"))
    # A cell of width w moves a log-odds by w / p (1 - p), 1e-3 at random signs over thousands of cells.
    assert pooled.statistic == pytest.approx(exact.statistic, rel=1e-3)
    assert pooled.details["slope"] == pytest.approx(exact.details["slope"], abs=1e-4)


# ---------------------------------------------------------------- T-Cal


def pairs(p, y, n_bins):
    """T_m by its definition: the products of all pairs of residuals that share a bin."""
    bins, total = np.maximum(np.ceil(p * n_bins), 1), 0.0
    for b in set(bins):
        r = (y - p)[bins == b]
        total += sum(r[i] * r[j] for i, j in itertools.permutations(range(len(r)), 2)) / len(r)
    return total / len(p)


def test_t_cal_is_its_formula():
    p, y = tied(60, 40)
    result = t_cal_test(p, y, n_resamples=1)
    assert list(result.details["statistics"]) == [2, 4, 8, 16]
    n_bins = result.details["n_bins"]
    assert result.details["square_error"] == pytest.approx(pairs(p, y, n_bins), rel=1e-9)
    assert result.statistic == result.details["statistics"][n_bins] == max(result.details["statistics"].values())
    # All have the sign of their T_m, and the size of T_m over a standard deviation that is common to all outcomes.
    other = t_cal_test(p, 1 - y, n_resamples=1)
    for m, statistic in result.details["statistics"].items():
        assert statistic * pairs(p, 1 - y, m) == pytest.approx(other.details["statistics"][m] * pairs(p, y, m))


def test_t_cal_standardises_exactly():
    """Over all 2^8 outcomes of eight scores, with their probabilities, each statistic has mean 0 and variance 1."""
    p = np.array([0.1, 0.15, 0.2, 0.2, 0.6, 0.7, 0.9, 0.95])
    mean, square = np.zeros(2), np.zeros(2)
    for y in itertools.product([0, 1], repeat=8):
        chance = np.prod(np.where(y, p, 1 - p))
        values = np.array(list(t_cal_test(p, y, n_resamples=1).details["statistics"].values()))
        mean += chance * values
        square += chance * values**2
    assert mean == pytest.approx([0, 0], abs=1e-12)
    assert square == pytest.approx([1, 1], abs=1e-12)


def test_t_cal_chooses_its_scale():
    """A smooth error is seen by few bins, a wave of period 1/8 only by bins that are narrower."""
    rng = np.random.default_rng(61)
    p = rng.uniform(size=4000)
    tilted = t_cal_test(p, rng.uniform(size=4000) < 0.25 + 0.5 * p, n_resamples=50)
    wave = 0.2 * np.sign(np.sin(16 * np.pi * p)) * np.minimum(1, 4 * np.minimum(p, 1 - p))
    waved = t_cal_test(p, rng.uniform(size=4000) < p + wave, n_resamples=50)
    assert tilted.details["n_bins"] <= 8
    assert waved.details["n_bins"] == 16
    assert waved.p_value == pytest.approx(1 / 51)


@pytest.mark.parametrize(("n", "finest"), [(1, 2), (4, 2), (5, 2), (8, 4), (1000, 256), (40_000, 2048)])
def test_t_cal_goes_on_while_bins_hold_two_rows(n, finest):
    p = np.linspace(0.01, 0.99, n)
    assert max(t_cal_test(p, p > 0.5, n_resamples=1).details["statistics"]) == finest


def test_t_cal_without_pairs_or_doubt_has_nothing_to_say():
    for p, y in (([0.3], [1]), ([0.2, 0.7], [1, 0]), ([0.0, 0, 1, 1], [0, 0, 1, 1])):
        result = t_cal_test(p, y)
        assert (result.statistic, result.p_value) == (0, 1)
    impossible = t_cal_test([0.0, 0, 0, 1], [1, 1, 0, 1], n_resamples=99)
    assert (impossible.statistic, impossible.p_value) == (math.inf, 0)
    assert impossible.details["p_value_of_statistic"] == 0.01


def test_t_cal_on_many_scores_is_that_of_their_cells():
    p, y = draw(np.random.default_rng(62), 20_000)
    table = ReliabilityTable.from_scores(p, y)
    assert len(table) > 4396
    pooled = t_cal_test(table.on_grid("standard"), n_resamples=50)
    assert pooled.details["table"] == "standard grid"
    own = {key: value for key, value in pooled.details.items() if key != "table"}
    same(t_cal_test(table, n_resamples=50), replace(pooled, details=own))


def test_t_cal_draws_the_same_on_any_number_of_threads(monkeypatch):
    p, y = draw(np.random.default_rng(63), 500)
    results = []
    for threads in ("1", "2"):
        monkeypatch.setenv("CALIBRANT_NUM_THREADS", threads)
        results.append(t_cal_test(p, y, n_resamples=200))
    same(*results)


def test_t_cal_follows_its_seed():
    p, y = draw(np.random.default_rng(64), 300)
    assert t_cal_test(p, y, rng=1).p_value == t_cal_test(p, y, rng=1).p_value
    assert t_cal_test(p, y, rng=np.random.SeedSequence(1)).p_value == t_cal_test(p, y, rng=1).p_value
    generator = np.random.default_rng(1)
    assert len({t_cal_test(p, y, rng=generator).p_value for _ in range(4)}) > 1


# ---------------------------------------------------------------- errors


@every
def test_bad_predictions_are_refused(test):
    with bad(match="targets: expected an array, got None; pass the targets"):
        test([0.5, 0.6])
    with bad(match=r"probs: expected values in \[0, 1\], got 7 at row 1"):
        test([0.5, 7], [0, 1])
    with bad(match="targets: expected outcomes 0 or 1, got 2 at row 1"):
        test([0.5, 0.6], [0, 2])
    with bad(match="notion: expected 'positive' or 'top-label' for a table of one event, got 'classwise'"):
        test([[0.5, 0.5], [0.4, 0.6]], [0, 1], notion="classwise")
    table = ReliabilityTable.from_scores([0.5, 0.6], [0, 1])
    with bad(match="weights: expected no value with a ReliabilityTable"):
        test(table, weights=[1, 2])
    with bad(match="logits: expected no value with a ReliabilityTable"):
        test(table, logits=True)
    with bad(match="probs: expected a table with at least one row, got an empty table"):
        test(ReliabilityTable(table.scores[:0], table.counts[:0], table.positives[:0], 0))


def test_the_sample_must_be_said():
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'sample'"):
        hosmer_lemeshow_test([0.5], [1])
    with bad(match="sample: expected one of 'external', 'in-sample', got 'internal'; did you mean 'external'"):
        hosmer_lemeshow_test([0.5], [1], sample="internal")


@pytest.mark.parametrize("n_groups", [0, -3, 2.5, True, "10", 10**7])
def test_numbers_of_groups_that_do_not_exist(n_groups):
    with bad(match="n_groups: expected an integer from 1 to 1,000,000, got .*; pass the number of groups, such as 10"):
        external([0.5], [1], n_groups=n_groups)


def test_too_few_groups_for_a_sample_that_was_fitted():
    with bad(match="n_groups: expected at least 3 filled groups with sample='in-sample', got 2; if the scores"):
        hosmer_lemeshow_test([0.2, 0.2, 0.7, 0.7], [0, 1, 0, 1], sample="in-sample")


def test_certain_scores_need_eps():
    message = "probs: expected scores strictly between 0 and 1, got 0 or 1 in 3 rows; pass for example eps=1e-6"
    with bad(match=message):
        cox_test([0, 0.5, 1, 1], [0, 1, 1, 1])


@pytest.mark.parametrize("eps", [0, 0.0, 0.5, -1e-3, 1e-17, math.nan, "small", True])
def test_eps_that_cannot_clip(eps):
    with bad(match=r"eps: expected a number from 1e-15 to below 0.5, got .*; pass a small share such as 1e-6, or None"):
        cox_test([0.2, 0.5], [0, 1], eps=eps)


@pytest.mark.parametrize("n_resamples", [0, -1, 1.5, True, None, 10**8])
def test_numbers_of_resamples_that_do_not_exist(n_resamples):
    with bad(match="n_resamples: expected an integer from 1 to 10,000,000, got .*; pass 1000"):
        t_cal_test([0.2, 0.5], [0, 1], n_resamples=n_resamples)


@pytest.mark.parametrize("rng", [-1, 0.5, "seed", None])
def test_seeds_that_are_none(rng):
    with bad(match="rng: expected a non-negative integer or a numpy.random.Generator"):
        t_cal_test([0.2, 0.5], [0, 1], rng=rng)
