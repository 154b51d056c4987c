"""Pictures as values: axes in units of the data, and the marks on them.

A picture is built once from the values of a result. `svg` draws it on a page, and `calibrant.plot` with matplotlib.
Marks have no colours: a look says what they mean, and each backend has a style for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Numbers: TypeAlias = "Sequence[float] | NDArray[np.float64]"

#: How values lie on an axis: shares of rare events by their log-odds. "logs" are logarithms of what is shown, and
#: "counts" are numbers of rows, upwards and downwards from 0.
Scale: TypeAlias = Literal["linear", "log", "logit", "logs", "counts"]

#: What a line means: the result ("curve", "joined"), what to compare it with ("other"), or a reference. "rate" and
#: "mean" are strokes across a bar.
LineLook: TypeAlias = Literal["curve", "joined", "other", "ideal", "zero", "base", "rate", "mean"]
#: What an area means: where the true value may be ("sure"), where calibrated scores would be ("band", "noise"), or a
#: bar.
AreaLook: TypeAlias = Literal["sure", "band", "noise", "rate", "gap", "up", "down"]
#: What a point means: usual ("dot"), found ("out"), good news ("good"), not the best ("hollow") or unclear ("few").
PointLook: TypeAlias = Literal["dot", "out", "good", "hollow", "few"]

_SUPERSCRIPT: Final = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_PLAIN: Final = 4  # powers of ten up to this one are written out


class Name(NamedTuple):
    """A name on an axis: its parts may be cut, what stands before may not, and what comes after may be left out.

    A heading names the rows below it.
    """

    parts: tuple[str, ...]
    before: str = ""
    after: str = ""
    heading: bool = False


class Axis(NamedTuple):
    """Values from ``low`` to ``high``. The places of an axis with names are whole numbers."""

    label: str
    low: float
    high: float
    scale: Scale = "linear"
    names: Mapping[int, Name] = {}

    def ticks(self) -> list[tuple[float, str]]:
        """Return about five round values with their texts; an axis with names has none."""
        if self.scale == "log":
            return _round_ratios(self.low, self.high)
        if self.scale == "logit":
            return _round_shares(self.low, self.high)
        if self.scale == "logs":
            return _powers(self.low, self.high)
        if self.scale == "counts":
            return _counts(self.low, self.high)
        return [] if self.names else _round_values(self.low, self.high)


def _round_values(low: float, high: float) -> list[tuple[float, str]]:
    step = round_step((high - low) / 5)
    if step < 1e-4:  # long labels need more space
        step = round_step((high - low) / 3)
    places = max(0, -math.floor(math.log10(step) + 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    written = f"z.{places}f" if places < 5 else "z.3g"
    return [(k * step, f"{k * step:{written}}") for k in range(first, last + 1)]


def _round_ratios(low: float, high: float) -> list[tuple[float, str]]:
    """Return two to seven round ratios; within a short range, they have equal distances."""
    for digits in ((10,), (10, 20, 50), (10, 15, 20, 30, 50, 70)):
        ratios = [digit * 10.0**k for k in range(-7, 7) for digit in digits]
        inside = [ratio for ratio in ratios if low <= ratio <= high]
        if len(inside) >= 3:
            return [(ratio, f"{ratio:.3g}") for ratio in inside[:: max(len(inside) // 6, 1)]]
    return _round_values(low, high)


def _round_shares(low: float, high: float) -> list[tuple[float, str]]:
    digits = (1, 2, 5) if high / low <= 101 else (1,)
    shares = [round(digit * 10.0**k, 9) for k in range(-7, 0) for digit in digits] + [0.5, 0.9, 0.99]
    return [(share, percent_text(share)) for share in sorted({*shares}) if low <= share <= high]


def _powers(low: float, high: float) -> list[tuple[float, str]]:
    """Return at most six powers of ten by their logarithms."""
    first, last = math.ceil(low / math.log(10)), math.floor(high / math.log(10))
    step = next(m * 10**k for k in range(9) for m in (1, 2, 5) if (last - first) / (m * 10**k) <= 6)
    powers = [k for k in range(first, last + 1) if k % step == 0]
    return [(k * math.log(10), f"{10.0**k:,g}" if abs(k) <= _PLAIN else _power(k)) for k in powers]


def _power(k: int) -> str:
    return f"10{str(k).translate(_SUPERSCRIPT)}"


def power_text(log_value: float) -> str:
    """Return a power of ten by its logarithm, rounded down."""
    return _power(math.floor(log_value / math.log(10) + 1e-9))


def _counts(low: float, high: float) -> list[tuple[float, str]]:
    """Return both ends, unless they are too close to 0, and 0."""
    ends = [(end, brief(abs(end))) for end in (high, low) if abs(end) >= 0.14 * (high - low)]
    return [*ends, (0.0, "0")]


def brief(count: float) -> str:
    """Return a number of rows, or their weight, in about six characters."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e5, "k")):
        if count >= size:
            return f"{count / (1e3 if letter == 'k' else size):.3g}{letter}"
    return f"{count:,.0f}" if count >= 100 else f"{count:.3g}"


