"""Laws that every measure obeys, and what a measure must say about itself; a new measure is tested here by itself."""

from __future__ import annotations

import copy
import csv
import importlib.util
import math
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shown

import calibrant
from calibrant import CalibrationSketch, ReliabilityTable, evaluate
from calibrant.errors import InputError
from calibrant.measures import MEASURES, Event, Inference, Interval, Measure, Null, Unavailable
from calibrant.measures.listed import BY_NAME, OF_LEVELS, compared, of_profile, selected
from calibrant.measures.measure import descriptions_of
from calibrant.measures.profiles import ALL, CLINICAL, PROFILES, STANDARD
from calibrant.report import leaderboard
from calibrant.results import Description, Estimate

ROOT = Path(__file__).resolve().parents[2]
NAMES = [measure.name for measure in MEASURES]

#: Sums of float64 in another order: N rows, each term at most 1 or a logarithm of at most 40.
CLOSE = 1e-11


def rows(seed: int, n: int = 400, *, classes: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return predictions, many of them tied, and outcomes that differ from them."""
    rng = np.random.default_rng(seed)
    if classes:
        probs = rng.dirichlet([0.5, 1.0, 2.0], n)
        return probs, (rng.random((n, 1)) > (probs**0.7 / (probs**0.7).sum(1, keepdims=True)).cumsum(1)).sum(1).clip(
            0, 2
        )
    scores = np.where(rng.random(n) < 0.3, np.round(rng.random(n), 1), rng.random(n)).clip(1e-3, 1 - 1e-3)
    return scores, (rng.random(n) < scores**1.4).astype(int)


def data(measure: Measure, seed: int = 0, n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Return predictions that the measure has a value for."""
    return rows(seed, n, classes=measure.judges == "classes" or measure in OF_LEVELS)


def value(measure: Measure, *arguments: Any, **options: Any) -> float:
    options |= {"ordered": measure in OF_LEVELS}
    return evaluate(*arguments, measures=[measure], level=None, **options)[measure.name].value


def each_measure(test: Any) -> Any:
    return pytest.mark.every_value(pytest.mark.parametrize("measure", MEASURES, ids=NAMES)(test))


def each_of_sketches(test: Any) -> Any:
    """Run the test for every measure but those of ordered levels, which need rows."""
    measures = [measure for measure in MEASURES if measure not in OF_LEVELS]
    return pytest.mark.every_value(pytest.mark.parametrize("measure", measures, ids=lambda m: m.name)(test))


# ---------------------------------------------------------------- laws


@each_measure
def test_the_order_of_the_rows_plays_no_part(measure: Measure) -> None:
    probs, targets = data(measure)
    order = np.random.default_rng(1).permutation(len(targets))
    assert value(measure, probs[order], targets[order]) == pytest.approx(value(measure, probs, targets), abs=CLOSE)


@each_measure
def test_weight_2_is_the_row_twice(measure: Measure) -> None:
    probs, targets = data(measure)
    weights = np.random.default_rng(2).integers(0, 4, len(targets))
    repeated = value(measure, np.repeat(probs, weights, axis=0), np.repeat(targets, weights))
    assert value(measure, probs, targets, weights=weights) == pytest.approx(repeated, abs=CLOSE)


@each_of_sketches
def test_two_parts_add_up(measure: Measure) -> None:
    """Sketches of parts are the sketch of all rows, to rounding; so are tables, for measures of one event."""
    probs, targets = data(measure)
    whole, first, second = (CalibrationSketch(classwise=True) for _ in range(3))
    whole.update(probs, targets)
    first.update(probs[:150], targets[:150])
    second.update(probs[150:], targets[150:])
    assert value(measure, first + second) == pytest.approx(value(measure, whole), abs=CLOSE)
    if measure.judges == "event":
        parts = [ReliabilityTable.from_scores(probs[cut], targets[cut]) for cut in (slice(150), slice(150, None))]
        assert value(measure, parts[0] + parts[1]) == pytest.approx(value(measure, probs, targets), abs=CLOSE)


@pytest.mark.covering
@each_of_sketches
@pytest.mark.parametrize("n_bins", [7, 15])
def test_a_sketch_is_within_its_certified_error(measure: Measure, n_bins: int) -> None:
    for seed in range(8):
        probs, targets = data(measure, seed, 900)
        sketch = CalibrationSketch(classwise=True)
        sketch.update(probs, targets)
        of_sketch = evaluate(sketch, measures=[measure], level=None, n_bins=n_bins)[measure.name]
        exact = evaluate(probs, targets, measures=[measure], level=None, n_bins=n_bins)[measure.name]
        if isinstance(measure.bound, Unavailable):  # nothing is certified, and the estimate says where it is from
            assert math.isnan(of_sketch.error_bound)
            assert of_sketch.details["table"] == "standard grid"
            assert of_sketch.value == pytest.approx(exact.value, abs=1e-4)
            continue
        assert abs(of_sketch.value - exact.value) <= of_sketch.error_bound + exact.error_bound + CLOSE


@each_measure
def test_the_interval_holds_the_value(measure: Measure) -> None:
    probs, targets = data(measure)
    ordered = measure in OF_LEVELS
    estimate = evaluate(probs, targets, measures=[measure], n_resamples=50, ordered=ordered)[measure.name]
    if isinstance(measure.interval, Unavailable):
        assert math.isnan(estimate.low)
        assert measure.interval.reason in estimate.method
        return
    assert estimate.low <= estimate.value <= estimate.high
    assert estimate.level == 0.95


@each_measure
def test_the_public_functions_agree(measure: Measure) -> None:
    probs, targets = data(measure)
    options = {"least_rows": 30} if measure.name == "mce" else {}
    for function in measure.functions:
        assert function(probs, targets, **options) == pytest.approx(value(measure, probs, targets), abs=CLOSE)


@pytest.mark.parametrize("measure", [m for m in MEASURES if isinstance(m.null, Null)], ids=lambda m: m.name)
def test_the_replicates_are_the_measure_on_tables(measure: Measure) -> None:
    """The fast law over cached sums, against the measure's value on each replicate's table."""
    probs, targets = rows(3, 900)
    resampling = calibrant.statistics.resampling.Resampling.of(0.95, 40, 0)
    event = Event(table=ReliabilityTable.from_scores(np.round(probs, 2), targets))
    slow = Measure(name="slow", label="slow", meaning="The same, slowly.", value=measure.value)
    inference = Inference(event=event, resampling=resampling, measures=[measure, slow])
    fast = inference.replicates_of(measure)
    # The smooth error of replicates is interpolated between four bandwidths, each 1.59 times the one before.
    tolerance = {"rel": 0.05} if measure.name == "smece" else {"abs": CLOSE}
    np.testing.assert_allclose(
        fast, inference.replicates_of(slow), rtol=tolerance.get("rel", 0), atol=tolerance.get("abs", 0)
    )


# ---------------------------------------------------------------- what a measure says about itself


def test_each_measure_describes_itself() -> None:
    for measure in MEASURES:
        assert measure.label, measure.name
        assert measure.meaning.endswith("."), measure.name
        assert measure.profiles <= set(PROFILES), measure.name
        assert isinstance(descriptions_of([measure])[measure.name], Description), measure.name
        for part in (measure.bound, measure.interval, measure.null, measure.over_classes, measure.difference):
            assert not isinstance(part, Unavailable) or part.reason, measure.name


def test_names_and_labels_are_distinct() -> None:
    assert len({measure.name for measure in MEASURES}) == len(MEASURES)
    assert len({measure.label for measure in MEASURES}) == len(MEASURES)


def test_one_measure_decides_comparisons() -> None:
    assert [measure.name for measure in compared()][:1] == ["debiased_square"]
    deciding = [m for m in MEASURES if not isinstance(m.difference, Unavailable) and m.difference.decides]
    assert len(deciding) == 1


def test_every_interval_is_simulated() -> None:
    """A measure with an interval has its row in the coverage study, and a truth to hold it against.

    The measures of ordered levels are simulated in `test_ordered.py`.
    """
    with_interval = [m for m in MEASURES if not isinstance(m.interval, Unavailable) and m not in OF_LEVELS]
    with (ROOT / "docs" / "coverage.csv").open(encoding="utf-8", newline="") as file:
        simulated = {row["measure"] for row in csv.DictReader(file)}
    missing = [measure.name for measure in with_interval if measure.name not in simulated]
    assert missing == [], f"run python benchmarks/coverage.py --only {' '.join(missing)}"
    page = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")
    assert [measure.name for measure in with_interval if f"\n| {measure.label} | 0." not in page] == []


def test_the_page_of_the_simulation_shows_its_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALIBRANT_NUM_THREADS", "1")  # the scripts set it otherwise, for all tests that follow
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "simulation"))
    before = leaderboard.MOST_PAIRED
    pages, maps = importlib.import_module("coverage_page"), importlib.import_module("maps")
    assert before == leaderboard.MOST_PAIRED, "a script that is imported changes the library for all that follows"
    texts = pages.written(*pages.stored(ROOT / "docs"), None)
    assert shown.stale(texts) == [], "run benchmarks/coverage.py --page"
    assert shown.stale(maps.texts()) == [], "run benchmarks/simulation/maps.py --page"


