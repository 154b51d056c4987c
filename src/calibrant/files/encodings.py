"""Text in other encodings than UTF-8: copies in UTF-8, and errors that propose an encoding."""

from __future__ import annotations

import codecs
import gzip
import shutil
from typing import Any, Final

from calibrant.errors import FileError, quoted

#: Bytes of a line of a CSV: those of DuckDB.
LONGEST_LINE: Final = 2_000_000

#: The encoding of Windows in Western Europe and America, and five bytes more for what is not its text.
WINDOWS: Final = "cp1252"

#: Encodings of other alphabets, with what they are for.
_OTHERS: Final = "cp1250 (Polish, Czech), cp1251 (Russian), cp1254 (Turkish), cp932 (Japanese) or gb18030 (Chinese)"

#: What the first bytes of a file that is not text are those of.
BINARY: Final = {
    b"PAR1": "Parquet (.parquet)",
    b"ARROW1": "Arrow (.arrow)",
    b"PK\x03\x04": "an archive (.zip, .npz or .xlsx)",
    b"\x93NUMPY": "an array (.npy)",
    b"\x1f\x8b": "compressed (.gz)",
    b"BZh": "compressed (.bz2)",
    b"\xfd7zXZ": "compressed (.xz)",
    b"\x28\xb5\x2f\xfd": "compressed (.zst)",
    b"\xd0\xcf\x11\xe0": "an old workbook (.xls)",
}

_MARKS: Final = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_STEP: Final = 1 << 20  # characters that are copied at a time
_BYTES: Final = 1 << 20  # of a line that are looked at, at most
_SHOWN: Final = 30  # characters before and after the first one that is not ASCII


def is_encoding(name: str) -> bool:
    """Whether Python knows an encoding of text by a name."""
    try:
        "".encode(name)
    except (LookupError, ValueError, UnicodeError):
        return False
    return True


def recode(path: str, source: str, copy: str, encoding: str | None, skipped: int) -> None:
    """Copy a text to a file in UTF-8 without its first lines; ``path`` is its name in errors.

    Without an encoding, bytes that are not UTF-8 stay what they are. It raises `FileError` for bytes that are not text
    in the encoding, and for a text without further lines.
    """
    errors = "surrogateescape" if encoding is None else "strict"
    with (
        _opened(source, encoding or "utf-8-sig", errors) as text,
        open(copy, "x", encoding="utf-8", errors=errors, newline="") as target,
    ):
        try:
            for _ in range(skipped):
                line = text.readline(LONGEST_LINE)
                if not line:
                    raise too_short(path, skipped + 1)
                if len(line) == LONGEST_LINE:
                    problem = f"has a line of more than {LONGEST_LINE:,} characters above its header"
                    raise FileError(path, problem, "delete this line")
            shutil.copyfileobj(text, target, _STEP)
        except UnicodeError as error:
            problem = f"is not text in the encoding {encoding} ({error})"
            raise FileError(path, problem, "with --encoding, name the encoding in which the file was saved") from None


def not_utf8(path: str, source: str) -> FileError:
    """Return the error of a text that is not UTF-8, with the encoding that it may have; ``source`` is where it is."""
    with _opened(source) as stream:
        head = stream.read(8)
    written = next((kind for start, kind in BINARY.items() if head.startswith(start)), None)
    if written is not None:
        return FileError(path, f"is not text but {written}", "give its name the right ending, or unpack it first")
    encoding = next((name for mark, name in _MARKS.items() if head.startswith(mark)), None)
    if encoding is None and len(head) == 8 and not head[1] and not head[3]:
        encoding = "utf-16-le"
    if encoding is not None:
        problem = f"is text in {encoding}, not in UTF-8"
        return FileError(path, problem, "save the file as UTF-8, or name its encoding", ("--encoding", encoding))
    number, line = _wrong_line(source)
    problem = f"line {number:,} is not UTF-8 text"
    remedy = f"save the file as UTF-8, or name its encoding with --encoding, such as {_OTHERS}"
    try:
        text = line.decode(WINDOWS)
    except UnicodeDecodeError:
        return FileError(path, problem, remedy)
    first = next((place for place, character in enumerate(text) if not character.isascii()), 0)
    part = text[max(first - _SHOWN, 0) : first + _SHOWN].strip()
    remedy = f"{remedy}; if the line should contain {quoted(part)}, type"
    return FileError(path, problem, remedy, ("--encoding", WINDOWS))


def too_short(path: str, line: int | None) -> FileError:
    """Return the error of a text, or a sheet, that ends before the line with the names of its columns."""
    return FileError(path, f"has no line {line}", "with --header-line, name the line with the names of the columns")


def _opened(source: str, encoding: str | None = None, errors: str = "strict") -> Any:
    """Open a file, compressed or not, as text in an encoding, or as bytes."""
    opened = gzip.open if source.lower().endswith(".gz") else open
    return (
        opened(source, "rb") if encoding is None else opened(source, "rt", encoding=encoding, errors=errors, newline="")
    )


def _wrong_line(source: str) -> tuple[int, bytes]:
    """Return the number of the first line that is not UTF-8, and its bytes; an empty line without one."""
    with _opened(source) as stream:
        for number, line in enumerate(iter(lambda: stream.readline(_BYTES), b""), 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number, line.strip()
    return 1, b""
