"""Figures: where every mark stands and every number that is written, on any result; never what a pixel looks like."""

from __future__ import annotations

import ast
import copy
import itertools
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant import plot
from calibrant.errors import InputError, MissingDependencyError
from calibrant.errors.exceptions import install_command
from calibrant.render.blocks import Figures
from calibrant.results import CalibrationCurve, ReliabilityDiagram

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "data"

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot as plt  # noqa: E402
from matplotlib.collections import LineCollection, PathCollection  # noqa: E402
from matplotlib.colors import to_rgba  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402


@pytest.fixture(scope="module")
def usual_settings() -> dict[str, Any]:
    return copy.deepcopy(dict(matplotlib.rcParams))


@pytest.fixture(autouse=True)
def settings(usual_settings: dict[str, Any]) -> Iterator[None]:
    """Close what was drawn, and see that no setting was changed."""
    yield
    plt.close("all")
    assert dict(matplotlib.rcParams) == usual_settings


# ---------------------------------------------------------------- results to draw


def event(n: int = 3_000, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    probs = rng.beta(1, 3, n)
    return probs, rng.random(n) < probs**1.4


def softmax(n: int, classes: int, seed: int = 1) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 1.6, (n, classes))
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return probs, (probs.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)


def evaluate(*args: Any, **options: Any) -> calibrant.Report:
    return calibrant.evaluate(*args, **{"n_resamples": 99, **options})


@cache
def report_of(kind: str) -> calibrant.Report:
    probs, happened = event()
    if kind == "top-label":
        return evaluate(*softmax(800, 4))
    if kind == "weighted":
        return evaluate(probs, happened, weights=np.random.default_rng(2).random(len(probs)))
    if kind == "empty bins":
        return evaluate(np.repeat([0.05, 0.5, 0.95], 40), np.tile([0, 1], 60))
    if kind == "one bin":
        return evaluate(probs, happened, n_bins=1)
    if kind == "one score":
        return evaluate([0.5] * 20, [1] * 8 + [0] * 12)
    if kind == "certain":
        return evaluate([0.0] * 30 + [1.0] * 30, [0] * 30 + [1] * 30)
    return evaluate(probs, happened, n_bins=100 if kind == "100 bins" else 15)


KINDS = ("binary", "top-label", "weighted", "empty bins", "one bin", "one score", "certain", "100 bins")
NAMES = ["ash", "birch", "cedar", "elm", "fir", "gorse"]


@cache
def of_classes(**options: Any) -> calibrant.Report:
    probs, targets = softmax(900, 6)
    return evaluate(probs, targets, class_names=NAMES, **options)


@cache
def of_models(n: int = 2) -> calibrant.Comparison:
    probs, happened = event()
    odds = probs / (1 - probs)
    powers = {"plain": 1.0, "sharper": 1.3, "much sharper": 2.0}
    return calibrant.compare({name: odds**a / (1 + odds**a) for name, a in list(powers.items())[:n]}, happened)


@cache
def of_groups(level: float | None = 0.95, *, clinical: bool = False) -> calibrant.Report:
    rng = np.random.default_rng(0)
    names = np.repeat(["a", "b", "c", "d"], [300, 500, 12, 400])
    probs = rng.random(len(names))
    happened = rng.random(len(names)) < np.where(names == "b", probs**2, probs)
    if clinical:
        happened[names == "c"] = False  # no slope, and an O:E ratio of 0
    return evaluate(probs, happened, groups=names, level=level, profile="clinical" if clinical else "standard")


of_wards = partial(of_groups, clinical=True)


@cache
def of_forecasts() -> calibrant.Report:
    return evaluate(*event(), profile="forecast")


def quantiles() -> ReliabilityDiagram:
    """Return bins of which one holds a single score: no width."""
    scores = [0.0] * 8 + [0.1, 0.2, 0.5, 0.5, 0.7, 0.8, 0.9, 1.0]
    return calibrant.reliability_diagram(scores, [0, 0, 0, 1] * 4, n_bins=4, binning="quantile")


def arrays_in(value: Any) -> list[np.ndarray]:
    """Return all arrays of a result."""
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, (list, tuple)):
        return [own for entry in value for own in arrays_in(entry)]
    if is_dataclass(value):
        return [own for f in fields(value) for own in arrays_in(getattr(value, f.name))]
    return [own for entry in value.values() for own in arrays_in(entry)] if isinstance(value, dict) else []


# ---------------------------------------------------------------- what stands on axes


def bars(ax: Any, label: str) -> list[tuple[float, float, float, float]]:
    """Return left, width, lower and upper end of the bars of a label."""
    (found,) = [container for container in ax.containers if container.get_label() == label]
    boxes = [(b.get_x(), b.get_width(), b.get_y(), b.get_y() + b.get_height()) for b in found]
    return [(x, width, min(low, high), max(low, high)) for x, width, low, high in boxes]


def strokes(ax: Any, label: str) -> np.ndarray:
    """Return the ends of the strokes of a label: (n, 2, 2)."""
    own = [c for c in ax.collections if isinstance(c, LineCollection) and c.get_label() == label]
    return np.array([stroke for collection in own for stroke in collection.get_segments()])


def dots(ax: Any, label: str) -> Any:
    (found,) = [c for c in ax.collections if isinstance(c, PathCollection) and c.get_label() == label]
    return found


def words(ax: Any) -> list[str]:
    legend = ax.get_legend()
    return [] if legend is None else [text.get_text() for text in legend.get_texts()]


def strip_of(ax: Any) -> Any:
    (found,) = ax.child_axes
    return found


def area(ax: Any, label: str) -> np.ndarray:
    """Return lower and upper ends of a filled band, (2, n), and its places."""
    (found,) = [c for c in ax.collections if c.get_label() == label]
    points = found.get_paths()[0].vertices
    n = (len(points) - 3) // 2
    lows, highs = points[1 : n + 1], points[n + 2 : 2 * n + 2][::-1]
    np.testing.assert_array_equal(lows[:, 0], highs[:, 0])
    return np.array([lows[:, 0], lows[:, 1], highs[:, 1]])


# ---------------------------------------------------------------- the reliability diagram


@pytest.mark.parametrize("kind", KINDS)
def test_bars_stand_where_the_bins_stand_and_the_gap_is_between_score_and_rate(kind: str) -> None:
    diagram = report_of(kind).diagram
    ax = plot.reliability_diagram(report_of(kind))
    own = diagram.counts > 0
    rates, scores = diagram.accuracies[own], diagram.confidences[own]
    drawn = np.array(bars(ax, ax.get_ylabel())).T
    np.testing.assert_array_equal(drawn[0], diagram.edges[:-1][own])
    np.testing.assert_allclose(drawn[0] + drawn[1], diagram.edges[1:][own], rtol=1e-15)
    np.testing.assert_array_equal(drawn[2:], [0 * rates, rates])
    gaps = np.array(bars(ax, "Gap")).T
    np.testing.assert_array_equal(gaps[:2], drawn[:2])
    np.testing.assert_allclose(gaps[2:], np.sort([rates, scores], axis=0), atol=1e-15)
    lines = strokes(ax, "Mean predicted probability")
    np.testing.assert_array_equal(lines[:, :, 1], np.column_stack([scores, scores]))
    np.testing.assert_array_equal(lines[:, 0, 0], drawn[0])


@pytest.mark.parametrize("kind", KINDS)
def test_points_stand_at_score_and_rate_with_areas_that_grow_with_the_rows(kind: str) -> None:
    diagram = report_of(kind).diagram
    ax = plot.reliability_diagram(report_of(kind), kind="points")
    own = diagram.counts > 0
    drawn = dots(ax, ax.get_ylabel())
    np.testing.assert_array_equal(drawn.get_offsets(), np.column_stack([diagram.confidences, diagram.accuracies])[own])
    shares = diagram.proportions[own]
    np.testing.assert_allclose(drawn.get_sizes(), 16 + 94 * shares / shares.max())
    assert ax.containers == [] or [c.get_label() for c in ax.containers] == ["Calibrated (95 % band)"]


