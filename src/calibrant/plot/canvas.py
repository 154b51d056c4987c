"""What all figures share: what they need of a result, their axes, colours, the place of the legend."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, runtime_checkable

import numpy as np

from calibrant.errors import InputError, MissingDependencyError, is_missing
from calibrant.render.row_figures import GroupEstimates, ModelEstimates, PairEstimates
from calibrant.render.words import short
from calibrant.results.values import (
    Bands,
    CalibrationCurve,
    ClasswiseCalibration,
    Description,
    Estimate,
    Forest,
    ReliabilityDiagram,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


#: The colours of Okabe and Ito: people with any colour vision can tell them apart.
BLUE: Final = "#0072B2"
VERMILION: Final = "#D55E00"
ORANGE: Final = "#E69F00"
#: Colours of series, light ones last. The two lengths differ, so that a pair of colour and marker repeats late.
COLOURS: Final = (BLUE, VERMILION, "#009E73", "#CC79A7", ORANGE, "#56B4E9", "#000000")
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "*")
FAINT: Final = "0.45"
#: The name of the diagonal in the legend; the name of a band around it begins with it too.
CALIBRATED: Final = "Calibrated"

#: The ids of artists: a later call finds the series on the axes by them.
SERIES: Final = "calibrant-series"
_CORNER: Final = "calibrant-corner"
#: Vertical strokes, which the legend shows upright: lines across a bin lie there.
UPRIGHT: Final = "calibrant-upright"

_STRIP: Final = "calibrant-rows"
_STRIP_GAP: Final = 0.08  # inches between the axes and the strip above
_STRIP_HEIGHT: Final = (0.26, 0.62)  # inches at least and at most

_LEGEND: Final[dict[str, Any]] = {"frameon": False, "fontsize": "small", "handlelength": 1.6, "columnspacing": 1.2}
_TICK: Final = 7.0  # points: a tick and the space below it
_LEADING: Final = 1.3  # height of a line of text, in font sizes
_LETTER: Final = 0.55  # width of a letter, in font sizes
_HANDLE: Final = 3.7  # width of a handle and the gaps around it, in font sizes

#: The size of a figure in inches: about square axes, a strip above them, a legend below.
SQUARE: Final = (4.8, 5.9)


def matplotlib() -> ModuleType:
    """Import matplotlib."""
    try:
        import matplotlib.axes
        import matplotlib.cbook
        import matplotlib.colors
        import matplotlib.figure
        import matplotlib.lines
        import matplotlib.ticker
    except ModuleNotFoundError as error:
        if not is_missing(error, "matplotlib"):
            raise
        raise MissingDependencyError("matplotlib", "to draw", "report") from None
    return matplotlib


def axes_for(ax: Any, size: tuple[float, float]) -> Axes:
    """Return ``ax``, or the Axes of a new figure."""
    module = matplotlib()
    if ax is None:
        from matplotlib import pyplot as plt

        ax = plt.subplots(figsize=size, layout="constrained")[1]
    elif not isinstance(ax, module.axes.Axes):
        remedy = "pass an Axes from plt.subplots(), or leave ax out for a new figure"
        raise InputError("ax", "a matplotlib Axes", _kind(ax), remedy)
    axes: Axes = ax
    return axes


def panels_for(ax: Any, n: int, columns: int, size: tuple[float, float], *, shared: bool) -> tuple[list[Any], Any]:
    """Return n Axes, from ``ax`` or from a figure that is divided, and this figure, if any.

    ``size`` is the size of a panel in a new figure. ``shared`` says whether all panels have the same limits.
    """
    module = matplotlib()
    rows = math.ceil(n / columns)
    if ax is None or isinstance(ax, module.figure.FigureBase):
        figure = ax
        if figure is None:
            from matplotlib import pyplot as plt

            figure = plt.figure(figsize=(size[0] * columns, size[1] * rows + 0.9), layout="constrained")
        grid = figure.subplots(rows, columns, sharex=shared, sharey=shared, squeeze=False)
        for spare in grid.flat[n:]:
            spare.remove()
        for above in grid.flat[max(n - columns, 0) : n]:  # the lowest panel of each column
            above.tick_params(labelbottom=True)
        return list(grid.flat[:n]), figure
    panels = panels_in(ax)
    if len(panels) < n:
        remedy = "pass more Axes, or a Figure or SubFigure to divide"
        raise InputError("ax", f"{n} Axes or more", f"{len(panels)}", remedy)
    return panels[:n], None


def panels_in(ax: Any) -> list[Any]:
    """Return the Axes of an array or a list."""
    module = matplotlib()
    panels = list(ax.flat) if isinstance(ax, np.ndarray) else list(ax) if isinstance(ax, (list, tuple)) else []
    if not panels or not all(isinstance(item, module.axes.Axes) for item in panels):
        remedy = "pass what plt.subplots(2, 5) returns, or leave ax out for a new figure"
        raise InputError("ax", "an array of matplotlib Axes, a Figure or a SubFigure", _kind(ax), remedy)
    return panels


def _kind(ax: Any) -> str:
    if isinstance(ax, (np.ndarray, list, tuple)):
        types = {type(item).__name__ for item in np.asarray(ax, dtype=object).flat}
        return f"{type(ax).__name__} of {', '.join(sorted(types)) or 'nothing'}"
    return type(ax).__name__


def literal(name: str, limit: int = 40) -> str:
    """Return a name that matplotlib shows unchanged: ``$`` starts no formula, a first ``_`` hides no entry."""
    text = short(name, limit).replace("$", r"\$")
    return f"\N{HAIR SPACE}{text}" if text.startswith("_") else text


def line_options(line: Mapping[str, Any] | None, *, without: Iterable[str] = ()) -> dict[str, Any]:
    """Return the properties of a line by their full names; reject all that a line does not have or that are not free.

    ``without`` are properties that other arguments or the data set.
    """
    module, options = matplotlib(), dict(line or {})
    for name in options:
        if not is_line_property(name):
            remedy = "pass for example linestyle or alpha"
            raise InputError("line", "properties of matplotlib.lines.Line2D", repr(name), remedy)
    try:
        options = dict(module.cbook.normalize_kwargs(options, module.lines.Line2D))
    except TypeError as error:
        raise InputError("line", "each property once", str(error), "leave one of the names out") from None
    for name in options:
        if name in {"color", "data", "gid", "label", "xdata", "ydata", "figure", "transform", *without}:
            remedy = (
                "pass color and label as arguments of the function" if name in ("color", "label") else "leave it out"
            )
            raise InputError("line", "properties that nothing else sets", repr(name), remedy)
    return options


def is_line_property(name: str) -> bool:
    """Return whether matplotlib's lines have this property, under this name or as an alias."""
    return hasattr(matplotlib().lines.Line2D, f"set_{name}")


