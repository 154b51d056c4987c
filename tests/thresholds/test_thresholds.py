"""Certified thresholds: what they do to the rows, their laws, clusters, groups, costs, two sides, and bad input."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import pickle
import re
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
from scipy.stats import beta, binomtest, norm

import calibrant
from calibrant.errors import InputError
from calibrant.table import ReliabilityTable
from calibrant.thresholds import Threshold, certify
from calibrant.thresholds.ranked import Judged, Ranked
from tests.golden import record_thresholds as recorded
from tests.samples import draw, sketch_of


def sample(n: int, seed: int = 0, *, risk: float | None = None, places: int | None = None) -> tuple[Any, Any]:
    """Return scores and outcomes, calibrated or with one risk."""
    rng = np.random.default_rng(seed)
    p = rng.beta(4, 1, n)
    y = (rng.random(n) < (p if risk is None else 1 - risk)).astype(np.int64)
    return (p if places is None else np.round(p, places)), y


def certified(*data: Any, **how: Any) -> Threshold:
    return calibrant.certify_threshold(*data, **{"max_risk": 0.1, **how})


# ---------------------------------------------------------------- what a threshold does


@pytest.mark.parametrize("method", ["closed", "fixed-sequence"])
@pytest.mark.parametrize("places", [None, 2])
def test_the_numbers_are_those_of_the_rows_at_and_above_it(places: int | None, method: str) -> None:
    p, y = sample(3_000, places=places)
    t = certified(p, y, method=method)
    assert t.value is not None
    for value in (t.value, t.rounded):
        acted = p >= value
        assert t.n_automatic == acted.sum()
        assert t.n_errors == (1 - y)[acted].sum()
    assert t.coverage == acted.mean()
    assert t.risk == t.n_errors / t.n_automatic
    share = binomtest(int(t.n_automatic), 3_000).proportion_ci(0.95)
    assert (t.coverage_low, t.coverage_high) == pytest.approx((share.low, share.high), rel=1e-9)
    above = beta.ppf(0.95, t.n_errors + 1, t.n_automatic - t.n_errors)
    assert t.risk_high == pytest.approx(above, rel=1e-9)
    assert t.audit_fraction == t.audit_rows / t.n_automatic
    assert np.array_equal(t.accepts(p), acted)
    assert not t.approximate


def test_closed_testing_certifies_at_least_as_much_as_other_packages() -> None:
    """MAPIE's two methods and kunko's two starts on recorded data; closed testing is ahead on average."""
    shares: dict[str, list[float]] = {"closed": [], "mapie": [], "kunko": []}
    for name, theirs in recorded.load()["cases"].items():
        case = recorded.cases()[name]
        if len(np.unique(case.probs)) == 1:
            continue
        for max_risk in (0.05, 0.1):
            t = certified(case.probs, case.targets, max_risk=max_risk)
            shares["closed"].append(t.coverage)
            of_mapie = [x for x in theirs["mapie"][str(max_risk)].values() if x is not None]
            shares["mapie"].append(max((float(np.mean(case.probs >= x)) for x in of_mapie), default=0.0))
            of_kunko = [x[1] for x in theirs["kunko"][str(max_risk)].values() if x is not None]
            shares["kunko"].append(max(of_kunko, default=0) / len(case.probs))
    mean = {name: np.mean(values) for name, values in shares.items()}
    assert mean["closed"] > mean["mapie"] + 0.05
    assert mean["closed"] > mean["kunko"] + 0.05


def test_a_sketch_has_the_threshold_of_its_cells_and_the_rows_above_it() -> None:
    p, y = sample(20_000, 4)
    sketch = sketch_of(p, y)
    of_sketch, of_table = certified(sketch), certified(ReliabilityTable.from_scores(p, y, grid="standard"))
    for t in (of_sketch, of_table):
        acted = p >= t.value
        assert (t.n_automatic, t.n_errors) == (acted.sum(), (1 - y)[acted].sum())
    assert of_sketch.value == of_table.value
    assert abs(of_sketch.coverage - certified(p, y).coverage) < 0.03
    two = calibrant.certify_two_sided(sketch, yes_risk=0.1, no_risk=0.4)
    dismissed = p <= two.no.value
    assert (two.no.n_automatic, two.no.n_errors) == (dismissed.sum(), y[dismissed].sum())


def test_a_threshold_in_an_engine_selects_the_rows_of_its_sketch() -> None:
    duckdb = pytest.importorskip("duckdb")
    p, y = sample(20_000, 5)
    frame = duckdb.from_arrow(pytest.importorskip("pyarrow").table({"p": p, "y": y}))
    t = certified(calibrant.frames.sketch(frame, score="p", outcome="y"))
    rows, errors = duckdb.sql(f"select count(*), sum(1 - y) from frame where p >= {t.value!r}").limit(1).fetchall()[0]
    assert (rows, errors) == (t.n_automatic, t.n_errors)


def test_neither_order_nor_copies_of_the_seed_play_a_part() -> None:
    p, y = sample(2_000, places=2)
    order = np.random.default_rng(1).permutation(2_000)
    clusters = np.arange(2_000) // 4
    assert certified(p, y).to_dict() == certified(p[order], y[order]).to_dict()
    for method in ("closed", "betting"):
        one = certified(p, y, clusters=clusters, method=method, max_risk=0.2)
        other = certified(p[order], y[order], clusters=clusters[order], method=method, max_risk=0.2)
        assert one.to_dict() == other.to_dict()


@pytest.mark.parametrize("weighted", ["no", "whole", "not whole"])
@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("places", [None, 2])
def test_shuffled_rows_give_the_same_bits(places: int | None, clustered: bool, weighted: str) -> None:
    p, y = sample(3_000, 5, places=places)
    rng = np.random.default_rng(6)
    data: dict[str, Any] = {}
    if clustered:
        data["clusters"] = rng.integers(0, 900, 3_000)
    if weighted != "no":
        data["weights"] = rng.integers(1, 4, 3_000) if weighted == "whole" else rng.random(3_000) + 0.3
    methods = ["closed", "fixed-sequence", None] + ["betting"] * (clustered or weighted == "not whole")
    order = [rng.permutation(3_000) for _ in range(2)]
    for method in methods:
        how = {"method": method, "cost_of_error": 7, "cost_of_referral": 1, "max_risk": 0.25}
        first = certified(p, y, **how, **data).to_dict()
        assert first["areas"]["aurc"]["low"] < first["areas"]["aurc"]["high"]
        for rows in order:
            again = certified(p[rows], y[rows], **how, **{name: x[rows] for name, x in data.items()})
            assert again.to_dict() == first


@pytest.mark.parametrize("method", ["closed", "fixed-sequence"])
def test_more_risk_or_less_confidence_never_lowers_the_coverage_much(method: str) -> None:
    """Cuts follow from the risk and the confidence: coverages may differ by one cut, 2 % of the rows."""
    p, y = sample(3_000, 2)
    by_risk = [certified(p, y, max_risk=risk, method=method).coverage for risk in (0.05, 0.08, 0.12, 0.2, 0.3)]
    assert all(b >= 0.98 * a for a, b in itertools.pairwise(by_risk))
    assert by_risk[-1] > by_risk[0]
    by_level = [certified(p, y, confidence=level, method=method).coverage for level in (0.99, 0.95, 0.8, 0.5)]
    assert all(b >= 0.98 * a for a, b in itertools.pairwise(by_level))


def test_an_increasing_map_of_the_scores_moves_the_threshold_alone() -> None:
    p, y = sample(2_000)
    one, other = certified(p, y), certified(p**3, y)
    assert (other.value, other.coverage, other.risk) == (one.value**3, one.coverage, one.risk)


def test_whole_weights_are_rows() -> None:
    p, y = sample(1_000, places=2)
    weights = np.random.default_rng(3).integers(1, 4, 1_000)
    one = certified(p, y, weights=weights, weights_are="frequency")
    other = certified(np.repeat(p, weights), np.repeat(y, weights))
    for name in ("value", "n_automatic", "n_errors", "coverage_low", "risk_high", "rows_needed", "approximate"):
        assert getattr(one, name) == getattr(other, name), name
    assert not one.flag


def test_other_weights_make_the_promise_approximate() -> None:
    p, y = sample(4_000)
    weights = np.random.default_rng(3).random(4_000) + 0.5
    t, plain = certified(p, y, weights=weights, method="closed"), certified(p, y)
    assert t.approximate
    assert "not whole numbers" in t.flag
    assert 0 < t.coverage < plain.coverage + 0.05
    bets = certified(p, y, weights=weights)
    assert (bets.method, bets.approximate, bets.observed_bounds) == ("betting", True, ("max_weight",))
    assert 0 < bets.coverage < t.coverage
    assert bets.risk < bets.risk_high < 0.1
    declared = certified(p, y, weights=weights, max_weight=1.5)
    assert (declared.approximate, declared.observed_bounds, declared.max_weight) == (False, (), 1.5)
    acted = p >= t.value
    assert t.risk == pytest.approx(weights[acted] @ (1 - y)[acted] / weights[acted].sum(), rel=1e-12)
    far = certified(p, y, weights=weights * 2.0**90, max_weight=2.0**92)
    assert (far.value, far.max_weight) == (certified(p, y, weights=weights, max_weight=4).value, 2.0**92)
    equal = certified(p, y, weights=np.full(4_000, 0.3))
    assert (equal.value, equal.approximate, equal.flag) == (plain.value, False, "")
    assert "sampling weights" in certified(p, y, weights=np.arange(4_000) % 40 + 10.0).flag


# ---------------------------------------------------------------- clusters


def in_clusters(
    n_clusters: int, size: int, risk: float, rho: float, seed: int, *, scores: bool = False
) -> tuple[Any, Any, Any]:
    """Return rows whose errors, and maybe scores, share a normal variable within clusters."""
    rng = np.random.default_rng(seed)

    def shared() -> Any:
        common = rng.normal(size=(n_clusters, 1))
        return norm.cdf(np.sqrt(rho) * common + np.sqrt(1 - rho) * rng.normal(size=(n_clusters, size)))

    right = shared() >= risk
    p = beta.ppf(shared(), 4, 1) if scores else rng.beta(4, 1, (n_clusters, size))
    return p.reshape(-1), right.reshape(-1).astype(int), np.repeat(np.arange(n_clusters), size)


def naive_sample(p: Any, y: Any, clusters: Any, value: float, max_risk: float) -> tuple[float, float]:
    """Return the rows at and above a score over their design effect, and the errors."""
    acted = p >= value
    moved = (1 - y)[acted] - max_risk
    between = sum(moved[clusters[acted] == g].sum() ** 2 for g in np.unique(clusters))
    effect = max(1.0, between / np.sum(moved**2))
    return acted.sum() / effect, (1 - y)[acted].sum() / effect


def test_rows_in_clusters_are_divided_by_their_design_effect() -> None:
    p, y, clusters = in_clusters(60, 8, 0.1, 0.6, 0)
    data = calibrant.report.evaluated_data.of_arguments(p, y, clusters=clusters)
    ranked = Judged.of(data).ranked()
    rows, wrong = ranked.sample(0.2)
    effective = [naive_sample(p, y, clusters, value, 0.2) for value in ranked.thresholds]
    smallest = np.minimum.accumulate([n for n, _ in effective][::-1])[::-1]
    assert rows == pytest.approx(smallest, rel=1e-9)
    assert wrong == pytest.approx(smallest * ranked.upto.wrong / ranked.upto.rows, rel=1e-9)


def test_clusters_of_one_row_are_independent_rows_and_copies_count_once() -> None:
    p, y = sample(1_500)
    one = certified(p, y)
    assert certified(p, y, clusters=np.arange(1_500)).value == one.value
    copies = certified(np.repeat(p, 3), np.repeat(y, 3), clusters=np.repeat(np.arange(1_500), 3))
    assert copies.approximate
    assert (copies.value, copies.coverage, copies.risk) == (one.value, one.coverage, one.risk)
    assert copies.clusters == {"clusters": 1_500, "largest_cluster": pytest.approx(1 / 1_500)}


def test_a_sketch_with_clusters_is_near_the_rows() -> None:
    p, y, clusters = in_clusters(200, 20, 0.03, 0.3, 1)
    sketch = sketch_of(p, y, clusters=clusters)
    for of_sketch, of_rows in [(certified(sketch), certified(p, y, clusters=clusters))]:
        assert of_sketch.approximate
        assert of_sketch.coverage == pytest.approx(of_rows.coverage, abs=0.05)
        assert of_sketch.risk_high == pytest.approx(of_rows.risk_high, rel=0.1)
    with pytest.raises(InputError, match=r"method: expected rows with 'betting', got a sketch"):
        certified(sketch, method="betting")


def test_a_declared_largest_cluster_makes_betting_exact() -> None:
    p, y, clusters = in_clusters(900, 3, 0.01, 0.3, 2)
    seen = certified(p, y, clusters=clusters, method="betting")
    assert (seen.approximate, seen.observed_bounds, seen.largest_cluster) == (True, ("largest_cluster",), 3)
    assert "pass the largest possible value with --largest-cluster" in " ".join(seen.verdict())
    exact = certified(p, y, clusters=clusters, largest_cluster=3)
    assert (exact.method, exact.approximate, exact.observed_bounds) == ("betting", False, ())
    assert exact.coverage == seen.coverage > 0
    assert "independent clusters of at most 3 rows" in " ".join(exact.verdict())
    larger = certified(p, y, clusters=clusters, largest_cluster=6)
    assert 0 < larger.coverage <= exact.coverage
    none = certified(p, y, clusters=clusters, largest_cluster=500)
    assert (none.value, none.reason.rpartition(": ")[2]) == (
        None, "with clusters of up to 500 rows, these rows are too few, even if no decision is wrong",
    )  # fmt: skip
    # One row a cluster, where more are possible.
    alone = certified(p, y, clusters=np.arange(2_700), largest_cluster=2)
    assert (alone.method, alone.largest_cluster) == ("betting", 2)
    assert alone.coverage < certified(p, y, clusters=np.arange(2_700), largest_cluster=1).coverage + 1e-9


def test_the_clusters_and_errors_behind_a_certificate_are_counted() -> None:
    p, y, clusters = in_clusters(900, 3, 0.05, 0.3, 2)
    for t in (certified(p, y, clusters=clusters), certified(p, y, clusters=clusters, largest_cluster=3)):
        acted = p >= t.value
        assert t.n_clusters == len(np.unique(clusters[acted]))
        assert t.n_clusters_wrong == len(np.unique(clusters[acted & (y == 0)]))
        assert f"(in {t.n_clusters_wrong:,} of {t.n_clusters:,} clusters)" in " ".join(t.verdict())
    assert certified(p, y).n_clusters is None


@pytest.mark.slow
def test_errors_that_rise_with_the_size_of_clusters_are_flagged() -> None:
    rng = np.random.default_rng(0)

    def flags(slope: float) -> list[str]:
        found = []
        for _ in range(20):
            sizes = np.ceil(np.exp(rng.normal(1, 1, 400))).astype(int)
            clusters = np.repeat(np.arange(400), sizes)
            wrong = rng.random(len(clusters)) < 0.03 * sizes[clusters] ** slope / np.mean(sizes**slope)
            found.append(certified(rng.random(len(clusters)), ~wrong, clusters=clusters).flag)
        return found

    assert np.mean(["large clusters have higher error rates" in flag for flag in flags(0.8)]) > 0.9
    assert np.mean(["large clusters have higher error rates" in flag for flag in flags(0.0)]) < 0.2
    # One cluster with most of the errors, among 300 of one row.
    clusters = np.repeat(np.arange(301), [1] * 300 + [40])
    wrong = np.concatenate([rng.random(300) < 0.02, np.ones(40, bool)])
    assert "the errors come from only about" in certified(rng.random(340), ~wrong, clusters=clusters).flag


def test_weights_that_are_related_to_errors_are_flagged() -> None:
    rng = np.random.default_rng(1)
    p, wrong = rng.random(40_000), rng.random(40_000) < 0.05
    kept = ~wrong | (rng.random(40_000) < 0.05)
    p, wrong = p[kept], wrong[kept]
    weights = np.where(wrong, 20, 1)
    said = "the weights of wrong and correct decisions differ (means 20 and 1)"
    assert said in certified(p, ~wrong, weights=weights).flag
    assert said in certified(p, ~wrong, weights=weights + 0.0, weights_are="sampling", method="closed").flag
    assert said not in certified(p, ~wrong, weights=weights, weights_are="frequency").flag
    assert said not in certified(p, ~wrong, weights=weights, max_weight=20).flag
    assert "weights" not in certified(p, ~wrong, weights=rng.permutation(weights), method="closed").flag
    # Counts of equal rows differ between outcomes by nature.
    p, y = sample(4_000, 2, places=2)
    pairs, counts = np.unique(np.stack([p, y]), axis=1, return_counts=True)
    assert "weights differ" not in certified(pairs[0], pairs[1].astype(int), weights=counts).flag


@pytest.mark.slow
@pytest.mark.parametrize("declared", [True, False])
def test_errors_of_few_heavy_rows_do_not_break_the_promise(declared: bool) -> None:
    """Errors are kept with probability 1/20 and weight 20: the risk is 0.06, above the bound, at every score."""
    broken = 0
    for seed in range(150):
        rng = np.random.default_rng([seed, 3])
        p, wrong = rng.random(2_000), rng.random(2_000) < 0.06
        kept = ~wrong | (rng.random(2_000) < 0.05)
        how = {"max_weight": 20} if declared else {"weights_are": "sampling"}
        t = certified(p[kept], ~wrong[kept], weights=np.where(wrong, 20, 1)[kept], max_risk=0.05, **how)
        broken += t.certified
    assert broken / 150 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 150)


@pytest.mark.slow
@pytest.mark.parametrize("scores", [False, True])
@pytest.mark.parametrize(("n_clusters", "size", "rho"), [(600, 5, 0.8), (100, 20, 0.3)])
@pytest.mark.parametrize("method", ["closed", "betting"])
def test_promises_are_kept_in_clusters(method: str, n_clusters: int, size: int, rho: float, scores: bool) -> None:
    samples = (in_clusters(n_clusters, size, 0.051, rho, seed, scores=scores) for seed in range(300))
    broken = [certified(p, y, max_risk=0.05, clusters=clusters, method=method).certified for p, y, clusters in samples]
    assert np.mean(broken) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 300)


# ---------------------------------------------------------------- the promise


@pytest.mark.slow
@pytest.mark.parametrize("method", ["closed", "fixed-sequence"])
@pytest.mark.parametrize("risk", ["calibrated", "flat 0.051", "wrong at the top"])
def test_promises_are_kept(risk: str, method: str) -> None:
    """The risk above the threshold exceeds the bound in at most alpha of 500 data sets, up to three standard errors."""
    risks = {
        "calibrated": lambda p: 1 - p,
        "flat 0.051": lambda p: np.full(np.shape(p), 0.051),
        "wrong at the top": lambda p: np.where(p > 0.97, 0.2, 1 - p),
    }[risk]
    grid = np.sort(np.random.default_rng(0).beta(4, 1, 500_000))[::-1]
    true = np.cumsum(risks(grid)) / np.arange(1, len(grid) + 1)
    broken = 0
    for seed in range(500):
        rng = np.random.default_rng([seed, 7])
        p = rng.beta(4, 1, 1_000)
        t = certified(p, rng.random(1_000) >= risks(p), max_risk=0.05, method=method)
        broken += t.value is not None and true[np.searchsorted(-grid, -t.value) - 1] > 0.05
    assert broken / 500 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 500)


# ---------------------------------------------------------------- what more rows would do


def test_without_a_threshold_there_is_a_reason_and_a_number_of_rows() -> None:
    p, y = sample(300, 9, risk=0.03)
    t = certified(p, y, max_risk=0.05)
    assert t.value is None
    assert t.reason == "no threshold is certified to have an error rate of at most 5 % with 95 % confidence"
    assert (t.coverage, t.n_automatic, t.certified) == (0, 0, False)
    assert math.isnan(t.risk)
    assert t.rows_needed > 300
    assert not t.accepts(p).any()
    assert t.risk_needed * t.coverage_needed * 300 < 10
    assert "with 50 % to 90 % probability (uncertain, because few errors were observed)" in " ".join(str(t).split())
    hopeless = certified(*sample(1_000, risk=0.3), max_risk=0.05)
    assert (hopeless.rows_needed, hopeless.coverage_needed) == (None, None)
    assert "The number of rows that a threshold needs cannot be estimated" in " ".join(hopeless.verdict())


def test_the_rows_that_are_needed_certify_more() -> None:
    p, y = sample(600, 11)
    t = certified(p, y)
    assert t.rows_needed > 600
    assert t.coverage_needed > t.coverage
    assert t.risk_needed * t.coverage_needed * 600 >= 10
    assert "would be needed, with 80 % probability" in " ".join(str(t).split())
    coverages = [certified(*sample(t.rows_needed, seed)).coverage for seed in range(30)]
    assert np.mean(np.array(coverages) >= 0.9 * t.coverage_needed) >= 0.5


@pytest.mark.parametrize("method", ["closed", "fixed-sequence"])
@pytest.mark.parametrize("max_risk", [0.2, 0.5])
def test_rows_are_planned_for_any_promise(max_risk: float, method: str) -> None:
    """Of few new rows, several of the cuts are one."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        p = rng.random(150)
        t = certified(p, rng.random(150) < p, max_risk=max_risk, method=method)
        assert t.rows_needed is None or t.rows_needed > 150
        assert (t.rows_needed is None) == (t.coverage_needed is None)


