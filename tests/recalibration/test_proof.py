"""The choice of a family and the proof of the gain: known truth, naive formulas, laws, clusters, sketches, errors."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import norm, t

import calibrant
from calibrant.errors import InputError
from calibrant.recalibration import Recalibration
from calibrant.recalibration.choice import Choice, Procedure
from calibrant.recalibration.events import brier_losses, certified_loss, log_losses
from calibrant.recalibration.families import COX, Fit
from calibrant.recalibration.pieces import CLIP
from calibrant.recalibration.scored_rows import FitRows, ScoredRows
from calibrant.recalibration.softmax import CLASS_TEMPERATURE
from calibrant.render.blocks import tables_of
from calibrant.report.evaluated_data import of_arguments
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import SamplingDesign
from calibrant.statistics.folds import FOLDS, Parts, deal_buckets
from tests.samples import sketch_of


def sample(n: int, seed: int, slope: float = 1.0, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    p = rng.beta(1.2, 0.8, n)
    return p, (rng.random(n) < expit(shift + slope * logit(p))).astype(np.int64)


def fix_of(p: Any, y: Any = None, **options: Any) -> Recalibration:
    return calibrant.recalibrate(p, y, **{"n_resamples": 0, **options})


# ---------------------------------------------------------------- folds


def test_rows_are_dealt_without_loss_and_evenly() -> None:
    p, y = sample(5_000, 0)
    parts = Parts.of(SamplingDesign(Cells.from_table(calibrant.ReliabilityTable.from_scores(np.round(p, 1), y))))
    dealt = parts.dealt(np.random.default_rng(0))
    np.testing.assert_array_equal(dealt.masses.sum(axis=1), parts.masses.sum(axis=1))
    sizes = dealt.masses.sum(axis=(0, 2))
    assert len(sizes) == FOLDS
    # Binomial with share 1/5: five standard deviations.
    assert (abs(sizes - 1_000) < 5 * math.sqrt(5_000 * 0.16)).all()
    np.testing.assert_array_equal(dealt.without(2).masses.sum(), 5_000 - sizes[2])


def test_buckets_are_dealt_whole_and_by_size() -> None:
    sizes = np.arange(1.0, 24.0)
    folds = deal_buckets(sizes, np.random.default_rng(1))
    for start in range(0, 20, FOLDS):  # each five of like size are in five folds
        assert len(set(folds[np.argsort(-sizes)][start : start + FOLDS])) == FOLDS


# ---------------------------------------------------------------- the choice


@pytest.mark.slow
def test_calibrated_scores_are_left_alone() -> None:
    laws = [lambda rng: rng.random(1_500), lambda rng: rng.beta(8, 1, 1_500), lambda rng: rng.beta(1, 9, 1_500)]
    changed = 0
    for law, seed in itertools.product(laws, range(20)):
        rng = np.random.default_rng(seed)
        p = law(rng).clip(1e-6, 1 - 1e-6)
        changed += fix_of(p, rng.random(1_500) < p, level=0.95).chosen != "identity"
    # The rule is a test of about 3 %: of 60 samples more than 6 change with probability below 0.01.
    assert changed <= 6


@pytest.mark.parametrize(("slope", "shift"), [(0.5, 0.0), (2.0, 0.0), (1.0, 1.0)])
def test_a_line_is_found(slope: float, shift: float) -> None:
    p, y = sample(20_000, 1, slope, shift)
    fix, line = fix_of(p, y), fix_of(p, y, method="cox")
    assert fix.proven
    # The map with the least loss is nearly the true one, which has the largest gain.
    assert fix.gain.value == pytest.approx(line.gain.value, abs=1e-3)
    assert np.mean(np.abs(fix.map(p) - expit(shift + slope * logit(p)))) < 0.01
    numbers = line.map.parameters
    # Five standard errors of a logistic regression of 20,000 rows are below 0.15.
    assert (numbers["slope"], numbers["intercept"]) == pytest.approx((slope, shift), abs=0.15)


def test_another_shape_takes_the_isotonic_map() -> None:
    rng = np.random.default_rng(0)
    p = rng.uniform(0.02, 0.98, 40_000)
    rate = np.where(p < 0.3, 0.1, np.where(p < 0.6, 0.4, 0.8))
    fix = fix_of(p, rng.random(40_000) < rate)
    assert fix.chosen == "isotonic"
    assert np.abs(fix.map([0.15, 0.45, 0.8]) - [0.1, 0.4, 0.8]).max() < 0.03


def test_auto_takes_the_least_loss_and_shrinks_it_towards_no_change() -> None:
    shrinkages, kept = [], set()
    for seed, slope in itertools.product(range(4), (0.6, 0.8, 1.0)):
        p, y = sample(1_000, seed, slope, shift=0.0)
        fix = fix_of(p, y)
        losses = {name: mean for name, (mean, _) in fix.losses.items()}
        assert list(losses) == ["identity", "temperature", "cox", "beta", "isotonic", "constant"]
        best = min(losses, key=losses.__getitem__)
        gap, error = losses["identity"] - losses[best], fix.losses["identity"][1]
        said = " ".join(str(fix).split())
        assert ("Of all maps, it has the smallest log loss" in said) == (fix.chosen == best)
        assert ("is smaller, but the difference may be chance" in said) == (fix.chosen != best)
        if gap == 0 or error**2 / (2 * gap**2) >= 1:
            assert (fix.chosen, fix.shrinkage) == ("identity", 0)
            kept.add(best)
            continue
        assert fix.chosen == best
        assert fix.shrinkage == pytest.approx(error**2 / (2 * gap**2))
        whole = fix_of(p, y, method=best)
        assert whole.shrinkage == 0
        wanted = (1 - fix.shrinkage) * logit(whole.map(p)) + fix.shrinkage * logit(p)
        np.testing.assert_allclose(logit(fix.map(p)), wanted, rtol=1e-9, atol=1e-9)
        shrinkages.append(fix.shrinkage)
    assert kept - {"identity"}  # no change is kept although another map has a smaller loss
    assert min(shrinkages) < 0.05 < 0.15 < max(shrinkages)


@pytest.mark.parametrize("method", ["auto", "temperature", "cox", "beta", "isotonic", "shift", "histogram"])
@pytest.mark.parametrize(
    ("p", "y"),
    [
        ([0.0119] * 50 + [0.976] * 25, [0] * 50 + [1] * 25),
        ([0.0] * 242 + [0.02] + [1.0] * 7, [0] * 243 + [1] * 7),
        ([1e-9] * 500 + [0.5] * 20 + [1.0] * 400, [0] * 500 + [0, 1] * 10 + [1] * 400),
        ([0.3] * 60, [0] * 30 + [1] * 30),
        (np.repeat([1e-12, 1 - 1e-12], 2_000), np.repeat([0, 1], 2_000)),
    ],
    ids=["two scores", "zeros and ones", "saturated", "one score", "certain"],
)
def test_prior_rows_make_a_map_of_any_scores(method: str, p: Any, y: Any) -> None:
    fix = fix_of(p, y, method=method)
    mapped = fix.map(p)
    assert np.isfinite(mapped).all()
    loss = -np.mean(np.log(np.where(np.asarray(y) == 1, mapped, 1 - mapped)))
    bins = 0.06 if method == "histogram" else 0.0  # the mean of different scores
    assert loss <= bins - np.mean(np.log(np.clip(np.where(np.asarray(y) == 1, p, 1 - np.asarray(p)), 1e-12, 1))) + 1e-3


# ---------------------------------------------------------------- the proof


@pytest.mark.parametrize("classes", [False, True])
def test_the_proof_and_the_band_are_those_of_the_shrunk_map(classes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    p, y = sample(600, 0, 0.5)
    nearly = Choice(CLASS_TEMPERATURE if classes else COX, 1 - 1e-9, {}, {})
    monkeypatch.setattr(Procedure, "choose", lambda *_, **__: nearly)
    fix = fix_of(np.stack([1 - p, p], axis=1) if classes else p, y, notion=None)
    assert fix.gain.value == pytest.approx(0, abs=1e-8)
    assert fix.gain.in_sample == pytest.approx(0, abs=1e-8)
    assert fix.after["nll"].value == pytest.approx(fix.before["nll"].value, abs=1e-8)
    if not classes:
        np.testing.assert_allclose(fix.curve.lows, fix.curve.scores, atol=1e-8)


def test_the_gain_is_the_naive_one_with_these_folds() -> None:
    """With one family the folds are those of deal 0; all else is computed row by row."""
    p, y = sample(400, 3, 0.5)
    p = np.round(p, 2).clip(0.01, 0.99)
    fix = fix_of(p, y, method="cox", rng=7)
    table = calibrant.ReliabilityTable.from_scores(p, y)
    from calibrant.statistics.resampling import Stream, generator

    parts = Parts.of(SamplingDesign(Cells.from_table(table)))
    dealt = parts.dealt(generator(np.random.SeedSequence(7), Stream.DEALS, 0))
    rows = []
    for fold in range(FOLDS):
        negatives, positives = dealt.masses[:, [f for f in range(FOLDS) if f != fold]].sum(axis=1)
        kept = negatives + positives > 0
        line = COX.fit(
            FitRows.of_scores(table.scores[kept], (negatives + positives)[kept], positives[kept], 20.0)
        ).parameters
        for cell, outcome in itertools.product(range(len(table)), (0, 1)):
            z = logit(table.scores[cell])
            after = np.logaddexp(0, (1 - 2 * outcome) * (line["intercept"] + line["slope"] * z))
            before = np.logaddexp(0, (1 - 2 * outcome) * z)
            step = line["intercept"] + (line["slope"] - 1) * z  # the gain with the event less that without
            rows += [(before - after, table.scores[cell], step)] * int(dealt.masses[outcome, fold, cell])
    gains, scores, steps = np.array(rows).T
    assert fix.gain.value == pytest.approx(gains.mean(), rel=1e-10)
    variance, falls, rises = with_unseen_errors(gains, scores, steps)
    q = norm.ppf(0.975)
    # The ends solve a quadratic equation, here by a search.
    assert fix.gain.value - fix.gain.low == pytest.approx(
        brentq(lambda x: x - q * math.sqrt(variance + falls * x), 1e-6, 1, xtol=1e-15), rel=1e-8
    )
    z = gains.mean() / math.sqrt(variance + falls * gains.mean())
    assert fix.gain.p_value == pytest.approx(2 * norm.cdf(-z), rel=1e-8)
    line = fix.map.parameters
    signs = 1 - 2 * y
    inside = np.logaddexp(0, signs * logit(p)) - np.logaddexp(0, signs * (line["intercept"] + line["slope"] * logit(p)))
    assert fix.gain.in_sample == pytest.approx(inside.mean(), rel=1e-9)
    steps = line["intercept"] + (line["slope"] - 1) * logit(p)
    inner, _, more = with_unseen_errors(inside, p, steps)
    rise = max(j * q**2 / 2 + math.sqrt((j * q**2 / 2) ** 2 + q**2 * v) for v, j in ((variance, rises), (inner, more)))
    assert fix.gain.high == pytest.approx(max(gains.mean(), inside.mean()) + rise, rel=1e-8)


def with_unseen_errors(gains: np.ndarray, p: np.ndarray, steps: np.ndarray) -> tuple[float, float, float]:
    """The variance of the mean gain, and the change by one error down and up: the moments outcome by outcome."""
    n = len(gains)
    means = p * steps  # relative to the gain without the event
    second, third, fourth = (p * (steps - means) ** k + (1 - p) * (-means) ** k for k in (2, 3, 4))
    seen, implied = gains.var() / n, second.sum() / n**2
    errors = second.sum() ** 2 / fourth.sum()
    blended = (errors * seen + 2 * implied) / (errors + 2)
    falls, rises = (third.clip(*ends).sum() / second.sum() / n for ends in ((None, 0), (0, None)))
    return max(seen, blended), -falls, rises


@pytest.mark.slow
@pytest.mark.parametrize("n", [200, 2_000])
@pytest.mark.parametrize(("slope", "shift"), [(1.0, 0.0), (0.6, 0.0), (1.0, 0.4), (1.5, -0.3)])
def test_the_interval_covers_the_gain_of_the_shipped_map(n: int, slope: float, shift: float) -> None:
    """True gain by the known rates, over 200,000 scores; "auto", 60 data sets."""
    grid = np.random.default_rng(99).beta(1.2, 0.8, 200_000)
    rate = expit(shift + slope * logit(grid))

    def expected(q: np.ndarray) -> float:
        return float(-np.mean(rate * np.log(q) + (1 - rate) * np.log1p(-q)))

    covered, false = 0, 0
    for seed in range(60):
        fix = fix_of(*sample(n, seed, slope, shift))
        true = expected(grid) - expected(fix.map(grid))
        covered += fix.gain.low - 1e-9 <= true <= fix.gain.high + 1e-9
        false += fix.proven and true <= 0
    assert covered >= 51
    assert false <= 6


def clusters(seed: int, groups: int = 40, rows: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Calibrated scores, one outcome for each cluster: a game with a forecast for each minute."""
    rng = np.random.default_rng(seed)
    base = rng.uniform(0.1, 0.9, groups)
    won = rng.random(groups) < base
    p = expit(logit(base)[:, None] + 0.3 * rng.standard_normal((groups, rows)))
    return p.ravel(), np.repeat(won, rows).astype(int), np.repeat(np.arange(groups), rows)


