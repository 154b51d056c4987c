"""The page of a report: its numbers are those of `to_dict`, its pictures stand where the numbers say, texts are texts.

What needs a browser is in test_page.py.
"""

from __future__ import annotations

import csv
import io
import json
import pickle
import re
import subprocess
import sys
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest

import calibrant
from calibrant.errors import MissingDependencyError
from calibrant.measures.listed import MEASURES
from calibrant.render import page as pages
from calibrant.render import svg, words
from calibrant.render.blocks import Column, Source, Table
from calibrant.render.figure import Name, Points, brief
from calibrant.render.reliability import diagram_figure
from calibrant.render.shown import NO_SOURCE
from calibrant.report import class_document
from calibrant.report.measure_document import noise_figure, shown_estimates
from tests.in_process import fail, run, succeed
from tests.samples import draw, draw_classes

EVIL = "<script>alert('x')</script>&\"',\n;\x00\ud800 Ω"


@dataclass
class Page(HTMLParser):
    """What stands on a page: the cells of its tables, its links, its elements with their attributes, its text."""

    tables: list[list[list[str]]] = field(default_factory=list)
    elements: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def __hash__(self) -> int:
        return id(self)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        elif tag == "title":
            self.titles.append("")
        if tag not in ("meta", "link", "input", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("style", "script"):
            return
        self.text.append(data)
        if "title" in self.open:
            self.titles[-1] += data
        if "td" in self.open or "th" in self.open:
            self.tables[-1][-1][-1] += data

    def all(self, tag: str, **attributes: str) -> list[dict[str, str]]:
        """Return the attributes of elements; the class by one of its words."""
        of = attributes.pop("of", None)
        return [
            own
            for name, own in self.elements
            if name == tag
            and (of is None or of in own.get("class", "").split())
            and all(own.get(key) == value for key, value in attributes.items())
        ]

    def files(self) -> dict[str, list[dict[str, str]]]:
        """Return the rows of the CSV files that can be downloaded."""
        found = {}
        for link in self.all("a"):
            start, _, data = link["href"].partition(",")
            assert start == "data:text/csv;charset=utf-8"
            found[link["download"]] = list(csv.DictReader(io.StringIO(unquote(data))))
        return found


def read(text: str) -> Page:
    page = Page()
    page.feed(text)
    page.close()
    assert page.open == []
    return page


def page_of(result: Any, source: Source = NO_SOURCE, **words: str) -> str:
    """Return the page of a result."""
    return pages.to_page(result._document(source, full=True), **words)


def classes(n: int = 900, c: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    probs, targets = draw_classes(seed, n, np.full(c, 0.4))
    sharp = probs**1.6
    return sharp / sharp.sum(axis=1, keepdims=True), targets


@pytest.fixture(scope="module")
def report() -> calibrant.Report:
    probs, targets = classes()
    groups = np.array(["a", "b", "small"])[np.arange(900) % 451 // 225]
    return calibrant.evaluate(probs, targets, groups=groups, class_names=["w", "x", "y", "z"], n_resamples=199)


@pytest.fixture(scope="module")
def page(report: calibrant.Report) -> Page:
    return read(page_of(report, title="a title"))


def numbers(rows: list[dict[str, str]], name: str) -> list[float | None]:
    return [None if row[name] == "" else float(row[name]) for row in rows]


# ---------------------------------------------------------------- the numbers


def test_the_file_of_measures_holds_the_numbers_of_the_report_to_the_last_bit(
    report: calibrant.Report, page: Page
) -> None:
    summary, rows = report.to_dict(), page.files()["measures.csv"]
    assert {row["measure"] for row in rows} == set(summary["estimates"])
    for row in rows:
        own = summary["estimates"][row["measure"]]
        floor = own["floor"] or {"mean": None, "upper": None}
        expected = [own["value"], own["low"], own["high"], floor["mean"], floor["upper"], own["p_value"]]
        expected.append(own["error_bound"])
        assert [numbers([row], name)[0] for name in list(row)[1:]] == expected


def test_the_table_of_measures_shows_them_with_four_digits(report: calibrant.Report, page: Page) -> None:
    table = next(own for own in page.tables if own[0][0] == "measure")
    assert table[0] == ["measure", "estimate", "95 % CI", "calibrated: mean", "calibrated: 95 % below", "p"]
    shown = {row[0]: row[1:] for row in table[1:]}
    ece = report["ece"]
    assert ece.floor is not None
    assert report.test is not None
    least = report.test.details["least_p_value"]  # no less can be told by 199 resamples
    assert shown["ECE"] == [
        f"{ece.value:.4f}",
        f"{ece.low:.4f} – {ece.high:.4f}",
        f"{ece.floor.mean:.4f}",
        f"{ece.floor.upper:.4f}",
        f"≤ {least:.3f}" if ece.p_value == least else f"{ece.p_value:.3f}",
    ]
    assert shown["mean difference"][0] == f"{report['mean_gap'].value:+.4f}"
    assert shown["accuracy"][2:] == ["", "", ""]


def test_the_files_of_the_diagram_and_the_curves_are_exact(report: calibrant.Report, page: Page) -> None:
    summary, files = report.to_dict(), page.files()
    bins, rows = summary["diagram"], files["reliability-diagram.csv"]
    filled = [b for b, said in enumerate(bins["confidences"]) if said is not None]
    assert numbers(rows, "left") == [bins["edges"][b] for b in filled]
    assert numbers(rows, "right") == [bins["edges"][b + 1] for b in filled]
    for name, key in {
        "count": "counts",
        "proportion": "proportions",
        "confidence": "confidences",
        "accuracy": "accuracies",
        "low": "lows",
        "high": "highs",
        "band_low": "band_lows",
        "band_high": "band_highs",
    }.items():
        assert numbers(rows, name) == [bins[key][b] for b in filled], name
    for kind, curve in summary["curves"].items():
        rows = files[f"{kind}-curve.csv"]
        assert numbers(rows, "score") == curve["scores"]
        assert numbers(rows, "rate") == curve["rates"]
        assert numbers(rows, "confidence_low") == curve["confidence_lows"]
        assert numbers(rows, "consistency_high") == curve["consistency_highs"]


def test_the_files_of_classes_and_groups_are_exact(report: calibrant.Report, page: Page) -> None:
    summary, files = report.to_dict(), page.files()
    own, rows = summary["classwise"], files["classes.csv"]
    order = sorted(range(4), key=lambda k: -own["errors"][k])
    assert [row["class"] for row in rows] == ["wxyz"[k] for k in order]
    assert numbers(rows, "ece") == [own["errors"][k] for k in order]
    assert numbers(rows, "rows") == [own["supports"][k] for k in order]
    rows = files["class-bins.csv"]
    for name in ("left", "right", "count", "confidence", "accuracy", "low", "high"):
        assert numbers(rows, name) == own["bins"][name], name
    assert [int(row["index"]) for row in rows] == own["bins"]["class"]
    assert [row["class"] for row in rows] == ["wxyz"[k] for k in own["bins"]["class"]]
    rows = files["groups.csv"]
    for row, group in zip(rows, summary["groups"], strict=True):
        ece = group["report"]["estimates"]["ece"]
        assert (row["group"], int(row["rows"])) == (group["name"], group["report"]["n"])
        assert numbers([row], "ece") == [ece["value"]]
        assert numbers([row], "high") == [ece["high"]]
        assert numbers([row], "adjusted_p_value") == [group["adjusted_p_value"]]
        assert row["called_out"] == str(group["called_out"])
        assert row["flag"] == group["flag"]
    assert any(group["flag"] for group in summary["groups"])


# ---------------------------------------------------------------- the pictures


def test_bins_stand_where_their_numbers_say(report: calibrant.Report, page: Page) -> None:
    bins = report.diagram
    assert bins is not None
    assert bins.lows is not None
    assert bins.highs is not None
    filled = np.flatnonzero(bins.counts)
    ends = next(own["d"] for own in page.all("path", of="whisker") if "bins" in own["class"].split())
    dots = [own for own in page.all("circle", of="hit") if own["r"] == "11"]
    for b, dot, end in zip(filled, dots, re.findall(r"M(\S+) (\S+)V([^M]+)", ends), strict=True):
        assert float(dot["cx"]) == pytest.approx(48 + 380 * bins.confidences[b], abs=0.051)
        assert float(dot["cy"]) == pytest.approx(390 - 380 * bins.accuracies[b], abs=0.051)
        x, low, high = map(float, end)
        assert x == float(dot["cx"])
        assert low == pytest.approx(390 - 380 * bins.lows[b], abs=0.051)
        assert high == pytest.approx(390 - 380 * bins.highs[b], abs=0.051)
    assert bins.band_lows is not None
    assert bins.band_highs is not None
    bands = next(own["d"] for own in page.all("path", of="band") if "bins" in own["class"].split())
    for b, band in zip(filled, re.findall(r"M([\d.]+) ([\d.]+)H[\d.]+V([\d.]+)H", bands), strict=True):
        left, top, bottom = map(float, band)
        assert left == pytest.approx(48 + 380 * bins.edges[b], abs=0.051)
        assert top == pytest.approx(390 - 380 * bins.band_highs[b], abs=0.051)
        assert bottom == pytest.approx(390 - 380 * bins.band_lows[b], abs=0.051)


def test_a_bin_outside_its_band_is_a_diamond(report: calibrant.Report, page: Page) -> None:
    bins = report.diagram
    assert bins is not None
    assert bins.band_lows is not None
    assert bins.band_highs is not None
    outside = (bins.accuracies < bins.band_lows) | (bins.accuracies > bins.band_highs)
    assert 0 < outside.sum() < (bins.counts > 0).sum()
    said = [title for title in page.titles if "; consistency band " in title]
    assert len(said) >= (bins.counts > 0).sum()
    assert sum(title.endswith(" (outside)") for title in said) == outside.sum()


def test_the_histogram_has_right_above_and_wrong_below(report: calibrant.Report, page: Page) -> None:
    bins = report.diagram
    assert bins is not None
    filled = np.flatnonzero(bins.counts)
    hits = np.rint(bins.counts * np.nan_to_num(bins.accuracies))
    room = hits.max() + (bins.counts - hits).max()
    for name, rows in (("up", hits), ("down", bins.counts - hits)):
        ends = re.findall(r"M\S+ ([\d.]+)H[\d.]+V([\d.]+)H", page.all("path", of=name)[0]["d"])
        for b, (top, bottom) in zip(filled[rows[filled] > 0], ends, strict=True):
            assert float(bottom) - float(top) == pytest.approx(max(84 * rows[b] / room, 0.8), abs=0.11)
    assert sum(bool(re.search(r": \d+ correct, \d+ incorrect$", title)) for title in page.titles) == len(filled)


def test_each_point_says_its_numbers(report: calibrant.Report, page: Page) -> None:
    bins = report.diagram
    assert bins is not None
    assert bins.lows is not None
    assert bins.highs is not None
    b = int(np.argmax(bins.counts))
    said = next(title for title in page.titles if title.startswith(f"{bins.edges[b]:.3f} to {bins.edges[b + 1]:.3f}: "))
    assert f"{bins.counts[b]} rows" in said
    assert f"predicted {bins.confidences[b]:.3f}, observed {bins.accuracies[b]:.3f}" in said
    assert f"95 % CI {bins.lows[b]:.3f} to {bins.highs[b]:.3f}" in said


def test_the_verdict_stands_out_where_the_scores_are_miscalibrated(report: calibrant.Report, page: Page) -> None:
    assert report["ece"].p_value < 0.05
    assert page.all("h2", of="verdict")[0]["class"].split() == ["verdict", "bad"]
    fine = calibrant.evaluate([0.25] * 40 + [0.75] * 40, ([0] * 3 + [1]) * 10 + ([1] * 3 + [0]) * 10, n_resamples=200)
    assert fine["ece"].p_value > 0.05
    assert read(page_of(fine)).all("h2", of="verdict")[0]["class"].split() == ["verdict"]


def test_curves_go_through_their_points(report: calibrant.Report, page: Page) -> None:
    paths = [own["d"] for own in page.all("path", of="curve") if "H" not in own["d"]]
    for path, curve in zip(paths, report.curves.values(), strict=True):
        points = np.array([point.split() for point in path.removeprefix("M").split("L")], dtype=float)
        np.testing.assert_allclose(points[:, 0], 48 + 380 * curve.scores, atol=0.051)
        np.testing.assert_allclose(points[:, 1], 390 - 380 * curve.rates, atol=0.051)


def test_small_diagrams_of_classes_hold_their_bins(report: calibrant.Report, page: Page) -> None:
    found = report.classwise
    assert found is not None
    tiles = [own for own in page.all("li") if "data-error" in own]
    assert [float(own["data-error"]) for own in tiles] == sorted(found.errors, reverse=True)
    first = int(tiles[0]["data-index"])
    at = page.elements.index(("li", tiles[0]))
    svg = [own for name, own in page.elements[at : at + 12] if name == "path" and own["class"].startswith("points")]
    drawn = {tuple(map(float, pair.split())) for own in svg for pair in re.findall(r"M([\d.]+ [\d.]+)h0", own["d"])}
    filled = found.counts[first] > 0
    expected = {
        (round(100 * p, 1), round(100 * (1 - rate), 1))
        for p, rate in zip(found.confidences[first][filled], found.accuracies[first][filled], strict=True)
    }
    assert drawn == expected
    sizes = {own["class"] for own in svg}
    assert sizes <= {"points p4", "points p7", "points p11"}
    assert "points p11" in sizes


def test_rows_of_the_chart_lie_beside_their_floors(report: calibrant.Report, page: Page) -> None:
    title = next(own for own in page.titles if own.startswith("ECE: "))
    ece = report["ece"]
    assert ece.floor is not None
    assert f"ECE: {ece.value:.4f}; 95 % CI {ece.low:.4f} – {ece.high:.4f}" in title
    assert f"calibrated: mean {ece.floor.mean:.4f}, 95 % below {ece.floor.upper:.4f}" in title
    names = ("ece", "ace", "classwise_ece", "smece", "rmsce", "mce", "ks")
    top = max(max(report[n].high, report[n].floor.upper) for n in names)  # type: ignore[union-attr]
    boxes = next(own["d"] for own in page.all("path", of="noise") if own["d"].count("Z") == len(names))
    for name, (left, right) in zip(names, re.findall(r"M([\d.]+) [\d.]+H([\d.]+)V", boxes), strict=True):
        floor = report[name].floor
        assert floor is not None
        for place, value in ((left, floor.mean), (right, floor.upper)):
            assert float(place) == pytest.approx(166 + 262 * (0.04 + value / top) / 1.08, abs=0.051)


def test_a_chart_has_room_for_every_label() -> None:
    for measure in MEASURES:
        assert svg.fit(Name((measure.label,)), svg.NAME_WIDTH) == measure.label


@pytest.mark.parametrize(
    ("first", "second", "label"),
    [
        ("p", "p2", "p − p2"),
        ("p", "a_very_long_model_name", "p − a_very_long_model…"),
        ("a_very_long_model_name", "p", "a_very_long_model… − p"),
        ("a_very_long_model_name", "another_long_name", "a_very_l… − another_…"),
    ],
)
def test_a_short_name_leaves_its_room_to_the_other_name_of_a_pair(first: str, second: str, label: str) -> None:
    fitted = svg.fit(Name((first, second)), svg.NAME_WIDTH)
    assert fitted == svg.fit(Name((fitted,)), svg.NAME_WIDTH) == label
    assert svg.fit(Name((first, second), after=f", {'p' * 20}"), svg.NAME_WIDTH) == label


# ---------------------------------------------------------------- the histogram, and axes of rare events


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (13675.83, "13,676"),
        (553.0000000001, "553"),
        (100.4, "100"),
        (7.25, "7.25"),
        (0, "0"),
        (99_999, "99,999"),
        (123_456, "123k"),
        (1_234_567, "1.23M"),
    ],
)
def test_labels_of_the_histogram_are_short_and_have_no_empty_decimals(count: float, text: str) -> None:
    assert brief(count) == text
    assert len(text) <= 6


def test_labels_of_the_histogram_fit_left_of_it() -> None:
    rng = np.random.default_rng(3)
    p = rng.beta(1, 3, 40_000)
    found = calibrant.evaluate(p, rng.random(40_000) < p, weights=rng.random(40_000), n_resamples=0)
    assert found.diagram is not None
    below = diagram_figure(found.diagram, "positive").below
    assert below is not None
    texts = [text for _, text in below.y.ticks()]
    largest = (found.diagram.counts * (1 - np.nan_to_num(found.diagram.accuracies)))[0]
    assert f"{largest:,.0f}" in texts
    assert not any("." in text for text in texts)


def rare_events() -> calibrant.Report:
    """Scores from 0.001 % to 1 %, and one group of scores whose event never happened."""
    rng = np.random.default_rng(8)
    p = 10 ** rng.uniform(-5, -2, 60_000)
    return calibrant.evaluate(p, rng.random(60_000) < p, n_resamples=0)


def test_axes_of_rare_events_show_log_odds_in_per_cent() -> None:
    found = rare_events()
    page = read(page_of(found))
    ticks = {"0.001 %": 1e-5, "0.01 %": 1e-4, "0.1 %": 1e-3, "1 %": 1e-2}
    logit = {text: np.log(p / (1 - p)) for text, p in ticks.items()}
    low, high = logit["0.001 %"], logit["1 %"]
    assert found.diagram is not None
    picture = svg.picture(diagram_figure(found.diagram, "positive", curves=found.curves))
    below = re.findall(r'<text class="tick" x="(\S+)" y="\S+" text-anchor="middle">(.*?)</text>', picture)
    places = {text: float(x) for x, text in below}
    assert places == {text: round(48 + 380 * (logit[text] - low) / (high - low), 1) for text in ticks}
    assert set(ticks) <= set(page.text)
    curve = found.curves["isotonic"]
    path = page.all("path", of="curve")[0]["d"]
    drawn = np.array([point.split() for point in path.removeprefix("M").split("L")], dtype=float)
    scores, rates = (np.clip(values, 1e-5, 1e-2) for values in (curve.scores, curve.rates))
    for values, column, start, end in ((scores, 0, 48, 428), (rates, 1, 390, 10)):
        expected = start + (np.log(values / (1 - values)) - low) / (high - low) * (end - start)
        np.testing.assert_allclose(drawn[:, column], expected, atol=0.051)
    assert (curve.rates == 0).any()  # they stand on the frame, which the caption says
    text = "".join(page.text)
    assert "Both axes show log-odds, because the predicted probabilities are small. " in text
    assert "Values below 0.001 % or above 1 %, and frequencies of 0 and 1, are drawn on the frame." in text


def test_a_page_of_rare_events_writes_scores_with_three_digits_and_shows_the_curve_first() -> None:
    page = read(page_of(rare_events()))
    table = next(own for own in page.tables if own[0][0] == "score")
    assert float(table[1][3]) == pytest.approx(
        float(page.files()["reliability-diagram.csv"][0]["confidence"]), rel=5e-3
    )
    assert [own["class"] for own in page.all("input", type="radio") if "checked" in own] == ["r-isotonic"]


def test_usual_scores_keep_axes_of_equal_steps(page: Page) -> None:
    assert "both axes show log-odds" not in "".join(page.text)
    assert [own["class"] for own in page.all("input", type="radio") if "checked" in own] == ["r-bins"]


@pytest.mark.parametrize(("scores", "rare"), [([0.02] * 9 + [0.1], True), ([0.02] * 8 + [0.1] * 2, False)])
def test_scores_are_rare_below_a_mean_of_three_per_cent(scores: list[float], rare: bool) -> None:
    found = calibrant.evaluate(scores * 10, [0, 1] * 50, n_resamples=0)
    assert found.diagram is not None
    assert words.is_rare(found.diagram) == rare


# ---------------------------------------------------------------- remarks on intervals


@pytest.mark.parametrize(
    ("low", "p", "explained"), [(0.0, 0.04, True), (0.0, 0.05, True), (0.0, 0.06, False), (1e-9, 0.04, False)]
)
def test_a_low_end_of_zero_is_explained_where_the_p_value_is_small(low: float, p: float, explained: bool) -> None:
    rng = np.random.default_rng(5)
    scores = rng.random(300)
    found = calibrant.evaluate(scores, rng.random(300) < scores, measures=["ece"], n_resamples=0)
    found = replace(found, estimates={"ece": replace(found["ece"], low=low, p_value=p)})
    sentence = (
        "ECE: the lower end of the CI is 0 although p is small, because the lower end is conservative: it is "
        "above 0 only if "
        "p ≤ 0.025"
    )
    assert (sentence in read(page_of(found)).text) == explained


def test_every_measure_without_an_interval_says_why_in_its_row() -> None:
    rng = np.random.default_rng(2)
    p = rng.beta(1, 3, (800, 4))
    found = calibrant.evaluate(p, (rng.random(p.shape) < p).astype(int), notion="multilabel", n_resamples=0)
    page = read(page_of(found))
    heading, *body = next(own for own in page.tables if own[0][0] == "measure")
    rows = {row[0]: row[2:] for row in body}
    bare = [key for key, part in found.estimates.items() if np.isnan(part.low)]
    shown = shown_estimates(found)
    bare = [key for key in bare if key in shown]
    assert 5 < len(bare) < len(rows) == len(shown)
    for key in shown:
        part = found[key]
        cells = rows[found.descriptions[key].label]
        if key in bare:
            assert (
                cells
                == [part.method.split(";")[0]]
                == ["no interval: no method is known for the mean of this measure over classes"]
            )
        else:
            assert len(cells) == len(heading) - 2
            assert " – " in cells[0]
    labels = ", ".join(found.descriptions[key].label for key in bare)
    assert f"{labels}: {found['ks'].method}" in page.text
    assert found["ks"].method.endswith("; evaluate one class at a time")


# ---------------------------------------------------------------- long lists of groups, and dates


def grouped(n_groups: int) -> calibrant.Report:
    rng = np.random.default_rng(n_groups)
    p = rng.random(40 * n_groups)
    names = np.array([f"site {k}" for k in range(n_groups)])[np.arange(len(p)) % n_groups]
    return calibrant.evaluate(p, rng.random(len(p)) < p, groups=names, n_resamples=0)


@pytest.mark.parametrize(("n_groups", "searched"), [(19, False), (20, True), (99, True)])
def test_groups_keep_their_order_and_can_be_searched_if_they_are_many(n_groups: int, searched: bool) -> None:
    found = grouped(n_groups)
    page = read(page_of(found))
    (table,) = [own for own in page.tables if own[0][0] == "group"]
    assert [row[0] for row in table[1:]] == [group.name for group in found.groups]
    assert bool(page.all("section", of="searchable")) == bool(page.all("input", placeholder="name")) == searched


def test_of_a_hundred_groups_the_worst_come_first_and_the_others_stand_below() -> None:
    found = grouped(100)
    page = read(page_of(found))
    listed = [[row[0] for row in own[1:]] for own in page.tables if own[0][0] == "group"]
    worst = sorted(found.groups, key=lambda group: (group.p_value, -group.ece.value))[:20]
    assert listed[0] == [group.name for group in worst]
    assert listed[1] == [group.name for group in found.groups if group not in worst]
    assert "The other 80 groups as a table" in page.text
    assert [row["group"] for row in page.files()["groups.csv"]] == [group.name for group in found.groups]


def test_a_page_has_a_date_only_if_it_is_given(report: calibrant.Report, tmp_path: Path) -> None:
    plain, dated = page_of(report, title="t"), page_of(report, title="t", date="23 November <2026>")
    assert not re.search(r"\b20\d\d-\d\d", plain)
    page = read(dated)
    headline = next(i for i, text in enumerate(page.text) if text.startswith("900 predictions"))
    assert page.text.index("23 November <2026>") < headline
    line = '<p class="soft">{}</p>\n'
    running = "23 November \\00003c 2026\\00003e  \\0000b7  calibrant"  # the head of each sheet of paper
    assert dated.replace(line.format("23 November &lt;2026&gt;"), "").replace(running, "calibrant") == plain
    compared = calibrant.compare([0.2, 0.4, 0.7], [0.3, 0.3, 0.9], [0, 1, 1])
    for result in (report, compared):
        assert line.format("today") in result.to_html(tmp_path / "p.html", date="today").read_text(encoding="utf-8")


def test_a_page_has_margins_on_paper_and_a_cell_of_a_notebook_changes_none(report: calibrant.Report) -> None:
    assert "@page { margin: 18mm 15mm 15mm;" in page_of(report)
    assert "@page" not in report._repr_html_()


# ---------------------------------------------------------------- what a user gives is text


@pytest.mark.parametrize("whole", [True, False], ids=["page", "cell"])
def test_markup_in_any_name_is_text(whole: bool) -> None:
    probs, targets = classes(600, 3)
    found = calibrant.evaluate(
        probs,
        targets,
        class_names=[EVIL, "b", "<img src=x onerror=alert(1)>"],
        groups=[EVIL, "<b>bold</b>"] * 300,
        n_resamples=0,
    )
    source = Source(files=EVIL, columns=EVIL)
    text = page_of(found, source, title=EVIL, used=EVIL) if whole else found._repr_html_()
    page = read(text)
    assert len(page.all("script")) == whole
    assert page.all("img") == []
    assert [own for own in page.all("b") if own] == []
    assert "alert('x')" in "".join(page.text)
    assert not any(name.startswith("on") for _, own in page.elements for name in own)
    text.encode("utf-8")
    names = {own["data-name"] for own in page.all("li") if "data-name" in own}
    assert any(name.startswith("<script>alert('x')</script>&\"',") for name in names)
    if whole:
        assert {row["class"].replace("\ud800", "?") for row in page.files()["classes.csv"]} >= {"b"}


def test_names_of_any_script_stay_whole_and_what_acts_is_taken_out() -> None:
    whole = ["\u0645\u06cc\u200c\u062e", "\N{MAN}\u200d\N{WOMAN}", "soft\u00adhyphen", "a\u00a0b"]
    acting = {"a\u202eb": "a\ufffdb", "x\ty": "x y", "\x1b[2J": "\ufffd[2J", "\ud83d": "\ufffd"}
    probs, targets = classes(600, 8)
    found = calibrant.evaluate(probs, targets, class_names=[*whole, *acting], n_resamples=0)
    page = read(page_of(found))
    assert {own["data-name"] for own in page.all("li") if "data-name" in own} == {*whole, *acting.values()}
    assert "\x1b[2J" not in str(found)
    rows = page.files()["classes.csv"]
    assert {row["class"] for row in rows} >= set(whole)


def test_a_name_with_any_line_end_stays_in_its_row() -> None:
    probs, targets = classes(300, 3)
    names = ["a\rb", "c\nd", 'e"\r\n,f']
    page = read(page_of(calibrant.evaluate(probs, targets, class_names=names, n_resamples=0)))
    assert sorted(row["class"] for row in page.files()["classes.csv"]) == sorted(names)


def test_nothing_is_loaded_from_anywhere(report: calibrant.Report) -> None:
    text = page_of(report)
    page = read(text)
    for _, own in page.elements:
        for name in ("src", "href", "srcset", "action", "data"):
            assert own.get(name, "data:").startswith("data:")
    assert "@import" not in text
    assert not re.search(r"url\(|https?:", text)


# ---------------------------------------------------------------- every kind of report


def test_without_intervals_there_are_values_alone() -> None:
    probs, targets = classes(300, 3)
    page = read(page_of(calibrant.evaluate(probs, targets, level=None)))
    table = next(own for own in page.tables if own[0][0] == "measure")
    assert table[0] == ["measure", "estimate"]
    assert page.all("input", type="radio") == []
    assert page.all("path", of="whisker") == []
    assert page.files()["reliability-diagram.csv"][0].keys() == {
        "left",
        "right",
        "count",
        "proportion",
        "confidence",
        "accuracy",
    }


@pytest.mark.parametrize("notion", ["classwise", "multilabel"])
def test_every_class_by_itself_has_no_diagram_but_its_tiles(notion: str) -> None:
    probs, targets = classes(300, 3)
    if notion == "multilabel":
        targets = np.eye(3, dtype=int)[targets]
    found = calibrant.evaluate(probs, targets, notion=notion, n_resamples=0)  # type: ignore[arg-type]
    page = read(page_of(found))
    assert "reliability-diagram.csv" not in page.files()
    assert len([own for own in page.all("li") if "data-error" in own]) == 3
    word = "labels" if notion == "multilabel" else "classes"
    assert f"The 3 {word}" in "".join(page.text)


@pytest.mark.parametrize(
    ("probs", "outcomes", "limit"),
    [
        ([0.5], [1], "1.0"),
        ([0.0, 1.0], [0, 1], "1.0"),
        ([0.3] * 40, [0] * 40, "0.5"),
        ([0.001, 0.002, 0.004] * 400, [0, 0, 0] * 399 + [0, 1, 0], "0.5 %"),
        (np.linspace(0.01, 0.09, 500), np.arange(500) % 20 == 0, "0.20"),
    ],
)
def test_extreme_scores_have_a_page_and_axes_that_fit(probs: Any, outcomes: Any, limit: str) -> None:
    found = calibrant.evaluate(probs, outcomes, n_resamples=20)
    page = read(page_of(found))
    dots = [own for own in page.all("circle", of="hit") if own["r"] == "11"]
    assert all(48 <= float(own["cx"]) <= 428 and 10 <= float(own["cy"]) <= 390 for own in dots)
    assert "nan" not in json.dumps(page.elements)
    assert limit in page.text


def test_an_infinite_log_loss_is_said_and_stands_in_the_file() -> None:
    found = calibrant.evaluate([0.0, 1.0, 0.6] * 20, [1, 1, 0] * 20, n_resamples=0)
    page = read(page_of(found))
    table = next(own for own in page.tables if own[0][0] == "measure")
    assert next(row for row in table if row[0] == "log loss")[1:] == [
        "inf",
        "no interval: infinite: an observed outcome had predicted probability 0",
    ]
    rows = page.files()["measures.csv"]
    assert next(row for row in rows if row["measure"] == "nll")["value"] == "inf"
    assert "log loss is infinite: 20 observed outcomes had predicted probability 0" in "".join(page.text)


def test_weights_are_written_as_they_are() -> None:
    rng = np.random.default_rng(1)
    probs, weights = rng.random(200), rng.random(200)
    found = calibrant.evaluate(probs, rng.random(200) < probs, weights=weights, n_bins=2, n_resamples=0)
    assert found.diagram is not None
    page = read(page_of(found))
    assert any(f": weight {found.diagram.counts[0]:,.1f} (" in title for title in page.titles)
    assert "Larger points have more weight." in "".join(page.text)
    assert "Weight: events (up), non-events (down)" in "".join(page.text)


@pytest.mark.parametrize("notion", ["classwise", "top-label", "multilabel"])
def test_weights_of_classes_are_not_called_rows(notion: Any) -> None:
    rng = np.random.default_rng(1)
    probs, targets = classes(300, 3)
    targets = (rng.random(probs.shape) < probs).astype(int) if notion == "multilabel" else targets
    kind = "label" if notion == "multilabel" else "class"
    for weights, word in ((rng.uniform(0.5, 3, 300), "weight"), (None, "rows")):
        found = calibrant.evaluate(probs, targets, notion=notion, weights=weights, n_resamples=0)
        source = page_of(found)
        page = read(source)
        text = " ".join("".join(page.text).split())
        assert f"A point is small if it has less than 2 % of all {word}, " in text
        assert found.classwise is not None
        support = found.classwise.supports[0]
        said = f"weight {support:,.1f}" if weights is not None else f"; {support:.0f}"
        assert f"{said} of this {kind}" in text
        assert f"{word} of it" in text
        assert f">most {word}</option>" in source
        assert f'score</th><th scope="col">{word}</th><th scope="col">predicted' in source
        assert ("total weight" in text) == (weights is not None)


@pytest.mark.parametrize(
    ("n", "rows", "said"),
    [
        (90, 10, "9 groups, none with enough rows for a test."),
        (900, 900, "1 group, 1 with enough rows for a test. Evidence of miscalibration: 0."),
        (
            900,
            450,
            "2 groups, 2 with enough rows for a test. Evidence of miscalibration after Holm correction: 0, 1.",
        ),
    ],
)
def test_the_words_on_groups_claim_no_test_that_was_not_made(n: int, rows: int, said: str) -> None:
    probs, targets = classes(n, 3)
    sharp = probs**3 / (probs**3).sum(axis=1, keepdims=True)
    found = calibrant.evaluate(sharp, targets, groups=np.arange(n) // rows, n_resamples=0)
    assert said in "".join(read(page_of(found)).text)


def test_the_weight_of_the_rows_is_said_where_it_is_not_their_number() -> None:
    probs, targets = classes(300, 3)
    plain, weighted = (
        "".join(read(page_of(calibrant.evaluate(probs, targets, weights=w, n_resamples=0))).text)
        for w in (None, np.tile([2.0, 3.0], 150))
    )
    assert "total weight" not in plain
    assert "total weight750" in weighted


def test_a_class_that_never_happened_says_so_beside_its_predictions() -> None:
    probs, targets = classes(300, 3)
    page = read(page_of(calibrant.evaluate(probs, np.maximum(targets, 1), n_resamples=0)))
    assert any("; 0 of this class" in text for text in page.text)


def test_classes_and_groups_that_stand_out_are_marked_in_shape_and_words() -> None:
    """One class of five is claimed too often, and one group of three has sharpened rows: the lists mark what is off."""
    probs, targets = draw_classes(6, 3_000, np.full(5, 0.4))
    groups = np.arange(3_000) % 3
    probs[:, 2] *= 1.4
    probs[groups == 0] **= 1.3
    probs /= probs.sum(axis=1, keepdims=True)
    found = calibrant.evaluate(probs, targets, groups=groups, n_resamples=0)
    summary, page = found.to_dict(), read(page_of(found))
    assert found.classwise is not None
    adjusted = found.classwise.adjusted_p_values
    assert adjusted is not None
    marked = {str(k) for k in np.flatnonzero(adjusted <= 0.05)}
    assert 0 < len(marked) < 5
    tiles = [own for own in page.all("li") if "data-error" in own]
    assert {own["data-name"] for own in tiles if own.get("class") == "found"} == marked
    said = [text for text in page.text if "of this class" in text]
    assert sum(text.endswith("; ◆\N{NO-BREAK SPACE}evidence of miscalibration") for text in said) == len(marked)
    assert f"Evidence of miscalibration after Holm correction: {len(marked)} of 5 classes, marked ◆." in page.text
    table = next(own for own in page.tables if own[0][0] == "class")
    assert table[0] == ["class", "rows of it", "ECE", "p adjusted"]
    rows = page.files()["classes.csv"]
    order = [int(row["class"]) for row in rows]
    assert numbers(rows, "p_value") == [found.classwise.p_values[k] for k in order]  # type: ignore[index]
    assert numbers(rows, "adjusted_p_value") == [adjusted[k] for k in order]
    assert {row["class"] for row in rows if row["called_out"] == "True"} == marked
    called = {group["name"] for group in summary["groups"] if group["called_out"]}
    bold = [own for own in page.all("li", of="found") if "data-error" not in own]
    assert 0 < len(bold) == len(called)
    heads = [row[-1] for own in page.tables if own[0][0] == "group" for row in own[:1]]
    assert heads == ["p adjusted"]
    assert "by one test that combines calibration in the large, the calibration slope and the ECE" in "".join(page.text)
    tip = next(title for title in page.titles if title.startswith("0: ") and "p adjusted" in title)
    assert f"p adjusted {summary['groups'][0]['adjusted_p_value']:.3f}" in tip.replace("< 0.001", "0.000")


def test_the_tolerance_and_the_verdict_are_among_the_settings_of_the_page() -> None:
    p, y = draw(4, 2_000)
    page = read(page_of(calibrant.evaluate(p, y, tolerance=0.2, n_resamples=0)))
    text = "".join(page.text)
    assert "toleranceECE: up to 0.2" in text
    assert "testThe test of calibration. Cauchy combination of mean, spread, ECE; closed form." in text
    assert page.all("h2", of="verdict")[0]["class"].split() == ["verdict", "good"]
    assert "Within the tolerance of 0.2" in page.text
    assert "ECE is within the tolerance of 0.2: upper 95\N{NO-BREAK SPACE}% confidence bound " in text
    above = read(page_of(calibrant.evaluate(p**2, y, tolerance=0.01, n_resamples=0)))
    assert above.all("h2", of="verdict")[0]["class"].split() == ["verdict", "bad"]
    compared = calibrant.compare({"a": p, "b": p**2}, y, tolerance=0.01)
    text = "".join(read(page_of(compared)).text)
    assert "toleranceECE of the second model minus ECE of the first model: at most 0.01" in text


def test_a_p_value_of_exactly_one_minus_the_level_is_beyond_noise() -> None:
    """1 - 0.9 is 0.09999999999999998 in binary, and p = 100 / 1000 is above it; as decimals they are equal."""
    rng = np.random.default_rng(5)
    p = rng.random(300)
    found = calibrant.evaluate(p, rng.random(300) < p, level=0.9, n_resamples=0)
    for value, beyond in ((0.1, True), (0.1001, False)):
        (figure,) = noise_figure(found, {"ece": replace(found["ece"], p_value=value)})
        assert [mark.look for mark in figure.marks if isinstance(mark, Points)] == ["out" if beyond else "dot"]


def test_without_intervals_no_picture_claims_a_test() -> None:
    probs, targets = classes(300, 3)
    text = page_of(calibrant.evaluate(probs, targets, level=None))
    assert "◆" not in text
    assert "p adjusted" not in text
    assert "outside the consistency band" not in text
    assert "if calibrated" not in text
    assert "calibrated: " not in text
    assert "Grey: consistency band" not in text


def test_a_cell_has_few_diagrams() -> None:
    probs, targets = classes(2_000, 40)
    found = calibrant.evaluate(probs, targets, n_resamples=0)
    cell, whole = read(found._repr_html_()), read(page_of(found))
    tiles, every = ([own for own in shown.all("li") if "data-error" in own] for shown in (cell, whole))
    assert tiles == every[:12]
    assert len(every) == 40
    assert "The HTML page has 28 more diagrams." in cell.text
    assert "class-bins.csv" not in cell.files()


def test_many_groups_and_classes_are_cut_in_the_picture_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_document, "_DRAWN", 5)
    monkeypatch.setattr(words, "GROUPS_WHOLE", 7)
    monkeypatch.setattr(words, "GROUPS_WORST", 3)
    probs, targets = classes(700, 8)
    found = calibrant.evaluate(probs, targets, groups=np.arange(700) % 7, n_resamples=0)
    page = read(page_of(found))
    assert len([own for own in page.all("li") if "data-error" in own]) == 5
    text = "".join(page.text)
    assert "The diagrams show the 5 classes with the largest errors. The tables contain all classes." in text
    assert len(page.files()["classes.csv"]) == 8
    drawn = "The 3 groups with the most evidence of miscalibration are drawn."
    assert f"{drawn} The table contains the other 4 groups." in text
    assert len(page.files()["groups.csv"]) == 7
    listed = [[row[0] for row in table[1:]] for table in page.tables if table[0][0] == "group"]
    groups = sorted(found.groups, key=lambda group: (group.p_value, -group.ece.value))
    assert listed == [[group.name for group in groups[:3]], sorted(group.name for group in groups[3:])]


# ---------------------------------------------------------------- the file and the cell


def test_to_html_writes_the_page_and_returns_its_path(report: calibrant.Report, tmp_path: Path) -> None:
    written = report.to_html(tmp_path / "report.html", title="Ω digits")
    assert written == tmp_path / "report.html"
    text = written.read_text(encoding="utf-8")
    assert text == page_of(report, title="Ω digits")
    assert "<h1>Ω digits</h1>" in text
    assert report.to_html(str(tmp_path / "again.html"), title="Ω digits").read_text(encoding="utf-8") == text
    probs, targets = classes(200, 3)
    compared = calibrant.compare(probs, probs[:, ::-1], targets)
    assert "<h1>Comparison of models</h1>" in compared.to_html(tmp_path / "c.html").read_text(encoding="utf-8")


def test_ten_classes_fit_into_150_kilobytes() -> None:
    probs, targets = classes(20_000, 10)
    found = calibrant.evaluate(probs, targets, n_resamples=199)
    assert found.classwise is not None
    assert (found.classwise.counts > 0).mean() > 0.95  # hardly a bin is empty
    assert len(page_of(found).encode()) <= 150_000


def test_a_cell_has_no_script_and_another_name_for_every_report(report: calibrant.Report) -> None:
    cell = report._repr_html_()
    page = read(cell)
    assert page.all("script") == []
    assert page.all("html") == []
    assert page.all("style")
    ids = {own["name"] for own in page.all("input", type="radio")}
    probs, targets = classes(300, 3)
    other = read(calibrant.evaluate(probs, targets, n_resamples=0)._repr_html_())
    assert ids.isdisjoint({own["name"] for own in other.all("input", type="radio")})
    compared = calibrant.compare(probs, probs[:, ::-1], targets)._repr_html_()
    assert "Differences" in "".join(read(compared).text)


def test_without_jinja2_a_page_says_what_to_install_and_a_cell_is_text(
    report: calibrant.Report, tmp_path: Path
) -> None:
    pages._environment.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "jinja2", None)
        patch.setitem(sys.modules, "markupsafe", None)  # which jinja2 installs
        with pytest.raises(MissingDependencyError, match="jinja2 is needed to write a page and is not installed"):
            report.to_html(tmp_path / "report.html")
        assert not (tmp_path / "report.html").exists()
        assert report._repr_html_().startswith("<pre>")
        assert f"{report['ece'].value:.4f}" in report._repr_html_()
    pages._environment.cache_clear()


