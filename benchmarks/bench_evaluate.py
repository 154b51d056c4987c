"""Everything about 50,000 x 1,000 float32 predictions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import naive
import pytest
import torch
from contest import Contest, at_most_floors, faster_than
from probmetrics.metrics import Metrics
from samples import Sample
from torchmetrics.functional.classification import binary_calibration_error, multiclass_calibration_error

import calibrant

N_BINS = 15
#: Float32 sums of 50,000 rows, as torch adds them: 50,000 roundings of 2^-24 that partly cancel.
FLOAT32 = 1e-4


def torchmetrics_ece(scores: torch.Tensor, targets: torch.Tensor) -> float:
    return float(multiclass_calibration_error(scores, targets, num_classes=scores.shape[1], n_bins=N_BINS))


def check(report: calibrant.Report, sample: Sample, rtol: float) -> None:
    """Compare a report with the naive formulas."""
    bins = naive.top_label(sample.probs, sample.targets, N_BINS)
    expected = {
        "accuracy": (sample.probs.argmax(axis=1) == sample.targets).mean(),
        "brier": naive.brier(sample.probs, sample.targets),
        "nll": naive.nll(sample.probs, sample.targets),
        "ece": bins.ece,
        "rmsce": bins.rmsce,
        "mce": bins.mce,
    }
    assert {name: report[name].value for name in expected} == pytest.approx(expected, rel=rtol)


def test_probabilities(contest: Contest, wide: Sample) -> None:
    scores, targets = torch.from_numpy(wide.probs), torch.from_numpy(wide.targets)
    answers = contest(
        "50,000 × 1,000 probabilities, values alone, no classwise; peer: ECE alone",
        lambda: calibrant.evaluate(wide.probs, wide.targets, classwise=False, level=None),
        floor=wide.probs,
        peers={"torchmetrics": lambda: torchmetrics_ece(scores, targets)},
        goals=[at_most_floors(1.3)],
    )
    check(answers.ours, wide, rtol=1e-9)
    assert answers.ours["ece"].value == pytest.approx(answers.peers["torchmetrics"], abs=FLOAT32)


def test_logits(contest: Contest, wide: Sample) -> None:
    scores, targets = torch.from_numpy(wide.logits), torch.from_numpy(wide.targets)
    names = {"nll": "logloss", "brier": "brier", "ece": "ece-15", "rmsce": "rmsce-15", "mce": "mce-15"}
    metrics = Metrics.from_names(list(names.values()))
    answers = contest(
        "the same from logits; peers: five metrics, ECE alone",
        lambda: calibrant.evaluate(wide.logits, wide.targets, logits=True, classwise=False, level=None),
        floor=wide.logits,
        peers={
            "probmetrics": lambda: metrics.compute_all_from_labels_logits(targets, scores),
            "torchmetrics": lambda: torchmetrics_ece(scores, targets),
        },
        goals=[at_most_floors(1.8), faster_than("probmetrics", 20)],
        peer_rounds=3,
    )
    check(answers.ours, wide, rtol=1e-5)  # a softmax in float32 may move a row over the edge of a bin
    theirs = {ours: float(answers.peers["probmetrics"][name]) for ours, name in names.items()}
    assert {name: answers.ours[name].value for name in theirs} == pytest.approx(theirs, rel=FLOAT32, abs=FLOAT32)
    assert answers.ours["ece"].value == pytest.approx(answers.peers["torchmetrics"], abs=FLOAT32)


def classwise_loop(scores: torch.Tensor, targets: torch.Tensor) -> float:
    """Return the classwise error by torchmetrics: a binary error for each class."""
    errors = [
        binary_calibration_error(scores[:, k], (targets == k).long(), n_bins=N_BINS) for k in range(scores.shape[1])
    ]
    return float(torch.stack(errors).mean())


def test_classwise(contest: Contest, wide: Sample) -> None:
    scores, targets = torch.from_numpy(wide.probs), torch.from_numpy(wide.targets)
    answers = contest(
        "the same probabilities, values alone, with the classwise ECE of 1,000 classes; peer: a loop over classes",
        lambda: calibrant.evaluate(wide.probs, wide.targets, level=None),
        floor=wide.probs,
        peers={"torchmetrics": lambda: classwise_loop(scores, targets)},
        goals=[at_most_floors(5)],
        peer_rounds=1,
    )
    check(answers.ours, wide, rtol=1e-9)
    errors = naive.classwise_errors(wide.probs, wide.targets, N_BINS)
    assert answers.ours.classwise is not None
    assert answers.ours.classwise.errors == pytest.approx(errors, rel=1e-9)
    assert answers.ours["classwise_ece"].value == pytest.approx(answers.peers["torchmetrics"], abs=FLOAT32)


def test_classwise_logits(contest: Contest, wide: Sample) -> None:
    answers = contest(
        "the same logits, values alone, with the classwise ECE of 1,000 classes",
        lambda: calibrant.evaluate(wide.logits, wide.targets, logits=True, level=None),
        floor=wide.logits,
        goals=[],
    )
    check(answers.ours, wide, rtol=1e-5)
    expected = naive.classwise_errors(wide.probs, wide.targets, N_BINS).mean()
    assert answers.ours["classwise_ece"].value == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("layout", ["float32", "float16", "fortran", "logits"])
@pytest.mark.parametrize("classwise", [False, True])
def test_memory(benchmark: Any, layout: str, classwise: bool) -> None:
    """Measure the peak of the process and of NumPy's allocations: see peak.py."""
    # Freed blocks go back to the system at once; otherwise the allocator would reuse them unseen.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}

    def measure() -> dict[str, Any]:
        command = [sys.executable, str(Path(__file__).with_name("peak.py")), layout, str(int(classwise))]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        return dict(json.loads(done.stdout))

    measured = benchmark.pedantic(measure, rounds=1)
    allowed = 0.05 * measured["input"] + 96 * measured["rows"]
    benchmark.extra_info.update(measured, layout=layout, classwise=classwise, allowed=allowed)
    assert measured["ece"] == pytest.approx(measured["expected"], rel=1e-3)
    assert measured["traced"] <= allowed
    assert measured["resident"] is None or measured["resident"] <= allowed
