"""Monitors: e-processes against naive forms, their laws, what alarms say, groups, clusters, promises, states."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit

import calibrant
from calibrant.errors import FileError, InputError
from calibrant.monitoring import evidence, state, window
from calibrant.monitoring.evidence import TILTS, WEIGHTS, Frame, Tolerance, growth_of_cells
from calibrant.monitoring.slices import drift_of
from calibrant.statistics.cells import Cells
from calibrant.statistics.e_processes import BETS, Mixture, Wealth, adjusted
from calibrant.table import ReliabilityTable
from tests.examples_of import at_most
from tests.samples import sketch_of


def rows(n: int, seed: Any, shift: float = 0.0, slope: float = 1.0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    return p, (rng.random(n) < expit(shift + slope * logit(p))).astype(np.int64)


def watched(slices: int, n: int, change: int, seed: int = 0, **drift: float) -> calibrant.Monitor:
    watch = calibrant.Monitor()
    for t in range(slices):
        watch.update(*rows(n, [seed, t], **(drift if t >= change else {})), label=f"w{t}")
    return watch


# ---------------------------------------------------------------- the e-process


def test_the_tilts_are_those_of_the_contract() -> None:
    assert len(TILTS) == 50
    assert WEIGHTS.sum() == pytest.approx(1)
    for family, number in (("level", 10), ("slope", 10), ("range", 30)):
        members = [tilt for tilt in TILTS if tilt.family == family]
        assert len(members) == number
        assert sum(tilt.weight for tilt in members) == pytest.approx(1 / 3)
    assert {tilt.bin for tilt in TILTS if tilt.family == "range"} == {0, 1, 2, 3, 4}


def naive_growth(p: Any, y: Any, frame: Frame, tolerance: Tolerance) -> list[float]:
    """Return the growth of each tilt, row by row."""
    found = []
    for tilt in TILTS:
        total = 0.0
        for score, outcome in zip(p, y, strict=True):
            z = -math.inf if score == 0 else math.inf if score == 1 else math.log(score / (1 - score))
            shape = {
                "level": 1.0,
                "slope": min(max((z - frame.middle) / frame.spread, -3), 3),
                "range": float(sum(z > edge for edge in frame.edges) == tilt.bin),
            }[tilt.family]
            moved = tilt.size * shape
            b = score
            if moved:
                up = moved > 0
                b = min(1, score + tolerance.points) if up else max(0, score - tolerance.points)
                if tolerance.odds > 1:
                    b = expit(z + (1 if up else -1) * math.log(tolerance.odds))
            total += moved * outcome - math.log1p(b * math.expm1(moved))
        found.append(total)
    return found


@pytest.mark.parametrize("tolerance", [Tolerance(), Tolerance(points=0.02), Tolerance(odds=1.3)])
def test_growth_is_the_sum_over_rows(tolerance: Tolerance) -> None:
    p, y = rows(300, 1)
    p[:4], y[:4] = [0, 1, 0, 1], [0, 1, 1, 0]
    frame = Frame(0.2, 1.4, (-1.0, -0.2, 0.3, 1.1))
    cells = Cells.from_table(ReliabilityTable.from_scores(p, y))
    found = growth_of_cells(cells, frame, tolerance)
    assert found == pytest.approx(naive_growth(p, y, frame, tolerance), rel=1e-9, abs=1e-9)
    assert growth_of_cells(cells, frame, tolerance, unit=4.0) == pytest.approx(found / 4)


@at_most(40)
@given(
    st.integers(0, 10**6), st.integers(5, 2_000), st.sampled_from([Tolerance(), Tolerance(0.03), Tolerance(odds=1.2)])
)
def test_cells_never_have_more_evidence_than_their_rows(seed: int, n: int, tolerance: Tolerance) -> None:
    rng = np.random.default_rng(seed)
    p = rng.beta(*rng.choice([0.3, 1, 3, 8], 2), n)
    y = (rng.random(n) < p).astype(int)
    exact, grid = (ReliabilityTable.from_scores(p, y, grid=grid) for grid in (None, "standard"))
    frame = Frame.of(np.ones(n), p)
    of_rows, of_cells = (evidence.growth_of_cells(Cells(table), frame, tolerance) for table in (exact, grid))
    for tilt, one, other in zip(TILTS, of_cells, of_rows, strict=True):
        if tilt.family == "level":  # the others move the rows of a cell by slightly different amounts
            assert one <= other + 1e-9


def test_the_mixture_follows_its_definition() -> None:
    rng = np.random.default_rng(0)
    mixture, a = Mixture.start(3), np.zeros(3)
    weights = np.array([0.5, 0.3, 0.2])
    for t in range(1, 30):
        growth = rng.normal(0, 0.5, 3)
        mixture = mixture.grown(growth)
        a = (a + 1 / (t * (t + 1))) * np.exp(growth)
        assert mixture.log_e(weights) == pytest.approx(math.log(weights @ a + 1 / (t + 1)))


def test_frames_are_weighted_by_information() -> None:
    rng = np.random.default_rng(0)
    p = rng.beta(0.5, 2, 5_000)
    frame, v, z = Frame.of(np.ones(5_000), p), p * (1 - p), logit(p)
    assert frame.middle == pytest.approx(np.average(z, weights=v))
    assert frame.spread == pytest.approx(math.sqrt(np.average((z - frame.middle) ** 2, weights=v)))
    bins = np.searchsorted(frame.edges, z)
    assert np.bincount(bins, v) / v.sum() == pytest.approx(np.full(5, 0.2), abs=0.002)
    assert Frame.of(np.array([3.0, 2.0]), np.array([0.0, 1.0])) == Frame(0.0, 1.0, (0.0,) * 4)
    assert Frame.of(np.array([3.0]), np.array([0.3])).spread == 1


# ---------------------------------------------------------------- monitors


def test_a_calibrated_model_raises_no_alarm_and_a_drift_is_found() -> None:
    good = watched(40, 300, 99)
    assert not good.alarm
    assert good.drift is None
    assert good.p_value == min(1, 1 / good.evidence)
    bad = watched(30, 300, 15, shift=0.6)
    assert bad.alarm
    assert bad.p_value <= 0.05
    assert bad.drift is not None
    assert bad.labels.index(bad.drift.since) == pytest.approx(15, abs=2)
    assert bad.labels.index(bad.drift.earliest) <= 15 <= bad.labels.index(bad.drift.latest)
    assert (bad.drift.family, bad.drift.repair) == ("level", "offset")
    assert bad.drift.offset == pytest.approx(0.6, abs=0.15)
    p = np.linspace(0.0005, 0.9995, 1_000)
    assert bad.drift.low < np.mean(p - expit(logit(p) + 0.6)) < bad.drift.high


def test_the_kind_of_a_drift_is_told() -> None:
    slope = watched(24, 2_000, 8, slope=0.7).drift
    assert slope is not None
    assert (slope.family, slope.repair) == ("slope", "slope")
    assert slope.slope == pytest.approx(0.7, abs=0.1)
    watch = calibrant.Monitor()
    for t in range(20):
        p, _ = rows(2_000, [5, t])
        moved = np.where(p > 0.75, -0.8, 0.0) if t > 6 else 0.0
        watch.update(p, np.random.default_rng([6, t]).random(2_000) < expit(logit(p) + moved), label=f"{t}")
    assert watch.drift is not None
    assert watch.drift.repair == "refit"


def test_evidence_of_rows_does_not_depend_on_their_order_nor_on_clusters_of_one() -> None:
    one, other, alone = calibrant.Monitor(), calibrant.Monitor(), calibrant.Monitor()
    for t in range(4):
        p, y = rows(500, t, shift=0.3)
        order = np.random.default_rng(t).permutation(500)
        one.update(p, y)
        other.update(p[order], y[order])
        alone.update(p, y, clusters=np.arange(500))
    assert one.to_dict() == other.to_dict() == alone.to_dict()


def test_sketches_have_nearly_the_evidence_of_rows_and_add_up() -> None:
    of_rows, of_sketches, of_parts = calibrant.Monitor(), calibrant.Monitor(), calibrant.Monitor()
    for t in range(6):
        p, y = rows(1_000, t, shift=0.25)
        sketch, parts = calibrant.CalibrationSketch(), [calibrant.CalibrationSketch() for _ in range(2)]
        sketch.update(p, y)
        for part, held in zip(parts, (slice(0, 300), slice(300, None)), strict=True):
            part.update(p[held], y[held])
        of_rows.update(p, y)
        of_sketches.update(sketch)
        of_parts.update(parts[1] + parts[0])
    assert of_sketches.log_e == pytest.approx(of_rows.log_e, abs=0.01)
    assert of_parts.log_e == pytest.approx(of_sketches.log_e, rel=1e-9)


def test_weights_of_two_are_rows_twice_and_others_need_a_bound() -> None:
    p, y = rows(400, 1, shift=0.5)
    weights = np.random.default_rng(0).integers(1, 3, 400)
    one, other = calibrant.Monitor(), calibrant.Monitor()
    one.update(p, y, weights=weights, weights_are="frequency")
    other.update(np.repeat(p, weights), np.repeat(y, weights))
    assert one.log_e == pytest.approx(other.log_e)
    with pytest.raises(InputError, match="weights: expected whole numbers, or max_weight"):
        one.update(p, y, weights=weights / 3)
    bounded, plain = calibrant.Monitor(max_weight=1.0), calibrant.Monitor()
    bounded.update(p, y, weights=np.where(np.arange(400) % 2, 1.0, 0.25))
    plain.update(p, y)
    assert bounded.log_e < plain.log_e
    for factor in (1e-9, 1e-3, 3.0):  # the unit plays no part, but for the edges of ranges
        scaled = calibrant.Monitor(max_weight=factor)
        scaled.update(p, y, weights=factor * np.where(np.arange(400) % 2, 1.0, 0.25))
        assert scaled.log_e == pytest.approx(bounded.log_e, rel=0.01)
        table = ReliabilityTable.from_predictions(p, y, weights=np.where(np.arange(400) % 2, 1.0, 0.25))
        of_table = calibrant.Monitor(max_weight=1.0)
        of_table.update(table)
        assert of_table.log_e == pytest.approx(bounded.log_e)
    with pytest.raises(InputError, match=r"weights: expected at most max_weight = 1, got 1\.5"):
        calibrant.Monitor(max_weight=1).update(p, y, weights=np.where(np.arange(400) % 2, 1.5, 0.25))
    with pytest.raises(InputError, match="weights: expected weights of a known kind"):
        calibrant.Monitor().update(p, y, weights=np.arange(400) % 40 + 10.0)


def in_clusters(seed: Any, n_clusters: int = 20, size: int = 10) -> tuple[Any, Any, Any]:
    """Return calibrated rows whose outcomes share a normal variable in their cluster."""
    from scipy.stats import norm

    rng = np.random.default_rng(seed)
    common = np.sqrt(0.3) * rng.normal(size=(n_clusters, 1)) + np.sqrt(0.7) * rng.normal(size=(n_clusters, size))
    p = rng.random((n_clusters, size))
    return p.reshape(-1), (norm.cdf(common) < p).reshape(-1).astype(int), np.repeat(np.arange(n_clusters), size)


def test_clusters_add_the_mean_over_their_rows() -> None:
    p, y, clusters = in_clusters(0)
    frame = Frame.of(np.ones(len(p)), p)
    single = [
        growth_of_cells(Cells(ReliabilityTable.from_scores(p[[i]], y[[i]])), frame, Tolerance()) for i in range(len(p))
    ]
    expected = sum(
        np.log(np.mean(np.exp([single[i] for i in np.flatnonzero(clusters == g)]), axis=0)) for g in range(20)
    )
    watch = calibrant.Monitor()
    watch.update(p, y, clusters=clusters)
    table = ReliabilityTable.from_scores(p, y).on_grid("standard")
    own = Frame.of(table.counts.astype(float), table.scores)
    assert own.middle == pytest.approx(frame.middle, abs=0.01)
    assert watch._slices[0].growth == pytest.approx(expected, abs=0.02)
    sketch = sketch_of(p, y, clusters=clusters)
    of_sketch = calibrant.Monitor()
    of_sketch.update(sketch)
    assert of_sketch.log_e == pytest.approx(watch.log_e, abs=0.05)
    assert of_sketch.log_e < calibrant_of_rows(p, y) + 0.5


def calibrant_of_rows(p: Any, y: Any) -> float:
    watch = calibrant.Monitor()
    watch.update(p, y)
    return watch.log_e


def test_sketches_of_engines_and_of_training_loops_feed_it() -> None:
    duckdb, pa = pytest.importorskip("duckdb"), pytest.importorskip("pyarrow")
    p, y = rows(3_000, 1, shift=0.2)
    frame = duckdb.from_arrow(pa.table({"p": p, "y": y, "g": np.arange(3_000) % 2}))
    of_rows, of_frame, of_groups = calibrant.Monitor(), calibrant.Monitor(), calibrant.Monitor()
    of_rows.update(p, y)
    of_frame.update(calibrant.frames.sketch(frame, score="p", outcome="y"))
    of_groups.update(calibrant.frames.sketch(frame, score="p", outcome="y", by="g"))
    assert of_frame.log_e == pytest.approx(of_rows.log_e, abs=0.01)
    assert [group["name"] for group in of_groups.to_dict()["groups"]] == ["0", "1"]
    torch = pytest.importorskip("torch")
    metric = calibrant.torch.CalibrationReport(state="sketch")
    metric.update(torch.from_numpy(p), torch.from_numpy(y))
    of_torch = calibrant.Monitor()
    of_torch.update(metric.sketch())
    assert of_torch.log_e == pytest.approx(of_frame.log_e, rel=1e-6)


# ---------------------------------------------------------------- groups


def test_closed_testing_is_that_of_all_subsets() -> None:
    rng = np.random.default_rng(0)
    logs = dict(zip("abcdef", rng.normal(1, 2, 6).tolist(), strict=True))
    found = adjusted(logs)
    for name in logs:
        others = [each for each in logs if each != name]
        subsets = itertools.chain.from_iterable(itertools.combinations(others, k) for k in range(6))
        least = min(np.mean([math.exp(logs[each]) for each in (name, *subset)]) for subset in subsets)
        assert found[name] == pytest.approx(math.log(least))


def test_no_group_is_called_out_without_an_alarm() -> None:
    """Both together are then false with a probability of at most alpha: groups may have evidence that all rows lack."""
    watch, some = calibrant.Monitor(), 0
    for t in range(60):
        p, y = rows(200, t)
        group = np.arange(200) % 2
        y = (np.random.default_rng([2, t]).random(200) < expit(logit(p) + 0.3 * (1 - 2 * group))).astype(int)
        watch.update(p, y, groups=group)
        flagged = any(each.most >= math.log(20) for each in watch._groups.values())
        some += flagged and not watch.alarm
        assert watch.alarm or not watch.called_out
    assert some > 0
    assert watch.alarm
    assert watch.called_out == ["0", "1"]


def test_groups_are_declared_by_the_first_slice_and_called_out() -> None:
    watch = calibrant.Monitor()
    for t in range(25):
        p, y = rows(600, t)
        group = np.arange(600) % 3
        held = group == 1
        y[held] = (np.random.default_rng([1, t]).random(held.sum()) < expit(logit(p[held]) + 0.8)).astype(int)
        watch.update(p, y, groups=group)
    assert watch.alarm
    assert watch.called_out == ["1"]
    watch.update(*rows(100, 0), groups=np.zeros(100, int))  # the others have no rows in this slice
    with pytest.raises(InputError, match=r"groups: expected the declared groups \(0, 1, 2\), got '7'; begin a new mon"):
        watch.update(*rows(100, 0), groups=np.full(100, 7))


def test_groups_may_be_declared_before_they_have_rows() -> None:
    watch = calibrant.Monitor(groups=["north", "south"])
    watch.update(*rows(100, 0), groups=np.full(100, "north"))
    watch = calibrant.Monitor.from_json(watch.to_json())
    watch.update(*rows(100, 1), groups=np.full(100, "south"))
    assert watch.groups == ["north", "south"]
    assert [group["n"] for group in watch.to_dict()["groups"]] == [100, 100]
    with pytest.raises(InputError, match="groups: expected the declared groups"):
        watch.update(*rows(100, 2), groups=np.full(100, "east"))
    declared = calibrant.Monitor(groups=["0", "1"])
    plain = calibrant.Monitor()
    for each in (declared, plain):
        each.update(*rows(100, 0), groups=np.arange(100) % 2)
    assert declared.to_json() == plain.to_json()
    for wrong in ("north", [], ["a", "a"]):
        with pytest.raises(InputError, match="groups: expected one or more names, each once"):
            calibrant.Monitor(groups=wrong)


# ---------------------------------------------------------------- the mean difference


def naive_log_e(slices: list[tuple[Any, Any]], difference: float) -> float:
    """Return the logarithm of the mixture of bets that the mean of p - q is this, row by row."""
    p, y = (np.concatenate(each).astype(float) for each in zip(*slices, strict=True))
    prior = float(np.sum(slices[0][0] * (1 - slices[0][0])))
    bets = [sign * size for size in (0.99, *(2 ** (-k / 2) for k in range(1, 33))) for sign in (1, -1)]
    weights = np.array([abs(bet) * math.exp(-(bet**2) * prior / 2) for bet in bets])
    ratios = [float(np.sum(np.log1p(bet * (p - y)) - math.log1p(bet * difference))) for bet in bets]
    return math.log(float(weights @ np.exp(ratios) / weights.sum()))


@pytest.mark.parametrize(("scores", "n"), [((0.0, 1.0), 60), ((0.005, 0.02), 100), ((0.9, 1.0), 40)])
def test_the_ends_of_the_confidence_sequence_are_rejected_by_the_bets(scores: tuple[float, float], n: int) -> None:
    slices, watch = [], calibrant.Monitor()
    for t in range(6):
        rng = np.random.default_rng([t, n])
        p = rng.uniform(*scores, n)
        slices.append((p, (rng.random(n) < p).astype(int)))
        watch.update(*slices[-1])
        every = np.concatenate([each for each, _ in slices])
        for end, limit in zip(watch._slices[-1].bounds[:2], (every.mean() - 1, every.mean()), strict=True):
            at_end = naive_log_e(slices, end)
            if end != pytest.approx(limit, abs=1e-12):
                assert at_end == pytest.approx(-math.log(0.05), abs=1e-6)
            else:
                assert at_end <= -math.log(0.05) + 1e-6


def test_bets_of_clusters_and_of_weights_are_those_of_their_units() -> None:
    """The wealth of clusters is that of their sums, and that of a row with the weight w is a power w / bound."""
    p, y, clusters = in_clusters(3)
    watch, weighted = calibrant.Monitor(), calibrant.Monitor(max_weight=4)
    watch.update(p, y, clusters=clusters)
    sums = np.bincount(clusters, p - y)
    weights = np.random.default_rng(0).uniform(0.5, 4, len(p))
    weighted.update(p, y, weights=weights)
    for bet, of_clusters, of_weights in zip(BETS, watch._wealth.logs, weighted._wealth.logs, strict=True):
        if abs(bet) * 10 < 1:  # ten rows in a cluster
            assert of_clusters == pytest.approx(np.sum(np.log1p(bet * sums)))
        else:
            assert of_clusters == -math.inf
        if abs(abs(bet) * 4 - 1) < 1e-9:
            continue
        naive = np.sum(weights / 4 * np.log1p(4 * bet * (p - y))) if abs(bet) * 4 < 1 else -math.inf
        assert of_weights == pytest.approx(naive)
    assert (watch._wealth.units, weighted._wealth.units) == (20, pytest.approx(weights.sum() / 4))
    other = calibrant.Monitor.from_json(watch.to_json())
    for each in (watch, other):
        each.update(p, y)  # a lost bet stays lost
    assert np.array_equal(watch._wealth.logs, other._wealth.logs)
    assert np.isneginf(watch._wealth.logs[0])


#: Scores, true probabilities and rows of a slice; the variance that is seen is at first far below p (1 - p).
FEW = [(0.01, 0.01, 50), (0.3, 0.3, 3), (0.001, 0.02, 50), (0.98, 0.9, 50), (0.5, 0.5, 20), (0.999, 0.999, 200)]


@pytest.mark.slow
@pytest.mark.parametrize(("score", "rate", "n"), FEW)
def test_the_confidence_sequence_covers_from_the_first_slice_on(score: float, rate: float, n: int) -> None:
    runs, missed = 400, 0
    for run in range(runs):
        wealth, rng = Wealth.start(), np.random.default_rng([run, n])
        for t, events in enumerate(rng.binomial(n, rate, 40).tolist()):
            cells = SimpleNamespace(
                scores=np.array([score]), counts=np.array([float(n)]), positives=np.array([float(events)]), total=n
            )
            wealth = wealth.grown(*evidence.bets_of_cells(cells, 1.0))  # type: ignore[arg-type]
            if wealth.log_e(score - rate, n * (t + 1), n * score * (1 - score)) >= -math.log(0.05):
                missed += 1
                break
    assert missed / runs <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)


def test_the_interval_of_many_rows_is_as_wide_as_that_of_the_normal_mixture() -> None:
    watch = watched(8, 3_000, 99)
    variance = sum(each.information for each in watch._slices)
    first = watch._slices[0].information
    half = math.sqrt((variance + first) * math.log((variance + first) / (first * 0.05**2))) / (8 * 3_000)
    bounds = watch._slices[-1].bounds
    assert bounds.informative
    assert (bounds.high - bounds.low) / 2 == pytest.approx(half, rel=0.03)


def test_an_interval_waits_until_it_says_something() -> None:
    watch = calibrant.Monitor()
    for _ in range(4):
        watch.update(np.full(50, 0.01), np.zeros(50))
    last = watch.to_dict()["slices"][-1]
    assert not last["informative"]
    assert last["low"] < 0
    assert last["high"] == pytest.approx(0.01)  # with no events at all
    assert "There are not yet enough rows for a useful CI." in watch.verdict()[1]
    for _ in range(40):
        watch.update(np.full(50, 0.01), np.zeros(50))
    assert watch.to_dict()["slices"][-1]["low"] > 0


@pytest.mark.slow
def test_alarms_are_rare_and_sequences_cover() -> None:
    alarms, misses = 0, 0
    for run in range(120):
        watch = watched(120, 60, 999, seed=1_000 + run)
        alarms += watch.alarm
        misses += any(not part.bounds.low <= 0 <= part.bounds.high for part in watch._slices)
    for errors in (alarms, misses):
        assert errors / 120 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 120)


# ---------------------------------------------------------------- what an alarm says


def at_alarm(score: float, rate: float, n: int, good: int, seed: Any) -> tuple[calibrant.Monitor, float]:
    """Return a monitor at its alarm, and the mean difference since the drift began."""
    watch, rng = calibrant.Monitor(), np.random.default_rng(seed)
    for _ in range(good):
        watch.update(np.full(n, score), rng.random(n) < score)
    while not watch.alarm:
        watch.update(np.full(n, score), rng.random(n) < rate)
    return watch, score - rate


@pytest.mark.parametrize(("score", "rate"), [(0.05, 0.01), (0.3, 0.5), (0.98, 0.9)])
def test_one_constant_score_needs_a_new_offset_only(score: float, rate: float) -> None:
    for seed in range(5):
        drift = at_alarm(score, rate, 50, 3, seed)[0].drift
        assert drift is not None
        assert (drift.family, drift.repair) == ("level", "offset")


@pytest.mark.slow
@pytest.mark.parametrize(("score", "rate", "good"), [(0.05, 0.01, 0), (0.05, 0.01, 20), (0.98, 0.9, 20)])
def test_the_interval_of_the_size_covers(score: float, rate: float, good: int) -> None:
    held = []
    for seed in range(150):
        watch, size = at_alarm(score, rate, 50, good, seed)
        if watch.drift is not None and len(watch.labels) > good:
            held.append(watch.drift.low <= size <= watch.drift.high)
    assert np.mean(held) >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / len(held))


# ---------------------------------------------------------------- impossible outcomes


@pytest.mark.parametrize("kind", ["rows", "sketch", "clusters", "group", "top label"])
def test_one_impossible_outcome_raises_the_alarm(kind: str) -> None:
    p, y = np.append(np.full(60, 0.5), np.zeros(20)), np.append(np.arange(60) % 2, np.zeros(20, int))
    watch = calibrant.Monitor(groups=["a", "b"] if kind == "group" else None)
    watch.update(p, y, groups=np.full(80, "b") if kind == "group" else None)
    assert not watch.alarm
    y[-1] = 1
    if kind == "sketch":
        sketch = sketch_of(p, y)
        watch.update(sketch)
    elif kind == "top label":
        watch = calibrant.Monitor()
        watch.update(np.stack([p, 1 - p], axis=1), y == 0)
    else:
        how = {"clusters": {"clusters": np.arange(80) // 2}, "group": {"groups": np.arange(80) // 2 % 2 == 0}}.get(
            kind, {}
        )
        how = {key: np.where(value, "a", "b") if key == "groups" else value for key, value in how.items()}
        watch.update(p, y, **how)
    assert (watch.alarm, watch.p_value, watch.evidence) == (True, 0, math.inf)
    assert sum(watch.impossible) == 1
    assert watch.verdict()[0].startswith("Alarm: 1 outcome is impossible according to the scores: 1 ")
    assert "so p = 0" in watch.verdict()[0]
    assert watch.called_out == (["b"] if kind == "group" else [])
    numbers = watch.to_dict()
    assert (numbers["evidence"], numbers["log_evidence"], numbers["p_value"]) == (None, None, 0)
    assert "+Inf" in watch.to_prometheus()
    again = calibrant.Monitor.from_json(watch.to_json())
    assert again.to_dict() == numbers
    assert str(again) == str(watch)
    if kind != "group":  # where the evidence of the other tilts is an alarm too
        assert watch.drift is None
        with pytest.raises(
            InputError, match="since_onset: expected an alarm about a drift, got impossible outcomes al"
        ):
            watch.since_onset()


def test_rounded_scores_of_0_and_1_exclude_nothing() -> None:
    p, y = np.array([0.0, 1.0, 0.5, 0.5]), np.array([1, 0, 1, 0])
    tolerant, of_odds, of_logits = (
        calibrant.Monitor(tolerance=0.005),
        calibrant.Monitor(tolerance_odds=2),
        calibrant.Monitor(),
    )
    tolerant.update(p, y)
    of_odds.update(p, y)
    of_logits.update(np.array([40.0, 0.0, 0.0]), np.array([0, 1, 0]), logits=True)  # 1 - 4e-18 is rounded to 1
    assert [watch.alarm for watch in (tolerant, of_odds, of_logits)] == [False, True, False]
    assert of_odds.impossible == (1, 1)


# ---------------------------------------------------------------- equal rows


def test_equal_rows_under_another_label_are_said() -> None:
    watch = calibrant.Monitor()
    for label in ("w1", "w2", "w3"):
        watch.update(*rows(200, label == "w2"), label=label)
    p, y = rows(200, False)
    sketch = sketch_of(p[::-1], y[::-1])
    watch.update(sketch, label="w4")
    watch = calibrant.Monitor.from_json(watch.to_json())
    assert [part["equal_to"] for part in watch.to_dict()["slices"]] == [None, None, "w1", "w1"]
    assert watch.verdict()[0] == "Caution: the slices w1, w3, w4 contain identical rows."
    p[0] = 1 - p[0]
    watch.update(p, y, label="w5")
    assert watch.to_dict()["slices"][-1]["equal_to"] is None


def test_slices_that_may_well_be_equal_are_not_called_so() -> None:
    watch = calibrant.Monitor()
    for _ in range(5):
        watch.update(np.full(50, 0.01), np.zeros(50))
        watch.update([0.2, 0.4, 0.7], [0, 0, 1])
    assert all(part["equal_to"] is None for part in watch.to_dict()["slices"])


# ---------------------------------------------------------------- the order of the rows


@pytest.mark.parametrize("kind", ["plain", "clusters", "weights", "groups", "frequency", "clusters weights groups"])
@pytest.mark.parametrize("n", [60, 700, 6_000])
def test_no_bit_depends_on_the_order_of_the_rows(kind: str, n: int) -> None:
    rng = np.random.default_rng(n)
    p, weights = rng.random(n), rng.uniform(0.5, 3, n)
    y, clusters, groups = (rng.random(n) < p).astype(int), rng.integers(0, n // 3, n), rng.integers(0, 3, n)
    states = set()
    for shuffle in range(4):
        order = rng.permutation(n) if shuffle else np.arange(n)
        how: dict[str, Any] = {"clusters": clusters[order]} if "clusters" in kind else {}
        how |= {"groups": groups[order]} if "groups" in kind else {}
        how |= {"weights": weights[order]} if "weights" in kind else {}
        how |= {"weights": np.ceil(weights[order]), "weights_are": "frequency"} if kind == "frequency" else {}
        watch = calibrant.Monitor(max_weight=3 if "weights" in kind else None)
        for _ in range(2):
            watch.update(p[order], y[order], **how)
        states.add(watch.to_json())
    assert len(states) == 1


# ---------------------------------------------------------------- the window


def test_the_rows_since_the_onset_are_written() -> None:
    watch = watched(30, 300, 12, shift=0.7)
    sketch = watch.since_onset()
    assert watch.drift is not None
    assert 300 <= sketch.n <= 300 * (30 - watch.drift.first)
    assert sketch.n >= 300 * (30 - watch.drift.first) / 2
    fix = calibrant.recalibrate(sketch, method="shift", n_resamples=0)
    assert fix.map.parameters["intercept"] == pytest.approx(0.7, abs=0.15)
    with pytest.raises(InputError, match="since_onset: expected an alarm"):
        calibrant.Monitor().since_onset()


def test_blocks_of_slices_lose_no_row() -> None:
    blocks: list[window.Block] = []
    total = np.zeros(2)
    for t in range(100):
        table = ReliabilityTable.from_scores(*rows(50, t), grid="standard")
        block = window.Block.of(t, table)
        total += block.counts.sum(axis=1)
        blocks = window.appended(blocks, block)
        assert [each.first for each in blocks] == np.cumsum([0, *[each.slices for each in blocks[:-1]]]).tolist()
    assert sum(each.counts.sum(axis=1) for each in blocks) == pytest.approx(total)
    assert len(blocks) < 30
    assert blocks[-1].slices == 1


# ---------------------------------------------------------------- promises


def test_the_promise_of_a_threshold_is_watched() -> None:
    rng = np.random.default_rng(0)
    p = rng.beta(4, 1, 4_000)
    threshold = calibrant.certify_threshold(p, rng.random(4_000) < p, max_risk=0.1)
    kept, broken = calibrant.Monitor(threshold=threshold), calibrant.Monitor(threshold=threshold.to_dict())
    for t in range(8):
        p = np.random.default_rng(t).beta(4, 1, 600)
        u = np.random.default_rng([9, t]).random(600)
        kept.update(p, u < p)
        broken.update(p, u < expit(logit(p) - 1))
    assert not kept.promise_broken
    assert broken.promise_broken
    (promise,) = kept.to_dict()["promises"]
    assert promise["risk"] == promise["n_errors"] / promise["n_automatic"]
    sketch = calibrant.CalibrationSketch()
    p = np.random.default_rng(0).beta(4, 1, 60_000)
    sketch.update(p, np.random.default_rng(1).random(60_000) < p)
    with pytest.raises(InputError, match="threshold: expected a threshold at an edge of the grid"):
        kept.update(sketch)
    of_sketch = calibrant.Monitor(threshold=calibrant.certify_threshold(sketch, max_risk=0.1))
    of_sketch.update(sketch)
    assert not of_sketch.promise_broken
    known = {"value": 0.5, "max_risk": 0.1, "side": "yes"}
    bad = ({"value": 2}, {"value": -1e308}, {"max_risk": 1e308}, {"notion": ["x"]}, {"n_classes": -1e308}, {"side": 1})
    for wrong in ({}, {"value": None}, *(known | each for each in bad)):
        with pytest.raises(InputError, match="threshold: expected a result that contains a certified threshold"):
            calibrant.Monitor(threshold=wrong)


def test_both_sides_of_a_threshold_have_one_alarm_together() -> None:
    """The evidence against each promise of one threshold is divided by their number, and stays so in a state."""
    sides = {
        "yes": {"value": 0.8, "side": "yes", "max_risk": 0.05},
        "no": {"value": 0.2, "side": "no", "max_risk": 0.05},
    }
    both, alone = calibrant.Monitor(threshold=sides), [calibrant.Monitor(threshold=side) for side in sides.values()]
    for t in range(3):
        p, y = rows(500, t)
        for watch in (both, *alone):
            watch.update(p, y)
    found = both.to_dict()["promises"]
    own = [watch.to_dict()["promises"][0] for watch in alone]
    assert min(each["log_evidence"] for each in own) > 0
    expected = [{**each, "log_evidence": pytest.approx(each["log_evidence"] - math.log(2))} for each in own]
    assert found == expected
    assert calibrant.Monitor.from_json(both.to_json()).to_dict()["promises"] == found
    kept = calibrant.Monitor(threshold=sides)
    kept.update(*rows(500, 1))
    assert "about this with a probability of at most 5 %" in str(kept)
    for watch in (both, kept):
        watch.watch_threshold({"value": 0.9, "side": "yes", "max_risk": 0.05})  # a later one leaves them as they are
    assert both.to_dict()["promises"][:2] == found
    assert "about this with a probability of at most 10 %" in str(kept)
    older = both.to_state()
    for part in older["promises"]:
        del part["together"]  # as in states of earlier versions
    assert [each.together for each in calibrant.Monitor.of_state(older, "state")._promises] == [3, 3, 3]


def _grouped(n: int, seed: int, *, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return scores, outcomes and groups of rows; the log-odds of the outcomes in group b are shifted."""
    rng = np.random.default_rng(seed)
    p, groups = rng.beta(4, 1, n), rng.choice(["a", "b"], n)
    return p, (rng.random(n) < expit(logit(p) + shift * (groups == "b"))).astype(int), groups


