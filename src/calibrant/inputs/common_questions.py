"""The decision logs of several models side by side: the questions, inputs and options that all of them have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError, quoted
from calibrant.inputs.decision_log import DecisionLog, Kind, Question
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.dataclass import dataclass

#: Why only the likeliest answer is compared.
OPEN: Final = "the options differ between rows"
STATED: Final = "its confidence is stated"

_MOST_LONE: Final = 0.5  # of the rows of a log
_NAMED: Final = 3  # questions that an error names


class NamedLog(NamedTuple):
    """The log of one model, and what it is called in an error."""

    name: str
    argument: str
    log: DecisionLog


@dataclass(frozen=True, eq=False, kw_only=True)
class CommonQuestion:
    """One question in the N rows in which all logs have an answer and a label.

    Attributes
    ----------
    kind : {"predicate", "choice", "score"}
        What it asks for.
    likeliest : str
        Why only the likeliest answer of each model is compared: the options differ between rows, or its confidence is
        stated. Empty if all probabilities are compared.
    probs : mapping
        The probabilities of each model, (N,) or (N, C). If only the likeliest answers are compared, their
        probabilities, (N,). An option that a model does not have has the probability 0.
    targets : mapping
        The labels of each model, (N,), which are the same for all models. If only the likeliest answers are compared,
        whether each was right.
    class_names : tuple of str or None
        The options; None without columns.
    inputs : array, (N,)
        The index of each row's input among the inputs that all logs have.
    left_out : mapping
        How many labelled answers of each model are not compared, because another log lacks one.
    refusals : mapping
        How often each model refused to answer.
    lone_options : mapping
        The options of each model that not all models have.
    """

    kind: Kind
    likeliest: str
    probs: Mapping[str, Float64s]
    targets: Mapping[str, NDArray[np.int64]]
    class_names: tuple[str, ...] | None
    inputs: NDArray[np.int64]
    left_out: Mapping[str, int]
    refusals: Mapping[str, int]
    lone_options: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, eq=False, kw_only=True)
class CommonQuestions:
    """The questions of several logs.

    Attributes
    ----------
    questions : mapping
        The `CommonQuestion` of each question, in the order of the first log.
    n : int
        The number of inputs that all logs have.
    by_id : bool
        Whether rows were matched by their ids, or by their positions.
    lone_rows : mapping
        How many rows of each log have ids that not all logs have.
    lone_questions : mapping
        For each question that is not compared, the models with labelled answers to it. If all models are listed, their
        answers have no row in common.
    """

    questions: Mapping[str, CommonQuestion]
    n: int
    by_id: bool
    lone_rows: Mapping[str, int]
    lone_questions: Mapping[str, tuple[str, ...]]


def common_questions(logs: Sequence[NamedLog]) -> CommonQuestions:
    """Return the questions of several logs in the rows that all of them have.

    Raises
    ------
    calibrant.errors.InputError
        If only some logs have ids; if logs without ids differ in their number of rows; if more than half of the rows of
        a log have an id that not all logs have; for a question of two kinds, two labels of a row, and logs without a
        common question.
    """
    n, places = _places(logs)
    every = dict.fromkeys(question for each in logs for question in each.log)
    with_answers = {name: tuple(each.name for each in logs if name in each.log) for name in every}
    shared = [name for name, models in with_answers.items() if len(models) == len(logs)]
    questions = {name: _common(name, logs, places) for name in shared}
    questions = {name: question for name, question in questions.items() if len(question.inputs)}
    if not questions:
        listed = "; ".join(f"{', '.join(map(quoted, list(each.log)[:_NAMED]))} in {each.name}" for each in logs)
        remedy = "compare logs of the same questions and inputs"
        raise InputError(logs[-1].argument, "a question that all logs answer in the same rows", listed, remedy)
    return CommonQuestions(
        questions=questions,
        n=n,
        by_id=bool(logs[0].log.ids),
        lone_rows={each.name: each.log.n - n for each in logs},
        lone_questions={name: models for name, models in with_answers.items() if name not in questions},
    )


# ---------------------------------------------------------------- rows


def _places(logs: Sequence[NamedLog]) -> tuple[int, list[NDArray[np.int64]]]:
    """Return the number of common inputs, and for each row of each log the number of its input; -1 for a lone row."""
    first = logs[0]
    _check_ids(logs)
    if not first.log.ids:
        return first.log.n, [np.arange(first.log.n) for _ in logs]
    common = reduce(set.intersection, (set(each.log.ids) for each in logs))
    numbers = {name: i for i, name in enumerate(name for name in first.log.ids if name in common)}
    for each in logs:
        lone = each.log.n - len(numbers)
        if lone > _MOST_LONE * each.log.n:
            expected = "in at least half of the rows, an id that occurs in all logs"
            got = f"no such id in {lone:,} of {each.log.n:,} rows"
            raise InputError(each.argument, expected, got, "compare logs of the same inputs, with the same ids")
    return len(numbers), [np.array([numbers.get(name, -1) for name in each.log.ids]) for each in logs]


def _check_ids(logs: Sequence[NamedLog]) -> None:
    """Reject logs if only some have ids, and logs without ids that differ in their number of rows."""
    first = logs[0]
    for each in logs:
        if bool(each.log.ids) != bool(first.log.ids):
            words = ["rows with ids" if log.ids else "rows without ids" for log in (first.log, each.log)]
            remedy = "write an id into each row of all logs"
            raise InputError(each.argument, f"{words[0]}, as in {first.name}", words[1], remedy)
        if not each.log.ids and each.log.n != first.log.n:
            expected = f"{first.log.n:,} rows, as many as {first.name}, because the rows have no ids"
            raise InputError(each.argument, expected, f"{each.log.n:,}", "write an id into each row of all logs")


def _common(name: str, logs: Sequence[NamedLog], places: Sequence[NDArray[np.int64]]) -> CommonQuestion:
    """Return a question in the rows that all logs answered, in the order of the first."""
    asked = [each.log[name] for each in logs]
    _check_kinds(name, logs, asked)
    inputs = [place[question.rows] for place, question in zip(places, asked, strict=True)]
    common = reduce(lambda one, other: one[np.isin(one, other)], inputs)
    common = common[common >= 0]
    taken = [_taken(question, each, common) for question, each in zip(asked, inputs, strict=True)]
    likeliest = next(filter(None, map(_only_likeliest, asked)), "")
    lone: dict[str, tuple[str, ...]] = {}
    if likeliest:
        taken = [replace(each, probs=each.largest, targets=each.right.astype(np.int64), classes=()) for each in taken]
    else:
        options = tuple(dict.fromkeys(option for question in asked for option in question.classes))
        taken = [_with_options(question, options) for question in taken]
        _check_labels(name, logs, taken)
        lone = _lone_options(logs, asked, dict(zip(options, taken[0].class_names or (), strict=True)))
    models = [each.name for each in logs]
    return CommonQuestion(
        kind=asked[0].kind,
        likeliest=likeliest,
        probs={model: question.probs for model, question in zip(models, taken, strict=True)},
        targets={model: question.targets for model, question in zip(models, taken, strict=True)},
        class_names=taken[0].class_names,
        inputs=common,
        left_out={model: question.n - len(common) for model, question in zip(models, asked, strict=True)},
        refusals={model: question.refusals for model, question in zip(models, asked, strict=True)},
        lone_options=lone,
    )


def _check_kinds(name: str, logs: Sequence[NamedLog], asked: Sequence[Question]) -> None:
    """Reject a question that is of another kind in another log."""
    for each, question in zip(logs, asked, strict=True):
        if question.kind != asked[0].kind:
            expected = f"{quoted(name)} to be a {asked[0].kind}, as in {logs[0].name}"
            remedy = "give questions of different kinds different names"
            raise InputError(each.argument, expected, f"a {question.kind}", remedy)


def _lone_options(
    logs: Sequence[NamedLog], asked: Sequence[Question], called: Mapping[str | bool, str]
) -> dict[str, tuple[str, ...]]:
    """Return the names of the options that not all logs have, by log."""
    shared = set(asked[0].classes).intersection(*(question.classes for question in asked[1:]))
    return {
        each.name: tuple(called[option] for option in question.classes if option not in shared)
        for each, question in zip(logs, asked, strict=True)
        if set(question.classes) - shared
    }


def _only_likeliest(question: Question) -> str:
    """Return why only the likeliest answer to a question is known or can be compared; empty if all are."""
    if question.kind == "predicate" or question.classes:
        return ""
    return STATED if question.probs.ndim == 1 else OPEN


def _taken(question: Question, inputs: NDArray[np.int64], common: NDArray[np.int64]) -> Question:
    """Return a question in the rows of these inputs, in their order."""
    order = np.argsort(inputs, kind="stable")
    at = order[np.searchsorted(inputs, common, sorter=order)]
    return replace(
        question, probs=question.probs[at], targets=question.targets[at], rows=question.rows[at], confidence=None
    )


def _with_options(question: Question, options: tuple[str | bool, ...]) -> Question:
    """Return a question with these options as its columns; those that it does not have get the probability 0."""
    if question.classes == options:
        return question
    columns = np.array([options.index(option) for option in question.classes])
    probs = np.zeros((question.n, len(options)))
    probs[:, columns] = question.probs
    return replace(question, probs=probs, targets=columns[question.targets], classes=options)


def _check_labels(name: str, logs: Sequence[NamedLog], questions: Sequence[Question]) -> None:
    """Reject logs with two labels of the same row."""
    first = questions[0]
    for each, question in zip(logs, questions, strict=True):
        if np.array_equal(question.targets, first.targets):
            continue
        row = int(np.argmax(question.targets != first.targets))
        number = int(first.rows[row])
        which = f"the id {quoted(logs[0].log.ids[number])}" if logs[0].log.ids else f"the number {number + 1:,}"
        labels = [_label(asked, int(asked.targets[row])) for asked in (first, question)]
        expected = f"the label {labels[0]} for {quoted(name)} in the row with {which}, as in {logs[0].name}"
        raise InputError(each.argument, expected, labels[1], "write the same labels into all logs")


def _label(question: Question, target: int) -> str:
    names = question.class_names
    return ("yes" if target else "no") if names is None else quoted(names[target])
