"""Sketches: predictions of any number in constant memory, mergeable, with exact scalars beside the cells of a grid."""

from calibrant.sketch.as_table import check_alone, given_classes, given_table, given_totals, table_of
from calibrant.sketch.sketch import CalibrationSketch

__all__ = ["CalibrationSketch", "check_alone", "given_classes", "given_table", "given_totals", "table_of"]
