"""The report as a value: a mapping, a dictionary, a page of text."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy.stats import binomtest

import calibrant
from calibrant.measures import MEASURES


@pytest.fixture
def report() -> calibrant.Report:
    probs = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4], [0.6, 0.4, 0.0]])
    return calibrant.evaluate(probs, [0, 1, 2, 2], n_bins=5, class_names=["<script>alert(1)</script>", "b", "c"])


def test_it_is_a_mapping_of_estimates(report: calibrant.Report) -> None:
    assert tuple(report) == tuple(measure.name for measure in MEASURES)
    assert len(report) == len(MEASURES)
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
    assert "1 prediction · judged" in said
    assert "(-100.0 to +50.0 points)" in said
    assert "Neither over- nor under-confident" in said
    assert "the outcome is the same in every row: intervals may be too short" in said
    rng = np.random.default_rng(0)
    probs = rng.random(300)
    said = " ".join(str(calibrant.evaluate(probs, rng.random(300) < probs, n_resamples=0)).split())
    assert "Neither over- nor under-confident, as far as these rows can tell (" in said


def test_scores_of_the_other_outcome_are_asked_about() -> None:
    rng = np.random.default_rng(1)
    probs = rng.random(400)
    outcomes = rng.random(400) < probs
    caution = (
        "the event happens less often the higher the score: are the scores, or the columns, those of another outcome?"
    )
    for scores, expected in ((probs, False), (1 - probs, True), (rng.random(400), False), (np.full(400, 0.3), False)):
        assert (caution in " ".join(str(calibrant.evaluate(scores, outcomes, n_resamples=0)).split())) == expected


def test_a_negative_debiased_square_is_explained() -> None:
    said = str(
        calibrant.evaluate([0.25] * 40 + [0.75] * 40, ([0] * 3 + [1]) * 10 + ([1] * 3 + [0]) * 10, n_resamples=0)
    )
    assert "squared CE: below 0 by chance" in said


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
    assert summary["not_finite"]["estimates.nll.value"] == "infinite: an outcome that happened had probability 0"
    assert summary["diagram"]["accuracies"][0] is None
    assert summary["not_finite"]["diagram.accuracies[0]"] == "the bin is empty"


def test_the_printed_report_shows_bars_and_marks_where_they_belong() -> None:
    # Ten rows claimed at .75, five of them right: a bar to the middle, a mark at three quarters.
    lines = str(calibrant.evaluate([0.75] * 10, [1, 0] * 5, n_bins=2)).splitlines()
    row = next(line for line in lines if line.lstrip().startswith("0.500 – 1.000"))
    bar = row[row.index("+0.250") + len("+0.250   ") :]
    assert bar == "█" * 14 + "░" * 7 + "┃"  # 28 characters from 0 to 1
    text = " ".join(str(calibrant.evaluate([0.75] * 10, [1, 0] * 5, n_bins=2, level=None)).split())
    assert "Too high by 25.0 points on average" in text
    assert "Over-confident by 25.0 points" in text


def test_words_for_scores_that_are_right_on_average() -> None:
    text = str(calibrant.evaluate([0.25] * 4 + [0.75] * 4, [1, 0, 0, 0, 1, 1, 1, 0], level=None))
    assert "Neither too high nor too low on average" in text
    assert "Neither over- nor under-confident" in text
    assert "A monotone recalibration could not lower the Brier score of the judged event" in text


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
