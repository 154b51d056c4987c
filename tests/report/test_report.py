"""The report as a value: a mapping, a dictionary, a page of text."""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

import calibrant
from calibrant.errors import InputError, MissingDependencyError
from calibrant.measures.listed import of_profile
from calibrant.measures.profiles import STANDARD
from calibrant.report import evaluated_data
from calibrant.table.cluster_labels import as_clusters
from tests.samples import draw_classes


@pytest.fixture
def report() -> calibrant.Report:
    probs = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4], [0.6, 0.4, 0.0]])
    return calibrant.evaluate(probs, [0, 1, 2, 2], n_bins=5, class_names=["<script>alert(1)</script>", "b", "c"])


def test_it_is_a_mapping_of_estimates(report: calibrant.Report) -> None:
    assert tuple(report) == tuple(measure.name for measure in of_profile(STANDARD))
    assert len(report) == len(of_profile(STANDARD))
    assert all(isinstance(estimate, calibrant.Estimate) for estimate in report.values())
    assert float(report["accuracy"]) == report["accuracy"].value == 0.75
    with pytest.raises(KeyError):
        report["eces"]


def test_a_name_that_is_markup_is_text(report: calibrant.Report) -> None:
    page = report._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_the_words_hedge_what_few_rows_cannot_tell() -> None:
    said = " ".join(str(calibrant.evaluate([0.5], [1], n_resamples=0)).split())
    assert "1 prediction (event: outcome = 1)" in said
    assert said.split(") ")[1].startswith(
        "Too little data for reliable inference: every row has the same outcome. Treat "
    )
    assert "No clear over- or underestimation: mean predicted probability 50.0 %, observed frequency 100.0 %" in said
    assert "(difference -50.0 percentage points, 95 % CI -100.0 to +100.0)." in said
    assert "slope" not in said
    rng = np.random.default_rng(0)
    probs = rng.random(300)
    said = " ".join(str(calibrant.evaluate(probs, rng.random(300) < probs, n_resamples=0)).split())
    assert re.search(r" Calibration slope \d\.\d\d \(95 % CI 0\.\d\d to 1\.\d\d; ideal 1\)\. ", said)
    assert re.search(
        r"No evidence of miscalibration \(p = 0\.\d+\)\. The data are compatible with an ECE of up to 0\.\d+ \(upper",
        said,
    )


def test_scores_of_the_other_outcome_are_asked_about() -> None:
    rng = np.random.default_rng(1)
    probs = rng.random(400)
    outcomes = rng.random(400) < probs
    caution = (
        "Caution: events occur less often as the score rises. Check that the scores and the outcomes belong together."
    )
    for scores, expected in ((probs, False), (1 - probs, True), (rng.random(400), False), (np.full(400, 0.3), False)):
        assert (caution in " ".join(str(calibrant.evaluate(scores, outcomes, n_resamples=0)).split())) == expected


def test_a_negative_debiased_square_is_explained() -> None:
    scores, outcomes = [0.25] * 40 + [0.75] * 40, ([0] * 3 + [1]) * 10 + ([1] * 3 + [0]) * 10
    said = str(calibrant.evaluate(scores, outcomes, measures=["debiased_square"], n_resamples=0))
    assert "debiased squared CE: the estimate is negative by chance; the true value is at least 0" in " ".join(
        said.split()
    )


def test_its_repr_is_one_line(report: calibrant.Report) -> None:
    said = repr(report)
    assert said.startswith("<Report: ")
    assert f"ECE {report['ece'].value:.4f}" in said
    assert len(said.splitlines()) == 1
    compared = repr(calibrant.compare([0.2, 0.8] * 20, [0.3, 0.9] * 20, [0, 1] * 20))
    assert compared.startswith("<Comparison of 'A', 'B': ")
    assert len(compared.splitlines()) == 1


def test_what_is_not_finite_is_null_with_its_reason(report: calibrant.Report) -> None:
    assert report["nll"].value == math.inf
    assert report["nll"].details["infinite_rows"] == 1
    summary = json.loads(report.to_json())
    assert summary == report.to_dict()
    assert summary["estimates"]["nll"]["value"] is None
    assert summary["not_finite"]["estimates.nll.value"] == "infinite: an observed outcome had predicted probability 0"
    assert summary["diagram"]["accuracies"][0] is None
    assert summary["not_finite"]["diagram.accuracies[0]"] == "the bin is empty"


