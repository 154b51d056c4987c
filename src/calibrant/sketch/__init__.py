"""Sketches: predictions of any number in constant memory, mergeable, with exact scalars beside the cells of a grid."""

from calibrant.sketch.as_table import Arguments, check_alone, table_of
from calibrant.sketch.sketch import CalibrationSketch

__all__ = ["Arguments", "CalibrationSketch", "check_alone", "table_of"]
