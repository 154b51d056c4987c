"""The boundary: input from any array library is checked here once, and then trusted.

`as_predictions` turns the caller's arguments into `Predictions`. It checks shapes and targets at once. The first pass
that reads the probabilities checks each of them (range, NaN, sums of rows), and `notions.explain` finds out why that
pass stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError, NothingJudgedError, check_choice, mistakes, nearest
from calibrant.errors.faults import Facts, Fault, Place, Suspicion
from calibrant.errors.wording import expected_labels, number, refuse
from calibrant.inputs.conversion import (
    as_array,
    as_numbers,
    as_values,
    check_stored,
    is_bfloat16,
    name_of_type,
    on_device,
    real_tensor,
    widened,
)
from calibrant.inputs.weights import (
    LEAST_WEIGHT,
    MOST_WEIGHT,
    NOT_WHOLE,
    WEIGHTS_ARE,
    WeightsAre,
    in_units,
    integer_weights,
)
from calibrant.kernels.row_blocks import ROUNDING, Rows
from calibrant.runtime.arrays import ArrayLike
from calibrant.runtime.cached import cached_property
from calibrant.runtime.dataclass import dataclass

if TYPE_CHECKING:
    from calibrant.kernels.device_rows import DeviceRows

Layout = Literal["binary", "multiclass", "multilabel"]
Notion = Literal["positive", "top-label", "classwise", "multilabel"]

#: So many rows prove that declared logits are probabilities.
SURE = 10

_EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23}


@dataclass(frozen=True, kw_only=True, eq=False)
class Predictions:
    """Validated predictions: rows of probabilities or logits, integer labels, and weights if any.

    Rows of classes on a device remain there, see `device_rows`.

    ``labels`` has one entry per row: a class index, 0 or 1, or -1 for a row that is not evaluated. For multilabel it
    has shape (n, C). Bytes that are all 0 or 1 stay bytes. ``tolerance`` is how far a row's sum may be from 1.
    ``index`` is the index of the rows, if they came from pandas. ``n_rounded`` counts the values that `round` has
    changed.
    """

    rows: Rows
    labels: NDArray[np.int64] | NDArray[np.uint8]
    weights: NDArray[np.float64] | None
    layout: Layout
    logits: bool
    tolerance: float
    class_names: tuple[str, ...] | None
    index: Any = None
    n_rounded: int = 0
    n: int = field(init=False)
    n_classes: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", self.rows.n)
        object.__setattr__(self, "n_classes", self.rows.width)

    def round(self) -> bool:
        """Read values that rounding has moved out of [0, 1] as 0 and 1, and count them; return whether there were any.

        They lie within `ROUNDING` units in the last place of their type outside. The pass that meets one asks for this
        and begins again, so that others need not look. The caller's array is not changed.
        """
        if self.rows.on_device:  # where every pass rounds
            return False
        values = widened(self.rows.values) if self.rows.bfloat16 else self.rows.values
        if self.logits or values.dtype.kind != "f":
            return False
        slack = rounding("bfloat16" if self.rows.bfloat16 else values.dtype.name)
        low, high = (values < 0) & (values >= -slack), (values > 1) & (values <= 1 + slack)
        changed = (low | high).transpose(0, 2, 1).reshape(self.n, self.n_classes)
        if not changed.any():
            return False
        rounded = np.where(low, values.dtype.type(0), np.where(high, values.dtype.type(1), values))
        object.__setattr__(self, "rows", Rows(rounded))
        object.__setattr__(self, "n_rounded", self.n_rounded + int(np.count_nonzero(changed[self.evaluated])))
        return True

    @property
    def device_rows(self) -> DeviceRows | None:
        """The rows, if they are on a device other than the host."""
        return cast("DeviceRows", self.rows) if self.rows.on_device else None

    @property
    def rounded(self) -> int:
        """How many values of evaluated rows rounding has moved out of [0, 1]."""
        return self.n_rounded if self.device_rows is None else self.device_rows.rounded(self.evaluated)

    @cached_property
    def targets(self) -> NDArray[np.int64]:
        """The labels in the width that most kernels take."""
        return self.labels.astype(np.int64, copy=False)

    @cached_property
    def evaluated(self) -> NDArray[np.bool_]:
        """Which rows are evaluated: those with a target (for at least one label) and a weight above 0."""
        has_target = (self.labels >= 0).reshape(self.n, -1).any(axis=1)
        return np.asarray(has_target if self.weights is None else has_target & (self.weights > 0))

    def on_host(self) -> Predictions:
        """Return the same with a copy of the rows in host memory, for what needs all of them several times."""
        if not self.rows.on_device:
            return self
        values = np.concatenate([block for _, block in self.rows.blocks(0, self.n)])
        if not self.logits:
            np.clip(values, 0, 1, out=values)
        return replace(self, rows=Rows(values[:, :, np.newaxis]), n_rounded=self.rounded)

    def with_tolerance(self, tolerance: float) -> Predictions:
        """Return the same with another tolerance of the sums of rows."""
        rows = self.rows if self.device_rows is None else self.device_rows.with_tolerance(tolerance)
        return replace(self, rows=rows, tolerance=tolerance)

    def label(self, k: int) -> Predictions:
        """Return the scores of one of several labels."""
        rows = Rows(self.rows.values[:, k : k + 1], self.rows.bfloat16)
        return replace(self, rows=rows, labels=self.labels[:, k].copy(), layout="binary", class_names=None, index=None)

    def take(self, places: NDArray[np.intp]) -> Predictions:
        """Return a copy of these rows."""
        weights = None if self.weights is None else self.weights[places]
        if self.device_rows is not None:
            taken = self.device_rows.take(places)
            return replace(self, rows=taken, labels=self.labels[places], weights=weights, index=None)
        values = self.rows.values
        if values.shape[2] > 1:
            values = values.transpose(0, 2, 1).reshape(self.n, self.n_classes, 1)
        rows = Rows(values[places], self.rows.bfloat16)
        return replace(self, rows=rows, labels=self.labels[places], weights=weights, index=None)


def as_predictions(
    probs: Any,
    targets: ArrayLike | None,
    *,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
    class_names: Sequence[str] | None = None,
    notion: str | None = None,
    units: bool = True,
    weights_are: WeightsAre | None = None,
) -> Predictions:
    """Return the validated predictions, with shapes and types normalised; no probability is read yet.

    ``weights_are`` says what whole weights are; by default a row of weight 2 is two rows, as with "frequency".
    With ``units``, weights are in the units of `weights.in_units`. Sums that are added to others need raw weights.

    Raises
    ------
    InputError
        For empty or ragged input, wrong shapes, types or lengths, invalid targets or weights, and arguments in the
        wrong order.
    """
    if not isinstance(logits, (bool, np.bool_)):
        raise InputError("logits", "True or False", repr(logits), "pass True if probs are logits, else False")
    if notion is not None:
        check_choice("notion", notion, get_args(Notion))
    check_weights_are(weights_are, given=weights is not None)
    index_of_rows = index_of(probs)
    for name, column in (("targets", targets), ("weights", weights)):
        index_of_rows = check_index(name, column, index_of_rows)
    ignored = _ignore_index(ignore_index)
    names = None if class_names is None else names_of(class_names)
    _check_order(names, probs)
    tensor = _classes_on_device(probs, notion)
    if tensor is None:
        rows, index, layout, tolerance = _on_host(probs, targets, ignored, names, notion, logits=bool(logits))
    else:
        rows, index, layout, tolerance = _on_device(tensor, targets, ignored, names, logits=bool(logits))
    if ignored is not None and not np.any(index >= 0):
        raise NothingJudgedError(
            "ignore_index",
            "a value that leaves at least one row",
            f"{ignored}, which equals every target",
            "check the targets, or leave ignore_index out",
        )
    return Predictions(
        rows=rows,
        labels=index,
        weights=None if weights is None else _weights(weights, rows.n, index, weights_are, units=units),
        layout=layout,
        logits=bool(logits),
        tolerance=tolerance,
        class_names=names,
        index=index_of_rows,
    )


#: Rows, their labels, their layout and how far the sum of a row may be from 1.
_Checked = tuple[Rows, NDArray[np.int64] | NDArray[np.uint8], Layout, float]


def _on_host(
    probs: ArrayLike,
    targets: ArrayLike | None,
    ignored: int | None,
    names: tuple[str, ...] | None,
    notion: str | None,
    *,
    logits: bool,
) -> _Checked:
    values = as_array("probs", probs)
    labels = as_values("targets", targets)
    bfloat16 = is_bfloat16(probs, values)
    index: NDArray[np.int64] | NDArray[np.uint8]
    try:
        values = values.view(np.uint16) if bfloat16 else as_numbers("probs", values)
        rows, layout = _shape(values, bfloat16, labels, notion)
        if names is not None:
            _check_names(names, rows.width if layout != "binary" else 2)
        if layout == "multilabel":
            index = _binary_targets(labels.reshape(-1), ignored, rows.width).reshape(rows.n, rows.width)
        else:
            sheets = rows.values.shape
            _check_shape(labels, values.shape, sheets, layout)
            index = _class_targets(labels, sheets, layout, ignored, names)
    except InputError as error:
        raise _of_both(widened(values) if bfloat16 else values, labels, logits, error) from None
    return rows, index, layout, sum_tolerance("bfloat16" if bfloat16 else values.dtype.name)


def _classes_on_device(probs: ArrayLike, notion: str | None) -> Any:
    """Return probabilities or logits of classes that are on a device as a tensor; None for anything else.

    One event has one number a row, and each label of several is an event: they are what the host needs.
    """
    tensor = on_device(probs)
    if tensor is None:
        return None
    check_stored("probs", tensor)
    if tensor.ndim < 2 or tensor.shape[1] < 2 or tensor.numel() == 0 or notion == "multilabel":
        return None
    return real_tensor("probs", tensor)


def _on_device(
    tensor: Any, targets: ArrayLike | None, ignored: int | None, names: tuple[str, ...] | None, *, logits: bool
) -> _Checked:
    from calibrant.kernels.device_rows import DeviceRows, one_hot_classes

    values = tensor.reshape(*tensor.shape[:2], -1)
    sheets, tolerance = tuple(values.shape), sum_tolerance(name_of_type(tensor))
    rows = DeviceRows(values, np.zeros(0, np.int64), logits=logits, tolerance=tolerance)
    one_hot, wrong = on_device(targets), None
    labels: NDArray[Any]
    if one_hot is not None and one_hot.shape == tensor.shape:
        check_stored("targets", one_hot)
        labels, wrong = one_hot_classes(one_hot.reshape(sheets))
    else:
        one_hot, labels = None, as_values("targets", targets)
    try:
        if names is not None:
            _check_names(names, rows.width)
        if wrong is not None:
            raise _not_one_hot(wrong.place, wrong.row, sheets, wrong.one_each)
        if one_hot is None:
            _check_shape(labels, tuple(tensor.shape), sheets, "multiclass")
            labels = _class_targets(labels, sheets, "multiclass", ignored, names)
        else:
            labels = _without(labels, ignored)
    except InputError as error:
        fractions = mistakes.are_fractions(labels) if wrong is None else wrong.fractions
        raise _swapped() if fractions and rows.whole else error from None
    index = labels.astype(np.int64, copy=False)
    return rows.labelled(index), index, "multiclass", tolerance


def index_of(column: Any) -> Any:
    """Return the index of a Series or a DataFrame of pandas; None for anything else."""
    return getattr(column, "index", None) if type(column).__module__.partition(".")[0] == "pandas" else None


def check_index(name: str, column: Any, index: Any) -> Any:
    """Reject a column of pandas whose index differs from that of the columns before it; return the index."""
    index_of_column = index_of(column)
    if index is None or index_of_column is None:
        return index_of_column if index is None else index
    if len(index_of_column) == len(index) and not index_of_column.equals(index):
        remedy = "align them, or pass .to_numpy() to pair the rows by their positions"
        raise InputError(name, "the same index as the columns before it", "a Series with another index", remedy)
    return index


def rounding(dtype: str) -> float:
    """Return how far outside [0, 1] a number of this type is read as 0 or 1."""
    return ROUNDING * _EPS.get(dtype, 2.0**-52)


def sum_tolerance(dtype: str) -> float:
    """Return how far from 1 the sum of a row of this type may be."""
    return 1e-3 + 2 * _EPS.get(dtype, 2.0**-52)


def check_logits(probs: NDArray[Any]) -> None:
    """Reject probabilities of classes (N, C) that are declared as logits.

    Real logits never lie in [0, 1] and sum to 1 in each of ten rows or more. With fewer rows, or one event, both are
    possible, and nothing is rejected. Real logits cost the reading of one row.

    Raises
    ------
    InputError
        If every row is a probability vector.
    """
    if probs.ndim != 2 or len(probs) < SURE or probs.shape[1] < 2:
        return
    tolerance, step = sum_tolerance(probs.dtype.name), max(1, 2**20 // probs.shape[1])
    for part in (probs[:1], *(probs[first : first + step] for first in range(0, len(probs), step))):
        if not np.all((part >= 0) & (part <= 1)):
            return
        if not np.all(np.abs(part.sum(axis=1, dtype=np.float64) - 1) <= tolerance):
            return
    got = "probabilities: every row is in [0, 1] and adds up to 1"
    raise refuse("logits", Fault.PROBABILITIES_AS_LOGITS, "logits", got)


def in_unit_interval(logits: NDArray[Any]) -> bool:
    """Return whether logits of one event (N,) all lie in [0, 1]: possible, and suspicious from `SURE` rows on."""
    return logits.ndim == 1 and bool(np.all((logits >= 0) & (logits <= 1)))


def _ignore_index(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise InputError(
            "ignore_index", "an integer", repr(value), "pass the target of the rows to leave out, such as -1"
        )
    return int(value)


def names_of(class_names: Any) -> tuple[str, ...]:
    """Return the names of the classes as a tuple."""
    if isinstance(class_names, (str, bytes)) or not isinstance(class_names, Iterable):
        remedy = "pass a list such as ['cat', 'dog'], in the order of the columns"
        raise InputError("class_names", "a list of names", repr(class_names), remedy)
    return tuple(map(str, class_names))


def _check_order(names: tuple[str, ...] | None, probs: Any) -> None:
    """Reject names of classes in another order than the columns of a data frame that have these names."""
    if names is None or not hasattr(probs, "shape"):  # a lazy frame would resolve its columns
        return
    columns = getattr(probs, "column_names", None) or getattr(probs, "columns", None)
    own = tuple(map(str, columns)) if isinstance(columns, Iterable) else ()
    if names != own and sorted(names) == sorted(own):
        remedy = "pass class_names in the order of the columns, or reorder the columns like class_names"
        raise InputError("class_names", f"the order of the columns of probs ({', '.join(own)})", str(names), remedy)


# ---------------------------------------------------------------- shapes


def _of_both(probs: NDArray[Any], targets: NDArray[Any], logits: bool, error: InputError) -> InputError:
    """Return a better error if both arguments together show the mistake; else the same error."""
    if mistakes.look_swapped(probs, targets):
        return _swapped()
    targets_fail = error.argument == "targets" and targets.shape[:1] == probs.shape[:1]
    if targets_fail and not logits and mistakes.look_predicted(probs):
        got = f"whole numbers up to {number(probs.max())}"
        remedy = "they look like predicted classes: pass the probabilities of the classes, of shape (N, C)"
        return refuse("probs", Fault.PREDICTED_CLASSES, "probabilities", got, remedy)
    return error


def _swapped() -> InputError:
    expected = "probabilities first and targets second"
    return refuse("probs", Fault.SWAPPED, expected, "labels first and fractions second")


def _shape(values: NDArray[Any], bfloat16: bool, labels: NDArray[Any], notion: str | None) -> tuple[Rows, Layout]:
    if values.ndim == 0:
        raise InputError(
            "probs",
            "an array of shape (N,) or (N, C)",
            "a single number",
            "for one prediction pass a list of one, such as [0.7]",
        )
    if values.size == 0:
        raise InputError("probs", "at least one row", f"shape {values.shape}", "check where the rows were lost")
    if values.dtype.kind == "f" and values.dtype.itemsize > 8:
        raise InputError("probs", "float16, bfloat16, float32 or float64", str(values.dtype), "round it to float64")
    if values.ndim == 1 or values.shape[1] == 1:
        return Rows(values.reshape(len(values), 1, -1), bfloat16), "binary"
    sheets = values.reshape(values.shape[0], values.shape[1], -1)
    layout: Layout = "multilabel" if notion == "multilabel" else "multiclass"
    if layout == "multilabel":
        if labels.shape != values.shape:
            raise InputError(
                "targets",
                f"shape {values.shape}, the shape of probs, for notion='multilabel'",
                f"shape {labels.shape}",
                "pass a 0 or 1 for every label of every row",
            )
        if values.ndim > 2:
            raise InputError(
                "probs",
                "shape (N, C) for multilabel",
                f"shape {values.shape}",
                "move the axis of the labels to the end and reshape to (N, C)",
            )
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


def _check_shape(labels: NDArray[Any], shape: tuple[int, ...], sheets: tuple[int, ...], layout: Layout) -> None:
    """Reject targets that are neither one per row, in the shape of the rows, nor one-hot in the shape of probs.

    ``sheets`` is (B, C, D), as in `Rows`.
    """
    if layout == "multiclass" and labels.shape == shape:
        return
    wanted, (n_sheets, width, depth) = (shape[0], *shape[2:]), sheets
    if labels.shape[:1] != wanted[:1] or [size for size in labels.shape if size != 1] != [
        size for size in wanted if size != 1
    ]:
        suspicion = mistakes.of_lengths(labels, n_sheets * depth, width, stacked=depth > 1)
        n = n_sheets * depth
        expected = f"{n} label{'s' * (n != 1)}, one for each row"
        expected += f" (or one-hot rows of {width})" if layout == "multiclass" else ""
        facts = Facts(value=labels.shape, suspicion=suspicion)
        raise refuse("targets", Fault.LENGTHS, expected, f"shape {labels.shape}", facts=facts)


def _class_targets(
    labels: NDArray[Any],
    sheets: tuple[int, ...],
    layout: Layout,
    ignore_index: int | None,
    names: tuple[str, ...] | None,
) -> NDArray[np.int64] | NDArray[np.uint8]:
    if labels.size != sheets[0] * sheets[2]:
        return _without(_one_hot(labels.reshape(sheets)), ignore_index)
    flat = labels.reshape(-1)
    if flat.dtype.kind in "UST":
        return _without(_named(flat, names, layout == "binary"), ignore_index)
    if layout == "binary":
        return _binary_targets(flat, ignore_index)
    index, evaluated = _integers(flat, ignore_index, sheets[1])
    return _in_range(index, evaluated, sheets[1])


def _in_range(
    index: NDArray[np.int64], evaluated: NDArray[np.bool_] | np.bool_, n_classes: int | None, width: int = 1
) -> NDArray[np.int64]:
    """Return class indices, or outcomes, with -1 for those that are not evaluated; reject what is out of range."""
    most = 1 if n_classes is None else n_classes - 1
    if int(index.min(where=evaluated, initial=0)) < 0 or int(index.max(where=evaluated, initial=0)) > most:
        entry = int(np.argmax(evaluated & ((index < 0) | (index > most))))
        seen, wrong = index[np.broadcast_to(evaluated, index.shape)], int(index[entry])
        outcomes = n_classes is None
        suspicion = mistakes.of_outcomes(seen, wrong) if outcomes else mistakes.of_classes(seen, wrong, most + 1)
        raise _wrong_label(wrong, n_classes, _place(entry, width), suspicion)
    return index if bool(evaluated.all()) else np.where(evaluated, index, -1)


def _binary_targets(
    labels: NDArray[Any], ignore_index: int | None, width: int = 1
) -> NDArray[np.int64] | NDArray[np.uint8]:
    if labels.dtype.kind in "UST":
        return _named(labels, None, True)
    if labels.dtype.kind in "iub" and labels.itemsize == 1 and ignore_index is None and labels.size:
        outcomes = np.ascontiguousarray(labels).view(np.uint8)
        if int(outcomes.max()) <= 1:
            return outcomes
    index, evaluated = _integers(labels, ignore_index, None, width)
    if ignore_index is None and index.size and int(index.view(np.uint64).max()) <= 1:  # one pass; -1 is the largest
        return index
    return _in_range(index, evaluated, None, width)


def _place(entry: int, width: int) -> Place:
    """Return the place of an entry of (n, width), counted row by row."""
    return Place(entry // width, entry % width if width > 1 else None, width)


def _without(index: NDArray[np.int64], ignore_index: int | None) -> NDArray[np.int64]:
    return index if ignore_index is None else np.where(index == ignore_index, -1, index)


def _integers(
    labels: NDArray[Any], ignore_index: int | None, n_classes: int | None, width: int = 1
) -> tuple[NDArray[np.int64], NDArray[np.bool_] | np.bool_]:
    """Return (labels as int64, which of them are evaluated); reject fractions and other types."""
    kind = labels.dtype.kind
    if kind == "f" or labels.dtype == np.uint64:
        good = (labels == np.floor(labels)) & (np.abs(labels) < np.float64(2.0**62)) if kind == "f" else labels < 2**63
        if not good.all():
            entry = int(np.argmin(good))
            suspicion = mistakes.of_fractions(labels, labels[entry]) if kind == "f" else None
            raise _wrong_label(labels[entry], n_classes, _place(entry, width), suspicion)
    elif kind not in "iub":
        expected, remedy = expected_labels(n_classes), "pass integers, booleans or class names"
        raise refuse("targets", Fault.LABEL_TYPE, expected, f"dtype {labels.dtype}", remedy)
    index = labels.astype(np.int64, copy=False)
    if ignore_index is None:
        return index, np.True_
    return index, index != ignore_index


def _wrong_label(value: Any, n_classes: int | None, place: Place, suspicion: Suspicion | None) -> InputError:
    fault = Fault.OUTCOMES if n_classes is None else Fault.CLASS_INDICES
    facts = Facts(value=value, n_classes=n_classes, place=place, suspicion=suspicion)
    return refuse("targets", fault, expected_labels(n_classes), f"{value}", facts=facts)


def _named(labels: NDArray[Any], names: tuple[str, ...] | None, one_event: bool) -> NDArray[np.int64]:
    if names is None:
        suspicion = mistakes.of_label_names(labels, one_event=one_event)
        name = str(labels[:1].astype(str)[0])
        facts = Facts(value=name, n_classes=None if one_event else 0, suspicion=suspicion)
        raise refuse("targets", Fault.LABEL_NAMES, "integers", f"strings such as {name!r}", facts=facts)
    places = {name: k for k, name in enumerate(names)}
    distinct, inverse = np.unique(labels.astype(str), return_inverse=True)
    index = np.array([places.get(label, -1) for label in distinct.tolist()], dtype=np.int64)[inverse.reshape(-1)]
    if index.min() < 0:
        row = int(np.argmin(index))
        name, facts = str(labels[row]), Facts(value=str(labels[row]), names=names, place=Place(row))
        expected = "names among class_names"
        raise refuse("targets", Fault.UNKNOWN_NAME, expected, repr(name), nearest(name, names), facts)
    return index


def _one_hot(labels: NDArray[Any]) -> NDArray[np.int64]:
    """Return the index of the 1 in each row of (B, C, D); a few rows at a time, to save memory."""
    if labels.dtype.kind not in "fiub":
        raise InputError("targets", "one-hot rows of 0 and 1", f"dtype {labels.dtype}", "pass class indices")
    n, width, depth = labels.shape
    index = np.empty((n, depth), np.int64)
    step = max(1, 2**16 // (width * depth))
    for first in range(0, n, step):
        part = labels[first : first + step]
        good = ((part == 0) | (part == 1)).all(axis=1) & (np.count_nonzero(part, axis=1) == 1)
        if not good.all():
            b, d = divmod(int(np.argmin(good)), depth)
            place = (first + b) * depth + d
            raise _not_one_hot(place, part[b, :, d], labels.shape, mistakes.have_one_each(labels))
        index[first : first + step] = part.argmax(axis=1)
    return index.reshape(-1)


def _not_one_hot(place: int, row: NDArray[Any], sheets: tuple[int, ...], one_each: bool) -> InputError:
    """Return the error of a row of targets (B, C, D); ``one_each`` says whether each of their columns has one 1."""
    entry = next((x for x in row.tolist() if x not in (0, 1)), None)
    suspicion = mistakes.of_one_hot(row, sheets, one_each)
    ones = int(np.count_nonzero(row))
    got = f"{ones or 'no'} one{'s' * (ones != 1)}" if entry is None else number(entry)
    facts = Facts(value=entry, place=Place(place), suspicion=suspicion)
    return refuse("targets", Fault.ONE_HOT, "one-hot rows (a single 1 among 0s)", got, facts=facts)


def check_weights_are(weights_are: Any, *, given: bool) -> None:
    """Reject a kind of weights if it is not one of two words, or if weights are missing."""
    if weights_are is None:
        return
    check_choice("weights_are", weights_are, WEIGHTS_ARE)
    if not given:
        raise InputError("weights_are", "weights together with it", "none", "name the weights too, or leave it out")


def _weights(
    x: Any, n: int, targets: NDArray[np.integer[Any]], weights_are: WeightsAre | None, *, units: bool
) -> NDArray[np.float64]:
    array = as_numbers("weights", as_values("weights", x))
    if array.size != n:
        raise InputError("weights", f"{n} numbers, one per row", f"shape {array.shape}", "pass one number per row")
    with np.errstate(invalid="ignore"):  # a signalling NaN, which is refused below
        weights = array.reshape(-1).astype(np.float64, copy=False)
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        facts = Facts(value=weights[row], place=Place(row))
        expected, remedy = "finite numbers of 0 or more", "correct or drop the row"
        raise refuse("weights", Fault.WEIGHT, expected, f"{weights[row]}", remedy, facts)
    evaluated = targets.reshape(n, -1).max(axis=1) >= 0
    if not np.any(weights[evaluated] > 0):
        remedy = "leave weights out to count every row once"
        raise NothingJudgedError("weights", "at least one above 0", "only zeros", remedy)
    weights = np.ascontiguousarray(weights if evaluated.all() else np.where(evaluated, weights, 0.0))
    _check_range(weights, units=units)
    if weights_are == "frequency" and not integer_weights(weights):
        row = int(np.argmax(weights != np.rint(weights)))
        remedy = "pass counts, or leave weights_are out, because weights that are not whole are sampling weights"
        raise InputError(
            "weights",
            "frequencies, which are whole numbers with a sum of at most 2^53",
            f"{number(weights[row])} at row {row}",
            remedy,
            row=row,
        )
    if weights_are == "sampling" and integer_weights(weights):
        weights = weights * NOT_WHOLE
    return in_units(weights) if units else weights


def _check_range(weights: NDArray[np.float64], *, units: bool) -> None:
    """Reject weights whose squares are lost: too far apart, or where a sketch or a table adds them up, from 1."""
    held = weights > 0
    most, row = float(weights.max()), int(np.argmin(np.where(held, weights, np.inf)))
    least = float(weights[row])
    if units and least < most * LEAST_WEIGHT:
        remedy = f"set weights below {most * LEAST_WEIGHT:.3g} to 0, because they do not change the results"
        got = f"{least:.3g} at row {row}, although the largest weight is {most:.3g}"
        expected = f"weights of at least {LEAST_WEIGHT:g} times the largest weight"
        raise InputError("weights", expected, got, remedy, row=row)
    if not units and not LEAST_WEIGHT <= least <= most <= MOST_WEIGHT:
        row = row if least < LEAST_WEIGHT else int(np.argmax(weights))
        expected = f"0, or weights from {LEAST_WEIGHT:g} to {MOST_WEIGHT:g}, so that data sets can be merged"
        remedy = "divide all weights by the same number, in every data set that you merge"
        raise InputError("weights", expected, f"{weights[row]:.3g} at row {row}", remedy, row=row)
