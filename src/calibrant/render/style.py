"""The common parts of terminal texts: the style of the terminal, numbers, sentences."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, Literal, TypedDict

from calibrant.runtime.dataclass import dataclass

#: The JSON form of a report or a comparison, and of a part: a finding, the columns of a panel.
Summary = Mapping[str, Any]
Facts = Mapping[str, Any]


class Floor(TypedDict):
    """The JSON form of a noise floor."""

    mean: float
    upper: float


class Estimate(TypedDict):
    """The JSON form of an estimate; numbers that are not finite are None."""

    value: float | None
    low: float | None
    high: float | None
    error_bound: float | None
    floor: Floor | None
    p_value: float | None
    method: str
    details: Facts


class Group(TypedDict):
    """The JSON form of a group with its report."""

    name: str
    report: Summary
    ece: Estimate
    mean_gap: Estimate
    p_value: float | None
    adjusted_p_value: float | None
    called_out: bool
    flag: str


class Pair(TypedDict):
    """The JSON form of a pair of models, with the difference in each measure."""

    first: str
    second: str
    decision: Any
    estimates: Mapping[str, Facts]


_NARROW = 20  # columns that a text takes in any case

_P_VALUE: Final = re.compile(r"\b(p) ([=<≤]) ")

#: The characters that change the direction of text: Unicode's property Bidi_Control.
_DIRECTIONS: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

#: What a sentence means for its reader; without a tone it explains.
Tone = Literal["good", "bad", "caution", ""]
_COLOURS: Final = {"good": 32, "bad": 31, "caution": 33}  # green, red, yellow

#: The evaluated event of each notion.
EVENTS: Final = {
    "positive": "outcome = 1",
    "top-label": "the predicted class is correct",
    "classwise": "each class separately",
    "multilabel": "each label separately",
}


@dataclass(frozen=True)
class Style:
    """What the terminal can show: colours, Unicode, and the width of a line."""

    colour: bool = False
    unicode: bool = True
    width: int = 80

    def bold(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self.colour else text

    def toned(self, text: str, tone: Tone) -> str:
        """Return a text in bold and in the colour of its tone."""
        return f"\x1b[1;{_COLOURS[tone]}m{text}\x1b[0m" if self.colour and tone else text

    def faint(self, text: str) -> str:
        return f"\x1b[2m{text}\x1b[0m" if self.colour else text

    def plain(self, text: str) -> str:
        """Return the text in characters that the terminal can show."""
        return text if self.unicode else text.translate(_ASCII)


#: The characters that `Style.unicode` needs.
GLYPHS: Final = "█░┃·–…≤"

_ASCII = str.maketrans({"█": "#", "░": "-", "┃": "|", "·": "-", "–": "-", "…": "...", "≤": "<="})


def event_of(summary: Summary) -> str:
    """Return the evaluated event: by its column, where the source names it."""
    named = summary.get("source", {}).get("event")
    return short(named) if named else EVENTS[summary["notion"]]


def evaluated_event(summary: Summary) -> str:
    """Return the evaluated event for the first line; for two classes also the event that is not evaluated.

    scikit-learn's scorers and displays evaluate that one, so that one model has two calibration errors.
    """
    event = event_of(summary)
    if summary["notion"] != "top-label" or summary["n_classes"] != 2:
        return f"event: {event}"
    name = ((summary.get("classwise") or {}).get("names") or ["0", "1"])[1]
    return f"event: {event}; to evaluate class {short(name)}, pass its column alone"


def is_clustered(summary: Summary) -> bool:
    """Return whether inference is for rows in clusters: those of one row each are independent rows."""
    clusters = summary["clusters"]
    return clusters is not None and clusters["clusters"] != summary["n"]


def head(line: str, title: str, used: str, style: Style) -> list[str]:
    """Return the first lines: title, number of rows, used columns."""
    lines = wrapped(line, style, later="  ")
    if not title:
        return [style.bold(part) for part in lines]
    columns = [style.faint(part) for part in wrapped(used, style, later="  ")]
    return [style.bold(shown(title, "?")), *lines, *columns]


def paragraphs(sentences: Iterable[str], style: Style) -> list[str]:
    """Return sentences as wrapped lines; no line begins with a percent sign."""
    return [line for sentence in sentences for line in wrapped(sentence, style, first="  ", later="    ")]


def wrapped(sentence: str, style: Style, *, first: str = "", later: str = "") -> list[str]:
    """Return a sentence as lines of the style's width, the first and the later ones behind their indents.

    A number stays on one line with its percent sign, and a p-value with its "p =". Names of options, files and models
    stay whole, so no line ends at a hyphen.
    """
    joined = shown(sentence, "?").replace(" %", "\N{NO-BREAK SPACE}%")
    joined = _P_VALUE.sub("\\1\N{NO-BREAK SPACE}\\2\N{NO-BREAK SPACE}", joined)
    width = max(style.width, _NARROW) - 2
    lines = textwrap.wrap(joined, width, initial_indent=first, subsequent_indent=later, break_on_hyphens=False)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def aligned(columns: Iterable[tuple[str, str, Sequence[str]]]) -> list[str]:
    """Return a heading and lines of columns; each column is a format, a heading and texts."""
    formats, headings, texts = zip(*columns, strict=True)
    rows = [headings, *zip(*texts, strict=True)]
    return ["".join(map(str.format, formats, row)).rstrip() for row in rows]


def lead(lines: list[str], tone: Tone, style: Style) -> list[str]:
    """Return a sentence's lines with what leads to its first colon, or its first line, in the colour of its tone."""
    text = lines[0].lstrip()
    claim, colon, rest = text.partition(": ")
    return [f"{lines[0][: -len(text)]}{style.toned(claim + colon.rstrip(), tone)}{' ' * bool(colon)}{rest}", *lines[1:]]


