"""Files that are written as a whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat

from calibrant.errors import FileError


def replace_file(path: str, data: bytes) -> None:
    """Write a file; what stood there before stands until the new one is complete on the disk.

    Raises
    ------
    FileError
        Where it cannot be written; nothing has changed then.
    """
    try:
        target = os.path.realpath(path)  # a link stays a link
        mode = os.stat(target).st_mode if os.path.exists(target) else None
        if mode is not None and not stat.S_ISREG(mode):
            with open(target, "wb") as stream:  # a pipe or a device, of which there is no other
                stream.write(data)
            return
        _replace(target, data, None if mode is None else stat.S_IMODE(mode))
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            problem = "cannot be written: the disk is full"
            raise FileError(path, problem, "free some space, or name another place") from None
        raise FileError(path, f"cannot be written ({error.strerror or error})", "check the path and the disk") from None


def _replace(target: str, data: bytes, mode: int | None) -> None:
    beside = os.path.join(os.path.dirname(target), f".{os.path.basename(target)}.{secrets.token_hex(4)}.part")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with open(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())  # some disks say only now that they are full
        if mode is not None:
            os.chmod(beside, mode)
        os.replace(beside, target)
    except BaseException:  # Ctrl-C as well
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise
