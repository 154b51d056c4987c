"""Sketches of predictions in frames: the frame's engine counts the rows, and only cells come back."""

from calibrant.frames.api import sketch

__all__ = ["sketch"]