@pytest.mark.covering
@pytest.mark.parametrize("look", ["bars", "points"])
@pytest.mark.parametrize("kind", KINDS)
def test_whiskers_and_band_end_where_the_intervals_do(kind: str, look: Any) -> None:
    diagram = report_of(kind).diagram
    ax = plot.reliability_diagram(report_of(kind), kind=look)
    own = diagram.counts > 0
    whiskers = strokes(ax, "95 % CI")
    np.testing.assert_array_equal(whiskers[:, 0], np.column_stack([diagram.confidences, diagram.lows])[own])
    np.testing.assert_array_equal(whiskers[:, 1], np.column_stack([diagram.confidences, diagram.highs])[own])
    band = np.array(bars(ax, "Calibrated (95 % band)")).T
    np.testing.assert_array_equal(band[0], diagram.edges[:-1][own])
    np.testing.assert_allclose(band[2:], [diagram.band_lows[own], diagram.band_highs[own]], atol=1e-15)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("binary", "3,000 rows"),
        ("top-label", "800 rows"),
        ("one score", "20 rows"),
        ("weighted", f"weight {np.random.default_rng(2).random(3_000).sum():,.2f}"),
    ],
)
def test_the_strip_has_the_share_of_each_bin_and_says_how_many_rows(kind: str, said: str) -> None:
    diagram = report_of(kind).diagram
    strip = strip_of(plot.reliability_diagram(report_of(kind)))
    (drawn,) = strip.patches
    np.testing.assert_array_equal(drawn.get_data().values, diagram.proportions)
    np.testing.assert_array_equal(drawn.get_data().edges, diagram.edges)
    assert [text.get_text() for text in strip.texts] == [said]
    assert strip.get_yticks() == [diagram.proportions.max()]
    assert [t.get_text() for t in strip.get_yticklabels()] == [f"{100 * diagram.proportions.max():.3g} %"]
    assert strip.get_ylim()[1] > diagram.proportions.max()


def test_the_number_of_rows_stands_where_fewer_rows_are() -> None:
    for kind, side in (("binary", "right"), ("top-label", "left")):  # mean scores of .25 and .67
        text = strip_of(plot.reliability_diagram(report_of(kind))).texts[0]
        assert (text.get_position()[0], text.get_ha()) == (float(side == "right"), side)


def test_one_row_is_one_row() -> None:
    diagram = calibrant.reliability_diagram([0.7], [1])
    assert strip_of(plot.reliability_diagram(diagram)).texts[0].get_text() == "1 row"


def test_whole_weights_are_rows_that_are_repeated() -> None:
    report = evaluate([0.2, 0.8, 0.9], [0, 1, 1], weights=[2, 1, 4])
    assert strip_of(plot.reliability_diagram(report)).texts[0].get_text() == "7 rows"


def test_the_axes_are_shares_with_a_diagonal() -> None:
    for report, rate in ((report_of("binary"), "Observed frequency"), (report_of("top-label"), "Accuracy")):
        for look, score in (("bars", "Predicted probability"), ("points", "Mean predicted probability")):
            ax = plot.reliability_diagram(report, kind=look)
            assert (ax.get_xlabel(), ax.get_ylabel()) == (score, rate)
            (diagonal,) = [line for line in ax.lines if line.get_label() == "Calibrated"]
            np.testing.assert_array_equal(diagonal.get_xydata(), [[0, 0], [1, 1]])
            np.testing.assert_allclose(ax.get_xticks(), [0, 0.2, 0.4, 0.6, 0.8, 1])
            assert ax.get_xlim() == ax.get_ylim() == (-0.02, 1.02)
            plt.close("all")


def test_the_legend_names_what_is_drawn_and_nothing_else() -> None:
    report, bare = report_of("binary"), calibrant.reliability_diagram(*event())
    everything = [
        "Observed frequency",
        "Outside the band",
        "Mean predicted probability",
        "95 % CI",
        "Calibrated (95 % band)",
        "Gap",
    ]
    assert words(plot.reliability_diagram(report)) == everything
    assert words(plot.reliability_diagram(report, band=False, intervals=False, label="mine")) == [
        "mine",
        "Mean predicted probability",
        "Calibrated",
        "Gap",
    ]
    assert words(plot.reliability_diagram(bare, kind="points")) == ["Observed frequency", "Calibrated"]
    assert words(plot.reliability_diagram(report, kind="points", legend=False)) == []


def test_the_legend_shows_intervals_upright_and_mean_scores_across() -> None:
    legend = plot.reliability_diagram(report_of("binary")).get_legend()
    shown = dict(zip(words(legend.axes), legend.legend_handles, strict=True))
    assert (shown["95 % CI"].get_marker(), shown["95 % CI"].get_linestyle()) == ("|", "None")
    assert shown["Mean predicted probability"].get_marker() == "None"
    assert (
        np.ptp(shown["Mean predicted probability"].get_xdata())
        > 0
        == np.ptp(shown["Mean predicted probability"].get_ydata())
    )
    assert to_rgba(shown["95 % CI"].get_color()) == to_rgba("black")


@pytest.mark.covering
@pytest.mark.parametrize("look", ["bars", "points"])
@pytest.mark.parametrize("kind", ["binary", "top-label", "weighted", "too low"])
def test_bins_outside_the_band_are_diamonds_and_no_others(kind: str, look: Any) -> None:
    probs, happened = event()
    report = evaluate(1 - probs, ~happened) if kind == "too low" else report_of(kind)
    diagram = report.diagram
    off = (diagram.accuracies < diagram.band_lows) | (diagram.accuracies > diagram.band_highs)
    ax = plot.reliability_diagram(report, kind=look)
    if not off.any():
        assert "Outside the band" not in words(ax)
        return
    drawn = dots(ax, "Outside the band")
    expected = np.column_stack([diagram.confidences, diagram.accuracies])[off]
    np.testing.assert_array_equal(drawn.get_offsets(), expected)
    assert to_rgba("#D55E00") == tuple(drawn.get_facecolor()[0])
    if look == "points":
        own = diagram.counts > 0
        np.testing.assert_array_equal(drawn.get_sizes(), dots(ax, ax.get_ylabel()).get_sizes()[off[own]])
    from calibrant.render.figure import Points
    from calibrant.render.reliability import diagram_figure

    marks = diagram_figure(diagram, report.notion).marks  # the page marks the same ones
    (found,) = (mark for mark in marks if isinstance(mark, Points) and mark.look == "out")
    np.testing.assert_array_equal(np.column_stack([found.x, found.y]), expected)
    bare = plot.reliability_diagram(report, kind=look, band=False)  # nothing to be outside of
    assert "Outside the band" not in [c.get_label() for c in bare.collections]


def test_the_ece_with_its_interval_stands_in_the_figure() -> None:
    report = report_of("binary")
    ece, smooth = report["ece"], report["smece"]
    said = f"ECE {ece.value:.4f} ({ece.low:.4f} – {ece.high:.4f})"
    ax = plot.reliability_diagram(report)
    assert [text.get_text() for text in ax.texts] == [said]
    assert [text.get_text() for text in plot.reliability_diagram(report, number="smece").texts] == [
        f"smooth ECE {smooth.value:.4f} ({smooth.low:.4f} – {smooth.high:.4f})"
    ]
    assert list(plot.reliability_diagram(report, number=None).texts) == []
    assert list(plot.reliability_diagram(report.diagram).texts) == []
    bare = evaluate(*event(), level=None)
    assert [text.get_text() for text in plot.reliability_diagram(bare).texts] == [f"ECE {bare['ece'].value:.4f}"]
    smooth_only = evaluate(*event(), measures=["smece", "brier"])
    assert plot.reliability_diagram(smooth_only).texts[0].get_text().startswith("smooth ECE 0.")
    assert list(plot.reliability_diagram(evaluate(*event(), measures=["brier"])).texts) == []


def test_the_numbers_of_two_series_stand_one_below_the_other() -> None:
    ax = plot.reliability_diagram(report_of("binary"), kind="points", label="one")
    plot.reliability_diagram(report_of("one score"), kind="points", label="two", ax=ax)
    ax.figure.draw_without_rendering()
    first, second = ax.texts
    assert first.get_text().startswith("one: ECE 0.")
    assert second.get_text().startswith("two: ECE 0.")
    assert extent(second).y1 <= extent(first).y0


def test_what_is_left_out_is_not_there() -> None:
    ax = plot.reliability_diagram(report_of("binary"), kind="points", band=False, intervals=False, counts=False)
    assert (len(ax.containers), len(ax.child_axes), len(strokes(ax, "95 % CI"))) == (0, 0, 0)
    bare = plot.reliability_diagram(calibrant.reliability_diagram(*event()))
    assert [c.get_label() for c in bare.containers] == ["Observed frequency", "Gap"]


def test_a_bin_without_width_is_seen() -> None:
    diagram = quantiles()
    own = diagram.counts > 0
    flat = np.diff(diagram.edges)[own] == 0
    assert flat.any()
    drawn = np.array(bars(plot.reliability_diagram(diagram), "Observed frequency")).T
    np.testing.assert_allclose(drawn[1][flat], 0.008)
    np.testing.assert_allclose((drawn[0] + drawn[1] / 2)[flat], diagram.edges[:-1][own][flat], atol=1e-15)
    np.testing.assert_allclose(drawn[1][~flat], np.diff(diagram.edges)[own][~flat])


