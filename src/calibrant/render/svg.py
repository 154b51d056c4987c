"""Figures as SVG of a page. The vertical coordinate grows downwards, and every text from a user is escaped."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Any, Final, NamedTuple

import numpy as np

from calibrant.render.figure import (
    Annotation,
    Axis,
    Band,
    Bars,
    Figure,
    Intervals,
    Mark,
    Name,
    Numbers,
    Points,
    Polyline,
    Rule,
    Tips,
)
from calibrant.render.words import shown

WIDTH: Final = 440
NAME_WIDTH: Final = 156  # of a name left of a row: the longest label of a measure fits
TICK_WIDTH: Final = 90  # of a name below an axis
_SPACE: Final = 14.0  # between two names below an axis
_ROW: Final = 26  # the height of a row
_LEAST: Final = 0.8  # the length of the shortest bar of a histogram: even a single row can be seen
_TILE: Final = 100
_SIZES: Final = ((0.2, 11), (0.02, 7), (0.0, 4))  # diameters of points in a small picture, by their share of the rows
_DIAMONDS: Final = ("out", "good")
#: Looks with a class that a control of the page hides: where calibrated scores would be, and the ends of intervals.
_CLASSES: Final = {"sure": "sure ends", "band": "band allowed", "noise": "noise allowed"}


def picture(figure: Figure) -> str:
    """Return a figure with its axes, and the places that say a text."""
    panels, height = [_placed(figure)], height_of(figure)
    if figure.below is not None:
        top, bottom = panels[0].bottom + 60, panels[0].bottom + 144
        y = _Scale(figure.below.y, bottom, top)
        panels.append(panels[0]._replace(figure=figure.below, top=top, bottom=bottom, y=y))
    left, right = (24, 10) if figure.square else (0, 0) if figure.y.names else (6 + 8 - panels[0].title_at(), 0)
    box = f"{-left} 0 {WIDTH + left + right} {height:g}"
    drawn, sets = (
        "".join(text for panel in panels for text in part(panel)) for part in (_Picture.drawn, _Picture.sets)
    )
    label = _safe(figure.title)
    return f'<svg viewBox="{box}" role="group" aria-label="{label}"><g aria-hidden="true">{drawn}</g>{sets}</svg>'


def height_of(figure: Figure) -> float:
    """Return the height of the picture of a figure, if its width is `WIDTH`."""
    bottom = _placed(figure).bottom
    if figure.below is not None:
        return bottom + 166
    return bottom + (24 if figure.y.names and not figure.x.label else 42)


def small_picture(figure: Figure, title: str) -> str:
    """Return points and intervals without axes: one path for the points of each size."""
    grid = f"M0 0h{_TILE}v{_TILE}h-{_TILE}zM0 {_TILE / 2:g}h{_TILE}M{_TILE / 2:g} 0v{_TILE}"
    panel = _Picture(figure, _Scale(figure.x, 0, _TILE), _Scale(figure.y, _TILE, 0), 0, _TILE, 0, _TILE)
    paths = [_path("grid", grid), _path("ideal", f"M0 {_TILE}L{_TILE} 0")]
    for mark in figure.marks:
        if isinstance(mark, Intervals):
            paths.append(_path("whiskers", panel.intervals(mark)))
        elif isinstance(mark, Points) and mark.sizes is not None:
            points: dict[int, str] = {}
            for x, y, share in zip(panel.x.at(mark.x), panel.y.at(mark.y), mark.sizes, strict=True):
                size = next(size for least, size in _SIZES if share >= least)
                points[size] = f"{points.get(size, '')}M{x:g} {y:g}h0"
            paths += [_path(f"points p{size}", points[size]) for size in sorted(points)]
    box = f"-6 -6 {_TILE + 12} {_TILE + 12}"
    return f'<svg viewBox="{box}" role="img" aria-label="{_safe(title)}">{"".join(paths)}</svg>'


def legend(figures: Sequence[Figure]) -> str:
    """Return the legend of figures: each word once for a part. It is shown together with the part."""
    entries: dict[tuple[str, str], str] = {}
    for mark in (mark for figure in figures for mark in figure.marks):
        if not isinstance(mark, Annotation | Tips) and mark.word:
            shape = _path(_class_of(mark._replace(name="")), _key(mark))
            drawn = f'<svg viewBox="0 0 28 18" aria-hidden="true">{shape}</svg>'
            entry = f'<span class="key {mark.name}">{drawn}{_safe(mark.word)}</span>'
            entries.setdefault((mark.word, mark.name), entry)
    return f'<p class="soft">{"".join(entries.values())}</p>' if entries else ""


def _key(mark: Mark) -> str:
    """Return what a mark looks like in a legend, 28 wide and 18 high."""
    if isinstance(mark, Points):
        return _diamond(14, 9, 8) if mark.look in _DIAMONDS else _circle(14, 9, 6)
    if isinstance(mark, Band | Bars):
        return _box(2, 26, 3, 15)
    if isinstance(mark, Rule) and mark.axis == "both":
        return "M2 16L26 2"
    upright = (isinstance(mark, Intervals) and mark.upright) or (isinstance(mark, Rule) and mark.axis == "x")
    return "M14 1V17" if upright else "M2 9H26"


# ---------------------------------------------------------------- axes and marks


class _Scale(NamedTuple):
    """An axis from one coordinate to another; values outside its ends stand at the ends."""

    axis: Axis
    start: float
    end: float

    def at(self, values: Numbers) -> list[float]:
        low, high = self.axis.low, self.axis.high
        places = np.clip(np.asarray(values, dtype=float), min(low, high), max(low, high))
        if self.axis.scale == "log":
            low, high, places = np.log(low), np.log(high), np.log(places)
        elif self.axis.scale == "logit":
            low, high, places = (np.log(share / (1 - share)) for share in (low, high, places))
        coordinates = self.start + (places - low) / (high - low) * (self.end - self.start)
        return [round(place, 1) for place in coordinates.tolist()]

    def one(self, value: float) -> float:
        return self.at([value])[0]

    def ticks(self) -> list[tuple[float, str]]:
        """Return coordinates with their texts: round values, or as many names as fit, counted from the last one."""
        ticks: Sequence[tuple[float, str]] = self.axis.ticks()
        if self.axis.names:
            texts = [(at, fit(name, TICK_WIDTH)) for at, name in self.axis.names.items()]
            apart = abs(self.end - self.start) / abs(self.axis.high - self.axis.low)
            ticks = texts[:: -math.ceil((max(width_of(text) for _, text in texts) + _SPACE) / apart)][::-1]
        return [(self.one(value), text) for value, text in ticks]


class _Picture(NamedTuple):
    """A figure between its edges."""

    figure: Figure
    x: _Scale
    y: _Scale
    left: float
    right: float
    top: float
    bottom: float

    def drawn(self) -> Iterator[str]:
        """Yield the grid, the areas, the frame, the lines, the points and the texts."""
        rows, across, down = self.figure.y.names, self.figure.x, self.figure.y
        if down.scale == "counts":  # below another picture
            yield from self.marks(range(7))
            yield from (_text(self.left - 6, at + 4, text, "end", "tick") for at, text in self.y.ticks())
            yield _text((self.left + self.right) / 2, self.bottom + 18, across.label)
            return
        grid = "".join(f"M{at:g} {self.top:g}V{self.bottom:g}" for at, _ in self.x.ticks())
        frame, level = f"M{self.left:g} {self.top:g}V{self.bottom:g}", [] if rows else self.y.ticks()
        if not rows:
            grid += "".join(f"M{self.left:g} {at:g}H{self.right:g}" for at, _ in level)
            frame = _box(self.left, self.right, self.top, self.bottom)
            yield _text(0, 0, down.label, turned=(self.title_at(), (self.top + self.bottom) / 2))
        yield _path("grid", grid)
        yield from self.marks([0])
        yield _path("frame", frame)
        yield from self.marks(range(1, 7))
        yield from (_text(self.left - 6, at + 4, text, "end", "tick") for at, text in level)
        for i, name in rows.items():
            yield _text(self.left - 8, self.y.one(i) + 4, fit(name, NAME_WIDTH), "end", "heading" * name.heading)
        yield from (_text(at, self.bottom + 16, text, look="tick") for at, text in self.x.ticks())
        yield _text((self.left + self.right) / 2, self.bottom + 34, across.label)
        for mark in self.figure.marks:
            if isinstance(mark, Annotation):
                yield _text(self.left + 6, self.y.one(mark.row) + 4, mark.text, "start", "tick")

    def title_at(self) -> float:
        """Return where the baseline of the vertical axis's title is, left of all its ticks."""
        if self.figure.square or self.figure.y.names:
            return -12
        widest = max((width_of(text) for _, text in self.y.ticks()), default=0.0)
        return min(8, round(self.left - 6 - widest - 8, 1))

    def marks(self, layers: Sequence[int]) -> Iterator[str]:
        """Yield the marks of some layers, in their order."""
        marks = [mark for mark in self.figure.marks if not isinstance(mark, Annotation | Tips)]
        for mark in sorted(marks, key=_layer):
            if _layer(mark) in layers:
                yield _path(_class_of(mark), self.path(mark))

    def path(self, mark: Mark) -> str:
        """Return the path of a mark."""
        paths: dict[type, Any] = {
            Polyline: self.polyline,
            Band: self.band,
            Bars: self.bars,
            Points: self.points,
            Intervals: self.intervals,
            Rule: self.rule,
        }
        return str(paths[type(mark)](mark)) or "M0 0"

    def polyline(self, mark: Polyline) -> str:
        """Return a line, up to where it leaves the frame at the bottom or on the right."""
        x, y, low = np.asarray(mark.x, dtype=float), np.asarray(mark.y, dtype=float), self.figure.y.low
        x, y = x[x <= self.figure.x.high], y[x <= self.figure.x.high]
        below = np.flatnonzero(y < low)
        if len(below) and self.figure.y.scale != "logit":  # where rare shares stand on the frame
            i = below[0]
            share = (y[i - 1] - low) / (y[i - 1] - y[i])
            x = np.append(x[:i], x[i - 1] + share * (x[i] - x[i - 1])) if i else x[:0]
            y = np.append(y[:i], low) if i else y[:0]
        return _line(zip(self.x.at(x), self.y.at(y), strict=True))

    def band(self, mark: Band) -> str:
        x, lows, highs = (np.asarray(part, dtype=float) for part in (mark.x, mark.lows, mark.highs))
        held = ~np.isnan(lows) & (x <= self.figure.x.high)
        lower, upper = (zip(self.x.at(x[held]), self.y.at(ends[held]), strict=True) for ends in (lows, highs))
        return _line([*lower, *reversed(list(upper))]) + "Z" * bool(held.any())

    def bars(self, mark: Bars) -> str:
        """Return boxes; those of a histogram have gaps, and even the smallest can be seen."""
        boxes = zip(*map(self.x.at, mark[:2]), *map(self.y.at, mark[2:4]), strict=True)
        if mark.look not in ("up", "down"):
            return "".join(_box(left, right, high, low) for left, right, low, high in boxes if low == low)
        more = (_LEAST, 0.0) if mark.look == "up" else (0.0, _LEAST)
        return "".join(
            _box(left, right - 1, min(high, low - more[0]), max(low, high + more[1]))
            for left, right, low, high in boxes
            if low > high
        )

    def points(self, mark: Points) -> str:
        is_diamond = mark.look in _DIAMONDS
        shape, fixed, least, more = (_diamond, 6.0, 3.75, 6.0) if is_diamond else (_circle, 4.5, 2.5, 4.0)
        radii = [fixed] * len(mark.x)
        if mark.sizes is not None:
            radii = [round(least + more * math.sqrt(share / mark.most), 1) for share in mark.sizes]
        return "".join(map(shape, self.x.at(mark.x), self.y.at(mark.y), radii))

    def intervals(self, mark: Intervals) -> str:
        places, ends = (self.x, self.y) if mark.upright else (self.y, self.x)
        form = "M{0:g} {1:g}V{2:g}" if mark.upright else "M{1:g} {0:g}H{2:g}"
        return "".join(map(form.format, places.at(mark.places), ends.at(mark.lows), ends.at(mark.highs)))

    def rule(self, mark: Rule) -> str:
        if mark.axis == "both":
            return f"M{self.left:g} {self.bottom:g}L{self.right:g} {self.top:g}"
        if mark.axis == "x":
            return f"M{self.x.one(mark.value):g} {self.top:g}V{self.bottom:g}"
        return f"M{self.left:g} {self.y.one(mark.value):g}H{self.right:g}"

    def sets(self) -> Iterator[str]:
        """Yield the places that say a text, each set in the order of the arrow keys."""
        for tips in (mark for mark in self.figure.marks if isinstance(mark, Tips)):
            outside = (np.asarray(tips.x) > self.figure.x.high) | (np.asarray(tips.y) < self.figure.y.low)
            points = []
            for i, (x, y) in enumerate(zip(self.x.at(tips.x), self.y.at(tips.y), strict=True)):
                if self.figure.y.names:
                    hit = _path("hit at", _box(2, WIDTH - 2, y - _ROW / 2, y + _ROW / 2))
                elif tips.rights is not None:
                    hit = _path("hit at", _box(x, self.x.one(tips.rights[i]) - 1, self.top, self.bottom))
                elif outside[i] and self.figure.y.scale != "logit":
                    continue
                else:
                    at = f'cx="{x:g}" cy="{y:g}"'
                    hit = f'<circle class="hit at" {at} r="{tips.reach}"/>'
                    hit += f'<circle class="mark" {at} r="4.5"/>' * tips.has_mark
                points.append(f'<g class="pt"><title>{_safe(tips.texts[i])}</title>{hit}</g>')
            yield f'<g class="{tips.name} set" role="group" aria-label="{_safe(tips.about)}">{"".join(points)}</g>'