def test_the_same_report_is_the_same_page(report: calibrant.Report) -> None:
    again = subprocess.run(
        [
            sys.executable,
            "-c",
            "import pickle, sys; from calibrant.render.page import to_page\n"
            "report = pickle.load(sys.stdin.buffer)\n"
            "sys.stdout.buffer.write(to_page(report._document(full=True)).encode())",
        ],
        input=pickle.dumps(report),
        capture_output=True,
        check=True,
    ).stdout
    assert again.decode() == page_of(report)


def test_contrast_of_text_and_marks_is_that_of_wcag() -> None:
    style = Path(pages.__file__).with_name("templates").joinpath("style.css").read_text("utf-8")
    light, dark, paper = (
        dict(re.findall(r"--(\w+): (#[0-9a-f]+)", block))
        for block in (
            style[: style.index("@media")],
            style[style.index("@media") : style.index(".calibrant *")],
            style[style.index("@media print") :],
        )
    )

    def luminance(colour: str) -> float:
        digits = colour[1:] if len(colour) == 7 else "".join(2 * c for c in colour[1:])
        parts = np.array([int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)])
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    def contrast(a: str, b: str) -> float:
        high, low = sorted((luminance(a), luminance(b)), reverse=True)
        return (high + 0.05) / (low + 0.05)

    assert contrast("#000", "#fff") == pytest.approx(21)
    for colours in (light, dark, paper):
        for ground in ("bg", "panel"):
            for text in ("ink", "soft", "event"):
                assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
        for mark in ("event", "miss", "edge", "ink"):
            assert contrast(colours[mark], colours["bg"]) >= 3, mark
        for mark in ("event", "miss", "ink"):
            assert contrast(colours[mark], colours["band"]) >= 3, mark
    assert contrast(light["focus"], light["bg"]) >= 3
    assert contrast(dark["focus"], dark["bg"]) >= 3


