"""The classwise calibration error of 50,000 x 100 float32 probabilities."""

from __future__ import annotations

import naive
import pytest
import torch
from contest import Contest
from samples import classes
from torchmetrics.functional.classification import binary_calibration_error

import calibrant

N, CLASSES, N_BINS = 50_000, 100, 15


def test_classwise(contest: Contest) -> None:
    sample = classes(N, CLASSES)
    scores, targets = torch.from_numpy(sample.probs), torch.from_numpy(sample.targets)

    def loop() -> float:
        """Return the mean of a binary error for each class, as TorchUncertainty and PyHealth do."""
        errors = [binary_calibration_error(scores[:, k], (targets == k).long(), n_bins=N_BINS) for k in range(CLASSES)]
        return float(torch.stack(errors).mean())

    answers = contest(
        "50,000 × 100 probabilities: classwise ECE, 15 bins; peer: a loop over classes",
        lambda: calibrant.classwise_calibration_error(sample.probs, sample.targets, N_BINS),
        floor=sample.probs,
        peers={"torchmetrics": loop},
    )
    expected = naive.classwise_errors(sample.probs, sample.targets, N_BINS).mean()
    assert answers.ours == pytest.approx(expected, rel=1e-9)
    assert answers.ours == pytest.approx(answers.peers["torchmetrics"], abs=1e-5)
