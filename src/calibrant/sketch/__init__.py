"""Sketches: any number of predictions in constant memory, mergeable, as cells of a grid and exact sums."""

from calibrant.sketch.as_table import Arguments, check_alone, table_of
from calibrant.sketch.sketch import CalibrationSketch

__all__ = ["Arguments", "CalibrationSketch", "check_alone", "table_of"]
