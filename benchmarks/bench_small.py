"""What `evaluate` costs for 200 rows: little more than the calls themselves."""

from __future__ import annotations

import naive
import pytest
import torch
from contest import Contest, within
from samples import binary, classes
from torchmetrics.functional.classification import binary_calibration_error, multiclass_calibration_error

import calibrant

N, N_BINS = 200, 15


def test_binary(contest: Contest) -> None:
    sample = binary(N)
    scores, targets = torch.from_numpy(sample.probs), torch.from_numpy(sample.targets)
    answers = contest(
        "200 scores of one event, values alone, warm; peer: ECE alone",
        lambda: calibrant.evaluate(sample.probs, sample.targets, level=None),
        floor=sample.probs,
        peers={"torchmetrics": lambda: float(binary_calibration_error(scores, targets, n_bins=N_BINS))},
        goals=[within(0.0005)],
        rounds=101,
        peer_rounds=101,
        settle=0,
    )
    report = answers.ours
    bins = naive.gaps(sample.probs, sample.targets, naive.uniform_bins(sample.probs, N_BINS))
    assert report["ece"].value == pytest.approx(bins.ece, rel=1e-9)
    assert report["ece"].value == pytest.approx(answers.peers["torchmetrics"], abs=1e-5)
    assert report["smece"].value == pytest.approx(naive.smooth_error(sample.probs, sample.targets), abs=2e-7)
    residuals = sample.probs.astype(float) - sample.targets
    assert report["brier"].value == pytest.approx((residuals**2).mean(), rel=1e-9)


def test_classes(contest: Contest) -> None:
    sample = classes(N, 10)
    scores, targets = torch.from_numpy(sample.probs), torch.from_numpy(sample.targets)
    answers = contest(
        "200 × 10 probabilities, values alone, warm; peer: ECE alone",
        lambda: calibrant.evaluate(sample.probs, sample.targets, level=None),
        floor=sample.probs,
        peers={"torchmetrics": lambda: float(multiclass_calibration_error(scores, targets, 10, n_bins=N_BINS))},
        goals=[within(0.002)],
        rounds=101,
        peer_rounds=101,
        settle=0,
    )
    report = answers.ours
    assert report["ece"].value == pytest.approx(naive.top_label(sample.probs, sample.targets, N_BINS).ece, rel=1e-9)
    assert report["ece"].value == pytest.approx(answers.peers["torchmetrics"], abs=1e-5)
    errors = naive.classwise_errors(sample.probs, sample.targets, N_BINS)
    assert report["classwise_ece"].value == pytest.approx(errors.mean(), rel=1e-9)
    assert report["brier"].value == pytest.approx(naive.brier(sample.probs, sample.targets), rel=1e-9)
    assert report["nll"].value == pytest.approx(naive.nll(sample.probs, sample.targets), rel=1e-9)