def test_a_monitor_that_runs_without_groups_refuses_their_thresholds_and_goes_on() -> None:
    p, y, groups = _grouped(8_000, 0)
    threshold = calibrant.certify_threshold(p, y, groups=groups, max_risk=0.1)
    watch = calibrant.Monitor()
    watch.update(p[:500], y[:500])
    with pytest.raises(InputError, match=r"got no groups; begin a new monitor \(a new state file\) with these groups"):
        watch.watch_threshold(threshold)
    watch.update(p[500:900], y[500:900])
    assert not watch.to_dict()["promises"]


@pytest.mark.parametrize("stored", [False, True])
def test_the_thresholds_of_groups_are_watched_in_their_groups(stored: bool) -> None:
    p, y, groups = _grouped(8_000, 0)
    threshold = calibrant.certify_threshold(p, y, groups=groups, max_risk=0.1)
    assert all(part.value is not None for part in threshold.by_group.values())
    watch = calibrant.Monitor(threshold=threshold.to_dict() if stored else threshold)
    counts = {name: np.zeros(2) for name in ("", "a", "b")}
    for t in range(8):
        p, y, groups = _grouped(900, 100 + t, shift=-1.0)
        watch.update(p, y, groups=groups)
        for name in counts:
            value = (threshold.by_group[name] if name else threshold).value
            acted = (p >= value) & ((groups == name) | (not name))
            counts[name] += acted.sum(), (acted & (y == 0)).sum()
        watch = calibrant.Monitor.from_json(watch.to_json())
    promises = {part["group"]: part for part in watch.to_dict()["promises"]}
    assert {name: (part["n_automatic"], part["n_errors"]) for name, part in promises.items()} == {
        name: tuple(pair) for name, pair in counts.items()
    }
    assert promises["b"]["broken"]
    assert not promises["a"]["broken"]
    assert any("in group b is exceeded" in sentence for sentence in watch.verdict())
    assert 'group="b"' in watch.to_prometheus()
    # Each is one of three promises that are watched together.
    alone = calibrant.Monitor(threshold=threshold.by_group["b"])
    for t in range(8):
        p, y, groups = _grouped(900, 100 + t, shift=-1.0)
        alone.update(p[groups == "b"], y[groups == "b"])
    own = alone.to_dict()["promises"][0]["log_evidence"]
    assert promises["b"]["log_evidence"] == pytest.approx(own - math.log(3))


