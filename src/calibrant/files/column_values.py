"""Values of columns and arrays: names as numbers, labels as strings, per cents as fractions, numbers as groups."""

from __future__ import annotations

import ast
import contextlib
import itertools
import math
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import FileError, FileFault, InputError, quoted
from calibrant.files.column_options import ColumnSelection, Cuts, listed
from calibrant.inputs.group_rows import group_name
from calibrant.runtime.dataclass import dataclass
from calibrant.table.cluster_labels import SEPARATOR, ClusterLabels, as_clusters, escaped, label_texts

PERCENT_REMEDY = "pass --percent if the numbers are percentages"

_LONGEST = 40  # characters of a cell that an error shows
_MISSING = frozenset(
    (
        "",
        *["na", "n/a", "n.a.", "nan", "nat", "null", "none", "missing", "<na>", ".", "-", "--", "–", "—", "?"],
        *["#n/a", "#nv", "#n/d", "#div/0!", "#value!", "#ref!", "#num!"],  # of Excel, also in German and Spanish
    )
)
_PER_CENT = re.compile(r"%?\s*([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)\s*%?")


class BadTarget(FileError):
    """A cell of the only column of targets that is not a number: the column may hold labels."""

    def __init__(self, path: str, problem: str, remedy: str, column: str, score: str) -> None:
        super().__init__(path, problem, remedy, fault=FileFault.VALUE, column=column)
        self.column: str = column
        self.score = score

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.path, self.problem, self.remedy, self.column, self.score))


@dataclass(frozen=True, eq=False)
class ValueWords:
    """Names or labels of rows: ``names[codes]``. A name may stand twice in ``names``."""

    names: NDArray[Any]
    codes: NDArray[np.integer[Any]]

    @classmethod
    def of(cls, array: NDArray[Any]) -> ValueWords:
        """Return the words of an array; bytes become text."""
        names, codes = np.unique(array, return_inverse=True)
        if array.dtype.kind in "US":  # a text takes the memory of its own length, not that of the longest
            names = names.astype(str).astype(object)
        return cls(names, codes.reshape(-1))

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.names.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.codes.shape

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: slice) -> ValueWords:
        return ValueWords(self.names, self.codes[rows])

    def array(self) -> NDArray[Any]:
        """Return the name of each row."""
        names: NDArray[Any] = self.names[self.codes]
        return names

    def spelled(self, labels: tuple[str, ...] | None) -> ValueWords:
        """Return the words as strings, and ``1.0`` as ``1`` where a label is spelled so; without labels unchanged."""
        if labels is None:
            return self
        return ValueWords(np.array([_spell(name, labels) for name in self.names], dtype=object), self.codes)


#: The values of an argument, a row each.
Column = NDArray[Any] | ValueWords
#: Columns by argument.
Piece = dict[str, Column]


def rows_of(piece: Piece) -> int:
    """Return how many rows there are."""
    return len(next(iter(piece.values())))


def join(columns: list[Column]) -> Column:
    """Join columns of successive rows."""
    if len(columns) == 1:
        return columns[0]
    words = [column for column in columns if isinstance(column, ValueWords)]
    if not words:
        return np.concatenate(columns)  # type: ignore[arg-type]  # all of them are arrays
    starts = np.cumsum([0, *(len(each.names) for each in words[:-1])])
    codes = [each.codes + start for each, start in zip(words, starts, strict=True)]
    return ValueWords(np.concatenate([each.names for each in words]), np.concatenate(codes))


def join_into_array(columns: list[Column]) -> NDArray[Any]:
    """Join columns into one array. Each is freed once it is copied: ``columns`` is empty afterwards."""
    dtype, tail = np.result_type(*(column.dtype for column in columns)), columns[0].shape[1:]
    joined, start = np.empty((sum(map(len, columns)), *tail), dtype), 0
    columns.reverse()
    while columns:
        column = columns.pop()
        joined[start : start + len(column)] = column.array() if isinstance(column, ValueWords) else column
        start += len(column)
    return joined


def group_numbers(words: ValueWords, numbers: dict[str, int]) -> NDArray[np.int32]:
    """Return the number of each row's group; a new name, in the order in which they come, gets the next number.

    Names that are spelled alike have one number.
    """
    of_names = [numbers.setdefault(group_name(name), len(numbers)) for name in words.names]
    codes: NDArray[np.int32] = np.array(of_names, np.int32)[words.codes]
    return codes


def combined(columns: Sequence[Column]) -> Column:
    """Return one label for each row of one or several columns: the texts of its values, joined."""
    return columns[0] if len(columns) == 1 else _crossed(map(_texts, columns), lambda one, more: one + SEPARATOR + more)


