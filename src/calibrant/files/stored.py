"""Parquet and Arrow files, by pyarrow; where a condition is given, through the engine."""

from __future__ import annotations

import mmap
import os
import re
import shutil
import struct
import tempfile
from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import IO, Any, Final

import numpy as np

from calibrant.errors import CalibrantError, FileError
from calibrant.files.column_options import ColumnSelection
from calibrant.files.engine import Engines, EngineTable, FileTable, batch_rows
from calibrant.files.local import load, located, reading
from calibrant.files.paths import kind_of, utf8_path
from calibrant.files.sql import bracketed, engine_path, literal, period, with_paths
from calibrant.inputs.memory import bytes_in_words, max_memory
from calibrant.runtime.dataclass import dataclass

BATCH = 32_000_000  # bytes
_CELLS_OF_NUMBERS = 1 << 21  # in a batch where all have a fixed width: fewer batches are read faster
_BUFFER = 1 << 16  # bytes of a column that are read at a time: a row group may be larger than the memory
_LARGE = 1 << 26  # bytes of a batch that are read at once, at most
_COPIED = 1 << 20  # bytes that are copied at a time
_NUMBER = re.compile(r"halffloat|float|double|u?int\d+|bool")
_KEPT = 1 << 24  # bytes of a mapped copy that are held in memory
_TEXTS = ("string", "large_string")
_ROWS = "calibrant_rows"  # what the engine calls the rows of a file


class StoredTable(FileTable):
    """A file whose schema says what its columns hold."""

    failure: FileError | None = None  #: why the engine was not given all rows

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._arrow = load("pyarrow", f"to read {os.path.basename(path)}")

    def read_schema(self, schema: Any) -> None:
        """Take over the columns of a schema."""
        self._schema = schema
        self.columns = tuple(schema.names)
        nested = re.compile(r"struct<|map<|(large_|fixed_size_)?list<\w+: (not null )?struct<")
        #: The columns that hold structs, maps or lists of structs.
        self.structs = tuple(field.name for field in schema if nested.match(str(field.type)))
        for field in schema:
            kind = getattr(field.type, "value_type", field.type)  # of a list, or of categories
            if _NUMBER.fullmatch(str(kind)):
                self.dtypes[field.name] = np.dtype(kind.to_pandas_dtype())

    @abstractmethod
    def whole_batches(self) -> Iterator[Any]:
        """Yield all columns as Arrow record batches, whatever they hold."""

    def field(self, name: str) -> Any:
        """Return the field of a column."""
        return self._schema.field(self.columns.index(name))

    def register(self, connection: Any, columns: tuple[str, ...]) -> None:
        """Give columns to the engine as an Arrow stream, which it can read once."""
        schema = self._arrow.schema([field.with_type(self._streamed(field)) for field in map(self.field, columns)])

        def batches() -> Iterator[Any]:
            try:
                for batch in self.batches(ColumnSelection(keys=columns)):
                    yield batch.cast(schema)
            except FileError as error:
                self.failure = error  # the engine turns it into one of its own
                raise

        connection.register(_ROWS, self._arrow.RecordBatchReader.from_batches(schema, batches()))

    def _streamed(self, field: Any) -> Any:
        """Return the type of a column for the engine, which knows no 16-bit floats; each is a 32-bit float too."""
        kind, single = field.type, self._arrow.float32()
        if not self.is_narrow(field.name):
            return kind
        return single if self._arrow.types.is_floating(kind) else self._arrow.list_(single)