def test_thresholds_of_groups_need_the_groups_of_the_rows() -> None:
    p, y, groups = _grouped(8_000, 0)
    threshold = calibrant.certify_threshold(p, y, groups=groups, max_risk=0.1)
    with pytest.raises(InputError, match="promise for 'a', got no groups; pass the group of each row"):
        calibrant.Monitor(threshold=threshold).update(p, y)
    with pytest.raises(InputError, match="promise for 'a', got 'c', 'd'"):
        calibrant.Monitor(threshold=threshold).update(p, y, groups=np.where(groups == "a", "c", "d"))
    declared = calibrant.Monitor(threshold=threshold, groups=["a", "b"])
    only = groups == "a"
    declared.update(p[only], y[only], groups=groups[only])  # a slice without rows of b
    promises = {part["group"]: part["n_automatic"] for part in declared.to_dict()["promises"]}
    assert promises["a"] > promises["b"] == 0
    classes = calibrant.certify_threshold(np.column_stack([1 - p, p]), y, per_class=True, max_risk=0.2)
    watch = calibrant.Monitor(threshold=classes)
    scores = np.column_stack([1 - p, p])
    watch.update(scores, y, groups=scores.argmax(axis=1))
    assert {part["group"] for part in watch.to_dict()["promises"]} <= {"", "0", "1"}