def test_rows_of_clusters_show_a_gain_that_clusters_do_not() -> None:
    of_rows = of_clusters = 0
    for seed in range(10):
        p, y, labels = clusters(seed)
        of_rows += fix_of(p, y, method="isotonic").proven
        of_clusters += fix_of(p, y, method="isotonic", clusters=labels).proven
    assert of_rows >= 8
    assert of_clusters <= 1


def test_clusters_have_a_t_distribution() -> None:
    """With 40 equal clusters it has 39 degrees of freedom: (width / t)^2 is a line in the width."""
    p, y, labels = clusters(1)
    levels = np.array([0.8, 0.95, 0.99])
    gains = [fix_of(p, y, method="cox", clusters=labels, level=level).gain for level in levels.tolist()]
    widths = np.array([gain.value - gain.low for gain in gains])
    squares = (widths / t.ppf((1 + levels) / 2, 39)) ** 2
    falls = (squares[1] - squares[0]) / (widths[1] - widths[0])
    assert squares[2] - squares[0] == pytest.approx(falls * (widths[2] - widths[0]), rel=1e-6)
    assert gains[0].value < 0
    assert gains[0].p_value == 1
    fix = fix_of(p, np.where(np.arange(len(y)) % 60 < 20, y, p > 0.5), method="cox", clusters=labels)
    assert fix.proven == (fix.gain.low >= 0)


