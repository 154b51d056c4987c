"""Cluster labels of any library as 64-bit hashes, the same in every process, release and order of rows.

Whole numbers are hashed by value with SplitMix64 (Steele, Lea, Flood 2014), text by the first 8 bytes, big-endian, of
the MD5 of its UTF-8 bytes. Booleans, whole floats and decimals are whole numbers. Dates and times are text in ISO form,
in UTC, without a time at midnight and without closing zeros: ``2024-01-31``, ``2024-01-31T09:30:00.5``. Numbers among
text are text, in decimal.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError
from calibrant.errors.faults import Facts, Fault, Place
from calibrant.errors.wording import MISSING, refuse
from calibrant.inputs.conversion import as_values, is_masked
from calibrant.inputs.weights import integer_weights
from calibrant.kernels import dispatch
from calibrant.runtime.arrays import ArrayLike, UInt64s
from calibrant.runtime.cached import Memo
from calibrant.runtime.dataclass import dataclass

LabelKind = Literal["number", "text"]

#: The name and version of the hash: sums of buckets of another hash do not add up with these.
HASH: Final = "splitmix64-md5/1"

#: Stands between the values that together name a cluster.
SEPARATOR: Final = "\x1f"

_EXPECTED: Final = "whole numbers or text"
_AS_TEXT: Final = "convert the labels to text"
_NO_MEASUREMENT: Final = "pass names of clusters, not measured values"
_LOST: Final = "pass integers or text, because larger floats lose digits"
_MOST_DIGITS: Final = 53  # bits of a whole number that a float holds
_WIDEST: Final = 128  # characters: an array takes this for each label, however short, if one is as long


@dataclass(frozen=True, eq=False)
class ClusterLabels(Memo):
    """The clusters of n rows: the hash of each row's label, (n,), and whether labels are numbers or text."""

    hashes: UInt64s
    kind: LabelKind

    def numbered(self, most: int | None = None) -> tuple[NDArray[np.int64], UInt64s]:
        """Return the number of each row's cluster, (n,), and the hash of each cluster, in order of first appearance.

        With more than ``most`` clusters, return the hashes of the first ``most`` + 1; then the numbers have no meaning.
        A second call costs nothing.
        """
        return self.of(ClusterLabels._numbered, len(self) if most is None else most)

    def _numbered(self, most: int) -> tuple[NDArray[np.int64], UInt64s]:
        numbers, firsts = dispatch.number_rows(self.hashes.reshape(-1, 1), most)
        return numbers, self.hashes[firsts]

    def alone(self, weights: NDArray[np.float64] | None) -> bool:
        """Return whether each row has a cluster to itself; a row of weight 2 is two rows if weights are whole."""
        copies = weights is not None and integer_weights(weights) and bool((weights > 1).any())
        return not copies and len(self.numbered()[1]) == len(self)

    def __getitem__(self, rows: NDArray[Any] | slice) -> ClusterLabels:
        return ClusterLabels(self.hashes[rows], self.kind)

    def take(self, rows: NDArray[Any]) -> ClusterLabels:
        """Return the labels of these rows: indices, or a mask."""
        return self[rows]

    def __len__(self) -> int:
        return len(self.hashes)


def as_clusters(clusters: ArrayLike | ClusterLabels, n: int) -> ClusterLabels:
    """Return the hashes of cluster labels, one for each of n rows.

    They are an array of any library, or a list, of whole numbers of at most 64 bits, text, dates or times. Text is
    compared by its characters: ``"a"`` is neither ``"A"`` nor ``"a "``. A missing label, a float that is not a whole
    number, and objects of other types are rejected.
    """
    if isinstance(clusters, ClusterLabels):
        _check_size((len(clusters),), n)
        return clusters
    array = _unconverted(clusters, n)
    _check_size(array.shape, n)
    array = array.reshape(-1)
    match array.dtype.kind:
        case "O" | "S" | "T":
            return _of_objects(array.tolist())
        case "U":
            return ClusterLabels(_of_texts(array), "text")
        case "M":
            return ClusterLabels(_of_times(array), "text")
        case "f":
            digits = min(np.finfo(array.dtype).nmant + 1, _MOST_DIGITS)
            return ClusterLabels(_of_floats(array, digits), "number")
        case "i" | "u" | "b":
            return ClusterLabels(mix64(array), "number")
    raise InputError("clusters", _EXPECTED, f"dtype {array.dtype}", _AS_TEXT)


def escaped(text: str) -> str:
    """Return a text in which `SEPARATOR` stands for nothing else: it and the backslash follow a backslash."""
    return text.replace("\\", "\\\\").replace(SEPARATOR, f"\\{SEPARATOR}")


