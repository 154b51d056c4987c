"""The report as a value: a mapping, a dictionary, a page of text."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import calibrant
from calibrant.report import MEASURES


@pytest.fixture
def report() -> calibrant.Report:
    probs = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4], [0.6, 0.4, 0.0]])
    return calibrant.evaluate(probs, [0, 1, 2, 2], n_bins=5, class_names=["<script>alert(1)</script>", "b", "c"])


def test_it_is_a_mapping_of_estimates(report: calibrant.Report) -> None:
    assert tuple(report) == MEASURES
    assert len(report) == len(MEASURES)
    assert all(isinstance(estimate, calibrant.Estimate) for estimate in report.values())
    assert float(report["accuracy"]) == report["accuracy"].value == 0.75
    with pytest.raises(KeyError):
        report["eces"]


def test_a_name_that_is_markup_is_text(report: calibrant.Report) -> None:
    page = report._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


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
