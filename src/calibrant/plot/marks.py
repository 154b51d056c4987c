"""The marks of a reliability diagram: bars and points, intervals, band, rows. They estimate nothing.

Positions are multiplied by ``scale``: 1 for axes of shares, 100 for axes of percent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError
from calibrant.plot import canvas
from calibrant.plot.canvas import PlottableReport
from calibrant.render.drawing import stepped
from calibrant.render.words import percent
from calibrant.results import CalibrationCurve, ReliabilityDiagram

_AREA: Final = (16.0, 110.0)  # square points: the smallest and the largest mark
_DIAMOND: Final = 34.0  # square points: the mark of a bar outside the band
_LEAST_WIDTH: Final = 0.008
_STRIP: Final = "calibrant-rows"
_STRIP_GAP: Final = 0.08  # inches between the axes and the strip above
_STRIP_HEIGHT: Final = (0.26, 0.62)  # inches at least and at most


def diagram_of(result: Any) -> tuple[ReliabilityDiagram, bool]:
    """Return the diagram of a report, or ``result`` itself, and whether its outcomes are right predictions."""
    if isinstance(result, ReliabilityDiagram):
        return result, False
    source = "what calibrant.evaluate or calibrant.reliability_diagram returned"
    canvas.check_type("result", result, PlottableReport, "a Report or a ReliabilityDiagram", source)
    if result.diagram is None:
        remedy = "draw calibrant.plot.classwise(report), or evaluate with notion='top-label'"
        raise InputError("result", "a report on one evaluated event", f"one on notion={result.notion!r}", remedy)
    return result.diagram, result.notion == "top-label"


def words_of(right: bool) -> tuple[str, str, str]:
    """Return the words for the observed frequency, for outcome 1 and for outcome 0."""
    return ("Accuracy", "Correct", "Incorrect") if right else ("Observed frequency", "Events", "Non-events")


def bins_of(diagram: ReliabilityDiagram, scale: float = 1.0) -> tuple[Any, ...]:
    """Return left ends, widths, mean scores and observed frequencies of the bins that are not empty.

    A quantile bin with a single score has no width. It gets one that can just be seen.
    """
    filled = diagram.counts > 0
    lefts, widths = diagram.edges[:-1][filled], np.diff(diagram.edges)[filled]
    lefts, widths = np.where(widths > 0, lefts, lefts - _LEAST_WIDTH / 2), np.where(widths > 0, widths, _LEAST_WIDTH)
    return tuple(scale * part for part in (lefts, widths, diagram.confidences[filled], diagram.accuracies[filled]))


def whiskers(
    ax: Any, diagram: ReliabilityDiagram, colour: Any = None, *, scale: float = 1.0, weight: float = 1.0
) -> Any:
    """Draw the intervals of the observed frequencies at the mean scores; None if the diagram has no intervals."""
    if diagram.lows is None or diagram.highs is None:
        return None
    filled = diagram.counts > 0
    lows, highs = scale * diagram.lows[filled], scale * diagram.highs[filled]
    scores = scale * diagram.confidences[filled]
    word = f"{percent(diagram.level)} CI"
    drawn = ax.vlines(
        scores, lows, highs, colors=colour or canvas.ink(ax), linewidth=1.1 * weight, zorder=2.4, label=word
    )
    drawn.set_gid(canvas.UPRIGHT)
    return drawn


def band(
    ax: Any,
    diagram: ReliabilityDiagram,
    *,
    scale: float = 1.0,
    place: int = 0,
    colour: Any = None,
    label: str | None = None,
) -> Any:
    """Draw the consistency band as a box in each bin; None if the diagram has no band.

    ``place``, ``colour`` and ``label`` are those of the series.
    """
    if diagram.band_lows is None or diagram.band_highs is None:
        return None
    lefts, widths, _, _ = bins_of(diagram, scale)
    filled = diagram.counts > 0
    lows, highs = scale * diagram.band_lows[filled], scale * diagram.band_highs[filled]
    word = canvas.named(f"Calibrated ({percent(diagram.level)} band)", label)
    look = canvas.band_look(place, colour)
    return ax.bar(lefts, highs - lows, widths, lows, align="edge", zorder=1, label=word, **look)


def confidence_band(ax: Any, curve: CalibrationCurve, colour: Any) -> None:
    """Fill the confidence band of a curve, if it has one; a simultaneous band has steps."""
    word = f"{percent(curve.level)} confidence band, {curve.bands}"
    scores, lows, highs = curve.scores, curve.confidence_lows, curve.confidence_highs
    if curve.bands == "simultaneous" and len(scores) > 1:
        scores, lows, highs = map(np.array, stepped(scores.tolist(), lows.tolist(), highs.tolist()))
    between(ax, scores, lows, highs, canvas.shade(ax, colour), zorder=1.1, label=word)


def between(
    ax: Any,
    scores: NDArray[np.float64],
    lows: NDArray[np.float64],
    highs: NDArray[np.float64],
    look: Mapping[str, Any],
    *,
    zorder: float,
    label: str,
) -> None:
    """Fill a band, unless it is missing. At a single score it is a stroke."""
    if np.isnan(lows).all():
        return
    if len(scores) == 1:
        colour, outlined = look.get("color", look.get("edgecolor")), "color" not in look
        style = {"linewidth": 2, "linestyle": look["linestyle"]} if outlined else {"linewidth": 8}
        ax.vlines(scores, lows, highs, colors=[colour], zorder=zorder, label=label, **style)
    else:
        ax.fill_between(scores, lows, highs, zorder=zorder, label=label, **look)


def outside(ax: Any, diagram: ReliabilityDiagram, *, points: bool, place: int, colour: Any) -> None:
    """Mark the bins whose rate lies outside the consistency band by diamonds, as on the page of a report.

    A diamond on a bar has one size, one on a point covers it. Those of further series keep the series' colour.
    """
    if diagram.band_lows is None or diagram.band_highs is None:
        return
    filled = diagram.counts > 0
    rates, lows, highs = (values[filled] for values in (diagram.accuracies, diagram.band_lows, diagram.band_highs))
    off = (rates < lows) | (rates > highs)
    if off.any():
        areas = areas_of(diagram)[off] if points else np.full(np.count_nonzero(off), _DIAMOND)
        ax.scatter(
            diagram.confidences[filled][off],
            rates[off],
            areas,
            color=colour if place else canvas.VERMILION,
            marker="D",
            edgecolor=canvas.ink(ax) if place else canvas.paper(ax),
            linewidth=1.2 if place else 0.6,
            zorder=2.7,
            label="Outside the band",
        )


def areas_of(diagram: ReliabilityDiagram) -> Any:
    """Return the areas of the points of the bins that are not empty, in square points."""
    shares = diagram.proportions[diagram.counts > 0]
    least, most = _AREA
    return least + (most - least) * shares / shares.max() if len(shares) else shares


def bars(ax: Any, diagram: ReliabilityDiagram, colour: Any, label: str, gid: str, *, weight: float = 1.0) -> None:
    """Draw the observed frequency of each bin as a bar, its mean score as a line across, and the gap between them."""
    lefts, widths, mean_scores, event_rates = bins_of(diagram)
    edge = {"align": "edge", "edgecolor": canvas.paper(ax), "linewidth": 0.8 * weight}
    drawn = ax.bar(lefts, event_rates, widths, color=canvas.tint(ax, colour, 0.3), zorder=0.8, label=label, **edge)
    least, orange = np.minimum(event_rates, mean_scores), canvas.tint(ax, canvas.ORANGE, 0.4)
    ax.bar(lefts, np.abs(event_rates - mean_scores), widths, least, color=orange, zorder=0.9, label="Gap", **edge)
    ax.hlines(event_rates, lefts, lefts + widths, colors=colour, linewidth=2.2 * weight, zorder=2.1)
    ax.hlines(
        mean_scores,
        lefts,
        lefts + widths,
        colors=canvas.ink(ax),
        linewidth=1.6 * weight,
        zorder=2.2,
        label="Mean predicted probability",
    )
    for first in drawn.patches[:1]:
        first.set_gid(gid)


def points(
    ax: Any,
    diagram: ReliabilityDiagram,
    look: tuple[Any, str],
    label: str,
    gid: str,
    line: dict[str, Any] | None = None,
) -> None:
    """Draw each bin as a point at its mean score and observed frequency; its area grows with its rows.

    ``line``, the properties of a line, joins the points.
    """
    _, _, mean_scores, event_rates = bins_of(diagram)
    if line:
        ax.plot(mean_scores, event_rates, **{"color": look[0], "linewidth": 0.9, "zorder": 2.3, **line})
    drawn = ax.scatter(
        mean_scores,
        event_rates,
        areas_of(diagram),
        color=look[0],
        marker=look[1],
        edgecolor=canvas.paper(ax),
        linewidth=0.6,
        zorder=2.6,
        label=label,
    )
    drawn.set_gid(gid)


def strip(ax: Any, diagram: ReliabilityDiagram, colour: Any) -> None:
    """Draw the share of the rows in each bin on a strip above the axes, and write the number of rows."""
    top = next((child for child in ax.child_axes if child.get_label() == _STRIP), None)
    amount_text = rows_of(diagram)
    if top is None:
        top = _above(ax)
    if any(_same(drawn.get_data(), diagram) for drawn in top.patches):
        return
    edges = diagram.edges if np.isfinite(diagram.edges).all() else np.linspace(0, 1, len(diagram.edges))
    look = (
        {"facecolor": canvas.tint(ax, colour, 0.3)} if not top.patches else {"fill": False}
    )  # further series are outlines only
    top.stairs(diagram.proportions, edges, **{"fill": True, "edgecolor": colour, "linewidth": 1, **look})
    highest = max([float(diagram.proportions.max()), *(top.get_yticks() if top.texts else ())])
    top.set(ylim=(0, 1.7 * (highest or 1.0)), yticks=[highest])
    top.set_yticklabels([f"{100 * highest:.3g} %"])
    if not top.texts:
        filled = diagram.counts > 0
        right = diagram.proportions[filled] @ diagram.confidences[filled] < 0.5  # the text goes where fewer rows are
        place = {"x": 1.0, "ha": "right"} if right else {"x": 0.0, "ha": "left"}
        top.text(y=1, s=amount_text, va="top", transform=top.transAxes, fontsize="small", color=canvas.FAINT, **place)
    elif amount_text not in top.texts[0].get_text().split("; "):
        top.texts[0].set_text(f"{top.texts[0].get_text()}; {amount_text}")


def _above(ax: Any) -> Any:
    """Return axes for a strip above others; its height is in inches, so that layouts need not guess it."""
    from matplotlib.transforms import ScaledTranslation, blended_transform_factory

    height = ax.get_window_extent().height / ax.figure.dpi
    least, most = _STRIP_HEIGHT
    # x from 0 to 1 along the axes, y in inches from their upper end
    inches = ax.figure.dpi_scale_trans + ScaledTranslation(0, 1, ax.transAxes)
    where = blended_transform_factory(ax.transAxes, inches)
    bounds = (0, _STRIP_GAP, 1, min(max(0.16 * height, least), most))
    top = ax.inset_axes(bounds, transform=where, sharex=ax, label=_STRIP)
    top.tick_params(axis="x", bottom=False, labelbottom=False)
    top.tick_params(axis="y", length=0, labelsize="small", labelcolor=canvas.FAINT)
    top.spines[["left", "right", "top"]].set_visible(False)
    top.spines["bottom"].set_color(canvas.FAINT)
    top.patch.set_visible(False)
    return top


def _same(drawn: Any, diagram: ReliabilityDiagram) -> bool:
    """Return whether a histogram shows this diagram."""
    return np.array_equal(drawn.values, diagram.proportions) and np.array_equal(drawn.edges, diagram.edges)


def are_rows(diagram: ReliabilityDiagram) -> bool:
    """Return whether the counts of a diagram are rows, not weights."""
    return bool(
        np.issubdtype(diagram.counts.dtype, np.integer) or np.array_equal(np.rint(diagram.counts), diagram.counts)
    )


def rows_of(diagram: ReliabilityDiagram) -> str:
    """Return the number of rows of a diagram, in words."""
    return amount(float(diagram.counts.sum()), rows=are_rows(diagram))


def amount(total: float, *, rows: bool) -> str:
    """Return a number of rows, or their weight, in words."""
    return f"{total:,.0f} row{'s' * (total != 1)}" if rows else f"weight {total:,.6g}"