class Series(NamedTuple):
    """How a result is drawn on axes: the number of the results before it, its colour, its marker and its line."""

    place: int = 0
    colour: Any = BLUE
    marker: str = MARKERS[0]
    line: Mapping[str, Any] = {}

    @property
    def gid(self) -> str:
        return f"{SERIES}-{self.place}"


def series_on(ax: Any, color: Any = None, line: Mapping[str, Any] | None = None) -> Series:
    """Return the look of the next result on the axes; ``color`` replaces its colour."""
    place = sum(str(artist.get_gid()).startswith(SERIES) for artist in ax.get_children())
    known = color is None or matplotlib().colors.is_color_like(color)
    if not known or (isinstance(color, str) and color.lower() == "none"):
        raise InputError("color", "a colour that matplotlib knows", repr(color), "such as 'tab:red' or '#0072B2'")
    colour = COLOURS[place % len(COLOURS)] if color is None else color
    return Series(place, colour, MARKERS[place % len(MARKERS)], line or {})


def ink(ax: Any) -> str:
    """Return the colour of the axis labels, which can be seen in dark styles too."""
    return str(ax.xaxis.label.get_color())


def paper(ax: Any) -> tuple[float, ...]:
    """Return the background colour of the axes."""
    from matplotlib.colors import to_rgba

    red, green, blue, strength = to_rgba(ax.get_facecolor())
    return (red, green, blue) if strength else (1.0, 1.0, 1.0)


