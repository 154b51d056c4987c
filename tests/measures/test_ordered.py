"""Ordered levels in reports: ranked probability score, accuracy within one level, and the events "at least k"."""

from __future__ import annotations

import json
import math
import pickle
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant import CalibrationSketch, ReliabilityTable, evaluate, ranked_probability_score
from calibrant.errors import InputError
from calibrant.measures import Event, Inference
from calibrant.measures.listed import OF_LEVELS, of_profile
from calibrant.measures.profiles import ALL, CLINICAL
from calibrant.report.evaluated_data import of_arguments
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import Clustered
from calibrant.statistics.group_tests import holm
from calibrant.statistics.resampling import Resampling
from tests.measures.test_class_scores import naive_rps

#: Sums of at most 2,000 numbers of at most 25 in another order, relative to their size.
CLOSE = 1e-12

LEVELS = ("none", "mild", "moderate", "severe")


def drawn(n: int = 600, n_levels: int = 4, *, seed: int = 0, tilt: float = 1.5) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities of levels, some of them 0 or 1, and levels that are drawn from sharper ones."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(n_levels, 0.8), n)
    probs[: n // 20] = np.eye(n_levels)[rng.integers(0, n_levels, n // 20)]
    true = probs**tilt / (probs**tilt).sum(axis=1, keepdims=True)
    return probs, (true.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, n_levels - 1)


def report_on(probs: Any, targets: Any, **options: Any) -> calibrant.Report:
    report = evaluate(probs, targets, **{"n_resamples": 99, "ordered": True, **options})
    assert isinstance(report, calibrant.Report)
    return report


# ---------------------------------------------------------------- the values


@pytest.mark.parametrize("n_levels", [2, 3, 7])
def test_the_values_are_those_of_loops(n_levels: int) -> None:
    probs, targets = drawn(200, n_levels)
    report = report_on(probs, targets, level=None)
    assert report["rps"].value == pytest.approx(naive_rps(probs, targets), rel=CLOSE)
    near = [abs(max(range(n_levels), key=p.__getitem__) - y) <= 1 for p, y in zip(probs.tolist(), targets, strict=True)]
    assert report["within_one"].value == pytest.approx(sum(near) / 200, rel=CLOSE)
    assert report["rps"].value == ranked_probability_score(probs, targets)
    assert math.isnan(report["rps"].low)


def test_ties_go_to_the_lower_level() -> None:
    """As for the accuracy: the row (1/2, 0, 1/2) predicts the lowest level, which is two from the highest."""
    report = report_on([[0.5, 0.0, 0.5]] * 4, [0, 1, 2, 2], level=None)
    assert (report["accuracy"].value, report["within_one"].value) == (0.25, 0.5)


@pytest.mark.parametrize("kind", ["float32", "logits", "weights", "ignore_index", "one_hot", "rows of images"])
def test_every_kind_of_rows_is_read(kind: str) -> None:
    probs, targets = drawn(80, seed=3)
    function: dict[str, Any] = {}
    shape: tuple[Any, Any] = (probs, targets)
    expected = naive_rps(probs, targets)
    if kind == "float32":
        single = probs.astype(np.float32)
        shape, expected = (single, targets), naive_rps(single.astype(float), targets)
    elif kind == "logits":
        with np.errstate(divide="ignore"):
            shape, function = (np.log(probs) + 5.0, targets), {"logits": True}
    elif kind == "weights":
        weights = np.random.default_rng(1).uniform(0.5, 3, 80)
        each = [naive_rps(probs[i : i + 1], targets[i : i + 1]) for i in range(80)]
        function, expected = {"weights": weights}, float(np.average(each, weights=weights))
    elif kind == "ignore_index":
        shape, function = (probs, np.where(np.arange(80) < 20, -7, targets)), {"ignore_index": -7}
        probs[3] = np.nan  # a row that is not evaluated may hold anything
        expected = naive_rps(probs[20:], targets[20:])
    elif kind == "one_hot":
        shape = probs, np.eye(4)[targets]
    else:
        shape = probs.reshape(20, 4, 4).transpose(0, 2, 1), targets.reshape(20, 4)
        function = {"clusters": False}
    report = report_on(*shape, n_resamples=0, **function)
    assert report["rps"].value == pytest.approx(expected, rel=1e-9)
    function.pop("clusters", None)
    assert report["rps"].value == ranked_probability_score(*shape, **function)
    assert list(report.at_least) == ["1", "2", "3"]


def test_the_order_of_the_rows_plays_no_part() -> None:
    """Bit for bit: values, intervals, and the tests of the events."""
    probs, targets = drawn(500)
    weights, clusters = np.random.default_rng(2).uniform(0.5, 2, 500), np.arange(500) // 5
    order = np.random.default_rng(1).permutation(500)
    for options in ({}, {"weights": weights}, {"clusters": clusters}):
        again = {name: value[order] for name, value in options.items()}
        one, other = report_on(probs, targets, **options), report_on(probs[order], targets[order], **again)
        for name in ("rps", "within_one"):
            assert repr(one[name]) == repr(other[name])
        assert [event.to_dict() for event in one.at_least.values()] == [
            event.to_dict() for event in other.at_least.values()
        ]


def test_the_reverse_order_of_the_levels_has_the_same_score() -> None:
    probs, targets = drawn(300)
    one, other = report_on(probs, targets), report_on(probs[:, ::-1], 3 - targets)
    for name in ("value", "low", "high"):
        assert getattr(one["rps"], name) == pytest.approx(getattr(other["rps"], name), rel=CLOSE)


# ---------------------------------------------------------------- the intervals


def naive_interval(probs: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Return the normal interval of the mean score, the variance blended with that of calibrated levels by loops."""
    squares, width = weights**2, probs.shape[1]
    n = weights.sum() ** 2 / squares.sum()
    possible = [[naive_rps([p], [k]) for k in range(width)] for p in probs]
    scores = np.array([row[y] for row, y in zip(possible, targets, strict=True)])
    mean = np.average(scores, weights=weights)
    around = [sum(p[k] * (row[k] - mean) ** 2 for k in range(width)) for p, row in zip(probs, possible, strict=True)]
    seen, implied = (np.average(x, weights=squares) for x in ((scores - mean) ** 2, around))
    top, right = probs.max(axis=1), probs.argmax(axis=1) == targets
    unlikely = (np.minimum(top, 1 - top), np.where(top > 0.5, ~right, right))
    k = 2 * n * max(np.average(x, weights=weights) for x in unlikely)
    half = 1.959963984540054 * math.sqrt(max(seen, (k * seen + 5 * implied) / (k + 5)) / (n - 1))
    return mean - half, mean + half


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_interval_is_that_of_a_mean(seed: int, weighted: bool) -> None:
    probs, targets = drawn(120, seed=seed)
    weights = np.random.default_rng(seed).uniform(0.3, 3, 120) if weighted else np.ones(120)
    rps = report_on(probs, targets, n_resamples=0, **({"weights": weights} if weighted else {}))["rps"]
    assert (rps.low, rps.high) == pytest.approx(naive_interval(probs, targets, weights), rel=1e-9)


def test_the_share_of_weighted_rows_has_an_interval_of_equal_rows() -> None:
    """As many equal rows as have the variance of the weighted share, r (1 - r) / n."""
    probs, targets = drawn(150)
    weights = np.random.default_rng(0).uniform(0.2, 4, 150)
    share = report_on(probs, targets, weights=weights, n_resamples=0)["within_one"]
    near = np.abs(probs.argmax(axis=1) - targets) <= 1
    r = np.average(near, weights=weights)
    n, z = r * (1 - r) * weights.sum() ** 2 / np.sum(weights**2 * (near - r) ** 2), 1.959963984540054
    middle, half = (r + z * z / (2 * n)), z * math.sqrt(r * (1 - r) / n + z * z / (4 * n * n))
    ends = ((middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n))
    assert (share.low, share.high) == pytest.approx(ends, rel=1e-9)


def test_the_interval_of_the_share_is_wilsons() -> None:
    """Three of four rows within one level, in 40 rows: Wilson's interval by hand."""
    probs = np.tile([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.8, 0.1, 0.1], [0.1, 0.1, 0.8]], (10, 1))
    share = report_on(probs, np.tile([1, 0, 2, 1], 10), n_resamples=0)["within_one"]
    z, n, p = 1.959963984540054, 40, 0.75
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    assert (share.value, share.low, share.high) == pytest.approx((p, middle - half, middle + half), rel=1e-12)


@pytest.mark.parametrize("name", ["rps", "within_one"])
def test_two_levels_are_one_event(name: str) -> None:
    """The score of two levels is the Brier score of the event "the higher level", with its interval."""
    probs, targets = drawn(300, 2)
    report = report_on(probs, targets, n_resamples=0)
    event = evaluate(probs[:, 1], targets, n_resamples=0)
    if name == "within_one":
        assert (report[name].value, report[name].high) == (1.0, 1.0)
        return
    assert report["rps"].value == pytest.approx(event["brier"].value, rel=CLOSE)
    assert (report["rps"].low, report["rps"].high) == pytest.approx((event["brier"].low, event["brier"].high), rel=1e-6)


def test_weight_2_is_the_row_twice() -> None:
    probs, targets = drawn(200)
    weights = np.random.default_rng(2).integers(0, 4, 200)
    one = report_on(probs, targets, weights=weights, weights_are="frequency", n_resamples=0)
    two = report_on(np.repeat(probs, weights, axis=0), np.repeat(targets, weights), n_resamples=0)
    for name in ("rps", "within_one"):
        for end in ("value", "low", "high"):
            assert getattr(one[name], end) == pytest.approx(getattr(two[name], end), rel=1e-9)
    for level, event in one.at_least.items():
        other = two.at_least[level]
        assert (event.ece.value, event.p_value) == pytest.approx((other.ece.value, other.p_value), rel=1e-9)


@pytest.mark.parametrize("name", ["rps", "within_one"])
def test_copies_of_rows_in_one_cluster_tell_nothing_new(name: str) -> None:
    """Five copies of each row, each five a cluster: about the interval of the rows alone, and a fifth as many rows."""
    probs, targets = drawn(400)
    alone = report_on(probs, targets, n_resamples=0)[name]
    copies = report_on(
        np.repeat(probs, 5, axis=0), np.repeat(targets, 5), clusters=np.repeat(np.arange(400), 5), n_resamples=0
    )[name]
    assert copies.value == pytest.approx(alone.value, rel=1e-12)
    assert copies.high - copies.low == pytest.approx(alone.high - alone.low, rel=0.05)
    assert copies.details["effective_rows"] == pytest.approx(400, rel=0.15)
    assert copies.method.endswith("; by cluster")
    lone = report_on(probs, targets, clusters=np.arange(400), n_resamples=0)[name]
    assert (lone.low, lone.high) == (alone.low, alone.high)


def test_few_and_extreme_rows_have_ends_in_the_range() -> None:
    probs = np.array([[0.9, 0.05, 0.05]] * 12)
    report = report_on(probs, np.zeros(12, int), n_resamples=0)  # all right: wrong answers were not seen
    rps, share = report["rps"], report["within_one"]
    assert 0 <= rps.low <= rps.value < rps.high
    assert (
        "interval widened, because one outcome did not occur in these rows but its true rate may be above 0"
        in rps.method
    )
    assert (share.value, share.high) == (1.0, 1.0)
    assert share.low < 0.8
    one = report_on(probs[:1], [2], n_resamples=0)
    assert one["rps"].value == pytest.approx(0.81 + 0.9025)
    assert math.isnan(one["rps"].low) or one["rps"].low >= 0
    certain = report_on(np.eye(3)[[0, 1, 2, 0]], [0, 1, 2, 2], n_resamples=0)
    assert (certain["rps"].value, certain["within_one"].value) == (0.5, 0.75)


def coverage(n: int, n_levels: int, tilt: float, samples: int, *, clustered: bool = False) -> dict[str, float]:
    """Return how often 95 % intervals cover the true value; rows of a cluster share the number that draws the level."""
    rng = np.random.default_rng([n, n_levels, int(10 * tilt), clustered])

    def population(size: int) -> tuple[np.ndarray, np.ndarray]:
        probs = rng.dirichlet(np.full(n_levels, 0.7), size)
        return probs, probs**tilt / (probs**tilt).sum(axis=1, keepdims=True)

    def means(probs: np.ndarray, true: np.ndarray) -> dict[str, float]:
        upto, steps = probs.cumsum(axis=1)[:, :-1], np.arange(n_levels)
        scores = np.stack([((upto - (k <= steps[:-1])) ** 2).sum(axis=1) for k in steps], axis=1)
        near = np.abs(probs.argmax(axis=1)[:, None] - steps) <= 1
        return {"rps": float((true * scores).sum(axis=1).mean()), "within_one": float((true * near).sum(axis=1).mean())}

    each = [means(*population(200_000)) for _ in range(10)]
    truth = {name: float(np.mean([part[name] for part in each])) for name in each[0]}
    held = dict.fromkeys(truth, 0)
    for _ in range(samples):
        probs, true = population(n)
        clusters = np.arange(n) // 5
        u = rng.random(n // 5)[clusters] if clustered else rng.random(n)
        targets = (true.cumsum(axis=1) < u[:, None]).sum(axis=1).clip(0, n_levels - 1)
        data = of_arguments(probs, targets, clusters=clusters if clustered else None, ordered=True)
        cells = Cells.from_table(data.tables[0])
        of_clusters = None if data.clusters is None else Clustered.of(cells, data.clusters.event)
        event = Event(table=data.tables[0], means=data.means, clusters=of_clusters)
        inference = Inference(event=event, resampling=Resampling.of(0.95, 0, 0))
        for measure in OF_LEVELS:
            low, high, _ = inference.interval(measure)
            held[measure.name] += low <= truth[measure.name] <= high
    return {name: count / samples for name, count in held.items()}


@pytest.mark.slow
@pytest.mark.parametrize("tilt", [1.0, 2.0])
@pytest.mark.parametrize("n_levels", [3, 5])
@pytest.mark.parametrize("n", [200, 1000])
def test_intervals_cover_the_true_value(n: int, n_levels: int, tilt: float) -> None:
    """Of 1,500 samples, at 95 %; the standard error of a share is 0.0056."""
    found = coverage(n, n_levels, tilt, 1500)
    assert all(0.93 <= share <= 0.97 for share in found.values()), found


@pytest.mark.slow
@pytest.mark.parametrize("n_levels", [3, 5])
def test_intervals_cover_the_true_value_of_rows_in_clusters(n_levels: int) -> None:
    """Rows of a cluster are dependent: without clusters the intervals would be too short."""
    found = coverage(1000, n_levels, 1.0, 1500, clustered=True)
    assert all(0.93 <= share <= 0.97 for share in found.values()), found


# ---------------------------------------------------------------- the events


@pytest.mark.parametrize("options", [{}, {"weights": 1}, {"clusters": 1}, {"level": None}], ids=str)
def test_each_event_has_the_report_of_its_probability(options: dict[str, Any]) -> None:
    probs, targets = drawn(600, tilt=3.0)
    if "weights" in options:
        options = {"weights": np.random.default_rng(5).integers(1, 4, 600), "weights_are": "frequency"}
    elif "clusters" in options:
        options = {"clusters": np.arange(600) // 4}
    report = report_on(probs, targets, class_names=LEVELS, **options)
    assert list(report.at_least) == list(LEVELS[1:])
    alone = []
    for k, event in enumerate(report.at_least.values(), 1):
        scores = probs[:, k:].sum(axis=1) / probs.sum(axis=1)
        alone.append(evaluate(scores, (targets >= k).astype(int), n_resamples=99, **options))
        assert event.ece.value == pytest.approx(alone[-1]["ece"].value, rel=1e-9)
        assert event.mean_gap.value == pytest.approx(alone[-1]["mean_gap"].value, rel=1e-9, abs=1e-12)
        assert event.report["brier"].value == pytest.approx(alone[-1]["brier"].value, rel=1e-9)
        assert event.n == alone[-1].n
    events = list(report.at_least.values())
    if options.get("level", 0.95) is None:
        assert all(math.isnan(event.p_value) for event in events)
        return
    p_values = [event.p_value for event in events]
    assert [event.test.p_value for event in events if event.test] == pytest.approx(
        [each.test.p_value for each in alone if each.test], rel=1e-6
    )
    assert [event.adjusted_p_value for event in events] == pytest.approx(holm(p_values), rel=1e-12)
    assert [event.called_out for event in events] == [p <= 0.05 for p in holm(p_values)]
    assert sum(event.called_out for event in events) >= 2  # the probabilities are not sharp enough


@pytest.mark.slow
def test_calibrated_levels_are_rarely_called_out() -> None:
    """Holm's method holds although the events of a row depend on each other."""
    found, samples = 0, 300
    for seed in range(samples):
        probs, targets = drawn(150, 6, seed=seed, tilt=1.0)
        found += any(event.called_out for event in report_on(probs, targets, n_resamples=0).at_least.values())
    assert found / samples <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / samples)


def test_probabilities_from_logits_exclude_no_outcome() -> None:
    """A sum that was rounded to 1 is not a probability of 1 if it comes from logits."""
    targets = np.array([2] * 39 + [0])
    of_logits = report_on(np.array([[0.0, 0.0, 40.0]] * 40), targets, logits=True, n_resamples=0)
    of_probs = report_on(np.array([[0.0, 0.0, 1.0]] * 40), targets, n_resamples=0)
    p_values = [
        next(
            found.facts["p_value"] for found in one.at_least["1"].report.findings if found.code == "impossible-outcomes"
        )
        for one in (of_probs, of_logits)
    ]
    assert p_values[0] == 0 < p_values[1] < 1e-9
    assert of_logits.at_least["1"].report.choices.logits


# ---------------------------------------------------------------- what is shown


def test_reports_on_ordered_levels_have_two_more_measures() -> None:
    probs, targets = drawn(100)
    for profile in ("standard", "clinical", "all"):
        plain, ordered = (
            evaluate(probs, targets, profile=profile, level=None),
            report_on(probs, targets, profile=profile, level=None),
        )
        assert set(ordered) - set(plain) == {measure.name for measure in OF_LEVELS}
        assert not plain.at_least
        assert all(repr(plain[name]) == repr(ordered[name]) for name in plain)
    assert list(report_on(probs, targets, level=None, profile="all")) == [m.name for m in of_profile(ALL, ordered=True)]
    assert {m.name for m in of_profile(CLINICAL)} & {"rps", "within_one"} == set()
    listed = report_on(probs, targets, measures=["rps"], level=None)
    assert list(listed) == ["rps"]
    assert list(listed.at_least) == ["1", "2", "3"]


@pytest.mark.parametrize("data", ["classes", "event", "sketch"])
def test_without_an_order_the_measures_say_so(data: str) -> None:
    probs, targets = drawn(100)
    sketch = CalibrationSketch(classwise=True)
    sketch.update(probs, targets)
    arguments: Any = {"classes": (probs, targets), "event": (probs[:, 0], targets == 0), "sketch": (sketch,)}[data]
    report = evaluate(*arguments, measures=["rps", "within_one"], n_resamples=0)
    for name in report:
        assert math.isnan(report[name].value)
        assert "not declared as ordered levels (ordered=True, --ordered)" in report[name].method


def test_every_output_has_the_levels(tmp_path: Any) -> None:
    probs, targets = drawn(400)
    report = report_on(probs, targets, class_names=LEVELS, groups=np.where(np.arange(400) < 200, "a", "b"))
    summary = json.loads(report.to_json())
    assert [event["name"] for event in summary["at_least"]] == list(LEVELS[1:])
    assert summary["at_least"][0]["adjusted_p_value"] == report.at_least["mild"].adjusted_p_value
    assert set(summary["at_least"][0]["report"]) == {"n", "test", "diagram", "not_finite"}
    assert summary["groups"][0]["report"]["estimates"]["rps"]["value"] == report.groups[0].report["rps"].value
    assert "rps" in report.to_pandas().index
    frame = report.to_pandas(levels=True)
    assert list(frame.index) == list(LEVELS[1:])
    assert frame.index.name == "level"
    assert frame.loc["severe", "ece"] == report.at_least["severe"].ece.value
    text = str(report)
    assert "\nEvents: at least this level\n" in text
    assert max(map(len, text.splitlines())) <= 80
    for label in ("RPS", "within one level", "moderate"):
        assert f"\n  {label}  " in text
    page = report.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Events: at least this level" in page
    assert 'download="levels.csv"' in page
    assert "# Events: at least this level" in report.to_markdown()
    assert "ranked probability score" in page
    again = pickle.loads(pickle.dumps(report))
    assert json.loads(again.to_json()) == summary
    assert "this level or a higher one" in report.methods


def test_of_many_levels_the_worst_are_shown() -> None:
    probs, targets = drawn(100, 120)
    text = str(report_on(probs, targets, n_resamples=0))
    assert "levels, use --json, or report.at_least in Python" in text


def test_the_frames_of_levels_and_of_groups_are_two() -> None:
    probs, targets = drawn(60)
    report = report_on(probs, targets, groups=["a"] * 60, level=None)
    with pytest.raises(InputError, match="levels: expected False with groups=True, got True"):
        report.to_pandas(groups=True, levels=True)
    with pytest.raises(InputError, match="levels: expected a report on ordered levels"):
        evaluate(probs, targets, level=None).to_pandas(levels=True)


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("event", "ordered: expected False for one event, because an order needs the probabilities of several levels"),
        ("multilabel", "ordered: expected False for multilabel predictions, because their labels do not exclude"),
        ("sketch", "ordered: expected False for a CalibrationSketch, which does not keep the probabilities of a row"),
        ("groups", "ordered: expected False for a CalibrationSketch, which does not keep the probabilities of a row"),
        ("table", "ordered: expected False for a ReliabilityTable, which does not keep the probabilities of a row"),
        ("log", "ordered: expected no other data together with a DecisionLog"),
        ("word", "ordered: expected True or False, got 'yes'"),
    ],
)
def test_data_without_an_order_are_refused(data: str, message: str) -> None:
    probs, targets = drawn(40)
    sketch = CalibrationSketch()
    sketch.update(probs, targets)
    arguments: Any = {
        "event": (probs[:, 0], targets == 0),
        "multilabel": (probs, np.eye(4, dtype=int)[targets]),
        "sketch": (sketch,),
        "groups": ({"a": sketch},),
        "table": (ReliabilityTable.from_scores(probs[:, 0], targets == 0),),
        "log": (calibrant.read_decisions([{"answers": {"q": {"noul": 0.5}}, "labels": {"q": True}}]),),
        "word": (probs, targets),
    }[data]
    notion = {"notion": "multilabel"} if data == "multilabel" else {}
    with pytest.raises(InputError, match=message):
        evaluate(*arguments, ordered="yes" if data == "word" else True, **notion)