def _placed(figure: Figure) -> _Picture:
    """Return a figure between its edges: rows next to their names, or a frame."""
    left, right, top, bottom = (48, 428, 10, 390) if figure.square else (56, 428, 10, 300)
    y = _Scale(figure.y, bottom, top)
    if figure.y.names:
        left, right, top, bottom = NAME_WIDTH + 10, 428, 4, _ROW * len(figure.y.names) + 6
        y = _Scale(figure.y, _ROW * figure.y.low + 18, _ROW * figure.y.high + 18)
    end: float = right
    if figure.x.names:  # the last name does not stand out of the picture
        last, name = list(figure.x.names.items())[-1]
        most = WIDTH + 4 - width_of(fit(name, TICK_WIDTH)) / 2
        end = min(end, left + (most - left) * (figure.x.high - figure.x.low) / (last - figure.x.low))
    return _Picture(figure, _Scale(figure.x, left, end), y, left, right, top, bottom)


def _layer(mark: Mark) -> int:
    """Return in which order marks are drawn: areas, lines for reference, other lines, curves, intervals, points."""
    if isinstance(mark, Polyline):
        return 2 + (mark.look == "curve")
    if isinstance(mark, Points):
        return 5 + (mark.look == "out")
    return {Band: 0, Bars: 0, Rule: 1, Intervals: 4}[type(mark)]