# ---------------------------------------------------------------- the command

DIGITS = Path(__file__).parents[2] / "examples" / "digits.parquet"


def test_the_command_writes_the_page_beside_the_report(tmp_path: Path) -> None:
    target, numbers_of = tmp_path / "report.html", tmp_path / "report.json"
    out, err = succeed("report", DIGITS, "--html", target, "--json", numbers_of)
    assert "Reliability diagram" in out
    preparing = "(calibrant: preparing kernels, once\n)?"  # if all inputs take compiled kernels
    assert re.fullmatch(rf"{preparing}calibrant: wrote {re.escape(str(target))} \(1\d\d kB\)\n", err)
    text = target.read_text(encoding="utf-8")
    summary = json.loads(numbers_of.read_text(encoding="utf-8"))
    assert len(summary.pop("sketch")) < 60_000  # in the file alone
    used = "probs: p_0 ... p_9 (10 columns), targets: target"
    page = read(text)
    said = "".join(page.text)
    assert {row["measure"]: row["value"] for row in page.files()["measures.csv"]} == {
        name: str(own["value"]) for name, own in summary["estimates"].items()
    }
    assert "filesdigits.parquet" in said
    assert "<h1>digits.parquet</h1>" in text
    assert str(DIGITS.parent) not in text  # whoever reads it need not know the folders
    assert used in said


