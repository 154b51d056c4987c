"""Imports and first calls: complete processes, from the start of the interpreter to its end."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import naive
import numpy as np
import pytest
from contest import Contest, over_floor, within
from samples import Sample, binary, classes

import calibrant

#: Prints the ECE of the arrays in a file.
FIRST_CALL = """
import sys
import numpy
import calibrant
with numpy.load(sys.argv[1]) as file:
    report = calibrant.evaluate(file["probs"], file["targets"], level=LEVEL)
print(repr(report["ece"].value))
"""


def process(code: str, *arguments: str, cache: Path | None = None) -> str:
    """Run code in a new interpreter and return its output."""
    environment = {**os.environ, **({} if cache is None else {"NUMBA_CACHE_DIR": str(cache)})}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.strip()


def saved(sample: Sample, folder: Path) -> str:
    path = folder / "sample.npz"
    np.savez(path, probs=sample.probs, targets=sample.targets)
    return str(path)


CASES = {"1,000 scores of one event": lambda: binary(1_000), "1,000 × 10 probabilities": lambda: classes(1_000, 10)}


@pytest.fixture(params=CASES.items(), ids=["binary", "classes"])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str, float]:
    """What it is, the file that holds it, and its ECE."""
    name, make = request.param
    sample = make()
    if sample.probs.ndim == 2:
        expected = naive.top_label(sample.probs, sample.targets, 15).ece
    else:
        expected = naive.gaps(sample.probs, sample.targets, naive.uniform_bins(sample.probs, 15)).ece
    return name, saved(sample, tmp_path), expected


def test_import(contest: Contest) -> None:
    answers = contest(
        "`import calibrant`; floor and peer: `import numpy`, `import torchmetrics`",
        lambda: process("import numpy, calibrant; print(calibrant.__version__)"),
        floor=lambda: process("import numpy"),
        peers={"torchmetrics": lambda: process("import torchmetrics")},
        goals=[over_floor(0.15)],
        rounds=7,
        peer_rounds=3,
    )
    assert answers.ours == calibrant.__version__


@pytest.mark.parametrize(("level", "what"), [("None", "values alone"), (".95", "with intervals")])
def test_first_call(contest: Contest, case: tuple[str, str, float], tmp_path: Path, level: str, what: str) -> None:
    name, file, expected = case
    code = FIRST_CALL.replace("LEVEL", level)
    answers = contest(
        f"first call of a process, kernels in the cache: {name}, {what}; floor: `import numpy`",
        lambda: process(code, file, cache=tmp_path / "cache"),
        floor=lambda: process("import numpy"),
        goals=[within(1)] if level == "None" else [],
        rounds=7,
    )
    assert float(answers.ours) == pytest.approx(expected, rel=1e-9)


def test_cold(contest: Contest, case: tuple[str, str, float], tmp_path: Path) -> None:
    name, file, expected = case

    def fresh() -> str:
        return process(FIRST_CALL.replace("LEVEL", "None"), file, cache=Path(tempfile.mkdtemp(dir=tmp_path)))

    answers = contest(
        f"the same with an empty cache, once: {name}, values alone; floor: `import numpy`",
        fresh,
        floor=lambda: process("import numpy"),
        goals=[within(8)],
        rounds=3,
        warm_up=False,
    )
    assert float(answers.ours) == pytest.approx(expected, rel=1e-9)