@pytest.mark.slow
def test_the_simulation_iterates_over_the_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ROOT / "benchmarks" / "simulation"
    monkeypatch.syspath_prepend(str(folder))
    source = (folder / "coverage_parts.py").read_text(encoding="utf-8")
    assert "SIMULATED = [m for m in MEASURES" in source
    spec = importlib.util.spec_from_file_location("coverage_laws", folder / "coverage_laws.py")
    assert spec is not None
    assert spec.loader is not None
    laws = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "coverage_laws", laws)
    spec.loader.exec_module(laws)
    truths = laws.truths(laws.laws()[0]).keys() | {"mce", "ace"}  # these two depend on the data set's own bins
    of_event = (m for m in MEASURES if m.judges != "classes" and m not in OF_LEVELS)
    assert {m.name for m in of_event if not isinstance(m.interval, Unavailable)} <= truths


# ---------------------------------------------------------------- choosing


def test_a_list_gives_exactly_those_in_that_order() -> None:
    probs, targets = rows(0)
    report = evaluate(probs, targets, measures=["ks", "ece", "classwise_ece"], n_resamples=20)
    assert list(report) == ["ks", "ece", "classwise_ece"]
    lines = str(report).splitlines()
    places = [
        next(i for i, line in enumerate(lines) if line.startswith(f"  {label}  ")) for label in ("KS error", "ECE")
    ]
    assert places == sorted(places)
    assert "classwise ECE: not available: only one event is evaluated, not classes" in str(report)


