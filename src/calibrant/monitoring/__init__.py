"""Watch the calibration of a deployed model, slice by slice."""

from typing import TYPE_CHECKING

from calibrant.runtime.cached import names_of

if TYPE_CHECKING:
    from calibrant.monitoring.monitor import Monitor
    from calibrant.monitoring.slices import Drift

__all__ = ["Drift", "Monitor"]

__getattr__, __dir__ = names_of(
    __name__,
    {"calibrant.monitoring.monitor": ("Monitor",), "calibrant.monitoring.slices": ("Drift",)},
)