def test_a_wrong_certainty_of_a_map_is_judged_by_the_brier_score() -> None:
    """Without prior rows a bin without events says 0, which is infinitely wrong of an event in another fold."""
    rng = np.random.default_rng(0)
    p = rng.random(200)
    fix = fix_of(p, rng.random(200) < p**6, method="histogram", prior_rows=0)
    assert fix.gain.score == "brier"
    assert np.isfinite([fix.gain.low, fix.gain.high, fix.gain.p_value]).all()
    assert math.isinf(fix.after["nll"].value)
    assert np.isfinite([fix.curve.lows, fix.curve.highs]).all()
    line = next(line for line in str(fix).splitlines() if line.startswith("  log loss"))
    assert line.split()[-1] == "inf"


def test_a_map_that_calls_an_outcome_impossible_proves_no_gain() -> None:
    p = np.r_[np.linspace(0.0, 0.4, 200), np.linspace(0.6, 1.0, 200)]
    y = np.repeat([0, 1], 200)
    fix = fix_of(p, y, method="histogram", prior_rows=0)  # by the scores, its log loss of new rows may be infinite
    assert (fix.gain.low, fix.gain.high, fix.gain.p_value, fix.proven) == (-math.inf, math.inf, 1.0, False)
    assert fix.to_dict()["gain"]["low"] is None
    assert fix_of(p, y, method="histogram").proven


