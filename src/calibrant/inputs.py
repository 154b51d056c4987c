"""The boundary: whatever array library the numbers come from, they are checked here once and then trusted.

`as_predictions` turns the caller's arguments into `Predictions`. What can be checked from shapes and targets is checked
at once; what needs a look at every probability (range, NaN, sums of rows) is checked by the first pass that reads them,
and `explain` puts what that pass met into words.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError, nearest
from calibrant.kernels.dispatch import Rows

Layout = Literal["binary", "multiclass", "multilabel"]
Notion = Literal["positive", "top-label", "classwise", "multilabel"]

_EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23}


@dataclass(frozen=True, slots=True)
class Predictions:
    """Validated predictions: rows of probabilities or logits, integer targets, perhaps weights.

    ``targets`` has one entry a row: a class index, 0 or 1, or -1 for a row that is not judged. For multilabel it has
    shape (n, C). ``tolerance`` is how far a row's sum may be from 1.
    """

    rows: Rows
    targets: NDArray[np.int64]
    weights: NDArray[np.float64] | None
    layout: Layout
    logits: bool
    tolerance: float
    class_names: tuple[str, ...] | None

    @property
    def n(self) -> int:
        return int(self.rows.n)

    @property
    def n_classes(self) -> int:
        return int(self.rows.width)


def as_predictions(
    probs: Any,
    targets: Any,
    *,
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
    class_names: Sequence[str] | None = None,
    notion: str | None = None,
) -> Predictions:
    """Validate what can be seen without reading every probability, and normalise shapes and types.

    Raises
    ------
    InputError
        For empty or ragged input, wrong shapes, types or lengths, targets that are no labels, weights that are no
        weights, and arguments in the wrong order.
    """
    if not isinstance(logits, (bool, np.bool_)):
        raise InputError("logits", "True or False", repr(logits), "say which of the two probs are")
    values, bfloat16 = _numbers(probs)
    labels = _labels(targets)
    _check_order(values, labels)
    names = None if class_names is None else tuple(map(str, class_names))
    rows, layout = _shape(values, bfloat16, labels, notion)
    if names is not None:
        _check_names(names, rows.width if layout != "binary" else 2)
    if layout == "multilabel":
        index = _binary_targets(labels.reshape(-1), ignore_index).reshape(rows.n, rows.width)
    else:
        index = _class_targets(labels, rows, layout, ignore_index, names)
    checked = None if weights is None else _weights(weights, rows.n, index)
    if not np.any(index >= 0):
        raise InputError(
            "ignore_index",
            "a value that leaves at least one row",
            f"{ignore_index}, which every target equals",
            "check the targets",
        )
    dtype = "bfloat16" if bfloat16 else values.dtype.name
    tolerance = 1e-3 + 2 * _EPS.get(dtype, 2.0**-52)
    return Predictions(rows, index, checked, layout, bool(logits), tolerance, names)


# ---------------------------------------------------------------- arrays of any library


def as_array(argument: str, x: Any) -> NDArray[Any]:
    """Return x as a NumPy array, without a copy where its library shares its memory; it is never written to.

    Libraries are recognised by the module of the type, and never imported for the test. bfloat16 comes back as its bits,
    uint16, under the dtype's name: see `is_bfloat16`.
    """
    if isinstance(x, np.ma.MaskedArray):
        if np.ma.is_masked(x):
            raise InputError(argument, "no masked entries", "a masked array", "filter the masked rows out first")
        return np.asarray(x.data)
    if isinstance(x, np.ndarray):
        return np.asarray(x)
    library = type(x).__module__.partition(".")[0]
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        tensor = x.detach().cpu()
        return np.asarray((tensor.view(torch.uint16) if tensor.dtype is torch.bfloat16 else tensor).numpy())
    if library == "cupy":
        return np.asarray(x.get())
    if library in ("pandas", "polars", "pyarrow", "modin", "cudf"):
        return _column(x)
    if isinstance(x, (str, bytes, dict, set)) or x is None:
        raise InputError(argument, "an array", type(x).__name__, "pass an array, a column or a list of numbers")
    try:
        return np.asarray(x)
    except (ValueError, TypeError) as error:
        raise InputError(argument, "rows of equal length", "ragged or unreadable rows", "check the rows") from error


def _column(x: Any) -> NDArray[Any]:
    """Return a column, or a frame's columns side by side, as an array; a column of lists becomes two-dimensional."""
    if type(x).__module__.startswith("pyarrow") and hasattr(x, "to_numpy") and not hasattr(x, "num_chunks"):
        array = np.asarray(x.to_numpy(zero_copy_only=False))
    else:
        import narwhals as nw

        array = np.asarray(nw.from_native(x, eager_only=True, allow_series=True).to_numpy())
    if array.dtype == object and len(array) and isinstance(array[0], np.ndarray):
        array = np.stack(list(array))
    return array


