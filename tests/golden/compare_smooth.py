"""Print how far TorchUncertainty's smooth calibration errors are from those of calibrant, which are relplot's.

To run it, in an environment with calibrant and its extra torch:

    pip install seaborn && pip install --no-deps torch-uncertainty==0.13.0
    python tests/golden/compare_smooth.py

Each line is the largest relative difference among random sets: 50 to 5,000 scores of a beta distribution in single
precision, with outcomes whose log-odds are a linear function of those of the scores. Sets with an error up to 0.001 are
left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np
import record_peers
import torch

from calibrant.torch import SmoothCalibrationError

N_RANDOM = 100
BANDWIDTHS = ("auto", 0.1, 0.03)
LEAST = 1e-3  # of an error: single precision leaves few figures of smaller ones


def random() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Return random sets of single events."""
    for seed in range(N_RANDOM):
        rng = np.random.default_rng(seed)
        n = round(math.exp(rng.uniform(math.log(50), math.log(5_000))))
        a, b, shift = rng.uniform(0.3, 5), rng.uniform(0.3, 5), rng.normal(0, 0.5)
        p = np.clip(rng.beta(a, b, n), 1e-6, 1 - 1e-6).astype(np.float32)
        odds = rng.uniform(0.3, 2) * np.log(p / (1 - p.astype(np.float64))) + shift
        yield torch.from_numpy(p), torch.from_numpy((rng.random(n) < 1 / (1 + np.exp(-odds))).astype(np.int64))


def largest(
    sets: Iterable[tuple[torch.Tensor, torch.Tensor]], kernel: str, bandwidth: float | str
) -> tuple[float, int]:
    """Return the largest relative difference, and the number of sets."""
    calibration, *_ = record_peers._load_torch_uncertainty()
    found = []
    for probs, targets in sets:
        values = []
        for kind in (SmoothCalibrationError, calibration.SmoothCalibrationError):
            metric = kind(kernel_type=kernel, bandwidth=bandwidth)
            metric.update(probs, targets)
            values.append(float(metric.compute()))
        if values[0] > LEAST:
            found.append(abs(values[1] / values[0] - 1))
    return max(found), len(found)


def main() -> None:
    """Print a line for each kernel and bandwidth."""
    for kernel in ("logit", "reflected"):
        for bandwidth in BANDWIDTHS:
            gap, n = largest(random(), kernel, bandwidth)
            print(f"{n} random sets, {kernel}, bandwidth {bandwidth}: {100 * gap:.3f} %", flush=True)


if __name__ == "__main__":
    main()
