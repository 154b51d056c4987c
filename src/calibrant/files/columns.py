"""Which columns hold what: the ones that options name, else the ones with a usual name.

The command reads its options without importing NumPy or what reads files.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from calibrant.errors import SHOWN, FileError, FileFault, meant, quoted
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
    on: tuple[str, ...] = ()
    on_questions: bool = False  #: whether logs that name the question of each row have it as the key
    clusters: tuple[str, ...] = ()
    percent: bool = False
    decimal_comma: bool = False
    labels: tuple[str, ...] | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The names and patterns of columns."""
        single = (self.score, self.outcome, self.probs, self.target, self.weight)
        return (*filter(None, single), *self.models, *self.by, *self.clusters, *self.on)


PROBS_NAMES = tuple(
    re.findall(
        r"\w+",
        """
        probs prob probability probabilities proba predictions predicted_probability pred_prob y_prob y_proba
        y_score score scores confidence confidences softmax p logits logit
        """,
    )
)
TARGETS_NAMES = tuple(
    re.findall(
        r"\w+",
        """
        target targets label labels true_label true_labels y y_true outcome outcomes ground_truth groundtruth truth
        gt correct is_correct event obs observed class
        """,
    )
)
PROBS_PREFIXES = ("p_", "prob_", "probs_", "proba_", "probability_", "logit_", "logits_")
#: By what holds the probabilities: the option for one column of them, all options, and some usual names.
_PROBS_OPTIONS = {
    "column": ("--score", "--score (one event) or --probs (many classes)", "probs, p_*, probability, score"),
    "array": ("--probs", "--probs", "probs, predictions, logits"),
}
LOGITS = re.compile(r"logits?(_.*)?", re.IGNORECASE)


@dataclass(frozen=True)
class ColumnReading:
    """One way to read a file: the options that say it, and the case in which they are right.

    ``always`` is true where the case is said though no other reading is left, `is_named` where the name of the truth
    says that it is one, and `sql` where an option holds an expression.
    """

    options: tuple[str, ...]
    case: str = ""
    always: bool = False
    is_named: bool = True
    sql: bool = False


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
        cases = [f"{reading.case}: {shlex.join(reading.options)}" for reading in readings]
        super().__init__(path, problem, "; ".join([remedy, *cases]), options)

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.path, self.problem, self.words, self.options, self.readings))


@dataclass(frozen=True, eq=False)
class Cuts:
    """Numbers cut into groups: the largest number of each, in order, and the groups' names."""

    uppers: NDArray[np.float64]
    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"{len(self.names)} groups of about equal size; with --by-values, each number is a group"

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
    time in ``timezone``.
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
        words = {argument: _in_words(names, self.noun) for argument, names in self.names().items()}
        if self.cuts:
            groups = (f"{name} ({self.cuts[name]})" if name in self.cuts else name for name in self.groups)
            words["groups"] = ", ".join(groups)
        unit = " in percent" if self.percent else ""
        return {name: source + unit * name.startswith("probs") for name, source in words.items()}


def select(path: str, columns: Sequence[str], options: Options, noun: str = "column") -> ColumnSelection:
    """Decide which columns (or arrays) of a file to read.

    Raises
    ------
    FileError
        Where a named column is missing, or none or several have a usual name.
    """
    finder = _Finder(path, tuple(columns), noun)
    finder.check_options(options)
    finder.check_names(options)
    weights = None if options.weight is None else finder.one("--weight", options.weight)
    targets = finder.named_targets(options)
    groups = tuple(finder.column_or_sql("--by", value) for value in options.by)
    clusters = tuple(finder.column_or_sql("--cluster", value) for value in options.clusters)
    keys = tuple(finder.one("--on", value) for value in options.on)
    others = {weights, *groups, *clusters, *keys}
    models, suffixes = _select_models(finder, options.models)
    probs = tuple(dict.fromkeys(column for _, names in models for column in names))
    if not models:
        probs, suffixes = _select_probs(finder, options, {*(targets or ()), *others})
    if targets is None:
        targets = finder.usual_targets({*probs, *others}, len(probs) == max(len(models), 1), groups)
    class_names, labels = _classes(finder, options, suffixes)
    is_expression = options.score is not None and options.score not in columns  # whose text is not a name
    selection = ColumnSelection(
        probs=probs,
        targets=targets,
        weights=weights,
        groups=groups,
        clusters=clusters,
        keys=keys,
        logits=are_logits(probs) and not is_expression,
        percent=options.percent,
        timezone=options.timezone,
        class_names=class_names,
        labels=labels,
        noun=noun,
        models=models,
    )
    finder.check_selection(selection, is_expression)
    return selection


