"""Sketches: any number of predictions in constant memory, mergeable, as cells of a grid and exact sums."""

from typing import TYPE_CHECKING

from calibrant.runtime.cached import names_of

if TYPE_CHECKING:
    from calibrant.sketch.as_table import Arguments, Predicted, PredictedGroups, check_alone
    from calibrant.sketch.sketch import CalibrationSketch

__all__ = ["Arguments", "CalibrationSketch", "Predicted", "PredictedGroups", "check_alone"]

__getattr__, __dir__ = names_of(
    __name__,
    {
        "calibrant.sketch.as_table": ("Arguments", "Predicted", "PredictedGroups", "check_alone"),
        "calibrant.sketch.sketch": ("CalibrationSketch",),
    },
)
