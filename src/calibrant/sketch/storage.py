"""Sketches as bytes, JSON and Arrow tables: versioned, checksummed, every number to the last bit.

All three hold a *head*, a plain dictionary of the settings and the totals, and *cells*, columns with a row per occupied
cell of each group and curve. The bytes are an ``.npz`` that `numpy.load` opens: the head as JSON in a member whose name
has the version, and an array for each column, its integers as narrow as they fit. Nothing is compressed: compressors
differ, and a sketch must have the same bytes everywhere. The comment of the archive is the SHA-256 of all before it.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import struct
import zipfile
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant import grid as grids
from calibrant.clusters import CLASS_CELLS, COLUMNS, EVENT_CELLS, ClusterSums, columns_of, from_arrays, settings_of
from calibrant.errors import InputError, MissingDependencyError
from calibrant.faults import Fault
from calibrant.notions import DEFAULTS, NOTIONS
from calibrant.sketch.sums import Curves, SketchConfig, SketchSums, Totals

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    import pyarrow as pa

#: The versions of the bytes, and those of the head with the cells as JSON and Arrow tables hold them: without and with
#: clusters, which earlier readers would leave out.
CONTAINER_VERSIONS: Final = (2, 3)
VERSIONS: Final = (1, 2)

_FIRST_MEMBER: Final = re.compile(rb"PK\x03\x04.{26}sketch-([0-9]+)\.json", re.DOTALL)
_MAGIC_1: Final = b"\x89calsketch\r\n\n"
_NUMBERS_1: Final = struct.Struct("<IQ")
_DIGEST: Final = 64  # characters of a SHA-256

_SUMS: Final = ("score_sum_0", "score_sum_1", "square_sum")
_COUNTS: Final = ("count_0", "count_1")
_SQUARES: Final = ("square_weight_0", "square_weight_1")
_PLACES: Final = ("group", "curve", "cell")
_FOREIGN: Final = "pass what CalibrationSketch wrote"
_DAMAGED: Final = "read it again, or make the sketch anew"

Columns = dict[str, NDArray[Any]]


class Content(NamedTuple):
    """All that a sketch holds: the part of all rows first, then those of its groups; no part where it is empty."""

    make: SketchConfig
    groups: list[str]
    parts: list[SketchSums]

    @property
    def weighted(self) -> bool:
        """Whether any part has had weights."""
        return any(part.curves.squares is not None for part in self.parts)

    @property
    def clustered(self) -> bool:
        """Whether clusters are known."""
        return any(part.clusters is not None for part in self.parts)


def _head_of(content: Content) -> dict[str, Any]:
    """Return everything but the cells, as plain Python."""
    make, parts = content.make, content.parts
    names = None if make.class_names is None else list(make.class_names)
    clusters = [[settings_of(sums) for sums in part.clusters.parts] for part in parts if part.clusters is not None]
    return {
        "calibrant.sketch": VERSIONS[content.clustered],
        **{**asdict(make), "class_names": names},
        "edges": grids.GRIDS[make.grid],
        "weighted": content.weighted,
        "groups": content.groups,
        "totals": [asdict(part.totals) for part in parts],
        "rows": [part.curves.rows.tolist() for part in parts],
        "kinds": [part.curves.squares is not None for part in parts],
        **({"clusters": clusters} if clusters else {}),
    }


def _columns_of(content: Content) -> Columns:
    """Return the occupied cells of all parts, that of all rows as group -1, and the sums over buckets of clusters."""
    names = _cell_names(weighted=content.weighted)
    kinds = _kinds(names)
    pieces: dict[str, list[NDArray[Any]]] = {name: [np.zeros(0)] for name in names}
    for group, (_, curves, _) in enumerate(content.parts, start=-1):
        curve, cell = np.nonzero(curves.counts.any(axis=2))
        counts = curves.counts[curve, cell]
        squares = counts if curves.squares is None else curves.squares[curve, cell]
        columns = (np.full(len(cell), group), curve, cell, *counts.T, *curves.sums[curve, cell].T, *squares.T)
        for name, column in zip(names, columns, strict=False):  # without weights the squares are the counts
            pieces[name].append(column)
    cells = {name: np.concatenate([column.astype(kinds[name]) for column in pieces[name]]) for name in names}
    return cells | _cluster_columns(content)


def _cluster_columns(content: Content) -> Columns:
    """Return the sums over buckets of clusters, each of its own length."""
    columns: Columns = {}
    for place, part in enumerate(content.parts):
        for curve, sums in enumerate(() if part.clusters is None else part.clusters.parts):
            columns |= {_cluster_name(place, curve, name): column for name, column in columns_of(sums).items()}
    kinds = _kinds(columns)
    return {name: column.astype(kinds[name]) for name, column in columns.items()}


def _cluster_name(part: int, curve: int, name: str) -> str:
    return f"clusters.{part}.{curve}.{name}"


def _names(head: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of all columns."""
    clusters = (
        _cluster_name(part, curve, name)
        for part, curves in enumerate(head.get("clusters", ()))
        for curve in range(len(curves))
        for name in COLUMNS
    )
    return (*_cell_names(weighted=bool(head["weighted"])), *clusters)


