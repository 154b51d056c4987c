"""Figures as paths and texts of SVG, which the templates write. The vertical coordinate grows downwards."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

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

#: Looks that a control of the page hides: ends of intervals, and where calibrated scores would be.
_SWITCHED: Final = {"sure": "sure ends", "band": "band allowed", "noise": "noise allowed"}


class Text(NamedTuple):
    """A text and where it stands; a turned one is read from below."""

    x: float
    y: float
    text: str
    anchor: str = "middle"
    look: str = ""
    turned: bool = False


class Shape(NamedTuple):
    """A path with its classes."""

    look: str
    path: str


class Hit(NamedTuple):
    """A place that says a text: a circle, or the inside of a path; its mark is shown then."""

    text: str
    x: float = 0.0
    y: float = 0.0
    radius: float = 0.0
    has_mark: bool = False
    path: str = ""


class HitSet(NamedTuple):
    """Places that the arrow keys move between."""

    about: str
    name: str
    hits: Sequence[Hit]


class Drawing(NamedTuple):
    """A picture as the templates write it."""

    box: str
    texts: Sequence[Text]
    shapes: Sequence[Shape]
    sets: Sequence[HitSet] = ()


class Key(NamedTuple):
    """An entry of the legend; one with a name is shown together with the part of this name."""

    shape: Shape
    text: str
    name: str


class Switch(NamedTuple):
    """The curves that can be shown instead of the bins, the one that is, and whether there are intervals to hide."""

    names: Sequence[str]
    chosen: str
    has_intervals: bool


def draw(figure: Figure) -> Drawing:
    """Return a figure as a picture of a page."""
    upper = _panel(figure)
    panels, height = [upper], upper.bottom + (24 if upper.has_rows and not figure.x.label else 42)
    if figure.below is not None:
        top, bottom = upper.bottom + 60, upper.bottom + 144
        lower = upper._replace(figure=figure.below, top=top, bottom=bottom, y=_Scale(figure.below.y, bottom, top))
        panels, height = [upper, lower], bottom + 22
    left = 24 if figure.square else 0 if upper.has_rows else 6
    width = WIDTH + left + (10 if figure.square else 0)
    return Drawing(
        f"{-left} 0 {width} {height:g}",
        [text for panel in panels for text in panel.texts()],
        [shape for panel in panels for shape in panel.shapes()],
        [hits for panel in panels for hits in panel.sets()],
    )


def draw_small(figure: Figure) -> Drawing:
    """Return points and intervals as a small picture: one path for the points of each size."""
    shapes = [
        Shape("grid", f"M0 0h{_TILE}v{_TILE}h-{_TILE}zM0 {_TILE / 2:g}h{_TILE}M{_TILE / 2:g} 0v{_TILE}"),
        Shape("ideal", f"M0 {_TILE}L{_TILE} 0"),
    ]
    x, y = _Scale(figure.x, 0, _TILE), _Scale(figure.y, _TILE, 0)
    for mark in figure.marks:
        if isinstance(mark, Intervals):
            ends = zip(x.at(mark.places), y.at(mark.lows), y.at(mark.highs), strict=True)
            shapes.append(Shape("whiskers", "".join(f"M{at:g} {low:g}V{high:g}" for at, low, high in ends)))
        elif isinstance(mark, Points) and mark.sizes is not None:
            paths: dict[int, str] = {}
            for at, rate, share in zip(x.at(mark.x), y.at(mark.y), mark.sizes, strict=True):
                size = next(size for least, size in _SIZES if share >= least)
                paths[size] = f"{paths.get(size, '')}M{at:g} {rate:g}h0"
            shapes += [Shape(f"points p{size}", paths[size]) for size in sorted(paths)]
    return Drawing(f"-6 -6 {_TILE + 12} {_TILE + 12}", [], shapes)


def keys(figures: Sequence[Figure]) -> list[Key]:
    """Return the legend of figures: the marks with a word, each word once for a part."""
    entries: dict[tuple[str, str], Key] = {}
    for mark in (mark for figure in figures for mark in figure.marks):
        if not isinstance(mark, Annotation | Tips) and mark.word:
            entries.setdefault(
                (mark.word, mark.name), Key(Shape(_class_of(mark._replace(name="")), _key(mark)), mark.word, mark.name)
            )
    return list(entries.values())


def switch(figure: Figure) -> Switch:
    """Return what a page can show of a figure."""
    curves = [mark.name for mark in figure.marks if isinstance(mark, Polyline) and mark.name]
    first = curves[0] if curves and ("loess" in curves or figure.x.scale == "logit") else "bins"
    has_intervals = any(isinstance(mark, Intervals) for mark in figure.marks)
    return Switch(curves, "loess" if "loess" in curves else first, has_intervals)


def _key(mark: Mark) -> str:
    """Return what a mark looks like in the legend, 28 wide and 18 high."""
    if isinstance(mark, Points):
        return _diamond(14, 9, 8) if mark.look in ("out", "good") else _circle(14, 9, 6)
    if isinstance(mark, Band | Bars):
        return _box(2, 26, 3, 15)
    if isinstance(mark, Rule) and mark.axis == "both":
        return "M2 16L26 2"
    upright = (isinstance(mark, Intervals) and mark.upright) or (isinstance(mark, Rule) and mark.axis == "x")
    return "M14 1V17" if upright else "M2 9H26"


# ---------------------------------------------------------------- axes


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

    def ticks(self) -> list[tuple[float, str]]:
        """Return coordinates with their texts: round values, or as many names as fit, counted from the last one."""
        names = self.axis.names
        if not names:
            values = self.axis.ticks()
            return list(zip(self.at([value for value, _ in values]), (text for _, text in values), strict=True))
        texts = {at: fit(name, TICK_WIDTH) for at, name in names.items()}
        apart = abs(self.end - self.start) / abs(self.axis.high - self.axis.low)
        step = math.ceil((max(map(width_of, texts.values())) + _SPACE) / apart)
        places = list(texts)[::-1][::step][::-1]
        return [(coordinate, texts[at]) for at, coordinate in zip(places, self.at(places), strict=True)]


def _across(axis: Axis, left: float, right: float) -> _Scale:
    """Return a horizontal axis; it ends where its last name does not stand out of the picture."""
    end = right
    if axis.names:
        last, name = list(axis.names.items())[-1]
        most = WIDTH + 4 - width_of(fit(name, TICK_WIDTH)) / 2
        end = min(right, left + (most - left) * (axis.high - axis.low) / (last - axis.low))
    return _Scale(axis, left, end)


class _Panel(NamedTuple):
    """A figure between its edges."""

    figure: Figure
    x: _Scale
    y: _Scale
    left: float
    right: float
    top: float
    bottom: float

    @property
    def has_rows(self) -> bool:
        return bool(self.figure.y.names)

    @property
    def is_below(self) -> bool:
        return self.figure.y.scale == "counts"

    def texts(self) -> Iterator[Text]:
        """Yield what stands around the frame."""
        across, down, middle = self.figure.x, self.figure.y, (self.left + self.right) / 2
        if self.has_rows:
            for place, name in down.names.items():
                yield Text(self.left - 8, self.y.at([place])[0] + 4, fit(name, NAME_WIDTH), "end")
        else:
            for at, text in self.y.ticks():
                yield Text(self.left - 6, at + 4, text, "end", "tick")
        if not self.is_below:
            for at, text in self.x.ticks():
                yield Text(at, self.bottom + 16, text, look="tick")
            if not self.has_rows:
                yield Text(-12 if self.figure.square else 8, (self.top + self.bottom) / 2, down.label, turned=True)
        yield Text(middle, self.bottom + (18 if self.is_below else 34), across.label)
        for mark in self.figure.marks:
            if isinstance(mark, Annotation):
                yield Text(self.left + 6, self.y.at([mark.row])[0] + 4, mark.text, "start", "tick")

    def shapes(self) -> list[Shape]:
        """Return the grid, the frame and the marks, lines over areas and points over lines."""
        grid = "".join(f"M{at:g} {self.top:g}V{self.bottom:g}" for at, _ in self.x.ticks())
        if not self.has_rows:
            grid += "".join(f"M{self.left:g} {at:g}H{self.right:g}" for at, _ in self.y.ticks())
        frame = _box(self.left, self.right, self.top, self.bottom)
        edge = Shape("frame", f"M{self.left:g} {self.top:g}V{self.bottom:g}" if self.has_rows else frame)
        marks = sorted((mark for mark in self.figure.marks if not isinstance(mark, Annotation | Tips)), key=_layer)
        drawn = [Shape(_class_of(mark), self.path(mark)) for mark in marks]
        if self.is_below:
            return drawn
        areas = sum(_layer(mark) == 0 for mark in marks)
        return [Shape("grid", grid), *drawn[:areas], edge, *drawn[areas:]]

    def path(self, mark: Mark) -> str:
        """Return the path of a mark."""
        if isinstance(mark, Polyline):
            return self._polyline(mark)
        if isinstance(mark, Band):
            return self._band(mark)
        if isinstance(mark, Bars):
            return self._bars(mark)
        if isinstance(mark, Points):
            return self._points(mark)
        if isinstance(mark, Intervals):
            places, ends = (self.x, self.y) if mark.upright else (self.y, self.x)
            form = "M{0:g} {1:g}V{2:g}" if mark.upright else "M{1:g} {0:g}H{2:g}"
            return "".join(map(form.format, places.at(mark.places), ends.at(mark.lows), ends.at(mark.highs)))
        if isinstance(mark, Rule) and mark.axis == "both":
            return f"M{self.left:g} {self.bottom:g}L{self.right:g} {self.top:g}"
        if isinstance(mark, Rule) and mark.axis == "x":
            return f"M{self.x.at([mark.value])[0]:g} {self.top:g}V{self.bottom:g}"
        return f"M{self.left:g} {self.y.at([mark.value])[0]:g}H{self.right:g}" if isinstance(mark, Rule) else ""

    def _polyline(self, mark: Polyline) -> str:
        """Return a line, up to where it leaves the frame at the bottom or on the right."""
        x, y, low = np.asarray(mark.x, dtype=float), np.asarray(mark.y, dtype=float), self.figure.y.low
        x, y = x[x <= self.figure.x.high], y[x <= self.figure.x.high]
        below = np.flatnonzero(y < low)
        if len(below) and self.figure.y.scale != "logit":  # where rare shares stand on the frame
            i = below[0]
            share = (y[i - 1] - low) / (y[i - 1] - y[i])
            x = np.append(x[:i], x[i - 1] + share * (x[i] - x[i - 1])) if i else x[:0]
            y = np.append(y[:i], low) if i else y[:0]
        return _line(zip(self.x.at(x), self.y.at(y), strict=True)) if len(x) else "M0 0"

    def _band(self, mark: Band) -> str:
        x, lows, highs = (np.asarray(part, dtype=float) for part in (mark.x, mark.lows, mark.highs))
        held = ~np.isnan(lows) & (x <= self.figure.x.high)
        if not held.any():
            return "M0 0"
        places = self.x.at(x[held])
        lower, upper = (zip(places, self.y.at(ends[held]), strict=True) for ends in (lows, highs))
        return _line([*lower, *reversed(list(upper))]) + "Z"

    def _bars(self, mark: Bars) -> str:
        x = self.x.at(mark.lefts), self.x.at(mark.rights)
        lows, highs = self.y.at(mark.lows), self.y.at(mark.highs)
        if not self.is_below:
            return "".join(map(_box, *x, highs, lows))
        upwards = mark.look == "up"
        boxes = zip(*x, highs, lows, strict=True)
        return "".join(
            _box(left, right - 1, min(top, bottom - _LEAST), bottom)
            if upwards
            else _box(left, right - 1, top, max(bottom, top + _LEAST))
            for left, right, top, bottom in boxes
            if bottom > top
        )

    def _points(self, mark: Points) -> str:
        is_diamond = mark.look in ("out", "good")
        shape, fixed, least, more = (_diamond, 6.0, 3.75, 6.0) if is_diamond else (_circle, 4.5, 2.5, 4.0)
        radii = [fixed] * len(mark.x)
        if mark.sizes is not None:
            shares = np.asarray(mark.sizes, dtype=float)
            radii = [round(least + more * root, 1) for root in np.sqrt(shares / mark.most).tolist()]
        return "".join(map(shape, self.x.at(mark.x), self.y.at(mark.y), radii))

    def sets(self) -> Iterator[HitSet]:
        """Yield the places that say a text."""
        for tips in (mark for mark in self.figure.marks if isinstance(mark, Tips)):
            hits = []
            inside = (np.asarray(tips.x) <= self.figure.x.high) & ~(np.asarray(tips.y) < self.figure.y.low)
            for i, (x, y) in enumerate(zip(self.x.at(tips.x), self.y.at(tips.y), strict=True)):
                if self.has_rows:
                    hits.append(Hit(tips.texts[i], path=_box(2, WIDTH - 2, y - _ROW / 2, y + _ROW / 2)))
                elif tips.rights is not None:
                    right = self.x.at([tips.rights[i]])[0]
                    hits.append(Hit(tips.texts[i], path=_box(x, right - 1, self.top, self.bottom)))
                elif inside[i] or self.figure.y.scale == "logit":
                    hits.append(Hit(tips.texts[i], x, y, tips.reach, tips.has_mark))
            yield HitSet(tips.about, tips.name, hits)


def _panel(figure: Figure) -> _Panel:
    """Return the panel of a figure: rows beside their names, or a frame."""
    if figure.y.names:
        left, right, top, bottom = NAME_WIDTH + 10, 428, 4, _ROW * len(figure.y.names) + 6
        y = _Scale(figure.y, _ROW * figure.y.low + 18, _ROW * figure.y.high + 18)
    else:
        left, right, top, bottom = (48, 428, 10, 390) if figure.square else (56, 428, 10, 300)
        y = _Scale(figure.y, bottom, top)
    return _Panel(figure, _across(figure.x, left, right), y, left, right, top, bottom)


def _layer(mark: Mark) -> int:
    """Return in which order marks are drawn: areas, lines for reference, other lines, curves, intervals, points."""
    if isinstance(mark, Polyline):
        return 2 + (mark.look == "curve")
    if isinstance(mark, Points):
        return 5 + (mark.look == "out")
    return {Band: 0, Bars: 0, Rule: 1, Intervals: 4}[type(mark)]


def _class_of(mark: Band | Bars | Intervals | Points | Polyline | Rule) -> str:
    """Return the classes of a mark: how it looks, and the part that it belongs to."""
    kind = "dot " if isinstance(mark, Points) else ""
    look = "whisker ends" if isinstance(mark, Intervals) else _SWITCHED.get(mark.look, mark.look)
    return f"{kind * (mark.look != 'dot')}{look} {mark.name}".strip()


# ---------------------------------------------------------------- paths


def _line(points: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in points)


def _box(left: float, right: float, top: float, bottom: float) -> str:
    return f"M{left:g} {top:g}H{right:g}V{bottom:g}H{left:g}Z"


def _circle(x: float, y: float, r: float) -> str:
    return f"M{x - r:g} {y:g}a{r:g} {r:g} 0 1 0 {2 * r:g} 0a{r:g} {r:g} 0 1 0 {-2 * r:g} 0Z"


def _diamond(x: float, y: float, r: float) -> str:
    return f"M{x:g} {y - r:g}l{r:g} {r:g}l{-r:g} {r:g}l{-r:g} {-r:g}Z"


# ---------------------------------------------------------------- names


def fit(name: Name, most: float) -> str:
    """Return a name, cut to a width of ``most`` units, estimated from its letters. Short parts leave room to others."""
    between = " − "
    texts = [shown(part, "?") for part in name.parts]
    used = width_of(name.before) + width_of(between) * (len(texts) - 1)
    after = name.after if used + sum(map(width_of, texts)) + width_of(name.after) <= most else ""
    room = most - used
    spare = [room - sum(map(width_of, texts)) + width_of(text) for text in texts]
    cut = [_cut(text, max(room / len(texts), limit)) for text, limit in zip(texts, spare, strict=True)]
    return f"{name.before}{between.join(cut)}{after}"


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
