"""The pictures of a page: coordinates of bins, curves, bands and rows, from the values of a result.

The pictures are SVG, 440 units wide; y grows downwards. This module estimates nothing and writes no markup.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from calibrant.render.words import (
    amount,
    counted_in,
    is_rare,
    percent,
    rows_or_weight,
    score_writer,
    share_text,
    steps,
)
from calibrant.results import CalibrationCurve, ReliabilityDiagram
from calibrant.runtime.dataclass import dataclass

Curves = Mapping[str, CalibrationCurve]

WIDTH: Final = 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 428, 10, 390  # the square of the diagram
_UPPER, _LOWER = 450, 534  # the histogram
_WIDE: Final = (56, 428, 10, 300)  # the frame of a chart of lines: left, right, top, bottom
_ROW: Final = 26  # the height of a row of a chart
_TILE: Final = 100
NAME_WIDTH: Final = 156  # of a name left of a chart: the longest label of a measure fits
_NAME_END: Final = NAME_WIDTH + 2  # where the names left of a chart end
_SIZES: Final = (4, 7, 11)  # diameters of points in a small diagram: below 2 % of the rows, below 20 %, above

#: The points of a curve that are described, and that a page lists; the file has all.
LISTED: Final = 32
_MARKS: Final = 25  # points of a line that a page describes

#: The labels of the axes by notion, score and observed frequency, and the words for outcomes 1 and 0.
AXES: Final = {
    "top-label": ("confidence", "accuracy", "correct", "incorrect"),
    "positive": ("predicted probability", "observed frequency", "events", "non-events"),
}


@dataclass(frozen=True)
class Axis:
    """Values from ``low`` to ``high`` on a line from ``start`` to ``end``."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        return round(self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start), 1)

    def ticks(self) -> list[tuple[float, str]]:
        """Return about five round values, each with its coordinate and text."""
        step = _round_step((self.high - self.low) / 5)
        if step < 1e-4:  # long labels need more space
            step = _round_step((self.high - self.low) / 3)
        places = max(0, -math.floor(math.log10(step) + 1e-9))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        written = f"z.{places}f" if places < 5 else "z.3g"
        return [(self.at(k * step), f"{k * step:{written}}") for k in range(first, last + 1)]


@dataclass(frozen=True)
class LogitAxis(Axis):
    """Shares by their log-odds, for rare events; shares outside ``low`` to ``high`` stand at the ends."""

    def at(self, value: float) -> float:
        low, place, high = (math.log(p / (1 - p)) for p in (self.low, self._inside(value), self.high))
        return round(self.start + (place - low) / (high - low) * (self.end - self.start), 1)

    def _inside(self, value: float) -> float:
        return min(max(value, self.low), self.high)

    def ticks(self) -> list[tuple[float, str]]:
        """Return about five round shares, each with its coordinate and its text in percent."""
        steps = (1, 2, 5) if self.high / self.low <= 101 else (1,)
        shares = [round(m * 10.0**k, 9) for k in range(-7, 0) for m in steps] + [0.5, 0.9, 0.99]
        return [(self.at(p), percent_text(p)) for p in sorted({*shares}) if self.low <= p <= self.high]


def percent_text(share: float) -> str:
    """Return a round share in percent."""
    return f"{100 * share:.6g} %"


