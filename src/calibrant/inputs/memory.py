"""The memory that one input may take: ``CALIBRANT_MAX_MEMORY``."""

from __future__ import annotations

import os
import re
from typing import Final

from calibrant.errors import InputError

_NAME: Final = "CALIBRANT_MAX_MEMORY"
_UNITS: Final = {"": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}

_MOST: Final = 2**60  # bytes; engines read no larger number

#: Bytes, unless the environment says otherwise.
DEFAULT: Final = 10**9


def max_memory() -> int:
    """Return the bytes that one input may take: ``CALIBRANT_MAX_MEMORY``, such as ``2GB``, or `DEFAULT`.

    Raises
    ------
    InputError
        For another value than a positive number of bytes, kB, MB, GB, KiB, MiB or GiB.
    """
    wish = os.environ.get(_NAME)
    if wish is None:
        return DEFAULT
    match = re.fullmatch(r"([0-9]{1,18}(?:\.[0-9]{1,9})?) ?([kmg]i?b)?", wish.strip().lower())
    size = 0.0 if match is None else float(match[1]) * _UNITS[match[2] or ""]
    if not 1 <= size <= _MOST:
        raise InputError(_NAME, "bytes, such as 2000000000 or 2GB", repr(wish), "correct or unset it")
    return int(size)


def bytes_in_words(size: float) -> str:
    """Return a number of bytes in words, such as 1.6 GB, 250 MB or 12.3 kB."""
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= unit:
            return f"{size / unit:,.1f}".removesuffix(".0") + f" {name}"
    return f"{size:,.0f} bytes"


def is_set() -> bool:
    """Whether the environment sets the limit."""
    return _NAME in os.environ
