"""How much groups differ: Cochran's Q and I^2 at a common value, and which groups take part."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats

import calibrant
from calibrant import ReliabilityTable
from calibrant.measures.line.line import compare_slopes
from calibrant.measures.means.in_the_large import FEW_EXPECTED, compare_ratios
from calibrant.measures.ranking.auroc import compare_areas
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import rare, rarer_rows
from calibrant.statistics.group_tests import (
    Compare,
    Deviations,
    GroupRows,
    Heterogeneity,
    heterogeneity,
    random_effects,
)

Float64s = NDArray[np.float64]

FEW: Any = {"n_resamples": 0}


def found_in(values: Float64s, errors: Float64s) -> Heterogeneity:
    """Groups with these values, known up to normal errors."""
    cells = Cells(table_of(np.array([0.5]), np.array([1])))

    def compare(groups: Sequence[Cells]) -> Deviations:
        return Deviations(
            scores=values,
            variances=errors**2,
            sensitivities=np.ones(len(values)),
            influences=[np.zeros((2, 1))] * len(groups),
        )

    return heterogeneity([GroupRows(cells=cells)] * len(values), compare)


def table_of(scores: Float64s, outcomes: NDArray[Any], weights: Float64s | None = None) -> ReliabilityTable:
    return ReliabilityTable.from_predictions(scores, outcomes, weights=weights)


def test_heterogeneity_is_the_published_example() -> None:
    """Cochran's Q and I^2 by hand: weights 1/s^2, Q = sum w (x - mean)^2, I^2 = 1 - (G - 1) / Q."""
    values, errors = np.array([0.1, 0.3, 0.35, 0.65, 0.45, 0.15]), np.array([0.1, 0.2, 0.15, 0.12, 0.2, 0.1])
    found = found_in(values, errors)
    w = errors**-2
    q = float(w @ (values - (w @ values) / w.sum()) ** 2)
    assert found.share == pytest.approx(1 - 5 / q, rel=1e-9)
    assert found.p_value == pytest.approx(chi_square_tail(q, 5), rel=1e-6)
    assert found.compared.all()


def chi_square_tail(q: float, df: int) -> float:
    """The integral of the density, by Simpson's rule."""
    x = np.linspace(q, q + 200, 200_001)
    density = x ** (df / 2 - 1) * np.exp(-x / 2) / (2 ** (df / 2) * math.gamma(df / 2))
    weights = np.ones_like(x)
    weights[1:-1:2], weights[2:-1:2] = 4, 2
    return float(weights @ density * (x[1] - x[0]) / 3)


def test_groups_without_a_variance_are_not_compared() -> None:
    found = found_in(np.array([1.0, 2.0, 1.1]), np.array([0.1, math.nan, 0.1]))
    assert found.compared.tolist() == [True, False, True]
    assert 0 <= found.share <= 1
    assert math.isnan(found_in(np.array([1.0, 2.0]), np.array([0.1, 0.0])).p_value)


def hospitals(rng: np.random.Generator, sizes: Sequence[int], odds: float = 1.0) -> list[Cells]:
    """Groups of rows with rare outcomes; ``odds`` is the slope of the truth."""
    groups = []
    for n in sizes:
        scores = rng.beta(1, 6, n).round(3).clip(0.001)
        outcomes = rng.random(n) < 1 / (1 + ((1 - scores) / scores) ** odds)
        groups.append(Cells(table_of(scores, outcomes.astype(int))))
    return groups


def test_the_slopes_have_the_score_test_of_the_interaction() -> None:
    """U' V^-1 U with the whole design: the dummies of the groups and x, against x in each group."""
    groups = hospitals(np.random.default_rng(3), (200, 300, 250, 400), odds=0.7)
    found = compare_slopes(groups)
    x = np.concatenate([np.log(c.scores / (1 - c.scores)) for c in groups])
    of_group = np.repeat(np.arange(4), [len(c) for c in groups])
    n, k = np.concatenate([c.counts for c in groups]), np.concatenate([c.positives for c in groups])
    dummies = (of_group[:, None] == np.arange(4)).astype(float)
    design, own = np.column_stack([dummies, x]), dummies * x[:, None]
    beta = np.zeros(5)
    for _ in range(50):
        q = 1 / (1 + np.exp(-design @ beta))
        beta += np.linalg.solve((design.T * (n * q * (1 - q))) @ design, design.T @ (k - n * q))
    w = n * q * (1 - q)
    crossed = own.T * w @ design
    variance = own.T * w @ own - crossed @ np.linalg.solve(design.T * w @ design, crossed.T)
    score = own.T @ (k - n * q)
    q_of_design = float(score @ np.linalg.pinv(variance, rcond=1e-10, hermitian=True) @ score)
    assert float(np.sum(found.scores**2 / found.sensitivities)) == pytest.approx(q_of_design, rel=1e-6)
    assert abs(found.scores.sum()) < 1e-6 * np.sqrt(found.sensitivities.sum())
    # Where the line fits, sums of squared residuals add no more than their own error to the variances.
    assert found.variances == pytest.approx(found.sensitivities, rel=0.25)