class ParquetTable(StoredTable):
    """A Parquet file."""

    def __init__(self, path: str, engines: Engines | None = None) -> None:
        super().__init__(path)
        self._engines = engines or Engines([path])
        self._parquet = load("pyarrow.parquet", f"to read {os.path.basename(path)}")
        with reading(path), self._open() as file:
            self.read_schema(file.schema_arrow)
            self.rows = file.metadata.num_rows

    def _open(self, names: Sequence[str] = ()) -> Any:
        """Open the file; columns of ``names`` come as codes, since a short file may repeat a long text often."""
        # Checksums are verified where the writer stored them.
        return self._parquet.ParquetFile(
            utf8_path(self.path),
            page_checksum_verification=True,
            buffer_size=_BUFFER,
            pre_buffer=False,
            read_dictionary=list(names),
        )

    def batches(self, selection: ColumnSelection) -> Iterator[Any]:
        used = selection.used
        words = {*selection.targets[:1], *selection.groups, *selection.clusters, *selection.keys}
        texts = [name for name in used if name in words and str(self.field(name).type) in _TEXTS]
        numbers = self._are_numbers(used)
        # pyarrow takes a name with a point for a path, too.
        columns = None if self.structs and any("." in name for name in used) else list(used)
        with reading(self.path), self._open(texts) as file:
            for batch in file.iter_batches(self._rows_at_a_time(file, used), columns=columns):
                if not numbers:
                    batch.validate(full=True)  # pyarrow hands on texts that are not UTF-8
                yield batch.select(list(used))

    def whole_batches(self) -> Iterator[Any]:
        with reading(self.path), self._open() as file:
            yield from file.iter_batches()

    def _streamed(self, field: Any) -> Any:
        """Return the type of a column for the engine; texts come as codes."""
        arrow, is_text = self._arrow, str(field.type) in _TEXTS
        return arrow.dictionary(arrow.int32(), arrow.string()) if is_text else super()._streamed(field)

    def _are_numbers(self, columns: Sequence[str]) -> bool:
        return all(_NUMBER.fullmatch(str(self.field(name).type)) for name in columns)

    def _rows_at_a_time(self, file: Any, used: Sequence[str]) -> int:
        """Return how many rows make a batch.

        A short file may hold long lists. DuckDB says how many numbers there are: pyarrow 26 ends the process where the
        statistics of a column are damaged.
        """
        lists = [name for name in used if self.field(name).type.num_fields]
        if not lists or not self.rows:
            return max(batch_rows(len(used)), _CELLS_OF_NUMBERS // len(used) if self._are_numbers(used) else 0)
        nested = " OR ".join(f"starts_with(path_in_schema, {literal(name + ', ')})" for name in lists)
        counts = f"SELECT sum(num_values) FROM parquet_metadata({engine_path(self.path)}) WHERE {nested}"
        with self._engines.connection(f"to read {os.path.basename(self.path)}") as connection:
            numbers = int(connection.execute(counts).fetchone()[0] or 0)
        if numbers * 8 > BATCH:
            first = next(file.iter_batches(1, columns=lists))
            most = self.rows * sum(len(column.flatten()) for column in first.columns)
            if numbers > most:
                problem = (
                    f"has {numbers:,} numbers in lists, but at most {most:,} are expected from the list length in row 1"
                )
                raise FileError(self.path, problem, "give every row a value for each class")
        return min(batch_rows(len(used)), max(1, BATCH * self.rows // max(numbers * 8, 1)))


class ArrowTable(StoredTable):
    """An Arrow IPC file or stream (Feather is one).

    Batches are read one at a time. A batch may be larger than the memory: a file of large batches is copied to the
    disk and the copy is mapped. The user's own file is never mapped, since another program may cut it short.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        load("pyarrow.ipc", f"to read {os.path.basename(path)}")
        with reading(path), self._open(self._arrow.OSFile(utf8_path(path))) as reader:
            self.read_schema(reader.schema)

    @contextmanager
    def _reader(self, columns: tuple[str, ...], *, compressed: bool) -> Iterator[tuple[Any, mmap.mmap | None]]:
        """Yield a reader of all columns, or of only some, and the mapped copy that it reads, if there is one."""
        options = self._arrow.ipc.IpcReadOptions()
        fields = [self.columns.index(name) for name in columns]
        if not self._has_large_batches():
            options.included_fields = fields
            with self._open(self._arrow.OSFile(utf8_path(self.path)), options) as reader:
                yield reader, None
            return
        with tempfile.TemporaryFile() as copy:
            with open(located(self.path), "rb") as stream:
                shutil.copyfileobj(stream, copy, _COPIED)
            copy.flush()
            mapped = mmap.mmap(copy.fileno(), 0, access=mmap.ACCESS_READ)
            if compressed:  # leaving columns out of mere views would copy whole batches
                options.included_fields = fields
            with self._open(self._arrow.BufferReader(self._arrow.py_buffer(mapped)), options) as reader:
                yield reader, mapped

    def _has_large_batches(self) -> bool:
        """Return whether a batch may be too large to be read at once; a stream does not say how many it has."""
        size = os.path.getsize(located(self.path))
        if size <= _LARGE:
            return False
        with self._open(self._arrow.OSFile(utf8_path(self.path))) as reader:
            return size > _LARGE * getattr(reader, "num_record_batches", 0)

    def _open(self, source: Any, options: Any = None) -> Any:
        ipc, start = self._arrow.ipc, source.read(6)
        is_file = start == b"ARROW1"
        if start.startswith(b"FEA1"):
            remedy = "write the file again as version 2, with pandas.read_feather(path).to_feather(path)"
            raise FileError(self.path, "is a Feather file of version 1, but calibrant reads only version 2", remedy)
        source.seek(0)
        return ipc.open_file(source, options=options) if is_file else ipc.open_stream(source, options=options)

    def whole_batches(self) -> Iterator[Any]:
        with reading(self.path), self._open(self._arrow.OSFile(utf8_path(self.path))) as reader:
            yield from _batches(reader)

    def batches(self, selection: ColumnSelection) -> Iterator[Any]:
        columns = selection.used
        rows, read = batch_rows(len(columns)), 0.0
        with reading(self.path):
            largest, most = decompressed_bytes(self.path, self._schema, columns), max_memory() // 2
            if largest > most:
                problem = f"has a batch that takes {bytes_in_words(largest)} when it is decompressed"
                remedy = f"write batches of at most {bytes_in_words(most)}, or raise CALIBRANT_MAX_MEMORY"
                raise FileError(self.path, problem, remedy)
        with reading(self.path), self._reader(columns, compressed=largest > 0) as (reader, mapped):
            for batch in (every.select(list(columns)) for every in _batches(reader)):
                batch.validate(full=True)  # what Arrow takes from a damaged file may end the process later
                share = batch.get_total_buffer_size() / max(batch.num_rows, 1)  # `nbytes` does not know every type
                for start in range(0, batch.num_rows, rows):
                    part = batch.slice(start, rows)
                    yield part
                    read += share * part.num_rows
                    if read > _KEPT and mapped is not None and hasattr(mapped, "madvise"):
                        # The pages stay in the system's cache; what still refers to them is read from there again.
                        mapped.madvise(mmap.MADV_DONTNEED)
                        read = 0.0


def stored_table(path: str, engines: Engines | None = None) -> StoredTable:
    """Open a Parquet or Arrow file."""
    return ParquetTable(path, engines) if kind_of(path) == "parquet" else ArrowTable(path)


def _batches(reader: Any) -> Iterator[Any]:
    """Yield the record batches of an Arrow file or stream."""
    is_file = hasattr(reader, "num_record_batches")
    yield from map(reader.get_batch, range(reader.num_record_batches)) if is_file else iter(reader)


class FilteredTable(EngineTable):
    """A Parquet or Arrow file under a condition, with expressions for groups or clusters, or columns within structs."""

    def __init__(self, stored: StoredTable, where: str | None, engines: Engines | None = None) -> None:
        super().__init__(stored.path, where, engines)
        self._stored = stored
        self._asked: dict[str, str] = {}  # the paths within structs that are used, with their SQL
        self.columns = stored.columns
        self._streamed = self.readable
        self.dtypes = stored.dtypes
        if stored.structs:
            with reading(self.path), self.connection() as connection:
                rows = connection.sql(f"SELECT * FROM {self.relation()}")
                types = dict(zip(rows.columns, rows.types, strict=True))
            paths = self.paths_of(types)
            self._asked = {name: sql for name, (sql, _) in paths.items() if name not in self.columns}
            self.columns = (*self.columns, *self._asked)
        self._paths = dict(self._asked)
        self.add_partitions()
        self._asked = dict(self._paths)

    def dtype_of(self, column: str) -> np.dtype[Any]:
        if column in self.columns:
            return super().dtype_of(column)
        kinds: list[Any] = []
        with suppress(Exception):  # reading the file says what is wrong
            self._check_one("--score", column)
            with self.connection() as connection:
                kinds = connection.sql(f"SELECT {bracketed(period(column))} FROM {self.relation()}").types
        return np.dtype(np.float32 if list(map(str, kinds)) == ["FLOAT"] else np.float64)

    def learn(self, selection: ColumnSelection) -> bool:
        """Note the columns that are used: the others of an Arrow file are not read."""
        paths = [name for name in selection.used if name in self._paths]
        mentioned = {*selection.used, *self.mentioned(*self.own_sql(selection), *paths)}
        self._streamed = tuple(name for name in self.readable if name in mentioned and name not in self._paths)
        self._streamed = self._streamed or self.readable[:1]  # which say how many rows there are
        self._asked = {name: each for name, each in self._paths.items() if name in mentioned}
        return True

    @contextmanager
    def connection(self) -> Iterator[Any]:
        with super().connection() as connection:
            with reading(self.path, "leave the column of that type out"):
                self._stored.register(connection, self._streamed)
            yield connection

    def explain(self, error: Exception, condition: bool = True) -> CalibrantError:
        """Turn an error of the engine into one line, about the file if that is damaged."""
        return self._stored.failure or super().explain(error, condition)

    def relation(self) -> str:
        return with_paths(_ROWS, self._asked)


# ---------------------------------------------------------------- the size of decompressed Arrow data

# How large the columns of an Arrow file become when they are decompressed, from its metadata alone. A kilobyte may
# promise gigabytes, and Arrow reserves what is promised. So the promises are added up first. The layout is that of the
# Arrow columnar format, version 1.5 (https://arrow.apache.org/docs/format/Columnar.html), and its metadata are
# flatbuffers (https://flatbuffers.dev/internals).

_DICTIONARY: Final = 2
_BATCH: Final = 3
_MOST_METADATA: Final = 1 << 26  # bytes of one message

#: Buffers of a type without those of its children, by the name of its test in `pyarrow.types`; of other types there are
#: two: the valid entries and the values, or of a union the types and the places, which a sparse one leaves out.
_OWN_BUFFERS: Final = {
    **dict.fromkeys(("is_null", "is_run_end_encoded"), 0),
    **dict.fromkeys(("is_struct", "is_fixed_size_list"), 1),
    **dict.fromkeys(("is_string", "is_large_string", "is_binary", "is_large_binary"), 3),
    **dict.fromkeys(("is_list_view", "is_large_list_view"), 3),
}


@dataclass(frozen=True)
class _Message:
    """The header of a message, and where its body lies in the file."""

    kind: int
    header: _Table
    start: int
    length: int


def decompressed_bytes(path: str, schema: Any, columns: Collection[str]) -> int:
    """Return the most bytes that one batch takes: those columns, and all dictionaries so far.

    It raises `ValueError` or `struct.error` for a damaged file.
    """
    dictionaries = most = 0
    path = located(path)
    with open(path, "rb") as stream:
        for message in _messages(stream, os.path.getsize(path)):
            if message.kind == _DICTIONARY:
                dictionaries += sum(_sizes(stream, message, message.header.table(1)))
            elif message.kind == _BATCH:
                sizes = _sizes(stream, message, message.header)
                if dictionaries + sum(sizes) > most:  # else no choice of columns exceeds it
                    views, remaining = iter(message.header.vector(4, "<q")), iter(sizes)
                    of_fields = {field.name: sum(islice(remaining, _buffers(field.type, views))) for field in schema}
                    most = max(most, dictionaries + sum(of_fields[name] for name in of_fields.keys() & set(columns)))
    return max(most, dictionaries)


class _Table:
    """A table of a flatbuffer: numbered fields."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at

    @classmethod
    def root(cls, data: bytes) -> _Table:
        return cls(data, _number("<I", data, 0))

    def _field(self, number: int) -> int:
        """Return where a field is stored; 0 if it is left out."""
        entries = self._at - _number("<i", self._data, self._at)
        place = 4 + 2 * number
        offset = _number("<H", self._data, entries + place) if place < _number("<H", self._data, entries) else 0
        return self._at + offset if offset else 0

    def number(self, field: int, layout: str) -> int:
        at = self._field(field)
        return _number(layout, self._data, at) if at else 0

    def has(self, field: int) -> bool:
        return self._field(field) > 0

    def table(self, field: int) -> _Table:
        at = self._field(field)
        _require(at > 0, "a part of the metadata is missing")
        return _Table(self._data, at + _number("<I", self._data, at))

    def vector(self, field: int, layout: str) -> list[tuple[int, ...]]:
        """Return the structures of a vector."""
        at = self._field(field)
        if not at:
            return []
        at += _number("<I", self._data, at)
        count, size = _number("<I", self._data, at), struct.calcsize(layout)
        _require(count * size <= len(self._data), "the metadata announce more entries than the file contains")
        return [struct.unpack_from(layout, self._data, at + 4 + k * size) for k in range(count)]


def _require(holds: bool, otherwise: str) -> None:
    """Reject a damaged file in which something does not hold."""
    if not holds:
        raise ValueError(otherwise)


def _number(layout: str, data: bytes, at: int) -> int:
    _require(at >= 0, "the metadata point outside the file")
    return int(struct.unpack_from(layout, data, at)[0])


def _messages(stream: IO[bytes], size: int) -> Iterator[_Message]:
    """Yield the messages of a file or a stream, as a reader would go through them."""
    if stream.read(6) != b"ARROW1":
        at = 0
        while at < size and (message := _message(stream, at, size)) is not None:
            yield message
            at = message.start + message.length
        return
    stream.seek(max(size - 10, 0))
    length = _number("<i", stream.read(4), 0)
    stream.seek(max(size - 10 - length, 0))
    footer = _Table.root(_read(stream, length))
    for field in (2, 3):  # dictionaries, record batches
        for at, metadata, body in footer.vector(field, "<qi4xq"):
            message = _message(stream, at, size)
            if message is None or (message.start, message.length) != (at + metadata, body):
                msg = "the footer does not point to a batch"
                raise ValueError(msg)
            yield message


def _message(stream: IO[bytes], at: int, size: int) -> _Message | None:
    """Return the message there; None at the end of a stream."""
    stream.seek(max(at, 0))
    length = _number("<I", stream.read(4), 0)
    if length == 0xFFFFFFFF:  # before version 0.15 there was no such mark
        length = _number("<I", stream.read(4), 0)
    if length == 0:
        return None
    message = _Table.root(_read(stream, length))
    start, body = stream.tell(), message.number(3, "<q")
    _require(0 <= body <= size - start, f"the file announces a batch of {body:,} bytes, but contains {size - start:,}")
    return _Message(message.number(1, "<B"), message.table(2), start, body)


def _read(stream: IO[bytes], length: int) -> bytes:
    data = stream.read(length) if 0 <= length <= _MOST_METADATA else b""
    _require(0 < length == len(data), f"the file announces {length:,} bytes of metadata, but contains {len(data):,}")
    return data


def _sizes(stream: IO[bytes], message: _Message, batch: _Table) -> list[int]:
    """Return the size of each buffer of a batch; compressed ones begin with the size that they will have."""
    compressed, sizes = batch.has(3), []
    for offset, length in batch.vector(2, "<qq"):
        _require(offset >= 0 and 0 <= length <= message.length - offset, "a column lies outside its batch")
        size = 0  # what is not compressed is no larger than the file
        if compressed and length >= 8:
            stream.seek(message.start + offset)
            promised = _number("<q", stream.read(8), 0)
            size = length - 8 if promised == -1 else max(promised, 0)
        sizes.append(size)
    return sizes


def _buffers(kind: Any, views: Iterator[tuple[int, ...]]) -> int:
    """Return how many buffers a column of a type has; ``views`` are the numbers of those of text views."""
    from pyarrow import types

    kind = getattr(kind, "storage_type", kind)  # of an extension
    if types.is_string_view(kind) or types.is_binary_view(kind):
        return 2 + next(views, (0,))[0]
    count_of_own = next((count for of_type, count in _OWN_BUFFERS.items() if getattr(types, of_type)(kind)), 2)
    if types.is_union(kind) and kind.mode == "sparse":
        count_of_own = 1
    return count_of_own + sum(_buffers(kind.field(k).type, views) for k in range(kind.num_fields))
