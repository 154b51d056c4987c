"""Columns as options name them, and what is read of a file.

The command reads its options without importing NumPy or what reads files.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from calibrant.errors import SHOWN, FileError, FileFault, meant, quoted
from calibrant.files.class_names import ordered
from calibrant.runtime.dataclass import dataclass

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from calibrant.inputs.weights import WeightsAre


@dataclass(frozen=True)
class Options:
    """What the caller asked for, by the names of the command line's options."""

    score: str | None = None
    outcome: str | None = None
    probs: str | None = None
    target: str | None = None
    weight: str | None = None
    weights_are: WeightsAre | None = None
    where: str | None = None
    timezone: str = "UTC"
    class_names: tuple[str, ...] | None = None
    models: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    by_values: bool = False
    by_models: bool = False  #: whether `by` names the model of each row
    on: tuple[str, ...] = ()
    on_questions: bool = False  #: whether logs that name the question of each row have it as the key
    attempts: bool = False  #: whether a question may have several rows, its attempts
    clusters: tuple[str, ...] = ()
    percent: bool = False
    decimal_comma: bool = False
    odds: str | None = None
    events: str | None = None
    trials: str | None = None
    encoding: str | None = None
    sheet: str | None = None
    header_line: int | None = None
    labels: tuple[str, ...] | None = None
    without_outcomes: bool = False  #: whether the scores alone are read

    @property
    def named(self) -> dict[str, tuple[str, ...]]:
        """The names, expressions and patterns of columns, by the options that have them."""
        single = {
            "--score": self.score,
            "--outcome": self.outcome,
            "--probs": self.probs,
            "--target": self.target,
            "--weight": self.weight,
            "--events": self.events,
            "--trials": self.trials,
        }
        several = {"--scores": self.models, "--by": self.by, "--cluster": self.clusters, "--on": self.on}
        return {option: () if name is None else (name,) for option, name in single.items()} | several

    @property
    def columns(self) -> tuple[str, ...]:
        """The names, expressions and patterns of columns."""
        return tuple(name for names in self.named.values() for name in names if name)

    @property
    def name_scores(self) -> bool:
        """Whether an option names the scores, or the columns of classes or models."""
        return self.score is not None or self.probs is not None or bool(self.models)


#: What scores without outcomes have in place of the column of targets: SQL with the same number in each row.
NO_OUTCOMES: Final = "1 - 1"

LOGITS = re.compile(r"logits?(_.*)?", re.IGNORECASE)


@dataclass(frozen=True)
class ColumnReading:
    """One way to read a file: the values of the options that say it, and the case in which they are right.

    ``always`` is true where the case is said though no other reading is left, `is_named` where the name of the truth
    says that it is one, and `sql` where an option holds an expression. ``flags`` say how the numbers are written.
    """

    values: Mapping[str, str]
    case: str = ""
    always: bool = False
    is_named: bool = True
    sql: bool = False
    flags: tuple[str, ...] = ()

    @property
    def options(self) -> tuple[str, ...]:
        """The options and their values."""
        return tuple(word for pair in self.values.items() for word in pair)

    @property
    def words(self) -> tuple[str, ...]:
        """All that is to be typed."""
        return (*self.options, *self.flags)


def numbered(cases: Sequence[str]) -> list[str]:
    """Return cases with their numbers, if there are several: a message is one line."""
    return [f"({place}) {case}" for place, case in enumerate(cases, 1)] if len(cases) > 1 else list(cases)


class Unnamed(FileError):
    """The names do not say which columns are meant, or leave several readings: the user is to choose one."""

    def __init__(
        self,
        path: str,
        problem: str,
        remedy: str,
        options: tuple[str, ...] = (),
        readings: tuple[ColumnReading, ...] = (),
    ) -> None:
        self.readings = readings
        self.words = remedy
        cases = [f"{reading.case}: {shlex.join(reading.words)}" for reading in readings]
        super().__init__(path, problem, "; ".join([remedy, *numbered(cases)]), options)

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.path, self.problem, self.words, self.options, self.readings))