def test_a_notebook_shows_one_sentence_and_the_page() -> None:
    p, y, _ = clusters(1)
    fix = fix_of(p, y, method="cox")
    assert repr(fix) == f"<Recalibration: {fix.verdict()[0]} Print the recalibration to see everything.>"
    assert fix.verdict()[0].partition(" (")[0] in fix._repr_html_()


def test_the_page_has_the_map_and_the_bins_with_their_numbers() -> None:
    fix = fix_of(*sample(3_000, 0, 0.6), method="cox", n_resamples=19)
    tables = {table.name: table for table in tables_of(fix._document(full=True).blocks)}
    assert list(tables) == ["recalibration", "bins-before", "bins-after", "map"]
    curve = fix.curve
    assert curve is not None
    assert tables["map"].exact["recalibrated"] == curve.mapped.tolist()
    assert tables["map"].exact["high"] == curve.highs.tolist()
    assert len(tables["map"].places) == 11
    assert sum(tables["bins-after"].exact["count"]) == 3_000
    numbers = tables["recalibration"].exact
    assert numbers["after"] == [fix.after[name].value for name in numbers["measure"]]
    page = fix._repr_html_()
    for part in ("before. Reliability diagram with", "after. Reliability diagram with", 'data-part="map"'):
        assert part in page


def test_the_text_computes_no_band() -> None:
    fix = replace(fix_of(*sample(500, 0, 0.6)), curve_maker=lambda: pytest.fail("the band is computed"))
    assert fix.verdict()[0] in fix.to_markdown()
    assert "log loss" in str(fix)


def test_with_a_certain_score_that_failed_a_map_is_compared_with_clipped_scores() -> None:
    p, y = sample(3_000, 0, 0.5)
    p, y = np.append(p, 1.0), np.append(y, 0)
    fix, clipped = fix_of(p, y), fix_of(p, y, method="clipped")
    assert list(fix.losses) == ["clipped", "temperature", "cox", "beta", "isotonic", "constant"]
    assert fix.gain.score == "log"
    assert math.isinf(fix.before["nll"].value)
    q = clipped.map(p)
    assert fix.gain.value == pytest.approx(-np.mean(np.log(np.where(y == 1, q, 1 - q))) - fix.after["nll"].value)
    assert fix.after["nll"].value == pytest.approx(
        -np.mean(np.log(np.where(y == 1, fix.map(p), 1 - fix.map(p)))), abs=0.005
    )
    said = "predicted probability 0. The decrease therefore compares the map with scores that are clipped"
    assert said in " ".join(str(fix).split())
    assert clipped.gain.score == "brier"
    assert clipped.gain.value == pytest.approx(clipped.before["brier_event"].value - clipped.after["brier_event"].value)
    assert "The decrease is from" not in " ".join(str(clipped).split())


# ---------------------------------------------------------------- laws


def numbers(fix: Recalibration) -> list[float]:
    return [fix.gain.value, fix.gain.low, fix.gain.high, *fix.map([0.1, 0.5, 0.9]), fix.after["ece"].value]


def test_the_order_of_the_rows_plays_no_part() -> None:
    p, y = sample(3_000, 0, 0.6)
    order = np.random.default_rng(0).permutation(3_000)
    assert numbers(fix_of(p, y)) == numbers(fix_of(p[order], y[order]))


@pytest.mark.parametrize("of_clusters", [False, True])
def test_every_number_has_the_same_bits_in_any_order_of_the_rows(of_clusters: bool) -> None:
    p, y, labels = clusters(1)
    orders = [np.random.default_rng(seed).permutation(len(p)) for seed in range(2)]
    found = [
        fix_of(p[o], y[o], method="cox", n_resamples=19, clusters=labels[o] if of_clusters else None).to_dict()
        for o in orders
    ]
    assert found[0] == found[1]