def _class_of(mark: Band | Bars | Intervals | Points | Polyline | Rule) -> str:
    """Return the classes of a mark: how it looks, and the part that it belongs to."""
    look = "whisker ends" if isinstance(mark, Intervals) else _CLASSES.get(mark.look, mark.look)
    is_other = isinstance(mark, Points) and look != "dot"
    return f"{'dot ' * is_other}{look} {mark.name}".strip()


# ---------------------------------------------------------------- elements


def _safe(text: str) -> str:
    """Return a text that a page can hold."""
    return escape(shown(text, "\N{REPLACEMENT CHARACTER}"))


def _path(look: str, path: str) -> str:
    return f'<path class="{look}" d="{path}"/>'


def _text(
    x: float, y: float, text: str, anchor: str = "middle", look: str = "", turned: tuple[float, float] | None = None
) -> str:
    """Return a text; a turned one is read from below."""
    if not text:
        return ""
    place = f'x="{x:g}" y="{y:g}"'
    if turned is not None:
        place = f'transform="translate({turned[0]:g} {turned[1]:g}) rotate(-90)"'
    return f'<text class="{look}" {place} text-anchor="{anchor}">{_safe(text)}</text>'


def _line(points: Iterable[tuple[float, float]]) -> str:
    through = "L".join(f"{x:g} {y:g}" for x, y in points)
    return f"M{through}" if through else ""


