"""Recognise the usual mistakes behind an input, after it is rejected.

Each function knows one kind of mistake and returns a `Suspicion`, or None. It changes nothing. It never runs for an
accepted input, so it may read everything.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors.faults import Mistake, Suspicion

#: Whole numbers up to this may be deciles or ranks, so they are not per cents.
RANKS = 10
_LOOK = 100_000  # entries that are read to learn what holds for most


def named_file(x: Any) -> str:
    """Return the name of a file that was passed as an array; an empty string for anything else."""
    name = os.fspath(x) if isinstance(x, (str, os.PathLike)) else b""
    return name if isinstance(name, str) and os.path.splitext(name)[1] and "\n" not in name else ""


def of_text(text: str) -> Suspicion | None:
    """Recognise numbers written as text."""
    if text.strip().endswith("%"):
        return Suspicion(Mistake.PERCENT_TEXT)
    with suppress(ValueError):
        float(text)
        return Suspicion(Mistake.NUMBER_TEXT)
    return None


# ---------------------------------------------------------------- both arguments


def look_swapped(probs: NDArray[Any], targets: NDArray[Any]) -> bool:
    """Return whether the arguments look swapped: labels first and fractions second."""
    if not are_fractions(targets):
        return False
    return probs.dtype.kind in "iubUST" or (probs.dtype.kind == "f" and bool(np.all(probs == np.floor(probs))))


def are_fractions(targets: NDArray[Any]) -> bool:
    """Return whether targets are floats, some of them fractions."""
    return targets.dtype.kind == "f" and bool(np.any(np.isfinite(targets) & (targets != np.floor(targets))))


def look_predicted(probs: NDArray[Any]) -> bool:
    """Return whether probs look like predicted classes: integers, one per row, some above 1."""
    if probs.dtype.kind not in "iuf" or probs.size != len(probs):
        return False
    return bool(np.all((probs == np.floor(probs)) & (probs >= 0)) and probs.max() > 1)


def of_lengths(targets: NDArray[Any], n: int, width: int, *, stacked: bool) -> Suspicion | None:
    """Recognise why the shape of targets does not match ``n`` rows of ``width`` classes (1 for one event)."""
    shape = targets.shape
    if shape == ():
        return Suspicion(Mistake.SINGLE_LABEL)
    if width > 1 and not stacked:
        if n == 1 and shape == (width,) and width > 2 and _ones(targets) != 1:
            return Suspicion(Mistake.SINGLE_ROW)
        if shape == (width,) and n > 1:
            return Suspicion(Mistake.TRANSPOSED_PROBS)
        if shape == (width, n):
            return Suspicion(Mistake.TRANSPOSED_TARGETS)
    if targets.ndim == 2 and len(targets) == n:
        one_hot = width == 1 and shape[1] == 2 and np.all(np.count_nonzero(targets == 1, axis=1) == 1)
        return Suspicion(Mistake.ONE_HOT_EVENT if one_hot else Mistake.SEVERAL_LABELS)
    return None


def _ones(targets: NDArray[Any]) -> int:
    return int(np.count_nonzero(targets == 1)) if targets.dtype.kind in "fiub" else 0


# ---------------------------------------------------------------- targets


def of_label_names(names: NDArray[Any], *, one_event: bool) -> Suspicion | None:
    """Recognise text targets that are numbers, or the two names of one event."""
    distinct: list[str] = np.unique(names[:_LOOK].astype(str)).tolist()
    if all(name.strip().lstrip("+-").isdigit() for name in distinct):
        return Suspicion(Mistake.NUMBER_TEXT)
    return Suspicion(Mistake.TWO_LABELS, tuple(distinct)) if one_event and len(distinct) == 2 else None


def of_outcomes(index: NDArray[np.int64], wrong: int) -> Suspicion | None:
    """Recognise what integers other than 0 and 1 stand for; ``wrong`` is the first of them."""
    distinct: list[int] = np.unique(index).tolist()
    if distinct in ([1, 2], [2]):
        return Suspicion(Mistake.ONE_BASED)
    if len(distinct) == 2:
        return Suspicion(Mistake.TWO_LABELS, tuple(distinct))
    return Suspicion(Mistake.IGNORED_LABEL) if wrong == -1 else None


def of_classes(index: NDArray[np.int64], wrong: int, width: int) -> Suspicion:
    """Recognise what class indices outside 0 to ``width`` - 1 stand for; ``wrong`` is the first of them."""
    if int(index.min()) >= 1 and int(index.max()) == width:
        return Suspicion(Mistake.ONE_BASED)
    if width == 2 and np.unique(index).tolist() == [-1, 1]:
        return Suspicion(Mistake.TWO_LABELS, (-1, 1))
    return Suspicion(Mistake.COLUMN_LACKING if wrong > 0 else Mistake.IGNORED_LABEL)


def of_fractions(targets: NDArray[Any], wrong: float) -> Suspicion | None:
    """Recognise what fractional targets stand for; ``wrong`` is the first of them."""
    head = targets[:_LOOK]
    if np.all((head >= 0) & (head <= 1)) and np.mean(head != np.floor(head)) > 0.5:
        return Suspicion(Mistake.PROBABILITY_TARGETS)
    return Suspicion(Mistake.FRACTION) if np.isfinite(wrong) else None


def have_one_each(targets: NDArray[Any]) -> bool:
    """Return whether each column of targets (n, C, ...) has one 1 in its first sheet."""
    return bool(np.all(np.count_nonzero(targets[:, :, 0] == 1, axis=0) == 1))


def of_one_hot(row: NDArray[Any], shape: tuple[int, ...], one_each: bool) -> Suspicion | None:
    """Recognise what targets of shape (B, C, D) stand for if one ``row`` is not one-hot; see `have_one_each`."""
    n, width, depth = shape
    if np.all(np.isin(row, (0, 1))) and depth == 1:
        if n == 1 and width > 2:
            return Suspicion(Mistake.SINGLE_ROW)
        if one_each:
            return Suspicion(Mistake.TRANSPOSED_BOTH)
    if np.all((row >= 0) & (row <= 1)) and abs(float(row.sum()) - 1) < 1e-3:
        return Suspicion(Mistake.PROBABILITY_TARGETS)
    return None


# ---------------------------------------------------------------- probabilities


def kinds_of_columns(
    values: NDArray[Any], targets: NDArray[Any], evaluated: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which columns are in [0, 1], equal the targets, and are whole numbers in all evaluated rows."""
    rows, labels = values[evaluated], targets[evaluated]
    kinds = (rows >= 0) & (rows <= 1), rows == labels[:, None], rows == np.floor(rows)
    inside, equal, whole = (np.asarray(kind.all(axis=0)) for kind in kinds)
    return inside, equal, whole


