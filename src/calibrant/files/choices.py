"""The rows of evaluation logs: questions with choices, their log-probabilities, and which choice is right."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from calibrant.errors import FileError, quoted
from calibrant.files.paths import LONGEST_OBJECT, bounded_lines, open_text, reading
from calibrant.inputs.memory import max_memory

#: The columns of lists, a probability for each choice, and how they follow from the log-likelihoods.
NORMALISATIONS: Final = {
    "probs": "softmax of the choices' log-likelihoods (as acc)",
    "acc_norm_probs": "softmax of the choices' log-likelihoods per character (as acc_norm)",
    "acc_bytes_probs": "softmax of the choices' log-likelihoods per byte (as acc_bytes)",
}
#: What to do where the right choice is not known, or is not one.
_JUDGE_THE_ANSWER: Final = "judge the chosen answer alone: --score chosen_probability --outcome correct"

_LONGEST_TEXT: Final = 1_000  # characters of a text that may name a group
#: The column of the question that a row answers.
QUESTION: Final = "question"
_IDS: Final = ("question_id", "doc_id", "id", "question")


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How a log was made. A text is empty where the log does not say it."""

    harness: str
    version: str = ""
    task: str = ""
    details: tuple[str, ...] = ()
    model: str = ""


@dataclass(frozen=True)
class Row:
    """The cells of a row by column, and of the missing ones why they are missing and what to do."""

    cells: dict[str, Any]
    missing: dict[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Choices:
    """A question with choices: log-likelihoods, the places of the right ones, and the texts where they are known.

    ``right`` is empty where the log does not say which choice is right; ``why`` then says more.
    """

    likelihoods: Sequence[float]
    right: tuple[int, ...]
    texts: Sequence[str] = ()
    why: str = ""

    def row(self, cells: dict[str, Any], correct: float | None = None) -> Row:
        """Return the row: ``correct`` is what the log itself says about the chosen answer."""
        missing: dict[str, tuple[str, str]] = {}
        probs = softmax(self.likelihoods)
        chosen = int(np.argmax(self.likelihoods))
        if correct is None and self.right:
            correct = float(chosen in self.right)
        cells |= {"chosen": chosen, "chosen_probability": probs[chosen], "probs": probs}
        if correct is not None:
            cells["correct"] = int(correct)
        else:
            missing["correct"] = (self.why, "name the column of the outcomes: --outcome COLUMN")
        if len(self.right) == 1:
            cells["target"] = self.right[0]
        else:
            problem = "several choices are right" if self.right else self.why
            missing["target"] = (problem, _JUDGE_THE_ANSWER)
        for column, measure in (("acc_norm_probs", _characters), ("acc_bytes_probs", _bytes)):
            lengths = [measure(text) for text in self.texts]
            if lengths and all(lengths):
                per_length = [value / length for value, length in zip(self.likelihoods, lengths, strict=True)]
                cells[column] = softmax(per_length)
            else:
                problem = "a choice is empty" if lengths else "the log does not hold the texts of the choices"
                missing[column] = (problem, "judge the log-likelihoods without lengths: leave --probs out")
        return Row(cells, missing)


def _characters(text: str) -> int:
    return len(text)


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def softmax(values: Sequence[float]) -> list[float]:
    """Return the probabilities that are proportional to the exponentials of values, in 64 bits."""
    numbers = np.asarray(values, np.float64)
    powers = np.exp(numbers - numbers.max())
    probs: list[float] = (powers / powers.sum()).tolist()
    return probs


def scalars(values: Any, taken: Sequence[str] = ()) -> dict[str, Any]:
    """Return what may name a group among the values of an object: numbers, truth values and short texts.

    DuckDB does not distinguish names by their case: of such names the first one is kept.
    """
    kept: dict[str, Any] = {}
    seen = {name.lower() for name in taken}
    for name, value in values.items() if isinstance(values, Mapping) else ():
        short = isinstance(value, (bool, int, float)) or (isinstance(value, str) and len(value) <= _LONGEST_TEXT)
        if short and name and name.lower() not in seen:
            seen.add(name.lower())
            kept[name] = value
    return kept


# ---------------------------------------------------------------- files of objects


def parse(text: str | bytes) -> Any:
    """Return the value of a JSON text; NaN and infinities, which are no JSON, are missing values."""
    return json.loads(text, parse_constant=lambda _: None)


def first_object(path: str) -> dict[str, Any]:
    """Return the first object of JSON lines or of an array; an empty object for other files."""
    try:
        with open_text(path) as stream:
            head = next((line for line in bounded_lines(stream) if line.strip()), "")
            if head.lstrip().startswith("["):
                head += stream.read(LONGEST_OBJECT)
        head = head.lstrip().removeprefix("[").lstrip()
        value = json.JSONDecoder(parse_constant=lambda _: None).raw_decode(head)[0] if head.startswith("{") else None
    except (OSError, EOFError, zlib.error, ValueError, RecursionError):  # its reader says what is wrong
        return {}
    return value if isinstance(value, dict) else {}


def objects(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of JSON lines or of an array, each with its place in words.

    Raises
    ------
    FileError
        For what is not JSON, and an array that does not fit into memory.
    """
    with reading(path, "save it as UTF-8", "is not UTF-8 text"), open_text(path) as stream:
        lines = enumerate(bounded_lines(stream), 1)
        for number, line in lines:
            if not line.strip():
                continue
            if len(line) == LONGEST_OBJECT:
                raise FileError(path, f"line {number:,} has more than 16 MB", "leave out the long key")
            if line.lstrip().startswith("["):
                yield from _array(path, line + stream.read(max_memory() // 4))
                return
            with reading(path, "write one whole object a line", f"line {number:,} is not valid JSON"):
                value = parse(line)
            yield _object(path, f"line {number:,}", value)


def _array(path: str, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if len(text) >= max_memory() // 4:
        raise FileError(path, "is an array that does not fit into memory", "write one object a line, as .jsonl")
    try:
        values = parse(text)
    except (json.JSONDecodeError, RecursionError):
        problem = "is not a valid array of objects"
        raise FileError(path, problem, "write it again, with one object for each row") from None
    for number, value in enumerate(values, 1):
        yield _object(path, f"object {number:,}", value)


def _object(path: str, where: str, value: Any) -> tuple[str, dict[str, Any]]:
    if not isinstance(value, dict):
        raise FileError(path, f"{where} holds no object", "write one object for each question")
    return where, value


# ---------------------------------------------------------------- plain JSON lines of choices


def is_choices(first: Mapping[str, Any]) -> bool:
    """Whether an object holds choices, a log-probability of each, and which one is right."""
    choices, values = first.get("choices"), first.get("logprobs")
    return isinstance(choices, list) and isinstance(values, list) and "target" in first


def choices_protocol(path: str) -> Protocol:  # noqa: ARG001
    """Return that the questions come without a harness."""
    return Protocol(harness="choices with log-probabilities")


def choices_rows(path: str) -> Iterator[Row]:
    """Yield the rows of JSON lines with ``choices``, ``logprobs`` and ``target``; other keys are columns too.

    Raises
    ------
    FileError
        For a row without them, a log-probability that is no number, and a target that is no choice.
    """
    expected = 'write {"question_id": ..., "choices": [texts], "logprobs": [numbers], "target": index or text}'
    for where, value in objects(path):
        texts, values = value.pop("choices", None), value.pop("logprobs", None)
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts) or len(texts) < 2:
            raise FileError(path, f"{where}: 'choices' is no list of two texts or more", expected)
        likelihoods = finite(values)
        if likelihoods is None or len(likelihoods) != len(texts):
            raise FileError(path, f"{where}: 'logprobs' is no list of {len(texts)} numbers", expected)
        target = value.pop("target", None)
        right = target if isinstance(target, int) and not isinstance(target, bool) else None
        if isinstance(target, str) and texts.count(target) == 1:
            right = texts.index(target)
        if right is None or not 0 <= right < len(texts):
            shown = quoted(target) if isinstance(target, str) else repr(target)
            raise FileError(path, f"{where}: 'target' is {shown}, not one of the {len(texts)} choices", expected)
        question = next((value[name] for name in _IDS if isinstance(value.get(name), (int, str))), None)
        cells = {name: cell for name, cell in value.items() if name not in ("chosen", "correct", *NORMALISATIONS)}
        row = Choices(likelihoods, (right,), texts).row(cells)
        if question is None:
            row.missing[QUESTION] = ("the question has no id", "write its id as question_id")
        else:
            cells[QUESTION] = str(question)
        yield row


def finite(values: Any) -> list[float] | None:
    """Return log-likelihoods as numbers, also from texts: ``-inf`` is one if another is finite; otherwise None."""
    if not isinstance(values, list) or not values or not all(type(value) in (int, float, str) for value in values):
        return None
    try:
        numbers = [float(value) for value in values]
    except (ValueError, OverflowError):
        return None
    if any(math.isnan(number) or number == math.inf for number in numbers) or max(numbers) == -math.inf:
        return None
    return numbers