def test_models_are_not_compared_by_levels() -> None:
    probs, targets = drawn(100)
    with pytest.raises(InputError, match="got 'rps'"):
        calibrant.compare({"a": probs, "b": probs[:, ::-1]}, targets, measures=["rps"])


# ---------------------------------------------------------------- decision logs


def test_score_questions_are_ordered() -> None:
    probs, targets = drawn(200, 3)
    rows = [
        {
            "answers": {
                "mood": {"score": 1.0, "probabilities": dict(zip("012", p.tolist(), strict=True))},
                "tool": {"probabilities": dict(zip(("a", "b", "c"), p.tolist(), strict=True))},
            },
            "labels": {"mood": int(y), "tool": "abc"[y]},
        }
        for p, y in zip(probs, targets, strict=True)
    ]
    log = calibrant.read_decisions(rows)
    assert (log["mood"].ordered, log["tool"].ordered) == (True, False)
    reports = evaluate(log, n_resamples=0)
    assert reports["mood"]["rps"].value == pytest.approx(ranked_probability_score(probs, targets), rel=1e-9)
    assert list(reports["mood"].at_least) == ["1", "2"]
    assert "rps" not in reports["tool"]
    text = str(reports)
    assert text.count("Events: at least this level") == 1
    assert text.count("  RPS  ") == 1
    listed = evaluate(log, measures=["rps", "ece"], n_resamples=0)
    assert math.isnan(listed["tool"]["rps"].value)
    assert listed["mood"]["rps"] == reports["mood"]["rps"]
    by_name = {each["name"]: each["report"] for each in reports.to_dict()["questions"]}
    assert [event["name"] for event in by_name["mood"]["at_least"]] == ["1", "2"]
    assert by_name["tool"]["at_least"] == []