def test_ratios_of_groups_with_one_score_have_pearsons_chi_square() -> None:
    events, totals = np.array([20, 34, 41, 25]), np.array([200, 300, 250, 220])
    outcomes = [np.repeat([1, 0], [k, n - k]) for k, n in zip(events, totals, strict=True)]
    groups = [GroupRows(cells=Cells(table_of(np.full(len(y), 0.2), y))) for y in outcomes]
    expected = totals * events.sum() / totals.sum()
    pearson = float(np.sum((events - expected) ** 2 * (1 / expected + 1 / (totals - expected))))
    found = heterogeneity(groups, compare_ratios)
    assert found.p_value == pytest.approx(chi_square_tail(pearson, 3), rel=1e-6)
    assert found.share == pytest.approx(max(0.0, 1 - 3 / pearson), rel=1e-9)


def test_areas_are_compared_by_placements_of_all_groups() -> None:
    """Two groups, row by row: (A1 - A2)^2 / (v1 + v2), each variance steadied by that of both, as of 100 rows."""
    rng = np.random.default_rng(5)
    rows = [(rng.normal(0.9, 1, m), rng.normal(0, 1.4, n)) for m, n in ((20, 200), (40, 90))]
    placed = [((a[:, None] > b).mean(axis=1), (a[:, None] > b).mean(axis=0)) for a, b in rows]
    areas = [float(of_events.mean()) for of_events, _ in placed]
    variances = np.zeros(2)
    for kind in (0, 1):
        sizes = np.array([len(place[kind]) for place in placed])
        own = np.array([place[kind].var(ddof=1) for place in placed])
        together = float((sizes - 1) @ own) / float((sizes - 1).sum())
        variances += (sizes * own + 100 * together) / (sizes + 100) / sizes
    q = (areas[0] - areas[1]) ** 2 / float(variances.sum())
    groups = [
        GroupRows(cells=Cells(table_of(1 / (1 + np.exp(-np.r_[a, b])), np.repeat([1, 0], [len(a), len(b)]))))
        for a, b in rows
    ]
    assert heterogeneity(groups, compare_areas).p_value == pytest.approx(chi_square_tail(q, 1), rel=1e-3)


COMPARED = {"oe_ratio": compare_ratios, "calibration_slope": compare_slopes, "auroc": compare_areas}


@pytest.mark.parametrize("compare", COMPARED.values(), ids=COMPARED)
def test_copies_in_clusters_tell_as_much_as_the_rows(compare: Compare) -> None:
    """Five copies of each row, a cluster each: the same Q, but for what all groups steady, whose part is smaller."""
    groups = hospitals(np.random.default_rng(4), (150, 180, 160))
    rows, copies = [], []
    for g, cells in enumerate(groups):
        rows.append(GroupRows(cells=cells))
        table, scores = cells.table, np.repeat(np.arange(len(cells)), cells.counts.astype(int))
        buckets = np.zeros((2, 600, len(cells)))  # each group has 200 of them
        buckets[rows_of(cells), 200 * g + np.arange(len(scores)), scores] = 5
        five = ReliabilityTable(table.scores, 5 * table.counts, 5 * table.positives, 5 * table.n)
        copies.append(GroupRows(cells=Cells(five), buckets=buckets))
    one, five_times = heterogeneity(rows, compare), heterogeneity(copies, compare)
    assert five_times.p_value == pytest.approx(one.p_value, abs=0.02)


def test_clusters_that_lie_in_several_groups_correlate_them() -> None:
    """The same rows in two groups: their difference has no variance, and Q is 0; by rows it is not known to be."""
    (cells,) = hospitals(np.random.default_rng(4), (150,))
    buckets = np.zeros((2, 150, len(cells)))
    buckets[rows_of(cells), np.arange(150), np.repeat(np.arange(len(cells)), cells.counts.astype(int))] = 1
    twice = heterogeneity([GroupRows(cells=cells, buckets=buckets)] * 2, compare_ratios)
    assert (twice.share, twice.p_value) == (0, 1)


