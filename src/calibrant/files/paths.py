"""Files by their names: patterns, kinds, and how text is opened."""

from __future__ import annotations

import codecs
import glob
import gzip
import json
import os
import shutil
import stat
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import PurePath
from typing import Any
from urllib.parse import unquote

from calibrant.errors import FileError, FileFault, quoted
from calibrant.files.local import conversion_error, convert, fetch, first_line, is_remote, located, new_copy, spool
from calibrant.results.envelope import similar_file

#: Bytes of an object of JSON lines: those of DuckDB.
LONGEST_OBJECT = 1 << 24

KINDS = {
    ".npz": "npz",
    ".npy": "npy",
    ".csv": "csv",
    ".csv.gz": "csv",
    ".tsv": "csv",
    ".tsv.gz": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".xlsx": "csv",  # `expand` converts it
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    ".jsonl.gz": "json",
    ".ndjson.gz": "json",
    ".json.gz": "json",
    ".eval": "json",  # `read_logs` converts it
    ".cal": "sketch",
}
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # in a folder's name

_READABLE = "pass a file that ends in .npz, .npy, .csv, .tsv, .xlsx, .parquet, .arrow, .feather, .eval, .json or .jsonl"
#: What to do about other files, by their endings.
ADVICE = {
    (".pkl", ".pickle", ".joblib"): (
        "a pickle may run any code when it is opened; load the file yourself, and save its arrays with numpy.savez"
    ),
    (".xls", ".xlsb", ".ods"): "save the sheet as .xlsx or CSV",
    (".txt", ".dat", ".tab"): "rename the file to .csv if commas, semicolons or tabs separate the columns",
    (".pt", ".pth", ".ckpt", ".safetensors"): "load the file yourself, and save its tensors as arrays with numpy.savez",
    (".h5", ".hdf5", ".mat", ".db", ".sqlite", ".duckdb"): "export the table from its program as CSV or Parquet",
    (".gz", ".zip", ".bz2", ".xz", ".zst", ".7z", ".tar"): "unpack the file first",
}
#: What files of statistics programs are, and what writes a file that can be read, by their endings.
FOREIGN = {
    (".dta",): (
        "is a Stata file",
        "in Python, use pandas.read_stata({name}).to_parquet({parquet}), or in Stata, export delimited using {csv}",
    ),
    (".sav", ".zsav", ".por"): (
        "is an SPSS file",
        "in Python, use pandas.read_spss({name}).to_parquet({parquet}), or in SPSS, save the data as CSV",
    ),
    (".sas7bdat", ".xpt"): (
        "is a SAS file",
        "in Python, use pandas.read_sas({name}).to_parquet({parquet}), or in SAS, write CSV with PROC EXPORT",
    ),
    (".rds",): ("is an R file", "in R, use arrow::write_parquet(readRDS({name}), {parquet})"),
    (".rdata", ".rda"): (
        "is an R file",
        "in R, use load({name}), and write the data frame with arrow::write_parquet(data, {parquet})",
    ),
}


def ending_of(name: str) -> str:
    """Return the ending of a name, if it says a kind of file; else an empty text."""
    return next((ending for ending in KINDS if name.lower().endswith(ending)), "")


def kind_of(path: str) -> str:
    """Return the kind of a file by the ending of its name."""
    name = os.path.basename(located(path)).lower()
    if ending := ending_of(name):
        return KINDS[ending]
    ending = os.path.splitext(name)[1]
    got = f"unknown ending {quoted(ending)}" if ending else "a name without an ending"
    for endings, (problem, remedy) in FOREIGN.items():
        if ending in endings:
            raise FileError(path, problem, in_words_of(remedy, path), fault=FileFault.UNKNOWN_KIND)
    advice = next((words for endings, words in ADVICE.items() if ending in endings), _READABLE)
    raise FileError(path, got, advice, fault=FileFault.UNKNOWN_KIND)


