"""Files of predictions, read into arrays: ``.npz``, ``.npy``, CSV, Parquet, Arrow and JSON lines."""

from calibrant.files.predictions import FilePredictions
from calibrant.files.reading import read_predictions
from calibrant.files.sql import sql_name, where_option

__all__ = ["FilePredictions", "read_predictions", "sql_name", "where_option"]
