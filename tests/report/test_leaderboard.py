"""The leaderboard of `compare`, against paired tests of other packages; models with outcomes of their own."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

import calibrant
from calibrant import CalibrationSketch
from calibrant.errors import InputError
from calibrant.measures import Measure
from calibrant.report.leaderboard import MOST_PAIRED

N = 900
RNG = np.random.default_rng(11)
Q = RNG.uniform(0.02, 0.98, N)
Y = RNG.random(N) < Q
MODELS = {f"m{k}": np.clip(Q + RNG.normal(0, 0.04 * (k + 1), N), 0, 1) for k in range(4)}
OWN = {name: (p, RNG.random(N) < p**1.2) for name, p in MODELS.items()}
CLUSTERS = np.arange(N) // 6
SETTINGS: dict[str, dict[str, Any]] = {
    "rows": {},
    "whole weights": {"weights": RNG.integers(1, 4, N).astype(float)},
    "weights": {"weights": RNG.exponential(size=N)},
    "clusters": {"clusters": CLUSTERS},
    "clusters and weights": {"clusters": CLUSTERS, "weights": RNG.exponential(size=N)},
}


def standing(comparison: calibrant.Comparison, name: str) -> Any:
    return next(each for each in comparison.leaderboard if each.name == name)


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("key", ["brier", "nll", "auroc"])
@pytest.mark.parametrize("setting", list(SETTINGS))
def test_two_models_differ_by_the_interval_of_their_pair(setting: str, key: str, own: bool) -> None:
    """The same variance as that of the pair, which has formulas of its own; only rows have Student's quantile here."""
    two = {name: (OWN if own else MODELS)[name] for name in ("m0", "m3")}
    two = {name: (np.clip(p, 0.01, 0.99), y) for name, (p, y) in two.items()} if own else two
    shared = {name: np.clip(p, 0.01, 0.99) for name, p in MODELS.items() if name in two}
    options = {**SETTINGS[setting], "sort_by": key}
    comparison = calibrant.compare(two, **options) if own else calibrant.compare(shared, Y, **options)
    pair = comparison.pairs[0][key]
    last = comparison.leaderboard[-1]
    assert last.difference.value == pytest.approx(abs(pair.value), rel=1e-9)
    half = (pair.high - pair.low) / 2
    weights = options.get("weights", np.ones(N))
    whole = np.array_equal(weights, np.round(weights))
    n = weights.sum() if whole else weights.sum() ** 2 / (weights**2).sum()
    ratio = 1.0 if "clusters" in options else stats.t.ppf(0.975, n - 1) / stats.norm.ppf(0.975)
    assert last.difference.high - last.difference.value == pytest.approx(half * ratio, rel=1e-9)
    assert (last.adjusted_p_value <= 0.05) == (not last.among_best) == (last.difference.low > 0)


def test_the_p_value_of_two_models_is_that_of_the_paired_t_test() -> None:
    (p, y), (q, z) = OWN["m0"], OWN["m3"]
    comparison = calibrant.compare({"a": (p, y), "b": (q, z)})
    losses = (p - y) ** 2, (q - z) ** 2
    expected = stats.ttest_rel(*losses)
    assert comparison.leaderboard[-1].adjusted_p_value == pytest.approx(expected.pvalue, rel=1e-9)
    found = comparison.leaderboard[-1].difference
    low, high = expected.confidence_interval(0.95)
    assert sorted([found.high, found.value]) == pytest.approx(sorted([max(abs(low), abs(high)), found.value]), rel=1e-9)


