"""Names that stand for a copy on this machine: standard input, converted files, and files on the network.

The copies are made before the engine is open, for it reads files of this machine alone. Errors and reports show the
names; what opens a file asks `located` where it is.
"""

from __future__ import annotations

import contextlib
import glob
import importlib
import json
import os
import re
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ElementTree
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from types import ModuleType
from typing import IO, Any, Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

from calibrant.errors import CalibrantError, FileError, MissingDependencyError, is_missing, meant, quoted
from calibrant.errors.exceptions import package_command
from calibrant.files.encodings import BINARY, not_utf8, recode, too_short
from calibrant.files.sheet_reader import SECONDS, SHEETS
from calibrant.inputs.memory import bytes_in_words, max_memory
from calibrant.runtime.process import sweep, undone

Answer = TypeVar("Answer")

#: What reports and errors call the file ``-``.
STANDARD_INPUT: Final = "standard input"

#: Seconds without a byte after which a file on the network is given up.
PATIENCE: Final = 8.0

#: The packages that read files on the network; those of the web need none.
_PACKAGES: Final = {"s3": "s3fs", "gs": "gcsfs", "hf": "huggingface_hub", "http": "", "https": ""}
_STEP: Final = 1 << 20  # bytes that are copied at a time
_FIRST_STEP: Final = 1 << 15  # from the network, where a large piece may take longer than the time of silence
_LARGEST_STEP: Final = 1 << 23

_WORKBOOK: Final = ".xlsx"
_JSON: Final = (".json", ".jsonl", ".ndjson")
_TEXTS: Final = (".csv", ".tsv", *_JSON)
#: The program that reads workbooks.
_READER: Final = os.path.join(os.path.dirname(__file__), "sheet_reader.py")

_copies: dict[str, str] = {}  # names, and where their copies are; removed at the end of the process
_spooled: list[Any] = []  # the standard input that was copied
_Version = tuple[int, int, str | None]  # the time and the size of a file, and how it is converted
#: Files that are converted, and what was wrong with them.
_converted: dict[str, tuple[_Version | None, CalibrantError | None]] = {}
_sheets: dict[str, str] = {}  # the sheet of each workbook that was copied
_above: dict[str, int] = {}  # how many lines or rows of a file are above those of its copy
_attempted: set[str] = set()  # texts that were to be copied, also without success
_recoded: dict[str, str] = {}  # the names of texts in other encodings, and their copies in UTF-8


class Conversion(NamedTuple):
    """How files are converted: the encoding of texts, the sheet of workbooks, and where their columns are named."""

    encoding: str | None = None
    sheet: str | None = None
    header_line: int | None = None  #: the line, or the row, with the names of the columns


_conversion = Conversion()  # of the command that runs, on all of its threads


