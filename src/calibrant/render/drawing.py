"""The pictures of a page from the plain numbers of a result: coordinates, captions and the numbers behind them.

The pictures are SVG, 440 units wide; y grows downwards. This module estimates nothing and writes no markup.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from calibrant.inputs.groups import are_times
from calibrant.measures.binned.binned import LEAST_CLUSTERS, LEAST_ROWS
from calibrant.measures.listed import BY_NAME
from calibrant.render.style import Facts, Summary, is_clustered, number, percent, shown, signed
from calibrant.render.tables import (
    LISTED,
    Column,
    Table,
    ends_text,
    is_rare,
    rows_words,
    score_writer,
    share_text,
    steps,
)
from calibrant.render.words import amount, chance, counted, gathered, worst_groups
from calibrant.runtime.dataclass import dataclass

Columns = Mapping[str, Sequence[Any]]

WIDTH: Final = 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 428, 10, 390  # the square of the diagram
_UPPER, _LOWER = 450, 534  # the histogram
_WIDE: Final = (56, 428, 10, 300)  # the frame of a chart of lines: left, right, top, bottom
_ROW: Final = 26  # the height of a row of a chart
_TILE: Final = 100
NAME_WIDTH: Final = 156  # of a name left of a chart: the longest label of a measure fits
_NAME_END: Final = NAME_WIDTH + 2  # where the names left of a chart end
_SIZES: Final = (4, 7, 11)  # diameters of points in a small diagram: below 2 % of the rows, below 20 %, above

_COLUMNS: Final = ("confidences", "accuracies", "proportions")

_LISTED: Final = 11  # rows of a panel's table on a page
_BRIEF: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)  # thresholds of a short table
_NAMED: Final = 5  # groups in a sentence
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
class NamedAxis(Axis):
    """Whole numbers from 0, each with a name."""

    names: tuple[str, ...]

    def ticks(self) -> list[tuple[float, str]]:
        """Return at most five names, each with its coordinate."""
        return [(self.at(i), fit(self.names[i], 90)) for i in steps(len(self.names), 5)]


@dataclass(frozen=True)
class LogAxis(Axis):
    """Ratios by their logarithms."""

    def at(self, value: float) -> float:
        low, place, high = map(math.log, (self.low, value, self.high))
        return round(self.start + (place - low) / (high - low) * (self.end - self.start), 1)

    def ticks(self) -> list[tuple[float, str]]:
        """Return two to seven round ratios, each with its coordinate and text."""
        inside: list[float] = []
        for digits in ((10,), (10, 20, 50), (10, 15, 20, 30, 50, 70), range(10, 100)):
            if len(inside) < 3:
                ratios = [digit * 10.0**k for k in range(-7, 7) for digit in digits]
                inside = [ratio for ratio in ratios if self.low <= ratio <= self.high]
        inside = inside[:: max(len(inside) // 6, 1)]
        return [(self.at(ratio), f"{ratio:.3g}") for ratio in inside]


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
    bins: Columns,
    curves: Mapping[str, Columns],
    notion: str,
    level: float | None,
    *,
    histogram: bool = True,
    rare: bool | None = None,
) -> dict[str, Any]:
    """Return the picture of a reliability diagram: bins, curves with bands, and the histogram by outcome.

    ``rare`` says whether the axes are those of rare events, log-odds; by default the bins decide.
    """
    filled = [b for b, score in enumerate(bins["confidences"]) if score is not None]
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
    )
    most = max(bins["proportions"][b] for b in filled)
    points = [_point(drawn, b, most) for b in filled]
    return {
        "outside": [percent_text(end) for end in ends] if rare else None,
        "x": drawn.x,
        "y": drawn.y,
        "axes": AXES[notion],
        "points": points,
        "frame": (_LEFT, _TOP, _RIGHT - _LEFT, _BOTTOM - _TOP),
        "height": 556 if histogram else 432,
        "bands": curves["isotonic"]["bands"] if curves else "pointwise",
        "curves": {name: _curve(drawn, curve) for name, curve in curves.items()},
        "counted": counted(bins["counts"]),
        **(_histogram(drawn, filled) if histogram else {"bars": []}),
        "alt": _alt(points, notion),
    }


class _Diagram(NamedTuple):
    """What the parts of a diagram share: bins, axes, words, the level of the intervals, and how scores are written."""

    bins: Columns
    x: Axis
    y: Axis
    words: tuple[str, str, str, str]
    level: float | None
    write: Callable[[float], str]

    def place(self, b: int) -> tuple[float, float]:
        """Return the left end of a bin and its width."""
        left, right = (self.x.at(min(self.bins["edges"][i], self.x.high)) for i in (b, b + 1))
        return left, right - left

    def range(self, b: int) -> str:
        """Return the ends of a bin, in words."""
        return f"{self.write(self.bins['edges'][b])} to {self.write(self.bins['edges'][b + 1])}"

    def height(self, value: float) -> float:
        """Return the coordinate of a rate, or of the upper end of the axis."""
        return self.y.at(min(value, self.y.high))


def _rare_limits(bins: Columns, curves: Mapping[str, Columns], filled: Sequence[int]) -> tuple[float, float]:
    """Return the ends of axes of log-odds: all scores are below the upper one, few below the lower one.

    The lower end is the power of ten at the least score or rate that is drawn, or at 1/30 of the mean score.
    """
    mean_scores, event_rates, shares = ([bins[key][b] for b in filled] for key in _COLUMNS)
    scores = [*mean_scores, *(score for curve in curves.values() for score in curve["scores"])]
    rates = [*event_rates, *(rate for curve in curves.values() for rate in curve["rates"])]
    mean = sum(share * score for share, score in zip(shares, mean_scores, strict=True))
    least = max(min((value for value in (*scores, *rates) if value > 0), default=mean), mean / 30, 1e-7)
    high = min(_round_limit(max(*scores, *event_rates, 1e-3)), 0.99)
    return min(10.0 ** math.floor(math.log10(least) + 1e-9), high / 10), high


def _limits(bins: Columns, curves: Mapping[str, Columns], filled: Sequence[int]) -> tuple[float, float]:
    """Return the ends of the axes: 0 and a round number that no score and no rate exceeds."""
    tops = [bins[name][b] for b in filled for name in ("confidences", "accuracies")]
    tops += [value for curve in curves.values() for name in ("scores", "rates") for value in curve[name]]
    if len(filled) > 1:  # not for a single bin: its band would dwarf the curves
        ends = [_of(bins, name, b) for b in filled for name in ("highs", "band_highs")]
        tops += [end for end in ends if end is not None]
    return 0.0, _round_limit(max(tops))


def _round_limit(most: float) -> float:
    return next(limit for limit in (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1) if most <= limit)


def _of(bins: Columns, name: str, b: int) -> Any:
    return None if bins[name] is None else bins[name][b]


def _point(drawn: _Diagram, b: int, most: float) -> dict[str, Any]:
    """Return the point of a bin; ``most`` is the largest share of a bin."""
    bins, write = drawn.bins, drawn.write
    mean_score, event_rate, share = (bins[name][b] for name in _COLUMNS)
    low, high, least, greatest = (_of(bins, name, b) for name in ("lows", "highs", "band_lows", "band_highs"))
    outside = least is not None and not least <= event_rate <= greatest
    x, y, (left, width) = drawn.x.at(mean_score), drawn.y.at(event_rate), drawn.place(b)
    words = [
        f"{drawn.range(b)}: {rows_words(bins['counts'][b])} ({share_text(share)})",
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
    if low is not None and drawn.level is not None:
        words.append(f"{percent(drawn.level)} CI {write(low)} to {write(high)}")
        point |= {"low": drawn.height(low), "high": drawn.height(high)}
    if least is not None:
        point |= {"least": drawn.height(least), "greatest": drawn.height(greatest)}
        words.append(f"consistency band {write(least)} to {write(greatest)}" + " (outside)" * outside)
    return {**point, "text": "; ".join(words)}


def _diamond(x: float, y: float, r: float) -> str:
    return f"M{x:g} {y - r:.1f}l{r:.1f} {r:.1f}l{-r:.1f} {r:.1f}l{-r:.1f} {-r:.1f}z"


def _curve(drawn: _Diagram, curve: Columns) -> dict[str, Any]:
    """Return the path of a curve, its bands, and the points that are described."""
    x, y, write, simultaneous = drawn.x, drawn.y, drawn.write, curve["bands"] == "simultaneous"
    scores, rates = curve["scores"], curve["rates"]

    def band(name: str, *, in_steps: bool = False) -> str:
        columns = scores, curve[f"{name}_lows"], curve[f"{name}_highs"]
        ends = [
            (x.at(score), y.at(low), drawn.height(high))
            for score, low, high in zip(*(stepped(*columns) if in_steps else columns), strict=True)
            if low is not None
        ]
        return area(*zip(*ends, strict=True)) if ends else ""

    marks = []
    for i in steps(len(scores), LISTED):
        text = f"predicted {write(scores[i])}, observed {write(rates[i])}"
        if curve["confidence_lows"][i] is not None and drawn.level is not None:
            ends = f"{write(curve['confidence_lows'][i])} to {write(curve['confidence_highs'][i])}"
            text += f"; {percent(drawn.level)} confidence band {ends}{' (simultaneous)' * simultaneous}"
        marks.append((x.at(scores[i]), y.at(rates[i]), text))
    return {
        "path": line((x.at(score), y.at(rate)) for score, rate in zip(scores, rates, strict=True)),
        "confidence": band("confidence", in_steps=simultaneous),
        "consistency": band("consistency"),
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
    counts, rates = drawn.bins["counts"], drawn.bins["accuracies"]
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


def tile(
    mean_scores: Sequence[float], event_rates: Sequence[float], counts: Sequence[float], ends: Sequence[Any]
) -> dict[str, Any]:
    """Return a small diagram: one path for the points of each size, and one for all intervals, if any."""
    total = sum(counts)
    paths_by_size: list[list[str]] = [[], [], []]
    for p, event_rate, count in zip(mean_scores, event_rates, counts, strict=True):
        size = (count >= 0.02 * total) + (count >= 0.2 * total)
        paths_by_size[size].append(f"M{_TILE * p:.1f} {_TILE * (1 - event_rate):.1f}h0")
    points = [(width, "".join(paths)) for width, paths in zip(_SIZES, paths_by_size, strict=True) if paths]
    whiskers = "".join(
        f"M{_TILE * p:.1f} {_TILE * (1 - high):.1f}v{_TILE * (high - low):.1f}"
        for p, (low, high) in zip(mean_scores, ends, strict=bool(ends))
    )
    return {"points": points, "whiskers": whiskers}


# ---------------------------------------------------------------- estimates with their floors


@dataclass(frozen=True)
class Row:
    """One row of a chart: a value, and its interval and floor (mean, upper) if it has them.

    ``marked`` rows are diamonds, in the colour of a warning unless they are ``good`` news.
    """

    label: str
    value: float
    interval: tuple[float, float] | None
    floor: tuple[float, float] | None
    marked: bool
    text: str
    good: bool = False


def fit(name: str, most: float) -> str:
    """Return a name, cut to a width of ``most`` units, estimated from its letters."""
    used = 0.0
    text = shown(name, "?")
    for i, c in enumerate(text):
        used += _width(c)
        if used > most:
            return text[: max(i - 1, 1)] + "…"
    return text


def _width(c: str) -> float:
    """Return the estimated width of a letter."""
    return 12 if unicodedata.east_asian_width(c) in "WF" else 10.5 if c in "WM@mw—" else 8.5 if c.isupper() else 6.8


def fit_pair(first: str, second: str) -> str:
    """Return the label "first − second" of a chart's row. A short name leaves its width to the other one."""
    minus = " − "
    both = NAME_WIDTH - sum(map(_width, minus))
    widths = [sum(map(_width, shown(name, "?"))) for name in (first, second)]
    limits = [max(both / 2, both - width) for width in reversed(widths)]
    return minus.join(map(fit, (first, second), limits))