def class_columns(
    path: str, columns: Sequence[str], probs: str | None, n: int, names: Sequence[str] | None
) -> list[str]:
    """Return the columns of the probabilities of ``n`` classes with these names, in their order.

    Raises
    ------
    FileError
        For a column that is missing, and for another number of columns or other classes.
    """
    found, suffixes = _select_probs(_Finder(path, tuple(columns), "column"), Options(probs=probs), set())
    words = _in_words(found, "column")
    if len(found) != n:
        raise FileError(path, f"has {words}, but the map has {n} classes", "name the columns with --probs")
    if names is None or suffixes is None or list(suffixes) == list(names):
        return list(found)
    if set(suffixes) != set(names):
        classes = f"classes {listed(suffixes)}, but the map has {listed(names)}"
        raise FileError(path, f"has {words} for the {classes}", "pass probabilities of the same classes")
    return [found[suffixes.index(name)] for name in names]


def _classes(
    finder: _Finder, options: Options, suffixes: tuple[str, ...] | None
) -> tuple[tuple[str, ...] | None, bool]:
    """Return the names of the classes, and whether the targets are to be strings that match them."""
    names = options.labels or options.class_names
    if names is not None or suffixes is None:
        return names, options.labels is not None
    # Numbers that are listed with words are not indices: targets are matched by name then.
    are_listed = options.probs is not None and not finder.is_pattern(options.probs)
    return suffixes, not are_listed or any(name.isdecimal() for name in suffixes)