def test_a_second_series_has_another_colour_and_marker_and_its_own_band_on_the_same_diagonal() -> None:
    first, second = report_of("binary"), evaluate(*event(500, 7), n_bins=10)
    ax = plot.reliability_diagram(first, kind="points", label="one")
    assert plot.reliability_diagram(second, kind="points", label="two", ax=ax) is ax
    one, two = dots(ax, "one"), dots(ax, "two")
    assert not np.array_equal(one.get_facecolor()[0], two.get_facecolor()[0])
    assert not np.array_equal(one.get_paths()[0].vertices, two.get_paths()[0].vertices)
    assert len([line for line in ax.lines if line.get_label() == "Calibrated"]) == 1
    for label, report in (("one", first), ("two", second)):
        word, own = f"Calibrated (95 % band): {label}", report.diagram.counts > 0
        ends = np.array(bars(ax, word)).T[2:]
        expected = [report.diagram.band_lows[own], report.diagram.band_highs[own]]
        np.testing.assert_allclose(ends, expected, atol=1e-15)
        assert word in words(ax)
    filled, outline = (next(c for c in ax.containers if c.get_label().endswith(label))[0] for label in ("one", "two"))
    assert filled.get_facecolor() == to_rgba((0.4, 0.4, 0.4, 0.25))
    assert outline.get_facecolor()[3] == 0
    assert outline.get_edgecolor() == tuple(two.get_facecolor()[0])
    outside = [c for c in ax.collections if c.get_label() == "Outside the band"]
    assert [tuple(c.get_facecolor()[0]) for c in outside] == [to_rgba("#D55E00"), to_rgba("#D55E00")]
    assert tuple(outside[1].get_edgecolor()[0]) == to_rgba(ax.xaxis.label.get_color())
    assert words(ax)[:2] == ["one", "two"]
    strip = strip_of(ax)
    assert [patch.get_fill() for patch in strip.patches] == [True, False]
    assert strip.texts[0].get_text() == "3,000 rows; 500 rows"
    assert strip.get_yticks() == [max(r.diagram.proportions.max() for r in (first, second))]


def test_the_rows_of_one_result_are_drawn_once() -> None:
    ax = plot.reliability_diagram(report_of("binary"))
    plot.calibration_curve(report_of("binary"), ax=ax)
    assert len(strip_of(ax).patches) == 1
    assert strip_of(ax).texts[0].get_text() == "3,000 rows"


def test_colours_and_markers_do_not_come_back_together() -> None:
    from calibrant.plot import canvas

    ax, looks = plt.subplots()[1], []
    for _ in range(50):
        series = canvas.series_on(ax)
        looks.append((series.colour, series.marker))
        ax.plot([0, 1], gid=series.gid)
    assert len(set(looks)) == 50
    okabe_ito = {"#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7"}
    assert {colour for colour, _ in looks} == okabe_ito


# ---------------------------------------------------------------- the calibration curve


