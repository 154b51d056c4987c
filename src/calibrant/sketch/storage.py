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
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError
from calibrant.errors.faults import Fault
from calibrant.inputs.arrays import import_pyarrow
from calibrant.results.reading import parsed
from calibrant.sketch.checks import Head, check_version, checked_head, put_together
from calibrant.sketch.content import (
    Columns,
    Content,
    Foreign,
    cell_names,
    cluster_names,
    columns_of_cells,
    head_of,
    types_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

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

_FOREIGN: Final = "pass a sketch that CalibrationSketch wrote"
_DAMAGED: Final = "read the sketch again, or make a new sketch"


def _loaded(parts: Callable[[], tuple[Any, Callable[[Head], Columns]]], argument: str) -> Content:
    """Return a sketch, from what reads its stored head and returns what then reads its columns.

    Every format is loaded here. The head is checked, with the sizes that it promises, before any column is read.

    Raises
    ------
    InputError
        For anything but a sketch: whoever wrote it may have computed the checksum too.
    """
    try:
        stored, columns = parts()
        head = checked_head(stored, argument)
        return put_together(head, columns(head), argument)
    except InputError:
        raise
    except Foreign as error:
        reason = str(error)
    except Exception as error:  # forged parts fail in any of a dozen ways: no shorter list would be complete
        reason = f"{error!r:.100}"
    raise InputError(argument, "a valid sketch", f"an invalid sketch ({reason})", _DAMAGED)


def _types(head: Head) -> dict[str, str]:
    """Return the types of all columns, by their names."""
    return types_of((*cell_names(weighted=head.weighted), *cluster_names(head.curves_in_clusters)))


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
        raise InputError(
            "data", "bytes", f"a {type(data).__name__}", "pass the bytes that CalibrationSketch.to_bytes returned"
        )
    data = bytes(data)
    if not is_sketch(data):
        head = repr(data[:16]) if data else "nothing"
        raise InputError("data", "a calibrant sketch", f"bytes that begin with {head}", _FOREIGN, fault=Fault.FOREIGN)
    first = _FIRST_MEMBER.match(data)
    if first is None:
        return _from_version_1(data)
    version = int(first[1])
    check_version(version, "data", CONTAINER_VERSIONS)
    _check_digest(data[-_DIGEST:] == hashlib.sha256(data[:-_DIGEST]).hexdigest().encode(), data)

    def parts() -> tuple[Any, Callable[[Head], Columns]]:
        members = _Members(data)
        head = parsed(members.read(f"sketch-{version}.json"))
        if isinstance(head, dict) and CONTAINER_VERSIONS["clusters" in head] != version:
            raise Foreign("clusters that do not match the version")
        return head, members.columns

    return _loaded(parts, "data")


class _Members:
    """The members of an archive. All that are read together have no more bytes than the archive."""

    def __init__(self, data: bytes) -> None:
        self._archive = zipfile.ZipFile(io.BytesIO(data))
        self._left = len(data)

    def read(self, name: str) -> bytes:
        """Return a member, which is not compressed."""
        member = self._archive.getinfo(name)
        if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
            raise Foreign("a compressed archive member")
        self._left -= member.file_size
        if self._left < 0:
            raise Foreign("archive members that overlap")
        return self._archive.read(member)

    def columns(self, head: Head) -> Columns:
        """Return all columns."""
        return {name: self._column(name, kind) for name, kind in _types(head).items()}

    def _column(self, name: str, kind: str) -> NDArray[Any]:
        data = self.read(f"{name}.npy")
        array = _ARRAY.match(data)
        if array is None or int.from_bytes(array[1], "little") != array.end() - 10:
            msg = f"a column {name!r} that is not an array of numbers"
            raise Foreign(msg)
        stored_as = array[2].decode()
        if stored_as not in _STORED_AS[kind]:
            msg = f"a column {name!r} of type {stored_as}"
            raise Foreign(msg)
        column = np.frombuffer(data, stored_as, offset=array.end())
        if len(column) != int(array[3]):
            msg = f"a column {name!r} whose length differs from the announced length"
            raise Foreign(msg)
        return column.astype(kind)


def _from_version_1(data: bytes) -> Content:
    """Return what version 1 wrote: sizes, the head as JSON, the columns with 8 bytes a number, the SHA-256."""
    start = len(_MAGIC_1) + _NUMBERS_1.size
    if len(data) >= start:
        check_version(_NUMBERS_1.unpack_from(data, len(_MAGIC_1))[0], "data", (1,))
    _check_digest(len(data) >= start + 32 and hashlib.sha256(data[:-32]).digest() == data[-32:], data)
    stop = start + _NUMBERS_1.unpack_from(data, len(_MAGIC_1))[1]

    def columns(head: Head) -> Columns:
        names = cell_names(weighted=head.weighted)
        cells = np.frombuffer(data[stop:-32], dtype="<i8").reshape(len(names), -1)
        return {name: cell.view(kind) for cell, (name, kind) in zip(cells, types_of(names).items(), strict=True)}

    return _loaded(lambda: (parsed(data[start:stop]), columns), "data")


def _check_digest(matches: bool, data: bytes) -> None:
    if not matches:
        got = f"{len(data):,} bytes that do not match the checksum, because they were cut or changed"
        raise InputError("data", "a sketch that matches its checksum", got, _DAMAGED)


# ---------------------------------------------------------------- JSON


def to_json(content: Content) -> str:
    """Return the sketch as JSON."""
    columns = {name: column.tolist() for name, column in columns_of_cells(content).items()}
    unsigned = {**head_of(content), "cells": columns}
    return json.dumps({**unsigned, "sha256": _digest(unsigned)}, allow_nan=False, ensure_ascii=False)


def _digest(content: dict[str, Any]) -> str:
    """Return the checksum of JSON content, whatever its layout."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def from_json(text: Any) -> Content:
    """Return what `to_json` wrote."""
    try:
        content = parsed(text)
        version, digest = None, ""
        if isinstance(content, dict) and "calibrant.sketch" in content:
            version = content["calibrant.sketch"]
            digest = _digest({name: value for name, value in content.items() if name != "sha256"})
    except (TypeError, ValueError, MemoryError) as error:
        raise InputError("text", "JSON", f"invalid JSON ({error!s:.100})", _FOREIGN, fault=Fault.FOREIGN) from None
    if not digest:
        raise InputError("text", "a calibrant sketch", "other JSON", _FOREIGN, fault=Fault.FOREIGN)
    check_version(version, "text")
    if digest != content.get("sha256"):
        got = "a sketch that does not match, because it was cut or changed"
        raise InputError("text", "a sketch that matches its checksum", got, _DAMAGED)
    return _loaded(lambda: (content, lambda head: _from_lists(content["cells"], _types(head))), "text")


def _from_lists(columns: Any, types: dict[str, str]) -> Columns:
    """Return columns of Python's numbers as arrays."""
    arrays = {}
    for name, kind in types.items():
        column = columns[name]
        if type(column) is not list or not set(map(type, column)) <= {float if kind == "<f8" else int}:
            msg = f"a column {name!r} with values that are not numbers of type {kind}"
            raise Foreign(msg)
        arrays[name] = np.array(column, kind)
    return arrays


# ---------------------------------------------------------------- Arrow


def to_arrow(content: Content) -> pa.Table:
    """Return the occupied cells as an Arrow table, the head and the sums over buckets in the schema's metadata."""
    pa = import_pyarrow()
    columns, head = columns_of_cells(content), head_of(content)
    lists = {name: column.tolist() for name, column in columns.items()}
    cells = {name: columns.pop(name) for name in cell_names(weighted=content.weighted)}
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
        raise InputError("table", "a pyarrow.Table with the metadata of a sketch", got, "write the table with to_arrow")

    def columns(head: Head) -> Columns:
        types = _types(head)
        names = cell_names(weighted=head.weighted)
        missing = [name for name in names if name not in table.column_names]
        if missing:
            raise InputError("table", f"columns {', '.join(names)}", f"no column {missing[0]!r}", _DAMAGED)
        if table.num_rows > head.most_cells:
            msg = f"{table.num_rows:,} grid cells, but at most {head.most_cells:,} are possible"
            raise Foreign(msg)
        cells = {name: _from_column(table.column(name), name, types[name]) for name in names}
        clusters = parsed(metadata.get(b"calibrant.clusters", b"{}"))
        lists = {name: cell.tolist() for name, cell in cells.items()} | clusters
        content = {**parsed(metadata[b"calibrant.sketch"]), "cells": lists}
        if _digest(content).encode() != metadata.get(b"calibrant.sha256"):
            raise InputError(
                "table", "a sketch that matches its checksum", "rows that do not match the checksum", _DAMAGED
            )
        return cells | _from_lists(clusters, {name: kind for name, kind in types.items() if name not in names})

    return _loaded(lambda: (parsed(metadata[b"calibrant.sketch"]), columns), "table")


def _from_column(column: Any, name: str, kind: str) -> NDArray[Any]:
    """Return a column of numbers; other types may promise more rows than they hold."""
    actual = str(column.type)
    if actual not in (("double",) if kind == "<f8" else ("int8", "int16", "int32", "int64")) or column.null_count:
        msg = f"a column {name!r} of type {actual} with {column.null_count:,} nulls"
        raise Foreign(msg)
    return np.ascontiguousarray(column.to_numpy(), kind)