def test_the_printed_report_shows_bars_and_marks_where_they_belong() -> None:
    # Ten rows claimed at .75, five of them right: a bar to the middle, a mark at three quarters.
    lines = str(calibrant.evaluate([0.75] * 10, [1, 0] * 5, n_bins=2)).splitlines()
    row = next(line for line in lines if line.lstrip().startswith("0.500 – 1.000"))
    bar = row[row.index("+0.250") + len("+0.250   ") :]
    assert bar == "█" * 13 + "░" * 7 + "┃"  # 26 characters from 0 to 1: round(19.5) is 20
    text = " ".join(str(calibrant.evaluate([0.75] * 10, [1, 0] * 5, n_bins=2, level=None)).split())
    assert "Overestimates the event: mean predicted probability 75.0 %, observed frequency 50.0 %" in text
    assert "(difference +25.0 percentage points)." in text


def scored(n: int, power: float, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Return scores, and outcomes whose log-odds are ``power`` times those of the scores."""
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    return p, rng.random(n) < p**power / (p**power + (1 - p) ** power)


def test_words_for_the_spread() -> None:
    for power, word in ((0.6, "extreme"), (1.7, "moderate")):
        report = calibrant.evaluate(*scored(3_000, power), n_resamples=0)
        first, _, spread, *_ = report.verdict()
        assert first == "Evidence of miscalibration (p < 0.001)."
        number = r"[01]\.\d\d"
        slope = rf"calibration slope {number} \(95 % CI {number} to {number}; ideal 1\)"
        assert re.fullmatch(rf"Predictions are too {word}: {slope}\.", spread)
    p, y = scored(2_000, 1.0)
    reversed_scores = calibrant.evaluate(1 - p, y, n_resamples=0).verdict()
    falls = r"Predictions are too extreme: .* slope -.*; ideal 1\); events are not more frequent at higher scores\."
    assert any(re.fullmatch(falls, sentence) for sentence in reversed_scores)
    apart = calibrant.evaluate([0.1, 0.2, 0.8, 0.9] * 10, [0, 0, 1, 1] * 10, n_resamples=0).verdict()
    infinite = "so the calibration slope is not finite."
    assert f"Predictions are too moderate: a threshold perfectly separates events from non-events, {infinite}" in apart
    backwards = calibrant.evaluate([0.1, 0.2, 0.8, 0.9] * 10, [1, 1, 0, 0] * 10, n_resamples=0).verdict()
    below = "a threshold perfectly separates events from non-events, with the events below the threshold"
    assert f"Predictions are too extreme: {below}, {infinite}" in backwards


def test_words_where_the_ece_and_the_verdict_differ() -> None:
    """The ECE may be within its noise and the three parts together not, and the other way round."""
    rng = np.random.default_rng(0)
    found: dict[bool, str] = {}
    for _ in range(300):
        p = rng.random(1_000)
        y = rng.random(1_000) < np.clip(p - 0.03 * rng.random(), 0, 1)
        report = calibrant.evaluate(p, y, n_resamples=0, measures=["ece"])
        ece = report["ece"]
        assert ece.floor is not None
        if report.miscalibrated == (ece.value <= ece.floor.upper):
            found[report.miscalibrated] = " ".join(report.verdict())
        if len(found) == 2:
            break
    for rejects, start in ((True, "Evidence of miscalibration (p "), (False, "No evidence of miscalibration (p = ")):
        assert found[rejects].startswith(start)
        said = re.search(
            r"ECE (0\.\d+) \(95 % CI .*?\); a perfectly calibrated model would stay below (0\.\d+) in", found[rejects]
        )
        assert said is not None
        assert (float(said[1]) < float(said[2])) == rejects


def test_the_test_and_the_decision_are_in_the_dictionary() -> None:
    report = calibrant.evaluate(*scored(500, 1.0), n_resamples=99, tolerance=0.2)
    summary = json.loads(report.to_json())
    assert summary == report.to_dict()
    assert summary["schema_version"] == 7
    test = report.test
    assert test is not None
    assert summary["test"] == {
        "statistic": test.statistic,
        "p_value": test.p_value,
        "method": "Cauchy combination of mean, spread, ECE; 99 resamples",
        "n": 500,
        "details": dict(test.details),
    }
    assert set(test.details) == {"parts", "leading", "closed_form_p_value", "least_p_value"}
    assert {"closed_form_p_value", "least_p_value"}.isdisjoint(report["ece"].details)
    assert summary["decision"]["state"] == "proven"
    bare = calibrant.evaluate(*scored(500, 1.0), level=None, tolerance=0.1).to_dict()
    assert (bare["test"], bare["decision"]) == (None, None)


def test_each_class_has_a_test_and_the_worst_are_marked_in_the_text() -> None:
    """One class of four is claimed too often. Its test is that of its own column; Holm's correction is for four."""
    probs, targets = draw_classes(6, 2_000, np.full(4, 0.5))
    probs[:, 1] *= 1.5
    probs /= probs.sum(axis=1, keepdims=True)
    for notion in ("top-label", "classwise"):
        report = calibrant.evaluate(probs, targets, notion=notion, n_resamples=0, class_names=list("wxyz"))
        classes = report.classwise
        assert classes is not None
        assert classes.p_values is not None
        assert classes.adjusted_p_values is not None
        # The page of a class holds bins alone: the test takes each score as its bin's mean.
        bins = np.ceil(probs * 15).astype(int)
        for k in range(4):
            means = np.array([probs[bins[:, k] == b, k].mean() for b in bins[:, k]])
            own = calibrant.evaluate(means, targets == k, n_resamples=0).test
            assert own is not None
            assert classes.p_values[k] == pytest.approx(own.p_value, rel=1e-6)
        order = np.argsort(classes.p_values)
        holm = np.minimum(np.maximum.accumulate(classes.p_values[order] * [4, 3, 2, 1]), 1)
        assert classes.adjusted_p_values[order] == pytest.approx(holm)
        marked = classes.adjusted_p_values <= 0.05
        assert marked[1]
        assert not marked.all()
        lines = str(report).splitlines()
        assert next(line for line in lines if line.lstrip().startswith("class  ")).split() == [
            "class",
            "rows",
            "ECE",
            "p",
            "adj.",
        ]
        for k, name in enumerate("wxyz"):
            (line,) = (line for line in lines if re.match(rf"  {name} +\d", line))
            assert line.endswith(" *") == marked[k]
            assert f"{classes.adjusted_p_values[k]:.3f}" in line or " < 0.001" in line
        assert f"  * evidence of miscalibration after Holm correction: {marked.sum() or 'none'} of 4 classes" in lines
        columns = report.to_dict()["classwise"]
        assert columns["p_values"] == classes.p_values.tolist()
        assert columns["adjusted_p_values"] == classes.adjusted_p_values.tolist()
    bare = calibrant.evaluate(probs, targets, level=None)
    assert "p adj." not in str(bare)
    assert bare.to_dict()["classwise"]["p_values"] is None


def test_a_class_that_cannot_be_tested_has_no_p_value() -> None:
    probs = np.array([[0.6, 0.4, 0.0]] * 300)
    weights = np.tile([0.01, 0.015], 150)
    report = calibrant.evaluate(probs, np.arange(300) % 10 < 4, n_resamples=0, weights=weights)
    classes = report.classwise
    assert classes is not None
    assert classes.p_values is not None
    summary = report.to_dict()
    assert np.isnan(classes.p_values).any()
    for k, p in enumerate(classes.p_values):
        if math.isnan(p):
            assert summary["classwise"]["p_values"][k] is None
            reason = "no test: the expected number of events or non-events is too small"
            assert summary["not_finite"][f"classwise.p_values[{k}]"] == reason


def test_words_for_scores_that_are_right_on_average() -> None:
    text = str(calibrant.evaluate([0.25] * 4 + [0.75] * 4, [1, 0, 0, 0, 1, 1, 1, 0], level=None))
    assert "No clear over- or underestimation: mean predicted probability 50.0 %," in text
    assert "Isotonic recalibration would not lower the Brier score on these data." in " ".join(text.split())


def test_the_bins_of_the_classes_are_counted_by_hand() -> None:
    rng = np.random.default_rng(5)
    probs, targets = rng.dirichlet([0.4, 1, 2], 400), rng.integers(3, size=400)
    found = calibrant.evaluate(probs, targets, n_bins=4, n_resamples=0)
    classes = found.classwise
    assert classes is not None
    assert classes.lows is not None
    edges = np.linspace(0, 1, 5)
    columns = found.to_dict()["classwise"]["bins"]
    listed = 0
    for k in range(3):
        own = classes.diagram(k)
        np.testing.assert_array_equal(own.edges, edges)
        for b in range(4):
            inside = (probs[:, k] > edges[b]) & (probs[:, k] <= edges[b + 1])
            assert own.counts[b] == inside.sum()
            assert own.proportions[b] == pytest.approx(inside.mean())
            if not inside.any():
                assert np.isnan([own.confidences[b], own.accuracies[b], classes.lows[k, b]]).all()
                continue
            hits = int((targets[inside] == k).sum())
            assert own.confidences[b] == pytest.approx(probs[inside, k].mean())
            assert own.accuracies[b] == pytest.approx(hits / inside.sum())
            exact = binomtest(hits, int(inside.sum())).proportion_ci(0.95, "exact")
            assert classes.lows[k, b] == pytest.approx(exact.low, abs=1e-12)
            assert own.highs is not None
            assert own.highs[b] == pytest.approx(exact.high, abs=1e-12)
            row = {name: values[listed] for name, values in columns.items()}
            assert (row["class"], row["left"], row["right"], row["count"]) == (k, edges[b], edges[b + 1], inside.sum())
            assert row["accuracy"] == own.accuracies[b]
            assert row["high"] == own.highs[b]
            listed += 1
    assert {len(values) for values in columns.values()} == {listed}


def test_every_class_judged_by_itself_has_the_same_bins() -> None:
    rng = np.random.default_rng(6)
    probs, targets = rng.dirichlet([1, 1, 3], 300), rng.integers(3, size=300)
    weights = rng.integers(1, 4, size=300)
    pooled = calibrant.evaluate(probs, targets, weights=weights, n_resamples=0).classwise
    single = calibrant.evaluate(probs, targets, weights=weights, n_resamples=0, notion="classwise").classwise
    assert pooled is not None
    assert single is not None
    for name in ("errors", "kept", "supports", "counts", "confidences", "accuracies", "lows", "highs", "edges"):
        np.testing.assert_allclose(getattr(pooled, name), getattr(single, name), atol=1e-12, err_msg=name)


def test_quantile_bins_of_classes_have_ends_of_their_own() -> None:
    rng = np.random.default_rng(7)
    probs, targets = rng.dirichlet([1, 2, 5], 90), rng.integers(3, size=90)
    found = calibrant.classwise_calibration(probs, targets, n_bins=3, binning="quantile", threshold=0.2)
    for k in range(3):
        own = found.diagram(k)
        kept = probs[:, k] >= 0.2
        assert own.counts.sum() == kept.sum()
        assert own.edges[-1] == 1.0
        for b in range(3):
            inside = kept & (probs[:, k] > own.edges[b]) & (probs[:, k] <= own.edges[b + 1])
            assert inside.sum() == own.counts[b]
    assert found.lows is None


# ---------------------------------------------------------------- frames and figures


def numbers_of(estimate: calibrant.Estimate) -> dict[str, Any]:
    floor = estimate.floor
    return {
        **{name: getattr(estimate, name) for name in ("value", "low", "high", "level", "p_value", "error_bound")},
        "floor_mean": math.nan if floor is None else floor.mean,
        "floor_upper": math.nan if floor is None else floor.upper,
    }


def test_a_frame_has_the_numbers_of_every_measure(report: calibrant.Report) -> None:
    pd = pytest.importorskip("pandas")
    frame = report.to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert frame.index.name == "measure"
    assert list(frame.index) == list(report)
    for name, estimate in report.items():
        row = frame.loc[name]
        for column, expected in numbers_of(estimate).items():
            np.testing.assert_array_equal(row[column], expected)  # NaN where there is none, inf where it is infinite
        assert (row["n"], row["method"], row["label"]) == (4, estimate.method, report.descriptions[name].label)
    assert np.isinf(frame.loc["nll", "value"])
    assert frame["value"].dtype == frame["p_value"].dtype == np.float64


def test_a_frame_of_groups_has_a_row_for_each_group_in_their_order() -> None:
    pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    p = rng.random(600)
    groups = np.array(["b", "a", "few"])[np.r_[np.arange(590) % 2, np.full(10, 2)]]
    found = calibrant.evaluate(p, rng.random(600) < p, groups=groups, n_resamples=0)
    frame = found.to_pandas(groups=True)
    assert list(frame.index) == [group.name for group in found.groups]
    for group in found.groups:
        row = frame.loc[group.name]
        ece = numbers_of(group.ece)
        for column in ("low", "high", "floor_mean", "floor_upper"):
            np.testing.assert_array_equal(row[column], ece[column])
        for column in ("n", "p_value", "adjusted_p_value", "called_out", "flag"):
            np.testing.assert_array_equal(row[column], getattr(group, column))
        assert (row["ece"], row["mean_gap"]) == (group.ece.value, group.mean_gap.value)
    assert frame["flag"]["few"]
    assert list(found.to_pandas().index) == list(found)
    match = "groups: expected a report on groups, got one without groups; evaluate with groups=..., a name for each row"
    with pytest.raises(InputError, match=re.escape(match)):
        calibrant.evaluate(p, rng.random(600) < p, n_resamples=0).to_pandas(groups=True)


def test_a_frame_of_a_comparison_has_every_difference_of_every_pair() -> None:
    pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    p = rng.random(500)
    found = calibrant.compare({"a": p, "b": p**2, "c": p**3}, rng.random(500) < p)
    frame = found.to_pandas()
    assert list(frame.index.names) == ["first", "second", "measure"]
    assert len(frame) == 3 * len(found.descriptions)
    for pair in found.pairs:
        for name in found.descriptions:
            row, estimate = frame.loc[(pair.first, pair.second, name)], pair[name]
            for column in ("value", "low", "high", "level", "p_value"):
                np.testing.assert_array_equal(row[column], getattr(estimate, column))
            assert np.isnan(row["p_value"]) == (name != found.decides)
    assert not {"floor_mean", "floor_upper"} & {*frame.columns}


def test_plot_draws_the_diagram_with_the_options_of_the_figure() -> None:
    plot = pytest.importorskip("calibrant.plot")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    rng = np.random.default_rng(0)
    p = rng.random(500)
    found = calibrant.evaluate(p, rng.random(500) < p, n_resamples=0)
    axes = found.plot(kind="points", number="smece")
    assert axes.texts[0].get_text().startswith("smooth ECE")
    assert (
        axes.get_xlabel() == plot.reliability_diagram(found, kind="points").get_xlabel() == "Mean predicted probability"
    )
    assert found.plot(ax=axes) is axes
    compared = calibrant.compare({"a": p, "b": p**2}, rng.random(500) < p)
    assert [text.get_text()[:3] for text in compared.plot().get_legend().get_texts()[:2]] == ["a (", "b ("]
    pyplot.close("all")


@pytest.mark.parametrize(
    ("package", "call", "extra"), [("pandas", "to_pandas", "pandas"), ("matplotlib", "plot", "report")]
)
def test_a_missing_package_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, report: calibrant.Report, package: str, call: str, extra: str
) -> None:
    for name in [own for own in sys.modules if own.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    compared = calibrant.compare([0.2, 0.4, 0.7], [0.3, 0.3, 0.9], [0, 1, 1])
    for result in (report, compared):
        with pytest.raises(MissingDependencyError, match=rf"^{package} is needed .*\[{extra}\]") as raised:
            getattr(result, call)()
        assert raised.value.extra == extra


# ---------------------------------------------------------------- two columns


def page_text(report: calibrant.Report, path: Path) -> str:
    report.to_html(path)
    return re.sub("<[^>]*>", "", path.read_text(encoding="utf-8"))


@pytest.mark.covering
@pytest.mark.parametrize("surface", ["text", "repr", "markdown", "page", "sketch", "comparison"])
@pytest.mark.parametrize("names", [None, ["ham", "spam"]])
def test_a_report_on_two_columns_names_the_event_that_it_does_not_judge(
    surface: str, names: list[str] | None, tmp_path: Path
) -> None:
    p, y = scored(200, 1.0)
    both = np.stack([1 - p, p], axis=1)
    sketch = calibrant.CalibrationSketch(classwise=True, class_names=names)
    sketch.update(both, y)
    report = calibrant.evaluate(both, y, class_names=names, n_resamples=0)
    line = {
        "text": lambda: str(report),
        "repr": lambda: repr(report),
        "markdown": report.to_markdown,
        "page": lambda: page_text(report, tmp_path / "report.html"),
        "sketch": lambda: str(calibrant.evaluate(sketch, n_resamples=0)),
        "comparison": lambda: str(calibrant.compare({"a": both, "b": both[:, ::-1]}, y)),
    }[surface]()
    name = "1" if names is None or surface == "comparison" else "spam"
    words = " ".join(line.replace("\xa0", " ").split())
    assert f"(event: the predicted class is correct; to evaluate class {name}, pass its column alone)" in words
    # The remedy: one column is the event, and its report names no other.
    event = calibrant.evaluate(both[:, 1], y, n_resamples=0)
    assert event.notion == "positive"
    assert "not the event" not in str(event)


def test_more_classes_name_no_single_event() -> None:
    probs = np.full((30, 3), 1 / 3)
    assert "not the event" not in str(calibrant.evaluate(probs, np.arange(30) % 3, n_resamples=0))


# ---------------------------------------------------------------- the order of the rows


def _shuffled_forms() -> dict[str, tuple[Any, Any, dict[str, Any]]]:
    rng = np.random.default_rng(31)
    n = 300
    z, classes = rng.normal(0, 1.5, n), rng.normal(0, 1, (n, 4))
    p, probs = 1 / (1 + np.exp(-z)), np.exp(classes) / np.exp(classes).sum(axis=1, keepdims=True)
    y, labels, several = (rng.random(n) < p).astype(int), rng.integers(0, 4, n), rng.integers(0, 2, (n, 4))
    weights, clusters, groups = rng.uniform(0.3, 3, n), np.arange(n) // 4, rng.integers(0, 3, n)
    return {
        "rows": (p, y, {}),
        "float32": (p.astype(np.float32), y, {}),
        "logits": (z, y, {"logits": True}),
        "weights": (p, y, {"weights": weights}),
        "whole weights": (p, y, {"weights": rng.integers(1, 4, n)}),
        "clusters": (p, y, {"clusters": clusters}),
        "clusters, weights": (p, y, {"clusters": clusters, "weights": weights}),
        "groups": (p, y, {"groups": groups, "clusters": clusters}),
        "classes": (probs, labels, {"weights": weights}),
        "logits of classes": (classes, labels, {"logits": True}),
        "classes, clusters": (probs, labels, {"clusters": clusters}),
        "classwise": (probs, labels, {"notion": "classwise", "clusters": clusters}),
        "several labels": (probs, several, {"notion": "multilabel", "weights": weights}),
    }


@pytest.mark.parametrize("n_resamples", [0, 49])
@pytest.mark.parametrize("form", _shuffled_forms())
def test_the_order_of_the_rows_changes_no_bit(form: str, n_resamples: int) -> None:
    probs, targets, options = _shuffled_forms()[form]
    texts = set()
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(probs))
        rows = {name: value[order] if isinstance(value, np.ndarray) else value for name, value in options.items()}
        texts.add(
            calibrant.evaluate(probs[order], targets[order], profile="all", n_resamples=n_resamples, **rows).to_json()
        )
    assert len(texts) == 1