@pytest.mark.parametrize("name", ["isotonic", "smooth"])
@pytest.mark.parametrize("kind", ["binary", "top-label", "weighted", "100 bins"])
def test_a_curve_is_drawn_with_its_two_bands(kind: str, name: Any) -> None:
    report = report_of(kind)
    curve = report.curves[name]
    ax = plot.calibration_curve(report, kind=name)
    rate = "Accuracy" if kind == "top-label" else "Observed frequency"
    (line,) = [line for line in ax.lines if line.get_label() == f"{rate}, {name}"]
    np.testing.assert_array_equal(line.get_xydata(), np.column_stack([curve.scores, curve.rates]))
    for label, low, high in (
        ("95 % confidence band, pointwise", curve.confidence_lows, curve.confidence_highs),
        ("Calibrated (95 % band)", curve.consistency_lows, curve.consistency_highs),
    ):
        np.testing.assert_array_equal(area(ax, label), [curve.scores, low, high])
    assert words(ax) == [f"{rate}, {name}", "Calibrated (95 % band)", "95 % confidence band, pointwise"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("Predicted probability", rate)
    np.testing.assert_array_equal(strip_of(ax).patches[0].get_data().values, report.diagram.proportions)


def test_a_second_curve_has_another_colour_and_its_own_bands() -> None:
    first, second = report_of("binary"), report_of("weighted")
    ax = plot.calibration_curve(first, label="one")
    plot.calibration_curve(second, kind="smooth", label="two", ax=ax)
    one, two = (line for line in ax.lines if line.get_label() != "Calibrated")
    assert one.get_color() != two.get_color()
    bands = [c.get_label() for c in ax.collections]
    expected = ["Calibrated (95 % band): one", "95 % confidence band, pointwise", "Calibrated (95 % band): two"]
    assert bands == [*expected, "95 % confidence band, pointwise"]
    for label, curve in (("one", first.curves["isotonic"]), ("two", second.curves["smooth"])):
        drawn = area(ax, f"Calibrated (95 % band): {label}")
        np.testing.assert_array_equal(drawn, [curve.scores, curve.consistency_lows, curve.consistency_highs])
    filled, outline = ax.collections[0], ax.collections[2]
    assert tuple(filled.get_facecolor()[0]) == (0.4, 0.4, 0.4, 0.25)
    assert len(outline.get_facecolor()) == 0
    assert tuple(outline.get_edgecolor()[0]) == to_rgba(two.get_color())
    plot.calibration_curve(report_of("one score"), label="three", ax=ax)  # its bands are strokes
    assert len(strokes(ax, "Calibrated (95 % band): three")) == 1


def test_colour_and_line_of_a_series() -> None:
    report = report_of("binary")
    ax = plot.reliability_diagram(report, kind="points", color="tab:purple", line={"ls": ":", "marker": "^"}, label="a")
    (joined,) = [line for line in ax.lines if line.get_label() != "Calibrated"]
    own, purple = report.diagram.counts > 0, to_rgba("tab:purple")
    expected = np.column_stack([report.diagram.confidences, report.diagram.accuracies])[own]
    np.testing.assert_array_equal(joined.get_xydata(), expected)
    assert (joined.get_linestyle(), joined.get_marker(), to_rgba(joined.get_color())) == (":", "None", purple)
    assert tuple(dots(ax, "a").get_facecolor()[0]) == purple
    assert len(dots(ax, "a").get_paths()[0].vertices) == 4  # a triangle
    assert to_rgba(strip_of(ax).patches[0].get_edgecolor()) == purple
    plot.calibration_curve(report, color=(0, 0.5, 0), line={"linestyle": "--", "alpha": 0.5}, label="b", ax=ax)
    (curve,) = [line for line in ax.lines if line.get_label() == "b"]
    assert (curve.get_color(), curve.get_linestyle(), curve.get_alpha()) == ((0, 0.5, 0), "--", 0.5)
    bare = plot.reliability_diagram(report, kind="points")
    assert [line.get_label() for line in bare.lines] == ["Calibrated"]
    bar = next(
        c for c in plot.reliability_diagram(report, color="k").containers if c.get_label() == "Observed frequency"
    )[0]
    assert to_rgba(bar.get_facecolor())[:3] == pytest.approx((0.7, 0.7, 0.7))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"color": "reddish"}, "color: expected a colour that matplotlib knows, got 'reddish'"),
        ({"color": "none"}, "color: expected a colour that matplotlib knows, got 'none'"),
        ({"line": {"style": ":"}}, "line: expected properties of matplotlib.lines.Line2D, got 'style'"),
        ({"line": {"ls": ":", "linestyle": "-"}}, "line: expected each property once"),
        ({"line": {"c": "red"}}, "line: expected properties that nothing else sets, got 'color'; pass color and label"),
        (
            {"line": {"label": "a"}},
            "line: expected properties that nothing else sets, got 'label'; pass color and label",
        ),
        ({"line": {"ydata": [1]}}, "line: expected properties that nothing else sets, got 'ydata'; leave it out"),
        ({"line": {"ms": 3}}, "line: expected properties that nothing else sets, got 'markersize'; leave it out"),
        ({"kind": "bars", "line": {"ls": ":"}}, "line: expected no line properties for kind='bars', got ls"),
    ],
)
def test_colours_and_lines_that_are_refused(options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        plot.reliability_diagram(report_of("binary"), **{"kind": "points", **options})
    if "line" in options and "kind" not in options and "ms" not in options["line"]:
        with pytest.raises(InputError, match=message):
            plot.calibration_curve(report_of("binary"), **options)


def test_a_curve_by_itself_says_which_it_is() -> None:
    for name, curve in report_of("binary").curves.items():
        ax = plot.calibration_curve(curve)
        assert f"Observed frequency, {name}" in words(ax)
        assert ax.child_axes == []
    assert "isotonic" in words(plot.calibration_curve(report_of("binary")))[0]


def test_a_curve_of_one_score_is_a_marker_and_two_strokes() -> None:
    curve = report_of("one score").curves["isotonic"]
    ax = plot.calibration_curve(report_of("one score"))
    line = ax.lines[0]
    assert (line.get_marker(), line.get_xydata().tolist()) == ("o", [[0.5, 0.4]])
    found = {label: strokes(ax, label) for label in ("95 % confidence band, pointwise", "Calibrated (95 % band)")}
    np.testing.assert_array_equal(
        [band[0, :, 1] for band in found.values()],
        [
            [curve.confidence_lows[0], curve.confidence_highs[0]],
            [curve.consistency_lows[0], curve.consistency_highs[0]],
        ],
    )


def test_a_curve_of_few_scores_has_a_marker_at_each() -> None:
    assert plot.calibration_curve(report_of("empty bins")).lines[0].get_marker() == "o"
    assert plot.calibration_curve(report_of("binary")).lines[0].get_marker() == "None"


def test_a_band_that_needs_resampling_is_not_drawn_without() -> None:
    report = evaluate(*event(), n_resamples=0)
    assert words(plot.calibration_curve(report)) == ["Observed frequency, isotonic", "Calibrated"]
    assert len(words(plot.calibration_curve(report, kind="smooth"))) == 3
    bare = plot.calibration_curve(report_of("binary"), confidence=False, consistency=False, counts=False, legend=False)
    assert (len(bare.collections), bare.child_axes, bare.get_legend()) == (0, [], None)


# ---------------------------------------------------------------- the histogram of scores


@pytest.mark.parametrize("kind", ["binary", "top-label", "weighted", "empty bins", "certain"])
def test_the_histogram_counts_what_happened_up_and_what_did_not_down(kind: str) -> None:
    diagram = report_of(kind).diagram
    own = diagram.counts > 0
    ax = plot.score_histogram(report_of(kind))
    labels = ("Correct", "Incorrect") if kind == "top-label" else ("Events", "Non-events")
    up, down = (np.array(bars(ax, label)).T for label in labels)
    positives = (diagram.counts * diagram.accuracies)[own]
    np.testing.assert_allclose(up[2:], [0 * positives, positives], atol=1e-9)
    np.testing.assert_allclose(-down[2:][::-1], [0 * positives, diagram.counts[own] - positives], atol=1e-9)
    np.testing.assert_array_equal(up[0], diagram.edges[:-1][own])
    assert ax.get_ylabel() == ("Weight" if kind == "weighted" else "Rows")
    assert words(ax) == list(labels)


def test_the_histogram_is_that_of_the_rows() -> None:
    probs, happened = event()
    ax = plot.score_histogram(report_of("binary"), kind="stacked")
    below, above = (np.array(bars(ax, label)).T for label in ("Events", "Non-events"))
    edges = np.arange(16) / 15
    filled = np.histogram(probs, edges)[0] > 0
    np.testing.assert_array_equal(below[3], np.histogram(probs[happened], edges)[0][filled])
    np.testing.assert_array_equal(above[2], below[3])
    np.testing.assert_array_equal(above[3], np.histogram(probs, edges)[0][filled])


def test_the_histogram_has_no_negative_counts() -> None:
    ax = plot.score_histogram(report_of("binary"))
    ax.figure.draw_without_rendering()
    said = [(value, text.get_text()) for value, text in zip(ax.get_yticks(), ax.get_yticklabels(), strict=True)]
    assert any(value < 0 for value, _ in said)
    assert all(text == f"{abs(value):,.0f}" for value, text in said)


def test_a_logarithmic_histogram_shows_bins_of_one_row() -> None:
    report = report_of("binary")
    plain, log = (plot.score_histogram(report, log=log) for log in (False, True))
    for label in ("Events", "Non-events"):
        assert bars(plain, label) == bars(log, label)
    assert (plain.get_yscale(), log.get_yscale()) == ("linear", "symlog")
    place = log.transData.transform
    zero, one, ten = (place((0, rows))[1] for rows in (0, 1, 10))
    assert ten - one == pytest.approx(place((0, 100))[1] - ten)  # equal ratios, equal steps
    assert one - zero > 0.5 * (ten - one)
    light = evaluate([0.2, 0.7, 0.8], [0, 1, 1], weights=[0.5, 0.25, 1.5])
    assert plot.score_histogram(light, log=True).yaxis.get_transform().linthresh == 0.25


# ---------------------------------------------------------------- classes


def title(ax: Any) -> list[str]:
    return ax.get_title(loc="left").split("\n")


@pytest.mark.parametrize("order", ["error", "support", "index"])
def test_each_panel_is_the_diagram_of_its_class(order: Any) -> None:
    report = of_classes()
    panels = plot.classwise(report, order=order)
    result = report.classwise
    keys = {"error": -result.errors, "support": -result.supports, "index": np.arange(6)}[order]
    assert [title(panel)[0] for panel in panels] == [NAMES[k] for k in np.argsort(keys, kind="stable")]
    for panel in panels:
        k = NAMES.index(title(panel)[0])
        diagram = result.diagram(k)
        own = diagram.counts > 0
        np.testing.assert_array_equal([b[3] for b in bars(panel, "Observed frequency")], diagram.accuracies[own])
        np.testing.assert_array_equal([b[0] for b in bars(panel, "Observed frequency")], diagram.edges[:-1][own])
        whiskers = strokes(panel, "95 % CI")
        np.testing.assert_array_equal(whiskers[:, :, 1], np.column_stack([diagram.lows, diagram.highs])[own])
        assert title(panel)[1] == f"ECE {result.errors[k]:.3f}, {result.supports[k]:,.0f} rows"
    (figure,) = {panel.figure for panel in panels}
    orders = {"error": "largest error first", "support": "most frequent first", "index": "in their order"}
    assert figure.get_suptitle() == f"All classes, {orders[order]}"
    named = [text.get_text() for text in figure.legends[0].get_texts()]
    assert named == ["Observed frequency", "Mean predicted probability", "95 % CI", "Calibrated", "Gap"]


def test_of_a_hundred_classes_twelve_are_drawn_and_the_figure_says_so() -> None:
    report = evaluate(*softmax(2_000, 100), level=None)
    panels = plot.classwise(report)
    worst = np.argsort(-report.classwise.errors, kind="stable")[:12]
    assert [title(panel)[0] for panel in panels] == [f"class {k}" for k in worst]
    assert panels[0].figure.get_suptitle() == "12 of 100 classes, largest error first"
    assert len(panels[0].figure.axes) == 12
    few = plot.classwise(report, max_classes=3, order="index")
    assert few.shape == (3,)
    assert few[0].figure.get_suptitle() == "3 of 100 classes, in their order"
    assert len(plot.classwise(evaluate(*softmax(200, 14), n_bins=2, level=None), max_classes=99)) == 14


@pytest.mark.skipif(not SHARED.is_dir(), reason="the folder shared/data is not beside this checkout")
def test_the_classes_of_a_real_model_are_drawn_by_their_error() -> None:
    file = np.load(SHARED / "densenet-bc-100-cifar-100.npz")
    report = calibrant.evaluate(file["predictions"], file["ground_truth"].reshape(-1), level=None)
    panels = plot.classwise(report)
    errors = [float(re.match(r"ECE ([\d.]+), 100 rows", title(panel)[1])[1]) for panel in panels]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] == pytest.approx(report.classwise.errors.max(), abs=5e-4)
    assert all(len(strokes(panel, "95 % CI")) == 0 for panel in panels)


def test_classes_are_drawn_on_the_axes_given_and_on_no_more() -> None:
    figure, grid = plt.subplots(2, 2)
    panels = plot.classwise(of_classes(), ax=grid)
    assert list(panels) == list(grid.flat)
    assert plt.get_fignums() == [figure.number]
    assert panels[-1].get_xlabel() == "Predicted probability\n4 of 6 classes, largest error first"
    assert panels[0].get_xlabel() == "Predicted probability"
    assert words(panels[-1]) == ["Observed frequency", "Mean predicted probability", "95 % CI", "Calibrated", "Gap"]
    _, grid = plt.subplots(2, 4)
    panels = plot.classwise(of_classes(), ax=list(grid.flat), legend=False)
    assert len(panels) == 6
    assert panels[-1].get_xlabel() == "Predicted probability"
    assert all(not spare.has_data() and spare.axison for spare in grid.flat[6:])


def test_a_figure_or_a_part_of_one_is_divided() -> None:
    whole = plt.figure(layout="constrained")
    left, right = whole.subfigures(1, 2)
    panels = plot.classwise(of_classes(), max_classes=5, ax=right)
    assert {panel.figure for panel in panels} == {right}
    assert (len(right.axes), len(left.axes)) == (5, 0)
    assert right.get_suptitle() == "5 of 6 classes, largest error first"
    assert plt.get_fignums() == [whole.number]
    own = Figure()
    panels = plot.classwise(of_classes(), ax=own)
    assert own.legends == []
    assert words(panels[-1])  # without a layout the figure makes no room for one