def chart(rows: Sequence[Row], *, signed: bool = False, origin: float = 0.0, ratio: bool = False) -> dict[str, Any]:
    """Return a picture with a row for each estimate: a dot, its interval as a line, its floor as a box from 0.

    The line down the chart is at ``origin``. The axis of a ratio is logarithmic if all values are above 0.
    """
    values = [row.value for row in rows]
    values += [end for row in rows for pair in (row.interval, row.floor) if pair is not None for end in pair]
    low, high = min(origin, *values), max(origin, *values)
    if signed:
        low, high = min(low, -high / 20), max(high, -low / 20)
    x: Axis
    if ratio and low > 0:
        x = LogAxis(low / (high / low) ** 0.02, high * (high / low) ** 0.02 + 1e-9, _NAME_END + 8, _RIGHT)
    else:
        span = high - low if high - low > 1e-12 else 1.0
        left, right = 0.02 * span * (low < origin), 0.02 * span * (high > origin or span == 1.0)
        x = Axis(low - left, high + right, _NAME_END + 8, _RIGHT)
    drawn = []
    for i, row in enumerate(rows):
        picture: dict[str, Any] = {
            "y": _ROW * i + 18,
            "name": fit(row.label, NAME_WIDTH),
            "x": x.at(row.value),
            "marked": row.marked,
            "good": row.good,
            "diamond": _diamond(x.at(row.value), _ROW * i + 18, 6),
            "text": row.text,
        }
        if row.interval is not None:
            picture |= {"low": x.at(row.interval[0]), "high": x.at(row.interval[1])}
        if row.floor is not None:
            picture |= {"mean": x.at(row.floor[0]), "upper": x.at(row.floor[1])}
        drawn.append(picture)
    return {
        "x": x,
        "zero": x.at(origin),
        "name_end": _NAME_END,
        "rows": drawn,
        "bottom": _ROW * len(rows) + 6,
        "height": _ROW * len(rows) + 30,
    }


