"""Weights of any size: a common factor changes no number, and what float64 cannot hold is refused."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betaincinv

import calibrant
from calibrant import CalibrationSketch, ReliabilityTable, compare, evaluate, frames
from calibrant.errors import InputError
from calibrant.inference import cox_test, hosmer_lemeshow_test, ks_test, spiegelhalter_test, t_cal_test
from calibrant.inputs.weights import (
    LEAST_WEIGHT,
    MOST_WEIGHT,
    in_units,
    integer_weights,
    rate_rows,
    share_rows,
    unit_of,
)
from tests.in_process import run, succeed
from tests.samples import sketch_of

#: Weights of every row: fractions, beyond 2^53, and those whose squares or fourth powers are 0 or infinite.
EQUAL = [0.3, 1e-30, 1e-100, 1e-200, 5e-324, 2.0**53, 2.0**63, 1e100, 1e300]

#: Those of `EQUAL` that sums may hold that are added to others.
KEPT = [0.3, 1e-30, 1e-60, 2.0**53, 2.0**63, 1e60]


def one_event(n: int = 600, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    probs = rng.random(n)
    return {"probs": probs, "targets": (rng.random(n) < probs**1.3).astype(int)}


def several(n: int = 300, seed: int = 1) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {"probs": rng.dirichlet(np.ones(3), n), "targets": rng.integers(0, 3, n)}


def labels(n: int = 150, seed: int = 2) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {"probs": rng.random((n, 3)), "targets": rng.integers(0, 2, (n, 3)), "notion": "multilabel"}


DATA: dict[str, dict[str, Any]] = {
    "one event": one_event(),
    "top label": {**one_event(), "notion": "top-label"},
    "groups": {**one_event(), "groups": np.arange(600) % 2},
    "clusters": {**one_event(), "clusters": np.arange(600) % 40},
    "classes": several(),
    "class by class": {**several(), "notion": "classwise"},
    "labels": labels(),
    "ignored rows": {**one_event(), "ignore_index": 0}
    | {"targets": np.repeat([1, 0], 300), "probs": np.full(600, 0.9)},
}


def numbers(report: Any) -> dict[str, list[float]]:
    """All numbers of inference of a report."""
    found = {"test": [report.test.p_value]}
    for name, one in report.items():
        floor = [np.nan, np.nan] if one.floor is None else [one.floor.mean, one.floor.upper]
        found[name] = [one.value, one.low, one.high, one.p_value, *floor]
    for group in report.groups:
        found |= {f"{group.name} {name}": values for name, values in numbers(group.report).items()}
        found[group.name] = [group.p_value, group.adjusted_p_value]
    if report.classwise is not None:
        found["classes"] = [*report.classwise.errors, *report.classwise.p_values]
    return found


def alike(found: dict[str, list[float]], expected: dict[str, list[float]]) -> None:
    assert found.keys() == expected.keys()
    for name in found:
        assert found[name] == pytest.approx(expected[name], rel=1e-9, abs=1e-12, nan_ok=True), name


@pytest.mark.covering
@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("n_resamples", [0, 20])
def test_equal_weights_are_none(name: str, n_resamples: int) -> None:
    data = DATA[name]
    n = len(data["probs"])
    expected = numbers(evaluate(**data, n_resamples=n_resamples))
    for weight in EQUAL:
        alike(numbers(evaluate(**data, n_resamples=n_resamples, weights=np.full(n, weight))), expected)


@pytest.mark.parametrize("weight", KEPT)
@pytest.mark.parametrize("name", sorted(DATA.keys() - {"ignored rows"}))
@pytest.mark.slow
def test_equal_weights_of_a_sketch_are_none(name: str, weight: float) -> None:
    data = {key: value for key, value in DATA[name].items() if key != "notion"}
    plain, weighed = (CalibrationSketch(notion=DATA[name].get("notion"), classwise=True) for _ in range(2))
    for part in np.array_split(np.arange(len(data["probs"])), 3):
        batch = {key: value[part] for key, value in data.items()}
        plain.update(**batch)
        weighed.update(**batch, weights=np.full(len(part), weight))
    for n_resamples in (0, 20):
        alike(numbers(evaluate(weighed, n_resamples=n_resamples)), numbers(evaluate(plain, n_resamples=n_resamples)))
    assert CalibrationSketch.from_bytes(weighed.to_bytes()) == weighed


@pytest.mark.covering
@pytest.mark.parametrize("weight", KEPT)
@pytest.mark.parametrize("grid", [None, "standard"])
def test_equal_weights_of_a_table_are_none(weight: float, grid: Any) -> None:
    probs, targets = one_event().values()
    plain = ReliabilityTable.from_scores(probs, targets, grid=grid)
    weighed = ReliabilityTable.from_scores(probs, targets, weights=np.full(600, weight), grid=grid)
    assert weighed.total == pytest.approx(600 * weight)
    for n_resamples in (0, 20):
        alike(numbers(evaluate(weighed, n_resamples=n_resamples)), numbers(evaluate(plain, n_resamples=n_resamples)))
    for measure in (calibrant.adaptive_calibration_error, calibrant.smooth_calibration_error):
        assert measure(weighed) == pytest.approx(measure(plain), rel=1e-9)


@pytest.mark.parametrize("weight", EQUAL)
def test_equal_weights_change_no_test_and_no_comparison(weight: float) -> None:
    probs, targets = one_event().values()
    w = np.full(600, weight)
    for test in (cox_test, ks_test, spiegelhalter_test, t_cal_test):
        assert test(probs, targets, weights=w).p_value == pytest.approx(test(probs, targets).p_value, rel=1e-9)
    found, expected = (hosmer_lemeshow_test(probs, targets, sample="external", weights=x) for x in (w, None))
    assert found.p_value == pytest.approx(expected.p_value, rel=1e-9)
    pairs = [compare(probs, probs**1.2, targets, weights=x).pairs[0] for x in (w, None)]
    for name in pairs[0].estimates:
        values = [[pair[name].value, pair[name].low, pair[name].high, pair[name].p_value] for pair in pairs]
        assert values[0] == pytest.approx(values[1], rel=1e-9, abs=1e-12, nan_ok=True), name


@given(exponent=st.integers(-900, 900), seed=st.integers(0, 99))
def test_a_power_of_two_changes_nothing(exponent: int, seed: int) -> None:
    """Fractions as weights; as the units differ by a power of 2, even the last bits are the same."""
    data, rng = one_event(200, seed), np.random.default_rng(seed)
    weights = rng.random(200) + 0.1
    found, expected = (
        numbers(evaluate(**data, weights=w, n_resamples=0)) for w in (np.ldexp(weights, exponent), weights)
    )
    alike(found, expected)


def test_integer_weights_count_copies_up_to_two_to_the_53() -> None:
    assert integer_weights(np.array([2.0**52, 2.0**52]))
    assert not integer_weights(np.array([2.0**52, 2.0**52, 2.0]))
    assert not integer_weights(np.array([0.5]))
    np.testing.assert_array_equal(in_units(np.array([0.0, 1e100, 1e100])), [0, 1, 1])
    np.testing.assert_array_equal(in_units(np.array([1e-9, 0.5])), [1e-9, 0.5])
    assert in_units(np.array([2.0**300, 2.0**299])).tolist() == [0.5, 0.25]
    assert unit_of(4, 1.2, 0.36) == (pytest.approx(0.3), True)
    assert unit_of(4, 1.2, 0.37) == (1.0, False)
    probs, targets = one_event().values()
    big = np.random.default_rng(3).integers(1, 9, 600) * 2.0**60
    found, expected = (numbers(evaluate(probs, targets, weights=w, n_resamples=0)) for w in (big, big / 2.0**60 + 0.0))
    assert found["ece"][0] == pytest.approx(expected["ece"][0])
    assert found["ece"][2] > expected["ece"][2]  # integers that small are copies, and tell more


def test_heavy_rows_of_one_outcome_are_not_certain_of_it() -> None:
    # 1,300 rows of weight 1 with rate .8, and 20 of weight 30.5 that all have outcome 1.
    counts, squares = 1300 + 20 * 30.5, np.array([260.0, 1040 + 20 * 30.5**2])
    rate = (1040 + 20 * 30.5) / counts
    assert share_rows(rate, counts, squares) > 4 * counts**2 / squares.sum()
    assert rate_rows(rate, counts, squares) == counts**2 / squares.sum()  # Kish
    probs, targets = np.full(1320, 0.85), np.r_[np.zeros(260), np.ones(1060)].astype(int)
    weights = np.r_[np.ones(1300), np.full(20, 30.5)]
    n, k = counts**2 / squares.sum(), rate * counts**2 / squares.sum()
    ends = betaincinv(k, n - k + 1, 0.025), betaincinv(k + 1, n - k, 0.975)  # Clopper and Pearson
    settings: dict[str, Any] = {"weights": weights, "n_bins": 1, "n_resamples": 0}
    diagram = evaluate(probs, targets, **settings).diagram
    assert (diagram.lows[0], diagram.highs[0]) == pytest.approx(ends, rel=1e-9)
    classes = evaluate(np.stack([1 - probs, probs], axis=1), targets, **settings).classwise
    assert (classes.lows[1, 0], classes.highs[1, 0]) == pytest.approx(ends, rel=1e-9)


def test_the_rows_of_a_share_that_is_certain_up_to_rounding() -> None:
    """46 rows of one outcome, and a share of them that is 1 up to rounding, once counted as 1e17 rows."""
    rows = share_rows(
        np.array([1.0 - 2e-16, 1e-16, 0.5]), np.full(3, 46.0), np.array([[7e-15, 46.0, 23.0], [46.0, 0, 23]])
    )
    np.testing.assert_allclose(rows, 46, rtol=1e-12)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("weight", [1e-61, 1e61, 1e-200, 1e300])
def test_a_sketch_and_a_table_refuse_weights_that_they_cannot_add_up(weight: float) -> None:
    probs, targets = one_event().values()
    weights = np.full(600, 0.5)
    weights[7] = weight
    sketch = sketch_of(probs, targets)
    before = sketch.to_bytes()
    message = (
        r"weights: expected 0, or weights from 1e-60 to 1e\+60, so that data sets can be merged, "
        r"got .* at row 7;"
    )
    for call in (
        lambda: sketch.update(probs, targets, weights=weights),
        lambda: ReliabilityTable.from_scores(probs, targets, weights=weights),
        lambda: ReliabilityTable.from_predictions(probs, targets, weights=weights),
    ):
        with pytest.raises(InputError, match=message) as caught:
            call()
        assert caught.value.row == 7
    assert sketch.to_bytes() == before
    frame = pd.DataFrame({"p": probs, "y": targets, "w": weights})
    with pytest.raises(InputError, match=r"weight: expected 0, or numbers from 1e-60 to 1e\+60, got .*; divide"):
        frames.sketch(frame, score="p", outcome="y", weight="w")


def test_weights_that_are_lost_next_to_others_are_refused() -> None:
    probs, targets = one_event().values()
    weights = np.full(600, 1.5)
    weights[9] = 1e-70
    with pytest.raises(
        InputError, match=r"weights: expected weights of at least 1e-60 times the largest weight, got 1e-70 at row 9"
    ):
        evaluate(probs, targets, weights=weights)
    weights[9] = 1e-59
    found = numbers(evaluate(probs, targets, weights=weights, n_resamples=20))
    weights[9] = 0
    expected = numbers(evaluate(probs, targets, weights=weights, n_resamples=20))
    assert found["ece"][0] == pytest.approx(expected["ece"][0])
    assert found["brier"] == pytest.approx(expected["brier"], nan_ok=True)


def test_the_bounds_of_weights_hold_every_sum() -> None:
    """The sum of w^4 of 2^63 rows, and the square of that of w^2, are normal numbers."""
    for weight, n in ((LEAST_WEIGHT, 1), (MOST_WEIGHT, 2**63)):
        for number in (n * weight**4, (n * weight**2) ** 2, n * weight**2):
            assert np.finfo(float).tiny * 1e50 < number < np.finfo(float).max / 1e20


@pytest.mark.parametrize("apart", [1e-60, 1e-100])
def test_weights_at_both_bounds_can_be_judged(apart: float) -> None:
    data, sketch = one_event(), CalibrationSketch()
    sketch.update(**data, weights=np.full(600, 1e60))
    sketch.update(**one_event(600, 4), weights=np.full(600, max(1e60 * apart, 1e-60)))
    plain = sketch_of(**data)
    found, expected = evaluate(sketch, n_resamples=20), evaluate(plain, n_resamples=20)
    assert found["ece"].value == pytest.approx(expected["ece"].value)
    assert found["brier"].high == pytest.approx(expected["brier"].high)


# ---------------------------------------------------------------- many rows


@pytest.mark.slow
def test_no_sketch_holds_more_rows_than_its_counts_can() -> None:
    sketch = sketch_of([0.3, 0.3, 0.7], [0, 1, 1], groups=["a", "a", "b"])
    for _ in range(61):
        sketch.merge(sketch)
    assert sketch.n == 3 * 2**61
    assert evaluate(sketch, n_resamples=20)["ece"].value == pytest.approx(7 / 30)
    assert CalibrationSketch.from_bytes(sketch.to_bytes()) == sketch
    before = sketch.to_bytes()
    message = (
        r"sketch: expected at most 2\^63 - 1 rows in total, got 6,917,529,027,641,081,856 rows and "
        "6,917,529,027,641,081,856 rows"
    )
    with pytest.raises(InputError, match=message):
        sketch.merge(sketch)
    with pytest.raises(InputError, match="at most 2"):
        _ = sketch + sketch
    assert sketch.to_bytes() == before
    sketch.update([0.3], [0], groups=["c"])
    assert sketch.n == 3 * 2**61 + 1


def test_no_table_holds_more_rows_than_its_counts_can() -> None:
    table = ReliabilityTable.from_scores([0.3, 0.3, 0.7], [0, 1, 1])
    for _ in range(61):
        table = table + table
    assert evaluate(table, n_resamples=20)["ece"].value == pytest.approx(7 / 30)
    with pytest.raises(InputError, match=r"tables: expected at most 2\^63 - 1 rows in total"):
        _ = table + table


# ---------------------------------------------------------------- what whole weights are


def survey(n: int = 1_000, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return calibrated scores, outcomes, and whole sampling weights that differ by a factor of a thousand."""
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    return p, (rng.random(n) < p).astype(int), np.rint(np.exp(rng.normal(5, 1, n)))