def of_column(
    inside: NDArray[np.bool_], equal: NDArray[np.bool_], whole: NDArray[np.bool_], n: int
) -> Suspicion | None:
    """Recognise a column that is not a probability: the targets, or integers such as counts.

    The columns of n rows are described as by `kinds_of_columns`.
    """
    foreign, alike = np.flatnonzero(~inside), np.flatnonzero(equal)
    if len(foreign) > 1:
        return None
    if len(foreign):
        alike = alike[alike == foreign[0]]
    if len(alike) and n > 1:
        return Suspicion(Mistake.TARGET_COLUMN, column=int(alike[0]))
    if len(foreign) and whole[foreign[0]]:
        return Suspicion(Mistake.COUNT_COLUMN, column=int(foreign[0]))
    return None


def of_score(value: float) -> Suspicion:
    """Recognise whether a score outside [0, 1] is a rounding error, or may be a logit."""
    return Suspicion(Mistake.ROUNDING if -1e-3 <= value <= 1 + 1e-3 else Mistake.LOGITS)


def of_large(head: NDArray[np.float64], *, classes: bool) -> Suspicion | None:
    """Recognise per cents, which are 2 to 100, with rows of classes that sum to 100, and ranks, whole numbers to 10."""
    if not (np.isfinite(head).all() and head.min() >= 0 and 1 < head.max() <= 100):
        return None
    if not classes and head.max() <= RANKS and np.array_equal(head, np.floor(head)):
        return Suspicion(Mistake.RANKS)
    is_percent = head.max() > 2 and (not classes or bool(np.allclose(head.sum(axis=1), 100, atol=1)))
    return Suspicion(Mistake.PERCENT) if is_percent else None