# ---------------------------------------------------------------- the pictures of a profile


@dataclass(frozen=True)
class Picture:
    """A picture of a panel: its heading, chart, caption and numbers; ``brief`` is the table of the terminal, if any."""

    name: str
    heading: str
    chart: Mapping[str, Any]
    caption: str
    table: Table
    brief: Table | None = None
    keys: Sequence[tuple[str, str]] = ()


def pictures(summary: Summary) -> list[Picture]:
    """Return the pictures of the report's panels, in the order of its profile."""
    return [_MAKERS[name](panel, summary) for name, panel in summary["panels"].items()]


def _decision_curve(panel: Facts, summary: Summary) -> Picture:
    thresholds, benefits, everyone = panel["thresholds"], panel["net_benefit"], panel["treat_all"]
    lows, highs, all_treated, level = panel["lows"], panel["highs"], panel["treated"], panel["level"]
    most = max(*benefits, *everyone, 1e-6)
    last = max([i for i, treated in enumerate(all_treated) if treated > 0], default=len(thresholds) - 1)
    shown = slice(0, max(min(last + 2, len(thresholds)), 2))
    top = max(1.08 * most, *(high for high in highs[shown] if high is not None), 0.0)

    def described(i: int) -> str:
        text = f"threshold {thresholds[i]:.2f}: net benefit {benefits[i]:.4f}"
        if level is not None and lows[i] is not None:
            text += f", {percent(level)} CI {ends_text(lows[i], highs[i])}"
        return f"{text}; treat all {everyone[i]:.4f}"

    ends = {"low": lows, "high": highs}
    columns = [
        _thresholds_column(thresholds),
        Column("net benefit", list(map(number, benefits)), {"net_benefit": benefits} | (ends if level is None else {})),
        Column("treat all", list(map(number, everyone)), {"treat_all": everyone}),
        Column("treated", list(map(amount, all_treated)), {"treated": all_treated}),
    ]
    method = str(panel["method"])
    note = f"{method[:1].upper()}{method[1:]}"
    if level is not None:
        columns.insert(2, Column(f"{percent(level)} CI", list(map(ends_text, lows, highs)), ends))
        of_clusters = f" of {LEAST_CLUSTERS} clusters" * is_clustered(summary)
        note = f"Each CI is for one threshold. A CI needs at least {LEAST_ROWS} treated rows{of_clusters}"
    table = Table.of("decision-curve", columns, texts=())
    reached = [i for i, treated in enumerate(all_treated) if treated >= LEAST_ROWS]
    return Picture(
        name="decision-curve",
        heading="Net benefit",
        chart=lines(
            thresholds[shown],
            {"other": everyone[shown], "curve": benefits[shown]},
            band=None if level is None else (lows[shown], highs[shown]),
            ends=((0.0, thresholds[shown][-1]), (-0.15 * most, top)),
            axes=("threshold probability", "net benefit"),
            described=described,
        ),
        caption="At threshold t, net benefit = TP/n - FP/n × t/(1 - t), with TP true positives and FP false positives "
        "among n rows. The model is useful at thresholds where its net benefit is above 0 (treating nobody) and above "
        f"the net benefit of treating all. {note}.",
        table=table.of_rows(_equally_far(thresholds, reached or range(len(thresholds)))),
        brief=table.of_rows(_round(thresholds, reached or [0])),
        keys=[("curve", "model"), ("other", "treat all"), ("zero", "treat none")],
    )


