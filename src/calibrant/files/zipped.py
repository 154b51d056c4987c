"""Members of zip archives that nobody vouches for: what they take is bounded, and every byte passes its checksum."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import IO, Any, Final

from calibrant.errors import FileError, MissingDependencyError, is_missing
from calibrant.files.local import original
from calibrant.files.paths import reading
from calibrant.inputs.memory import max_memory

#: Bytes of all members together, in units of the memory that one input may take: they are read one by one.
_IN_ALL: Final = 16
_ZSTD: Final = 93
_STORED_OR_DEFLATED: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_HEADER: Final = 30  # bytes of a local header, before the name
_STEP: Final = 1 << 20
_DAMAGED: Final = "copy the log again: it is damaged or was cut off"


class Archive:
    """The members of a zip archive by their names; of members of the same name the last one counts.

    Raises
    ------
    FileError
        For what is no archive, and members that promise more bytes than may be read.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        with reading(path, _DAMAGED, "is no readable zip archive"):
            self._archive = zipfile.ZipFile(original(path))
        self._members = {info.filename: info for info in self._archive.infolist()}
        size = sum(info.file_size for info in self._members.values())
        if size > _IN_ALL * max_memory():
            self._archive.close()
            raise self._too_large("it", size)

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()

    @property
    def names(self) -> list[str]:
        """The names of the members."""
        return list(self._members)

    def read(self, name: str) -> bytes:
        """Return the content of a member.

        Raises
        ------
        FileError
            For a member that is damaged, encrypted, too large, or compressed in another way than deflate and zstd.
        """
        info = self._members[name]
        if info.file_size > max_memory() // 4:
            raise self._too_large(name, info.file_size)
        if info.flag_bits & 1:
            raise FileError(self.path, f"{name} is encrypted", "write the log without a password")
        with reading(self.path, _DAMAGED, f"{name} cannot be read"):
            if info.compress_type in _STORED_OR_DEFLATED:
                with self._archive.open(info) as member:
                    return self._checked(info, member.read)
            if info.compress_type == _ZSTD:
                with open(original(self.path), "rb") as stream:
                    return self._checked(info, _zstd(_compressed(stream, info)).read)
        problem = f"{name} is compressed by method {info.compress_type}"
        raise FileError(self.path, problem, "compress the log with deflate or zstd")

    def _checked(self, info: zipfile.ZipInfo, read: Callable[[int], bytes]) -> bytes:
        """Return what a member holds: no more than it promises, with the checksum of the archive."""
        parts, length = [], 0
        while length <= info.file_size and (data := read(_STEP)):
            parts.append(data)
            length += len(data)
        content = b"".join(parts)
        if length != info.file_size or zlib.crc32(content) != info.CRC:
            problem = f"{info.filename} differs from its length or checksum in the archive"
            raise FileError(self.path, problem, _DAMAGED)
        return content

    def _too_large(self, what: str, size: int) -> FileError:
        problem = f"{what} takes {size / 1e9:,.1f} GB when it is decompressed"
        return FileError(self.path, problem, "set CALIBRANT_MAX_MEMORY to more, if you trust the file")


def _compressed(stream: IO[bytes], info: zipfile.ZipInfo) -> bytes:
    """Return the compressed bytes of a member."""
    stream.seek(info.header_offset)
    header = stream.read(_HEADER)
    lengths: tuple[int, int] = struct.unpack("<HH", header[26:])
    stream.seek(sum(lengths), 1)
    return stream.read(info.compress_size)


def _zstd(data: bytes) -> Any:
    """Return a stream that decompresses; Python reads zstd from version 3.14 on, PyArrow in all versions."""
    try:
        import pyarrow as pa
    except ModuleNotFoundError as error:
        if not is_missing(error, "pyarrow"):
            raise
        raise MissingDependencyError("pyarrow", "to read zstd", "report") from error
    return pa.CompressedInputStream(pa.BufferReader(data), "zstd")
