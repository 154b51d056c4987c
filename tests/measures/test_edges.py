"""Reports at the edges: impossible outcomes, outcomes that are all equal, sums that cannot vary, extreme logits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant import CalibrationSketch, ReliabilityTable, evaluate
from calibrant.inference import (
    consistency,
    cox_test,
    hosmer_lemeshow_test,
    ks_test,
    kuiper_test,
    spiegelhalter_test,
    t_cal_test,
)
from calibrant.report.measure_document import disagreements
from calibrant.report.report import Report

_CONSERVATIVE = (
    "the lower end of the CI is 0 although p is small, because the lower end is conservative: it is above 0 only if "
    "p ≤ 0.025"
)

# ---------------------------------------------------------------- outcomes that the scores exclude

#: 20 scores of 0 with one event, 20 of 1 with one non-event, 60 of 0.5: the sums of residuals are as expected.
SCORES = np.repeat([0.0, 1.0, 0.5], [20, 20, 60])
OUTCOMES = np.concatenate([[1], np.zeros(20, int), np.ones(19, int), np.arange(60) % 2])
PAIRS = np.arange(100) // 2


def sketch(probs: Any, targets: Any, **options: Any) -> CalibrationSketch:
    made = CalibrationSketch(classwise=True)
    made.update(probs, targets, **options)
    return made


FORMS: dict[str, Callable[[], calibrant.report.Report]] = {
    "rows": lambda: evaluate(SCORES, OUTCOMES),
    "closed form": lambda: evaluate(SCORES, OUTCOMES, n_resamples=0),
    "table": lambda: evaluate(ReliabilityTable.from_scores(SCORES, OUTCOMES)),
    "sketch": lambda: evaluate(sketch(SCORES, OUTCOMES)),
    "clusters": lambda: evaluate(SCORES, OUTCOMES, clusters=PAIRS),
    "weights": lambda: evaluate(SCORES, OUTCOMES, weights=np.full(100, 0.5)),
    "sketch in clusters": lambda: evaluate(sketch(SCORES, OUTCOMES, clusters=PAIRS)),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_verdict_counts_impossible_outcomes(form: str) -> None:
    report = FORMS[form]()
    assert report.test is not None
    assert (report.test.p_value, report.miscalibrated) == (0, True)
    assert report.test.details["p_value_of_sums"] > 0.05
    assert report["ece"].p_value == 0
    assert "1 event with a score of 0 and 1 non-event with a score of 1" in report.verdict()[0]
    assert report.verdict()[1] == "Evidence of miscalibration (p = 0)."
    text = " ".join(str(report).split())
    reason = "outcomes with a predicted probability of 0 or nearly 0 make p small but do not change the CI"
    assert f"the CI contains 0 although p is small, because {reason}" in text


@pytest.mark.parametrize("clusters", [None, PAIRS])
@pytest.mark.parametrize(
    "test", [spiegelhalter_test, ks_test, kuiper_test, t_cal_test, hosmer_lemeshow_test, consistency]
)
def test_a_test_of_calibration_counts_impossible_outcomes(test: Callable[..., Any], clusters: Any) -> None:
    options: dict[str, Any] = {"targets": OUTCOMES, "clusters": clusters}
    if test is consistency:
        options["statistic"] = calibrant.expected_calibration_error
    if test is hosmer_lemeshow_test:
        options["sample"] = "external"
    one = test(SCORES, **options)
    assert (one.p_value, one.details["impossible_outcomes"]) == (0, 2)
    right = test(SCORES, **{**options, "targets": np.where(np.isin(SCORES, [0, 1]), SCORES, OUTCOMES)})
    assert "impossible_outcomes" not in right.details


def test_clipped_scores_exclude_nothing() -> None:
    assert 0 < cox_test(SCORES, OUTCOMES, eps=1e-3).p_value < 1


def test_groups_count_their_impossible_outcomes() -> None:
    groups = np.where(np.arange(100) < 40, "ends", "middle")
    report = evaluate(SCORES, OUTCOMES, groups=groups)
    found = {group.name: group.adjusted_p_value for group in report.groups}
    assert found["ends"] == 0
    assert found["middle"] > 0.05
    assert report.multicalibration is not None
    assert report.multicalibration.p_value == 0


@pytest.mark.parametrize("form", ["rows", "sketch", "clusters", "classwise", "sketch in clusters"])
def test_classes_count_their_impossible_outcomes(form: str) -> None:
    rng = np.random.default_rng(1)
    probs = rng.dirichlet(np.ones(3), 240)
    labels = np.array([rng.choice(3, p=row) for row in probs])
    probs[0], labels[0] = [1, 0, 0], 1
    clusters = np.arange(240) // 2 if "clusters" in form else None
    if "sketch" in form:
        report = evaluate(sketch(probs, labels, clusters=clusters))
    else:
        report = evaluate(probs, labels, clusters=clusters, notion="classwise" if form == "classwise" else None)
    assert report.test is not None
    assert report.test.p_value == 0
    assert report.classwise is not None
    assert report.classwise.p_values is not None
    assert (report.classwise.p_values[:2] == 0).all()
    assert report.classwise.p_values[2] > 0
    assert report["ece" if form == "classwise" else "classwise_ece"].p_value == 0


def test_a_nearly_impossible_outcome_has_its_probability_by_booles_inequality() -> None:
    scores, outcomes = np.where(SCORES == 0, 1e-9, SCORES)[SCORES < 1], OUTCOMES[SCORES < 1]
    report = evaluate(scores, outcomes)
    assert report.test is not None
    assert report.test.p_value == pytest.approx(20e-9)
    few = evaluate(np.where(SCORES == 0, 1e-6, SCORES)[SCORES < 1], outcomes)
    assert few.test is not None
    assert "impossible_outcomes" not in few.test.details  # 2e-5 events were expected


def test_scores_of_logits_are_rounded_and_not_certain() -> None:
    """With the logit 17.5 a non-event has the probability 2.5e-8: of 40,000 rows one in a thousand samples has one."""
    logits, outcomes = np.full(40_000, 17.5, np.float32), np.ones(40_000, int)
    outcomes[0] = 0
    assert ReliabilityTable.from_predictions(logits, outcomes, logits=True).scores[0] == 1
    report = evaluate(logits, outcomes, logits=True)
    assert report.test is not None
    assert report.test.p_value > 0


# ---------------------------------------------------------------- outcomes that are all equal


def bound(n: float) -> float:
    """The largest rate of an outcome that none of n rows has: the exact bound of Clopper and Pearson at 2.5 %."""
    return 1 - 0.025 ** (1 / n)


CONFIDENT = np.linspace(0.9, 0.99, 42)


@pytest.mark.parametrize("name", ["mean_gap", "ece", "ace", "smece"])
def test_an_error_reaches_down_to_the_bound_of_the_rate(name: str) -> None:
    """42 of 42 wrong: the event may occur in up to 8.4 % of rows. With it, each of these errors is lower by as much."""
    one = evaluate(CONFIDENT, np.zeros(42, int), profile="all")[name]
    assert one.low == pytest.approx(CONFIDENT.mean() - bound(42), rel=1e-9)
    mirrored = evaluate(1 - CONFIDENT, np.ones(42, int), profile="all")[name]
    ends = (-mirrored.high, -mirrored.low) if name == "mean_gap" else (mirrored.low, mirrored.high)
    assert ends == pytest.approx((one.low, one.high), rel=1e-6)


def test_losses_reach_the_least_and_the_most_that_unseen_outcomes_can_change() -> None:
    """The events lie at the lowest or at the highest scores."""
    scores = np.linspace(0.02, 0.3, 50)
    report = evaluate(scores, np.zeros(50, int), profile="all")
    share = bound(50) * 50
    weights = np.clip(share - np.arange(50), 0, 1)  # of each row from the lowest score on
    for name, gain in (("nll", np.log((1 - scores) / scores)), ("brier", 1 - 2 * scores)):
        assert report[name].high >= report[name].value + np.sum(weights * gain) / 50 - 1e-12, name
    assert report["oe_ratio"].high == pytest.approx(bound(50) / scores.mean(), rel=1e-9)
    assert report["oe_ratio"].low == 0


WHOLE: dict[str, dict[str, Any]] = {
    "rows": {},
    "clusters": {"clusters": np.arange(42) // 2},
    "weights": {"weights": np.linspace(0.5, 2, 42)},
}


@pytest.mark.parametrize("kept_in", ["rows", "table or sketch"])
@pytest.mark.parametrize("form", WHOLE)
@pytest.mark.parametrize("outcome", [0, 1])
@pytest.mark.parametrize("scores", [CONFIDENT, np.full(42, 0.05)], ids=["several", "constant"])
def test_no_interval_of_equal_outcomes_has_no_width(scores: Any, outcome: int, form: str, kept_in: str) -> None:
    outcomes, options = np.full(42, outcome), WHOLE[form]
    if kept_in == "rows":
        report = evaluate(scores, outcomes, profile="all", **options)
    else:
        report = evaluate(sketch(scores, outcomes, **options), profile="all")
    exact = {"mean_confidence", "discrimination"} if len(set(scores)) == 1 else set()
    for name, one in report.items():
        if not math.isnan(one.high) and name not in exact:
            assert one.high - one.low > 1e-3, name
    rows = {"rows": 42, "clusters": 21}.get(form, 42)
    assert report["mean_gap"].high - report["mean_gap"].low >= bound(rows) - 1e-9


def test_right_answers_of_several_classes_reckon_with_wrong_ones() -> None:
    probs = np.random.default_rng(5).dirichlet(np.full(4, 0.2), 50)
    report = evaluate(probs, probs.argmax(axis=1))
    tops, share = probs.max(axis=1), bound(50)
    assert report["nll"].high >= report["nll"].value + share * np.mean(np.log(tops / (1 - tops))) - 1e-9
    assert report["ece"].low < report["ece"].value < report["ece"].high


def test_labels_that_never_occur_reckon_with_some() -> None:
    probs = np.random.default_rng(6).uniform(0.6, 0.9, (40, 3))
    one = evaluate(probs, np.zeros((40, 3), int), notion="multilabel")["ece"]
    assert one.low == pytest.approx(one.value - bound(40))


@pytest.mark.parametrize(("p_value", "low", "told"), [(0.03, 0.0, True), (0.03, 0.01, False), (0.2, 0.0, False)])
def test_one_sentence_says_why_a_p_value_and_an_interval_disagree(p_value: float, low: float, told: bool) -> None:
    def altered(profile: str, name: str, low: float) -> Report:
        report = evaluate(np.linspace(0.1, 0.9, 60), np.arange(60) % 2, profile=profile)
        estimate = replace(report[name], p_value=p_value, low=low, high=0.2)
        return replace(report, estimates={**report.estimates, name: estimate})

    found = disagreements(altered("standard", "ece", low), ["ece"])
    assert found == (["ECE: " + _CONSERVATIVE] if told else [])
    signed = altered("all", "mean_gap", 0.01 if p_value > 0.05 else -0.01)
    (sentence,) = disagreements(signed, ["mean_gap"])
    assert "because the p-value uses the variance of outcomes under calibration" in sentence


def test_the_variance_of_a_difference_far_from_0_is_that_of_the_outcomes() -> None:
    """One of 50 is right at scores near 0.95: five prior rows at the scores must not take the variance away."""
    scores, outcomes = np.linspace(0.9, 0.99, 50), np.arange(50) == 7
    gap = evaluate(scores, outcomes.astype(int))["mean_gap"]
    plain = 1.96 * np.std(scores - outcomes, ddof=1) / math.sqrt(50)
    assert gap.high - gap.low > 1.8 * plain


# ---------------------------------------------------------------- clusters whose outcomes add up to their scores


def races(dtype: Any, n: int = 60, size: int = 8) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the probabilities of the runners of each race, who won, and the races."""
    rng = np.random.default_rng(12)
    probs = rng.dirichlet(np.ones(size), n)
    winners = np.array([rng.choice(size, p=row) for row in probs])
    return (
        probs.astype(dtype).ravel(),
        (winners[:, None] == np.arange(size)).astype(int).ravel(),
        np.repeat(range(n), size),
    )


