"""How cuts are tested: critical values, fixed sequences and bets against naive forms, and their promises simulated."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

from calibrant.statistics.e_processes import error_growth
from calibrant.table import ReliabilityTable
from calibrant.thresholds import rules
from calibrant.thresholds.betting import betting, risk_bound
from calibrant.thresholds.planning import PERIODS, POWER, audit_rows, planned_rows
from calibrant.thresholds.ranked import ClusterParts, Ranked, RankedSample
from tests.golden import record_thresholds as recorded

RECORDED = recorded.load()


@pytest.mark.parametrize("risk", [0.01, 0.05, 0.5])
def test_probabilities_are_binomial(risk: float) -> None:
    rows = np.array([1, 2, 59, 600, 90_000])
    for wrong in (0, 1, 2, 17):
        held = rows >= wrong
        found = rules.probability(np.full(held.sum(), wrong), rows[held], risk)
        assert found == pytest.approx(binom.cdf(wrong, rows[held], risk), rel=1e-11, abs=1e-300)
    assert rules.probability(np.array([3.0]), np.array([3.0]), risk) == 1


@pytest.mark.parametrize("risk", [0.01, 0.05, 0.2, 0.5])
@pytest.mark.parametrize("alpha", [0.05, 0.005])
@pytest.mark.parametrize("wrong", [0, 1, 2, 5])
def test_the_least_rows_are_least(risk: float, alpha: float, wrong: int) -> None:
    rows = rules.least_rows(risk, alpha, wrong=wrong)
    assert binom.cdf(wrong, rows, risk) <= alpha < binom.cdf(wrong, rows - 1, risk)


def test_the_first_cut_has_room_for_errors() -> None:
    assert [rules.first_rows(risk, 0.05) for risk in (0.1, 0.05, 0.02, 0.01)] == [51, 104, 263, 528]


def test_cuts_have_two_percent_more_rows_each_and_end_with_the_last() -> None:
    rows = np.cumsum(np.random.default_rng(0).integers(1, 4, 3_000)).astype(float)
    cuts = rules.cuts_of(rows, 100)
    assert rows[cuts[0]] >= 100 > rows[cuts[0] - 1]
    assert cuts[-1] == len(rows) - 1
    for before, cut in itertools.pairwise(cuts[:-1]):
        assert rows[cut] >= 1.02 * rows[before] > rows[cut - 1]
    assert len(rules.cuts_of(rows[:10], 100)) == 0


def levels_of(rows: list[int], risk: float, alpha: float) -> list[float]:
    """Return the probability that each cut is accepted if every row is wrong with probability ``risk``.

    Forward from each cut, over all numbers of errors that no test has accepted yet.
    """
    single, look_ahead = (values * (1 + 1e-9) for values in rules.critical_values(tuple(rows), risk, alpha))
    found = []
    for cut, first in enumerate(rows):
        errors = np.arange(first + 1)
        open_ = binom.pmf(errors, first, risk)
        p_values = binom.cdf(errors, first, risk)
        accepted = (p_values <= single[cut]) | (p_values <= look_ahead[cut])
        level = open_[accepted].sum()
        open_ = np.where(accepted, 0.0, open_)
        for before, after in itertools.pairwise(rows[cut:]):
            open_ = np.convolve(open_, binom.pmf(np.arange(after - before + 1), after - before, risk))
            accepted = binom.cdf(np.arange(after + 1), after, risk) <= look_ahead[cut]
            level += open_[accepted].sum()
            open_ = np.where(accepted, 0.0, open_)
        found.append(float(level))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.5, 0.05, 0.01, 0.001, 0.0005, 1e-6])
@pytest.mark.parametrize(("risk", "last"), [(0.05, 900), (0.2, 250), (0.5, 120), (0.01, 2_500)])
def test_no_cut_is_accepted_more_often_than_alpha(risk: float, last: int, alpha: float) -> None:
    rows = [rules.first_rows(risk, max(alpha, 0.001))]
    while rows[-1] < last:
        rows.append(math.ceil(1.03 * rows[-1]))
    levels = levels_of(rows, risk, alpha)
    assert max(levels) <= alpha * (1 + 1e-8)
    if alpha >= 0.001:
        assert np.mean(levels) > 0.85 * alpha  # nothing is given away but what whole numbers need


@pytest.mark.parametrize("rows", [(104, 120, 120, 201, 350), (104,), (104, 5_000), (104, 60_000, 61_500)])
def test_cuts_of_any_distance_have_their_level(rows: tuple[int, ...]) -> None:
    single, look_ahead = rules.critical_values(rows, 0.05, 0.05)
    assert (np.maximum(single, look_ahead) > 0).all()
    if rows[-1] < 10_000:
        assert max(levels_of(list(rows), 0.05, 0.05)) <= 0.05 * (1 + 1e-8)
    rng = np.random.default_rng(0)
    wrong = np.cumsum(rng.binomial(np.diff(rows, prepend=0), 0.05, (4_000, len(rows))), axis=1).astype(float)
    accepted = np.mean([rules.closed(RankedSample(np.array(rows, float), each), 0.05, 0.05) > 0 for each in wrong])
    assert accepted <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 4_000)


def test_numbers_that_are_not_whole_count_against_the_threshold() -> None:
    for rows, wrong in (([104.0, 300.0], [0.0, 4.0]), ([110.0, 400.0, 900.0], [1.0, 9.0, 30.0])):
        less = [n + 0.97 for n in rows], [max(w - 0.97, 0.0) for w in wrong]
        whole = rules.closed(RankedSample(np.array(rows), np.array(wrong)), 0.05, 0.05)
        assert rules.closed(RankedSample(*map(np.array, less)), 0.05, 0.05) == whole
        assert rules.closed(RankedSample(np.array(rows), np.array(wrong) + 0.03), 0.05, 0.05) <= whole


def test_very_small_levels_certify_only_what_is_clear() -> None:
    rng = np.random.default_rng(3)
    rows = np.array([200, 300, 500, 1_000, 3_000])
    for alpha in (0.0004, 1e-6):
        for _ in range(50):
            wrong = np.cumsum(rng.binomial(np.diff(rows, prepend=0), 0.06)).astype(float)
            assert rules.closed(RankedSample(rows.astype(float), wrong), 0.05, alpha) == 0
        assert rules.closed(RankedSample(rows.astype(float), 0.0 * rows), 0.05, alpha) == 5


def test_closed_testing_has_its_level() -> None:
    """Rows whose risk is just above the bound: the share of accepted first cuts is at most alpha."""
    rows = np.array([104, 107, 110, 150, 220, 300, 500, 800])
    rng = np.random.default_rng(8)
    wrong = np.cumsum(rng.binomial(np.diff(rows, prepend=0), 0.0501, (6_000, len(rows))), axis=1)
    accepted = [rules.closed(RankedSample(rows.astype(float), each.astype(float)), 0.05, 0.05) > 0 for each in wrong]
    share = np.mean(accepted)
    assert 0.02 < share <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 6_000)


def test_closed_testing_stops_before_the_first_cut_that_is_not_accepted() -> None:
    rows, wrong = np.array([200.0, 400.0, 800.0, 900.0]), np.array([0.0, 2.0, 80.0, 80.0])
    assert rules.closed(RankedSample(rows, wrong), 0.05, 0.05) == 2
    assert rules.closed(RankedSample(rows[:0], wrong[:0]), 0.05, 0.05) == 0
    assert rules.closed(RankedSample(rows, 0 * wrong), 0.05, 0.05) == 4
    # An early cut with errors that later cuts make up for does not end the walk.
    assert rules.closed(RankedSample(np.array([104.0, 5_000.0]), np.array([5.0, 100.0])), 0.05, 0.05) == 2


@pytest.mark.parametrize("start", recorded.STARTS)
@pytest.mark.parametrize("name", RECORDED["cases"])
def test_the_fixed_sequence_is_that_of_kunko(name: str, start: int) -> None:
    case = recorded.cases()[name]
    assert recorded.checksum(case) == RECORDED["cases"][name]["sha256"]
    ranked = Ranked.of(ReliabilityTable.from_scores(case.probs, case.targets))
    for max_risk in recorded.MAX_RISKS:
        first, end = rules.fixed_sequence(ranked.sample(max_risk), max_risk, 0.05, start)
        theirs = RECORDED["cases"][name]["kunko"][str(max_risk)][str(start)]
        if end <= first:
            assert theirs is None
        else:
            last = end - 1
            ours = [ranked.thresholds[last], ranked.upto.rows[last], ranked.upto.wrong[last]]
            assert ours == theirs


def test_a_long_fixed_sequence_tests_every_place() -> None:
    rows = np.arange(1.0, 5_001.0)
    wrong = np.where(rows > 4_500, 0.2 * rows, 0.01 * rows)
    assert rules.fixed_sequence(RankedSample(rows, wrong), 0.05, 0.05)[1] == 4_500


# ---------------------------------------------------------------- betting


def clustered(seed: int, risk: float, *, n_clusters: int = 300, size: int = 5, places: int = 20) -> ClusterParts:
    """Return clusters whose rows are alike, with a constant risk."""
    rng = np.random.default_rng(seed)
    wrong = np.repeat(rng.random(n_clusters) < risk, size)
    where = rng.integers(0, places, n_clusters * size)
    return ClusterParts.of(
        np.repeat(np.arange(n_clusters), size), where, np.ones(n_clusters * size), wrong.astype(float), whole=True
    )


def naive_betting(parts: ClusterParts, cuts: np.ndarray, risk: float, alpha: float, largest: float) -> slice:
    """Return the accepted cuts, with loops over cuts and clusters."""
    wealths, possible = [], []
    for cut in cuts:
        above = parts.places <= cut
        n = [parts.weights[above & (parts.clusters == g)].sum() for g in range(parts.number)]
        w = [parts.wrong[above & (parts.clusters == g)].sum() for g in range(parts.number)]
        x = [(w[g] - risk * n[g] + risk * largest) / largest for g in range(parts.number)]
        variance = risk * (1 - risk) * sum((each / largest) ** 2 for each in n)
        bet = min(math.sqrt(2 * math.log(2 / alpha) / variance), 0.999 / (1 - risk))
        wealths.append(math.prod(1 + bet * (risk - each) for each in x))
        possible.append(math.prod(1 + 0.999 / (1 - risk) * risk * each / largest for each in n) >= 10 / alpha)
    first = possible.index(True) if any(possible) else len(cuts)
    for place in range(first, len(cuts)):
        later = wealths[place + 1 :]
        if (wealths[place] + np.mean(later)) / 2 < 1 / alpha if later else wealths[place] < 1 / alpha:
            return slice(first, place)
    return slice(first, len(cuts))


@pytest.mark.parametrize("largest", [5, 7])
@pytest.mark.parametrize("risk", [0.0, 0.01, 0.02, 0.03])
def test_betting_follows_its_definition(risk: float, largest: float) -> None:
    cuts = np.arange(6)
    for seed in range(10):
        parts = clustered(seed, risk, n_clusters=100 + 20 * seed, places=6)
        for max_risk in (0.05, 0.1):
            found = betting(parts, cuts, max_risk, 0.05, largest)
            assert found == naive_betting(parts, cuts, max_risk, 0.05, largest)
            if found.stop == len(cuts) > found.start:
                high = risk_bound(parts, found.stop - 1, max_risk, 0.05, largest)
                assert np.sum(parts.wrong) / np.sum(parts.weights) < high < max_risk * (1 + 1e-9)


@pytest.mark.slow
def test_betting_finds_a_small_risk_and_keeps_its_promise() -> None:
    cuts = np.arange(5, 20)
    found = [betting(clustered(seed, 0.005, n_clusters=600), cuts, 0.05, 0.05, 5).stop for seed in range(20)]
    assert np.mean(found) > 13
    kept = [betting(clustered(seed, 0.0501), cuts, 0.05, 0.05, 5) for seed in range(1_000)]
    broken = np.mean([part.stop > part.start for part in kept])
    assert broken <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 1_000)


def test_a_risk_bound_by_betting_holds() -> None:
    bounds = [risk_bound(clustered(seed, 0.03, n_clusters=400), 19, 0.05, 0.05, 5) for seed in range(400)]
    assert np.mean(np.array(bounds) < 0.03) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 400)
    assert np.median(bounds) < 0.07


# ---------------------------------------------------------------- planning


@pytest.mark.parametrize(("max_risk", "share"), [(0.1, 0.25), (0.05, 0.25), (0.05, 0.5), (0.02, 0.5), (0.05, 0.75)])
def test_planned_rows_suffice_from_there_on(max_risk: float, share: float) -> None:
    rows = planned_rows(max_risk, 0.05, share * max_risk)
    assert rows is not None
    every = np.arange(1, 2 * rows)
    errors = binom.ppf(0.05, every, max_risk)
    errors = np.where(binom.cdf(errors, every, max_risk) <= 0.05, errors, errors - 1)
    power = np.where(errors >= 0, binom.cdf(errors, every, share * max_risk), 0.0)
    assert (power[rows - 1 :] >= POWER).all()
    assert power[rows - 2] < POWER


def test_planned_rows_of_the_contract() -> None:
    assert [planned_rows(risk, 0.05, risk / 4) for risk in (0.1, 0.05, 0.02, 0.01)] == [76, 153, 386, 773]
    assert planned_rows(0.05, 0.05, 0.05) is None
    assert planned_rows(0.05, 0.05, 0.04999999) is None


@pytest.mark.slow
def test_the_audited_rows_find_twice_the_risk() -> None:
    rows, rng = audit_rows(0.05, 0.05), np.random.default_rng(9)

    def alarms(risk: float, runs: int, periods: int) -> float:
        errors = rng.binomial(rows, risk, (runs, periods))
        e_values = np.zeros((runs, periods))
        for run in range(runs):
            mixture = np.zeros(5)
            for t in range(periods):
                growth = np.exp(error_growth(rows, errors[run, t], 0.05))
                mixture = (mixture + 1 / ((t + 1) * (t + 2))) * growth
                e_values[run, t] = mixture.mean() + 1 / (t + 2)
        return float(np.mean(e_values.max(axis=1) >= 20))

    assert 0.76 < alarms(0.1, 1_500, PERIODS) < 0.86
    assert alarms(0.05, 300, 200) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 300)
    assert audit_rows(0.01, 0.05) > audit_rows(0.05, 0.05) > audit_rows(0.1, 0.05)