def test_every_column_of_panels_has_its_ticks() -> None:
    panels = plot.classwise(of_classes(), max_classes=5)
    figure = panels[0].figure
    figure.draw_without_rendering()
    shown = [any(t.label1.get_visible() for t in panel.xaxis.get_major_ticks()) for panel in panels]
    assert shown == [False, False, True, True, True]
    assert [panel.get_xlabel() for panel in panels] == [
        "",
        "",
        "Predicted probability",
        "Predicted probability",
        "Predicted probability",
    ]


def test_classes_of_which_nothing_was_kept_are_left_out_and_said_to_be() -> None:
    probs = np.array([[0.7, 0.29, 0.01], [0.6, 0.38, 0.02], [0.2, 0.79, 0.01], [0.1, 0.88, 0.02]])
    result = calibrant.classwise_calibration(probs, [0, 1, 1, 1], threshold=0.1)
    panels = plot.classwise(result)
    assert [title(panel)[0] for panel in panels] == ["class 1", "class 0"]
    assert title(panels[0])[1] == f"error {result.errors[1]:.3f}, 3 rows"
    assert panels[0].figure.get_suptitle() == "2 of 3 classes, largest error first"
    with pytest.raises(InputError, match="report: expected a class with scores that reach the threshold, got none"):
        plot.classwise(calibrant.classwise_calibration(probs, [0, 1, 1, 1], threshold=1.0))


def test_labels_that_are_judged_by_themselves_are_drawn() -> None:
    probs = np.random.default_rng(0).random((200, 3))
    report = evaluate(probs, (probs > 0.5).astype(int), notion="multilabel", weights=np.linspace(0.1, 1, 200))
    panels = plot.classwise(report, order="index")
    supports = report.classwise.supports
    assert [title(panel)[1].split(", ")[1] for panel in panels] == [f"weight {s:,.6g}" for s in supports]


# ---------------------------------------------------------------- models


@pytest.mark.parametrize("n", [2, 3])
def test_each_model_is_drawn_in_its_own_colour_and_marker(n: int) -> None:
    comparison = of_models(n)
    ax = plot.compare(comparison)
    labels = [f"{name} (ECE {comparison.models[name]['ece']:.3f})" for name in comparison.names]
    assert words(ax)[:n] == labels
    looks = set()
    for label, diagram in zip(labels, comparison.diagrams.values(), strict=True):
        own = diagram.counts > 0
        drawn, places = dots(ax, label), np.column_stack([diagram.confidences, diagram.accuracies])[own]
        np.testing.assert_array_equal(drawn.get_offsets(), places)
        assert any(np.array_equal(line.get_xydata(), places) for line in ax.lines)
        looks.add((tuple(drawn.get_facecolor()[0]), drawn.get_paths()[0].vertices.tobytes()))
    assert len({colour for colour, _ in looks}) == len({marker for _, marker in looks}) == n
    ends = np.vstack([np.column_stack([d.lows, d.highs])[d.counts > 0] for d in comparison.diagrams.values()])
    np.testing.assert_array_equal(strokes(ax, "95 % CI")[:, :, 1], ends)
    shares = [patch.get_data().values for patch in strip_of(ax).patches]
    np.testing.assert_array_equal(shares, [d.proportions for d in comparison.diagrams.values()])
    bare = plot.compare(comparison, intervals=False, counts=False, legend=False)
    assert (len(strokes(bare, "95 % CI")), bare.child_axes, bare.get_legend()) == (0, [], None)


def test_the_models_of_classes_are_judged_by_being_right() -> None:
    probs, targets = softmax(600, 3)
    assert plot.compare(calibrant.compare(probs, probs[:, ::-1], targets)).get_ylabel() == "Accuracy"


MEASURES = ("debiased_square", "ece", "accuracy", "brier", "nll")


@pytest.mark.parametrize("n", [2, 3])
def test_differences_stand_at_their_values_with_their_intervals(n: int) -> None:
    comparison = of_models(n)
    panels = plot.differences(comparison)
    for panel, key in zip(panels, MEASURES, strict=True):
        estimates = [pair[key] for pair in comparison.pairs]
        found = {}
        for collection in panel.collections:
            if isinstance(collection, PathCollection):
                hollow = not np.array_equal(collection.get_facecolor(), collection.get_edgecolor())
                assert collection.get_label() == f"95 % CI {'with' if hollow else 'without'} 0"
                found |= {int(y): (x, hollow) for x, y in collection.get_offsets()}
        holds = [e.low <= 0 <= e.high for e in estimates]
        assert [found[y] for y in range(len(estimates))] == [
            (e.value, h) for e, h in zip(estimates, holds, strict=True)
        ]
        ends = {
            (a[1], a[0], b[0]) for c in panel.collections if isinstance(c, LineCollection) for a, b in c.get_segments()
        }
        assert ends == {(y, e.low, e.high) for y, e in enumerate(estimates)}
        assert panel.get_ylim()[0] > panel.get_ylim()[1]  # the first pair above
        assert [line.get_xdata()[0] for line in panel.lines] == [0]
    assert any(len({c.get_label() for c in panel.collections if isinstance(c, PathCollection)}) for panel in panels)


def test_the_rows_say_what_is_subtracted_and_which_p_value_decides() -> None:
    panels = plot.differences(of_models(2))
    labels = [panel.get_yticklabels()[0].get_text() for panel in panels]
    assert labels[0].startswith("debiased squared CE, p ")
    assert labels[1:] == ["ECE", "accuracy at 0.5", "Brier score", "log loss"]
    assert panels[-1].get_xlabel() == "plain − sharper"
    panels = plot.differences(of_models(3))
    assert [panel.get_title(loc="left") for panel in panels] == [
        "debiased squared CE",
        "ECE",
        "accuracy at 0.5",
        "Brier score",
        "log loss",
    ]
    pairs = ["plain − sharper", "plain − much sharper", "sharper − much sharper"]
    assert [text.get_text() for text in panels[1].get_yticklabels()] == pairs
    p_values = [
        f"{name}, p {'< 0.001' if p < 5e-4 else f'= {p:.3f}'}"
        for name, p in zip(pairs, (pair["debiased_square"].p_value for pair in of_models(3).pairs), strict=True)
    ]
    assert [text.get_text() for text in panels[0].get_yticklabels()] == p_values
    assert panels[-1].get_xlabel() == "First minus second"


def test_an_infinite_difference_is_said_in_a_word() -> None:
    probs, happened = event(400)
    certain = np.where(happened, 0.0, probs)  # says never of what happened
    panels = plot.differences(calibrant.compare(probs, certain, happened))
    assert [text.get_text() for text in panels[4].texts] == ["infinite"]
    assert [len(panel.texts) for panel in panels] == [0, 0, 0, 0, 1]
    assert not list(panels[4].collections)
    both = plot.differences(calibrant.compare(certain, certain**2, happened))
    assert [text.get_text() for text in both[4].texts] == ["unknown"]


def test_a_difference_without_an_interval_is_said_in_its_number() -> None:
    from calibrant.render.row_figures import without_interval
    from calibrant.results import Estimate

    assert without_interval(Estimate(-0.25)) == "-0.25, no interval"


def test_differences_are_drawn_on_the_axes_given() -> None:
    figure, grid = plt.subplots(6, 1)
    panels = plot.differences(of_models(), ax=grid)
    assert list(panels) == list(grid[:5])
    assert plt.get_fignums() == [figure.number]
    assert words(panels[-1])
    with pytest.raises(InputError, match="ax: expected 5 Axes or more, got 4; pass more Axes, or a Figure"):
        plot.differences(of_models(), ax=grid[:4])


# ---------------------------------------------------------------- groups


