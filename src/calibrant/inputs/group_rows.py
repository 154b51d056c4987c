"""The groups of rows: their names in order, and the rows of each."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError
from calibrant.errors.faults import Facts, Fault, Place
from calibrant.errors.wording import MISSING, refuse
from calibrant.inputs.conversion import NAMES, as_array, as_typed
from calibrant.inputs.predictions import Predictions, check_index
from calibrant.runtime.arrays import ArrayLike


class _HasName(Protocol):
    @property
    def name(self) -> str: ...


Named = TypeVar("Named", bound=_HasName)

#: Groups of one evaluation: more are names of rows, not of groups.
MOST_GROUPS: Final = 10_000


def as_groups(
    groups: ArrayLike, predictions: Predictions, *, complete: bool = False
) -> list[tuple[str, NDArray[np.intp]]]:
    """Return the name of each group and the indices of its evaluated rows; omit groups without an evaluated row.

    With ``complete``, the rows that are not evaluated are among them.

    Raises
    ------
    InputError
        If the number of names differs from the number of predictions, for a missing name, and for more than
        `MOST_GROUPS` groups.
    """
    check_index("groups", groups, predictions.index)
    evaluated = predictions.evaluated
    held = [(name, rows, rows[evaluated[rows]]) for name, rows in named_rows(groups, predictions.n)]
    return [(name, rows if complete else own) for name, rows, own in held if len(own)]


def named_rows(groups: ArrayLike, n: int) -> list[tuple[str, NDArray[np.intp]]]:
    """Return the name of each group of n rows and the indices of its rows, also of a category without rows.

    Raises
    ------
    InputError
        As `as_groups`.
    """
    names, group_of_row, size = _ordered(groups) or _sorted(groups)
    if len(group_of_row) != n:
        expected = f"{n} names, one for each prediction"
        raise InputError("groups", expected, f"shape {size}", "pass the column with the group of each row")
    if (group_of_row < 0).any():
        place = Place(int(np.argmax(group_of_row < 0)))
        raise refuse("groups", Fault.MISSING, NAMES[0], MISSING, NAMES[1], Facts(place=place))
    if len(names) > MOST_GROUPS:
        remedy = "pass a column with fewer groups, or pass a column of patients or questions as clusters"
        raise InputError("groups", f"at most {MOST_GROUPS:,} different names", f"{len(names):,}", remedy)
    order = np.argsort(group_of_row, kind="stable")
    places = np.split(order, np.cumsum(np.bincount(group_of_row, minlength=len(names)))[:-1])
    return [(group_name(name), rows) for name, rows in zip(names, places, strict=True)]


class Subgroup(NamedTuple):
    """The rows with one value of a column."""

    name: str
    column: str
    rows: NDArray[np.intp]


def as_subgroups(columns: Mapping[str, ArrayLike], predictions: Predictions) -> list[Subgroup]:
    """Return the groups of each column, one column after the other; a row is in one group of each column.

    Raises
    ------
    InputError
        As `as_groups`, for no column, and for two groups with the same name.
    """
    subgroups = [
        Subgroup(subgroup_name(column, name), str(column), rows)
        for column, groups in columns.items()
        for name, rows in as_groups(groups, predictions, complete=True)
    ]
    check_subgroups([subgroup.name for subgroup in subgroups])
    return subgroups


def check_subgroups(names: Sequence[str]) -> None:
    """Reject no subgroups, and subgroups with the same name."""
    if not names:
        raise InputError("groups", "at least one column", "an empty mapping", "pass {'column': names of the rows}")
    if len(set(names)) < len(names):
        name = next(name for i, name in enumerate(names) if name in names[:i])
        got = f"two groups named {name!r} (column: value)"
        raise InputError("groups", "a different name for each group", got, "rename one of the columns")


def subgroup_name(column: object, value: str) -> str:
    """Return the name of the group with a value of a column."""
    return f"{column}: {value}"


#: What a name with an order of its own begins with: a number, also of an interval; or a date, a month or a week.
_NUMBER: Final = re.compile(r"[\[(]?([-+]?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?)(?: to |, ?|$)")
_DATE: Final = re.compile(r"[0-9]{4}-(?:W[0-9]{2}$|[0-9]{2}(?:$|-[0-9]{2}(?:$|[ T/])))")


_YEAR: Final = re.compile(r"(?:19|20)[0-9]{2}$")


def are_times(names: Sequence[str]) -> bool:
    """Return whether three or more names are times: all are dates, months, weeks or years."""
    return len(names) >= 3 and any(all(map(pattern.match, names)) for pattern in (_DATE, _YEAR))


def has_order(groups: object) -> bool:
    """Whether a column of pandas says the order of its groups: ordered categories, intervals, periods."""
    dtype = getattr(groups, "dtype", None)
    if type(dtype).__module__.partition(".")[0] != "pandas":
        return False
    kind, ordered = type(dtype).__name__, getattr(dtype, "ordered", False)
    return kind in ("IntervalDtype", "PeriodDtype") or (kind == "CategoricalDtype" and bool(ordered))


def natural_order(names: Sequence[str]) -> list[int] | None:
    """Return the places of names in their order, of numbers as numbers, of dates as dates; None for other names."""
    if all(map(_DATE.match, names)):
        return sorted(range(len(names)), key=names.__getitem__)
    numbers = [float(match[1]) for match in map(_NUMBER.match, names) if match]
    return sorted(range(len(names)), key=numbers.__getitem__) if len(numbers) == len(names) else None


def in_order(
    groups: Sequence[Named], rank: Callable[[Named], Any], name_of: Callable[[Named], str] = attrgetter("name")
) -> tuple[Named, ...]:
    """Return groups in the order of their names if these are numbers or dates, otherwise by their rank."""
    places = natural_order(list(map(name_of, groups)))
    return tuple(sorted(groups, key=rank) if places is None else (groups[place] for place in places))


#: The distinct groups in order, the number of each row's (-1 if it is missing), and the shape of the column.
_Groups = tuple[Any, NDArray[np.integer[Any]], tuple[int, ...]]


def _ordered(groups: Any) -> _Groups | None:
    """Return ordered categories, intervals or periods of pandas in their own order; None for anything else."""
    if not has_order(groups):
        return None
    column = groups.astype("category")
    categories = getattr(column, "cat", column)  # of a Series; an array has them itself
    return list(categories.categories), np.asarray(categories.codes), column.shape


def _sorted(groups: ArrayLike) -> _Groups:
    """Return the distinct groups of any other column, sorted."""
    # NumPy would write a missing value among strings as the string "nan".
    mixed = isinstance(groups, (list, tuple)) and any(isinstance(name, str) for name in groups)
    array = as_typed("groups", np.array(groups, dtype=object)) if mixed else as_array("groups", groups)
    flat = array.reshape(-1)
    missing = np.isnan(flat) if flat.dtype.kind == "f" else np.isnat(flat) if flat.dtype.kind in "mM" else flat != flat
    names, group_of_row = np.unique(flat, return_inverse=True)
    return names, np.where(missing, -1, group_of_row.reshape(-1)), array.shape


def group_name(value: Any) -> str:
    """Return the name of a group, the same for a value of any type.

    An integer value is written without a decimal point, a time without zeros at its end: of midnight the day is left. A
    time with a zone is written in UTC.
    """
    if isinstance(value, (datetime, np.datetime64)):
        return _time_name(value)
    number = float(value) if isinstance(value, (float, np.floating)) else math.nan
    return str(int(number)) if abs(number) < 2**53 and number.is_integer() else str(value)


def _time_name(time: datetime | np.datetime64) -> str:
    if isinstance(time, datetime):
        plain = time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)
        exact = getattr(plain, "to_datetime64", None)  # of pandas, with nanoseconds
        time = np.datetime64(plain) if exact is None else exact()
    unit = np.datetime_data(time.dtype)[0]
    day, _, hours = str(time.astype("M8[s]") if unit in ("h", "m") else time).partition("T")
    return day if hours == "" or not hours.strip("0:.") else f"{day} {without_zeros(hours)}"


def without_zeros(hours: str) -> str:
    """Return a time of the day without the zeros at the end of its seconds."""
    return hours.rstrip("0").rstrip(".") if "." in hours else hours