def test_a_promise_is_watched_for_its_own_event_and_for_independent_rows() -> None:
    p, y = rows(500, 0)
    other = {"value": 0.9, "side": "yes", "max_risk": 0.05, "notion": "top-label", "n_classes": 3}
    with pytest.raises(
        InputError, match="threshold: expected a threshold for scores of one event, got one for the pred"
    ):
        calibrant.Monitor(threshold=other).update(p, y)
    known = {"value": 0.9, "side": "yes", "max_risk": 0.05}
    with pytest.raises(InputError, match="clusters: expected independent rows with a threshold"):
        calibrant.Monitor(threshold=known).update(p, y, clusters=np.arange(500) // 5)
    with pytest.raises(InputError, match="threshold"):
        calibrant.Monitor(threshold={**known, "value": True})


def test_weights_with_a_bound_weaken_the_evidence_against_a_promise() -> None:
    rng = np.random.default_rng(0)
    broken = 0
    for _ in range(40):
        watch = calibrant.Monitor(max_weight=20, threshold={"value": 0.5, "side": "yes", "max_risk": 0.05})
        for _slice in range(10):
            watch.update(rng.uniform(0.6, 1, 100), rng.random(100) >= 0.05, weights=rng.uniform(1, 19.5, 100))
        broken += watch.promise_broken
    assert broken <= 0.05 * 40 + 3 * math.sqrt(0.05 * 0.95 * 40)


def test_several_threads_may_update_a_monitor() -> None:
    watch = calibrant.Monitor()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda t: watch.update(*rows(200, t), label=f"{t}"), range(40)))
    assert sorted(watch.labels, key=int) == [f"{t}" for t in range(40)]
    assert watch._rows.sum() == 40 * 200
    assert calibrant.Monitor.from_json(watch.to_json()).to_dict() == watch.to_dict()