def _murphy_curve(panel: Facts, summary: Summary) -> Picture:
    thresholds, scores, rate = panel["thresholds"], panel["scores"], summary["outcome_rate"]
    base = [min(t * (1 - rate), (1 - t) * rate) for t in thresholds]
    columns = [
        _thresholds_column(thresholds),
        Column("score", list(map(number, scores)), {"score": scores}),
        Column("base rate", list(map(number, base)), {"base_rate": base}),
    ]
    table, every = Table.of("murphy-curve", columns, texts=()), range(len(thresholds))
    return Picture(
        name="murphy-curve",
        heading="Murphy curve",
        chart=lines(
            thresholds,
            {"other": base, "curve": scores},
            ends=((0.0, 1.0), (0.0, 1.08 * max(*scores, *base, 1e-6))),
            axes=("threshold probability", "mean elementary score"),
            described=lambda i: f"threshold {thresholds[i]:.2f}: {scores[i]:.4f}; base rate {base[i]:.4f}",
        ),
        caption="The curve shows the mean loss of treating rows above threshold t. A false positive costs t, and a "
        "false negative costs 1 - t. Lower values are better. Twice the area under the curve is the Brier score. If "
        "one model has a lower curve at every threshold, every proper score prefers that model.",
        table=table.of_rows(_equally_far(thresholds, every)),
        brief=table.of_rows(_round(thresholds, every)),
        keys=[("curve", "model"), ("other", "base rate for every row")],
    )