@pytest.mark.parametrize("compare", COMPARED.values(), ids=COMPARED)
def test_a_weight_of_two_is_a_row_twice_and_fractions_are_not_rows(compare: Compare) -> None:
    groups = hospitals(np.random.default_rng(6), (150, 180, 160))
    doubled, halves = [], []
    for cells in groups:
        table = cells.table
        scores, kinds = np.repeat(table.scores, 2), np.stack([table.counts - table.positives, table.positives], axis=1)
        outcomes = np.tile([0, 1], len(table))
        some = kinds.ravel() > 0
        scores, outcomes, weights = scores[some], outcomes[some], kinds.ravel()[some]
        doubled.append(table_of(np.repeat(scores, 2 * weights), np.repeat(outcomes, 2 * weights)))
        halves.append(
            table_of(np.repeat(scores, weights), np.repeat(outcomes, weights), np.full(int(weights.sum()), 2.5))
        )
        assert doubled[-1].total == 2 * table.total
    plain, scaled = (
        heterogeneity([GroupRows(cells=Cells(table)) for table in tables], compare)
        for tables in ([cells.table for cells in groups], halves)
    )
    assert scaled.p_value == pytest.approx(plain.p_value, rel=1e-9)
    weighted = [table_of(c.table.scores.repeat(c.table.counts), rows_of(c), np.full(int(c.total), 2)) for c in groups]
    twice, copied = (
        heterogeneity([GroupRows(cells=Cells(table)) for table in tables], compare) for tables in (weighted, doubled)
    )
    assert twice.p_value == pytest.approx(copied.p_value, rel=1e-9)


def rows_of(cells: Cells) -> NDArray[np.int64]:
    kinds = np.stack([cells.counts - cells.positives, cells.positives], axis=1).astype(int)
    return np.repeat(np.tile([0, 1], len(cells)), kinds.ravel())


def test_groups_with_few_outcomes_take_no_part_and_are_named() -> None:
    """Twenty groups of 35 rows with 3.5 events each: nothing is compared, and no interval is shown."""
    rng = np.random.default_rng(0)
    scores, names = rng.beta(1, 9, 1_700), np.concatenate([np.repeat(np.arange(20), 35), np.repeat([20, 21], 500)])
    outcomes = (rng.random(1_700) < scores).astype(int)
    small = calibrant.evaluate(scores[:700], outcomes[:700], groups=names[:700], profile="clinical", **FEW)
    for forest in small.forests.values():
        assert (forest.compared, len(forest.left_out)) == (0, 20)
        assert np.isnan([forest.p_value, forest.heterogeneity, *forest.lows, *forest.highs]).all()
        assert set(forest.left_out.values()) == {"fewer than 15 events or non-events"}
    report = calibrant.evaluate(scores, outcomes, groups=names, profile="clinical", **FEW)
    for forest in report.forests.values():
        assert (forest.compared, len(forest.left_out)) == (2, 20)
        assert np.isfinite([forest.p_value, *forest.lows[-2:], *forest.highs[-2:]]).all()
        assert np.isnan(forest.lows[:-2]).all()
    text = " ".join(str(report).split())
    assert "Not compared (fewer than 15 events or non-events): 0, 1, 2, 3, 4 and 15 more." in text


