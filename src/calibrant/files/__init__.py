"""Files of predictions, read into arrays or a sketch: ``.npz``, ``.npy``, CSV, Parquet, Arrow and JSON lines."""

from calibrant.files.ahead import waited
from calibrant.files.columns import Options
from calibrant.files.engine import Engines
from calibrant.files.heads import column_names
from calibrant.files.predictions import BadRows, FileModels, FilePredictions, FileRows, FileSketch, Omitted
from calibrant.files.reading import likely_outcome, likely_score, read_models, read_predictions
from calibrant.files.sketches import read_sketches, write_sketch
from calibrant.files.sql import sql_name, where_option
from calibrant.files.streaming import Judging, read_or_stream, stream_predictions
from calibrant.files.writing import replace_file

__all__ = [
    "BadRows",
    "Engines",
    "FileModels",
    "FilePredictions",
    "FileRows",
    "FileSketch",
    "Judging",
    "Omitted",
    "Options",
    "column_names",
    "likely_outcome",
    "likely_score",
    "read_models",
    "read_or_stream",
    "read_predictions",
    "read_sketches",
    "replace_file",
    "sql_name",
    "stream_predictions",
    "waited",
    "where_option",
    "write_sketch",
]
