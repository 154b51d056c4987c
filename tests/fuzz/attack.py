"""Attack the readers: mutate good files, read each in a process of its own kind, and hold the outcome to the rules.

    python tests/fuzz/attack.py --seconds 600                 # every format, ten minutes each
    python tests/fuzz/attack.py --format file.arrow --seed 3

A file is refused with an error of the library, or it is read, and then another reader must see the same rows and the
same mean score and outcome. No input may kill the process, raise anything else, take over 20 s, or take more than
1.5 GB. What breaks a rule is kept in a folder that is named at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import gzip
import io
import itertools
import json
import math
import multiprocessing
import os
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

if __name__ in ("__main__", "__mp_main__"):
    sys.path.insert(0, str(Path(__file__).resolve().parent))
from golden_files import golden, mutations
from workbooks import forged, rows

SECONDS = 20.0
BYTES = 1_500_000_000

#: The name of forged workbooks.
FORGED = "forged.xlsx"

#: The ways in which a file is asked for, by a name.
_EVENT = {"score": "score", "outcome": "outcome"}
ASKED: dict[str, dict[str, Any]] = {
    "event": _EVENT,
    "weights, groups": {**_EVENT, "weight": "weight", "by": "site"},
    "clusters": {**_EVENT, "clusters": ("patient", "site")},
    "classes": {"probs": "probs", "target": "label"},
    "condition": {**_EVENT, "where": "weight > 1"},
}


@dataclass
class Outcome:
    """What came of the attacks on one format."""

    tried: int = 0
    read: int = 0
    compared: int = 0
    faults: list[tuple[str, bytes]] = field(default_factory=list)


def options_for(name: str) -> list[str]:
    """Return the ways in which a format can be asked for."""
    if name.endswith(".npy"):
        return ["event"]
    ways = [way for way in ASKED if way != "condition" or not name.endswith(".npz")]
    return [way for way in ways if way != "classes" or not name.startswith("flat")]


def attacks(name: str, seed: int) -> Iterator[tuple[str, bytes]]:
    """Yield damaged files of a format without end, each with a way to ask for it; workbooks are forged instead."""
    if name == FORGED:
        yield from (("event", data) for _, data in forged(seed))
    rng = np.random.default_rng(seed)
    ways = options_for(name)
    for data in mutations(golden()[name], rng):
        yield ways[rng.integers(len(ways))], data


def attack(name: str, seed: int, count: int | None = None, seconds: float = math.inf, least: int = 0) -> Outcome:
    """Attack the reader of one format, until so many files were tried or so long, but with ``least`` files or more."""
    outcome, stop = Outcome(), time.monotonic() + seconds
    inputs = itertools.islice(attacks(name, seed), count)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name)
        worker = _Worker(path)
        try:
            for way, data in inputs:
                if outcome.tried >= least and time.monotonic() > stop:
                    break
                fault, read, compared = worker.read(way, data)
                outcome.tried, outcome.read = outcome.tried + 1, outcome.read + read
                outcome.compared += compared
                if fault:
                    outcome.faults.append((f"{name}, {way}: {fault}", data))
        finally:
            worker.end()
    return outcome


class _Worker:
    """A process that reads files, and a new one wherever one dies."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, self._path), daemon=True)
        self._process.start()
        theirs.close()
        self._pipe.recv()  # it is ready

    def read(self, way: str, data: bytes) -> tuple[str, bool, bool]:
        """Return what is wrong (empty: nothing), whether the file was read, and whether it was compared."""
        Path(self._path).write_bytes(data)
        self._pipe.send(way)
        try:
            if self._pipe.poll(SECONDS):
                answer: tuple[str, bool, bool] = self._pipe.recv()
                return answer
            fault = f"takes over {SECONDS:.0f} s"
            self._process.kill()
        except EOFError:
            self._process.join()
            fault = f"ends the process with {self._process.exitcode}"
        self.end()
        self._start()
        return fault, False, False

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _work(pipe: Connection, path: str) -> None:
    """Read the file again and again, as the other end of the pipe asks."""
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", message=".*created on Python 2")  # it is numpy's, and meant for the user
    _read(path, _EVENT, warm=True)
    pipe.send(None)
    while True:
        way = pipe.recv()
        _reset_peak()
        before = _peak()
        fault, read, compared = "", False, False
        try:
            summary = _read(path, ASKED[way])
            read = summary is not None
            expected = _expected(path, ASKED[way]) if summary is not None else None
            compared = expected is not None
            if expected is not None and not _alike(summary, expected):
                fault = f"read as {summary}, another reader sees {expected}"
        except Exception as error:  # the rule that is held here
            fault = f"raises {error!r}"
        if (taken := max(_peak() - before, _peak_of_children())) > BYTES:
            fault = fault or f"takes {taken / 1e9:.1f} GB"
        pipe.send((fault, read, compared))


