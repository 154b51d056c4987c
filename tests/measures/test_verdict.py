"""The verdict: one p-value of three parts, by formulas written anew, and sentences that never contradict it."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

import calibrant
from calibrant import ReliabilityTable, evaluate
from calibrant.measures import verdict
from calibrant.measures.binned.bin_sums import BinSums
from calibrant.measures.binned.binned import uniform_bin_of
from calibrant.measures.event import Event
from calibrant.measures.simulated import RowSums
from calibrant.measures.verdict import closed_form_test
from calibrant.results import Code
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import SamplingDesign

PARTS = ("mean", "spread", "ece")


def rows(n: int, seed: int, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Return scores of one event, and outcomes whose log-odds are ``shift`` above those of the scores."""
    rng = np.random.default_rng(seed)
    p = rng.beta(1.5, 2.5, n)
    odds = p / (1 - p) * math.exp(shift)
    return p, (rng.random(n) < odds / (1 + odds)).astype(int)


# ---------------------------------------------------------------- the three parts and their combination


def naive_parts(p: np.ndarray, y: np.ndarray, n_bins: int = 15) -> dict[str, float]:
    """The formulas over rows: two normal tests, and the gamma law with the moments of a sum of folded normals."""
    v, r = p * (1 - p), p - y
    found = {"mean": 2 * stats.norm.sf(abs(r.sum()) / math.sqrt(v.sum()))}
    z = np.log(p / (1 - p))
    centre = np.average(z, weights=v)
    sd = math.sqrt(np.average((z - centre) ** 2, weights=v))
    phi = np.clip((z - centre) / sd, -3, 3) if sd > 1e-9 else np.zeros(len(z))
    phi = phi - np.average(phi, weights=v)
    if sd > 1e-9:
        found["spread"] = 2 * stats.norm.sf(abs(np.sum(phi * r)) / math.sqrt(np.sum(phi**2 * v)))
    bins = np.ceil(p * n_bins).astype(int)
    variances = np.array([v[bins == b].sum() for b in np.unique(bins)])
    gaps = np.array([abs(r[bins == b].sum()) for b in np.unique(bins)])
    mean, variance = math.sqrt(2 / math.pi) * np.sqrt(variances).sum(), (1 - 2 / math.pi) * variances.sum()
    # The skewness of one folded normal is sqrt(2) (4 - pi) / (pi - 2)^1.5; third central moments add.
    skewness = math.sqrt(2) * (4 - math.pi) / (math.pi - 2) ** 1.5 * np.sum(variances**1.5) / variances.sum() ** 1.5
    found["ece"] = stats.pearson3.sf(gaps.sum(), skewness, mean, math.sqrt(variance))
    return found


def cauchy(p_values: list[float]) -> float:
    """The p-value of Liu and Xie's combination: the tail of the standard Cauchy law at the mean of the quantiles."""
    return float(stats.cauchy.sf(np.mean([stats.cauchy.isf(min(p, 0.95)) for p in p_values])))