def located(name: str) -> str:
    """Return where a file is: the path of its copy, if the name stands for one."""
    return _copies.get(name, name)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its type where it has none."""
    text = str(error).strip()
    return " ".join(text.splitlines()[0].split()).rstrip(".;") if text else type(error).__name__


@contextlib.contextmanager
def reading(
    path: str,
    remedy: str = "write the file again if it is damaged, or rename it if its name has the wrong ending",
    problem: str = "cannot be read",
) -> Iterator[None]:
    """Turn what a reader raises about a file into one line that names the file."""
    try:
        yield
    except (CalibrantError, GeneratorExit, MemoryError, ImportError):  # none of them is about the file
        raise
    except UnicodeDecodeError as error:
        raise not_utf8(path, located(path)) from error
    except Exception as error:
        if type(error).__name__ == "OutOfMemoryException":  # DuckDB's
            raise MemoryError from error
        # numpy alone raises seven unrelated types on damaged files: no shorter list would be complete.
        raise FileError(path, f"{problem} ({first_line(error)})", remedy) from error


def load(library: str, purpose: str, extra: str = "report") -> ModuleType:
    """Import a library of an extra, or say how to install it."""
    try:
        return importlib.import_module(library)
    except ModuleNotFoundError as error:
        if not is_missing(error, library):
            raise
        package = library.partition(".")[0].replace("_", "-")
        raise MissingDependencyError(package, purpose, extra) from error


def is_remote(name: str) -> bool:
    """Whether a name is that of a file on the network."""
    return re.match(r"[a-z][a-z0-9+.-]*://", name, re.IGNORECASE) is not None


_stack = contextlib.ExitStack()  # lives as long as the process


@cache
def temporary_folder() -> str:
    """Return a folder that is removed at the end of the process, also by a signal."""
    make = partial(tempfile.TemporaryDirectory, prefix="calibrant-")  # Python removes it at its end
    folder = _stack.enter_context(undone(make, lambda: folder.cleanup()))
    sweep(folder.name)
    return folder.name


def new_copy(ending: str) -> str:
    """Return the path of a copy that does not exist yet."""
    return os.path.join(temporary_folder(), secrets.token_hex(8) + ending)


# ---------------------------------------------------------------- standard input


def spool() -> str:
    """Copy standard input to a file, once, and return the name that stands for it."""
    stream = getattr(sys.stdin, "buffer", None)
    if _spooled and _spooled[0] is stream:
        return STANDARD_INPUT
    if stream is None:
        raise FileError(STANDARD_INPUT, "is closed", "name a file, or pipe CSV or JSON lines into the command")
    if stream.isatty():
        remedy = "pipe CSV or JSON lines into the command, such as: calibrant report - < predictions.csv"
        raise FileError(STANDARD_INPUT, "is a terminal", remedy)
    head = stream.read(_STEP)
    text = head.decode(_conversion.encoding or "utf-8-sig", errors="replace").lstrip()
    if not text:
        raise FileError(STANDARD_INPUT, "is empty", "pipe CSV with a header, or JSON lines, into the command")
    for start, kind in BINARY.items():
        if head.startswith(start):
            raise FileError(STANDARD_INPUT, f"is not text but {kind}", "write the data to a file, and name that file")
    ending = ".jsonl" if text.startswith("{") else ".json" if text.startswith("[") else ".csv"
    copy = new_copy(ending)
    with open(copy, "xb") as target:
        target.write(head)
        shutil.copyfileobj(stream, target, _STEP)
    _spooled[:] = [stream]
    _copies[STANDARD_INPUT] = copy
    return STANDARD_INPUT


# ---------------------------------------------------------------- files that are converted


def original(path: str) -> str:
    """Return where a file is that may have been converted: a file of this machine, or a copy."""
    return _recoded.get(path) or (path if os.path.exists(path) else located(path))


def stand_in(path: str, source: str, make: Callable[[], str | None], how: str | None = None) -> None:
    """Have the copy that ``make`` writes stand for a file; None: the file stands for itself.

    A file that has not changed is not converted again in the same way, ``how``. An error is kept for `check_bytes`,
    which raises it.
    """
    status = os.stat(source)
    version = status.st_mtime_ns, status.st_size, how
    if _converted.get(path, (None,))[0] == version:
        return
    if source == path:
        _copies.pop(path, None)  # the copy of an earlier version of the file
    try:
        copy = make()
        _converted[path] = version, None
    except CalibrantError as error:
        _converted[path] = version, error
    else:
        if copy is not None:
            _copies[path] = copy


# ---------------------------------------------------------------- workbooks


@contextlib.contextmanager
def converting(conversion: Conversion) -> Iterator[None]:
    """Have `convert` read texts in an encoding, and a sheet of workbooks, until the end of the context."""
    global _conversion
    before, _conversion = _conversion, conversion
    try:
        yield
    finally:
        _conversion = before
        for path in _attempted:
            for names in (_recoded, _copies, _converted, _above):
                names.pop(path, None)
        _attempted.clear()


def convert(path: str) -> None:
    """Copy a sheet of a workbook to a CSV, and a text to one in UTF-8: `located` finds the copy.

    `check_bytes` raises what went wrong.
    """
    source, (encoding, sheet, header_line) = original(path), _conversion
    has_title = header_line is not None and header_line > 1 and not source.lower().removesuffix(".gz").endswith(_JSON)
    how = f"{sheet or encoding or ''} {header_line or ''}"
    if not os.path.getsize(source):  # an error of its own
        return
    if is_workbook(source):
        stand_in(path, source, lambda: _to_csv(path, source, sheet), how)
    elif (encoding is not None or has_title) and is_text(source) and source not in _recoded.values():
        skipped = (header_line or 1) - 1 if has_title else 0
        _attempted.add(path)
        stand_in(path, source, lambda: _to_utf8(path, source, encoding, skipped), how)


def is_workbook(path: str) -> bool:
    """Whether a name is that of a workbook."""
    return path.lower().endswith(_WORKBOOK)


def is_text(path: str) -> bool:
    """Whether a name is that of a CSV or JSON, compressed or not."""
    return path.lower().removesuffix(".gz").endswith(_TEXTS)


def _to_utf8(path: str, source: str, encoding: str | None, skipped: int) -> str:
    """Copy a text, without its first lines, to one in UTF-8, and return its path."""
    copy = new_copy(os.path.splitext(source.lower().removesuffix(".gz"))[1])
    recode(path, source, copy, encoding, skipped)
    _recoded[path], _above[path] = copy, skipped
    return copy


def is_sheet(path: str) -> bool:
    """Whether a file is a workbook, of which a sheet was copied."""
    return path in _sheets


def lines_above(path: str) -> int:
    """Return how many lines of a text, or rows of a sheet, are above those of its copy."""
    return _above.get(path, 0)


def conversion_error(path: str) -> CalibrantError | None:
    """Return what was wrong with a file when it was converted; None for other files."""
    return _converted.get(path, (None, None))[1]


def _to_csv(path: str, source: str, sheet: str | None) -> str:
    """Copy a sheet to a CSV, by default the only one that has cells, and return its path."""
    load("python_calamine", f"to read {os.path.basename(path)}", "excel")
    copy = new_copy(".csv")
    asked = {"source": os.path.abspath(source), "copy": copy, "memory": max_memory(), "sheet": sheet}
    asked["first_row"] = _conversion.header_line or 1
    answer = _read_apart(path, asked)
    sizes: dict[str, int] = answer["sheets"]
    filled = list(sizes)
    if filled and os.path.exists(copy) and not os.path.getsize(copy):
        raise too_short(path, _conversion.header_line)
    if not filled:
        raise FileError(path, "has no filled cells", "write the predictions again, or leave the file out")
    listed = ", ".join(filled[:SHEETS])
    if sheet is not None and sheet not in filled:
        remedy = f"{meant(sheet, filled)} the sheets with cells are {listed}".strip()
        raise FileError(path, f"has no sheet {quoted(sheet)} with cells", remedy)
    if sheet is None and len(filled) > 1:
        count = f"more than {SHEETS}" if len(filled) > SHEETS else str(len(filled))
        largest = max(sizes, key=sizes.__getitem__)
        remedy = f"name the sheet with the predictions, such as --sheet {shlex.quote(largest)}"
        raise FileError(path, f"has {count} sheets with cells: {listed}", remedy)
    _sheets[path], _above[path] = sheet or filled[0], answer["skipped"]
    return copy


def _read_apart(path: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Run `sheet_reader` in a process of its own, and return its answer.

    A few bytes may make the reader of workbooks take any memory, after which it ends its process.
    """
    command = [sys.executable, "-S", "-P", _READER]
    streams: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    try:
        with undone(lambda: subprocess.Popen(command, **streams), lambda: reader.kill()) as reader:
            answered, messages = reader.communicate(json.dumps({**asked, "import_path": sys.path}).encode())
    except OSError as error:
        raise _unreadable(path, f"the process that reads the workbook does not start: {error.strerror}") from error
    answer: dict[str, Any] = json.loads(answered) if reader.returncode == 0 else {}
    if "large" in answer or b"memory allocation" in messages:
        problem = f"takes more than {bytes_in_words(max_memory())} of memory to read"
        if size := answer.get("large"):
            problem = f"takes {bytes_in_words(size)} when it is decompressed"
        raise FileError(path, problem, "save the sheet as CSV, or raise CALIBRANT_MAX_MEMORY")
    if "sheets" not in answer:
        if -reader.returncode == getattr(signal, "SIGXCPU", None):
            answer["error"] = f"reading takes more than {SECONDS} seconds"
        raise _unreadable(
            path, answer.get("error") or f"the process that reads the workbook ended with status {reader.returncode}"
        )
    return answer


