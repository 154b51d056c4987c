"""Outcomes and weights at a horizon: against Kaplan-Meier, fractions by hand, and a known risk."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import calibrant
from calibrant import censoring_weights
from calibrant.errors import InputError

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "censoring.json").read_text("utf-8"))["sets"]

#: Times with ties, and whether the event was observed.
ROWS = st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=25)


def kaplan_meier(rows: list[tuple[int, bool]], horizon: float) -> Fraction:
    """The event-free probability at a horizon, in fractions, from its definition."""
    free = Fraction(1)
    for time in sorted({time for time, _ in rows}):
        if time <= horizon:
            at_risk = sum(other >= time for other, _ in rows)
            free *= 1 - Fraction(sum(other == time and event for other, event in rows), at_risk)
    return free


def incidence(rows: list[tuple[int, int]], horizon: float) -> Fraction:
    """The cumulative incidence of events of kind 1 at a horizon, with competing events (Aalen and Johansen)."""
    risk = Fraction(0)
    for time in sorted({time for time, _ in rows}):
        if time <= horizon:
            at_risk = sum(other >= time for other, _ in rows)
            free = kaplan_meier([(other, kind > 0) for other, kind in rows], time - 0.5)
            risk += free * Fraction(sum(other == time and kind == 1 for other, kind in rows), at_risk)
    return risk


@pytest.mark.parametrize("name", GOLDEN)
def test_the_weighted_risk_is_that_of_lifelines(name: str) -> None:
    data = GOLDEN[name]
    groups = np.array(data["groups"])
    for k, horizon in enumerate(data["horizons"]):
        outcomes, weights = censoring_weights(data["times"], data["events"], horizon=horizon)
        assert np.average(outcomes, weights=weights) == pytest.approx(data["risks"][k], abs=1e-12)
        outcomes, weights = censoring_weights(data["times"], data["events"], horizon=horizon, groups=groups)
        for group, risks in data["risks_of_groups"].items():
            own = groups.astype(str) == group
            assert np.average(outcomes[own], weights=weights[own]) == pytest.approx(risks[k], abs=1e-12)
            assert weights[own].sum() == pytest.approx(own.sum(), rel=1e-12)


def test_ties_by_hand() -> None:
    # At 2, one of 5 rows at risk has its event. Then two of the 4 left are censored: G is 1/2 from there on. The event
    # at 5 and the rows at 7 count twice. At 5, the row censored there is known to have no event up to 5.
    times, events = [1, 2, 2, 2, 5, 7], [1, 1, 0, 0, 1, 0]
    outcomes, weights = censoring_weights(times, events, horizon=6)
    assert outcomes.tolist() == [1, 1, 0, 0, 1, 0]
    assert weights.tolist() == [1, 1, 0, 0, 2, 2]
    outcomes, weights = censoring_weights(times, events, horizon=2)
    assert outcomes.tolist() == [1, 1, 0, 0, 0, 0]
    assert weights.tolist() == [1] * 6  # censored at the horizon, so followed to it
    assert censoring_weights(times, events, horizon=1.5)[1].tolist() == [1] * 6
    assert censoring_weights([30, 30, 30], [0, 1, 0], horizon=30)[0].tolist() == [
        0,
        1,
        0,
    ]  # all are censored at the horizon


@given(rows=ROWS, horizon=st.sampled_from([0.5, 1, 2, 3.5, 5, 6]))
def test_weights_add_up_and_give_the_kaplan_meier_risk(rows: list[tuple[int, bool]], horizon: float) -> None:
    last = max(rows)[0]
    followed = any(time >= horizon for time, _ in rows)
    assume(followed)
    outcomes, weights = censoring_weights(*zip(*rows, strict=True), horizon=horizon)
    assert weights.sum() == pytest.approx(len(rows), rel=1e-12)
    assert outcomes @ weights == pytest.approx(float(1 - kaplan_meier(rows, horizon)) * len(rows), abs=1e-10)
    known = [event or time >= horizon for time, event in rows]
    assert (weights > 0).tolist() == known
    assert outcomes.tolist() == [int(event and time <= horizon) for time, event in rows]
    assert last >= horizon


@given(rows=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2)), min_size=1, max_size=25))
def test_competing_events_give_the_cumulative_incidence(rows: list[tuple[int, int]]) -> None:
    assume(any(time >= 4 for time, _ in rows))
    times, kinds = map(np.array, zip(*rows, strict=True))
    outcomes, weights = censoring_weights(times, kinds > 0, horizon=4)
    risk = np.average(outcomes * (kinds == 1), weights=weights)
    assert risk == pytest.approx(float(incidence(rows, 4)), abs=1e-12)


@given(rows=ROWS, seed=st.integers(0, 9))
def test_groups_are_separate_data_sets_in_any_order(rows: list[tuple[int, bool]], seed: int) -> None:
    rows = [*rows, (9, False), (9, True)]
    order = np.random.default_rng(seed).permutation(len(rows))
    times, events = (np.array(column)[order] for column in zip(*rows, strict=True))
    groups = np.where(order % 2 == 0, "even", "odd")
    outcomes, weights = censoring_weights(times, events, horizon=4, groups=groups)
    for name in ("even", "odd"):
        own = groups == name
        alone = censoring_weights(times[own], events[own], horizon=4)
        assert outcomes[own].tolist() == alone[0].tolist()
        assert weights[own].tolist() == alone[1].tolist()


def test_the_times_keep_their_precision() -> None:
    times = np.array([0.1, 0.2, 0.3], np.float32)  # float32(0.1) is above 0.1
    assert censoring_weights(times, [1, 1, 0], horizon=0.1)[0].tolist() == [1, 0, 0]
    column = pd.Series([1, 2, 3], index=[5, 6, 7])
    assert censoring_weights(column, column > 1, horizon=np.int64(2))[0].tolist() == [0, 1, 0]


def test_a_group_may_end_with_events_before_the_horizon() -> None:
    outcomes, weights = censoring_weights([1, 2, 3, 9, 9], [0, 1, 1, 0, 1], horizon=5, groups=list("aaabb"))
    assert outcomes.tolist() == [0, 1, 1, 0, 0]
    assert weights.tolist() == [0, 1.5, 1.5, 1, 1]


CASES: dict[str, tuple[tuple[Any, ...], str]] = {
    "a negative time": (
        ([1, -2], [0, 1], 1),
        "times: expected finite numbers of 0 or more, got -2 at row 1; correct the number, or leave the row out",
    ),
    "an infinite time": (([1, np.inf], [0, 1], 1), "got inf at row 1"),
    "a missing time": (([1, np.nan], [0, 1], 1), "got nan at row 1"),
    "no rows": (([], [], 1), "times: expected one number per row, got shape (0,)"),
    "one number": ((1.0, [1], 1), "times: expected one number per row, got shape ()"),
    "two columns": (([[1, 2], [3, 4]], [1, 0], 1), "times: expected one number per row, got shape (2, 2)"),
    "text": ((["1 year", "2 years"], [1, 0], 1), "times: expected real numbers, got strings such as '1 year'"),
    "lengths": (([1, 2], [1], 1), "events: expected 2 entries, one for each time, got 1; pass one entry per row"),
    "swapped": (
        ([0, 1, 1], [2.5, 3.5, 1.5], 1),
        "times: expected times first and events second, got only 0 and 1 as times; call censoring_weights(times, "
        "events, horizon=...)",
    ),
    "swapped booleans": (([False, True], [1, 0], 1), "got only 0 and 1 as times"),
    "the codes 1 and 2": (
        ([1, 2, 3], [1, 2, 2], 1),
        "events: expected 0 (censored) or 1 (event), got 2 at row 1; the values are 1 and 2: pass np.asarray(events) "
        "== 2 if 2 is an event",
    ),
    "competing events": (
        ([1, 2, 3], [0, 1, 2], 1),
        "events: expected 0 (censored) or 1 (event), got 2 at row 2; for competing events, see docs/censoring.md",
    ),
    "a fraction": (([1, 2, 3], [0, 1, 0.5], 1), "got 0.5 at row 2; correct the number, or leave the row out"),
    "a missing event": (([1, 2, 3], [0, 1, np.nan], 1), "got nan at row 2; correct the number, or leave the row out"),
    "horizon 0": (([1, 2], [0, 1], 0), "horizon: expected a number above 0, got 0"),
    "horizon NaN": (([1, 2], [0, 1], np.nan), "horizon: expected a number above 0, got nan"),
    "a horizon as text": (([1, 2], [0, 1], "1"), "horizon: expected a number above 0, got '1'"),
    "a horizon in days": (
        ([1.5, 2.25], [0, 1], 365),
        "horizon: expected at most the largest time, 2.25, got 365; check the unit of times, or pass an earlier "
        "horizon",
    ),
    "a group that is not followed": (
        ([1, 2, 9], [1, 0, 1], 5, ["a", "a", "b"]),
        "times: expected a row of group 'a' that is followed to the horizon of 5, got a largest time of 2, which is a "
        "censoring; pass an earlier horizon, or larger groups",
    ),
    "few groups": (([1, 2], [0, 1], 1, ["a"]), "groups: expected 2 names, one for each prediction, got shape (1,)"),
    "a missing group": (([1, 2], [0, 1], 1, ["a", None]), "groups: expected a name in every row"),
    "another index": (
        (pd.Series([1, 2]), pd.Series([0, 1], index=[1, 0]), 1),
        "events: expected the same index as the columns before it",
    ),
    "another index of groups": (
        (pd.Series([1, 2]), [0, 1], 1, pd.Series(["a", "b"], index=[1, 0])),
        "groups: expected the same index as the columns before it",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_refused(case: str) -> None:
    arguments, message = CASES[case]
    with pytest.raises(InputError) as caught:
        censoring_weights(*arguments[:2], **dict(zip(("horizon", "groups"), arguments[2:], strict=False)))
    assert message in str(caught.value)


def censored(rng: np.random.Generator, n: int) -> tuple[np.ndarray, ...]:
    """Draw (risk at time 1, time, event, group); the censoring depends on the group, and so does the risk."""
    group = rng.integers(0, 2, n)
    rates = np.exp(rng.normal(-1 + group, 0.5))
    events, censorings = rng.exponential(1 / rates), rng.exponential(np.where(group == 1, 0.6, 8.0))
    return -np.expm1(-rates), np.minimum(events, censorings), events <= censorings, group


def test_groups_remove_the_bias_of_censoring_that_depends_on_them() -> None:
    """The risks are true. The bounds are 4 standard errors of the mean of 100,000 weighted outcomes."""
    risks, times, events, groups = censored(np.random.default_rng(0), 100_000)
    differences = []
    for named in (groups, None):
        outcomes, weights = censoring_weights(times, events, horizon=1, groups=named)
        residuals = weights * (outcomes - risks)
        differences.append(residuals.mean() / (residuals.std() / np.sqrt(len(residuals))))
    assert abs(differences[0]) < 4 < abs(differences[1])


@pytest.mark.slow
def test_intervals_of_a_calibrated_model_cover_the_truth() -> None:
    """The mean difference of true risks is 0, and the slope 1. With 400 samples, 0.92 is 2.8 errors below 0.95."""
    rng, covered = np.random.default_rng(0), np.zeros(2)
    for _ in range(400):
        risks, times, events, groups = censored(rng, 500)
        outcomes, weights = censoring_weights(times, events, horizon=1, groups=groups)
        report = calibrant.evaluate(
            risks,
            outcomes,
            weights=weights,
            weights_are="sampling",
            measures=["mean_gap", "calibration_slope"],
            n_resamples=0,
        )
        estimates = (report["mean_gap"], 0), (report["calibration_slope"], 1)
        covered += [one.low <= true <= one.high for one, true in estimates]
    assert (covered / 400 >= 0.92).all(), covered / 400