@pytest.mark.parametrize("shift", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("n", [60, 800])
def test_parts_and_combination_against_naive_formulas(n: int, shift: float) -> None:
    p, y = rows(n, n, shift)
    test = evaluate(p, y, n_resamples=0).test
    assert test is not None
    expected = naive_parts(p, y)
    # Sums of up to 800 terms in another order, and tails of normal and gamma laws by two programs.
    assert dict(test.details["parts"]) == pytest.approx(expected, rel=1e-8)
    assert test.details["leading"] == min(expected, key=expected.__getitem__)
    assert test.p_value == pytest.approx(cauchy(list(expected.values())), rel=1e-7)
    assert test.statistic == pytest.approx(stats.cauchy.isf(test.p_value), rel=1e-6)
    assert (test.n, test.method) == (n, "Cauchy combination of mean, spread, ECE; closed form")


@pytest.mark.parametrize("small", [0.4, 0.01, 1e-5, 1e-7, 1e-12, 1e-100])
def test_the_combination_against_scipy(small: float) -> None:
    p_values = [small, 0.7, 0.99]
    found = verdict.tail(float(verdict.combined(np.array(p_values))))
    # tan(pi (1/2 - p)) is 1 / (pi p) up to a share of (pi p)^2 / 3, and the tail of t is 1 / (pi t) up to 1 / (3 t^2).
    assert found == pytest.approx(cauchy(p_values), rel=1e-6)


def test_a_part_near_one_does_not_undo_a_small_one() -> None:
    """Without the cut at .95, p-values of .001 and 1 - 1e-6 would combine to about 1."""
    found = verdict.tail(float(verdict.combined(np.array([0.001, 0.5, 1 - 1e-9]))))
    assert 0.001 < found < 0.0031


def test_with_resamples_the_p_value_counts_replicates() -> None:
    p, y = rows(300, 5, 0.15)
    for n_resamples in (99, 400):
        test = evaluate(p, y, n_resamples=n_resamples).test
        closed = evaluate(p, y, n_resamples=0).test
        assert test is not None
        assert closed is not None
        assert test.statistic == pytest.approx(closed.statistic, rel=1e-12)
        assert test.details["parts"] == closed.details["parts"]
        assert test.details["closed_form_p_value"] == pytest.approx(closed.p_value, rel=1e-12)
        assert test.details["least_p_value"] == 1 / (n_resamples + 1)
        share = test.p_value * (n_resamples + 1)
        assert share == pytest.approx(round(share), abs=1e-9)
        assert 1 <= share <= n_resamples + 1
        # The closed form is right to about a tenth here; the binomial error of the resamples is added.
        assert abs(test.p_value - closed.p_value) < 0.02 + 4 * math.sqrt(closed.p_value / n_resamples)


@pytest.mark.parametrize("distinct", [1, 40])
def test_the_statistic_of_large_replicates_alone(distinct: int) -> None:
    """Replicates below the least wanted may be left out, others never are; most of the small ones are."""
    p = np.linspace(0.2, 0.7, distinct).repeat(120 // distinct)
    cells = Cells.from_table(ReliabilityTable.from_scores(p, np.arange(120) % 2))
    bins = BinSums.of_cells(cells, uniform_bin_of(cells.table, 15))
    own = verdict.Verdict.of(SamplingDesign(cells), bins)
    y = np.random.default_rng(47).binomial(cells.counts.astype(int), cells.scores, (5000, len(cells)))
    sums = RowSums(cells, bins, y)
    whole = own.statistic(sums)
    for share in (0.5, 0.9, 0.999):
        least = float(np.quantile(whole, share))
        some = own.statistic(sums, least)
        left = np.isneginf(some)
        assert (whole[left] < least).all()
        np.testing.assert_allclose(some[~left], whole[~left], rtol=1e-12)  # products of fewer rows add in another order
        assert share < 0.9 or left.mean() > 0.7 * share


def test_one_distinct_score_has_no_spread() -> None:
    test = evaluate(np.full(200, 0.3), np.arange(200) % 4 == 0, n_resamples=0).test
    assert test is not None
    assert set(test.details["parts"]) == {"mean", "ece"}
    assert test.method == "Cauchy combination of mean, ECE; closed form"


def test_certain_scores_are_refuted_by_one_outcome() -> None:
    y = np.array([0, 1] * 50)
    right = evaluate(y.astype(float), y, n_resamples=0)
    assert right.test is not None
    assert right.test.p_value == 1.0
    assert not right.miscalibrated
    for wrong in (1, 2):  # with two errors of opposite signs the mean is right
        scores = y.astype(float)
        scores[:wrong] = 1 - scores[:wrong]
        refuted = evaluate(scores, y, n_resamples=0)
        assert refuted.test is not None
        assert refuted.test.p_value < 1e-12
        assert refuted.miscalibrated
        assert refuted.test.details["leading"] == "ece"
        assert refuted.verdict()[0].startswith(f"Caution: {wrong} outcome")
        assert refuted.verdict()[2].startswith("No clear over- or underestimation: ")


def test_rare_outcomes_are_flagged() -> None:
    p, _ = rows(300, 1)
    test = evaluate(p / 20, np.arange(300) < 5, n_resamples=0).test
    assert test is not None
    assert test.details["flag"].startswith("5 rows of the less frequent outcome, fewer than 15")


def test_a_weight_of_two_is_the_row_twice() -> None:
    p, y = rows(200, 2, 0.3)
    weights = np.random.default_rng(0).integers(0, 4, 200)
    twice = np.repeat(np.arange(200), weights)
    weighted = evaluate(p, y, weights=weights, n_resamples=0).test
    repeated = evaluate(p[twice], y[twice], n_resamples=0).test
    assert weighted is not None
    assert repeated is not None
    assert weighted.p_value == pytest.approx(repeated.p_value, rel=1e-10)
    assert weighted.details["parts"] == pytest.approx(dict(repeated.details["parts"]), rel=1e-10)


def test_the_verdict_is_there_whatever_measures_are_shown() -> None:
    p, y = rows(400, 3, 0.3)
    whole = evaluate(p, y, n_resamples=200)
    part = evaluate(p, y, n_resamples=200, measures=["ks"])
    assert whole.test is not None
    assert part.test == whole.test
    assert evaluate(p, y, level=None).test is None
    assert not evaluate(p, y, level=None).miscalibrated


@pytest.mark.parametrize("notion", ["classwise", "multilabel"])
def test_every_class_by_itself_has_the_test_of_the_ece(notion: Any) -> None:
    rng = np.random.default_rng(9)
    probs = rng.dirichlet(np.ones(3), 300)
    targets = rng.integers(3, size=300)
    report = evaluate(probs, np.eye(3, dtype=int)[targets] if notion == "multilabel" else targets, notion=notion)
    assert report.test is not None
    assert report.test.p_value == report["ece"].p_value
    assert dict(report.test.details["parts"]) == {"ece": report["ece"].p_value}


def test_a_comparison_has_the_test_of_each_model() -> None:
    p, y = rows(500, 4)
    comparison = calibrant.compare({"plain": p, "square": p**2}, y)
    for name, scores in (("plain", p), ("square", p**2)):
        own = evaluate(scores, y, n_resamples=0).test
        assert own is not None
        assert comparison.tests[name].p_value == pytest.approx(own.p_value, rel=1e-9)
        assert comparison.tests[name].details["leading"] == own.details["leading"]


def test_a_p_value_of_exactly_one_minus_the_level_rejects() -> None:
    """1 - 0.9 is 0.09999999999999998 in binary, below a p-value of 10 / 100."""
    p, y = rows(100, 6)
    report = evaluate(p, y, level=0.9, n_resamples=0)
    assert report.test is not None
    for p_value, rejected in ((10 / 100, True), (10.01 / 100, False)):
        assert replace(report, test=replace(report.test, p_value=p_value)).miscalibrated == rejected
    # The sentences reject with it, in the first data set where 9 of 99 replicates are as large: seed 66 today.
    for seed in range(66, 2_000):
        rng = np.random.default_rng(seed)
        p = rng.random(60)
        found = evaluate(p, rng.random(60) < p, level=0.9, n_resamples=99, measures=["ece"])
        assert found.test is not None
        if found.test.p_value == 10 / 100:
            break
    assert found.miscalibrated
    assert found.verdict()[0].startswith("Evidence of miscalibration (p = 0.100).")


# ---------------------------------------------------------------- its law


def distance(p_values: list[float]) -> float:
    return float(stats.kstest(p_values, "uniform").statistic)


def dkw(n: int) -> float:
    """The distance that n uniform numbers exceed with probability 1e-4 (Dvoretzky, Kiefer, Wolfowitz, Massart)."""
    return math.sqrt(math.log(2 / 1e-4) / (2 * n))


LAWS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "uniform": lambda rng, n: rng.random(n),
    "confident": lambda rng, n: rng.beta(8, 1, n),
    "few distinct scores": lambda rng, n: rng.choice([0.1, 0.3, 0.6], n),
    "rare": lambda rng, n: rng.beta(1, 20, n),
}


@pytest.mark.parametrize("n_sets", [300, pytest.param(1_500, marks=pytest.mark.slow)])
@pytest.mark.parametrize("law", LAWS)
def test_the_closed_form_is_uniform_under_calibration(law: str, n_sets: int) -> None:
    """Its error is that of the normal limits: .03 beyond the chance of the data sets, at small p below .005."""
    rng = np.random.default_rng(11)
    n, p_values = 2_000, []
    for _ in range(n_sets):
        p = LAWS[law](rng, n)
        table = ReliabilityTable.from_scores(p, rng.random(n) < p)
        p_values.append(closed_form_test(Event(table=table, n_bins=15)).p_value)
    small = np.array(p_values) <= 0.05
    assert small.mean() == pytest.approx(0.05, abs=0.005 + 4 * math.sqrt(0.05 * 0.95 / n_sets))
    # Above .5 the combination is not uniform: parts above .95 count as .95.
    assert distance([min(p, 0.5) * 2 for p in p_values if p <= 0.5]) < 0.03 + dkw(sum(p <= 0.5 for p in p_values))


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS)
def test_the_p_value_of_resamples_is_uniform_under_calibration(law: str) -> None:
    """Exact at any N: outcomes and replicates have one law. Ties make it larger, and it is a multiple of 1/200."""
    rng = np.random.default_rng(12)
    p_values = []
    for seed in range(500):
        p = LAWS[law](rng, 150)
        test = evaluate(p, rng.random(150) < p, n_resamples=199, rng=seed, measures=["ece"]).test
        assert test is not None
        p_values.append(test.p_value)
    above = max(np.mean(np.array(p_values) <= x) - x for x in np.arange(1, 200) / 200)
    assert above < dkw(500)
    if law in ("uniform", "confident"):
        assert distance(p_values) < dkw(500) + 1 / 200


