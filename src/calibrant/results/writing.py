"""Files that are written: complete or not at all. What is not a file is never replaced."""

from __future__ import annotations

import errno
import glob
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import BinaryIO, Final

from calibrant.errors import FileError
from calibrant.runtime.process import attended, undone

_YOUNG: Final = 60.0  # seconds in which a writer has certainly locked its part
_NAMES: Final = {"stdin": 0, "stdout": 1, "stderr": 2}  # in /dev
_MOST_LINKS: Final = 40  # which one path leads through, as in Linux
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_NOT_WRITTEN: Final = "it is neither a file, a pipe nor a character device"


def replace_file(path: str, data: bytes) -> None:
    """Write a file as `write_file` does.

    Raises
    ------
    FileError
        If it cannot be written. Nothing has changed then.
    """
    with _explaining(path):
        write_file(path, data)


def append_file(path: str, data: bytes) -> None:
    """Append to a file, all of ``data`` or nothing; make the file if it does not exist.

    Raises
    ------
    FileError
        If it cannot be written. Nothing has changed then.
    """
    with _explaining(path), open(path, "ab", buffering=0) as stream:
        before = stream.tell()
        try:
            if stream.write(data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(stream.fileno())
        except BaseException:  # Ctrl-C as well
            with suppress(OSError):
                stream.truncate(before)
            raise


@contextmanager
def _explaining(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            problem = "cannot be written: the disk is full"
            raise FileError(path, problem, "free some space, or name another place") from None
        raise FileError(path, f"cannot be written ({error.strerror or error})", "check the path and the disk") from None


def write_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file; the old content stays until the new one is complete on the disk.

    Only a file is replaced. A pipe, a character device or a descriptor such as ``/dev/stdout`` is written to.

    Raises
    ------
    OSError
        If it cannot be written. A file has not changed then.
    """
    name = os.fspath(path)
    opened = _opener(name)
    if opened is None:
        with _replacing(name) as part, open(part, "wb") as stream:
            stream.write(data)
    else:
        with opened() as stream:
            stream.write(data)


@contextmanager
def replacing(path: str) -> Iterator[str]:
    """Yield the name of a new file to write, which replaces ``path`` at the end; after an error nothing has changed.

    What `write_file` writes to gets the bytes of the new file at the end.

    Raises
    ------
    FileError
        If it cannot be written.
    """
    with _explaining(path):
        opened = _opener(path)
        if opened is None:
            with _replacing(path) as part:
                yield part
            return
        make = partial(tempfile.TemporaryDirectory, prefix="calibrant-")
        with undone(make, lambda: folder.cleanup()) as folder, folder:
            part = os.path.join(folder.name, "part")
            yield part
            with open(part, "rb") as written, opened() as stream:
                shutil.copyfileobj(written, stream)


def _opener(path: str) -> Callable[[], BinaryIO] | None:
    """Return what opens the target of a path that is written to, not replaced; None for a file and for a new name.

    Raises
    ------
    OSError
        For a folder, a socket, and a device of blocks, whose content would be lost.
    """
    descriptor = descriptor_of(path)
    if descriptor is not None:
        return lambda: open(os.dup(descriptor), "wb")
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISREG(mode):
        return None
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        return lambda: open(path, "wb")
    raise OSError(errno.EISDIR, os.strerror(errno.EISDIR)) if stat.S_ISDIR(mode) else OSError(_NOT_WRITTEN)


@contextmanager
def _replacing(path: str) -> Iterator[str]:
    """Yield the name of an empty file, which replaces ``path`` at the end."""
    target = os.path.realpath(path)  # a link stays a link
    _remove_stale(target)
    part = _part(target, secrets.token_hex(4))
    with attended(), undone(partial(os.open, part, _NEW, 0o666), partial(os.unlink, part)) as descriptor:
        is_locked = _lock(descriptor)
        if not is_locked:
            os.close(descriptor)
        try:
            yield part
            with open(part, "rb+") as stream:
                os.fsync(stream.fileno())  # some disks report only now that they are full
            if os.path.exists(target):
                os.chmod(part, stat.S_IMODE(os.stat(target).st_mode))
            os.replace(part, target)
        except BaseException:  # Ctrl-C as well
            with suppress(OSError):
                os.unlink(part)
            raise
        finally:
            if is_locked:
                os.close(descriptor)


def descriptor_of(path: str) -> int | None:
    """Return the descriptor that a path such as ``/dev/stdout``, or a link to it, names; None for other paths."""
    for _ in range(_MOST_LINKS if os.name == "posix" else 0):
        folder, name = os.path.split(path)
        folder = os.path.realpath(folder)
        if folder == "/dev" and name in _NAMES:
            return _NAMES[name]
        if re.fullmatch(r"\d{1,9}", name) and folder in ("/dev/fd", "/proc/self/fd", f"/proc/{os.getpid()}/fd"):
            return int(name)
        try:
            path = os.path.join(folder, os.readlink(os.path.join(folder, name)))
        except OSError:  # not a link
            return None
    return None


def _part(target: str, token: str) -> str:
    return os.path.join(os.path.dirname(target), f".{os.path.basename(target)}.{token}.part")


def _lock(descriptor: int) -> bool:
    """Lock a part until its writer ends, however it ends; return whether nobody else holds the lock."""
    try:
        import fcntl
    except ImportError:  # not POSIX
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _remove_stale(target: str) -> None:
    """Remove the parts that writers of this file left when they were killed; a living writer holds a lock."""
    for part in glob.glob(_part(glob.escape(target), "[0-9a-f]" * 8)):
        with suppress(OSError), open(part, "rb") as stream:
            is_young = time.time() - os.fstat(stream.fileno()).st_mtime < _YOUNG
            if not is_young and _lock(stream.fileno()):
                os.unlink(part)
