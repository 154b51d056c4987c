"""The arguments of displays and scorers: labels matched to the classes of probabilities, and keyword arguments."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError, nearest, one_of_these
from calibrant.errors.faults import Fault
from calibrant.errors.mistakes import look_swapped
from calibrant.errors.wording import NO_OPTIONS
from calibrant.inputs.conversion import as_array, is_bfloat16
from calibrant.inputs.notions import PER_CLASS
from calibrant.inputs.predictions import Notion
from calibrant.runtime.arrays import ArrayLike

#: The names of the arguments in the public signatures, for errors, and the terms of remedies.
OF_ESTIMATOR: Final = (
    {"probs": "estimator.predict_proba(X)", "targets": "y", "weights": "sample_weight"},
    replace(NO_OPTIONS, probs="estimator.predict_proba(X)", targets="y", rows="X"),
)
OF_ARRAYS: Final = (
    {"probs": "y_prob", "targets": "y_true", "weights": "sample_weight"},
    replace(NO_OPTIONS, probs="y_prob", targets="y_true"),
)


class EstimatorRows(NamedTuple):
    """The input of calibrant: the probability of one label with targets 0 and 1, or a column for each class."""

    probs: ArrayLike
    targets: NDArray[np.int64]
    notion: Notion | None
    pos_label: Any = None
    class_names: tuple[str, ...] | None = None


def probabilities_of(estimator: Any, X: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the classes of a classifier, and its probabilities (N, C)."""
    if not hasattr(estimator, "predict_proba"):
        remedy = (
            "use a classifier with predict_proba, or wrap the classifier in sklearn.calibration.CalibratedClassifierCV"
        )
        raise InputError("estimator", "a classifier with predict_proba", f"a {type(estimator).__name__}", remedy)
    probs = estimator.predict_proba(X)
    if not hasattr(estimator, "classes_"):
        remedy = "pass arrays to ReliabilityDisplay.from_predictions, or to the measure itself"
        raise InputError("estimator", "a classifier with classes_", f"a {type(estimator).__name__}", remedy)
    if isinstance(probs, list):
        remedy = "evaluate one output at a time"
        raise InputError("estimator", "a classifier with one output", "a classifier with several outputs", remedy)
    classes, probs = as_array("estimator.classes_", estimator.classes_), as_array("probs", probs)
    if len(classes) < 2:
        remedy = "fit the classifier on rows of every class"
        raise InputError("estimator", "at least two classes", f"one class, {_words(classes)}", remedy)
    if probs.ndim != 2 or probs.shape[1] != len(classes):
        remedy = "pass an estimator with one column for each of its classes_"
        raise InputError("probs", f"a column for each of {len(classes)} classes", f"shape {probs.shape}", remedy)
    return classes, probs


def of_estimator(estimator: Any, X: Any, y: ArrayLike, pos_label: Any, notion: Any) -> EstimatorRows:
    """Compute a classifier's probabilities, and match labels to its classes."""
    classes, probs = probabilities_of(estimator, X)
    remedy = (
        "the estimator was fitted without this label; fit it on rows of every class, for example with stratified folds"
    )
    places = _places(_labels(y, len(probs)), classes, "estimator.classes_", remedy)
    return _rows(probs, probs, places, classes, pos_label=pos_label, notion=notion)


def of_arrays(y_true: ArrayLike, y_prob: ArrayLike, class_names: Any, pos_label: Any, notion: Any) -> EstimatorRows:
    """Match labels to the columns of ``y_prob``."""
    probs = as_array("probs", y_prob)
    if probs.ndim not in (1, 2) or probs.size == 0:
        remedy = "pass a row of probabilities for each label"
        raise InputError("probs", "an array of shape (N,) or (N, C)", f"shape {probs.shape}", remedy)
    if look_swapped(probs, as_array("targets", y_true)):
        remedy = "the arguments look swapped; the order in scikit-learn is from_predictions(y_true, y_prob)"
        got = "fractions as the first argument"
        raise InputError("targets", "labels as the first argument and probabilities as the second", got, remedy)
    labels, columns = _labels(y_true, len(probs)), probs.shape[1] if probs.ndim == 2 else 1
    where, remedy = "class_names", "name every class, in the order of the columns"
    if class_names is not None:
        classes = _named(class_names, columns)
    elif columns > 1:
        where = "the indices of the columns"
        remedy = "pass class_names, the labels in the order of the columns, such as estimator.classes_"
        classes = np.arange(columns)
    else:
        classes = _of_one_column(labels, pos_label)
    places = _places(labels, classes, where, remedy)
    return _rows(probs, y_prob, places, classes, pos_label=pos_label, notion=notion)


def _named(class_names: Any, columns: int) -> NDArray[Any]:
    """Return the labels of the columns; a single column is the probability of one of several labels."""
    classes = as_array("class_names", class_names).reshape(-1)
    wrong = len(classes) < 2 if columns == 1 else len(classes) != columns
    if wrong:
        expected = "at least two labels" if columns == 1 else f"{columns} labels, one for each column of y_prob"
        remedy = "pass the labels in the order of the columns, such as estimator.classes_"
        raise InputError("class_names", expected, f"{len(classes)}", remedy)
    if len(set(classes.tolist())) < len(classes):
        raise InputError("class_names", "distinct labels", _words(classes), "name each label once")
    return classes