@dataclass(frozen=True, eq=False)
class Cuts:
    """Numbers cut into groups: the largest number of each, in order, and the groups' names."""

    uppers: NDArray[np.float64]
    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"{len(self.names)} groups of about equal size; to make each number a group, pass --by-values"

    @classmethod
    def of(cls, lowers: Sequence[float], uppers: Sequence[float]) -> Cuts:
        """Return groups from their smallest and largest numbers, named by these, as short as tells them apart."""
        import numpy as np

        for digits in range(3, 18):
            ends = [(_short(low, digits), _short(high, digits)) for low, high in zip(lowers, uppers, strict=True)]
            if len({high for _, high in ends}) == len(ends) and all(
                before != low for (_, before), (low, _) in itertools.pairwise(ends)
            ):
                break
        names = tuple(low if low == high else f"{low} to {high}" for low, high in ends)
        return cls(np.array(uppers, np.float64), names)


def _short(number: float, digits: int) -> str:
    """Return a number with so many digits; a whole one with all of its own."""
    return f"{number:.0f}" if number.is_integer() and abs(number) < 1e15 else f"{number:.{digits}g}"


@dataclass(frozen=True, kw_only=True)
class ColumnSelection:
    """The columns to read.

    ``labels`` is true where the targets are to be strings that match ``class_names``, because the caller says so or the
    columns of probabilities are named by something else than 0 to C - 1. ``models`` are the columns of each of several
    models, where several are read: then ``probs`` are those of all of them. ``percent`` is true where these are per
    cents. ``groups`` and ``clusters`` are columns, or expressions in SQL, whose values together name the group and the
    cluster of a row, and `keys` the row itself; a single target and a single column of ``probs`` may be expressions
    too. `cuts` are the numbers among the groups' columns that are cut. Groups of times with a zone are named by their
    time in ``timezone``. ``odds`` is the form of odds in place of probabilities. With ``counts``, the targets are
    numbers of events, and the weights those of the trials.
    """

    probs: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    weights: str | None = None
    logits: bool = False
    class_names: tuple[str, ...] | None = None
    labels: bool = False
    noun: str = "column"
    models: tuple[tuple[str, tuple[str, ...]], ...] = ()
    groups: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    cuts: Mapping[str, Cuts] = field(default_factory=dict)
    percent: bool = False
    odds: str | None = None
    counts: bool = False
    timezone: str = "UTC"

    @property
    def spellings(self) -> tuple[str, ...] | None:
        """How targets are spelled that are to be strings; None for other targets."""
        return self.class_names or None if self.labels else None

    @property
    def used(self) -> tuple[str, ...]:
        """Every column to read, each once."""
        others = (name for name in (self.weights, *self.groups, *self.clusters, *self.keys) if name)
        return tuple(dict.fromkeys((*self.probs, *self.targets, *others)))

    def names(self) -> dict[str, tuple[str, ...]]:
        """Return the columns by the argument they become."""
        names = {f"probs[{model!r}]": columns for model, columns in self.models} or {"probs": self.probs}
        names["targets"] = self.targets
        names["weights"] = (self.weights,) if self.weights else ()
        names |= {"groups": self.groups, "clusters": self.clusters, "keys": self.keys}
        return {argument: columns for argument, columns in names.items() if columns}

    def sources(self) -> dict[str, str]:
        """Return the columns by the argument they become, in words."""
        words = {argument: in_words(names, self.noun) for argument, names in self.names().items()}
        if self.cuts:
            groups = (f"{name} ({self.cuts[name]})" if name in self.cuts else name for name in self.groups)
            words["groups"] = ", ".join(groups)
        unit = " in percent" if self.percent else f" as {self.odds} odds" if self.odds else ""
        return {name: source + unit * name.startswith("probs") for name, source in words.items()}


