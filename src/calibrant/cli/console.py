"""What the command writes to its standard streams, and how it ends if that is lost.

Names, cells, paths and messages of other libraries may hold control characters, which would act on the terminal. All
text passes `visible` before it is written.
"""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, Final

import click

from calibrant.render.words import shown
from calibrant.runtime import process

#: The exit status after Ctrl-C: 128 and the number of the signal.
INTERRUPTED: Final = 130

#: The exit status if nobody reads the output any more: 128 and the number of SIGPIPE.
UNREAD: Final = 141

#: The exit status if the output cannot be written.
LOST: Final = 1

#: The descriptors of standard output and standard error.
OUT: Final = 1
ERR: Final = 2

#: What the command itself puts between names: the ends of lines, and the styles of `calibrant.render.terminal`.
_OURS: Final = re.compile(r"(\x1b\[[012]m|\n)")


class OutputLost(Exception):
    """Standard output cannot be written. This is not an OSError, which is about files."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


def prepare() -> None:
    """Make the streams of this process usable: closed ones are replaced, and any character can be written."""
    process.check_addresses()
    process.watch()
    if process.address_limit() is not None:
        # It loads OpenBLAS, which tries to take memory without end: now there is enough of it.
        import_module("scipy.special")
    if os.name == "posix":
        if sys.stdout is None:
            sys.stdout = open(OUT, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as the process
        if sys.stderr is None:
            sys.stderr = open(ERR, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    for stream, errors in ((sys.stdout, "replace"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)


def status_of(run: Callable[[], Any]) -> int:
    """Run the command, and return its exit status; errors become lines on standard error."""
    try:
        with losing():
            status = run()
    except click.ClickException as error:
        # The help has many lines; a name with line breaks would add lines of its own.
        if not isinstance(error, click.exceptions.NoArgsIsHelpError):
            vars(error).update(message=_one_line(error.message))
        text = io.StringIO()
        error.show(text)
        _tell(text.getvalue(), end="")
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        say("interrupted")
        return INTERRUPTED
    except OutputLost as lost:
        _drop(OUT)
        if lost.error.errno == errno.EPIPE:
            return UNREAD
        problem = "the disk is full" if lost.error.errno == errno.ENOSPC else lost.error.strerror or str(lost.error)
        say(f"calibrant cannot write to standard output ({problem}); check the destination of the output")
        return LOST
    except ImportError as error:  # a package that is missing raises an error of its own
        from calibrant.files.local import first_line

        say(f"a library cannot be loaded ({first_line(error)}); reinstall the library, or give the process more memory")
        return LOST
    return status if isinstance(status, int) else 0


@contextmanager
def losing() -> Iterator[None]:
    """Turn the system's errors inside into the loss of standard output."""
    try:
        yield
    except OSError as error:
        raise OutputLost(error) from error


def write(text: str) -> None:
    """Write lines to standard output."""
    put(visible(text) + "\n")


def put(text: str) -> None:
    """Write text to standard output unchanged; a character that its encoding lacks becomes ``?``."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    with losing():
        click.echo(text.encode(encoding, "replace").decode(encoding), nl=False)


def put_utf8(data: bytes) -> None:
    """Write UTF-8 to standard output, whatever its encoding."""
    with losing():
        if hasattr(sys.stdout, "buffer"):
            click.echo(data, nl=False)
        else:
            click.echo(data.decode(), nl=False)


def say(message: str) -> None:
    """Write one line to standard error, after the name of the command."""
    tell(f"calibrant: {message}")


def tell(line: str) -> None:
    """Write one line to standard error."""
    _tell(_one_line(line))


def clear_line(is_drawn: bool) -> None:
    """Remove a progress bar from the terminal, if there is one, and show the cursor again."""
    if is_drawn:
        os.write(ERR, b"\r\x1b[2K\x1b[?25h")


def _one_line(text: str) -> str:
    return " ".join(text.split("\n"))


def visible(text: str) -> str:
    """Return a text whose names do not act on a terminal: ``?`` stands for control characters and changes of direction.

    Ends of lines and the styles of a report are kept.
    """
    return "".join(part if k % 2 else shown(part, "?") for k, part in enumerate(_OURS.split(text)))


def _tell(text: str, end: str = "\n") -> None:
    """Write to standard error; an error of this is ignored, because it could not be written either."""
    try:
        click.echo(visible(text) + end, nl=False, err=True)
    except OSError:
        _drop(ERR)


def _drop(descriptor: int) -> None:
    """Send what is still in a stream's buffer nowhere: Python writes it at its end, and would fail again."""
    stream = sys.stdout if descriptor == OUT else sys.stderr
    with suppress(OSError, AttributeError, ValueError):
        if stream.fileno() == descriptor:
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
