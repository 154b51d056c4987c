"""Profiles: which measures, curves and panels a report has, and the values behind them."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant import ReliabilityTable
from calibrant.measures.listed import of_profile
from calibrant.measures.profiles import PROFILES
from calibrant.measures.ranking.auroc import MOST_POINTS, roc_curve
from calibrant.render import svg
from calibrant.render.blocks import Table
from calibrant.render.figure import Figure
from calibrant.report.panel_document import panel_blocks
from tests.samples import draw

FEW: Any = {"n_resamples": 50}


def rows(seed: int = 0, n: int = 600) -> tuple[Any, Any]:
    return draw(seed, n, lambda p: p**1.3, decimals=2)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_report_has_what_its_profile_names(profile: str) -> None:
    report = calibrant.evaluate(*rows(), profile=profile, **FEW)
    assert list(report) == [measure.name for measure in of_profile(PROFILES[profile])]
    assert set(report.panels) == set(PROFILES[profile].panels)
    summary = json.loads(report.to_json())
    assert (summary["profile"], set(summary["panels"])) == (profile, set(report.panels))


# ---------------------------------------------------------------- the ROC curve


def test_the_roc_curve_is_counted_threshold_by_threshold() -> None:
    scores, outcomes = rows(1, 300)
    curve = calibrant.evaluate(scores, outcomes, profile="forecast", level=None).panels["roc_curve"]
    assert (curve.thresholds[0], curve.hits[0], curve.false_alarms[0]) == (math.inf, 0, 0)
    for t, hits, alarms in zip(curve.thresholds, curve.hits, curve.false_alarms, strict=True):
        called = scores >= t
        assert hits == (called & (outcomes == 1)).sum() / (outcomes == 1).sum()
        assert alarms == (called & (outcomes == 0)).sum() / (outcomes == 0).sum()
    assert len(curve.thresholds) == len(np.unique(scores)) + 1


def test_a_long_roc_curve_keeps_points_of_the_whole_one() -> None:
    scores, outcomes = draw(2, 5_000)
    curve = roc_curve(ReliabilityTable.from_scores(scores, outcomes))
    assert curve is not None
    assert len(curve.hits) <= MOST_POINTS
    assert (curve.hits[-1], curve.false_alarms[-1]) == (1, 1)
    for t, hits in zip(curve.thresholds[1:], curve.hits[1:], strict=True):
        assert hits == ((scores >= t) & outcomes).sum() / outcomes.sum()
    # No step between two points is larger than that of one point in 500, and one row.
    assert max(np.diff(curve.hits).max(), np.diff(curve.false_alarms).max()) <= 2 / (MOST_POINTS - 3) + 1 / 1_000


def test_outcomes_that_are_all_equal_have_no_roc_curve() -> None:
    report = calibrant.evaluate([0.2, 0.4, 0.9], [1, 1, 1], profile="forecast", level=None)
    assert "roc_curve" not in report.panels


# ---------------------------------------------------------------- what readers see


def grouped(profile: str = "clinical", **options: Any) -> calibrant.Report:
    rng = np.random.default_rng(7)
    scores = rng.random(900).round(3)
    hospitals = np.repeat(["north", "south", "west"], 300)
    outcomes = rng.random(900) < np.where(hospitals == "west", scores**2, scores)
    return calibrant.evaluate(scores, outcomes.astype(int), groups=hospitals, profile=profile, **{**FEW, **options})


def test_the_clinical_report_shows_decisions_and_hospitals_side_by_side() -> None:
    report = grouped()
    curve, text = report.panels["decision_curve"], str(report)
    assert isinstance(curve, calibrant.NetBenefit)
    assert set(report.forests) == {"oe_ratio", "calibration_slope", "auroc"}
    i = int(np.searchsorted(curve.thresholds, 0.3))
    cells = [
        f"{curve.net_benefit[i]:z.4f}",
        f"{curve.lows[i]:z.4f} – {curve.highs[i]:z.4f}",
        f"{curve.treat_all[i]:z.4f}",
    ]
    line = next(line for line in text.splitlines() if line.startswith("  0.30 "))
    assert all(cell in line for cell in cells)
    ratios = report.forests["oe_ratio"]
    for name, value in zip(ratios.groups, ratios.values, strict=True):
        own = next(group for group in report.groups if group.name == name)
        assert value == pytest.approx(own.report["oe_ratio"].value, rel=1e-12)
        section = text[text.index("O:E ratio by group") :]
        assert re.search(rf"\n  {name} +{value:.2f} +\d", section)
    assert ratios.p_value < 0.01
    assert "I² = " in " ".join(text.split())
    assert 'O:E ratio: the columns under "calibrated" are for |O:E - 1|' in text
    assert "accuracy" not in report
    assert "accuracy  " not in text


def test_a_narrow_terminal_loses_columns_and_no_line_is_too_long() -> None:
    from calibrant.render.terminal import Style, to_terminal

    document = grouped()._document()
    for width in (50, 60, 80, 120):
        text = to_terminal(document, style=Style(width=width))
        assert max(map(len, text.splitlines())) <= width, width
        assert "O:E ratio by group" in text
    assert "95 % CI  treat all" not in to_terminal(document, style=Style(width=30))


def pictures(report: calibrant.Report) -> dict[str, tuple[Figure, Table]]:
    """Return the curves of the profile with their numbers by their titles."""
    blocks = panel_blocks(report, full=True)
    figures = [block for block in blocks if isinstance(block, Figure)]
    tables = [block for block in blocks if isinstance(block, Table)]
    return {figure.title: (figure, table) for figure, table in zip(figures, tables, strict=True)}


@pytest.mark.parametrize(
    ("profile", "headings"),
    [
        ("clinical", ["Net benefit"]),
        ("forecast", ["Murphy curve", "ROC curve"]),
        ("standard", []),
    ],
)
def test_the_page_and_the_markdown_have_the_panels(profile: str, headings: list[str]) -> None:
    from calibrant.render import page

    report = grouped(profile)
    assert list(pictures(report)) == headings
    html, markdown = page.to_page(report._document(full=True)), report.to_markdown()
    for heading, (_, table) in pictures(report).items():
        assert f"<h2>{heading}</h2>" in html
        assert f'download="{table.filename}"' in html
        assert (f"### {heading}" in markdown) == (heading != "ROC curve")
    assert ("O:E ratio by group" in html) == (profile == "clinical")
    for place in (html, markdown.replace("'", "&#39;")):
        assert (f"{profile}: {PROFILES[profile].meaning}" in place.replace("&#58;", ":")) == (profile != "standard")
        assert ("Cochran&#39;s Q test of homogeneity: p" in place) == (profile == "clinical")
    assert ("### O&#58;E ratio by group" in markdown or "### O:E ratio by group" in markdown) == (profile == "clinical")


def test_the_table_behind_a_picture_has_every_number() -> None:
    report = grouped("forecast")
    (_, murphy), (_, roc) = pictures(report).values()
    curve = report.panels["murphy_curve"]
    assert murphy.exact["score"] == curve.scores.tolist()
    rate = report.outcome_rate
    assert murphy.exact["base_rate"] == pytest.approx([min(t * (1 - rate), (1 - t) * rate) for t in curve.thresholds])
    assert np.isnan(roc.exact["threshold"][0])
    assert roc.exact["hits"] == report.panels["roc_curve"].hits.tolist()


@pytest.mark.parametrize("largest", [0.013, 0.037, 0.11, 0.23, 0.47, 0.77, 0.999])
def test_the_thresholds_of_a_table_are_multiples_of_a_round_step(largest: float) -> None:
    """The range of the scores is odd, but the thresholds are multiples of the step, after the round ones below it."""
    rng = np.random.default_rng(3)
    scores = largest * rng.random(3_000)
    outcomes = rng.random(3_000) < scores
    for profile, title in (("clinical", "Net benefit"), ("forecast", "Murphy curve")):
        _, table = pictures(calibrant.evaluate(scores, outcomes, profile=profile, level=None))[title]
        listed = [float(table.columns[0].texts[place]) for place in table.places]
        step = min(step for step in (0.01, 0.02, 0.05, 0.1) if listed[-1] / step <= 11)
        below = [threshold for threshold in (0.01, 0.02, 0.05) if threshold < step]
        multiples = [step * (i + 1) for i in range(len(listed) - len(below))]
        assert listed == pytest.approx([*below, *multiples])


def test_lines_stay_within_the_chart() -> None:
    report = calibrant.evaluate([0.01, 0.02, 0.9, 0.95] * 20, [0, 0, 1, 0] * 20, profile="clinical", **FEW)
    ((picture, _),) = pictures(report).values()
    lines = re.findall(r'<path class="(?:curve|other)" d="([^"]+)"', svg.picture(picture))
    assert len(lines) == 2
    for path in lines:
        points = [tuple(map(float, point.split())) for point in path[1:].split("L")]
        assert all(56 <= x <= 428 and 10 <= y <= 300 for x, y in points)


def test_rows_in_clusters_have_a_decision_curve_with_intervals_by_cluster() -> None:
    report = grouped(clusters=np.repeat(np.arange(90), 10))
    curve = report.panels["decision_curve"]
    assert np.isfinite(curve.lows).any()
    assert curve.method.endswith("; by cluster")
    assert pictures(report)["Net benefit"][0].y.high >= np.nanmax(curve.highs)
    text = " ".join(str(report).split())
    assert "needs at least 30 treated rows of 10 clusters" in text
    assert "needs at least 30 treated rows." in " ".join(str(grouped()).split())


def test_a_report_on_every_class_has_no_panels() -> None:
    probs = np.random.default_rng(0).dirichlet(np.ones(3), 60)
    report = calibrant.evaluate(probs, np.arange(60) % 3, notion="classwise", profile="clinical", **FEW)
    assert dict(report.panels) == {}
    assert "Net benefit" not in str(report)


def test_the_command_takes_a_profile(tmp_path: Any) -> None:
    from tests.in_process import fail, run

    path = tmp_path / "risks.csv"
    scores, outcomes = rows()
    path.write_text("risk,died\n" + "".join(f"{p},{y}\n" for p, y in zip(scores, outcomes, strict=True)))
    asked = ["report", path, "--score", "risk", "--outcome", "died", "--n-resamples", "20"]
    assert "Net benefit" in run(*asked, "--profile", "clinical")[1]
    only = run(*asked, "--profile", "clinical", "--measures", "ece")[1]
    assert "Net benefit" in only
    assert "calibration slope  " not in only
    for options, remedy in (
        ("--profile clincal", "did you mean 'clinical'?"),
        ("--measures clinical", "pass --profile clinical"),
        (
            "--profile clinical --fail-if accuracy<0.5",
            "--profile clinical leaves accuracy out; list the measures with --measures accuracy,...",
        ),
    ):
        assert remedy in fail(*asked, *options.split(), status=2)