@pytest.mark.slow
@pytest.mark.parametrize(("risk", "n"), [(None, 1_500), (0.06, 300)])
def test_new_rows_in_the_number_that_is_needed_reach_the_coverage_with_their_power(risk: float | None, n: int) -> None:
    reached = []
    for seed in range(120):
        t = certified(*sample(n, seed + 100, risk=risk))
        if t.rows_needed is not None and t.rows_needed < 100_000:
            new = certified(*sample(t.rows_needed, seed + 10_000, risk=risk))
            reached.append(new.coverage >= t.coverage_needed)
    assert len(reached) > 5
    assert np.mean(reached) >= 0.75 - 3 * math.sqrt(0.8 * 0.2 / len(reached))


# ---------------------------------------------------------------- groups and classes


def test_groups_share_one_promise_and_pass_on_what_they_do_not_need() -> None:
    p, y = sample(9_000, 3)
    easy = np.arange(9_000) % 3 == 0
    y[easy] = 1
    y[np.flatnonzero(easy)[:3]] = 0
    group = np.where(easy, "easy", np.where(np.arange(9_000) % 3 == 1, "b", "c"))
    t = certified(p, y, groups=group)
    assert list(t.by_group) == ["b", "c", "easy"]
    assert t.by_group["easy"].coverage == 1
    # "easy" certifies everything with alpha / 3, so the others have alpha / 2 each.
    for name in ("b", "c"):
        rows = group == name
        assert t.by_group[name].value == certified(p[rows], y[rows], confidence=0.975).value
    for name, share in t.common.items():
        rows = (group == name) & (p >= t.value)
        assert (share.coverage, share.risk) == (rows.sum() / (group == name).sum(), (1 - y)[rows].mean())
        assert share.risk_low <= share.risk <= share.risk_high


