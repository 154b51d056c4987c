"""What may have gone wrong with an input, and what would mend it: looked for only once it is refused.

Each function knows one usual mistake. None of them changes anything, and none is called for an input that is accepted,
so they may look at everything.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LOOK = 100_000  # entries that are looked at for what holds of most


def number(value: Any) -> str:
    """Write a number with six digits, or with all of them where six would make a probability of it."""
    short, whole = f"{float(value):.6g}", str(value).removesuffix(".0")
    return whole if len(whole) <= len(short) or 0 <= float(short) <= 1 else short


def for_no_array(argument: str, x: Any) -> str:
    """Say what to pass instead of what is no array at all."""
    if hasattr(x, "collect"):
        return "collect it first"
    name = os.fspath(x) if isinstance(x, (str, os.PathLike)) else b""
    if isinstance(name, str) and os.path.splitext(name)[1] and "\n" not in name:
        return "read the file first" + (f", or run: calibrant report {name}" if argument == "probs" else "")
    return "pass an array, a column or a list of numbers"


def for_text(argument: str, text: str) -> str:
    """Say how to mend texts where numbers are wanted."""
    if text.strip().endswith("%"):
        return "convert them to fractions first, '85%' to 0.85"
    if _is_number(text):
        return f"convert them to numbers first, with np.asarray({argument}, dtype=float)"
    return "pass numbers, not names"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# ---------------------------------------------------------------- both arguments


def look_swapped(probs: NDArray[Any], targets: NDArray[Any]) -> bool:
    """Recognise targets in the place of probabilities: labels first and fractions second."""
    if targets.dtype.kind != "f" or not np.any(np.isfinite(targets) & (targets != np.floor(targets))):
        return False
    return probs.dtype.kind in "iubUST" or (probs.dtype.kind == "f" and bool(np.all(probs == np.floor(probs))))


def look_predicted(probs: NDArray[Any]) -> bool:
    """Recognise predicted classes in the place of probabilities: whole numbers, one a row, above 1."""
    if probs.dtype.kind not in "iuf" or probs.size != len(probs):
        return False
    return bool(np.all((probs == np.floor(probs)) & (probs >= 0)) and probs.max() > 1)


def for_lengths(targets: NDArray[Any], n: int, width: int, stacked: bool) -> str:
    """Say what to do about targets whose shape is not that of ``n`` rows of ``width`` classes (1 for one event)."""
    shape = targets.shape
    if shape == ():
        return "pass a label for each row, such as [1]"
    if width > 1 and not stacked:
        if n == 1 and shape == (width,) and width > 2 and _ones(targets) != 1:
            return "probs look like one row of many classes: for one event pass probs.reshape(-1)"
        if shape == (width,) and n > 1:
            return "probs look transposed: they are (N, C), a row for each prediction and a column for each class"
        if shape == (width, n):
            return "the one-hot targets look transposed: pass targets.T"
    if targets.ndim == 2 and len(targets) == n:
        if width == 1 and shape[1] == 2 and np.all(np.count_nonzero(targets == 1, axis=1) == 1):
            return "the targets look one-hot: pass targets[:, 1] if that column says that it happened"
        return "pass one label a row, or for several labels a row notion='multilabel' and probs of the same shape"
    return "probs and targets must be of the same rows"


def _ones(targets: NDArray[Any]) -> int:
    return int(np.count_nonzero(targets == 1)) if targets.dtype.kind in "fiub" else 0


# ---------------------------------------------------------------- targets


def for_names(names: NDArray[Any], one_event: bool) -> str:
    """Say what to do about targets that are names, where no class names were given."""
    distinct: list[str] = np.unique(names[:_LOOK].astype(str)).tolist()
    if all(name.strip().lstrip("+-").isdigit() for name in distinct):
        return "convert them to integers first, with np.asarray(targets, dtype=int)"
    if one_event and len(distinct) == 2:
        event = distinct[1]
        return f"pass np.asarray(targets) == {event!r} if {event!r} is the event, or class_names={distinct} to evaluate"
    order = "" if one_event else ", in the order of the columns"
    return f"pass class_names to evaluate{order}, or map them to integers"


def for_outcomes(index: NDArray[np.int64], wrong: int) -> str:
    """Say what to do about integers other than 0 and 1, of which ``wrong`` is the first."""
    distinct = _distinct(index)
    if distinct in ([1, 2], [2]):
        return "the labels look 1-based: subtract 1"
    if len(distinct) == 2:
        low, high = distinct
        return f"the labels are {low} and {high}: pass np.asarray(targets) == {high} if {high} is the event"
    if wrong == -1:
        return "map -1 to 0, or pass ignore_index=-1 if such rows are to be left out"
    return "map the targets to 0 and 1, or for more than two classes pass probs of shape (N, C)"


def for_classes(index: NDArray[np.int64], wrong: int, width: int) -> str:
    """Say what to do about class indices outside 0 to ``width`` - 1, of which ``wrong`` is the first."""
    if int(index.min()) >= 1 and int(index.max()) == width:
        return "the labels look 1-based: subtract 1"
    if width == 2 and _distinct(index) == [-1, 1]:
        return "the labels are -1 and 1: pass np.asarray(targets) == 1 if 1 is the second class"
    remedy = f"pass ignore_index={wrong} if such rows are to be left out"
    return f"check that probs has a column for every class, or {remedy}" if wrong > 0 else remedy


def _distinct(index: NDArray[np.int64]) -> list[int]:
    found: list[int] = np.unique(index).tolist()
    return found


def for_fractions(targets: NDArray[Any], wrong: float) -> str:
    """Say what to do about numbers that are no integers, of which ``wrong`` is the first."""
    head = targets[:_LOOK]
    if np.all((head >= 0) & (head <= 1)) and np.mean(head != np.floor(head)) > 0.5:
        return "the targets look like probabilities: pass what happened, as 0 and 1 or class indices"
    remedy = "filter the row out of probs and targets"
    return f"{remedy}, or round the target if that is what it means" if np.isfinite(wrong) else remedy


def for_one_hot(targets: NDArray[Any], row: NDArray[Any]) -> str:
    """Say what to do about targets (B, C, D) of which ``row`` is not one-hot."""
    n, width, depth = targets.shape
    if np.all(np.isin(row, (0, 1))) and depth == 1:
        if n == 1 and width > 2:
            return "probs look like one row of many classes: for one event pass probs.reshape(-1), targets.reshape(-1)"
        if np.all(np.count_nonzero(targets[:, :, 0] == 1, axis=0) == 1):
            return "probs and targets look transposed: pass probs.T and targets.T"
    if np.all((row >= 0) & (row <= 1)) and abs(float(row.sum()) - 1) < 1e-3:
        return "the targets look like probabilities: pass class indices (of smoothed labels targets.argmax(axis=1))"
    return "pass class indices, or notion='multilabel' for several labels a row"


# ---------------------------------------------------------------- probabilities


def for_column(values: NDArray[Any], targets: NDArray[Any], kept: NDArray[np.bool_]) -> str | None:
    """Recognise a column of ``values`` (n, C) that does not belong to them: the targets, or a count of the rows."""
    others = np.array([bool(np.all((column >= 0) & (column <= 1))) for column in values[kept].T])
    for k, column in enumerate(values[kept].T):
        rest = np.delete(others, k).all()
        if rest and np.array_equal(column, targets[kept]) and len(column) > 1:
            return f"column {k} of probs holds the targets: leave it out"
        if rest and not others[k] and np.array_equal(column, np.floor(column)):
            return f"column {k} of probs holds whole numbers: leave it out if it is no probability"
    return None


def look_percent(head: NDArray[np.float64], classes: bool) -> bool:
    """Whether rows lie in [0, 100] with something above 2, and where they are of classes sum to 100."""
    if not (np.isfinite(head).all() and head.min() >= 0 and 2 < head.max() <= 100):
        return False
    return not classes or bool(np.allclose(head.sum(axis=1), 100, atol=1))