def _unreadable(path: str, problem: str) -> FileError:
    return FileError(path, f"cannot be read ({problem})", "save the file again as .xlsx, without a password")


# ---------------------------------------------------------------- files on the network


def fetch(url: str) -> list[str]:
    """Copy a file on the network, or those of a pattern, once in a process, and return their names."""
    if url in _copies:
        return [url]
    with reading(url, "correct the address, or copy the file to this machine", "is not a valid address"):
        protocol = urlsplit(url).scheme.lower()
    if protocol not in _PACKAGES:
        protocols = ", ".join(f"{name}://" for name in _PACKAGES)
        raise FileError(url, f"unknown protocol {protocol}://", f"use one of {protocols}, or a file on this machine")
    package = _PACKAGES[protocol]
    if not package:
        _copy(url, lambda: _open_web(url))
        return [url]
    try:
        fsspec = importlib.import_module("fsspec")
        importlib.import_module(package)
    except ModuleNotFoundError as error:
        if not (is_missing(error, "fsspec") or is_missing(error, package)):
            raise
        problem = f"needs the package {package}, which is not installed"
        remedy = f"run: {package_command(package)}, or copy the file to this machine"
        raise FileError(url, problem, remedy) from error
    names = _patiently(url, lambda: _names(fsspec, url), lambda: 0)
    for name in names:
        if name not in _copies:
            _copy(name, partial(_open_bucket, fsspec, name))
    return names


