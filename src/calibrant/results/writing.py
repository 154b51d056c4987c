"""Files that are written: complete or not at all."""

from __future__ import annotations

import errno
import glob
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

from calibrant.errors import FileError
from calibrant.runtime.process import attended, undone

_YOUNG = 60.0  # seconds in which a writer has certainly locked its part
_NAMES = {"stdin": 0, "stdout": 1, "stderr": 2}  # in /dev


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

    A pipe, a device or a descriptor such as ``/dev/stdout`` cannot be replaced: it is written to.

    Raises
    ------
    OSError
        If it cannot be written. A file has not changed then.
    """
    name = os.fspath(path)
    descriptor = descriptor_of(name)
    if descriptor is not None:
        with open(os.dup(descriptor), "wb") as stream:
            stream.write(data)
        return
    target = os.path.realpath(name)  # a link stays a link
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        mode = None
    if mode is not None and not stat.S_ISREG(mode):
        with open(target, "wb") as stream:
            stream.write(data)
        return
    _replace(target, data, None if mode is None else stat.S_IMODE(mode))


@contextmanager
def replacing(path: str) -> Iterator[str]:
    """Yield the name of a new file to write, which replaces ``path`` at the end; after an error nothing has changed.

    Raises
    ------
    FileError
        If it cannot be written.
    """
    with _explaining(path):
        target = os.path.realpath(path)
        _remove_stale(target)
        part = _part(target, secrets.token_hex(4))
        with attended(), undone(partial(_made, part), partial(os.unlink, part)):
            try:
                yield part
                with open(part, "rb+") as stream:
                    os.fsync(stream.fileno())
                if os.path.exists(target):
                    os.chmod(part, stat.S_IMODE(os.stat(target).st_mode))
                os.replace(part, target)
            except BaseException:  # Ctrl-C as well
                with suppress(OSError):
                    os.unlink(part)
                raise


def _made(part: str) -> str:
    """Make an empty file."""
    with open(part, "xb"):
        return part


def descriptor_of(path: str) -> int | None:
    """Return the descriptor that a path such as ``/dev/stdout`` or ``/dev/fd/63`` names; None for other paths."""
    match = re.fullmatch(r"/dev/(stdin|stdout|stderr)|/(?:dev|proc/self)/fd/(\d{1,9})", path)
    if match is None or os.name != "posix":
        return None
    return _NAMES[match[1]] if match[1] else int(match[2])


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


def _replace(target: str, data: bytes, mode: int | None) -> None:
    _remove_stale(target)
    part = _part(target, secrets.token_hex(4))
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with attended(), undone(lambda: os.open(part, flags, 0o666), partial(os.unlink, part)) as descriptor:
        try:
            with open(descriptor, "wb") as stream:
                _lock(stream.fileno())
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())  # some disks report only now that they are full
            if mode is not None:
                os.chmod(part, mode)
            os.replace(part, target)
        except BaseException:  # Ctrl-C as well
            with suppress(OSError):
                os.unlink(part)
            raise