def _roc_curve(panel: Facts, _: Summary) -> Picture:
    thresholds, hits, alarms = panel["thresholds"], panel["hits"], panel["false_alarms"]
    texts = ["none" if threshold is None else f"{threshold:.3f}" for threshold in thresholds]
    columns = [
        Column("threshold", texts, {"threshold": thresholds}),
        Column("true positive rate", [f"{share:.3f}" for share in hits], {"hits": hits}),
        Column("false positive rate", [f"{share:.3f}" for share in alarms], {"false_alarms": alarms}),
    ]
    return Picture(
        name="roc-curve",
        heading="ROC curve",
        chart=lines(
            alarms,
            {"curve": hits},
            ends=((0.0, 1.0), (0.0, 1.0)),
            axes=("false positive rate (1 - specificity)", "true positive rate (sensitivity)"),
            described=lambda i: f"threshold {texts[i]}: sensitivity {hits[i]:.3f}, specificity {1 - alarms[i]:.3f}",
            diagonal=True,
        ),
        caption="The ROC curve plots the true positive rate against the false positive rate for every threshold. "
        "The curve shows discrimination, not calibration. Increasing transformations of the scores do not change the "
        "curve.",
        table=Table.of("roc-curve", columns, texts=()).of_rows(steps(len(hits), _LISTED)),
        keys=[("curve", "model"), ("ideal", "no discrimination")],
    )


_MAKERS: Final[Mapping[str, Callable[[Facts, Summary], Picture]]] = {
    "decision_curve": _decision_curve,
    "murphy_curve": _murphy_curve,
    "roc_curve": _roc_curve,
}


def _thresholds_column(thresholds: Sequence[float]) -> Column:
    return Column("threshold", [f"{threshold:.2f}" for threshold in thresholds], {"threshold": thresholds})


def _round(thresholds: Sequence[float], allowed: Sequence[int]) -> list[int]:
    """Return the indices of round thresholds, among those allowed."""
    nearest = [min(range(len(thresholds)), key=lambda i: abs(thresholds[i] - t)) for t in _BRIEF]
    return sorted({i for i in nearest if i <= allowed[-1]}) or [0]


def _equally_far(thresholds: Sequence[float], allowed: Sequence[int]) -> list[int]:
    """Return the indices of about a dozen thresholds at equal steps, among those allowed."""
    return [i for i in steps(allowed[-1] + 1, _LISTED) if i < len(thresholds)]