def _crossed(columns: Iterable[tuple[list[Any], NDArray[np.intp]]], pair_name: Callable[[Any, Any], Any]) -> ValueWords:
    """Return the joined names of the pairs that occur in rows; a column has names, and the place of each row's name."""
    (names, codes), *others = columns
    for more, places in others:
        pairs, codes = np.unique(codes * len(more) + places, return_inverse=True)
        firsts, seconds = (side.tolist() for side in np.divmod(pairs, len(more)))
        names = [pair_name(names[a], more[b]) for a, b in zip(firsts, seconds, strict=True)]
    return ValueWords(np.array(names, object), codes)


def _texts(column: Column) -> tuple[list[str], NDArray[np.intp]]:
    """Return the distinct labels of rows as escaped text, and the place of each row's."""
    if isinstance(column, ValueWords):
        texts, codes = column.names.tolist(), column.codes
    else:
        distinct, firsts, codes = np.unique(column, return_index=True, return_inverse=True)
        texts = label_texts(distinct, firsts)
    return list(map(escaped, texts)), codes.astype(np.intp)


def labels_of_column(column: Column) -> ClusterLabels:
    """Return the clusters of rows."""
    if isinstance(column, ValueWords):
        return as_clusters(column.names, len(column.names)).take(column.codes)
    return as_clusters(column, len(column))


def class_indices(labels: ValueWords, names: Sequence[str]) -> NDArray[Any]:
    """Return the class of each label, or the labels where one is not among the names."""
    places = {name: place for place, name in enumerate(names)}
    classes: NDArray[Any] = np.array([places.get(name, -1) for name in labels.names.tolist()], np.int32)[labels.codes]
    return labels.array() if classes.min(initial=0) < 0 else classes


def truth_values(targets: Column, selection: ColumnSelection) -> Column:
    """Return the texts ``true`` and ``false``, in any case, as truth values; other targets, and names, as they came."""
    if not isinstance(targets, ValueWords) or selection.labels:
        return targets
    texts = [str(name).strip().lower() for name in targets.names]
    names = {name.lower() for name in selection.class_names or ()}
    if not {"true", "false"}.issuperset(texts) or names.intersection(texts):
        return targets
    truths: NDArray[np.bool_] = np.array([text == "true" for text in texts], np.bool_)[targets.codes]
    return truths


def _spell(value: Any, labels: tuple[str, ...]) -> str:
    """Return how the labels spell a value: True may be ``true``, and 1.0 or the text ``1.0`` may be ``1``."""
    text = str(value)
    spellings = [text, text.lower() if isinstance(value, (bool, np.bool_)) else text]
    with contextlib.suppress(ValueError):
        spellings.append(group_name(float(text)))
    spellings.append(text.strip())  # spaces around a label say nothing
    return next((spelling for spelling in spellings if spelling in labels), group_name(value))