# ---------------------------------------------------------------- no sentence contradicts the first

Sample = tuple[np.ndarray, np.ndarray]


def _tilted(p: np.ndarray, factor: float, shift: float = 0.0) -> np.ndarray:
    log_odds = np.log(p / (1 - p))
    return np.asarray(1 / (1 + np.exp(-(factor * log_odds + shift))))


def _drawn(p: np.ndarray, q: np.ndarray, rng: np.random.Generator) -> Sample:
    return p, (rng.random(len(p)) < q).astype(int)


def _some(rng: np.random.Generator) -> np.ndarray:
    a, b = rng.uniform(0.7, 4, 2)
    return np.clip(rng.beta(a, b, int(rng.integers(40, 1_500))), 1e-4, 1 - 1e-4)


def _calibrated(rng: np.random.Generator) -> Sample:
    p = _some(rng)
    return _drawn(p, p, rng)


def _shifted(rng: np.random.Generator) -> Sample:
    p = _some(rng)
    return _drawn(p, _tilted(p, 1, rng.normal(0, 0.3)), rng)


def _extreme(rng: np.random.Generator) -> Sample:
    p = _some(rng)
    return _drawn(p, _tilted(p, math.exp(rng.normal(0, 0.3))), rng)


def _bent(rng: np.random.Generator) -> Sample:
    p = _some(rng)
    return _drawn(p, np.clip(p + rng.normal(0, 0.08) * np.sin(2 * math.pi * rng.integers(1, 5) * p), 0, 1), rng)


