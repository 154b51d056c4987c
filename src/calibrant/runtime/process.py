"""The process of the command: its standard streams, its address space, and its end by Ctrl-C or another signal.

Python runs its own handlers of signals on the main thread, between two steps of Python. An import or a compiled loop
can delay them by seconds. On Ctrl-C the system wakes a thread, which removes what is half done and ends the process.
SIGTERM and SIGHUP end the process by the system's own action, whatever code runs, except while an output is written.

The package imports this module first. In a process that is the command, the rest of the package is then imported under
this watch. In any other process the import does nothing.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
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

#: Bytes of addresses that the libraries of a report reserve, measured, and those of each thread.
_LIBRARIES: Final = 2_200_000_000
_THREAD: Final = 100_000_000

#: Waits for the end of another process, and removes its folder.
_SWEEP: Final = "import shutil, sys; sys.stdin.read(); shutil.rmtree(sys.argv[1], ignore_errors=True)"

_lock = threading.Lock()
_undos: list[Callable[[], object]] = []
_sweepers: list[subprocess.Popen[bytes]] = []  # their input ends with this process
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


@contextmanager
def attended() -> Iterator[None]:
    """Have SIGTERM and SIGHUP undo what is half done, as Ctrl-C does, while an output is written."""
    numbers = []
    if _watching and threading.current_thread() is threading.main_thread():
        numbers = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) == signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, _leave_to_the_thread)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def sweep(folder: str) -> None:
    """Have another process remove a folder when this one, if it is the command, ends in any way."""
    if _watching:
        command = [sys.executable, "-S", "-I", "-c", _SWEEP, folder]
        streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with suppress(OSError):
            _sweepers.append(
                subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, **streams)  # type: ignore[call-overload]
            )


def address_limit() -> int | None:
    """Return the limit of the address space of this process; None without one."""
    try:
        import resource
    except ImportError:  # not POSIX
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit


def check_addresses() -> None:
    """End this process, with one line, if its address space is too small for the libraries of a report.

    Without memory, some of these libraries end the process or try again without end, and others fail to load.
    """
    limit = address_limit()
    if limit is None:
        return
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    needed = _LIBRARIES + _THREAD * processors
    if limit < needed:
        sys.exit(
            f"calibrant: the address space is limited to {limit / 1e9:.2f} GB (ulimit -v), but a report needs "
            f"{needed / 1e9:.2f} GB; raise the limit with: ulimit -v {-(-needed // 1024)}"
        )
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # each thread of it reserves addresses


def watch() -> None:
    """From now on, end this process within a moment of Ctrl-C. Ignored signals, as under ``nohup``, stay ignored."""
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
    if signal.getsignal(signal.SIGINT) in (signal.SIG_DFL, signal.default_int_handler):
        signal.signal(signal.SIGINT, _leave_to_the_thread)
    os.register_at_fork(after_in_child=lambda: _forget(list(ends)))  # the child has no such thread


def is_command() -> bool:
    """Return whether this process is the command: its script, or ``python -m calibrant``."""
    script = os.path.splitext(os.path.basename((getattr(sys, "argv", None) or [""])[0]))[0]
    words = sys.orig_argv
    module = words[words.index("-m") + 1 : words.index("-m") + 2] if script == "-m" and "-m" in words else []
    return script == "calibrant" or module == ["calibrant"]


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


def _forget(numbers: list[int]) -> None:
    """Restore the system's handlers, in the child of a fork."""
    signal.set_wakeup_fd(-1)
    for number in numbers:
        if signal.getsignal(number) is _leave_to_the_thread:
            signal.signal(number, signal.SIG_DFL)


def _wait(reader: int, messages: int, ends: dict[int, str]) -> None:
    while True:
        for number in os.read(reader, 64):
            if number in ends:
                _end(number, messages, ends[number])


def _end(number: int, messages: int, words: str) -> None:
    """Undo what is half done, say so in one line, and exit with the usual status of the signal."""
    _lock.acquire(timeout=_PATIENCE)  # and never release it: nothing new may start
    for undo in reversed(_undos):
        with suppress(Exception):
            undo()
    with suppress(OSError, ValueError):
        if select.select([], [messages], [], _PATIENCE)[1]:  # a stopped terminal takes no text
            os.write(messages, f"calibrant: {words}\n".encode())
    os._exit(128 + number)


if is_command():
    check_addresses()
    watch()
