"""Results as plain values, and the differences of two of them."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np

import calibrant
from calibrant import CalibrantError
from same_numbers.public import call, members, note

mpl.use("Agg")

#: What needs arguments among the members of results.
_ARGUMENTS: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    "rows_for": lambda _: (0.01,),
    "worse": lambda comparison: (comparison.pairs[0],),
}

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
_HASH = re.compile(r"(\d+ bytes, sha256 )?[0-9a-f]{64}")


# ---------------------------------------------------------------- plain values


def attempt(make: Callable[[], Any], *, deep: bool = False) -> Any:
    """Return what a call returns as a plain value, or its error, and the warnings with it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            value = plain(make(), deep=deep)
        except CalibrantError as error:
            value = {"error": type(error).__name__, "message": clean(str(error))}
    seen = [f"{warning.category.__name__}: {clean(str(warning.message))}" for warning in caught]
    return {"value": value, "warnings": seen} if seen else value


def plain(value: Any, *, deep: bool = False) -> Any:
    """Return a value as what JSON can hold.

    With ``deep`` a result is all its fields, and what each of its documented members returns; else it is its numbers.
    """
    kind = type(value)
    note(kind)
    if isinstance(value, Enum):
        return str(value)
    if value is None or isinstance(value, (bool, int, float)):
        return float(value) if isinstance(value, np.floating) else value
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, bytes):
        return f"{len(value)} bytes, sha256 {hashlib.sha256(value).hexdigest()}"
    if isinstance(value, calibrant.CalibrationSketch):
        return {"json": json.loads(value.to_json()), "bytes": plain(value.to_bytes()), "repr": repr(value)}
    if isinstance(value, calibrant.ReliabilityTable):
        return {part.name: plain(getattr(value, part.name)) for part in fields(value)}
    if deep and is_dataclass(value) and (kind.__module__.partition(".")[0] == "calibrant"):
        return {**_parts(value), **_members(value)}
    if hasattr(value, "to_dict") and kind.__module__.partition(".")[0] == "calibrant":
        return plain(value.to_dict())
    if is_dataclass(value) and not isinstance(value, type):
        return _parts(value, deep=False)
    if isinstance(value, Mapping):
        return {str(key): plain(entry, deep=deep) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry, deep=deep) for entry in value]
    return _foreign(value)


def _parts(value: Any, *, deep: bool = True) -> dict[str, Any]:
    """Return the public fields of a frozen value."""
    names = [part.name for part in fields(value) if part.repr and not part.name.startswith("_")]
    found = {name: getattr(value, name) for name in names}
    return {name: plain(part, deep=deep) for name, part in found.items() if not callable(part)}


def _members(value: Any) -> dict[str, Any]:
    """Return what the documented members of a result return, and its texts."""
    found = {}
    for member in members(type(value)):
        if member == "to_html":
            with tempfile.TemporaryDirectory() as folder:
                found[member] = call(value, member, Path(folder) / "page.html").read_text(encoding="utf-8")
        else:
            found[member] = call(value, member, *_ARGUMENTS.get(member, lambda _: ())(value))
    texts = (
        {"str": str(value), "repr": repr(value)} if isinstance(value, calibrant.Report | calibrant.Comparison) else {}
    )
    return plain({f"{name}()": result for name, result in {**found, **texts}.items()})  # type: ignore[no-any-return]


def _foreign(value: Any) -> Any:
    """Return arrays, tensors, tables and figures of other libraries as plain values."""
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, np.ndarray):
        if value.dtype == object and value.size and hasattr(value.flat[0], "figure"):
            return _foreign(value.flat[0])
        return {"dtype": str(value.dtype), "values": plain(value.tolist())}
    library = type(value).__module__.partition(".")[0]
    if library == "torch":
        return {"dtype": str(value.dtype), "values": plain(value.tolist())}
    if library == "pandas":
        return {"index": plain(list(value.index)), **{str(name): plain(value[name].tolist()) for name in value.columns}}
    if library == "pyarrow":
        return {"schema": str(value.schema), "columns": plain(value.to_pydict())}
    if library == "matplotlib":
        return _drawn(value.figure)
    if isinstance(value, Path):
        return value.name
    msg = f"no plain form of a {type(value).__name__}"
    raise TypeError(msg)


def _drawn(figure: Any) -> str:
    """Return a figure as the text of an SVG picture, and close it."""
    import matplotlib.pyplot as plt

    buffer = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "", "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    return clean(buffer.getvalue())


