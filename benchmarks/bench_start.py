"""Whole processes, from the start of the interpreter to its end: processor time, not seconds.

The floor imports what a report on a Parquet file cannot do without.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import naive
import numpy as np
import pytest
from contest import Contest, at_most_floors, over_floor, within
from samples import Sample, binary, classes

import calibrant

COMMAND = str(Path(sys.executable).with_name("calibrant"))
DIGITS = str(Path(__file__).resolve().parent.parent / "examples" / "digits.parquet")
FLOOR = "import numpy, scipy.special, pyarrow.parquet, click"

#: Prints the ECE of the arrays in a file.
CALLS = {
    "ours": """
import sys
import numpy
import calibrant
with numpy.load(sys.argv[1]) as file:
    print(repr(calibrant.evaluate(file["probs"], file["targets"], level=LEVEL)["ece"].value))
""",
    "torchmetrics": """
import sys
import numpy, torch
from torchmetrics.functional.classification import CALLED
with numpy.load(sys.argv[1]) as file:
    print(CALLED(torch.from_numpy(file["probs"]), torch.from_numpy(file["targets"]), n_bins=15).item())
""",
    "scikit-learn": """
import sys
import numpy
from sklearn.calibration import calibration_curve
with numpy.load(sys.argv[1]) as file:
    print(len(calibration_curve(file["targets"], file["probs"], n_bins=15)[0]))
""",
}

#: Prints the processor time of the first update of a metric, once torch is loaded.
FIRST_UPDATE = """
import time
import torch, torchmetrics
from calibrant.torch import CalibrationError
probs, targets = torch.rand(256, 10).softmax(1), torch.randint(0, 10, (256,))
start = time.process_time()
metric = CalibrationError("multiclass", num_classes=10)
metric.update(probs, targets)
print(time.process_time() - start)
"""


def processor_time() -> float:
    """Return the processor time of all processes that have been started and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def process(*command: str, cache: Path | None = None) -> str:
    """Run a program and return its output. Compiled Python is kept, as after an installation."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = str(cache)
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.strip()


def python(code: str, *arguments: str) -> str:
    return process(sys.executable, "-c", code, *arguments)


def saved(sample: Sample, folder: Path) -> str:
    path = folder / "sample.npz"
    np.savez(path, probs=sample.probs, targets=sample.targets)
    return str(path)


def test_report(contest: Contest, tmp_path: Path) -> None:
    answers = contest(
        f"`calibrant report examples/digits.parquet`, an empty cache; floor: `{FLOOR}`",
        lambda: process(COMMAND, "report", DIGITS, cache=Path(tempfile.mkdtemp(dir=tmp_path))),
        floor=lambda: python(FLOOR),
        goals=[at_most_floors(2.2)],
        rounds=7,
        clock=processor_time,
    )
    assert "ECE 0.064 (95 % CI 0.051" in " ".join(answers.ours.split())


def test_report_again(contest: Contest) -> None:
    answers = contest(
        "the same, later; the same floor",
        lambda: process(COMMAND, "report", DIGITS),
        floor=lambda: python(FLOOR),
        goals=[at_most_floors(2.2)],
        rounds=7,
        clock=processor_time,
    )
    assert "ECE 0.064 (95 % CI 0.051" in " ".join(answers.ours.split())


@pytest.mark.parametrize("words", ["--version", "--help", "completion bash"])
def test_command(contest: Contest, words: str) -> None:
    answers = contest(
        f"`calibrant {words}`; the same floor",
        lambda: process(COMMAND, *words.split()),
        floor=lambda: python(FLOOR),
        goals=[at_most_floors(0.4)],
        rounds=7,
        clock=processor_time,
    )
    assert "calibrant" in answers.ours


def test_import(contest: Contest) -> None:
    answers = contest(
        "`import numpy, calibrant`; floor and peer: `import numpy`, `import torchmetrics`",
        lambda: python("import numpy, calibrant; print(calibrant.__version__)"),
        floor=lambda: python("import numpy"),
        peers={"torchmetrics": lambda: python("import torchmetrics")},
        goals=[over_floor(0.025)],
        rounds=7,
        peer_rounds=3,
        clock=processor_time,
    )
    assert answers.ours == calibrant.__version__


@pytest.mark.parametrize(("level", "how"), [("None", ", values alone"), (".95", " with every interval")])
@pytest.mark.parametrize("kind", ["binary", "classes"])
def test_first_call(contest: Contest, tmp_path: Path, kind: str, level: str, how: str) -> None:
    if kind == "binary":
        what, sample, called = "1,000 scores of one event", binary(1_000), "binary_calibration_error"
        expected = naive.gaps(sample.probs, sample.targets, naive.uniform_bins(sample.probs, 15)).ece
    else:
        what, sample, called = "1,000 × 10 probabilities", classes(1_000, 10), "multiclass_calibration_error"
        expected = naive.top_label(sample.probs, sample.targets, 15).ece
    file = saved(sample, tmp_path)
    torchmetrics = CALLS["torchmetrics"].replace("CALLED(", f"{called}(").replace("CALLED", called)
    torchmetrics = torchmetrics.replace("n_bins", "num_classes=10, n_bins") if kind == "classes" else torchmetrics
    peers = {"torchmetrics": lambda: python(torchmetrics, file)}
    if kind == "binary":
        peers["scikit-learn"] = lambda: python(CALLS["scikit-learn"], file)
    answers = contest(
        f"a process that evaluates {what}{how}; floor: `import numpy`; peers: their ECE, a curve",
        lambda: python(CALLS["ours"].replace("LEVEL", level), file),
        floor=lambda: python("import numpy"),
        peers=peers,
        rounds=7,
        peer_rounds=3,
        clock=processor_time,
    )
    assert float(answers.ours) == pytest.approx(expected, rel=1e-9)
    assert float(answers.peers["torchmetrics"]) == pytest.approx(expected, abs=1e-4)


def test_first_update(contest: Contest) -> None:
    found: list[float] = []

    def ours() -> float:
        found.append(float(python(FIRST_UPDATE)))
        return found[-1]

    contest(
        "the first `update` of a metric in a process, 256 × 10, after torch is loaded",
        ours,
        floor=None,
        goals=[within(0.03)],
        rounds=5,
        clock=lambda: sum(found),
    )
    assert len(found) > 1
