"""Figures drawn with matplotlib: each mark as artists on Axes. No settings of matplotlib are changed."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from calibrant.plot import canvas
from calibrant.render.figure import (
    Annotation,
    AreaLook,
    Axis,
    Band,
    Bars,
    Figure,
    Intervals,
    LineLook,
    Mark,
    Name,
    Numbers,
    PointLook,
    Points,
    Polyline,
    Rule,
    Tips,
)

_AREA: Final = (16.0, 110.0)  # square points: the smallest and the largest point
_FIXED: Final = 34.0  # square points: a point whose area means nothing
_FEW: Final = 30  # curves with at most so many points have a marker at each
_MARGIN: Final = 0.02  # around square axes, so that marks on their edges can be seen
_NAMED: Final = 6  # slices with their names, at most
_SLICE: Final = 12  # characters of the name of a slice
_PAIR: Final = 24  # of a name in a pair
_ROW: Final = 32  # of another name of a row
_MANY: Final = 25  # with more rows, their names are smaller
#: The largest logarithm that is drawn: the ticks of matplotlib reach three times as far.
_MOST: Final = 90 * math.log(10)

#: How a line for reference looks: the values of calibrated scores.
_REFERENCE: Final[dict[str, Any]] = {"color": canvas.FAINT, "linewidth": 1, "zorder": 1.2}
_DASHED: Final = (0, (4, 3))
_DOTTED: Final = (0, (1, 1))
#: The colour of consistency bands and noise floors, transparent.
_GREY: Final = (0.4, 0.4, 0.4, 0.25)


def draw(ax: Any, figure: Figure, series: canvas.Series | None = None, *, weight: float = 1.0) -> None:
    """Draw a figure on axes. The limits of earlier series on them stay inside.

    ``weight`` is the relative width of strokes.
    """
    add(ax, figure, series or canvas.Series(), weight=weight)
    _Pen(ax, figure, series or canvas.Series(), weight).set_axes()


def add(ax: Any, figure: Figure, series: canvas.Series | None = None, *, weight: float = 1.0) -> None:
    """Draw the marks of a figure alone."""
    pen = _Pen(ax, figure, series or canvas.Series(), weight)
    for mark in figure.marks:
        pen.draw(mark)


class _Pen(NamedTuple):
    """What draws the marks of a figure on axes."""

    ax: Any
    figure: Figure
    series: canvas.Series
    weight: float

    def draw(self, mark: Mark) -> None:
        """Draw a mark."""
        drawn_by: dict[type, Callable[[Any], None]] = {
            Polyline: self.polyline,
            Band: self.band,
            Bars: self.bars,
            Points: self.points,
            Intervals: self.intervals,
            Rule: self.rule,
            Annotation: self.annotation,
        }
        if not isinstance(mark, Tips):
            drawn_by[type(mark)](mark)

    def annotation(self, mark: Annotation) -> None:
        look = {"transform": self.ax.get_yaxis_transform(), "va": "center", "fontsize": "small"}
        self.ax.text(0.02, mark.row, mark.text, color=canvas.FAINT, **look)

    def polyline(self, mark: Polyline) -> None:
        x, y = mark.x, _on(self.figure.y, mark.y)
        if mark.look == "curve":
            markers = {"marker": self.series.marker, "markersize": 4} if len(mark.x) <= _FEW else {}
            look = {"color": self.series.colour, "linewidth": 1.6, "zorder": 2.4, **markers, **self.series.line}
            self.ax.plot(x, y, label=mark.word, gid=self.series.gid, **look)
        elif mark.look == "joined":
            self.ax.plot(x, y, **{"color": self.series.colour, "linewidth": 0.9, "zorder": 2.3, **self.series.line})
        elif not self.has(gid := _id_of(mark.word)):
            self.ax.plot(x, y, label=mark.word, gid=gid, linestyle=_DASHED, **_REFERENCE)

    def rule(self, mark: Rule) -> None:
        """Draw a line for reference, unless an earlier series has the same."""
        if mark.look == "base":
            self.ax.axhline(mark.value, color=canvas.ink(self.ax), linewidth=0.8)
            return
        gid = _id_of(mark.word, mark.value)
        if self.has(gid):
            return
        stroke = "-" if mark.look == "zero" else _DASHED
        look = {"label": mark.word or None, "gid": gid, "linestyle": stroke, **_REFERENCE}
        if mark.axis == "both":
            ends = [self.figure.x.low, self.figure.x.high]
            self.ax.plot(ends, ends, **look)
        elif mark.axis == "x":
            self.ax.axvline(mark.value, **look)
        else:
            self.ax.axhline(_on(self.figure.y, [mark.value])[0], **look)

    def has(self, gid: str) -> bool:
        """Return whether a line for reference is on the axes."""
        return any(line.get_gid() == gid for line in self.ax.lines)

    def band(self, mark: Band) -> None:
        """Fill a band, unless it is missing. At a single place it is a stroke."""
        x, lows, highs = (np.asarray(part, dtype=float) for part in mark[:3])
        if np.isnan(lows).all():
            return
        place = {"zorder": 1.1 if mark.look == "sure" else 1.0, "label": mark.word}
        look = self.area(mark.look)
        if len(x) > 1:
            self.ax.fill_between(x, lows, highs, **place, **look)
            return
        outlined = "color" not in look
        style = {"linewidth": 2, "linestyle": look["linestyle"]} if outlined else {"linewidth": 8}
        self.ax.vlines(x, lows, highs, colors=[look["edgecolor" if outlined else "color"]], **place, **style)

    def area(self, look: AreaLook) -> dict[str, Any]:
        """Return how an area is filled: consistency bands of further series are outlines."""
        if look == "sure":
            return {"color": (*canvas.tint(self.ax, self.series.colour, 1.0), 0.25), "linewidth": 0}
        if look == "band" and self.series.place:
            edge = {"edgecolor": self.series.colour, "linewidth": 1.0, "linestyle": _DOTTED}
            return {"facecolor": "none", **edge}
        return {"color": _GREY, "linewidth": 0}

    def bars(self, mark: Bars) -> None:
        """Draw boxes, from their ends that are closer to 0."""
        lefts, rights, lows, highs = (np.asarray(part, dtype=float) for part in mark[:4])
        upwards = np.abs(lows) <= np.abs(highs)
        base, heights = np.where(upwards, lows, highs), np.where(upwards, highs - lows, lows - highs)
        colours = {
            "rate": (canvas.tint(self.ax, self.series.colour, 0.3), 0.8),
            "gap": (canvas.tint(self.ax, canvas.ORANGE, 0.4), 0.9),
            "up": (canvas.BLUE, 1.0),
            "down": (canvas.ORANGE, 1.0),
        }
        if mark.look in colours:
            colour, zorder = colours[mark.look]
            edge = {"edgecolor": canvas.paper(self.ax), "linewidth": 0.8 * self.weight}
            look = {"color": colour, "zorder": zorder, **edge}
        else:
            look = {"zorder": 1 if mark.look == "band" else 0.6, **self.area(mark.look)}
        drawn = self.ax.bar(lefts, heights, rights - lefts, base, align="edge", label=mark.word, **look)
        if mark.look == "rate" and drawn.patches:
            drawn.patches[0].set_gid(self.series.gid)

    def points(self, mark: Points) -> None:
        """Draw points. Those of a series whose areas have a meaning have its marker, and an edge."""
        place, colour, marker, _ = self.series
        in_rows, sizes = bool(self.figure.y.names), mark.sizes
        areas: Any = _FIXED
        if sizes is not None:
            areas = _AREA[0] + (_AREA[1] - _AREA[0]) * np.asarray(sizes) / mark.most
        face, width = self.colour_of(mark.look), 0.6
        edge: Any = canvas.paper(self.ax)
        if mark.look == "out":
            marker = "D"
            if place:
                face, edge, width = colour, canvas.ink(self.ax), 1.2
        if in_rows:
            marker, edge, width = "D" if mark.look in ("out", "good") else "o", face, 1.1
            face = canvas.paper(self.ax) if mark.look in ("few", "hollow") else face
        zorder = 2.7 if mark.look == "out" else 2.6
        look = {"marker": marker, "facecolor": face, "edgecolor": edge, "linewidth": width, "zorder": zorder}
        drawn = self.ax.scatter(mark.x, _on(self.figure.y, mark.y), areas, label=mark.word, **look)
        if mark.look == "dot" and not in_rows:
            drawn.set_gid(self.series.gid)

    def intervals(self, mark: Intervals) -> None:
        draw, width, zorder = self.ax.vlines, 1.1, 2.4
        if not mark.upright:
            width, zorder = {"rate": (2.2, 2.1), "mean": (1.6, 2.2)}.get(mark.look, (1.5, 2.2))
            draw = self.ax.hlines
        look = {"colors": self.colour_of(mark.look), "linewidth": width * self.weight, "zorder": zorder}
        drawn = draw(mark.places, mark.lows, mark.highs, label=mark.word, **look)
        if mark.upright:
            drawn.set_gid(canvas.UPRIGHT)

    def colour_of(self, look: PointLook | LineLook) -> Any:
        """Return the colour of points and strokes."""
        if look == "mean":
            return canvas.ink(self.ax)
        return {"out": canvas.VERMILION, "few": canvas.FAINT}.get(look, self.series.colour)

    # ------------------------------------------------------------ the axes

    def set_axes(self) -> None:
        """Set limits, ticks and labels."""
        ax, figure, first = self.ax, self.figure, not self.series.place
        if first or not figure.square:
            ax.set(xlim=self.limits(figure.x, ax.get_xlim()), ylim=self.limits(figure.y, ax.get_ylim()))
            # The scales follow the limits, because matplotlib would scale the axes anew for very large values.
            scales = {"xscale": figure.x.scale, "yscale": figure.y.scale}
            ax.set(**{name: "log" for name, scale in scales.items() if scale in ("log", "logs")})
        if first:
            ax.set(xlabel=figure.x.label, ylabel=figure.y.label)
        if figure.y.names:
            self.name_rows()
        elif figure.x.names and figure.x.high >= ax.get_xlim()[1]:  # the longest history names the slices
            names = list(figure.x.names.items())
            step = math.ceil(len(names) / _NAMED)
            shown = names[(len(names) - 1) % step :: step]  # counted from the last one
            ax.set_xticks([at for at, _ in shown], labels=[_text(name, _SLICE) for _, name in shown])
        elif figure.y.scale == "counts":
            integer = float(figure.y.high).is_integer()
            ax.yaxis.set_major_locator(canvas.matplotlib().ticker.MaxNLocator("auto", integer=integer))
            ax.yaxis.set_major_formatter(lambda value, _: f"{abs(value):,.10g}")
        elif figure.square and first:
            ax.set(xticks=[at for at, _ in figure.x.ticks()], yticks=[at for at, _ in figure.y.ticks()])
        canvas.open_frame(ax)

    def limits(self, axis: Axis, present: tuple[float, float]) -> tuple[float, float]:
        """Return the ends of an axis, around those of earlier series."""
        ends = [axis.low, axis.high]
        if axis.scale == "logs":
            ends = np.exp(np.clip(ends, -_MOST, _MOST + 1)).tolist()
        if self.figure.square or (axis is self.figure.x and self.figure.y.scale == "counts"):
            margin = _MARGIN * (axis.high - axis.low)
            ends = [axis.low - margin, axis.high + margin]
        if axis.scale == "counts":
            margin = 0.05 * (axis.high - axis.low) or 1.0
            ends = [end + math.copysign(margin, end) if end else end for end in ends]
        if axis.low < axis.high and self.series.place:
            ends += present
        return (min(ends), max(ends)) if axis.low < axis.high else (axis.low, axis.high)

    def name_rows(self) -> None:
        """Write the names of rows, and a grid to compare them."""
        ax, axis, names = self.ax, self.figure.x, self.figure.y.names
        limit = _ROW if all(len(name.parts) == 1 for name in names.values()) else _PAIR
        texts = [_text(name, limit) for name in names.values()]
        ax.set_yticks(list(names), texts, fontsize="small" if len(names) > _MANY else None)
        for text, name in zip(ax.get_yticklabels(), names.values(), strict=True):
            text.set_fontweight("bold" if name.heading else "normal")
        ax.tick_params(axis="y", length=0)
        ax.grid(visible=True, axis="x", color=canvas.FAINT, alpha=0.25, linewidth=0.8)
        if axis.scale == "log":
            ax.set_xticks(*zip(*axis.ticks(), strict=True))
            ax.minorticks_off()
        else:
            ax.locator_params(axis="x", nbins=5, min_n_ticks=2)


def _id_of(word: str, value: float = math.nan) -> str:
    """Return the id of a line for reference, without spaces, as files of SVG need it."""
    return "-".join(["calibrant", *re.findall(r"\w+", word if math.isnan(value) else f"{word} {value:g}")])


def _on(axis: Axis, values: Numbers) -> Any:
    """Return what an axis shows of values."""
    return np.exp(np.minimum(values, _MOST)) if axis.scale == "logs" else values


def _text(name: Name, limit: int) -> str:
    return name.before + " − ".join(canvas.literal(part, limit) for part in name.parts) + name.after
