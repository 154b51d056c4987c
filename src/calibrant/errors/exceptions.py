"""The errors of calibrant: which argument, what was expected, what was passed, what to do."""

from __future__ import annotations

import difflib
import json
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from numbers import Integral
from typing import Any, Final

from calibrant.errors.faults import Facts, Fault

_HOME: Final = "calibrant.errors"  # where users import errors from, and what a traceback names

_NO_FACTS: Final = Facts()

#: How many names an error lists.
SHOWN: Final = 30


class CalibrantError(ValueError):
    """Base class of the errors that calibrant defines: a `ValueError`."""

    __module__ = _HOME


class InputError(CalibrantError):
    """An argument that cannot be used.

    Parameters
    ----------
    argument : str
        The argument at fault, by its name in the signature.
    expected : str
        What it should have been.
    got : str
        What it was.
    remedy : str
        What the caller can do about it.
    fault : Fault
        The kind of failure. Programs should read this: the sentences may change.
    facts : Facts
        The facts of the failure: the value, its place, the mistake that probably caused it.
    row, column : int or None
        Position of the first invalid value, counted from 0, if there is one. If ``facts`` has a place, its row and
        column are used instead.
    """

    __module__ = _HOME

    def __init__(
        self,
        argument: str,
        expected: str,
        got: str,
        remedy: str,
        *,
        fault: Fault = Fault.VALUE,
        facts: Facts = _NO_FACTS,
        row: int | None = None,
        column: int | None = None,
    ) -> None:
        super().__init__(f"{argument}: expected {expected}, got {got}; {remedy}")
        self.argument = argument
        self.expected = expected
        self.got = got
        self.remedy = remedy
        self.fault = fault
        self.facts = facts
        self.row = facts.place.row if facts.place is not None else row
        self.column = facts.place.column if facts.place is not None else column

    def renamed(self, names: Mapping[str, str]) -> InputError:
        """Return the same error with the argument names of another function."""
        return self.reworded(names.get(self.argument, self.argument), self.remedy)

    def reworded(self, argument: str, remedy: str) -> InputError:
        """Return the same error with another argument and remedy."""
        words = (argument, self.expected, self.got, remedy)
        return type(self)(*words, fault=self.fault, facts=self.facts, row=self.row, column=self.column)

    def __reduce__(self) -> tuple[object, ...]:
        state = {"fault": self.fault, "facts": self.facts, "row": self.row, "column": self.column}
        return (type(self), (self.argument, self.expected, self.got, self.remedy), state)


class NothingJudgedError(InputError):
    """Predictions without an evaluated row: targets or weights leave all rows out."""

    __module__ = _HOME


@contextmanager
def renaming(**names: str) -> Iterator[None]:
    """Rename the arguments in errors from inside to those of the caller's signature: ``targets="labels"``."""
    try:
        yield
    except InputError as error:
        raise error.renamed(names) from None


class FileFault(Enum):
    """What is wrong with a file, for callers that must decide by it."""

    UNREADABLE = "unreadable"
    UNKNOWN_KIND = "unknown kind"
    OTHER_KIND = "other kind"
    NO_SUCH_COLUMN = "no such column"
    NO_PROBABILITIES = "no probabilities"
    EMPTY = "empty"
    VALUE = "value"


class FileError(CalibrantError):
    """A file that cannot be read or written: the file, the place in it and the remedy.

    Parameters
    ----------
    path : str
        The file.
    problem : str
        What is wrong, and where in the file.
    remedy : str
        What the caller can do about it.
    options : tuple of str
        The command's options, with values, that solve the problem.
    fault : FileFault
        What callers may branch on.
    column : str or None
        The column at fault, if it is one.
    """

    __module__ = _HOME

    def __init__(
        self,
        path: str,
        problem: str,
        remedy: str,
        options: tuple[str, ...] = (),
        fault: FileFault = FileFault.UNREADABLE,
        column: str | None = None,
    ) -> None:
        super().__init__(f"{path}: {problem}; {remedy}" + (f" {shlex.join(options)}" if options else ""))
        self.path = path
        self.problem = problem
        self.remedy = remedy
        self.options = options
        self.fault = fault
        self.column = column

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.path, self.problem, self.remedy, self.options, self.fault, self.column))


class MissingDependencyError(CalibrantError, ImportError):
    """A needed package is not installed; an extra of calibrant installs it."""

    __module__ = _HOME

    def __init__(self, package: str, purpose: str, extra: str) -> None:
        super().__init__(f"{package} is needed {purpose} and is not installed; run: {install_command(extra)}")
        self.package = package
        self.purpose = purpose
        self.extra = extra

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.package, self.purpose, self.extra))


def is_missing(error: ModuleNotFoundError, library: str) -> bool:
    """Return whether a failed import says that this library is not installed, and not that it lacks another one."""
    return (error.name or "").partition(".")[0] == library.partition(".")[0]


