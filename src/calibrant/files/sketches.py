"""Sketches in files: ``.cal``, the JSON of `CalibrationSketch.to_json`, and the JSON of reports."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from calibrant.errors import FileError, InputError
from calibrant.files.loaded import FilePredictions, FileSketch, Omitted
from calibrant.files.local import located, reading
from calibrant.files.paths import check_bytes, expand, kind_of
from calibrant.inputs.notions import PER_CLASS
from calibrant.inputs.predictions import Notion
from calibrant.inputs.weights import WeightsAre
from calibrant.results.envelope import of_file, opened, parsed
from calibrant.results.writing import replace_file
from calibrant.sketch import CalibrationSketch
from calibrant.sketch.storage import MOST_BYTES

#: The curves of a sketch: of the event, of each class, and all of these of each group.
MOST_CURVES: Final = 500

_JSON = b'{"calibrant.sketch"'
_REPORT = re.compile(r'\s*\{\s*"schema_version"')
_REMEDY = "pass a file that calibrant report --sketch wrote"
_REPORT_REMEDY = (
    "write the report again with calibrant report FILE --json {}, or "
    "save a sketch with calibrant report FILE --sketch {}"
)


def read_sketches(patterns: Sequence[str], *, keep_going: bool = False) -> FileSketch:
    """Read sketches from files, and add them up.

    Parameters
    ----------
    patterns : sequence of str
        Names of files, or patterns such as ``'logs/*.cal'``.
    keep_going : bool
        Whether a file that cannot be read or added is left out.

    Returns
    -------
    FileSketch
        The sketch of all.

    Raises
    ------
    FileError
        For a file that is not a sketch, is damaged, has an unknown version, or was made in another way than the first.
    """
    paths = expand(patterns)
    total: CalibrationSketch | None = None
    rows: dict[str, int] = {}
    omitted: list[Omitted] = []
    failure: FileError | None = None
    for path in paths:
        try:
            sketch = _read(path)
            if total is None:
                total = sketch
            else:
                try:
                    total.merge(sketch)
                except InputError as error:
                    problem = f"cannot be merged with {next(iter(rows))}: expected {error.expected}, got {error.got}"
                    raise FileError(
                        path, problem, "merge only sketches that were made with the same settings"
                    ) from None
        except FileError as error:
            if not keep_going:
                raise
            failure = failure or error
            omitted.append(Omitted(path, error.problem))
        else:
            rows[path] = sketch.n
    if total is None:
        raise failure or FileError(paths[0], "contains no sketch", "name another file")
    return FileSketch(sketch=total, sources={}, paths=tuple(rows), rows=tuple(rows.values()), omitted=tuple(omitted))


def write_sketch(sketch: CalibrationSketch, path: str) -> None:
    """Write a sketch to a file, as a whole or not at all.

    Raises
    ------
    FileError
        Where it cannot be written; the file is then unchanged.
    """
    replace_file(path, sketch.to_bytes())


def is_sketch_file(path: str) -> bool:
    """Whether a file holds a sketch, by its ending or by the beginning of its JSON: a sketch or a report with one."""
    if not path.lower().endswith(".json"):
        return kind_of(path) == "sketch"
    check_bytes(path)
    with reading(path), open(located(path), "rb") as stream:
        head = stream.read(64).lstrip()
    return head.startswith(_JSON) or _REPORT.match(head.decode("utf-8", "replace")) is not None


def event_sketch(
    read: FilePredictions | FileSketch,
    *,
    notion: Notion | None,
    ignore_index: int | None,
    logits: bool,
    weights_are: WeightsAre | None,
    groups: int,
) -> CalibrationSketch:
    """Return the sketch of the evaluated event, without curves of classes: all that a later comparison needs.

    ``groups`` is how many groups the report has. More than a ``.cal`` holds are left out.
    """
    if isinstance(read, FileSketch):
        return read.sketch.of_event()
    sketch = CalibrationSketch(notion=notion, class_names=read.class_names)
    sketch.update(
        read.probs,
        read.targets,
        weights=read.weights,
        ignore_index=ignore_index,
        logits=logits,
        groups=read.groups if groups < MOST_CURVES else None,
        clusters=read.clusters,
        weights_are=weights_are,
    )
    return sketch


def sketch_as_text(sketch: CalibrationSketch) -> str:
    """Return the bytes of a sketch as base64, for the JSON of a report."""
    return base64.b64encode(sketch.to_bytes()).decode()


def _read(path: str) -> CalibrationSketch:
    if not is_sketch_file(path):
        raise FileError(path, "is not a .cal file", _REMEDY)
    if path.lower().endswith(".json"):
        with reading(path), opened(located(path), _REMEDY, MOST_BYTES) as stream:
            text = stream.read().decode()
        with of_file(path):
            return _of_report(path, text) if _REPORT.match(text) else CalibrationSketch.from_json(text)
    check_bytes(path)
    try:
        return CalibrationSketch.load(located(path))
    except FileError as error:  # under its own name, not that of a copy
        raise FileError(path, error.problem, error.remedy) from None


def _of_report(path: str, text: str) -> CalibrationSketch:
    """Return the sketch in the JSON of a report."""
    name = Path(path).name
    remedy = _REPORT_REMEDY.format(name, Path(name).with_suffix(".cal"))
    with reading(path, remedy, "contains a damaged report"):
        content: dict[str, Any] = parsed(text)
    if "sketch" not in content:
        raise _without_sketch(path, content, remedy)
    try:
        data = base64.b64decode(content["sketch"], validate=True)
    except (TypeError, ValueError) as error:
        raise FileError(path, f"contains a report whose key 'sketch' is not valid base64 ({error})", remedy) from None
    try:
        return CalibrationSketch.from_bytes(data)
    except InputError as error:
        problem = f"contains a report with a damaged key 'sketch': expected {error.expected}, got {error.got}"
        raise FileError(path, problem, remedy) from None


def _without_sketch(path: str, content: dict[str, Any], remedy: str) -> FileError:
    """Return the error of a report, or of a comparison, that holds no sums."""
    if "models" in content:
        return FileError(
            path, "contains a comparison, not a report on one model", "name the report files of the models"
        )
    if content.get("notion") in PER_CLASS:
        problem = f"contains a report on every class ({content['notion']}), but a comparison evaluates only one event"
        return FileError(
            path, problem, "write a report on the column of one class, or a report with --notion top-label"
        )
    problem = "contains a report without a sketch (as printed by --json -), and a comparison needs the sketch"
    return FileError(path, problem, remedy)