def is_bfloat16(x: Any, array: NDArray[Any]) -> bool:
    """Whether ``array``, made from x, holds bfloat16 (its bits, or the dtype that JAX registers with NumPy)."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return x.dtype is torch.bfloat16
    return array.dtype.name == "bfloat16"


def _numbers(x: Any) -> tuple[NDArray[Any], bool]:
    """Return probs as (array of numbers, whether they are bfloat16 bits)."""
    array = as_array("probs", x)
    if is_bfloat16(x, array):
        return array.view(np.uint16), True
    if array.dtype == object:
        missing = [i for i, entry in enumerate(array.reshape(-1)) if entry is None]
        if missing:
            raise InputError("probs", "numbers", f"a missing value at row {missing[0]}", "filter it out first")
    if array.dtype.kind not in "fiub":
        raise InputError("probs", "real numbers", f"dtype {array.dtype}", "pass floating-point probabilities")
    return array, False


def _labels(x: Any) -> NDArray[Any]:
    array = as_array("targets", x)
    if is_bfloat16(x, array):
        array = (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    if array.dtype == object:
        for i, entry in enumerate(array.reshape(-1)):
            if entry is None or entry != entry:
                raise InputError(
                    "targets", "a label in every row", f"a missing value at row {i}", "filter the row out", row=i
                )
        if array.size and all(isinstance(entry, (bool, np.bool_)) for entry in array.reshape(-1)):
            array = array.astype(bool)
    return array


# ---------------------------------------------------------------- shapes


def _check_order(values: NDArray[Any], labels: NDArray[Any]) -> None:
    """Recognise targets in the place of probabilities, before a message about either would mislead."""
    swapped = (
        values.dtype.kind in "iub"
        and labels.dtype.kind == "f"
        and labels.size > 0
        and bool(np.any((labels > 0) & (labels < 1)))
    )
    if swapped or (values.ndim == 1 and labels.ndim == 2 and labels.dtype.kind == "f" and values.dtype.kind in "iu"):
        raise InputError(
            "probs",
            "probabilities first and targets second",
            f"{values.dtype} first and fractions second",
            "the arguments look swapped: call f(probs, targets)",
        )


def _shape(values: NDArray[Any], bfloat16: bool, labels: NDArray[Any], notion: str | None) -> tuple[Rows, Layout]:
    if values.ndim == 0:
        raise InputError("probs", "an array of shape (N,) or (N, C)", "a single number", "pass a list of one row")
    if values.size == 0:
        raise InputError("probs", "at least one row", f"shape {values.shape}", "check where the rows were lost")
    if values.dtype.kind == "f" and values.dtype.itemsize > 8:
        raise InputError("probs", "float16, bfloat16, float32 or float64", str(values.dtype), "round it to float64")
    if values.ndim == 1 or (values.ndim == 2 and values.shape[1] == 1):
        return Rows(values.reshape(-1, 1, 1), bfloat16), "binary"
    sheets = values.reshape(values.shape[0], values.shape[1], -1)
    layout: Layout = "multilabel" if notion == "multilabel" else "multiclass"
    if layout == "multilabel":
        if labels.shape != values.shape:
            raise InputError(
                "targets",
                f"shape {values.shape} as probs (multilabel)",
                f"shape {labels.shape}",
                "pass a 0/1 per label",
            )
        if values.ndim > 2:
            raise InputError("probs", "shape (N, C) for multilabel", f"shape {values.shape}", "flatten to rows first")
    return Rows(sheets, bfloat16), layout


def _check_names(names: tuple[str, ...], n_classes: int) -> None:
    if len(names) != n_classes:
        raise InputError(
            "class_names", f"{n_classes} names, one per class", f"{len(names)}", "name the classes in column order"
        )
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError("class_names", "distinct names", f"{twice!r} more than once", "rename one of them")


# ---------------------------------------------------------------- targets


def _class_targets(
    labels: NDArray[Any], rows: Rows, layout: Layout, ignore_index: int | None, names: tuple[str, ...] | None
) -> NDArray[np.int64]:
    shape = (rows.values.shape[0], rows.values.shape[2])
    n = rows.n
    if layout == "multiclass" and labels.ndim >= 2 and labels.size == n * rows.width and labels.shape[1] == rows.width:
        if not (labels.shape[0] == n and labels.shape[1:] == (1,)):
            return _one_hot(labels.reshape(shape[0], rows.width, shape[1]))
    if labels.size != n or labels.shape[:1] != shape[:1]:
        expected = f"{n} labels" + (f" or one-hot rows of {rows.width}" if layout == "multiclass" else "")
        raise InputError(
            "targets",
            expected,
            f"shape {labels.shape}",
            "probs and targets must have one row each per prediction"
            + (" (for several labels a row pass notion='multilabel')" if labels.ndim == 2 else ""),
        )
    flat = labels.reshape(-1)
    if flat.dtype.kind in "USOT":
        return _named(flat, names)
    if layout == "binary":
        return _binary_targets(flat, ignore_index)
    index, kept = _integers(flat, ignore_index, f"class indices 0 to {rows.width - 1}")
    low, high = int(index.min(where=kept, initial=0)), int(index.max(where=kept, initial=0))
    if low < 0 or high >= rows.width:
        row = int(np.argmax(kept & ((index < 0) | (index >= rows.width))))
        if high == rows.width and int(index.min(where=kept, initial=high)) >= 1:
            remedy = "the labels look 1-based: subtract 1"
        elif low < 0:
            remedy = f"pass ignore_index={int(index[row])} if such rows are to be left out"
        else:
            remedy = "check that probs has a column for every class"
        raise InputError(
            "targets", f"class indices 0 to {rows.width - 1}", f"{index[row]} at row {row}", remedy, row=row
        )
    return index if bool(kept.all()) else np.where(kept, index, -1)


def _binary_targets(labels: NDArray[Any], ignore_index: int | None) -> NDArray[np.int64]:
    if labels.dtype.kind in "USOT":
        return _named(labels, None)
    index, kept = _integers(labels, ignore_index, "outcomes 0 or 1")
    if int(index.min(where=kept, initial=0)) < 0 or int(index.max(where=kept, initial=1)) > 1:
        row = int(np.argmax(kept & ((index < 0) | (index > 1))))
        remedy = "filter the row out or map the labels to 0 and 1"
        if set(np.unique(index[kept][:1000]).tolist()) <= {1, 2}:
            remedy = "the labels look 1-based: subtract 1"
        elif index[row] == -1:
            remedy = "map -1 to 0, or pass ignore_index=-1 if such rows are to be left out"
        raise InputError("targets", "outcomes 0 or 1", f"{index[row]} at row {row}", remedy, row=row)
    return index if bool(kept.all()) else np.where(kept, index, -1)


def _integers(
    labels: NDArray[Any], ignore_index: int | None, expected: str
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return (labels as int64, which of them are judged), refusing what is no integer."""
    kind = labels.dtype.kind
    if kind == "f":
        bad = ~(np.isfinite(labels) & (labels == np.floor(labels)))
        if bad.any():
            row = int(np.argmax(bad))
            got = f"{labels[row]} at row {row}"
            remedy = "filter the row out, or round the outcome if that is what it means"
            raise InputError("targets", expected, got, remedy, row=row)
    elif kind not in "iub":
        raise InputError("targets", expected, f"dtype {labels.dtype}", "pass integers, booleans or class names")
    index = labels.astype(np.int64, copy=False)
    if ignore_index is None:
        return index, np.broadcast_to(np.True_, index.shape)
    return index, index != ignore_index


