"""Pictures of groups: forests with the pooled value and the prediction interval, and groups of time as a line."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import numpy as np
import pytest

import calibrant
from calibrant.inputs.group_rows import are_times
from calibrant.render import svg
from calibrant.render.blocks import Table
from calibrant.render.figure import Axis, Figure, Name
from calibrant.render.row_figures import Row, rows_figure
from calibrant.report.group_document import group_blocks
from calibrant.results import Estimate

N = 3_000
SCORES = np.random.default_rng(1).beta(1, 3, N)
OUTCOMES = np.random.default_rng(2).random(N) < SCORES


def clinical(names: list[str], **options: object) -> calibrant.Report:
    return calibrant.evaluate(
        SCORES,
        OUTCOMES,
        profile="clinical",
        n_resamples=0,
        groups=np.array(names)[np.arange(N) % len(names)],
        **options,
    )


def figures(report: calibrant.Report) -> dict[str, Figure]:
    """Return the charts of the groups by their titles."""
    return {block.title: block for block in group_blocks(report, full=True) if isinstance(block, Figure)}


def test_a_forest_has_the_pooled_value_and_a_prediction_interval() -> None:
    report = clinical(["a", "b", "c", "d"])
    forest = report.forests["oe_ratio"]
    assert forest.pooled_low < forest.pooled < forest.pooled_high
    assert forest.prediction_low < forest.pooled_low < forest.pooled_high < forest.prediction_high
    assert forest.weights is not None
    assert forest.weights.sum() == pytest.approx(1)
    picture = figures(report)["O:E ratio by group"]
    assert [name.parts[0] for name in picture.y.names.values()] == [*forest.groups, "pooled", "prediction"]
    tables = {block.name: block for block in group_blocks(report, full=True) if isinstance(block, Table)}
    table = tables["oe-ratio-of-groups"]
    assert table.headings == ["group", "O:E ratio", "95 % CI", "weight"]
    assert table.exact["weight"] == forest.weights.tolist()
    assert table.cells(4)[:3] == [
        "pooled",
        f"{forest.pooled:.2f}",
        f"{forest.pooled_low:.2f} – {forest.pooled_high:.2f}",
    ]
    said = f"Pooled {forest.pooled:.2f} (95 % CI {forest.pooled_low:.2f} to {forest.pooled_high:.2f}; 95 % prediction"
    assert said in picture.caption
    assert said in " ".join(str(report).split())


def test_two_groups_have_no_prediction_interval() -> None:
    forest = clinical(["a", "b"]).forests["oe_ratio"]
    assert math.isfinite(forest.pooled)
    assert math.isnan(forest.prediction_low)


@pytest.mark.parametrize("shared", [False, True])
def test_clusters_in_several_groups_are_not_pooled(shared: bool) -> None:
    group_of = np.arange(N) % 3
    clusters = np.arange(N) // 30 if shared else np.arange(N) // 30 * 3 + group_of
    report = calibrant.evaluate(
        SCORES, OUTCOMES, profile="clinical", n_resamples=0, groups=np.array(list("abc"))[group_of], clusters=clusters
    )
    assert math.isnan(report.forests["oe_ratio"].pooled) == shared
    assert ("Pooled" in str(report)) == (not shared)


def test_without_intervals_nothing_is_pooled() -> None:
    report = clinical(["a", "b", "c"], level=None)
    assert math.isnan(report.forests["auroc"].pooled)
    assert "pooled" not in [name.parts[0] for name in figures(report)["AUROC by group"].y.names.values()]


def test_ratios_have_a_logarithmic_axis() -> None:
    assert figures(clinical(["a", "b", "c"]))["O:E ratio by group"].x.scale == "log"
    ticks = Axis("", 0.5, 2.0, "log").ticks()
    assert 3 <= len(ticks) <= 8
    assert ticks[0] == (0.5, "0.5")
    assert [text for _, text in Axis("", 0.93, 1.12, "log").ticks()] == ["0.95", "1.00", "1.05", "1.10"]
    rows = [Row(Name(("a",)), Estimate(value), "dot", "") for value in (0.5, 1.0, 2.0)]
    figure = rows_figure("ratios", rows, {"dot": ""}, "", level=None, around=1.0, ratio=True)
    (dots,) = re.findall('<path class="dot" d="([^"]+)"', svg.picture(figure))
    places = [float(x) for x in re.findall(r"M([\d.]+) ", dots)]
    assert places[1] - places[0] == pytest.approx(places[2] - places[1], abs=0.11)


def test_groups_of_time_are_a_line_in_order() -> None:
    months = [f"2025-{month:02d}" for month in range(1, 7)]
    report = clinical(months)
    picture = figures(report)["Difference over time"]
    texts = re.findall("<title>(.*?)</title>", svg.picture(picture))
    assert len(texts) == 6
    assert [name.parts for name in picture.x.names.values()][::5] == [("2025-01",), ("2025-06",)]
    assert texts[0].startswith("2025-01: difference ")
    assert "Difference over time" not in figures(clinical(["a", "b", "c"]))


@pytest.mark.parametrize(
    ("names", "times"),
    [
        (["2025-01", "2025-02", "2025-03"], True),
        (["2025-W01", "2025-W02", "2025-W03"], True),
        (["2019", "2020", "2021"], True),
        (["2025-01", "2025-02"], False),
        (["1", "2", "3"], False),
        (["2019", "2025-01", "2021"], False),
    ],
)
def test_names_that_are_times(names: list[str], times: bool) -> None:
    assert are_times(names) == times


def test_the_blocks_of_groups_need_no_report_on_a_group() -> None:
    report = clinical(["a", "b", "c"])
    for full in (True, False):
        group_blocks(report, full=full)
    assert not any("value" in vars(group.whole) for group in report.groups)


@pytest.mark.every_value
@pytest.mark.parametrize("low", [0.2, 0.81, 0.93, 1.3, 7.1])
@pytest.mark.parametrize("ratio", [1.02, 1.1, 1.35, 1.9, 4.0, 60.0, 5_000.0])
def test_texts_on_a_logarithmic_axis_do_not_touch(low: float, ratio: float) -> None:
    """Of an axis 240 pixels long, as a small figure on paper has; ticks reach over the range."""
    high = low * ratio
    ticks = Axis("", low, high, "log").ticks()
    places = [240 * math.log(value / low) / math.log(ratio) for value, _ in ticks]
    assert 2 <= len(ticks) <= 7
    assert all(low * (1 - 1e-9) <= value <= high * (1 + 1e-9) for value, _ in ticks)
    for (one, other), (_, text) in zip(pairwise(places), ticks, strict=False):
        assert other - one > 6.0 * len(text)
