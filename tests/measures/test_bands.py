"""The intervals and bands that a report shows: what holds of them whatever the data, and on awkward data.

Tolerances. Two ways to one sum of some hundred terms below 1 agree to about 1e-13; `CLOSE` is 1e-10, relative, for
what then goes through quantiles. Shares seen in simulations are held to 4 binomial standard deviations.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from sklearn.isotonic import IsotonicRegression

import calibrant
from calibrant import ReliabilityTable, evaluate
from calibrant.errors import InputError
from calibrant.measures.cumulative import cumulative
from calibrant.measures.listed import BY_NAME
from calibrant.statistics.cells import Cells
from tests.samples import draw_tilted as draw
from tests.samples import sketch_of

CLOSE = 1e-10
LEVEL, TAIL = 0.9, 0.05
Z = stats.norm.isf(TAIL)

#: The measures that are 0 or more, whose lower end is 0 unless calibration is rejected.
GATED = ("ece", "ace", "rmsce", "debiased_square", "mce", "smece", "ks", "miscalibration")
bad = functools.partial(pytest.raises, InputError)
near = functools.partial(pytest.approx, rel=CLOSE, abs=1e-12, nan_ok=True)


def rare(seed, n):
    p = np.random.default_rng(seed).uniform(0, 0.02, n)
    return p, (np.random.default_rng(seed + 1).uniform(size=n) < p).astype(int)


def holds(report):
    """Every number is where it belongs: value in its interval, floors and p-values whole, JSON strict."""
    for name, found in report.items():
        if math.isnan(found.value):
            assert found.method.startswith(("not available", "no interval")), name
            assert found.floor is None, name
            continue
        if math.isnan(found.low):
            assert found.method.startswith("no interval"), name
            assert math.isnan(found.high), name
            assert math.isnan(found.level), name
        else:  # an unbiased estimate of a square may be negative; its interval is of the square
            value = max(found.value, 0) if name == "debiased_square" else found.value
            assert found.low <= value <= found.high, name
            assert found.level == report.level, name
        if found.floor is not None:
            assert math.isfinite(found.floor.mean), name
            assert math.isfinite(found.floor.upper), name
            assert 0 <= found.p_value <= 1, name
    for curve in report.curves.values():
        assert np.all(np.diff(curve.scores) > 0)
        assert np.all((curve.rates >= 0) & (curve.rates <= 1))
    written = json.loads(report.to_json())
    assert written == report.to_dict()
    assert str(report)
    return written


# ---------------------------------------------------------------- intervals


LAWS = {
    "calibrated": draw(1, 400),
    "tilted": draw(2, 400, 2.0),
    "wrong": draw(3, 400, 3.0, flipped=True),
    "few rows": draw(4, 20, 2.0),
    "rare": rare(5, 600),
    "over-confident": (np.random.default_rng(6).uniform(0.8, 1, 300), np.arange(300) % 2),
    "tied": (np.repeat([0.1, 0.3, 0.8], 100), np.tile([0, 1, 0, 0, 1], 60)),
    "pooled": draw(7, 6000, 1.3),  # more distinct scores than the standard grid has cells
}
laws = pytest.mark.parametrize("law", LAWS)


#: What is known to be wrong, and where.


@pytest.mark.covering
@laws
@pytest.mark.parametrize("n_resamples", [0, 99])
def test_a_value_lies_in_its_interval(law, n_resamples):
    for n_bins in (15, 7):  # whose edges lie on cells of the grid, and within them
        holds(evaluate(*LAWS[law], n_bins=n_bins, level=LEVEL, n_resamples=n_resamples))


@pytest.mark.parametrize("n_resamples", [0, 99])
@pytest.mark.parametrize("n_bins", [1, 15])
def test_gaps_that_are_exactly_0(n_resamples, n_bins):
    report = evaluate([0.25] * 40 + [0.5] * 60, [0, 1, 0, 0] * 10 + [0, 1] * 30, n_bins=n_bins, n_resamples=n_resamples)
    holds(report)
    for name in ("ece", "ace", "rmsce", "mce", "smece", "ks", "miscalibration"):
        assert report[name].value == near(0)
        assert report[name].low == 0 or (name, n_resamples) == ("miscalibration", 0)  # which has no interval then


def test_discrimination_of_many_rows_that_a_cell_does_not_tell_apart():
    p = np.random.default_rng(8).uniform(size=200_000)
    holds(evaluate(p, p > 0.50019, n_resamples=20))


@laws
def test_low_is_0_unless_calibration_is_rejected(law):
    report = evaluate(*LAWS[law], level=LEVEL, n_resamples=99)
    for name in GATED:
        if report[name].p_value > TAIL:
            assert report[name].low == 0, name
    if law == "wrong":
        assert all(report[name].low > 0 for name in GATED)
    if law == "calibrated":
        assert all(report[name].low == 0 for name in GATED)


@laws
def test_a_higher_level_is_wider(law):
    reports = [evaluate(*LAWS[law], level=level, n_resamples=99) for level in (0.5, 0.8, 0.95, 0.999)]
    for first, second in itertools.pairwise(reports):
        for name in first:
            if not math.isnan(first[name].low):
                # The smooth ends are roots found to 1e-4 of themselves.
                assert second[name].low <= first[name].low * (1 + 2e-4 if first[name].low > 0 else 1) + 1e-15, name
                assert second[name].high >= first[name].high * (1 - 2e-4), name
        own, wider = first.diagram, second.diagram
        filled = own.counts > 0
        for low, high in (("lows", "highs"), ("band_lows", "band_highs")):
            assert np.all(getattr(wider, low)[filled] <= getattr(own, low)[filled] + 1e-15)
            assert np.all(getattr(wider, high)[filled] >= getattr(own, high)[filled] - 1e-15)
        for kind, curve in first.curves.items():
            assert np.all(second.curves[kind].confidence_lows <= curve.confidence_lows + 1e-15)
            assert np.all(second.curves[kind].consistency_highs >= curve.consistency_highs - 1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("slope", [1.0, 2.0])
def test_more_rows_are_narrower(slope):
    widths = []
    for n in (600, 6000, 60_000):
        reports = [evaluate(*draw(seed, n, slope), level=LEVEL, n_resamples=60) for seed in range(3)]
        widths.append({name: np.mean([r[name].high - r[name].low for r in reports]) for name in reports[0]})
    for name in widths[0]:
        if name not in ("classwise_ece", "uncertainty"):  # of r (1 - r), at its maximum here: its width is of 1 / N
            first, second, third = (width[name] for width in widths)
            # Ten times the rows: from sqrt(10) times narrower down to a fifth narrower, for ends that start at 0.
            assert second < 0.8 * first, name
            assert third < 0.8 * second, name


def test_the_lower_end_of_the_ks_error_is_0_unless_its_test_rejects():
    """Outcomes that vary less than under calibration narrow the Brownian bounds, but not the noise floor."""
    rng = np.random.default_rng(3)
    p = rng.beta(1, 20, size=400)
    y = (rng.random(400) < 0.4 * p).astype(int)
    found = evaluate(p, y, measures=["ks"])["ks"]
    assert cumulative.interval(Cells.from_table(ReliabilityTable.from_predictions(p, y)), found.value, 0.95)[0] > 0
    assert found.p_value > 0.025
    assert found.low == 0


def test_few_rows_of_an_outcome_are_flagged():
    p = np.linspace(0, 0.1, 500)
    y = np.zeros(500, int)
    y[::40] = 1  # 13 rows
    report = evaluate(p, y, n_resamples=20)
    assert {found.details["flag"] for found in report.values()} == {
        "13 rows of the less frequent outcome, fewer than 15, so intervals may be too short"
    }
    assert all("flag" in found.details for found in evaluate(1 - p, 1 - y, n_resamples=20).values())
    y[1:3] = 1
    assert not any("flag" in found.details for found in evaluate(p, y, n_resamples=20).values())
    # Only how the weights of the less frequent outcome differ among themselves matters.
    assert "flag" not in evaluate(p, y, weights=np.where(y == 1, 0.3, 0.31), n_resamples=20)["ece"].details
    w = np.linspace(0.2, 0.4, 500)
    rows = w[y == 1].sum() ** 2 / (w[y == 1] ** 2).sum()
    assert evaluate(p, y, weights=w, n_resamples=20)["ece"].details["flag"].startswith(f"{rows:.4g} rows")


# ---------------------------------------------------------------- invariances


def leaves(value, path=""):
    if isinstance(value, dict):
        for key, entry in value.items():
            yield from leaves(entry, f"{path}.{key}")
    elif isinstance(value, list):
        for i, entry in enumerate(value):
            yield from leaves(entry, f"{path}.{i}")
    else:
        yield path, value


#: How the data came, and the paragraphs that say so: arrays and tables, weights and repeated rows differ there.
HOW_THEY_CAME = (".choices.", ".methods", ".results")

#: Sums over rows in the order in which they came: the same to rounding. All else is made from a sorted table.
IN_ORDER = (".estimates.brier_skill", ".estimates.brier.", ".estimates.nll.", ".estimates.accuracy.")


def assert_same(first, second, *, but=(), close=None):
    """Compare every number of two reports, to the bit, or closely where sums were taken in another order."""
    first, second = (dict(leaves(report.to_dict())) for report in (first, second))
    assert first.keys() == second.keys()
    for path, value in first.items():
        if path.rsplit(".", 1)[-1] in but or path.startswith(HOW_THEY_CAME):
            continue
        if isinstance(value, float) and (close or path.startswith(IN_ORDER)):
            assert second[path] == pytest.approx(value, rel=close or CLOSE, abs=close or 1e-13), path
        else:
            assert second[path] == value, path


@laws
def test_the_order_of_the_rows_plays_no_part(law):
    p, y = LAWS[law]
    order = np.random.default_rng(10).permutation(len(p))
    assert_same(*(evaluate(p[o], y[o], n_resamples=40) for o in (slice(None), order)))


@pytest.mark.covering
@laws
@pytest.mark.parametrize("notion", ["positive", "top-label"])
def test_a_table_is_its_arrays(law, notion):
    p, y = LAWS[law]
    own = evaluate(p, y, notion=notion, n_resamples=40)
    found = evaluate(ReliabilityTable.from_predictions(p, y, notion=notion), notion=notion, n_resamples=40)
    if notion == "top-label":  # a table of right answers does not say how often each class is
        own, found = (
            replace(report, estimates={key: report[key] for key in report if key != "brier_skill"})
            for report in (own, found)
        )
    assert_same(own, found)


@pytest.mark.covering
@laws
@pytest.mark.parametrize("n_resamples", [0, 40])
def test_a_weight_of_two_is_the_row_twice(law, n_resamples):
    p, y = LAWS[law]
    w = np.random.default_rng(11).integers(0, 4, len(p))
    weighted = evaluate(p, y, weights=w, weights_are="frequency", n_resamples=n_resamples)
    repeated = evaluate(np.repeat(p, w), np.repeat(y, w), n_resamples=n_resamples)
    assert (weighted.n, repeated.n) == (np.count_nonzero(w), w.sum())  # n counts rows, not their weight
    assert_same(weighted, repeated, but=("n",))


@pytest.mark.parametrize("notion", ["top-label", "classwise", "multilabel"])
@pytest.mark.parametrize("n_resamples", [0, 40])
def test_a_weight_of_two_is_the_row_of_classes_twice(notion, n_resamples):
    rng = np.random.default_rng(12)
    probs, labels, w = rng.dirichlet(np.ones(3), 200), rng.integers(0, 3, 200), rng.integers(0, 4, 200)
    if notion == "multilabel":
        labels = (rng.uniform(size=probs.shape) < probs).astype(int)
    options = {"notion": notion, "n_resamples": n_resamples}
    weighted = evaluate(probs, labels, weights=w, weights_are="frequency", **options)
    repeated = evaluate(np.repeat(probs, w, 0), np.repeat(labels, w, 0), **options)
    # The histograms of classes are summed in the order of the rows; draws from rates that differ by rounding agree.
    assert_same(weighted, repeated, but=("n",), close=1e-9)


@functools.cache
def of_equal_weights(size):
    p, y = LAWS["tilted"]
    return evaluate(p, y, weights=None if size is None else np.full(len(p), size), n_resamples=60, profile="all")


@pytest.mark.parametrize("size", [0.5, 10.3])
@pytest.mark.parametrize("name", [name for name in BY_NAME if name not in ("classwise_ece", "rps", "within_one")])
def test_equal_weights_of_any_size_are_as_many_rows(name, size):
    """They are not frequencies: N rows of weight .5 say as much as N rows, not as half as many."""
    plain, weighted = (of_equal_weights(w)[name] for w in (None, size))
    assert (weighted.value, weighted.low, weighted.high) == near((plain.value, plain.low, plain.high))
    assert weighted.p_value == near(plain.p_value)
    if plain.floor is not None:
        assert (weighted.floor.mean, weighted.floor.upper) == near((plain.floor.mean, plain.floor.upper))


@pytest.mark.parametrize("law", ["calibrated", "tilted"])
def test_uneven_weights_are_fewer_rows(law):
    p, y = LAWS[law]
    w = np.random.default_rng(13).gamma(0.5, 1.0, len(p))
    plain, weighted = (evaluate(p, y, weights=own, n_resamples=60) for own in (None, w))
    wider = math.sqrt(len(p) * np.sum(w**2)) / w.sum()
    for name in ("accuracy", "brier", "nll", "mean_gap", "mean_confidence"):
        ratio = (weighted[name].high - weighted[name].low) / (plain[name].high - plain[name].low)
        # Squared weights and squared losses of n_eff = 130 rows correlate by chance, by 1 / sqrt(130) or so.
        assert ratio == pytest.approx(wider, rel=0.3), name
    for name in ("ece", "ace", "smece", "ks"):
        assert weighted[name].floor.mean == pytest.approx(wider * plain[name].floor.mean, rel=0.3), name
        assert weighted[name].high - weighted[name].low > plain[name].high - plain[name].low, name


@pytest.mark.parametrize("n", [4000, 20_000])
@pytest.mark.parametrize("slope", [1.0, 2.0])
def test_a_table_on_the_grid_has_nearly_the_intervals_of_the_rows(n, slope):
    p, y = draw(14, n, slope)
    exact = evaluate(p, y, level=LEVEL, n_resamples=99)
    pooled = evaluate(ReliabilityTable.from_scores(p, y, grid="standard"), level=LEVEL, n_resamples=99)
    for name in exact:
        if name not in ("classwise_ece", "discrimination", "miscalibration"):  # whose folds are drawn anew
            found, expected = pooled[name], exact[name]
            # Cells are 4e-4 wide at most: below 1 % of a bin, a bandwidth or a residual. But a bin of equal mass may
            # begin a cell sooner or later, which moves 4e-4 of the rows, half of them with a residual of 1, 14 times.
            close = 3e-3 if name == "ace" else 0.01 * (expected.high - expected.low)
            assert found.value == pytest.approx(expected.value, abs=close), name
            assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=close), name
        if pooled[name].value == pooled[name].value:
            assert pooled[name].details["table"] == "standard grid"


def test_scores_and_outcomes_turned_round():
    p, y = draw(15, 600, 1.6)  # (i + 1/2) / 40 is never whole: quantile bins are mirrored
    own, turned = evaluate(p, y, n_resamples=0), evaluate(1 - p, 1 - y, n_resamples=0)
    for name in ("accuracy", "brier", "nll", "ece", "ace", "rmsce", "debiased_square", "mce", "smece", "uncertainty"):
        first, second = own[name], turned[name]
        # The smooth ends are roots found to 1e-4 of themselves.
        close = 2e-4 if name == "smece" else 1e-9
        assert (first.value, first.low, first.high) == pytest.approx((second.value, second.low, second.high), rel=close)
        assert first.p_value == pytest.approx(second.p_value, rel=1e-6, nan_ok=True)
    assert own["mean_gap"].high == near(-turned["mean_gap"].low)
    assert own["miscalibration"].value == near(turned["miscalibration"].value)
    assert own["discrimination"].value == near(turned["discrimination"].value)
    assert own.diagram.lows == near(1 - turned.diagram.highs[::-1])
    assert own.diagram.band_highs == near(1 - turned.diagram.band_lows[::-1])


@pytest.mark.parametrize("weights", [None, np.full(200, 0.7)])
def test_what_is_given_is_not_written_to(weights):
    rng = np.random.default_rng(16)
    for probs in (rng.uniform(size=200), rng.dirichlet(np.ones(3), 200).astype(np.float32)):
        labels = rng.integers(0, 2, 200)
        given = [probs, labels, rng.integers(0, 3, 200)] + ([] if weights is None else [weights.copy()])
        before = [x.copy() for x in given]
        for x in given:
            x.flags.writeable = False
        evaluate(*given[:2], groups=given[2], weights=None if weights is None else given[3], n_resamples=20)
        assert all(np.array_equal(x, y) for x, y in zip(given, before, strict=True))


# ---------------------------------------------------------------- awkward data


halves, ends = [0.5] * 60, [0.0, 1.0] * 40
tiny = np.float32(1e-45)  # the least number of single precision
EDGES = {
    "one row": ([0.3], [1]),
    "one row, certain and right": ([1.0], [1]),
    "one row, certain and wrong": ([1.0], [0]),
    "two rows": ([0.3, 0.6], [1, 0]),
    "constant": ([0.3] * 100, [1, 0, 0, 0] * 25),
    "constant, never": ([0.3] * 60, [0] * 60),
    "constant, always": ([0.3] * 100, [1] * 100),
    "all 1 and wrong": ([1.0] * 100, [0] * 100),
    "ends, right": (ends, [0, 1] * 40),
    "ends, wrong": (ends, [1, 0] * 40),
    "ends, mixed": (ends, [0, 1, 1, 0] * 20),
    "ends and halves": (ends + halves, [0, 1] * 70),
    "least floats": (np.full(50, tiny), [0] * 49 + [1]),
    "least floats and halves": (np.concatenate([np.full(50, tiny), np.full(50, np.float32(0.5))]), [0] * 60 + [1] * 40),
    "vanishing": ([1e-250] * 50, [0] * 50),
    "next to 1": ([1 - 2.0**-53] * 50, [1] * 49 + [0]),
    "fewer rows than bins": (np.linspace(0.05, 0.95, 7), [0, 0, 1, 0, 1, 1, 1]),
    "rare": rare(17, 2000),
    "rare and never": (rare(17, 500)[0], np.zeros(500, int)),
    "impossible happened": ([0.0, 0.4] * 40, [1, 0] * 40),
}


@pytest.mark.covering
@pytest.mark.parametrize("n_resamples", [0, 50])
@pytest.mark.parametrize("case", EDGES)
def test_awkward_data(case, n_resamples):
    p, y = EDGES[case]
    report = evaluate(p, y, n_resamples=n_resamples)
    written = holds(report)
    assert written["n_resamples"] == n_resamples
    if n_resamples:
        assert not math.isnan(report["miscalibration"].high)
    else:
        assert report["miscalibration"].method == "no interval: an interval needs resampling (n_resamples)"
    if len(p) < 30:
        assert report["mce"].method == "not available: no bin has 30 rows"
        assert report["mce"].details["reason"] == "no bin has 30 rows"
        reasons = {written["not_finite"][f"estimates.mce.{end}"] for end in ("value", "low", "high")}
        assert reasons == {"no bin has 30 rows"}
        assert report["mce"].details["of_all_bins"] == near(calibrant.maximum_calibration_error(p, y))
    if "impossible" in case or "certain and wrong" in case:
        assert report["nll"].value == math.inf
        assert report["nll"].method == "no interval: infinite: an observed outcome had predicted probability 0"
    if "wrong" in case and "one" not in case:  # of errors of 1 in 40 rows or more
        assert all(report[name].low > 0.85 for name in ("ece", "ace", "rmsce", "debiased_square", "mce", "brier"))


@pytest.mark.covering
@pytest.mark.parametrize("n_resamples", [0, 50])
@pytest.mark.parametrize("notion", ["top-label", "classwise", "multilabel"])
@pytest.mark.parametrize("case", ["right", "wrong", "even", "one row", "two rows"])
def test_awkward_classes(case, notion, n_resamples):
    n = {"one row": 1, "two rows": 2}.get(case, 45)
    labels = np.arange(n) % 3
    probs = {"right": np.eye(3)[labels], "wrong": np.eye(3)[(labels + 1) % 3]}.get(case, np.full((n, 3), 1 / 3))
    targets = np.eye(3, dtype=int)[labels] if notion == "multilabel" else labels
    report = evaluate(probs, targets, notion=notion, n_resamples=n_resamples)
    holds(report)
    errors = {"right": 0, "wrong": 2 / 3, "even": 0, "one row": 4 / 9, "two rows": 2 / 9}
    assert report["classwise_ece"].value == near(errors[case])


def test_the_maximum_over_classes_says_why_it_is_missing():
    probs = np.random.default_rng(18).dirichlet(np.ones(3), 20)
    found = evaluate(probs, np.arange(20) % 3, notion="classwise", n_resamples=20)["mce"]
    assert math.isnan(found.value)
    assert found.method == "not available: no bin has 30 rows"


# ---------------------------------------------------------------- diagrams


@pytest.mark.parametrize("weights", [None, np.random.default_rng(20).uniform(0.3, 2, 400)])
def test_a_diagram_has_clopper_and_pearson_s_intervals(weights):
    p, y = LAWS["tilted"]
    p = p * 0.9  # the last bins are empty
    w = np.ones(400) if weights is None else weights
    diagram = evaluate(p, y, weights=weights, level=LEVEL, n_resamples=0).diagram
    assert diagram.level == LEVEL
    for b in range(15):
        i = (p > b / 15) & (p <= (b + 1) / 15)
        if not i.any():
            assert all(math.isnan(getattr(diagram, name)[b]) for name in ("lows", "highs", "band_lows", "band_highs"))
            continue
        n = w[i].sum() ** 2 / (w[i] ** 2).sum()
        rate = np.average(y[i], weights=w[i])
        if weights is not None and 0 < rate < 1:  # the rows in which this rate would be as uncertain, if they are fewer
            n = min(n, rate * (1 - rate) * w[i].sum() ** 2 / np.sum(w[i] ** 2 * (y[i] - rate) ** 2))
        k = rate * n
        low = stats.beta.ppf(TAIL, k, n - k + 1) if k > 0 else 0
        high = stats.beta.ppf(1 - TAIL, k + 1, n - k) if k < n else 1
        assert (diagram.lows[b], diagram.highs[b]) == near((low, high))
        assert diagram.lows[b] <= diagram.accuracies[b] <= diagram.highs[b]
        if weights is None:  # the band in closed form: where the bin's rate lies if its scores are right on average
            said = stats.binom(n, p[i].mean())
            assert (diagram.band_lows[b], diagram.band_highs[b]) == near((said.ppf(TAIL) / n, said.ppf(1 - TAIL) / n))
    assert np.isnan(diagram.lows).sum() == 1


def test_the_band_of_resampling_is_nearly_the_closed_form():
    p, y = draw(21, 2000)
    first, second = (evaluate(p, y, level=LEVEL, n_resamples=k).diagram for k in (0, 999))
    # A quantile of 999 draws is off by 4 * 2.1 / sqrt(999) = .27 standard deviations of about .04, and by a count.
    close = 0.27 * np.sqrt(0.25 / first.counts) + 1 / first.counts
    assert np.all(np.abs(first.band_lows - second.band_lows) <= close)
    assert np.all(np.abs(first.band_highs - second.band_highs) <= close)
    assert np.array_equal(first.lows, second.lows)


@pytest.mark.slow
@pytest.mark.parametrize("n_resamples", [0, 199])
def test_bands_and_intervals_hold_their_share_of_bins(n_resamples):
    within, covered = [], []
    for seed in range(30):
        diagram = evaluate(*draw(100 + seed, 300), level=LEVEL, n_resamples=n_resamples).diagram
        rates, middles = diagram.accuracies, (np.arange(15) + 0.5) / 15
        within += list((diagram.band_lows <= rates) & (rates <= diagram.band_highs))
        covered += list((diagram.lows <= middles) & (middles <= diagram.highs))
    error = 4 * math.sqrt(LEVEL * (1 - LEVEL) / len(within))
    # A count of 20 rows takes steps of .1 in probability, of which each end adds half.
    assert LEVEL - error <= np.mean(within) <= LEVEL + 0.05 + error
    assert np.mean(covered) >= LEVEL - error  # Clopper and Pearson's are conservative


def test_intervals_of_narrow_bins_hold_their_rates():
    p, y = draw(22, 20_000)
    diagram = evaluate(p, y, n_bins=1000, n_resamples=10).diagram
    filled = diagram.counts > 0
    assert np.all((diagram.lows <= diagram.accuracies)[filled])
    assert np.all((diagram.accuracies <= diagram.highs)[filled])


# ---------------------------------------------------------------- curves


def reflected(t, c, s):
    """K_s(t, c) = sum_k phi_s(t - c + 2 k) + phi_s(t + c + 2 k)."""
    return sum(stats.norm.pdf(t[:, None] + sign * c + 2 * k, scale=s) for sign in (-1, 1) for k in (-1, 0, 1))


@laws
def test_curves_lie_in_their_confidence_bands(law):
    p, y = LAWS[law]
    for kind, curve in evaluate(p, y, level=LEVEL, n_resamples=49).curves.items():
        assert (curve.kind, curve.level) == (kind, LEVEL)
        assert len(curve.scores) <= 128
        assert (curve.scores[0], curve.scores[-1]) == pytest.approx((p.min(), p.max()), abs=4e-4)  # of cells
        for low, high in (
            (curve.confidence_lows, curve.confidence_highs),
            (curve.consistency_lows, curve.consistency_highs),
        ):
            assert np.all((low >= 0) & (low <= high) & (high <= 1))
        assert np.all((curve.confidence_lows <= curve.rates) & (curve.rates <= curve.confidence_highs))
        if kind == "isotonic":
            for line in (curve.rates, curve.consistency_lows, curve.consistency_highs):
                assert np.all(np.diff(line) >= -1e-15)  # quantiles of nondecreasing fits are nondecreasing


@pytest.mark.parametrize("law", ["calibrated", "tilted", "tied", "few rows"])
def test_the_isotonic_curve_is_that_of_another_program(law):
    p, y = LAWS[law]
    curve = evaluate(p, y, level=LEVEL, n_resamples=0).curves["isotonic"]
    assert curve.rates == near(IsotonicRegression().fit(p, y).predict(curve.scores))
    assert math.isnan(curve.bandwidth)
    for band in ("confidence_lows", "confidence_highs", "consistency_lows", "consistency_highs"):
        assert np.all(np.isnan(getattr(curve, band)))  # it needs resampling


def test_without_resampling_the_isotonic_bands_are_null_with_their_reason():
    written = evaluate(*LAWS["few rows"], n_resamples=0).to_dict()
    assert written["curves"]["isotonic"]["confidence_lows"][0] is None
    assert written["not_finite"]["curves.isotonic.consistency_highs[3]"] == "the band needs resampling"
    assert written["not_finite"]["curves.isotonic.bandwidth"] == "the isotonic curve has no bandwidth"
    assert written["curves"]["smooth"]["confidence_lows"][0] is not None


def test_the_reason_of_a_missing_bandwidth_names_its_curve():
    reasons = evaluate(*LAWS["few rows"], profile="clinical", n_resamples=0).to_dict()["not_finite"]
    found = {path: reason for path, reason in reasons.items() if path.endswith(".bandwidth")}
    assert found == {f"curves.{kind}.bandwidth": f"the {kind} curve has no bandwidth" for kind in ("isotonic", "loess")}


@pytest.mark.parametrize("weights", [None, np.random.default_rng(23).uniform(0.3, 2, 400)])
def test_the_smooth_curve_is_its_formula(weights):
    p, y = LAWS["tilted"]
    w = np.ones(400) if weights is None else weights
    curve = evaluate(p, y, weights=weights, level=LEVEL, n_resamples=0).curves["smooth"]
    assert curve.bandwidth == near(calibrant.smooth_calibration_error(p, y, weights=weights))
    kernel, of_rows = reflected(curve.scores, p, curve.bandwidth), reflected(p, p, curve.bandwidth)
    mass = kernel @ w
    rates, said = kernel @ (w * y) / mass, kernel @ (w * p) / mass
    own = of_rows @ (w * y) / (of_rows @ w)
    half = Z * np.sqrt(kernel**2 @ (w**2 * own * (1 - own))) / mass
    null = Z * np.sqrt(kernel**2 @ (w**2 * p * (1 - p))) / mass
    # A mesh of 8 steps a bandwidth widens the kernel by 1 / 300 at the most.
    for found, expected in (
        (curve.rates, rates),
        (curve.confidence_lows, np.maximum(rates - half, 0)),
        (curve.confidence_highs, np.minimum(rates + half, 1)),
        (curve.consistency_lows, np.maximum(said - null, 0)),
        (curve.consistency_highs, np.minimum(said + null, 1)),
    ):
        assert found == pytest.approx(expected, abs=2e-3)


def test_the_isotonic_confidence_band_is_of_fits_to_draws_from_the_fit():
    p, y = LAWS["over-confident"]
    curve = evaluate(p, y, level=LEVEL, n_resamples=400).curves["isotonic"]
    fit, rng = IsotonicRegression().fit(p, y).predict(p), np.random.default_rng(25)
    draws = [IsotonicRegression().fit(p, rng.uniform(size=300) < fit).predict(curve.scores) for _ in range(400)]
    low, high = np.quantile(draws, [TAIL, 1 - TAIL], axis=0)
    # Quantiles of 400 draws, of both sides, are off by 2.1 sqrt(2 / 400) = .15 standard deviations of about .1.
    assert np.mean(np.abs(curve.confidence_lows - np.minimum(low, curve.rates))) < 0.02
    assert np.mean(np.abs(curve.confidence_highs - np.maximum(high, curve.rates))) < 0.02
    assert curve.consistency_lows[len(curve.scores) // 2] > curve.confidence_highs[len(curve.scores) // 2]


@pytest.mark.slow
def test_consistency_bands_hold_their_share_of_points():
    within = {"isotonic": [], "smooth": []}
    for seed in range(40):
        for kind, curve in evaluate(*draw(200 + seed, 300), level=LEVEL, n_resamples=199).curves.items():
            inside = (curve.consistency_lows <= curve.rates) & (curve.rates <= curve.consistency_highs)
            within[kind].append(inside.mean())
    for kind, shares in within.items():  # points of one curve depend on each other: 40 shares
        assert np.mean(shares) == pytest.approx(LEVEL, abs=4 * np.std(shares) / math.sqrt(40) + 0.01), kind


# ---------------------------------------------------------------- what is asked for


@pytest.mark.parametrize("n_resamples", [0, 40])
def test_without_a_level_there_are_the_same_values_and_nothing_else(monkeypatch, n_resamples):
    probs = np.random.default_rng(24).dirichlet(np.ones(3), 200)
    cases = [(*LAWS["tilted"], None), (*LAWS["few rows"], None), (probs, np.arange(200) % 3, "top-label")]
    cases += [(probs, np.arange(200) % 3, "classwise"), (probs, (probs > 0.4).astype(int), "multilabel")]
    full = [evaluate(*case[:2], notion=case[2], n_resamples=n_resamples) for case in cases]

    def never(*_):
        raise AssertionError

    # Nothing of inference is touched, so that nothing of it is paid for.
    monkeypatch.setattr(Cells, "of", never)
    monkeypatch.setattr("calibrant.statistics.resampling.generator", never)
    for case, report in zip(cases, full, strict=True):
        plain = evaluate(*case[:2], notion=case[2], level=None, n_resamples=n_resamples)
        holds(plain)
        assert (plain.level, plain.n_resamples, dict(plain.curves)) == (None, 0, {})
        for name, found in plain.items():
            assert found.value == report[name].value or math.isnan(report[name].value)
            assert found.floor is None
            assert math.isnan(found.p_value)
            assert math.isnan(found.low)
        assert plain["brier"].method == "no interval was requested (level=None)"
        if plain.diagram is not None:
            assert plain.diagram.lows is None
            assert plain.diagram.band_highs is None
            assert np.array_equal(plain.diagram.accuracies, report.diagram.accuracies, equal_nan=True)


def test_errors_about_what_is_asked_for():
    p, y = [0.3, 0.6], [0, 1]
    for level in (95, 1, 1.0, 0.4, -0.5, True, "0.9", math.nan):
        with bad(match=r"level: expected a number from 0.5 to below 1, got .*; pass a share such as 0.95"):
            evaluate(p, y, level=level)
    with bad(match="got 95; pass a share such as 0.95, not percent"):
        evaluate(p, y, level=95)
    for n_resamples in (-1, 1.5, "100", None, True, 10**8):
        with bad(match="n_resamples: expected an integer from 0 to 10,000,000, got .*; pass 1000, or 0 to use"):
            evaluate(p, y, n_resamples=n_resamples)
    for rng in (-1, 1.5, "seed", None, True, np.random.RandomState(0)):
        with bad(match=r"rng: expected a non-negative integer or a numpy.random.Generator, got .*; pass a seed"):
            evaluate(p, y, rng=rng)
    found = evaluate(p, y, level=np.float64(0.9), n_resamples=np.int64(20), rng=np.int32(3))
    assert found.to_dict() == evaluate(p, y, level=0.9, n_resamples=20, rng=3).to_dict()


# ---------------------------------------------------------------- few heavy rows


def heavy_rows(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of which every hundredth weighs some thirty times as much."""
    rng = np.random.default_rng(0)
    p = rng.random(n)
    return p, (rng.random(n) < p).astype(int), np.where(np.arange(n) % 100 == 7, 30.5, 1.0)


