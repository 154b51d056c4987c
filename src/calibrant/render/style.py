"""The common parts of terminal texts: the style of the terminal, numbers, sentences."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

Summary = Mapping[str, Any]

_NARROW = 20  # columns that a text takes in any case
_BEFORE_BAR = 52  # characters of a line of the diagram before its bar

#: The characters that change the direction of text: Unicode's property Bidi_Control.
_DIRECTIONS: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

#: The judged event of each notion.
EVENTS: Final = {
    "positive": "outcome = 1",
    "top-label": "whether the predicted class is right",
    "classwise": "each class separately",
    "multilabel": "each label separately",
}


@dataclass(frozen=True, slots=True)
class Style:
    """What the terminal can show: colours, Unicode, and the width of a line."""

    colour: bool = False
    unicode: bool = True
    width: int = 80

    @property
    def bar(self) -> int:
        """Return the characters of a bar from 0 to 1."""
        return min(max(self.width - _BEFORE_BAR, 20), 40)

    def bold(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self.colour else text

    def faint(self, text: str) -> str:
        return f"\x1b[2m{text}\x1b[0m" if self.colour else text

    def plain(self, text: str) -> str:
        """Return the text in characters that the terminal can show."""
        return text if self.unicode else text.translate(_ASCII)


#: The characters that `Style.unicode` needs.
GLYPHS: Final = "█░┃·–…≤"

_ASCII = str.maketrans({"█": "#", "░": "-", "┃": "|", "·": "-", "–": "-", "…": "...", "≤": "<="})


def head(line: str, title: str, used: str, style: Style) -> list[str]:
    """Return the first lines: title, number of rows, used columns."""
    if not title:
        return [style.bold(line)]
    return [style.bold(shown(title, "?")), line, *([style.faint(shown(used, "?"))] if used else [])]


def paragraphs(sentences: Iterable[str], style: Style) -> list[str]:
    """Return sentences as wrapped lines; no line begins with a per cent sign."""
    lines = []
    for sentence in sentences:
        joined = shown(sentence, "?").replace(" %", "\N{NO-BREAK SPACE}%")
        lines += textwrap.wrap(joined, max(style.width, _NARROW) - 2, initial_indent="  ", subsequent_indent="    ")
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def number(value: float | None) -> str:
    """Format a value; None means infinity."""
    return "inf" if value is None else f"{value:z.4f}"


def percent(share: float) -> str:
    """Return a share in per cent."""
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
