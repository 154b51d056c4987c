"""numpy's own files: ``.npz`` archives, and a ``.npy`` with its targets in another."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import CalibrantError, FileError
from calibrant.files.columns import Options, Selection, select
from calibrant.files.paths import first_line, kind_of, reading
from calibrant.files.percent import ALIKE, REMEDY, WANTED, fractions, is_signed, is_unclear, unclear


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
        what = f"array {selection.names()[argument][0]!r}"
        if argument.startswith("probs"):
            arrays[argument] = _probs(path, what, array, selection.percent)
        elif argument == "weights":
            _check_numbers(path, what, array)
    rows = len(loaded[selection.probs[0]])
    for name, array in loaded.items():
        if len(array) != rows:
            problem = f"array {name!r} has {len(array):,} rows and {selection.probs[0]!r} has {rows:,}"
            raise FileError(path, problem, _for_lengths(loaded[selection.probs[0]], name, array, selection))
    return arrays, selection


def _for_lengths(probs: NDArray[Any], name: str, array: NDArray[Any], selection: Selection) -> str:
    """Say what to do about an array with another number of rows than the probabilities."""
    if name in selection.targets and array.shape == probs.shape[:0:-1] + probs.shape[:1]:
        return f"{name!r} looks transposed: save {name}.T"
    if probs.ndim == 2 and len(array) == probs.shape[1]:
        return f"{selection.probs[0]!r} looks transposed: save {selection.probs[0]}.T, a row for each prediction"
    return "save arrays of the same length"


def heads(path: str, rows: int) -> dict[str, list[Any]]:
    """Return the first rows at most of the arrays of an archive that can be read."""
    found = {}
    with reading(path), open(path, "rb") as stream, np.load(stream, allow_pickle=False) as archive:
        for name in archive.files:
            with contextlib.suppress(CalibrantError):
                found[name] = _member(path, archive, name)[:rows].tolist()
    return found


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


def read_npy_probs(path: str, percent: bool = False) -> NDArray[Any]:
    """Read a ``.npy`` of probabilities, perhaps in per cent, or of logits."""
    return _probs(path, "the array", read_npy(path), percent)


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


def _probs(path: str, what: str, array: NDArray[Any], percent: bool) -> NDArray[Any]:
    if not percent:
        text = array.dtype.kind in "UST" and array.size > 0
        _check_numbers(path, what, array, REMEDY if text and is_signed(str(array.astype(str).flat[0])) else None)
        return array
    shares = fractions(array)
    bad = np.flatnonzero(np.isnan(shares))
    if len(bad):
        row, wrong = int(bad[0]) * len(array) // array.size + 1, array.reshape(-1)[bad[0]]
        shown = repr(str(wrong)) if array.dtype.kind in "UST" else str(wrong).removesuffix(".0")
        raise FileError(path, f"row {row}, {what}: {shown} is not {WANTED}", "correct it before the array is saved")
    if array.dtype.kind in "UST":
        texts = array.astype(str).reshape(-1).tolist()
        place = next((place for place, text in enumerate(texts) if is_unclear(text)), None)
        if place is not None and any(map(is_signed, texts)):
            row = place * len(array) // array.size + 1
            raise FileError(path, f"row {row}, {what}: {unclear(repr(texts[place]))}", ALIKE)
    return shares


def _check_numbers(path: str, what: str, array: NDArray[Any], remedy: str | None = None) -> None:
    if array.dtype.kind not in "fiub":
        raise FileError(path, f"{what} holds text, not numbers", remedy or "name an array of numbers")


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
