"""Files of predictions, read into arrays or a sketch: ``.npz``, ``.npy``, CSV, Parquet, Arrow and JSON lines."""

from typing import TYPE_CHECKING

from calibrant.runtime.cached import names_of

if TYPE_CHECKING:
    from calibrant.files.chunks import Judging
    from calibrant.files.columns import Options
    from calibrant.files.hints import Held, likely_outcome, likely_prediction, likely_score, unusable_values, values_of
    from calibrant.files.matching import matched, model_names
    from calibrant.files.predictions import (
        BadRows,
        FileModels,
        FilePredictions,
        FileRead,
        FileRows,
        FileSketch,
        FileSketches,
    )
    from calibrant.files.reading import read_models, read_predictions
    from calibrant.files.sketches import event_sketch, is_sketch_file, read_sketches, sketch_as_text, write_sketch
    from calibrant.files.sources import column_names
    from calibrant.files.sql import sql_name, where_option
    from calibrant.files.values import BadTarget, shown

__all__ = [
    "BadRows",
    "BadTarget",
    "FileModels",
    "FilePredictions",
    "FileRead",
    "FileRows",
    "FileSketch",
    "FileSketches",
    "Held",
    "Judging",
    "Options",
    "column_names",
    "event_sketch",
    "is_sketch_file",
    "likely_outcome",
    "likely_prediction",
    "likely_score",
    "matched",
    "model_names",
    "read_models",
    "read_predictions",
    "read_sketches",
    "shown",
    "sketch_as_text",
    "sql_name",
    "unusable_values",
    "values_of",
    "where_option",
    "write_sketch",
]

__getattr__, __dir__ = names_of(
    __name__,
    {
        "calibrant.files.columns": ("Options",),
        "calibrant.files.chunks": ("Judging",),
        "calibrant.files.hints": (
            "Held",
            "likely_outcome",
            "likely_prediction",
            "likely_score",
            "unusable_values",
            "values_of",
        ),
        "calibrant.files.matching": ("matched", "model_names"),
        "calibrant.files.predictions": (
            "BadRows",
            "FileModels",
            "FilePredictions",
            "FileRead",
            "FileRows",
            "FileSketch",
            "FileSketches",
        ),
        "calibrant.files.reading": ("read_models", "read_predictions"),
        "calibrant.files.sketches": (
            "event_sketch",
            "is_sketch_file",
            "read_sketches",
            "sketch_as_text",
            "write_sketch",
        ),
        "calibrant.files.sources": ("column_names",),
        "calibrant.files.sql": ("sql_name", "where_option"),
        "calibrant.files.values": ("BadTarget", "shown"),
    },
)