def test_an_invalid_row_is_named_by_its_place_in_the_input() -> None:
    scores = np.full(50, 0.5)
    scores[[17, 30]] = 2.0
    with pytest.raises(InputError, match="row 17"):
        calibrant.evaluate(scores, np.arange(50) % 2)


@pytest.mark.parametrize("grouped", [False, True])
def test_predictions_and_clusters_remain_in_the_order_of_the_caller(grouped: bool) -> None:
    """Rows are summed in another order, but a caller's arrays, such as weights or groups, must fit what is held."""
    rng = np.random.default_rng(0)
    probs, targets, weights = rng.dirichlet([1, 1, 1], 60), rng.integers(-1, 3, 60), rng.integers(1, 4, 60)
    labels, groups = rng.integers(0, 20, 60), np.where(np.arange(60) < 25, "a", "b")
    options = {"weights": weights, "ignore_index": -1, "clusters": labels}
    data = evaluated_data.of_arguments(probs, targets, groups=groups if grouped else None, **options)
    rows = np.full(60, True)
    if grouped:
        data, rows = data.groups["a"], groups == "a"
    assert data.predictions.labels.tolist() == targets[rows].tolist()
    assert data.predictions.weights.tolist() == np.where(targets >= 0, weights, 0)[rows].tolist()
    np.testing.assert_array_equal(data.labels.hashes, as_clusters(labels, 60)[rows].hashes)


@pytest.mark.parametrize("path", ["predictions.csv", Path("predictions.csv")])
def test_a_path_is_no_array(path: Any) -> None:
    for function in (calibrant.evaluate, calibrant.recalibrate, calibrant.certify_threshold):
        with pytest.raises(InputError, match=r"^probs: expected an array, got a \w+; read the file first"):
            function(path)