def _named(labels: NDArray[Any], names: tuple[str, ...] | None) -> NDArray[np.int64]:
    if names is None:
        raise InputError(
            "targets",
            "integers",
            f"strings such as {str(labels[0])!r}",
            "pass class_names, in the order of the columns",
        )
    places = {name: k for k, name in enumerate(names)}
    distinct, inverse = np.unique(labels.astype(str), return_inverse=True)
    unknown = [label for label in distinct.tolist() if label not in places]
    if unknown:
        row = int(np.argmax(labels.astype(str) == unknown[0]))
        raise InputError(
            "targets", "names among class_names", f"{unknown[0]!r} at row {row}", nearest(unknown[0], names), row=row
        )
    return np.array([places[label] for label in distinct.tolist()], dtype=np.int64)[inverse.reshape(-1)]


def _one_hot(labels: NDArray[Any]) -> NDArray[np.int64]:
    if labels.dtype.kind not in "fiub":
        raise InputError("targets", "one-hot rows of 0 and 1", f"dtype {labels.dtype}", "pass class indices")
    good = ((labels == 0) | (labels == 1)).all(axis=1) & (labels.astype(bool).sum(axis=1) == 1)
    if not good.all():
        row = int(np.argmin(good.reshape(-1)))
        raise InputError(
            "targets",
            "one-hot rows (exactly one 1)",
            f"another row at {row}",
            "pass class indices, or notion='multilabel' for several labels a row",
            row=row,
        )
    return labels.argmax(axis=1).reshape(-1).astype(np.int64)


