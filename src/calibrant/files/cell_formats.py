"""Which cells of a workbook are formatted as per cent: Excel shows 20 % and stores 0.2."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
import zipfile
from collections.abc import Iterator, Sequence
from typing import IO, Final, NamedTuple

from calibrant.errors import FileError
from calibrant.files.local import original
from calibrant.files.paths import reading

#: The formats of Excel's own that show per cents: ``0%`` and ``0.00%``.
_BUILT_IN: Final = frozenset(("9", "10"))
_QUOTED: Final = re.compile(r'"[^"]*"|\\.')  # what a format shows as it stands
_STYLES: Final = "xl/styles.xml"
_SHEET: Final = re.compile(r"xl/worksheets/[^/]+\.xml")


class _Cell(NamedTuple):
    row: int
    column: int
    is_percent: bool
    is_zero: bool  # which is the same in both


def are_fractions(path: str, header: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether a workbook shows the columns ``names`` of its header as per cents: then it stores fractions.

    Raises
    ------
    FileError
        Where it shows some of their numbers as per cents, and others not.
    """
    with reading(path), zipfile.ZipFile(original(path)) as archive:
        if _STYLES not in archive.namelist():
            return False
        with archive.open(_STYLES) as stream:
            styles = _percent_styles(stream)
        cells: list[_Cell] = []
        for sheet in filter(_SHEET.fullmatch, archive.namelist()):  # one of them has cells
            with archive.open(sheet) as stream:
                cells += _cells(stream, styles)
    if not cells:
        return False
    left, top = min(cell.column for cell in cells), min(cell.row for cell in cells)
    places = {left + header.index(name) for name in names}
    of_names = [cell for cell in cells if cell.column in places and cell.row > top]
    formatted = sum(cell.is_percent for cell in of_names)
    others = sum(not (cell.is_percent or cell.is_zero) for cell in of_names)
    if formatted and others:
        problem = f"{formatted:,} cells of {', '.join(names)} are formatted as per cent, and {others:,} are not"
        raise FileError(path, problem, "give all cells of probabilities the same format in the workbook")
    return formatted > 0


def _percent_styles(stream: IO[bytes]) -> list[bool]:
    """Return whether each style of cells shows per cents."""
    root = ElementTree.parse(stream).getroot()
    shown = {
        each.get("numFmtId"): "%" in _QUOTED.sub("", each.get("formatCode", ""))
        for each in root.iterfind(".//{*}numFmt")
    }
    styles = root.iterfind("./{*}cellXfs/{*}xf")
    return [shown.get(style.get("numFmtId"), style.get("numFmtId") in _BUILT_IN) for style in styles]


def _cells(stream: IO[bytes], styles: Sequence[bool]) -> Iterator[_Cell]:
    """Yield the cells of a sheet that hold something; numbers alone can be per cents."""
    row = column = 0
    for event, element in ElementTree.iterparse(stream, ("start", "end")):
        name = element.tag.rpartition("}")[2]
        if name == "row" and event == "start":
            row, column = int(element.get("r", row + 1)), 0
        elif name == "row":
            element.clear()
        elif name == "c" and event == "end":
            letters = re.match("[A-Z]*", element.get("r", "")).group()  # type: ignore[union-attr]  # always matches
            column = _number(letters) if letters else column + 1
            text = "".join(element.itertext()).strip()
            if text:
                style, is_number = int(element.get("s", 0)), element.get("t", "n") == "n"
                is_percent = is_number and style < len(styles) and styles[style]
                yield _Cell(row, column, is_percent, is_number and text in ("0", "0.0"))


def _number(letters: str) -> int:
    """Return the number of a column, from 1: A, ..., Z, AA, ..."""
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter) - ord("A") + 1
    return number