def test_small_groups_say_why_they_have_no_threshold() -> None:
    p, y = sample(2_000)
    t = certified(p, y, groups=np.where(np.arange(2_000) < 20, "few", "many"))
    assert t.by_group["few"].reason == "fewer than 57 rows"
    assert t.by_group["many"].value is not None


def test_many_groups_with_a_larger_risk_are_not_certified() -> None:
    rng = np.random.default_rng(0)
    n = 130 * 300
    t = certified(rng.random(n), (rng.random(n) < 0.85).astype(int), groups=np.arange(n) % 130)
    assert not any(part.certified for part in t.by_group.values())


def test_a_group_of_one_cluster_says_so() -> None:
    p, y = sample(3_000)
    t = certified(p, y, groups=np.where(np.arange(3_000) < 5, "tiny", "rest"), clusters=np.arange(3_000) // 5)
    assert t.by_group["tiny"].reason == "fewer than 2 clusters"
    assert t.by_group["rest"].value is not None


def test_scores_are_accepted_in_double_precision() -> None:
    p, y = sample(200_000, 3)
    p = p.astype(np.float16).astype(np.float32)
    sketch = sketch_of(p, y)
    t = certified(sketch, max_risk=0.12)
    assert 0 < t.coverage < 1
    for dtype in (np.float16, np.float32, np.float64):
        assert t.accepts(p.astype(dtype)).sum() == pytest.approx(t.n_automatic, abs=300)
        assert np.array_equal(t.accepts(p.astype(dtype)), t.accepts(p.astype(np.float64)))
    with pytest.raises(InputError):
        t.accepts(["high"])


def test_predicted_classes_have_thresholds_of_their_own() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 2, (6_000, 3))
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = np.array([rng.choice(3, p=row) for row in probs])
    t = certified(probs, labels, per_class=True, class_names=["a", "b", "c"])
    predicted = probs.argmax(axis=1)
    assert list(t.by_group) == ["a", "b", "c"]
    for k, part in enumerate(t.by_group.values()):
        rows = predicted == k
        assert part.n == rows.sum()
        acted = rows & (probs.max(axis=1) >= part.value)
        assert (part.n_automatic, part.n_errors) == (acted.sum(), (labels != k)[acted].sum())
    assert t.per_class


