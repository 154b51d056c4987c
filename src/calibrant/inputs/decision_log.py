"""Logs of decision models as values: questions, the probabilities of their answers, and which answer was right."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import field, replace
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError, nearest, quoted
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
        highest. In a log of stated confidences, the confidence of a choice or a score, (N,).
    targets : array, (N,)
        The label: 1 for yes and 0 for no; else the index of the right option or level. With a stated confidence, 1 if
        the likeliest answer is right.
    classes : tuple of str or bool
        The options or levels, in the order of the columns; empty for a predicate, and if the options differ between
        rows. Then the columns are the places of the options in each row, and a row with fewer has the probability 0.
    rows : array, (N,)
        The index of each row in the log, from 0.
    confidence : array, (N,), or None
        What the answers state as their confidence; NaN where an answer states none. None if no answer states one.
    refused : array
        The indices of the rows in which the model refused to answer.
    without_label : array
        The indices of the rows with an answer and without a label.
    unanswered : int
        The number of rows with a label and without an answer or a refusal.
    """

    name: str
    kind: Kind
    probs: Float64s
    targets: NDArray[np.int64]
    classes: tuple[str | bool, ...]
    rows: NDArray[np.int64]
    confidence: Float64s | None = None
    refused: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    without_label: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    unanswered: int = 0

    @property
    def n(self) -> int:
        """The number of rows with an answer and a label."""
        return len(self.targets)

    @property
    def refusals(self) -> int:
        """The number of rows in which the model refused to answer."""
        return len(self.refused)

    @property
    def unlabelled(self) -> int:
        """The number of rows with an answer and without a label."""
        return len(self.without_label)

    @property
    def referred(self) -> float:
        """The refusals that belong to the rows with a label: as many of their cases as of all answers and refusals."""
        return self.refusals * self.n / max(self.n + self.unlabelled, 1)

    @property
    def fixed(self) -> bool:
        """Whether all answers have the same options."""
        return self.probs.ndim == 1 or bool(self.classes)

    @property
    def ordered(self) -> bool:
        """Whether the columns are the same ordered levels in all rows."""
        return self.kind == "score" and bool(self.classes)

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """The options as texts; None without fixed options.

        If both the boolean True and the text "true" are options, the boolean is named "true (truth value)".
        """
        texts = {option for option in self.classes if isinstance(option, str)}
        names = [option if isinstance(option, str) else _name_of(option, texts) for option in self.classes]
        return tuple(names) or None

    @property
    def mean_confidence(self) -> float:
        """The mean probability of the likeliest answer; NaN without rows."""
        return total_of(self.largest) / self.n if self.n else math.nan

    @property
    def largest(self) -> Float64s:
        """The probability of the likeliest answer, (N,)."""
        if self.probs.ndim == 2:
            return np.asarray(self.probs.max(axis=1))
        return np.maximum(self.probs, 1 - self.probs) if self.kind == "predicate" else self.probs

    @property
    def right(self) -> NDArray[np.bool_]:
        """Whether the likeliest answer was right, (N,): the first of equal ones, and yes from a probability of 0.5."""
        if self.probs.ndim == 2:
            return np.asarray(self.probs.argmax(axis=1) == self.targets)
        return np.asarray(((self.probs >= 0.5) | (self.kind != "predicate")) == self.targets)

    @property
    def differing(self) -> int:
        """The number of answers whose stated confidence differs from their largest probability by more than 0.001."""
        if self.confidence is None or not self.n:
            return 0
        return int(np.count_nonzero(np.abs(self.confidence - self.largest) > 1e-3))

    def among(self, rows: NDArray[np.bool_]) -> Question:
        """Return the same of some rows of the log, (n,)."""
        held = rows[self.rows]
        return replace(
            self,
            probs=self.probs[held],
            targets=self.targets[held],
            rows=self.rows[held],
            confidence=None if self.confidence is None else self.confidence[held],
            refused=self.refused[rows[self.refused]],
            without_label=self.without_label[rows[self.without_label]],
        )

    def __repr__(self) -> str:
        options = f", {self.probs.shape[1]} options" if self.probs.ndim == 2 else ""
        return f"<Question {self.name!r}: {self.kind}{options}, {self.n:,} rows>"