def test_own_outcomes_are_those_of_each_model() -> None:
    comparison = calibrant.compare(OWN)
    assert comparison.own_outcomes
    assert comparison.notion == "positive"
    for name, (p, y) in OWN.items():
        each = standing(comparison, name)
        assert each["accuracy"].value == pytest.approx(y.mean(), rel=1e-12)
        assert each["mean_confidence"].value == pytest.approx(p.mean(), rel=1e-12)
        assert each["brier"].value == pytest.approx(np.mean((p - y) ** 2), rel=1e-12)
        assert each["auroc"].value == pytest.approx(roc_auc_score(y, p), rel=1e-9)
        assert each["mean_gap"].value == pytest.approx(p.mean() - y.mean(), abs=1e-12)
        report = calibrant.evaluate(p, y, n_resamples=0)
        for key in ("brier", "ece", "auroc", "mean_gap", "debiased_square"):
            theirs = calibrant.evaluate(p, y, n_resamples=0, measures=[key])[key]
            assert (each[key].low, each[key].high) == pytest.approx((theirs.low, theirs.high), rel=1e-9), key
        assert each["ece"].floor == report["ece"].floor
        assert each.test.p_value == pytest.approx(report.test.p_value, rel=1e-9)
    accuracies = [y.mean() for _, y in OWN.values()]
    pair = next(pair for pair in comparison.pairs if (pair.first, pair.second) == ("m0", "m1"))
    assert pair["accuracy"].value == pytest.approx(accuracies[0] - accuracies[1], abs=1e-12)
    (_, y), (_, z) = OWN["m0"], OWN["m1"]
    assert (pair["accuracy"].details["only_first"], pair["accuracy"].details["only_second"]) == (
        (y & ~z).sum(),
        (z & ~y).sum(),
    )


def test_own_outcomes_that_are_the_same_give_the_differences_of_shared_ones() -> None:
    shared = calibrant.compare(MODELS, Y, measures=["auroc", "mean_gap"])
    own = calibrant.compare({name: (p, Y) for name, p in MODELS.items()})
    for one, other in zip(shared.pairs, own.pairs, strict=True):
        for key in ("debiased_square", "ece", "brier", "nll", "auroc", "mean_gap"):
            assert (one[key].value, one[key].low, one[key].high) == (other[key].value, other[key].low, other[key].high)
    assert all(pair["accuracy"].value == 0 for pair in own.pairs)


@pytest.mark.parametrize("key", ["brier", "nll", "accuracy", "auroc", "debiased_square"])
def test_the_order_is_that_of_the_measure(key: str) -> None:
    models = {name: np.clip(p, 0.01, 0.99) for name, p in MODELS.items()}
    comparison = calibrant.compare(models, Y, sort_by=key)
    assert comparison.sorted_by == key
    values = [each[key].value for each in comparison.leaderboard]
    assert values == sorted(values, reverse=key in ("accuracy", "auroc"))
    assert comparison.leaderboard[0].difference.value == 0
    assert all(one.difference.value <= two.difference.value for one, two in pairwise(comparison.leaderboard))


def test_a_measure_of_ones_own_ranks_models() -> None:
    tail = Measure(
        name="tail",
        label="tail loss",
        meaning="The share of events with a score below one half.",
        value=lambda event: float((event.table.positives * (event.table.scores < 0.5)).sum() / event.table.total),
        influence=lambda event: np.stack([np.zeros(len(event.table)), (event.table.scores < 0.5).astype(float)]),
    )
    comparison = calibrant.compare(MODELS, Y, sort_by=tail)
    parts = np.array([(p < 0.5) & Y for p in MODELS.values()], float)
    order = np.argsort(parts.mean(axis=1), kind="stable")
    assert [each.name for each in comparison.leaderboard] == [list(MODELS)[i] for i in order]
    worst = comparison.leaderboard[-1].difference
    assert worst.value == pytest.approx(parts[order[-1]].mean() - parts[order[0]].mean(), rel=1e-9)


@pytest.mark.parametrize(
    ("sort_by", "said"),
    [
        ("ece", "differences of this measure have no test"),
        ("mean_gap", "the measure has no best value"),
        ("breir", "did you mean 'brier'?"),
        ("oe_ratio", "no best value"),
        ("brier_skill", "differences of this measure have no test"),
        ("rps", "differences of this measure have no test"),
        ("within_one", "differences of this measure have no test"),
    ],
)
def test_measures_that_rank_no_models(sort_by: str, said: str) -> None:
    with pytest.raises(InputError, match="sort_by") as error:
        calibrant.compare(MODELS, Y, sort_by=sort_by)
    assert said in str(error.value)