def test_a_profile_is_the_measures_that_name_it() -> None:
    assert of_profile(CLINICAL) == tuple(measure for measure in MEASURES if "clinical" in measure.profiles)
    assert of_profile(ALL, ordered=True) == MEASURES
    assert of_profile(ALL) == tuple(measure for measure in MEASURES if measure not in OF_LEVELS)
    assert {"brier", "mean_gap"} <= {measure.name for measure in of_profile(CLINICAL)}
    assert "accuracy" not in {measure.name for measure in of_profile(CLINICAL)}
    plain, clinical = evaluate(*rows(0), level=None), evaluate(*rows(0), level=None, profile="clinical")
    assert (plain.profile, plain.listed, clinical.profile, clinical.listed) == ("standard", False, "clinical", False)
    assert list(clinical) == [measure.name for measure in of_profile(CLINICAL)]
    assert list(evaluate(*rows(0), level=None, measures="clinical")) == list(clinical)


def test_a_list_replaces_the_measures_of_a_profile_but_not_its_page() -> None:
    report = evaluate(*rows(0), level=None, profile="clinical", measures=["ece"])
    assert (list(report), report.profile, report.listed) == (["ece"], "clinical", True)
    assert selected(["ece"]).profile is STANDARD
    with pytest.raises(InputError, match="measures: expected a list if a profile is given, got 'forecast'"):
        evaluate(*rows(0), profile="clinical", measures="forecast")
    with pytest.raises(
        InputError, match=r"profile: expected one of 'standard', .*got 'clincal'; did you mean 'clinical'"
    ):
        evaluate(*rows(0), profile="clincal")
    with pytest.raises(InputError, match=r"profile: .* got 'ece'; pass measures=\['ece'\] for one measure"):
        evaluate(*rows(0), profile="ece")