def tint(ax: Any, colour: Any, strength: float) -> tuple[float, ...]:
    """Return a colour mixed with the background."""
    from matplotlib.colors import to_rgb

    return tuple(
        strength * value + (1 - strength) * behind for value, behind in zip(to_rgb(colour), paper(ax), strict=True)
    )


def open_frame(ax: Any) -> None:
    """Remove the right and upper side of the frame."""
    ax.spines[["right", "top"]].set_visible(False)
    ax.set_axisbelow(True)


def corner(ax: Any, text: str) -> None:
    """Write a line into the upper left corner of the axes, below those of earlier series."""
    lines = sum(other.get_gid() == _CORNER for other in ax.texts)
    ax.annotate(
        text,
        (0, 1),
        (6, -6 - 13 * lines),  # points
        xycoords="axes fraction",
        textcoords="offset points",
        va="top",
        zorder=3,
        gid=_CORNER,
        bbox={"facecolor": paper(ax), "alpha": 0.7, "linewidth": 0, "pad": 1},
    )


def strip(ax: Any, edges: Any, shares: Any, rows: str, colour: Any, *, right: bool) -> None:
    """Draw shares of rows between edges on a strip above the axes, with the number of rows on one side.

    Shares that are on the strip are not drawn again. Further ones are outlines only.
    """
    top = next((child for child in ax.child_axes if child.get_label() == _STRIP), None)
    if top is None:
        top = _above(ax)
    for drawn in top.patches:
        values, places, _ = drawn.get_data()
        if np.array_equal(values, shares) and np.array_equal(places, edges):
            return
    look = {"fill": False} if top.patches else {"fill": True, "facecolor": tint(ax, colour, 0.3)}
    top.stairs(shares, edges, edgecolor=colour, linewidth=1, **look)
    highest = max([float(shares.max()), *(top.get_yticks() if top.texts else ())])
    top.set(ylim=(0, 1.7 * (highest or 1.0)), yticks=[highest])
    top.set_yticklabels([f"{100 * highest:.3g} %"])
    if not top.texts:
        place = {"x": 1.0, "ha": "right"} if right else {"x": 0.0, "ha": "left"}
        top.text(y=1, s=rows, va="top", transform=top.transAxes, fontsize="small", color=FAINT, **place)
    elif rows not in top.texts[0].get_text().split("; "):
        top.texts[0].set_text(f"{top.texts[0].get_text()}; {rows}")


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
    top.tick_params(axis="y", length=0, labelsize="small", labelcolor=FAINT)
    top.spines[["left", "right", "top"]].set_visible(False)
    top.spines["bottom"].set_color(FAINT)
    top.patch.set_visible(False)
    return top


# ---------------------------------------------------------------- legends


def handles_of(axes: Iterable[Any]) -> tuple[list[Any], list[str]]:
    """Return the entries of a legend: series first, each name once, the diagonal together with its band."""
    handles: dict[str, Any] = {}
    for ax in axes:
        for handle, word in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(word, handle)
    around = next((word for word in handles if word.startswith(f"{CALIBRATED} ")), None)
    if around and CALIBRATED in handles:
        handles[around] = (handles[around], handles.pop(CALIBRATED))
    words = sorted(handles, key=lambda word: not _is_series(handles[word]))
    return [upright(handles[word]) for word in words], words


def upright(handle: Any) -> Any:
    """Return an upright stroke for the legend if the artist consists of vertical strokes, else the artist."""
    if getattr(handle, "get_gid", str)() != UPRIGHT:
        return handle
    from matplotlib.lines import Line2D

    look = {"color": handle.get_colors()[0], "markeredgewidth": float(handle.get_linewidths()[0])}
    return Line2D([], [], linestyle="none", marker="|", markersize=10, **look)


def _is_series(handle: Any) -> bool:
    while isinstance(handle, tuple):  # the bars of a container
        handle = next(iter(handle), None)
    return handle is not None and str(handle.get_gid()).startswith(SERIES)