def test_a_model_with_an_infinite_loss_is_the_last() -> None:
    zero = np.where(np.arange(N) == np.argmax(Y), 0.0, MODELS["m0"])
    models = {"zero": zero, **{name: np.clip(p, 0.01, 0.99) for name, p in MODELS.items()}}
    comparison = calibrant.compare(models, Y, sort_by="nll")
    last = comparison.leaderboard[-1]
    assert (last.name, last.difference.value, last.among_best) == ("zero", math.inf, False)
    assert (last.rank_low, last.rank_high) == (5, 5)
    assert math.isnan(last.adjusted_p_value)  # by rule: no test shows it
    assert "ranks last by rule, not by a test" in last.difference.method
    assert [each.impossible_outcomes for each in comparison.leaderboard] == [
        0,
        0,
        0,
        0,
        np.sum(Y & (zero == 0)) + np.sum(~Y & (zero == 1)),
    ]
    assert "Observed outcomes had predicted probability 0: 3 outcomes in zero." in " ".join(comparison.verdict())
    assert max(each.rank_high for each in comparison.leaderboard[:-1]) <= 4
    assert json.loads(comparison.to_json())["leaderboard"][-1]["difference"]["value"] is None
    both = calibrant.compare({"a": zero, "b": zero}, Y, sort_by="nll")
    assert [(each.rank_low, each.rank_high) for each in both.leaderboard] == [(1, 2), (1, 2)]
    assert "inf" in str(both)


def test_a_loss_that_was_not_infinite_by_chance_shows_nothing() -> None:
    """A model whose scores exclude outcomes may have an infinite expected loss too, though none was seen."""
    zero, other = (np.clip(MODELS[name], 0.01, 0.99) for name in ("m0", "m1"))
    zero[np.argmax(Y)] = 0.0
    other[np.argmin(Y)] = 0.0  # the outcome is 0
    models = {"zero": zero, "lucky": other}
    first, last = calibrant.compare(models, Y, sort_by="nll").leaderboard
    assert (first.name, first.rank_low, first.rank_high, first.among_best) == ("lucky", 1, 2, True)
    assert (last.name, last.rank_low, last.rank_high, last.among_best) == ("zero", 1, 2, True)
    models["sure"] = np.clip(MODELS["m2"], 0.01, 0.99)
    ends = {
        each.name: (each.rank_high, each.among_best) for each in calibrant.compare(models, Y, sort_by="nll").leaderboard
    }
    assert ends["zero"] == (3, False)