def test_a_weight_of_two_is_a_row_twice() -> None:
    p, y = sample(2_000, 0, 0.6)
    twice = fix_of(np.repeat(p, 2), np.repeat(y, 2))
    weighted = fix_of(p, y, weights=np.full(2_000, 2), weights_are="frequency")
    np.testing.assert_allclose(numbers(weighted), numbers(twice), rtol=1e-12)


def test_merged_sketches_are_one() -> None:
    p, y = sample(6_000, 0, 0.6)
    first, second, whole = (calibrant.CalibrationSketch() for _ in range(3))
    first.update(p[:2_000], y[:2_000])
    second.update(p[2_000:], y[2_000:])
    whole.update(p, y)
    first.merge(second)
    np.testing.assert_allclose(numbers(fix_of(first)), numbers(fix_of(whole)), rtol=1e-12)


def test_a_sketch_gives_the_map_of_its_rows() -> None:
    """Cells instead of scores move a Cox map by at most 6e-5 (specification, eight events)."""
    p, y = sample(20_000, 0, 0.6)
    sketch = sketch_of(p, y)
    grid = np.linspace(0.001, 0.999, 999)
    assert np.abs(fix_of(sketch, method="cox").map(grid) - fix_of(p, y, method="cox").map(grid)).max() < 6e-5


def test_a_table_gives_what_its_rows_give() -> None:
    p, y = sample(2_000, 0, 0.6)
    assert numbers(fix_of(calibrant.ReliabilityTable.from_scores(p, y))) == numbers(fix_of(p, y))


def test_a_sketch_of_clusters_gives_what_its_rows_give() -> None:
    p, y, labels = clusters(3)
    sketch = sketch_of(p, y, clusters=labels)
    one, other = fix_of(sketch, method="cox").gain, fix_of(p, y, method="cox", clusters=labels).gain
    assert one.value == pytest.approx(other.value, rel=1e-3)
    assert one.low == pytest.approx(other.low, rel=1e-3)


# ---------------------------------------------------------------- before and after


def test_errors_after_end_at_the_mean_of_their_noise_floor_at_least() -> None:
    for seed in range(5):
        fix = calibrant.recalibrate(*sample(3_000, seed, 0.6), method="isotonic", n_resamples=199)
        for name in ("ece", "smece", "miscalibration"):
            assert fix.after[name].high >= fix.after[name].floor.mean
        assert fix.after["auroc"] == fix.before["auroc"]
        assert fix.before["nll"].value - fix.after["nll"].value == pytest.approx(fix.gain.value, abs=1e-12)


def test_without_a_change_all_numbers_stay() -> None:
    fix = fix_of(*sample(500, 0))
    assert fix.chosen == "identity"
    assert fix.after is fix.before
    assert fix.gain.value == 0
    assert not fix.proven
    assert not fix.map.proven
    assert fix.map([0.0, 0.123, 1.0]).tolist() == [0.0, 0.123, 1.0]


def test_the_top_label_of_classes_can_be_mapped() -> None:
    rng = np.random.default_rng(0)
    logits = 2 * rng.standard_normal((4_000, 5))
    probs = expit(logits) / expit(logits).sum(axis=1, keepdims=True)
    targets = rng.integers(0, 5, 4_000)
    fix = fix_of(probs, targets, notion="top-label")
    assert fix.map.event["notion"] == "top-label"
    assert "the predicted class is correct" in str(fix)


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "spline"}, r"method: expected one of auto, identity, temperature, .*got 'spline'"),
        ({"method": 3}, "method: expected one of"),
        ({"level": 95}, "level: expected a number from 0.5 to below 1"),
        ({"prior_rows": -1.0}, "prior_rows: expected a number from 0"),
        ({"prior_rows": math.nan}, "prior_rows: expected a number from 0"),
        ({"rng": "x"}, "rng: expected"),
    ],
)
def test_a_wrong_argument_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fix_of(*sample(100, 0), **options)


def test_few_rows_of_an_outcome_are_an_error_or_flagged() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(60)
    y = np.zeros(60, int)
    y[np.argsort(p)[-4:]] = 1
    with pytest.raises(InputError, match="at least 5 rows of each outcome, got 4"):
        fix_of(p, y)
    y[np.argsort(p)[-8:]] = 1
    assert "8 rows of the less frequent outcome" in fix_of(p, y).flag


def test_a_report_on_each_class_is_no_single_event() -> None:
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(3), 200)
    with pytest.raises(InputError, match=r"notion: expected .* or 'multilabel', got 'classwise'; leave notion out"):
        fix_of(probs, rng.integers(0, 3, 200), notion="classwise")


def test_scores_of_0_and_1_that_were_right_are_compared_without_a_warning() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(400)
    p[:40], p[40:80] = 0, 1
    assert fix_of(p, rng.random(400) < p).losses["identity"][0] < math.inf