def test_the_page_of_the_command_names_its_files_and_condition(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    succeed("report", DIGITS, "--where", "target < 5", "--html", target, "--title", "Low digits")
    page = read(target.read_text(encoding="utf-8"))
    said = "".join(page.text)
    assert page.titles[0] == "Low digits · calibration"
    assert "target < 5" in said
    assert "digits.parquet" in said


def test_a_page_that_cannot_be_written_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / "report.html").mkdir()
    status, out, err = run("report", DIGITS, "--html", tmp_path / "report.html")
    assert status == 1
    assert "Reliability diagram" in out
    assert re.search(r"report\.html: cannot be written \(Is a directory\); check the path and the disk", err)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--html", "missing/report.html"),
            "'missing/report.html'; the folder 'missing' does not exist; make the folder first",
        ),
        (
            ("--json", "missing/report.json"),
            "'missing/report.json'; the folder 'missing' does not exist; make the folder first",
        ),
        (("--html", "report.pdf"), "'report.pdf'; name a file that ends in .html, such as report.html"),
        (("--html", "-"), "'-'; name a file that ends in .html"),
        (("--html", ""), "''; name a file that ends in .html"),
        (
            ("--html", "a.html", "--json", "./a.html"),
            "--json and --html both name a.html; name a different file for each option",
        ),
    ],
)
def test_where_to_write_is_checked_before_anything_is_read(arguments: tuple[str, ...], message: str) -> None:
    status, out, err = run("report", "no-such-file.csv", *arguments)
    assert status == 2
    assert out == ""
    assert message in err