def test_the_numbers_do_not_depend_on_what_else_is_shown() -> None:
    probs, targets = rows(0)
    everything, one = (
        evaluate(probs, targets, n_resamples=50),
        evaluate(probs, targets, measures=["ks"], n_resamples=50),
    )
    assert one["ks"] == everything["ks"]
    assert one.findings == everything.findings
    assert one.verdict() == everything.verdict()


@pytest.mark.parametrize(
    ("measures", "message"),
    [
        ("ECE", r"measures: expected one of 'standard', .*, or a list, got 'ECE'; did you mean 'ece'\?"),
        ("ece", r"pass measures=\['ece'\] for one measure"),
        ([], "expected a profile or a list of measures, got \\[\\]"),
        (["ece", "ece"], "expected each measure once, got 'ece' twice"),
        (["eces"], r"expected the key of a measure, got 'eces'; did you mean 'ece'\?"),
        ([3], "expected keys and Measures, got a int"),
        ([Measure(name="ece", label="x", meaning="y", value=lambda _: 0.0)], "a name that is not taken, got 'ece'"),
    ],
)
def test_wrong_measures_are_refused(measures: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluate(*rows(0), measures=measures)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"name": "My Measure"}, "name: expected lower-case letters"),
        ({"label": " "}, "label: expected a text"),
        ({"meaning": None}, "meaning: expected a text"),
        ({"value": 0.5}, "value: expected a function of an event"),
        ({"better": "up"}, "better: expected one of 'lower', 'higher', 'neither'"),
        ({"scale": "metre"}, "scale: expected one of"),
        ({"judges": "rows"}, "judges: expected one of"),
    ],
)
def test_a_wrong_measure_is_refused(wrong: dict[str, Any], message: str) -> None:
    right: dict[str, Any] = {"name": "mine", "label": "mine", "meaning": "Mine.", "value": lambda _: 0.0}
    with pytest.raises(InputError, match=message):
        Measure(**{**right, **wrong})


def test_an_unknown_key_of_a_report_suggests_a_near_one() -> None:
    report = evaluate(*rows(0), level=None)
    with pytest.raises(KeyError, match=r"no measure 'ECE'; did you mean 'ece'\?"):
        report["ECE"]


# ---------------------------------------------------------------- a measure of the user's own


def largest_excess(event: Event) -> float:
    """Return how far the outcomes run ahead of the scores, cumulated from the lowest score."""
    return max(0.0, float(np.cumsum(event.table.residuals).max() / event.table.total))


EXCESS = Measure(
    name="excess", label="largest excess", meaning="How far outcomes run ahead of the scores.", value=largest_excess
)


