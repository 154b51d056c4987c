"""Models compared by results without probabilities, and models that answered different questions."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from scipy import stats

import calibrant
from calibrant.errors import InputError
from calibrant.report.result_comparison import ACCURACY, Means, compare_means, mcnemar
from calibrant.statistics.resampling import normal_quantile


def solved(seed: int = 0, questions: int = 300, models: int = 4) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    difficulty = rng.uniform(-0.2, 0.2, (questions, 1))
    right = rng.random((questions, models)) < np.linspace(0.4, 0.7, models) + difficulty
    return {f"m{k}": right[:, k].astype(np.float64) for k in range(models)}


def sparse(seed: int = 0, share: float = 0.4, **size: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng([seed, 1])
    return {
        name: np.where(rng.random(len(results)) < share, results, np.nan)
        for name, results in solved(seed, **size).items()
    }


def numbers(comparison: calibrant.ResultComparison) -> dict[str, Any]:
    """Every number, whatever the order in which the models were given."""
    found = json.loads(comparison.to_json())
    pairs = {}
    for pair in found.pop("pairs"):
        if pair["first"] > pair["second"]:
            continue
        pairs[pair["first"], pair["second"]] = pair["difference"]
    return found | {"models": dict(sorted(found["models"].items())), "pairs": dict(sorted(pairs.items()))}


# ---------------------------------------------------------------- right or wrong


def test_the_intervals_are_those_of_wilson_and_of_bonett_and_price():
    results = solved()
    comparison = calibrant.compare_results(results)
    z, n = normal_quantile(0.95), 300
    for standing in comparison.leaderboard:
        p = results[standing.name].mean()
        interval = stats.binomtest(int(results[standing.name].sum()), n).proportion_ci(method="wilson")
        own = standing["accuracy"]
        assert (own.value, own.low, own.high) == pytest.approx((p, interval.low, interval.high), rel=1e-10)
    for pair in comparison.pairs:
        one, other = results[pair.first], results[pair.second]
        b, c = int(np.sum(one > other)), int(np.sum(one < other))
        p, q = (b + 1) / (n + 2), (c + 1) / (n + 2)
        half = z * math.sqrt((p + q - (p - q) ** 2) / (n + 2))
        found = pair["accuracy"]
        expected = ((b - c) / n, p - q - half, p - q + half, stats.binomtest(min(b, c), b + c).pvalue)
        assert (found.value, found.low, found.high, found.p_value) == pytest.approx(expected, rel=1e-10)
        assert (found.details["only_first"], found.details["only_second"]) == (b, c)


@pytest.mark.parametrize(("first", "second"), [(0, 0), (1, 0), (0, 7), (5, 5), (128, 44), (400, 300)])
def test_the_p_value_is_that_of_the_exact_test(first, second):
    expected = stats.binomtest(first, first + second).pvalue if first + second else 1.0
    assert mcnemar(first, second) == pytest.approx(expected, rel=1e-9)


def test_the_leaderboard_of_two_models_has_the_interval_of_the_pair():
    a, b = list(solved(3, questions=200, models=2).values())
    comparison = calibrant.compare_results({"a": a, "b": b})
    pair, worst = comparison.pairs[0]["accuracy"], comparison.leaderboard[-1].difference
    assert comparison.pairs[0].raw_p_value == pair.p_value
    ends = sorted((abs(pair.low), abs(pair.high)))
    assert pair.low < pair.high < 0  # a is worse
    assert (worst.low, worst.high) == pytest.approx(ends, rel=1e-9)
    assert worst.value == pytest.approx(-pair.value)


def test_models_that_never_differ_are_not_known_to_be_alike():
    comparison = calibrant.compare_results({"a": [1] * 50, "b": [1] * 50})
    difference = comparison.pairs[0]["accuracy"]
    assert (difference.value, difference.p_value) == (0.0, 1.0)
    assert 0.03 < difference.high < 0.08
    assert all(standing.among_best for standing in comparison.leaderboard)


def test_a_borderline_difference_is_called_so():
    """The exact test is conservative, so the interval may exclude 0 although it does not reject."""
    a = [1] * 24 + [0] * 12 + [1] * 164
    b = [0] * 24 + [1] * 12 + [1] * 164
    comparison = calibrant.compare_results({"a": a, "b": b})
    found = comparison.pairs[0]["accuracy"]
    assert found.low > 0
    assert found.p_value > 0.05
    assert comparison.verdict()[0].startswith("Borderline evidence of a different accuracy: the confidence interval")
    assert not comparison.worse(comparison.pairs[0])


# ---------------------------------------------------------------- partial credit, attempts, clusters


def test_partial_credit_is_compared_by_paired_means():
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 5, (2, 80)) / 4
    comparison = calibrant.compare_results({"a": a, "b": b})
    assert comparison.sorted_by == "mean_result"
    found, expected = comparison.pairs[0]["mean_result"], stats.ttest_rel(a, b)
    assert found.value == pytest.approx(expected.statistic * np.std(a - b, ddof=1) / math.sqrt(80))
    assert found.p_value == pytest.approx(expected.pvalue, rel=0.2)  # one more result of each model counts
    interval = expected.confidence_interval()
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), abs=0.01)


def test_attempts_count_by_their_mean_and_the_question_is_the_cluster():
    rng = np.random.default_rng(2)
    first, second = (rng.random((60, 3)) < 0.6).astype(float), (rng.random((60, 3)) < 0.5).astype(float)
    first[:20, 2] = np.nan
    comparison = calibrant.compare_results({"a": first, "b": second})
    means = calibrant.compare_results({"a": np.nanmean(first, axis=1), "b": second.mean(axis=1)})
    assert comparison.attempts == (2, 3)
    assert comparison.sorted_by == "accuracy"  # a mean over attempts is a share of right answers
    assert comparison.pairs[0]["accuracy"].low == means.pairs[0]["mean_result"].low
    assert "The result of a question is the mean over its attempts." in comparison.verdict()
    assert "2 to 3 attempts per question" in str(comparison)


def test_copies_of_questions_in_a_cluster_change_nothing_but_the_means_of_unequal_ones():
    results = solved(5, questions=40, models=3)
    once = calibrant.compare_results(results, clusters=np.arange(40))
    alone = calibrant.compare_results(results)
    assert numbers(once) == numbers(alone)  # each question is its own cluster
    copied = calibrant.compare_results(
        {name: np.repeat(values, 5) for name, values in results.items()}, clusters=np.repeat(np.arange(40), 5)
    )
    assert copied.clusters == {"clusters": 40}
    for pair, single in zip(copied.pairs, alone.pairs, strict=True):
        width, own = (each["accuracy"].high - each["accuracy"].low for each in (pair, single))
        assert width == pytest.approx(own, rel=0.1)


# ---------------------------------------------------------------- different questions


def test_complete_results_are_the_same_with_and_without_sparse():
    results = solved(7)
    plain, adjusted = calibrant.compare_results(results), calibrant.compare_results(results, sparse=True)
    assert numbers(plain)["pairs"] == numbers(adjusted)["pairs"]
    assert [each.name for each in plain.leaderboard] == [each.name for each in adjusted.leaderboard]


def test_the_difficulty_of_questions_is_adjusted_for():
    """Without errors the additive model is exact: the best model looks worst, because it answered hard questions."""
    difficulty = np.linspace(0.1, 0.5, 40)
    easy, hard = np.arange(40) < 25, np.arange(40) >= 15
    results = {
        "best": np.where(hard, 0.9 - difficulty, np.nan),
        "middle": 0.85 - difficulty,
        "worst": np.where(easy, 0.8 - difficulty, np.nan),
    }
    comparison = calibrant.compare_results(results, sparse=True)
    assert comparison.unadjusted["best"] < comparison.unadjusted["worst"]
    assert [each.name for each in comparison.leaderboard] == ["best", "middle", "worst"]
    values = {pair.first + pair.second: pair["mean_result"] for pair in comparison.pairs}
    assert values["bestworst"].value == pytest.approx(0.1)
    assert values["bestworst"].details["common"] == 10
    assert values["bestworst"].details["share"] == pytest.approx(10 / 40)


def test_models_without_a_link_are_named():
    results = sparse(1, share=0.6, questions=60)
    length = len(results["m0"])
    lone = np.full(length + 5, np.nan)
    lone[length:] = 1.0
    results = {name: np.concatenate([values, np.full(5, np.nan)]) for name, values in results.items()} | {"lone": lone}
    comparison = calibrant.compare_results(results, sparse=True)
    assert comparison.unlinked == ("lone",)
    assert "lone" not in comparison.names
    assert any(sentence.startswith("Caution: no common questions link") for sentence in comparison.verdict())
    with pytest.raises(InputError, match="expected models with a question in common"):
        calibrant.compare_results({"a": [1, np.nan], "b": [np.nan, 1]}, sparse=True)


def test_a_difference_that_one_question_decides_has_no_interval():
    results = {"a": [1, 0, 1, 1, np.nan], "b": [0, 0, 1, 0, np.nan], "c": [np.nan, np.nan, np.nan, 1, 1]}
    comparison = calibrant.compare_results(results, sparse=True)
    found = {pair.first + pair.second: pair["accuracy"] for pair in comparison.pairs}
    assert math.isnan(found["ac"].low)
    assert found["ac"].method == "no interval: a single cluster of questions decides the difference"
    assert math.isfinite(found["ab"].low)
    json.loads(comparison.to_json(), parse_constant=pytest.fail)


def test_forecasts_on_different_questions_are_compared_by_an_adjusted_loss():
    rng = np.random.default_rng(3)
    chance = rng.random(200)
    outcomes = (rng.random(200) < chance).astype(int)
    probs = {f"f{k}": np.clip(chance + rng.normal(0, 0.05 * (k + 1), 200), 0.01, 0.99) for k in range(4)}
    answered = {name: np.where(rng.random(200) < 0.5, values, np.nan) for name, values in probs.items()}
    comparison = calibrant.compare(answered, outcomes, sparse=True)
    losses = {name: (values - outcomes) ** 2 for name, values in answered.items()}
    by_hand = compare_means(
        Means(tuple(losses), np.column_stack(list(losses.values())), "brier", comparison.descriptions["brier"]),
        None,
        sparse=True,
        level=0.95,
    )
    assert [pair["brier"] for pair in comparison.pairs] == [pair["brier"] for pair in by_hand.pairs]
    name, values = next(iter(answered.items()))
    own = np.isfinite(values)
    report = calibrant.evaluate(values[own], outcomes[own], n_resamples=0)
    assert comparison.tests[name].n == report.n
    complete = calibrant.compare(probs, outcomes, sparse=True)
    plain = calibrant.compare(probs, outcomes)
    assert [pair["brier"].value for pair in complete.pairs] == pytest.approx([p["brier"].value for p in plain.pairs])


def test_classes_and_own_outcomes_may_be_sparse():
    rng = np.random.default_rng(4)
    probs = rng.dirichlet(np.ones(3), (2, 60))
    targets = rng.integers(0, 3, 60)
    probs[0, :20] = np.nan
    comparison = calibrant.compare({"a": probs[0], "b": probs[1]}, targets, sparse=True)
    assert comparison.answered == {"a": 40, "b": 60}
    own = calibrant.compare(
        {
            "a": (np.where(np.arange(60) < 20, np.nan, 0.7), np.where(np.arange(60) < 20, np.nan, targets == 0)),
            "b": (np.full(60, 0.6), (targets == 1).astype(float)),
        },
        sparse=True,
    )
    assert own.answered == {"a": 40, "b": 60}


# ---------------------------------------------------------------- laws


@pytest.mark.parametrize("make", [solved, sparse])
def test_the_order_of_rows_and_models_changes_no_bit(make):
    results = make(9)
    rng = np.random.default_rng(0)
    expected = numbers(calibrant.compare_results(results, sparse=True))
    for _ in range(3):
        order = rng.permutation(len(results["m0"]))
        shuffled = {name: results[name][order] for name in sorted(results, reverse=bool(rng.integers(2)))}
        found = numbers(calibrant.compare_results(shuffled, sparse=True))
        assert found["leaderboard"] == expected["leaderboard"]
        for key in found["pairs"].keys() & expected["pairs"].keys():
            assert found["pairs"][key] == expected["pairs"][key]


def test_the_input_stays_and_the_result_is_a_value(tmp_path):
    results = sparse(2)
    for values in results.values():
        values.flags.writeable = False
    comparison = calibrant.compare_results(results, sparse=True)
    copy = pickle.loads(pickle.dumps(comparison))
    assert str(copy) == str(comparison)
    assert repr(comparison).startswith("<ResultComparison of 'm0', 'm1', 'm2', 'm3': ")
    page = comparison.to_html(tmp_path / "page.html").read_text("utf-8")
    assert "adjusted for the difficulty of the questions" in page
    assert "| first − second |" in comparison.to_markdown()
    assert list(comparison.to_pandas().index.names) == ["first", "second"]
    assert comparison.plot().get_xlabel() == "accuracy"


def test_many_models_are_compared_with_the_first_and_the_best_one():
    results = solved(11, questions=100, models=25)
    comparison = calibrant.compare_results(results)
    best = comparison.leaderboard[0].name
    assert all({"m0", best} & {pair.first, pair.second} for pair in comparison.pairs)
    assert len(comparison.leaderboard) == 25


@pytest.mark.parametrize("kind", [bool, np.int8, np.float32, list])
def test_every_type_of_number_is_read(kind):
    results = solved(12, questions=30, models=2)
    same = {name: [int(v) for v in each] if kind is list else each.astype(kind) for name, each in results.items()}
    assert numbers(calibrant.compare_results(same)) == numbers(calibrant.compare_results(results))


def test_every_missing_value_is_nan():
    expected = calibrant.compare_results({"a": [1, np.nan, 0, 1], "b": [0, 1, 1, 1]}, sparse=True).to_dict()
    pandas = pytest.importorskip("pandas", reason="pandas is not installed (extra 'pandas')")
    for missing in (
        [1, None, 0, 1],
        np.array([1, None, 0, 1], object),
        np.ma.masked_array([1, 0, 0, 1], [False, True, False, False]),
        pandas.array([1, None, 0, 1], dtype="Int64"),
        pandas.Series([True, None, False, True], dtype="boolean"),
    ):
        found = calibrant.compare_results({"a": missing, "b": [0, 1, 1, 1]}, sparse=True)
        assert found.to_dict() == expected
    with pytest.raises(InputError, match=r"got a DataFrame; pass dict\(frame.items\(\)\)"):
        calibrant.compare_results(pandas.DataFrame({"a": [1, 0], "b": [0, 1]}))


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("results", "how", "message"),
    [
        ([1, 0], {}, "results: expected a mapping from the names of models to results, got a list"),
        ({"a": [1, 0]}, {}, "results: expected two models or more, got a mapping of 1"),
        ({"a": [1, 0], "b": [1]}, {}, r"results\['b'\]: expected 2 questions, as many as results\['a'\], got 1"),
        ({"a": [1, 2], "b": [1, 0]}, {}, r"results\['a'\]: expected results from 0 to 1, got 2 at row 1; divide"),
        ({"a": [1, -1], "b": [1, 0]}, {}, "got -1 at row 1; correct the result"),
        ({"a": [1, np.inf], "b": [1, 0]}, {"sparse": True}, "got inf at row 1"),
        ({"a": [1, np.nan], "b": [1, 0]}, {}, "expected a result for every question, got none at row 1; pass sparse"),
        ({"a": ["yes", "no"], "b": [1, 0]}, {}, "expected numbers from 0 to 1"),
        ({"a": [], "b": []}, {}, "expected one question or more, got none"),
        ({"a": np.zeros((2, 2, 2)), "b": [1, 0]}, {}, "results of shape"),
        ({"a": [1, 0], "b": [0, 1]}, {"clusters": [1]}, "clusters"),
        ({"a": [1, 0], "b": [0, 1]}, {"level": 1.0}, "level"),
        ({"a": [1, 0], "b": [0, 1]}, {"sparse": "no"}, "sparse: expected True or False, got 'no'"),
        ({1: [1, 0], "1": [0, 1]}, {}, "results: expected models whose names differ as text"),
        ({"a": [1, np.inf], "b": [0, 1]}, {}, "got inf at row 1; correct the result"),
    ],
)
def test_bad_results_say_what_to_do(results, how, message):
    with pytest.raises(InputError, match=message):
        calibrant.compare_results(results, **how)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"sort_by": "auroc"}, "sort_by: expected one of brier, nll, accuracy with sparse, got 'auroc'"),
        ({"weights": [1, 1, 1, 1]}, "weights: expected no weights together with sparse=True"),
        ({"groups": list("aabb")}, "groups: expected no groups together with sparse=True"),
        ({"tolerance": 0.1}, "tolerance: expected no tolerance together with sparse=True"),
    ],
)
def test_what_sparse_models_do_not_take(how, message):
    probs: Mapping[str, Any] = {"a": [0.5, 0.4, np.nan, 0.2], "b": [0.5, np.nan, 0.4, 0.1]}
    with pytest.raises(InputError, match=message):
        calibrant.compare(probs, [0, 1, 1, 0], sparse=True, **how)


def test_errors_about_sparse_predictions_name_the_row_of_the_caller():
    with pytest.raises(InputError, match=r"probs\['b'\]: expected values in \[0, 1\], got 7 at row 3"):
        calibrant.compare({"a": [0.5, 0.4, 0.2, 0.2], "b": [np.nan, np.nan, 0.4, 7]}, [0, 1, 1, 0], sparse=True)
    with pytest.raises(InputError, match=r"probs\['b'\]: expected a finite log loss, got probability 0 .* at row 2"):
        calibrant.compare(
            {"a": [0.5, 0.4, 0.2, 0.2], "b": [np.nan, 0.4, 0.0, 0.1]}, [0, 1, 1, 0], sparse=True, sort_by="nll"
        )


# ---------------------------------------------------------------- simulations


@pytest.mark.slow
@pytest.mark.parametrize(("models", "questions", "share"), [(10, 100, 0.3), (30, 100, 0.1), (4, 40, 1.0)])
def test_intervals_cover_and_ranks_hold(models, questions, share):
    """In benchmarks/simulation/sparse_questions.py with more settings. The standard error of a share is about 0.01."""
    rng = np.random.default_rng([models, questions])
    ability, covered, ranks, runs = np.linspace(0.35, 0.65, models), [], 0, 60
    for _ in range(runs):
        values = (rng.random((questions, models)) < ability + rng.uniform(-0.2, 0.2, (questions, 1))).astype(float)
        values[rng.random(values.shape) > share] = np.nan
        names = tuple(f"{k:02}" for k in range(models))
        found = compare_means(Means(names, values, "accuracy", ACCURACY), None, sparse=True, level=0.95)
        true = dict(zip(names, ability, strict=True))
        best = found.leaderboard[0].name if models > 20 else ""  # which was chosen by its estimate
        for pair in found.pairs:
            if best not in (pair.first, pair.second):
                part = pair["accuracy"]
                covered.append(part.low <= true[pair.first] - true[pair.second] <= part.high)
        rank = {name: 1 + sum(true[name] < other for other in true.values()) for name in found.names}
        ranks += all(each.rank_low <= rank[each.name] <= each.rank_high for each in found.leaderboard)
    assert 0.925 <= np.mean(covered) <= 0.985
    assert ranks >= 0.93 * runs
