"""Reliability diagrams: the figures of bins and curves, and the tables behind them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import Any, Final, NamedTuple

import numpy as np

from calibrant.render.blocks import Column, Details, Figures, Sentence, Table
from calibrant.render.figure import Axis, Band, Bars, Figure, Intervals, Mark, Points, Polyline, Rule, Tips
from calibrant.render.words import (
    amount,
    counted_in,
    ends_column,
    is_rare,
    named_with,
    percent,
    rows_or_weight,
    score_writer,
    share_text,
    steps,
)
from calibrant.results import CalibrationCurve, ReliabilityDiagram
from calibrant.runtime.arrays import Float64s

Curves = Mapping[str, CalibrationCurve]

LISTED: Final = 32  # points of a curve that are described, and that a page lists; the file has all
_LEAST_WIDTH: Final = 0.008  # of a bin with a single score
MEAN: Final = "Mean predicted probability"


class DiagramWords(NamedTuple):
    """What the score, the observed frequency and the outcomes of an event are called."""

    score: str
    rate: str
    outcomes: tuple[str, str]


DIAGRAM_WORDS: Final = {
    "top-label": DiagramWords("Confidence", "Accuracy", ("Correct", "Incorrect")),
    "positive": DiagramWords("Predicted probability", "Observed frequency", ("Events", "Non-events")),
}


# ---------------------------------------------------------------- the marks


def bin_marks(
    bins: ReliabilityDiagram,
    rate: str,
    *,
    bars: bool = False,
    band: bool = True,
    intervals: bool = True,
    joined: bool = False,
    label: str | None = None,
    name: str = "",
) -> list[Mark]:
    """Return the bins that are not empty: as points, or as bars with their gaps to the mean scores.

    Those outside the consistency band are marked. ``rate`` is the word for observed frequencies, ``label`` the name of
    the series.
    """
    filled, marks = bins.counts > 0, list[Mark]()
    scores, rates, shares = bins.confidences[filled], bins.accuracies[filled], bins.proportions[filled]
    (lefts, rights), most = bin_ends(bins), max(shares.tolist(), default=1.0)
    if band and bins.band_lows is not None and bins.band_highs is not None:
        word, ends = f"Calibrated ({percent(bins.level)} band)", (bins.band_lows[filled], bins.band_highs[filled])
        marks.append(Bars(lefts, rights, *ends, "band", named_with(word, label), name))
        off = outside(bins)
        if off.any():
            sizes = None if bars else shares[off]
            marks.append(Points(scores[off], rates[off], "out", "Outside the band", name, sizes, most))
    if joined:
        marks.append(Polyline(scores, rates, "joined"))
    if bars:
        marks += [
            Bars(lefts, rights, np.zeros(len(rates)), rates, "rate", label or rate),
            Bars(lefts, rights, np.minimum(rates, scores), np.maximum(rates, scores), "gap", "Gap"),
            Intervals(rates, lefts, rights, False, "rate"),
            Intervals(scores, lefts, rights, False, "mean", MEAN),
        ]
    else:
        marks.append(Points(scores, rates, "dot", label or rate, name, shares, most))
    if intervals and bins.lows is not None and bins.highs is not None:
        ends, word = (bins.lows[filled], bins.highs[filled]), f"{percent(bins.level)} CI"
        marks.append(Intervals(scores, *ends, True, "mean" if bars else "dot", word, name))
    return marks


def bin_ends(bins: ReliabilityDiagram) -> tuple[Float64s, Float64s]:
    """Return left and right ends of the bins that are not empty; a bin with a single score can just be seen."""
    lefts, rights = bins.edges[:-1][bins.counts > 0], bins.edges[1:][bins.counts > 0]
    more = np.where(rights > lefts, 0.0, _LEAST_WIDTH / 2)
    return lefts - more, rights + more


def outside(bins: ReliabilityDiagram) -> Any:
    """Return which of the bins that are not empty have a rate outside their consistency band."""
    filled = bins.counts > 0
    if bins.band_lows is None or bins.band_highs is None:
        return np.zeros(np.count_nonzero(filled), dtype=bool)
    rates = bins.accuracies[filled]
    return (rates < bins.band_lows[filled]) | (rates > bins.band_highs[filled])


def curve_marks(
    curve: CalibrationCurve,
    rate: str,
    *,
    confidence: bool = True,
    consistency: bool = True,
    label: str | None = None,
    name: str = "",
) -> list[Mark]:
    """Return a calibration curve with its bands, if it has them."""
    marks: list[Mark] = []
    if consistency and not np.isnan(curve.consistency_lows).all():
        word, ends = f"Calibrated ({percent(curve.level)} band)", (curve.consistency_lows, curve.consistency_highs)
        marks.append(Band(curve.scores, *ends, "band", named_with(word, label), name))
    if confidence and not np.isnan(curve.confidence_lows).all():
        marks.append(confidence_band(curve, name))
    return [*marks, Polyline(curve.scores, curve.rates, "curve", label or f"{rate}, {curve.kind}", name)]


def confidence_band(curve: CalibrationCurve, name: str = "") -> Band:
    """Return the confidence band of a curve.

    A simultaneous band has steps: between two scores the lower end is that on the left, and the upper end that on the
    right. Only that is certain.
    """
    scores, lows, highs = curve.scores, curve.confidence_lows, curve.confidence_highs
    if curve.bands == "simultaneous" and len(scores) > 1:
        scores, lower, upper = (np.repeat(values, 2) for values in (scores, lows, highs))
        lows, highs = np.append(lower[0], lower[:-1]), np.append(upper[1:], upper[-1])
    return Band(scores, lows, highs, "sure", f"{percent(curve.level)} confidence band, {curve.bands}", name)


# ---------------------------------------------------------------- the figures


def square_figure(marks: Sequence[Mark], x: str, y: str, axis: Axis | None = None, title: str = "") -> Figure:
    """Return a figure of observed frequencies against scores, by default from 0 to 1, with the diagonal."""
    axis = axis or Axis("", 0.0, 1.0)
    both = axis._replace(label=x), axis._replace(label=y)
    return Figure(title, *both, [*marks, Rule("both", "ideal", "Calibrated")], square=True)


def small_figure(bins: ReliabilityDiagram) -> Figure:
    """Return a small diagram of one class or group."""
    return square_figure(bin_marks(bins, "", band=False), "", "")


def diagram_figure(
    bins: ReliabilityDiagram,
    notion: str,
    *,
    label: str = "",
    curves: Curves | None = None,
    histogram: bool = True,
    rare: bool | None = None,
) -> Figure:
    """Return the reliability diagram of a page: bins, curves, and the histogram by outcome.

    ``rare`` says whether the axes are those of rare events, log-odds; by default the bins decide.
    """
    words, curves = DIAGRAM_WORDS[notion], curves or {}
    axis = _axis_of(bins, curves, rare=is_rare(bins) if rare is None else rare)
    write = score_writer(rare=axis.scale == "logit")
    marks = bin_marks(bins, words.rate, name="bins")
    for kind, curve in curves.items():
        marks += [*curve_marks(curve, words.rate, name=kind), _curve_tips(curve, write, kind)]
    off, filled = outside(bins), np.flatnonzero(bins.counts > 0)
    marks.append(_bin_tips(bins, off.tolist(), write))
    tested = f"; {off.sum()} outside the consistency band" if bins.band_lows is not None else ""
    many = f"{len(filled)} bin{'s' * (len(filled) != 1)}"
    alt = f"Reliability diagram with {many}: {words.rate.lower()} against {words.score.lower()}{tested}"
    figure = square_figure(marks, words.score, words.rate, axis, f"{label}. {alt}" if label else alt)
    if histogram:
        figure = figure._replace(below=_histogram_below(bins, words, axis, write))
    return figure._replace(label=label)


def _axis_of(bins: ReliabilityDiagram, curves: Curves, *, rare: bool) -> Axis:
    """Return the axis of scores and rates: from 0 to a round number that none of them exceeds, or by log-odds.

    The lower end of log-odds is the power of ten at the least score or rate that is drawn, or at 1/30 of the mean
    score.
    """
    filled = bins.counts > 0
    scores = [bins.confidences[filled], *(curve.scores for curve in curves.values())]
    rates = [bins.accuracies[filled], *(curve.rates for curve in curves.values())]
    if not rare:
        tops = [*scores, *rates]
        if np.count_nonzero(filled) > 1:  # not for a single bin: its band would dwarf the curves
            tops += [ends[filled] for ends in (bins.highs, bins.band_highs) if ends is not None]
        return Axis("", 0.0, _round_limit(float(np.nanmax(np.concatenate(tops)))))
    drawn = np.concatenate([*scores, *rates])
    mean = float((bins.proportions[filled] * bins.confidences[filled]).sum())
    least = max(min(drawn[drawn > 0].tolist(), default=mean), mean / 30, 1e-7)
    most = max(np.concatenate(scores).max(), rates[0].max(), 1e-3)
    high = min(_round_limit(most), 0.99)
    return Axis("", min(10.0 ** math.floor(math.log10(least) + 1e-9), high / 10), high, "logit")


def _round_limit(most: float) -> float:
    return next(limit for limit in (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1) if most <= limit)


def _bin_tips(bins: ReliabilityDiagram, off: Sequence[bool], write: Callable[[float], str]) -> Tips:
    texts, counted, share = [], counted_in(bins.counts), percent(bins.level)
    filled = np.flatnonzero(bins.counts > 0)
    for b, is_off in zip(filled.tolist(), off, strict=True):
        rows = f"{rows_or_weight(bins.counts[b].item(), counted)} ({share_text(bins.proportions[b])})"
        words = [f"{write(bins.edges[b])} to {write(bins.edges[b + 1])}: {rows}"]
        words.append(f"predicted {write(bins.confidences[b])}, observed {write(bins.accuracies[b])}")
        if bins.lows is not None and bins.highs is not None and not math.isnan(bins.lows[b]):
            words.append(f"{share} CI {write(bins.lows[b])} to {write(bins.highs[b])}")
        if bins.band_lows is not None and bins.band_highs is not None and not math.isnan(bins.band_lows[b]):
            band = f"consistency band {write(bins.band_lows[b])} to {write(bins.band_highs[b])}"
            words.append(band + " (outside)" * is_off)
        texts.append("; ".join(words))
    about = "bins; the arrow keys move between them"
    return Tips(bins.confidences[filled], bins.accuracies[filled], texts, about, "bins", reach=11, has_mark=False)


def _curve_tips(curve: CalibrationCurve, write: Callable[[float], str], name: str) -> Tips:
    """Return what some points of a curve say."""
    places, texts = steps(len(curve.scores), LISTED), []
    for i in places:
        text = f"predicted {write(curve.scores[i])}, observed {write(curve.rates[i])}"
        if not math.isnan(curve.confidence_lows[i]):
            ends = f"{write(curve.confidence_lows[i])} to {write(curve.confidence_highs[i])}"
            text += f"; {percent(curve.level)} confidence band {ends}"
            text += " (simultaneous)" * (curve.bands == "simultaneous")
        texts.append(text)
    about = f"{name} curve; the arrow keys move along it"
    return Tips(curve.scores[places], curve.rates[places], texts, about, name)


# ---------------------------------------------------------------- the histogram


def are_rows(bins: ReliabilityDiagram) -> bool:
    """Return whether the counts of bins are rows, not weights."""
    return bins.counts.dtype.kind in "iu" or bool((np.rint(bins.counts) == bins.counts).all())


def by_outcome(bins: ReliabilityDiagram) -> tuple[Float64s, Float64s]:
    """Return the rows with the event and those without it, in the bins that are not empty."""
    counts, rates = bins.counts[bins.counts > 0], bins.accuracies[bins.counts > 0]
    events = np.rint(counts * rates) if are_rows(bins) else counts * rates
    return events, counts - events


def histogram_figure(bins: ReliabilityDiagram, outcomes: tuple[str, str], *, stacked: bool = False) -> Figure:
    """Return the rows of each bin: those with the event upwards, others downwards, or stacked upon them."""
    (lefts, rights), (events, others) = bin_ends(bins), by_outcome(bins)
    zeros = np.zeros(len(events))
    down = (events, events + others) if stacked else (-others, zeros)
    low, high = (0.0, down[1].max()) if stacked else (-others.max(), events.max())
    marks: list[Mark] = [
        Bars(lefts, rights, zeros, events, "up", outcomes[0]),
        Bars(lefts, rights, *down, "down", outcomes[1]),
        Rule("y", "base", value=0.0),
    ]
    y = Axis("Rows" if are_rows(bins) else "Weight", float(low), float(high), "counts")
    return Figure("", Axis("Predicted probability", 0.0, 1.0), y, marks)


def _histogram_below(
    bins: ReliabilityDiagram, words: DiagramWords, axis: Axis, write: Callable[[float], str]
) -> Figure:
    """Return the histogram below a diagram, over the axis of its scores."""
    figure, (up, down) = histogram_figure(bins, words.outcomes), (word.lower() for word in words.outcomes)
    lefts, rights = bin_ends(bins)
    texts = [
        f"{write(left)} to {write(right)}: {amount(round(event, 6))} {up}, {amount(round(other, 6))} {down}"
        for left, right, event, other in zip(lefts, rights, *by_outcome(bins), strict=True)
    ]
    counted = counted_in(bins.counts)
    about = f"{counted} by score and outcome; the arrow keys move between the bins"
    tips = Tips(lefts, np.zeros(len(texts)), texts, about, rights=rights)
    label = f"{figure.y.label}: {up} (up), {down} (down)"
    return figure._replace(x=axis._replace(label=label), marks=[*figure.marks, tips])


# ---------------------------------------------------------------- blocks of a page


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
        diagram_figure(bins, notion, label=name, histogram=histogram, rare=rare) for name, bins in diagrams.items()
    ]
    tables = [
        block
        for (name, bins), file in zip(diagrams.items(), files, strict=True)
        for block in (Sentence(name), bins_table(bins, level, file, name))
    ]
    return Figures(figures, one_legend=True), Details("The bins of the diagrams as tables", tables, long=True)


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
    return Table(f"{kind}-curve", columns, f"{kind} curve").of_rows(steps(len(scores), LISTED))