def test_groups_stand_at_their_error_with_interval_and_noise() -> None:
    report = of_groups()
    ax = plot.groups(report)
    errors = [group.report["ece"] for group in report.groups]
    assert [(g.name, g.called_out, bool(g.flag)) for g in report.groups] == [
        ("b", True, False),
        ("a", False, False),
        ("d", False, False),
        ("c", False, True),
    ]
    found = {
        label: dots(ax, label).get_offsets().tolist() for label in ("ECE", "Evidence of miscalibration", "Too few rows")
    }
    assert found == {
        "ECE": [[errors[1].value, 1], [errors[2].value, 2]],
        "Evidence of miscalibration": [[errors[0].value, 0]],
        "Too few rows": [[errors[3].value, 3]],
    }
    ends = {(a[1], a[0], b[0]) for a, b in strokes(ax, "95 % CI")}
    assert ends == {(y, e.low, e.high) for y, e in enumerate(errors)}
    boxes = ax.containers[0].patches
    np.testing.assert_array_equal([box.get_x() for box in boxes], [e.floor.mean for e in errors])
    np.testing.assert_allclose([box.get_x() + box.get_width() for box in boxes], [e.floor.upper for e in errors])
    np.testing.assert_allclose([box.get_y() + box.get_height() / 2 for box in boxes], range(4))
    assert [text.get_text() for text in ax.get_yticklabels()] == ["b (500)", "a (300)", "d (400)", "c (12)"]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]
    assert words(ax) == ["95 % CI", "ECE", "Evidence of miscalibration", "Too few rows", "Noise floor: mean to 95 %"]
    assert to_rgba(dots(ax, "Too few rows").get_facecolor()[0]) == (1, 1, 1, 1)
    assert ax.get_xlim()[0] < 0 < max(e.high for e in errors) < ax.get_xlim()[1]


@pytest.mark.parametrize("order", ["error", "support", "p_value"])
def test_groups_are_drawn_in_order(order: Any) -> None:
    found = list(of_groups().groups)
    keys = {
        "error": lambda g: -g.report["ece"].value,
        "support": lambda g: -g.report.n,
        "p_value": lambda g: (np.isnan(g.p_value), g.p_value),
    }
    expected = [f"{g.name} ({g.report.n})" for g in sorted(found, key=keys[order])]
    ax = plot.groups(of_groups(), order=order)
    assert [text.get_text() for text in ax.get_yticklabels()] == expected
    assert expected[-1] == "c (12)" or order == "error"


def test_groups_without_intervals_are_points() -> None:
    ax = plot.groups(of_groups(None), legend=True)
    assert words(ax) == ["ECE", "Too few rows"]
    assert not ax.containers
    assert len(dots(ax, "ECE").get_offsets()) == 3


def test_many_groups_have_a_figure_as_high_as_they_need() -> None:
    probs, happened = event(2_000)
    report = evaluate(probs, happened, groups=np.arange(2_000) % 40, level=None)
    ax = plot.groups(report)
    assert ax.figure.get_size_inches()[1] == pytest.approx(1.5 + 40 * 0.27)
    ax.figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in ax.get_yticklabels()]
    assert all(above.y0 >= below.y1 for above, below in itertools.pairwise(boxes))


@pytest.mark.parametrize("level", [0.95, None])
@pytest.mark.parametrize("measure", ["oe_ratio", "calibration_slope"])
def test_groups_stand_at_another_measure_next_to_its_value_under_calibration(measure: str, level: Any) -> None:
    report = of_wards(level)
    forest, ax = report.forests[measure], plot.groups(report, measure=measure)
    label = {"oe_ratio": "O:E ratio", "calibration_slope": "calibration slope"}[measure]
    held = {(value, y) for y, value in enumerate(forest.values) if np.isfinite(value)}
    assert 3 <= len(held) <= 4
    found = [
        dots(ax, word).get_offsets()
        for word in (label, "Evidence of miscalibration", "Too few rows")
        if word in words(ax)
    ]
    assert {tuple(place) for places in found for place in places.tolist()} == held
    ends = {(a[1], a[0], b[0]) for a, b in strokes(ax, "95 % CI")}
    lows = {(y, forest.lows[y], forest.highs[y]) for y in range(4) if np.isfinite(forest.lows[y])}
    assert ends == lows
    assert bool(ends) == (level is not None)
    (line,) = ax.lines
    assert (list(line.get_xdata()), line.get_label()) == ([1.0, 1.0], "Calibrated")
    if level is None:
        assert ax.get_xlabel() == label
    else:
        share = f"{100 * forest.heterogeneity:.0f}"
        assert ax.get_xlabel().startswith(f"{label} (I² {share} %, p ")
    assert [text.get_text().split()[0] for text in ax.get_yticklabels()] == list(forest.groups)
    left, right = ax.get_xlim()
    assert left < min(value for value, _ in held) <= max(value for value, _ in held) < right
    assert not ax.containers


def test_groups_stand_at_any_measure_of_the_report() -> None:
    report = of_groups()
    ax = plot.groups(report, measure="brier", order="error")
    expected = sorted((-group.report["brier"].value, group.name) for group in report.groups)
    assert [text.get_text().split()[0] for text in ax.get_yticklabels()] == [name for _, name in expected]
    assert ax.get_xlabel() == "Brier score"
    assert not ax.lines
    signed = plot.groups(report, measure="mean_gap")
    least = min(group["mean_gap"].low for group in report.groups)
    assert signed.get_xlim()[0] < least < 0


# ---------------------------------------------------------------- curves over thresholds


def test_the_roc_curve_is_drawn_over_its_diagonal() -> None:
    curve = of_forecasts().panels["roc_curve"]
    ax = plot.roc_curve(curve)
    line, diagonal = ax.lines
    np.testing.assert_array_equal(line.get_xdata(), curve.false_alarms)
    np.testing.assert_array_equal(line.get_ydata(), curve.hits)
    assert diagonal.get_xydata().tolist() == [[0, 0], [1, 1]]
    assert words(ax) == ["ROC curve", "No discrimination"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("False positive rate", "True positive rate")
    plot.roc_curve(curve, label="again", color="black", line={"linestyle": ":"}, ax=ax)
    assert len(ax.lines) == 3  # the diagonal once
    assert (ax.lines[2].get_color(), ax.lines[2].get_linestyle()) == ("black", ":")
    assert words(ax) == ["ROC curve", "again", "No discrimination"]


# ---------------------------------------------------------------- evidence over time


@cache
def of_slices(slices: int = 12, alpha: float = 0.05, power: float = 1.5) -> calibrant.Monitor:
    """Return a monitor of a model that drifts after six slices."""
    rng = np.random.default_rng(0)
    watch = calibrant.Monitor(alpha=alpha)
    for t in range(slices):
        scores = rng.random(500)
        watch.update(scores, rng.random(500) < (scores if t < 6 else scores**power), label=f"$week_{t + 1}")
    return watch


def test_evidence_is_drawn_on_a_logarithmic_scale_with_the_alarm() -> None:
    history = of_slices().to_dict()
    ax = plot.evidence(of_slices())
    line, alarm = ax.lines
    np.testing.assert_array_equal(line.get_xdata(), np.arange(1, 13))
    log_evidence = [part["log_evidence"] for part in history["slices"]]
    np.testing.assert_allclose(line.get_ydata(), np.exp(np.minimum(log_evidence, np.log(1e12))))
    np.testing.assert_allclose(alarm.get_ydata(), 20)
    assert words(ax) == ["Evidence", "Alarm at 20", "Above 10¹²"]
    assert ax.get_yscale() == "log"
    assert ax.get_ylim()[0] < min(line.get_ydata()) < max(line.get_ydata()) < ax.get_ylim()[1]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == [rf"\$week_{k}" for k in (2, 4, 6, 8, 10, 12)]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("Slice", "Evidence against calibration")
    same = plot.evidence(history)
    np.testing.assert_array_equal(same.lines[0].get_ydata(), line.get_ydata())
    np.testing.assert_array_equal(of_slices().plot(label="new").lines[0].get_ydata(), line.get_ydata())


@pytest.mark.parametrize("alpha", [0.05, 1e-11])
def test_the_alarm_is_visible_beside_large_evidence(alpha: float) -> None:
    """The axis ends at about 1e12, or far above the alarm; diamonds mark what is cut."""
    watch = of_slices(20, alpha, power=3.0)
    log_evidence = np.array([part["log_evidence"] for part in watch.to_dict()["slices"]])
    cut = max(1e12, 1e3 / alpha)
    assert log_evidence.max() > np.log(cut)
    ax = plot.evidence(watch)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), np.exp(np.minimum(log_evidence, np.log(cut))), rtol=1e-9)
    assert ax.get_ylim()[1] < 10 * cut
    low, high = np.log(ax.get_ylim())
    assert 0.04 < (-np.log(alpha) - low) / (high - low) < 0.96
    (diamonds,) = ax.collections
    np.testing.assert_array_equal(diamonds.get_offsets()[:, 0], np.flatnonzero(log_evidence > np.log(cut)) + 1)
    np.testing.assert_allclose(diamonds.get_offsets()[:, 1], cut, rtol=1e-9)  # on the line, not on the alarm
    word = "Above 10¹²" if alpha == 0.05 else "Above 10¹⁴"
    assert word in words(ax)


def test_a_page_says_that_large_evidence_is_cut() -> None:
    assert "Evidence above 10¹² is drawn at the upper edge as a diamond" in page_caption(of_slices(20, power=3.0))
    assert "is cut" not in page_caption(of_slices(3))


