"""The command ``calibrant``: from a file of predictions to a report, or to a comparison of models."""

from typing import TYPE_CHECKING

from calibrant.runtime.cached import names_of

if TYPE_CHECKING:
    from calibrant.cli.commands import main

__all__ = ["main"]

__getattr__, __dir__ = names_of(
    __name__,
    {
        "calibrant.cli.commands": ("main",),
    },
)
