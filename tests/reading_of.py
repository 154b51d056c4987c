"""Reading files with the options as keyword arguments."""

from __future__ import annotations

from typing import Any

import pytest

from calibrant import files
from calibrant.errors import FileError
from calibrant.files import FilePredictions, Options


def read_predictions(
    patterns: Any, *, targets_file: str | None = None, progress: Any = None, **options: Any
) -> FilePredictions:
    """Read files into arrays, however many rows there are."""
    read = files.read_predictions(patterns, asked(options), targets_file=targets_file, keep=True, progress=progress)
    assert isinstance(read, FilePredictions)
    return read


def refuse(patterns: Any, match: str | None = None, **options: Any) -> str:
    """Read files, which must fail with a `FileError` whose text matches, and return the text."""
    with pytest.raises(FileError, match=match) as caught:
        read_predictions(patterns, **options)
    return str(caught.value)


def asked(options: dict[str, Any]) -> Options:
    """Return the options of keyword arguments, in which names may be lists."""
    return Options(**{name: tuple(value) if isinstance(value, list) else value for name, value in options.items()})