def test_an_own_measure_is_in_every_output(tmp_path: Path) -> None:
    scores, _ = rows(4, 600)
    outcomes = (np.random.default_rng(5).random(600) < np.sqrt(scores)).astype(int)
    report = evaluate(scores, outcomes, measures=["ece", EXCESS], n_resamples=99)
    estimate = report["excess"]
    assert estimate.value == largest_excess(Event(table=ReliabilityTable.from_scores(scores, outcomes)))
    assert estimate.floor is not None
    assert estimate.floor.upper < estimate.value
    assert estimate.p_value == 0.01  # 1 / (99 + 1)
    assert math.isnan(estimate.low)
    assert estimate.method == "no interval: no method is known for this measure; floor: 99 resamples"
    assert "largest excess" in str(report)
    summary = report.to_dict()
    assert summary["measures"]["excess"]["meaning"] == EXCESS.meaning
    assert summary["estimates"]["excess"]["value"] == estimate.value
    page = report.to_html(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "largest excess" in page
    assert EXCESS.meaning in page
    assert repr(pickle.loads(pickle.dumps(report))["excess"]) == repr(estimate)


def test_its_law_is_the_consistency_test() -> None:
    """The same draws as `calibrant.inference.consistency`, which has the statistic as a function of tables."""
    scores, outcomes = rows(6, 300)
    table = ReliabilityTable.from_scores(scores, outcomes)
    estimate = evaluate(scores, outcomes, measures=[EXCESS], n_resamples=60, rng=3)["excess"]
    tested = calibrant.inference.consistency(table, lambda own: largest_excess(Event(table=own)), n_resamples=60, rng=3)
    assert (estimate.floor, estimate.p_value) == (tested.floor, tested.p_value)


def test_on_a_sketch_nothing_is_certified_about_it() -> None:
    scores, outcomes = rows(7)
    sketch = CalibrationSketch()
    sketch.update(scores, outcomes)
    assert math.isnan(evaluate(sketch, measures=[EXCESS], level=None)["excess"].error_bound)
    assert evaluate(scores, outcomes, measures=[EXCESS], level=None)["excess"].error_bound == 0


def test_over_classes_it_is_the_mean() -> None:
    probs, targets = rows(8, classes=True)
    estimate = evaluate(probs, targets, notion="classwise", measures=[EXCESS], n_resamples=20)["excess"]
    each = [largest_excess(Event(table=ReliabilityTable.from_scores(probs[:, k], targets == k))) for k in range(3)]
    assert estimate.details["per_class"] == pytest.approx(each)
    assert estimate.value == pytest.approx(np.mean(each))


def own(function: Callable[[Event], Any], **options: Any) -> Measure:
    return Measure(name="mine", label="mine", meaning="Mine.", value=function, **options)


def test_a_value_that_is_no_number_is_refused() -> None:
    with pytest.raises(InputError, match="expected a number from the value function of measure 'mine', got 'z'"):
        evaluate(*rows(0), measures=[own(lambda _: "z")])


def test_a_value_that_these_data_do_not_have_says_so() -> None:
    estimate = evaluate(*rows(0), measures=[own(lambda _: math.nan)], n_resamples=10)["mine"]
    assert math.isnan(estimate.value)
    assert estimate.method == "not available: the measure has no value for these data"
    with_reason = own(lambda _: math.nan, details=lambda _: {"reason": "too few rows"})
    assert evaluate(*rows(0), measures=[with_reason])["mine"].method == "not available: too few rows"


def test_a_value_that_some_replicates_do_not_have_gives_no_floor() -> None:
    observed = int(rows(0)[1].sum())

    def fragile(event: Event) -> float:
        return 0.1 if event.table.sums.positives == observed else math.nan

    estimate = evaluate(*rows(0), measures=[own(fragile)], n_resamples=30)["mine"]
    assert estimate.value == 0.1
    assert estimate.floor is None


def test_only_errors_have_a_noise_floor() -> None:
    assert isinstance(own(largest_excess).null, Null)
    for better in ("higher", "neither"):
        measure = own(largest_excess, better=better)
        assert isinstance(measure.null, Unavailable)
        assert evaluate(*rows(0), measures=[measure], n_resamples=10)["mine"].floor is None


def test_an_event_without_means_says_what_it_lacks() -> None:
    event = Event(table=ReliabilityTable.from_scores(*rows(0)))
    with pytest.raises(InputError, match="event: expected means over whole predictions"):
        BY_NAME["brier"].value(event)
    with pytest.raises(InputError, match="event: expected evaluated classes"):
        event.evaluated_classes  # noqa: B018 - a property that raises


@pytest.mark.parametrize("least_rows", [1, 2, 30, 100])
def test_the_maximum_is_over_the_bins_that_hold_enough_rows(least_rows: int) -> None:
    """By hand: bins of 1, 40 and 60 rows with gaps of .9, .4 and .2; none holds 100."""
    scores = [0.1] + [0.5] * 40 + [0.9] * 60
    outcomes = [1] + [1] * 36 + [0] * 4 + [1] * 42 + [0] * 18
    gaps = {1: 0.9, 2: 0.4, 30: 0.4, 100: math.nan}
    found = calibrant.maximum_calibration_error(scores, outcomes, n_bins=3, least_rows=least_rows)
    assert found == pytest.approx(gaps[least_rows], nan_ok=True)
    if least_rows == 30:
        assert evaluate(scores, outcomes, n_bins=3, level=None)["mce"].value == pytest.approx(0.4)
    with pytest.raises(InputError, match="least_rows: expected an integer from 1, got 0"):
        calibrant.maximum_calibration_error(scores, outcomes, least_rows=0)


# ---------------------------------------------------------------- other processes


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_measure_of_calibrant_is_pickled_by_its_name(protocol: int) -> None:
    for measure in MEASURES:
        assert pickle.loads(pickle.dumps(measure, protocol)) is measure
        assert len(pickle.dumps(measure, protocol)) < 200, measure.name
        assert copy.copy(measure) is copy.deepcopy(measure) is measure


def test_pickles_of_workers_hold_measures_by_name_too() -> None:
    """cloudpickle pickles functions by value: joblib, Spark, Dask and Ray use it or a copy of it."""
    cloudpickle = pytest.importorskip("cloudpickle")
    sent = pickle.loads(cloudpickle.dumps([*MEASURES, own(lambda event: event.table.total)]))
    assert all(ours is theirs for ours, theirs in zip(MEASURES, sent, strict=False))
    report = evaluate(*rows(0), measures=[BY_NAME["ece"], *sent[-1:]], level=None)
    assert report["mine"].value == 400
    assert pickle.loads(pickle.dumps(own(largest_excess))).value is largest_excess


def test_a_measure_that_this_version_lacks_is_named() -> None:
    other = pickle.dumps(BY_NAME["smece"], 0).replace(b"smece", b"smecc")
    with pytest.raises(InputError, match="measures: expected the key of a measure, got 'smecc'; did you mean 'smece'"):
        pickle.loads(other)


@pytest.mark.slow
def test_workers_of_joblib_compute_a_list_of_measures() -> None:
    joblib = pytest.importorskip("joblib")
    measures = [*MEASURES[:3], BY_NAME["ece"], own(largest_excess)]
    call = joblib.delayed(evaluate)(*rows(0), measures=measures, n_resamples=20)
    for report in joblib.Parallel(n_jobs=2)([call, call]):
        assert report.to_json() == evaluate(*rows(0), measures=measures, n_resamples=20).to_json()


# ---------------------------------------------------------------- the range


def few_rows(seed: int, notion: str | None, *, wrong: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return a few extreme predictions; ``wrong`` ones are nearly all missed, so that means are at their largest."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    if notion in ("top-label", "classwise"):
        probs = rng.dirichlet([0.2] * 3, n)
        return probs, probs.argmin(axis=1) if wrong else rng.integers(0, 3, n)
    probs = rng.choice([0, 0.01, 0.5, 0.99, 1], (n, 2) if notion == "multilabel" else n)
    return probs, (probs < 0.5).astype(int) if wrong else rng.integers(0, 2, probs.shape)


def in_range(measure: Measure, estimate: Estimate, *, classes: bool) -> bool:
    """Return whether value, ends and noise floor are in the range of the measure, as its definition has it."""
    least, most = RANGES[measure.name]
    if classes and measure.name == "brier":
        most = 2.0
    value, low, high = estimate.value, estimate.low, estimate.high
    floor = -math.inf if estimate.floor is None or measure.scale == "ratio" else estimate.floor.upper
    # An unbiased square may be below 0; else values leave the range by the rounding of sums of at most 8 terms alone.
    valued = measure.name == "debiased_square" or math.isnan(value) or least - CLOSE <= value <= most + CLOSE
    return valued and not (low < min(least, value) or high > max(most, value) or floor > most)


#: The range of the true value of each measure, by its definition.
RANGES = {
    **dict.fromkeys(NAMES, (0.0, 1.0)),
    **dict.fromkeys(("discrimination", "uncertainty", "murphy_resolution"), (0.0, 0.25)),  # of y: r (1 - r) <= 1/4
    **dict.fromkeys(("calibration_intercept", "calibration_slope"), (-math.inf, math.inf)),
    **dict.fromkeys(("nll", "rps", "oe_ratio", "e50", "e90"), (0.0, math.inf)),  # a loess line may leave [0, 1]
    "mean_gap": (-1.0, 1.0),
    "brier_skill": (-math.inf, 1.0),
    "log_loss_skill": (-math.inf, 1.0),
}


def test_its_range_is_that_of_its_definition() -> None:
    assert {measure.name: measure.range for measure in MEASURES} == RANGES
    assert {measure.name: measure.class_range for measure in MEASURES if measure.class_range} == {"brier": (0.0, 2.0)}


@pytest.mark.covering
@pytest.mark.parametrize("notion", [None, "top-label", "classwise", "multilabel"])
@pytest.mark.parametrize("wrong", [False, True])
def test_no_end_leaves_the_range_of_its_measure(notion: Any, wrong: bool) -> None:
    """Over notions, weights, clusters, groups and sketches, with one row and more."""
    for seed in range(4):
        probs, targets = few_rows(seed, notion, wrong=wrong)
        n, rng = len(probs), np.random.default_rng(100 + seed)
        designs: list[dict[str, Any]] = [{"weights": 10.0 ** rng.uniform(-1, 1, n)}, {"groups": rng.integers(0, 2, n)}]
        if n > 1 and notion in (None, "top-label"):
            designs.append({"clusters": np.arange(n) // 2 if n > 2 else np.arange(n)})
        sketch = CalibrationSketch(notion=notion if notion in ("classwise", "multilabel") else None, classwise=True)
        sketch.update(probs, targets)
        options: dict[str, Any] = {"profile": "all", "n_resamples": 0}
        reports = [evaluate(probs, targets, notion=notion, **options, **design) for design in designs]
        reports.append(evaluate(sketch, **options))
        for report in [*reports, *(group.report for one in reports for group in one.groups)]:
            classes = notion in ("top-label", "classwise")
            assert [name for name, one in report.items() if not in_range(BY_NAME[name], one, classes=classes)] == []


@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.parametrize("design", ["rows", "weights", "clusters", "sketches"])
def test_no_end_of_a_difference_leaves_its_range(classes: bool, design: str) -> None:
    for seed in range(4):
        first, targets = few_rows(seed, "top-label" if classes else None, wrong=True)
        n = len(first)
        if design == "clusters" and n < 3:
            continue
        second = first[:, ::-1] if classes else 1 - first
        options = {
            "weights": {"weights": np.linspace(0.1, 9.7, n)},
            "clusters": {"clusters": np.arange(n) // 2},
        }.get(design, {})
        models: Any = {"a": first, "b": second}
        if design == "sketches":
            models = {name: CalibrationSketch() for name in models}
            for name, probs in (("a", first), ("b", second)):
                models[name].update(probs, targets)
        (pair,) = calibrant.compare(models, None if design == "sketches" else targets, **options).pairs
        for name, estimate in pair.estimates.items():
            least, most = RANGES[name]
            if classes and name == "brier":
                most = 2.0
            assert not estimate.low < min(least - most, estimate.value), name
            assert not estimate.high > max(most - least, estimate.value), name


def test_the_smallest_samples_of_the_issue() -> None:
    """Six wrong predictions but one: before, 0.817 (0.281 to 1.352), and infinite ends for one row."""
    rng = np.random.default_rng(6)
    p = rng.choice([0.01, 0.99], 6)
    y = (p < 0.5).astype(int)
    y[0] = 1 - y[0]
    brier = evaluate(p, y, n_resamples=0)["brier"]
    assert (round(brier.value, 4), brier.high) == (0.8168, 1.0)
    one = evaluate([0.3], [1], n_resamples=0)["brier"]
    assert (one.low, one.high) == (0.0, 1.0)
    two_classes = evaluate([[0.99, 0.01]], [1], n_resamples=0)["brier"]
    assert (two_classes.low, two_classes.high) == (0.0, 2.0)


@pytest.mark.parametrize("ends", [(1.0, 0.0), (0.5, 0.5), (math.nan, 1.0)])
def test_a_range_rises(ends: tuple[float, float]) -> None:
    with pytest.raises(InputError, match="range: expected the least and the largest value"):
        Measure(name="mine", label="mine", meaning="Mine.", value=lambda _: 0.5, range=ends)


@pytest.mark.parametrize(("implied", "high"), [(0.4, 0.5), (np.nextafter(0.5, 1.0), 0.5), (0.6, 0.6)])
def test_an_upper_end_is_raised_by_more_than_rounding(implied: float, high: float) -> None:
    own = Measure(
        name="own",
        label="own",
        meaning="A number.",
        value=lambda _: 0.3,
        interval=lambda _: Interval(0.1, 0.5, "by hand"),
        implied=lambda _: implied,
    )
    found = evaluate(np.linspace(0.1, 0.9, 60), np.arange(60) % 2, measures=[own], n_resamples=0)["own"]
    assert found.high == high
    assert ("raised" in found.method) == (high == 0.6)
