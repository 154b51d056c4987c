"""The command ``calibrant``: from a file of predictions to a report, or to a comparison of models."""

from calibrant.cli.commands import main

__all__ = ["main"]