def in_words_of(remedy: str, path: str) -> str:
    """Return a remedy with the name of the file, and the names of new files, as texts of Python and R."""
    stem = os.path.splitext(os.path.basename(path) if is_remote(path) else path)[0]
    names = {"name": path, "parquet": f"{stem}.parquet", "csv": f"{stem}.csv"}
    return remedy.format(**{key: json.dumps(name, ensure_ascii=False) for key, name in names.items()})


def expand(patterns: Sequence[str]) -> list[str]:
    """Return the files that names, patterns and folders stand for: these sorted, the order of the names kept.

    A folder stands for all files below it that calibrant reads, which must be of one kind. So does a pattern that
    matches only folders.

    The name of an existing file is not a pattern, so its brackets are literal. Standard input, workbooks and files
    on the network are copied first (`calibrant.files.local`).
    """
    paths: list[str] = []
    seen: set[tuple[int, int]] = set()
    for pattern in map(os.fspath, patterns):
        if pattern == "-":
            matching = [spool()]
        elif os.path.isdir(pattern):
            matching = _within(pattern)
        elif os.path.exists(located(pattern)):
            matching = [pattern]
        elif is_remote(pattern):
            matching = fetch(pattern)
        elif glob.has_magic(pattern):
            matching = _matching(pattern)
            if not matching:
                raise FileError(pattern, "no file matches this pattern", "check the folder and the pattern")
        else:
            hint = similar_file(pattern) or "check the name and the working directory"
            raise FileError(pattern, "no such file", hint)
        for path in matching:
            # Rows that count twice would change every number and show in none of them.
            status = os.stat(located(path))
            if not stat.S_ISREG(status.st_mode):
                raise FileError(
                    path,
                    "is a pipe or a device, not a file",
                    "copy the data to a file, or pipe the data to standard input (-)",
                )
            if (status.st_dev, status.st_ino) in seen:
                raise FileError(path, "is named twice", "name each file once")
            seen.add((status.st_dev, status.st_ino))
            paths.append(path)
            convert(path)
    if not paths:
        raise FileError("files", "no file is named", "name at least one file")
    for path in paths:
        if kind_of(path) != kind_of(paths[0]):
            problem = f"is not of the same kind as {paths[0]}"
            raise FileError(path, problem, "pass files of one kind at a time", fault=FileFault.OTHER_KIND)
    return paths


def _matching(pattern: str) -> list[str]:
    """Return the files that a pattern matches, sorted; if it matches only folders, the files below these."""
    found = sorted(glob.glob(pattern, recursive=True))
    folders = filter(os.path.isdir, found)
    return list(filter(os.path.isfile, found)) or sorted({path for folder in folders for path in _within(folder)})


def check_bytes(path: str) -> None:
    """Reject a file of 0 bytes, and a workbook or a log that could not be converted: damaged, too large, of sheets."""
    if (error := conversion_error(path)) is not None:
        raise error
    if os.path.getsize(located(path)) == 0:
        remedy = "write the predictions again, or leave the file out"
        raise FileError(path, "is empty (0 bytes)", remedy, fault=FileFault.EMPTY)


def _within(folder: str) -> list[str]:
    """Return the files of predictions below a folder, sorted; names that begin with ``.`` or ``_`` are not data."""
    found: list[str] = []
    for root, folders, names in os.walk(folder or "."):
        folders[:] = [name for name in folders if name[0] not in "._"]
        paths = (os.path.join(root, name) for name in names if name[0] not in "._" and ending_of(name))
        found += filter(os.path.isfile, paths)
    kinds = Counter(KINDS[ending_of(path)] for path in found)
    if len(kinds) == 1:
        return sorted(found)
    if not kinds:
        remedy = "name a file such as predictions.csv"
        raise FileError(folder, "is a folder without a file that calibrant can read", remedy)
    endings = Counter(map(ending_of, found)).most_common()
    listed = ", ".join(f"{count:,} {ending}" for ending, count in endings)
    problem = f"is a folder with files of several kinds ({listed})"
    pattern = os.path.join(folder, "**", f"*{endings[0][0]}")
    raise FileError(folder, problem, f"name the files of one kind, such as '{pattern}'")


