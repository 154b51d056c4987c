"""Documents as lines of text for a terminal of any width."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Final

from calibrant.render.blocks import Bar, Block, Column, Document, Heading, Notes, Sentence, Table, Tone, sections
from calibrant.render.words import distinct, shown
from calibrant.runtime.dataclass import dataclass

_NARROW: Final = 20  # columns that a text takes in any case
_NAME: Final = 40  # characters of a name
_LEAST_NAME: Final = 14
_LEAST_BAR, _MOST_BAR = 10, 40
_P_VALUE: Final = re.compile(r"\b([pE]) ([=<≤]) ")
_COLOURS: Final = {"good": 32, "bad": 31, "caution": 33}  # green, red, yellow

#: The characters that `Style.unicode` needs.
GLYPHS: Final = "█░┃·–…≤"

_ASCII = str.maketrans({"█": "#", "░": "-", "┃": "|", "·": "-", "–": "-", "…": "...", "≤": "<="})


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
    parts = [_head(document.headline, title, used, style), _lines(document.verdict, style)]
    parts += [_lines(section, style) for section in sections(document.blocks)]
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
    """Return a table in columns as far as they fit: names become shorter, then the spare columns are left out."""
    rows = [list(map(style.plain, table.cells(place))) for place in table.places]
    marks = ["*" * table.is_marked(place) for place in table.places]
    heads = [column.brief or column.heading for column in table.columns]
    kept = list(range(len(heads)))
    widths = [max(len(heads[i]), *(len(row[i]) for row in rows if i < len(row)), 1) for i in kept]
    least = min(widths[0], max(_LEAST_NAME, len(heads[0])))
    marked = 2 * any(marks)
    # What is left out first: spare columns, the most spare one first; then the last columns.
    for i in sorted(kept[2:], key=lambda i: (table.columns[i].spare, i), reverse=True):
        if sum(widths[k] + 2 for k in kept[1:]) + marked + 2 + least <= style.width:
            break
        kept.remove(i)
    others = sum(widths[k] + 2 for k in kept[1:]) + marked + 2
    widths[0] = max(min(widths[0], _NAME, style.width - others), least)
    firsts = tuple(row[0] for row in rows)
    dots = 2 * (not style.unicode and max(map(len, firsts), default=0) > widths[0])  # "…" becomes "..."
    names = {name: style.plain(cut) for name, cut in distinct(firsts, widths[0] - dots).items()}
    lines = []
    for head in _heads([heads[i] for i in kept]):
        lines.append(style.faint(_line(head, [table.columns[i] for i in kept], [widths[i] for i in kept]).rstrip()))
    room = style.width - others - widths[0] - 2
    bar = min(room, _MOST_BAR) if table.bars and room >= _LEAST_BAR else 0
    if bar and table.scale:
        lines[-1] = f"{lines[-1]:<{style.width - room}}{style.faint(table.scale[0] + ' ' * (bar - 2) + table.scale[1])}"
    for place, row, mark in zip(table.places, rows, marks, strict=True):
        cells = [names[row[0]], *(row[i] if i < len(row) and place not in table.spanned else "" for i in kept[1:])]
        if place in table.spanned:
            cells[1 : table.spanned[place][0]] = [row[i] for i in kept[1:] if i < table.spanned[place][0]]
        line = _line(cells, [table.columns[i] for i in kept], [widths[i] for i in kept])
        line += f" {mark:{marked - 1}}" if marked else ""
        lines.append((f"{line}  {_bar(table.bars[place], bar)}" if bar else line).rstrip())
    return lines


def _heads(heads: Sequence[str]) -> list[list[str]]:
    """Return one line of headings, or two if neighbours share the words before ": "."""
    parts = [head.partition(": ") for head in heads]
    shared = [
        bool(colon) and any(parts[j][0] == above and parts[j][1] for j in (i - 1, i + 1) if 0 <= j < len(parts))
        for i, (above, colon, _) in enumerate(parts)
    ]
    if not any(shared):
        return [list(heads)]
    upper = [
        above if is_shared and not (i and shared[i - 1] and parts[i - 1][0] == above) else ""
        for i, ((above, _, _), is_shared) in enumerate(zip(parts, shared, strict=True))
    ]
    lower = [below if is_shared else head for head, (_, _, below), is_shared in zip(heads, parts, shared, strict=True)]
    return [upper, lower]


def _line(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    """Return the cells of a line, words on the left."""
    return "".join(
        f"  {cell:<{width}}" if not i or column.words else f"  {cell:>{width}}"
        for i, (cell, column, width) in enumerate(zip(cells, columns, widths, strict=True))
    )


def _bar(parts: Bar, size: int) -> str:
    """Return a bar of so many characters."""
    cells = [" "] * size
    for start, end, character in parts:
        first = min(round(start * size), size - 1)
        last = max(round(end * size), first + (start == end))
        cells[first:last] = character * (min(last, size) - first)
    return "".join(cells).rstrip()
