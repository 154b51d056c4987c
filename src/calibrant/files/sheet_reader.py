"""Copy one sheet of a workbook to a CSV: the program of a process with a memory limit of its own.

A few bytes of a workbook may promise more cells than any memory holds, and its reader then ends the process. This file
is run by its path and imports nothing of the package, so that the process starts at once.
"""

from __future__ import annotations

import contextlib
import csv
import datetime
import itertools
import json
import sys
import zipfile
from typing import Any, Final

#: Seconds of computing that the largest workbook does not need, and names of filled sheets that nobody reads.
SECONDS: Final = 60
SHEETS: Final = 30


def main() -> None:
    """Read what to copy from standard input; write the names of the filled sheets, or what is wrong."""
    asked = json.load(sys.stdin)
    sys.path[:] = asked["import_path"]
    json.dump(_answer(asked["source"], asked["copy"], asked["memory"], asked["sheet"], asked["first_row"]), sys.stdout)


def _answer(source: str, copy: str, memory: int, sheet: str | None, first_row: int) -> dict[str, Any]:
    try:
        import python_calamine

        with open(source, "rb") as stream:
            with zipfile.ZipFile(stream) as archive:
                size = sum(member.file_size for member in archive.infolist())
                if size > memory // 4:
                    return {"large": size}
                _limit_memory(memory)
                damaged = archive.testzip()  # the reader of workbooks stops before the checksum
            if damaged is not None:
                return {"error": f"{damaged} differs from its checksum"}
            stream.seek(0)
            return _copied(python_calamine.CalamineWorkbook.from_filelike(stream), copy, sheet, first_row)
    except BaseException as error:  # a panic of the reader is not an Exception
        if isinstance(error, MemoryError):
            return {"large": 0}
        return {"error": (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".;")}


def _limit_memory(size: int) -> None:
    """Let this process take no more than ``size`` further bytes and `SECONDS` of computing, on Linux."""
    try:
        import resource

        with open("/proc/self/statm") as stream:
            now = int(stream.read().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):  # not Linux
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    for limit in (now + size, most):
        with contextlib.suppress(ValueError):  # above the limit that the process began with
            resource.setrlimit(resource.RLIMIT_AS, (limit, most))
            return


def _copied(book: Any, copy: str, wanted: str | None, first_row: int) -> dict[str, Any]:
    """Write the wanted sheet, or the first filled one, to a CSV, from a row on.

    Returns the filled sheets with their numbers of rows, and how many rows were left out of the CSV.
    """
    filled: dict[str, int] = {}
    skipped = 0
    for name in sorted(book.sheet_names, key=lambda name: name != wanted):  # the wanted one first
        sheet = book.get_sheet_by_name(name)
        if sheet.start is None or not sheet.height:
            continue
        filled[name] = sheet.height
        if len(filled) > SHEETS:
            break
        if len(filled) == 1:
            skipped = max(sheet.start[0], first_row - 1)  # empty rows come first
            rows = itertools.islice(sheet.iter_rows(), skipped, None)
            with open(copy, "x", encoding="utf-8", newline="") as target:
                csv.writer(target, lineterminator="\n").writerows([_cell(value) for value in row] for row in rows)
    return {"sheets": filled, "skipped": skipped}


def _cell(value: Any) -> str:
    """Return a cell's text: whole numbers without a point, since workbooks know no integers."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2.0**53:
        return str(int(value))
    if isinstance(value, (datetime.date, datetime.datetime, datetime.time)):
        return value.isoformat(" ") if isinstance(value, datetime.datetime) else value.isoformat()
    return str(value)


if __name__ == "__main__":
    main()
