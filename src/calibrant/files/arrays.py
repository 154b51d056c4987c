"""numpy's own files: ``.npz`` archives, and a ``.npy`` with its targets in another."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import FileError
from calibrant.files.columns import Options, Selection, select
from calibrant.files.paths import first_line, kind_of, reading


def read_npz(path: str, options: Options) -> tuple[dict[str, NDArray[Any]], Selection]:
    """Read the arrays of an archive that hold the probabilities, the targets and the weights, by argument.

    Raises
    ------
    FileError
        Where the archive is damaged, or arrays are missing or do not belong together.
    """
    # numpy leaves a file that it opened itself open where the archive is damaged.
    with reading(path), open(path, "rb") as stream:
        archive = np.load(stream, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise FileError(path, "holds a single array, not an archive", "rename it to .npy and give --targets FILE")
        with archive:
            selection = select(path, archive.files, options, noun="array")
            for argument, names in selection.names().items():
                if len(names) > 1:
                    raise FileError(path, f"{argument} are one array, got {', '.join(names)}", "name one array")
            loaded = {name: _member(path, archive, name) for name in selection.used}
    arrays = {argument: loaded[name] for argument, (name, *_) in selection.names().items()}
    for argument, array in arrays.items():
        if argument not in ("targets", "groups"):
            _check_numbers(path, selection.names()[argument][0], array)
    rows = len(loaded[selection.probs[0]])
    for name, array in loaded.items():
        if len(array) != rows:
            problem = f"array {name!r} has {len(array):,} rows and {selection.probs[0]!r} has {rows:,}"
            raise FileError(path, problem, "save arrays of the same length")
    return arrays, selection


def read_npy(path: str) -> NDArray[Any]:
    """Read the one array of a ``.npy``."""
    if kind_of(path) != "npy":
        raise FileError(path, "is not a .npy", "save the targets with numpy.save")
    with reading(path, remedy="save it again with numpy.save, as a plain array"), open(path, "rb") as stream:
        array = np.load(stream, allow_pickle=False)
    if not isinstance(array, np.ndarray):
        array.close()
        raise FileError(path, "is an archive, not a single array", "rename it to .npz")
    return _plain(path, "the array", array)


def read_npy_probs(path: str) -> NDArray[Any]:
    """Read a ``.npy`` of probabilities or logits."""
    array = read_npy(path)
    _check_numbers(path, "the array", array)
    return array


def _member(path: str, archive: Any, name: str) -> NDArray[Any]:
    try:
        array = archive[name]
    except ValueError as error:
        if "pickle" in str(error):
            raise FileError(path, f"array {name!r} holds Python objects", "save it as numbers or strings") from error
        raise
    except Exception as error:
        raise FileError(path, f"array {name!r} is damaged ({first_line(error)})", "save the file again") from error
    return _plain(path, f"array {name!r}", array)


def _plain(path: str, what: str, array: NDArray[Any]) -> NDArray[Any]:
    if array.ndim == 0:
        raise FileError(path, f"{what} is a single value", "save a row for each prediction")
    if array.dtype.kind not in "fiubUST":
        hint = "save float32; numpy has no bfloat16" if array.dtype.kind == "V" else "save numbers or strings"
        raise FileError(path, f"{what} is of type {array.dtype}", hint)
    return array


def _check_numbers(path: str, name: str, array: NDArray[Any]) -> None:
    if array.dtype.kind not in "fiub":
        what = name if name.startswith("the ") else f"array {name!r}"
        raise FileError(path, f"{what} holds text, not numbers", "name an array of numbers")


def join(path: str, parts: list[NDArray[Any]], argument: str, paths: list[str]) -> NDArray[Any]:
    """Put the arrays of several files under one another."""
    if len(parts) == 1:
        return parts[0]
    for part, where in zip(parts, paths, strict=True):
        if part.shape[1:] != parts[0].shape[1:]:
            problem = f"{argument} are of shape {part.shape}, in {path} {parts[0].shape}"
            raise FileError(where, problem, "give files whose rows are alike")
        if (part.dtype.kind in "UST") != (parts[0].dtype.kind in "UST"):
            raise FileError(
                where, f"{argument} are of type {part.dtype}, in {path} {parts[0].dtype}", "write them alike"
            )
    return np.concatenate(parts)