def lines(
    places: Sequence[float],
    values: Mapping[str, Sequence[float]],
    *,
    ends: tuple[tuple[float, float], tuple[float, float]],
    axes: tuple[str, str],
    described: Callable[[int], str],
    band: tuple[Sequence[Any], Sequence[Any]] | None = None,
    diagonal: bool = False,
    upright: float | None = None,
    names: Sequence[str] = (),
) -> dict[str, Any]:
    """Return a chart of lines over the same places, by their look; the last one is described point by point.

    Lines are cut at the lower end of the axis. At ``upright`` there is a vertical line. Places with ``names`` are whole
    numbers from 0.
    """
    left, right, top, bottom = _WIDE
    x = NamedAxis(*ends[0], left, right, tuple(names)) if names else Axis(*ends[0], left, right)
    y = Axis(*ends[1], bottom, top)
    last = list(values.values())[-1]
    marks = [(x.at(places[i]), y.at(last[i]), described(i)) for i in steps(len(places), _MARKS) if last[i] >= y.low]
    around = ""
    if band is not None:
        held = [(places[i], low, high) for i, (low, high) in enumerate(zip(*band, strict=True)) if low is not None]
        clipped = [(x.at(p), y.at(max(low, y.low)), y.at(min(max(high, y.low), y.high))) for p, low, high in held]
        around = area(*zip(*clipped, strict=True)) if len(held) > 1 else ""
    return {
        "x": x,
        "y": y,
        "axes": axes,
        "frame": (left, top, right - left, bottom - top),
        "height": bottom + 42,
        "zero": y.at(0.0) if y.low < 0 else None,
        "diagonal": diagonal,
        "upright": None if upright is None else x.at(upright),
        "band": around,
        "lines": [(look, _path(places, line_values, x, y)) for look, line_values in values.items()],
        "marks": marks,
    }


def _path(places: Sequence[float], values: Sequence[float], x: Axis, y: Axis) -> str:
    """Return a line, up to where it leaves the chart at the bottom."""
    points: list[tuple[float, float]] = []
    for place, value, before in zip(places, values, [None, *values], strict=False):
        if value < y.low:
            if before is not None and before > y.low:
                previous = places[len(points) - 1]
                share = (before - y.low) / (before - value)
                points.append((x.at(previous + share * (place - previous)), y.at(y.low)))
            break
        points.append((x.at(place), y.at(value)))
    return line(points) if points else "M0 0"


# ---------------------------------------------------------------- groups


def timeline(summary: Summary) -> Picture | None:
    """Return the difference of groups that are times, in their order, as a line with its band; None for others."""
    groups, level = summary["groups"], summary["level"]
    names = [group["name"] for group in groups]
    parts = [group["mean_gap"] for group in groups]
    if not are_times(names) or any(part["value"] is None for part in parts):
        return None
    values, lows, highs = ([part[key] for part in parts] for key in ("value", "low", "high"))
    known = [end for end in (*values, *lows, *highs, 0.0) if end is not None]
    margin = 0.05 * (max(known) - min(known)) or 0.01

    def described(i: int) -> str:
        ends = (
            "" if level is None or lows[i] is None else f", {percent(level)} CI {ends_text(lows[i], highs[i], signed)}"
        )
        return f"{names[i]}: difference {signed(values[i])}{ends}"

    return Picture(
        name="difference-over-time",
        heading="Difference over time",
        chart=lines(
            range(len(names)),
            {"curve": values},
            band=None if level is None else (lows, highs),
            ends=((-0.5, len(names) - 0.5), (min(known) - margin, max(known) + margin)),
            axes=("", "predicted - observed"),
            described=described,
            names=names,
        ),
        caption="The line is the mean predicted probability minus the observed frequency of each period. The band is "
        "the CI. The ideal value is 0.",
        table=Table("difference-over-time", {}, (), ()),
    )


def forests(summary: Summary) -> list[Picture]:
    """Return a picture for each measure that the profile shows for every group; of many groups the worst."""
    if not summary["forests"]:
        return []
    order = worst_groups(summary)
    return [_forest(name, forest, order, summary) for name, forest in summary["forests"].items()]


def origin_of(name: str) -> float | None:
    """Return where charts of a measure by group draw a line; None for none."""
    return BY_NAME[name].origin if name in BY_NAME else None