def _select_probs(
    finder: _Finder, options: Options, taken: set[str | None]
) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Return the columns of probabilities, and the names of the classes where the columns say them."""
    if options.score is not None:
        return (finder.column_or_sql("--score", options.score),), None
    if options.probs is None:
        names, pattern = finder.usual_probs(taken)
        return (names, None) if pattern is None else _ordered(names, pattern)
    names = finder.named("--probs", options.probs)
    return _ordered(names, options.probs) if finder.is_pattern(options.probs) else (names, _ends(names))


def _select_models(
    finder: _Finder, options: Sequence[str]
) -> tuple[tuple[tuple[str, tuple[str, ...]], ...], tuple[str, ...] | None]:
    """Return the columns of each model, one or one for each class, and the names of the classes as `_select_probs`."""
    models = {option: finder.named("--scores", option) for option in options}
    classes = {option: _ordered(names, option) for option, names in models.items() if finder.is_pattern(option)}
    first = next(iter(classes), None)
    for option, (names, suffixes) in classes.items():
        models[option] = names
        if first is not None and suffixes != classes[first][1]:
            words = [", ".join(names) if names else "numbered" for names in (suffixes, classes[first][1])]
            problem = f"--scores {quoted(option)} has the classes {words[0]}, but {quoted(first)} has {words[1]}"
            raise FileError(finder.path, problem, "name models of the same classes")
    return tuple(models.items()), None if first is None else classes[first][1]


def are_logits(columns: Sequence[str]) -> bool:
    """Whether columns are named as logits are."""
    return all(LOGITS.fullmatch(name) for name in columns)


class _Finder:
    def __init__(self, path: str, columns: tuple[str, ...], noun: str) -> None:
        self.path = path
        self.columns = columns
        self.noun = noun

    @property
    def listing(self) -> str:
        return f"the {self.noun}s are {listed(self.columns)}"

    def _listing_for(self, option: str, value: str) -> str:
        is_sql = option == "--scores" and self.noun == "column" and re.search(r"\w\W+\w", value)
        return f"{option} takes columns, not SQL; {self.listing}" if is_sql else self.listing

    def one(self, option: str, name: str) -> str:
        if name not in self.columns:
            raise self.missing(option, name)
        return name

    def column_or_sql(self, option: str, value: str) -> str:
        """Return a column, or an expression in SQL."""
        return value if self.noun == "column" and not _is_name(value) else self.one(option, value)

    def check_options(self, options: Options) -> None:
        """Reject options that exclude each other."""
        if options.score is not None and options.probs is not None:
            remedy = "--score is for one event, and --probs is for many classes"
            raise FileError(self.path, "both --score and --probs are given", remedy)
        if options.outcome is not None and options.target is not None:
            raise FileError(self.path, "both --outcome and --target are given", "pass only one of the two options")

    def check_names(self, options: Options) -> None:
        """Reject several names that are not columns, all at once; a single one is an error where it is used."""
        values = [("--score", options.score), ("--outcome", options.outcome), ("--weight", options.weight)]
        for option, names in (("--by", options.by), ("--cluster", options.clusters), ("--on", options.on)):
            values += [(option, name) for name in names]
        asked = [(option, name, _is_name(name)) for option, name in values if name is not None]
        lists = [("--probs", options.probs), ("--target", options.target), *(("--scores", m) for m in options.models)]
        for option, value in lists:
            if value is not None and value not in self.columns:
                parts = filter(None, map(str.strip, value.split(",")))
                asked += [(option, name, not _is_glob(name)) for name in parts]
        is_array = self.noun != "column"
        wrong = [(option, name) for option, name, is_name in asked if is_name or is_array]
        wrong = [(option, name) for option, name in wrong if name not in self.columns]
        if len(wrong) > 1:
            hints = [f"{quoted(name)} ({option}) {meant(name, self.columns)}".strip() for option, name in wrong]
            problem = f"has no {self.noun}s {', '.join(hints)}"
            raise FileError(self.path, problem, self.listing, fault=FileFault.NO_SUCH_COLUMN)

    def check_selection(self, selection: ColumnSelection, is_expression: bool) -> None:
        """Reject logits that are called per cents, and columns that share their name."""
        for names in [names for _, names in selection.models] or [selection.probs]:
            if selection.percent and are_logits(names) and not is_expression:
                problem = f"--percent is given, but the name of {_in_words(names, self.noun)} suggests logits"
                raise FileError(self.path, problem, "leave --percent out, or name the columns of probabilities")
        for name in selection.used:
            count = self.columns.count(name)
            if count > 1:
                raise FileError(self.path, f"has {count} columns named {quoted(name)}", "rename all but one")

    def named_targets(self, options: Options) -> tuple[str, ...] | None:
        if options.outcome is not None:
            return (self.column_or_sql("--outcome", options.outcome),)
        return None if options.target is None else self.named("--target", options.target)

    def named(self, option: str, value: str) -> tuple[str, ...]:
        if value in self.columns:
            return (self.one(option, value),)
        if "," in value:
            parts = [part.strip() for part in value.split(",") if part.strip()]
            names = [name for part in parts for name in self.named(option, part)]
            twice = [name for name in names if names.count(name) > 1]
            if twice:
                raise FileError(
                    self.path, f"{option} names {self.noun} {quoted(twice[0])} twice", "name each of them once"
                )
            return tuple(names)
        if _is_glob(value) and self.noun == "column":
            matching = tuple(name for name in self.columns if fnmatchcase(name, value))
            if not matching:
                raise FileError(
                    self.path, f"no column matches {option} {quoted(value)}", self._listing_for(option, value)
                )
            return matching
        raise self.missing(option, value)

    def is_pattern(self, value: str) -> bool:
        """Whether a value stands for several columns; a glob that a column bears as its own name is that column."""
        return _is_glob(value) and value not in self.columns

    def missing(self, option: str, name: str) -> FileError:
        inner = [column for column in self.columns if column.endswith(f".{name}")]  # a key within objects
        remedy = f"{meant(name, inner or self.columns)} {self._listing_for(option, name)}".strip()
        problem = f"has no {self.noun} {quoted(name)} ({option})"
        return FileError(self.path, problem, remedy, fault=FileFault.NO_SUCH_COLUMN)

    def usual_probs(self, taken: set[str | None]) -> tuple[tuple[str, ...], str | None]:
        free = [name for name in self.columns if name not in taken]
        candidates: list[tuple[tuple[str, ...], str | None]] = [
            ((name,), None) for name in free if name.lower() in PROBS_NAMES
        ]
        for prefix in PROBS_PREFIXES if self.noun == "column" else ():
            # Matched without regard to case; the pattern keeps the spelling of the file.
            group = tuple(name for name in free if name.lower().startswith(prefix) and len(name) > len(prefix))
            if len(group) > 1 and len({name[: len(prefix)] for name in group}) == 1:
                candidates.append((group, group[0][: len(prefix)] + "*"))
        option, wanted, examples = _PROBS_OPTIONS[self.noun]
        rivals = {
            _in_words(group, self.noun): (option if pattern is None else "--probs", pattern or group[0])
            for group, pattern in candidates
        }
        self.check_single(rivals, "the probabilities", wanted, examples)
        return candidates[0]

    def usual_targets(self, taken: set[str | None], one_event: bool, groups: Sequence[str] = ()) -> tuple[str, ...]:
        candidates = [name for name in self.columns if name not in taken and name.lower() in TARGETS_NAMES]
        wanted = "--outcome (one event) or --target (many classes)" if self.noun == "column" else "--target"
        option = "--outcome" if one_event and self.noun == "column" else "--target"
        named = next((name for name in groups if name.lower() in TARGETS_NAMES), None)
        if not candidates and named is not None:
            problem = f"no other {self.noun} has a usual name for the targets, because --by uses {quoted(named)}"
            raise Unnamed(self.path, problem, f"if {quoted(named)} also holds the targets, type", (option, named))
        examples = "target, label, y, outcome"
        self.check_single({name: (option, name) for name in candidates}, "the targets", wanted, examples)
        return (candidates[0],)

    def check_single(self, rivals: Mapping[str, tuple[str, ...]], what: str, wanted: str, examples: str) -> None:
        """Reject none and several columns, which come with the options that name them."""
        if len(rivals) == 1:
            return
        remedy = f"name the right {self.noun} with {wanted}"
        if not rivals:
            remedy += f"; {self.listing}"
            raise Unnamed(self.path, f"no {self.noun} has a usual name for {what} ({examples}, ...)", remedy)
        readings = tuple(ColumnReading(options, f"if {quoted(name)}") for name, options in rivals.items())
        raise Unnamed(
            self.path, f"several {self.noun}s could be {what}: {', '.join(rivals)}", remedy, readings=readings
        )


def listed(columns: Sequence[str]) -> str:
    """Return the columns' names on one line; a thousand of them help nobody."""
    more = f" and {len(columns) - SHOWN:,} more" if len(columns) > SHOWN else ""
    return ", ".join(columns[:SHOWN]) + more