def _cell_names(*, weighted: bool) -> tuple[str, ...]:
    return (*_PLACES, *_COUNTS, *_SUMS, *(_SQUARES if weighted else ()))


def _kinds(names: Collection[str]) -> dict[str, str]:
    """Return the type of each column."""
    integers = {*_PLACES, "bucket", *(() if _SQUARES[0] in names else _COUNTS)}
    kinds = {name: name.rpartition(".")[2] for name in names}
    return {name: "<u8" if kind == "hashes" else "<i8" if kind in integers else "<f8" for name, kind in kinds.items()}


def same(one: Content, other: Content) -> bool:
    """Whether two sketches hold the same, bit for bit."""
    if _head_of(one) != _head_of(other):
        return False
    a, b = _columns_of(one), _columns_of(other)
    return all(np.array_equal(a[name], b[name]) for name in a)


# ---------------------------------------------------------------- bytes


def to_bytes(content: Content) -> bytes:
    """Return the sketch as bytes."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        _write(
            archive,
            f"sketch-{CONTAINER_VERSIONS[content.clustered]}.json",
            json.dumps(_head_of(content), allow_nan=False).encode(),
        )
        for name, column in _columns_of(content).items():
            array = io.BytesIO()
            np.lib.format.write_array(array, _narrowed(column), version=(1, 0), allow_pickle=False)
            _write(archive, f"{name}.npy", array.getvalue())
        archive.comment = bytes(_DIGEST)
    body = stream.getvalue()[:-_DIGEST]
    return body + hashlib.sha256(body).hexdigest().encode()


def _write(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    member = zipfile.ZipInfo(name)  # with the date that every member has without one
    member.create_system = 3  # Unix, on every system
    archive.writestr(member, data)


def _narrowed(column: NDArray[Any]) -> NDArray[Any]:
    """Return integers in the narrowest type that holds all of them."""
    if column.dtype.kind != "i":
        return column
    ends = np.array([column.min(initial=0), column.max(initial=0)])
    kinds = ("<i1", "<i2", "<i4", "<i8")
    return column.astype(next(kind for kind in kinds if np.array_equal(ends.astype(kind), ends)))


def is_sketch(data: bytes) -> bool:
    """Whether the first bytes are those of a sketch, of any version."""
    return data.startswith(_MAGIC_1) or _FIRST_MEMBER.match(data) is not None


def from_bytes(data: Any) -> Content:
    """Return what `to_bytes` wrote, or that of version 1."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise InputError("data", "bytes", f"a {type(data).__name__}", "pass what CalibrationSketch.to_bytes returned")
    data = bytes(data)
    if not is_sketch(data):
        head = repr(data[:16]) if data else "nothing"
        raise InputError("data", "a calibrant sketch", f"bytes that begin with {head}", _FOREIGN, fault=Fault.FOREIGN)
    first = _FIRST_MEMBER.match(data)
    if first is None:
        return _from_version_1(data)
    _check_version(int(first[1]), "data", CONTAINER_VERSIONS)
    _check_digest(data[-_DIGEST:] == hashlib.sha256(data[:-_DIGEST]).hexdigest().encode(), data)
    return _built(lambda: _parts_of(data, int(first[1])), "data")


def _parts_of(data: bytes, version: int) -> tuple[dict[str, Any], Columns]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        head = json.loads(archive.read(f"sketch-{version}.json"))
        return head, {name: _read_column(archive, name) for name in _names(head)}