def numbers_of(report: calibrant.Report) -> dict[str, list[float]]:
    return {name: [one.value, one.low, one.high, one.p_value] for name, one in report.items()}


def cautioned(result: Any) -> bool:
    return any("the weights are whole numbers" in sentence for sentence in result.verdict())


@pytest.mark.parametrize("door", ["rows", "groups", "clusters", "classes", "sketch", "batches", "frame"])
def test_whole_sampling_weights_are_weights_that_are_not_whole(door: str) -> None:
    """Whatever the door, as weights that differ from them by a factor, 1 / 7: to rounding and 1 - 2^-53."""
    p, y, w = survey(300)
    options: dict[str, Any] = {"groups": np.arange(300) % 3} if door == "groups" else {}
    if door == "clusters":
        options = {"clusters": np.arange(300) // 3}

    def report(weights: np.ndarray, said: Any) -> calibrant.Report:
        if door in ("sketch", "batches"):
            sketch = CalibrationSketch()
            for part in np.array_split(np.arange(300), 1 if door == "sketch" else 7):
                sketch.update(p[part], y[part], weights=weights[part], weights_are=said)
            return evaluate(sketch, n_resamples=0)
        if door == "frame":
            frame = pd.DataFrame({"p": p, "y": y, "w": weights})
            sketch = frames.sketch(frame, score="p", outcome="y", weight="w", weights_are=said)
            return evaluate(sketch, n_resamples=0)
        probs = np.stack([1 - p, p * 0.6, p * 0.4], axis=1) if door == "classes" else p
        return evaluate(probs, y, weights=weights, weights_are=said, n_resamples=0, **options)

    whole, fractions = report(w, "sampling"), report(w / 7, None)
    for one, other in ((whole, fractions), *zip(whole.groups, fractions.groups, strict=True)):
        named = [numbers_of(r if isinstance(r, calibrant.Report) else r.report) for r in (one, other)]
        for name, values in named[0].items():
            np.testing.assert_allclose(values, named[1][name], rtol=1e-9, atol=1e-12, err_msg=name)
    assert not cautioned(whole)
    assert cautioned(report(w, None))


@pytest.mark.parametrize("weights", [np.full(300, 12.0), np.ones(300)])
def test_equal_sampling_weights_are_no_weights(weights: np.ndarray) -> None:
    p, y, _ = survey(300)
    same = evaluate(p, y, weights=weights, weights_are="sampling", n_resamples=0)
    assert numbers_of(same) == numbers_of(evaluate(p, y, n_resamples=0))


def test_frequencies_are_the_default() -> None:
    p, y, w = survey(300)
    said, plain = (evaluate(p, y, weights=w, weights_are=k, n_resamples=0) for k in ("frequency", None))
    assert numbers_of(said) == numbers_of(plain)
    assert cautioned(plain)
    assert not cautioned(said)


@pytest.mark.parametrize(
    ("weights", "doubtful"),
    [
        (None, False),
        (np.full(100, 50.0), False),  # equal: numbers of equal rows
        (np.tile([1.0, 2.0], 50), False),  # 1.5 times the rows
        (np.tile([1.0, 9.0], 50), True),
        (np.tile([1.5, 90.0], 50), False),  # not whole: never frequencies
        (np.tile([0.0, 9.0], 50), False),  # rows of weight 0 are none
    ],
)
def test_a_caution_where_whole_weights_may_be_sampling_weights(weights: np.ndarray | None, doubtful: bool) -> None:
    p, y, _ = survey(100)
    sketches = CalibrationSketch(), CalibrationSketch()
    for sketch, probs in zip(sketches, (p, p**2), strict=True):
        sketch.update(probs, y, weights=weights)
    for result in (
        evaluate(p, y, weights=weights, n_resamples=0),
        evaluate(np.stack([1 - p, p], axis=1), y, weights=weights, n_resamples=0, notion="classwise"),
        evaluate(sketches[0], n_resamples=0),
        compare(p, p**2, y, weights=weights),
        compare(p, p**2, y, weights=weights, clusters=np.arange(100) // 2),
        compare(*sketches),
    ):
        assert cautioned(result) is doubtful
    assert not cautioned(compare(*sketches, weights_are="frequency"))
    assert not cautioned(evaluate(sketches[0], n_resamples=0, weights_are="frequency"))


def test_models_are_compared_by_sampling_weights() -> None:
    p, y, w = survey(300)
    first, second = (
        compare(p, p**1.3, y, weights=weights, weights_are=said).pairs[0]
        for weights, said in ((w, "sampling"), (w / 7, None))
    )
    for name, estimate in first.estimates.items():
        other = second[name]
        assert (estimate.low, estimate.high) == pytest.approx((other.low, other.high), rel=1e-9), name


def test_wrong_things_said_of_weights() -> None:
    p, y, w = survey(20)
    bad = functools.partial(pytest.raises, InputError)
    with bad(match=r"weights: expected frequencies, which are whole numbers .*, got [\d.]+ at row \d"):
        evaluate(p, y, weights=w / 7, weights_are="frequency")
    with bad(match="weights_are: expected one of 'frequency', 'sampling', got 'counts'"):
        evaluate(p, y, weights=w, weights_are="counts")  # type: ignore[arg-type]
    with bad(match="weights_are: expected weights together with it, got none; name the weights too, or leave it out"):
        compare(p, p, y, weights_are="sampling")
    sketch = sketch_of(p, y, weights=w)
    with bad(match="make the sketch with weights_are='sampling'"):
        evaluate(sketch, weights_are="sampling")
    frame = pd.DataFrame({"p": p, "y": y, "w": w / 7})
    with bad(match="weight: expected whole numbers, because weights_are='frequency', got fractions"):
        frames.sketch(frame, score="p", outcome="y", weight="w", weights_are="frequency")


def test_what_is_said_of_equal_weights_of_a_sketch() -> None:
    p, y, _ = survey(50)
    for weights in (np.ones(50), np.full(50, 3.0)):
        sketch = sketch_of(p, y, weights=weights, weights_are="sampling")
        same = evaluate(sketch, weights_are="sampling", n_resamples=0)
        assert same["brier"].high == pytest.approx(evaluate(p, y, n_resamples=0)["brier"].high, rel=1e-12)


@pytest.mark.parametrize("command", ["report", "compare"])
@pytest.mark.parametrize("streamed", [False, True])
def test_the_command_takes_what_weights_are(
    command: str, streamed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The remedy that the caution prints, typed."""
    p, y, w = survey(200)
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"a": p, "b": p**1.3, "won": y, "w": w.astype(int)}).to_csv("rows.csv", index=False)
    scores = ["--score", "a"] if command == "report" else ["--scores", "a,b"]
    if command == "compare" and streamed:
        return
    arguments = [command, "rows.csv", *scores, "--outcome", "won", "--weight", "w"]
    if command == "report":
        arguments += ["--n-resamples", "0", *(["--sketch", "rows.cal"] if streamed else [])]

    def printed(*more: str) -> str:
        out, _ = succeed(*arguments, *more)
        return " ".join(out.split())

    plain = printed()
    assert 'pass weights_are="sampling" (--weights-are sampling)' in plain
    for said in ("sampling", "frequency"):
        assert "whole numbers" not in printed("--weights-are", said)
    assert printed("--weights-are", "sampling") != plain
    without = [argument for argument in arguments if argument not in ("--weight", "w")]
    status, _, err = run(*without, "--weights-are", "sampling")
    assert status != 0
    assert "--weights-are" in err
