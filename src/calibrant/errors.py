"""The one family of errors: which argument, what was expected, what came, what to do about it."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import Final

from calibrant.faults import Facts, Fault

_NO_FACTS: Final = Facts()

#: How many names an error lists.
SHOWN: Final = 30


class CalibrantError(ValueError):
    """Base of every error that calibrant raises about what it was given."""


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
        Position of the first offending value, counted from 0, where there is one; by default that of the facts.
    """

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
        """Return the same error of a function that calls the argument by another name."""
        return self.reworded(names.get(self.argument, self.argument), self.remedy)

    def reworded(self, argument: str, remedy: str) -> InputError:
        """Return the same error with another argument and remedy."""
        words = (argument, self.expected, self.got, remedy)
        return type(self)(*words, fault=self.fault, facts=self.facts, row=self.row, column=self.column)

    def __reduce__(self) -> tuple[object, ...]:
        state = {"fault": self.fault, "facts": self.facts, "row": self.row, "column": self.column}
        return (type(self), (self.argument, self.expected, self.got, self.remedy), state)


class NothingJudgedError(InputError):
    """Predictions without a single judged row: targets or weights leave all of them out."""


@contextmanager
def renaming(**names: str) -> Iterator[None]:
    """Have errors from inside call the arguments as the caller's signature does: ``targets="labels"``."""
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
    EMPTY = "empty"


class FileError(CalibrantError):
    """A file of predictions that cannot be used: names the file, the place in it and the remedy.

    Parameters
    ----------
    path : str
        The file.
    problem : str
        What is wrong, and where in the file.
    remedy : str
        What the caller can do about it.
    options : tuple of str
        The options of the command, with their values, that would do it.
    fault : FileFault
        What callers may branch on.
    """

    def __init__(
        self,
        path: str,
        problem: str,
        remedy: str,
        options: tuple[str, ...] = (),
        fault: FileFault = FileFault.UNREADABLE,
    ) -> None:
        super().__init__(f"{path}: {problem}; {remedy}" + (f" {shlex.join(options)}" if options else ""))
        self.path = path
        self.problem = problem
        self.remedy = remedy
        self.options = options
        self.fault = fault

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.path, self.problem, self.remedy, self.options, self.fault))


class MissingDependencyError(CalibrantError, ImportError):
    """A package that only an extra of calibrant installs is needed and absent."""

    def __init__(self, package: str, purpose: str, extra: str) -> None:
        super().__init__(f"{package} is needed {purpose} and is not installed; run: pip install 'calibrant[{extra}]'")
        self.package = package
        self.purpose = purpose
        self.extra = extra

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.package, self.purpose, self.extra))


def nearest(name: str, choices: Iterable[str]) -> str:
    """Return a hint ``did you mean 'x'?`` or, where nothing is near, the list of the choices."""
    known = list(choices)
    more = f" and {len(known) - SHOWN:,} more" if len(known) > SHOWN else ""
    return meant(name, known) or f"choose from {', '.join(map(repr, known[:SHOWN]))}{more}"


def meant(name: str, choices: Iterable[str]) -> str:
    """Return a hint ``did you mean 'x'?``, or nothing where no choice is near."""
    known = list(choices)
    folded = {choice.casefold(): choice for choice in known}
    close = difflib.get_close_matches(name.casefold(), folded, n=3, cutoff=0.5)
    if close:
        likeness = [difflib.SequenceMatcher(None, match, name.casefold()).ratio() for match in close]
        best = [repr(folded[match]) for match, own in zip(close, likeness, strict=True) if own == likeness[0]]
        # Of several that are equally near, those of the order in which they were given.
        return f"did you mean {' or '.join(sorted(best, key=[repr(choice) for choice in known].index))}?"
    return ""


def check_choice(argument: str, value: object, choices: Iterable[str]) -> None:
    """Raise unless ``value`` is one of ``choices``."""
    known = list(choices)
    if not (isinstance(value, str) and value in known):
        raise InputError(argument, f"one of {', '.join(map(repr, known))}", repr(value), nearest(str(value), known))
