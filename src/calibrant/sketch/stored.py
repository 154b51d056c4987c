"""What a sketch is stored as: files, bytes, JSON and Arrow tables."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

from calibrant.errors import FileError, InputError
from calibrant.results.writing import replace_file
from calibrant.sketch import storage
from calibrant.sketch.content import Content

if TYPE_CHECKING:
    from typing import Self

    import pyarrow as pa

_ENDING: Final = ".cal"
_REMEDY: Final = "give what calibrant report --sketch or CalibrationSketch.save wrote"


class StoredSketch(ABC):
    """The ways in and out of a sketch; its content is that of the class below."""

    __slots__ = ()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the sketch to a file, which `load` and ``calibrant report`` read.

        The file holds the bytes of `to_bytes`: sums, never the rows.

        Parameters
        ----------
        path : str or path
            The file to write; its name ends in ``.cal``. An old file stays until the new one is complete on the disk.

        Raises
        ------
        calibrant.errors.InputError
            For another ending, and for what is no path.
        calibrant.errors.FileError
            If the file cannot be written, as on a full disk. An old file is then unchanged.

        Examples
        --------
        >>> import tempfile, calibrant
        >>> sketch = calibrant.CalibrationSketch()
        >>> sketch.update([0.2, 0.8], [0, 1])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     sketch.save(f"{folder}/monday.cal")
        ...     calibrant.CalibrationSketch.load(f"{folder}/monday.cal") == sketch
        True
        """
        name = _name_of(path)
        if not name.lower().endswith(_ENDING):
            remedy = f"name it {name + _ENDING!r}: calibrant report knows a file by its ending"
            raise InputError("path", f"a name that ends in {_ENDING}", repr(name), remedy)
        replace_file(name, self.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the sketch that `save` or ``calibrant report --sketch`` wrote.

        The file is not trusted: its checksum, its version and every sum are checked, and nothing in it is executed.

        Parameters
        ----------
        path : str or path
            The file, with any ending.

        Raises
        ------
        calibrant.errors.InputError
            For what is no path.
        calibrant.errors.FileError
            For a file that does not exist, cannot be read, is no sketch, is damaged, or has an unknown version.
        """
        name = _name_of(path)
        try:
            with open(name, "rb") as stream:
                head = stream.read(64)
                if not storage.is_sketch(head):  # before a large file of another kind is read
                    got = f"bytes that begin with {head[:16]!r}" if head else "an empty file"
                    raise FileError(name, f"expected a calibrant sketch, got {got}", _REMEDY)
                data = head + stream.read()
        except OSError as error:
            raise FileError(name, f"cannot be read ({error.strerror or error})", "check the path") from None
        try:
            return cls.from_bytes(data)
        except InputError as error:
            raise FileError(name, f"expected {error.expected}, got {error.got}", error.remedy) from None

    def to_bytes(self) -> bytes:
        """Return the sketch as bytes: versioned, checksummed, the same for the same sums.

        The bytes are an ``.npz`` of the occupied cells, with some 36 bytes for each (60 with weights).
        """
        return storage.to_bytes(self._content())

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> Self:
        """Return the sketch that `to_bytes` wrote.

        Raises
        ------
        calibrant.errors.InputError
            For other data, for a damaged sketch, and for a version that this calibrant does not know.
        """
        return cls._from_content(storage.from_bytes(data))

    def to_json(self) -> str:
        """Return the sketch as JSON: unrounded numbers, only occupied cells."""
        return storage.to_json(self._content())

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the sketch that `to_json` wrote.

        Raises
        ------
        calibrant.errors.InputError
            As `from_bytes`.
        """
        return cls._from_content(storage.from_json(text))

    def to_arrow(self) -> pa.Table:
        """Return the occupied cells as a `pyarrow.Table`, with everything else in the schema's metadata.

        Raises
        ------
        calibrant.errors.MissingDependencyError
            Without pyarrow, which the extra ``report`` installs.
        """
        return storage.to_arrow(self._content())

    @classmethod
    def from_arrow(cls, table: pa.Table) -> Self:
        """Return the sketch that `to_arrow` wrote, also after a round trip through any Arrow file.

        Raises
        ------
        calibrant.errors.InputError
            As `from_bytes`.
        """
        return cls._from_content(storage.from_arrow(table))

    @abstractmethod
    def _content(self) -> Content:
        """Return what is stored."""

    @classmethod
    @abstractmethod
    def _from_content(cls, content: Content) -> Self:
        """Return the sketch of what was stored."""


def _name_of(path: Any) -> str:
    """Return a path as text."""
    name = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    if not isinstance(name, str):
        raise InputError("path", "the name of a file", type(path).__name__, "pass a str or a pathlib.Path")
    return name