def _open_bucket(fsspec: Any, name: str) -> IO[bytes]:
    system, path = fsspec.core.url_to_fs(name)
    stream: IO[bytes] = system.open(path, "rb", cache_type="none")  # a cache would fetch blocks of up to 50 MB
    return stream


def _names(fsspec: Any, url: str) -> list[str]:
    """Return the files of a pattern, sorted; a name without a pattern is its own."""
    if not glob.has_magic(url):
        return [url]
    system, path = fsspec.core.url_to_fs(url)
    names = sorted(system.unstrip_protocol(name) for name in system.glob(path))
    if not names:
        raise FileError(url, "no file matches this pattern", "check the folder and the pattern")
    return names


def _open_web(url: str) -> IO[bytes]:
    import urllib.error  # loads slowly, and most files are local
    import urllib.request

    try:
        stream: IO[bytes] = urllib.request.urlopen(url, timeout=PATIENCE)
    except urllib.error.HTTPError as error:
        error.close()  # the page that comes with an error
        raise
    return stream


def _copy(url: str, start: Callable[[], IO[bytes]]) -> None:
    """Copy what a stream yields to a file of the same ending."""
    name = os.path.basename(urlsplit(url).path)
    copy, done = new_copy("-" + re.sub(r"[^\w.-]", "_", name)), 0

    def work() -> None:
        nonlocal done
        with start() as stream, open(copy, "xb") as target:
            for data in _pieces(stream):
                target.write(data)
                done += len(data)
            if missing := getattr(stream, "length", None):  # which Python counts and does not check
                problem = f"ended after {done:,} of {done + missing:,} bytes"
                raise FileError(url, problem, "try again, or copy the file to this machine")

    _patiently(url, work, lambda: done)
    _copies[url] = copy