def test_sketches_of_groups_with_weights_and_automatic_labels() -> None:
    p, y = rows(400, 1)
    sketches = {}
    for name, part in (("a", slice(0, 200)), ("b", slice(200, 400))):
        sketches[name] = calibrant.CalibrationSketch()
        sketches[name].update(p[part], y[part], weights=np.linspace(0.5, 2.5, 200))
    watch = calibrant.Monitor(max_weight=3)
    watch.update(sketches, label="2")
    watch.update(sketches)
    assert watch.labels == ["2", "3"]


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"alpha": 0}, "alpha: expected a number above 0 and up to 0.5, got 0"),
        ({"alpha": 0.6}, "alpha"),
        ({"alpha": "5 %"}, "alpha"),
        ({"tolerance": 0.02, "tolerance_odds": 1.1}, "tolerance_odds: expected one tolerance, got both"),
        ({"tolerance": 0.7}, "tolerance"),
        ({"tolerance_odds": 1.0}, "tolerance_odds"),
        ({"max_weight": -1}, "max_weight"),
    ],
)
def test_bad_settings_are_named(how: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        calibrant.Monitor(**how)


def test_bad_slices_change_nothing() -> None:
    watch = calibrant.Monitor()
    watch.update(*rows(100, 0), label="w1")
    before = watch.to_json()
    probs = np.full((50, 3), 1 / 3)
    fine = calibrant.CalibrationSketch(grid="fine")
    fine.update(*rows(50, 1))
    for data, said in (
        ((*rows(100, 1), "w1"), "label: expected a label that was not used, got 'w1'"),
        (
            (probs, np.arange(50) % 3, "w2"),
            "probs: expected scores of one event, as in the first slice, got the predicted",
        ),
        ((fine, None, "w2"), "probs: expected the standard grid"),
        (([0.5, 1.5], [0, 1], "w2"), "probs"),
    ):
        with pytest.raises(InputError, match=re.escape(said)):
            watch.update(*data[:2], label=data[2])
        assert watch.to_json() == before
    with pytest.raises(InputError, match="notion"):
        calibrant.Monitor().update(probs, np.arange(50) % 3, notion="classwise")


# ---------------------------------------------------------------- the state


def test_a_state_goes_on_bit_for_bit(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    threshold = {"value": 0.8, "side": "yes", "max_risk": 0.2}
    one = calibrant.Monitor(tolerance_odds=1.05, threshold=threshold)
    for t in range(12):
        p, y = rows(300, t, shift=0.5 if t > 6 else 0)
        one.update(p, y, label=f"{t}", groups=np.arange(300) % 2)
        one.to_json(path)
        other = calibrant.Monitor.from_json(path)
        assert other.to_json() == one.to_json() == path.read_text()
        assert other.to_dict() == one.to_dict()
        one = other
    assert calibrant.Monitor.from_json(one.to_json()).to_dict() == one.to_dict()


def test_states_with_other_content_are_refused(tmp_path: Path) -> None:
    watch = watched(3, 100, 99)
    good = watch.to_state()
    for place, value in (
        (("settings", "alpha"), 2),
        (("settings", "notion"), "classwise"),
        (("frame", "rows"), "eA=="),
        (("slices", 0, "n"), "many"),
        (("slices", 0, "growth"), state.pack(np.zeros(3))),
        (("slices", 1, "label"), "w0"),
        (("blocks", 0, "cells"), state.pack(np.array([3, 2]))),
        (("blocks",), []),
        (("slices",), None),
    ):
        content = json.loads(json.dumps(good))
        inner = content
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = value
        path = tmp_path / "state.json"
        state.write(path, content)
        with pytest.raises(FileError, match="is not the state of a monitor"):
            calibrant.Monitor.from_json(path)
    with pytest.raises(FileError, match="does not exist"):
        calibrant.Monitor.from_json(tmp_path / "none.json")


@pytest.mark.parametrize("unit", [1e-9, 0.01, 0.3, 1.0, 50.0])
@pytest.mark.parametrize("kind", ["weights", "one row", "groups", "clusters"])
def test_states_of_light_and_heavy_rows_are_read_again(unit: float, kind: str) -> None:
    watch = calibrant.Monitor(max_weight=unit, threshold={"value": 0.5, "side": "yes", "max_risk": 0.05})
    if kind == "clusters":
        watch = calibrant.Monitor(max_weight=unit)
    for t in range(4):
        n = 1 if kind == "one row" else 80
        p = np.random.default_rng(t).uniform(0.5, 1, n)
        weights = unit * np.random.default_rng(t).uniform(0.1, 0.99, n)
        how = {"groups": {"groups": np.arange(n) % 2}, "clusters": {"clusters": np.arange(n) // 4}}.get(kind, {})
        if kind == "groups":
            weights[::2] = 0.2 * unit  # equal in one group
        watch.update(p, np.zeros(n), weights=weights, **how)
        again = calibrant.Monitor.from_json(watch.to_json())
        assert again.to_dict() == watch.to_dict()
        assert again.to_json() == watch.to_json()
        watch = again


def _leaves(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from _leaves(part, (*place, key))
    if not isinstance(value, (dict, list)):
        yield place


def _with(content: dict[str, Any], place: tuple[Any, ...], value: object) -> dict[str, Any]:
    changed = json.loads(json.dumps(content))
    inner = changed
    for key in place[:-1]:
        inner = inner[key]
    old = inner[place[-1]]
    if isinstance(old, str) and old.startswith(("f8", "i8")):
        kind, dtype = (np.float64, np.float64) if old.startswith("f8") else (np.int64, np.int64)
        array = state.unpack(old, kind, None).copy()
        array[-1] = min(max(value, -(2**62)), 2**62) if dtype is np.int64 else value
        value = state.pack(array)
    inner[place[-1]] = value
    return changed


@pytest.mark.parametrize("value", [-1e308, 1e308, -1e30, 1e30, -1.5, 1e-308, 0.5, 1.0, 2**70])
def test_every_number_of_a_forged_state_is_in_its_range(value: float) -> None:
    """A state whose checksum is right is refused, or gives finite numbers without a warning."""
    threshold = {"value": 0.8, "side": "yes", "max_risk": 0.2, "notion": "positive"}
    watch = calibrant.Monitor(groups=["0", "1", "none"], threshold=threshold)
    for t in range(3):
        watch.update(*rows(60, t, shift=2.0), groups=np.arange(60) % 2)
    good = json.loads(json.dumps(watch.to_state()))
    settings = {("settings", "max_weight"), ("settings", "tolerance_odds"), ("settings", "n_classes")}
    accepted = []
    for place in _leaves(good):
        if place[-1] in ("label", "digest", "side", "notion", "informative"):
            continue
        try:
            forged = calibrant.Monitor.of_state(_with(good, place, value), "state.json")
        except FileError:
            continue
        forged.update(*rows(60, 9), groups=np.arange(60) % 2)
        json.dumps(forged.to_dict(), allow_nan=False)
        assert str(forged)
        accepted.append(place)
    unused = {("groups", "none", "logs")}  # a group without rows has no logarithms
    within = {place for place in accepted if place not in settings | unused and abs(value) > 1e20}
    assert within == set()


@pytest.mark.slow
def test_ten_years_of_weeks_take_less_than_a_megabyte() -> None:
    watch = calibrant.Monitor()
    for t in range(520):
        watch.update(*rows(400, t), label=f"week {t}")
    assert len(watch.to_json()) < 1_000_000


def test_a_drift_of_one_slice_is_that_slice() -> None:
    watch = calibrant.Monitor()
    watch.update(*rows(4_000, 0, shift=1.5), label="only")
    drift = drift_of(watch._slices, 0.95)
    assert (drift.since, drift.earliest, drift.latest, drift.first) == ("only", "only", "only", 0)