def test_few_clusters_with_an_outcome_are_named_and_one_cluster_is_no_error() -> None:
    rng = np.random.default_rng(1)
    scores, wards = rng.beta(2, 3, 1_600), np.repeat(["a", "b", "c", "d"], 400)
    outcomes, clusters = (rng.random(1_600) < scores).astype(int), np.arange(1_600) // 10
    clusters = np.where(wards == "c", clusters // 4, clusters)
    clusters = np.where(wards == "d", 999, clusters)
    report = calibrant.evaluate(scores, outcomes, groups=wards, clusters=clusters, profile="clinical", **FEW)
    for forest in report.forests.values():
        assert forest.compared == 2
        assert set(forest.left_out) == {"c", "d"}
        assert "fewer than 15 clusters" in forest.left_out["c"]
        assert "one cluster" in forest.left_out["d"]


def test_ratios_are_not_compared_where_few_outcomes_are_expected() -> None:
    """A group that reaches 15 outcomes by luck would count as different: it has been chosen for them."""
    rng = np.random.default_rng(2)
    scores = np.concatenate([np.full(1_000, 0.1), np.full(1_000, 0.1), np.full(100, 0.08)])
    outcomes = np.concatenate([rng.permutation(np.arange(2_000) % 10 == 0), np.arange(100) < 16]).astype(int)
    report = calibrant.evaluate(
        scores, outcomes, groups=np.repeat(["a", "b", "c"], [1_000, 1_000, 100]), profile="clinical", **FEW
    )
    assert report.forests["oe_ratio"].left_out == {"c": FEW_EXPECTED}
    assert math.isfinite(report.forests["oe_ratio"].lows[-1])
    assert report.forests["calibration_slope"].left_out.keys() == {"a", "b", "c"}  # one distinct score
    assert report.forests["auroc"].compared in (0, 3)


def test_sketches_of_groups_are_compared_as_their_rows() -> None:
    """The scores are edges of the grid, each in a cell of its own, so that nothing is lost."""
    rng = np.random.default_rng(8)
    scores, names = rng.integers(1, 150, 2_000) / 300, np.repeat(["a", "b"], 1_000)
    outcomes = (rng.random(2_000) < np.where(names == "a", scores, scores**1.3)).astype(int)
    rows = calibrant.evaluate(scores, outcomes, groups=names, profile="clinical", **FEW)
    sketches = {n: calibrant.CalibrationSketch() for n in ("a", "b")}
    for n, sketch in sketches.items():
        sketch.update(scores[names == n], outcomes[names == n])
    sketched = calibrant.evaluate(sketches, profile="clinical", **FEW)
    for name, forest in rows.forests.items():
        assert sketched.forests[name].p_value == pytest.approx(forest.p_value, rel=1e-6)


@pytest.mark.parametrize("kind", ["certain", "wrong", "nothing", "one", "separated", "tiny"])
def test_extreme_scores_have_a_p_value_or_none(kind: str) -> None:
    """Scores of 0 and 1, right and wrong ones, and groups that a threshold separates."""
    rng = np.random.default_rng(11)
    names, outcomes = np.repeat(["a", "b", "c"], 60), np.tile([0, 1, 1], 60)
    scores = {
        "certain": np.where(rng.random(180) < 0.3, outcomes, rng.random(180)),
        "wrong": np.where(rng.random(180) < 0.3, 1 - outcomes, rng.random(180)),
        "nothing": np.zeros(180),
        "one": np.full(180, 0.4),
        "separated": 0.2 + 0.6 * outcomes,
        "tiny": 1e-300 + 1e-301 * rng.random(180),
    }[kind]
    for compare in COMPARED.values():
        groups = [GroupRows(cells=Cells(table_of(scores[names == n], outcomes[names == n]))) for n in "abc"]
        found = heterogeneity(groups, compare)
        assert np.count_nonzero(found.compared) in ((2, 3) if 0 <= found.p_value <= 1 else (0, 1))
        assert math.isnan(found.p_value) == math.isnan(found.share)


@pytest.mark.slow
def test_a_real_difference_is_found() -> None:
    """Differences of 5 standard errors between the halves of the groups: the power of Q is then nearly 1."""
    rng = np.random.default_rng(9)
    names = np.repeat(np.arange(8), 500)
    x = rng.normal(-1.5, 1, 4_000)
    scores = 1 / (1 + np.exp(-x))
    truths = {"oe_ratio": x - 0.8 * (names % 2), "calibration_slope": -1.5 + (x + 1.5) * (0.4 + (names % 2))}
    truths["auroc"] = truths["calibration_slope"]
    for name, truth in truths.items():
        outcomes = (rng.random(4_000) < 1 / (1 + np.exp(-truth))).astype(int)
        found = calibrant.evaluate(scores, outcomes, groups=names, profile="clinical", **FEW).forests[name]
        assert found.p_value < 1e-4, name
        assert found.heterogeneity > 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "odds"),
    [
        ((200,) * 10, 1.0),
        ((200,) * 20, 1.0),
        ((300,) * 40, 1.0),
        ((100, 300, 900) * 10, 1.0),
        ((60,) * 60 + (3_000,) * 3, 1.0),
        ((250,) * 20, 0.6),
    ],
)
def test_equal_groups_are_seldom_found_to_differ(sizes: Sequence[int], odds: float) -> None:
    """Nominal 5 %: at most 6.5 % beyond three standard errors of 300 samples, groups of 15 events and more."""
    p_values: dict[str, list[float]] = {name: [] for name in COMPARED}
    for seed in range(300):
        groups = [c for c in hospitals(np.random.default_rng(seed), sizes, odds) if not rare(rarer_rows(c))]
        for name, compare in COMPARED.items():
            p_values[name].append(heterogeneity([GroupRows(cells=cells) for cells in groups], compare).p_value)
    for name, found in p_values.items():
        assert np.mean(np.array(found) <= 0.05) <= 0.065 + 3 * math.sqrt(0.065 * 0.935 / 300), name