def label_texts(labels: NDArray[Any], rows: NDArray[np.intp]) -> list[str]:
    """Return labels as the text that is hashed where labels are text; ``rows`` is where each came from, for errors."""
    if labels.dtype.kind == "M":
        times = _with_seconds(labels)
        missing = np.isnat(times)
        if missing.any():
            raise _missing(int(rows[np.argmax(missing)]))
        return [_iso(text) for text in np.datetime_as_string(times).tolist()]
    return [str(_label_of(label, row)) for label, row in zip(labels.tolist(), rows.tolist(), strict=True)]


def mix64(numbers: NDArray[Any]) -> UInt64s:
    """Return SplitMix64's output for each whole number as its state; a negative one counts from 2^64 down."""
    signed = numbers.dtype.kind in "ib"
    mixed = numbers.astype(np.int64).view(np.uint64) if signed else numbers.astype(np.uint64)
    mixed += np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def content_order(columns: Iterable[NDArray[Any]]) -> NDArray[np.intp]:
    """Return an order of rows that their numbers decide: sums then have the same bits in any order of the rows.

    Rows are sorted by a hash of their numbers, so equal rows are together.
    """
    hashes: Any = np.uint64(0)
    for column in columns:
        bits = column if column.dtype == np.uint64 else (column.astype(np.float64) + 0.0).view(np.uint64)
        hashes = mix64(bits ^ hashes)
    return np.argsort(hashes, kind="stable")


def hash_text(text: str) -> int:
    """Return the hash of a text label: the first 8 bytes, big-endian, of the MD5 of its UTF-8 bytes."""
    digest = hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()
    return int.from_bytes(digest[:8], "big")


# ---------------------------------------------------------------- arrays


def _unconverted(clusters: ArrayLike, n: int) -> NDArray[Any]:
    """Return the labels as an array; where it holds Python objects, they are not converted to one type.

    NumPy would write a missing value among strings as the string "nan".
    """
    shape = getattr(clusters, "shape", ())
    if len(shape) > 1:
        _check_size(shape, n)  # frames with columns of several types
    if isinstance(clusters, (list, tuple)):
        with suppress(ValueError):  # arrays of several shapes: `as_array` explains
            return np.array(clusters, dtype=object)
    is_column = type(clusters).__module__.partition(".")[0] in ("pandas", "polars", "pyarrow")
    if isinstance(clusters, np.ndarray) or (is_column and len(shape) < 2 and hasattr(clusters, "__array__")):
        array = np.asarray(clusters)
        if array.dtype == object and not is_masked(clusters):
            return array
    return as_values("clusters", clusters)


def _check_size(shape: tuple[int, ...], n: int) -> None:
    """Reject another number of labels than rows."""
    if math.prod(shape) == n:
        return
    remedy = "pass the column that has the cluster of each row"
    if len(shape) > 1 and shape[0] == n:
        remedy = "combine the columns into one label, or pass the outermost of nested clusters"
    raise InputError("clusters", f"{n} labels, one for each row", f"shape {tuple(shape)}", remedy)


def _missing(row: int) -> InputError:
    remedy = "name the row's cluster, or give the row a label of its own"
    return refuse("clusters", Fault.MISSING, "a label in every row", MISSING, remedy, Facts(place=Place(row)))


def _wrong(value: Any, row: int, remedy: str, expected: str = _EXPECTED) -> InputError:
    return refuse("clusters", Fault.VALUE, expected, f"{value!s:.40}", remedy, Facts(value=value, place=Place(row)))


def _of_floats(array: NDArray[np.floating[Any]], digits: int) -> UInt64s:
    """Return the hashes of floats whose type holds whole numbers of ``digits`` bits."""
    missing = np.isnan(array)
    if missing.any():
        raise _missing(int(np.argmax(missing)))
    fraction = array != np.floor(array)
    if fraction.any():
        row = int(np.argmax(fraction))
        raise _wrong(array[row], row, _NO_MEASUREMENT)
    large = np.abs(array) > 2**digits
    if large.any():
        row = int(np.argmax(large))
        raise _wrong(array[row], row, _LOST, f"floats up to 2^{digits}")
    return mix64(array.astype(np.int64))