@cache
def version() -> str:
    """Return the version of calibrant."""
    from importlib.metadata import version

    return version("calibrant")


def number(value: float | None) -> str:
    """Format a value; None means infinity."""
    return "inf" if value is None else f"{value:z.4f}"


def percent(share: float) -> str:
    """Return a share in percent."""
    return f"{100 * share:g} %"


def signed(value: float) -> str:
    """Return a difference with its sign."""
    return f"{value:+z.4f}"


def shown(text: str, instead: str) -> str:
    """Return a text without invisible control: control characters, surrogates, changes of direction.

    Every space becomes an ordinary one, except the no-break space. Joiners within words stay.
    """
    if text.isprintable():
        return text
    return "".join(_shown(c, instead) for c in text)


def _shown(c: str, instead: str) -> str:
    if c.isprintable() or c == "\N{NO-BREAK SPACE}":
        return c
    if c.isspace():
        return " "
    acts = unicodedata.category(c) in ("Cc", "Cs", "Cn") or c in _DIRECTIONS
    return instead if acts else c


def short(name: str, limit: int = 40) -> str:
    """Return a name without control characters, cut to ``limit`` characters."""
    printable = shown(name, "?")
    return printable if len(printable) <= limit else printable[: limit - 1] + "…"


@cache
def distinct(names: tuple[str, ...], limit: int = 40) -> Mapping[str, str]:
    """Return names cut to ``limit`` characters so that they stay distinct: at the end, or in the middle.

    In the middle, the end that all names share is left out if need be. Names that are still alike get a number.
    """
    end = len(_common_end(names))

    def middle(name: str) -> str:
        printable = short(name, len(name) + 1)
        cut = limit // 3
        return printable if len(printable) <= limit else f"{printable[:cut]}…{printable[cut + 1 - limit :]}"

    ways = [
        [short(name, limit) for name in names],
        [middle(name) for name in names],
        [middle(name[: len(name) - end]) for name in names],
        [f"{short(name, limit - 5)} {number}" for number, name in enumerate(names, 1)],
    ]
    cuts = next((cut for cut in ways if len(set(cut)) == len(cut)), ways[-1])
    return dict(zip(names, cuts, strict=True))


def _common_end(names: Sequence[str]) -> str:
    """Return the end that all names share."""
    length = 0
    while len({name[-length - 1 :] for name in names}) == 1 and length < min(map(len, names)):
        length += 1
    return names[0][len(names[0]) - length :]