# ---------------------------------------------------------------- costs


def test_costs_are_means_of_rows() -> None:
    p, y = sample(2_000)
    t = certified(p, y, cost_of_error=10, cost_of_referral=2)
    assert t.costs is not None
    each = np.where(p >= t.value, 10 * (1 - y), 2)
    half = 1.959964 * each.std(ddof=1) / math.sqrt(2_000)
    cost, benefit = t.costs.cost, t.costs.net_benefit
    assert (cost.value, cost.low, cost.high) == pytest.approx((each.mean(), each.mean() - half, each.mean() + half))
    odds = 10 / 2 - 1
    right, wrong = t.n_automatic - t.n_errors, t.n_errors
    assert benefit.value == pytest.approx((right - wrong * odds) / 2_000)
    assert benefit.high - benefit.low == pytest.approx((cost.high - cost.low) / 2)
    assert t.costs.all_automatic == pytest.approx(10 * (1 - y).mean())
    assert t.costs.planned == 0.8
    none = certified(*sample(300, risk=0.3), cost_of_error=10, cost_of_referral=2)
    assert (none.costs.cost.value, none.costs.net_benefit.value) == (2, 0)


def test_costs_of_two_sides() -> None:
    p, y = draw(2, 3_000)
    two = calibrant.certify_two_sided(p, y, yes_risk=0.2, no_risk=0.2, cost_of_error=5, cost_of_referral=1)
    yes, no = two.yes.accepts(p), two.no.accepts(p)
    each = np.where(yes, 5 * (1 - y), np.where(no, 5 * y, 1))
    assert two.costs.cost.value == pytest.approx(each.mean())
    assert two.costs.all_automatic == pytest.approx(5 * np.mean((p >= 0.5) != y))