def rare(size: int, seed: int, low: float, high: float, form: str) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return two models that differ in a tenth of the rows, where the event has the probability ``low``."""
    rng = np.random.default_rng([size, seed])
    q = rng.uniform(0.1, 0.9, size)
    q[: size // 10] = low
    y = rng.random(size) < q
    second = q.copy()
    second[: size // 10] = high
    third = {"third": np.clip(q + rng.normal(0, 0.1, size), 0.001, 0.999)} if form == "three" else {}
    return {"right": q, "bold": second, **third}, y


@pytest.mark.parametrize("form", ["two", "three", "clusters", "unpaired", "own", "weights", "classes"])
@pytest.mark.parametrize("key", ["brier", "nll"])
@pytest.mark.parametrize(("low", "high"), [(0.99, 0.9999), (0.99, 1.0), (0.999, 0.99999), (0.01, 0.0001)])
def test_errors_that_were_not_seen_decide_no_order(low: float, high: float, key: str, form: str) -> None:
    """Most samples contain no error in the rows where the models differ, and the right model then looks worse."""
    for seed in range(8):
        models, y = rare(300, seed, low, high, form)
        options: dict[str, Any] = {"sort_by": key}
        if form == "clusters":
            options["clusters"] = np.arange(300) // 3
        if form == "weights":
            options["weights"] = np.random.default_rng(seed).exponential(size=300)
        if form == "unpaired":
            comparison = calibrant.compare({name: sketch(p, y) for name, p in models.items()}, paired=False, **options)
        elif form == "classes":  # the last one is predicted in the rows that decide, and the others share the rest
            four = {}
            for name, p in models.items():
                last = p if low > 0.5 else 1 - p
                four[name] = np.column_stack([*[(1 - last) / 3] * 3, last])
            classes = np.where(y == (low > 0.5), 3, np.arange(300) % 3)
            comparison = calibrant.compare(four, classes, **options)
        elif form == "own":
            comparison = calibrant.compare({name: (p, y) for name, p in models.items()}, **options)
        else:
            comparison = calibrant.compare(models, y, **options)
        assert standing(comparison, "right").among_best, seed
        low_end = comparison.pairs[0][key].low
        assert math.isnan(low_end) or low_end <= 0, seed


def test_what_an_unseen_error_adds_to_an_interval() -> None:
    """By an elementary version: k errors of size D seen, and c^2 exp(-k / 6) of them more."""
    q = np.concatenate([np.full(40, 0.99), RNG.uniform(0.1, 0.9, 160)])
    y, bold = np.concatenate([np.ones(38), np.zeros(2), RNG.random(160) < q[40:]]), q.copy()
    bold[:40] = 0.999
    pair = calibrant.compare(q, bold, y).pairs[0]["brier"]
    size = 4 * (0.999 - 0.99) ** 2 / 200**2
    d = (q - y) ** 2 - (bold - y) ** 2
    seen = d.var(ddof=1) / 200
    c = math.log(0.025) / stats.norm.ppf(0.025)
    variance = seen + c**2 * size * math.exp(-seen / size / 6)
    assert (pair.high - pair.low) / 2 == pytest.approx(stats.norm.ppf(0.975) * math.sqrt(variance), rel=1e-9)


def test_a_model_without_a_value_may_have_any_rank() -> None:
    right = {"all right": (Q, np.ones(N, int)), **OWN}
    board = {each.name: each for each in calibrant.compare(right, sort_by="auroc").leaderboard}
    assert math.isnan(board["all right"].difference.value)
    assert (board["all right"].rank_low, board["all right"].rank_high, board["all right"].among_best) == (1, 5, True)
    without = calibrant.compare(OWN, sort_by="auroc").leaderboard
    assert [board[each.name].rank_high for each in without] == [each.rank_high + 1 for each in without]
    text = str(calibrant.compare(right, sort_by="auroc"))
    assert "inf" not in text.split("Leaderboard")[1].split("debiased")[0]


def test_answers_that_are_all_right_do_not_tell_the_order() -> None:
    models = {f"m{k}": (np.full(10, 0.8 + 0.04 * k), np.ones(10, int)) for k in range(4)}
    comparison = calibrant.compare(models)
    assert all(each.among_best and each.rank_high == 4 for each in comparison.leaderboard)
    assert "the order of the models is not tested" in comparison.verdict()[1]


@pytest.mark.parametrize("clusters", [None, CLUSTERS])
def test_calibration_ranks_models_as_its_pairs(clusters: Any) -> None:
    comparison = calibrant.compare(MODELS["m0"], MODELS["m3"], Y, sort_by="debiased_square", clusters=clusters)
    pair, last = comparison.pairs[0]["debiased_square"], comparison.leaderboard[-1]
    assert last.adjusted_p_value == pytest.approx(pair.p_value, rel=1e-9)
    assert last.difference.high - last.difference.value == pytest.approx((pair.high - pair.low) / 2, rel=1e-9)


def test_the_accuracy_in_clusters_is_about_as_sure_as_that_of_the_pair() -> None:
    comparison = calibrant.compare(MODELS["m0"], MODELS["m3"], Y, sort_by="accuracy", clusters=CLUSTERS)
    pair, last = comparison.pairs[0]["accuracy"], comparison.leaderboard[-1]
    assert last.difference.high - last.difference.value == pytest.approx((pair.high - pair.low) / 2, rel=0.05)


def test_few_rows_and_models_that_are_alike() -> None:
    one = calibrant.compare([0.2], [0.4], [1])
    assert [each.among_best for each in one.leaderboard] == [True, True]
    assert math.isnan(one.leaderboard[1].adjusted_p_value)
    three = calibrant.compare({"a": [0.2], "b": [0.4], "c": [0.3]}, [1])
    assert any("the order of the models is not tested" in sentence for sentence in three.verdict())
    same = calibrant.compare({"a": Q, "b": Q, "c": Q}, Y)
    assert [(each.rank_low, each.rank_high) for each in same.leaderboard] == [(1, 3)] * 3
    assert [each.adjusted_p_value for each in same.leaderboard] == [1.0] * 3
    right = calibrant.compare({"a": ([0.9] * 5, [1] * 5), "b": ([0.8] * 5, [0] * 5)}, sort_by="accuracy")
    assert right.leaderboard[1].adjusted_p_value > 0.001  # five rows that differ alike are not certainty


def rounded(p: np.ndarray, how: str) -> np.ndarray:
    if how == "single precision":
        return p.astype(np.float32).astype(float)
    return np.clip(p + float(how) * np.random.default_rng(5).standard_normal(len(p)), 0, 1)


@pytest.mark.parametrize("how", ["single precision", "1e-13", "1e-12", "1e-10", "1e-9", "1e-8"])
@pytest.mark.parametrize("key", ["brier", "nll", "auroc", "accuracy"])
@pytest.mark.parametrize("form", ["rows", "clusters", "own", "independent", "two"])
def test_a_copy_of_the_best_model_is_as_good(form: str, key: str, how: str) -> None:
    """However little the two vary apart: a difference that rounding makes is no evidence."""
    models = {"best": Q, "copy": rounded(Q, how), "worse": np.clip(Q + RNG.normal(0, 0.2, N), 0.001, 0.999)}
    if form == "two":
        del models["worse"]
    if form in ("own", "independent"):
        answers = {name: (p, Y) for name, p in models.items()}
        sketches = {name: sketch(*pair) for name, pair in answers.items()}
        comparison = (
            calibrant.compare(answers, sort_by=key)
            if form == "own"
            else calibrant.compare(sketches, sort_by=key, paired=False)
        )
    else:
        clusters = CLUSTERS if form == "clusters" else None
        comparison = calibrant.compare(models, Y, sort_by=key, clusters=clusters)
    for name in ("best", "copy"):
        each = standing(comparison, name)
        assert (each.among_best, each.adjusted_p_value, each.rank_low) == (True, 1.0, 1), name
        assert each.difference.low == 0


def test_a_copy_in_half_precision_has_an_honest_test() -> None:
    """The variance of the difference is that of the rows' differences, also where two covariances would cancel."""
    half = Q.astype(np.float16).astype(float)
    comparison = calibrant.compare({"a": Q, "b": half, "c": np.clip(Q + 0.01, 0, 1)}, Y)
    differences = (Q - Y) ** 2 - (half - Y) ** 2
    two = calibrant.compare({"a": Q, "b": half}, Y).leaderboard[-1]
    assert two.adjusted_p_value == pytest.approx(stats.ttest_1samp(differences, 0).pvalue, rel=1e-6)
    assert standing(comparison, "a").among_best
    assert standing(comparison, "b").among_best