def _read(path: str, asked: dict[str, Any], *, warm: bool = False) -> tuple[float, ...] | None:
    """Return rows, mean score and mean outcome; None for a file that is refused."""
    import calibrant
    from calibrant.errors import CalibrantError
    from calibrant.files import Options, read_predictions

    if warm:
        calibrant.evaluate([0.2, 0.7], [0, 1], n_resamples=0)
        return None
    if "CALIBRANT_FUZZ_SELF_TEST" in os.environ:  # die once, then raise
        marker = Path(path + ".marker")
        if not marker.exists():
            marker.touch()
            os._exit(7)
        raise ZeroDivisionError
    try:
        if path.endswith(".npy"):
            targets = os.path.join(os.path.dirname(path), "targets.npy")
            if not os.path.exists(targets):
                np.save(targets, np.tile([0, 1], 30))
            rows = read_predictions([path], Options(), targets_file=targets)
        else:
            rows = read_predictions([path], Options(**asked))
        if isinstance(rows, calibrant.files.FileSketch):
            return None
        calibrant.evaluate(
            rows.probs, rows.targets, weights=rows.weights, groups=rows.groups, clusters=rows.clusters, measures=["ece"]
        )
    except CalibrantError as error:
        str(error)
        return None
    probs = np.asarray(rows.probs, np.float64)
    return len(probs), float(probs.mean()), float(np.mean(rows.targets))


def _alike(ours: tuple[float, ...], theirs: tuple[float, ...]) -> bool:
    return ours[0] == theirs[0] and bool(np.allclose(ours, theirs, rtol=1e-6, atol=1e-9))


# ---------------------------------------------------------------- other readers


def _expected(path: str, asked: dict[str, Any]) -> tuple[float, ...] | None:
    """Return what another reader sees; None where it cannot read the file, or a condition was given."""
    if "where" in asked:
        return None
    reader = next(reader for ending, reader in _READERS if path.removesuffix(".gz").endswith(ending))
    score, outcome = asked.get("score", asked.get("probs")), asked.get("outcome", asked.get("target"))
    try:
        probs, targets = reader(path, score, outcome)
    except Exception:
        return None
    return len(probs), float(np.mean(probs, dtype=np.float64)), float(np.mean(targets, dtype=np.float64))


def _npz(path: str, score: str, outcome: str) -> tuple[Any, Any]:
    with np.load(path, allow_pickle=False) as archive:
        return archive[score], archive[outcome]


def _npy(path: str, *_: str) -> tuple[Any, Any]:
    return np.load(path, allow_pickle=False), np.tile([0, 1], 30)


def _text(path: str) -> str:
    data = Path(path).read_bytes()
    return (gzip.decompress(data) if path.endswith(".gz") else data).decode("utf-8-sig")


def _csv(path: str, score: str, outcome: str) -> tuple[Any, Any]:
    rows = list(csv.reader(io.StringIO(_text(path), newline=""), strict=True))
    at = [rows[0].index(name) for name in (score, outcome)]
    first, second = ([float(row[place]) for row in rows[1:] if row] for place in at)
    return first, second


def _json(path: str, score: str, outcome: str) -> tuple[Any, Any]:
    rows = [json.loads(line) for line in _text(path).split("\n") if line.strip()]
    first, second = ([row[name] for row in rows] for name in (score, outcome))
    return np.array(first, np.float64), np.array(second, np.float64)


def _forged(*_: str) -> tuple[Any, Any]:
    scores, outcomes = zip(*rows(), strict=True)
    return scores, outcomes


def _parquet(path: str, score: str, outcome: str) -> tuple[Any, Any]:
    import pyarrow.parquet as pq

    return _of_table(pq.read_table(path, page_checksum_verification=True), score, outcome)


def _arrow(path: str, score: str, outcome: str) -> tuple[Any, Any]:
    from pyarrow import ipc

    with open(path, "rb") as stream:
        is_file = stream.read(6) == b"ARROW1"
        stream.seek(0)
        return _of_table((ipc.open_file if is_file else ipc.open_stream)(stream).read_all(), score, outcome)


def _of_table(table: Any, score: str, outcome: str) -> tuple[Any, Any]:
    table = table.select([score, outcome])
    table.validate(full=True)
    return np.array(table[score].to_pylist(), np.float64), np.array(table[outcome].to_pylist(), np.float64)


_READERS: tuple[tuple[str, Callable[[str, str, str], tuple[Any, Any]]], ...] = (
    (".npz", _npz),
    (".npy", _npy),
    (".csv", _csv),
    (".jsonl", _json),
    (".xlsx", _forged),
    (".parquet", _parquet),
    (".arrow", _arrow),
    (".feather", _arrow),
)


# ---------------------------------------------------------------- memory of a process, on Linux


def _reset_peak() -> None:
    with contextlib.suppress(OSError):  # elsewhere the peak only grows, and a breach shows where it exceeds all before
        Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    """Return the most memory that this process has held, in bytes; 0 where the system does not say."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def _peak_of_children() -> int:
    """Return the most memory that any process held that this one has started."""
    try:
        import resource
    except ImportError:  # not POSIX
        return 0
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


# ---------------------------------------------------------------- the command


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--format", choices=sorted([*golden(), FORGED]), action="append", help="by default all, one after another"
    )
    parser.add_argument("--seconds", type=float, default=60, help="for each format")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    folder, kinds = Path(tempfile.mkdtemp(prefix="calibrant-fuzz-")), Counter[str]()
    for name in options.format or [*golden(), FORGED]:
        outcome = attack(name, options.seed, seconds=options.seconds)
        print(f"{name}: {outcome.tried} tried, {outcome.read} read, {outcome.compared} compared", flush=True)
        for number, (fault, data) in enumerate(outcome.faults):
            kinds[fault[:160]] += 1
            folder.joinpath(f"{number}-{name}").write_bytes(data)
    for fault, count in kinds.most_common():
        print(f"{count} × {fault}")
    print(f"what breaks a rule lies in {folder}" if kinds else "no rule was broken")
    return int(bool(kinds))


if __name__ == "__main__":
    sys.exit(main())