def partitions_of(path: str) -> dict[str, str | None]:
    """Return the columns in the folders of a path, such as ``month=2026-01``, as Hive and Spark write partitions."""
    parts = (part.partition("=") for part in PurePath(path).parts[:-1])
    named = {unquote(name): unquote(value) for name, sign, value in parts if sign and name}
    return {name: None if value == _NO_VALUE else value for name, value in named.items()}


def open_text(path: str, errors: str = "strict") -> Any:
    """Open a text file, compressed or not; a byte-order mark is not part of the text."""
    path = located(path)
    if path.lower().endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8-sig", errors=errors, newline="")
    return open(path, encoding="utf-8-sig", errors=errors, newline="")


def open_bytes(path: str) -> Any:
    """Open a file as bytes, compressed or not."""
    path = located(path)
    return gzip.open(path) if path.lower().endswith(".gz") else open(path, "rb")


def without_mark(path: str) -> str | None:
    """Return a copy of JSON without its byte-order mark, which DuckDB refuses; None without a mark.

    What cannot be read has no copy: its reader says what is wrong.
    """
    with suppress(OSError, EOFError, zlib.error), open_bytes(path) as stream:
        if stream.read(3) == codecs.BOM_UTF8:
            copy = new_copy(".json" if located(path).lower().endswith((".json", ".json.gz")) else ".jsonl")
            with open(copy, "xb") as target:
                shutil.copyfileobj(stream, target, 1 << 20)
            return copy
    return None


def bounded_lines(stream: Any) -> Iterator[str]:
    """Yield the lines of a text, one that is too long in pieces."""
    return iter(lambda: stream.readline(LONGEST_OBJECT), "")


def check_text(path: str, check: Callable[[], None], longest: int | None = None) -> bool:
    """Read a text to its end where DuckDB would lose rows without a word; of a CSV return whether it is plain.

    DuckDB 1.5 takes the rows of a truncated ``.gz``. It also drops a last line of more than 32 MB from a CSV. A plain
    text is ASCII without quotation marks, and all its lines end alike.
    """
    if longest is None and not located(path).lower().endswith(".gz"):
        return False
    is_plain, ends = True, [0, 0, 0]
    try:
        with open_bytes(path) as stream:
            length = 0  # of a line so far, in bytes
            while data := stream.read(1 << 20):
                check()
                is_plain = is_plain and data.isascii() and b'"' not in data
                ends = [count + data.count(end) for count, end in zip(ends, (b"\n", b"\r", b"\r\n"), strict=True)]
                last = max(data.rfind(b"\n"), data.rfind(b"\r"))
                length = len(data) - 1 - last if last >= 0 else length + len(data)
                if longest is not None and length > longest:
                    problem = f"line {ends[0] + 1:,} has more than {longest / 1e6:.0f} MB"
                    raise FileError(path, problem, "leave the long column out, or write the file as Parquet")
    except (OSError, EOFError, zlib.error) as error:
        raise FileError(path, f"is damaged ({first_line(error)})", "compress or copy the file again") from error
    return is_plain and (not ends[1] or len({*ends}) == 1)


# ---------------------------------------------------------------- names that are not UTF-8


def utf8_path(path: str) -> str:
    """Return the path, or that of a link to the file if the path is not UTF-8: DuckDB and PyArrow need UTF-8."""
    path = located(path)
    return path if is_utf8(path) else _link_to(path)


def is_utf8(path: str) -> bool:
    """Return whether the bytes of a name are UTF-8; Python stands surrogates for the bytes that are not."""
    return not any("\ud800" <= character <= "\udfff" for character in path)


@cache
def _link_to(path: str) -> str:
    link = new_copy(ending_of(path))
    try:
        os.symlink(os.path.abspath(path), link)
    except OSError as error:
        raise FileError(path, f"has a name that is not UTF-8 ({error.strerror})", "rename the file") from None
    return link