def test_weights_of_few_rows_are_flagged() -> None:
    """(sum w^2)^2 / sum w^4: ten heavy rows decide the variances of a thousand, and fifty do not."""
    for n, flagged in ((200, True), (1_000, True), (5_000, False)):
        p, y, w = heavy_rows(n)
        rows = np.sum(w**2) ** 2 / np.sum(w**4)
        assert bool(rows < 30) is flagged
        flag = calibrant.evaluate(p, y, weights=w, n_resamples=0)["brier"].details.get("flag", "")
        assert (
            f"few rows have most of the weight (effective number of rows {rows:.2g}), so intervals may be too short"
            in flag
        ) is flagged
        whole = calibrant.evaluate(p, y, weights=np.rint(w), n_resamples=0)["brier"].details.get("flag", "")
        assert "few rows have most of the weight" not in whole, "a whole weight repeats its row"
    probs = np.random.default_rng(1).dirichlet(np.ones(3), 300)
    targets, weights = np.arange(300) % 3, heavy_rows(300)[2]
    for notion in ("top-label", "classwise"):
        report = calibrant.evaluate(probs, targets, weights=weights, notion=notion, n_resamples=0)
        assert "few rows have most of the weight" in report["ece"].details["flag"]


def test_sketches_know_the_weights_that_decide() -> None:
    p, y, w = heavy_rows(1_000)
    expected = calibrant.evaluate(p, y, weights=w, n_resamples=0)["ece"].details["flag"]
    parts = [calibrant.CalibrationSketch() for _ in range(2)]
    parts[0].update(p[:300], y[:300], weights=w[:300])
    parts[1].update(p[300:], y[300:], weights=w[300:])
    both = parts[0] + parts[1]
    for sketch in (both, calibrant.CalibrationSketch.from_bytes(both.to_bytes())):
        assert calibrant.evaluate(sketch, n_resamples=0)["ece"].details["flag"] == expected
    unweighted = sketch_of(p, y)
    assert "flag" not in calibrant.evaluate(unweighted, n_resamples=0)["ece"].details
    assert "flag" in calibrant.evaluate(unweighted + both, n_resamples=0)["ece"].details


