"""Which columns of a file the caller asks for. The command reads its options without importing what reads files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from calibrant.inputs.weights import WeightsAre


@dataclass(frozen=True)
class Options:
    """What the caller asked for, by the names of the command line's options."""

    score: str | None = None
    outcome: str | None = None
    probs: str | None = None
    target: str | None = None
    weight: str | None = None
    weights_are: WeightsAre | None = None
    where: str | None = None
    timezone: str = "UTC"
    class_names: tuple[str, ...] | None = None
    models: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    by_values: bool = False
    on: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    percent: bool = False
    decimal_comma: bool = False
    labels: tuple[str, ...] | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The names and patterns of columns."""
        single = (self.score, self.outcome, self.probs, self.target, self.weight)
        return (*filter(None, single), *self.models, *self.by, *self.clusters, *self.on)