def _box(left: float, right: float, top: float, bottom: float) -> str:
    return f"M{left:g} {top:g}H{right:g}V{bottom:g}H{left:g}Z"


def _circle(x: float, y: float, r: float) -> str:
    return f"M{x - r:g} {y:g}a{r:g} {r:g} 0 1 0 {2 * r:g} 0a{r:g} {r:g} 0 1 0 {-2 * r:g} 0Z"


def _diamond(x: float, y: float, r: float) -> str:
    return f"M{x:g} {y - r:g}l{r:g} {r:g}l{-r:g} {r:g}l{-r:g} {-r:g}Z"


# ---------------------------------------------------------------- names


def fit(name: Name, most: float) -> str:
    """Return a name, cut to a width of ``most`` units, estimated from its letters. Short parts leave more to others."""
    between, texts = " − ", [shown(part, "?") for part in name.parts]
    room = most - width_of(name.before) - width_of(between) * (len(texts) - 1)
    used = sum(map(width_of, texts))
    cut = [_cut(text, max(room / len(texts), room - used + width_of(text))) for text in texts]
    has_room = used + width_of(name.after) <= room
    return f"{name.before}{between.join(cut)}{name.after * has_room}"


def _cut(text: str, most: float) -> str:
    used = 0.0
    for i, letter in enumerate(text):
        used += width_of(letter)
        if used > most:
            return text[: max(i - 1, 1)] + "…"
    return text


def width_of(text: str) -> float:
    """Return the estimated width of a text."""
    return sum(
        12 if unicodedata.east_asian_width(c) in "WF" else 10.5 if c in "WM@mw—" else 8.5 if c.isupper() else 6.8
        for c in text
    )
