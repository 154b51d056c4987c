"""The first lines of a CSV: what separates its columns, and which line names them."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice, pairwise
from typing import Final

from calibrant.errors import FileError
from calibrant.files.column_values import is_missing
from calibrant.files.local import is_sheet, lines_above, located
from calibrant.files.paths import bounded_lines, open_text

#: What separates columns, in words. Others than usual ones do so only where these separate nothing.
SEPARATORS: Final = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}

REMEDY: Final = "the first line must name the columns"

_LINES: Final = 30  # that are looked at for names of columns
_LINES_OF_HEADER: Final = 5  # a name in quotes may have several lines
_CHARACTERS: Final = 1_000_000  # of these lines, at most
_SHOWN: Final = 6  # names that an error shows
_NUMBER: Final = re.compile(r"[-+]?[\d.]+([eE][-+]?\d+)?")
_WRITTEN: Final = re.compile(r"[<>]?\s*%?\s*[-+]?(\d+([.,]\d*)?|[.,]\d+)([eE][-+]?\d+)?\s*%?")  # also 45,3 %
_FRACTION: Final = re.compile(r"[-+]?\d*[.,]\d+|[\d.,]+\s*%")


def separator(path: str) -> str:
    """Return what separates the columns of a file, by the line of their names."""
    return _separator_of(path, _first_lines(path, _LINES_OF_HEADER))


def usual_separator(path: str) -> str:
    """Return what usually separates the columns of a file with this ending."""
    return "\t" if ".tsv" in os.path.basename(located(path)).lower() else ","


def fields_of_header(path: str) -> list[str]:
    """Return the fields of the first line."""
    # The text is read ahead of the first line, and what follows there may be a column that nobody asks for.
    with open_text(path, errors="surrogateescape") as stream:
        return next(csv.reader(bounded_lines(stream), delimiter=separator(path), strict=True), [])


def check_header(path: str, fields: Sequence[str]) -> None:
    """Reject a first line that does not name the columns of the lines below it, with what to do."""
    names = [field.strip() for field in fields if field.strip()]
    if fields and all(_NUMBER.fullmatch(field.strip()) for field in fields):
        raise FileError(path, f"has numbers in its first line ({', '.join(fields[:3])})", REMEDY)
    lines = _first_lines(path, _LINES)
    if re.match(r"\s*<(!doctype|html|table|\?xml)", lines[0] if lines else "", re.IGNORECASE):
        raise FileError(path, "is a web page or XML, not CSV", "export or download the table again, as CSV")
    rows = [row for row in _records(lines, separator(path))[1:] if row]
    if not _names_columns(fields, rows):
        _check_later_line(path, names, lines)
    if any(map(_FRACTION.fullmatch, names)) and any(
        field and field in column for field, column in zip(fields, zip(*rows, strict=False), strict=False)
    ):
        raise FileError(path, f"has data in its first line ({', '.join(fields[:_SHOWN])})", REMEDY)
    if len(fields) > 1 and rows and all(len(row) == len(fields) + 1 and row[-1].strip() for row in rows):
        problem = f"has {len(fields)} names in its first line, but {len(fields) + 1} fields in each row"
        remedy = "if the first field is a row name of R, write the file with row.names = FALSE, or name this column too"
        raise FileError(path, problem, remedy)
    if len(fields) == len(names) == 1:
        _check_single(path, names[0], rows)


def _names_columns(fields: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether a first line names each column of the rows below it; the first name, and those at the end, may lack."""
    width = max((place for place, field in enumerate(fields, 1) if field.strip()), default=0)
    named = [field.strip() for field in fields[1 - bool(fields and fields[0].strip()) : width]]
    fit = all(len(row) >= width and not any(cell.strip() for cell in row[len(fields) :]) for row in rows)
    return width > 1 and fit and all(named) and len(set(named)) == len(named)


def _check_later_line(path: str, names: Sequence[str], lines: Sequence[str]) -> None:
    """Reject a title: a later line has more names than the first one, and numbers follow it."""
    first = lines_above(path) + 1
    for number, (found, below_it) in enumerate(_rows_below(path, lines), first + 1):
        while found and not found[-1].strip():  # empty columns at the end
            found.pop()
        inner = [name.strip() for name in (found if found and found[0].strip() else found[1:])]
        are_names = len(set(inner)) == len(inner) > 1 and not any(
            is_missing(name) or _is_number(name) for name in inner
        )
        if are_names and len(inner) > len(set(names)) and any(map(_is_number, below_it)):
            listed = ", ".join(inner[:_SHOWN]) + ", ..." * (len(inner) > _SHOWN)
            problem = f"line {first} does not name the columns, but line {number} may do so ({listed})"
            raise FileError(
                path, problem, "name the line, or delete the lines above it", ("--header-line", str(number))
            )


def _rows_below(path: str, lines: Sequence[str]) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the fields of each line below the first one, and of the next: of a sheet, whose rows are lines, of rows."""
    if is_sheet(path):
        yield from pairwise(_records(lines, ",")[1:])
        return
    for line, below in pairwise(lines[1:]):
        between = _separator_of(path, [line])
        yield _record([line], between), _record([below], between)


def _check_single(path: str, name: str, rows: Sequence[Sequence[str]]) -> None:
    """Reject one name with the spaces that separate the cells of all rows."""
    width = len(name.split())
    if width > 1 and rows and all(len(row) == 1 and len(row[0].split()) in (width, width + 1) for row in rows):
        remedy = "write the file with commas, such as with write.csv(data, file, row.names = FALSE) in R"
        raise FileError(path, "has its columns separated by spaces", remedy)


def _is_number(text: str) -> bool:
    return _WRITTEN.fullmatch(text.strip()) is not None


def _separator_of(path: str, lines: Sequence[str]) -> str:
    """Return what separates the fields of the first record of some lines; the usual one, if it has one field.

    Of commas and semicolons it is what gives all records the same number of fields, or else more to the first one.
    """
    widths = {between: [len(record) for record in _records(lines, between) if record] for between in SEPARATORS}
    usual = usual_separator(path)

    def merit(between: str) -> tuple[bool, int]:
        of_records = widths[between] or [0]
        return max(of_records) == min(of_records) > 1, of_records[0]

    first = [usual] if usual == "\t" else sorted(",;", key=merit, reverse=True)
    return next((between for between in (*first, *SEPARATORS) if max(widths[between][:1], default=0) > 1), usual)


def _record(lines: Sequence[str], between: str) -> list[str]:
    """Return the fields of the first record of lines; none if it is not one of a file with this separator."""
    return next(iter(_records(lines, between)), [])


def _records(lines: Sequence[str], between: str) -> list[list[str]]:
    """Return the fields of the records of lines, up to the first one that is not one of a file with this separator."""
    records: list[list[str]] = []
    with suppress(csv.Error):  # such as '"a";"b"', which is not a line of a file with commas
        for record in csv.reader(lines, delimiter=between, strict=True):
            records.append(record)
    return records


def _first_lines(path: str, number: int) -> list[str]:
    """Return the first lines of a file."""
    lines: list[str] = []
    with open_text(path, errors="surrogateescape") as stream:
        for line in islice(bounded_lines(stream), number):
            lines.append(line)
            if sum(map(len, lines)) > _CHARACTERS:
                break
    return lines