def _round_step(least: float) -> float:
    """Return the smallest 1, 2 or 5 times a power of ten that is not below ``least``."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= least * (1 - 1e-9))


def line(points: Iterable[tuple[float, float]]) -> str:
    """Return the path through points."""
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in points)


def area(places: Sequence[float], lows: Sequence[float], highs: Sequence[float]) -> str:
    """Return the path around a band."""
    lower, upper = (zip(places, ends, strict=True) for ends in (lows, highs))
    return line([*lower, *reversed(list(upper))]) + "Z"


# ---------------------------------------------------------------- the reliability diagram


def diagram(
    bins: ReliabilityDiagram,
    curves: Curves,
    notion: str,
    level: float | None,
    *,
    histogram: bool = True,
    rare: bool | None = None,
) -> dict[str, Any]:
    """Return the picture of a reliability diagram: bins, curves with bands, and the histogram by outcome.

    ``rare`` says whether the axes are those of rare events, log-odds; by default the bins decide.
    """
    filled = np.flatnonzero(bins.counts > 0).tolist()
    rare = is_rare(bins) if rare is None else rare
    limits, kind = (_rare_limits, LogitAxis) if rare else (_limits, Axis)
    ends = limits(bins, curves, filled)
    drawn = _Diagram(
        bins=bins,
        x=kind(*ends, _LEFT, _RIGHT),
        y=kind(*ends, _BOTTOM, _TOP),
        words=AXES[notion],
        level=level,
        write=score_writer(rare=rare),
        counted=counted_in(bins.counts),
    )
    most = float(bins.proportions.max())
    points = [_point(drawn, b, most) for b in filled]
    return {
        "outside": [percent_text(end) for end in ends] if rare else None,
        "x": drawn.x,
        "y": drawn.y,
        "axes": AXES[notion],
        "points": points,
        "frame": (_LEFT, _TOP, _RIGHT - _LEFT, _BOTTOM - _TOP),
        "height": 556 if histogram else 432,
        "bands": curves["isotonic"].bands if curves else "pointwise",
        "curves": {name: _curve(drawn, curve) for name, curve in curves.items()},
        "counted": drawn.counted,
        **(_histogram(drawn, filled) if histogram else {"bars": []}),
        "alt": _alt(points, notion),
    }


class _Diagram(NamedTuple):
    """What the parts of a diagram share: bins, axes, words, the level of the intervals, and how scores are written."""

    bins: ReliabilityDiagram
    x: Axis
    y: Axis
    words: tuple[str, str, str, str]
    level: float | None
    write: Callable[[float], str]
    counted: str

    def place(self, b: int) -> tuple[float, float]:
        """Return the left end of a bin and its width."""
        left, right = (self.x.at(min(self.bins.edges[i], self.x.high)) for i in (b, b + 1))
        return left, right - left

    def range(self, b: int) -> str:
        """Return the ends of a bin, in words."""
        return f"{self.write(self.bins.edges[b])} to {self.write(self.bins.edges[b + 1])}"

    def height(self, value: float) -> float:
        """Return the coordinate of a rate, or of the upper end of the axis."""
        return self.y.at(min(value, self.y.high))


def _rare_limits(bins: ReliabilityDiagram, curves: Curves, filled: Sequence[int]) -> tuple[float, float]:
    """Return the ends of axes of log-odds: all scores are below the upper one, few below the lower one.

    The lower end is the power of ten at the least score or rate that is drawn, or at 1/30 of the mean score.
    """
    scores = np.concatenate([bins.confidences[filled], *(curve.scores for curve in curves.values())])
    rates = np.concatenate([bins.accuracies[filled], *(curve.rates for curve in curves.values())])
    mean = float((bins.proportions[filled] * bins.confidences[filled]).sum())
    drawn = np.concatenate([scores, rates])
    least = max(min(drawn[drawn > 0].tolist(), default=mean), mean / 30, 1e-7)
    high = min(_round_limit(max(scores.max(), bins.accuracies[filled].max(), 1e-3)), 0.99)
    return min(10.0 ** math.floor(math.log10(least) + 1e-9), high / 10), high


def _limits(bins: ReliabilityDiagram, curves: Curves, filled: Sequence[int]) -> tuple[float, float]:
    """Return the ends of the axes: 0 and a round number that no score and no rate exceeds."""
    tops = [bins.confidences[filled], bins.accuracies[filled]]
    tops += [values for curve in curves.values() for values in (curve.scores, curve.rates)]
    if len(filled) > 1:  # not for a single bin: its band would dwarf the curves
        tops += [ends[filled] for ends in (bins.highs, bins.band_highs) if ends is not None]
    return 0.0, _round_limit(float(np.nanmax(np.concatenate(tops))))


def _round_limit(most: float) -> float:
    return next(limit for limit in (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1) if most <= limit)


def _at(ends: Any, b: int) -> float:
    """Return an end of a bin; NaN without."""
    return math.nan if ends is None else float(ends[b])


def _point(drawn: _Diagram, b: int, most: float) -> dict[str, Any]:
    """Return the point of a bin; ``most`` is the largest share of a bin."""
    bins, write = drawn.bins, drawn.write
    mean_score, event_rate, share = (float(x[b]) for x in (bins.confidences, bins.accuracies, bins.proportions))
    low, high, least, greatest = (_at(ends, b) for ends in (bins.lows, bins.highs, bins.band_lows, bins.band_highs))
    outside = is_outside(bins, b)
    x, y, (left, width) = drawn.x.at(mean_score), drawn.y.at(event_rate), drawn.place(b)
    words = [
        f"{drawn.range(b)}: {rows_or_weight(bins.counts[b].item(), drawn.counted)} ({share_text(share)})",
        f"predicted {write(mean_score)}, observed {write(event_rate)}",
    ]
    point: dict[str, Any] = {
        "x": x,
        "y": y,
        "r": round(2.5 + 4 * math.sqrt(share / most), 1),
        "diamond": _diamond(x, y, 3.4 + 5.4 * math.sqrt(share / most)),
        "outside": outside,
        "left": left,
        "width": round(width, 1),
    }
    if not math.isnan(low) and drawn.level is not None:
        words.append(f"{percent(drawn.level)} CI {write(low)} to {write(high)}")
        point |= {"low": drawn.height(low), "high": drawn.height(high)}
    if not math.isnan(least):
        point |= {"least": drawn.height(least), "greatest": drawn.height(greatest)}
        words.append(f"consistency band {write(least)} to {write(greatest)}" + " (outside)" * outside)
    return {**point, "text": "; ".join(words)}


def is_outside(bins: ReliabilityDiagram, b: int) -> bool:
    """Return whether the observed frequency of a bin lies outside the consistency band."""
    least, greatest = _at(bins.band_lows, b), _at(bins.band_highs, b)
    return not math.isnan(least) and not least <= bins.accuracies[b] <= greatest


def _diamond(x: float, y: float, r: float) -> str:
    return f"M{x:g} {y - r:.1f}l{r:.1f} {r:.1f}l{-r:.1f} {r:.1f}l{-r:.1f} {-r:.1f}z"


def _curve(drawn: _Diagram, curve: CalibrationCurve) -> dict[str, Any]:
    """Return the path of a curve, its bands, and the points that are described."""
    x, y, write, simultaneous = drawn.x, drawn.y, drawn.write, curve.bands == "simultaneous"
    scores, rates = curve.scores.tolist(), curve.rates.tolist()

    def band(lows: Any, highs: Any, *, in_steps: bool = False) -> str:
        columns = scores, lows.tolist(), highs.tolist()
        ends = [
            (x.at(score), y.at(low), drawn.height(high))
            for score, low, high in zip(*(stepped(*columns) if in_steps else columns), strict=True)
            if not math.isnan(low)
        ]
        return area(*zip(*ends, strict=True)) if ends else ""

    marks = []
    for i in steps(len(scores), LISTED):
        text = f"predicted {write(scores[i])}, observed {write(rates[i])}"
        if not math.isnan(curve.confidence_lows[i]) and drawn.level is not None:
            ends = f"{write(curve.confidence_lows[i])} to {write(curve.confidence_highs[i])}"
            text += f"; {percent(drawn.level)} confidence band {ends}{' (simultaneous)' * simultaneous}"
        marks.append((x.at(scores[i]), y.at(rates[i]), text))
    return {
        "path": line((x.at(score), y.at(rate)) for score, rate in zip(scores, rates, strict=True)),
        "confidence": band(curve.confidence_lows, curve.confidence_highs, in_steps=simultaneous),
        "consistency": band(curve.consistency_lows, curve.consistency_highs),
        "marks": marks,
    }


def stepped(
    scores: Sequence[float], lows: Sequence[float], highs: Sequence[float]
) -> tuple[list[float], list[float], list[float]]:
    """Return a simultaneous band as steps: each score twice, before and after the step.

    Between two scores the lower end is that on the left, and the upper end that on the right. Only that is certain.
    """
    twice = [value for value in scores for _ in range(2)]
    lower, upper = ([value for value in ends for _ in range(2)] for ends in (lows, highs))
    return twice, [lower[0], *lower[:-1]], [*upper[1:], upper[-1]]


def _histogram(drawn: _Diagram, filled: Sequence[int]) -> dict[str, Any]:
    """Return bars on one scale: rows with the event upwards, rows without it downwards."""
    counts, rates = drawn.bins.counts.tolist(), drawn.bins.accuracies.tolist()
    positives = [counts[b] * rates[b] for b in filled]
    negatives = [counts[b] - positive for b, positive in zip(filled, positives, strict=True)]
    scale = (_LOWER - _UPPER) / (max(positives) + max(negatives))
    bars = []
    for b, up, down in zip(filled, positives, negatives, strict=True):
        left, width = drawn.place(b)
        texts = [f"{amount(round(count, 6))} {word}" for count, word in zip((up, down), drawn.words[2:], strict=True)]
        bars.append(
            {
                "x": left,
                "width": round(width - 1, 1),
                "up": _length(up, scale),
                "down": _length(down, scale),
                "text": f"{drawn.range(b)}: {', '.join(texts)}",
            }
        )
    middle = round(_UPPER + max(positives) * scale, 1)
    ticks = [(_UPPER, max(positives)), (_LOWER, max(negatives))]
    shown = [(at, _brief(count)) for at, count in ticks if abs(at - middle) >= 12]
    return {"bars": bars, "upper": _UPPER, "lower": _LOWER, "middle": middle, "ticks": [*shown, (middle, "0")]}


def _brief(count: float) -> str:
    """Return a number of rows, or their weight, in about six characters."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e5, "k")):
        if count >= size:
            return f"{count / (1e3 if letter == 'k' else size):.3g}{letter}"
    return f"{count:,.0f}" if count >= 100 else f"{count:.3g}"


