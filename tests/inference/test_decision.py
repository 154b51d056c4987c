"""Decisions about a tolerance: one-sided bounds, what they decide, and how many rows a proof takes."""

from __future__ import annotations

import functools
import json
import math
import re
from typing import Any

import numpy as np
import pytest
from scipy import stats

import calibrant
from calibrant import evaluate
from calibrant.errors import InputError
from calibrant.inference import rows_to_prove
from calibrant.inference.decision import TOLERATED, decide, one_sided
from calibrant.report.findings_text import deciding
from calibrant.results import Code, Decision, Estimate, Floor
from tests.samples import draw_classes, draw_tilted, sketch_of


def rows(n: int, seed: int, power: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Return scores, and outcomes whose log-odds are ``power`` times those of the scores."""
    return draw_tilted(seed, n, power)


def decided(*arguments: Any, **options: Any) -> Decision:
    decision = evaluate(*arguments, **{"n_resamples": 0, **options}).decision
    assert decision is not None
    return decision


# ---------------------------------------------------------------- the bounds


@functools.cache
def ends_of(level: float, n_resamples: int) -> calibrant.Report:
    return evaluate(*rows(600, 1, 1.6), level=level, n_resamples=n_resamples)


@pytest.mark.parametrize("n_resamples", [0, 99])
@pytest.mark.parametrize(("level", "two_sided"), [(0.95, 0.9), (0.9, 0.8), (0.5, None)])
@pytest.mark.parametrize("measure", TOLERATED)
def test_the_bounds_are_the_ends_at_level_one_minus_two_alpha(
    measure: Any, level: float, two_sided: float | None, n_resamples: int
) -> None:
    p, y = rows(600, 1, 1.6)
    options = {"tolerance_of": measure, "measures": [measure], "level": level, "n_resamples": n_resamples}
    decision = decided(p, y, tolerance=0.03, **options)
    assert (decision.measure, decision.tolerance, decision.level) == (measure, 0.03, level)
    assert one_sided(level) == (two_sided or 0.0)
    if two_sided is None:  # each bound holds in half of all samples
        assert decision.low <= decision.high
        return
    ends = ends_of(two_sided, n_resamples)[measure]
    if measure == "mean_gap":
        assert (decision.low, decision.high) == (max(ends.low, -ends.high, 0), max(-ends.low, ends.high))
    else:
        assert (decision.low, decision.high) == (ends.low, ends.high)


def test_the_bounds_decide() -> None:
    p, y = rows(3_000, 2, 1.5)
    first = decided(p, y, tolerance=0.5)
    assert 0 < first.low < first.high < 0.5
    for tolerance, state in (
        (first.high * (1 + 1e-9), "proven"),
        (first.high, "open"),
        (first.low, "open"),
        (first.low * (1 - 1e-9), "disproven"),
    ):
        decision = decided(p, y, tolerance=tolerance)
        assert decision.state == state
        assert (decision.low, decision.high) == (first.low, first.high)
        assert (decision.more_rows is None) == (state != "open")


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_mean_gap_is_proven_by_two_one_sided_tests(sign: int) -> None:
    p, y = rows(2_000, 3)
    scores = np.clip(p + sign * 0.05, 0, 1)
    gap = abs(float(np.mean(scores) - np.mean(y)))
    decision = decided(scores, y, tolerance=0.01, tolerance_of="mean_gap")
    assert decision.state == "disproven"
    assert decision.low < gap < decision.high
    assert decided(p, y, tolerance=0.04, tolerance_of="mean_gap").state == "proven"


@pytest.mark.parametrize("tolerance", [0.001, 0.02, 0.9])
@pytest.mark.parametrize("rarer", ["event", "other"])
def test_below_15_rows_of_the_rarer_outcome_nothing_is_decided(tolerance: float, rarer: str) -> None:
    y = np.arange(2_000) < 14
    p = np.where(np.arange(2_000) % 2, 0.4, 0.5)
    if rarer == "other":
        p, y = 1 - p, ~y
    report = evaluate(p, y, tolerance=tolerance, n_resamples=0)
    assert report.decision is not None
    assert (report.decision.state, report.decision.more_rows) == ("open", None)
    assert re.search(
        rf"^Inconclusive for a tolerance of {tolerance:g}[:.].* A decision needs at least 15 rows \(or clusters\)",
        deciding(report),
    )
    one_more = y.copy()
    one_more[14 if rarer == "event" else np.flatnonzero(y)[0]] ^= True
    assert decided(p, one_more, tolerance=tolerance).state == ("proven" if tolerance == 0.9 else "disproven")


def test_a_million_rows_with_a_harmless_error() -> None:
    """The verdict finds an error of half a point; a tolerance of two points says that it is harmless."""
    rng = np.random.default_rng(4)
    p = rng.integers(1, 100, 1_000_000) / 100
    report = evaluate(p, rng.random(1_000_000) < p - 0.004, tolerance=0.02, n_resamples=0, measures=["ece"])
    assert report.miscalibrated
    assert report.decision is not None
    assert report.decision.state == "proven"
    first, second = deciding(report), report.verdict()[0]
    assert first in report.verdict()
    assert first == f"ECE is within the tolerance of 0.02: upper 95 % confidence bound {report.decision.high:.3f}."
    assert second == "Evidence of miscalibration (p < 0.001)."


# ---------------------------------------------------------------- how many more rows


def test_more_rows_bring_the_end_to_the_tolerance() -> None:
    """Widths fall with the root of N: a bound .03 above the likely 0 needs nine times the rows for .01."""
    floor = Floor(0.02, 0.03)
    estimate = Estimate(0.02, 0.0, 0.03, level=0.9, floor=floor, n=1_000)
    assert decide("ece", 0.01, estimate, 0.95, rarer=500).more_rows == 8_000
    # The likely error is sqrt(.05^2 - .03^2) = .04, its lower bound .02: below .03, so (.02 / .01)^2 of the rows.
    estimate = Estimate(0.05, 0.02, 0.07, level=0.9, floor=Floor(0.03, 0.04), n=1_000)
    assert decide("ece", 0.03, estimate, 0.95, rarer=500).more_rows == 3_000
    # As large as the tolerance: no number of rows is known to decide it.
    assert decide("ece", 0.04, estimate, 0.95, rarer=500).more_rows is None


def test_more_rows_have_two_digits_upwards() -> None:
    estimate = Estimate(0.0, 0.0, 0.0307, level=0.9, floor=Floor(0.02, 0.03), n=12_345)
    exact = 12_345 * (3.07**2 - 1)
    assert decide("ece", 0.01, estimate, 0.95, rarer=500).more_rows == math.ceil(exact / 10_000) * 10_000


def test_so_many_more_rows_decide_it() -> None:
    """Calibrated scores of 3,000 rows, tolerance .02: with the rows that the report asks for most are proven."""
    asked = proven = 0
    for seed in range(20):
        p, y = rows(3_000, seed)
        decision = decided(p, y, tolerance=0.02, measures=["ece"])
        if decision.state == "proven":
            continue
        assert decision.state == "open"
        asked += 1
        more = min(decision.more_rows or 60_000, 60_000)
        more_p, more_y = rows(more, 100 + seed)
        both = np.concatenate([p, more_p]), np.concatenate([y, more_y])
        proven += decided(*both, tolerance=0.02, measures=["ece"]).state == "proven"
    assert asked >= 12
    assert proven >= asked / 2


# ---------------------------------------------------------------- where a decision is made


def test_without_a_tolerance_or_a_level_there_is_none() -> None:
    p, y = rows(100, 5)
    assert evaluate(p, y).decision is None
    report = evaluate(p, y, tolerance=0.1, level=None)
    assert report.decision is None
    assert not {Code.PROVEN, Code.DISPROVEN, Code.UNDECIDED} & {finding.code for finding in report.findings}


def test_it_does_not_depend_on_the_measures_shown() -> None:
    p, y = rows(800, 6)
    for measure in TOLERATED:
        whole = decided(p, y, tolerance=0.04, tolerance_of=measure, n_resamples=99)
        assert decided(p, y, tolerance=0.04, tolerance_of=measure, n_resamples=99, measures=["ks"]) == whole


@pytest.mark.parametrize(
    ("measure", "words"),
    [("ece", "ECE"), ("smece", "smooth ECE"), ("rmsce", "RMSCE"), ("mean_gap", "the size of the mean difference")],
)
def test_the_sentence_names_the_measure_though_it_is_not_shown(measure: Any, words: str) -> None:
    p, y = rows(800, 6)
    report = evaluate(p, y, tolerance=0.3, tolerance_of=measure, measures=["ks"], n_resamples=0)
    assert deciding(report).startswith(
        f"{words[0].upper()}{words[1:]} is within the tolerance of 0.3: upper 95 % confidence bound 0."
    )


def test_the_words_of_what_is_not_decided() -> None:
    p, y = rows(500, 7)
    report = evaluate(p, y, tolerance=0.03, n_resamples=0)
    decision = report.decision
    assert decision is not None
    assert decision.more_rows is not None
    assert deciding(report) == (
        f"Inconclusive for a tolerance of 0.03: 95 % confidence bounds {decision.low:.3f} and {decision.high:.3f}. "
        f"About {decision.more_rows:,} more rows would settle it if the true ECE equals the estimate."
    )
    difference = evaluate(p, y, tolerance=0.02, tolerance_of="mean_gap", n_resamples=0)
    assert deciding(difference).endswith("would settle it if the true size of the mean difference equals the estimate.")
    p, y = rows(2_000, 8, 1.5)
    bounds = decided(p, y, tolerance=0.5)
    middle = evaluate(p, y, n_resamples=0)["ece"]
    assert middle.floor is not None
    likely = math.sqrt(middle.value**2 - middle.floor.mean**2)
    assert bounds.low < likely < bounds.high
    words = evaluate(p, y, tolerance=round(likely, 6), n_resamples=0).verdict()
    tolerated = next(sentence for sentence in words if sentence.startswith("Inconclusive for a tolerance of "))
    close = "The estimate is too close to the tolerance to say how many more rows would settle it."
    assert tolerated.endswith(f". {close}")
    above = evaluate(p, y, tolerance=0.001, n_resamples=0).verdict()
    assert f"ECE exceeds the tolerance of 0.001: lower 95 % confidence bound {bounds.low:.3f}." in above


def test_it_is_the_first_finding_and_in_the_json() -> None:
    p, y = rows(500, 9)
    for tolerance, code in ((0.9, Code.PROVEN), (0.03, Code.UNDECIDED)):
        report = evaluate(p, y, tolerance=tolerance, n_resamples=0)
        summary = json.loads(report.to_json())
        assert report.decision is not None
        assert report.findings[0].code is code
        own = {name: getattr(report.decision, name) for name in ("measure", "tolerance", "low", "high", "more_rows")}
        assert summary["decision"] == {**own, "state": report.decision.state, "level": 0.95}
        assert summary["findings"][0] == {"code": code, **own, "level": 0.95}
    assert json.loads(evaluate(p, y, n_resamples=0).to_json())["decision"] is None


def test_groups_and_sketches_have_theirs() -> None:
    p, y = rows(1_000, 10)
    names = np.where(np.arange(1_000) % 2, "odd", "even")
    report = evaluate(p, y, groups=names, tolerance=0.05, n_resamples=0)
    for group in report.groups:
        own = names == group.name
        assert group.report.decision == decided(p[own], y[own], tolerance=0.05)
    sketch = sketch_of(p, y)
    of_sketch, of_rows = decided(sketch, tolerance=0.05), decided(p, y, tolerance=0.05)
    assert of_sketch.state == of_rows.state
    assert (of_sketch.low, of_sketch.high) == pytest.approx((of_rows.low, of_rows.high), abs=0.005)


@pytest.mark.parametrize("notion", ["classwise", "multilabel"])
def test_every_class_by_itself_can_be_decided_by_the_ece_alone(notion: Any) -> None:
    probs, targets = draw_classes(11, 500, np.ones(3))
    if notion == "multilabel":
        targets = np.eye(3, dtype=int)[targets]
    decision = decided(probs, targets, notion=notion, tolerance=0.3)
    assert decision.state == "proven"
    ends = evaluate(probs, targets, notion=notion, level=0.9, n_resamples=0)["ece"]
    assert (decision.low, decision.high) == (ends.low, ends.high)
    with pytest.raises(
        InputError, match="tolerance_of: expected 'ece' if every class is evaluated, got 'smece'; leave"
    ):
        evaluate(probs, targets, notion=notion, tolerance=0.3, tolerance_of="smece")


@pytest.mark.parametrize("tolerance", [0, 0.0, 1, 1.0, -0.1, 2.5, "0.02", True, math.nan])
def test_a_tolerance_is_a_share(tolerance: Any) -> None:
    message = "tolerance: expected a number above 0 and below 1, got .*; pass the largest harmless error, such as 0.02"
    p, y = rows(50, 12)
    for call in (
        lambda: evaluate(p, y, tolerance=tolerance),
        lambda: calibrant.compare(p, p, y, tolerance=tolerance),
        lambda: rows_to_prove(tolerance),
    ):
        with pytest.raises(InputError, match=message):
            call()
    with pytest.raises(InputError, match="tolerance: expected a number above 0 and below 1, got None"):
        rows_to_prove(None)  # type: ignore[arg-type]


def test_a_numpy_number_is_a_tolerance() -> None:
    p, y = rows(200, 13)
    assert decided(p, y, tolerance=np.float32(0.25)).state == "proven"


def test_the_error_of_a_tolerance_is_one_with_simulated_bounds() -> None:
    p, y = rows(50, 12)
    with pytest.raises(InputError, match=r"tolerance_of: expected one of .*'ece'.*, got 'brier'"):
        evaluate(p, y, tolerance=0.1, tolerance_of="brier")


# ---------------------------------------------------------------- two models


def test_the_decision_about_a_pair_is_on_the_second_model_minus_the_first() -> None:
    p, y = rows(3_000, 14)
    sharp = p**1.8 / (p**1.8 + (1 - p) ** 1.8)
    ends = calibrant.compare(p, sharp, y, level=0.9).pairs[0]["ece"]
    for tolerance in (0.001, 0.05, 0.3):
        pair = calibrant.compare(p, sharp, y, tolerance=tolerance).pairs[0]
        assert pair.decision is not None
        assert (pair.decision.low, pair.decision.high) == pytest.approx((-ends.high, -ends.low), abs=1e-12)
        expected = "proven" if -ends.low < tolerance else "disproven" if -ends.high > tolerance else "open"
        assert pair.decision.state == expected
    assert calibrant.compare(sharp, p, y, tolerance=0.001).pairs[0].decision.state == "proven"  # type: ignore[union-attr]
    assert calibrant.compare(p, sharp, y).pairs[0].decision is None


def test_sketches_are_decided_too() -> None:
    p, y = rows(20_000, 15)
    sketches = {"plain": calibrant.CalibrationSketch(), "square": calibrant.CalibrationSketch()}
    sketches["plain"].update(p, y)
    sketches["square"].update(p**2, y)
    decision = calibrant.compare(sketches, tolerance=0.02).pairs[0].decision
    assert decision is not None
    assert decision.state == "disproven"
    ends = calibrant.compare(sketches, level=0.9).pairs[0]["ece"]
    assert (decision.low, decision.high) == pytest.approx((-ends.high, -ends.low), abs=1e-12)


# ---------------------------------------------------------------- rows to prove

#: Rows to prove an ECE below .02, from a prototype whose upper ends were up to a sixth wider than today's.
PROTOTYPE = {"uniform": 9_591, "confident": 4_097, "rare": 1_538}


@functools.cache
def rows_below_2_points(law: str) -> int:
    return rows_to_prove(0.02, scores=law)


@pytest.mark.parametrize("law", PROTOTYPE)
def test_rows_to_prove_are_nearly_those_of_the_prototype(law: str) -> None:
    assert 0.8 < rows_below_2_points(law) / PROTOTYPE[law] < 1.05


@pytest.mark.parametrize(
    "law", ["uniform", *(pytest.param(law, marks=pytest.mark.slow) for law in ("confident", "rare"))]
)
def test_rows_to_prove_fall_with_the_square_of_the_tolerance(law: str) -> None:
    one = rows_below_2_points(law)
    assert rows_to_prove(0.01, scores=law) == pytest.approx(4 * one, abs=4)
    assert rows_to_prove(0.03, scores=law) == pytest.approx(one * 4 / 9, abs=1)


@pytest.mark.parametrize("rate", [0.02, 0.98])
def test_a_proof_takes_15_rows_of_the_rarer_outcome(rate: float) -> None:
    """Nothing is decided with fewer. With n rows their number is binomial, and 80 % of samples have so many."""
    n = rows_to_prove(0.4, scores=np.full(100, rate))
    # Poisson's law in place of the binomial one errs by the rate at most.
    assert stats.binom.sf(14, n, 0.02) == pytest.approx(0.8, abs=0.02)
    assert rows_to_prove(0.5, scores=np.full(100, rate)) == n


@pytest.mark.slow
def test_rows_to_prove_against_whole_reports() -> None:
    """The 80 % quantile of the upper bounds of 300 reports on 4,000 calibrated rows, and the law of the root."""
    rng = np.random.default_rng(16)
    for law, draw in (("uniform", lambda: rng.random(4_000)), (None, lambda: rng.beta(0.5, 0.5, 4_000))):
        highs = []
        for _ in range(300):
            p = draw()
            highs.append(decided(p, rng.random(4_000) < p, tolerance=0.5, measures=["ece"]).high)
        expected = 4_000 * (float(np.quantile(highs, 0.8)) / 0.02) ** 2
        found = rows_to_prove(0.02, scores=law or rng.beta(0.5, 0.5, 4_000))
        assert found == pytest.approx(expected, rel=0.1)  # 300 upper bounds: their quantile is right to .03


@pytest.mark.slow
@pytest.mark.parametrize("law", PROTOTYPE)
def test_with_so_many_rows_80_percent_of_samples_prove_it(law: str) -> None:
    rng = np.random.default_rng(17)
    draw = {"uniform": rng.random, "confident": lambda n: rng.beta(8, 1, n), "rare": lambda n: rng.beta(1, 20, n)}
    n, proven = rows_to_prove(0.02, scores=law), 0
    for _ in range(400):
        p = draw[law](n)
        proven += decided(p, rng.random(n) < p, tolerance=0.02, measures=["ece"]).state == "proven"
    assert proven / 400 == pytest.approx(0.8, abs=0.08)  # four standard errors


def test_more_bins_and_a_higher_level_need_more_rows() -> None:
    few = rows_to_prove(0.05, 5, rng=1)
    assert few < rows_to_prove(0.05, rng=1) < rows_to_prove(0.05, level=0.99, rng=1)
    assert rows_to_prove(0.05, 5, rng=1) == few
    with pytest.raises(InputError, match=r"n_bins: expected an integer from 1"):
        rows_to_prove(0.05, 0)
    with pytest.raises(InputError, match=r"level: expected a number from 0\.5 to below 1"):
        rows_to_prove(0.05, level=95)


# ---------------------------------------------------------------- how often it is wrong


@pytest.mark.slow
def test_it_is_wrong_at_most_as_often_as_the_level_allows() -> None:
    """U(0, 1), log-odds doubled: the error is ln(2)/2 - 1/4, in bins a little less. There either claim is wrong."""
    x = (np.arange(300_000) + 0.5) / 300_000
    bins = np.minimum(np.ceil(x * 15).astype(int), 15)
    truth = float(np.abs(np.bincount(bins, x - x**2 / (x**2 + (1 - x) ** 2))).sum() / len(x))
    assert truth == pytest.approx(math.log(2) / 2 - 0.25, rel=0.02)
    wrong = {"proven": 0, "disproven": 0, "open": 0}
    for seed in range(400):
        p, y = rows(1_500, 1_000 + seed, 2.0)
        wrong[decided(p, y, tolerance=truth, measures=["ece"]).state] += 1
    # Each may be wrong in 5 %: 20 of 400, and three standard errors are 13.
    assert wrong["proven"] <= 33
    assert wrong["disproven"] <= 33