def shown(text: str) -> str:
    """Return a cell's text as errors show it."""
    return quoted(text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…")


def is_short(text: str) -> bool:
    """Whether a text fits into a condition that an error proposes."""
    return len(text) <= _LONGEST and "\n" not in text and not text.startswith("[")


def is_missing(text: str) -> bool:
    """Whether a text stands for a missing value."""
    return text.strip().lower() in _MISSING


def is_missing_cell(cell: Any) -> bool:
    """Whether a cell holds no value: null, NaN, or a text that stands for it."""
    if isinstance(cell, str):
        return is_missing(cell)
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


def number_in(cell: Any) -> float:
    """Return the number of a cell, of a truth value 0 or 1; NaN where it has none."""
    word = cell.strip().lower() if isinstance(cell, str) else ""
    if word in ("true", "false"):
        return float(word == "true")
    try:
        return math.nan if "_" in word else float(cell)
    except (TypeError, ValueError):
        return math.nan


# ---------------------------------------------------------------- per cents


def fraction(text: str) -> float:
    """Return what a text such as ``85%``, ``85 %``, ``%85`` or ``85`` says as a fraction; NaN for others."""
    match = _PER_CENT.fullmatch(text.strip())
    number = float(match[1]) if match else math.nan
    return number / 100 if 0 <= number <= 100 else math.nan


def is_signed(text: str) -> bool:
    """Whether a text is a percentage and says so."""
    return "%" in text and not math.isnan(fraction(text))


@dataclass
class Percents:
    """Per cents of one column, some rows after the other, as fractions.

    Numbers from 0 to 100 and texts such as ``85%`` are divided by 100; nothing else is read as a percentage. The
    quotient is the double nearest to it, so that ``85``, ``"85%"`` and a caller's own ``85 / 100`` are equal.
    """

    path: str
    place: Callable[[int], str]  #: from a row's position to the row and the column in words
    remedy: Callable[[str], str]  #: from a bad cell's text to what can be done about it
    column: str | None = None  #: of a table
    #: The largest number, less what rounding may add to it; infinite once a sign says that all are per cents.
    largest: float = 0.0
    _has_sign: bool = False
    _unsigned: tuple[int, str] | None = None  # the first cell that may be a fraction: its row and its text

    def fractions(self, values: Column, start: int, width: int = 1) -> NDArray[Any]:
        """Return the next values as fractions: ``width`` of each row, the first row at position ``start``.

        It raises `FileError` for a value that is not a percentage, and for ``0.85`` in addition to ``85%``, which may
        be a fraction.
        """
        if isinstance(values, ValueWords):
            texts = [str(name) for name in values.names]
            shares: NDArray[Any] = np.array([fraction(text) for text in texts], float)[values.codes]
            self._check_signs(texts, values.codes, start, width)
        else:
            shares = np.full(values.shape, math.nan)
            if values.dtype.kind != "b":  # floats keep their width
                shares = values / 100 if values.dtype.kind == "f" else values.astype(np.float64) / 100
                shares[~((values >= 0) & (values <= 100))] = math.nan
        bad = np.flatnonzero(np.isnan(shares))
        if len(bad):
            cell = values.names[values.codes[bad[0]]] if isinstance(values, ValueWords) else values.reshape(-1)[bad[0]]
            text = str(cell) if isinstance(values, ValueWords) else str(cell).removesuffix(".0")
            got = shown(text) if isinstance(values, ValueWords) else text
            problem = f"{self.place(start + int(bad[0]) // width)}: {got} is not a percentage from 0 to 100"
            problem = f"{problem}, such as 85 or '85%'"
            raise FileError(self.path, problem, self.remedy(text), fault=FileFault.VALUE, column=self.column)
        rounding = 8 * float(np.finfo(shares.dtype).eps)
        largest = math.inf if self._has_sign else 100 * float(shares.max(initial=0)) / (1 + rounding)
        self.largest = max(self.largest, largest)
        return shares

    def _check_signs(self, texts: list[str], codes: NDArray[Any], start: int, width: int) -> None:
        self._has_sign = self._has_sign or any(map(is_signed, texts))
        unsigned = [code for code, text in enumerate(texts) if "%" not in text and 0 < fraction(text) <= 0.01]
        if unsigned and self._unsigned is None:
            first = int(np.argmax(np.isin(codes, unsigned)))
            self._unsigned = start + first // width, texts[codes[first]]
        if self._has_sign and self._unsigned is not None:
            row, text = self._unsigned
            problem = (
                f"{self.place(row)}: {shown(text)} has no percent sign but other values have one, so it may "
                "be a fraction"
            )
            raise FileError(self.path, problem, "write all cells with a percent sign, or all without")


def check_per_cents(path: str, names: Sequence[str], largest: float) -> None:
    """Reject per cents of a model if none exceeds 1: they may be fractions. Zeros are zero in both.

    Fractions that are divided by 100 again give a report without any other error.
    """
    if 0 < largest <= 1:
        problem = f"--percent is given, but no value of {listed(names)} exceeds 1, so the values look like fractions"
        remedy = "leave --percent out, or write percentages in every column of scores"
        raise FileError(path, problem, f"{remedy}; percentages of 1 or less need a percent sign, such as 0.5%")


# ---------------------------------------------------------------- groups


#: Numbers of more different values than this are cut, into so many groups.
MOST_VALUES: Final = 50
PARTS: Final = 5

#: What stands between the names of several columns.
BETWEEN: Final = " · "

#: Different values that are counted; of more, the last bits are dropped.
_COUNTED: Final = 1 << 20

#: A number as text. Codes such as 02134 and words such as inf are names.
_NUMBER: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")


class Values:
    """The different numbers of a column with their counts, some rows after the other, in any order.

    Up to 2^20 different numbers are counted one by one. If there are more, as few last bits as needed are dropped: the
    groups are then a little less equal in size.
    """

    def __init__(self) -> None:
        #: For each value, in order: the smallest and the largest number that has its bits, and how many rows have one.
        self._values: NDArray[np.float64] = np.empty((0, 3))
        self._dropped = 0
        self._waiting: list[NDArray[np.float64]] = []
        self.numbers = True

    def add(self, words: ValueWords) -> None:
        """Count rows, while all are numbers."""
        names = words.names
        if names.dtype.kind in "OUS":
            self.numbers = self.numbers and all(_NUMBER.fullmatch(str(name)) for name in names)
        else:
            self.numbers = self.numbers and names.dtype.kind in "iuf"
        if not self.numbers:
            return
        numbers = names.astype(str).astype(np.float64) if names.dtype.kind in "OUS" else names.astype(np.float64)
        numbers = numbers + 0.0  # of -0.0 and 0.0 one value
        counts = np.bincount(words.codes, minlength=len(names))
        has_rows = ~np.isnan(numbers) & (counts > 0)
        self._waiting.append(np.column_stack((numbers, numbers, counts.astype(np.float64)))[has_rows])
        if sum(map(len, self._waiting)) >= _COUNTED:
            self._merge()

    def cuts(self) -> Cuts | None:
        """Return the groups of equal size; None where the values are names, or few numbers."""
        self._merge()
        if not self.numbers or len(self._values) <= MOST_VALUES:
            return None
        lows, highs, counts = self._values.T
        ends = np.cumsum(counts)
        wanted = ends[-1] * np.arange(1, PARTS + 1) / PARTS
        lasts = np.unique(np.searchsorted(ends, wanted))
        firsts = np.concatenate([[0], lasts[:-1] + 1])
        return Cuts.of(lows[firsts].tolist(), highs[lasts].tolist())

    def _merge(self) -> None:
        """Count what is waiting; of too many values, drop bits."""
        self._values = self._pooled(np.concatenate([self._values, *self._waiting]))
        self._waiting.clear()
        while len(self._values) > _COUNTED:
            self._dropped += 4
            self._values = self._pooled(self._values)

    def _pooled(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return values in order, those as one that differ in dropped bits alone."""
        bits = (values[:, 0].view(np.int64) & ~np.int64((1 << self._dropped) - 1)).view(np.float64)
        order = np.argsort(bits, kind="stable")
        values, ordered = values[order], bits[order]
        firsts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])
        return np.column_stack(
            [
                pool.reduceat(column, firsts)
                for pool, column in zip((np.minimum, np.maximum, np.add), values.T, strict=True)
            ]
        )


def cut(words: ValueWords, cuts: Cuts | None) -> ValueWords:
    """Return the group of each row, without cuts its own name; a number that is missing stays missing."""
    if cuts is None:
        return words
    numbers = np.asarray(words.names if words.names.dtype.kind in "iuf" else words.names.astype(str), np.float64)
    places = np.minimum(np.searchsorted(cuts.uppers, numbers), len(cuts.uppers) - 1)
    names = np.array([*cuts.names, np.nan], object)
    return ValueWords(names, np.where(np.isnan(numbers), len(cuts.names), places)[words.codes])


def joined(columns: Sequence[Column]) -> ValueWords:
    """Return one name for each row of one or several columns."""
    words = [column if isinstance(column, ValueWords) else ValueWords.of(column) for column in columns]
    quoted_names = ((list(map(_quoted, each.names)), each.codes.astype(np.intp)) for each in words)

    def join_names(name: Any, other: Any) -> Any:  # a missing name makes the whole missing
        return np.nan if name != name or other != other else f"{name}{BETWEEN}{other}"

    return words[0] if len(words) == 1 else _crossed(quoted_names, join_names)


def parted(name: str, number: int) -> tuple[str, ...]:
    """Return the names of so many columns that `joined` has made one name of; an error if others give the same one."""
    if number == 1:
        return (name,)
    width, ways = len(BETWEEN), set()
    places = [match.start() for match in re.finditer(f"(?={re.escape(BETWEEN)})", name)]  # which may overlap
    for ends in itertools.combinations(places, number - 1):
        parts = [name[a + width : b] for a, b in itertools.pairwise((-width, *ends, len(name)))]
        plain = tuple(map(_unquoted, parts))
        if list(map(_quoted, plain)) == parts and BETWEEN.join(parts) == name:
            ways.add(plain)
    if len(ways) != 1:
        remedy = f"remove {BETWEEN!r} from the names, or leave --marginal out"
        raise InputError("groups", f"names of {number} columns", f"{name!r}, which has two possible meanings", remedy)
    return ways.pop()


def _unquoted(part: str) -> str:
    """Return the text that `_quoted` has put in quotes; any other text unchanged."""
    if BETWEEN in part and part[0] in "'\"":
        with contextlib.suppress(SyntaxError, ValueError), warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # of invalid escapes
            return str(ast.literal_eval(part))
    return part


def _quoted(name: Any) -> Any:
    """Return a name as text, in quotes where it looks like several."""
    text = name if isinstance(name, float) and np.isnan(name) else group_name(name)
    return repr(text) if isinstance(text, str) and BETWEEN in text else text
