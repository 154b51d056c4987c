"""1,000 updates of 10,000 rows and a compute by the torch metrics, as in an evaluation loop."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from collections.abc import Callable
from functools import cache
from typing import Any

import naive
import numpy as np
import pytest
import torch
from contest import Contest, faster_than
from samples import binary, classes
from torchmetrics import Metric
from torchmetrics.classification import BinaryCalibrationError, MulticlassCalibrationError

from calibrant import torch as ct

N_UPDATES, N_ROWS, N_BATCHES = 1_000, 10_000, 10


@cache
def torch_uncertainty() -> Any:
    """Import only the calibration metrics of TorchUncertainty: the full package needs torchvision."""
    spec = importlib.util.find_spec("torch_uncertainty")
    if spec is None or spec.submodule_search_locations is None:
        pytest.skip("needs torch-uncertainty")
    folder = spec.submodule_search_locations[0]
    for name in ("torch_uncertainty", "torch_uncertainty.metrics", "torch_uncertainty.metrics.classification"):
        package = types.ModuleType(name)
        package.__path__ = ["/".join([folder, *name.split(".")[1:]])]
        sys.modules.setdefault(name, package)
    return importlib.import_module("torch_uncertainty.metrics.classification.calibration")


def stream(metric: Metric, batches: list[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
    metric.reset()
    for k in range(N_UPDATES):
        metric.update(*batches[k % N_BATCHES])
    return metric.compute()


def size(metric: Metric, batches: list[tuple[torch.Tensor, torch.Tensor]]) -> str:
    """Return the bytes of the state after all updates; a list holds one tensor per update."""
    stream(metric, batches)
    states = metric.metric_state.values()
    total = sum(s.nbytes if isinstance(s, torch.Tensor) else sum(x.nbytes for x in s) for s in states)
    metric.reset()
    return f"{total / 1e6:.0f} MB" if total > 1e6 else f"{total:,} bytes"


def cut(probs: np.ndarray, targets: np.ndarray) -> list[tuple[torch.Tensor, torch.Tensor]]:
    parts = zip(np.split(probs, N_BATCHES), np.split(targets, N_BATCHES), strict=True)
    return [(torch.from_numpy(p.copy()), torch.from_numpy(y.copy())) for p, y in parts]


@pytest.fixture(scope="module")
def events() -> Any:
    return binary(N_ROWS * N_BATCHES)


@pytest.fixture(scope="module")
def rows() -> Any:
    return classes(N_ROWS * N_BATCHES, 10)


def run(
    contest: Contest, work: str, ours: Metric, peers: dict[str, Metric], sample: Any, goal: float, **how: Any
) -> Any:
    batches = cut(sample.probs, sample.targets)
    sizes = ", ".join(f"{name} {size(metric, batches)}" for name, metric in {"ours": ours, **peers}.items())
    calls: dict[str, Callable[[], Any]] = {
        name: lambda metric=metric: stream(metric, batches) for name, metric in peers.items()
    }
    return contest(
        f"{work}; state: {sizes}",
        lambda: stream(ours, batches),
        floor=None,
        peers=calls,
        goals=[faster_than(name, goal) for name in peers],
        rounds=5,
        warm_up=False,
        **how,
    )


def test_binary(contest: Contest, events: Any) -> None:
    answers = run(
        contest,
        f"{N_UPDATES:,} updates of {N_ROWS:,} scores of one event and `compute`: ECE, 15 bins",
        ct.CalibrationError("binary", num_bins=15),
        {"torchmetrics": BinaryCalibrationError(n_bins=15)},
        events,
        5,
        peer_rounds=3,
    )
    expected = naive.gaps(events.probs, events.targets, naive.uniform_bins(events.probs, 15)).ece
    assert answers.ours.item() == pytest.approx(expected, rel=1e-6)
    assert answers.peers["torchmetrics"].item() == pytest.approx(expected, abs=5e-3)  # 10^7 rows added up in float32


def test_multiclass(contest: Contest, rows: Any) -> None:
    answers = run(
        contest,
        f"{N_UPDATES:,} updates of {N_ROWS:,} × 10 probabilities and `compute`: ECE, 15 bins",
        ct.CalibrationError("multiclass", num_bins=15, num_classes=10),
        {"torchmetrics": MulticlassCalibrationError(10, n_bins=15)},
        rows,
        5,
        peer_rounds=3,
    )
    top, right = rows.probs.max(1), rows.probs.argmax(1) == rows.targets
    expected = naive.gaps(top, right, naive.uniform_bins(top, 15)).ece
    assert answers.ours.item() == pytest.approx(expected, rel=1e-6)
    assert answers.peers["torchmetrics"].item() == pytest.approx(expected, abs=2e-2)  # 10^7 rows added up in float32


def test_adaptive(contest: Contest, rows: Any) -> None:
    peer = torch_uncertainty().AdaptiveCalibrationError("multiclass", num_bins=15, num_classes=10)
    answers = run(
        contest,
        "the same: adaptive bins",
        ct.AdaptiveCalibrationError("multiclass", num_bins=15, num_classes=10),
        {"TorchUncertainty": peer},
        rows,
        5,
        peer_rounds=2,
    )
    # Each row counts 100 times, so that the bins of N // 15 rows may split a score.
    assert answers.ours.item() == pytest.approx(answers.peers["TorchUncertainty"].item(), abs=1e-3)


def test_smooth(contest: Contest, rows: Any) -> None:
    peer = torch_uncertainty().SmoothCalibrationError()
    answers = run(
        contest, "the same: smooth ECE", ct.SmoothCalibrationError(), {"TorchUncertainty": peer}, rows, 5, peer_rounds=1
    )
    assert answers.ours.item() == pytest.approx(answers.peers["TorchUncertainty"].item(), rel=1e-2)


def test_classwise(contest: Contest, rows: Any) -> None:
    peer = torch_uncertainty().ClasswiseCalibrationError(10)
    answers = run(
        contest,
        "the same: classwise ECE, 15 bins",
        ct.ClasswiseCalibrationError(10),
        {"TorchUncertainty": peer},
        rows,
        5,
        peer_rounds=1,
    )
    errors = [
        naive.gaps(rows.probs[:, k], rows.targets == k, naive.uniform_bins(rows.probs[:, k], 15)).ece for k in range(10)
    ]
    assert answers.ours.item() == pytest.approx(np.mean(errors), rel=1e-6)
    assert answers.peers["TorchUncertainty"].item() == pytest.approx(np.mean(errors), abs=2e-2)
