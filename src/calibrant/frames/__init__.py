"""Sketches of predictions in frames: the engine that holds the rows counts them, only cells come back."""

from calibrant.frames.api import sketch

__all__ = ["sketch"]
