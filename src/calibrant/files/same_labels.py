"""Columns whose labels are alike though their spelling differs, and tables with a row for each class."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from calibrant.files.column_kinds import ROUNDING, Candidates
from calibrant.files.column_values import is_missing_cell
from calibrant.files.sql import literal, sql_name

_SURE: Final = 5  # blocks of rows that show that a table has a row for each class


def label_of(seen: Candidates, guess: str, truth: str) -> dict[str, str]:
    """Return how a column spells the labels of another one: equal, in another case, or after a common beginning."""
    truths, guesses = seen.labels(truth), seen.labels(guess)
    equal = {label: label for label in truths if label in guesses}
    folded = {label.casefold(): label for label in guesses}
    in_case = {label: folded[label.casefold()] for label in truths if label.casefold() in folded}
    start = _beginning(guesses)
    after = {label: start + label for label in truths if start + label in guesses} if start else {}
    return equal or in_case or after


def equality(seen: Candidates, guess: str, truth: str) -> str:
    """Return the SQL that two columns hold the same label, whatever the case and the spaces around it."""
    one, other = sql_name(guess), sql_name(truth)
    spelled = label_of(seen, guess, truth)
    if any(label.casefold() != same.casefold() for label, same in spelled.items()):
        return f"{one} = concat({literal(_beginning(seen.labels(guess)))}, {other})"
    are_equal = all(label == same for label, same in spelled.items())
    cells = [cell for name in (guess, truth) for cell in seen.cells[name] if isinstance(cell, str)]
    if are_equal and all(cell == cell.strip() or is_missing_cell(cell) for cell in cells):
        return f"{one} = {other}"
    return f"lower(trim({one})) = lower(trim({other}))"


def classes_in_rows(seen: Candidates, score: str) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return the columns of classes and of true classes of a table with a row for each class, and what names a case.

    The rows of a case follow each other: their classes are all different, their scores add up to 1, and the true class
    is the same.
    """
    found = []
    names = [name for name in (*seen.classes, *seen.outcomes) if name != score]
    for name in names:
        width = len(seen.labels(name))
        blocks = len(seen.numbers(score)) // max(width, 1)
        if width < 2 or blocks < _SURE:
            continue
        sums = seen.numbers(score)[: blocks * width].reshape(blocks, width).sum(axis=1)
        classes = _blocks(seen, name, blocks, width)
        if not np.all(np.abs(sums - 1) <= ROUNDING * width) or any(len(set(row)) < width for row in classes):
            continue
        one_each = [
            other for other in seen.cells if all(len(set(row)) == 1 for row in _blocks(seen, other, blocks, width))
        ]
        truths = [other for other in one_each if len(set(seen.labels(other)) & set(seen.labels(name))) > 1]
        cases = [other for other in one_each if len({row[0] for row in _blocks(seen, other, blocks, width)}) == blocks]
        found += [(name, truth, tuple(cases[:1])) for truth in truths]
    return found


def _blocks(seen: Candidates, name: str, blocks: int, width: int) -> list[tuple[str, ...]]:
    """Return the texts of the cells of a column, some rows at a time."""
    texts = [str(cell) for cell in seen.cells[name]]
    return [tuple(texts[start : start + width]) for start in range(0, blocks * width, width)]


def _beginning(labels: Sequence[str]) -> str:
    """Return what all labels begin with, without the digits at its end; empty for a single label."""
    return re.sub(r"[0-9]+$", "", os.path.commonprefix(labels)) if len(labels) > 1 else ""  # noqa: RUF071
