"""ICI, E50 and E90: recorded values, lines fitted one by one, laws, the interval's parts, the loess curve.

Tolerances: weighted sums of at most a few thousand terms in double precision, 1e-10 (lines are less well conditioned
than sums).
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import calibrant
from calibrant import ReliabilityTable
from calibrant.errors import InputError
from calibrant.measures.loess.loess import Loess, Quantiles
from calibrant.statistics.cells import Cells
from calibrant.statistics.intervals import thinned
from calibrant.statistics.resampling import normal_quantile
from tests.examples_of import at_most
from tests.measures.test_roc import drawn
from tests.samples import draw, sketch_of

EXACT = 1e-10

#: Of `drawn`: probcal 0.4.0 `ici`, `e50`, `e90` with ``grid_size=None``, and `ici` with ``frac`` .4 and 1.
PROBCAL = {
    (0, 50, 1): (0.1730372606617869, 0.2035358904522428, 0.22811600330485735, 0.17359075016589368, 0.17099027243734233),
    (1, 300, 2): (
        0.06881041081936874,
        0.06852444948553595,
        0.1076229354604791,
        0.0720471358218983,
        0.06487786062212517,
    ),
    (2, 400, 6): (
        0.060394424174532786,
        0.06524834693500348,
        0.08446586628399803,
        0.06281271992823237,
        0.06008771330545743,
    ),
}
#: The mean of |fit - score| over `drawn(3, 300, 9)`, fit of statsmodels 0.15.0 `lowess(y, p, frac=2/3, it=0, delta=0)`.
LOWESS = 0.06294351927784662
ROWS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 1), st.integers(1, 3)), min_size=1, max_size=40)
MEASURES = ["ici", "e50", "e90"]


def values(*args, **options):
    report = calibrant.evaluate(*args, measures=MEASURES, level=None, **options)
    return [report[key].value for key in MEASURES]


def by_lines(p, y, w, span=0.75):
    """The curve at every row, by a fit of a line to the repeated rows around each of them."""
    p, y = (np.repeat(x, w) for x in (p, y))
    curve = []
    for x in p:
        distance = np.abs(p - x)
        h = np.sort(distance)[math.ceil(span * len(p) - 1e-9) - 1]
        weights = np.clip(1 - (distance / h) ** 3, 0, None) ** 3 if h > 0 else (distance == 0).astype(float)
        spread = np.ptp(p[weights > 0])
        root = np.sqrt(weights)
        design = np.stack([np.ones(len(p)), p - x], axis=1)[:, : 1 + (spread > 0)]
        curve.append(np.linalg.lstsq(design * root[:, None], y * root, rcond=None)[0][0])
    return p, np.array(curve)


@pytest.mark.parametrize("case", PROBCAL)
def test_recorded_values(case):
    p, y = drawn(*case)
    ici, e50, e90, narrow, wide = PROBCAL[case]
    assert values(p, y) == pytest.approx([ici, e50, e90], rel=EXACT)
    assert calibrant.integrated_calibration_index(p, y) == pytest.approx(ici, rel=EXACT)
    assert calibrant.integrated_calibration_index(p, y, span=0.4) == pytest.approx(narrow, rel=EXACT)
    assert calibrant.integrated_calibration_index(p, y, span=1) == pytest.approx(wide, rel=EXACT)


def test_the_span_of_lowess():
    assert calibrant.integrated_calibration_index(*drawn(3, 300, 9), span=2 / 3) == pytest.approx(LOWESS, rel=EXACT)


@given(ROWS, st.sampled_from([0.3, 0.75, 1.0]))
@example([(0, 1, 1)], 0.75)
@example([(0, 1, 3), (20, 0, 1)], 0.75)
def test_lines_fitted_one_by_one(rows, span):
    p, y, w = np.array(rows).T
    p = p / 20
    table = ReliabilityTable.from_scores(p, y, weights=w)
    cells = Cells.from_table(table)
    found = Loess.of(Cells(table), span)
    at, curve = by_lines(p, y, w, span)
    _, first = np.unique(at, return_index=True)
    gaps = found.at_scores(found.gaps(cells.gap_sums))
    np.testing.assert_allclose(cells.scores - gaps, curve[first], atol=1e-8)  # lstsq: the square root of the condition
    ici = calibrant.integrated_calibration_index(p, y, weights=w, span=span)
    assert ici == pytest.approx(np.mean(np.abs(at - curve)), abs=1e-8)


@given(ROWS)
def test_laws(rows):
    p, y, w = np.array(rows).T
    p = p / 20
    whole = values(p, y, weights=w)
    assert values(np.repeat(p, w), np.repeat(y, w)) == pytest.approx(whole, abs=EXACT)
    order = np.random.default_rng(0).permutation(len(p))
    assert values(p[order], y[order], weights=w[order]) == pytest.approx(whole, abs=EXACT)
    assert values(1 - p, 1 - y, weights=w) == pytest.approx(whole, abs=1e-9)
    assert np.all(np.isfinite(whole))
    halves = [calibrant.CalibrationSketch(), calibrant.CalibrationSketch()]
    for sketch, part in zip(halves, (slice(None, 3), slice(3, None)), strict=True):
        if len(p[part]):
            sketch.update(p[part], y[part], weights=w[part])
    both = sketch_of(p, y, weights=w)
    assert values(halves[0] + halves[1]) == pytest.approx(values(both), abs=EXACT)
    # Scores of a grid of twentieths have cells of their own.
    assert values(both) == pytest.approx(whole, abs=1e-9)


@given(st.lists(st.tuples(st.floats(-1, 1), st.integers(1, 5)), min_size=1, max_size=30), st.floats(0, 1))
def test_quantiles_are_those_of_the_repeated_values(pairs, share):
    x, n = (np.array(column, dtype=float) for column in zip(*pairs, strict=True))
    found = Quantiles(x, n, whole=True).at(share)
    assert found == pytest.approx(np.quantile(np.repeat(x, n.astype(int)), share), abs=1e-12)
    part = Quantiles(x, n / 3, whole=False).at(share)
    held = [value for value in x if n[x <= value].sum() >= share * n.sum() * (1 - 1e-12)]
    assert part == min(held)
    assert Quantiles(np.stack([x, -x]), n, whole=True).at(share)[0] == found


@pytest.mark.parametrize(("a", "b"), [(0.0, 1.0), (0.1, 0.8), (0.05, 0.5), (0.0, 0.3)])
@pytest.mark.parametrize("n", [30, 3_000])
def test_a_line_of_outcome_rates_is_found_exactly(a, b, n):
    p = np.random.default_rng(1).random(n)
    q = a + b * p
    rows, outcomes = np.tile(p, 2), np.repeat([1, 0], n)
    weights = np.concatenate([q, 1 - q])
    expected = np.mean(np.abs(a + (b - 1) * p))
    found = calibrant.integrated_calibration_index(rows, outcomes, weights=weights)
    assert found == pytest.approx(expected, abs=1e-10)


def test_more_scores_than_cells_are_fitted_in_cells():
    p, y = drawn(4, 8_000, 9)
    report = calibrant.evaluate(p, y, measures=MEASURES, level=None)
    assert report["ici"].details == {
        "smoother": "loess by lines",
        "span": 0.75,
        "fitted_cells": len(Cells.from_table(report_table(p, y))),
    }
    table = report_table(p, y)
    full = Loess.of(Cells(table))
    gaps = full.absolute_gaps(table.scores * table.counts - table.positives)
    # A cell is at most 1 / 1,304 wide and the mean score stands for its rows: the lines move by less than 1e-5.
    assert report["ici"].value == pytest.approx(gaps.mean(), abs=1e-5)
    assert report["e50"].value == pytest.approx(np.quantile(gaps, 0.5), abs=1e-4)
    assert report["e90"].value == pytest.approx(np.quantile(gaps, 0.9), abs=1e-4)
    sketch = sketch_of(p, y)
    assert values(sketch) == pytest.approx([report[key].value for key in MEASURES], abs=EXACT)
    assert calibrant.integrated_calibration_index(sketch) == pytest.approx(report["ici"].value, abs=EXACT)


def report_table(p, y):
    return ReliabilityTable.from_scores(p, y)


def test_a_heavy_score_next_to_many_has_finite_lines():
    rng = np.random.default_rng(5)
    p = np.concatenate([np.zeros(9_000), rng.random(900) * 0.5])
    y = (rng.random(len(p)) < p).astype(int)
    assert all(0 <= value < 0.1 for value in values(p, y))
    assert calibrant.integrated_calibration_index([0.3] * 4, [0, 1, 0, 0]) == pytest.approx(0.05)


# ---------------------------------------------------------------- the law under calibration, and the interval


def test_the_floor_is_the_closed_mean():
    p, y = drawn(6, 500, 2)
    estimate = calibrant.evaluate(p, y, measures=["ici"], n_resamples=2_000)["ici"]
    cells = Cells.from_table(report_table(p, y))
    deviations = np.sqrt(cells.of(Loess.of).squares @ cells.null_variances)
    closed = math.sqrt(2 / math.pi) * float(cells.of(Loess.of).shares @ deviations)
    assert estimate.floor.mean == pytest.approx(closed, rel=0.05)  # 4 standard errors of 2,000 draws of this spread


def test_the_interval_written_out():
    p, y = drawn(7, 400, 2)
    estimate = calibrant.evaluate(p, y, measures=["ici"], n_resamples=200)["ici"]
    cells, z, n = Cells.from_table(report_table(p, y)), normal_quantile(0.95), len(p)
    S = cells.of(Loess.of).weights * cells.counts  # the curve from the rates
    rates, scores, share = cells.positives / cells.counts, cells.scores, cells.counts / n
    G = S @ (scores - rates)
    residuals = cells.gap_sums
    Q = (cells.counts - cells.positives) * scores**2 + cells.positives * (1 - scores) ** 2
    V = cells.counts * scores * (1 - scores)
    m = np.median(1 / np.sum(S**2 / cells.counts, axis=1))
    v = (m * Q + 5 * V) / (m + 5)
    tau = np.sqrt((S / cells.counts) ** 2 @ v)
    g, slope = thinned(G / tau)

    def sd(psi):
        a = (share * psi) @ S / cells.counts
        return math.sqrt(np.sum(v * a**2) - np.sum(residuals * a) ** 2 / n)

    value = float(share @ np.abs(G))
    low = float(share @ (tau * g)) - z * sd(slope)
    assert len(cells.of(Loess.of).anchors) == len(cells)
    assert estimate.value == pytest.approx(value, abs=EXACT)
    assert estimate.p_value <= 0.025
    assert estimate.low == pytest.approx(low, abs=EXACT)
    assert estimate.high == pytest.approx(value + z * sd(np.sign(G)), abs=EXACT)


def test_the_low_end_is_0_unless_calibration_is_rejected():
    p, y = draw(8, 300)
    estimate = calibrant.evaluate(p, y, measures=["ici"], n_resamples=200)["ici"]
    assert estimate.p_value > 0.025
    assert estimate.low == 0 < estimate.value < estimate.high
    without = calibrant.evaluate(*drawn(7, 400, 2), measures=["ici"], n_resamples=0)["ici"]
    assert (without.low, without.floor) == (0.0, None)


def test_clusters_of_one_row_are_nearly_independent_rows():
    p, y = drawn(9, 600, 2)
    alone, clustered = (
        calibrant.evaluate(p, y, measures=["ici"], n_resamples=200, **options)["ici"]
        for options in ({}, {"clusters": np.arange(600)})
    )
    assert clustered.value == pytest.approx(alone.value, rel=EXACT)
    # The buckets' own design effects vary around 1; 600 clusters share 256 buckets.
    assert (clustered.low, clustered.high) == pytest.approx((alone.low, alone.high), abs=0.01)


def test_rows_that_repeat_within_clusters_widen_the_interval():
    p = np.random.default_rng(10).random(200).round(2)
    y = (np.random.default_rng(11).random(200) < p**1.6).astype(int)
    rows = np.repeat(np.arange(200), 8)
    once, copied, plain = (
        calibrant.evaluate(p[index], y[index], profile="clinical", n_resamples=200, **options)
        for index, options in ((np.arange(200), {}), (rows, {"clusters": rows}), (rows, {}))
    )
    assert copied["ici"].high - copied["ici"].value == pytest.approx(once["ici"].high - once["ici"].value, rel=0.15)
    assert plain["ici"].high - plain["ici"].value < 0.5 * (once["ici"].high - once["ici"].value)
    # A copy tells nothing: the low end and the bands are those of one row each, up to the design effect's own noise.
    assert 0.01 < copied["ici"].low == pytest.approx(once["ici"].low, rel=0.02)
    assert plain["ici"].low > 2 * once["ici"].low
    widths = [
        np.mean(one.curves["loess"].confidence_highs - one.curves["loess"].confidence_lows) for one in (once, copied)
    ]
    assert widths[1] == pytest.approx(widths[0], rel=0.2)


# ---------------------------------------------------------------- the curve


def test_the_curve_and_its_bands():
    p, y = drawn(11, 400, 2)
    curve = calibrant.evaluate(p, y, profile="clinical", n_resamples=50).curves["loess"]
    cells, z = Cells.from_table(report_table(p, y)), normal_quantile(0.95)
    weights = cells.of(Loess.of).weights
    rates = weights @ cells.positives
    places = np.searchsorted(cells.scores, curve.scores)
    inside = np.clip(rates, 0, 1)
    half = z * np.sqrt(weights**2 @ (cells.counts * inside * (1 - inside)))
    null = z * np.sqrt(weights**2 @ (cells.counts * cells.scores * (1 - cells.scores)))
    np.testing.assert_allclose(curve.rates, inside[places], atol=EXACT)
    np.testing.assert_allclose(curve.confidence_lows, np.clip(rates - half, 0, 1)[places], atol=EXACT)
    np.testing.assert_allclose(curve.confidence_highs, np.clip(rates + half, 0, 1)[places], atol=EXACT)
    np.testing.assert_allclose(curve.consistency_lows, np.clip(cells.scores - null, 0, 1)[places], atol=EXACT)
    np.testing.assert_allclose(curve.consistency_highs, np.clip(cells.scores + null, 0, 1)[places], atol=EXACT)


@at_most(10)
@given(st.integers(0, 2**32 - 1))
def test_the_curve_of_clusters_is_that_of_the_rows(seed):
    p, y = draw(seed, 300)
    alone, clustered = (
        calibrant.evaluate(p, y, profile="clinical", n_resamples=50, **options).curves["loess"]
        for options in ({}, {"clusters": np.arange(300) // 3})
    )
    np.testing.assert_allclose(alone.rates, clustered.rates, atol=EXACT)
    assert np.all(clustered.confidence_lows <= clustered.rates)


def test_profiles_have_the_curve_or_say_who_has_it():
    p, y = drawn(12, 200, 2)
    clinical, standard = (calibrant.evaluate(p, y, profile=name, n_resamples=50) for name in ("clinical", "standard"))
    assert list(clinical.curves) == ["loess", "isotonic", "smooth"]
    assert list(standard.curves) == ["isotonic", "smooth"]
    plot = pytest.importorskip("calibrant.plot")
    assert "loess" in str(plot.calibration_curve(clinical, kind="loess").get_legend().texts)
    with pytest.raises(InputError, match="a report with the loess curve, got one with isotonic, smooth"):
        plot.calibration_curve(standard, kind="loess")


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize("span", [0, -0.1, 1.1, math.nan, "wide", True, None])
def test_a_span_is_a_share(span):
    with pytest.raises(InputError, match="span: expected a share of the rows, above 0 and at most 1"):
        calibrant.integrated_calibration_index([0.2, 0.8], [0, 1], span=span)


def test_one_event_is_needed():
    with pytest.raises(InputError, match="'positive' or 'top-label' for the integrated calibration index"):
        calibrant.integrated_calibration_index([[0.2, 0.8], [0.3, 0.7]], [1, 0], notion="classwise")
    report = calibrant.evaluate([[0.2, 0.8], [0.3, 0.7]], [1, 0], notion="classwise", measures=["ici"], level=None)
    assert "evaluate one class at a time" in report["ici"].method