@pytest.mark.parametrize("kept_in", ["rows", "sketch"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_difference_that_cannot_vary_is_0_by_construction(dtype: Any, kept_in: str) -> None:
    scores, won, race = races(dtype)
    if kept_in == "rows":
        report = evaluate(scores, won, clusters=race, profile="all")
    else:
        report = evaluate(sketch(scores, won, clusters=race), profile="all")
    gap = report["mean_gap"]
    assert abs(gap.value) < 1e-7
    assert gap.low <= 0 <= gap.high
    assert gap.high - gap.low < 1e-7
    assert (gap.p_value, gap.method.partition(":")[0]) == (1, "0 by construction")
    assert report.clusters is not None
    assert report.clusters["effective_rows"] == len(scores)
    rows = [one.details["effective_rows"] for one in report.values() if "effective_rows" in one.details]
    assert max(rows) <= len(scores)
    sentence = (
        "The mean difference is 0 by construction, because the outcomes of each cluster add up to the sum of its scores"
    )
    assert any(line.startswith(sentence) for line in report.verdict())
    assert not any("independent rows" in line for line in report.verdict())


def test_a_small_difference_that_varies_is_not_0_by_construction() -> None:
    scores, won, race = races(np.float64)
    report = evaluate(np.round(scores, 3), won, clusters=race)  # published with three decimal places
    assert not any("by construction" in line for line in report.verdict())
    assert report["mean_gap"].high > report["mean_gap"].low


# ---------------------------------------------------------------- extreme logits


_Z = np.random.default_rng(3).normal(0, 1, 120)
_Y = (np.random.default_rng(4).random(120) < 1 / (1 + np.exp(-_Z))).astype(int)
_HALF = np.arange(120) % 2
EXTREME: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "far below 0": (_Z * 9 - 600, _HALF, {"logits": True}),
    "far above 0": (600 - _Z * 9, _HALF, {"logits": True}),
    "far apart": (_Z * 1e5, _Y, {"logits": True}),
    "the largest floats": (_Z * 1e300, _Y, {"logits": True}),
    "one logit": (np.full(120, -1e5), _HALF, {"logits": True}),
    "float32": ((_Z * 9 - 600).astype(np.float32), _HALF, {"logits": True}),
    "clusters": (_Z * 9 - 600, _HALF, {"logits": True, "clusters": np.arange(120) // 3}),
    "clusters, closed form": (_Z * 9 - 600, _HALF, {"logits": True, "clusters": np.arange(120) // 3, "n_resamples": 0}),
    "weights": (_Z * 9 - 600, _HALF, {"logits": True, "weights": np.linspace(0.1, 3, 120)}),
    "groups": (_Z * 9 - 600, _HALF, {"logits": True, "groups": np.arange(120) % 2}),
    "classes": (_Z.reshape(30, 4) * 1e4, _HALF[:30], {"logits": True}),
    "labels": (_Z.reshape(30, 4) * 1e3, _Y.reshape(30, 4), {"logits": True, "notion": "multilabel"}),
    "the smallest floats": (np.full(120, 5e-324), _HALF, {}),
    "small and usual": (np.where(_HALF, 1e-310, 0.4), _Y, {}),
    "two rows": ([0.3, 1e-320], [1, 1], {}),
}


@pytest.mark.parametrize("case", EXTREME)
def test_a_report_on_extreme_scores_is_complete(case: str) -> None:
    """Warnings are errors in these tests. Every interval contains its value, unless the estimate is unbiased."""
    probs, targets, options = EXTREME[case]
    report = evaluate(probs, targets, profile="all", **{"n_resamples": 49, **options})
    for name, one in report.items():
        assert math.isnan(one.low) or name == "debiased_square" or one.low - 1e-12 <= one.value <= one.high + 1e-12, (
            name
        )
    assert str(report)
    assert report.to_json()
    assert report.to_markdown()
    assert report.verdict()


def test_the_log_loss_and_the_ratio_of_extreme_logits() -> None:
    logits, outcomes, _ = EXTREME["far below 0"]
    report = evaluate(logits, outcomes, logits=True, profile="all")
    assert report["nll"].value == pytest.approx(-logits[outcomes == 1].sum() / 120, rel=1e-12)
    ratio = report["oe_ratio"]
    assert ratio.value == pytest.approx(outcomes.sum() / np.exp(logits).sum(), rel=1e-9)
    # The variance of log t for independent rows is sum (y - t p)^2 / O^2.
    rows = outcomes - ratio.value * np.exp(logits)
    half = 1.959964 * math.sqrt(float(rows @ rows)) / outcomes.sum()
    assert math.log(ratio.high / ratio.value) == pytest.approx(half, rel=1e-6)