def _weights(x: Any, n: int, targets: NDArray[np.int64]) -> NDArray[np.float64]:
    array = as_array("weights", x)
    if array.dtype.kind not in "fiub" or is_bfloat16(x, array):
        raise InputError("weights", "real numbers", f"dtype {array.dtype}", "pass one number a row")
    if array.size != n:
        raise InputError("weights", f"{n} numbers, one a row", f"shape {array.shape}", "pass one number a row")
    weights = array.reshape(-1).astype(np.float64, copy=False)
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            "weights", "finite numbers of 0 or more", f"{weights[row]} at row {row}", "correct or drop the row", row=row
        )
    judged = targets.reshape(n, -1).max(axis=1) >= 0
    if not np.any(weights[judged] > 0):
        raise InputError("weights", "at least one above 0", "only zeros", "leave weights out to count every row once")
    return np.ascontiguousarray(weights)


# ---------------------------------------------------------------- what the reading pass met


def explain(predictions: Predictions, row: int) -> InputError:
    """Put into words why a reading pass stopped at this row."""
    if predictions.layout == "multilabel":
        row = row // predictions.n_classes
    values = predictions.rows.pick(row)
    wide = values.astype(np.float64)
    place = f"row {row}"
    finite = np.isfinite(wide)
    if not finite.all():
        column = int(np.argmin(finite))
        got = f"{wide[column]} at {_place(place, column, len(wide))}"
        remedy = "find where it comes from, or filter the row out"
        return InputError("probs", "finite numbers", got, remedy, row=row, column=column)
    outside = (wide < 0) | (wide > 1)
    if outside.any():
        column = int(np.argmax(outside))
        got = f"{wide[column]:.6g} at {_place(place, column, len(wide))}"
        if bool((wide >= 0).all()) and wide.max() <= 100 and _looks_percent(predictions):
            remedy = "the values look like percent: divide them by 100"
        else:
            remedy = "pass logits=True if they are logits"
        return InputError("probs", "values in [0, 1]", got, remedy, row=row, column=column)
    return InputError(
        "probs",
        f"rows that sum to 1 within {predictions.tolerance:.2g}",
        f"{wide.sum():.6g} at {place}",
        "normalise the rows, pass logits=True if they are logits, or notion='multilabel' for one event per column",
        row=row,
    )


def _place(place: str, column: int, width: int) -> str:
    return place if width == 1 else f"{place}, column {column}"


def _looks_percent(predictions: Predictions) -> bool:
    """Whether the first rows all lie in [0, 100] with something above 2, and where there are classes sum to 100."""
    head = np.stack([predictions.rows.pick(row) for row in range(min(predictions.n, 200))]).astype(np.float64)
    if not (np.isfinite(head).all() and head.min() >= 0 and 2 < head.max() <= 100):
        return False
    return predictions.layout != "multiclass" or bool(np.allclose(head.sum(axis=1), 100, atol=1))
