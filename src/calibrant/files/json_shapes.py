"""The shapes of JSON files: an object a line, or an array of objects; others are named in errors."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, Final

from calibrant.errors import FileError, quoted
from calibrant.files.local import located
from calibrant.files.paths import LONGEST_OBJECT, bounded_lines, open_bytes, open_text, reading

LINES: Final = "newline_delimited"
ARRAY: Final = "array"
_AS_RECORDS: Final = "write an array of objects, as DataFrame.to_json(path, orient='records')"
_HEAD: Final = 65_536


def shape_of(path: str) -> str:
    """Return whether a file holds an object a line or, in a ``.json``, an array of objects.

    Raises
    ------
    FileError
        For a file without rows, of another shape, or an array without its end.
    """
    with reading(path, "save it as UTF-8", "is not UTF-8 text"), open_text(path) as stream:
        head = stream.read(_HEAD).lstrip()
    if not head:
        raise FileError(path, "holds no rows", "write the predictions again, or leave the file out")
    is_lines = not located(path).lower().endswith((".json", ".json.gz"))
    if head.startswith("{"):
        _check_single(path, "write one object a line" if is_lines else _AS_RECORDS)
        return LINES
    remedy = "write one object a line, or name an array of objects .json" if is_lines else _AS_RECORDS
    if is_lines or not head.startswith("["):
        raise FileError(path, f"starts with {quoted(head[:10])}, not with an object", remedy)
    first = head[1:].lstrip()
    if first.startswith("]"):
        raise FileError(path, "holds no rows", "write the predictions again, or leave the file out")
    if first.startswith("["):
        raise FileError(path, "holds an array of arrays (orient 'values'), without names of columns", _AS_RECORDS)
    if first and not first.startswith("{"):
        raise FileError(path, "holds an array, but not of objects", _AS_RECORDS)
    if not _ends_with_bracket(path):
        raise FileError(path, "holds an array without its end", "write it again: it is damaged")
    return ARRAY


def _ends_with_bracket(path: str) -> bool:
    """Return whether an array is whole: DuckDB takes one that ends after a comma."""
    last = b""
    with reading(path), open_bytes(path) as stream:
        if not located(path).lower().endswith(".gz"):
            stream.seek(max(os.path.getsize(located(path)) - _HEAD, 0))
        while data := stream.read(1 << 20):
            last = data.rstrip()[-1:] or last
    return last == b"]"


def _check_single(path: str, remedy: str) -> None:
    """Reject a file that is one object with all the rows in it."""
    with reading(path, "save it as UTF-8", "is not UTF-8 text"), open_text(path) as stream:
        lines = (line for line in bounded_lines(stream) if line.strip())
        first = next(lines)
        try:
            content = json.loads(first)
            if next(lines, None) is not None:
                return
        except RecursionError:  # its reader says so
            return
        except json.JSONDecodeError:  # an object over several lines, or a malformed one, which its reader names
            stream.seek(0)
            try:
                content = json.loads(stream.read(LONGEST_OBJECT))
            except (json.JSONDecodeError, RecursionError):
                return
            problem = "holds a single object over several lines"
        else:
            problem = ""
    problem = _orient(content) or problem
    if problem:
        raise FileError(path, problem, remedy)


def _orient(content: Any) -> str:
    """Say in which way an object holds a table; empty for an object that may be a row."""
    keys, values = set(content), list(content.values())
    if {"columns", "data"} <= keys:
        return "holds a table of orient 'split', not one object for each row"
    if {"schema", "data"} <= keys:
        return "holds a table of orient 'table', not one object for each row"
    lists = [key for key, value in content.items() if _are_objects(value)]
    if lists:
        return f"holds one object, with rows in {quoted(lists[0])}"
    inner = [set(value) for value in values if isinstance(value, dict)]
    if inner and len(inner) == len(values) and all(each == inner[0] for each in inner):
        if all(key.isdigit() for key in keys):
            return "holds a table of orient 'index', not one object for each row"
        if all(key.isdigit() for key in inner[0]):
            return "holds a table of orient 'columns', not one object for each row"
    return ""


def _are_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)


def first_keys(path: str) -> tuple[str, ...]:
    """Return the keys of the first object, those of objects inside with dots, for the completion of commands."""
    with open_text(path, errors="replace") as stream:
        head = stream.read(LONGEST_OBJECT).lstrip().removeprefix("[").lstrip()
    return tuple(dotted(json.JSONDecoder().raw_decode(head)[0]))


def dotted(row: Mapping[str, Any], start: str = "") -> Iterator[str]:
    """Yield the keys of an object, those of objects inside with dots."""
    for key, value in row.items():
        yield start + key
        if isinstance(value, dict):
            yield from dotted(value, f"{start}{key}.")