def _in_words(names: tuple[str, ...], noun: str) -> str:
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


def _ordered(names: tuple[str, ...], pattern: str) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Put the columns of a pattern in the order of the classes; return their suffixes unless these are 0 to C - 1."""
    prefix = re.split(r"[*?[]", pattern, maxsplit=1)[0]
    tail = pattern[len(prefix) + 1 :] if pattern.count("*") == 1 and not re.search(r"[?[]", pattern) else ""
    if "," in pattern or len(names) == 1:
        return names, None
    suffix = {name: name[len(prefix) : len(name) - len(tail)] for name in names}
    if all(re.fullmatch("[0-9]+", text) for text in suffix.values()):
        numbers = {name: int(text) for name, text in suffix.items()}
        if len(set(numbers.values())) == len(names):
            names = tuple(sorted(names, key=numbers.__getitem__))
            if sorted(numbers.values()) == list(range(len(names))):
                return names, None
    return names, tuple(suffix[name] for name in names)


def _ends(names: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the names of classes by listed columns: what follows their common beginning, such as ``p_`` or ``prob``.

    None if they have different beginnings, or if 0 to C - 1 follow the common one.
    """
    common = os.path.commonprefix(names)  # noqa: RUF071 - these are not paths
    words = [common[: len(word)] for word in PROBS_NAMES if len(word) > 3 and common.lower().startswith(word)]
    beginning = max(re.sub(r"[^_.\- ]*$", "", common), *words, "", key=len)
    ends = tuple(name[len(beginning) :] for name in names)
    numbered = ends == tuple(map(str, range(len(names))))
    return None if len(names) == 1 or not beginning or numbered or not all(ends) else ends


def check_same(path: str, selection: ColumnSelection, first_path: str, first: ColumnSelection) -> None:
    """Reject a file whose columns are not those of the first one."""
    for argument, names in first.names().items():
        others = selection.names()[argument]
        if set(names) != set(others):
            got = _in_words(others, selection.noun)
            first_name = os.path.basename(first_path)
            problem = f"has {argument} in {got}, but {first_name} has them in {_in_words(names, first.noun)}"
            raise FileError(path, problem, "pass files with the same columns, or name the columns with options")
