"""Parquet and Arrow files, by pyarrow; where a condition is given, through the engine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from calibrant.files.columns import Selection
from calibrant.files.engine import EngineTable, Table, batch_rows, load
from calibrant.files.paths import reading
from calibrant.files.sql import engine_path

BATCH = 32_000_000  # bytes


class ParquetTable(Table):
    """A Parquet file."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._parquet = load("pyarrow.parquet", f"to read {os.path.basename(path)}")
        with reading(path), self._open() as file:
            schema = file.schema_arrow
            self.columns = tuple(schema.names)
            self.rows = file.metadata.num_rows
            self.narrow = _narrow(schema)

    def _open(self) -> Any:
        # Checksums are verified where the writer stored them.
        return self._parquet.ParquetFile(self.path, page_checksum_verification=True)

    def batches(self, selection: Selection) -> Iterator[Any]:
        """Yield the used columns as Arrow record batches, in the order of the file's rows."""
        with reading(self.path), self._open() as file:
            groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
            # A row of lists may be long; the footer says how long rows are, all columns counted.
            bytes_a_row = sum(group.total_byte_size for group in groups) // max(file.metadata.num_rows, 1)
            rows = min(batch_rows(len(selection.used)), max(64, BATCH // max(bytes_a_row, 1)))
            yield from file.iter_batches(rows, columns=list(selection.used))


class ArrowTable(Table):
    """An Arrow IPC file or stream (Feather is one); its memory is the file's where it is not compressed."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._arrow = load("pyarrow", f"to read {os.path.basename(path)}")
        load("pyarrow.ipc", f"to read {os.path.basename(path)}")
        with reading(path), self._arrow.memory_map(path) as memory:
            schema = self._open(memory).schema
            self.columns = tuple(schema.names)
            self.narrow = _narrow(schema)

    def _open(self, memory: Any, columns: list[str] | None = None) -> Any:
        ipc = self._arrow.ipc
        is_file = memory.read(6) == b"ARROW1"
        memory.seek(0)
        if columns is None:
            return ipc.open_file(memory) if is_file else ipc.open_stream(memory)
        options = ipc.IpcReadOptions(included_fields=[self.columns.index(name) for name in columns])
        return ipc.open_file(memory, options=options) if is_file else ipc.open_stream(memory, options=options)

    def batches(self, selection: Selection) -> Iterator[Any]:
        """Yield the used columns as Arrow record batches, in the order of the file's rows."""
        with reading(self.path), self._arrow.memory_map(self.path) as memory:
            reader = self._open(memory, list(selection.used))
            if hasattr(reader, "num_record_batches"):
                for number in range(reader.num_record_batches):
                    yield reader.get_batch(number)
            else:
                yield from reader

    def table(self) -> Any:
        """Return the whole file as an Arrow table that the engine can read."""
        with reading(self.path), self._arrow.memory_map(self.path) as memory:
            table = self._open(memory).read_all()
            # The engine knows no 16-bit floats in Arrow data; each is a 32-bit float too.
            for number, name in enumerate(table.schema.names):
                if name in self.narrow:
                    table = table.set_column(number, name, table.column(number).cast(self._arrow.float32()))
            return table


class FilteredTable(EngineTable):
    """A Parquet or Arrow file under a condition."""

    def __init__(self, stored: ParquetTable | ArrowTable, where: str) -> None:
        super().__init__(stored.path, where)
        self._stored = stored
        self.columns = stored.columns
        self.narrow = stored.narrow

    def learn(self, selection: Selection) -> bool:  # noqa: ARG002
        """Find nothing to cast: the columns have their types."""
        return True

    def connect(self) -> Any:
        """Open an engine that knows the file as a table."""
        connection = super().connect()
        if isinstance(self._stored, ArrowTable):
            connection.register("calibrant_rows", self._stored.table())
        return connection

    def relation(self) -> str:
        """Return the SQL of the table."""
        if isinstance(self._stored, ArrowTable):
            return "calibrant_rows"
        # A folder named year=2024 is no column of the file.
        return f"read_parquet({engine_path(self.path)}, hive_partitioning=false)"


def _narrow(schema: Any) -> frozenset[str]:
    return frozenset(field.name for field in schema if str(field.type) == "halffloat")