def are_logits(columns: Sequence[str]) -> bool:
    """Whether columns are named as logits are."""
    return all(LOGITS.fullmatch(name) for name in columns)


class NamedColumns:
    """The columns of a file that options name, or its arrays; errors about a name list them."""

    def __init__(self, path: str, columns: tuple[str, ...], noun: str, in_path: Collection[str] = ()) -> None:
        self.in_path = in_path  #: the columns that only an option may name
        self.path = path
        self.columns = columns
        self.noun = noun

    @property
    def listing(self) -> str:
        """The columns in words."""
        return f"the {self.noun}s are {listed(self.columns)}"

    def check(self, options: Options) -> None:
        """Reject options that exclude each other, and several names that are not columns, all at once.

        A single one is an error where it is used.
        """
        if options.score is not None and options.probs is not None:
            remedy = "--score is for one event, and --probs is for many classes"
            raise FileError(self.path, "both --score and --probs are given", remedy)
        if options.outcome is not None and options.target is not None:
            raise FileError(self.path, "both --outcome and --target are given", "pass only one of the two options")
        is_array = self.noun != "column"
        given = [(option, name) for option, name, is_name in self._given(options) if is_name or is_array]
        wrong = [(option, name) for option, name in given if name not in self.columns]
        if len(wrong) > 1:
            hints = [f"{quoted(name)} ({option}) {meant(name, self.columns)}".strip() for option, name in wrong]
            problem = f"has no {self.noun}s {', '.join(hints)}"
            raise FileError(self.path, problem, self.listing, fault=FileFault.NO_SUCH_COLUMN)

    def _given(self, options: Options) -> Iterator[tuple[str, str, bool]]:
        """Yield each option, a name that it has, and whether it can only be a name."""
        named, lists = options.named, ("--probs", "--target", "--scores")
        for option in sorted(named, key=lists.__contains__):  # lists of columns last
            for text in named[option]:
                if option not in lists:
                    yield option, text, _is_name(text)
                elif text not in self.columns:
                    parts = filter(None, map(str.strip, text.split(",")))
                    yield from ((option, name, not _is_glob(name)) for name in parts)

    def free(self, taken: Collection[str | None]) -> list[str]:
        """Return the columns that usual names may stand for: those of the file that no option names."""
        others = {*taken, *self.in_path}
        return [name for name in self.columns if name not in others]

    def one(self, option: str, name: str) -> str:
        """Return a column."""
        if name not in self.columns:
            raise self._missing(option, name)
        return name

    def column_or_sql(self, option: str, value: str) -> str:
        """Return a column, or an expression in SQL."""
        return value if self.noun == "column" and not _is_name(value) else self.one(option, value)

    def named(self, option: str, value: str) -> tuple[str, ...]:
        """Return the columns of a name, of names separated by commas, or of a pattern."""
        if value in self.columns:
            return (value,)
        if "," in value:
            parts = [part.strip() for part in value.split(",") if part.strip()]
            names = [name for part in parts for name in self.named(option, part)]
            twice = [name for name in names if names.count(name) > 1]
            if twice:
                raise FileError(
                    self.path, f"{option} names {self.noun} {quoted(twice[0])} twice", "name each of them once"
                )
            return tuple(names)
        if not _is_glob(value) or self.noun != "column":
            raise self._missing(option, value)
        matching = tuple(name for name in self.columns if fnmatchcase(name, value))
        if not matching:
            raise FileError(self.path, f"no column matches {option} {quoted(value)}", self._listing_for(option, value))
        return matching

    def is_pattern(self, value: str) -> bool:
        """Whether a value stands for several columns; a glob that a column bears as its own name is that column."""
        return _is_glob(value) and value not in self.columns

    def targets(self, options: Options) -> tuple[str, ...] | None:
        """Return the columns of the targets; None where no option names them."""
        if options.without_outcomes:
            if self.noun != "column":
                raise FileError(self.path, f"holds {self.noun}s, not columns", "save the scores as CSV or Parquet")
            return (NO_OUTCOMES,)
        if options.events is not None:
            return (self.one("--events", options.events),)
        if options.outcome is not None:
            return (self.column_or_sql("--outcome", options.outcome),)
        return None if options.target is None else self.named("--target", options.target)

    def models(self, options: Sequence[str]) -> tuple[tuple[tuple[str, tuple[str, ...]], ...], tuple[str, ...] | None]:
        """Return the columns of each model, one or one for each class, and the names of the classes as `ordered`."""
        models = {option: self.named("--scores", option) for option in options}
        classes = {option: ordered(names, option) for option, names in models.items() if self.is_pattern(option)}
        first = next(iter(classes), None)
        for option, (names, suffixes) in classes.items():
            models[option] = names
            if first is not None and suffixes != classes[first][1]:
                words = [
                    f"the classes {', '.join(names)}" if names else "numbered classes"
                    for names in (suffixes, classes[first][1])
                ]
                problem = f"--scores {quoted(option)} has {words[0]}, but {quoted(first)} has {words[1]}"
                raise FileError(self.path, problem, "name models of the same classes")
        return tuple(models.items()), None if first is None else classes[first][1]

    def _missing(self, option: str, name: str) -> FileError:
        inner = [column for column in self.columns if column.endswith(f".{name}")]  # a key within objects
        remedy = f"{meant(name, inner or self.columns)} {self._listing_for(option, name)}".strip()
        problem = f"has no {self.noun} {quoted(name)} ({option})"
        return FileError(self.path, problem, remedy, fault=FileFault.NO_SUCH_COLUMN)

    def _listing_for(self, option: str, value: str) -> str:
        is_sql = option == "--scores" and self.noun == "column" and re.search(r"\w\W+\w", value)
        return f"{option} takes columns, not SQL; {self.listing}" if is_sql else self.listing


