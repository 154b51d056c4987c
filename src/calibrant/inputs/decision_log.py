"""Logs of decision models as values: questions, the probabilities of their answers, and which answer was right."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Set
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError, nearest
from calibrant.kernels.compensated import total_of
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.dataclass import dataclass

#: What a question asks for: whether something is so, one of several options, or one of several ordered levels.
Kind = Literal["predicate", "choice", "score"]

_SHOWN: Final = 4  # questions of a log that its repr names


@dataclass(frozen=True, eq=False, kw_only=True)
class Question:
    """The answers to one question, in the rows with an answer and a label.

    Attributes
    ----------
    name : str
        The question.
    kind : {"predicate", "choice", "score"}
        What it asks for.
    probs : array, (N,) or (N, C)
        The probability of yes of a predicate; else those of the options, or of the levels from the lowest to the
        highest.
    targets : array, (N,)
        The label: 1 for yes and 0 for no; else the number of the right option or level.
    classes : tuple of str or bool
        The options or levels, in the order of the columns; empty for a predicate, and if the options differ between
        rows. Then the columns are the places of the options in each row, and a row with fewer has the probability 0.
    rows : array, (N,)
        The number of each row in the log, from 0.
    confidence : array, (N,), or None
        What the answers state as their confidence; NaN where an answer states none. None if no answer states one.
    refusals : int
        The number of rows in which the model refused to answer.
    unanswered : int
        The number of rows with a label and without an answer or a refusal.
    unlabelled : int
        The number of rows with an answer and without a label.
    """

    name: str
    kind: Kind
    probs: Float64s
    targets: NDArray[np.int64]
    classes: tuple[str | bool, ...]
    rows: NDArray[np.int64]
    confidence: Float64s | None = None
    refusals: int = 0
    unanswered: int = 0
    unlabelled: int = 0

    @property
    def n(self) -> int:
        """The number of rows with an answer and a label."""
        return len(self.targets)

    @property
    def fixed(self) -> bool:
        """Whether all answers have the same options."""
        return self.kind == "predicate" or bool(self.classes)

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """The options as texts; None without fixed options. A truth value next to its text is said to be one."""
        texts = {option for option in self.classes if isinstance(option, str)}
        names = [option if isinstance(option, str) else _name_of(option, texts) for option in self.classes]
        return tuple(names) or None

    @property
    def mean_confidence(self) -> float:
        """The mean probability of the likeliest answer; NaN without rows."""
        return total_of(self._largest) / self.n if self.n else math.nan

    @property
    def _largest(self) -> Float64s:
        return self.probs.max(axis=1) if self.probs.ndim == 2 else np.maximum(self.probs, 1 - self.probs)

    @property
    def differing(self) -> int:
        """The number of answers whose stated confidence differs from their largest probability by more than 0.001."""
        if self.confidence is None or not self.n:
            return 0
        return int(np.count_nonzero(np.abs(self.confidence - self._largest) > 1e-3))

    def __repr__(self) -> str:
        options = f", {self.probs.shape[1]} options" if self.probs.ndim == 2 else ""
        return f"<Question {self.name!r}: {self.kind}{options}, {self.n:,} rows>"


def _name_of(option: bool, texts: Set[str]) -> str:
    name = str(option).lower()
    return f"{name} (truth value)" if name in texts else name


@dataclass(frozen=True, eq=False, kw_only=True)
class DecisionLog(Mapping[str, Question]):
    """A log of a decision model: a mapping from the name of a question to its `Question`.

    Attributes
    ----------
    questions : mapping
        The questions with a labelled answer, in the order in which the log names them.
    n : int
        The number of rows, each of one input.
    ids : tuple of str
        The id of each row; empty if the rows have none.
    models : tuple of str
        The models that the rows name.
    refusals : mapping
        How often the model refused to answer each question that it refused.
    unlabelled : mapping
        The questions that have answers and no label in any row, with the number of their answers.
    unanswered : mapping
        The questions that have labels and no answer in any row, with the number of their labels.
    unmatched : int
        The number of ids with labels that no row has.
    """

    questions: Mapping[str, Question]
    n: int
    ids: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    refusals: Mapping[str, int]
    unlabelled: Mapping[str, int]
    unanswered: Mapping[str, int]
    unmatched: int = 0

    def __getitem__(self, name: str) -> Question:
        if name not in self.questions:
            msg = f"no question {name!r}; {nearest(str(name), self.questions)}"
            raise KeyError(msg)
        return self.questions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.questions)

    def __len__(self) -> int:
        return len(self.questions)

    def __repr__(self) -> str:
        names = ", ".join(list(self.questions)[:_SHOWN]) + ", ..." * (len(self) > _SHOWN)
        return f"<DecisionLog: {self.n:,} rows, {len(self):,} questions: {names}>"


def check_alone(**others: Any) -> None:
    """Reject other data next to a `DecisionLog`.

    Raises
    ------
    InputError
        For the first argument with a value.
    """
    for name, value in others.items():
        if value is not None:
            raise InputError(name, "no other data with a DecisionLog", "a value", "leave it out: the log has all")