def _read_column(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """Return a column; it takes no more memory than the bytes that hold it."""
    member = archive.getinfo(f"{name}.npy")
    if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
        raise TypeError("a compressed member")
    stream = io.BytesIO(archive.read(member))
    np.lib.format.read_magic(stream)
    shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    column: NDArray[Any] = np.frombuffer(stream.read(), dtype)  # does not trust the shape; refuses Python objects
    if column.shape != shape or dtype.kind not in "iuf":
        msg = f"a column of shape {shape} and type {dtype}"
        raise TypeError(msg)
    return column


def _from_version_1(data: bytes) -> Content:
    """Return what version 1 wrote: sizes, the head as JSON, the columns with 8 bytes a number, the SHA-256."""
    start = len(_MAGIC_1) + _NUMBERS_1.size
    if len(data) >= start:
        _check_version(_NUMBERS_1.unpack_from(data, len(_MAGIC_1))[0], "data", (1,))
    _check_digest(len(data) >= start + 32 and hashlib.sha256(data[:-32]).digest() == data[-32:], data)

    def parts() -> tuple[dict[str, Any], Columns]:
        length = _NUMBERS_1.unpack_from(data, len(_MAGIC_1))[1]
        head = json.loads(data[start : start + length])
        names = _cell_names(weighted=bool(head["weighted"]))
        cells = np.frombuffer(data[start + length : -32], dtype="<i8").reshape(len(names), -1)
        return head, {name: cell.view(kind) for cell, (name, kind) in zip(cells, _kinds(names).items(), strict=True)}

    return _built(parts, "data")


def _check_digest(matches: bool, data: bytes) -> None:
    if not matches:
        got = f"{len(data):,} bytes that do not: they are cut or changed"
        raise InputError("data", "a sketch that matches its checksum", got, _DAMAGED)


def _check_version(version: Any, argument: str, known: Sequence[int] = VERSIONS) -> None:
    if version not in known:
        remedy, expected = "read it with the calibrant that wrote it, or a newer one", " or ".join(map(str, known))
        raise InputError(argument, f"a sketch of version {expected}", f"version {version}", remedy)


# ---------------------------------------------------------------- JSON


def to_json(content: Content) -> str:
    """Return the sketch as JSON."""
    columns = {name: column.tolist() for name, column in _columns_of(content).items()}
    whole = {**_head_of(content), "cells": columns}
    return json.dumps({**whole, "sha256": _digest(whole)}, allow_nan=False, ensure_ascii=False)


def _digest(content: dict[str, Any]) -> str:
    """Return the checksum of JSON content, whatever its layout."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def from_json(text: Any) -> Content:
    """Return what `to_json` wrote."""
    try:
        content = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError("text", "JSON", f"invalid JSON ({error})", _FOREIGN, fault=Fault.FOREIGN) from None
    if not isinstance(content, dict) or "calibrant.sketch" not in content:
        raise InputError("text", "a calibrant sketch", "other JSON", _FOREIGN, fault=Fault.FOREIGN)
    _check_version(content["calibrant.sketch"], "text")
    if _digest({name: value for name, value in content.items() if name != "sha256"}) != content.get("sha256"):
        got = "one that does not: it is cut or changed"
        raise InputError("text", "a sketch that matches its checksum", got, _DAMAGED)
    return _built(lambda: (content, content["cells"]), "text")


# ---------------------------------------------------------------- Arrow


def to_arrow(content: Content) -> pa.Table:
    """Return the occupied cells as an Arrow table, the head and the sums over buckets in the schema's metadata."""
    try:
        import pyarrow as pa
    except ImportError:
        raise MissingDependencyError("pyarrow", "to exchange Arrow tables", "report") from None
    columns, head = _columns_of(content), _head_of(content)
    lists = {name: column.tolist() for name, column in columns.items()}
    cells = {name: columns.pop(name) for name in _cell_names(weighted=content.weighted)}
    metadata = {
        "calibrant.sketch": json.dumps(head, allow_nan=False),
        "calibrant.sha256": _digest({**head, "cells": lists}),
    }
    if columns:
        metadata["calibrant.clusters"] = json.dumps({name: lists[name] for name in columns}, allow_nan=False)
    return pa.table(cells).replace_schema_metadata(metadata)


def from_arrow(table: Any) -> Content:
    """Return what `to_arrow` wrote."""
    metadata = getattr(getattr(table, "schema", None), "metadata", None) or {}
    if b"calibrant.sketch" not in metadata:
        got = f"metadata {sorted(key.decode(errors='replace') for key in metadata) or 'missing'}"
        raise InputError("table", "a pyarrow.Table with a sketch's metadata", got, "write it with to_arrow")
    head = json.loads(metadata[b"calibrant.sketch"])
    _check_version(head["calibrant.sketch"], "table")
    names = _cell_names(weighted=bool(head["weighted"]))
    missing = [name for name in names if name not in table.column_names]
    if missing:
        raise InputError("table", f"columns {', '.join(names)}", f"no column {missing[0]!r}", _DAMAGED)
    columns = {name: np.ascontiguousarray(table.column(name).to_numpy()) for name in names}
    clusters = json.loads(metadata.get(b"calibrant.clusters", b"{}"))
    content = {**head, "cells": {**{name: column.tolist() for name, column in columns.items()}, **clusters}}
    if _digest(content).encode() != metadata.get(b"calibrant.sha256"):
        raise InputError("table", "a sketch that matches its checksum", "rows that do not", _DAMAGED)
    return _built(lambda: (head, {**columns, **clusters}), "table")


# ---------------------------------------------------------------- putting together


def _built(parts: Callable[[], tuple[dict[str, Any], Any]], argument: str) -> Content:
    """Put a sketch together; what is not laid out like one is damaged, whoever computed its checksum."""
    try:
        head, columns = parts()
        kinds = _kinds(_names(head))
        return _build(head, {name: np.array(columns[name], kind) for name, kind in kinds.items()}, argument)
    except (InputError, MemoryError):
        raise
    except Exception as error:  # forged parts fail in any of a dozen ways: no shorter list would be complete
        raise InputError(argument, "the parts of a sketch", f"others ({error!r})", _DAMAGED) from None


def _build(head: dict[str, Any], columns: Columns, argument: str) -> Content:
    """Put a sketch together and hold it against what every sketch fulfils."""
    grid = head["grid"]
    if grid not in grids.GRIDS or head["edges"] != grids.GRIDS[grid]:
        got = f"edges of checksum {str(head['edges'])[:12]}"
        raise InputError(argument, f"the edge table of the grid {grid!r}", got, "use the calibrant that wrote it")
    settings = {entry.name: head[entry.name] for entry in fields(SketchConfig)}
    names = settings["class_names"]
    make = SketchConfig(**{**settings, "class_names": None if names is None else tuple(names)})
    if any(len(rows) != make.n_curves for rows in head["rows"]):  # before memory is taken for them
        raise InputError(argument, f"{make.n_curves} curves", "another number", _DAMAGED)
    parts = []
    heads = zip(head["totals"], head["rows"], head["kinds"], strict=True)
    clusters = _clusters(head, columns, argument)
    cells = {name: columns[name] for name in _cell_names(weighted=bool(head["weighted"]))}
    for group, (totals, rows, weighted) in enumerate(heads, start=-1):
        of_group = {name: column[cells["group"] == group] for name, column in cells.items()}
        curves = _curves(of_group, rows, grid, weighted=weighted)
        parts.append(SketchSums(Totals.of_stored(totals), curves, clusters[group + 1]))
    content = Content(make, head["groups"], parts)
    if not _sound(content):
        raise InputError(argument, "counts and sums of predictions", "others", _DAMAGED)
    return content


def _clusters(head: dict[str, Any], columns: Columns, argument: str) -> list[ClusterSums | None]:
    """Return the sums over buckets of each part."""
    if "clusters" not in head:
        return [None] * len(head["totals"])
    found: list[ClusterSums | None] = []
    for part, curves in enumerate(head["clusters"]):
        event, *classes = (
            from_arrays(
                {**settings, **{name: columns[_cluster_name(part, curve, name)] for name in COLUMNS}},
                cells=CLASS_CELLS if curve else EVENT_CELLS,
                argument=argument,
            )
            for curve, settings in enumerate(curves)
        )
        found.append(ClusterSums(event, tuple(classes)))
    return found


def _curves(columns: Columns, rows: list[int], grid: grids.Grid, *, weighted: bool) -> Curves:
    curves = Curves.empty(len(rows), grid)
    at = columns["curve"], columns["cell"]
    if any(np.any(places < 0) for places in at):
        raise IndexError("a cell below 0")
    counts = np.stack([columns[name] for name in _COUNTS], axis=-1)
    curves.counts = curves.counts.astype(np.float64 if weighted else np.int64)
    curves.counts[at] = counts
    curves.sums[at] = np.stack([columns[name] for name in _SUMS], axis=-1)
    if weighted:
        curves.squares = np.zeros(curves.counts.shape)
        curves.squares[at] = np.stack([columns[name] for name in _SQUARES], axis=-1)
    curves.rows[:] = rows
    return curves


def _sound(content: Content) -> bool:
    """Whether these are sums of predictions, should somebody have written others with a checksum of their own."""
    make = content.make
    if not content.parts:
        return make.layout is None and not content.groups
    if make.layout not in DEFAULTS or make.notion not in NOTIONS or len(content.parts) != len(content.groups) + 1:
        return False
    for totals, curves, clusters in content.parts:
        counts, sums = curves.counts, curves.sums
        whole = all(getattr(totals, entry.name) >= 0 for entry in fields(totals)) and len(counts) == make.n_curves
        if not (whole and (counts >= 0).all() and (sums >= 0).all() and np.isfinite(sums).all()):
            return False
        if not (sums[..., :2] <= counts * (1 + 1e-9)).all():
            return False
        if clusters is not None and not _same_weights(clusters, counts):
            return False
    return True


def _same_weights(clusters: ClusterSums, counts: NDArray[Any]) -> bool:
    """Return whether the buckets hold the rows of the curves."""
    own, weights = counts.sum(axis=(1, 2)), np.array([part.weight.sum() for part in clusters.parts])
    return len(own) == len(weights) and bool(np.allclose(weights, own, rtol=1e-9, atol=0))