def _length(count: float, scale: float) -> float:
    """Return the length of a bar; even a single row can be seen."""
    return round(max(count * scale, 0.8), 1) if count > 1e-9 else 0.0


def _alt(points: Sequence[Mapping[str, Any]], notion: str) -> str:
    score, rate = AXES[notion][:2]
    bins = f"{len(points)} bin{'s' * (len(points) != 1)}"
    tested = any("least" in point for point in points)
    outside = f"; {sum(point['outside'] for point in points)} outside the consistency band" if tested else ""
    return f"Reliability diagram with {bins}: {rate} against {score}{outside}"


# ---------------------------------------------------------------- a diagram of one class or group


def tile(bins: ReliabilityDiagram) -> dict[str, Any]:
    """Return a small diagram: one path for the points of each size, and one for all intervals, if any."""
    total = bins.counts.sum()
    paths_by_size: list[list[str]] = [[], [], []]
    whiskers = []
    for b in np.flatnonzero(bins.counts > 0):
        x, rate, count = _TILE * bins.confidences[b], bins.accuracies[b], bins.counts[b]
        size = int(count >= 0.02 * total) + int(count >= 0.2 * total)
        paths_by_size[size].append(f"M{x:.1f} {_TILE * (1 - rate):.1f}h0")
        if bins.lows is not None and bins.highs is not None:
            low, high = bins.lows[b], bins.highs[b]
            whiskers.append(f"M{x:.1f} {_TILE * (1 - high):.1f}v{_TILE * (high - low):.1f}")
    points = [(width, "".join(paths)) for width, paths in zip(_SIZES, paths_by_size, strict=True) if paths]
    return {"points": points, "whiskers": "".join(whiskers)}
