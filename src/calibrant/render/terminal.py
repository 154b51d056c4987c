"""Documents as lines of text for a terminal of any width."""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from calibrant.render.blocks import (
    Bar,
    Block,
    Column,
    Document,
    Heading,
    Notes,
    Passage,
    Sentence,
    Table,
    Tone,
    sections,
)
from calibrant.render.words import distinct, shown
from calibrant.runtime.dataclass import dataclass

_NARROW: Final = 20  # columns that a text takes in any case
_NAME: Final = 40  # characters of a name
_USUAL_NAME, _LEAST_NAME = 22, 14  # of names before spare columns are left out, and after
_LEAST_BAR, _MOST_BAR = 10, 40
_P_VALUE: Final = re.compile(r"\b([pE]) ([=<≤]) ")
_COLOURS: Final = {"good": 32, "bad": 31, "caution": 33}  # green, red, yellow

#: The characters that `Style.unicode` needs.
GLYPHS: Final = "█░┃·–…≤≥"

_ASCII = str.maketrans({"█": "#", "░": "-", "┃": "|", "·": "-", "–": "-", "…": "...", "≤": "<=", "≥": ">="})


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


def to_terminal(document: Document, *, title: str = "", used: str = "", style: Style | None = None) -> str:
    """Return a document as lines of text, as wide as the style; long names may exceed it.

    ``title`` and ``used`` are the name of what was read and its columns.
    """
    style = style or Style()
    head = style.plain("\n".join(_head(document.headline, title, used, style)))
    return "\n\n".join([head, to_lines(document.verdict, style), to_lines(document.blocks, style)])


def to_lines(blocks: Sequence[Block], style: Style) -> str:
    """Return blocks as lines of text, with an empty line between sections."""
    parts = [_lines(section, style) for section in sections(blocks)]
    return style.plain("\n\n".join("\n".join(part) for part in parts if part))


def _head(line: str, title: str, used: str, style: Style) -> list[str]:
    """Return the first lines: title, number of rows, used columns."""
    lines = wrapped(line, style, later="  ")
    if not title:
        return [style.bold(part) for part in lines]
    columns = [style.faint(part) for part in wrapped(used, style, later="  ")]
    return [style.bold(shown(title, "?")), *lines, *columns]


def _lines(blocks: Sequence[Block], style: Style) -> list[str]:
    """Return the lines of a section. Pictures and what is folded are left out."""
    lines: list[str] = []
    for i, block in enumerate(blocks):
        if isinstance(block, Heading):
            lines += [style.bold(line) for line in wrapped(block.text, style)]
        elif isinstance(block, Sentence):
            lines += _lead(paragraphs([block.text], style), block.tone, style)
        elif isinstance(block, Passage):
            lines += paragraphs([block.text], style)
        elif isinstance(block, Notes):
            lines += [style.faint(line) for line in paragraphs(block.sentences, style)]
        elif isinstance(block, Table):
            separate = i > 0 and isinstance(blocks[i - 1], (Table, Notes))
            lines += [*([""] if separate else []), *_table(block, style)]
    return lines


# ---------------------------------------------------------------- sentences


def paragraphs(sentences: Iterable[str], style: Style) -> list[str]:
    """Return sentences as wrapped lines; no line begins with a percent sign."""
    return [line for sentence in sentences for line in wrapped(sentence, style, first="  ", later="    ")]


def wrapped(sentence: str, style: Style, *, first: str = "", later: str = "") -> list[str]:
    """Return a sentence as lines of the style's width, the first and the later ones behind their indents.

    A number stays on one line with its percent sign, and a p-value with its "p =", evidence with its "E =". Names of
    options, files and models stay whole, so no line ends at a hyphen.
    """
    joined = shown(sentence, "?").replace(" %", "\N{NO-BREAK SPACE}%")
    joined = _P_VALUE.sub("\\1\N{NO-BREAK SPACE}\\2\N{NO-BREAK SPACE}", joined)
    width = max(style.width, _NARROW) - 2
    lines = textwrap.wrap(joined, width, initial_indent=first, subsequent_indent=later, break_on_hyphens=False)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def _lead(lines: list[str], tone: Tone, style: Style) -> list[str]:
    """Return a sentence's lines with what leads to its first colon, or its first line, in the colour of its tone."""
    text = lines[0].lstrip()
    claim, colon, rest = text.partition(": ")
    return [f"{lines[0][: -len(text)]}{style.toned(claim + colon.rstrip(), tone)}{' ' * bool(colon)}{rest}", *lines[1:]]


# ---------------------------------------------------------------- tables


