"""The simultaneous confidence band of the isotonic curve: its definition, its coverage, and where it is shown.

Tolerances. Two ways to a quantile of a beta law agree to about 1e-12; `CLOSE` is 1e-9, relative. Shares seen in
simulations are held to 4 binomial standard deviations.
"""

from __future__ import annotations

import functools
import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.isotonic import IsotonicRegression

from calibrant import ReliabilityTable, evaluate, plot
from calibrant.errors import InputError
from calibrant.measures.calibration_curves import IsotonicBand
from tests.samples import draw, sketch_of

CLOSE = 1e-9
near = functools.partial(pytest.approx, rel=CLOSE, abs=1e-12)
bad = functools.partial(pytest.raises, InputError)


def naive(n, k, level=0.95):
    """Every run of neighbouring cells, by SciPy's beta law: the formula of the paper."""
    cells = len(n)
    alpha = (1 - level) / (cells * (cells + 1))
    lows, highs = np.zeros(cells), np.ones(cells)
    for first in range(cells):
        for last in range(first, cells):
            rows, hits = sum(n[first : last + 1]), sum(k[first : last + 1])
            low = stats.beta.ppf(alpha, hits, rows - hits + 1) if hits else 0.0
            high = stats.beta.isf(alpha, hits + 1, rows - hits) if hits < rows else 1.0
            lows[last:] = np.maximum(lows[last:], low)
            highs[: first + 1] = np.minimum(highs[: first + 1], high)
    return lows, highs


tables = st.lists(
    st.tuples(st.integers(0, 24), st.integers(1, 9), st.floats(0, 1)), min_size=1, max_size=20, unique_by=lambda r: r[0]
)


def table_of(rows):
    """Scores of a grid that holds 0 and 1, with up to nine rows each."""
    scores, counts, shares = (np.array(column) for column in zip(*sorted(rows), strict=True))
    return ReliabilityTable(scores / 24, counts, np.rint(shares * counts).astype(np.int64), int(counts.sum()))


