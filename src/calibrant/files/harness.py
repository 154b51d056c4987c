"""The logs of lm-evaluation-harness, which ``--log_samples`` writes: an object for each question.

The format is that of its versions 0.4.0 to 0.4.12. A question with choices holds a pair for each choice: the
log-likelihood, and whether it is what the model would write. ``acc`` and ``acc_norm`` say whether the most likely
choice is right.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from calibrant.errors import FileError, quoted
from calibrant.files.choices import Choices, Protocol, Row, finite, objects, parse, scalars
from calibrant.files.local import original
from calibrant.files.paths import reading

NAME: Final = "lm-evaluation-harness"

_KEYS: Final = frozenset({"doc_id", "doc", "target", "resps", "filtered_resps"})
_FILE_NAME: Final = re.compile(r"samples_(.+)_(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?)\.jsonl?(?:\.gz)?")
_LONGEST_RESULTS: Final = 1 << 26  # bytes of the file with the results
#: Metrics whose value is a pair: the place of the right choice, and something else.
_PAIRS: Final = ("brier_score", "likelihood", "f1", "mcc")
_NOT_CHOICES: Final = "the task has no choices with log-likelihoods"
_STATED: Final = "if the log holds a stated confidence, name it: --score COLUMN --percent"


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
        harness=NAME,
        version=harness_version if isinstance(harness_version, str) else "",
        task=name,
        details=details,
        model=model if isinstance(model, str) else "",
    )


def harness_rows(path: str) -> Iterator[Row]:
    """Yield the rows of a log.

    Raises
    ------
    FileError
        For an object without the keys of the harness, and log-likelihoods that are no numbers.
    """
    task = _task(path)
    config = _of_task(_results(path), "configs", task)
    delimiter = config.get("target_delimiter") if isinstance(config, Mapping) else None
    for where, sample in objects(path):
        missing = sorted(_KEYS - sample.keys())
        if missing:
            problem = f"{where} lacks {', '.join(map(repr, missing))}, which {NAME} writes"
            raise FileError(path, problem, "write the log again with --log_samples")
        cells: dict[str, Any] = {"question": f"{task}/{sample['doc_id']}", "task": task}
        cells |= scalars({name: value for name, value in sample.items() if not name.endswith("_hash")}, list(cells))
        cells.pop("target", None)
        cells["doc"] = scalars(sample["doc"]) or None
        with reading(path, "write the log again with --log_samples", f"{where} is not of the shape that {NAME} writes"):
            row = _row(path, where, sample, cells, delimiter)
        yield row


def _row(path: str, where: str, sample: Mapping[str, Any], cells: dict[str, Any], delimiter: Any) -> Row:
    pairs = sample["filtered_resps"]
    are_pairs = isinstance(pairs, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in pairs)
    if not are_pairs or len(pairs) < 2:
        correct = _truth(sample, "acc", "exact_match")
        missing = dict.fromkeys(("probs", "target", "chosen_probability"), (_NOT_CHOICES, _STATED))
        if correct is None:
            missing["correct"] = ("the log has no acc and no exact_match of 0 or 1", "name it: --outcome COLUMN")
        return Row(cells if correct is None else cells | {"correct": int(correct)}, missing)
    if _holds(sample, "acc_mutual_info") and len(pairs) % 2 == 0:
        pairs = pairs[: len(pairs) // 2]  # log-likelihoods without the question follow
    likelihoods = finite([pair[0] for pair in pairs])
    if likelihoods is None:
        problem = f"{where} has a log-likelihood that is no number"
        raise FileError(path, problem, "run the evaluation again, or leave the question out")
    chosen = int(np.argmax(likelihoods))
    texts = _texts(sample, len(pairs), delimiter)
    acc = _truth(sample, "acc")
    right, why = _right(sample, chosen, len(pairs), texts, acc)
    row = Choices(likelihoods, right, texts, why).row(cells, acc)
    if acc is not None and right and (chosen in right) != bool(acc):
        problem = f"its acc is {acc:g}, which does not follow from its log-likelihoods and target"
        columns = ("probs", "target", "chosen_probability")
        row.missing.update(dict.fromkeys(columns, (problem, "name the score and the outcome: --score, --outcome")))
    for metric in ("acc_norm", "acc_bytes"):
        value, column = _truth(sample, metric), f"{metric}_probs"
        if value is not None and right and column in cells and (np.argmax(cells[column]) in right) != bool(value):
            problem = f"its {metric} is {value:g}, which does not follow from the texts of the choices"
            row.missing[column] = (problem, "judge the log-likelihoods without lengths: leave --probs out")
    return row


# ---------------------------------------------------------------- the right choice


def _right(
    sample: Mapping[str, Any], chosen: int, count: int, texts: Sequence[str], acc: float | None
) -> tuple[tuple[int, ...], str]:
    """Return the places of the right choices; where none is certain, why.

    The log writes the target as text, whether it is a place or the choice itself. What does not agree with ``acc`` is
    not the target.
    """
    for metric in _PAIRS:
        pair = sample.get(metric)
        if isinstance(pair, list) and len(pair) == 2:
            places = pair[0] if isinstance(pair[0], list) else [pair[0]]
            if places and all(type(place) is int for place in places):
                return _inside(places, count)
    target = str(sample["target"]).strip()
    if re.fullmatch(r"\[\s*\d{1,9}(\s*,\s*\d{1,9})*\s*\]", target):
        return _inside([int(place) for place in re.findall(r"\d+", target)], count)
    candidates = {int(target)} if re.fullmatch(r"\d{1,9}", target) and int(target) < count else set()
    alike = [place for place, text in enumerate(texts) if text.strip() == target]
    candidates |= set(alike) if len(alike) == 1 else set()
    if acc is not None:
        agreeing = {place for place in candidates or range(count) if (place == chosen) == bool(acc)}
        candidates = agreeing or candidates
    if len(candidates) == 1:
        return tuple(candidates), ""
    return (), f"its target {quoted(target[:40])} does not say which of the {count} choices is right"


def _inside(places: Sequence[int], count: int) -> tuple[tuple[int, ...], str]:
    inside = tuple(place for place in dict.fromkeys(places) if 0 <= place < count)
    return inside, "" if inside else f"its target is not among the {count} choices"


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


def _holds(sample: Mapping[str, Any], metric: str) -> bool:
    return metric in sample or metric in (sample.get("metrics") or ())


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