def sketch(p: Any, y: Any, clusters: Any = None) -> CalibrationSketch:
    made = CalibrationSketch()
    made.update(p, y, clusters=clusters)
    return made


def test_sketches_of_the_same_clusters_rank_as_their_rows() -> None:
    rows = calibrant.compare(OWN, clusters=CLUSTERS)
    sketches = {name: sketch(p, y, CLUSTERS) for name, (p, y) in OWN.items()}
    for key in ("brier", "accuracy"):
        rows = calibrant.compare(OWN, clusters=CLUSTERS, sort_by=key)
        sums = calibrant.compare(sketches, paired=True, own_outcomes=True, sort_by=key)
        for one, other in zip(rows.leaderboard, sums.leaderboard, strict=True):
            assert one.name == other.name
            ends = [(each.value, each.low, each.high) for each in (one.difference, other.difference)]
            assert ends[0] == pytest.approx(ends[1], rel=1e-9, abs=1e-12)
            assert one[key].value == pytest.approx(other[key].value, rel=1e-12)


@pytest.mark.parametrize("key", ["brier", "accuracy", "auroc"])
def test_sketches_of_other_rows_have_errors_that_add_up(key: str) -> None:
    sketches = {name: sketch(p, y) for name, (p, y) in OWN.items()}
    unknown = calibrant.compare(sketches, own_outcomes=True, sort_by=key)
    independent = calibrant.compare(sketches, own_outcomes=True, sort_by=key, paired=False)
    rows = calibrant.compare(OWN, sort_by=key)
    for one, two, three in zip(unknown.leaderboard, independent.leaderboard, rows.leaderboard, strict=True):
        assert one.name == two.name == three.name
        assert one.difference.high >= two.difference.high - 1e-12 >= -1e-12
        assert one.difference.method.endswith("(Bonferroni)")
        assert two.difference.method.endswith("(Tukey)")
        assert one[key].value == pytest.approx(three[key].value, abs=2e-3)
    name, other = unknown.leaderboard[-1].name, unknown.leaderboard[0].name
    halves = [standing(unknown, each)[key] for each in (name, other)]
    errors = [(each.high - each.low) / 2 / stats.norm.ppf(0.975) for each in halves]
    last = unknown.leaderboard[-1].difference
    width = stats.norm.isf(0.05 / 12) * sum(errors)
    assert last.high - last.value == pytest.approx(width, rel=0.03)  # intervals of one model are steadied


