"""The options of the command, as one frozen value."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from calibrant.cli.conditions import Condition
from calibrant.files.columns import Options

if TYPE_CHECKING:
    from calibrant.cli.configuration import Configured
    from calibrant.inputs.predictions import Notion
    from calibrant.results import Bands

#: The engines that can read files.
ENGINES: Final = ("embedded", "spark")


@dataclass(frozen=True, kw_only=True)
class CommandOptions(Options):
    """The options of ``report`` and of ``compare``; an option that a command lacks keeps its default.

    The fields have the names of click's parameters. The inherited fields choose the columns. ``scores`` is the typed
    text that ``models`` come from. `checks` rejects invalid values before any file is opened.
    """

    files: tuple[str, ...] = ()
    scores: str | None = None
    targets_file: str | None = None
    logits: bool = False
    notion: Notion | None = None
    classwise: bool | None = None
    n_bins: int = 15
    ignore_index: int | None = None
    level: float = 0.95
    profile: str = "standard"
    measures: tuple[str, ...] | None = None
    n_resamples: int = 1000
    rng: int = 0
    bands: Bands = "pointwise"
    exact: bool = False
    keep_going: bool = False
    engine: str = ENGINES[0]
    master: str | None = None
    sketch_path: str | None = None
    json_path: str | None = None
    html_path: str | None = None
    title: str | None = None
    date: str | None = None
    open_page: bool = False
    markdown_path: str | None = None
    png_path: str | None = None
    svg_path: str | None = None
    quiet: bool = False
    all_measures: bool = False
    config: Configured | None = None
    conditions: tuple[Condition, ...] = ()
    baseline: str | None = None
    paired: bool | None = None
    tolerance: float | None = None
    tolerance_of: str = "ece"
    gate: bool = False

    @property
    def timezone_used(self) -> str | None:
        """The zone of times in SQL and in groups; None where there are none of these."""
        compares = re.search(r"[=<>(]", f"{self.score} {self.outcome}")  # in SQL, perhaps times
        return self.timezone if self.where is not None or self.by or self.clusters or compares else None

    @property
    def outputs(self) -> dict[str, str]:
        """The paths to write to, by option."""
        paths = {
            "--json": self.json_path,
            "--html": self.html_path,
            "--markdown": self.markdown_path,
            "--png": self.png_path,
            "--svg": self.svg_path,
            "--sketch": self.sketch_path,
        }
        return {option: path for option, path in paths.items() if path is not None}