def nearest(name: str, choices: Iterable[str]) -> str:
    """Return a hint ``did you mean 'x'?`` or, if no choice is similar, the list of the choices."""
    names = list(choices)
    rest = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return meant(name, names) or f"choose from {', '.join(map(quoted, names[:SHOWN]))}{rest}"


def meant(name: str, choices: Iterable[str]) -> str:
    """Return a hint ``did you mean 'x'?``, or an empty string if no choice is similar; one letter rarely is."""
    names = [choice for choice in choices if len(choice) > 1 or len(name) <= 2]
    folded = {choice.casefold(): choice for choice in names}
    close = difflib.get_close_matches(name.casefold(), folded, n=3, cutoff=0.5)
    if close:
        likeness = [difflib.SequenceMatcher(None, match, name.casefold()).ratio() for match in close]
        best = [quoted(folded[match]) for match, ratio in zip(close, likeness, strict=True) if ratio == likeness[0]]
        # Choices that are equally similar keep their order.
        return f"did you mean {' or '.join(sorted(best, key=[quoted(choice) for choice in names].index))}?"
    return ""


def one_of_these(name: str, choices: Iterable[str]) -> str:
    """Return a hint for a message that lists the choices itself: ``did you mean 'x'?``, or to pass one of them."""
    return meant(name, choices) or "pass one of these"


def quoted(text: str) -> str:
    """Return a text of the user in quotes, unchanged: unlike in a repr, backslashes and quotes in it stay single."""
    mark = '"' if "'" in text and '"' not in text else "'"
    return mark + "".join(each if each.isprintable() else repr(each)[1:-1] for each in text) + mark


def check_choice(argument: str, value: object, choices: Iterable[str]) -> None:
    """Reject a value that is not one of ``choices``."""
    names = list(choices)
    if not (isinstance(value, str) and value in names):
        expected = f"one of {', '.join(map(repr, names))}"
        raise InputError(argument, expected, repr(value), one_of_these(str(value), names))


def check_integer(argument: str, value: object, remedy: str, *, least: int = 1, most: int | None = None) -> None:
    """Reject a value that is not an integer from ``least``, to ``most`` if there is a largest one."""
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_integer or not least <= value <= (value if most is None else most):  # type: ignore[operator]
        expected = f"an integer from {least}" + ("" if most is None else f" to {most:,}")
        raise InputError(argument, expected, repr(value), remedy)


# ---------------------------------------------------------------- what installs an extra


def install_command(extra: str) -> str:
    """Return the command that installs an extra of calibrant where this process finds packages.

    An installation from a folder, an archive or a repository has a record of its source, ``direct_url.json`` (PEP 610).
    The command then names this source; a package index may have another calibrant or none.
    """
    return f"{_pip()} install {_requirement(extra, _source())}"


def package_command(package: str) -> str:
    """Return the command that installs another package for this Python."""
    return f"{_pip()} install {package}"


def _pip() -> str:
    """Return how to call the pip of this Python; another pip on the path may install elsewhere.

    Only the path is searched: setuptools has a finder of its own that replaces distutils whenever pip is looked for.
    """
    import shutil
    from importlib.machinery import PathFinder

    pip = shutil.which("pip")
    is_ours = pip is not None and os.path.dirname(pip) == os.path.dirname(sys.executable)
    return "pip" if is_ours or not PathFinder.find_spec("pip") else f"{_shell_quoted(sys.executable)} -m pip"


def _source() -> dict[str, Any]:
    """Return the record of the source, or an empty one."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        text = distribution("calibrant").read_text("direct_url.json")
        record = json.loads(text or "{}")
    except (PackageNotFoundError, OSError, ValueError):
        return {}
    return record if isinstance(record, dict) and isinstance(record.get("url"), str) else {}


def _requirement(extra: str, source: dict[str, Any]) -> str:
    """Return the argument of ``pip install``, quoted for a command line."""
    from urllib.request import url2pathname

    url, plain = source.get("url", ""), f"calibrant[{extra}]"
    path = url2pathname(url.removeprefix("file://")) if url.startswith("file://") else None
    if "dir_info" in source and path is not None and os.path.isdir(path):
        return "-e " * bool(source["dir_info"].get("editable")) + _shell_quoted(f"{path}[{extra}]")
    part = f"#subdirectory={source['subdirectory']}" if source.get("subdirectory") else ""
    if "vcs_info" in source:
        version = source["vcs_info"]
        return _shell_quoted(f"{plain} @ {version['vcs']}+{url}@{version['commit_id']}{part}")
    if "archive_info" in source and (path is None or os.path.isfile(path)):
        return _shell_quoted(f"{plain} @ {url}{part}")
    return _shell_quoted(plain)


def _shell_quoted(word: str) -> str:
    """Return a word in the quotes of the system's command line."""
    return f'"{word}"' if os.name == "nt" else shlex.quote(word)