# ---------------------------------------------------------------- the pooled value

#: 13 trials of a vaccine (Colditz et al. 1994): cases and others with it, cases and others without it.
TRIALS = np.array(
    [
        [4, 119, 11, 128],
        [6, 300, 29, 274],
        [3, 228, 11, 209],
        [62, 13536, 248, 12619],
        [33, 5036, 47, 5761],
        [180, 1361, 372, 1079],
        [8, 2537, 10, 619],
        [505, 87886, 499, 87892],
        [29, 7470, 45, 7232],
        [17, 1699, 65, 1600],
        [186, 50448, 141, 27197],
        [5, 2493, 3, 2338],
        [27, 16886, 29, 17825],
    ],
    dtype=float,
)


def _ends(y, s, level=0.95):
    z = stats.norm.ppf(0.5 + level / 2)
    return y - z * s, y + z * s


def test_the_pooled_value_is_that_of_metafor() -> None:
    """R's metafor, `rma(measure="RR", test="knha")`: tau^2 0.3132, mean -0.7145, interval -1.1084 to -0.3206."""
    a, b, c, d = TRIALS.T
    y, s = np.log(a / (a + b) * (c + d) / c), np.sqrt(1 / a - 1 / (a + b) + 1 / c - 1 / (c + d))
    pooled = random_effects(y, *_ends(y, s), 0.95, "identity")
    assert pooled.variance == pytest.approx(0.3132, abs=6e-5)
    assert (pooled.value, pooled.low, pooled.high) == pytest.approx((-0.7145, -1.1084, -0.3206), abs=6e-5)
    assert pooled.weights.sum() == pytest.approx(1)
    ratio = random_effects(np.exp(y), *np.exp(_ends(y, s)), 0.95, "log")
    assert np.log(ratio[:3]) == pytest.approx(pooled[:3])
    assert np.log(ratio.prediction) == pytest.approx(pooled.prediction)
    share = random_effects(special.expit(y), *special.expit(_ends(y, s)), 0.95, "logit")
    assert special.logit(share[:3]) == pytest.approx(pooled[:3])


def test_the_variance_between_groups_has_the_largest_restricted_likelihood() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        s = rng.uniform(0.1, 0.5, 6)
        y = rng.normal(0, rng.choice([0.0, 0.2, 0.6]), 6) + rng.normal(0, s)
        found = random_effects(y, *_ends(y, s), 0.95, "identity").variance

        def fit(variance: float, y=y, s=s) -> float:
            w = 1 / (s**2 + variance)
            residuals = y - w @ y / w.sum()
            return float(np.sum(np.log(w)) - np.log(w.sum()) - w @ residuals**2) / 2

        assert all(fit(found) >= fit(other) - 1e-9 for other in found + np.array([0, 1e-4, 0.01, 0.1, 1.0]))
        assert all(fit(found) >= fit(other) - 1e-9 for other in found * np.array([0, 0.5, 0.9, 0.999]))


def test_equal_groups_have_no_variance_and_two_groups_are_enough() -> None:
    y, s = np.array([0.3, 0.3, 0.3]), np.array([0.1, 0.2, 0.1])
    pooled = random_effects(y, *_ends(y, s), 0.9, "identity")
    assert (pooled.value, pooled.variance) == (pytest.approx(0.3), 0.0)
    assert pooled.high - pooled.low >= 2 * stats.t.ppf(0.95, 2) / np.sqrt(np.sum(1 / s**2)) * (1 - 1e-9)
    two = random_effects(y[:2], *_ends(y[:2], s[:2]), 0.9, "identity")
    assert np.isfinite([*two[:3], *two.prediction]).all()


@pytest.mark.slow
@pytest.mark.parametrize("tau", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("groups", [2, 3, 8, 20])
def test_the_pooled_interval_covers(groups: int, tau: float) -> None:
    """Coverage of the mean and of the next group: at least 0.95 less three standard errors of the simulation."""
    rng, sets = np.random.default_rng(1), 400
    hits = np.zeros(2)
    for _ in range(sets):
        s = rng.uniform(0.05, 0.3, groups)
        y = rng.normal(0, tau, groups) + rng.normal(0, s)
        pooled = random_effects(y, *_ends(y, s), 0.95, "identity")
        hits += pooled.low <= 0 <= pooled.high, pooled.prediction[0] <= rng.normal(0, tau) <= pooled.prediction[1]
    assert (hits / sets >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / sets)).all(), hits / sets