@pytest.mark.parametrize("option", ["--html", "--json"])
def test_the_predictions_are_never_written_over(tmp_path: Path, option: str) -> None:
    source = tmp_path / "games.html.csv"
    text = "score,outcome\n0.2,0\n0.7,1\n"
    source.write_text(text, encoding="utf-8")
    link = tmp_path / "link.html"
    link.symlink_to(source)
    status, out, err = run("report", source, option, link)
    assert status == 2
    assert f"for {option}: {str(link)!r} is also read, as FILE; name another file" in err
    assert (out, source.read_text(encoding="utf-8")) == ("", text)


def test_a_title_without_a_page_is_wrong_usage() -> None:
    err = fail("report", DIGITS, "--title", "Digits", status=2)
    assert "--title sets the title of the HTML page; pass --html too" in err


def test_the_file_of_targets_is_never_written_over(tmp_path: Path) -> None:
    np.save(tmp_path / "probs.npy", np.array([0.2, 0.7]))
    np.save(tmp_path / "targets.npy", np.array([0, 1]))
    target = tmp_path / "targets.npy"
    before = target.read_bytes()
    err = fail("report", tmp_path / "probs.npy", "--targets", target, "--json", target, status=2)
    assert "is also read, as --targets; name another file" in err
    assert target.read_bytes() == before