def check_selection(path: str, columns: Sequence[str], selection: ColumnSelection) -> None:
    """Reject logits that are called per cents, and columns that share their name."""
    for names in [names for _, names in selection.models] or [selection.probs]:
        if selection.percent and are_logits(names) and set(names) <= set(columns):
            problem = f"--percent is given, but the name of {in_words(names, selection.noun)} suggests logits"
            raise FileError(path, problem, "leave --percent out, or name the columns of probabilities")
    for name in selection.used:
        count = columns.count(name)
        if count > 1:
            raise FileError(path, f"has {count} columns named {quoted(name)}", "rename all but one")


def listed(columns: Sequence[str]) -> str:
    """Return the columns' names on one line; a thousand of them help nobody."""
    more = f" and {len(columns) - SHOWN:,} more" if len(columns) > SHOWN else ""
    return ", ".join(columns[:SHOWN]) + more


def in_words(names: tuple[str, ...], noun: str) -> str:
    """Return some columns' names on one line; of many of them the first and the last."""
    if len(names) == 1:
        return names[0]
    if len(names) == 2:
        return f"{names[0]}, {names[1]} (2 {noun}s)"
    return f"{names[0]} ... {names[-1]} ({len(names)} {noun}s)"


def _is_name(text: str) -> bool:
    """Return whether a text is a name or a path of names; SQL and numbers are not."""
    return re.fullmatch(r"\w+|[^\W\d]\w*(\.\w+)+", text) is not None


def _is_glob(value: str) -> bool:
    return any(character in value for character in "*?[")


def check_same(path: str, selection: ColumnSelection, first_path: str, first: ColumnSelection) -> None:
    """Reject a file whose columns are not those of the first one."""
    for argument, names in first.names().items():
        others = selection.names()[argument]
        if set(names) != set(others):
            got = in_words(others, selection.noun)
            first_name = os.path.basename(first_path)
            problem = f"has {argument} in {got}, but {first_name} has {argument} in {in_words(names, first.noun)}"
            raise FileError(path, problem, "pass files with the same columns, or name the columns with options")