# ---------------------------------------------------------------- diagrams of any bins


@pytest.mark.parametrize("binning", ["uniform", "quantile"])
@pytest.mark.parametrize("kind", ["rows", "repeated rows", "weights", "table", "top-label"])
def test_a_diagram_of_any_bins_has_clopper_pearsons_intervals_and_a_binomial_band(binning, kind):
    """Row by row from scipy's own quantiles; with weights the effective sample sizes are added up by hand."""
    probs, y = draw(5, 400)
    probs[:40] = 0.25  # ties
    rng, options, data = np.random.default_rng(3), {}, (probs, y)
    w = np.ones(400)
    if kind == "repeated rows":
        options["weights"] = w = rng.integers(1, 4, 400)
    elif kind == "weights":
        options["weights"] = w = rng.uniform(0.5, 2, 400)
    elif kind == "table":
        data = (ReliabilityTable.from_predictions(probs, y),)
    elif kind == "top-label":
        options["notion"], y = "top-label", ((probs >= 0.5) == y).astype(int)
        probs = np.maximum(probs, 1 - probs)
    plain = calibrant.reliability_diagram(*data, n_bins=7, binning=binning, **options)
    diagram = calibrant.reliability_diagram(*data, n_bins=7, binning=binning, level=LEVEL, **options)
    assert plain.lows is plain.band_lows is None
    assert diagram.level == LEVEL
    for name in ("edges", "counts", "confidences", "accuracies", "proportions"):
        np.testing.assert_allclose(getattr(diagram, name), getattr(plain, name), rtol=1e-13)
    if binning == "quantile":
        mass = np.array([w[probs < p].sum() + w[probs == p].sum() / 2 for p in probs])
        place = np.minimum(6, np.floor(7 * mass / w.sum())).astype(int)
    else:
        place = np.maximum(np.ceil(probs * 7).astype(int) - 1, 0)
    for k in range(7):
        p, o, v = probs[place == k], y[place == k], w[place == k]
        if not len(p):
            assert np.isnan([diagram.lows[k], diagram.highs[k], diagram.band_lows[k], diagram.band_highs[k]]).all()
            continue
        rate, score, n, m = np.average(o, weights=v), np.average(p, weights=v), v.sum(), v.sum()
        if kind == "weights":
            n = v.sum() ** 2 / (v**2).sum()
            held, missed = (v[o == 1] ** 2).sum(), (v[o == 0] ** 2).sum()
            spread = ((1 - rate) ** 2 * held + rate**2 * missed) / v.sum() ** 2
            m = min(n, rate * (1 - rate) / spread) if 0 < rate < 1 else n
        low = stats.beta.ppf(TAIL, rate * m, (1 - rate) * m + 1) if rate else 0
        high = stats.beta.isf(TAIL, rate * m + 1, (1 - rate) * m) if rate < 1 else 1
        assert (diagram.lows[k], diagram.highs[k]) == near((low, high))
        if kind != "weights":
            assert (diagram.band_lows[k], diagram.band_highs[k]) == near(
                (stats.binom.ppf(TAIL, n, score) / n, stats.binom.isf(TAIL, n, score) / n)
            )
        assert diagram.band_lows[k] <= score <= diagram.band_highs[k] or n < 20


def test_the_interval_of_a_diagram_is_that_of_the_report():
    data = draw(5, 400)
    report, diagram = evaluate(*data, n_bins=9, n_resamples=0), calibrant.reliability_diagram(*data, 9, level=0.95)
    for name in ("lows", "highs", "band_lows", "band_highs"):
        np.testing.assert_allclose(getattr(diagram, name), getattr(report.diagram, name), rtol=CLOSE)


@pytest.mark.parametrize("level", [95, 0.3, 1.0, "0.95"])
def test_levels_of_a_diagram_that_are_refused(level):
    with bad(match="level: expected a number from 0.5 to below 1"):
        calibrant.reliability_diagram(*draw(5, 40), level=level)