def _name_of(option: bool, texts: Set[str]) -> str:
    name = str(option).lower()
    return f"{name} (truth value)" if name in texts else name


class Together(NamedTuple):
    """The answers to several questions as one decision about each input.

    ``least`` is the smallest confidence of the answers to an input, and ``right`` says whether all of them are right,
    (M,) each. They are about the inputs with a labelled answer to every question. ``refused`` is the number of inputs
    with a refusal for at least one question, and such an answer to the others.
    """

    least: Float64s
    right: NDArray[np.bool_]
    refused: int


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
        The id of each row; empty unless every row has one.
    groups : tuple of str
        The group of each row; empty without ``by``.
    models : tuple of str
        The models that the rows name.
    refusals : mapping
        How often the model refused to answer each question that it refused.
    unlabelled : mapping
        The questions that have answers and no label in any row, with the number of their answers.
    unanswered : mapping
        The questions that have labels and no answer in any row, with the number of their labels.
    unmatched : int
        The number of ids that have labels but no row in the log.
    """

    questions: Mapping[str, Question]
    n: int
    ids: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
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

    def stated(self) -> DecisionLog:
        """Return the log with the confidences that choices and scores state, in place of their probabilities.

        A choice or a score is then the event that its likeliest answer is right.

        Raises
        ------
        calibrant.errors.InputError
            If no answer states a confidence, if only some answers to a question do, and for one outside [0, 1].
        """
        stated = {
            name: (each, each.confidence)
            for name, each in self.items()
            if each.kind != "predicate" and each.confidence is not None
        }
        if not stated:
            remedy = "evaluate the probabilities instead"
            expected = "a stated confidence in at least one answer to a choice or score question"
            raise InputError("log", expected, "none", remedy)
        events = {}
        for name, (question, confidence) in stated.items():
            wrong = ~((confidence >= 0) & (confidence <= 1))  # NaN too
            if wrong.any():
                place = int(np.argmax(wrong))
                value, row = confidence[place], int(question.rows[place])
                got = f"{'none' if math.isnan(value) else f'{value:g}'} in row {row + 1:,}"
                expected = f"a confidence between 0 and 1 in every answer to {quoted(name)}"
                raise InputError("log", expected, got, "evaluate the probabilities instead", row=row)
            right = question.right.astype(np.int64)
            events[name] = replace(question, probs=confidence, targets=right, classes=(), confidence=None)
        return replace(self, questions={name: events.get(name, question) for name, question in self.items()})

    def only(self, names: Sequence[str]) -> DecisionLog:
        """Return the log of these questions alone."""
        return replace(self, questions={name: self[name] for name in names})

    def together(self, names: Sequence[str]) -> Together:
        """Return the answers to these questions as one decision about each input."""
        answered, asked = np.ones(self.n, bool), np.ones(self.n, bool)
        least, right = np.ones(self.n), np.ones(self.n, bool)
        for name in names:
            known, refused = np.zeros(self.n, bool), np.zeros(self.n, bool)
            if (question := self.questions.get(name)) is not None:
                known[question.rows], refused[question.refused] = True, True
                least[question.rows] = np.minimum(least[question.rows], question.largest)
                right[question.rows] &= question.right
            answered, asked = answered & known, asked & (known | refused)
        return Together(least[answered], right[answered], int(np.count_nonzero(asked & ~answered)))

    def of_group(self, group: str) -> DecisionLog:
        """Return the questions with rows of a group."""
        held = np.array(self.groups) == group
        questions = {name: part for name, question in self.items() if (part := question.among(held)).n}
        return replace(self, questions=questions, groups=())

    def __repr__(self) -> str:
        names = ", ".join(quoted(name)[1:-1] for name in [*self.questions][:_SHOWN]) + ", ..." * (len(self) > _SHOWN)
        return f"<DecisionLog: {self.n:,} rows, {len(self):,} questions: {names}>"


def check_no_other(**others: Any) -> None:
    """Reject other data next to a `DecisionLog`.

    Raises
    ------
    InputError
        For the first argument with a value.
    """
    for name, value in others.items():
        if value is not None:
            raise InputError(
                name,
                "no other data together with a DecisionLog",
                "a value",
                "leave it out, because the log contains all data",
            )