# ---------------------------------------------------------------- downloads in a spreadsheet

FORMULAS = ("=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "\nx", "=", "\uff1d1+1", "\uff20x")
HARMLESS = ("a=b", "1", "'=1", "", "é", " =1", "a-1")


@pytest.mark.parametrize("name", FORMULAS)
def test_no_name_is_a_formula_in_a_downloaded_file(name: str) -> None:
    probs, targets = [[0.7, 0.3], [0.2, 0.8], [0.6, 0.4]] * 4, [0, 1, 1] * 4
    options = {"class_names": [name, "b"], "groups": [name, "c", "c"] * 4, "n_resamples": 0}
    report = calibrant.evaluate(probs, targets, **options)
    files = read(page_of(report)).files()
    assert {row["class"] for row in files["classes.csv"]} == {f"'{name}", "b"}
    assert {row["group"] for row in files["groups.csv"]} == {f"'{name}", "c"}
    models = {name: [0.7, 0.2, 0.6], "c": [0.6, 0.1, 0.9]}
    compared = read(page_of(calibrant.compare(models, [1, 0, 1]))).files()
    assert {row["model"] for row in compared["models.csv"]} == {f"'{name}", "c"}
    assert {row["first"] for row in compared["differences.csv"]} == {f"'{name}"}


def test_numbers_and_other_names_of_a_downloaded_file_are_unchanged() -> None:
    numbers = [-0.5, -1, float("-inf"), 0.25, None, True, np.float64(-2.5)]
    table = Table("t", [Column("name", HARMLESS, {"name": HARMLESS, "-1": numbers})])
    name, number = zip(*csv.reader(io.StringIO(table.to_csv(), newline="")), strict=True)
    assert name == ("name", *HARMLESS)
    assert number == ("'-1", "-0.5", "-1", "-inf", "0.25", "", "True", "-2.5")