@pytest.mark.parametrize("n_classes", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_auto_leaves_maps_out_that_do_not_rise(n_classes: int) -> None:
    """Scores without signal have flat maps in many samples: then they remain, and a fit in a search goes on."""
    for seed in range(6 if n_classes == 2 else 2):
        rng = np.random.default_rng(seed)
        p, y = rng.dirichlet(np.full(n_classes, 20.0), 200), rng.integers(0, n_classes, 200)
        fix = fix_of(p[:, 1], y) if n_classes == 2 else fix_of(p, y)
        assert fix.chosen in ("identity", "cox", "temperature", "vector", "matrix", "isotonic", "constant")
    with pytest.raises(InputError, match="slope 0"):
        fix_of(1 - p[:, 1], np.argsort(np.argsort(p[:, 1])) > 100, method="cox")
    wrong = 1 - np.linspace(0.1, 0.9, 200)
    assert fix_of(wrong, np.arange(200) > 100).chosen == "constant"


def test_scores_that_remain_gain_nothing() -> None:
    """Without one of the folds another map is chosen in some samples, but scores that remain are the final map."""
    kept = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        p = rng.random(300)
        fix = fix_of(p, rng.random(300) < expit(0.8 * logit(p) + 0.1))
        if fix.chosen == "identity":
            kept += 1
            assert (fix.gain.value, fix.gain.low, fix.gain.high, fix.gain.p_value) == (0, 0, 0, 1)
    assert kept > 0


@pytest.mark.parametrize("kind", ["log", "brier"])
@pytest.mark.parametrize(
    "map_",
    [
        Fit("line", {"intercept": 0.4, "slope": 1.7, "smallest": CLIP}),
        Fit("beta", {"constant": 0.2, "positive": 0.5, "negative": 2.0, "smallest": CLIP}),
    ],
)
def test_the_loss_of_cells_is_within_its_certified_error(map_: Fit, kind: str) -> None:
    p, y = sample(6_000, 4)
    losses = {"log": log_losses, "brier": brier_losses}[kind]
    of_rows = float(np.mean(losses(map_.pieces.log_odds(p)[np.newaxis])[y, np.arange(len(p))]))
    sketch = sketch_of(p, y)
    for data in (
        of_arguments(sketch, None),
        of_arguments(p, y),
        of_arguments(p, y, clusters=np.arange(6_000) // 20),
    ):
        rows = ScoredRows.of(data)
        parts = Parts.of(rows.design)
        bound = certified_loss(rows, parts, dict.fromkeys(parts.folds.tolist(), map_), kind)
        of_cells = parts.mean(losses(map_.pieces.of_logits(rows.of_outcomes))[:, np.newaxis])
        assert 0 < abs(of_cells - of_rows) <= bound < 0.02
    few = ScoredRows.of(of_arguments(p[:900], y[:900]))
    assert certified_loss(few, Parts.of(few.design), {0: map_}, kind) == 0


def test_the_infinite_loss_of_an_outcome_that_no_row_has_certifies_nothing() -> None:
    rows = ScoredRows.of(of_arguments([0.0] * 9 + [1.0] * 4, [0] * 9 + [1] * 4))
    assert certified_loss(rows, Parts.of(rows.design), {0: Fit("identity", {})}, "log") == 0


def test_a_sketch_says_how_exact_the_loss_after_is() -> None:
    p, y = sample(3_000, 5, slope=0.6)
    sketch = sketch_of(p, y)
    fix = fix_of(sketch, method="cox")
    assert 0 < fix.after["nll"].error_bound < 0.001
    assert math.isnan(fix.after["ece"].error_bound)
    assert "its error is at most 0.000" in " ".join(str(fix).split())
    assert fix_of(p, y, method="cox").after["nll"].error_bound == 0
    assert "certified error" not in str(fix_of(p, y, method="cox"))


def test_a_fit_to_many_scores_is_the_root_of_its_gradient() -> None:
    """Many scores are fitted in blocks, from a start at means of them."""
    p, y = sample(100_000, 6)
    order = np.argsort(p)
    rows = FitRows.of_scores(p[order], np.ones(len(p)), y[order].astype(float))
    fit = COX.fit(rows)
    residuals = y - expit(fit.pieces.log_odds(p))
    np.testing.assert_allclose([residuals.sum(), residuals @ logit(p)], 0, atol=1e-5)


# ---------------------------------------------------------------- errors that were not seen


def confident(n: int, middle: float, seed: int, slope: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng((seed, n))
    z = rng.choice([-1, 1], n) * rng.normal(middle, 0.7, n)
    return expit(z), (rng.random(n) < expit(slope * z)).astype(int)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "middle", "slope"), [(200, 6, 1.0), (500, 6, 1.0), (3_000, 8, 1.0), (500, 6, 0.88)])
@pytest.mark.parametrize("method", ["auto", "temperature"])
def test_confident_scores_do_not_prove_a_gain_by_the_errors_that_were_not_seen(
    method: str, n: int, middle: float, slope: float
) -> None:
    """Half a dozen expected errors at most: 20 samples, of which a test at 5 % rejects 5 with probability 0.003."""
    grid = confident(100_000, middle, 99)[0]
    rate = expit(slope * logit(grid))

    def expected(q: np.ndarray) -> float:
        return float(-np.mean(rate * np.log(q) + (1 - rate) * np.log1p(-q)))

    false = missed = 0
    for seed in range(20):
        fix = fix_of(*confident(n, middle, seed, slope), method=method)
        true = expected(grid) - expected(fix.map(grid))
        false += fix.proven and true <= 0
        missed += not fix.gain.low - 1e-9 <= true <= fix.gain.high + 1e-9
    assert false <= 2
    assert missed <= 4


def test_few_expected_errors_are_flagged_with_their_number() -> None:
    p, y = confident(200, 6, 0)
    fix = fix_of(p, y)
    assert fix.expected_errors == pytest.approx(np.minimum(p, 1 - p).sum())
    said = f"only {fix.expected_errors:.2g} errors (rows with the less probable outcome) are expected"
    for text in (fix.flag, " ".join(str(fix).split()), fix._repr_html_(), fix.to_markdown()):
        assert said in text
    assert fix.to_dict()["expected_errors"] == fix.expected_errors
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(300, 3)) + 9 * np.eye(3)[rng.integers(0, 3, 300)]
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    of_classes = fix_of(probs, probs.argmax(axis=1))
    assert of_classes.expected_errors == pytest.approx((1 - probs.max(axis=1)).sum())
    assert "are expected, and at least 5 are needed" in of_classes.flag
    assert fix_of(*sample(200, 0)).flag == ""