def _table(table: Table, style: Style) -> list[str]:
    """Return a table with as many columns as fit, with its bars in what is left of the width.

    Columns that do not fit follow below, unless they are spare.
    """
    rows = [list(map(style.plain, _cells(table, place))) for place in table.places]
    marks = ["*" * table.is_marked(place) for place in table.places]
    marked = 2 * any(marks)
    kept, widths, gap = _layout(table.columns, rows, style.width - marked)
    columns = [table.columns[i] for i in kept]
    heads = [_heads(table.columns)[i] for i in kept]
    names = _names_in([row[0] for row in rows], widths[0], style)
    head = [_upper(heads, widths, gap), _line([below for _, below in heads], columns, widths, gap).rstrip()]
    lines = [_line([names[row[0]], *(row[i] for i in kept[1:])], columns, widths, gap) for row in rows]
    if marked:
        lines = list(map("{} {:1}".format, lines, marks))
    used = 2 + sum(widths) + gap * (len(widths) - 1) + marked + 2
    legend = []
    if table.bars and style.width - used >= _LEAST_BAR:
        bar = min(style.width - used, _MOST_BAR)
        lines = [f"{line}  {_bar(table.bars[i], bar)}" for line, i in zip(lines, table.places, strict=True)]
        legend = paragraphs([table.legend], style)
        if table.scale:
            head[-1] = f"{head[-1]:<{used}}{table.scale[0]}{' ' * (bar - 2)}{table.scale[1]}"
    lines = [*map(style.faint, filter(None, head)), *map(str.rstrip, lines), *map(style.faint, legend)]
    if rest := _left_over(table, rows, kept, style.width):
        lines += _table(replace(table, columns=[table.columns[0], *rest], bars=(), spanned={}), style)
    return lines


def _names_in(names: Sequence[str], width: int, style: Style) -> dict[str, str]:
    """Return each name of a row in a width; cut names stay distinct."""
    firsts = tuple(dict.fromkeys(names))
    dots = 2 * (not style.unicode and max(map(len, firsts), default=0) > width)  # "…" becomes "..."
    return {name: style.plain(cut) for name, cut in distinct(firsts, width - dots).items()}


def _left_over(table: Table, rows: Sequence[Sequence[str]], kept: Sequence[int], width: int) -> list[Column]:
    """Return the columns that follow below: those that do not fit next to the others, and fit next to a name."""
    rest = [i for i, column in enumerate(table.columns) if i not in kept and not column.spare]
    return [table.columns[i] for i in rest if _widest(rows, i) + _LEAST_NAME + 4 <= width]


def _widest(rows: Sequence[Sequence[str]], i: int) -> int:
    return max((len(row[i]) for row in rows), default=0)


def _cells(table: Table, place: int) -> list[str]:
    """Return the texts of a row, without what spans several columns."""
    cells = table.cells(place)
    cells = cells[: table.spanned[place][0]] if place in table.spanned else cells
    return [*cells, *[""] * (len(table.columns) - len(cells))]


def _layout(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> tuple[list[int], list[int], int]:
    """Return the columns that fit, their widths, and the gap between them.

    If not all fit, they move together, then names become shorter, then columns are left out: the most spare ones
    first, at last those on the right.
    """
    heads = _heads(columns)
    kept = list(range(len(columns)))
    order = sorted(kept[2:], key=lambda i: (columns[i].spare, i), reverse=True)
    widths = [max(1, len(below), _widest(rows, i)) for i, (_, below) in enumerate(heads)]
    name, shortest = min(widths[0], _NAME), min(widths[0], max(_LEAST_NAME, len(heads[0][1])))
    while True:
        after = [widths[i] for i in kept[1:]]
        others = 2 + sum(after) + 2 * len(after)
        least = min(name, _USUAL_NAME) if any(columns[i].spare for i in order[:1]) else shortest
        together = others - len(kept) + 1 + name <= width
        if together or not order or others + least <= width:
            gap = 1 if together and others + name > width else 2
            first = name if together else max(min(name, width - others), shortest)
            return kept, [first, *after], gap
        above = heads[order[0]][0]  # columns under one heading go together
        left_out = [i for i in order if heads[i][0] == above] if above else order[:1]
        kept, order = ([i for i in places if i not in left_out] for places in (kept, order))


def _heads(columns: Sequence[Column]) -> list[tuple[str, str]]:
    """Return the heading of each column in two lines; the upper one is what neighbours share before ": "."""
    heads = [column.brief or column.heading for column in columns]
    aboves = ["", *(head.partition(": ")[0] if ": " in head else "" for head in heads), ""]
    shared = [bool(above) and above in (aboves[i - 1], aboves[i + 1]) for i, above in enumerate(aboves[1:-1], 1)]
    return [
        (head.partition(": ")[0], head.partition(": ")[2]) if is_shared else ("", head)
        for head, is_shared in zip(heads, shared, strict=True)
    ]


def _upper(heads: Sequence[tuple[str, str]], widths: Sequence[int], gap: int) -> str:
    """Return the line above the headings: what columns share, at their right end."""
    line = " " * (2 - gap)
    for above, run in itertools.groupby(range(len(heads)), key=lambda i: heads[i][0]):
        line += f"{above:>{sum(widths[i] + gap for i in run)}}"
    return line.rstrip()


def _line(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int], gap: int) -> str:
    """Return the cells of a line, words on the left."""
    aligned = [
        f"{cell:<{width}}" if not i or column.words else f"{cell:>{width}}"
        for i, (cell, column, width) in enumerate(zip(cells, columns, widths, strict=True))
    ]
    return "  " + (" " * gap).join(aligned)


def _bar(parts: Bar, size: int) -> str:
    """Return a bar of so many characters."""
    cells = [" "] * size
    for start, end, character in parts:
        first = min(round(start * size), size - 1)
        last = max(round(end * size), first + (start == end))
        cells[first:last] = character * (min(last, size) - first)
    return "".join(cells).rstrip()
