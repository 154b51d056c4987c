"""The process of the command: its standard streams, and its end by Ctrl-C or another signal.

Python runs its own handlers of signals on the main thread, between two steps of Python. An import or a compiled loop
can delay them by seconds. Here the system wakes a thread, which removes what is half done and ends the process.

The package imports this module first. In a process that is the command, the rest of the package is then imported under
this watch. In any other process the import does nothing.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

Started = TypeVar("Started")

#: The signals that end the command, and what it then says.
_WORDS: Final = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "hung up"}

_PATIENCE: Final = 0.1  # seconds to wait for a lock, or for a terminal that takes no text
_OUT, _ERR = 1, 2  # the descriptors of standard output and standard error

_lock = threading.Lock()
_undos: list[Callable[[], object]] = []
_watching = False


@contextmanager
def undone(start: Callable[[], Started], undo: Callable[[], object]) -> Iterator[Started]:
    """Start something that a signal undoes if it ends the command before the context does."""
    with _lock:  # a signal comes before both or after both
        started = start()
        _undos.append(undo)
    try:
        yield started
    finally:
        with _lock:
            _undos.remove(undo)


def watch() -> None:
    """From now on, end this process within a moment of a signal. Ignored signals, as under ``nohup``, stay ignored."""
    global _watching
    if _watching or os.name != "posix" or threading.current_thread() is not threading.main_thread():
        return
    _watching = True
    _open_missing_streams()
    messages = os.dup(_ERR)  # standard error may be redirected while other programs start
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    ends = {getattr(signal, name): words for name, words in _WORDS.items()}
    threading.Thread(target=_wait, args=(reader, messages, ends), name="calibrant-signals", daemon=True).start()
    watched = [number for number in ends if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler)]
    for number in watched:
        signal.signal(number, _leave_to_the_thread)
    os.register_at_fork(after_in_child=lambda: _forget(watched))  # the child has no such thread


def is_command() -> bool:
    """Return whether this process is the command: its script, or ``python -m calibrant.cli``."""
    script = os.path.splitext(os.path.basename((getattr(sys, "argv", None) or [""])[0]))[0]
    words = sys.orig_argv
    module = words[words.index("-m") + 1 : words.index("-m") + 2] if script == "-m" and "-m" in words else []
    return script == "calibrant" or module == ["calibrant.cli"]


def _open_missing_streams() -> None:
    """Occupy the descriptors of closed streams: the next opened file would become standard output or error."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # Messages may be lost. Output may not: a stream that is open for reading alone rejects it.
            os.open(os.devnull, os.O_WRONLY if descriptor == _ERR else os.O_RDONLY)


def _leave_to_the_thread(_number: int, _frame: Any) -> None:
    """Do nothing: the system has woken the thread."""


def _forget(watched: list[int]) -> None:
    """Restore the system's handlers, in the child of a fork."""
    signal.set_wakeup_fd(-1)
    for number in watched:
        signal.signal(number, signal.SIG_DFL)


def _wait(reader: int, messages: int, ends: dict[int, str]) -> None:
    while True:
        for number in os.read(reader, 64):
            if number in ends:
                _end(number, messages, ends[number])


def _end(number: int, messages: int, words: str) -> None:
    """Undo what is half done, say so in one line, and exit with the status that shells give to the signal."""
    _lock.acquire(timeout=_PATIENCE)  # and never release it: nothing new may start
    for undo in reversed(_undos):
        with suppress(Exception):
            undo()
    with suppress(OSError, ValueError):
        if select.select([], [messages], [], _PATIENCE)[1]:  # a stopped terminal takes no text
            os.write(messages, f"calibrant: {words}\n".encode())
    os._exit(128 + number)


if is_command():
    watch()
