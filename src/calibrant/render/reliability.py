"""Reliability diagrams as blocks: the figure with its caption, and the tables of its bins and curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat

import numpy as np

from calibrant.render import drawing
from calibrant.render.blocks import Chart, Column, Details, Figures, Sentence, Table
from calibrant.render.words import (
    amount,
    counted_in,
    ends_column,
    is_rare,
    percent,
    score_writer,
    share_text,
    steps,
)
from calibrant.results import CalibrationCurve, ReliabilityDiagram


def diagram_figure(
    bins: ReliabilityDiagram,
    notion: str,
    level: float | None,
    *,
    label: str = "",
    curves: Mapping[str, CalibrationCurve] | None = None,
    histogram: bool = True,
    rare: bool | None = None,
) -> Chart:
    """Return the picture of bins and curves; see `drawing.diagram`."""
    chart = drawing.diagram(bins, curves or {}, notion, level, histogram=histogram, rare=rare)
    title = f"{label}. {chart['alt']}" if label else chart["alt"]
    return Chart("diagram", chart, title, label=label)


def side_by_side(
    diagrams: Mapping[str, ReliabilityDiagram],
    notion: str,
    level: float,
    *,
    files: Sequence[str],
    histogram: bool = True,
    rare: bool | None = None,
) -> tuple[Figures, Details]:
    """Return the pictures of diagrams by their names, and their bins as folded tables, each with its file."""
    figures = [
        diagram_figure(bins, notion, level, label=name, histogram=histogram, rare=rare)
        for name, bins in diagrams.items()
    ]
    tables = [
        block
        for (name, bins), file in zip(diagrams.items(), files, strict=True)
        for block in (Sentence(name), bins_table(bins, level, file, name))
    ]
    return Figures(figures), Details("The bins of the diagrams as tables", tables, long=True)


def bins_table(bins: ReliabilityDiagram, level: float | None, name: str, title: str = "") -> Table:
    """Return the filled bins."""
    filled = np.flatnonzero(bins.counts > 0)
    write = score_writer(rare=is_rare(bins))
    writes = repeat(write)
    counts, shares = bins.counts[filled].tolist(), bins.proportions[filled].tolist()
    mean_scores, event_rates = bins.confidences[filled].tolist(), bins.accuracies[filled].tolist()
    columns = [
        ends_column("score", {"left": bins.edges[filled], "right": bins.edges[filled + 1]}, writes),
        Column(counted_in(bins.counts), list(map(amount, counts)), {"count": counts}),
        Column("share", list(map(share_text, shares)), {"proportion": shares}),
        Column("predicted", list(map(write, mean_scores)), {"confidence": mean_scores}),
        Column("observed", list(map(write, event_rates)), {"accuracy": event_rates}),
    ]
    if level is not None and bins.lows is not None and bins.highs is not None:
        ends = {"low": bins.lows[filled], "high": bins.highs[filled]}
        columns.append(ends_column(f"{percent(level)} CI", ends, writes))
    if level is not None and bins.band_lows is not None and bins.band_highs is not None:
        ends = {"band_low": bins.band_lows[filled], "band_high": bins.band_highs[filled]}
        columns.append(ends_column("if calibrated", ends, writes))
    return Table(name, columns, title)


def curve_table(kind: str, curve: CalibrationCurve, level: float, *, rare: bool) -> Table:
    """Return the points of a curve with its bands; the page lists some of them."""
    write = score_writer(rare=rare)
    scores, rates = curve.scores.tolist(), curve.rates.tolist()
    confidence = {"confidence_low": curve.confidence_lows, "confidence_high": curve.confidence_highs}
    consistency = {"consistency_low": curve.consistency_lows, "consistency_high": curve.consistency_highs}
    bands = "simultaneous band" if curve.bands == "simultaneous" else "band"
    columns = [
        Column("score", list(map(write, scores)), {"score": scores}),
        Column("observed", list(map(write, rates)), {"rate": rates}),
        ends_column(f"{percent(level)} {bands}", confidence, repeat(write)),
        ends_column("if calibrated", consistency, repeat(write)),
    ]
    return Table(f"{kind}-curve", columns, f"{kind} curve").of_rows(steps(len(scores), drawing.LISTED))
