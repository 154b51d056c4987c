"""The logs of inspect: ``.eval``, a zip archive with a JSON file for each sample, and the same in one ``.json``.

The format is that of versions 0.3.x, whose logs have the schema versions 1 and 2. A sample holds the scores of its
scorers: a value such as ``C`` (correct) or ``I`` (incorrect), an answer, and metadata, where a scorer may put a stated
confidence. Where tokens have log-probabilities, the probability of the chosen letter follows from them.
"""

from __future__ import annotations

import math
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from calibrant.errors import FileError
from calibrant.files.choices import Protocol, Row, parse, scalars, softmax
from calibrant.files.local import load, original, reading
from calibrant.files.paths import open_bytes
from calibrant.inputs.memory import max_memory

# ---------------------------------------------------------------- members of zip archives

#: Bytes of all members together, in units of the memory that one input may take: they are read one by one.
_IN_ALL: Final = 16
_ZSTD: Final = 93
_STORED_OR_DEFLATED: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_HEADER: Final = 30  # bytes of a local header, before the name
_DAMAGED: Final = "copy the log again: it is damaged or was cut off"


class Archive:
    """The members of a zip archive by their names; of members of the same name the last one counts.

    Raises
    ------
    FileError
        For what is no archive, and members that promise more bytes than may be read.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        with reading(path, _DAMAGED, "is no readable zip archive"):
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
        """Return the content of a member.

        Raises
        ------
        FileError
            For a member that is damaged, encrypted, too large, or compressed in another way than deflate and zstd.
        """
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
            problem = f"{info.filename} differs from its length or checksum in the archive"
            raise FileError(self.path, problem, _DAMAGED)
        return content

    def _too_large(self, what: str, size: int) -> FileError:
        problem = f"{what} takes {size / 1e9:,.1f} GB when it is decompressed"
        return FileError(self.path, problem, "set CALIBRANT_MAX_MEMORY to more, if you trust the file")


NAME: Final = "inspect"

_HEADERS: Final = ("header.json", "_journal/start.json")  # the second is that of a log that was not finished
_SAMPLE: Final = re.compile(r"samples/(.+)_epoch_(\d{1,9})\.json", re.DOTALL)
_JSON_HEAD: Final = re.compile(rb'\s*\{\s*"version"\s*:\s*\d+\s*,\s*"status"\s*:\s*"')
_ANSWER: Final = re.compile(r"ANSWER\s*:[\s*]*([A-Z])\b", re.IGNORECASE)
_AGAIN: Final = "write it again: inspect log convert"
_LEAVE_OUT: Final = 'leave such samples out: --where "correct IS NOT NULL"'
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
    """A log: its header, and its samples one by one.

    Raises
    ------
    FileError
        For a file that is damaged or too large, and a log without a header.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._samples: list[Any] | None = None  # in an archive, each is a member
        if original(path).lower().endswith(".eval"):
            with Archive(path) as archive:
                name = next((name for name in _HEADERS if name in archive.members), None)
                if name is None:
                    problem = f"is an archive without {_HEADERS[0]}, which {NAME} writes"
                    raise FileError(path, problem, "give a log of inspect, or rename the file")
                self.header = self._json(name, archive.read(name))
        else:
            with reading(path), open_bytes(path) as stream:
                data = stream.read(max_memory() // 4 + 1)
            if len(data) > max_memory() // 4:
                problem = f"takes more than {max_memory() / 4e9:.3g} GB"
                raise FileError(path, problem, "write it as .eval, or set CALIBRANT_MAX_MEMORY to more")
            self.header = self._json("it", data)
            samples = self.header.pop("samples", None)
            if not isinstance(samples, list):
                raise FileError(path, f"holds no samples, which {NAME} logs", "log with log_samples=True")
            self._samples = samples
        if not isinstance(self.header.get("eval"), dict):
            problem = "its header has no 'eval'"
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
            harness=NAME,
            version=str(packages.get("inspect_ai", "")) if isinstance(packages, dict) else "",
            task=f"{task} (version {version})" if version not in (None, 0) else str(task),
            details=tuple(details),
            model=model if isinstance(model, str) else "",
        )

    def rows(self) -> Iterator[Row]:
        """Yield a row for each sample and epoch: by epochs, then by the samples' ids.

        Raises
        ------
        FileError
            For a sample that is damaged or of an unknown version of the format.
        """
        made = self.header["eval"]
        shared = {"task": str(made.get("task")), "model": str(made.get("model"))}
        for where, sample in self._all():
            missing = {"id", "epoch", "scores"} - sample.keys() - ({"scores"} if sample.get("error") else set())
            if missing:
                problem = f"{where} has no {', '.join(map(repr, sorted(missing)))}"
                raise self._unknown(problem)
            with reading(self.path, _AGAIN, f"{where} is not of the shape that {NAME} writes"):
                row = _row(sample, shared)
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
                problem = f"sample {number:,} is no object"
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
        return FileError(self.path, f"{problem} (log of version {version}; 1 and 2 are read)", _AGAIN)


def _order(name: str) -> tuple[int, str]:
    """Return what sorts ids as inspect does: numbers by their value."""
    return (int(name), "") if re.fullmatch(r"\d{1,18}", name) else (-1, name.zfill(20))


# ---------------------------------------------------------------- a sample


def _row(sample: Mapping[str, Any], shared: Mapping[str, str]) -> Row:
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
        missing["correct"] = (f"it has several scorers ({', '.join(scored)})", f"name the one to judge: {example}")
    else:
        why = "it ended with an error" if sample.get("error") else "it has no score"
        missing["correct"] = (why, _LEAVE_OUT)
    probability = _token_probabilities(sample)
    if isinstance(probability, str):
        missing["chosen_probability"] = (probability, "name a stated confidence: --score COLUMN --percent")
    else:
        cells["chosen_probability"] = probability
    return Row(cells, missing)


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
    return values, f"its score {shown} is neither correct nor incorrect"


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
        return "the answer does not contain ANSWER: and a letter"
    token = int(np.searchsorted(np.cumsum([len(text) for text in texts]), matches[-1].start(1), side="right"))
    letter, letters = matches[-1][1].upper(), [chr(ord("A") + k) for k in range(len(choices))]
    candidates = _candidates(tokens[token])
    of_letters = {name: [value for text, value in candidates.items() if text.strip() == name] for name in letters}
    unknown = [name for name, values in of_letters.items() if not values]
    if letter not in letters or texts[token].strip() != letter or unknown:
        names = ", ".join(unknown) or letter
        return f"the log has no log-probability of the choice {names}: generate with top_logprobs of 20"
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