def _constant(rng: np.random.Generator) -> Sample:
    n = int(rng.integers(30, 400))
    return _drawn(np.full(n, 0.2), np.full(n, rng.choice([0.2, 0.25, 0.3])), rng)


def _twice(rng: np.random.Generator) -> Sample:
    q = rng.beta(2, 30, int(rng.integers(100, 2_000)))
    return _drawn(np.clip(2 * q, 0, 1), q, rng)


def _games(rng: np.random.Generator) -> Sample:
    """Forecasts of football games: rounded scores in the middle, a mean that is off by a point or three."""
    p = np.round(np.clip(rng.normal(0.55, 0.18, 1_882), 0.05, 0.95), 2)
    return _drawn(p, np.clip(p - rng.uniform(0, 0.03), 0, 1), rng)


KINDS = (_calibrated, _shifted, _extreme, _bent, _constant, _twice, _games)
DIRECTION = re.compile(
    r"^((Over|Under)estimates the event|(Over|Under)-confident|Predictions are too (extreme|moderate)): "
)
NEITHER = re.compile(r"^(No clear |Calibration slope )")
MEAN = re.compile(r"^(Overestimates|Underestimates|Over-|Under-|No clear )")
SLOPE = re.compile(r"^(Predictions are too |Calibration slope )")


