"""Which files are meant, and of which kind they are."""

from __future__ import annotations

import glob
import gzip
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from calibrant.errors import CalibrantError, FileError, nearest

KINDS = {
    ".npz": "npz",
    ".npy": "npy",
    ".csv": "csv",
    ".csv.gz": "csv",
    ".tsv": "csv",
    ".tsv.gz": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".jsonl": "json",
    ".ndjson": "json",
    ".jsonl.gz": "json",
    ".ndjson.gz": "json",
}


def kind_of(path: str) -> str:
    """Return the kind of a file by the ending of its name."""
    name = os.path.basename(path).lower()
    for ending, kind in KINDS.items():
        if name.endswith(ending):
            return kind
    ending = os.path.splitext(name)[1]
    got = f"unknown ending {ending!r}" if ending else "a name without an ending"
    raise FileError(path, got, f"give one of {', '.join(KINDS)}")


def expand(patterns: Sequence[str]) -> list[str]:
    """Return the files that names and patterns stand for: patterns sorted, the order of the names kept.

    A name that exists is taken as it is, so that brackets in it mean themselves.
    """
    paths: list[str] = []
    for pattern in map(os.fspath, patterns):
        if os.path.isdir(pattern):
            raise FileError(pattern, "is a folder", f"name its files, such as '{os.path.join(pattern, '*.parquet')}'")
        if os.path.exists(pattern):
            found = [pattern]
        elif glob.has_magic(pattern):
            found = sorted(filter(os.path.isfile, glob.glob(pattern, recursive=True)))
            if not found:
                raise FileError(pattern, "no file matches this pattern", "check the folder and the pattern")
        else:
            raise FileError(pattern, "no such file", _similar(pattern))
        for path in found:
            # Rows that count twice would change every number and show in none of them.
            if any(os.path.samefile(path, other) for other in paths):
                raise FileError(path, "is given twice", "name each file once")
            paths.append(path)
    if not paths:
        raise FileError("files", "none are given", "name at least one")
    for path in paths:
        if kind_of(path) != kind_of(paths[0]):
            raise FileError(path, f"is of another kind than {paths[0]}", "give files of one kind at a time")
        if os.path.getsize(path) == 0:
            raise FileError(path, "is empty (0 bytes)", "write the predictions again, or leave the file out")
    return paths


def _similar(path: str) -> str:
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        return f"there is no folder {folder!r} either"
    hint = nearest(os.path.basename(path), [entry.name for entry in os.scandir(folder) if entry.is_file()])
    return hint if hint.startswith("did you mean") else "check the name and the working directory"


@contextmanager
def reading(
    path: str, remedy: str = "write the file again: it is damaged or not what its ending says"
) -> Iterator[None]:
    """Turn what a reader raises about a file into one line that names the file."""
    try:
        yield
    except (CalibrantError, GeneratorExit, MemoryError):
        raise
    except Exception as error:
        # numpy alone raises seven unrelated types on damaged files: no shorter list would be complete.
        raise FileError(path, f"cannot be read ({first_line(error)})", remedy) from error


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its type where it has none."""
    text = str(error).strip()
    return " ".join(text.splitlines()[0].split()).rstrip(".;") if text else type(error).__name__


def open_text(path: str, errors: str = "strict") -> Any:
    """Open a text file, compressed or not; a byte-order mark is not part of the text."""
    if path.lower().endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8-sig", errors=errors, newline="")
    return open(path, encoding="utf-8-sig", errors=errors, newline="")


def check_gzip(path: str) -> None:
    """Read a ``.gz`` to its end: DuckDB 1.5 takes the rows of a truncated one without a word."""
    if not path.lower().endswith(".gz"):
        return
    try:
        with gzip.open(path) as stream:
            while stream.read(1 << 20):
                pass
    except (OSError, EOFError, zlib.error) as error:
        raise FileError(path, f"is damaged ({first_line(error)})", "compress or copy it again") from error