def _of_texts(array: NDArray[Any]) -> UInt64s:
    """Return the hashes of an array of strings, or of ASCII bytes; each distinct one is hashed once."""
    n_words = -(-array.dtype.itemsize // 8)
    padded = array.astype(f"{array.dtype.kind}{8 * n_words // array.dtype.alignment}", copy=False)  # native byte order
    words = np.ascontiguousarray(padded).view(np.uint64).reshape(len(array), n_words)
    numbers, firsts = dispatch.number_rows(words, len(words))
    return _hash_texts(array[firsts].astype(str).tolist())[numbers]


def _of_times(array: NDArray[np.datetime64]) -> UInt64s:
    """Return the hashes of dates or times; each distinct one is hashed once."""
    missing = np.isnat(array)
    if missing.any():
        raise _missing(int(np.argmax(missing)))
    times = _with_seconds(array)
    numbers, firsts = dispatch.number_rows(times.astype(np.int64).view(np.uint64).reshape(-1, 1), len(times))
    return _hash_texts(map(_iso, np.datetime_as_string(times[firsts]).tolist()))[numbers]


def _hash_texts(texts: Iterable[str]) -> UInt64s:
    return np.fromiter(map(hash_text, texts), np.uint64)


def _with_seconds(times: NDArray[np.datetime64]) -> NDArray[np.datetime64]:
    """Return times whose unit is a second or less, so that all are written alike."""
    return times.astype("datetime64[s]") if np.datetime_data(times.dtype)[0] in "YMWDhm" else times


def _iso(text: str) -> str:
    """Return a time in ISO form without closing zeros, and without a time at midnight."""
    seconds, _, fraction = text.partition(".")
    fraction = fraction.rstrip("0")
    return f"{seconds}.{fraction}" if fraction else seconds.removesuffix("T00:00:00")


# ---------------------------------------------------------------- Python objects


def _of_objects(entries: list[Any]) -> ClusterLabels:
    """Return the labels of Python objects, text and numbers; each distinct one is looked at once."""
    if set(map(type, entries)) == {str} and (packed := _packed(entries)) is not None:
        return ClusterLabels(_of_texts(packed), "text")
    try:
        first_rows = dict(zip(reversed(entries), reversed(range(len(entries))), strict=True))
    except TypeError:
        kind = next((type(entry).__name__ for entry in entries if entry.__hash__ is None), "tuple")
        raise InputError("clusters", _EXPECTED, f"a {kind} in at least one row", _AS_TEXT) from None
    labels = {entry: _label_of(entry, row) for entry, row in sorted(first_rows.items(), key=lambda item: item[1])}
    is_text = any(isinstance(label, str) for label in labels.values())
    if is_text:
        hashes = _hash_texts(map(str, labels.values()))
    else:
        for entry, label in labels.items():
            if not -(2**63) <= int(label) < 2**64:
                raise _wrong(entry, first_rows[entry], _AS_TEXT, "whole numbers of at most 64 bits")
        hashes = mix64(np.array([int(label) % 2**64 for label in labels.values()], np.uint64))
    hash_of = dict(zip(labels, hashes.tolist(), strict=True))
    all_hashes = np.fromiter(map(hash_of.__getitem__, entries), np.uint64, len(entries))
    return ClusterLabels(all_hashes, "text" if is_text else "number")


def _packed(texts: list[str]) -> NDArray[Any] | None:
    """Return strings as an array, of bytes if all are ASCII; None if one is too long or ends in a zero character."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    width = max(int(lengths.max()), 1)
    if width > _WIDEST:
        return None
    try:
        array = np.array(texts, dtype=f"S{width}")
    except UnicodeEncodeError:
        array = np.array(texts, dtype=f"U{width}")
    return array if np.strings.str_len(array).sum() == lengths.sum() else None


def _label_of(entry: Any, row: int) -> int | str:
    """Return one label as a whole number or as text; reject what is missing or neither."""
    if isinstance(entry, str):
        return entry
    if entry is None or type(entry).__name__ in ("NAType", "NaTType") or entry != entry:
        raise _missing(row)
    if isinstance(entry, (bool, np.bool_, int, np.integer)):
        return int(entry)
    if isinstance(entry, (float, np.floating, Decimal)):
        if not np.isfinite(float(entry)) or entry != int(entry):
            raise _wrong(entry, row, _NO_MEASUREMENT)
        if not isinstance(entry, Decimal) and abs(entry) > 2**_MOST_DIGITS:
            raise _wrong(entry, row, _LOST, f"floats up to 2^{_MOST_DIGITS}")
        return int(entry)
    if isinstance(entry, np.datetime64):
        return _iso(str(_with_seconds(np.array(entry))))
    if isinstance(entry, datetime) and entry.tzinfo is not None:
        entry = entry.astimezone(UTC).replace(tzinfo=None)
    if isinstance(entry, date):
        return _iso(entry.isoformat())
    if isinstance(entry, bytes):
        with suppress(UnicodeDecodeError):
            return entry.decode()
    raise _wrong(entry, row, _AS_TEXT)
