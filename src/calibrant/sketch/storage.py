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
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError
from calibrant.inputs.conversion import import_pyarrow
from calibrant.results.envelope import InvalidContent, digest_of, listed, parsed, require
from calibrant.sketch.content import (
    SKETCH,
    Columns,
    Content,
    cell_names,
    columns_of_cells,
    content_of,
    head_of,
    require_version,
)

if TYPE_CHECKING:
    import pyarrow as pa

#: The versions of the bytes: without and with clusters, which earlier readers would leave out.
CONTAINER_VERSIONS: Final = (2, 3)

#: The most bytes of a stored sketch: 500 curves of 8,000 cells with weights have a quarter of it.
MOST_BYTES: Final = 1 << 30

_FIRST_MEMBER: Final = re.compile(rb"PK\x03\x04.{26}sketch-([0-9]{1,9})\.json", re.DOTALL)
_MAGIC_1: Final = b"\x89calsketch\r\n\n"
_NUMBERS_1: Final = struct.Struct("<IQ")
_DIGEST: Final = 64  # characters of a SHA-256

#: What NumPy writes before the numbers of an array. NumPy's own reader evaluates it as Python.
_ARRAY: Final = re.compile(
    rb"\x93NUMPY\x01\x00(..)"
    rb"\{'descr': '([<|][fiu][1248])', 'fortran_order': False, 'shape': \(([0-9]{1,15}),\), \} *\n",
    re.DOTALL,
)
_STORED_AS: Final = {"<i8": ("|i1", "<i2", "<i4", "<i8"), "<f8": ("<f8",), "<u8": ("<u8",)}


# ---------------------------------------------------------------- bytes


def to_bytes(content: Content) -> bytes:
    """Return the sketch as bytes."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        _write(
            archive,
            f"sketch-{CONTAINER_VERSIONS[content.clustered]}.json",
            json.dumps(head_of(content), allow_nan=False).encode(),
        )
        for name, column in columns_of_cells(content).items():
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
        remedy = "pass the bytes that CalibrationSketch.to_bytes returned"
        raise InputError("data", "bytes", f"a {type(data).__name__}", remedy)
    data = bytes(data)
    if not is_sketch(data):
        raise SKETCH.foreign("data", f"bytes that begin with {repr(data[:16]) if data else 'nothing'}")
    first = _FIRST_MEMBER.match(data)
    if first is None:
        return _from_version_1(data)
    version = int(first[1])
    SKETCH.check_version(version, "data", CONTAINER_VERSIONS)
    SKETCH.check_sum(data[-_DIGEST:] == hashlib.sha256(data[:-_DIGEST]).hexdigest().encode(), "data")
    with SKETCH.restoring("data"):
        members = _Members(data)
        head = parsed(members.read(f"sketch-{version}.json"))
        require_version(version, CONTAINER_VERSIONS, clustered="clusters" in head)
        return content_of(head, members.columns, "data")


class _Members:
    """The members of an archive. All that are read together have no more bytes than the archive."""

    def __init__(self, data: bytes) -> None:
        self._archive = zipfile.ZipFile(io.BytesIO(data))
        self._left = len(data)

    def read(self, name: str) -> bytes:
        """Return a member, which is not compressed."""
        member = self._archive.getinfo(name)
        plain = member.compress_type == zipfile.ZIP_STORED and member.file_size == member.compress_size
        require(plain, "a compressed archive member")
        self._left -= member.file_size
        require(self._left >= 0, "archive members that overlap")
        return self._archive.read(member)

    def columns(self, types: dict[str, str]) -> Columns:
        """Return columns of numbers in their types."""
        return {name: self._column(name, kind) for name, kind in types.items()}

    def _column(self, name: str, kind: str) -> NDArray[Any]:
        data = self.read(f"{name}.npy")
        header = _ARRAY.match(data)
        if header is not None and int.from_bytes(header[1], "little") == header.end() - 10:
            stored_as = header[2].decode()
            require(stored_as in _STORED_AS[kind], f"a column {name!r} of type {stored_as}")
            column = np.frombuffer(data, stored_as, offset=header.end())
            if len(column) == int(header[3]):
                return column.astype(kind)
        msg = f"a column {name!r} that is not an array of the announced length"
        raise InvalidContent(msg)


def _from_version_1(data: bytes) -> Content:
    """Return what version 1 wrote: sizes, the head as JSON, the columns with 8 bytes a number, the SHA-256."""
    start = len(_MAGIC_1) + _NUMBERS_1.size
    if len(data) >= start:
        SKETCH.check_version(_NUMBERS_1.unpack_from(data, len(_MAGIC_1))[0], "data", (1,))
    SKETCH.check_sum(len(data) >= start + 32 and hashlib.sha256(data[:-32]).digest() == data[-32:], "data")
    stop = start + _NUMBERS_1.unpack_from(data, len(_MAGIC_1))[1]

    def columns(types: dict[str, str]) -> Columns:
        cells = np.frombuffer(data[stop:-32], dtype="<i8").reshape(len(types), -1)
        return {name: cell.view(kind) for cell, (name, kind) in zip(cells, types.items(), strict=True)}

    with SKETCH.restoring("data"):
        return content_of(parsed(data[start:stop]), columns, "data")


# ---------------------------------------------------------------- JSON


def to_json(content: Content) -> str:
    """Return the sketch as JSON."""
    columns = {name: column.tolist() for name, column in columns_of_cells(content).items()}
    return json.dumps(SKETCH.sealed({**head_of(content), "cells": columns}), allow_nan=False, ensure_ascii=False)


def from_json(text: Any) -> Content:
    """Return what `to_json` wrote."""
    content = SKETCH.unsealed(text, "text")
    with SKETCH.restoring("text"):
        return content_of(content, partial(_from_lists, content["cells"]), "text")


def _from_lists(columns: Any, types: dict[str, str]) -> Columns:
    """Return columns of Python's numbers as arrays."""
    lists = {name: listed(columns[name], float if kind == "<f8" else int) for name, kind in types.items()}
    return {name: np.array(column, types[name]) for name, column in lists.items()}


