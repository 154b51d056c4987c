"""Results as documents: blocks of sentences, tables and figures, which the writers show without knowing the result.

A result makes its document once, from its own values (`document_of` in its package). `terminal`, `page` and `markdown`
write documents. Nothing here estimates anything.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from urllib.parse import quote

from calibrant.render.figure import Figure
from calibrant.runtime.dataclass import dataclass

#: What a sentence means for its reader; without a tone it explains.
Tone = Literal["good", "bad", "caution", ""]

#: How a formula may begin, in wide characters too. Spreadsheets skip a tab or an end of line before it.
_BEFORE_FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


@dataclass(frozen=True, kw_only=True)
class Source:
    """What the command knows about the data beyond the result.

    Attributes
    ----------
    event : str
        The evaluated event by its column, such as "churned = 1".
    pooled : str
        A sentence on groups that look like models.
    files, where, columns, reading, timezone, protocol, options : str
        The names of the files, the condition, the columns that were read, and how they were read.
    window : str
        The file with the rows since the onset of a drift.
    """

    event: str = ""
    pooled: str = ""
    files: str = ""
    where: str = ""
    columns: str = ""
    reading: str = ""
    timezone: str = ""
    protocol: str = ""
    options: str = ""
    window: str = ""

    def facts(self) -> list[tuple[str, str]]:
        """Return what was read, as names and texts."""
        return [
            ("files", self.files),
            ("columns", self.columns),
            ("read with", self.reading),
            ("condition", self.where),
            ("time zone", self.timezone),
            ("protocol", self.protocol),
            ("options", self.options),
        ]


# ---------------------------------------------------------------- the blocks


class Sentence(NamedTuple):
    """A sentence with its tone."""

    text: str
    tone: Tone = ""


class Passage(NamedTuple):
    """A paragraph for a paper, which readers of a page can copy."""

    text: str


class Notes(NamedTuple):
    """Remarks on what is above them, in small print."""

    sentences: Sequence[str]


class Heading(NamedTuple):
    """The beginning of a section, up to the next heading; ``name`` is the name of the part of a page.

    A section is searchable if its page has a field to find rows and tiles by name. A heading of level 3 is below one of
    level 2.
    """

    text: str
    name: str = ""
    searchable: bool = False
    level: int = 2


class Column(NamedTuple):
    """A column of a table.

    Attributes
    ----------
    heading : str
        Above the column. Headings with the same words before ": " share them.
    texts : sequence of str
        One for each row.
    exact : mapping
        The exact values of the file by their names; NaN and None are missing.
    words : bool
        Whether it holds words, which are aligned to the left.
    spare : int
        Narrow terminals leave out the columns with the largest numbers first; 0 stays. Phones leave out those above 0.
    brief : str
        A shorter heading for terminals.
    """

    heading: str
    texts: Sequence[str]
    exact: Mapping[str, Any] = {}
    words: bool = False
    spare: int = 0
    brief: str = ""

    @classmethod
    def of(
        cls, heading: str, name: str, values: Iterable[Any], write: Callable[[Any], str] = str, **look: Any
    ) -> Column:
        """Return a column of values that are written one by one."""
        values = list(values)
        return cls(heading, list(map(write, values)), {name: values}, **look)


#: A bar of a terminal's table: parts from one share of its width to another, in a character.
Bar: TypeAlias = Sequence[tuple[float, float, str]]


@dataclass(frozen=True)
class Table:
    """Numbers: texts to read, and the exact values as a file.

    Attributes
    ----------
    name : str
        The name of the file.
    columns : sequence of Column
        The first one has the names of the rows.
    title : str
        What the table is, for readers who cannot see it.
    marked : sequence of bool
        The rows that stand out.
    listed : sequence of int or None
        The rows to read, if not all; the file has all.
    spanned : mapping
        By rows, a text in place of all but the first columns: their number, and the text.
    bars : sequence of Bar
        One for each row, which terminals draw as wide as possible.
    scale : str
        The ends of the bars, such as "01".
    legend : str
        What the bars mean, for terminals that draw them.
    titled : frozenset of int
        The rows that are headings of the rows below them.
    """

    name: str
    columns: Sequence[Column]
    title: str = ""
    marked: Sequence[bool] = ()
    listed: Sequence[int] | None = None
    spanned: Mapping[int, tuple[int, str]] = field(default_factory=dict)
    bars: Sequence[Bar] = ()
    scale: str = ""
    legend: str = ""
    titled: frozenset[int] = frozenset()

    @property
    def headings(self) -> list[str]:
        return [column.heading for column in self.columns]

    @property
    def places(self) -> Sequence[int]:
        """The rows to read."""
        return range(len(self.columns[0].texts)) if self.listed is None else self.listed

    def of_rows(self, places: Sequence[int]) -> Table:
        """Return the table with these rows to read; the file keeps all."""
        return replace(self, listed=places)

    def under_headings(self, parts: Mapping[str, Sequence[int]], last: Sequence[int]) -> Table:
        """Return the table with the rows of each part below its heading, and the ``last`` ones after them."""
        places: list[int | None] = []
        titled: dict[int, str] = {}
        for heading, rows in parts.items():
            titled[len(places)] = heading
            places += [None, *rows]
        columns = [
            column._replace(texts=["" if i is None else column.texts[i] for i in (*places, *last)])
            for column in self.columns
        ]
        names = [titled.get(i, f"  {name}") for i, name in enumerate(columns[0].texts[: len(places)])]
        columns[0] = columns[0]._replace(texts=[*names, *columns[0].texts[len(places) :]])
        marked = [i is not None and self.is_marked(i) for i in (*places, *last)]
        return replace(self, columns=columns, marked=marked, titled=frozenset(titled))

    def cells(self, place: int) -> list[str]:
        """Return the texts of a row; the last one takes the rest of the width if there are fewer than columns."""
        texts = [column.texts[place] for column in self.columns]
        if place not in self.spanned:
            return texts
        kept, text = self.spanned[place]
        return [*texts[:kept], text]

    def is_marked(self, place: int) -> bool:
        return bool(self.marked) and self.marked[place]

    # ------------------------------------------------------------ the file

    @property
    def filename(self) -> str:
        return f"{self.name}.csv"

    @property
    def exact(self) -> dict[str, Any]:
        """The columns of the file."""
        return {name: values for column in self.columns for name, values in column.exact.items()}

    def to_csv(self) -> str:
        """Return the exact values as CSV; missing values are empty.

        A spreadsheet would compute a name such as ``=1+1``: an apostrophe stands before it.
        """
        text, exact = io.StringIO(), self.exact
        writer = csv.writer(text, lineterminator="\r\n")  # so that names with \r or \n are quoted
        writer.writerow(map(_cell, exact))
        columns = [x.tolist() if hasattr(x, "tolist") else x for x in exact.values()]
        writer.writerows(map(_cell, row) for row in zip(*columns, strict=True))
        return text.getvalue()

    @property
    def link(self) -> str:
        """The CSV as a data URL, which needs no server."""
        return "data:text/csv;charset=utf-8," + quote(self.to_csv(), safe=",.:;+-_", errors="replace")


def _cell(value: Any) -> Any:
    """Return a cell of a file: nothing for NaN, and no text that a spreadsheet takes for a formula."""
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_BEFORE_FORMULAS) else value
    return None if value is None or value != value else value


class Figures(NamedTuple):
    """Several pictures side by side, of the same kind; ``one_legend`` says whether all have the same legend."""

    figures: Sequence[Figure]
    one_legend: bool = False


class Tile(NamedTuple):
    """A small diagram with its name, a line of text, and what it can be sorted by."""

    name: str
    text: str
    picture: Figure
    marked: bool = False
    place: int = 0
    error: float = 0.0
    rows: float = 0.0


class Tiles(NamedTuple):
    """Small diagrams.

    Attributes
    ----------
    tiles : sequence of Tile
        The diagrams.
    sortable : bool
        Whether readers can sort them, and find some by name.
    counted : {"rows", "weight"}
        What the counts of the bins are.
    bins : Table or None
        The bins behind all diagrams, if readers can look at those of one.
    level : str
        The confidence level of the bins' intervals; empty without.
    """

    tiles: Sequence[Tile]
    sortable: bool = False
    counted: str = "rows"
    bins: Table | None = None
    level: str = ""


class Details(NamedTuple):
    """Blocks that are folded under a summary; paper leaves out ``long`` ones."""

    summary: str
    blocks: Sequence[Block]
    long: bool = False
    open: bool = False


Block: TypeAlias = Sentence | Passage | Notes | Heading | Table | Figure | Figures | Tiles | Details


# ---------------------------------------------------------------- the document


class KeyNumber(NamedTuple):
    """A number of the first screen: its name, its value, its interval, and what it is compared with."""

    label: str
    value: str
    interval: str
    compared: str


class Method(NamedTuple):
    """How a number was computed."""

    label: str
    meaning: str
    method: str


class First(NamedTuple):
    """What a page shows next to the verdict: key numbers, the diagram, and what to do next."""

    numbers: Sequence[KeyNumber]
    diagram: Figure | None
    steps: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Document:
    """A result for its readers.

    Attributes
    ----------
    title : str
        The default title of a page.
    headline : str
        How many rows, and the evaluated event.
    conclusion : Sentence
        The verdict in a few words.
    plain : str
        One sentence for readers who know no statistics; terminals leave it out.
    verdict : sequence of Sentence
        What was found.
    blocks : sequence of Block
        The numbers and pictures.
    facts : sequence of (str, str)
        The settings, as names and texts; empty texts are left out.
    measured, methods : str, sequence of Method
        What the methods are of, such as "measure", and how each was computed.
    first : First or None
        What a page shows next to the verdict.
    """

    title: str
    headline: str
    conclusion: Sentence
    verdict: Sequence[Sentence]
    blocks: Sequence[Block]
    facts: Sequence[tuple[str, str]]
    measured: str
    methods: Sequence[Method]
    first: First | None = None
    plain: str = ""

    @property
    def sentences(self) -> list[str]:
        """The verdict as texts."""
        return [sentence.text for sentence in self.verdict]


def sections(blocks: Sequence[Block]) -> list[list[Block]]:
    """Return the blocks of each section: up to the next heading."""
    parts: list[list[Block]] = [[]]
    for block in blocks:
        if isinstance(block, Heading) and parts[-1]:
            parts.append([])
        parts[-1].append(block)
    return [part for part in parts if part]


def tables_of(blocks: Sequence[Block]) -> list[Table]:
    """Return all tables among blocks that have exact values, also folded ones."""
    tables = []
    for block in blocks:
        if isinstance(block, Table) and block.exact:
            tables.append(block)
        elif isinstance(block, Details):
            tables += tables_of(block.blocks)
        elif isinstance(block, Tiles) and block.bins is not None:
            tables.append(block.bins)
    return tables