def test_many_models_are_compared_with_the_first_and_the_best() -> None:
    rng = np.random.default_rng(3)
    models = {f"m{k}": np.clip(Q[:200] + rng.normal(0, 0.02 * (k % 7 + 1), 200), 0, 1) for k in range(MOST_PAIRED + 5)}
    comparison = calibrant.compare(models, Y[:200])
    best = comparison.leaderboard[0].name
    assert len(comparison.leaderboard) == MOST_PAIRED + 5
    assert {frozenset((pair.first, pair.second)) for pair in comparison.pairs} == {
        frozenset((name, other)) for name in ("m0", best) for other in models if other != name
    }
    every = calibrant.compare({name: models[name] for name in list(models)[:MOST_PAIRED]}, Y[:200])
    assert len(every.pairs) == MOST_PAIRED * (MOST_PAIRED - 1) // 2
    with pytest.raises(InputError, match="more than 20 models"):
        calibrant.compare(models, Y[:200], sort_by="debiased_square")
    text = str(comparison)
    assert "to see the other 5 models, use --json, --html, or comparison.leaderboard in Python" in " ".join(
        text.split()
    )


@pytest.mark.parametrize(
    ("models", "options", "argument", "said"),
    [
        ({"a": (Q, Y), "b": Q}, {}, "targets", "pass targets for all models, or a pair of each model"),
        ({"a": (Q, Y), "b": (Q, Y, Y)}, {}, "probs['b']", "a pair (probs, targets), got a tuple of 3"),
        ({"a": (0.3, 0.4), "b": (0.3, 0.4)}, {}, "probs['a']", "a pair (probs, targets)"),
        ({"a": (Q, Y), "b": (Q[:-1], Y[:-1])}, {}, "probs['b']", "as many as probs['a']"),
        ({"a": (Q, Y), "b": (Q + 1, Y)}, {}, "probs['b'][0]", "values in [0, 1]"),
        ({"a": (Q, Y), "b": (Q, Y + 1)}, {}, "probs['b'][1]", ""),
        (
            {"a": (Q, np.where(np.arange(N) == 3, -1, Y)), "b": (Q, Y * 1)},
            {"ignore_index": -1},
            "probs['b']",
            "row 3, which is evaluated for only one of them; leave such rows out for all models",
        ),
        ({"a": (Q, Y)}, {}, "probs_a", "two models or more"),
    ],
)
def test_bad_input(models: Any, options: Any, argument: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        calibrant.compare(models, **options)
    assert error.value.argument == argument
    assert said in str(error.value)


def test_own_outcomes_are_not_promised_with_shared_targets() -> None:
    with pytest.raises(InputError, match="own_outcomes"):
        calibrant.compare(MODELS, Y, own_outcomes=True)


def test_own_answers_among_classes() -> None:
    rows = RNG.dirichlet(np.ones(3), N)
    targets = {name: RNG.integers(0, 3, N) for name in "ab"}
    comparison = calibrant.compare({name: (rows, target) for name, target in targets.items()})
    for name, target in targets.items():
        assert standing(comparison, name)["accuracy"].value == pytest.approx(np.mean(rows.argmax(axis=1) == target))
    assert comparison.n_classes == 3


def test_groups_have_leaderboards_of_their_own() -> None:
    groups = np.where(np.arange(N) % 2 == 0, "even", "odd")
    comparison = calibrant.compare(OWN, groups=groups)
    for group in comparison.groups:
        rows = groups == group.name
        alone = calibrant.compare({name: (p[rows], y[rows]) for name, (p, y) in OWN.items()})
        assert group.comparison.to_dict()["leaderboard"] == alone.to_dict()["leaderboard"]
