"""The rows of evaluation logs: questions with choices, their log-probabilities, and which choice is right.

They come as plain JSON lines, as lm-evaluation-harness writes them with ``--log_samples``, and as inspect writes them.
"""

from __future__ import annotations

import json
import math
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

import numpy as np

from calibrant.errors import FileError, quoted, wording
from calibrant.files.local import load, original, reading
from calibrant.files.paths import LONGEST_OBJECT, bounded_lines, open_bytes, open_text
from calibrant.inputs.memory import bytes_in_words, max_memory
from calibrant.runtime.dataclass import dataclass

#: The columns of lists, a probability for each choice, and how they follow from the log-likelihoods.
NORMALISATIONS: Final = {
    "probs": "softmax of the log-likelihoods of the choices (like acc)",
    "acc_norm_probs": "softmax of the log-likelihoods of the choices per character (like acc_norm)",
    "acc_bytes_probs": "softmax of the log-likelihoods of the choices per byte (like acc_bytes)",
}
#: What to do where the right choice is not known, or is not one.
_JUDGE_THE_ANSWER: Final = "evaluate only the chosen answer, with --score chosen_probability --outcome correct"

_NOT_NORMALIZED: Final = "leave --probs out, to evaluate the log-likelihoods without length normalization"
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
class LogRow:
    """The cells of a row by column, and of the missing ones why they are missing and what to do."""

    cells: dict[str, Any]
    missing: dict[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class LogChoices:
    """A question with choices: log-likelihoods, the places of the right ones, and the texts where they are known.

    ``right`` is empty where the log does not say which choice is right; ``why`` then says more.
    """

    likelihoods: Sequence[float]
    right: tuple[int, ...]
    texts: Sequence[str] = ()
    why: str = ""

    def row(self, cells: dict[str, Any], correct: float | None = None) -> LogRow:
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
            missing["correct"] = (self.why, "name the column of outcomes with --outcome COLUMN")
        if len(self.right) == 1:
            cells["target"] = self.right[0]
        else:
            problem = "several choices are marked as right" if self.right else self.why
            missing["target"] = (problem, _JUDGE_THE_ANSWER)
        for column, in_bytes in (("acc_norm_probs", False), ("acc_bytes_probs", True)):
            lengths = [len(text.encode("utf-8", "surrogatepass") if in_bytes else text) for text in self.texts]
            if lengths and all(lengths):
                per_length = [value / length for value, length in zip(self.likelihoods, lengths, strict=True)]
                cells[column] = softmax(per_length)
            else:
                problem = "a choice is empty" if lengths else "the log does not contain the texts of the choices"
                missing[column] = (problem, _NOT_NORMALIZED)
        return LogRow(cells, missing)


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

_DECODER: Final = json.JSONDecoder(parse_constant=lambda _: None)


def parse(text: str | bytes) -> Any:
    """Return the value of a JSON text; NaN and infinities, which are not JSON, are missing values."""
    return _DECODER.decode(text if isinstance(text, str) else text.decode(json.detect_encoding(text), "surrogatepass"))


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
    """Yield the objects of JSON lines or of an array, each with its place in words."""
    with reading(path), open_text(path) as stream:
        yield from objects_in(path, enumerate(bounded_lines(stream), 1), stream)


def objects_in(path: str, lines: Iterable[tuple[int, str]], stream: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects in numbered lines of a stream, or of the array that begins there, as `objects` does."""
    for number, line in lines:
        if not line.strip():
            continue
        if len(line) == LONGEST_OBJECT:
            remedy = "write each object on one line, and leave out keys with long values"
            raise FileError(path, f"line {number:,} has more than 16 MB", remedy)
        if line.lstrip().startswith("["):
            yield from _array(path, line + stream.read(max_memory() // 4))
            return
        try:
            value = parse(line)
        except Exception:
            with reading(path, "write each object on one line", f"line {number:,} is not valid JSON"):
                raise
        yield _object(path, f"line {number:,}", value)


def _array(path: str, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if len(text) >= max_memory() // 4:
        raise FileError(
            path, "contains an array that does not fit into memory", "write each object on one line, in a .jsonl file"
        )
    try:
        values = parse(text)
    except (json.JSONDecodeError, RecursionError):
        problem = "does not contain a valid array of objects"
        raise FileError(path, problem, "write the array again, with one object for each row") from None
    for number, value in enumerate(values, 1):
        yield _object(path, f"object {number:,}", value)


def _object(path: str, where: str, value: Any) -> tuple[str, dict[str, Any]]:
    if not isinstance(value, dict):
        raise FileError(path, f"{where} holds no object", "write one object for each question")
    return where, value


def dotted(row: Mapping[str, Any], start: str = "") -> Iterator[str]:
    """Yield the keys of an object, those of objects inside with dots."""
    for key, value in row.items():
        yield start + key
        if isinstance(value, dict):
            yield from dotted(value, f"{start}{key}.")


# ---------------------------------------------------------------- plain JSON lines of choices


def is_choices(first: Mapping[str, Any]) -> bool:
    """Whether an object holds choices, a log-probability of each, and which one is right."""
    choices, values = first.get("choices"), first.get("logprobs")
    return isinstance(choices, list) and isinstance(values, list) and "target" in first


def choices_rows(path: str) -> Iterator[LogRow]:
    """Yield the rows of JSON lines with ``choices``, ``logprobs`` and ``target``; other keys are columns too."""
    for where, value in objects(path):
        yield _choices_row(path, where, value)


def _choices_row(path: str, where: str, value: dict[str, Any]) -> LogRow:
    expected = 'write {"question_id": ..., "choices": [texts], "logprobs": [numbers], "target": index or text}'
    texts, values, target = (value.pop(key, None) for key in ("choices", "logprobs", "target"))
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts) or len(texts) < 2:
        raise FileError(path, f"{where}: 'choices' is not a list of at least two texts", expected)
    likelihoods = finite(values)
    if likelihoods is None or len(likelihoods) != len(texts):
        raise FileError(path, f"{where}: 'logprobs' is not a list of {len(texts)} numbers", expected)
    if isinstance(target, str):
        right, shown = texts.index(target) if texts.count(target) == 1 else -1, quoted(target)
    else:
        right, shown = target if type(target) is int else -1, repr(target)
    if not 0 <= right < len(texts):
        raise FileError(path, f"{where}: 'target' is {shown}, not one of the {len(texts)} choices", expected)
    question = next((value[name] for name in _IDS if isinstance(value.get(name), (int, str))), None)
    cells = {name: cell for name, cell in value.items() if name not in ("chosen", "correct", *NORMALISATIONS)}
    row = LogChoices(likelihoods, (right,), texts).row(cells)
    if question is None:
        row.missing[QUESTION] = ("the question has no id", "write the id of the question as question_id")
    else:
        cells[QUESTION] = str(question)
    return row


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


# ---------------------------------------------------------------- lm-evaluation-harness

# The format is that of its versions 0.4.0 to 0.4.12. A question with choices holds a pair for each choice: the
# log-likelihood, and whether it is what the model would write. ``acc`` and ``acc_norm`` say whether the most likely
# choice is right.

HARNESS: Final = "lm-evaluation-harness"

_KEYS: Final = frozenset({"doc_id", "doc", "target", "resps", "filtered_resps"})
_FILE_NAME: Final = re.compile(r"samples_(.+)_(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?)\.jsonl?(?:\.gz)?")
_LONGEST_RESULTS: Final = 1 << 26  # bytes of the file with the results
#: Metrics whose value is a pair: the place of the right choice, and something else.
_PAIRS: Final = ("brier_score", "likelihood", "f1", "mcc")
_NOT_CHOICES: Final = "the log has no choices with log-likelihoods"
_STATED: Final = "if the log contains a stated confidence, name its column with --score COLUMN --percent"


def is_harness(first: Mapping[str, Any]) -> bool:
    """Whether an object is one that the harness writes."""
    return first.keys() >= _KEYS


def harness_protocol(path: str) -> Protocol:
    """Return how a log was made: the task from the name of its file, the rest from the results of the same run."""
    task, results = _task(path), _results(path)
    version, shots = (_of_task(results, key, task) for key in ("versions", "n-shot"))
    name = task if version is None else f"{task} (version {version})"
    details = () if shots is None else (f"{shots}-shot",)
    harness_version, model = (results.get(key) for key in ("lm_eval_version", "model_name"))
    return Protocol(
        harness=HARNESS,
        version=harness_version if isinstance(harness_version, str) else "",
        task=name,
        details=details,
        model=model if isinstance(model, str) else "",
    )


def harness_rows(path: str) -> Iterator[LogRow]:
    """Yield the rows of a log."""
    task = _task(path)
    config = _of_task(_results(path), "configs", task)
    delimiter = config.get("target_delimiter") if isinstance(config, Mapping) else None
    for where, sample in objects(path):
        missing = sorted(_KEYS - sample.keys())
        if missing:
            problem = f"{where} lacks {', '.join(map(repr, missing))}, which {HARNESS} writes"
            raise FileError(path, problem, "write the log again with --log_samples")
        cells: dict[str, Any] = {"question": f"{task}/{sample['doc_id']}", "task": task}
        cells |= scalars({name: value for name, value in sample.items() if not name.endswith("_hash")}, list(cells))
        cells.pop("target", None)
        cells["doc"] = scalars(sample["doc"]) or None
        with reading(
            path, "write the log again with --log_samples", f"{where} does not have the structure that {HARNESS} writes"
        ):
            row = _row(path, where, sample, cells, delimiter)
        yield row


def _row(path: str, where: str, sample: Mapping[str, Any], cells: dict[str, Any], delimiter: Any) -> LogRow:
    pairs = sample["filtered_resps"]
    are_pairs = isinstance(pairs, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in pairs)
    if not are_pairs or len(pairs) < 2:
        correct = _truth(sample, "acc", "exact_match")
        missing = dict.fromkeys(("probs", "target", "chosen_probability"), (_NOT_CHOICES, _STATED))
        if correct is None:
            missing["correct"] = (
                "the log has neither acc nor exact_match with values 0 or 1",
                "name the column of outcomes with --outcome COLUMN",
            )
        return LogRow(cells if correct is None else cells | {"correct": int(correct)}, missing)
    if "acc_mutual_info" in (*sample, *(sample.get("metrics") or ())) and len(pairs) % 2 == 0:
        pairs = pairs[: len(pairs) // 2]  # log-likelihoods without the question follow
    likelihoods = finite([pair[0] for pair in pairs])
    if likelihoods is None:
        problem = f"{where} has a log-likelihood that is not a number"
        raise FileError(path, problem, "run the evaluation again, or leave the question out")
    chosen = int(np.argmax(likelihoods))
    texts = _texts(sample, len(pairs), delimiter)
    acc = _truth(sample, "acc")
    right, why = _right(sample, chosen, len(pairs), texts, acc)
    row = LogChoices(likelihoods, right, texts, why).row(cells, acc)
    if right:
        row.missing.update(_contradictions(sample, cells, right, acc))
    return row


def _contradictions(
    sample: Mapping[str, Any], cells: Mapping[str, Any], right: tuple[int, ...], acc: float | None
) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the columns that contradict a metric of the log, each with the reason and what to do."""
    if acc is not None and (cells["chosen"] in right) != bool(acc):
        problem = f"acc is {wording.number(acc)}, but the log-likelihoods and the target contradict this value"
        for column in ("probs", "target", "chosen_probability"):
            yield column, (problem, "name the score with --score and the outcome with --outcome")
    for metric in ("acc_norm", "acc_bytes"):
        value, column = _truth(sample, metric), f"{metric}_probs"
        if value is not None and column in cells and (np.argmax(cells[column]) in right) != bool(value):
            problem = f"{metric} is {wording.number(value)}, but the texts of the choices contradict this value"
            yield column, (problem, _NOT_NORMALIZED)


# ---------------------------------------------------------------- the right choice


def _right(
    sample: Mapping[str, Any], chosen: int, count: int, texts: Sequence[str], acc: float | None
) -> tuple[tuple[int, ...], str]:
    """Return the places of the right choices; where none is certain, why.

    The log writes the target as text, whether it is a place or the choice itself. What does not agree with ``acc`` is
    not the target.
    """
    places = _stated_places(sample)
    if places is not None:
        inside = tuple(place for place in dict.fromkeys(places) if 0 <= place < count)
        return inside, "" if inside else f"the target is not among the {count} choices"
    target = str(sample["target"]).strip()
    candidates = {int(target)} if re.fullmatch(r"\d{1,9}", target) and int(target) < count else set()
    alike = [place for place, text in enumerate(texts) if text.strip() == target]
    candidates |= set(alike) if len(alike) == 1 else set()
    if acc is not None:
        agreeing = {place for place in candidates or range(count) if (place == chosen) == bool(acc)}
        candidates = agreeing or candidates
    if len(candidates) == 1:
        return tuple(candidates), ""
    return (), f"the target {quoted(target[:40])} does not say which of the {count} choices is right"


def _stated_places(sample: Mapping[str, Any]) -> list[int] | None:
    """Return the places of the right choices, of several too, where the log has them as numbers."""
    for pair in map(sample.get, _PAIRS):
        if isinstance(pair, list) and len(pair) == 2:
            places = pair[0] if isinstance(pair[0], list) else [pair[0]]
            if places and all(type(place) is int for place in places):
                return places
    target = str(sample["target"]).strip()
    are_places = re.fullmatch(r"\[\s*\d{1,9}(\s*,\s*\d{1,9})*\s*\]", target)
    return [int(place) for place in re.findall(r"\d+", target)] if are_places else None


def _texts(sample: Mapping[str, Any], count: int, delimiter: Any) -> list[str]:
    """Return the texts of the choices, without what the harness puts before each; none where it logs other texts."""
    arguments = sample.get("arguments")
    requests: Any = list(arguments.values()) if isinstance(arguments, Mapping) else arguments
    if not isinstance(requests, list) or len(requests) < count:
        return []
    logged = [each.get("arg_1") if isinstance(each, Mapping) else each[1] for each in requests[:count]]
    texts = [text for text in logged if isinstance(text, str)]
    if len(texts) < count or len(set(texts)) == 1:
        return []  # such as Winogrande, whose choices are in the question
    delimiter = delimiter if isinstance(delimiter, str) else " "  # the harness's own default
    has_delimiter = all(text.startswith(delimiter) for text in texts)
    return [text.removeprefix(delimiter) for text in texts] if has_delimiter else texts


def _truth(sample: Mapping[str, Any], *metrics: str) -> float | None:
    """Return the first of some metrics that is 0 or 1."""
    values = (sample.get(metric) for metric in metrics)
    return next((float(value) for value in values if isinstance(value, (int, float)) and value in (0, 1)), None)


# ---------------------------------------------------------------- the run


def _task(path: str) -> str:
    """Return the task of a log: the file's name says it."""
    name = os.path.basename(path)
    match = _FILE_NAME.fullmatch(name)
    return match[1] if match else re.sub(r"(\.jsonl?|\.ndjson)?(\.gz)?$", "", name)


def _results(path: str) -> Mapping[str, Any]:
    """Return the results of the same run, which the harness writes to the same folder; an empty mapping without."""
    match = _FILE_NAME.fullmatch(os.path.basename(path))
    if match is None:
        return {}
    file = os.path.join(os.path.dirname(original(path)), f"results_{match[2]}.json")
    try:
        with open(file, "rb") as stream:
            results = parse(stream.read(_LONGEST_RESULTS))
    except (OSError, ValueError, RecursionError):  # it only says more about the log
        return {}
    return results if isinstance(results, dict) else {}


def _of_task(results: Mapping[str, Any], key: str, task: str) -> Any:
    values = results.get(key)
    return values.get(task) if isinstance(values, Mapping) else None


# ---------------------------------------------------------------- inspect

# The format is that of its versions 0.3.x, whose logs have the schema versions 1 and 2: ``.eval``, a zip archive with a
# JSON file for each sample, and the same in one ``.json``. A sample holds the scores of its scorers: a value such as
# ``C`` (correct) or ``I`` (incorrect), an answer, and metadata, where a scorer may put a stated confidence. Where
# tokens have log-probabilities, the probability of the chosen letter follows from them.

INSPECT: Final = "inspect"

_HEADERS: Final = ("header.json", "_journal/start.json")  # the second is that of a log that was not finished
_SAMPLE: Final = re.compile(r"samples/(.+)_epoch_(\d{1,9})\.json", re.DOTALL)
_JSON_HEAD: Final = re.compile(rb'\s*\{\s*"version"\s*:\s*\d+\s*,\s*"status"\s*:\s*"')
_ANSWER: Final = re.compile(r"ANSWER\s*:[\s*]*([A-Z])\b", re.IGNORECASE)
_AGAIN: Final = "write the log again with: inspect log convert"
_LEAVE_OUT: Final = 'leave such samples out with --where "correct IS NOT NULL"'
_CORRECT: Final = {"C": 1, "I": 0, "N": 0}
#: The columns of each row, which the metadata of scores do not replace.
_OWN: Final = ("question", "task", "model", "sample_id", "epoch", "metadata", "scores", "correct", "answer")


def is_inspect(path: str) -> bool:
    """Whether a file is a log, by its ending or the beginning of its JSON."""
    source = original(path)
    if source.lower().endswith(".eval"):
        return True
    if not source.lower().endswith((".json", ".json.gz")):
        return False
    try:
        with open_bytes(path) as stream:
            return _JSON_HEAD.match(stream.read(256)) is not None
    except (OSError, EOFError, zlib.error):
        return False


class InspectLog:
    """A log: its header, and its samples one by one."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._samples: list[Any] | None = None  # in an archive, each is a member
        if original(path).lower().endswith(".eval"):
            with Archive(path) as archive:
                name = next((name for name in _HEADERS if name in archive.members), None)
                if name is None:
                    problem = f"is an archive without {_HEADERS[0]}, but {INSPECT} always writes {_HEADERS[0]}"
                    raise FileError(path, problem, "pass a log of Inspect, or rename the file")
                self.header = self._json(name, archive.read(name))
        else:
            with reading(path), open_bytes(path) as stream:
                data = stream.read(max_memory() // 4 + 1)
            if len(data) > max_memory() // 4:
                problem = f"takes more than {bytes_in_words(max_memory() / 4)}"
                raise FileError(path, problem, "write the log as .eval, or raise CALIBRANT_MAX_MEMORY")
            self.header = self._json("it", data)
            samples = self.header.pop("samples", None)
            if not isinstance(samples, list):
                raise FileError(
                    path, f"is a log of {INSPECT} without samples", "run the evaluation with log_samples=True"
                )
            self._samples = samples
        if not isinstance(self.header.get("eval"), dict):
            problem = "the header of the log has no 'eval'"
            raise self._unknown(problem)

    def protocol(self) -> Protocol:
        """Return how the log was made."""
        made = self.header["eval"]
        task, version, model = (made.get(key) for key in ("task", "task_version", "model"))
        config, packages, scorers = (made.get(key) for key in ("config", "packages", "scorers"))
        epochs = config.get("epochs") if isinstance(config, dict) else None
        details = [f"{epochs} epochs"] if isinstance(epochs, int) and epochs > 1 else []
        names = [each["name"] for each in scorers or () if isinstance(each, dict) and isinstance(each.get("name"), str)]
        details += [f"scored by {', '.join(names)}"] if names else []
        status = self.header.get("status", "unknown")  # an unfinished archive does not say it
        details += [f"unfinished, status {status}"] if status != "success" else []
        return Protocol(
            harness=INSPECT,
            version=str(packages.get("inspect_ai", "")) if isinstance(packages, dict) else "",
            task=f"{task} (version {version})" if version not in (None, 0) else str(task),
            details=tuple(details),
            model=model if isinstance(model, str) else "",
        )

    def rows(self) -> Iterator[LogRow]:
        """Yield a row for each sample and epoch: by epochs, then by the samples' ids."""
        made = self.header["eval"]
        shared = {"task": str(made.get("task")), "model": str(made.get("model"))}
        for where, sample in self._all():
            missing = {"id", "epoch", "scores"} - sample.keys() - ({"scores"} if sample.get("error") else set())
            if missing:
                problem = f"{where} has no {', '.join(map(repr, sorted(missing)))}"
                raise self._unknown(problem)
            with reading(self.path, _AGAIN, f"{where} does not have the structure that {INSPECT} writes"):
                row = _sample_row(sample, shared)
            yield row

    def _all(self) -> Iterator[tuple[str, dict[str, Any]]]:
        if self._samples is None:
            with Archive(self.path) as archive:
                members = [match for match in map(_SAMPLE.fullmatch, archive.members) if match]
                for match in sorted(members, key=lambda match: (int(match[2]), _order(match[1]))):
                    yield match[0], self._json(match[0], archive.read(match[0]))
            return
        for number, sample in enumerate(self._samples, 1):
            if not isinstance(sample, dict):
                problem = f"sample {number:,} is not an object"
                raise self._unknown(problem)
            yield f"sample {number:,}", sample

    def _json(self, name: str, data: bytes) -> dict[str, Any]:
        with reading(self.path, _AGAIN, f"{name} is not valid JSON"):
            value = parse(data)
        if not isinstance(value, dict):
            raise FileError(self.path, f"{name} holds no object", _AGAIN)
        return value

    def _unknown(self, problem: str) -> FileError:
        version = self.header.get("version")
        return FileError(self.path, f"{problem} (log version {version}; calibrant reads versions 1 and 2)", _AGAIN)


def _order(name: str) -> tuple[int, str]:
    """Return what sorts ids as inspect does: numbers by their value."""
    return (int(name), "") if re.fullmatch(r"\d{1,18}", name) else (-1, name.zfill(20))


# ---------------------------------------------------------------- a sample


def _sample_row(sample: Mapping[str, Any], shared: Mapping[str, str]) -> LogRow:
    """Return the row of a sample; with a single scorer, its answer and its metadata are columns."""
    cells: dict[str, Any] = {"question": f"{shared['task']}/{sample['id']}", **shared}
    cells |= {"sample_id": sample["id"], "epoch": sample["epoch"], "metadata": scalars(sample.get("metadata")) or None}
    missing: dict[str, tuple[str, str]] = {}
    scores = sample.get("scores")
    scores = {name: score for name, score in scores.items() if isinstance(score, dict)} if scores else {}
    scored = {name: _score(score) for name, score in scores.items()}
    cells["scores"] = {name: values for name, (values, _) in scored.items()} or None
    if len(scored) == 1:
        ((values, why),) = scored.values()
        cells |= scalars({name: value for name, value in values.items() if name not in _OWN[:-2]})
        if why:
            missing["correct"] = (why, _LEAVE_OUT)
    elif scored:
        example = f"--outcome scores.{next(iter(scored))}.correct"
        missing["correct"] = (
            f"the log has several scorers ({', '.join(scored)})",
            f"name the scorer to evaluate: {example}",
        )
    else:
        why = "the sample ended with an error" if sample.get("error") else "the sample has no score"
        missing["correct"] = (why, _LEAVE_OUT)
    probability = _token_probabilities(sample)
    if isinstance(probability, str):
        missing["chosen_probability"] = (
            probability,
            "name a column of stated confidences with --score COLUMN --percent",
        )
    else:
        cells["chosen_probability"] = probability
    return LogRow(cells, missing)


def _score(score: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return what a scorer said: ``correct``, the answer, its metadata; and why ``correct`` is missing."""
    value = score.get("value")
    values = scalars(score.get("metadata"), _OWN)
    if isinstance(score.get("answer"), str):
        values |= scalars({"answer": score["answer"]})
    if isinstance(value, str) and value in _CORRECT:
        return {"correct": _CORRECT[value], **values}, ""
    if isinstance(value, (bool, int, float)) and value in (0, 1):
        return {"correct": int(value), **values}, ""
    shown = repr(value)[:40]
    return values, f"the score {shown} is neither correct nor incorrect"


def _token_probabilities(sample: Mapping[str, Any]) -> float | str:
    """Return the probability of the chosen letter among the choices' letters, or why it is not known.

    The last ``ANSWER: B`` of the completion is the choice. The candidates for the token of its letter must include the
    letters of all choices: then their probabilities are normalised.
    """
    choices, output = sample.get("choices"), sample.get("output")
    if not isinstance(choices, list) or not 2 <= len(choices) <= 26:
        return "the question has no choices with letters"
    try:
        tokens = output["choices"][0]["logprobs"]["content"]  # type: ignore[index]
        texts = [token["token"] for token in tokens]
        matches = list(_ANSWER.finditer("".join(texts)))
    except (TypeError, KeyError, IndexError):
        return "the answer has no log-probabilities of tokens"
    if not matches:
        return "the answer does not contain 'ANSWER:' with a letter"
    token = int(np.searchsorted(np.cumsum([len(text) for text in texts]), matches[-1].start(1), side="right"))
    letter, letters = matches[-1][1].upper(), [chr(ord("A") + k) for k in range(len(choices))]
    candidates = _candidates(tokens[token])
    of_letters = {name: [value for text, value in candidates.items() if text.strip() == name] for name in letters}
    unknown = [name for name, values in of_letters.items() if not values]
    if letter not in letters or texts[token].strip() != letter or unknown:
        names = ", ".join(unknown) or letter
        return f"the log has no log-probability of the choice {names}; generate answers with top_logprobs=20"
    totals = [float(np.logaddexp.reduce(values)) for values in of_letters.values()]
    return softmax(totals)[letters.index(letter)]


def _candidates(token: Mapping[str, Any]) -> dict[str, float]:
    """Return the finite log-probabilities of a token and of those that might have stood in its place, by their text."""
    candidates: dict[str, float] = {}
    for each in (token, *(token.get("top_logprobs") or ())):
        text, value = (each.get("token"), each.get("logprob")) if isinstance(each, dict) else (None, None)
        if isinstance(text, str) and isinstance(value, (int, float)) and math.isfinite(value):
            candidates.setdefault(text, float(value))
    return candidates


# ---------------------------------------------------------------- members of zip archives

#: Bytes of all members together, in units of the memory that one input may take: they are read one by one.
_IN_ALL: Final = 16
_ZSTD: Final = 93
_STORED_OR_DEFLATED: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_HEADER: Final = 30  # bytes of a local header, before the name
_DAMAGED: Final = "copy the log again, because it is damaged or incomplete"


class Archive:
    """The members of a zip archive by their names; of members of the same name the last one counts."""

    def __init__(self, path: str) -> None:
        self.path = path
        with reading(path, _DAMAGED, "is not a readable ZIP archive"):
            self._archive = zipfile.ZipFile(original(path))
        #: The members by their names.
        self.members = {info.filename: info for info in self._archive.infolist()}
        size = sum(info.file_size for info in self.members.values())
        if size > _IN_ALL * max_memory():
            self._archive.close()
            raise self._too_large("it", size)

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()

    def read(self, name: str) -> bytes:
        """Return the content of a member."""
        info = self.members[name]
        if info.file_size > max_memory() // 4:
            raise self._too_large(name, info.file_size)
        if info.flag_bits & 1:
            raise FileError(self.path, f"{name} is encrypted", "write the log without a password")
        with reading(self.path, _DAMAGED, f"{name} cannot be read"):
            if info.compress_type in _STORED_OR_DEFLATED:
                return self._archive.read(info)  # no more than it promises, with the checksum of the archive
            if info.compress_type == _ZSTD:
                return self._decompressed(info)
        problem = f"{name} is compressed by method {info.compress_type}"
        raise FileError(self.path, problem, "compress the log with deflate or zstd")

    def _decompressed(self, info: zipfile.ZipInfo) -> bytes:
        """Return what a member holds that is compressed by zstd, which Python reads from version 3.14 on."""
        pa = load("pyarrow", "to read zstd")
        with open(original(self.path), "rb") as stream:
            stream.seek(info.header_offset)
            lengths: tuple[int, int] = struct.unpack("<HH", stream.read(_HEADER)[26:])
            stream.seek(sum(lengths), 1)
            compressed = stream.read(info.compress_size)
        content: bytes = pa.CompressedInputStream(pa.BufferReader(compressed), "zstd").read(info.file_size + 1)
        if len(content) != info.file_size or zlib.crc32(content) != info.CRC:
            problem = f"{info.filename} does not match the length or checksum stored in the archive"
            raise FileError(self.path, problem, _DAMAGED)
        return content

    def _too_large(self, what: str, size: int) -> FileError:
        problem = f"{what} takes {bytes_in_words(size)} when it is decompressed"
        return FileError(self.path, problem, "raise CALIBRANT_MAX_MEMORY, if you trust the file")