def page_caption(watch: calibrant.Monitor) -> str:
    """Return what a page says of the evidence."""
    figures = next(block for block in watch._document(full=True).blocks if isinstance(block, Figures))
    return next(figure.caption for figure in figures.figures if figure.name == "evidence")


def test_two_histories_share_an_alarm_and_the_longer_one_names_the_slices() -> None:
    ax = plot.evidence(of_slices(), label="drifts")
    plot.evidence(of_slices(5), label="short", color="black", line={"linestyle": ":"}, ax=ax)
    assert len(ax.lines) == 3
    assert (ax.lines[2].get_color(), ax.lines[2].get_linestyle()) == ("black", ":")
    plot.evidence(of_slices(20, 0.01), label="long", ax=ax)
    above = ["Above 10¹²: drifts", "Above 10¹²: long"]
    assert sorted(words(ax)) == sorted(["drifts", "short", "long", "Alarm at 20", "Alarm at 100", *above])
    assert ax.get_xlim() == (0.5, 20.5)
    assert ax.get_xticklabels()[-1].get_text() == r"\$week_20"
    values = np.concatenate([line.get_ydata() for line in ax.lines])
    assert ax.get_ylim()[0] < values.min() < values.max() < ax.get_ylim()[1]


def test_evidence_beyond_floats_and_of_no_slices_is_drawn() -> None:
    watch = calibrant.Monitor()
    empty = plot.evidence(watch)
    assert len(empty.lines[0].get_ydata()) == 0
    for _ in range(2):
        watch.update(np.full(3_000, 0.5), np.ones(3_000))
    ax = plot.evidence(watch)
    assert ax.lines[0].get_ydata()[-1] == pytest.approx(1e12)
    for drawn in (empty, ax, plot.evidence(watch, ax=plt.figure(figsize=(1, 1)).add_subplot())):
        drawn.figure.canvas.draw()


# ---------------------------------------------------------------- where it is drawn

#: Every function on a result of its own.
DRAWN = {
    "bars": lambda **o: plot.reliability_diagram(report_of("binary"), **o),
    "points": lambda **o: plot.reliability_diagram(report_of("top-label"), kind="points", **o),
    "isotonic": lambda **o: plot.calibration_curve(report_of("binary"), **o),
    "smooth": lambda **o: plot.calibration_curve(report_of("top-label"), kind="smooth", **o),
    "histogram": lambda **o: plot.score_histogram(report_of("binary"), **o),
    "compare": lambda **o: plot.compare(of_models(3), **o),
    "groups": lambda **o: plot.groups(of_groups(), **o),
    "forest": lambda **o: plot.groups(of_wards(), measure="oe_ratio", **o),
    "decision": lambda **o: plot.decision_curve(of_wards().panels["decision_curve"], **o),
    "murphy": lambda **o: plot.murphy_curve(of_forecasts().panels["murphy_curve"], **o),
    "roc": lambda **o: plot.roc_curve(of_forecasts().panels["roc_curve"], **o),
    "evidence": lambda **o: plot.evidence(of_slices(), **o),
}
PANELS = {
    "classwise": lambda **o: plot.classwise(of_classes(), **o),
    "differences": lambda **o: plot.differences(of_models(3), **o),
}


@pytest.mark.parametrize("name", DRAWN)
def test_ax_is_drawn_on_and_no_figure_is_opened(name: str) -> None:
    figure, (left, right) = plt.subplots(1, 2)
    assert DRAWN[name](ax=right) is right
    assert plt.get_fignums() == [figure.number]
    assert not left.has_data()
    assert right.has_data()
    own = Figure(layout="constrained")
    DRAWN[name](ax=own.subplots())
    own.draw_without_rendering()
    assert plt.get_fignums() == [figure.number]


def test_results_are_not_written_to() -> None:
    results = (report_of("binary"), report_of("top-label"), of_models(3), of_groups(), of_classes())
    before = [copy.deepcopy(arrays_in(result)) for result in results]
    assert all(before)
    for draw in (DRAWN | PANELS).values():
        draw()
    for result, held in zip(results, before, strict=True):
        for array, copied in zip(arrays_in(result), held, strict=True):
            np.testing.assert_array_equal(array, copied)


# ---------------------------------------------------------------- nothing hides anything


def extent(artist: Any) -> Any:
    return artist.get_window_extent(artist.figure.canvas.get_renderer())


@pytest.mark.parametrize("name", [*DRAWN, *PANELS])
def test_without_ax_there_is_one_new_figure_with_a_layout_and_everything_inside(name: str) -> None:
    figure = np.ravel((DRAWN | PANELS)[name]())[0].figure
    (number,) = plt.get_fignums()
    assert figure is plt.figure(number)
    assert type(figure.get_layout_engine()).__name__ == "ConstrainedLayoutEngine"
    np.ravel(figure.axes)[0].set_title("A title")
    figure.canvas.draw()
    box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    pixel = 1.5 / figure.dpi
    assert box.x0 >= -pixel
    assert box.y0 >= -pixel
    assert box.x1 <= width + pixel
    assert box.y1 <= height + pixel


@pytest.mark.parametrize("size", [None, (3.4, 4.2), (2.6, 3.2)])
@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.slow
def test_legend_labels_title_and_strip_keep_clear_of_one_another(name: str, size: Any) -> None:
    ax = DRAWN[name]() if size is None else DRAWN[name](ax=plt.subplots(figsize=size, layout="constrained")[1])
    ax.set_title("A title")
    ax.figure.canvas.draw()
    legend, label, data = extent(ax.get_legend()), extent(ax.xaxis.label), extent(ax)
    assert legend.y1 <= label.y0 < label.y1 <= data.y0
    assert data.height > 30
    assert extent(ax.title).y0 >= data.y1
    for strip in ax.child_axes:
        own = extent(strip)
        assert data.y1 < own.y0
        assert own.y1 <= extent(ax.title).y0
        assert (own.x0, own.x1) == pytest.approx((data.x0, data.x1))
        said = extent(strip.texts[0])
        for patch in strip.patches:
            values, edges, _ = patch.get_data()
            for share, left, right in zip(values, edges[:-1], edges[1:], strict=True):
                (x0, _), (x1, top) = strip.transData.transform([(left, 0), (right, share)])
                assert top <= said.y0 + 1 or x1 <= said.x0 or x0 >= said.x1


def test_a_legend_has_as_many_columns_as_fit() -> None:
    wide = plot.reliability_diagram(report_of("binary"), ax=plt.subplots(figsize=(9, 4))[1])
    narrow = plot.reliability_diagram(report_of("binary"), ax=plt.subplots(figsize=(2.5, 4))[1])
    assert wide.get_legend()._ncols == 5
    assert narrow.get_legend()._ncols == 1


def test_marks_are_seen_in_a_dark_style() -> None:
    with plt.style.context("dark_background"):
        ax = plot.reliability_diagram(report_of("binary"))
        (lines,) = [c for c in ax.collections if c.get_label() == "Mean predicted probability"]
        assert to_rgba(lines.get_edgecolor()[0]) == (1, 1, 1, 1)
        (container,) = [c for c in ax.containers if c.get_label() == "Observed frequency"]
        assert sum(container[0].get_facecolor()[:3]) < 1
    plain = plot.reliability_diagram(report_of("binary"))
    (container,) = [c for c in plain.containers if c.get_label() == "Observed frequency"]
    assert sum(container[0].get_facecolor()[:3]) > 2


# ---------------------------------------------------------------- errors


def without_curves() -> calibrant.Report:
    return evaluate(*event(), level=None)


def every_class() -> calibrant.Report:
    return of_classes(notion="classwise")