@given(tables, st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_the_band_is_the_formula_over_all_runs(rows, level):
    table = table_of(rows)
    band = IsotonicBand.of(table, level)
    lows, highs = naive(table.counts, table.positives, level)
    assert band.lows == near(lows)
    assert band.highs == near(highs)
    assert [list(ends) for ends in band.at(table.scores)] == [list(band.lows), list(band.highs)]


def test_with_one_score_it_is_the_interval_of_clopper_and_pearson():
    band = IsotonicBand.of(ReliabilityTable.from_scores([0.3] * 40, [1] * 9 + [0] * 31), 0.95)
    ends = stats.binomtest(9, 40).proportion_ci(0.95, method="exact")
    assert (band.lows[0], band.highs[0]) == near((ends.low, ends.high))


def test_beyond_the_scores_the_ends_are_those_of_the_nearest_run():
    band = IsotonicBand.of(ReliabilityTable.from_scores([0.4] * 40 + [0.6] * 40, [0, 1] * 40), 0.95)
    lows, highs = band.at(np.array([0.1, 0.4, 0.5, 0.6, 0.9]))
    assert list(lows) == [0, band.lows[0], band.lows[0], band.lows[1], band.lows[1]]
    assert list(highs) == [band.highs[0], band.highs[0], band.highs[1], band.highs[1], 1]


@given(tables)
def test_turned_round_scores_and_outcomes_turn_the_band_round(rows):
    table = table_of(rows)
    mirror = ReliabilityTable(
        1 - table.scores[::-1], table.counts[::-1], (table.counts - table.positives)[::-1], table.n
    )
    band, turned = IsotonicBand.of(table, 0.9), IsotonicBand.of(mirror, 0.9)
    assert turned.lows == near(1 - band.highs[::-1])
    assert turned.highs == near(1 - band.lows[::-1])


@given(tables, st.randoms(use_true_random=False))
def test_a_row_of_weight_two_is_two_rows_in_any_order(rows, random):
    table = table_of(rows)
    kinds = zip(table.scores, table.counts, table.positives, strict=True)
    each = [(p, y, 1 + (i % 3)) for p, n, k in kinds for i, y in enumerate([1] * k + [0] * (n - k))]
    twice = [(p, y) for p, y, weight in each for _ in range(weight)]
    random.shuffle(each)
    p, y, weights = (np.array(column) for column in zip(*each, strict=True))
    curves = [
        evaluate(p, y, weights=weights, bands="simultaneous", n_resamples=0).curves["isotonic"],
        evaluate(*map(np.array, zip(*twice, strict=True)), bands="simultaneous", n_resamples=0).curves["isotonic"],
    ]
    # Few scores: both curves have all of them.
    for name in ("scores", "rates", "confidence_lows", "confidence_highs"):
        assert getattr(curves[0], name) == near(getattr(curves[1], name))


# ---------------------------------------------------------------- many scores


@pytest.mark.parametrize("data", ["rows", "sketch"])
def test_pooled_scores_bound_the_rate_at_their_outer_ends(data):
    """The paper's rounding: a lower end counts from a cell's largest score, an upper one up to its smallest."""
    p, y = draw(1, 5_000)
    table = ReliabilityTable.from_scores(p, y)
    if data == "sketch":
        table = ReliabilityTable.from_scores(p, y, grid="standard")
    band = IsotonicBand.of(table, 0.95)
    assert 200 < len(band.lows) <= 1024
    # Every row belongs to one cell, by its score alone.
    cell = np.searchsorted(band.firsts, p, side="right" if data == "rows" else "left") - 1
    if data == "sketch":
        cell = np.searchsorted(band.lasts, p, side="left")
    assert np.all((band.firsts[cell] <= p) & (p <= band.lasts[cell]))
    n, k = np.bincount(cell), np.bincount(cell, y)
    few = np.arange(0, len(n), 37)  # the naive formula for some runs alone: each is a bound that the band keeps
    alpha = 0.05 / (len(n) * (len(n) + 1))
    for first in few:
        for last in few[few >= first]:
            rows, hits = n[first : last + 1].sum(), k[first : last + 1].sum()
            assert band.lows[last] >= stats.beta.ppf(alpha, hits, rows - hits + 1) - 1e-9 if hits else True
            assert band.highs[first] <= stats.beta.isf(alpha, hits + 1, rows - hits) + 1e-9 if hits < rows else True
    # Between the ends of a cell the lower end is still that of the cell before, the upper one that of the cell after.
    inner = np.flatnonzero(band.firsts < band.lasts)
    inner = inner[(inner > 0) & (inner < len(n) - 1)]
    assert len(inner) > 200
    lows, highs = band.at((band.firsts + band.lasts)[inner] / 2)
    assert np.array_equal(lows, band.lows[inner - 1])
    assert np.array_equal(highs, band.highs[inner + 1])
    lows, highs = band.at(np.sort(p))
    assert np.all(np.diff(lows) >= 0)
    assert np.all(np.diff(highs) >= 0)
    assert np.all((lows <= np.sort(p)) & (np.sort(p) <= highs))


def test_it_is_narrower_with_more_rows():
    widths = []
    for n in (200, 2_000, 20_000, 200_000):
        curve = evaluate(*draw(2, n), bands="simultaneous", n_resamples=0).curves["isotonic"]
        widths.append(np.mean((curve.confidence_highs - curve.confidence_lows)[20:-20]))
    assert all(later < 0.7 * earlier for earlier, later in itertools.pairwise(widths))


TRUTHS = {
    "calibrated": lambda p: p,
    "too extreme": lambda p: 0.25 + p / 2,
    "a step": lambda p: np.where(p < 0.5, 0.2, 0.7),
    "rare": lambda p: p / 50,
    "steep": lambda p: 1 / (1 + np.exp(-20 * (p - 0.4))),
    "certain": lambda p: np.where(p < 0.3, 0.0, np.where(p < 0.7, 0.5, 1.0)),
}


@pytest.mark.slow
@pytest.mark.parametrize("truth", TRUTHS)
@pytest.mark.parametrize(("n", "draws"), [(100, 400), (1_500, 60)])
def test_the_band_holds_a_rising_truth_at_all_scores_at_once(truth, n, draws):
    rate, held = TRUTHS[truth], 0
    at = np.linspace(0, 1, 2_001)
    for seed in range(draws):
        p, y = draw([3, seed], n, rate)
        lows, highs = IsotonicBand.of(ReliabilityTable.from_scores(p, y), 0.95).at(at)
        held += bool(np.all((lows <= rate(at)) & (rate(at) <= highs)))
    print(f"{truth}, N = {n}: {held / draws}")
    assert held / draws >= 0.95 - 4 * math.sqrt(0.95 * 0.05 / draws)


@pytest.mark.slow
def test_few_scores_use_most_of_the_error_that_they_may():
    """With one score the band is that of Clopper and Pearson, whose coverage is exact: here .957."""
    law = stats.binom(40, 0.3)
    ends = [
        IsotonicBand.of(ReliabilityTable(np.array([0.3]), np.array([40]), np.array([k]), 40), 0.95) for k in range(41)
    ]
    coverage = sum(law.pmf(k) for k, band in enumerate(ends) if band.lows[0] <= 0.3 <= band.highs[0])
    assert 0.95 <= coverage < 0.97


# ---------------------------------------------------------------- reports


def test_the_curve_of_a_report_has_the_band_and_says_so():
    p, y = draw(4, 300, lambda p: p**2)
    found = evaluate(p, y, bands="simultaneous", n_resamples=100, level=0.9)
    curve, smooth = found.curves["isotonic"], found.curves["smooth"]
    assert (found.bands, curve.bands, smooth.bands) == ("simultaneous", "simultaneous", "pointwise")
    band = IsotonicBand.of(ReliabilityTable.from_scores(p, y), 0.9)
    lows, highs = band.at(curve.scores)
    assert np.array_equal(curve.confidence_lows, np.minimum(lows, curve.rates))
    assert np.array_equal(curve.confidence_highs, np.maximum(highs, curve.rates))
    assert curve.rates == near(IsotonicRegression().fit(p, y).predict(curve.scores))
    plain = evaluate(p, y, n_resamples=100, level=0.9)
    assert (plain.bands, plain.curves["isotonic"].bands) == ("pointwise", "pointwise")
    # Pointwise bands are narrower on average; everything else is the same.
    assert np.mean(highs - lows) > np.mean(
        plain.curves["isotonic"].confidence_highs - plain.curves["isotonic"].confidence_lows
    )
    assert np.array_equal(curve.consistency_lows, plain.curves["isotonic"].consistency_lows)
    written = json.loads(found.to_json())["curves"]
    assert (written["isotonic"]["bands"], written["smooth"]["bands"]) == ("simultaneous", "pointwise")
    assert written["isotonic"]["confidence_lows"] == list(curve.confidence_lows)


def test_a_falling_rate_makes_the_ends_cross_and_the_curve_widens_its_band():
    p = np.repeat([0.2, 0.8], 400)
    y = np.r_[np.ones(360), np.zeros(40), np.ones(40), np.zeros(360)].astype(int)
    band = IsotonicBand.of(ReliabilityTable.from_scores(p, y), 0.95)
    assert band.lows[0] > band.highs[0]  # no rate that never falls fits
    curve = evaluate(p, y, bands="simultaneous", n_resamples=0).curves["isotonic"]
    assert np.all((curve.confidence_lows <= curve.rates) & (curve.rates <= curve.confidence_highs))


def test_a_sketch_has_the_band_of_its_cells():
    p, y = draw(5, 20_000)
    sketch = sketch_of(p, y)
    found = evaluate(sketch, bands="simultaneous", n_resamples=0).curves["isotonic"]
    exact = IsotonicBand.of(ReliabilityTable.from_scores(p, y), 0.95)
    lows, highs = exact.at(found.scores)
    assert found.bands == "simultaneous"
    # Cells are 1/300 wide at most, so the ends differ by what two bands move over one cell: some hundredths.
    assert np.abs(found.confidence_lows - lows).mean() < 0.02
    assert np.abs(found.confidence_highs - highs).mean() < 0.02


def test_data_without_the_band_are_refused():
    p, y = draw(6, 60)
    wide = np.column_stack([1 - p, p])
    ask = functools.partial(evaluate, bands="simultaneous")
    for arguments, options, message in (
        ((p, y), {"weights": p + 0.1}, "'pointwise' for sampling weights"),
        ((p, y), {"clusters": np.arange(60) // 3}, "'pointwise' for rows in clusters"),
        ((p, y), {"level": None}, "'pointwise' without intervals"),
        ((wide, y), {"notion": "classwise"}, "'pointwise' if every class is evaluated"),
    ):
        with bad(match=f"bands: expected {message}"):
            ask(*arguments, **options)
    with bad(match="bands: expected one of 'pointwise', 'simultaneous', got 'both'"):
        evaluate(p, y, bands="both")
    # Equal weights are no weights, and clusters of one row are independent rows.
    for options in ({"weights": np.full(60, 0.3)}, {"clusters": np.arange(60)}):
        assert np.array_equal(
            ask(p, y, n_resamples=0, **options).curves["isotonic"].confidence_lows,
            ask(p, y, n_resamples=0).curves["isotonic"].confidence_lows,
        )


# ---------------------------------------------------------------- pictures and the command


@functools.cache
def report():
    return evaluate(*draw(7, 120, lambda p: p**2), bands="simultaneous", n_resamples=99)


def steps(curve):
    """Corners of the band: before each score the upper end is its own, after it the lower end is."""
    corners = [(curve.scores[0], curve.confidence_lows[0], curve.confidence_highs[0])]
    for i in range(1, len(curve.scores)):
        left, right = curve.confidence_lows[i - 1], curve.confidence_highs[i]
        corners += [(curve.scores[i - 1], left, right), (curve.scores[i], left, right)]
    return [*corners, (curve.scores[-1], curve.confidence_lows[-1], curve.confidence_highs[-1])]


@pytest.mark.parametrize("draw_it", [plot.calibration_curve, plot.reliability_diagram])
def test_figures_draw_it_as_steps_and_name_it(draw_it):
    ax = draw_it(report())
    (drawn,) = (c for c in ax.collections if c.get_label() == "95 % confidence band, simultaneous")
    corners = steps(report().curves["isotonic"])
    path = {(round(x, 12), round(y, 12)) for x, y in drawn.get_paths()[0].vertices}
    assert path == {(round(x, 12), round(y, 12)) for x, *ends in corners for y in ends}
    plot.canvas.matplotlib().pyplot.close(ax.figure)


def test_a_diagram_draws_the_band_that_was_asked_for():
    ax = plot.reliability_diagram(report(), bands="pointwise")
    labels = ax.get_legend_handles_labels()[1]
    assert "Calibrated (95 % band)" in labels
    assert not any("simultaneous" in label for label in labels)
    plain = evaluate(*draw(7, 120), n_resamples=0)
    with bad(match="bands: expected 'simultaneous' only for a report with such a band, got a report without one"):
        plot.reliability_diagram(plain, bands="simultaneous")
    with bad(match="bands: expected one of 'pointwise', 'simultaneous'"):
        plot.reliability_diagram(plain, bands="all")
    plot.canvas.matplotlib().pyplot.close("all")


def test_the_page_draws_it_as_steps_and_names_it(tmp_path):
    page = report().to_html(tmp_path / "a.html").read_text("utf-8")
    assert "95 % confidence band, simultaneous" in page
    assert "95 % simultaneous band" in page  # the table of the curve
    assert "It covers the true curve at all scores at once in 95 % of samples" in page
    plain = evaluate(*draw(7, 120), n_resamples=99).to_html(tmp_path / "b.html").read_text("utf-8")
    assert "95 % confidence band, pointwise" in plain
    assert "simultaneous" not in plain


def test_the_command_has_the_option(tmp_path):
    from tests.in_process import fail, run

    p, y = draw(7, 120, lambda p: p**2)
    rows = np.column_stack([p, y, p + 1, np.arange(120) // 2])
    file = tmp_path / "scores.csv"
    np.savetxt(file, rows, delimiter=",", header="score,outcome,heavy,patient", comments="", fmt="%.17g")
    told = ["report", str(file), "--bands", "simultaneous", "--n-resamples", "99"]
    status, _, err = run(*told, "--json", tmp_path / "a.json", "--quiet")
    assert status == 0, err
    written = json.loads((tmp_path / "a.json").read_text("utf-8"))["curves"]["isotonic"]
    assert written["confidence_highs"] == list(report().curves["isotonic"].confidence_highs)
    for option, column in (("--weight", "heavy"), ("--cluster", "patient")):
        assert "--bands: expected 'pointwise' for" in fail(*told, option, column)