# ---------------------------------------------------------------- two sides


def test_two_sides_are_two_thresholds_with_half_of_alpha() -> None:
    p, y = draw(2, 5_000)
    two = calibrant.certify_two_sided(p, y, yes_risk=0.1, no_risk=0.2)
    assert two.yes.value == certified(p, y, max_risk=0.1, confidence=0.975).value
    assert two.no.value == 1 - certified(1 - p, 1 - y, max_risk=0.2, confidence=0.975).value
    assert two.no.value < two.yes.value
    assert two.coverage == np.mean((p >= two.yes.value) | (p <= two.no.value))
    assert (two.yes.confidence, two.confidence, two.n, two.certified) == (0.975, 0.95, 5_000, True)


def test_sides_that_meet_refer_as_few_rows_as_possible() -> None:
    rng = np.random.default_rng(2)
    p = rng.beta(0.1, 0.1, 5_000)
    y = (rng.random(5_000) < p).astype(int)
    two = calibrant.certify_two_sided(p, y, yes_risk=0.4, no_risk=0.4)
    assert two.no.value < two.yes.value
    assert 0.98 < two.coverage <= 1
    assert not (two.yes.accepts(p) & two.no.accepts(p)).any()


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"max_risk": 0}, "max_risk: expected a number above 0 and up to 0.5, got 0"),
        ({"max_risk": 5}, "pass a share such as 0.05, not percent"),
        ({"max_risk": 0.6}, "pass a share such as 0.05"),
        ({"max_risk": "5 %"}, "max_risk: expected a number"),
        ({"max_risk": True}, "max_risk: expected a number"),
        (
            {"confidence": 95},
            "confidence: expected a number from 0.5 to below 1, got 95; pass a share such as 0.95, not",
        ),
        ({"confidence": 1.0}, "confidence"),
        ({"method": "holm"}, "method: expected one of 'closed'"),
        ({"method": "betting"}, "method: expected clusters with 'betting', got independent rows"),
        (
            {"max_risk": 0.001},
            "max_risk: expected at least 5,296 rows for a risk of 0.001 with confidence 0.95, got 500",
        ),
        ({"max_risk": 0.005, "method": "fixed-sequence"}, "expected at least 1,258 rows"),
        ({"cost_of_error": 3}, "cost_of_referral: expected a cost, because the other cost is given"),
        ({"cost_of_error": 3, "cost_of_referral": 3}, "expected less than the cost of an error"),
        ({"cost_of_error": -3, "cost_of_referral": 3}, "cost_of_error: expected a number above 0"),
        ({"per_class": True}, "per_class: expected rows with probabilities of several classes, got one event"),
        ({"clusters": np.zeros(500, int)}, "clusters: expected at least 2 clusters, got 1"),
        ({"per_class": True, "groups": np.arange(500) % 2}, "per_class"),
        (
            {"largest_cluster": 5},
            "largest_cluster: expected clusters together with largest_cluster, got independent rows",
        ),
        ({"max_weight": 5}, "max_weight: expected weights together with max_weight, got rows without weights"),
        (
            {"clusters": np.arange(500) // 5, "largest_cluster": 4},
            "largest_cluster: expected at least 5, the largest value in these rows, got 4",
        ),
        (
            {"weights": 0.5 + np.arange(500) % 3, "max_weight": 2},
            "max_weight: expected at least 2.5, the largest value in these rows, got 2",
        ),
        ({"clusters": np.arange(500) // 5, "largest_cluster": "5"}, "largest_cluster: expected a number above 0"),
        ({"clusters": np.arange(500) // 5, "largest_cluster": math.nan}, "largest_cluster: expected a number above 0"),
        (
            {"clusters": np.arange(500) // 5, "largest_cluster": 9, "method": "closed"},
            "largest_cluster: expected method 'betting' together with largest_cluster, got 'closed'",
        ),
    ],
)
def test_bad_arguments_are_named(how: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        certified(*sample(500), **how)


def test_classes_one_by_one_are_refused() -> None:
    probs = np.full((200, 2), 0.5)
    with pytest.raises(InputError, match="notion: expected 'positive' or 'top-label', got 'classwise'"):
        certified(probs, np.arange(200) % 2, notion="classwise")
    sketch = calibrant.CalibrationSketch(notion="classwise")
    sketch.update(probs, np.arange(200) % 2)
    with pytest.raises(InputError, match="notion"):
        certified(sketch)
    with pytest.raises(
        InputError, match="probs: expected the probability of one event, to decide yes or no about this event"
    ):
        calibrant.certify_two_sided(probs, np.arange(200) % 2)


def test_scores_without_order_and_predictions_as_outcomes_are_refused() -> None:
    p, y = sample(500)
    with pytest.raises(InputError, match=r"probs: expected at least two different scores, got 0\.7 in every row"):
        certified(np.full(500, 0.7), y)
    for outcome in (p >= 0.7, (p >= 0.7).astype(float)):
        with pytest.raises(InputError, match=r"targets: expected true outcomes, got outcomes that the threshold 0\.70"):
            certified(p, outcome)
        with pytest.raises(InputError, match="targets: expected true outcomes"):
            calibrant.certify_two_sided(p, outcome)
    few = (p >= np.sort(p)[10]).astype(int)  # ten errors may have the lowest scores by chance
    assert certified(p, few).value is not None


def test_rows_that_are_all_right_against_the_odds_are_flagged() -> None:
    p, _ = sample(500)
    t = certified(p, np.ones(500, int))
    assert t.coverage == 1
    assert "check that the targets are the true outcomes, and not predictions" in t.flag
    assert t.verdict()[0].startswith("Caution: no row is wrong, although the scores expect 98 errors")
    assert not certified(np.linspace(0.999, 1, 500), np.ones(500, int)).flag


# ---------------------------------------------------------------- the value


def test_the_dictionary_is_strict_json_and_the_value_survives_pickling() -> None:
    p, y = sample(1_000)
    for t in (
        certified(p, y, groups=np.arange(1_000) % 2, cost_of_error=10, cost_of_referral=1),
        certified(*sample(300, 9, risk=0.03), max_risk=0.05),
        calibrant.certify_two_sided(p, y, yes_risk=0.1, no_risk=0.3),
    ):
        numbers = json.loads(json.dumps(t.to_dict(), allow_nan=False))
        again = pickle.loads(pickle.dumps(t))
        assert again.to_dict() == t.to_dict() == numbers
        assert str(t) == str(again)
        assert repr(t).startswith(f"<{type(t).__name__}: ")
        assert t.to_markdown().startswith("## Certified threshold")
        assert "svg" in t._repr_html_()


def test_the_page_and_the_figure_show_the_threshold(tmp_path: Any) -> None:
    pytest.importorskip("matplotlib").use("agg")
    p, y = sample(1_000)
    t = certified(p, y, groups=np.arange(1_000) % 2)
    page = t.to_html(tmp_path / "page.html", title="Answers").read_text()
    assert "Answers" in page
    assert f"{100 * t.coverage:.3g}" in page
    axes = t.plot()
    assert axes.get_xlabel() == "Coverage"
    assert axes.lines[0].get_ydata()[-1] == (1 - y).mean()
    assert [line.get_label() for line in axes.lines[1:]] == ["At most 10 %", "Certified threshold"]
    two = calibrant.certify_two_sided(p, y, yes_risk=0.1, no_risk=0.3)
    assert two.plot().get_title() == 'Decisions "yes"'


def test_the_threshold_of_a_group_is_shown_without_a_curve() -> None:
    p, y = sample(1_000)
    part = certified(p, y, groups=np.arange(1_000) % 2).by_group["0"]
    assert part.curve is None
    assert part.verdict()[0].startswith("Automate ")
    for shown in (str(part), part.to_markdown(), part._repr_html_()):
        assert "500 rows" in shown
        assert "Error rate by coverage" not in shown


def test_the_verdict_computes_no_curve() -> None:
    t = replace(certified(*sample(1_000)), curve_maker=lambda: pytest.fail("the curve is computed"))
    assert t.verdict()[0] in repr(t)


def test_the_page_has_the_numbers_of_each_picture(tmp_path: Any) -> None:
    p, y = sample(1_000)
    two = calibrant.certify_two_sided(p, y, yes_risk=0.1, no_risk=0.3)
    page = two.to_html(tmp_path / "page.html").read_text()
    for side, name in ((two.yes, ""), (two.no, "-no")):
        assert f'data-part="risk-coverage{name}"' in page
        (link,) = re.findall(f'download="risk-coverage{name}.csv" href="([^"]*)"', page)
        rows = list(csv.DictReader(io.StringIO(unquote(link).partition(",")[2])))
        assert [float(row["risk"]) for row in rows] == side.curve.risks.tolist()
        assert f'download="areas{name}.csv"' in page


def test_the_rounded_threshold_is_short_and_exact_where_scores_are_close() -> None:
    p, y = sample(800)
    t = certified(p, y, max_risk=0.15)
    assert 0 < t.coverage < 1
    assert len(repr(t.rounded)) < 7
    assert np.array_equal(p >= t.rounded, t.accepts(p))
    close = 0.9 + p * 1e-14
    near = certified(close, y, max_risk=0.15)
    assert 0 < near.coverage < 1
    assert np.array_equal(close >= near.rounded, near.accepts(close))


def test_ranked_rows_of_both_sides_mirror_each_other() -> None:
    p, y = sample(400, places=2)
    table = ReliabilityTable.from_scores(p, y)
    down, up = Ranked.of(table, downward=True), Ranked.of(ReliabilityTable.from_scores(1 - p, 1 - y))
    assert down.thresholds == pytest.approx(1 - up.thresholds)
    assert np.array_equal(down.weights, up.weights)
    assert np.array_equal(down.wrong, up.wrong)


def test_certified_ranges_that_overlap_leave_the_fewest_rows_between() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        weights = rng.integers(1, 50, 12).astype(np.float64)
        down, up = (Ranked(thresholds=w, scores=w, weights=w, wrong=0 * w) for w in (weights, weights[::-1]))
        yes, no = (np.sort(rng.choice(np.arange(2, 12), 4, replace=False)) for _ in range(2))
        pairs = itertools.product([0, *(yes + 1)], [0, *(no + 1)])
        fewest = min(weights[k : 12 - j].sum() for k, j in pairs if k + j <= 12)
        first, last = (int(kept[-1]) + 1 if len(kept) else 0 for kept in certify._apart(yes, no, down, up))
        assert first + last <= 12
        assert weights[first : 12 - last].sum() == fewest
