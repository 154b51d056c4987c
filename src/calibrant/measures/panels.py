"""The further curves that a profile shows, from the judged event."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from calibrant.measures.decisions.decision_curve import decision_curve_of, murphy_curve_of
from calibrant.measures.event import Event
from calibrant.measures.profiles import Profile
from calibrant.measures.ranking.ranking import roc_curve
from calibrant.results.values import Panel

_MAKERS: Final[Mapping[str, Callable[[Event, float | None], Panel | None]]] = {
    "decision_curve": decision_curve_of,
    "murphy_curve": lambda event, _: murphy_curve_of(event),
    "roc_curve": lambda event, _: roc_curve(event.table),
}


def panels(event: Event, profile: Profile, level: float | None) -> dict[str, Panel]:
    """Return the further curves of a profile, without those that the data do not have; ``level`` is of intervals."""
    made = {name: _MAKERS[name](event, level) for name in profile.panels}
    return {name: panel for name, panel in made.items() if panel is not None}
