"""Sketches of predictions in frames: the frame's engine counts the rows, and only cells come back."""

from typing import TYPE_CHECKING

from calibrant.runtime.cached import names_of

if TYPE_CHECKING:
    from calibrant.frames.api import sketch

__all__ = ["sketch"]

__getattr__, __dir__ = names_of(
    __name__,
    {
        "calibrant.frames.api": ("sketch",),
    },
)