def contradictions(report: calibrant.Report) -> list[str]:
    """Return what is wrong with the sentences of a report, given the one on the evidence."""
    (first,) = (sentence for sentence in report.verdict() if "vidence of miscalibration (p " in sentence)
    others = [sentence for sentence in report.verdict() if sentence != first]
    assert report.test is not None
    if report.miscalibrated != first.startswith("Evidence of miscalibration (p "):
        return [f"the test and the first sentence differ: {first}"]
    alone = [sentence for sentence in others if sentence.startswith("Not significant overall. ")]
    if not report.miscalibrated:
        if len(alone) != any("by_itself" in finding.facts for finding in report.findings):
            return [f"what would be significant alone is not said once: {alone}"]
        return [sentence for sentence in others if DIRECTION.match(sentence)]
    leading = next(f.facts["leading"] for f in report.findings if f.code is Code.MISCALIBRATED)
    of_part = {"mean": MEAN, "spread": SLOPE}
    decided = [sentence for sentence in others if leading in of_part and of_part[leading].match(sentence)]
    return [*alone, *(sentence for sentence in decided if NEITHER.match(sentence))]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "n_resamples"), [(kind, b) for kind in KINDS for b in (0, 200)])
def test_no_sentence_contradicts_the_first(kind: Callable[[np.random.Generator], Sample], n_resamples: int) -> None:
    """Seven kinds, 240 data sets of each without resamples and 60 with: 2,100."""
    rng = np.random.default_rng(KINDS.index(kind))
    seen: Counter[str] = Counter()
    for i in range(60 if n_resamples else 240):
        p, y = kind(rng)
        report = evaluate(p, y, n_resamples=n_resamples, rng=i, measures=["ece"])
        assert contradictions(report) == [], (i, report.verdict(), report.test)
        gap = float(np.mean(p) - np.mean(y))
        assert not any(own.startswith("Overestimates" if gap < 0 else "Underestimates") for own in report.verdict())
        spread = any("xtreme" in sentence or "slope" in sentence for sentence in report.verdict())
        assert not (kind is _constant and spread)
        by_itself = any(sentence.startswith("Not significant overall. ") for sentence in report.verdict())
        seen["rejected" if report.miscalibrated else "by itself" if by_itself else "neither"] += 1
        if report.miscalibrated and kind is _twice:
            assert any(own.startswith("Overestimates the event: ") for own in report.verdict()), report.verdict()
    assert seen["neither"] >= 5 or kind is _twice
    if kind is not _calibrated:
        assert seen["rejected"] >= 5
    if n_resamples == 0:
        assert seen["by itself"] >= 2 or kind in (_twice, _constant)


@pytest.mark.slow
def test_no_sentence_on_the_top_label_contradicts_the_first() -> None:
    rng = np.random.default_rng(20)
    for i in range(100):
        n, c = int(rng.integers(50, 800)), int(rng.integers(2, 6))
        probs = rng.dirichlet(np.full(c, 0.7), n)
        targets = (rng.random((n, 1)) > np.cumsum(probs, axis=1)).sum(axis=1).clip(max=c - 1)
        sharp = probs ** math.exp(rng.normal(0, 0.3))
        report = evaluate(sharp / sharp.sum(axis=1, keepdims=True), targets, n_resamples=0, measures=["ece"])
        assert contradictions(report) == [], (i, report.verdict())
