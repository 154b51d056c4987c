"""Files of predictions, read into arrays: ``.npz``, ``.npy``, CSV, Parquet, Arrow and JSON lines."""

from calibrant.files.heads import column_names
from calibrant.files.predictions import FileModels, FilePredictions, FileRows
from calibrant.files.reading import likely_outcome, likely_score, read_models, read_predictions
from calibrant.files.sql import sql_name, where_option

__all__ = [
    "FileModels",
    "FilePredictions",
    "FileRows",
    "column_names",
    "likely_outcome",
    "likely_score",
    "read_models",
    "read_predictions",
    "sql_name",
    "where_option",
]