def _of_one_column(labels: NDArray[Any], pos_label: Any) -> NDArray[Any]:
    """Return the labels in the data, if a single column is the probability of one of them."""
    classes = np.unique(labels)
    if pos_label is not None:
        if pos_label not in classes.tolist():
            hint = nearest(str(pos_label), map(str, classes.tolist()))
            remedy = f"{hint} (if the label exists but does not occur in these rows, pass class_names)"
            raise InputError("pos_label", f"one of the labels {_words(classes)}", repr(pos_label), remedy)
        return classes
    for pair in ((0, 1), (-1, 1)):
        if set(classes.tolist()) <= set(pair):
            return np.array(pair)
    remedy = "pass pos_label, the label that y_prob gives the probability of"
    raise InputError(
        "pos_label", "a label, because the labels are not 0 and 1", f"None with labels {_words(classes)}", remedy
    )


def _rows(
    probs: NDArray[Any],
    original: Any,
    places: NDArray[np.int64],
    classes: NDArray[Any],
    *,
    pos_label: Any,
    notion: Any,
) -> EstimatorRows:
    """Return the evaluated column, or all columns; ``places`` are the labels as indices of classes."""
    width, labels = probs.shape[1] if probs.ndim == 2 else 1, classes.tolist()
    names = tuple(map(str, labels))
    if pos_label is not None and pos_label not in labels:
        remedy = one_of_these(str(pos_label), names)
        raise InputError("pos_label", f"one of {_words(classes)}", repr(pos_label), remedy)
    if pos_label is not None or (len(labels) == 2 and notion not in PER_CLASS):
        k = 1 if pos_label is None else labels.index(pos_label)
        if notion in PER_CLASS or (notion == "top-label" and len(labels) > 2):
            got = f"pos_label={pos_label!r} with notion={notion!r}"
            raise InputError("notion", "'positive' for one class", got, "leave pos_label or notion out")
        pair = (names[1 - k], names[k]) if len(labels) == 2 else None
        return EstimatorRows(_column(probs, original, k), (places == k).astype(np.int64), notion, labels[k], pair)
    if width == 1:
        remedy = "pass pos_label, the label that y_prob gives the probability of"
        raise InputError("pos_label", f"one of {_words(classes)}", "None", remedy)
    if notion == "positive":
        remedy = "pass pos_label, the class to evaluate against the rest"
        raise InputError("notion", f"'top-label' or 'classwise' for {len(labels)} classes", "'positive'", remedy)
    return EstimatorRows(original, places, notion, None, names)


def _column(probs: NDArray[Any], original: Any, k: int) -> Any:
    """Return the probability of class k, in the type of the original array."""
    if probs.ndim == 1 or probs.shape[1] == 1:
        return original
    return original[:, k] if is_bfloat16(original, probs) else probs[:, k]  # as_array returns bfloat16 as its bits


def _places(labels: NDArray[Any], classes: NDArray[Any], where: str, remedy: str) -> NDArray[np.int64]:
    """Return the class index of each label."""
    distinct, inverse = np.unique(labels, return_inverse=True)
    place = {label: k for k, label in enumerate(classes.tolist())}
    places = np.array([place.get(label, -1) for label in distinct.tolist()], dtype=np.int64)[inverse.reshape(-1)]
    if places.min() < 0:
        row = int(np.argmin(places))
        strings = [array.dtype.kind in "UST" for array in (labels, classes)]
        if strings[0] != strings[1]:
            remedy = "one set of labels is strings and the other is numbers; convert one of the two sets"
        expected, got = f"labels among {where}, {_words(classes)}", f"{labels[row].item()!r} at row {row}"
        raise InputError("targets", expected, got, remedy, fault=Fault.UNKNOWN_NAME, row=row)
    return places


def _labels(y: ArrayLike, n: int) -> NDArray[Any]:
    """Return the labels, one for each row; reject missing labels."""
    labels = as_array("targets", y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        remedy = "pass class labels; if rows have several labels, evaluate one label at a time"
        raise InputError("targets", "one label for each row", f"shape {labels.shape}", remedy)
    if len(labels) != n:
        expected = f"{n} label{'s' * (n != 1)}, one for each row of probabilities"
        raise InputError("targets", expected, f"{len(labels)}", "pass labels and probabilities of the same rows")
    missing = np.isnan(labels) if labels.dtype.kind == "f" else np.zeros(n, np.bool_)
    if missing.any():
        row = int(np.argmax(missing))
        got, remedy = f"nan at row {row}", "leave the row out"
        raise InputError("targets", "a label in every row", got, remedy, fault=Fault.MISSING, row=row)
    return labels


def _words(classes: NDArray[Any]) -> str:
    """Return the first six labels as Python writes them."""
    return listed([repr(label) for label in classes.tolist()])


def listed(names: list[str]) -> str:
    """Return the first six names."""
    return ", ".join(names[:6] + ["..."] * (len(names) > 6))


# ---------------------------------------------------------------- keyword arguments


def name_of(function: Any) -> str:
    """Return the name of a function, or of its class."""
    name: str = getattr(function, "__name__", type(function).__name__)
    return name


def parameters_of(function: Any) -> Mapping[str, inspect.Parameter] | None:
    """Return the parameters of a function; None if it has no signature."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None


def takes(function: Any, name: str) -> bool:
    """Return whether a function takes a keyword argument; True if it has no signature."""
    parameters = parameters_of(function)
    if parameters is None or any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return True
    return name in parameters and parameters[name].kind is not inspect.Parameter.POSITIONAL_ONLY


def check_arguments(function: Any, arguments: Iterable[str], others: Sequence[str]) -> None:
    """Reject a keyword argument that a function does not take, or gets elsewhere (``others``)."""
    for name in arguments:
        if name in others or not takes(function, name):
            hint = nearest(name, [parameter for parameter in parameters_of(function) or () if parameter not in others])
            raise InputError(
                name, f"an argument of {name_of(function)}", "an argument that the function does not have", hint
            )
