"""Files of predictions, read into arrays or a sketch: ``.npz``, ``.npy``, CSV, Parquet, Arrow and JSON lines."""

from calibrant.column_options import Options
from calibrant.files.chunks import Judging
from calibrant.files.matching import matched, model_names
from calibrant.files.predictions import (
    BadRows,
    FileModels,
    FilePredictions,
    FileRead,
    FileRows,
    FileSketch,
    FileSketches,
    Omitted,
)
from calibrant.files.reading import read_models, read_predictions
from calibrant.files.sketches import event_sketch, is_sketch_file, read_sketches, sketch_as_text, write_sketch
from calibrant.files.sources import column_names, likely_outcome, likely_score
from calibrant.files.sql import sql_name, where_option

__all__ = [
    "BadRows",
    "FileModels",
    "FilePredictions",
    "FileRead",
    "FileRows",
    "FileSketch",
    "FileSketches",
    "Judging",
    "Omitted",
    "Options",
    "column_names",
    "event_sketch",
    "is_sketch_file",
    "likely_outcome",
    "likely_score",
    "matched",
    "model_names",
    "read_models",
    "read_predictions",
    "read_sketches",
    "sketch_as_text",
    "sql_name",
    "where_option",
    "write_sketch",
]