def _forest(name: str, forest: Facts, order: Sequence[int], summary: Summary) -> Picture:
    label, level = BY_NAME[name].label, summary["level"]
    rows = []
    for i in order:
        value, low, high = forest["values"][i], forest["lows"][i], forest["highs"][i]
        if value is None:
            continue
        words = f"{forest['groups'][i]}: {label} {number(value)}"
        if low is not None and level is not None:
            words += f"; {percent(level)} CI {ends_text(low, high)}"
        rows.append(Row(forest["groups"][i], value, None if low is None else (low, high), None, False, words))
    columns = {"group": forest["groups"], "value": forest["values"], "low": forest["lows"], "high": forest["highs"]}
    texts = [[forest["groups"][i], *forest_cells(forest, i, level is not None)] for i in order]
    headings = ["group", label, *([f"{percent(level)} CI"] if level is not None else [])]
    if forest["pooled"] is not None:
        columns["weight"] = forest["weights"]
        headings.append("weight")
        shares = [forest["weights"][i] for i in order]
        weights = ["" if share is None else share_text(share) for share in shares]
        texts = [[*cells, weight] for cells, weight in zip(texts, weights, strict=True)] + _pooled_cells(forest)
        rows += _pooled_rows(forest, label, level)
    return Picture(
        name=f"{name.replace('_', '-')}-of-groups",
        heading=f"{label} by group",
        chart=chart(rows, origin=origin_of(name) or 0.0, ratio=BY_NAME[name].link == "log") if rows else {},
        caption=heterogeneity(forest, level),
        table=Table(f"{name.replace('_', '-')}-of-groups", columns, headings, texts),
    )


def _pooled_cells(forest: Facts) -> list[list[str]]:
    """Return the lines of the pooled value and of the prediction interval, as texts."""
    write = "{:z.2f}".format
    lines = [["pooled", write(forest["pooled"]), ends_text(forest["pooled_low"], forest["pooled_high"], write), ""]]
    if forest["prediction_low"] is not None:
        lines.append(["prediction", "", ends_text(forest["prediction_low"], forest["prediction_high"], write), ""])
    return lines


def _pooled_rows(forest: Facts, label: str, level: float | None) -> list[Row]:
    """Return the rows of a chart for the pooled value, and for the prediction interval around it."""
    value, ends = forest["pooled"], (forest["pooled_low"], forest["pooled_high"])
    text = f"pooled {label} {number(value)}; {percent(level or 0)} CI {ends_text(*ends)}"
    rows = [Row("pooled", value, ends, None, True, text, True)]
    if forest["prediction_low"] is not None:
        range_ = (forest["prediction_low"], forest["prediction_high"])
        text = f"{percent(level or 0)} prediction interval for another group {ends_text(*range_)}"
        rows.append(Row("prediction", value, range_, None, False, text))
    return rows


def forest_cells(forest: Facts, i: int, with_interval: bool) -> list[str]:
    """Return the value of a group and its interval, as texts."""
    value = forest["values"][i]
    ends = ends_text(forest["lows"][i], forest["highs"][i], "{:z.2f}".format)
    return ["–" if value is None else f"{value:z.2f}", *([ends] if with_interval else [])]


def heterogeneity(forest: Facts, level: float | None) -> str:
    """Return how much the groups differ, in words."""
    if forest["heterogeneity"] is None:
        return f"Homogeneity is not tested, because fewer than two groups can be compared.{left_out(forest)}"
    share = f"{100 * forest['heterogeneity']:.0f} %"
    test = f"Cochran's Q test of homogeneity: p {chance(forest['p_value'])}"
    across = f"I² = {share} across {forest['compared']:,} groups; {test}."
    return f"{across}{_pooled_text(forest, level)}{left_out(forest)}"


def _pooled_text(forest: Facts, level: float | None) -> str:
    """Return the pooled value and the prediction interval, with a space before them; empty without."""
    if forest["pooled"] is None:
        return ""
    share = percent(level or 0)
    value, low, high = (f"{forest[name]:.2f}" for name in ("pooled", "pooled_low", "pooled_high"))
    ends = [forest["prediction_low"], forest["prediction_high"]]
    prediction = "" if None in ends else f"; {share} prediction interval {ends[0]:.2f} to {ends[1]:.2f}"
    return f" Pooled {value} ({share} CI {low} to {high}{prediction})."


def left_out(forest: Facts) -> str:
    """Return which groups are not compared and why, with a space before it; empty if all are."""
    names = gathered((reason, name) for name, reason in forest["left_out"].items())
    return "".join(f" Not compared ({reason}): {_some(of)}." for reason, of in names.items())


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED:,} more"
