"""Documents as one HTML page that needs no other file, and as a cell of a notebook.

The markup is in `templates`; every text passes through jinja2's escaping.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from html import escape
from typing import Any, Final, NamedTuple

from calibrant.errors import MissingDependencyError, is_missing
from calibrant.render import svg
from calibrant.render.blocks import (
    Block,
    Details,
    Document,
    Figures,
    Heading,
    Notes,
    Table,
    Tiles,
    sections,
    tables_of,
)
from calibrant.render.figure import Figure
from calibrant.render.words import shown, version

_TABLE_ROW: Final = 30  # height of a table's row, in about the units of a picture
_CAPTION: Final = 90  # height of a legend and a caption
_UNEVEN: Final = 1.5  # times the height of a picture that tables next to it may have
_FEW: Final = 12  # small diagrams in a notebook's cell
_FONT: Final = 14  # pixels of a letter in a notebook's cell
#: What asks for the width of the window in the style of a page, and for the width of a cell in that of a cell.
_QUERIES: Final = {
    "@media print, (min-width: 62rem)": "@container (min-width: 46rem)",
    "@media (max-width: 40rem)": "@container (max-width: 36rem)",
}
#: Where a notebook says whether it is light: JupyterLab and nbconvert, the classic notebook, Visual Studio Code.
_LIGHT_HOSTS: Final = '[data-jp-theme-light="true"], #notebook, .vscode-light'
_DARK_HOSTS: Final = '[data-jp-theme-light="false"], .vscode-dark'
_HARD_SPACE: Final = "\N{NO-BREAK SPACE}"  # keeps a number and its sign on one line

#: A text without characters that a page cannot hold, such as half of a surrogate pair.
_clean = partial(shown, instead="\N{REPLACEMENT CHARACTER}")


def to_page(document: Document, *, title: str = "", used: str = "", date: str = "") -> str:
    """Return the page of a document.

    ``title`` is its title, ``used`` the columns that were read, ``date`` a date to show under the title. Without a date
    the same document gives the same bytes.
    """
    return _rendered("page.html", document, title=title, used=used, date=date)


def to_cell(make: Callable[[], Document], text: Callable[[], str]) -> str:
    """Return a document as a part of a page for a notebook's cell, without scripts and with few small diagrams.

    Without jinja2 it is ``text``, the text for the terminal.
    """
    try:
        _environment()
    except MissingDependencyError:
        return f"<pre>{escape(text())}</pre>"
    document = make()
    shown, rest = _first_of(document)
    return _rendered("fragment.html", replace(document, blocks=_few(rest)), shown=shown, is_cell=True)


def _first_of(document: Document) -> tuple[list[Block], Sequence[Block]]:
    """Return what a cell shows unfolded below the verdict, and the other blocks.

    A document without key numbers shows its first picture or table.
    """
    blocks = list(document.blocks)
    place = next((k for k, block in enumerate(blocks) if isinstance(block, Figure | Figures | Table)), None)
    if document.first is not None or place is None:
        return [], blocks
    shown = [blocks.pop(place)]
    if place > 0 and isinstance(blocks[place - 1], Heading):
        is_empty = place == len(blocks) or isinstance(blocks[place], Heading)
        shown.insert(0, blocks.pop(place - 1) if is_empty else blocks[place - 1])
    return shown, blocks


def _few(blocks: Sequence[Block]) -> list[Block]:
    """Return blocks with the first small diagrams alone."""
    kept: list[Block] = []
    for block in blocks:
        more = 0
        if isinstance(block, Details):
            block = block._replace(blocks=_few(block.blocks))
        elif isinstance(block, Tiles):
            more = len(block.tiles) - _FEW
            block = block._replace(tiles=block.tiles[:_FEW], bins=None)
        kept.append(block)
        if more > 0:
            kept.append(Notes([f"The HTML page has {more:,} more diagrams."]))
    return kept


def _rendered(
    template: str,
    document: Document,
    *,
    title: str = "",
    used: str = "",
    date: str = "",
    shown: Sequence[Block] = (),
    is_cell: bool = False,
) -> str:
    environment, name = _environment(), _clean(title) or document.title
    running = {
        "left": _css_string(name),
        "right": _css_string(" · ".join(filter(None, [_clean(date), f"calibrant {version()}"]))),
    }
    context = {
        "title": name,
        "used": _clean(used),
        "date": _clean(date),
        "uid": f"c{_digest(document)[:8]}",
        "version": version(),
        "running": running,
        "document": document,
        "headline": _unbroken(document.headline),
        "plain": _unbroken(document.plain),
        "verdict": [_unbroken(sentence) for sentence in document.sentences],
        "facts": [(name, text) for name, text in document.facts if text],
        "sections": [_section(blocks) for blocks in sections(document.blocks)],
        "shown": shown,
        "folded": _folded(document) if is_cell else "",
    }
    return str(environment.get_template(template).render(context))


def _folded(document: Document) -> str:
    """Return the summary of what a cell folds: the names of its sections."""
    names = [block.text for block in document.blocks if isinstance(block, Heading) and block.level == 2]
    return f"More: {', '.join(dict.fromkeys([*names, 'How it was computed']))}"


class _Section(NamedTuple):
    """A section: its heading, what stands in it, and the tables whose numbers can be downloaded."""

    heading: Heading | None
    parts: Sequence[Block | _Pair]
    tables: Sequence[Table]


class _Pair(NamedTuple):
    """A picture with the tables next to it."""

    figure: Figure
    beside: Sequence[Block]

    @property
    def is_even(self) -> bool:
        """Whether the picture is about as high as the tables, so that the page next to them is not empty."""
        rows = sum(len(table.places) + 1 for table in self.beside if isinstance(table, Table))
        return _TABLE_ROW * rows <= _UNEVEN * (svg.height_of(self.figure) + _CAPTION)


def _section(blocks: Sequence[Block]) -> _Section:
    heading = blocks[0] if isinstance(blocks[0], Heading) else None
    parts: list[Block | _Pair] = []
    for block in blocks[heading is not None :]:
        before = parts[-1] if parts else None
        own = block.blocks if isinstance(block, Details) else [block]
        is_table = all(isinstance(each, Table) for each in own)  # also folded
        pair = before._replace(beside=[*before.beside, block]) if isinstance(before, _Pair) else None
        if isinstance(before, Figure):
            pair = _Pair(before, [block])
        if is_table and pair is not None and pair.is_even:
            parts[-1] = pair
        else:
            parts.append(block)
    files = {table.name: table for table in tables_of(blocks)}  # a table in two parts is one
    return _Section(heading, parts, list(files.values()))


def _digest(document: Document) -> str:
    """Return a digest of all words and numbers: two documents of one notebook have names of their own."""
    words = [document.headline, *document.sentences]
    words += [text for table in tables_of(document.blocks) for column in table.columns for text in column.texts]
    return hashlib.sha256("\n".join(words).encode("utf-8", "backslashreplace")).hexdigest()


def _unbroken(sentence: str) -> str:
    """Return a sentence with hard spaces between numbers and their signs."""
    return re.sub(r" (?=%)|(?<=[=<≤]) | (?=[=<≤])", _HARD_SPACE, sentence)


def _css_string(text: str) -> Any:
    """Return a text as a string of CSS, in which every unusual character is escaped."""
    from markupsafe import Markup

    return Markup('"' + re.sub(r"[^A-Za-z0-9 ._-]", lambda match: f"\\{ord(match[0]):06x} ", text) + '"')


@cache
def _environment() -> Any:
    try:
        import jinja2
    except ModuleNotFoundError as error:
        absent = next((name for name in ("jinja2", "markupsafe") if is_missing(error, name)), None)
        if absent is None:
            raise
        raise MissingDependencyError(absent, "to write a page", "report") from None
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("calibrant.render", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: _clean(value) if type(value) is str else value,
    )
    for name, write in (("picture", svg.picture), ("small", svg.small_picture), ("legend", svg.legend)):
        environment.filters[name] = partial(_markup, write)
    environment.filters["flush"] = _flush
    environment.filters["scoped"] = _scoped
    environment.filters["kind"] = lambda block: type(block).__name__.lstrip("_").lower()
    return environment


def _markup(write: Callable[..., str], *args: Any) -> Any:
    """Return what a function writes as markup: it has escaped every text."""
    from markupsafe import Markup

    return Markup(write(*args))


def _scoped(style: Any) -> Any:
    """Return the style for a cell of a notebook, where it must win against the style of the host, and not leak.

    Each selector begins with the class of the cell three times, which is more specific than the rules of hosts. Sizes
    do not depend on the font of the host, and columns on the width of the cell, not of the window.
    """
    from markupsafe import Markup

    for queried, of_cell in _QUERIES.items():
        style = style.replace(queried, of_cell)
    style = f"{style}{_host_colours(style)}"
    style = re.sub(r"([\d.]+)rem\b", lambda match: f"{_FONT * float(match[1]):g}px", style)
    return Markup(re.sub(r"\.calibrant(?![\w-])", ".calibrant" * 3, _flush(style)))


def _host_colours(style: str) -> str:
    """Return the rules that give a cell the colours of its host, where the host says them, and not of the system."""
    light, dark = (re.findall(r"--bg: .*?(?=\n  background|\n  \})", style, re.DOTALL)[i] for i in range(2))
    rules = "".join(
        f":is({hosts}) .calibrant {{ color-scheme: {scheme}; {colours} }}\n"
        for scheme, hosts, colours in (("light", _LIGHT_HOSTS, light), ("dark", _DARK_HOSTS, dark))
    )
    return f"@media screen {{\n{rules}}}\n"


def _flush(code: Any) -> Any:
    """Return a script or a style without the indents of its lines, which are a twentieth of it."""
    from markupsafe import Markup

    return Markup(re.sub(r"\n +", "\n", code))