def _pieces(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the bytes of a stream: what a web server has sent, or as much as comes well within the time of silence."""
    size, read = _FIRST_STEP, getattr(stream, "read1", stream.read)
    while True:
        start = time.monotonic()
        data = read(size)
        if not data:
            return
        yield data
        size = min(2 * size, _LARGEST_STEP) if time.monotonic() - start < PATIENCE / 8 else max(size // 2, 1)


def _patiently(url: str, work: Callable[[], Answer], progress: Callable[[], int]) -> Answer:
    """Return what work returns; give up after `PATIENCE` seconds without progress: libraries try for minutes."""
    answers: list[Answer] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(work())
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    done, since = -1, time.monotonic()
    while thread.is_alive():
        thread.join(0.05)
        if progress() != done:
            done, since = progress(), time.monotonic()
        elif time.monotonic() - since > PATIENCE:
            remedy = "check the name and the network, or copy the file to this machine"
            raise FileError(url, f"sent nothing for {PATIENCE:.0f} seconds", remedy)
    if failures and isinstance(failures[0], CalibrantError):
        raise failures[0]
    if failures:
        remedy = "check the name, the network and your permission to read the file"
        raise FileError(url, f"cannot be fetched ({first_line(failures[0])})", remedy) from failures[0]
    return answers[0]


# ---------------------------------------------------------------- cells of workbooks that are formatted as percent

#: The formats of Excel's own that show per cents: ``0%`` and ``0.00%``.
_BUILT_IN: Final = frozenset(("9", "10"))
_QUOTED: Final = re.compile(r'"[^"]*"|\\.')  # what a format shows unchanged
_STYLES: Final = "xl/styles.xml"
_BOOK: Final = "xl/workbook.xml"
_TARGETS: Final = "xl/_rels/workbook.xml.rels"
_ID: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"


class _Cell(NamedTuple):
    row: int
    column: int
    is_percent: bool
    is_zero: bool  # which is the same in both


def are_fractions(path: str, header: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether a file is a workbook that shows columns of its header as per cents: then it stores fractions."""
    if not is_workbook(path):
        return False
    with reading(path), zipfile.ZipFile(original(path)) as archive:
        if _STYLES not in archive.namelist():
            return False
        with archive.open(_STYLES) as stream:
            styles = _percent_styles(stream)
        with archive.open(_file_of_sheet(archive, _sheets[path])) as stream:
            cells = list(_cells(stream, styles))
    if not cells:
        return False
    left = min(cell.column for cell in cells)
    places = {left + header.index(name) for name in names}
    of_names = [cell for cell in cells if cell.column in places and cell.row > lines_above(path) + 1]
    formatted = sum(cell.is_percent for cell in of_names)
    others = sum(not (cell.is_percent or cell.is_zero) for cell in of_names)
    if formatted and others:
        problem = f"{formatted:,} cells of {', '.join(names)} are formatted as percent, but {others:,} are not"
        raise FileError(path, problem, "in the workbook, give all cells with probabilities the same format")
    return formatted > 0


def _file_of_sheet(archive: zipfile.ZipFile, sheet: str) -> str:
    """Return the file in a workbook that holds the cells of a sheet."""
    with archive.open(_BOOK) as book, archive.open(_TARGETS) as relations:
        sheets = {each.get("name"): each.get(_ID) for each in ElementTree.parse(book).iterfind(".//{*}sheet")}
        targets = {each.get("Id"): each.get("Target", "") for each in ElementTree.parse(relations).getroot()}
    target = targets[sheets[sheet]]
    return target[1:] if target.startswith("/") else f"xl/{target}"


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