# ---------------------------------------------------------------- Arrow


def to_arrow(content: Content) -> pa.Table:
    """Return the occupied cells as an Arrow table, the head and the sums over buckets in the schema's metadata."""
    pa = import_pyarrow()
    columns, head = columns_of_cells(content), head_of(content)
    lists = {name: column.tolist() for name, column in columns.items()}
    cells = {name: columns.pop(name) for name in cell_names(weighted=content.weighted)}
    metadata = {
        "calibrant.sketch": json.dumps(head, allow_nan=False),
        "calibrant.sha256": digest_of({**head, "cells": lists}),
    }
    if columns:
        metadata["calibrant.clusters"] = json.dumps({name: lists[name] for name in columns}, allow_nan=False)
    return pa.table(cells).replace_schema_metadata(metadata)


def from_arrow(table: Any) -> Content:
    """Return what `to_arrow` wrote."""
    metadata = getattr(getattr(table, "schema", None), "metadata", None) or {}
    if b"calibrant.sketch" not in metadata:
        got = f"metadata {sorted(key.decode(errors='replace') for key in metadata) or 'missing'}"
        raise InputError("table", "a pyarrow.Table with the metadata of a sketch", got, "write the table with to_arrow")

    def columns(types: dict[str, str]) -> Columns:
        names = [name for name in types if "." not in name]  # the others are those of clusters
        missing = [name for name in names if name not in table.column_names]
        if missing:
            raise InputError("table", f"columns {', '.join(names)}", f"no column {missing[0]!r}", SKETCH.remedy)
        cells = {name: _from_column(table.column(name), name, types.pop(name)) for name in names}
        clusters = parsed(metadata.get(b"calibrant.clusters", b"{}"))
        lists = {name: cell.tolist() for name, cell in cells.items()} | clusters
        SKETCH.check_sum(digest_of({**stored, "cells": lists}).encode() == metadata.get(b"calibrant.sha256"), "table")
        return cells | _from_lists(clusters, types)

    with SKETCH.restoring("table"):
        stored = parsed(metadata[b"calibrant.sketch"])
        return content_of(stored, columns, "table")


def _from_column(column: Any, name: str, kind: str) -> NDArray[Any]:
    """Return a column of numbers; other types may promise more rows than they hold."""
    known = ("double",) if kind == "<f8" else ("int8", "int16", "int32", "int64")
    reason = f"a column {name!r} of type {column.type} with {column.null_count:,} nulls"
    require(str(column.type) in known and not column.null_count, reason)
    return np.ascontiguousarray(column.to_numpy(), kind)