@pytest.mark.parametrize("of_clusters", [False, True])
def test_a_gain_is_proven_where_its_interval_is_above_0(of_clusters: bool) -> None:
    agreed = {True: 0, False: 0}
    for seed, slope in itertools.product(range(2), (0.5, 0.7, 0.9)):
        p, y = sample(600, seed, slope)
        fix = fix_of(p, y, method="cox", clusters=np.arange(600) // 3 if of_clusters else None)
        assert fix.proven == (fix.gain.low >= 0) == (fix.gain.p_value <= 0.05)
        agreed[fix.proven] += 1
    assert min(agreed.values()) > 0


# ---------------------------------------------------------------- the last bits of scores


@pytest.mark.parametrize("noise", [1e-15, 1e-12])
@pytest.mark.parametrize(
    ("method", "drawn"),
    [
        ("auto", lambda rng: rng.beta(1.2, 0.8, 300)),
        ("auto", lambda rng: rng.beta(1.2, 0.8, 3_000)),  # 6,000 scores, if rounding made them different ones
        ("isotonic", lambda rng: np.round(rng.uniform(0.05, 0.95, 600), 2)),
        ("beta", lambda rng: rng.choice([0.3, 0.7], 300)),
        ("cox", lambda _: np.full(300, 0.3)),
        ("auto", lambda _: np.full(300, 0.01)),  # all families have one loss
    ],
)
def test_the_last_bits_of_the_scores_of_equal_rows_play_no_part(noise: float, method: str, drawn: Any) -> None:
    """Rows of weight 1 to 3, and as many rows whose scores differ by rounding, as from another processor."""
    rng = np.random.default_rng(3)
    p = drawn(rng)
    y = (rng.random(len(p)) < expit(0.6 * logit(p))).astype(int)
    weights = rng.integers(1, 4, len(p))
    weighted = fix_of(p, y, weights=weights, weights_are="frequency", method=method)
    rows = rng.permutation(np.repeat(np.arange(len(p)), weights))
    repeated = fix_of(p[rows] * (1 + noise * rng.standard_normal(len(rows))), y[rows], method=method)
    np.testing.assert_allclose(numbers(repeated)[:-1], numbers(weighted)[:-1], rtol=0, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["auto", "vector", "matrix"])
def test_the_last_bits_of_probabilities_of_classes_play_no_part(method: str) -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(0, 1.5, (300, 3))
    p, q = (np.exp(a * z) / np.exp(a * z).sum(axis=1, keepdims=True) for a in (2, 1))
    y = (rng.random((300, 1)) > q.cumsum(axis=1)).sum(axis=1).clip(max=2)
    weights = rng.integers(1, 4, 300)
    weighted = fix_of(p, y, weights=weights, weights_are="frequency", method=method)
    rows = rng.permutation(np.repeat(np.arange(300), weights))
    noisy = p[rows] * (1 + 1e-14 * rng.standard_normal((len(rows), 3)))
    repeated = fix_of(noisy / noisy.sum(axis=1, keepdims=True), y[rows], method=method)
    np.testing.assert_allclose(repeated.map(p), weighted.map(p), rtol=0, atol=1e-9)
    assert (repeated.gain.value, repeated.gain.low) == pytest.approx((weighted.gain.value, weighted.gain.low), abs=1e-9)


# ---------------------------------------------------------------- scores that do not rank


def without_skill(seed: int, slope: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 3, 600)
    return expit(z), (rng.random(600) < expit(slope * z)).astype(int)


@pytest.mark.parametrize("slope", [0.0, -0.3])
def test_scores_without_skill_become_nearly_a_constant(slope: float) -> None:
    """The entropy of the outcomes is what a constant has; no slope is left that costs more than 0.003 nats."""
    for seed in range(3):
        p, y = without_skill(seed, slope)
        fix = fix_of(p, y)
        q = fix.map(p)
        rate = y.mean()
        entropy = -rate * math.log(rate) - (1 - rate) * math.log(1 - rate)
        assert fix.proven
        assert -np.mean(np.where(y == 1, np.log(q), np.log1p(-q))) <= entropy + 0.003
        line = calibrant.evaluate(p, y, measures=["calibration_slope"], n_resamples=0)["calibration_slope"]
        assert ("events are not more frequent at higher scores" in fix.flag) == (line.value <= 0)
        assert slope == 0 or fix.chosen == "constant"


@pytest.mark.slow
def test_no_map_is_said_to_be_clearly_better_only_where_none_is() -> None:
    """No loss out of fold is below that of the unchanged scores by more than 1.96 standard errors."""
    said = 0
    for seed, slope in itertools.product(range(2), (1.0, 0.6, 0.0, -0.5)):
        rng = np.random.default_rng(seed)
        z = rng.normal(0, 0.5, 150)
        fix = fix_of(expit(z), (rng.random(150) < expit(slope * z)).astype(int))
        if "none has a clearly smaller log loss" in " ".join(str(fix).split()):
            said += 1
            mean, _ = fix.losses["identity"]
            least = min(mean for mean, _ in fix.losses.values())
            assert mean - least <= 1.96 * fix.losses["identity"][1] + 1e-12
    assert said > 0
    assert "as requested" in str(fix_of(*sample(200, 0), method="identity"))


def test_a_constant_has_every_form_and_says_that_the_order_is_lost() -> None:
    duckdb = pytest.importorskip("duckdb")
    p, y = without_skill(0, -0.3)
    fix = fix_of(p, y)
    rate = (y.sum() + 0.5) / (len(y) + 1)
    new = np.array([0.0, 1e-12, 0.3, 1.0])
    np.testing.assert_allclose(fix.map(new), rate, rtol=1e-12)
    np.testing.assert_allclose(fix.map(logit(new[1:3]), logits=True), rate, rtol=1e-12)
    assert calibrant.CalibrationMap.from_json(fix.map.to_json()) == fix.map
    (mapped,) = duckdb.sql(f"SELECT {fix.map.to_sql('x')} FROM (SELECT 0.3 AS x)").fetchall()[0]
    assert mapped == pytest.approx(rate, rel=1e-12)
    with pytest.raises(InputError, match="a strictly increasing map of one event"):
        fix.map.inverse(0.5)
    assert fix.after["auroc"].value == 0.5
    text = " ".join(str(fix).split())
    assert "Map: a constant" in text
    assert "The map gives all rows one probability" in text
    assert "the AUROC does not change" not in text
    assert "higher scores go with more events" in text
    assert fix.after["nll"].error_bound == 0
    assert fix_of(*sample(2_000, 0, 0.5), method="constant").after["auroc"].value == 0.5


def test_a_constant_map_is_a_model_of_onnx_and_a_layer() -> None:
    fix = fix_of(*without_skill(0, -0.3))
    rate = float(fix.map([0.3])[0])
    torch = pytest.importorskip("torch")
    from calibrant.torch import RecalibrationLayer

    layer = RecalibrationLayer(fix.map)
    np.testing.assert_allclose(layer(torch.tensor([0.1, 0.9], dtype=torch.float64)).numpy(), rate, rtol=1e-9)
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(fix.map.to_onnx().SerializeToString())
    np.testing.assert_allclose(session.run(None, {"score": np.array([0.0, 0.4, 1.0])})[0], rate, rtol=1e-9)


@pytest.mark.parametrize(
    ("drift", "slope", "seed", "measures"),
    [
        (0.4, 1.0, 1, ["calibration intercept"]),
        (0.0, 0.5, 3, ["calibration slope"]),
        (0.0, 1.0, 2, []),
        (1.5, 1.0, 0, []),  # proven
    ],
)
def test_a_significant_measure_without_a_proven_map_is_explained(
    drift: float, slope: float, seed: int, measures: list[str]
) -> None:
    """One sentence says why, exactly where an interval excludes its ideal value and the gain is not proven."""
    rng = np.random.default_rng(seed)
    p = rng.beta(2, 5, 100)
    fix = fix_of(p, rng.random(100) < expit(drift + slope * logit(p) + (slope - 1)), method="cox")
    off = [
        description.label
        for name, description in fix.before.descriptions.items()
        if (ideal := {"calibration_intercept": 0, "calibration_slope": 1}.get(name)) is not None
        and not fix.before[name].low <= ideal <= fix.before[name].high
    ]
    assert fix.proven == (drift == 1.5)
    assert (off if not fix.proven else []) == measures
    text = " ".join(str(fix).split())
    assert text.count("which is evidence of miscalibration. But a map counts as helpful only if") == bool(measures)
    for label in measures:
        assert f"CI of the {label} ({fix.before[label.replace(' ', '_')].low:+.4f} to" in text
    assert ("But a map counts as helpful" in fix._document(full=True).sentences[1]) == bool(measures)