def legend_below(ax: Any, panels: Iterable[Any] | None = None, *, most: int = 9) -> None:
    """Put the legend of the axes, or of all panels, below the axes, in as many columns as fit, at most ``most``."""
    from matplotlib.transforms import ScaledTranslation

    handles, words = handles_of(panels or [ax])
    label, ticks = ax.xaxis.label, ax.xaxis.get_ticklabels()
    depth = _TICK + _LEADING * ticks[0].get_fontsize() if ticks else _TICK
    if label.get_text():
        depth += ax.xaxis.labelpad + _LEADING * label.get_fontsize() * (label.get_text().count("\n") + 1)
    below = ax.transAxes + ScaledTranslation(0, -(depth + 2) / 72, ax.figure.dpi_scale_trans)
    columns = _columns(words, 1.15 * ax.get_window_extent().width / ax.figure.dpi * 72)
    ax.legend(
        handles,
        words,
        loc="upper center",
        bbox_to_anchor=(0.5, 0),
        bbox_transform=below,
        borderaxespad=0,
        ncols=min(columns, most),
        **_LEGEND,
    )


def legend_of_all(panels: list[Any], figure: Any) -> None:
    """Put one legend below all panels: on the figure if it was divided and has a layout, else on the last panel."""
    if figure is None or figure.get_layout_engine() is None:
        legend_below(panels[-1], panels)
        return
    handles, words = handles_of(panels)
    columns = _columns(words, figure.bbox.width / figure.dpi * 72)
    figure.legend(handles, words, loc="outside lower center", ncols=columns, **_LEGEND)


def _columns(words: list[str], most: float) -> int:
    """Return how many columns fit into ``most`` points; a column is as wide as its longest entry."""
    from matplotlib.font_manager import FontProperties

    size = float(FontProperties(size=_LEGEND["fontsize"]).get_size_in_points())

    def width(columns: int) -> float:
        longest = [
            int(max(column)) for column in np.array_split([len(word) for word in words], columns)
        ]  # as matplotlib does
        return size * (_LETTER * sum(longest) + _HANDLE * columns)

    return next((columns for columns in range(len(words), 1, -1) if width(columns) <= most), 1)


# ---------------------------------------------------------------- what a figure needs of a report and of a comparison


@runtime_checkable
class PlottableReport(Protocol):
    """What `calibrant.evaluate` returns: `calibrant.Report`."""

    @property
    def estimates(self) -> Mapping[str, Estimate]: ...
    @property
    def descriptions(self) -> Mapping[str, Description]: ...
    @property
    def notion(self) -> str: ...
    @property
    def n_classes(self) -> int | None: ...
    @property
    def class_names(self) -> tuple[str, ...] | None: ...
    @property
    def level(self) -> float | None: ...
    @property
    def bands(self) -> Bands: ...
    @property
    def diagram(self) -> ReliabilityDiagram | None: ...
    @property
    def classwise(self) -> ClasswiseCalibration | None: ...
    @property
    def curves(self) -> Mapping[str, CalibrationCurve]: ...
    @property
    def groups(self) -> Sequence[GroupEstimates]: ...
    @property
    def all_rows(self) -> GroupEstimates | None: ...
    @property
    def forests(self) -> Mapping[str, Forest]: ...


@runtime_checkable
class PlottableLeaderboard(Protocol):
    """What `calibrant.compare` or `calibrant.compare_results` returns."""

    @property
    def descriptions(self) -> Mapping[str, Description]: ...
    @property
    def level(self) -> float: ...
    @property
    def pairs(self) -> Sequence[PairEstimates]: ...
    @property
    def leaderboard(self) -> Sequence[ModelEstimates]: ...
    @property
    def sorted_by(self) -> str: ...


@runtime_checkable
class PlottableComparison(PlottableLeaderboard, Protocol):
    """What `calibrant.compare` returns: `calibrant.Comparison`."""

    @property
    def notion(self) -> str: ...
    @property
    def models(self) -> Mapping[str, Mapping[str, float]]: ...
    @property
    def diagrams(self) -> Mapping[str, ReliabilityDiagram]: ...


def check_type(argument: str, value: object, kind: type, expected: str, source: str) -> None:
    """Reject a result of another type; ``source`` returns the expected one."""
    if not isinstance(value, kind):
        raise InputError(argument, expected, type(value).__name__, f"pass {source}")
