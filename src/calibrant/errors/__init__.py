"""The one family of errors: which argument, what was expected, what was passed, what to do."""

from typing import TYPE_CHECKING

from calibrant.runtime.cached import names_of

if TYPE_CHECKING:
    from calibrant.errors.exceptions import (
        SHOWN,
        CalibrantError,
        FileError,
        FileFault,
        InputError,
        MissingDependencyError,
        NothingJudgedError,
        check_choice,
        check_integer,
        is_missing,
        meant,
        nearest,
        one_of_these,
        quoted,
        renaming,
    )

__all__ = [
    "SHOWN",
    "CalibrantError",
    "FileError",
    "FileFault",
    "InputError",
    "MissingDependencyError",
    "NothingJudgedError",
    "check_choice",
    "check_integer",
    "is_missing",
    "meant",
    "nearest",
    "one_of_these",
    "quoted",
    "renaming",
]

__getattr__, __dir__ = names_of(__name__, {"calibrant.errors.exceptions": __all__})