def percent_text(share: float) -> str:
    """Return a round share in percent."""
    return f"{100 * share:.6g} %"


def round_step(least: float) -> float:
    """Return the smallest 1, 2 or 5 times a power of ten that is not below ``least``."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= least * (1 - 1e-9))


# ---------------------------------------------------------------- the marks


class Polyline(NamedTuple):
    """A line through points. ``word`` is what the legend says; ``name`` is the name of a part that can be hidden."""

    x: Numbers
    y: Numbers
    look: LineLook
    word: str = ""
    name: str = ""


class Band(NamedTuple):
    """An area between two lines; it ends where they are NaN."""

    x: Numbers
    lows: Numbers
    highs: Numbers
    look: AreaLook
    word: str = ""
    name: str = ""


class Bars(NamedTuple):
    """Boxes, each from a left to a right end and from a lower to an upper one."""

    lefts: Numbers
    rights: Numbers
    lows: Numbers
    highs: Numbers
    look: AreaLook
    word: str = ""
    name: str = ""


class Points(NamedTuple):
    """Points, whose areas grow with their ``sizes``: shares of all rows, and ``most`` is the largest of them."""

    x: Numbers
    y: Numbers
    look: PointLook
    word: str = ""
    name: str = ""
    sizes: Numbers | None = None
    most: float = 1.0


class Intervals(NamedTuple):
    """Strokes from ``lows`` to ``highs`` at places of the other axis."""

    places: Numbers
    lows: Numbers
    highs: Numbers
    upright: bool
    look: PointLook | LineLook
    word: str = ""
    name: str = ""


class Rule(NamedTuple):
    """A straight line through the whole picture: at a value of an axis, or where both axes have the same value."""

    axis: Literal["x", "y", "both"]
    look: LineLook
    word: str = ""
    value: float = math.nan
    name: str = ""


class Annotation(NamedTuple):
    """A text in place of a point, at the left end of a row."""

    row: int
    text: str


class Tips(NamedTuple):
    """What places of a page say, in the order of the arrow keys; ``about`` says what they are.

    A place is a circle, which may show a mark, or as high as the picture up to its right end.
    """

    x: Numbers
    y: Numbers
    texts: Sequence[str]
    about: str = "the arrow keys move along the line"
    name: str = ""
    rights: Numbers | None = None
    reach: int = 8
    has_mark: bool = True


Mark: TypeAlias = Polyline | Band | Bars | Points | Intervals | Rule | Annotation | Tips


class Figure(NamedTuple):
    """A picture.

    Attributes
    ----------
    title : str
        What it shows, for readers who cannot see it.
    x, y : Axis
        The axes. Rows have names on the vertical one.
    marks : sequence of Mark
        What is drawn, in the order of the legend.
    square : bool
        Whether the axes have the same length.
    below : Figure or None
        A picture over the same horizontal axis, below this one.
    caption : str
        Below the picture.
    name : str
        The name of the part of a page.
    label : str
        A short title above the picture, where several stand side by side.
    reading : sequence of str
        How to read the picture, folded.
    """

    title: str
    x: Axis
    y: Axis
    marks: Sequence[Mark]
    square: bool = False
    below: Figure | None = None
    caption: str = ""
    name: str = ""
    label: str = ""
    reading: Sequence[str] = ()

    @property
    def curves(self) -> list[str]:
        """The names of the curves that can be shown instead of the bins."""
        return [mark.name for mark in self.marks if isinstance(mark, Polyline) and mark.name]
