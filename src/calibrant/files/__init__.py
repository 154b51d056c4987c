"""Files of predictions, read into arrays or a sketch: ``.npz``, ``.npy``, CSV, Parquet, Arrow and JSON lines."""

from typing import TYPE_CHECKING

from calibrant.runtime.cached import names_of

if TYPE_CHECKING:
    from calibrant.files.chunks import Judging
    from calibrant.files.column_options import Options
    from calibrant.files.loaded import BadRows, FileModels, FilePredictions, FileSketch, FileSketches
    from calibrant.files.reading import read_models, read_predictions
    from calibrant.files.sketches import read_sketches, write_sketch
    from calibrant.files.sources import column_names

__all__ = [
    "BadRows",
    "FileModels",
    "FilePredictions",
    "FileSketch",
    "FileSketches",
    "Judging",
    "Options",
    "column_names",
    "read_models",
    "read_predictions",
    "read_sketches",
    "write_sketch",
]

__getattr__, __dir__ = names_of(
    __name__,
    {
        "calibrant.files.column_options": ("Options",),
        "calibrant.files.chunks": ("Judging",),
        "calibrant.files.loaded": ("BadRows", "FileModels", "FilePredictions", "FileSketch", "FileSketches"),
        "calibrant.files.reading": ("read_models", "read_predictions"),
        "calibrant.files.sketches": ("read_sketches", "write_sketch"),
        "calibrant.files.sources": ("column_names",),
    },
)