ERRORS = {
    "no result": (
        lambda: plot.reliability_diagram([0.2, 0.8]),
        "result: expected a Report or a ReliabilityDiagram, got list",
    ),
    "no diagram": (
        lambda: plot.reliability_diagram(every_class()),
        "result: expected a report on one evaluated event, got one on notion='classwise'; draw calibrant.plot.",
    ),
    "histogram": (lambda: plot.score_histogram(every_class()), "result: expected a report on one evaluated event"),
    "kind": (
        lambda: plot.reliability_diagram(report_of("binary"), kind="lines"),
        "kind: expected one of 'bars', 'points'",
    ),
    "histogram's kind": (
        lambda: plot.score_histogram(report_of("binary"), kind="stack"),
        "kind: expected one of 'mirrored', 'stacked', got 'stack'; did you mean 'stacked'",
    ),
    "stacked on a log scale": (
        lambda: plot.score_histogram(report_of("binary"), kind="stacked", log=True),
        "log: expected False for kind='stacked', got True; draw kind='mirrored'",
    ),
    "number": (
        lambda: plot.reliability_diagram(report_of("binary"), number="mce"),
        "number: expected one of 'auto', 'ece', 'smece', 'ace', got 'mce'",
    ),
    "number of a diagram": (
        lambda: plot.reliability_diagram(quantiles(), number="ece"),
        "number: expected 'ece' only for a report that contains it, got ReliabilityDiagram; evaluate this "
        "measure, or pass number=None",
    ),
    "curve's kind": (
        lambda: plot.calibration_curve(report_of("binary"), kind="step"),
        "kind: expected one of 'isotonic', 'smooth'",
    ),
    "curve of another kind": (
        lambda: plot.calibration_curve(report_of("binary").curves["smooth"], kind="isotonic"),
        "kind: expected 'smooth', the kind of the curve, got 'isotonic'; leave kind out",
    ),
    "no curve": (lambda: plot.calibration_curve(3), "result: expected a Report or a CalibrationCurve, got int"),
    "curve without level": (
        lambda: plot.calibration_curve(without_curves()),
        "result: expected a report with calibration curves, got one without intervals .level=None.; evaluate with",
    ),
    "curve of every class": (
        lambda: plot.calibration_curve(every_class()),
        "got one on notion='classwise'; evaluate with notion='top-label'",
    ),
    "order": (lambda: plot.classwise(of_classes(), order="name"), "order: expected one of 'error', 'support', 'index'"),
    "max_classes": (
        lambda: plot.classwise(of_classes(), max_classes=0),
        "max_classes: expected an integer from 1, got 0",
    ),
    "max_classes True": (lambda: plot.classwise(of_classes(), max_classes=True), "an integer from 1, got True"),
    "no classes": (
        lambda: plot.classwise(report_of("binary")),
        "report: expected a report on classes, got one on one event; evaluate probabilities of shape",
    ),
    "classes not asked for": (
        lambda: plot.classwise(of_classes(classwise=False)),
        "a report on classes, got one with classwise=False",
    ),
    "no report of classes": (
        lambda: plot.classwise(None),
        "report: expected a Report or a ClasswiseCalibration, got NoneType",
    ),
    "one Axes for classes": (
        lambda: plot.classwise(of_classes(), ax=plt.subplots()[1]),
        "ax: expected an array of matplotlib Axes, a Figure or a SubFigure, got Axes",
    ),
    "an array of something": (
        lambda: plot.classwise(of_classes(), ax=[1, "a"]),
        "a Figure or a SubFigure, got list of int, str",
    ),
    "an empty array": (lambda: plot.classwise(of_classes(), ax=np.array([])), "got ndarray of nothing"),
    "fewer Axes": (
        lambda: plot.classwise(of_classes(), max_classes=3, ax=plt.subplots(1, 2)[1]),
        "ax: expected 3 Axes or more, got 2",
    ),
    "no comparison": (
        lambda: plot.compare(report_of("binary")),
        "comparison: expected a Comparison, got Report; pass what",
    ),
    "no differences": (lambda: plot.differences({}), "comparison: expected a Comparison, got dict"),
    "no groups": (
        lambda: plot.groups(report_of("binary")),
        "report: expected a report with groups, got one without; evaluate with groups=..., a name for each row",
    ),
    "no report of groups": (lambda: plot.groups("a"), "report: expected a Report with groups, got str"),
    "groups' measure": (
        lambda: plot.groups(of_groups(), measure="kuiper"),
        "measure: expected one of 'ece', 'accuracy', .*got 'kuiper'",
    ),
    "no ROC curve": (
        lambda: plot.roc_curve(of_forecasts()),
        r"result: expected a RocCurve, got Report; pass report\.panels\['roc_curve'\] of evaluate",
    ),
    "no monitor": (
        lambda: plot.evidence(report_of("binary")),
        r"result: expected a Monitor or its dictionary, got Report; pass a calibrant\.Monitor",
    ),
    "no dictionary of a monitor": (
        lambda: plot.evidence({"slices": []}),
        "result: expected a Monitor or its dictionary, got dict",
    ),
    "the class of monitors": (
        lambda: plot.evidence(calibrant.Monitor),
        "result: expected a Monitor or its dictionary, got type",
    ),
    "groups' order": (
        lambda: plot.groups(of_groups(), order="name"),
        "order: expected one of 'index', 'error', 'support'",
    ),
    "order without tests": (
        lambda: plot.groups(of_groups(None), order="p_value"),
        "order: expected another order for a report without p-values, got 'p_value'; evaluate with level=0.95",
    ),
    "a figure for ax": (
        lambda: plot.groups(of_groups(), ax=Figure()),
        "ax: expected a matplotlib Axes, got Figure; pass an Axes",
    ),
    "axes for ax": (
        lambda: plot.reliability_diagram(report_of("binary"), ax=plt.subplots(2)[1]),
        "ax: expected a matplotlib Axes, got ndarray of Axes",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_what_cannot_be_drawn_is_said(name: str) -> None:
    draw, message = ERRORS[name]
    before = len(plt.get_fignums())
    with pytest.raises(InputError, match=message):
        draw()
    assert len(plt.get_fignums()) - before <= 1  # one that the test itself has made


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for draw in (DRAWN | PANELS).values():
        needed = f"matplotlib is needed to draw .*{re.escape(install_command('report'))}"
        with pytest.raises(MissingDependencyError, match=needed):
            draw()


# ---------------------------------------------------------------- what it rests on


def test_the_import_loads_no_matplotlib() -> None:
    code = (
        "import sys, calibrant.plot; print([n for n in ('matplotlib', 'scipy', 'numba', 'torch') if n in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_nothing_that_estimates_is_in_reach() -> None:
    packages = {"errors", "runtime", "plot", "render", "results"}
    for path in Path(plot.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("calibrant."):
                assert node.module.split(".")[1] in packages, path


def test_results_made_by_hand_are_drawn() -> None:
    nothing = np.array([])
    empty = CalibrationCurve("smooth", nothing, nothing, nothing, nothing, nothing, nothing, 0.9)
    assert words(plot.calibration_curve(empty)) == ["Observed frequency, smooth", "Calibrated"]
    nan = np.full(2, np.nan)
    bins = ReliabilityDiagram(np.array([0, 0.5, 1]), np.zeros(2, int), nan, nan, np.zeros(2))
    for look in ("bars", "points"):
        ax = plot.reliability_diagram(bins, kind=look)
        assert strip_of(ax).texts[0].get_text() == "0 rows"


@pytest.mark.parametrize(("name", "shown"), [("$0-$50k", r"\$0-\$50k"), ("$a_{$", r"\$a_{\$"), ("_old", "\u200a_old")])
def test_a_name_is_no_formula_and_hides_nothing(name: str, shown: str) -> None:
    rng = np.random.default_rng(0)
    probs = rng.random(200)
    targets = rng.random(200) < probs
    ax = plot.compare(calibrant.compare({name: probs, "new": probs**2}, targets))
    words = [text.get_text() for text in ax.get_legend().get_texts()]
    assert words[0].startswith(shown)
    grouped = calibrant.evaluate(probs, targets, groups=np.array([name, "b"])[np.arange(200) % 2], n_resamples=0)
    ax = plot.groups(grouped)
    assert any(tick.get_text().startswith(shown) for tick in ax.get_yticklabels())
    ax.figure.canvas.draw()


# ---------------------------------------------------------------- the page


@pytest.fixture(scope="module")
def gallery() -> Any:
    import make_gallery

    return make_gallery


def test_the_page_the_script_and_the_folder_have_the_same_pictures(gallery: Any) -> None:
    page = "".join(own.read_text("utf-8") for own in gallery.PAGES)
    shown = re.findall(r"_static/gallery/([\w-]+\.png)", page)
    assert gallery.pictures() == shown
    assert sorted(path.name for path in gallery.TARGET.iterdir()) == sorted(shown)
    assert len(set(shown)) == len(shown) >= 10


def test_every_picture_is_small_and_described(gallery: Any) -> None:
    page = "".join(own.read_text("utf-8") for own in gallery.PAGES)
    assert all(path.stat().st_size < 60_000 for path in gallery.TARGET.iterdir())
    described = re.findall(r'^<img src="_static/gallery/[^"]+" alt="[^"]{20,}" width="\d+">$', page, re.MULTILINE)
    assert len(described) == len(gallery.pictures())


def test_the_page_draws_with_every_function() -> None:
    page = (ROOT / "docs" / "figures.md").read_text("utf-8")
    assert {name for name in plot.__all__ if f"cp.{name}(" not in page} == set()


@pytest.mark.slow
def test_each_picture_is_the_figure_of_its_example(gallery: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    panels = {name: len(figure.axes) for name, figure in gallery.figures()}
    assert list(panels) == gallery.pictures()
    several = {"classwise.png": 6, "differences.png": 5, "own-figure.png": 2}
    assert panels == {name: several.get(name, 1) for name in panels}
