"""The names of a file's columns, from its head alone: for the completion of commands, which has no time to read."""

from __future__ import annotations

import csv
import json

import numpy as np

from calibrant.files.engine import load
from calibrant.files.paths import kind_of, open_text


def column_names(path: str) -> tuple[str, ...]:
    """Return the names of a file's columns or arrays as its first line, its schema or its directory gives them.

    Whether the file can be read is not asked.

    Raises
    ------
    Exception
        Whatever the reader of a damaged file raises.
    """
    kind = kind_of(path)
    if kind in ("csv", "json"):
        with open_text(path, errors="replace") as stream:
            line = next((line for line in stream if line.strip()), "")
        if kind == "json":
            return tuple(json.loads(line))
        fields = next(csv.reader([line], delimiter="\t" if ".tsv" in path.lower() else ","), [])
        return tuple(field.strip() for field in fields if field.strip())
    if kind == "parquet":
        names: list[str] = load("pyarrow.parquet", f"to read {path}").read_schema(path).names
        return tuple(names)
    if kind == "arrow":
        arrow = load("pyarrow", f"to read {path}")
        load("pyarrow.ipc", f"to read {path}")
        with arrow.memory_map(path) as memory:
            is_file = memory.read(6) == b"ARROW1"
            memory.seek(0)
            reader = arrow.ipc.open_file(memory) if is_file else arrow.ipc.open_stream(memory)
            return tuple(reader.schema.names)
    if kind == "npz":
        with np.load(path, allow_pickle=False) as archive:
            return tuple(archive.files)
    return ()