def artists(axes: Any) -> list[Any]:
    """Return the lines, areas, marks and texts of a figure, in their order, and close it."""
    import matplotlib.pyplot as plt
    from matplotlib.collections import Collection
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.text import Text

    figure = (axes.flat[0] if isinstance(axes, np.ndarray) else axes).figure
    found: list[Any] = []
    for artist in figure.findobj():
        if isinstance(artist, Line2D):
            found.append([artist.get_label(), artist.get_color(), artist.get_linestyle(), artist.get_xydata()])
        elif isinstance(artist, Patch):
            found.append(
                [artist.get_label(), artist.get_facecolor(), artist.get_path().vertices, artist.get_extents().bounds]
            )
        elif isinstance(artist, Collection):
            paths = [path.vertices for path in artist.get_paths()]
            found.append([artist.get_label(), artist.get_facecolor(), artist.get_offsets(), paths])
        elif isinstance(artist, Text):
            found.append([artist.get_text(), artist.get_position()])
    plt.close(figure)
    return found


def clean(text: str) -> str:
    """Return a text without the version of the package."""
    return text.replace(f"calibrant {calibrant.__version__}", "calibrant VERSION").replace("\r\n", "\n")


def leaves(value: Any) -> Iterator[Any]:
    """Yield every number and text of a plain value."""
    if isinstance(value, dict | list):
        for entry in value.values() if isinstance(value, dict) else value:
            yield from leaves(entry)
    else:
        yield value


# ---------------------------------------------------------------- differences


class Difference(NamedTuple):
    """A place where two plain values differ: by rounding alone, or more; or as the hashes of what differs."""

    path: str
    rounding: bool
    words: str
    hashes: bool = False


def differences(before: Any, now: Any) -> list[Difference]:
    """Return the places where two plain values differ, those by rounding last.

    Hashes say nothing of their own: if all numbers differ by rounding alone, so do the hashes of what holds them.
    """
    found = list(_differences(before, now))
    if any(one.rounding for one in found) and all(one.rounding or one.hashes for one in found):
        found = [one._replace(rounding=True) for one in found]
    return sorted(found, key=lambda one: one.rounding)


def _differences(before: Any, now: Any, path: str = "") -> Iterator[Difference]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in before.keys() - now.keys():
            yield Difference(f"{path}.{key}", False, "gone")
        for key in now.keys() - before.keys():
            yield Difference(f"{path}.{key}", False, "new")
        common = [key for key in before if key in now]
        if common != [key for key in now if key in before]:
            yield Difference(path, False, f"another order: {common} -> {[key for key in now if key in before]}")
        for key in common:
            yield from _differences(before[key], now[key], f"{path}.{key}")
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for i, (one, other) in enumerate(zip(before, now, strict=True)):
            yield from _differences(one, other, f"{path}[{i}]")
    elif isinstance(before, list) and isinstance(now, list):
        yield Difference(path, False, f"{len(before)} entries -> {len(now)}")
    elif isinstance(before, str) and isinstance(now, str):
        if before != now:
            hashes = all(_HASH.fullmatch(text) for text in (before, now))
            yield Difference(path, _rounded_text(before, now), _first_line(before, now), hashes)
    elif type(before) is not type(now) or repr(before) != repr(now):  # NaN is NaN, and 0.0 is not -0.0
        yield Difference(path, _rounded(before, now), f"{_short(before)} -> {_short(now)}")


def _rounded(before: Any, now: Any) -> bool:
    """Return whether two numbers differ by rounding alone: by 1e-12, relative."""
    both = (before, now)
    return all(isinstance(x, float) for x in both) and abs(before - now) <= 1e-12 * max(abs(x) for x in both)


def _rounded_text(before: str, now: str) -> bool:
    """Return whether two texts differ by the rounding of numbers in them alone."""
    if _NUMBER.sub("#", before) != _NUMBER.sub("#", now):
        return False
    if _HASH.fullmatch(before):
        return False
    pairs = zip(_NUMBER.findall(before), _NUMBER.findall(now), strict=True)
    return all(one == other or _rounded(float(one), float(other)) for one, other in pairs)


def _first_line(before: str, now: str) -> str:
    """Return the first lines that differ, from where they differ."""
    one, other = before.splitlines(), now.splitlines()
    for i in range(max(len(one), len(other))):
        a, b = (lines[i] if i < len(lines) else "(the end)" for lines in (one, other))
        if a != b:
            start = max(0, next((k for k in range(min(len(a), len(b))) if a[k] != b[k]), min(len(a), len(b))) - 40)
            return f"line {i + 1}: {_short(a[start:])} -> {_short(b[start:])}"
    return "the ends of lines"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
